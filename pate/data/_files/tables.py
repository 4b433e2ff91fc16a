"""Read tables from files: features, labels and groups; what cannot be read is refused by name."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from pate._core.checks import as_names, canonical, check_choice, check_path, did_you_mean
from pate._core.curator import joined_texts, tell_curator, warn
from pate._core.files import mapped
from pate.data._columns import (
    DATE,
    DATE_ORDERS,
    as_float,
    as_number,
    as_text,
    column_kind,
    column_like,
    date_form,
    days_in,
    ids_of,
    labels_of,
    numbers_alone,
    odd_cells,
    owners_of,
    tidy_like,
    warn_curator,
)
from pate.data._files._csv import MARKS, TableFormat, Wanted, comma_numbers
from pate.data._files._opened import Opened, open_table
from pate.data._validation import COMPARED, is_frame, quoted
from pate.data.schema import Schema
from pate.exceptions import InvalidInputError, PateWarning

if TYPE_CHECKING:
    import pandas as pd


# Remarks on public columns that look wrong: a code that becomes a number, an id that becomes categories.

#: Fewer cells say nothing about how many are equal.
_FEWEST = 20
_NEARLY_ALL = 0.95
#: So many numbers among texts are no codes.
_MOSTLY = 0.8
#: Parts of names that codes have and amounts do not.
_CODES = re.compile(
    r"(^|[^a-z])(id|ids|zip|zipcode|plz|post(al)?_?code|postleitzahl|code|codes|icd\d*|atc|mrn|ssn|key|phone|tel)($|[^a-z])"
    r"|_?id$",
    re.IGNORECASE,
)
#: Where the parts of a name such as patientId meet.
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def remark_on(name: str, column: pd.Series, *, zeros: bool = False) -> str:
    """Return a question about a public column without a declared role; empty where there is none.

    ``zeros``: cells of the file begin with a needless 0.
    """
    there = column.dropna()
    n, n_kinds = len(there), int(there.nunique())
    many = n >= _FEWEST and n_kinds >= _NEARLY_ALL * n
    remedy = "Then text= (--text), drop= (--drop) or id= (--id)"
    if column.dtype == np.float64:
        if zeros:
            return f"cells such as 007 lose their zeros: a code? {remedy}"
        if not n or not (there == np.floor(there)).all():
            return ""
        if many:
            return f"whole numbers, nearly all of them different: an id or a code? {remedy}"
        return (
            f"whole numbers under the name of a code? {remedy}"
            if n_kinds > 2 and _CODES.search(CAMEL.sub("_", name))
            else ""
        )
    if comma_numbers(column):
        return "numbers with decimal commas? Then decimal=',' (--decimal ,)"
    odd = _not_numbers(there)
    if odd:
        return (
            f"{n - len(odd):,} cells are numbers and {len(odd)} are not, such as {odd[0][:20]!r}: so it is {n_kinds:,} "
            "categories, and no number. Clean those, or leave them empty"
        )
    if many:
        return "texts, nearly all of them different: an id, a name, a remark? Then drop= (--drop) or id= (--id)"
    return ""


def _not_numbers(texts: Any) -> list[str]:
    """Return the cells that are no numbers, with points or decimal commas, where nearly all are; else none."""
    if len(texts) < _FEWEST:
        return []
    odd = [cell for cell in texts.tolist() if not np.isfinite(as_number(cell.replace(",", ".", 1)))]
    return odd if len(odd) <= (1 - _MOSTLY) * len(texts) else []


@dataclass(frozen=True)
class Roles:
    """What columns are said to be; all others are features. Those in ``text`` keep their cells as they are written."""

    target: str | None = None
    group: str | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    tiers: str | None = None

    @classmethod
    def said(
        cls,
        target: str | None,
        group: str | None,
        id: str | None,
        drop: Iterable[str],
        text: Iterable[str],
        tiers: str | None = None,
    ) -> Self:
        """Return the roles that a person gave, of names as they are compared."""
        target, group, id, tiers = canonical((target, group, id, tiers))
        return cls(target, group, id, as_names("drop", drop), as_names("text", text), tiers)

    def named(self) -> dict[str, tuple[str, ...]]:
        """Return the columns that are no features, by role."""
        one = {"target": self.target, "group": self.group, "id": self.id, "tiers": self.tiers}
        return {role: () if name is None else (name,) for role, name in one.items()} | {"drop": self.drop}

    def features(self, names: Iterable[str]) -> list[str]:
        """Return the columns that have no role, of all ``names``; refuse one of two roles."""
        named = self.named()
        # An id may say whose row it is, too.
        used = [n for role, of in named.items() for n in of if not (role == "id" and of == named["group"])]
        clash = sorted({n for n in used if used.count(n) > 1})
        if clash:
            raise InvalidInputError(
                f"column {quoted(clash)} has two roles among target, group, id, tiers and drop. Give each one role."
            )
        return [name for name in names if name not in used]

    def of_matrix(self, names: Collection[str]) -> Self:
        """Return the roles in an npz of X, y and groups: the last two are never features, named or not."""
        there = set(names) - set(self.drop)
        y, groups = (name if name in there else None for name in ("y", "groups"))
        return replace(self, target=self.target or y, group=self.group or groups)

    def within(self, names: Collection[str], *, text: Iterable[str] = ()) -> Roles:
        """Return the roles of columns that are there, the target and ``text`` as they are written."""
        one = (self.target, self.group, self.id, self.tiers)
        target, group, id, tiers = (name if name in names else None for name in one)
        written = (*self.text, *((target,) if target else ()), *text)
        return Roles(target, group, id, self.drop, tuple(name for name in written if name in names), tiers)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    r"""The rows of a file: features, labels, groups and ids; :func:`read_table` returns it.

    Attributes
    ----------
    X : DataFrame of shape (n, n_features)
        Numeric columns are float64 (true/false is 1/0; dates are days since 1970-01-01), all others text (objects);
        missing is NaN.
    y : array of shape (n,) or None
        The target column, its values as they are in the file.
    groups : array of shape (n,) or None
        The owner of each row, as texts.
    path : Path
    ids : array of shape (n,) or None
        The id column, as texts as they are written; None where a cell is empty.
    id_name : str or None
        What that column is called.
    kinds : mapping of str to str
        What the features of a public table are: ``"numeric"``, ``"text"``, or ``"date:"`` and the form of its dates.
        Entirely empty ones have none.
    format : TableFormat
        How the file was read.
    remarks : mapping of str to str
        Features of a public table that may not be what they become: codes that become numbers, ids that become
        categories. Of a private one nothing is remarked.
    tiers : array of shape (n,) or None
        The tier of each row, likewise; of :func:`read_both` alone.

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
    ids: npt.NDArray[Any] | None = None
    id_name: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    format: TableFormat = field(default_factory=lambda: TableFormat("table"))
    remarks: Mapping[str, str] = field(default_factory=dict)
    tiers: npt.NDArray[Any] | None = None

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
    id: str | None = None,
    drop: Iterable[str] = (),
    text: Iterable[str] = (),
    like: pd.DataFrame | Table | Schema | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    sheet: str | None = None,
    dates: str = "auto",
) -> Table:
    r"""Read a table into features, labels and groups: CSV, Parquet, Excel, npz, npy, SQLite or DuckDB.

    To read a private and a public file together, use :func:`pate.data.read_both`.

    Parameters
    ----------
    path : path
        - ``.csv``, ``.tsv``, ``.txt``, or one of them with ``.gz``: a header line, then one row a line.
        - ``.parquet``, or a folder of such files; its sub-folders ``a=1`` are the column ``a``.
        - ``.xlsx``, ``.xlsm`` (``pip install 'pate-privacy[excel]'``): the first line is the header.
        - ``.npz``: either the array ``X`` (rows first) with, optionally, ``y`` and ``groups``, which are then taken
          without being named, and ``columns`` (names of the features); or one one-dimensional array per column.
          ``.npy``: such an ``X`` alone, its columns named x0, x1, ..., or a structured array.
        - ``sqlite:FILE?table=NAME``, ``duckdb:FILE?table=NAME`` (``pip install 'pate-privacy[duckdb]'``), or
          ``query=SELECT ...`` for ``table=``. Nothing is written there. A query should end in ``ORDER BY``.
    target : str or None
        Column of the labels. None: there is none, and every column is a feature.
    group : str or None
        Column of the person each row belongs to; it is not a feature. Ids are read as texts, each cell by itself. The
        same whole number is the same person however it is written (``007``, ``7``, ``7.0``).
    id : str or None
        Column that is returned as ``ids`` and is not a feature. It may be the ``group`` column.
    drop : iterable of str
        Columns to leave out.
    text : iterable of str
        Columns that hold text even if every cell looks like a number, such as codes: their cells stay as they are
        written. It may include the target.
    like : Table, DataFrame, Schema or None
        The public rows (``read_table(public)``): give them whenever the file is **private**. Its columns are then
        numbers, dates or text as the public ones are, and every cell is read by itself; see the notes. A DataFrame does
        not tell which of its numbers were dates, nor how the public file was written; a :class:`pate.data.Schema` tells
        everything except how it was written.
    sep : str or None
        The separator of a CSV file: one character, or ``"tab"``. None finds a comma, semicolon, tab or pipe in the
        header line.
    encoding : str or None
        The text encoding. None: as the file's first bytes say; if they do not, a public file is read as UTF-8 or, if
        that fails, as cp1252, and a private one as the public one was.
    decimal : {".", ","} or None
        The decimal mark of a CSV file. None: a point, or as in ``like``.
    thousands : {",", ".", "apostrophe", "space"} or None
        What stands between thousands in a CSV file, as in 5,993. None: nothing, or as in ``like``; public columns of
        such numbers are then refused.
    sheet : str or None
        The sheet to read, if a workbook has several.
    dates : {"auto", "day-first", "month-first", "text"}
        A public column of dates alone (2020-01-31, 31.1.2020, with or without a time; or of a declared type) becomes
        days since 1970-01-01. ``"auto"`` keeps texts where day and month are ambiguous; ``"text"`` keeps all.

    Returns
    -------
    Table

    Raises
    ------
    InvalidInputError
        The file is missing, of another kind, empty or unreadable; a column is not there, stands twice or has no name; a
        column holds nested values, or dates where the public one has none. Without ``like`` also: a row has more or
        fewer cells than the header; a label or group is missing; a number is infinite. Texts name columns and line
        numbers, never values.

    Warns
    -----
    CuratorWarning
        With ``like``: cells that are not of their column's kind, which count as missing; lines that are no rows.

    Notes
    -----
    **Guarantees.** With ``like`` no record's cells decide whether the file is read, or what any other record reads as:
    a cell that is no finite number in a column of numbers is missing, so is one that is no date of the public form in a
    column of dates; a missing label or owner is left missing (who trains sets that record aside), and a label is the
    number or truth value that its own cell spells, else its text. Public are the names of columns, the number of rows,
    sheets, tables and files, and the declared types of Parquet, DuckDB and npz columns. How a private CSV file is
    written follows from its first bytes, its header line and the public file, from no record; a line that is no row of
    the table is a record of missing cells (:mod:`pate.data._files._csv`). A record of a sheet has a cell that is
    filled: empty lines at the end of one are none. A date before the year 1 or after 9999 is missing.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_text("age;born;ill\n50;1970-01-02;no\n")
    >>> read_table(file, target="ill").X.values.tolist()
    [[50.0, 1.0]]
    >>> read_table(file, target="sick")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: target column 'sick' is not in a.csv, which has: 'age', 'born', 'ill'. ...
    """
    check_choice("dates", dates, DATE_ORDERS)
    check_path("path", path, remedy="It names a file; a DataFrame needs no reading.")
    roles = Roles.said(target, group, id, drop, text)
    target, group, id = roles.target, roles.group, roles.id
    known = _kinds_of(like, asis=(*roles.text, target, group, id))
    wanted = Wanted(sep=sep, encoding=encoding, decimal=decimal, thousands=thousands, sheet=sheet)
    written = like.format if isinstance(like, Table) else None
    opened = open_table(path, wanted, like=written, names=None if known is None else list(known))
    kinds = None if known is None else {n: kind for n, kind in known.items() if n not in (target, group, id)}
    roles = roles.of_matrix(opened.names) if opened.matrix else roles
    if isinstance(like, Schema):  # categories that are numbers or truth values, as a person declared them
        coded = [one.name for one in like.columns if one.categories and numbers_alone(one.categories)]
        roles = replace(roles, text=(*roles.text, *(name for name in coded if name in opened.names)))
    return take_columns(opened, features_of(opened, roles), roles, kinds=kinds, dates=dates)


