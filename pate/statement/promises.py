"""What a charge promises besides one (epsilon, delta): Gaussian DP, concentrated DP, and epsilon at other deltas."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from pate.core.checks import least_of
from pate.privacy.convert import format_up
from pate.privacy.cost import Charge

#: Public constants: a curve's deltas may not be chosen by the data.
CURVE_DELTAS = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
#: Beyond this mu^2 (epsilon above 5e19) nobody is told anything by more numbers.
_MOST = 1e20


def promises(cost: Charge) -> dict[str, Any]:
    """Return a statement's ``mu``, ``rho`` and ``curve`` of a cost that was fixed beforehand.

    Parameters
    ----------
    cost : Charge
        One that may fail with some probability promises neither mu nor rho.

    Returns
    -------
    dict
        ``mu``: the release is mu-GDP (Dong, Roth, Su 2022; a Laplace charge by domination). ``rho``: it is rho-zCDP, by
        mu^2/2 (mu-GDP bounds the Renyi divergence of order a by a mu^2/2: Dong, Roth, Su 2022, Corollary B.6) or by
        epsilon^2/2 of pure DP (Bun and Steinke 2016, Proposition 1.4), whichever is less. ``curve``: pairs
        (delta, epsilon); where there is no mu the last has epsilon 0, its delta is the total variation
        (:meth:`pate.Charge.total_variation`). All are functions of one public constant, so they hold together
        and give nothing away.

    Examples
    --------
    >>> found = promises(Charge.gaussian(sensitivity=2**0.5, sigma=40.0) * 100)
    >>> round(found["mu"], 6), round(found["rho"], 6), [delta for delta, _ in found["curve"]][:2]
    (0.353553, 0.0625, [0.0001, 1e-05])
    >>> promises(Charge.laplace(shifts=(1, 1), scale=200.0))["rho"] <= 0.01**2 / 2
    True
    """
    return dict(_promises(cost))


@lru_cache(maxsize=64)  # every round of a session promises what the session does
def _promises(cost: Charge) -> dict[str, Any]:
    mu_squared, never_fails = cost.mu_squared, cost.delta0 == 0
    rho = least_of(mu_squared / 2, cost.pure * cost.pure / 2)
    if _MOST < mu_squared < math.inf:
        # An absurd price must not stop labels that were paid for: at other deltas it may be beyond the arithmetic.
        return {"mu": None, "rho": None, "curve": ()}
    # Twice delta0: what a chance of failing leaves of a delta near it would cost absurdly much.
    deltas = [delta for delta in CURVE_DELTAS if delta > 2 * cost.delta0]
    mu = math.sqrt(mu_squared) if never_fails and math.isfinite(mu_squared) else None
    return {
        "mu": mu,
        "rho": rho if never_fails and math.isfinite(rho) else None,
        "curve": (
            *((delta, cost.guarantee(delta).epsilon) for delta in deltas),
            *(at_epsilon_0(cost.total_variation()) if mu is None else ()),
        ),
    }


def at_epsilon_0(total_variation: float) -> tuple[tuple[float, float], ...]:
    """Return the point of a curve that is a bound on the total variation, to six digits; none where it says nothing."""
    delta = float(format_up(total_variation, 6))
    return ((delta, 0.0),) if delta < 1 else ()
