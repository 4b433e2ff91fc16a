"""Training mechanisms of DP-SGD and its kin: the noise of their steps, and who takes part in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from pate.audit.laws._registry import Numbers, register
from pate.core.types import FloatArray, IntArray
from pate.dpsgd.mechanisms import BandedFTRL, PoissonSGD, Shape, ShuffledSGD, TreeFTRL, TruncatedPoissonSGD
from pate.noise.source import NoiseSource

#: Of the audited batches: two steps, an epoch.
_BATCHES = Shape(4, 0.5, 2, 2)


def _noise_law(mechanism: Any, counts: IntArray) -> Numbers:
    return Numbers(np.zeros(counts.shape), 1.0)


def _noise(mechanism: Any, counts: IntArray, source: NoiseSource) -> FloatArray:
    """Return noise of as many steps as ``counts`` has columns, made independent: C^T C is its inverse covariance."""
    shape = Shape(64, 0.5, counts.shape[1], 32)
    drawn = np.stack([step.numpy() for step in mechanism.noise(shape, len(counts), source)], axis=1)
    if not hasattr(mechanism, "strategy"):
        return drawn
    matrix = mechanism.strategy(shape).dense()
    return np.asarray(drawn @ np.linalg.cholesky(matrix.T @ matrix))


def _noise_bank(mechanism: Any, n_classes: int) -> dict[str, IntArray]:
    return {f"a run of {n_classes} steps": np.zeros(n_classes, dtype=np.int64)}


@dataclass(frozen=True)
class Batches:
    """Who takes part in which step of a training mechanism, as one unit of four sees it in two steps of one epoch."""

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
    found = np.empty(len(counts), dtype=np.int64)
    for n in range(len(counts)):
        # Units in turn: none is drawn in another way than the rest.
        unit = n % _BATCHES.n_units
        steps = [unit in step for step in batches.mechanism.batches(_BATCHES, _BATCHES.n_units, source)]
        found[n] = 2 * steps[0] + steps[1]
    return found


def _batches_bank(batches: Batches, n_classes: int) -> dict[str, IntArray]:
    return {"two steps of an epoch": np.zeros(4, dtype=np.int64)}


for _examples in (
    [PoissonSGD()],
    [ShuffledSGD()],
    [TruncatedPoissonSGD(2)],
    [BandedFTRL(2), BandedFTRL(1), BandedFTRL(2, factorisation="inverse-square-root")],
    [TreeFTRL(), TreeFTRL(restart=2)],
):
    register(_examples, law=_noise_law, bank=_noise_bank, sample=_noise, n_classes=4)
register(
    [Batches(m) for m in (PoissonSGD(), ShuffledSGD(), TruncatedPoissonSGD(2), BandedFTRL(2), TreeFTRL())],
    law=_batches_law, bank=_batches_bank, sample=_batches, max_releases=3_000,
)  # fmt: skip
