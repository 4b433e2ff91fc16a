"""Checks of arguments; each failure names the value, what is allowed and the remedy."""

from __future__ import annotations

import datetime
import difflib
import math
import numbers
import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError, PateError

_T = TypeVar("_T")


class CellKindError(InvalidInputError, TypeError):
    """A cell is neither a number nor a text: a wrong value, and a wrong type."""


def quietly(name: str, read: Callable[..., _T], *args: Any, **options: Any) -> _T:
    """Return ``read(*args, **options)`` of the caller's data; what a library says of a failure is not passed on.

    NumPy, pandas and scikit-learn quote the cell that they stumble over (``could not convert string to float: 'Ms
    Smith'``), in errors and in warnings. Only the kind of the error is given; it is neither cause nor context of ours.
    A refusal of public rows names them: inside, ``X`` means what is read, whoever's argument it was.
    """
    kind = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(*args, **options)
    except PateError as error:
        refusal: Exception = error
        if name == "X_public":  # what reads rows of either kind calls them X
            text = re.sub(r"\bX\b", name, str(error))
            error.args = (text if name in text else f"{name}: {text}",)
    except Exception as error:
        kind = type(error).__name__
    if kind:
        refusal = InvalidInputError(
            f"{name} cannot be read ({kind}). The library's own words are withheld, as they may quote private cells: "
            "look for cells of another kind than the rest of their column."
        )
    # Out here nothing is being handled, so that no traceback, however it is printed, has more to tell.
    refusal.__cause__ = refusal.__context__ = None
    raise refusal


#: Longer texts are compared as they are, but for outer blanks.
_LONGEST_NFC = 10_000


def canonical(value: Any) -> Any:
    """Return a text in the form in which texts are compared: NFC, without outer blanks; anything else as it is.

    So are the texts in a tuple; a text of more than 10,000 characters keeps its Unicode form. A function of the value
    alone: no other record decides what is joined.
    """
    if not isinstance(value, str):
        return tuple(map(canonical, value)) if isinstance(value, tuple) else value
    # By str's own methods: a text's type may have others. NFC of many combining marks takes quadratic time.
    as_it_is = str.isascii(value) or len(value) > _LONGEST_NFC
    return str.strip(value if as_it_is else unicodedata.normalize("NFC", value))


def folded(text: str) -> str:
    """Return a text without case, in compatibility form (Unicode NFKC): one for full-width letters and plain ones."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def one_spelling(values: Iterable[Any]) -> list[Any]:
    """Return values in their order, of texts that are equal when compared one: in canonical form if it is there.

    Examples
    --------
    >>> one_spelling(["no", "no ", " yes", 1])
    ['no', ' yes', 1]
    """
    found: dict[Any, Any] = {}
    for value in values:
        form = canonical(value)
        found[form] = value if value == form else found.get(form, value)
    return list(found.values())


def largest_of(*values: float) -> float:
    """Return the largest of some costs or sensitivities; one that is not a number is refused, never passed over.

    ``max(0.0, nan)`` is 0.0: what could not be computed would count as nothing.

    Raises
    ------
    InvalidInputError
        One of them is NaN.
    """
    return max(map(_known, values))


def least_of(*values: float) -> float:
    """Return the least of some bounds; one that is not a number is refused, wherever it stands (:func:`largest_of`)."""
    return min(map(_known, values))


def _known(value: float) -> float:
    if value != value:  # NaN alone; whole numbers beyond floats and what is no number at all are not this check's
        raise InvalidInputError(
            "a cost came out as no number: these settings are beyond what floats hold. Take less extreme noise, "
            "thresholds or orders."
        )
    return value


def cell_kind(cell: Any) -> str:
    """Return ``"number"``, ``"text"``, ``"missing"``, or what else a cell is."""
    if isinstance(cell, str):
        return "text"
    if isinstance(cell, bool | np.bool_):
        return "number"
    kind = type(cell).__name__
    if cell is None or cell is np.ma.masked or kind in ("NAType", "NaTType"):
        return "missing"
    if isinstance(cell, np.datetime64 | np.timedelta64):  # the latter is a whole number to NumPy
        return "missing" if np.isnat(cell) else "datetime"
    if isinstance(cell, numbers.Real):
        return "missing" if cell != cell else "number"
    if isinstance(cell, numbers.Complex):
        return "complex"
    if isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
        return "datetime"
    return kind


def unmasked(name: str, values: Any) -> Any:
    """Return the values of a masked array; a masked cell is a missing one, and missing ones are refused here.

    ``np.asarray`` would show what the mask hides.
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if np.ma.getmaskarray(values).any():
        raise InvalidInputError(f"{name} has masked cells, which are missing values. Fill them in, or drop those rows.")
    return values.data


