"""Costs of dp_accounting's events, and the Renyi curve of DP-SGD under replace-one adjacency."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from pate.core.checks import check_real, least_of
from pate.exceptions import InvalidInputError
from pate.privacy.compose.selection import select_best
from pate.privacy.convert import DEFAULT_ORDERS, check_orders
from pate.privacy.cost import Charge, check_times
from pate.privacy.losses import LEAST_NOISE, Losses, SampledGaussianPair

#: Covers quadrature (below 1e-9, see the tests) and rounding.
_MARGIN = 1 + 1e-7


def from_dp_event(event: Any) -> Charge:
    """Return the cost of a dp_accounting event under replace-one adjacency.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        NoOp, Gaussian, Laplace, ZCDp; PoissonSampled of (self-composed) Gaussians; TruncatedSubsampledGaussian;
        RepeatAndSelect; Composed and SelfComposed of these.

    Returns
    -------
    Charge
        Gaussian and Laplace noise multipliers are read as dp_accounting reads them: noise over the distance of the
        two neighbours. A (truncated) Poisson-sampled Gaussian's is noise over the *clipping norm*, and neighbours
        differ in one replaced record, whose two contributions may be opposite (as dp_accounting's REPLACE_ONE in its
        PLD accountant; its RDP accountant has add-or-remove only, which is cheaper and would be another promise).

    Raises
    ------
    InvalidInputError
        An event of which no cost is known here.

    Examples
    --------
    >>> import dp_accounting
    >>> event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 8)
    >>> from_dp_event(event).mu_squared
    2.0
    """
    import dp_accounting as dpa

    if isinstance(event, dpa.NoOpDpEvent):
        return Charge.zero()
    if isinstance(event, dpa.GaussianDpEvent):
        return Charge.gaussian(sensitivity=1.0, sigma=event.noise_multiplier)
    if isinstance(event, dpa.LaplaceDpEvent):
        return Charge.laplace(shifts=(1.0,), scale=event.noise_multiplier)
    if isinstance(event, dpa.dp_event.ZCDpEvent):
        low, slope = check_real("xi", event.xi, low=0), check_real("rho", event.rho, low=0)
        return Charge(math.inf, tuple(low + slope * a for a in DEFAULT_ORDERS))
    if isinstance(event, dpa.SelfComposedDpEvent | dpa.ComposedDpEvent):
        return Charge.total(_parts(event))
    if isinstance(event, dpa.PoissonSampledDpEvent):
        return _sampled_gaussian(event.sampling_probability, _noise_multiplier(event.event))
    if isinstance(event, dpa.dp_event.TruncatedSubsampledGaussianDpEvent):
        return _truncated_gaussian(event)
    if isinstance(event, dpa.dp_event.RepeatAndSelectDpEvent):
        return select_best(from_dp_event(event.event), mean_runs=event.mean, shape=event.shape)
    raise InvalidInputError(
        f"no replace-one cost is known here for a {type(event).__name__}. Known are NoOp, Gaussian, Laplace, ZCDp, "
        "PoissonSampled Gaussian, TruncatedSubsampledGaussian, RepeatAndSelect, Composed and SelfComposed."
    )


def _parts(event: Any) -> list[tuple[Charge, int]]:
    """Return what a composition is made of, each with how often; their sum is then rounded once."""
    import dp_accounting as dpa

    if isinstance(event, dpa.SelfComposedDpEvent):
        count = check_times(event.count, "count")
        return [(cost, n * count) for cost, n in _parts(event.event)]
    if isinstance(event, dpa.ComposedDpEvent):
        return [part for inner in event.events for part in _parts(inner)]
    return [(from_dp_event(event), 1)]


def _noise_multiplier(event: Any) -> float:
    """Return the one noise multiplier to which Gaussians on the same sample amount: 1/s^2 adds up; none is infinite."""
    import dp_accounting as dpa

    def inverse_square(part: Any) -> float:
        if isinstance(part, dpa.GaussianDpEvent):
            return 1 / check_real("noise_multiplier", part.noise_multiplier, low=LEAST_NOISE) ** 2
        if isinstance(part, dpa.SelfComposedDpEvent):
            return check_times(part.count, "count") * inverse_square(part.event)
        if isinstance(part, dpa.ComposedDpEvent):
            return math.fsum(inverse_square(e) for e in part.events)
        raise InvalidInputError(f"a sampled event must be made of Gaussians, got {type(part).__name__}.")

    total = inverse_square(event)
    return 1 / math.sqrt(total) if total else math.inf


def _sampled_gaussian(sample_rate: float, noise_multiplier: float) -> Charge:
    sample_rate = check_real("sample_rate", sample_rate, low=0, high=1)
    if sample_rate == 0 or math.isinf(noise_multiplier):
        return Charge.zero()
    if sample_rate == 1:
        return Charge.gaussian(sensitivity=2.0, sigma=noise_multiplier)
    pair = SampledGaussianPair.poisson(sample_rate, noise_multiplier)
    return Charge(math.inf, pair_rdp(pair), losses=Losses(0.0, ((pair, 1),)))


def _truncated_gaussian(event: Any) -> Charge:
    """Return the cost of one step whose Poisson sample is cut at random (proof in :mod:`pate.privacy.losses`).

    mu: who is in a batch does not depend on any record, so the attacker may be told; a step is then nothing or a
    (2/s)-GDP release, and a mixture of both is (2/s)-GDP, by convexity of trade-off functions.
    """
    s = check_real("noise_multiplier", event.noise_multiplier, low=2 * LEAST_NOISE)
    if not event.sampling_probability or not event.truncated_batch_size or not event.dataset_size:
        return Charge.zero()
    pair = SampledGaussianPair.truncated(
        event.sampling_probability, s, n_units=event.dataset_size, max_batch_size=event.truncated_batch_size
    )
    mu_squared = (2 / s) ** 2
    # Where most batches are cut, the pair is looser than the batches told to the attacker.
    curve = np.minimum(pair_rdp(pair), np.array(DEFAULT_ORDERS) * mu_squared / 2)
    return Charge(mu_squared, tuple(curve.tolist()), losses=Losses(0.0, ((pair, 1),)))


def pair_rdp(pair: SampledGaussianPair) -> tuple[float, ...]:
    """Return the Renyi divergence of a pair at :data:`DEFAULT_ORDERS`: a public coin mixes the moments.

    Examples
    --------
    >>> pair_rdp(SampledGaussianPair.poisson(1.0, 2.0))[3] == 4 * 2.0 / (2 * 2.0**2) * (1 + 1e-7)
    True
    """
    curves = [_default_curve(q, s) for _, q, s in pair.branches]
    if len(curves) == 1:
        return curves[0]
    weights = np.array([weight for weight, _, _ in pair.branches])
    less_one = np.array(DEFAULT_ORDERS) - 1
    exponents = less_one * np.array(curves)
    # No cancellation where moments are near 1, no overflow where they are large.
    near_one = np.log1p(weights @ np.expm1(np.minimum(exponents, 1.0)))
    logs = np.where(exponents.max(axis=0) < 1, near_one, np.logaddexp.reduce(exponents + np.log(weights)[:, None]))
    return tuple((logs / less_one * (1 + 1e-9)).tolist())  # for the last digits of the weights


@lru_cache(maxsize=64)
def _default_curve(sample_rate: float, noise_multiplier: float) -> tuple[float, ...]:
    return tuple(sampled_gaussian_rdp(sample_rate, noise_multiplier).tolist())


def sampled_gaussian_rdp(
    sample_rate: float, noise_multiplier: float, orders: npt.ArrayLike = DEFAULT_ORDERS
) -> npt.NDArray[np.float64]:
    """Return the Renyi divergence of one DP-SGD step under replace-one adjacency, both directions.

    Every record is in the step with probability q, its gradient clipped to norm 1, the sum blurred by N(0, s^2 I).
    All replace-one pairs are dominated by (1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2)
    (Zhu, Dong, Wang 2022; proof in :mod:`pate.dpsgd`), which is symmetric; Renyi divergences of dominated pairs
    are no larger. Computed by the trapezoid rule, which converges spectrally here.

    Parameters
    ----------
    sample_rate : float
        q, in (0, 1].
    noise_multiplier : float
        s, noise over the clipping norm, at least 0.05.
    orders : array-like of shape (n_orders,)

    Returns
    -------
    array of shape (n_orders,)
        In nats, about 4 q^2 alpha / (2 s^2) for small q.

    Raises
    ------
    InvalidInputError
        A parameter out of range.

    Examples
    --------
    >>> sampled_gaussian_rdp(1.0, 2.0, [3.0]).round(5)   # without sampling: 4 alpha / (2 s^2)
    array([1.5])
    """
    q = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
    s = check_real("noise_multiplier", noise_multiplier, low=LEAST_NOISE)
    alphas = check_orders(orders)
    # The integrand is analytic in a strip of half-width pi s^2 (zeros of the mixtures): error exp(-2 pi^2 s^2 / h).
    step = least_of(s / 4, s * s / 2)
    result = np.empty(len(alphas))
    for i, a in enumerate(alphas):
        # P^a Q^(1-a) is largest near 2 a - 1 at the most; 13 standard deviations beyond lose 1e-37.
        x = np.arange(-1 - 13 * s, 2 * a + 13 * s, step)
        with np.errstate(divide="ignore"):
            stay = np.log1p(-q) - x**2 / (2 * s * s)
        log_p = np.logaddexp(stay, math.log(q) - (x - 1) ** 2 / (2 * s * s))
        log_q = np.logaddexp(stay, math.log(q) - (x + 1) ** 2 / (2 * s * s))
        unit = math.log(step / (s * math.sqrt(2 * math.pi)))
        moment = float(logsumexp(a * log_p + (1 - a) * log_q)) + unit
        if moment < 0.1:
            moment = math.log1p(math.exp(unit) * float(_excess(log_p, log_q, a).sum()))
        result[i] = moment / (a - 1) * _MARGIN
    return result


def _excess(log_p: npt.NDArray[np.float64], log_q: npt.NDArray[np.float64], a: float) -> npt.NDArray[np.float64]:
    """Return Q (e^(a l) - 1 - a (e^l - 1)) at l = log P/Q, every term >= 0: the moment minus 1 without cancellation."""
    loss = log_p - log_q
    small = np.abs(a * loss) < 0.05
    t = np.where(small, loss, 0.0)
    series = np.zeros_like(t)
    for k in range(8, 1, -1):
        series += (a**k - a) / math.factorial(k) * t**k
    large = np.exp(a * log_p + (1 - a) * log_q) - np.exp(log_q) - a * (np.exp(log_p) - np.exp(log_q))
    return np.asarray(np.where(small, np.exp(log_q) * series, np.maximum(large, 0.0)))
