"""Tables from files: features, labels and groups, with everything odd refused by name."""

from __future__ import annotations

import csv
import io
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate.core.extras import need
from pate.data._columns import as_float, as_text, column_kind
from pate.data._like import cell_reader, kinds_like, numbers_in, tidy_like
from pate.data._roles import labels_of, owners_of
from pate.data.files._arrays import is_matrix, matrix_roles, read_npy, read_npz_table
from pate.data.files._limits import check_unpacked, gunzip
from pate.data.files._npz import reason
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

#: Cells of a CSV file that mean "not known". The text None is a value (a measurement that was not ordered, say).
MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>", "#N/A")

_SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz", ".npy")


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    r"""Rows of a file; what :func:`read_table` returns.

    Attributes
    ----------
    X : DataFrame of shape (n, n_features)
        Numeric columns are float64 (true/false is 1/0), all others text (objects); missing is NaN.
    y : array of shape (n,) or None
        The target column, its values as they are in the file.
    groups : array of shape (n,) or None
        Whose row it is, as texts.
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = file.write_text("age,town,ill\n50,Oslo,no\n?,Rome,yes\n")
    >>> table = read_table(file, target="ill")
    >>> table, list(table.X.columns), table.y.tolist()
    (Table('patients.csv', n=2, n_features=2, target=True, grouped=False), ['age', 'town'], ['no', 'yes'])
    """

    X: pd.DataFrame
    y: npt.NDArray[Any] | None
    groups: npt.NDArray[Any] | None
    path: Path

    def __repr__(self) -> str:
        return (
            f"Table({self.path.name!r}, n={len(self.X)}, n_features={self.X.shape[1]}, "
            f"target={self.y is not None}, grouped={self.groups is not None})"
        )


def read_table(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    group: str | None = None,
    drop: Iterable[str] = (),
    text: Iterable[str] = (),
    like: pd.DataFrame | None = None,
) -> Table:
    r"""Read a CSV, Parquet, npz or npy file into features, labels and groups.

    Parameters
    ----------
    path : path
        ``.csv`` or ``.csv.gz`` (comma, a header line, UTF-8), ``.parquet``, or ``.npz``. An npz holds either the array
        ``X`` (rows first) with, optionally, ``y`` and ``groups``, which are then taken without being named, and
        ``columns`` (names of the features); or one one-dimensional array per column. ``.npy`` holds such an ``X``
        alone, its columns named x0, x1, ..., or a structured array.
    target : str or None
        Column of the labels; None: there is none, every column is a feature.
    group : str or None
        Column that says whose row it is; it is no feature. Ids are texts, each cell by itself: an odd id changes nobody
        else's. Whole numbers are one person however they are written (``007``, ``7``, ``7.0``).
    drop : iterable of str
        Columns to leave out.
    text : iterable of str
        Columns that hold text, codes say, even where every cell looks like a number: their cells are kept as they are
        written. May name the target.
    like : DataFrame or None
        The public rows (``read_table(public).X``): give them whenever the file is **private**. Its columns are then
        numbers or text as the public ones are, and every cell is read by itself; see the notes.

    Returns
    -------
    Table

    Raises
    ------
    InvalidInputError
        The file is missing, of another kind, empty, unreadable or truncated; a row has more or fewer cells than the
        header; a column is not there, stands twice or has no name; a column holds dates or nested values. Without
        ``like`` also: a label or group is missing; a number is infinite. Texts name columns and line numbers, never
        values.

    Warns
    -----
    CuratorWarning
        With ``like``: cells that are not of their column's kind, which count as missing.

    Notes
    -----
    **Guarantees.** With ``like`` no record's cells decide whether the file is read, or what any other record reads as:
    a cell that is no finite number in a column of numbers is missing, a missing label or owner is left missing (who
    trains sets that record aside), and a label is the number or truth value that its own cell spells, else its text.
    Public are the names of columns, the number of rows, the declared types of Parquet and npz columns, and that the
    file is well formed (rows as long as the header, quotes that close, UTF-8): whoever writes the file sees to that.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_text("age,ill\n50,no\n")
    >>> read_table(file, target="sick")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: target column 'sick' is not in a.csv, which has: 'age', 'ill'. ...
    """
    path = Path(path)
    suffix = next((s for s in _SUFFIXES if path.name.lower().endswith(s)), None)
    if suffix is None:
        raise InvalidInputError(
            f"path must end in {', '.join(_SUFFIXES)}, got {path.name!r}. Convert the file, or rename it to what it is."
        )
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}. Check the name and the folder.")
    if path.stat().st_size == 0:
        raise InvalidInputError(f"{path} is empty. Write the table again.")
    drop = [drop] if isinstance(drop, str) else list(drop)
    text = [text] if isinstance(text, str) else list(text)
    kinds = None if like is None else kinds_like(like, text, without=(target, group))
    if suffix in (".csv", ".csv.gz"):
        frame = _read_csv(path, text if group is None else [*text, group], kinds)
    elif suffix == ".parquet":
        frame = _read_parquet(path, nullable=like is not None)
    else:
        frame = {".npz": read_npz_table, ".npy": read_npy}[suffix](path)
    if is_matrix(frame):
        target, group = matrix_roles(frame, target, group, drop)
    return _split(frame, path, target, group, drop, text, kinds)


