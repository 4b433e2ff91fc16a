"""THE LOCK: the one place where something learnt from private data becomes public."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._random import NoiseSource
from pate._validation import check_choice, check_int, check_real
from pate.exceptions import BudgetExceededError, InvalidInputError, PrivacyParameterWarning
from pate.mechanisms import ANSWERED, NOT_ASKED, REFUSED, Draw, Mechanism, NoisyHistogram
from pate.privacy.budget import Budget
from pate.privacy.calibration import largest
from pate.privacy.charge import Charge
from pate.privacy.guarantee import Guarantee
from pate.privacy.ledger import Answer, Ledger
from pate.privacy.statement import PrivacyStatement
from pate.votes import ABSTAIN, Votes

_ASSUMPTIONS = (
    "every unit's records are in one shard only, and which shard does not depend on other units' records",
    "each teacher was trained on its own shard alone; whatever was fitted was fitted inside a shard or on public data",
    "the public rows, the set of classes and all parameters were chosen without looking at the private data",
)
_ACCOUNTING = {
    "gdp": "exact Gaussian composition: mu^2 adds up (Dong, Roth, Su 2022), converted exactly (Balle, Wang 2018)",
    "rdp": "Renyi composition, converted by Canonne, Kamath, Steinke 2020",
    "pure": "pure composition: epsilons add up",
}


@dataclass(frozen=True)
class Quote:
    """The price of a release, known before the votes are looked at.

    Attributes
    ----------
    n_queries : int
        How many queries will be asked.
    max_answers : int
        The cap on answers.
    charge : Charge
    guarantee : Guarantee
        Of the charge at the budget's delta.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> quote(100, GNMax(sigma=40.0), budget=Budget(2.0, 1e-5)).guarantee.epsilon.__round__(3)
    1.356
    """

    n_queries: int
    max_answers: int
    charge: Charge
    guarantee: Guarantee


def quote(
    n_queries: int,
    mechanism: Mechanism,
    *,
    budget: Budget,
    ledger: Ledger | None = None,
    max_answers: int | None = None,
    on_exhausted: str = "raise",
) -> Quote:
    """Return how many queries and answers the budget buys, and what they cost; nothing is spent.

    Parameters
    ----------
    n_queries : int
        How many one would like to ask.
    mechanism : Mechanism
    budget : Budget
        For this release.
    ledger : Ledger or None
        Also stay within what is left of its total.
    max_answers : int or None
        Cap on answers for mechanisms that may refuse; None takes the most the budget allows.
    on_exhausted : {"raise", "abstain"}
        What to do when the budget does not buy all queries.

    Raises
    ------
    BudgetExceededError
        The budget does not buy all of it, and ``on_exhausted="raise"``.

    Examples
    --------
    >>> from pate import Budget, ConfidentGNMax
    >>> m = ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40)
    >>> quote(640, m, budget=Budget(2.0, 1e-5)).max_answers
    178
    """
    n_queries = check_int("n_queries", n_queries, low=0)
    _check_budget(budget)
    check_choice("on_exhausted", on_exhausted, ["raise", "abstain"])
    if max_answers is not None:
        max_answers = check_int("max_answers", max_answers, low=1)

        if not mechanism.may_refuse:
            n_queries = min(n_queries, max_answers)

    def fits(asked: int, cap: int | None) -> bool:
        charge = mechanism.charge(asked, cap)
        return budget.allows(charge) and (ledger is None or ledger.allows(charge, default_total=budget))

    asked, cap = n_queries, max_answers
    if mechanism.may_refuse and cap is None and n_queries:
        # The cap is a public constant: it depends on the budget alone.
        cap = largest(lambda c: fits(n_queries, c), n_queries) or None
    if not fits(asked, cap):
        affordable = largest(lambda n: fits(n, max_answers), n_queries)
        if on_exhausted == "raise":
            left = "" if ledger is None else " and what is left in the ledger"
            raise BudgetExceededError(
                f"the budget {budget}{left} buys {affordable} of these {n_queries} queries by {mechanism}. "
                "Ask fewer, use more noise (pate.calibrate), or pass on_exhausted='abstain'. Nothing was spent."
            )
        asked, cap = affordable, max_answers
    most = asked if cap is None else min(cap, asked)
    charge = mechanism.charge(asked, most)
    return Quote(asked, most, charge, charge.guarantee(budget.delta))


@dataclass(frozen=True, eq=False, repr=False)
class LabelRelease:
    """What was released: labels of public rows, and what they cost. Everything in it is public.

    Attributes
    ----------
    labels : int64 array of shape (n_queries,)
        Indices into ``classes``; ``ABSTAIN`` (-1) where refused or not asked.
    status : array of str, shape (n_queries,)
        ``"answered"``, ``"refused"`` or ``"not asked"``.
    classes : tuple
    mechanism : Mechanism
    quote : Quote
        What was charged now.
    guarantee : Guarantee
        Covers these labels.
    statement : PrivacyStatement
    noisy_counts : float array of shape (n_queries, n_classes) or None
        For :class:`NoisyHistogram`; NaN rows where not asked.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes
    >>> votes = Votes.from_counts([[98, 2], [5, 95]])
    >>> release = release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5))
    >>> release.labels, release.n_answered
    (array([0, 1]), 2)
    """

    labels: npt.NDArray[np.int64]
    status: npt.NDArray[np.str_]
    classes: tuple[Any, ...]
    mechanism: Mechanism
    quote: Quote
    guarantee: Guarantee
    statement: PrivacyStatement
    noisy_counts: npt.NDArray[np.float64] | None = None

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Mask of the queries with a label, shape (n_queries,)."""
        return np.asarray(self.labels != ABSTAIN)

    @property
    def n_queries(self) -> int:
        """Number of rows, answered or not."""
        return len(self.labels)

    @property
    def n_answered(self) -> int:
        """Number of rows with a label."""
        return int(self.answered.sum())

    def values(self, *, abstain: Any = None) -> list[Any]:
        """Return the class values, ``abstain`` where there is none.

        Examples
        --------
        >>> from pate import Budget, GNMax, Votes
        >>> votes = Votes.from_counts([[98, 2], [5, 95]], classes=["no", "yes"])
        >>> release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5)).values()
        ['no', 'yes']
        """
        return [abstain if i == ABSTAIN else self.classes[i] for i in self.labels]

    def decide(self, *, gap: float = 0.0, offsets: Sequence[float] | None = None) -> LabelRelease:
        """Decide anew from the released noisy counts: free, since it is post-processing.

        Parameters
        ----------
        gap : float
            Abstain where the largest noisy count leads the second by less, in votes.
        offsets : sequence of float, shape (n_classes,), or None
            Added to the noisy counts before the argmax, to favour rare classes.

        Returns
        -------
        LabelRelease
            The same release, other labels, no new cost.

        Raises
        ------
        InvalidInputError
            The mechanism did not release counts, or a parameter is out of range.

        Examples
        --------
        >>> from pate import Budget, NoisyHistogram, Votes
        >>> votes = Votes.from_counts([[98, 2], [51, 49]])
        >>> release = release_labels(votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5))
        >>> release.decide(gap=40).labels
        array([ 0, -1])
        """
        if self.noisy_counts is None:
            raise InvalidInputError(
                f"decide needs released noisy counts, but {self.mechanism} released labels only. "
                "Use NoisyHistogram(sigma=...), whose counts are public."
            )
        gap = check_real("gap", gap, low=0)
        scores = self.noisy_counts
        if offsets is not None:
            shift = np.asarray(offsets, dtype=np.float64)
            if shift.shape != (len(self.classes),) or not np.isfinite(shift).all():
                raise InvalidInputError(f"offsets must be {len(self.classes)} finite numbers, got {offsets!r}.")
            scores = scores + shift
        asked = ~np.isnan(scores).any(axis=1)
        labels = np.full(len(scores), ABSTAIN, dtype=np.int64)
        if asked.any():
            top = np.sort(scores[asked], axis=1)
            clear = top[:, -1] - top[:, -2] >= gap
            labels[asked] = np.where(clear, scores[asked].argmax(axis=1), ABSTAIN)
        status = np.where(asked, np.where(labels == ABSTAIN, REFUSED, ANSWERED), NOT_ASKED).astype("<U9")
        return replace(self, labels=labels, status=status)

    def to_frame(self, *, rows: npt.ArrayLike | None = None) -> Any:
        """Return a pandas DataFrame: row, label (class value or missing), status.

        Parameters
        ----------
        rows : int array of shape (n_queries,) or None
            Which public rows were asked about; None numbers them 0, 1, ...

        Examples
        --------
        >>> from pate import Budget, GNMax, Votes
        >>> votes = Votes.from_counts([[98, 2], [5, 95]], classes=["no", "yes"])
        >>> release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5)).to_frame()
           row label    status
        0    0    no  answered
        1    1   yes  answered
        """
        import pandas as pd

        return pd.DataFrame({"row": np.arange(self.n_queries), "label": self.values(), "status": self.status.tolist()})

    def __repr__(self) -> str:
        return (
            f"LabelRelease(n_queries={self.n_queries}, n_answered={self.n_answered}, mechanism={self.mechanism}, "
            f"epsilon={self.guarantee.epsilon:.4g}, delta={self.guarantee.delta:g})"
        )


