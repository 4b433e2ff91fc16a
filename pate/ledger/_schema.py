"""The tables of a ledger's file, and the check that a file has exactly these."""

from __future__ import annotations

import sqlite3

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
