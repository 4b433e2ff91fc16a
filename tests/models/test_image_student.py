"""The image student: targets and weights mean what they say, it goes on where it stopped, and sees nothing private."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import nn

from pate import ABSTAIN, InvalidInputError
from pate.data import PrivateRows
from pate.exceptions import SensitiveValueError, StudentWarning
from pate.models.students import ImageStudent, fit_student, make_student, uses_unlabelled
from pate.models.students._fit import try_student
from pate.models.students._image import read_targets
from pate.models.students._image_training import _CHANGES, Training
from pate.representations.images import Pixels

QUICK = {"epochs": 6, "batch_size": 16, "random_state": 0, "device": "cpu", "precision": "float32"}


def shapes(n=96, seed=0):
    """A bright bar lying (0) or standing (1), at a random place."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    images = 0.2 * rng.uniform(size=(n, 8, 8))
    for image, kind, at in zip(images, truth, rng.integers(1, 6, n), strict=True):
        image[(slice(at, at + 2), slice(1, 7)) if kind == 0 else (slice(1, 7), slice(at, at + 2))] += 0.8
    return images.astype(np.float32), truth


IMAGES, TRUTH = shapes()


def weights_of(student):
    return {k: v.numpy() for k, v in student.network_.state_dict().items()}


def same(one, other):
    a, b = weights_of(one), weights_of(other)
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


