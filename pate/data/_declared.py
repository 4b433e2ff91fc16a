"""Ranges of columns that a person declared: rows that are made up within them stand in for public ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import shown
from pate.exceptions import InvalidInputError

#: Made-up rows: in each column evenly spread over its range, every category about as often as the others.
_ROWS = 1024
#: More categories of one column are no list that somebody types.
MOST_VALUES = 256
_SEED = 0x5EED
_REMEDY = "Say (low, high), two numbers, or the list of its categories, as texts."


def declared_rows(ranges: Any, *, n_columns: int | None = None) -> Any:
    """Return made-up rows within declared ranges: no private cell is in them, nor counted for them.

    Parameters
    ----------
    ranges : mapping of str to (low, high) or list of str; (low, high); or list of (low, high)
        By column of a table, a range of numbers or all categories; or of an array, one range for all columns, or each
        column's.
    n_columns : int or None
        Of an array.

    Returns
    -------
    DataFrame or float64 array of shape (1024, n_columns)
        The same for the same ranges.

    Raises
    ------
    InvalidInputError
        Something else, low that is not below high, or more than 256 categories.
    """
    import pandas as pd

    rng = np.random.default_rng(_SEED)
    if isinstance(ranges, Mapping):
        if not ranges or not all(isinstance(name, str) for name in ranges):
            raise InvalidInputError(
                f"ranges must name at least one column, by texts, got {shown(ranges)}. Say {{'age': (0, 120)}}."
            )
        columns = {name: rng.permutation(_column(f" of {name!r}", ranges[name])) for name in ranges}
        made = {name: pd.Series(c, dtype=object if c.dtype.kind in "OU" else None) for name, c in columns.items()}
        return pd.DataFrame(made)
    if not isinstance(ranges, Sequence) or isinstance(ranges, str) or not len(ranges):
        raise InvalidInputError(
            f"ranges must be a mapping of columns to ranges, or (low, high) of all columns, got {shown(ranges)}. "
            "Say {'age': (0, 120), 'sex': ['male', 'female']}."
        )
    pairs = [ranges] * (n_columns or 0) if _is_number(ranges[0]) else list(ranges)
    if n_columns is not None and len(pairs) != n_columns:
        raise InvalidInputError(
            f"ranges must be one (low, high), or one for each of the {n_columns} columns, got {len(pairs)} of them."
        )
    found = [_column(f" of column {j}", pair) for j, pair in enumerate(pairs)]
    if any(column.dtype.kind != "f" for column in found):
        raise InvalidInputError("ranges of an array must be numbers. Give categories by name, in a table.")
    return np.column_stack([rng.permutation(column) for column in found])


def declared_kinds(ranges: Mapping[str, Any]) -> dict[str, str]:
    """Return what the columns hold, as a public table's reader would say it."""
    rows = declared_rows(ranges)
    return {name: "numeric" if rows[name].dtype.kind == "f" else "text" for name in ranges}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _column(name: str, told: Any) -> npt.NDArray[Any]:
    """Return a column's made-up cells, in order."""
    if not isinstance(told, Sequence | np.ndarray) or isinstance(told, str) or not len(told):
        raise InvalidInputError(f"ranges{name} must be a range or categories, got {shown(told)}. {_REMEDY}")
    if all(isinstance(value, str) for value in told):
        values = list(dict.fromkeys(told))
        if not 2 <= len(values) <= MOST_VALUES:
            raise InvalidInputError(
                f"ranges{name} must name 2 to {MOST_VALUES} categories, got {len(values)}. Name the frequent ones: all "
                "others count as missing."
            )
        return np.resize(np.array(values, dtype=object), _ROWS)
    if len(told) != 2 or not all(_is_number(value) for value in told):
        raise InvalidInputError(f"ranges{name} must be two numbers, or texts, got {shown(told)}. {_REMEDY}")
    low, high = (float(value) for value in told)
    if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
        raise InvalidInputError(
            f"ranges{name} must be two finite numbers, the lower first, got ({low:g}, {high:g}). {_REMEDY}"
        )
    return np.linspace(low, high, _ROWS)
