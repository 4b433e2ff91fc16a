"""Rounds of ballots: paid for whole when the session opens, each perhaps cast after the one before was seen."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from pate._core.checks import check_classes, check_int, check_real, shown
from pate._core.curator import warn
from pate._core.moved import takes_former_names
from pate.exceptions import InvalidInputError, LedgerError, PrivacyParameterWarning
from pate.ledger import Ledger, LedgerRow, Registration
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget
from pate.privacy.convert import format_up, gdp_from_budget
from pate.privacy.cost import Charge
from pate.privacy.tiers import WHOLE, as_budget
from pate.privacy.words import Guarantee
from pate.records import NUMBER, BallotFacts, BallotSum, RightCounts, RightFacts, UnitTiers, VectorFacts, VectorSum
from pate.release._labels import BallotRelease, VectorRelease
from pate.release._measured import SIZE_OF_LABELS, ReleasedCounts, measured_accuracy
from pate.release._quote import ReleaseTerms, buy_rounds, share_rounds, sum_of_rounds, warn_if_weak
from pate.release._statement import ballot_statement, check_ballots_stated, counts_in_words
from pate.release._stored import (
    Claim,
    OneHolder,
    check_alike,
    check_name,
    check_same_records,
    claimed,
    round_key,
    rounds_in,
    stored_rounds_of,
)
from pate.release._transaction import PaidBallots, Transaction
from pate.release.statement.fields import Assumption
from pate.release.statement.files import bind_statement
from pate.release.statement.model import PrivacyStatement

# Releasing a sum of ballots: one charge, one Gaussian, and everything after it is free.


def release_ballots(
    ballots: BallotSum,
    mechanism: GaussianSum,
    *,
    budget: Budget | Mapping[str, Budget],
    ledger: Ledger | None = None,
    name: str = "",
    noise_seed: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
) -> BallotRelease:
    """Release one sum of ballots with Gaussian noise, after charging its cost.

    Parameters
    ----------
    ballots : BallotSum
        The exact sum that :meth:`pate.RecordVoters.cast` returns.
    mechanism : GaussianSum
        ``GaussianSum.for_budget(budget)`` spends all of it.
    budget : Budget, or mapping of str to Budget
        The most this release may cost; of ballots cast with tiers one for each tier (:mod:`pate.privacy.tiers`).
    ledger : Ledger or None
        Also stay within its total; charge and statistics are stored there, together, before anything is returned. The
        same request again gives the stored statistics, free of cost.
    name : str
        Part of the request: the same ballots under another name are noised, and paid for, again.
    noise_seed : int or None
        For tests only: the statement then says that nothing is private.
    tuning : str
        What was tuned on the private data, for the statement.
    stated : mapping of str to str, or None
        What a person states for the statement, such as ``{"public rows": "a census of 1990"}``.

    Guarantees
    ----------
    One unit (a record, or a person with all their records) replaced, or added or removed, as the ballots' adjacency
    says: 1/noise_multiplier-GDP, see :class:`pate.GaussianSum` and :mod:`pate.records.ballot_sum`. The request is
    recognised by public facts (space, kind, clip, classes, unit, mechanism, name) in a ledger of these very records.
    Those are recognised by labels and owners: after features were corrected the stored statistics are given again, as
    the statement then says. ``name=`` pays for new ones.

    Raises
    ------
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy it; nothing was spent.
    InvalidInputError
        A bad parameter.
    LedgerError
        The ledger is for another private data set, or could not be written.

    Examples
    --------
    >>> import numpy as np
    >>> from pate import RecordVoters
    >>> from pate.records import SignedSpace
    >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=2)
    >>> ballots = voters.cast(np.eye(3), [0, 1, 1])
    >>> release_ballots(ballots, GaussianSum(9.0), budget=Budget(0.1, 1e-5))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=0.1, delta=1e-05) does not buy GaussianSum...
    >>> print(
    ...     release_ballots(ballots, GaussianSum(9.0), budget=Budget(1.0, 1e-5)).guarantee
    ... )
    (0.382099, 1e-05)-DP, public, by gdp, adjacency replace-one, both directions, adaptive
    """
    check_ballots(ballots)
    if not isinstance(mechanism, GaussianSum):
        raise InvalidInputError(f"mechanism must be GaussianSum(noise_multiplier), got {shown(mechanism)}.")
    terms = terms_of(budget, ledger, noise_seed=noise_seed, tuning=tuning, stated=stated)
    budget, facts = terms.budget, ballots.facts
    terms.check_tiers(facts)
    check_ballots_stated(stated, residual=facts.clip is not None, tiers=terms.tiers)
    warn_if_weak(terms.largest_delta, facts.n, epsilon=budget.epsilon)
    transaction = Transaction(terms, ballots.registration())
    request = request_of(facts, name, seeded=terms.seeded, noise=mechanism.noise_multiplier)
    row = None if ledger is None else ledger.find(request)
    if row is None or ledger is None:
        noisy, release = transaction.ballots(mechanism, ballots, facts.to_dict(), request=request)
        drawn, charge, seeded = noisy.ravel().tolist(), mechanism.charge(1), terms.seeded
    else:
        drawn, release = list(stored_statistics(ledger, request, row.id)), row.id
        charge, seeded = row.charge, row.seeded
        # Under a revised ledger the records may be others by now; what was released was of so many.
        known = facts_of({"facts": row.facts["ballots"]}, facts.classes)
        assert isinstance(known, BallotFacts)
        facts = known
    statement = ballot_statement(
        [facts], [mechanism], charge, terms, release=release, seeded=seeded, earlier=row is not None
    )
    bind_statement(statement, ledger)
    return BallotRelease.of(drawn, facts, mechanism, statement)


def terms_of(budget: Any, ledger: Ledger | None, **said: Any) -> ReleaseTerms:
    """Return the terms of a release of ballots: ``budget`` is one for all units, or one for every tier of them."""
    whole, tiers = as_budget(budget)
    if tiers is not None and isinstance(ledger, Ledger):
        tiers = tiers.held_to((ledger.registration or {}).get("tiers"))
    return ReleaseTerms(budget=whole, tiers=tiers, ledger=ledger, **said)


def check_ballots(ballots: object) -> BallotSum:
    """Return ``ballots`` if they are a sum of ballots."""
    if not isinstance(ballots, BallotSum):
        raise InvalidInputError(f"ballots must be a BallotSum, got {shown(ballots)}. RecordVoters.cast makes it.")
    return ballots


#: Sums that the rounds of a session release, and their facts; the name under which a ledger stores those facts.
Sums = BallotSum | RightCounts | VectorSum
Facts = BallotFacts | RightFacts | VectorFacts
F = TypeVar("F", BallotFacts, RightFacts, VectorFacts)
_KINDS: dict[str, type[Facts]] = {"facts": BallotFacts, "right": RightFacts, "vector": VectorFacts}

#: Facts that tell no two requests apart. Which records they are the ledger knows, which is registered to them.
_BESIDE = ("n", "provenance", "own_maps", "own_model", "classes_inferred", "own")


def request_of(facts: Facts, name: str, *, seeded: bool, noise: float = 1.0) -> str:
    """Return what a release of ballots, or of counts of right answers, is recognised by: public facts alone."""
    if not isinstance(name, str):
        raise InvalidInputError(f"name must be a text, got {shown(name)}.")
    known = {k: v for k, v in facts.to_dict().items() if k not in _BESIDE}
    said: list[Any] = ["ballots 1", known, repr(noise)]
    if not isinstance(facts, BallotFacts):
        said = [f"{_kind_of(facts)} 1", known]
    return hashlib.sha256(json.dumps([*said, name, seeded], sort_keys=True).encode()).hexdigest()


def _kind_of(facts: Facts) -> str:
    return next(name for name, kind in _KINDS.items() if isinstance(facts, kind))


def facts_of(held_facts: Mapping[str, Any], classes: tuple[Any, ...]) -> Facts:
    """Return the facts of a stored round as they were; classes as they are given now (JSON has but plain ones)."""
    name = next((name for name in _KINDS if name in held_facts), "facts")
    try:
        return _KINDS[name](**{**held_facts[name], "classes": classes})
    except TypeError:
        what = {"right": "counts of right answers", "vector": "a sum of vectors"}.get(name, "a sum of ballots")
        raise LedgerError(f"the ledger holds {what} that pate did not write. Restore it.") from None


def stored_statistics(ledger: Ledger, request: str, release: int) -> tuple[float, ...]:
    """Return the noisy sums that a release stored, in whole numbers' units, row by row."""
    answer = ledger.stored([request], GaussianSum.family, release=release).get(request)
    if answer is None or answer.noisy_counts is None:
        raise LedgerError(f"release {release} of the ledger {str(ledger.path)!r} lacks its statistics. Restore it.")
    return answer.noisy_counts


