"""Histograms that exercise every branch of a mechanism: the bank decides what a test of its law can see."""

from __future__ import annotations

import numpy as np

from pate.core.checks import check_int, check_real
from pate.core.types import IntArray

__all__ = ["WIDE", "law_bank", "telling_height", "wide_bank"]

#: Many classes: the largest of so many noises moves with their scale, which one release of ten classes hardly shows.
WIDE = 1_000
#: Scales by which a leader over so many equals stands above them where its chance to win tells most of the scale:
#: where the divergence of 0.9 from 1 scale is largest, found on a grid (experiments/audit_power.py).
_HEIGHTS = ((2, 2.1), (3, 2.2), (10, 2.5), (100, 3.1), (WIDE, 3.7))


def telling_height(n_classes: int) -> float:
    """Return by how many scales a leader should stand above ``n_classes - 1`` equals."""
    known = np.log([n for n, _ in _HEIGHTS])
    return float(np.interp(np.log(n_classes), known, [height for _, height in _HEIGHTS]))


def wide_bank(scale: float, top: int) -> dict[str, IntArray]:
    """Return histograms of two and of a thousand classes, with a leader at ``top`` votes at least.

    Among a thousand it stands 3.3 scales above the others: that tells nearly as much of the scale as 3.7, and a third
    more of noise that differs between classes.
    """
    found = {}
    for m, name, height in ((2, "two classes in all", telling_height(2)), (WIDE, "a thousand classes", 3.3)):
        gap = round(height * scale)
        row = np.full(m, max(top, gap) - gap, dtype=np.int64)
        row[m // 2] += gap
        found[name] = row
    return found


def law_bank(
    n_classes: int, scale: float, *, threshold: float | None = None, scale1: float | None = None
) -> dict[str, IntArray]:
    """Return histograms, by name, that exercise every branch of a noisy argmax (and of a threshold test).

    Nobody votes; one teacher; a leader over equals, where its chance to win tells most of the scale (about 2.5 scales
    for ten classes), at the first, a middle and the last index; a tie of the first and the last class; two classes
    over empty ones; a staircase. With a threshold T the leaders stand at T - scale1, T, T + scale1 and T + 2 scale1,
    and all classes are alike above it,
    so that every branch is taken and one histogram tells of both noises.

    Parameters
    ----------
    n_classes : int
        >= 2.
    scale : float
        The argmax noise, in votes.
    threshold, scale1 : float, optional
        Of the threshold test.

    Returns
    -------
    dict of str to numpy.ndarray of int64, shape (n_classes,)

    Examples
    --------
    >>> law_bank(4, 10.0)["leader in the middle"]
    array([ 0,  0, 23,  0])
    >>> law_bank(4, 10.0, threshold=200, scale1=50.0)["leader at T, first"]
    array([200, 177, 177, 177])
    """
    n_classes = check_int("n_classes", n_classes, low=2)
    scale = check_real("scale", scale, low=0, low_open=True)
    height = round(telling_height(n_classes) * scale)
    index, middle, last = np.arange(n_classes), n_classes // 2, n_classes - 1

    def leader(at: int, top: float, below: int = height) -> IntArray:
        # Clipped at 0: a histogram of votes.
        top = max(round(top), 0)
        return np.where(index == at, top, max(top - below, 0)).astype(np.int64)

    high = float(height) if threshold is None or scale1 is None else max(threshold + 2 * scale1, float(height))
    tie = leader(0, high, round(2.0 * scale))
    tie[last] = tie[0]
    two = np.zeros(n_classes, dtype=np.int64)
    two[[middle - 1, last]] = round(high), max(round(high) - round(2.1 * scale), 0)
    one = np.zeros(n_classes, dtype=np.int64)
    one[last] = 1
    step = round(0.4 * scale * min(1.0, 9 / last))
    stairs = max(round(high) - step * last, 0) + step * index
    bank = {"nobody votes": np.zeros(n_classes, dtype=np.int64), "one teacher": one}
    if threshold is None or scale1 is None:
        bank |= {
            "leader first": leader(0, high),
            "leader in the middle": leader(middle, high),
            "leader last, all vote": leader(last, high) + 3 * round(scale),
        }
    else:
        bank |= {
            "leader at T - s1, last": leader(last, threshold - scale1),
            "leader at T, first": leader(0, threshold),
            "leader at T + s1, last": leader(last, threshold + scale1),
            "leader at T + 2 s1, middle": leader(middle, high),
            "all alike, above T": np.full(n_classes, round(high), dtype=np.int64),
        }
    return bank | {"tie of first and last": tie, "two classes": two, "stairs": stairs.astype(np.int64)}
