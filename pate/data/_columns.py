"""Kinds of table columns (numbers, text, dates), and conversions that treat each cell by itself.

pandas picks a column's type by all of its cells, so a single private one (a missing value among whole numbers, say)
would change what every teacher is given.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import canonical, cell_kind
from pate._core.curator import joined_texts, tell_curator
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


# Dates as numbers: days since 1970-01-01, each cell by itself, in the form that a public column has.

#: So many columns are named in one warning.
_LISTED = 5
#: What may be said of texts that are dates.
DATE_ORDERS = ("auto", "day-first", "month-first", "text")
#: A kind of column, as ``"numeric"`` and ``"text"`` are: ``"date:"`` and its form.
DATE = "date:"
_YEAR, _DAY, _MONTH, _DECLARED = "year-first", "day-first", "month-first", "declared"

_TIME = r"(?:[T ]\s*(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2}(?:[.,]\d+)?))?\s*(?P<z>Z|[+-]\d{2}:?\d{2})?)?"
_FORMS = {
    _YEAR: re.compile(r"(?P<Y>\d{4})([-/.])(?P<M>\d{1,2})\2(?P<D>\d{1,2})" + _TIME, re.ASCII),
    _DAY: re.compile(r"(?P<D>\d{1,2})([-/.])(?P<M>\d{1,2})\2(?P<Y>\d{4})" + _TIME, re.ASCII),
    _MONTH: re.compile(r"(?P<M>\d{1,2})([-/.])(?P<D>\d{1,2})\2(?P<Y>\d{4})" + _TIME, re.ASCII),
}
DATE_FORMS = (*_FORMS, _DECLARED)
_EPOCH = dt.date(1970, 1, 1).toordinal()


def as_days(cell: Any, form: str) -> float:
    """Return a date as days since 1970-01-01 (with a time of day: a fraction), NaN where it is none.

    Texts are read in that form, of a column that was declared to hold dates year first; a moment with a zone in UTC.
    """
    if isinstance(cell, np.datetime64):
        cell = None if np.isnat(cell) else cell.astype("M8[us]").item()
    if isinstance(cell, dt.datetime):
        return _of_time(cell)
    if isinstance(cell, dt.date):
        return float(cell.toordinal() - _EPOCH)
    if not isinstance(cell, str):
        return float("nan")
    found = _FORMS[_YEAR if form == _DECLARED else form].fullmatch(cell.strip())
    if found is None:
        return float("nan")
    try:
        days = dt.date(int(found["Y"]), int(found["M"]), int(found["D"])).toordinal() - _EPOCH
        hours, minutes, seconds = int(found["h"] or 0), int(found["m"] or 0), (found["s"] or "0").replace(",", ".")
        dt.time(hours, minutes, int(float(seconds)))
    except ValueError:  # the 31st of February, 25 o'clock
        return float("nan")
    zone = found["z"]
    ahead = 0 if zone in (None, "Z") else int(f"{zone[0]}1") * (60 * int(zone[1:3]) + int(zone[-2:]))
    return days + (3600 * hours + 60 * (minutes - ahead) + float(seconds)) / 86400


def as_dates(days: Any, kind: str) -> list[str | None]:
    """Return whole days since 1970-01-01 as a column of that kind of dates writes them; None where there is none.

    Examples
    --------
    >>> as_dates([0.0, float("nan")], "date:day-first")
    ['01/01/1970', None]
    """
    form = {_DAY: "{d:02}/{m:02}/{y:04}", _MONTH: "{m:02}/{d:02}/{y:04}"}.get(kind.removeprefix(DATE))
    form = form or "{y:04}-{m:02}-{d:02}"
    found: list[str | None] = []
    for day in days:
        at = None if day != day else dt.date.fromordinal(int(day) + _EPOCH)
        found.append(None if at is None else form.format(y=at.year, m=at.month, d=at.day))
    return found


def _of_time(moment: dt.datetime) -> float:
    try:
        if moment != moment:  # NaT is not itself
            return float("nan")
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
        return float((moment - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1))
    except Exception:  # at the ends of time: such a cell is missing, whatever it raises
        return float("nan")


def date_form(column: pd.Series, order: str = "auto") -> tuple[str, str]:
    """Return the form of a **public** column's dates, empty where it holds others, and what is odd about it.

    ``order`` says how texts with the year last are read: ``"auto"`` takes points as day first, and others by what the
    column shows; where both would do it stays text. ``"text"`` leaves all texts as they are.
    """
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return _DECLARED, ""
    held = column.dropna().tolist() if column.dtype == object or _is_texts(column) else []
    if not held or not all(isinstance(cell, str | dt.date) for cell in held):
        return "", ""
    cells = list(dict.fromkeys(held))
    if all(isinstance(cell, dt.date) for cell in cells):  # datetimes are dates too
        return _DECLARED, ""
    if order == "text" or not all(isinstance(cell, str) for cell in cells):
        return "", ""
    if order != "auto":
        forms = [form for form in (_YEAR, order) if _all_are(cells, form)]
        return (forms[0] if forms else ""), ""
    forms = [form for form in _FORMS if _all_are(cells, form)]
    if len(forms) == 2 and any("." in cell.split(" ")[0] for cell in cells):
        return _DAY, ""
    if len(forms) == 2:
        said = "dates, of which nothing says whether the day or the month comes first: dates= (--dates) says it"
        return "", said
    return (forms[0] if forms else ""), ""


def _is_texts(column: pd.Series) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_string_dtype(column.dtype)) and not isinstance(column.dtype, pd.CategoricalDtype)


def _all_are(cells: Iterable[Any], form: str) -> bool:
    return all(np.isfinite(as_days(cell, form)) for cell in cells)


def filled(column: pd.Series) -> npt.NDArray[np.bool_]:
    """Return which cells are not missing; of objects each by itself, as pandas fails on all for the sake of one."""
    if column.dtype != object:
        return column.notna().to_numpy()
    return np.fromiter((cell_kind(cell) != "missing" for cell in column.tolist()), dtype=bool, count=len(column))


def days_in(column: pd.Series, form: str) -> tuple[pd.Series, int]:
    """Return a column's dates as days since 1970-01-01 (NaN: no date), and how many cells are filled but no date."""
    import pandas as pd

    cells = column.astype(object).tolist()
    texts = {cell: as_days(cell, form) for cell in {cell for cell in cells if isinstance(cell, str)}}  # each once
    found = (texts[cell] if isinstance(cell, str) else as_days(cell, form) for cell in cells)
    values = np.fromiter(found, dtype=np.float64, count=len(cells))
    blank = np.fromiter((isinstance(cell, str) and not cell.strip() for cell in cells), dtype=bool, count=len(cells))
    made = pd.Series(values, index=column.index, name=column.name)
    return made, int(np.count_nonzero(~np.isfinite(values) & filled(column) & ~blank))


