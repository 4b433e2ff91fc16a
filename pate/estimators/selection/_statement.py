"""The privacy statement of one private selection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from pate._core.checks import check_real, largest_of
from pate._core.types import FloatArray
from pate.estimators.selection._contestant import Contestant, Facts, StatedContestant, at_default_orders
from pate.exceptions import BudgetExceededError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.privacy.compose.calibrate import least_between
from pate.privacy.compose.repetitions import Repetitions, deltas_of
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.release.statement.fields import Assumption, drawn_noise
from pate.release.statement.model import PrivacyStatement, made_statement
from pate.release.statement.plain import check_text, promises

# What a whole selection costs, and the least noise with which it fits: public numbers only.

#: Noise is found to this, relative.
_CLOSE = 0.005
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
        Standard deviation of the noise on the number of held-out units that are predicted right.
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

    def alone(
        run: Callable[[float], tuple[Charge, Callable[[], FloatArray]]], low: float, given: float | None, name: str
    ) -> float:
        """Return the noise of a selection among one run alone: what is given, or the least that fits."""
        if given is not None:
            if not affords(whole := priced([run(given)])):
                raise refuse(name, whole)
            return given
        found = _least(lambda noise: affords(law.charge(run(noise)[0])), low)
        if found is None:
            raise refuse(name, priced([run(_MOST_NOISE)]))
        if poisson and found > low:  # deltas allow for less, but not for much less
            half = largest_of(low, found / 2)
            found = least_between(half, found, lambda noise: affords(priced([run(noise)])), within=_CLOSE)
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

    noises = [alone(partial(of, one), one.least, 1.0 if one.fixed else None, repr(one.name)) for one in contestants]
    name = "any score"
    if score_noise is not None:
        score_noise = check_real("score_noise", score_noise, low=_LEAST_SCORE_NOISE, high=_MOST_NOISE)
        name = f"score_noise={score_noise:g}"
    own = alone(of_score, _LEAST_SCORE_NOISE, score_noise, name)

    def at(factor: float) -> tuple[tuple[float, ...], float, list[tuple[Charge, Callable[[], FloatArray]]]]:
        grown = tuple(n if c.fixed else n * factor for c, n in zip(contestants, noises, strict=True))
        score = own if score_noise is not None else own * factor
        return grown, score, [*(of(c, n) for c, n in zip(contestants, grown, strict=True)), of_score(score)]

    growth = 0.0
    while not affords(priced(at(1 + growth)[2])):
        if growth > _MOST_GROWTH:
            raise refuse("these candidates together", priced(at(1 + growth)[2]))
        growth = largest_of(2 * growth, _LEAST_GROWTH)
    factor = 1.0
    if growth:
        factor = least_between(1 + growth / 2, 1 + growth, lambda f: affords(priced(at(f)[2])), within=_CLOSE)
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
    return least_between(low, top, fits, within=_CLOSE)


_LAWS = {
    "poisson": "Papernot and Steinke 2022, Theorem 6",
    "geometric": "Papernot and Steinke 2022, Theorem 2, eta = 1",
    "logarithmic": "Papernot and Steinke 2022, Theorem 2, eta = 0",
}


def mechanism_of(contestants: Sequence[Contestant], weights: Sequence[int], price: Price, facts: Facts) -> str:
    """Return the selection in words, alike in a statement and in a ledger."""
    how = "uniformly" if len(set(weights)) <= 1 else f"with weights {', '.join(map(str, weights))}"
    listed = "; ".join(f"{c.name}: {c.words(n)}" for c, n in zip(contestants, price.noises, strict=True))
    return (
        f"private selection: the best of K runs, K {price.law.distribution} of mean {price.law.mean:g}, each of a "
        f"candidate drawn {how}, trained on {facts.n_trained:,} units and scored on {facts.n_held:,} held out, "
        f"Gaussian noise of {price.score_noise:.6g} units on the number predicted right; candidates: {listed}"
    )


def selection_statement(
    contestants: Sequence[Contestant],
    weights: Sequence[int],
    price: Price,
    facts: Facts,
    guarantee: Guarantee,
    *,
    seeded: bool,
    created: str,
    tuning: str = "",
    inner: Sequence[Assumption] = (),
    ledger: Ledger | None = None,
    releases: Iterable[int] = (),
) -> PrivacyStatement:
    """Return what was protected, how, and at which price; a function of public numbers and of who won."""
    chosen = (
        f"the choice among the {len(contestants)} candidates named above was made by this selection and is charged in "
        "it; nobody stated what else was tuned on the private data"
    )
    return made_statement(
        released="a classifier, the best of several private runs, its name and its noisy score, and whatever is "
        "computed from them",
        unit=facts.unit,
        n_units=facts.n_units,
        guarantee=guarantee,
        mechanism=mechanism_of(contestants, weights, price, facts),
        accounting=(
            "replace-one: the largest Renyi divergence among the candidates and the score at every order (a unit is "
            "either trained on or held out, and a run is of one candidate), then the price of the best of a random "
            f"number of runs ({_LAWS[price.law.distribution]})"
        ),
        noise_source="the operating system's cryptographic generator, for the number of runs, the candidates drawn, "
        "the split, the scores and every run's own noise",
        seeded=seeded,
        covered=("every run of this selection, the losers included, and the winner's score",),
        not_covered=(
            "how long the selection took: the number of runs is secret, and the price holds while it is",
            "whether a candidate fails on the private records; it then loses",
            "scaling of the features",
        ),
        assumptions=_assumptions(contestants, facts, seeded=seeded, inner=inner),
        tuning=check_text("tuning", tuning) if tuning.strip() else chosen,
        verify=_verify(contestants, price, guarantee.delta),
        ledger=ledger,
        releases=releases,
        curve=() if seeded else promises(price.whole)["curve"],
        created=created,
    )


def _assumptions(
    contestants: Sequence[Contestant], facts: Facts, *, seeded: bool, inner: Sequence[Assumption]
) -> tuple[Assumption, ...]:
    stated = [c.name for c in contestants if isinstance(c, StatedContestant)]
    one = "each person is one group" if facts.grouped else "each person is one record"
    cut = "by person" if facts.grouped else "by record"
    priced = f"the curator states the price of {', '.join(stated)}"
    compared = "every run's own account was compared with it"
    alone = "all candidates are models that answer row by row"
    if not all(c.rowwise for c in contestants):
        alone = "each row was asked by itself, of a fresh copy, where a model is not known to answer row by row"
    own = (
        Assumption("parameters", "the number of units and all settings of all candidates are public"),
        Assumption("one person", one),
        Assumption(
            "selection",
            "the number of runs has the law that is accounted, is not known, and only the winner got out",
            "drawn exactly from that law before the first run; nothing of the other runs was kept",
            "pate",
        ),
        Assumption("held-out units", "no unit was both trained on and scored", f"cut at random, {cut}", "pate"),
        Assumption("scores", "what a model says of one held-out row depends on no other row", alone, "pate"),
        Assumption(
            "candidates",
            "one run of every candidate costs what was computed beforehand",
            priced if stated else compared,
            "curator" if stated else "pate",
        ),
        Assumption("failures", "whether a candidate's training fails depends on no single unit"),
        Assumption(
            "losers",
            "the runs that lost rest on what statements of their own kind assume, as the winner's does on what "
            "follows here",
        ),
        drawn_noise(
            seeded,
            "nobody can predict or repeat the noise and the draws",
            "drawn from the operating system's generator",
            "a fixed seed: the assumption does NOT hold",
        ),
        Assumption("classes", "the set of classes is public", "they were passed as classes=", "curator"),
    )
    known = {a.name for a in own}
    return (*own, *(a for a in inner if a.name not in known))


def _verify(contestants: Sequence[Contestant], price: Price, delta: float) -> str:
    listed = "; ".join(c.verify(n) for c, n in zip(contestants, price.noises, strict=True))
    score = f"Charge.gaussian(sensitivity=1, sigma={price.score_noise!r})"
    return (
        f"the largest, at every order, of: {listed}; and {score} of the score; then pate.privacy.select_best(that, "
        f"mean_runs={price.law.mean!r}, shape={price.law.shape!r}).guarantee({delta!r})"
    )
