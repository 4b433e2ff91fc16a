"""Accuracy differences paired by repeat and by test row, with intervals that hold for all comparisons together.

Sources of error of an accuracy, and how each is estimated:

- **repeats**: split, partition, noise and training are drawn again; a paired t over repeats (Dietterich 1998;
  Bouthillier et al. 2021, who ask for all of these sources);
- **test rows**: another test set would give another difference; the variance of what each row says on average over
  repeats, which for one repeat is McNemar's (1947);
- **repeats that share rows**: where no test set was published each repeat draws one from the same rows; the corrected
  resampled t, factor 1/J + n_test/n_train (Nadeau and Bengio 2003), in which J counts as five at most.

With a published test set the first two are put together as ``sqrt(t1^2 v1 + t2^2 v2)`` (Banerjee 1960). For normal
errors its level is proven, whatever the true variances: given both estimates the chance of being right is the law of
chi-squared with one degree of freedom at a weighted mean of ``t1^2 u1`` and ``t2^2 u2``; that law is concave, and at
each of the two alone its expectation is the level. (Welch and Satterthwaite's degrees of freedom, estimated from three
repeats, approximate worst in the far tails, which many comparisons need.) Where test rows are drawn again the
corrected t has the error of rows in it; as few repeats may agree by luck, the interval is never narrower than rows
alone make it. Several comparisons are corrected by Bonferroni.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy import stats

from pate._core.checks import check_int, check_real, shown
from pate._core.moved import former_attribute, takes_former_names
from pate._core.types import FloatArray, IndexArray, Mask
from pate.exceptions import InvalidInputError
from pate.report.scores import ACCURACY, Score

__all__ = ["LEAST_REPEATS", "Band", "PairedDifference", "band", "paired_bands", "paired_difference", "r2_by_row"]


# The error of a mean over repeats and test rows.

#: With fewer, repeats may agree by chance, and an interval would depend on the tail of one number's law.
LEAST_REPEATS = 3
#: The most repeats tried when computing how many a gap would need.
_MOST_REPEATS = 100
#: Where rows are redrawn, more repeats than so many do not lessen the corrected variance. Nadeau and Bengio's factor
#: takes it that two repeats correlate by the share of test rows; learners that depend on single rows (one nearest
#: neighbour, stumps) correlate by more, and only the term 1/J makes up for that (docs/comparison-statistics.md).
_MOST_COUNTED = 5


@dataclass(frozen=True)
class Design:
    """Which test rows the repeats share, the level of confidence, and how many comparisons hold together."""

    same_rows: bool  # whether all repeats have the same test rows, in the same order
    #: Where not: the share of all rows that a repeat draws as its test rows; the others are what it learns from.
    test_share: float | None = None
    #: The owner of each test row, where a person has several; one array per repeat where rows are redrawn.
    groups: Any = None
    level: float = 0.95  # of confidence, of all comparisons together
    n_comparisons: int = 1
    score: Score = ACCURACY

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
                    "test_share must be given where every repeat draws its test rows again (same_rows=False): the "
                    "number of test rows over the number of all rows, got None."
                )
            check_real("test_share", self.test_share, low=0, high=1, low_open=True, high_open=True)
        check_real(
            "level", self.level, low=0.5, high=1, high_open=True, remedy="The level of confidence, such as 0.95."
        )
        check_int("n_comparisons", self.n_comparisons, low=1, remedy="How many intervals hold together.")


@dataclass(frozen=True)
class Spread:
    """A mean over repeats and rows, and the two parts of its error."""

    mean: float
    n_repeats: int
    n_rows: float  # test rows of one repeat, the mean over them
    of_repeats: float  # variance over repeats, of one repeat's mean
    #: Variance of the mean that is due to which rows are in the test (where they are redrawn: of one repeat's
    #: mean).
    of_rows: float
    df_rows: int  # degrees of freedom of ``of_rows``

    def errors(self, design: Design, repeats: Any = None) -> tuple[Any, Any]:
        """Return both standard errors of the mean, for the given number of repeats or ``repeats``."""
        n = self.n_repeats if repeats is None else repeats
        share = design.test_share
        if share is None:
            return np.sqrt(self.of_repeats / n), np.sqrt(self.of_rows + 0.0 * n)
        # Nadeau and Bengio (2003), rho = share
        corrected = 1 / np.minimum(n, _MOST_COUNTED) + share / (1 - share)
        return np.sqrt(self.of_repeats * corrected), np.sqrt(self.of_rows * (1 / n + (1 - 1 / n) * share))

    def half_width(self, design: Design, repeats: Any = None) -> Any:
        """Return half the width of the interval, for the given number of repeats or ``repeats``.

        Same rows: both errors together (Banerjee 1960). Rows drawn again: the error over repeats has that of rows in it
        already, and the wider of both is taken, as few repeats may agree by luck; beyond five, repeats lessen Student's
        quantile alone.
        """
        n = self.n_repeats if repeats is None else repeats
        tail = (
            (1 - design.level) / design.n_comparisons / 2
        )  # Bonferroni: holds however the comparisons depend on each other
        of_repeats, of_rows = self.errors(design, n)
        both = _quantiles(tail, self.n_repeats)[n - 1] * of_repeats, float(stats.t.isf(tail, self.df_rows)) * of_rows
        return np.hypot(*both) if design.same_rows else np.maximum(*both)

    def repeats_needed(self, design: Design) -> int | None:
        """Return the least number of repeats that would decide such a mean; None where 100 would not."""
        if self.n_repeats < LEAST_REPEATS:
            return LEAST_REPEATS
        repeats = np.arange(LEAST_REPEATS, _MOST_REPEATS + 1)
        enough = repeats[self.half_width(design, repeats) < abs(self.mean)]
        return int(enough[0]) if len(enough) else None


@lru_cache(maxsize=256)
def _quantiles(tail: float, n_repeats: int) -> FloatArray:
    """Return Student's t by degrees of freedom, from 0 on, up to the greatest number of repeats that is needed."""
    return np.asarray(stats.t.isf(tail, np.maximum(np.arange(max(_MOST_REPEATS, n_repeats)), 1)))