# What it learns ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_it_learns_from_a_few_labels_and_says_so():
    labels = np.where(np.arange(96) < 48, TRUTH, ABSTAIN)
    student = ImageStudent(**QUICK | {"epochs": 14}).fit(IMAGES, labels)
    rows, truth = shapes(60, seed=1)
    assert np.mean(student.predict(rows) == truth) > 0.9
    p = student.predict_proba(rows)
    assert p.shape == (60, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    assert student.classes_.tolist() == [0, 1]
    assert len(student.history_) == 14
    assert student.history_[-1]["agreement"] > 0.9
    # Rows without an answer were given one.
    assert np.mean(student.targets_[48:].argmax(axis=1) == TRUTH[48:]) > 0.9


@pytest.mark.long
def test_probabilities_are_learnt_as_they_are():
    still = np.full((64, 8, 8), 0.5, dtype=np.float32)
    targets = np.tile([0.7, 0.2, 0.1], (64, 1))
    student = ImageStudent(**QUICK | {"epochs": 30, "learning_rate": 0.02}, augmentation=0, erase=0, trust=0)
    p = student.fit(still, 5 * targets).predict_proba(still[:1])[0]
    np.testing.assert_allclose(p, [0.7, 0.2, 0.1], atol=0.05)
    np.testing.assert_allclose(student.targets_, targets, atol=1e-6)


@pytest.mark.long
def test_answers_of_no_weight_are_not_heeded():
    contrary = np.where(np.arange(96) < 48, TRUTH, 1 - TRUTH)
    student = ImageStudent(**QUICK | {"epochs": 14}).fit(IMAGES, contrary, weights=np.arange(96) < 48)
    assert np.mean(student.predict(IMAGES) == TRUTH) > 0.9
    others = np.where(np.arange(96) < 48, TRUTH, ABSTAIN)
    assert same(student, ImageStudent(**QUICK | {"epochs": 14}).fit(IMAGES, others))


@pytest.mark.long
def test_doubtful_answers_give_way_and_sure_ones_stay():
    p = np.where(np.eye(2)[TRUTH] == 1, 0.98, 0.02)
    p[:4] = np.where(np.eye(2)[1 - TRUTH[:4]] == 1, 0.55, 0.45)  # wrong, in doubt
    p[4:8] = np.where(np.eye(2)[1 - TRUTH[4:8]] == 1, 1.0, 0.0)  # wrong, for sure
    student = ImageStudent(**QUICK | {"epochs": 10}, trust=0.5, erase=0).fit(IMAGES, p)
    assert (student.targets_[:4].argmax(axis=1) == TRUTH[:4]).all()
    assert (student.targets_[4:8].argmax(axis=1) != TRUTH[4:8]).all()


@pytest.mark.long
def test_an_untrained_student_replaces_no_answer():
    # Nothing is learnt at this rate: its opinion is a chance one, taken from the first epoch on.
    lost = ImageStudent(**QUICK | {"learning_rate": 1e-9}, trust=50.0, trust_from=0.0).fit(IMAGES, TRUTH)
    assert (lost.targets_.argmax(axis=1) == TRUTH).mean() > 0.95
    assert max(h["trust"] for h in lost.history_) < 10
    knows = ImageStudent(**QUICK | {"epochs": 14}).fit(IMAGES, TRUTH)
    assert knows.history_[-1]["trust"] == 2.0


def test_a_rows_prediction_is_its_own():
    student = ImageStudent(**QUICK | {"epochs": 2}).fit(IMAGES, TRUTH)
    alone = np.vstack([student.predict_proba(row[None]) for row in IMAGES[:5]])
    np.testing.assert_allclose(student.predict_proba(IMAGES)[:5], alone, atol=1e-6)


def test_flat_rows_and_images_are_the_same_thing():
    flat = ImageStudent(**QUICK | {"epochs": 2}).fit(IMAGES.reshape(96, 64), TRUTH)
    assert same(flat, ImageStudent((1, 8, 8), **QUICK | {"epochs": 2}).fit(IMAGES[:, None], TRUTH))
    np.testing.assert_array_equal(flat.predict_proba(IMAGES), flat.predict_proba(IMAGES.reshape(96, 64)))


# Few answers ---------------------------------------------------------------------------------------------------


def few_answers(truth, n, n_wrong, seed=0):
    """Labels of ``n`` rows drawn at random, of which the first ``n_wrong`` are wrong."""
    asked = np.random.default_rng(seed).choice(len(truth), n, replace=False)
    labels = np.full(len(truth), ABSTAIN)
    labels[asked] = truth[asked]
    labels[asked[:n_wrong]] = (truth[asked[:n_wrong]] + 1) % (truth.max() + 1)
    return labels, asked


DIGITS = load_digits()
ROWS, DIGIT = (DIGITS.data / 16).astype(np.float32), DIGITS.target
FEW = QUICK | {"epochs": 8, "batch_size": 32, "network": "mlp", "augmentation": 0, "erase": 0, "average_views": False}


def test_few_answers_reach_all_images_and_outvote_wrong_ones():
    labels, asked = few_answers(DIGIT[:1200], 60, 6)
    student = ImageStudent(**FEW, spread_over=Pixels()).fit(ROWS[:1200], labels)
    accuracy = np.mean(student.predict(ROWS[1200:]) == DIGIT[1200:])
    assert accuracy > 0.8
    assert np.mean(student.spread_labels_ == DIGIT[:1200]) > 0.9
    assert np.mean(student.spread_labels_[asked[:6]] == DIGIT[asked[:6]]) >= 0.5
    alone = ImageStudent(**FEW, spread_over=None).fit(ROWS[:1200], labels)
    assert alone.spread_labels_ is None
    assert np.mean(alone.predict(ROWS[1200:]) == DIGIT[1200:]) < accuracy - 0.1
    # A class that was never answered reaches no image.
    others = np.where(labels == 4, ABSTAIN, labels)
    assert 4 not in ImageStudent(**FEW | {"epochs": 1}, spread_over=Pixels()).fit(ROWS[:1200], others).spread_labels_


def test_by_default_they_are_spread_in_what_a_network_sees(monkeypatch):
    monkeypatch.setattr("pate.models.students._image._SHOWN", (2, 2, 1))
    labels, _ = few_answers(DIGIT[:1000], 60, 0)
    student = ImageStudent(**FEW | {"epochs": 1}).fit(ROWS[:1000], labels)
    assert np.mean(student.spread_labels_ == DIGIT[:1000]) > 0.7
    # The same seed gives the same student, and an answer of weight 0 is none.
    wrong, weights = np.where(labels == ABSTAIN, 0, labels), (labels != ABSTAIN).astype(float)
    assert same(student, ImageStudent(**FEW | {"epochs": 1}).fit(ROWS[:1000], wrong, weights))


@pytest.mark.parametrize(("n_answers", "n_rows"), [(100, 1000), (20, 999)])
def test_a_tenth_of_the_rows_is_not_few_and_hundreds_of_images_are_not_many(n_answers, n_rows):
    labels, _ = few_answers(DIGIT[:n_rows], n_answers, 0)
    student = ImageStudent(**FEW | {"epochs": 1}, spread_over=Pixels()).fit(ROWS[:n_rows], labels)
    assert student.spread_labels_ is None


def test_targets_of_every_row_are_not_spread():
    p = np.where(np.eye(2)[TRUTH] == 1, 0.9, 0.1)
    one = ImageStudent(**QUICK | {"epochs": 1}).fit(IMAGES, p)
    assert one.spread_labels_ is None
    assert same(one, ImageStudent(**QUICK | {"epochs": 1}, spread_over=None).fit(IMAGES, p))


# Starts, networks, names ---------------------------------------------------------------------------------------


def test_it_starts_from_a_copy_of_what_was_trained_before():
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 12))
    before = body[1].weight.detach().clone()

    class Representation:
        module_ = body

    tiny = QUICK | {"epochs": 1, "learning_rate": 1e-9, "weight_decay": 0.0}
    one = ImageStudent(**tiny, init=body).fit(IMAGES, TRUTH)
    other = ImageStudent(**tiny, init=Representation()).fit(IMAGES, TRUTH)
    assert same(one, other)
    np.testing.assert_allclose(one.network_.body[1].weight, before, atol=1e-6)
    ImageStudent(**QUICK | {"epochs": 1}, init=body).fit(IMAGES, TRUTH)
    assert torch.equal(body[1].weight, before)
    with pytest.raises(InvalidInputError, match=r"init must be a torch\.nn.Module or a fitted representation"):
        ImageStudent(**QUICK, init=object()).fit(IMAGES, TRUTH)
    with pytest.raises(InvalidInputError, match=r"init must take images of shape \(batch, 1, 8, 8\)"):
        ImageStudent(**QUICK, init=nn.Linear(3, 3)).fit(IMAGES, TRUTH)
    with pytest.raises(InvalidInputError, match="DataParallel"):
        ImageStudent(**QUICK, init=nn.DataParallel(body)).fit(IMAGES, TRUTH)


