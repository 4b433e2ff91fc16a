"""Options of ``pate label`` in a TOML file: plain values only, so that reading one runs nothing."""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from pathlib import Path
from typing import Any

from pate.exceptions import InvalidInputError

#: What each option takes, as in ``pate label``; ``path`` is relative to the file's folder, ``list`` is a list of texts.
OPTIONS: dict[str, str] = {
    "private": "path",
    "public": "path",
    "votes": "path",
    "kind": "text",
    "key": "text",
    "unit": "text",
    "units": "whole",
    "target": "text",
    "epsilon": "number",
    "out": "path",
    "classes": "list",
    "delta": "number",
    "teachers": "whole",
    "group": "text",
    "drop": "list",
    "text": "list",
    "teacher": "text",
    "mechanism": "text",
    "sigma": "number",
    "scale": "number",
    "threshold": "number",
    "sigma_threshold": "number",
    "queries": "whole",
    "select": "text",
    "rounds": "whole",
    "student": "text",
    "gap": "number",
    "max_answers": "whole",
    "on_exhausted": "text",
    "preprocess": "text",
    "max_categories": "whole",
    "size": "text",
    "resize": "flag",
    "color": "text",
    "overlap_is_public": "flag",
    "ledger": "path",
    "ledger_currency": "text",
    "checkpoints": "flag",
    "seed": "whole",
    "partition_seed": "whole",
    "jobs": "whole",
    "tuning": "text",
    "dataset_name": "text",
    "organisation": "text",
    "purpose": "text",
    "state": "list",
    "safe_csv": "flag",
    "plan": "flag",
}
#: Options that a file must not hold, and why.
_NOT_IN_A_FILE = {
    "allow_import": "it lets code run, and a file that is passed on must not decide that. Say --allow-import on the "
    "command line",
    "new_ledger": "it grants a whole budget once more, which is for a person to say each time. Say --new-ledger on the "
    "command line",
    "config": "a file names no other file. Put all options into one",
}
_WORDS = {
    "path": "a text (a path)",
    "text": "a text",
    "number": "a number",
    "whole": "a whole number",
    "list": "a list of texts",
    "flag": "true or false",
}
_MOST_BYTES = 1_000_000
_MOST_DOTS = 200


def read_job_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    r"""Return the options in a TOML file, by the names of ``pate label``'s options with ``_`` for ``-``.

    Parameters
    ----------
    path : path
        Ends in ``.toml``. One option a line, spelled as on the command line: ``max-answers = 100``.

    Returns
    -------
    dict
        Only the options that are there. Paths are absolute or start at the file's folder.

    Raises
    ------
    InvalidInputError
        The file cannot be read, holds an unknown option (the nearest known one is named), or a value of another kind.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "job.toml"
    >>> _ = file.write_text("epsilon = 2.0\nclasses = ['no', 'yes']")
    >>> read_job_file(file)
    {'epsilon': 2.0, 'classes': ['no', 'yes']}
    >>> _ = file.write_text("epsilom = 2.0")
    >>> read_job_file(file)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: ... has the unknown option 'epsilom'. Did you mean 'epsilon'? ...
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
        if name in _NOT_IN_A_FILE:
            raise InvalidInputError(f"{path} must not hold {key!r}: {_NOT_IN_A_FILE[name]}.")
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0].replace('_', '-')!r}?" if near else ""
            known = ", ".join(option.replace("_", "-") for option in OPTIONS)
            raise InvalidInputError(f"{path} has the unknown option {key[:60]!r}.{hint} Known are: {known}.")
        if name in found:
            raise InvalidInputError(f"{path} has {key!r} twice, with - and with _. Keep one.")
        found[name] = _checked(path, key, value, OPTIONS[name])
    return found


def _checked(path: Path, key: str, value: Any, kind: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    ok = {
        "path": isinstance(value, str) and value != "" and "\0" not in value,
        "text": isinstance(value, str),
        "number": whole or (isinstance(value, float) and math.isfinite(value)),
        "whole": whole,
        "list": isinstance(value, list) and all(isinstance(v, str) for v in value),
        "flag": isinstance(value, bool),
    }[kind]
    if not ok:
        hint = " Put each in quotes: classes = ['0', '1']." if kind == "list" else ""
        raise InvalidInputError(f"{path}: {key} must be {_WORDS[kind]}, got {str(value)[:60]!r}.{hint}")
    if kind == "path":
        return str(path.parent / value)
    return value
