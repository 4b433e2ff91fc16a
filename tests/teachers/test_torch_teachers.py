"""Torch teachers: the same as a textbook loop, whatever the grouping, workers, order or interruptions."""

from __future__ import annotations

import copy
import importlib
import random
import subprocess
import sys
import textwrap
import weakref
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import nn

import pate.teachers._base as base
from pate import TorchTeacherEnsemble
from pate.exceptions import CheckpointWarning, CuratorWarning, InvalidInputError, PerformanceWarning, PrivacyLeakWarning
from pate.networks import MLP, SmallCNN, SmallResNet
from pate.teachers.torch import _chain, _grouped, _recipe, _tasks
from pate.teachers.torch._recipe import Optimizer, Recipe, load_weights
from pate.teachers.torch.augment import RandomShift

DIGITS = load_digits()
X = (DIGITS.data / 16).astype(np.float32)
Y = DIGITS.target
CPU = torch.device("cpu")


class Curved(nn.Module):
    """No chain: a skip, a sine, a functional activation."""

    def __init__(self, width=12):
        super().__init__()
        self.a = nn.Linear(64, width)
        self.b = nn.Linear(width, 10)

    def forward(self, x):
        return self.b(torch.sin(self.a(x))) + nn.functional.softplus(x[:, :10])


class Noisy(nn.Module):
    """Dropout and batch normalisation: cannot be stacked."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 10)
        )

    def forward(self, x):
        return self.layers(x)


class Tanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 4, 3, padding=1, stride=2, bias=False),
            nn.Tanh(),
            nn.Tanh(),
            nn.ReLU(),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=1, padding=1),
            nn.Conv2d(4, 5, 3, dilation=1),
            nn.Flatten(),
            nn.Linear(20, 10, bias=False),
        )

    def forward(self, x):
        return self.layers(x)


class Broken(nn.Module):
    """Fails on rows that are not all zero, quoting them."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        if bool(x.any()):
            raise RuntimeError(f"secret {x[0, 3]}")
        return self.a(x)


MODULES = (SmallCNN, MLP, Curved, Noisy, Tanh)
OPTIMIZERS = (
    {"optimizer": "adam", "learning_rate": 3e-3, "weight_decay": 1e-3},
    {"optimizer": "adamw", "learning_rate": 3e-3, "weight_decay": 1e-1},
    {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 1e-3, "momentum": 0.9},
    {"optimizer": "sgd", "learning_rate": 0.1},
)


def ensemble(module=MLP, n_teachers=5, **options):
    given = {
        "classes": range(10),
        "epochs": 2,
        "batch_size": 16,
        "device": "cpu",
        "random_state": 3,
        "partition_seed": 3,
        **options,
    }
    return TorchTeacherEnsemble(module, n_teachers, **given)


def same_weights(a, b, tolerance=0.0):
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        assert sorted(one) == sorted(other)
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=tolerance, err_msg=name)


