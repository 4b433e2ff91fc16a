"""What stands in a replaced record's place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError

#: Kinds of canaries.
CANARIES = ("natural", "mislabelled", "out of distribution", "crafted", "person")
#: How many public deviations a record out of distribution is away, in every feature.
_FAR = 10.0


def other_class(labels: IntArray, n_classes: int, rng: np.random.Generator) -> IntArray:
    """Return class indices that all differ from ``labels``, by one shift for all of them; -1 becomes some class."""
    return np.asarray((labels + rng.integers(1, n_classes)) % n_classes)


def number_rows(name: str, X: Any, why: str) -> npt.NDArray[Any]:
    """Return rows as an array of numbers.

    Raises
    ------
    InvalidInputError
        A table, texts or sparse rows: ``why`` they will not do.
    """
    array = np.asarray(X) if not hasattr(X, "columns") and not hasattr(X, "tocsr") else None
    if array is None or array.dtype.kind not in "biuf" or array.ndim < 2:
        raise InvalidInputError(
            f"{name} must be an array of numbers for {why}. Encode it first (pate.TableEncoder, pate.representations), "
            "or take another canary."
        )
    return array


def far_row(X_public: Any, like: Any, rng: np.random.Generator) -> Any:
    """Return a row ten public standard deviations away from the public mean in every feature, either way."""
    rows = number_rows("X_public", X_public, "a canary out of distribution")
    private = number_rows("X", like, "a canary out of distribution")
    wide = rows.astype(np.float64)
    sign = rng.choice([-1.0, 1.0], size=rows.shape[1:])
    return (wide.mean(axis=0) + sign * _FAR * wide.std(axis=0)).astype(np.result_type(private.dtype, np.float32))


def another(n_records: int, unit: IntArray, rng: np.random.Generator) -> int:
    """Return the place of some record that is not of ``unit``."""
    others = np.setdiff1d(np.arange(n_records), unit)
    if not len(others):
        raise InvalidInputError("a natural canary needs another record to put in one's place. Pass more records.")
    return int(rng.choice(others))


def with_copy(X: Any, unit: IntArray, source: int) -> Any:
    """Return ``X`` with the record at ``source`` in every place of ``unit``: arrays, tables, sparse rows, lists."""
    places = np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
    places[unit] = source
    if hasattr(X, "iloc"):
        return X.iloc[places].set_axis(X.index)
    return [X[i] for i in places] if isinstance(X, list | tuple) else X[places]


def with_row(X: Any, unit: IntArray, row: Any) -> npt.NDArray[Any]:
    """Return a copy of an array ``X`` in which ``row`` stands in every place of ``unit``."""
    rows = number_rows("X", X, "this canary")
    moved = np.array(rows, dtype=np.result_type(rows.dtype, np.asarray(row).dtype))
    moved[unit] = row
    return moved


def with_labels(y: Any, unit: IntArray, values: Any) -> npt.NDArray[Any]:
    """Return a copy of ``y`` with ``values`` in the places of ``unit``."""
    moved = np.array(y, dtype=object)
    moved[unit] = values
    given = np.asarray(y)
    return (
        moved
        if given.dtype.kind == "O"
        else np.array(moved.tolist(), dtype=None if given.dtype.kind in "US" else given.dtype)
    )


def leverage(row: FloatArray, centre: FloatArray) -> list[tuple[float, FloatArray]]:
    """Return a query's row and the same further out from the public centre, which pulls harder at linear models."""
    return [(scale, centre + scale * (row - centre)) for scale in (1.0, 3.0, 10.0, 30.0)]