def _kinds_of(like: Any, *, asis: Collection[str | None]) -> dict[str, str] | None:
    """Return the kinds of public columns, None where there are none; those in ``asis``, and empty ones, are text."""
    if like is None or isinstance(like, Table | Schema):
        return (
            None
            if like is None
            else {
                n: "text" if n in asis else kind
                for n, kind in zip(map(canonical, like.kinds), like.kinds.values(), strict=True)
            }
        )
    if not is_frame(like):
        raise InvalidInputError(
            "like must be the public rows as a DataFrame, such as read_table(public).X (or that table itself), or a "
            f"pate.data.Schema, got {type(like).__name__}."
        )
    names = [canonical(str(name)) for name in like.columns]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"like has columns of the same name{COMPARED}. Rename or remove one of each.")
    columns = ((name, like.iloc[:, j]) for j, name in enumerate(names))
    return {n: "text" if n in asis or cells.isna().all() else column_kind(n, cells) for n, cells in columns}


def features_of(opened: Opened, roles: Roles) -> list[str]:
    """Return the names of the columns that have no role, or refuse roles that do not fit the file."""
    check_names(opened)
    for role, names in (roles.named() | {"text": roles.text}).items():
        check_there(role, names, opened.names, f"not in {opened.name}, which has")
    return check_features(opened, roles.features(opened.names))


