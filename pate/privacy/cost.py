"""What a release costs in the worst case, whatever the data: the currency of budgets and ledgers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int, check_real
from pate.exceptions import InvalidInputError
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, gdp_to_epsilon, pure_to_gdp, rdp_to_epsilon
from pate.privacy.public_curve import rho_star, threshold_rho_star
from pate.privacy.words import Guarantee

#: Less noise than this, in votes, hides nothing and only overflows.
MIN_NOISE = 1e-3


def laplace_rdp(shift: float, scale: float, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
    """Return the Renyi divergence of Laplace(scale) from itself shifted (Mironov 2017, Proposition 6).

    Examples
    --------
    >>> laplace_rdp(1.0, 20.0, [2.0]).round(7)
    array([0.0024568])
    """
    alphas = np.asarray(orders, dtype=np.float64)
    t = abs(shift) / scale
    first = np.log(alphas / (2 * alphas - 1)) + (alphas - 1) * t
    second = np.log((alphas - 1) / (2 * alphas - 1)) - alphas * t
    # For small t everything cancels: the margin is what the logarithms may have lost.
    margin = 8 * np.finfo(float).eps / (alphas - 1)
    return np.asarray(np.minimum(np.maximum(np.logaddexp(first, second), 0.0) / (alphas - 1) + margin, t))


# Planning asks for many numbers of queries at one sigma, calibration for many sigmas once.
@lru_cache(maxsize=64)
def _argmax_rdp(sigma: float) -> tuple[float, ...]:
    return tuple(rho_star(DEFAULT_ORDERS, sigma).tolist())


@lru_cache(maxsize=64)
def _threshold_rdp(sigma: float) -> tuple[float, ...]:
    return tuple(threshold_rho_star(DEFAULT_ORDERS, sigma).tolist())


@dataclass(frozen=True)
class Charge:
    """A worst-case cost, known before the data are touched. Charges add up.

    Attributes
    ----------
    mu_squared : float
        The release is sqrt(mu_squared)-GDP (exact for released Gaussian noise, by domination for pure mechanisms).
    rdp : tuple of float, length ``len(DEFAULT_ORDERS)``
        Renyi divergence at :data:`DEFAULT_ORDERS`.
    pure : float
        Pure epsilon; infinite for Gaussian noise.

    Notes
    -----
    Each of the three composes by addition, also when a later mechanism is chosen after seeing earlier answers, as
    long as the *total* is a constant fixed beforehand: RDP by Mironov 2017, Proposition 1; GDP by Dong, Roth, Su
    2022, Corollary 3.3; pure by basic composition. When the total itself is random, only a filter fixed beforehand
    is sound: one of the three, or Renyi divergence at one order, as the currency of a :class:`pate.Ledger`. An argmax
    or a threshold test alone is cheaper by RDP than the Gaussian it comes from, a released histogram is not.

    Examples
    --------
    >>> one = Charge.gaussian(sensitivity=2**0.5, sigma=40.0)
    >>> print((one * 300).guarantee(1e-5))
    (2.50174, 1e-05)-DP, public, by gdp, adjacency replace-one, both directions, adaptive
    """

    mu_squared: float
    rdp: tuple[float, ...]
    pure: float = math.inf

    def __post_init__(self) -> None:
        numbers = (self.mu_squared, self.pure, *self.rdp)
        if len(self.rdp) != len(DEFAULT_ORDERS) or any(not v >= 0 for v in numbers):
            raise InvalidInputError(f"a Charge needs {len(DEFAULT_ORDERS)} Renyi values and costs >= 0.")

    @classmethod
    def zero(cls) -> Charge:
        """Return the cost of releasing nothing.

        Examples
        --------
        >>> Charge.zero().guarantee(1e-5).epsilon
        0.0
        """
        return cls(0.0, (0.0,) * len(DEFAULT_ORDERS), 0.0)

    @classmethod
    def gaussian(cls, *, sensitivity: float, sigma: float) -> Charge:
        """Return the cost of a value of L2 ``sensitivity`` plus N(0, sigma^2 I), or of anything computed from it.

        Examples
        --------
        >>> Charge.gaussian(sensitivity=1.0, sigma=2.0).mu_squared
        0.25
        """
        mu_squared = (check_real("sensitivity", sensitivity, low=0) / check_real("sigma", sigma, low=MIN_NOISE)) ** 2
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

        Examples
        --------
        >>> print((Charge.gaussian_argmax(40.0) * 300).guarantee(1e-5))
        (2.12108, 1e-05)-DP, public, by rdp (order 10), adjacency replace-one, both directions, adaptive
        """
        sigma = check_real("sigma", sigma, low=MIN_NOISE)
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

        Examples
        --------
        >>> round(Charge.threshold_test(150.0).rdp[3] / Charge.gaussian(sensitivity=1.0, sigma=150.0).rdp[3], 3)
        0.637
        """
        sigma = check_real("sigma", sigma, low=MIN_NOISE)
        return cls(1.0 / sigma**2, _threshold_rdp(sigma))

    @classmethod
    def laplace(cls, *, shifts: Iterable[float], scale: float) -> Charge:
        """Return the cost of independent coordinates, each moved by at most its shift, plus Laplace(scale).

        Examples
        --------
        >>> Charge.laplace(shifts=(1, 1), scale=20.0).pure
        0.1
        """
        scale = check_real("scale", scale, low=MIN_NOISE)
        moves = [abs(float(s)) for s in shifts]
        pure = sum(moves) / scale
        rdp = np.sum([laplace_rdp(s, scale) for s in moves], axis=0)
        # Each coordinate alone is |shift|/scale-DP; independent coordinates compose as Gaussians do.
        mu_squared = sum(pure_to_gdp(s / scale) ** 2 for s in moves)
        return cls(mu_squared, tuple(np.minimum(rdp, pure).tolist()), pure)

    def __add__(self, other: Charge) -> Charge:
        if not isinstance(other, Charge):
            # A PublicCost may fail with delta0, which a Charge would forget.
            return NotImplemented
        rdp = tuple(a + b for a, b in zip(self.rdp, other.rdp, strict=True))
        return Charge(self.mu_squared + other.mu_squared, rdp, self.pure + other.pure)

    def __mul__(self, n: int) -> Charge:
        n = check_int("n", n, low=0)
        if n == 0:
            return Charge.zero()
        return Charge(self.mu_squared * n, tuple(r * n for r in self.rdp), self.pure * n)

    __rmul__ = __mul__

    def guarantee(self, delta: float) -> Guarantee:
        """Return the least epsilon at ``delta`` that any of the three accounts proves.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        Guarantee
            Public: every account is a constant, so taking the least leaks nothing.

        Examples
        --------
        >>> (Charge.laplace(shifts=(1, 1), scale=200.0) * 3).guarantee(1e-5).method
        'pure'
        """
        delta = check_delta(delta)
        by_rdp, order = rdp_to_epsilon(self.rdp, delta)
        options = [
            (gdp_to_epsilon(math.sqrt(self.mu_squared), delta), "gdp", None),
            (by_rdp, "rdp", order),
            (self.pure, "pure", None),
        ]
        epsilon, method, used = min(options, key=lambda option: option[0])
        return Guarantee(epsilon=epsilon, delta=delta, kind="public", method=method, order=used)
