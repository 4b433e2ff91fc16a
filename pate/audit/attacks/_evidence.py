"""Whether what attacks found could be, if the claim were true: a bet against it, pair after pair of targets.

A claim bounds every test: true positives <= m * false positives + delta(log m), for every m >= 1. So of a target's
rates at any threshold, Z = TPR - m * FPR has expectation at most delta(log m), where each unit is in the target's half
as another would be (halves of a fixed size: members and others are neighbours by replacement) and where threshold, m
and the attack were settled without that target. Here they are: each pair of targets is attacked with the models of
earlier pairs, at the threshold that would have won most on those. Wealth that starts at 1 and bets on
Z > delta(log m) ever reaches 1 / alpha with probability at most alpha (Ville 1939; Waudby-Smith and Ramdas 2024),
however the units of one target hang together: nothing is assumed of them.
"""

from __future__ import annotations

import math

import numpy as np

from pate.audit.claims import Claim
from pate.core.types import FloatArray, Mask

#: False positive rates at whose thresholds is bet.
_RATES = np.array([0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3])
#: Epsilons whose e^epsilon is m, beside the claim's own at the usual deltas.
_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
_DELTAS = (1e-5, 1e-3, 1e-2, 1e-1)
#: Shares of the largest stake that cannot lose everything.
_STAKES = np.array([0.1, 0.3, 0.6, 0.95])


def wealth_against(claim: Claim, scores: FloatArray, member: Mask) -> FloatArray:
    """Return the wealth after each pair of targets.

    Parameters
    ----------
    claim : Claim
    scores : float64 array of shape (n_targets, n_units)
        Each target's by models of earlier pairs alone.
    member : bool array of shape (n_targets, n_units)

    Returns
    -------
    float64 array of shape (n_targets / 2,)
        An e-process under the claim.
    """
    slopes, allowed = _lines(claim)
    inside, outside = ([np.sort(row[of]) for row, of in zip(scores, side, strict=True)] for side in (member, ~member))
    stakes = _STAKES / (slopes + allowed)[:, None]  # (n_lines, n_stakes)
    wealth, made = 1.0, [1.0]
    for pair in range(1, len(scores) // 2):
        past = slice(0, 2 * pair)
        thresholds = _thresholds(np.concatenate(outside[past]))
        gain = _gains(inside[past], outside[past], thresholds, slopes, allowed)  # (n_pairs, n_thresholds, n_lines)
        growth = np.log1p(gain[..., None] * stakes).mean(axis=0)
        if growth.max() > 0:
            t, line, stake = np.unravel_index(int(growth.argmax()), growth.shape)
            now = slice(2 * pair, 2 * pair + 2)
            won = _gains(inside[now], outside[now], thresholds[t : t + 1], slopes[[line]], allowed[[line]]).item()
            wealth *= 1.0 + won * float(stakes[line, stake])
        made.append(wealth)
    return np.array(made)


def most_wealth(claim: Claim, n_targets: int) -> float:
    """Return what the bet wins where every unit of every target is told rightly: no outcome wins more."""
    slopes, allowed = _lines(claim)
    best = float(np.max(1 + (1 - allowed) * _STAKES.max() / (slopes + allowed)))
    return math.exp(min((n_targets // 2 - 1) * math.log(best), 700.0))


def _lines(claim: Claim) -> tuple[FloatArray, FloatArray]:
    epsilons = {*_EPSILONS, *(e for e in map(claim.epsilon, _DELTAS) if e < 30)}
    found = [(math.exp(e), claim.delta(e)) for e in sorted(epsilons)]
    slopes, allowed = np.array(found).T
    return slopes, allowed


def _thresholds(scores: FloatArray) -> FloatArray:
    """Return the least thresholds that leave at most those shares of the scores above them."""
    ranked = np.sort(scores)[::-1]
    return np.nextafter(ranked[np.floor(_RATES * len(ranked)).astype(int)], np.inf)


def _gains(
    inside: list[FloatArray], outside: list[FloatArray], thresholds: FloatArray, slopes: FloatArray, allowed: FloatArray
) -> FloatArray:
    found, alarms = (
        np.array([1 - np.searchsorted(row, thresholds) / len(row) for row in side]) for side in (inside, outside)
    )
    each = found[..., None] - slopes * alarms[..., None] - allowed
    return np.asarray((each[0::2] + each[1::2]) / 2)
