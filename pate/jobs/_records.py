"""A job whose private records vote themselves: planned by public facts, and every public row is labelled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from pate.estimator._by_dpsgd import TrainingPlan, plan_training, stand_ins
from pate.estimator._roads import Ask, measured_with, plan_records
from pate.exceptions import InvalidInputError
from pate.jobs._asked import LabelSettings
from pate.jobs._plan import BallotPlan, GradientPlan
from pate.jobs._reading import Sources
from pate.recipes import (
    FEWEST_PUBLIC,
    Expectation,
    MappedLinear,
    RecordModel,
    RecordsPlan,
    check_expected,
    expected,
    fitted_representation,
    kind_of,
    some_rows,
    without_privacy,
)
from pate.release import Evidence, ModelLabels, RecordLabels, ReleaseTerms, warn_if_weak
from pate.representations import Representation
from pate.teachers._usable import units_of

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint


def _ask(
    job: LabelSettings, source: Sources, classes: tuple[Any, ...], representation: Representation | None = None
) -> Ask:
    n_units, unit = units_of(source.groups, len(source.y))
    return Ask(
        classes=classes,
        n_units=n_units,
        unit=unit,
        classes_inferred=job.classes is None,
        representation=representation,
        image_shape=source.image_shape,
        random_state=job.random_state,
        n_jobs=job.n_jobs if len(source.y) > _FEWEST_SHARED else None,
        checkpoint_dir=job.checkpoint_dir,
        verbose=job.verbose,
        anyway=job.anyway,
        measure=measured_with(job.measure, job.student),
        decide=job.decide,
    )


@dataclass(frozen=True, eq=False, repr=False)
class BallotRoad:
    """From private records to labels of all public rows, by ballots; ``commonest`` is as a person stated it."""

    source: Sources
    ballots: RecordsPlan
    evidence: Evidence
    plan: BallotPlan
    commonest: float | None = None

    @classmethod
    def of(
        cls, job: LabelSettings, source: Sources, terms: ReleaseTerms, *, classes: tuple[Any, ...], why: str = ""
    ) -> Self:
        """Fit public maps and price all rounds; of private records only their number is used."""
        n_public = len(source.public)
        if n_public < FEWEST_PUBLIC:
            raise InvalidInputError(
                f"public must have at least {FEWEST_PUBLIC} rows for records to vote, got {n_public}: public rows make "
                "the map that private records vote on. Add public rows, or say voters='dpsgd' (--voters dpsgd)."
            )
        warn_if_weak(terms.budget.delta, source.n_units, epsilon=terms.budget.epsilon)
        ask = _ask(job, source, classes, public_representation(job, source))
        ballots = plan_records(in_planes(source.public, source.image_shape), terms, ask)
        hope = _hope_of(ballots, anyway=job.anyway, commonest=job.commonest)
        evidence = Evidence(
            preprocessing="public" if ballots.voters.own_maps else "none", public_rows=job.public_rows, road=why
        )
        before = f"{source.public.shape[1]} columns" if source.kind == "table" else source.kind
        encoding = f"{before} become {ballots.z.shape[1]} numbers, by what the public rows teach"
        plan = BallotPlan(
            n_units=ballots.n_units,
            n_public=n_public,
            unit=ballots.unit,
            encoding=encoding,
            recipe=ballots.recipe,
            mechanisms=ballots.mechanisms,
            measured_shares=ballots.measured_shares,
            guarantee=ballots.guarantee,
            is_paid=ballots.stored,
            expectation=str(hope),
            instead=without_privacy(ballots.facts, job.commonest),
            files=source.files,
        )
        return cls(source, ballots, evidence, plan, job.commonest)

    def run(self, y: npt.NDArray[Any]) -> tuple[RecordLabels, RecordModel]:
        """Charge, cast every round, and return all labels and the model; ``y`` holds the classes' own values."""
        source = self.source
        X = in_planes(source.X, source.image_shape)
        return self.ballots.run(X, y, groups=source.groups, evidence=self.evidence, commonest=self.commonest)


