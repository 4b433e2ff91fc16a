"""Checks at the door: each failure names the value, what is allowed and the remedy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError


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
    """Return ``value`` as a finite float within the interval.

    Examples
    --------
    >>> check_real("sigma", -1, low=0, low_open=True, remedy="Use the noise's standard deviation.")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: sigma must be a finite number > 0, got -1. Use the noise's standard deviation.
    """
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
        text = f"{name} must be a finite number{' ' + allowed if allowed else ''}, got {value!r}."
        raise InvalidInputError(f"{text} {remedy}".rstrip())
    return float(value)


def check_int(name: str, value: Any, *, low: int | None = None, high: int | None = None, remedy: str = "") -> int:
    """Return ``value`` as an int within the bounds.

    Examples
    --------
    >>> check_int("n_teachers", 2.5, low=1)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_teachers must be a whole number >= 1, got 2.5.
    """
    ok = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    if ok:
        ok = (low is None or value >= low) and (high is None or value <= high)
    if not ok:
        bounds = ([f">= {low}"] if low is not None else []) + ([f"<= {high}"] if high is not None else [])
        allowed = " and ".join(bounds)
        text = f"{name} must be a whole number{' ' + allowed if allowed else ''}, got {value!r}."
        raise InvalidInputError(f"{text} {remedy}".rstrip())
    return int(value)


def check_choice(name: str, value: Any, allowed: Iterable[str], *, remedy: str = "") -> str:
    """Return ``value`` if it is one of ``allowed``.

    Examples
    --------
    >>> check_choice("protocol", "mine", ["paper", "standard"])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: protocol must be one of 'paper', 'standard', got 'mine'.
    """
    names = list(allowed)
    if value not in names:
        text = f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}."
        raise InvalidInputError(f"{text} {remedy}".rstrip())
    return str(value)


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Return the public set of classes as a tuple of at least two distinct plain values.

    Examples
    --------
    >>> check_classes(range(3))
    (0, 1, 2)
    >>> check_classes(["sick"])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: classes must list at least two distinct class values, got ['sick']. ...
    """
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise InvalidInputError(
            f"classes must list at least two distinct class values, got {classes!r}. "
            "Pass a list such as classes=range(10) or classes=['no', 'yes']."
        )
    values = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    if len(values) < 2 or len(set(values)) != len(values):
        raise InvalidInputError(
            f"classes must list at least two distinct class values, got {list(values)!r}. "
            "The set of classes is public knowledge: name every class that could occur, each once."
        )
    return values


def encode_labels(name: str, y: Any, classes: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Map class values to their index in ``classes``; refuse anything else.

    Parameters
    ----------
    name : str
        What to call ``y`` in an error.
    y : array-like of shape (n,)
    classes : sequence of class values

    Examples
    --------
    >>> encode_labels("y", ["b", "a"], ("a", "b"))
    array([1, 0])
    >>> encode_labels("y", ["b", "c"], ("a", "b"))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: y holds values outside classes=('a', 'b'). ...
    """
    array = np.asarray(y)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must have shape (n,), got {array.shape}. Pass one class per row.")
    # Sorting the classes as the array's own type keeps 1, 1.0 and np.int8(1) the same class.
    try:
        keys = np.asarray(list(classes), dtype=array.dtype if array.dtype.kind in "biuf" else None)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidInputError(f"{name} holds NaN or infinity. Remove those rows or give them a class.")
        if list(keys.tolist()) != list(classes):
            raise TypeError
        order = np.argsort(keys, kind="stable")
        found = np.clip(np.searchsorted(keys, array, sorter=order), 0, len(keys) - 1)
        index = order[found]
        bad = keys[index] != array
    except InvalidInputError:
        raise
    except (TypeError, ValueError):
        position = {c: i for i, c in enumerate(classes)}
        index = np.array([position.get(v, -1) for v in array.tolist()], dtype=np.int64)
        bad = index < 0
    if bad.any():
        raise InvalidInputError(
            f"{name} holds values outside classes={tuple(classes)!r}. "
            "Name every class in classes=, or clean the column."
        )
    return np.asarray(index, dtype=np.int64)
