"""Faults of noise: what is drawn is not what is accounted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
from wall import Mutant
from wall_looks import by_law, by_pairs

from pate import Budget, ConfidentGNMax, GNMax, NoisyHistogram, Votes, release_labels
from pate.dpsgd.mechanisms._mechanism import gaussian
from pate.mechanisms import Draw
from pate.mechanisms._base import all_answered, capped
from pate.privacy.noise import real_argmax, rounded_counts
from pate.privacy.noise.source import NoiseSource

CONFIDENT = ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40)
FAIR = ConfidentGNMax(20.0, 6.0, 4.0, offsets=(8.0, -6.5, 0.0, 3.0, -3.0, 5.25, -8.0, 2.0, 0.0, -1.0))
GNMAX = GNMax(sigma=40.0)
HISTOGRAM = NoisyHistogram(sigma=40.0)


def normals(shape: tuple[int, ...], source: NoiseSource) -> np.ndarray:
    return gaussian(source, int(np.prod(shape))).numpy().reshape(shape)


class _Faulty(GNMax):
    """GNMax with noise of another kind; scores are real, so that ties are not what shows it."""

    def _noise(self, counts: np.ndarray, noise: NoiseSource) -> np.ndarray:
        raise NotImplementedError

    def sample(self, counts, noise, *, max_answers=None):
        return all_answered((counts + self._noise(counts, noise)).argmax(axis=1))


class OnlyNonEmpty(_Faulty):
    def _noise(self, counts, noise):
        return np.where(counts > 0, self.sigma * normals(counts.shape, noise), 0.0)


class Unequal(_Faulty):
    def _noise(self, counts, noise):
        return self.sigma * normals(counts.shape, noise) * np.linspace(0.9, 1.1, counts.shape[1])


class Truncated(_Faulty):
    def _noise(self, counts, noise):
        return self.sigma * np.clip(normals(counts.shape, noise), -2.0, 2.0)


class OneForAllQueries(_Faulty):
    """The noise is drawn once, outside of the loop over queries."""

    def _noise(self, counts, noise):
        return self.sigma * normals((1, counts.shape[1]), noise)


class LaplaceNoise(GNMax):
    def sample(self, counts, noise, *, max_answers=None):
        return all_answered(real_argmax(counts, scale=self.sigma / 2**0.5, source=noise, noise="laplace"))


class LowestIndexTies(GNMax):
    """Noise is rounded to whole votes, and numpy's argmax takes the first of equals."""

    def sample(self, counts, noise, *, max_answers=None):
        return all_answered(rounded_counts(counts, scale=self.sigma, grid=1.0, source=noise).argmax(axis=1))


class ThresholdOnEvery(ConfidentGNMax):
    def sample(self, counts, noise, *, max_answers=None):
        noisy = counts + self.sigma_threshold * normals(counts.shape, noise)
        passed = noisy.max(axis=1) >= self.threshold
        return capped(passed, real_argmax(counts, scale=self.sigma, source=noise), max_answers)


@dataclass(frozen=True)
class OftenLeftOut(NoisyHistogram):
    """A branch for "cheap" queries, say, forgets the noise: once in 1,000."""

    once_in: ClassVar[int] = 1000

    def sample(self, counts, noise, *, max_answers=None):
        drawn = super().sample(counts, noise, max_answers=max_answers)
        bare = noise.words(len(counts)) % np.uint64(self.once_in) == 0
        noisy = np.where(bare[:, None], counts, drawn.noisy_counts)
        return Draw(noisy.argmax(axis=1), drawn.status, noisy)


# ---- a seed that was left in the code ----


def seeded_door(counts: np.ndarray) -> np.ndarray:
    """Labels by the release function, with seeded noise."""
    with patch("pate.release._transaction.NoiseSource", lambda seed: NoiseSource(1234)):
        votes = Votes.from_counts(counts + 5)
        return release_labels(votes, GNMAX, budget=Budget(1e4, 1e-5)).labels


def _law(name: str, seen: str, faulty: Any, honest: Any = GNMAX, **options: Any) -> Mutant:
    return Mutant(name, seen, {"law": by_law(honest, faulty, **options)})


LOOPS = "hand-written noisy maxima"
MUTANTS = (
    _law("noise at 0.9", "rounded or mistyped scales", CONFIDENT.scaled(0.9), CONFIDENT),
    _law("noise at 1.1", "rounded or mistyped scales", CONFIDENT.scaled(1.1), CONFIDENT),
    _law("noise at 1/sqrt 2", "Gaussian noise of variance sigma^2 / 2", CONFIDENT.scaled(2**-0.5), CONFIDENT),
    _law(
        "threshold noise on every count",
        "Confident-GNMax read as noise on the histogram",
        ThresholdOnEvery(200, 150, 40),
        CONFIDENT,
    ),
    _law(
        "offsets left out of the test",
        "class-aware thresholds that the account knows and the sampler does not",
        replace(FAIR, offsets=None),
        FAIR,
    ),
    _law("noise on non-empty classes only", "counts kept in a dictionary", OnlyNonEmpty(40.0)),
    _law("unequal noise", "noise scaled by class weights", Unequal(40.0)),
    _law("ties to the lowest index", "numpy's argmax on whole numbers", LowestIndexTies(4.0), GNMax(4.0), n_classes=5),
    _law("Laplace for Gaussian noise", "code of 2017 under accounts of 2018", LaplaceNoise(40.0)),
    _law("truncated noise", "noise clipped to keep counts sensible", Truncated(40.0)),
    Mutant(
        "noise re-used between queries",
        "noise drawn outside of the loop",
        {"law": by_pairs(GNMAX, OneForAllQueries(40.0))},
    ),
    Mutant(
        "seeded noise",
        "seeds set for reproducibility",
        {"law": by_pairs(GNMAX, seeded_door)},
    ),
    Mutant(
        "noise left out once in 1,000",
        "special cases that return early",
        {"law": by_law(HISTOGRAM, OftenLeftOut(40.0))},
    ),
)
