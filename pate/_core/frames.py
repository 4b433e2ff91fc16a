"""Tables and columns of other libraries (polars, pyarrow, DuckDB) as pandas and NumPy hold them.

Code that is given rows, labels or owners calls this first, so that the rest of the package knows one kind of table. A
column's *declared* type says what it becomes, never its cells: in polars and Arrow that type is a fact of the table.
None of those libraries is imported unless something of theirs is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import quietly
from pate._core.curator import need
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

_DATES = "Turn it into numbers (a date into days since a fixed day), or drop it."
#: What a pandas index that has no name is called in an Arrow table.
_INDEX = "__index_level_"


def plain_rows(X: Any, *, name: str = "X") -> Any:
    """Return a table of another library as a DataFrame, a column as a 1-d array; anything else as it is.

    polars DataFrames, pyarrow Tables and whatever else speaks Arrow's C stream become DataFrames: numbers and
    true/false float64 where some are missing, texts objects (NaN where missing), Arrow's dictionaries and polars'
    categories pandas' own. A query that was not carried out, and a column of another declared type (dates, lists), is
    refused.
    """
    if isinstance(X, tuple | Mapping) and not hasattr(X, "iloc"):
        _refuse_several(X, name)
    if X is None or isinstance(X, np.ndarray | list | tuple):
        return X
    _check_tensor(name, X)
    return quietly(name, _rows, X, name)


def _refuse_several(X: Any, name: str) -> None:
    """Refuse several arrays of rows at once: their shapes say it, no cell is looked at."""
    if hasattr(X, "tocsr"):  # a sparse array may be a dict of its cells
        return
    held = list(X.values()) if isinstance(X, Mapping) else list(X)
    shapes = [tuple(getattr(part, "shape", ())) for part in held]
    several = len(held) > 1 and all(len(s) > 1 and s[0] == shapes[0][0] for s in shapes)
    if isinstance(X, Mapping) or several:
        raise InvalidInputError(
            f"{name} must be one array or table with a row for each record, got a {type(X).__name__} of {len(held)} "
            "parts. Put the inputs of a module that takes several side by side, np.hstack(parts), and take them apart "
            "in its forward; make a table of named columns (pandas.DataFrame(parts)), an array of images (np.stack)."
        )


def plain_column(y: Any, *, name: str = "y") -> Any:
    """Return a polars Series or a pyarrow Array as a 1-d array, in which no cell changes another; others as they are.

    Missing cells are None, beside numbers and truth values as they are.
    """
    if y is None or isinstance(y, np.ndarray | list | tuple):
        return y
    _check_tensor(name, y)
    return quietly(name, _column, y)


def _check_tensor(name: str, X: Any) -> None:
    """Refuse a torch tensor that NumPy cannot read, and say what to call on it."""
    if not all(hasattr(X, fact) for fact in ("requires_grad", "layout", "device")):
        return
    steps = {
        ".detach()": ("requires gradients", X.requires_grad),
        ".to_dense()": (f"is {X.layout}", str(X.layout) != "torch.strided"),
        ".cpu()": (f"is on {X.device}", X.device.type != "cpu"),
        ".float()": ("is bfloat16", str(X.dtype) == "torch.bfloat16"),
    }
    needed = [step for step, (_, needs) in steps.items() if needs]
    if needed:
        raise InvalidInputError(
            f"{name} is a torch tensor that {', '.join(steps[step][0] for step in needed)}, and NumPy reads none such. "
            f"Pass {name}{''.join(needed)}."
        )


def _rows(X: Any, name: str) -> Any:
    if hasattr(X, "dask") and hasattr(X, "compute"):
        raise _not_yet(name, X, "X.compute()")
    if hasattr(X, "iloc"):  # pandas' own
        return X
    if hasattr(X, "collect") and hasattr(X, "lazy") and not hasattr(X, "to_arrow"):
        raise _not_yet(name, X, "X.collect()")
    table = _arrow(X)
    if table is None:
        return X
    if not hasattr(table, "schema"):
        return _cells(table)
    import pandas as pd

    names = [n for n in table.schema.names if not _is_index(n, table.schema)]
    places = [table.schema.names.index(n) if table.schema.names.count(n) == 1 else None for n in names]
    if None in places:
        raise InvalidInputError(f"{name} has columns of the same name. Rename them: columns are identified by name.")
    columns = {j: _typed(str(n), table.column(place)) for j, (n, place) in enumerate(zip(names, places, strict=True))}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows))
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _column(y: Any) -> Any:
    if hasattr(y, "iloc"):
        return y
    made = _arrow(y)
    if made is None:
        return y
    if not hasattr(made, "schema"):
        return _cells(made)
    if len(made.schema.names) != 1:
        return _rows(y, "y")  # a table: the caller checks whether it wanted a column
    return _cells(made.column(0)).reshape(-1, 1)


def _arrow(X: Any) -> Any:
    """Return what Arrow makes of it, without a copy where there need be none; None where it is nothing of Arrow's."""
    if type(X).__module__.partition(".")[0] == "pyarrow":
        return X
    if callable(getattr(X, "to_arrow", None)):  # polars, whatever its version
        need("pyarrow", extra="parquet", why="A table of polars")
        return X.to_arrow()
    if hasattr(X, "__arrow_c_stream__"):
        need("pyarrow", extra="parquet", why="A table of another library")
        import pyarrow as pa

        return pa.table(X)
    return None


