"""Synthetic rows from a few noisy sums over private ones: a Gaussian copula on the public cells of a schema.

A column's range is cut into cells by its schema alone. Noisy counts of the cells give each column's distribution, and a
noisy second moment of the records' normal scores says how columns go together; rows are then drawn from both (Li, Xiong
and Jiang, "Differentially private synthesization of multi-dimensional data using copula functions", EDBT 2014).

Nothing here draws noise or is private by itself: whoever releases the two sums adds noise for the sensitivities named
below. :func:`cell_codes` and :func:`normal_scores` read each record by itself; everything else takes released numbers
alone, so that it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from pate._core.checks import check_int, check_real
from pate._core.curator import CuratorMessage, about_categories
from pate._core.types import FloatArray
from pate.data._cells import read_cells
from pate.data._columns import DATE, as_number, column_like, filled, odd_cells
from pate.data._validation import by_name, is_frame
from pate.data.schema import CATEGORY, MOST_VALUES, TEXT, Column, Schema
from pate.exceptions import InvalidInputError

#: Whole numbers of at most so many values have a cell each.
MOST_WHOLE = 150
#: Into so many equal bins other numbers' ranges are cut.
BINS = 48
#: Power by which bins grow where 0, say, is declared special: what has an atom at its low end has a long tail.
_SKEWED = 3.0
#: Shares of mu^2 for the counts of all cells, and for the second moment; the rest is for what the rows are drawn for.
#: Of 5 pairs from 2.5% to 20% this one was best on pendigits, by less than a point; Adult does not care.
MARGINALS_SHARE, MOMENT_SHARE = 0.05, 0.10
#: How many rows are drawn by default: 1,000 to 4,000 do alike.
N_ROWS = 2000
#: A record's scores are clipped to this times sqrt(p); their mean square is at most 1 a column. Of .8 to 1.7 it leaves
#: the least error of the correlation over Adult and pendigits at epsilon .3, 1, 3.
_CLIP = 1.2
#: Haar details below this share of the universal threshold are noise; the least error on Adult and pendigits.
_THRESHOLD = 0.8
#: Terms of the Hermite series of a covariance of scores, and the correlations at which it is tabulated.
_TERMS, _RHO = 24, np.linspace(-0.98, 0.98, 197)
#: No direction of the correlation has less variance.
_LEAST_VARIANCE = 1e-3
_SEED = 0x5EED


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """The public cells of one column, in the order of the copula; the last is for what is missing.

    Attributes
    ----------
    column : Column
    low, high : float64 arrays of shape (n_cells - 1,)
        Ends of each cell of a numeric column, equal where it holds one value; places in the list of a category.
    """

    column: Column
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, column: Column) -> ColumnCells:
        """Cut a column into cells by what was declared of it.

        Raises
        ------
        InvalidInputError
            A text without a list of its values, or more than 256; a number or date without a range.
        """
        at = f"the column {column.name!r}"
        if column.categories is not None and len(column.categories) <= MOST_VALUES:
            places = np.arange(len(column.categories), dtype=np.float64)
            return cls(column, places, places)
        if column.kind in (CATEGORY, TEXT):
            raise InvalidInputError(
                f"{at} must list 1 to {MOST_VALUES} categories where there are no public rows, got "
                f"{len(column.categories or ())}. List the frequent ones, or leave it out."
            )
        low, high = column.range or (0.0, math.inf)
        if not math.isfinite(high - low):
            raise InvalidInputError(
                f"{at} must have a finite range where there are no public rows, got {column.range}. Say [0, 120]."
            )
        if _is_whole(column):
            low, high = math.ceil(low), math.floor(high)
            if low > high:
                raise InvalidInputError(f"{at} is of whole numbers, and none is in its range. Widen it.")
            n = high - low + 1
            ends = np.arange(low, high + 2.0) if n <= MOST_WHOLE else np.floor(_spaced(low, high + 1, column.special))
            inside = [value for value in column.special if low <= value <= high and value.is_integer()]
            ends = np.unique([*ends, *inside, *(value + 1 for value in inside)])
            lows, highs = ends[:-1], ends[1:] - 1
        else:
            ends = _spaced(low, high, column.special)
            lows, highs = (ends[:-1], ends[1:]) if low < high else (ends[:1], ends[:1])
        alone = set(lows[lows == highs].tolist())
        atoms = np.array([value for value in column.special if value not in alone], dtype=np.float64)
        lows, highs = np.append(lows, atoms), np.append(highs, atoms)
        order = np.argsort((lows + highs) / 2, kind="stable")
        return cls(column, lows[order], highs[order])

    @property
    def n_cells(self) -> int:
        """How many cells there are, that of what is missing included."""
        return len(self.low) + 1

    @property
    def spread(self) -> npt.NDArray[np.bool_]:
        """Which cells lie side by side on a scale, so that their counts may be smoothed; shape (n_cells,)."""
        if self.column.categories is not None:
            return np.zeros(self.n_cells, dtype=bool)
        return np.append(~np.isin(self.low, self.column.special) | (self.low < self.high), False)

    def codes(self, cells: Any) -> npt.NDArray[np.int32]:
        """Return the cell of each value: a text, or a number (NaN: missing), by itself."""
        if self.column.categories is not None:
            known = {text: place for place, text in enumerate(self.column.categories)}
            return np.array([known.get(cell, len(known)) for cell in cells], dtype=np.int32)
        values = np.asarray(cells, dtype=np.float64)
        found = np.full(len(values), self.n_cells - 1, dtype=np.int32)
        places = np.flatnonzero(self.spread)
        there = np.isfinite(values)
        if len(places):
            inside = np.rint(values[there]) if self.column.integer else values[there]
            if self.column.kind.startswith(DATE):  # with a time of day: a fraction
                inside = np.floor(inside)
            at = np.searchsorted(self.low[places], inside, side="right") - 1
            found[there] = places[np.clip(at, 0, len(places) - 1)]
        for place in np.flatnonzero(np.isin(self.low, self.column.special) & (self.low == self.high)):
            # A float32 is not the float64 that a person typed.
            found[np.abs(values - self.low[place]) <= 2.0**-24 * abs(self.low[place])] = place
        return found

    def values(self, codes: npt.NDArray[np.int32], within: FloatArray) -> npt.NDArray[Any]:
        """Return what stands in these cells, at ``within`` (0 to 1) of each: float64, or texts; NaN where missing."""
        if self.column.categories is not None:
            return np.array([*self.column.categories, np.nan], dtype=object)[codes]
        low, high = np.append(self.low, np.nan)[codes], np.append(self.high, np.nan)[codes]
        if _is_whole(self.column):
            return np.where(low == high, low, np.minimum(np.floor(low + within * (high - low + 1)), high))
        return low + within * (high - low)


def _is_whole(column: Column) -> bool:
    """Whether all numbers of a column are whole, as those that it says are, and days."""
    return column.integer or column.kind.startswith(DATE)


def _spaced(low: float, high: float, codes: Sequence[float]) -> FloatArray:
    """Return the ends of bins: equal ones, or finer to the low end where that is a value that stands out (0: none)."""
    return low + (high - low) * np.linspace(0.0, 1.0, BINS + 1) ** (_SKEWED if low in codes else 1.0)


@dataclass(frozen=True, eq=False)
class Marginals:
    """The released distribution of each column over its cells.

    Attributes
    ----------
    cells : tuple of ColumnCells
    probabilities : tuple of float64 arrays of shape (n_cells,)
        Of each column; they sum to 1.
    """

    cells: tuple[ColumnCells, ...]
    probabilities: tuple[FloatArray, ...]

    @cached_property
    def _ends(self) -> list[FloatArray]:
        """Ends of each column's cells as normal quantiles, the outer ones infinite."""
        sums = [np.append(0.0, np.minimum(np.cumsum(p), 1.0)) for p in self.probabilities]
        return [special.ndtri(np.where(s > 1 - 1e-12, 1.0, s)) for s in sums]

    @cached_property
    def scores(self) -> tuple[FloatArray, ...]:
        """The normal score of each cell: the mean of a normal variable there, scaled to variance 1 over the column."""
        made = []
        for p, ends in zip(self.probabilities, self._ends, strict=True):
            density = np.exp(-(ends**2) / 2) / math.sqrt(2 * math.pi)
            some = p > 1e-12
            score = np.clip(ends[:-1], -4.0, 4.0)  # of an empty cell, the normal quantile there
            score[some] = (density[:-1] - density[1:])[some] / p[some]
            length = math.sqrt(float(p @ score**2))
            made.append(score / length if length > 1e-6 else np.zeros_like(score))
        return tuple(made)

    @cached_property
    def _series(self) -> FloatArray:
        """Coefficients of each column's score in normalised Hermite polynomials of degree 1, 2, ..., as rows."""
        made = np.zeros((len(self.cells), _TERMS))
        for j, (score, ends) in enumerate(zip(self.scores, self._ends, strict=True)):
            x = np.where(np.isfinite(ends), ends, 0.0)
            density = np.where(np.isfinite(ends), np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi), 0.0)
            last, now = np.zeros_like(x), np.ones_like(x)  # He_m / sqrt(m!)
            for m in range(1, _TERMS + 1):
                made[j, m - 1] = score @ (now * density)[:-1] - score @ (now * density)[1:]
                made[j, m - 1] /= math.sqrt(m)
                last, now = now, (x * now - math.sqrt(m - 1) * last) / math.sqrt(m)
        return made


