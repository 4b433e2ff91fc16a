"""Adaptive labelling: a number of queries is paid for at once, then asked in any number of rounds."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_classes, check_int, shown
from pate._core.types import FloatArray
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.ledger import Answer, Ledger, Registration
from pate.mechanisms import ConfidentGNMax, Draw, Mechanism, VoteCap
from pate.privacy.budget import Budget
from pate.privacy.offsets import check_offsets
from pate.release._ballot_session import PaidCounts
from pate.release._labels import LabelRelease
from pate.release._pipeline import lean
from pate.release._quote import Quote, ReleaseTerms, price_as_planned, warn_if_weak
from pate.release._release_labels import Questions, check_mechanism, check_votes
from pate.release._statement import (
    _ACCOUNTING,
    _others,
    check_release_stated,
    make_assumptions,
    make_statement,
    statement_of,
)
from pate.release._stored import (
    Claim,
    OneHolder,
    check_alike,
    check_name,
    claimed,
    left_over,
    mark_of,
    weaknesses,
)
from pate.release._transaction import PaidQueries, PaidVotes, Transaction
from pate.release.statement.fields import Assumption
from pate.release.statement.files import bind_statement
from pate.release.statement.model import PrivacyStatement
from pate.votes import BallotVotes, Voter, Votes


class LabelSession(OneHolder):
    """A session of queries that are paid for and asked in rounds; :func:`pate.open_session` makes it.

    Attributes
    ----------
    mechanism : Mechanism
    quote : Quote
        What was charged when the session was opened: it covers every answer.
    n_left : int
        How many queries may still be asked. Public.
    release : int or None
        Its number in the ledger.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, open_session
    >>> session = open_session(
    ...     GNMax(sigma=2.0),
    ...     n_queries=3,
    ...     n_teachers=100,
    ...     classes=2,
    ...     budget=Budget(10.0, 1e-5),
    ... )
    >>> session.ask(Votes.from_counts([[98, 2], [5, 95]])).labels, session.n_left
    (array([0, 1]), 1)
    >>> session.ask(Votes.from_counts([[98, 2], [5, 95]]))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: this session has 1 of its 3 queries left, and 2 new ones were asked. ...
    """

    _elsewhere = (
        "this session was opened in another process, which may be asking too. Open it again there, or here by its name "
        "when the other process has ended."
    )

    def __init__(
        self,
        paid: PaidQueries,
        terms: ReleaseTerms,
        data: Registration,
        classes: tuple[Any, ...],
        *,
        classes_inferred: bool = False,
        claim: Claim | None = None,
    ) -> None:
        self.mechanism, self.quote, self.release = paid.mechanism, paid.quote, paid.release
        self._paid, self._terms, self._data, self._classes = paid, terms, data, classes
        self._classes_inferred = classes_inferred
        self._known: dict[str, Answer] = {}
        self._counts: PaidCounts | None = None
        super().__init__(claim)

    def __repr__(self) -> str:
        return (
            f"LabelSession({self.mechanism}, n_queries={self.quote.n_queries}, n_left={self.n_left}, "
            f"guarantee={self.quote.guarantee})"
        )

    def _used_up(self) -> bool:
        return not self.n_left and not self._paid.stored.failed

    @property
    def n_left(self) -> int:
        """How many queries may still be asked."""
        return self._paid.n_left

    def counts(self) -> PaidCounts | None:
        """Return the counts of right answers that were charged with the queries; None where none were.

        They are of the records that the votes so far were of, and outlive the session.
        """
        if self._counts is None and self._paid.counts is not None:
            self._counts = PaidCounts(self._paid.counts, self._terms, self._data)
        return self._counts

    def ask(
        self, votes: Votes | BallotVotes, *, on_exhausted: str = "raise", offsets: npt.ArrayLike | None = None
    ) -> LabelRelease:
        """Release labels for these votes; rows asked before give their stored answer and use up nothing.

        Which rows to ask about may depend on every label released so far, and on public data: never on votes.

        Parameters
        ----------
        votes : Votes or BallotVotes
            Votes of the teachers for which the session was opened.
        on_exhausted : {"raise", "abstain"}
            When more new queries come than are left: ask none of them, or the first ones.
        offsets : array-like of shape (n_queries, n_classes), or None
            Of :class:`pate.ConfidentGNMax`, for these queries: votes that the test takes off each count
            (Interactive-GNMax: a public student's probabilities times the number of teachers). What they may depend on
            is what rows may depend on; the price is the same for any.

        Returns
        -------
        LabelRelease
            Its quote, guarantee and statement are the whole session's.

        Raises
        ------
        BudgetExceededError
            More new queries than are left; nothing was asked.
        InvalidInputError
            Votes of other teachers, classes, units or private records; a copy of the session in a forked process.
        LedgerError
            The ledger is for other private records than these; nothing was asked. Or the answers could not be stored,
            or another process goes on with this session: none is returned, and the queries count as asked.
        """
        check_choice("on_exhausted", on_exhausted, ["raise", "abstain"])
        self._check(votes)
        if offsets is not None:
            offsets = self._check_offsets(offsets, votes)
        with self._turn:
            self._check_open()
            self._check_owners(votes)
            release = self._ask(votes, on_exhausted, offsets)
            self.bind(release.statement)
            return release

    def bind(self, statement: PrivacyStatement) -> None:
        """Let the ledger, if there is one, know a statement of this session's answers."""
        bind_statement(statement, self._terms.ledger)

    def stream(self, voter: Voter, batches: Iterable[Any]) -> Iterator[LabelRelease]:
        """Ask about batches of public rows, one release per batch, until all that was paid for is asked.

        Only one batch of votes is in memory at a time; the generator of batches may read the releases so far.

        Parameters
        ----------
        voter : Voter
            Such as a fitted :class:`pate.TeacherEnsemble`.
        batches : iterable of arrays or DataFrames
            Public rows.

        Yields
        ------
        LabelRelease
            The last one may leave rows "not asked".
        """
        options = lean(voter)
        for rows in batches:
            if not self.n_left:
                return
            yield self.ask(voter.vote(rows, **options), on_exhausted="abstain")

    def _check(self, votes: Votes | BallotVotes) -> None:
        self._check_process()
        check_votes(votes, self.mechanism)
        check_alike(
            "votes",
            ("n_teachers", votes.n_teachers, self._data.n_shards),
            ("classes", votes.classes, self._classes),
            ("unit", votes.unit, self._data.unit),
        )
        if self._terms.ledger is not None and votes.query_hashes is None:
            raise InvalidInputError(
                "votes of a session with a ledger need query_hashes (pate.votes.hash_queries of the public rows): "
                "answers are stored under them."
            )

    def _check_offsets(self, offsets: npt.ArrayLike, votes: Votes | BallotVotes) -> FloatArray:
        if not isinstance(self.mechanism, ConfidentGNMax) or self.mechanism.offsets is not None:
            raise InvalidInputError(
                f"offsets must be None for a session of {self.mechanism}. Open one of ConfidentGNMax that has none of "
                "its own."
            )
        held = np.asarray(check_offsets(offsets, n_queries=votes.n_queries, n_classes=votes.n_classes))
        return np.broadcast_to(held, votes.counts.shape)

    def _check_owners(self, votes: Votes | BallotVotes) -> None:
        """Refuse votes of other records; the first votes give what was not stated at opening."""
        data = self._data
        if data.n_units is not None and votes.n_units is not None:
            check_alike("votes", ("n_units", votes.n_units, data.n_units))
        if data.fingerprint is not None and votes.fingerprint not in (None, data.fingerprint):
            raise InvalidInputError("votes come from other private records than the session's. Open one for those.")
        said = replace(
            data,
            n_units=votes.n_units if data.n_units is None else data.n_units,
            fingerprint=votes.fingerprint if data.fingerprint is None else data.fingerprint,
        )
        if said != data:
            if self._terms.ledger is not None:
                self._terms.ledger.register(said)
            self._data = said

    def _ask(self, votes: Votes | BallotVotes, on_exhausted: str, offsets: FloatArray | None) -> LabelRelease:
        mechanism, ledger = self.mechanism, self._terms.ledger
        votes = replace(
            votes, n_units=self._data.n_units, classes_inferred=votes.classes_inferred | self._classes_inferred
        )
        questions = Questions.of(votes, mechanism, ledger, self._known)
        n_left, fresh = self.n_left, questions.fresh
        if len(fresh) > n_left and on_exhausted == "raise":
            raise BudgetExceededError(
                f"this session has {n_left} of its {self.quote.n_queries} queries left, and {len(fresh)} new ones were "
                "asked. Ask fewer, or pass on_exhausted='abstain'. Nothing was asked."
            )
        asked = fresh[:n_left]
        given = None if offsets is None or not len(asked) else np.ascontiguousarray(offsets[asked])
        digest = "" if given is None else hashlib.sha256(given.astype("<f8").tobytes()).hexdigest()
        facts = weaknesses(votes) | ({"offsets": digest} if digest else {})
        draw, head = self._paid.draw(votes.counts[asked], questions.to_store(asked), facts, offsets=given)
        if votes.query_hashes is not None and ledger is None:
            for key, _, label, counts in questions.to_store(asked)(draw):
                self._known[key] = Answer(label, None if counts is None else tuple(map(float, counts)), 0)
        statement = self._statement(votes, questions.sources(self.release), head, digest)
        return questions.answered(draw, asked, self.quote, statement, self.quote.counts)

    def _statement(
        self, votes: Votes | BallotVotes, sources: set[int], head: str | None, offsets: str
    ) -> PrivacyStatement:
        statement = make_statement(
            votes,
            self.mechanism,
            self.quote,
            self._terms,
            sources,
            classes_named=True,
            head=head,
        )
        if len(sources) > 1:  # then the statement is about the ledger's total, adaptive by its filter
            return statement
        return replace(
            statement,
            released=f"{statement.released}, in rounds: which rows a round asks about may depend on earlier answers "
            "(adaptive)",
            mechanism=f"{statement.mechanism}; the test takes offsets off the counts, given with each round, which may "
            f"depend on earlier answers (this round's: SHA-256 {offsets})"
            if offsets
            else statement.mechanism,
            accounting=f"{statement.accounting}; adaptive: the number of queries and the noise were fixed, and all of "
            "it charged, before the first round; every charge is a public worst-case constant",
        )


# Opening a session: a number of queries is paid for whole, or one that was left is taken up again.


def open_session(
    mechanism: Mechanism,
    *,
    n_queries: int,
    n_teachers: int,
    classes: object,
    budget: Budget,
    ledger: Ledger | None = None,
    max_answers: int | None = None,
    on_exhausted: str = "raise",
    unit: str = "record",
    n_units: int | None = None,
    fingerprint: str | None = None,
    classes_inferred: bool = False,
    name: str | None = None,
    noise_seed: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
) -> LabelSession:
    """Pay for a number of queries at once, then ask them in rounds; each round may depend on earlier answers.

    Parameters
    ----------
    mechanism : Mechanism
    n_queries : int
        How many new public rows the session may ask about in all.
    n_teachers : int
    classes : iterable or int
        Class values, or their number.
    budget : Budget
        The most this session may cost.
    ledger : Ledger or None
        Also stay within its total. The charge is stored before the session is opened, every answer before it is
        returned.
    max_answers, on_exhausted
        See :func:`pate.quote`.
    unit : {"record", "group"}
    n_units : int or None
    fingerprint : str or None
        Of the private records (``votes.fingerprint``). **Sensitive.**
    classes_inferred : bool
        The classes were read off the private labels, which the statement then says.
    name : str or None
        With a ledger: a session of this name, price and mechanism that was left (a crash, say) is taken up again
        with what it has left, and nothing is charged. One process at a time may hold it, by a lock that ends with the
        process, however that ends; on systems without such locks (Windows) the name is ignored.
    noise_seed : int or None
        For tests only: the statement then says that nothing is private.
    tuning, stated
        See :func:`pate.release_labels`.

    Guarantees
    ----------
    Replace-one adjacency, both directions, fully adaptive queries. The number of queries asked, the cap on answers and
    the noise are constants fixed beforehand, so on every path of rounds the Renyi divergence at each order, mu^2 and
    pure epsilon are at most the charge's (adaptive composition; where refusals make the cost of a query depend on its
    answer: Feldman and Zrnic 2021, Theorem 3.1, whose filter the two caps are).

    Raises
    ------
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy the queries; nothing was spent.
    InvalidInputError
        A bad parameter.
    LedgerError
        The ledger could not be written, or another process holds the session of this name.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> open_session(
    ...     GNMax(sigma=40.0),
    ...     n_queries=300,
    ...     n_teachers=250,
    ...     classes=10,
    ...     budget=Budget(3.0, 1e-5),
    ... ).n_left
    300
    >>> open_session(
    ...     GNMax(sigma=1.0),
    ...     n_queries=300,
    ...     n_teachers=250,
    ...     classes=10,
    ...     budget=Budget(3.0, 1e-5),
    ... )
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=3.0, delta=1e-05) buys 0 of these 300 queries ...
    """
    terms = ReleaseTerms(
        budget=budget,
        ledger=ledger,
        max_answers=max_answers,
        on_exhausted=on_exhausted,
        noise_seed=noise_seed,
        tuning=tuning,
        stated=stated,
    )
    values = check_classes(range(classes) if isinstance(classes, int) else classes)
    n_shards = check_int("n_teachers", n_teachers, low=1)
    data = Registration(unit, values, n_units=n_units, n_shards=n_shards, fingerprint=fingerprint)
    warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)
    return opened(mechanism, terms, data, values, n_queries=n_queries, classes_inferred=classes_inferred, name=name)


