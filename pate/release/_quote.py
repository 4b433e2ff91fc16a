"""Prices of releases, known before the votes are read, and whether what they buy is useful."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from pate._core.checks import check_choice, check_int, check_real, largest_of, shown
from pate._core.curator import warn
from pate._core.recorder import playing
from pate.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    NotWorthwhileError,
    PrivacyParameterWarning,
    ResultWarning,
)
from pate.ledger import Ledger, Remaining
from pate.mechanisms import GaussianSum, Mechanism
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.calibrate import Allowance, calibrate, largest
from pate.privacy.cost import Charge
from pate.privacy.tiers import TierBudgets
from pate.privacy.words import NO_PROTECTION, TIERS, Guarantee

# The terms of a release: checked once, and passed on whole.

ON_EXHAUSTED = ("raise", "abstain")


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """The terms of a release: budget, ledger, and what its statement says. Public, except the seed.

    Attributes
    ----------
    budget : Budget
        The most this release may cost.
    ledger : Ledger or None
        Also stay within its total, and charge there.
    max_answers : int or None
        Cap on answers for mechanisms that may refuse; None takes the most the budget allows.
    on_exhausted : {"raise", "abstain"}
        When the budget does not buy all queries.
    noise_seed : int or None
        For tests and experiments only; anyone who knows it can take the noise off.
    tuning : str
        What was tuned on the private data, for the statement.
    stated : mapping of str to str, or None
        What a person states for the statement; whether it has a place there is seen by
        :func:`pate.release.check_release_stated`, once unit and classes are known.
    on_tape : bool
        Whether they were made in a replay (:func:`pate.audit.replay`), whose noise is known like a seed's.
    counts : tuple of GaussianSum
        What is charged with the labels, before the first of them: counts of the records that a model of these labels is
        right about, drawn once, after it has learnt.
    tiers : TierBudgets or None
        The budgets of several tiers of units (for sums of ballots, and votes of teachers); ``budget`` is then the
        largest of them.

    Raises
    ------
    InvalidInputError
        One of them is out of range.

    Examples
    --------
    >>> ReleaseTerms(budget=Budget(1.0, 1e-5), max_answers=9).seeded
    False
    >>> ReleaseTerms(budget=Budget(1.0, 1e-5), on_exhausted="stop")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: on_exhausted must be one of 'raise', 'abstain', got 'stop'.
    """

    budget: Budget
    ledger: Ledger | None = None
    max_answers: int | None = None
    on_exhausted: str = "raise"
    noise_seed: int | None = field(default=None, repr=False)
    tuning: str = ""
    stated: Mapping[str, str] | None = None
    in_replay: bool = field(default_factory=lambda: playing() is not None, repr=False)
    counts: tuple[GaussianSum, ...] = ()
    tiers: TierBudgets | None = None

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidInputError(
                f"ledger must be a pate.Ledger or None, got {shown(self.ledger)}. Pass ledger=Ledger(path)."
            )
        check_choice("on_exhausted", self.on_exhausted, ON_EXHAUSTED)
        if not isinstance(self.tuning, str):  # str(None) would count as a statement
            raise InvalidInputError(f"tuning must be a text, empty where nothing is stated, got {shown(self.tuning)}.")
        for name, low in (("max_answers", 1), ("noise_seed", 0)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_int(name, value, low=low))
        if isinstance(self.stated, Mapping):  # a copy: what was checked is what is stated
            object.__setattr__(self, "stated", dict(self.stated))

    @property
    def largest_delta(self) -> float:
        """Of the budget, or of any tier's."""
        return max(b.delta for b in (self.budget, *(() if self.tiers is None else self.tiers.budgets)))

    def allows(self, charge: Charge) -> bool:
        """Return whether the budget allows the charge, and that of each tier what its own units are charged."""
        held = {} if self.tiers is None else self.tiers.mapping
        return self.budget.allows(charge) and all(
            budget.allows(self.tiers.charge(name, charge)) for name, budget in held.items() if self.tiers is not None
        )

    def check_tiers(self, facts: Any) -> None:
        """Refuse a sum whose units weigh otherwise than these terms charge them."""
        tiers = getattr(facts, "tiers", None)
        found = None if tiers is None else tuple((name, weight) for name, weight, _ in tiers)
        if found != (None if self.tiers is None else self.tiers.pairs):
            raise InvalidInputError(
                "every sum must be of units of the tiers, and by the weights, that the budget is for: "
                f"{'none' if self.tiers is None else ', '.join(self.tiers.names)}. Cast with tiers= of that budget."
            )

    @property
    def caps(self) -> dict[str, object]:
        """What decides, besides the budget, how much a release pays for: part of how a request is recognised."""
        said: dict[str, object] = {"max_answers": self.max_answers, "on_exhausted": self.on_exhausted}
        return said | {"counts": [m.noise_multiplier for m in self.counts]} if self.counts else said

    def with_counts(self, labels: Charge) -> Charge:
        """Return what labels of this charge cost together with the counts: charges add up, whichever comes when."""
        for mechanism in self.counts:
            labels = labels + mechanism.charge(1)
        return labels

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated: then nothing is private."""
        return self.noise_seed is not None or self.in_replay or playing() is not None


#: Up to so many answers it is counted what a budget buys.
_MOST_ANSWERS = 10_000_000


@dataclass(frozen=True)
class Quote:
    """The cost of a release, known before the votes are read; :func:`quote` returns it.

    Attributes
    ----------
    n_queries : int
        How many queries will be asked.
    max_answers : int
        The cap on answers.
    charge : Charge
    guarantee : Guarantee
        Of the charge at the budget's delta.
    counts : tuple of GaussianSum
        Counts of right answers that are part of the charge.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> quote(100, GNMax(sigma=40.0), budget=Budget(2.0, 1e-5)).guarantee.epsilon.__round__(
    ...     3
    ... )
    1.162
    """

    n_queries: int
    max_answers: int
    charge: Charge
    guarantee: Guarantee
    counts: tuple[GaussianSum, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether nothing is charged."""
        return not (self.n_queries or self.counts)