@dataclass(frozen=True)
class _Cast:
    """A round that was drawn: which, of what, and its numbers where they are at hand."""

    index: int
    facts: Facts
    drawn: list[float] | None

    def of(self, kind: type[F]) -> F:
        """Return the facts, if they are of the kind that was asked for."""
        if not isinstance(self.facts, kind):
            raise LedgerError("the ledger holds sums of another kind than were asked for. Restore it.")
        return self.facts


class _Rounds(OneHolder):
    """Sums that were paid for whole: each is drawn once, and given again as it was drawn."""

    #: Whether the last round was replaced by several (:meth:`BallotSession.split`).
    _is_split = False

    def __init__(self, paid: PaidBallots, terms: ReleaseTerms, data: Registration, claim: Claim | None = None) -> None:
        self.mechanisms = paid.rounds
        self._paid, self._terms, self._data = paid, terms, data
        #: What was drawn by this very object, by request.
        self._drawn: dict[str, _Cast] = {}
        super().__init__(claim)

    def _rounds_cast(self, classes: tuple[Any, ...]) -> dict[str, _Cast]:
        """Return what was cast so far, by request: as the ledger holds it, if there is one."""
        if self._terms.ledger is None or self._paid.release is None:
            return dict(self._drawn)
        held = self._terms.ledger.releases([self._paid.release])[0].facts
        held_facts = {index: held[round_key(index)] for index in rounds_in(held)}
        return {str(one["request"]): _Cast(index, facts_of(one, classes), None) for index, one in held_facts.items()}

    def _draw(self, sums: Sums, request: str) -> tuple[_Cast, str | None]:
        """Draw the next round of these; return it, and the digest of the ledger's entry that holds it."""
        self._terms.check_tiers(sums.facts)
        index = self._paid.n_used
        held_facts: dict[str, Any] = {"request": request, _kind_of(sums.facts): sums.facts.to_dict()}
        if self._is_split:
            held_facts["noise_multiplier"] = self.mechanisms[index].noise_multiplier
        noisy, head = self._paid.draw(sums, {round_key(index): held_facts}, request=request)
        self._drawn[request] = found = _Cast(index, sums.facts, noisy.ravel().tolist())
        return found, head

    def _numbers(self, found: _Cast, request: str) -> Sequence[float]:
        if found.drawn is not None:
            return found.drawn
        assert self._terms.ledger is not None
        assert self._paid.release is not None
        return stored_statistics(self._terms.ledger, request, self._paid.release)


