"""Cells of private records that no teacher could use: made missing one by one, before anybody looks at all of them.

The door for rows (:mod:`pate.data._door`) refuses a column for one odd cell, which is right for public rows. Of private
ones a single record would then decide whether there is a release, or of what kind a column is in every shard.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import cell_kind
from pate.core.frames import plain_rows
from pate.core.types import Mask
from pate.data._columns import as_number, holds_numbers
from pate.data._door import is_frame, is_sparse


def private_cells(X: Any, *, texts: bool, like: Any = None, finite: bool = False) -> tuple[Any, Mask]:
    """Return private rows as the door takes them, and which of them it could have taken.

    ``texts``: whether texts among numbers may be of use; if not, they are missing numbers. What columns of ``like``,
    public rows, hold is what these should. ``finite``: whether infinity counts as missing. Rows are as given where no
    cell is odd.
    """
    X, like = plain_rows(X), plain_rows(like, name="X_public")
    if is_sparse(X):
        return finite_sparse(X) if finite else (X, np.ones(X.shape[0], dtype=bool))
    if is_frame(X):
        return _frame(X, texts, like, finite)
    if not hasattr(X, "dtype"):
        X = _listed(X, _columns_of(like), texts=is_texts_column(like))
    elif hasattr(X, "iloc") and getattr(X.dtype, "kind", "O") == "O":  # a Series, of texts
        X = X.to_numpy(dtype=object)
    if finite and (not hasattr(X, "dtype") or isinstance(X, np.ma.MaskedArray)):
        X = _finite(X)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind == "O":
        mask, X = np.ma.getmaskarray(X), X.data.copy()
        X[mask] = None
    if not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray) or not X.ndim:
        return X, np.ones(len(X) if hasattr(X, "__len__") else 0, dtype=bool)
    if X.dtype.kind == "f" and finite and np.isinf(X).any():
        return np.where(np.isinf(X), np.nan, X), np.ones(len(X), dtype=bool)
    if X.dtype.kind != "O":
        return X, np.ones(len(X), dtype=bool)
    if X.ndim == 1:
        return _texts(X, known=is_texts_column(like))
    if like is not None and getattr(like, "dtype", np.dtype(object)).kind in "biuf":
        texts = False
    rows, readable = X.reshape(len(X), -1).copy(), np.ones(len(X), dtype=bool)
    for j in range(rows.shape[1]):
        rows[:, j], fine = _column(rows[:, j], texts, finite)
        readable &= fine
    return rows.reshape(X.shape), readable


def _finite(X: Any) -> Any:
    """Return lists of numbers, or a masked array of them, with NaN in place of infinity; what holds none as it is."""
    rows = np.asarray(X.data if isinstance(X, np.ma.MaskedArray) else X)
    if rows.dtype.kind != "f" or not np.isinf(rows).any():
        return X
    rows = np.where(np.isinf(rows), np.nan, rows)
    return np.ma.array(rows, mask=np.ma.getmaskarray(X)) if isinstance(X, np.ma.MaskedArray) else rows


def _columns_of(like: Any) -> int | None:
    """Return how many columns public rows have, where they have more than one."""
    if isinstance(like, list | tuple) and like and all(isinstance(row, list | tuple) for row in like):
        width = len(like[0])
    else:
        shape = tuple(getattr(like, "shape", ()))
        width = int(shape[1]) if len(shape) == 2 else 0
    return width if width > 1 else None


def is_texts_column(like: Any) -> bool:
    """Whether public rows are texts, one a row."""
    one = like is not None and not is_frame(like) and not is_sparse(like) and np.ndim(next(iter(like), ())) == 0
    return bool(one) and any(isinstance(cell, str) for cell in like)


def finite_sparse(X: Any) -> tuple[Any, Mask]:
    """Return sparse rows with nothing in place of numbers that are not finite, and which rows had none of those."""
    rows = X.tocsr()
    if rows.dtype.kind != "f" or np.isfinite(rows.data).all():
        return rows, np.ones(rows.shape[0], dtype=bool)
    rows = rows.copy()
    odd = ~np.isfinite(rows.data)
    rows.data[odd] = 0.0
    return rows, np.bincount(
        np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[odd], minlength=rows.shape[0]
    ) == 0


def _listed(X: Any, width: int | None = None, *, texts: bool = False) -> Any:
    """Return lists as an array, of objects unless all cells are real numbers; a row of odd length is all missing.

    Where ``width`` is told, by public rows, no private one decides it, nor that rows are texts; nor where ``texts`` is.
    Else most of them do.
    """
    if texts or (width is None and 2 * sum(isinstance(cell, str) for cell in X) > len(X)):
        return _as_they_are(X)
    try:
        rows = np.asarray(X)
        if rows.ndim < 2 and width is not None:
            raise ValueError
        return np.array(X, dtype=object) if rows.dtype.kind in "USOc" else X
    except ValueError:
        pass
    given = list(X)
    lengths = [len(row) if isinstance(row, list | tuple | np.ndarray) else -1 for row in given]
    if width is None:
        width = Counter(lengths).most_common(1)[0][0]
    if width < 1:
        return X
    rows = np.full((len(given), width), None, dtype=object)
    for i, row in enumerate(given):
        if lengths[i] == width:
            for j, cell in enumerate(row):
                rows[i, j] = cell
    return rows


def _as_they_are(X: Any) -> npt.NDArray[np.object_]:
    cells = np.empty(len(X), dtype=object)
    for i, cell in enumerate(X):
        cells[i] = cell
    return cells


def _texts(X: npt.NDArray[Any], *, known: bool = False) -> tuple[Any, Mask]:
    readable = np.array([isinstance(cell, str) for cell in X], dtype=bool)
    if not known and not readable.any():
        return X, np.ones(len(X), dtype=bool)
    texts = X.copy()
    texts[~readable] = ""
    return texts, readable


def _column(cells: npt.NDArray[Any], texts: bool, finite: bool) -> tuple[npt.NDArray[Any], Mask]:
    kinds = np.array([_kind(cell) for cell in cells.tolist()], dtype=object)
    number, text, missing = kinds == "number", kinds == "text", kinds == "missing"
    useful = number | text if texts else number
    found = cells.copy()
    found[~useful] = np.nan
    found[:] = [cell.real if isinstance(cell, complex) else cell for cell in found.tolist()]
    if finite:
        found[[bool(n) and not np.isfinite(float(cell)) for n, cell in zip(number, cells, strict=True)]] = np.nan
    # What is merely missing, an imputer may fill. Anything else was meant to say something.
    return found, np.asarray(useful | missing)


def useful_cell(cell: Any) -> tuple[bool, Any]:
    """Return whether a cell is a number, a text or missing, and it, None where it is none of them; by itself."""
    kind = _kind(cell)
    if kind not in ("number", "text", "missing"):
        return False, None
    return True, cell.real if isinstance(cell, complex) else cell


def _kind(cell: Any) -> str:
    kind = cell_kind(cell)
    if kind == "complex" and not cell.imag:
        return "number"
    if kind == "number" and isinstance(cell, int) and abs(cell) > sys.float_info.max:
        return "a whole number that no float holds"
    return kind


def _frame(X: Any, texts: bool, like: Any, finite: bool) -> tuple[Any, Mask]:
    import pandas as pd

    readable = np.ones(len(X), dtype=bool)
    changed: dict[int, Any] = {}
    for j, (name, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        column = X.iloc[:, j]
        if holds_numbers(kind):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan) if finite else np.zeros(0)
            if np.isinf(values).any():  # of pandas' and Arrow's own types too
                changed[j] = pd.Series(np.where(np.isinf(values), np.nan, values), index=X.index)
            continue
        complexes = isinstance(kind, np.dtype) and kind.kind == "c"
        if complexes:
            column, kind = column.astype(object), np.dtype(object)  # one cell makes a column complex
        if kind != np.dtype(object) and not isinstance(kind, pd.StringDtype):
            continue
        numbers = not texts or (is_frame(like) and name in like.columns and holds_numbers(like[name].dtype))
        cells = column.to_numpy(dtype=object)
        if numbers:  # a file gives its numbers as texts, when there is a text among them
            kinds = np.array([_kind(cell) for cell in cells.tolist()], dtype=object)
            read = np.array([as_number(cell) for cell in cells.tolist()])
            odd = np.isnan(read) & (kinds != "missing")
            changed[j] = pd.Series(np.where(np.isinf(read), np.nan, read) if finite else read, index=X.index)
            readable &= ~odd
            continue
        found, fine = _column(cells, texts, finite)
        if complexes or not fine.all():
            changed[j] = pd.Series(found, index=X.index, dtype=object)
            readable &= fine
    if changed:
        X = X.copy()
        for j, column in changed.items():
            X.isetitem(j, column)
    return X, readable
