"""Register the mechanisms for votes and sums of ballots and vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from pate._core.types import FloatArray, IntArray
from pate.audit.laws._registry import Numbers, law_bank, register
from pate.comparison.baselines import SampledNeighbours, StabilityTest, distance_to_instability
from pate.mechanisms import (
    NOT_ASKED,
    ConfidentGNMax,
    GaussianSum,
    GNMax,
    LNMax,
    NoisyBallots,
    NoisyHistogram,
    SharedGaussian,
    SharedGNMax,
    VoteCap,
)
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget, rdp_overhead
from pate.privacy.noise.integers import laplace_law
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.gate import PTRGate, query_scores, safe_distance
from pate.privacy.publish.smooth_sensitivity import (
    GRID,
    ROUNDING,
    SmoothSensitivity,
    query_cap,
    release_smooth,
    smooth_bound,
)
from pate.privacy.publish.tail_bound import TailBound
from pate.records import Units, count_cells, sum_alone
from pate.release import open_ballot_session

# Mechanisms that publish a data-dependent cost: the bit of propose-test-release, and smooth sensitivity's number.

#: Equal queries of one batch.
_QUERIES = 20


def _batch(row: IntArray) -> IntArray:
    return np.tile(row, (_QUERIES, 1))


def _of(gate: PTRGate) -> dict[str, Any]:
    names = ("sigma", "order", "tau", "width", "delta", "delta0", "threshold", "sigma_threshold")
    return {name: getattr(gate, name) for name in names}


def _gate_law(gate: PTRGate, counts: IntArray) -> FloatArray:
    """Law of (refused, passed): Phi((Gamma - cut) / width)."""
    beyond = [(_margin(gate, row) - _cut(gate)) / gate.width for row in counts]
    return np.array([[ndtr(-z), ndtr(z)] for z in beyond])


def _margin(gate: PTRGate, row: IntArray) -> float:
    bound = TailBound(sigma=gate.sigma, order=gate.order, sigma_threshold=gate.sigma_threshold)
    scores = query_scores(_batch(row), gate.sigma, threshold=gate.threshold, sigma_threshold=gate.sigma_threshold)
    return safe_distance(scores, bound, gate.tau, limit=40 * gate.width)


def _cut(gate: PTRGate) -> float:
    return -gate.width * float(ndtri(gate.delta0))


def _gate_bank(gate: PTRGate, n_classes: int) -> dict[str, IntArray]:
    """Batches whose margin lies about the cut: where the noise decides the bit."""
    two = [np.array([t, 250 - t]) for t in range(125, 251)]
    margins = np.array([_margin(gate, row) for row in two[::3]])
    widths = {"margin at the cut": 0.0, "a width and a half below": -1.5, "a width and a half above": 1.5}
    nearest = {name: abs(margins - _cut(gate) - at * gate.width).argmin() for name, at in widths.items()}
    return {name: two[3 * int(place)] for name, place in nearest.items()}


@dataclass(frozen=True)
class SmoothRelease:
    """A sanitised epsilon of GNMax answers: :func:`pate.privacy.publish.smooth_sensitivity.release_smooth`."""

    how: SmoothSensitivity
    sigma: float
    delta: float


def _smooth_law(release: SmoothRelease, counts: IntArray) -> Numbers:
    """Return the law of the epsilon: a normal number, rounded up to the grid."""
    how, grid = release.how, float(GRID)
    fixed = how.price + rdp_overhead(how.order, how.delta_left(release.delta))
    centres, scales, highest = [], [], math.inf
    for row in counts:
        value, sensitivity = smooth_bound(_batch(row), release.sigma, order=how.order, beta=how.beta)
        scales.append(how.noise_scale * sensitivity)
        centres.append(value + scales[-1] * how.deviations + fixed + grid / 2)
        most = _QUERIES * query_cap(how.order, release.sigma, None) * (1 + float(ROUNDING)) + fixed
        highest = math.ceil(most / grid) * grid
    return Numbers(np.array(centres)[:, None], np.array(scales)[:, None], grid=grid, low=0.0, high=highest)


def _smooth(release: SmoothRelease, counts: IntArray, noise: NoiseSource) -> FloatArray:
    how = release.how
    drawn = [
        release_smooth(
            _batch(row), release.sigma, order=how.order, beta=how.beta, noise_scale=how.noise_scale,
            delta=release.delta, delta0=how.delta0, noise=noise,
        ).epsilon
        for row in counts
    ]  # fmt: skip
    return np.array(drawn)[:, None]


register(
    [PTRGate(sigma=40.0, order=8.0, tau=0.05, width=4.0, delta=1e-5, delta0=1e-6)],
    law=_gate_law, bank=_gate_bank, n_classes=2, max_releases=50,
    # A gate tests once: a new one for each release.
    sample=lambda gate, counts, noise: np.array([int(PTRGate(**_of(gate)).test(_batch(c), noise)) for c in counts]),
)  # fmt: skip
register(
    [SmoothRelease(SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0), sigma=40.0, delta=1e-5)],
    law=_smooth_law, sample=_smooth, n_classes=2, max_releases=50,
    bank=lambda release, n_classes: {"agreed": np.array([240, 10]), "contested": np.array([160, 90])},
)  # fmt: skip


#: What one unit may move a sum of ballots by, squared, in the audit's sums.
DELTA_SQUARED = 10**12


def _sums_bank(mechanism: GaussianSum, n_classes: int) -> dict[str, IntArray]:
    """Return sums of ballots, some of them negative or large."""
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


def _honest(m: SharedGaussian | SharedGNMax, sums: IntArray, delta_squared: int, noise: NoiseSource) -> list[int]:
    """Return what a coalition is left with: the sum over honest sites alone, of which one has all the data."""
    parts = [m.sample(sums if site == 0 else np.zeros_like(sums), delta_squared, noise) for site in range(m.n_honest)]
    return [sum(numbers) for numbers in zip(*parts, strict=True)]


def _shares_law(mechanism: SharedGaussian, sums: IntArray) -> Numbers:
    scale = mechanism.noise_multiplier * math.sqrt(DELTA_SQUARED)
    return Numbers(sums.astype(float), scale, grid=1 / mechanism.lattice(DELTA_SQUARED))


def _shared_labels_law(mechanism: SharedGNMax, counts: IntArray) -> FloatArray:
    """Return the law of the first maximum of counts with discrete Gaussian noise: sums of its steps, by brute force."""
    sigma, found = mechanism.sigma * mechanism.lattice(2), np.zeros(counts.shape)
    reach = math.ceil(12 * sigma)
    for row, out in zip(counts * mechanism.lattice(2), found, strict=True):
        x = np.arange(row.min() - reach, row.max() + reach + 1)
        mass = np.exp(-((x - row[:, None]) ** 2) / (2 * sigma**2))
        mass /= mass.sum(axis=1, keepdims=True)
        at_most = mass.cumsum(axis=1)
        below = at_most - mass
        for j in range(len(row)):
            out[j] = (mass[j] * below[:j].prod(axis=0) * at_most[j + 1 :].prod(axis=0)).sum()
    return found


@dataclass(frozen=True)
class VectorRounds:
    """A session of sums of vectors that costs a budget: cells and signed vectors, of training and held-out units."""

    budget: Budget


#: Shares of mu^2 of cells (which move by sqrt 2 of a unit) and of signed vectors (by 2): equal noise on both.
_SHARES = (1 / 3, 2 / 3)
#: Histograms that are asked about together, as cells of one sum.
_TOGETHER = 64


def _rounds_law(rounds: VectorRounds, counts: IntArray) -> Numbers:
    """Return the law of every cell in all four rounds: by the budget and the brute force of neighbours alone."""
    mu = gdp_from_budget(rounds.budget.epsilon, rounds.budget.delta)
    return Numbers(np.repeat(counts, 4, axis=1).astype(float), math.sqrt(2 / _SHARES[0]) / mu, grid=1.0)


def _rounds_bank(rounds: VectorRounds, n_classes: int) -> dict[str, IntArray]:
    return {"nobody": np.zeros(n_classes, dtype=np.int64), "stairs": 2 * np.arange(n_classes)}


def _rounds(rounds: VectorRounds, counts: IntArray, noise: NoiseSource) -> FloatArray:
    pieces = np.array_split(counts, -(-len(counts) // _TOGETHER))
    return np.concatenate([_asked(rounds, piece, noise) for piece in pieces])


def _asked(rounds: VectorRounds, counts: IntArray, noise: NoiseSource) -> FloatArray:
    """Return counts with the noise of each round, cell by cell: (n, 4 m)."""
    n_cells = counts.size
    cells = np.append(np.repeat(np.arange(n_cells), counts.ravel()), [-1, -1])  # two units say nothing
    units, found = Units.of(np.where(cells >= 0, 0.0, np.nan), share=0.5), []
    said: dict[str, Any] = {"what": "cells", "query": ""}
    with open_ballot_session(
        rounds.budget, shares=_SHARES * 2, classes=None, n_units=units.n, force=True, n_held_out=2,
        fingerprint=units.unit_owners.fingerprint(), noise_seed=int(noise.words(1)[0] >> 33) if noise.seeded else None,
    ) as session:  # fmt: skip
        for part in ("training", "held out"):
            exact = np.bincount(cells[units.part(part)], minlength=n_cells)
            hot = (cells[:, None] == np.arange(n_cells)).astype(float)
            for asked in (
                count_cells(units, cells[:, None], [n_cells], part=part, **said),
                sum_alone(units, hot, clip=1.0, part=part, **said),
            ):
                found.append(session.ask_vectors(asked).statistics.ravel() - exact + counts.ravel())
    return np.stack(found, axis=1).reshape(len(counts), -1)


def _of_each(counts: IntArray, draw: Callable[[IntArray, int], IntArray]) -> IntArray:
    """Return labels drawn of each histogram, for all of its rows together."""
    labels = np.empty(len(counts), dtype=np.int64)
    rows, which = np.unique(counts, axis=0, return_inverse=True)
    for h, row in enumerate(rows):
        asked = np.flatnonzero(which.ravel() == h)
        labels[asked] = draw(row, len(asked))
    return labels


def _capped(mechanism: VoteCap, counts: IntArray, noise: NoiseSource) -> IntArray:
    """One session of two rounds for each histogram: votes within the cap, then as many that it must drop.

    In the second round no teacher may vote: its counts must be zeros, whatever the teachers say.
    """
    cap = mechanism.max_votes

    def draw(row: IntArray, n: int) -> IntArray:
        if not row.any():
            many = max(2, round(3 * mechanism.sigma))
            run = mechanism.session(n_teachers=many, n_classes=len(row), noise=noise)
            run.ask(np.zeros((many, cap), dtype=np.int64))
            return run.ask(np.zeros((many, n), dtype=np.int64)).labels
        # One more teacher, who abstains.
        said, found = np.append(np.repeat(np.arange(len(row)), row), -1), []
        for start in range(0, n, cap):
            run = mechanism.session(n_teachers=len(said), n_classes=len(row), noise=noise)
            found.append(run.ask(np.tile(said[:, None], (1, min(cap, n - start)))).labels)
        return np.concatenate(found)

    return _of_each(counts, draw)


register([GNMax(40.0), GNMax(2.0)])
register([LNMax(20.0), LNMax(3.0)])
register(
    [
        ConfidentGNMax(200, 150, 40),
        ConfidentGNMax(12.0, 6.0, 4.0),
        ConfidentGNMax(20.0, 6.0, 4.0, offsets=(8, -6.5, 0, 3, -3, 5.25, -8, 2, 0, -1)),
    ]
)
for noisy_counts in ([NoisyHistogram(40.0), NoisyHistogram(2.0**15)], [NoisyBallots(40.0, 3), NoisyBallots(2.5, 2)]):
    register(
        noisy_counts,
        law=lambda m, counts: Numbers(counts.astype(float), m.sigma, grid=m.grid),
        sample=lambda m, counts, noise: m.sample(counts, noise).noisy_counts,
    )
register(
    [GaussianSum(4.0), GaussianSum(0.3)],
    law=_sums_law, bank=_sums_bank, n_classes=5, max_releases=2_000,
    sample=lambda m, sums, noise: m.sample(sums, DELTA_SQUARED, noise),
)  # fmt: skip
register(
    [SharedGaussian(4.0, n_sites=5, tolerate=2)], law=_shares_law, bank=_sums_bank, n_classes=5, max_releases=2_000,
    sample=lambda m, sums, noise: m.opened(_honest(m, sums, DELTA_SQUARED, noise), sums.shape, DELTA_SQUARED),
)  # fmt: skip
register(
    [SharedGNMax(10.0, 5, 2, n_classes=5), SharedGNMax(10.0, 5, 2, n_classes=5, steps_per_vote=8)],
    law=_shared_labels_law, n_classes=5, max_releases=20_000,
    sample=lambda m, counts, noise: np.reshape(_honest(m, counts, 2, noise), counts.shape).argmax(axis=1),
)  # fmt: skip
register(
    [VectorRounds(Budget(1.0, 1e-5))], law=_rounds_law, bank=_rounds_bank, sample=_rounds, n_classes=5,
    max_releases=1_000,
)  # fmt: skip
register(
    [VoteCap(500, 10.0)], sample=_capped, noises=("sigma",),
    law=lambda m, counts: np.exp(GNMax(m.sigma).log_probs(counts)),
    bank=lambda m, n_classes: law_bank(n_classes, m.sigma),
)  # fmt: skip


# Label mechanisms of the baselines: votes of sampled neighbours, and answers of stable queries.


def _units(row: IntArray) -> IntArray:
    """Return the units' votes, the nearest first: classes in turn, as long as they have votes left."""
    order = np.concatenate([np.arange(n, dtype=np.int64) * len(row) + c for c, n in enumerate(row)])
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
        inside = np.array(list(product([False, True], repeat=len(votes))), dtype=bool)
        chance = np.where(inside, m.sample_rate, 1 - m.sample_rate).prod(axis=1)
        voting = inside & (inside.cumsum(axis=1) <= m.n_neighbors)
        tables = np.stack([(voting & (votes == c)).sum(axis=1) for c in range(len(row))], axis=1)
        rows, where = np.unique(tables, axis=0, return_inverse=True)
        laws.append(np.bincount(where.ravel(), chance, len(rows)) @ np.exp(inner.log_probs(rows)))
    return np.stack(laws)