class BallotSession(_Rounds):
    """A session of rounds of ballots that are paid for; :func:`pate.open_ballot_session` makes it.

    Attributes
    ----------
    mechanisms : tuple of GaussianSum
        One per round.
    charge : Charge
        What was charged when the session opened: all rounds.
    n_left : int
        Rounds that are left. Public.
    release : int or None
        Its number in the ledger.

    Examples
    --------
    >>> import numpy as np
    >>> from pate import Budget, RecordVoters, open_ballot_session
    >>> from pate.records import SignedSpace
    >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=2)
    >>> session = open_ballot_session(
    ...     Budget(1.0, 1e-5), shares=[0.3, 0.7], classes=2, n_units=30
    ... )
    >>> first = session.ask(voters.cast(np.repeat(np.eye(3), 10, axis=0), [0, 1, 1] * 10))
    >>> session.n_left, session
    (1, BallotSession(2 rounds, n_left=1))
    """

    _uncopied = "a session cannot be copied or stored: each copy would draw what was paid for once."
    _elsewhere = "this session was opened in another process. Ask there, or open another one here."

    def __init__(
        self,
        paid: PaidBallots,
        terms: ReleaseTerms,
        data: Registration,
        n: int | None,
        *,
        claim: Claim | None,
        n_held_out: int = 0,
        split_into: int = 1,
    ) -> None:
        super().__init__(paid, terms, data, claim)
        self.release, self.charge = paid.release, sum_of_rounds(paid.rounds, n_held_out)
        self._n, self._n_held_out, self._split_into = n, n_held_out, split_into
        #: Whether each round's statement is published: not where the session's last statement says more.
        self.binds = True

    def _used_up(self) -> bool:
        return not self.n_left and not self._paid.stored.failed

    def __repr__(self) -> str:
        return f"BallotSession({len(self.mechanisms)} rounds, n_left={self.n_left})"

    @property
    def n_left(self) -> int:
        """Rounds that are left."""
        return len(self.mechanisms) - self._paid.n_used

    def ask(self, ballots: BallotSum) -> BallotRelease:
        """Release the next round; the same ballots asked before give the stored statistics and use up nothing.

        What is cast (space, kind, clip, the model of residuals) may depend on every round released so far.

        Returns
        -------
        BallotRelease
            Its guarantee and statement are the whole session's.

        Raises
        ------
        BudgetExceededError
            No round is left.
        InvalidInputError
            Ballots of another unit, adjacency or number of units, or a copy of the session in a forked process.
        LedgerError
            The ledger is for other records, or the statistics could not be stored; none are returned then.
        """
        check_ballots(ballots)
        drawn, found, statement = self._next(ballots)
        return BallotRelease.of(drawn, found.of(BallotFacts), self.mechanisms[found.index], statement)

    def measure(self, counts: RightCounts) -> ReleasedCounts:
        """Release the next round as counts of the units that a public model is right about; else as :meth:`ask`.

        What :func:`pate.release.measured_accuracy` then makes of them is free. The model must have been computed from
        released quantities and public rows alone, as that of residual ballots must.

        Parameters
        ----------
        counts : RightCounts
            The result of :func:`pate.records.count_right`. The same request (cells, classes, model) gives the stored
            counts.

        Raises
        ------
        BudgetExceededError
            No round is left.
        InvalidInputError
            Counts of another unit, adjacency or number of units, or no round of ballots was cast before.
        LedgerError
            As for :meth:`ask`.
        """
        if not isinstance(counts, RightCounts):
            raise InvalidInputError(
                f"counts must be RightCounts, got {shown(counts)}. pate.records.count_right makes it."
            )
        drawn, found, statement = self._next(counts)
        return ReleasedCounts.of(drawn, found.of(RightFacts), self.mechanisms[found.index], statement)

    def ask_vectors(self, vectors: VectorSum) -> VectorRelease:
        """Release the next round of a sum of vectors; else as :meth:`ask`.

        Raises
        ------
        InvalidInputError
            Also where the round is one of held-out units and the sum is not of those alone, or the other way round.
        """
        if not isinstance(vectors, VectorSum):
            raise InvalidInputError(f"vectors must be a VectorSum, got {shown(vectors)}. pate.records makes it.")
        drawn, found, statement = self._next(vectors)
        return VectorRelease.of(drawn, found.of(VectorFacts), self.mechanisms[found.index], statement)

    def split(self, shares: Sequence[float]) -> None:
        """Replace the last round by several that cost no more together, chosen after the rounds before it.

        The cost was charged when the session opened and stays what it was: 1/noise_multiplier^2 of the new rounds adds
        up to no more than that of the old one, so that mu^2 of all rounds is bounded by a constant. Number and noise of
        the new rounds may depend on what was released (Smith and Thakurta 2022: fully adaptive Gaussian filter).

        Raises
        ------
        InvalidInputError
            Other rounds are left before the last one, it was asked or split before, some rounds are of held-out units,
            or there are more than ``split_into``.
        """
        self._check_process()
        with self._turn:
            self._split(shares)

    def _split(self, shares: Sequence[float]) -> None:
        self._check_open()
        last, n_used = len(self.mechanisms) - 1, self._paid.n_used
        drawn = self._drawn_since(last)
        # Drawn whole, it is used up, whether or not a ledger holds it.
        if self._is_split or self._n_held_out or n_used < last or (n_used > last and not drawn):
            raise InvalidInputError(
                "only the last round of a session can be split, once, after all others were asked and before it is."
            )
        parts = [check_real(f"shares[{i}]", share, low=1e-9, high=1e9) for i, share in enumerate(shares)]
        check_int("the number of shares", len(parts), low=1, high=self._split_into)
        whole, old = math.fsum(parts), self.mechanisms[last].noise_multiplier
        # Rounded up by more than all errors of floating point, so that the sum of costs is below the old one.
        new = tuple(GaussianSum(old * math.sqrt(whole / part) * (1 + 2.0**-40)) for part in parts)
        if sum(1 / Fraction(m.noise_multiplier) ** 2 for m in new) > 1 / Fraction(old) ** 2:
            raise InvalidInputError(
                f"shares must make rounds that cost no more than the one they replace, got {parts}."
            )
        for index, noise in drawn.items():
            if index - last >= len(new) or noise != new[index - last].noise_multiplier:
                raise InvalidInputError(
                    "shares must be those of the run that this session resumes: some of its rounds were drawn with "
                    "other noise. Nothing was drawn now."
                )
        self.mechanisms = self._paid.rounds = (*self.mechanisms[:last], *new)
        self._is_split = True

    def _drawn_since(self, first: int) -> dict[int, Any]:
        """Return the noise multiplier of every stored round from this one on; None where none is noted."""
        if self._terms.ledger is None or self._paid.release is None:
            return {}
        held = self._terms.ledger.releases([self._paid.release])[0].facts
        found = {index: held[round_key(index)].get("noise_multiplier") for index in rounds_in(held)}
        return {index: noise for index, noise in found.items() if index >= first}

    def _check_part(self, vectors: Sums, index: int, cast: Mapping[str, _Cast]) -> None:
        """Refuse a round of held-out units that others contribute to, and the other way round: both parts would pay."""
        if not self._n_held_out:
            return
        wanted = "held out" if index >= len(self.mechanisms) - self._n_held_out else "training"
        part = getattr(vectors.facts, "part", "all")
        if part != wanted:
            raise InvalidInputError(f"round {index + 1} must be a sum over {wanted!r} units, got one over {part!r}.")
        cuts = {one.facts.cut for one in cast.values() if isinstance(one.facts, VectorFacts)}
        if cuts - {getattr(vectors.facts, "cut", "")}:
            raise InvalidInputError(
                "vectors must be of the same held-out units in all rounds: others would be in both parts. Make them of "
                "one Units, or of one secret."
            )

    def _check(self, ballots: Sums) -> None:
        self._check_open()
        f, said, data = ballots.facts, ballots.registration(), self._data
        check_alike(
            "ballots",
            ("classes", said.classes, data.classes),
            ("unit", f.unit, data.unit),
            ("adjacency", f.adjacency, data.adjacency),
            ("n_units", f.n, f.n if self._n is None else self._n),
        )
        self._terms.check_tiers(f)
        if (data.tiers, data.members) != (said.tiers, said.members):
            raise InvalidInputError("ballots must be of units in the session's tiers. Cast with the same tiers=.")
        if data.fingerprint not in (None, said.fingerprint):
            raise InvalidInputError("ballots come from other private records than the session's. Open one for those.")
        if data.fingerprint is None:
            if self._terms.ledger is not None:
                self._terms.ledger.register(said)
            self._data, self._n = said, f.n

    def _next(self, ballots: Sums) -> tuple[Sequence[float], _Cast, PrivacyStatement]:
        """Return the numbers of the round of these, drawn now or before, and the statement of the whole session."""
        # A round is recognised by what is cast: by its number it would be drawn again after a crash.
        request = request_of(ballots.facts, f"session {self.release}", seeded=self._terms.seeded)
        self._check_process()
        with self._turn:
            self._check(ballots)
            cast, head = self._rounds_cast(self._data.classes), None
            if isinstance(ballots, RightCounts) and all(isinstance(c.facts, RightFacts) for c in cast.values()):
                raise InvalidInputError("counts must come after a round of ballots: nothing was released to be right.")
            self._check_part(ballots, cast[request].index if request in cast else self._paid.n_used, cast)
            if request not in cast:
                cast[request], head = self._draw(ballots, request)
            found = cast[request]
            drawn = self._numbers(found, request)
            facts = [*(c.facts for key, c in cast.items() if key != request), found.facts]
            statement = ballot_statement(
                [f for f in facts if not isinstance(f, RightFacts)],
                self.mechanisms,
                self.charge,
                self._terms,
                release=self.release,
                head=head,
                earlier=not self._drawn.keys() >= cast.keys(),
                right=[f for f in facts if isinstance(f, RightFacts)],
                n_held_out=self._n_held_out,
            )
            if self.binds:
                bind_statement(statement, self._terms.ledger)
            return drawn, found, statement