#: What pandas takes for true and false where a whole column is one or the other.
_TRUTH = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


#: Columns are of one unit where the widest public range is at most so many times the median one.
_ALIKE = 2.0


#: A range of public numbers no wider than this part of the largest is what rounding leaves of one number: in single
#: precision eight of its steps, in any other that of double precision (few steps of float16 are whole numbers apart).
_ROUNDING, _ROUNDING_SINGLE = 1e-13, 8 * float(np.finfo(np.float32).eps)


def hardly_varies(low: Any, high: Any, dtype: Any = np.float64) -> Any:
    """Whether numbers between ``low`` and ``high`` are one number but for rounding, by their own size alone.

    Nothing is said of a column that is small beside others: units may lie any number of orders apart.
    """
    part = _ROUNDING_SINGLE if np.dtype(dtype) == np.float32 else _ROUNDING
    return high - low <= part * np.maximum(np.abs(low), np.abs(high))


def of_one_unit(rows: Any) -> bool:
    """Whether all columns of public numbers look as if they were of one unit, as pixels are."""
    with np.errstate(all="ignore"):
        rows = np.asarray(rows, dtype=np.float64)
        rows = np.where(np.isfinite(rows), rows, np.nan)
        low, high = np.nanmin(rows, axis=0, initial=np.inf), np.nanmax(rows, axis=0, initial=-np.inf)
        reach = high - low
        reach = reach[np.isfinite(reach) & ~hardly_varies(low, high)]
        return bool(len(reach) and reach.max() <= _ALIKE * np.median(reach))


#: Columns count as components from so many on, where the rank correlation of their public variances with their places
#: is at most so much, and the mean square of their correlations is no more than chance gives and so much.
_FEWEST_COMPONENTS, _FALLING, _TOGETHER = 12, -0.9, 0.1


