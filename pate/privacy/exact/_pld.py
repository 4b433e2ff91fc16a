"""Tight epsilon of a list of noisy-max queries, by privacy loss distributions.

Guarantees
----------
Adjacency: one vote is replaced in every query; fixed public queries. For each direction a dominating pair per query
(or per teacher's vote in a query) is composed; epsilon is the larger of the two directions. The bound by teacher
holds for all teachers: one is skipped only if its Renyi bound is already at or below the largest epsilon found. The
values are private: they depend on the votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_real, largest_of, least_of
from pate._core.types import FloatArray, IntArray
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, rdp_overheads
from pate.privacy.exact._composition import PROBABILITY_ERROR, LossTable, compose_epsilons, compose_masses
from pate.privacy.exact._histograms import Groups, check_counts, distinct_histograms
from pate.privacy.exact._laws import SAFETY, NoiseLike, exact_divergences, upper_bound
from pate.privacy.exact._pair_law import PairLaw, all_laws
from pate.privacy.exact._per_teacher import VoteGroups, per_teacher_rdp, vote_groups
from pate.privacy.exact.noise import GaussianNoise, ThresholdTest

if TYPE_CHECKING:
    from dp_accounting.pld import privacy_loss_distribution

__all__ = [
    "PldEpsilon",
    "composed_pld",
    "dominating_masses",
    "per_teacher_pld_epsilon",
    "pld_epsilon",
    "pld_seconds",
    "worst_sequence_epsilon",
]


# Epsilon over every sequence of votes that one person could have changed, when only counts are known.

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
    losses, reach = table.losses, table.reach
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
    step, reach = table.discretization, table.reach
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


# Dominating pairs of noisy-max queries on a lattice of privacy losses.


def _lanes(
    law: PairLaw, groups: Groups, index: IntArray, threshold: ThresholdTest | None
) -> tuple[FloatArray, FloatArray]:
    """Return P and log P'/P of all outcomes, (B, S, G, G), refusal included."""
    logs = np.where((law.weight > 0) & law.valid[:, None], law.log_ratio, 0.0)
    if threshold is None:
        return law.weight, logs
    top, change = groups.tested(index, law.classes, law.change)
    more = threshold.log_answer_ratio(top[:, None, None], change)
    less = threshold.log_refuse_ratio(top[:, None, None], change)
    with np.errstate(under="ignore"):
        kept = np.exp(threshold.log_answer(top))[:, None, None, None] * law.weight
        gone = np.broadcast_to(np.exp(threshold.log_refuse(top))[:, None, None, None], less[:, None].shape)
    prob = np.concatenate([kept, gone], axis=1)
    logs = np.concatenate([logs + more[:, None], less[:, None]], axis=1)
    return prob, np.clip(np.where((prob > 0) & law.valid[:, None], logs, 0.0), -700, 700)


def _hockey_sticks(first: FloatArray, ratio: FloatArray, at: FloatArray) -> FloatArray:
    """Divergence of (Q (1 + ratio), Q = first) at g - 1 = ``at``, less (1 - g) where g < 1."""
    out = np.zeros((first.shape[1], len(at)))
    sign = np.where(at < 0, -1.0, 1.0)
    for q, r in zip(first, ratio, strict=True):
        out += q[:, None] * np.maximum(sign * (r[:, None] - at), 0.0)
    return out


def _to_masses(below: FloatArray, above: FloatArray, gammas: FloatArray, discretization: float) -> FloatArray:
    """Lattice masses of the pair whose hockey-stick curve joins the dots."""
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
) -> LossTable:
    """Discretised dominating pairs, one row per histogram, or one per group of the class that loses its vote.

    Rows of groups that cannot lose a vote have all their mass at loss 0.
    """
    n_rows = len(groups.values) if per_group else len(groups)
    reach = 1
    prepared = []
    for index, _, law in all_laws(groups, noise):
        prob, logs = _lanes(law, groups, index, threshold)
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
    return LossTable(discretization, masses)


_ORDERS = np.array(DEFAULT_ORDERS)
#: Queries up to which the sweep over all sequences of votes is made (about 3 ms each).
SWEEP_LIMIT = 20_000
#: Bytes of tables beyond which :func:`pld_seconds` says that it cannot be done.
_MEMORY = 2.0**30


@dataclass(frozen=True)
class PldEpsilon:
    """The epsilon of a list of queries at ``delta``: private; its repr shows no value that depends on the votes.

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> found = pld_epsilon([[5, 1]], noise=GaussianNoise(4.0), delta=1e-5)
    >>> found, found.epsilon == max(found.forward, found.reverse)
    (PldEpsilon(delta=1e-05), True)
    """

    delta: float
    epsilon: float = field(repr=False)
    forward: float = field(repr=False)
    reverse: float = field(repr=False)


