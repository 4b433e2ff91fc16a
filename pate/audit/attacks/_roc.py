"""How often members are found at so many false alarms, over all targets, with intervals over their pairs.

One threshold serves all targets. What one pair of halves gives is one observation: its two targets share no unit, and
the units of one target share its training. Intervals are of the delete-one jackknife over pairs, with Student's t.
They are about further targets fitted on halves of these very units, the other models held as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pate.core.types import FloatArray, Mask

#: Thresholds that the curve is kept at: all of the highest scores, then so many spread in both ways.
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
class Roc:
    """The ROC of an attack: of all targets together, and of all but one pair.

    Attributes
    ----------
    false_positives, true_positives : arrays of shape (1 + n_pairs, n_points)
        Rates, rising along the points from 0 to 1; the first row is of all targets.
    thresholds : array of shape (n_points - 1,)
        Falling; at point j the units at or above ``thresholds[j - 1]`` are taken for members.
    n_out : int
        Of how many units that a target was not fitted on, over all targets.
    """

    false_positives: FloatArray
    true_positives: FloatArray
    thresholds: FloatArray
    n_out: int

    @property
    def n_pairs(self) -> int:
        """Of how many pairs it is."""
        return len(self.false_positives) - 1

    def auc(self, level: float) -> Interval:
        """Return the area under the curve."""
        return _interval(np.asarray(np.trapezoid(self.true_positives, self.false_positives, axis=1)), level)

    def at(self, rate: float, level: float) -> Interval | None:
        """Return the true positive rate at a false positive rate; None where too few units could be false alarms.

        Between two thresholds it is that of a toss between both.
        """
        if rate * self.n_out < _FEWEST_ALARMS:
            return None
        return _interval(self._interpolated(rate), level)

    def threshold(self, rate: float) -> float:
        """Return the least threshold with at most that false positive rate."""
        below = np.searchsorted(self.false_positives[0], rate, side="right") - 1
        return np.inf if below == 0 else float(self.thresholds[below - 1])

    def _interpolated(self, rate: float) -> FloatArray:
        pairs = zip(self.false_positives, self.true_positives, strict=True)
        # Straight up is read at its top: no further false alarm is needed for it.
        return np.array([np.interp(rate, *_upper(fp, tp)) for fp, tp in pairs])


def roc_of(scores: FloatArray, member: Mask) -> Roc:
    """Return the ROC of scores of shape (n_targets, n_units).

    Examples
    --------
    >>> member = np.tile([[True, False], [False, True]], (2, 1))
    >>> made = roc_of(np.where(member, 1.0, 0.0), member)
    >>> made.auc(0.95), made.n_pairs
    (Interval(value=1.0, low=1.0, high=1.0), 2)
    """
    thresholds = _thresholds(scores)
    by_target = [
        [len(found) - np.searchsorted(np.sort(found), thresholds, side="left") for found in (row[~of], row[of])]
        for row, of in zip(scores, member, strict=True)
    ]
    counts = np.array(by_target, dtype=float)  # (n_targets, 2, n_points)
    pairs = counts[0::2] + counts[1::2]
    total = pairs.sum(axis=0)
    kept = np.concatenate([total[None], total - pairs])
    rates = kept / kept[:, :, -1:]  # the last threshold is the least score
    rates = np.concatenate([np.zeros((*rates.shape[:2], 1)), rates], axis=2)
    return Roc(rates[:, 0], rates[:, 1], thresholds, int((~member).sum()))


def _thresholds(scores: FloatArray) -> FloatArray:
    ranked = np.sort(scores, axis=None)[::-1]
    n = len(ranked)
    ranks = np.concatenate([np.geomspace(1, n, _SPREAD), np.linspace(1, n, _SPREAD)])
    return np.unique(ranked[np.unique(ranks.astype(int)) - 1])[::-1]


def _upper(fp: FloatArray, tp: FloatArray) -> tuple[FloatArray, FloatArray]:
    last = np.append(np.diff(fp) > 0, True)
    return fp[last], tp[last]


def _interval(estimates: FloatArray, level: float) -> Interval:
    """Return the first of the estimates with its jackknife interval; the others leave out one pair each."""
    value, left_out = float(estimates[0]), estimates[1:]
    n = len(left_out)
    error = np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    half = float(stdtrit(n - 1, (1 + level) / 2) * error)
    return Interval(value, max(0.0, value - half), min(1.0, value + half))
