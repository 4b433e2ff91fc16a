"""Tight epsilon of a list of noisy-max queries, by privacy loss distributions.

Guarantees
----------
Adjacency: one vote is replaced in every query; fixed public queries. For each direction a dominating pair per query
(or per teacher's vote in a query) is composed; epsilon is the larger of the two directions. The bound by teacher
holds for all teachers: one is skipped only if its Renyi bound is already at or below the largest epsilon found. The
values are private: they depend on the votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_real, largest_of, least_of
from pate.core.types import FloatArray
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, rdp_overheads
from pate.privacy.exact.composition import LossTable, compose_epsilons, compose_masses
from pate.privacy.exact.dominating import dominating_masses
from pate.privacy.exact.histograms import check_counts, distinct_histograms, group_counts
from pate.privacy.exact.laws import SAFETY, NoiseLike, exact_divergences, upper_bound
from pate.privacy.exact.noise import GaussianNoise, ThresholdTest
from pate.privacy.exact.per_teacher import VoteGroups, per_teacher_rdp, vote_groups
from pate.privacy.exact.worst_sequence import worst_sequence_epsilon

if TYPE_CHECKING:
    from dp_accounting.pld import privacy_loss_distribution

__all__ = ["PldEpsilon", "composed_pld", "per_teacher_pld_epsilon", "pld_epsilon", "pld_seconds"]


_ORDERS = np.array(DEFAULT_ORDERS)
#: Queries up to which the sweep over all sequences of votes is made (about 3 ms each).
SWEEP_LIMIT = 20_000
#: Bytes of tables beyond which :func:`pld_seconds` says that it cannot be done.
_MEMORY = 2.0**30


@dataclass(frozen=True)
class PldEpsilon:
    """Epsilon of a list of queries at ``delta``; private, its repr shows no value that depends on the votes.

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


def pld_seconds(counts: npt.ArrayLike, *, noise: NoiseLike, n_teachers: int | None = None) -> float:
    """Estimate roughly what :func:`pld_epsilon` takes, in seconds of one core of 2024; infinite above 1 GiB.

    Parameters
    ----------
    counts : (n_queries, n_classes) int array
    noise : as in :func:`exact_divergences`
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
    histograms = distinct_histograms(check_counts(counts))
    if not len(histograms.rows):
        return 0.0
    groups = group_counts(histograms.rows)
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
    """Epsilon of a list of histograms, over every sequence of votes one person could stand behind.

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
    histograms = distinct_histograms(counts)
    groups = group_counts(histograms.rows)
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
    """Epsilon of a list of queries over all teachers, each standing behind its own votes.

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
    votes = labels if isinstance(labels, VoteGroups) else vote_groups(labels, counts=counts, n_classes=n_classes)
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
    """Privacy loss distribution of a whole list of queries, to compose with others in dp_accounting.

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

    histograms = distinct_histograms(check_counts(counts))
    table = dominating_masses(group_counts(histograms.rows), noise, discretization, threshold=threshold)
    times = histograms.multiplicity.astype(np.float64)
    found = []
    for side in (0, 1):
        low, masses, lost = compose_masses(LossTable(discretization, table.masses[side]), times, tail)
        found.append(pld_pmf.DensePLDPmf(discretization, low, masses, lost, True))
    return privacy_loss_distribution.PrivacyLossDistribution(*found)
