"""Checking a whole ledger, from the file's pages to the last answer."""

from __future__ import annotations

import csv
import hmac
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pate._core.files import atomic_path
from pate._core.frames import guarded_cell
from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger._chain import (
    COLUMNS,
    START,
    AnswerHasher,
    Entry,
    canonical,
    mac,
    pack_query,
    read_key,
    unpack_counts,
    unpack_query,
)
from pate.ledger._entries import (
    charge_of,
    decode,
    is_sealed,
    last,
    most_answers,
    opening_of,
    plain,
    read_registration,
    terms_of,
)
from pate.ledger._files import Bound, FileCheck, Thing, compared, signature
from pate.ledger._rows import Verification
from pate.ledger._store import DamagedLedgerError, transaction
from pate.privacy.compose.accounting_unit import Opening

# Every answer that was paid for, as a table.

_COLUMNS = ("release", "created", "mechanism", "family", "query", "status", "label", "class", "noisy_counts")


def write_answers(
    connection: sqlite3.Connection,
    path: str | os.PathLike[str],
    classes: list[Any],
    *,
    ledger: Path,
    raw_csv: bool,
) -> int:
    """Write all answers; see :meth:`pate.Ledger.export`."""
    goal = Path(path)
    if goal.suffix not in (".csv", ".jsonl"):
        raise InvalidInputError(
            f"answers are written to a file that ends in .csv or .jsonl, got {str(goal)!r}. Rename it."
        )
    if goal.exists():
        raise InvalidInputError(f"{str(goal)!r} exists. Answers are written to a new file: name another one.")
    n = 0
    try:
        with atomic_path(goal) as part, open(part, "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            if goal.suffix == ".csv":
                table.writerow(_COLUMNS)
            with plain(ledger):
                for row in _rows(connection, classes, ledger):
                    n += 1
                    if goal.suffix == ".jsonl":
                        file.write(json.dumps(dict(zip(_COLUMNS, row, strict=True))) + "\n")
                        continue
                    counts = None if row[-1] is None else json.dumps(row[-1])
                    table.writerow([v if raw_csv else guarded_cell(v) for v in (*row[:-1], counts)])
    except OSError as error:
        raise LedgerError(
            f"the labels could not be written to {str(goal)!r}: {error.strerror or error}. No file was made; what was "
            "paid for is in the ledger."
        ) from error
    return n


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
        counts, value = unpack_counts(noisy), classes[label] if 0 <= label < len(classes) else None
        noted = ("answered", label, value) if label >= 0 else ("refused", None, value)
        status = ("ballots", None, None) if family == "gaussian-sum" else noted
        key = unpack_query(query)
        yield release, created, mechanism, family, key, *status, None if counts is None else list(counts)


#: So many problems are named; the rest is counted.
_NAMED = 20


def verify_ledger(
    path: str | os.PathLike[str], *, head: str | None = None, files: Iterable[Thing] = (), timeout: float = 30.0
) -> Verification:
    """Check a ledger's file, however damaged, and files that were released from it; return the problems found.

    Parameters
    ----------
    path : path
    head : str or None
        A head noted earlier, elsewhere.
    files : iterable of paths, or of statements' JSON objects (``statement.to_dict()``)
        See :meth:`pate.Ledger.verify`.
    timeout : float
        Seconds to wait while another process holds the file.

    Raises
    ------
    LedgerError
        There is no such ledger, or it is locked.
    InvalidInputError
        One of the files cannot be read.

    Examples
    --------
    >>> verify_ledger("no-such.sqlite")
    Traceback (most recent call last):
    pate.exceptions.LedgerError: there is no ledger at 'no-such.sqlite'. Name the file that Ledger(path) made.
    """
    path = Path(path)
    check = _Check(path, head)
    try:
        with transaction(path, write=False, timeout=timeout) as connection:
            if last(connection) is None:
                raise LedgerError(f"there is no ledger at {str(path)!r}. Name the file that Ledger(path) made.")
            check.run(connection)
    except DamagedLedgerError as error:
        check.problems.append(str(error))
    with suppress(OSError):
        if path.stat().st_mode & 0o077:
            check.notes.append("others than its owner may read or write the file (chmod 600)")
    looked_at = tuple(check.look_at(file) for file in files)
    of = sorted({one.release for one in looked_at if one.ok and one.release is not None})
    if len(of) > 1:
        check.notes.append(f"the files are of several releases: {', '.join(map(str, of))}")
    more = len(check.problems) - _NAMED
    named = (*check.problems[:_NAMED], *([f"and {more} more"] if more > 0 else []))
    sizes = (check.n_entries, check.n_releases, check.n_answers)
    return Verification(named, tuple(check.notes), *sizes, check.previous, looked_at)


def _checked(noted: Any) -> dict[str, Any]:
    """Return what is said of one file, of the types it was written with."""
    found = {name: noted[name] for name in ("name", "object", "parts", "sha256")}
    texts = [found["name"], *found["parts"].values()]
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(found[name], str | None) for name in ("object", "sha256")
    ):
        raise TypeError("digests of another kind")
    return found


