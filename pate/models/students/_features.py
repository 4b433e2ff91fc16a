"""A trained image student's features as a public map, in which records cast further ballots."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pate._core.checks import shown
from pate._core.tensors import load_tensors, save_tensors
from pate.exceptions import InvalidInputError
from pate.models.students._image import ImageStudent, refuse_private
from pate.records import is_own
from pate.representations import digest_of, one_sign
from pate.representations.images import ImageCells, ImageMap

#: Principal components of the input of the network's last layer.
_COMPONENTS = 64
#: Neighbours, the image itself among them, whose mean prediction the next generation is trained on.
_NEIGHBOURS = 6
#: The least probability of a class, as students are overconfident.
_LEAST = 1e-3


@dataclass(repr=False, eq=False)
class StudentFeatures(ImageMap):
    """Public features of images by a student: the largest components of its last features, then its logits.

    ``fit`` trains the student on the public images and ``targets`` first. A row's features depend on that row, its
    place in its block and public numbers alone.

    Each of ``students`` is a generation: each but the first is trained from scratch on the mean prediction of the one
    before for an image and its neighbours in feature space. This does not correct labels that are wrong for whole
    neighbourhoods, but does not repeat the first student's own mistakes (Furlanello et al., ICML 2018; MNIST at epsilon
    .05: 98.2% right with one, 98.8% with two). ``targets`` (n_public, n_classes) are probabilities, released or made
    from released values.
    """

    students: Any = None
    targets: Any = None
    _: KW_ONLY
    image_shape: Any = None

    _passing: ClassVar[tuple[str, ...]] = ("students", "targets")
    _block_rows = 512

    @property
    def own_(self) -> bool:
        """Whether the student is pate's own code throughout; other networks may mix the rows of a block."""
        student = getattr(self, "student_", None)
        if student is None or not isinstance(student.network, str) or student.init is not None:
            return False
        return is_own(student, ".models.students") and any(
            is_own(student.network_, r) for r in (".models.students", ".networks")
        )

    def _check(self) -> None:
        if not self._generations() or not all(isinstance(s, ImageStudent) for s in self._generations()):
            raise InvalidInputError(f"students must be pate.models.students.ImageStudent, got {shown(self.students)}.")
        refuse_private("targets", self.targets)

    def _generations(self) -> list[Any]:
        return list(self.students) if isinstance(self.students, list | tuple) else [self.students]

    def _learn(self, rows: npt.NDArray[Any]) -> None:
        from sklearn.base import clone
        from sklearn.neighbors import NearestNeighbors

        shape = self._shape()
        images = self._all_images(rows)
        targets = np.asarray(self.targets, dtype=np.float64)
        generations, self.resumed_ = self._generations(), False
        for i, student in enumerate(generations):
            self.student_: ImageStudent = clone(student).set_params(image_shape=shape).fit(images, targets)
            self.resumed_ |= self.student_.resumed_
            seen = _unit(self.student_._last_features(images))
            if i + 1 < len(generations):
                near = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(seen)), algorithm="brute").fit(seen)
                near_by = np.sort(near.kneighbors(seen, return_distance=False), axis=1)
                targets = self.student_.predict_proba(images)[near_by].mean(axis=1)
        self._mean = seen.mean(axis=0)
        _, axes = np.linalg.eigh(np.cov(seen.T.astype(np.float64)))
        axes = axes[:, ::-1][:, : min(_COMPONENTS, seen.shape[1])]
        self._axes = one_sign(axes).astype(np.float32)
        self.n_features_out_ = self._axes.shape[1] + len(self.student_.classes_)

    def _map(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        images = self._images(block)
        logits = np.log(np.maximum(self.student_.predict_proba(images), _LEAST))
        return np.concatenate([(_unit(self.student_._last_features(images)) - self._mean) @ self._axes, logits], axis=1)

    def _settings(self) -> dict[str, Any]:
        return {"image_shape": self.image_shape}

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        weights = {f"student/{k}": v.detach().cpu().numpy() for k, v in self.student_.network_.state_dict().items()}
        seen_as = {name: getattr(self.student_, name) for name in ("augmentation", "flip", "average_views")}
        return weights | {"mean": self._mean, "axes": self._axes}, {"image_shape": list(self.image_shape_), **seen_as}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        raise ValueError("a student has its own file")

    def _provenance(self) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self.student_.targets_).tobytes()).hexdigest()[:12]
        return f"a student of {self.n_public_:,} public images and of what was released before ({digest})"


def _unit(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return rows of length 1; zero rows stay."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), dtype=np.float32)


# Files of a student's features: the student itself, and the map.

_FORM = "student features 1"
_STUDENT, _FEATURES = "student.safetensors", "features.safetensors"


def keep_features(seen: StudentFeatures, folder: Path) -> None:
    """Write the features of a student into a folder, without its training data."""
    if not seen.own_:
        raise InvalidInputError(
            "a student with a network of your own cannot be saved in a model file, which holds no code. Name the "
            "network."
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
    """Return the features that :func:`keep_features` wrote."""
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
        raise InvalidInputError("the student's features are not those that were saved. Fetch the file again.")
    return seen
