"""Public rows that are asked about in rounds, each chosen by the labels of those before; all are paid for first."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int
from pate.core.seeds import training_seed
from pate.exceptions import InvalidInputError
from pate.jobs._choice import QueryChoice
from pate.jobs._inputs import take
from pate.ledger import Registration
from pate.release import (
    Asking,
    Evidence,
    LabelSession,
    Outcome,
    Priced,
    Quote,
    ReleaseTerms,
    cast_votes,
    opened,
    price_of,
    session_left,
)
from pate.release._pipeline import with_affordable_counts
from pate.votes import ABSTAIN, Voter, Votes


@dataclass(frozen=True, eq=False)
class Chooser:
    """Whoever chooses rows, by public rows and released labels alone, and a look at what comes of it.

    Attributes
    ----------
    choice : QueryChoice
    rows : array or DataFrame of shape (n_public, n_features)
        Public rows as numbers, for choosing among them.
    random_state : int or None
    """

    choice: QueryChoice
    rows: Any
    random_state: int | None

    def rounds(self, n_queries: int) -> tuple[int, ...]:
        """Return how many rows each round asks about."""
        found = tuple(self.choice.rounds(n_queries))
        if not found or any(check_int("a round of select", n, low=1) < 1 for n in found) or sum(found) != n_queries:
            raise InvalidInputError(f"select must ask {n_queries} rows in its rounds, got rounds of {found}.")
        return found

    def choose(
        self, n: int, labels: npt.NDArray[np.int64], open_rows: npt.NDArray[np.int64], number: int
    ) -> npt.NDArray[np.int64]:
        """Return a round's rows, ascending, and see that a plug-in gave what it may."""
        seed = self.random_state
        if seed is not None and number:
            seed = training_seed(seed, 0xADA, number)
        found = self.choice.choose(self.rows, n, labels=labels.copy(), open_rows=open_rows, random_state=seed)
        rows = np.unique(np.asarray(found))
        if rows.dtype.kind not in "iu" or not 1 <= len(rows) <= n or not np.isin(rows, open_rows).all():
            raise InvalidInputError(
                f"select chose {len(rows)} rows that are not 1 to {n} positions of open rows. Return some of open_rows."
            )
        return rows.astype(np.int64)


@dataclass(frozen=True, eq=False)
class RoundsPlan:
    """What :class:`pate.release.BatchPlan` is, for a session: ``run`` takes all public rows, and chooses among them.

    Attributes
    ----------
    terms : ReleaseTerms
    asking : Asking
    chooser : Chooser
    hashes : array of str, shape (n_public,)
        Of all public rows.
    n_teachers : int
    rounds : tuple of int
    n_fresh : int
        How many queries will be paid for now: none, where an earlier session is taken up again.
    quote : Quote
    """

    terms: ReleaseTerms
    asking: Asking
    chooser: Chooser
    hashes: npt.NDArray[np.object_]
    n_teachers: int
    rounds: tuple[int, ...]
    n_fresh: int
    quote: Quote

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        asking: Asking,
        chooser: Chooser,
        hashes: npt.NDArray[np.object_],
        *,
        n_teachers: int,
    ) -> RoundsPlan:
        """Return the plan, or raise :class:`BudgetExceededError`; nothing is spent."""
        n = min(asking.n_queries, len(set(hashes)))
        rounds = chooser.rounds(n)

        def priced(terms: ReleaseTerms) -> Priced:
            left = None
            if terms.ledger is not None:
                name = _session_name(chooser, rounds, hashes)
                left = session_left(asking.mechanism, terms, n_queries=n, n_teachers=n_teachers, name=name)
            due, n_fresh = (terms, n) if left is None else (replace(terms, counts=()), 0)
            return terms, n_fresh, price_of(n_fresh, asking.mechanism, due)

        terms, n_fresh, price = with_affordable_counts(priced, terms, asking)
        return cls(terms, asking, chooser, hashes, n_teachers, rounds, n_fresh, price)

    @property
    def n_free(self) -> int:
        """How many queries are paid for already."""
        return sum(self.rounds) - self.n_fresh

    def run(self, voter: Voter, rows: Any, evidence: Evidence) -> Outcome:
        """Ask round by round; labels released so far are all that decides the next round's rows."""
        labels = np.full(len(self.hashes), ABSTAIN, dtype=np.int64)
        _, first = np.unique(self.hashes, return_index=True)
        open_rows = np.sort(first).astype(np.int64)
        asked: list[Votes] = []
        chosen: list[npt.NDArray[np.int64]] = []
        session: LabelSession | None = None
        try:
            for number, n in enumerate(self.rounds):
                now = self.chooser.choose(n, labels, open_rows, number)
                votes = cast_votes(voter, take(rows, now), tuple(self.hashes[now]), evidence, n_queries=len(now))
                if session is None:
                    session = self._open(votes)
                    # Otherwise some labels are of teachers that an earlier process trained: nobody here saw those.
                    whole = session.n_left == session.quote.n_queries
                    evidence = replace(evidence, trained=evidence.trained and whole)
                labels[now] = self.asking.decided(session.ask(votes, on_exhausted="abstain")).labels
                open_rows = np.setdiff1d(open_rows, now, assume_unique=True)
                asked.append(votes)
                chosen.append(now)
            # All once more, free: one release, whose statement covers every round.
            assert session is not None
            order = np.argsort(np.concatenate(chosen))
            queries = np.concatenate(chosen)[order]
            counts = np.concatenate([votes.counts for votes in asked])[order]
            every = replace(asked[0], counts=counts, query_hashes=tuple(self.hashes[queries]))
            release = session.ask(every, on_exhausted="abstain")
        finally:
            if session is not None:
                session.close()
        return Outcome(self.asking.decided(evidence.told_in(release, voter)), queries, every, session.counts())

    def _open(self, votes: Votes) -> LabelSession:
        return opened(
            self.asking.mechanism,
            self.terms,
            Registration.of_votes(votes),
            votes.classes,
            n_queries=sum(self.rounds),
            classes_inferred=votes.classes_inferred,
            name=None if self.terms.ledger is None else _session_name(self.chooser, self.rounds, self.hashes),
            planned=(self.n_fresh, self.quote),
        )


def _session_name(chooser: Chooser, rounds: tuple[int, ...], hashes: npt.NDArray[np.object_]) -> str:
    """Return a session's name: everything that decides which rows are asked, but for the labels."""
    what = f"{type(chooser.choice).__name__} {rounds} {chooser.random_state}\n" + "\n".join(hashes)
    return f"pate label {hashlib.sha256(what.encode()).hexdigest()}"
