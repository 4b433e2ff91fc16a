"""What a job writes: labels and their statement, whole or not at all, never over anything else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._files import atomic_path, write_json, write_text
from pate.exceptions import RunFolderError
from pate.labeling import LabelRelease
from pate.statement_page import statement_page

#: The statement beside the labels: for machines, for reading and for printing.
_STATEMENT = (".statement.json", ".statement.txt", ".statement.html")
#: A spreadsheet takes a cell that starts with one of these for a formula, or drops it and looks at the next character.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def check_new_files(out: str | os.PathLike[str]) -> list[Path]:
    """Return the paths of the labels and of the statement's three files, if none of them exists yet.

    Raises
    ------
    RunFolderError
        One exists: results are never overwritten.

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in check_new_files(Path(tempfile.mkdtemp()) / "labels.csv")]
    ['labels.csv', 'labels.statement.json', 'labels.statement.txt', 'labels.statement.html']
    """
    goal = Path(out)
    paths = [goal, *(goal.with_name(goal.stem + ending) for ending in _STATEMENT)]
    for path in paths:
        if path.exists() or path.is_symlink():
            raise RunFolderError(f"{str(path)!r} exists. Results are never overwritten: name another file.")
    return paths


def write_labels(
    release: LabelRelease,
    rows: npt.NDArray[np.int64],
    out: str | os.PathLike[str],
    *,
    n_public: int,
    names: tuple[str, ...] | None = None,
    safe_csv: bool = False,
) -> list[Path]:
    """Write the labels of all public rows, and the statement beside them."""
    import pandas as pd

    paths = check_new_files(out)
    frame = release.to_frame(rows=rows).set_index("row")
    frame = frame.reindex(range(n_public)).reset_index()
    frame["status"] = frame["status"].fillna("not asked")
    if names is not None:
        frame = frame.drop(columns="row")
        frame.insert(0, "file", pd.Series(names, dtype=object))
    if safe_csv:
        for column in frame.columns.difference(["row", "status"]):
            frame[column] = frame[column].map(harmless, na_action="ignore")
    content = frame.to_csv(index=False).encode("utf-8")
    statement = release.statement.of_file(paths[0].name, content)
    write_json(paths[1], statement.to_dict())
    write_text(paths[2], statement.text())
    write_text(paths[3], statement_page(statement.to_dict()))
    # Last: labels without their statement should not lie around.
    with atomic_path(paths[0]) as path:
        path.write_bytes(content)
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
