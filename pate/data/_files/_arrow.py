"""Tables with declared types: Parquet files, folders of Parquet parts, DuckDB."""

from __future__ import annotations

import datetime as dt
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from pate._core.curator import need
from pate.data._files._npz import check_unpacked, readable, reason
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


#: What Python has dates for, less a day, by which a zone may move them.
FIRST_MOMENT, LAST_MOMENT = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)


def parquet_parts(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and below it, sorted; hidden ones and those that begin with _ are none."""
    found = (path for path in folder.rglob("*") if path.name.lower().endswith(".parquet") and path.is_file())
    return sorted(p for p in found if not any(part[0] in "._" for part in p.relative_to(folder).parts))


def is_key(piece: str) -> bool:
    """Whether a sub-folder's name is that of a column and a value."""
    return "=" in piece


def read_parquet(path: Path, *, nullable: bool) -> pd.DataFrame:
    """Return the columns of a Parquet file, or of all parts in a folder, those of its sub-folders (a=1/b=2) too.

    ``nullable``: whole numbers stay such where a cell is missing, for in private files one must not change the others.
    """
    need("pyarrow", extra="parquet", why="A Parquet file")
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    parts = parquet_parts(path) if path.is_dir() else [path]
    # pyarrow's errors derive from several standard ones, and thrift's from none in particular.
    with readable(path, "Parquet table", "It may be truncated, or its parts differ: write it again.", Exception):
        for part in parts:
            _check_part(part)
        if not path.is_dir():
            frame = arrow_frame(pq.read_table(path, partitioning=None), nullable=nullable)
        else:
            # Names of sub-folders as texts: by what else there is, arrow would make 7 of 007.
            folders = [piece for part in parts for piece in part.relative_to(path).parts[:-1]]
            keys = list(dict.fromkeys(piece.partition("=")[0] for piece in folders if is_key(piece)))
            parted = ds.partitioning(pa.schema([(key, pa.string()) for key in keys]), flavor="hive") if keys else None
            files = [str(part) for part in parts]
            data = ds.dataset(files, format="parquet", partitioning=parted, partition_base_dir=str(path))
            frame = arrow_frame(data.to_table(), nullable=nullable)
            for name in keys if not nullable else ():
                frame[name] = _as_spelt(frame[name])
    return frame.reset_index() if any(n is not None for n in frame.index.names) else frame


def _check_part(part: Path) -> int:
    """Return how many bytes a part's cells take in memory, eight each; refuse a part that unpacks to too many."""
    import pyarrow.parquet as pq

    said = pq.read_metadata(part)
    sizes = [said.row_group(i).total_byte_size for i in range(said.num_row_groups)]
    # A run of equal cells takes a few bytes in the file, however long.
    in_memory = int(8 * said.num_rows * said.num_columns)
    check_unpacked(max(in_memory, sum(sizes)), part.stat().st_size)
    return in_memory


#: A private table that takes more than so many bytes, eight for each cell, is read block by block.
WHOLE_BYTES = 1 << 28
#: Bytes of a block, and of the pieces in which a row group is decoded.
_BLOCK_BYTES = 1 << 25
_READ_BYTES = 1 << 18


def parquet_blocks(path: Path) -> tuple[pd.DataFrame, Callable[..., Iterator[pd.DataFrame]]] | None:
    """Return an empty table with the columns of a private one, and what yields its rows in order, some at a time.

    The callable takes names of columns, or None for all. None where the table is small, or its parts do not have one
    schema, or rows have names of their own, or sub-folders are columns: then it is read as a whole.
    """
    need("pyarrow", extra="parquet", why="A Parquet file")
    import pyarrow.parquet as pq

    parts = parquet_parts(path) if path.is_dir() else [path]
    if not parts or any(is_key(piece) for part in parts for piece in part.relative_to(path).parts[:-1]):
        return None
    try:
        whole = sum(map(_check_part, parts))
        schema = pq.read_schema(parts[0])
        same = all(pq.read_schema(part).equals(schema) for part in parts[1:])
        empty = arrow_frame(schema.empty_table(), nullable=True)
    except Exception:  # read as a whole, it is refused in words
        return None
    if whole <= WHOLE_BYTES or not same or any(n is not None for n in empty.index.names):
        return None
    rows = max(1, _BLOCK_BYTES // (8 * len(schema)))

    def blocks(columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
        import pyarrow as pa

        for part in parts:
            reading = readable(path, "Parquet table", "Write it again.", (pa.ArrowException, OSError))
            with reading, pq.ParquetFile(part, buffer_size=_READ_BYTES) as held:
                for batch in held.iter_batches(batch_size=rows, columns=columns, use_threads=False):
                    yield arrow_frame(pa.Table.from_batches([batch]), nullable=True)

    return empty, blocks


def _as_spelt(column: pd.Series) -> pd.Series:
    """Return a public column of texts as numbers if all of them spell one and none begins with a needless 0."""
    import pandas as pd

    cells = [cell for cell in column.tolist() if isinstance(cell, str)]
    if not cells or any(len(cell) > 1 and cell[0] == "0" and cell[1] != "." for cell in cells):
        return column
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if bool((numbers.notna() == column.notna()).all()) else column


def arrow_frame(table: Any, *, nullable: bool) -> pd.DataFrame:
    """Return an arrow table as a DataFrame, decimal numbers as float64."""
    import pandas as pd
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
        elif pa.types.is_temporal(getattr(field.type, "value_type", field.type)):
            table = table.set_column(i, field.name, _dated(table.column(i)))
        elif nullable and _is_text(getattr(field.type, "value_type", field.type)):
            table = table.set_column(i, field.name, _spelt(table.column(i)))
    if not nullable:
        return table.to_pandas()
    # Not nullable, one missing whole number makes floats of a column, and large ids equal.
    kinds = {pa.string(): pd.StringDtype(), pa.large_string(): pd.StringDtype(), pa.bool_(): pd.BooleanDtype(),
             pa.float32(): pd.Float32Dtype(), pa.float64(): pd.Float64Dtype(),
             pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
             pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(),
             pa.uint32(): pd.UInt32Dtype(), pa.uint64(): pd.UInt64Dtype()}  # fmt: skip
    return table.to_pandas(types_mapper=kinds.get)


def object_frame(names: list[str], rows: list[Any]) -> pd.DataFrame:
    """Return cells of no declared type as they are; a name may stand twice."""
    import pandas as pd

    columns = [pd.Series([row[i] for row in rows], dtype=object) for i in range(len(names))]
    frame = pd.DataFrame(dict(enumerate(columns)), dtype=object)
    frame.columns = pd.Index(names)
    return frame


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _spelt(column: Any) -> Any:
    """Return a private column of texts without those that are no UTF-8: one would fail all others, and be quoted."""
    import pyarrow as pa

    with suppress(pa.ArrowInvalid):
        column.validate(full=True)
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    cells = [None if c is None else decoded(c) for c in column.cast(pa.large_binary()).to_pylist()]
    return pa.chunked_array([pa.array([c if isinstance(c, str) else None for c in cells], column.type)])


def decoded(cell: bytes) -> str | bytes:
    r"""Return a cell's text; its bytes where they are not UTF-8 (this affects its own record only)."""
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell


def _dated(column: Any) -> Any:
    """Return a column of dates or moments without those that Python has no date for: one would fail all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_date(column.type):
        days = column.cast(pa.timestamp("s"))
    elif pa.types.is_timestamp(column.type):
        # In the column's own unit; a zone may move a moment by a day.
        days = column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))
    else:
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column  # the years 1677 to 2262 alone
    first, last = (pa.scalar(day, days.type) for day in (FIRST_MOMENT, LAST_MOMENT))
    there = pc.and_(pc.greater_equal(days, first), pc.less_equal(days, last))
    return pc.if_else(there, column, pa.scalar(None, column.type))


# Tables from databases that are files, SQLite (in Python's own library) and DuckDB: read, never written.

_SOURCE = re.compile(r"(duckdb|sqlite):(.*)", re.DOTALL)
_ELSEWHERE = re.compile(r"(postgres(?:ql)?|mysql|mariadb|mssql|oracle|snowflake|bigquery)(\+\w+)?:", re.IGNORECASE)


@dataclass(frozen=True)
class Database:
    """A table in a database file, or a query: ``duckdb:FILE?table=NAME``, ``sqlite:FILE?query=SELECT ...``."""

    kind: str
    path: Path
    table: str = ""
    query: str = ""

    @classmethod
    def of(cls, source: str | os.PathLike[str]) -> Self | None:
        """Return what a text names, None where it is a plain path."""
        text = os.fspath(source)
        if _ELSEWHERE.match(text):  # not quoted: there may be a password in it
            raise InvalidInputError(
                "a database server cannot be read. Write the table to a file (Parquet, say), or into a DuckDB or "
                "SQLite file: duckdb:FILE?table=NAME."
            )
        found = _SOURCE.fullmatch(text)
        if found is None:
            return None
        place, _, rest = re.sub(r"^//+(?=/)|^/(?=/)", "", found[2]).partition("?")
        key, sign, value = rest.partition("=")
        if not place or key not in ("table", "query") or not sign or not value.strip():
            raise InvalidInputError(
                f"a database must be named {found[1]}:FILE?table=NAME or {found[1]}:FILE?query=SELECT ..., got a text "
                f"that begins with {text[:30]!r}."
            )
        return cls(found[1], Path(place), **{key: value.strip()})

    @property
    def name(self) -> str:
        """What to call it in a message: never the query, which may hold private values."""
        return f"{self.path.name}, {self.part}"

    @property
    def part(self) -> str:
        """The table, or that it is a query."""
        return f"table {self.table!r}" if self.table else "a query"

    def beside(self, ending: str) -> Path:
        """Return the place of a file of its own beside the database."""
        table = re.sub(r"[^\w.-]", "_", self.table)
        return self.path.with_name(f"{self.path.name}{'.' * bool(table)}{table}{ending}")

    def read(self, *, nullable: bool) -> pd.DataFrame:
        """Return all rows; of SQLite, which declares little, as objects. Its own words of a failure are withheld."""
        if not self.path.is_file():
            raise InvalidInputError(f"there is no file {self.path}. Check the name and the folder.")
        return self._duckdb(nullable) if self.kind == "duckdb" else self._sqlite()

    def _sql(self) -> str:
        name = self.table.replace('"', '""')
        return self.query or f'SELECT * FROM "{name}"'

    def _sqlite(self) -> pd.DataFrame:
        address = f"file:{quote(str(self.path.absolute()))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True)) as book:
                book.text_factory = decoded
                seen = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                self._check_table([name for (name,) in book.execute(seen)])
                cursor = book.execute(self._sql())
                names, rows = [part[0] for part in cursor.description or ()], cursor.fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from None
        return object_frame(names, rows)

    def _duckdb(self, nullable: bool) -> pd.DataFrame:
        need("duckdb", extra="duckdb", why="A DuckDB file")
        need("pyarrow", extra="duckdb", why="A DuckDB file")
        import duckdb

        try:
            # One thread: what comes without ORDER BY comes in the same order each time. No other file is read.
            settings: dict[str, Any] = {"enable_external_access": "false", "threads": "1"}
            with closing(duckdb.connect(str(self.path), read_only=True, config=settings)) as book:
                seen = "SELECT table_name FROM information_schema.tables"
                self._check_table([name for (name,) in book.execute(seen).fetchall()])
                found = book.sql(self._sql())
                if found is None:
                    raise self._failed(ValueError())
                return arrow_frame(found.to_arrow_table(), nullable=nullable)
        except InvalidInputError:
            raise
        except Exception as error:  # duckdb's, arrow's, and what a cell of an odd kind raises on its way to Python
            raise self._failed(error) from None

    def _check_table(self, tables: list[str]) -> None:
        if self.table and self.table not in tables:
            there = ", ".join(map(repr, sorted(tables)[:20])) or "none"
            raise InvalidInputError(f"{self.path} has no table {self.table!r}; it has {there}. Name one of those.")

    def _failed(self, error: Exception) -> InvalidInputError:
        return InvalidInputError(
            f"{self.path}, {self.part}, cannot be read ({reason(error)}). Is it a {self.kind} file, and does the query "
            "run there? (Its own words are withheld, as they may quote cells.)"
        )


def beside(source: str | os.PathLike[str], ending: str) -> Path:
    """Return the place of a file that belongs to a table: beside it, under its name and ``ending``."""
    base = Database.of(source)
    path = Path(source)
    return path.with_name(path.name + ending) if base is None else base.beside(ending)


def file_of(source: str | os.PathLike[str]) -> Path:
    """Return the file or folder that is read."""
    base = Database.of(source)
    return Path(source) if base is None else base.path