def are_components(rows: Any) -> bool:
    """Whether columns of public numbers look like principal components or singular vectors of something.

    Their variances fall from column to column, and they hardly go together. The last ones are mostly noise, which one
    scale for each column would make as loud as the first.
    """
    with np.errstate(all="ignore"):
        rows = np.asarray(rows, dtype=np.float64)
        if rows.ndim != 2 or not np.isfinite(rows).all() or (rows == np.round(rows)).all():
            return False
        rows = rows[:, ~hardly_varies(rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf))]
        n, d = rows.shape
        if d < _FEWEST_COMPONENTS:
            return False
        rows = rows / np.abs(rows).max()
        rows -= rows.mean(axis=0)
        variances = np.mean(rows**2, axis=0)
        if not np.corrcoef(np.argsort(np.argsort(variances)), np.arange(d))[0, 1] <= _FALLING:
            return False
        correlations = (rows.T @ rows) / n / np.sqrt(np.outer(variances, variances))
        together = (np.sum(correlations**2) - d) / (d * (d - 1))
        return bool(together <= _TOGETHER + 1 / n)


#: Where most columns' excess kurtosis is more, distances are those of a few rows (a normal law has 0, a lognormal 111).
_HEAVY = 10.0


def heavy_tailed(rows: Any) -> bool:
    """Whether most columns of public numbers have long tails: then their public quantiles are compared instead."""
    with np.errstate(all="ignore"):
        rows = np.where(np.isfinite(rows), rows, np.nan)
        rows = rows / np.nanmax(np.abs(rows), axis=0, initial=1e-300)
        apart = rows - np.nanmean(rows, axis=0)
        heavy = np.nanmean(apart**4, axis=0) / np.nanmean(apart**2, axis=0) ** 2 - 3 > _HEAVY
    return bool(heavy.mean() > 0.5)


def holds_numbers(dtype: Any) -> bool:
    """Whether a column's dtype is of real numbers or true/false, nullable ones included."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_complex_dtype(dtype):
        return False
    return bool(pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype))


def is_text_column(rows: Any) -> bool:
    """Whether public rows are a table of one column of texts, and no categories.

    Most of its cells have several words, and few are equal. A declared category (``astype("category")``) is one.
    """
    import pandas as pd

    if not hasattr(rows, "iloc") or getattr(rows, "ndim", 0) != 2 or rows.shape[1] != 1:
        return False
    cells = rows.iloc[:, 0].dropna()
    if holds_numbers(cells.dtype) or isinstance(cells.dtype, pd.CategoricalDtype) or not len(cells):
        return False
    several = [isinstance(cell, str) and " " in cell.strip() for cell in cells.tolist()]
    return bool(np.mean(several) > 0.5 and cells.nunique() > 0.5 * len(cells))


def column_kind(name: Any, column: pd.Series) -> str:
    """Return ``"numeric"`` (numbers, true/false) or ``"text"`` (strings, categories); refuse anything else."""
    import pandas as pd

    dtype = column.dtype
    if holds_numbers(dtype):
        return "numeric"
    held = str(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return "text"
    if not pd.api.types.is_object_dtype(dtype):
        if pd.api.types.is_string_dtype(dtype):
            return "text"
    else:  # anything at all may be in there
        held = pd.api.types.infer_dtype(column, skipna=True)
        if held in ("string", "empty", "mixed-integer", "boolean", "integer", "floating", "mixed-integer-float"):
            return "text"
        if held == "mixed" and column.dropna().map(np.isscalar).all():
            return "text"
    raise InvalidInputError(
        f"column {name!r} holds {held} values, which are neither numbers nor text. "
        "Turn it into numbers (a date into days since a fixed day), or drop it."
    )


def as_float(column: pd.Series) -> pd.Series:
    """Return a numeric column as float64, whether or not a cell is missing (NaN)."""
    import pandas as pd

    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.Series(values, index=column.index, name=column.name)


def with_float_columns(frame: pd.DataFrame, text: Collection[str] = ()) -> pd.DataFrame:
    """Return a **public** table of objects with its columns of numbers alone as float64."""
    import pandas as pd

    def converted(column: pd.Series) -> pd.Series:
        cells = column.dropna().tolist()
        plain = all(isinstance(c, numbers.Real) and not isinstance(c, bool | np.bool_) for c in cells)
        return column.map(float, na_action="ignore").astype(np.float64) if cells and plain else column

    made = [
        converted(frame.iloc[:, j]) if name not in text else frame.iloc[:, j] for j, name in enumerate(frame.columns)
    ]
    found = pd.DataFrame(dict(enumerate(made)), index=frame.index)
    found.columns = frame.columns
    return found


def as_number(cell: Any) -> float:
    """Return a cell as a number, NaN where it is none; decided by this cell alone, as a file's would be read."""
    if type(cell) is float:
        return cell
    if isinstance(cell, str):
        try:
            return float("" if "_" in cell else cell)
        except Exception:
            return _TRUTH.get(cell.strip(), float("nan"))
    if isinstance(cell, np.timedelta64):  # NumPy calls it a whole number
        return float("nan")
    if not isinstance(cell, numbers.Real | np.bool_):
        if not isinstance(cell, numbers.Complex) or cell.imag:
            return float("nan")
        cell = cell.real
    try:
        return float(cell)
    except Exception:  # a cell that raises anything is no number
        return float("nan")


