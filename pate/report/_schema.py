"""What a report may hold: every name is listed, every value plain, and anything else is refused before it is shown.

The texts of these errors carry names, never values: a value that does not belong may be a private one.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.statement.model import PrivacyStatement

#: The public dictionary.
RESULT = (
    "kind", "title", "dataset", "protocol", "description", "command", "created", "versions", "commit", "classes",
    "settings", "budget", "rows", "answers_per_class", "cost_curve", "statement", "notes",
)  # fmt: skip
#: The curator's dictionary.
SENSITIVE = (
    "references", "margins", "n_teachers", "teacher_accuracy", "ensemble_curve", "data_dependent", "label_accuracy",
    "seconds", "notes",
)  # fmt: skip

_TEXTS = ("title", "dataset", "protocol", "description", "command", "created", "commit")
_PRIVATE_NAMES = frozenset(SENSITIVE) - {"n_teachers", "notes"}
_LONGEST_SETTING = 32  # entries; a list of votes does not fit


def is_number(value: Any) -> bool:
    """Whether ``value`` is a finite number (a truth value is none).

    Examples
    --------
    >>> is_number(0.5), is_number(True), is_number(float("nan"))
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def check_result(result: Mapping[str, Any]) -> None:
    """Refuse a public dictionary with an unknown name or a value that is not plain.

    Raises
    ------
    InvalidInputError

    Examples
    --------
    >>> check_result({"kind": "run", "title": "A run", "rows": [], "teacher_accuracy": [0.9]})
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: result has the key 'teacher_accuracy', which no report knows. Allowed: ...
    """
    _keys("result", result, RESULT, required=("kind", "title", "rows"))
    if result["title"] is None or result["rows"] is None:
        raise InvalidInputError(
            "result['title'] and result['rows'] must not be None. Pass rows=[] where none were measured."
        )
    check_choice("result['kind']", result["kind"], ("run", "comparison"))
    for name in _TEXTS:
        if not isinstance(result.get(name, ""), str | None):
            raise InvalidInputError(f"result[{name!r}] must be text. Convert it with str().")
    _list_of("result['notes']", result.get("notes"), str)
    _list_of("result['classes']", result.get("classes"), object)
    for i, name in enumerate(result.get("classes") or ()):
        _scalar(f"result['classes'][{i}]", name)
    for group in ("versions", "settings"):
        for name, value in _mapping(f"result[{group!r}]", result.get(group) or {}).items():
            where = f"result[{group!r}][{name!r}]"
            if name in _PRIVATE_NAMES:
                raise InvalidInputError(f"{where} is made from private votes. Leave it to the sensitive report.")
            if group == "settings" and isinstance(value, list | tuple) and len(value) <= _LONGEST_SETTING:
                for entry in value:
                    _scalar(where, entry)
            else:
                _scalar(where, value)
    if result.get("budget") is not None:
        _numbers("result['budget']", result["budget"], ("epsilon", "delta"))
    _list_of("result['rows']", result["rows"], Mapping)
    for i, row in enumerate(result["rows"]):
        _row(f"result['rows'][{i}]", row)
    counts = result.get("answers_per_class")
    _list_of("result['answers_per_class']", counts, numbers.Integral)
    if counts is not None and len(counts) != len(result.get("classes") or ()):
        raise InvalidInputError(
            f"result['answers_per_class'] must have one count for each of result['classes'], got {len(counts)} for "
            f"{len(result.get('classes') or ())}. Count every class, 0 too."
        )
    if result.get("cost_curve") is not None:
        _cost_curve("result['cost_curve']", result["cost_curve"])
    read_statement(result.get("statement"))


def check_sensitive(sensitive: Mapping[str, Any]) -> None:
    """Refuse a curator's dictionary that the sensitive report cannot show.

    Raises
    ------
    InvalidInputError

    Examples
    --------
    >>> check_sensitive({"margins": [3, 4]})
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: sensitive['n_teachers'] must be a whole number >= 1 beside the margins. ...
    """
    _keys("sensitive", sensitive, SENSITIVE)
    _list_of("sensitive['margins']", sensitive.get("margins"), numbers.Integral)
    if sensitive.get("margins"):
        teachers = sensitive.get("n_teachers")
        if not isinstance(teachers, numbers.Integral) or teachers < 1:
            raise InvalidInputError(
                "sensitive['n_teachers'] must be a whole number >= 1 beside the margins. Pass votes.n_teachers."
            )
        if not all(0 <= margin <= teachers for margin in sensitive["margins"]):
            raise InvalidInputError(
                "sensitive['margins'] must be votes of the first class minus the second, between 0 and n_teachers. "
                "Take both from the same votes."
            )
    _list_of("sensitive['teacher_accuracy']", sensitive.get("teacher_accuracy"), numbers.Real)
    if sensitive.get("ensemble_curve") is not None:
        _ensemble_curve("sensitive['ensemble_curve']", sensitive["ensemble_curve"])
    _list_of("sensitive['notes']", sensitive.get("notes"), str)
    for group, texts, figures in (
        ("references", ("name",), ("accuracy", "seed")),
        ("label_accuracy", (), ("accuracy", "seed")),
        ("seconds", ("name",), ("seconds", "seed")),
        ("data_dependent", ("label", "method", "use"), ("epsilon", "delta")),
    ):
        _list_of(f"sensitive[{group!r}]", sensitive.get(group), Mapping)
        for i, row in enumerate(sensitive.get(group) or ()):
            where = f"sensitive[{group!r}][{i}]"
            _keys(where, row, texts + figures, required=texts + figures)
            _numbers(where, {name: row[name] for name in figures}, figures)
            for name in texts:
                _list_of(f"{where}[{name!r}]", [row[name]], str)


