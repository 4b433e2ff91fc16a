"""The most that may be spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from pate.core.checks import check_real, shown
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_delta, gdp_from_budget, gdp_to_delta
from pate.privacy.cost import Charge

#: For one answer at this epsilon the noise is a thousandth of a vote, the least that any mechanism here adds.
MOST_EPSILON = 1e6
#: Whoever has more than ten people wants less; beyond it, releasing one whole record in ten would do.
MOST_DELTA = 0.1


@lru_cache(maxsize=256)
def _mu_squared(epsilon: float, delta: float) -> float:
    mu_squared = gdp_from_budget(epsilon, delta) ** 2
    # Both conversions round on the safe side, by under 1e-12: what `allows` admits is within this limit all the same.
    # The margin in delta of both is wider, and it is asked again.
    wider = mu_squared * (1 + 1e-12)
    return wider if gdp_to_delta(math.sqrt(wider), epsilon) <= delta else mu_squared


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) that must not be exceeded.

    Budgets are partially ordered: one is <= another when both its numbers are.

    Parameters
    ----------
    epsilon : float
        Above 0, in nats. At most 1 is strong, at most 10 reasonable; above a million is refused.
    delta : float
        Above 0, at most 0.1; well below one over the number of people.

    Raises
    ------
    InvalidInputError
        A number out of range.

    Examples
    --------
    >>> Budget(1.0, 1e-5) <= Budget(2.0, 1e-5)
    True
    >>> Budget(epsilon=-1, delta=1e-5)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: epsilon must be a finite number > 0 and <= 1e+06, got -1. ...
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        remedy = "At most 1 is a strong guarantee, at most 10 a reasonable one, and hundreds protect nobody."
        epsilon = check_real("epsilon", self.epsilon, low=0, low_open=True, high=MOST_EPSILON, remedy=remedy)
        remedy = "It is a probability that nothing is promised. Choose it well below one over the number of people."
        delta = check_real("delta", check_delta(self.delta), high=MOST_DELTA, remedy=remedy)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    @property
    def mu_squared(self) -> float:
        """The largest mu^2 of Gaussian differential privacy within the budget."""
        return _mu_squared(self.epsilon, self.delta)

    def allows(self, charge: Charge) -> bool:
        """Return whether a release of this constant charge stays within the budget.

        Examples
        --------
        >>> one = Charge.gaussian(sensitivity=2**0.5, sigma=40.0)
        >>> Budget(1.0, 1e-5).allows(one * 57), Budget(1.0, 1e-5).allows(one * 58)
        (True, False)
        """
        return charge.guarantee(self.delta).epsilon <= self.epsilon

    def __le__(self, other: Budget) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def __ge__(self, other: Budget) -> bool:
        return other <= self


def check_budget(budget: object) -> Budget:
    """Return ``budget`` if it is one.

    Examples
    --------
    >>> check_budget(1.0)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: budget must be pate.Budget(epsilon, delta), got 1.0. ...
    """
    if not isinstance(budget, Budget):
        raise InvalidInputError(
            f"budget must be pate.Budget(epsilon, delta), got {shown(budget)}. Try budget=Budget(1.0, 1e-5)."
        )
    return budget
