"""Turn rows into finite numbers: each depends on its own cell and on public rows alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate._core.checks import canonical, quietly
from pate._core.curator import PRIVATE
from pate._core.frames import plain_rows
from pate._core.types import FloatArray, IntArray
from pate.data import (
    as_float,
    as_number,
    by_name,
    column_kind,
    holds_numbers,
    is_frame,
    is_sparse,
    is_text_column,
    is_texts,
    numbers_of,
    read_cells,
    read_numbers,
    read_rows,
)
from pate.exceptions import InvalidInputError

#: A cell counts up to this many times the public range beyond it.
_BEYOND = 3.0
_LARGEST = 1e300


def n_rows(X: Any) -> int:
    """Return the number of rows, of any container."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def slice_rows(X: Any, start: int, size: int) -> Any:
    """Return ``size`` rows from ``start`` on, of any container."""
    if hasattr(X, "iloc"):
        return X.iloc[start : start + size]
    return (X.tocsr() if is_sparse(X) else X)[start : start + size]


def check_columns(X: Any, names: tuple[str, ...] | None, n_features: int) -> Any:
    """Return rows with the columns of the public ones, in their order; a fact of the table, not of a cell."""
    remedy = "Bring both tables to the same columns (pate.data.align_columns)."
    if is_frame(X) and names is not None:
        return by_name(X, names, other="the public rows")
    n = X.shape[1] if len(X.shape) > 1 else 1
    if n != n_features:
        raise InvalidInputError(f"X must have {n_features} columns, as the public rows have, got {n}. {remedy}")
    return X


