"""What a budget buys, by records or by teachers, before any private data is touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from scipy.special import ndtri

from pate.core.checks import check_int, check_real
from pate.core.pages import cell
from pate.core.tables import lined_up
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import ConfidentGNMax, GNMax, Mechanism, NoisyHistogram
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.calibrate import calibrate
from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee
from pate.studies._forecast import RecordsForecast, forecast

#: By what share of the votes the first class may lead the second on a query one cares about: 0.9 is 95 to 5 of 100.
LEADS: tuple[float, ...] = (0.9, 0.6, 0.3)
#: The 2018 paper's proportions on MNIST: 150 : 40 of the two noises, threshold at 200 of 250 votes.
_CONFIDENT_RATIO, _CONFIDENT_SHARE = 150 / 40, 0.8
#: Shards smaller than this seldom teach anything; the text then says so.
_FEW_RECORDS = 50

_ADVICE = {
    "histogram": (
        "Take it when in doubt. The noisy counts are published, so abstaining on a small noisy lead "
        "(release.decide(gap=...) or --gap), class offsets and soft labels are free and can be tuned afterwards. "
        "Abstaining where the noisy lead is below the gap of the table lets out a label that is not the teachers' "
        "choice with no more than the small probability stated there, per query, whatever the votes are; on the "
        "2018 MNIST votes a gap of 0.7 sigma gave the most answers with 95% of them right "
        "(experiments/mechanism_table.py: 88 at epsilon 1, against 84 by confident and 58 by gnmax)."
    ),
    "gnmax": (
        "Cheaper than the histogram per answer, since only the winner is published, but it answers every query, also "
        "those on which the teachers disagree. Take it when nearly all queries are easy, or all need an answer."
    ),
    "confident": (
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

    Examples
    --------
    >>> needed_gap(40.0).__round__(1), needed_gap(40.0, n_classes=10).__round__(1)
    (131.6, 173.0)
    """
    sigma = check_real("sigma", sigma, low=0, low_open=True)
    rivals = check_int("n_classes", n_classes, low=2) - 1
    right = check_real("right", right, low=0.5, high=1, low_open=True, high_open=True)
    return -sigma * math.sqrt(2) * float(ndtri((1 - right) / rivals))


