"""How often members are found at so many false alarms, over all targets, with intervals over pairs of models.

One threshold serves all targets. Two models of a pair share no unit, and the units of one target share its training: so
pairs are what repeats. Intervals are of the jackknife with Student's t: pairs are left out, a group at a time, as
targets *and* as what the other targets are compared with, and everything is computed anew. They are about further
models fitted on halves of these very units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

from pate.audit.attacks._scores import Answers, scores
from pate.core.types import FloatArray, IndexArray, Mask

#: Pairs are left out in so many groups at most.
_N_GROUPS = 16
#: Thresholds that a curve is kept at: all of the highest scores, then so many spread in two ways.
_SPREAD = 1_500
#: So many false alarms at least stand behind a rate that is told.
_FEWEST_ALARMS = 10


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Points:
    """One ROC: rates that rise from 0 to 1.

    Attributes
    ----------
    false_positives, true_positives : arrays of shape (n_points + 1,)
    thresholds : array of shape (n_points,)
        Falling; at point j + 1 what is at or above ``thresholds[j]`` is taken for a member.
    """

    false_positives: FloatArray
    true_positives: FloatArray
    thresholds: FloatArray

    @classmethod
    def of(cls, found: FloatArray, member: Mask) -> Points:
        """Return the ROC of scores and members, of one shape."""
        ranked = np.sort(found, axis=None)[::-1]
        n = len(ranked)
        ranks = np.concatenate([np.geomspace(1, n, _SPREAD), np.linspace(1, n, _SPREAD)]).astype(int)
        thresholds = np.unique(ranked[np.unique(ranks) - 1])[::-1]
        false, true = (np.append(0.0, _share_above(found[side], thresholds)) for side in (~member, member))
        return cls(false, true, thresholds)

    def auc(self) -> float:
        """Return the area under the curve."""
        return float(np.trapezoid(self.true_positives, self.false_positives))

    def at(self, rate: float) -> float:
        """Return the true positive rate at a false positive rate; between two thresholds it is that of a toss."""
        return float(np.interp(rate, *self._upper))

    @cached_property
    def _upper(self) -> tuple[FloatArray, FloatArray]:
        # Of what goes straight up only the top: it costs no further false alarm.
        last = np.append(np.diff(self.false_positives) > 0, True)
        return self.false_positives[last], self.true_positives[last]


@dataclass(frozen=True, repr=False)
class Roc:
    """The ROC of an attack, and what it is without some pairs of models.

    Attributes
    ----------
    whole : Points
    left_out : sequence of Points
    n_out : int
        Of how many units that a target was not fitted on, over all targets.
    n_apart : int
        Of how many of ``left_out`` targets are missing: the others vary little, and are no evidence of their own.
    """

    whole: Points
    left_out: Sequence[Points]
    n_out: int
    n_apart: int

    def auc(self, level: float) -> Interval:
        """Return the area under the curve."""
        return self._interval(self.whole.auc(), [points.auc() for points in self.left_out], level)

    def at(self, rate: float, level: float) -> Interval | None:
        """Return the true positive rate at a false positive rate; None where too few units could be false alarms."""
        if rate * self.n_out < _FEWEST_ALARMS:
            return None
        return self._interval(self.whole.at(rate), [points.at(rate) for points in self.left_out], level)

    def threshold(self, rate: float) -> float:
        """Return the least threshold with at most that false positive rate; infinite where there is none."""
        below = np.searchsorted(self.whole.false_positives, rate, side="right") - 1
        return np.inf if below == 0 else float(self.whole.thresholds[below - 1])

    def _interval(self, value: float, without: list[float], level: float) -> Interval:
        n = len(without)
        error = np.sqrt((n - 1) * np.var(without))
        half = float(stdtrit(max(self.n_apart, 2) - 1, (1 + level) / 2) * error)
        return Interval(value, max(0.0, value - half), min(1.0, value + half))


def roc_of(attack: str, answers: Answers, targets: IndexArray) -> tuple[Roc, FloatArray]:
    """Return the ROC of an attack, and the scores of shape (n_targets, n_units)."""
    found = scores(attack, answers, targets)
    pairs = np.arange(len(answers.member) // 2)
    left_out, n_apart = [], 0
    for group in range(min(_N_GROUPS, len(pairs))):
        without = pairs[group :: min(_N_GROUPS, len(pairs))]
        left = targets[~np.isin(targets // 2, without)]
        n_apart += len(left) < len(targets)
        left_out.append(Points.of(scores(attack, answers, left, without=without), answers.member[left]))
    n_out = int((~answers.member[targets]).sum())
    return Roc(Points.of(found, answers.member[targets]), left_out, n_out, n_apart), found


def _share_above(found: FloatArray, thresholds: FloatArray) -> FloatArray:
    return np.asarray(1 - np.searchsorted(np.sort(found), thresholds, side="left") / len(found))
