"""Where the curves of two contestants cross, with an interval that comes from the differences' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pate.comparison.statistics import PairedDifference, Word
from pate.core.checks import check_real
from pate.exceptions import InvalidInputError

__all__ = ["Crossing", "Crossings", "crossing"]


@dataclass(frozen=True)
class Crossing:
    """A stretch of epsilons in which the difference of two contestants may be zero.

    Attributes
    ----------
    low, high : float or None
        Its ends; None where it goes on beyond the epsilons looked at.
    at : tuple of float
        Where the mean difference is zero in it, linear in log epsilon.
    before, after : {"ahead", "behind"} or None
        The sure verdict on its left and on its right.
    """

    low: float | None
    high: float | None
    at: tuple[float, ...]
    before: Word | None
    after: Word | None

    @property
    def sure(self) -> bool:
        """Whether the curves do cross in it: one is surely ahead on its left, the other on its right."""
        return {self.before, self.after} == {"ahead", "behind"}


@dataclass(frozen=True)
class Crossings:
    """Where the curves of two contestants cross, as far as was looked.

    Attributes
    ----------
    epsilons : tuple of float
        Those looked at, ascending.
    where : tuple of Crossing
        Every true crossing lies in one of them, at ``level``; none where one contestant is surely ahead everywhere.
    start : {"ahead", "behind", "undecided"}
        The verdict at the least epsilon.
    level : float

    Examples
    --------
    >>> Crossings((0.1, 1.0), (), "ahead", 0.95).says("PATE", "DP-SGD")
    'PATE is ahead everywhere looked at (epsilon 0.1 to 1).'
    """

    epsilons: tuple[float, ...]
    where: tuple[Crossing, ...]
    start: Word
    level: float

    @property
    def sure(self) -> tuple[Crossing, ...]:
        """The crossings that surely are there."""
        return tuple(one for one in self.where if one.sure)

    def says(self, a: str, b: str) -> str:
        """Return it in words, for the contestants whose difference was a less b.

        Examples
        --------
        >>> one = Crossing(0.4, 1.2, (0.7,), "ahead", "behind")
        >>> Crossings((0.1, 8.0), (one,), "ahead", 0.95).says("PATE", "DP-SGD")
        'PATE is ahead below epsilon 0.7, DP-SGD above (95% interval 0.4 to 1.2).'
        """
        looked = f"epsilon {self.epsilons[0]:g} to {self.epsilons[-1]:g}"
        names = {"ahead": a, "behind": b}
        if not self.where:
            return f"{names[self.start]} is ahead everywhere looked at ({looked})."
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
            return f"Undecided everywhere looked at ({looked})."
        ahead = ", ".join(f"{name} is ahead {' and '.join(spans)}" for name, spans in places.items())
        cross = " and ".join(f"{e} {s}" for e, s in zip(crossed, within, strict=True))
        return f"{ahead}; elsewhere undecided." + (f" They cross at {cross}." if cross else "")

    def _decided(self) -> list[tuple[str, float, float]]:
        """Return who is ahead, from where, and up to where, between the stretches."""
        found, low, word = [], self.epsilons[0], self.where[0].before
        for one in self.where:
            if word is not None and one.low is not None:
                found.append((str(word), low, one.low))
            low, word = one.high or self.epsilons[-1], one.after
        return found if word is None else [*found, (str(word), low, self.epsilons[-1])]


def crossing(epsilons: Sequence[float], differences: Sequence[PairedDifference]) -> Crossings:
    """Return where the difference of two contestants changes its sign, with an interval.

    Parameters
    ----------
    epsilons : sequence of float
        Ascending, positive.
    differences : sequence of PairedDifference
        One per epsilon, of the same two contestants in the same order, made with at least ``len(epsilons)`` looks.

    Returns
    -------
    Crossings

    Raises
    ------
    InvalidInputError
        Epsilons that do not ascend, not as many differences, or differences made with fewer looks.

    Notes
    -----
    Between epsilons the difference is taken to be linear in log epsilon. The intervals hold at all epsilons together,
    so the band between their ends, drawn by straight lines, holds the true broken line at the same level; wherever that
    is zero, the band has zero in it. The stretches returned are all such places: all true crossings lie in them.

    Examples
    --------
    >>> from pate.comparison.statistics import paired_difference
    >>> one, other = [[True] * 900 + [False] * 100] * 3, [[True] * 700 + [False] * 300] * 3
    >>> first = paired_difference(one, other, same_rows=True, looks=2)
    >>> crossing([0.1, 10.0], [first, first.reversed()]).says("A", "B")
    'A is ahead below epsilon 1, B above (95% interval 0.72 to 1.4).'
    """
    at = [check_real("epsilon", e, low=0, low_open=True) for e in epsilons]
    if not at or any(b <= a for a, b in pairwise(at)) or len(differences) != len(at):
        raise InvalidInputError(
            f"epsilons must ascend, with one difference for each, got {at} and {len(differences)} differences."
        )
    if any(found.looks < len(at) for found in differences):
        raise InvalidInputError(
            f"differences must be made with looks >= {len(at)}, as so many epsilons are looked at, got "
            f"{[found.looks for found in differences]}."
        )
    level, start = min(found.level for found in differences), differences[0].verdict
    if any(found.low is None for found in differences):
        return Crossings(tuple(at), (Crossing(None, None, (), None, None),), "undecided", level)
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
    crossings, zeros = [], _zeros(x, mean)
    for stretch in _stretches(sides == 0):
        first, last = points[stretch[0]], points[stretch[1]]
        before = None if stretch[0] == 0 else _word(sides[stretch[0] - 1])
        after = None if stretch[1] == len(points) - 1 else _word(sides[stretch[1] + 1])
        inside = tuple(float(np.exp(z)) for z in zeros if first - 1e-9 <= z <= last + 1e-9)
        ends = (None if before is None else float(np.exp(first)), None if after is None else float(np.exp(last)))
        crossings.append(Crossing(*ends, inside, before, after))
    return Crossings(tuple(at), tuple(crossings), start, level)


def _word(side: int) -> Word:
    return "ahead" if side > 0 else "behind"


def _zeros(x: Any, y: Any) -> list[float]:
    """Return where a broken line changes its sign or touches zero."""
    found = [float(a) for a, b in zip(x, y, strict=True) if b == 0]
    for i in np.flatnonzero(y[1:] * y[:-1] < 0):
        found.append(float(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i])))
    return sorted(found)


def _stretches(mask: Any) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
