"""Where to evaluate the integrals of the exact law.

Gaussian noise: an evenly spaced trapezoid, in units of sigma. The integrand of outcome j, w_j(x) = phi(x - n_j) times
prod Phi(x - n_i) over i != j, is entire and decays. By Poisson's formula, with the contour moved by y, the sum with
step h misses P_j = int w_j by at most

    |T_j - P_j| <= 2 e^{-2 pi y / h} / (1 - e^{-2 pi y / h}) int |w_j(x + iy)| dx   for every y > 0        (1).

|phi(x + iy)| = e^{y^2/2} phi(x), hence |Phi(x + iy)| = |int_{-inf}^x phi(t + iy) dt| <= e^{y^2/2} Phi(x). With
b_y(t) >= max(1, |Phi(t + iy)| / Phi(t)), not increasing (`strip_log`), f(x) = prod b_y(x - n_i) over i != j and W_j =
w_j / P_j,

    int |w_j(x + iy)| dx <= e^{y^2/2} P_j E_{W_j}[f] <= e^{y^2/2} P_j E_{W_j}[f^2]^{1/2}                  (2).

 * Few classes: f <= e^{(m-1) y^2/2}, and y = 2 pi / (m h) gives a relative error of 2 exp(-2 pi^2 / (m h^2)).
 * Many: E_{W_j}[f^2] is bounded at run time by the same lattice (`TrapezoidTables.strip`). f^2 does not increase, prod
   Phi does not decrease, and phi grows by at most exp(h (x_k - n_j)_+) from x_k down to x_k - h, so that
   P_j E_{W_j}[f^2] <= h sum_k w_j(x_k) exp(h (x_k - n_j)_+) f(x_k - h)^2. One outcome stands for all: with
   phi(t)/Phi(t) = z(t), (log z)' = -(t + z(t)) falls in t, so that z(x - low)/z(x - high) falls in x; the outcome with
   the fewest votes has its W furthest down (likelihood-ratio order), where f is largest, and the largest f.

y = 7 h: the bound is within `ALIASING` = 1e-12 of P_j for 10 classes (wherever their votes lie, up to gaps of many
sigma) at h = .3, for 100 tied ones at .15, 3,000 at .075, 100,000 at .0375, and a histogram that fails it is
integrated again with half the step. What classes cost is the number near the top: those well below x have b = 1. One
changed vote replaces a factor Phi(z) by Phi(z + d) - Phi(z), which is at most e^{y^2/2} times its value on the axis
as well: by Cauchy's inequality, the reason for f^2, the error of E_{W_j}[Phi(. + d)/Phi - 1] is at most e^{y^2/2}
`ALIASING` of its root mean square.

Outside of the window, which grows like sqrt(2 log m), lies less than 1e-15 of every outcome.

Laplace noise: between kinks the integrand is a sum of exponentials with exponents of at most m; Gauss-Legendre on
panels graded to its local rate. Kinks lie at counts and, for the neighbours, at counts +- 1.

Whatever the rule, the probabilities of all outcomes are integrated independently and must sum to 1 (`SUM_ERROR`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, log, log1p, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from pate._core.types import FloatArray, IntArray
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise

__all__ = [
    "ALIASING",
    "FINER",
    "SUM_ERROR",
    "LaplaceNodes",
    "OrderPlan",
    "TrapezoidTables",
    "allowance",
    "divergence_terms",
    "laplace_nodes",
    "log_sum",
    "log_terms",
    "plan_orders",
    "strip_log",
    "trapezoid_tables",
]


# g_a(l) = e^{al} - 1 - a (e^l - 1) for many orders a at once, without transcendental functions.


@dataclass(frozen=True)
class OrderPlan:
    """A straight-line program: node i is a base (``left[i] < 0``) or the sum of two earlier nodes.

    Attributes
    ----------
    alphas : (n_nodes,) order of each node; node 0 is order 1.
    left, right : (n_nodes,) earlier nodes whose orders add up to this one, or -1 for a base.
    output : (n_nodes,) index of the caller's order, or -1.
    """

    alphas: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    output: tuple[int, ...]
    n_orders: int


@lru_cache(maxsize=64)
def plan_orders(orders: tuple[float, ...]) -> OrderPlan:
    """Plan the program for ``orders`` (distinct, all above 1).

    Examples
    --------
    >>> plan = plan_orders((1.5, 3.0, 6.0))
    >>> plan.alphas, plan.left
    ((1.0, 1.5, 3.0, 6.0), (-1, -1, 1, 2))
    """
    wanted = set(orders)
    index: dict[float, int] = {1.0: 0}
    nodes: list[tuple[float, int, int]] = [(1.0, -1, -1)]

    def need(order: float) -> int:
        if order in index:
            return index[order]
        if order <= 2:
            entry = (order, -1, -1)
        elif order / 2 in wanted or (order == int(order) and order % 2 == 0):
            half = need(order / 2)
            entry = (order, half, half)
        else:
            whole = int(order) - 1
            # order = whole + rest with rest in [1, 2): both at least 1, exact in binary.
            entry = (order, need(float(whole)), need(order - whole))
        index[order] = len(nodes)
        nodes.append(entry)
        return index[order]

    for order in sorted(wanted):
        need(order)
    position = {order: i for i, order in enumerate(orders)}
    return OrderPlan(
        alphas=tuple(n[0] for n in nodes),
        left=tuple(n[1] for n in nodes),
        right=tuple(n[2] for n in nodes),
        output=tuple(position.get(n[0], -1) for n in nodes),
        n_orders=len(orders),
    )


def _base(order: float, r: FloatArray) -> FloatArray:
    """g_order(log1p(r)) for order in [1, 2]."""
    if order == 1:
        return np.zeros_like(r)
    if order == 2:
        return r * r
    root = r / (1 + np.sqrt(1 + r))
    if order == 1.5:
        return root * root * (1.5 + root)
    q = root / (1 + np.sqrt(1 + root))
    if order == 1.25:
        return q * q * (2.5 + q * (5 + q * (3.75 + q)))
    if order == 1.75:
        return q * q * (10.5 + q * (28 + q * (33.25 + q * (21 + q * (7 + q)))))
    return binomial_remainder(order, r)


def binomial_remainder(order: float, r: FloatArray) -> FloatArray:
    """(1 + r)^order - 1 - order r, by the binomial series where the closed form would cancel."""
    small = np.clip(r, -0.1, 0.1)
    total = np.zeros_like(small)
    coefficient, power = 1.0, np.ones_like(small)
    terms = []
    for k in range(1, 19):
        coefficient *= (order - k + 1) / k
        power = power * small
        if k >= 2:
            terms.append(coefficient * power)
    for term in reversed(terms):
        total = total + term
    with np.errstate(over="ignore", divide="ignore"):
        direct = np.expm1(order * np.log1p(r)) - order * r
    return np.where(np.abs(r) <= 0.1, total, direct)


def divergence_terms(weights: FloatArray, ratios: FloatArray, plan: OrderPlan) -> FloatArray:
    """Sum of ``weights * g_a(log1p(ratios))`` over axis 0, for every order.

    Parameters
    ----------
    weights, ratios : (n_outcomes, ...) arrays
        Probabilities Q_j and P_j / Q_j - 1.

    Returns
    -------
    (n_orders, ...) array
        exp((a - 1) D_a(P || Q)) - 1.

    Examples
    --------
    >>> import numpy as np
    >>> q, p = np.array([0.25, 0.75]), np.array([0.5, 0.5])
    >>> divergence_terms(q, p / q - 1, plan_orders((2.0,)))
    array([0.33333333])
    """
    out = np.empty((plan.n_orders, *ratios.shape[1:]))
    g: list[FloatArray] = []
    x: list[FloatArray] = []
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for order, left, right, output in zip(plan.alphas, plan.left, plan.right, plan.output, strict=True):
            if left < 0:
                term = _base(order, ratios)
            else:
                term = x[left] * x[right]
                term += g[left]
                term += g[right]
            g.append(term)
            x.append(term + order * ratios)
            if output >= 0:
                out[output] = np.einsum("s...,s...->...", weights, term)
    return out


def log_terms(order: float, logs: FloatArray) -> FloatArray:
    """Log g_order(logs), also where g itself overflows or underflows; -inf at 0.

    Examples
    --------
    >>> import numpy as np
    >>> log_terms(256.0, np.array([200.0])), log_terms(2.0, np.array([0.0]))
    (array([51200.]), array([-inf]))
    """
    logs = np.asarray(logs, dtype=np.float64)
    huge = order * logs > 40
    safe = np.where(huge, 0.0, logs)
    with np.errstate(divide="ignore"):
        moderate = np.log(_remainder(order, safe))
    big = np.where(huge, logs, 1e3)
    tail = order * big + np.log1p((order - 1) * np.exp(-order * big) - order * np.exp(-(order - 1) * big))
    return np.where(huge, tail, moderate)


def log_sum(logs: FloatArray, axis: int = 0) -> FloatArray:
    """Log of the sum of exponentials over an axis; -inf where all are."""
    peak = logs.max(axis=axis)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(safe + np.log(np.exp(logs - np.expand_dims(safe, axis)).sum(axis=axis)))


def _remainder(order: float, logs: FloatArray) -> FloatArray:
    """g_order(logs) for order * logs <= 40."""
    r = np.expm1(logs)
    near = np.abs(order * logs) <= 0.5
    tiny = np.where(near, logs, 0.0)
    # sum over k >= 2 of (a^k - a) l^k / k!, scaled by the order so that no power overflows.
    y, total, term = order * tiny, np.zeros_like(tiny), np.ones_like(tiny)
    parts = []
    for k in range(1, 21):
        term = term * y / k
        if k >= 2:
            parts.append(term * -np.expm1((1 - k) * np.log(order)))
    for part in reversed(parts):
        total = total + part
    return np.where(near, total, np.maximum(np.expm1(order * logs) - order * r, 0.0))


#: Largest step in units of sigma, and half-widths of the window.
STEP = 0.3
_TOP_REACH = 8.4
_MIDWAY_REACH = 6.0
#: Proved relative error of a probability; a histogram that misses it gets the next of these divisors of the step.
ALIASING = 1e-12
FINER = (1, 2, 4, 8)
#: The independently integrated probabilities of all outcomes must sum to 1 within this.
SUM_ERROR = 1e-10
#: Height of the strip, in steps: the best for ties is near this at every step.
_STRIP = 7.0
_MAX_TABLE = 1 << 22

_GL_NODES, _GL_WEIGHTS = np.polynomial.legendre.leggauss(6)
_GL_NODES, _GL_WEIGHTS = (_GL_NODES + 1) / 2, _GL_WEIGHTS / 2
_GL_RATE = 1.5


def allowance(step: float) -> tuple[float, float]:
    """Return the height y of the strip for a step, and the largest log E_{W_j}[f^2] that proves `ALIASING`.

    Examples
    --------
    >>> y, largest = allowance(0.3)
    >>> round(y, 3), round(largest, 2)
    (2.1, 26.91)
    """
    y = _STRIP * step
    rate = 2 * pi * _STRIP
    return y, 2 * (log(ALIASING / 2) + log1p(-np.exp(-rate)) + rate - y * y / 2)


def strip_log(t: FloatArray, y: float) -> FloatArray:
    """Log of b_y(t) at increasing ``t`` (along axis 0), which bounds |Phi(t + iy)| / Phi(t) and does not increase.

    Examples
    --------
    >>> strip_log(np.array([-9.0, 0.0, 4.0]), 1.0).round(5)
    array([4.9427e-01, 3.2330e-01, 6.0000e-05])
    """
    found = np.clip(log_ndtr(t + 1j * y).real - log_ndtr(t), 0.0, y * y / 2)
    return np.asarray(np.maximum.accumulate(found[::-1], axis=0)[::-1])


@dataclass(frozen=True)
class TrapezoidTables:
    """Functions of x - count on the lattice that all counts and abscissae share.

    Attributes
    ----------
    start : (n,) first abscissa of each histogram, in lattice units
    length : (n,) number of abscissae
    stride : lattice units between abscissae
    per_count : lattice units in one vote
    low : the lattice point x - count of the first row of ``table``
    table : (n_points, 8) log F, log hazard, F(+d)/F - 1, F(-d)/F - 1, f(+d)/f - 1, f(-d)/f - 1, F, hazard
    step : distance between abscissae in units of the noise scale
    strip : (n_points, 2) or None
        log F + 2 log b_y(. - step), and log hazard + step (.)_+ - 2 log b_y(. - step): a class's part in the log of w_j
        f^2, and what the outcome j itself adds. None where the number of classes alone proves the error.
    log_strip : largest log E_{W_j}[f^2]
    """

    start: IntArray
    length: IntArray
    stride: int
    per_count: int
    low: int
    table: FloatArray
    step: float
    strip: FloatArray | None
    log_strip: float


def trapezoid_tables(
    top: IntArray, bottom: IntArray, n_classes: int, noise: GaussianNoise, *, finer: int = 1
) -> TrapezoidTables | None:
    """Lay the lattice for histograms with largest counts ``top`` and smallest ``bottom``; None if it would be huge.

    Parameters
    ----------
    n_classes : int
        The most that a histogram has.
    finer : int
        Divide the step by this.
    """
    sigma = noise.scale
    width = STEP / finer * sigma
    stride, per_count = (floor(width), 1) if width >= 1 else (1, ceil(1 / width))
    unit = 1 / (per_count * sigma)
    shift = 1 / sigma
    reach_top = (sqrt(_TOP_REACH**2 + 2 * log(n_classes)) + shift) / unit
    reach_midway = (_MIDWAY_REACH + shift) / unit
    high = top * per_count + reach_top
    low = np.minimum((top + bottom) * (per_count / 2) - reach_midway, top * per_count - reach_top)
    start = np.floor(low).astype(np.int64)
    length = np.ceil((high - start) / stride).astype(np.int64) + 1
    first = int((start - top * per_count).min())
    # Batches pad to their longest window, so the table reaches as far as the longest does.
    last = int((start - bottom * per_count).max()) + int(length.max()) * stride
    if last - first + 1 > _MAX_TABLE:
        return None
    t: FloatArray = (np.arange(first, last + 1) * unit).astype(np.float64)
    table = np.empty((len(t), 8))
    table[:, :6] = np.stack(noise.one_vote(t), axis=1)
    with np.errstate(under="ignore"):
        table[:, 6:] = np.exp(table[:, :2])
    step = stride * unit
    y, largest = allowance(step)
    strip = None
    if n_classes * step * step > -2 * pi * pi / log(ALIASING / 2):
        bound = 2 * strip_log(t - step, y)
        strip = np.stack([table[:, 0] + bound, table[:, 1] + step * np.maximum(t, 0.0) - bound], axis=1)
    return TrapezoidTables(start, length, stride, per_count, first, table, step, strip, largest)


@dataclass(frozen=True)
class LaplaceNodes:
    """Quadrature nodes of histograms, one after the other.

    Attributes
    ----------
    offsets : (n + 1,) start of each histogram's nodes
    x : (offsets[-1],) abscissae, in votes
    weights : (offsets[-1],) in units of the noise scale
    """

    offsets: IntArray
    x: FloatArray
    weights: FloatArray


def laplace_nodes(values: IntArray, sizes: IntArray, noise: LaplaceNoise) -> LaplaceNodes:
    """Place the nodes for histograms with the same number of groups.

    Parameters
    ----------
    values, sizes : (n, n_groups) int arrays
        Distinct counts in decreasing order and the number of classes with each.
    """
    n, n_groups = values.shape
    scale = noise.scale
    n_classes = sizes.sum(axis=1)
    above = np.cumsum(sizes, axis=1)
    rows = np.arange(n)
    # (row, left end, right end, classes above, distance of the left end from the nearest count below)
    parts: list[tuple[npt.NDArray[Any], ...]] = []

    def segment(mask: npt.NDArray[np.bool_], left: IntArray, right: IntArray, over: IntArray, lag: IntArray) -> None:
        parts.append((rows[mask], left[mask], right[mask], over[mask], lag[mask], n_classes[mask]))

    always, zero = np.ones(n, dtype=bool), np.zeros(n, dtype=np.int64)
    segment(always, values[:, -1] - 1, values[:, -1], n_classes, zero + 10**9)
    segment(always, values[:, 0], values[:, 0] + 1, zero, zero)
    for i in range(n_groups - 1):
        right, left, over = values[:, i], values[:, i + 1], above[:, i]
        gap = right - left
        segment(always, left, left + 1, over, zero)
        segment(gap >= 2, right - 1, right, over, gap - 1)
        segment(gap >= 3, left + 1, right - 1, over, zero + 1)
    row, left, right, over, lag, total = (np.concatenate([p[k] for p in parts]) for k in range(6))

    # March panels of bounded width and bounded change of the integrand from left to right.
    width = (right - left) / scale
    lag = lag / scale
    over = over.astype(np.float64)
    under = total - over
    with np.errstate(divide="ignore"):
        # With p >= 2 classes above, the integrand rises at least like exp((p - 1) x): the far left is lost.
        at = np.maximum(0.0, width - 45 / np.maximum(over - 1, 0.0))
    at = np.where(over <= 1, 0.0, at)
    panels: list[tuple[npt.NDArray[Any], ...]] = []
    active = np.flatnonzero(at < width)
    while len(active):
        a, w = at[active], width[active]
        decay = np.exp(-np.minimum(lag[active] + a, 700.0))
        rate = over[active] + under[active] * decay / (2 - decay)
        step = np.minimum(np.minimum(1.0, _GL_RATE / np.maximum(rate, 1e-9)), w - a)
        # One class above and nothing near: constant for every outcome that matters here.
        flat = (over[active] == 1) & (lag[active] + a > 40) & (w - a > 46)
        step = np.where(flat, w - a - 45, step)
        end = np.where(w - a - step < 1e-12 * np.maximum(w, 1.0), w, a + step)
        panels.append((row[active], left[active], a, end - a))
        at[active] = end
        active = active[end < w]
    row, left, at, width = (np.concatenate([p[k] for p in panels]) for k in range(4))
    x = left[:, None] + scale * (at[:, None] + width[:, None] * _GL_NODES)
    weights = width[:, None] * _GL_WEIGHTS
    nodes: list[tuple[npt.NDArray[Any], ...]] = [(np.repeat(row, len(_GL_NODES)), x.reshape(-1), weights.reshape(-1))]

    # Left of all kinks everything is exp(m x): one node at the end, weight 1/m, is exact.
    nodes.append((rows, values[:, -1] - 1.0, 1.0 / n_classes))
    # Right of all kinks: a polynomial in z = exp(-(x - end) / b) of rate at most (n_classes / 2) exp(-1/b).
    rate = 0.5 * (sizes * np.exp(-(values[:, :1] - values + 1) / scale)).sum(axis=1)
    n_panels = np.maximum(1, np.ceil(np.minimum(rate, 60.0) / _GL_RATE)).astype(np.int64)
    reach = np.minimum(1.0, 60.0 / np.maximum(rate, 1e-300))
    row = np.repeat(rows, n_panels)
    index = np.arange(len(row)) - np.repeat(np.cumsum(n_panels) - n_panels, n_panels)
    width = (reach / n_panels)[row]
    z = width[:, None] * (index[:, None] + _GL_NODES)
    x = values[row, 0][:, None] + 1 - scale * np.log(z)
    nodes.append((np.repeat(row, len(_GL_NODES)), x.reshape(-1), (width[:, None] * _GL_WEIGHTS / z).reshape(-1)))

    row, x, weights = (np.concatenate([p[k] for p in nodes]) for k in range(3))
    order = np.argsort(row, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))])
    return LaplaceNodes(offsets, x[order], weights[order])
