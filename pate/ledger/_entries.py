"""Reading and appending entries, inside the caller's transaction."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pate._core.version import VERSION
from pate.exceptions import LedgerError
from pate.ledger._chain import COLUMNS, START, AnswerHasher, Entry, NewAnswer, canonical, rows_to_store
from pate.ledger._files import BINDS
from pate.ledger._rows import LedgerRow, Registration
from pate.privacy.budget import Budget
from pate.privacy.compose.accounting_unit import (
    AccountingUnit,
    Opening,
    Terms,
    check_accounting_unit,
    check_failure_delta,
)
from pate.privacy.cost import Charge


@contextmanager
def plain(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while reading a value into one clear error."""
    try:
        yield
    except LedgerError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise LedgerError(
            f"the ledger {str(path)!r} holds something that pate did not write. Nothing was charged. "
            "`pate ledger verify` tells where; restore it from a backup."
        ) from error


def decode(text: str, path: Path) -> dict[str, Any]:
    """Return an entry's body."""
    with plain(path):
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return value


def opening(total: Budget, asked: str | None = None, failure_delta: float | None = None) -> dict[str, Any]:
    """Return the body of the first entry: the total, what is fixed already of its currency; if all is, the limit."""
    fixed = failure_delta is not None and asked not in (None, "renyi")
    limit = Terms.of(total, AccountingUnit.named(str(asked)), failure_delta or 0.0).limit if fixed else None
    return {
        "currency": asked,
        "failure_delta": failure_delta,
        "limit": limit,
        "total": {"epsilon": total.epsilon, "delta": total.delta},
        "version": VERSION,
    }


def terms_body(terms: Terms) -> dict[str, Any]:
    """Return the body of the entry that fixes the accounting unit, which never changes, before the first charge."""
    return {"currency": terms.currency.name, "failure_delta": terms.failure_delta, "limit": terms.limit}


def release_body(
    cost: Charge,
    mechanism: str,
    n_queries: int,
    facts: dict[str, Any] | None,
    *,
    seeded: bool,
    open_ended: bool,
    kind: str = "labels",
) -> dict[str, Any]:
    """Return the body of a release's entry."""
    mu_squared, pure, *rdp = (v if math.isfinite(v) else None for v in (cost.mu_squared, cost.pure, *cost.rdp))
    held = {"orders": list(cost.orders), "rdp": rdp, "mu_squared": mu_squared, "pure": pure, "delta0": cost.delta0}
    body: dict[str, Any] = {
        "charge": held,
        "facts": facts or {},
        "kind": kind,
        "mechanism": str(mechanism),
        "n_queries": n_queries,
        "open_ended": bool(open_ended),
        "seeded": bool(seeded),
        "version": VERSION,
    }
    canonical(body)  # facts that are no JSON must not get halfway
    return body


def charge_of(body: dict[str, Any]) -> Charge:
    """Return the cost of a release's entry: a charge, or what is wider than one."""
    held = body["charge"]
    mu_squared, pure, *rdp = (math.inf if v is None else v for v in (held["mu_squared"], held["pure"], *held["rdp"]))
    return Charge(mu_squared, tuple(rdp), pure, tuple(held["orders"]), held["delta0"])


