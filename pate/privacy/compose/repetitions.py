"""How often a private selection runs: the law whose price is known, drawn from exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from pate._core.checks import check_choice, check_real, largest_of, least_of
from pate._core.types import WordArray
from pate.exceptions import InvalidInputError
from pate.privacy.compose.calibrate import BudgetBackend
from pate.privacy.convert import gdp_to_delta, pure_to_mu_squared
from pate.privacy.cost import Charge, check_charge
from pate.privacy.noise.integers import uniform_below
from pate.privacy.noise.source import NoiseSource

# Private selection among repeated runs: hyperparameters chosen on the private data, and charged.


def select_best(
    cost: Charge,
    *,
    mean_runs: float,
    shape: float = 1.0,
    deltas: npt.ArrayLike | None = None,
    ledger: BudgetBackend | None = None,
    what: str = "private selection",
) -> Charge:
    """Return the cost of private selection: run a mechanism a random number of times, release only the best run.

    Each run draws its hyperparameters at random from a public list, and its score is part of its own (private)
    output. The *number* of runs is drawn, before the first, from exactly the distribution named here and is not
    released; a fixed number of runs with the best published costs far more than this.

    Parameters
    ----------
    cost : Charge
        The cost of one run, score included.
    mean_runs : float
        Mean number of runs, above 1.
    shape : float
        eta of the truncated negative binomial: 1 is geometric, 0 logarithmic; infinity is Poisson (which may draw 0
        runs, and then nothing is released).
    deltas : array-like of shape (n_orders,) or None
        For Poisson, where more is known of one run than its Renyi curve and its mu tell: a delta at every epsilon
        log(1 + 1/(a - 1)), a being ``cost.orders``. The lesser counts.
    ledger : Ledger (or another BudgetBackend) or None
        Charge the whole selection there, before its first run; the runs themselves are then paid for.
    what : str
        For the ledger: what is selected.

    Returns
    -------
    Charge
        By Papernot and Steinke 2022 ("Hyperparameter tuning with Renyi differential privacy"), Theorem 2:
        D'(a) = D(a) + (1 + eta) (1 - 1/b) D(b) + (1 + eta) log(1/gamma) / b + log(mean) / (a - 1) at the best order
        b; Poisson by Theorem 6: D'(a) = D(a) + mean d + log(mean) / (a - 1), one run being (log(1 + 1/(a-1)), d)-DP.
        A pure epsilon becomes (2 + eta) epsilon.

    Raises
    ------
    InvalidInputError
        A parameter out of range, or a cost that may fail (delta0 > 0), which the theorems do not cover.
    BudgetExceededError
        What is left in the ledger does not buy it; nothing was charged and nothing may be run.

    Examples
    --------
    >>> one = Charge.gaussian(sensitivity=1.0, sigma=10.0)
    >>> select_best(one, mean_runs=10).guarantee(1e-5).epsilon / one.guarantee(
    ...     1e-5
    ... ).epsilon < 4
    True
    """
    one = check_charge(cost)
    mean = check_real("mean_runs", mean_runs, low=1, low_open=True, remedy="It is a mean: 10 is usual.")
    if shape != math.inf:
        shape = check_real("shape", shape, low=0, remedy="1 is geometric, 0 logarithmic, infinity Poisson.")
    if one.delta0:
        raise InvalidInputError("select_best needs a run that cannot fail: the theorems do not cover delta0 > 0.")
    alphas, curve = np.array(one.orders), np.array(one.rdp)
    if shape == math.inf:
        known = deltas_of(one)
        if deltas is not None:
            given = np.asarray(deltas, dtype=np.float64)
            if given.shape != known.shape or not (given >= 0).all():
                raise InvalidInputError(f"deltas must hold one value >= 0 for each of the {len(known)} orders.")
            known = np.minimum(known, given)
        losses = mean * known
        pure = math.inf
    else:
        gamma = _gamma(shape, mean)
        with np.errstate(invalid="ignore"):
            best = float(np.min((1 - 1 / alphas) * curve - math.log(gamma) / alphas))
        losses = np.full(len(alphas), (1 + shape) * best)
        pure = (2 + shape) * one.pure
    values = curve + losses + math.log(mean) / (alphas - 1)
    # Renyi divergence does not decrease in the order.
    values = np.minimum.accumulate(values[::-1])[::-1]
    values = np.minimum(values, pure)
    whole = Charge(pure_to_mu_squared(pure), tuple(values.tolist()), pure, one.orders)
    if ledger is not None:
        text = f"best of {mean:g} runs on average (shape {shape:g}): {what}"
        ledger.pay(whole, what=text, kind="selection", facts={"mean_runs": mean, "shape": repr(shape)})
    return whole


def deltas_of(one: Charge) -> npt.NDArray[np.float64]:
    """Return a delta of one run at every epsilon log(1 + 1/(a - 1)), a being its orders: what Poisson's price needs."""
    return np.array([_delta_at(one, math.log1p(1 / (a - 1))) for a in one.orders])


