"""The ledger itself: opening it, whose records it is for, charging releases, storing answers, and what may be asked."""

from __future__ import annotations

import hmac
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pate._core.checks import check_choice, check_int, check_real, least_of, shown
from pate._core.curator import tell_curator
from pate._core.events import event, is_logged
from pate._core.files import check_can_write
from pate._core.recorder import note, playing
from pate._core.secret import beside_ledger, forget_secret
from pate.exceptions import BudgetExceededError, InvalidInputError, LedgerError
from pate.ledger import _entries
from pate.ledger._chain import NewAnswer, mac, pack_query, read_key, unpack_counts, unpack_query
from pate.ledger._files import BINDS, Thing, described, head_named, read_thing, releases_named, signature
from pate.ledger._registration import (
    MEANT,
    SENSITIVE_KEYS,
    check_beside,
    check_newest,
    ledgers_in,
    macs,
    merge,
    overlap,
    sealed,
)
from pate.ledger._rows import KINDS, Answer, LedgerRow, Registration, Remaining, Verification
from pate.ledger._store import transaction
from pate.ledger._verify import verify_ledger, write_answers
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.accounting_unit import (
    AccountingUnit,
    Opening,
    Terms,
    check_accounting_unit,
    check_failure_delta,
)
from pate.privacy.convert import delta_left
from pate.privacy.cost import Charge, check_charge
from pate.privacy.tiers import WHOLE