def check_labels(name: str, y: Any, n_records: int | None = None) -> npt.NDArray[Any]:
    """Return class values as an array of shape (n,): numbers or texts, none of them missing.

    Parameters
    ----------
    name : str
        What to call ``y`` in an error.
    y : array-like of shape (n,)
        A masked cell, None and NaN are missing.
    n_records : int or None
        How many there must be.
    """
    return quietly(name, _labels, name, y, n_records)


def _labels(name: str, y: Any, n_records: int | None) -> npt.NDArray[Any]:
    if y is None:
        raise InvalidInputError(f"{name} must be given: one class value per row, got None.")
    y = unmasked(name, y)
    array = np.asarray(y)
    if isinstance(y, list | tuple) and array.ndim == 1 and array.dtype.kind in "US":
        array = np.empty(len(y), dtype=object)  # NumPy would turn 1 beside "a" into a text
        array[:] = y
    if array.ndim != 1 or (n_records is not None and len(array) != n_records):
        wanted = "n" if n_records is None else n_records
        lengths = " X and y have inconsistent numbers of samples." if array.ndim == 1 else ""
        several = " For several labels, a column each, fit pate.PATEMultilabelClassifier." if array.ndim == 2 else ""
        raise InvalidInputError(
            f"{name} must have shape ({wanted},), one class per row of X, got {array.shape}.{lengths}{several}"
        )
    remedy = "Pass numbers or texts: one class value per row."
    if array.dtype.kind in "mMcV":
        held = {"c": "complex", "V": "structured"}.get(array.dtype.kind, "datetime")
        raise CellKindError(f"{name} holds {held} values. {remedy}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidInputError(f"{name} holds NaN or infinity. Remove those rows or give them a class.")
    if array.dtype.kind == "O":
        kinds = {cell_kind(cell) for cell in array.tolist()}
        if "missing" in kinds:
            raise InvalidInputError(f"{name} holds missing values. Remove those rows or give them a class.")
        odd = sorted(kinds - {"number", "text", "bytes"})
        if odd:
            raise CellKindError(f"{name} holds {', '.join(odd)} values. {remedy}")
    return array


def shown(value: Any) -> str:
    """Return a setting's repr for an error; of anything that could be data (an array, a table) its type alone.

    Who mixes up two arguments hands over votes for a number, and no error may quote those.

    Examples
    --------
    >>> shown(2.5), shown("adam"), shown(np.ones((2, 2))), shown([[12, 3]])
    ('2.5', "'adam'", 'a ndarray', 'a list')
    """
    if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf":
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:77]}..."
    return f"a {type(value).__name__}"


def check_real(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
    remedy: str = "",
) -> float:
    """Return ``value`` as a finite float within the interval."""
    ok = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_) and math.isfinite(value)
    if ok:
        ok = (value > low if low_open else value >= low) and (value < high if high_open else value <= high)
    if not ok:
        bounds = []
        if low > -math.inf:
            bounds.append(f"{'>' if low_open else '>='} {low:g}")
        if high < math.inf:
            bounds.append(f"{'<' if high_open else '<='} {high:g}")
        allowed = " and ".join(bounds)
        text = f"{name} must be a finite number{' ' + allowed if allowed else ''}, got {shown(value)}."
        raise InvalidInputError(f"{text} {remedy}".rstrip())
    return float(value)


def check_int(name: str, value: Any, *, low: int | None = None, high: int | None = None, remedy: str = "") -> int:
    """Return ``value`` as an int within the bounds."""
    ok = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    if ok:
        ok = (low is None or value >= low) and (high is None or value <= high)
    if not ok:
        bounds = ([f">= {low}"] if low is not None else []) + ([f"<= {high}"] if high is not None else [])
        allowed = " and ".join(bounds)
        text = f"{name} must be a whole number{' ' + allowed if allowed else ''}, got {shown(value)}."
        if isinstance(value, np.random.RandomState | np.random.Generator):
            draw = "integers" if isinstance(value, np.random.Generator) else "randint"
            remedy = (
                "What a generator gives depends on earlier draws; the same must come out on any number of workers and "
                f"after a kill. Pass a number drawn from it: {name}=int(rng.{draw}(2**31))."
            )
        raise InvalidInputError(f"{text} {remedy}".rstrip())
    return int(value)


def check_path(name: str, value: Any, *, remedy: str = "") -> Any:
    """Return ``value`` if it is a path, or a text that may be one.

    Examples
    --------
    >>> check_path("out", 5)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: out must be a path, a str or a pathlib.Path, got 5.
    """
    if not isinstance(value, str | os.PathLike):
        text = f"{name} must be a path, a str or a pathlib.Path, got {shown(value)}."
        raise InvalidInputError(f"{text} {remedy}".rstrip())
    return value


