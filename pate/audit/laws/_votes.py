"""The mechanisms that see votes and sums of ballots, registered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from pate.audit.laws._registry import Numbers, law_bank, register
from pate.core.types import FloatArray, IntArray
from pate.mechanisms import ConfidentGNMax, GaussianSum, GNMax, LNMax, NoisyHistogram, VoteCap
from pate.noise.source import NoiseSource
from pate.privacy.convert import rdp_overhead
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

# What publishes a data-dependent cost: the gate's bit, and the number of smooth sensitivity.

#: Equal queries of one batch.
_QUERIES = 20


def _batch(row: IntArray) -> IntArray:
    return np.tile(row, (_QUERIES, 1))


def _of(gate: PTRGate) -> dict[str, Any]:
    names = ("sigma", "order", "tau", "width", "delta", "delta0", "threshold", "sigma_threshold")
    return {name: getattr(gate, name) for name in names}


def _gate_law(gate: PTRGate, counts: IntArray) -> FloatArray:
    """Law of (refused, passed): Phi((Gamma - cut) / width), as the module's top says it."""
    bound = TailBound(sigma=gate.sigma, order=gate.order, sigma_threshold=gate.sigma_threshold)
    cut = -gate.width * float(ndtri(gate.delta0))
    rows = []
    for row in counts:
        scores = query_scores(_batch(row), gate.sigma, threshold=gate.threshold, sigma_threshold=gate.sigma_threshold)
        gamma = safe_distance(scores, bound, gate.tau, limit=40 * gate.width)
        rows.append([ndtr(-(gamma - cut) / gate.width), ndtr((gamma - cut) / gate.width)])
    return np.array(rows)


def _gate(gate: PTRGate, counts: IntArray, noise: NoiseSource) -> IntArray:
    # A gate tests once: a new one for each release.
    return np.array([int(PTRGate(**_of(gate)).test(_batch(row), noise)) for row in counts])


def _gate_bank(gate: PTRGate, n_classes: int) -> dict[str, IntArray]:
    """Batches whose margin lies about the cut: where the bit is tossed by the noise."""
    cut = -gate.width * float(ndtri(gate.delta0))
    tops = np.arange(125, 251)
    two = [np.array([t, 250 - t]) for t in tops]
    bound = TailBound(sigma=gate.sigma, order=gate.order, sigma_threshold=gate.sigma_threshold)

    def margin(row: IntArray) -> float:
        scores = query_scores(_batch(row), gate.sigma, threshold=gate.threshold, sigma_threshold=gate.sigma_threshold)
        return safe_distance(scores, bound, gate.tau, limit=40 * gate.width)

    margins = np.array([margin(row) for row in two[::3]])
    found = {}
    for name, at in (("margin at the cut", 0.0), ("a width and a half below", -1.5), ("a width and a half above", 1.5)):
        found[name] = two[3 * int(abs(margins - cut - at * gate.width).argmin())]
    return found


@dataclass(frozen=True)
class SmoothRelease:
    """A sanitised epsilon of GNMax answers: :func:`pate.privacy.publish.smooth_sensitivity.release_smooth`."""

    how: SmoothSensitivity
    sigma: float
    delta: float


def _smooth_law(release: SmoothRelease, counts: IntArray) -> Numbers:
    """Return that of the epsilon: the least multiple of the grid above a normal is the nearest to half a grid more."""
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


def _smooth_bank(release: SmoothRelease, n_classes: int) -> dict[str, IntArray]:
    return {"agreed": np.array([240, 10]), "contested": np.array([160, 90])}


register(
    [PTRGate(sigma=40.0, order=8.0, tau=0.05, width=4.0, delta=1e-5, delta0=1e-6)],
    law=_gate_law, bank=_gate_bank, sample=_gate, n_classes=2, max_releases=50,
)  # fmt: skip
register(
    [SmoothRelease(SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0), sigma=40.0, delta=1e-5)],
    law=_smooth_law, bank=_smooth_bank, sample=_smooth, n_classes=2, max_releases=50,
)  # fmt: skip


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
