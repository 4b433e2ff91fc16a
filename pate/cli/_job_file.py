"""Options of a command in a TOML file: plain values only, so that reading one runs nothing."""

from __future__ import annotations

import difflib
import math
import os
import tomllib
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pate.cli._declared import Use
from pate.cli._options import Size
from pate.exceptions import InvalidInputError


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


#: What a file must hold for an option of each type: in words, and whether a value is that.
_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    Path: ("a text (a path)", lambda v: isinstance(v, str) and v != "" and "\0" not in v),
    str: ("a text", _is_text),
    Size: ("a text", _is_text),
    float: ("a number", lambda v: _is_whole(v) or (isinstance(v, float) and math.isfinite(v))),
    int: ("a whole number", _is_whole),
    list[str]: ("a list of texts", _are_texts),
    bool: ("true or false", lambda v: isinstance(v, bool)),
}
_MOST_BYTES = 1_000_000
_MOST_DOTS = 200


def read_job_file(path: str | os.PathLike[str], uses: Mapping[str, Use]) -> dict[str, Any]:
    r"""Return the options in a TOML file, by the names of the command's options with ``_`` for ``-``.

    Parameters
    ----------
    path : path
        Ends in ``.toml``. One option a line, spelled as on the command line: ``max-answers = 100``.
    uses : mapping of str to Use
        Every option of the command; see :func:`pate.cli._declared.uses_of`.

    Returns
    -------
    dict
        Only the options that are there. Paths are absolute or start at the file's folder.

    Raises
    ------
    InvalidInputError
        The file cannot be read, holds an unknown option (the nearest known one is named), or a value of another kind.
    """
    path = Path(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        raise InvalidInputError(
            f"config must be a TOML file, got {path.name!r}: YAML reads no and 1e-5 as something else than is written. "
            "Write NAME = VALUE lines into a .toml file: texts in quotes, lists in [brackets]."
        )
    if path.suffix.lower() != ".toml":
        raise InvalidInputError(f"config must end in .toml, got {path.name!r}. Write the options as a TOML file.")
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}. Check the name and the folder.")
    if path.stat().st_size > _MOST_BYTES:
        raise InvalidInputError(f"{path} is larger than a megabyte, which no job file is. Check the name.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        # The parser takes the square of a dotted name's length: a crafted file would keep it busy for days.
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise ValueError(f"a line with more than {_MOST_DOTS} dots")
        held = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise InvalidInputError(f"{path} is not a readable TOML file: {error}. Write NAME = VALUE lines.") from None
    found: dict[str, Any] = {}
    for key, value in held.items():
        name = key.replace("-", "_")
        if name not in uses:
            allowed = [option for option, known in uses.items() if not known.not_in_file]
            near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0].replace('_', '-')!r}?" if near else ""
            listed = ", ".join(option.replace("_", "-") for option in allowed)
            raise InvalidInputError(f"{path} has the unknown option {key[:60]!r}.{hint} Known are: {listed}.")
        if uses[name].not_in_file:
            raise InvalidInputError(f"{path} must not hold {key!r}: {uses[name].not_in_file}.")
        if name in found:
            raise InvalidInputError(f"{path} has {key!r} twice, with - and with _. Keep one.")
        found[name] = _checked(path, key, value, uses[name].kind)
    return found


def _checked(path: Path, key: str, value: Any, kind: Any) -> Any:
    allowed = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    words, fits = _KINDS[str if allowed else kind]
    if not fits(value):
        hint = f" Put each in quotes: {key} = ['0', '1']." if fits is _are_texts else ""
        raise InvalidInputError(f"{path}: {key} must be {words}, got {str(value)[:60]!r}.{hint}")
    if allowed:
        from pate.core.checks import check_choice  # --help needs no numpy

        check_choice(f"{path}: {key}", value, allowed)
    return _placed(path.parent, value) if kind is Path else value


def _placed(folder: Path, value: str) -> str:
    """Return a path that starts at the file's folder; of a database (``duckdb:FILE?table=NAME``) its file's."""
    kind, sign, place = value.partition(":")
    return f"{kind}:{folder / place}" if sign and kind in ("duckdb", "sqlite") else str(folder / value)
