"""A job whose private records vote themselves: planned by public facts, and every public row is labelled."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pate.estimator._roads import plan_records
from pate.exceptions import InvalidInputError
from pate.jobs._inputs import units_of
from pate.jobs._plan import BallotPlan
from pate.jobs._reading import Sources
from pate.recipes import (
    FEWEST_PUBLIC,
    Expectation,
    RecordModel,
    RecordsPlan,
    check_expected,
    expected,
    fitted_representation,
    kind_of,
    some_rows,
    without_privacy,
)
from pate.release import Evidence, RecordLabels, ReleaseTerms, warn_if_weak
from pate.representations import Representation


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
