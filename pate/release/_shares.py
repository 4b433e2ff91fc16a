"""One site's part of a run among sites: its own ledger is charged first, then its sums get its share of the noise."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pate._core.checks import check_int, check_real, shown
from pate._core.types import IntArray
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger, Registration
from pate.mechanisms import LEAST_SHARE, MOST_STEPS, SharedGaussian, SharedGNMax, rounds_charge
from pate.privacy.budget import Budget
from pate.privacy.compose.calibrate import calibrate
from pate.privacy.cost import Charge
from pate.records import BallotSum, RightCounts, VectorSum
from pate.release._quote import ReleaseTerms
from pate.release._stored import OneHolder, check_same_records
from pate.release._transaction import PaidShares, Transaction
from pate.votes import Votes

Shared = SharedGaussian | SharedGNMax
Sums = BallotSum | RightCounts | VectorSum | Votes

#: Share of a site's delta that is set aside for what noise on a lattice may fail by (theorem 2 mostly needs far less).
SET_ASIDE = 2.0**-10


def _payable(budget: Budget) -> Budget:
    """Return what a site's ledger of this total pays for noise: the same epsilon, at what of delta is not set aside."""
    return Budget(budget.epsilon, budget.delta * (1 - SET_ASIDE))


def site_ledger(path: Any, total: Budget, *, labels: bool = False) -> Ledger:
    """Return a site's ledger, begun if there is none, that can pay for noise in shares again and again.

    Less than a thousandth of delta is set aside for the probability by which such noise may fail: a ledger keeps that
    apart, and one that was begun for something else has none.

    Parameters
    ----------
    path : str or path
    total : Budget
        Of all that is ever released of this site's records.
    labels : bool
        Whether labels of whole votes will be opened: their cost is known as a Renyi divergence only.

    Examples
    --------
    >>> import tempfile
    >>> ledger = site_ledger(tempfile.mkdtemp() + "/site.sqlite", Budget(1.0, 1e-5))
    >>> ledger.total, ledger.remaining().failure_left < 1e-7
    (Budget(epsilon=1.0, delta=1e-05), True)
    """
    fresh = not Ledger(path).total
    if not fresh:
        return Ledger(path, total=total)
    return Ledger(path, total=total, currency="renyi" if labels else None, failure_delta=total.delta * SET_ASIDE)


@dataclass(frozen=True)
class _Rounds:
    """Several rounds whose noise grows together, as :func:`pate.privacy.compose.calibrate.calibrate` takes it."""

    mechanisms: tuple[Shared, ...]
    n_cells: int = 0
    may_fail: float = 1.0

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        return rounds_charge(self.mechanisms, n_queries)

    def scaled(self, factor: float) -> _Rounds:
        scaled = replace(self, mechanisms=tuple(one.scaled(factor) for one in self.mechanisms))
        if rounds_charge(scaled.mechanisms, self.n_cells, "outsider").delta0 > self.may_fail:
            raise InvalidInputError("noise of so few steps fails more often than is set aside for it.")
        return scaled


def buy_shares(
    budget: Budget,
    shares: Sequence[float],
    *,
    n_sites: int,
    tolerate: int,
    n_cells: int,
    max_sites_per_person: int = 1,
    ledger: Ledger | None = None,
) -> tuple[SharedGaussian, ...]:
    """Return one mechanism a round such that all together just fit the budget at every site; nothing is spent.

    A site whose ledger (:func:`site_ledger`) has this total can pay for it: the noise is for the part of delta that is
    not set aside there.

    Parameters
    ----------
    budget : Budget
    shares : sequence of float
        One per round: its part of mu^2. Their sum stands for the whole.
    n_sites, tolerate, max_sites_per_person : int
        See :class:`pate.mechanisms.SharedGaussian`.
    n_cells : int
        Numbers that are opened, over all rounds.
    ledger : Ledger or None
        Also fit what is left there.

    Raises
    ------
    BudgetExceededError
        Nothing is left.

    Examples
    --------
    >>> one, two = buy_shares(
    ...     Budget(1.0, 1e-5), [1, 3], n_sites=10, tolerate=3, n_cells=5000
    ... )
    >>> round((one.noise_multiplier / two.noise_multiplier) ** 2, 6)
    3.0
    >>> round(rounds_charge([one, two], 5000).guarantee(1e-5).epsilon, 3)
    1.0
    """
    parts = [check_real(f"shares[{i}]", share, low=1e-9, high=1e9) for i, share in enumerate(shares)]
    if not parts:
        raise InvalidInputError("shares must list one number per round, got none. Try [0.3, 0.7].")
    one = functools.partial(
        SharedGaussian, n_sites=n_sites, tolerate=tolerate, max_sites_per_person=max_sites_per_person
    )
    rounds = _Rounds(tuple(one((sum(parts) / part) ** 0.5) for part in parts))
    left = None if ledger is None else ledger.remaining(default_total=budget)
    bought = calibrate(rounds, _payable(budget), n_queries=check_int("n_cells", n_cells, low=1), left=left).mechanisms
    return tuple(one for one in bought if isinstance(one, SharedGaussian))


