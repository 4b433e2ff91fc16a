"""Units of several rows, and groups of parameters: one unit is clipped once, whatever and however much it holds."""

from __future__ import annotations

import copy
import math
from functools import cache

import pytest
import torch
from torch import nn

from pate.dpsgd._run import build_engine
from pate.dpsgd.clipping import FlatClipping, PerLayerClipping
from pate.dpsgd.engines import BookKeepingEngine, PerRecordEngine, _book_keeping
from pate.exceptions import InvalidInputError
from pate.networks import MLP, Linear

F, K, C = 6, 3, 0.05
ENGINES = [BookKeepingEngine, PerRecordEngine]


class Smooth(MLP):
    def __init__(self, **kwargs):
        super().__init__(hidden=(7,), activation="tanh", **kwargs)


class Images(nn.Module):
    """Every layer that book-keeping knows, but for those of rows of ids."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.rows = nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2, padding=1), nn.GroupNorm(2, 4))
        self.flat = nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 3, 3, stride=3, padding=1), nn.Tanh())
        self.places = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh(), nn.Flatten())
        self.head = nn.Linear(15, n_classes)

    def forward(self, x):
        return self.head(self.places(self.flat(self.rows(x))))


class WeightsAndBiases(FlatClipping):
    """Groups that are not layers: weights here, biases there."""

    def groups(self, names):
        return tuple(int(name.endswith("bias")) for name in names)

    def factors(self, norms):
        return (self.max_norm / math.sqrt(2) / norms).clamp(max=1.0)


CLIPS = [FlatClipping(C), PerLayerClipping(C), FlatClipping(1e6), WeightsAndBiases(C)]


def flat(parts):
    return torch.cat([part.flatten() for part in parts])


@cache
def built_once(engine, module):
    torch.manual_seed(0)
    return build_engine(module, F, K, engine=engine)


def made(engine, module):
    torch.manual_seed(1)
    return copy.deepcopy(built_once(engine, module))


def unit_by_unit(module, X, y, weights, k, clip):
    """Return every unit's clipped gradient, found by itself in float64."""
    exact = copy.deepcopy(module).double()
    names, used = zip(*exact.named_parameters(), strict=True)
    groups = clip.groups(names)
    found = []
    for u in range(len(X) // k):
        some = slice(u * k, (u + 1) * k)
        losses = nn.functional.cross_entropy(exact(X[some].double()), y[some], reduction="none")
        gradients = torch.autograd.grad((weights[some].double() * losses).sum(), used)
        norms = torch.zeros(1, max(groups) + 1, dtype=torch.float64)
        for group, g in zip(groups, gradients, strict=True):
            norms[0, group] += g.square().sum()
        factors = clip.factors(norms.sqrt())
        found.append(flat(factors[0, group] * g for group, g in zip(groups, gradients, strict=True)))
    return torch.stack(found)


@pytest.mark.long
@pytest.mark.parametrize("module", [Linear, Smooth, Images])
@pytest.mark.parametrize("engine", ENGINES)
def test_equal_to_a_loop_over_units(engine, module):
    built = made(engine, module)
    for k, n in ((1, 5), (3, 4), (2, 30)):
        X, y, weights = torch.randn(n * k, F), torch.arange(n * k) % K, torch.rand(n * k)
        for clip in CLIPS:
            exact = unit_by_unit(built.module, X, y, weights, k, clip).sum(dim=0)
            for shared in (False, True):
                found = built.clipped_sum(X, y, clip, rows_per_unit=k, weights=weights, seed=0, shared=shared)
                assert float((flat(found) - exact).norm()) <= 2e-5 * float(exact.norm())


@pytest.mark.few(1)
@pytest.mark.parametrize("clip", CLIPS[:2])
@pytest.mark.parametrize("module", [Linear, Images])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_person_with_many_records_moves_the_sum_no_more_than_one_with_one(engine, module, clip):
    built, k = made(engine, module), 5
    X, y = torch.randn(4 * k, F), torch.arange(4 * k) % K
    weights = torch.ones(4 * k)
    others = flat(built.clipped_sum(X[k:], y[k:], clip, rows_per_unit=k, weights=weights[k:], seed=0))
    for size in (0.0, 1e-3, 1.0, 1e3, 1e18, 3e38, math.inf, math.nan):
        for n_own in (1, k):
            mine, mark = X.clone(), weights.clone()
            mine[:k], mark[n_own:k] = size, 0.0
            mine[n_own:k] = 0.0
            found = flat(built.clipped_sum(mine, y, clip, rows_per_unit=k, weights=mark, seed=0))
            assert float((found - others).norm()) <= C * (1 + 1e-3)
            alone = flat(built.clipped_sum(mine[:k], y[:k], clip, rows_per_unit=k, weights=mark[:k], seed=0))
            assert float(alone.norm()) <= C
            assert torch.isfinite(found).all()
            if not math.isfinite(size):
                assert not alone.any()


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_weight_0_and_copies_change_nothing(engine):
    built = made(engine, Images)
    X, y = torch.randn(4, F), torch.arange(4) % K
    one = flat(built.clipped_sum(X, y, C, seed=0))
    copies = flat(built.clipped_sum(X.repeat_interleave(3, 0), y.repeat_interleave(3), C, rows_per_unit=3, seed=0))
    torch.testing.assert_close(copies, one, rtol=1e-4, atol=1e-6 * C)
    filled, labels, weights = torch.zeros(12, F), torch.zeros(12, dtype=torch.int64), torch.zeros(12)
    filled[::3], labels[::3], weights[::3] = X, y, 1.0
    found = flat(built.clipped_sum(filled, labels, C, rows_per_unit=3, weights=weights, seed=0))
    torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-6 * C)


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_that_cancel_within_a_unit_are_clipped_as_what_is_left_of_them(engine):
    """A norm of parts, each within its own, would shrink what is within the norm together."""
    built = made(engine, Linear)
    X = torch.ones(4, F)
    X[1] += 1e-3
    y, weights = torch.tensor([0, 0, 1, 1]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    exact = unit_by_unit(built.module, X, y, weights, 2, FlatClipping(1e6))
    assert float(exact[0].norm()) < 0.01
    found = flat(built.clipped_sum(X[:2], y[:2], 0.1, rows_per_unit=2, weights=weights[:2], seed=0))
    torch.testing.assert_close(found, exact[0], rtol=1e-3, atol=1e-6)
    assert float(flat(built.clipped_sum(X[2:], y[2:], 0.1, rows_per_unit=2, weights=weights[2:], seed=0)).norm()) < 1e-6


def test_no_unit_is_cut_in_two_by_a_pass():
    built = made(BookKeepingEngine, Smooth)
    X, y = torch.randn(30, F), torch.arange(30) % K
    whole = flat(built.clipped_sum(X, y, C, rows_per_unit=5, seed=0))
    for at_once in (1, 7, 13):
        built.at_once = at_once
        torch.testing.assert_close(
            flat(built.clipped_sum(X, y, C, rows_per_unit=5, seed=0)), whole, rtol=1e-5, atol=1e-8
        )


def test_formed_gradients_of_units_are_kept_few_at_a_time(monkeypatch):
    built, seen = made(BookKeepingEngine, Smooth), []
    real = built._forward
    monkeypatch.setattr(built, "_forward", lambda X: (seen.append(len(X)), real(X))[1])
    monkeypatch.setattr(_book_keeping, "_KEPT", 4 * built._formed)
    X, y = torch.randn(40, F), torch.arange(40) % K
    built.clipped_sum(X, y, C, rows_per_unit=2, seed=0)
    assert seen == [8] * 5


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_are_not_whole_units_are_refused(engine):
    built = made(engine, Linear)
    X, y = torch.randn(6, F), torch.arange(6) % K
    for k, weights in ((4, None), (0, None), (3, torch.ones(5))):
        with pytest.raises(InvalidInputError, match="whole units"):
            built.clipped_sum(X, y, C, rows_per_unit=k, weights=weights, seed=0)
    for empty in (built.clipped_sum(X[:0], y[:0], C, rows_per_unit=k, seed=0) for k in (1, 2)):
        assert [part.shape for part in empty] == [p.shape for p in built.module.parameters()]
        assert not flat(empty).any()


class RowByRow(PerRecordEngine):
    """Clips every row of a unit: two of them are twice as long."""

    def clipped_sum(self, X, y, clip, *, rows_per_unit=1, weights=None, **options):
        return super().clipped_sum(X, y, clip, **options)


class AcrossUnits(PerRecordEngine):
    """Knows no units but the first one's place: rows of neighbours are clipped together."""

    def clipped_sum(self, X, y, clip, *, rows_per_unit=1, weights=None, **options):
        if rows_per_unit == 1 or len(X) == rows_per_unit:
            return super().clipped_sum(X, y, clip, rows_per_unit=rows_per_unit, weights=weights, **options)
        found = super().clipped_sum(X.roll(1, 0), y.roll(1), clip, rows_per_unit=rows_per_unit, **options)
        return [3 * g for g in found]


class DeafToGroups(PerRecordEngine):
    """Gives every layer the whole norm."""

    def clipped_sum(self, X, y, clip, **options):
        if isinstance(clip, PerLayerClipping):
            clip = PerLayerClipping(clip.max_norm * 2**0.5)
        return super().clipped_sum(X, y, clip, **options)


@pytest.mark.few(1)
@pytest.mark.parametrize("broken", [RowByRow, AcrossUnits, DeafToGroups])
def test_an_engine_that_breaks_its_promise_to_units_trains_nothing(broken):
    with pytest.raises(InvalidInputError, match=f"by {broken.__name__}: on made-up rows"):
        made(broken, Smooth)


def test_not_a_bit_of_a_units_part_depends_on_the_others():
    built = made(BookKeepingEngine, Images)
    X, y = torch.randn(40, F), torch.arange(40) % K
    for clip in CLIPS[:2]:
        sums = []
        for wild in (math.nan, math.inf):
            rows = torch.full_like(X, wild)
            rows[12:14] = X[12:14]
            sums.append(flat(built.clipped_sum(rows, y, clip, rows_per_unit=2, seed=0)))
        assert torch.equal(*sums)
        assert float(sums[0].norm()) > 0.5 * C
