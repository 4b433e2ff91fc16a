"""Private tables read as a public one has its columns: cell by cell, so that no cell decides what another becomes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import cell_kind, shown
from pate.data._columns import (
    DATE,
    as_float,
    as_number,
    as_text,
    column_kind,
    days_in,
    holds_numbers,
    missing_in,
    numbers_of,
)
from pate.exceptions import CuratorWarning, InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


# Ranges of columns that a person declared: rows that are made up within them stand in for public ones.

#: Made-up rows: in each column evenly spread over its range, every category about as often as the others.
_ROWS = 1024
#: More categories of one column are no list that somebody types.
MOST_VALUES = 256
_SEED = 0x5EED
_REMEDY = "Say (low, high), two numbers, or the list of its categories, as texts."


def declared_rows(ranges: Any, *, n_columns: int | None = None) -> Any:
    """Return made-up rows within declared ranges: no private cell is in them, nor counted for them.

    Ranges are by column of a table (low, high) or a list of categories; of an array one (low, high) for all columns, or
    each column's. Returns 1024 rows, a DataFrame or a float64 array, the same for the same ranges.
    """
    import pandas as pd

    rng = np.random.default_rng(_SEED)
    if isinstance(ranges, Mapping):
        if not ranges or not all(isinstance(name, str) for name in ranges):
            raise InvalidInputError(
                f"ranges must name at least one column, by texts, got {shown(ranges)}. Say {{'age': (0, 120)}}."
            )
        columns = {name: rng.permutation(_column(f" of {name!r}", ranges[name])) for name in ranges}
        made = {name: pd.Series(c, dtype=object if c.dtype.kind in "OU" else None) for name, c in columns.items()}
        return pd.DataFrame(made)
    if not isinstance(ranges, Sequence) or isinstance(ranges, str) or not len(ranges):
        raise InvalidInputError(
            f"ranges must be a mapping of columns to ranges, or (low, high) of all columns, got {shown(ranges)}. "
            "Say {'age': (0, 120), 'sex': ['male', 'female']}."
        )
    pairs = [ranges] * (n_columns or 0) if _is_number(ranges[0]) else list(ranges)
    if n_columns is not None and len(pairs) != n_columns:
        raise InvalidInputError(
            f"ranges must be one (low, high), or one for each of the {n_columns} columns, got {len(pairs)} of them."
        )
    found = [_column(f" of column {j}", pair) for j, pair in enumerate(pairs)]
    if any(column.dtype.kind != "f" for column in found):
        raise InvalidInputError("ranges of an array must be numbers. Give categories by name, in a table.")
    return np.column_stack([rng.permutation(column) for column in found])


def declared_kinds(ranges: Mapping[str, Any]) -> dict[str, str]:
    """Return what the columns hold, as a public table's reader would say it."""
    rows = declared_rows(ranges)
    return {name: "numeric" if rows[name].dtype.kind == "f" else "text" for name in ranges}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _column(name: str, told: Any) -> npt.NDArray[Any]:
    """Return a column's made-up cells, in order."""
    if not isinstance(told, Sequence | np.ndarray) or isinstance(told, str) or not len(told):
        raise InvalidInputError(f"ranges{name} must be a range or categories, got {shown(told)}. {_REMEDY}")
    if all(isinstance(value, str) for value in told):
        values = list(dict.fromkeys(told))
        if not 2 <= len(values) <= MOST_VALUES:
            raise InvalidInputError(
                f"ranges{name} must name 2 to {MOST_VALUES} categories, got {len(values)}. Name the frequent ones: all "
                "others count as missing."
            )
        return np.resize(np.array(values, dtype=object), _ROWS)
    if len(told) != 2 or not all(_is_number(value) for value in told):
        raise InvalidInputError(f"ranges{name} must be two numbers, or texts, got {shown(told)}. {_REMEDY}")
    low, high = (float(value) for value in told)
    if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
        raise InvalidInputError(
            f"ranges{name} must be two finite numbers, the lower first, got ({low:g}, {high:g}). {_REMEDY}"
        )
    return np.linspace(low, high, _ROWS)


def kinds_like(like: pd.DataFrame, text: list[str], *, without: Sequence[str | None] = ()) -> dict[str, str]:
    """Return the kind of each column of a public table, ``"text"`` for those in ``text``.

    An empty one has no kind that is public, and is left out: :func:`pate.data.align_columns` refuses it. Columns in
    ``without`` are no features.
    """
    if not (hasattr(like, "columns") and hasattr(like, "iloc")):
        raise InvalidInputError(
            "like must be the public rows as a DataFrame, such as read_table(public).X (or that table itself), got "
            f"{type(like).__name__}."
        )
    names = [str(c) for c in like.columns]
    if len(set(names)) < len(names):
        raise InvalidInputError("like has columns of the same name. Rename or remove one of each.")
    columns = [like.iloc[:, j] for j in range(len(names))]
    return {
        name: "text" if name in text else column_kind(name, column)
        for name, column in zip(names, columns, strict=True)
        if name not in without and (name in text or not column.isna().all())
    }


