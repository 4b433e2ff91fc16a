"""Blocks by units' numbers: who is in a step moves the rounding of no other block."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from dpsgd_steps import by_value
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import Budget, DPSGDClassifier
from pate.dpsgd._run import _parts, build_engine
from pate.dpsgd.engines import BookKeepingEngine
from pate.dpsgd.engines._book_keeping import BLOCK, FEW

RNG = np.random.default_rng(8)


def flat(parts):
    return torch.cat([part.flatten() for part in parts])


@settings(max_examples=60)
@given(st.integers(1, 3000), st.floats(0.001, 1.0), st.integers(BLOCK, 900), st.integers(0, 2**30))
def test_a_units_block_is_its_own(n, rate, at_once, seed):
    rng = np.random.default_rng(seed)
    batch = np.flatnonzero(rng.random(n) < rate)
    block_of = {}
    block = 0
    together = []
    for first, some, sizes in _parts(batch, at_once, rate):
        assert (batch[first : first + len(some)] == some).all()
        assert sum(sizes) == len(some)
        assert len(some) <= at_once or len(sizes) == 1
        together += some.tolist()
        for size, end in zip(sizes, np.cumsum(sizes), strict=True):
            for unit in some[end - size : end]:
                block_of[int(unit)] = block
            block += 1
    assert together == batch.tolist()
    # Of two units, whether they share a block follows from their numbers alone.
    width = max(1, int(62 / rate))
    for a, b in pairwise(batch):
        assert (block_of[int(a)] == block_of[int(b)]) == (a // width == b // width)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["linear", "tanh-mlp"])
def test_a_unit_that_is_not_there_moves_its_own_block_alone(name):
    torch.manual_seed(0)
    engine = build_engine(name, 40, 5)
    assert isinstance(engine, BookKeepingEngine)
    X, y = torch.randn(400, 40), torch.arange(400) % 5
    sizes = [60, 90, 91, 40, 119]
    options = {"seed": 0, "shared": True}
    whole = flat(engine.clipped_sum(X, y, 0.3, blocks=sizes, **options))
    exact = flat(engine.clipped_sum(X, y, 0.3, **options))
    assert 1e-9 < float((whole - exact).norm()) < 1e-5
    start = 0
    for i, size in enumerate(sizes):
        keep = torch.arange(400) != start + 3
        fewer = [s - (j == i) for j, s in enumerate(sizes)]
        less = flat(engine.clipped_sum(X[keep], y[keep], 0.3, blocks=fewer, **options))
        assert float((whole - less).norm()) <= 0.3 * (1 + engine.excess)
        # The other blocks' float32 sums are the same: what is left of the difference is this block's own.
        mine = slice(start, start + size)
        alone = flat(engine.clipped_sum(X[mine], y[mine], 0.3, blocks=[size], **options))
        without = torch.arange(size) != 3
        rest = flat(engine.clipped_sum(X[mine][without], y[mine][without], 0.3, blocks=[size - 1], **options))
        torch.testing.assert_close(whole - less, alone - rest, rtol=0, atol=3e-8)
        start += size


def test_blocks_that_are_too_large_are_exact():
    engine = build_engine("linear", 40, 5)
    X, y = torch.randn(200, 40), torch.arange(200) % 5
    exact = flat(engine.clipped_sum(X, y, 0.3, seed=0, shared=True))
    large = flat(engine.clipped_sum(X, y, 0.3, seed=0, shared=True, blocks=[200]))
    # But for the factors, which are each unit's own: summed in float32 it would be off by ten times that.
    torch.testing.assert_close(large, exact, rtol=0, atol=1e-7)
    # The bound that excess pays for: twice FEW blocks' error, as one of BLOCK for a replaced unit.
    assert engine.excess >= 2 * FEW * (FEW * 2**-24 / (1 - FEW * 2**-24))


@pytest.mark.long
def test_fits_sum_in_blocks_where_units_keep_their_numbers(monkeypatch):
    seen = []
    original = BookKeepingEngine.clipped_sum

    def spy(self, *args, **options):
        seen.append((options.get("shared"), options.get("blocks")))
        return original(self, *args, **options)

    X, y = RNG.normal(size=(2000, 6)).astype(np.float32), RNG.integers(0, 2, 2000)
    more = {"budget": Budget(3.0, 1e-4), "classes": [0, 1], "n_steps": 2}
    monkeypatch.setattr(BookKeepingEngine, "clipped_sum", spy)
    monkeypatch.setattr("pate.dpsgd._run.check_promise", lambda *_: None)

    def fit(groups=None, **options):
        clf = DPSGDClassifier("linear", **by_value(**more, **options))
        clf.fit(X, y, groups=groups)
        found = seen[-2:]
        seen.clear()
        return found

    for shared, blocks in fit(expected_batch_size=500):
        assert shared
        assert blocks is not None
        assert 3 < len(blocks) < 30
    assert all(found == (False, None) for found in fit(expected_batch_size=2000))
    assert all(
        found == (True, None) for found in fit(expected_batch_size=500, adjacency="add-or-remove", nominal_n=2000)
    )
    assert all(found == (True, None) for found in fit(np.arange(2000) // 2, expected_batch_size=200))
    assert all(found == (True, None) for found in fit(expected_batch_size=500, max_physical_batch_size=64))