def textbook(fitted, index, rows, labels):
    """A teacher as a tutorial would train it: torch's own layers, loss and optimiser; only the order is ours."""
    shard = fitted.partition_.shard(index)
    recipe = fitted._recipe
    module = recipe.fresh(index)
    x, y = torch.from_numpy(rows[shard]).to(torch.float64), torch.from_numpy(labels[shard])
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    settings = {"lr": fitted.learning_rate, "weight_decay": fitted.weight_decay}
    if fitted.optimizer == "sgd":
        settings["momentum"] = fitted.momentum
    optimizer = kinds[fitted.optimizer](module.parameters(), foreach=False, **settings)
    per_pass = -(-len(x) // fitted.batch_size)
    n_steps = fitted.n_steps or fitted.epochs * per_pass
    for epoch in range(-(-n_steps // per_pass)):
        order = recipe.order(index, epoch, len(x))
        torch.manual_seed(recipe.seed_of(index, _recipe.FORWARD, epoch))
        for part in order.split(fitted.batch_size)[: n_steps - epoch * per_pass]:
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x[part]), y[part]).backward()
            optimizer.step()
    return {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}


@pytest.mark.few(8)
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("options", OPTIMIZERS, ids=lambda o: o["optimizer"])
def test_a_teacher_is_what_a_textbook_loop_makes_of_its_shard(module, options):
    # 190 records over 3 teachers: shards of 64 and 63, so a last batch is short (and never of a single row).
    fitted = ensemble(module, 3, precision="float64", **options).fit(X[:190], Y[:190])
    with torch.random.fork_rng():
        expected = [textbook(fitted, i, X[:190], Y[:190]) for i in range(3)]
    same_weights(fitted.teachers_, expected, 1e-9)


@pytest.mark.few(3)
@pytest.mark.parametrize("module", [SmallCNN, MLP, Curved, Tanh])
@pytest.mark.parametrize("options", OPTIMIZERS, ids=lambda o: o["optimizer"])
def test_groups_are_trained_as_singles_also_when_shards_are_unequal(module, options):
    people = np.repeat(np.arange(12), [40, 3, 17, 30, 8, 16, 25, 1, 33, 16, 12, 19])
    n = len(people)
    fits = [
        ensemble(module, 4, precision="float64", group_size=size, **options).fit(X[:n], Y[:n], groups=people)
        for size in (1, 3, 9)
    ]
    sizes = [len(s) for s in fits[0].partition_.shards()]
    assert len(set(sizes)) > 1
    for other in fits[1:]:
        same_weights(fits[0].teachers_, other.teachers_, 1e-9)


def test_chain_and_groups_are_used_where_they_should_be():
    """Otherwise the tests above would compare autograd with itself."""
    recipes = {m: ensemble(m, 2, epochs=1).fit(X[:40], Y[:40])._recipe for m in MODULES}
    chains = {m: r.chain is not None for m, r in recipes.items()}
    assert chains == {SmallCNN: True, MLP: True, Curved: False, Noisy: False, Tanh: True}
    stacks = {m: _grouped.stacked_forward(r) is not None for m, r in recipes.items()}
    assert stacks == {SmallCNN: True, MLP: True, Curved: True, Noisy: False, Tanh: True}


def test_a_chain_that_lies_is_not_used(monkeypatch):
    class Sly(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + 0.0 * self[0](x).sum()

    recipe = ensemble(MLP, 2, epochs=1).fit(X[:40], Y[:40])._recipe
    assert _recipe.read_chain(Sly(nn.Linear(64, 64), nn.Linear(64, 10))) is None
    assert recipe.chain is not None
    forward, backward = _chain.chain_forward, _chain.chain_backward
    monkeypatch.setattr(_chain, "chain_forward", lambda *a: 2 * forward(*a))
    assert _recipe.with_chain(recipe).chain is None
    monkeypatch.setattr(_chain, "chain_forward", forward)
    monkeypatch.setattr(_chain, "chain_backward", lambda chain, flat, *a: flat.gradient.fill_(3))
    assert _recipe.with_chain(recipe).chain is None
    monkeypatch.setattr(_chain, "chain_backward", backward)
    assert _recipe.with_chain(recipe).chain is not None


@pytest.mark.long
def test_votes_hardly_depend_on_grouping_in_float32():
    alone = ensemble(SmallCNN, 10, epochs=4).fit(X[:1200], Y[:1200]).vote(X[1200:]).labels
    grouped = ensemble(SmallCNN, 10, epochs=4, group_size=4).fit(X[:1200], Y[:1200]).vote(X[1200:]).labels
    assert (alone != grouped).mean() <= 1e-3


@pytest.mark.parametrize("group_size", [1, 2])
def test_workers_and_backends_change_nothing(group_size):
    one = ensemble(n_teachers=6, group_size=group_size).fit(X[:300], Y[:300])
    two = ensemble(n_teachers=6, group_size=group_size, n_jobs=2).fit(X[:300], Y[:300])
    same_weights(one.teachers_, two.teachers_)
    assert (one.vote(X[300:400]).labels == two.vote(X[300:400]).labels).all()


def test_teachers_in_threads_do_not_share_torchs_generator():
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    one = ensemble(Noisy, 6).fit(X[:300], Y[:300])
    with parallel_config("threading", n_jobs=3):
        two = ensemble(Noisy, 6).fit(X[:300], Y[:300])
    same_weights(one.teachers_, two.teachers_)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


@pytest.mark.few(2)
@pytest.mark.parametrize("module", [MLP, SmallCNN, Curved])
@pytest.mark.parametrize("group_size", [1, 5])
def test_one_changed_record_moves_one_teacher_and_not_a_bit_of_the_others(module, group_size):
    first = ensemble(module, 5, group_size=group_size).fit(X[:203], Y[:203])
    shard = first.partition_.shard(2)
    other_X, other_y = X[:203].copy(), Y[:203].copy()
    other_X[shard[4]] = 1e3
    other_y[shard[4]] = (other_y[shard[4]] + 1) % 10
    second = ensemble(module, 5, group_size=group_size).fit(other_X, other_y)
    changed = [any((a[n] != b[n]).any() for n in a) for a, b in zip(first.teachers_, second.teachers_, strict=True)]
    assert changed == [False, False, True, False, False]


def test_a_person_with_more_records_moves_one_teacher_and_not_a_bit_of_the_others():
    """In a group every kernel has one public shape, whatever the lengths of the shards."""
    sizes = np.array([9, 30, 14, 22, 17, 26, 11, 19])
    n = sizes.sum()
    first = ensemble(MLP, 4, group_size=4, partition_seed=0).fit(X[:n], Y[:n], groups=np.repeat(np.arange(8), sizes))
    person = 3
    rows = np.repeat(np.arange(8), sizes)
    at = int(np.flatnonzero(rows == person)[-1]) + 1
    more_X, more_y = np.insert(X[:n], at, X[1000:1040], axis=0), np.insert(Y[:n], at, Y[1000:1040])
    second = ensemble(MLP, 4, group_size=4, partition_seed=0).fit(
        more_X, more_y, groups=np.insert(rows, at, np.full(40, person))
    )
    shard = first.partition_.assignment[np.flatnonzero(rows == person)[0]]
    changed = [any((a[k] != b[k]).any() for k in a) for a, b in zip(first.teachers_, second.teachers_, strict=True)]
    assert changed == [i == shard for i in range(4)]


@pytest.mark.parametrize("window", [4, 8, 16])
@pytest.mark.parametrize("augment", [None, RandomShift(1, image_shape=(1, 8, 8))])
def test_every_record_is_used_once_per_epoch_and_padding_never(augment, window):
    sizes = (5, 12, 16, 1)
    starts = np.cumsum((0, *sizes))
    recipe = Recipe(MLP, {"n_features": 64, "n_classes": 10}, 10, (64,), 1, 4, Optimizer(), augment, "float64", 0)
    members = [
        _grouped.Member(i, torch.from_numpy(X[a:b]).double(), torch.arange(a, b))
        for i, (a, b) in enumerate(pairwise(starts))
    ]
    used = Counter()
    weight_of_teacher = torch.zeros(4, dtype=torch.float64)
    slab = torch.zeros((4, window, 64), dtype=torch.float64)
    for rows, labels, weight, active in _grouped._Feed(recipe, members, slab, CPU).batches():
        assert labels.shape == (4, 4)
        if augment is None:
            assert torch.equal(rows[weight > 0], torch.from_numpy(X).double()[labels[weight > 0]])
        used.update(labels[weight > 0].tolist())
        weight_of_teacher += weight.sum(1)
        assert ((weight.sum(1) > 0) == active).all()
    assert used == Counter(range(sum(sizes)))
    # Each batch is a mean: its weights sum to one, so a teacher's sum to its number of batches.
    np.testing.assert_allclose(weight_of_teacher, [2, 3, 4, 1])


def test_a_teacher_that_is_done_is_not_moved_by_its_momentum():
    short, long = [
        _grouped.Member(i, torch.from_numpy(X[:n]).double(), torch.from_numpy(Y[:n])) for i, n in ((0, 4), (1, 40))
    ]
    recipe = _recipe.with_chain(
        Recipe(
            MLP,
            {"n_features": 64, "n_classes": 10},
            10,
            (64,),
            3,
            4,
            Optimizer("sgd", 0.1, 0.0, 0.9),
            None,
            "float64",
            0,
        )
    )
    forward = _grouped.stacked_forward(recipe)
    pair = _grouped.Group(recipe, [0, 1], forward, CPU, 40)
    one = _grouped.Group(recipe, [0], forward, CPU, 40)
    same_weights(pair.train([short, long])[:1], one.train([short]), 1e-12)


def test_augmentation_is_the_same_in_groups_and_leaves_the_data_alone():
    shift = RandomShift(1, image_shape=(1, 8, 8))
    before = X[:200].copy()
    alone, grouped, plain = (
        ensemble(MLP, 4, precision="float64", augment=augment, group_size=size).fit(X[:200], Y[:200])
        for augment, size in ((shift, 1), (shift, 3), (None, 1))
    )
    same_weights(alone.teachers_, grouped.teachers_, 1e-9)
    assert any((a[n] != b[n]).any() for a, b in zip(alone.teachers_, plain.teachers_, strict=True) for n in a)
    assert (X[:200] == before).all()


@pytest.mark.long
def test_bf16_trains_in_bf16_keeps_float32_and_votes_in_float32():
    exact = ensemble(SmallCNN, 4, epochs=6).fit(X[:800], Y[:800])
    for size in (1, 4):
        rough = ensemble(SmallCNN, 4, epochs=6, precision="bf16", group_size=size).fit(X[:800], Y[:800])
        assert {a.dtype for w in rough.teachers_ for a in w.values()} == {np.dtype(np.float32)}
        assert any((a[n] != b[n]).any() for a, b in zip(exact.teachers_, rough.teachers_, strict=True) for n in a)
        truth = Y[800:]
        accuracy = [(e.vote(X[800:]).labels == truth).mean() for e in (exact, rough)]
        assert abs(accuracy[0] - accuracy[1]) < 0.1
        module = rough.module_of(0)
        expected = module(torch.from_numpy(X[800:])).argmax(1).numpy()
        assert (rough.vote(X[800:]).labels[0] == expected).all()


@pytest.mark.long
def test_small_blocks_of_queries_change_nothing(monkeypatch):
    fitted = ensemble(SmallCNN, 4).fit(X[:300], Y[:300])
    whole = fitted.vote(X[300:420])
    monkeypatch.setattr(base, "_BLOCK_ROWS", 7)
    for options in ({}, {"chunk_size": 3}, {"keep_labels": False}):
        parts = fitted.vote(X[300:420], **options)
        assert (parts.counts == whole.counts).all()
        assert parts.query_hashes == whole.query_hashes
    assert parts.labels is None
    assert whole.labels is not None


def test_the_module_of_a_teacher_votes_as_the_teacher():
    fitted = ensemble(Noisy, 3).fit(X[:150], Y[:150])
    votes = fitted.vote(X[150:200])
    for i in range(3):
        assert not fitted.module_of(i).training
        assert (fitted.module_of(i)(torch.from_numpy(X[150:200])).argmax(1).numpy() == votes.labels[i]).all()
    with pytest.raises(InvalidInputError, match="index must be"):
        fitted.module_of(3)


def test_images_may_keep_their_shape():
    images = X[:300].reshape(-1, 1, 8, 8)
    flat = ensemble(SmallCNN, 3).fit(X[:200], Y[:200])
    kept = ensemble(SmallCNN, 3).fit(images[:200], Y[:200])
    same_weights(flat.teachers_, kept.teachers_)
    assert kept.n_features_in_ == 64
    assert (kept.vote(images[200:]).counts == flat.vote(X[200:300]).counts).all()
    with pytest.raises(InvalidInputError, match=r"rows of shape \(1, 8, 8\)"):
        kept.vote(X[200:300])


def test_a_shard_of_one_class_or_one_record_is_trained_like_any_other():
    fitted = ensemble(Noisy, 4, batch_size=4).fit(X[:21], np.r_[np.zeros(20, int), 1])
    assert fitted.vote(X[:5]).n_teachers == 4
    single = ensemble(MLP, 6).fit(X[:6], Y[:6])
    assert single.vote(X[:5]).counts.sum() == 30


# -- teachers share nothing (found by review: each of these once moved other teachers)


def changed_teachers(make, rows=slice(0, 203)):
    """Which teachers change when one record of shard 2 does."""
    first = make().fit(X[rows], Y[rows])
    at = first.partition_.shard(2)[4]
    other = X[rows].copy()
    other[at] = 7.0
    second = make().fit(other, Y[rows])
    votes = [(a != b).any() for a, b in zip(*(e.vote(X[300:700]).labels for e in (first, second)), strict=True)]
    weights = [any((a[n] != b[n]).any() for n in a) for a, b in zip(first.teachers_, second.teachers_, strict=True)]
    return [i for i in range(len(weights)) if weights[i] or votes[i]]


class OnTop(nn.Module):
    def __init__(self, backbone, head=None):
        super().__init__()
        self.backbone, self.drop, self.head = backbone, nn.Dropout(0.1), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.backbone(x))))


