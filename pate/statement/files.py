"""A statement's JSON file: read strictly, compared with its ledger, and made into a page again.

Whoever has ``labels.statement.json`` can make the page from it and see that it says what the data say: the reader
refuses a file that lacks a field, has one too many, or contradicts itself.
"""

from __future__ import annotations

import json
import math
import os
from importlib import resources
from pathlib import Path
from typing import Any

from pate.core.files import write_text
from pate.core.strict_json import read_json_file
from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger import Ledger, verify_ledger
from pate.statement.fields import BY_PAIR
from pate.statement.model import PrivacyStatement
from pate.statement.promises import promises

__all__ = ["check_against_ledger", "read_statement", "render_statement", "statement_schema"]

#: A statement is a page: about 6 kB.
_MAX_BYTES = 1_000_000
_KINDS = (".html", ".txt")


def statement_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a statement's JSON.

    Examples
    --------
    >>> statement_schema()["properties"]["unit"]["enum"]
    ['record', 'group']
    """
    file = resources.files("pate") / "_templates" / "statement.schema.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def read_statement(path: str | os.PathLike[str]) -> PrivacyStatement:
    """Read a statement's JSON file, strictly.

    Parameters
    ----------
    path : path

    Returns
    -------
    PrivacyStatement

    Raises
    ------
    InvalidInputError
        There is no such file, it is no JSON, or not a statement: an entry is missing, unknown or contradicts another.
    SensitiveValueError
        It carries a data-dependent epsilon, which is private.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> from pate.core.files import write_json
    >>> file = Path(tempfile.mkdtemp()) / "labels.statement.json"
    >>> release = release_labels(Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5))
    >>> write_json(file, release.statement.to_dict())
    >>> read_statement(file) == release.statement
    True
    """
    return PrivacyStatement.from_dict(read_json_file(path, what="statement", most_bytes=_MAX_BYTES))


def check_against_ledger(statement: PrivacyStatement, ledger: str | os.PathLike[str]) -> None:
    """Compare a statement with the ledger it names: who edits a file can make a new digest, but no new ledger.

    Parameters
    ----------
    statement : PrivacyStatement
    ledger : path

    Raises
    ------
    InvalidInputError
        The statement names no release, or its head, releases, epsilon, mechanism, unit, number of units or seeding are
        not the ledger's.
    LedgerError
        There is no such ledger, or it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from dataclasses import replace
    >>> from pate import Budget, GNMax, Ledger, Votes, release_labels
    >>> path = Path(tempfile.mkdtemp()) / "ledger.sqlite"
    >>> votes = Votes.from_counts([[9, 1]])
    >>> s = release_labels(votes, GNMax(sigma=9.0), budget=Budget(2.0, 1e-5), ledger=Ledger(path)).statement
    >>> check_against_ledger(s, path)
    >>> check_against_ledger(replace(s, guarantee=replace(s.guarantee, epsilon=0.1)), path)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: the statement is not the ledger's: its epsilon differs. ...
    """
    found = verify_ledger(ledger, head=statement.ledger_head or None)
    if not found.ok:
        raise LedgerError(f"the ledger {os.fspath(ledger)!r} is not verified: {'; '.join(found.problems)}.")
    if not statement.ledger_releases:
        raise InvalidInputError("the statement names no release of a ledger. Read it without --ledger.")
    book = Ledger(ledger)
    rows, data, total = book.releases(statement.ledger_releases), book.registration or {}, book.total
    if len(rows) != len(set(statement.ledger_releases)):
        raise InvalidInputError("the statement is not the ledger's: it names releases that are not there.")
    g = statement.guarantee
    # Several releases are covered by the ledger's total alone.
    held = rows[0].charge.guarantee(g.delta).epsilon if len(rows) == 1 and 0 < g.delta < 1 else None
    if len(rows) > 1 and total is not None:
        held = total.epsilon if total.delta == g.delta else None
    if len(rows) == 1 and rows[0].kind == "DP-SGD":
        # What a run of DP-SGD promises is counted more tightly than its charge.
        facts = rows[0].facts
        held = facts.get("epsilon") if facts.get("delta") == g.delta else None
    terms = book.remaining().terms if len(rows) > 1 else None
    cost = terms.filled if terms is not None else rows[0].charge
    counted = {} if statement.seeded or any(row.kind == "DP-SGD" for row in rows) else promises(cost)
    if counted and statement.schema == BY_PAIR:  # has no point at epsilon 0
        counted["curve"] = counted["curve"][: len(statement.curve)]
    more = [name for name, value in counted.items() if not _close(getattr(statement, name), value)]
    wrong = [
        name
        for name, differs in (
            *((name, True) for name in more),
            ("adjacency", g.adjacency != "replace-one"),
            ("epsilon", held is None or not math.isclose(held, g.epsilon, rel_tol=1e-9)),
            ("mechanism", any(row.mechanism not in statement.mechanism for row in rows)),
            ("seeding", statement.seeded != any(row.seeded for row in rows)),
            ("unit", data.get("unit", statement.unit) != statement.unit),
            ("number of units", data.get("n_units") not in (None, statement.n_units)),
        )
        if differs
    ]
    if wrong:
        raise InvalidInputError(
            f"the statement is not the ledger's: its {', '.join(wrong)} differ{'s' * (len(wrong) == 1)}. It was "
            "altered, or is of another ledger."
        )


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9)


def render_statement(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    language: str = "en",
    catalogue: str | os.PathLike[str] | None = None,
) -> str:
    """Make the page of a statement's JSON file again.

    Parameters
    ----------
    path : path
        The JSON file.
    out : path or None
        Where to write the page: ``.html`` or ``.txt``. None writes nothing.
    language : str
        Of the plain words of an ``.html`` page; one that ships. Plain text is the record alone, in English.
    catalogue : path or None
        Somebody's own translation of those words; see :meth:`PrivacyStatement.html`.

    Returns
    -------
    str
        The page: HTML for an ``.html`` file, plain text otherwise.

    Raises
    ------
    InvalidInputError
        The file is not a statement, ``out`` has another ending, exists already or cannot be written, the language does
        not ship, or the catalogue is none.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> from pate.core.files import write_json
    >>> folder = Path(tempfile.mkdtemp())
    >>> release = release_labels(Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5))
    >>> write_json(folder / "a.json", release.statement.to_dict())
    >>> render_statement(folder / "a.json", folder / "a.html")[:15]
    '<!doctype html>'
    """
    goal = None if out is None else Path(out)
    if goal is not None and goal.suffix not in _KINDS:
        raise InvalidInputError(f"out must end in {' or '.join(_KINDS)}, got {goal.name!r}. Rename it.")
    if goal is not None and goal.exists():
        raise InvalidInputError(f"{goal} exists. Pages are never overwritten: name another file.")
    as_page = goal is not None and goal.suffix == ".html"
    if not as_page and (language != "en" or catalogue is not None):
        name = "language" if catalogue is None else "catalogue"
        raise InvalidInputError(
            f"{name} must go with an .html page: plain text is the record alone, whose words are the statement's own. "
            "Name the page, page.html for example."
        )
    s = read_statement(path)
    made = s.html(language=language, catalogue=catalogue) if as_page else s.text()
    if goal is not None:
        try:
            write_text(goal, made)
        except OSError as error:
            raise InvalidInputError(f"{goal} cannot be written ({error.strerror}). Name another place.") from error
    return made
