"""The likeliest classifier given noisy sums: what it models, and what it forgets."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize

from pate.exceptions import InvalidInputError
from pate.models.heads import LikelihoodHead, SelfTrainedHead, load_head
from pate.models.heads import _likelihood as likelihood
from pate.models.heads._linear import softmax


def released(sums, *, n, sigma, m, clip=None):
    return SimpleNamespace(statistics=sums, sigma=sigma, n_units=n, classes=tuple(range(m)), clip=clip)


@pytest.fixture
def world():
    """Public rows and records drawn alike, with labels from a known softmax."""
    rng = np.random.default_rng(5)
    phi = rng.normal(size=(4_500, 6))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    truth = rng.normal(size=(6, 3)) * 4
    p = softmax(phi @ truth)
    y = (rng.random((len(phi), 1)) > p.cumsum(axis=1)).sum(axis=1)
    return SimpleNamespace(public=phi[:1500], private=phi[1500:], y=y[1500:], p=p, truth=truth, rng=rng)


def class_release(world, sigma):
    sums = world.private.T @ (np.eye(3)[world.y] - 1 / 3)
    noise = sigma * world.rng.normal(size=sums.shape)
    return released(sums + noise - noise.mean(axis=1, keepdims=True), n=len(world.y), sigma=sigma, m=3)


def test_finds_the_probabilities_that_made_the_labels(world):
    head = LikelihoodHead(tau=10.0).fit(class_release(world, 1e-3), world.public)
    found = head.predict_proba(world.public)
    assert np.abs(found - world.p[:1500]).mean() < 0.04
    blind = LikelihoodHead(tau=10.0).fit(class_release(world, 1e7), world.public)
    assert np.abs(blind.predict_proba(world.public) - 1 / 3).max() < 0.02


def test_of_centres_it_gives_the_shares_of_the_classes_there():
    shares = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    phi = np.repeat(np.eye(2), 500, axis=0)
    sums = 10_000 * (shares - 1 / 3)
    head = LikelihoodHead(tau=100.0).fit(released(sums, n=20_000, sigma=1.0, m=3), phi)
    np.testing.assert_allclose(head.predict_proba(np.eye(2)), shares, atol=2e-3)


@pytest.mark.parametrize("clip", [0.3, 1.4])
def test_what_residuals_are_expected_to_sum_to_is_what_they_sum_to(world, clip):
    """The mean of clipped residuals over drawn labels is the modelled one: the clipping bias is in the model."""
    head = LikelihoodHead().fit(class_release(world, 20.0), world.public)
    q, p = head.predict_proba(world.private), world.p[1500:]
    total = np.zeros((6, 3))
    n_draws = 300
    for _ in range(n_draws):
        y = (world.rng.random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1)
        r = np.eye(3)[y] - q
        r *= np.minimum(1, clip / np.linalg.norm(r, axis=1, keepdims=True))
        total += world.private.T @ r
    length = np.sqrt(1 - 2 * q + (q**2).sum(axis=1, keepdims=True))
    one = likelihood._Round(np.zeros((6, 3)), np.ones(6), world.private, 1.0, q, np.minimum(1, clip / length))
    modelled = world.private.T @ one.votes(p)
    spread = clip * np.sqrt(len(p) / n_draws)
    assert np.abs(total / n_draws - modelled).max() < 5 * spread


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_slope_is_the_losss(world, monkeypatch, rounds):
    seen = []
    plain = scipy.optimize.minimize

    def spy(fun, x0, **more):
        seen.append(fun)
        return plain(fun, x0, **more)

    monkeypatch.setattr(likelihood, "minimize", spy)
    head = LikelihoodHead(max_iter=5).fit(class_release(world, 9.0), world.public, features=world.public[:, :4])
    if rounds == 2:
        head = head.updated(released(world.rng.normal(size=(6, 3)), n=3000, sigma=2.0, m=3, clip=0.5), world.public)
    w, loss, step = world.rng.normal(size=head.coef_.size) / 3, seen[-1], 1e-6
    slope = loss(w)[1]
    for j in range(len(w)):
        along = np.eye(len(w))[j] * step
        by_hand = (loss(w + along)[0] - loss(w - along)[0]) / (2 * step)
        assert by_hand == pytest.approx(slope[j], rel=1e-4, abs=1e-4 * np.abs(slope).max())


def test_a_round_of_residuals_makes_it_better(world):
    first = LikelihoodHead(tau=10.0).fit(class_release(world, 150.0), world.public)
    r = np.eye(3)[world.y] - first.predict_proba(world.private)
    second = first.updated(released(world.private.T @ r, n=3000, sigma=5.0, m=3, clip=1.4), world.public)

    def miss(head):
        return np.abs(head.predict_proba(world.public) - world.p[:1500]).mean()

    assert miss(second) < 0.5 * miss(first)
    assert first.fingerprint() != second.fingerprint()


def test_a_saved_head_answers_alike_and_takes_no_more_rounds(world, tmp_path):
    head = LikelihoodHead().fit(class_release(world, 9.0), world.public, features=world.public)
    head.save(tmp_path / "head.safetensors")
    again = load_head(tmp_path / "head.safetensors")
    np.testing.assert_array_equal(again.predict_proba(world.private), head.predict_proba(world.private))
    assert again.fingerprint() == head.fingerprint()
    assert again.takes == "representation"
    with pytest.raises(InvalidInputError, match="stores no rounds"):
        again.updated(released(np.zeros((6, 3)), n=3000, sigma=1.0, m=3, clip=0.5), world.public)


def test_rounds_of_the_wrong_kind_are_refused(world):
    head = LikelihoodHead().fit(class_release(world, 9.0), world.public)
    with pytest.raises(InvalidInputError, match="got class ballots"):
        head.updated(class_release(world, 9.0), world.public)
    with pytest.raises(InvalidInputError, match="residual ones go to updated"):
        LikelihoodHead().fit(released(np.zeros((6, 3)), n=9, sigma=1.0, m=3, clip=0.5), world.public)
    with pytest.raises(InvalidInputError, match="the same 1500 public rows"):
        LikelihoodHead().fit(class_release(world, 9.0), world.public, features=world.public[:5])
    with pytest.raises(InvalidInputError, match="tau"):
        LikelihoodHead(tau=0).fit(class_release(world, 9.0), world.public)


def test_self_training_smooths_noisy_labels():
    """Two clusters; the first head is wrong on scattered rows, which the second corrects."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 300)
    z = rng.normal(size=(600, 3)) + 4 * np.c_[y, y, y]
    noisy = np.where(rng.random(600) < 0.2, 1 - y, y)
    first = LikelihoodHead(tau=100.0).fit(
        released(10.0 * (np.eye(2)[noisy] - 0.5), n=6000, sigma=0.01, m=2), np.eye(600)
    )
    assert 0.7 < (first.predict(np.eye(600)) == y).mean() < 0.9
    second = SelfTrainedHead().fit(first, np.eye(600), features=z)
    assert (second.predict(z) == y).mean() > 0.98
    sure = first.predict_proba(np.eye(600)).max(axis=1).mean()
    assert second.predict_proba(z).max(axis=1).mean() == pytest.approx(sure, abs=0.02)
