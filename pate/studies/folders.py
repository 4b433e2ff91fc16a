"""Folders of runs and of comparisons: what may be shown to anybody, and apart from it what must stay inside.

A run's folder is written at the end, whole or not at all. In a comparison's folder every finished fit is on the disk at
once, and only the same comparison goes on there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from sklearn.base import clone

from pate.core.files import check_can_write, write_json, write_text
from pate.core.provenance import package_versions
from pate.data import Dataset
from pate.exceptions import InvalidInputError, RunFolderError
from pate.teachers.checkpoints import describe

try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are not kept apart there
    fcntl = None  # type: ignore[assignment]

_NOTE = """SENSITIVE. Made from private data: teachers, and what a killed run needs to go on.
Readable by its owner only. Never publish it; delete it when the run is done with.
"""
_CONFIG, _CELLS = "config.json", "cells.jsonl"
#: Apart from what may be published, and named as git ignores it.
_PRIVATE = Path("resume.private") / "fingerprint.json"
#: They change how long a fit takes, not what comes of it; and what :func:`compare` sets itself.
_WITHOUT_EFFECT = frozenset({"n_jobs", "verbose", "checkpoint_dir", "budget", "random_state", "noise_seed"})
_REMEDY = "Choose another folder for out=, or delete this one if it is not needed."


@dataclass(frozen=True)
class RunFolder:
    """A folder for results and, beside it, ``NAME.private`` for what is sensitive.

    Attributes
    ----------
    public : Path
        Written at the end, all of it for publication (but for a sensitive report asked for by name).
    private : Path
        Checkpoints of teachers, kept so that a killed run goes on; mode 0700.

    Examples
    --------
    >>> import tempfile
    >>> folder = RunFolder.new(Path(tempfile.mkdtemp()) / "run")
    >>> folder.private.name, oct(folder.private.stat().st_mode & 0o777)
    ('run.private', '0o700')
    """

    public: Path
    private: Path

    @classmethod
    def new(cls, out: str | os.PathLike[str], *, config: str = "") -> RunFolder:
        """Prepare a folder for a run; it must be absent or empty.

        Parameters
        ----------
        out : path
        config : str
            What decides the run, public. A killed run's private folder is only taken up again by the same one.

        Raises
        ------
        RunFolderError
            It holds something already, or its private folder belongs to another run.
        InvalidInputError
            It cannot be made or written to.

        Examples
        --------
        >>> import tempfile
        >>> here = Path(tempfile.mkdtemp()); _ = (here / "old.txt").write_text("x")
        >>> RunFolder.new(here)
        Traceback (most recent call last):
        pate.exceptions.RunFolderError: out=... is not empty...
        """
        public = Path(out).absolute()
        if public.is_file() or (public.is_dir() and any(public.iterdir())):
            raise RunFolderError(
                f"out={str(out)!r} is not empty. Results are never overwritten: name another folder, or remove it."
            )
        private = public.with_name(public.name + ".private")
        if private.exists() and not private.is_dir():
            raise RunFolderError(f"{str(private)!r} is needed for what must stay inside, but is a file. Move it away.")
        known = private / "config.txt"
        kept = private.is_dir() and any(p.is_dir() for p in private.iterdir())
        if kept and known.exists() and known.read_text(encoding="utf-8") != config:
            raise RunFolderError(
                f"{str(private)!r} holds teachers and labels of a run with other settings. Name another folder, or "
                "remove it if that run is done with."
            )
        try:
            public.mkdir(parents=True, exist_ok=True)
            private.mkdir(mode=0o700, exist_ok=True)
            private.chmod(0o700)
            write_text(private / "README.txt", _NOTE, mode=0o600)
            write_text(known, config, mode=0o600)
        except OSError as error:
            raise InvalidInputError(
                f"out must be a folder that can be made and written to, got {os.fspath(out)!r} "
                f"({error.strerror or error}). Name another."
            ) from None
        check_can_write("out", public / "results.json")
        return cls(public, private)

    @contextmanager
    def results(self) -> Iterator[Path]:
        """Yield a folder to write results to; it becomes the public one at the end, whole or not at all.

        Examples
        --------
        >>> import tempfile
        >>> folder = RunFolder.new(Path(tempfile.mkdtemp()) / "run")
        >>> with folder.results() as place:
        ...     _ = (place / "a.txt").write_text("done")
        >>> [path.name for path in folder.public.iterdir()]
        ['a.txt']
        """
        place = self.private / "results"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        yield place
        # Renaming a folder onto an empty one is a single step.
        place.replace(self.public)


class CellFolder:
    """Finished fits of one comparison, one JSON line each, flushed to the disk before the next fit starts.

    Parameters
    ----------
    path : path
        Made when absent.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> place = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (place / "thesis.txt").write_text("years of work")
    >>> with CellFolder(place) as folder:
    ...     folder.open({}, None, {}, [])
    Traceback (most recent call last):
    pate.exceptions.RunFolderError: ... is not empty and holds no comparison. Choose another folder for out=, ...
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def open(
        self, contestants: Mapping[str, Any], data: Dataset, settings: Mapping[str, Any], seeds: list[int]
    ) -> list[int]:
        """Start the comparison here or go on with it, and return its seeds (one per repeat).

        Raises
        ------
        RunFolderError
            The folder holds something else, another comparison, or one that is running now.
        InvalidInputError
            It cannot be made or written to.
        """
        try:
            self._check_place()
            self._file = (self.path / _CELLS).open("a+b")
        except RunFolderError:
            raise
        except OSError as error:
            raise InvalidInputError(
                f"out must be a folder that can be made and written to, got {str(self.path)!r} "
                f"({error.strerror or error}). Name another."
            ) from None
        check_can_write("out", self.path / "results.json")
        self._lock(self._file)
        config = _configuration(contestants, data, settings)
        private = {"warning": "made from private rows: do not publish", "sha256": _digest_private(data)}
        if not (self.path / _CONFIG).exists():
            (self.path / _PRIVATE).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json(self.path / _PRIVATE, private, mode=0o600)
            # Last: whoever is killed before this line leaves a folder that counts as empty.
            write_json(self.path / _CONFIG, {**config, "seeds": seeds})
        before = _read_json(self.path / _CONFIG)
        differs = [name for name in config if before.get(name) != config[name]]
        if _read_json(self.path / _PRIVATE).get("sha256") != private["sha256"]:
            differs.append("private rows")
        if differs:
            raise RunFolderError(
                f"{self.path} holds another comparison (other {', '.join(differs)}). {_REMEDY} "
                "To go on with it, make the call as it was."
            )
        return [int(seed) for seed in before["seeds"]]

    def lines(self) -> list[dict[str, Any]]:
        """Return the finished fits; a last line that was torn by a kill is cut off."""
        assert self._file is not None
        self._file.seek(0)
        content = self._file.read()
        found, good = [], 0
        pieces = content.splitlines(keepends=True)
        for number, piece in enumerate(pieces, start=1):
            try:
                line = json.loads(piece)
                if not isinstance(line, dict):
                    raise ValueError
            except (ValueError, RecursionError):
                if number < len(pieces):
                    raise RunFolderError(f"{self.path / _CELLS} is damaged in line {number}. {_REMEDY}") from None
                break
            found.append(line)
            good += len(piece)
        self._file.truncate(good)
        if found and not content[:good].endswith(b"\n"):
            self._write(b"\n")
        return found

    def append(self, cell: Mapping[str, Any]) -> None:
        """Keep one finished fit; it is on the disk when this returns."""
        self._write(json.dumps(cell, allow_nan=False).encode() + b"\n")

    def _write(self, content: bytes) -> None:
        assert self._file is not None
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())

    def _check_place(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file. Choose a folder for out=.")
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / _CONFIG).exists() and any(not _is_leftover(p) for p in self.path.iterdir()):
            raise RunFolderError(f"{self.path} is not empty and holds no comparison. {_REMEDY}")

    def _lock(self, file: BinaryIO) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(
                f"{self.path} is in use by another process that runs this comparison. Wait for it, or choose another "
                "folder for out=."
            ) from None


