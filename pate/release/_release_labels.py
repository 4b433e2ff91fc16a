"""Labels of public rows, in one release: priced, charged and drawn in one transaction, with their statement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Self

import numpy as np

from pate._core.checks import shown
from pate._core.types import IntArray
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.ledger import Answer, Ledger, NewAnswer, Registration
from pate.mechanisms import (
    ANSWERED,
    NOT_ASKED,
    REFUSED,
    ConfidentGNMax,
    Draw,
    GaussianSum,
    GNMax,
    Mechanism,
    NoisyBallots,
    NoisyHistogram,
)
from pate.privacy.budget import Budget
from pate.privacy.convert import check_delta
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity
from pate.privacy.tiers import TierBudgets, as_budget
from pate.privacy.words import Guarantee
from pate.records import TierFacts
from pate.release._ballot_session import PaidCounts
from pate.release._labels import Asked, LabelRelease
from pate.release._quote import Quote, ReleaseTerms, price_as_planned, request_digest, warn_if_weak
from pate.release._statement import check_release_stated, make_statement
from pate.release._stored import stored_rounds_of, weaknesses
from pate.release._transaction import Transaction
from pate.release.statement.files import bind_statement
from pate.release.statement.model import PrivacyStatement
from pate.votes import ABSTAIN, BallotVotes, Votes


def release_labels(
    votes: Votes | BallotVotes | Mapping[str, Votes],
    mechanism: Mechanism,
    *,
    budget: Budget | Mapping[str, Budget],
    ledger: Ledger | None = None,
    max_answers: int | None = None,
    on_exhausted: str = "raise",
    noise_seed: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
) -> LabelRelease:
    """Release noisy labels of public rows from teachers' votes, after charging their cost to the budget or ledger.

    Parameters
    ----------
    votes : Votes, BallotVotes, or mapping of str to Votes
        The teachers' votes; those on several labels (BallotVotes) need :class:`pate.NoisyBallots`. If ``budget`` is a
        mapping: the votes of each tier's own teachers, on the same rows (docs/tiers.md).
    mechanism : Mechanism
    budget : Budget, or mapping of str to Budget
        The most this release may cost. A mapping has a budget for each tier: the most it may cost a record (or person)
        of that tier.
    ledger : Ledger or None
        The release must then also fit its total (if none was set, the first release's budget becomes the total). Charge
        and answers are stored there in one transaction before anything is returned. Queries that were answered before
        get their stored answers, free of charge.
    max_answers : int or None
        Cap on answers for mechanisms that may refuse; None takes the most the budget allows. The whole cap is
        charged, however many answers there will be.
    on_exhausted : {"raise", "abstain"}
        If the budget does not pay for all queries: raise before spending anything, or answer the first ones.
    noise_seed : int or None
        For tests and experiments only: the statement then says that nothing is private.
    tuning : str
        For the statement: what was tuned on the private data, and whether that is charged. Empty: the statement lists
        it as open.
    stated : mapping of str to str, or None
        What you vouch for in the statement, in your own words: ``dataset``, ``organisation``, ``purpose``, and how an
        assumption was ensured (``disjoint shards``, ``own shard only``, ``preprocessing``, ``public rows``,
        ``duplicates``, ``one person``, ``parameters``, ``classes``). An assumption that neither you state nor pate
        ensures itself is listed as open. These texts are public.

    Guarantees
    ----------
    Replace-one adjacency, both directions; queries may be chosen adaptively. The charge is a constant that is fixed
    before the noise is drawn: it depends on the number of queries, the most answers, and the noise.

    Raises
    ------
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy the release; nothing was spent.
    InvalidInputError
        A bad parameter.
    LedgerError
        The ledger could not be written; nothing is returned.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes
    >>> votes = Votes.from_counts([[98, 2], [5, 95], [60, 40]])
    >>> release_labels(votes, GNMax(sigma=1.0), budget=Budget(1.0, 1e-5))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=1.0, delta=1e-05) buys 0 of these 3 queries ...
    """
    top, tiers = as_budget(budget)
    of_tiers = None
    if tiers is not None or isinstance(votes, Mapping):
        of_tiers = VotesOfTiers.of(votes, tiers, mechanism, ledger)
    terms = ReleaseTerms(
        budget=top,
        tiers=tiers,
        ledger=ledger,
        max_answers=max_answers,
        on_exhausted=on_exhausted,
        noise_seed=noise_seed,
        tuning=tuning,
        stated=stated,
    )
    whole = votes if of_tiers is None else of_tiers.whole
    check_votes(whole, mechanism)
    assert isinstance(whole, Votes | BallotVotes)
    warn_if_weak(terms.largest_delta, whole.n_units, epsilon=top.epsilon)
    release, _ = released(whole, mechanism, terms, of_tiers=of_tiers)
    bind_statement(release.statement, ledger)
    return release


@dataclass(frozen=True, eq=False, repr=False)
class VotesOfTiers:
    """The votes of each tier's own teachers: as those of one ensemble, ``whole``, and apart. Sensitive.

    Attributes
    ----------
    whole : Votes
        All of them with one vote each; what is released are the counts by weight.
    counts : int array of shape (n_tiers, n_queries, n_classes)
        In the order of the tiers' names.
    facts : tuple of (name, weight, n_units)
    """

    whole: Votes
    counts: IntArray
    facts: TierFacts

    @classmethod
    def of(cls, votes: object, tiers: TierBudgets | None, mechanism: object, ledger: object) -> Self:
        """Return them, refused unless there are votes and a budget for each tier, and a price for it."""
        if tiers is None or not isinstance(votes, Mapping) or set(votes) != set(tiers.names):
            raise InvalidInputError(
                "votes and budget must be of the same tiers, got "
                f"{shown(sorted(map(str, votes))) if isinstance(votes, Mapping) else 'votes without tiers'} and "
                f"{'one budget for all' if tiers is None else shown(list(tiers.names))}. Say release_labels({{'gold': "
                "votes, ...}, mechanism, budget={'gold': Budget(3.0, 1e-5), ...})."
            )
        parts = [votes[name] for name in tiers.names]
        for part in parts:
            check_votes(part)
        if type(mechanism) is not NoisyHistogram:
            raise InvalidInputError(
                f"mechanism must be a NoisyHistogram with budgets per tier, got {shown(mechanism)}: a tier's charge "
                "follows from mu alone, by which GNMax costs as much as the counts whose argmax it is."
            )
        if ledger is not None:
            raise InvalidInputError(
                "ledger must be None with budgets per tier of teachers: a ledger keeps the tiers of records that vote "
                "alone. Release once, or take voters='records'."
            )
        alike = {(p.classes, p.unit, p.n_queries, p.query_hashes) for p in parts}
        if len(alike) > 1 or any(p.n_units is None for p in parts):
            raise InvalidInputError(
                "votes of all tiers must be on the same rows, of the same classes and unit, and say the number of "
                "units (n_units), which is public. Let the ensembles vote on one X_public, with the same classes=."
            )
        prints = [p.fingerprint for p in parts if p.fingerprint is not None]
        if len(set(prints)) < len(prints):
            raise InvalidInputError(
                "votes of each tier must be of teachers of that tier's own records, got the same data twice. Fit one "
                "ensemble on each tier's records."
            )
        whole = replace(
            parts[0],
            counts=np.sum([p.counts for p in parts], axis=0),
            labels=None,
            n_teachers=sum(p.n_teachers for p in parts),
            n_units=sum(p.n_units or 0 for p in parts),
            classes_inferred=any(p.classes_inferred for p in parts),
            fingerprint=None,
            partition_seeded=any(p.partition_seeded for p in parts),
            races=tuple(sorted({seed for p in parts for seed in p.races})),
        )
        facts = tuple((name, weight, p.n_units or 0) for (name, weight), p in zip(tiers.pairs, parts, strict=True))
        return cls(whole, np.stack([p.counts for p in parts]), facts)


def released(
    votes: Votes | BallotVotes,
    mechanism: Mechanism,
    terms: ReleaseTerms,
    *,
    planned: tuple[int, Quote] | None = None,
    of_tiers: VotesOfTiers | None = None,
) -> tuple[LabelRelease, PaidCounts | None]:
    """Return what :func:`release_labels` does, on terms that are checked already, and the terms' counts.

    ``planned`` is a number of new queries and its price, see :func:`price_as_planned`; ``of_tiers`` are the votes on
    terms of tiers.
    """
    check_votes(votes, mechanism)
    check_mechanism(mechanism, votes.n_classes)
    ledger = terms.ledger
    inferred, tiers = votes.classes_inferred, bool(of_tiers)
    check_release_stated(terms.stated, unit=votes.unit, classes_inferred=inferred, tiers=tiers, mechanism=mechanism)
    data = Registration.of_votes(votes)
    transaction = Transaction(terms, data)
    questions = Questions.of(votes, mechanism, ledger)
    fresh = questions.fresh
    request, asked_for, counts = "", terms.counts, None
    if ledger is not None and votes.query_hashes is not None:
        request = request_digest(votes.query_hashes, mechanism, terms)
        if ledger.has_request(request):
            # The same call again: what it did not ask then (a cap was reached) it does not ask now.
            fresh = fresh[:0]
            if terms.counts:
                paid = ledger.find(request)
                assert paid is not None
                _, n_used, n_stored = stored_rounds_of(ledger, paid.id)
                counts = transaction.ballots_again(terms.counts, paid.id, n_used, n_stored)
                terms = replace(terms, counts=())
                transaction = Transaction(terms, data)
    price = price_as_planned(len(fresh), mechanism, terms, planned)
    asked = fresh[: price.n_queries]
    draw, release, bought = transaction.labels(
        mechanism,
        votes.counts[asked] if of_tiers is None else of_tiers.counts[:, asked],
        price,
        answers=questions.to_store(asked),
        facts=weaknesses(votes),
        request=request,
    )
    counts = counts or bought
    if counts is not None and counts.release is not None:
        release = counts.release  # what a count of these labels costs is stated with them
    units = None if of_tiers is None else of_tiers.facts
    statement = make_statement(votes, mechanism, price, terms, questions.sources(release), units=units)
    made = questions.answered(draw, asked, price, statement, asked_for)
    if of_tiers is None and not asked_for and not questions.known and isinstance(votes, Votes):
        made = replace(made, asked=Asked(asked, votes.n_teachers, votes.query_hashes))
    return made, None if counts is None else PaidCounts(counts, terms, data)


def check_votes(votes: object, mechanism: object = None) -> None:
    """Refuse what are no votes, and ballots of more labels than the mechanism is priced for."""
    if isinstance(votes, BallotVotes):
        if isinstance(mechanism, NoisyBallots) and mechanism.most_labels >= votes.most_labels:
            return
        raise InvalidInputError(
            f"mechanism must be NoisyBallots(sigma, most_labels={votes.most_labels}) for ballots of so many labels, "
            f"got {shown(mechanism)}. Nothing was spent."
        )
    if not isinstance(votes, Votes):
        raise InvalidInputError(
            f"votes must be pate.Votes, got {type(votes).__name__}. Use Votes.from_counts or Votes.from_labels."
        )


def check_mechanism(mechanism: object, n_classes: int) -> None:
    """Refuse what is no mechanism of labels of so many classes."""
    if not isinstance(mechanism, Mechanism):
        raise InvalidInputError(f"mechanism must be a mechanism such as GNMax(sigma=40), got {shown(mechanism)}.")
    mechanism.check_classes(n_classes)


@dataclass(frozen=True, eq=False)
class Questions:
    """Votes by what is asked of them: equal public rows are one query, which is asked, charged and stored once.

    ``known`` are stored answers by the position of the first row that asks; ``fresh`` the positions that are asked
    again; ``same_as`` the position of each row's first equal.
    """

    votes: Votes | BallotVotes
    mechanism: Mechanism
    known: Mapping[int, Answer]
    fresh: IntArray
    same_as: IntArray

    @classmethod
    def of(
        cls,
        votes: Votes | BallotVotes,
        mechanism: Mechanism,
        ledger: Ledger | None,
        held: Mapping[str, Answer] | None = None,
    ) -> Questions:
        """Return them; what is stored is in the ledger, or else in ``held``."""
        hashes, every = votes.query_hashes, np.arange(votes.n_queries)
        if hashes is None:
            return cls(votes, mechanism, {}, every, every)
        seen: dict[str, int] = {}
        same_as = np.array([seen.setdefault(h, i) for i, h in enumerate(hashes)], dtype=np.int64)
        stored = dict(held or {}) if ledger is None else ledger.stored(list(seen), mechanism.family)
        known = {i: stored[h] for h, i in seen.items() if h in stored}
        fresh = np.array([i for i in seen.values() if i not in known], dtype=np.int64)
        return cls(votes, mechanism, known, fresh, same_as)

    def to_store(self, asked: IntArray) -> Callable[[Draw], Iterator[NewAnswer]]:
        """Return what of a draw a ledger is to hold: what was answered or refused."""
        hashes, family = self.votes.query_hashes, self.mechanism.family

        def rows(draw: Draw) -> Iterator[NewAnswer]:
            labels, noisy, queries = draw.labels.tolist(), draw.noisy_counts, asked.tolist()
            # A refusal is an answer too, and asking again must not be a second chance.
            for place in np.flatnonzero(draw.status != NOT_ASKED).tolist():
                key = f"#{queries[place]}" if hashes is None else hashes[queries[place]]
                yield key, family, labels[place], None if noisy is None else noisy[place]

        return rows

    def sources(self, release: int | None) -> set[int]:
        """Return the ledger's releases that the answers come from, ``release`` among them."""
        found = {answer.release for answer in self.known.values() if answer.release}
        return found if release is None else found | {release}

    def answered(
        self,
        draw: Draw,
        asked: IntArray,
        price: Quote,
        statement: PrivacyStatement,
        counts: tuple[GaussianSum, ...] = (),
    ) -> LabelRelease:
        """Return the release of all rows, whether drawn now, stored before or not asked: paid for and stored."""
        n = self.votes.n_queries
        labels = np.full(n, ABSTAIN, dtype=np.int64)
        status = np.full(n, NOT_ASKED, dtype="<U9")
        noisy = np.full((n, self.votes.n_classes), np.nan) if draw.noisy_counts is not None else None
        labels[asked], status[asked] = draw.labels, draw.status
        if noisy is not None:
            noisy[asked] = draw.noisy_counts
        for i, answer in self.known.items():
            labels[i] = answer.label
            status[i] = REFUSED if answer.label == ABSTAIN else ANSWERED
            if noisy is not None and answer.noisy_counts is not None:
                noisy[i] = answer.noisy_counts
        noisy = None if noisy is None else noisy[self.same_as]
        rest = (self.votes.classes, statement.guarantee, statement, self.mechanism, price)
        return LabelRelease(labels[self.same_as], status[self.same_as], *rest, noisy, counts)


