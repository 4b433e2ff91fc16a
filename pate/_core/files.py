"""Files that are either whole or absent, folders for their owner only, and JSON read strictly."""

from __future__ import annotations

import json
import mmap
import os
import tempfile
import tomllib
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pate.exceptions import InvalidInputError, PateError, RunFolderError

# JSON read strictly: no name twice, and no number that JSON does not have.


def parse_json(data: bytes) -> Any:
    """Return the value in UTF-8 bytes; raise ValueError or RecursionError where it is none.

    Damaged, nested too deep, a name stands twice (two readers could see two values), NaN or infinity.
    """
    return json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant)


def read_json_file(path: str | os.PathLike[str], *, what: str, most_bytes: int) -> Any:
    """Return the value in a file that another person may have made; one of more than ``most_bytes`` is refused unread.

    ``what`` it should be is for errors.
    """
    data = _at_most(path, what, most_bytes)
    try:
        return parse_json(data)
    # Deep nesting ends in a RecursionError; UnicodeDecodeError and JSONDecodeError are ValueErrors.
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{Path(path)} is not readable as JSON ({type(error).__name__}). Ask for the file as it was written."
        ) from None


#: In one line of TOML.
_MOST_DOTS = 200


def read_toml_file(path: str | os.PathLike[str], *, what: str, most_bytes: int, remedy: str) -> dict[str, Any]:
    """Return the entries of such a file in TOML; ``remedy`` is for a file that is none."""
    data = _at_most(path, what, most_bytes)
    try:
        text = data.decode("utf-8-sig")
        # The parser takes the square of a dotted name's length: a crafted file would keep it busy for days.
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise ValueError(f"a line has more than {_MOST_DOTS} dots")
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        why = "" if isinstance(error, UnicodeDecodeError | RecursionError) else f": {error}"
        raise InvalidInputError(f"{Path(path)} is not readable as TOML in UTF-8{why}. {remedy}") from None


def _at_most(path: str | os.PathLike[str], what: str, most_bytes: int) -> bytes:
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read ({error.strerror}). Check the name and the folder.") from error
    if len(data) > most_bytes:
        raise InvalidInputError(f"{file} is no {what}: it is larger than {most_bytes} bytes. Name the right file.")
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


#: What a trial file holds: enough for a full disk to be noticed.
_TRIAL = b"\0" * 4096
#: In the name of a file that is being written, after that of what it is to become.
_DRAFT = "draft-"


def check_can_write(name: str, target: str | os.PathLike[str]) -> None:
    """Refuse a file that could not be made: to be asked before hours of work, not found after them.

    A small file is made where ``target`` would be, or in the nearest folder above it that exists, and taken away again:
    permissions alone tell too little (of a read-only or full disk, or to an administrator).
    """
    goal = Path(target).absolute()
    with writing(name, target):
        folder = goal.parent
        while not folder.exists():
            folder = folder.parent
        if goal.exists() and not goal.is_file():
            raise IsADirectoryError(0, "it is not a file")
        handle, trial = tempfile.mkstemp(prefix=f".{goal.stem}.{_DRAFT}", suffix=goal.suffix, dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_TRIAL)
                file.flush()
                os.fsync(file.fileno())
        finally:
            os.unlink(trial)
        if goal.exists() and not os.access(goal, os.W_OK):
            raise PermissionError(0, "the file is read-only")


@contextmanager
def writing(name: str, target: str | os.PathLike[str]) -> Iterator[None]:
    """Say in words what the system says of a file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"{name}={str(target)!r} cannot be written: {error.strerror or error}. Name a file in a folder that you "
            "may write to, on a disk with room."
        ) from None


@contextmanager
def atomic_path(target: str | os.PathLike[str], *, mode: int | None = None) -> Iterator[Path]:
    """Yield a path beside ``target`` to write to; on success it is flushed to disk and renamed over ``target``."""
    goal = Path(target)
    goal.parent.mkdir(parents=True, exist_ok=True)
    # The real suffix stays last: numpy and pandas choose by it.
    handle, name = tempfile.mkstemp(prefix=f".{goal.stem}.{_DRAFT}", suffix=goal.suffix, dir=goal.parent)
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
        with suppress(OSError):  # the name too must outlive a loss of power; not every system opens folders
            folder = os.open(goal.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def remove_whole(target: str | os.PathLike[str]) -> None:
    """Take a file away, and what a process that was killed while it wrote it left beside it.

    For files with secrets; of several processes that write one file, none should be at it.
    """
    goal = Path(target)
    begin = f".{goal.stem}.{_DRAFT}"
    beside = list(goal.parent.iterdir()) if goal.parent.is_dir() else []
    for path in beside:
        middle = path.name.removeprefix(begin).removesuffix(goal.suffix)
        if path.name == f"{begin}{middle}{goal.suffix}" and "." not in middle:
            path.unlink(missing_ok=True)
    goal.unlink(missing_ok=True)


def write_bytes(target: str | os.PathLike[str], data: bytes | memoryview, *, mode: int | None = None) -> None:
    """Write ``data`` atomically."""
    with atomic_path(target, mode=mode) as path:
        path.write_bytes(data)


def write_text(target: str | os.PathLike[str], text: str, *, mode: int | None = None) -> None:
    """Write ``text`` atomically as UTF-8."""
    with atomic_path(target, mode=mode) as path:
        path.write_text(text, encoding="utf-8")


def write_json(target: str | os.PathLike[str], value: Any, *, mode: int | None = None) -> None:
    """Write ``value`` atomically as JSON; NaN and infinity are refused."""
    write_text(target, json_text(value), mode=mode)


def json_text(value: Any) -> str:
    r"""Return what :func:`write_json` writes."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


