"""Rows given to an estimator that has teachers inside: at its door as at theirs."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import validate_data

from pate.core.checks import check_classes, check_labels, check_no_amounts, quietly
from pate.core.frames import plain_column, plain_rows
from pate.core.types import Mask
from pate.data._cells import private_cells
from pate.data._door import by_name, check_same_shape, flat_rows, image_shape, read_numbers, read_rows
from pate.exceptions import InvalidInputError, PrivacyLeakWarning
from pate.teachers._base import ReadRows, ShardEnsemble
from pate.teachers._rows import (
    as_floats,
    check_rows,
    check_same_kind,
    column_kinds,
    copy_input_tags,
    holds_objects,
    is_frame,
    is_texts,
    match_columns,
    takes,
    takes_missing,
)
from pate.teachers._usable import complete_rows, flat_labels, label_column

# Ensembles whose teachers take rows as a scikit-learn estimator does: tables, sparse rows, texts.


class TableTeachers(ShardEnsemble):
    """The rows of an ensemble that are those of some estimator; abstract."""

    feature_names_in_: npt.NDArray[np.object_]

    @property
    @abstractmethod
    def _reader(self) -> Any:
        """The estimator (a classifier, a transformer) whose rows these are."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        copy_input_tags(self._reader, tags)
        return tags

    def _private_rows(self, X: Any, like: Any) -> tuple[Any, Mask]:
        X, readable = private_cells(X, texts=takes("string", self._reader), like=like)
        rows = check_rows(X, estimator=self._reader, whole=False)
        if takes_missing(self._reader) or is_texts(rows):
            return as_floats(rows), readable
        return as_floats(rows), readable & complete_rows(rows)

    def _public_rows(self, X: Any) -> tuple[Any, Any]:
        X, n_features = read_rows(X), getattr(self, "n_features_in_", None)
        check_same_shape(image_shape(X), self._row_shape)
        if is_texts(X):  # texts for teachers of tables: that is what is wrong with them
            X = match_columns(X, self._columns, n_features)
        X = check_rows(X, estimator=self._reader)
        matched = match_columns(X, self._columns, n_features)
        return matched, X

    def _set_columns(self, X: Any, given: Any) -> None:
        self.__dict__.pop("n_features_in_", None)
        self._row_shape = image_shape(given)
        if not is_texts(X):
            self.n_features_in_ = int(X.shape[1])
        self._columns = column_kinds(X)
        self.__dict__.pop("feature_names_in_", None)
        if self._columns is not None and all(isinstance(c, str) for c in self._columns):
            self.feature_names_in_ = np.asarray(list(self._columns), dtype=object)


