"""Rows of ids and tables that they are looked up in: norms of what a word moves in all its places together."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
import torch
from dpsgd_steps import train
from torch import nn

from pate.dpsgd._checks import ids_of, try_module
from pate.dpsgd._optimizers import make_optimizer
from pate.dpsgd._rows import rows_for
from pate.dpsgd._run import build_engine
from pate.dpsgd.clipping import FlatClipping, PerLayerClipping
from pate.dpsgd.engines import BookKeepingEngine, PerRecordEngine, _book_keeping
from pate.exceptions import InvalidInputError
from pate.networks import read_program

V, L, K, C = 11, 6, 3, 0.05
ENGINES = [BookKeepingEngine, PerRecordEngine]


class Words(nn.Module):
    """The mean of words' vectors."""

    def __init__(self, *, n_features, n_classes, **options):
        super().__init__()
        self.words, self.hidden = nn.Embedding(V, 4, **options), nn.Linear(4, 5)
        self.head = nn.Linear(5, n_classes)

    def forward(self, x):
        return self.head(torch.tanh(self.hidden(self.words(x).mean(dim=1))))


class Padded(Words):
    def __init__(self, **kwargs):
        super().__init__(padding_idx=0, **kwargs)


class Two(nn.Module):
    """Two tables, one of them smaller, convolutions over places."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.large, self.small = nn.Embedding(V + 3, 4), nn.Embedding(V, 4)
        self.conv, self.norm = nn.Conv1d(4, 3, 3, padding=1), nn.GroupNorm(1, 3)
        self.head = nn.Linear(3, n_classes)

    def forward(self, x):
        z = torch.add(self.large(x), self.small(x)).transpose(1, 2)
        return self.head(torch.amax(self.norm(self.conv(z)).tanh(), dim=2))


class Cast(Words):
    def forward(self, x):
        return super().forward(x.long())


class Places(nn.Module):
    """Ids for words, and a table of places, which is no table of ids; book-keeping does not know it."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.words, self.places = nn.Embedding(V, 4), nn.Embedding(n_features, 4)
        self.head = nn.Linear(4, n_classes)

    def forward(self, x):
        return self.head((self.words(x) + self.places(torch.arange(x.shape[1]))).tanh().mean(dim=1))


MODULES = [Words, Padded, Two]


def flat(parts):
    return torch.cat([part.flatten() for part in parts])


@cache
def built_once(module, engine):
    torch.manual_seed(0)
    return build_engine(module, L, K, engine=engine)


def made(module, engine=None):
    torch.manual_seed(1)
    return copy.deepcopy(built_once(module, engine))


