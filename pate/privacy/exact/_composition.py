"""Tight composition of many discretised privacy losses, for many lists of them at once.

The distributions of the losses are tilted by exp(theta loss) before they are multiplied as characteristic functions,
so that the transform's rounding, about 1e-16 of the largest value, is small against the tail that decides delta, and
the window of losses that must be held is a few standard deviations around that tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft, next_fast_len, rfft

from pate._core.checks import largest_of, least_of
from pate._core.types import FloatArray, IntArray

__all__ = ["PROBABILITY_ERROR", "LossTable", "compose_epsilons", "compose_masses"]


_BLOCK = 256
#: Relative error of one probability: quadrature (proved below 1e-12) and rounding.
PROBABILITY_ERROR = 2e-12
#: Tilts on top of the tilt, in units of 8 deviations, by which Chernoff's bound is taken.
_PUSHES = (0.15, 0.3, 0.6, 1.0, 1.5, 2.5, 4.0, 8.0)
#: More of them, in units of the largest loss, for a window that is long without: rare losses far from all others.
_GENTLE = (1.0, 3.0, 10.0, 30.0)
_LONG = 2**20
#: Points beyond which a window is not worth its memory.
_LONGEST = 2**25


@dataclass(frozen=True)
class LossTable:
    """Privacy loss distributions on the lattice ``discretization * k``, k = -reach ... reach.

    Attributes
    ----------
    discretization : float
    masses : (n_rows, 2 reach + 1), or (2, n_rows, 2 reach + 1)
        Probabilities under the first distribution of the pair; of two directions forward, then reverse.
    """

    discretization: float
    masses: FloatArray

    @property
    def reach(self) -> int:
        """Largest lattice index."""
        return self.masses.shape[-1] // 2

    @property
    def losses(self) -> FloatArray:
        """(2 reach + 1,) the lattice."""
        return np.asarray(np.arange(-self.reach, self.reach + 1) * self.discretization, dtype=np.float64)

    def cumulant(self, theta: float) -> FloatArray:
        """(n_rows,) log E exp(theta loss)."""
        growth = theta * self.losses
        peak = largest_of(0.0, float(growth.max()))
        if peak < 1:
            return np.log1p(self.masses @ np.expm1(growth) + (self.masses.sum(axis=1) - 1))
        with np.errstate(under="ignore"):
            total = self.masses @ np.exp(growth - peak)
        # Rows far below the peak underflow: the smallest double is above them, and larger is the safe side.
        return peak + np.log(np.maximum(total, np.finfo(np.float64).tiny))


@dataclass(frozen=True)
class _Window:
    """Tilted cumulants and the window of lattice indices of every list."""

    theta: float
    log_total: FloatArray
    start: IntArray
    length: int
    log_above: FloatArray


def _window(table: LossTable, counts: FloatArray, theta: float, log_accuracy: float) -> _Window:
    """Choose a window outside of which the tilted loss has mass below exp(log_accuracy), by Chernoff's bound."""
    losses, step = table.losses, table.discretization
    log_total = counts @ table.cumulant(theta)
    with np.errstate(under="ignore"):
        tilted = table.masses * np.exp(theta * losses - table.cumulant(theta)[:, None])
    mean = tilted @ losses
    variance = np.maximum(tilted @ losses**2 - mean**2, 0.0)
    centre, spread = counts @ mean, float(np.sqrt((counts @ variance).max()))
    # All sums lie within the extreme losses times the number of terms.
    above = counts.sum(axis=1) * losses[-1] + step
    below = counts.sum(axis=1) * losses[0] - step
    pushes: list[float] = []
    for more in ([p * 8 / max(spread, 4 * step) for p in _PUSHES], [p / losses[-1] for p in _GENTLE]):
        for push in more:
            above = np.minimum(above, (counts @ table.cumulant(theta + push) - log_total - log_accuracy) / push)
            below = np.maximum(below, -(counts @ table.cumulant(theta - push) - log_total - log_accuracy) / push)
        pushes += more
        high, low = float((above - centre).max()), float((centre - below).max())
        length = max(int(np.ceil((high + low) / step)) + 4, 2 * len(losses))
        if length <= max(_LONG, 4 * len(losses)):
            break
    length = next_fast_len(length, real=True)
    start = np.floor((centre - low) / step).astype(np.int64) - 1
    end = (start + length - 1) * step
    log_above = np.full(len(counts), np.inf)
    for push in pushes:
        log_above = np.minimum(log_above, counts @ table.cumulant(theta + push) - log_total - push * end)
    log_above = np.where(counts.sum(axis=1) * losses[-1] <= end, -np.inf, np.minimum(log_above, 0.0))
    return _Window(theta, log_total, start, length, log_above)


