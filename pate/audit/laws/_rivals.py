"""What a mechanism may do instead of what it claims: laws to bet on, each of a fault that was seen in published code.

They need not be exact: any law may be bet on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from pate.core.types import FloatArray, IntArray

__all__ = ["FACTORS", "about", "label_rivals", "scaled_copies"]

#: Of the noise: from half to twice what is claimed.
FACTORS = (0.5, 0.7071, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 1.4142, 2.0)
#: How often noise is left out.
_LEFT_OUT = (1e-3, 1e-2, 1e-1, 1.0)
_NODES = 256
#: Scales that differ by less are looked at on one grid, evenly spaced: a sum that is right to many digits.
_ALIKE = 4.0


def scaled_copies(mechanism: Any, noises: Sequence[str]) -> dict[str, Any]:
    """Return a frozen mechanism with each of its noises, and all of them, multiplied by :data:`FACTORS`."""
    noises = [name for name in noises if getattr(mechanism, name) is not None]
    found = {
        f"{name} x {factor:g}": dataclasses.replace(mechanism, **{name: getattr(mechanism, name) * factor})
        for name in noises
        for factor in FACTORS
    }
    if len(noises) > 1:
        for factor in FACTORS:
            changes = {name: getattr(mechanism, name) * factor for name in noises}
            found[f"all noise x {factor:g}"] = dataclasses.replace(mechanism, **changes)
    return found


def winner_law(centres: FloatArray, scales: FloatArray | float, *, laplace: bool = False) -> FloatArray:
    """Return about how probably each class wins, with noise of its own scale each: (n_classes,)."""
    wide = np.broadcast_to(np.asarray(scales, dtype=float), centres.shape)
    return _winner_law(np.asarray(centres, dtype=float).tobytes(), wide.tobytes(), laplace)


@lru_cache(maxsize=4096)
def _winner_law(centres: bytes, scales: bytes, laplace: bool) -> FloatArray:
    both = np.frombuffer(centres) + 1j * np.frombuffer(scales)
    alike, where, repeats = np.unique(both, return_inverse=True, return_counts=True)
    pairs = np.stack([alike.real, alike.imag])
    wins = np.empty(len(repeats))
    if pairs[1].max() < _ALIKE * pairs[1].min():  # one grid for all
        reach = 25.0 if laplace else 8.0
        x = np.linspace((pairs[0] - reach * pairs[1]).max(), (pairs[0] + reach * pairs[1]).max(), _NODES)
        z = (x - pairs[0][:, None]) / pairs[1][:, None]
        below = _log_below(z, laplace)
        density = (-np.abs(z) if laplace else -0.5 * z * z) - np.log(pairs[1])[:, None]
        wins = np.exp(density - below + repeats @ below).sum(axis=1)
        pairs = pairs[:, :0]
    for j, (centre, scale) in enumerate(pairs.T):
        x = centre + scale * _quantiles(laplace)
        below = repeats @ _log_below((x - pairs[0][:, None]) / pairs[1][:, None], laplace)
        wins[j] = np.exp(below - _log_below((x - centre) / scale, laplace)).mean()
    law = wins[where.ravel()]
    law = np.asarray(law / law.sum())
    law.setflags(write=False)
    return law


@lru_cache
def _quantiles(laplace: bool) -> FloatArray:
    middles = (np.arange(_NODES) + 0.5) / _NODES
    if not laplace:
        return np.asarray(ndtri(middles))
    return np.where(middles < 0.5, np.log(2 * np.minimum(middles, 0.5)), -np.log(2 * np.minimum(1 - middles, 0.5)))


def _log_below(z: FloatArray, laplace: bool) -> FloatArray:
    if not laplace:
        return np.asarray(log_ndtr(z))
    return np.where(z < 0, np.minimum(z, 0.0) - np.log(2), np.log1p(-0.5 * np.exp(-np.abs(z))))


def about(exact: Mapping[str, Any], counts: IntArray) -> FloatArray:
    """Return about the law of a noisy argmax with such exact parameters: quick, and good enough to bet on."""
    noise, test = exact["noise"], exact["threshold"]
    labels = np.stack([winner_law(row, noise.scale, laplace=is_laplace(noise)) for row in counts.astype(float)])
    if test is None:
        return labels
    passed = ndtr((counts.max(axis=1) - test.threshold) / test.scale)[:, None]
    return np.concatenate([labels * passed, 1 - passed], axis=1)


def is_laplace(noise: Any) -> bool:
    """Return whether the noise of some exact parameters is Laplace's."""
    return type(noise).__name__ == "LaplaceNoise"


