"""The lock's second door: a run of capped votes is paid for whole before its first answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy.typing as npt

from pate._random import NoiseSource
from pate._validation import check_classes
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.labeling._quote import warn_if_weak
from pate.mechanisms import Draw
from pate.mechanisms.vote_cap import VoteCap, VoteCapSession
from pate.privacy.budget import Budget, check_budget
from pate.privacy.guarantee import Guarantee
from pate.privacy.ledger import Ledger


@dataclass(frozen=True, eq=False)
class VoteCapRun:
    """An open run of capped votes, already paid for.

    Attributes
    ----------
    session : VoteCapSession
        Holds the teachers' vote counts, which are sensitive and do not show.
    guarantee : Guarantee
        Covers every answer of the run, however many there will be.

    Examples
    --------
    >>> run = open_vote_cap(VoteCap(max_votes=5, sigma=20.0), n_teachers=90, classes=2, budget=Budget(1.0, 1e-5))
    >>> run.guarantee.epsilon < 1
    True
    """

    session: VoteCapSession
    guarantee: Guarantee

    def ask(self, labels: npt.ArrayLike) -> Draw:
        """Release noisy winners for labels of shape (n_teachers, n_queries); see :meth:`VoteCapSession.ask`.

        Examples
        --------
        >>> run = open_vote_cap(VoteCap(max_votes=5, sigma=5.0), n_teachers=90, classes=2, budget=Budget(5.0, 1e-5))
        >>> run.ask([[0]] * 80 + [[-1]] * 10).labels
        array([0])
        """
        return self.session.ask(labels)


def open_vote_cap(
    mechanism: VoteCap,
    *,
    n_teachers: int,
    classes: object,
    budget: Budget,
    ledger: Ledger | None = None,
    unit: str = "record",
    n_units: int | None = None,
    noise_seed: int | None = None,
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
        Also stay within its total; the charge is stored before the run is opened.
    unit : {"record", "group"}
    n_units : int or None
        Number of protected units, to warn of a weak delta.
    noise_seed : int or None
        For tests only: the guarantee then says that nothing is private.

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
        raise InvalidInputError(f"mechanism must be VoteCap(max_votes, sigma), got {mechanism!r}.")
    if unit not in ("record", "group"):
        raise InvalidInputError(f"unit must be 'record' or 'group', got {unit!r}.")
    values = check_classes(range(classes) if isinstance(classes, int) else classes)
    charge = mechanism.charge()
    if not check_budget(budget).allows(charge):
        raise BudgetExceededError(
            f"the budget {budget} does not buy {mechanism}. Lower max_votes or use more noise "
            "(pate.calibrate does it). Nothing was spent."
        )
    warn_if_weak(budget.delta, n_units)
    noise = NoiseSource(noise_seed)
    session = mechanism.session(n_teachers=n_teachers, n_classes=len(values), noise=noise)
    if ledger is not None:
        ledger.open_total(ledger.total or budget, binding={"unit": unit, "classes": [repr(c) for c in values]})
        # The number of queries is open: what is charged is the votes.
        facts = {"n_teachers": session.n_teachers, "seeded": noise.seeded}
        ledger.record(charge, mechanism=str(mechanism), n_queries=mechanism.max_votes, facts=facts)
    guarantee = charge.guarantee(budget.delta)
    return VoteCapRun(session, replace(guarantee, kind="seeded") if noise.seeded else guarantee)
