"""JSON read strictly: no name twice, and no number that JSON does not have."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pate.exceptions import InvalidInputError


def parse_json(data: bytes) -> Any:
    """Return the value in UTF-8 bytes.

    Raises
    ------
    ValueError, RecursionError
        It is none: damaged, nested too deep, a name stands twice (two readers could see two values), NaN or infinity.
    """
    return json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant)


def read_json_file(path: str | os.PathLike[str], *, what: str, most_bytes: int) -> Any:
    """Return the value in a file that somebody else may have made.

    Parameters
    ----------
    path : path
    what : str
        What it should be, for errors.
    most_bytes : int
        A larger file is refused before it is read.

    Raises
    ------
    InvalidInputError
        There is no such file, it is too large, or no JSON.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read ({error.strerror}). Check the name and the folder.") from error
    if len(data) > most_bytes:
        raise InvalidInputError(f"{file} is no {what}: it is larger than {most_bytes} bytes. Name the right file.")
    try:
        return parse_json(data)
    # Deep nesting ends in a RecursionError; UnicodeDecodeError and JSONDecodeError are ValueErrors.
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{file} is not readable as JSON ({type(error).__name__}). Ask for the file as it was written."
        ) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