def _is_leftover(path: Path) -> bool:
    """Whether a start that was killed may have left this: hidden temporary files, or nothing that counts."""
    return (
        path.name.startswith(".")
        or path.name == _PRIVATE.parent.name
        or (path.name == _CELLS and path.stat().st_size == 0)
    )


def refuse_other_results(folder: Path, result: Mapping[str, Any]) -> None:
    """Raise RunFolderError when the folder holds the results of something else.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> refuse_other_results(folder, {})
    >>> (folder / "report.html").touch()
    >>> refuse_other_results(folder, {})
    Traceback (most recent call last):
    pate.exceptions.RunFolderError: ... holds another report. Choose another folder to save in.
    """
    old = folder / "results.json"
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file. Choose a folder to save in.")
    if not old.exists():
        if (folder / "report.html").exists():
            raise RunFolderError(f"{folder} holds another report. Choose another folder to save in.")
        return
    before = _read_json(old)
    if any(before.get(name) != result[name] for name in ("kind", "dataset", "protocol", "settings")):
        raise RunFolderError(f"{folder} holds the results of something else. Choose another folder to save in.")


def plain_repr(estimator: Any) -> str:
    """Return the repr in one line, without addresses in memory.

    Examples
    --------
    >>> plain_repr(lambda x: x)
    '<function <lambda>>'
    """
    return re.sub(r" at 0x[0-9a-fA-F]+", "", re.sub(r"\s+", " ", repr(estimator)))


