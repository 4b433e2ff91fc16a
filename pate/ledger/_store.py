"""Opening the file: one short-lived connection per call, one transaction per connection, every failure by name.

**Rollback journal, not WAL.** At rest a ledger is one file that can be copied, archived and mailed; a WAL ledger is
three, of which a backup may catch one, and it needs shared memory, which folders on a network do not have. Releases
are rare and short, so WAL's gain, readers beside a writer, is worth nothing here. ``synchronous=EXTRA`` is FULL plus
a sync of the folder after the journal is deleted: with FULL alone a power cut just after a commit could bring the
journal back and undo a charge whose labels may have been seen.

A connection never outlives its call, so a process may fork at any time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pate.exceptions import LedgerError
from pate.ledger._chain import key_path

# The tables of a ledger's file, and the check that a file has exactly these.

#: One chain of entries, each charge in the currency that the ledger was opened in.
FORMAT = "3"

#: name -> SQL, as SQLite keeps it. A file with anything else in its schema is refused: a trigger or a view planted in
#: a crafted file would run inside our transactions.
SCHEMA = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "entries": (
        "CREATE TABLE entries (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, release INTEGER, created TEXT NOT NULL, "
        "request TEXT, price REAL, failure REAL, n_answers INTEGER NOT NULL, answers TEXT NOT NULL, "
        "body TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL, "
        "CHECK (kind IN ('opened', 'terms', 'registered', 'release', 'answers')), "
        "CHECK ((kind = 'release') = (price IS NOT NULL)), "
        "CHECK ((kind = 'release') = (failure IS NOT NULL)), "
        "CHECK ((kind IN ('release', 'answers')) = (release IS NOT NULL)), "
        "CHECK (price IS NULL OR price >= 0), "
        "CHECK (failure IS NULL OR failure >= 0)) STRICT"
    ),
    "answers": (
        "CREATE TABLE answers (entry INTEGER NOT NULL REFERENCES entries(seq) DEFERRABLE INITIALLY DEFERRED, "
        "position INTEGER NOT NULL, query ANY NOT NULL, family TEXT NOT NULL, label INTEGER NOT NULL, noisy BLOB, "
        "PRIMARY KEY (entry, position)) STRICT, WITHOUT ROWID"
    ),
    "charges": "CREATE INDEX charges ON entries (release, price, failure) WHERE kind = 'release'",
    "terms": "CREATE INDEX terms ON entries (seq) WHERE kind = 'terms'",
    "registrations": "CREATE INDEX registrations ON entries (seq) WHERE kind = 'registered'",
    "requests": "CREATE INDEX requests ON entries (request) WHERE request IS NOT NULL",
    "answers_by_query": "CREATE INDEX answers_by_query ON answers (query, family)",
    "entries_in_order": (
        "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
        "WHEN NEW.seq <> (SELECT COALESCE(MAX(seq), -1) + 1 FROM entries) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger takes new entries at its end only'); END"
    ),
    "answers_in_order": (
        "CREATE TRIGGER answers_in_order BEFORE INSERT ON answers "
        "WHEN NEW.entry <> (SELECT COALESCE(MAX(seq), -1) + 1 FROM entries) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger takes answers with a new entry only'); END"
    ),
    **{
        f"no_{verb}_of_{table}": (
            f"CREATE TRIGGER no_{verb}_of_{table} BEFORE {verb.upper()} ON {table} "
            "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        )
        for table in ("entries", "answers")
        for verb in ("update", "delete")
    },
}

#: What SQLite itself may add. A name alone is no proof: a planted trigger may be named sqlite_anything too.
_OWN_TABLES = {"sqlite_sequence", "sqlite_stat1", "sqlite_stat2", "sqlite_stat3", "sqlite_stat4"}


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, inside the caller's transaction."""
    for statement in SCHEMA.values():
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('format', ?)", (FORMAT,))


def _empty() -> sqlite3.Connection:
    """Return a ledger without entries, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create(connection)
    return connection


def state(connection: sqlite3.Connection) -> str:
    """Return what the file is: "empty", "ledger", "other format", "changed" or "foreign"."""
    rows = [row for row in connection.execute("SELECT type, name, sql FROM sqlite_master") if not _is_sqlites_own(*row)]
    if not rows:
        return "empty"
    found = {name: sql for _, name, sql in rows}
    if not {"meta", "entries", "answers"} <= set(found):
        return "foreign"
    row = connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
    if row is not None and row[0] != FORMAT:
        return "other format"
    expected = sorted((sql.split()[1].lower(), name, sql) for name, sql in SCHEMA.items())
    same = all(isinstance(sql, str) for sql in found.values()) and sorted(rows) == expected
    return "ledger" if row is not None and same else "changed"


def _is_sqlites_own(kind: object, name: object, sql: object) -> bool:
    """Return whether SQLite made it: an index of a key, which has no SQL, or one of its few tables."""
    if kind == "index":
        return sql is None and isinstance(name, str) and name.startswith("sqlite_autoindex_")
    return kind == "table" and name in _OWN_TABLES


#: Pages a connection may keep in memory, in KiB: appending a million answers to an index stays quick.
_CACHE_KIB = 65_536


class DamagedLedgerError(LedgerError):
    """The file's content, not its surroundings, is at fault."""


_TAKEN = "Name a new file for the ledger."


