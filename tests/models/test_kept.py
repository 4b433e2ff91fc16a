"""The model of ballots comes back the same, whatever its head and its maps are; and trees are looked at first."""

from __future__ import annotations

import numpy as np
import pytest

from pate import InvalidInputError, RecordVoters
from pate.models.heads import CorrectedHead, ForestHead, LinearHead
from pate.models.recipes import RecordModel
from pate.models.recipes._model import keep_record_model, made_of, read_record_model
from pate.models.recipes._run import student_space
from pate.models.students import ImageStudent
from pate.models.students._features import StudentFeatures
from pate.records import SignedSpace
from pate.representations import PublicPCA

CLASSES = ("no", "yes")
RNG = np.random.default_rng(0)


@pytest.mark.long
def test_an_image_students_model_and_what_records_said_against_it(tmp_path):
    images = RNG.uniform(size=(60, 16, 16))
    student = ImageStudent(epochs=1, batch_size=20, random_state=0, device="cpu")
    seen = StudentFeatures([student], np.tile([[0.9, 0.1], [0.2, 0.8]], (30, 1))).fit(images)
    z = np.asarray(seen.transform(images), dtype=np.float64)
    space = student_space(z, 2).fit(z)
    head = CorrectedHead.of(space, z, CLASSES)
    head.coef_ = RNG.normal(size=head.coef_.shape)
    model = RecordModel(RecordVoters(seen, space, classes=CLASSES), head)
    facts = keep_record_model(model, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "student.safetensors", "features.safetensors", "space.safetensors", "head.safetensors",
    }  # fmt: skip
    new = read_record_model(tmp_path, facts, CLASSES)
    assert (new.predict_proba(images) == model.predict_proba(images)).all()
    assert new.voters.fingerprint() == model.voters.fingerprint()


def model_of(head, columns=None):
    return RecordModel(RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=CLASSES), head, columns)


def test_parts_of_two_models_are_refused(tmp_path):
    facts = keep_record_model(model_of(LinearHead.of(np.eye(2), CLASSES)), tmp_path)
    LinearHead.of(2 * np.eye(2), CLASSES).save(tmp_path / "head.safetensors")
    with pytest.raises(InvalidInputError, match="not those that were saved"):
        read_record_model(tmp_path, facts, CLASSES)


class Mine(LinearHead):
    """A head whose code no file holds."""


def test_a_head_of_ones_own_is_refused(tmp_path):
    head = Mine()
    head.coef_, head.classes_ = np.eye(2), CLASSES
    with pytest.raises(InvalidInputError, match="space or a head of your own"):
        keep_record_model(model_of(head), tmp_path)


@pytest.mark.parametrize("splits", [[[0, 0, 2]], [[0, 1, 9]], [[7, 1, 2]]])
def test_trees_that_point_out_of_themselves_are_refused(tmp_path, splits):
    head = ForestHead()
    leaf = [-1, -1, -1]
    head.splits_ = np.array([[0, 1, 2], leaf, leaf], dtype=np.int64)
    head.thresholds_, head.values_ = np.zeros(3), np.full((3, 2), 0.5)
    head.roots_, head.coef_ = np.zeros(1, dtype=np.int64), np.zeros((2, 2))
    head.classes_, head.n_components_ = CLASSES, 3
    columns = PublicPCA(1).fit(np.eye(3))
    facts = keep_record_model(model_of(head, columns), tmp_path)
    assert isinstance(read_record_model(tmp_path, facts, CLASSES).head, ForestHead)
    head.splits_[0] = splits[0]
    head.save(tmp_path / "head.safetensors")
    with pytest.raises(InvalidInputError, match="out of range"):
        read_record_model(tmp_path, facts, CLASSES)


def test_temperature_and_weights_are_kept_and_files_without_them_open(tmp_path):
    model = model_of(LinearHead.of([[3.0, -3.0], [0.0, 1.0]], CLASSES))
    plain = model.predict_proba(np.eye(3))
    model.temperature, model.weights = 1.75, (0.9, 0.1)
    facts = keep_record_model(model, tmp_path)
    again = read_record_model(tmp_path, facts, CLASSES)
    assert (again.temperature, again.weights) == (1.75, (0.9, 0.1))
    assert (again.predict_proba(np.eye(3)) == model.predict_proba(np.eye(3))).all()
    assert (again.predict(np.eye(3)) == model.predict(np.eye(3))).all()
    assert made_of(again)[-1] == "decides: balanced, probabilities divided by 0.9, 0.1"
    old = {name: value for name, value in facts.items() if name not in ("temperature", "weights")}
    assert (read_record_model(tmp_path, old, CLASSES).predict_proba(np.eye(3)) == plain).all()
