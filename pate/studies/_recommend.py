"""What to do with a budget: one recommendation, what it is expected to give and how sure that is, and the command."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pate.core.checks import check_int, check_real
from pate.estimator._roads import FEWEST_PUBLIC, Ask, plan_records
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.privacy.attacker import largest_success
from pate.privacy.budget import Budget
from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee
from pate.recipes import (
    EPSILONS,
    Expectation,
    PublicFacts,
    Recipe,
    at_epsilon,
    better_budget,
    choose,
    expected,
    least_worth,
    without_privacy,
)
from pate.release import NOISE_PER_TEACHER, RECORDS_PER_TEACHER, ReleaseTerms, plan_release, share_right
from pate.statement.people import of_hundred

# What record voters would do with a budget, and what is to be expected of it, from public numbers alone.


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
    ask = Ask(
        classes=tuple(range(n_classes)),
        n_units=n_records,
        unit="record",
        image_shape=image_shape,
        random_state=0,
        anyway=True,
    )
    found = plan_records(X_public, ReleaseTerms(budget=budget, ledger=ledger), ask)
    facts = replace(found.facts, mu=found.mu)
    return RecordsForecast(facts, found.recipe, expected(facts, found.recipe), found.guarantee)


_MEASURED = (
    "a law fitted to {n} simulated runs on {tables} tables, whose intervals hold nine in ten runs on tables left out "
    "(docs/record-recipes.md)"
)
_ARITHMETIC = (
    "arithmetic of the noise alone: how often three in four teachers agree, and are right, nobody measured here"
)
_ATTACKER = "the best guess of one who knows everything but whether a record is this or another"


@dataclass(frozen=True)
class Recommendation:
    """How to spend a budget, from public numbers alone.

    Attributes
    ----------
    voters : {"records", "shards"}
    why : str
        What speaks for them.
    n_teachers : int or None
        None: every private record votes.
    n_queries : int
        Public rows that get a label.
    noise : str
        In words.
    guarantee : Guarantee
        What it spends; public.
    attacker : int
        How many of 100 guesses are right at most of one who knows everything but whether a record is this or another,
        and held both for as likely: what the statement will say.
    share, plus_minus : float
        Records: accuracy over what the same path reaches without noise, and half of the interval around it.
        Teachers: the least probability that a label is right where three in four of them agree, and 0.
    within : bool
        Whether that is known; see :class:`pate.recipes.Expectation`.
    doubt : str
        Why it is not known, where it is not.
    stands_on : str
        Where share and plus_minus come from; empty where they are not known.
    right : (float, float) or None
        Between which shares of right labels to expect, where it was said what a model without privacy reaches, and
        the share is known.
    worth : bool
        False: it buys nearly nothing, and :attr:`better` says what would do.
    better : str
    others : tuple of (float, float)
        (epsilon, share) at other budgets where it is known.
    instead : str
        What would cost no privacy, and how often that is right.
    command : str
        To paste.
    """

    voters: str
    why: str
    n_teachers: int | None
    n_queries: int
    noise: str
    guarantee: Guarantee
    attacker: int
    share: float
    plus_minus: float
    within: bool
    stands_on: str
    right: tuple[float, float] | None
    worth: bool
    better: str
    others: tuple[tuple[float, float], ...]
    command: str
    instead: str = ""
    doubt: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "voters": self.voters,
            "why": self.why,
            "n_teachers": self.n_teachers,
            "n_queries": self.n_queries,
            "noise": self.noise,
            "guarantee": self.guarantee.to_dict(),
            "attacker": self.attacker,
            "expects": {
                "share": self.share,
                "plus_minus": self.plus_minus,
                "known": self.within,
                "doubt": self.doubt,
                "stands_on": self.stands_on,
                "right_labels": self.right,
            },
            "worth": self.worth,
            "better": self.better,
            "at_other_epsilons": [{"epsilon": epsilon, "share": share} for epsilon, share in self.others],
            "without_privacy": self.instead,
            "command": self.command,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return it as named lines."""
        who = "every private record" if self.n_teachers is None else f"{self.n_teachers} teachers on shards"
        others = ", ".join(f"{epsilon:g}: {math.floor(100 * min(share, 0.99))}%" for epsilon, share in self.others)
        return [
            ("voters", f"{who}: {self.why}"),
            ("noise", self.noise),
            ("labels", f"{self.n_queries:,} public rows"),
            ("spends", str(self.guarantee)),
            ("attacker", f"{_ATTACKER} is right at most {self.attacker} of 100 times; a coin is right 50 times"),
            ("expects", self._expects()),
            ("stands on", self.stands_on),
            ("epsilon", f"would leave, of the accuracy without noise: {others}" if others else ""),
            ("instead", self.instead),
            ("but", "" if self.worth else f"this buys nearly nothing. {self.better}."),
            ("command", self.command),
        ]

    def text(self) -> str:
        """Return the lines as text, the command last and whole."""
        return "\n".join(f"{name:<11}{value}" for name, value in self.lines() if value)

    def _expects(self) -> str:
        if self.n_teachers is not None:
            return f"labels right with probability {self.share:.2f} or more where three in four teachers agree"
        told = str(Expectation(self.share, self.plus_minus, self.within, doubt=self.doubt))
        if self.right is None:
            return told
        low, high = self.right
        return f"{low:.0%} to {high:.0%} of the labels right: {told}"


