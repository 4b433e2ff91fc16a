"""Private rows, cell by cell: what becomes of a cell hangs on it and on public facts alone, never on another record.

The door for rows (:mod:`pate.data._door`) refuses a column for one odd cell, which is right for public rows. Of private
ones a single record would then decide whether there is a release, or of what kind a column is in every shard. So odd
cells are made missing here, before anybody looks at all of them: :func:`private_cells` reads rows as estimators take
them, :func:`read_records` rows of a public width, :func:`read_cells` those whose odd cells a public map stands in for.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import CellKindError, cell_kind
from pate.core.frames import plain_rows
from pate.core.types import Mask
from pate.data._columns import as_number, holds_numbers, missing_in, numbers_of
from pate.data._door import is_frame, is_sparse
from pate.data.schema import NUMERIC, Schema, schema_like
from pate.exceptions import CuratorWarning, InvalidInputError


def private_cells(X: Any, *, texts: bool, like: Any = None, finite: bool = False) -> tuple[Any, Mask]:
    """Return private rows as the door takes them, and which of them it could have taken.

    ``texts``: whether texts among numbers may be of use; if not, they are missing numbers. What columns of ``like``
    (public rows, a schema) hold is what these should. ``finite``: whether infinity counts as missing. Rows are as given
    where no cell is odd.
    """
    X, schema = plain_rows(X), schema_like(like)
    if is_sparse(X):
        return finite_sparse(X) if finite else (X, np.ones(X.shape[0], dtype=bool))
    if is_frame(X):
        return _frame(X, texts, schema, finite)
    if not hasattr(X, "dtype"):
        X = _listed(X, schema)
    elif hasattr(X, "iloc") and getattr(X.dtype, "kind", "O") == "O":  # a Series, of texts
        X = X.to_numpy(dtype=object)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "biufO":
        X = _filled(X)
    if not isinstance(X, np.ndarray) or not X.ndim:
        return X, np.ones(len(X) if hasattr(X, "__len__") else 0, dtype=bool)
    if X.dtype.kind == "f" and finite and np.isinf(X).any():
        X = np.where(np.isinf(X), np.nan, X)
    if X.dtype.kind != "O":
        return X, np.ones(len(X), dtype=bool)
    if X.ndim == 1:
        found, readable = _texts(X)
        known = _of_texts(schema) or readable.any()
        return (found, readable) if known else (X, np.ones(len(X), dtype=bool))
    numbers = schema is not None and all(kind == NUMERIC for kind in schema.kinds.values())
    return _objects(X, texts=texts and not numbers, finite=finite)


def _of_texts(schema: Schema | None) -> bool:
    return schema is not None and schema.rows == "texts"


def read_records(X: Any, width: int | None, name: str) -> tuple[Any, Mask]:
    """Return rows that can be taken by number, and which of them could be read.

    ``width`` is public: how many cells a row has; None where rows are texts. DataFrames, sparse matrices and arrays of
    numbers stay as they are, others become objects (n, width), or texts (n,). A row is not readable that has a cell
    which is neither number nor text nor missing, or another width.
    """
    X = plain_rows(X, name=name)
    if isinstance(X, np.ma.MaskedArray):
        X = _filled(X)
    if is_sparse(X):
        return finite_sparse(X)
    if is_frame(X):
        return X, np.ones(X.shape[0], dtype=bool)
    if hasattr(X, "iloc"):  # a Series: what kind it is may hang on any cell
        X = X.astype(object).to_numpy()
    if not hasattr(X, "dtype"):  # an array (n,) of rows as they are; what only NumPy can read is an array
        lists = not isinstance(X, str | bytes) and hasattr(X, "__len__")
        X = np.asarray(X) if hasattr(X, "__array__") else np.fromiter(X, object, count=len(X)) if lists else None
    if not getattr(X, "ndim", 0):
        raise InvalidInputError(
            f"{name} must be rows: an array, a DataFrame, a sparse matrix, a list of rows or texts."
        )
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind not in "biuf":
        return _texts(X) if width is None else _of_width(X, width)
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "Oc":
        return X, np.ones(X.shape[0], dtype=bool)
    return _objects(X.astype(object))


def read_cells(X: Any, n_features: int) -> Any:
    """Return private or public rows as a DataFrame or an array of shape (n, n_features), cells as they are.

    A list is taken row by row: one of another length is a row without any cell. Refuses no rows, and a type of all
    cells that is neither number nor text (dates).
    """
    X = plain_rows(X)
    if is_frame(X):
        return X
    if is_sparse(X):
        raise InvalidInputError("X must be dense here, got a sparse matrix. Pass X.toarray(), or reduce it first.")
    if isinstance(X, list | tuple):
        rows = [row if isinstance(row, list | tuple | np.ndarray) else () for row in X]
        return _of_width(rows, n_features)[0]
    if not hasattr(X, "__array__"):
        raise InvalidInputError(
            f"X must be rows: a DataFrame or an array of shape (n, n_features), got {type(X).__name__}."
        )
    found = np.asarray(_filled(X) if isinstance(X, np.ma.MaskedArray) else X)
    if found.ndim < 2:
        raise InvalidInputError(
            f"X must have shape (n, {n_features}), got {found.ndim} dimension(s). A single row is X.reshape(1, -1)."
        )
    if found.dtype.kind not in "biufOU":
        raise CellKindError(f"X holds values of dtype {found.dtype}, which are neither numbers nor texts.")
    return found if found.ndim == 2 else found.reshape(len(found), int(np.prod(found.shape[1:])))


def finite_sparse(X: Any) -> tuple[Any, Mask]:
    """Return sparse rows with nothing in place of numbers that are not finite, and which rows had none of those."""
    rows = X.tocsr()
    if rows.dtype.kind != "f" or np.isfinite(rows.data).all():
        return rows, np.ones(rows.shape[0], dtype=bool)
    rows = rows.copy()
    odd = ~np.isfinite(rows.data)
    rows.data[odd] = 0.0
    of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[odd]
    return rows, np.bincount(of, minlength=rows.shape[0]) == 0


def _filled(X: Any) -> npt.NDArray[Any]:
    """Return a masked array as a plain one in which masked cells are missing: float64, or objects."""
    found = X.data.astype(np.float64 if X.dtype.kind in "biuf" else object)
    found[np.ma.getmaskarray(X)] = np.nan if found.dtype.kind == "f" else None
    return found


def _listed(X: Any, schema: Schema | None) -> npt.NDArray[Any]:
    """Return lists as an array, of objects unless all cells are real numbers; a row of odd length is all missing.

    Where public rows tell the width, or that rows are texts, no private one decides it. Else most of them do.
    """
    width = None if schema is None or len(schema.columns) < 2 else len(schema.columns)
    if _of_texts(schema) or (width is None and 2 * sum(isinstance(cell, str) for cell in X) > len(X)):
        return np.fromiter(X, dtype=object, count=len(X))
    try:
        rows = np.asarray(X)
        if rows.ndim < 2 and width is not None:
            raise ValueError
        return np.array(
            X, dtype=object if rows.dtype.kind in "USOc" else np.float64 if rows.dtype.kind in "biu" else None
        )
    except ValueError:
        pass
    lengths = [len(row) if isinstance(row, list | tuple | np.ndarray) else -1 for row in X]
    if width is None:
        width = Counter(lengths).most_common(1)[0][0]
    if width < 1:
        return X
    rows = np.full((len(lengths), width), None, dtype=object)
    for i, row in enumerate(X):
        if lengths[i] == width:
            for j, cell in enumerate(row):
                rows[i, j] = cell
    return rows


def _of_width(X: Any, width: int) -> tuple[npt.NDArray[Any], Mask]:
    """Return rows of any kind as objects of shape (n, width), and which of them had so many cells, none of them odd."""
    made, whole = np.full((len(X), width), None, dtype=object), np.zeros(len(X), dtype=bool)
    for i, row in enumerate(X):
        cells = _cells_of(row)
        if cells is not None and len(cells) == width:
            made[i], whole[i] = np.fromiter(cells, dtype=object, count=width), True
    rows, readable = _objects(made)
    return rows, readable & whole


def _cells_of(row: Any) -> list[Any] | None:
    """Return the cells of one row; None where it is nothing of the kind."""
    if isinstance(row, list | tuple) and not any(hasattr(cell, "__len__") for cell in row):
        return list(row)
    if not isinstance(row, list | tuple) and not hasattr(row, "__array__"):
        return [row]
    try:  # whatever an odd row raises is its own matter
        row = _filled(row) if isinstance(row, np.ma.MaskedArray) else row
        return list(np.array(row, dtype=object).ravel().tolist())
    except Exception:
        return None


def _texts(X: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Mask]:
    """Return cells as texts, empty where one is none, and which are."""
    cells = X.tolist() if X.dtype.kind != "O" else list(X)
    readable = np.fromiter((isinstance(cell, str) for cell in cells), dtype=bool, count=len(cells))
    return np.fromiter((c if isinstance(c, str) else "" for c in cells), dtype=object, count=len(cells)), readable


def _objects(X: npt.NDArray[Any], *, texts: bool = True, finite: bool = False) -> tuple[npt.NDArray[Any], Mask]:
    """Return an array of objects with its cells read, and which rows had no odd one."""
    found = [_read(cell, texts, finite) for cell in X.ravel().tolist()]
    rows: npt.NDArray[Any] = np.fromiter((cell for cell, _ in found), dtype=object, count=X.size)
    fine = np.fromiter((useful for _, useful in found), dtype=bool, count=X.size)
    return rows.reshape(X.shape), np.asarray(fine.reshape(len(X), int(np.prod(X.shape[1:]))).all(axis=1))


def _read(cell: Any, texts: bool = True, finite: bool = False) -> tuple[Any, bool]:
    """Return a cell, NaN where it is of no use, and whether it is a number, a text (of use) or missing; by itself."""
    kind = cell_kind(cell)
    if kind == "missing":  # what is merely missing, an imputer may fill; anything else was meant to say something
        return cell, True
    if kind == "text":
        return (cell, True) if texts else (np.nan, False)
    if kind == "complex" and not cell.imag:
        kind, cell = "number", cell.real
    number = as_number(cell) if kind == "number" else np.nan  # a whole number may be too long for a float
    if np.isnan(number):
        return np.nan, False
    return (np.nan if finite and np.isinf(number) else cell), True


def _frame(X: Any, texts: bool, schema: Schema | None, finite: bool) -> tuple[Any, Mask]:
    import pandas as pd

    kinds = {} if schema is None or schema.rows != "table" else schema.kinds
    readable = np.ones(len(X), dtype=bool)
    changed: dict[int, Any] = {}
    for j, (name, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        column = X.iloc[:, j]
        if holds_numbers(kind):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan) if finite else np.zeros(0)
            if np.isinf(values).any():  # of pandas' and Arrow's own types too
                changed[j] = pd.Series(np.where(np.isinf(values), np.nan, values), index=X.index)
            continue
        complexes = isinstance(kind, np.dtype) and kind.kind == "c"  # one cell makes a column complex
        if not complexes and kind != np.dtype(object) and not isinstance(kind, pd.StringDtype):
            continue
        cells = column.astype(object).to_numpy() if complexes else column.to_numpy(dtype=object)
        # A file gives its numbers as texts, when there is a text among them.
        if not texts or kinds.get(str(name)) == NUMERIC:
            read = numbers_of(cells.tolist())
            readable &= ~np.isnan(read) | missing_in(cells.tolist())
            changed[j] = pd.Series(np.where(np.isinf(read), np.nan, read) if finite else read, index=X.index)
            continue
        found, fine = _objects(cells)
        if complexes or not fine.all():
            changed[j] = pd.Series(found, index=X.index, dtype=object)
            readable &= fine
    if changed:
        X = X.copy()
        for j, column in changed.items():
            X.isetitem(j, column)
    return X, readable


# The one rule for private records that cannot be used: each is its own matter, and only the curator is told.

OUTSIDE = "a class that is missing or outside classes"
ODD_CELLS = "a value that is missing (NaN or infinity) or of another kind"
NO_OWNER = "no owner in groups"


def usable_records(checks: Mapping[str, Mask], *, before: str = "", stacklevel: int = 4) -> Mask:
    """Return which records pass every check, and warn the curator of the others: nobody else, and nothing else.

    ``checks`` says what is wrong with the records that fail each, as bool arrays (n,); ``before`` is what the warning
    begins with.
    """
    every = np.asarray(np.logical_and.reduce(list(checks.values())))
    n_out = int(np.count_nonzero(~every))
    if n_out:
        reasons = "; ".join(f"{np.count_nonzero(~fine)} with {what}" for what, fine in checks.items() if not fine.all())
        none = " NO RECORD IS LEFT: what is released will be noise." if n_out == len(every) else ""
        warnings.warn(
            f"{before}{n_out} of {len(every)} records cannot be used and contribute{'s' * (n_out == 1)} nothing: "
            f"{reasons}.{none} (This is private: do not publish it.)",
            CuratorWarning,
            stacklevel=stacklevel,
        )
    return every
