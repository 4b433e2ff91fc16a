"""Noisy histograms of a private number: its range, bins and moments, and how far a public model of it is off.

Nothing here reads a private record or draws noise: all of it is post-processing of released counts and sums (Dwork &
Roth 2014, Proposition 2.1), for record voters (:mod:`pate.models`) and DP-SGD (:mod:`pate.dpsgd`) alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pate._core.types import FloatArray, IntArray

# Histograms of the target: the range, and the bins.

#: Cells that look for the range, and of the histogram that bins are made of.
_COARSE, _FINE = 16, 64
#: The fewest cells in a row that hold this share of the records are kept, give or take two standard deviations of the
#: noise: the tails that noise hides cost less than the noise of a range that is far too wide. Where those two are more
#: than so large a share of the records, no cell is dropped.
_HELD, _SURELY, _KNOWN = 0.998, 2.0, 0.4
#: The range is found, and stays as it is, when more than this part of it would be kept.
_SETTLED = 0.45


@dataclass(frozen=True, eq=False)
class Zoom:
    """The target's range as far as it is known, and its histogram: cut to the cells that hold records, until it stays.

    Attributes
    ----------
    low, high : float
    settled : bool
        The range is found, and histograms are fine from now on.
    counts : float64 array of shape (64,) or None
        The mean of the fine histograms, weighted by their precision; None before the first.
    precision : float
        1/variance of the noise in each of the counts.

    Examples
    --------
    >>> votes = np.zeros(16)
    >>> votes[3] = 1_000
    >>> found = Zoom(0, 1600).updated(votes, sigma=5.0, n=1_000)
    >>> found.low, found.high, found.settled
    (300.0, 400.0, False)
    """

    low: float
    high: float
    settled: bool = False
    counts: FloatArray | None = None
    precision: float = 0.0

    def edges(self, *, fine: bool) -> FloatArray:
        """Return the edges of the next histogram's cells; ``fine`` where it is the last one."""
        return np.linspace(self.low, self.high, (_FINE if fine or self.settled else _COARSE) + 1)

    def updated(self, counts: FloatArray, *, sigma: float, n: int) -> Zoom:
        """Return the range after one more noisy histogram of n records."""
        if len(counts) == _FINE:
            weight = 1 / max(sigma, 1e-9) ** 2
            before = 0.0 if self.counts is None else self.counts * self.precision
            total = self.precision + weight
            return replace(self, counts=(before + counts * weight) / total, precision=total)
        start, stop = _fewest_cells(counts, sigma, n)
        if stop - start > _SETTLED * len(counts):
            return replace(self, settled=True)
        edges = self.edges(fine=False)
        return replace(self, low=float(edges[start]), high=float(edges[stop]))

    def bins(self, n_bins: int, n: int) -> Bins:
        """Return bins of about equally many of the n records; a cell with more than that is a bin by itself."""
        assert self.counts is not None
        weight = on_simplex(self.counts, n)
        edges = self.edges(fine=True)
        middle = (edges[1:] + edges[:-1]) / 2
        group = np.minimum((np.cumsum(weight) - weight / 2) / n * n_bins, n_bins - 1).astype(int)
        if group[0] == group[-1] or len(np.unique(group[weight > 0])) < 2:
            group = (np.arange(_FINE) > np.argmax(weight)).astype(int)
            if not group.any():  # all of it in the last cell
                group[-1] = 1
        last = np.append(np.flatnonzero(np.diff(group)), _FINE - 1)
        of = np.searchsorted(last, np.arange(_FINE))
        weight = weight + 1e-9 * n  # a bin without records has a mean too
        mass = np.bincount(of, weight)
        means = np.bincount(of, weight * middle) / mass
        width = edges[1] - edges[0]
        variances = np.bincount(of, weight * np.square(middle - means[of])) / mass + width**2 / 12
        # The nearest counts that sum to n, negative ones too: moments of them are unbiased.
        flat = self.counts + (n - self.counts.sum()) / _FINE
        mean = float(flat @ middle) / n
        far = np.square(middle - mean)
        variance = max(float(flat @ far) / n, 0.0) + float(width) ** 2 / 12
        noise = float(np.linalg.norm(far - far.mean())) / (n * math.sqrt(self.precision))
        return Bins(edges[last[:-1] + 1], means, variances, mean, variance, noise)


def _fewest_cells(counts: FloatArray, sigma: float, n: int) -> tuple[int, int]:
    """Return start and stop of the fewest neighbouring cells that hold nearly all of n records, as far as is known."""
    k = len(counts)
    # Brought to the public sum n, which takes some of the noise away.
    before = np.concatenate([[0.0], np.cumsum(counts + (n - counts.sum()) / k)])
    for width in range(1, k):
        noise = sigma * math.sqrt(width * (k - width) / k)
        inside = before[width:] - before[:-width]
        start = int(np.argmax(inside))
        if 2 * noise <= _KNOWN * n and inside[start] >= _HELD * n - _SURELY * noise:
            return start, start + width
    return 0, k


def on_simplex(counts: FloatArray, total: float) -> FloatArray:
    """Return the nearest counts that are none negative and sum to ``total``.

    Examples
    --------
    >>> on_simplex(np.array([5.0, -1.0, 3.0]), 6.0)
    array([4., 0., 2.])
    """
    largest = np.sort(counts)[::-1]
    over = (np.cumsum(largest) - total) / np.arange(1, len(counts) + 1)
    return np.maximum(counts - over[np.flatnonzero(largest > over)[-1]], 0.0)