def recommend_records(
    budget: Budget, found: RecordsForecast, *, commonest: float | None, best: float | None, words: Mapping[str, Any]
) -> Recommendation:
    """Return the recommendation where records can vote.

    Parameters
    ----------
    budget : Budget
    found : RecordsForecast
    commonest : float or None
        Share of the commonest class, where that is publicly known.
    best : float or None
        Share of labels that a model without privacy would get right, as far as is publicly known.
    words : mapping
        What is known of the files, for the command: ``public``, ``classes``, ``ledger``.
    """
    facts, hope = found.facts, found.expectation
    least = least_worth(facts.n_classes, commonest)
    right = None
    if best is not None:
        chance = 1 / facts.n_classes
        best = check_real("best", best, low=chance, high=1)
        if hope.within:
            low, high = hope.interval
            right = (max(chance, best * low), best * high)
    worth = hope.share >= least
    spent = budget.epsilon
    return Recommendation(
        voters="records",
        why="on every table measured they were ahead of teachers on shards (docs/accuracy.md)",
        n_teachers=None,
        n_queries=facts.n_public,
        noise=f"Gaussian, {1 / facts.mu:.4g} times what one record may change",
        guarantee=found.guarantee,
        attacker=of_hundred(largest_success(found.guarantee.epsilon, found.guarantee.delta, mu=facts.mu)),
        share=hope.share,
        plus_minus=hope.plus_minus,
        within=hope.within,
        stands_on=_MEASURED.format(n=hope.n_runs, tables=hope.n_tables) if hope.within else "",
        right=right,
        worth=worth,
        better="" if worth else better_budget(facts, budget.delta, least),
        others=tuple((e, h.share) for e in _around(spent) if (h := at_epsilon(facts, e, budget.delta)).within),
        command=label_command(budget, words),
        instead=without_privacy(facts, commonest),
        doubt=hope.doubt,
    )


def recommend_shards(
    budget: Budget,
    *,
    n_queries: int | None,
    n_classes: int,
    n_records: int | None,
    n_public: int | None,
    n_teachers: int | None,
    words: Mapping[str, Any],
) -> Recommendation:
    """Return the recommendation for teachers on shards: as many as keep the noise at 0.3 votes for each.

    Parameters
    ----------
    budget : Budget
    n_queries, n_records, n_public, n_teachers : int or None
    n_classes : int
    words : mapping
        See :func:`recommend_records`.
    """
    rows = n_queries or n_public or 1
    if n_teachers is None:
        all_rows = plan_release(budget, rows, n_teachers=1, n_classes=n_classes, n_queries=rows, anyway=True)
        noise = float(all_rows.mechanism.sigma)  # type: ignore[attr-defined]
        n_teachers = max(1, math.ceil(noise / NOISE_PER_TEACHER))
        if n_records is not None:
            n_teachers = max(1, min(n_teachers, n_records // RECORDS_PER_TEACHER))
    asking = plan_release(budget, rows, n_teachers=n_teachers, n_classes=n_classes, anyway=True)
    sigma = float(asking.mechanism.sigma)  # type: ignore[attr-defined]
    worth = sigma <= n_teachers and asking.n_queries >= min(n_classes, rows)
    charge = asking.mechanism.charge(asking.n_queries, asking.n_queries)
    spent, mu = charge.guarantee(budget.delta), math.sqrt(charge.mu_squared)
    few = n_public is not None and n_public < FEWEST_PUBLIC
    return Recommendation(
        voters="shards",
        why=f"records need {FEWEST_PUBLIC} public rows to vote on" if few else "as was asked",
        n_teachers=n_teachers,
        n_queries=asking.n_queries,
        noise=f"Gaussian of {format_up(sigma)} votes on every count",
        guarantee=spent,
        attacker=of_hundred(largest_success(spent.epsilon, spent.delta, mu=mu)),
        share=share_right(sigma, n_teachers, n_classes),
        plus_minus=0.0,
        within=True,
        stands_on=_ARITHMETIC,
        right=None,
        worth=worth,
        better="" if worth else f"Take {math.ceil(sigma / NOISE_PER_TEACHER)} teachers, or a larger epsilon",
        others=(),
        command=label_command(
            budget, words, "--voters", "shards", "--teachers", n_teachers, "--queries", asking.n_queries
        ),
    )


def _around(epsilon: float) -> tuple[float, ...]:
    """Return four budgets beside this one."""
    known = [e for e in EPSILONS if e != epsilon]
    below = [e for e in known if e < epsilon][-2:]
    return (*below, *[e for e in known if e > epsilon][: 4 - len(below)])


def label_command(budget: Budget, words: Mapping[str, Any], *more: Any) -> str:
    """Return the command that does it; what nobody said stands in capitals, to be put in."""
    classes: Sequence[str] | None = words.get("classes")
    said = [
        "pate", "label", "--private", "PRIVATE.csv", "--target", "COLUMN",
        "--public", str(words.get("public") or "PUBLIC.csv"),
        "--classes", "CLASS,CLASS,..." if classes is None else ",".join(classes),
        "--epsilon", f"{budget.epsilon:g}", "--delta", f"{budget.delta:g}",
        *(("--ledger", str(words["ledger"])) if words.get("ledger") else ()),
        *(("--commonest", f"{words['commonest']:g}") if words.get("commonest") else ()),
        *map(str, more), "--out", "labels.csv",
    ]  # fmt: skip
    return shlex.join(said)
