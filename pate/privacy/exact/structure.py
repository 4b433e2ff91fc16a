"""Which single votes can move, and what that does to the classes and to the largest count."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pate.core.types import FloatArray, IntArray

__all__ = ["structure"]


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
