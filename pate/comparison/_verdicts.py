"""Decide which contestant is ahead at which epsilon, with intervals that hold for all comparisons together.

Every pair of contestants counts as a comparison, also where only the leader by mean is named: choosing the leader by
the same means is then covered.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np

from pate._core.checks import check_int, check_real, did_you_mean, shown
from pate.comparison.statistics import Design, PairedDifference, Word, accuracy, difference_of
from pate.exceptions import InvalidInputError
from pate.report.scores import ACCURACY, Score

__all__ = [
    "CrossoverPoint",
    "CrossoverPoints",
    "EpsilonVerdict",
    "SideVerdict",
    "crossover_points",
    "side_verdicts",
    "verdicts",
]

#: Name -> epsilon -> one boolean array per repeat.
RightsByName = Mapping[str, Mapping[float, Sequence[Any]]]


@dataclass(frozen=True, kw_only=True)
class EpsilonVerdict:
    """Which contestant leads at one epsilon, and which others it is surely ahead of."""

    epsilon: float
    leader: str  # the greatest mean accuracy
    means: dict[str, float]  # accuracies, greatest first
    pairs: dict[tuple[str, str], PairedDifference]  # all pairs, the greater mean first
    n_comparisons: int

    @property
    def against(self) -> dict[str, PairedDifference]:
        """The leader's differences, by the other contestant."""
        return {b: found for (a, b), found in self.pairs.items() if a == self.leader}

    @property
    def ahead_of(self) -> tuple[str, ...]:
        """The contestants that the leader is surely ahead of."""
        return tuple(name for name, found in self.against.items() if found.verdict == "ahead")

    @property
    def undecided(self) -> tuple[str, ...]:
        """The contestants that may be as good as the leader, or better."""
        return tuple(name for name, found in self.against.items() if found.verdict != "ahead")


@dataclass(frozen=True, kw_only=True)
class SideVerdict:
    """Which of two sides of contestants is ahead at one epsilon."""

    epsilon: float
    ours: str  # the greatest mean of each side
    theirs: str
    #: One of ours and one of theirs, on which the verdict rests. Ahead or behind: the contestant that is ahead of the
    #: whole other side (the greatest mean of such), and the nearest one of that side. Undecided: the greatest mean of
    #: all, and the one of the other side that it differs least from.
    deciding: tuple[str, str]
    difference: PairedDifference  # between these two
    #: {"ahead", "behind", "undecided"}: ``ahead``: one of ours is ahead of all of theirs. ``behind``: one of theirs
    #: is ahead of all of ours.
    verdict: Word
    pairs: dict[tuple[str, str], PairedDifference]
    n_comparisons: int

    @property
    def not_behind(self) -> bool:
        """Whether none of theirs was shown to be ahead; with few repeats this is weak evidence."""
        return self.verdict != "behind"


def verdicts(
    rights: RightsByName,
    epsilons: Sequence[float],
    *,
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    n_comparisons: int | None = None,
    score: Score = ACCURACY,
) -> tuple[EpsilonVerdict, ...]:
    """Return which contestant leads at each epsilon, and whether it is surely ahead of each other one.

    Parameters
    ----------
    rights : mapping of name to mapping of epsilon to one boolean array per repeat
        Whether each test row was predicted rightly (of R2: what :func:`pate.comparison.statistics.r2_by_row` gives). A
        contestant without fits at an epsilon takes no part there.
    epsilons : sequence of float
        Those to compare at.
    same_rows, test_share, groups, level, score
        As in :func:`pate.comparison.statistics.paired_difference`.
    n_comparisons : int or None
        Comparisons that hold together. None counts all pairs at all epsilons; pass more where a report makes more.

    Returns
    -------
    tuple of EpsilonVerdict
        In the order of ``epsilons``; without those where no contestant took part.

    Raises
    ------
    InvalidInputError
        Contestants without any of the epsilons, fewer comparisons than are made, arrays of unequal lengths.

    Notes
    -----
    The chance that any pair at any epsilon is called ahead or behind wrongly is at most ``1 - level`` (Bonferroni over
    all of them; :mod:`pate.comparison.statistics` describes the intervals).

    Examples
    --------
    >>> one, other = [[True] * 90 + [False] * 10] * 3, [[True] * 88 + [False] * 12] * 3
    >>> found = verdicts(
    ...     {"A": {1.0: one, 3.0: one}, "B": {1.0: other}}, [1.0, 3.0], same_rows=True
    ... )
    >>> [(v.epsilon, v.leader, v.ahead_of, v.undecided) for v in found]
    [(1.0, 'A', (), ('B',)), (3.0, 'A', (), ())]
    """
    at = _present(rights, epsilons)
    needed = sum(math.comb(len(names), 2) for names in at.values())
    design = Design(same_rows, test_share, groups, level, _count_of(n_comparisons, needed), score)
    found = []
    for epsilon, names in at.items():
        means = {name: accuracy(rights[name][epsilon]) for name in names}
        means = dict(sorted(means.items(), key=lambda item: -item[1]))
        pairs = {(a, b): _pair(rights, a, b, epsilon, design) for a, b in combinations(means, 2)}
        leader = next(iter(means))
        found.append(
            EpsilonVerdict(epsilon=epsilon, leader=leader, means=means, pairs=pairs, n_comparisons=design.n_comparisons)
        )
    return tuple(found)


