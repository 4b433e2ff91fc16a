"""Vote counts to distinct sorted histograms, and those to groups of equal counts.

The noisy maximum treats classes alike, so the cost of a histogram depends on its counts as a multiset only, and
classes with equal counts share their results. Where a threshold test has offsets, classes are alike where counts and
offsets both agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.offsets import MOST_CLASSES

__all__ = [
    "Groups",
    "Histograms",
    "check_counts",
    "distinct_histograms",
    "group_counts",
    "group_ranks",
    "merge_far",
    "most_classes",
    "structure",
]


# Which single votes can move, and what that does to the classes and to the largest count.


def structure(values: IntArray, sizes: IntArray) -> tuple[FloatArray, npt.NDArray[np.bool_], npt.NDArray[np.int8]]:
    """Describe all neighbours of histograms with G distinct counts, one vote moved from group u to group b.

    Parameters
    ----------
    values, sizes : (B, G) int arrays
        Distinct counts in decreasing order, and the number of classes with each.

    Returns
    -------
    classes : (B, G + 2, G, G)
        Number of classes left unchanged in each group, then 1 for the loser and 1 for the winner.
    valid : (B, G, G)
        Whether there is such a neighbour: the loser has a vote, and there are two classes if u = b.
    change : (B, G, G)
        Change of the largest count: -1, 0 or 1.

    Examples
    --------
    >>> classes, valid, change = structure(np.array([[3, 0]]), np.array([[1, 2]]))
    >>> valid[0].tolist(), change[0].tolist()
    ([[False, True], [False, False]], [[1, -1], [1, 0]])
    """
    n, g = values.shape
    eye = np.eye(g)
    classes = np.empty((n, g + 2, g, g))
    classes[:, :g] = sizes[:, :, None, None] - eye[None, :, :, None] - eye[None, :, None, :]
    classes[:, g:] = 1.0
    valid = np.broadcast_to(values[:, :, None] >= 1, (n, g, g)).copy()
    own = np.arange(g)
    valid[:, own, own] &= sizes >= 2
    np.maximum(classes, 0.0, out=classes)
    change = np.zeros((n, g, g), dtype=np.int8)
    change[:, 0, :] = np.where((sizes[:, :1] == 1) & (values < values[:, :1] - 1), -1, 0)
    change[:, :, 0] = 1
    return classes, valid, change


_CHUNK = 1 << 17


@dataclass(frozen=True)
class Histograms:
    """Distinct sorted histograms and where each query's is.

    Attributes
    ----------
    rows : (n_distinct, n_classes) int array, every row in decreasing order
    inverse : (n_queries,) index of the row of each query
    multiplicity : (n_distinct,) number of queries with this row
    margins : (n_distinct, n_classes) counts less offsets, beside ``rows``; None where there are no offsets
    """

    rows: IntArray
    inverse: IntArray
    multiplicity: IntArray
    margins: FloatArray | None = None

    def groups(self, part: slice = slice(None)) -> Groups:
        """Return the groups of equal counts (and offsets) of some of the distinct rows."""
        return group_counts(self.rows[part], None if self.margins is None else self.margins[part])


@dataclass(frozen=True)
class Groups:
    """Groups of equal counts of sorted histograms, one histogram after the other.

    Attributes
    ----------
    offsets : (n + 1,) start of each histogram's groups
    values : (offsets[-1],) the counts, decreasing within a histogram
    sizes : (offsets[-1],) number of classes with that count
    margins : (offsets[-1],) counts less the offsets of a threshold test, or None where there are no such offsets;
        classes of one group have equal counts and equal offsets, and two groups may have equal counts
    """

    offsets: IntArray
    values: IntArray
    sizes: IntArray
    margins: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_groups(self) -> IntArray:
        """(n,) number of distinct counts of each histogram."""
        return np.diff(self.offsets)

    def take(self, index: npt.ArrayLike) -> Groups:
        """Return the groups of some of the histograms."""
        index = np.asarray(index, dtype=np.int64)
        n_groups = self.n_groups[index]
        offsets = np.concatenate([[0], np.cumsum(n_groups)])
        flat = np.repeat(self.offsets[index] - offsets[:-1], n_groups) + np.arange(offsets[-1])
        return Groups(
            offsets, self.values[flat], self.sizes[flat], None if self.margins is None else self.margins[flat]
        )

    def tested(
        self, index: IntArray, classes: FloatArray, change: npt.NDArray[np.int8]
    ) -> tuple[npt.NDArray[np.integer] | FloatArray, npt.NDArray[np.int8] | FloatArray]:
        """Return what a threshold test looks at, (B,), and what each moved vote changes of it, (B, G, G).

        ``index`` are B histograms of G groups each; ``classes`` and ``change`` are of :func:`structure`. Without
        offsets they are the largest count and ``change``. With offsets it is h = max (count - offset), and after a vote
        moved from u to b the largest of what is left, of u's less 1 and of b's plus 1: never more than 1 from h.
        """
        flat = self.offsets[index][:, None] + np.arange(change.shape[-1])
        if self.margins is None:
            return self.values[flat[:, 0]], change
        margins = self.margins[flat]
        top, left = margins.max(axis=1), classes[:, : flat.shape[1]] > 0
        rest = np.where(left, margins[:, :, None, None], -np.inf).max(axis=1)
        after = np.maximum(rest, np.maximum(margins[:, :, None] - 1, margins[:, None, :] + 1))
        return top, after - top[:, None, None]


def check_counts(counts: npt.ArrayLike) -> npt.NDArray[np.integer]:
    """Return vote counts as an integer array of shape (n_queries, n_classes).

    Examples
    --------
    >>> check_counts([3, 1])
    array([[3, 1]])
    >>> check_counts([[0.5, 1.0]])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: counts must hold whole numbers of votes, ...
    """
    array = np.asarray(counts)
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[1] < 2:
        raise InvalidInputError(f"counts must have shape (n_queries, n_classes >= 2), got {array.shape}.")
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"counts must hold whole numbers of votes, got dtype {array.dtype}.")
    if array.size and (array.min() < 0 or array.max() > 2**31 - 2):
        raise InvalidInputError("counts must lie between 0 and 2**31 - 2. Pass numbers of votes.")
    return array


def distinct_histograms(counts: npt.NDArray[np.integer], margins: FloatArray | None = None) -> Histograms:
    """Sort every histogram and keep each distinct one once.

    With ``margins``, counts less offsets, classes are alike only where both agree: equal counts do not cost the same.

    Examples
    --------
    >>> found = distinct_histograms(np.array([[1, 3], [2, 2], [3, 1]]))
    >>> found.rows[found.inverse].tolist()
    [[3, 1], [2, 2], [3, 1]]
    """
    n_queries, n_classes = counts.shape
    if not n_queries:
        empty = np.zeros(0, dtype=np.int64)
        return Histograms(np.zeros((0, n_classes), dtype=np.int64), empty, empty, margins)
    if margins is not None:
        if n_classes > MOST_CLASSES:
            raise InvalidInputError(
                f"exact figures with offsets are for at most {MOST_CLASSES} classes, got {n_classes}. The public cost "
                "is for any number."
            )
        order = np.lexsort((-margins, -counts.astype(np.int64)), axis=1)
        both = np.concatenate([np.take_along_axis(a, order, axis=1) for a in (counts.astype(float), margins)], axis=1)
        both, inverse, multiplicity = np.unique(both, axis=0, return_inverse=True, return_counts=True)
        rows = both[:, :n_classes].astype(np.int64)
        return Histograms(rows, inverse.reshape(-1), multiplicity, both[:, n_classes:])
    width = np.int32 if counts.max() > np.iinfo(np.int16).max else np.int16
    # A random odd combination modulo 2**64 finds equal rows by sorting one number per row; below, every row is
    # compared with its representative, so a collision can cost time but never correctness.
    mixer = np.random.default_rng(0x5EED).integers(1, 2**63, size=n_classes, dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    rows = np.empty((n_queries, n_classes), dtype=width)
    keys = np.empty(n_queries, dtype=np.uint64)
    for start in range(0, n_queries, _CHUNK):
        part = rows[start : start + _CHUNK]
        part[:] = counts[start : start + _CHUNK]
        part.sort(axis=1)
        keys[start : start + _CHUNK] = (part.astype(np.uint64) * mixer).sum(axis=1)
    _, first, inverse, multiplicity = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    same = all(
        (rows[first[inverse[s : s + _CHUNK]]] == rows[s : s + _CHUNK]).all() for s in range(0, n_queries, _CHUNK)
    )
    if same:
        distinct = rows[first]
    else:
        distinct, inverse, multiplicity = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return Histograms(distinct[:, ::-1].astype(np.int64), inverse.reshape(-1), multiplicity)


def group_counts(rows: IntArray, margins: FloatArray | None = None) -> Groups:
    """Group the equal counts (and margins) of sorted histograms.

    Examples
    --------
    >>> groups = group_counts(np.array([[5, 2, 2], [3, 3, 3]]))
    >>> groups.offsets.tolist(), groups.values.tolist(), groups.sizes.tolist()
    ([0, 2, 3], [5, 2, 3], [1, 2, 3])
    """
    starts = np.ones(rows.shape, dtype=bool)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=starts[:, 1:])
    if margins is not None:
        starts[:, 1:] |= margins[:, 1:] != margins[:, :-1]
    flat = np.flatnonzero(starts)
    sizes = np.diff(np.append(flat, rows.size))
    offsets = np.concatenate([[0], np.cumsum(starts.sum(axis=1))])
    values = np.ascontiguousarray(rows).reshape(-1)[flat].astype(np.int64)
    return Groups(offsets, values, sizes, None if margins is None else np.ascontiguousarray(margins).reshape(-1)[flat])


def group_ranks(counts: npt.NDArray[np.integer], margins: FloatArray | None = None) -> IntArray:
    """Return in which group, by place, every class of every query is: (n_queries, n_classes).

    Examples
    --------
    >>> (
    ...     group_ranks(np.array([[2, 5, 2]])),
    ...     group_ranks(np.array([[2, 5, 2]]), np.array([[1.0, 3.0, 2.0]])),
    ... )
    (array([[1, 0, 1]]), array([[2, 0, 1]]))
    """
    keys = [-counts.astype(np.int64)] if margins is None else [-margins, -counts.astype(np.int64)]
    order = np.lexsort(keys, axis=1)
    starts = np.zeros(counts.shape, dtype=np.int64)
    for key in keys:
        ranked = np.take_along_axis(key, order, axis=1)
        starts[:, 1:] |= ranked[:, 1:] != ranked[:, :-1]
    ranks = np.empty_like(starts)
    np.put_along_axis(ranks, order, np.cumsum(starts, axis=1), axis=1)
    return ranks


def most_classes(groups: Groups) -> int:
    """Return the largest number of classes of a histogram.

    Examples
    --------
    >>> most_classes(group_counts(np.array([[5, 2, 2], [3, 3, 3]])))
    3
    """
    return int(np.add.reduceat(groups.sizes, groups.offsets[:-1]).max()) if len(groups) else 0


def merge_far(groups: Groups, cut: float) -> tuple[Groups, IntArray]:
    """Merge the groups more than ``cut`` votes below the leader, whose costs cannot be distinguished.

    Their outcomes contribute less than the smallest double, and the integrals of the others do not feel where exactly
    they lie. Groups are left alone where all the far counts are 0: no change can take a vote from those.

    Returns
    -------
    merged : Groups
    place : (groups.offsets[-1],) index of the merged group of each group

    Examples
    --------
    >>> merged, place = merge_far(group_counts(np.array([[900, 3, 2, 0]])), 100)
    >>> merged.values.tolist(), merged.sizes.tolist(), place.tolist()
    ([900, 800], [1, 3], [0, 1, 1, 1])
    """
    lengths = groups.n_groups
    row = np.repeat(np.arange(len(groups)), lengths)
    limit = np.floor(groups.values[groups.offsets[:-1]] - cut).astype(np.int64)
    far = groups.values < limit[row]
    movable = np.bincount(row, weights=far & (groups.values > 0), minlength=len(groups)) > 0
    far &= movable[row]
    if not far.any():
        return groups, np.arange(len(groups.values))
    first_far = far & ~np.concatenate([[False], far[:-1] & (row[1:] == row[:-1])])
    keep = ~far | first_far
    place = np.cumsum(keep) - 1
    sizes = np.bincount(place, weights=groups.sizes).astype(np.int64)
    values = np.where(first_far, limit[row], groups.values)[keep]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row[keep], minlength=len(groups)))])
    return Groups(offsets, values, sizes), place
