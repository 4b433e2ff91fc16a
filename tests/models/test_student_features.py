"""What a student sees is a public map: each row by itself, whatever it holds; and what it predicts, it means."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.base import clone

from pate import InvalidInputError, RecordVoters
from pate.exceptions import SensitiveValueError
from pate.models.students import ImageStudent
from pate.models.students._features import StudentFeatures
from pate.models.students._image_training import views
from pate.networks import SmallCNN
from pate.privacy.words import Sensitive
from pate.records import SignedSpace
from pate.representations.images._augment import Augmentation
from tests.models.test_image_student import IMAGES, QUICK, TRUTH

TARGETS = 0.1 + 0.8 * np.eye(2)[TRUTH]


@pytest.fixture(scope="module")
def seen():
    return StudentFeatures(ImageStudent(**QUICK), TARGETS).fit(IMAGES)


def test_the_last_columns_are_the_students_logits(seen):
    z = seen.transform(IMAGES)
    odds = np.exp(z[:, -2:])
    np.testing.assert_allclose(
        odds / odds.sum(axis=1, keepdims=True), np.maximum(seen.student_.predict_proba(IMAGES), 1e-3), atol=2e-3
    )
    assert z.shape[1] == seen.n_features_out_
    variances = z[:, :-2].var(axis=0)
    assert (np.diff(variances) <= 1e-6).all()


def test_a_row_moves_no_other_whatever_it_holds(seen):
    other = IMAGES.astype(np.float64)
    other[3] = np.nan
    other[4] = 1e300
    one, two = seen.transform(IMAGES), seen.transform(other)
    others = np.delete(np.arange(len(IMAGES)), [3, 4])
    np.testing.assert_array_equal(one[others], two[others])
    assert np.isfinite(two).all()
    np.testing.assert_array_equal(seen.transform(IMAGES[:7]), one[:7])


@pytest.mark.long
def test_another_student_is_another_map(seen):
    again = StudentFeatures(ImageStudent(**QUICK), TARGETS).fit(IMAGES)
    assert again.fingerprint() == seen.fingerprint()
    turned = StudentFeatures(ImageStudent(**QUICK), TARGETS[:, ::-1]).fit(IMAGES)
    assert turned.fingerprint() != seen.fingerprint()
    assert "what was released before" in seen.provenance_


class BesideFirst(torch.nn.Module):
    """Takes the first image of a batch from each of them: a row's features depend on another row."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.body, self.last = torch.nn.Linear(n_features, 6), torch.nn.Linear(6, n_classes)

    def forward(self, images):
        made = self.body(images.flatten(1))
        return self.last(torch.relu(made - 50 * made[:1]))


class MyStudent(ImageStudent):
    def _last_features(self, images):
        found = super()._last_features(images)
        return found - found[:1]


def mapped(student):
    """Return the student's map and voters in a space of it."""
    maps = StudentFeatures(student, TARGETS).fit(IMAGES)
    return maps, RecordVoters(maps, SignedSpace().fit(maps.transform(IMAGES)), classes=2)


def test_a_student_of_pates_own_network_is_vouched_for(seen):
    space = SignedSpace().fit(seen.transform(IMAGES))
    voters = RecordVoters(seen, space, classes=2)
    assert seen.own_
    assert not clone(seen).own_  # nothing is known of it yet
    assert voters.own_maps
    assert voters.cast(IMAGES, TRUTH).facts.own_maps
    assert mapped(ImageStudent(**QUICK | {"epochs": 1, "network": "mlp"}))[1].own_maps


def test_a_network_of_the_user_is_not_vouched_for():
    """One record moves the others' ballots there, as this very network shows."""
    _, voters = mapped(ImageStudent(**QUICK | {"epochs": 1, "network": BesideFirst}))
    assert not voters.own_maps
    one, other = voters.cast(IMAGES, TRUTH), 1 - IMAGES[:1]
    two = voters.cast(np.concatenate([other, IMAGES[1:]]), TRUTH)
    assert np.linalg.norm((one.sums - two.sums).astype(float)) > one.delta
    assert not one.facts.own_maps


@pytest.mark.parametrize(
    "student",
    [
        ImageStudent(**QUICK | {"epochs": 1, "init": torch.nn.Flatten()}),
        ImageStudent(**QUICK | {"epochs": 1, "network": lambda: SmallCNN(n_features=64, n_classes=2)}),
        MyStudent(**QUICK | {"epochs": 1}),
    ],
    ids=["init", "function", "subclass"],
)
def test_nor_is_any_other_code_in_a_student(student):
    maps, voters = mapped(student)
    assert not maps.own_
    assert not voters.own_maps


def test_nor_a_network_that_was_put_in_later(seen):
    later = copy.deepcopy(seen)
    later.student_.network_ = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    assert not later.own_
    assert seen.own_


def test_nothing_private_goes_in(seen):
    with pytest.raises(SensitiveValueError):
        StudentFeatures(ImageStudent(**QUICK), TARGETS).fit(Sensitive(IMAGES))
    with pytest.raises(SensitiveValueError):
        StudentFeatures(ImageStudent(**QUICK), Sensitive(TARGETS)).fit(IMAGES)
    with pytest.raises(InvalidInputError, match="students must be"):
        StudentFeatures(None, TARGETS).fit(IMAGES)


@pytest.mark.long
def test_a_second_generation_learns_from_the_first_ones_neighbours():
    """A quarter of the answers is wrong at random: a fresh student of smoothed answers is taught better ones."""
    rng = np.random.default_rng(0)
    said = np.where(rng.uniform(size=len(TRUTH)) < 0.25, 1 - TRUTH, TRUTH)
    first = ImageStudent(**QUICK | {"epochs": 10, "trust": 0.0})
    second = clone(first).set_params(random_state=1)
    maps = StudentFeatures([first, second], 0.1 + 0.8 * np.eye(2)[said]).fit(IMAGES)
    right = (maps.student_.targets_.argmax(axis=1) == TRUTH).mean()
    assert right > (said == TRUTH).mean() + 0.1
    assert maps.student_.random_state == 1
    with pytest.raises(InvalidInputError, match="students must be"):
        StudentFeatures([], TARGETS).fit(IMAGES)


def test_views_are_a_rows_own_and_near_it():
    images, changes = torch.rand(5, 1, 12, 12), Augmentation(rotate=10, scale=0.1, flip=True)
    five = list(views(images, changes, 5))
    assert torch.equal(five[0], images)
    for view, alone in zip(five, views(images[2:3], changes, 5), strict=True):
        torch.testing.assert_close(view[2:3], alone)
    plain = list(views(images, Augmentation(rotate=10, scale=0.1), 5))
    assert not torch.equal(five[1], plain[1])  # mirrored
    torch.testing.assert_close(five[2], plain[2])
    torch.testing.assert_close(plain[1].mean(), images.mean(), atol=0.05, rtol=0)


def test_a_prediction_is_the_mean_over_views():
    student = ImageStudent(**QUICK).fit(IMAGES, TRUTH)
    five = student.predict_proba(IMAGES[:6])
    student.average_views = False
    one = student.predict_proba(IMAGES[:6])
    assert np.abs(five - one).max() > 1e-4
    with torch.no_grad():
        turned = views(torch.from_numpy(IMAGES[:6, None]), Augmentation(rotate=12, scale=0.12), 5)
        said = [student.network_(v).softmax(1).numpy() for v in turned]
    np.testing.assert_allclose(five, np.mean(said, axis=0), atol=1e-4)
