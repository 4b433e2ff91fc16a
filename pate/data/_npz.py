"""npz archives read whole, once, and never unpickled."""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError


def read_npz(path: str | os.PathLike[str], *, what: str, remedy: str) -> dict[str, npt.NDArray[Any]]:
    """Return every array of an archive; each is decompressed once.

    Parameters
    ----------
    path : path
    what, remedy : str
        The words of the error when the file cannot be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, X=np.eye(2))
    >>> read_npz(file, what="table", remedy="")["X"].shape
    (2, 2)
    """
    try:
        # Opened here: numpy leaves the file open when the archive is broken.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInputError(f"{path} is not a readable {what} ({error}). {remedy}".rstrip()) from error
