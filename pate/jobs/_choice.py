"""Choose the public rows that a job asks about, round by round, from public information alone: this costs nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int
from pate._core.curator import warn
from pate._core.secret import training_seed
from pate.data.queries import STRATEGIES, least_sure, select_queries
from pate.exceptions import InvalidInputError, StudentError, StudentWarning
from pate.ledger import Registration
from pate.models.students import check_is_student, fit_student, make_student, try_student
from pate.release import (
    Asking,
    BatchPlan,
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
    with_affordable_counts,
)
from pate.votes import ABSTAIN, Voter, Votes, hash_queries

#: Strategies by name.
CHOICES = (*STRATEGIES, "uncertain")
#: Unsure rows that a round considers per question; its questions are spread over them.
_POOL = 5
_ONE_ROUND = "One round is what the other strategies do."
_CHUNK = 50_000


def take(rows: Any, positions: npt.NDArray[np.int64]) -> Any:
    """Return some rows of an array or a table."""
    return rows.iloc[positions] if hasattr(rows, "iloc") else rows[positions]


@runtime_checkable
class QueryChoice(Protocol):
    """An object that chooses public rows to ask about; a plug-in of :class:`pate.jobs.LabelJob`.

    It is given public rows and released labels, and nothing else: a choice made from them is post-processing.

    Examples
    --------
    >>> class Last:
    ...     def rounds(self, n_queries):
    ...         return (n_queries,)
    ...
    ...     def choose(self, rows, n_queries, *, labels, open_rows, random_state):
    ...         return open_rows[-n_queries:]
    >>> isinstance(Last(), QueryChoice)
    True
    """

    def rounds(self, n_queries: int) -> Sequence[int]:
        """Return how many rows each round asks about; they add up to ``n_queries``."""
        ...

    def choose(
        self,
        rows: Any,
        n_queries: int,
        *,
        labels: npt.NDArray[np.int64],
        open_rows: npt.NDArray[np.int64],
        random_state: int | None,
    ) -> npt.NDArray[np.int64]:
        """Return at most ``n_queries`` of ``open_rows``.

        Parameters
        ----------
        rows : array or DataFrame of shape (n_public, n_features)
        n_queries : int
        labels : int64 array of shape (n_public,)
            Class indices released so far, ``ABSTAIN`` (-1) where there is none.
        open_rows : int64 array
            Positions of the rows not asked about yet, ascending.
        random_state : int or None
        """
        ...


class OneRound:
    """All rows at once, by a strategy of :func:`pate.data.queries.select_queries`.

    Examples
    --------
    >>> rows, labels = np.zeros((5, 1)), np.full(5, ABSTAIN)
    >>> OneRound("first").choose(
    ...     rows, 2, labels=labels, open_rows=np.arange(5), random_state=0
    ... )
    array([0, 1])
    """

    def __init__(self, strategy: str = "random") -> None:
        self.strategy = check_choice("strategy", strategy, STRATEGIES)

    def rounds(self, n_queries: int) -> tuple[int, ...]:
        """Return one round."""
        return (n_queries,)

    def choose(
        self,
        rows: Any,
        n_queries: int,
        *,
        labels: npt.NDArray[np.int64],
        open_rows: npt.NDArray[np.int64],
        random_state: int | None,
    ) -> npt.NDArray[np.int64]:
        """Return the strategy's rows; labels are not used."""
        some = rows if len(open_rows) == np.shape(rows)[0] else take(rows, open_rows)
        return open_rows[select_queries(some, n_queries, strategy=self.strategy, random_state=random_state)]


