"""What a release costs in the worst case, whatever the data: the one type of cost, which budgets and ledgers take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from numbers import Real

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real, least_of
from pate.exceptions import InvalidInputError
from pate.privacy.attacker import pair_advantage
from pate.privacy.convert import (
    DEFAULT_ORDERS,
    check_delta,
    check_orders,
    chords,
    delta_left,
    gdp_to_epsilon,
    pure_to_gdp,
    pure_to_mu_squared,
    rdp_to_epsilon,
)
from pate.privacy.losses import Losses
from pate.privacy.public_curve import rho_star, threshold_rho_star
from pate.privacy.words import Guarantee

#: Less noise than this, in votes, hides nothing and only overflows.
MIN_NOISE = 1e-3
#: More noise than this leaves nothing; its square, or the sensitivity's, would overflow.
_MOST = 1e100
#: Where a Renyi curve is looked at for the total variation; public constants.
_LARGE_DELTAS = (1e-4, 1e-3, 1e-2, 0.03, 0.1)
#: At more releases than this floats no longer count them.
_MOST_TIMES = 2**53


def laplace_rdp(shift: float, scale: float, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
    """Return the Renyi divergence of Laplace(scale) from itself shifted (Mironov 2017, Proposition 6)."""
    alphas = np.asarray(orders, dtype=np.float64)
    t = abs(shift) / scale
    first = np.log(alphas / (2 * alphas - 1)) + (alphas - 1) * t
    second = np.log((alphas - 1) / (2 * alphas - 1)) - alphas * t
    # For small t everything cancels: the margin is what the logarithms may have lost.
    margin = 8 * np.finfo(float).eps / (alphas - 1)
    return np.asarray(np.minimum(np.maximum(np.logaddexp(first, second), 0.0) / (alphas - 1) + margin, t))


def pure_rdp(epsilon: float, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
    """Return the largest Renyi divergence that pure ``epsilon``-DP allows, exact and rounded up, shape (n_orders,).

    Every such pair of laws is post-processing of randomised response with p = e^epsilon / (1 + e^epsilon) (Kairouz, Oh,
    Viswanath 2015, Theorem 3.1), whose divergence, by data processing the largest, is
    log(cosh((a - 1/2) epsilon) / cosh(epsilon / 2)) / (a - 1): at most a epsilon^2 / 2 (Bun and Steinke 2016,
    Proposition 3.3), and at most epsilon.
    """
    a = np.asarray(orders, dtype=np.float64)
    t = np.minimum(a * epsilon, 40.0) / a  # beyond it the second form, which cannot overflow
    near = np.log1p(2 * np.sinh(a * t / 2) * np.sinh((a - 1) * t / 2) / np.cosh(t / 2))
    far = (a - 1) * epsilon + np.log1p(np.exp(-(2 * a - 1) * epsilon)) - np.log1p(np.exp(-epsilon))
    exact = np.where(a * epsilon <= 40.0, near, far) / (a - 1)
    return np.asarray(np.minimum(exact * (1 + 1e-12), epsilon))


# Planning asks for many numbers of queries at one sigma, calibration for many sigmas once.
@lru_cache(maxsize=64)
def _argmax_rdp(sigma: float) -> tuple[float, ...]:
    return tuple(rho_star(DEFAULT_ORDERS, sigma).tolist())


@lru_cache(maxsize=64)
def _threshold_rdp(sigma: float) -> tuple[float, ...]:
    return tuple(threshold_rho_star(DEFAULT_ORDERS, sigma).tolist())


@dataclass(frozen=True)
class Charge:
    """The worst-case privacy cost of a release, known before private data are used. Charges can be added.

    It is made by :meth:`gaussian`, :meth:`gaussian_argmax`, :meth:`threshold_test`, :meth:`laplace`, :meth:`pure_dp`,
    :meth:`at_order`, by a mechanism (``mechanism.charge(n)``), a gate (``gate.charge``),
    :func:`pate.privacy.select_best` or :func:`pate.privacy.from_dp_event`.

    Attributes
    ----------
    mu_squared : float
        The release is sqrt(mu_squared)-GDP (exact for released Gaussian noise, by domination for pure mechanisms);
        infinite where unknown.
    rdp : tuple of float, shape (n_orders,)
        Renyi divergence at ``orders``, in nats; infinite where unknown.
    pure : float
        Pure epsilon; infinite for Gaussian noise.
    orders : tuple of float, shape (n_orders,)
        Increasing, above 1; :data:`DEFAULT_ORDERS` if nothing else is said.
    delta0 : float
        Probability by which all of the above may fail (a propose-test-release gate); it is added to delta.
    losses : Losses or None
        The dominating pairs it is made of, where these say more than the numbers above (subsampled Gaussians): what
        :class:`pate.privacy.Accountant` composes by privacy loss distributions. No part of a charge's equality, and
        not kept in a ledger, which counts in one accounting unit.

    Notes
    -----
    Each of the three composes by addition, also when a later mechanism is chosen after seeing earlier answers, as
    long as the *total* is a constant fixed beforehand: RDP by Mironov 2017, Proposition 1; GDP by Dong, Roth, Su
    2022, Corollary 3.3; pure by basic composition. When the total itself is random, only a filter fixed beforehand
    is sound: one of the three, or Renyi divergence at one order, as the accounting unit of a :class:`pate.Ledger`. An
    argmax or a threshold test alone is cheaper by RDP than the Gaussian it comes from, a released histogram is not.

    delta0 composes by addition, and is added to delta, where for every pair of neighbours and any past the two laws are
    P = (1 - delta0) P' + delta0 P'' and Q = (1 - delta0) Q' + delta0 Q'' with *the same* delta0, and P', Q' have the
    stated costs (approximate concentrated privacy, Bun and Steinke 2016, Definition 8.1). A propose-test-release gate
    is of that form: its bad event has one probability in both worlds. An event that happens in one world only is not:
    there the true delta is up to (1 + e^epsilon) delta0.

    Two charges are equal when their numbers are; equal charges are still two payments.

    Examples
    --------
    >>> one = Charge.gaussian(sensitivity=2**0.5, sigma=40.0)
    >>> print((one * 300).guarantee(1e-5))
    (2.50174, 1e-05)-DP, public, by gdp, adjacency replace-one, both directions, adaptive
    >>> (one + one).mu_squared == (2 * one).mu_squared
    True
    """

    mu_squared: float
    rdp: tuple[float, ...]
    pure: float = math.inf
    orders: tuple[float, ...] = DEFAULT_ORDERS
    delta0: float = 0.0
    losses: Losses | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Plain floats in tuples of our own: a list may change after it was paid for, and float32 loses small costs.
        try:
            if self.orders is not DEFAULT_ORDERS:
                object.__setattr__(self, "orders", tuple(map(_float, self.orders)))
            object.__setattr__(self, "rdp", tuple(map(_float, self.rdp)))
            for name in ("mu_squared", "pure", "delta0"):
                object.__setattr__(self, name, _float(getattr(self, name)))
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError("the costs and orders of a Charge must be real numbers.") from None
        if self.orders is not DEFAULT_ORDERS and (np.diff(check_orders(self.orders)) <= 0).any():
            raise InvalidInputError("the orders of a Charge must increase.")
        numbers = (self.mu_squared, self.pure, self.delta0, *self.rdp)
        if len(self.rdp) != len(self.orders) or any(not v >= 0 for v in numbers):
            raise InvalidInputError(f"a Charge needs {len(self.orders)} Renyi values and costs >= 0.")
        if self.losses is not None and type(self.losses) is not Losses:
            raise InvalidInputError(f"the losses of a Charge must be a Losses or None, got {self.losses!r}.")

    def __init_subclass__(cls) -> None:
        raise InvalidInputError("a Charge is its numbers: a subclass could price them otherwise. Make a Charge.")

    @classmethod
    def zero(cls) -> Charge:
        """Return the cost of releasing nothing."""
        return cls(0.0, (0.0,) * len(DEFAULT_ORDERS), 0.0)

    @classmethod
    def gaussian(cls, *, sensitivity: float, sigma: float) -> Charge:
        """Return the cost of a value of L2 ``sensitivity`` plus N(0, sigma^2 I), or of anything computed from it."""
        mu_squared = (
            check_real("sensitivity", sensitivity, low=0, high=_MOST)
            / check_real("sigma", sigma, low=MIN_NOISE, high=_MOST)
        ) ** 2
        return cls(mu_squared, tuple(a * mu_squared / 2 for a in DEFAULT_ORDERS))

    @classmethod
    def gaussian_argmax(cls, sigma: float) -> Charge:
        """Return the cost of releasing argmax(counts + N(0, sigma^2 I)) alone, one vote replaced.

        mu_squared is the noisy counts' own, 2/sigma^2; the Renyi curve is the certified ``rho_star`` (two thirds of
        the Gaussian's), proved in docs/public-curve.md, theorem 1. The noise must be continuous and on every class.

        Parameters
        ----------
        sigma : float
            Standard deviation of the noise on every count, in votes.

        Raises
        ------
        InvalidInputError
            sigma below :data:`MIN_NOISE` or not a number.
        """
        sigma = check_real("sigma", sigma, low=MIN_NOISE, high=_MOST)
        return cls(2.0 / sigma**2, _argmax_rdp(sigma))

    @classmethod
    def threshold_test(cls, sigma: float) -> Charge:
        """Return the cost of the one bit ``value + N(0, sigma^2) >= threshold``, the value moved by at most 1.

        mu_squared is 1/sigma^2; the Renyi curve is the certified ``threshold_rho_star``, proved in
        docs/public-curve.md, theorem 2.

        Parameters
        ----------
        sigma : float
            Standard deviation of the test's noise, in votes.

        Raises
        ------
        InvalidInputError
            sigma below :data:`MIN_NOISE` or not a number.
        """
        sigma = check_real("sigma", sigma, low=MIN_NOISE, high=_MOST)
        return cls(1.0 / sigma**2, _threshold_rdp(sigma))

    @classmethod
    def laplace(cls, *, shifts: Iterable[float], scale: float) -> Charge:
        """Return the cost of independent coordinates, each moved by at most its shift, plus Laplace(scale)."""
        scale = check_real("scale", scale, low=MIN_NOISE)
        moves = [abs(float(s)) for s in shifts]
        pure = sum(moves) / scale
        rdp = np.sum([laplace_rdp(s, scale) for s in moves], axis=0)
        # Each coordinate alone is |shift|/scale-DP; independent coordinates compose as Gaussians do.
        mu_squared = sum(pure_to_gdp(s / scale) ** 2 for s in moves)
        return cls(mu_squared, tuple(np.minimum(rdp, pure).tolist()), pure)

    @classmethod
    def pure_dp(cls, epsilon: float) -> Charge:
        """Return the cost of any mechanism of pure ``epsilon``-DP, for one unit replaced.

        mu_squared is that of the Gaussian which dominates every such mechanism (:func:`pate.privacy.pure_to_gdp`);
        infinite beyond an epsilon of about 700. The Renyi curve is that of randomised response, the largest there is
        (Kairouz, Oh, Viswanath 2015); it lies below the a epsilon^2 / 2 of Bun and Steinke 2016, Proposition 3.3.

        Parameters
        ----------
        epsilon : float
            For all neighbours and outcomes P(outcome) <= e^epsilon Q(outcome), both ways, whatever the data.

        Raises
        ------
        InvalidInputError
            epsilon is no finite number >= 0.

        Examples
        --------
        >>> answers = Charge.pure_dp(0.05) * 100
        >>> answers.pure, round(answers.guarantee(1e-5).epsilon, 2)
        (5.0, 2.12)
        """
        epsilon = check_real("epsilon", epsilon, low=0)
        return cls(pure_to_mu_squared(epsilon), tuple(pure_rdp(epsilon).tolist()), epsilon)

    @classmethod
    def at_order(cls, rdp: float, *, order: float, delta0: float = 0.0) -> Charge:
        """Return a cost known at one Renyi order (and so, by monotonicity, at every smaller one).

        A propose-test-release gate with target tau at order a and noise w on its distance (in teachers) has
        rdp = tau + a/(2 w^2) and fails with delta0 (Redberg, Zhu, Wang 2023).

        Parameters
        ----------
        rdp : float
            In nats.
        order : float
            Above 1, chosen without looking at the votes.
        delta0 : float
            In [0, 1).
        """
        delta0 = check_real("delta0", delta0, low=0, high=1, high_open=True)
        curve = (check_real("rdp", rdp, low=0),)
        return cls(math.inf, curve, orders=(check_real("order", order),), delta0=delta0)

    @classmethod
    def total(cls, parts: Iterable[tuple[Charge, int]]) -> Charge:
        """Return the cost of several releases, each with how often it is made: counted one by one, equal or not.

        Each value is summed exactly over all the orders that occur and rounded once, so that n equal costs are exactly
        n times one, however they are grouped.

        Raises
        ------
        InvalidInputError
            Not a charge, or a number of times that is no whole number >= 0.
        """
        parts = [(check_charge(charge), check_times(n)) for charge, n in parts]
        parts = [(charge, n) for charge, n in parts if n]
        if not parts:
            return cls.zero()
        orders = parts[0][0].orders
        if any(charge.orders != orders for charge, _ in parts):
            orders = tuple(sorted({a for charge, _ in parts for a in charge.orders}))
        times = [n for _, n in parts]
        curves = [c.rdp if c.orders == orders else c.rdp_at(orders).tolist() for c, _ in parts]
        return cls(
            _sum((charge.mu_squared for charge, _ in parts), times),
            tuple(_sum(column, times) for column in zip(*curves, strict=True)),
            _sum((charge.pure for charge, _ in parts), times),
            orders,
            _sum((charge.delta0 for charge, _ in parts), times),
            _losses(parts),
        )

    def rdp_at(self, orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return upper bounds at orders, shape (n_orders,): chords, since (alpha - 1) D_alpha is convex in alpha."""
        return chords(self.orders, self.rdp, orders)

    def __add__(self, other: Charge) -> Charge:
        if not isinstance(other, Charge):
            return NotImplemented
        return Charge.total([(self, 1), (other, 1)])

    def __mul__(self, n: int) -> Charge:
        return Charge.total([(self, n)])

    __rmul__ = __mul__

    def guarantee(self, delta: float) -> Guarantee:
        """Return the least epsilon at ``delta`` that GDP, RDP, pure composition or its dominating pairs prove.

        DP-SGD's pairs (``losses``) are composed by privacy loss distributions (Zhu, Dong, Wang 2022, Theorem 10), which
        takes up to some seconds and says 5 to 20 % less than the other accounts.

        Parameters
        ----------
        delta : float
            In (0, 1) and above ``delta0``.

        Returns
        -------
        Guarantee
            Public: every account is a constant, so taking the least leaks nothing.

        Raises
        ------
        InvalidInputError
            delta0 uses up all of delta, or nothing finite is known.
        """
        delta = check_delta(delta)
        # The margin covers the rounding of the sum of failure probabilities.
        left = delta_left(delta, self.delta0 * (1 + 1e-9))
        if left <= 0:
            raise InvalidInputError(
                f"delta must be above the {self.delta0:g} by which the gates may fail, got {delta!r}. "
                "Use gates with a smaller delta0."
            )
        by_rdp, order = rdp_to_epsilon(self.rdp, left, orders=self.orders)
        options: list[tuple[float, str, float | None]] = [(by_rdp, "rdp", order), (self.pure, "pure", None)]
        if math.isfinite(self.mu_squared):
            options.insert(0, (gdp_to_epsilon(math.sqrt(self.mu_squared), left), "gdp", None))
        least = least_of(*(option[0] for option in options))
        epsilon, method, used = next(option for option in options if option[0] == least)
        if not math.isfinite(epsilon):
            raise InvalidInputError("this composition has no finite cost. Are single orders below all known ones?")
        if self.losses is not None:
            by_pairs = self.losses.epsilon(left, about=epsilon)
            if least_of(by_pairs, epsilon) < epsilon:
                epsilon, method, used = by_pairs, "pld", None
        return Guarantee(epsilon=epsilon, delta=delta, kind="public", method=method, order=used)

    def total_variation(self) -> float:
        """Return by how much the laws of what is released differ at most: the delta at epsilon 0, rounded up.

        The least of 2 Phi(mu/2) - 1 under mu-GDP (Dong, Roth, Su 2022); of what pure DP, and the Renyi curve at some
        large deltas, allow (Kairouz, Oh, Viswanath 2015); and of Pinsker's and Bretagnolle and Huber's bounds sqrt(D/2)
        and sqrt(1 - e^-D) of a Kullback-Leibler divergence, which is at most the Renyi divergence of any order above 1
        (van Erven and Harremoes 2014). Then delta0.
        """
        d = least_of(*self.rdp)
        found = (
            math.erf(math.sqrt(self.mu_squared / 8)),
            pair_advantage(self.pure, 0.0),
            *(pair_advantage(rdp_to_epsilon(self.rdp, delta, orders=self.orders)[0], delta) for delta in _LARGE_DELTAS),
            math.sqrt(d / 2),
            math.sqrt(-math.expm1(-d)),
        )
        return least_of(1.0, (least_of(*found) + self.delta0) * (1 + 1e-11))