def quote(
    n_queries: int,
    mechanism: Mechanism,
    *,
    budget: Budget,
    ledger: Ledger | None = None,
    max_answers: int | None = None,
    on_exhausted: str = "raise",
) -> Quote:
    """Return how many queries and answers the budget pays for, and what they cost; nothing is spent.

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
    247
    """
    terms = ReleaseTerms(budget=budget, ledger=ledger, max_answers=max_answers, on_exhausted=on_exhausted)
    return price_of(n_queries, mechanism, terms)


def charge_of(mechanism: Mechanism, n_queries: int, max_answers: int | None = None) -> Charge:
    """Return what a mechanism says that its queries cost; one of somebody's own may say it wrongly."""
    found: object = mechanism.charge(n_queries, max_answers)
    if not isinstance(found, Charge):
        raise InvalidInputError(
            f"{type(mechanism).__name__}.charge() must return a pate.Charge, got {shown(found)}. Make one, such as "
            "pate.Charge.gaussian(sensitivity=..., sigma=...) * n_queries."
        )
    return found


def price_of(n_queries: int, mechanism: Mechanism, terms: ReleaseTerms) -> Quote:
    """Return what :func:`quote` does, on terms that are checked already.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> price_of(
    ...     9, GNMax(sigma=40.0), ReleaseTerms(budget=Budget(2.0, 1e-5), max_answers=4)
    ... ).n_queries
    4
    """
    n_queries = check_int("n_queries", n_queries, low=0)
    max_answers = terms.max_answers
    if max_answers is not None and not mechanism.may_refuse:
        n_queries = min(n_queries, max_answers)
    fits, left = _what_fits(mechanism, terms)
    if terms.counts and not fits(min(1, n_queries), max_answers):
        beside = "" if left is None else " and what is left in the ledger"
        raise BudgetExceededError(
            f"the budget {terms.budget}{beside} does not buy the count of right answers that measure= asks for"
            f"{', and a label besides' if n_queries else ''}. Leave measure= out. Nothing was spent."
        )
    asked, cap = n_queries, max_answers
    if mechanism.may_refuse and cap is None and n_queries:
        # The cap is a public constant: it depends on the budget alone.
        cap = largest(lambda c: fits(n_queries, c), n_queries) or None
    if not fits(asked, cap):
        affordable = largest(lambda n: fits(n, max_answers), n_queries)
        if terms.on_exhausted == "raise":
            also = "" if left is None else " and what is left in the ledger"
            refusal = "" if left is None or affordable else left.refusal(charge_of(mechanism, 1, max_answers))
            why = f" (the ledger: {refusal})" if refusal else ""
            beside = ", beside the count of right answers that measure= asks for" if terms.counts else ""
            raise BudgetExceededError(
                f"the budget {terms.budget}{also} buys {affordable} of these {n_queries} queries by {mechanism}"
                f"{beside}{why}. Ask fewer, use more noise (pate.calibrate, with ledger= if there is one), or pass "
                "on_exhausted='abstain'. Nothing was spent."
            )
        asked, cap = affordable, max_answers
    most = asked if cap is None else min(cap, asked)
    charge = terms.with_counts(charge_of(mechanism, asked, most))
    return Quote(asked, most, charge, charge.guarantee(terms.budget.delta), terms.counts)


