"""What a job is given, brought to one form: the teacher, the classes, the units."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import cell_kind, check_classes, quietly
from pate.data._columns import as_label, as_number
from pate.exceptions import CheckpointWarning, InvalidInputError, PrivacyLeakWarning
from pate.jobs._reading import Sources
from pate.teachers import import_teacher, is_import_path, make_teacher
from pate.teachers.checkpoints import pack


def chosen_teacher(teacher: Any, *, allow_import: bool) -> Any:
    if not is_import_path(teacher):
        return make_teacher(teacher)
    if not allow_import:
        raise InvalidInputError(
            f"teacher {teacher!r} is an import path: importing it runs whatever code is in that module, with your "
            "rights and beside the private data. If you trust it, say so: --allow-import (allow_import=True)."
        )
    return import_teacher(teacher)


def name_of(teacher: Any, estimator: Any) -> str:
    return teacher if isinstance(teacher, str) else type(estimator).__name__


def kept_in(checkpoint_dir: Any, estimator: Any, teacher: Any) -> Any:
    """Return the folder for checkpoints, or None when an imported teacher cannot be kept safely."""
    if checkpoint_dir is not None and is_import_path(teacher):
        try:
            pack(estimator, b"")
        except InvalidInputError:
            warnings.warn(
                f"teachers of type {type(estimator).__name__} cannot be read back safely, so none is kept: a killed "
                "run trains them again.",
                CheckpointWarning,
                stacklevel=4,
            )
            return None
    return checkpoint_dir


def units_of(source: Sources) -> tuple[str, int]:
    if source.groups is None:
        return "record", len(source.y)
    # Of any types, mixed ones too. A record of unknown owner is in no shard.
    return "group", len({owner for owner in source.groups.tolist() if owner is not None})


def take(rows: Any, positions: npt.NDArray[np.int64]) -> Any:
    return rows.iloc[positions] if hasattr(rows, "iloc") else rows[positions]


def read_classes(y: npt.NDArray[Any]) -> tuple[Any, ...]:
    warnings.warn(
        "classes= was not given, so the set of classes is taken from the private target and becomes public with the "
        "labels. Name every possible class.",
        PrivacyLeakWarning,
        stacklevel=4,
    )
    return check_classes(quietly("the target", _distinct, y))


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

    Examples
    --------
    >>> as_classes(np.array(["0", "01", 1.0, None, "?"], dtype=object), (0, 1)).tolist()
    [0, 1, 1.0, None, '?']
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
