"""What one DP-SGD run will do and cost: decided by public numbers alone, before a record is touched."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import dp_accounting

from pate.dpsgd._calibration import calibrate_noise_multiplier, discretization_interval, dpsgd_epsilon, unsampled_mu
from pate.exceptions import BudgetExceededError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.privacy.compose.dp_events import from_dp_event
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee

#: By how much noise may grow beyond what the budget needs, to fit into a ledger's currency.
_MOST_GROWTH = 2.0


@dataclass(frozen=True)
class Plan:
    """The public numbers of one run.

    Attributes
    ----------
    n_records : int
        The number of records that rate and steps follow from: the true one under replace-one (public), a nominal one
        under add-or-remove.
    n_steps : int
    sample_rate, noise_multiplier : float
    guarantee : Guarantee
    interval : float
        Grid of the privacy loss that ``guarantee`` was computed on.
    cost : Charge or None
        What a ledger is charged; None without one.
    """

    n_records: int
    n_steps: int
    sample_rate: float
    noise_multiplier: float
    guarantee: Guarantee
    interval: float
    cost: Charge | None = None


def dpsgd_cost(noise_multiplier: float, *, sample_rate: float, n_steps: int) -> Charge:
    """Return the cost of a run under replace-one adjacency, as a ledger or an accountant takes it.

    The Renyi curve is that of the dominating pair (:func:`pate.privacy.from_dp_event`). In Gaussian differential
    privacy sampling buys nothing: whether a record is in a step is independent of the record, so it may be told to the
    attacker; a step is then a mixture of nothing and of a (2/sigma)-GDP release, whose trade-off function is at least
    that of (2/sigma)-GDP by convexity, and mu^2 = n_steps 4/sigma^2 adds up (Dong, Roth, Su 2022).

    Examples
    --------
    >>> cost = dpsgd_cost(2.0, sample_rate=0.01, n_steps=100)
    >>> round(cost.mu_squared, 6), float(cost.rdp_at([8.0])[0]) < 0.1
    (100.0, True)
    """
    step = dp_accounting.PoissonSampledDpEvent(sample_rate, dp_accounting.GaussianDpEvent(noise_multiplier))
    found = from_dp_event(dp_accounting.SelfComposedDpEvent(step, n_steps))
    mu_squared = unsampled_mu(noise_multiplier, n_steps, "replace-one") ** 2
    return replace(found, mu_squared=mu_squared)


def make_plan(
    budget: Budget,
    *,
    n_records: int,
    expected_batch_size: int,
    epochs: int,
    noise_multiplier: float | None,
    adjacency: str,
    ledger: Ledger | None = None,
) -> Plan:
    """Return the plan with the least noise that the budget (and the ledger) allow, or with the noise given.

    Raises
    ------
    BudgetExceededError
        The noise given is too little, or the ledger does not pay for the run.

    Examples
    --------
    >>> plan = make_plan(Budget(3.0, 1e-5), n_records=1000, expected_batch_size=256, epochs=20, noise_multiplier=None,
    ...     adjacency="replace-one")
    >>> plan.n_steps, plan.sample_rate, 2.97 < plan.guarantee.epsilon <= 3.0
    (80, 0.256, True)
    """
    epsilon, delta = budget.epsilon, budget.delta
    n_steps = epochs * -(-n_records // expected_batch_size)
    q = expected_batch_size / n_records
    sigma = noise_multiplier
    if sigma is None:
        sigma = calibrate_noise_multiplier(epsilon, delta, sample_rate=q, n_steps=n_steps, adjacency=adjacency)
        if ledger is not None:
            sigma = _grown(sigma, q, n_steps, budget, ledger)
    interval = discretization_interval(epsilon, n_steps)
    spent = dpsgd_epsilon(sigma, delta=delta, sample_rate=q, n_steps=n_steps, adjacency=adjacency, interval=interval)
    if spent > epsilon:
        raise BudgetExceededError(
            f"noise_multiplier={sigma:g} would cost epsilon={spent:.6g} over {n_steps} steps, more than {budget}. "
            "Pass noise_multiplier=None to have it chosen, or train for fewer epochs."
        )
    guarantee = Guarantee(
        epsilon=spent,
        delta=delta,
        kind="public",
        method="exact Gaussian differential privacy"
        if q == 1
        else "privacy loss distributions of the Poisson-subsampled Gaussian (dp_accounting)",
        adjacency=adjacency,
    )
    cost = None if ledger is None else dpsgd_cost(sigma, sample_rate=q, n_steps=n_steps)
    return Plan(n_records, n_steps, q, float(sigma), guarantee, interval, cost)


def _grown(sigma: float, q: float, n_steps: int, budget: Budget, ledger: Ledger) -> float:
    """Return the least noise, from ``sigma`` on, that the ledger pays for.

    Its currency adds up over releases of any kind, which a privacy loss distribution does not: it prices a run a little
    higher, and noise makes up for that.
    """
    left = ledger.remaining(default_total=budget)

    def allowed(value: float) -> bool:
        return left.allows(dpsgd_cost(value, sample_rate=q, n_steps=n_steps))

    low, high = sigma, _MOST_GROWTH * sigma
    if allowed(low):
        return low
    if not allowed(high):
        why = left.refusal(dpsgd_cost(high, sample_rate=q, n_steps=n_steps))
        raise BudgetExceededError(
            f"the ledger does not pay for this run of DP-SGD, not even with {_MOST_GROWTH:g} times the noise that "
            f"{budget} needs: {why}. Nothing was charged. A ledger that counts mu^2 sees nothing of the sampling: for "
            "DP-SGD open one with currency='renyi'. Otherwise train for fewer epochs, or pass a smaller budget."
        )
    while high > (1 + 1e-4) * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return high
