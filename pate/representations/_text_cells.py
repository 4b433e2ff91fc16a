"""Texts, and sparse rows, one at a time: a row that is none of either is an empty one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate.core.checks import quietly
from pate.core.frames import plain_rows
from pate.data._door import is_frame, is_sparse, is_texts, read_rows
from pate.exceptions import InvalidInputError
from pate.representations._cells import check_columns


@dataclass(frozen=True)
class TextCells:
    """How texts are read: one per row, and what is no text is an empty one."""

    n_features = 1

    @classmethod
    def learn(cls, X: Any) -> TextCells:
        """Look whether public rows are texts."""
        rows = read_rows(_column(X), name="X_public")
        if not is_texts(rows):
            raise InvalidInputError(
                "X_public must be texts, one per row, got a table. TableMap makes numbers of tables."
            )
        return cls()

    def read(self, X: Any) -> npt.NDArray[np.object_]:
        """Return an array of texts of shape (n,)."""
        return quietly("X", self._read, X)

    def _read(self, X: Any) -> npt.NDArray[np.object_]:
        column = _column(X)
        if is_frame(column) or is_sparse(column) or getattr(column, "ndim", 1) != 1 or isinstance(column, str):
            raise InvalidInputError("X must be texts, one per row, as the public rows are: a list, or one column.")
        cells = [str(cell) if isinstance(cell, str) else "" for cell in column]
        made = np.empty(len(cells), dtype=object)
        made[:] = cells
        return made

    def block(self, rows: npt.NDArray[np.object_], start: int, size: int) -> npt.NDArray[np.object_]:
        """Return ``size`` texts from ``start`` on; behind the last one stand empty ones."""
        made = np.full(size, "", dtype=object)
        part = rows[start : start + size]
        made[: len(part)] = part
        return made

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return nothing: there is nothing to keep."""
        return {}, {}

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> TextCells:
        """Return the reader."""
        return cls()


def _column(X: Any) -> Any:
    """Return the one column of a table that has no other."""
    X = plain_rows(X)
    if is_frame(X) and X.shape[1] == 1:
        return X.iloc[:, 0]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1 and X.dtype.kind in "OU":
        return X[:, 0]
    return X


@dataclass(frozen=True)
class SparseCells:
    """How sparse rows are read: a cell that is not finite is 0, and none counts beyond the largest public one.

    Attributes
    ----------
    n_features : int
    largest : float
        Of the public cells, whatever their sign.
    """

    n_features: int
    largest: float

    @classmethod
    def learn(cls, X: Any) -> SparseCells:
        """Learn from public rows."""
        rows = read_rows(X, name="X_public")
        if not is_sparse(rows):
            raise InvalidInputError("X_public must be a sparse matrix here.")
        data = np.abs(np.asarray(rows.data, dtype=np.float64))
        if not np.isfinite(data).all():
            raise InvalidInputError("X_public holds NaN or infinity. Fill them or drop those rows.")
        return cls(int(rows.shape[1]), float(data.max(initial=0.0)))

    def read(self, X: Any) -> Any:
        """Return a CSR array of float64 of shape (n, n_features)."""
        return quietly("X", self._read, X)

    def _read(self, X: Any) -> Any:
        if not is_sparse(X):
            raise InvalidInputError("X must be a sparse matrix, as the public rows are.")
        rows = sparse.csr_array(check_columns(X, None, self.n_features), dtype=np.float64, copy=True)
        rows.sum_duplicates()
        rows.data = np.clip(np.where(np.isfinite(rows.data), rows.data, 0.0), -self.largest, self.largest)
        rows.eliminate_zeros()
        return rows

    def block(self, rows: Any, start: int, size: int) -> Any:
        """Return ``size`` rows from ``start`` on; behind the last one stand empty ones."""
        part = rows[start : start + size]
        if part.shape[0] < size:
            part.resize(size, self.n_features)
        return part

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what :meth:`restore` takes: arrays, and what goes into JSON."""
        return {}, {"n_features": self.n_features, "largest": self.largest}

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> SparseCells:
        """Return the reader that :meth:`state` described."""
        return cls(int(words["n_features"]), float(words["largest"]))
