"""A job whose model DP-SGD learns from the private records: planned by public facts, with or without public rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from pate.estimator._by_dpsgd import TrainingPlan, plan_training, stand_ins
from pate.exceptions import InvalidInputError
from pate.jobs._plan import GradientPlan
from pate.jobs._reading import Sources
from pate.jobs._records import in_planes
from pate.recipes import MappedLinear
from pate.release import Evidence, ModelLabels, ReleaseTerms

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint

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