class TeachersRows(BaseEstimator):
    """What :class:`pate.PATEClassifier` checks of the rows and labels that it is given; a mixin."""

    estimator: Any = None
    #: Shape of one public row where rows are images: public.
    _row_shape: tuple[int, ...] | None = None

    def _check_private(self, X: Any, y: Any, teachers: ShardEnsemble, like: Any = None) -> tuple[ReadRows, Any]:
        """Return private rows, read once, and labels for the teachers, and set ``classes_``.

        With public classes no record decides whether there is an error: what cannot be used is left to the teachers'
        :meth:`~pate.teachers.ShardEnsemble.fit`. Without them all records decide anyway, and the curator was warned.
        """
        check_has_target(y)
        strict = teachers.classes is None
        X = plain_rows(X)
        check_same_shape(image_shape(X) if hasattr(X, "shape") else None, self._row_shape)
        read = quietly("X", teachers.read_private, _teachers_rows(X, "X", teachers) if strict else X, like)
        rows = read.rows
        check_several(rows)
        self._check_names(rows, reset=True)
        return read, self._check_target(y, rows.shape[0], teachers)

    def _check_target(self, y: Any, n_records: int, teachers: ShardEnsemble) -> Any:
        """Return labels, and set ``classes_``."""
        strict, y = teachers.classes is None, plain_column(y)
        y, _ = flat_labels(y, strict=strict)
        if not strict:
            self._check_classes(y, n_records, teachers)
            return y
        labels = check_labels("y", y, n_records)
        if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
            raise _continuous()
        warnings.warn(
            "classes= was not given, so the set of classes is taken from the private y and becomes public with "
            "the labels. Name every possible class in classes=.",
            PrivacyLeakWarning,
            stacklevel=4,
        )
        self.classes_: Any = quietly("y", np.unique, labels)
        check_no_amounts("y", self.classes_.tolist(), n_records)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "y has only one class; a classifier needs at least two. Check the target, or name all in classes=."
            )
        return labels

    def _check_classes(self, y: Any, n_records: int, teachers: ShardEnsemble) -> None:
        """Set ``classes_``, and refuse labels that are not one for each record."""
        values = check_classes(teachers.classes)
        self.classes_ = np.array(values, dtype=None if len({type(v) for v in values}) == 1 else object)
        label_column(y, n_records)

    def _check_public(self, X_public: Any, teachers: ShardEnsemble, *, reset: bool = False) -> Any:
        X_public = plain_rows(X_public, name="X_public")
        shape = image_shape(X_public, name="X_public")
        if reset:
            self._row_shape = shape
        check_same_shape(shape, self._row_shape, name="X_public")
        if not reset:
            names = self._names()
            if names is not None and not is_frame(X_public):
                raise InvalidInputError(
                    "X_public must be a DataFrame, as the private rows are: columns are told apart by name. Pass one "
                    "with the columns of X."
                )
            X_public = by_name(X_public, names, name="X_public", other="the private rows")
        rows = _teachers_rows(X_public, "X_public", teachers)
        self._check_names(rows, reset=reset, kinds=False)
        self._objects = holds_objects(
            rows
        )  # public ones say what rows are to be like: any private cell might be a text
        return rows

    def _check_rows(self, X: Any, student: Any) -> Any:
        X = plain_rows(X)
        check_same_shape(image_shape(X), self._row_shape)
        rows = check_rows(by_name(X, self._names()), estimator=student)
        self._check_names(rows, reset=False)
        return rows

    def _names(self) -> Any:
        """Return the columns that are remembered; None where they have no names."""
        return getattr(self, "feature_names_in_", None)

    def _check_names(self, rows: Any, *, reset: bool, kinds: bool = True) -> None:
        """Remember columns, or see that they are those that are remembered, and with ``kinds`` as many numbers."""
        if reset:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            self._texts, self._objects = is_texts(rows), holds_objects(rows)
        if is_texts(rows) != self._texts:
            raise InvalidInputError(
                "private and public rows must be of one kind: some are texts, the others a table. Pass both alike."
            )
        if kinds:
            check_same_kind(rows, objects=self._objects)
        if is_texts(rows):
            return
        problem = ""
        try:
            validate_data(self, flat_rows(rows), reset=reset, skip_check_array=True)
        except (TypeError, ValueError) as error:  # about names and numbers of columns, which are public
            problem = str(error)
        if problem:
            raise InvalidInputError(problem)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        teachers = LogisticRegression() if self.estimator is None else self.estimator
        copy_input_tags(teachers, tags)
        return tags


def check_has_target(y: Any) -> None:
    """Refuse to learn from nothing."""
    if y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None. Pass the private classes.")


def check_several(rows: Any) -> None:
    """Refuse one record."""
    if rows.shape[0] < 2:
        raise InvalidInputError("X has 1 sample, and there is nothing to learn from one record. Pass them all.")


def _teachers_rows(X: Any, name: str, teachers: ShardEnsemble) -> Any:
    if isinstance(teachers, TableTeachers):
        return check_rows(X, estimator=teachers._reader, name=name)
    rows = read_numbers(X, name=name)
    return X if is_frame(X) else rows


def _continuous() -> InvalidInputError:
    return InvalidInputError(
        "Unknown label type: continuous. y must hold class values, and it holds fractions: that is regression. Cut it "
        "into classes."
    )
