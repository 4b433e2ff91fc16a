"""A data-dependent cost made publishable by noise of smooth sensitivity: an upper bound that rarely fails.

Nissim, Raskhodnikova, Smith 2007: if A_d(D) bounds how much a statistic R changes between any data set within d of D
and a neighbour of it, then S(D) = max_d exp(-beta d) A_d(D) is beta-smooth, S(D) <= exp(beta) S(D') for neighbours,
and the release R + S noise_scale (N(0, 1) + c) is private (:func:`gnss_rdp`). The released number is itself paid for.

R is a bound on the answers' cost that moves slowly with the votes (:mod:`pate.privacy.publish.smooth_statistic`).

What is claimed. Let c = Phi^-1(1 - delta0). With probability 1 - delta0 over its noise, the number T = R + S
noise_scale (Z + c) is at least R, which bounds the Renyi cost, at this data set, of the answers: between it and any
neighbour, in both directions. The noise of the number is independent of the answers', so both together cost at most T
+ price, hence (epsilon, delta - delta0) by conversion, and delta with the number's failure. This is a statement about
the one data set at hand, of an epsilon that varies with it; it is weaker than that of propose-test-release, whose
epsilon is a constant known before the run. Releasing T is (order, price)-Renyi private for *every* pair of
neighbours, whether the bound fails or not: for other releases it costs that, and no delta.

Only a multiple of a public grid gets out, the next one above T's epsilon, decided as for real numbers
(:func:`pate.noise.rounded_up`): T's noise is exact, and its low bits carry nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pate.core.checks import check_real, largest_of
from pate.core.tape import note
from pate.exceptions import InvalidInputError
from pate.noise import rounded_up
from pate.noise.source import NoiseSource
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, delta_left, rdp_overhead
from pate.privacy.cost import Charge
from pate.privacy.publish.smooth_statistic import ROUNDING, query_cap, smooth_bound
from pate.privacy.words import Guarantee

#: Published epsilons are multiples of this.
GRID = Fraction(1, 100)


def gnss_rdp(beta: float, noise_scale: float, order: float, *, deviations: float = 0.0) -> float:
    """Return the Renyi cost of releasing R + S noise_scale (N(0, 1) + deviations), S a beta-smooth sensitivity.

    The exact divergence of two normals of deviations s = noise_scale S, s' = noise_scale S' and centres at most
    min(S, S') apart (Gil, Alajaji, Linder 2013), at its largest, S = exp(beta) S':

        -beta - log(v)/(2 (a-1)) + a c^2 / (2 noise_scale^2 v),   v = a - (a-1) exp(2 beta) > 0,

    c = 1 + deviations noise_scale (exp(beta) - 1).

    Parameters
    ----------
    beta : float
        Smoothness; needs exp(2 beta) < order/(order - 1).
    noise_scale : float
        Deviation of the noise in units of the smooth sensitivity.
    order : float
    deviations : float
        So many of its own deviations are added to the noise, to stay above the truth more often.

    Raises
    ------
    InvalidInputError
        beta is too large for the order (the divergence is infinite).

    Examples
    --------
    >>> round(gnss_rdp(0.01, 10.0, 8.0), 4)
    0.0475
    >>> round(gnss_rdp(0.0, 10.0, 8.0), 4)  # a Gaussian
    0.04
    """
    a = check_real("order", order, low=1, low_open=True)
    limit = math.log(a / (a - 1)) / 2
    beta = check_real("beta", beta, low=0, high=limit, high_open=True, remedy="Its limit is log(a/(a-1))/2.")
    scale = check_real("noise_scale", noise_scale, low=0, low_open=True)
    # 1 - v: neither is v lost where it is small, nor its logarithm where that is divided by a - 1.
    less = (a - 1) * math.expm1(2 * beta)
    if less >= 1:
        raise InvalidInputError(
            f"beta must be below its limit log(a/(a-1))/2 = {limit:g}, got {beta!r}. Take a tenth of it."
        )
    centre = 1 + check_real("deviations", deviations, low=0) * scale * math.expm1(beta)
    return -beta - math.log1p(-less) / (2 * (a - 1)) + a * centre**2 / (2 * scale**2 * (1 - less))


def release_smooth(
    counts: npt.ArrayLike,
    sigma: float,
    *,
    order: float,
    beta: float,
    noise_scale: float,
    delta: float,
    noise: NoiseSource,
    delta0: float = 1e-6,
    threshold: float | None = None,
    sigma_threshold: float | None = None,
) -> Guarantee:
    """Return a sanitised epsilon of GNMax or Confident-GNMax answers to a batch of queries.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes), or anything with such ``counts``
    sigma : float
        Standard deviation of the continuous Gaussian noise on every count, in votes.
    order, beta, noise_scale, delta0 : float
        See :class:`SmoothSensitivity`.
    delta : float
        Above ``delta0``, which is part of it.
    noise : NoiseSource
    threshold, sigma_threshold : float or None
        Those of Confident-GNMax, in votes.

    Returns
    -------
    Guarantee
        Kind ``"sanitised"``: a multiple of `GRID`, the noisy bound plus the cost of releasing it, converted. Release it
        once: every further draw costs :attr:`SmoothSensitivity.cost` again. :func:`pate.account` keeps it in a ledger.

    Guarantees
    ----------
    With probability at least 1 - delta0 over its noise, epsilon is at least that of answers and number together at
    this data set, against every neighbour and in both directions, at delta - delta0 (module docstring). Releasing the
    number is :attr:`SmoothSensitivity.cost`-private for every pair of neighbours.

    Raises
    ------
    InvalidInputError
        A parameter is out of range, delta0 not below delta, or teachers abstain.

    Examples
    --------
    >>> done = release_smooth(
    ...     [[240, 10]] * 100, 40.0, order=8.0, beta=0.01, noise_scale=5.0, delta=1e-5, noise=NoiseSource()
    ... )
    >>> done.kind, 1.0 < done.epsilon < 3.0
    ('sanitised', True)
    """
    how = SmoothSensitivity(order=order, beta=beta, noise_scale=noise_scale, delta0=delta0)
    left = how.delta_left(delta)
    value, sensitivity = smooth_bound(
        counts, sigma, order=order, beta=beta, threshold=threshold, sigma_threshold=sigma_threshold
    )
    most = len(np.asarray(getattr(counts, "counts", counts))) * query_cap(order, sigma, sigma_threshold)
    steps = _draw(value, sensitivity, how, rdp_overhead(order, left), most, noise)
    return Guarantee(
        epsilon=float(steps * GRID),
        delta=delta,
        kind="seeded" if noise.seeded else "sanitised",
        method=(
            f"smooth sensitivity, beta {beta:g}, noise scale {noise_scale:g}, "
            f"too low with probability at most {delta0:g} (within delta)"
        ),
        order=float(order),
        adaptivity="fixed queries",
    )


def _draw(
    value: float, sensitivity: float, how: SmoothSensitivity, overhead: float, most: float, noise: NoiseSource
) -> int:
    """Return the published epsilon, in steps of `GRID`."""
    fixed = Fraction(how.price) + Fraction(overhead)
    deviation = Fraction(how.noise_scale) * Fraction(sensitivity)
    centre = Fraction(value) + deviation * Fraction(how.deviations) + fixed
    note("smooth sensitivity")  # the scale of its noise is private, by its design
    n_steps = rounded_up(centre, scale=deviation, grid=GRID, source=noise)
    # Clipping between two constants is post-processing: 0, and what the public cost says.
    n_most = math.ceil((Fraction(most) * (1 + Fraction(ROUNDING)) + fixed) / GRID)
    return min(max(n_steps, 0), n_most)


@dataclass(frozen=True, kw_only=True)
class SmoothSensitivity:
    """How a data-dependent epsilon is sanitised: chosen without the votes.

    Attributes
    ----------
    order : float
        Renyi order of the statistic.
    beta : float
        Smoothness; around .1/order is a start. Needs exp(2 beta) < order/(order - 1).
    noise_scale : float
        Deviation of the noise in units of the smooth sensitivity; around 4 is a start.
    delta0 : float
        The probability, part of delta, that the published bound is too low.

    Raises
    ------
    InvalidInputError
        beta is too large for the order, or a parameter is out of range.

    Examples
    --------
    >>> how = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0)
    >>> round(how.price, 3), how.delta0
    (0.468, 1e-06)
    """

    order: float
    beta: float
    noise_scale: float
    delta0: float = 1e-6

    def __post_init__(self) -> None:
        check_real("delta0", self.delta0, low=0, high=1, low_open=True, high_open=True, remedy="Take a tenth of delta.")
        gnss_rdp(self.beta + 8 * ROUNDING, self.noise_scale, self.order, deviations=self.deviations)

    @classmethod
    def usual(cls, delta: float) -> SmoothSensitivity:
        """Return settings that serve most votes of teachers who agree: order 8, a tenth of ``delta`` for the failure.

        On the 2018 paper's votes (640 queries, sigma 40) the bound is within 2% of that of the best settings.

        Examples
        --------
        >>> SmoothSensitivity.usual(1e-3)
        SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0, delta0=0.0001)
        """
        return cls(order=8.0, beta=0.0125, noise_scale=4.0, delta0=check_delta(delta) / 10)

    @property
    def deviations(self) -> float:
        """Phi^-1(1 - delta0), rounded up: how many of its deviations the number is raised by."""
        return largest_of(0.0, -float(ndtri(self.delta0)) * (1 + 1e-12))

    @property
    def price(self) -> float:
        """Renyi cost, at ``order``, of the release itself."""
        return self._price(self.order)

    def _price(self, order: float) -> float:
        beta = self.beta + 8 * ROUNDING
        return gnss_rdp(beta, self.noise_scale, order, deviations=self.deviations) * (1 + 1e-12)

    @property
    def cost(self) -> Charge:
        """What releasing the number costs other releases: a Renyi curve, for every pair of neighbours, and no delta.

        There is no mu^2 in it (the two normals differ in their deviations): a ledger has to count in Renyi divergence.
        """
        highest = 1 / -math.expm1(-2 * (self.beta + 8 * ROUNDING)) if self.beta > 0 else math.inf
        orders = sorted({a for a in (*DEFAULT_ORDERS, self.order) if a < highest * (1 - 1e-9)})
        return Charge(math.inf, tuple(self._price(a) for a in orders), orders=tuple(orders))

    def delta_left(self, delta: float) -> float:
        """Return delta - delta0, rounded down.

        Raises
        ------
        InvalidInputError
            delta0 is not below delta.

        Examples
        --------
        >>> SmoothSensitivity(order=8.0, beta=0.01, noise_scale=4.0).delta_left(1e-5) <= 9e-6
        True
        """
        left = delta_left(check_delta(delta), self.delta0)
        if left <= 0:
            raise InvalidInputError(
                f"delta0 must be below delta={delta:g}, which contains it, got {self.delta0:g}. Take a tenth of delta."
            )
        return left
