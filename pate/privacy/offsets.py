"""Offsets of a threshold test: public numbers of votes that are taken off the counts before the largest is tested."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError

__all__ = ["MOST_CLASSES", "Offsets", "check_offsets", "margins_of"]


#: One number of votes for each class; or such numbers for each query.
Offsets = tuple[float, ...] | tuple[tuple[float, ...], ...]
#: Classes up to which exact figures with offsets are worked out: no two share a cost, and all triples are gone through.
MOST_CLASSES = 50
#: Offsets are multiples of 1 / this, and no larger than that: counts less offsets are then exact in float64.
_GRID = 2.0**20
_MOST = 2.0**30


def check_offsets(offsets: npt.ArrayLike, *, n_queries: int | None = None, n_classes: int | None = None) -> Offsets:
    """Return offsets as tuples, rounded to multiples of 2^-20 votes: no float that follows from them is then inexact.

    Parameters
    ----------
    offsets : array-like of shape (n_classes,), or (n_queries, n_classes)
    n_queries, n_classes : int or None
        What they must be of, where that is known.

    Raises
    ------
    InvalidInputError
        Another shape, or what is no finite number of votes.

    Examples
    --------
    >>> check_offsets([10, 0.25])
    (10.0, 0.25)
    """
    try:
        array = np.asarray(offsets, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    wanted = "(n_classes >= 2,) or (n_queries, n_classes)" if n_classes is None else f"({n_classes},)"
    if n_classes is not None and n_queries is not None:
        wanted += f" or ({n_queries}, {n_classes})"
    alike = array.ndim in (1, 2) and array.shape[-1] == (n_classes or max(2, array.shape[-1]))
    if not alike or (array.ndim == 2 and n_queries is not None and len(array) != n_queries):
        raise InvalidInputError(
            f"offsets must be numbers of votes of shape {wanted}, one of every class, got shape {array.shape}."
        )
    if not (np.abs(array) <= _MOST).all():
        raise InvalidInputError("offsets must be finite numbers of votes, from -2^30 to 2^30.")
    held = np.rint(array * _GRID) / _GRID + 0.0
    return tuple(held.tolist()) if array.ndim == 1 else tuple(map(tuple, held.tolist()))


def margins_of(counts: npt.NDArray[np.integer], offsets: Offsets) -> FloatArray:
    """Return counts less offsets, exactly: (n_queries, n_classes).

    Raises
    ------
    InvalidInputError
        Offsets of other classes, or of another number of queries.

    Examples
    --------
    >>> margins_of(np.array([[205, 190]]), (10.0, 0.5))
    array([[195. , 189.5]])
    """
    return np.asarray(counts - np.asarray(check_offsets(offsets, n_queries=len(counts), n_classes=counts.shape[1])))
