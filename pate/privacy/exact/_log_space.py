"""The exact law in log space, one histogram at a time: slower, and good for any gap, scale or order.

Every outcome has its own abscissae around the mode of its own integrand, so a count 200 (or 10,000) standard
deviations behind the leader costs no more than any other, and its own step, halved until the error of its probability
is proved (:mod:`~pate.privacy.exact.quadrature`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pate._core.types import FloatArray, IntArray
from pate.exceptions import PateError
from pate.privacy.exact._histograms import Groups, structure
from pate.privacy.exact._quadrature import SUM_ERROR, allowance, laplace_nodes, log_sum, log_terms, strip_log
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise, ThresholdTest

__all__ = ["Join", "JoinOffsets", "JoinTables", "LogLaw", "join_tables", "log_divergences", "log_law"]


# The threshold test folded into the divergence of Confident-GNMax: one mechanism of m + 1 outcomes.


def _joined(
    test: ThresholdTest, top: npt.ArrayLike, change: npt.ArrayLike, orders: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log factor and log addend of K, each (..., 2, n_orders), for tops that change by ``change``."""
    top, change = np.broadcast_arrays(top, change)
    factor = np.empty((*top.shape, 2, len(orders)))
    addend = np.empty_like(factor)
    answer, refuse = test.log_answer(top), test.log_refuse(top)
    more, less = test.log_answer_ratio(top, change), test.log_refuse_ratio(top, change)
    for k, order in enumerate(orders):
        factor[..., 0, k] = answer + (1 - order) * more
        factor[..., 1, k] = answer + order * more
        addend[..., 0, k] = np.logaddexp(
            answer + more + log_terms(order, -more), refuse + less + log_terms(order, -less)
        )
        addend[..., 1, k] = np.logaddexp(answer + log_terms(order, more), refuse + log_terms(order, less))
    addend[change == 0] = -np.inf
    return factor, addend


