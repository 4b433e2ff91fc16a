"""The durable record of releases and their charges: one SQLite file, safe between processes.

Only public facts are stored: mechanisms, worst-case charges, released answers. Never votes, never a data-dependent
cost.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pate.exceptions import BudgetExceededError, LedgerError
from pate.privacy.budget import Budget
from pate.privacy.charge import Charge

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY AUTOINCREMENT, created TEXT NOT NULL, mechanism TEXT NOT NULL,
    n_queries INTEGER NOT NULL, mu_squared REAL NOT NULL, charge TEXT NOT NULL, facts TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    query TEXT NOT NULL, family TEXT NOT NULL, label INTEGER NOT NULL, noisy_counts TEXT,
    release INTEGER NOT NULL REFERENCES releases(id), PRIMARY KEY (query, family, release)) STRICT, WITHOUT ROWID;
"""
_VERSION = "1"


@dataclass(frozen=True)
class Answer:
    """One stored answer: a label index or ABSTAIN, the noisy counts if those were released, and its release.

    Examples
    --------
    >>> Answer(label=3, noisy_counts=None, release=1).label
    3
    """

    label: int
    noisy_counts: tuple[float, ...] | None
    release: int


@dataclass(frozen=True)
class LedgerRow:
    """One release as the ledger holds it; every field is public.

    Examples
    --------
    >>> LedgerRow(1, "2026-01-01T00:00:00+00:00", "GNMax(sigma=40.0)", 10, Charge.zero(), {}).id
    1
    """

    id: int
    created: str
    mechanism: str
    n_queries: int
    charge: Charge
    facts: dict[str, Any]


