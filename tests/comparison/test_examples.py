"""The example images of a report depend on public rows and the release alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pate import Budget, ConfidentGNMax, NoisyHistogram, Votes, load_dataset, release_labels
from pate.comparison.studies.run import FIRST, UNSURE, examples_of

COUNTS = np.random.default_rng(5).multinomial(200, [0.02] * 7 + [0.1, 0.1, 0.66], size=40)


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits", n_private=300, n_public=60)


def release_by(mechanism, **more):
    votes = Votes.from_counts(COUNTS, classes=range(10))
    return release_labels(votes, mechanism, budget=Budget(60.0, 1e-5), **more)


def test_the_first_and_those_with_the_least_noisy_lead(digits):
    release = release_by(NoisyHistogram(sigma=20.0))
    queries = np.arange(59, 19, -1)
    shown = examples_of(release, digits, queries)
    top = np.sort(release.noisy_counts, axis=1)
    lead = top[:, -1] - top[:, -2]
    later = [i for i in np.argsort(lead, kind="stable") if i >= FIRST][:UNSURE]
    picked = [*range(FIRST), *later]
    assert [e.lead for e in shown] == pytest.approx([lead[i] for i in picked])
    assert [e.label for e in shown] == [int(release.labels[i]) for i in picked]
    highest = digits.public.X[queries[picked]].max()
    for example, i in zip(shown, picked, strict=True):
        drawn = np.array([[int(point) for point in line] for line in example.image])
        meant = 9 * digits.public.X[queries[i]].reshape(8, 8) / highest
        assert np.abs(drawn - meant).max() <= 0.5
        assert example.confidence is None


def test_what_was_refused_has_no_label(digits):
    release = release_by(ConfidentGNMax(threshold=195.0, sigma_threshold=3.0, sigma=20.0), max_answers=40)
    shown = examples_of(release, digits, np.arange(40))
    assert len(shown) == FIRST + UNSURE  # it does not say of which it is least sure
    assert {e.label for e in shown} == {None}
    assert {e.lead for e in shown} == {None}


def test_true_classes_and_private_rows_take_no_part(digits):
    release = release_by(NoisyHistogram(sigma=20.0))
    other = replace(
        digits,
        private=replace(digits.private, X=digits.private.X[::-1] * 0 + 1),
        public=replace(digits.public, y_for_evaluation=np.zeros_like(digits.public.y_for_evaluation)),
    )
    assert examples_of(release, other, np.arange(40)) == examples_of(release, digits, np.arange(40))


def test_rows_that_are_no_images_are_not_shown(digits):
    release = release_by(NoisyHistogram(sigma=20.0))
    assert examples_of(release, replace(digits, image_shape=None), np.arange(40)) == ()
    assert examples_of(release, replace(digits, image_shape=(1, 65)), np.arange(40)) == ()