def release_labels(
    votes: Votes,
    mechanism: Mechanism,
    *,
    budget: Budget,
    ledger: Ledger | None = None,
    max_answers: int | None = None,
    on_exhausted: str = "raise",
    noise_seed: int | None = None,
    tuning: str = "not declared by the curator",
) -> LabelRelease:
    """Release noisy labels of public rows, and charge for them first.

    Parameters
    ----------
    votes : Votes
    mechanism : Mechanism
    budget : Budget
        The most this release may cost.
    ledger : Ledger or None
        Also stay within its total (the first release's budget, if none was set), store charge and answers there in
        one transaction before anything is returned, and answer queries asked before from it, free.
    max_answers : int or None
        Cap on answers for mechanisms that may refuse; None takes the most the budget allows. The whole cap is
        charged, however many answers there will be.
    on_exhausted : {"raise", "abstain"}
        When the budget does not buy all queries: raise before spending anything, or answer the first ones.
    noise_seed : int or None
        For tests and experiments only: the statement then says that nothing is private.
    tuning : str
        What was tuned on the private data and whether that is charged, for the statement.

    Returns
    -------
    LabelRelease

    Guarantees
    ----------
    Replace-one adjacency, both directions, queries may be chosen adaptively. The charge is a constant fixed before
    the noise is drawn: so many queries asked and at most so many answers, at this noise.

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
    if not isinstance(votes, Votes):
        raise InvalidInputError(
            f"votes must be pate.Votes, got {type(votes).__name__}. Use Votes.from_counts or Votes.from_labels."
        )
    if not isinstance(mechanism, Mechanism):
        raise InvalidInputError(f"mechanism must be a mechanism such as GNMax(sigma=40), got {mechanism!r}.")
    _check_budget(budget)
    warn_if_weak(budget.delta, votes.n_units)
    noise = NoiseSource(noise_seed)
    # Equal public rows are one query: it is asked, charged and stored once.
    first, same_as = _distinct(votes)
    known = _stored_answers(votes, first, mechanism, ledger)
    fresh = np.array([i for i in first if i not in known], dtype=np.int64)
    price = quote(
        len(fresh),
        mechanism,
        budget=budget,
        ledger=ledger,
        max_answers=max_answers,
        on_exhausted=on_exhausted,
    )
    asked = fresh[: price.n_queries]
    draw = mechanism.sample(votes.counts[asked], noise, max_answers=price.max_answers)

    release_id = None
    if ledger is not None and len(asked):
        if ledger.total is None:
            ledger.open_total(budget)
        release_id = ledger.record(
            price.charge,
            mechanism=str(mechanism),
            n_queries=len(asked),
            answers=_answers_to_store(votes, mechanism, draw, asked),
            facts={"max_answers": price.max_answers, "unit": votes.unit, "seeded": noise.seeded},
        )

    labels = np.full(votes.n_queries, ABSTAIN, dtype=np.int64)
    status = np.full(votes.n_queries, NOT_ASKED, dtype="<U9")
    noisy = np.full((votes.n_queries, votes.n_classes), np.nan) if draw.noisy_counts is not None else None
    labels[asked], status[asked] = draw.labels, draw.status
    if noisy is not None:
        noisy[asked] = draw.noisy_counts
    for i, answer in known.items():
        labels[i] = answer.label
        status[i] = REFUSED if answer.label == ABSTAIN else ANSWERED
        if noisy is not None and answer.noisy_counts is not None:
            noisy[i] = answer.noisy_counts
    labels, status = labels[same_as], status[same_as]
    noisy = None if noisy is None else noisy[same_as]

    sources = {answer.release for answer in known.values()} | ({release_id} if release_id else set())
    statement = _statement(votes, mechanism, price, budget, ledger, sources, noise.seeded, tuning)
    return LabelRelease(labels, status, votes.classes, mechanism, price, statement.guarantee, statement, noisy)


def count_fresh(query_hashes: Sequence[str], mechanism: Mechanism, ledger: Ledger | None) -> int:
    """Return how many distinct queries have no stored answer yet: those are what a release will be charged for.

    Examples
    --------
    >>> from pate import GNMax
    >>> count_fresh(["a", "b", "a"], GNMax(sigma=1.0), None)
    2
    """
    distinct = list(dict.fromkeys(query_hashes))
    return len(distinct) - (0 if ledger is None else len(ledger.stored(distinct, mechanism.family)))


def _check_budget(budget: Budget) -> None:
    if not isinstance(budget, Budget):
        raise InvalidInputError(f"budget must be pate.Budget(epsilon, delta), got {budget!r}.")


def warn_if_weak(delta: float, n_units: int | None) -> None:
    """Warn when delta is not below one over the number of units.

    Examples
    --------
    >>> warn_if_weak(1e-5, 1000)
    """
    if n_units is not None and delta >= 1 / n_units:
        warnings.warn(
            f"delta={delta:g} is not below 1/n = {1 / n_units:.3g} for n = {n_units} units: releasing one whole record "
            "at random would satisfy it. Use a delta well below 1/n.",
            PrivacyParameterWarning,
            stacklevel=3,
        )


def _distinct(votes: Votes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first position of each distinct query, and for every query the position of its first equal."""
    if votes.query_hashes is None:
        every = np.arange(votes.n_queries)
        return every, every
    seen: dict[str, int] = {}
    same_as = np.array([seen.setdefault(h, i) for i, h in enumerate(votes.query_hashes)], dtype=np.int64)
    return np.fromiter(seen.values(), dtype=np.int64, count=len(seen)), same_as


