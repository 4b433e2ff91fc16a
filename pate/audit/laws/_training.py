"""Register the training mechanisms of DP-SGD: the noise of their steps, and the units of each batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from pate._core.types import FloatArray, IntArray
from pate.audit.laws._registry import Numbers, register
from pate.dpsgd.mechanisms import BandedFTRL, PoissonSGD, Shape, ShuffledSGD, TreeFTRL, TruncatedPoissonSGD
from pate.privacy.noise.source import NoiseSource

#: Of the audited batches: two steps, an epoch.
_BATCHES = Shape(4, 0.5, 2, 2)


def _noise(mechanism: Any, counts: IntArray, source: NoiseSource) -> FloatArray:
    """Return noise of as many steps as ``counts`` has columns, made independent: C^T C is its inverse covariance."""
    shape = Shape(64, 0.5, counts.shape[1], 32)
    drawn = np.stack([step.numpy() for step in mechanism.noise(shape, len(counts), source)], axis=1)
    if not hasattr(mechanism, "strategy"):
        return drawn
    matrix = mechanism.strategy(shape).dense()
    return np.asarray(drawn @ np.linalg.cholesky(matrix.T @ matrix))


@dataclass(frozen=True)
class Batches:
    """The steps in which one unit of four takes part, in two steps of one epoch of a training mechanism."""

    mechanism: Any


def _batches_law(batches: Batches, counts: IntArray) -> FloatArray:
    """Law of (in the first step, in the second), as a number of two bits."""
    rate = _BATCHES.sample_rate
    if isinstance(batches.mechanism, TruncatedPoissonSGD):
        others = np.arange(_BATCHES.n_units)
        kept = np.minimum(1.0, batches.mechanism.max_batch_size / (1.0 + others))
        rate *= float(binom.pmf(others, _BATCHES.n_units - 1, rate) @ kept)
    if isinstance(batches.mechanism, PoissonSGD | TruncatedPoissonSGD):
        row = [(1 - rate) ** 2, rate * (1 - rate), rate * (1 - rate), rate**2]
    else:  # one turn an epoch
        row = [0.0, 0.5, 0.5, 0.0]
    return np.tile(row, (len(counts), 1))


def _batches(batches: Batches, counts: IntArray, source: NoiseSource) -> IntArray:
    k, batches_of = _BATCHES.n_units, batches.mechanism.batches
    # Units in turn: all must be drawn alike.
    took = [[n % k in step for step in batches_of(_BATCHES, k, source)] for n in range(len(counts))]
    return np.array([2 * first + second for first, second in took], dtype=np.int64)


for _examples in (
    [PoissonSGD()],
    [ShuffledSGD()],
    [TruncatedPoissonSGD(2)],
    [BandedFTRL(2), BandedFTRL(1), BandedFTRL(2, factorisation="inverse-square-root")],
    [TreeFTRL(), TreeFTRL(restart=2)],
):
    register(
        _examples, sample=_noise, n_classes=4,
        law=lambda mechanism, counts: Numbers(np.zeros(counts.shape), 1.0),
        bank=lambda mechanism, n: {f"a run of {n} steps": np.zeros(n, dtype=np.int64)},
    )  # fmt: skip
register(
    [Batches(m) for m in (PoissonSGD(), ShuffledSGD(), TruncatedPoissonSGD(2), BandedFTRL(2), TreeFTRL())],
    law=_batches_law, sample=_batches, max_releases=3_000,
    bank=lambda batches, n_classes: {"two steps of an epoch": np.zeros(4, dtype=np.int64)},
)  # fmt: skip