def _is_index(name: str, schema: Any) -> bool:
    """Whether this column is a pandas index that a table carries along: no feature."""
    return name.startswith(_INDEX) and b"pandas" in (schema.metadata or {})


def _typed(name: str, column: Any) -> pd.Series | npt.NDArray[Any]:
    """Return one column of a table, as its declared type says."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type) and not _is_number(kind.value_type):
            raise _neither(name, kind.value_type)
        chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
        return chunked.unify_dictionaries().to_pandas()
    if _is_text(kind):
        import pandas as pd

        cells = column.to_pylist()  # as objects: pandas' own type of text would depend on what is in the column
        return pd.Series([np.nan if cell is None else cell for cell in cells], dtype=object)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not _is_number(kind):
        raise _neither(name, kind)
    if column.null_count or pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    return _numbers(column)


def _is_number(kind: Any) -> bool:
    from pyarrow import types as t

    return bool(t.is_boolean(kind) or t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _numbers(column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa

    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())


def _cells(column: Any) -> npt.NDArray[Any]:
    """Return a column's cells as Python has them; numbers and truth values of which none is missing as NumPy does."""
    import pyarrow as pa

    if _is_number(column.type) and not column.null_count and not pa.types.is_decimal(column.type):
        return _numbers(column)
    return np.fromiter(column.to_pylist(), dtype=object, count=len(column))


def _not_yet(name: str, X: Any, remedy: str) -> InvalidInputError:
    kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
    return InvalidInputError(f"{name} is a {kind}, which holds no rows before it is carried out. Pass {remedy}.")


def _neither(name: str, kind: Any) -> InvalidInputError:
    return InvalidInputError(f"column {name!r} holds {kind} values, which are neither numbers nor text. {_DATES}")


# Texts in CSV files that a spreadsheet would run as formulas.

#: A spreadsheet reads a cell that starts with one of these as a formula, or drops it and reads the next character.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def guarded_cell(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs: an apostrophe goes before a text that would be a formula.

    Numbers stay. One more goes before apostrophes that stand before such a text, so that :func:`unguarded_cell` gives
    every text back.
    """
    return f"'{cell}" if isinstance(cell, str) and _would_run(cell) else cell


def unguarded_cell(text: str) -> str:
    """Return a text of a CSV file without the apostrophe that :func:`guarded_cell` put before it."""
    return text[1:] if text.startswith("'") and _would_run(text) else text


def _would_run(text: str) -> bool:
    return text.lstrip("'").startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(text.lstrip("'"))


def guarded(frame: Any) -> Any:
    """Return a DataFrame with the texts in its columns and their names as :func:`guarded_cell` has them."""
    import pandas as pd

    made = {
        name: frame[name]
        if pd.api.types.is_numeric_dtype(frame[name].dtype)
        # As objects: class 5 stays 5 beside a missing one.
        else pd.Series([*map(guarded_cell, frame[name].tolist())], dtype=object, index=frame.index)
        for name in frame.columns
    }
    found = pd.DataFrame(made, index=frame.index)
    found.columns = [guarded_cell(name) for name in frame.columns]
    return found