def read_statement(statement: Mapping[str, Any] | None) -> PrivacyStatement | None:
    """Return the statement behind its dictionary, as strictly as its own page reads it: an edited one is refused.

    Examples
    --------
    >>> from pate.privacy.words import Guarantee
    >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
    >>> s = PrivacyStatement(released="labels", unit="record", n_units=9, mechanism="m", guarantee=g, accounting="GDP")
    >>> read_statement(s.to_dict()) == s
    True
    """
    if statement is None:
        return None
    promise = _mapping("result['statement']", statement).get("guarantee")
    if isinstance(promise, Mapping) and promise.get("kind") not in ("public", "sanitised", "seeded"):
        raise InvalidInputError(
            "result['statement']['guarantee']['kind'] must be 'public' or 'sanitised' ('seeded' for noise that "
            "protects nobody): another epsilon is private. Pass the public guarantee."
        )
    return PrivacyStatement.from_dict(statement)


def _row(where: str, row: Mapping[str, Any]) -> None:
    required = ("contestant", "epsilon", "delta", "accuracy", "seed")
    _keys(where, row, (*required, "queries", "answers"), required=required)
    _list_of(f"{where}['contestant']", [row["contestant"]], str)
    for name in ("epsilon", "delta", "accuracy"):
        if not is_number(row[name]):
            raise InvalidInputError(
                f"{where}[{name!r}] must be a finite number. A contestant without a guarantee is private: "
                "put it into the sensitive report's references."
            )
    for name in ("queries", "answers", "seed"):
        if row.get(name) is not None and not is_number(row[name]):
            raise InvalidInputError(f"{where}[{name!r}] must be a finite number or None.")


def _cost_curve(where: str, cost: Mapping[str, Any]) -> None:
    _keys(where, cost, ("curves", "spent"), required=("curves",))
    _list_of(f"{where}['curves']", cost["curves"], Mapping)
    if not cost["curves"]:
        raise InvalidInputError(f"{where}['curves'] must not be empty. Pass cost_curve=None to leave the picture out.")
    for i, curve in enumerate(cost["curves"]):
        at = f"{where}['curves'][{i}]"
        _keys(at, curve, ("label", "queries", "epsilon"), required=("label", "queries", "epsilon"))
        _list_of(f"{at}['label']", [curve["label"]], str)
        _list_of(f"{at}['queries']", curve["queries"], numbers.Integral)
        _list_of(f"{at}['epsilon']", curve["epsilon"], numbers.Real)
        if len(curve["queries"]) != len(curve["epsilon"]):
            raise InvalidInputError(f"{at} must have one epsilon for each number of queries.")
    if cost.get("spent") is not None:
        _numbers(f"{where}['spent']", cost["spent"], ("queries", "epsilon"))


def _ensemble_curve(where: str, curve: Any) -> None:
    lists, figures = ("n_teachers", "accuracy", "low", "high"), ("n_rows", "n_draws")
    _keys(where, curve, (*lists, *figures, "clear", "margin_noise"), required=(*lists, *figures))
    _numbers(where, {name: curve[name] for name in figures}, figures)
    noisy = curve.get("clear") is not None
    for name in (*lists, "clear") if noisy else lists:
        _list_of(f"{where}[{name!r}]", curve[name], numbers.Integral if name == "n_teachers" else numbers.Real)
        if curve[name] is None or not 0 < len(curve[name]) == len(curve["n_teachers"]):
            raise InvalidInputError(f"{where}[{name!r}] must have one value for each number of teachers, at least one.")
    if noisy and not is_number(curve.get("margin_noise")):
        raise InvalidInputError(f"{where}['margin_noise'] must be a finite number beside clear margins.")


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError(f"{where} must be a dictionary with text keys.")
    return value


def _keys(where: str, value: Any, allowed: tuple[str, ...], *, required: tuple[str, ...] = ()) -> None:
    _mapping(where, value)
    unknown = [key for key in value if key not in allowed]
    if unknown:
        raise InvalidInputError(
            f"{where} has the key {unknown[0]!r}, which no report knows. Allowed: {', '.join(allowed)}. "
            "What is made from private votes belongs in write_sensitive_report's own dictionary."
        )
    missing = [key for key in required if key not in value]
    if missing:
        raise InvalidInputError(f"{where} lacks the key {missing[0]!r}. Add it; required: {', '.join(required)}.")


def _numbers(where: str, value: Any, names: tuple[str, ...]) -> None:
    _keys(where, value, names, required=names)
    for name in names:
        if not is_number(value[name]):
            raise InvalidInputError(f"{where}[{name!r}] must be a finite number.")


def _list_of(where: str, values: Any, kind: type) -> None:
    if values is None:
        return
    plain = isinstance(values, list | tuple) and all(isinstance(value, kind) for value in values)
    if kind in (numbers.Real, numbers.Integral):
        plain = plain and all(is_number(value) for value in values)
    if not plain:
        raise InvalidInputError(f"{where} must hold plain values ({kind.__name__}). Convert arrays with .tolist().")


def _scalar(where: str, value: Any) -> None:
    plain = value is None or isinstance(value, str | bool) or is_number(value)
    if not plain:
        raise InvalidInputError(f"{where} must be text, a finite number, a truth value or None. Convert it first.")
