"""Which private records can be used. One that cannot is left out of its own shard, and nothing else comes of it.

Raising would let one record decide whether there is a release: a visible bit that no epsilon covers, and a way for
anybody in the data to stop everything. A table in which *no* record can be used is refused as the curator's mistake;
neighbouring tables are taken to have one at least.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import cell_kind, encode_labels
from pate.core.types import Mask
from pate.data._door import is_frame, is_sparse, is_texts
from pate.exceptions import CuratorWarning, InvalidInputError


def class_indices(y: Any, classes: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return each value's index in ``classes``, and -1 for what is none of them (a missing value, another class).

    Parameters
    ----------
    y : array-like of shape (n,)
    classes : sequence of class values

    Examples
    --------
    >>> class_indices(["b", "a", None, "?"], ("a", "b"))
    array([ 1,  0, -1, -1])
    """
    values = as_column(y)
    try:
        return encode_labels("y", values, classes)
    except Exception:  # some value is none of them, or of a kind that does not even compare
        places = {value: i for i, value in enumerate(classes)}
        return np.array([_place(value, places) for value in values.tolist()], dtype=np.int64)


def as_column(y: Any) -> npt.NDArray[Any]:
    """Return values as an array in which no value changes what the others are.

    Examples
    --------
    >>> as_column([0, 1, "?"]), as_column([[0], [1]]).shape
    (array([0, 1, '?'], dtype=object), (2, 1))
    """
    if isinstance(y, np.ma.MaskedArray):
        shown = np.array(y.data, dtype=object)
        shown[np.ma.getmaskarray(y)] = None
        return shown
    if hasattr(y, "dtype") or not isinstance(y, list | tuple):
        return np.asarray(y)
    if y and all(isinstance(value, list | tuple | np.ndarray) for value in y):
        return np.empty((len(y), max(map(len, y))), dtype=object)  # refused by its shape, unless it is one column
    column = np.empty(len(y), dtype=object)  # numpy would turn all into texts for the sake of one
    column[:] = y
    return column


def _place(value: Any, places: dict[Any, int]) -> int:
    try:
        return places.get(value, -1)
    except Exception:  # a cell that cannot be looked up, such as a list
        return -1


def complete_rows(X: Any) -> Mask:
    """Return which rows have a finite value in every cell, shape (n,).

    Examples
    --------
    >>> complete_rows(np.array([[1.0, 2.0], [np.nan, 0.0]]))
    array([ True, False])
    """
    n = X.shape[0]
    if is_texts(X):
        return np.ones(n, dtype=bool)
    if is_sparse(X):
        rows = np.repeat(np.arange(n), np.diff(X.indptr))
        return np.asarray(np.bincount(rows[~np.isfinite(X.data)], minlength=n) == 0)
    if is_frame(X):
        numbers = X.select_dtypes("number").to_numpy(dtype=float, na_value=np.nan)
        return np.asarray(~X.isna().to_numpy().any(axis=1) & np.isfinite(numbers).all(axis=1))
    cells = X.reshape(n, -1)
    if X.dtype.kind == "O":
        return np.array([all(map(_is_there, row)) for row in cells], dtype=bool)
    if X.dtype.kind != "f":
        return np.ones(n, dtype=bool)
    return np.array([bool(np.isfinite(row).all()) for row in cells]) if n < 64 else _finite_rows(cells)


def _finite_rows(cells: npt.NDArray[Any]) -> Mask:
    found = np.empty(len(cells), dtype=bool)
    for start in range(0, len(cells), 4096):
        found[start : start + 4096] = np.isfinite(cells[start : start + 4096]).all(axis=1)
    return found


def _is_there(cell: Any) -> bool:
    try:
        return cell is not None and bool(cell == cell) and cell not in (np.inf, -np.inf)  # NaN differs from itself
    except Exception:  # a cell of some kind of its own: its estimator's business
        return True


def owned(groups: Any, n_records: int) -> tuple[Any, Mask]:
    """Return ``groups`` with some owner for every record, and which records said theirs.

    A record of unknown owner could put one person into two shards, so it goes into none. What stands in for its owner
    is another record's, so that no group is added.

    Examples
    --------
    >>> owned(["a", None, "b"], 3)
    (array(['a', 'a', 'b'], dtype=object), array([ True, False,  True]))
    """
    if groups is None:
        return None, np.ones(n_records, dtype=bool)
    import pandas as pd

    values = groups if hasattr(groups, "dtype") else pd.Series(list(groups), dtype=object)
    if getattr(values, "ndim", 1) != 1 or len(values) != n_records:
        return groups, np.ones(n_records, dtype=bool)  # refused by partition, in its words
    cells = list(as_column(values) if isinstance(values, np.ma.MaskedArray) else values)
    missing = np.array([cell_kind(v) == "missing" or (isinstance(v, str) and not v.strip()) for v in cells])
    if not missing.any() or missing.all():
        return groups, ~missing
    filled = np.empty(n_records, dtype=object)
    filled[:] = cells
    filled[missing] = filled[np.flatnonzero(~missing)[0]]
    return filled, ~missing


def check_any(usable: dict[str, Mask]) -> Mask:
    """Return which records pass every check; tell the curator of the others, and refuse a table without any.

    Parameters
    ----------
    usable : dict of str -> bool array of shape (n,)
        What is wrong with the records that fail a check, and which pass it.

    Raises
    ------
    InvalidInputError
        No record passes.

    Examples
    --------
    >>> check_any({"a missing value": np.array([False, False])})
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: none of the 2 records can be used: a missing value. ...
    """
    every = np.logical_and.reduce(list(usable.values()))
    n_out = int(np.count_nonzero(~every))
    reasons = [f"{np.count_nonzero(~mask)} with {what}" for what, mask in usable.items() if not mask.all()]
    if n_out == len(every):
        worst = min(usable, key=lambda what: int(usable[what].sum()))
        raise InvalidInputError(
            f"none of the {n_out} records can be used: {worst}. Nothing was trained or spent. Clean the columns, or "
            "take an estimator that takes such values."
        )
    if n_out:
        warnings.warn(
            f"{n_out} of {len(every)} records cannot be used and are left out of their shards: {'; '.join(reasons)}. "
            "(These numbers are private: do not publish them.)",
            CuratorWarning,
            stacklevel=4,
        )
    return np.asarray(every)
