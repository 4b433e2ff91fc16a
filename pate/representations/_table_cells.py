"""Rows of mixed tables as numbers, one cell at a time: a category becomes its place in the public list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import quietly
from pate.core.types import FloatArray
from pate.data._columns import as_float, as_number, column_kind, holds_numbers
from pate.data._door import is_frame, is_sparse, is_texts, read_rows
from pate.exceptions import InvalidInputError
from pate.representations._cells import check_columns, numbers_of, read_cells

#: A text cell without a place of its own, and one that is missing.
RARE, MISSING = -1.0, -2.0
#: A number from here on is no category (Python refuses to write very long ones).
_LARGEST = 10**300


def text_of(cell: Any) -> str | None:
    """Return a cell as a category, None where it is missing or neither number nor text; by this cell alone.

    True, 1, 1.0, ``"1"`` and ``"true"`` are one category: pandas and NumPy turn the one into the other for the sake of
    any cell beside it, and one private record would otherwise decide how all others' are read.
    """
    number = as_number(cell)
    if -_LARGEST < number < _LARGEST:
        return str(int(number)) if number == int(number) else repr(number)
    return str(cell) if isinstance(cell, str) else None


@dataclass(frozen=True)
class TableCells:
    """How rows of a table are read: numbers as they are, a category as its place among the public ones.

    Attributes
    ----------
    names : tuple of str or None
        Of the columns, where the public rows were a DataFrame.
    categories : tuple of (tuple of str, or None)
        Per column the categories with a place, the most frequent first; None for a column of numbers.
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
        known: list[tuple[str, ...] | None] = []
        if is_frame(rows):
            columns = [rows.iloc[:, j] for j in range(rows.shape[1])]
            names: tuple[str, ...] | None = tuple(str(c) for c in rows.columns)
            for name, column in zip(rows.columns, columns, strict=True):
                numeric = column_kind(name, column) == "numeric"
                known.append(None if numeric else _ranked(_texts(column)))
            return cls(names, tuple(known))
        flat = rows.reshape(len(rows), -1)
        for j in range(flat.shape[1]):
            cells = flat[:, j].tolist() if flat.dtype.kind == "O" else []
            known.append(_ranked(map(text_of, cells)) if any(isinstance(cell, str) for cell in cells) else None)
        return cls(None, tuple(known))

    @property
    def n_features(self) -> int:
        """How many columns a row has."""
        return len(self.categories)

    def read(self, X: Any) -> npt.NDArray[Any]:
        """Return rows as float64 of shape (n, n_features): numbers (NaN: missing), places, ``RARE`` or ``MISSING``."""
        return quietly("X", self._read, X)

    def _read(self, X: Any) -> npt.NDArray[Any]:
        rows = check_columns(read_cells(X, self.n_features), self.names, self.n_features)
        if not is_frame(rows) and rows.dtype.kind not in "OU" and all(known is None for known in self.categories):
            return rows
        made = np.empty(rows.shape)
        for j, known in enumerate(self.categories):
            column = rows.iloc[:, j] if is_frame(rows) else rows[:, j]
            if known is None:
                numbers = holds_numbers(column.dtype)
                made[:, j] = as_float(column) if numbers and is_frame(rows) else _numbers(column)
            else:
                made[:, j] = self._codes(column, self._places[j])
        return made

    def _codes(self, column: Any, places: dict[str, float]) -> FloatArray:
        categories = getattr(getattr(column, "dtype", None), "categories", None)
        if categories is not None:  # by category: each looked up once, and by itself
            codes = np.array([*(_place(c, places) for c in categories.tolist()), MISSING])
            return codes[column.cat.codes.to_numpy()]
        cells = column.astype(object).tolist()
        return np.fromiter((_place(cell, places) for cell in cells), dtype=np.float64, count=len(cells))

    def block(self, rows: npt.NDArray[Any], start: int, size: int) -> FloatArray:
        """Return ``size`` rows from ``start`` on, float64; behind the last one stand rows of missing cells."""
        part = rows[start : start + size]
        made = np.full((size, self.n_features), np.nan)
        made[: len(part)] = part
        return made

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what :meth:`restore` takes: arrays, and what goes into JSON."""
        known = [None if c is None else list(c) for c in self.categories]
        return {}, {"names": None if self.names is None else list(self.names), "categories": known}

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> TableCells:
        """Return the reader that :meth:`state` described."""
        names = words["names"]
        known = [None if c is None else tuple(map(str, c)) for c in words["categories"]]
        return cls(None if names is None else tuple(map(str, names)), tuple(known))


def _place(cell: Any, places: dict[str, float]) -> float:
    found = places.get(cell) if type(cell) is str else None
    if found is not None:  # places are in the form that text_of gives
        return found
    text = text_of(cell)
    return MISSING if text is None else places.get(text, RARE)


def _numbers(column: Any) -> FloatArray:
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return column.astype(np.float64)
    return numbers_of(column.astype(object).tolist())


def _texts(column: Any) -> Any:
    categories = getattr(column.dtype, "categories", None)
    if categories is None:
        return map(text_of, column.astype(object).tolist())
    names = [*map(text_of, categories.tolist()), None]
    return (names[code] for code in column.cat.codes.tolist())


def _ranked(texts: Any) -> tuple[str, ...]:
    """Return categories by how often they stand there, then by name; those that stand there once are left out."""
    counts = Counter(text for text in texts if text is not None)
    return tuple(sorted((c for c, n in counts.items() if n > 1), key=lambda c: (-counts[c], c)))
