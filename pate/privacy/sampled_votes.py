"""Noisy votes of a Poisson sample's nearest neighbours: their dominating pair under replace-one, and its composition.

One query: every unit is in the sample with probability q, by itself; the k nearest of the sample cast one vote each;
N(0, sigma^2 I) goes on the sums. The replaced unit keeps its place, and with it its coin. Given who else is in, the
query is one of P = (1-q) N(0) + q N(g), Q = (1-q) N(0) + q N(h), the moves g and h being what the unit and its
replacement do to the votes, in units of the noise. Where k others are in, anyone who joins them pushes out the k-th,
*the same one* for both: g = e_y - e_c or 0, h = e_y' - e_c or 0. Where fewer are, none is pushed out: g = e_y or 0, h
= e_y' or 0. So |g|, |h| and |g - h| are at most A = sqrt(2)/sigma: the moves are never opposite. Opposite ones, which
DP-SGD must fear (:mod:`pate.dpsgd`), would be 2 A apart, and cost twice the epsilon.

**Theorem.** Where |g|, |h|, |g - h| <= A, every test phi and a >= 1 have P(phi) - a Q(phi) <= max over p of
(1 - q - a) p + q f(p) with f(p) = Phi(Phi^-1(p) + A): the divergence of (1-q) N(0) + q N(A) from N(0), on the line.

Proof. By Neyman and Pearson N(g)(phi) <= f(N(0)(phi)) and N(g)(phi) <= f(N(h)(phi)). Let r be the lesser of N(0)(phi)
and N(h)(phi); f increases, so N(g)(phi) <= f(r). In P(phi) - a Q(phi) = (1-q) (1-a) N(0)(phi) + q N(g)(phi) - q a
N(h)(phi) the first and the last factor are not positive at a >= 1, so that it is at most ((1-q) (1-a) - q a) r + q f(r)
= (1 - q - a) r + q f(r). The moves 0 and A attain it. QED.

At a < 1, H(a) = 1 - a + a H'(1/a) with H' of the pair the other way round, for which the theorem holds too. The curve
that is made so of both is convex, 1 at 0 and at least (1 - a)_+: that of one pair, symmetric, which dominates the query
given who else is in, and so the query (joint convexity of divergences); such pairs compose, whatever later queries hang
on (Zhu, Dong, Wang 2022, Theorem 10). Epsilon is a little above that of add-or-remove adjacency, which has two pairs
that need not be the worse one at once.

**Noisy screening** (a query is answered only where its largest count plus N(0, tau^2) reaches a public threshold): one
more coordinate, in which g and h have d/tau and d'/tau, with d and d' in {-1, 0, 1} and never of opposite sign: the
largest count falls by removing c only where c alone is largest, and then no vote for another class raises it above what
it was. What shows of a query, answered or not, is a function of all coordinates. A^2 = 2/sigma^2 + 1/tau^2.

**Without sampling** (q = 1) the k nearest of all change by one replaced vote: :meth:`pate.Charge.gaussian_argmax` is
cheaper.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pate._core.checks import check_int, check_real, largest_of, least_of
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_delta
from pate.privacy.losses import discretization_interval, rounding_slack

#: By how much one query's divergence may be too small, for rounding (it is some units of 2^-53).
_ERROR = 1e-14
#: Less noise, in votes, is not accounted for: its grids would not fit.
LEAST_SIGMA = 0.1
#: Smaller deltas drown in the rounding of a composition.
LEAST_DELTA = 1e-9


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
        Exact up to rounding, and attained.
    """
    q = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
    length = _length(sigma, screening_sigma)
    eps = np.asarray(epsilons, dtype=np.float64)
    above = np.abs(eps)
    x = np.log1p(np.expm1(above) / q) / length + length / 2  # the ratio of the pair passes e^epsilon here
    stick = np.maximum(q * ndtr(length - x) + (1 - q - np.exp(above)) * ndtr(-x), 0.0)
    return np.where(eps >= 0, stick, -np.expm1(-above) + np.exp(-above) * stick)


def _length(sigma: float, screening_sigma: float | None) -> float:
    """Return A, by how much one unit moves a query, in units of its noise."""
    squared = 2 / check_real("sigma", sigma, low=LEAST_SIGMA) ** 2
    if screening_sigma is not None:
        squared += 1 / check_real("screening_sigma", screening_sigma, low=LEAST_SIGMA) ** 2
    return math.sqrt(squared)


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
    """
    delta = check_delta(delta)
    if delta < LEAST_DELTA:
        raise InvalidInputError(f"delta must be >= {LEAST_DELTA:g} here, got {delta!r}. Use a larger delta.")
    n = check_int("n_queries", n_queries, low=1)
    if interval is None:
        coarse = _composed(sample_rate, sigma, screening_sigma, n, delta, 1e-2)
        interval = discretization_interval(largest_of(least_of(coarse, 500.0), 1e-3), n)
        return least_of(coarse, _composed(sample_rate, sigma, screening_sigma, n, delta, interval))
    return _composed(sample_rate, sigma, screening_sigma, n, delta, interval)


@lru_cache(maxsize=256)
def _composed(
    sample_rate: float, sigma: float, screening_sigma: float | None, n: int, delta: float, interval: float
) -> float:
    from dp_accounting.pld import privacy_loss_distribution

    # What rounding and transform may lose is paid for out of delta.
    left = delta - n * _ERROR - rounding_slack(n)
    if left <= 0:
        return math.inf
    pmf = _masses(sample_rate, sigma, screening_sigma, interval)
    whole: Any = privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(n)
    return float(whole.get_epsilon_for_delta(left))


def _masses(sample_rate: float, sigma: float, screening_sigma: float | None, interval: float) -> Any:
    """Return the losses of one query on a grid, rounded towards more loss (Doroshenko et al. 2022)."""
    from dp_accounting.pld import pld_pmf

    length = _length(sigma, screening_sigma)
    # Beyond it the pair's ratio has a tail below 1e-15: what is left goes to infinity.
    top = math.log1p(sample_rate * math.expm1(least_of(length**2 / 2 + 8 * length, 700.0)))
    reach = math.ceil(top / interval) + 1
    grid = np.arange(-reach, reach + 1)
    deltas = sampled_votes_divergence(
        grid * interval, sample_rate=sample_rate, sigma=sigma, screening_sigma=screening_sigma
    )
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas)
