"""Columns that are principal components, as encoders and decompositions give them: left as they are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine, make_classification
from sklearn.decomposition import PCA

from pate import Budget, PATEClassifier
from pate.data import are_components
from pate.dpsgd.recipes import facts_of
from pate.models.recipes import fitted_representation
from pate.representations import KernelPCA, TableMap

DIGITS, TRUTH = load_digits(return_X_y=True)


@pytest.mark.parametrize("n", [20, 100, 500])
@pytest.mark.parametrize("load", [load_digits, load_breast_cancer, load_diabetes, load_wine])
def test_ordinary_tables_are_none(load, n):
    X = load(return_X_y=True)[0]
    for seed in range(10):
        assert not are_components(X[np.random.default_rng(seed).permutation(len(X))[:n]])


def test_made_up_tables_are_none():
    for seed in range(50):
        X, _ = make_classification(300, 30, n_informative=6, shuffle=bool(seed % 2), random_state=seed)
        assert not are_components(X)


def test_components_are_whoever_fitted_them():
    for X in (DIGITS, load_breast_cancer().data, load_wine().data):
        X = X[np.random.default_rng(0).permutation(len(X))]
        z = PCA().fit(X[:90]).transform(X)
        assert are_components(z[:90])
        assert are_components(z.astype(np.float32)[90:])
        assert not are_components(np.round(z))  # whole numbers: counts that somebody sorted
        assert not are_components(z[:, ::-1])
        assert not are_components(z[:, :11])  # too few to tell
        z[3, 0] = np.nan
        assert not are_components(z)


def test_columns_that_fall_and_go_together_are_none():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(300, 1)) + 0.5 * rng.normal(size=(300, 30))) * 0.9 ** np.arange(30)
    assert not are_components(rows)
    assert are_components(rng.normal(size=(300, 30)) * 0.9 ** np.arange(30))
    assert not are_components(np.zeros((30, 30)))
    assert not are_components(np.zeros(30))


def test_noise_in_the_last_components_is_not_made_as_loud_as_the_first():
    """The default keeps their scale: with one for each column the last ones, noise, count as much as the first."""
    order = np.random.default_rng(0).permutation(len(DIGITS))
    z, y = PCA().fit(DIGITS[order[:300]]).transform(DIGITS[order]), TRUTH[order]
    assert type(fitted_representation("table", z[:300])) is KernelPCA
    facts = {"n_units": 900, "n_classes": 10, "budget": Budget(1.0, 1e-5)}
    assert facts_of((64,), z[:300], **facts).scale == "common"
    clf = PATEClassifier(budget=Budget(1.0, 1e-5), classes=range(10), measure=False)
    assert clf.fit(z[300:1_200], y[300:1_200], X_public=z[:300]).score(z[1_200:], y[1_200:]) > 0.65


def test_other_columns_of_several_scales_still_get_one_each():
    found = fitted_representation("table", DIGITS[:300] * 10.0 ** (np.arange(64) % 3))
    assert type(found.parts[0]) is TableMap
    assert found.parts[0].numeric == ["standard"]
