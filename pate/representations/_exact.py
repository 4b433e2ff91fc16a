"""Exact matrix products: no sum is rounded, so neither the order of adding nor a row's place changes the result.

BLAS adds in an order that depends on a row's place in its block, on the number of threads and on the machine: the last
bits differ, and with them, after rounding, ballots of other records when one record is taken away. Here rows and
weights are whole numbers, small enough that every partial sum stays below 2^53: float64 then adds exactly, in any order
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 2.1: integers up to 2^53 are exact).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.types import FloatArray, Mask

#: Steps between 0 and the largest input: 2^22, a precision of 2e-7 of it.
INPUT_BITS = 22
#: Summands beyond it count as it: far from overflow, whatever they are added to.
_FAR = 2.0**900
#: Rows of one product by :class:`OwnProduct`, for the same reason.
OWN_ROWS = 256
#: Rows that are gone over again and again before the next ones: they stay in the processor's cache.
_CACHED_ROWS = 64
#: A step between whole coordinates is at most this share of the scale on which distances matter.
_FINE = 2.0**-14


@dataclass(frozen=True)
class ExactMap:
    """The affine map (x - centre) @ weights on rows within bounds, evaluated without rounding in its sums.

    Inputs lie within ``centre`` plus or minus ``half``, others are clipped; ``weights`` (n_in, n_out) are whole
    numbers, ``unit`` powers of two: the value of 1 in each sum.
    """

    centre: FloatArray
    half: FloatArray
    weights: FloatArray
    unit: FloatArray

    @classmethod
    def of(cls, weights: FloatArray, *, low: FloatArray, high: FloatArray) -> ExactMap:
        """Return the map by ``weights`` of rows between ``low`` and ``high``, taken from the middle between them."""
        half = np.maximum((high - low) / 2, 1e-290)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = weights * half[:, None]
        if np.isinf(scaled).any():  # of a file that somebody made: no number of bits would do
            raise ValueError("weights and bounds beyond floating point")
        largest = np.abs(scaled).sum(axis=0)
        # sum_i |w_i| 2^22 <= 2^52 before the weights are rounded, each by at most a half: below 2^53 after it.
        _, exponents = np.frexp(np.where(largest > 0, largest, 1.0))
        bits = np.minimum(52 - INPUT_BITS - exponents, 900)
        whole = np.rint(np.ldexp(scaled, bits))
        while _beyond(whole).any():  # very many inputs
            bits = bits - _beyond(whole)
            whole = np.rint(np.ldexp(scaled, bits))
        return cls(low + half, half, whole, np.ldexp(1.0, -bits - INPUT_BITS))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return float64 rows of shape (n, n_out)."""
        steps = np.empty(rows.shape)
        for start in range(0, len(rows), _CACHED_ROWS):
            part = steps[start : start + _CACHED_ROWS]
            np.subtract(rows[start : start + _CACHED_ROWS], self.centre, out=part)
            np.divide(part, self.half, out=part)
            np.clip(part, -1.0, 1.0, out=part)
            np.multiply(part, 2.0**INPUT_BITS, out=part)
            np.rint(part, out=part)
        return self.of_steps(steps)

    def of_steps(self, steps: FloatArray) -> FloatArray:
        """Return what rows become that are given in whole steps of ``half * 2**-22`` from the centre, within 2^22."""
        made = steps @ self.weights
        made *= self.unit
        return np.asarray(made)

    def first(self, n_out: int) -> ExactMap:
        """Return the map to the first ``n_out`` outputs alone, which are the same to the last bit."""
        weights = np.ascontiguousarray(self.weights[:, :n_out])
        return ExactMap(self.centre, self.half, weights, self.unit[:n_out].copy())

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
        """Return the map that :meth:`state` described, after checking that its sums are exact."""
        centre, half, weights = (arrays[f"{name}.{part}"] for part in ("centre", "half", "weights"))
        unit = arrays[f"{name}.unit"]
        fits = centre.shape == half.shape == weights.shape[:1] and weights.ndim == 2 and unit.shape == weights.shape[1:]
        exact = np.array_equal(weights, np.rint(weights)) and bool((np.frexp(unit)[0] == 0.5).all())
        if not (fits and exact and np.isfinite(centre).all() and (half > 0).all()):
            raise ValueError("not an exact map")
        if _beyond(weights).any():
            raise ValueError("sums beyond 2^53")
        return cls(centre, half, weights, unit)


def one_sign(axes: FloatArray) -> FloatArray:
    """Return columns with their largest entry positive: an axis has two directions, and all machines take one."""
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0))


