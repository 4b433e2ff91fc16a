"""The release transaction: every release is registered, then charged, and only then drawn; here and nowhere else.

The order is the same for labels, sessions, capped votes and sanitised numbers, and only
:meth:`Transaction._pay` sets it:

1. the owners of the data are compared with the ledger's registration;
2. the cost, worked out from the very arguments that will be sampled with, is taken from the budget and in the ledger;
3. noise is drawn: inside the ledger's write transaction, after the charge was found to fit, so that no one can spend
   between; charge and answers are committed together, and nothing is shown before that.

What is opened here for later (a session's queries, a run's capped votes) is paid for whole; its draws are counted here,
and stored in the ledger before they are shown. The noise source goes nowhere but into what this module makes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pate._core.events import event, is_logged
from pate._core.recorder import note, playing
from pate._core.types import FloatArray
from pate.exceptions import (
    BudgetExceededError,
    FederationError,
    InvalidInputError,
    LedgerError,
    PateError,
    ReplayError,
)
from pate.ledger import Ledger, NewAnswer, Registration
from pate.mechanisms import (
    ANSWERED,
    NOT_ASKED,
    ConfidentGNMax,
    Draw,
    GaussianSum,
    GNMax,
    Mechanism,
    SharedGaussian,
    SharedGNMax,
    VoteCap,
    VoteCapSession,
    rounds_charge,
)
from pate.privacy.cost import Charge
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity, release_smooth
from pate.records import BallotSum, RightCounts, VectorSum
from pate.release._quote import Quote, ReleaseTerms, sum_of_rounds
from pate.release._stored import Left, StoredSoFar, counts_to_store, statistics_to_store, with_counts

T = TypeVar("T")


def _nothing(drawn: Any) -> Iterator[NewAnswer]:
    return iter(())


def _check_replay(noise: NoiseSource) -> None:
    """Refuse to draw in a replay from what was paid for outside: a real answer would be spent, or another's."""
    if playing() is not None and not noise.in_replay:
        raise ReplayError(
            "a replay asks nothing of a session that was opened before it: that would use up what was paid for, and "
            "its answers are not private. Let the pipeline open a session of its own."
        )