def cells_of(schema: Schema) -> tuple[ColumnCells, ...]:
    """Return the cells of every column of a schema; see :meth:`ColumnCells.of` for what is refused."""
    if not schema.columns:
        raise InvalidInputError(
            "schema must name columns where there are no public rows, and these rows are texts. Pass public texts."
        )
    return tuple(map(ColumnCells.of, schema.columns))


def cell_codes(X: Any, schema: Schema, cells: Sequence[ColumnCells]) -> npt.NDArray[np.int32]:
    """Return which cell of each column each private row is in, int32 of shape (n, p); each row by itself.

    Numbers beyond a range are in its end cells; what is no number, no listed category or not readable is missing
    (:func:`about_cells` tells the curator). A record counts once in each column, so that **counts of all cells together
    move by at most sqrt(2 p)** in L2 norm where one record is replaced.

    Raises
    ------
    InvalidInputError
        A table with other columns than the schema; a declared type of no kind that a schema has.
    """
    rows = _rows_of(X, schema, cells)
    made = np.empty((len(rows), len(cells)), dtype=np.int32)
    for j, (here, column) in enumerate(zip(cells, _columns_of(rows), strict=True)):
        made[:, j] = here.codes(_read(column, here.column).to_numpy())
    return made


def about_cells(X: Any, schema: Schema) -> list[CuratorMessage]:
    """Return what the curator should know of private cells that a schema has no place for: they count as missing.

    **Guarantees.** What comes back is private, and nothing else comes of it.
    """
    cells, odd = cells_of(schema), []
    alike: list[CuratorMessage] = []
    for here, column in zip(cells, _columns_of(_rows_of(X, schema, cells)), strict=True):
        read = _read(column, here.column)
        if here.column.categories is not None:
            alike += about_categories(repr(here.column.name), read.dropna().tolist(), here.column.categories)
        n_odd = int(np.count_nonzero((here.codes(read.to_numpy()) == here.n_cells - 1) & filled(column)))
        if n_odd:
            odd.append(odd_cells(here.column.name, read, n_odd).replace("the public rows have", "the schema has"))
    told = [CuratorMessage(f"the private rows, cells of columns: {'; '.join(odd)}.")] if odd else []
    return [*told, *alike]


