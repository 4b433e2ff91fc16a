"""Tables from databases that are files, SQLite (in Python's own library) and DuckDB: read, never written."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from pate.core.extras import need
from pate.data.files._arrow import arrow_frame, decoded
from pate.data.files._npz import reason
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

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
        """What to call it in a message: never the query, which may hold what it looks for."""
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
        """Return all rows; of SQLite, which declares little, as objects.

        Raises
        ------
        InvalidInputError
            There is no such file or table, or the query fails. What the database says of it is withheld, as it may
            quote cells.
        MissingExtraError
            duckdb is not installed.
        """
        if not self.path.is_file():
            raise InvalidInputError(f"there is no file {self.path}. Check the name and the folder.")
        return self._duckdb(nullable) if self.kind == "duckdb" else self._sqlite()

    def _sql(self) -> str:
        name = self.table.replace('"', '""')
        return self.query or f'SELECT * FROM "{name}"'

    def _sqlite(self) -> pd.DataFrame:
        import pandas as pd

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
        columns = [pd.Series([row[i] for row in rows], dtype=object) for i in range(len(names))]
        frame = pd.DataFrame(dict(enumerate(columns)), dtype=object)
        frame.columns = pd.Index(names)
        return frame

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