@dataclass(frozen=True, eq=False)
class Bins:
    """The target's bins, which are classes: ``edges`` between them, ``means`` and ``variances`` within them.

    ``mean`` and ``variance`` are of all records, ``variance_error`` is the standard error of the variance by noise.

    Examples
    --------
    >>> Bins(np.array([2.0]), np.array([1.0, 5.0]), np.zeros(2), 3.0, 4.0, 0.1).of(
    ...     [0.5, 9.0]
    ... )
    array([0, 1])
    """

    edges: FloatArray
    means: FloatArray
    variances: FloatArray
    mean: float
    variance: float
    variance_error: float

    def of(self, y: Any) -> IntArray:
        """Return the bin of each number."""
        return cells_of(y, np.concatenate([[-np.inf], self.edges, [np.inf]]))


def cells_of(values: Any, edges: FloatArray) -> IntArray:
    """Return the index of each value's cell [edge, next edge); values outside count to the end cells.

    Examples
    --------
    >>> cells_of([-5.0, 0.0, 1.0, 2.0, 7.0], np.array([0.0, 1.0, 2.0]))
    array([0, 0, 1, 1, 1])
    """
    found = np.searchsorted(edges, np.asarray(values, dtype=np.float64), side="right") - 1
    return np.clip(found, 0, len(edges) - 2).astype(np.int64)


# How far a model is off.

#: Of the intervals.
LEVEL = 0.9
#: Cells of the histogram of residuals, in units of a row's own spread: out to _OUTMOST, and narrow near zero.
N_CELLS, _OUTMOST, _BEND = 34, 8.0, 3.5


def score_edges() -> FloatArray:
    """Return the edges of the cells of residuals, in spreads."""
    even = np.linspace(-1, 1, N_CELLS + 1)
    return np.asarray(_OUTMOST * np.sinh(_BEND * even) / math.sinh(_BEND))


def tails(counts: FloatArray, sigma: float, n: int, tail: float) -> tuple[float, float] | None:
    """Return the scores that leave at most ``tail`` of the records outside on either side, if noise is one sd off.

    None where noise in one cell is as large as such a tail, or a tail does not end within the last cell, which has no
    outer end: no histogram tells where it begins.
    """
    if sigma > tail * n:
        return None
    edges = score_edges()

    def end(inward: FloatArray, limits: FloatArray) -> float | None:
        before = 0.0
        for j, outside in enumerate(np.cumsum(inward) + sigma * np.sqrt(np.arange(1, N_CELLS + 1))):
            if outside > tail * n:
                if not j:
                    return None
                part = (tail * n - before) / (outside - before)
                return float(limits[j] + max(part, 0.0) * (limits[j + 1] - limits[j]))
            before = max(before, float(outside))
        return float(limits[N_CELLS // 2])

    low, high = end(counts, edges), end(counts[::-1], edges[::-1])
    return None if low is None or high is None else (min(low, 0.0), max(high, 0.0))


#: Errors are clipped to so many times the end of the interval at the root-mean-square spread, at least and at most, and
#: between where noise adds this part to their mean square (about (end/1.645)^2).
_LEAST_CLIP, _MOST_CLIP, _NOISE = 2.5, 4.0, 0.05
#: Of that end, in spreads: it lies further out only where noise widened it.
_FARTHEST_ERROR = 3.0
#: Kurtosis of errors, less 1, for the sampling error of their mean square.
_KURTOSIS = 4.0


def error_clip(scores: tuple[float, float] | None, *, many: float, spread: float, widest: float) -> float:
    """Return to what errors are clipped, by the interval's ends in spreads and n mu of the round that sums them."""
    far = _FARTHEST_ERROR if scores is None else min(max(*map(abs, scores), 1e-3), _FARTHEST_ERROR)
    times = math.sqrt(_NOISE * many / (math.sqrt(2) * 1.645**2))
    return min(max(_LEAST_CLIP, min(times, _MOST_CLIP)) * far * spread, widest)


#: No row of :func:`bounded_errors` is longer.
ERRORS_BOUND = math.sqrt(0.5)


def bounded_errors(errors: FloatArray, clip: float) -> FloatArray:
    """Return what each record adds to the sum that :func:`measured_errors` reads, shape (n, 2): **sensitive**."""
    r = np.clip(errors / clip, -1.0, 1.0)
    return np.stack([np.abs(r) - 0.5, r**2 - 0.5], axis=1)


@dataclass(frozen=True)
class MeasuredErrors:
    """Mean absolute error and R2 on records, with their standard errors by noise and sampling.

    ``r2`` is None where the target's variance is not known to a third of itself. Errors beyond ``clip`` count as that.

    Examples
    --------
    >>> MeasuredErrors(2.0, 0.1, 0.5, 0.05, 900, 10.0).r2
    0.5
    """

    mae: float
    mae_error: float
    r2: float | None
    r2_error: float | None
    n: int
    clip: float


def measured_errors(sums: Any, *, sigma: float, clip: float, n: int, bins: Bins) -> MeasuredErrors:
    """Return the errors that a noisy sum of (|e|/c - 1/2, e^2/c^2 - 1/2) says there are, e = y - f clipped to c."""
    a, q = (float(s) / n + 0.5 for s in sums)
    mse = min(max(q, 0.0), 1.0) * clip**2
    mae = min(max(a, 0.0), 1.0) * clip
    mae_error = math.sqrt((sigma * clip / n) ** 2 + max(mse - mae**2, 0.0) / n)
    if bins.variance_error > bins.variance / 3:
        return MeasuredErrors(mae, mae_error, None, None, n, clip)
    mse_error = math.sqrt((sigma * clip**2 / n) ** 2 + _KURTOSIS * mse**2 / n)
    ratio = mse / bins.variance
    r2_error = math.hypot(mse_error, ratio * bins.variance_error) / bins.variance
    return MeasuredErrors(mae, mae_error, 1 - ratio, r2_error, n, clip)