class Uncertain:
    """A student learns from the labels so far, and the next round asks where it is least sure.

    The first round has half of the questions and spreads them over all rows by clustering: a student of a handful of
    labels does not know where it is unsure. Each later round takes the rows where the student's two likeliest classes
    are nearest to each other (margin sampling; Settles 2009, Section 3.1), and of five times as many as it needs it
    asks those that are spread best. Where the student cannot learn from the labels so far, the round is spread over all
    open rows, with a warning.

    Parameters
    ----------
    student : str or scikit-learn classifier
        With ``predict_proba``. Only ever fitted on released labels and public rows.
    n_rounds : int
        At least 2.

    Examples
    --------
    >>> rows = np.linspace(0, 1, 101).reshape(-1, 1)
    >>> labels = np.full(101, ABSTAIN)
    >>> labels[[0, 10, 90, 100]] = [0, 0, 1, 1]
    >>> asked = Uncertain().choose(
    ...     rows,
    ...     3,
    ...     labels=labels,
    ...     open_rows=np.flatnonzero(labels == ABSTAIN),
    ...     random_state=0,
    ... )
    >>> bool((abs(rows[asked] - 0.5) < 0.1).all())
    True
    """

    def __init__(self, student: Any = "logistic-regression", *, n_rounds: int = 5) -> None:
        self.student = make_student(student)
        check_is_student(self.student)
        if not hasattr(self.student, "predict_proba"):
            raise InvalidInputError(
                f"student must have predict_proba to say how sure it is, got {self.student!r}. Use "
                "logistic-regression, random-forest, ..."
            )
        self.n_rounds = check_int("n_rounds", n_rounds, low=2, remedy=_ONE_ROUND)

    def rounds(self, n_queries: int) -> tuple[int, ...]:
        """Return half of the questions, and the other half in equal parts.

        Examples
        --------
        >>> Uncertain(n_rounds=4).rounds(20)
        (10, 4, 3, 3)
        """
        rest = n_queries // 2
        parts = np.array_split(np.arange(rest), min(self.n_rounds - 1, rest)) if rest else []
        return (n_queries - rest, *(len(part) for part in parts))

    def try_out(self, rows: Any, n_queries: int, n_classes: int) -> None:
        """Refuse, before anything is paid for, a student that could not learn from the first round's labels."""
        first = self.rounds(n_queries)[0]
        queries = np.arange(min(first, np.shape(rows)[0]))
        try_student(self.student, rows, n_classes=n_classes, queries=queries, n_answers=len(queries))

    def choose(
        self,
        rows: Any,
        n_queries: int,
        *,
        labels: npt.NDArray[np.int64],
        open_rows: npt.NDArray[np.int64],
        random_state: int | None,
    ) -> npt.NDArray[np.int64]:
        """Return the rows where the student is least sure, spread out."""
        answered = np.flatnonzero(labels != ABSTAIN)
        student = None
        if len(np.unique(labels[answered])) > 1:  # else there is nothing to be sure of yet
            try:
                seed = training_seed(random_state, 0x57D)
                student = fit_student(self.student, take(rows, answered), labels[answered], random_state=seed)
            except StudentError as error:  # every round is paid for: they are asked in any case
                warn(f"{error} This round's rows are spread over all open ones.", StudentWarning)
        if student is None:
            return OneRound("cluster").choose(
                rows, n_queries, labels=labels, open_rows=open_rows, random_state=random_state
            )
        sure = [
            student.predict_proba(take(rows, open_rows[start : start + _CHUNK]))
            for start in range(0, len(open_rows), _CHUNK)
        ]
        pool = open_rows[least_sure(np.concatenate(sure), min(len(open_rows), _POOL * n_queries))]
        return pool[select_queries(take(rows, pool), n_queries, strategy="cluster", random_state=random_state)]


def make_choice(select: Any, *, rounds: int | None = None, student: Any = None) -> QueryChoice:
    """Return a choice by name; one that has ``choose`` is returned as it is.

    Parameters
    ----------
    select : str or QueryChoice
        One of :data:`CHOICES`.
    rounds : int or None
        For ``"uncertain"``; None takes its own number.
    student : str, classifier or None
        Likewise.

    Examples
    --------
    >>> make_choice("uncertain", rounds=3).rounds(8)
    (4, 2, 2)
    >>> make_choice("best")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: select must be one of 'auto', 'first', 'random', 'spread', 'cluster', ...
    """
    if not isinstance(select, str) and isinstance(select, QueryChoice):
        chosen = select
    else:
        name = check_choice("select", select, CHOICES)
        if name == "uncertain":
            more = {} if rounds is None else {"n_rounds": check_int("rounds", rounds, low=2, remedy=_ONE_ROUND)}
            return Uncertain(*(() if student is None else (student,)), **more)
        chosen = OneRound(name)
    if rounds is not None or student is not None:
        raise InvalidInputError(
            f"rounds and student are for select='uncertain', got select={select!r}. Leave them out."
        )
    return chosen