def side_verdicts(
    rights: RightsByName,
    epsilons: Sequence[float],
    *,
    ours: Sequence[str],
    theirs: Sequence[str],
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    n_comparisons: int | None = None,
    score: Score = ACCURACY,
) -> tuple[SideVerdict, ...]:
    """Return which of two sides of contestants is ahead at each epsilon.

    Parameters
    ----------
    rights, epsilons, same_rows, test_share, groups, level, score
        As in :func:`verdicts`.
    ours, theirs : sequences of names
        The sides. One name against a few needs far fewer comparisons than all pairs; choose it beforehand.
    n_comparisons : int or None
        None counts each of ours against each of theirs, at every epsilon.

    Returns
    -------
    tuple of SideVerdict
        In the order of ``epsilons``; without those where one side took no part.

    Raises
    ------
    InvalidInputError
        As :func:`verdicts`; a name that is unknown or on both sides, an empty side.

    Notes
    -----
    The best of a side is chosen by the same means that are compared, which is biased in its favour. Hence
    "ahead" means ahead of all of the other side, and every pair counts as a comparison.

    Examples
    --------
    >>> one, other = [[True] * 90 + [False] * 10] * 3, [[True] * 88 + [False] * 12] * 3
    >>> (found,) = side_verdicts(
    ...     {"A": {1.0: one}, "B": {1.0: other}},
    ...     [1.0],
    ...     ours=["B"],
    ...     theirs=["A"],
    ...     same_rows=True,
    ... )
    >>> found.verdict, found.not_behind, round(found.difference.mean, 2)
    ('undecided', True, -0.02)
    """
    for side, names in (("ours", ours), ("theirs", theirs)):
        unknown = [name for name in names if name not in rights]
        if isinstance(names, str) or not names or unknown:
            near = did_you_mean(unknown[0], rights) if unknown else ""
            raise InvalidInputError(f"{side} must list contestants of {list(rights)}, got {names!r}.{near}")
    if set(ours) & set(theirs):
        raise InvalidInputError(f"ours and theirs must have no name in common, got {sorted(set(ours) & set(theirs))}.")
    at = {
        epsilon: ([name for name in ours if name in names], [name for name in theirs if name in names])
        for epsilon, names in _present({name: rights[name] for name in [*ours, *theirs]}, epsilons).items()
    }
    at = {epsilon: sides for epsilon, sides in at.items() if all(sides)}
    needed = sum(len(a) * len(b) for a, b in at.values())
    design = Design(same_rows, test_share, groups, level, _count_of(n_comparisons, needed), score)
    found = []
    for epsilon, (here, there) in at.items():
        pairs = {(a, b): _pair(rights, a, b, epsilon, design) for a, b in product(here, there)}
        means = {name: accuracy(rights[name][epsilon]) for name in [*here, *there]}
        best_a, best_b = (max(side, key=means.__getitem__) for side in (here, there))
        verdict, deciding = _decided(pairs, means)
        said: dict[str, Any] = {"deciding": deciding, "difference": pairs[deciding], "verdict": verdict, "pairs": pairs}
        found.append(
            SideVerdict(epsilon=epsilon, ours=best_a, theirs=best_b, n_comparisons=design.n_comparisons, **said)
        )
    return tuple(found)


def _decided(
    pairs: Mapping[tuple[str, str], PairedDifference], means: Mapping[str, float]
) -> tuple[Word, tuple[str, str]]:
    """Return the verdict on the sides, and the pair on which it rests."""
    against: dict[str, list[tuple[PairedDifference, tuple[str, str]]]] = {}
    for pair, found in pairs.items():
        against.setdefault(pair[0], []).append((found, pair))
        against.setdefault(pair[1], []).append((found.reversed(), pair))
    ranked = sorted(against, key=lambda name: -means[name])
    sure = [name for name in ranked if all(found.verdict == "ahead" for found, _ in against[name])]
    # A difference has the sign of its means: the contestant with the greatest is behind none, so one is undecided.
    first = against[sure[0] if sure else ranked[0]]
    others = first if sure else [one for one in first if one[0].verdict == "undecided"] or first
    _, pair = min(others, key=lambda one: one[0].mean if one[0].low is None else one[0].low)
    return ("undecided" if not sure else "ahead" if sure[0] == pair[0] else "behind"), pair