def _rows_of(X: Any, schema: Schema, cells: Sequence[ColumnCells]) -> Any:
    rows = by_name(read_cells(X, len(cells)), schema.names if schema.rows == "table" else None, other="the schema")
    if rows.shape[1] != len(cells):
        raise InvalidInputError(f"X must have the schema's {len(cells)} columns, got {rows.shape[1]}.")
    return rows


def _columns_of(rows: Any) -> Iterator[Any]:
    import pandas as pd

    for j in range(rows.shape[1]):
        yield rows.iloc[:, j] if is_frame(rows) else pd.Series(rows[:, j])


def _read(column: Any, known: Column) -> Any:
    """Return a column as float64 or texts, cell by cell; a date may be a number of days already."""
    read, _ = column_like(known.name, column, TEXT if known.categories is not None else known.kind)
    if not known.kind.startswith(DATE):
        return read
    numbers = [np.nan if isinstance(cell, str) else as_number(cell) for cell in column.astype(object).tolist()]
    return read.where(read.notna(), numbers)


def fit_marginals(cells: Sequence[ColumnCells], noisy: FloatArray, n: int, sigma: float) -> Marginals:
    """Return the distribution of each column from noisy counts of all cells.

    Counts of cells that lie side by side are smoothed where they differ by no more than noise would make them, and
    every column is brought to its nearest distribution.

    Parameters
    ----------
    noisy : array of shape (number of cells of all columns,)
        One column after the other: counts of :func:`cell_codes` and noise.
    n : int
        How many records; public.
    sigma : float
        Standard deviation of the noise on each.
    """
    noisy = np.asarray(noisy, dtype=np.float64)
    sizes = [here.n_cells for here in cells]
    check_int("n", n, low=1)
    check_real("sigma", sigma, low=0)
    if noisy.shape != (sum(sizes),) or not np.isfinite(noisy).all():
        raise InvalidInputError(f"noisy must be {sum(sizes)} finite numbers, one a cell, got shape {noisy.shape}.")
    made = []
    for here, counts in zip(cells, np.split(noisy, np.cumsum(sizes)[:-1]), strict=True):
        counts = counts.copy()
        if here.spread.any():
            counts[here.spread] = _smoothed(counts[here.spread], sigma)
        made.append(_to_simplex(counts / n))
    return Marginals(tuple(cells), tuple(made))