class Cells(ABC):
    """A reader of rows, learnt from public rows; frozen, its fields are what a file stores; abstract."""

    n_features: int

    def read(self, X: Any) -> Any:
        """Return rows as this reader gives them, one for each of ``X``, whatever their cells hold."""
        return quietly("X", self._read, X)

    @abstractmethod
    def _read(self, X: Any) -> Any: ...

    def block(self, rows: Any, start: int, size: int) -> Any:
        """Return ``size`` rows from ``start`` on; padded with rows of missing cells."""
        part = rows[start : start + size]
        made = np.empty((size, self.n_features))
        made[: len(part)], made[len(part) :] = part, np.nan
        return made

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what :meth:`restore` takes: arrays, and what goes into JSON."""
        held = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        arrays = {name: value for name, value in held.items() if isinstance(value, np.ndarray)}
        return arrays, {name: value for name, value in held.items() if name not in arrays}

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> Self:
        """Return the reader that :meth:`state` described."""
        names = [f.name for f in fields(cls) if f.init and f.name in {*arrays, *words}]  # type: ignore[arg-type]
        floats = {name: np.asarray(arrays[name], dtype=np.float64) for name in names if name in arrays}
        return cls(**floats, **{name: _frozen(words[name]) for name in names if name in words})


def _frozen(value: Any) -> Any:
    """Return lists as tuples, throughout: JSON knows no other."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class NumberCells(Cells):
    """How rows of numbers are read: a missing cell is the public median, and none counts far beyond the public range.

    ``fill`` is the public median, ``low`` and ``high`` the public range widened by three times its length on both
    sides.
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
    def n_features(self) -> int:  # type: ignore[override]
        """How many columns a row has."""
        return len(self.fill)

    def _read(self, X: Any) -> npt.NDArray[Any]:
        rows = check_columns(read_cells(X, self.n_features), self.names, self.n_features)
        if not is_frame(rows) and rows.dtype.kind not in "OU":
            return rows  # not copied
        return np.column_stack([_numbers(column) for column in _columns(rows)])

    def block(self, rows: npt.NDArray[Any], start: int, size: int) -> FloatArray:
        """Return ``size`` finite rows from ``start`` on, float64; padded with rows of public medians."""
        return self.clean(super().block(rows, start, size))

    def clean(self, values: FloatArray) -> FloatArray:
        """Return rows with missing cells filled and all within the bounds; ``values`` is written to."""
        np.copyto(values, self.fill, where=np.isnan(values))
        return np.clip(values, self.low, self.high, out=values)

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> Self:
        """Return the reader that :meth:`state` described."""
        made = super().restore(arrays, words)
        bounds = made.fill, made.low, made.high
        if any(b.ndim != 1 or b.shape != made.fill.shape or not np.isfinite(b).all() for b in bounds):
            raise ValueError("bounds of another shape")
        return made


# Rows of mixed tables as numbers, one cell at a time: a category becomes its place in the public list.

#: A text cell without a place of its own, and one that is missing.
RARE, MISSING = -1.0, -2.0
#: A number from here on is no category (Python refuses to write very long ones).
_LARGEST_TABLE = 10**300


def text_of(cell: Any) -> str | None:
    """Return a cell as a category, None where it is missing or neither number nor text; by this cell alone.

    True, 1, 1.0, ``"1"`` and ``"true"`` are one category: pandas and NumPy turn the one into the other for the sake of
    any cell beside it, and one private record would otherwise decide how all others' are read. Texts are compared in
    NFC, without outer blanks.
    """
    number = as_number(cell)
    if -_LARGEST_TABLE < number < _LARGEST_TABLE:
        return str(int(number)) if number == int(number) else repr(number)
    return str(canonical(cell)) if isinstance(cell, str) else None


@dataclass(frozen=True)
class TableCells(Cells):
    """How rows of a table are read: numbers as they are, a category as its place among the public ones.

    Per column the categories with a place, the most frequent first; None for a column of numbers. ``names`` is None
    where the public rows were no DataFrame.
    """

    names: tuple[str, ...] | None
    categories: tuple[tuple[str, ...] | None, ...]
    _places: tuple[dict[str, float], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = tuple({c: float(i) for i, c in enumerate(known or ())} for known in self.categories)
        object.__setattr__(self, "_places", places)

    @classmethod
    def learn(cls, X: Any) -> TableCells:
        """Learn which columns are of numbers, and the categories of the others, from public rows."""
        rows = read_rows(X, name="X_public")
        if is_sparse(rows) or is_texts(rows):
            raise InvalidInputError("X_public must be a table here, got a sparse matrix or texts. TextMap takes texts.")
        return quietly("X_public", cls._learn, rows)

    @classmethod
    def _learn(cls, rows: Any) -> TableCells:
        if is_frame(rows):
            numeric = [column_kind(n, c) == "numeric" for n, c in zip(rows.columns, _columns(rows), strict=True)]
            names: tuple[str, ...] | None = tuple(str(c) for c in rows.columns)
        else:
            rows, names = rows.reshape(len(rows), -1), None
            numeric = [c.dtype.kind != "O" or not any(isinstance(v, str) for v in c.tolist()) for c in _columns(rows)]
        known = (None if n else _ranked(_each(c, text_of, None)) for c, n in zip(_columns(rows), numeric, strict=True))
        return cls(names, tuple(known))

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """How many columns a row has."""
        return len(self.categories)

    def _read(self, X: Any) -> npt.NDArray[Any]:
        """Return rows as float64: numbers (NaN: missing), places, ``RARE`` or ``MISSING``."""
        rows = check_columns(read_cells(X, self.n_features), self.names, self.n_features)
        if not is_frame(rows) and rows.dtype.kind not in "OU" and all(known is None for known in self.categories):
            return rows
        made = np.empty(rows.shape)
        for j, (column, known, places) in enumerate(zip(_columns(rows), self.categories, self._places, strict=True)):
            made[:, j] = _numbers(column) if known is None else _each(column, partial(_place, places=places), MISSING)
        return made


def _columns(rows: Any) -> Iterator[Any]:
    return (rows.iloc[:, j] if is_frame(rows) else rows[:, j] for j in range(rows.shape[1]))


def _numbers(column: Any) -> FloatArray:
    """Return a column as float64, NaN where a cell is no number."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if hasattr(column, "iloc") and holds_numbers(column.dtype):
        return as_float(column).to_numpy()
    return numbers_of(column.astype(object).tolist())


def _place(cell: Any, places: dict[str, float]) -> float:
    found = places.get(cell) if type(cell) is str else None
    if found is not None:  # places are in the form that text_of gives
        return found
    text = text_of(cell)
    return MISSING if text is None else places.get(text, RARE)


def _each(column: Any, turn: Callable[[Any], Any], missing: Any) -> list[Any]:
    """Return what becomes of each cell of a column; of a categorical one each category is looked at once."""
    categories = getattr(column.dtype, "categories", None)
    if categories is None:
        return [turn(cell) for cell in column.astype(object).tolist()]
    made = [*map(turn, categories.tolist()), missing]
    return [made[code] for code in column.cat.codes.tolist()]


