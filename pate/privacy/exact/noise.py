"""The noise on a vote count, and the functions of it that the exact law is built from.

Everything is in units of the noise scale: ``t = (x - count) / scale``. One changed vote shifts a count by
``d = 1 / scale``. Ratios such as Phi(t + d) / Phi(t) - 1 are computed as one number, never as a difference of
two rounded ones, so that tiny divergences keep their relative accuracy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr, ndtr

from pate._core.checks import check_real
from pate._core.types import FloatArray, IntArray
from pate.privacy.offsets import Offsets, check_offsets, margins_of

__all__ = ["GaussianNoise", "LaplaceNoise", "Noise", "ThresholdTest"]


_ROOT_HALF = np.sqrt(0.5)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


@dataclass(frozen=True)
class Noise(ABC):
    """What the exact law needs to know of a noise distribution; ``t`` is in units of ``scale``, which is in votes."""

    scale: float
    _remedy: ClassVar[str]

    def __post_init__(self) -> None:
        check_real("scale", self.scale, low=0, low_open=True, remedy=self._remedy)

    @abstractmethod
    def far(self, max_order: float) -> float:
        """Gap in votes beyond which an outcome contributes less than exp(-740), up to this order."""

    @abstractmethod
    def log_cdf(self, t: FloatArray) -> FloatArray:
        """Log of the cumulative distribution function F."""

    @abstractmethod
    def log_hazard(self, t: FloatArray) -> FloatArray:
        """Log of f(t) / F(t), f the density."""

    @abstractmethod
    def cdf_shift(self, t: FloatArray, d: float) -> FloatArray:
        """F(t + d) / F(t) - 1."""

    @abstractmethod
    def log_cdf_shift(self, t: FloatArray, d: float) -> FloatArray:
        """log(F(t + d) / F(t)), also where the ratio itself overflows."""

    @abstractmethod
    def log_density_shift(self, t: FloatArray, d: float) -> FloatArray:
        """log(f(t + d) / f(t))."""

    def density_shift(self, t: FloatArray, d: float) -> FloatArray:
        """f(t + d) / f(t) - 1."""
        with np.errstate(over="ignore"):
            return np.expm1(self.log_density_shift(t, d))

    def one_vote(self, t: FloatArray) -> tuple[FloatArray, ...]:
        """Log F, log hazard, F(t + d)/F(t) - 1 and f(t + d)/f(t) - 1, each for d of one vote more and one less."""
        d = 1 / self.scale
        shifts = (shift(t, move) for shift in (self.cdf_shift, self.density_shift) for move in (d, -d))
        return (self.log_cdf(t), self.log_hazard(t), *shifts)


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Normal noise of standard deviation ``scale`` votes.

    Examples
    --------
    >>> noise = GaussianNoise(40.0)
    >>> noise.cdf_shift(np.array([0.0]), 1 / 40).round(6)
    array([0.019945])
    """

    _remedy: ClassVar[str] = "Use the noise's standard deviation."

    def far(self, max_order: float) -> float:
        """Gap in votes beyond which an outcome contributes less than exp(-740), up to this order.

        An outcome ``gap`` below the leader has probability Phi(-z) with z >= gap / (scale sqrt 2), and one vote moves
        z by at most mu = sqrt(2) / scale. As the hazard at z is at most z + 1/z, P (P'/P)^a <= exp(-z^2/2 + a mu (z +
        1)).
        """
        push = max_order * np.sqrt(2) / self.scale
        z = push + np.sqrt(push * push + 2 * push + 2 * 760)
        return float(z * np.sqrt(2) * self.scale + 3)

    def log_cdf(self, t: FloatArray) -> FloatArray:
        """Log Phi(t)."""
        return np.asarray(log_ndtr(t))

    def log_hazard(self, t: FloatArray) -> FloatArray:
        """Log of phi(t) / Phi(t)."""
        t = np.asarray(t, dtype=np.float64)
        low = np.minimum(t, 0.0)
        high = -0.5 * t * t - 0.5 * np.log(2 * np.pi) - log_ndtr(np.maximum(t, 0.0))
        return np.where(t < 0, 0.5 * np.log(2 / np.pi) - np.log(erfcx(-low * _ROOT_HALF)), high)

    def log_cdf_shift(self, t: FloatArray, d: float | FloatArray) -> FloatArray:
        """log(Phi(t + d) / Phi(t)); the scaled error function cancels the squares exactly."""
        t = np.asarray(t, dtype=np.float64)
        low = np.minimum(t, 1.0)
        ratio = np.log(erfcx(-np.minimum(low + d, 30.0) * _ROOT_HALF) / erfcx(-low * _ROOT_HALF))
        return np.where(
            (t <= 1) & (t + d <= 30), -t * d - 0.5 * d * d + ratio, log_ndtr(t + d) - log_ndtr(np.maximum(t, 1.0))
        )

    def cdf_shift(self, t: FloatArray, d: float | FloatArray) -> FloatArray:
        """Phi(t + d) / Phi(t) - 1, by one of three forms without cancellation."""
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # phi(t + v) / Phi(t) integrated over v: accurate while the exponent stays small.
            v = np.asarray(d)[..., None] * _NODES
            small = d * (np.exp(-t[..., None] * v - 0.5 * v * v) * _WEIGHTS).sum(-1) * np.exp(self.log_hazard(t))
            above = np.maximum(t, 1.0)
            high = (ndtr(-above) - ndtr(-(t + d))) / ndtr(above)
            low = np.expm1(self.log_cdf_shift(t, d))
        return np.where((np.abs(t * d) <= 2) & (np.abs(d) <= 1), small, np.where((t > 1) & (t + d > 1), high, low))

    def log_density_shift(self, t: FloatArray, d: float) -> FloatArray:
        """log(phi(t + d) / phi(t))."""
        return -d * (np.asarray(t, dtype=np.float64) + 0.5 * d)


