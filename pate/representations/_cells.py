"""Rows as numbers, one cell at a time: what a cell becomes hangs on it and on public rows alone, and is finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import CellKindError, quietly
from pate.core.frames import plain_rows
from pate.core.types import FloatArray
from pate.data._columns import as_float, as_number, holds_numbers
from pate.data._door import by_name, is_frame, is_sparse, is_texts, read_numbers, read_rows
from pate.exceptions import InvalidInputError

#: A cell counts up to this many times the public range beyond it.
_BEYOND = 3.0
_LARGEST = 1e300


def n_rows(X: Any) -> int:
    """Return how many rows there are, whatever holds them."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def slice_rows(X: Any, start: int, size: int) -> Any:
    """Return ``size`` rows from ``start`` on, of whatever holds them."""
    if hasattr(X, "iloc"):
        return X.iloc[start : start + size]
    return (X.tocsr() if is_sparse(X) else X)[start : start + size]


def check_columns(X: Any, names: tuple[str, ...] | None, n_features: int) -> Any:
    """Return rows with the columns of the public ones, in their order; a fact of the table, not of a cell.

    Raises
    ------
    InvalidInputError
        Columns are missing, there are others, or another number of them.
    """
    remedy = "Bring both tables to the same columns (pate.data.align_columns)."
    if is_frame(X) and names is not None:
        return by_name(X, names, other="the public rows")
    n = X.shape[1] if len(X.shape) > 1 else 1
    if n != n_features:
        raise InvalidInputError(f"X must have {n_features} columns, as the public rows have, got {n}. {remedy}")
    return X


def numbers_of(cells: Iterable[Any]) -> FloatArray:
    """Return cells as float64, NaN where one is no number."""
    return np.fromiter(map(as_number, cells), dtype=np.float64)


def read_cells(X: Any, n_features: int) -> Any:
    """Return private or public rows as a DataFrame or an array of shape (n, n_features), cells as they are.

    A list is taken row by row: one of another length is a row without any cell.

    Raises
    ------
    InvalidInputError
        No rows, rows of no columns, or a type of all cells that is neither number nor text (dates).
    """
    X = plain_rows(X)
    if is_frame(X):
        return X
    if is_sparse(X):
        raise InvalidInputError("X must be dense here, got a sparse matrix. Pass X.toarray(), or reduce it first.")
    if isinstance(X, list | tuple):
        rows = np.full((len(X), n_features), None, dtype=object)
        for i, row in enumerate(X):
            if isinstance(row, list | tuple | np.ndarray) and len(row) == n_features:
                rows[i, :] = list(row)
        return rows
    if not hasattr(X, "__array__"):
        raise InvalidInputError(
            f"X must be rows: a DataFrame or an array of shape (n, n_features), got {type(X).__name__}."
        )
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(object), None)
    rows = np.asarray(X)
    if rows.ndim < 2:
        raise InvalidInputError(
            f"X must have shape (n, {n_features}), got {rows.ndim} dimension(s). A single row is X.reshape(1, -1)."
        )
    if rows.dtype.kind not in "biufOU":
        raise CellKindError(f"X holds values of dtype {rows.dtype}, which are neither numbers nor texts.")
    return rows if rows.ndim == 2 else rows.reshape(len(rows), int(np.prod(rows.shape[1:])))


@dataclass(frozen=True)
class NumberCells:
    """How rows of numbers are read: a missing cell is the public median, and none counts far beyond the public range.

    Attributes
    ----------
    fill, low, high : float64 arrays of shape (n_features,)
        The public median, and the public range widened by three times its length on both sides.
    names : tuple of str or None
        Of the columns, where the public rows were a table.
    """

    fill: FloatArray
    low: FloatArray
    high: FloatArray
    names: tuple[str, ...] | None = None

    @classmethod
    def learn(cls, X: Any) -> NumberCells:
        """Learn from public rows, which are refused where they hold anything but numbers and missing cells."""
        rows = read_rows(X, name="X_public")
        if is_texts(rows):
            raise InvalidInputError("X_public must be rows of numbers here, got texts. TextMap makes numbers of texts.")
        values = read_numbers(rows, name="X_public", user="this representation", missing=True)
        values = values.reshape(len(values), -1)
        absent = np.isnan(values).any(axis=0) if values.dtype.kind == "f" else np.zeros(values.shape[1], dtype=bool)
        fill = np.zeros(values.shape[1])
        low, high = fill.copy(), fill.copy()
        whole = ~absent
        if whole.any():
            full = values if whole.all() else values[:, whole]
            fill[whole], low[whole], high[whole] = np.median(full, axis=0), full.min(axis=0), full.max(axis=0)
        for j in np.flatnonzero(absent):
            there = values[:, j][~np.isnan(values[:, j])].astype(np.float64)
            if len(there):
                fill[j], low[j], high[j] = np.median(there), there.min(), there.max()
        length = np.minimum(high, _LARGEST / 8) - np.maximum(low, -_LARGEST / 8)
        names = tuple(str(c) for c in rows.columns) if is_frame(rows) else None
        return cls(fill, low - _BEYOND * length, high + _BEYOND * length, names)

    @property
    def n_features(self) -> int:
        """How many columns a row has."""
        return len(self.fill)

    def read(self, X: Any) -> npt.NDArray[Any]:
        """Return rows as an array (n, n_features) of numbers, NaN where a cell is none; not copied if it is one."""
        return quietly("X", self._read, X)

    def _read(self, X: Any) -> npt.NDArray[Any]:
        rows = check_columns(read_cells(X, self.n_features), self.names, self.n_features)
        if is_frame(rows):
            made = np.empty(rows.shape)
            for j, dtype in enumerate(rows.dtypes):
                column = rows.iloc[:, j]
                made[:, j] = as_float(column) if holds_numbers(dtype) else numbers_of(column.astype(object).tolist())
            return made
        if rows.dtype.kind in "OU":
            return numbers_of(rows.ravel().tolist()).reshape(rows.shape)
        return rows

    def block(self, rows: npt.NDArray[Any], start: int, size: int) -> FloatArray:
        """Return ``size`` finite rows from ``start`` on, float64; behind the last one stand rows of public medians."""
        part = rows[start : start + size]
        made = np.empty((size, self.n_features))
        made[: len(part)] = part
        made[len(part) :] = np.nan
        return self.clean(made)

    def clean(self, values: FloatArray) -> FloatArray:
        """Return rows with missing cells filled and all within the bounds; ``values`` is written to."""
        np.copyto(values, self.fill, where=np.isnan(values))
        return np.clip(values, self.low, self.high, out=values)

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what :meth:`restore` takes: arrays, and what goes into JSON."""
        return {"fill": self.fill, "low": self.low, "high": self.high}, {"names": _listed(self.names)}

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> NumberCells:
        """Return the reader that :meth:`state` described."""
        bounds = [np.asarray(arrays[name], dtype=np.float64) for name in ("fill", "low", "high")]
        if any(b.ndim != 1 or b.shape != bounds[0].shape or not np.isfinite(b).all() for b in bounds):
            raise ValueError("bounds of another shape")
        names = words["names"]
        return cls(bounds[0], bounds[1], bounds[2], None if names is None else tuple(map(str, names)))


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