def _neighbours(m: SampledNeighbours, counts: IntArray, noise: NoiseSource) -> IntArray:
    def draw(row: IntArray, n: int) -> IntArray:
        votes = np.broadcast_to(_units(row), (n, int(row.sum())))
        distances = np.broadcast_to(np.arange(float(votes.shape[1])), votes.shape)
        return m.draw(distances, votes, len(row), noise).labels

    return _of_each(counts, draw)


def _neighbours_bank(m: SampledNeighbours, n_classes: int) -> dict[str, IntArray]:
    """Return histograms of few units, so that all samples can be enumerated."""
    some = np.zeros(n_classes, dtype=np.int64)
    rows = {"a leader": [6, 2, 1], "a tie": [3, 3, 3], "one unit": [0, 1, 0], "all alike": [0, 0, 8]}
    return {name: np.concatenate([row, some[3:]]).astype(np.int64) for name, row in rows.items()}


def _stability_law(test: StabilityTest, counts: IntArray) -> FloatArray:
    """Law of two equal queries of one release, after which one unstable one ends it.

    Outcomes: the second was never asked (the first was unstable), stable then unstable, both stable. Given the
    threshold's noise the two are independent.
    """
    r, mass, _ = laplace_law(test.threshold_scale)
    q, _, below = laplace_law(test.query_scale)
    lines = test.threshold + np.arange(-r, r + 1)
    laws = []
    for d in distance_to_instability(counts):
        # P(noise >= line - d) = P(noise <= d - line), by symmetry.
        stable = below[np.clip(d - lines + q, 0, len(below) - 1)] * (d - lines + q >= 0)
        laws.append([mass @ (1 - stable), mass @ (stable * (1 - stable)), mass @ stable**2])
    return np.array(laws)


