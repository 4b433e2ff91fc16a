"""Vote matrices that somebody else made, from files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_classes, check_int
from pate.data.files._npz import BROKEN, read_npy, read_npz
from pate.exceptions import InvalidInputError
from pate.votes import Votes

KINDS = ("counts", "labels")
#: A count beyond this is no number of teachers, and sums of such counts would not fit 64 bits.
_MOST_VOTES = 2**40
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
        where there is no doubt: rows of one sum (``n_teachers``, when given) and a value that is too large for a class
        index, or ``classes`` that fit one kind alone.
    key : str or None
        Which array of an ``.npz``; needed when it has several.
    n_teachers : int or None
        What every row of counts must sum to.
    classes : iterable, int or None
        Class values or their number; needed for labels.
    rows : int or None
        Use the first ``rows`` queries only; at least 1.
    ask : callable or None
        Asked with a question when the kind is in doubt; returns the kind. None raises instead.

    Returns
    -------
    Votes

    Raises
    ------
    InvalidInputError
        No such file, a damaged one, not a matrix of whole numbers, rows that do not sum to the number of teachers, or a
        doubt about the kind.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "votes.npy"
    >>> np.save(file, [[8, 2], [5, 5]])
    >>> read_votes(file)
    Votes(n_queries=2, n_classes=2, n_teachers=10, counts=<sensitive>)
    """
    file = Path(path)
    if rows is not None:
        rows = check_int("rows", rows, low=1, remedy="Leave it out to use all queries.")
    if n_teachers is not None:
        n_teachers = check_int("n_teachers", n_teachers, low=1)
    if classes is not None:
        classes = check_classes(range(classes) if isinstance(classes, int | np.integer) else classes)
    check_vote_file(file)
    matrix = _read(file, key)
    if matrix.ndim != 2 or not matrix.size:
        raise InvalidInputError(f"{file} holds an array of shape {matrix.shape}; votes are a matrix with two axes.")
    if matrix.dtype.kind in "iuf" and not (np.abs(matrix.astype(np.float64)) <= _MOST_VOTES).all():
        raise InvalidInputError(
            f"{file} holds values that are not finite, or larger than {_MOST_VOTES}. Votes are counts or class indices."
        )
    if kind is None:
        kind = _certain_kind(file, matrix, n_teachers, None if classes is None else len(classes))
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


#: What a file of votes is, for whoever has another table.
_WANTED = (
    "Votes are whole numbers alone, without a header line: counts (one line per public row, one column per class, "
    "which sum to the number of teachers) or labels (one line per teacher, one column per public row, class indices). "
    "To label a table of your own, run pate label; to see what a budget buys, pate plan."
)


def check_vote_file(path: str | os.PathLike[str]) -> None:
    """Refuse a table that is no votes by the first line of its CSV file, before all that would be asked about votes."""
    file = Path(path)
    if file.suffix == ".csv" and file.is_file():
        with file.open("rb") as opened:
            cells = opened.readline(2**16).decode("utf-8", "replace").split(",")
        if not all(_is_number(cell) for cell in cells if cell.strip()):
            raise InvalidInputError(f"{file} is no file of votes: its first line holds texts. {_WANTED}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _certain_kind(file: Path, matrix: npt.NDArray[Any], n_teachers: int | None, n_classes: int | None) -> str | None:
    """Return the kind when it can only be one; None when in doubt.

    Rows of one sum are not enough: those of teachers who agree have it too.
    """
    if matrix.dtype.kind not in "iuf" or not (matrix >= 0).all() or not (matrix == np.floor(matrix)).all():
        raise InvalidInputError(f"{file} holds other values than whole numbers >= 0. {_WANTED}")
    n_columns, largest = matrix.shape[1], matrix.max()
    if n_classes is not None:
        counts, labels = n_columns == n_classes, largest < n_classes
        if not counts and not labels:
            raise InvalidInputError(
                f"{file} is neither counts nor labels of {n_classes} classes: it has {n_columns} columns, and "
                f"values that are no class index 0 .. {n_classes - 1}. Check classes; transpose the file?"
            )
        if counts != labels:
            return "counts" if counts else "labels"
    sums = matrix.sum(axis=1)
    equal = (sums == n_teachers).all() if n_teachers is not None else len(sums) > 1 and (sums == sums[0]).all()
    # As class indices these would need more classes than there are queries.
    return "counts" if equal and largest >= n_columns else None


def _read(file: Path, key: str | None) -> npt.NDArray[Any]:
    if file.suffix not in _SUFFIXES:
        raise InvalidInputError(f"votes must be a {', '.join(_SUFFIXES)} file, got {file.name!r}.")
    if not file.is_file():
        raise InvalidInputError(f"there is no file {file}. Check the name and the folder.")
    if not file.stat().st_size:
        raise InvalidInputError(f"{file} is empty. Save it again.")
    if file.suffix == ".npz":
        arrays = read_npz(file, what="archive of numbers", remedy="Save it again.")
        names = list(arrays)
        if key is None and len(names) != 1:
            raise InvalidInputError(f"{file} holds the arrays {', '.join(names)}. Say which: --key {names[0]}.")
        if key is not None and key not in names:
            raise InvalidInputError(f"key {key!r} is not in {file}, which holds {', '.join(names)}.")
        return arrays[names[0] if key is None else key]
    if file.suffix == ".npy":
        return read_npy(file, what="array of numbers", remedy="Save it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a file of blank lines: its shape is refused
            return np.loadtxt(file, delimiter=",", ndmin=2, encoding="utf-8")
    except BROKEN as error:
        # Not chained: the parser quotes a cell.
        raise InvalidInputError(f"{file} cannot be read as numbers ({type(error).__name__}). {_WANTED}") from None
