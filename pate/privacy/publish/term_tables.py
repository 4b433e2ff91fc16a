"""Tables of what one outcome can contribute to the cost of a noisy maximum, by its probability alone.

Scores are v = Phi^-1(p). exp((a-1) D_a(P || P')) - 1 = sum_j T(P_j, P'_j) with T(p, q) = q g(log p/q), g(l) = e^{al}
- 1 - a (e^l - 1). T is a perspective of a convex function that vanishes, with its derivative, at 1: convex in each
argument, 0 on the diagonal, hence growing away from it, and its largest value over |v' - v| <= s is taken at v' = v -
s or v + s: psi_s(v) = max of T over the ordered pairs of v and v - s, v and v + s. Both directions of the divergence
are in it.

psi is tabulated by cells: on a cell [x, y] and a pair (w, w + s), the lower probability is at most Phi(y) and
log(Phi(w+s)/Phi(w)) falls with w (Phi is log-concave), so T <= Phi(y) g(l(x)) and Phi(y + s) g(-l(x)): no
monotonicity of psi is assumed. Left of the table, below -a s, p^a q^{1-a} grows with w because its log has slope a
r(w+s) - (a-1) r(w) >= r(w) - a s >= 0 (r = phi/Phi has slope in (-1, 0) and r(w) >= -w); right of it g(l(w)) falls.

The tables are constants of the noise and the order; no votes are in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from pate.core.checks import largest_of, least_of
from pate.core.types import FloatArray

#: Standard deviations that the tables reach beyond where the terms matter; Phi(-37.5) is about 1e-307.
_REACH = 37.5
_CELLS_PER_UNIT = 4096
_MOST_CELLS = 1 << 21
#: Covers the rounding of a score (log-probabilities are good to 1e-9) and of the tables.
SCORE_SLACK = 1e-8
LOG_SLACK = 1e-9
#: Cells of a table that share a corner of the concave majorant, and where that starts.
_HULL_CELLS = 8
_HULL_REACH = 30.0


def log_term(order: float, log_size: FloatArray, *, rising: bool) -> FloatArray:
    """Return log g(l) of l = exp(log_size) or of its negative, g(l) = e^{al} - 1 - a (e^l - 1); never too low.

    For small l, a^k - a <= a(a-1)(1+a)^{k-2} in the series gives g <= a(a-1)/2 l^2 exp((1+a)|l|).

    Examples
    --------
    >>> log_term(2.0, np.log([1.0]), rising=True).round(4)  # (e - 1)^2
    array([1.0826])
    >>> log_term(256.0, np.log([10.0]), rising=True).round(6)
    array([2560.])
    """
    a, size = order, np.exp(log_size)
    with np.errstate(all="ignore"):
        small = math.log(a * (a - 1) / 2) + 2 * log_size + (1 + a) * size
        if rising:
            middle = np.log(np.expm1(np.minimum(a * size, 40.0)) - a * np.expm1(np.minimum(size, 40.0)))
            large = a * size + np.log1p((a - 1) * np.exp(-a * size) - a * np.exp(-(a - 1) * size))
            found = np.where(a * size > 30, large, middle)
        else:
            found = np.log(np.expm1(-a * size) - a * np.expm1(-size))
    return np.asarray(np.where((1 + a) * size < 1e-4, small, found))


def _log_log_ratio(w: FloatArray, shift: float) -> FloatArray:
    """Log of l = log(Phi(w + shift) / Phi(w)), without cancellation on the right."""
    with np.errstate(all="ignore"):
        left = np.log(log_ndtr(w + shift) - log_ndtr(w))
        gain = log_ndtr(-w) + np.log(-np.expm1(log_ndtr(-w - shift) - log_ndtr(-w))) - log_ndtr(w)
        # log(log1p(x)) is x's logarithm, and never more, once x is below rounding.
        right = np.where(gain > -30, np.log(np.log1p(np.exp(np.maximum(gain, -31.0)))), gain)
    return np.where(w > 0, right, left)


def log_pair_terms(v: FloatArray, shift: float, order: float) -> FloatArray:
    """Return log psi: the largest log T over ordered pairs of v and a score at most ``shift`` away.

    Examples
    --------
    >>> log_pair_terms(np.array([-3.0, 0.0, 3.0]), 0.1, 4.0).round(3)
    array([ -6.493,  -3.821, -13.345])
    """
    best = np.full(v.shape, -np.inf)
    for low in (v, v - shift):
        size = _log_log_ratio(low, shift)
        best = np.maximum(best, log_ndtr(low) + log_term(order, size, rising=True))
        best = np.maximum(best, log_ndtr(low + shift) + log_term(order, size, rising=False))
    return best


@dataclass(frozen=True, repr=False)
class TermTable:
    """Running maxima of psi_shift from either side, in logarithms; a constant of (shift, order), not of any votes.

    Attributes
    ----------
    start, step : float
        Left end and width of the cells, in standard deviations.
    below : (n_cells + 2,) log of the largest psi left of the right end of a cell (first: left of the table)
    above : (n_cells + 2,) log of the largest psi right of the left end of a cell (last: right of the table)
    """

    start: float
    step: float
    below: FloatArray
    above: FloatArray

    def _cell(self, v: FloatArray) -> npt.NDArray[np.int64]:
        cell = np.floor((v - self.start) / self.step) + 1
        return np.clip(cell, 0, len(self.below) - 1).astype(np.int64)

    def up_to(self, v: FloatArray) -> FloatArray:
        """Return log sup psi over (-inf, v]."""
        return np.asarray(self.below[self._cell(v + SCORE_SLACK)])

    def from_(self, v: FloatArray) -> FloatArray:
        """Return log sup psi over [v, inf)."""
        return np.asarray(self.above[self._cell(v - SCORE_SLACK)])


def _cells(shift: float, order: float) -> tuple[float, float, FloatArray]:
    start = -(_REACH + order * shift)
    n_cells = min(_MOST_CELLS, math.ceil((_REACH - start) * _CELLS_PER_UNIT))
    step = (_REACH - start) / n_cells
    edges: FloatArray = start + step * np.arange(n_cells + 1, dtype=np.float64)
    return start, step, edges


@lru_cache(maxsize=16)
def term_table(shift: float, order: float) -> TermTable:
    """Tabulate upper bounds of psi_shift at ``order``.

    Examples
    --------
    >>> table = term_table(0.1, 4.0)
    >>> excess = table.up_to(np.array([-3.0])) - log_pair_terms(np.array([-3.0]), 0.1, 4.0)
    >>> bool(0 < excess[0] < 2e-3)
    True
    """
    start, step, edges = _cells(shift, order)
    left, right = edges[:-1], edges[1:]
    cells = np.full(len(left), -np.inf)
    for offset in (0.0, -shift):
        size = _log_log_ratio(left + offset, shift)
        cells = np.maximum(cells, log_ndtr(right + offset) + log_term(order, size, rising=True))
        cells = np.maximum(cells, log_ndtr(right + offset + shift) + log_term(order, size, rising=False))
    low, high = float(log_ndtr(start)), float(log_ndtr(start + shift))
    far_left = largest_of(order * high - (order - 1) * low, math.log(order - 1) + high)
    size = _log_log_ratio(np.array([edges[-1] - shift]), shift)
    far_right = largest_of(*(float(log_term(order, size, rising=rising)[0]) for rising in (True, False)))
    whole = np.concatenate([[far_left], cells, [far_right]]) + LOG_SLACK
    table = TermTable(start, step, np.maximum.accumulate(whole), np.maximum.accumulate(whole[::-1])[::-1])
    table.below.setflags(write=False)
    table.above.setflags(write=False)
    return table


@dataclass(frozen=True, repr=False)
class ConcaveTable:
    """A concave, nondecreasing, piecewise linear function of a probability, times exp(log_scale).

    Attributes
    ----------
    p, y : (n_points,)
    log_scale : float
    """

    p: FloatArray
    y: FloatArray
    log_scale: float

    def __call__(self, p: FloatArray) -> FloatArray:
        """Return the values at ``p``, without exp(log_scale)."""
        return np.asarray(np.interp(p, self.p, self.y))


@lru_cache(maxsize=16)
def concave_table(shift: float, order: float) -> ConcaveTable:
    """Return a concave, nondecreasing majorant of psi_shift as a function of the probability.

    Examples
    --------
    >>> table = concave_table(0.1, 4.0)
    >>> p = np.array([1e-3, 1e-2, 0.1])
    >>> scores = np.array([-3.0902, -2.3263, -1.2816])
    >>> bool((np.log(table(p)) + table.log_scale >= log_pair_terms(scores, 0.1, 4.0)).all())
    True
    """
    table = term_table(shift, order)
    # The step function's upper left corners, every few cells: left edge, value at the last cell.
    first = max(1, int(np.searchsorted(table.start + table.step * np.arange(len(table.below)), -_HULL_REACH)))
    lefts = np.arange(first, len(table.below) - 1, _HULL_CELLS)
    lasts = np.minimum(lefts + _HULL_CELLS - 1, len(table.below) - 1)
    p = np.concatenate([[0.0], ndtr(table.start + table.step * (lefts - 1)), [1.0]])
    log_y = np.concatenate([[table.below[first]], table.below[lasts], [table.below[-1]]])
    # Phi saturates at 1: of equal probabilities keep the last, with the largest value.
    keep = np.append(np.diff(p) > 0, True)
    p, log_y = p[keep], log_y[keep]
    log_scale = float(log_y[-1])
    # What underflows is raised to the floor: a bound may be too high.
    y = np.maximum(np.exp(np.maximum(log_y - log_scale, -700.0)), 1e-300)
    hull: list[int] = []
    for k in range(len(p)):
        while len(hull) >= 2:
            i, j = hull[-2], hull[-1]
            # Slopes, not cross products: those underflow.
            if (y[j] - y[i]) / (p[j] - p[i]) > (y[k] - y[j]) / (p[k] - p[j]):
                break
            hull.pop()
        hull.append(k)
    rounding = largest_of(1.0, float((y / np.interp(p, p[hull], y[hull])).max()))
    return ConcaveTable(p[hull], y[hull] * rounding * (1 + LOG_SLACK), log_scale)


@lru_cache(maxsize=8)
def loser_tables(touched: float, aside: float, order: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Tabulate H_aside and H_aside + running maximum of (H_touched - H_aside) on one grid of probabilities.

    Returns
    -------
    p, aside, touched : arrays of shape (n_points,)
        To be interpolated linearly (between two points both are linear, so their difference is largest at one of them).
    log_scale : float
        Added to the log of the values.

    Examples
    --------
    >>> p, low, high, _ = loser_tables(0.1, 0.05, 4.0)
    >>> bool((high >= low).all() and (np.diff(high) >= 0).all())
    True
    """
    far, near = concave_table(touched, order), concave_table(aside, order)
    p = np.union1d(far.p, near.p)
    low = near(p) * math.exp(least_of(0.0, near.log_scale - far.log_scale))
    low = np.maximum(low, 1e-300)
    surplus = np.maximum.accumulate(np.maximum(far(p) - low, 0.0))
    return p, low, low + surplus, far.log_scale


@lru_cache(maxsize=8)
def answer_weights(shift: float, order: float) -> TermTable:
    """Tabulate the running maximum of log(s^a s'^(1-a)), s = Phi(t), s' = Phi(t') with |t' - t| <= shift.

    Examples
    --------
    >>> answer_weights(0.01, 4.0).up_to(np.array([0.0])).round(2)  # Pr[answered] = 1/2
    array([-0.67])
    """
    start, step, edges = _cells(shift, order)
    log_weight = order * log_ndtr(edges[1:]) - (order - 1) * log_ndtr(edges[:-1] - shift)
    # Left of the table it grows (as the terms do); right of it, s <= 1.
    far_left = order * log_ndtr(start) - (order - 1) * log_ndtr(start - shift)
    far_right = -(order - 1) * log_ndtr(edges[-1] - shift)
    whole = np.concatenate([[far_left], log_weight, [far_right]]) + LOG_SLACK
    return TermTable(start, step, np.maximum.accumulate(whole), np.maximum.accumulate(whole[::-1])[::-1])