def _stability(test: StabilityTest, counts: IntArray, noise: NoiseSource) -> IntArray:
    drawn = [test.draw(np.stack([row, row]), noise).status for row in counts]
    # Outcome 3 the law never gives: a query that is answered after the last one.
    found = [0 if b == NOT_ASKED else 3 if a == "refused" else 1 if b == "refused" else 2 for a, b in drawn]
    return np.array(found, dtype=np.int64)


def _stability_bank(test: StabilityTest, n_classes: int) -> dict[str, IntArray]:
    """Return histograms with distances about the threshold, and a tie."""
    found = {"a tie": [1, 1]}
    for name, at in (("below", -1), ("at", 0), ("above", 1)):
        distance = max(1, round(test.threshold + at * test.query_scale))
        found[f"{name} the threshold"] = [2 * distance + 3, 1]
    return {name: np.array([*row, *[0] * (n_classes - 2)]) for name, row in found.items()}


register(
    [SampledNeighbours(4, 0.5, 2.0), SampledNeighbours(4, 0.5, 2.0, threshold=3.0, screening_sigma=2.0)],
    law=_neighbours_law, bank=_neighbours_bank, sample=_neighbours, n_classes=3, max_releases=3_000,
    noises=("sigma", "screening_sigma"),
)  # fmt: skip
register(
    [StabilityTest(17, 2.0, 4.0, 1)],
    law=_stability_law, bank=_stability_bank, sample=_stability, n_classes=3, max_releases=1_000,
    noises=("threshold_scale", "query_scale"),
)  # fmt: skip
