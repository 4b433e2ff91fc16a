"""Several labels of each private record: read cell by cell, and known by the ledger as one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from pate._core.checks import quietly
from pate._core.frames import plain_rows
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.records._vectors import Units

#: What a cell may say, as it is written.
_SAID = {"0": 0, "no": 0, "false": 0, "0.0": 0, "-0.0": 0, "1": 1, "yes": 1, "true": 1, "1.0": 1}


def _said_by(cell: Any) -> float:
    """Return 0 or 1, NaN where a private cell says neither: whatever it is, it raises nothing."""
    if isinstance(cell, int):  # bool too; others may have more digits than Python writes
        return float(cell) if cell in (0, 1) else np.nan
    known = isinstance(cell, str | float | Decimal | np.generic)
    return _SAID.get(str(cell).strip().lower(), np.nan) if known else np.nan


def _even(rows: Any, names: Any) -> Any:
    """Return a list of rows as an array: of missing cells, where a row has not as many cells as there are labels.

    So many as there are names, else as most rows have; where no row has, the list as it is, to be refused by its shape.
    """
    if isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 1:
        rows = rows.tolist()
    if not isinstance(rows, list | tuple):
        return rows
    widths = [np.size(row) if isinstance(row, np.ndarray) else len(row) if isinstance(row, list | tuple) else 0
              for row in rows]  # fmt: skip
    wanted = (
        max(Counter(widths).items(), key=lambda found: found[1], default=(0, 0))[0] if names is None else len(names)
    )
    if not wanted or wanted not in widths:
        return rows
    made = np.full((len(rows), wanted), None, dtype=object)
    for i, (row, width) in enumerate(zip(rows, widths, strict=True)):
        if width == wanted:
            for j, cell in enumerate(row):
                made[i, j] = cell
    return made


def read_labels(Y: Any, names: Any = None) -> tuple[FloatArray, tuple[str, ...]]:
    """Return private labels as 0 and 1, NaN where a cell says neither, and their names.

    Parameters
    ----------
    Y : array-like or DataFrame of shape (n, L)
        A column for each label, of 0 and 1, False and True, or texts no/yes, false/true. Each cell by itself: one that
        says neither affects its own record only, which then contributes nothing; so does a row of a list that has more
        cells or fewer. Nothing is refused for what cells say, even if all say neither.
    names : sequence of str or None
        Of the labels; else the columns' own, or "0", "1", ...

    Raises
    ------
    InvalidInputError
        One column or none, a declared type that holds no labels, or names that are not one for each column.

    Examples
    --------
    >>> labels, names = read_labels([[1, "no"], [0, "yes"], [1, None]])
    >>> labels.tolist(), names
    ([[1.0, 0.0], [0.0, 1.0], [1.0, nan]], ('0', '1'))
    >>> read_labels([1, 0])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: y must have shape (n, L), a column of 0 and 1 for each of two or more labels, ...
    """
    if Y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None. Pass a column for each label.")
    if names is not None and (isinstance(names, str | bytes) or not isinstance(names, Iterable)):
        raise InvalidInputError(
            f"labels must list a name for each column of y, got {names!r:.60}. Say labels=['a', 'b']."
        )
    names, shown = None if names is None else list(names), plain_rows(Y, name="y")
    if hasattr(shown, "toarray"):  # scipy's sparse indicators
        shown = shown.toarray()
    shown = _even(shown, names)
    own = [str(name) for name in getattr(shown, "columns", ())]
    values = quietly("y", lambda: np.asarray(shown, dtype=None if hasattr(shown, "dtype") else object))
    if values.ndim != 2 or values.shape[1] < 2:
        raise InvalidInputError(
            f"y must have shape (n, L), a column of 0 and 1 for each of two or more labels, got {values.shape}. For "
            "one label take PATEClassifier."
        )
    if values.dtype.kind not in "biufOSU":
        raise InvalidInputError(f"y must hold 0 and 1, got an array of {values.dtype}. Make it an indicator matrix.")
    said = tuple(map(str, names if names is not None else own or range(values.shape[1])))
    if len(said) != values.shape[1] or len(set(said)) != len(said):
        given = f"{len(said)}{', some of them twice,' * (len(set(said)) != len(said))}"
        raise InvalidInputError(
            f"{'the columns of y' if names is None else 'labels'} must name each label once, got {given} for "
            f"{values.shape[1]} columns of y. Give each label a name of its own."
        )
    if values.dtype.kind in "biuf":
        found = np.where((values == 0) | (values == 1), values.astype(np.float64), np.nan)
    else:
        found = np.asarray([_said_by(cell) for cell in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)
    return found, said


def units_of_labels(
    labels: FloatArray, names: tuple[str, ...], groups: Any = None, *, share: float = 0.0, secret: bytes | None = None
) -> Units:
    """Return the units of records with labels of shape (n, L), NaN where a cell says nothing; see :meth:`Units.of`.

    Examples
    --------
    >>> units_of_labels(np.array([[1.0, 0.0], [np.nan, 1.0]]), ("a", "b")).part("all")
    array([ True, False])
    """
    values = np.where(np.isfinite(labels).all(axis=1), 0.0, np.nan)
    return Units.with_labels(label_codes(labels), groups, values=values, classes=names, share=share, secret=secret)


def label_codes(labels: FloatArray) -> IntArray:
    """Return 31 bits of each record's labels, by which a ledger recognises the records; -1 where one is NaN."""
    mixed = np.zeros(len(labels), dtype=np.uint64)
    for column in labels.T:
        mixed = (mixed + (column == 1).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.where(np.isfinite(labels).all(axis=1), (mixed >> np.uint64(33)).astype(np.int64), -1)