def _delta_at(one: Charge, epsilon: float) -> float:
    """Return a delta such that one run is (epsilon, delta)-DP: the least that its Renyi curve or its mu proves.

    Canonne, Kamath, Steinke 2020, Proposition 12, solved for delta; Balle and Wang 2018, Theorem 8.
    """
    alphas, curve = np.array(one.orders), np.array(one.rdp)
    exponents = (alphas - 1) * (curve + np.log1p(-1 / alphas) - epsilon) - np.log(alphas)
    sizes = (alphas - 1) * (curve + epsilon) + np.log(alphas)
    with np.errstate(invalid="ignore"):
        # The margin covers the last digits of what was added up.
        least = float(np.min(np.where(np.isfinite(curve), exponents + 1e-13 * (1 + sizes), math.inf)))
    delta = math.exp(least_of(0.0, largest_of(least, -700.0)))
    if math.isfinite(one.mu_squared):
        delta = least_of(delta, gdp_to_delta(math.sqrt(one.mu_squared), epsilon) * (1 + 1e-10))
    return delta


def _mean(shape: float, log_gamma: float) -> float:
    """Return the mean of the truncated negative binomial (Papernot and Steinke 2022, Definition 1)."""
    gamma = math.exp(log_gamma)
    if shape == 0:
        return -math.expm1(log_gamma) / (gamma * -log_gamma)
    return shape * -math.expm1(log_gamma) / (gamma * -math.expm1(shape * log_gamma))


def _gamma(shape: float, mean: float, *, up: bool = False) -> float:
    """Return the gamma of this mean, rounded down (the safe side of a price) or up (that of a law to draw from)."""
    low, high = -1.0, -1e-12
    if _mean(shape, high) >= mean:
        raise InvalidInputError(f"mean_runs must be larger for shape {shape:g}, got {mean!r}.")
    while _mean(shape, low) < mean:
        low *= 2
        if low < -600:
            raise InvalidInputError(f"mean_runs must be smaller, got {mean!r}.")
    root = float(brentq(lambda g: math.log(_mean(shape, g) / mean), low, high, xtol=1e-14))
    margin = 1e-9 * (1 - root)
    return least_of(1.0, math.exp(root + margin if up else root - margin))


#: Laws by name, and what :func:`pate.privacy.select_best` calls them.
DISTRIBUTIONS = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}
#: More models are not trained.
_MOST_RUNS = 1_000.0
_BITS = 53
_BLOCK = 4096


