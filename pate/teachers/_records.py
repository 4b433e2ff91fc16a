"""What ensembles read of private labels, and what they tell the curator of private rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_classes, check_labels, check_no_amounts
from pate.core.frames import plain_column
from pate.data.partition import Partition, count_cross_shard_duplicates
from pate.exceptions import DuplicateRecordsWarning, InvalidInputError, PrivacyLeakWarning
from pate.teachers._rows import hash_rows, is_sparse
from pate.teachers._usable import class_indices, label_column


def read_labels(y: Any, classes: Any, n_records: int) -> tuple[tuple[Any, ...], npt.NDArray[np.int64]]:
    """Return the classes and y as class indices, -1 for what is no class.

    Parameters
    ----------
    y : array-like of shape (n_records,)
    classes : iterable or None
        None reads them from ``y``, and warns.
    n_records : int
    """
    y = plain_column(y)
    values = check_labels("y", y, n_records) if classes is None else label_column(y, n_records)
    if classes is None:
        try:
            found = np.unique(values)
        except TypeError:
            found = None
        if found is None:
            raise InvalidInputError("y holds classes of mixed types. Make them alike, or name them in classes=.")
        if len(found) < 2:
            raise InvalidInputError("y holds a single class. Teachers need at least two to choose from.")
        check_no_amounts("y", found.tolist(), n_records)
        known = check_classes(found)
        warnings.warn(
            "classes=None: the set of classes is read from the private labels, and votes and releases will show "
            "it. Name every class that could occur: classes=[...].",
            PrivacyLeakWarning,
            stacklevel=3,
        )
    else:
        known = check_classes(classes)
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