def opened(
    mechanism: Mechanism,
    terms: ReleaseTerms,
    data: Registration,
    classes: tuple[Any, ...],
    *,
    n_queries: int,
    classes_inferred: bool = False,
    name: str | None = None,
    planned: tuple[int, Quote] | None = None,
) -> LabelSession:
    """Return what :func:`open_session` does, on terms that are checked already, for teachers of ``data.n_shards``.

    ``planned`` is a number of queries and its price, see :func:`price_as_planned`.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> data = Registration("record", ("no", "yes"), n_shards=250)
    >>> opened(
    ...     GNMax(sigma=40.0),
    ...     ReleaseTerms(budget=Budget(3.0, 1e-5)),
    ...     data,
    ...     ("no", "yes"),
    ...     n_queries=30,
    ... ).n_left
    30
    """
    check_mechanism(mechanism, len(classes))
    n_queries, n_teachers, ledger = check_int("n_queries", n_queries, low=1), data.n_shards, terms.ledger
    if n_teachers is None:
        raise InvalidInputError("data must say the number of teachers, n_shards, got None.")
    check_name(name, ledger, f"{name!r} and ledger={ledger!r}")
    check_release_stated(terms.stated, unit=data.unit, classes_inferred=classes_inferred, mechanism=mechanism)
    transaction = Transaction(terms, data)
    mark = mark_of(name, mechanism, terms, n_queries, n_teachers)

    def take() -> PaidQueries:
        left = None if mark is None or ledger is None else left_over(ledger, mark, terms.budget)
        if left is not None:
            return transaction.session_again(mechanism, left)
        return transaction.session(
            mechanism, price_as_planned(n_queries, mechanism, terms, planned), request=mark or ""
        )

    paid, claim = claimed(ledger, mark, take)
    return LabelSession(paid, terms, data, classes, classes_inferred=classes_inferred, claim=claim)