@dataclass(frozen=True)
class LaplaceNoise(Noise):
    """Laplace noise of scale ``scale`` votes (standard deviation sqrt(2) times that).

    Examples
    --------
    >>> LaplaceNoise(20.0).cdf_shift(np.array([-1.0]), 1 / 20).round(6)
    array([0.051271])
    """

    _remedy: ClassVar[str] = "Use the Laplace scale b."

    def far(self, max_order: float) -> float:
        """Gap in votes beyond which an outcome contributes less than exp(-740), up to this order.

        Its probability is at most exp(-gap / scale) (1/2 + gap / (4 scale)), and a ratio at most exp(2 / scale).
        """
        return float(self.scale * (770 + 2 * max_order / self.scale))

    def log_cdf(self, t: FloatArray) -> FloatArray:
        """Log F(t)."""
        half = 0.5 * np.exp(-np.abs(t))
        return np.where(t < 0, np.minimum(t, 0.0) - np.log(2), np.log1p(-half))

    def log_hazard(self, t: FloatArray) -> FloatArray:
        """Log of f(t) / F(t)."""
        above = np.maximum(t, 0.0)
        return np.where(t < 0, 0.0, -np.log(2) - above - np.log1p(-0.5 * np.exp(-above)))

    def log_cdf_shift(self, t: FloatArray, d: float) -> FloatArray:
        """log(F(t + d) / F(t))."""
        with np.errstate(divide="ignore"):
            moderate = np.log1p(self.cdf_shift(t, d))
        return np.where(
            (t < 0) & (t + d <= 0), d, np.where(moderate > -1, moderate, self.log_cdf(t + d) - self.log_cdf(t))
        )

    def cdf_shift(self, t: FloatArray, d: float) -> FloatArray:
        """F(t + d) / F(t) - 1, with the four positions of the kink kept apart."""
        t = np.asarray(t, dtype=np.float64)
        below = np.minimum(t, 0.0)
        half = 0.5 * np.exp(-np.maximum(t, 0.0))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            rising = -0.5 * (np.expm1(-np.maximum(t + d, 0.0)) + np.expm1(below)) / (0.5 * np.exp(below))
            falling = 0.5 * (np.expm1(np.minimum(t + d, 0.0)) + np.expm1(-np.maximum(t, 0.0))) / (1 - half)
            right = -half * np.expm1(-d) / (1 - half)
            left = np.expm1(d)
        return np.where(t < 0, np.where(t + d <= 0, left, rising), np.where(t + d >= 0, right, falling))

    def log_density_shift(self, t: FloatArray, d: float) -> FloatArray:
        """log(f(t + d) / f(t)), exactly +-d away from the kink."""
        t = np.asarray(t, dtype=np.float64)
        shifted = t + d
        inside = (t < 0) == (shifted < 0)
        return np.where(inside, np.where(t < 0, d, -d), np.abs(t) - np.abs(shifted))


