"""How long torch teachers are trained: by a rule of public numbers, alike for every shard, and long enough to learn."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch
from test_torch_teachers import CPU, MODULES, OPTIMIZERS, X, Y, ensemble, same_weights, textbook

from pate import TorchTeacherEnsemble
from pate.comparison.studies.run import _open_model
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.networks import MLP, SmallCNN
from pate.teachers import make_teacher
from pate.teachers.torch import _grouped
from pate.teachers.torch._recipe import Optimizer, Recipe, default_steps

#: Twelve people, four shards of unequal length.
RECORDS = (40, 3, 17, 30, 8, 16, 25, 1, 33, 16, 12, 19)


def by_rule(module=MLP, n_teachers=20, **options):
    given = {"classes": range(10), "device": "cpu", "random_state": 0, "partition_seed": 0, **options}
    return TorchTeacherEnsemble(module, n_teachers, **given)


@pytest.mark.long
def test_the_default_learns_where_twenty_passes_did_not():
    """README's shards: 60 records each. The default was 20 passes, 40 steps: .26 for a SmallCNN."""
    fitted = by_rule(SmallCNN, 2).fit(X[:120], Y[:120])
    assert (fitted.epochs, fitted.n_steps, fitted._recipe.n_steps) == (None, None, 500)
    right = (fitted.vote(X[1200:]).labels == Y[1200:]).mean()
    before = by_rule(SmallCNN, 2, epochs=20).fit(X[:120], Y[:120])
    assert right > 0.6 > 0.4 > (before.vote(X[1200:]).labels == Y[1200:]).mean()


def test_the_rule_is_a_function_of_public_numbers(monkeypatch):
    assert [default_steps(n, 32) for n in (1, 60, 800, 801, 4000)] == [500, 500, 500, 520, 2500]
    assert default_steps(4000, 128) == 640
    assert by_rule(MLP, 2, batch_size=1).fit(X[:61], Y[:61])._recipe.n_steps == 20 * 31  # 31 and 30 records
    monkeypatch.setattr("pate.teachers.torch._recipe._STEPS", 7)
    # Which records can be used, and how many records a person has, are private: nothing follows from them.
    spoilt = np.where(np.arange(120) < 50, -1, Y[:120])
    with pytest.warns(CuratorWarning, match="50 of 120 records"):
        assert by_rule(MLP, 2, batch_size=8).fit(X[:120], spoilt)._recipe.n_steps == 20 * 8
    for lengths in (RECORDS, RECORDS[::-1], (1,) * 11 + (209,)):
        people = np.repeat(np.arange(12), lengths)
        n = len(people)
        found = by_rule(MLP, 4, batch_size=1, n_jobs=1).fit(X[:n], Y[:n], groups=people)
        assert found._recipe.n_steps == 20 * 3