def _present(rights: RightsByName, epsilons: Sequence[float]) -> dict[float, list[str]]:
    if not isinstance(rights, Mapping) or not all(isinstance(of, Mapping) for of in rights.values()) or not rights:
        raise InvalidInputError(
            f"rights must map names to epsilons to one boolean array per repeat, got {shown(rights)}."
        )
    wanted = [check_real("epsilon", e, low=0, low_open=True) for e in epsilons]
    if len(set(wanted)) != len(wanted):
        raise InvalidInputError(f"epsilons must be listed once each, got {wanted}.")
    absent = [name for name, of in rights.items() if not set(of) & set(wanted)]
    if absent:
        raise InvalidInputError(
            f"rights[{absent[0]!r}] has none of the epsilons {wanted}, got {sorted(rights[absent[0]])}."
        )
    at = {epsilon: [name for name, of in rights.items() if epsilon in of] for epsilon in wanted}
    return {epsilon: names for epsilon, names in at.items() if names}


def _count_of(said: int | None, needed: int) -> int:
    needed = max(needed, 1)
    if said is None:
        return needed
    return check_int("n_comparisons", said, low=needed, remedy=f"{needed} pairs are compared.")


def _pair(rights: RightsByName, a: str, b: str, epsilon: float, design: Design) -> PairedDifference:
    return difference_of(rights[a][epsilon], rights[b][epsilon], design, (a, b))


# Crossover points of two contestants' curves, with intervals that follow from those of the differences.


@dataclass(frozen=True)
class CrossoverPoint:
    """A stretch of epsilons in which the difference of two contestants may be zero."""

    low: float | None  # its ends; None where it goes on beyond the given epsilons
    high: float | None
    at: tuple[float, ...]  # where the mean difference is zero in it, linear in log epsilon
    before: Word | None  # {"ahead", "behind"}: The sure verdict on its left and on its right
    after: Word | None

    @property
    def sure(self) -> bool:
        """Whether the curves do cross in it: one is surely ahead on its left, the other on its right."""
        return {self.before, self.after} == {"ahead", "behind"}


@dataclass(frozen=True)
class CrossoverPoints:
    """The epsilons at which the accuracy curves of two contestants cross, within those that were compared.

    Examples
    --------
    >>> CrossoverPoints((0.1, 1.0), (), "ahead", 0.95).says("PATE", "DP-SGD")
    'PATE is ahead at all compared epsilons (epsilon 0.1 to 1).'
    """

    epsilons: tuple[float, ...]  # ascending
    #: Every true crossover point lies in one of them, at ``level``; empty where one contestant is surely ahead
    #: everywhere.
    where: tuple[CrossoverPoint, ...]
    start: Word  # {"ahead", "behind", "undecided"}: The verdict at the least epsilon
    level: float

    @property
    def sure(self) -> tuple[CrossoverPoint, ...]:
        """The stretches in which the curves surely cross."""
        return tuple(one for one in self.where if one.sure)

    def says(self, a: str, b: str) -> str:
        """Return it in words, for the contestants ``a`` and ``b`` of the difference a - b."""
        looked = f"epsilon {self.epsilons[0]:g} to {self.epsilons[-1]:g}"
        names = {"ahead": a, "behind": b}
        if not self.where:
            return f"{names[self.start]} is ahead at all compared epsilons ({looked})."
        crossed = [" or ".join(f"{e:.2g}" for e in one.at) for one in self.sure]
        within = [f"({100 * self.level:g}% interval {one.low:.2g} to {one.high:.2g})" for one in self.sure]
        if len(self.where) == len(self.sure) == 1:
            left, right = (names[str(word)] for word in (self.sure[0].before, self.sure[0].after))
            return f"{left} is ahead below epsilon {crossed[0]}, {right} above {within[0]}."
        places: dict[str, list[str]] = {}
        for word, low, high in self._decided():
            unit = "" if places else "epsilon "
            places.setdefault(names[word], []).append(f"from {unit}{low:.2g} to {high:.2g}")
        if not places:
            return f"Undecided at all compared epsilons ({looked})."
        ahead = ", ".join(f"{name} is ahead {' and '.join(spans)}" for name, spans in places.items())
        cross = " and ".join(f"{e} {s}" for e, s in zip(crossed, within, strict=True))
        return f"{ahead}; elsewhere undecided." + (f" They cross at {cross}." if cross else "")

    def _decided(self) -> list[tuple[str, float, float]]:
        """Return which contestant is ahead in which range of epsilons, between the stretches."""
        found, low, word = [], self.epsilons[0], self.where[0].before
        for one in self.where:
            if word is not None and one.low is not None:
                found.append((str(word), low, one.low))
            low, word = one.high or self.epsilons[-1], one.after
        return found if word is None else [*found, (str(word), low, self.epsilons[-1])]


