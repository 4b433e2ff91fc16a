"""The folders of a run: public results, written at the end, and a separate folder of sensitive files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate._core.files import check_can_write, making, read_json, write_text
from pate.exceptions import RunFolderError

_NOTE = """SENSITIVE. Made from private data: teachers, and what a killed run needs to go on.
Readable by its owner only. Never publish it; delete it when the run is done with.
"""


@dataclass(frozen=True)
class RunFolder:
    """A folder for results and, beside it, ``NAME.private`` for what is sensitive.

    Results are written at the end, all of them for publication (except for a sensitive report that was asked for).
    The private folder (mode 0700) has checkpoints of teachers, so that a killed run can be resumed.
    """

    public: Path
    private: Path

    @classmethod
    def new(cls, out: str | os.PathLike[str], *, config: str = "") -> RunFolder:
        """Prepare a folder for a run; it must be absent or empty.

        A killed run's private folder is only resumed by a run with the same ``config``, which is public.
        """
        public = Path(out).absolute()
        if public.is_file() or (public.is_dir() and any(public.iterdir())):
            raise RunFolderError(
                f"out={str(out)!r} is not empty. Results are never overwritten: name another folder, or remove it."
            )
        private = public.with_name(public.name + ".private")
        if private.exists() and not private.is_dir():
            raise RunFolderError(f"{str(private)!r} is needed for sensitive files, but is a file. Move it away.")
        known = private / "config.txt"
        begun = private.is_dir() and any(p.is_dir() for p in private.iterdir())
        if begun and known.exists() and known.read_text(encoding="utf-8") != config:
            raise RunFolderError(
                f"{str(private)!r} holds teachers and labels of a run with other settings. Name another folder, or "
                "remove it if that run is no longer needed."
            )
        with making("out", out):
            public.mkdir(parents=True, exist_ok=True)
            private.mkdir(mode=0o700, exist_ok=True)
            private.chmod(0o700)
            write_text(private / "README.txt", _NOTE, mode=0o600)
            write_text(known, config, mode=0o600)
        check_can_write("out", public / "results.json")
        return cls(public, private)

    @contextmanager
    def results(self) -> Iterator[Path]:
        """Yield a folder to write results to; it becomes the public one at the end, whole or not at all."""
        place = self.private / "results"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        yield place
        # Renaming a folder onto an empty one is a single step.
        place.replace(self.public)


def refuse_other_results(folder: Path, result: Mapping[str, Any]) -> None:
    """Raise RunFolderError when the folder holds results of another comparison."""
    old = folder / "results.json"
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file. Choose a folder to save in.")
    if not old.exists():
        if (folder / "report.html").exists():
            raise RunFolderError(f"{folder} holds another report. Choose another folder to save in.")
        return
    before = read_json(old)
    if any(before.get(name) != result[name] for name in ("kind", "dataset", "protocol", "settings")):
        raise RunFolderError(f"{folder} holds the results of another comparison. Choose another folder to save in.")


def plain_repr(estimator: Any) -> str:
    """Return the repr in one line, without addresses in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", re.sub(r"\s+", " ", repr(estimator)))


def plain_values(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return class values as Python's own, for JSON."""
    return tuple(v.item() if isinstance(v, np.generic) else v for v in values)