def price_as_planned(
    n_queries: int, mechanism: Mechanism, terms: ReleaseTerms, planned: tuple[int, Quote] | None
) -> Quote:
    """Return the planned price, where it is this mechanism's and the ledger can still pay it; else a new one.

    It has to be for as many queries and within the terms: what is said of a release is what is charged. Whoever planned
    has warned of rows that will get no label; without a plan it is done here.
    """
    if planned is not None and planned[0] == n_queries:
        ledger, price = terms.ledger, planned[1]
        charge = terms.with_counts(charge_of(mechanism, price.n_queries, price.max_answers))
        own = (
            price.counts == terms.counts
            and price.charge == charge
            and price.guarantee == charge.guarantee(terms.budget.delta)
        )
        within = price.n_queries <= n_queries and price.max_answers <= (terms.max_answers or price.max_answers)
        if own and within and (ledger is None or ledger.allows(charge, default_total=terms.budget)):
            return price
    price = price_of(n_queries, mechanism, terms)
    if planned is None:
        warn_if_fewer(price.max_answers, min(n_queries, terms.max_answers or n_queries), mechanism, terms.budget)
    return price


def affordable_answers(mechanism: Mechanism, terms: ReleaseTerms) -> int:
    """Return how many answers the whole budget, or what is left of it, buys at this noise.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> affordable_answers(
    ...     GNMax(sigma=40.0), ReleaseTerms(budget=Budget(2.0, 1e-5), max_answers=9)
    ... )
    269
    """
    fits, _ = _what_fits(mechanism, terms)
    # With refusals it is the answers that cost most: any number of questions, and a cap on answers.
    capped = largest(lambda cap: fits(_MOST_ANSWERS, cap), _MOST_ANSWERS) if mechanism.may_refuse else 0
    return capped or largest(lambda n: fits(n, None), _MOST_ANSWERS)


def _what_fits(mechanism: Mechanism, terms: ReleaseTerms) -> tuple[Callable[[int, int | None], bool], Remaining | None]:
    """Return whether so many queries, and at most so many answers, can be paid for, and what the ledger has left."""
    # Read once: what another process charges meanwhile is checked again when the release is recorded.
    left = None if terms.ledger is None else terms.ledger.remaining(default_total=terms.budget)

    def fits(asked: int, cap: int | None) -> bool:
        charge = terms.with_counts(charge_of(mechanism, asked, cap))
        return terms.allows(charge) and (left is None or left.allows(charge))

    return fits, left