# Capped votes: a run is paid for whole before its first answer.


class VoteCapRun:
    """A run of :class:`pate.VoteCap` that is paid for and open; :func:`open_vote_cap` makes it.

    With a ledger every answer is stored before it is returned, as part of the release that was charged for all of them.
    After a crash those answers are in the ledger (:meth:`pate.Ledger.stored`, family ``"vote-cap"``), but how often
    each teacher voted is lost: to go on you have to open, and pay for, a new run.

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
    >>> run = open_vote_cap(
    ...     VoteCap(max_votes=5, sigma=20.0),
    ...     n_teachers=90,
    ...     classes=2,
    ...     budget=Budget(1.0, 1e-5),
    ... )
    >>> run.guarantee.epsilon < 1, run.statement.released
    (True, 'noisy labels of any number of public rows, chosen adaptively')
    """

    def __init__(self, paid: PaidVotes, statement: PrivacyStatement, ledger: Ledger | None) -> None:
        self.session, self.release = paid.session, paid.release
        self.guarantee, self.statement = statement.guarantee, statement
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
    """Pay for a whole run of :class:`pate.VoteCap` and open it: each teacher votes at most so many times.

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

    Raises
    ------
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy the run; nothing was spent.
    InvalidInputError
        A bad parameter.

    Examples
    --------
    >>> open_vote_cap(
    ...     VoteCap(max_votes=99, sigma=5.0),
    ...     n_teachers=90,
    ...     classes=2,
    ...     budget=Budget(1.0, 1e-5),
    ... )
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=1.0, delta=1e-05) does not buy ...
    """
    if not isinstance(mechanism, VoteCap):
        raise InvalidInputError(f"mechanism must be VoteCap(max_votes, sigma), got {shown(mechanism)}.")
    terms = ReleaseTerms(budget=budget, ledger=ledger, noise_seed=noise_seed, tuning=tuning, stated=stated)
    values = check_classes(range(classes) if isinstance(classes, int) else classes)
    check_release_stated(stated, unit=unit, also=("abstaining",))
    n_teachers = check_int("n_teachers", n_teachers, low=1)
    data = Registration(unit, values, n_units=n_units, n_shards=n_teachers, fingerprint=fingerprint)
    warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)
    paid = Transaction(terms, data).capped_votes(mechanism, n_teachers=n_teachers, n_classes=len(values))
    charge = mechanism.charge()
    guarantee = charge.guarantee(budget.delta)
    statement = statement_of(
        terms,
        released="noisy labels of any number of public rows, chosen adaptively",
        unit=unit,
        n_units=n_units,
        guarantee=guarantee,
        mechanism=f"{mechanism}, {n_teachers} teachers, {len(values)} classes",
        accounting=(
            f"{_ACCOUNTING[guarantee.method]}; a constant for the whole run, fully adaptive (filter on the changed "
            "teacher's votes: Smith and Thakurta 2022; Feldman and Zrnic 2021, Theorem 3.1)"
        ),
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
        releases=() if paid.release is None else (paid.release,),
    )
    bind_statement(statement, ledger)
    return VoteCapRun(paid, statement, ledger)
