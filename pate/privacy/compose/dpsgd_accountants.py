"""What different accountants say of the same run of DP-SGD: for the picture that every course shows, not for spending.

All take n_steps rounds of the Poisson-subsampled Gaussian: each record enters a round with probability q, noise is
noise_multiplier clipping norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, logsumexp

from pate.core.checks import check_choice, check_int, check_real, least_of
from pate.privacy.compose.dp_events import sampled_gaussian_rdp
from pate.privacy.convert import check_delta, gdp_to_epsilon, rdp_to_epsilon
from pate.privacy.exact.sampled_gaussian import tilted_epsilon
from pate.privacy.losses import (
    LEAST_NOISE,
    Losses,
    SampledGaussianPair,
    discretization_interval,
    needs_tilt,
    rounding_slack,
)

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
    """Return what each accountant says of one run of DP-SGD, the tightest bound first.

    Parameters
    ----------
    noise_multiplier : float
        Noise over the clipping norm, at least 0.05.
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
    >>> rows = dpsgd_epsilons(4.0, sample_rate=0.01, n_steps=10_000, delta=1e-5)   # Abadi et al. 2016, figure 2
    >>> {row.accountant: round(row.epsilon, 2) for row in rows if row.is_bound}
    {'pld': 0.95, 'rdp': 1.04, 'moments': 1.26, 'strong composition': 14.18}
    >>> {row.accountant: round(row.epsilon, 2) for row in rows if not row.is_bound}
    {'gdp limit': 0.94, 'strong composition, 2016': 9.35}
    """
    s = check_real("noise_multiplier", noise_multiplier, low=LEAST_NOISE)
    q = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
    n = check_int("n_steps", n_steps, low=1)
    delta = check_delta(delta)
    check_choice("adjacency", adjacency, ("add-or-remove", "replace-one"))
    replace_one = adjacency == "replace-one"
    by_rdp = _rdp(s, q, n, delta, replace_one=replace_one)
    rows = [
        AccountedEpsilon(
            "pld",
            least_of(by_rdp, _pld(s, q, n, delta, about=by_rdp, replace_one=replace_one)),
            True,
            "Koskela, Jalko, Honkela 2020; Doroshenko et al. 2022",
        ),
        AccountedEpsilon("rdp", by_rdp, True, "Mironov, Talwar, Zhang 2019; Canonne, Kamath, Steinke 2020"),
        AccountedEpsilon("moments", _moments(s, q, n, delta, replace_one=replace_one), True, "Abadi et al. 2016"),
    ]
    if not replace_one:
        rows.append(
            AccountedEpsilon(
                "strong composition",
                _strong(s, q, n, delta),
                True,
                "Balle, Wang 2018; Balle, Barthe, Gaboardi 2018; Kairouz, Oh, Viswanath 2015",
            )
        )
    rows.append(
        AccountedEpsilon("gdp limit", _gdp_limit(s, q, n, delta, replace_one), False, "Bu, Dong, Long, Su 2020")
    )
    if not replace_one:
        rows.append(
            AccountedEpsilon(
                "strong composition, 2016",
                _strong_2016(s, q, n, delta),
                False,
                "Dwork, Rothblum, Vadhan 2010; constants as in Abadi et al. 2016",
            )
        )
    return tuple(rows)


def _pld(s: float, q: float, n: int, delta: float, *, about: float, replace_one: bool) -> float:
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
    return float(rdp.RdpAccountant().compose(step, n).get_epsilon(delta))


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
