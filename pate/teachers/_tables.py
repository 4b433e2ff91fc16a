"""Ensembles whose teachers take rows as a scikit-learn estimator does: tables, sparse rows, texts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.types import Mask
from pate.data._door import check_same_shape, image_shape, read_rows
from pate.teachers._base import ShardEnsemble
from pate.teachers._cells import private_cells
from pate.teachers._rows import (
    as_floats,
    check_rows,
    column_kinds,
    copy_input_tags,
    is_texts,
    match_columns,
    takes,
    takes_missing,
)
from pate.teachers._usable import complete_rows


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