def own_product(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Return rows @ weights, each row's numbers the same to the last bit at any place, in any number of rows.

    For rows without public bounds: every row is scaled by a power of two of its own, and every column by one of the
    weights, so that the largest summand has 22 bits; then sums are exact (:class:`ExactMap`).

    Both are finite.
    """
    return OwnProduct(weights)(rows)


class OwnProduct:
    """The product by the same finite weights (n_in, n_out) again and again, see :func:`own_product`."""

    def __init__(self, weights: FloatArray) -> None:
        largest = np.abs(weights).max(axis=1, initial=0.0)
        _, exponents = np.frexp(largest)
        unit = np.ldexp(1.0, np.clip(exponents, -900, 900))
        one = np.ones(len(weights))
        self._scale = np.where(largest > 0, unit, 0.0)
        self._map = ExactMap.of(weights / unit[:, None], low=-one, high=one)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return rows @ weights for finite rows of shape (n, n_in)."""
        made = np.empty((len(rows), self._map.weights.shape[1]))
        steps = np.empty((min(len(rows), OWN_ROWS), rows.shape[1]))
        for start in range(0, len(rows), OWN_ROWS):
            block = rows[start : start + OWN_ROWS]
            part = steps[: len(block)]
            with np.errstate(over="ignore"):
                np.multiply(block, self._scale, out=part)
            peak = np.maximum(part.max(axis=1, initial=0.0), -part.min(axis=1, initial=0.0))
            if (peak > _FAR).any():
                np.clip(part, -_FAR, _FAR, out=part)
                peak = np.minimum(peak, _FAR)
            _, exponents = np.frexp(peak)
            own = np.ldexp(1.0, np.maximum(exponents, -900))[:, None]  # powers of two: nothing is rounded by them
            part *= 2.0**INPUT_BITS / own
            np.rint(part, out=part)
            np.multiply(self._map.of_steps(part), own, out=made[start : start + OWN_ROWS])
        return made


@dataclass(frozen=True)
class ExactDistances:
    """Euclidean distances of rows to landmarks in whole steps, |a|^2 + |b|^2 - 2 a b without rounding in any sum.

    ``landmarks`` (n_in + 2, n_landmarks) are whole numbers of steps from the middle between ``low`` and ``high``, times
    -2; below them ones, and their squared lengths: beside a row, its squared length and a one, the product is the
    squared distance. ``step`` is a power of two: the value of 1.
    """

    low: FloatArray
    high: FloatArray
    step: float
    landmarks: FloatArray

    @classmethod
    def of(cls, landmarks: FloatArray, *, scale: float, reach: float) -> ExactDistances | None:
        """Return the distances to these landmarks, None where whole steps would be too coarse for them.

        A step is at most 2^-14 of ``scale``, on which distances matter. From ``reach`` on they need not be distinct:
        a row is clipped to coordinates so far beyond the landmarks', and is then still that far from all of them.
        """
        with np.errstate(over="ignore"):
            low, high = landmarks.min(axis=0) - reach, landmarks.max(axis=0) + reach
            finite = np.isfinite(high - low) & np.isfinite(high + low)
        if not finite.all():
            return None
        # n_in whole coordinates of at most B on either side: any partial sum is within 4 n_in B^2, here about 2^52.
        _, exponent = math.frexp(float((high - low).max()) / 2.0**26 * math.sqrt(landmarks.shape[1]))
        step = math.ldexp(1.0, exponent)
        if not 0 < step <= scale * _FINE:
            return None
        whole = np.rint((landmarks - (low + high) / 2) / step)
        beside = [-2.0 * whole.T, np.ones((1, len(whole))), np.square(whole).sum(axis=1)[None]]
        return cls(low, high, step, np.concatenate(beside))

    def in_steps(self, rows: FloatArray) -> FloatArray:
        """Return the distances over ``step``."""
        whole = np.empty((len(rows), rows.shape[1] + 2))
        own = whole[:, :-2]
        np.clip(rows, self.low, self.high, out=own)
        own -= (self.low + self.high) / 2
        own /= self.step
        np.rint(own, out=own)
        whole[:, -2], whole[:, -1] = np.square(own).sum(axis=1), 1.0
        made = np.asarray(whole @ self.landmarks)
        return np.asarray(np.sqrt(made, out=made))


def _beyond(weights: FloatArray) -> Mask:
    """Return for which outputs a sum could pass 2^53."""
    return np.asarray(np.abs(weights).sum(axis=0) > 2.0 ** (53 - INPUT_BITS))
