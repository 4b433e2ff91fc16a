"""Scaling in a pipeline around an estimator, as scikit-learn routes it: public rows go through the same steps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from pate import Budget, DPSGDClassifier, PATEClassifier
from pate.dpsgd import SampledGaussian
from pate.exceptions import CuratorWarning

RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=900)
#: In units of which the classifiers know nothing.
X = (RNG.normal(size=(900, 5)) + 2 * Y[:, None] * (np.arange(5) < 2)) * [1, 1000, 1, 50, 0.01] + [0, 5000, 0, 900, 0]
PRIVATE, PUBLIC, NEW = slice(600), slice(600, 700), slice(700, 900)
PEOPLE = np.arange(600) // 2
SETTINGS = {"budget": Budget(8.0, 1e-5), "classes": [0, 1], "random_state": 0, "noise_seed": 0}
CLASSIFIERS = [PATEClassifier(**SETTINGS), DPSGDClassifier(mechanism=SampledGaussian(n_steps=60), **SETTINGS)]


def piped(clf, **more):
    """What the pages say: a scaler that public rows taught, which no fit teaches again."""
    scale = FrozenEstimator(StandardScaler().fit(X[PUBLIC]))
    return Pipeline([("scale", scale), ("clf", clone(clf).set_fit_request(X_public=True, groups=True))], **more)


@pytest.mark.long
@pytest.mark.parametrize("clf", CLASSIFIERS, ids=lambda clf: type(clf).__name__)
def test_public_rows_are_scaled_with_the_private_ones(clf):
    with sklearn.config_context(enable_metadata_routing=True):
        rows = {"X_public": X[PUBLIC], "groups": PEOPLE}
        pipe = piped(clf, transform_input=["X_public"]).fit(X[PRIVATE], Y[PRIVATE], **rows)
        assert pipe.score(X[NEW], Y[NEW]) > 0.85
        assert pipe["clf"].statement_.unit == "group"
        scaled = pipe["scale"].transform
        direct = clone(clf).fit(scaled(X[PRIVATE]), Y[PRIVATE], X_public=scaled(X[PUBLIC]), groups=PEOPLE)
        np.testing.assert_array_equal(direct.predict(scaled(X[NEW])), pipe.predict(X[NEW]))
        # Where the public rows are left in units of their own, the model of them is of another table.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)  # which is said
            unscaled = piped(clf).fit(X[PRIVATE], Y[PRIVATE], **rows)
        assert unscaled.score(X[NEW], Y[NEW]) < pipe.score(X[NEW], Y[NEW]) - 0.05


def test_what_is_routed_can_be_asked():
    routed = CLASSIFIERS[0].get_metadata_routing()
    assert routed.fit.requests == {"X_public": None, "groups": None, "schema": None, "tiers": None}
