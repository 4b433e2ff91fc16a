"""Open tables of every kind: recognise the file, name its columns, and return a function that reads its cells."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pate._core.checks import canonical
from pate._core.curator import need
from pate.data._columns import with_float_columns
from pate.data._files._arrow import Database, is_key, object_frame, parquet_blocks, parquet_parts, read_parquet
from pate.data._files._csv import MISSING, TEXT_SUFFIXES, TableFormat, Wanted, open_csv
from pate.data._files._npz import check_unpacked, is_matrix, read_npy_table, read_npz_table, readable
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


# Tables from Excel workbooks: one sheet, its first line the header, every cell as it is.

#: What a formula that failed shows.
_FAILED = ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")
_KNOWN_MISSING = frozenset((*MISSING, *_FAILED))


def read_excel(path: Path, sheet: str | None) -> tuple[pd.DataFrame, str]:
    """Return a sheet's cells as objects, and the sheet's name; a workbook of one sheet needs no name."""
    need("openpyxl", extra="excel", why="An Excel workbook")
    import openpyxl

    remedy = "It may be truncated or protected by a password: save it again as .xlsx."
    # A damaged archive may raise any exception.
    with readable(path, "Excel workbook", remedy, Exception), warnings.catch_warnings():
        # Of drop-down lists and the like, which are no cells; and of a date that is none openpyxl quotes the cell.
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path) as archive:
            check_unpacked(sum(member.file_size for member in archive.infolist()), path.stat().st_size)
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        with closing(book):
            chosen = _chosen(path, [page.title for page in book.worksheets], sheet)
            page = book[chosen]
            page.reset_dimensions()  # some programs write them wrongly
            lines = [tuple(line) for line in page.iter_rows(values_only=True)]
    header = list(lines[0]) if lines else []
    while header and header[-1] is None:
        header.pop()
    width, body = len(header), lines[1:]
    while body and all(cell is None for cell in body[-1][:width]):  # formatted, and never filled
        body.pop()
    names = [f"Unnamed: {i}" if name is None else str(name) for i, name in enumerate(header)]
    return object_frame(names, [_width(line, width) for line in body]), chosen


def _width(line: tuple[Any, ...], width: int) -> list[Any]:
    cells = [None if isinstance(c, str) and c.strip() in _KNOWN_MISSING else c for c in line[:width]]
    return [*cells, *[None] * (width - len(cells))]


def _chosen(path: Path, names: list[str], sheet: str | None) -> str:
    if not names:
        raise InvalidInputError(f"{path.name} has no sheet of cells. Save the table in one.")
    if len(names) == 1:
        return names[0]
    if sheet in names:
        return str(sheet)
    wrong = "" if sheet is None else f" none of them {sheet[:40]!r};"
    raise InvalidInputError(
        f"{path.name} has the sheets {', '.join(map(repr, names))};{wrong} say which one holds the table: sheet= "
        "(--sheet)."
    )


_EXCEL = (".xlsx", ".xlsm")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", *_EXCEL, ".npz", ".npy")
#: What may be said of how files of each kind are written.
_HEEDED = {"CSV": ("sep", "encoding", "decimal", "thousands"), "Excel": ("sheet",)}
#: Kinds whose columns have no declared type: each cell has its own.
_LOOSE = ("Excel", "sqlite")

Reader = Callable[[Collection[str], Mapping[str, str] | None], "pd.DataFrame"]


@dataclass(frozen=True, eq=False, repr=False)
class Opened:
    """A table that was found and recognised; its cells are read when it is known what each column is for.

    ``frame`` takes columns of texts and the kinds of the public columns (None: it is public). ``spelt``: every cell is
    a text, so that a label is the number that it spells. ``matrix``: it is an array ``X`` with ``y`` and ``groups``
    beside it. ``zeros``: columns of a public file with cells such as ``007``, ``groups`` those with a
    mark between thousands. ``blocks``, of a private table that is
    better not held as a whole, yields its rows as DataFrames, some at a time, of the columns named or of all.
    """

    path: Path
    name: str
    names: tuple[str, ...]
    format: TableFormat
    frame: Reader
    spelt: bool = False
    matrix: bool = False
    zeros: frozenset[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    blocks: Callable[..., Iterator[pd.DataFrame]] | None = None


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a table: anything but a folder without Parquet files in it."""
    place = Path(path)
    return not place.is_dir() or bool(parquet_parts(place))