# A publishable upper bound on the data-dependent epsilon of given votes: drawn once, paid for, kept in a ledger.


def sanitised_epsilon(
    votes: Votes,
    mechanism: Mechanism,
    how: SmoothSensitivity,
    ledger: Ledger | None,
    *,
    delta: float,
    noise_seed: int | None = None,
) -> Guarantee:
    """Return the one sanitised epsilon of a request: from the ledger, or charged there and drawn.

    Parameters
    ----------
    votes : Votes
    mechanism : GNMax or ConfidentGNMax
    how : SmoothSensitivity
    ledger : Ledger
        Of these private data, with a total, counting in Renyi divergence.
    delta : float
    noise_seed : int or None
        For tests only.

    Raises
    ------
    InvalidInputError
        Another mechanism, no ledger with a total, or a delta that leaves nothing beside ``how.delta0``.
    BudgetExceededError
        The ledger cannot pay for it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pate import Budget
    >>> ledger = Ledger(
    ...     pathlib.Path(tempfile.mkdtemp()) / "l.sqlite",
    ...     total=Budget(9.0, 1e-5),
    ...     currency="renyi",
    ... )
    >>> how = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0)
    >>> votes = Votes.from_counts([[240, 10]] * 100)
    >>> first = sanitised_epsilon(votes, GNMax(40.0), how, ledger, delta=1e-5)
    >>> (
    ...     first == sanitised_epsilon(votes, GNMax(40.0), how, ledger, delta=1e-5),
    ...     len(ledger.releases()),
    ... )
    (True, 1)
    """
    if not isinstance(mechanism, GNMax | ConfidentGNMax) or getattr(mechanism, "offsets", None) is not None:
        raise InvalidInputError(
            f"sanitise must be None for {mechanism}: smooth sensitivity here covers GNMax and Confident-GNMax without "
            "offsets."
        )
    if ledger is None or ledger.total is None:
        raise InvalidInputError(
            "ledger must be given with sanitise, and have a total: the number is drawn once and paid for. Pass "
            "ledger=Ledger(path, total=Budget(...), currency='renyi') of these private data."
        )
    delta = check_delta(delta)
    how.delta_left(delta)
    terms, data = ReleaseTerms(budget=ledger.total, ledger=ledger, noise_seed=noise_seed), Registration.of_votes(votes)
    # Refused before anything is read off the votes; the registration makes the key by which they are recognised.
    if refusal := ledger.remaining().refusal(how.cost):
        raise BudgetExceededError(f"the ledger {str(ledger.path)!r} cannot pay for a sanitised epsilon: {refusal}.")
    transaction = Transaction(terms, data)
    ledger.register(data)
    said = json.dumps([str(mechanism), asdict(how), delta, terms.seeded, votes.counts.shape])
    content = hashlib.sha256(np.ascontiguousarray(votes.counts, dtype="<i8").tobytes()).hexdigest()
    request = ledger.keyed_digest(f"sanitised {said} {content}")
    if ledger.find(request) is None:
        transaction.sanitised(how, votes.counts, mechanism, delta, request=request)
    # What the ledger holds is what is released: two processes that ask at once get the first one's draw.
    row = ledger.find(request)
    assert row is not None
    return Guarantee(**row.facts["guarantee"])
