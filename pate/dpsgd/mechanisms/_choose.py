"""How many bands and turns correlated noise should have: the least error that a budget allows."""

from __future__ import annotations

import math
from functools import cache, lru_cache

from scipy.optimize import brentq

from pate.core.checks import check_int, largest_of, least_of
from pate.dpsgd._calibration import SMALLEST_NOISE_MULTIPLIER, central_limit_guess
from pate.dpsgd.mechanisms._ftrl import BandedFTRL, Cycle
from pate.dpsgd.mechanisms._mechanism import Shape
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget
from pate.privacy.losses import discretization_interval


@lru_cache(maxsize=64)
def choose_bands(
    budget: Budget,
    shape: Shape,
    *,
    adjacency: str = "replace-one",
    momentum: float = 0.0,
    most_bands: int = 64,
) -> BandedFTRL:
    """Return the banded mechanism with the least root mean squared error of the iterates at a budget.

    Separations of 1, 2, 4, ... and the longest are tried, each with as many optimised bands: from independent noise,
    whose coins amplify most (DP-SGD, but for groups of one), to noise that cancels best (Choquette-Choo, Ganesh et al.
    2023). A function of public numbers alone, so it costs nothing. Little privacy to lose (small epsilon, large
    batches, many epochs) leaves it at DP-SGD, few epochs at a large epsilon lead away from it.

    Parameters
    ----------
    budget : Budget
    shape : Shape
    adjacency : {"replace-one", "add-or-remove", "zero-out"}
    momentum : float
        The optimiser's.
    most_bands : int
        Memory is one number less for each parameter.

    Examples
    --------
    >>> shape = Shape(400, 0.25, 8, 100)
    >>> [choose_bands(Budget(epsilon, 1e-5), shape, adjacency="zero-out").n_bands for epsilon in (1.0, 10.0)]
    [1, 4]
    """
    check_int("most_bands", most_bands, low=1)
    longest = Cycle.of(shape).separation
    separations = sorted({min(2**i, longest) for i in range(longest.bit_length() + 1)})
    found = [BandedFTRL(min(n_steps, most_bands), separation=n_steps, momentum=momentum) for n_steps in separations]
    errors = [banded_error(mechanism, budget, shape, adjacency) for mechanism in found]
    return found[errors.index(least_of(*errors))]


def banded_error(mechanism: BandedFTRL, budget: Budget, shape: Shape, adjacency: str = "replace-one") -> float:
    """Return the root mean squared error that is left at a budget, of a coordinate of the iterates, in clipping norms.

    To about 0.1 %. That of sums of clipped gradients, before they are divided by the expected batch size and
    multiplied by the learning rate.

    Examples
    --------
    Eight turns, 512 steps: mu from the budget, 2 sqrt(8) / mu the noise, and 3.29 of it is left.

    >>> from pate.privacy.convert import gdp_from_budget
    >>> error = banded_error(BandedFTRL(64), Budget(1.0, 1e-5), Shape(6400, 1 / 64, 512, 100))
    >>> round(error * gdp_from_budget(1.0, 1e-5) / 2, 2)
    9.3
    """
    cost = mechanism.cost(shape)
    if not cost.amplified:
        sigma = cost.mu(1.0, adjacency) / gdp_from_budget(budget.epsilon, budget.delta)
        return sigma * mechanism.strategy(shape).rmse(mechanism.momentum)
    interval = discretization_interval(budget.epsilon, shape.n_steps)

    @cache
    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        spent = mechanism.epsilon(sigma, shape, delta=budget.delta, adjacency=adjacency, interval=interval)
        return spent - budget.epsilon

    start = central_limit_guess(budget.epsilon, budget.delta, cost.cycle.rate, cost.cycle.rounds, adjacency)
    low = high = math.log(largest_of(start, SMALLEST_NOISE_MULTIPLIER))
    while excess(low) < 0:
        low -= 0.2
    while excess(high) > 0:
        high += 0.2
    found = low if low == high else brentq(excess, low, high, xtol=1e-3)
    return math.exp(found) * mechanism.strategy(shape).rmse(mechanism.momentum)