@dataclass(frozen=True)
class JoinTables:
    """log factor and log addend of K, each (n_tops, 3, 2, n_orders).

    Axes: the largest count minus ``low``; its change plus 1; forward or reverse; order.
    """

    low: int
    log_factor: FloatArray
    log_addend: FloatArray

    def of(
        self, groups: Groups, index: IntArray, classes: FloatArray, change: npt.NDArray[np.int8], u: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return log factor and log addend (B, U, G, 2, n_orders) of some histograms, for losing groups ``u``."""
        top, moved = groups.tested(index, classes, change)
        at = (np.asarray(top, dtype=np.int64) - self.low)[:, None, None], moved[:, u].astype(np.int64) + 1
        return self.log_factor[at], self.log_addend[at]


@dataclass(frozen=True)
class JoinOffsets:
    """The same of a test with offsets, whose tops are real numbers: worked out where they are needed."""

    test: ThresholdTest
    orders: FloatArray

    def of(
        self, groups: Groups, index: IntArray, classes: FloatArray, change: npt.NDArray[np.int8], u: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return what :meth:`JoinTables.of` does."""
        top, moved = groups.tested(index, classes, change)
        return _joined(self.test, top[:, None, None], moved[:, u], self.orders)


Join = JoinTables | JoinOffsets


def join_tables(test: ThresholdTest, low: int, high: int, orders: FloatArray) -> JoinTables:
    """Tabulate for largest counts from ``low`` to ``high``.

    Examples
    --------
    >>> tables = join_tables(ThresholdTest(200.0, 150.0), 200, 200, np.array([2.0]))
    >>> np.exp(tables.log_factor[0, :, 0, 0]).round(4)
    array([0.5027, 0.5   , 0.4974])
    """
    return JoinTables(low, *_joined(test, np.arange(low, high + 1)[:, None], np.array([-1, 0, 1]), orders))


_HALF_WIDTH = 8.8
#: Numbers in one table of all pairs of groups.
_TABLE = 1 << 22


@dataclass(frozen=True)
class LogLaw:
    """A :class:`PairLaw` of one histogram, in logarithms and without the leading axis.

    Attributes
    ----------
    log_prob : (G,) log probability of one class of each group
    classes : (S, G, G) number of classes in a slot
    log_weight : (S, G, G) log probability of one class of a slot under the histogram
    log_ratio : (S, G, G) log P'(slot) / P(slot)
    valid, change : (G, G)
    """

    log_prob: FloatArray
    classes: FloatArray
    log_weight: FloatArray
    log_ratio: FloatArray
    valid: npt.NDArray[np.bool_]
    change: npt.NDArray[np.int8]


def _modes(values: IntArray, sizes: IntArray, noise: GaussianNoise) -> tuple[FloatArray, FloatArray]:
    """Mode of every outcome's integrand in units of sigma, and the curvature of -log there."""
    c = values / noise.scale
    n_groups = len(values)
    others = sizes - np.eye(n_groups)

    def slope_and_curvature(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        t = x[:, None] - c
        hazard = np.exp(noise.log_hazard(t))
        # The curvature -(log Phi)'' = hazard (hazard + t) lies in (0, 1); far out its two factors cancel.
        bend = np.clip(np.where(t < -30, 1.0, hazard * (hazard + t)), 0.0, 1.0)
        return (x - c) - (others * hazard).sum(axis=1), 1 + (others * bend).sum(axis=1)

    low = np.minimum((c + c[0]) / 2, c) - 0.1
    high = np.full(n_groups, c[0] + np.sqrt(2 * np.log(sizes.sum() + 1.0)) + 2.0)
    for _ in range(int(np.ceil(np.log2((high - low).max() / 0.02)))):
        middle = (low + high) / 2
        rising = slope_and_curvature(middle)[0] > 0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    middle = (low + high) / 2
    return middle, slope_and_curvature(middle)[1]


def _nodes(
    values: IntArray, sizes: IntArray, noise: GaussianNoise | LaplaceNoise
) -> list[tuple[FloatArray, FloatArray]]:
    """Abscissae in votes and log weights for every outcome."""
    if isinstance(noise, LaplaceNoise):
        nodes = laplace_nodes(values[None], sizes[None], noise)
        return [(nodes.x, np.log(nodes.weights))] * len(values)
    found = []
    half = _HALF_WIDTH + 2 / noise.scale
    c = values / noise.scale
    for j, (mode, curvature) in enumerate(zip(*_modes(values, sizes, noise), strict=True)):
        step = min(0.25, 0.6 / np.sqrt(curvature))
        others = sizes - (np.arange(len(values)) == j)
        while True:
            x = mode + step * np.arange(-np.ceil(half / step), np.ceil(half / step) + 1)
            if _proved(x, c, others, j, step, noise):
                break
            step /= 2
        found.append((x * noise.scale, np.full(len(x), np.log(step))))
    return found


def _proved(x: FloatArray, c: FloatArray, others: IntArray, j: int, step: float, noise: GaussianNoise) -> bool:
    """Whether the trapezoid rule for outcome j at ``x`` is within its proved error; all in units of sigma."""
    y, largest = allowance(step)
    t = x[:, None] - c
    logs = (noise.log_cdf(t) * others).sum(axis=1) - t[:, j] ** 2 / 2
    if others.sum() * y * y <= largest:
        return True
    raised = logs + 2 * (strip_log(t - step, y) * others).sum(axis=1) + step * np.maximum(t[:, j], 0.0)
    return bool(np.logaddexp.reduce(raised) - np.logaddexp.reduce(logs) <= largest)


def _log_mean(log_w: FloatArray, log_r: FloatArray) -> FloatArray:
    """Log E_W[exp(log_r)] over axis 0, accurate near 0 as well as far from it."""
    w = np.exp(log_w).reshape(-1, *[1] * (log_r.ndim - 1))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        mean = (w * np.expm1(np.minimum(log_r, 500.0))).sum(axis=0)
        near = np.log1p(mean)
        shifted = log_w.reshape(w.shape) + log_r
        peak = shifted.max(axis=0)
        far = peak + np.log(np.exp(shifted - peak).sum(axis=0))
    return np.where((mean > -0.5) & (mean < 1.0), near, far)


def log_law(values: IntArray, sizes: IntArray, noise: GaussianNoise | LaplaceNoise) -> LogLaw:
    """Compute the law of the histogram with distinct decreasing ``values`` held by ``sizes`` classes each.

    Raises
    ------
    PateError
        The independently integrated probabilities do not sum to 1: the numbers cannot be trusted.
    """
    g = len(values)
    d = 1 / noise.scale
    log_prob, log_ratio = np.empty(g), np.empty((g + 2, g, g))
    for j, (x, log_weight) in enumerate(_nodes(values, sizes, noise)):
        t = (x[:, None] - values) / noise.scale
        logs = (noise.log_cdf(t) * sizes).sum(axis=1) + noise.log_hazard(t[:, j]) + log_weight
        peak = logs.max()
        with np.errstate(under="ignore"):
            log_prob[j] = peak + np.log(np.exp(logs - peak).sum())
        log_w = logs - log_prob[j]
        up, down = noise.log_cdf_shift(t, d), noise.log_cdf_shift(t, -d)
        size = max(1, _TABLE // (len(x) * g))
        for start in range(0, g, size):
            u = slice(start, start + size)
            log_ratio[j, u] = _log_mean(log_w, up[:, u, None] + down[:, None, :])
        log_ratio[g, j, :] = _log_mean(log_w, noise.log_density_shift(t[:, j], d)[:, None] + down)
        log_ratio[g + 1, :, j] = _log_mean(log_w, noise.log_density_shift(t[:, j], -d)[:, None] + up)

    with np.errstate(under="ignore"):
        missing = abs(float((np.exp(log_prob) * sizes).sum()) - 1)
    if not missing < SUM_ERROR:
        raise PateError(f"the law of {sizes.sum()} classes at {noise} could not be integrated. Please report it.")
    classes, valid, change = (a[0] for a in structure(values[None], sizes[None]))
    log_weight = np.empty_like(log_ratio)
    log_weight[:g] = log_prob[:, None, None]
    log_weight[g], log_weight[g + 1] = log_prob[:, None], log_prob[None, :]
    if sizes[0] == 1 and log_prob[0] > -np.log(2):
        _close(log_prob, classes, log_weight, log_ratio, sizes)
    return LogLaw(log_prob, classes, log_weight, log_ratio, valid, change)


def _close(
    log_prob: FloatArray, classes: FloatArray, log_weight: FloatArray, log_ratio: FloatArray, sizes: IntArray
) -> None:
    """Replace a likely lone leader's probability and ratio by complements, which are the accurate ones."""
    g = len(log_prob)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        others = (np.exp(log_prob[1:]) * sizes[1:]).sum()
        log_prob[0] = np.log1p(-others)
        log_weight[0], log_weight[g, 0, :], log_weight[g + 1, :, 0] = log_prob[0], log_prob[0], log_prob[0]
        before = np.exp(log_weight)
        moved = np.where(np.abs(log_ratio) < 0.5, before * np.expm1(log_ratio), np.exp(log_weight + log_ratio) - before)
    slot = np.zeros((g, g), dtype=np.int64)
    slot[0, :] = g
    slot[:, 0] = g + 1
    u, b = np.indices((g, g))
    moved[slot, u, b] = 0
    lead = -(classes * moved).sum(axis=0) / np.exp(log_prob[0])
    old = log_ratio[slot, u, b]
    with np.errstate(invalid="ignore", divide="ignore"):
        log_ratio[slot, u, b] = np.where(np.abs(lead) < 0.5, np.log1p(lead), old)


def log_divergences(law: LogLaw, orders: FloatArray) -> FloatArray:
    """log(exp((a - 1) D_a) - 1) of every neighbour: (2, n_orders, G, G), forward then reverse."""
    with np.errstate(divide="ignore"):
        log_classes = np.log(law.classes)
    ratio = np.where(law.classes > 0, law.log_ratio, 0.0)
    out = np.empty((2, len(orders), *law.valid.shape))
    for k, order in enumerate(orders):
        for side, sign, shift in ((0, -1.0, ratio), (1, 1.0, 0.0)):
            out[side, k] = log_sum(log_classes + law.log_weight + shift + log_terms(order, sign * ratio))
    return out
