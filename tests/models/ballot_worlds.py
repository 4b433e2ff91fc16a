"""Releases that are made up, from a known truth."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


def make_release(phi, labels, n_classes, sigma, seed=0):
    """The noisy sum of signed ballots of these records."""
    sums = phi.T @ (np.eye(n_classes)[labels] - 1 / n_classes)
    sums = sums + sigma * np.random.default_rng(seed).normal(size=sums.shape)
    sums -= sums.mean(axis=1, keepdims=True)
    return SimpleNamespace(statistics=sums, sigma=sigma, n_units=len(phi), classes=tuple(range(n_classes)))


def make_world(seed=0, n=4000, n_public=800, d=12, m=4):
    """Rows of unit norm in an uneven spectrum, with labels from a softmax of linear scores."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(d, d)) * np.geomspace(1, 0.1, d)
    truth = rng.normal(size=(d, m)) * 4

    def rows(count):
        phi = rng.normal(size=(count, d)) @ axes
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)
        return phi, (phi @ truth + rng.gumbel(size=(count, m))).argmax(axis=1)

    phi, labels = rows(n)
    return SimpleNamespace(phi=phi, labels=labels, public=rows(n_public)[0], test=rows(2000), n_classes=m, truth=truth)