class Transaction:
    """The way out for one private data set on one set of terms.

    ``data`` are compared with the ledger's, here already: another data set is refused before anything is priced.
    """

    def __init__(self, terms: ReleaseTerms, data: Registration) -> None:
        self._noise = NoiseSource(terms.noise_seed)
        # Terms may be older than a replay that draws by them.
        self.terms, self.data = replace(terms, in_replay=True) if self._noise.in_replay else terms, data
        if terms.ledger is not None:
            terms.ledger.check(data)

    def labels(
        self,
        mechanism: Mechanism,
        counts: npt.NDArray[np.int64],
        price: Quote,
        *,
        answers: Callable[[Draw], Iterable[NewAnswer]] = _nothing,
        facts: dict[str, Any] | None = None,
        request: str = "",
    ) -> tuple[Draw, int | None, PaidBallots | None]:
        """Charge for these queries, at most ``price.max_answers`` answers and the terms' counts; then draw the answers.

        ``counts`` (n_queries, n_classes) are of the queries that are asked, and of no others; on terms of tiers
        (n_tiers, n_queries, n_classes), which are weighed here, where their units are charged. ``answers`` says what of
        a draw the ledger is to hold, ``facts`` what of the votes (:func:`weaknesses`). Returns the draw, its number in
        the ledger (None without one, or where nothing is charged), and the counts of right answers to be drawn later.
        """
        terms = self.terms
        asked: npt.NDArray[Any] = counts if terms.tiers is None else terms.tiers.weigh(counts)

        def draw() -> Draw:
            return mechanism.sample(asked, self._noise, max_answers=price.max_answers)

        if not len(asked) and not terms.counts:  # all of them are stored, and paid for
            return draw(), None, None
        drawn, release = self._pay(
            terms.with_counts(mechanism.charge(len(asked), price.max_answers)),
            draw,
            mechanism=with_counts(mechanism, terms.counts),
            n_queries=len(asked),
            facts=lambda drawn: {
                "max_answers": price.max_answers,
                "n_teachers": self.data.n_shards,
                **counts_to_store(terms.counts),
                **(facts or {}),
            },
            answers=answers,
            request=request,
            open_ended=bool(terms.counts),
            kind="labels",
        )
        if not terms.counts:
            return drawn, release, None
        # As many as this very draw stored: who was faster, and drew a count since, is found out by the ledger.
        n_stored = int((drawn.status != NOT_ASKED).sum())
        return drawn, release, PaidBallots(terms.counts, self._noise, terms.ledger, release, 0, n_stored)

    def session(self, mechanism: Mechanism, price: Quote, *, request: str = "") -> PaidQueries:
        """Charge for a number of queries whole, and for the terms' counts; see :func:`pate.open_session`."""
        terms = self.terms
        facts = {"max_answers": price.max_answers, "n_teachers": self.data.n_shards, "adaptive": True}
        _, release = self._pay(
            terms.with_counts(mechanism.charge(price.n_queries, price.max_answers)),
            lambda: None,
            mechanism=with_counts(mechanism, terms.counts),
            n_queries=price.n_queries,
            facts=lambda drawn: facts | counts_to_store(terms.counts),
            request=request,
            open_ended=True,
            kind="session",
        )
        return PaidQueries(mechanism, Left(release, price), self._noise, terms)

    def session_again(self, mechanism: Mechanism, left: Left) -> PaidQueries:
        """Go on with a session that was charged before; the data are registered, as whenever they are charged for."""
        assert self.terms.ledger is not None
        self.terms.ledger.register(self.data)
        return PaidQueries(mechanism, left, self._noise, self.terms)

    def capped_votes(self, mechanism: VoteCap, *, n_teachers: int, n_classes: int) -> PaidVotes:
        """Charge for all votes of a run, then make it: the number of queries is open."""
        session, release = self._pay(
            mechanism.charge(),
            lambda: mechanism.session(n_teachers=n_teachers, n_classes=n_classes, noise=self._noise),
            mechanism=str(mechanism),
            n_queries=mechanism.max_votes,
            facts=lambda drawn: {"n_teachers": n_teachers},
            open_ended=True,
            kind="capped votes",
        )
        return PaidVotes(session, self._noise, self.terms.ledger, release)

    def ballots(
        self, mechanism: GaussianSum, ballots: BallotSum, facts: dict[str, Any], *, request: str
    ) -> tuple[FloatArray, int | None]:
        """Charge for one sum of ballots, then draw its noise; the statistics are stored with the charge.

        Returns them in whole numbers' units (:meth:`GaussianSum.sample`), and their release in the ledger.
        """
        return self._pay(
            mechanism.charge(1),
            lambda: mechanism.sample(ballots.sums, ballots.delta_squared, self._noise),
            mechanism=str(mechanism),
            n_queries=1,
            facts=lambda drawn: {"ballots": facts},
            answers=lambda drawn: [statistics_to_store(request, drawn)],
            request=request,
            kind="ballots",
        )

    def ballot_session(
        self,
        rounds: Sequence[GaussianSum],
        facts: dict[str, Any],
        *,
        request: str,
        n_held_out: int = 0,
        split_into: int = 1,
    ) -> PaidBallots:
        """Charge for several sums of ballots whole, to be cast later; see :func:`pate.open_ballot_session`."""
        _, release = self._pay(
            sum_of_rounds(rounds, n_held_out),
            lambda: None,
            mechanism=", ".join(map(str, rounds)),
            n_queries=len(rounds) - 1 + split_into,
            facts=lambda drawn: {"adaptive": True, **facts},
            request=request,
            open_ended=True,
            kind="ballot session",
        )
        return PaidBallots(rounds, self._noise, self.terms.ledger, release)

    def ballots_again(self, rounds: Sequence[GaussianSum], release: int, n_used: int, n_stored: int) -> PaidBallots:
        """Go on with sums, or counts beside labels, that were charged before.

        ``n_stored`` must have been read before ``n_used`` where another process may store one between: that is then
        found out.
        """
        assert self.terms.ledger is not None
        self.terms.ledger.register(self.data)
        return PaidBallots(rounds, self._noise, self.terms.ledger, release, n_used, n_stored)

    def shares(
        self, rounds: Sequence[SharedGaussian | SharedGNMax], facts: dict[str, Any], *, n_cells: int, request: str
    ) -> PaidShares:
        """Charge for all rounds of one run among sites, in which ``n_cells`` numbers are opened, to be drawn later.

        A request that the ledger knows is refused: the other sites may have its shares.
        """
        _, release = self._pay(
            rounds_charge(rounds, n_cells),
            lambda: None,
            mechanism=", ".join(f"{n} x {one}" if n > 1 else str(one) for one, n in Counter(rounds).items()),
            n_queries=len(rounds),
            facts=lambda drawn: {"n_cells": n_cells, **facts},
            request=request,
            kind="noise shares",
            paid_before=FederationError(
                "this site was charged for this plan before, in its own ledger: it was served, or broken off. Use what "
                "was opened then, or ask again by a new plan, which is paid for again."
            ),
        )
        return PaidShares(rounds, self._noise, self.terms.ledger, release, n_cells)

    def sanitised(
        self,
        how: SmoothSensitivity,
        counts: npt.NDArray[np.int64],
        mechanism: GNMax | ConfidentGNMax,
        delta: float,
        *,
        request: str,
    ) -> None:
        """Charge for one sanitised epsilon of answers at these votes, then draw it: a fact that the ledger stores."""
        confident = mechanism if isinstance(mechanism, ConfidentGNMax) else None
        self._pay(
            how.cost,
            lambda: release_smooth(
                counts,
                mechanism.sigma,
                order=how.order,
                beta=how.beta,
                noise_scale=how.noise_scale,
                delta0=how.delta0,
                threshold=None if confident is None else confident.threshold,
                sigma_threshold=None if confident is None else confident.sigma_threshold,
                delta=delta,
                noise=self._noise,
            ),
            mechanism=f"sanitised epsilon of {len(counts)} queries by {mechanism}",
            n_queries=0,
            facts=lambda drawn: {"guarantee": drawn.to_dict()},
            request=request,
            kind="sanitised value",
        )

    def _pay(
        self,
        charge: Charge,
        draw: Callable[[], T],
        *,
        mechanism: str,
        n_queries: int,
        facts: Callable[[T], dict[str, Any]],
        answers: Callable[[T], Iterable[NewAnswer]] = _nothing,
        request: str = "",
        open_ended: bool = False,
        kind: str | None = None,
        paid_before: PateError | None = None,
    ) -> tuple[T, int | None]:
        """Take ``charge`` from budget and ledger, and only then ``draw``; see the module for the order.

        ``paid_before`` is the error where the ledger knows the request: callers look before, other processes may be
        quicker.
        """
        terms = self.terms
        if terms.tiers is not None and kind not in ("ballots", "ballot session", "labels"):
            raise InvalidInputError(
                "budgets per tier are for sums of ballots, and for votes of teachers in one release. Nothing was spent."
            )
        note("charge", charge=charge, what=mechanism, n_queries=n_queries, kind=kind or "")
        if not terms.allows(charge):
            raise BudgetExceededError(
                f"the budget {terms.budget} does not buy {mechanism}. Ask for less or use more noise (pate.calibrate "
                "does it). Nothing was spent."
            )
        if terms.ledger is None:
            if is_logged("release"):
                delta = terms.budget.delta
                epsilon = charge.guarantee(delta).epsilon
                event(
                    "release", "charged", kind=kind, mechanism=mechanism, n_queries=n_queries, epsilon=epsilon,
                    delta=delta,
                )  # fmt: skip
            return draw(), None
        ledger = terms.ledger
        ledger.open_total(ledger.total or terms.budget)
        drawn: list[T] = []

        def once_it_fits() -> dict[str, Any]:  # inside the write transaction: no other process can charge meanwhile
            if request and ledger.has_request(request):
                raise paid_before or LedgerError(
                    f"another process was charged for this very request in the ledger {str(ledger.path)!r} at the same "
                    "moment. Nothing was charged here. Ask again: what it was given is stored, and free."
                )
            drawn.append(draw())
            return facts(drawn[0])

        release = ledger.record(
            charge,
            mechanism=mechanism,
            n_queries=n_queries,
            facts=once_it_fits,
            answers=(answer for found in drawn for answer in answers(found)),
            request=request,
            seeded=terms.seeded,
            open_ended=open_ended,
            registration=self.data,
            kind=kind,
        )
        return drawn[0], release


