"""What a job writes, and what a model says of further rows: whole or not at all, never over anything else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import canonical, check_path
from pate._core.events import event, is_logged
from pate._core.files import check_can_write, json_text, write_bytes
from pate._core.frames import guarded
from pate.data import (
    DATE,
    Table,
    TableFormat,
    as_dates,
    file_of,
    is_table,
    own_encoding,
    quoted,
    read_images,
    read_table,
    without_empty,
)
from pate.estimators import PATEClassifier, PATEMultilabelClassifier, PATERegressor
from pate.exceptions import InvalidInputError, RunFolderError
from pate.jobs._reading import in_planes
from pate.jobs._request import check_id, proba_columns
from pate.ledger import Ledger
from pate.mechanisms import NoisyHistogram
from pate.models import as_frame, labels_frame
from pate.models.file import OF_NUMBERS, InputSpec, read_model
from pate.release import LabelRelease, ModelLabels, ReleasedLabels
from pate.release.statement.files import bind_released
from pate.release.statement.model import PrivacyStatement

if TYPE_CHECKING:
    import pandas as pd


#: The statement beside the labels: for machines, for reading and for printing.
_STATEMENT = (".statement.json", ".statement.txt", ".statement.html")
#: The model beside them.
MODEL = ".pate"
#: Digits of a label's probability.
_DIGITS = 4


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
    paths = new_paths(out, (*_STATEMENT, MODEL) if model else _STATEMENT)
    for path in paths:
        check_can_write("out", path)
    return paths


def new_paths(out: str | os.PathLike[str], beside: Sequence[str] = _STATEMENT) -> list[Path]:
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
    proba: bool = False,
    ledger: Ledger | None = None,
    **how: Any,
) -> tuple[list[Path], PrivacyStatement]:
    """Write the labels of all public rows, and the statement beside them; return paths and statement.

    All files are written or none; ``how`` as for :func:`as_csv`. Where there are no public rows there is a statement
    alone. With a ledger the files' digests are bound first: whatever lies there after a crash is known to it.
    """
    paths, statement, content = new_paths(out), release.statement, b""
    if n_public:
        frame = release.to_frame(rows=rows).set_index("row")
        found, margin = sureness(release, proba=proba)
        if margin is not None:
            frame["margin"] = margin.round(_DIGITS)
        if found is not None:
            # Of the label that is there; where the gap let none pass, of none.
            chosen = np.where(release.answered, release.labels, 0)
            sure = found if found.ndim == 1 else found[np.arange(len(found)), chosen]
            frame["confidence"] = np.where(release.answered, sure, np.nan).round(_DIGITS)
            if proba:
                frame[proba_columns(release.classes)] = found.round(_DIGITS)
        frame = frame.reindex(range(n_public)).reset_index(drop=True)
        frame["status"] = frame["status"].fillna("not asked")
        content = as_csv(frame, **how)
        statement = statement.of_file(paths[0].name, content)
    files = statement_files(paths, statement)
    if n_public:  # last: without their statement they should not lie around
        files[paths[0]] = content
    write_files(files, statement, ledger)
    return (paths if n_public else paths[1:]), statement


def statement_files(paths: Sequence[Path], statement: PrivacyStatement) -> dict[Path, bytes]:
    """Return the statement's three files; ``paths`` are of :func:`new_paths`."""
    texts = (json_text(statement.to_dict()), statement.text(), statement.html())
    return {path: text.encode("utf-8") for path, text in zip(paths[1:], texts, strict=True)}


def write_files(files: Mapping[Path, bytes], statement: PrivacyStatement, ledger: Ledger | None) -> None:
    """Write released files, all or none; with a ledger their digests are bound first."""
    digest = statement.digest if is_logged("statement") else None  # may fail before the first file, not after the last
    if statement.ledger_releases:
        bind_released(ledger, contents={path.name: data for path, data in files.items()})
    try:
        for goal, data in files.items():
            write_bytes(goal, data)
    except OSError as error:
        for path in files:
            path.unlink(missing_ok=True)  # none was there before
        raise InvalidInputError(
            f"out={str(list(files)[-1])!r} could not be written: {error.strerror or error}. No file was left. "
            "The ledger holds what was paid for: make room or name another file, and the same command writes it, free."
        ) from error
    event("statement", "written", digest=digest, files=" ".join(path.name for path in files))


def write_rows(
    rows: Any,
    release: ModelLabels,
    out: str | os.PathLike[str],
    *,
    target: str,
    kinds: Mapping[str, str],
    ledger: Ledger | None,
    raw_csv: bool = False,
) -> Path:
    """Write synthetic rows with the model's labels to a new CSV file; a ledger knows its digest.

    ``kinds`` are those of the schema's columns: dates are written as the private table writes them.
    """
    import pandas as pd

    goal = Path(out)
    if os.path.lexists(goal):
        raise RunFolderError(f"{str(goal)!r} exists. Results are never overwritten: name another file.")
    frame = rows.convert_dtypes()  # whole numbers without a point
    for name, kind in kinds.items():
        if kind.startswith(DATE):
            frame[name] = pd.Series(as_dates(rows[name].tolist(), kind), dtype=object, index=frame.index)
    frame[target] = [release.classes[i] for i in release.labels.tolist()]
    content = as_csv(frame, id_name="row", raw_csv=raw_csv)
    write_files({goal: content}, release.statement, ledger)
    return goal


