"""Columns of tables: what kind they are, and forms in which one cell says nothing about any other.

pandas picks a column's type by all of its cells, so a single private one (a missing value among whole numbers, say)
would change what every teacher is given.
"""

from __future__ import annotations

import numbers
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


#: What pandas takes for true and false where a whole column is one or the other.
_TRUTH = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


#: Columns are of one unit where the widest public range is at most so many times the median one.
_ALIKE = 2.0


def of_one_unit(rows: Any) -> bool:
    """Whether all columns of public numbers look as if they were of one unit, as pixels are."""
    with np.errstate(all="ignore"):
        rows = np.asarray(rows, dtype=np.float64)
        rows = np.where(np.isfinite(rows), rows, np.nan)
        reach = np.nanmax(rows, axis=0, initial=-np.inf) - np.nanmin(rows, axis=0, initial=np.inf)
        reach = reach[np.isfinite(reach) & (reach > 0)]
        return bool(len(reach) and reach.max() <= _ALIKE * np.median(reach))


def holds_numbers(dtype: Any) -> bool:
    """Whether a column's dtype is of real numbers or true/false, nullable ones included."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_complex_dtype(dtype):
        return False
    return bool(pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype))


def column_kind(name: Any, column: pd.Series) -> str:
    """Return ``"numeric"`` (numbers, true/false) or ``"text"`` (strings, categories); refuse anything else."""
    import pandas as pd

    dtype = column.dtype
    if holds_numbers(dtype):
        return "numeric"
    held = str(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return "text"
    if not pd.api.types.is_object_dtype(dtype):
        if pd.api.types.is_string_dtype(dtype):
            return "text"
    else:  # anything at all may be in there
        held = pd.api.types.infer_dtype(column, skipna=True)
        if held in ("string", "empty", "mixed-integer", "boolean", "integer", "floating", "mixed-integer-float"):
            return "text"
        if held == "mixed" and column.dropna().map(np.isscalar).all():
            return "text"
    raise InvalidInputError(
        f"column {name!r} holds {held} values, which are neither numbers nor text. "
        "Turn it into numbers (a date into days since a fixed day), or drop it."
    )


def as_float(column: pd.Series) -> pd.Series:
    """Return a numeric column as float64, whether or not a cell is missing (NaN)."""
    import pandas as pd

    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.Series(values, index=column.index, name=column.name)


def settled(frame: pd.DataFrame, text: Collection[str] = ()) -> pd.DataFrame:
    """Return a **public** table of objects with its columns of numbers alone as float64."""
    import pandas as pd

    def settle(column: pd.Series) -> pd.Series:
        cells = column.dropna().tolist()
        plain = all(isinstance(c, numbers.Real) and not isinstance(c, bool | np.bool_) for c in cells)
        return column.map(float, na_action="ignore").astype(np.float64) if cells and plain else column

    made = [settle(frame.iloc[:, j]) if name not in text else frame.iloc[:, j] for j, name in enumerate(frame.columns)]
    found = pd.DataFrame(dict(enumerate(made)), index=frame.index)
    found.columns = frame.columns
    return found


def as_number(cell: Any) -> float:
    """Return a cell as a number, NaN where it is none; decided by this cell alone, as a file's would be read."""
    if isinstance(cell, str):
        text = cell.strip()
        if text in _TRUTH:
            return _TRUTH[text]
        cell = "" if "_" in text else text
    elif isinstance(cell, np.timedelta64):  # NumPy calls it a whole number
        return float("nan")
    elif not isinstance(cell, numbers.Real | np.bool_):
        if not isinstance(cell, numbers.Complex) or cell.imag:
            return float("nan")
        cell = cell.real
    try:
        return float(cell)
    except Exception:  # whatever an odd cell raises is its own matter
        return float("nan")


def as_label(cell: Any) -> Any:
    """Return the number or truth value that a text spells, and anything else as it is; decided by this cell alone."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if text in _TRUTH:
        return bool(_TRUTH[text])
    number = as_number(text)
    if not np.isfinite(number):
        return cell
    try:
        return int(text)
    except ValueError:
        return number


def as_text(column: pd.Series) -> pd.Series:
    """Return a text column as objects: strings, and NaN where missing. Whole numbers lose their ``.0``."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        # By category: as objects, whole numbers would turn into 1.0 as soon as any cell is missing.
        names = np.array([*map(_text, column.cat.categories.tolist()), np.nan], dtype=object)
        return pd.Series(names[column.cat.codes.to_numpy()], index=column.index, name=column.name, dtype=object)
    cells = column.astype(object)
    return cells.map(_text, na_action="ignore").astype(object).where(column.notna(), np.nan).astype(object)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def order_key(value: Any) -> tuple[str, Any, str]:
    """Return a sort key that puts values of any types in one order, decided by the values alone."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value).__name__
    if isinstance(value, numbers.Real):
        return "number", value, kind
    return kind, value if isinstance(value, str) else repr(value), ""
