"""Teachers on shards within a budget: what each mechanism would need of them, from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from scipy.special import ndtri

from pate.core.checks import check_int, check_real
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import ConfidentGNMax, GNMax, Mechanism, NoisyHistogram
from pate.privacy.attacker import largest_success
from pate.privacy.budget import Budget
from pate.privacy.compose.calibrate import calibrate
from pate.privacy.words import Guarantee
from pate.statement.people import of_hundred

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
        mu = math.sqrt(self.mechanism.charge(self.n_queries, self.n_answers).mu_squared)
        return of_hundred(largest_success(self.guarantee.epsilon, self.guarantee.delta, mu=mu))

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {
            "mechanism": str(self.mechanism),
            "guarantee": self.guarantee.to_dict(),
            "attacker": self.attacker,
        }


def shard_rows(
    budget: Budget,
    n_queries: int,
    n_classes: int,
    *,
    n_records: int | None,
    n_teachers: int | Sequence[int] | None,
    max_answers: int | None,
    right: float,
    ledger: Ledger | None,
) -> tuple[PlanRow, ...]:
    """Return every mechanism, calibrated to the budget, for every number of teachers; see :func:`pate.plan`."""
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
                threshold = float(round(CONFIDENT_SHARE * k))
                mechanism = ConfidentGNMax(threshold, noisy.sigma_threshold, noisy.sigma)
            each = None if n_records is None else n_records // k
            rows.append(PlanRow(name, mechanism, k, n_queries, answers, gap, two, gap / k, each, guarantee))
    return tuple(rows)