def _to_simplex(values: FloatArray) -> FloatArray:
    """Return the nearest probabilities: all values less by one amount, and none below 0."""
    down = np.sort(values)[::-1]
    over = (np.cumsum(down) - 1) / np.arange(1, len(values) + 1)
    return np.maximum(values - over[np.flatnonzero(down > over)[-1]], 0.0)


def _smoothed(counts: FloatArray, sigma: float) -> FloatArray:
    """Return counts without Haar details that noise alone makes, averaged over shifts (Coifman and Donoho 1995)."""
    n = len(counts)
    size = 1 << max(0, n - 1).bit_length()
    if size == 1 or not sigma:
        return counts
    padded = np.pad(counts, (0, size - n), mode="symmetric")
    rows = np.stack([np.roll(padded, shift) for shift in range(size)])
    most = sigma * _THRESHOLD * math.sqrt(2 * math.log(size))
    details = []
    while rows.shape[1] > 1:
        a, b = rows[:, ::2], rows[:, 1::2]
        detail = (a - b) / math.sqrt(2)
        details.append(np.where(np.abs(detail) > most, detail, 0.0))
        rows = (a + b) / math.sqrt(2)
    for detail in reversed(details):
        rows = np.stack([rows + detail, rows - detail], axis=2).reshape(len(rows), -1) / math.sqrt(2)
    back = [np.roll(row, -shift) for shift, row in enumerate(rows)]
    return np.asarray(np.mean(back, axis=0)[:n])


def score_bound(n_columns: int) -> float:
    """Return the most that one record's :func:`normal_scores` measure, in L2 norm: 1.2 sqrt(p)."""
    return _CLIP * math.sqrt(n_columns)


def normal_scores(codes: npt.NDArray[np.int32], marginals: Marginals) -> FloatArray:
    """Return the normal scores of private rows, (n, p), each row clipped to :func:`score_bound` by itself.

    Their second moment S^T S moves by at most **sqrt(2) B^2** in Frobenius norm, B the bound, where one record is
    replaced: s s^T has norm |s|^2, and two of them an inner product (s . t)^2 of at least 0.
    """
    made = np.column_stack([score[codes[:, j]] for j, score in enumerate(marginals.scores)])
    norms = np.linalg.norm(made, axis=1, keepdims=True)
    return np.asarray(made * np.minimum(1.0, score_bound(made.shape[1]) / np.maximum(norms, 1e-12)))


