"""What a budget buys, by records or by teachers, and what to do with it, before any private data is touched."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from scipy.special import ndtri

from pate._core.checks import check_int, check_real
from pate._core.pages import cell, lined_up
from pate.estimators._by_dpsgd import FEWEST_PUBLIC, Ask, len_of, plan_records
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import ConfidentGNMax, GaussianSum, GNMax, Mechanism, NoisyHistogram
from pate.models.recipes import (
    EPSILONS,
    Expectation,
    PublicFacts,
    Recipe,
    at_epsilon,
    better_budget,
    choose,
    chosen_method,
    expected,
    least_useful,
    without_privacy,
)
from pate.privacy.attacker import largest_success
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.calibrate import calibrate
from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee
from pate.release import NOISE_PER_TEACHER, RECORDS_PER_TEACHER, ReleaseTerms, plan_release, share_right, warn_if_weak
from pate.release.statement.plain_language import of_hundred

__all__ = ["LEADS", "Plan", "PlanRow", "Recommendation", "needed_gap", "plan"]

# Teachers on shards: what each mechanism would need of them.

#: By what share of the votes the first class may lead the second on a query one cares about: 0.9 is 95 to 5 of 100.
LEADS: tuple[float, ...] = (0.9, 0.6, 0.3)
#: The 2018 paper's proportions on MNIST: 150 : 40 of the two noises, threshold at 200 of 250 votes.
_CONFIDENT_RATIO, CONFIDENT_SHARE = 150 / 40, 0.8
#: Shards smaller than this seldom teach anything; the text then says so.
FEW_RECORDS = 50

ADVICE = {
    "histogram": (
        "Take it when in doubt. The noisy counts are published, so abstaining on a small noisy lead "
        "(release.decide(gap=...) or --gap), class offsets and soft labels are free and can be tuned afterwards. "
        "Abstaining where the noisy lead is below the gap of the table lets out a label that is not the teachers' "
        "choice with no more than the small probability stated there, per query, whatever the votes are; on the "
        "2018 MNIST votes a gap of 0.7 sigma gave the most answers with 95% of them right "
        "(experiments/mechanism_table.py: 88 at epsilon 1, against 84 by confident-gnmax and 58 by gnmax)."
    ),
    "gnmax": (
        "Cheaper than the histogram per answer, since only the winner is published, but it answers every query, also "
        "those on which the teachers disagree. Take it when nearly all queries are easy, or all need an answer."
    ),
    "confident-gnmax": (
        "Pays for every query asked and for the whole cap on answers, whether used or not; answers where the noisy top "
        "count reaches the threshold. Take it when the counts must not be published and many queries are hard: about "
        "as many right answers as the histogram."
    ),
}


def needed_gap(sigma: float, *, n_classes: int = 2, right: float = 0.99) -> float:
    """Return the votes by which a class must lead every other for its name to come out with probability ``right``.

    Two noisy counts differ by N(gap, 2 sigma^2): for two classes sigma sqrt(2) Phi^-1(right), exactly; for more, the
    union bound over the n_classes - 1 rivals, all as close, which asks for no less than needed.

    Parameters
    ----------
    sigma : float
        Standard deviation of the Gaussian noise on every count, in votes.
    n_classes : int
    right : float
        In (0.5, 1).

    Returns
    -------
    float
        In votes.

    Raises
    ------
    InvalidInputError
        A parameter out of range.
    """
    sigma = check_real("sigma", sigma, low=0, low_open=True)
    rivals = check_int("n_classes", n_classes, low=2) - 1
    right = check_real("right", right, low=0.5, high=1, low_open=True, high_open=True)
    return -sigma * math.sqrt(2) * float(ndtri((1 - right) / rivals))


@dataclass(frozen=True)
class PlanRow:
    """One choice: a mechanism calibrated to the budget, and a number of teachers.

    ``gap`` and ``gap_two_classes`` are the votes of lead for a right answer, over all classes (union bound) and between
    two (exact); ``lead`` is the gap as a share of the teachers: above 1 no answer can be that sure.
    """

    name: str
    mechanism: Mechanism
    n_teachers: int
    n_queries: int
    n_answers: int
    gap: float
    gap_two_classes: float
    lead: float
    records_per_teacher: int | None
    guarantee: Guarantee

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on every count, in votes."""
        return float(self.mechanism.sigma)  # type: ignore[attr-defined]

    @property
    def attacker(self) -> int:
        """How many of 100 guesses of an attacker are right at most, as the statement will say."""
        return _guesses(self.guarantee, math.sqrt(self.mechanism.charge(self.n_queries, self.n_answers).mu_squared))

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {
            "mechanism": str(self.mechanism),
            "guarantee": self.guarantee.to_dict(),
            "attacker": self.attacker,
        }


