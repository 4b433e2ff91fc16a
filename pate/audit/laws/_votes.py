"""The mechanisms that see votes and sums of ballots, registered."""

from __future__ import annotations

import math

import numpy as np

from pate.audit.laws._registry import Numbers, law_bank, register
from pate.core.types import FloatArray, IntArray
from pate.mechanisms import ConfidentGNMax, GaussianSum, GNMax, LNMax, NoisyHistogram, VoteCap
from pate.noise.source import NoiseSource

#: What one unit may move a sum of ballots by, squared, in the audit's sums.
DELTA_SQUARED = 10**12


def _noisy_counts(mechanism: NoisyHistogram, counts: IntArray, noise: NoiseSource) -> FloatArray:
    drawn = mechanism.sample(counts, noise).noisy_counts
    assert drawn is not None
    return drawn


def _histogram_law(mechanism: NoisyHistogram, counts: IntArray) -> Numbers:
    return Numbers(counts.astype(float), mechanism.sigma, grid=mechanism.grid)


def _sums_bank(mechanism: GaussianSum, n_classes: int) -> dict[str, IntArray]:
    """Return sums of ballots, which may be negative, and large."""
    middle = np.arange(n_classes) - n_classes // 2
    return {
        "zeros": np.zeros(n_classes, dtype=np.int64),
        "both signs": middle * 10**6,
        "odd numbers": (2 * middle + 1) * 333_333_333,
        "large": np.full(n_classes, 2**45 + 1),
    }


def _sums_law(mechanism: GaussianSum, sums: IntArray) -> Numbers:
    scale = mechanism.scale(DELTA_SQUARED)
    grid = 2.0 ** max(0, math.frexp(scale)[1] - 1 - 20)
    return Numbers(sums.astype(float), scale, grid=grid)


def _sums(mechanism: GaussianSum, sums: IntArray, noise: NoiseSource) -> FloatArray:
    return mechanism.sample(sums, DELTA_SQUARED, noise)


def _capped_law(mechanism: VoteCap, counts: IntArray) -> FloatArray:
    return np.exp(GNMax(mechanism.sigma).log_probs(counts))


def _capped_bank(mechanism: VoteCap, n_classes: int) -> dict[str, IntArray]:
    return law_bank(n_classes, mechanism.sigma)


def _capped(mechanism: VoteCap, counts: IntArray, noise: NoiseSource) -> IntArray:
    """One session of two rounds for each histogram: votes within the cap, then as many that it must drop.

    The second round is asked where nobody has voted: its counts must be zeros, whatever the teachers say.
    """
    labels = np.empty(len(counts), dtype=np.int64)
    rows, which = np.unique(counts, axis=0, return_inverse=True)
    for h, row in enumerate(rows):
        asked = np.flatnonzero(which.ravel() == h)
        votes = np.repeat(np.arange(len(row)), row) if row.any() else np.array([0])
        # Who says nothing is asked too: one teacher beyond those who vote.
        said = np.concatenate([votes if row.any() else [], [-1]]).astype(np.int64)
        cap = mechanism.max_votes
        if row.any():
            for start in range(0, len(asked), cap):
                some = asked[start : start + cap]
                run = mechanism.session(n_teachers=len(said), n_classes=len(row), noise=noise)
                labels[some] = run.ask(np.tile(said[:, None], (1, len(some)))).labels
            continue
        many = max(2, round(3 * mechanism.sigma))
        run = mechanism.session(n_teachers=many, n_classes=len(row), noise=noise)
        run.ask(np.zeros((many, cap), dtype=np.int64))
        labels[asked] = run.ask(np.zeros((many, len(asked)), dtype=np.int64)).labels
    return labels


def _registered() -> None:
    register([GNMax(40.0), GNMax(2.0)])
    register([LNMax(20.0), LNMax(3.0)])
    register([ConfidentGNMax(200, 150, 40), ConfidentGNMax(12.0, 6.0, 4.0)])
    register([NoisyHistogram(40.0), NoisyHistogram(2.0**15)], law=_histogram_law, sample=_noisy_counts)
    register(
        [GaussianSum(4.0), GaussianSum(0.3)],
        law=_sums_law,
        bank=_sums_bank,
        sample=_sums,
        n_classes=5,
        max_releases=2_000,
    )
    register([VoteCap(500, 10.0)], law=_capped_law, bank=_capped_bank, sample=_capped, noises=("sigma",))


_registered()
