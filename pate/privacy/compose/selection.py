"""Private selection among repeated runs: hyperparameters chosen on the private data, and charged."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from pate.core.checks import check_real, largest_of, least_of
from pate.exceptions import InvalidInputError
from pate.privacy.compose.purse import Purse
from pate.privacy.convert import gdp_to_delta, pure_to_mu_squared
from pate.privacy.cost import Charge, check_charge


def select_best(
    cost: Charge,
    *,
    mean_runs: float,
    shape: float = 1.0,
    deltas: npt.ArrayLike | None = None,
    ledger: Purse | None = None,
    what: str = "private selection",
) -> Charge:
    """Return the cost of running a mechanism a random number of times and releasing the best run alone.

    Each run draws its hyperparameters at random from a public list, and its score is part of its own (private)
    output. The *number* of runs is drawn, before the first, from exactly the distribution named here and is not
    released; a fixed number of runs with the best published costs far more than this.

    Parameters
    ----------
    cost : Charge
        Of one run, score included.
    mean_runs : float
        Mean number of runs, above 1.
    shape : float
        eta of the truncated negative binomial: 1 is geometric, 0 logarithmic; infinity is Poisson (which may draw 0
        runs, and then nothing is released).
    deltas : array-like of shape (n_orders,) or None
        For Poisson, where more is known of one run than its Renyi curve and its mu tell: a delta at every epsilon
        log(1 + 1/(a - 1)), a being ``cost.orders``. The lesser counts.
    ledger : Ledger (or another Purse) or None
        Charge the whole selection there, before its first run; the runs themselves are then paid for.
    what : str
        For the ledger: what is selected.

    Returns
    -------
    Charge
        By Papernot and Steinke 2022 ("Hyperparameter tuning with Renyi differential privacy"), Theorem 2:
        D'(a) = D(a) + (1 + eta) (1 - 1/b) D(b) + (1 + eta) log(1/gamma) / b + log(mean) / (a - 1) at the best order
        b; Poisson by Theorem 6: D'(a) = D(a) + mean d + log(mean) / (a - 1), one run being (log(1 + 1/(a-1)), d)-DP.
        A pure epsilon becomes (2 + eta) epsilon.

    Raises
    ------
    InvalidInputError
        A parameter out of range, or a cost that may fail (delta0 > 0), which the theorems do not cover.
    BudgetExceededError
        What is left in the ledger does not buy it; nothing was charged and nothing may be run.

    Examples
    --------
    >>> one = Charge.gaussian(sensitivity=1.0, sigma=10.0)
    >>> select_best(one, mean_runs=10).guarantee(1e-5).epsilon / one.guarantee(1e-5).epsilon < 4
    True
    """
    one = check_charge(cost)
    mean = check_real("mean_runs", mean_runs, low=1, low_open=True, remedy="It is a mean: 10 is usual.")
    if shape != math.inf:
        shape = check_real("shape", shape, low=0, remedy="1 is geometric, 0 logarithmic, infinity Poisson.")
    if one.delta0:
        raise InvalidInputError("select_best needs a run that cannot fail: the theorems do not cover delta0 > 0.")
    alphas, curve = np.array(one.orders), np.array(one.rdp)
    if shape == math.inf:
        known = deltas_of(one)
        if deltas is not None:
            given = np.asarray(deltas, dtype=np.float64)
            if given.shape != known.shape or not (given >= 0).all():
                raise InvalidInputError(f"deltas must hold one value >= 0 for each of the {len(known)} orders.")
            known = np.minimum(known, given)
        losses = mean * known
        pure = math.inf
    else:
        gamma = _gamma(shape, mean)
        with np.errstate(invalid="ignore"):
            best = float(np.min((1 - 1 / alphas) * curve - math.log(gamma) / alphas))
        losses = np.full(len(alphas), (1 + shape) * best)
        pure = (2 + shape) * one.pure
    values = curve + losses + math.log(mean) / (alphas - 1)
    # Renyi divergence does not decrease in the order.
    values = np.minimum.accumulate(values[::-1])[::-1]
    values = np.minimum(values, pure)
    whole = Charge(pure_to_mu_squared(pure), tuple(values.tolist()), pure, one.orders)
    if ledger is not None:
        text = f"best of {mean:g} runs on average (shape {shape:g}): {what}"
        ledger.pay(whole, what=text, kind="selection", facts={"mean_runs": mean, "shape": repr(shape)})
    return whole


def deltas_of(one: Charge) -> npt.NDArray[np.float64]:
    """Return a delta of one run at every epsilon log(1 + 1/(a - 1)), a being its orders: what Poisson's price needs.

    Examples
    --------
    >>> bool((deltas_of(Charge.gaussian(sensitivity=1.0, sigma=50.0)) < 0.1).all())
    True
    """
    return np.array([_delta_at(one, math.log1p(1 / (a - 1))) for a in one.orders])


def _delta_at(one: Charge, epsilon: float) -> float:
    """Return a delta such that one run is (epsilon, delta)-DP: the least that its Renyi curve or its mu proves.

    Canonne, Kamath, Steinke 2020, Proposition 12, solved for delta; Balle and Wang 2018, Theorem 8.
    """
    alphas, curve = np.array(one.orders), np.array(one.rdp)
    exponents = (alphas - 1) * (curve + np.log1p(-1 / alphas) - epsilon) - np.log(alphas)
    sizes = (alphas - 1) * (curve + epsilon) + np.log(alphas)
    with np.errstate(invalid="ignore"):
        # The margin covers the last digits of what was added up.
        least = float(np.min(np.where(np.isfinite(curve), exponents + 1e-13 * (1 + sizes), math.inf)))
    delta = math.exp(least_of(0.0, largest_of(least, -700.0)))
    if math.isfinite(one.mu_squared):
        delta = least_of(delta, gdp_to_delta(math.sqrt(one.mu_squared), epsilon) * (1 + 1e-10))
    return delta


def _mean(shape: float, log_gamma: float) -> float:
    """Return the mean of the truncated negative binomial (Papernot and Steinke 2022, Definition 1)."""
    gamma = math.exp(log_gamma)
    if shape == 0:
        return -math.expm1(log_gamma) / (gamma * -log_gamma)
    return shape * -math.expm1(log_gamma) / (gamma * -math.expm1(shape * log_gamma))


def _gamma(shape: float, mean: float, *, up: bool = False) -> float:
    """Return the gamma of this mean, rounded down (the safe side of a price) or up (that of a law to draw from)."""
    low, high = -1.0, -1e-12
    if _mean(shape, high) >= mean:
        raise InvalidInputError(f"mean_runs must be larger for shape {shape:g}, got {mean!r}.")
    while _mean(shape, low) < mean:
        low *= 2
        if low < -600:
            raise InvalidInputError(f"mean_runs must be smaller, got {mean!r}.")
    root = float(brentq(lambda g: math.log(_mean(shape, g) / mean), low, high, xtol=1e-14))
    margin = 1e-9 * (1 - root)
    return least_of(1.0, math.exp(root + margin if up else root - margin))