def buy_labels(
    budget: Budget,
    n_queries: int,
    *,
    sigma: float | None = None,
    steps_per_vote: int | None = None,
    ledger: Ledger | None = None,
    **among: Any,
) -> SharedGNMax:
    """Return the least noise with which so many labels fit the budget at every site; nothing is spent.

    As for :func:`buy_shares`, a site whose ledger has this total can pay for it.

    Parameters
    ----------
    budget : Budget
    n_queries : int
    sigma : float or None
        This noise, in votes, instead of what the budget buys.
    steps_per_vote : int or None
        None: as few as leave the price that of Gaussian noise; each bit more takes time to compare.
    ledger : Ledger or None
        Also fit what is left there.
    **among
        ``n_sites``, ``tolerate``, ``n_classes`` and whatever else :class:`pate.mechanisms.SharedGNMax` takes.

    Raises
    ------
    BudgetExceededError
        Nothing is left.
    InvalidInputError
        A bad parameter, or too small a delta for so many comparisons.

    Examples
    --------
    >>> sites = {"n_sites": 10, "tolerate": 3, "n_classes": 10}
    >>> labels = buy_labels(Budget(1.0, 1e-5), 100, **sites)
    >>> round(labels.sigma, 1), labels.steps_per_vote
    (52.8, 4)
    >>> round(labels.charge(1000).guarantee(1e-5).epsilon, 3)
    1.0
    """
    if steps_per_vote is None:
        labels = buy_labels(budget, n_queries, sigma=sigma, steps_per_vote=MOST_STEPS, ledger=ledger, **among)
        few, n_cells, steps = budget.delta * SET_ASIDE / 4, n_queries * labels.n_classes, 2
        while steps < MOST_STEPS and _of_lattice(replace(labels, steps_per_vote=steps), n_cells) > few:
            steps *= 2
        return buy_labels(budget, n_queries, sigma=sigma, steps_per_vote=steps, ledger=ledger, **among)

    most = SharedGNMax(sigma=1e9 if sigma is None else sigma, steps_per_vote=steps_per_vote, **among)
    n_cells, may_fail = check_int("n_queries", n_queries, low=1) * most.n_classes, budget.delta * SET_ASIDE
    if 2 * (compared := most.charge(n_cells).delta0 - _of_lattice(most, n_cells)) > may_fail:
        raise InvalidInputError(
            f"delta must be at least {2 * compared / SET_ASIDE:.3g} for {n_queries:,} queries of {most.n_classes} "
            f"classes, got {budget.delta:g}: a secure comparison reveals more than its result with probability "
            f"2^-{most.comparison_bits}, and little of delta is set aside for that. Ask fewer queries, or open noisy "
            "counts."
        )
    if sigma is not None:
        return most
    least = replace(most, sigma=LEAST_SHARE * most.n_honest**0.5 * (1 + 2.0**-40))
    left = None if ledger is None else ledger.remaining(default_total=budget)
    rounds = _Rounds((least,), n_cells, may_fail / 2)
    (bought,) = calibrate(rounds, _payable(budget), n_queries=n_cells, left=left).mechanisms
    assert isinstance(bought, SharedGNMax)
    return bought


def _of_lattice(labels: SharedGNMax, n_cells: int) -> float:
    """Return what of delta0 is of noise on a lattice; an outsider does not see what is of comparisons."""
    return labels.charge_of("outsider", n_cells).delta0


