"""Vote matrices that somebody else made, from files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError
from pate.votes import Votes

KINDS = ("counts", "labels")
_SUFFIXES = (".npy", ".npz", ".csv")


def read_votes(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    key: str | None = None,
    n_teachers: int | None = None,
    classes: Any = None,
    rows: int | None = None,
    ask: Callable[[str], str] | None = None,
) -> Votes:
    """Read vote counts or teachers' labels.

    Parameters
    ----------
    path : path
        ``.npy``, ``.npz`` or ``.csv`` (numbers, commas, no header).
    kind : {"counts", "labels"} or None
        ``counts``: (n_queries, n_classes); ``labels``: (n_teachers, n_queries) of class indices. None decides only
        where there is no doubt.
    key : str or None
        Which array of an ``.npz``; needed when it has several.
    n_teachers : int or None
        What every row of counts must sum to.
    classes : iterable, int or None
        Class values or their number; needed for labels.
    rows : int or None
        Use the first ``rows`` queries only.
    ask : callable or None
        Asked with a question when the kind is in doubt; returns the kind. None raises instead.

    Returns
    -------
    Votes

    Raises
    ------
    InvalidInputError
        No such file, not a matrix of whole numbers, rows that do not sum to the number of teachers, or a doubt about
        the kind.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "votes.npy"
    >>> np.save(file, [[8, 2], [5, 5]])
    >>> read_votes(file)
    Votes(n_queries=2, n_classes=2, n_teachers=10, counts=<sensitive>)
    """
    file = Path(path)
    matrix = _read(file, key)
    if matrix.ndim != 2 or not matrix.size:
        raise InvalidInputError(f"{file} holds an array of shape {matrix.shape}; votes are a matrix with two axes.")
    if kind is None:
        kind = _certain_kind(matrix, n_teachers)
        if kind is None:
            question = (
                f"{file} has shape {matrix.shape}: is it counts (n_queries x n_classes, rows summing to the number of "
                "teachers) or labels (n_teachers x n_queries, class indices)?"
            )
            if ask is None:
                raise InvalidInputError(f"{question} Say which: --kind counts or --kind labels.")
            kind = ask(question)
    if kind not in KINDS:
        raise InvalidInputError(f"kind must be one of 'counts', 'labels', got {kind!r}.")
    if kind == "counts":
        if isinstance(classes, int):
            classes = range(classes)
        votes = Votes.from_counts(matrix, n_teachers=n_teachers, classes=classes)
    else:
        if classes is None:
            raise InvalidInputError(
                "classes must be given for labels: their number is public and cannot be read off the votes. "
                "Say --classes 10, for example."
            )
        votes = Votes.from_labels(matrix, classes=classes)
        if n_teachers is not None and votes.n_teachers != n_teachers:
            raise InvalidInputError(f"{file} has {votes.n_teachers} rows, but n_teachers={n_teachers}. Transpose it?")
    return votes if rows is None else votes.take(np.arange(min(rows, votes.n_queries)))


def _certain_kind(matrix: npt.NDArray[Any], n_teachers: int | None) -> str | None:
    """Return ``"counts"`` when all rows have the sum that was stated, or several share one; None when in doubt."""
    if matrix.dtype.kind not in "iuf" or matrix.min() < 0:
        return None
    sums = matrix.sum(axis=1)
    if n_teachers is not None:
        return "counts" if (sums == n_teachers).all() else None
    return "counts" if len(sums) > 1 and (sums == sums[0]).all() and sums[0] > 0 else None


def _read(file: Path, key: str | None) -> npt.NDArray[Any]:
    if file.suffix not in _SUFFIXES:
        raise InvalidInputError(f"votes must be a {', '.join(_SUFFIXES)} file, got {file.name!r}.")
    if not file.is_file():
        raise InvalidInputError(f"there is no file {file}. Check the name and the folder.")
    try:
        if file.suffix == ".csv":
            return np.loadtxt(file, delimiter=",", ndmin=2)
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            return np.asarray(loaded)
        with loaded:
            names = list(loaded.files)
            if key is None and len(names) != 1:
                raise InvalidInputError(f"{file} holds the arrays {', '.join(names)}. Say which: --key {names[0]}.")
            if key is not None and key not in names:
                raise InvalidInputError(f"key {key!r} is not in {file}, which holds {', '.join(names)}.")
            return np.asarray(loaded[names[0] if key is None else key])
    except InvalidInputError:
        raise
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise InvalidInputError(f"{file} cannot be read as numbers ({type(error).__name__}). Save it again.") from error