class Restless(nn.Module):
    """Draws while it votes, as often as its weights say."""

    def __init__(self):
        super().__init__()
        self.a, self.drop = nn.Linear(64, 10), nn.Dropout(0.0)

    def forward(self, x):
        z = self.a(x)
        if not self.training:
            for _ in range(int(abs(float(z.sum())) * 10) % 7):
                torch.rand(1), np.random.random(), random.random()  # noqa: NPY002
            z = z + torch.randn_like(z) + np.random.normal(size=10).astype(np.float32) + random.random()  # noqa: NPY002
        return z


class Remembering:
    """An augmentation with a memory, which also draws from every global generator."""

    def __init__(self):
        self.mean = 0.0

    def __call__(self, x, generator):
        self.mean = 0.9 * self.mean + float(x.mean())
        noise = torch.rand(1) + np.random.random() + random.random()  # noqa: NPY002
        return x + self.mean + noise.to(x.dtype)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "options",
    [
        {"module": OnTop, "module_kwargs": {"backbone": nn.Linear(64, 16)}},
        {"module": Restless},
        {"augment": Remembering()},
        {"augment": Remembering(), "group_size": 3},
        {"augment": lambda x, generator: x + torch.rand(x.shape)},
    ],
    ids=["shared start", "random votes", "memory", "memory in groups", "global generator"],
)
def test_nothing_is_carried_from_one_teacher_to_another(options):
    before = copy.deepcopy(options)
    assert changed_teachers(lambda: ensemble(**{"n_teachers": 5, **options})) == [2]
    if "module_kwargs" in options:
        pairs = zip(*(o["module_kwargs"]["backbone"].parameters() for o in (before, options)), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    if isinstance(options.get("augment"), Remembering):
        assert options["augment"].mean == 0.0


def test_modules_that_share_tensors_are_refused():
    shared = MLP(n_features=64, n_classes=10)
    layer = nn.Linear(64, 16)
    for make in (lambda: shared, lambda: OnTop(layer)):
        for precision in ("float32", "float64"):
            held = [*shared.parameters(), *layer.parameters()]
            before = [p.clone() for p in held]
            with pytest.raises(InvalidInputError, match="parameters of its own"):
                ensemble(make, 3, precision=precision).fit(X[:60], Y[:60])
            assert all(
                torch.equal(a, b) for a, b in zip(before, (*shared.parameters(), *layer.parameters()), strict=True)
            )


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 16), nn.Linear(16, 10)
        self.a.requires_grad_(False)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Fourier(nn.Module):
    """Random features outside the weights."""

    def __init__(self):
        super().__init__()
        self.basis, self.b = torch.randn(64, 32), nn.Linear(32, 10)

    def forward(self, x):
        return self.b(torch.cos(x @ self.basis.to(x.dtype)))


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        return self.a(x - x.mean(0))


