"""Who votes where nobody says, and the road of records: from private rows to the labels of all public ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pate.core.checks import check_choice, shown
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
from pate.recipes._model import check_decide
from pate.recipes._run import Ask
from pate.release import ReleaseTerms, check_measure
from pate.teachers import TeacherEnsemble

VOTERS = ("auto", "records", "heads", "shards", "dpsgd")
#: What is said of shard teachers, and means that they are wanted.
OF_SHARDS = ("estimator", "n_teachers", "mechanism", "n_queries", "gap", "max_answers", "partition_seed",
             "checkpoint_dir")  # fmt: skip


def chosen_voters(voters: str | None, said: Mapping[str, Any], *, not_of_heads: Sequence[str] = ("estimator",)) -> str:
    """Return who votes: whoever was named, shard teachers where something is said of them, else ``"auto"``.

    ``said`` are parameters that speak of shard teachers where they are not None; heads have no use for
    ``not_of_heads``.
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
    """Return ``"records"`` or ``"dpsgd"``, and why, by :func:`pate.recipes.chosen_road`: what ``"auto"`` comes to."""
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
    X_public: Any, terms: ReleaseTerms, ask: Ask, *, rule: Callable[[PublicFacts], Recipe] = choose
) -> RecordsPlan:
    """Fit the public maps and choose the recipe by public facts; nothing is spent.

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
    kind = kind_of(X_public, ask.image_shape)
    fitted = fitted_representation(
        kind,
        some_rows(X_public, ask.seed),
        representation=ask.representation,
        image_shape=ask.image_shape,
        random_state=ask.seed,
        verbose=ask.verbose,
    )
    plan = RecordsPlan.of(terms, X_public, kind=kind, rule=rule, **vars(replace(ask, representation=fitted)))
    _ = plan.mechanisms  # refused before anything is cast
    return plan


def measured_with(measure: bool | str | None, student: Any) -> bool | str | None:
    """Return whether the model of ballots or of DP-SGD is measured: not where somebody named another student."""
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
    """Refuse balanced decisions where teachers on shards vote: what they release are labels."""
    if check_decide(decide) != "likeliest":
        raise InvalidInputError(
            f"decide must be 'likeliest' where teachers on shards vote, got {decide!r}: their noisy counts are decided "
            "anew by release_.decide(offsets=...). Leave it out."
        )


def any_rows(classes: Any) -> TeacherEnsemble:
    """Return what reads rows of any kind at the door: representations look at each cell themselves."""
    return TeacherEnsemble(make_pipeline(FunctionTransformer(), LogisticRegression()), 2, classes=classes)