def crossover_points(epsilons: Sequence[float], differences: Sequence[PairedDifference]) -> CrossoverPoints:
    """Return the epsilons at which the accuracy curves of two contestants cross, with intervals.

    Parameters
    ----------
    epsilons : sequence of float
        Ascending, positive.
    differences : sequence of PairedDifference
        One per epsilon, of the same two contestants in the same order, made with ``n_comparisons >= len(epsilons)``.

    Returns
    -------
    CrossoverPoints

    Raises
    ------
    InvalidInputError
        Epsilons that do not ascend, not as many differences, or differences made with fewer comparisons.

    Notes
    -----
    Between epsilons the difference is taken to be linear in log epsilon. The intervals hold at all epsilons together,
    so the band between their ends, drawn by straight lines, holds the true broken line at the same level; wherever that
    is zero, the band has zero in it. The stretches returned are all such places: all true crossover points lie in them.

    Examples
    --------
    >>> from pate.comparison.statistics import paired_difference
    >>> one, other = [[True] * 900 + [False] * 100] * 3, [[True] * 700 + [False] * 300] * 3
    >>> first = paired_difference(one, other, same_rows=True, n_comparisons=2)
    >>> crossover_points([0.1, 10.0], [first, first.reversed()]).says("A", "B")
    'A is ahead below epsilon 1, B above (95% interval 0.72 to 1.4).'
    """
    at = [check_real("epsilon", e, low=0, low_open=True) for e in epsilons]
    if not at or any(b <= a for a, b in pairwise(at)) or len(differences) != len(at):
        raise InvalidInputError(
            f"epsilons must ascend, with one difference for each, got {at} and {len(differences)} differences."
        )
    if any(found.n_comparisons < len(at) for found in differences):
        raise InvalidInputError(
            f"differences must be made with n_comparisons >= {len(at)}, one for each epsilon, got "
            f"{[found.n_comparisons for found in differences]}."
        )
    level, start = min(found.level for found in differences), differences[0].verdict
    if any(found.low is None for found in differences):
        return CrossoverPoints(tuple(at), (CrossoverPoint(None, None, (), None, None),), "undecided", level)
    x = np.log(at)
    low, mean, high = (np.array([getattr(f, name) for f in differences]) for name in ("low", "mean", "high"))
    # Knots of the band: the epsilons, and wherever one of its edges is zero. Between two knots nothing changes.
    knots = np.unique(np.concatenate([x, _zeros(x, low), _zeros(x, high)]))
    middles = np.concatenate([knots, (knots[1:] + knots[:-1]) / 2]) if len(knots) > 1 else knots
    order = np.argsort(middles, kind="stable")
    points = middles[order]
    lows, highs = np.interp(points, x, low), np.interp(points, x, high)
    # An edge that is zero at a knot belongs to the stretch; rounding must not open it.
    sides = np.where(lows > 1e-12, 1, np.where(highs < -1e-12, -1, 0))
    stretches, zeros = [], _zeros(x, mean)
    words: dict[int, Word] = {1: "ahead", -1: "behind"}
    for a, b in _stretches(sides == 0):
        first, last = points[a], points[b]
        before, after = (
            words.get(int(sides[a - 1]) if a else 0),
            words.get(int(sides[b + 1]) if b + 1 < len(sides) else 0),
        )
        inside = tuple(float(np.exp(z)) for z in zeros if first - 1e-9 <= z <= last + 1e-9)
        ends = (None if before is None else float(np.exp(first)), None if after is None else float(np.exp(last)))
        stretches.append(CrossoverPoint(*ends, inside, before, after))
    return CrossoverPoints(tuple(at), tuple(stretches), start, level)


def crossing(epsilons: Sequence[float], differences: Sequence[PairedDifference]) -> CrossoverPoints:
    """Return :func:`crossover_points`: its former name."""
    warnings.warn("crossing() is now crossover_points(): call that.", DeprecationWarning, stacklevel=2)
    return crossover_points(epsilons, differences)


def _zeros(x: Any, y: Any) -> list[float]:
    """Return where a broken line changes its sign or touches zero."""
    found = [float(a) for a, b in zip(x, y, strict=True) if b == 0]
    for i in np.flatnonzero(y[1:] * y[:-1] < 0):
        found.append(float(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i])))
    return sorted(found)


def _stretches(mask: Any) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