def stored_rounds(
    terms: ReleaseTerms, shares: Sequence[float], name: str, *, n_held_out: int = 0
) -> tuple[GaussianSum, ...] | None:
    """Return the rounds of a session that the ledger of ``terms`` has been charged for; None: it has not.

    Parameters
    ----------
    terms, shares, name, n_held_out
        What :func:`pate.open_ballot_session` would be given.

    Examples
    --------
    >>> stored_rounds(ReleaseTerms(budget=Budget(1.0, 1e-5)), [1.0], "mine") is None
    True
    """
    row = None if terms.ledger is None else terms.ledger.find(_mark(terms, shares, name, n_held_out))
    return None if row is None else _rounds_of(row)


#: Less than this share of mu^2 is what rounding leaves.
_ROUNDING = 1e-6


class PricedRounds:
    """The price of a plan of rounds, which a ledger may have paid already; a mixin of plans.

    A plan has ``terms``; ``shares`` of mu^2, round by round, of which the last ``n_held_out`` are of held-out units;
    and the session's ``name`` in a ledger: the same plan, run again, resumes the session or repeats its release.
    """

    terms: ReleaseTerms
    n_held_out: int = 0
    shares: Sequence[float]
    name: str

    def _bought(self) -> tuple[GaussianSum, ...]:
        """Return the rounds as the budget, and what a ledger has left, buy them."""
        raise NotImplementedError

    @property
    def _paid(self) -> tuple[GaussianSum, ...] | None:
        return stored_rounds(self.terms, self.shares, self.name, n_held_out=self.n_held_out)

    @property
    def stored(self) -> bool:
        """Whether the ledger was charged for this plan before; then it is resumed, or its release repeated, free."""
        return self._paid is not None

    @property
    def mechanisms(self) -> tuple[GaussianSum, ...]:
        """The mechanism of each round: as paid before, else as the budget allows.

        Raises
        ------
        BudgetExceededError
            The ledger has nothing left, or so little that noise would drown all ballots.
        NotWorthwhileError
            A round would have more noise than all ballots together, and the plan is not forced.
        """
        paid = self._paid
        return self._bought() if paid is None else paid

    @property
    def total_if_short(self) -> Budget | None:
        """The ledger's total, where less of it is left than the budget asks for: all of the rest is taken then.

        None where the whole budget can be paid, where an earlier run paid, and without a ledger.
        """
        terms = self.terms
        if terms.ledger is None or self.stored:
            return None
        whole = share_rounds(terms.budget, self.shares, n_held_out=self.n_held_out)
        asked = sum_of_rounds(whole, self.n_held_out).mu_squared
        if self.charge.mu_squared >= asked * (1 - _ROUNDING):
            return None
        return terms.ledger.remaining(default_total=terms.budget).total

    def warn_if_short(self) -> None:
        """Warn, before anything is spent, where these rounds take all that the ledger has left; public numbers."""
        total = self.total_if_short
        if total is not None:
            budget, unit = self.terms.budget, getattr(self.terms.ledger, "currency", None) or "gdp"
            other = f", counted in {unit}: to another kind of release it is another epsilon" * unit.startswith("renyi")
            warn(
                f"epsilon = {budget.epsilon:g} was asked for, and what the ledger has left buys this release only "
                f"epsilon = {format_up(self.guarantee.epsilon)} (at delta {budget.delta:g}; its total is epsilon = "
                f"{total.epsilon:g} at delta {total.delta:g}{other}). This release takes all that is left, with more "
                "noise: no later release from these records can be paid. Ask for a smaller epsilon to keep some.",
                PrivacyParameterWarning,
            )

    @property
    def charge(self) -> Charge:
        """The privacy cost of all rounds together."""
        return sum_of_rounds(self.mechanisms, self.n_held_out)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of :attr:`charge` at the budget's delta."""
        return self.charge.guarantee(self.terms.budget.delta)


