"""Noise multiplier of DP-SGD from a budget, by privacy loss distributions (dp_accounting), on the safe side.

The mechanism is n_steps adaptive rounds of the Poisson-subsampled Gaussian: each record enters a round
independently with probability q, its gradient is clipped to norm C, and N(0, (sigma C)^2 I) is added to the sum.
Below, N(m) stands for N(m, sigma^2), in units of C.

**add-or-remove.** Dominating pairs N(0) against (1-q) N(0) + q N(1), in both orders (Zhu, Dong, Wang 2022,
Theorem 11).

**replace-one.** The replaced record keeps its place, so it is in or out of a round with its replacement. Given the
rest of the sample, the round is one of

    P = (1-q) N(0) + q N(g),  Q = (1-q) N(0) + q N(h)   with |g|, |h| <= 1, in any dimension.

Every such pair is dominated by the one-dimensional P* = (1-q) N(0) + q N(1), Q* = (1-q) N(0) + q N(-1). Proof: for a
test phi and a >= 0, P(phi) - a Q(phi) = (1-q) (1-a) N(0)(phi) + q N(g)(phi) - q a N(h)(phi). Let psi be the half-line
with N(0)(psi) = N(0)(phi) = p. By Neyman and Pearson N(g)(phi) <= Phi(Phi^-1(p) + |g|/sigma) <= N(1)(psi) and
N(h)(phi) >= Phi(Phi^-1(p) - |h|/sigma) >= N(-1)(psi), so psi separates P* and Q* at least as well as phi separates
P and Q, at every a. The pair is attained by opposite gradients, and symmetric: one direction is enough. Mixing over
the rest of the sample does not hurt (joint quasi-convexity), and dominating pairs compose adaptively (Zhu, Dong,
Wang 2022, Theorem 10). dp_accounting's REPLACE_ONE is this pair.

**zero-out** (Kairouz et al. 2021). A record counts for nothing in one of two neighbours, and keeps its place: the pairs
of add-or-remove.

**Without sampling** (q = 1) the pairs are Gaussians whose means lie 2/sigma (replace-one) or 1/sigma apart, and
n_steps of them are exactly sqrt(n_steps) times that in Gaussian differential privacy (Dong, Roth, Su 2022): no
distribution is composed.

**Rounding.** dp_accounting composes by one Fourier transform. Its coefficients z carry rounding errors of a few units
u = 2^-53, so z^n_steps is off by some n_steps u: a probability mass that no pessimistic grid covers, and that may
come out too small. Where delta is of that size, epsilon would too (by .2 % at n_steps = 10,000 and delta = 1e-12).
So epsilon is read off at delta minus 64 n_steps u (the largest loss found is .3 n_steps u), where that is at most 1e-4
of delta. Where it is more, losses are tilted before they are composed (Koskela, Jalko, Honkela 2020; Gopi, Lee,
Wutschitz 2021 for the window): with L the sum of all losses and P' its law tilted by exp(theta loss),

    delta(epsilon) = M E'[exp(-theta L) (1 - exp(epsilon - L))_+],    M = E exp(theta L).

The transform then rounds P', and beyond epsilon its errors are weighed by M exp(-theta L): near the best theta that is
of the size of delta, not of 1. A bound on the errors (Parseval; Cauchy and Schwarz), on what wraps around the window
(Chernoff) and on that of masses and sums is added to delta: :mod:`pate.privacy.exact._composition`. The masses are
computed so that they are accurate in the tails, and rounded upwards: :mod:`pate.privacy.exact.sampled_gaussian`. Where
the grid that is asked for is coarse, Renyi divergence may say less: the lesser of the two counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp

from pate._core.checks import check_choice, check_int, check_real, largest_of, least_of
from pate.exceptions import InvalidInputError
from pate.privacy.compose.calibrate import least_between
from pate.privacy.compose.dpsgd_accountants import sampled_gaussian_rdp
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, gdp_from_budget, gdp_to_epsilon, rdp_to_epsilon
from pate.privacy.exact.sampled_gaussian import tilted_epsilon
from pate.privacy.losses import LEAST_NOISE, needs_tilt, rounding_slack

#: Neighbouring relations that can be accounted for, by dp_accounting's name.
ADJACENCIES = {
    "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "add-or-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    # A record counts for nothing, and keeps its place: the same pairs, at a number of records that is public.
    "zero-out": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}

#: Below this noise multiplier nothing is calibrated: the answer stays here, on the safe side.
SMALLEST_NOISE_MULTIPLIER = 0.1

#: The least noise multiplier in use; nothing below is tested.
SMALLEST_DELTA = 1e-12


def dpsgd_epsilon(
    noise_multiplier: float,
    *,
    delta: float,
    sample_rate: float,
    n_steps: int,
    adjacency: str = "replace-one",
    interval: float = 1e-4,
    beside: float | None = None,
) -> float:
    """Return an upper bound on the epsilon of DP-SGD: exact without sampling, else tight up to the discretization.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise on the summed gradients, in units of the clipping norm.
    sample_rate : float
        Probability with which each record enters a step, independently of everything else.
    adjacency : {"replace-one", "add-or-remove", "zero-out"}
    interval : float
        Grid of the privacy loss, in nats.
    beside : float or None
        Standard deviation of the noise of one more Gaussian, of an L2 sensitivity of 1, that is composed with the
        steps, as one without sampling is.
    """
    noise_multiplier = check_real("noise_multiplier", noise_multiplier, low=0, low_open=True)
    if check_delta(delta) < SMALLEST_DELTA:
        raise InvalidInputError(
            f"delta must be >= {SMALLEST_DELTA:g} for DP-SGD, got {delta!r}: composing privacy loss "
            "distributions is not exact enough below. Use a larger delta."
        )
    sample_rate = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
    n_steps = check_int("n_steps", n_steps, low=1)
    check_choice("adjacency", adjacency, ADJACENCIES)
    delta, mu, once, n_parts = float(delta), unsampled_mu(noise_multiplier, n_steps, adjacency), math.inf, n_steps
    if beside is not None:
        beside, n_parts = check_real("beside", beside, low=0, low_open=True), n_steps + 1
        mu = math.sqrt(mu * mu + 1 / beside**2) * (1 + 1e-12)
        # As an unsampled step: under replace-one one moves by two clipping norms, so twice the noise is the same pair.
        once = beside * (2.0 if adjacency == "replace-one" else 1.0)
    if sample_rate == 1:
        return gdp_to_epsilon(mu, delta)
    tilt = noise_multiplier >= LEAST_NOISE and needs_tilt(n_parts, delta)
    if not tilt and (slack := rounding_slack(n_parts)) < delta:
        found = _composed(noise_multiplier, sample_rate, n_steps, adjacency, interval, once)
        return float(found.get_epsilon(delta - slack))
    by_rdp = _by_rdp(noise_multiplier, delta, sample_rate, n_steps, adjacency, once)
    if not tilt or once < LEAST_NOISE:
        return by_rdp
    kinds = [(((1.0, sample_rate, noise_multiplier),), n_steps)]
    if not math.isinf(once):
        kinds.append((((1.0, 1.0, once),), 1))
    return least_of(by_rdp, tilted_epsilon(kinds, delta, interval, adjacency=adjacency))


def recomputed(n_steps: int, delta: float, interval: float) -> str:
    """Return, for ``verify``, how epsilon is read off a composition, and what else was counted."""
    slack = f"{rounding_slack(n_steps):.3g}"
    if not needs_tilt(n_steps, delta):
        return f"then get_epsilon({delta!r} - {slack}): the rest of delta pays for rounding"
    return (
        f"then get_epsilon({delta!r}), which its rounding, of up to {slack} in delta, may leave too small or too "
        "large; this epsilon is composed of tilted losses, whose rounding is bounded: pate.privacy.exact."
        f"sampled_gaussian.tilted_epsilon at delta {delta!r} and interval {interval:g}. Or by Renyi divergence, where "
        "that says less"
    )


def recomputed_poisson(
    noise_multiplier: float, sample_rate: float, n_steps: int, adjacency: str, delta: float, interval: float
) -> str:
    """Return, for ``verify``, how :func:`poisson_event` is composed and epsilon read off."""
    return (
        f"dp_accounting: PLDAccountant({ADJACENCIES[adjacency].name}, {interval:g}) composing {n_steps} times "
        f"PoissonSampledDpEvent({sample_rate!r}, GaussianDpEvent({noise_multiplier!r})), "
        f"{recomputed(n_steps, delta, interval)}"
    )


def recomputed_mu(noise_multiplier: float, n_steps: int, adjacency: str, delta: float) -> str:
    """Return, for ``verify``, how :func:`unsampled_mu` and epsilon are computed again."""
    apart = "2" if adjacency == "replace-one" else "1"
    return f"mu = {apart} sqrt({n_steps}) / {noise_multiplier!r}, then epsilon at delta {delta!r} (Balle, Wang 2018)"


def unsampled_mu(noise_multiplier: float, n_steps: int, adjacency: str) -> float:
    """Return the mu of n_steps steps that take every record, rounded up (by more than its conversion may round down).

    Two opposite gradients are 2 clipping norms apart, a gradient and its absence 1.
    """
    apart = 2.0 if adjacency == "replace-one" else 1.0
    return apart * math.sqrt(n_steps) / noise_multiplier * (1 + 1e-11)


def _by_rdp(noise_multiplier: float, delta: float, q: float, n_steps: int, adjacency: str, once: float) -> float:
    """Return epsilon by Renyi divergence, of one more step without sampling, with noise ``once``, too."""
    if noise_multiplier < SMALLEST_NOISE_MULTIPLIER:
        return math.inf
    if adjacency == "replace-one":
        # Means 2 apart: a (2/once)^2 / 2 at order a.
        more = 0.0 if math.isinf(once) else np.asarray(DEFAULT_ORDERS) * (2 / once**2)
        return rdp_to_epsilon(n_steps * sampled_gaussian_rdp(q, noise_multiplier) + more, delta)[0]
    accountant = rdp.RdpAccountant([a for a in DEFAULT_ORDERS if a == int(a)], ADJACENCIES[adjacency])
    if not math.isinf(once):
        accountant.compose(dp_accounting.GaussianDpEvent(once))
    return float(accountant.compose(poisson_event(noise_multiplier, q, n_steps)).get_epsilon(delta))


def least_noise(fits: Callable[[float], bool], start: float) -> float:
    """Return a noise multiplier that fits and is within 5e-5 of one that does not, or the smallest that is used."""
    high = largest_of(start, SMALLEST_NOISE_MULTIPLIER)
    low, factor = high, 1.1
    while not fits(high):
        low, high, factor = high, factor * high, factor**1.5
    while low == high or fits(low):
        if low <= SMALLEST_NOISE_MULTIPLIER:
            return low
        high, low, factor = low, largest_of(low / factor, SMALLEST_NOISE_MULTIPLIER), factor**1.5
    return least_between(low, high, fits, within=5e-5)


@lru_cache(maxsize=2)  # for one run at several deltas
def _composed(
    noise_multiplier: float, q: float, n_steps: int, adjacency: str, interval: float, once: float
) -> pld.PLDAccountant:
    accountant = pld.PLDAccountant(ADJACENCIES[adjacency], value_discretization_interval=interval)
    if not math.isinf(once):
        accountant.compose(dp_accounting.GaussianDpEvent(once))
    return accountant.compose(poisson_event(noise_multiplier, q, n_steps))


def poisson_event(noise_multiplier: float, sample_rate: float, n_steps: int) -> dp_accounting.DpEvent:
    """Return steps of the Poisson-subsampled Gaussian, as dp_accounting has them."""
    step = dp_accounting.PoissonSampledDpEvent(sample_rate, dp_accounting.GaussianDpEvent(noise_multiplier))
    return dp_accounting.SelfComposedDpEvent(step, n_steps)


def central_limit_guess(epsilon: float, delta: float, q: float, n_steps: int, adjacency: str) -> float:
    """Return where to start searching: the Gaussian limit mu^2 = n_steps chi^2 (Dong, Roth, Su 2022).

    chi^2 of one step against N(0): q^2 (e^(1/sigma^2) - 1); for the replace-one pair 4 q^2 sinh(1/sigma^2).
    """
    per_step = gdp_from_budget(epsilon, delta) ** 2 / n_steps / q**2
    inverse = math.asinh(per_step / 4) if adjacency == "replace-one" else math.log1p(per_step)
    return 1 / math.sqrt(inverse)