def check_charge(cost: object) -> Charge:
    """Return ``cost`` if it is a charge; anything that is not a public worst case is refused."""
    if not isinstance(cost, Charge):
        raise InvalidInputError(
            f"a cost must be a pate.Charge, got {type(cost).__name__}. Only worst cases fixed before the data are "
            "touched compose; data-dependent costs do not. A gate's is gate.charge."
        )
    return cost


def check_times(n: object, name: str = "n") -> int:
    """Return how often something is released: whole, for what is taken back or half done was released as well."""
    return check_int(name, n, low=0, high=_MOST_TIMES)


def _float(value: object) -> float:
    if not isinstance(value, Real):
        raise TypeError
    return float(value)


def _losses(parts: list[tuple[Charge, int]]) -> Losses | None:
    """Return the dominating pairs of a sum: of what has none the Gaussian of its mu; None where all is Gaussian."""
    if all(charge.losses is None for charge, _ in parts):
        return None
    if any(charge.losses is None and math.isinf(charge.mu_squared) for charge, _ in parts):
        return None
    return Losses.total((charge.losses or Losses(charge.mu_squared), n) for charge, n in parts)


def _sum(values: Iterable[float], times: Iterable[int]) -> float:
    """Return the sum of n times each value, rounded once; infinite where it is beyond all floats."""
    pairs = list(zip(values, times, strict=True))
    if len(pairs) == 1:  # what planning asks thousands of times; one product of floats is rounded once as it is
        return pairs[0][0] * pairs[0][1]
    if any(math.isinf(value) for value, _ in pairs):
        return math.inf
    try:
        return float(sum(Fraction(value) * n for value, n in pairs))
    except OverflowError:
        return math.inf
