"""From Renyi and Gaussian differential privacy to (epsilon, delta) and back.

All logarithms are natural; epsilons are in nats.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from pate._core.checks import check_real, largest_of, least_of
from pate.exceptions import InvalidInputError

#: Renyi orders at which every cost in this package is known. (alpha - 1) D_alpha is convex in alpha.
DEFAULT_ORDERS: tuple[float, ...] = (
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0),
    *(20.0, 24.0, 28.0, 32.0, 40.0, 48.0, 56.0, 64.0, 80.0, 96.0, 112.0, 128.0, 160.0, 192.0, 224.0, 256.0),
)

#: Covers the last digits of a computed delta (right to 1e-11): it is taken this much larger than it came out.
_DELTA_MARGIN = 1 + 1e-10
#: Beyond it the delta of an epsilon (of billions) is lost to rounding.
_MOST_MU = 1e5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2

_DELTA_REMEDY = "A usual delta is well below one over the number of people, such as 1e-5."


def check_delta(delta: float) -> float:
    """Return ``delta`` if it lies in (0, 1)."""
    return check_real("delta", delta, low=0, high=1, low_open=True, high_open=True, remedy=_DELTA_REMEDY)


def check_orders(orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return Renyi orders as a float array of shape (n_orders,), all above 1."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if array.ndim != 1 or not array.size or not (array > 1).all() or not np.isfinite(array).all():
        raise InvalidInputError(f"orders must be finite Renyi orders above 1, got {orders!r}.")
    return array


def format_up(value: float, digits: int = 4) -> str:
    """Return a guarantee's number in so many significant digits, rounded up: a promise must not shrink in print.

    Numbers within 1e-9 (relative) above a shorter one count as that: they are its own rounding.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = digits - 1 - math.floor(math.log10(abs(value)))
    scaled = Decimal(value) * (1 - Decimal("1e-9")) * Decimal(10) ** exponent
    return f"{float(scaled.to_integral_value(ROUND_CEILING) / Decimal(10) ** exponent):.{digits}g}"


def delta_left(delta: float, failures: float) -> float:
    """Return what is left of ``delta`` beside the probability of failing, rounded down; 0 or less if nothing is."""
    return math.nextafter(delta - failures, -math.inf) if failures else delta


def rdp_overhead(order: float, delta: float) -> float:
    """Return what turning a Renyi divergence at ``order`` into an epsilon at ``delta`` costs, rounded up.

    Canonne, Kamath, Steinke 2020, Proposition 12: log1p(-1/a) - (log delta + log a)/(a - 1).
    """
    gain = math.log1p(-1 / order)
    price = -(math.log(delta) + math.log(order)) / (order - 1)
    return gain + price + 2e-15 * (abs(gain) + abs(price))


def rdp_overheads(orders: npt.ArrayLike, delta: float) -> npt.NDArray[np.float64]:
    """Return :func:`rdp_overhead` at several orders, shape (n_orders,)."""
    return np.array([rdp_overhead(a, delta) for a in np.asarray(orders, dtype=np.float64).tolist()])