def _lattice(noise: NoiseLike, discretization: float | None) -> float:
    """Distance of lattice points: 1/40 of the loss that one vote shifts, which costs about 1e-4 of epsilon."""
    if discretization is not None:
        return check_real("discretization", discretization, low=0, low_open=True, high=1.0)
    return least_of(0.05, 1 / (40 * noise.scale))


def _by_renyi(rdp: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
    """Epsilons of RDP curves (..., n_orders) at ``delta`` (Canonne, Kamath, Steinke 2020), and their orders."""
    overhead = rdp_overheads(_ORDERS, delta)
    epsilons = upper_bound(rdp) + overhead
    best = epsilons.argmin(axis=-1)
    return np.maximum(np.take_along_axis(epsilons, best[..., None], -1)[..., 0], 0.0), _ORDERS[best]


def pld_seconds(
    counts: npt.ArrayLike, *, noise: NoiseLike, threshold: ThresholdTest | None = None, n_teachers: int | None = None
) -> float:
    """Estimate roughly what :func:`pld_epsilon` takes, in seconds of one core of 2024; infinite above 1 GiB.

    Parameters
    ----------
    counts : (n_queries, n_classes) int array
    noise, threshold : as in :func:`exact_divergences`
    n_teachers : int, optional
        Estimate :func:`per_teacher_pld_epsilon` with so many teachers instead.

    Returns
    -------
    float
        Within a factor of about 3 of what was measured, from 2 to 100 distinct counts in a histogram.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers >= 0 of at least two classes.

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> pld_seconds([[200, 50]] * 100, noise=GaussianNoise(40.0)) < 1
    True
    """
    checked = check_counts(counts)
    histograms = distinct_histograms(checked, None if threshold is None else threshold.margins(checked))
    if not len(histograms.rows):
        return 0.0
    groups = histograms.groups()
    n_groups = groups.n_groups.astype(np.float64)
    step = _lattice(noise, None)
    # The largest loss is about that of an outcome as far behind the leader as the widest gap.
    gap = float((groups.values[groups.offsets[:-1]] - groups.values[groups.offsets[1:] - 1]).max())
    widest = (gap / noise.scale + 4) / noise.scale if isinstance(noise, GaussianNoise) else 2 / noise.scale
    reach = least_of(widest, 700.0) / step + 1
    pairs = float((n_groups**2 * (n_groups + 2)).sum())
    if n_groups.sum() * reach * 64 + pairs * 32 > _MEMORY:
        return float("inf")
    sticks = 1.2e-8 * pairs * reach
    if n_teachers is not None:
        return sticks + 1.2e-6 * n_teachers * float(n_groups.sum()) / (noise.scale * step * 40)
    return sticks + 2e-8 * float((n_groups * histograms.multiplicity).sum()) * reach / (noise.scale * step * 40)


def pld_epsilon(
    counts: npt.ArrayLike,
    delta: float,
    *,
    noise: NoiseLike,
    threshold: ThresholdTest | None = None,
    discretization: float | None = None,
) -> PldEpsilon:
    """Return the epsilon of a list of vote histograms: the largest over all sequences of votes one person can change.

    Up to `SWEEP_LIMIT` queries a sweep over all sequences (see `worst_sequence`); beyond, the lesser of the Renyi
    bound and of the composition of pairs that dominate every neighbour of a query at once.

    Parameters
    ----------
    counts : (n_queries, n_classes) int array
    delta : float
    noise, threshold : as in :func:`exact_divergences`
    discretization : float, optional
        Distance of privacy losses on the lattice; any value gives an upper bound.

    Returns
    -------
    PldEpsilon
        Private: a function of the votes.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers >= 0 of at least two classes, a delta outside (0, 1), or a discretization
        not in (0, 1].

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> found = pld_epsilon([[200, 50]] * 100, 1e-5, noise=GaussianNoise(40.0))
    >>> found.epsilon == max(found.forward, found.reverse)
    True
    """
    delta, counts = check_delta(delta), check_counts(counts)
    step = _lattice(noise, discretization)
    if not len(counts):
        return PldEpsilon(delta, 0.0, 0.0, 0.0)
    histograms = distinct_histograms(counts, None if threshold is None else threshold.margins(counts))
    groups = histograms.groups()
    sweep = len(counts) <= SWEEP_LIMIT
    totals = exact_divergences(counts, _ORDERS, noise=noise, threshold=threshold).totals()
    renyi, orders = _by_renyi(totals, delta)
    masses = dominating_masses(groups, noise, step, threshold=threshold, per_group=sweep)
    found = []
    for side in (0, 1):
        table = LossTable(step, masses.masses[side])
        if sweep:
            epsilon = worst_sequence_epsilon(table, groups.offsets, histograms.multiplicity, delta, float(renyi[side]))
        else:
            times = histograms.multiplicity.astype(np.float64)
            epsilon = float(compose_epsilons(table, times, delta, float(orders[side]) - 1)[0])
        found.append(least_of(epsilon * SAFETY, float(renyi[side])))
    return PldEpsilon(delta, largest_of(*found), *found)


def per_teacher_pld_epsilon(
    labels: npt.ArrayLike | VoteGroups,
    delta: float,
    *,
    noise: NoiseLike,
    threshold: ThresholdTest | None = None,
    counts: npt.ArrayLike | None = None,
    n_classes: int | None = None,
    discretization: float | None = None,
) -> PldEpsilon:
    """Return the epsilon of a list of queries from each teacher's own votes, the largest over all teachers.

    Parameters
    ----------
    labels : (n_teachers, n_queries) int array, or VoteGroups
    delta : float
    noise, threshold : as in :func:`exact_divergences`
    counts, n_classes : as in :func:`vote_groups`
    discretization : as in :func:`pld_epsilon`

    Returns
    -------
    PldEpsilon
        Private: a function of the votes.

    Raises
    ------
    InvalidInputError
        As :func:`vote_groups`, a delta outside (0, 1), or a discretization not in (0, 1].

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> labels = np.repeat([[0], [0], [0], [1]], 20, axis=1)
    >>> found = per_teacher_pld_epsilon(labels, 1e-5, noise=GaussianNoise(20.0))
    >>> found.epsilon == max(found.forward, found.reverse)
    True
    """
    delta = check_delta(delta)
    votes = (
        labels
        if isinstance(labels, VoteGroups)
        else vote_groups(labels, counts=counts, n_classes=n_classes, threshold=threshold)
    )
    rdp = per_teacher_rdp(votes, _ORDERS, noise=noise, threshold=threshold)
    masses = dominating_masses(
        votes.groups, noise, _lattice(noise, discretization), threshold=threshold, per_group=True
    )
    times = votes.matrix()
    best, covered = np.zeros(2), np.zeros(2)
    renyi, orders = _by_renyi(np.moveaxis(rdp, 2, 0), delta)
    for side in np.argsort(-renyi.max(axis=1)):
        table = LossTable(masses.discretization, masses.masses[side])
        ranked = np.argsort(-renyi[side], kind="stable")
        size = 8
        while len(ranked):
            # Skip only teachers that provably cannot raise the maximum.
            skipped = ranked[renyi[side][ranked] <= best.max()]
            covered[side] = largest_of(covered[side], renyi[side][skipped].max(initial=0.0))
            ranked = ranked[renyi[side][ranked] > best.max()]
            block, ranked = ranked[:size], ranked[size:]
            if len(block):
                theta = float(orders[side][block[0]]) - 1
                found = compose_epsilons(table, times[block].toarray(), delta, theta) * SAFETY
                best[side] = largest_of(best[side], float(np.minimum(found, renyi[side][block]).max()))
            size = 64
    # The Renyi bounds that cover the skipped teachers are at or below the maximum by construction.
    forward, reverse = np.maximum(best, covered).tolist()
    return PldEpsilon(delta, largest_of(forward, reverse), forward, reverse)


def composed_pld(
    counts: npt.ArrayLike,
    *,
    noise: NoiseLike,
    threshold: ThresholdTest | None = None,
    discretization: float = 1e-3,
    tail: float = 1e-15,
) -> privacy_loss_distribution.PrivacyLossDistribution:
    """Return the privacy loss distribution of a list of queries, to compose with others in ``dp_accounting``.

    It dominates every neighbour of every query at once, so its epsilon alone is above that of :func:`pld_epsilon`.

    Parameters
    ----------
    counts, noise, threshold : as in :func:`pld_epsilon`
    discretization : float
        As in the distributions it will be composed with.
    tail : float
        Probability that truncation may move to an infinite loss.

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        Private: a function of the votes. Remove and add stand for forward and reverse.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers >= 0 of at least two classes.

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> pld = composed_pld([[200, 50]] * 100, noise=GaussianNoise(40.0))
    >>> pld.compose(pld).get_epsilon_for_delta(1e-5) > pld.get_epsilon_for_delta(1e-5)
    True
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    checked = check_counts(counts)
    histograms = distinct_histograms(checked, None if threshold is None else threshold.margins(checked))
    both = dominating_masses(histograms.groups(), noise, discretization, threshold=threshold)
    times = histograms.multiplicity.astype(np.float64)
    found = []
    for side in (0, 1):
        low, masses, lost = compose_masses(LossTable(discretization, both.masses[side]), times, tail)
        found.append(pld_pmf.DensePLDPmf(discretization, low, masses, lost, True))
    return privacy_loss_distribution.PrivacyLossDistribution(*found)
