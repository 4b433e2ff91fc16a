"""Label propagation over public rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ballot_worlds import make_release

from pate.exceptions import InvalidInputError
from pate.models.heads import LabelPropagationHead, LeastSquaresHead, load_head


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


def test_settings_are_checked(world):
    release = SimpleNamespace(**vars(make_release(world.phi, world.labels, 4, 20.0)))
    for head in (LabelPropagationHead(n_neighbors=0), LabelPropagationHead(strength=-1.0)):
        with pytest.raises(InvalidInputError):
            head.fit(release, world.public)