class Shy(nn.Module):
    """Another function while training."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        return torch.sin(self.a(x)) * (1.0 if self.training else -1.0)


@pytest.mark.filterwarnings("ignore::pate.exceptions.PerformanceWarning")
@pytest.mark.parametrize("module", [Frozen, Fourier, Centred, Shy])
def test_odd_modules_are_the_same_in_groups_or_left_out_of_them(module):
    alone, grouped = (ensemble(module, 4, precision="float64", group_size=s).fit(X[:190], Y[:190]) for s in (1, 4))
    same_weights(alone.teachers_, grouped.teachers_, 1e-9)
    votes = [e.vote(X[200:400]).labels for e in (alone, grouped)]
    assert (votes[0] == votes[1]).all()
    for i in range(4):
        expected = alone.module_of(i)(torch.from_numpy(X[200:400]).double()).argmax(1).numpy()
        if module is not Centred:  # whose votes depend on the block
            assert (expected == votes[0][i]).all()


class Moody(nn.Module):
    """A chain while it trains, and another one when it votes."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        return self.a(x) if self.training else self.a(x - 0.5)


class Drawn(nn.Module):
    """Draws a plain number when it is made; the first two draw the same."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)
        self.factor = 1.0 + round(float(torch.rand(1)))

    def forward(self, x):
        return torch.tanh(self.a(x)) * self.factor


def hooked():
    module = nn.Sequential(nn.Linear(64, 10))
    module.register_forward_pre_hook(lambda m, given: (given[0].clamp(0, 0.3),))
    return module


@pytest.mark.parametrize("module", [Moody, Drawn, hooked])
@pytest.mark.parametrize("group_size", [1, 6])
def test_what_votes_is_the_module_itself(module, group_size):
    fitted = ensemble(module, 6, precision="float64", group_size=group_size).fit(X[:190], Y[:190])
    same_weights(fitted.teachers_, ensemble(module, 6, precision="float64").fit(X[:190], Y[:190]).teachers_, 1e-9)
    labels = fitted.vote(X[200:400]).labels
    for i in range(6):
        expected = fitted.module_of(i)(torch.from_numpy(X[200:400]).double()).argmax(1).numpy()
        assert (expected == labels[i]).all()


def test_an_augmentation_that_takes_no_zeros_works_in_groups():
    def standardise(x, generator):
        return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)

    people = np.repeat(np.arange(4), [9, 30, 14, 22])
    alone, grouped = (
        ensemble(MLP, 4, precision="float64", augment=standardise, group_size=s, partition_seed=17).fit(
            X[:75], Y[:75], groups=people
        )
        for s in (1, 4)
    )
    same_weights(alone.teachers_, grouped.teachers_, 1e-9)


def test_columns_of_a_table_are_matched_by_name():
    frame = pd.DataFrame(X[:300], columns=[f"p{i}" for i in range(64)])
    fitted = ensemble(MLP, 3).fit(frame[:200], Y[:200])
    straight = fitted.vote(frame[200:])
    assert (fitted.vote(frame[200:][frame.columns[::-1]]).labels == straight.labels).all()
    with pytest.raises(InvalidInputError, match="other columns"):
        fitted.vote(frame[200:].rename(columns={"p3": "q3"}))


# -- groups and memory


class Narrow(_grouped.Group):
    """A device that holds two teachers."""

    asked: ClassVar[list[int]] = []

    def __init__(self, recipe, indices, forward, device, window):
        self.asked.append(len(indices))
        if len(indices) > 2:
            raise torch.OutOfMemoryError("out of memory")
        super().__init__(recipe, indices, forward, CPU, window)


def as_gpu(device):
    """What a worker on a GPU is given, where there is none: its path with the CPU's kernels."""
    return [torch.device("cuda")]


