"""Reading and appending entries, inside somebody's transaction."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pate.exceptions import LedgerError
from pate.privacy.budget import Budget
from pate.privacy.charge import Charge
from pate.privacy.ledger._chain import COLUMNS, START, AnswerHasher, Entry, NewAnswer, canonical, rows_to_store
from pate.privacy.ledger._rows import LedgerRow


@contextmanager
def plain(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while reading a value into one clear error.

    Examples
    --------
    >>> with plain(Path("l.sqlite")):
    ...     json.loads("{")
    Traceback (most recent call last):
    pate.exceptions.LedgerError: the ledger 'l.sqlite' holds something that pate did not write. ...
    """
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
    """Return an entry's body.

    Examples
    --------
    >>> decode('{"a":1}', Path("l.sqlite"))
    {'a': 1}
    """
    with plain(path):
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return value


@lru_cache(maxsize=1)
def _version() -> str:
    return metadata.version("pate")


def opening(total: Budget) -> dict[str, Any]:
    """Return the body of the first entry.

    Examples
    --------
    >>> sorted(opening(Budget(1.0, 1e-5)))
    ['total', 'version']
    """
    return {"total": {"epsilon": total.epsilon, "delta": total.delta}, "version": _version()}


def release_body(
    charge: Charge, mechanism: str, n_queries: int, facts: dict[str, Any] | None, *, seeded: bool, open_ended: bool
) -> dict[str, Any]:
    """Return the body of a release's entry.

    Examples
    --------
    >>> release_body(Charge.zero(), "m", 3, None, seeded=False, open_ended=False)["n_queries"]
    3
    """
    body: dict[str, Any] = {
        "charge": {"rdp": list(charge.rdp), "pure": charge.pure if math.isfinite(charge.pure) else None},
        "facts": facts or {},
        "mechanism": str(mechanism),
        "n_queries": n_queries,
        "open_ended": bool(open_ended),
        "seeded": bool(seeded),
        "version": _version(),
    }
    canonical(body)  # infinities in a Renyi curve, or facts that are no JSON, must not get halfway
    return body


def charge_of(mu_squared: float, body: dict[str, Any]) -> Charge:
    """Return the charge of a release's entry.

    Examples
    --------
    >>> one = Charge.gaussian(sensitivity=1.0, sigma=2.0)
    >>> charge_of(0.25, release_body(one, "m", 1, None, seeded=False, open_ended=False)) == one
    True
    """
    pure = body["charge"]["pure"]
    return Charge(mu_squared, tuple(body["charge"]["rdp"]), math.inf if pure is None else pure)


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
    costs = read_costs(connection, path)
    return canonical([*end, len(costs), math.fsum(costs)])


def is_sealed(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file ends as it was sealed."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'seal'").fetchone()
    return make_seal(connection, path) == (None if row is None else row[0])