# Public rows that are asked about in rounds, each chosen by the labels of those before; all are paid for first.


@dataclass(frozen=True, eq=False)
class Chooser:
    """Chooses rows by public rows and released labels alone, and checks what a plug-in returns."""

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
        """Return a round's rows, ascending, and check what a plug-in returned."""
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
    """A priced plan of questions in rounds; ``run`` takes all public rows, and chooses among them.

    ``n_fresh`` queries will be paid for now: none, where an earlier session is taken up again.
    """

    terms: ReleaseTerms
    asking: Asking
    chooser: Chooser
    hashes: npt.NDArray[np.object_]
    rounds: tuple[int, ...]
    name: str | None
    n_fresh: int
    quote: Quote

    @classmethod
    def of(
        cls, terms: ReleaseTerms, asking: Asking, chooser: Chooser, hashes: npt.NDArray[np.object_], *, n_teachers: int
    ) -> Self:
        """Return the plan, or raise :class:`BudgetExceededError`; nothing is spent."""
        n = min(asking.n_queries, len(set(hashes)))
        rounds = chooser.rounds(n)
        # All that decides which rows are asked, but for the labels.
        what = f"{type(chooser.choice).__name__} {rounds} {chooser.random_state}\n" + "\n".join(hashes)
        name = None if terms.ledger is None else f"pate label {hashlib.sha256(what.encode()).hexdigest()}"

        def priced(terms: ReleaseTerms) -> Priced:
            left = None
            if name is not None:
                left = session_left(asking.mechanism, terms, n_queries=n, n_teachers=n_teachers, name=name)
            due, n_fresh = (terms, n) if left is None else (replace(terms, counts=()), 0)
            return terms, n_fresh, price_of(n_fresh, asking.mechanism, due)

        terms, n_fresh, price = with_affordable_counts(priced, terms, asking)
        return cls(terms, asking, chooser, hashes, rounds, name, n_fresh, price)

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
        with ExitStack() as opens:
            for number, n in enumerate(self.rounds):
                now = self.chooser.choose(n, labels, open_rows, number)
                votes = cast_votes(voter, take(rows, now), tuple(self.hashes[now]), evidence, n_queries=len(now))
                if session is None:
                    session = opened(
                        self.asking.mechanism,
                        self.terms,
                        Registration.of_votes(votes),
                        votes.classes,
                        n_queries=sum(self.rounds),
                        classes_inferred=votes.classes_inferred,
                        name=self.name,
                        planned=(self.n_fresh, self.quote),
                    )
                    opens.callback(session.close)
                    # Otherwise some labels are of teachers that an earlier process trained: they were not checked here.
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
        return Outcome(self.asking.decided(evidence.message_in(release, voter)), queries, every, session.counts())


def plan_questions(
    terms: ReleaseTerms, asking: Asking, chooser: Chooser, hashed: Any, *, n_teachers: int
) -> BatchPlan | RoundsPlan:
    """Choose the rows, or how they will be chosen, and price them: a job's one quote.

    ``hashed`` are public rows as they stand in the file, so that another encoding still finds its stored answers.
    """
    if len(chooser.rounds(asking.n_queries)) > 1:
        hashes = np.array(hash_queries(hashed), dtype=object)
        return RoundsPlan.of(terms, asking, chooser, hashes, n_teachers=n_teachers)
    n_public = len(hashed)
    queries = chooser.choose(asking.n_queries, np.full(n_public, ABSTAIN), np.arange(n_public), 0)
    return BatchPlan.of(terms, asking, queries, hash_queries(take(hashed, queries)))
