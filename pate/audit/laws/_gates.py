"""What publishes a data-dependent cost: the gate's bit, and the number of smooth sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from pate.audit.laws._registry import Numbers, register
from pate.core.types import FloatArray, IntArray
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
