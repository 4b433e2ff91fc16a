"""One person's records clipped together, in whole numbers; every step depends on that person's records alone.

Rows come sorted so that each person's stand side by side. Class ballots of one person are held as one sum of directions
per class that they have (u = sum of p (x) e_y, row by row of u'), which is small where people have few records.
"""

from __future__ import annotations

import math

import numpy as np

from pate.core.types import FloatArray, IntArray
from pate.records.ballots import GRID, class_sums, exact_product, residual_norm

_SHRINK = 1.0 - 2.0**-10
_TURNS = 64


def most_records(n_classes: int) -> int:
    """Return K: who has k > K records has their sum scaled by K/k first, so that squares fit 64 bits. Public.

    m |u|^2 <= m (K 2^16)^2 <= 2^62.
    """
    return math.isqrt((1 << 30) // n_classes)


def person_sums(p: IntArray, labels: IntArray, owners: IntArray, *, n_classes: int, kind: str) -> IntArray:
    """Return the sum over persons of their clipped u, shape (d, m), not yet centred.

    Parameters
    ----------
    p : int64 array of shape (n, d)
        Of :func:`quantised`, zero where a record casts none.
    labels : int64 array of shape (n,)
        Class indices, -1 where a record casts none.
    owners : int64 array of shape (n,)
        Each person's rows side by side, all of theirs.
    n_classes : int
    kind : {"soft", "hard", "signed"}
    """
    used = labels >= 0
    p, labels, owners = p[used], labels[used], owners[used]
    if not len(p):
        return np.zeros((p.shape[1], n_classes), dtype=np.int64)
    who = np.cumsum(np.r_[0, owners[1:] != owners[:-1]])
    order = np.lexsort((labels, who))
    who, labels = who[order], labels[order]
    starts = np.flatnonzero(np.r_[True, (who[1:] != who[:-1]) | (labels[1:] != labels[:-1])])
    sums = np.add.reduceat(p[order], starts, axis=0)
    who, labels = who[starts], labels[starts]
    n_records = np.bincount(who, weights=np.diff(np.r_[starts, len(order)])).astype(np.int64)
    most = most_records(n_classes)
    many = n_records > most
    sums = np.where(many[who, None], np.trunc(sums * (most * 0.999 / np.maximum(n_records, 1))[who, None]), sums)
    return class_sums(_within(sums.astype(np.int64), who, n_classes, kind), labels, n_classes)


def _within(sums: IntArray, who: IntArray, n_classes: int, kind: str) -> IntArray:
    """Scale each person's sums, together, to the certified norm."""
    first = np.flatnonzero(np.r_[True, who[1:] != who[:-1]])
    most = GRID * GRID * (n_classes - 1 if kind == "signed" else 1)

    def squared(of: IntArray) -> IntArray:
        whole = np.add.reduceat(np.square(of).sum(axis=1), first)
        if kind != "signed":
            return np.asarray(whole)
        # |m u - (u 1) 1'|^2 / m = m |u|^2 - |u 1|^2, to stay within (m - 1) G^2
        return np.asarray(n_classes * whole - np.square(np.add.reduceat(of, first, axis=0)).sum(axis=1))

    norms = squared(sums)
    over = norms > most
    scale = np.where(over, np.sqrt(most / np.maximum(norms, 1)), 1.0)
    made = sums
    for _ in range(_TURNS):
        if not over.any():
            return made
        made = np.where(over[who, None], np.trunc(sums * scale[who, None]), made).astype(np.int64)
        over = squared(made) > most
        scale = np.where(over, scale * _SHRINK, scale)
    return np.where(over[who, None], 0, made)


def person_residual_sums(p: IntArray, r: IntArray, owners: IntArray, *, clip: float) -> IntArray:
    """Return the sum over persons of their clipped sums of p (x) r, shape (d, m).

    A person's sum is brought to whole multiples of 2^16 (a 65,536th of a ballot), scaled down to norm G R, certified
    in whole numbers.
    """
    total = np.zeros((p.shape[1], r.shape[1]), dtype=np.int64)
    if not len(p):
        return total
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    most = residual_norm(clip)  # G R in units of 2^16
    for start, end in zip(starts, np.r_[starts[1:], len(p)], strict=True):
        total += _shortened(exact_product(p[start:end], r[start:end]) / GRID, most)
    return total * GRID


def _shortened(u: FloatArray, most: int) -> IntArray:
    """Return trunc(f u) with norm at most ``most`` in whole numbers, f the largest in (0, 1] but for rounding."""
    peak = float(np.abs(u).max(initial=0.0))
    if peak == 0.0:
        return np.zeros(u.shape, dtype=np.int64)
    length = peak * math.sqrt(float(np.square(u / peak).sum()))
    scale = min(1.0, most / length)
    for _ in range(_TURNS):
        made = np.clip(np.trunc(u * scale), -most, most).astype(np.int64)
        if int(np.square(made).sum()) <= most * most:
            return made
        scale *= _SHRINK
    return np.zeros(u.shape, dtype=np.int64)
