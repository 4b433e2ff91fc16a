"""Run folders: what may be shown to anybody, and beside it what must stay inside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pate.core.files import check_can_write, write_text
from pate.exceptions import InvalidInputError, RunFolderError

_NOTE = """SENSITIVE. Made from private data: teachers, and what a killed run needs to go on.
Readable by its owner only. Never publish it; delete it when the run is done with.
"""


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