def open_table(
    path: str | os.PathLike[str],
    wanted: Wanted | None = None,
    *,
    like: TableFormat | None = None,
    names: Sequence[str] | None = None,
) -> Opened:
    """Find a table (file, folder of Parquet files, :class:`Database`), what it is and what its columns are called.

    ``like`` and ``names`` are of a private file; see :func:`pate.data._files._csv.open_csv`.
    """
    wanted = Wanted() if wanted is None else wanted
    check_heeded(wanted, path)
    base = Database.of(path)
    if base is not None:
        frame = base.read(nullable=names is not None)
        return _held(frame, base.path, base.name, TableFormat(base.kind, part=base.part))
    place = Path(path)
    if place.is_dir():
        return _open_folder(place, wanted, nullable=names is not None)
    suffix = next((s for s in SUFFIXES if place.name.lower().endswith(s)), None)
    if suffix is None:
        hint = " Save an old .xls as .xlsx." if place.suffix.lower() == ".xls" else ""
        raise InvalidInputError(
            f"path must end in {', '.join(SUFFIXES)}, or name a database (duckdb:FILE?table=NAME, sqlite:...), got "
            f"{place.name!r}. Convert the file, or give it the right ending.{hint}"
        )
    if not place.is_file():
        raise InvalidInputError(f"there is no file {place}. Check the name and the folder.")
    if place.stat().st_size == 0:
        raise InvalidInputError(f"{place} is empty. Write the table again.")
    if suffix in TEXT_SUFFIXES:
        text = open_csv(place, wanted, like=like, names=names)
        return Opened(
            place, place.name, text.names, text.format, text.frame, spelt=True, zeros=text.zeros, groups=text.groups
        )
    if suffix in _EXCEL:
        frame, sheet = read_excel(place, wanted.sheet)
        return _held(frame, place, place.name, TableFormat("Excel", part=f"sheet {sheet!r}"))
    if suffix == ".parquet":
        return _parquet(place, TableFormat("Parquet"), nullable=names is not None)
    frame = read_npz_table(place) if suffix == ".npz" else read_npy_table(place)
    return _held(frame, place, place.name, TableFormat(suffix[1:]))


def _open_folder(place: Path, wanted: Wanted, *, nullable: bool) -> Opened:
    parts = parquet_parts(place)
    n_parts = len(parts)
    if not n_parts:
        raise InvalidInputError(f"there is no Parquet file in the folder {place}. Name a table, or a folder of parts.")
    part = f"{n_parts} file{'s' * (n_parts > 1)}"
    if nullable and any(is_key(piece) for part in parts for piece in part.relative_to(place).parts[:-1]):
        part = "parted by a column"  # of a private table: the number of parts depends on its records
    known = TableFormat("Parquet", part=part)
    return _parquet(place, known, nullable=nullable)


def _parquet(place: Path, known: TableFormat, *, nullable: bool) -> Opened:
    found = parquet_blocks(place) if nullable else None
    if found is None:
        return _held(read_parquet(place, nullable=nullable), place, place.name, known)
    empty, blocks = found

    def whole(text: Collection[str], kinds: Mapping[str, str] | None) -> pd.DataFrame:
        return _renamed(read_parquet(place, nullable=nullable).reset_index(drop=True))

    def parts(columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
        return map(_renamed, blocks(None if columns is None else [spelt[name] for name in columns]))

    spelt = dict(zip(_renamed(empty.copy()).columns, map(str, empty.columns), strict=True))
    return Opened(place, place.name, tuple(_renamed(empty).columns), known, whole, blocks=parts)


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Name the columns of a table as names are compared, and return it."""
    frame.columns = frame.columns.map(lambda name: canonical(str(name)))
    return frame


def _held(frame: pd.DataFrame, path: Path, name: str, known: TableFormat) -> Opened:
    """Return a table that is in memory already."""
    matrix = is_matrix(frame)
    frame = _renamed(frame.reset_index(drop=True))
    loose = known.kind in _LOOSE

    def cells(text: Collection[str], kinds: Mapping[str, str] | None) -> pd.DataFrame:
        return with_float_columns(frame, text) if loose and kinds is None else frame

    return Opened(path, name, tuple(frame.columns), known, cells, matrix=matrix)


def heeded_by(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return what may be said of how such a file is written."""
    if Database.of(path) is not None:
        return ()
    name = Path(path).name.lower()
    return (
        _HEEDED["CSV" if name.endswith(TEXT_SUFFIXES) else "Excel"] if name.endswith((*TEXT_SUFFIXES, *_EXCEL)) else ()
    )


def check_heeded(wanted: Wanted, *paths: str | os.PathLike[str]) -> None:
    """Refuse what was said of how a table is written where none of these files heeds it."""
    known = {said for path in paths for said in heeded_by(path)}
    odd = [said for said in wanted.said() if said not in known]
    if odd:
        which = "Excel workbooks" if odd == ["sheet"] else "CSV files"
        named = ", ".join(repr(Path(path).name) for path in paths) + (" is none" if len(paths) == 1 else " are none")
        raise InvalidInputError(
            f"{' and '.join(odd)} ({', '.join(f'--{one}' for one in odd)}) is for {which}, and {named}. Leave it out."
        )