def _drawn(release: int | None, done: int, of: int | None = None) -> None:
    """Log that some of what was paid for was drawn: how often was said by who asked."""
    event("release", "drawn", level=logging.DEBUG, release=release, done=done, of=of)


class Paid:
    """What is paid for and not drawn yet: no more than that is drawn, and it is stored before it is shown."""

    def __init__(self, noise: NoiseSource, ledger: Ledger | None, release: int | None, n_stored: int = 0) -> None:
        self.release, self._noise = release, noise
        self.stored = StoredSoFar(ledger, release, n_stored)


class PaidQueries(Paid):
    """Queries that are paid for (``quote``) and not yet asked, and the counts of right answers charged with them."""

    def __init__(self, mechanism: Mechanism, left: Left, noise: NoiseSource, terms: ReleaseTerms) -> None:
        super().__init__(noise, terms.ledger, left.release, left.n_used + left.n_counts)
        self.mechanism, self.quote, self._n_used = mechanism, left.price, left.n_used
        # After a crash it is not known how many of the used ones were refused: all count as answered.
        self._n_answered = left.n_used
        self.counts: PaidBallots | None = None
        if terms.counts:
            self.counts = PaidBallots(terms.counts, noise, None, left.release, left.counts_used)
            self.counts.stored = self.stored  # one release, one number of answers

    @property
    def n_left(self) -> int:
        """How many queries may still be asked."""
        if self.mechanism.may_refuse and self._n_answered >= self.quote.max_answers:
            return 0
        return max(0, self.quote.n_queries - self._n_used)

    def draw(
        self,
        counts: npt.NDArray[np.int64],
        answers: Callable[[Draw], Iterable[NewAnswer]],
        facts: dict[str, Any] | None = None,
        *,
        offsets: FloatArray | None = None,
    ) -> tuple[Draw, str | None]:
        """Use up these queries, draw and store; return the draw and the digest of the ledger's entry, if any.

        ``offsets`` are of Confident-GNMax, (n_queries, n_classes): they move no cost.
        """
        _check_replay(self._noise)
        if len(counts) > self.n_left:
            raise BudgetExceededError(
                f"{len(counts)} queries were asked, and {self.n_left} of {self.quote.n_queries} are paid for and left. "
                "Nothing was asked."
            )
        cap = self.quote.max_answers - self._n_answered if self.mechanism.may_refuse else None
        # Used up before anything is drawn: whatever fails from here on, no query is asked twice for one price.
        self._n_used += len(counts)
        mechanism = self.mechanism
        given = {} if offsets is None else {"offsets": offsets}
        drawn = mechanism.sample(counts, self._noise, max_answers=cap, **given)
        self._n_answered += int((drawn.status == ANSWERED).sum())
        if not len(counts):
            return drawn, None
        _drawn(self.release, self._n_used, self.quote.n_queries)
        return drawn, self.stored.add(answers(drawn), int((drawn.status != NOT_ASKED).sum()), facts)