def _composed(table: LossTable, counts: FloatArray, window: _Window) -> tuple[FloatArray, FloatArray]:
    """Tilted distributions of the sums: (n_lists, window.length), list l beginning at lattice index start[l].

    Also a bound on the Euclidean norm of each one's rounding, (n_lists,). Let e be the error of a value of a
    characteristic function: 8 u for each halving of the transform (u = 2^-53), and 16 u for its logarithm, angle and
    power. All moduli are raised by e, so that they are at least the true ones and at most 2 e away; a product of n
    of them, M, is then off by at most 2 e n M over the smallest of them, and by 2 e n as all true ones are at most 1.
    By Parseval, norms at frequencies are norms in the window, where the transform back rounds once more.
    """
    reach, unit = table.reach, 4 * np.finfo(np.float64).eps * (np.log2(window.length) + 2)
    total = np.zeros((len(counts), window.length // 2 + 1), dtype=np.complex128)
    least = np.zeros(window.length // 2 + 1)
    used = np.flatnonzero(counts.any(axis=0))
    cumulant = table.cumulant(window.theta)
    with np.errstate(under="ignore"):
        for start in range(0, len(used), _BLOCK):
            rows = used[start : start + _BLOCK]
            tilted = table.masses[rows] * np.exp(window.theta * table.losses - cumulant[rows, None])
            wrapped = np.zeros((len(rows), window.length))
            wrapped[:, : reach + 1], wrapped[:, -reach:] = tilted[:, reach:], tilted[:, :reach]
            transform = rfft(wrapped, axis=1)
            magnitude = np.log(np.abs(transform) + unit)
            part = counts[:, rows]
            total.real += part @ magnitude
            total.imag += part @ np.angle(transform)
            least = np.minimum(least, magnitude.min(axis=0))
        found = irfft(np.exp(total), n=window.length, axis=1)
        n_terms = counts.sum(axis=1)
        # Both halves of the frequencies; the transform back, and what a large exponent's last digits move.
        away = (2 * n_terms[:, None] + 8) * unit * np.exp(np.minimum(total.real - least, 0.0))
        size = unit * np.sqrt((found**2).sum(axis=1))
        error = np.sqrt(2 * (away**2).sum(axis=1) / window.length) + size
    np.maximum(found, 0.0, out=found)
    for row, start in zip(found, window.start, strict=True):
        row[:] = np.roll(row, -int(start % window.length))
    return found, error


def _tail_norm(theta: float, step: float, length: int) -> float:
    """Return the norm of exp(-theta x) (1 - exp(-x)) over x = step, 2 step, ...: what an error below is weighed by."""
    if 2 * theta * step < 1e-9:
        return math.sqrt(length)
    first, second, third = (1 / math.expm1(min((2 * theta + k) * step, 700.0)) for k in range(3))
    # The difference has lost digits: at most those of the first.
    return math.sqrt(min(max(first - 2 * second + third, 0.0) + 1e-12 * first, length))


def compose_epsilons(table: LossTable, counts: npt.ArrayLike, delta: float, theta: float) -> FloatArray:
    """Upper bounds on epsilon at ``delta`` of lists of losses.

    Parameters
    ----------
    table : LossTable
    counts : (n_lists, n_rows) array
        How often each list has each row.
    delta : float
    theta : float
        Tilt; any value >= 0 is sound, the order of the best Renyi bound minus 1 is the accurate one.

    Returns
    -------
    (n_lists,) array
        Infinite where the window would not fit into memory.
    """
    counts = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    n_terms = counts.sum(axis=1)
    window = _window(table, counts, theta, np.log(delta) - 30)
    if window.length > _LONGEST:
        return np.full(len(counts), np.inf)
    tilted, error = _composed(table, counts, window)
    error *= _tail_norm(theta, table.discretization, window.length)
    target = np.log(delta) - PROBABILITY_ERROR * n_terms
    step, out = table.discretization, np.empty(len(counts))
    for i in range(len(counts)):
        losses = (window.start[i] + np.arange(window.length)) * step
        # Everything is in units of exp(log_total - theta losses[j]), which is of the size of delta near the answer.
        anchor = (window.log_total[i] - target[i]) / theta if theta > 0 else 0.0
        shift = losses - anchor
        scale = window.log_total[i] - theta * anchor
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weight = tilted[i] * np.exp(np.minimum(-theta * shift + scale, 700.0))
            # delta(e) = sum over losses l > e of weight (1 - exp(e - l)), for e at every lattice point.
            above = np.append(np.cumsum(weight[::-1])[::-1][1:], 0.0)
            second = weight * np.exp(np.minimum(-shift, 700.0))
            seconds = np.append(np.cumsum(second[::-1])[::-1][1:], 0.0)
            beyond = np.exp(np.minimum(window.log_above[i] + scale - theta * float(shift[-1]), 700.0))
            slack = beyond + error[i] * np.exp(np.minimum(scale - theta * shift, 700.0))
            # Terms that are added up round once each, and exponentials of up to 700 by as many last digits.
            slack += np.finfo(np.float64).eps * (window.length + 1000) * above
            found = np.where(np.isfinite(seconds), above - np.exp(np.minimum(shift, 700.0)) * seconds, np.inf) + slack
        goal = np.exp(target[i])
        bad = np.flatnonzero(~(found <= goal))
        if not len(bad):
            out[i] = losses[0]
        elif bad[-1] + 1 >= window.length:
            out[i] = np.inf
        else:
            k = bad[-1]
            # Within the cell delta is linear in e^epsilon; the slack is the larger one, of the left end.
            room = above[k] + slack[k] - goal
            inner = np.log(room / seconds[k]) + anchor if room > 0 and seconds[k] > 0 else losses[k]
            out[i] = least_of(losses[k + 1], largest_of(losses[k], inner)) if slack[k] < goal else losses[k + 1]
    return np.maximum(out, 0.0)


def compose_masses(table: LossTable, counts: npt.ArrayLike, tail: float) -> tuple[int, FloatArray, float]:
    """Return the distribution of one list's summed loss: first lattice index, masses, and mass put at infinity.

    Untilted, for programs that compose further; the mass at infinity covers the truncation (about ``tail``)
    and rounding.
    """
    row = np.asarray(counts, dtype=np.float64)[None]
    window = _window(table, row, 0.0, np.log(tail))
    masses, error = _composed(table, row, window)
    lost = np.exp(window.log_above[0]) + np.sqrt(window.length) * error[0] + PROBABILITY_ERROR * row.sum()
    return int(window.start[0]), masses[0], float(lost)