def spread(values: Sequence[FloatArray], design: Design) -> Spread:
    """Return mean and errors of a table of repeats by rows.

    Rows of one person are taken together (a sum has the variance of sums of independent persons); of right and wrong,
    one row counts as wrong for either contestant more than it was (Agresti and Min 2005), lest few rows give too narrow
    intervals.
    """
    owners = _owners(values, design)
    tables = [_by_owner(row, owner_of) for row, owner_of in zip(values, owners, strict=True)]
    means = np.array([table.mean() for table in tables])
    n_repeats, n_rows = len(values), float(np.mean([len(v) for v in values]))
    mean, over = float(means.mean()), float(means.var(ddof=1)) if n_repeats > 1 else math.nan
    one_more = 1 / n_rows**2 if design.score.kind == "b" else 0.0
    if design.same_rows:
        table = np.stack(tables)
        rows = table.mean(axis=0)
        left = table - rows - (means - mean)[:, None]
        both = float((left**2).sum()) / (
            max(n_repeats - 1, 1) * (len(rows) - 1)
        )  # disagreements on a row that vary by repeat
        of_rows = float(rows.var(ddof=1)) / len(rows) + one_more
        # Repeats that agree by luck: chance within rows makes them differ by so much.
        over = over if n_repeats < 2 else max(over, both / len(rows))
        return Spread(mean, n_repeats, n_rows, over, of_rows, len(rows) - 1)
    of_rows = float(np.mean([t.var(ddof=1) / len(t) for t in tables])) + one_more
    return Spread(mean, n_repeats, n_rows, over, of_rows, sum(len(t) for t in tables) - n_repeats)


def _by_owner(row: FloatArray, owner_of: IndexArray | None) -> FloatArray:
    """Return a value per person whose plain mean and variance are those of the mean over rows."""
    if owner_of is None:
        return row
    mean, n = float(row.mean()), int(owner_of.max()) + 1
    return mean + np.bincount(owner_of, row - mean, n) * n / len(row)


def _owners(values: Sequence[FloatArray], design: Design) -> list[IndexArray | None]:
    if design.groups is None:
        return [None] * len(values)
    given = [design.groups] * len(values) if design.same_rows else list(design.groups)
    owners = [np.unique(np.asarray(g), return_inverse=True)[1] for g in given]
    if [len(o) for o in owners] != [len(v) for v in values]:
        raise InvalidInputError(
            "groups must name the owner of each test row: one array where all repeats have the same rows, else one for "
            f"each repeat; got {[len(o) for o in owners]} for repeats of {[len(v) for v in values]} rows."
        )
    if any(len(o) and o.max() < 1 for o in owners):
        raise InvalidInputError("groups must hold at least two persons in every repeat, got one.")
    return [np.asarray(o, dtype=np.intp) for o in owners]