def _guesses(guarantee: Guarantee, mu: float) -> int:
    return of_hundred(largest_success(guarantee.epsilon, guarantee.delta, mu=mu))


def shard_rows(
    budget: Budget,
    n_queries: int,
    n_classes: int,
    *,
    n_records: int | None = None,
    n_teachers: int | Sequence[int] | None = None,
    max_answers: int | None = None,
    right: float = 0.99,
    ledger: Ledger | None = None,
) -> tuple[PlanRow, ...]:
    """Return every mechanism, calibrated to the budget, for every number of teachers; see :func:`pate.plan`."""
    n_queries = check_int("n_queries", n_queries, low=1)
    half = max(1, n_queries // 2)
    cap = check_int("max_answers", half if max_answers is None else max_answers, low=1, high=n_queries)
    several = () if n_teachers is None else (n_teachers,) if isinstance(n_teachers, int) else n_teachers
    chosen = [check_int("n_teachers", k, low=1) for k in several]
    if n_records is not None and any(k > n_records for k in chosen):
        raise InvalidInputError(
            f"n_teachers must be at most the number of records ({n_records}), got {max(chosen)}. Every teacher needs "
            "one."
        )
    shapes: dict[str, tuple[Mechanism, int]] = {
        "histogram": (NoisyHistogram(sigma=1.0), n_queries),
        "gnmax": (GNMax(sigma=1.0), n_queries),
        "confident-gnmax": (ConfidentGNMax(threshold=1.0, sigma_threshold=_CONFIDENT_RATIO, sigma=1.0), cap),
    }
    left = None if ledger is None else ledger.remaining(default_total=budget)
    rows = []
    for name, (shape, answers) in shapes.items():
        noisy = calibrate(shape, budget, n_queries=n_queries, max_answers=answers, left=left)
        guarantee = noisy.charge(n_queries, answers).guarantee(budget.delta)
        sigma = float(noisy.sigma)  # type: ignore[attr-defined]
        gap, two = (needed_gap(sigma, n_classes=n, right=right) for n in (n_classes, 2))
        for k in chosen or dict.fromkeys(math.ceil(gap / lead) for lead in LEADS):
            mechanism: Mechanism = noisy
            if isinstance(noisy, ConfidentGNMax):
                # The threshold is free: it is a public number and moves no cost.
                threshold = float(round(CONFIDENT_SHARE * k))
                mechanism = ConfidentGNMax(threshold, noisy.sigma_threshold, noisy.sigma)
            each = None if n_records is None else n_records // k
            rows.append(PlanRow(name, mechanism, k, n_queries, answers, gap, two, gap / k, each, guarantee))
    return tuple(rows)


# Record voters: how they would be set, and what is to be expected of them.


@dataclass(frozen=True)
class RecordsForecast:
    """Record voters within a budget: how they would be set, and how much of their accuracy noise leaves.

    That is of the accuracy which the same records and public rows would give without noise, and nobody knows before.
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


# What to do, what it is expected to give and how sure that is, and the command.

_MEASURED = (
    "a law fitted to {n} simulated runs on {tables} tables, whose intervals hold nine in ten runs on tables left out "
    "(docs/record-recipes.md)"
)
_ARITHMETIC = (
    "arithmetic of the noise alone: how often three in four teachers agree, and are right, nobody measured here"
)
_ATTACKER = "the best guess of one who knows everything but whether a record is this or another"


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """How to spend a budget, from public numbers alone.

    ``n_teachers`` is None where every private record votes, or DP-SGD trains a model; ``n_queries`` the public rows
    that get a label. ``attacker`` is what the statement will say: of 100 guesses of one who knows everything but
    whether a record is this or another, and held both for as likely, so many are right at most. ``share`` is the
    accuracy over what the same path reaches without noise, ``plus_minus`` half of the interval around it; of teachers
    the least probability that a label is right where three in four of them agree, and 0; None where nobody knows.
    ``within`` says whether that is known, ``doubt`` why not, ``stands_on`` from where; ``right`` is between which
    shares of right labels to expect. Where it is not ``worth`` it, ``better`` says what would do; ``others`` are
    (epsilon, share) at other budgets; ``instead`` is what would cost no privacy.
    """

    voters: str
    why: str
    n_teachers: int | None
    n_queries: int
    noise: str
    guarantee: Guarantee
    attacker: int
    share: float | None
    plus_minus: float = 0.0
    within: bool = True
    stands_on: str
    right: tuple[float, float] | None = None
    worth: bool
    better: str
    others: tuple[tuple[float, float], ...] = ()
    command: str
    instead: str = ""
    doubt: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            **{name: getattr(self, name) for name in ("voters", "why", "n_teachers", "n_queries", "noise")},
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
        who = "none, DP-SGD trains a model" if self.voters == "dpsgd" else who
        others = ", ".join(f"{epsilon:g}: {math.floor(100 * min(share, 0.99))}%" for epsilon, share in self.others)
        return [
            ("voters", f"{who}: {self.why}"),
            ("noise", self.noise),
            ("labels", f"{self.n_queries:,} public rows"),
            ("spends", str(self.guarantee)),
            ("attacker", f"{_ATTACKER} is right at most {self.attacker} of 100 times; a coin is right 50 times"),
            ("expects", self._expects()),
            ("based on", self.stands_on),
            ("epsilon", f"would leave, of the accuracy without noise: {others}" if others else ""),
            ("instead", self.instead),
            ("but", "" if self.worth else f"this buys nearly nothing. {self.better}."),
            ("command", self.command),
        ]

    def text(self) -> str:
        """Return the lines as text, the command last and whole."""
        return "\n".join(f"{name:<11}{value}" for name, value in self.lines() if value)

    def _expects(self) -> str:
        if self.voters == "shards":
            return f"labels right with probability {self.share:.2f} or more where three in four teachers agree"
        shown = str(Expectation(self.share or 0.0, self.plus_minus, self.within, doubt=self.doubt))
        return shown if self.right is None else "{:.0%} to {:.0%} of the labels right: ".format(*self.right) + shown


def forecast(X_public: Any, terms: ReleaseTerms, facts: PublicFacts, image_shape: Any) -> RecordsForecast:
    """Return how records would vote within a budget, and what to expect; nothing private is touched.

    With the public rows at hand it is the very plan that ``pate label`` and ``PATEClassifier`` make.
    """
    if X_public is None:
        left = None if terms.ledger is None else terms.ledger.remaining(default_total=terms.budget)
        mechanism = GaussianSum.for_budget(terms.budget, left)
        facts = replace(facts, mu=1 / mechanism.noise_multiplier)
        recipe, guarantee = choose(facts), mechanism.charge().guarantee(terms.budget.delta)
    else:
        public = {"classes": tuple(range(facts.n_classes)), "n_units": facts.n_units, "image_shape": image_shape}
        found = plan_records(X_public, terms, Ask(**public, unit="record", random_state=0, force=True))
        facts, recipe, guarantee = replace(found.facts, mu=found.mu), found.recipe, found.guarantee
    return RecordsForecast(facts, recipe, expected(facts, recipe), guarantee)


def recommend_records(
    budget: Budget, found: RecordsForecast, *, commonest: float | None, best: float | None, words: Mapping[str, Any]
) -> Recommendation:
    """Return the recommendation where records can vote.

    ``best`` is the share of labels that a model without privacy would get right; ``words`` is what is known of the
    files, for the command.
    """
    facts, hope = found.facts, found.expectation
    least = least_useful(facts.n_classes, commonest)
    right = None
    if best is not None:
        chance = 1 / facts.n_classes
        best = check_real("best", best, low=chance, high=1)
        if hope.within:
            low, high = hope.interval
            right = (max(chance, best * low), best * high)
    worth = hope.share >= least
    return Recommendation(
        voters="records",
        why="on every table measured they were ahead of teachers on shards (docs/accuracy.md)",
        n_teachers=None,
        n_queries=facts.n_public,
        noise=f"Gaussian, {1 / facts.mu:.4g} times what one record may change",
        guarantee=found.guarantee,
        attacker=_guesses(found.guarantee, facts.mu),
        share=hope.share,
        plus_minus=hope.plus_minus,
        within=hope.within,
        stands_on=_MEASURED.format(n=hope.n_runs, tables=hope.n_tables) if hope.within else "",
        right=right,
        worth=worth,
        better="" if worth else better_budget(facts, budget.delta, least),
        others=tuple((e, h.share) for e in _around(budget.epsilon) if (h := at_epsilon(facts, e, budget.delta)).within),
        command=label_command(budget, words),
        instead=without_privacy(facts, commonest),
        doubt=hope.doubt,
    )


def recommend_shards(
    budget: Budget,
    rows: int,
    n_classes: int,
    n_records: int | None,
    n_teachers: int | None,
    words: Mapping[str, Any],
) -> Recommendation:
    """Return the recommendation for teachers on shards: as many as keep the noise at 0.3 votes for each."""
    if n_teachers is None:
        all_rows = plan_release(budget, rows, n_teachers=1, n_classes=n_classes, n_queries=rows, force=True)
        noise = float(all_rows.mechanism.sigma)  # type: ignore[attr-defined]
        n_teachers = max(1, math.ceil(noise / NOISE_PER_TEACHER))
        if n_records is not None:
            n_teachers = max(1, min(n_teachers, n_records // RECORDS_PER_TEACHER))
    asking = plan_release(budget, rows, n_teachers=n_teachers, n_classes=n_classes, force=True)
    sigma = float(asking.mechanism.sigma)  # type: ignore[attr-defined]
    worth = sigma <= n_teachers and asking.n_queries >= min(n_classes, rows)
    charge = asking.mechanism.charge(asking.n_queries, asking.n_queries)
    spent = charge.guarantee(budget.delta)
    return Recommendation(
        voters="shards",
        why="as was asked",
        n_teachers=n_teachers,
        n_queries=asking.n_queries,
        noise=f"Gaussian of {format_up(sigma)} votes on every count",
        guarantee=spent,
        attacker=_guesses(spent, math.sqrt(charge.mu_squared)),
        share=share_right(sigma, n_teachers, n_classes),
        stands_on=_ARITHMETIC,
        worth=worth,
        better="" if worth else f"Take {math.ceil(sigma / NOISE_PER_TEACHER)} teachers, or a larger epsilon",
        command=label_command(
            budget, words, "--voters", "shards", "--teachers", n_teachers, "--queries", asking.n_queries
        ),
    )


def recommend_dpsgd(
    budget: Budget,
    facts: PublicFacts,
    *,
    commonest: float | None,
    words: Mapping[str, Any],
    ledger: Ledger | None,
) -> Recommendation:
    """Return the recommendation where there are too few public rows for records to vote on: DP-SGD, as fits do."""
    left = None if ledger is None else ledger.remaining(default_total=budget)
    mechanism = GaussianSum.for_budget(budget, left)
    guarantee = mechanism.charge().guarantee(budget.delta)
    return Recommendation(
        voters="dpsgd",
        why=chosen_method(facts)[1],
        n_teachers=None,
        n_queries=facts.n_public,
        noise="Gaussian, on every step; as much as the budget allows (pate label --plan gives it)",
        guarantee=guarantee,
        attacker=_guesses(guarantee, 1 / mechanism.noise_multiplier),
        share=None,
        within=False,
        stands_on="",
        worth=True,
        better="",
        command=label_command(budget, words),
        instead=without_privacy(facts, commonest),
        doubt="nothing was measured of DP-SGD with so few public rows",
    )


def _around(epsilon: float) -> tuple[float, ...]:
    """Return four budgets beside this one."""
    known = [e for e in EPSILONS if e != epsilon]
    below = [e for e in known if e < epsilon][-2:]
    return (*below, *[e for e in known if e > epsilon][: 4 - len(below)])


def label_command(budget: Budget, words: Mapping[str, Any], *more: Any) -> str:
    """Return the command that does it; what was not given stands in capitals, to be put in."""
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


@dataclass(frozen=True)
class Plan:
    """The result of :func:`plan`: possible releases within one budget and a recommendation; everything in it is public.

    Attributes
    ----------
    budget : Budget
    n_queries : int or None
        None: teachers were not asked about.
    n_classes : int
    n_records : int or None
    right : float
        The probability of a right answer behind the gaps.
    rows : tuple of PlanRow
        Of teachers on shards.
    records : RecordsForecast or None
        Of record voters, where the numbers of records and of public rows were given.
    recommendation : Recommendation or None
        What to do, what it is expected to give and how sure that is, and the command.

    Examples
    --------
    >>> print(
    ...     plan(
    ...         Budget(1.0, 1e-5),
    ...         n_queries=300,
    ...         n_classes=10,
    ...         n_records=60000,
    ...         n_teachers=500,
    ...     )
    ... )
    Plan for 300 queries, 10 classes, epsilon = 1, delta = 1e-05, 60000 records
    mechanism        teachers  records each  sigma  gap for 99%  (of 2 classes)  lead  answers  epsilon
    histogram             500           120  91.39        395.3           300.7   79%      300        1
    gnmax                 500           120  79.95        345.9           263.1   69%      300        1
    confident-gnmax       500           120  58.54        253.3           192.6   51%   <= 150        1
    """

    budget: Budget
    n_queries: int | None
    n_classes: int
    n_records: int | None
    right: float
    rows: tuple[PlanRow, ...]
    records: RecordsForecast | None = None
    recommendation: Recommendation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "n_classes": self.n_classes,
            "n_records": self.n_records,
            "n_queries": self.n_queries,
            "recommendation": None if self.recommendation is None else self.recommendation.to_dict(),
            "records": None if self.records is None else self.records.to_dict(),
            "teachers": [row.to_dict() for row in self.rows],
            "advice": self.advice(),
        }

    def columns(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the heading and the rows of the table as text."""
        each = ("records each",) if self.n_records is not None else ()
        heading = ("mechanism", "teachers", *each, "sigma", f"gap for {self.right:.0%}", "(of 2 classes)", "lead")
        body = [
            (
                row.name,
                str(row.n_teachers),
                *(str(row.records_per_teacher) for _ in each),
                *map(format_up, (row.sigma, row.gap, row.gap_two_classes)),
                f"{row.lead:.0%}",
                str(row.n_answers) if row.n_answers == row.n_queries else f"<= {row.n_answers}",
                format_up(row.guarantee.epsilon),
            )
            for row in self.rows
        ]
        return (*heading, "answers", "epsilon"), body

    def advice(self) -> list[str]:
        """Return the reasons for each mechanism, and the meaning of the figures, as sentences."""
        lines = [] if self.records is None else self.records.lines()
        if not self.rows:
            return lines
        lines += [f"{name}: {ADVICE[name]}" for name in dict.fromkeys(row.name for row in self.rows)]
        sure = next(row for row in self.rows if row.name == "confident-gnmax")
        lines.append(
            f"confident-gnmax above: threshold at {CONFIDENT_SHARE:.0%} of the votes (a public choice that moves no "
            f"cost), noise {format_up(sure.mechanism.sigma_threshold)} on the test, at most "  # type: ignore[attr-defined]
            f"{sure.n_answers} of {sure.n_queries} answers; with another cap the noise is another."
        )
        lines.append(
            "Noise depends on queries and budget, not on teachers: more teachers make the same gap a smaller share of "
            "the votes, fewer queries make the gap smaller, and each teacher must still have enough records to learn."
        )
        guesses = dict(sorted({row.name: row.attacker for row in self.rows}.items(), key=lambda item: item[1]))
        lines.append(
            "Of 100 guesses of one who knows everything but whether a record is this or another, at most so many are "
            f"right: {', '.join(f'{name} {n}' for name, n in guesses.items())}. At one epsilon they need not be alike: "
            "a label alone is priced more tightly by epsilon than by this."
        )
        if any(row.lead > 1 for row in self.rows):
            lines.append("A lead above 100% cannot be had: take more teachers or ask fewer queries.")
        if any(each is not None and each < FEW_RECORDS for each in (row.records_per_teacher for row in self.rows)):
            lines.append(
                f"Some rows leave a teacher fewer than {FEW_RECORDS} records, with which few learn anything: ask "
                "fewer queries or spend more."
            )
        return lines

    def __str__(self) -> str:
        heading, body = self.columns()
        if not body:
            shown = [] if self.recommendation is None else [self.recommendation.text()]
            return "\n".join([self.title, *shown, *self.advice()])
        return "\n".join([self.title, *lined_up([heading, *body], right=True)])

    def __repr__(self) -> str:
        return f"Plan({self.title.removeprefix('Plan for ')!r})"

    def _repr_html_(self) -> str:
        heading, body = self.columns()
        shown = [] if self.recommendation is None else [f"{k}: {v}" for k, v in self.recommendation.lines() if v]
        return cell("Plan", self.title.removeprefix("Plan "), heads=heading, rows=body, more=[*shown, *self.advice()])

    @property
    def title(self) -> str:
        """One line: what was asked for."""
        records = "" if self.n_records is None else f", {self.n_records} records"
        by_dpsgd = self.recommendation is not None and self.recommendation.voters == "dpsgd"
        voters = "record voters" if self.records is not None else "DP-SGD" if by_dpsgd else "teachers on shards"
        asked = voters if self.n_queries is None else f"{self.n_queries} queries"
        return (
            f"Plan for {asked}, {self.n_classes} classes, epsilon = {self.budget.epsilon:g}, "
            f"delta = {self.budget.delta:g}{records}"
        )


def plan(
    budget: Budget,
    *,
    n_queries: int | None = None,
    n_classes: int,
    n_records: int | None = None,
    n_public: int | None = None,
    X_public: Any = None,
    image_shape: tuple[int, ...] | None = None,
    kind: str = "table",
    commonest: float | None = None,
    best: float | None = None,
    n_teachers: int | Sequence[int] | None = None,
    max_answers: int | None = None,
    right: float = 0.99,
    ledger: Ledger | None = None,
    words: Mapping[str, Any] | None = None,
) -> Plan:
    """Return what a budget pays for, and which method to use with it, before any private data is read.

    Parameters
    ----------
    budget : Budget
    n_queries : int or None
        How many public rows teachers would label. None: leave teachers out of the plan.
    n_classes : int
    n_records : int or None
        Number of private records (public under replace-one adjacency). It gives the records per teacher, and with
        ``n_public`` the plan for record voters.
    n_public : int or None
        Number of public rows.
    X_public : rows or None
        The public rows themselves, in place of their number and kind: the recommendation then has exactly the settings
        that ``pate label`` and :class:`pate.PATEClassifier` use for them.
    image_shape : tuple or None
        Give it if the public rows are flattened images.
    kind : {"table", "mixed", "image", "text"}
        Kind of data, for record voters; ``"mixed"`` is a table with categories.
    commonest : float or None
        Share of the most common class, if that is publicly known: a model that is right no more often is useless.
    best : float or None
        Accuracy of a model without privacy, if that is publicly known: the plan then gives expected accuracies instead
        of shares of the accuracy without noise.
    n_teachers : int, sequence of int, or None
        Number or numbers of teachers to plan for. None: as many as are needed if the first class leads by 90, 60 and
        30% of the votes.
    max_answers : int or None
        The most answers of Confident-GNMax; None: half of the queries.
    right : float
        How sure an answer is to be: the plan gives the lead in votes (the gap) at which an answer is right with this
        probability, in (0.5, 1).
    ledger : Ledger or None
        Plan for one release that also fits what is left in this ledger, in its accounting unit.
    words : mapping or None
        Names of files and classes for the printed command: ``public``, ``classes``, ``ledger``.

    Returns
    -------
    Plan
        Every row fits the budget: its epsilon is public, replace-one, both directions, and a constant.

    Raises
    ------
    InvalidInputError
        A parameter out of range, such as more teachers than records.
    BudgetExceededError
        No amount of noise fits the budget.

    Examples
    --------
    >>> rows = plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10, n_teachers=250).rows
    >>> plan(
    ...     Budget(1.0, 1e-5), n_classes=10, n_records=5_000, n_public=1_000
    ... ).records.recipe.space
    'signed'
    >>> [row.name for row in rows], all(row.guarantee.epsilon <= 1 for row in rows)
    (['histogram', 'gnmax', 'confident-gnmax'], True)
    """
    check_budget(budget)
    n_classes = check_int("n_classes", n_classes, low=2)
    if n_queries is None and (n_teachers is not None or max_answers is not None):
        raise InvalidInputError(
            "n_queries must be given with n_teachers or max_answers: these are for teachers on shards. Give it, or "
            "leave them out."
        )
    words = {**(words or {}), "commonest": commonest}
    by_records = advice = None
    if X_public is not None or n_public is not None:
        if n_records is None:
            raise InvalidInputError("n_records must be given beside the public rows, got None.")
        if X_public is not None:
            n_public = len_of(X_public)
        n_public = check_int("n_public" if X_public is None else "rows of X_public", n_public, low=1)
        n_records = check_int("n_records", n_records, low=1)
        if n_public >= FEWEST_PUBLIC:
            facts = PublicFacts(n_units=n_records, n_classes=n_classes, mu=1.0, n_public=n_public, kind=kind)
            by_records = forecast(X_public, ReleaseTerms(budget=budget, ledger=ledger), facts, image_shape)
            advice = recommend_records(budget, by_records, commonest=commonest, best=best, words=words)
        elif n_queries is None:
            facts = PublicFacts(n_units=n_records, n_classes=n_classes, mu=1.0, n_public=n_public, kind=kind)
            advice = recommend_dpsgd(budget, facts, commonest=commonest, words=words, ledger=ledger)
    elif n_queries is None:
        raise InvalidInputError(
            "n_public must be given for record voters, or n_queries for teachers on shards; got neither."
        )
    elif n_records is not None:
        n_records = check_int("n_records", n_records, low=1)
    warn_if_weak(budget.delta, n_records, epsilon=budget.epsilon)
    rows: tuple[PlanRow, ...] = ()
    if n_queries is not None:
        asked: dict[str, Any] = {"n_teachers": n_teachers, "max_answers": max_answers, "right": right, "ledger": ledger}
        rows = shard_rows(budget, n_queries, n_classes, n_records=n_records, **asked)
    if advice is None:
        n_each = None if n_teachers is None else rows[0].n_teachers
        rows_asked = n_queries or n_public or 1
        advice = recommend_shards(budget, rows_asked, n_classes, n_records, n_each, words)
    return Plan(budget, n_queries, n_classes, n_records, right, rows, by_records, advice)
