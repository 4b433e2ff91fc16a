"""What a job writes: labels and their statement, whole or not at all, never over anything else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.files import atomic_path, check_can_write, write_json, write_text
from pate.exceptions import InvalidInputError, RunFolderError
from pate.release import RecordLabels, ReleasedLabels

#: The statement beside the labels: for machines, for reading and for printing.
_STATEMENT = (".statement.json", ".statement.txt", ".statement.html")
#: Columns of the labels that no id may be called.
_WRITTEN = ("label", "status", "confidence")
#: Digits of a label's probability.
_DIGITS = 4
#: A spreadsheet takes a cell that starts with one of these for a formula, or drops it and looks at the next character.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def check_new_files(out: str | os.PathLike[str]) -> list[Path]:
    """Return the paths of the labels and of the statement's three files, if each can be made and none exists yet.

    Missing folders are made when the files are.

    Raises
    ------
    RunFolderError
        One exists: results are never overwritten.
    InvalidInputError
        One could not be written there.

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in check_new_files(Path(tempfile.mkdtemp()) / "labels.csv")]
    ['labels.csv', 'labels.statement.json', 'labels.statement.txt', 'labels.statement.html']
    """
    paths = _new_paths(out)
    for path in paths:
        check_can_write("out", path)
    return paths


def _new_paths(out: str | os.PathLike[str]) -> list[Path]:
    goal = Path(out)
    if not goal.name:
        raise InvalidInputError(
            f"out must name a CSV file to write, got {os.fspath(out)!r}. Say labels.csv, for example."
        )
    paths = [goal, *(goal.with_name(goal.stem + ending) for ending in _STATEMENT)]
    for path in paths:
        if os.path.lexists(path):
            raise RunFolderError(f"{str(path)!r} exists. Results are never overwritten: name another file.")
    return paths


def check_id(name: str | None) -> str | None:
    """Return the name of the public rows' id, if labels can be written beside it.

    Examples
    --------
    >>> check_id("visit")
    'visit'
    >>> check_id("label")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: id must not be called 'label', as a column of the written labels is. ...
    """
    if name in _WRITTEN:
        raise InvalidInputError(
            f"id must not be called {name!r}, as a column of the written labels is. Rename it in the table."
        )
    return name


def write_labels(
    release: ReleasedLabels,
    rows: npt.NDArray[np.int64],
    out: str | os.PathLike[str],
    *,
    n_public: int,
    names: tuple[str, ...] | None = None,
    ids: npt.NDArray[Any] | None = None,
    id_name: str | None = None,
    safe_csv: bool = False,
) -> list[Path]:
    """Write the labels of all public rows, and the statement beside them."""
    import pandas as pd

    paths = _new_paths(out)
    frame = release.to_frame(rows=rows).set_index("row")
    if isinstance(release, RecordLabels):
        frame["confidence"] = np.round(release.probability.max(axis=1), _DIGITS)
    frame = frame.reindex(range(n_public)).reset_index()
    frame["status"] = frame["status"].fillna("not asked")
    if names is not None:
        frame = frame.drop(columns="row")
        frame.insert(0, "file", pd.Series(names, dtype=object))
    if ids is not None and id_name is not None:
        frame = frame.drop(columns=id_name, errors="ignore")  # an id may be called row
        frame.insert(0, id_name, pd.Series(ids, dtype=object))
    if safe_csv:
        for column in frame.columns.difference(["row", "status", "confidence"]):
            frame[column] = frame[column].map(harmless, na_action="ignore")
    content = frame.to_csv(index=False).encode("utf-8")
    statement = release.statement.of_file(paths[0].name, content)
    try:
        write_json(paths[1], statement.to_dict())
        write_text(paths[2], statement.text())
        write_text(paths[3], statement.html())
        # Last: labels without their statement should not lie around.
        with atomic_path(paths[0]) as path:
            path.write_bytes(content)
    except OSError as error:
        for path in paths:
            path.unlink(missing_ok=True)  # none was there before
        raise InvalidInputError(
            f"out={os.fspath(out)!r} could not be written: {error.strerror or error}. No file was left. A ledger keeps "
            "what was paid for: make room or name another file, and the same command gives it for free."
        ) from error
    return paths


def harmless(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs: an apostrophe goes before what would start a formula.

    Examples
    --------
    >>> harmless("=1+1"), harmless("yes"), harmless(-1)
    ("'=1+1", 'yes', "'-1")
    """
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else cell