def last(connection: sqlite3.Connection) -> tuple[int, str] | None:
    """Return number and digest of the last entry."""
    row = connection.execute("SELECT seq, digest FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return None if row is None else (row[0], row[1])


def make_seal(connection: sqlite3.Connection, path: Path) -> str | None:
    """Return what the seal has to say: the chain's end, and what the releases add up to.

    It is checked before every charge, so rows that got lost or were added are noticed there and then, without reading
    the whole file; what the seal does not cover :func:`verify_ledger` finds.
    """
    end = last(connection)
    if end is None:
        return None
    prices, failures = read_costs(connection, path)
    return canonical([*end, len(prices), math.fsum(prices), math.fsum(failures)])


def is_sealed(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file ends as it was sealed."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'seal'").fetchone()
    return make_seal(connection, path) == (None if row is None else row[0])


def append(
    connection: sqlite3.Connection,
    path: Path,
    kind: str,
    created: str,
    *,
    body: dict[str, Any],
    release: int | None = None,
    request: str | None = None,
    price: float | None = None,
    failure: float | None = None,
    answers: Iterable[NewAnswer] = (),
) -> Entry:
    """Add an entry and its answers at the end of the chain, seal it, and return it as it was read back."""
    end = last(connection)
    seq, previous = (0, START) if end is None else (end[0] + 1, end[1])
    hasher = AnswerHasher()
    stored = connection.executemany(
        "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows_to_store(answers, seq, hasher)
    )
    paid = (release, created, request, price, failure)
    entry = Entry(seq, kind, *paid, hasher.n, hasher.digest, canonical(body), previous)
    values = (*entry.__dict__.values(), entry.digest)
    added = connection.execute(f"INSERT INTO entries ({COLUMNS}) VALUES ({','.join('?' * len(values))})", values)
    # A trigger that drops rows silently is refused with the schema; if one is missed, nothing is committed.
    found = connection.execute(f"SELECT {COLUMNS} FROM entries WHERE seq = ?", (seq,)).fetchone()
    (kept,) = connection.execute("SELECT COUNT(*) FROM answers WHERE entry = ?", (seq,)).fetchone()
    if added.rowcount != 1 or found != values or kept != hasher.n or (hasher.n and stored.rowcount != hasher.n):
        raise LedgerError(
            f"the ledger {str(path)!r} did not keep what was written to it. Nothing was charged. `pate ledger verify` "
            "tells more; restore it from a backup."
        )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('seal', ?)", (make_seal(connection, path),))
    return entry


def read_opening(connection: sqlite3.Connection, path: Path) -> Opening | None:
    """Return what the ledger was opened with, from entries whose digests are checked each time."""
    row = connection.execute(f"SELECT {COLUMNS} FROM entries WHERE seq = 0").fetchone()
    if row is None:
        return None
    with plain(path):
        held = opening_of(_checked(row, "opened", path))
        if held.failure_delta is not None:
            held = replace(held, failure_delta=check_failure_delta(held.failure_delta, held.total))
        if held.terms is not None:
            return held
        terms = connection.execute(f"SELECT {COLUMNS} FROM entries WHERE kind = 'terms' ORDER BY seq").fetchone()
        return held if terms is None else replace(held, terms=terms_of(_checked(terms, "terms", path), held.total))


def opening_of(body: dict[str, Any]) -> Opening:
    """Return what the first entry says."""
    total = Budget(body["total"]["epsilon"], body["total"]["delta"])
    terms = None if body["limit"] is None else terms_of(body, total)
    return Opening(total, check_accounting_unit(body["currency"]), body["failure_delta"], terms)


def terms_of(body: dict[str, Any], total: Budget) -> Terms:
    """Return the terms of their entry; a limit above the currency's own is refused."""
    terms = Terms.of(total, AccountingUnit.named(body["currency"]), body["failure_delta"])
    # As it was fixed: another version may compute another last digit, or convert more tightly.
    if not 0 < body["limit"] <= terms.limit * (1 + 1e-9):
        raise ValueError("a limit beyond the currency's")
    return replace(terms, limit=body["limit"])


def _checked(row: tuple[Any, ...], kind: str, path: Path) -> dict[str, Any]:
    entry = Entry(*row[:-1])
    if entry.digest != row[-1] or entry.kind != kind:
        raise ValueError("an entry that decides was changed")
    return decode(entry.body, path)


def read_registration(connection: sqlite3.Connection, path: Path) -> dict[str, Any] | None:
    """Return the last registration: every one holds all that is known."""
    row = connection.execute("SELECT body FROM entries WHERE kind = 'registered' ORDER BY seq DESC LIMIT 1").fetchone()
    if row is None:
        return None
    with plain(path):
        held = decode(row[0], path)
        if not {"unit", "classes", "n_units", "fingerprint", "key_check"} <= set(held):
            raise ValueError("an incomplete registration")
        if not isinstance(held["classes"], list) or not isinstance(held["n_units"], int | None):
            raise TypeError("a registration of another kind")
        return held


def check_tiers(path: Path, held: dict[str, Any] | None, data: Registration | None) -> None:
    """Refuse a release of other tiers than the ledger's, or of none: totals per tier follow from one set of weights."""
    given = None if data is None or data.tiers is None else [list(tier) for tier in data.tiers]
    if held is not None and held.get("tiers") != given:
        sides: list[Any] = [held.get("tiers"), given]
        known, asked = ("no tiers" if side is None else f"tiers {dict(side)}" for side in sides)
        raise LedgerError(
            f"the ledger {str(path)!r} has {known} of units, and this release has {asked} (weights of 65,536). Nothing "
            "was charged. All releases of one ledger have the same tiers with the same weights, or none: name another "
            "ledger only for other people's records."
        )


def read_costs(connection: sqlite3.Connection, path: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return price and failure probability of every release, from the index of charges alone."""
    rows = connection.execute("SELECT price, failure FROM entries WHERE kind = 'release'").fetchall()
    with plain(path):
        if any(not (price >= 0 and failure >= 0) for price, failure in rows):
            raise ValueError("a negative cost")
        return tuple(price for price, _ in rows), tuple(failure for _, failure in rows)


def most_answers(body: dict[str, Any], path: Path) -> int | None:
    """Return how many answers a release may hold in all, None for any number.

    A session (its facts say "adaptive") and a gate have paid for ``n_queries`` answers, and labels whose facts have
    "right_counts" for as many counts besides; a run of capped votes for its votes, in as many answers as one likes;
    what is not open-ended is stored whole at once.
    """
    with plain(path):
        counts = body["facts"].get("right_counts", [])
        counted = bool(counts) or body["facts"].get("adaptive") is True or body["kind"] == "gate"
        if body["open_ended"] is not True or not counted:
            return None
        if not isinstance(body["n_queries"], int):
            raise TypeError("a release of another kind")
        return body["n_queries"] + len(counts)


def n_answers(connection: sqlite3.Connection, release: int) -> int:
    """Return how many answers a release holds, those added later too."""
    query = "SELECT COALESCE(SUM(n_answers), 0) FROM entries WHERE release = ?"
    return int(connection.execute(query, (release,)).fetchone()[0])


#: What a release's body says of it, by name and type.
_KINDS = {"mechanism": str, "n_queries": int, "facts": dict, "seeded": bool, "version": str, "kind": str}


def read_releases(connection: sqlite3.Connection, path: Path, ids: Iterable[int] | None) -> Iterator[LedgerRow]:
    """Yield releases, oldest first."""
    columns = "release, created, price, failure, n_answers, digest, body"
    query = f"SELECT {columns} FROM entries WHERE kind = 'release'"
    if ids is None:
        rows = connection.execute(f"{query} ORDER BY release")
    else:
        found = (connection.execute(f"{query} AND release = ?", (n,)).fetchone() for n in sorted(set(ids)))
        rows = (row for row in found if row is not None)  # type: ignore[assignment]
    for number, created, price, failure, n_answers, digest, text in rows:
        with plain(path):
            body = decode(text, path)
            if not all(isinstance(body[name], kind) for name, kind in _KINDS.items()):
                raise TypeError("a release of another kind")
            if body["open_ended"]:  # what came to be known when answers were added
                for (more,) in connection.execute(
                    "SELECT body FROM entries WHERE release = ? AND kind = 'answers' AND body != '{}'", (number,)
                ):
                    if not more.startswith(BINDS):
                        body["facts"] = {**decode(more, path), **body["facts"]}
            said = {name: body[name] for name in _KINDS} | {"charge": charge_of(body), "contents": body.get("contents")}
            row = LedgerRow(
                id=number, created=created, price=price, failure=failure, n_answers=n_answers, digest=digest, **said
            )
        yield row
