"""From the first format, which had no chain, into a new file."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pate.exceptions import LedgerError
from pate.privacy.budget import Budget
from pate.privacy.charge import Charge
from pate.privacy.ledger import _entries
from pate.privacy.ledger._chain import NewAnswer
from pate.privacy.ledger._ledger import Ledger
from pate.privacy.ledger._rows import Registration
from pate.privacy.ledger._schema import state
from pate.privacy.ledger._store import transaction


def migrate(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> Ledger:
    """Copy a ledger of format 1 into a new file: total, spent budget, labels and all. The old file is only read.

    Use the new one from then on; a release charged to the old one is not in the new one.

    Parameters
    ----------
    old, new : path

    Returns
    -------
    Ledger

    Raises
    ------
    LedgerError
        ``old`` is not of format 1, or ``new`` exists.

    Examples
    --------
    >>> migrate("no-such.sqlite", "new.sqlite")
    Traceback (most recent call last):
    pate.exceptions.LedgerError: there is no ledger at 'no-such.sqlite'.
    """
    source, goal = Path(old), Path(new)
    if not source.is_file():
        raise LedgerError(f"there is no ledger at {str(source)!r}.")
    if goal.exists() and goal.stat().st_size:
        raise LedgerError(f"{str(goal)!r} exists. Name a new file for the copy.")
    try:
        reader = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            reader.execute("BEGIN")
            if state(reader) != "format 1":
                raise LedgerError(f"{str(source)!r} is not a ledger of format 1. Use it as it is.")
            with _entries.plain(source):
                _copy(reader, goal)
                bound = _meta(reader, "binding")
        finally:
            reader.close()
    except sqlite3.Error as error:
        raise LedgerError(f"the ledger {str(source)!r} cannot be read: {error}. Nothing was copied.") from error
    ledger = Ledger(goal)
    if bound is not None:
        facts = json.loads(bound)
        ledger.register(Registration(facts["unit"], tuple(_class_value(text) for text in facts["classes"])))
    return ledger


def _copy(reader: sqlite3.Connection, goal: Path) -> None:
    total = json.loads(_meta(reader, "total") or "")
    with transaction(goal, write=True, timeout=30.0) as connection:
        assert connection is not None
        first = reader.execute("SELECT MIN(created) FROM releases").fetchone()[0] or ""
        opening = _entries.opening(Budget(total["epsilon"], total["delta"]))
        _entries.append(connection, goal, "opened", first, body=opening)
        columns = "id, created, mechanism, n_queries, mu_squared, charge, facts"
        rows = reader.execute(f"SELECT {columns} FROM releases ORDER BY id")
        for release, (number, created, mechanism, n_queries, mu_squared, cost, text) in enumerate(rows, start=1):
            parts, facts = json.loads(cost), json.loads(text)
            charge = Charge(mu_squared, tuple(parts["rdp"]), math.inf if parts["pure"] is None else parts["pure"])
            request, seeded = facts.pop("request", None), bool(facts.pop("seeded", False))
            _entries.append(
                connection,
                goal,
                "release",
                created,
                body=_entries.release_body(charge, mechanism, n_queries, facts, seeded=seeded, open_ended=False),
                release=release,
                request=request or None,
                mu_squared=mu_squared,
                answers=_answers(reader, number),
            )


def _meta(reader: sqlite3.Connection, key: str) -> str | None:
    row: tuple[str] | None = reader.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def _class_value(text: str) -> Any:
    """Return the class value that format 1 kept as its repr."""
    try:
        return ast.literal_eval(re.sub(r"^np\.\w+\((.*)\)$", r"\1", text))
    except (ValueError, SyntaxError):
        return text


def _answers(reader: sqlite3.Connection, release: int) -> Iterator[NewAnswer]:
    query = "SELECT query, family, label, noisy_counts FROM answers WHERE release = ? ORDER BY query, family"
    for key, family, label, noisy in reader.execute(query, (release,)):
        counts: Any = None if noisy is None else json.loads(noisy)
        yield key, family, label, counts