def check_names(opened: Opened) -> None:
    """Refuse columns of the same name."""
    twice = sorted(c for c, n in Counter(opened.names).items() if n > 1)
    if twice:
        raise InvalidInputError(
            f"{opened.name} has columns of the same name: {quoted(twice)}{COMPARED}. Rename or remove one of each."
        )


def check_there(role: str, names: Iterable[str], there: Iterable[str], where: str, *, otherwise: str = "") -> None:
    """Refuse names of columns that are not there."""
    known = list(dict.fromkeys(there))
    absent = [name for name in names if name not in known]
    if absent:
        raise InvalidInputError(
            f"{role} column {quoted(absent)} is {where}: {quoted(known)}."
            f"{did_you_mean(absent[0], known) or f' Use one of those{otherwise}.'}"
        )


def check_features(opened: Opened, features: list[str]) -> list[str]:
    """Return the names of features, all of which must be there."""
    unnamed = [c for c in features if c.startswith("Unnamed: ") or not c.strip()]
    if unnamed:
        raise InvalidInputError(
            f"{opened.name} has a column without a name, often a saved row number: {quoted(unnamed)}. "
            f"Name it, or leave it out with drop=[{quoted(unnamed)}] (--drop)."
        )
    return features


def take_columns(
    opened: Opened,
    features: list[str],
    roles: Roles,
    *,
    kinds: Mapping[str, str] | None = None,
    dates: str = "auto",
    unlabelled: bool = False,
) -> Table:
    """Read the cells of an opened table, each column as its role wants it.

    ``kinds``, of a private table: what the public one's columns are. ``unlabelled``: labels of a public one may be
    missing.
    """
    if kinds is not None and opened.blocks is not None and features:
        made = take_blocks(opened, features, roles, kinds)
        if made is not None:
            return made
    asis = [*roles.text, *(name for name in (roles.group, roles.id, roles.tiers) if name is not None)]
    frame = opened.frame(asis, kinds).reset_index(drop=True)
    if not len(frame) or not features:
        raise InvalidInputError(
            f"{opened.name} has {len(frame)} rows and {len(features)} feature columns. A table needs at least one of "
            "each."
        )
    if kinds is not None:
        return _table(opened, tidy_like(frame[features], opened.name, kinds, text=roles.text), roles, [frame])
    X, found, remarks = _tidy(frame[features], opened, roles.text, dates)
    return replace(_table(opened, X, roles, [frame], strict=True, unlabelled=unlabelled), kinds=found, remarks=remarks)


