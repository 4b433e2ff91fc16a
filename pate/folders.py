"""Run folders: what may be shown to anybody, and beside it what must stay inside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pate._files import write_text
from pate.exceptions import RunFolderError

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
    def new(cls, out: str | os.PathLike[str]) -> RunFolder:
        """Prepare a folder for a run; it must be absent or empty.

        Raises
        ------
        RunFolderError
            It holds something already.

        Examples
        --------
        >>> import tempfile
        >>> here = Path(tempfile.mkdtemp()); _ = (here / "old.txt").write_text("x")
        >>> RunFolder.new(here)
        Traceback (most recent call last):
        pate.exceptions.RunFolderError: out=... is not empty...
        """
        public = Path(out)
        if public.is_file() or (public.is_dir() and any(public.iterdir())):
            raise RunFolderError(
                f"out={str(public)!r} is not empty. Results are never overwritten: name another folder, or remove it."
            )
        public.mkdir(parents=True, exist_ok=True)
        private = public.with_name(public.name + ".private")
        private.mkdir(mode=0o700, exist_ok=True)
        private.chmod(0o700)
        write_text(private / "README.txt", _NOTE, mode=0o600)
        return cls(public, private)
