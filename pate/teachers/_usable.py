"""Which private records have a class, an owner and whole rows: see :mod:`pate.data._ids` for the rest of them."""

from __future__ import annotations

import difflib
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import DataConversionWarning

from pate.core.checks import check_classes, check_labels, check_no_amounts, quietly, unmasked
from pate.core.curator import Told
from pate.core.frames import plain_column
from pate.core.types import Mask
from pate.data._door import is_frame, is_sparse, is_texts
from pate.data._ids import NO_OWNER, ODD_CELLS, OUTSIDE, distinct_ids, has_id, usable_records
from pate.data.partition import Partition, count_cross_shard_duplicates
from pate.exceptions import DuplicateRecordsWarning, InvalidInputError, PrivacyLeakWarning
from pate.teachers._rows import hash_rows


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

    Another number than of records, and a declared type of no class values (dates, complex numbers), is refused.
    """
    values = quietly("y", as_column, y)
    if values.shape != (n_records,) or values.dtype.kind in "cmMV":
        check_labels("y", y, n_records)
    return values


def flat_labels(y: Any, *, strict: bool) -> tuple[Any, tuple[int, ...]]:
    """Return labels, those of one column as a 1-d array, and their shape; ``strict`` where no classes are named."""
    shape = quietly("y", lambda: (np.asarray if strict else as_column)(y).shape)
    if len(shape) != 2 or shape[1] != 1:
        return y, shape
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Pass y.ravel().",
        DataConversionWarning,
        stacklevel=5,
    )
    y = np.asarray(unmasked("y", y) if strict else as_column(y)).ravel()
    return y, y.shape


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


@dataclass(frozen=True, repr=False)
class Owners:
    """Whose each record is: owners as :func:`owned` gives them, numbered by ``codes``; None where nobody said any."""

    groups: Any
    known: Mask
    codes: npt.NDArray[np.intp] | None = None
    ids: list[bytes] | None = None

    @classmethod
    def of(cls, groups: Any, n_records: int) -> Owners:
        """Return them, and refuse another length, and no id at all; no id is quoted."""
        filled, known = quietly("groups", owned, groups, n_records)
        if filled is None:
            return cls(None, known)
        return cls(filled, known, *quietly("groups", distinct_ids, filled, n_records))


def units_of(groups: Any, n_records: int) -> tuple[int, str]:
    """Return how many units of privacy there are, and what one is: a record, or a group (all records of one owner)."""
    ids = Owners.of(groups, n_records).ids
    return (n_records, "record") if ids is None else (len(ids), "group")


def usable(classes: Any, labels: Any, readable: Mask | None, has_owner: Mask | None) -> Mask:
    """Return which records can be used, and warn the curator of the others: :func:`pate.data._ids.usable_records`."""
    checks = {f"{OUTSIDE}={classes!r}": labels >= 0, ODD_CELLS: readable, NO_OWNER: has_owner}
    return usable_records({what: fine for what, fine in checks.items() if fine is not None}, stacklevel=5)


# What ensembles read of private labels, and what they tell the curator of private rows.


def classes_in(labels: npt.NDArray[Any], *, stacklevel: int) -> npt.NDArray[Any]:
    """Return the distinct values of private labels, which become public by it, and of that it warns."""
    warnings.warn(
        "classes=None: the set of classes is read off the private labels and becomes public with whatever is released, "
        "votes and models too. Name every class that could occur: classes=[...].",
        PrivacyLeakWarning,
        stacklevel=stacklevel,
    )
    found = None
    with suppress(TypeError):
        found = quietly("y", np.unique, labels) if labels.dtype.kind != "O" else np.unique(labels)
    if found is None:
        raise InvalidInputError("y holds classes of mixed types. Make them alike, or name them in classes=.")
    check_no_amounts("y", found.tolist(), len(labels))
    if len(found) < 2:
        raise InvalidInputError(
            "y has only one class: there is nothing to tell apart. Check the target, or name all in classes=."
        )
    return found


def read_labels(y: Any, classes: Any, n_records: int) -> tuple[tuple[Any, ...], npt.NDArray[np.int64]]:
    """Return the classes, read off ``y`` (with a warning) where they are None, and y as class indices, -1 for none."""
    y, strict = plain_column(y), classes is None
    values = check_labels("y", y, n_records) if strict else label_column(y, n_records)
    known = check_classes(classes_in(values, stacklevel=4) if strict else classes)
    return known, class_indices(values, known)


def warn_of_duplicates(X: Any, cut: Partition) -> None:
    """Tell the curator, and nobody else: the number depends on every record."""
    if isinstance(X, np.ndarray) and X.ndim > 2:
        X = X.reshape(len(X), -1)
    if is_sparse(X):
        X = np.asarray(hash_rows(X, chunk_size=4096), dtype=object).reshape(-1, 1)
    try:
        n_duplicates = count_cross_shard_duplicates(X, cut)
    except (InvalidInputError, TypeError):  # a cell that cannot be compared, such as a list
        return
    if n_duplicates:
        warnings.warn(
            f"{n_duplicates} distinct rows stand in more than one shard. If two of them are the same person, the "
            "guarantee is weaker for that person: remove repeats, or pass groups= so that a person's records stay "
            "together. (This number is private: do not publish it.)",
            DuplicateRecordsWarning,
            stacklevel=3,
        )


# What the curator alone should know of private labels before anything is spent: who votes, and classes nobody has.

_PARTS = re.compile(r"\s*[,;|/+&]\s*")
#: Longer texts are no classes, and of more values than these none is meant for a class that was named.
_LONGEST, _MOST_VALUES = 200, 10_000


def about_labels(y: Any, groups: Any, classes: Sequence[Any], *, counted: bool = True) -> list[Told]:
    """Return what the curator should know of private labels; nothing else may come of it.

    ``counted``: whether to say how many records do not vote. ``quoting`` alone has values of ``y``; empty where all
    records vote, and some for each class.
    """
    values = as_column(y).ravel()
    n = len(values)
    places = class_indices(values, classes)
    _, has_owner = owned(groups, n)
    votes = (places >= 0) & has_owner
    absent = [value for i, value in enumerate(classes) if not (places == i).any()]
    others = _others(values[places < 0])
    several = sum(k for value, k in others.items() if _holds_several(value, classes))
    parts = []
    if counted and not votes.all():
        why = [f"{n_out:,} {of}" for n_out, of in (
            (int((places < 0).sum()), "of a class outside classes"), (int((~has_owner).sum()), "of an unknown owner")
        ) if n_out]  # fmt: skip
        parts.append(f"{int(votes.sum()):,} of {n:,} records ({votes.mean():.1%}) vote: {', '.join(why)}.")
    if several:
        parts.append(f"{several:,} hold several classes in one cell: a record votes for one.")
    if absent:
        named = ", ".join(map(repr, absent[:5])) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        parts.append(f"No record is of the class{'es' * (len(absent) > 1)} {named}.")
    return [Told(" ".join(parts), _nearest(absent, others))] if parts else []


def _others(values: npt.NDArray[Any]) -> Counter[str]:
    found = Counter(value for value in values.tolist() if isinstance(value, str) and len(value) <= _LONGEST)
    return found if len(found) <= _MOST_VALUES else Counter()


def _holds_several(value: str, classes: Sequence[Any]) -> bool:
    known = {str(c) for c in classes}
    parts = _PARTS.split(value.strip())
    return len(parts) > 1 and any(part in known for part in parts)


def _nearest(absent: list[Any], others: Counter[str]) -> str:
    """Say which values are spelt nearly as a class that nobody has."""
    folded: dict[str, str] = {}
    for value, _ in others.most_common():
        folded.setdefault(value.strip().casefold(), value)
    lines = []
    for name in absent:
        near = difflib.get_close_matches(str(name).strip().casefold(), folded, n=1)
        if near:
            value = folded[near[0]]
            n = others[value]
            had = "1 record has" if n == 1 else f"{n:,} records have"
            lines.append(f"{name!r} was named, and {had} {value!r}: is that meant?")
    return "\n".join(lines)
