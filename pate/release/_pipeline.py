"""Plan, quote, vote, release, decide: from public rows to their labels, for any voter."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real
from pate._core.moved import takes_former_names
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.mechanisms import GaussianSum, Mechanism, NoisyHistogram
from pate.privacy.budget import Budget
from pate.privacy.compose.calibrate import calibrate
from pate.privacy.cost import Charge
from pate.release._ballot_session import PaidCounts
from pate.release._labels import LabelRelease
from pate.release._measured import SHARE, check_measure, measured_shares
from pate.release._quote import (
    FEWEST,
    Quote,
    ReleaseTerms,
    affordable_queries,
    check_useful,
    count_fresh,
    is_paid,
    price_of,
)
from pate.release._release_labels import check_mechanism, released
from pate.release._statement import (
    drawn_here,
    vouch_for_training,
    with_public_rows,
)
from pate.release.statement.fields import CLASSES_NAMED
from pate.release.statement.model import PrivacyStatement
from pate.votes import Voter, Votes

#: Terms, the number of new queries, and their price.
Priced = tuple[ReleaseTerms, int, Quote]


class Asking(NamedTuple):
    """How is asked, and how an answer is decided: public.

    Attributes
    ----------
    mechanism : Mechanism
    n_queries : int
    gap : float
        Abstain below so many votes of margin (:class:`NoisyHistogram` only).
    counts : tuple of GaussianSum
        By which the accuracy is measured in the end, within the same budget.
    must_count : bool
        Refuse where budget and ledger do not buy them beside the labels; else they are left out then.

    Examples
    --------
    >>> from pate import GNMax
    >>> Asking(GNMax(sigma=40.0), 100).gap
    0.0
    """

    mechanism: Mechanism
    n_queries: int
    gap: float = 0.0
    counts: tuple[GaussianSum, ...] = ()
    must_count: bool = False

    def decided(self, release: LabelRelease) -> LabelRelease:
        """Return the release with labels by the gap, where its counts are there; costs nothing."""
        return release if release.noisy_counts is None else release.decide(gap=self.gap)


@takes_former_names(anyway="force")
def plan_release(
    budget: Budget,
    n_public: int,
    *,
    n_teachers: int,
    n_classes: int = 2,
    n_records: int | None = None,
    mechanism: Mechanism | None = None,
    n_queries: int | None = None,
    gap: float | None = None,
    force: bool = False,
    measure: bool | str | None = False,
    n_units: int | None = None,
) -> Asking:
    """Return the mechanism, how many queries to ask and the gap below which to abstain, from public numbers alone.

    By default: as many queries as keep the noise of a :class:`NoisyHistogram` at or below 0.3 votes per teacher, but
    ten and one for each class at least, and all public rows at most (measured: ``docs/defaults.md``). Where the
    accuracy is measured the labels get the rest of the budget.

    Parameters
    ----------
    budget : Budget
    n_public : int
        Public rows at hand.
    n_teachers, mechanism, n_queries, gap, force
        See :class:`pate.PATEClassifier`.
    n_classes : int
        2 where it is not known yet.
    n_records : int or None
        Private records, where each is by itself.
    measure : bool, "by class" or None
        None: where noise alone leaves an interval of less than five points to either side, and no mechanism is named.
    n_units : int or None
        Private records or persons, which is public; needed to measure.

    Raises
    ------
    InvalidInputError
        A setting from which nearly nothing is to be expected (:func:`pate.release.check_useful`), unless ``force``.

    Examples
    --------
    >>> plan_release(Budget(1.0, 1e-5), 1000, n_teachers=250, n_classes=10)
    Asking(mechanism=NoisyHistogram(sigma=74.98...), n_queries=202, gap=0.0, counts=(), must_count=False)
    """
    if n_queries is not None:
        remedy = f"There are {n_public} public rows."
        n_queries = check_int("n_queries", n_queries, low=1, high=n_public, remedy=remedy)
    if gap is not None:
        gap = check_real("gap", gap, low=0)
    counts = _counts_of(budget, measure, n_units=n_units, named=mechanism is not None)
    if mechanism is not None:
        check_mechanism(mechanism, n_classes)
        if gap is not None and not isinstance(mechanism, NoisyHistogram):
            raise InvalidInputError(
                f"gap must be None for {mechanism}, got {gap!r}: only NoisyHistogram releases the counts from which a "
                "gap can be seen."
            )
        asking = Asking(mechanism, n_queries or n_public, gap or 0.0, counts, bool(measure))
    else:
        n_teachers = check_int("n_teachers", n_teachers, low=1)
        if n_queries is None:
            share = SHARE * len(counts)
            n_queries = min(n_public, max(n_classes, FEWEST, affordable_queries(budget, n_teachers, share=share)))
        calibrated = calibrate(_Beside(NoisyHistogram(sigma=1.0), counts), budget, n_queries=n_queries).labels
        asking = Asking(calibrated, n_queries, gap or 0.0, counts, bool(measure))
    if not force:
        check_useful(
            asking.mechanism,
            asking.n_queries,
            budget=budget if mechanism is None else None,
            n_public=n_public,
            n_teachers=n_teachers,
            n_classes=n_classes,
            n_records=n_records,
        )
    return asking


@dataclass(frozen=True)
class _Beside:
    """A mechanism of labels beside counts of fixed noise, to be calibrated together."""

    labels: NoisyHistogram
    counts: tuple[GaussianSum, ...]

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        found = self.labels.charge(n_queries, max_answers)
        for mechanism in self.counts:
            found = found + mechanism.charge(1)
        return found

    def scaled(self, factor: float) -> _Beside:
        return replace(self, labels=self.labels.scaled(factor))


def _counts_of(
    budget: Budget, measure: bool | str | None, *, n_units: int | None, named: bool
) -> tuple[GaussianSum, ...]:
    """Return the counts that the accuracy is measured by, each of its share of the budget's mu^2: a public decision."""
    measure = check_measure(measure)
    if n_units is None or (measure is None and named):
        return ()
    # The budget's, not what a ledger has left of it: the same plan again must find what it paid for.
    mu = 1 / GaussianSum.for_budget(budget).noise_multiplier
    return tuple(GaussianSum(1 / (math.sqrt(share) * mu)) for share in measured_shares(measure, n=n_units, mu=mu))


