"""Read private rows cell by cell: the result depends on the cell and on public facts, never on another record.

The validation of rows (:mod:`pate.data._validation`) refuses a column for one odd cell, which is right for public rows.
Of private ones a single record would then decide whether there is a release, or of what kind a column is in every
shard. So odd cells are made missing here, before all are read together: :func:`private_cells` reads rows as estimators
take them, :func:`read_records` rows of a public width, :func:`read_cells` those whose odd cells a public map stands in
for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import CellKindError, canonical, cell_kind, quietly
from pate._core.curator import tell_curator
from pate._core.frames import plain_rows
from pate._core.types import Mask
from pate.data._columns import as_number, holds_numbers, numbers_of
from pate.data._validation import is_frame, is_sparse
from pate.data.schema import NUMERIC, Schema, schema_like
from pate.exceptions import InvalidInputError


def private_cells(X: Any, *, texts: bool, like: Any = None, finite: bool = False) -> tuple[Any, Mask]:
    """Return private rows in the form that validation accepts, and a mask of those that were valid.

    ``texts``: whether texts among numbers may be of use; if not, they are missing numbers. What columns of ``like``
    (public rows, a schema) hold is what these should, and where ``X`` is a list they say how wide its rows are, or that
    they are texts: a list without them is refused. ``finite``: whether infinity counts as missing. Rows are as given
    where no cell is odd; an array is one of objects where ``like`` has texts among numbers, whatever its own cells are.
    """
    X, schema = plain_rows(X), quietly("X_public", schema_like, like)
    if is_sparse(X):
        return finite_sparse(X) if finite else (X, np.ones(X.shape[0], dtype=bool))
    if is_frame(X):
        return _frame(X, texts, schema, finite)
    known = () if schema is None else schema.columns
    of_texts = schema is not None and not known
    mixed = texts and _has_texts(schema)
    shape = () if of_texts else row_shape(X, like)
    width = math.prod(shape) if shape else None
    rows, whole = _array(X, width, texts=of_texts, objects=mixed)
    if rows.ndim == 1 and width is not None and rows.dtype.kind == "O":
        rows, whole = _of_width(rows, width)
    if shape and rows.ndim == 2 and not _declares_width(X):
        rows = rows.reshape(len(rows), *shape)
    if mixed and rows.ndim == 2:
        rows = rows.astype(object)
    if rows.dtype.kind == "f" and finite and np.isinf(rows).any():
        rows = np.where(np.isinf(rows), np.nan, rows)
    if rows.dtype.kind != "O":
        return rows, whole
    if rows.ndim == 1:  # of one dimension: texts, by its shape, whatever its cells are
        return (X, whole) if hasattr(X, "iloc") and holds_numbers(X.dtype) and not of_texts else _texts(rows)
    found, readable = _objects(rows, [texts and column.kind != NUMERIC for column in known] or [texts], finite)
    return found, readable & whole


def row_shape(X: Any, like: Any = None) -> tuple[int, ...]:
    """Return the shape of one private row, by types and public rows alone; () where a row is one text.

    ``like`` are public rows or a schema. A list declares no shape of its own: no count of its rows may say one.

    Raises
    ------
    InvalidInputError
        ``X`` is a list, and ``like`` says nothing.
    """
    if _declares_width(X):
        return tuple(map(int, getattr(X, "shape", None) or np.asarray(X).shape))[1:]
    schema = schema_like(like)
    if schema is not None:
        return (len(schema.columns),) if schema.columns else ()
    shape = () if like is None or not hasattr(like, "__len__") else tuple(np.shape(like)[1:])
    if not shape:
        raise InvalidInputError(
            f"X must have a declared width where neither public rows nor a schema give one, got a {type(X).__name__}: "
            "its rows could have any length, and no private record may decide which. Pass an array, "
            "np.asarray(X, dtype=float) (of texts np.array(X, dtype=object)), a DataFrame, X_public=, or, where it is "
            "taken, a schema= with a range for each column."
        )
    return tuple(map(int, shape))


def _declares_width(X: Any) -> bool:
    return hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, str | bytes) or not hasattr(X, "__len__")


def has_texts(like: Any) -> bool:
    """Whether public rows are an array, or a list of rows, with a text among its cells."""
    return _has_texts(schema_like(like))


def _has_texts(schema: Schema | None) -> bool:
    return schema is not None and schema.rows == "array" and any(column.kind != NUMERIC for column in schema.columns)


def read_records(X: Any, width: int | None, name: str) -> tuple[Any, Mask]:
    """Return rows that can be taken by number, and which of them could be read.

    ``width`` is public: how many cells a row has; None where rows are texts. DataFrames, sparse matrices and arrays of
    numbers stay as they are, others become objects (n, width), or texts (n,). A row is not readable that has a cell
    which is neither number nor text nor missing, or another width.
    """
    X = plain_rows(X, name=name)
    if is_sparse(X):
        return finite_sparse(X)
    if is_frame(X):
        return X, np.ones(X.shape[0], dtype=bool)
    rows, whole = _array(X, width, texts=width is None)
    if not rows.ndim:
        raise InvalidInputError(
            f"{name} must be rows: an array, a DataFrame, a sparse matrix, a list of rows or texts."
        )
    if rows.ndim == 1 and rows.dtype.kind not in "biuf":
        if width is None:
            return _texts(rows)
        rows, whole = _of_width(rows, width)
    if rows.dtype.kind not in "Oc":
        return rows, whole
    found, readable = _objects(rows.astype(object))
    return found, readable & whole


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
        return _array(X, n_features, texts=False)[0]
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


def _array(X: Any, width: int | None, *, texts: bool, objects: bool = False) -> tuple[npt.NDArray[Any], Mask]:
    """Return rows as an array, and which are of one length: of lists no row decides what the others are.

    Lists of rows have ``width`` cells, which public facts give; a row of another length has none. They are objects
    where that is asked for, or a cell is no real number. ``texts``: each row is one cell.
    """
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "biufOU":
        X = _filled(X)
    elif hasattr(X, "iloc"):  # a Series: its type may depend on any cell
        X = X.astype(object).to_numpy()
    if _declares_width(X):
        rows = np.asarray(X)  # what only NumPy can read, too
        return rows, np.ones(len(rows) if rows.ndim else 0, dtype=bool)
    if texts or width is None:
        return np.fromiter(X, dtype=object, count=len(X)), np.ones(len(X), dtype=bool)
    rows = np.zeros(0)
    with suppress(Exception):  # rows of other lengths, or that raise anything, are read one by one below
        rows = np.asarray(X)
        kind = object if objects or rows.dtype.kind not in "biuf" else np.float64 if rows.dtype.kind in "biu" else None
        rows = np.array(X, dtype=kind)
    if len(rows) == len(X) and rows.size == width * len(X):
        return rows.reshape(len(X), width), np.ones(len(X), dtype=bool)
    return _of_width(X, width)


def _of_width(X: Any, width: int) -> tuple[npt.NDArray[Any], Mask]:
    """Return rows of any kind as objects of shape (n, width), and which of them had so many cells."""
    made, whole = np.full((len(X), width), None, dtype=object), np.zeros(len(X), dtype=bool)
    for i, row in enumerate(X):
        cells = _cells_of(row)
        if cells is not None and len(cells) == width:
            made[i], whole[i] = np.fromiter(cells, dtype=object, count=width), True
    return made, whole


def _cells_of(row: Any) -> list[Any] | None:
    """Return the cells of one row; None where it is nothing of the kind."""
    if isinstance(row, list | tuple) and not any(hasattr(cell, "__len__") for cell in row):
        return list(row)
    if not isinstance(row, list | tuple) and not hasattr(row, "__array__"):
        return [row]
    try:  # a row that raises anything has no cells
        row = _filled(row) if isinstance(row, np.ma.MaskedArray) else row
        return list(np.array(row, dtype=object).ravel().tolist())
    except Exception:
        return None


def _texts(X: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Mask]:
    """Return cells as texts, empty where one is none, and which are."""
    cells = X.tolist() if X.dtype.kind != "O" else list(X)
    readable = np.fromiter((isinstance(cell, str) for cell in cells), dtype=bool, count=len(cells))
    return np.fromiter((c if isinstance(c, str) else "" for c in cells), dtype=object, count=len(cells)), readable


def _objects(X: npt.NDArray[Any], texts: Sequence[bool] = (True,), finite: bool = False) -> tuple[Any, Mask]:
    """Return an array of objects with its cells read, and which rows had no odd one; ``texts`` by column, or of all."""
    found = [_read(cell, keep, finite) for cell, keep in zip(X.ravel().tolist(), cycle(texts), strict=False)]
    rows = np.fromiter((cell for cell, _ in found), dtype=object, count=X.size)
    fine = np.fromiter((useful for _, useful in found), dtype=bool, count=X.size)
    return rows.reshape(X.shape), np.asarray(fine.reshape(len(X), int(np.prod(X.shape[1:]))).all(axis=1))


def _read(cell: Any, texts: bool, finite: bool) -> tuple[Any, bool]:
    """Return a cell, NaN where it is of no use, and whether it is a number, a text (of use) or missing; by itself."""
    kind = cell_kind(cell)
    if kind == "missing" or (kind == "text" and texts):
        return cell, True  # what is merely missing, an imputer may fill; anything else was meant to say something
    number = as_number(cell)  # NaN of a whole number that is too long for a float, too
    if np.isnan(number):
        return np.nan, False
    return np.nan if finite and np.isinf(number) else cell if kind == "number" else number, True


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
        numbers = not texts or kinds.get(canonical(str(name))) == NUMERIC
        found, fine = _objects(cells, [not numbers], finite)
        readable &= fine
        if numbers:
            changed[j] = pd.Series(numbers_of(found.tolist()), index=X.index)
        elif complexes or not fine.all():
            changed[j] = pd.Series(found, index=X.index, dtype=object)
    if changed:
        X = X.copy()
        for j, column in changed.items():
            X.isetitem(j, column)
    return X, readable


# Private records that cannot be used contribute nothing, affect no other, and only the curator is warned.

OUTSIDE = "a class that is missing or outside classes"
ODD_CELLS = "a value that is missing (NaN or infinity) or of another kind"
NO_OWNER = "no owner in groups"


def usable_records(checks: Mapping[str, Mask], *, before: str = "") -> Mask:
    """Return which records pass every check, and warn only the curator of the others.

    ``checks`` says what is wrong with the records that fail each, as bool arrays (n,); ``before`` is what the warning
    begins with.
    """
    every = np.asarray(np.logical_and.reduce(list(checks.values())))
    n_out = int(np.count_nonzero(~every))
    if n_out:
        reasons = "; ".join(f"{np.count_nonzero(~fine)} with {what}" for what, fine in checks.items() if not fine.all())
        none = " NO RECORD IS LEFT: what is released will be noise." if n_out == len(every) else ""
        tell_curator(
            f"{before}{n_out} of {len(every)} records cannot be used and contribute{'s' * (n_out == 1)} nothing: "
            f"{reasons}.{none} (This is private: do not publish it.)",
        )
    return every
