"""Frozen values that check themselves: every field by its type, whether it comes from Python or from JSON.

The texts of these errors carry names, never values: a value that does not belong may be a private one.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from types import UnionType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from pate._core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.release.statement.fields import CitedAudit
from pate.release.statement.model import PrivacyStatement

#: What stands in JSON by itself.
Scalar = str | int | float | bool | None
#: A scalar, or a few.
Setting = Scalar | tuple[Scalar, ...]
_LONGEST_SETTING = 32  # entries; a list of votes does not fit


@dataclass(frozen=True)
class Record:
    """A value with fields of plain types, of other records, and of tuples and dictionaries of them."""

    #: What an error calls it.
    _name: ClassVar[str] = "record"

    def __post_init__(self) -> None:
        for f, kind in _fields(type(self)):
            value = _read(f"{self._name}[{f.name!r}]", kind, getattr(self, f.name), f.metadata.get("remedy", ""))
            object.__setattr__(self, f.name, value)
            if "among" in f.metadata:
                check_choice(f"{self._name}[{f.name!r}]", value, f.metadata["among"])
        self._check()

    def _check(self) -> None:
        """Refuse fields that do not go together."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "") -> Self:
        """Return the record behind JSON values; a field with a default may be absent or None.

        Raises
        ------
        InvalidInputError
            A name that is not known, or a value of another type.
        """
        where = where or cls._name
        own = _fields(cls)
        needed = [f.name for f, _ in own if f.default is MISSING and f.default_factory is MISSING]
        _check_keys(where, values, [f.name for f, _ in own], needed)
        # Read here as well, where an error still knows the way down to the value.
        made = {
            f.name: _read(f"{where}[{f.name!r}]", kind, values[f.name], f.metadata.get("remedy", ""))
            for f, kind in own
            if f.name in needed or values.get(f.name) is not None
        }
        return cls(**made)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, without rare ones that have their default."""
        values = {f.name: getattr(self, f.name) for f, _ in _fields(type(self)) if not _left_out(f, self)}
        return {name: _plain(value) for name, value in values.items()}


def one_of(allowed: Iterable[str], *, is_rare: bool = False, **default: str) -> Any:
    """Return a field whose text is one of a few."""
    return field(metadata={"among": allowed, "rare": is_rare}, **default)  # type: ignore[call-overload]


def rare() -> Any:
    """Return a field that is None mostly, and then left out of JSON."""
    return field(default=None, metadata={"rare": True})


def _left_out(f: Field[Any], record: Record) -> bool:
    return bool(f.metadata.get("rare")) and getattr(record, f.name) == f.default


@dataclass(frozen=True, repr=False)
class PrivateRecord(Record):
    """A record that shows nothing of what is in it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<sensitive>)"


def _fields(cls: type[Record]) -> list[tuple[Field[Any], Any]]:
    hints = get_type_hints(cls)
    return [(f, hints[f.name]) for f in fields(cls)]


def _read(where: str, kind: Any, value: Any, remedy: str = "") -> Any:
    """Return a value of the kind that a field's annotation names, or refuse it."""
    outer, inner = get_origin(kind), get_args(kind)
    if kind == Setting and isinstance(value, list | tuple) and len(value) <= _LONGEST_SETTING:
        return tuple(_read(where, Scalar, entry) for entry in value)
    if kind in (Scalar, Setting):
        if value is None or isinstance(value, str | bool) or is_number(value):
            return value
        raise InvalidInputError(f"{where} must be text, a finite number, a truth value or None. Convert it first.")
    if outer is UnionType:  # something or None
        return None if value is None else _read(where, inner[0], value, remedy)
    if outer is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidInputError(f"{where} must be a list of plain values. {remedy or 'Convert it with .tolist().'}")
        return tuple(_read(f"{where}[{i}]", inner[0], entry) for i, entry in enumerate(value))
    if outer is dict:
        return {key: _read(f"{where}[{key!r}]", inner[1], entry) for key, entry in _mapping(where, value).items()}
    if kind in _PLAIN:
        must, fits = _PLAIN[kind]
        if not fits(value):
            raise InvalidInputError(f"{where} must be {must} {remedy}".rstrip())
        return value if isinstance(value, str | bool | int | float) else kind(value)
    if isinstance(value, kind):
        return value
    if kind is PrivacyStatement:
        return _statement(where, value)
    if kind is Budget:
        _check_keys(where, value, ["epsilon", "delta"], ["epsilon", "delta"])
        try:
            return Budget(value["epsilon"], value["delta"])
        except InvalidInputError:
            raise InvalidInputError(
                f"{where} must be a budget: epsilon and delta above 0, delta at most 0.1. Pass the run's own."
            ) from None
    return kind.from_dict(value, where=where)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a finite number (a truth value is none)."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


#: What a field of a plain type must be, and what is that.
_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("text. Convert it with str().", lambda value: isinstance(value, str)),
    bool: ("True or False.", lambda value: isinstance(value, bool)),
    int: ("a whole number.", lambda value: isinstance(value, numbers.Integral) and is_number(value)),
    float: ("a finite number.", is_number),
}


def _statement(where: str, value: Any) -> PrivacyStatement:
    """Return the statement behind its JSON, as strictly as its own file is read: an edited one is refused."""
    promise = _mapping(where, value).get("guarantee")
    if isinstance(promise, Mapping) and promise.get("kind") not in ("public", "sanitised", "seeded"):
        raise InvalidInputError(
            f"{where}['guarantee']['kind'] must be 'public' or 'sanitised' ('seeded' for noise that protects no one): "
            "another epsilon is private. Pass the public guarantee."
        )
    return PrivacyStatement.from_dict(value)


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError(f"{where} must be a dictionary with text keys.")
    return value


def _check_keys(where: str, value: Any, allowed: list[str], needed: list[str]) -> None:
    unknown = [key for key in _mapping(where, value) if key not in allowed]
    if unknown:
        raise InvalidInputError(
            f"{where} has the key {unknown[0]!r}, which no report knows. Allowed: {', '.join(allowed)}. "
            "What is made from private votes belongs in write_sensitive_report's own dictionary."
        )
    missing = [key for key in needed if key not in value]
    if missing:
        raise InvalidInputError(f"{where} lacks the key {missing[0]!r}. Add it; required: {', '.join(needed)}.")


def _plain(value: Any) -> Any:
    if isinstance(value, Record | PrivacyStatement | CitedAudit):
        return value.to_dict()
    if isinstance(value, Budget):
        return {"epsilon": value.epsilon, "delta": value.delta}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return {key: _plain(entry) for key, entry in value.items()} if isinstance(value, dict) else value


# A public image, small enough to stand in a result, and what was released of it.


@dataclass(frozen=True, kw_only=True)
class Example(Record):
    """A public image and what was released of it."""

    _name = "example"
    image: tuple[str, ...]  # its lines from above, a digit for each point: 0 for none, 9 for most
    label: Scalar  # the class value released; None where none was
    confidence: float | None = None  # its probability by the released model
    lead: float | None = None  # noisy votes of the first class minus the second, where counts were released

    def _check(self) -> None:
        widths = {len(line) for line in self.image}
        plain = all(line.isascii() and line.isdecimal() for line in self.image)
        if not plain or len(widths) != 1 or max(*widths, len(self.image)) > 64:
            raise InvalidInputError(
                f"{self._name} must have lines of equal length, of digits alone, at most 64 by 64. "
                "Take a smaller image."
            )
