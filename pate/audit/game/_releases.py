"""What is played: anything that makes a release of a world, and ready ones for mechanisms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_real, shown
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import ConfidentGNMax, GNMax, LNMax, NoisyHistogram
from pate.noise.source import NoiseSource
from pate.votes import ABSTAIN


class Release(Protocol):
    """A whole run: of a world's data and a seed, what gets out. With ``size``, that many runs at once.

    What is fixed before the release (the partition, training seeds, the public rows) must stay the same in every run
    of both worlds: a guarantee holds given them, and drawing them anew hides a leak in their noise. The seed is for
    the noise that the guarantee is about.

    A release whose likelihoods are known has ``log_ratio(outputs, D, D_prime) -> (size,)`` as well: the log likelihood
    of each output under D_prime over that under D.

    Examples
    --------
    >>> made: Release = NoisySum(1.0)
    >>> made(np.zeros(2), 0).shape
    (2,)
    """

    def __call__(self, world: Any, seed: int, /) -> Any: ...


def _check_alike(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    if a.shape != b.shape:
        raise InvalidInputError(f"D and D_prime must have one shape, got {a.shape} and {b.shape}: they are neighbours.")


@dataclass(frozen=True)
class NoisySum:
    """Release an array plus N(0, sigma^2) on every entry: noisy counts, sums of clipped gradients.

    Parameters
    ----------
    sigma : float

    Examples
    --------
    >>> one = NoisySum(0.1)
    >>> outputs = one(np.zeros(2), 7, 1000)
    >>> outputs.shape, bool(one.log_ratio(outputs, np.zeros(2), np.ones(2)).mean() < 0)
    ((1000, 2), True)
    """

    sigma: float

    def __post_init__(self) -> None:
        check_real("sigma", self.sigma, low=0, low_open=True)

    def __call__(self, world: npt.ArrayLike, seed: int, size: int | None = None) -> FloatArray:
        values = np.asarray(world, dtype=np.float64)
        noise = np.random.default_rng(seed).normal(0.0, self.sigma, (size or 1, *values.shape))
        return values + noise if size else (values + noise)[0]

    def log_ratio(self, outputs: FloatArray, D: npt.ArrayLike, D_prime: npt.ArrayLike) -> FloatArray:
        """Return log likelihood ratios, shape (size,)."""
        a, b = (np.asarray(world, dtype=np.float64) for world in (D, D_prime))
        _check_alike(a, b)
        ratio = ((outputs - a) ** 2 - (outputs - b) ** 2) / (2 * self.sigma**2)
        return np.asarray(ratio.reshape(len(outputs), -1).sum(axis=1))


@dataclass(frozen=True)
class MechanismRelease:
    """Release what a mechanism lets out about vote counts; a world is counts of shape (n_queries, n_classes).

    Parameters
    ----------
    mechanism : GNMax, LNMax, ConfidentGNMax or NoisyHistogram
        What is claimed: outputs are scored by its exact law.
    sampler : callable or None
        Of counts (n, n_classes) to labels (n,), or to noisy counts (n, n_classes): what really draws, such as another
        library's mechanism. None lets ``mechanism`` draw.

    Examples
    --------
    >>> release = MechanismRelease(GNMax(1.0))
    >>> labels = release([[3, 3], [4, 2]], 7, 100)   # 100 runs of two queries
    >>> labels.shape, release.log_ratio(labels, [[3, 3], [4, 2]], [[2, 4], [4, 2]]).shape
    ((100, 2), (100,))
    """

    mechanism: GNMax | LNMax | ConfidentGNMax | NoisyHistogram
    sampler: Callable[[npt.NDArray[np.int64]], npt.ArrayLike] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, GNMax | LNMax | ConfidentGNMax | NoisyHistogram):
            raise InvalidInputError(
                "mechanism must be GNMax, LNMax, ConfidentGNMax or NoisyHistogram, whose laws are known, got "
                f"{shown(self.mechanism)}. Write a release of your own, and pass score= to the game."
            )

    def __call__(self, world: npt.ArrayLike, seed: int, size: int | None = None) -> npt.NDArray[Any]:
        counts = np.atleast_2d(np.asarray(world, dtype=np.int64))
        rows = np.tile(counts, (size or 1, 1))
        if self.sampler is not None:
            drawn = np.asarray(self.sampler(rows))
        else:
            draw = self.mechanism.sample(rows, NoiseSource(seed))
            drawn = draw.labels if draw.noisy_counts is None else draw.noisy_counts
        if len(drawn) != len(rows):
            raise InvalidInputError(f"sampler must return one outcome for each of {len(rows)} rows, got {len(drawn)}.")
        return drawn.reshape(size, len(counts), *drawn.shape[1:]) if size else drawn

    def log_ratio(self, outputs: npt.NDArray[Any], D: npt.ArrayLike, D_prime: npt.ArrayLike) -> FloatArray:
        """Return log likelihood ratios, shape (size,)."""
        a, b = (np.atleast_2d(np.asarray(world, dtype=np.int64)) for world in (D, D_prime))
        _check_alike(a, b)
        if isinstance(self.mechanism, NoisyHistogram):
            return NoisySum(self.mechanism.sigma).log_ratio(outputs, a, b)
        ratio = self.mechanism.log_probs(b) - self.mechanism.log_probs(a)  # a refusal stands last
        n_classes, refuses = a.shape[1], ratio.shape[1] > a.shape[1]
        if not ((outputs < n_classes) & (outputs >= (ABSTAIN if refuses else 0))).all():
            refusal = f", or {ABSTAIN} where it refuses" if refuses else ""
            raise InvalidInputError(
                f"sampler must return labels 0 to {n_classes - 1}{refusal}: {self.mechanism!r} releases nothing else. "
                "Its claim does not hold of such a sampler."
            )
        columns = np.where(outputs == ABSTAIN, ratio.shape[1] - 1, outputs)
        return np.asarray(ratio[np.arange(len(a))[None, :], columns].sum(axis=1))
