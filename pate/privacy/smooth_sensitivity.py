"""A data-dependent cost made publishable by noise of smooth sensitivity.

Nissim, Raskhodnikova, Smith 2007: if A_d(D) bounds how much a statistic R changes between any data set within d of D
and a neighbour of it, then S(D) = max_d exp(-beta d) A_d(D) is beta-smooth, S(D) <= exp(beta) S(D') for neighbours,
and the release R + S noise_scale N(0, 1) is private. The released number is itself paid for.

Statistic here: R = sum of Q(u_i), u = Phi^-1(Pr[not the most likely class]) of the exact law. u moves by at most mu =
sqrt(2)/sigma per teacher (:mod:`pate.privacy.tail_bound`, Lemma 1) and Q is nondecreasing, so

    A_d = sum_i sup over e in [-d - 1, d] of Q(u_i + (e + 1) mu) - Q(u_i + e mu)

(e starts at -d - 1: from a data set d away, u may fall by one more step). Q is piecewise linear with knots mu/K
apart, so the supremum is taken at knots. Everything is a bound in both directions.

The claim is weaker than that of propose-test-release: a noisy number about one data set, below the truth by chance
with a probability that ``deviations`` lowers, and not a constant known before the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pate._random import NoiseSource
from pate._validation import check_int, check_real
from pate.exceptions import InvalidInputError
from pate.privacy.conversion import check_delta, rdp_to_epsilon
from pate.privacy.guarantee import Guarantee
from pate.privacy.ptr import query_scores
from pate.privacy.tail_bound import TailBound
from pate.privacy.term_tables import loser_tables, term_table

FloatArray = npt.NDArray[np.float64]

_LOWEST, _HIGHEST = -38.0, 8.0
_SPLITS = 64


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
    v = a - (a - 1) * math.exp(2 * beta)
    centre = 1 + check_real("deviations", deviations, low=0) * scale * math.expm1(beta)
    return -beta - math.log(v) / (2 * (a - 1)) + a * centre**2 / (2 * scale**2 * v)


@dataclass(frozen=True, repr=False)
class ConsensusCost:
    """Q(u): a bound on one query's cost, a nondecreasing, piecewise linear function of u. No votes are in it.

    Attributes
    ----------
    start, step : float
        First knot and distance of knots, in standard deviations.
    knots_per_teacher : int
        mu / step.
    values : (n_knots,)
        Constant beyond either end.
    """

    start: float
    step: float
    knots_per_teacher: int
    values: FloatArray

    def _knot(self, u: FloatArray) -> npt.NDArray[np.int64]:
        return np.floor((u - self.start) / self.step).astype(np.int64)

    def cost(self, u: FloatArray) -> FloatArray:
        """Return Q(u), the shape of ``u``."""
        return np.asarray(np.interp((u - self.start) / self.step, np.arange(len(self.values)), self.values))

    def local_sensitivity(self, u: FloatArray, beta: float) -> tuple[float, int]:
        """Return the smooth sensitivity of the sum of Q(u), and the distance that attains it. Private numbers."""
        k = self.knots_per_teacher
        padded = np.concatenate([np.full(k, self.values[0]), self.values, np.full(k, self.values[-1])])
        change = padded[k:] - padded[:-k]  # between each knot from start - mu on and the knot one mu to the right
        # Largest over k + 1 knots from each one on.
        reach = np.max(np.lib.stride_tricks.sliding_window_view(np.pad(change, (0, k)), k + 1), axis=1)
        largest = float(change.max())

        def at(table: FloatArray, knot: npt.NDArray[np.int64]) -> FloatArray:
            return table[np.clip(knot + k, 0, len(table) - 1)]

        left = self._knot(u)
        worst = np.maximum(at(reach, left - k), at(change, left + 1))
        best, where, d = float(worst.sum()), 0, 0
        while math.exp(-beta * (d + 1)) * largest * len(u) > best:
            d += 1
            worst = np.maximum(worst, np.maximum(at(reach, left - (d + 1) * k), at(reach, left + 1 + (d - 1) * k)))
            here = math.exp(-beta * d) * float(worst.sum())
            if here > best:
                best, where = here, d
        return best, where


@lru_cache(maxsize=8)
def consensus_cost(sigma: float, order: float, n_classes: int, public: float | None = None) -> ConsensusCost:
    """Tabulate Q(u) for GNMax with continuous noise.

    With Pr[not the leader] = q: the leader's term, and the largest sum of the losers' terms with total probability q,
    of which one vote touches two classes (as :class:`~pate.privacy.tail_bound.TailBound`, without each loser's own
    score).

    Examples
    --------
    >>> q = consensus_cost(40.0, 8.0, 10)
    >>> q.cost(np.array([-6.0, -3.0, 0.0])).round(6)
    array([0.      , 0.00015..., 0.005   ])
    """
    m = check_int("n_classes", n_classes, low=2)
    bound = TailBound(sigma=sigma, order=order, public=public)
    mu = bound.shift
    if (order - 1) * bound.cap > 300:
        raise InvalidInputError(f"order must be small enough for (order - 1) cost < 300, got {order:g}.")
    k = max(4, min(64, int(2e5 * mu / (_HIGHEST - _LOWEST))))
    step = mu / k
    knots: FloatArray = _LOWEST + step * np.arange(math.ceil((_HIGHEST - _LOWEST) / step) + 1, dtype=np.float64)
    right: FloatArray = knots + step * (1 + 1e-6)  # a knot carries the bound of the next one: interpolation stays above
    p, low, high, log_scale = loser_tables(mu, mu / 2, order)
    mass = ndtr(right)
    best = np.zeros(len(knots))
    for i in range(_SPLITS if m > 2 else 1):
        others = np.interp(mass * (1 - i / _SPLITS) / (m - 2), p, low) * (m - 2) if m > 2 else 0.0
        first = np.interp(mass * ((i + 1) / _SPLITS if m > 2 else 1.0), p, high)
        best = np.maximum(best, first + others)
    touched, aside = (np.exp(np.minimum(term_table(s, order).from_(-right), 600.0)) for s in (mu, mu / 2))
    surplus = np.interp(mass / 2, p, high) - np.interp(mass / 2, p, low) if m > 2 else 0.0
    scale = math.exp(log_scale)
    total = best * scale + np.maximum(touched, aside + surplus * scale)
    values = np.minimum(np.log1p(total) / (order - 1) * (1 + 1e-9), bound.cap)
    values = np.maximum.accumulate(values)
    values.setflags(write=False)
    return ConsensusCost(_LOWEST, step, k, values)


def release_smooth(
    counts: npt.ArrayLike,
    sigma: float,
    *,
    order: float,
    beta: float,
    noise_scale: float,
    delta: float,
    noise: NoiseSource,
    deviations: float = 0.0,
    public: float | None = None,
) -> Guarantee:
    """Return a sanitised epsilon of GNMax answers to a batch of queries.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes), or anything with such ``counts``
    sigma : float
        Standard deviation of the continuous Gaussian noise on every count, in votes.
    order, beta, noise_scale, deviations : float
        See :func:`gnss_rdp`. Chosen without looking at the votes; around beta = .2/order and noise_scale = 5 are a
        start.
    delta : float
    noise : NoiseSource
    public : float or None
        Public cost of one query at ``order``; None takes the Gaussian one.

    Returns
    -------
    Guarantee
        Kind ``"sanitised"``: the noisy bound, plus the cost of releasing it, converted at ``delta``; never above the
        public price plus that cost. Release it once: every further draw costs again.

    Guarantees
    ----------
    Releasing the number is (order, gnss_rdp)-Renyi private for replace-one. What it says of the answers holds where
    its noise did not fall below -deviations standard deviations; the noise hides how far the truth is.

    Raises
    ------
    InvalidInputError
        A parameter is out of range.

    Examples
    --------
    >>> done = release_smooth(
    ...     [[240, 10]] * 100, 40.0, order=8.0, beta=0.02, noise_scale=5.0, delta=1e-5, noise=NoiseSource()
    ... )
    >>> done.kind, 1.0 < done.epsilon < 3.0
    ('sanitised', True)
    """
    delta = check_delta(delta)
    price = gnss_rdp(beta, noise_scale, order, deviations=deviations)
    votes = np.asarray(getattr(counts, "counts", counts))
    u = query_scores(votes, sigma).rest
    table = consensus_cost(float(sigma), float(order), votes.shape[1], public)
    value = float(table.cost(u).sum())
    deviation = noise_scale * table.local_sensitivity(u, beta)[0]
    noisy = value + deviation * (float(noise.normal(1)[0]) + deviations)
    # Clipping between two constants is post-processing.
    noisy = min(max(noisy, 0.0), len(votes) * TailBound(sigma=sigma, order=order, public=public).cap)
    epsilon, _ = rdp_to_epsilon([noisy + price], delta, orders=[order])
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        kind="seeded" if noise.seeded else "sanitised",
        method=f"smooth sensitivity, beta {beta:g}, noise scale {noise_scale:g}, deviations {deviations:g}",
        order=float(order),
        adaptivity="fixed queries",
    )


@dataclass(frozen=True, kw_only=True)
class SmoothSensitivity:
    """How a data-dependent epsilon is sanitised: parameters of :func:`release_smooth`, chosen without the votes.

    Attributes
    ----------
    order, beta, noise_scale, deviations : float
        See :func:`gnss_rdp`.

    Raises
    ------
    InvalidInputError
        beta is too large for the order, or a parameter is out of range.

    Examples
    --------
    >>> round(SmoothSensitivity(order=8.0, beta=0.02, noise_scale=5.0).price, 3)
    0.228
    """

    order: float
    beta: float
    noise_scale: float
    deviations: float = 0.0

    def __post_init__(self) -> None:
        gnss_rdp(self.beta, self.noise_scale, self.order, deviations=self.deviations)

    @property
    def price(self) -> float:
        """Renyi cost, at ``order``, of the release itself."""
        return gnss_rdp(self.beta, self.noise_scale, self.order, deviations=self.deviations)
