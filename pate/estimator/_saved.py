"""A fitted classifier's public half as a file, and back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pate.estimator._by_dpsgd import VOTERS, ByDPSGD
from pate.model import Door, Manifest, ModelFile, check_model_path, damaged, read_model, write_model
from pate.recipes import MappedLinear, RecordModel
from pate.recipes._model import keep_linear, keep_record_model, made_of_linear, read_linear, read_record_model
from pate.recipes._model import made_of as made_of_ballots
from pate.statement.files import bind_released, bind_statement
from pate.statement.model import PrivacyStatement
from pate.students._kept import keep_student, made_of, read_student


def _writers(student: Any) -> tuple[str, Callable[[Any, Path], dict[str, Any]], Callable[[Any], tuple[str, ...]]]:
    """Return what kind of model a student is, what writes its parts, and what tells of them."""
    if isinstance(student, RecordModel):
        return "records", keep_record_model, made_of_ballots
    if isinstance(student, MappedLinear):
        return "dpsgd", keep_linear, made_of_linear
    return "student", keep_student, lambda one: (made_of(one),)


class SavedModel(ByDPSGD):
    """What :class:`pate.PATEClassifier` can keep: the student and its statement, never what ``fit`` saw; a mixin."""

    voters_: str
    _door: Door
    _measured_of: Any = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its statement to one file (docs/models.md); it may be passed on as the release may.

        Released statistics, public rows and what follows from them are in it: no private row, vote or teacher. Where
        there is a ledger, it notes the file's digest first, so that ``pate verify`` knows it.

        Parameters
        ----------
        path : path that ends in ``.pate``
            It must not exist.

        Raises
        ------
        InvalidInputError
            Another ending, a place that cannot be written to, or a student that no file can hold safely.
        RunFolderError
            It exists.
        """
        check_is_fitted(self, "student_")
        check_model_path(path)
        kind, keep, told_of = _writers(self.student_)
        with tempfile.TemporaryDirectory(prefix="pate-model-") as name:
            folder = Path(name)
            parts = keep(self.student_, folder)
            manifest = Manifest.of_classes(
                self.classes_,
                kind=kind,
                door=self._rows_taken(),
                made_of=told_of(self.student_),
                settings={"voters": self.voters_},
                parts=parts,
            )
            held = {part.name: part.read_bytes() for part in folder.iterdir()}
        ledger = self.ledger if self.statement_.ledger_releases else None
        statement = self.statement_
        if statement.measured is not None and self.measured_ is None:  # of another student than the one that is kept
            spoken = tuple(one for one in statement.doubts if one.kind != "below the commonest")
            statement = replace(statement, measured=None, doubts=spoken)
            bind_statement(statement, ledger)
        write_model(path, manifest, statement, held, before=partial(bind_released, ledger, ()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, module: Any = None) -> Self:
        """Read a classifier that was saved; nothing in the file is run, and nothing spent.

        It predicts the very same, and has ``classes_``, ``student_`` and ``statement_``; released labels are not kept.

        Parameters
        ----------
        path : path
        module : torch module, or list of them
            The architecture of each :class:`pate.representations.FromModule` in it; its weights come from the file.

        Raises
        ------
        InvalidInputError
            There is no such file, it is damaged, of another format or kind, its statement was altered, or it holds
            types that are not safe to build.
        """
        return cls._of_file(read_model(path), module=module)

    @classmethod
    def _of_file(cls, file: ModelFile, *, module: Any = None) -> Self:
        said = file.manifest
        if said.settings.get("voters") not in VOTERS[1:] or len(said.settings) != 1:
            raise damaged(file.path, "its settings are not a classifier's")
        with file.unpacked() as folder:
            if said.kind == "records":
                student: Any = read_record_model(folder, said.parts, said.classes, module=module)
            elif said.kind == "dpsgd":
                student = read_linear(folder, said.parts, module=module)
            else:
                student = read_student(folder, said.parts, module=module)
        return cls._of_student(student, said, file.statement)

    @classmethod
    def _of_student(cls, student: Any, said: Manifest, statement: PrivacyStatement) -> Self:
        """Return a classifier around a student that was taught elsewhere."""
        door, voters = said.door, said.settings["voters"]
        clf = cls(classes=said.classes, image_shape=door.image_shape).set_params(voters=voters)
        clf.classes_, clf.student_, clf.statement_, clf._door = said.class_array(), student, statement, door
        clf._measured_of, clf.voters_ = student, voters
        clf._texts, clf._objects = door.kind == "texts", door.mixed
        if door.n_features is not None:
            clf.n_features_in_ = door.n_features
        if door.columns is not None:
            clf.feature_names_in_ = np.asarray(door.names, dtype=object)
        return clf

    def _rows_taken(self) -> Door:
        """Return what a row is that the model takes."""
        if "_door" in self.__dict__:
            return self._door
        said = self._image_shape()  # images handed over as such say their shape themselves
        shape = None if said is None else tuple(int(side) for side in said)
        if self._texts:
            return Door(kind="texts")
        if self._kinds is not None and hasattr(self, "feature_names_in_"):
            kinds = {name: "numeric" if kind == "number" else "text" for name, kind in self._kinds.items()}
            columns = tuple((str(name), kinds[name]) for name in self.feature_names_in_)
            return Door(kind="table", n_features=int(self.n_features_in_), columns=columns, image_shape=shape)
        mixed = None if self._objects is None else bool(self._objects)
        return Door(kind="array", n_features=int(self.n_features_in_), mixed=mixed, image_shape=shape)
