"""What a job is given, brought to one form: the teacher, the classes, the units."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.jobs._reading import Sources
from pate.teachers import import_teacher, is_import_path, make_teacher
from pate.teachers.checkpoints import pack


def chosen_teacher(teacher: Any, *, allow_import: bool) -> Any:
    if not is_import_path(teacher):
        return make_teacher(teacher)
    if not allow_import:
        raise InvalidInputError(
            f"teacher {teacher!r} is an import path: importing it runs whatever code is in that module, with your "
            "rights and beside the private data. If you trust it, say so: allow_import=True (--allow-import)."
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
