"""Who votes where nobody says, and the road of records: from private rows to the labels of all public ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pate.core.checks import check_choice, check_int, shown
from pate.exceptions import InvalidInputError
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget
from pate.recipes import (
    FEWEST_PUBLIC,
    PublicFacts,
    Recipe,
    RecordsPlan,
    choose,
    chosen_road,
    fitted_representation,
    kind_of,
    some_rows,
)
from pate.recipes._answers import check_decide
from pate.release import ReleaseTerms, check_measure
from pate.representations import Representation
from pate.teachers import HeadTeacherEnsemble, TeacherEnsemble
from pate.teachers._usable import units_of

VOTERS = ("auto", "records", "heads", "shards", "dpsgd")
#: What is said of shard teachers, and means that they are wanted.
OF_SHARDS = ("estimator", "n_teachers", "mechanism", "n_queries", "gap", "max_answers", "partition_seed",
             "checkpoint_dir")  # fmt: skip


def chosen_voters(voters: str | None, said: Mapping[str, Any], *, not_of_heads: Sequence[str] = ("estimator",)) -> str:
    """Return who votes: whoever was named, shard teachers where something is said of them, else ``"auto"``.

    Parameters
    ----------
    voters : {"auto", "records", "heads", "shards", "dpsgd"} or None
    said : mapping
        Parameters by name that speak of shard teachers where they are not None, as :data:`OF_SHARDS` do.
    not_of_heads : sequence of str
        Those of them that heads have no use for.

    Raises
    ------
    InvalidInputError
        An unknown name, or another one is named beside what speaks of shard teachers.
    """
    of_shards = [name for name, value in said.items() if value is not None]
    if voters is None:
        return "shards" if of_shards else "auto"
    check_choice("voters", voters, VOTERS)
    if voters == "dpsgd":  # a run of its own is kept in such a folder
        of_shards = [name for name in of_shards if name != "checkpoint_dir"]
    if voters not in ("heads", "shards") and of_shards:
        raise InvalidInputError(
            f"voters={voters!r} must stand without {', '.join(of_shards)}: those speak of teachers on shards. Leave "
            "them out, or say voters='shards'."
        )
    spoilt = [name for name in of_shards if name in not_of_heads]
    if voters == "heads" and spoilt:
        raise InvalidInputError(
            f"voters='heads' must stand without {', '.join(spoilt)}: heads are its teachers, on a representation that "
            "public rows teach. Leave that out, or say voters='shards'."
        )
    return voters


def len_of(rows: Any) -> int:
    """Return how many rows these are, before anybody has looked at them; 0 where they are none."""
    shape = rows.shape if hasattr(rows, "shape") else (len(rows),) if hasattr(rows, "__len__") else ()
    return int(shape[0]) if shape else 0


def road_of(
    X_public: Any,
    budget: Budget,
    *,
    n_units: int,
    n_classes: int,
    image_shape: tuple[int, ...] | None = None,
    ranges: Any = None,
) -> tuple[str, str]:
    """Return ``"records"`` or ``"dpsgd"``, and why, by :func:`pate.recipes.chosen_road`: what ``"auto"`` comes to.

    Parameters
    ----------
    X_public : rows or None
    budget : Budget
    n_units, n_classes : int
        Public numbers.
    image_shape : tuple or None
    ranges : mapping or sequence, or None
        Declared ranges, which records have no use for.

    Raises
    ------
    InvalidInputError
        There are ranges, and public rows enough.
    """
    facts = PublicFacts(
        n_units=max(1, n_units),
        n_classes=max(2, n_classes),
        mu=1 / GaussianSum.for_budget(budget).noise_multiplier,
        n_public=0 if X_public is None else len_of(X_public),
        kind="table" if X_public is None else kind_of(X_public, image_shape),
    )
    road, why = chosen_road(facts)
    if road == "records":
        check_ranges(ranges, road)
    return road, why


def check_ranges(ranges: Any, voters: str) -> None:
    """Refuse declared ranges where nobody has a use for them."""
    if ranges is not None and voters != "dpsgd":
        raise InvalidInputError(
            f"ranges must be left out where voters={voters!r}, who learn from public rows what columns are like. Leave "
            "it out, or say voters='dpsgd' (--voters dpsgd)."
        )


def plan_records(
    X_public: Any,
    terms: ReleaseTerms,
    *,
    classes: tuple[Any, ...],
    n_records: int,
    groups: Any = None,
    representation: Representation | None = None,
    image_shape: tuple[int, ...] | None = None,
    classes_inferred: bool = False,
    random_state: int | None = None,
    n_jobs: int | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    anyway: bool = False,
    rule: Callable[[PublicFacts], Recipe] = choose,
    measure: bool | str | None = None,
    decide: str = "likeliest",
) -> RecordsPlan:
    """Fit the public maps and choose the recipe by public facts; nothing is spent.

    Parameters
    ----------
    X_public : rows
        Public.
    terms : ReleaseTerms
    classes : tuple
    n_records : int
        Public under replace-one adjacency, as is the number of persons.
    groups : array-like or None
        Whose record it is: only how many persons there are is used.
    representation, image_shape, random_state, n_jobs, verbose, anyway
        See :class:`pate.PATEClassifier`.
    classes_inferred : bool
    checkpoint_dir, rule, measure, decide
        See :meth:`pate.recipes.RecordsPlan.of`.

    Raises
    ------
    InvalidInputError
        Too few public rows, a bad parameter; or noise that is more than all ballots together, unless ``anyway``.
    BudgetExceededError
        Nothing is left in the ledger, or next to nothing.
    """
    n_public = int(np.shape(X_public)[0])
    if n_public < FEWEST_PUBLIC:
        raise InvalidInputError(
            f"X_public must have at least {FEWEST_PUBLIC} rows for records to vote, got {n_public}: public rows make "
            "the map that private records vote on. Pass more, or say voters='dpsgd', which needs none."
        )
    n_units, unit = units_of(groups, n_records)
    seed = 0 if random_state is None else check_int("random_state", random_state, low=0) % 2**32
    kind = kind_of(X_public, image_shape)
    fitted = fitted_representation(
        kind,
        some_rows(X_public, seed),
        representation=representation,
        image_shape=image_shape,
        random_state=seed,
        verbose=verbose,
    )
    plan = RecordsPlan.of(
        terms,
        X_public,
        classes=classes,
        classes_inferred=classes_inferred,
        n_units=n_units,
        unit=unit,
        representation=fitted,
        kind=kind,
        image_shape=image_shape,
        random_state=seed,
        checkpoint_dir=checkpoint_dir,
        n_jobs=n_jobs,
        verbose=verbose,
        anyway=anyway,
        rule=rule,
        measure=measure,
        decide=decide,
    )
    _ = plan.mechanisms  # refused before anything is cast
    return plan


def measured_with(measure: bool | str | None, student: Any) -> bool | str | None:
    """Return whether the model of ballots or of DP-SGD is measured: not where somebody named another student.

    Raises
    ------
    InvalidInputError
        It was asked for, and a student is named.
    """
    measure = check_measure(measure)
    if student is None:
        return measure
    if measure:
        raise InvalidInputError(
            f"measure must be None or False with student={shown(student)}, got {measure!r}: what is "
            "measured is the model of the ballots, or of DP-SGD, itself. Leave the student out."
        )
    return False


def check_likeliest(decide: str) -> None:
    """Refuse balanced decisions where teachers on shards vote: what they release are labels.

    Raises
    ------
    InvalidInputError
    """
    if check_decide(decide) != "likeliest":
        raise InvalidInputError(
            f"decide must be 'likeliest' where teachers on shards vote, got {decide!r}: their noisy counts are decided "
            "anew by release_.decide(offsets=...). Leave it out."
        )


def head_teachers(
    X_public: Any,
    *,
    representation: Representation | None,
    image_shape: tuple[int, ...] | None,
    random_state: int | None,
    verbose: bool = False,
) -> HeadTeacherEnsemble:
    """Return heads as teachers, on the representation that was named or the default of this kind of data."""
    if isinstance(image_shape, list):
        raise InvalidInputError(f"image_shape must be a tuple, got {image_shape!r}.")
    return HeadTeacherEnsemble(
        fitted_representation(
            kind_of(X_public, image_shape),
            X_public,
            representation=representation,
            image_shape=image_shape,
            random_state=0 if random_state is None else random_state % 2**32,
            verbose=verbose,
        )
    )


def any_rows(classes: Any) -> TeacherEnsemble:
    """Return what reads rows of any kind at the door: representations look at each cell themselves."""
    return TeacherEnsemble(make_pipeline(FunctionTransformer(), LogisticRegression()), 2, classes=classes)
