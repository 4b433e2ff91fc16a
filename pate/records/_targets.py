"""Read a target that is a number: its stated range, and each record's value by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.frames import plain_column
from pate.exceptions import InvalidInputError
from pate.records._vectors import read_numbers
from pate.teachers import flat_labels


def check_bounds(bounds: Any, *, name: str = "target_range") -> tuple[float, float]:
    """Return the stated range of a target as two finite numbers, the lower first.

    Examples
    --------
    >>> check_bounds((0, 120))
    (0.0, 120.0)
    >>> check_bounds((120, 0))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: target_range must have the lower number first, got (120, 0). Turn it.
    """
    fine = isinstance(bounds, tuple | list | np.ndarray) and len(bounds) == 2
    try:
        low, high = map(float, bounds) if fine else (np.nan, np.nan)
    except (TypeError, ValueError):
        low = high = np.nan
    if not np.isfinite([low, high]).all():
        raise InvalidInputError(
            f"{name} must be (low, high), two finite numbers that the target lies between, got {bounds!r:.60}. Say "
            "them from public knowledge, wider rather than narrower: a hundred times too wide costs little."
        )
    if not low < high:
        raise InvalidInputError(f"{name} must have the lower number first, got ({low:g}, {high:g}). Turn it.")
    return low, high


def read_target(y: Any) -> npt.NDArray[np.float64]:
    """Return a private numeric target, NaN where a cell is no number; a declared type that is none is refused."""
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
    return read_numbers(y)
