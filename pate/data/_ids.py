"""Ids of people as bytes: equal ids give equal bytes, different ids different ones, whatever other ids there are."""

from __future__ import annotations

import datetime as dt
import math
import numbers
import uuid
import warnings
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.frames import plain_column
from pate.core.types import Mask
from pate.exceptions import CuratorWarning, InvalidInputError

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


def id_bytes(value: Any) -> bytes:
    """Return an id in one form: 1, 1.0 and ``np.int64(1)`` are one id, and ``"1"`` is another.

    Equal is what Python calls equal (as dictionaries and :func:`pandas.factorize` do). Every part stands with its kind
    and length before it, so that no two ids read the same.

    A missing id, and a kind that has no such form, is refused, and not quoted.
    """
    kind, body = _parts(value)
    return f"{kind}{len(body)}:".encode() + body


def has_id(value: Any) -> bool:
    """Whether this is the id of somebody: neither missing, nor blank, nor without a form; decided by it alone."""
    if isinstance(value, str):
        return bool(value.strip())
    try:
        id_bytes(value)
    except Exception:  # whatever an odd id raises is its own matter
        return False
    return True


def _parts(value: Any) -> tuple[str, bytes]:
    if type(value) is int:  # by far the most ids are these or texts
        return "number", str(value).encode()
    if isinstance(value, np.generic) and not isinstance(value, np.longdouble):
        # A datetime64 in nanoseconds would turn into a plain whole number.
        value = _time(value) if value.dtype.kind in "mM" else value.item()
    if isinstance(value, str):
        return "text", value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return "bytes", value
    if isinstance(value, numbers.Real | Decimal):
        return "number", _number(value)
    if isinstance(value, uuid.UUID):
        return "uuid", value.bytes
    if isinstance(value, tuple):
        return "tuple", b"".join(id_bytes(part) for part in value)
    if isinstance(value, dt.datetime | dt.timedelta):
        return _time_parts(_time(value))
    if isinstance(value, dt.date):
        return "date", value.isoformat().encode()
    raise InvalidInputError(
        f"groups has ids of type {type(value).__name__}, which have no form of their own that is the same in every "
        "run. Use texts or whole numbers."
    )


def _number(value: Any) -> bytes:
    if isinstance(value, numbers.Integral):
        return str(int(value)).encode()
    if not math.isfinite(value):
        if value != value:
            raise InvalidInputError("groups has missing ids (NaN). Give every record an owner or drop it.")
        return str(float(value)).encode()
    top, bottom = value.as_integer_ratio()
    return (f"{top}" if bottom == 1 else f"{top}/{bottom}").encode()


def _time(value: Any) -> Any:
    import pandas as pd

    try:
        made = (pd.Timestamp if isinstance(value, np.datetime64 | dt.datetime) else pd.Timedelta)(value)
        return made.as_unit("ns")
    except (ValueError, OverflowError):
        raise InvalidInputError(
            "groups has dates that are out of range. Use texts such as 2020-01-31, or whole numbers."
        ) from None


def _time_parts(value: Any) -> tuple[str, bytes]:
    if value != value:  # NaT
        raise InvalidInputError("groups has missing ids (NaT). Give every record an owner or drop it.")
    if not hasattr(value, "tz"):
        return "duration", str(value.value).encode()
    # Times with a zone are equal when they are the same moment; never to one without.
    zone = "" if value.tz is None else " UTC"
    return "time", f"{value.value}{zone}".encode()


def distinct_ids(groups: Any, n_records: int) -> tuple[npt.NDArray[np.intp], list[bytes]]:
    """Return each record's group as a number, shape (n_records,), and every group's id as bytes.

    Refuses another length, a missing id, and ids that cannot be told apart in every run.
    """
    import pandas as pd

    values = groups = plain_column(groups, name="groups")
    if not hasattr(groups, "dtype"):  # one by one: numpy would make a table of ids that are tuples
        given = list(groups)
        values = np.fromiter(given, dtype=object, count=len(given))
    if getattr(values, "ndim", 1) != 1 or len(values) != n_records:
        raise InvalidInputError(
            f"groups must have shape ({n_records},), one id per record, got {np.shape(values)}. "
            "Pass the column that names each record's owner."
        )
    try:
        # Objects as they are: pandas' own type of text takes time, and refuses some (lone surrogates).
        plain = isinstance(values, pd.Series | pd.Index) or values.dtype == np.dtype(object)
        codes, unique = pd.factorize(values if plain else pd.Series(values))
    except TypeError:
        raise InvalidInputError("groups has ids that cannot be compared. Use texts or whole numbers.") from None
    if (codes < 0).any() or any(isinstance(u, str) and not u.strip() for u in unique):
        raise InvalidInputError(
            "groups has missing ids (None, NaN or empty). Give every record an owner or drop it: "
            "a record of unknown owner could put one person into two shards."
        )
    ids = [id_bytes(value) for value in unique.tolist()]
    places: dict[bytes, int] = {}
    merged = np.array([places.setdefault(one, len(places)) for one in ids], dtype=np.intp)
    return merged[codes], list(places)  # one moment written in two ways is one id
