"""A product of matrices whose every sum is exact, so that neither the order of adding nor a row's place shows in it.

BLAS adds in an order that hangs on a row's place in its block, on the number of threads and on the machine: the last
bits differ, and with them, after rounding, ballots of other records when one record is taken away. Here rows and
weights are whole numbers, small enough that every partial sum stays below 2^53: float64 then adds exactly, in any order
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 2.1: integers up to 2^53 are exact).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.types import FloatArray, Mask

#: Steps between 0 and the largest input: 2^22, a precision of 2e-7 of it.
_INPUT_BITS = 22
#: Summands beyond it count as it: far from overflow, whatever they are added to.
_FAR = 2.0**900


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

    def state(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return its arrays, for a file."""
        return {
            f"{name}.centre": self.centre,
            f"{name}.half": self.half,
            f"{name}.weights": self.weights,
            f"{name}.unit": self.unit,
        }

    @classmethod
    def restore(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> ExactMap:
        """Return the map that :meth:`state` described, after looking whether its sums are exact."""
        centre, half, weights = (arrays[f"{name}.{part}"] for part in ("centre", "half", "weights"))
        unit = arrays[f"{name}.unit"]
        fits = centre.shape == half.shape == weights.shape[:1] and weights.ndim == 2 and unit.shape == weights.shape[1:]
        exact = np.array_equal(weights, np.rint(weights)) and bool((np.frexp(unit)[0] == 0.5).all())
        if not (fits and exact and np.isfinite(centre).all() and (half > 0).all()):
            raise ValueError("not an exact map")
        if _beyond(weights).any():
            raise ValueError("sums beyond 2^53")
        return cls(centre, half, weights, unit)


def own_product(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Return rows @ weights, each row's numbers the same to the last bit wherever it stands, in any number of rows.

    For rows without public bounds: every row is scaled by a power of two of its own, and every column by one of the
    weights, so that the largest summand has 22 bits; then sums are exact (:class:`ExactMap`).

    Parameters
    ----------
    rows : float64 array of shape (n, n_in)
        Finite.
    weights : float64 array of shape (n_in, n_out)
        Finite.

    Examples
    --------
    >>> own_product(np.array([[3.0, 1e6], [0.5, 0.0]]), np.array([[1.0, 0.0], [0.0, 1e-6]])).round(5)
    array([[3. , 1. ],
           [0.5, 0. ]])
    """
    largest = np.abs(weights).max(axis=1, initial=0.0)
    _, exponents = np.frexp(largest)
    unit = np.ldexp(1.0, np.clip(exponents, -900, 900))
    with np.errstate(over="ignore"):
        scaled = rows * np.where(largest > 0, unit, 0.0)
    np.clip(scaled, -_FAR, _FAR, out=scaled)
    _, exponents = np.frexp(np.maximum(scaled.max(axis=1, initial=0.0), -scaled.min(axis=1, initial=0.0))[:, None])
    own = np.ldexp(1.0, np.maximum(exponents, -900))  # powers of two: nothing is rounded by them
    one = np.ones(len(weights))
    scaled /= own
    made = ExactMap.of(weights / unit[:, None], low=-one, high=one)(scaled)
    made *= own
    return made


def _beyond(weights: FloatArray) -> Mask:
    """Return for which outputs a sum could pass 2^53."""
    return np.asarray(np.abs(weights).sum(axis=0) > 2.0 ** (53 - _INPUT_BITS))