def check_rights(name: str, rights: Any, design: Design) -> list[Mask] | list[FloatArray]:
    """Return what each row says as one array per repeat: of booleans (right or not), or of numbers."""
    kind = design.score.kind
    try:
        arrays = [np.asarray(right) for right in rights]
    except (TypeError, ValueError):
        arrays = []
    if not arrays or any(a.ndim != 1 or a.dtype.kind != kind or len(a) < 2 for a in arrays):
        text = [f"{a.dtype} {a.shape}" for a in arrays[:3]] or shown(rights)
        what, remedy = {
            "b": ("boolean", "[model.predict(X_test) == y_test, ...]"),
            "f": ("float", "[r2_by_row(y_test, model.predict(X_test)), ...]"),
        }[kind]
        raise InvalidInputError(
            f"{name} must hold one {what} array of at least 2 test rows per repeat, got {text}. Pass {remedy}."
        )
    if not all(np.isfinite(a).all() for a in arrays):
        raise InvalidInputError(f"{name} must hold finite numbers. Leave out fits that predict none.")
    if design.same_rows and len({len(a) for a in arrays}) > 1:
        raise InvalidInputError(
            f"{name} must have as many test rows in every repeat where they are the same rows, got "
            f"{[len(a) for a in arrays]}. Pass same_rows=False where every repeat draws them again."
        )
    return arrays


