"""What a trained image student sees, as files: the student itself, and the map of its features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pate.core.tensors import load_tensors, save_tensors
from pate.exceptions import InvalidInputError
from pate.representations._packing import digest_of
from pate.representations.images._cells import ImageCells
from pate.students._features import StudentFeatures
from pate.students._image import ImageStudent

_FORM = "student features 1"
_STUDENT, _FEATURES = "student.safetensors", "features.safetensors"


def keep_features(seen: StudentFeatures, folder: Path) -> None:
    """Write the features of a student into a folder; nothing of its training is kept."""
    if not seen.own_:
        raise InvalidInputError(
            "a student with a network of your own cannot be kept in a model file: it holds no code."
        )
    seen.student_.save(folder / _STUDENT)
    arrays, words = seen.cells_.state()
    facts = {
        "cells": words,
        "image_shape": None if seen.image_shape is None else list(seen.image_shape),
        "shape": list(seen.image_shape_),
        "n_public": seen.n_public_,
        "n_features_out": seen.n_features_out_,
        "provenance": seen.provenance_,
        "fingerprint": seen.fingerprint(),
    }
    made = {f"cells/{name}": array for name, array in arrays.items()}
    save_tensors(folder / _FEATURES, made | {"mean": seen._mean, "axes": seen._axes}, facts, form=_FORM)


def read_features(folder: Path) -> StudentFeatures:
    """Return the features that :func:`keep_features` wrote.

    Raises
    ------
    InvalidInputError
        They are not what was written.
    """
    arrays, facts = load_tensors(folder / _FEATURES, form=_FORM)
    shape: Any = facts["image_shape"]
    seen = StudentFeatures(image_shape=None if shape is None else tuple(shape))
    seen.student_, seen.resumed_ = ImageStudent.load(folder / _STUDENT), True
    cells = {name.removeprefix("cells/"): a for name, a in arrays.items() if name.startswith("cells/")}
    seen.cells_ = ImageCells.restore(cells, facts["cells"])
    seen._named()
    seen.image_shape_ = tuple(facts["shape"])
    seen._mean, seen._axes = arrays["mean"], arrays["axes"]
    seen.n_public_, seen.n_features_out_ = int(facts["n_public"]), int(facts["n_features_out"])
    seen.provenance_ = str(facts["provenance"])
    if digest_of(seen) != facts["fingerprint"]:
        raise InvalidInputError("the student's features do not give back what they say.")
    return seen
