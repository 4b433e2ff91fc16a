"""The epsilons of different accountants for the same run of DP-SGD: for teaching and comparison, not for spending.

All take n_steps rounds of the Poisson-subsampled Gaussian: each record enters a round with probability q, noise is
noise_multiplier clipping norms.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, logsumexp

from pate._core.checks import check_choice, check_int, check_real, largest_of, least_of
from pate.exceptions import InvalidInputError
from pate.privacy.compose.repetitions import select_best
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, check_orders, gdp_to_epsilon, rdp_to_epsilon
from pate.privacy.cost import Charge, check_times
from pate.privacy.exact.sampled_gaussian import tilted_epsilon
from pate.privacy.losses import (
    LEAST_NOISE,
    Losses,
    SampledGaussianPair,
    discretization_interval,
    needs_tilt,
    rounding_slack,
)

# Costs of dp_accounting's events, and the Renyi curve of DP-SGD under replace-one adjacency.

#: More noise than this drowns a step's divergence in the rounding of its series.
_MOST_NOISE = 1e4
#: Deltas beyond which epsilon may be next to nothing.
_LARGE_DELTA = 1e-2
#: Covers quadrature (below 1e-9, see the tests) and rounding.
_MARGIN = 1 + 1e-7


def from_dp_event(event: Any) -> Charge:
    """Return the cost of an event of Google's ``dp_accounting`` library, under replace-one adjacency.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        NoOp, Gaussian, Laplace, ZCDp; PoissonSampled of (self-composed) Gaussians; TruncatedSubsampledGaussian;
        RepeatAndSelect; Composed and SelfComposed of these.

    Returns
    -------
    Charge
        Every noise multiplier is noise over the largest norm C of *one* record's value, as dp_accounting defines it:
        two neighbours differ in one replaced record, whose two values may be opposite, so their sums are up to 2 C
        apart (dp_accounting's REPLACE_ONE in its PLD accountant; its RDP accountant takes them to be C apart, which is
        add-or-remove, cheaper, and another promise). A ZCDp event states a bound itself: it has to hold under
        replace-one.

    Raises
    ------
    InvalidInputError
        An event of which no cost is known here.

    Examples
    --------
    >>> import dp_accounting
    >>> event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(4.0), 8)
    >>> from_dp_event(event).mu_squared
    2.0
    """
    import dp_accounting as dpa

    if isinstance(event, dpa.NoOpDpEvent):
        return Charge.zero()
    if isinstance(event, dpa.GaussianDpEvent):
        return Charge.gaussian(sensitivity=2.0, sigma=event.noise_multiplier)
    if isinstance(event, dpa.LaplaceDpEvent):
        # The whole L1 distance in one coordinate costs most: a Laplace curve is convex in its shift, and 0 at 0.
        return Charge.laplace(shifts=(2.0,), scale=event.noise_multiplier)
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

    mu: who is in a batch does not depend on any record, so the attacker may know it; a step is then nothing or a
    (2/s)-GDP release, and a mixture of both is (2/s)-GDP, by convexity of trade-off functions.
    """
    s = check_real("noise_multiplier", event.noise_multiplier, low=2 * LEAST_NOISE)
    if not event.sampling_probability or not event.truncated_batch_size or not event.dataset_size:
        return Charge.zero()
    pair = SampledGaussianPair.truncated(
        event.sampling_probability, s, n_units=event.dataset_size, max_batch_size=event.truncated_batch_size
    )
    mu_squared = (2 / s) ** 2
    # Where most batches are cut, the pair is looser than the batches known to the attacker.
    curve = np.minimum(pair_rdp(pair), np.array(DEFAULT_ORDERS) * mu_squared / 2)
    return Charge(mu_squared, tuple(curve.tolist()), losses=Losses(0.0, ((pair, 1),)))


def pair_rdp(pair: SampledGaussianPair) -> tuple[float, ...]:
    """Return the Renyi divergence of a pair at :data:`DEFAULT_ORDERS`: a public coin mixes the moments."""
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


#: Integer moments that the 2016 paper goes through.
_MOMENTS = range(1, 33)


@dataclass(frozen=True)
class AccountedEpsilon:
    """What one accountant says.

    Attributes
    ----------
    accountant : str
        Its name.
    epsilon : float
        At the delta that was asked for.
    is_bound : bool
        False for estimates, and for constants that no theorem gives: these may be below the truth, and are never to
        be used as a guarantee.
    source : str
        Who says so: paper and theorem.

    Examples
    --------
    >>> rows = dpsgd_epsilons(4.0, sample_rate=0.01, n_steps=1000, delta=1e-5)
    >>> {row.is_bound for row in rows if "limit" in row.accountant}
    {False}
    """

    accountant: str
    epsilon: float
    is_bound: bool
    source: str