def _mark(terms: ReleaseTerms, shares: Sequence[float], name: str, n_held_out: int = 0) -> str:
    """Return what a session is recognised by in a ledger."""
    budget = terms.budget
    parts: tuple[Any, ...]
    parts = ("ballot session", name, tuple(map(float, shares)), budget.epsilon, budget.delta, terms.seeded)
    if n_held_out:
        parts = (*parts, n_held_out)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _rounds_of(row: LedgerRow) -> tuple[GaussianSum, ...]:
    return tuple(GaussianSum(value) for value in row.facts["noise_multipliers"])


@takes_former_names(anyway="force")
def open_ballot_session(
    budget: Budget | Mapping[str, Budget],
    *,
    shares: Sequence[float],
    classes: Any,
    n_units: int | None = None,
    nominal_n: int | None = None,
    unit: str = "record",
    fingerprint: str | None = None,
    ledger: Ledger | None = None,
    name: str | None = None,
    noise_seed: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
    force: bool = False,
    n_measured: int = 0,
    n_held_out: int = 0,
    split_into: int = 1,
    tiers: UnitTiers | None = None,
) -> BallotSession:
    """Pay for several rounds of ballots at once, then cast them one by one, each after seeing the earlier releases.

    Parameters
    ----------
    budget : Budget, or mapping of str to Budget
        The session spends all of it (or all that the ledger has left, if that is less). With ``tiers``: a budget for
        each.
    shares : sequence of float
        One per round: its part of the budget's mu^2, relative to the sum of all shares.
    classes : iterable, int or None
        None: the target is a number.
    n_units : int or None
        Number of records (or persons) under replace-one adjacency, where it is public.
    nominal_n : int or None
        Give it for add-or-remove adjacency, in place of ``n_units``: a public number of records.
    unit : {"record", "group"}
    fingerprint : str or None
        Of the private records. **Sensitive.**
    ledger : Ledger or None
        The charge is stored before the session opens, every round's statistics before they are returned.
    name : str or None
        With a ledger: if a session of this name and cost was interrupted (by a crash, say), it goes on with the rounds
        it has left, and what it released is returned again for the same ballots. Nothing is charged then.
    noise_seed, tuning, stated
        See :func:`pate.release_ballots`.
    force : bool
        Open a session although nearly nothing can be learnt from it: a round has more noise than all ballots together.
    n_measured : int
        How many of the last rounds are for :meth:`BallotSession.measure`: their noise may be larger than all ballots.
    n_held_out : int
        How many of the last rounds use held-out units only; all other rounds use the other units. Both parts get the
        whole budget, each with its own sum of shares (:mod:`pate.records._vectors`).
    split_into : int
        The most rounds by which the last one may be replaced: :meth:`BallotSession.split`.
    tiers : UnitTiers or None
        The tiers of the units, if each tier has its own budget: ``ballots.unit_owners.tiers``.

    Guarantees
    ----------
    mu^2 adds up over rounds that are chosen adaptively (Dong, Roth, Su 2022, Corollary 3.3); noise and number of
    rounds are constants, fixed and charged before the first one.

    Raises
    ------
    BudgetExceededError
        Nothing is left in the ledger, or less than a hundredth of what the budget buys.
    InvalidInputError
        A bad parameter; or nearly nothing can be learnt from a round, and ``force`` is False.

    Examples
    --------
    >>> session = open_ballot_session(
    ...     Budget(1.0, 1e-5), shares=[1, 1], classes=10, n_units=1000
    ... )
    >>> round(session.charge.guarantee(1e-5).epsilon, 6), session.n_left
    (1.0, 2)
    """
    terms = terms_of(budget, ledger, noise_seed=noise_seed, tuning=tuning, stated=stated)
    budget = terms.budget
    if (tiers is None) != (terms.tiers is None):
        raise InvalidInputError("tiers must be given with a budget for each tier, and with no other.")
    check_ballots_stated(stated, residual=True, tiers=terms.tiers)
    check_name(name, ledger, shown(name))
    if n_units is not None and nominal_n is not None:
        raise InvalidInputError("n_units and nominal_n must not both be given: the number is public or it is not.")
    n = n_units if nominal_n is None else nominal_n
    n = None if n is None else check_int("n_units" if nominal_n is None else "nominal_n", n, low=1)
    adjacency = "replace-one" if nominal_n is None else "add-or-remove"
    values = NUMBER if classes is None else check_classes(range(classes) if isinstance(classes, int) else classes)
    weight = n if tiers is None else sum(whole * count for _, whole, count in tiers.facts) / WHOLE
    counted, more = n if nominal_n is None else None, {} if tiers is None else tiers.registered
    data = Registration(unit, values, n_units=counted, fingerprint=fingerprint, adjacency=adjacency, **more)
    warn_if_weak(terms.largest_delta, n, epsilon=budget.epsilon)
    transaction = Transaction(terms, data)
    mark = None if name is None else _mark(terms, shares, name, n_held_out)

    def take() -> PaidBallots:
        row = None if mark is None or ledger is None else ledger.find(mark)
        if row is not None and ledger is not None:
            row, n_used, n_stored = stored_rounds_of(ledger, row.id)
            _check_places(ledger, row, n_used, unit=unit, n_held_out=n_held_out)
            return transaction.ballots_again(_rounds_of(row), row.id, n_used, n_stored)
        rounds = buy_rounds(
            budget, shares, ledger, n_units=weight, force=force, n_measured=n_measured, n_held_out=n_held_out
        )
        facts = {"noise_multipliers": [m.noise_multiplier for m in rounds]}
        return transaction.ballot_session(
            rounds, facts, request=mark or "", n_held_out=n_held_out, split_into=split_into
        )

    paid, claim = claimed(ledger, mark, take)
    return BallotSession(paid, terms, data, n, claim=claim, n_held_out=n_held_out, split_into=split_into)


