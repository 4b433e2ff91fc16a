"""What an attacker makes of a target's answers, and of other models fitted on other halves.

Scores have shape (n_targets, n_units); the higher, the likelier it is that the target was fitted on the unit. The
target's own pair is never among the models that it is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from pate.core.types import FloatArray, Mask

#: What can be asked for.
ATTACKS = ("lira", "lira-offline", "rmia", "loss", "label-only")
#: So many models on each side, and a unit has variances of its own (Carlini et al. 2022: 64 models in all).
_OWN_VARIANCE = 30
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


@dataclass(frozen=True, repr=False)
class _Side:
    """How many models there are on one side, and the mean and variance of what they say; each of shape (n_units,)."""

    n: FloatArray
    mean: FloatArray
    variance: FloatArray


class _References:
    """Sums over pairs of models, from which means and variances without a target's own pair follow."""

    def __init__(self, values: FloatArray, member: Mask) -> None:
        self._centre = values.mean(axis=0)
        held = values - self._centre
        stacked = [np.stack([side, side * held, side * held**2]) for side in (member, ~member)]
        by_pair = np.stack(stacked)  # (side, power, n_shadows, n_units)
        self._pairs = by_pair[:, :, 0::2] + by_pair[:, :, 1::2]
        self._total = self._pairs.sum(axis=2)
        self._before = np.cumsum(self._pairs, axis=2) - self._pairs

    def of(self, pair: int, *, earlier: bool) -> tuple[_Side, _Side]:
        """Return the models with a unit and those without it, of all other pairs or of the earlier ones."""
        sums = self._before[:, :, pair] if earlier else self._total - self._pairs[:, :, pair]
        return self._side(*sums[0]), self._side(*sums[1])

    def _side(self, n: FloatArray, total: FloatArray, squares: FloatArray) -> _Side:
        mean = total / np.maximum(n, 1)
        squares = np.maximum(squares - n * mean**2, 0.0)
        shared = squares.sum() / max(float(np.maximum(n - 1, 0).sum()), 1.0)
        if n.min() >= _OWN_VARIANCE:
            variance = np.maximum(squares / (n - 1), _LEAST_SHARE * shared)
        else:
            variance = np.full(len(n), shared)
        return _Side(n, mean + self._centre, np.maximum(variance, _LEAST_VARIANCE))


def scores(attack: str, answers: Answers, n_targets: int, *, earlier: bool = False) -> FloatArray:
    """Return the scores of the last ``n_targets`` models.

    Parameters
    ----------
    attack : {"lira", "lira-offline", "rmia", "loss", "label-only"}
    answers : Answers
    n_targets : int
        Even.
    earlier : bool
        Compare with the pairs before a target's own alone: then how a target is attacked is settled without it. The
        first pair of all has none, and its scores are 0.

    Returns
    -------
    float64 array of shape (n_targets, n_units)

    Notes
    -----
    With t the log odds of the right class, and mean and variance over the other models with a unit (in) and without it
    (out): **lira** is log N(t; in) - log N(t; out) (Carlini et al. 2022, online; one variance for all units where a
    side has fewer than 30 models); **lira-offline** is (t - mean out) / sd out, which needs no model with the unit.
    **rmia** is the share of units z with p(x) / P(x) >= p(z) / P(z), where p is the target's probability of the right
    class and P the mean over other models with and without the unit (Zarifzadeh et al. 2024, gamma = 1; the population
    are the units themselves). **loss** is -log p(x) turned round (Yeom et al. 2018), which needs no other model.
    **label-only** is lira on the share of noisy copies whose label is right (Choquette-Choo et al. 2021).

    Examples
    --------
    >>> member = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool)
    >>> answers = Answers(np.where(member, 3.0, 0.0), member)
    >>> [bool((scores(a, answers, 2)[member[:2]] > scores(a, answers, 2)[~member[:2]]).all()) for a in ATTACKS[:4]]
    [True, True, True, True]
    """
    if attack == "loss":
        return log_expit(answers.logit[-n_targets:])
    values = answers.logit
    if attack == "rmia":
        values = expit(values)
    elif attack == "label-only":
        assert answers.robust is not None
        values = answers.robust
    references = _References(values, answers.member)
    made = np.zeros((n_targets, values.shape[1]))
    for row, target in enumerate(range(len(values) - n_targets, len(values))):
        inside, outside = references.of(target // 2, earlier=earlier)
        made[row] = _score(attack, values[target], inside, outside)
    return np.asarray(np.round(made, _DIGITS), dtype=np.float64)


def _score(attack: str, said: FloatArray, inside: _Side, outside: _Side) -> FloatArray:
    if attack == "lira-offline":
        return np.asarray(np.where(outside.n > 0, (said - outside.mean) / np.sqrt(outside.variance), 0.0))
    both = (inside.n > 0) & (outside.n > 0)
    if attack == "rmia":
        ratio = said / np.maximum((inside.mean + outside.mean) / 2, np.finfo(float).tiny)
        # Units that no other model says anything of are neither asked about nor compared with.
        ratio = np.asarray(np.round(np.where(both, ratio, 1.0), _DIGITS), dtype=np.float64)
        return np.asarray(np.searchsorted(np.sort(ratio), ratio, side="right") / len(ratio), dtype=np.float64)
    found = _log_normal(said, inside) - _log_normal(said, outside)
    return np.where(both, found, 0.0)


def _log_normal(said: FloatArray, side: _Side) -> FloatArray:
    return np.asarray(-((said - side.mean) ** 2) / (2 * side.variance) - np.log(side.variance) / 2)
