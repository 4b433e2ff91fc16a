"""Public rows by themselves, before anybody has looked at private ones: for plans."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pate.data import read_images, read_table
from pate.data.files._opened import is_table
from pate.jobs._records import in_planes


def read_public(
    path: str | os.PathLike[str], *, drop: Iterable[str] = (), text: Iterable[str] = ()
) -> tuple[Any, tuple[int, ...] | None]:
    r"""Return public rows as a job's representation sees them, and their shape where they are images.

    Parameters
    ----------
    path : path
        A table (see :func:`pate.read_table`), or a flat folder of images (see :func:`pate.data.read_images`).
    drop, text : iterable of str
        Columns to leave out, and columns of codes; of tables.

    Raises
    ------
    InvalidInputError
        It cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "cohort.csv"
    >>> _ = file.write_text("age,id\n50,1\n60,2\n")
    >>> rows, shape = read_public(file, drop=["id"])
    >>> rows.shape, shape
    ((2, 1), None)
    """
    if is_table(path):
        return read_table(path, drop=list(drop), text=list(text)).X, None
    shown = read_images(path)
    height, width, *colours = shown.X.shape[1:]
    shape = (*colours, height, width)
    return in_planes(shown.rows(), shape), shape
