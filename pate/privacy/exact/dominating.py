"""Dominating pairs of noisy-max queries on a lattice of privacy losses.

For one query the neighbour that is worst depends on epsilon. The largest hockey-stick divergence over neighbours,
H(g) = max sum_j (P_j - g Q_j)_+ at g = e^epsilon, is convex with H(0) = 1 and H >= (1 - g)_+, hence itself the
hockey-stick divergence of some pair, which dominates every neighbour (Zhu, Dong, Wang 2022). Its chords between
lattice points (connect the dots: Doroshenko et al. 2022) dominate in turn, and are the divergence of a pair with
losses on the lattice.

H near 0 and H - (1 - g) for g < 1 are small numbers for a clear vote: each is summed as it stands, so that slopes and
masses keep their relative accuracy in both tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.core.types import FloatArray, IntArray
from pate.privacy.exact.histograms import Groups
from pate.privacy.exact.laws import NoiseLike
from pate.privacy.exact.noise import ThresholdTest
from pate.privacy.exact.pair_law import PairLaw, all_laws

__all__ = ["LossMasses", "dominating_masses"]


@dataclass(frozen=True)
class LossMasses:
    """Privacy loss distributions on the lattice ``discretization * k``, k = -reach ... reach.

    Attributes
    ----------
    discretization : float
    masses : (2, n_rows, 2 reach + 1)
        Probabilities under the first distribution of the pair: forward, then reverse.
    """

    discretization: float
    masses: FloatArray

    @property
    def reach(self) -> int:
        """Largest lattice index."""
        return self.masses.shape[-1] // 2

    @property
    def losses(self) -> FloatArray:
        """(2 reach + 1,) privacy losses."""
        return np.asarray(np.arange(-self.reach, self.reach + 1) * self.discretization, dtype=np.float64)


def _lanes(law: PairLaw, top: IntArray, threshold: ThresholdTest | None) -> tuple[FloatArray, FloatArray]:
    """Return P and log P'/P of all outcomes, (B, S, G, G), refusal included."""
    logs = np.where((law.weight > 0) & law.valid[:, None], law.log_ratio, 0.0)
    if threshold is None:
        return law.weight, logs
    rows, index = np.arange(len(top))[:, None, None], law.change.astype(np.int64) + 1
    more = np.stack([threshold.log_answer_ratio(top, c) for c in (-1, 0, 1)], axis=1)[rows, index]
    less = np.stack([threshold.log_refuse_ratio(top, c) for c in (-1, 0, 1)], axis=1)[rows, index]
    with np.errstate(under="ignore"):
        kept = np.exp(threshold.log_answer(top))[:, None, None, None] * law.weight
        gone = np.broadcast_to(np.exp(threshold.log_refuse(top))[:, None, None, None], less[:, None].shape)
    prob = np.concatenate([kept, gone], axis=1)
    logs = np.concatenate([logs + more[:, None], less[:, None]], axis=1)
    return prob, np.clip(np.where((prob > 0) & law.valid[:, None], logs, 0.0), -700, 700)


def _hockey_sticks(first: FloatArray, ratio: FloatArray, at: FloatArray) -> FloatArray:
    """Divergence of (Q (1 + ratio), Q = first) at g - 1 = ``at``, less (1 - g) where g < 1.

    Parameters
    ----------
    first, ratio : (n_outcomes, n_pairs)
    at : (n_points,) increasing

    Returns
    -------
    (n_pairs, n_points)
    """
    out = np.zeros((first.shape[1], len(at)))
    sign = np.where(at < 0, -1.0, 1.0)
    for q, r in zip(first, ratio, strict=True):
        out += q[:, None] * np.maximum(sign * (r[:, None] - at), 0.0)
    return out


def _to_masses(below: FloatArray, above: FloatArray, gammas: FloatArray, discretization: float) -> FloatArray:
    """Lattice masses of the pair whose hockey-stick curve joins the dots.

    Parameters
    ----------
    below : (n, reach + 1) H - (1 - g) at lattice points -reach ... 0
    above : (n, reach + 1) H at lattice points 0 ... reach
    gammas : (2 reach + 1,) e^epsilon
    discretization : float
        Distance of lattice points in epsilon.
    """
    n, reach = len(below), below.shape[1] - 1
    # A difference of gammas would lose as many digits as the lattice is fine.
    widths = gammas[:-1] * np.expm1(discretization)
    left, right = np.diff(below, axis=1) / widths[:reach], np.diff(above, axis=1) / widths[reach:]
    none = np.zeros((n, 1))
    # The second distribution's mass at a point is the change of slope there.
    second = np.concatenate(
        [
            np.diff(np.concatenate([none, left], axis=1), axis=1),
            1 + right[:, :1] - left[:, -1:],
            np.diff(np.concatenate([right, none], axis=1), axis=1),
        ],
        axis=1,
    )
    return np.maximum(second, 0.0) * gammas


def dominating_masses(
    groups: Groups,
    noise: NoiseLike,
    discretization: float,
    *,
    threshold: ThresholdTest | None = None,
    per_group: bool = False,
) -> LossMasses:
    """Discretised dominating pairs, one row per histogram, or one per group of the class that loses its vote.

    Rows of groups that cannot lose a vote have all their mass at loss 0.
    """
    n_rows = len(groups.values) if per_group else len(groups)
    reach = 1
    prepared = []
    for index, values, law in all_laws(groups, noise):
        prob, logs = _lanes(law, values[:, 0], threshold)
        reach = max(reach, int(np.floor(np.abs(logs).max() / discretization)) + 1)
        prepared.append((index, prob, logs, law.valid))
    masses = np.zeros((2, n_rows, 2 * reach + 1))
    gammas = np.exp(np.arange(-reach, reach + 1) * discretization)
    at = np.expm1(np.arange(-reach, reach + 1) * discretization)
    for index, prob, logs, valid in prepared:
        g = valid.shape[1]
        for i, row in enumerate(index):
            p, loss = prob[i].reshape(prob.shape[1], -1), logs[i].reshape(prob.shape[1], -1)
            for side, (first, change) in enumerate(((p * np.exp(loss), np.expm1(-loss)), (p, np.expm1(loss)))):
                high = _hockey_sticks(first, change, at[reach:])
                low = _hockey_sticks(first, change, at[: reach + 1])
                # At g = 1 both forms are H; the larger of two roundings is the safe one.
                low[:, -1] = high[:, 0] = np.maximum(
                    high[:, 0], _hockey_sticks(first, -change, at[reach : reach + 1])[:, 0]
                )
                below, above = (
                    np.where(valid[i][..., None], a.reshape(g, g, -1), 0.0).max(axis=1) for a in (low, high)
                )
                if per_group:
                    where = slice(groups.offsets[row], groups.offsets[row + 1])
                    masses[side, where] = _to_masses(below, above, gammas, discretization)
                else:
                    below, above = below.max(axis=0, keepdims=True), above.max(axis=0, keepdims=True)
                    masses[side, row] = _to_masses(below, above, gammas, discretization)[0]
    return LossMasses(discretization, masses)