@dataclass(frozen=True)
class Repetitions:
    """The law of the number of runs K of a private selection: what is drawn from and what is priced are one object.

    Parameters
    ----------
    distribution : {"poisson", "geometric", "logarithmic"}
        Poisson (K may be 0, and then nothing is selected), or the truncated negative binomial of eta 1 (geometric) or 0
        (logarithmic), both with K >= 1: Papernot and Steinke 2022, Definition 1. The geometric law is that of Liu and
        Talwar 2019. Of one mean, Poisson's number is the least spread, the logarithmic the most.
    mean : float
        Mean number of runs, above 1 and at most 1,000. Public; the number drawn is secret, and stays so: anyone who
        knows it knows more than the theorems allow for.

    Notes
    -----
    Nothing is rounded towards cheaper: the parameter drawn with is a fraction whose mean is at most ``mean`` (by less
    than 1e-8, relative) and whose gamma is at least that of the price.
    """

    distribution: str = "poisson"
    mean: float = 10.0

    def __post_init__(self) -> None:
        check_choice("distribution", self.distribution, DISTRIBUTIONS)
        remedy = "It is a mean: 10 is usual."
        mean = check_real("mean", self.mean, low=1, low_open=True, high=_MOST_RUNS, remedy=remedy)
        object.__setattr__(self, "mean", mean)
        _ = self.parameter  # too near to 1 for its law: said now

    @property
    def shape(self) -> float:
        """The eta of :func:`pate.privacy.select_best`."""
        return DISTRIBUTIONS[self.distribution]

    @cached_property
    def parameter(self) -> Fraction:
        """The exact gamma, or the exact mean of the Poisson law, that is drawn with."""
        if self.shape == math.inf:
            return Fraction(self.mean)
        return Fraction(math.ceil(math.ldexp(_gamma(self.shape, self.mean, up=True), _BITS)), 2**_BITS)

    def charge(self, one: Charge, deltas: npt.ArrayLike | None = None) -> Charge:
        """Return the price of the best of K runs that cost ``one`` each, by :func:`pate.privacy.select_best`."""
        return select_best(one, mean_runs=self.mean, shape=self.shape, deltas=deltas)

    def probability(self, k: int) -> float:
        """Return P(K = k)."""
        if self.shape == math.inf:
            mean = float(self.parameter)
            return math.exp(k * math.log(mean) - mean - math.lgamma(k + 1))
        if k < 1:
            return 0.0
        gamma = float(self.parameter)
        tail = k * math.log1p(-gamma)
        if self.shape == 0:
            return math.exp(tail) / (k * -math.log(gamma))
        return gamma * math.exp(tail - math.log1p(-gamma))

    def draw(self, source: NoiseSource) -> int:
        """Return K, exactly from its law: every step decides by whole random numbers.

        Geometric: the first of independent trials of probability gamma. Logarithmic: such a k, kept with probability
        1/k, since (1 - gamma)^k / k is the law but for a constant. Poisson of mean m: the sum of ceil(m) numbers of
        mean 1, each of its units kept with probability m / ceil(m); one of mean 1 is a k of the law 2^-(k+1), kept with
        probability 2^(k-1) / k!, since the product is 1/k! but for a constant.
        """
        if self.distribution == "geometric":
            return self._geometric(source)
        if self.distribution == "logarithmic":
            while True:
                k = self._geometric(source)
                if not _below(k, source):
                    return k
        many = math.ceil(self.parameter)
        units = sum(_poisson_of_one(source) for _ in range(many))
        kept = self.parameter / many
        if kept == 1 or not units:
            return units
        # A float is a whole number over a power of two: the limit may be beyond 64 bits, and then digits decide.
        return sum(_chance(kept, source) for _ in range(units))

    def _geometric(self, source: NoiseSource) -> int:
        limit, before = np.uint64(self.parameter * 2**_BITS), 0
        while True:
            found = np.flatnonzero(_words(source, _BLOCK) < limit)
            if len(found):
                return before + int(found[0]) + 1
            before += _BLOCK


def _words(source: NoiseSource, size: int) -> WordArray:
    return source.words(size) >> np.uint64(64 - _BITS)


def _below(limit: int, source: NoiseSource) -> int:
    """Return a uniform whole number in [0, limit)."""
    return int(uniform_below([limit], source)[0])


def _poisson_of_one(source: NoiseSource) -> int:
    while True:
        k = 0
        while _below(2, source):
            k += 1
        if _chance(Fraction(2) ** (k - 1) / math.factorial(k), source):
            return k


def _chance(probability: Fraction, source: NoiseSource) -> bool:
    """Return True with exactly this probability: digits of a uniform number against those of the fraction."""
    rest = probability
    while True:
        rest *= 2**32
        digit = math.floor(rest)
        drawn = _below(2**32, source)
        if drawn != digit:
            return drawn < digit
        rest -= digit
        if rest == 0:
            return False
