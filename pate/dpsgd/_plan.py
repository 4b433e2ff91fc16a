"""What one DP-SGD run will do and cost: decided by public numbers alone, before a record is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from pate.dpsgd._calibration import SMALLEST_DELTA, central_limit_guess, least_noise
from pate.dpsgd.mechanisms import PoissonSGD, Shape, TrainingMechanism
from pate.exceptions import BudgetExceededError
from pate.ledger import Ledger
from pate.privacy.attacker import attack_bounds
from pate.privacy.budget import Budget
from pate.privacy.cost import Charge
from pate.privacy.losses import discretization_interval
from pate.privacy.words import Guarantee

#: By how much noise may grow beyond what the budget needs, to fit into a ledger's currency.
_MOST_GROWTH = 2.0


@dataclass(frozen=True)
class Plan:
    """The public numbers of one run.

    Attributes
    ----------
    mechanism : TrainingMechanism
    shape : Shape
    noise_multiplier : float
    guarantee : Guarantee
    interval : float
        Grid of the privacy loss that ``guarantee`` was computed on.
    cost : Charge or None
        What a ledger is charged; None without one.
    """

    mechanism: TrainingMechanism
    shape: Shape
    noise_multiplier: float
    guarantee: Guarantee
    interval: float
    cost: Charge | None = None

    def epsilon_at(self, delta: float, n_steps: int | None = None) -> float:
        """Return the epsilon of the run, or of its first steps, at another delta.

        The whole run's where the first steps of a mechanism are not a shorter run of it.
        """
        shape = self.shape
        if n_steps is not None and self.mechanism.prefixes:
            shape = replace(shape, n_steps=n_steps)
        return self.mechanism.epsilon(
            self.noise_multiplier, shape, delta=delta, adjacency=self.guarantee.adjacency, interval=self.interval
        )

    def total_variation(self) -> float:
        """Return the least delta found at which epsilon is 0: by how much any test's two rates differ at most.

        By bisection of :meth:`epsilon_at`, whose every value is an upper bound, so that where the search ends moves the
        size of the answer alone; below what (epsilon, delta) allows by Kairouz, Oh, Viswanath 2015, else that.
        """
        low, high = 0.0, float(attack_bounds(self.guarantee.epsilon, self.guarantee.delta)["largest_advantage"] or 1.0)
        while high - low > 1e-3 * high and high > SMALLEST_DELTA:
            middle = (low + high) / 2
            low, high = (low, middle) if self.epsilon_at(middle) == 0 else (middle, high)
        return high


def make_plan(
    budget: Budget,
    shape: Shape,
    *,
    mechanism: TrainingMechanism | None = None,
    noise_multiplier: float | None = None,
    adjacency: str = "replace-one",
    ledger: Ledger | None = None,
    on_exhausted: str = "raise",
) -> Plan:
    """Return the plan with the least noise that the budget (and the ledger) allow, or with the noise given.

    Parameters
    ----------
    budget : Budget
    shape : Shape
    mechanism : TrainingMechanism or None
        None is Poisson sampling.
    noise_multiplier : float or None
    adjacency : {"replace-one", "add-or-remove", "zero-out"}
    ledger : Ledger or None
    on_exhausted : {"raise", "stop"}
        Where the noise given is too little for all steps: refuse, or stop before the step that would exceed the budget.

    Raises
    ------
    InvalidInputError
        No theorem is known for the mechanism with this shape and adjacency.
    BudgetExceededError
        The noise given is too little, or the ledger does not pay for the run.
    """
    mechanism = PoissonSGD() if mechanism is None else mechanism
    mechanism.check(shape, adjacency)
    interval = discretization_interval(budget.epsilon, shape.n_steps)

    def epsilon(sigma: float, n_steps: int) -> float:
        part = replace(shape, n_steps=n_steps)
        return mechanism.epsilon(sigma, part, delta=budget.delta, adjacency=adjacency, interval=interval)

    sigma = noise_multiplier
    if sigma is None:
        sigma = _calibrated(mechanism, shape, budget, adjacency, interval)
        if ledger is not None:
            sigma = _grown(sigma, mechanism, shape, budget, ledger)
    spent = epsilon(sigma, shape.n_steps)
    if spent > budget.epsilon and on_exhausted == "stop":
        shape = replace(shape, n_steps=_most_steps(lambda n: epsilon(float(sigma), n) <= budget.epsilon, shape.n_steps))
        spent = epsilon(sigma, shape.n_steps) if shape.n_steps else math.inf
    if spent > budget.epsilon:
        raise BudgetExceededError(
            f"noise_multiplier={sigma:g} would cost epsilon={epsilon(sigma, max(shape.n_steps, 1)):.6g} over "
            f"{max(shape.n_steps, 1)} steps, more than {budget}. "
            "Pass noise_multiplier=None to have it chosen, or train for fewer epochs."
        )
    guarantee = Guarantee(
        epsilon=spent,
        delta=budget.delta,
        kind="public",
        method="exact Gaussian differential privacy"
        if mechanism.mu(sigma, shape, adjacency) is not None
        else f"privacy loss distributions of {mechanism.words(shape)} (dp_accounting)",
        adjacency=adjacency,
    )
    cost = None if ledger is None else mechanism.charge(sigma, shape)
    return Plan(mechanism, shape, float(sigma), guarantee, interval, cost)


def priced(plan: Plan) -> Charge | None:
    """Return the run's cost as charges add up, None where neighbours are no replaced records."""
    if plan.cost is not None or plan.guarantee.adjacency != "replace-one":
        return plan.cost
    return plan.mechanism.charge(plan.noise_multiplier, plan.shape)


@lru_cache(maxsize=256)
def _calibrated(mechanism: TrainingMechanism, shape: Shape, budget: Budget, adjacency: str, interval: float) -> float:
    def fits(sigma: float) -> bool:
        found = mechanism.epsilon(sigma, shape, delta=budget.delta, adjacency=adjacency, interval=interval)
        return found <= budget.epsilon

    start = central_limit_guess(budget.epsilon, budget.delta, shape.sample_rate, shape.n_steps, adjacency)
    return least_noise(fits, start)


def _most_steps(fits: Callable[[int], bool], most: int) -> int:
    """Return how many steps fit, fewer than ``most``; more steps never cost less."""
    low, high = 0, most
    while high > low + 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _grown(sigma: float, mechanism: TrainingMechanism, shape: Shape, budget: Budget, ledger: Ledger) -> float:
    """Return the least noise, from ``sigma`` on, that the ledger pays for.

    Its currency adds up over releases of any kind, which a privacy loss distribution does not: it prices a run a little
    higher, and noise makes up for that.
    """
    left = ledger.remaining(default_total=budget)

    def allowed(value: float) -> bool:
        return left.allows(mechanism.charge(value, shape))

    low, high = sigma, _MOST_GROWTH * sigma
    if allowed(low):
        return low
    if not allowed(high):
        why = left.refusal(mechanism.charge(high, shape))
        raise BudgetExceededError(
            f"the ledger does not pay for this run of DP-SGD, not even with {_MOST_GROWTH:g} times the noise that "
            f"{budget} needs: {why}. Nothing was charged. A ledger that counts mu^2 sees nothing of the sampling: for "
            "DP-SGD open one with currency='renyi'. Otherwise train for fewer epochs, or pass a smaller budget."
        )
    while high > (1 + 1e-4) * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return high