def test_named_networks_learn_too_and_wrong_ones_are_refused():
    student = ImageStudent(**QUICK, network="mlp", augmentation=0.3, erase=0).fit(IMAGES, TRUTH)
    assert np.mean(student.predict(IMAGES) == TRUTH) > 0.9
    with pytest.raises(InvalidInputError, match="module must be one of"):
        ImageStudent(**QUICK, network="oracle").fit(IMAGES, TRUTH)
    with pytest.raises(InvalidInputError, match=r"network must return logits of shape \(batch, 2\)"):
        ImageStudent(**QUICK, network=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3))).fit(IMAGES, TRUTH)


@pytest.mark.long
def test_it_is_a_student_like_others(tmp_path):
    student = make_student("image")
    assert isinstance(student, ImageStudent)
    assert uses_unlabelled(student)
    kept = tmp_path / "kept.safetensors"
    student.set_params(**QUICK | {"checkpoint_dir": str(kept), "seconds": 1e6})
    try_student(student, IMAGES, n_classes=2, queries=np.arange(40), n_answers=40)
    assert not kept.exists()
    labels = np.where(np.arange(96) < 48, TRUTH, ABSTAIN)
    fitted = fit_student(clone(student).set_params(seconds=None, checkpoint_dir=None), IMAGES, labels, random_state=3)
    assert fitted.random_state == 3
    assert same(fitted, ImageStudent(**QUICK | {"random_state": 3}).fit(IMAGES, labels))
    with pytest.warns(StudentWarning, match="of one class"):
        fit_student(student, IMAGES, np.full(96, 1))


