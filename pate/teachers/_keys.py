"""What a teacher is made of, as a digest: the key under which it is kept, and found again.

Everything that goes in is written with its length before it, so that no two recipes read the same.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import types
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from pate.exceptions import InvalidInputError
from pate.teachers._rows import is_frame, is_sparse

_FORMAT = 3
#: Kinds of array whose bytes are their values. Texts are not: their width hangs on rows of other shards.
_PLAIN_KINDS = "biufcmM"
#: Cells whose repr says all about them.
_PLAIN_CELLS = {type(None), bool, int, float, str}


def recipe_key(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    partition: str,
    index: int,
    versions: str | None = None,
) -> bytes:
    """Return a digest over everything that decides how one teacher comes out: 32 bytes, **private** as the shard is.

    ``estimator`` has the teacher's own seeds set; ``partition`` is the partition's fingerprint; ``versions`` are those
    of the software that trains, None for scikit-learn's and NumPy's. Rows of other shards do not matter: replacing a
    record elsewhere keeps this teacher.
    """
    if versions is None:
        versions = f"sklearn={sklearn.__version__} numpy={np.__version__}"
    digest = hashlib.sha256()
    for text in (f"format {_FORMAT}", versions, partition, str(index), describe(estimator)):
        _add(digest, text)
    _add_rows(digest, X)
    _add_rows(digest, y)
    return digest.digest()


def describe(value: Any) -> str:
    """Return a text that is the same for equal configurations, in every process; refuse what nobody could tell again.

    A class is known by its name alone; a Python function by its name, code, defaults and what it closes over, not by
    the functions it calls.
    """
    try:
        return _describe(value)
    except RecursionError:
        raise _unknown(value) from None


def _describe(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, np.generic):
        return f"{value.dtype.str}:{value.item()!r}"
    if isinstance(value, np.ndarray):
        return f"array:{_rows_digest(value)}"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_describe(k)}: {_describe(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(_describe, value))}]"
    if isinstance(value, set | frozenset):
        return f"set[{', '.join(sorted(map(_describe, value)))}]"
    if isinstance(value, partial):
        return f"partial[{_describe(value.func)}, {_describe(value.args)}, {_describe(value.keywords)}]"
    if isinstance(value, types.FunctionType):
        return f"{value.__module__}.{value.__qualname__}:{_function_digest(value)}"
    if isinstance(value, types.MethodType):
        return f"method[{_describe(value.__func__)}, {_describe(value.__self__)}]"
    if isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_frame(value) or is_sparse(value) or hasattr(value, "__array__"):
        # Tensors, Series: their values are not among their attributes.
        return f"{kind}:{_rows_digest(value)}"
    if hasattr(value, "__dict__"):
        # All attributes, not the parameters only: a part that was fitted on public data counts as it is.
        fields = (f"{name}: {_describe(field)}" for name, field in sorted(vars(value).items()))
        return f"{kind}{{{', '.join(fields)}}}"
    buffer = io.BytesIO()
    try:
        pickle.dump(value, buffer, protocol=4)  # written to be hashed, never read
    except Exception:
        raise _unknown(value) from None
    return f"{kind}:{hashlib.sha256(buffer.getvalue()).hexdigest()}"


def _unknown(value: Any) -> InvalidInputError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return InvalidInputError(
        f"checkpoint_dir cannot recognise a parameter of type {kind} again. Use checkpoint_dir=None."
    )


def _function_digest(function: types.FunctionType) -> str:
    # Names alone would take one lambda for another, and a function for its edited self.
    digest = hashlib.sha256()
    _add_code(digest, function.__code__)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    _add(digest, _describe([function.__defaults__, function.__kwdefaults__, cells]))
    return digest.hexdigest()


def _add_code(digest: Any, code: types.CodeType) -> None:
    _add(digest, code.co_code)
    counts = [code.co_argcount, code.co_kwonlyargcount, code.co_flags & 0x3FF]  # flags beyond are of the whole file
    _add(digest, _describe([code.co_names, code.co_varnames, code.co_freevars, counts]))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(digest, constant)
        else:
            _add(digest, "..." if constant is ... else _describe(constant))


def _add(digest: Any, part: str | bytes | memoryview) -> None:
    """Add one part with its length before it."""
    data = memoryview(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
    digest.update(data.nbytes.to_bytes(8, "little"))
    digest.update(data)


def _rows_digest(X: Any) -> str:
    digest = hashlib.sha256()
    _add_rows(digest, X)
    return digest.hexdigest()


def _add_rows(digest: Any, X: Any) -> None:
    if is_frame(X):
        _add(digest, f"frame {X.shape}")
        for j, column in enumerate(X.columns):
            _add(digest, repr(column))
            _add_column(digest, X.iloc[:, j])
    elif is_sparse(X):
        rows = X.tocsr()
        _add(digest, "sparse")
        for array in (np.asarray(rows.shape), rows.indptr, rows.indices, rows.data):
            _add_array(digest, array)
    elif isinstance(X, list | tuple):
        _add(digest, f"list {len(X)}")
        _add_cells(digest, X)
    elif hasattr(X, "dtype") and hasattr(X, "iloc"):  # a pandas Series
        _add(digest, f"column {X.shape} {X.name!r}")
        _add_column(digest, X)
    elif hasattr(X, "__array__"):
        try:
            array = np.asarray(X)
        except Exception:
            raise _unknown(X) from None
        _add_array(digest, array)
    else:
        raise InvalidInputError(
            f"checkpoint_dir cannot recognise rows of type {type(X).__qualname__} again. Pass an array, a DataFrame, "
            "a sparse matrix or a list, or use checkpoint_dir=None."
        )


def _add_column(digest: Any, values: Any) -> None:
    categories = getattr(values.dtype, "categories", None)
    _add(digest, str(values.dtype))
    if categories is not None:  # the text of the type leaves out what is beyond a screenful
        _add(digest, f"ordered {values.dtype.ordered} of {len(categories)}")
        _add_cells(digest, categories.tolist())
    array = values.to_numpy()
    if array.dtype.kind in _PLAIN_KINDS:
        _add_array(digest, array)
    else:
        _add_cells(digest, values.tolist())


def _add_array(digest: Any, array: npt.NDArray[Any]) -> None:
    if array.dtype.kind in _PLAIN_KINDS:
        _add(digest, f"array {array.dtype.str} {array.shape}")
        _add(digest, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    else:
        _add(digest, f"array {array.dtype.kind} {array.shape}")
        _add_cells(digest, array.reshape(-1).tolist())


def _add_cells(digest: Any, values: Iterable[Any]) -> None:
    cells = list(values)
    if all(type(cell) in _PLAIN_CELLS for cell in cells):
        _add(digest, "cells" + repr(cells))
        return
    _add(digest, f"mixed cells {len(cells)}")
    for cell in cells:
        # repr would leave out the middle of a long array.
        _add(digest, describe(cell))
