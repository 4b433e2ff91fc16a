"""Several labels of each private record: read cell by cell, and known by the ledger as one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from pate._core.checks import check_classes, quietly
from pate._core.frames import plain_rows
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.records._vectors import Units

#: What a cell may say, as it is written.
_SAID = {"0": 0, "no": 0, "false": 0, "0.0": 0, "1": 1, "yes": 1, "true": 1, "1.0": 1}


def read_labels(Y: Any, names: Any = None) -> tuple[FloatArray, tuple[str, ...]]:
    """Return private labels as 0 and 1, NaN where a cell says neither, and their names.

    Parameters
    ----------
    Y : array-like or DataFrame of shape (n, L)
        A column for each label, of 0 and 1, False and True, or texts no/yes, false/true. Each cell by itself: one that
        says neither affects its own record only, which then contributes nothing.
    names : sequence of str or None
        Of the labels; else the columns' own, or "0", "1", ...

    Raises
    ------
    InvalidInputError
        One column or none, a declared type that holds no labels, or a column of which no cell says 0 or 1.

    Examples
    --------
    >>> labels, names = read_labels([[1, "no"], [0, "yes"], [1, None]])
    >>> labels.tolist(), names
    ([[1.0, 0.0], [0.0, 1.0], [1.0, nan]], ('0', '1'))
    >>> read_labels([[1, 20], [0, 35]])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: y must hold 0 and 1 (or no and yes, false and true), and column '1' holds ...
    """
    if Y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None. Pass a column for each label.")
    shown = plain_rows(Y, name="y")
    if hasattr(shown, "toarray"):  # scipy's sparse indicators
        shown = shown.toarray()
    own = [str(name) for name in getattr(shown, "columns", ())]
    values = quietly("y", lambda: np.asarray(shown, dtype=None if hasattr(shown, "dtype") else object))
    if values.ndim != 2 or values.shape[1] < 2:
        raise InvalidInputError(
            f"y must have shape (n, L), a column of 0 and 1 for each of two or more labels, got {values.shape}. For "
            "one label take PATEClassifier."
        )
    if values.dtype.kind not in "biufOSU":
        raise InvalidInputError(f"y must hold 0 and 1, got an array of {values.dtype}. Make it an indicator matrix.")
    said = tuple(map(str, check_classes(names if names is not None else own or map(str, range(values.shape[1])))))
    if len(said) != values.shape[1]:
        raise InvalidInputError(f"labels must name each column of y once, got {len(said)} for {values.shape[1]}.")
    if values.dtype.kind in "biuf":
        found = np.where((values == 0) | (values == 1), values.astype(np.float64), np.nan)
    else:
        cells = [_SAID.get(str(cell).strip().lower(), np.nan) for cell in values.ravel().tolist()]
        found = np.asarray(cells, dtype=np.float64).reshape(values.shape)
    if len(found) and (nothing := np.isnan(found).all(axis=0)).any():
        raise InvalidInputError(
            f"y must hold 0 and 1 (or no and yes, false and true), and column {said[int(nothing.argmax())]!r} holds "
            "something else throughout. Make a column for each label."
        )
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