@dataclass(frozen=True)
class ThresholdTest:
    """The test of Confident-GNMax: answer if ``max(counts - offsets) + N(0, scale^2) >= threshold``.

    Attributes
    ----------
    threshold, scale : float
        In votes.
    offsets : tuple of float, of tuples of float, or None
        Numbers of votes taken off the count of each class, or of each class of each query; public. None: no offsets.

    Guarantees
    ----------
    Replacing one vote moves the largest difference by at most 1 (one of them falls by 1, one rises by 1), in a
    direction that depends on which vote moved: the exact accounting uses what happens at each neighbour, not the worst.

    Examples
    --------
    >>> ThresholdTest(200.0, 150.0).log_answer(np.array([200])).round(6)
    array([-0.693147])
    >>> ThresholdTest(200.0, 150.0, (10.0, 0.0)).top(np.array([[205, 190]]))
    array([195.])
    """

    threshold: float
    scale: float
    offsets: Offsets | None = None

    def __post_init__(self) -> None:
        check_real("threshold", self.threshold, remedy="Use a number of votes.")
        check_real("scale", self.scale, low=0, low_open=True, remedy="Use the noise's standard deviation.")
        if self.offsets is not None:
            object.__setattr__(self, "offsets", check_offsets(self.offsets))

    def margins(self, counts: npt.NDArray[np.integer]) -> FloatArray | None:
        """Return counts less offsets, exact: (n_queries, n_classes); None without offsets.

        Raises
        ------
        InvalidInputError
            Offsets of other classes or of another number of queries.
        """
        return None if self.offsets is None else margins_of(counts, self.offsets)

    def top(self, counts: npt.NDArray[np.integer]) -> npt.NDArray[np.integer] | FloatArray:
        """Return what the test adds its noise to, (n_queries,): the largest count, or the largest less its offset."""
        margins = self.margins(counts)
        return np.asarray(counts.max(axis=1) if margins is None else margins.max(axis=1))

    def of_queries(self, index: IntArray | slice) -> ThresholdTest:
        """Return the test of some of the queries."""
        if self.offsets is None or not isinstance(self.offsets[0], tuple):
            return self
        kept = np.asarray(self.offsets)[index]
        return ThresholdTest(self.threshold, self.scale, check_offsets(kept))

    def log_answer(self, top: npt.ArrayLike) -> FloatArray:
        """Log probability of answering, for the largest count(s) ``top``."""
        return np.asarray(log_ndtr((np.asarray(top, dtype=np.float64) - self.threshold) / self.scale))

    def log_refuse(self, top: npt.ArrayLike) -> FloatArray:
        """Log probability of refusing, for the largest count(s) ``top``."""
        return np.asarray(log_ndtr((self.threshold - np.asarray(top, dtype=np.float64)) / self.scale))

    def log_answer_ratio(self, top: npt.ArrayLike, change: npt.ArrayLike) -> FloatArray:
        """log(s(top + change) / s(top)), s the probability of answering."""
        t = (np.asarray(top, dtype=np.float64) - self.threshold) / self.scale
        return _log_ratio(t, np.asarray(change) / self.scale)

    def log_refuse_ratio(self, top: npt.ArrayLike, change: npt.ArrayLike) -> FloatArray:
        """log((1 - s(top + change)) / (1 - s(top)))."""
        t = (self.threshold - np.asarray(top, dtype=np.float64)) / self.scale
        return _log_ratio(t, -np.asarray(change) / self.scale)


def _log_ratio(t: FloatArray, d: FloatArray) -> FloatArray:
    """log(Phi(t + d) / Phi(t)) at full relative accuracy, near 0 as well as far out."""
    t, d = np.broadcast_arrays(t, d)
    normal = GaussianNoise(1.0)
    ratio = normal.cdf_shift(t, d)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(np.abs(ratio) < 0.5, np.log1p(ratio), normal.log_cdf_shift(t, d))
    return np.where(d == 0, 0.0, found)