class PaidVotes(Paid):
    """Votes that are paid for and not yet cast: the session counts them."""

    def __init__(self, session: VoteCapSession, noise: NoiseSource, ledger: Ledger | None, release: int | None) -> None:
        super().__init__(noise, ledger, release)
        self.session = session

    def draw(self, labels: npt.NDArray[Any], keys: Sequence[str]) -> tuple[Draw, str | None]:
        """Cast, draw and store; return the draw and the digest of the ledger's entry, if any."""
        _check_replay(self._noise)
        drawn = self.session.ask(labels)
        if not len(keys):
            return drawn, None
        _drawn(self.release, len(keys))
        rows = [(key, VoteCap.family, label, None) for key, label in zip(keys, drawn.labels.tolist(), strict=True)]
        return drawn, self.stored.add(rows, len(rows))


class PaidBallots(Paid):
    """Rounds of ballots that are paid for and not yet cast: each is drawn once, and ``n_used`` were."""

    def __init__(
        self,
        rounds: Sequence[GaussianSum],
        noise: NoiseSource,
        ledger: Ledger | None,
        release: int | None,
        n_used: int = 0,
        n_stored: int = 0,
    ) -> None:
        super().__init__(noise, ledger, release, n_stored)
        self.rounds, self.n_used = tuple(rounds), n_used

    def draw(
        self, ballots: BallotSum | RightCounts | VectorSum, facts: dict[str, Any], *, request: str
    ) -> tuple[FloatArray, str | None]:
        """Use up the next round, draw and store; return the statistics and the digest of the ledger's entry, if any."""
        _check_replay(self._noise)
        if self.n_used >= len(self.rounds):
            raise BudgetExceededError(
                f"all {len(self.rounds)} rounds of this session are used up. Nothing was drawn; open another session."
            )
        mechanism = self.rounds[self.n_used]
        # Used up before anything is drawn: whatever fails from here on, no round is drawn twice for one price.
        self.n_used += 1
        drawn = mechanism.sample(ballots.sums, ballots.delta_squared, self._noise)
        _drawn(self.release, self.n_used, len(self.rounds))
        return drawn, self.stored.add([statistics_to_store(request, drawn)], 1, facts)


class PaidShares(Paid):
    """Rounds among sites that are paid for: each share of noise is drawn once, fresh, and never stored."""

    def __init__(
        self,
        rounds: Sequence[SharedGaussian | SharedGNMax],
        noise: NoiseSource,
        ledger: Ledger | None,
        release: int | None,
        n_cells: int,
    ) -> None:
        super().__init__(noise, ledger, release)
        self.rounds, self.n_used, self.cells_left = tuple(rounds), 0, n_cells

    def draw(self, sums: npt.NDArray[np.int64], delta_squared: int) -> list[int]:
        """Use up the next round and return these sums with this site's share of its noise."""
        _check_replay(self._noise)
        if self.n_used >= len(self.rounds) or sums.size > self.cells_left:
            raise BudgetExceededError(
                f"{len(self.rounds) - self.n_used} rounds and {self.cells_left} numbers are paid for and left, and a "
                f"round of {sums.size} was asked. Nothing was drawn; ask by a new plan."
            )
        mechanism = self.rounds[self.n_used]
        # Used up before anything is drawn: whatever fails from here on, no round is drawn twice for one price.
        self.n_used, self.cells_left = self.n_used + 1, self.cells_left - sums.size
        share = mechanism.sample(sums, delta_squared, self._noise)
        _drawn(self.release, self.n_used, len(self.rounds))
        return share
