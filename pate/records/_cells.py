"""Private records as rows of one width: how a record is read hangs on it and on public facts alone, never on others.

How many cells a row has, or that rows are texts, is told by the public map they go through; what holds all rows (a
list, an array's shape and type, a DataFrame's columns) is a public fact too. No cell, and no row's length, decides
anything about another record: not even in a column where no other record has a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.frames import plain_rows
from pate.core.types import Mask
from pate.data._door import is_frame, is_sparse
from pate.exceptions import InvalidInputError
from pate.teachers._cells import finite_sparse, useful_cell

#: Arrays of these types are read cell by cell.
_CELLS = "Oc"


def read_records(X: Any, width: int | None, name: str) -> tuple[Any, Mask]:
    """Return rows that can be taken by number, and which of them could be read.

    Parameters
    ----------
    X : rows
    width : int or None
        Public: how many cells a row has. None: rows are texts.
    name : str

    Returns
    -------
    rows
        DataFrames, sparse matrices and arrays of numbers as they are; objects (n, width), or (n,) texts.
    readable : bool array of shape (n,)
        False where a cell is neither number nor text nor missing, and for a row that is none of that width.

    Raises
    ------
    InvalidInputError
        It holds no rows.
    """
    X = plain_rows(X, name=name)
    if isinstance(X, np.ma.MaskedArray):
        if X.dtype.kind in "biuf":
            mask, X = np.ma.getmaskarray(X), X.data.astype(np.float64)
            X[mask] = np.nan
        else:
            X = np.ma.filled(X.astype(object), None)
    if is_sparse(X):
        return finite_sparse(X)
    if is_frame(X):
        return X, np.ones(X.shape[0], dtype=bool)
    if hasattr(X, "iloc"):  # a Series: what kind it is may hang on any cell
        X = X.astype(object).to_numpy()
    if not hasattr(X, "dtype"):
        X = _one_by_one(X, name)
    if not getattr(X, "ndim", 0):
        raise _no_rows(name)
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind not in "biuf":
        return _texts(X) if width is None else _rows(X, width)
    if not isinstance(X, np.ndarray) or X.dtype.kind not in _CELLS:
        return X, np.ones(X.shape[0], dtype=bool)
    flat = X.reshape(len(X), int(np.prod(X.shape[1:])))
    made, readable = np.full(flat.shape, None, dtype=object), np.ones(len(X), dtype=bool)
    for i, cells in enumerate(flat):
        readable[i] = _read(cells.tolist(), made[i])
    return made.reshape(X.shape), readable


def _one_by_one(X: Any, name: str) -> npt.NDArray[Any]:
    """Return an array (n,) of rows as they are; what only NumPy can read is an array."""
    if isinstance(X, str | bytes) or not (hasattr(X, "__array__") or hasattr(X, "__len__")):
        raise _no_rows(name)
    if hasattr(X, "__array__"):
        return np.asarray(X)
    given = list(X)
    rows = np.empty(len(given), dtype=object)
    for i, row in enumerate(given):
        rows[i] = row
    return rows


def _no_rows(name: str) -> InvalidInputError:
    return InvalidInputError(f"{name} must be rows: an array, a DataFrame, a sparse matrix, a list of rows or texts.")


def _texts(X: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Mask]:
    made, readable = np.full(len(X), "", dtype=object), np.zeros(len(X), dtype=bool)
    for i, cell in enumerate(X.tolist() if X.dtype.kind != "O" else X):
        if isinstance(cell, str):
            made[i], readable[i] = cell, True
    return made, readable


def _rows(X: npt.NDArray[Any], width: int) -> tuple[npt.NDArray[Any], Mask]:
    made, readable = np.full((len(X), width), None, dtype=object), np.zeros(len(X), dtype=bool)
    for i, row in enumerate(X):
        cells = _cells_of(row)
        if cells is not None and len(cells) == width:
            readable[i] = _read(cells, made[i])
    return made, readable


def _cells_of(row: Any) -> list[Any] | None:
    """Return the cells of one row; None where it is nothing of the kind."""
    if isinstance(row, list | tuple) and not any(hasattr(cell, "__len__") for cell in row):
        return list(row)
    if not isinstance(row, list | tuple) and not hasattr(row, "__array__"):
        return [row]
    try:  # whatever an odd row raises is its own matter
        if isinstance(row, np.ma.MaskedArray):
            row = np.ma.filled(row.astype(object), None)
        return list(np.array(row, dtype=object).ravel().tolist())
    except Exception:
        return None


def _read(cells: list[Any], into: npt.NDArray[Any]) -> bool:
    """Write what can be read of the cells, and return whether nothing was odd."""
    whole = True
    for j, cell in enumerate(cells):
        useful, into[j] = useful_cell(cell)
        whole = whole and useful
    return whole