def dpsgd_epsilons(
    noise_multiplier: float, *, sample_rate: float, n_steps: int, delta: float, adjacency: str = "add-or-remove"
) -> tuple[AccountedEpsilon, ...]:
    """Return the epsilon of one run of DP-SGD by each of several accountants, the tightest bound first.

    Parameters
    ----------
    noise_multiplier : float
        Noise over the clipping norm, 0.05 to 10,000.
    sample_rate : float
        In (0, 1].
    n_steps : int
    delta : float
    adjacency : {"add-or-remove", "replace-one"}
        Add-or-remove is what the 2016 paper and most courses draw. Under replace-one strong composition is left out:
        amplification of approximate differential privacy by Poisson sampling is a theorem of add-or-remove.

    Returns
    -------
    tuple of AccountedEpsilon
        Bounds: ``"pld"`` (privacy loss distributions), ``"rdp"`` (Mironov, Talwar, Zhang 2019), ``"moments"`` (Abadi
        et al. 2016: integer moments to 32, Markov's inequality), ``"strong composition"`` (the exact Gaussian's
        (epsilon, delta), amplified, composed by Kairouz, Oh, Viswanath 2015, at the best split of delta). No bounds:
        ``"gdp limit"`` (the central limit of Bu, Dong, Long, Su 2020, below the truth as a rule) and ``"strong
        composition, 2016"`` (with the constants by which the 2016 paper's own figure is drawn: the classical Gaussian
        mechanism outside of epsilon < 1, amplification to first order).

    Raises
    ------
    InvalidInputError
        A number out of range.

    Examples
    --------
    >>> rows = dpsgd_epsilons(
    ...     4.0, sample_rate=0.01, n_steps=10_000, delta=1e-5
    ... )  # Abadi et al. 2016, figure 2
    >>> {row.accountant: round(row.epsilon, 2) for row in rows if row.is_bound}
    {'pld': 0.95, 'rdp': 1.04, 'moments': 1.26, 'strong composition': 14.18}
    >>> {row.accountant: round(row.epsilon, 2) for row in rows if not row.is_bound}
    {'gdp limit': 0.94, 'strong composition, 2016': 9.35}
    """
    s = check_real("noise_multiplier", noise_multiplier, low=LEAST_NOISE, high=_MOST_NOISE)
    q = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
    n = check_int("n_steps", n_steps, low=1)
    delta = check_delta(delta)
    check_choice("adjacency", adjacency, ("add-or-remove", "replace-one"))
    replace_one = adjacency == "replace-one"
    by_rdp = _rdp(s, q, n, delta, replace_one=replace_one)
    rows = [
        ("pld", least_of(by_rdp, _pld(s, q, n, delta, about=by_rdp, replace_one=replace_one)), True,
         "Koskela, Jalko, Honkela 2020; Doroshenko et al. 2022"),
        ("rdp", by_rdp, True, "Mironov, Talwar, Zhang 2019; Canonne, Kamath, Steinke 2020"),
        ("moments", _moments(s, q, n, delta, replace_one=replace_one), True, "Abadi et al. 2016"),
        ("gdp limit", _gdp_limit(s, q, n, delta, replace_one), False, "Bu, Dong, Long, Su 2020"),
    ]  # fmt: skip
    if not replace_one:
        known = "Balle, Wang 2018; Balle, Barthe, Gaboardi 2018; Kairouz, Oh, Viswanath 2015"
        rows.insert(3, ("strong composition", _strong(s, q, n, delta), True, known))
        known = "Dwork, Rothblum, Vadhan 2010; constants as in Abadi et al. 2016"
        rows.append(("strong composition, 2016", _strong_2016(s, q, n, delta), False, known))
    return tuple(AccountedEpsilon(*row) for row in rows)


def _pld(s: float, q: float, n: int, delta: float, *, about: float, replace_one: bool) -> float:
    if about == 0:  # Renyi divergence proves the least there is
        return 0.0
    if (
        delta > _LARGE_DELTA
    ):  # epsilon may be next to nothing while losses reach far: such a grid has millions of points
        about = largest_of(about, 0.05)
    if replace_one:
        return Losses(0.0, ((SampledGaussianPair.poisson(q, s), n),)).epsilon(delta, about=about)
    from dp_accounting.pld import privacy_loss_distribution as pld

    interval = discretization_interval(about, n)
    if needs_tilt(n, delta):
        return tilted_epsilon([(((1.0, q, s),), n)], delta, interval, adjacency="add-or-remove")
    step = pld.from_gaussian_mechanism(s, sampling_prob=q, value_discretization_interval=interval)
    return float(step.self_compose(n).get_epsilon_for_delta(delta - rounding_slack(n)))