def _table(
    opened: Opened,
    X: Any,
    roles: Roles,
    frames: Iterable[pd.DataFrame],
    *,
    strict: bool = False,
    unlabelled: bool = False,
) -> Table:
    """Return the features of a table with what its other columns say, of one or several parts in order."""
    spelt, frames = opened.spelt and roles.target not in roles.text, list(frames)
    for name in () if strict else filter(None, (roles.target, roles.group)):
        for told in joined_texts(f"{opened.name}, the column {name!r}", (c for f in frames for c in f[name].tolist())):
            tell_curator(f"{told}. (This is private: do not publish it.)")
    parts = [
        (
            labels_of(frame, roles.target, strict=strict and not unlabelled, spelt=spelt),
            owners_of(frame, roles.group, strict=strict),
            ids_of(frame, roles.id),
            ids_of(frame, roles.tiers),
        )
        for frame in frames
    ]
    y, groups, ids, tiers = (None if of[0] is None else np.concatenate(of) for of in zip(*parts, strict=True))
    about: dict[str, Any] = {"path": opened.path, "id_name": roles.id, "format": opened.format}
    return Table(X=X, y=y, groups=groups, ids=ids, tiers=tiers, **about)


def take_blocks(opened: Opened, features: list[str], roles: Roles, kinds: Mapping[str, str]) -> Table | None:
    """Read a private table of numbers some rows at a time: every cell by itself, as if it were read as a whole.

    ``X`` is a DataFrame over a file that is mapped into memory, page by page as it is looked at (:func:`let_go`). The
    file has no name, so that it is gone with the process, however that ends; it is among temporary files
    (``TMPDIR``). None where a feature is text, or there are no rows: it is then read as a whole.
    """
    import pandas as pd

    if any(kinds.get(name, "text") == "text" for name in features):
        return None
    assert opened.blocks is not None
    others = [name for name in dict.fromkeys((roles.target, roles.group, roles.id, roles.tiers)) if name is not None]
    n_odd: Counter[str] = Counter()
    there: dict[str, pd.Series] = {}
    rest = []
    with tempfile.TemporaryFile() as stored:
        for block in opened.blocks():
            frame = block.reset_index(drop=True)
            made = np.empty((len(frame), len(features)))
            for j, name in enumerate(features):
                column, odd = column_like(name, frame[name], kinds[name])
                made[:, j] = column.to_numpy()
                n_odd[name] += odd
                if name not in there or not there[name].notna().any():
                    there[name] = column
            stored.write(made.tobytes())
            rest.append(frame[others].copy())
        if not sum(map(len, rest)):
            return None
        cells = np.frombuffer(mapped(stored), dtype=np.float64).reshape(-1, len(features))
    if n_odd.total():
        warn_curator(opened.name, [odd_cells(name, there[name], odd) for name, odd in n_odd.items() if odd])
    return _table(opened, pd.DataFrame(cells, columns=features, copy=False), roles, rest)


