"""The privacy statement of one DP-SGD run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pate.dpsgd._measured import Measured
from pate.dpsgd._plan import Plan
from pate.dpsgd.clipping import Clipping
from pate.dpsgd.recipes import RecipePlan
from pate.ledger import Ledger
from pate.records._maps import own_throughout
from pate.statement.model import Assumption, PrivacyStatement
from pate.statement.promises import CURVE_DELTAS, at_epsilon_0


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
    unit: str = "record",
    rows_per_unit: int = 1,
    n_canaries: int = 0,
    road: RecipePlan | None = None,
    ledger: Ledger | None = None,
    releases: Iterable[int] = (),
) -> PrivacyStatement:
    """Return what was protected, from what, how, and at which price; a function of public numbers alone.

    Parameters
    ----------
    plan : Plan
    clipping : Clipping
    classes_given : bool
        False when the set of classes was read off the private labels.
    noise : {"system", "keyed", "seeded"}
        Where samples and noise came from.
    apart : str
        How the engine saw to it that no record moved another one's gradient.
    unit : {"record", "group"}
    rows_per_unit : int
        How many of a person's records took part in a step at most.
    n_canaries : int
        Units of an auditor's among ``shape.n_units``.
    road : RecipePlan or None
        Whose public maps the rows went through.
    ledger : Ledger or None
    releases : iterable of int
        The numbers under which the run was charged there.
    """
    guarantee, shape = plan.guarantee, plan.shape
    seeded, nominal = noise == "seeded", guarantee.adjacency == "add-or-remove"
    releases = tuple(releases)
    mu = None if seeded else plan.mechanism.mu(plan.noise_multiplier, shape, guarantee.adjacency)
    together = (
        f"; of each person at most {rows_per_unit} records in a step, drawn at random, whose mean loss gives one "
        "gradient"
        if unit == "group"
        else ""
    )
    return PrivacyStatement(
        released="the parameters of a classifier trained by DP-SGD, and whatever is computed from them"
        + ("; noisy counts of the records that it is right about" if isinstance(plan.mechanism, Measured) else ""),
        unit=unit,
        n_units=None if nominal else shape.n_units - n_canaries,
        guarantee=dataclasses.replace(guarantee, kind="seeded") if seeded else guarantee,
        mechanism=mechanism_of(plan, clipping)
        + together
        + (f"; {n_canaries} canaries of an audit beside them" if n_canaries else "")
        + (f"; rate and steps from a nominal number of {shape.n_units:,} {unit}s" if nominal else ""),
        accounting=plan.mechanism.theorem(shape, guarantee.adjacency).format(unit=unit)
        + ("" if guarantee.adjacency == "replace-one" or seeded else _beside_replace_one(plan)),
        noise_source=_SOURCES[noise],
        seeded=seeded,
        covered=(
            "this training run, every intermediate step included",
            *(("the noisy counts of right answers",) if isinstance(plan.mechanism, Measured) else ()),
        ),
        not_covered=(
            "choices made by looking at other runs on the same records",
            "scaling of the features",
            "whether training failed, and how long it took",
        ),
        assumptions=_prepared(road, moving=nominal or unit == "group")
        + _assumptions(plan, unit=unit, nominal=nominal, classes_given=classes_given, noise=noise, apart=apart),
        verify=plan.mechanism.verify(plan.noise_multiplier, shape, guarantee, plan.interval),
        ledger_head="" if ledger is None or not releases else ledger.head_of(releases),
        ledger_releases=releases,
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
    "seeded": "a fixed seed: NOT PRIVATE",
    "system": "the operating system's cryptographic generator, for the noise and for the samples",
    "keyed": (
        "SHAKE-256 under a key of 256 bits from the operating system's cryptographic generator, for the noise and for "
        "the samples; the key was kept in the checkpoint until the run had ended"
    ),
}


def _beside_replace_one(plan: Plan) -> str:
    """Return what the same run would say under this package's adjacency: no rule of thumb leads there."""
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


def _prepared(road: RecipePlan | None, *, moving: bool) -> tuple[Assumption, ...]:
    """Return what is assumed of how rows became features.

    ``moving``: whether neighbouring tables have other records' rows in other places, in which the last bits of a map
    that is not exact may differ. No engine's ``excess`` is for that: it is part of no bound, and so is said.
    """
    claim = "the features were scaled without statistics of the private records"
    if road is None or not road.maps:
        return (Assumption(name="preprocessing", claim=claim),)
    if road.given:  # what the caller fitted, nobody here saw being fitted
        how = f"a representation of the caller's, which says of itself: {road.maps[0].provenance_}"
        found = [Assumption(name="preprocessing", claim=claim, how=how)]
    else:
        how = f"recipe {road.recipe.name!r}: maps that public rows or constants fixed, each private row by itself"
        found = [Assumption(name="preprocessing", claim=claim, how=how, by="pate")]
    if road.facts.declared:
        found.append(
            Assumption(
                name="ranges",
                claim="the ranges of the columns are public: they were known without these records",
                how="they were declared beforehand",
                by="curator",
            )
        )
    if road.facts.n_public or road.given:
        found.append(Assumption(name="public rows", claim="the rows that the features were fitted on are public"))
    whose = "the caller's" if road.given else "scikit-learn's"
    own, exact = all(map(own_throughout, road.maps)), all(each.exact_ for each in road.maps)
    found.append(
        Assumption(
            name="own row only",
            claim="each record's features are computed from that record and from public things alone",
            how=f"a map of {whose}, which was only tried on made-up rows"
            if not own
            else "maps of pate's own, in blocks of one fixed shape; last bits may hang on a row's place in its block, "
            "which another unit's presence or size moves"
            if moving and not exact
            else "maps of pate's own, in blocks of one fixed shape"
            if not exact
            else "maps of pate's own, whose every sum is exact",
            by="pate" if own and (exact or not moving) else "nobody",
        )
    )
    return tuple(found)


def _assumptions(
    plan: Plan, *, unit: str, nominal: bool, classes_given: bool, noise: str, apart: str
) -> tuple[Assumption, ...]:
    n_units, seeded = plan.shape.n_units, noise == "seeded"
    number = f"the nominal number of {unit}s ({n_units:,})" if nominal else f"the number of private {unit}s"
    return (
        Assumption(name="parameters", claim=f"{number} and all hyperparameters are public"),
        Assumption(name="one person", claim="each person is one record")
        if unit == "record"
        else Assumption(name="one person", claim="all records of a person carry the same group"),
        Assumption(
            name="arithmetic",
            claim="real arithmetic: attacks on rounding and on running time are outside the model",
            how="floating point was used",
            by="nobody",
        ),
        Assumption(
            name="sampling",
            claim=plan.mechanism.sampling().format(unit=unit),
            how="drawn by the class that also states what it costs",
            by="pate",
        ),
        Assumption(
            name="clipping",
            claim=f"no {unit} moves another one's gradient",
            how=apart,
            by="pate",
        ),
        Assumption(
            name="noise",
            claim="nobody can predict or repeat the noise and the samples",
            how="a fixed seed: the assumption does NOT hold"
            if seeded
            else "drawn from the operating system's generator"
            if noise == "system"
            else "a key of the operating system's generator, in a file that is gone now",
            by="nobody" if seeded else "pate",
        ),
        Assumption(
            name="classes",
            claim="the set of classes is public",
            how="they were passed as classes=" if classes_given else "it was read off the labels, at no charge",
            by="curator" if classes_given else "nobody",
        ),
    )
