"""The columns of a table that are no features: labels, and whose row it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate.data._columns import as_label
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

_WHOLE_NUMBER = re.compile(r"([+-]?)0*([0-9]+)(?:\.0*)?")


def labels_of(frame: pd.DataFrame, name: str | None, *, strict: bool, spelt: bool) -> npt.NDArray[Any] | None:
    """Return a column's values as they are in the file.

    Parameters
    ----------
    frame : DataFrame of shape (n, n_columns)
    name : str or None
        The column; without one there are no labels.
    strict : bool
        Whether a missing value is refused; else it is None, and every value an object by itself.
    spelt : bool
        Whether a text stands for the number that it spells.
    """
    if name is None:
        return None
    if strict:
        values = _complete(frame, name, "target").to_numpy()
        # The same text whether it came as a category, as a string or as an object.
        return values.astype(object) if values.dtype.kind in "US" else values
    cells = frame[name].astype(object).where(frame[name].notna(), None).tolist()
    labels = np.empty(len(cells), dtype=object)
    labels[:] = [as_label(cell) for cell in cells] if spelt else cells
    return labels


def owners_of(frame: pd.DataFrame, name: str | None, *, strict: bool) -> npt.NDArray[Any] | None:
    """Return ids as texts; were they numbers where all cells are, one person's odd id would rename everybody.

    Parameters
    ----------
    frame, name
        As for :func:`labels_of`.
    strict : bool
        Whether a missing id is refused; else it is None.
    """
    if name is None:
        return None
    column = _complete(frame, name, "group") if strict else frame[name]
    missing = column.isna().to_numpy()
    owners = np.empty(len(column), dtype=object)
    owners[:] = [None if gone else _owner(value) for value, gone in zip(column.tolist(), missing, strict=True)]
    if not strict:
        owners[owners == ""] = None
    return owners


def ids_of(frame: pd.DataFrame, name: str | None) -> npt.NDArray[Any] | None:
    """Return ids to be carried along, as texts as they are written; None where a cell is empty."""
    if name is None:
        return None
    column = frame[name]
    ids = np.empty(len(column), dtype=object)
    for i, (value, gone) in enumerate(zip(column.tolist(), column.isna().tolist(), strict=True)):
        text = "" if gone else str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        ids[i] = text.strip() or None
    return ids


def _complete(frame: pd.DataFrame, name: str, role: str) -> pd.Series:
    column = frame[name]
    if column.isna().any():
        raise InvalidInputError(f"{role} column {name!r} has missing values. Fill them in, or remove those rows.")
    return column


def _owner(value: Any) -> str:
    text = (str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)).strip()
    number = _WHOLE_NUMBER.fullmatch(text)
    return f"{number[1].replace('+', '')}{number[2]}" if number else text