def test_groups_are_halved_until_they_fit(monkeypatch):
    """On a GPU alone, whose memory holds nothing of the shards; before any of them is looked at."""
    shards = [_tasks.Shard(i, X[20 * i : 20 * i + 20], Y[20 * i : 20 * i + 20]) for i in range(7)]
    recipe = ensemble(n_teachers=7).fit(X[:140], Y[:140])._recipe
    monkeypatch.setattr(_tasks, "Group", Narrow)
    monkeypatch.setattr(_tasks, "visible_devices", as_gpu)
    Narrow.asked.clear()
    found = _tasks.train_shards(shards, recipe, 0, device="cuda", group_size=7)
    assert [t.index for t in found] == list(range(7))
    assert Narrow.asked[:2] == [7, 3]
    assert max(Narrow.asked[2:]) <= 2
    monkeypatch.setattr(_tasks, "visible_devices", lambda device: [CPU])
    kept = _tasks.train_shards(shards, recipe, 0, device="cpu", group_size=7)
    assert [t.failure.again for t in kept] == [True] * 7


def test_votes_are_halved_until_they_fit(monkeypatch):
    real = _tasks.vote_group

    def narrow(weights, *args, **options):
        if len(weights) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return real(weights, *args, **options | {"device": CPU})

    fitted = ensemble(n_teachers=7, group_size=7).fit(X[:140], Y[:140])
    expected = fitted.vote(X[140:200]).labels
    monkeypatch.setattr(_tasks, "vote_group", narrow)
    monkeypatch.setattr(_tasks, "visible_devices", as_gpu)
    options = {"device": "cuda", "group_size": 7, "chunk_size": 9}
    asked = _tasks.ask_teachers(list(enumerate(fitted.teachers_)), X[140:200], fitted._recipe, 0, **options)
    assert (np.array([a.labels for a in asked]) == expected).all()


def test_modules_that_cannot_be_grouped_are_trained_singly_and_it_is_said():
    with pytest.warns(PerformanceWarning, match="one by one"):
        grouped = ensemble(Noisy, 3, group_size=3).fit(X[:150], Y[:150])
    same_weights(grouped.teachers_, ensemble(Noisy, 3).fit(X[:150], Y[:150]).teachers_)


