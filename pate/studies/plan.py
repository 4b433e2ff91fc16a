"""What a budget buys, by records or by teachers, before any private data is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pate.core.checks import check_int
from pate.core.pages import cell, lined_up
from pate.estimator._roads import FEWEST_PUBLIC
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import ConfidentGNMax
from pate.privacy.budget import Budget, check_budget
from pate.privacy.convert import format_up
from pate.release import warn_if_weak
from pate.studies._recommend import (
    Recommendation,
    RecordsForecast,
    forecast,
    forecast_rows,
    recommend_records,
    recommend_shards,
)
from pate.studies._shard_rows import ADVICE, CONFIDENT_SHARE, FEW_RECORDS, LEADS, PlanRow, needed_gap, shard_rows

__all__ = ["LEADS", "Plan", "PlanRow", "Recommendation", "needed_gap", "plan"]


@dataclass(frozen=True)
class Plan:
    """Choices within one budget, and what speaks for each; everything in it is public.

    Attributes
    ----------
    budget : Budget
    n_queries : int or None
        None: nobody asked about teachers.
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
    >>> print(plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10, n_records=60000, n_teachers=500))
    Plan for 300 queries, 10 classes, epsilon = 1, delta = 1e-05, 60000 records
    mechanism  teachers  records each  sigma  gap for 99%  (of 2 classes)  lead  answers  epsilon
    histogram       500           120  91.39        395.3           300.7   79%      300        1
    gnmax           500           120  79.95        345.9           263.1   69%      300        1
    confident       500           120  58.54        253.3           192.6   51%   <= 150        1
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
        """Return everything as JSON values.

        Examples
        --------
        >>> plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10).to_dict()["teachers"][0]["mechanism"]
        'NoisyHistogram(sigma=91.38...)'
        """
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
        """Return the heading and the rows of the table as text.

        Examples
        --------
        >>> plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10).columns()[0][:2]
        ('mechanism', 'teachers')
        """
        records = self.n_records is not None
        heading = (
            "mechanism",
            "teachers",
            *(("records each",) if records else ()),
            "sigma",
            f"gap for {self.right:.0%}",
            "(of 2 classes)",
            "lead",
            "answers",
            "epsilon",
        )
        body = [
            (
                row.name,
                str(row.n_teachers),
                *((str(row.records_per_teacher),) if records else ()),
                format_up(row.sigma),
                format_up(row.gap),
                format_up(row.gap_two_classes),
                f"{row.lead:.0%}",
                str(row.n_answers) if row.n_answers == row.n_queries else f"<= {row.n_answers}",
                format_up(row.guarantee.epsilon),
            )
            for row in self.rows
        ]
        return heading, body

    def advice(self) -> list[str]:
        """Return what speaks for each mechanism, and what the figures say, as sentences.

        Examples
        --------
        >>> plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10).advice()[0][:38]
        'histogram: Take it when in doubt. The '
        """
        lines = [] if self.records is None else self.records.lines()
        if not self.rows:
            return lines
        lines += [f"{name}: {ADVICE[name]}" for name in dict.fromkeys(row.name for row in self.rows)]
        sure = [row for row in self.rows if isinstance(row.mechanism, ConfidentGNMax)]
        if sure:
            m = sure[0].mechanism
            assert isinstance(m, ConfidentGNMax)
            lines.append(
                f"confident above: threshold at {CONFIDENT_SHARE:.0%} of the votes (a public choice that moves no "
                f"cost), noise {format_up(m.sigma_threshold)} on the test, at most {sure[0].n_answers} of "
                f"{sure[0].n_queries} answers; with another cap the noise is another."
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
        poor = [
            row for row in self.rows if row.records_per_teacher is not None and row.records_per_teacher < FEW_RECORDS
        ]
        if poor:
            lines.append(
                f"Some rows leave a teacher fewer than {FEW_RECORDS} records, with which few learn anything: ask "
                "fewer queries or spend more."
            )
        return lines

    def __str__(self) -> str:
        heading, body = self.columns()
        if not body:
            told = [] if self.recommendation is None else [self.recommendation.text()]
            return "\n".join([self.title, *told, *self.advice()])
        return "\n".join([self.title, *lined_up([heading, *body], right=True)])

    def __repr__(self) -> str:
        return f"Plan({self.title.removeprefix('Plan for ')!r})"

    def _repr_html_(self) -> str:
        heading, body = self.columns()
        told = [] if self.recommendation is None else [f"{k}: {v}" for k, v in self.recommendation.lines() if v]
        return cell("Plan", self.title.removeprefix("Plan "), heads=heading, rows=body, more=[*told, *self.advice()])

    @property
    def title(self) -> str:
        """One line: what was asked for."""
        records = "" if self.n_records is None else f", {self.n_records} records"
        voters = "record voters" if self.records is not None else "teachers on shards"
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
    """Return what a budget buys and what to do with it, before any private data is touched.

    Parameters
    ----------
    budget : Budget
    n_queries : int or None
        How many queries teachers would be asked; None leaves them out.
    n_classes : int
    n_records : int or None
        Number of private records (public under replace-one adjacency), for the records per teacher, and with
        ``n_public`` for record voters.
    n_public : int or None
        Number of public rows.
    X_public : rows or None
        The public rows themselves, in place of their number and kind: then the recommendation is, setting by setting,
        what ``pate label`` and :class:`pate.PATEClassifier` do with them.
    image_shape : tuple or None
        Of public rows that are flattened images.
    kind : {"table", "mixed", "image", "text"}
        Of the data, for record voters; see :func:`pate.studies._recommend.forecast`.
    commonest : float or None
        Share of the commonest class, where that is publicly known: what does no better is worth nothing.
    best : float or None
        Share of labels that a model without privacy would get right, as far as is publicly known: then shares of right
        labels are expected, not shares of that.
    n_teachers : int, sequence of int, or None
        None: as many as it takes where the first class leads by 90, 60 and 30% of the votes.
    max_answers : int or None
        Cap on answers of Confident; None: half of the queries.
    right : float
        Probability of a right answer on a query with the gap, in (0.5, 1).
    ledger : Ledger or None
        Plan for one release that also fits what is left there, in the currency that it counts in.
    words : mapping or None
        What to call files and classes in the command: ``public``, ``classes``, ``ledger``.

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
    >>> plan(Budget(1.0, 1e-5), n_classes=10, n_records=5_000, n_public=1_000).records.recipe.space
    'signed'
    >>> [row.name for row in rows], all(row.guarantee.epsilon <= 1 for row in rows)
    (['histogram', 'gnmax', 'confident'], True)
    """
    check_budget(budget)
    n_classes = check_int("n_classes", n_classes, low=2)
    words = {**(words or {}), "commonest": commonest}
    by_records = advice = None
    if X_public is not None or n_public is not None:
        if n_records is None:
            raise InvalidInputError("n_records must be given beside the public rows, got None.")
        if X_public is not None:
            n_public = int(X_public.shape[0]) if hasattr(X_public, "shape") else len(X_public)
        n_public = check_int("n_public", n_public, low=1)
        if n_public >= FEWEST_PUBLIC:
            facts: dict[str, Any] = {"n_records": n_records, "n_classes": n_classes, "ledger": ledger}
            by_records = (
                forecast(budget, n_public=n_public, kind=kind, **facts)
                if X_public is None
                else forecast_rows(budget, X_public, image_shape=image_shape, **facts)
            )
            advice = recommend_records(budget, by_records, commonest=commonest, best=best, words=words)
    elif n_queries is None:
        raise InvalidInputError(
            "n_public must be given for record voters, or n_queries for teachers on shards; got neither."
        )
    if n_records is not None:
        n_records = check_int("n_records", n_records, low=1)
    warn_if_weak(budget.delta, n_records, epsilon=budget.epsilon)
    rows: tuple[PlanRow, ...] = ()
    if n_queries is not None:
        rows = shard_rows(
            budget,
            n_queries,
            n_classes,
            n_records=n_records,
            n_teachers=n_teachers,
            max_answers=max_answers,
            right=right,
            ledger=ledger,
        )
    if advice is None:
        advice = recommend_shards(
            budget,
            n_queries=n_queries,
            n_classes=n_classes,
            n_records=n_records,
            n_public=n_public,
            n_teachers=rows[0].n_teachers if n_teachers is not None else None,
            words=words,
        )
    return Plan(budget, n_queries, n_classes, n_records, right, rows, by_records, advice)