def count_fresh(query_hashes: Sequence[str], mechanism: Mechanism, terms: ReleaseTerms) -> int:
    """Return how many rows of a request that is not paid would be new queries: repeats and stored answers are free."""
    distinct = list(dict.fromkeys(query_hashes))
    stored = () if terms.ledger is None else terms.ledger.stored(distinct, mechanism.family)
    return len(distinct) - len(stored)


def is_paid(query_hashes: Sequence[str], mechanism: Mechanism, terms: ReleaseTerms) -> bool:
    """Return whether the ledger was charged for this very request, counts and all."""
    return terms.ledger is not None and terms.ledger.has_request(request_digest(query_hashes, mechanism, terms))


def request_digest(query_hashes: Sequence[str], mechanism: Mechanism, terms: ReleaseTerms) -> str:
    """Return what identifies a request, so that repeating it after a crash gives the stored release again."""
    parts = [str(mechanism), terms.budget.epsilon, terms.budget.delta, *terms.caps.values(), len(query_hashes)]
    digest = hashlib.sha256(json.dumps(parts).encode())
    # One by one: a million hashes are no reason for another copy of them.
    for query in query_hashes:
        digest.update(f"\n{json.dumps(query)}".encode())
    return digest.hexdigest()


def warn_if_weak(delta: float, n_units: int | None, *, epsilon: float = 0.0) -> None:
    """Warn when delta is not below one over the number of units, or epsilon protects no one.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warn_if_weak(1e-5, 1000)
    ...     warn_if_weak(1e-2, 1000, epsilon=1e6)
    >>> [str(w.message)[:35] for w in caught]
    ['delta=0.01 is not below 1/n = 0.001', 'epsilon=1e+06 protects no one: at a']
    """
    if n_units is not None and delta >= 1 / n_units:
        warn(
            f"delta={delta:g} is not below 1/n = {1 / n_units:.3g} for n = {n_units} units: releasing one whole record "
            "at random would satisfy it. Use a delta well below 1/n.",
            PrivacyParameterWarning,
        )
    if epsilon > NO_PROTECTION:
        warn(
            f"epsilon={epsilon:g} protects no one: at any above {NO_PROTECTION:g} an attacker may be as good as "
            f"certain. Commonly: {TIERS}.",
            PrivacyParameterWarning,
        )


# Several rounds of ballots for one budget: what each may cost, and whether they are useful.


#: Less than this share of the budget's mu is a residue of rounding, or as good as nothing.
_LEAST_LEFT = 0.01


def sum_of_rounds(rounds: Sequence[GaussianSum], n_held_out: int = 0) -> Charge:
    """Return what several sums of ballots cost together: mu^2 adds up.

    The last ``n_held_out`` are asked of held-out units alone and the others of the rest, so that the larger of the two
    sums counts (parallel composition: :mod:`pate.records._vectors`).
    """
    if n_held_out:
        split = len(rounds) - n_held_out
        parts = sum_of_rounds(rounds[:split]), sum_of_rounds(rounds[split:])
        return max(parts, key=lambda charge: largest_of(charge.mu_squared))
    return Charge.total([(mechanism.charge(1), times) for mechanism, times in Counter(rounds).items()])


def counted(numbers: Iterable[float]) -> str:
    """Return numbers of rounds as text, equal ones once."""
    return ", ".join(f"{x:.6g} ({n} times)" if n > 1 else f"{x:.6g}" for x, n in Counter(numbers).items())


@dataclass(frozen=True)
class _Rounds:
    """Several sums with shares of one mu^2, to be calibrated as one."""

    shares: tuple[float, ...]
    noise_multiplier: float = 1.0
    n_held_out: int = 0

    @property
    def mechanisms(self) -> tuple[GaussianSum, ...]:
        return tuple(GaussianSum(self.noise_multiplier / math.sqrt(share)) for share in self.shares)

    def charge(self, n_queries: int = 1, max_answers: int | None = None) -> Charge:
        return sum_of_rounds(self.mechanisms, self.n_held_out)

    def scaled(self, factor: float) -> _Rounds:
        found = replace(self, noise_multiplier=self.noise_multiplier * factor)
        _ = found.mechanisms  # noise beyond any use is refused here, where calibrate sees it
        return found


