"""What may be asked of a ledger; nothing here writes."""

from __future__ import annotations

import hmac
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pate.exceptions import CuratorWarning, LedgerError
from pate.ledger import _entries
from pate.ledger._chain import mac, pack_query, read_key, unpack_counts, unpack_query
from pate.ledger._files import BINDS, Thing
from pate.ledger._registration import SENSITIVE_KEYS, macs, overlap, sealed
from pate.ledger._rows import Answer, LedgerRow, Registration, Remaining, Verification
from pate.ledger._store import transaction
from pate.ledger._verify import verify_ledger, write_answers
from pate.privacy.budget import Budget
from pate.privacy.compose.currency import Opening
from pate.privacy.cost import Charge


class LedgerLooks:
    """The half of a :class:`pate.Ledger` that reads."""

    path: Path
    timeout: float
    #: What to open the ledger with, where it is not open yet.
    _asked: str | None
    _failure_delta: float | None
    #: The records that were last compared with the ledger's, with all that is known of them.
    _checked: Registration | None = None

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection | None]:
        with transaction(self.path, write=False, timeout=self.timeout) as connection:
            yield connection

    @property
    def total(self) -> Budget | None:
        """The budget of all releases together; None before the first."""
        with self._read() as connection:
            opening = None if connection is None else _entries.read_opening(connection, self.path)
        return None if opening is None else opening.total

    @property
    def registration(self) -> dict[str, Any] | None:
        """The public facts of the private data set, and whether it is recognised; None before the first release."""
        with self._read() as connection:
            held = None if connection is None else _entries.read_registration(connection, self.path)
        if held is None:
            return None
        return {
            **{k: v for k, v in held.items() if k not in SENSITIVE_KEYS},
            "fingerprinted": held["fingerprint"] is not None,
        }

    def recognises(self, fingerprint: str) -> bool:
        """Return whether the private records of this fingerprint are the ones this ledger is for.

        In whatever order they come. False where it does not say: no data set is registered, none with a fingerprint, or
        the key file is gone.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Ledger
        >>> from pate.ledger import Registration
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> ledger.register(Registration("record", ("no", "yes"), fingerprint="0123abcd"))
        >>> ledger.recognises("0123abcd"), ledger.recognises("4567cdef")
        (True, False)
        """
        with self._read() as connection:
            held = None if connection is None else _entries.read_registration(connection, self.path)
        key = None if held is None or held.get("fingerprint") is None else read_key(self.path, make=False)
        if held is None or key is None:
            return False
        known = [(held.get(name), value) for name, value in macs(key, fingerprint).items()]
        return any(a is not None and b is not None and hmac.compare_digest(str(a), b) for a, b in known)

    @property
    def has_sketch(self) -> bool:
        """Whether the ledger can say of other data sets how far they are of the same people, see :meth:`overlap`."""
        with self._read() as connection:
            held = None if connection is None else _entries.read_registration(connection, self.path)
        return held is not None and held.get("sketch") is not None

    def overlap(self, data: Registration) -> float:
        """Return an estimate of how far another data set is of the same people (or records): **sensitive**, 0 to 1.

        Of that of the two whose larger share stands in the other, that share. 0 where it does not say, see
        :meth:`recognises`.

        Parameters
        ----------
        data : Registration
            With a ``sketch``, see :func:`pate.data.recognised_by`.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Ledger
        >>> from pate.ledger import Registration
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> rows = tuple(f"{i:032}" for i in range(50))
        >>> ledger.register(Registration("record", ("no", "yes"), fingerprint="0123abcd", sketch=(rows, ())))
        >>> ledger.overlap(Registration("record", ("no", "yes"), fingerprint="4567cdef", sketch=(rows[1:], ())))
        1.0
        """
        with self._read() as connection:
            held = None if connection is None else _entries.read_registration(connection, self.path)
        sketch = None if held is None else held.get("sketch")
        key = None if sketch is None or not any(data.sketch or ()) else read_key(self.path, make=False)
        if sketch is None or key is None or data.sketch is None:
            return 0.0
        with _entries.plain(self.path):
            return overlap(key, sketch, data.sketch)

    def warn_of_other_features(self, releases: Iterable[int]) -> None:
        """Tell the curator where these releases were made from other features than the records last checked.

        Labels and owners were the same, or the ledger was revised: see :meth:`pate.Ledger.check`.

        Warns
        -----
        CuratorWarning

        Examples
        --------
        >>> import tempfile, pathlib, warnings
        >>> from pate import Budget, Charge, Ledger
        >>> from pate.ledger import Registration
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> for contents in ("0123", "4567"):
        ...     data = Registration("record", ("no", "yes"), fingerprint="0123abcd", contents=contents)
        ...     ledger.check(data)
        ...     n = ledger.record(Charge.zero(), mechanism="m", n_queries=1, registration=data)
        >>> ledger.warn_of_other_features([2])
        >>> with warnings.catch_warnings(record=True, action="always") as told:
        ...     ledger.warn_of_other_features([1, 2])
        >>> str(told[0].message)[:75]
        'the private features are not those that release 1 of the ledger was made fr'
        """
        contents = None if self._checked is None else self._checked.contents
        key = None if contents is None else read_key(self.path, make=False)
        if contents is None or key is None:
            return
        found = []
        for row in self.releases(releases):
            with _entries.plain(self.path):
                held = row.contents
                if held is not None and held != sealed(key, "contents", [contents], held["salt"]):
                    found.append(str(row.id))
        if found:
            warnings.warn(
                f"the private features are not those that release {', '.join(found)} of the ledger was made from. What "
                "it released is given again, and the changed records were not used for it: a question is answered "
                "once. For labels by the records as they are now ask another one (another epsilon or mechanism, say), "
                "which is charged; where people were added or labels corrected, after Ledger.revise (pate ledger "
                "revise). "
                "(Whether records changed is private: do not publish it.)",
                CuratorWarning,
                stacklevel=3,
            )

    def holds(self, head: str) -> bool:
        """Return whether a head noted earlier is in the chain; see :meth:`verify`, which also checks the chain.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> ledger.holds(ledger.head), ledger.holds("ab" * 32)
        (True, False)
        """
        with self._read() as connection:
            return connection is not None and bool(
                connection.execute("SELECT 1 FROM entries WHERE digest = ?", (head,)).fetchone()
            )

    def remaining(self, *, default_total: Budget | None = None) -> Remaining:
        """Return what the total still allows now (another process may be quicker).

        ``default_total`` stands in while the ledger has no total yet.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> ledger.remaining().fraction_left
        1.0
        """
        with self._read() as connection:
            opening = None if connection is None else _entries.read_opening(connection, self.path)
            if connection is not None and opening is not None:
                return Remaining(opening, *_entries.read_costs(connection, self.path))
        if default_total is None:
            return Remaining(None)
        return Remaining(Opening(default_total, self._asked, self._failure_delta, None))

    @property
    def currency(self) -> str | None:
        """What the ledger counts in: "gdp", "renyi:ORDER" or "pure"; None where the first charge decides."""
        return self.remaining().currency or self._asked

    @property
    def spent(self) -> float:
        """Sum of the prices of all releases, in the ledger's currency."""
        return self.remaining().spent

    @property
    def used_fraction(self) -> float:
        """Share of the limit that is spent, 0 to 1. It is no epsilon and converts to none."""
        left = self.remaining()
        return 0.0 if left.terms is None else left.spent / left.terms.limit

    def allows(self, cost: Charge, *, default_total: Budget | None = None) -> bool:
        """Return whether the cost would fit now (another process may be quicker).

        ``default_total`` stands in while the ledger has no total yet.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> ledger.allows(Charge.gaussian(sensitivity=2**0.5, sigma=1.0))
        False
        """
        return self.remaining(default_total=default_total).allows(cost)

    def stored(self, queries: Sequence[str], family: str, *, release: int | None = None) -> dict[str, Answer]:
        """Return the first stored answer of queries asked before: free, since it is post-processing.

        ``release`` takes those of one release alone.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> _ = ledger.record(Charge.zero(), mechanism="m", n_queries=1, answers=[("ab12", "gnmax", 7, None)])
        >>> ledger.stored(["ab12", "cd34"], "gnmax")["ab12"].label
        7
        """
        found: dict[str, Answer] = {}
        with self._read() as connection:
            if connection is None or not connection.execute("SELECT 1 FROM answers LIMIT 1").fetchone():
                return found
            for start in range(0, len(queries), 500):
                block = [pack_query(q) for q in queries[start : start + 500]]
                marks = ",".join("?" * len(block))
                rows = connection.execute(
                    "SELECT a.query, a.label, a.noisy, e.release FROM answers a JOIN entries e ON e.seq = a.entry "
                    f"WHERE a.query IN ({marks}) AND a.family = ? AND (? IS NULL OR e.release = ?) "
                    "ORDER BY a.entry DESC, a.position DESC",
                    (*block, family, release, release),
                )
                with _entries.plain(self.path):
                    for query, label, noisy, number in rows:
                        found[unpack_query(query)] = Answer(label, unpack_counts(noisy), number)
        return found

    def has_request(self, request: str) -> bool:
        """Return whether a release was made for this very request (see :func:`pate.release_labels`).

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite").has_request("ab12")
        False
        """
        return self._release_of(request) is not None

    def find(self, request: str) -> LedgerRow | None:
        """Return the release that was made under this request's digest, with its facts; None if there is none.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> _ = ledger.record(Charge.zero(), mechanism="m", n_queries=1, request="ab12", facts={"value": 3.5})
        >>> ledger.find("ab12").facts["value"], ledger.find("cd34")
        (3.5, None)
        """
        number = self._release_of(request)
        return None if number is None else self.releases([number])[0]

    def _release_of(self, request: str) -> int | None:
        with self._read() as connection:
            if connection is None:
                return None
            query = "SELECT release FROM entries WHERE request = ? ORDER BY seq LIMIT 1"
            row = connection.execute(query, (request,)).fetchone()
        return None if row is None else row[0]

    def keyed_digest(self, text: str) -> str:
        """Return HMAC-SHA256 of a private text under the key beside the ledger: it can be recognised, not guessed.

        Raises
        ------
        LedgerError
            There is no key: nothing was registered or released yet.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Ledger
        >>> Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5)).keyed_digest("votes")
        Traceback (most recent call last):
        pate.exceptions.LedgerError: the ledger ... has no key yet. Register the data set first.
        """
        key = read_key(self.path, make=False)
        if key is None:
            raise LedgerError(f"the ledger {str(self.path)!r} has no key yet. Register the data set first.")
        return mac(key, "digest", text)

    def releases(self, ids: Iterable[int] | None = None) -> list[LedgerRow]:
        """Return every release, or those of the given numbers, oldest first.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite").releases()
        []
        """
        with self._read() as connection:
            return [] if connection is None else list(_entries.read_releases(connection, self.path, ids))

    def show(self) -> list[dict[str, Any]]:
        """Return one tidy row per release: what it paid for, how much, and when; all public.

        ``price`` is in the ledger's currency and ``share`` its part of the limit: these add up. ``epsilon`` is each
        release's own at the total's delta, and adds up to nothing.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> _ = ledger.record(Charge.zero(), mechanism="GNMax(sigma=40.0)", n_queries=3)
        >>> row = ledger.show()[0]
        >>> row["kind"], row["mechanism"], row["epsilon"], row["currency"]
        ('labels', 'GNMax(sigma=40.0)', 0.0, 'gdp')
        """
        left = self.remaining()
        if left.total is None or left.terms is None:
            return []
        delta, terms = left.total.delta, left.terms
        with self._read() as connection:
            assert connection is not None
            rows = list(_entries.read_releases(connection, self.path, None))
            later = dict(
                connection.execute(
                    "SELECT release, SUM(n_answers) FROM entries WHERE kind = 'answers' GROUP BY release"
                )
            )
        return [
            {
                "release": row.id,
                "created": row.created,
                "kind": row.kind,
                "mechanism": row.mechanism,
                "n_queries": row.n_queries,
                "n_answers": row.n_answers + later.get(row.id, 0),
                "epsilon": row.charge.guarantee(delta).epsilon,
                "currency": terms.currency.name,
                "price": row.price,
                "share": row.price / terms.limit,
                "failure": row.failure,
                "seeded": row.seeded,
                "version": row.version,
                "digest": row.digest,
            }
            for row in rows
        ]

    def export(self, path: str | os.PathLike[str], *, escape_formulas: bool = False) -> int:
        """Write every answer that was ever paid for, refused queries too; the file is whole or absent.

        Of records that voted these are the noisy sums of their ballots (status "ballots"): that is what was released.
        Labels follow from them and the public rows, which a ledger does not have; they stand in the files written then.

        Parameters
        ----------
        path : path
            Ends in ``.csv`` or ``.jsonl``. An existing file is not overwritten.
        escape_formulas : bool
            Put an apostrophe before CSV texts that a spreadsheet would run as a formula.

        Returns
        -------
        int
            Number of answers written.

        Raises
        ------
        InvalidInputError
            Another ending, or the file exists.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> ledger = Ledger(folder / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> _ = ledger.record(Charge.zero(), mechanism="m", n_queries=1, answers=[("ab12", "gnmax", 7, None)])
        >>> ledger.export(folder / "labels.jsonl")
        1
        """
        with self._read() as connection:
            held = None if connection is None else _entries.read_registration(connection, self.path)
            classes = [] if held is None else list(held["classes"])
            return write_answers(connection, path, classes, ledger=self.path, escape_formulas=escape_formulas)

    def n_answers(self, release: int) -> int:
        """Return how many answers a release holds, those added later too.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> answers = [("ab12", "gnmax", 7, None)]
        >>> ledger.n_answers(ledger.record(Charge.zero(), mechanism="m", n_queries=1, answers=answers))
        1
        """
        with self._read() as connection:
            return 0 if connection is None else _entries.n_answers(connection, release)

    def head_of(self, releases: Iterable[int]) -> str:
        """Return the digest of the last entry of these releases, answers added later included; "" if there is none.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> run = ledger.record(Charge.zero(), mechanism="m", n_queries=1, open_ended=True)
        >>> ledger.head_of([run]) == ledger.head, ledger.add_answers(run, [("q", "gnmax", 7, None)]) == ledger.head
        (True, True)
        """
        wanted = set(releases)
        with self._read() as connection:
            if connection is None or not wanted:
                return ""
            # What is bound to a release came after it, and may again: its head stays.
            rows = connection.execute(
                "SELECT release, digest FROM entries WHERE substr(body, 1, ?) <> ? ORDER BY seq DESC",
                (len(BINDS), BINDS),
            )
            return next((str(digest) for release, digest in rows if release in wanted), "")

    @property
    def head(self) -> str:
        """The digest of the last entry: it stands for everything before it."""
        with self._read() as connection:
            row = None if connection is None else _entries.last(connection)
        return "" if row is None else str(row[1])

    def verify(self, *, head: str | None = None, files: Iterable[Thing] = ()) -> Verification:
        """Check the whole file: schema, chain, answers, charges, seal; and that released files are as released.

        Parameters
        ----------
        head : str or None
            A :attr:`head` noted earlier, elsewhere: it must be in the chain, else entries were taken back or rewritten.
        files : iterable of paths, or of statements' JSON objects (``statement.to_dict()``)
            Each is *as released* (its bytes are bound; or it is a statement, and all that it says is), *changed* (its
            name, or the head in its statement, is that of a bound file, its content is not) or *unknown*. Copies are
            recognised under any name. Only what is proved counts: by the key beside the ledger, or by ``head``.

        Returns
        -------
        Verification
            With the problems found, if any; its truth value is whether there is none. ``files`` has one
            :class:`pate.ledger.FileCheck` for each file, ``as_released`` says whether all is well.

        Raises
        ------
        LedgerError
            There is no such file, or it is locked.
        InvalidInputError
            One of the files cannot be read.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Budget, Charge, Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> noted = ledger.head
        >>> _ = ledger.record(Charge.zero(), mechanism="m", n_queries=1)
        >>> ledger.verify(head=noted).ok, ledger.verify(head="ab" * 32).ok
        (True, False)
        """
        return verify_ledger(self.path, head=head, files=files, timeout=self.timeout)
