"""Heads against scikit-learn, against their own estimates of risk, and at the edges."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ballot_worlds import make_release, make_world
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss

from pate._core.tensors import save_tensors
from pate.exceptions import InvalidInputError
from pate.models.heads import LeastSquaresHead, LinearHead, load_head

HEADS = [LeastSquaresHead(), LeastSquaresHead(power=1.0, n_folds=1)]


def test_least_squares_without_noise_is_that_of_scikit_learn(world):
    """The same rows on both sides, no noise, nothing shrunk."""
    release = make_release(world.phi, world.labels, world.n_classes, 0.0)
    head = LeastSquaresHead(shrinkage=0.0).fit(release, world.phi)
    targets = np.eye(world.n_classes)[world.labels] - 1 / world.n_classes
    theirs = LinearRegression(fit_intercept=False).fit(world.phi, targets)
    np.testing.assert_allclose(head.coef_ / head.scale_, theirs.coef_.T, atol=1e-9)


def population_risk(head, world):
    """E |W^T phi - c_y|^2 - E |c_y|^2 over rows that no head was fitted on."""
    phi, labels = world.test
    scores = phi @ head.coef_ / head.scale_
    agreement = (scores * (np.eye(world.n_classes)[labels] - 1 / world.n_classes)).sum(axis=1)
    return ((scores**2).sum(axis=1) - 2 * agreement).mean()


@pytest.mark.few(1)
@pytest.mark.parametrize("lam", [0.003, 0.03, 0.3])
def test_steins_risk_is_unbiased(lam):
    """Over draws of records, public rows and noise the estimate and the truth have one mean."""
    gaps, truths = [], []
    for seed in range(150):
        world = make_world(seed=1000 + seed, n=600, n_public=150)
        release = make_release(world.phi, world.labels, 4, 12.0, seed)
        head = LeastSquaresHead(shrinkage=lam).fit(release, world.public)
        truths.append(population_risk(head, world))
        gaps.append(head.risk_ - truths[-1])
    error = np.std(gaps) / np.sqrt(len(gaps))
    assert error < 0.05
    # Folds learn from four fifths of the public rows, so a little pessimism is right.
    assert -3.5 * error < np.mean(gaps) < 3.5 * error + 0.03


def test_one_fold_is_too_hopeful():
    """The reason for folds: with few public rows the same rows in both parts promise too much."""
    gaps = {1: [], 5: []}
    for seed in range(30):
        world = make_world(seed=seed, n=4000, n_public=30)
        release = make_release(world.phi, world.labels, 4, 1.0, seed)
        for n_folds, found in gaps.items():
            head = LeastSquaresHead(shrinkage=0.001, n_folds=n_folds).fit(release, world.public)
            found.append(head.risk_ - population_risk(head, world))
    assert np.mean(gaps[1]) < -0.1
    assert np.mean(gaps[5]) > -0.05


@pytest.mark.parametrize("power", ["stein", 1.0, 2.0, 3.0])
def test_lambda_by_stein_is_nearly_the_best(world, power):
    """No fixed lambda does much better on the truth."""
    release = make_release(world.phi, world.labels, 4, 40.0)
    chosen = population_risk(LeastSquaresHead(power=power).fit(release, world.public), world)
    fixed = [
        population_risk(LeastSquaresHead(shrinkage=s, power=power).fit(release, world.public), world)
        for s in np.geomspace(1e-4, 10, 30)
    ]
    assert chosen < 0.9 * min(fixed) < 0


@pytest.mark.parametrize("head", HEADS, ids=lambda h: repr(h))
def test_probabilities_are_calibrated(world, head):
    """As sure as right, within a few points, at little and at much noise."""
    phi, labels = world.test
    for sigma in (2.0, 40.0):
        head.fit(make_release(world.phi, world.labels, 4, sigma), world.public)
        p = head.predict_proba(phi)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert -0.07 < p.max(axis=1).mean() - (head.predict(phi) == labels).mean() < 0.05
        assert log_loss(labels, p) < np.log(4)


@pytest.mark.parametrize("head", HEADS, ids=lambda h: repr(h))
def test_nothing_but_noise_says_next_to_nothing(world, head):
    """All released numbers are noise: no head is sure of anything."""
    release = make_release(world.phi, world.labels, 4, 1e6)
    p = head.fit(release, world.public).predict_proba(world.test[0])
    assert np.isfinite(p).all()
    assert p.max(axis=1).mean() < 0.5


def odd_publics(world):
    flat = world.public.copy()
    flat[:, 5:] = 0
    yield "directions without public rows", flat
    yield "fewer rows than components", world.public[:7]
    yield "one row", world.public[:1]
    yield "all rows alike", np.tile(world.public[:1], (20, 1))
    yield "rows twice", np.repeat(world.public[:30], 2, axis=0)


@pytest.mark.parametrize("head", HEADS, ids=lambda h: repr(h))
def test_degenerate_public_rows_give_finite_answers(world, head):
    for what, public in odd_publics(world):
        p = head.fit(make_release(world.phi, world.labels, 4, 20.0), public).predict_proba(world.test[0])
        assert np.isfinite(p).all(), what
        np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("head", HEADS, ids=lambda h: repr(h))
def test_a_class_without_records_is_rarely_predicted(world, head):
    release = make_release(world.phi, world.labels, 5, 5.0)
    phi = np.hstack([world.phi, np.full((len(world.phi), 1), 0.3)])
    public = np.hstack([world.public, np.full((len(world.public), 1), 0.3)])
    release = make_release(phi, world.labels, 5, 5.0)
    assert (head.fit(release, public).predict(public) == 4).mean() < 0.02


@pytest.mark.parametrize("head", HEADS, ids=lambda h: repr(h))
def test_a_saved_head_answers_alike(world, head, tmp_path):
    head.fit(make_release(world.phi, world.labels, 4, 20.0), world.public)
    head.save(tmp_path / "head.safetensors")
    again = load_head(tmp_path / "head.safetensors")
    assert type(again) is type(head)
    assert again.get_params() == head.get_params()
    assert (again.classes_, again.risk_, again.lambda_) == (head.classes_, head.risk_, head.lambda_)
    np.testing.assert_array_equal(again.predict_proba(world.public), head.predict_proba(world.public))


def test_a_moment_logistic_of_an_earlier_version_answers_as_it_did(tmp_path):
    coef = np.array([[1.0, -1.0], [-0.5, 0.5]])
    facts = {
        "kind": "MomentLogisticHead",
        "parameters": {"penalty": "stein", "power": 2.0, "n_folds": 3},
        "classes": ["no", "yes"],
        "scalars": {"risk_": -0.1, "lambda_": 0.02, "n_effective_": 1.5},
    }
    save_tensors(tmp_path / "head", {"coef_": coef}, facts, form="head 1")
    head = load_head(tmp_path / "head")
    assert (head.classes_, head.lambda_) == (("no", "yes"), 0.02)
    rows = np.array([[1.0, 2.0], [3.0, -1.0]])
    np.testing.assert_array_equal(head.predict_proba(rows), LinearHead.of(coef, ("no", "yes")).predict_proba(rows))


def test_what_is_no_head_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"no head")
    with pytest.raises(InvalidInputError, match=r"written by pate \(head 1\)"):
        load_head(tmp_path / "a")
    from safetensors.numpy import save_file

    save_file({"x": np.ones(2)}, tmp_path / "b")
    with pytest.raises(InvalidInputError, match=r"written by pate \(head 1\)"):
        load_head(tmp_path / "b")


@pytest.mark.parametrize(
    ("change", "public", "words"),
    [
        ({"statistics": np.ones((3, 3))}, np.ones((2, 3)), "release.statistics must be finite, of shape"),
        ({"sigma": -1.0}, np.ones((2, 3)), "release.sigma"),
        ({"n_units": 0}, np.ones((2, 3)), "release.n_units"),
        ({}, np.ones((2, 4)), "phi_public must have shape"),
        ({}, np.full((2, 3), np.nan), "phi_public holds NaN"),
        ({}, np.array([["a", "b", "c"]]), "phi_public must hold numbers"),
    ],
)
def test_what_does_not_belong_together_is_refused(change, public, words):
    good = {"statistics": np.ones((3, 2)), "sigma": 1.0, "n_units": 5, "classes": ("a", "b")}
    with pytest.raises(InvalidInputError, match=words):
        LeastSquaresHead().fit(SimpleNamespace(**{**good, **change}), public)


def test_settings_are_checked(world):
    release = make_release(world.phi, world.labels, 4, 20.0)
    for head in (LeastSquaresHead(shrinkage="none"), LeastSquaresHead(n_folds=0)):
        with pytest.raises(InvalidInputError):
            head.fit(release, world.public)
    with pytest.raises(InvalidInputError, match="must be a BallotRelease"):
        LeastSquaresHead().fit(world.public, world.public)
