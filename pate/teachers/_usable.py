"""Which private records have a class, an owner and whole rows: see :mod:`pate.data._unusable` for the rest of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_labels, quietly
from pate.core.frames import plain_column
from pate.core.types import Mask
from pate.data._door import is_frame, is_sparse, is_texts
from pate.data._ids import distinct_ids, has_id


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
    if values.dtype.kind in "mMV":  # no class values, whatever numbers they are made of
        return np.full(len(values), -1, dtype=np.int64)
    places = {value: i for i, value in enumerate(classes)}
    if values.ndim == 1 and values.dtype.kind in "biu":  # each value is looked up once
        held, which = np.unique(values, return_inverse=True)
        return np.array([_place(value, places) for value in held.tolist()], dtype=np.int64)[which]
    return np.array([_place(value, places) for value in values.tolist()], dtype=np.int64)


def as_column(y: Any) -> npt.NDArray[Any]:
    """Return values as an array in which no value changes what the others are."""
    y = plain_column(y)
    if isinstance(y, np.ma.MaskedArray):
        shown = np.array(y.data, dtype=object)
        shown[np.ma.getmaskarray(y)] = None
        return shown
    if is_frame(y) and y.shape[1] == 1:
        return as_column(y.iloc[:, 0]).reshape(-1, 1)
    if hasattr(y, "dtype"):  # pandas' own types become floats when one value is missing
        return np.asarray(y if isinstance(y.dtype, np.dtype) or not hasattr(y, "astype") else y.astype(object))
    if hasattr(y, "__array__") or isinstance(y, str | bytes) or not isinstance(y, Sequence):
        return np.asarray(y)
    return np.fromiter(y, dtype=object, count=len(y))  # numpy would turn all into texts for the sake of one


def label_column(y: Any, n_records: int) -> npt.NDArray[Any]:
    """Return labels as an array of shape (n_records,) in which no label changes what the others are.

    Raises
    ------
    InvalidInputError
        There are not as many as records, or their declared type is that of no class values (dates, complex numbers).
    """
    values = quietly("y", as_column, y)
    if values.shape != (n_records,) or values.dtype.kind in "cmMV":
        check_labels("y", y, n_records)
    return values


def _place(value: Any, places: dict[Any, int]) -> int:
    try:
        if isinstance(value, list | tuple | np.ndarray):  # a row of one column, in a list of such
            (value,) = as_column(value).ravel()
        return places.get(value, -1)
    except Exception:  # a cell that cannot be looked up, such as a list
        return -1


def complete_rows(X: Any) -> Mask:
    """Return which rows have a finite value in every cell, shape (n,)."""
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
    is another record's, so that no group is added. An id that is none (a list, a number too long to be written) is
    unknown too: it is that record's matter.
    """
    if groups is None:
        return None, np.ones(n_records, dtype=bool)
    groups = plain_column(groups, name="groups")
    values = as_column(groups if hasattr(groups, "__array__") else list(groups))
    if values.shape != (n_records,):
        return groups, np.ones(n_records, dtype=bool)  # refused by partition, in its words
    if values.dtype.kind in "biu":
        return values, np.ones(n_records, dtype=bool)
    known = np.fromiter(map(has_id, values), dtype=bool, count=n_records)
    if known.all() or not known.any():
        return values, known
    filled = np.fromiter(values, dtype=object, count=n_records)
    first = int(np.flatnonzero(known)[0])
    for i in np.flatnonzero(~known):
        filled[i] = filled[first]
    return filled, known


def units_of(groups: Any, n_records: int) -> tuple[int, str]:
    """Return how many units of privacy there are, and what one is: a record, or a group (all records of one owner)."""
    if groups is None:
        return n_records, "record"
    owners, _ = owned(groups, n_records)
    return len(distinct_ids(owners, n_records)[1]), "group"
