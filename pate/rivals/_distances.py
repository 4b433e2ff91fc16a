"""How far private records are from public rows, exactly: in whole numbers of a grid that public rows define."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pate.core.checks import quietly
from pate.core.types import FloatArray, IntArray, Mask
from pate.data._ids import distinct_ids
from pate.records._maps import PublicMap, n_rows, rows_of, slabs
from pate.teachers._usable import owned
from pate.votes import ABSTAIN

#: Floats hold every whole number up to here.
_WHOLE = 2**53
#: Records that are mapped and compared at once.
_SLAB = 8192


class Grid:
    """Vectors as whole numbers, so small that their squared distances are exact in floats, summed in any order.

    A record's distance is then the same wherever it stands and whoever stands beside it: no other record can move it,
    not even in its last bit.

    Parameters
    ----------
    z_public : float array of shape (n_public, d)
        Their largest entry sets the scale; what is further out is clipped to four times that.
    """

    def __init__(self, z_public: FloatArray) -> None:
        self.n_components_ = z_public.shape[1]
        # |a - b|^2 <= d (2 * most)^2 < 2^53, and so is every part of it.
        self.most = min(2**20, math.isqrt(_WHOLE // (4 * max(1, self.n_components_))) - 1)
        self.scale = max(4 * float(np.abs(z_public).max(initial=0.0)), 1e-300)

    def transform(self, z: FloatArray) -> FloatArray:
        """Return whole numbers of shape (n, d), NaN where an entry is none."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.rint(np.clip(z / self.scale, -1.0, 1.0) * self.most))


def neighbour_votes(
    representation: Any, X: Any, labels: IntArray, groups: Any, z_public: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return each unit's squared distance from each public row, and the class it would vote for: **sensitive**.

    A person's distance is that of the nearest of their records, whose class is the person's vote; of equally near ones
    the first. What a record is, nobody else's records decide: one that cannot be read, mapped or owned, or whose class
    is none, is infinitely far.

    Parameters
    ----------
    representation : fitted public map
    X : n checked records
    labels : int array of shape (n,)
        Class indices, -1 where there is none.
    groups : array-like of shape (n,) or None
    z_public : float array of shape (n_queries, d)
        The representation of the public rows that are asked about.

    Returns
    -------
    distances : float64 array of shape (n_queries, n_units)
    labels : int64 array of shape (n_queries, n_units)
    """
    grid = Grid(z_public)
    public = grid.transform(z_public)
    look = PublicMap(representation, grid)
    rows, readable = rows_of(X, width=look.width)
    n = n_rows(rows)
    groups, has_owner = quietly("groups", owned, groups, n)
    usable = readable & has_owner & (labels != ABSTAIN)
    distances = np.empty((len(public), n))
    for start, end in slabs(n, _SLAB):
        z = look.phi(rows, np.arange(start, end))
        far = ~(np.isfinite(z).all(axis=1) & usable[start:end])
        z[far] = 0.0
        part = np.square(public).sum(axis=1)[:, None] - 2 * (public @ z.T) + np.square(z).sum(axis=1)
        distances[:, start:end] = np.where(far, np.inf, part)
    if groups is None:
        return distances, np.broadcast_to(labels, distances.shape)
    codes, ids = quietly("groups", distinct_ids, groups, n)
    return _of_persons(distances, labels, codes, len(ids))


def _of_persons(distances: FloatArray, labels: IntArray, codes: Any, n_persons: int) -> tuple[FloatArray, IntArray]:
    nearest = np.empty((len(distances), n_persons))
    votes = np.empty((len(distances), n_persons), dtype=np.int64)
    for j, row in enumerate(distances):
        order = np.lexsort((row, codes))  # stable: of equally near records the first
        first: Mask = np.r_[True, codes[order][1:] != codes[order][:-1]]
        nearest[j], votes[j] = row[order][first], labels[order][first]
    return nearest, votes
