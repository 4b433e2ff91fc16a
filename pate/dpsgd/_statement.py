"""The privacy statement of one DP-SGD run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from pate._core.curator import warn
from pate.dpsgd._calibration import SMALLEST_DELTA, central_limit_guess, least_noise
from pate.dpsgd._measured import Measured
from pate.dpsgd.clipping import Clipping
from pate.dpsgd.mechanisms import PoissonSGD, Shape, TrainingMechanism
from pate.dpsgd.recipes import RecipePlan
from pate.exceptions import BudgetExceededError, PrivacyParameterWarning
from pate.ledger import Ledger, Remaining
from pate.privacy.attacker import attack_bounds
from pate.privacy.budget import Budget
from pate.privacy.compose.calibrate import largest, least_between
from pate.privacy.convert import format_up
from pate.privacy.cost import Charge
from pate.privacy.losses import discretization_interval
from pate.privacy.words import Guarantee
from pate.records import own_throughout
from pate.release.statement.fields import Assumption, drawn_noise
from pate.release.statement.model import PrivacyStatement, made_statement
from pate.release.statement.plain import CURVE_DELTAS, at_epsilon_0

# What one DP-SGD run will do and cost: decided by public numbers alone, before a record is touched.

#: By how much noise may grow beyond what the budget needs, to fit into a ledger's accounting unit.
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
    total_if_short : Budget or None
        The ledger's total, where earlier releases left less than the budget asks for: all of the rest is taken then.
    """

    mechanism: TrainingMechanism
    shape: Shape
    noise_multiplier: float
    guarantee: Guarantee
    interval: float
    cost: Charge | None = None
    total_if_short: Budget | None = None

    def warn_if_short(self, budget: Budget) -> None:
        """Warn, before anything is spent, where the run takes all that the ledger has left; public numbers."""
        if self.total_if_short is not None:
            warn(
                f"epsilon = {budget.epsilon:g} was asked for, and the ledger has less left (its total is epsilon = "
                f"{self.total_if_short.epsilon:g} at delta {self.total_if_short.delta:g}). This run takes all that is "
                f"left, with more noise, for epsilon = {format_up(self.guarantee.epsilon)} at delta {budget.delta:g}: "
                "no later release from these records can be paid. Ask for a smaller epsilon to keep some.",
                PrivacyParameterWarning,
            )

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
    """Return the plan with the least noise that the budget (and the ledger) allow, or with the noise given."""
    mechanism = PoissonSGD() if mechanism is None else mechanism
    mechanism.check(shape, adjacency)
    interval = discretization_interval(budget.epsilon, shape.n_steps)

    def epsilon(sigma: float, n_steps: int) -> float:
        part = replace(shape, n_steps=n_steps)
        return mechanism.epsilon(sigma, part, delta=budget.delta, adjacency=adjacency, interval=interval)

    sigma, short = noise_multiplier, None
    if sigma is None:
        sigma = least = _calibrated(mechanism, shape, budget, adjacency, interval)
        if ledger is not None:
            left = ledger.remaining(default_total=budget)
            sigma = _grown(least, mechanism, shape, budget, left)
            short = left.total if sigma > least and left.n_releases else None
    spent = epsilon(sigma, shape.n_steps)
    if spent > budget.epsilon and on_exhausted == "stop":
        shape = replace(shape, n_steps=largest(lambda n: epsilon(float(sigma), n) <= budget.epsilon, shape.n_steps - 1))
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
    return Plan(mechanism, shape, float(sigma), guarantee, interval, cost, short)


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


def _grown(sigma: float, mechanism: TrainingMechanism, shape: Shape, budget: Budget, left: Remaining) -> float:
    """Return the least noise, from ``sigma`` on, that the ledger pays for.

    Its accounting unit adds up over releases of any kind, which a privacy loss distribution does not: it prices a run a
    little higher, and noise makes up for that.
    """

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
            "DP-SGD open one with currency='renyi'. Otherwise train for fewer epochs, or pass a smaller budget; where "
            "next to nothing is left (pate ledger show), use what was released before, which stays free."
        )
    # So near that what is left after the run buys nothing: record voters are refused below 1e-4 of mu^2.
    return least_between(low, high, allowed, within=1e-6)


