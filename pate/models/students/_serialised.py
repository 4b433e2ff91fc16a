"""Save fitted students without pickle, and read them without running or trusting anything in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from pate._core.estimators import canonical_bytes, pack_estimator, unpack_estimator
from pate.exceptions import InvalidInputError
from pate.models.students._image import ImageStudent
from pate.representations import Representation, load
from pate.teachers.checkpoints import TRUSTED_TYPES

#: Types that may be read: those trusted in teachers, and this package's own.
TYPES = (
    *TRUSTED_TYPES,
    "pate.data.encoding.TableEncoder",
    # A file of an older version names the former module.
    *(f"pate.{of}._spreading.{n}" for of in ("models.students", "students") for n in ("LabelSpreads", "VoteSpreading")),
)
_SKOPS, _IMAGE, _MAP = "student.skops", "student.safetensors", "representation.safetensors"


def keep_student(student: Any, folder: Path) -> dict[str, Any]:
    """Write a fitted student into a folder, and return the facts that :func:`read_student` needs besides.

    The student is scikit-learn's or this package's own, or a pipeline of a public representation and one of those.
    """
    if isinstance(student, Pipeline) and isinstance(student.steps[0][1], Representation) and len(student.steps) == 2:
        student.steps[0][1].save(folder / _MAP)
        return {"mapped": keep_student(student.steps[1][1], folder)}
    if isinstance(student, ImageStudent):
        if not isinstance(student.network, str) or student.init is not None:
            raise InvalidInputError(
                "an ImageStudent with a network of your own cannot be saved in a model file, which holds no code. Save "
                "its weights with student_.save(...), or name the network."
            )
        student.save(folder / _IMAGE)
        return {"student": "image"}
    data = pack_estimator(
        student,
        trusted=TYPES,
        refusal=f"a {type(student).__name__} cannot be saved in a model file",
        remedy="Name another student, made of scikit-learn's own parts.",
    )
    (folder / _SKOPS).write_bytes(canonical_bytes(data))
    return {"student": "skops"}


def read_student(folder: Path, facts: Any, *, module: Any = None) -> Any:
    """Return the student that :func:`keep_student` wrote.

    Refused: types that are not safe to build, and trees with nodes or columns out of range.
    """
    if "mapped" in facts:
        return Pipeline(
            [("representation", load(folder / _MAP, module=module)), ("student", read_student(folder, facts["mapped"]))]
        )
    if facts["student"] == "image":
        return ImageStudent.load(folder / _IMAGE)
    problem = ""
    try:
        return unpack_estimator((folder / _SKOPS).read_bytes(), trusted=TYPES)
    except Exception as error:  # skops names types; a damaged file may raise any
        problem = f"skops refuses it ({type(error).__name__})"
    raise InvalidInputError(
        f"the student cannot be built: {problem}. It holds types that are not safe to read, or is damaged"
    )


def made_of(student: Any) -> str:
    """Return the class names of a student and its steps, in a line."""
    if isinstance(student, Pipeline):
        return ", ".join(made_of(step) for _, step in student.steps)
    return type(student).__name__
