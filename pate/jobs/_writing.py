"""What a job writes: labels and their statement, whole or not at all, never over anything else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.files import check_can_write, json_text, write_bytes
from pate.exceptions import InvalidInputError, RunFolderError
from pate.ledger import Ledger
from pate.mechanisms import NoisyHistogram
from pate.release import LabelRelease, ModelLabels, ReleasedLabels
from pate.statement.files import bind_released
from pate.statement.model import PrivacyStatement

#: The statement beside the labels: for machines, for reading and for printing.
_STATEMENT = (".statement.json", ".statement.txt", ".statement.html")
#: The model beside them.
MODEL = ".pate"
#: Of a file of labels, whatever the job.
_COLUMNS = ("label", "status", "lead", "confidence")
#: Digits of a label's probability.
_DIGITS = 4
#: A spreadsheet takes a cell that starts with one of these for a formula, or drops it and looks at the next character.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def check_new_files(out: str | os.PathLike[str], *, model: bool = False) -> list[Path]:
    """Return the paths of the labels and of the statement's three files, if each can be made and none exists yet.

    Missing folders are made when the files are. With ``model`` also that of the model beside them.

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
    paths = _new_paths(out, (*_STATEMENT, MODEL) if model else _STATEMENT)
    for path in paths:
        check_can_write("out", path)
    return paths


def check_id(name: str | None, classes: Sequence[Any] | None = None) -> str | None:
    """Return the name of an id column, or refuse it: a file of labels would have two columns of that name."""
    if name in _COLUMNS or name in proba_columns(classes or ()):
        raise InvalidInputError(
            f"id must not be called {name!r}, as a column of the written labels is. Rename it in the table."
        )
    return name


def proba_columns(classes: Sequence[Any]) -> list[str]:
    """Return what the columns of probabilities are called."""
    return [f"p_{value}" for value in classes]


def _new_paths(out: str | os.PathLike[str], beside: Sequence[str] = _STATEMENT) -> list[Path]:
    goal = Path(out)
    if not goal.name:
        raise InvalidInputError(
            f"out must name a CSV file to write, got {os.fspath(out)!r}. Say labels.csv, for example."
        )
    paths = [goal, *(goal.with_name(goal.stem + ending) for ending in beside)]
    if len(set(paths)) < len(paths):
        raise InvalidInputError(
            f"out must name a CSV file to write, got {os.fspath(out)!r}: what goes beside it has that "
            "name. Say labels.csv."
        )
    for path in paths:
        if os.path.lexists(path):
            raise RunFolderError(f"{str(path)!r} exists. Results are never overwritten: name another file.")
    return paths


def write_labels(
    release: ReleasedLabels,
    rows: npt.NDArray[np.int64],
    out: str | os.PathLike[str],
    *,
    n_public: int,
    names: tuple[str, ...] | None = None,
    ids: npt.NDArray[Any] | None = None,
    id_name: str | None = None,
    proba: bool = False,
    safe_csv: bool = False,
    ledger: Ledger | None = None,
) -> tuple[list[Path], PrivacyStatement]:
    """Write the labels of all public rows, and the statement beside them; return paths and statement.

    With a ledger the files' digests are bound first: whatever lies there after a crash is known to it.
    """
    paths = _new_paths(out)
    frame = release.to_frame(rows=rows).set_index("row")
    found, lead = sureness(release, proba=proba)
    if lead is not None:
        frame["lead"] = lead.round(_DIGITS)
    if found is not None:
        # Of the label that is there; where the gap let none pass, of none.
        chosen = np.where(release.answered, release.labels, 0)
        sure = found if found.ndim == 1 else found[np.arange(len(found)), chosen]
        frame["confidence"] = np.where(release.answered, sure, np.nan).round(_DIGITS)
        if proba:
            frame[proba_columns(release.classes)] = found.round(_DIGITS)
    frame = frame.reindex(range(n_public)).reset_index(drop=True)
    frame["status"] = frame["status"].fillna("not asked")
    content = as_csv(frame, names=names, ids=ids, id_name=id_name, safe_csv=safe_csv)
    statement = release.statement.of_file(paths[0].name, content)
    # Labels last: without their statement they should not lie around.
    _write_all(_pages(statement, paths[1:]) | {paths[0]: content}, out, statement, ledger)
    return paths, statement