def cell_reader(missing: tuple[str, ...], *, decimal: str = ".") -> Any:
    """Return a function from a cell's text to a number, NaN where it is missing, or the text where it is neither.

    Where commas are decimal marks, a cell with a point is no number (and comes back in quotes, so that nobody takes it
    for one): whether ``1.500`` is a thousand and a half or one and a half, nothing says.
    """
    known = frozenset(missing)

    def read(cell: str) -> Any:
        try:  # what as_number does, for most cells in half the time
            number = as_number(cell) if "_" in cell else float(cell)
        except ValueError:
            number = as_number(cell)
        return cell if number != number and cell.strip() not in known else number

    def read_comma(cell: str) -> Any:
        found = read(repr(cell) if "." in cell else cell.replace(",", "."))
        return repr(cell) if isinstance(found, str) else found

    return read if decimal == "." else read_comma


def tidy_like(X: pd.DataFrame, file: str, kinds: Mapping[str, str], *, text: Sequence[str] = ()) -> pd.DataFrame:
    """Bring private columns to the kinds that public ones have: float64, or text as objects; NaN where missing.

    A cell that is no finite number where numbers belong, no date of the form where dates do, or neither number nor text
    where texts do, is NaN, and the curator is warned; columns of no kind are text. Refusing a column of which no cell
    fits would let the one record that has a number in it decide whether there is a release; a declared type of no such
    kind (dates, complex numbers) is refused, as a fact of the file.
    """
    import pandas as pd

    tidy: dict[str, Any] = {}
    odd: list[str] = []
    for name in X.columns:
        tidy[name], n_odd = column_like(name, X[name], kinds.get(name, "text"))
        if n_odd:
            odd.append(odd_cells(name, tidy[name], n_odd))
        elif name in kinds and name not in text and kinds[name] == "text" and _numbers_alone(tidy[name]):
            odd.append(f"{name!r} holds numbers alone, where the public rows have text: is it another column? (text=)")
    if odd:
        tell_curator(file, odd)
    return pd.DataFrame(tidy, index=X.index)


def column_like(name: Any, column: pd.Series, kind: str) -> tuple[pd.Series, int]:
    """Return a private column as the public one's kind has it, each cell by itself, and how many cells are not so."""
    if kind.startswith(DATE):
        return days_in(column, kind.removeprefix(DATE))
    if str(column.dtype) not in ("category", "object"):
        column_kind(name, column)  # a declared type
    return numbers_in(column) if kind == "numeric" else _texts(column)


def odd_cells(name: Any, made: pd.Series, n_odd: int) -> str:
    """Say how many cells of a column became missing."""
    none = "" if made.notna().any() else ", and so it is empty: is it another column?"
    return f"{name!r} has {n_odd} that are not what the public rows have in it, which count as missing{none}"


def tell_curator(where: str, odd: list[str]) -> None:
    """Warn of cells that were set aside: the curator alone."""
    warnings.warn(
        f"{where}, cells of columns: {'; '.join(odd)}. (This is private: do not publish it.)",
        CuratorWarning,
        stacklevel=5,
    )


def numbers_in(column: pd.Series) -> tuple[pd.Series, int]:
    """Return a column's cells as float64, NaN where one is no finite number, and how many are not but there."""
    import pandas as pd

    if holds_numbers(column.dtype):
        values, missing = as_float(column).to_numpy(), column.isna().to_numpy()
    else:
        cells = column.astype(object).tolist()
        values, missing = numbers_of(cells), missing_in(cells)
    fine = np.isfinite(values)
    made = pd.Series(np.where(fine, values, np.nan), index=column.index, name=column.name)
    return made, int(np.count_nonzero(~fine & ~missing))


def _numbers_alone(texts: pd.Series) -> bool:
    return bool(texts.notna().any()) and all(np.isfinite(as_number(cell)) for cell in texts if cell == cell)


def _texts(column: pd.Series) -> tuple[pd.Series, int]:
    texts = as_text(column)
    if not holds_numbers(column.dtype):
        kinds = [cell_kind(cell) for cell in column.astype(object).tolist()]
        odd = np.array([kind not in ("text", "number", "missing") for kind in kinds], dtype=bool)
        return texts.mask(odd, np.nan).astype(object), int(odd.sum())
    return texts, 0
