"""One record's ballot in whole numbers, and how far a replaced unit can move their sum.

A record (x, y) has a public direction phi(x), |phi| <= 1, and a class y of m. With :data:`GRID` = 2^16 = G, phi is cut
to whole numbers p = trunc(G phi), and the **class ballot** is the d x m matrix of whole numbers

    b = m p (x) e_y - p (x) 1            (that is m G times phi (x) c_y, c_y = e_y - 1/m the centred one-hot)

so that no centring is ever rounded. A **residual ballot** is p (x) r with r = trunc(2^16 clip_C(e_y - q(x))) for public
probabilities q. What is certified, in whole numbers, is |p|^2 <= G^2 (and p >= 0 for soft and hard votes) and
|r| <= R = floor(2^16 C); a ballot that cannot be certified is the zero ballot. From these alone:

**Squared distance of two class ballots** (p, y) and (s, z): <m e_y - 1, m e_y - 1> = m (m - 1), and
<m e_y - 1, m e_z - 1> = -m for y != z, hence

    same class:    m (m - 1) |p - s|^2
    other classes: m (m - 1) (|p|^2 + |s|^2) + 2 m <p, s>

How far replacing one unit (add-or-remove: adding one) moves the sum, squared:

- *soft or hard, replace-one*: 2 m^2 G^2. p, s >= 0 gives <p, s> >= 0, so the same class has at most 2 m (m-1) G^2 and
  other classes 2 m (m-1) G^2 + 2 m G^2 = 2 m^2 G^2. Reached by another class in the same direction.
- *signed, replace-one*: 4 m (m-1) G^2. |p - s|^2 <= 4 G^2 in the same class; other classes have 2 m^2 G^2, which is no
  more for m >= 2. Reached by the same class in the opposite direction.
- *class ballots, add-or-remove*: m (m-1) G^2, the ballot's own norm.
- *residual*: |p (x) r| = |p| |r| <= G R: 4 G^2 R^2 for replace-one (opposite directions), G^2 R^2 for add-or-remove.

**One person, several records** (:mod:`pate.records._persons`): u = sum of p (x) e_y over the person's records, whole
numbers, scaled down together until it is certified that, for soft and hard votes, |u| <= G, and for signed ones that
the centred |m u - (u 1) 1'| <= sqrt(m (m-1)) G. Centring is m times an orthogonal projection, so for soft votes two
persons differ by at most m |u - v|, and |u - v|^2 <= |u|^2 + |v|^2 <= 2 G^2 as u, v >= 0: again 2 m^2 G^2. Adding one:
|m u - (u 1) 1'|^2 = m^2 |u|^2 - m |u 1|^2 <= m (m-1) |u|^2, since for u >= 0 each row has (sum)^2 >= sum of squares.
Signed: twice, or once, the certified norm. Residual ballots of one person are summed and scaled to norm <= G R
together. So the table holds for persons too; :func:`delta_squared` is the table.

All of Delta^2 are whole numbers, and nothing of them is rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_choice, check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError

#: Whole numbers per unit of phi, and of a residual.
GRID = 1 << 16
KINDS = ("soft", "hard", "signed")
ADJACENCIES = ("replace-one", "add-or-remove")
#: Largest clip of a residual that makes sense: no e_y - q is longer.
MOST_CLIP = math.sqrt(2.0)
#: Norms above it are scaled in floating point; what rounding makes of those below is left to whole numbers.
_LONG = 1.0 + 2.0**-30
#: Rows of one exact product, which stay in the processor's cache. Up to 2^18 entries below 2^16 times entries below
#: 2^17 stay below 2^53 in every partial sum.
_CACHED_ROWS = 256
_SHRINK = 1.0 - 2.0**-12


def quantised(phi: FloatArray, kind: str) -> IntArray:
    """Return rows in whole numbers: |p|^2 <= G^2 exactly, and p >= 0 unless ``kind`` is signed.

    Each row depends on its own numbers alone: one that is not finite becomes zero, one that is too long is scaled.

    Parameters
    ----------
    phi : float64 array of shape (n, d)
    kind : {"soft", "hard", "signed"}

    Returns
    -------
    int64 array of shape (n, d)
    """
    check_choice("kind", kind, KINDS)
    rows = np.array(phi, dtype=np.float64, order="C")
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InvalidInputError(f"phi must have shape (n, d), got {rows.shape}.")
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    if kind != "signed":
        np.maximum(rows, 0.0, out=rows)
    return _certified(rows, GRID, 1.0)


def quantised_residuals(probabilities: FloatArray, labels: IntArray, clip: float) -> IntArray:
    """Return trunc(2^16 clip_C(e_y - q)) in whole numbers, |r| <= floor(2^16 C) exactly; zero where y is none.

    Parameters
    ----------
    probabilities : float64 array of shape (n, m)
        A row that is not finite gives the zero residual.
    labels : int64 array of shape (n,)
        Class indices; -1 gives the zero residual.
    clip : float
        C, in (0, sqrt 2].
    """
    clip = check_clip(clip)
    r = -np.array(probabilities, dtype=np.float64, order="C")
    known = (labels >= 0) & np.isfinite(r).all(axis=1)
    r[known, labels[known]] += 1.0
    r[~known] = 0.0
    return _certified(r, residual_norm(clip), clip)


def check_clip(clip: float) -> float:
    """Return a residual's clip."""
    remedy = "It is the norm to which e_y - p is clipped; none is longer than sqrt 2."
    return check_real("clip", clip, low=2.0**-10, high=MOST_CLIP, remedy=remedy)