@dataclass(frozen=True)
class Evidence:
    """What this very run saw to, for the statement: nothing, unless it says so.

    Attributes
    ----------
    classes_inferred : bool or None
        The set of classes was read off the private labels; False: a person named every class.
    trained : bool
        The voter is an ensemble that this run cut shards for and trained.
    preprocessing, public_rows
        See :func:`pate.release.vouch_for_training`.
    method : str
        Why records voted, or DP-SGD learnt, where a public rule chose; empty where a person did.

    Examples
    --------
    >>> Evidence().trained
    False
    """

    classes_inferred: bool | None = None
    trained: bool = False
    preprocessing: str = "none"
    public_rows: str | None = None
    method: str = ""

    def message_in(self, release: LabelRelease, voter: Voter) -> LabelRelease:
        """Return the release with a statement that says so."""
        statement = release.statement
        # Where they were read off the labels, the statement says so elsewhere.
        if self.classes_inferred is False and any(a.name == "classes" for a in statement.assumptions):
            statement = statement.with_evidence("classes", CLASSES_NAMED.how, by="curator")
        if self.trained and drawn_here(statement, release.quote.n_queries, voter):
            statement = vouch_for_training(statement, preprocessing=self.preprocessing, public_rows=self.public_rows)
        return replace(release, statement=statement)

    def message_of_model(self, statement: PrivacyStatement) -> PrivacyStatement:
        """Return the statement of a model of records' ballots, or of DP-SGD, with what this run saw to.

        What became of the records before they were handed over, no run can see.
        """
        if any(a.name == "public rows" for a in statement.assumptions):
            statement = with_public_rows(statement, self.public_rows)
        if not self.method:
            return statement
        return replace(statement, mechanism=f"{statement.mechanism}; chosen by a public rule, as {self.method}")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run released, and what must stay private.

    Attributes
    ----------
    release : LabelRelease
        Public; in the order of ``queries``.
    queries : int64 array
        Positions of the public rows that were asked about.
    votes : Votes
        On those rows. **Sensitive.**
    counts : PaidCounts or None
        Counts of right answers that were charged with the labels and are not drawn yet.

    Examples
    --------
    >>> Outcome.__dataclass_params__.frozen
    True
    """

    release: LabelRelease
    queries: npt.NDArray[np.int64]
    votes: Votes
    counts: PaidCounts | None = None


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """Public rows that are asked about all at once, and what that will cost at most: priced once, before any vote.

    Attributes
    ----------
    terms : ReleaseTerms
    asking : Asking
    queries : int64 array
    hashes : tuple of str or None
        Of those rows; None asks all of them again, and no ledger recognises them.
    n_fresh : int
        How many of them are new queries.
    quote : Quote

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> terms = ReleaseTerms(budget=Budget(9.0, 1e-5))
    >>> plan = BatchPlan.of(
    ...     terms, Asking(GNMax(sigma=2.0), 2), np.array([3, 5]), ("a", "a")
    ... )
    >>> plan.n_fresh, plan.n_free, plan.quote.n_queries
    (1, 1, 1)
    >>> class Always:
    ...     classes_, n_teachers = (0, 1), 10
    ...
    ...     def vote(self, X):
    ...         return Votes.from_counts([[9, 1]] * len(X))
    >>> plan.run(Always(), [[0.0], [0.0]]).release.labels
    array([0, 0])
    """

    terms: ReleaseTerms
    asking: Asking
    queries: npt.NDArray[np.int64]
    hashes: tuple[str, ...] | None
    n_fresh: int
    quote: Quote

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        asking: Asking,
        queries: npt.NDArray[np.int64],
        hashes: tuple[str, ...] | None,
    ) -> BatchPlan:
        """Return the plan, or raise :class:`BudgetExceededError`; nothing is spent."""

        def priced(terms: ReleaseTerms) -> Priced:
            mechanism = asking.mechanism
            if hashes is None:
                return terms, len(queries), price_of(len(queries), mechanism, terms)
            paid = is_paid(hashes, mechanism, terms)
            n_fresh = 0 if paid else count_fresh(hashes, mechanism, terms)
            return terms, n_fresh, price_of(n_fresh, mechanism, replace(terms, counts=()) if paid else terms)

        terms, n_fresh, price = with_affordable_counts(priced, terms, asking)
        return cls(terms, asking, queries, hashes, n_fresh, price)

    @property
    def n_free(self) -> int:
        """How many rows are repeats, or were answered before."""
        return len(self.queries) - self.n_fresh

    def run(self, voter: Voter, rows: Any, evidence: Evidence | None = None) -> Outcome:
        """Let ``voter`` vote on ``rows``, those at ``queries``, release, and decide.

        Parameters
        ----------
        voter : Voter
        rows : array, DataFrame, ... of shape (n_queries, n_features)
        evidence : Evidence or None

        Raises
        ------
        InvalidInputError
            What the voter returned are not its votes on so many rows; nothing was spent.
        """
        evidence = evidence or Evidence()
        votes = cast_votes(voter, rows, self.hashes, evidence, n_queries=len(self.queries))
        release, counts = released(votes, self.asking.mechanism, self.terms, planned=(self.n_fresh, self.quote))
        return Outcome(self.asking.decided(evidence.message_in(release, voter)), self.queries, votes, counts)


def with_affordable_counts(price: Callable[[ReleaseTerms], Priced], terms: ReleaseTerms, asking: Asking) -> Priced:
    """Return what ``price`` says of the terms with the counts that are asked for, or without: a public decision.

    Unless they are required, counts are left out if the budget does not pay for all labels besides them, and if it pays
    for no label; those that are paid for already stay.
    """
    if not asking.counts:
        return price(terms)
    counted = replace(terms, counts=asking.counts)
    if asking.must_count:
        return price(counted)
    try:
        found = price(counted)
    except BudgetExceededError:
        return price(terms)
    _, n_fresh, quoted = found
    kept = not quoted.counts or quoted.n_queries == n_fresh > 0
    return found if kept else price(terms)


def cast_votes(voter: Voter, rows: Any, hashes: tuple[str, ...] | None, evidence: Evidence, *, n_queries: int) -> Votes:
    """Return the votes on public rows, under the hashes by which a ledger is to recognise them.

    Raises
    ------
    InvalidInputError
        They are no votes, or not of ``n_queries`` rows (what is asked was fixed by public information, not by the
        voter), or of another number of teachers than the voter says.

    Examples
    --------
    >>> class Always:
    ...     classes_, n_teachers = (0, 1), 10
    ...
    ...     def vote(self, X):
    ...         return Votes.from_counts([[9, 1]] * len(X))
    >>> cast_votes(Always(), [[0.0]], ("ab12",), Evidence(), n_queries=1).query_hashes
    ('ab12',)
    """
    votes = voter.vote(rows, **lean(voter))
    if not isinstance(votes, Votes):
        raise InvalidInputError(
            f"a voter must return pate.Votes, got {type(votes).__name__}. Use Votes.from_counts or Votes.from_labels."
        )
    for name, found, wanted in (
        ("n_queries", votes.n_queries, n_queries),
        ("n_teachers", votes.n_teachers, voter.n_teachers),
    ):
        if found != wanted:
            raise InvalidInputError(
                f"a voter must return votes of {name}={wanted!r}, as was asked and planned, got {found}. Nothing was "
                "released."
            )
    return replace(
        votes, query_hashes=hashes, classes_inferred=votes.classes_inferred or bool(evidence.classes_inferred)
    )


def lean(voter: Voter) -> dict[str, bool]:
    """Return the options of ``voter.vote`` that keep counts alone: there are teachers x rows of single votes."""
    return {"keep_labels": False} if "keep_labels" in inspect.signature(voter.vote).parameters else {}