def plain_values(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return class values as Python's own, for JSON.

    Examples
    --------
    >>> plain_values((np.int64(1), "a"))
    (1, 'a')
    """
    return tuple(v.item() if isinstance(v, np.generic) else v for v in values)


def _configuration(contestants: Mapping[str, Any], data: Dataset, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be the same for a comparison to go on, as JSON values."""
    recipes = {}
    for name, contestant in contestants.items():
        takes = clone(contestant).get_params(deep=False)
        parts = sorted(f"{k}={_describe(name, k, v)}" for k, v in takes.items() if k not in _WITHOUT_EFFECT)
        recipe = f"{type(contestant).__module__}.{type(contestant).__qualname__}({', '.join(parts)})"
        recipes[name] = _sha256(recipe)
    chosen = {k: settings[k] for k in ("epsilons", "delta", "n_repeats", "random_state")}
    # The noise seed itself is not written down.
    noise = settings["noise_seed"]
    rows = [data.private.y, data.public.y_for_evaluation, data.test.y]
    return {
        "kind": "comparison",
        "version": package_versions().get("pate"),
        "contestants": recipes,
        **chosen,
        "noise": "operating system" if noise is None else _sha256(f"noise {noise}"),
        "data set": [data.name, data.protocol, list(plain_values(data.classes)), [len(y) for y in rows]],
        "public rows": _digest_rows(data.public.X),
        "test rows": _digest_rows(data.test.X, data.test.y),
    }


def _describe(name: str, parameter: str, value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        # Fields only: what a frozen value has cached meanwhile is no part of it.
        inside = ", ".join(f"{f.name}={_describe(name, parameter, getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__module__}.{type(value).__qualname__}({inside})"
    try:
        return describe(value)
    except (InvalidInputError, RecursionError):
        raise InvalidInputError(
            f"contestants[{name!r}] cannot be recognised again by its parameter {parameter} "
            f"(a {type(value).__name__}). Use out=None, or a parameter that can be pickled."
        ) from None


def _digest_private(data: Dataset) -> str:
    """Private: whoever knows all records but one could try out the last."""
    return _digest_rows(data.private.X, data.private.y, data.private.groups)


def _digest_rows(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
        elif hasattr(part, "columns"):
            from pandas.util import hash_pandas_object

            digest.update(repr([(str(c), str(t)) for c, t in part.dtypes.items()]).encode())
            digest.update(hash_pandas_object(part, index=False).to_numpy().tobytes())
        else:
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return digest.hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} cannot be read ({type(error).__name__}). {_REMEDY}") from None
    if not isinstance(value, dict):
        raise RunFolderError(f"{path} is not a JSON object. {_REMEDY}")
    return value