def chords(known: npt.ArrayLike, rdp: npt.ArrayLike, orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return upper bounds of a Renyi curve at any orders from its values at ``known`` ones.

    (alpha - 1) D_alpha is the logarithm of a moment, hence convex in alpha, and 0 at alpha = 1: it lies below its
    chords (van Erven and Harremoes 2014, Corollary 2).

    Parameters
    ----------
    known, rdp : array-like of shape (n_known,)
        Increasing orders above 1, and upper bounds there; infinite where unknown.
    orders : array-like of shape (n_orders,)

    Returns
    -------
    array of shape (n_orders,)
        At known orders the values themselves; infinite beyond the last finite one.
    """
    alphas = check_orders(orders)
    at, values = np.asarray(known, dtype=np.float64), np.asarray(rdp, dtype=np.float64)
    finite = np.isfinite(values)
    knots = np.concatenate([[1.0], at[finite]])
    moments = np.concatenate([[0.0], values[finite] * (at[finite] - 1)])
    bound = np.interp(alphas, knots, moments, right=np.inf) / (alphas - 1)
    exact = dict(zip(at.tolist(), values.tolist(), strict=True))
    return np.array([exact.get(a, b) for a, b in zip(alphas.tolist(), bound.tolist(), strict=True)])


def rdp_to_epsilon(
    rdp: npt.ArrayLike,
    delta: float,
    *,
    orders: npt.ArrayLike = DEFAULT_ORDERS,
    conversion: str = "cks",
) -> tuple[float, float]:
    """Convert an RDP curve to the least epsilon at ``delta``.

    Parameters
    ----------
    rdp : array-like of shape (n_orders,)
        Renyi divergences; infinite where unknown.
    delta : float
        In (0, 1).
    orders : array-like of shape (n_orders,)
        Orders above 1, fixed before the run.
    conversion : {"cks", "mironov"}
        ``"cks"``: Canonne, Kamath, Steinke 2020, Proposition 12: rho + log1p(-1/a) - (log delta + log a)/(a-1).
        ``"mironov"``: Mironov 2017, Proposition 3: rho + log(1/delta)/(a-1), never better, used by older papers.

    Returns
    -------
    epsilon, order : float
        The least epsilon (>= 0) and the order that gives it.

    Examples
    --------
    >>> epsilon, order = rdp_to_epsilon([a / 1600 * 300 for a in DEFAULT_ORDERS], 1e-5)
    >>> round(epsilon, 3), order
    (2.714, 8.0)
    """
    alphas = check_orders(orders)
    curve = np.asarray(rdp, dtype=np.float64)
    if curve.shape != alphas.shape or np.isnan(curve).any() or (curve < 0).any():
        raise InvalidInputError(f"rdp must hold one value >= 0 for each of the {len(alphas)} orders.")
    delta = check_delta(delta)
    if conversion == "cks":
        overhead = rdp_overheads(alphas, delta)
    elif conversion == "mironov":
        overhead = -math.log(delta) / (alphas - 1)
    else:
        raise InvalidInputError(f"conversion must be 'cks' or 'mironov', got {conversion!r}.")
    epsilons = curve + overhead
    best = int(np.argmin(epsilons))
    return largest_of(0.0, float(epsilons[best])), float(alphas[best])


def gdp_to_delta(mu: float, epsilon: float) -> float:
    """Return the exact delta of a mu-Gaussian mechanism at ``epsilon`` (Balle and Wang 2018, Theorem 8).

    With a = mu/2 - epsilon/mu and R = Phi/phi, delta = Phi(a) - e^epsilon Phi(a - mu) = phi(a) (R(a) - R(a - mu)): for
    small mu the difference is the integral of R'(t) = 1 + t R(t). Right to 1e-11, relative (tested: mu of 1e-8 to 100).

    Examples
    --------
    >>> f"{gdp_to_delta(1.0, 1.0):.6f}"
    '0.126937'
    """
    return _gdp_delta(check_real("mu", mu, low=0), check_real("epsilon", epsilon, low=0))


def _gdp_delta(mu: float, epsilon: float) -> float:
    if mu == 0:
        return 0.0
    a = mu / 2 - epsilon / mu
    if a < -1e3:  # delta < Phi(a) is far below the smallest float; what follows would be infinity times 0
        return 0.0
    if mu <= 0.5:
        t = a - mu * _NODES
        slope = 1 + t * (math.sqrt(math.pi / 2) * erfcx(-t / math.sqrt(2)))
        return float(math.exp(-a * a / 2) / math.sqrt(2 * math.pi) * mu * (slope @ _WEIGHTS))
    first, second = log_ndtr(a), epsilon + log_ndtr(a - mu)
    # exp(first) - exp(second) without cancellation.
    return float(np.exp(first) * -np.expm1(least_of(0.0, float(second - first))))


def gdp_to_epsilon(mu: float, delta: float) -> float:
    """Return the exact epsilon of a mu-Gaussian mechanism at ``delta``, rounded up (by about 1e-10, relative).

    Source: Dong, Roth, Su 2022, Corollary 2.13. n releases of mean shift d at noise sigma have
    mu = d sqrt(n) / sigma, also when chosen adaptively (Theorem 3.2).

    Examples
    --------
    >>> import math
    >>> [
    ...     round(gdp_to_epsilon(math.sqrt(2 * n) / s, 1e-5), 5)
    ...     for n, s in [(147, 64), (300, 40), (1000, 40)]
    ... ]
    [0.99943, 2.50174, 4.98331]
    """
    mu = check_real("mu", mu, low=0)
    delta = check_delta(delta)
    if _gdp_delta(mu, 0.0) * _DELTA_MARGIN <= delta:
        return 0.0
    # In units of mu; the Gaussian tail has delta(epsilon) < Phi(-epsilon/mu + mu/2), so this is on the safe side.
    high = mu / 2 + math.sqrt(2 * math.log(1 / delta)) + 1e-9
    if mu > _MOST_MU:
        return high * mu * (1 + 1e-15)

    def excess(scaled: float) -> float:
        return _gdp_delta(mu, scaled * mu) * _DELTA_MARGIN - delta

    # A tolerance that is fine for epsilons of 1 is not for those of 1e-8: hence units of mu.
    root = float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=1000))
    step = 1e-13 * root
    while excess(root) > 0:
        root, step = root + step, 2 * step
    return root * mu * (1 + 1e-15)


def gdp_from_budget(epsilon: float, delta: float) -> float:
    """Return the largest mu whose exact epsilon at ``delta`` is at most ``epsilon``, rounded down.

    Examples
    --------
    >>> mu = gdp_from_budget(1.0, 1e-5)
    >>> gdp_to_epsilon(mu, 1e-5) <= 1.0 < gdp_to_epsilon(mu * (1 + 1e-9), 1e-5)
    True
    """
    epsilon = check_real("epsilon", epsilon, low=0)
    delta = check_delta(delta)

    def excess(mu: float) -> float:
        return _gdp_delta(mu, epsilon) * _DELTA_MARGIN - delta

    # At mu = epsilon / 1100 delta is 0. From 0 on, halving would take forever for a tiny epsilon.
    low, high = (0.0, 1.0) if epsilon > 1e-9 or epsilon == 0 else (epsilon / 1100, epsilon / 550)
    while excess(high) <= 0:
        low, high = low and high, 2 * high
    root = float(brentq(excess, low, high, xtol=1e-300, rtol=1e-14, maxiter=1000))
    step = 1e-13 * root
    while gdp_to_epsilon(root, delta) > epsilon:
        root, step = root - step, 2 * step
    return root


def pure_to_gdp(epsilon: float) -> float:
    """Return a mu such that every pure epsilon-DP mechanism satisfies mu-GDP (Gaussian differential privacy).

    The trade-off function of pure epsilon-DP is the chord line through (0, 1), (x, x), (1, 0) with
    x = 1/(1 + e^epsilon) (Wasserman and Zhou 2010; Dong, Roth, Su 2022, eq. 3). The Gaussian trade-off function is
    convex with the same end points, so it lies below as soon as it passes below (x, x): mu = 2 Phi^-1(1 - x).

    Examples
    --------
    >>> round(pure_to_gdp(0.1), 5)
    0.12531
    """
    from scipy.special import ndtri

    epsilon = check_real("epsilon", epsilon, low=0)
    # 1 - x would round; -Phi^-1(x) is the same number. The margins cover the last digits of x and of ndtri.
    x = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    mu = -2 * float(ndtri(x)) * (1 + 1e-12) + 1e-15
    if not math.isfinite(mu):
        raise InvalidInputError(f"epsilon={epsilon!r} per query is too large to be accounted. Use more noise.")
    return mu


def pure_to_mu_squared(epsilon: float) -> float:
    """Return the square of :func:`pure_to_gdp`, infinite where no mu is known: epsilon is, or is too large."""
    try:
        return pure_to_gdp(epsilon) ** 2 if math.isfinite(epsilon) else math.inf
    except InvalidInputError:
        return math.inf