def share_rounds(
    budget: Budget, shares: Sequence[float], ledger_left: Allowance | None = None, *, n_held_out: int = 0
) -> tuple[GaussianSum, ...]:
    """Return one mechanism per round such that all together just fit the budget; round i takes its share of mu^2.

    Parameters
    ----------
    budget : Budget
    shares : sequence of float
        Above 0; their sum stands for the whole.
    ledger_left : Remaining or None
        See :meth:`GaussianSum.for_budget`.
    n_held_out : int
        So many of the last rounds are asked of held-out units alone: they have a whole of their own.

    Examples
    --------
    >>> one, two = share_rounds(Budget(1.0, 1e-5), [1, 3])
    >>> round((one.noise_multiplier / two.noise_multiplier) ** 2, 9)
    3.0
    """
    if isinstance(shares, str) or not isinstance(shares, Sequence) or not len(shares):
        raise InvalidInputError(f"shares must list one number per round, got {shown(shares)}. Try [0.3, 0.7].")
    parts = [check_real(f"shares[{i}]", share, low=1e-9, high=1e9) for i, share in enumerate(shares)]
    split = len(parts) - check_int("n_held_out", n_held_out, low=0, high=len(parts) - 1)
    wholes = math.fsum(parts[:split]), math.fsum(parts[split:])
    asked, budget = tuple(part / wholes[i >= split] for i, part in enumerate(parts)), check_budget(budget)
    if ledger_left is None or isinstance(ledger_left, Remaining):  # a value, which a ledger itself is not
        return _calibrated(asked, budget, ledger_left, n_held_out)
    return calibrate(_Rounds(asked, n_held_out=n_held_out), budget, n_queries=1, left=ledger_left).mechanisms


@lru_cache(maxsize=64)  # a plan asks for the same several times; what a ledger has left is part of the question
def _calibrated(
    shares: tuple[float, ...], budget: Budget, left: Remaining | None, n_held_out: int = 0
) -> tuple[GaussianSum, ...]:
    return calibrate(_Rounds(shares, n_held_out=n_held_out), budget, n_queries=1, left=left).mechanisms


def buy_rounds(
    budget: Budget,
    shares: Sequence[float],
    ledger: Ledger | None,
    *,
    n_units: float | None,
    force: bool = False,
    n_measured: int = 0,
    n_held_out: int = 0,
) -> tuple[GaussianSum, ...]:
    """Return what budget and ledger buy, refused where nearly nothing can be learnt from it: crumbs.

    Noise on every cell that is larger than all ballots together says nothing of any class: the rule by which
    :func:`pate.release.check_useful` refuses teachers' votes. A ballot sum moves by at least 1/sqrt(2) of a ballot for
    one unit, so that more noise than ``n_units`` sensitivities is that much; K rounds alike say together what one of
    1/sqrt(K) of their noise does. ``n_units`` is what all units weigh together, where they are of several tiers.
    """
    left = None if ledger is None else ledger.remaining(default_total=budget)
    whole = share_rounds(budget, shares, n_held_out=n_held_out)
    try:
        rounds = whole if left is None else share_rounds(budget, shares, left, n_held_out=n_held_out)
    except BudgetExceededError:  # nothing that any noise could fit into
        rounds = ()
    if left is not None and left.currency == "pure":
        raise BudgetExceededError(
            "the ledger counts in pure epsilon, and cannot pay for the Gaussian noise of record voters. Nothing was "
            "spent. Use a ledger that counts in gdp or renyi, or teachers with Laplace noise: mechanism=LNMax(scale) "
            "(--mechanism lnmax --scale SCALE)."
        )
    costs = [sum_of_rounds(some, n_held_out).mu_squared for some in (rounds, whole) if some]
    if not rounds or costs[0] < _LEAST_LEFT**2 * costs[1]:
        raise BudgetExceededError(
            f"the ledger has less left than {_LEAST_LEFT:.0%} of what {budget} buys: with so much noise nothing can be "
            "learnt. Nothing was spent. What was released before stays free: the same request again, and its model "
            "(pate predict). A total is never raised: before the first of several releases begin a ledger with the "
            "total of all (pate ledger begin; Ledger(path, total=...))."
        )
    cast = rounds[: len(rounds) - n_measured - n_held_out] or rounds
    worst = max(m.noise_multiplier for m in cast)
    if n_units is not None and worst > n_units * math.sqrt(len(cast)) and not force:
        raise NotWorthwhileError(
            f"nearly nothing is to be expected of {len(cast)} rounds of ballots by {n_units:.10g} units: in "
            f"the least of them noise is {worst:.4g} times what one unit may change, more than all can outvote. "
            "Take fewer rounds, more even shares or a larger epsilon; or say force=True (--force). Nothing was spent."
        )
    return rounds