def _check_places(ledger: Ledger, row: LedgerRow, n_used: int, *, unit: str, n_held_out: int) -> None:
    """Refuse to go on where records may stand in other places: some would train and be held out.

    Labels in another order the ledger refuses itself, unless it was revised; rows of equal labels it does not.
    """
    by_place, begun = n_held_out and unit == "record", 0 < n_used < len(_rounds_of(row))
    if by_place and begun and ledger.of_other_features([row.id]):
        raise LedgerError(
            f"release {row.id} of the ledger {str(ledger.path)!r} was cut off, and began with other rows than these, "
            "or with the same in another order: records that trained would be held out now. Nothing was drawn. Give "
            "the rows as they were, or release anew with another budget. (Whether records changed is private.)"
        )


def open_on_terms(terms: ReleaseTerms, name: str, **said: Any) -> BallotSession:
    """Open a session on a plan's terms, by its name where they have a ledger; see :func:`pate.open_ballot_session`."""
    return open_ballot_session(
        terms.budget if terms.tiers is None else terms.tiers.mapping,
        ledger=terms.ledger,
        name=None if terms.ledger is None else name,
        noise_seed=terms.noise_seed,
        tuning=terms.tuning,
        stated=terms.stated,
        **said,
    )


# Counts of right answers that were paid for with labels: drawn once, of one model of theirs, and reported.
#
# Labels are released by a mechanism of some charge, and the count by one more Gaussian, of a model that is computed
# from the released labels and public rows. Given the labels, that model is a constant: the count is a query of the
# private records whose L2 sensitivity pate.records.right proves for every fixed model, so that labels and count are
# adaptive composition. Charges add up, each currency by its own theorem (pate.Charge): mu^2 (Dong, Roth, Su 2022,
# Corollary 3.3), Renyi divergences at every order (Mironov 2017, Proposition 1). Both are constants, charged at once
# before the first label is drawn; the cap on answers is what the rest of the budget buys.