def chosen(monkeypatch, step, state, batch, recorded, seconds):
    """The decision without a GPU: the recorded step is given, and how long each takes."""

    def record(step, batch, device):
        if isinstance(recorded, Exception):
            raise recorded
        for _ in range(3):
            step(*batch)  # a recording warms up on the live state
        return recorded

    def timed(step, batch, device):
        step(*batch)
        return seconds[step is recorded]

    monkeypatch.setattr(_grouped, "_recorded", record)
    monkeypatch.setattr(_grouped, "_seconds", timed)
    return _grouped.faster_step(step, state, batch, CPU)


@pytest.mark.parametrize(
    ("factor", "seconds", "replayed"),
    [(1.0, {True: 1, False: 2}, True), (1.0, {True: 2, False: 1}, False), (1.5, {True: 1, False: 2}, False)],
    ids=["same and faster", "slower", "another result"],
)
def test_a_recorded_step_is_used_only_if_it_is_the_same_and_faster(monkeypatch, factor, seconds, replayed):
    state = [torch.zeros(3)]
    calls = []

    def eager(rows, labels, weight, active):
        calls.append("eager")
        state[0].add_(rows)

    def recorded(rows, labels, weight, active):
        calls.append("recorded")
        state[0].add_(rows, alpha=factor)

    batch = (torch.ones(3),) * 4
    stepper = chosen(monkeypatch, eager, state, batch, recorded, seconds)
    torch.testing.assert_close(state[0], torch.zeros(3))
    calls.clear()
    stepper(*batch)
    stepper(*batch)
    assert calls == ["recorded" if replayed else "eager"] * 2
    torch.testing.assert_close(state[0], torch.full((3,), 2.0))


def test_a_step_that_cannot_be_recorded_is_run_as_it_is(monkeypatch):
    state = [torch.zeros(3)]
    batch = (torch.ones(3),) * 4
    chosen(monkeypatch, lambda *b: state[0].add_(b[0]), state, batch, RuntimeError("capture"), {})(*batch)
    torch.testing.assert_close(state[0], torch.ones(3))


def test_what_a_recorded_step_works_on_stays_as_long_as_it_does(monkeypatch):
    """A graph holds addresses: numbers given back would be whatever comes there next, and be written over."""

    class Graph:
        def replay(self):
            pass

    for name, stand_in in {
        "Stream": lambda device: SimpleNamespace(wait_stream=lambda other: None),
        "current_stream": lambda device: SimpleNamespace(wait_stream=lambda other: None),
        "stream": lambda stream: nullcontext(),
        "graph": lambda graph: nullcontext(),
        "CUDAGraph": Graph,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    held = torch.zeros(3)
    gone = weakref.ref(held)
    batch = (torch.ones(3),) * 4
    recorded = _grouped._recorded(lambda *given, state=held: state.add_(given[0]), batch, CPU)
    del held
    assert gone() is not None
    recorded(*batch)
    del recorded
    assert gone() is None


# -- checkpoints


def test_finished_teachers_are_kept_and_found_again(tmp_path):
    first = ensemble(n_teachers=4, checkpoint_dir=tmp_path / "t").fit(X[:120], Y[:120])
    again = ensemble(n_teachers=4, checkpoint_dir=tmp_path / "t", group_size=2, n_jobs=2).fit(X[:120], Y[:120])
    assert (first.n_resumed_, again.n_resumed_) == (0, 4)
    same_weights(first.teachers_, again.teachers_)
    files = sorted((tmp_path / "t").glob("*.safetensors"))
    assert len(files) == 4
    assert all(f.stat().st_mode & 0o777 == 0o600 for f in files)
    files[1].write_bytes(files[1].read_bytes()[:-9])
    with pytest.warns(CheckpointWarning, match="teacher 1"):
        mended = ensemble(n_teachers=4, checkpoint_dir=tmp_path / "t").fit(X[:120], Y[:120])
    assert mended.n_resumed_ == 3
    same_weights(first.teachers_, mended.teachers_)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "changed",
    [
        {"epochs": 3},
        {"epochs": None, "n_steps": 4},
        {"batch_size": 8},
        {"optimizer": "adamw"},
        {"learning_rate": 2e-3},
        {"weight_decay": 0.1},
        {"precision": "bf16"},
        {"augment": RandomShift(1, image_shape=(1, 8, 8))},
        {"module_kwargs": {"hidden": (8,)}},
        {"module": Curved},
        {"random_state": 4},
        {"n_teachers": 3},
        {"classes": range(11)},
    ],
    ids=lambda c: next(iter(c)),
)
def test_another_configuration_never_picks_up_old_weights(tmp_path, changed):
    ensemble(n_teachers=4, epochs=1, checkpoint_dir=tmp_path).fit(X[:120], Y[:120])
    assert (
        ensemble(**{"n_teachers": 4, "epochs": 1, "checkpoint_dir": tmp_path, **changed})
        .fit(X[:120], Y[:120])
        .n_resumed_
        == 0
    )