class Ledger:
    """The durable record of all releases from one private data set; it refuses what exceeds their total budget.

    Parameters
    ----------
    path : str or path
        The SQLite file; created (readable by its owner only) when absent. A key file ``PATH.key`` goes beside it.
    total : Budget or None
        The budget of all releases together. None takes the file's, or else the first release's budget.
    currency : None, "gdp", "renyi", "renyi:ORDER", ("renyi", ORDER) or "pure"
        The accounting unit: the one quantity that the ledger adds up (docs/concepts.md). It is fixed with the first
        charge and never changes. None takes the one in which that charge is the smallest share of the total, by public
        facts, and GDP where equal; ``"renyi"`` leaves only the order to the first charge. Choose ``"renyi"`` if DP-SGD
        fits, gates or noisy argmaxes will be the larger part of all releases, ``"gdp"`` for noisy counts and ballots.
    failure_delta : float or None
        The part of the total's delta that is reserved for costs whose bound may fail (gates, sanitised values). None
        reserves what the first charge needs, mostly nothing.
    timeout : float
        Seconds to wait while another process holds the file.

    Guarantees
    ----------
    The charges may be chosen adaptively, so the ledger stops on one quantity, fixed before the first of them and
    written into the chain: the sum of mu^2 (fully adaptive filter for Gaussian differential privacy, Smith and Thakurta
    2022; Koskela, Tobaben and Honkela 2023), or of Renyi divergences at one order (Feldman and Zrnic 2021, Theorem 3.1;
    Lecuyer 2021; converted by Canonne, Kamath and Steinke 2020), never exceeds the most that the total allows. All
    releases together then satisfy the total budget. No other order or currency is read off afterwards: that would be
    an odometer reading, of which no guarantee is known. A release that is alone in a ledger whose total is its budget
    buys as much as without a ledger.
    Check, charge and labels are one transaction with ``synchronous=EXTRA``: committed before anything is returned.

    Only public facts are in the file: charges, hashes of public rows, released labels. The private records are
    recognised by a fingerprint under a random key that lies in ``PATH.key``, not in the ledger: anyone who has the
    ledger alone cannot test a guess about them. Keep the key file where the records are.

    Every entry holds the hash of the one before, and :meth:`verify` finds what was changed, taken away, put in or
    reordered since. Anyone who can rewrite the whole file can make a whole new chain, or put an old copy back: against
    that, note :attr:`head` elsewhere (every statement has it) and give it to :meth:`verify`.

    Raises
    ------
    LedgerError
        The file cannot be opened, is not a ledger, or was opened before with another total.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pate import Budget, Charge
    >>> ledger = Ledger(
    ...     pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5)
    ... )
    >>> ledger.record(
    ...     Charge.gaussian(sensitivity=2**0.5, sigma=40.0) * 20,
    ...     mechanism="GNMax(sigma=40.0)",
    ...     n_queries=20,
    ... )
    1
    >>> ledger.used_fraction < 1, len(ledger.releases()), ledger.verify().ok
    (True, 1, True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        total: Budget | None = None,
        currency: str | tuple[str, float] | AccountingUnit | None = None,
        failure_delta: float | None = None,
        timeout: float = 30.0,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InvalidInputError(
                f"a ledger must be named by the path of its file, got {shown(path)}. Say Ledger('NAME.sqlite')."
            )
        # Absolute: after a change of folder the same ledger must not become another, empty one. Without links: its keys
        # lie beside the file itself.
        self.path = Path(os.path.realpath(path))
        self.timeout = check_real("timeout", timeout, low=0, remedy="It is in seconds.")
        self._asked = check_accounting_unit(currency)
        #: The records that were last compared with the ledger's, with all that is known of them.
        self._checked: Registration | None = None
        #: Whether it was looked for other ledgers of the same records, or the caller said that this one is to be new.
        self._looked_beside = False
        self._failure_delta = None
        if failure_delta is not None:
            self._failure_delta = check_real("failure_delta", failure_delta, low=0, high=1, high_open=True)
        if total is not None:
            self.open_total(total)
        elif (held := self._opened()) is not None:
            self._check_terms(held)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def open_total(self, total: Budget) -> None:
        """Fix the total budget; it cannot be changed later.

        Raises
        ------
        LedgerError
            The file holds another total, or counts in another currency than this ledger was to.
        InvalidInputError
            The currency's order, or the share of delta for failures, cannot serve this total.
        """
        check_budget(total)
        asked, failures = self._asked, self._failure_delta
        if failures is not None:
            check_failure_delta(failures, total)
        if asked not in (None, "renyi"):
            Terms.of(total, AccountingUnit.named(str(asked)), failures or 0.0)
        held = self._opened()
        if held is None:
            with self._write() as connection:
                held = _entries.read_opening(connection, self.path)
                if held is None:
                    body = _entries.opening(total, asked, failures)
                    _entries.append(connection, self.path, "opened", _now(), body=body)
                    held = _entries.read_opening(connection, self.path)
                    assert held is not None
        if held.total != total:
            raise LedgerError(
                f"the ledger {str(self.path)!r} holds a total budget of {held.total}, not {total}. "
                "A total is fixed at the first release: raising it later would break the promise made then."
            )
        self._check_terms(held)

    def _check_terms(self, held: Opening) -> None:
        """Refuse when this ledger was to count otherwise than the file does."""
        conflict = held.conflict(self._asked, self._failure_delta)
        if conflict:
            raise LedgerError(
                f"the ledger {str(self.path)!r} {conflict}. That is fixed when a ledger opens: leave it out, and the "
                "file says which."
            )

    def pay(
        self,
        cost: Charge,
        *,
        what: str,
        kind: str,
        total: Budget | None = None,
        votes: Any = None,
        n_queries: int = 0,
        facts: dict[str, Any] | None = None,
        seeded: bool = False,
        open_ended: bool = False,
    ) -> int:
        """Charge something other than a label release; see :class:`~pate.privacy.compose.calibrate.BudgetBackend`."""
        data = Registration.of_votes(votes) if hasattr(votes, "fingerprint") else None
        if data is not None:
            self.check(data)
        if total is not None:
            self.open_total(self.total or total)
        facts = {} if facts is None else facts
        return self.record(
            cost,
            mechanism=what,
            n_queries=n_queries,
            facts=facts if data is None else {**facts, "n_teachers": data.n_shards},
            seeded=seeded,
            open_ended=open_ended,
            registration=data,
            kind=kind,
        )

    def record(
        self,
        cost: Charge,
        *,
        mechanism: str,
        n_queries: int,
        answers: Iterable[NewAnswer] = (),
        facts: dict[str, Any] | Callable[[], dict[str, Any]] | None = None,
        request: str = "",
        seeded: bool = False,
        open_ended: bool = False,
        registration: Registration | None = None,
        kind: str | None = None,
    ) -> int:
        """Charge a release and store its answers, atomically and durably.

        Parameters
        ----------
        cost : Charge
            The worst case, fixed before sampling; its price is taken in the ledger's currency, its delta0 from the
            share of delta that was set aside. The first charge fixes both, where they are open.
        mechanism : str
        n_queries : int
            0 if no queries are answered, as for a DP-SGD fit or a sanitised value.
        answers : iterable of (query hash, family, label, noisy counts or None)
            Taken one by one, so that a generator may yield millions.
        facts : dict, callable or None
            Further public facts, JSON. With ``adaptive`` true an open-ended release takes ``n_queries`` answers in all,
            and no more. A callable is asked for them (and before the answers are) once the charge was found to fit, in
            the same transaction: where noise is to be drawn. What it raises leaves nothing charged.
        request : str
            A digest that identifies the request, for :meth:`find`.
        seeded : bool
            Whether the noise could be repeated.
        open_ended : bool
            Whether answers will be added by :meth:`add_answers`: the charge then covers them all.
        registration : Registration or None
            Registered in the same transaction.
        kind : str or None
            What is paid for: one of :data:`pate.ledger.KINDS`. None: "labels" if queries are answered, else "other".

        Returns
        -------
        int
            The release's number.

        Raises
        ------
        BudgetExceededError
            The total would be exceeded, or the ledger's currency cannot pay for this cost; nothing is stored.
        LedgerError
            The file failed, or is for another private data set; nothing is stored.
        """
        whole, seeded = check_charge(cost), seeded or playing() is not None
        n_queries = check_int("n_queries", n_queries, low=0)
        if kind is None:
            kind = "labels" if n_queries else "other"
        check_choice("kind", kind, KINDS)
        try:
            known = None if callable(facts) else facts
            body = _entries.release_body(
                whole, mechanism, n_queries, known, seeded=seeded, open_ended=open_ended, kind=kind
            )
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"facts must be plain JSON values, got something else ({error}).") from error
        whole = _entries.charge_of(body)  # what is written down is what is priced
        note("ledger", charge=whole, what=mechanism, n_queries=n_queries, kind=kind, seeded=seeded)
        with self._write() as connection:
            opening = self._opening(connection)
            left = Remaining(opening, *_entries.read_costs(connection, self.path))
            held = _entries.read_registration(connection, self.path)
            # What was paid for without naming any records had no tiers.
            _entries.check_tiers(self.path, {} if held is None and left.n_releases else held, registration)
            if registration is not None:
                self._register(connection, registration)
                body |= self._features(registration)
            terms, refusal = opening.terms_for(whole), left.refusal(whole)
            if terms is None or refusal:
                raise BudgetExceededError(
                    f"the ledger's total budget {opening.total} does not allow this release of {n_queries} queries by "
                    f"{mechanism}: {refusal}. Ask fewer queries or use more noise; nothing was charged."
                )
            if opening.terms is None:
                # Fixed by public facts, before anything is spent, in the transaction of the first charge.
                _entries.append(connection, self.path, "terms", _now(), body=_entries.terms_body(terms))
            # Worked out here: nothing may fail any more once something is drawn.
            told = self._charged(Remaining(replace(opening, terms=terms), left.prices, left.failures), whole)
            if callable(facts):
                body["facts"] = facts()
            entry = _entries.append(
                connection,
                self.path,
                "release",
                _now(),
                body=body,
                release=left.n_releases + 1,
                request=request or None,
                price=terms.currency.price(whole),
                failure=whole.delta0,
                answers=answers,
            )
            most = _entries.most_answers(body, self.path)
            if most is not None and entry.n_answers > most:
                raise LedgerError(
                    f"release of {most} queries cannot hold {entry.n_answers} answers: they were not paid for. Nothing "
                    "was stored."
                )
        if told:
            event(
                "ledger", "charged", ledger=self.path.name, release=left.n_releases + 1, kind=kind,
                mechanism=mechanism, n_queries=n_queries, **told,
            )  # fmt: skip
        return left.n_releases + 1

    @staticmethod
    def _charged(before: Remaining, charge: Charge) -> dict[str, Any]:
        """Return what the log says of a charge and of what it leaves: constants, all of them in the file."""
        if before.total is None or before.terms is None or not is_logged("ledger"):
            return {}
        delta, price = before.total.delta, before.terms.currency.price(charge)
        left = Remaining(before.opening, (*before.prices, price), (*before.failures, charge.delta0))
        epsilon = charge.guarantee(delta).epsilon
        return {
            "epsilon": epsilon, "delta": delta, "epsilon_left": left.epsilon_left, "fraction_left": left.fraction_left,
        }  # fmt: skip

    def add_answers(
        self,
        release: int,
        answers: Iterable[NewAnswer],
        expect_before: int | None = None,
        facts: dict[str, Any] | None = None,
    ) -> str:
        """Store answers of an open-ended release, which its charge already covers; do it before they are shown.

        Parameters
        ----------
        release : int
        answers : iterable of (query hash, family, label, noisy counts or None)
        expect_before : int or None
            How many answers the release should hold until now: the ledger, not a lock beside it, decides who may go
            on. None takes any number.
        facts : dict or None
            What is to be known of the release besides, as of :meth:`record`.

        Returns
        -------
        str
            The digest of the new entry, a :attr:`head` that covers these answers.

        Raises
        ------
        LedgerError
            There is no such open-ended release, another process added answers to it, these are more than were paid for,
            or the file failed; nothing is stored, and none of these answers may be shown.
        """
        with self._write() as connection:
            row = connection.execute(
                "SELECT body FROM entries WHERE kind = 'release' AND release = ?", (release,)
            ).fetchone()
            body = {} if row is None else _entries.decode(row[0], self.path)
            if body.get("open_ended") is not True:
                raise LedgerError(
                    f"the ledger {str(self.path)!r} has no open-ended release {release!r}. Only a run that was charged "
                    "for whatever it may answer takes further answers."
                )
            before, most = _entries.n_answers(connection, release), _entries.most_answers(body, self.path)
            if expect_before is not None and before != expect_before:
                raise LedgerError(
                    f"release {release} of the ledger {str(self.path)!r} holds {before} answers, not {expect_before}: "
                    "another process goes on with the same session. Nothing was stored. Close this one, and open it "
                    "again when the other has ended."
                )
            entry = _entries.append(
                connection, self.path, "answers", _now(), body=facts or {}, release=release, answers=answers
            )
            if most is not None and before + entry.n_answers > most:
                raise LedgerError(
                    f"release {release} of the ledger {str(self.path)!r} was charged for {most} answers and holds "
                    f"{before}: {entry.n_answers} more were not paid for. Nothing was stored. Charge another release."
                )
        return entry.digest

    def _read(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self.path, write=False, timeout=self.timeout)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        recorder = playing()
        if recorder is not None:
            recorder.claim(self.path)
        with transaction(self.path, write=True, timeout=self.timeout) as connection:
            if not _entries.is_sealed(connection, self.path):
                raise LedgerError(
                    f"the ledger {str(self.path)!r} does not end as it was sealed: entries were changed, taken away or "
                    "added outside pate. Nothing was charged. `pate ledger verify` tells more; restore it from a "
                    "backup."
                )
            yield connection

    def _opened(self) -> Opening | None:
        with self._read() as connection:
            return _entries.read_opening(connection, self.path)

    def _registered(self) -> dict[str, Any] | None:
        with self._read() as connection:
            return _entries.read_registration(connection, self.path)

    def check(self, registration: Registration) -> None:
        """Raise if the ledger is for another private data set, unit or list of classes; nothing is written.

        Further facts about the records (``contents``, ``sketch``) are stored with the next charge by this object.

        Warns
        -----
        CuratorWarning
            This ledger would be new for the records, and another one in its folder is for them, or for largely the same
            people; or a release lies there that no ledger there holds: it is gone, or an old copy of it was put back.
            Two ledgers' totals add up.

        Raises
        ------
        LedgerError
            They differ: answers of the one may not be given for the other.
        """
        with self._read() as connection:
            merge(connection, self.path, registration, make_key=False)
            known = _entries.read_registration(connection, self.path) is not None
        if registration.contents is not None or registration.sketch is not None:
            self._checked = registration
        if not self._looked_beside and registration.fingerprint is not None:
            data = self._full(registration)
            if known:
                self._looked_beside = True
                said = check_newest(self, data, ledgers_in(type(self), [self.path.parent]))
            else:
                said = self.check_beside("what was given", data, meant="ignore this warning")
            if said:
                tell_curator(said)

    def check_beside(self, what: str, data: Registration, *folders: Path, meant: str = MEANT) -> str:
        """Return a warning if other ledgers, beside this one or in ``folders``, are for these records. **Sensitive**.

        Call it before a new ledger is made, so that the same people do not get a second budget by mistake. "": no
        warning.

        Parameters
        ----------
        what : str
            Name of the private records, for the warning.
        data : Registration
        folders : path
            Further folders to look in.
        meant : str
            What to tell the user to do if a new ledger is intended.
        """
        self._looked_beside = True
        places = (self.path.parent, *folders)
        return check_beside(what, data, ledgers_in(type(self), places), places, meant=meant)

    def check_writable(self) -> None:
        """Raise if nothing could be charged, as a check before teachers are trained; no trace of it is left.

        Raises
        ------
        LedgerError
            File or folder cannot be written to, or the disk is full.
        """
        try:
            # Beside it go its journal and its key.
            check_can_write("ledger", self.path)
        except InvalidInputError as error:
            raise LedgerError(f"{error} Nothing was trained or charged.") from None

    def register(self, registration: Registration) -> None:
        """Register the private data set; facts registered before must agree, new ones are added.

        Raises
        ------
        LedgerError
            The ledger is for something else, or has no total yet.
        """
        with self._write() as connection:
            self._register(connection, registration)

    def bind(self, *things: Thing, contents: Mapping[str, bytes] | None = None) -> str:
        """Note digests of released files under the ledger's key, so that :meth:`verify` recognises edited files.

        It costs nothing, and reveals nothing about private records: what is released is public. Releases bind their own
        statements, and jobs and ``save`` bind the files that they write; bind a file that was made later yourself, if
        you vouch for it.

        Parameters
        ----------
        *things : paths, or statements' JSON objects (``statement.to_dict()``)
            They are bound to the last release that a statement among them names; without one, to the ledger's last.
        contents : mapping of str to bytes, or None
            Files that are about to be written, by their names.

        Returns
        -------
        str
            The digest of the new entry.

        Raises
        ------
        LedgerError
            Nothing was released yet, a statement names a release that is not there, the key file is missing or another
            one's, or the file could not be written; nothing is bound.
        InvalidInputError
            A file cannot be read, or none was named.
        """
        read = [*((Path(name).name, content) for name, content in map(read_thing, things)), *(contents or {}).items()]
        if not read:
            raise InvalidInputError("bind must be given a file at least, got none.")
        noted = [described(name, content) for name, content in read]
        named = [n for _, content in read for n in releases_named(content)]
        with self._write() as connection:
            n_releases = len(_entries.read_costs(connection, self.path)[0])
            release = max(named, default=n_releases)
            if not 1 <= release <= n_releases:
                raise LedgerError(
                    f"the ledger {str(self.path)!r} has {n_releases} releases: nothing of release {release} can be "
                    "bound. Name the ledger that the files were released from."
                )
            for head in filter(None, (head_named(content) for _, content in read)):
                if not connection.execute("SELECT 1 FROM entries WHERE digest = ?", (head,)).fetchone():
                    raise LedgerError(
                        f"a statement names the head {head[:16]}..., which is not in the ledger {str(self.path)!r}: it "
                        "is another ledger's, or was changed. Nothing was bound. Name the ledger that it was released "
                        "from."
                    )
            key, created = self._signing_key(connection), _now()
            end = _entries.last(connection)
            assert end is not None  # there is a release
            body = {"bound": noted, "mac": signature(key, noted, release, created, end[1])}
            return _entries.append(connection, self.path, "answers", created, body=body, release=release).digest

    def _signing_key(self, connection: sqlite3.Connection) -> bytes:
        """Return the key beside the ledger, made where there never was one."""
        known = (_entries.read_registration(connection, self.path) or {"key_check": None})["key_check"]
        key = read_key(self.path, make=known is None)
        if key is None or (known is not None and mac(key, "key", "")[:16] != known):
            raise LedgerError(
                f"the key file beside the ledger {str(self.path)!r} is missing, or not the one of its registration: "
                "nothing was bound. Restore the key file."
            )
        return key

    def _opening(self, connection: sqlite3.Connection) -> Opening:
        opening = _entries.read_opening(connection, self.path)
        if opening is None:
            raise LedgerError(f"the ledger {str(self.path)!r} has no total budget yet. Call open_total first.")
        return opening

    def _register(self, connection: sqlite3.Connection, registration: Registration) -> None:
        self._opening(connection)
        merged = merge(connection, self.path, self._full(registration), make_key=True)
        if merged is not None:
            _entries.append(connection, self.path, "registered", _now(), body=merged)

    def _full(self, registration: Registration) -> Registration:
        """Return a registration with what was known of these very records when they were last checked."""
        known = self._checked
        if known is None or known.fingerprint is None or known.fingerprint != registration.fingerprint:
            return registration
        return replace(registration, contents=known.contents, sketch=known.sketch)

    def _features(self, registration: Registration) -> dict[str, Any]:
        """Return what an entry says of the features that its release is made from."""
        contents = self._full(registration).contents
        key = None if contents is None else read_key(self.path, make=False)
        return {} if contents is None or key is None else {"contents": sealed(key, "contents", [contents])}

    def revise(self, reason: str) -> None:
        """Declare that the private records were corrected or extended: the next release's records become the ledger's.

        Everything stays charged to one total, so that all versions together satisfy it: neighbours then differ in one
        unit in all versions. Stored answers stay as they were released.

        The secret by which shards are cut, which lies beside the ledger, is deleted, so that every version is cut by
        its own secret: a cut may depend on labels (see Notes of :func:`pate.partition`), and two versions' labels may
        be equal for some people's records and not for their neighbours'. A folder of checkpoints keeps a secret as
        well: use another folder for another version.

        Parameters
        ----------
        reason : str
            Public: it is kept in the ledger.

        Raises
        ------
        InvalidInputError
            ``reason`` says nothing, or the secret cannot be deleted: then nothing was revised.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInputError(f"reason must say in words why the records changed, got {reason!r}.")
        with self._write() as connection:
            held = _entries.read_registration(connection, self.path)
            if held is None:
                raise LedgerError(f"the ledger {str(self.path)!r} has no data set registered yet: nothing to revise.")
            # The sketch stays until the next one: they are the same people.
            unknown = dict.fromkeys({"n_units", "n_shards", *SENSITIVE_KEYS} - {"sketch"})
            # First: if this is cut off here, the same version is cut again, which costs nothing.
            forget_secret(beside_ledger(self.path))
            _entries.append(
                connection, self.path, "registered", _now(), body={**held, **unknown, "revised": reason.strip()}
            )

    def tiers(self) -> list[dict[str, Any]]:
        """Return what all releases together charge to the units of each tier, and the most that they allow; public.

        Empty without tiers. ``spent`` and ``limit`` are in the ledger's accounting unit, of which a tier of weight w
        (``weight``) is charged w^2 times what one of weight 1 is: so the filter that holds for the latter holds for it,
        at ``epsilon`` and the total's delta. ``epsilon_spent`` is what was spent as one release of it: a reading, no
        guarantee (see Guarantees).
        """
        left, held = self.remaining(), self._registered() or {}
        if left.total is None or left.terms is None or held.get("tiers") is None:
            return []
        unit, delta, found = left.terms.currency, left.total.delta, []
        for name, whole in held["tiers"]:
            part = (whole / WHOLE) ** 2 * (1 + 2.0**-50)
            limit, spent = (value * part for value in (left.terms.limit, left.spent))
            apart = delta_left(delta, left.terms.failure_delta)
            at = [unit.epsilon(value, apart) for value in (limit, spent)]
            row = {"tier": name, "weight": whole / WHOLE, "limit": limit, "spent": spent, "delta": delta}
            found.append({**row, "epsilon": least_of(left.total.epsilon, at[0]), "epsilon_spent": at[1]})
        return found

    @property
    def total(self) -> Budget | None:
        """The budget of all releases together; None before the first."""
        opening = self._opened()
        return None if opening is None else opening.total

    @property
    def registration(self) -> dict[str, Any] | None:
        """The public facts of the private data set, and whether it is recognised; None before the first release."""
        held = self._registered()
        if held is None:
            return None
        return {
            **{k: v for k, v in held.items() if k not in SENSITIVE_KEYS},
            "fingerprinted": held["fingerprint"] is not None,
        }

    def recognises(self, fingerprint: str) -> bool:
        """Return whether this ledger is for the private records with this fingerprint.

        Their order does not matter. False also if it is not known: no data set is registered, or none with a
        fingerprint, or the key file is gone.
        """
        held = self._registered() or {}
        key = None if held.get("fingerprint") is None else read_key(self.path, make=False)
        if key is None:
            return False
        known = [(held.get(name), value) for name, value in macs(key, fingerprint).items()]
        return any(a is not None and b is not None and hmac.compare_digest(str(a), b) for a, b in known)

    @property
    def has_sketch(self) -> bool:
        """Whether the ledger can estimate how many people another data set shares with its own, see :meth:`overlap`."""
        return (self._registered() or {}).get("sketch") is not None

    def overlap(self, data: Registration) -> float:
        """Estimate the share of people (or records) that another data set has in common with this one: **sensitive**.

        From 0 to 1: the larger of the two data sets' shares that are in the other. 0 also if it is not known, see
        :meth:`recognises`.

        Parameters
        ----------
        data : Registration
            With a ``sketch``, see :func:`pate.data.recognised_by`.
        """
        sketch = (self._registered() or {}).get("sketch")
        if sketch is None or data.sketch is None or not any(data.sketch):
            return 0.0
        key = read_key(self.path, make=False)
        with _entries.plain(self.path):
            return 0.0 if key is None else overlap(key, sketch, data.sketch)

    def warn_of_other_features(self, releases: Iterable[int]) -> None:
        """Warn the curator if these releases were made from other features than those of the records last checked.

        Labels and owners were the same, or the ledger was revised: see :meth:`pate.Ledger.check`.

        Warns
        -----
        CuratorWarning
        """
        found = self.of_other_features(releases)
        if found:
            tell_curator(
                f"the private features are not those that release {', '.join(map(str, found))} of the ledger was made "
                "from. What it released is given again, and the changed records were not used for it: a question is "
                "answered once. For labels by the records as they are now ask another one (another epsilon or "
                "mechanism, say), which is charged; where people were added or labels corrected, after Ledger.revise "
                "(pate ledger revise). (Whether records changed is private: do not publish it.)",
            )

    def of_other_features(self, releases: Iterable[int]) -> list[int]:
        """Return which of these releases were made from rows other than those last checked, or in another order.

        None if it is not known: rows were never checked (:meth:`check`), or the key is missing. **Sensitive.**
        """
        contents = None if self._checked is None else self._checked.contents
        key = None if contents is None else read_key(self.path, make=False)
        if contents is None or key is None:
            return []
        found = []
        for row in self.releases(releases):
            with _entries.plain(self.path):
                held = row.contents
                if held is not None and held != sealed(key, "contents", [contents], held["salt"]):
                    found.append(row.id)
        return found

    def holds(self, head: str) -> bool:
        """Return whether a head noted earlier is in the chain; see :meth:`verify`, which also checks the chain."""
        with self._read() as connection:
            return bool(connection.execute("SELECT 1 FROM entries WHERE digest = ?", (head,)).fetchone())

    def remaining(self, *, default_total: Budget | None = None) -> Remaining:
        """Return what the total still allows now (another process may be quicker).

        ``default_total`` stands in while the ledger has no total yet.
        """
        with self._read() as connection:
            opening = _entries.read_opening(connection, self.path)
            if opening is not None:
                return Remaining(opening, *_entries.read_costs(connection, self.path))
        if default_total is None:
            return Remaining(None)
        return Remaining(Opening(default_total, self._asked, self._failure_delta, None))

    @property
    def currency(self) -> str | None:
        """The accounting unit: "gdp", "renyi:ORDER" or "pure"; None until the first charge decides."""
        return self.remaining().currency or self._asked

    @property
    def spent(self) -> float:
        """Sum of the prices of all releases, in the ledger's currency."""
        return self.remaining().spent

    @property
    def used_fraction(self) -> float:
        """Share of the limit that is spent, 0 to 1. It is not an epsilon and cannot be converted to one."""
        left = self.remaining()
        return 0.0 if left.terms is None else left.spent / left.terms.limit

    def allows(self, cost: Charge, *, default_total: Budget | None = None) -> bool:
        """Return whether the cost would fit now (another process may be quicker).

        ``default_total`` stands in while the ledger has no total yet.
        """
        return self.remaining(default_total=default_total).allows(cost)

    def stored(self, queries: Sequence[str], family: str, *, release: int | None = None) -> dict[str, Answer]:
        """Return the first stored answer of each query that was asked before: free, since it is post-processing.

        ``release`` takes those of one release alone.
        """
        found: dict[str, Answer] = {}
        with self._read() as connection:
            if not connection.execute("SELECT 1 FROM answers LIMIT 1").fetchone():
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
        """Return whether a release was made for this very request (see :func:`pate.release_labels`)."""
        return self.find(request) is not None

    def find(self, request: str) -> LedgerRow | None:
        """Return the release that was made under this request's digest, with its facts; None if there is none."""
        query = "SELECT release FROM entries WHERE request = ? ORDER BY seq LIMIT 1"
        with self._read() as connection:
            found = connection.execute(query, (request,)).fetchone()
            return None if found is None else next(_entries.read_releases(connection, self.path, found), None)

    def keyed_digest(self, text: str) -> str:
        """Return HMAC-SHA256 of a private text under the key beside the ledger: it can be recognised, not guessed.

        Raises
        ------
        LedgerError
            There is no key: nothing was registered or released yet.
        """
        key = read_key(self.path, make=False)
        if key is None:
            raise LedgerError(f"the ledger {str(self.path)!r} has no key yet. Register the data set first.")
        return mac(key, "digest", text)

    def releases(self, ids: Iterable[int] | None = None) -> list[LedgerRow]:
        """Return every release, or those of the given numbers, oldest first."""
        with self._read() as connection:
            return list(_entries.read_releases(connection, self.path, ids))

    def show(self) -> list[dict[str, Any]]:
        """Return a table with one row per release: what was paid for, how much, and when; all public.

        ``price`` is in the ledger's currency and ``share`` its part of the limit: these add up. ``epsilon`` is each
        release's own at the total's delta; do not add these up.
        """
        left = self.remaining()
        if left.total is None or left.terms is None:
            return []
        delta, terms = left.total.delta, left.terms
        with self._read() as connection:
            rows = list(_entries.read_releases(connection, self.path, None))
            n_answers = dict(connection.execute("SELECT release, SUM(n_answers) FROM entries GROUP BY release"))
        return [
            {
                "release": row.id,
                "created": row.created,
                "kind": row.kind,
                "mechanism": row.mechanism,
                "n_queries": row.n_queries,
                "n_answers": n_answers[row.id],
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

    def export(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> int:
        """Write every answer that was ever paid for, refused queries included; the file is written whole or not at all.

        If records voted, these are the noisy sums of their ballots (status "ballots"): that is what was released.
        Labels were computed from them and the public rows, which a ledger does not have; they are in the files that
        were written then.

        Parameters
        ----------
        path : path
            Ends in ``.csv`` or ``.jsonl``. An existing file is not overwritten.
        raw_csv : bool
            Leave out the apostrophe before CSV texts that a spreadsheet would run as a formula.

        Returns
        -------
        int
            Number of answers written.

        Raises
        ------
        InvalidInputError
            Another ending, or the file exists.
        """
        with self._read() as connection:
            held = _entries.read_registration(connection, self.path)
            classes = [] if held is None else list(held["classes"])
            return write_answers(connection, path, classes, ledger=self.path, raw_csv=raw_csv)

    def n_answers(self, release: int) -> int:
        """Return how many answers a release holds, those added later too."""
        with self._read() as connection:
            return _entries.n_answers(connection, release)

    def head_of(self, releases: Iterable[int]) -> str:
        """Return the digest of the last entry of these releases, answers added later included; "" if there is none."""
        wanted = set(releases)
        with self._read() as connection:
            # What is bound to a release came after it, and may again: its head stays.
            rows = connection.execute(
                "SELECT release, digest FROM entries WHERE substr(body, 1, ?) <> ? ORDER BY seq DESC",
                (len(BINDS), BINDS),
            )
            return next((str(digest) for release, digest in rows if release in wanted), "")

    @property
    def head(self) -> str:
        """The digest of the last entry, which covers everything before it."""
        with self._read() as connection:
            row = _entries.last(connection)
        return "" if row is None else str(row[1])

    def verify(self, *, head: str | None = None, files: Iterable[Thing] = ()) -> Verification:
        """Check the whole file: schema, chain, answers, charges, seal; and that released files are as released.

        Parameters
        ----------
        head : str or None
            A :attr:`head` that you noted elsewhere earlier. If it is not in the chain, entries were removed or
            rewritten.
        files : iterable of paths, or of statements' JSON objects (``statement.to_dict()``)
            Each is *as released* (its bytes are bound; or it is a statement, and all that it says is), *changed* (its
            name, or the head in its statement, is that of a bound file, its content is not) or *unknown*. Copies are
            recognised under any name. Only what is proved counts: by the key beside the ledger, or by ``head``.

        Returns
        -------
        Verification
            With the problems found, if any; it is true if there is none. ``files`` has one
            :class:`pate.ledger.FileCheck` for each file, ``as_released`` says whether all is well.

        Raises
        ------
        LedgerError
            There is no such file, or it is locked.
        InvalidInputError
            One of the files cannot be read.
        """
        return verify_ledger(self.path, head=head, files=files, timeout=self.timeout)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
