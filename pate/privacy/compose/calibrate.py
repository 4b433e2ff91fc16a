"""Noise from a budget: the inverse question of accounting, answered on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pate._core.checks import check_int
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.cost import Charge

# What the mathematics asks of a budget backend: that it is paid before anything is drawn.


class Allowance(Protocol):
    """What is left to spend, such as :meth:`pate.Ledger.remaining`."""

    def allows(self, cost: Charge) -> bool:
        """Return whether a release of this cost fits."""


class BudgetBackend(Protocol):
    """What a gate or a private selection is paid from, such as a :class:`pate.Ledger`.

    Examples
    --------
    >>> from pate import Ledger
    >>> callable(Ledger.pay)
    True
    """

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
        """Charge a cost, or raise and charge nothing; return the charge's number.

        Parameters
        ----------
        cost : Charge
            A worst case fixed beforehand.
        what, kind : str
            What is paid for, in words; and one of :data:`pate.ledger.KINDS`.
        total : Budget or None
            What a backend that has no total yet is opened with.
        votes : Votes or None
            Whose they are is compared with whom the backend is for.
        n_queries : int
        facts : dict or None
            Further public facts.
        seeded : bool
            Whether the noise can be repeated.
        open_ended : bool
            Whether answers will be stored under the number.
        """


class _Scalable(Protocol):
    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge: ...

    def scaled(self, factor: float) -> _Scalable: ...


M = TypeVar("M", bound=_Scalable)


def largest(allowed: Callable[[int], bool], high: int) -> int:
    """Return the largest n in 0 .. high with ``allowed(n)``, for a condition that once false stays false.

    Examples
    --------
    >>> largest(lambda n: n * n <= 50, 100)
    7
    """
    low, top = 0, high + 1
    while top - low > 1:
        middle = (low + top) // 2
        low, top = (middle, top) if allowed(middle) else (low, middle)
    return low


def least_between(low: float, high: float, fits: Callable[[float], bool], *, within: float) -> float:
    """Return what fits and is within this share of what does not: ``high`` does, ``low`` does not."""
    while high > (1 + within) * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def calibrate(
    mechanism: M, budget: Budget, *, n_queries: int, max_answers: int | None = None, left: Allowance | None = None
) -> M:
    """Return the mechanism with its noise scaled so that the release just fits the budget.

    Parameters
    ----------
    mechanism : a mechanism of :mod:`pate.mechanisms`
        Gives the proportions of its noises; it is not changed.
    budget : Budget
    n_queries : int
        How many queries will be asked.
    max_answers : int or None
        The cap on answers; None means all of them may be answered.
    left : Remaining or None
        Also fit what is left in a ledger (``ledger.remaining(default_total=budget)``), in the one currency that it
        counts in: where that is not the cheapest for this mechanism, more noise is needed than without.

    Returns
    -------
    mechanism
        Its charge is within the budget and at most 1e-9 (relative, in noise) more careful than needed, or has the
        least noise there is.

    Raises
    ------
    BudgetExceededError
        No noise below 1e9 times the given one is enough, or nothing is left in the ledger.

    Examples
    --------
    >>> from pate import GNMax
    >>> round(calibrate(GNMax(sigma=1.0), Budget(1.0, 1e-5), n_queries=147).sigma, 2)
    56.02
    """
    n_queries = check_int("n_queries", n_queries, low=1)

    def fits(factor: float) -> bool:
        try:
            scaled = mechanism.scaled(factor)
        except InvalidInputError:
            return False  # less noise than any mechanism here adds: the least there is will do
        charge = scaled.charge(n_queries, max_answers)
        return budget.allows(charge) and (left is None or left.allows(charge))

    high = 1.0
    while not fits(high):
        high *= 2
        if high > 1e9:
            also = "" if left is None else " and what is left in the ledger"
            raise BudgetExceededError(
                f"no amount of noise brings {n_queries} queries within {budget}{also}. Ask fewer queries."
            )
    low = high / 2
    while low > 1e-9 and fits(low):
        high, low = low, low / 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return mechanism.scaled(high)  # type: ignore[return-value]