def mechanism_of(plan: Plan, clipping: Clipping) -> str:
    """Return the run in words, alike in a statement and in a ledger."""
    return (
        f"{plan.mechanism.name}: {plan.shape.n_steps} steps, {plan.mechanism.words(plan.shape)}, {clipping.words()}, "
        f"noise multiplier {plan.noise_multiplier:.6g}"
    )


def dpsgd_statement(
    plan: Plan,
    *,
    clipping: Clipping,
    classes_given: bool,
    noise: str,
    apart: str,
    bounds: tuple[float, float] | None = None,
    unit: str = "record",
    rows_per_unit: int = 1,
    n_canaries: int = 0,
    recipe_plan: RecipePlan | None = None,
    ledger: Ledger | None = None,
    releases: Iterable[int] = (),
) -> PrivacyStatement:
    """Return what was protected, from what, how, and at which price; a function of public numbers alone."""
    guarantee, shape = plan.guarantee, plan.shape
    seeded, nominal = noise == "seeded", guarantee.adjacency == "add-or-remove"
    mu = None if seeded else plan.mechanism.mu(plan.noise_multiplier, shape, guarantee.adjacency)
    together = (
        f"; of each person at most {rows_per_unit} records in a step, drawn at random, whose mean loss gives one "
        "gradient"
        if unit == "group"
        else ""
    )
    return made_statement(
        released=f"the parameters of a {'classifier' if bounds is None else 'regressor'} trained by DP-SGD, and "
        "whatever is computed from them" + (plan.mechanism.released if isinstance(plan.mechanism, Measured) else ""),
        unit=unit,
        n_units=None if nominal else shape.n_units - n_canaries,
        guarantee=guarantee,
        mechanism=mechanism_of(plan, clipping)
        + together
        + (f"; {n_canaries} canaries of an audit beside them" if n_canaries else "")
        + (f"; rate and steps from a nominal number of {shape.n_units:,} {unit}s" if nominal else ""),
        accounting=plan.mechanism.theorem(shape, guarantee.adjacency).format(unit=unit)
        + ("" if guarantee.adjacency == "replace-one" or seeded else _beside_replace_one(plan)),
        noise_source=_SOURCES.get(noise, ""),
        seeded=seeded,
        covered=(
            "this training run, every intermediate step included",
            *((plan.mechanism.covered,) if isinstance(plan.mechanism, Measured) else ()),
        ),
        not_covered=(
            "choices made by looking at other runs on the same records",
            "scaling of the features",
            "whether training failed, and how long it took",
        ),
        assumptions=_prepared(recipe_plan, moving=nominal or unit == "group")
        + _assumptions(plan, unit=unit, nominal=nominal, noise=noise, apart=apart)
        + (_about_target(classes_given, bounds),),
        verify=plan.mechanism.verify(plan.noise_multiplier, shape, guarantee, plan.interval),
        ledger=ledger,
        releases=releases,
        mu=mu,
        rho=None if mu is None else mu * mu / 2,
        curve=()
        if seeded
        else (
            *((delta, plan.epsilon_at(delta)) for delta in CURVE_DELTAS),
            *(at_epsilon_0(plan.total_variation()) if mu is None else ()),
        ),
    )


_SOURCES = {
    "system": "the operating system's cryptographic generator, for the noise and for the samples",
    "keyed": (
        "SHAKE-256 under a key of 256 bits from the operating system's cryptographic generator, for the noise and for "
        "the samples; the key was kept in the checkpoint until the run had ended"
    ),
}


_KEYED = "a key of the operating system's generator, in a file that is gone now"