def fit_correlation(noisy: FloatArray, marginals: Marginals, n: int, sigma: float) -> FloatArray:
    """Return the correlation of the normal variables behind the columns, shape (p, p).

    Parameters
    ----------
    noisy : array of shape (p, p)
        The sum of s s^T over records' :func:`normal_scores`, and noise on each entry by itself.
    n : int
        How many records; public.
    sigma : float
        Standard deviation of the noise on one entry.
    """
    p = len(marginals.cells)
    noisy = np.asarray(noisy, dtype=np.float64)
    check_int("n", n, low=1)
    check_real("sigma", sigma, low=0)
    if noisy.shape != (p, p) or not np.isfinite(noisy).all():
        raise InvalidInputError(f"noisy must be finite numbers of shape ({p}, {p}), got {noisy.shape}.")
    clipped = np.trace(noisy) / n / max(sum(bool(s.any()) for s in marginals.scores), 1)
    means = (noisy + noisy.T) / 2 / n / np.clip(clipped, 0.5, 1.0)
    series = marginals._series
    powers = _RHO[:, None] ** np.arange(1, _TERMS + 1)
    made, noise = np.eye(p), np.zeros((p, p))
    for j in range(p):
        for k in range(j):
            curve = powers @ (series[j] * series[k])  # what the scores' covariance is at each correlation
            made[j, k] = made[k, j] = np.interp(means[j, k], curve, _RHO) if curve[-1] > 1e-9 else 0.0
            slope = abs(series[j, 0] * series[k, 0])
            noise[j, k] = noise[k, j] = sigma / math.sqrt(2) / n / slope if slope > 1e-9 else np.inf
    return _to_correlation(_shrunk(made, noise))


def _shrunk(R: FloatArray, noise: FloatArray) -> FloatArray:
    """Return correlations shrunk each by its known noise and the mean square of all (empirical Bayes)."""
    off = ~np.eye(len(R), dtype=bool)
    weight = off / (noise**2 + 0.01) ** 2
    total = float(weight.sum())
    signal = float((weight * (R**2 - np.minimum(noise**2, 1.0))).sum()) / total if total else 0.0
    return np.where(off, R * signal / (signal + noise**2), 1.0) if signal > 0 else np.eye(len(R))


def _to_correlation(R: FloatArray) -> FloatArray:
    """Return the nearest of unit diagonal and positive eigenvalues, by clipping those."""
    values, vectors = np.linalg.eigh(R)
    made = (vectors * np.maximum(values, _LEAST_VARIANCE)) @ vectors.T
    scale = np.sqrt(np.diag(made))
    return np.asarray(made / np.outer(scale, scale))


@dataclass(frozen=True, eq=False)
class Copula:
    """Synthetic rows by a Gaussian copula: released marginals, and a correlation between them."""

    schema: Schema
    marginals: Marginals
    correlation: FloatArray

    def draw(self, n_rows: int = N_ROWS, *, seed: int = _SEED) -> Any:
        """Draw rows, a DataFrame, or a float64 array where the schema is of an array; the seed is public."""
        import pandas as pd

        check_int("n_rows", n_rows, low=1)
        rng = np.random.default_rng(seed)
        normal = rng.standard_normal((n_rows, len(self.correlation))) @ np.linalg.cholesky(self.correlation).T
        # By ranks: every column then has its marginals to 1/n_rows, instead of to chance.
        places = (np.argsort(np.argsort(normal, axis=0), axis=0) + rng.random(normal.shape)) / n_rows
        made = {}
        for j, (here, p) in enumerate(zip(self.marginals.cells, self.marginals.probabilities, strict=True)):
            sums = np.append(0.0, np.cumsum(p))
            codes = np.minimum(np.searchsorted(sums, places[:, j], side="right") - 1, np.flatnonzero(p > 0)[-1])
            within = np.clip((places[:, j] - sums[codes]) / np.maximum(p[codes], 1e-300), 0.0, 1.0)
            made[here.column.name] = here.values(codes, within)
        if self.schema.rows == "array":
            return np.column_stack([np.asarray(values, dtype=np.float64) for values in made.values()])
        return pd.DataFrame(made)

    def check(self, rows: Any) -> dict[str, float]:
        """Return each column's total variation between drawn rows and its marginals; refuse what is far off."""
        found = {}
        for j, (here, p) in enumerate(zip(self.marginals.cells, self.marginals.probabilities, strict=True)):
            codes = here.codes(rows.iloc[:, j] if is_frame(rows) else rows[:, j])
            found[here.column.name] = float(
                np.abs(np.bincount(codes, minlength=here.n_cells) / len(codes) - p).sum() / 2
            )
            if found[here.column.name] > here.n_cells / len(codes) + 0.01:
                raise InvalidInputError(
                    f"the synthetic rows' column {here.column.name!r} is off its released marginals by "
                    f"{found[here.column.name]:.2f} in total variation. Draw at least {100 * here.n_cells} rows."
                )
        return found
