"""Differences that are paired by repeat and by test row, with intervals that hold for all looks together.

Where the error of an accuracy comes from, and what stands for it here:

- **repeats**: split, partition, noise and training are drawn anew; a paired t over repeats (Dietterich 1998;
  Bouthillier et al. 2021, who ask for all of these sources);
- **test rows**: another test set would give another difference; the variance of what each row says on average over
  repeats, which for one repeat is McNemar's (1947);
- **repeats that share rows**: where no test set was published each repeat draws one from the same rows; the corrected
  resampled t, factor 1/J + n_test/n_train (Nadeau and Bengio 2003), in which J counts as five at most.

With a published test set the first two are put together as ``sqrt(t1^2 v1 + t2^2 v2)`` (Banerjee 1960). For normal
errors its level is proven, whatever the true variances: given both estimates the chance of being right is the law of
chi-squared with one degree of freedom at a weighted mean of ``t1^2 u1`` and ``t2^2 u2``; that law is concave, and at
each of the two alone its expectation is the level. (Welch and Satterthwaite's degrees of freedom, estimated from three
repeats, are an approximation that is worst in the far tails, which many looks need.) Where test rows are drawn anew the
corrected t has the error of rows in it; as few repeats may agree by luck, the interval is never narrower than rows
alone make it. Looks are corrected by Bonferroni.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pate.comparison._spread import LEAST_REPEATS, Design, Spread, check_rights, spread
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError

__all__ = ["LEAST_REPEATS", "Band", "PairedDifference", "band", "paired_bands", "paired_difference"]

Word = Literal["ahead", "behind", "undecided"]


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """The accuracy of one contestant less that of another, and how sure that is.

    Attributes
    ----------
    mean : float
        Mean over repeats, in shares of one (0.02 is two points).
    low, high : float or None
        Interval at ``level`` for all ``looks`` together; None below :data:`LEAST_REPEATS` repeats.
    n_repeats : int
    n_rows : float
        Test rows of one repeat.
    level : float
    looks : int
    se_repeats : float or None
        Standard error from repeats (corrected where they share rows); None for one repeat.
    se_rows : float
        Standard error from the test rows.
    df : int
        Degrees of freedom of ``se_repeats``.
    repeats_needed : int or None
        The least number of repeats that would tell such a mean, with such a spread, from zero; None where 100 would
        not: then the test rows are too few, or the gap is too small.
    """

    mean: float
    low: float | None
    high: float | None
    n_repeats: int
    n_rows: float
    level: float
    looks: int
    se_repeats: float | None
    se_rows: float
    df: int
    repeats_needed: int | None

    @property
    def verdict(self) -> Word:
        """``ahead`` where the whole interval is above zero, ``behind`` where it is below, else ``undecided``."""
        if self.low is None or self.high is None:
            return "undecided"
        return "ahead" if self.low > 0 else "behind" if self.high < 0 else "undecided"

    def reversed(self) -> PairedDifference:
        """Return the difference of the second contestant less the first."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return PairedDifference(**{**self.__dict__, "mean": -self.mean, "low": low, "high": high})

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{100 * self.mean:+.1f} points, {self.verdict}: needs {LEAST_REPEATS} repeats, has {self.n_repeats}"
        told = f"{100 * self.mean:+.1f} points ({100 * self.low:+.1f} to {100 * self.high:+.1f}), {self.verdict}"
        if self.verdict != "undecided":
            return told
        needs = self.repeats_needed
        return told + (": 100 repeats would not do" if needs is None else f": would need about {needs} repeats")


@dataclass(frozen=True, kw_only=True)
class Band:
    """An accuracy and an interval around it, for the picture.

    Attributes
    ----------
    mean : float
        Mean accuracy over repeats, in shares of one.
    low, high : float or None
        None below :data:`LEAST_REPEATS` repeats.
    level : float
    looks : int
        How many intervals hold together at that level.
    paired : bool
        Whether it is drawn to be compared with the other bands (see :func:`paired_bands`), not to say how well the
        contestant would do elsewhere.
    """

    mean: float
    low: float | None
    high: float | None
    level: float
    looks: int
    paired: bool