Word = Literal["ahead", "behind", "undecided"]


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """The accuracy (or R2) of one contestant less that of another, and how sure that is.

    Attributes
    ----------
    mean : float
        Mean over repeats, in shares of one (0.02 is two points).
    low, high : float or None
        Interval at ``level`` for all ``n_comparisons`` together; None below :data:`LEAST_REPEATS` repeats.
    n_repeats : int
    n_rows : float
        Test rows of one repeat.
    level : float
    n_comparisons : int
    se_repeats : float or None
        Standard error from repeats (corrected where they share rows); None for one repeat.
    se_rows : float
        Standard error from the test rows.
    df : int
        Degrees of freedom of ``se_repeats``.
    repeats_needed : int or None
        The least number of repeats that would show such a mean, with such a spread, to differ from zero; None where
        100 would not: then the test rows are too few, or the gap is too small.
    score : Score
        What is compared.
    """

    mean: float
    low: float | None
    high: float | None
    n_repeats: int
    n_rows: float  # test rows of one repeat, the mean over them
    level: float
    n_comparisons: int
    se_repeats: float | None
    se_rows: float
    df: int
    repeats_needed: int | None
    score: Score = ACCURACY

    @property
    def verdict(self) -> Word:
        """``ahead`` where the whole interval is above zero, ``behind`` where it is below, else ``undecided``."""
        if self.low is None or self.high is None:
            return "undecided"
        return "ahead" if self.low > 0 else "behind" if self.high < 0 else "undecided"

    looks = former_attribute("looks", "n_comparisons")

    def reversed(self) -> PairedDifference:
        """Return the difference of the second contestant less the first."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return PairedDifference(**{**self.__dict__, "mean": -self.mean, "low": low, "high": high})

    def __str__(self) -> str:
        mean = self.score.gap(self.mean).replace("−", "-")
        if self.low is None or self.high is None:
            return f"{mean}, {self.verdict}: needs {LEAST_REPEATS} repeats, has {self.n_repeats}"
        low, high = (self.score.gap(end, unit=False).replace("−", "-") for end in (self.low, self.high))
        text = f"{mean} ({low} to {high}), {self.verdict}"
        if self.verdict != "undecided":
            return text
        needs = self.repeats_needed
        return text + (": 100 repeats would not do" if needs is None else f": would need about {needs} repeats")


@dataclass(frozen=True, kw_only=True)
class Band:
    """An accuracy or R2 and an interval around it, for the picture."""

    mean: float  # mean score over repeats, in shares of one
    low: float | None  # None below :data:`LEAST_REPEATS` repeats
    high: float | None
    level: float
    n_comparisons: int  # how many intervals hold together at that level
    #: Whether it is drawn to be compared with the other bands (see :func:`paired_bands`), not to say how well the
    #: contestant would do elsewhere.
    paired: bool

    looks = former_attribute("looks", "n_comparisons")


@takes_former_names(looks="n_comparisons")
def paired_difference(
    a: Sequence[Any],
    b: Sequence[Any],
    *,
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    n_comparisons: int = 1,
    score: Score = ACCURACY,
) -> PairedDifference:
    """Return how much more accurate the first contestant is than the second, with a confidence interval.

    Parameters
    ----------
    a, b : sequences of boolean arrays of shape (n_rows,), one per repeat
        Whether each test row was predicted rightly; of R2 what :func:`r2_by_row` gives. Repeat by repeat both have the
        same rows, in the same order.
    same_rows : bool
        Whether all repeats have the same test rows, in the same order (a published test set).
    test_share : float or None
        Where every repeat draws test rows again from the same rows: the share that it draws. The others are what is
        learnt from, public ones included.
    groups : array of shape (n_rows,), sequence of such arrays (one per repeat, where rows are redrawn), or None
        The owner of each test row, where one person has several: those are not independent.
    level : float
        Of the interval.
    n_comparisons : int
        How many differences are compared together; all intervals hold together at the level (Bonferroni).
    score : Score
        ``ACCURACY`` or ``R2`` of :mod:`pate.report.scores`.

    Returns
    -------
    PairedDifference

    Raises
    ------
    InvalidInputError
        Arrays that are no booleans (of R2: no finite numbers), or that do not meet row by row; a share that is missing
        or makes no sense.

    Notes
    -----
    **What is claimed.** Without test rows of its own (``same_rows=False``) the difference is that of the two methods
    on rows like these. With a published test set, which has one training part, it is that of the methods as trained on
    draws of *this* training part and tested on rows like the test rows.

    **Sources.** The module's docstring. With a published test set, disagreements on a row that come and go with the
    repeat are in both errors, and so counted twice, on the safe side (as by Owen's pigeonhole bootstrap, 2007).
    Nadeau and Bengio's factor rests on an approximation of theirs: that two repeats correlate by the share of test
    rows. Those of unstable learners correlate by more, which shows once 1/J is small: J counts as five at most, so that
    more repeats lessen Student's quantile alone. Its error rates in simulations are in docs/comparison-statistics.md.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(7)
    >>> hard = rng.random(
    ...     1000
    ... )  # one published test set; a is right where b is, and on half of what b misses
    >>> b = [hard + 0.05 * rng.standard_normal(1000) < 0.8 for repeat in range(5)]
    >>> a = [hard + 0.05 * rng.standard_normal(1000) < 0.9 for repeat in range(5)]
    >>> print(paired_difference(a, b, same_rows=True))
    +9.3 points (+7.7 to +10.9), ahead
    >>> print(paired_difference(a[:1], b[:1], same_rows=True))
    +8.7 points, undecided: needs 3 repeats, has 1
    """
    return difference_of(a, b, Design(same_rows, test_share, groups, level, n_comparisons, score))


def difference_of(
    a: Sequence[Any], b: Sequence[Any], design: Design, names: tuple[str, str] = ("a", "b")
) -> PairedDifference:
    """Return what :func:`paired_difference` does, from a design that is checked."""
    rights = [check_rights(name, rights, design) for name, rights in zip(names, (a, b), strict=True)]
    lengths = [[len(right) for right in one] for one in rights]
    if lengths[0] != lengths[1]:
        raise InvalidInputError(
            f"{names[0]} and {names[1]} must have the same repeats and test rows, got {lengths[0]} and {lengths[1]} "
            "rows. Leave out the repeats that one of them has not."
        )
    values = [one.astype(np.float64) - other for one, other in zip(*rights, strict=True)]
    found = spread(values, design)
    low, high = _interval(found, -design.score.widest, design.score.widest, design)
    of_repeats, of_rows = found.errors(design)
    return PairedDifference(
        mean=found.mean,
        low=low,
        high=high,
        n_repeats=found.n_repeats,
        n_rows=found.n_rows,
        level=design.level,
        n_comparisons=design.n_comparisons,
        se_repeats=None if found.n_repeats < 2 else float(of_repeats),
        se_rows=float(of_rows),
        df=found.n_repeats - 1,
        repeats_needed=found.repeats_needed(design),
        score=design.score,
    )


@takes_former_names(looks="n_comparisons")
def band(
    rights: Sequence[Any],
    *,
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    n_comparisons: int = 1,
    score: Score = ACCURACY,
) -> Band:
    """Return one contestant's accuracy with an interval over other draws and other test rows.

    Parameters
    ----------
    rights : sequence of boolean arrays of shape (n_rows,), one per repeat
    same_rows, test_share, groups, level, n_comparisons, score
        As in :func:`paired_difference`.

    Returns
    -------
    Band

    Raises
    ------
    InvalidInputError
        As in :func:`paired_difference`.

    Notes
    -----
    Two such bands may overlap although one contestant is surely ahead: what all have in common in a repeat, and on a
    row, is in both. See :func:`paired_bands`.

    Examples
    --------
    >>> found = band([[True] * 90 + [False] * 10] * 3, same_rows=True)
    >>> found.mean, round(found.low, 2), round(found.high, 2)
    (0.9, 0.84, 0.96)
    """
    design = Design(same_rows, test_share, groups, level, n_comparisons, score)
    found = spread([right.astype(np.float64) for right in check_rights("rights", rights, design)], design)
    low, high = _interval(found, score.least, 1.0, design)
    return Band(mean=found.mean, low=low, high=high, level=level, n_comparisons=n_comparisons, paired=False)


def paired_bands(
    means: Mapping[str, float], differences: Mapping[tuple[str, str], PairedDifference]
) -> dict[str, Band]:
    """Return bands of several contestants at one epsilon that can be compared with each other.

    Where two bands do not overlap, one contestant is ahead by :func:`paired_difference`, at the level and number of
    comparisons of the differences. Of two contestants the bands overlap exactly where the difference is undecided; of
    more, they may overlap where it is decided.

    Parameters
    ----------
    means : mapping of name to float
        Accuracies. Contestants far from the others (the commonest class, say) widen every band: leave them out.
    differences : mapping of pairs of names to PairedDifference
        Each pair once, either way round.

    Returns
    -------
    dict of name to Band
        Without ends where there are too few repeats, or no other contestant.

    Raises
    ------
    InvalidInputError
        A pair is missing.

    Notes
    -----
    Half of a band is the greatest of the halves that a contestant's differences have to give (h_a = max over b of
    w_ab / 2, hence h_a + h_b >= w_ab), the construction of Gabriel (1978) and Hochberg, Weiss and Hart (1982). Bands
    that take out each repeat's mean (Cousineau 2005, Morey 2008) do the same for two, but not for several whose
    differences spread unequally.

    Examples
    --------
    >>> one, other = [[True] * 90 + [False] * 10] * 3, [[True] * 80 + [False] * 20] * 3
    >>> difference = paired_difference(one, other, same_rows=True)
    >>> bands = paired_bands({"A": 0.9, "B": 0.8}, {("A", "B"): difference})
    >>> difference.verdict, bands["A"].low > bands["B"].high
    ('ahead', True)
    """
    halves: dict[str, list[float | None]] = {name: [] for name in means}
    of = None
    for a, b in combinations(means, 2):
        of = differences.get((a, b)) or differences.get((b, a))
        if of is None:
            raise InvalidInputError(f"differences must hold every pair of contestants, and ({a!r}, {b!r}) is missing.")
        half = None if of.low is None or of.high is None else max(of.high - of.mean, of.mean - of.low) / 2
        halves[a].append(half)
        halves[b].append(half)
    found = {}
    level, n_comparisons = (of.level, of.n_comparisons) if of is not None else (0.95, 1)
    for name, mean in means.items():
        known = [half for half in halves[name] if half is not None]
        ends = (None, None) if not known or len(known) < len(halves[name]) else (mean - max(known), mean + max(known))
        found[name] = Band(mean=mean, low=ends[0], high=ends[1], level=level, n_comparisons=n_comparisons, paired=True)
    return found


def _interval(found: Spread, least: float, most: float, design: Design) -> tuple[float | None, float | None]:
    if found.n_repeats < LEAST_REPEATS:
        return None, None
    half = float(found.half_width(design))
    return max(found.mean - half, least), min(found.mean + half, most)


def accuracy(rights: Sequence[Any]) -> float:
    """Return the mean accuracy (or R2) over repeats."""
    return float(np.mean([np.mean(right) for right in rights]))


def r2_by_row(y: Any, predicted: Any) -> FloatArray:
    """Return a value for each test row whose mean is R2, and whose variance gives the error of that mean.

    R2 is one less a ratio of two means over rows, the squared error (e) over the squared distance from the rows' mean
    (s). The delta method takes such a ratio for a mean of linear values: R2 + (1 - R2) s / S - e / S, where S is the
    mean of s. So a difference of two contestants is one of means over rows, paired as accuracies are.

    Parameters
    ----------
    y, predicted : arrays of shape (n_rows,)
        Finite numbers; those of ``y`` are not all the same.

    Returns
    -------
    float64 array of shape (n_rows,)

    References
    ----------
    Cochran (1977), Sampling Techniques, section 6.3 (the variance of a ratio).

    Examples
    --------
    >>> from sklearn.metrics import r2_score
    >>> y, predicted = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.5, 2.0, 2.0, 5.0])
    >>> bool(np.isclose(r2_by_row(y, predicted).mean(), r2_score(y, predicted)))
    True
    """
    y, predicted = np.asarray(y, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    away, missed = np.square(y - y.mean()), np.square(y - predicted)
    r2 = 1 - missed.mean() / away.mean()
    return np.asarray(r2 + ((1 - r2) * away - missed) / away.mean(), dtype=np.float64)