@pytest.mark.long
def test_other_data_or_an_edited_module_never_picks_up_old_weights(tmp_path, monkeypatch):
    def write(factor):
        (tmp_path / "edited.py").write_text(
            "from torch import nn\n\n\nclass Edited(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.a = nn.Linear(64, 10)\n\n    def forward(self, x):\n        return {factor} * self.a(x)\n"
        )

    code = textwrap.dedent(
        f"""
        import sys
        sys.path[:0] = [{str(tmp_path)!r}, {str(__file__.rsplit("/", 1)[0])!r}]
        from edited import Edited
        from test_torch_teachers import X, Y, ensemble
        print(ensemble(Edited, 3, epochs=1, checkpoint_dir={str(tmp_path / "t")!r}).fit(X[:60], Y[:60]).n_resumed_)
        """
    )

    def run():
        """In this process, with the module read again."""
        monkeypatch.delitem(sys.modules, "edited", raising=False)
        importlib.invalidate_caches()
        edited = importlib.import_module("edited").Edited
        return ensemble(edited, 3, epochs=1, checkpoint_dir=tmp_path / "t").fit(X[:60], Y[:60]).n_resumed_

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write(1)
    assert run() == 0
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    write(2)
    assert run() == 0

    kept = ensemble(n_teachers=4, checkpoint_dir=tmp_path / "d").fit(X[:120], Y[:120])
    other = X[:120].copy()
    other[kept.partition_.shard(1)[0], 0] += 1
    assert ensemble(n_teachers=4, checkpoint_dir=tmp_path / "d").fit(other, Y[:120]).n_resumed_ == 3


def test_code_that_changed_out_of_sight_is_another_configuration():
    """Globals that a function looks up, class attributes, classes typed into an interpreter."""

    def digest(source, augment=None, name="Made"):
        space = {"nn": nn, "torch": torch}
        exec(source, space)
        made = space["augment"] if augment else None
        return _recipe.code_digest(Recipe(space[name], {}, 10, (64,), 1, 2, Optimizer(), made, "float32", 0))

    start = "class Made(nn.{}):\n def __init__(s):\n  super().__init__({})"
    module = start.format("Module", "") + "; s.a = nn.Linear(64, 10)\n def forward(s, x):\n"
    drop = start.format("Sequential", "nn.Linear(64, 10), nn.Dropout(s.p)") + "\n p = {}"
    act = "act = nn.{}\ndef Made():\n return nn.Sequential(nn.Linear(64, 10), act())"
    shift = module + "  return s.a(x)\naugment = lambda x, generator: x + {}"
    rare = module + "  return s.a(x)\nRATE = {}\ndef augment(x, generator):\n return x if RATE < 2 else -x"
    for template, values in ((module + "  return {} * s.a(x)", (1, 2)), (drop, (0.1, 0.2)), (act, ("ReLU", "Tanh"))):
        one, same, other = (digest(template.format(v)) for v in (values[0], values[0], values[1]))
        assert one == same
        assert one != other
    assert digest(shift.format(1), True) != digest(shift.format(2), True)
    assert digest(rare.format(0.5), True) != digest(rare.format(0.6), True)


#: Forks once everything is imported, so that each attempt begins at once; kills at random moments and in mid-write.
_KILLER = """
import os, random, signal, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
torch.set_num_threads(1)
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_torch_teachers import MLP, X, Y, ensemble
folder = {folder!r}

def fit():
    return ensemble(MLP, 40, epochs=8, batch_size=4, checkpoint_dir=folder, random_state=5).fit(X[:800], Y[:800])

def half_written(write):
    def run(self, data):
        write(self, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return run

start = time.monotonic()
if os.fork() == 0:
    ensemble(MLP, 40, epochs=8, batch_size=4, random_state=5).fit(X[:800], Y[:800])
    os._exit(0)
os.wait()
whole = time.monotonic() - start  # how long a run takes on this machine now

rng, kills, kept = random.Random(0), 0, []
while kills < {kills}:
    pid = os.fork()
    if pid == 0:
        if kills % 4 == 3:
            Path.write_bytes = half_written(Path.write_bytes)
        fit()
        os._exit(0)
    if kills % 4 != 3:
        time.sleep(rng.uniform(0.0, whole))
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        kills += 1
    else:
        # Finished before it could be killed: some of it goes, and on.
        for f in sorted(Path(folder).glob("teacher-*"))[::2]:
            f.unlink()
    kept.append(len(list(Path(folder).glob("teacher-*"))))
last = fit()
np.save({out!r}, last.vote(X[800:1000]).labels)
print(kills, last.n_resumed_, max(kept))
"""