def align_columns(X_private: pd.DataFrame, X_public: pd.DataFrame, *, drop: Iterable[str] = ()) -> pd.DataFrame:
    """Return the public features in the private features' order, or say what does not match.

    Parameters
    ----------
    X_private, X_public : DataFrame
        Features of two files.
    drop : iterable of str
        Columns of the public file to leave out when they are there, such as the target.

    Raises
    ------
    InvalidInputError
        The public file misses columns, has others or has an entirely empty one; or no cell at all of a private column
        is of the kind (number or text) that the public one has.

    Notes
    -----
    **Guarantees.** Names of columns and public cells are public, private cells are not. Whether a column is of numbers
    or of text is decided by the public rows. A private table that was read with ``read_table(..., like=X_public)`` has
    those kinds whatever its cells are, so that none of them, nor all together, can bring a refusal about. Of a table
    that was read otherwise a column without a single fitting cell is refused as another column, before anything is
    released; there a neighbouring table may be one that is taken, which ``like`` rules out.

    Examples
    --------
    >>> import pandas as pd
    >>> private = pd.DataFrame({"a": [1.0], "b": ["x"]})
    >>> align_columns(private, pd.DataFrame({"b": ["y"], "a": [2.0]})).columns.tolist()
    ['a', 'b']
    >>> align_columns(private, pd.DataFrame({"a": [2.0], "c": [1]}))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: the public file's columns differ from the private file's: it lacks 'b'; ...
    """
    wanted = [str(c) for c in X_private.columns]
    public = X_public.drop(columns=[c for c in drop if c in X_public.columns])
    missing = [c for c in wanted if c not in public.columns]
    extra = [str(c) for c in public.columns if c not in wanted]
    if missing or extra:
        parts = [f"it lacks {_names(missing)}"] if missing else []
        parts += [f"it also has {_names(extra)}"] if extra else []
        raise InvalidInputError(
            f"the public file's columns differ from the private file's: {'; '.join(parts)}. "
            "Both need the same features: rename, or drop what only one of them has."
        )
    public = public[wanted].copy()
    empty = [c for c in wanted if public[c].isna().all()]
    if empty:
        raise InvalidInputError(
            f"the public file's column {_names(empty)} is entirely empty: nothing public says whether it holds numbers "
            "or text, and the private file must not decide. Fill in some cells, or drop the column from both files."
        )
    odd = []
    for name in wanted:
        private_kind, public_kind = column_kind(name, X_private[name]), column_kind(name, public[name])
        if private_kind != public_kind and not (
            public_kind == "numeric" and numbers_in(X_private[name])[0].notna().any()
        ):
            blank = "empty, and so " if X_private[name].isna().all() else ""
            odd.append(f"{name!r} is {blank}{private_kind} in the private file and {public_kind} in the public one")
    if odd:
        raise InvalidInputError(
            f"columns of different kinds: {'; '.join(odd)}. Clean the cells that are not numbers, name the column as "
            "text if it holds codes (text=, --text), or drop it."
        )
    return public


