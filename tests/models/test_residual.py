"""Residual steps: a Newton step on public curvature, from released residuals."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ballot_worlds import make_release, make_world
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from pate.exceptions import InvalidInputError
from pate.models.heads import LeastSquaresHead, LinearHead, residual_step


def residual_release(phi, labels, head, clip, sigma, seed):
    """The noisy sum of clipped residuals."""
    rest = np.eye(len(head.classes_))[labels] - head.predict_proba(phi)
    rest *= np.minimum(1, clip / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-12))
    sums = phi.T @ rest + sigma * np.random.default_rng(seed).normal(size=(phi.shape[1], len(head.classes_)))
    sums -= sums.mean(axis=1, keepdims=True)
    return SimpleNamespace(statistics=sums, sigma=sigma, n_units=len(phi), classes=head.classes_)


def deviance(head, world):
    return log_loss(world.test[1], head.predict_proba(world.test[0]))


@pytest.mark.long
def test_rounds_without_noise_find_the_logistic_optimum(world):
    """Newton's method on the same rows, nothing clipped: scikit-learn's unpenalised logistic regression."""
    head = LinearHead.of(np.zeros((12, 4)), tuple(range(4)))
    for i in range(30):
        release = residual_release(world.phi, world.labels, head, 9.0, 0.0, i)
        # As if there were so many records that their draw is no noise either.
        release = SimpleNamespace(**{**vars(release), "statistics": 1e6 * release.statistics, "n_units": 10**6 * 4000})
        head = residual_step(head, release, world.phi, n_folds=1)
    theirs = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=5000).fit(world.phi, world.labels)
    ours = log_loss(world.labels, head.predict_proba(world.phi))
    assert ours == pytest.approx(log_loss(world.labels, theirs.predict_proba(world.phi)), abs=2e-4)


@pytest.mark.long
def test_two_rounds_beat_one_for_the_same_mu():
    """mu^2 is split in halves, and the residuals' Delta of 2C = 1 is less than a signed ballot's 1.73."""
    one, two = [], []
    for seed in range(12):
        world = make_world(seed=seed)
        mu = 0.4
        release = make_release(world.phi, world.labels, 4, 2 * np.sqrt(0.75) / mu, seed)
        one.append(deviance(LeastSquaresHead().fit(release, world.public), world))
        mu *= np.sqrt(0.5)
        release = make_release(world.phi, world.labels, 4, 2 * np.sqrt(0.75) / mu, seed)
        head = LeastSquaresHead().fit(release, world.public)
        release = residual_release(world.phi, world.labels, head, 0.5, 2 * 0.5 / mu, 100 + seed)
        two.append(deviance(residual_step(head, release, world.public), world))
    gain = np.array(one) - np.array(two)
    assert gain.mean() > 2 * gain.std() / np.sqrt(len(gain))


@pytest.mark.parametrize(("sigma", "most"), [(1e2, 0.15), (1e5, 1.0)])
def test_a_round_of_nothing_but_noise_does_little_harm(sigma, most):
    """Without Stein's shrinkage the step would be the noise itself, thousands of times as long as any signal."""
    world = make_world(seed=3)
    start = LeastSquaresHead().fit(make_release(world.phi, world.labels, 4, 20.0), world.public)
    harm = []
    for seed in range(10):
        noise = np.random.default_rng(seed).normal(size=(12, 4)) * sigma
        noise -= noise.mean(axis=1, keepdims=True)
        release = SimpleNamespace(statistics=noise, sigma=sigma, n_units=4000, classes=start.classes_)
        head = residual_step(start, release, world.public)
        assert head.risk_ <= 0
        harm.append(deviance(head, world) - deviance(start, world))
    assert np.mean(harm) < most
    assert np.max(harm) < 2


@pytest.mark.parametrize("rows", [1, 5])
def test_a_step_with_few_public_rows_is_finite(world, rows):
    start = LeastSquaresHead().fit(make_release(world.phi, world.labels, 4, 20.0), world.public)
    release = residual_release(world.phi, world.labels, start, 0.5, 20.0, 0)
    head = residual_step(start, release, world.public[:rows])
    assert np.isfinite(head.coef_).all()


def test_what_does_not_belong_together_is_refused(world):
    start = LeastSquaresHead().fit(make_release(world.phi, world.labels, 4, 20.0), world.public)
    release = residual_release(world.phi, world.labels, start, 0.5, 20.0, 0)
    other = SimpleNamespace(**{**vars(release), "classes": ("a", "b", "c", "d")})
    with pytest.raises(InvalidInputError, match="the same classes"):
        residual_step(start, other, world.public)
    with pytest.raises(InvalidInputError, match="head must be linear"):
        residual_step(object(), release, world.public)