@dataclass(frozen=True)
class PlanRow:
    """One choice: a mechanism calibrated to the budget, and a number of teachers.

    Attributes
    ----------
    name : {"histogram", "gnmax", "confident"}
    mechanism : Mechanism
    n_teachers : int
    n_queries, n_answers : int
        Asked, and answered at most.
    gap, gap_two_classes : float
        Votes of lead for a right answer, over all classes (union bound) and between two (exact).
    lead : float
        The gap as a share of the teachers; above 1 no answer can be that sure.
    records_per_teacher : int or None
    guarantee : Guarantee
        Public.

    Examples
    --------
    >>> row = plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10).rows[0]
    >>> row.name, row.n_teachers, round(row.gap / row.n_teachers, 2)
    ('histogram', 440, 0.9)
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

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values.

        Examples
        --------
        >>> plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10).rows[0].to_dict()["n_teachers"]
        440
        """
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {"mechanism": str(self.mechanism), "guarantee": self.guarantee.to_dict()}


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
        lines += [f"{name}: {_ADVICE[name]}" for name in dict.fromkeys(row.name for row in self.rows)]
        sure = [row for row in self.rows if isinstance(row.mechanism, ConfidentGNMax)]
        if sure:
            m = sure[0].mechanism
            assert isinstance(m, ConfidentGNMax)
            lines.append(
                f"confident above: threshold at {_CONFIDENT_SHARE:.0%} of the votes (a public choice that moves no "
                f"cost), noise {format_up(m.sigma_threshold)} on the test, at most {sure[0].n_answers} of "
                f"{sure[0].n_queries} answers; with another cap the noise is another."
            )
        lines.append(
            "Noise depends on queries and budget, not on teachers: more teachers make the same gap a smaller share of "
            "the votes, fewer queries make the gap smaller, and each teacher must still have enough records to learn."
        )
        if any(row.lead > 1 for row in self.rows):
            lines.append("A lead above 100% cannot be had: take more teachers or ask fewer queries.")
        poor = [
            row for row in self.rows if row.records_per_teacher is not None and row.records_per_teacher < _FEW_RECORDS
        ]
        if poor:
            lines.append(
                f"Some rows leave a teacher fewer than {_FEW_RECORDS} records, with which few learn anything: ask "
                "fewer queries or spend more."
            )
        return lines

    def __str__(self) -> str:
        heading, body = self.columns()
        if not body:
            return "\n".join([self.title, *self.advice()])
        return "\n".join([self.title, *lined_up([heading, *body], right=True)])

    def __repr__(self) -> str:
        return f"Plan({self.title.removeprefix('Plan for ')!r})"

    def _repr_html_(self) -> str:
        heading, body = self.columns()
        return cell("Plan", self.title, heads=heading, rows=body, more=self.advice())

    @property
    def title(self) -> str:
        """One line: what was asked for."""
        records = "" if self.n_records is None else f", {self.n_records} records"
        asked = "record voters" if self.n_queries is None else f"{self.n_queries} queries"
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
    kind: str = "table",
    n_teachers: int | Sequence[int] | None = None,
    max_answers: int | None = None,
    right: float = 0.99,
    ledger: Ledger | None = None,
) -> Plan:
    """Return what a budget buys by each mechanism, before any private data is touched.

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
    kind : {"table", "mixed", "image", "text"}
        Of the data, for record voters; see :func:`pate.studies._forecast.forecast`.
    n_teachers : int, sequence of int, or None
        None: as many as it takes where the first class leads by 90, 60 and 30% of the votes.
    max_answers : int or None
        Cap on answers of Confident; None: half of the queries.
    right : float
        Probability of a right answer on a query with the gap, in (0.5, 1).
    ledger : Ledger or None
        Plan for one release that also fits what is left there, in the currency that it counts in.

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
    by_records = None
    if n_public is not None:
        if n_records is None:
            raise InvalidInputError("n_records must be given beside n_public (--records beside --public), got None.")
        by_records = forecast(
            budget, n_records=n_records, n_public=n_public, n_classes=n_classes, kind=kind, ledger=ledger
        )
    if n_queries is None:
        if by_records is None:
            raise InvalidInputError(
                "n_public must be given for record voters (--records and --public), or n_queries for teachers on "
                "shards (--queries); got neither."
            )
        return Plan(budget, None, n_classes, n_records, right, (), by_records)
    n_queries = check_int("n_queries", n_queries, low=1)
    n_classes = check_int("n_classes", n_classes, low=2)
    if n_records is not None:
        n_records = check_int("n_records", n_records, low=1)
    cap = (
        max(1, n_queries // 2) if max_answers is None else check_int("max_answers", max_answers, low=1, high=n_queries)
    )
    chosen: tuple[int, ...] | None = None
    if n_teachers is not None:
        several = (n_teachers,) if isinstance(n_teachers, int) else tuple(n_teachers)
        chosen = tuple(check_int("n_teachers", k, low=1) for k in several)
        if n_records is not None and any(k > n_records for k in chosen):
            raise InvalidInputError(f"n_teachers must be at most the {n_records} records. Every teacher needs some.")
    shapes: dict[str, tuple[Mechanism, int]] = {
        "histogram": (NoisyHistogram(sigma=1.0), n_queries),
        "gnmax": (GNMax(sigma=1.0), n_queries),
        "confident": (ConfidentGNMax(threshold=1.0, sigma_threshold=_CONFIDENT_RATIO, sigma=1.0), cap),
    }
    left = None if ledger is None else ledger.remaining(default_total=budget)
    rows = []
    for name, (shape, answers) in shapes.items():
        noisy = calibrate(shape, budget, n_queries=n_queries, max_answers=answers, left=left)
        guarantee = noisy.charge(n_queries, answers).guarantee(budget.delta)
        sigma = float(noisy.sigma)  # type: ignore[attr-defined]
        gap = needed_gap(sigma, n_classes=n_classes, right=right)
        two = needed_gap(sigma, right=right)
        for k in chosen or dict.fromkeys(math.ceil(gap / lead) for lead in LEADS):
            mechanism: Mechanism = noisy
            if isinstance(noisy, ConfidentGNMax):
                # The threshold is free: it is a public number and moves no cost.
                threshold = float(round(_CONFIDENT_SHARE * k))
                mechanism = ConfidentGNMax(threshold, noisy.sigma_threshold, noisy.sigma)
            each = None if n_records is None else n_records // k
            rows.append(PlanRow(name, mechanism, k, n_queries, answers, gap, two, gap / k, each, guarantee))
    return Plan(budget, n_queries, n_classes, n_records, right, tuple(rows), by_records)