@pytest.mark.few(6)
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("n_steps", [3, 11])
def test_a_teacher_of_n_steps_is_what_a_textbook_loop_makes_of_its_shard(module, n_steps):
    # Shards of 64 and 63 records in batches of 16: four steps in a pass, so the last pass is cut short.
    options = {"precision": "float64", "epochs": None, "n_steps": n_steps, **OPTIMIZERS[0]}
    fitted = ensemble(module, 3, **options).fit(X[:190], Y[:190])
    with torch.random.fork_rng():
        expected = [textbook(fitted, i, X[:190], Y[:190]) for i in range(3)]
    same_weights(fitted.teachers_, expected, 1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize("options", OPTIMIZERS, ids=lambda o: o["optimizer"])
def test_groups_are_trained_as_singles_for_n_steps(options):
    people = np.repeat(np.arange(12), RECORDS)
    n = len(people)
    fits = [
        ensemble(MLP, 4, precision="float64", group_size=size, epochs=None, n_steps=23, **options)
        .fit(X[:n], Y[:n], groups=people)
        for size in (1, 3, 9)
    ]  # fmt: skip
    assert len({len(s) for s in fits[0].partition_.shards()}) > 1
    for other in fits[1:]:
        same_weights(fits[0].teachers_, other.teachers_, 1e-9)


def test_every_place_of_a_group_takes_exactly_the_steps_whatever_its_shard_holds():
    for window, n_steps, sizes in itertools.product((4, 8, 16), (1, 5, 9), ((5, 12, 16, 1), (1, 1, 1, 40))):
        ends = np.cumsum((0, *sizes))
        recipe = Recipe(MLP, {}, 10, (64,), None, 4, Optimizer(), None, "float64", 0, n_steps=n_steps)
        members = [
            _grouped.Member(i, torch.from_numpy(X[a:b]).double(), torch.arange(a, b))
            for i, (a, b) in enumerate(itertools.pairwise(ends))
        ]
        feed = _grouped._Feed(recipe, members, torch.zeros((4, window, 64), dtype=torch.float64), CPU)
        batches = list(feed.batches())
        assert len(batches) == n_steps
        for rows, labels, weight, active in batches:
            assert bool(active.all())
            torch.testing.assert_close(weight.sum(1), torch.ones(4, dtype=torch.float64))
            assert torch.equal(rows[weight > 0], torch.from_numpy(X).double()[labels[weight > 0]])


def test_of_hardly_any_training_the_curator_is_warned_and_the_default_is_silent():
    for few, said in (({"epochs": 2}, r"epochs=2 \(4 steps "), ({"n_steps": 49}, "n_steps=49 is")):
        with pytest.warns(CuratorWarning, match=f"{said}.*hardly any training.*rule takes 500 steps"):
            by_rule(MLP, 2, **few).fit(X[:120], Y[:120])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for enough in ({}, {"epochs": 25}, {"n_steps": 50}):
            by_rule(MLP, 2, **enough).fit(X[:120], Y[:120])


def test_one_of_passes_and_steps_is_said():
    for bad in ({"epochs": 3, "n_steps": 3}, {"n_steps": 0}, {"n_steps": 1.5}, {"epochs": 0}):
        with pytest.raises(InvalidInputError, match="epochs" if "epochs" in bad else "n_steps"):
            by_rule(MLP, 2, **bad).fit(X[:40], Y[:40])


@pytest.mark.long
def test_steps_are_part_of_what_recognises_a_kept_teacher(tmp_path):
    def resumed(**length):
        return by_rule(MLP, 3, checkpoint_dir=tmp_path, **length).fit(X[:90], Y[:90]).n_resumed_

    assert (resumed(n_steps=60), resumed(n_steps=60), resumed(n_steps=61)) == (0, 3, 0)
    assert (resumed(), resumed(), resumed(n_steps=500)) == (0, 3, 3)
    # Another length of training, but as many steps for these shards: not looked up across.
    assert (resumed(epochs=60), resumed(epochs=60)) == (0, 3)


def test_the_keys_of_teachers_trained_by_passes_are_those_of_earlier_versions(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "pate.teachers.torch._ensemble.recipe_key", lambda given, *a, **k: seen.append(given) or bytes(32)
    )
    by_rule(MLP, 1, epochs=30, checkpoint_dir=tmp_path).fit(X[:30], Y[:30])
    assert list(seen[0]) == [
        "module", "code", "kwargs", "n_classes", "epochs", "batch_size", "optimizer", "augment", "precision", "seed",
    ]  # fmt: skip


@pytest.mark.long
def test_teachers_by_name_learn_by_default():
    for name, least in (("torch-mlp", 0.6), ("torch-linear", 0.6), ("torch-tanh-mlp", 0.6)):
        teachers = make_teacher(name).set_params(n_teachers=2, classes=range(10), device="cpu", random_state=0)
        votes = teachers.fit(X[:120], Y[:120]).vote(X[1200:])
        assert (votes.labels == Y[1200:]).mean() > least, name


def test_the_model_of_all_rows_takes_the_steps_that_its_rows_need():
    class Rows:
        def __init__(self, X, y):
            self.X, self.y = X, y

    class Both:
        private, test = Rows(X[:600], Y[:600]), Rows(X[1200:], Y[1200:])

    name, accuracy = _open_model(by_rule(MLP, 20), Both, Both, 0)
    assert name == "MLP"
    assert accuracy > 0.9
