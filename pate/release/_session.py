"""Adaptive labelling: a number of queries is paid for whole, then asked in as many rounds as one likes."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np

from pate.core.checks import check_choice, check_classes, check_int, shown
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.ledger import Answer, Ledger, Registration
from pate.mechanisms import ANSWERED, NOT_ASKED, Mechanism
from pate.noise.source import NoiseSource
from pate.privacy.budget import Budget, check_budget
from pate.release._assumptions import check_release_stated
from pate.release._labels import LabelRelease
from pate.release._lock import answers_to_store, assembled, distinct, stored_answers
from pate.release._quote import Quote, quote, warn_if_weak
from pate.release._resume import Claim, StoredSoFar, left_over, mark_of
from pate.release._statement import make_statement
from pate.statement.model import PrivacyStatement
from pate.votes import Voter, Votes


class LabelSession:
    """Queries that are paid for and not yet asked; :func:`open_session` makes it.

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
    >>> from pate import Budget, GNMax, Votes
    >>> session = open_session(GNMax(sigma=2.0), n_queries=3, n_teachers=100, classes=2, budget=Budget(10.0, 1e-5))
    >>> session.ask(Votes.from_counts([[98, 2], [5, 95]])).labels, session.n_left
    (array([0, 1]), 1)
    >>> session.ask(Votes.from_counts([[98, 2], [5, 95]]))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: this session has 1 of its 3 queries left, and 2 new ones were asked. ...
    """

    def __init__(
        self,
        mechanism: Mechanism,
        price: Quote,
        data: Registration,
        classes: tuple[Any, ...],
        *,
        budget: Budget,
        noise: NoiseSource,
        tuning: str,
        stated: Mapping[str, str],
        classes_inferred: bool = False,
        ledger: Ledger | None = None,
        release: int | None = None,
        n_used: int = 0,
        claim: Claim | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.quote = price
        self.release = release
        self._data, self._classes, self._classes_inferred = data, classes, classes_inferred
        self._budget, self._noise, self._tuning, self._ledger = budget, noise, tuning, ledger
        self._stated = stated
        self._n_used = n_used
        # After a crash nobody knows how many of the used ones were refused: all count as answered.
        self._n_answered = n_used
        self._known: dict[str, Answer] = {}
        self._stored = None if ledger is None or release is None else StoredSoFar(ledger, release, n_used)
        self._claim = claim
        self._turn = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._in_doubt = False

    def __repr__(self) -> str:
        return (
            f"LabelSession({self.mechanism}, n_queries={self.quote.n_queries}, n_left={self.n_left}, "
            f"guarantee={self.quote.guarantee})"
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidInputError("a session cannot be copied or stored: each copy would ask all that was paid for once.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ask nothing more; what is left can be taken up again by name, if the session has a ledger and a name.

        Examples
        --------
        >>> from pate import Budget, GNMax
        >>> with open_session(GNMax(2.0), n_queries=3, n_teachers=9, classes=2, budget=Budget(10.0, 1e-5)) as session:
        ...     session.n_left
        3
        """
        if os.getpid() != self._process:
            # A forked copy: the lock's file, and a turn that was taken when it was made, belong to the other process.
            self._closed = True
            if self._claim is not None:
                self._claim.let_go()
            return
        with self._turn:  # an answer on its way is stored before anybody else may go on
            self._closed = True
            if self._claim is not None:
                # Nothing left, and the file agrees: whoever takes it up again has nothing to ask either.
                self._claim.let_go(remove=not self.n_left and not self._in_doubt)

    @property
    def n_left(self) -> int:
        """How many queries may still be asked."""
        if self.mechanism.may_refuse and self._n_answered >= self.quote.max_answers:
            return 0
        return max(0, self.quote.n_queries - self._n_used)

    def ask(self, votes: Votes, *, on_exhausted: str = "raise") -> LabelRelease:
        """Release labels for these votes; rows asked before give their stored answer and use up nothing.

        Which rows to ask about may depend on every label released so far, and on public data: never on votes.

        Parameters
        ----------
        votes : Votes
            Of the teachers the session was opened for.
        on_exhausted : {"raise", "abstain"}
            When more new queries come than are left: ask none of them, or the first ones.

        Returns
        -------
        LabelRelease
            Its quote, guarantee and statement are the whole session's.

        Raises
        ------
        BudgetExceededError
            More new queries than are left; nothing was asked.
        InvalidInputError
            Votes of other teachers, classes or units; a copy of the session in a forked process.
        LedgerError
            The answers could not be stored, or somebody else goes on with this session; none is returned, and the
            queries count as asked.

        Examples
        --------
        >>> from pate import Budget, GNMax, Votes
        >>> session = open_session(GNMax(sigma=2.0), n_queries=1, n_teachers=9, classes=2, budget=Budget(9.0, 1e-5))
        >>> session.ask(Votes.from_counts([[9, 0], [0, 9]]), on_exhausted="abstain").status.tolist()
        ['answered', 'not asked']
        """
        check_choice("on_exhausted", on_exhausted, ["raise", "abstain"])
        self._check(votes)
        with self._turn:
            if self._closed:
                raise InvalidInputError("this session is closed. Open it again, by its name if it has one.")
            return self._ask(votes, on_exhausted)

    def stream(self, voter: Voter, batches: Iterable[Any]) -> Iterator[LabelRelease]:
        """Ask about batches of public rows, one release per batch, until all that was paid for is asked.

        Only one batch of votes is in memory at a time; the generator of batches may look at the releases so far.

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

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from pate import Budget, GNMax, TeacherEnsemble
        >>> X, y = np.arange(40.0).reshape(40, 1), np.repeat([0, 1], 20)
        >>> teachers = TeacherEnsemble(GaussianNB(), 4, classes=(0, 1), random_state=0).fit(X, y)
        >>> session = open_session(GNMax(2.0), n_queries=5, n_teachers=4, classes=(0, 1), budget=Budget(9.0, 1e-5),
        ...     n_units=40)
        >>> [release.n_queries for release in session.stream(teachers, (X[i : i + 2] for i in range(0, 40, 2)))]
        [2, 2, 2]
        """
        # Votes by teacher are of no use here, and there are teachers x rows of them.
        lean = {"keep_labels": False} if "keep_labels" in inspect.signature(voter.vote).parameters else {}
        for rows in batches:
            if not self.n_left:
                return
            yield self.ask(voter.vote(rows, **lean), on_exhausted="abstain")

    def _check(self, votes: Votes) -> None:
        if os.getpid() != self._process:
            raise InvalidInputError(
                "this session was opened in another process, which may be asking too. Open it again there, or here by "
                "its name when the other process has ended."
            )
        if not isinstance(votes, Votes):
            raise InvalidInputError(
                f"votes must be pate.Votes, got {type(votes).__name__}. Use Votes.from_counts or Votes.from_labels."
            )
        for name, found, wanted in (
            ("n_teachers", votes.n_teachers, self._data.n_shards),
            ("classes", votes.classes, self._classes),
            ("unit", votes.unit, self._data.unit),
            ("n_units", votes.n_units, self._data.n_units),
        ):
            if found != wanted and not (name == "n_units" and None in (found, wanted)):
                raise InvalidInputError(
                    f"votes must have {name}={wanted!r} like the session, got {found!r}. Open another for these."
                )
        if self._ledger is not None and votes.query_hashes is None:
            raise InvalidInputError(
                "votes of a session with a ledger need query_hashes (pate.votes.hash_queries of the public rows): "
                "answers are stored under them."
            )
        if self._data.fingerprint is not None and votes.fingerprint not in (None, self._data.fingerprint):
            raise InvalidInputError("votes come from other private records than the session's. Open one for those.")

    def _ask(self, votes: Votes, on_exhausted: str) -> LabelRelease:
        mechanism = self.mechanism
        first, same_as = distinct(votes)
        known = stored_answers(votes, first, mechanism, self._ledger)
        if votes.query_hashes is not None:
            known |= {int(i): self._known[h] for i in first if (h := votes.query_hashes[i]) in self._known}
        fresh = np.array([i for i in first if i not in known], dtype=np.int64)
        n_left = self.n_left
        if len(fresh) > n_left and on_exhausted == "raise":
            raise BudgetExceededError(
                f"this session has {n_left} of its {self.quote.n_queries} queries left, and {len(fresh)} new ones were "
                "asked. Ask fewer, or pass on_exhausted='abstain'. Nothing was asked."
            )
        asked = fresh[:n_left]
        cap = self.quote.max_answers - self._n_answered if mechanism.may_refuse else None
        # Used up before anything is drawn: whatever fails from here on, no query is asked twice for one price.
        self._n_used += len(asked)
        draw = mechanism.sample(votes.counts[asked], self._noise, max_answers=cap)
        self._n_answered += int((draw.status == ANSWERED).sum())
        sources = {answer.release for answer in known.values() if answer.release}
        head = None
        if self._stored is not None and self.release is not None:
            sources.add(self.release)
            if len(asked):
                before, self._in_doubt = self._in_doubt, True
                n_new = int((draw.status != NOT_ASKED).sum())
                head = self._stored.add(answers_to_store(votes, mechanism, draw, asked), n_new)
                self._in_doubt = before

        labels, status, noisy = assembled(votes, draw, asked, known)
        if votes.query_hashes is not None and self._ledger is None:
            for i in asked[status[asked] != NOT_ASKED]:
                counts = None if noisy is None else tuple(noisy[i].tolist())
                self._known[votes.query_hashes[i]] = Answer(int(labels[i]), counts, 0)
        statement = self._statement(votes, sources, head)
        return LabelRelease(
            labels[same_as],
            status[same_as],
            votes.classes,
            mechanism,
            self.quote,
            statement.guarantee,
            statement,
            None if noisy is None else noisy[same_as],
        )

    def _statement(self, votes: Votes, sources: set[int], head: str | None) -> PrivacyStatement:
        statement = make_statement(
            replace(
                votes, n_units=self._data.n_units, classes_inferred=votes.classes_inferred | self._classes_inferred
            ),
            self.mechanism,
            self.quote,
            self._budget,
            self._ledger,
            sources,
            seeded=self._noise.seeded,
            tuning=self._tuning,
            stated=self._stated,
            classes_named=True,
            head=head,
        )
        if len(sources) > 1:  # then the statement is about the ledger's total, adaptive by its filter
            return statement
        return replace(
            statement,
            released=f"{statement.released}, in rounds: which rows a round asks about may depend on earlier answers "
            "(adaptive)",
            accounting=f"{statement.accounting}; adaptive: the number of queries and the noise were fixed, and all of "
            "it charged, before the first round; every charge is a public worst-case constant",
        )


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
    """Charge a number of queries whole, to be asked in rounds, each perhaps chosen by what earlier ones answered.

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

    Returns
    -------
    LabelSession

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
    >>> open_session(GNMax(sigma=40.0), n_queries=300, n_teachers=250, classes=10, budget=Budget(3.0, 1e-5)).n_left
    300
    >>> open_session(GNMax(sigma=1.0), n_queries=300, n_teachers=250, classes=10, budget=Budget(3.0, 1e-5))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=3.0, delta=1e-05) buys 0 of these 300 queries ...
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidInputError(f"mechanism must be a mechanism such as GNMax(sigma=40), got {shown(mechanism)}.")
    n_queries = check_int("n_queries", n_queries, low=1)
    check_int("n_teachers", n_teachers, low=1)
    values = check_classes(range(classes) if isinstance(classes, int) else classes)
    check_budget(budget)
    if name is not None and (not isinstance(name, str) or not name or ledger is None):
        raise InvalidInputError(f"name must be some text, and needs a ledger, got {name!r} and ledger={ledger!r}.")
    data = Registration(unit, values, n_units=n_units, n_shards=n_teachers, fingerprint=fingerprint)
    stated = check_release_stated(stated, unit=unit, classes_inferred=classes_inferred)
    warn_if_weak(budget.delta, n_units)
    noise = NoiseSource(noise_seed)
    terms: dict[str, Any] = {"max_answers": max_answers, "on_exhausted": on_exhausted}
    keep: dict[str, Any] = {
        "budget": budget,
        "noise": noise,
        "tuning": tuning,
        "stated": stated,
        "classes_inferred": classes_inferred,
    }
    if ledger is None:
        price = quote(n_queries, mechanism, budget=budget, **terms)
        return LabelSession(mechanism, price, data, values, **keep)

    ledger.check(data)
    mark = mark_of(name, mechanism, n_queries, n_teachers, budget, terms, seeded=noise.seeded)
    claim = None if mark is None else Claim(ledger.path, mark)
    try:
        left = None if mark is None else left_over(ledger, mark, budget)
        if left is not None:
            release, price, n_used = left
            # As whenever records are charged for: after Ledger.revise the first ones to come are the ledger's.
            ledger.register(data)
        else:
            price = quote(n_queries, mechanism, budget=budget, ledger=ledger, **terms)
            ledger.open_total(ledger.total or budget)
            release, n_used = (
                ledger.record(
                    price.charge,
                    mechanism=str(mechanism),
                    n_queries=price.n_queries,
                    facts={
                        "max_answers": price.max_answers,
                        "n_teachers": n_teachers,
                        "adaptive": True,
                    },
                    request=mark or "",
                    seeded=noise.seeded,
                    open_ended=True,
                    registration=data,
                    kind="session",
                ),
                0,
            )
    except BaseException:
        if claim is not None:
            claim.let_go()
        raise
    return LabelSession(
        mechanism, price, data, values, ledger=ledger, release=release, n_used=n_used, claim=claim, **keep
    )