class ShareSession(OneHolder):
    """Rounds among sites that this site has paid for; :func:`open_shares` makes it.

    It cannot be taken up again after a crash: what left this site then is not known, so that another run with fresh
    noise is another release.

    Attributes
    ----------
    mechanisms : tuple of SharedGaussian, or one SharedGNMax
        One per round.
    charge : Charge
        What this site was charged: all rounds, seen by the coalition.
    release : int or None
        Its number in the ledger.
    """

    _uncopied = "a session of shares cannot be copied or stored: each copy would draw what was paid for once."
    _elsewhere = "this session was opened in another process. Draw its shares there."

    def __init__(self, paid: PaidShares, terms: ReleaseTerms, data: Registration, charge: Charge) -> None:
        super().__init__()
        self._paid, self._terms, self._data = paid, terms, data
        self.mechanisms, self.charge, self.release = paid.rounds, charge, paid.release

    def __repr__(self) -> str:
        return f"ShareSession({len(self.mechanisms)} rounds, n_left={self.n_left})"

    @property
    def n_left(self) -> int:
        """Rounds that are left."""
        return len(self.mechanisms) - self._paid.n_used

    def share(self, sums: Sums) -> list[int]:
        """Return what this site gives to the next round's secure sum: its sums and its share of the noise.

        **Sensitive**: it may leave this machine inside a secure sum only. Noise is fresh, from the operating system's
        generator, and the round is used up before it is drawn.

        Parameters
        ----------
        sums : BallotSum, RightCounts, VectorSum or Votes
            Of the records that the session was opened for; how far one unit moves them they say themselves.

        Returns
        -------
        list of int
            In steps of the mechanism's lattice, row by row.

        Raises
        ------
        BudgetExceededError
            No round is left, or fewer numbers than these.
        InvalidInputError
            Sums of other records, another unit or other classes; or the wrong kind for the mechanism.
        """
        self._check_process()
        with self._turn:
            self._check_open()
            values, delta_squared = self._checked(sums)
            return self._paid.draw(values, delta_squared)

    def _checked(self, sums: Sums) -> tuple[IntArray, int]:
        if isinstance(sums, Votes):
            values, said = sums.counts.astype("int64"), Registration.of_votes(sums)
            # A teacher's votes may all change: two counts a query, and a round of a SharedGaussian is charged once for
            # all its queries. SharedGNMax is charged query by query.
            delta_squared = 2 * max(1, len(values)) if isinstance(self.mechanisms[0], SharedGaussian) else 2
            n_classes = getattr(self.mechanisms[0], "n_classes", values.shape[1])
            if values.shape[1] != n_classes:
                raise InvalidInputError(f"votes must be for {n_classes} classes, got {values.shape[1]}.")
        elif isinstance(sums, BallotSum | RightCounts | VectorSum) and isinstance(self.mechanisms[0], SharedGaussian):
            self._terms.check_tiers(sums.facts)
            values, delta_squared, said = sums.sums, sums.delta_squared, sums.registration()
        else:
            raise InvalidInputError(
                f"sums must be a BallotSum, RightCounts, VectorSum or Votes (labels: Votes), got {shown(sums)}."
            )
        check_same_records("sums", self._data, said, "were paid for")
        return values, delta_squared


def open_shares(
    mechanisms: Sequence[Shared],
    *,
    data: Registration,
    budget: Budget,
    ledger: Ledger | None,
    request: str,
    n_cells: int,
    facts: dict[str, Any] | None = None,
    without_ledger: bool = False,
) -> ShareSession:
    """Charge this site's own ledger for a whole run among sites, durably; then its shares may be drawn.

    Parameters
    ----------
    mechanisms : sequence of SharedGaussian, or of one SharedGNMax
        One per round.
    data : Registration
        Whose records: ``ballots.registration()``, ``Registration.of_votes(votes)``.
    budget : Budget
        The most that the run may cost this site.
    ledger : Ledger or None
        See :func:`site_ledger`.
    request : str
        What the run is recognised by: the plan's digest.
    n_cells : int
        Numbers that are opened (labels: compared) over all rounds, at most.
    facts : dict or None
        Public facts for the ledger, JSON.
    without_ledger : bool
        For tests only: without a ledger nothing keeps a site from paying twice.

    Guarantees
    ----------
    The charge is of a coalition of t parties, for all rounds, and is committed before this returns: a run that breaks
    off afterwards stays charged. Each round is drawn once, with fresh noise; under the same request nothing is ever
    drawn again.

    Raises
    ------
    FederationError
        This request was charged before.
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy it; nothing was spent.
    LedgerError
        The ledger is for other records, or could not be written.

    Examples
    --------
    >>> votes = Votes.from_counts([[8, 2], [5, 5]])
    >>> session = open_shares(
    ...     [SharedGaussian(30.0, n_sites=5, tolerate=2)],
    ...     data=Registration.of_votes(votes),
    ...     budget=Budget(1.0, 1e-5),
    ...     ledger=None,
    ...     request="plan 1",
    ...     n_cells=4,
    ...     without_ledger=True,
    ... )
    >>> len(session.share(votes)), session
    (4, ShareSession(1 rounds, n_left=0))
    """
    rounds = tuple(mechanisms)
    kinds = {type(one) for one in rounds}
    if len(kinds) != 1 or not kinds <= {SharedGaussian, SharedGNMax} or (SharedGNMax in kinds and len(rounds) > 1):
        raise InvalidInputError("mechanisms must be SharedGaussian, one a round, or one SharedGNMax.")
    if len({(one.n_sites, one.tolerate, one.max_sites_per_person) for one in rounds}) > 1:
        raise InvalidInputError("mechanisms must be of the same sites in all rounds: n_sites, tolerate, persons.")
    if not isinstance(request, str) or not request:
        raise InvalidInputError(f"request must be a text, the plan's digest, got {shown(request)}.")
    if ledger is None and not without_ledger:
        raise InvalidInputError("ledger must be a pate.Ledger: a site keeps its own. See pate.release.site_ledger.")
    n_cells = check_int("n_cells", n_cells, low=1)
    terms = ReleaseTerms(budget=budget, ledger=ledger)
    paid = Transaction(terms, data).shares(rounds, dict(facts or {}), n_cells=n_cells, request=request)
    return ShareSession(paid, terms, data, rounds_charge(rounds, n_cells))
