"""Accounting by teacher: a person stands behind one vote per query, so sum that vote's cost, not the worst vote's.

For a fixed list of public queries and teachers that share no private data, data sets that differ in the shard
of teacher t give product laws, and

    D_a(M(D) || M(D')) <= sum_i max_b D_a(n_i || n_i - e_{v_ti} + e_b),

and likewise for the other direction. The two directions are summed apart; the largest over teachers and directions
bounds every neighbour.

Guarantees
----------
Adjacency: one shard is replaced, hence one vote in every query. Queries fixed in advance; the bound holds for the
realised training seeds. It is void when teachers share anything fitted on private data. The values are private: they
depend on the votes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_orders
from pate.privacy.exact._histograms import Groups, Histograms, check_counts, distinct_histograms, group_ranks
from pate.privacy.exact._laws import NoiseLike, group_divergences, run_chunks, worker_count
from pate.privacy.exact.noise import ThresholdTest

__all__ = ["VoteGroups", "per_teacher_rdp", "vote_groups"]


#: Rounding of one long sum, relative to its terms: covers the corrections of a dissenter's total.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class VoteGroups:
    """Which group of equal counts every vote fell into.

    Attributes
    ----------
    histograms : Histograms
    groups : Groups
        Groups of the distinct histograms.
    votes : (n_teachers, n_queries) array
        Rank of the voted class's count among the distinct counts of its query: 0 for the largest.
    """

    histograms: Histograms
    groups: Groups
    votes: npt.NDArray[np.integer]

    def matrix(self, rows: IntArray | slice | None = None) -> sparse.csr_matrix:
        """Return how often each teacher voted in each group: (n_teachers, n_groups_total), sparse."""
        votes = self.votes if rows is None else self.votes[rows]
        columns = self.groups.offsets[self.histograms.inverse] + votes
        indptr = np.arange(len(votes) + 1) * votes.shape[1]
        shape = len(votes), len(self.groups.values)
        found = sparse.csr_matrix((np.ones(columns.size), columns.reshape(-1), indptr), shape=shape)
        found.sum_duplicates()
        return found


def _check_labels(
    labels: npt.ArrayLike, counts: npt.ArrayLike | None, n_classes: int | None
) -> tuple[IntArray, IntArray]:
    array = np.asarray(labels)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels must be class indices of shape (n_teachers, n_queries), got shape {array.shape} of {array.dtype}."
        )
    if array.min() < 0:
        raise InvalidInputError("labels must be class indices >= 0: every teacher votes in every query.")
    size = n_classes if counts is None else check_counts(counts).shape[1]
    size = int(array.max()) + 1 if size is None else size
    if size < 2 or array.max() >= size:
        raise InvalidInputError(f"labels must be class indices below the number of classes ({size}).")
    n_queries = array.shape[1]
    own = np.zeros((n_queries, size), dtype=np.int64)
    step = max(1, (1 << 24) // array.shape[0])
    for start in range(0, n_queries, step):
        part = array[:, start : start + step]
        index = np.arange(part.shape[1]) * size + part
        own[start : start + step] = np.bincount(index.reshape(-1), minlength=part.shape[1] * size).reshape(-1, size)
    if counts is not None and not np.array_equal(own, check_counts(counts)):
        raise InvalidInputError("counts are not the counts of labels. Pass labels alone, or counts made from them.")
    return array, own


def vote_groups(
    labels: npt.ArrayLike,
    *,
    counts: npt.ArrayLike | None = None,
    n_classes: int | None = None,
    threshold: ThresholdTest | None = None,
) -> VoteGroups:
    """Sort votes into the groups of equal counts (and offsets) of their queries.

    Parameters
    ----------
    labels : (n_teachers, n_queries) int array
        Class index voted by each teacher.
    counts : (n_queries, n_classes) int array, optional
        Checked against the labels.
    n_classes : int, optional
        Number of classes when ``counts`` is not given; the largest label plus one otherwise.
    threshold : ThresholdTest, optional
        By whose offsets classes of equal counts differ.

    Returns
    -------
    VoteGroups

    Raises
    ------
    InvalidInputError
        Labels outside the classes, abstentions (-1), or counts that are not those of the labels.

    Examples
    --------
    >>> found = vote_groups([[0, 1], [0, 0], [1, 0]])
    >>> found.votes.tolist()
    [[0, 1], [0, 0], [1, 0]]
    """
    array, own = _check_labels(labels, counts, n_classes)
    margins = None if threshold is None else threshold.margins(own)
    histograms = distinct_histograms(own, margins)
    groups = histograms.groups()
    votes = np.empty(array.shape, dtype=np.int16 if groups.n_groups.max() < 2**15 else np.int32)
    step = max(1, (1 << 22) // max(array.shape[0], own.shape[1]))
    for start in range(0, array.shape[1], step):
        stop = min(start + step, array.shape[1])
        rank = group_ranks(own[start:stop], None if margins is None else margins[start:stop])
        votes[:, start:stop] = rank[np.arange(stop - start), array[:, start:stop]]
    return VoteGroups(histograms, groups, votes)


def per_teacher_rdp(
    labels: npt.ArrayLike | VoteGroups,
    orders: npt.ArrayLike,
    *,
    noise: NoiseLike,
    threshold: ThresholdTest | None = None,
    counts: npt.ArrayLike | None = None,
    n_classes: int | None = None,
) -> FloatArray:
    """Return the total Renyi divergence of each teacher's votes, for any replacement of that teacher.

    Parameters
    ----------
    labels : (n_teachers, n_queries) int array, or VoteGroups
    orders : (n_orders,) floats above 1
    noise, threshold : as in :func:`exact_divergences`
    counts, n_classes : as in :func:`vote_groups`

    Returns
    -------
    (n_teachers, n_orders, 2) array
        Forward and reverse sums, raw: pass through :func:`upper_bound` for a guarantee. The data-dependent RDP
        of the run is
        ``.max(axis=(0, 2))``.

    Raises
    ------
    InvalidInputError
        As :func:`vote_groups`, or orders not above 1.

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> per_teacher_rdp([[0, 0], [0, 0], [1, 0]], [2.0], noise=GaussianNoise(2.0)).shape
    (3, 1, 2)
    """
    alphas = check_orders(orders)
    found = (
        labels
        if isinstance(labels, VoteGroups)
        else vote_groups(labels, counts=counts, n_classes=n_classes, threshold=threshold)
    )
    unique, back = np.unique(alphas, return_inverse=True)
    groups, inverse = found.groups, found.histograms.inverse
    n_teachers = len(found.votes)
    # Queries in the order of their histograms, so that one chunk of histograms is one run of queries.
    by_histogram = np.argsort(inverse, kind="stable")
    ends = np.concatenate([[0], np.cumsum(found.histograms.multiplicity)])
    base: dict[int, FloatArray] = {}
    corrections = np.zeros((worker_count(), n_teachers, 2 * len(unique)))
    free = list(range(worker_count()))

    def work(part: slice) -> None:
        inside = groups.take(np.arange(part.start, part.stop))
        cost = group_divergences(inside, noise, unique, threshold=threshold).reshape(len(inside.values), -1)
        leading = cost[inside.offsets[:-1]]
        weight = found.histograms.multiplicity[part].astype(np.float64)
        base[part.start] = weight @ leading
        # Most votes are for the leader: count everyone as such and correct the dissenters.
        extra = cost - np.repeat(leading, inside.n_groups, axis=0)
        queries = by_histogram[ends[part.start] : ends[part.stop]]
        local = inside.offsets[inverse[queries] - part.start]
        slot = free.pop()
        size = max(1, (1 << 22) // n_teachers)
        for piece in (slice(at, at + size) for at in range(0, len(queries), size)):
            votes = found.votes[:, queries[piece]]
            teacher, column = np.nonzero(votes)
            target = local[piece][column] + votes[teacher, column]
            counted = sparse.coo_matrix(
                (np.ones(len(teacher)), (teacher, target)), shape=(n_teachers, len(extra))
            ).tocsr()
            corrections[slot] += counted @ extra
        free.append(slot)

    run_chunks(work, len(groups))
    total = np.sum([base[start] for start in sorted(base)], axis=0)
    # A dissenter's total is a difference of sums: whatever rounding it lost stays on the safe side.
    sums = np.maximum(total + corrections.sum(axis=0), 0.0) + _ROUNDING * total
    return np.moveaxis(sums.reshape(n_teachers, 2, len(unique)), 1, 2)[:, back]
