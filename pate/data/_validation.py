"""Validate rows (arrays, DataFrames, sparse matrices, texts): each is converted to one form, or refused by name.

Every class and function that is given records comes here first, so that what one of them takes they all take, and what
one refuses they all refuse, in words that quote no cell.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate._core.checks import CellKindError, canonical, cell_kind, quietly, shown
from pate._core.frames import plain_rows
from pate.data._columns import as_float, column_kind, holds_numbers
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

_CHECKED_ROWS = 65_536
#: What is said of names that are equal.
COMPARED = " (compared in NFC, without outer blanks)"
#: So many columns are named in a message that could name hundreds.
_NAMED = 10
_DATES = "Turn them into numbers (a date into days since a fixed day), or drop them."


def is_sparse(X: Any) -> bool:
    """Whether ``X`` is a scipy sparse matrix or array."""
    return bool(sparse.issparse(X))


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas DataFrame, without importing pandas."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def is_texts(X: Any) -> bool:
    """Whether ``X`` is a checked column of texts, one per row: what :func:`as_texts` returns."""
    return isinstance(X, np.ndarray) and X.ndim == 1


def as_texts(X: Any, *, name: str = "X") -> npt.NDArray[np.object_] | None:
    """Return a list, 1-d array or Series of texts as an object array of plain ``str``; None when ``X`` is a table.

    Not NumPy's own type of text: its width is that of the longest text anywhere, which would show every shard
    something of another's.
    """
    if hasattr(X, "dtype"):
        column = getattr(X, "ndim", 0) == 1 and getattr(X.dtype, "kind", "O") not in "biufcmMSV"
    else:
        column = isinstance(X, list | tuple)
    if not column or is_frame(X) or is_sparse(X):
        return None
    cells = list(X)
    n_texts = sum(isinstance(cell, str) for cell in cells)
    if not n_texts:
        return None
    if n_texts < len(cells):
        raise InvalidInputError(
            f"{name} must be a text in every row, but in some there is none (a missing value, a number, bytes). Give "
            "those rows a text (an empty one, '', will do) or drop them."
        )
    return np.fromiter(map(str, cells), dtype=object, count=len(cells))


def read_rows(X: Any, *, name: str = "X", objects: bool = False) -> Any:
    """Return rows as one of four: an array of shape (n, ...), a DataFrame, a CSR matrix or a 1-d array of texts.

    A masked cell is a missing one (NaN). A list has no type of its own: its numbers become float64. An array of objects
    becomes float64 when all its cells are numbers or missing, and stays one of objects when some are texts, or always
    with ``objects``: of private rows no record may decide it. What is neither (dates, complex numbers) is refused:
    columns are named, cells are not.
    """
    return quietly(name, _read_rows, X, name, objects)


def _read_rows(X: Any, name: str, objects: bool = False) -> Any:
    X = plain_rows(X, name=name)
    texts = as_texts(X, name=name)
    if texts is not None:
        return texts
    rows: Any
    if is_sparse(X):
        rows = X.tocsr()
        _check_kind(rows.dtype, name)
    elif is_frame(X):
        rows = X
        if len(set(map(canonical, rows.columns))) < rows.shape[1]:
            raise InvalidInputError(
                f"{name} has columns of the same name{COMPARED}. Rename them: columns are distinguished by name."
            )
        for j, column in enumerate(rows.columns):
            if not holds_numbers(rows.dtypes.iloc[j]):
                column_kind(column, rows.iloc[:, j])
    else:
        rows = _as_array(X, name, objects)
    if rows.ndim < 2:
        raise _not_rows(name, f"shape {rows.shape}")
    if not rows.shape[0]:
        raise InvalidInputError(
            f"{name} has no rows, 0 sample(s): it must have at least one row and one column, got shape {rows.shape}."
        )
    if 0 in rows.shape:
        raise InvalidInputError(
            f"{name} must have at least one row and one column; it has 0 feature(s) (shape={rows.shape}) while a "
            "minimum of 1 is required."
        )
    return rows


def _not_rows(name: str, got: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} must be a table of shape (n, n_features) of real numbers or categories, or texts of shape (n,), got "
        f"{got}. Reshape your data: X.reshape(-1, 1) makes a row of each number, X.reshape(len(X), -1) of each image."
    )


def image_shape(X: Any, *, name: str = "X") -> tuple[int, ...] | None:
    """Return the shape of one row where rows are images, (height, width) or (channels, height, width); else None.

    Refuses rows of more axes, and channels last.
    """
    nested = isinstance(X, list | tuple) and bool(len(X)) and isinstance(X[0], list | tuple | np.ndarray)
    shape: tuple[int, ...] = quietly(name, np.shape, X[0]) if nested else tuple(getattr(X, "shape", ()))[1:]
    if len(shape) < 2:
        return None
    if len(shape) > 3:
        raise InvalidInputError(
            f"{name} has rows of shape {shape}. Images are (height, width) or (channels, height, width): reshape them."
        )
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] > 4:
        raise InvalidInputError(
            f"{name} has rows of shape {shape}, which look like images with their channels last. Pass them channels "
            f"first: {name}.transpose(0, 3, 1, 2)."
        )
    return tuple(int(n) for n in shape)


def check_image_shape(value: Any) -> tuple[int, int, int] | None:
    """Return (channels, height, width), or None where it is left to the rows."""
    if value is None:
        return None
    whole = isinstance(value, tuple | list) and all(isinstance(n, int | np.integer) and n >= 1 for n in value)
    if not whole or len(value) not in (2, 3):
        raise InvalidInputError(
            "image_shape must be (height, width), (channels, height, width) or None, got "
            f"{tuple(value) if whole else shown(value)}. None takes it from the images; flat rows are taken for square "
            "images."
        )
    channels, height, width = value if len(value) == 3 else (1, *value)
    return int(channels), int(height), int(width)


def check_n_pixels(shape: tuple[int, ...], n_pixels: int) -> None:
    """Refuse public rows that have another number of pixels than images of this shape."""
    if math.prod(shape) != n_pixels:
        raise InvalidInputError(
            f"image_shape={shape} has {math.prod(shape)} pixels, the public rows have {n_pixels}. Say the "
            "shape of your images, (height, width) or (channels, height, width), which are flattened channels first."
        )


def flat_rows(rows: Any) -> Any:
    """Return checked rows with images laid out flat, channels first; other rows as they are."""
    return rows.reshape(len(rows), -1) if isinstance(rows, np.ndarray) and rows.ndim > 2 else rows


def check_same_shape(mine: tuple[int, ...] | None, known: tuple[int, ...] | None, *, name: str = "X") -> None:
    """Refuse images of another shape than those that were seen; flattened ones have none."""
    if mine is not None and known is not None and mine != known:
        raise InvalidInputError(
            f"{name} must have rows of shape {known}, as the others, got {mine}. Public and private images need one "
            "shape."
        )


def quoted(names: Iterable[Any]) -> str:
    """Return names for a message, numbers without quotes: the first ones, where they are many."""
    known = [str(n) if isinstance(n, int | np.integer) else repr(str(n)) for n in names]
    more = len(known) - _NAMED if len(known) > 2 * _NAMED else 0
    return ", ".join(known[: -more or None]) + (f" and {more:,} more" if more else "")


def other_names(absent: Collection[Any], extra: Collection[Any]) -> str:
    """Say which columns a table lacks and which it has besides; an empty text where neither."""
    parts = [f"it lacks {quoted(absent)}"] if absent else []
    return "; ".join([*parts, f"it also has {quoted(extra)}"] if extra else parts)


def by_name(X: Any, names: Any, *, name: str = "X", other: str = "the rows of fit") -> Any:
    """Return a table's columns in a known order and by known names; rows that have no names as they are.

    Refuses columns that are missing, others, and one that is there twice; ``names`` is None where rows came without.
    """
    if names is None or not is_frame(X):
        return X
    known = list(names)
    mine = [str(c) for c in X.columns] if all(isinstance(n, str) for n in known) else list(X.columns)
    if mine == known:
        return X
    wanted, mine = list(map(canonical, known)), list(map(canonical, mine))
    absent, extra = [n for n in wanted if n not in mine], [n for n in mine if n not in wanted]
    if absent or extra or len(mine) != len(wanted):
        differ = other_names(absent, extra) or f"one is there twice{COMPARED}"
        raise InvalidInputError(
            f"{name} has other columns than {other}: {differ}. Columns are "
            "identified by name, in any order: rename, add or drop columns until both tables have the same, each once."
        )
    return X.iloc[:, [mine.index(n) for n in wanted]].set_axis(known, axis=1)


def read_numbers(X: Any, *, name: str = "X", user: str = "torch modules", missing: bool = False) -> npt.NDArray[Any]:
    """Return rows of numbers as an array of shape (n, ...), without a copy where there is one already.

    Refuses what :func:`read_rows` does, texts, sparse rows, infinity, and NaN unless ``missing``.
    """
    return quietly(name, _read_numbers, X, name, user, missing)


def _read_numbers(X: Any, name: str, user: str, missing: bool) -> npt.NDArray[Any]:
    rows = _read_rows(X, name)
    if is_sparse(rows):
        raise InvalidInputError(f"{name} must be dense for {user}, got a sparse matrix. Pass X.toarray().")
    odd = text_columns(rows)
    if odd:
        raise InvalidInputError(
            f"{name} must hold numbers for {user}, got {odd}. {'TextMap' if is_texts(rows) else 'TableEncoder'} makes "
            f"numbers of {'texts' if is_texts(rows) else 'a table'}, learning from public rows alone."
        )
    if is_frame(rows):
        rows = frame_as_floats(rows).to_numpy()
    if rows.dtype.kind == "f":
        for start in range(0, len(rows), _CHECKED_ROWS):
            part = rows[start : start + _CHECKED_ROWS]
            if np.isinf(part).any() or (not missing and np.isnan(part).any()):
                raise InvalidInputError(f"{name} holds NaN or infinity. Fill them or drop those rows.")
    return np.asarray(rows)


def text_columns(rows: Any) -> str:
    """Say which columns of checked rows hold texts or categories; an empty text where all are numbers."""
    if is_sparse(rows):
        return ""
    if is_texts(rows):
        return "texts"
    names: list[Any] = []
    if is_frame(rows):
        names = [repr(c) for c, t in zip(rows.columns, rows.dtypes, strict=True) if not holds_numbers(t)]
    elif rows.dtype.kind == "O":
        columns = rows.reshape(len(rows), -1).T.tolist()
        names = [j for j, cells in enumerate(columns) if any(isinstance(cell, str) for cell in cells)]
    if not names:
        return ""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"texts in column{'s' if len(names) > 1 else ''} {', '.join(map(str, names[:5]))}{more}"


def frame_as_floats(X: pd.DataFrame) -> pd.DataFrame:
    """Return a DataFrame with its numbers and truth values as float64 (missing is NaN).

    pandas types a column by all of its cells: one missing value in one record would turn everyone's int64 to float64,
    and a step that chooses columns by type would choose others in every shard.
    """
    if all(isinstance(t, np.dtype) and t.kind in "biuf" for t in X.dtypes):
        return X.astype(np.float64)  # hundreds of pixels: nothing to do column by column
    import pandas as pd

    cast = (as_float(c) if holds_numbers(c.dtype) else c for c in (X.iloc[:, j] for j in range(X.shape[1])))
    frame = pd.DataFrame(dict(enumerate(cast)), index=X.index)
    frame.columns = X.columns
    return frame


def _check_kind(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind == "c":
        raise CellKindError(
            f"Complex data not supported: {name} must hold real numbers. Pass real and imaginary parts."
        )
    if dtype.kind in "mM":
        raise CellKindError(f"{name} holds datetime values. {_DATES}")
    if dtype.kind not in "biufUO":
        raise CellKindError(f"{name} holds values of dtype {dtype}. Each argument must be a string or a real number.")


def _as_array(X: Any, name: str, objects: bool) -> npt.NDArray[Any]:
    mask = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
    rows: Any = None
    with suppress(ValueError):  # a list of lists of different lengths
        rows = np.asarray(X if mask is None else X.data)
    if rows is None:
        raise _not_rows(name, "rows of different lengths")
    if not hasattr(X, "dtype") and rows.dtype.kind in "US":
        rows = np.array(X, dtype=object)  # NumPy would turn numbers beside texts into texts
    _check_kind(rows.dtype, name)
    if rows.dtype.kind == "U":
        rows = rows.astype(object)
    if rows.dtype.kind == "O":
        rows = rows.copy()
        if mask is not None:
            rows[mask] = None
        return _plain_array(rows, name, objects)
    if mask is not None:
        rows = rows.astype(np.float64)  # masked or not: else one masked cell would change everyone's type
        rows[mask] = np.nan
    elif not hasattr(X, "dtype") and rows.dtype.kind in "biu":
        rows = rows.astype(np.float64)
    return rows


def _plain_array(rows: npt.NDArray[Any], name: str, objects: bool) -> npt.NDArray[Any]:
    """Return an array of objects as numbers where it holds nothing else; refuse what is neither number nor text."""
    if rows.ndim < 2:
        return rows
    flat = rows.reshape(-1)
    kinds = [cell_kind(cell) for cell in flat.tolist()]
    found = set(kinds)
    odd = sorted(found - {"number", "text", "missing"})
    if odd:
        if "complex" in odd:
            _check_kind(np.dtype(complex), name)
        raise CellKindError(
            f"{name} holds {', '.join(odd)} values, and each argument must be a string or a real number. {_DATES}"
        )
    if "missing" in found:
        flat = flat.copy()
        flat[np.array([kind == "missing" for kind in kinds])] = np.nan
    rows = flat.reshape(rows.shape)
    return rows if objects or "text" in found else rows.astype(np.float64)
