"""Read a target that is a number: each record's value by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_bounds as check_bounds
from pate._core.frames import plain_column
from pate.data import TableFormat
from pate.exceptions import InvalidInputError
from pate.records._vectors import read_numbers
from pate.teachers import flat_labels


def read_target(y: Any, *, written: TableFormat | None = None) -> npt.NDArray[np.float64]:
    """Return a private numeric target, NaN where a cell is no number; a declared type that is none is refused.

    ``written`` is how the file is written that it is of: a text is a number there as in the file's other columns.
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
    if written is None or y.dtype != object:
        return read_numbers(y)
    return read_numbers([written.spelt(cell) if isinstance(cell, str) else cell for cell in y.tolist()])