# Cut off, kept, read -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_fit_that_was_cut_off_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    whole = ImageStudent(**QUICK).fit(IMAGES, TRUTH)
    kept = ImageStudent(**QUICK, checkpoint_dir=tmp_path / "kept.safetensors")
    one_epoch, done = Training._one_epoch, []

    def cut(self):
        done.append(self.epoch)
        if done == [0, 1, 2, 3]:
            raise KeyboardInterrupt
        return one_epoch(self)

    monkeypatch.setattr(Training, "_one_epoch", cut)
    with pytest.raises(KeyboardInterrupt):
        kept.fit(IMAGES, TRUTH)
    torch.manual_seed(99)  # whatever else went on in the meantime
    kept.fit(IMAGES, TRUTH)
    assert done == [0, 1, 2, 3, 3, 4, 5]
    assert same(kept, whole)
    assert kept.history_ == whole.history_
    np.testing.assert_array_equal(kept.targets_, whole.targets_)
    kept.fit(IMAGES, TRUTH)  # all of it is there
    assert len(done) == 7
    assert same(kept, whole)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    settings = QUICK | {"epochs": 1, "checkpoint_dir": tmp_path / "kept"}
    ImageStudent(**settings).fit(IMAGES, TRUTH)
    (file,) = (tmp_path / "kept").iterdir()
    changed = IMAGES.copy()
    changed[7, 3, 3] += 0.01
    for student, X, y in (
        (ImageStudent(**settings | {"random_state": 1}), IMAGES, TRUTH),
        (ImageStudent(**settings, trust=0.7), IMAGES, TRUTH),
        (ImageStudent(**settings), changed, TRUTH),
        (ImageStudent(**settings), IMAGES, 1 - TRUTH),
    ):
        with pytest.raises(InvalidInputError, match="holds another training"):
            student.fit(X, y)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InvalidInputError, match="no intact file"):
        ImageStudent(**settings).fit(IMAGES, TRUTH)
    with pytest.raises(InvalidInputError, match="random_state must be given with checkpoint_dir"):
        ImageStudent(**settings | {"random_state": None}).fit(IMAGES, TRUTH)


def test_saved_and_read_it_says_the_same(tmp_path):
    file = tmp_path / "student.safetensors"
    student = ImageStudent(**QUICK | {"epochs": np.int64(2)}, flip=True).fit(IMAGES, TRUTH)
    student.save(file)
    back = ImageStudent.load(file)
    np.testing.assert_array_equal(back.predict_proba(IMAGES), student.predict_proba(IMAGES))
    assert back.flip
    assert back.history_ == student.history_
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 12))
    student = ImageStudent(**QUICK | {"epochs": 1}, init=body).fit(IMAGES, TRUTH)
    student.save(file)
    back = ImageStudent.load(file, init=nn.Sequential(nn.Flatten(), nn.Linear(64, 12)))
    np.testing.assert_array_equal(back.predict_proba(IMAGES), student.predict_proba(IMAGES))
    with pytest.raises(InvalidInputError, match="init must be given as the student was made"):
        ImageStudent.load(file)
    with pytest.raises(InvalidInputError, match="init is not the network of"):
        ImageStudent.load(file, init=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    (tmp_path / "text").write_text("no tensors")
    with pytest.raises(InvalidInputError, match="no intact file"):
        ImageStudent.load(tmp_path / "text")


def test_the_seed_is_all_there_is_to_it():
    one = ImageStudent(**QUICK | {"epochs": 1}).fit(IMAGES, TRUTH)
    torch.manual_seed(5)
    assert same(one, ImageStudent(**QUICK | {"epochs": 1}).fit(IMAGES, TRUTH))
    assert not same(one, ImageStudent(**QUICK | {"epochs": 1, "random_state": 1}).fit(IMAGES, TRUTH))


@pytest.mark.long
def test_it_stops_when_nothing_changes_or_out_of_time():
    unchanged = ImageStudent(**QUICK | {"epochs": 200}, patience=2, erase=0).fit(IMAGES, TRUTH)
    assert 3 <= len(unchanged.history_) < 200
    assert all(h["changed"] == 0 for h in unchanged.history_[-2:])
    out_of_time = ImageStudent(**QUICK | {"epochs": 10_000}, seconds=0.5).fit(IMAGES, TRUTH)
    assert len(out_of_time.history_) < 500


# Changes of images ---------------------------------------------------------------------------------------------


def test_images_are_mirrored_only_when_asked():
    images, generator = torch.rand(50, 1, 8, 8), torch.Generator().manual_seed(0)
    assert torch.equal(_CHANGES.scaled(0.0).apply(images, generator), images)
    flipped = replace(_CHANGES.scaled(0.0), flip=True).apply(images, generator)
    kept = torch.tensor([torch.allclose(a, b, atol=1e-5) for a, b in zip(flipped, images, strict=True)])
    mirrored = torch.tensor([torch.allclose(a, b.flip(2), atol=1e-5) for a, b in zip(flipped, images, strict=True)])
    assert (kept ^ mirrored).all()
    assert 10 < int(mirrored.sum()) < 40
    # Never mirrored otherwise, however strong: a wedge that is bright on the left stays so.
    wedge = torch.linspace(1, 0, 16).expand(200, 1, 16, 16)
    changed = _CHANGES.apply(wedge, generator)
    assert (changed[..., :8].mean((1, 2, 3)) > changed[..., 8:].mean((1, 2, 3))).all()


# Refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs must be a whole number >= 1"),
        ({"seconds": -1.0}, "seconds must be a finite number > 0"),
        ({"batch_size": 1}, "batch_size must be a whole number >= 2"),
        ({"learning_rate": 0}, "learning_rate must be"),
        ({"trust": -1}, "trust must be"),
        ({"trust_from": 2}, "trust_from must be"),
        ({"label_error": 1.0}, "label_error must be"),
        ({"spread_over": "pixels"}, "spread_over must be"),
        ({"spread_over": 7}, "spread_over must be"),
        ({"augmentation": "strong"}, "augmentation must be"),
        ({"erase": 1.5}, "erase must be"),
        ({"flip": "yes"}, "flip must be True or False"),
        ({"patience": 0}, "patience must be"),
        ({"precision": "float8"}, "precision must be one of"),
        ({"device": "abacus"}, "device must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"image_shape": (1, 7, 7)}, r"X must have images of shape \(1, 7, 7\)"),
        ({"image_shape": 64}, "image_shape must be"),
    ],
)
def test_settings_out_of_bounds_are_refused(settings, words):
    with pytest.raises(InvalidInputError, match=words):
        ImageStudent(**QUICK | settings).fit(IMAGES, TRUTH)


