"""Every answer that was paid for, as a table."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pate.core.files import atomic_path
from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger._chain import unpack_counts, unpack_query
from pate.ledger._entries import decode, plain

_COLUMNS = ("release", "created", "mechanism", "family", "query", "status", "label", "class", "noisy_counts")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_answers(
    connection: sqlite3.Connection | None,
    path: str | os.PathLike[str],
    classes: list[Any],
    *,
    ledger: Path,
    escape_formulas: bool,
) -> int:
    """Write all answers; see :meth:`pate.Ledger.export`."""
    goal = Path(path)
    if goal.suffix not in (".csv", ".jsonl"):
        raise InvalidInputError(f"path must end in .csv or .jsonl, got {str(goal)!r}.")
    if goal.exists():
        raise InvalidInputError(f"path must be a new file, but {str(goal)!r} exists. Name another one.")
    try:
        return _write(connection, goal, classes, ledger, escape_formulas)
    except OSError as error:
        raise LedgerError(
            f"the labels could not be written to {str(goal)!r}: {error.strerror or error}. No file was made; what was "
            "paid for is in the ledger."
        ) from error


def _write(
    connection: sqlite3.Connection | None, goal: Path, classes: list[Any], ledger: Path, escape_formulas: bool
) -> int:
    n = 0
    with atomic_path(goal) as part, open(part, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        if goal.suffix == ".csv":
            table.writerow(_COLUMNS)
        with plain(ledger):
            for row in () if connection is None else _rows(connection, classes, ledger):
                n += 1
                if goal.suffix == ".jsonl":
                    file.write(json.dumps(dict(zip(_COLUMNS, row, strict=True))) + "\n")
                    continue
                counts = None if row[-1] is None else json.dumps(row[-1])
                table.writerow([_cell(v) if escape_formulas else v for v in (*row[:-1], counts)])
    return n


def _cell(value: Any) -> Any:
    """Return a CSV cell; a text that a spreadsheet would run gets an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value


def _rows(connection: sqlite3.Connection, classes: list[Any], ledger: Path) -> Iterator[tuple[Any, ...]]:
    """Yield every answer in the order of :data:`_COLUMNS`; sums of ballots have numbers and no label."""
    releases = {
        number: (created, decode(body, ledger).get("mechanism"))
        for number, created, body in connection.execute(
            "SELECT release, created, body FROM entries WHERE kind = 'release'"
        )
    }
    found = connection.execute(
        "SELECT e.release, a.family, a.query, a.label, a.noisy FROM entries e JOIN answers a ON a.entry = e.seq "
        "ORDER BY e.seq, a.position"
    )
    for release, family, query, label, noisy in found:
        created, mechanism = releases[release]
        counts = unpack_counts(noisy)
        ballots, refused = family == "gaussian-sum", label < 0
        value = classes[label] if 0 <= label < len(classes) else None
        yield (
            release,
            created,
            mechanism,
            family,
            unpack_query(query),
            "ballots" if ballots else "refused" if refused else "answered",
            None if refused or ballots else label,
            None if ballots else value,
            None if counts is None else list(counts),
        )
