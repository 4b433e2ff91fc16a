"""JSON read strictly: no name twice, and no number that JSON does not have."""

from __future__ import annotations

import json
from typing import Any


def parse_json(data: bytes) -> Any:
    """Return the value in UTF-8 bytes.

    Raises
    ------
    ValueError, RecursionError
        It is none: damaged, nested too deep, a name stands twice (two readers could see two values), NaN or infinity.

    Examples
    --------
    >>> parse_json(b'{"a": [1, true]}')
    {'a': [1, True]}
    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: a name stands twice
    """
    return json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
