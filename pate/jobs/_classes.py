"""The classes of a job, and labels as the classes' own values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import cell_kind, check_classes, check_no_amounts, quietly
from pate.data._columns import as_label, as_number
from pate.exceptions import PrivacyLeakWarning


def read_classes(y: npt.NDArray[Any]) -> tuple[Any, ...]:
    warnings.warn(
        "classes= was not given, so the set of classes is taken from the private target and becomes public with the "
        "labels. Name every possible class.",
        PrivacyLeakWarning,
        stacklevel=4,
    )
    found = quietly("the target", _distinct, y)
    check_no_amounts("the target", [as_label(value) for value in found.tolist()], len(y), named="classes= (--classes)")
    return check_classes(found)


def _distinct(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values that occur, sorted: as numbers or truth values if all are, else as they are written."""
    values = [value for value in y.tolist() if cell_kind(value) != "missing"]
    spelt = [as_label(value) for value in values]
    if len({isinstance(value, bool) for value in spelt}) == 1 and not any(isinstance(v, str) for v in spelt):
        return np.unique(np.array(spelt))
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return np.unique(column)


def as_classes(y: npt.NDArray[Any], classes: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Read a column as the classes' own type: a command line gives ``0,1`` as text, a file holds numbers.

    Value by value: a record with an odd or missing one changes nobody else's class. A value is the class that it
    equals, else the one that is written alike (``0`` is ``"0"``), else the one that is the same number (``"0.0"``).
    What is none of them stays as it is, and its record is set aside by whoever trains.
    """
    known = frozenset(classes)
    by_text: dict[str, Any] = {}
    by_number: dict[float, Any] = {}
    for value in classes:
        by_text.setdefault(_text(value), value)
        if np.isfinite(as_number(value)):
            by_number.setdefault(as_number(value), value)
    values = np.empty(len(y), dtype=object)
    values[:] = [_as_class(value, known, by_text, by_number) for value in y.tolist()]
    return values


def _as_class(value: Any, known: frozenset[Any], by_text: dict[str, Any], by_number: dict[float, Any]) -> Any:
    try:
        if value in known:
            return value
        text = _text(value)
    except Exception:  # a cell that cannot be looked up or written, such as a list of its own kind
        return None
    return by_text[text] if text in by_text else by_number.get(as_number(value), value)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
