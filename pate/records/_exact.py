"""Products of rows with a public matrix that do not depend on where a row stands: sums of whole numbers.

Every product and every partial sum is a whole number below 2^53 times a power of two, in whatever order a BLAS takes
them: a row gives the same result to the last bit alone, first or last in a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.core.types import FloatArray, Mask

#: Steps between 0 and the largest input: 2^22, a precision of 2e-7 of it.
_INPUT_BITS = 22


@dataclass(frozen=True)
class ExactMap:
    """The affine map (x - centre) @ weights on rows within bounds, evaluated without rounding in its sums.

    Attributes
    ----------
    centre, half : float64 arrays of shape (n_in,)
        Inputs lie within ``centre`` plus or minus ``half``; others are clipped.
    weights : float64 array of shape (n_in, n_out)
        Whole numbers.
    unit : float64 array of shape (n_out,)
        Powers of two: what 1 of each sum is worth.

    Examples
    --------
    >>> product = ExactMap.of(np.eye(2), low=np.array([0.0, 0.0]), high=np.array([4.0, 4.0]))
    >>> product(np.array([[1.0, 3.0]])) + 2.0
    array([[1., 3.]])
    """

    centre: FloatArray
    half: FloatArray
    weights: FloatArray
    unit: FloatArray

    @classmethod
    def of(cls, weights: FloatArray, *, low: FloatArray, high: FloatArray) -> ExactMap:
        """Return the map by ``weights`` of rows between ``low`` and ``high``, taken from the middle between them."""
        half = np.maximum((high - low) / 2, 1e-290)
        scaled = weights * half[:, None]
        largest = np.abs(scaled).sum(axis=0)
        # sum_i |w_i| 2^22 <= 2^52 before the weights are rounded, each by at most a half: below 2^53 after it.
        _, exponents = np.frexp(np.where(largest > 0, largest, 1.0))
        bits = np.minimum(52 - _INPUT_BITS - exponents, 900)
        whole = np.rint(np.ldexp(scaled, bits))
        while _beyond(whole).any():  # very many inputs
            bits = bits - _beyond(whole)
            whole = np.rint(np.ldexp(scaled, bits))
        return cls(low + half, half, whole, np.ldexp(1.0, -bits - _INPUT_BITS))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return float64 rows of shape (n, n_out)."""
        steps = np.clip((rows - self.centre) / self.half, -1.0, 1.0)
        np.rint(np.ldexp(steps, _INPUT_BITS, out=steps), out=steps)
        made = steps @ self.weights
        made *= self.unit
        return made


def _beyond(weights: FloatArray) -> Mask:
    """Return for which outputs a sum could pass 2^53."""
    return np.asarray(np.abs(weights).sum(axis=0) > 2.0 ** (53 - _INPUT_BITS))