#: Assumptions of a label statement that its counts bring.
_ASKED_ALONE, _MODEL = "own row only", "public model"
_BY_PATE = {
    True: ("pate asked the model in blocks of one fixed shape, or row by row, and counted in whole numbers", "pate"),
    False: ("records were counted in whole numbers, but read or answered by code that pate does not know", "nobody"),
}
_MADE_HERE = {
    True: ("pate trained it on the released labels and on the public rows", "pate"),
    False: ("parts of it were fitted before, on what is not known here", "nobody"),
}


class PaidCounts(_Rounds):
    """Counts that were charged with labels; :meth:`release` draws each once, or gives what was drawn.

    Attributes
    ----------
    mechanisms : tuple of GaussianSum
        Of the count, and perhaps of the cells by class.
    """

    _uncopied = "paid counts cannot be copied or stored: each copy would draw them for one price."
    _elsewhere = "these counts were paid for in another process. Draw them there."

    def __init__(self, paid: PaidBallots, terms: ReleaseTerms, data: Registration) -> None:
        super().__init__(paid, terms, data)
        #: Digest of the ledger's entry that holds the last count drawn here.
        self.head: str | None = None

    @property
    def budget(self) -> tuple[float, float]:
        """Epsilon and delta of labels and counts together."""
        return self._terms.budget.epsilon, self._terms.budget.delta

    def release(self, counts: RightCounts) -> ReleasedCounts | None:
        """Return noisy counts: drawn now, or given again; None where what was paid for was drawn of another model."""
        self._check_process()
        self._check(counts)
        index = int(counts.facts.by_class)
        request = request_of(counts.facts, f"labels {self._paid.release}", seeded=self._terms.seeded)
        with self._turn:
            found = self._rounds_cast(counts.facts.classes).get(request)
            if found is None:
                if self._paid.n_used != index:
                    return None
                found, self.head = self._draw(counts, request)
            return ReleasedCounts.of(self._numbers(found, request), found.of(RightFacts), self.mechanisms[index], None)

    def _check(self, counts: RightCounts) -> None:
        check_same_records("counts", self._data, counts.registration(), "voted")


