"""Rivals' label mechanisms: votes of sampled neighbours, and answers of stable queries."""

from __future__ import annotations

from itertools import product

import numpy as np

from pate.audit.laws._registry import register
from pate.core.types import FloatArray, IntArray
from pate.mechanisms import NOT_ASKED, ConfidentGNMax, GNMax
from pate.noise.laws import lattice_law
from pate.noise.source import NoiseSource
from pate.rivals import SampledNeighbours, StabilityTest, distance_to_instability


def _units(row: IntArray) -> IntArray:
    """Return the units' votes, the nearest first: classes in turn, as long as they have votes left."""
    order = np.concatenate([np.arange(n) * len(row) + c for c, n in enumerate(row)])
    return np.repeat(np.arange(len(row)), row)[np.argsort(order, kind="stable")]


def _neighbours_law(m: SampledNeighbours, counts: IntArray) -> FloatArray:
    """Mixture, over all samples of the units, of the law of a noisy maximum of the k nearest of them."""
    inner = (
        GNMax(m.sigma)
        if m.threshold is None or m.screening_sigma is None
        else ConfidentGNMax(m.threshold, m.screening_sigma, m.sigma)
    )
    laws = []
    for row in counts:
        votes = _units(row)
        inside = np.array(list(product([False, True], repeat=len(votes))))
        chance = np.where(inside, m.sample_rate, 1 - m.sample_rate).prod(axis=1)
        voting = inside & (inside.cumsum(axis=1) <= m.n_neighbors)
        tables = np.stack([(voting & (votes == c)).sum(axis=1) for c in range(len(row))], axis=1)
        rows, where = np.unique(tables, axis=0, return_inverse=True)
        laws.append(np.bincount(where.ravel(), chance, len(rows)) @ np.exp(inner.log_probs(rows)))
    return np.stack(laws)


def _neighbours(m: SampledNeighbours, counts: IntArray, noise: NoiseSource) -> IntArray:
    labels = np.empty(len(counts), dtype=np.int64)
    rows, which = np.unique(counts, axis=0, return_inverse=True)
    for h, row in enumerate(rows):
        asked = np.flatnonzero(which.ravel() == h)
        votes = _units(row)
        shape = (len(asked), len(votes))
        distances = np.broadcast_to(np.arange(float(len(votes))), shape)
        labels[asked] = m.draw(distances, np.broadcast_to(votes, shape), len(row), noise).labels
    return labels


def _neighbours_bank(m: SampledNeighbours, n_classes: int) -> dict[str, IntArray]:
    """Few units, so that all samples can be written down."""
    some = np.zeros(n_classes, dtype=np.int64)
    rows = {"a leader": [6, 2, 1], "a tie": [3, 3, 3], "one unit": [0, 1, 0], "all alike": [0, 0, 8]}
    return {name: np.concatenate([row, some[3:]]).astype(np.int64) for name, row in rows.items()}


def _stability_law(test: StabilityTest, counts: IntArray) -> FloatArray:
    """Law of two equal queries of one release, after which one unstable one ends it.

    Outcomes: the second was never asked (the first was unstable), stable then unstable, both stable. Given the
    threshold's noise the two are independent.
    """
    r, mass, _ = lattice_law(test.threshold_scale, "discrete_laplace")
    q, _, below = lattice_law(test.query_scale, "discrete_laplace")
    lines = test.threshold + np.arange(-r, r + 1)
    laws = []
    for d in distance_to_instability(counts):
        # P(noise >= line - d) = P(noise <= d - line), by symmetry.
        stable = below[np.clip(d - lines + q, 0, len(below) - 1)] * (d - lines + q >= 0)
        laws.append([mass @ (1 - stable), mass @ (stable * (1 - stable)), mass @ stable**2])
    return np.array(laws)


def _stability(test: StabilityTest, counts: IntArray, noise: NoiseSource) -> IntArray:
    found = np.empty(len(counts), dtype=np.int64)
    for n, row in enumerate(counts):
        first, second = test.draw(np.stack([row, row]), noise).status
        found[n] = 0 if second == NOT_ASKED else (1 if second == "refused" else 2)
        if first == "refused" and second != NOT_ASKED:
            found[n] = 3  # which the law never gives
    return found


def _stability_bank(test: StabilityTest, n_classes: int) -> dict[str, IntArray]:
    """Distances about the threshold, and none."""
    found = {"a tie": [1, 1]}
    for name, at in (("below", -1), ("at", 0), ("above", 1)):
        distance = max(1, round(test.threshold + at * test.query_scale))
        found[f"{name} the threshold"] = [2 * distance + 3, 1]
    return {name: np.array([*row, *[0] * (n_classes - 2)]) for name, row in found.items()}


register(
    [SampledNeighbours(4, 0.5, 2.0), SampledNeighbours(4, 0.5, 2.0, threshold=3.0, screening_sigma=2.0)],
    law=_neighbours_law, bank=_neighbours_bank, sample=_neighbours, n_classes=3, max_releases=3_000,
)  # fmt: skip
register(
    [StabilityTest(17, 2.0, 4.0, 1)],
    law=_stability_law, bank=_stability_bank, sample=_stability, n_classes=3, max_releases=1_000,
)  # fmt: skip