def as_names(name: str, value: Any) -> tuple[str, ...]:
    """Return names of columns as they are compared (:func:`canonical`): one is a text, several are a list of texts.

    Examples
    --------
    >>> as_names("drop", "ward"), as_names("drop", ["ward", "bed"])
    (('ward',), ('ward', 'bed'))
    """
    if not isinstance(value, str | Iterable):
        raise InvalidInputError(f"{name} must be the name of a column or a list of names, got {shown(value)}.")
    return canonical((value,) if isinstance(value, str) else tuple(value))


def did_you_mean(said: Any, known: Iterable[Any]) -> str:
    """Return a question that names the nearest known word, with a space before it; empty where none is near."""
    words = [word for word in known if isinstance(word, str)]
    near = [word for word in words if folded(word) == folded(said)] if isinstance(said, str) else []
    near = near or (difflib.get_close_matches(said, words, n=1) if isinstance(said, str) else [])
    return f" Did you mean {near[0]!r}?" if near else ""


def check_bounds(bounds: Any, *, name: str = "target_range") -> tuple[float, float]:
    """Return the stated range of a target as two finite numbers, the lower first.

    Examples
    --------
    >>> check_bounds((0, 120))
    (0.0, 120.0)
    >>> check_bounds((120, 0))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: target_range must have the lower number first, got (120, 0). Swap them.
    """
    fine = isinstance(bounds, tuple | list | np.ndarray) and len(bounds) == 2
    try:
        low, high = map(float, bounds) if fine else (np.nan, np.nan)
    except (TypeError, ValueError):
        low = high = np.nan
    if not np.isfinite([low, high]).all():
        raise InvalidInputError(
            f"{name} must be (low, high), two finite numbers that the target lies between, got {bounds!r:.60}. Say "
            "them from public knowledge, wider rather than narrower: a hundred times too wide costs little."
        )
    if not low < high:
        raise InvalidInputError(f"{name} must have the lower number first, got ({low:g}, {high:g}). Swap them.")
    return low, high


def check_choice(name: str, value: Any, allowed: Iterable[str], *, remedy: str = "") -> str:
    """Return ``value`` if it is one of ``allowed``."""
    names = list(allowed)
    if value not in names:
        text = f"{name} must be one of {', '.join(map(repr, names))}, got {shown(value)}."
        raise InvalidInputError(f"{text}{did_you_mean(value, names)} {remedy}".rstrip())
    return str(value)


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Return the public set of classes as a tuple of at least two distinct plain values."""
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise InvalidInputError(
            f"classes must list at least two distinct class values, got {shown(classes)}. "
            "Pass a list such as classes=range(10) or classes=['no', 'yes']."
        )
    values = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    if len(values) < 2 or len(set(values)) != len(values):
        # Not the values: a caller who passes y itself would read private labels.
        given = list(values) if len(values) < 2 else f"{len(values)} values, some of them twice"
        raise InvalidInputError(
            f"classes must list at least two distinct class values, got {given}. "
            "The set of classes is public knowledge: name every class that could occur, each once."
        )
    check_spellings("classes", values)
    return values


def check_spellings(name: str, values: Sequence[Any]) -> None:
    """Refuse public values of which two differ, but are equal when compared (:func:`canonical`)."""
    forms = list(map(canonical, values))
    if len(set(forms)) < len(forms):
        one, other = next(
            [v for v, f in zip(values, forms, strict=True) if f == form] for form in forms if forms.count(form) > 1
        )[:2]
        raise InvalidInputError(
            f"{name} must differ by more than outer blanks or Unicode form, got {one!r} and {other!r}, which are "
            "compared as equal. Leave one out, or rename it."
        )


#: Distinct numbers that labels may have before they are taken for amounts: more are no classes ...
_MOST_NUMBERS = 50
#: ... and so few are, however few records have each.
_FEW_NUMBERS = 20


def check_no_amounts(name: str, values: Any, n_records: int, *, named: str = "classes=") -> None:
    """Refuse classes that were read off private labels and are many numbers: an amount is no class.

    Notes
    -----
    **Guarantees.** For labels whose classes are not named, alone: their set would become public whole, which every
    record decides and a warning tells. Whether it is many numbers is a bit of that set; it is shown to the person who
    holds the records, before anything is trained or charged. Where classes are named this is never asked.
    """
    n = sum(isinstance(v, numbers.Real) and not isinstance(v, bool | np.bool_) for v in values)
    if n > _FEW_NUMBERS and (n > _MOST_NUMBERS or n_records < 10 * n):
        raise InvalidInputError(
            f"{name} holds many different numbers, as an amount does: that is regression, and labels are classes. "
            "Every number would become public. Predict the number itself: pate.PATERegressor, or --numeric --range "
            f"LOW,HIGH. Or cut it into ranges beforehand; or, if these are codes, name them all: {named}."
        )
