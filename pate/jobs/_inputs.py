"""What a job is given, brought to one form: the teacher, the classes, the units."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_classes, quietly
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
    return "group", len(set(source.groups.tolist()))  # of any types, mixed ones too


def take(rows: Any, positions: npt.NDArray[np.int64]) -> Any:
    return rows.iloc[positions] if hasattr(rows, "iloc") else rows[positions]


def read_classes(y: npt.NDArray[Any]) -> tuple[Any, ...]:
    warnings.warn(
        "classes= was not given, so the set of classes is taken from the private target and becomes public with the "
        "labels. Name every possible class.",
        PrivacyLeakWarning,
        stacklevel=4,
    )
    return check_classes(quietly("the target", np.unique, y))


def as_classes(y: npt.NDArray[Any], classes: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Read a column as the classes' own type: a command line gives ``0,1`` as text, a file holds numbers.

    Value by value: a record with an odd one, which makes the whole column texts or floats, changes nobody else's class.
    """
    known = set(classes)
    by_text: dict[str, Any] = {}
    for value in classes:
        by_text.setdefault(_text(value), value)
    values = np.empty(len(y), dtype=object)
    values[:] = [v if v in known else by_text.get(_text(v), v) for v in y.tolist()]
    return values


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
