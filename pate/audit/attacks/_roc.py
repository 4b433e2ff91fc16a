"""How often members are found at so many false alarms, over all targets, with intervals over pairs of models.

One threshold serves all targets. Two models of a pair share no unit, and the units of one target share its training: so
pairs are what repeats. Intervals are of the jackknife with Student's t: pairs are left out, a group at a time, as
targets *and* as what the other targets are compared with, and everything is computed anew. They are about further
models fitted on halves of these very units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import expit, log_expit, stdtrit

from pate.core.types import FloatArray, IndexArray, Mask

# What an attacker makes of a target's answers, and of other models fitted on other halves.

#: What can be asked for.
ATTACKS = ("lira", "lira-offline", "rmia", "loss", "label-only")
#: So many pairs to compare with, and a unit has variances of its own (Carlini et al. 2022: from 64 models on).
_OWN_VARIANCE = 31
#: Least variance, as a share of the mean over all units: models that always said the same of a unit are few models.
_LEAST_SHARE = 0.01
_LEAST_VARIANCE = 1e-9
#: Scores that differ by less are equal: sums in another order are no evidence.
_DIGITS = 9


@dataclass(frozen=True, repr=False)
class Answers:
    """What every shadow model says of every unit.

    Attributes
    ----------
    logit : float64 array of shape (n_shadows, n_units)
        Log odds of the right class.
    member : bool array of shape (n_shadows, n_units)
        Rows 2j and 2j + 1 are a pair.
    robust : float64 array of shape (n_shadows, n_units) or None
        The share of copies of the unit whose class is told right.
    """

    logit: FloatArray
    member: Mask
    robust: FloatArray | None = None
    _made: dict[str, _References] = field(default_factory=dict)

    def values(self, attack: str) -> FloatArray:
        """Return the number that an attack looks at."""
        if attack == "label-only":
            assert self.robust is not None
            return self.robust
        if attack == "loss":
            return np.asarray(log_expit(self.logit))
        return np.asarray(expit(self.logit)) if attack == "rmia" else self.logit

    def references(self, attack: str) -> _References:
        """Return what a target is compared with."""
        if attack not in self._made:
            self._made[attack] = _References(self.values(attack), self.member)
        return self._made[attack]


@dataclass(frozen=True, repr=False)
class _Side:
    """How many models there are on one side, and the mean and variance of what they say: (n_targets, n_units) each."""

    n: FloatArray
    mean: FloatArray
    variance: FloatArray


class _References:
    """Sums over pairs of models, from which means and variances without a target's own pair follow."""

    def __init__(self, values: FloatArray, member: Mask) -> None:
        self._centre = values.mean(axis=0)
        held = values - self._centre
        by_model = np.stack([np.stack([side, side * held, side * held**2]) for side in (member, ~member)])
        self._pairs = by_model[:, :, 0::2] + by_model[:, :, 1::2]  # (side, power, n_pairs, n_units)

    def of(self, targets: IndexArray, *, earlier: bool, without: IndexArray) -> tuple[_Side, _Side]:
        """Return the models with a unit and those without it, of all other pairs or of the earlier ones."""
        own = self._pairs[:, :, targets // 2]
        if earlier:
            sums = np.cumsum(self._pairs, axis=2)[:, :, targets // 2] - own
            each = (targets // 2 >= _OWN_VARIANCE)[:, None]
        else:
            sums = self._pairs.sum(axis=2)[:, :, None] - own - self._pairs[:, :, without].sum(axis=2)[:, :, None]
            each = np.full((len(targets), 1), self._pairs.shape[2] > _OWN_VARIANCE)
        return self._side(sums[0], each), self._side(sums[1], each)

    def _side(self, sums: FloatArray, each: Mask) -> _Side:
        n, total, squares = sums
        mean = total / np.maximum(n, 1)
        squares = np.maximum(squares - n * mean**2, 0.0)
        freedom = np.maximum(n - 1, 0)
        shared = squares.sum(axis=1, keepdims=True) / np.maximum(freedom.sum(axis=1, keepdims=True), 1)
        own = np.maximum(squares / np.maximum(freedom, 1), _LEAST_SHARE * shared)
        variance = np.where(each & (freedom > 0), own, shared)
        return _Side(n, mean + self._centre, np.maximum(variance, _LEAST_VARIANCE))


def scores(
    attack: str, answers: Answers, targets: IndexArray, *, earlier: bool = False, without: IndexArray | None = None
) -> FloatArray:
    """Return the scores that models get as targets.

    Parameters
    ----------
    attack : {"lira", "lira-offline", "rmia", "loss", "label-only"}
    answers : Answers
    targets : int array of shape (n_targets,)
        Which models.
    earlier : bool
        Compare with the pairs before a target's own alone: then how a target is attacked is settled without it. The
        first pair of all has none, and its scores are 0.
    without : int array of shape (n,) or None
        Pairs that nobody is compared with, none of them a target's.

    Returns
    -------
    float64 array of shape (n_targets, n_units)

    Notes
    -----
    With t the log odds of the right class, and mean and variance over the other models with a unit (in) and without it
    (out): **lira** is log N(t; in) - log N(t; out) (Carlini et al. 2022, online; one variance for all units where there
    are fewer than 31 models on a side); **lira-offline** is (t - mean out) / sd out, which needs no model with it.
    **rmia** is the share of units z with p(x) / P(x) >= p(z) / P(z), where p is the target's probability of the right
    class and P the mean over other models with and without the unit (Zarifzadeh et al. 2024, gamma = 1; the population
    are the units themselves). **loss** is -log p(x) turned round (Yeom et al. 2018), which needs no other model.
    **label-only** is lira on the share of noisy copies whose label is right (Choquette-Choo et al. 2021).
    """
    said = answers.values(attack)[targets]
    if attack == "loss":
        return said
    nobody = np.array([], dtype=np.intp)
    inside, outside = answers.references(attack).of(
        targets, earlier=earlier, without=nobody if without is None else without
    )
    made = _score(attack, said, inside, outside)
    return np.asarray(np.round(made, _DIGITS), dtype=np.float64)


def _score(attack: str, said: FloatArray, inside: _Side, outside: _Side) -> FloatArray:
    if attack == "lira-offline":
        return np.asarray(np.where(outside.n > 0, (said - outside.mean) / np.sqrt(outside.variance), 0.0))
    both = (inside.n > 0) & (outside.n > 0)
    if attack == "rmia":
        ratio = said / np.maximum((inside.mean + outside.mean) / 2, np.finfo(float).tiny)
        # Units that no other model says anything of are neither asked about nor compared with.
        ratio = np.asarray(np.round(np.where(both, ratio, 1.0), _DIGITS), dtype=np.float64)
        ranks = [np.searchsorted(np.sort(row), row, side="right") / len(row) for row in ratio]
        return np.asarray(ranks, dtype=np.float64)
    return np.asarray(np.where(both, _log_normal(said, inside) - _log_normal(said, outside), 0.0))


def _log_normal(said: FloatArray, side: _Side) -> FloatArray:
    return np.asarray(-((said - side.mean) ** 2) / (2 * side.variance) - np.log(side.variance) / 2)


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