def residual_norm(clip: float) -> int:
    """Return R = floor(2^16 C), exactly (a power of two times a float rounds nothing)."""
    return math.floor(clip * GRID)


def _certified(rows: FloatArray, most: int, unit: float) -> IntArray:
    """Return trunc(G rows) with every row's norm at most ``most``, and rows longer than ``unit`` scaled to it."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    # By its largest entry first, so that no square overflows or vanishes.
    safe = np.where(peak > 0, peak, 1.0)
    with np.errstate(over="ignore"):  # a row as long as that becomes zero
        long = peak * np.sqrt(np.square(rows / safe[:, None]).sum(axis=1)) / unit
    scale = np.where(long > _LONG, 1.0 / np.maximum(long, 1.0), 1.0)
    made = np.trunc(rows * scale[:, None] * GRID)
    np.clip(made, -most, most, out=made)
    for _ in range(8):
        # Squares of whole numbers up to 2^34: exact while the sum is below 2^53, and far above most^2 where it is not.
        over = np.square(made).sum(axis=1) > most * most
        if not over.any():
            return made.astype(np.int64)
        made[over] = np.trunc(made[over] * _SHRINK)
    made[np.square(made).sum(axis=1) > most * most] = 0.0
    return made.astype(np.int64)


def class_sums(p: npt.NDArray[np.signedinteger[Any]], labels: IntArray, n_classes: int) -> IntArray:
    """Return the exact sum over rows of p (x) e_y, shape (d, m); rows with label -1 count for nothing.

    Exact: float64 products of whole numbers in blocks of rows in which every partial sum, in whatever order a BLAS
    takes it, stays below 2^53; the blocks are added as int64.
    """
    hot = np.zeros((len(p), n_classes))
    known = np.flatnonzero(labels >= 0)
    hot[known, labels[known]] = 1.0
    return exact_product(p, hot)


def exact_product(p: npt.NDArray[np.signedinteger[Any]] | FloatArray, r: IntArray | FloatArray) -> IntArray:
    """Return p' r exactly, for whole numbers |p| <= 2^31 and |r| <= 1, or |p| <= 2^16 and |r| <= 2^17."""
    total = np.zeros((p.shape[1], r.shape[1]), dtype=np.int64)
    r = r.astype(np.float64, copy=False)
    for start in range(0, len(p), _CACHED_ROWS):
        part = p[start : start + _CACHED_ROWS].astype(np.float64, copy=False)
        total += (part.T @ r[start : start + _CACHED_ROWS]).astype(np.int64)
    return total


def centred(sums: IntArray) -> IntArray:
    """Return m S - (S 1) 1': the sum of class ballots from the sum of p (x) e_y, exactly.

    Examples
    --------
    >>> centred(np.array([[3, 1]]))
    array([[ 2, -2]])
    """
    return np.asarray(sums * sums.shape[1] - sums.sum(axis=1, keepdims=True))


def delta_squared(kind: str, n_classes: int, adjacency: str, clip: float | None = None) -> int:
    """Return the square of how far one unit can move a sum of ballots, an exact whole number: the module's table.

    Parameters
    ----------
    kind : {"soft", "hard", "signed"}
    n_classes : int
    adjacency : {"replace-one", "add-or-remove"}
    clip : float or None
        Of residual ballots; None for class ballots.
    """
    check_choice("kind", kind, KINDS)
    check_choice("adjacency", adjacency, ADJACENCIES)
    m, replace = n_classes, adjacency == "replace-one"
    if clip is not None:
        return (4 if replace else 1) * (GRID * residual_norm(clip)) ** 2
    if not replace:
        return m * (m - 1) * GRID**2
    return 2 * (m * GRID) ** 2 if kind != "signed" else 4 * m * (m - 1) * GRID**2


def ballot_scale(n_classes: int, clip: float | None = None) -> int:
    """Return how many whole numbers make one unit: |phi| = 1 with the centred one-hot, or with a residual."""
    return n_classes * GRID if clip is None else GRID * GRID
