"""Read a target that is a number: each record's value by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_bounds as check_bounds
from pate._core.frames import plain_column
from pate.exceptions import InvalidInputError
from pate.records._vectors import read_numbers
from pate.teachers import flat_labels


def read_target(y: Any, *, decimal: str = "") -> npt.NDArray[np.float64]:
    """Return a private numeric target, NaN where a cell is no number; a declared type that is none is refused.

    Where ``decimal`` is a comma, a cell with a point is no number, as in the file's other columns.
    """
    if y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None. Pass one number for each record.")
    y, shape = flat_labels(plain_column(y), strict=False)
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != 1):
        raise InvalidInputError(
            f"y must have shape (n,), one number for each record, got {shape}. Fit one target each."
        )
    if getattr(getattr(y, "dtype", None), "kind", None) in ("U", "S", "m", "M"):
        raise InvalidInputError(
            f"y must hold numbers, got an array of {y.dtype}. Convert it, or predict classes: PATEClassifier."
        )
    return read_numbers([_with_point(cell) for cell in y.tolist()] if decimal == "," and y.dtype == object else y)


def _with_point(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    return None if "." in cell else cell.replace(",", ".")
