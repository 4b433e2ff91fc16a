"""Dates as numbers: days since 1970-01-01, each cell by itself, in the form that a public column has."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

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
_EPOCH = dt.date(1970, 1, 1).toordinal()


def as_days(cell: Any, form: str) -> float:
    """Return a date as days since 1970-01-01 (with a time of day: a fraction), NaN where it is none.

    Parameters
    ----------
    cell : object
        A text, or a date or time as such. A moment with a zone is taken in UTC.
    form : {"year-first", "day-first", "month-first", "declared"}
        How texts are written; of a column that was declared to hold dates, year first.
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


def _of_time(moment: dt.datetime) -> float:
    try:
        if moment != moment:  # NaT is not itself
            return float("nan")
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
        return float((moment - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1))
    except Exception:  # at the ends of time: whatever an odd cell raises is its own matter
        return float("nan")


def date_form(column: pd.Series, order: str = "auto") -> tuple[str, str]:
    """Return the form of a **public** column's dates, empty where it holds others, and what is odd about it.

    Parameters
    ----------
    column : Series of shape (n,)
        A column declared to hold dates; or texts, of which all that are there must be dates of one form.
    order : {"auto", "day-first", "month-first", "text"}
        How texts with the year last are read. ``"auto"`` takes points as day first, and others by what the column
        shows; where both would do it stays text. ``"text"`` leaves all texts as they are.
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


def days_in(column: pd.Series, form: str) -> tuple[pd.Series, int]:
    """Return a column's dates as days since 1970-01-01, NaN where a cell is none, and how many are none but there."""
    import pandas as pd

    cells, missing = column.astype(object).tolist(), column.isna().to_numpy()
    texts = {cell: as_days(cell, form) for cell in {cell for cell in cells if isinstance(cell, str)}}  # each once
    found = (texts[cell] if isinstance(cell, str) else as_days(cell, form) for cell in cells)
    values = np.fromiter(found, dtype=np.float64, count=len(cells))
    blank = np.fromiter((isinstance(cell, str) and not cell.strip() for cell in cells), dtype=bool, count=len(cells))
    made = pd.Series(values, index=column.index, name=column.name)
    return made, int(np.count_nonzero(~np.isfinite(values) & ~missing & ~blank))
