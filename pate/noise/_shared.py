"""What the samplers share: where bits come from, and what they accept."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_real
from pate.core.types import IntArray, WordArray
from pate.exceptions import InvalidInputError

#: Draws made at once.
CHUNK = 1 << 18
#: Words below it (one in 2^33) always take the exact path.
TAIL = np.uint64(1 << 30)


class WordSource(Protocol):
    """Whatever gives uniform 64-bit words, such as ``pate.noise.source.NoiseSource``.

    Examples
    --------
    >>> from pate.noise.source import NoiseSource
    >>> isinstance(NoiseSource().words(1)[0], np.uint64)
    True
    """

    def words(self, size: int) -> WordArray:
        """Return ``size`` uniform 64-bit words.

        Examples
        --------
        >>> from pate.noise.source import NoiseSource
        >>> NoiseSource().words(2).shape
        (2,)
        """
        ...


def check_scale(name: str, value: float, *, low: float, high: float) -> float:
    """Return a noise scale, in votes, as a float within the sampler's limits.

    Examples
    --------
    >>> check_scale("sigma", 40, low=2.0**-6, high=2.0**20)
    40.0
    """
    return check_real(name, value, low=low, high=high, remedy="It is in votes; typical values are 5 to 200.")


def check_counts(counts: npt.ArrayLike) -> IntArray:
    """Return whole vote counts of shape (n_queries, n_classes) as int64.

    Examples
    --------
    >>> check_counts([[3, 4]]).dtype
    dtype('int64')
    """
    array = np.asarray(counts)
    if array.ndim != 2 or array.dtype.kind not in "iu" or array.shape[1] < 2:
        raise InvalidInputError(
            f"counts must be whole numbers of shape (n_queries, n_classes >= 2), got shape {array.shape}, "
            f"dtype {array.dtype}."
        )
    if array.size and (int(array.max()) >= 2**40 or int(array.min()) <= -(2**40)):
        raise InvalidInputError("counts must lie within +-2^40.")
    return array.astype(np.int64)