# Whether a setting is useful for its budget: judged from public numbers, before anything is trained or spent.


#: Default noise per teacher, measured: docs/defaults.md. A constant: it may not depend on the votes.
NOISE_PER_TEACHER = 0.3
#: Default number of queries, at least.
FEWEST = 10
#: Noise per teacher beyond which a setting is refused.
_MOST_NOISE_PER_TEACHER = 1.0
#: Records that make a teacher where it is not said how many teachers there are, measured for heads: docs/defaults.md.
RECORDS_PER_TEACHER = 15
_MOST_HEADS = 1000
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)


def affordable_queries(budget: Budget, n_teachers: int, *, share: float = 0.0) -> int:
    """Return how many queries keep the noise of a :class:`pate.NoisyHistogram` at or below 0.3 votes per teacher.

    ``share`` is the part of mu^2 that is set aside for something else.
    """
    return math.floor((1 - share) * budget.mu_squared * (NOISE_PER_TEACHER * n_teachers) ** 2 / 2)


def default_heads(n_records: int | None) -> int:
    """Return how many heads vote by default: one for every 15 records, at least 10 and at most 1,000.

    Parameters
    ----------
    n_records : int or None
        Private records, public under replace-one adjacency. None where persons are protected: how many records they
        have is private, and 100 heads vote.

    Examples
    --------
    >>> default_heads(1_038), default_heads(60_000), default_heads(40), default_heads(None)
    (69, 1000, 10, 100)
    """
    return 100 if n_records is None else min(_MOST_HEADS, max(FEWEST, n_records // RECORDS_PER_TEACHER))


def share_right(sigma: float, n_teachers: int, n_classes: int) -> float:
    """Return how probably the noisy maximum is right where three in four teachers agree: at least so probably.

    The other quarter is counted for every other class, which is the worst case.

    Parameters
    ----------
    sigma : float
        Standard deviation of normal noise on every count, in votes.
    n_teachers, n_classes : int

    Examples
    --------
    >>> (
    ...     round(share_right(100.0, 100, 2), 3),
    ...     round(share_right(100.0, 100, 10), 3),
    ...     share_right(10.0, 100, 10) > 0.99,
    ... )
    (0.638, 0.199, True)
    """
    return _sure(sigma, n_teachers / 2, n_classes)


def check_useful(
    mechanism: Mechanism,
    n_queries: int,
    *,
    budget: Budget | None,
    n_public: int,
    n_teachers: int,
    n_classes: int,
    n_records: int | None = None,
) -> None:
    """Refuse a setting from which nearly nothing is to be expected, and name a better one.

    Fewer questions than classes, where more public rows are there; less than two records for a teacher, which then
    says the class of its one record whatever it is asked; and noise above all the votes together, where a label is
    hardly more than a guess however well teachers agree.

    Parameters
    ----------
    mechanism : Mechanism
    n_queries : int
    budget : Budget or None
        What the mechanism was calibrated to; None where a person named the mechanism.
    n_public, n_teachers, n_classes : int
    n_records : int or None
        Private records, where each is by itself and their number is public (replace-one adjacency).

    Raises
    ------
    NotWorthwhileError

    Examples
    --------
    >>> from pate import NoisyHistogram
    >>> from pate.privacy.compose.calibrate import calibrate
    >>> tight = Budget(1.0, 1e-5)
    >>> noisy = calibrate(NoisyHistogram(1.0), tight, n_queries=400)
    >>> check_useful(noisy, 400, budget=tight, n_public=1000, n_teachers=100, n_classes=10)
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: nearly nothing is to be expected of 400 queries with noise of 105.5 ...
    """
    sigma = _noise(mechanism)
    if n_queries < min(n_classes, n_public):
        raise NotWorthwhileError(
            f"n_queries must be at least the number of classes ({n_classes}), got {n_queries}: a student never says a "
            f"class of which it saw no label. Ask about {min(n_public, max(2 * n_classes, 25))} rows, or say "
            "force=True (--force)."
        )
    if n_records is not None and n_teachers <= n_records < 2 * n_teachers:
        raise NotWorthwhileError(
            f"n_teachers must be at most half the number of records ({n_records}), got {n_teachers}: a teacher of one "
            f"record says its class whatever it is asked, so that nearly nothing is to be expected. Take "
            f"{max(1, n_records // RECORDS_PER_TEACHER)} teachers, or say force=True (--force)."
        )
    if sigma is None or sigma <= _MOST_NOISE_PER_TEACHER * n_teachers:
        return
    better = [f"at least {math.ceil(sigma / NOISE_PER_TEACHER)} teachers"]
    if budget is not None:
        fewer = affordable_queries(budget, n_teachers)
        if n_classes <= fewer < n_queries:
            better.append(f"n_queries={fewer}")
        enough = [e for e in _EPSILONS if e > budget.epsilon]
        enough = [
            e for e in enough if affordable_queries(Budget(e, budget.delta), n_teachers) >= max(n_classes, FEWEST)
        ]
        if enough:
            better.append(f"epsilon {enough[0]:g} with n_queries left out")
    else:
        better.append(f"noise of {NOISE_PER_TEACHER * n_teachers:.4g} or less, on fewer queries")
    raise NotWorthwhileError(
        f"nearly nothing is to be expected of {n_queries} queries with noise of {sigma:.4g} votes on every count: the "
        f"{n_teachers} teachers have no more votes than that together, and where three in four of them agree a label "
        f"is right with probability {share_right(sigma, n_teachers, n_classes):.2f} (a guess among {n_classes}: "
        f"{1 / n_classes:.2f}). Take {', or '.join(better)}; or say force=True (--force). Nothing was spent."
    )


#: Labels that teach hardly anything, however right they are.
_FEW_LABELS = 5


def check_enough(
    n_answers: int,
    mechanism: Mechanism,
    *,
    budget: Budget,
    n_queries: int,
    n_public: int,
    n_teachers: int,
    n_classes: int,
    commonest: float | None = None,
    force: bool = False,
) -> None:
    """Warn where fewer rows are paid for than are asked about; refuse a handful, and labels worse than a constant.

    A handful are fewer than five, or than there are classes: a student never says a class of which it saw no label.

    Parameters
    ----------
    n_answers : int
        Labels that will be paid for at most, and those that are free.
    mechanism : Mechanism
    budget : Budget
    n_queries : int
        Rows that are asked about; fewer, where a person set a cap.
    n_public, n_teachers, n_classes : int
    commonest : float or None
        Share of the commonest class, where that is publicly known.
    force : bool
        Refuse nothing.

    Raises
    ------
    NotWorthwhileError

    Warns
    -----
    ResultWarning

    Examples
    --------
    >>> from pate import GNMax
    >>> facts = {
    ...     "budget": Budget(1.0, 1e-5),
    ...     "n_queries": 60,
    ...     "n_public": 600,
    ...     "n_teachers": 100,
    ...     "n_classes": 2,
    ... }
    >>> check_enough(3, GNMax(9.0), **facts)
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: 3 of 600 public rows would get a label, which teaches hardly anything of ...
    >>> check_enough(60, GNMax(99.0), commonest=0.8, **facts)
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: labels with noise of 99 votes are right with probability 0.76 at most, even ...
    """
    more = min(n_public, max(n_classes, FEWEST, affordable_queries(budget, n_teachers)))
    if not force and n_answers < min(max(_FEW_LABELS, n_classes), n_public):
        raise NotWorthwhileError(
            f"{n_answers} of {n_public} public rows would get a label, which teaches hardly anything of {n_classes} "
            f"classes. Leave queries, noise and caps out: then this budget is spent on {more} labels of {n_teachers} "
            "teachers; or say force=True (--force). Nothing was spent."
        )
    warn_if_fewer(n_answers, n_queries, mechanism, budget)
    sigma = _noise(mechanism)
    if force or commonest is None or sigma is None:
        return
    most = _sure(sigma, n_teachers, n_classes)
    if most <= check_real("commonest", commonest, low=1 / n_classes, high=1, high_open=True):
        raise NotWorthwhileError(
            f"labels with noise of {sigma:.4g} votes are right with probability {most:.2f} at most, even where all "
            f"{n_teachers} teachers agree: always naming the commonest class is right more often ({commonest:g}). Take "
            f"at least {math.ceil(sigma / NOISE_PER_TEACHER)} teachers, fewer queries or a larger epsilon; or say "
            "force=True (--force). Nothing was spent."
        )


def warn_if_fewer(n_answers: int, n_queries: int, mechanism: Mechanism, budget: Budget) -> None:
    """Warn, before anything is spent, where at most ``n_answers`` of ``n_queries`` rows will get a label.

    Examples
    --------
    >>> from pate import GNMax
    >>> warn_if_fewer(9, 9, GNMax(40.0), Budget(1.0, 1e-5)) is None
    True
    """
    if n_answers < n_queries:
        warn(
            f"at most {n_answers} of the {n_queries} public rows that are asked about will get a label: {mechanism} at "
            f"{budget} (less, where the ledger has less left) pays for no more. Rows are asked in "
            "turn until then; the rest get none. Nothing was spent yet.",
            ResultWarning,
        )


def _sure(sigma: float, margin: float, n_classes: int) -> float:
    """Return how probably a class that leads all others by so many votes comes out, of normal noise on every count."""
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    below = ndtr(points + margin / sigma) ** (n_classes - 1)
    return float((weights * below).sum() / math.sqrt(2 * math.pi))


def expected_of_votes(mechanism: Mechanism, n_teachers: int, n_classes: int) -> str:
    """Return in words what labels are expected to be worth.

    Examples
    --------
    >>> from pate import GNMax
    >>> expected_of_votes(GNMax(30.0), 100, 2)
    'a label is right with probability 0.88 at least where three in four teachers agree and are right (a guess: 0.50)'
    """
    sigma = _noise(mechanism)
    if sigma is None:
        return ""
    return (
        f"a label is right with probability {share_right(sigma, n_teachers, n_classes):.2f} at least where three in "
        f"four teachers agree and are right (a guess: {1 / n_classes:.2f})"
    )


def _noise(mechanism: Mechanism) -> float | None:
    """Return the standard deviation of the noise on a count that decides a label; None where it has none to tell."""
    sigma = getattr(mechanism, "sigma", None)
    if sigma is not None:
        return float(sigma)
    scale = getattr(mechanism, "scale", None)
    return None if scale is None else math.sqrt(2) * float(scale)
