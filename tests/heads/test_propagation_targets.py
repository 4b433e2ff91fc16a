"""Label propagation over public rows, and students on soft targets."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from ballot_worlds import make_release
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from pate.exceptions import InvalidInputError
from pate.heads import (
    LabelPropagationHead,
    LeastSquaresHead,
    LinearHead,
    TargetsStudent,
    load_head,
    noise_aware_targets,
)


def rings(n, rng):
    """Three arcs that touch no other: one neighbour is of the next one's class, and no line parts them."""
    labels = rng.integers(0, 3, n)
    angle = (2 * labels + rng.uniform(0, 0.8, n)) * np.pi / 3 + np.pi * rng.integers(0, 2, n)
    phi = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle), np.cos(5 * angle)], axis=1)
    phi = np.hstack([phi, rng.normal(size=(n, 5)) * 0.2])
    return phi / np.linalg.norm(phi, axis=1, keepdims=True), labels


def test_neighbours_mend_what_noise_breaks():
    """Where neighbours are of one class, smoothing is right more often than the head that it smooths."""
    rng, gains = np.random.default_rng(0), []
    for seed in range(12):
        (phi, labels), (public, truth) = rings(600, rng), rings(400, rng)
        release = make_release(phi, labels, 3, 15.0, seed)
        before = (LeastSquaresHead().fit(release, public).predict(public) == truth).mean()
        head = LabelPropagationHead(strength=5.0).fit(release, public)
        gains.append((head.smoothed_.argmax(axis=1) == truth).mean() - before)
    assert np.mean(gains) > 2 * np.std(gains) / np.sqrt(len(gains)) > 0


def test_strength_0_is_the_least_squares_head(world):
    release = make_release(world.phi, world.labels, 4, 20.0)
    head = LabelPropagationHead(strength=0.0).fit(release, world.public)
    plain = LeastSquaresHead().fit(release, world.public)
    np.testing.assert_allclose(head.smoothed_, plain.predict_proba(world.public), atol=1e-5)
    np.testing.assert_allclose(head.predict_proba(world.test[0]), plain.predict_proba(world.test[0]), atol=1e-5)


def test_probabilities_stay_probabilities_and_rows_are_answered_alone(world, tmp_path):
    head = LabelPropagationHead().fit(make_release(world.phi, world.labels, 4, 20.0), world.public)
    np.testing.assert_allclose(head.smoothed_.sum(axis=1), 1, atol=1e-4)
    assert head.smoothed_.min() > -1e-6
    together = head.predict_proba(world.test[0][:50])
    alone = np.vstack([head.predict_proba(world.test[0][i : i + 1]) for i in range(50)])
    np.testing.assert_allclose(together, alone, atol=1e-9)
    head.save(tmp_path / "head")
    np.testing.assert_array_equal(load_head(tmp_path / "head").predict_proba(world.test[0][:50]), together)
    assert head.predict_proba(world.test[0][:0]).shape == (0, 4)


def test_one_public_row_has_no_neighbour(world):
    head = LabelPropagationHead().fit(make_release(world.phi, world.labels, 4, 20.0), world.public[:1])
    assert np.isfinite(head.predict_proba(world.test[0])).all()


def test_soft_targets_are_the_cross_entropy():
    """A logistic regression on soft targets finds the head that made them."""
    phi = np.random.default_rng(0).normal(size=(3000, 2))
    head = LinearHead.of([[1.0, -1.0], [0.5, -0.5]], (0, 1))
    targets, _ = noise_aware_targets(head, phi)
    student = TargetsStudent(LogisticRegression(C=np.inf, fit_intercept=False), least=0.0).fit(phi, targets)
    np.testing.assert_allclose(student.estimator_.coef_, [[-2.0, -1.0]], atol=1e-3)


def test_a_class_without_a_row_keeps_its_column():
    frame = pd.DataFrame({"a": np.arange(40.0), "b": ["x", "y"] * 20}).astype({"b": "category"})
    targets = np.repeat([[0.9, 0.0, 0.1], [0.2, 0.0, 0.8]], 20, axis=0)
    trees = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    student = TargetsStudent(trees).fit(frame, targets, np.ones(40))
    assert student.predict_proba(frame).shape == (40, 3)
    assert student.predict(frame)[[0, -1]].tolist() == [0, 2]


def test_weights_are_of_mean_1_and_fall_with_doubt():
    head = LinearHead.of([[0.0, 3.0, 0.0]], (0, 1, 2))
    _, weights = noise_aware_targets(head, [[0.1], [0.5], [1.0]])
    assert weights.mean() == pytest.approx(1)
    assert (np.diff(weights) > 0).all()
    assert noise_aware_targets(LinearHead.of([[0.0, 0.0]], (0, 1)), [[1.0]])[1].tolist() == [1.0]


@pytest.mark.parametrize(
    ("targets", "weights", "estimator", "words"),
    [
        ([[0.5, 0.5]], None, LogisticRegression(), "targets must have shape"),
        ([[0.5, 0.6], [1, 0]], None, LogisticRegression(), "targets must be probabilities"),
        ([[0.5, 0.5], [1, 0]], [-1, 1], LogisticRegression(), "weights must be 2 finite numbers"),
        ([[0.5, 0.5], [1, 0]], None, KNeighborsClassifier(), "must take sample_weight"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(targets, weights, estimator, words):
    with pytest.raises(InvalidInputError, match=words):
        TargetsStudent(estimator).fit([[0.0], [1.0]], targets, weights)


def test_settings_are_checked(world):
    release = SimpleNamespace(**vars(make_release(world.phi, world.labels, 4, 20.0)))
    for head in (LabelPropagationHead(n_neighbors=0), LabelPropagationHead(strength=-1.0)):
        with pytest.raises(InvalidInputError):
            head.fit(release, world.public)
