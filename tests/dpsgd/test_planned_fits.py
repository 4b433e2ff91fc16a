"""Fits with nothing said but the budget: the planner's recipe on public rows, by the classifier."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from dpsgd_steps import by_value
from sklearn.base import clone
from sklearn.datasets import load_digits

from pate import Budget, DPSGDClassifier
from pate.dpsgd.recipes import DPSGDRecipe, recipe
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.representations import KernelPCA

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(Y))  # pages of one hand stand together
X, Y = X[ORDER], Y[ORDER]
PUBLIC, PRIVATE, TEST = slice(0, 400), slice(400, 1400), slice(1400, None)


def make(**more):
    return DPSGDClassifier(**by_value(**{"budget": Budget(3.0, 1e-5), "classes": range(10), **more}))


@pytest.fixture(scope="module")
def planned():
    return make().fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])


@pytest.mark.long
def test_nothing_but_defaults(planned):
    assert planned.recipe_.name == "tabular-kernel"
    assert planned.score(X[TEST], Y[TEST]) > 0.88
    assert planned.n_features_in_ == 64
    assert planned.guarantee_.epsilon <= 3.0
    prepared = {a.name: a for a in planned.statement_.assumptions}["preprocessing"]
    assert prepared.by == "pate"
    assert "tabular-kernel" in prepared.how
    bare = make().fit(X[PRIVATE], Y[PRIVATE])
    assert bare.recipe_.name == "unit-rows"
    assert bare.score(X[TEST], Y[TEST]) > 0.6


@pytest.mark.long
def test_a_private_row_changes_no_other_rows_features(planned):
    """What goes into training is a function of each row and of public rows alone."""
    other = X[PRIVATE].copy()
    other[17] *= -1e6
    a, b = planned._method.transform(X[PRIVATE]), planned._method.transform(other)
    assert (a == b).all(axis=1).tolist() == [i != 17 for i in range(1000)]
    again = make().fit(other, 9 - Y[PRIVATE], X_public=X[PUBLIC])
    assert again.recipe_ == planned.recipe_
    assert again.noise_multiplier_ == planned.noise_multiplier_
    assert (again._method.transform(X[TEST]) == planned._method.transform(X[TEST])).all()


@pytest.mark.long
def test_what_a_user_says_wins_over_the_recipe():
    clf = make(expected_batch_size=100, epochs=3, learning_rate=0.5).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    assert (clf.recipe_.expected_batch_size, clf.recipe_.epochs, clf.recipe_.learning_rate) == (100, 3, 0.5)
    assert (clf.n_steps_, clf.sample_rate_) == (30, 0.1)
    assert clone(clf).get_params()["epochs"] == 3
    assert clone(make()).get_params()["epochs"] is None  # a fit writes nothing into the settings


@pytest.mark.long
@pytest.mark.parametrize("which", ["tabular-logistic", recipe("unit-rows"), DPSGDRecipe("m", "tanh-mlp", "mine")])
def test_recipes_by_name_and_of_ones_own(which):
    clf = make(recipe=which, epochs=2, expected_batch_size=100)
    if isinstance(which, DPSGDRecipe) and which.name == "m":
        clf.set_params(learning_rate=0.3)
    clf.fit(X[PRIVATE] / 16, Y[PRIVATE], X_public=X[PUBLIC] / 16)
    assert clf.recipe_.name == (which if isinstance(which, str) else which.name)
    assert clf.predict(X[TEST] / 16).shape == (397,)


def test_a_representation_of_the_callers():
    representation = KernelPCA(30).fit(X[PUBLIC])
    clf = make(representation=representation).fit(X[PRIVATE], Y[PRIVATE])
    assert clf.recipe_.name == "pretrained"
    assert clf.score(X[TEST], Y[TEST]) > 0.7


@pytest.mark.long
def test_images_and_persons_and_canaries():
    rng = np.random.default_rng(0)
    images = rng.random((300, 1, 16, 16)).astype(np.float32)
    labels = (images[:, 0, :8].mean(axis=(1, 2)) > images[:, 0, 8:].mean(axis=(1, 2))).astype(int)
    clf = make(classes=[0, 1], budget=Budget(8.0, 1e-3), epochs=5)
    clf.fit(images[:200], labels[:200], groups=np.repeat(np.arange(100), 2), X_public=images[200:])
    assert clf.recipe_.name == "linear"
    assert clf.statement_.unit == "group"
    assert clf.predict(images[:5]).shape == (5,)
    with pytest.raises(InvalidInputError):
        clf.predict(images[:5, :, :8])


@pytest.mark.long
def test_mixed_tables():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 900), "job": rng.choice(["a", "b", "c"], 900)})
    labels = np.where((frame.job == "a") ^ (frame.age > 45), "yes", "no")
    clf = make(classes=["no", "yes"], budget=Budget(8.0, 1e-3))
    clf.fit(frame[:700], labels[:700], X_public=frame[700:])
    assert clf.recipe_.name == "tabular-logistic"
    assert clf.score(frame, labels) > 0.55
    assert list(clf.feature_names_in_) == ["age", "job"]
    secret = frame[:700].astype(object)
    secret.iloc[3, 0] = "SECRET"
    said = ""
    try:
        with pytest.warns(CuratorWarning, match="1 of 700 records cannot be used"):
            make(classes=["no", "yes"], budget=Budget(8.0, 1e-3)).fit(secret, labels[:700], X_public=frame[700:])
    except InvalidInputError as error:
        said = str(error)
    assert "SECRET" not in said
    with pytest.raises(InvalidInputError):
        clf.predict(frame[["job"]])


@pytest.mark.long
def test_a_planned_run_is_taken_up(tmp_path):
    def kill(now):
        if now.step == 7:
            raise KeyboardInterrupt

    more = {"checkpoint_dir": tmp_path / "a", "noise_seed": 1, "random_state": 0}
    with pytest.raises(KeyboardInterrupt):
        make(**more, callbacks=[kill]).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    with pytest.raises(InvalidInputError, match="another run"):
        make(**more).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC] + 1.0)
    again = make(**more).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    whole = make(noise_seed=1, random_state=0).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    for a, b in zip(again.module_.parameters(), whole.module_.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.long
def test_under_add_or_remove_the_plan_follows_the_nominal_number():
    a = make(adjacency="add-or-remove", nominal_n=900).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    b = make(adjacency="add-or-remove", nominal_n=900).fit(X[PRIVATE][:800], Y[PRIVATE][:800], X_public=X[PUBLIC])
    assert a.recipe_ == b.recipe_
    assert a.noise_multiplier_ == b.noise_multiplier_
    with pytest.raises(InvalidInputError, match="expected_batch_size must be given with sample_rate"):
        make(adjacency="add-or-remove", sample_rate=0.1).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recipe": "best"}, "recipe must be"),
        ({"recipe": 3}, "recipe must be a name"),
        ({"recipe": "linear"}, "is for images"),
        ({"recipe": "linear", "module": "linear"}, "module must be None where recipe"),
        ({"module": "linear", "representation": KernelPCA(5)}, "representation must be None where module"),
        ({"recipe": "pretrained"}, "needs representation"),
    ],
)
def test_what_does_not_go_together_is_refused(change, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidInputError, match=words):
            make(**change).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