def _rdp(s: float, q: float, n: int, delta: float, *, replace_one: bool) -> float:
    if replace_one:
        return rdp_to_epsilon(n * sampled_gaussian_rdp(q, s), delta)[0]
    import dp_accounting
    from dp_accounting import rdp

    step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(s))
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.ERROR)  # it tells of each order that its series has no sum for, and leaves it out
    try:
        found = float(rdp.RdpAccountant().compose(step, n).get_epsilon(delta))
    finally:
        log.setLevel(level)
    # It also says 0 where a divergence drowned in rounding. There 0 is proved by n steps in which a record shows with
    # probability q, and then by the distance of two Gaussians; else the run without sampling is a bound.
    if found == 0 and q / s < 1e-6 and n * q * math.erf(1 / (s * math.sqrt(8))) > delta:
        return gdp_to_epsilon(math.sqrt(n) / s, delta)
    return found


def _moments(s: float, q: float, n: int, delta: float, *, replace_one: bool) -> float:
    """Return min over integer moments of (n alpha(lambda) + log(1/delta)) / lambda (Abadi et al. 2016, Theorem 2)."""
    if replace_one:
        logs = np.array(_MOMENTS) * sampled_gaussian_rdp(q, s, [m + 1 for m in _MOMENTS])
    else:
        logs = np.array([_log_moment(s, q, m) for m in _MOMENTS])
    return float(np.min((n * logs - math.log(delta)) / np.array(_MOMENTS)))


def _log_moment(s: float, q: float, moment: int) -> float:
    """Return the larger log moment of both directions: E_0 (P/N0)^(m+1), a binomial sum.

    The other direction's, E_0 (N0/P)^m, is no larger (Mironov, Talwar, Zhang 2019, Theorem 5).
    """
    a, k = moment + 1, np.arange(moment + 2)
    logs = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1) + k * math.log(q) + (k * k - k) / (2 * s * s)
    if q == 1:
        return float(logs[-1])
    return float(logsumexp(logs + (a - k) * math.log1p(-q)))


def _gdp_limit(s: float, q: float, n: int, delta: float, replace_one: bool) -> float:
    """Return the epsilon of the limit mu^2 = n chi^2: of one step against N(0), or of the replace-one pair."""
    inverse = 1 / (s * s)
    if inverse > 600:
        return math.inf
    chi_squared = 4 * math.sinh(inverse) if replace_one else math.expm1(inverse)
    return gdp_to_epsilon(q * math.sqrt(n * chi_squared), delta)


def _strong(s: float, q: float, n: int, delta: float) -> float:
    """Return the least epsilon over splits of delta between steps and composition; each split is sound."""

    def composed(share: float) -> float:
        # n steps of (e, d)-DP fail with 1 - (1 - d)^n (1 - d') <= n d + d' (Kairouz, Oh, Viswanath 2015, Theorem 3.4).
        alone = gdp_to_epsilon(1 / s, least_of(share * delta / (n * q), 0.5))
        e = math.log1p(q * math.expm1(alone)) if alone < 600 else alone + math.log(q)
        rest = (1 - share) * delta
        drift = n * e * math.tanh(e / 2)
        root = e * math.sqrt(2 * n)
        return least_of(
            n * e,
            drift + root * math.sqrt(math.log(math.e + e * math.sqrt(n) / rest)),
            drift + root * math.sqrt(-math.log(rest)),
        )

    return _best_split(composed)


def _strong_2016(s: float, q: float, n: int, delta: float) -> float:
    """Return what strong composition gives with the classical Gaussian mechanism and first-order amplification."""

    def composed(share: float) -> float:
        e = q * math.sqrt(2 * math.log(1.25 * n * q / (share * delta))) / s
        if e > 600:
            return math.inf
        return e * math.sqrt(-2 * n * math.log((1 - share) * delta)) + n * e * math.expm1(e)

    return _best_split(composed)


def _best_split(composed: Callable[[float], float]) -> float:
    shares = np.concatenate([np.logspace(-6, -0.4, 25), 1 - np.logspace(-0.5, -4, 8)])
    values = [composed(share) for share in shares.tolist()]
    best = int(np.argmin(values))
    around = (float(shares[max(best - 1, 0)]), float(shares[min(best + 1, len(shares) - 1)]))
    refined = minimize_scalar(composed, bounds=around, method="bounded", options={"xatol": 1e-6})
    return least_of(values[best], float(refined.fun))