def paired_difference(
    a: Sequence[Any],
    b: Sequence[Any],
    *,
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    looks: int = 1,
) -> PairedDifference:
    """Return how far the first contestant is ahead of the second, and whether that is sure.

    Parameters
    ----------
    a, b : sequences of boolean arrays of shape (n_rows,), one per repeat
        Whether each test row was predicted rightly. Repeat by repeat both have the same rows, in the same order.
    same_rows : bool
        Whether all repeats have the same test rows, in the same order (a published test set).
    test_share : float or None
        Where every repeat draws test rows anew from the same rows: the share that it draws. The others are what is
        learnt from, public ones included.
    groups : array of shape (n_rows,), sequence of such arrays (one per repeat, where rows are redrawn), or None
        Whose row each test row is, where one person has several: they err together.
    level : float
        Of the interval.
    looks : int
        How many differences are looked at together; all intervals hold together at the level (Bonferroni).

    Returns
    -------
    PairedDifference

    Raises
    ------
    InvalidInputError
        Arrays that are no booleans, or that do not meet row by row; a share that is missing or makes no sense.

    Notes
    -----
    **What is claimed.** Without test rows of its own (``same_rows=False``) the difference is that of the two methods
    on rows like these. With a published test set, which has one training part, it is that of the methods as trained on
    draws of *this* training part and tested on rows like the test rows.

    **Sources.** The module's docstring. With a published test set, disagreements on a row that come and go with the
    repeat are in both errors, and so counted twice, on the safe side (as by Owen's pigeonhole bootstrap, 2007).
    Nadeau and Bengio's factor rests on an approximation of theirs: that two repeats correlate by the share of test
    rows. Those of unstable learners correlate by more, which shows once 1/J is small: J counts as five at most, so that
    more repeats lessen Student's quantile alone. What all this gives in made worlds is in docs/comparison.md.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(7)
    >>> hard = rng.random(1000)  # one published test set; a is right where b is, and on half of what b misses
    >>> b = [hard + 0.05 * rng.standard_normal(1000) < 0.8 for repeat in range(5)]
    >>> a = [hard + 0.05 * rng.standard_normal(1000) < 0.9 for repeat in range(5)]
    >>> print(paired_difference(a, b, same_rows=True))
    +9.3 points (+7.7 to +10.9), ahead
    >>> print(paired_difference(a[:1], b[:1], same_rows=True))
    +8.7 points, undecided: needs 3 repeats, has 1
    """
    design = Design(same_rows, test_share, groups, level, looks)
    return difference_of(a, b, design)


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
    low, high = _interval(found, design, -1.0)
    of_repeats, of_rows = found.errors(design)
    return PairedDifference(
        mean=found.mean,
        low=low,
        high=high,
        n_repeats=found.n_repeats,
        n_rows=found.n_rows,
        level=design.level,
        looks=design.looks,
        se_repeats=None if found.n_repeats < 2 else float(of_repeats),
        se_rows=float(of_rows),
        df=found.n_repeats - 1,
        repeats_needed=found.repeats_needed(design),
    )


def band(
    rights: Sequence[Any],
    *,
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    looks: int = 1,
) -> Band:
    """Return one contestant's accuracy with an interval: how well it would do with other draws and other test rows.

    Parameters
    ----------
    rights : sequence of boolean arrays of shape (n_rows,), one per repeat
    same_rows, test_share, groups, level, looks
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
    design = Design(same_rows, test_share, groups, level, looks)
    found = spread([right.astype(np.float64) for right in check_rights("rights", rights, design)], design)
    low, high = _interval(found, design, 0.0)
    return Band(mean=found.mean, low=low, high=high, level=level, looks=looks, paired=False)


def paired_bands(
    means: Mapping[str, float], differences: Mapping[tuple[str, str], PairedDifference]
) -> dict[str, Band]:
    """Return bands of several contestants at one epsilon that mean something beside each other.

    Where two bands do not overlap, one contestant is ahead by :func:`paired_difference`, at the level and for the looks
    that the differences were made with. Of two contestants the bands overlap exactly where the difference is undecided;
    of more, they may overlap where it is decided.

    Parameters
    ----------
    means : mapping of name to float
        Accuracies. Contestants far from the others (the commonest class, say) widen every band: leave them out.
    differences : mapping of pairs of names to PairedDifference
        Each pair once, either way round.

    Returns
    -------
    dict of name to Band
        Without ends where there are too few repeats, or no rival.

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
    names, of = list(means), None
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            of = differences.get((a, b)) or differences.get((b, a))
            if of is None:
                raise InvalidInputError(
                    f"differences must hold every pair of contestants, and ({a!r}, {b!r}) is missing."
                )
            half = None if of.low is None or of.high is None else max(of.high - of.mean, of.mean - of.low) / 2
            halves[a].append(half)
            halves[b].append(half)
    found = {}
    level, looks = (of.level, of.looks) if of is not None else (0.95, 1)
    for name, mean in means.items():
        known = [half for half in halves[name] if half is not None]
        ends = (None, None) if not known or len(known) < len(halves[name]) else (mean - max(known), mean + max(known))
        found[name] = Band(mean=mean, low=ends[0], high=ends[1], level=level, looks=looks, paired=True)
    return found


def _interval(found: Spread, design: Design, least: float) -> tuple[float | None, float | None]:
    if found.n_repeats < LEAST_REPEATS:
        return None, None
    half = float(found.half_width(design))
    return max(found.mean - half, least), min(found.mean + half, 1.0)


def accuracies(rights: Sequence[Any]) -> FloatArray:
    """Return the accuracy in each repeat.

    Examples
    --------
    >>> accuracies([[True, False], [True, True]])
    array([0.5, 1. ])
    """
    return np.array([float(np.mean(right)) for right in rights])