def check_proba(plan: Any) -> None:
    """Refuse probabilities where labels or numbers alone will be released, before they are paid for.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from pate import GNMax
    >>> check_proba(SimpleNamespace(mechanism=GNMax(9.0)))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: proba must be left out where labels alone are released, as by GNMax(sigma=9...
    """
    if hasattr(plan, "bounds"):
        raise InvalidInputError("proba must be left out where the target is a number: there are no classes.")
    mechanism = getattr(plan, "mechanism", None)  # records' plans have several, and a model in any case
    if mechanism is not None and not isinstance(mechanism, NoisyHistogram):
        raise InvalidInputError(
            f"proba must be left out where labels alone are released, as by {mechanism}: no count says how sure they "
            "are. Ask the model (pate predict --proba), or let the mechanism be histogram."
        )


def sureness(
    release: ReleasedLabels, *, proba: bool
) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.float64] | None]:
    """Return how sure the labels are, by public numbers alone, and their noisy margin; None where none is public.

    The first is of shape (n_queries, n_classes): where records vote, what the released model says; where noisy counts
    were released, how probable it is that a class leads the counts without their noise. Without ``proba`` it may be of
    shape (n_queries,), of the label alone.
    """
    if isinstance(release, ModelLabels):
        return release.probability, None
    if isinstance(release, LabelRelease) and release.noisy_counts is not None:
        return release.leader_probability() if proba else release.confidence(), release.margin
    return None, None


def as_csv(
    frame: Any,
    *,
    names: tuple[str, ...] | None = None,
    ids: npt.NDArray[Any] | None = None,
    id_name: str | None = None,
    raw_csv: bool = False,
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
    frame = frame if raw_csv else guarded(frame)
    return bytes(frame.to_csv(index=False).encode("utf-8"))


# Public rows by themselves, before private ones are read: for plans.


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
        return without_empty(read_table(path, drop=list(drop), text=list(text))).X, None
    shown = read_images(path)
    height, width, *colours = shown.X.shape[1:]
    shape = (*colours, height, width)
    return in_planes(shown.rows(), shape), shape


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
    doubts : tuple of str
        What its statement says against relying on it.

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
    doubts: tuple[str, ...] = ()


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
    thousands: str | None = None,
    sheet: str | None = None,
    resize: bool = False,
    raw_csv: bool = False,
) -> Predictions:
    r"""Write a saved model's predictions for the rows of a file; nothing is spent.

    Parameters
    ----------
    model : path
        What :meth:`pate.PATEClassifier.save` or ``pate label`` wrote.
    rows : path
        A table with the model's columns, by name and in any order (others are left out), or a flat folder of images.
        A cell that is none of its column's kind counts as missing, for its own row alone.
    out : path
        A CSV file, which must not exist: the id where one is named, ``row`` (from 0; of images ``file``), ``label`` and
        ``confidence``, the label's probability by the model where it gives any; of a model of a number ``value``,
        ``low`` and ``high``, the ends of its 90% interval; of several labels 0 or 1 and ``p_LABEL`` for each.
    id : str or None
        Column that is carried over, as it is written.
    proba : bool
        Also one column per class, ``p_CLASS``.
    sep, encoding, decimal, thousands, sheet
        How a table is written, see :func:`pate.read_table`; what stands before the decimals is as in the public table
        that the model learnt from. A file that is not UTF-8 is read in that table's encoding, else as cp1252.
    resize : bool
        Bring images to the model's size and colour.
    raw_csv : bool
        Write texts that a spreadsheet would take for a formula without an apostrophe before them.

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
    >>> clf = PATEClassifier(n_teachers=4, budget=Budget(1e4, 1e-5), classes=[0, 1]).fit(
    ...     X, y, X_public=X[::4] + 0.5
    ... )
    >>> clf.save(folder / "model.pate")
    >>> _ = (folder / "rows.csv").write_text("age\n1\n39\n")
    >>> predict_file(
    ...     folder / "model.pate", folder / "rows.csv", folder / "predictions.csv"
    ... ).n_rows
    2
    >>> print((folder / "predictions.csv").read_text().splitlines()[0])
    row,label,confidence
    """
    check_path("rows", rows, remedy="For rows in memory: PATEClassifier.load(model).predict(X).")
    for name, path in (("model", model), ("out", out)):
        check_path(name, path)
    goal = Path(out)
    if os.path.lexists(goal):
        raise RunFolderError(f"{str(goal)!r} exists. Results are never overwritten: name another file.")
    check_can_write("out", goal)
    file = read_model(model)
    check_id(id, file.manifest.classes)
    numbers, several = file.manifest.kind in OF_NUMBERS, file.manifest.kind == "labels"
    reader: Any = PATERegressor if numbers else PATEMultilabelClassifier if several else PATEClassifier
    clf = reader._of_file(file)
    if proba and numbers:
        raise InvalidInputError("proba must be left out: the model predicts a number, and there are no classes.")
    if proba and not hasattr(clf, "predict_proba"):
        raise InvalidInputError(
            f"proba must be left out: the model's student ({', '.join(file.manifest.made_of)}) gives no probabilities."
        )
    written = {"sep": sep, "encoding": encoding, "decimal": decimal, "thousands": thousands, "sheet": sheet}
    X, ids, names, left_out = _read(file.manifest.door, rows, id, resize=resize, written=written)
    frame = _values(clf, X) if numbers else _several(clf, X) if several else _asked(clf, X, proba=proba)
    content = as_csv(frame, names=names, ids=ids, id_name=id, raw_csv=raw_csv)
    try:
        write_bytes(goal, content)
    except OSError as error:
        raise InvalidInputError(f"out={os.fspath(out)!r} could not be written: {error.strerror or error}.") from error
    found = file.statement.errors or file.statement.quality or file.statement.measured
    measured = "" if found is None else str(found)
    return Predictions(
        goal, len(frame), left_out, file.statement.headline, measured, tuple(map(str, file.statement.doubts))
    )


