"""Ensembles of whatever was chosen, torch teachers by name, and how much the vote gains from more teachers."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from pate import InvalidInputError, TableEncoder, TeacherEnsemble, TorchTeacherEnsemble
from pate.networks import SmallCNN, SmallResNet, named_modules
from pate.teachers import ensemble_curve, make_ensemble, make_teacher, named_teachers

# Names -----------------------------------------------------------------------------------------------------------


def test_every_ready_module_is_a_teacher_by_name():
    torch_names = set(named_teachers()) - set(named_teachers(torch=False))
    assert torch_names == {f"torch-{name}" for name in named_modules()}
    for name in torch_names:
        teacher = make_teacher(name)
        assert isinstance(teacher, TorchTeacherEnsemble)
        assert teacher.device == "auto"
        teacher._check_model()
    assert make_teacher("torch-small-cnn").module is SmallCNN
    assert make_teacher("mlp").__class__.__module__.startswith("sklearn")  # the older name keeps its meaning


def test_a_small_resnet_by_name_can_be_trained_in_groups():
    teacher = make_teacher("torch-small-resnet")
    module = teacher.module(n_features=64, n_classes=2, **teacher.module_kwargs)
    assert teacher.module is SmallResNet
    assert not [m for m in module.modules() if "BatchNorm" in type(m).__name__]


@pytest.mark.long
def test_names_are_listed_and_scikit_learns_made_without_torch():
    code = (
        "import sys\nfrom pate.teachers import make_ensemble, make_teacher, named_teachers\n"
        "make_ensemble(make_teacher('svm'), 3)\nassert 'torch-mlp' in named_teachers()\n"
        "print('torch' in sys.modules)\nmake_teacher('torch-mlp')\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True"], done.stderr


@pytest.mark.parametrize("name", ["small-cnn", "torch-", "torch-os.system", "torch-SmallCNN"])
def test_only_known_names_are_made(name):
    with pytest.raises(InvalidInputError, match=r"teacher must be one of .*'torch-small-cnn'.*TorchTeacherEnsemble"):
        make_teacher(name)


def test_an_encoded_table_suits_the_torch_mlp():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(size=400), "town": rng.choice(["Oslo", "Rome", "Kyiv"], 400)})
    y = ((rows["age"] > 0) ^ (rows["town"] == "Rome")).astype(int).to_numpy()
    encoder = TableEncoder().fit(rows[300:])
    teachers = make_ensemble(make_teacher("torch-mlp").set_params(device="cpu"), 3, classes=(0, 1), random_state=0)
    votes = teachers.fit(encoder.transform(rows[:300]), y[:300]).vote(encoder.transform(rows[300:]))
    assert (votes.counts.argmax(axis=1) == y[300:]).mean() > 0.8


# Ensembles -------------------------------------------------------------------------------------------------------

TEMPLATE = {
    "n_teachers": 7,
    "classes": (0, 1),
    "n_jobs": 2,
    "random_state": 3,
    "partition_seed": 4,
    "checkpoint_dir": "here",
    "verbose": True,
}


@pytest.mark.parametrize(
    "template", [TeacherEnsemble(GaussianNB(), **TEMPLATE), TorchTeacherEnsemble(SmallCNN, **TEMPLATE, epochs=3)]
)
def test_what_is_said_wins_and_what_is_not_is_the_templates(template):
    before = template.get_params()
    same = make_ensemble(template)
    assert same is not template
    assert {k: same.get_params()[k] for k in TEMPLATE} == TEMPLATE
    said = {
        "n_teachers": 9,
        "classes": "ab",
        "n_jobs": 1,
        "random_state": 0,
        "partition_seed": 1,
        "checkpoint_dir": "there",
    }
    other = make_ensemble(template, **said)
    assert {k: other.get_params()[k] for k in TEMPLATE} == {**said, "verbose": True}
    assert type(other) is type(template)
    assert getattr(other, "epochs", 3) == 3
    assert template.get_params().keys() == before.keys()
    assert {k: template.get_params()[k] for k in TEMPLATE} == TEMPLATE


def test_a_classifier_becomes_an_ensemble():
    assert make_ensemble(GaussianNB()).get_params(deep=False).items() >= {"n_teachers": 100, "n_jobs": None}.items()
    assert make_ensemble(GaussianNB(), 5, verbose=True).verbose
    with pytest.raises(InvalidInputError, match="n_teachers"):
        make_ensemble(GaussianNB(), 0).fit([[0.0], [1.0]], [0, 1])  # 0 is an answer, not a silence


def test_fitted_teachers_do_not_travel_in_a_template():
    X, y = np.arange(8.0).reshape(8, 1), [0, 1] * 4
    fitted = TeacherEnsemble(GaussianNB(), 2, classes=(0, 1), random_state=0).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"must be unfitted, got a fitted one.*clone"):
        make_ensemble(fitted)
    assert make_ensemble(clone(fitted)).n_teachers == 2


# Subsets ---------------------------------------------------------------------------------------------------------


def random_votes(n_teachers, n_rows, n_classes, right, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_rows)
    wrong = (truth + rng.integers(1, n_classes, (n_teachers, n_rows))) % n_classes
    return np.where(rng.random((n_teachers, n_rows)) < right, truth, wrong), truth


@pytest.mark.parametrize("n_teachers", [1, 2, 7, 30, 251])
def test_all_teachers_are_the_noiseless_ensemble_and_one_is_one(n_teachers):
    labels, truth = random_votes(n_teachers, 60, 4, 0.5)
    curve = ensemble_curve(labels, truth, n_classes=4, margin_noise=1.5)
    counts = (labels[:, :, None] == np.arange(4)).sum(axis=0)
    top = np.sort(counts, axis=1)
    assert curve["n_teachers"][0] == 1
    assert curve["n_teachers"][-1] == n_teachers
    assert min(n_teachers, 8) <= len(curve["n_teachers"]) <= 12
    assert curve["accuracy"][-1] == pytest.approx((counts.argmax(axis=1) == truth).mean())
    assert curve["low"][-1] == curve["high"][-1]  # there is one subset of all
    assert curve["clear"][-1] == pytest.approx((top[:, -1] - top[:, -2] > 3.0).mean())
    assert curve["clear"][0] == 0  # one vote is no margin beyond 3
    alone = (labels == truth).mean(axis=1)
    assert alone.min() <= curve["low"][0] <= curve["accuracy"][0] <= curve["high"][0] <= alone.max()
    json.dumps(curve)


def test_subsets_are_of_their_size_without_repeats_and_follow_condorcet():
    """Independent teachers right with probability 0.7: two classes, k of them, binomial."""
    from scipy.stats import binom

    labels, truth = random_votes(45, 4000, 2, 0.7)
    curve = ensemble_curve(labels, truth, n_classes=2)
    assert curve["clear"] is None
    odd = [(k, a) for k, a in zip(curve["n_teachers"], curve["accuracy"], strict=True) if k % 2]
    assert len(odd) >= 4
    for k, accuracy in odd:
        assert accuracy == pytest.approx(binom.sf(k // 2, k, 0.7), abs=0.02)


def test_subsets_do_not_depend_on_chance_outside():
    labels, truth = random_votes(20, 50, 3, 0.6)
    first = ensemble_curve(labels, truth, n_classes=3)
    np.random.default_rng().random()
    assert ensemble_curve(labels.astype(np.int16), truth, n_classes=3) == first
    assert ensemble_curve(labels, truth, n_classes=3, random_state=1) != first


@pytest.mark.parametrize(
    ("labels", "truth", "options", "text"),
    [
        ([0, 1], [0, 1], {}, "labels must have shape"),
        ([[0, 1]], [0], {}, "labels must have shape"),
        (np.zeros((0, 2), int), [0, 1], {}, "with something in both"),
        ([[0, 1]], [0, 1], {"n_classes": 1}, "n_classes"),
        ([[0, 1]], [0, 1], {"margin_noise": 0.0}, "margin_noise"),
        ([[0, 1]], [0, 1], {"random_state": -1}, "random_state"),
    ],
)
def test_bad_subsets_are_refused(labels, truth, options, text):
    with pytest.raises(InvalidInputError, match=text):
        ensemble_curve(labels, truth, **({"n_classes": 2} | options))
