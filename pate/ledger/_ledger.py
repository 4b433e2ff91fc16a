"""The ledger itself: opening it, charging releases, storing answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pate.core.checks import check_choice, check_int, check_real
from pate.core.tape import note, playing
from pate.exceptions import BudgetExceededError, InvalidInputError, LedgerError
from pate.ledger import _entries
from pate.ledger._chain import NewAnswer
from pate.ledger._one import LedgerOfOne, _now
from pate.ledger._rows import KINDS, Registration, Remaining
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.currency import Currency, Opening, Terms, check_currency, check_failure_delta
from pate.privacy.cost import Charge, check_charge


class Ledger(LedgerOfOne):
    """Releases against one private data set, and the total they may cost.

    Parameters
    ----------
    path : str or path
        The SQLite file; created (readable by its owner only) when absent. A key file ``PATH.key`` goes beside it.
    total : Budget or None
        The budget of all releases together. None takes what the file says, or the first release's budget.
    currency : None, "gdp", "renyi", "renyi:ORDER", ("renyi", ORDER) or "pure"
        What the ledger counts in, for good. None lets the first charge decide (``"renyi"``: decide the order): by
        public facts, the currency in which that charge takes the smallest share of the total, GDP where equal. Say
        ``"renyi"`` where DP-SGD fits, gates or noisy argmaxes will be the larger part, ``"gdp"`` for noisy counts.
    failure_delta : float or None
        The part of the total's delta set aside for costs that may fail (gates, sanitised values); it buys nothing else.
        None sets aside what the first charge needs, mostly nothing.
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
    recognised by a fingerprint under a random key that lies in ``PATH.key``, not in the ledger: whoever has the ledger
    alone cannot test a guess about them. Keep the key file where the records are.

    Every entry holds the hash of the one before, and :meth:`verify` finds what was changed, taken away, put in or
    reordered since. Whoever can rewrite the whole file can make a whole new chain, or put an old copy back: against
    that, note :attr:`head` elsewhere (every statement has it) and give it to :meth:`verify`.

    Raises
    ------
    LedgerError
        The file cannot be opened, is not a ledger, or was opened before with another total.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pate import Budget, Charge
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
    >>> ledger.record(Charge.gaussian(sensitivity=2**0.5, sigma=40.0) * 20, mechanism="GNMax(sigma=40.0)", n_queries=20)
    1
    >>> ledger.used_fraction < 1, len(ledger.releases()), ledger.verify().ok
    (True, 1, True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        total: Budget | None = None,
        currency: str | tuple[str, float] | Currency | None = None,
        failure_delta: float | None = None,
        timeout: float = 30.0,
    ) -> None:
        # Absolute: after a change of folder the same ledger must not become another, empty one.
        self.path = Path(path).absolute()
        self.timeout = check_real("timeout", timeout, low=0, remedy="It is in seconds.")
        self._asked = check_currency(currency)
        self._failure_delta = None
        if failure_delta is not None:
            self._failure_delta = check_real("failure_delta", failure_delta, low=0, high=1, high_open=True)
        if total is not None:
            self.open_total(total)
        else:
            with self._read() as connection:
                held = None if connection is None else _entries.read_opening(connection, self.path)
            if held is not None:
                self._check_terms(held)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def open_total(self, total: Budget) -> None:
        """Fix the total budget; it cannot be changed later.

        Parameters
        ----------
        total : Budget

        Raises
        ------
        LedgerError
            The file holds another total, or counts in another currency than this ledger was to.
        InvalidInputError
            The currency's order, or the share of delta for failures, cannot serve this total.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite"
        >>> Ledger(path, total=Budget(1.0, 1e-5)).open_total(Budget(2.0, 1e-5))
        Traceback (most recent call last):
        pate.exceptions.LedgerError: ... holds a total budget of Budget(epsilon=1.0, delta=1e-05), not ...
        """
        check_budget(total)
        asked, failures = self._asked, self._failure_delta
        if failures is not None:
            check_failure_delta(failures, total)
        if asked not in (None, "renyi"):
            Terms.of(total, Currency.named(str(asked)), failures or 0.0)
        with self._read() as connection:
            held = None if connection is None else _entries.read_opening(connection, self.path)
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
        """Charge what is no label release; see :class:`~pate.privacy.compose.calibrate.Purse`, :meth:`record`.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pate import Charge
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> ledger.pay(Charge.gaussian(sensitivity=1.0, sigma=50.0), what="mean age", kind="other")
        1
        """
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
            0 for what answers no queries, such as a DP-SGD fit or a sanitised value.
        answers : iterable of (query hash, family, label, noisy counts or None)
            Taken one by one: a generator of a million needs no list.
        facts : dict, callable or None
            Further public facts, JSON. With ``adaptive`` true an open-ended release takes ``n_queries`` answers in all,
            and no more. A callable is asked for them (and before the answers are) once the charge was found to fit, in
            the same transaction: where noise is to be drawn. What it raises leaves nothing charged.
        request : str
            What identifies the request, for :meth:`find`.
        seeded : bool
            Whether the noise could be repeated.
        open_ended : bool
            Whether answers will be added by :meth:`add_answers`: the charge then covers them all.
        registration : Registration or None
            Registered in the same transaction.
        kind : str or None
            What is paid for, one of :data:`pate.ledger.KINDS`. None: "labels" where queries
            are answered, else "other".

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

        Examples
        --------
        >>> import tempfile, pathlib
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> from pate import Charge
        >>> ledger.record(Charge.gaussian(sensitivity=2**0.5, sigma=1.0), mechanism="GNMax(sigma=1.0)", n_queries=1)
        Traceback (most recent call last):
        pate.exceptions.BudgetExceededError: the ledger's total budget ... does not allow this release...
        """
        whole, seeded = check_charge(cost), seeded or playing() is not None
        n_queries = check_int("n_queries", n_queries, low=0)
        if kind is None:
            kind = "labels" if n_queries else "other"
        check_choice("kind", kind, KINDS)
        try:
            body = _entries.release_body(
                whole,
                mechanism,
                n_queries,
                None if callable(facts) else facts,
                seeded=seeded,
                open_ended=open_ended,
                kind=kind,
            )
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"facts must be plain JSON values, got something else ({error}).") from error
        whole = _entries.charge_of(body)  # what is written down is what is priced
        note("ledger", charge=whole, what=mechanism, n_queries=n_queries, kind=kind, seeded=seeded)
        with self._write() as connection:
            opening = self._opening(connection)
            if registration is not None:
                self._register(connection, registration)
                body |= self._features(registration)
            left = Remaining(opening, *_entries.read_costs(connection, self.path))
            terms, refusal = opening.terms_for(whole), left.refusal(whole)
            if terms is None or refusal:
                raise BudgetExceededError(
                    f"the ledger's total budget {opening.total} does not allow this release of {n_queries} queries by "
                    f"{mechanism}: {refusal}. Ask fewer queries or use more noise; nothing was charged."
                )
            if opening.terms is None:
                # Fixed by public facts, before anything is spent, in the transaction of the first charge.
                _entries.append(connection, self.path, "terms", _now(), body=_entries.terms_body(terms))
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
        return left.n_releases + 1

    def add_answers(
        self,
        release: int,
        answers: Iterable[NewAnswer],
        expect_before: int | None = None,
        facts: dict[str, Any] | None = None,
    ) -> str:
        """Store answers of an open-ended release, whose charge covers them already; do it before they are shown.

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
            There is no such open-ended release, somebody else added answers to it, these are more than were paid for,
            or the file failed; nothing is stored, and none of these answers may be shown.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite", total=Budget(1.0, 1e-5))
        >>> from pate import Charge
        >>> run = ledger.record(Charge.zero(), mechanism="VoteCap(...)", n_queries=5, open_ended=True)
        >>> ledger.add_answers(run, [("ab12", "vote-cap", 1, None)], 0) == ledger.head
        True
        >>> ledger.stored(["ab12"], "vote-cap")["ab12"].release == run
        True
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
                    "somebody else goes on with the same session. Nothing was stored. Close this one, and open it "
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