class Ledger:
    """Releases against one private data set, and the total they may cost.

    Parameters
    ----------
    path : str or path
        The SQLite file; created (readable by its owner only) when absent.
    total : Budget or None
        The budget of all releases together. None takes what the file says, or the first release's budget.

    Guarantees
    ----------
    The charges may be chosen adaptively, so the ledger stops on one fixed quantity: the sum of mu^2 never exceeds
    the largest mu^2 within the total (a fully adaptive filter for Gaussian differential privacy, Smith and Thakurta
    2022; pure mechanisms enter by their dominating mu and a noisy argmax by its counts' mu, so Laplace noise and
    GNMax buy less with a ledger than by RDP in a single release: calibrate with ``ledger=``). All releases together
    then satisfy the total budget.
    Check, charge and labels are one transaction with ``synchronous=FULL``: committed before anything is returned.

    Raises
    ------
    LedgerError
        The file cannot be opened, is not a ledger, or was opened before with another total.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
    >>> ledger.record(Charge.gaussian(sensitivity=2**0.5, sigma=40.0) * 20, mechanism="GNMax(sigma=40.0)", n_queries=20)
    1
    >>> ledger.used_fraction < 1, len(ledger.releases())
    (True, 1)
    """

    def __init__(self, path: str | os.PathLike[str], *, total: Budget | None = None) -> None:
        self.path = Path(path)
        if total is not None:
            self.open_total(total)
        elif self.path.exists():
            with self._connection():
                pass

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    @contextmanager
    def _connection(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            if not write and not self.path.exists():
                # Looking must not leave a file behind.
                connection = sqlite3.connect(":memory:", isolation_level=None)
            elif not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = connection or sqlite3.connect(self.path, timeout=30, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"the ledger {str(self.path)!r} cannot be opened: {error}.") from error
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            self._check_ours(connection)
            # IMMEDIATE takes the write lock first: nobody can spend between our check and our charge.
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            if write:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (_VERSION,))
            found = connection.execute("SELECT name FROM sqlite_master WHERE name='meta'").fetchone()
            if found:
                version = connection.execute("SELECT value FROM meta WHERE key='version'").fetchone()
                if version is None or version[0] != _VERSION:
                    raise LedgerError(f"{str(self.path)!r} is a ledger of another version. Use the pate that wrote it.")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {str(self.path)!r} failed: {error}. Nothing was charged; check the file and the disk."
            ) from error
        finally:
            # Closing rolls back whatever was not committed.
            connection.close()

    def _check_ours(self, connection: sqlite3.Connection) -> None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        if tables and not {"meta", "releases", "answers"} <= tables:
            raise LedgerError(f"{str(self.path)!r} is another program's SQLite file. Name a new file for the ledger.")

    @staticmethod
    def _read_total(connection: sqlite3.Connection) -> Budget | None:
        if not connection.execute("SELECT name FROM sqlite_master WHERE name='meta'").fetchone():
            return None
        row = connection.execute("SELECT value FROM meta WHERE key='total'").fetchone()
        return None if row is None else Budget(**json.loads(row[0]))

    @property
    def total(self) -> Budget | None:
        """The budget of all releases together; None before the first."""
        with self._connection() as connection:
            return self._read_total(connection)

    def check_binding(self, binding: dict[str, Any]) -> None:
        """Refuse when the ledger's releases are of other facts than these, such as another unit or other classes.

        Raises
        ------
        LedgerError
            They differ: answers of the one may not be given for the other.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite")
        >>> ledger.open_total(Budget(1.0, 1e-5), binding={"unit": "record"})
        >>> ledger.check_binding({"unit": "group"})
        Traceback (most recent call last):
        pate.exceptions.LedgerError: the ledger ... is for unit='record', not 'group'. ...
        """
        with self._connection() as connection:
            self._check_binding(connection, binding)

    def _check_binding(self, connection: sqlite3.Connection, binding: dict[str, Any]) -> None:
        if not connection.execute("SELECT name FROM sqlite_master WHERE name='meta'").fetchone():
            return
        row = connection.execute("SELECT value FROM meta WHERE key='binding'").fetchone()
        held = {} if row is None else json.loads(row[0])
        for name, value in binding.items():
            if name in held and held[name] != value:
                raise LedgerError(
                    f"the ledger {str(self.path)!r} is for {name}={held[name]!r}, not {value!r}. One ledger belongs to "
                    "one private data set, one unit and one list of classes in one order."
                )

    def open_total(self, total: Budget, *, binding: dict[str, Any] | None = None) -> None:
        """Fix the total budget and what the ledger is for; neither can be changed later.

        Parameters
        ----------
        total : Budget
        binding : dict or None
            Public facts every release must share, JSON.

        Raises
        ------
        LedgerError
            The file holds another total.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite"
        >>> Ledger(path, total=Budget(1.0, 1e-5)).open_total(Budget(2.0, 1e-5))
        Traceback (most recent call last):
        pate.exceptions.LedgerError: ... holds a total budget of Budget(epsilon=1.0, delta=1e-05), not ...
        """
        with self._connection(write=True) as connection:
            held = self._read_total(connection)
            if held is not None and held != total:
                raise LedgerError(
                    f"the ledger {str(self.path)!r} holds a total budget of {held}, not {total}. "
                    "A total is fixed at the first release: raising it later would break the promise made then."
                )
            if held is None:
                text = json.dumps({"epsilon": total.epsilon, "delta": total.delta})
                connection.execute("INSERT INTO meta VALUES ('total', ?)", (text,))
            self._check_binding(connection, binding or {})
            if binding:
                connection.execute("INSERT OR IGNORE INTO meta VALUES ('binding', ?)", (json.dumps(binding),))

    @staticmethod
    def _spent(connection: sqlite3.Connection) -> float:
        if not connection.execute("SELECT name FROM sqlite_master WHERE name='releases'").fetchone():
            return 0.0
        return math.fsum(v for (v,) in connection.execute("SELECT mu_squared FROM releases"))

    @property
    def spent_mu_squared(self) -> float:
        """Sum of mu^2 of all releases."""
        with self._connection() as connection:
            return self._spent(connection)

    @property
    def used_fraction(self) -> float:
        """Share of the total's mu^2 that is spent, 0 to 1."""
        with self._connection() as connection:
            total = self._read_total(connection)
            return 0.0 if total is None else self._spent(connection) / total.mu_squared

    def allows(self, charge: Charge, *, default_total: Budget | None = None) -> bool:
        """Return whether the charge would fit now (another process may be quicker).

        ``default_total`` stands in while the ledger has no total yet.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> ledger.allows(Charge.gaussian(sensitivity=2**0.5, sigma=1.0))
        False
        """
        with self._connection() as connection:
            total = self._read_total(connection) or default_total
            return total is None or self._spent(connection) + charge.mu_squared <= total.mu_squared

    def record(
        self,
        charge: Charge,
        *,
        mechanism: str,
        n_queries: int,
        answers: Sequence[tuple[str, str, int, Sequence[float] | None]] = (),
        facts: dict[str, Any] | None = None,
    ) -> int:
        """Charge a release and store its answers, atomically and durably.

        Parameters
        ----------
        charge : Charge
            The worst case, fixed before sampling.
        mechanism : str
        n_queries : int
        answers : sequence of (query hash, family, label, noisy counts or None)
        facts : dict or None
            Further public facts, JSON.

        Returns
        -------
        int
            The release's number.

        Raises
        ------
        BudgetExceededError
            The total would be exceeded; nothing is stored.
        LedgerError
            The file failed; nothing is stored.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> ledger.record(Charge.gaussian(sensitivity=2**0.5, sigma=1.0), mechanism="GNMax(sigma=1.0)", n_queries=1)
        Traceback (most recent call last):
        pate.exceptions.BudgetExceededError: the ledger's total budget ... does not allow this release...
        """
        with self._connection(write=True) as connection:
            total = self._read_total(connection)
            if total is None:
                raise LedgerError(f"the ledger {str(self.path)!r} has no total budget yet. Call open_total first.")
            if self._spent(connection) + charge.mu_squared > total.mu_squared:
                raise BudgetExceededError(
                    f"the ledger's total budget {total} does not allow this release of {n_queries} queries by "
                    f"{mechanism}. Ask fewer queries or use more noise; nothing was charged."
                )
            cost = json.dumps({"rdp": charge.rdp, "pure": charge.pure if math.isfinite(charge.pure) else None})
            created = datetime.now(UTC).isoformat(timespec="seconds")
            number = connection.execute(
                "INSERT INTO releases (created, mechanism, n_queries, mu_squared, charge, facts) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (created, mechanism, n_queries, charge.mu_squared, cost, json.dumps(facts or {})),
            ).lastrowid
            connection.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?)",
                (
                    (
                        q,
                        f,
                        int(label),
                        None if noisy is None else json.dumps([float(v) for v in noisy]),
                        number,
                    )
                    for q, f, label, noisy in answers
                ),
            )
        assert number is not None
        return number

    def stored(self, queries: Sequence[str], family: str) -> dict[str, Answer]:
        """Return the first stored answer of queries asked before: free, since it is post-processing.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> _ = ledger.record(Charge.zero(), mechanism="m", n_queries=1, answers=[("ab12", "gnmax", 7, None)])
        >>> ledger.stored(["ab12", "cd34"], "gnmax")["ab12"].label
        7
        """
        found: dict[str, Answer] = {}
        with self._connection() as connection:
            if not connection.execute("SELECT name FROM sqlite_master WHERE name='answers'").fetchone():
                return found
            for start in range(0, len(queries), 500):
                block = list(queries[start : start + 500])
                marks = ",".join("?" * len(block))
                rows = connection.execute(
                    "SELECT query, label, noisy_counts, release FROM answers "
                    f"WHERE family = ? AND query IN ({marks}) ORDER BY release DESC",
                    (family, *block),
                )
                for query, label, noisy, release in rows:
                    found[query] = Answer(label, None if noisy is None else tuple(json.loads(noisy)), release)
        return found

    def has_request(self, request: str) -> bool:
        """Return whether a release was made for this very request (see :func:`pate.release_labels`).

        Examples
        --------
        >>> import tempfile, pathlib
        >>> Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite").has_request("ab12")
        False
        """
        return any(row.facts.get("request") == request for row in self.releases())

    def releases(self) -> list[LedgerRow]:
        """Return every release, oldest first.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite").releases()
        []
        """
        if not self.path.exists():
            return []
        with self._connection() as connection:
            if not connection.execute("SELECT name FROM sqlite_master WHERE name='releases'").fetchone():
                return []
            rows = connection.execute(
                "SELECT id, created, mechanism, n_queries, mu_squared, charge, facts FROM releases ORDER BY id"
            ).fetchall()
        result = []
        for number, created, mechanism, n_queries, mu_squared, cost, facts in rows:
            parts = json.loads(cost)
            pure = math.inf if parts["pure"] is None else parts["pure"]
            charge = Charge(mu_squared, tuple(parts["rdp"]), pure)
            result.append(LedgerRow(number, created, mechanism, n_queries, charge, json.loads(facts)))
        return result