@contextmanager
def transaction(path: Path, *, write: bool, timeout: float) -> Iterator[sqlite3.Connection]:
    """Run one transaction; a reader of a ledger that is not there yet sees one without entries, and leaves no file."""
    try:
        # The key first: a process that makes both at this moment makes the ledger first.
        has_key = key_path(path).exists()
        missing = not path.exists() or path.stat().st_size == 0
        if missing and has_key:
            raise LedgerError(
                f"the ledger {str(path)!r} is gone or empty, but its key file {key_path(path).name!r} is there: what "
                "was spent would be forgotten. Restore the ledger from a backup. Only if no label was ever released "
                "from this private data delete the key file too."
            )
        if not missing and path.stat().st_nlink > 1:
            # SQLite looks for what a killed process left beside the name that it is given.
            raise LedgerError(
                f"the ledger {str(path)!r} has a second name (a hard link): after a kill a charge could be half there "
                "under one of them. Nothing was charged. Remove the other name, and name the ledger by one, or by a "
                "symbolic link."
            )
        if missing and write:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Made here and not by SQLite: readable by the owner only, whatever the umask. The journal inherits it.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        # No reader makes a file.
        where = path if write or not missing else ":memory:"
        connection = sqlite3.connect(where, timeout=timeout, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise LedgerError(
            f"the ledger {str(path)!r} cannot be opened: {why}. Nothing was charged; check the path, its permissions "
            "and the disk."
        ) from error
    committing = False
    try:
        for pragma in (
            "synchronous=EXTRA",
            "foreign_keys=ON",
            "trusted_schema=OFF",
            "cell_size_check=ON",
            f"cache_size=-{_CACHE_KIB}",
            f"query_only={'OFF' if write else 'ON'}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if write and connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0] != "delete":
            raise LedgerError(f"the ledger {str(path)!r} cannot use a rollback journal. {_TAKEN}")
        # IMMEDIATE takes the write lock first: nothing else can spend between our check and our charge.
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        if where is path:  # another process may have made the file meanwhile
            _check_size(connection, path)
        found = state(connection)
        if found == "empty" and write:
            create(connection)
        elif found not in ("empty", "ledger"):
            raise (DamagedLedgerError if found == "changed" else LedgerError)(_refusal(path, found))
        elif found == "ledger" and connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone() is None:
            # Tables and first entry are committed together: a ledger without any entry was emptied.
            raise DamagedLedgerError(
                f"the ledger {str(path)!r} was emptied: it has no entry left, and what was spent would be forgotten. "
                "Nothing was charged; restore it from a backup."
            )
        if found == "empty" and not write:
            with closing(_empty()) as nothing:
                yield nothing
        else:
            yield connection
        committing = write
        connection.execute("COMMIT")
    except UnicodeDecodeError as error:
        # A damaged name, which SQLite quotes in its own error as the bytes it found.
        raise DamagedLedgerError(
            f"the ledger {str(path)!r} is damaged. Nothing was charged; restore it from a backup."
        ) from error
    except sqlite3.Error as error:
        kind = DamagedLedgerError if _code(error) in _DAMAGE else LedgerError
        raise kind(_failure(path, error, timeout, uncertain=committing)) from error
    finally:
        # Closing rolls back whatever was not committed.
        with suppress(sqlite3.Error):
            connection.close()


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that lost its end: SQLite itself takes half a last page for a whole one."""
    (page,), (pages,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "page_count"))
    try:
        size = path.stat().st_size
    except OSError:
        return
    if size and size != page * pages:
        raise DamagedLedgerError(
            f"the ledger {str(path)!r} is damaged: it has {size} bytes and should have {page * pages}. Nothing was "
            "charged; restore it from a backup."
        )


def _refusal(path: Path, found: str) -> str:
    name = repr(str(path))
    if found == "other format":
        return f"{name} is a ledger of another format than {FORMAT}. Nothing was charged. Use the pate that wrote it."
    if found == "foreign":
        return f"{name} is another program's SQLite file. {_TAKEN}"
    return (
        f"{name} is not as pate made it: a table, index or trigger was changed, added or taken away. Nothing was "
        "charged. Restore the ledger from a backup."
    )


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 where the module itself complained."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _failure(path: Path, error: sqlite3.Error, timeout: float, *, uncertain: bool) -> str:
    """Say what failed. ``uncertain``: while committing, when the charge may be on the disk after all."""
    code = _code(error)
    nothing = "Nothing was returned or charged"
    if uncertain and code != sqlite3.SQLITE_BUSY:
        nothing = (
            "Nothing was charged, or else the charge is stored with its labels (`pate ledger show` tells); nothing was "
            "returned, and asking again gives what is stored for free"
        )
    name = f"the ledger {str(path)!r}"
    if code == sqlite3.SQLITE_BUSY:
        return (
            f"{name} is locked: another writer held it for {timeout:g} s ({error}). That may be another pate process "
            "in a long release, a backup, or an SQLite browser with an open transaction. Nothing was charged; try "
            "again, or wait longer: Ledger(path, timeout=...)."
        )
    if code == sqlite3.SQLITE_FULL:
        return f"{name} failed: {error}. {nothing}. Free some space."
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH):
        return f"{name} cannot be written: {error}. Nothing was charged; check the permissions of file and folder."
    if code in _DAMAGE:
        return f"{name} failed: {error}. It is damaged or no ledger. Nothing was charged; restore it from a backup."
    return f"{name} failed: {error}. {nothing}; check the file and the disk."