def numbers_of(cells: Collection[Any]) -> npt.NDArray[np.float64]:
    """Return cells as float64, NaN where one is no number."""
    return np.fromiter(map(as_number, cells), dtype=np.float64, count=len(cells))


def as_label(cell: Any) -> Any:
    """Return the number or truth value that a text spells, and anything else as it is; decided by this cell alone."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if text in _TRUTH:
        return bool(_TRUTH[text])
    number = as_number(text)
    if not np.isfinite(number):
        return cell
    try:
        return int(text)
    except ValueError:
        return number


def as_text(column: pd.Series) -> pd.Series:
    """Return a text column as objects: strings (:func:`as_written`), and NaN where missing."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        # By category: as objects, whole numbers would turn into 1.0 as soon as any cell is missing.
        names = np.array([*map(as_written, column.cat.categories.tolist()), np.nan], dtype=object)
        return pd.Series(names[column.cat.codes.to_numpy()], index=column.index, name=column.name, dtype=object)
    cells = column.astype(object)
    return cells.map(as_written, na_action="ignore").astype(object).where(column.notna(), np.nan).astype(object)


def as_written(value: Any) -> str:
    """Return a value as text, in NFC and without outer blanks; a whole number without its ``.0``."""
    if isinstance(value, str):
        return str(canonical(value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(canonical(str(value)))


def order_key(value: Any) -> tuple[str, Any, str]:
    """Return a sort key that puts values of any types in one order, decided by the values alone."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value).__name__
    if isinstance(value, numbers.Real):
        return "number", value, kind
    return kind, value if isinstance(value, str) else repr(value), ""


# Private tables read as a public one has its columns: cell by cell, so that no cell decides what another becomes.


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
        if tidy[name].dtype == object:
            odd += joined_texts(repr(name), X[name].tolist())
        if n_odd:
            marks = f" ({THOUSANDS_UNSAID})" if kinds.get(name) == "numeric" and have_groups(X[name].tolist()) else ""
            odd.append(odd_cells(name, tidy[name], n_odd) + marks)
        elif name in kinds and name not in text and kinds[name] == "text" and numbers_alone(tidy[name].dropna()):
            odd.append(f"{name!r} holds numbers alone, where the public rows have text: is it another column? (text=)")
    if odd:
        warn_curator(file, odd)
    return pd.DataFrame(tidy, index=X.index)


_GROUPS = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(?:[., '\u2019\u00a0\u202f][0-9]{3})+(?:[.,][0-9]*)?\s*")
#: What the curator is told of such cells.
THOUSANDS_UNSAID = "some look like 5,993: what stands between thousands must be said, thousands= (--thousands)"


def have_groups(cells: Iterable[Any]) -> bool:
    """Whether a text among cells looks like a number with marks between thousands: **private** where they are."""
    return any(isinstance(cell, str) and _GROUPS.fullmatch(cell) for cell in cells)


def column_like(name: Any, column: pd.Series, kind: str) -> tuple[pd.Series, int]:
    """Return a private column as the public one's kind has it, each cell by itself, and how many cells are not so."""
    if kind.startswith(DATE):
        return days_in(column, kind.removeprefix(DATE))
    if str(column.dtype) not in ("category", "object"):
        column_kind(name, column)  # a declared type
    return numbers_in(column) if kind == "numeric" else _texts_in(column)


def odd_cells(name: Any, made: pd.Series, n_odd: int) -> str:
    """Say how many cells of a column became missing."""
    none = "" if made.notna().any() else ", and so it is empty: is it another column?"
    return f"{name!r} has {n_odd} that are not what the public rows have in it, which count as missing{none}"


def warn_curator(where: str, odd: list[str]) -> None:
    """Warn the curator, and only the curator, of cells that count as missing; of the first columns each by itself."""
    more = f"; and {len(odd) - _LISTED} columns more" if len(odd) > _LISTED else ""
    tell_curator(
        f"{where}, cells of columns: {'; '.join(odd[:_LISTED])}{more}. (This is private: do not publish it.)",
    )


def numbers_in(column: pd.Series) -> tuple[pd.Series, int]:
    """Return a column as float64 (NaN: no finite number), and how many cells are filled but no finite number."""
    import pandas as pd

    cells = column.astype(object).tolist() if not holds_numbers(column.dtype) else None
    values = as_float(column).to_numpy() if cells is None else numbers_of(cells)
    fine = np.isfinite(values)
    made = pd.Series(np.where(fine, values, np.nan), index=column.index, name=column.name)
    if cells is None:
        return made, int(np.count_nonzero(~fine & ~column.isna().to_numpy()))
    return made, sum(cell_kind(cells[i]) != "missing" for i in np.flatnonzero(~fine))


def numbers_alone(texts: Iterable[Any]) -> bool:
    """Whether all of some texts, one at least, spell finite numbers or truth values."""
    return all(found := [bool(np.isfinite(as_number(cell))) for cell in texts]) and bool(found)


def _texts_in(column: pd.Series) -> tuple[pd.Series, int]:
    import pandas as pd

    if column.dtype == object:  # one cell at a time: pandas fails on all of them for the sake of one
        cells = column.tolist()
        kinds = [cell_kind(cell) for cell in cells]
        found = [as_written(c) if kind in ("text", "number") else np.nan for c, kind in zip(cells, kinds, strict=True)]
        odd = len(kinds) - sum(kind in ("text", "number", "missing") for kind in kinds)
        return pd.Series(found, index=column.index, name=column.name, dtype=object), odd
    texts = as_text(column)
    if not holds_numbers(column.dtype):
        useful = ("text", "number", "missing")
        cells = column.astype(object).tolist()
        where = np.array([cell_kind(cell) not in useful for cell in cells], dtype=bool)
        return texts.mask(where, np.nan).astype(object), int(where.sum())
    return texts, 0


# The columns of a table that are no features: labels, owners and ids.

_WHOLE_NUMBER = re.compile(r"([+-]?)0*([0-9]+)(?:\.0*)?")


def labels_of(frame: pd.DataFrame, name: str | None, *, strict: bool, spelt: bool) -> npt.NDArray[Any] | None:
    """Return a column's values as they are in the file.

    ``strict`` refuses a missing value, which is None else; ``spelt`` takes a text for the number that it spells.
    """
    if name is None:
        return None
    if strict:
        values = _complete(frame, name, "target").to_numpy()
        # The same text whether it came as a category, as a string or as an object.
        return values.astype(object) if values.dtype.kind in "US" else values
    cells = frame[name].astype(object).where(frame[name].notna(), None).tolist()
    return np.fromiter(map(as_label, cells) if spelt else cells, dtype=object, count=len(cells))


def owners_of(frame: pd.DataFrame, name: str | None, *, strict: bool) -> npt.NDArray[Any] | None:
    """Return ids as texts; if they were numbers where all cells are, one odd id would change everyone's.

    ``strict`` refuses a missing id, which is None else.
    """
    if name is None:
        return None
    column = _complete(frame, name, "group") if strict else frame[name]
    owners = _ids(column, _owner)
    if not strict:
        owners[owners == ""] = None
    return owners


def ids_of(frame: pd.DataFrame, name: str | None) -> npt.NDArray[Any] | None:
    """Return ids to be carried along, as texts as they are written; None where a cell is empty."""
    if name is None:
        return None
    return _ids(frame[name], lambda value: as_written(value) or None)


def _ids(column: pd.Series, turn: Callable[[Any], str | None]) -> npt.NDArray[np.object_]:
    """Return what becomes of each cell, None where it is missing."""
    cells = zip(column.tolist(), column.isna().tolist(), strict=True)
    return np.fromiter((None if gone else turn(cell) for cell, gone in cells), dtype=object, count=len(column))


def _complete(frame: pd.DataFrame, name: str, role: str) -> pd.Series:
    column = frame[name]
    if column.isna().any():
        raise InvalidInputError(f"{role} column {name!r} has missing values. Fill them in, or remove those rows.")
    return column


def _owner(value: Any) -> str:
    text = as_written(value)
    number = _WHOLE_NUMBER.fullmatch(text)
    return f"{number[1].replace('+', '')}{number[2]}" if number else text
