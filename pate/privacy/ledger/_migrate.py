"""From the first format, which had no chain, into a new file."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
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
    """Copy a ledger of format 1 into a new file: total, spent budget, labels and all.

    Use the new one from then on. The old one keeps its releases and labels, is marked as copied, and no pate charges to
    it any more: two copies would each have the whole remainder to spend. A copy that was broken off can be made again,
    under the same name; a copy of the old file made before is not known here.

    Parameters
    ----------
    old, new : path

    Returns
    -------
    Ledger

    Raises
    ------
    LedgerError
        ``old`` is not of format 1, was copied before or cannot be marked, or ``new`` exists.

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
    mark = hashlib.sha256(str(goal.resolve()).encode()).hexdigest()
    try:
        with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)) as held:
            version = _begin(held, source, mark)
            try:
                # Nobody charges to the old one meanwhile, and of two that copy at once one finds it done.
                with _locked(held), _entries.plain(source):
                    _check_mark(held, source, mark)
                    _copy(held, goal)
                    _set(held, "version", _DONE)
                    bound = _meta(held, "binding")
            except BaseException:
                if not goal.exists() or not goal.stat().st_size:
                    _take_back(held, mark, version)
                raise
    except sqlite3.Error as error:
        raise LedgerError(
            f"the ledger {str(source)!r} cannot be read, or not be marked as copied: {error}. Nothing was copied, "
            f"unless {str(goal)!r} is there."
        ) from error
    ledger = Ledger(goal)
    if bound is not None:
        facts = json.loads(bound)
        ledger.register(Registration(facts["unit"], tuple(_class_value(text) for text in facts["classes"])))
    return ledger


#: What stands for the version in a file that is being copied, and in one that was: the pate of format 1 refuses both.
_BEGUN, _DONE = "1, being copied", "1, copied"


@contextmanager
def _locked(old: sqlite3.Connection) -> Iterator[None]:
    """Hold the old ledger's write lock; commit at the end, roll back on any failure."""
    old.execute("BEGIN IMMEDIATE")
    try:
        yield
        old.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            old.execute("ROLLBACK")
        raise


def _begin(old: sqlite3.Connection, source: Path, mark: str) -> str | None:
    """Mark the old ledger, before there is a copy, as being copied to this one file; return its version."""
    old.execute("PRAGMA synchronous=FULL")
    with _locked(old):
        if state(old) != "format 1":
            raise LedgerError(f"{str(source)!r} is not a ledger of format 1. Use it as it is.")
        version = _meta(old, "version")
        if _meta(old, "copied_to") is not None:
            _check_mark(old, source, mark)
        _set(old, "version", _BEGUN)
        _set(old, "copied_to", mark)
    return version if version != _BEGUN else "1"


def _check_mark(old: sqlite3.Connection, source: Path, mark: str) -> None:
    """Refuse a ledger that was copied, or is being copied to another file."""
    if _meta(old, "copied_to") != mark or _meta(old, "version") != _BEGUN:
        raise LedgerError(
            f"the ledger {str(source)!r} was copied before. Use that copy: a second one would have the same remainder "
            "to spend again. If that copy was broken off, make it again under the same name."
        )


def _take_back(old: sqlite3.Connection, mark: str, version: str | None) -> None:
    """Take the mark away after a copy that failed and left nothing."""
    with suppress(sqlite3.Error), _locked(old):
        if _meta(old, "copied_to") == mark and _meta(old, "version") == _BEGUN:
            old.execute("DELETE FROM meta WHERE key = 'copied_to'")
            if version is not None:
                _set(old, "version", version)


def _set(old: sqlite3.Connection, key: str, value: str) -> None:
    old.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


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
