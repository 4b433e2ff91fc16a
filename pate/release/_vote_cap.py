"""Capped votes: a run is paid for whole before its first answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_classes, check_int, shown
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger, Registration
from pate.mechanisms import Draw
from pate.mechanisms.vote_cap import VoteCap
from pate.privacy.budget import Budget
from pate.privacy.words import Guarantee
from pate.release._door import Door, PaidVotes
from pate.release._quote import ReleaseTerms, warn_if_weak
from pate.release._statement import _ACCOUNTING, _NOISE, _others, check_release_stated, make_assumptions
from pate.statement.fields import Assumption
from pate.statement.files import bind_statement
from pate.statement.model import PrivacyStatement, made_statement


class VoteCapRun:
    """An open run of capped votes, already paid for; :func:`open_vote_cap` makes it.

    With a ledger every answer is stored before it is returned, as part of the release that was charged for all of
    them. After a crash those answers are in the ledger (:meth:`pate.Ledger.stored`, family ``"vote-cap"``), but how
    often each teacher voted is lost, so going on means opening, and paying for, a new run.

    Attributes
    ----------
    session : VoteCapSession
        Holds the teachers' vote counts, which are sensitive and do not show.
    guarantee : Guarantee
        Covers every answer of the run, however many there will be.
    statement : PrivacyStatement
        Likewise; with a ledger its head is that of the last answers.
    release : int or None
        Its number in the ledger.

    Examples
    --------
    >>> run = open_vote_cap(VoteCap(max_votes=5, sigma=20.0), n_teachers=90, classes=2, budget=Budget(1.0, 1e-5))
    >>> run.guarantee.epsilon < 1, run.statement.released
    (True, 'noisy labels of any number of public rows, chosen adaptively')
    """

    def __init__(
        self, paid: PaidVotes, guarantee: Guarantee, statement: PrivacyStatement, *, ledger: Ledger | None = None
    ) -> None:
        self.session, self.release = paid.session, paid.release
        self.guarantee = guarantee
        self.statement = statement
        self._paid, self._ledger = paid, ledger
        self._n_asked = 0
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"VoteCapRun({self.session!r}, release={self.release}, guarantee={self.guarantee})"

    def ask(self, labels: npt.ArrayLike, *, query_hashes: Sequence[str] | None = None) -> Draw:
        """Release noisy winners for labels of shape (n_teachers, n_queries); see :meth:`VoteCapSession.ask`.

        Parameters
        ----------
        labels : array-like of shape (n_teachers, n_queries)
        query_hashes : sequence of str or None
            One digest per public row (:func:`pate.votes.hash_queries`): a row this run answered before gets its answer
            again, free of votes, and the ledger can find it. None numbers the queries.

        Raises
        ------
        InvalidInputError
            Wrong labels, or a copy of the run in a forked process.
        LedgerError
            The answers could not be stored, or a copy of the run stored others; none is returned, the votes are spent.

        Examples
        --------
        >>> run = open_vote_cap(VoteCap(max_votes=5, sigma=5.0), n_teachers=90, classes=2, budget=Budget(5.0, 1e-5))
        >>> run.ask([[0]] * 80 + [[-1]] * 10).labels
        array([0])
        """
        self.session._check_process()
        with self._turn:  # two threads that ask about one row must get one answer
            return self._ask(labels, query_hashes)

    def _ask(self, labels: npt.ArrayLike, query_hashes: Sequence[str] | None) -> Draw:
        array = np.asarray(labels)
        if query_hashes is not None and (array.ndim != 2 or len(query_hashes) != array.shape[1]):
            raise InvalidInputError(
                f"query_hashes must name every query, got {len(query_hashes)} for labels of shape {array.shape}."
            )
        if self._ledger is None or query_hashes is None:
            n_queries = array.shape[1] if array.ndim == 2 else 0
            return self._draw(array, [f"#{self._n_asked + i}" for i in range(n_queries)])
        # Which rows are asked depends on what was released before, so it may.
        stored = self._ledger.stored(list(query_hashes), VoteCap.family, release=self.release)
        known = {key: answer.label for key, answer in stored.items()}
        fresh = list(dict.fromkeys(key for key in query_hashes if key not in known))
        where = {key: i for i, key in reversed(list(enumerate(query_hashes)))}
        draw = self._draw(array[:, [where[key] for key in fresh]], fresh)
        known |= dict(zip(fresh, draw.labels.tolist(), strict=True))
        found = np.array([known[key] for key in query_hashes], dtype=np.int64)
        return Draw(found, np.full(len(found), "answered", dtype="<U9"))

    def _draw(self, labels: npt.NDArray[Any], keys: Sequence[str]) -> Draw:
        self._n_asked += len(keys)  # first: answers that could not be stored keep their numbers
        draw, head = self._paid.draw(labels, keys)
        if head is not None:
            self.statement = replace(self.statement, ledger_head=head)
            bind_statement(self.statement, self._ledger)
        return draw


def open_vote_cap(
    mechanism: VoteCap,
    *,
    n_teachers: int,
    classes: object,
    budget: Budget,
    ledger: Ledger | None = None,
    unit: str = "record",
    n_units: int | None = None,
    fingerprint: str | None = None,
    noise_seed: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
) -> VoteCapRun:
    """Charge a whole run of capped votes and open it.

    Parameters
    ----------
    mechanism : VoteCap
    n_teachers : int
        Teachers of disjoint shards; fixed for the run.
    classes : iterable or int
        Class values, or their number.
    budget : Budget
        The most this run may cost.
    ledger : Ledger or None
        Also stay within its total; the charge is stored before the run is opened, every answer before it is returned.
    unit : {"record", "group"}
    n_units : int or None
        Number of protected units, to warn of a weak delta.
    fingerprint : str or None
        Of the private records (``votes.fingerprint``), by which the ledger recognises them. **Sensitive.**
    noise_seed : int or None
        For tests only: the guarantee then says that nothing is private.
    tuning, stated
        See :func:`pate.release_labels`; a person may also state how ``abstaining`` was ensured.

    Returns
    -------
    VoteCapRun

    Raises
    ------
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy the run; nothing was spent.
    InvalidInputError
        A bad parameter.

    Examples
    --------
    >>> open_vote_cap(VoteCap(max_votes=99, sigma=5.0), n_teachers=90, classes=2, budget=Budget(1.0, 1e-5))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=1.0, delta=1e-05) does not buy ...
    """
    if not isinstance(mechanism, VoteCap):
        raise InvalidInputError(f"mechanism must be VoteCap(max_votes, sigma), got {shown(mechanism)}.")
    terms = ReleaseTerms(budget=budget, ledger=ledger, noise_seed=noise_seed, tuning=tuning, stated=stated)
    values = check_classes(range(classes) if isinstance(classes, int) else classes)
    stated = check_release_stated(stated, unit=unit, also=("abstaining",))
    n_teachers = check_int("n_teachers", n_teachers, low=1)
    data = Registration(unit, values, n_units=n_units, n_shards=n_teachers, fingerprint=fingerprint)
    warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)
    paid = Door(terms, data).capped_votes(mechanism, n_teachers=n_teachers, n_classes=len(values))
    charge = mechanism.charge()
    guarantee = charge.guarantee(budget.delta)
    statement = made_statement(
        released="noisy labels of any number of public rows, chosen adaptively",
        unit=unit,
        n_units=n_units,
        guarantee=guarantee,
        mechanism=f"{mechanism}, {n_teachers} teachers, {len(values)} classes",
        accounting=(
            f"{_ACCOUNTING[guarantee.method]}; a constant for the whole run, fully adaptive (filter on the changed "
            "teacher's votes: Smith and Thakurta 2022; Feldman and Zrnic 2021, Theorem 3.1)"
        ),
        noise_source=_NOISE,
        seeded=terms.seeded,
        covered=("the released labels and everything computed from them and from public data",),
        not_covered=(
            "the teachers, their votes, which of them abstained and every file made from those",
            _others(ledger),
        ),
        assumptions=(
            *make_assumptions(unit=unit, classes_inferred=False, seeded=terms.seeded, classes_named=True),
            Assumption(
                "abstaining", "whether a teacher abstains depends on its own shard and on earlier answers alone"
            ),
        ),
        verify=f"from pate.mechanisms import VoteCap; {mechanism}.charge().guarantee({budget.delta!r})",
        charge=charge,
        ledger=ledger,
        releases=() if paid.release is None else (paid.release,),
        tuning=tuning,
        stated=stated,
    )
    bind_statement(statement, ledger)
    return VoteCapRun(paid, statement.guarantee, statement, ledger=ledger)
