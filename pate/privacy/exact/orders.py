"""g_a(l) = e^{al} - 1 - a (e^l - 1) for many orders a at once, without transcendental functions.

With r = e^l - 1, x_a = e^{al} - 1 and g_a = x_a - a r:

    g_{a+b} = g_a + g_b + x_a x_b,    x_a = g_a + a r.

For a, b >= 1 every term on the right is >= 0 (x_a, x_b and r share their sign), so the chain has no cancellation:
each step costs a few units in the last place, for |l| = 1e-12 as for |l| = 2. Orders in (1, 2] start chains; those
on quarters have closed forms in the square or fourth root of 1 + r.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pate.core.types import FloatArray

__all__ = ["OrderPlan", "divergence_terms", "log_terms", "plan_orders"]


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
