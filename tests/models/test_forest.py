"""Trees that learn what a head says: their own copy of scikit-learn's forest, and sums that put them right."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from pate.exceptions import InvalidInputError
from pate.models.heads import ForestHead, LikelihoodHead, LinearHead, load_head
from pate.models.heads._linear import softmax
from pate.records import SoftSpace


@pytest.fixture(scope="module")
def world():
    """Classes are steps of single columns, and a head of many centres is noisy."""
    rng = np.random.default_rng(2)
    columns = rng.normal(size=(4_000, 2))
    y = (columns[:, 0] > 0.3).astype(int) + (columns[:, 1] > 0.1)
    phi = SoftSpace(200, 3, random_state=0).fit(columns[:1000]).transform(columns)
    sums = phi[1000:].T @ (np.eye(3)[y[1000:]] - 1 / 3) + 10 * rng.normal(size=(200, 3))
    release = SimpleNamespace(statistics=sums, sigma=10.0, n_units=3_000, classes=(0, 1, 2))
    first = LikelihoodHead().fit(release, phi[:1000])
    return SimpleNamespace(columns=columns[:1000], phi=phi[:1000], y=y[:1000], first=first, release=release)


@pytest.fixture(scope="module")
def forest(world):
    return ForestHead(n_trees=20).fit(world.first, world.phi, world.columns)


def asked(world):
    return np.concatenate([world.phi, world.columns], axis=1)


def test_it_is_better_than_the_head_that_taught_it(world, forest):
    before = (world.first.predict(world.phi) == world.y).mean()
    assert before < 0.92
    assert (forest.predict(asked(world)) == world.y).mean() > before + 0.02


def test_trees_are_those_of_scikit_learn(world, forest):
    """Cross-check: the flat arrays give to the last digits what the library's own forest gives."""
    theirs = ExtraTreesRegressor(20, min_samples_leaf=5, max_features=1 / 3, random_state=0)
    theirs.fit(world.columns.astype(np.float32), world.first.predict_proba(world.phi))
    new = np.concatenate([world.phi[::-1], 2 * world.columns[::-1]], axis=1)
    wanted = np.log(np.maximum(theirs.predict(2 * world.columns[::-1]), 1e-4)) + world.phi[::-1] @ forest.coef_
    np.testing.assert_allclose(forest.decision_function(new), wanted, atol=2e-6)  # rows in 22 bits


def test_released_sums_put_the_trees_right(world, forest):
    """What would have been cast by the corrected probabilities is nearer to the released sums than by the trees'."""

    def gap(p):
        return np.linalg.norm(3 * world.phi.T @ (p - 1 / 3) - world.release.statistics)

    logits = forest.decision_function(asked(world))
    assert gap(softmax(logits)) < 0.9 * gap(softmax(logits - world.phi @ forest.coef_))


def test_a_correction_of_nothing_is_the_head_itself(world):
    """Identity: with no other opinion and the same prior it is what fit finds."""
    np.testing.assert_allclose(
        world.first.correction(np.zeros((1000, 3)), tau=world.first.tau), world.first.coef_[:-1], atol=1e-6
    )


def test_each_row_is_answered_by_itself(world, forest):
    rows = asked(world)[:40]
    one_by_one = np.concatenate([forest.predict_proba(rows[i : i + 1]) for i in range(40)])
    np.testing.assert_allclose(forest.predict_proba(rows), one_by_one, atol=1e-12)


def test_a_file_keeps_it(world, forest, tmp_path):
    forest.save(tmp_path / "forest.safetensors")
    again = load_head(tmp_path / "forest.safetensors")
    np.testing.assert_array_equal(again.predict_proba(asked(world)), forest.predict_proba(asked(world)))
    assert again.fingerprint() == forest.fingerprint()
    assert again.fingerprint() != ForestHead(n_trees=21).fit(world.first, world.phi, world.columns).fingerprint()


def test_refusals(world, tmp_path):
    head = ForestHead(n_trees=2)
    with pytest.raises(InvalidInputError, match="LikelihoodHead that predicts from directions"):
        head.fit(LinearHead.of(np.zeros((200, 3)), (0, 1, 2)), world.phi, world.columns)
    with pytest.raises(InvalidInputError, match="columns must be of the 1000 public rows"):
        head.fit(world.first, world.phi, world.columns[:5])
    with pytest.raises(InvalidInputError, match="n_trees"):
        ForestHead(n_trees=0).fit(world.first, world.phi, world.columns)
    with pytest.raises(InvalidInputError, match="logits must be of 3 classes"):
        world.first.correction(np.zeros((1000, 2)), tau=1.0)
    world.first.save(tmp_path / "first.safetensors")
    with pytest.raises(InvalidInputError, match="stores no rounds"):
        head.fit(load_head(tmp_path / "first.safetensors"), world.phi, world.columns)