def message_of_counts(
    statement: PrivacyStatement, counts: Sequence[ReleasedCounts], paid: PaidCounts, *, made_here: bool = False
) -> PrivacyStatement:
    """Return the statement of labels with what counts say of a model that learnt from them."""
    own = all(c.facts.own for c in counts)
    earlier = "" if paid.head or not statement.ledger_releases else ", stored in the ledger by an earlier run"
    asked = Assumption(
        _ASKED_ALONE,
        "what the model says of each unit's records is computed from that unit's own records and from public things "
        "alone",
        *_BY_PATE[own],
    )
    model = Assumption(
        _MODEL,
        "the model that records were asked about was computed from released quantities and public rows alone",
        *_MADE_HERE[made_here],
    )
    held_facts = replace(
        statement,
        released="; ".join((statement.released, *(counts_in_words(c.facts) for c in counts))) + earlier,
        accounting=f"{statement.accounting}; the model that is counted about is computed from released labels, so that "
        "counts are composed adaptively",
        assumptions=(*statement.assumptions, asked, model),
        covered=tuple(
            c.replace("the released labels and", "the released labels, the counts and") for c in statement.covered
        ),
        ledger_head=paid.head or statement.ledger_head,
    )
    # The budget's, not the statement's: several releases of a ledger are stated with its whole total.
    whole, cost = gdp_from_budget(*paid.budget) ** 2, sum_of_rounds(paid.mechanisms).mu_squared
    mu = max(whole - cost, 0.0) ** 0.5  # of the labels
    found = measured_accuracy(counts, mu=mu, share=min(1.0, cost / whole), size=SIZE_OF_LABELS)
    return replace(held_facts, measured=found)
