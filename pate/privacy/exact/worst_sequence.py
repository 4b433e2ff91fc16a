"""Epsilon over every sequence of votes that one person could stand behind, when only counts are known.

In each query the person's vote is some class u; for every u there is a dominating pair over the classes b that could
gain the vote. Which sequence of u is worst depends on epsilon and on all the queries, and joining the pairs of all u
into one would cost a good part of what privacy loss distributions gain. Instead let the adversary choose u query by
query, knowing the loss so far: with f(y) = (1 - e^-y)_+,

    V_N = f,    V_{i-1}(y) = max over u of E[V_i(y + L_{i,u})],    delta(epsilon) <= V_0(-epsilon)

for every fixed sequence, because the fixed sequence is one of the adversary's choices. One sweep gives all epsilons,
and all terms are positive, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pate.core.checks import largest_of, least_of
from pate.core.types import FloatArray, IntArray
from pate.privacy.exact.composition import PROBABILITY_ERROR, LossTable

__all__ = ["worst_sequence_epsilon"]


#: Masses below this are moved to the next larger loss, which is safe and keeps rows short.
_NEGLIGIBLE = 1e-14


def _undominated(curves: FloatArray) -> IntArray:
    """Return indices of the curves that no other curve covers everywhere."""
    keep: list[int] = []
    for i in np.argsort(-curves.sum(axis=1), kind="stable"):
        if not any((curves[i] <= curves[k]).all() for k in keep):
            keep.append(int(i))
    return np.array(keep)


def _curves(table: LossTable) -> FloatArray:
    """H at lattice points >= 0 and H - (1 - g) at those below, of every row, as sums of positive terms."""
    losses, reach = table.losses, table.masses.shape[1] // 2
    second = table.masses * np.exp(-losses)
    widths = np.exp(losses[:-1]) * np.expm1(table.discretization)
    # H is the integral from g upwards of the second distribution's mass beyond; H - (1 - g) that from 0 of the mass
    # before.
    beyond = np.cumsum(second[:, :0:-1], axis=1)[:, ::-1]
    above = np.cumsum((widths * beyond)[:, ::-1], axis=1)[:, ::-1]
    below = np.cumsum(widths * np.cumsum(second[:, :-1], axis=1), axis=1)
    nothing = np.zeros((len(second), 1))
    return np.concatenate([nothing, below[:, : reach - 1], above[:, reach:], nothing], axis=1)


def _sparse(row: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return indices and values of a row's masses, negligible ones moved up."""
    index = np.flatnonzero(row > _NEGLIGIBLE)
    values = row[index].copy()
    small = np.flatnonzero((row > 0) & (row <= _NEGLIGIBLE))
    to = np.searchsorted(index, small)
    inside = to < len(index)
    np.add.at(values, to[inside], row[small[inside]])
    rest = row[small[~inside]].sum()
    if rest > 0:
        index, values = np.append(index, len(row) - 1), np.append(values, rest)
    return index, values


def worst_sequence_epsilon(
    table: LossTable, offsets: IntArray, multiplicity: Sequence[int] | IntArray, delta: float, ceiling: float
) -> float:
    """Upper bound on epsilon at ``delta`` over all sequences of rows, one row per query.

    Parameters
    ----------
    table : LossTable
        Rows ``offsets[h]`` to ``offsets[h + 1]`` are the choices in queries with histogram h.
    multiplicity : (n_histograms,)
        Number of queries with each histogram.
    delta : float
    ceiling : float
        A bound known otherwise; losses far beyond it need not be resolved.
    """
    step, reach = table.discretization, table.masses.shape[1] // 2
    curves = _curves(table)
    low = -int(np.ceil((1.5 * ceiling + 1.0) / step))
    high = int(np.ceil(7.0 / step))
    n = high - low + 1
    y = np.arange(low, high + 1) * step
    value = np.maximum(-np.expm1(-y), 0.0)
    padded = np.empty(n + 2 * reach)
    total, best = np.empty(n), np.empty(n)
    for h in range(len(offsets) - 1):
        rows = offsets[h] + _undominated(curves[offsets[h] : offsets[h + 1]])
        choices = [_sparse(table.masses[row]) for row in rows]
        for _ in range(int(multiplicity[h])):
            # V increases in y and is at most 1: both ends are extended upwards.
            padded[:reach], padded[reach : reach + n], padded[reach + n :] = value[0], value, 1.0
            for k, (index, masses) in enumerate(choices):
                into = total if k else best
                into[:] = 0.0
                for i, mass in zip(index.tolist(), masses.tolist(), strict=True):
                    into += mass * padded[i : i + n]
                if k:
                    np.maximum(best, total, out=best)
            value[:] = np.minimum(best, 1.0)
    goal = delta * np.exp(-PROBABILITY_ERROR * float(np.sum(multiplicity)))
    # V(-epsilon) falls with epsilon. For a fixed sequence delta is linear in e^epsilon between lattice points, so the
    # chord of the largest is above the largest.
    bad = np.flatnonzero(value > goal)
    if not len(bad):
        return 0.0
    first = int(bad[0])
    if first == 0:
        return float("inf")
    large, small = value[first], value[first - 1]
    gamma = np.exp(-y[first]) * (1 + (large - goal) / (large - small) * np.expm1(step))
    return largest_of(0.0, least_of(float(np.log(gamma)), float(-y[first - 1])))
