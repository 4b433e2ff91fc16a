"""The privacy budget: the largest epsilon, at a delta, that may be spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from scipy.special import ndtri

from pate._core.checks import check_real, shown
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_delta, gdp_from_budget, gdp_to_delta, gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.words import TIERS

#: For one answer at this epsilon the noise is a thousandth of a vote, the least that any mechanism here adds.
MOST_EPSILON = 1e6
#: Anyone who has more than ten people wants less; beyond it, releasing one whole record in ten would do.
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
    """A privacy budget: the largest epsilon, at a delta, that may be spent.

    Budgets are partially ordered: one is <= another when both its numbers are.

    Parameters
    ----------
    epsilon : float
        Above 0 and at most a million, in nats. :func:`pate.privacy.words.tier` gives the word that statements use for
        it.
    delta : float
        Above 0 and at most 0.1. Choose it well below one over the number of people.

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
        remedy = f"Commonly: {TIERS}; hundreds protect no one."
        epsilon = check_real("epsilon", self.epsilon, low=0, low_open=True, high=MOST_EPSILON, remedy=remedy)
        remedy = "It is a probability that nothing is promised. Choose it well below one over the number of people."
        delta = check_real("delta", check_delta(self.delta), high=MOST_DELTA, remedy=remedy)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    @classmethod
    def for_attacker(cls, attacker: float, delta: float) -> Budget:
        """Return the largest budget at ``delta`` with which an attacker's best guess is right at most so often.

        The attacker knows everything except which of two equally likely neighbouring data sets was used, and sees what
        is released. Under mu-GDP the best guess is right with probability Phi(mu/2): the least of 1 - (alpha +
        f(alpha))/2 over the trade-off function f (Dong, Roth, Su 2022, Definition 2.6).

        Parameters
        ----------
        attacker : float
            How many of 100 guesses may be right: above 50 (a coin toss) and below 100.
        delta : float
            The budget's delta; epsilon is that of the mu at this delta, rounded down to four digits.

        Raises
        ------
        InvalidInputError
            A number out of range, or delta alone allows more than that.

        Notes
        -----
        It holds for Gaussian noise on sums: record voters, noisy histograms. Other mechanisms (labels alone by GNMax,
        DP-SGD with sampling) may leave the attacker a slightly better guess at this epsilon; their statement says how
        much.
        """
        remedy = "It counts how many of 100 guesses may be right; a coin is right 50 times."
        attacker = check_real("attacker", attacker, low=50, high=100, low_open=True, high_open=True, remedy=remedy)
        # A little less: no rounding of a later conversion may lead above it.
        mu = 2 * float(ndtri(attacker / 100)) * (1 - 1e-9)
        epsilon = gdp_to_epsilon(mu, check_delta(delta)) if mu < MOST_EPSILON else math.inf
        if epsilon == 0:
            raise InvalidInputError(
                f"attacker must be above {50 * (1 + delta):.6g} of 100 at delta={delta:g}, which alone allows that, "
                f"got {attacker:g}. Use a smaller delta, or allow more."
            )
        scale = 10.0 ** (3 - math.floor(math.log10(epsilon)))
        return cls(math.floor(epsilon * scale) / scale, delta)

    @property
    def mu_squared(self) -> float:
        """The largest mu^2 of Gaussian differential privacy within the budget."""
        return _mu_squared(self.epsilon, self.delta)

    def allows(self, charge: Charge) -> bool:
        """Return whether a release of this constant charge stays within the budget."""
        return charge.guarantee(self.delta).epsilon <= self.epsilon

    def __le__(self, other: Budget) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def __ge__(self, other: Budget) -> bool:
        return other <= self


def check_budget(budget: object) -> Budget:
    """Return ``budget`` if it is one."""
    if isinstance(budget, Mapping):
        raise InvalidInputError(
            "budget must be one pate.Budget here, got one for every tier: those are for classes, of records that vote "
            "on public rows (PATEClassifier.fit(..., tiers=...), pate label --tiers), and for votes (release_labels)."
        )
    if not isinstance(budget, Budget):
        raise InvalidInputError(
            f"budget must be pate.Budget(epsilon, delta), got {shown(budget)}. Try budget=Budget(1.0, 1e-5)."
        )
    return budget