def _stored_answers(
    votes: Votes, positions: npt.NDArray[np.int64], mechanism: Mechanism, ledger: Ledger | None
) -> dict[int, Answer]:
    if ledger is None or votes.query_hashes is None:
        return {}
    stored = ledger.stored([votes.query_hashes[i] for i in positions], mechanism.family)
    return {int(i): stored[h] for i in positions if (h := votes.query_hashes[i]) in stored}


def _answers_to_store(
    votes: Votes, mechanism: Mechanism, draw: Draw, asked: npt.NDArray[np.int64]
) -> list[tuple[str, str, int, list[float] | None]]:
    rows = []
    for position, query in enumerate(asked):
        if draw.status[position] != NOT_ASKED:
            key = f"#{query}" if votes.query_hashes is None else votes.query_hashes[query]
            noisy = None if draw.noisy_counts is None else draw.noisy_counts[position].tolist()
            rows.append((key, mechanism.family, int(draw.labels[position]), noisy))
    return rows


def _statement(
    votes: Votes,
    mechanism: Mechanism,
    price: Quote,
    budget: Budget,
    ledger: Ledger | None,
    sources: set[int],
    seeded: bool,
    tuning: str,
) -> PrivacyStatement:
    guarantee, accounting = price.guarantee, _ACCOUNTING[price.guarantee.method]
    released, verify = _released(mechanism, price), _recipe(mechanism, price)
    rows = [] if ledger is None else [row for row in ledger.releases() if row.id in sources]
    seeded = seeded or any(bool(row.facts.get("seeded")) for row in rows)
    if len(rows) == 1 and not price.n_queries:
        guarantee = rows[0].charge.guarantee(budget.delta)
        accounting = f"{_ACCOUNTING[guarantee.method]}; answered from the ledger, charged there once"
        released = f"labels of public rows, stored by release {rows[0].id} of the ledger ({rows[0].mechanism})"
        verify = "read the ledger's release and recompute its charge's guarantee"
    elif len(rows) > 1:
        # Several releases, each perhaps chosen after the last: only the filter's constant is a guarantee.
        total = (ledger.total if ledger else None) or budget
        guarantee = Guarantee(epsilon=total.epsilon, delta=total.delta, kind="public", method="gdp-filter")
        accounting = (
            f"labels of {len(rows)} releases; all releases in the ledger together stay within its total budget "
            "(filter on mu^2, Smith and Thakurta 2022)"
        )
        verify = "sum mu^2 over the ledger's releases and compare it with the total budget's"
    return PrivacyStatement(
        released=released,
        unit=votes.unit,
        n_units=votes.n_units,
        guarantee=guarantee,
        mechanism=f"{mechanism}, {votes.n_teachers} teachers, {votes.n_classes} classes",
        accounting=accounting,
        noise_source="a fixed seed: NOT PRIVATE" if seeded else "the operating system's cryptographic generator",
        seeded=seeded,
        covered=(
            "the released labels and everything computed from them and from public data (a student model, metrics)",
        ),
        not_covered=(
            "the teachers, their votes and every file made from those",
            "other releases from the same private data" + ("" if ledger is None else " outside this ledger"),
        ),
        assumptions=_ASSUMPTIONS,
        tuning=tuning,
        verify=verify,
    )


def _released(mechanism: Mechanism, price: Quote) -> str:
    what = "noisy vote counts" if isinstance(mechanism, NoisyHistogram) else "noisy labels"
    cap = f", at most {price.max_answers} of them answered" if mechanism.may_refuse else ""
    return f"{what} of {price.n_queries} public rows{cap}"


def _recipe(mechanism: Mechanism, price: Quote) -> str:
    return (
        f"from pate import {type(mechanism).__name__}; "
        f"{mechanism}.charge({price.n_queries}, {price.max_answers}).guarantee({price.guarantee.delta!r})"
    )
