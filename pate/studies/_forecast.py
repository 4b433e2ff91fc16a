"""What record voters would do with a budget, and what is to be expected of it, from public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pate.core.checks import check_int
from pate.estimator._roads import plan_records
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget
from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee
from pate.recipes import Expectation, PublicFacts, Recipe, choose, expected
from pate.release import ReleaseTerms


@dataclass(frozen=True)
class RecordsForecast:
    """Record voters within a budget: how they would be set, and how much of their accuracy noise leaves.

    Attributes
    ----------
    facts : PublicFacts
    recipe : Recipe
    expectation : Expectation
        Of the accuracy that the same records and public rows would give without noise, which nobody knows beforehand.
    guarantee : Guarantee
    """

    facts: PublicFacts
    recipe: Recipe
    expectation: Expectation
    guarantee: Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "n_units": self.facts.n_units,
            "n_public": self.facts.n_public,
            "kind": self.facts.kind,
            "evidence": self.facts.evidence,
            "share_of_accuracy_without_noise": self.expectation.share,
            "plus_minus": self.expectation.plus_minus,
            "known": self.expectation.within,
            "doubt": self.expectation.doubt,
            "chosen": dict(self.recipe.reasons),
            "guarantee": self.guarantee.to_dict(),
        }

    def lines(self) -> list[str]:
        """Return it as sentences."""
        f = self.facts
        return [
            f"Record voters: {f.n_units:,} private records vote on all of {f.n_public:,} public rows (and any later "
            f"ones), epsilon = {format_up(self.guarantee.epsilon)}. Expected: {self.expectation}.",
            *(f"{what}: {why}" for what, why in self.recipe.reasons),
        ]


def forecast(
    budget: Budget,
    *,
    n_records: int,
    n_public: int,
    n_classes: int,
    kind: str = "table",
    ledger: Ledger | None = None,
) -> RecordsForecast:
    """Return how records would vote within a budget, and what to expect; nothing private is touched.

    Parameters
    ----------
    budget : Budget
    n_records : int
        Private records, or persons where they are protected: public under replace-one adjacency.
    n_public, n_classes : int
    kind : {"table", "mixed", "image", "text"}
        ``"mixed"`` is a table with categories.
    ledger : Ledger or None
        Also fit what is left there.

    Raises
    ------
    InvalidInputError
        A number out of range.
    BudgetExceededError
        Nothing is left.
    """
    left = None if ledger is None else ledger.remaining(default_total=budget)
    mechanism = GaussianSum.for_budget(budget, left)
    mu = 1 / mechanism.noise_multiplier
    facts = PublicFacts(n_units=n_records, n_classes=n_classes, mu=mu, n_public=n_public, kind=kind)
    recipe = choose(facts)
    return RecordsForecast(facts, recipe, expected(facts, recipe), mechanism.charge().guarantee(budget.delta))


def forecast_rows(
    budget: Budget,
    X_public: Any,
    *,
    n_records: int,
    n_classes: int,
    image_shape: tuple[int, ...] | None = None,
    ledger: Ledger | None = None,
) -> RecordsForecast:
    """Return the same with the public rows at hand: the very plan that ``pate label`` and ``PATEClassifier`` make.

    Parameters
    ----------
    budget : Budget
    X_public : rows
        A table, an array, texts or images: see :class:`pate.PATEClassifier`.
    n_records, n_classes, ledger
        See :func:`forecast`.
    image_shape : tuple or None
        Of rows that are flattened images.

    Raises
    ------
    InvalidInputError
        Fewer than 20 rows, or a number out of range.
    BudgetExceededError
        Nothing is left.
    """
    n_classes = check_int("n_classes", n_classes, low=2)
    n_records = check_int("n_records", n_records, low=1)
    found = plan_records(
        X_public,
        ReleaseTerms(budget=budget, ledger=ledger),
        classes=tuple(range(n_classes)),
        n_records=n_records,
        image_shape=image_shape,
        random_state=0,
        anyway=True,
    )
    facts = replace(found.facts, mu=found.mu)
    return RecordsForecast(facts, found.recipe, expected(facts, found.recipe), found.guarantee)