def without_empty(public: Table) -> Table:
    """Return a public table without its entirely empty columns, and warn of them: nothing says what they hold.

    Raises
    ------
    InvalidInputError
        All are empty.
    """
    empty = [name for name in public.X.columns if public.X[name].isna().all()]
    if not empty:
        return public
    if len(empty) == public.X.shape[1]:
        raise InvalidInputError(
            f"{public.path.name} has no cell in {quoted(empty)}: its rows say nothing. Name another table."
        )
    warn(
        f"column {quoted(empty)} is entirely empty in {public.path.name}, and so left out: nothing public says whether "
        "it holds numbers or text, and private cells must not decide. Fill in some cells to use it.",
        PateWarning,
    )
    kinds = {name: kind for name, kind in public.kinds.items() if name not in empty}
    return replace(public, X=public.X.drop(columns=empty), kinds=kinds)


def _of_thousands(name: str, opened: Opened) -> InvalidInputError:
    mark = opened.groups[name]
    other = f", or decimal={mark!r} (--decimal {mark}) if they stand before decimals" if mark in ",." else ""
    return InvalidInputError(
        f"{opened.name}: column {name!r} holds numbers with {MARKS[mark][0]} between thousands, as 5,993 has. Say "
        f"thousands={mark!r} (--thousands {mark}){other}; if they are no numbers, text=[{name!r}] (--text "
        f"{shlex.quote(name)})."
    )


