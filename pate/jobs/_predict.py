"""What a model says of rows in a file: read by the door that the model was made with, and free."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate.core.files import check_can_write, write_bytes, writing
from pate.data import Table, read_images, read_table
from pate.data.files._arrow import file_of
from pate.data.files._csv import TableFormat
from pate.data.files._opened import is_table
from pate.data.files.tables import quoted
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError, RunFolderError
from pate.jobs._records import in_planes
from pate.jobs._writing import as_csv, check_id, proba_columns
from pate.model import Door, ModelFile, read_model

if TYPE_CHECKING:
    import pandas as pd


# Public rows by themselves, before anybody has looked at private ones: for plans.


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


_DIGITS = 4


@dataclass(frozen=True)
class Predictions:
    """What was written.

    Attributes
    ----------
    path : Path
    n_rows : int
    left_out : tuple of str
        Columns of the file that the model has no use for.
    headline : str
        The guarantee of the release that taught the model.
    measured : str
        How often the model is right; empty where that was not measured.

    Examples
    --------
    >>> Predictions(Path("predictions.csv"), 3, ("name",), "epsilon = 1 ...").left_out
    ('name',)
    """

    path: Path
    n_rows: int
    left_out: tuple[str, ...]
    headline: str
    measured: str = ""


def open_model(file: ModelFile) -> Any:
    """Return the classifier in a model file that was read.

    Raises
    ------
    InvalidInputError
        It is damaged, holds types that are not safe to build, or is no classifier of this version.
    """
    return PATEClassifier._of_file(file)


def predict_file(
    model: str | os.PathLike[str],
    rows: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    id: str | None = None,
    proba: bool = False,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    resize: bool = False,
    safe_csv: bool = False,
) -> Predictions:
    r"""Write what a model says of the rows of a file; nothing is spent.

    Parameters
    ----------
    model : path
        What :meth:`pate.PATEClassifier.save` or ``pate label`` wrote.
    rows : path
        A table with the model's columns, by name and in any order (others are left out), or a flat folder of images.
        A cell that is none of its column's kind counts as missing, for its own row alone.
    out : path
        A CSV file, which must not exist: the id where one is named, ``row`` (from 0; of images ``file``), ``label`` and
        ``confidence``, the label's probability by the model where it gives any.
    id : str or None
        Column that is carried over, as it is written.
    proba : bool
        Also one column per class, ``p_CLASS``.
    sep, encoding, decimal, sheet
        How a table is written, see :func:`pate.read_table`; what stands before the decimals is as in the public table
        that the model learnt from.
    resize : bool
        Bring images to the model's size and colour.
    safe_csv : bool
        An apostrophe before cells that a spreadsheet would take for a formula.

    Returns
    -------
    Predictions

    Raises
    ------
    InvalidInputError
        No such files, a damaged model, columns that are missing, or a model without probabilities where some are
        wanted.
    RunFolderError
        ``out`` exists.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget, PATEClassifier
    >>> folder = Path(tempfile.mkdtemp())
    >>> X, y = np.arange(40.0).reshape(40, 1), np.repeat([0, 1], 20)
    >>> clf = PATEClassifier(n_teachers=4, budget=Budget(1e4, 1e-5), classes=[0, 1]).fit(X, y, X_public=X[::4] + 0.5)
    >>> clf.save(folder / "model.pate")
    >>> _ = (folder / "rows.csv").write_text("age\n1\n39\n")
    >>> predict_file(folder / "model.pate", folder / "rows.csv", folder / "predictions.csv").n_rows
    2
    >>> print((folder / "predictions.csv").read_text().splitlines()[0])
    row,label,confidence
    """
    goal = Path(out)
    if os.path.lexists(goal):
        raise RunFolderError(f"{str(goal)!r} exists. Results are never overwritten: name another file.")
    check_can_write("out", goal)
    file = read_model(model)
    check_id(id, file.manifest.classes)
    clf = open_model(file)
    if proba and not hasattr(clf, "predict_proba"):
        raise InvalidInputError(
            f"proba must be left out: the model's student ({', '.join(file.manifest.made_of)}) gives no probabilities."
        )
    written = {"sep": sep, "encoding": encoding, "decimal": decimal, "sheet": sheet}
    X, ids, names, left_out = _read(file.manifest.door, rows, id, resize=resize, written=written)
    frame = _asked(clf, X, proba=proba)
    content = as_csv(frame, names=names, ids=ids, id_name=id, safe_csv=safe_csv)
    with writing("out", out):
        write_bytes(goal, content)
    measured = "" if file.statement.measured is None else str(file.statement.measured)
    return Predictions(goal, len(frame), left_out, file.statement.headline, measured)


def _asked(clf: Any, X: Any, *, proba: bool) -> pd.DataFrame:
    import pandas as pd

    said = clf.predict(X)
    frame = pd.DataFrame({"label": pd.Series(said.tolist(), dtype=object)})
    if hasattr(clf, "predict_proba"):
        found = clf.predict_proba(X)
        place = {value: i for i, value in enumerate(clf.classes_.tolist())}
        at = np.array([place[value] for value in said.tolist()], dtype=np.int64)
        frame["confidence"] = found[np.arange(len(found)), at].round(_DIGITS)
        if proba:
            frame[proba_columns(clf.classes_.tolist())] = found.round(_DIGITS)
    return frame


def _read(
    door: Door, rows: Any, id: str | None, *, resize: bool, written: Mapping[str, Any]
) -> tuple[Any, npt.NDArray[Any] | None, tuple[str, ...] | None, tuple[str, ...]]:
    """Return rows as the model takes them, their ids, names of image files, and columns that are left out."""
    folder = not is_table(rows)
    if folder != (door.kind == "images"):
        here = "a folder" if folder else f"{os.fspath(rows)!r}"
        more = " Read images yourself, and ask the model in Python." if folder else ""
        raise InvalidInputError(f"the model takes {door}, got {here}.{more}")
    if door.kind == "images":
        said = [option for option, value in {"id": id, **written}.items() if value is not None]
        if said:
            raise InvalidInputError(
                f"{said[0]} is for tables: images are known by the names of their files. Leave it out."
            )
        images = read_images(rows, size=door.size, color=door.color, resize=resize, convert=resize)
        return in_planes(images.rows(), door.image_shape), None, images.names, ()
    if resize:
        raise InvalidInputError("resize is for folders of images, not for tables. Leave it out.")
    X = _table(door, rows, id, written)
    name = file_of(rows).name
    ids = None
    if id is not None:
        if id not in X.columns:
            raise InvalidInputError(f"id column {id!r} is not in {name}, which has: {quoted(X.columns)}.")
        if id in door.names:
            raise InvalidInputError(f"id column {id!r} is a feature of the model: an id is none. Name another column.")
        ids = X.pop(id).to_numpy(dtype=object)
    if door.kind == "table":
        missing = [column for column in door.names if column not in X.columns]
        if missing:
            raise InvalidInputError(
                f"{name} lacks columns that the model asks for: {quoted(missing)}. It has: {quoted(X.columns)}."
            )
        left_out = tuple(column for column in X.columns if column not in door.names)
        return X[door.names], ids, None, left_out
    if door.kind == "texts":
        if door.names and door.names[0] in X.columns:
            left_out = tuple(column for column in X.columns if column != door.names[0])
            return X[door.names[0]].fillna("").to_numpy(dtype=object), ids, None, left_out
        if X.shape[1] != 1:
            raise InvalidInputError(
                f"the model takes texts: {name} must have one column beside the id, and has {quoted(X.columns)}."
            )
        return X.iloc[:, 0].fillna("").to_numpy(dtype=object), ids, None, ()
    if X.shape[1] != door.n_features:
        raise InvalidInputError(
            f"the model takes {door} by their places: {name} has {X.shape[1]} columns beside the id. It was "
            "made of arrays, which have no names."
        )
    return X.to_numpy(dtype=object if door.mixed else np.float64), ids, None, ()


def _table(door: Door, rows: Any, id: str | None, written: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table read cell by cell, as the columns that the model was taught on were."""
    import pandas as pd

    if door.kind == "array":
        return read_table(rows, text=[] if id is None else [id], **written).X
    # Columns without a kind, and so ids and what is left out, are texts.
    # Numbers are written as the public ones were, unless somebody says otherwise.
    known = TableFormat("CSV", decimal=door.decimal or "")
    taught = Table(X=pd.DataFrame(), y=None, groups=None, path=Path(rows), kinds=dict(door.columns or ()), format=known)
    return read_table(rows, like=taught, **written).X
