"""How sure a mean over repeats and test rows is: the one place that knows where its error comes from.

Values stand in a table of repeats by rows: whether a prediction was right, or the difference of two of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from pate.core.checks import check_int, check_real, shown
from pate.core.types import FloatArray, IndexArray, Mask
from pate.exceptions import InvalidInputError

#: Below it two repeats could agree by chance, and an interval would hang on the tail of one number's law.
LEAST_REPEATS = 3
#: As far as it is looked how many repeats a gap would need.
_MOST_REPEATS = 100
#: Where rows are redrawn, more repeats than so many do not lessen the corrected variance. Nadeau and Bengio's factor
#: takes it that two repeats correlate by the share of test rows; learners that hang on single rows (one nearest
#: neighbour, stumps) correlate by more, and only the term 1/J makes up for that (docs/comparison.md, measured).
_MOST_COUNTED = 5


@dataclass(frozen=True)
class Design:
    """Which test rows the repeats share, and at which level is spoken of how many looks.

    Attributes
    ----------
    same_rows : bool
        Whether all repeats have the same test rows, in the same order.
    test_share : float or None
        Where not: the share of all rows that a repeat draws as its test rows; the others are what it learns from.
    groups : array of shape (n_rows,), sequence of such arrays (one per repeat, where rows are redrawn), or None
        Whose row each test row is, where a person has several.
    level, looks
        Of confidence, of all looks together; and how many there are.
    """

    same_rows: bool
    test_share: float | None = None
    groups: Any = None
    level: float = 0.95
    looks: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.same_rows, bool):
            raise InvalidInputError(f"same_rows must be True or False, got {shown(self.same_rows)}.")
        if self.same_rows and self.test_share is not None:
            raise InvalidInputError(
                f"test_share must be None where all repeats have the same test rows, got {shown(self.test_share)}."
            )
        if not self.same_rows:
            if self.test_share is None:
                raise InvalidInputError(
                    "test_share must be given where every repeat draws its test rows anew (same_rows=False): the "
                    "number of test rows over the number of all rows, got None."
                )
            check_real("test_share", self.test_share, low=0, high=1, low_open=True, high_open=True)
        check_real(
            "level", self.level, low=0.5, high=1, high_open=True, remedy="The level of confidence, such as 0.95."
        )
        check_int("looks", self.looks, low=1, remedy="How many verdicts are spoken together.")


@dataclass(frozen=True)
class Spread:
    """A mean over repeats and rows, and the two parts of its error.

    Attributes
    ----------
    mean : float
    n_repeats, n_rows
        ``n_rows``: test rows of one repeat, the mean over them.
    of_repeats : float
        Variance over repeats, of one repeat's mean.
    of_rows : float
        Variance of the mean that is due to which rows are in the test (where they are redrawn: of one repeat's mean).
    df_rows : int
        Degrees of freedom of ``of_rows``.
    """

    mean: float
    n_repeats: int
    n_rows: float
    of_repeats: float
    of_rows: float
    df_rows: int

    def errors(self, design: Design, repeats: Any = None) -> tuple[Any, Any]:
        """Return both standard errors of the mean, over the repeats there are or over so many."""
        n = self.n_repeats if repeats is None else repeats
        share = design.test_share
        if share is None:
            return np.sqrt(self.of_repeats / n), np.sqrt(self.of_rows + 0.0 * n)
        # Nadeau and Bengio (2003), rho = share
        corrected = 1 / np.minimum(n, _MOST_COUNTED) + share / (1 - share)
        return np.sqrt(self.of_repeats * corrected), np.sqrt(self.of_rows * (1 / n + (1 - 1 / n) * share))

    def half_width(self, design: Design, repeats: Any = None) -> Any:
        """Return half the width of the interval, over the repeats there are or over so many.

        Same rows: both errors together (Banerjee 1960). Rows drawn anew: the error over repeats has that of rows in it
        already, and the wider of both is taken, as few repeats may agree by luck; beyond five, repeats lessen Student's
        quantile alone.
        """
        n = self.n_repeats if repeats is None else repeats
        tail = (1 - design.level) / design.looks / 2  # Bonferroni: holds whatever the looks have to do with one another
        of_repeats, of_rows = self.errors(design, n)
        both = _quantiles(tail, self.n_repeats)[n - 1] * of_repeats, _quantile(tail, self.df_rows) * of_rows
        return np.hypot(*both) if design.same_rows else np.maximum(*both)

    def repeats_needed(self, design: Design) -> int | None:
        """Return the least number of repeats that would tell a mean as large from zero, None where 100 would not."""
        if self.n_repeats < LEAST_REPEATS:
            return LEAST_REPEATS
        repeats = np.arange(LEAST_REPEATS, _MOST_REPEATS + 1)
        enough = repeats[self.half_width(design, repeats) < abs(self.mean)]
        return int(enough[0]) if len(enough) else None


@lru_cache(maxsize=256)
def _quantile(tail: float, df: int) -> float:
    return float(stats.t.isf(tail, df))


@lru_cache(maxsize=256)
def _quantiles(tail: float, n_repeats: int) -> FloatArray:
    """Return Student's t by degrees of freedom, from 0 on, for as many repeats as there are or are looked for."""
    return np.asarray(stats.t.isf(tail, np.maximum(np.arange(max(_MOST_REPEATS, n_repeats)), 1)))


def spread(values: Sequence[FloatArray], design: Design) -> Spread:
    """Return mean and errors of a table of repeats by rows.

    Notes
    -----
    Rows of one person are taken together (a sum has the variance of sums of independent persons); one row counts as
    wrong for either contestant more than it was (Agresti and Min 2005), so that no few rows look surer than they are.
    """
    owners = _owners(values, design)
    tables = [_by_owner(row, whose) for row, whose in zip(values, owners, strict=True)]
    means = np.array([table.mean() for table in tables])
    n_repeats, n_rows = len(values), float(np.mean([len(v) for v in values]))
    mean, over = float(means.mean()), float(means.var(ddof=1)) if n_repeats > 1 else math.nan
    one_more = 1 / n_rows**2
    if design.same_rows:
        table = np.stack(tables)
        rows = table.mean(axis=0)
        left = table - rows - (means - mean)[:, None]
        both = float((left**2).sum()) / (max(n_repeats - 1, 1) * (len(rows) - 1))  # what comes and goes row by row
        of_rows = float(rows.var(ddof=1)) / len(rows) + one_more
        # Repeats that agree by luck: chance within rows makes them differ by so much.
        over = over if n_repeats < 2 else max(over, both / len(rows))
        return Spread(mean, n_repeats, n_rows, over, of_rows, len(rows) - 1)
    of_rows = float(np.mean([t.var(ddof=1) / len(t) for t in tables])) + one_more
    return Spread(mean, n_repeats, n_rows, over, of_rows, sum(len(t) for t in tables) - n_repeats)


def _by_owner(row: FloatArray, whose: IndexArray | None) -> FloatArray:
    """Return a value per person whose plain mean and variance are those of the mean over rows."""
    if whose is None:
        return row
    mean, n = float(row.mean()), int(whose.max()) + 1
    return mean + np.bincount(whose, row - mean, n) * n / len(row)


def _owners(values: Sequence[FloatArray], design: Design) -> list[IndexArray | None]:
    if design.groups is None:
        return [None] * len(values)
    given = [design.groups] * len(values) if design.same_rows else list(design.groups)
    owners = [np.unique(np.asarray(g), return_inverse=True)[1] for g in given]
    if [len(o) for o in owners] != [len(v) for v in values]:
        raise InvalidInputError(
            "groups must say whose row each test row is: one array where all repeats have the same rows, else one for "
            f"each repeat; got {[len(o) for o in owners]} for repeats of {[len(v) for v in values]} rows."
        )
    if any(len(o) and o.max() < 1 for o in owners):
        raise InvalidInputError("groups must hold at least two persons in every repeat, got one.")
    return [np.asarray(o, dtype=np.intp) for o in owners]


def check_rights(name: str, rights: Any, design: Design) -> list[Mask]:
    """Return what was right as one boolean array per repeat."""
    try:
        arrays = [np.asarray(right) for right in rights]
    except (TypeError, ValueError):
        arrays = []
    if not arrays or any(a.ndim != 1 or a.dtype != bool or len(a) < 2 for a in arrays):
        told = [f"{a.dtype} {a.shape}" for a in arrays[:3]] or shown(rights)
        raise InvalidInputError(
            f"{name} must hold one boolean array of at least 2 test rows per repeat, got {told}. "
            "Pass [model.predict(X_test) == y_test, ...]."
        )
    if design.same_rows and len({len(a) for a in arrays}) > 1:
        raise InvalidInputError(
            f"{name} must have as many test rows in every repeat where they are the same rows, got "
            f"{[len(a) for a in arrays]}. Say same_rows=False where every repeat draws them anew."
        )
    return arrays