@pytest.mark.long
@pytest.mark.parametrize("most_kills", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_a_run_killed_many_times_ends_with_the_same_votes(tmp_path, most_kills):
    out = tmp_path / "votes.npy"
    code = _KILLER.format(
        tests=str(__file__.rsplit("/", 1)[0]), folder=str(tmp_path / "t"), out=str(out), kills=most_kills
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    kills, resumed, most = map(int, done.stdout.split())
    assert kills == most_kills
    assert most > 0
    assert resumed > 0
    whole = ensemble(MLP, 40, epochs=8, batch_size=4, random_state=5).fit(X[:800], Y[:800])
    assert (whole.vote(X[800:1000]).labels == np.load(out)).all()


# -- validation


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"module": MLP(n_features=64, n_classes=10)}, "pass SmallCNN, not SmallCNN"),
        ({"module": "cnn"}, "module must be a torch.nn.Module class"),
        ({"module_kwargs": [1]}, "module_kwargs must be a mapping"),
        ({"module_kwargs": {"depth": 3}}, "module could not be made"),
        ({"module": nn.Linear, "module_kwargs": {"in_features": 3, "out_features": 10}}, "does not take rows of shape"),
        ({"module": nn.Linear, "module_kwargs": {"in_features": 64, "out_features": 9}}, "10 logits"),
        ({"module": nn.Flatten}, "10 logits"),
        ({"module": lambda: 3}, "it made a int"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"optimizer": "lion"}, "optimizer must be"),
        ({"precision": "float16"}, "precision must be"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"momentum": 0.9}, "momentum is for optimizer='sgd'"),
        ({"optimizer": "sgd", "momentum": 1}, "momentum"),
        ({"augment": 3}, "augment must be callable"),
        ({"device": "abacus"}, "device must be"),
        ({"device": "cuda:77"}, "is not there"),
        ({"group_size": 0}, "group_size"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_teachers": 0}, "n_teachers"),
        ({"n_teachers": 99}, "n_teachers must be at most"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_parameters_are_refused_before_any_training(options, match):
    with pytest.raises(InvalidInputError, match=match):
        ensemble(**options).fit(X[:60], Y[:60])


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (np.zeros(60), "shape"),
        (np.zeros((60, 0)), "shape"),
        (np.full((60, 64), "a"), "must hold numbers"),
        (np.zeros((59, 64)), "y must have shape"),
    ],
)
def test_bad_rows_are_refused(rows, match):
    with pytest.raises(InvalidInputError, match=match):
        ensemble().fit(rows, Y[:60])


def test_a_module_that_fails_on_any_rows_is_refused_before_training():
    for options in ({}, {"group_size": 3}):
        with pytest.raises(InvalidInputError, match=r"cannot be trained on .* made-up rows .*RuntimeError"):
            ensemble(Broken, 3, **options).fit(X[:60], Y[:60])


def test_teachers_without_finite_weights_vote_for_a_fixed_class_and_the_curator_is_warned():
    for size in (1, 3):
        given = ensemble(MLP, 3, optimizer="sgd", learning_rate=1e30, group_size=size)
        with pytest.warns(
            CuratorWarning, match="3 of 3 teachers could not be trained .*not finite.*NO TEACHER IS LEFT"
        ):
            fitted = given.fit(X[:60], Y[:60])
        assert fitted.teachers_ == [None] * 3
        assert fitted.vote(X[:5]).labels.tolist() == [[0] * 5, [1] * 5, [2] * 5]
        with pytest.raises(InvalidInputError, match="teacher 1 failed"):
            fitted.module_of(1)


def test_a_failed_fit_leaves_no_teachers_of_an_earlier_one():
    fitted = ensemble().fit(X[:60], Y[:60])
    fitted.module = Broken
    with pytest.raises(InvalidInputError):
        fitted.fit(X[:60], Y[:60])
    assert not hasattr(fitted, "teachers_")


def test_it_is_a_scikit_learn_estimator_that_shows_nothing_private():
    fitted = ensemble().fit(X[:60], Y[:60])
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not hasattr(twin, "teachers_")
    assert "array" not in repr(fitted)
    assert repr(copy.deepcopy(fitted)) == repr(fitted)
    with pytest.warns(PrivacyLeakWarning, match="classes=None"):
        assert ensemble(classes=None).fit(X[:60], Y[:60]).vote(X[:5]).classes_inferred


def test_progress_says_how_many_records_per_second(capsys):
    ensemble(verbose=True).fit(X[:60], Y[:60]).vote(X[:5])
    assert "teachers: 5 done, " in (said := capsys.readouterr().err)
    assert "records/s" in said
    assert "teachers voting: 5 done" in said


def test_ctrl_c_says_how_many_teachers_are_kept(tmp_path, monkeypatch):
    train = _tasks.train_single

    def interrupted(recipe, index, *given):
        if index == 2:
            raise KeyboardInterrupt
        return train(recipe, index, *given)

    monkeypatch.setattr(_tasks, "train_single", interrupted)
    with pytest.raises(
        KeyboardInterrupt, match=r"2 of 5 teachers are finished, and none is kept\. With checkpoint_dir="
    ):
        ensemble().fit(X[:60], Y[:60])
    with pytest.raises(
        KeyboardInterrupt, match=f"2 of 5 teachers are finished, and kept in '{tmp_path}': the same fit"
    ):
        ensemble(checkpoint_dir=tmp_path).fit(X[:60], Y[:60])
    monkeypatch.undo()
    assert ensemble(checkpoint_dir=tmp_path).fit(X[:60], Y[:60]).n_resumed_ == 2


@pytest.mark.long
def test_residual_nets_train_as_teachers():
    fitted = ensemble(SmallResNet, 2, epochs=3).fit(X[:240], Y[:240])
    assert (fitted.vote(X[:240]).labels == Y[:240]).mean() > 0.4
    again = load_weights(fitted._recipe, 0, fitted.teachers_[0])
    assert any("running_mean" in name for name in again.state_dict())