# Folders that a killed run goes on in: a file says what the run is, others keep what it has done.

_REMEDY = "Choose another folder, or delete this one if it is not needed."


def read_json(path: Path, error: type[PateError] = RunFolderError) -> dict[str, Any]:
    """Return the JSON object in a file of such a folder, or raise ``error``."""
    try:
        value = parse_json(path.read_bytes())
    except (OSError, ValueError, RecursionError) as why:
        raise error(f"{path} cannot be read ({type(why).__name__}). {_REMEDY}") from None
    if not isinstance(value, dict):
        raise error(f"{path} is not a JSON object. {_REMEDY}")
    return value


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(".")


def begun_in(
    folder: str | os.PathLike[str],
    head: str,
    what: str,
    *,
    error: type[PateError] = RunFolderError,
    is_leftover: Callable[[Path], bool] = _is_hidden,
) -> dict[str, Any] | None:
    """Return what the file ``head`` says of the run in a folder; None where none was begun, and nothing else is there.

    ``what`` the folder should hold is for errors; what a start that was killed leaves (``is_leftover``) does not count.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise error(f"{path} is a file. Choose a folder.")
    if (path / head).exists():
        return read_json(path / head, error)
    if path.exists() and not all(map(is_leftover, path.iterdir())):
        raise error(f"{path} is not empty and holds no {what}. {_REMEDY}")
    return None


@contextmanager
def making(name: str, folder: str | os.PathLike[str], *, otherwise: str = "") -> Iterator[None]:
    """Say in words what the system says of a folder that cannot be made or written to."""
    try:
        yield
    except RunFolderError:
        raise
    except OSError as error:
        raise InvalidInputError(
            f"{name} must be a folder that can be made and written to, got {os.fspath(folder)!r} "
            f"({error.strerror or error}). Name another{otherwise}."
        ) from None


def own_folder(name: str, folder: str | os.PathLike[str], readme: str = "", *, otherwise: str = "") -> Path:
    """Make a folder for its owner only (mode 0700) where it is absent, and say in it what it is for."""
    path = Path(folder)
    with making(name, folder, otherwise=otherwise):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if readme and not (path / "README.txt").exists():
            write_text(path / "README.txt", readme, mode=0o600)
    return path


def save_arrays(target: str | os.PathLike[str], **arrays: Any) -> None:
    """Keep arrays, whole or not at all, for their owner only; None is left out."""
    with atomic_path(target, mode=0o600) as path, open(path, "wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def stored_arrays(path: Path) -> dict[str, Any] | None:
    """Return what :func:`save_arrays` wrote; None where there is no such file, or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


# Files that are looked at through memory: private tables and ballots that are larger than it.

#: Files that are mapped into memory at present.
_MAPPED: weakref.WeakSet[Any] = weakref.WeakSet()


def let_go() -> None:
    """Give back the pages of mapped tables that were looked at; who looks again gets them again.

    The system would do so too, where memory is short; here a process is as small as it says.
    """
    if hasattr(mmap, "MADV_DONTNEED"):
        for one in list(_MAPPED):
            one.madvise(mmap.MADV_DONTNEED)


def any_mapped() -> bool:
    """Whether a private table lies on disk already, for want of memory."""
    return bool(_MAPPED)


def mapped(file: Any) -> mmap.mmap:
    """Return what was written to an open file, to be read through memory; it outlives the file's own handle."""
    file.flush()
    made = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPPED.add(made)
    return made