#: So many records are cast before other processes would have begun.
_FEWEST_SHARED = 50_000


def _hope_of(ballots: RecordsPlan, *, anyway: bool, commonest: float | None) -> Expectation:
    """Return what to expect of what will be (or was) paid for, and refuse to pay for next to nothing."""
    facts = replace(ballots.facts, mu=ballots.mu)
    if anyway or ballots.stored:
        return expected(facts, ballots.recipe)
    delta = ballots.terms.budget.delta
    return check_expected(facts, ballots.recipe, unit=ballots.unit, delta=delta, commonest=commonest)


def public_representation(job: LabelSettings, source: Sources) -> Representation:
    """Return the default representation of such data, fitted on public rows or found in ``checkpoint_dir``."""
    rows = in_planes(source.public, source.image_shape)
    seed = 0 if job.random_state is None else job.random_state % 2**32
    return fitted_representation(
        kind_of(rows, source.image_shape),
        some_rows(rows, seed),
        image_shape=source.image_shape,
        random_state=seed,
        max_categories=job.max_categories,
        checkpoint_dir=job.checkpoint_dir,
        verbose=job.verbose,
    )


def in_planes(rows: Any, image_shape: tuple[int, ...] | None) -> Any:
    """Return rows of coloured images colour by colour, as representations of images take them; others as they are."""
    if image_shape is None or len(image_shape) < 3:
        return rows
    colours, height, width = image_shape
    pixels = rows.reshape(len(rows), height, width, colours)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).reshape(len(rows), -1)


# A job whose model DP-SGD learns from the private records: planned by public facts, with or without public rows.


@dataclass(frozen=True, eq=False, repr=False)
class GradientRoad:
    """From private records to a model by DP-SGD, and to its labels of all public rows."""

    source: Sources
    training: TrainingPlan
    evidence: Evidence
    plan: GradientPlan

    @classmethod
    def of(
        cls, job: LabelSettings, source: Sources, terms: ReleaseTerms, *, classes: tuple[Any, ...], why: str = ""
    ) -> Self:
        """Choose recipe, public map and noise, and price the run; of private records only their number is used."""
        rows = None if source.public is None else in_planes(source.public, source.image_shape)
        shape, ranges = tuple(np.shape(source.X)[1:]), job.ranges
        training = plan_training(
            rows,
            terms,
            _ask(job, source, classes),
            row_shape=shape,
            like=stand_ins(source.X, ranges) if rows is None else rows,
            ranges=ranges,
        )
        before = f"{shape[0]} columns" if source.kind == "table" else source.kind
        said = "what the public rows teach" if training.road.facts.n_public else "public constants"
        after = training.road.maps[-1].n_features_out_ if training.road.maps else int(np.prod(shape))
        plan = GradientPlan(
            n_units=training.ask.n_units,
            n_public=0 if rows is None else len(source.public),
            unit=training.ask.unit,
            encoding=f"{before} become {after} numbers, by {'declared ranges' if ranges is not None else said}",
            chosen=why,
            reasons=training.road.recipe.reasons,
            n_steps=training.plan.shape.n_steps,
            sampling=training.plan.mechanism.words(training.plan.shape),
            noise_multiplier=training.plan.noise_multiplier,
            guarantee=training.guarantee,
            is_paid=training.resumed,
            before=training.before,
            counts=getattr(training.plan.mechanism, "counts", ()),
            files=source.files,
        )
        evidence = Evidence(public_rows=None if rows is None else job.public_rows, road=why)
        return cls(source, training, evidence, plan)

    def run(self, y: npt.NDArray[Any]) -> tuple[ModelLabels, MappedLinear, Checkpoint | None]:
        """Charge, train, and return all labels, the model and what was kept to go on with."""
        source = self.source
        X = in_planes(source.X, source.image_shape)
        return self.training.run(X, y, groups=source.groups, evidence=self.evidence)
