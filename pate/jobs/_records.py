"""A job whose private records vote themselves: planned by public facts, and every public row is labelled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from pate.estimator._by_dpsgd import TrainingPlan, plan_training, stand_ins
from pate.estimator._roads import plan_records
from pate.exceptions import InvalidInputError
from pate.jobs._plan import BallotPlan, GradientPlan
from pate.jobs._reading import Sources, units_of
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

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint


@dataclass(frozen=True, eq=False, repr=False)
class BallotRoad:
    """From private records to labels of all public rows, by ballots.

    Attributes
    ----------
    source : Sources
    ballots : RecordsPlan
    evidence : Evidence
    plan : BallotPlan
    commonest : float or None
        Share of the commonest class, as a person stated it.
    """

    source: Sources
    ballots: RecordsPlan
    evidence: Evidence
    plan: BallotPlan
    commonest: float | None = None

    @classmethod
    def of(
        cls,
        source: Sources,
        terms: ReleaseTerms,
        *,
        classes: tuple[Any, ...],
        classes_inferred: bool,
        public_rows: str,
        anyway: bool = False,
        max_categories: int = 50,
        random_state: int | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        commonest: float | None = None,
        measure: bool | str | None = None,
        decide: str = "likeliest",
        why: str = "",
    ) -> Self:
        """Fit public maps and price all rounds; of private records only their number is used."""
        n_public = len(source.public)
        if n_public < FEWEST_PUBLIC:
            raise InvalidInputError(
                f"public must have at least {FEWEST_PUBLIC} rows for records to vote, got {n_public}: public rows make "
                "the map that private records vote on. Add public rows, or say voters='dpsgd' (--voters dpsgd)."
            )
        warn_if_weak(terms.budget.delta, units_of(source)[1], epsilon=terms.budget.epsilon)
        representation = public_representation(
            source,
            max_categories=max_categories,
            random_state=random_state,
            checkpoint_dir=checkpoint_dir,
            verbose=verbose,
        )
        ballots = plan_records(
            in_planes(source.public, source.image_shape),
            terms,
            classes=classes,
            classes_inferred=classes_inferred,
            n_records=len(source.y),
            groups=source.groups,
            representation=representation,
            image_shape=source.image_shape,
            random_state=random_state,
            n_jobs=n_jobs if len(source.y) > _FEWEST_SHARED else None,
            checkpoint_dir=checkpoint_dir,
            verbose=verbose,
            anyway=anyway,
            measure=measure,
            decide=decide,
        )
        hope = _hope_of(ballots, anyway=anyway, commonest=commonest)
        evidence = Evidence(
            preprocessing="public" if ballots.voters.own_maps else "none", public_rows=public_rows, road=why
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
            instead=without_privacy(ballots.facts, commonest),
            files=source.files,
        )
        return cls(source, ballots, evidence, plan, commonest)

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


def public_representation(
    source: Sources,
    *,
    max_categories: int,
    random_state: int | None,
    checkpoint_dir: str | os.PathLike[str] | None,
    verbose: bool,
) -> Representation:
    """Return the default representation of such data, fitted on public rows or found in ``checkpoint_dir``."""
    rows = in_planes(source.public, source.image_shape)
    seed = 0 if random_state is None else random_state % 2**32
    return fitted_representation(
        kind_of(rows, source.image_shape),
        some_rows(rows, seed),
        image_shape=source.image_shape,
        random_state=seed,
        max_categories=max_categories,
        checkpoint_dir=checkpoint_dir,
        verbose=verbose,
    )


def in_planes(rows: Any, image_shape: tuple[int, ...] | None) -> Any:
    """Return rows of coloured images colour by colour, as representations of images take them; others as they are."""
    if image_shape is None or len(image_shape) < 3:
        return rows
    colours, height, width = image_shape
    pixels = rows.reshape(len(rows), height, width, colours)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).reshape(len(rows), -1)


# A job whose model DP-SGD learns from the private records: planned by public facts, with or without public rows.

#: Parameters of a job that DP-SGD does not heed, their options, and what says nothing.
_UNHEEDED: dict[str, tuple[str, Any]] = {"max_categories": ("--max-categories", 50), "commonest": ("--commonest", None)}
#: ... that speak of a public table.
_OF_PUBLIC: dict[str, tuple[str, Any]] = {
    "text": ("--text", ()),
    "only_common": ("--only-common", False),
    "overlap_is_public": ("--overlap-is-public", False),
    "dates": ("--dates", "auto"),
    "student": ("--student", None),
}


def check_heeded(said: Mapping[str, Any], *, public: bool) -> None:
    """Refuse what would be passed over in silence."""
    for where, names in (("voters='dpsgd' (--voters dpsgd)", _UNHEEDED), ("there are no public rows", _OF_PUBLIC)):
        if public and names is _OF_PUBLIC:
            continue
        for name, (option, silent) in names.items():
            value = said.get(name, silent)
            if value != silent and not (silent == () and not list(value)):
                verb = "with" if names is _UNHEEDED else "where"
                raise InvalidInputError(f"{name} ({option}) must be left out {verb} {where}. It would change nothing.")


@dataclass(frozen=True, eq=False, repr=False)
class GradientRoad:
    """From private records to a model by DP-SGD, and to its labels of all public rows.

    Attributes
    ----------
    source : Sources
    training : TrainingPlan
    evidence : Evidence
    plan : GradientPlan
    """

    source: Sources
    training: TrainingPlan
    evidence: Evidence
    plan: GradientPlan

    @classmethod
    def of(
        cls,
        source: Sources,
        terms: ReleaseTerms,
        *,
        classes: tuple[Any, ...],
        classes_inferred: bool,
        public_rows: str,
        why: str = "",
        ranges: Any = None,
        random_state: int | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        measure: bool | str | None = None,
        decide: str = "likeliest",
        verbose: bool = False,
    ) -> Self:
        """Choose recipe, public map and noise, and price the run; of private records only their number is used."""
        rows = None if source.public is None else in_planes(source.public, source.image_shape)
        shape = tuple(np.shape(source.X)[1:])
        training = plan_training(
            rows,
            terms,
            classes=classes,
            classes_inferred=classes_inferred,
            n_records=len(source.y),
            row_shape=shape,
            groups=source.groups,
            like=stand_ins(source.X, ranges) if rows is None else rows,
            image_shape=source.image_shape,
            ranges=ranges,
            random_state=random_state,
            checkpoint_dir=checkpoint_dir,
            verbose=verbose,
            measure=measure,
            decide=decide,
        )
        before = f"{shape[0]} columns" if source.kind == "table" else source.kind
        said = "what the public rows teach" if training.road.facts.n_public else "public constants"
        after = training.road.maps[-1].n_features_out_ if training.road.maps else int(np.prod(shape))
        plan = GradientPlan(
            n_units=training.n_units,
            n_public=0 if rows is None else len(source.public),
            unit=training.unit,
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
        evidence = Evidence(public_rows=None if rows is None else public_rows, road=why)
        return cls(source, training, evidence, plan)

    def run(self, y: npt.NDArray[Any]) -> tuple[ModelLabels, MappedLinear, Checkpoint | None]:
        """Charge, train, and return all labels, the model and what was kept to go on with."""
        source = self.source
        X = in_planes(source.X, source.image_shape)
        return self.training.run(X, y, groups=source.groups, evidence=self.evidence)
