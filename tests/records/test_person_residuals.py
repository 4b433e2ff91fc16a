"""Residuals of many persons clipped at once are those of each person alone, to the last bit, and within the norm."""

from __future__ import annotations

import numpy as np
import pytest

from pate.records import _maps
from pate.records.ballot_sum import GRID, exact_product, residual_norm


def alone(p, r, most):
    """One person's clipped sum in whole multiples of 2^16, step by step."""
    u = exact_product(p, r) / GRID
    peak = float(np.abs(u).max(initial=0.0))
    if peak == 0.0:
        return np.zeros(u.shape, dtype=np.int64)
    scale = min(1.0, most / (peak * float(np.sqrt(np.square(u / peak).sum()))))
    for _ in range(_maps._TURNS):
        made = np.clip(np.trunc(u * scale), -most, most).astype(np.int64)
        if int(np.square(made).sum()) <= most * most:
            return made
        scale *= _maps._SHRINK
    return np.zeros(u.shape, dtype=np.int64)


def drawn(rng, n, d, m, clip):
    """Directions, residuals and owners of n records; most of them at the bound, some zero or short."""
    z, e = rng.normal(size=(n, d)), rng.normal(size=(n, m))
    z *= rng.choice([1.0, 0.3, 0.0], size=(n, 1), p=[0.8, 0.1, 0.1]) / np.linalg.norm(z, axis=1, keepdims=True)
    e *= residual_norm(clip) / np.linalg.norm(e, axis=1, keepdims=True)
    sizes = rng.choice([1, 1, 2, 3, 7], size=n)
    return np.trunc(z * GRID).astype(np.int64), np.trunc(e).astype(np.int64), np.repeat(np.arange(n), sizes)[:n]


@pytest.mark.parametrize("tiers", [False, True])
@pytest.mark.parametrize(("d", "m", "clip"), [(1, 2, 0.1), (17, 3, 0.1), (130, 3, 0.5), (9, 10, 1.0)])
@pytest.mark.parametrize("at_once", [1, 1 << 16])
def test_many_at_once_are_each_alone(monkeypatch, at_once, d, m, clip, tiers):
    monkeypatch.setattr(_maps, "_MOST_AT_ONCE", at_once)
    rng = np.random.default_rng([d, m, tiers])
    p, r, owners = drawn(rng, 150, d, m, clip)
    scales = np.where(owners % 3, GRID, GRID // 5) if tiers else None
    wanted = np.zeros((d, m), dtype=np.int64)
    for owner in np.unique(owners):
        own = owners == owner
        most = residual_norm(clip) if scales is None else residual_norm(clip) * int(scales[own][0]) // GRID
        one = alone(p[own], r[own], most)
        assert sum(int(v) ** 2 for v in one.ravel()) <= most**2
        wanted += one * GRID
    found = _maps.person_residual_sums(p, r, owners, clip=clip, scales=scales)
    assert (found == wanted).all()


def test_a_person_of_more_records_than_one_product_takes():
    rng = np.random.default_rng(0)
    p, r, _ = drawn(rng, 700, 5, 3, 0.5)
    found = _maps.person_residual_sums(p, r, np.zeros(700, dtype=np.int64), clip=0.5)
    assert (found == alone(p, r, residual_norm(0.5)) * GRID).all()


def test_a_lost_bound_is_found(monkeypatch):
    """Without the clip a person of many records is beyond the norm: the comparison can fail."""
    rng = np.random.default_rng(1)
    p, r, _ = drawn(rng, 20, 3, 2, 0.1)
    monkeypatch.setattr(_maps, "_shortened", lambda u, most: np.trunc(u).astype(np.int64).sum(axis=0))
    found = _maps.person_residual_sums(p, r, np.zeros(20, dtype=np.int64), clip=0.1)
    assert (found != alone(p, r, residual_norm(0.1)) * GRID).any()