def _values(reg: PATERegressor, X: Any) -> pd.DataFrame:
    found: pd.DataFrame = as_frame(np.column_stack(reg.predict(X, return_interval=True)))
    return found


def _several(clf: PATEMultilabelClassifier, X: Any) -> pd.DataFrame:
    logits = clf.decision_function(X)
    names, model = tuple(clf.classes_), clf._labels
    found: pd.DataFrame = labels_frame(model.decided(logits), model.probable(logits), names)
    return found


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
    door: InputSpec, rows: Any, id: str | None, *, resize: bool, written: Mapping[str, Any]
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
    X: Any = _table(door, rows, id := canonical(id), written)
    name = file_of(rows).name
    ids = None
    if id is not None:
        if id not in X.columns:
            raise InvalidInputError(f"id column {id!r} is not in {name}, which has: {quoted(X.columns)}.")
        if id in door.names:
            raise InvalidInputError(f"id column {id!r} is a feature of the model: an id is none. Name another column.")
        ids = X.pop(id).to_numpy(dtype=object)
    columns = list(X.columns)
    X, takes = columns_like(door, X, name)
    return X, ids, None, tuple(column for column in columns if column not in canonical(tuple(takes)))


def columns_like(door: InputSpec, X: pd.DataFrame, name: str) -> tuple[Any, list[str]]:
    """Return the columns that a model takes, as it takes them, and their names; ``name`` is the file's."""
    spelt = {canonical(column): column for column in door.names}
    X = X.rename(columns=lambda column: spelt.get(column, column))
    columns = takes = list(X.columns)
    if door.kind == "table":
        takes = list(door.names)
        missing = [column for column in takes if column not in columns]
        if missing:
            raise InvalidInputError(
                f"{name} lacks columns that the model asks for: {quoted(missing)}. It has: {quoted(columns)}."
            )
    elif door.kind == "texts":
        takes = [column for column in columns if column in door.names] or columns
        if len(takes) != 1:
            raise InvalidInputError(
                f"the model takes texts: {name} must have one column beside the id, and has {quoted(columns)}."
            )
    elif len(columns) != door.n_features:
        raise InvalidInputError(
            f"the model takes {door} by their places: {name} has {len(columns)} columns beside the id. It was "
            "made of arrays, which have no names."
        )
    if door.kind == "texts":
        return X[takes[0]].fillna("").to_numpy(dtype=object), takes
    return (X[takes] if door.kind == "table" else X.to_numpy(dtype=object if door.mixed else np.float64)), takes


def _table(door: InputSpec, rows: Any, id: str | None, written: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table read cell by cell, as the columns that the model was taught on were."""
    if door.kind == "array":
        return read_table(rows, text=[] if id is None else [id], **written).X
    encoding = written["encoding"] or own_encoding(rows, door.encoding)
    return read_table(rows, like=table_like(door), **{**written, "encoding": encoding}).X


def table_like(door: InputSpec | None) -> Table:
    """Return a table without rows by which others are read as the public ones were; None: every cell is a text."""
    import pandas as pd

    # Columns without a kind, and so ids and what is left out, are texts.
    # Numbers are read as the public ones were, unless the caller says otherwise.
    kinds = {} if door is None else dict(door.columns or ())
    known = TableFormat("CSV", decimal=(door and door.decimal) or "", thousands=(door and door.thousands) or "")
    return Table(X=pd.DataFrame(), y=None, groups=None, path=Path(), kinds=kinds, format=known)