def _tidy(
    X: pd.DataFrame, opened: Opened, text: Collection[str], dates: str
) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    """Bring public columns to two types, whatever is missing: float64, and text as objects with NaN where missing.

    Returns what they are and what to remark on them, too.
    """
    import pandas as pd

    tidy: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for name in X.columns:
        column = X[name]
        if name in opened.groups and name not in text and not opened.format.thousands:
            raise _of_thousands(name, opened)
        form, said = ("", "") if name in text else date_form(column, dates)
        kind = "text" if name in text else f"{DATE}{form}" if form else column_kind(name, column)
        unsaid = kind == "text" and name not in text
        if unsaid and pd.api.types.infer_dtype(column.astype(object), skipna=True) == "boolean":
            kind, column = "numeric", column.astype("boolean").astype("Float64")
        if form:
            tidy[name] = days_in(column, form)[0]
        else:
            tidy[name] = as_text(column) if kind == "text" else as_float(column)
        if kind == "numeric" and np.isinf(tidy[name].to_numpy()).any():
            raise InvalidInputError(
                f"{opened.name}: column {name!r} holds infinite numbers. Leave such cells empty, or put the "
                "largest sensible number there."
            )
        if name in text or tidy[name].notna().any():
            kinds[name] = kind
        said = said or ("" if name in text or form else remark_on(name, tidy[name], zeros=name in opened.zeros))
        said = said or ", ".join(joined_texts("it", column.tolist() if kind == "text" else ()))
        if said:
            remarks[name] = said
    return pd.DataFrame(tidy, index=X.index), kinds, remarks


# Descriptions of what every column of two tables becomes: from names, public rows and options.

_COUNT = re.compile(r"^[\d,]+ ")
#: What becomes of the target.
TARGET = "the classes"


@dataclass(frozen=True)
class ColumnUse:
    """What becomes of a column; by the public rows, names and what was said, never by private cells.

    Attributes
    ----------
    name : str
    becomes : str
        In words.
    remark : str
        What is odd about that; empty where nothing is.

    Examples
    --------
    >>> print(ColumnUse("town", "2 categories"))
    town: 2 categories
    """

    name: str
    becomes: str
    remark: str = ""

    @property
    def kind(self) -> str:
        """What becomes of it, without numbers."""
        return _COUNT.sub("", self.becomes)

    def __str__(self) -> str:
        return f"{self.name}: {self.becomes}" + (f" ({self.remark})" if self.remark else "")


@dataclass(frozen=True)
class Sides:
    """Names of features: those of both files, those of one only, and those of both that are empty in the public one."""

    common: frozenset[str]
    private_only: tuple[str, ...]
    public_only: tuple[str, ...]
    empty: tuple[str, ...] = ()


def uses_of(held: Opened, shown: Opened, roles: Roles, sides: Sides, public: Table) -> tuple[ColumnUse, ...]:
    """Return what becomes of every column, those of the private file first."""
    found = []
    for name in dict.fromkeys([*held.names, *shown.names]):
        if name == roles.target:
            use = ColumnUse(name, TARGET)
        elif name == roles.group:
            also = ", and the id" if name == roles.id else ""
            use = ColumnUse(name, f"says whose row it is{also}")
        elif name == roles.id:
            kept = "kept beside the labels" if name in shown.names else "left out: the public file has none"
            use = ColumnUse(name, f"id, {kept}", _of_ids(public))
        elif name == roles.tiers:
            use = ColumnUse(name, "the tier of each row, which is public")
        elif name in roles.drop:
            use = ColumnUse(name, "dropped")
        elif name in sides.empty:
            use = ColumnUse(name, "left out", "it is empty in the public file")
        elif name not in sides.common:
            side = "private" if name in sides.private_only else "public"
            use = ColumnUse(name, f"left out, as it stands in the {side} file only")
        else:
            use = ColumnUse(name, _becomes(name, public, said=name in roles.text), public.remarks.get(name, ""))
        found.append(use)
    return tuple(found)


def _becomes(name: str, public: Table, *, said: bool) -> str:
    kind = public.kinds.get(name, "text")
    if kind == "numeric":
        return "number"
    if kind.startswith(DATE):
        form = kind.removeprefix(DATE)
        return "date, in days since 1970-01-01" + (f" ({form})" if form.endswith("first") else "")
    n = int(public.X[name].nunique())
    return f"{n:,} {'category' if n == 1 else 'categories'}" + (", as you say" if said else "")


def _of_ids(public: Table) -> str:
    if public.ids is None:
        return ""
    there = [one for one in public.ids.tolist() if one is not None]
    empty, twice = len(public.ids) - len(there), len(there) - len(set(there))
    parts = [f"{empty} are empty"] if empty else []
    parts += [f"{twice} stand there before"] if twice else []
    return " and ".join(parts) and f"{' and '.join(parts)}: kept as they are"