class _Check:
    """One pass over the entries and their answers, in order; nothing is kept but sums."""

    def __init__(self, path: Path, head: str | None) -> None:
        self._path = path
        self._head = head
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.n_entries = self.n_releases = self.n_answers = 0
        self.previous = START
        self._opening: Opening | None = None
        self._prices: list[float] = []
        self._failures: list[float] = []
        #: Open-ended releases, and how many answers each may still get (None: any number).
        self._open_ended: dict[int, int | None] = {}
        self._clock = ""
        self._key: bytes | None = None
        self._bound: list[Bound] = []
        #: What the last registration says of the key; after a key was lost and the records revised it is another one.
        self._key_check: str | None = None
        #: Up to these entries the chain is known to be its own: by its key, and by the noted head.
        self._by_key = self._by_head = -1

    def look_at(self, file: Thing) -> FileCheck:
        """Return whether a file is as released, by the entries that were read."""
        found = compared(file, self._bound, self._is_proved, self.n_releases)
        if found.status != "changed" and self.problems:
            return FileCheck(found.file, "unknown", "the ledger itself is not verified", found.release)
        return found

    def _is_proved(self, one: Bound) -> bool:
        return one.entry <= self._by_head or (one.signed and one.entry <= self._by_key)

    def run(self, connection: sqlite3.Connection) -> None:
        for (line,) in connection.execute("PRAGMA integrity_check(5)"):
            if line != "ok":
                self.problems.append(f"the file is damaged: {line}")
        if self.problems:
            return
        with suppress(LedgerError):  # said when the key is compared
            self._key = read_key(self._path, make=False)
        seen = self._head is None
        for row in connection.execute(f"SELECT {COLUMNS} FROM entries ORDER BY seq"):
            entry, digest = Entry(*row[:-1]), row[-1]
            name = f"entry {entry.seq}"
            if entry.seq != self.n_entries:
                self.problems.append(f"entries {self.n_entries} to {entry.seq - 1} are missing")
                self.n_entries = entry.seq
            if entry.previous != self.previous:
                self.problems.append(f"{name} does not follow the entry before it: one was changed, moved or put in")
            try:
                if entry.digest != digest:
                    self.problems.append(f"{name} was changed")
                self._look(connection, entry, name)
            except (
                LedgerError,
                ValueError,
                TypeError,
                LookupError,
                AttributeError,
                ArithmeticError,
                RecursionError,
            ) as error:
                self.problems.append(f"{name} holds something that pate did not write ({type(error).__name__})")
            self.previous = digest
            self.n_entries += 1
            if digest == self._head:
                seen, self._by_head = True, entry.seq
        self._finish(connection, seen)

    def _look(self, connection: sqlite3.Connection, entry: Entry, name: str) -> None:
        if (entry.seq == 0) != (entry.kind == "opened"):
            self.problems.append(f"{name} is no place for an entry of kind {entry.kind!r}")
        body = decode(entry.body, self._path)
        if canonical(body) != entry.body:
            self.problems.append(f"{name} is not in canonical form")
        if entry.created < self._clock:
            self.notes.append(f"the clock went back before {name}; entries are in the order of their numbers")
        self._clock = max(self._clock, entry.created)
        if entry.seq == 0:
            self._opening = opening_of(body)
        if entry.kind == "registered":
            self._key_check = body["key_check"] or self._key_check
        if entry.kind == "terms":
            self._look_at_terms(body, name)
        if entry.kind == "release":
            self._look_at_release(entry, body, name)
        if entry.kind == "answers" and "bound" in body:
            self._look_at_files(entry, body, name)
        elif entry.kind == "answers" and entry.release not in self._open_ended:
            self.problems.append(f"{name} adds answers to release {entry.release}, which was not left open")
        n_answers = self._look_at_answers(connection, entry, name)
        left = None if entry.release is None else self._open_ended.get(entry.release)
        if left is not None and entry.release is not None:
            self._open_ended[entry.release] = left = left - n_answers
            if left < 0:
                self.problems.append(f"{name} gives release {entry.release} more answers than it was charged for")

    def _look_at_files(self, entry: Entry, body: dict[str, Any], name: str) -> None:
        """Take up what an entry says of files, if it was written with the key."""
        noted = body["bound"]
        if entry.release is None or not 1 <= entry.release <= self.n_releases or entry.n_answers:
            self.problems.append(f"{name} says of files what no release has let out")
        signed = False
        if self._key is not None:
            expected = signature(self._key, noted, entry.release or 0, entry.created, entry.previous)
            signed = hmac.compare_digest(expected, str(body["mac"]))
            if signed:
                self._by_key = entry.seq
            elif self._key_check in (None, mac(self._key, "key", "")[:16]):
                self.problems.append(f"what {name} says of files was not written with the key beside the ledger")
                return
            else:  # one was lost, and Ledger.revise called: what it signed only a noted head proves
                self.notes.append(
                    f"what {name} says of files was signed with another key than the one beside the ledger"
                )
        self._bound += [Bound(entry.release or 0, entry.created, entry.seq, _checked(one), signed) for one in noted]

    def _look_at_release(self, entry: Entry, body: dict[str, Any], name: str) -> None:
        self.n_releases += 1
        if entry.release != self.n_releases:
            self.problems.append(f"{name} is numbered release {entry.release}, not {self.n_releases}")
        if body["open_ended"] is True:
            self._open_ended[self.n_releases] = most_answers(body, self._path)
        assert entry.price is not None  # a CHECK of the table
        assert entry.failure is not None
        self._prices.append(entry.price)
        self._failures.append(entry.failure)
        cost = charge_of(body)
        terms = None if self._opening is None else self._opening.terms
        if terms is None:
            self.problems.append(f"{name} (release {entry.release}) was charged before the currency was fixed")
            return
        # As it was computed then: another version may compute another last digit.
        if not math.isclose(entry.price, terms.currency.price(cost), rel_tol=1e-9) or entry.failure != cost.delta0:
            self.problems.append(f"{name} (release {entry.release}) has another price than its cost")
        if math.fsum((*self._prices, -terms.limit)) > 0:
            self.problems.append(f"{name} (release {entry.release}) is beyond the total budget {terms.total}")
        if math.fsum((*self._failures, -terms.failure_delta)) > 0:
            self.problems.append(f"{name} (release {entry.release}) may fail more than was set aside")

    def _look_at_terms(self, body: dict[str, Any], name: str) -> None:
        """See that the currency was fixed once, before the first charge, as it was asked for and with its own limit."""
        held = self._opening
        if held is None:
            return
        self._opening = replace(held, terms=terms_of(body, held.total))
        if held.terms is not None or self._prices:
            self.problems.append(f"{name} fixes the currency again, or after the first charge")
        if self._opening.conflict(held.asked, held.failure_delta):
            self.problems.append(f"{name} fixes another currency, or share of delta, than the ledger was opened with")

    def _look_at_answers(self, connection: sqlite3.Connection, entry: Entry, name: str) -> int:
        hasher = AnswerHasher()
        rows = connection.execute(
            "SELECT position, query, family, label, noisy FROM answers WHERE entry = ? ORDER BY position", (entry.seq,)
        )
        in_place = as_stored = True
        for position, query, family, label, noisy in rows:
            in_place = in_place and position == hasher.n
            text = unpack_query(query)
            # The digest is of the text: the same query kept as another type would never be found again, and paid twice.
            as_stored = as_stored and pack_query(text) == query
            hasher.add(text, family, label, noisy)
        self.n_answers += hasher.n
        if hasher.n != entry.n_answers or not in_place:
            self.problems.append(f"{name} should have {entry.n_answers} answers and has {hasher.n}, or others")
        elif hasher.digest != entry.answers:
            self.problems.append(f"answers of {name} were changed or reordered")
        if not as_stored:
            self.problems.append(f"queries of {name} are not stored as pate stores them")
        return hasher.n

    def _finish(self, connection: sqlite3.Connection, seen: bool) -> None:
        (stored,) = connection.execute("SELECT COUNT(*) FROM answers").fetchone()
        if stored != self.n_answers:
            self.problems.append(f"{stored - self.n_answers} answers belong to no entry")
        extra = connection.execute("SELECT COUNT(*) FROM meta WHERE key NOT IN ('format', 'seal')").fetchone()[0]
        if extra:
            self.problems.append(f"table meta has {extra} rows that pate did not write")
        self._look_at_key(connection)
        sealed = False
        with suppress(LedgerError):
            sealed = is_sealed(connection, self._path)
        if not sealed:
            self.problems.append("the end is not the sealed one: entries were changed, taken away or added")
        if not seen:
            self.problems.append("the noted head is not in the chain: entries were taken back, or the chain rewritten")

    def _look_at_key(self, connection: sqlite3.Connection) -> None:
        """Compare the key beside the ledger with the one of its registration."""
        try:
            held = read_registration(connection, self._path)
            expected = None if held is None else held["key_check"]
            if expected is None:
                return
            key = read_key(self._path, make=False)
        except LedgerError as error:
            self.problems.append(str(error))
            return
        if key is None:
            # A copy sent to a person who checks it has none, and should not.
            self.notes.append("the key file is not beside the ledger: here the private records cannot be recognised")
        elif mac(key, "key", "")[:16] != expected:
            self.problems.append("the key file beside the ledger is not the one of its registration")
