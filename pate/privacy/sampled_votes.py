"""Noisy votes of a Poisson sample's nearest neighbours: dominating pairs under replace-one, and their composition.

One query: every unit is in the sample with probability q, by itself; the k nearest of the sample cast one vote each;
N(0, sigma^2 I) goes on the sums. The replaced unit keeps its place, and with it its coin. Given who else is in, the
query is one of P = (1-q) N(0) + q N(g), Q = (1-q) N(0) + q N(h), moves g and h being what the unit and its replacement
do to the votes. Where k others are in, the nearest k gain one vote and lose that of the k-th, *the same one* for both:
g = e_y - e_c or 0, h = e_y' - e_c or 0. Where fewer are, nobody is pushed out: g = e_y or 0, h = e_y' or 0. So with A =
sqrt(2)/sigma the moves, in units of the noise, have |g|, |h|, |g - h| <= A. They are never opposite, and that is worth a
factor of two in epsilon: opposite ones, which DP-SGD must fear, would be 2 A apart.

**Lemma (fewer moves).** Gaussians moved by L g and L h are got from those moved by g and h by a map and more noise, if
L'L <= I. So a pair is dominated by another wherever its Gram matrix is below the other's in the order of positive
semidefinite matrices. e_y and e_y' (identity, over sigma^2) are below (2, 1; 1, 2): three pairs remain,

* both move: |g| = |h| = A at 60 degrees;
* one alone: (1-q) N(0) + q N(A) against N(0), and the other way round: the pairs of add-or-remove.

The largest of their hockey-stick divergences at every epsilon is convex in e^epsilon, 1 at 0 and at least
(1 - e^epsilon)_+: it is that of one pair, which dominates the query (Zhu, Dong, Wang 2022, Proposition 8 and what
follows it), mixed over who else is in by joint convexity, and such pairs compose (theirs, Theorem 10), whatever later
queries hang on. The family is symmetric, so one direction is enough.

**Noisy screening** (a query is answered only if its largest count plus N(0, tau^2) reaches a public threshold): one
more coordinate, in which g and h have d, d' in {-1, 0, 1} over tau, never of opposite sign: the largest count falls by
removing c only where c alone is largest, and then a vote for another class does not raise it above what it was. What
shows of a query that is not answered is a function of all coordinates. Remaining pairs: (d, d') = (1, 1), (1, 0), (0, 1)
with both moving, one alone with |g|^2 = 1/tau^2 + 2/sigma^2. (Fewer than k: below these.)

**Without sampling** (q = 1) the k nearest of all change by one replaced vote, and :meth:`Charge.gaussian_argmax` is
cheaper than any of this.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_delta
from pate.privacy.losses import discretization_interval, rounding_slack

#: By how much one query's divergence may be too small, for quadrature and rounding (measured: below 1e-15).
_ERROR = 1e-13
#: Less noise, in votes, is not accounted for: its grids would not fit.
LEAST_SIGMA = 0.1
#: Smaller deltas drown in the rounding of a composition.
LEAST_DELTA = 1e-9
#: Normal tails beyond it are below 1e-22.
_REACH = 9.8


def sampled_votes_divergence(
    epsilons: npt.ArrayLike, *, sample_rate: float, sigma: float, screening_sigma: float | None = None
) -> FloatArray:
    """Return the delta of one query at each epsilon: the largest hockey-stick divergence over all neighbours.

    Parameters
    ----------
    epsilons : array-like of shape (n,)
        In nats, any sign.
    sample_rate : float
        q, in (0, 1].
    sigma : float
        Noise on every count, in votes.
    screening_sigma : float or None
        Noise on the largest count, where queries are screened.

    Returns
    -------
    float64 array of shape (n,)
        An upper bound up to an absolute 1e-13.

    Examples
    --------
    >>> found = sampled_votes_divergence([0.0, 1.0], sample_rate=1.0, sigma=2**0.5)   # two Gaussians 1 apart
    >>> found.round(5)
    array([0.38292, 0.12694])
    """
    q = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
    sigma = check_real("sigma", sigma, low=LEAST_SIGMA)
    label, screen = 1 / sigma**2, 0.0
    if screening_sigma is not None:
        screen = 1 / check_real("screening_sigma", screening_sigma, low=LEAST_SIGMA) ** 2
    eps = np.asarray(epsilons, dtype=np.float64)
    # At a < 1: H(a) = 1 - a + a H(1/a) by symmetry.
    above, inverse = np.unique(np.abs(eps), return_inverse=True)
    both = [(screen + 2 * label, screen + 2 * label, screen + label)]
    if screen:
        both += [(screen + 2 * label, 2 * label, label), (2 * label, screen + 2 * label, label)]
    sticks = [_both_move(above, q, *gram) for gram in both]
    sticks += _one_moves(above, q, math.sqrt(screen + 2 * label))
    largest = np.max(sticks, axis=0)[inverse].reshape(eps.shape)
    return np.where(eps >= 0, largest, -np.expm1(eps) + np.exp(eps) * largest)


def _one_moves(eps: FloatArray, q: float, length: float) -> list[FloatArray]:
    """Return the divergences of (1-q) N(0) + q N(length) from N(0), and the other way round, at epsilon >= 0."""
    a = np.exp(eps)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log1p(np.expm1(eps) / q) / length + length / 2  # the ratio passes e^epsilon here
        there = q * ndtr(length - x) + (1 - q - a) * ndtr(-x)
        least = (1 / a - (1 - q)) / q  # of the ratio N(length)/N(0); none below zero
        y = np.where(least > 0, np.log(np.maximum(least, 1e-300)) / length + length / 2, -np.inf)
        back = (1 - a * (1 - q)) * ndtr(y) - a * q * ndtr(y - length)
    return [np.maximum(there, 0.0), np.maximum(np.where(least > 0, back, 0.0), 0.0)]


def _both_move(eps: FloatArray, q: float, gg: float, hh: float, gh: float) -> FloatArray:
    """Return the divergence of (1-q) N(0) + q N(g) from (1-q) N(0) + q N(h) at epsilon >= 0.

    With u and v the logarithms of N(g)/N(0) and N(h)/N(0), a normal pair, the best test is
    q e^u >= (1-q) (a-1) + q a e^v: in closed form over u given v, by the trapezoid rule over v, which converges
    exponentially (the edge log((1-q)(a-1)/q + a e^v) is analytic within pi of the real line).
    """
    spread, slope = math.sqrt(hh), gh / hh
    rest = math.sqrt(gg - gh * slope)
    step = min(spread / 8, 0.4)
    v = np.arange(-hh / 2 - _REACH * spread, hh / 2 + max(0.0, gh) + _REACH * spread, step)
    with np.errstate(divide="ignore"):
        idle = np.log1p(-q) + np.log(np.expm1(eps)) - math.log(q)
    total = np.empty(len(eps))
    for start in range(0, len(eps), 2048):
        part = slice(start, start + 2048)
        a = np.exp(eps[part])[:, None]
        edge = np.logaddexp(idle[part, None], eps[part, None] + v)

        def share(mean_u: float, mean_v: float, edge: FloatArray = edge) -> FloatArray:
            weight = np.exp(-0.5 * ((v - mean_v) / spread) ** 2) * (step / spread / math.sqrt(2 * math.pi))
            return np.asarray(weight * ndtr((mean_u + slope * (v - mean_v) - edge) / rest))

        inner = (1 - q) * (1 - a) * share(-gg / 2, -hh / 2)
        inner += q * share(gg / 2, gh - hh / 2)
        inner -= q * a * share(gh - gg / 2, hh / 2)
        total[part] = np.maximum(inner, 0.0).sum(axis=1)
    return total


def sampled_votes_epsilon(
    *,
    sample_rate: float,
    sigma: float,
    n_queries: int,
    delta: float,
    screening_sigma: float | None = None,
    interval: float | None = None,
) -> float:
    """Return the epsilon at ``delta`` of so many queries under replace-one adjacency, an upper bound.

    Parameters
    ----------
    sample_rate, sigma, screening_sigma
        See :func:`sampled_votes_divergence`.
    n_queries : int
        At least 1.
    delta : float
        At least 1e-9.
    interval : float or None
        Grid of the privacy loss, in nats; None takes one that costs at most half a percent.

    Returns
    -------
    float
        Infinite where the losses of one query are beyond what a grid holds.

    Examples
    --------
    >>> round(sampled_votes_epsilon(sample_rate=0.1, sigma=4.0, n_queries=100, delta=1e-5), 2)
    1.6
    """
    delta = check_delta(delta)
    if delta < LEAST_DELTA:
        raise InvalidInputError(f"delta must be >= {LEAST_DELTA:g} here, got {delta!r}. Use a larger delta.")
    n = check_int("n_queries", n_queries, low=1)
    sigma = check_real("sigma", sigma, low=LEAST_SIGMA)
    if interval is None:
        coarse = _composed(sample_rate, sigma, screening_sigma, n, delta, 1e-2)
        interval = discretization_interval(max(min(coarse, 500.0), 1e-3), n)
        return min(coarse, _composed(sample_rate, sigma, screening_sigma, n, delta, interval))
    return _composed(sample_rate, sigma, screening_sigma, n, delta, interval)


@lru_cache(maxsize=256)
def _composed(
    sample_rate: float, sigma: float, screening_sigma: float | None, n: int, delta: float, interval: float
) -> float:
    from dp_accounting.pld import privacy_loss_distribution

    # What quadrature and transform may lose is paid for out of delta.
    left = delta - n * _ERROR - rounding_slack(n)
    if left <= 0:
        return math.inf
    pmf = _masses(sample_rate, sigma, screening_sigma, interval)
    whole: Any = privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(n)
    return float(whole.get_epsilon_for_delta(left))


def _masses(sample_rate: float, sigma: float, screening_sigma: float | None, interval: float) -> Any:
    """Return the losses of one query on a grid, rounded towards more loss (Doroshenko et al. 2022)."""
    from dp_accounting.pld import pld_pmf

    length = math.sqrt((0.0 if screening_sigma is None else screening_sigma**-2) + 2 / sigma**2)
    # Beyond it both pairs' ratios have a tail below 1e-15: what is left goes to infinity.
    top = math.log1p(sample_rate * math.expm1(min(length**2 / 2 + 8 * length, 700.0)))
    reach = math.ceil(top / interval) + 1
    grid = np.arange(-reach, reach + 1)
    deltas = sampled_votes_divergence(
        grid * interval, sample_rate=sample_rate, sigma=sigma, screening_sigma=screening_sigma
    )
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas)
