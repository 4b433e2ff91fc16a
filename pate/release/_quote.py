"""Prices, known before the votes are looked at."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pate.core.checks import check_choice, check_int, shown
from pate.core.tape import playing
from pate.exceptions import BudgetExceededError, InvalidInputError, PrivacyParameterWarning
from pate.ledger import Ledger, Remaining
from pate.mechanisms import GaussianSum, Mechanism
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.calibrate import largest
from pate.privacy.cost import Charge
from pate.privacy.words import NOBODY, TIERS, Guarantee

# On what terms something is let out: checked once, and carried whole from the door inwards.

ON_EXHAUSTED = ("raise", "abstain")


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """What a release may cost, who pays, and what is said of it. Public, but for the seed.

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
        For tests and experiments only; whoever knows it can take the noise off.
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
    on_tape: bool = field(default_factory=lambda: playing() is not None, repr=False)
    counts: tuple[GaussianSum, ...] = ()

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidInputError(
                f"ledger must be a pate.Ledger or None, got {shown(self.ledger)}. Pass ledger=Ledger(path)."
            )
        check_choice("on_exhausted", self.on_exhausted, ON_EXHAUSTED)
        if not isinstance(self.tuning, str):  # str(None) would be somebody's word
            raise InvalidInputError(f"tuning must be a text, empty where nobody says, got {shown(self.tuning)}.")
        for name, low in (("max_answers", 1), ("noise_seed", 0)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_int(name, value, low=low))

    @property
    def caps(self) -> dict[str, object]:
        """What beside the budget decides how much is bought: part of what a request is recognised by.

        Examples
        --------
        >>> ReleaseTerms(budget=Budget(1.0, 1e-5), max_answers=9).caps
        {'max_answers': 9, 'on_exhausted': 'raise'}
        """
        said: dict[str, object] = {"max_answers": self.max_answers, "on_exhausted": self.on_exhausted}
        return said | {"counts": [m.noise_multiplier for m in self.counts]} if self.counts else said

    def with_counts(self, labels: Charge) -> Charge:
        """Return what labels of this charge cost together with the counts: charges add up, whichever comes when.

        Examples
        --------
        >>> terms = ReleaseTerms(budget=Budget(1.0, 1e-5), counts=(GaussianSum(2.0),))
        >>> terms.with_counts(Charge.zero()).mu_squared
        0.25
        """
        for mechanism in self.counts:
            labels = labels + mechanism.charge(1)
        return labels

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated: then nothing is private."""
        return self.noise_seed is not None or self.on_tape or playing() is not None


#: Up to so many answers it is counted what a budget buys.
_MOST_ANSWERS = 10_000_000


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
    counts : tuple of GaussianSum
        Counts of right answers that are part of the charge.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> quote(100, GNMax(sigma=40.0), budget=Budget(2.0, 1e-5)).guarantee.epsilon.__round__(3)
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
    247
    """
    terms = ReleaseTerms(budget=budget, ledger=ledger, max_answers=max_answers, on_exhausted=on_exhausted)
    return price_of(n_queries, mechanism, terms)