@pytest.mark.parametrize(
    ("X", "y", "weights", "words"),
    [
        (IMAGES, TRUTH[:-1], None, "y must have shape"),
        (IMAGES, TRUTH + 0.5, None, "y must hold released class indices"),
        (IMAGES, TRUTH - 2, None, "y must hold released class indices"),
        (IMAGES, np.full(96, ABSTAIN), None, "at least one answer"),
        (IMAGES, np.full((96, 2), np.nan), None, "at least one answer"),
        (IMAGES, np.full((96, 2), -1.0), None, "y must hold probabilities"),
        (IMAGES, np.zeros((96, 2)), None, "y must hold probabilities"),
        (IMAGES, np.ones((95, 2)), None, r"y must have shape \(96, n_classes\)"),
        (IMAGES, TRUTH, np.ones(5), "weights must be 96 numbers from 0 to 1"),
        (IMAGES, TRUTH, np.full(96, 2.0), "weights must be 96 numbers from 0 to 1"),
        (IMAGES, TRUTH, np.zeros(96), "at least one answer"),
        (IMAGES[:1], TRUTH[:1], None, "at least two images"),
        (np.where(IMAGES > 0.9, np.nan, IMAGES), TRUTH, None, "X"),
        (IMAGES.reshape(96, 64)[:, :30], TRUTH, None, "n_features must be channels"),
    ],
)
def test_odd_rows_targets_and_weights_are_refused(X, y, weights, words):
    with pytest.raises(InvalidInputError, match=words):
        ImageStudent(**QUICK).fit(X, y, weights)


def test_nothing_private_comes_in():
    private = PrivateRows(IMAGES, TRUTH)
    for arguments in ((private, TRUTH), (IMAGES, private), (IMAGES, TRUTH, private)):
        with pytest.raises(SensitiveValueError, match="public"):
            ImageStudent(**QUICK).fit(*arguments)


def test_targets_by_hand():
    table, given = read_targets(np.array([1, ABSTAIN]), None, 2, 0.1)
    np.testing.assert_allclose(table, [[0.05, 0.95], [0.5, 0.5]])
    assert given.tolist() == [1, 0]
    table, given = read_targets([[1.0, 3.0], [np.nan, np.nan], [0.0, 2.0]], [0.5, 1, 1], 3, 0.1)
    np.testing.assert_allclose(table, [[0.25, 0.75], [0.5, 0.5], [0.0, 1.0]])
    assert given.tolist() == [0.5, 0, 1]