def unit_by_unit(module, X, y, k, clip):
    exact, found = copy.deepcopy(module).double(), []
    names, used = zip(*exact.named_parameters(), strict=True)
    groups = clip.groups(names)
    for u in range(len(X) // k):
        some = slice(u * k, (u + 1) * k)
        gradients = torch.autograd.grad(nn.functional.cross_entropy(exact(X[some]), y[some]), used)
        norms = torch.zeros(1, max(groups) + 1, dtype=torch.float64)
        for group, g in zip(groups, gradients, strict=True):
            norms[0, group] += g.square().sum()
        factors = clip.factors(norms.sqrt())
        found.append(flat(factors[0, group] * g for group, g in zip(groups, gradients, strict=True)))
    return torch.stack(found)


@pytest.mark.few(1)
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("engine", ENGINES)
def test_equal_to_a_loop_over_units(engine, module):
    built = made(module, engine)
    for k in (1, 3):
        X, y = torch.randint(0, V, (8 * k, L)), torch.arange(8 * k) % K
        X[0], X[1, :4] = 3, 0  # one word all along, and padding
        for clip in (FlatClipping(C), PerLayerClipping(C), FlatClipping(1e6)):
            exact = unit_by_unit(built.module, X, y, k, clip).sum(dim=0)
            for shared in (False, True):
                found = flat(built.clipped_sum(X, y, clip, rows_per_unit=k, seed=0, shared=shared))
                assert float((found - exact).norm()) <= 2e-5 * float(exact.norm())


@pytest.mark.few(2)
@pytest.mark.parametrize("module", MODULES)
def test_words_that_stand_twice_count_together(module):
    """Every length of a run of one word: the norm is that of the sum, neither of one place nor of places alone."""
    built = made(module, BookKeepingEngine)
    for n_same in range(1, L + 1):
        X = torch.arange(L)[None] + 1
        X[0, :n_same] = 7
        for k in (1, 2):
            rows, y = X.repeat(k, 1), torch.arange(k)
            exact = unit_by_unit(built.module, rows, y, k, FlatClipping(1e6))[0]
            clipped = flat(built.clipped_sum(rows, y, 0.3 * float(exact.norm()), rows_per_unit=k, seed=0))
            torch.testing.assert_close(clipped, 0.3 * exact, rtol=1e-4, atol=1e-6)


def test_places_that_cancel_leave_what_is_left():
    """Opposite rows of one word, far larger than their sum: by squares less cross terms in float32 it would be lost."""
    layer = nn.Embedding(V, 64)
    g = torch.randn(1, 2, 64) * 1e3
    g[0, 1] = -g[0, 0]
    g[0, 1, 0] += 0.01
    [part] = _book_keeping.parts(layer, torch.tensor([[5, 5]]), g)
    exact = (g[0, 0].double() + g[0, 1].double()).square().sum()
    assert 0 < float(exact) < 1e-3
    torch.testing.assert_close(part.squares(), exact[None], rtol=1e-12, atol=0)
    [apart] = _book_keeping.parts(layer, torch.tensor([[5, 6]]), g)
    torch.testing.assert_close(apart.squares(), g.double().square().sum()[None], rtol=1e-12, atol=0)


def test_padding_is_not_learnt():
    built = made(Padded, BookKeepingEngine)
    assert isinstance(built, BookKeepingEngine)
    X, y = torch.zeros(2, L, dtype=torch.int64), torch.tensor([0, 1])
    found = built.clipped_sum(X, y, 1.0, seed=0)
    assert not found[0].any()
    assert found[2].any()  # what comes after it is


@pytest.mark.few(1)
@pytest.mark.parametrize("module", MODULES)
def test_book_keeping_is_the_default_and_a_replaced_unit_moves_the_sum_by_two(module):
    built = made(module)
    assert isinstance(built, BookKeepingEngine)
    X, y = torch.randint(0, V, (60, L)), torch.arange(60) % K
    for k in (1, 3):
        other = X.clone()
        other[:k] = (X[:k] + 1) % V
        a, b = (flat(built.clipped_sum(rows, y, C, rows_per_unit=k, seed=0)) for rows in (X, other))
        assert 0 < float((a - b).norm()) <= (2 + built.excess) * C
        assert float(flat(built.clipped_sum(X[:k], y[:k], C, rows_per_unit=k, seed=0)).norm()) <= C


def test_nothing_is_left_of_what_is_not_finite():
    built = made(Words, BookKeepingEngine)
    with torch.no_grad():
        built.module.words.weight[5] = torch.nan
    X, y = torch.randint(0, 4, (6, L)), torch.arange(6) % K
    whole = flat(built.clipped_sum(X[1:], y[1:], C, seed=0))
    X[0, 2] = 5
    torch.testing.assert_close(flat(built.clipped_sum(X, y, C, seed=0)), whole)


class Forgetful(_book_keeping.Looked):
    """A planted fault: places one by one."""

    def squares(self):
        return super().squares() * 0.01


def test_a_norm_that_forgets_is_found(monkeypatch):
    monkeypatch.setattr(_book_keeping, "Looked", Forgetful)
    with pytest.raises(InvalidInputError, match="on made-up rows"):
        build_engine(lambda: nn.Sequential(nn.Embedding(V, K), _Mean()), L, K, engine=BookKeepingEngine)


class _Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


# ---------------------------------------------------------------- which rows are ids


def test_which_modules_take_ids():
    made_of = {"n_features": L, "n_classes": K}
    assert [ids_of(kind(**made_of), (L,)) for kind in (Words, Two, Cast, Places)] == [V] * 4
    numbers = nn.Sequential(nn.Linear(L, K))
    numbers.unused = nn.Embedding(V, 2)
    assert ids_of(numbers, (L,)) is None
    assert ids_of(nn.Linear(L, K), (L,)) is None

    class Long(Words):
        def __init__(self):
            nn.Module.__init__(self)
            self.words = nn.Embedding(V, 2)
            self.words.num_embeddings = 2**24 + 1
            self.head = nn.Linear(2, K)

        def forward(self, x):
            return self.head(self.words(x).mean(1))

    with pytest.raises(InvalidInputError, match="at most 16777216 ids"):
        ids_of(Long(), (L,))


@pytest.mark.long
@pytest.mark.parametrize("module", [Cast, Places])
def test_the_other_engine_takes_ids_too(module):
    built = made(module)
    assert isinstance(built, PerRecordEngine)
    assert built.vectorised
    X, y = torch.randint(0, V, (8, L)), torch.arange(8) % K
    exact = unit_by_unit(built.module, X, y, 2, FlatClipping(C)).sum(dim=0)
    found = flat(built.clipped_sum(X, y, C, rows_per_unit=2, seed=0))
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-6)


