"""Normals for sums of gradients: their law, whatever their number, and that they cannot be repeated."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from pate.dpsgd.mechanisms import _mechanism
from pate.dpsgd.mechanisms._mechanism import gaussian
from pate.privacy.noise.source import NoiseSource


def test_the_system_source_has_the_same_law_as_the_seeded_one():
    # no seed here: one false alarm in 10^9 runs
    for draws in (gaussian(NoiseSource(), 50_000), gaussian(NoiseSource(1), 50_001)):
        assert kstest(draws.numpy(), "norm").pvalue > 1e-9
    normal = gaussian(NoiseSource(5), 3000).numpy().reshape(1000, 3)
    assert abs(np.corrcoef(normal.T)[np.triu_indices(3, 1)]).max() < 0.15
    assert not torch.equal(gaussian(NoiseSource(), 4), gaussian(NoiseSource(), 4))


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9, 16, 17, 100])
def test_every_place_gets_a_draw_of_its_own(size, monkeypatch):
    """Blocks of a few pairs, whole and broken ones: by the definition, word for word."""
    monkeypatch.setattr(_mechanism, "_PAIRS", 4)
    found = gaussian(NoiseSource(3), size).numpy()
    assert found.shape == (size,)
    assert len(set(found)) == size
    source, half, expected = NoiseSource(3), (size + 1) // 2, []
    for start in range(0, half, 4):
        n = min(4, half - start)
        words = source.words(2 * n)
        radius = np.sqrt(-2 * np.log((words[:n].astype(float) + 1) / 2**64))
        expected += [radius * f(2 * np.pi * (words[n:] // 2**12 / 2**52)) for f in (np.cos, np.sin)]
    np.testing.assert_allclose(found, np.concatenate([*expected, []])[:size], rtol=1e-12, atol=1e-12)


def test_the_ends_of_the_uniforms_are_finite():
    class Ends(NoiseSource):
        def words(self, size):
            return np.array([0, 2**64 - 1] * (size // 2), dtype=np.uint64)

    draws = gaussian(Ends(), 4)
    assert bool(torch.isfinite(draws).all())
    assert float(draws.abs().max()) == pytest.approx(9.42, abs=0.01)