def label_rivals(exact: Mapping[str, Any], counts: IntArray, law: FloatArray) -> dict[str, FloatArray]:
    """Return laws of faulty noisy argmaxes on histograms (n, m): each (n, m), or (n, m + 1) with a threshold.

    Noise that differs between classes, is missing on empty ones or is left out now and then, of another family or
    truncated, on every count of the threshold test, one noise for test and answer; ties to the lowest index.
    """
    n, m = counts.shape
    scale, laplace, test = exact["noise"].scale, is_laplace(exact["noise"]), exact["threshold"]
    threshold, scale1 = (None, None) if test is None else (test.threshold, test.scale)
    values = counts.astype(float)
    top = values.max(axis=1)
    honest, passed = law[:, :m], np.ones(n)
    if threshold is not None and scale1 is not None:
        passed = ndtr((top - threshold) / scale1)
        honest = law[:, :m] / np.maximum(law[:, :m].sum(axis=1, keepdims=True), 1e-300)

    def joined(labels: FloatArray, answered: FloatArray) -> FloatArray:
        if threshold is None:
            return labels
        return np.concatenate([labels * answered[:, None], 1 - answered[:, None]], axis=1)

    def winners(scales: FloatArray, *, other: bool = False) -> FloatArray:
        rows = np.broadcast_to(scales, values.shape)
        return joined(
            np.stack([winner_law(c, s, laplace=laplace != other) for c, s in zip(values, rows, strict=True)]), passed
        )

    found = {}
    for spread in (0.05, 0.1, 0.2, 0.5):
        for name, sign in (("growing", 1), ("falling", -1)):
            found[f"noise {name} by class, {spread:g}"] = winners(scale * (1 + sign * np.linspace(-spread, spread, m)))
    found["no noise on empty classes"] = winners(np.where(counts > 0, scale, 1e-3 * scale))
    for factor in (0.7071, 1.0, 1.4142):
        found[f"noise of the other family, scale x {factor:g}"] = winners(np.array(scale * factor), other=True)
    truth = (values == top[:, None]) / (values == top[:, None]).sum(axis=1, keepdims=True)
    first = np.eye(m)[values.argmax(axis=1)]
    for share in _LEFT_OUT:
        found[f"no noise in {share:g} of the answers"] = joined((1 - share) * honest + share * truth, passed)
        if share < 1:
            found[f"ties to the lowest index in {share:g}"] = joined((1 - share) * honest + share * first, passed)
    found["always the first of the largest"] = joined(first, passed)
    tilt = np.linspace(1, -1, m)
    for size in (0.003, 0.01, 0.03, 0.1):
        low = honest * (1 + size * tilt)
        found[f"low indices by {size:g}"] = joined(low / low.sum(axis=1, keepdims=True), passed)
    if threshold is not None and scale1 is not None:
        every = 1 - np.prod(ndtr((threshold - values) / scale1), axis=1)
        found["threshold noise on every count"] = joined(honest, every)
        found["no threshold noise"] = joined(honest, np.where(top >= threshold, 1 - 1e-6, 1e-6))
        found["no refusals"] = joined(honest, np.full(n, 1 - 1e-6))
        same = 1 - np.prod(ndtr((threshold - values) / scale), axis=1)
        found["the answer's noise in the test"] = joined(honest, same)
        for share in _LEFT_OUT[:3]:
            mixed = (1 - share) * passed + share * (top >= threshold)
            found[f"no noise in {share:g} of the tests"] = joined(honest, mixed)
    return found