class Mixed(Words):
    def forward(self, x):
        z = self.words(x)
        return self.head(torch.tanh(self.hidden((z - z.mean(0)).mean(1))))


@pytest.mark.parametrize("module", [Mixed])
def test_made_up_ids_find_what_mixes_records(module):
    with pytest.raises(InvalidInputError, match="mixes the records"):
        made(module)


@pytest.mark.parametrize("options", [{"max_norm": 0.5}, {"sparse": True}])
def test_tables_that_rewrite_themselves_or_tell_their_rows_are_refused(options):
    with pytest.raises(InvalidInputError, match=r"torch.nn.Embedding with max_norm"):
        build_engine(Words, L, K, options)


def test_trials_hold_ids_that_the_table_has():
    for n_ids in (2, 3, V):
        layers = nn.Sequential(nn.Embedding(n_ids, 3), nn.Flatten(), nn.Linear(3 * L, K))
        trial = try_module(layers, (L,), K)
        assert trial.n_ids == n_ids
        for rows in trial.rows:
            assert rows.dtype == torch.int64
            assert int(rows.min()) >= 0
            assert int(rows.max()) < n_ids
            another = trial.another(rows)
            assert 0 <= int(another.min()) <= int(another.max()) < n_ids
            assert not (rows[-1] == another).any()
    assert read_program(layers) is not None


@pytest.mark.parametrize("bad", [-1.0, float(V), 2.5, 1e30, 2.0**24 + 2])
def test_rows_that_the_table_has_not_are_refused_without_a_word_of_them(bad):
    words = Words(n_features=L, n_classes=K)
    rows = np.arange(L, dtype="f4")[None].repeat(3, 0)
    ids = rows_for(words, rows)
    assert ids.dtype == np.int64
    np.testing.assert_array_equal(ids, rows)
    rows[1, 2] = bad
    with pytest.raises(InvalidInputError, match=r"whole numbers from 0 to 10, since") as caught:
        rows_for(words, rows)
    assert f"{bad:g}" not in str(caught.value).replace("table of 11", "")
    numbers = rows_for(nn.Linear(L, K), rows)
    assert numbers is rows


def test_a_run_on_words():
    rng = np.random.default_rng(0)
    y = torch.arange(600) % K
    X = torch.from_numpy(rng.integers(0, V, (600, L)))
    X[:, 0], X[:, 3] = y, y  # a word for each class
    built = made(Padded)
    optimizer = make_optimizer("sgd", built.module, learning_rate=1.0, momentum=0.9)
    trained = train(built, X, y, q=0.2, n_steps=60, sigma=1.0, clip=0.5, batch=120, optimizer=optimizer)
    assert float((trained(X).argmax(dim=1) == y).double().mean()) > 0.7