def write_statement(
    statement: PrivacyStatement, out: str | os.PathLike[str], *, ledger: Ledger | None = None
) -> list[Path]:
    """Write a statement alone, where there are no labels, beside what ``out`` names; return the paths."""
    paths = _new_paths(out)[1:]
    _write_all(_pages(statement, paths), out, statement, ledger)
    return paths


def _pages(statement: PrivacyStatement, paths: list[Path]) -> dict[Path, bytes]:
    texts = (json_text(statement.to_dict()), statement.text(), statement.html())
    return {path: text.encode("utf-8") for path, text in zip(paths, texts, strict=True)}


def _write_all(
    files: dict[Path, bytes], out: str | os.PathLike[str], statement: PrivacyStatement, ledger: Ledger | None
) -> None:
    """Write all files or none; with a ledger their digests are bound first."""
    if statement.ledger_releases:
        bind_released(ledger, contents={path.name: data for path, data in files.items()})
    try:
        for goal, data in files.items():
            write_bytes(goal, data)
    except OSError as error:
        for path in files:
            path.unlink(missing_ok=True)  # none was there before
        raise InvalidInputError(
            f"out={os.fspath(out)!r} could not be written: {error.strerror or error}. No file was left. A ledger keeps "
            "what was paid for: make room or name another file, and the same command gives it for free."
        ) from error


def check_proba(plan: Any) -> None:
    """Refuse probabilities where labels alone will be released, before they are paid for.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from pate import GNMax
    >>> check_proba(SimpleNamespace(mechanism=GNMax(9.0)))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: proba must be left out where labels alone are released, as by GNMax(sigma=9...
    """
    mechanism = getattr(plan, "mechanism", None)  # records' plans have several, and a model in any case
    if mechanism is not None and not isinstance(mechanism, NoisyHistogram):
        raise InvalidInputError(
            f"proba must be left out where labels alone are released, as by {mechanism}: no count says how sure they "
            "are. Ask the model (pate predict --proba), or let the mechanism be histogram."
        )


def sureness(
    release: ReleasedLabels, *, proba: bool
) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.float64] | None]:
    """Return how sure the labels are, by public numbers alone, and the noisy lead; None where nothing says it.

    The first is of shape (n_queries, n_classes): where records vote, what the released model says; where noisy counts
    were released, how probable it is that a class leads the counts without their noise. Without ``proba`` it may be of
    shape (n_queries,), of the label alone.
    """
    if isinstance(release, ModelLabels):
        return release.probability, None
    if isinstance(release, LabelRelease) and release.noisy_counts is not None:
        return release.leader_probability() if proba else release.confidence(), release.lead
    return None, None


def as_csv(
    frame: Any,
    *,
    names: tuple[str, ...] | None = None,
    ids: npt.NDArray[Any] | None = None,
    id_name: str | None = None,
    safe_csv: bool = False,
) -> bytes:
    r"""Return rows as a CSV file; first what says which row it is: its id, if it has one, then its place or file."""
    import pandas as pd

    frame = frame.copy()
    if names is not None:
        frame.insert(0, "file", pd.Series(names, dtype=object, index=frame.index))
    elif id_name != "row":  # an id may be called so
        frame.insert(0, "row", np.arange(len(frame)))
    if ids is not None and id_name is not None:
        frame.insert(0, id_name, pd.Series(ids, dtype=object, index=frame.index))
    if safe_csv:
        for column in frame.columns:
            if not pd.api.types.is_numeric_dtype(frame[column].dtype):
                there = zip(frame[column], frame[column].notna(), strict=True)
                cells = [harmless(cell) if present else cell for cell, present in there]
                # As objects: class 5 stays 5 beside a missing one.
                frame[column] = pd.Series(cells, dtype=object, index=frame.index)
        frame.columns = [harmless(name) for name in frame.columns]
    return bytes(frame.to_csv(index=False).encode("utf-8"))


def harmless(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs: an apostrophe goes before what would start a formula."""
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else cell