def _ranked(texts: list[str | None]) -> tuple[str, ...]:
    """Return categories by frequency, then by name; those that occur once are left out."""
    counts = Counter(text for text in texts if text is not None)
    return tuple(sorted((c for c, n in counts.items() if n > 1), key=lambda c: (-counts[c], c)))


# Texts, and sparse rows, one at a time: a row that is none of either is an empty one.


@dataclass(frozen=True)
class TextCells(Cells):
    """How texts are read: one per row, and what is no text is an empty one."""

    n_features = 1

    @classmethod
    def learn(cls, X: Any) -> TextCells:
        """Find out whether public rows are texts."""
        if not is_text_column(X) and not is_texts(read_rows(_column(X), name="X_public")):
            raise InvalidInputError(
                "X_public must be texts, one per row, got a table. TableMap makes numbers of tables."
            )
        return cls()

    def _read(self, X: Any) -> npt.NDArray[np.object_]:
        column = _column(X)
        if is_frame(column) or is_sparse(column) or getattr(column, "ndim", 1) != 1 or isinstance(column, str):
            raise InvalidInputError("X must be texts, one per row, as the public rows are: a list, or one column.")
        cells = [str(cell) if isinstance(cell, str) else "" for cell in column]
        return np.fromiter(cells, dtype=object, count=len(cells))

    def block(self, rows: npt.NDArray[np.object_], start: int, size: int) -> npt.NDArray[np.object_]:
        """Return ``size`` texts from ``start`` on; padded with empty ones."""
        made, part = np.full(size, "", dtype=object), rows[start : start + size]
        made[: len(part)] = part
        return made


def _column(X: Any) -> Any:
    """Return the one column of a table that has no other."""
    X = plain_rows(X)
    if is_frame(X) and X.shape[1] == 1:
        return X.iloc[:, 0]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1 and X.dtype.kind in "OU":
        return X[:, 0]
    return X


@dataclass(frozen=True)
class SparseCells(Cells):
    """How sparse rows are read: a cell that is not finite is 0, and none counts beyond the largest public one.

    ``largest`` is of the public cells, whatever their sign.
    """

    n_features: int
    largest: float

    @classmethod
    def learn(cls, X: Any) -> SparseCells:
        """Learn from public rows."""
        rows = read_rows(X, name="X_public")
        if not is_sparse(rows):
            raise InvalidInputError("X_public must be a sparse matrix here.")
        data = np.abs(np.asarray(rows.data, dtype=np.float64))
        if not np.isfinite(data).all():
            raise InvalidInputError("X_public holds NaN or infinity. Fill them or drop those rows.")
        return cls(int(rows.shape[1]), float(data.max(initial=0.0)))

    def _read(self, X: Any) -> Any:
        if not is_sparse(X):
            raise InvalidInputError("X must be a sparse matrix, as the public rows are.")
        rows = sparse.csr_array(check_columns(X, None, self.n_features), dtype=np.float64, copy=True)
        rows.sum_duplicates()
        rows.data = np.clip(np.where(np.isfinite(rows.data), rows.data, 0.0), -self.largest, self.largest)
        rows.eliminate_zeros()
        return rows

    def block(self, rows: Any, start: int, size: int) -> Any:
        """Return ``size`` rows from ``start`` on; padded with empty ones."""
        part = rows[start : start + size]
        if part.shape[0] < size:
            part.resize(size, self.n_features)
        return part


def ask_block(ask: Callable[[IntArray], Any], start: int, asked: IntArray, size: int, found: Any) -> None:
    """Ask about these places of a block, in a block of the same shape; where that fails, about half of them at a time.

    A row has its own place in every such block, so that the other rows change no bit of its answer. One about which
    ``ask`` raises has none; the curator is told of want of memory.
    """
    if not len(asked):
        return
    block = np.full(size, start + asked[0])
    block[asked] = start + asked
    try:
        answers = ask(block)
    except Exception as error:  # not shown: it may quote private values
        answers = None
        if isinstance(error, MemoryError) and len(asked) == 1:
            PRIVATE.warning("there was no memory to ask about a row alone: it counts as one without an answer")
    if answers is not None:
        found[start + asked] = answers[asked]
    elif len(asked) > 1:
        middle = len(asked) // 2
        ask_block(ask, start, asked[:middle], size, found)
        ask_block(ask, start, asked[middle:], size, found)
