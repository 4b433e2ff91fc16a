"""Files that are either whole or absent."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_path(target: str | os.PathLike[str], *, mode: int | None = None) -> Iterator[Path]:
    """Yield a path beside ``target`` to write to; on success it is flushed to disk and renamed over ``target``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as path:
    ...     _ = path.write_text("whole")
    >>> [p.name for p in folder.iterdir()]
    ['a.txt']
    """
    goal = Path(target)
    goal.parent.mkdir(parents=True, exist_ok=True)
    # The real suffix stays last: numpy and pandas choose by it.
    handle, name = tempfile.mkstemp(prefix=f".{goal.stem}.", suffix=goal.suffix, dir=goal.parent)
    os.close(handle)
    path = Path(name)
    try:
        if mode is None:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(path, mode)
        yield path
        with open(path, "rb") as written:
            os.fsync(written.fileno())
        os.replace(path, goal)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_text(target: str | os.PathLike[str], text: str, *, mode: int | None = None) -> None:
    """Write ``text`` atomically as UTF-8.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> goal = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_text(goal, "hello"); goal.read_text()
    'hello'
    """
    with atomic_path(target, mode=mode) as path:
        path.write_text(text, encoding="utf-8")


def write_json(target: str | os.PathLike[str], value: Any, *, mode: int | None = None) -> None:
    """Write ``value`` atomically as JSON; NaN and infinity are refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> goal = pathlib.Path(tempfile.mkdtemp()) / "a.json"
    >>> write_json(goal, {"a": 1}); json.loads(goal.read_text())
    {'a': 1}
    """
    write_text(target, json.dumps(value, indent=2, allow_nan=False) + "\n", mode=mode)