def price_of(n_queries: int, mechanism: Mechanism, terms: ReleaseTerms) -> Quote:
    """Return what :func:`quote` does, on terms that are checked already.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> price_of(9, GNMax(sigma=40.0), ReleaseTerms(budget=Budget(2.0, 1e-5), max_answers=4)).n_queries
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
            refusal = "" if left is None or affordable else left.refusal(mechanism.charge(1, max_answers))
            why = f" (the ledger: {refusal})" if refusal else ""
            beside = ", beside the count of right answers that measure= asks for" if terms.counts else ""
            raise BudgetExceededError(
                f"the budget {terms.budget}{also} buys {affordable} of these {n_queries} queries by {mechanism}"
                f"{beside}{why}. Ask fewer, use more noise (pate.calibrate, with ledger= if there is one), or pass "
                "on_exhausted='abstain'. Nothing was spent."
            )
        asked, cap = affordable, max_answers
    most = asked if cap is None else min(cap, asked)
    charge = terms.with_counts(mechanism.charge(asked, most))
    return Quote(asked, most, charge, charge.guarantee(terms.budget.delta), terms.counts)


def price_as_planned(
    n_queries: int, mechanism: Mechanism, terms: ReleaseTerms, planned: tuple[int, Quote] | None
) -> Quote:
    """Return the planned price, where it is this mechanism's and the ledger can still pay it; else a new one.

    It has to be for as many queries and within the terms: what is said of a release is what is charged.

    Parameters
    ----------
    n_queries, mechanism, terms
        See :func:`price_of`.
    planned : (int, Quote) or None
        A number of queries, and its price.
    """
    if planned is not None and planned[0] == n_queries:
        ledger, price = terms.ledger, planned[1]
        charge = terms.with_counts(mechanism.charge(price.n_queries, price.max_answers))
        own = (
            price.counts == terms.counts
            and price.charge == charge
            and price.guarantee == charge.guarantee(terms.budget.delta)
        )
        within = price.n_queries <= n_queries and price.max_answers <= (terms.max_answers or price.max_answers)
        if own and within and (ledger is None or ledger.allows(charge, default_total=terms.budget)):
            return price
    return price_of(n_queries, mechanism, terms)


def affordable_answers(mechanism: Mechanism, terms: ReleaseTerms) -> int:
    """Return how many answers the whole budget, or what is left of it, buys at this noise.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> affordable_answers(GNMax(sigma=40.0), ReleaseTerms(budget=Budget(2.0, 1e-5), max_answers=9))
    269
    """
    fits, _ = _what_fits(mechanism, terms)
    # With refusals it is the answers that cost most: as many questions as one likes, and a cap.
    capped = largest(lambda cap: fits(_MOST_ANSWERS, cap), _MOST_ANSWERS) if mechanism.may_refuse else 0
    return capped or largest(lambda n: fits(n, None), _MOST_ANSWERS)


def _what_fits(mechanism: Mechanism, terms: ReleaseTerms) -> tuple[Callable[[int, int | None], bool], Remaining | None]:
    """Return whether so many queries, and at most so many answers, can be paid for, and what the ledger has left."""
    # Read once: what another process charges meanwhile is checked again when the release is recorded.
    left = None if terms.ledger is None else terms.ledger.remaining(default_total=terms.budget)

    def fits(asked: int, cap: int | None) -> bool:
        charge = terms.with_counts(mechanism.charge(asked, cap))
        return terms.budget.allows(charge) and (left is None or left.allows(charge))

    return fits, left


def count_fresh(query_hashes: Sequence[str], mechanism: Mechanism, terms: ReleaseTerms) -> int:
    """Return how many of these rows would be asked anew: repeats, and rows answered before, cost nothing.

    Parameters
    ----------
    query_hashes : sequence of str
        See :func:`pate.votes.hash_queries`.
    mechanism : Mechanism
    terms : ReleaseTerms
    """
    distinct = list(dict.fromkeys(query_hashes))
    if terms.ledger is None:
        return len(distinct)
    if is_paid(query_hashes, mechanism, terms):
        return 0
    return len(distinct) - len(terms.ledger.stored(distinct, mechanism.family))


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
    """Warn when delta is not below one over the number of units, or epsilon protects nobody.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warn_if_weak(1e-5, 1000)
    ...     warn_if_weak(1e-2, 1000, epsilon=1e6)
    >>> [str(w.message)[:35] for w in caught]
    ['delta=0.01 is not below 1/n = 0.001', 'epsilon=1e+06 protects nobody: at a']
    """
    if n_units is not None and delta >= 1 / n_units:
        warnings.warn(
            f"delta={delta:g} is not below 1/n = {1 / n_units:.3g} for n = {n_units} units: releasing one whole record "
            "at random would satisfy it. Use a delta well below 1/n.",
            PrivacyParameterWarning,
            stacklevel=3,
        )
    if epsilon > NOBODY:
        warnings.warn(
            f"epsilon={epsilon:g} protects nobody: at any above {NOBODY:g} an attacker may be as good as certain. "
            f"Commonly: {TIERS}.",
            PrivacyParameterWarning,
            stacklevel=3,
        )
