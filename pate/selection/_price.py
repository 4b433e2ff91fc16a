"""What a whole selection costs, and the least noise with which it fits: public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from pate.core.checks import check_real, largest_of
from pate.core.types import FloatArray
from pate.exceptions import BudgetExceededError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.privacy.compose.repetitions import Repetitions
from pate.privacy.compose.selection import deltas_of
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.selection._contestant import Contestant, at_default_orders

#: Noise is found to this, relative.
_CLOSE = 1.005
#: Candidates of unlike curves need a little more noise together than each by itself.
_LEAST_GROWTH, _MOST_GROWTH = 0.005, 10.0
_MOST_NOISE = 1e7
_LEAST_SCORE_NOISE = 0.5


def worst_of(charges: Sequence[Charge]) -> Charge:
    """Return a cost that no one of several releases exceeds, where exactly one of them is made for each unit.

    Which one is drawn at random, or fixed by where the unit stands, without looking at it: every divergence of the
    whole is at most the largest one's (quasi-convexity: van Erven and Harremoes 2014, Theorem 13).
    """
    curves = [at_default_orders(charge).rdp for charge in charges]
    return Charge(
        largest_of(*(charge.mu_squared for charge in charges)),
        tuple(np.max(np.array(curves, dtype=np.float64), axis=0).tolist()),
        largest_of(*(charge.pure for charge in charges)),
        delta0=largest_of(*(charge.delta0 for charge in charges)),
    )


def score_charge(noise: float) -> Charge:
    """Return the cost of one noisy score for a held-out unit, which moves a count by at most 1."""
    return Charge.gaussian(sensitivity=1.0, sigma=noise)


@dataclass(frozen=True)
class Price:
    """The noise of a selection and what it costs in all.

    Attributes
    ----------
    law : Repetitions
    noises : tuple of float
        Of the candidates, in their order.
    score_noise : float
        Standard deviation of the noise on the number of held-out units that are told right.
    one : Charge
        Of one run, for whichever unit.
    whole : Charge
    """

    law: Repetitions
    noises: tuple[float, ...]
    score_noise: float
    one: Charge
    whole: Charge


def find_price(
    contestants: Sequence[Contestant],
    law: Repetitions,
    budget: Budget,
    *,
    ledger: Ledger | None = None,
    score_noise: float | None = None,
) -> Price:
    """Return the least noise with which the whole selection fits the budget, and what is left in the ledger.

    Every candidate by itself is given the least noise with which a selection among it alone would fit; then all noises
    grow by one factor until the worst of their curves fits. So no candidate is favoured, and none pays for another's.

    Raises
    ------
    BudgetExceededError
        There is no such noise: a candidate's own settings cost too much, or the ledger does not pay.
    """
    left = None if ledger is None else ledger.remaining(default_total=budget)
    poisson = law.distribution == "poisson"

    def priced(runs: Sequence[tuple[Charge, Callable[[], FloatArray]]]) -> Charge:
        """Return the whole price of runs that cost so much, each with how its deltas are found (for Poisson)."""
        one = worst_of([charge for charge, _ in runs])
        whole = law.charge(one)
        if not poisson or affords(whole):  # deltas take a while, and only help
            return whole
        return law.charge(one, np.max([deltas() for _, deltas in runs], axis=0))

    def affords(whole: Charge) -> bool:
        return budget.allows(whole) and (left is None or left.allows(whole))

    def of(contestant: Contestant, noise: float) -> tuple[Charge, Callable[[], FloatArray]]:
        return contestant.charge(noise), lambda: contestant.deltas(noise)

    def of_score(noise: float) -> tuple[Charge, Callable[[], FloatArray]]:
        return score_charge(noise), lambda: deltas_of(score_charge(noise))

    def least(run: Callable[[float], tuple[Charge, Callable[[], FloatArray]]], low: float, name: str) -> float:
        found = _least(lambda noise: affords(law.charge(run(noise)[0])), low)
        if found is None:
            raise refuse(name, priced([run(_MOST_NOISE)]))
        if poisson and found > low:  # deltas allow for less, but not for much less
            found = _between(lambda noise: affords(priced([run(noise)])), largest_of(low, found / 2), found)
        return found

    def refuse(name: str, whole: Charge) -> BudgetExceededError:
        why = ""
        if not budget.allows(whole):
            why = f": it would come to epsilon {whole.guarantee(budget.delta).epsilon:.4g}"
        elif left is not None:
            why = f": the ledger says {left.refusal(whole)}"
        currency = None if left is None else left.currency
        gdp = " A ledger that counts mu^2 sees no price of a selection: open one with currency='renyi'."
        return BudgetExceededError(
            f"the budget {budget} does not buy a selection with {name} among {law.mean:g} runs on average{why}. "
            "Nothing was charged or trained. Use more noise, fewer runs or a larger budget."
            + (gdp if currency == "gdp" else "")
        )

    noises = []
    for one in contestants:
        if one.fixed:
            if not affords(whole := priced([of(one, 1.0)])):
                raise refuse(repr(one.name), whole)
            noises.append(1.0)
        else:
            noises.append(least(partial(of, one), one.least, repr(one.name)))
    if score_noise is not None:
        own = check_real("score_noise", score_noise, low=_LEAST_SCORE_NOISE, high=_MOST_NOISE)
        if not affords(whole := priced([of_score(own)])):
            raise refuse(f"score_noise={own:g}", whole)
    else:
        own = least(of_score, _LEAST_SCORE_NOISE, "any score")

    def at(factor: float) -> tuple[tuple[float, ...], float, list[tuple[Charge, Callable[[], FloatArray]]]]:
        grown = tuple(n if c.fixed else n * factor for c, n in zip(contestants, noises, strict=True))
        score = own if score_noise is not None else own * factor
        return grown, score, [*(of(c, n) for c, n in zip(contestants, grown, strict=True)), of_score(score)]

    growth = 0.0
    while not affords(priced(at(1 + growth)[2])):
        if growth > _MOST_GROWTH:
            raise refuse("these candidates together", priced(at(1 + growth)[2]))
        growth = largest_of(2 * growth, _LEAST_GROWTH)
    factor = _between(lambda f: affords(priced(at(f)[2])), 1 + growth / 2, 1 + growth) if growth else 1.0
    grown, score, runs = at(factor)
    return Price(law, grown, score, worst_of([charge for charge, _ in runs]), priced(runs))


@lru_cache(maxsize=32)
def share_of(law: Repetitions, budget: Budget) -> Budget:
    """Return what one run of a Gaussian mechanism may spend so that a selection among such runs fits the budget.

    What recipes plan by; no price: that follows from what was planned.
    """
    mu = 1 / find_price((), law, budget).score_noise
    return Budget(gdp_to_epsilon(mu, budget.delta), budget.delta)


def _least(fits: Callable[[float], bool], low: float) -> float | None:
    """Return the least noise from ``low`` on that fits, nearly, and on the safe side; None where none does."""
    if fits(low):
        return low
    top = largest_of(2 * low, 1.0)
    while not fits(top):
        low, top = top, top * 2
        if top > _MOST_NOISE:
            return None
    return _between(fits, low, top)


def _between(fits: Callable[[float], bool], low: float, top: float) -> float:
    """Return the least noise in (low, top] that fits, as ``top`` does."""
    while top > _CLOSE * low:
        middle = math.sqrt(low * top)
        low, top = (low, middle) if fits(middle) else (middle, top)
    return top