def check_seal(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse to go on with an end, or a sum, that is not the sealed one."""
    if not is_sealed(connection, path):
        raise LedgerError(
            f"the ledger {str(path)!r} does not end as it was sealed: entries were changed, taken away or added "
            "outside pate. Nothing was charged. `pate ledger verify` tells more; restore it from a backup."
        )


def append(
    connection: sqlite3.Connection,
    path: Path,
    kind: str,
    created: str,
    *,
    body: dict[str, Any],
    release: int | None = None,
    request: str | None = None,
    mu_squared: float | None = None,
    answers: Iterable[NewAnswer] = (),
) -> Entry:
    """Add an entry and its answers at the end of the chain, seal it, and return it as it was read back."""
    end = last(connection)
    seq, previous = (0, START) if end is None else (end[0] + 1, end[1])
    hasher = AnswerHasher()
    stored = connection.executemany(
        "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows_to_store(answers, seq, hasher)
    )
    entry = Entry(
        seq=seq,
        kind=kind,
        release=release,
        created=created,
        request=request,
        mu_squared=mu_squared,
        n_answers=hasher.n,
        answers=hasher.digest,
        body=canonical(body),
        previous=previous,
    )
    values = (*entry.__dict__.values(), entry.digest)
    added = connection.execute(f"INSERT INTO entries ({COLUMNS}) VALUES ({','.join('?' * len(values))})", values)
    # A trigger that drops rows without a word is refused with the schema; should one get past, nothing is committed.
    found = connection.execute(f"SELECT {COLUMNS} FROM entries WHERE seq = ?", (seq,)).fetchone()
    (kept,) = connection.execute("SELECT COUNT(*) FROM answers WHERE entry = ?", (seq,)).fetchone()
    if added.rowcount != 1 or found != values or kept != hasher.n or (hasher.n and stored.rowcount != hasher.n):
        raise LedgerError(
            f"the ledger {str(path)!r} did not keep what was written to it. Nothing was charged. `pate ledger verify` "
            "tells more; restore it from a backup."
        )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('seal', ?)", (make_seal(connection, path),))
    return entry


def read_total(connection: sqlite3.Connection, path: Path) -> Budget | None:
    """Return the total budget, from an entry whose digest is checked each time."""
    row = connection.execute(f"SELECT {COLUMNS} FROM entries WHERE seq = 0").fetchone()
    if row is None:
        return None
    with plain(path):
        if Entry(*row[:-1]).digest != row[-1] or row[1] != "opened":
            raise ValueError("the first entry was changed")
        total = decode(row[8], path)["total"]
        return Budget(total["epsilon"], total["delta"])


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


def read_costs(connection: sqlite3.Connection, path: Path) -> tuple[float, ...]:
    """Return the mu^2 of every release, from the index of charges alone."""
    costs = tuple(cost for (cost,) in connection.execute("SELECT mu_squared FROM entries WHERE kind = 'release'"))
    with plain(path):
        if any(not cost >= 0 for cost in costs):
            raise ValueError("a negative cost")
        return costs


def most_answers(body: dict[str, Any], path: Path) -> int | None:
    """Return how many answers a release may hold in all, None for any number.

    A session (its facts say "adaptive") has paid for ``n_queries`` answers; a run of capped votes for its votes, in
    as many answers as one likes; what is not open-ended is stored whole at once.

    Examples
    --------
    >>> body = release_body(Charge.zero(), "m", 3, {"adaptive": True}, seeded=False, open_ended=True)
    >>> most_answers(body, Path("l.sqlite")), most_answers({**body, "facts": {}}, Path("l.sqlite"))
    (3, None)
    """
    with plain(path):
        if body["open_ended"] is not True or body["facts"].get("adaptive") is not True:
            return None
        if not isinstance(body["n_queries"], int):
            raise TypeError("a release of another kind")
        return body["n_queries"]


def n_answers(connection: sqlite3.Connection, release: int) -> int:
    """Return how many answers a release holds, those added later too."""
    query = "SELECT COALESCE(SUM(n_answers), 0) FROM entries WHERE release = ?"
    return int(connection.execute(query, (release,)).fetchone()[0])


def read_releases(connection: sqlite3.Connection, path: Path, ids: Iterable[int] | None) -> Iterator[LedgerRow]:
    """Yield releases, oldest first."""
    columns = "release, created, mu_squared, n_answers, digest, body"
    query = f"SELECT {columns} FROM entries WHERE kind = 'release'"
    if ids is None:
        rows = connection.execute(f"{query} ORDER BY release")
    else:
        found = (connection.execute(f"{query} AND release = ?", (n,)).fetchone() for n in sorted(set(ids)))
        rows = (row for row in found if row is not None)  # type: ignore[assignment]
    for number, created, mu_squared, n_answers, digest, text in rows:
        with plain(path):
            body = decode(text, path)
            kinds = {"mechanism": str, "n_queries": int, "facts": dict, "seeded": bool, "version": str}
            if not all(isinstance(body[name], kind) for name, kind in kinds.items()):
                raise TypeError("a release of another kind")
            row = LedgerRow(
                id=number,
                created=created,
                mechanism=body["mechanism"],
                n_queries=body["n_queries"],
                charge=charge_of(mu_squared, body),
                facts=body["facts"],
                seeded=body["seeded"],
                version=body["version"],
                n_answers=n_answers,
                digest=digest,
            )
        yield row