# Reading -------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, text: list[str], kinds: dict[str, str] | None) -> pd.DataFrame:
    import pandas as pd

    def is_text(name: str) -> bool:
        return name in text if kinds is None else kinds.get(name) != "numeric"

    try:
        data = gunzip(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
        header = _check_cells(path, data.decode("utf-8-sig"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.BytesIO(data),
                # Each number by itself, as Python reads it: by what else stands in the column pandas reads others.
                converters={i: cell_reader(MISSING) for i, name in enumerate(header) if kinds and not is_text(name)},
                **_exact(pd.__version__),
                encoding="utf-8-sig",
                header=0,
                names=list(range(len(header))),  # pandas would rename a name that stands twice
                dtype={i: "object" for i, name in enumerate(header) if is_text(name)},
                index_col=False,
                keep_default_na=False,
                na_values=list(MISSING),
                skipinitialspace=True,
                low_memory=False,
            )
    except InvalidInputError:
        raise
    except (OSError, EOFError, zlib.error, ValueError, csv.Error, pd.errors.ParserWarning) as error:
        # The parser's own text may quote a cell: only its kind is told.
        raise InvalidInputError(
            f"{path} is not a readable CSV table ({reason(error)}). It may be truncated, not UTF-8 text with "
            "commas and a header line, or have a quote too many."
        ) from None
    # A missing name gets the one pandas would give it, so that drop= can take it out.
    frame.columns = pd.Index([name or f"Unnamed: {i}" for i, name in enumerate(header)])
    return frame


def _exact(pandas: str) -> dict[str, Any]:
    """Return what makes a version of pandas read numbers to the last bit, as Python does: from 3.1 on, nothing."""
    return {} if tuple(map(int, pandas.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


def _check_cells(path: Path, text: str) -> list[str]:
    """Return the header; refuse rows of another length, which pandas would pad with missing cells."""
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    header = [cell.strip() for cell in next(reader, [])]
    for row in reader:
        if row and len(row) != len(header):
            raise InvalidInputError(
                f"{path}, line {reader.line_num}: {len(row)} cells where the header has {len(header)}. "
                "The file may be truncated, or a cell with a comma lacks its quotes."
            )
    return header


def _read_parquet(path: Path, *, nullable: bool) -> pd.DataFrame:
    need("pyarrow", extra="parquet", why="A Parquet file")
    import pandas as pd
    import pyarrow.parquet as pq

    try:
        said = pq.read_metadata(path)
        parts = [said.row_group(i).total_byte_size for i in range(said.num_row_groups)]
        # A run of equal cells takes a few bytes, however long: eight for each is what it will take in memory.
        check_unpacked(max(8 * said.num_rows * said.num_columns, sum(parts)), path.stat().st_size)
        # Not nullable, one missing whole number makes floats of a column, and large ids equal.
        frame = pd.read_parquet(path, dtype_backend="numpy_nullable") if nullable else pd.read_parquet(path)
    # pyarrow's errors derive from several standard ones, and thrift's from none in particular.
    except Exception as error:
        raise InvalidInputError(
            f"{path} is not a readable Parquet table ({reason(error)}). It may be truncated: write it again."
        ) from None
    return frame.reset_index() if any(n is not None for n in frame.index.names) else frame


# Splitting -----------------------------------------------------------------------------------------------------


def _names(names: Iterable[Any]) -> str:
    return ", ".join(repr(str(n)) for n in names)


def _split(
    frame: pd.DataFrame,
    path: Path,
    target: str | None,
    group: str | None,
    drop: list[str],
    text: list[str],
    kinds: dict[str, str] | None,
) -> Table:
    frame = frame.reset_index(drop=True)
    frame.columns = frame.columns.map(str)
    columns = list(frame.columns)
    twice = sorted(c for c, n in Counter(columns).items() if n > 1)
    if twice:
        raise InvalidInputError(
            f"{path.name} has columns of the same name: {_names(twice)}. Rename or remove one of each."
        )
    roles: Mapping[str, list[str]] = {
        "target": [] if target is None else [target],
        "group": [] if group is None else [group],
        "drop": drop,
    }
    for role, names in roles.items():
        absent = [n for n in names if n not in columns]
        if absent:
            raise InvalidInputError(
                f"{role} column {_names(absent)} is not in {path.name}, which has: {_names(columns)}. Use one of those."
            )
    named = [n for names in roles.values() for n in names]
    clash = sorted({n for n in named if named.count(n) > 1})
    if clash:
        raise InvalidInputError(
            f"column {_names(clash)} has two roles among target, group and drop. Give each column one role."
        )
    features = [c for c in columns if c not in named]
    absent = [n for n in text if n not in columns]
    if absent:
        raise InvalidInputError(
            f"text column {_names(absent)} is not in {path.name}, which has: {_names(columns)}. Use one of those."
        )
    unnamed = [c for c in features if c.startswith("Unnamed: ") or not c.strip()]
    if unnamed:
        raise InvalidInputError(
            f"{path.name} has a column without a name, often a saved row number: {_names(unnamed)}. "
            f"Name it, or leave it out with drop=[{_names(unnamed)}]."
        )
    if not len(frame) or not features:
        raise InvalidInputError(
            f"{path.name} has {len(frame)} rows and {len(features)} feature columns. A table needs one of each."
        )
    strict, X = kinds is None, frame[features]
    spelt = path.suffix.lower() in (".csv", ".gz") and target not in text
    return Table(
        X=_tidy(X, path, text) if kinds is None else tidy_like(X, path.name, kinds, text=text),
        y=labels_of(frame, target, strict=strict, spelt=spelt),
        groups=owners_of(frame, group, strict=strict),
        path=path,
    )


def _tidy(X: pd.DataFrame, path: Path, text: list[str]) -> pd.DataFrame:
    """Bring columns to two types, whatever is missing: float64, and text as objects with NaN where missing."""
    import pandas as pd

    tidy: dict[str, Any] = {}
    for name in X.columns:
        column = X[name]
        kind = "text" if name in text else column_kind(name, column)
        if (
            kind == "text"
            and name not in text
            and pd.api.types.infer_dtype(column.astype(object), skipna=True) == "boolean"
        ):
            kind, column = "numeric", column.astype("boolean").astype("Float64")
        if kind == "text":
            tidy[name] = as_text(column)
            continue
        tidy[name] = as_float(column)
        if np.isinf(tidy[name].to_numpy()).any():
            raise InvalidInputError(
                f"{path.name}: column {name!r} holds infinite numbers. Leave such cells empty, or cap them."
            )
    return pd.DataFrame(tidy, index=X.index)