def _beside_replace_one(plan: Plan) -> str:
    """Return what the same run guarantees under this package's adjacency, computed again, not converted."""
    delta = plan.guarantee.delta
    mechanism = plan.mechanism
    if isinstance(mechanism, Measured) and plan.guarantee.adjacency == "add-or-remove":
        mechanism = mechanism.replacing()
    other = mechanism.epsilon(
        plan.noise_multiplier, plan.shape, delta=delta, adjacency="replace-one", interval=plan.interval
    )
    return (
        f"; not comparable with replace-one epsilons: with the same noise, rate and steps that would be {other:.4g} "
        f"at delta {delta:g}"
    )


def _prepared(recipe_plan: RecipePlan | None, *, moving: bool) -> tuple[Assumption, ...]:
    """Return what is assumed of how rows became features.

    ``moving``: whether neighbouring tables have other records' rows in other places, in which the last bits of a map
    that is not exact may differ. No engine's ``excess`` is for that: it is part of no bound, and so is said.
    """
    claim = "the features were scaled without statistics of the private records"
    if recipe_plan is None or not recipe_plan.maps:
        return (Assumption("preprocessing", claim),)
    if recipe_plan.given:  # what the caller fitted, was not fitted here
        how = f"a representation of the caller's, which says of itself: {recipe_plan.maps[0].provenance_}"
    else:
        how = (
            f"recipe {recipe_plan.recipe.name!r}: maps that public rows or constants fixed, each private row by itself"
        )
    found = [Assumption("preprocessing", claim, how, "nobody" if recipe_plan.given else "pate")]
    if recipe_plan.facts.declared:
        known = "the ranges of the columns are public: they were known without these records"
        found.append(Assumption("ranges", known, "they were declared beforehand", "curator"))
    if recipe_plan.facts.n_public or recipe_plan.given:
        found.append(Assumption("public rows", "the rows that the features were fitted on are public"))
    own, exact = all(map(own_throughout, recipe_plan.maps)), all(each.exact_ for each in recipe_plan.maps)
    how = "maps of pate's own, in blocks of one fixed shape"
    if not own:
        owner = "the caller's" if recipe_plan.given else "scikit-learn's"
        how = f"a map of {owner}, which was only tried on made-up rows"
    elif exact:
        how = "maps of pate's own, whose every sum is exact"
    elif moving:
        how += "; last bits may depend on a row's place in its block, which another unit's presence or size moves"
    claim = "each record's features are computed from that record and from public things alone"
    by = "pate" if own and (exact or not moving) else "nobody"
    return (*found, Assumption("own row only", claim, how, by))


def _assumptions(plan: Plan, *, unit: str, nominal: bool, noise: str, apart: str) -> tuple[Assumption, ...]:
    n_units, one = plan.shape.n_units, "each person is one record"
    number = f"the nominal number of {unit}s ({n_units:,})" if nominal else f"the number of private {unit}s"
    return (
        Assumption("parameters", f"{number} and all hyperparameters are public"),
        Assumption("one person", one if unit == "record" else "all records of a person carry the same group"),
        Assumption(
            "arithmetic",
            "real arithmetic: attacks on rounding and on running time are outside the model",
            "floating point was used",
        ),
        Assumption(
            "sampling",
            plan.mechanism.sampling().format(unit=unit),
            "drawn by the class that also states what it costs",
            "pate",
        ),
        Assumption("clipping", f"no {unit} moves another one's gradient", apart, "pate"),
        drawn_noise(
            noise == "seeded",
            "no one can predict or repeat the noise and the samples",
            "drawn from the operating system's generator" if noise == "system" else _KEYED,
            "a fixed seed: the assumption does NOT hold",
        ),
    )


def _about_target(classes_given: bool, bounds: tuple[float, float] | None) -> Assumption:
    if bounds is not None:
        claim = f"the range of the target, {bounds[0]:g} to {bounds[1]:g}, is public"
        return Assumption("target range", claim, "it was passed as target_range=", "curator")
    read = ("it was read off the labels, at no charge", "nobody")
    how = ("they were passed as classes=", "curator") if classes_given else read
    return Assumption("classes", "the set of classes is public", *how)
