"""What callable teachers have answered: in memory, and on disk so that an interrupted vote goes on.

A file holds one teacher's answers, a line each: the digest of the row and the index of the class. Lines are only ever
added, a batch in one write, and one counts only when it is whole: a kill in mid-write costs that line alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pate.core.files import write_text
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.teachers.checkpoints import describe

_FORMAT = 1
_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,9})")

_README = """\
Votes of the teachers of a PATE ensemble, each a function of one shard of PRIVATE data.

Everything in this folder is sensitive: no noise was added to these votes, and no privacy guarantee covers them. Keep
the folder to yourself, and delete it when the run is over.
"""


class AnswerCache:
    """Answers by teacher and row; a row that was answered once keeps its answer.

    Parameters
    ----------
    n_teachers : int
    classes : tuple
    folder : path or None
        Made, when absent, for its owner only (mode 0700); every file is 0600. None keeps answers in memory.
    version : str or None
        What the functions are. Files of another version, of other classes or another number of teachers are not read.
    """

    def __init__(
        self,
        n_teachers: int,
        classes: tuple[Any, ...],
        *,
        folder: str | os.PathLike[str] | None = None,
        version: str | None = None,
    ) -> None:
        self._n_classes = len(classes)
        self._known: list[dict[str, int] | None] = [None] * n_teachers
        self._folder = None if folder is None else Path(folder)
        self._recipe = describe(["pate answers", _FORMAT, version, n_teachers, list(classes)])
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (self._folder / "README.txt").exists():
                write_text(self._folder / "README.txt", _README, mode=0o600)
        except OSError as error:
            raise InvalidInputError(
                f"checkpoint_dir must be a folder that can be written to, got {os.fspath(self._folder)!r} "
                f"({error.strerror}). Name another, or None to keep answers in memory only."
            ) from error

    def __repr__(self) -> str:
        return f"AnswerCache(n_teachers={len(self._known)}, answers=<sensitive>)"

    def path(self, index: int) -> Path | None:
        """Return where teacher ``index``'s answers are kept; None in memory."""
        if self._folder is None:
            return None
        name = hashlib.sha256(f"{index} {self._recipe}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"answers-{index:05d}-{name}.txt"

    def of(self, index: int) -> dict[str, int]:
        """Return teacher ``index``'s answers: digest of a row -> index of a class."""
        known = self._known[index]
        if known is None:
            known = self._known[index] = self._read(index)
        return known

    def add(self, index: int, hashes: Sequence[str], labels: Sequence[int]) -> None:
        """Keep the answers of one batch, on disk first."""
        known = self.of(index)  # reads, and mends, the file before anything is added to it
        path = self.path(index)
        if path is not None:
            lines = "".join(f"{h} {label}\n" for h, label in zip(hashes, labels, strict=True)).encode()
            # Never replaced or truncated by a writer: O_APPEND leaves every earlier line as it is.
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        known.update(zip(hashes, labels, strict=True))

    def _read(self, index: int) -> dict[str, int]:
        path = self.path(index)
        if path is None or not path.exists():
            return {}
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # a write that was cut off: its line is asked again
            os.truncate(path, whole)
        known: dict[str, int] = {}
        damaged = 0
        for line in data[:whole].splitlines():
            match = _LINE.fullmatch(line)
            label = int(match[2]) if match else -1
            if match is None or label >= self._n_classes:
                damaged += 1
                continue
            # Interned: all teachers answer the same rows. The first answer stays.
            known.setdefault(sys.intern(match[1].decode()), label)
        if damaged:
            warnings.warn(
                f"some of teacher {index}'s answers in checkpoint_dir could not be read; those rows are asked again.",
                CheckpointWarning,
                stacklevel=2,
            )
        return known
