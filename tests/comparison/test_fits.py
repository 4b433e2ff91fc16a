"""Both baselines as classifiers: budget, statement, validation of input, and no effect of one record on another."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from pate import Budget
from pate.comparison.baselines import PrivateKNN, SampledNeighbours, SparseVectorPATE, StabilityTest
from pate.comparison.baselines._private_knn import neighbour_settings
from pate.comparison.baselines._sparse_vector import stability_settings
from pate.exceptions import InvalidInputError, PrivacyLeakWarning, RepeatedFitWarning
from pate.release.statement.model import PrivacyStatement

BUDGET = Budget(4.0, 1e-5)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200] / 16, y[:1200], X[1200:1450] / 16, X[1450:] / 16, y[1450:]


def made(cls, **more):
    return cls(**{"budget": BUDGET, "classes": range(10), "image_shape": (8, 8), "random_state": 0, **more})


@pytest.fixture(scope="module", params=["knn", "sampled", "screened", "sparse vector", "trees"])
def fitted(request, digits):
    cls, more = {
        "knn": (PrivateKNN, {}),
        "sampled": (PrivateKNN, {"sample_rate": 0.2, "n_queries": 30}),
        "screened": (PrivateKNN, {"screening": (40.0, 2.0)}),
        "sparse vector": (SparseVectorPATE, {"budget": Budget(30.0, 1e-5)}),
        "trees": (
            SparseVectorPATE,
            {"budget": Budget(30.0, 1e-5), "estimator": LogisticRegression(), "n_teachers": 20},
        ),
    }[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(cls, **more).fit(*digits[:2], X_public=digits[2])


@pytest.mark.few(1)
def test_it_stays_within_the_budget_and_learns(fitted, digits):
    statement = fitted.statement_
    assert statement.guarantee.epsilon <= fitted.budget.epsilon
    assert statement.guarantee.delta <= fitted.budget.delta
    assert (statement.guarantee.kind, statement.guarantee.adjacency) == ("public", "replace-one")
    assert fitted.score(digits[3], digits[4]) > 0.3
    proba = fitted.predict_proba(digits[3])
    assert proba.shape == (len(digits[3]), 10)
    assert (fitted.predict(digits[3]) == fitted.classes_[proba.argmax(axis=1)]).mean() > 0.95
    assert fitted.release_.n_queries == len(fitted.queries_) <= 250


@pytest.mark.few(3)
def test_the_statement_says_what_was_done_and_how_to_check_it(fitted):
    statement = fitted.statement_
    assert PrivacyStatement.from_dict(statement.to_dict()) == statement
    words = re.search(r"((?:SampledNeighbours|StabilityTest)\(.*\))\.guarantee\((.*)\)$", statement.verify)
    mechanism = eval(words[1], {"SampledNeighbours": SampledNeighbours, "StabilityTest": StabilityTest})
    assert mechanism == fitted.mechanism_
    again = mechanism.guarantee(*(float(v) if "." in v or "e" in v else int(v) for v in words[2].split(",")))
    assert again == statement.guarantee
    open_ = {a.name for a in statement.assumptions if a.by == "nobody"}
    assert "one person" in open_
    assert "noise" not in open_
    assert "other releases from the same private data" in statement.not_covered


def test_the_student_can_learn_again_for_free(fitted, digits):
    before = fitted.release_
    fitted.set_params(student="decision-tree").refit_student(digits[2])
    assert fitted.release_ is before
    assert fitted.predict(digits[3]).shape == digits[4].shape
    with pytest.raises(InvalidInputError, match="rows that fit was given"):
        fitted.refit_student(digits[3])


@pytest.mark.few(1)
@pytest.mark.parametrize("cls", [PrivateKNN, SparseVectorPATE])
def test_noise_and_samples_depend_on_no_training_seed(cls, digits):
    more = {"sample_rate": 0.3, "n_queries": 40} if cls is PrivateKNN else {}
    X, y, public = digits[0][:400], digits[1][:400], digits[2]

    def labels(**said):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return made(cls, budget=Budget(2.0, 1e-5), **more, **said).fit(X, y, X_public=public)

    seeded = labels(noise_seed=7)
    assert seeded.statement_.seeded
    assert seeded.statement_.guarantee.kind == "seeded"
    assert "NOT PRIVATE" in seeded.statement_.text()
    if cls is PrivateKNN:
        assert seeded.release_.labels.tolist() == labels(noise_seed=7).release_.labels.tolist()
        assert labels().release_.labels.tolist() != labels().release_.labels.tolist()
    assert not labels().statement_.seeded


@pytest.mark.parametrize("cls", [PrivateKNN, SparseVectorPATE])
def test_persons_are_the_unit_where_groups_are_named(cls, digits):
    X, y, public = digits[:3]
    owners = np.arange(len(y)) // 4
    more = {"n_neighbors": 30} if cls is PrivateKNN else {"n_teachers": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = made(cls, budget=Budget(8.0, 1e-5), **more).fit(X, y, X_public=public, groups=owners)
    assert (done.statement_.unit, done.statement_.n_units) == ("group", 300)


def test_an_odd_record_refuses_nothing(digits):
    X, y, public = digits[0].copy(), digits[1].astype(object), digits[2]
    X[3, 5], y[9], y[11] = np.nan, None, "?"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cls in (PrivateKNN, SparseVectorPATE):
            assert made(cls).fit(X, y, X_public=public).statement_.n_units == 1200


@pytest.mark.long
def test_a_seeded_neighbour_differs_in_the_votes_of_one_record_alone(digits):
    """The whole road, one record replaced: with noise next to none, at most so many labels change as it is near to."""
    X, y, public = digits[0], digits[1], digits[2]
    other_X, other_y = X.copy(), y.copy()
    other_X[17], other_y[17] = X[400], (y[17] + 1) % 10
    loud = {"budget": Budget(1e5, 1e-5), "noise_seed": 3, "n_neighbors": 1, "n_queries": 200, "sample_rate": 0.5}
    a, b = (
        made(PrivateKNN, **loud).fit(*data, X_public=public).release_.labels for data in ((X, y), (other_X, other_y))
    )
    assert 0 <= (a != b).sum() < 30
    assert (a == b).any()


@pytest.mark.parametrize(
    ("cls", "said", "name"),
    [
        (PrivateKNN, {"budget": 1.0}, "budget"),
        (PrivateKNN, {"sample_rate": 0.0}, "sample_rate"),
        (PrivateKNN, {"n_neighbors": 0}, "n_neighbors"),
        (PrivateKNN, {"n_queries": 9999}, "n_queries"),
        (PrivateKNN, {"screening": 4}, "screening"),
        (PrivateKNN, {"student": "nobody"}, "student"),
        (SparseVectorPATE, {"n_teachers": 1}, "n_teachers"),
        (SparseVectorPATE, {"max_unstable": 0}, "max_unstable"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_spent(cls, said, name, digits):
    clf = made(cls, **said)
    with pytest.raises(InvalidInputError, match=name):
        clf.fit(*digits[:2], X_public=digits[2])
    assert not hasattr(clf, "release_")
    assert clf._kin().total.n == 0


def test_what_only_fit_can_see_is_refused_too(digits):
    X, y, public = digits[:3]
    with pytest.raises(InvalidInputError, match="X_public"):
        made(PrivateKNN).fit(X, y)
    with pytest.raises(InvalidInputError, match="at least 20"):
        made(PrivateKNN).fit(X, y, X_public=public[:9])
    with pytest.raises(InvalidInputError, match=r"overlap|public rows"):
        made(PrivateKNN).fit(X, y, X_public=X[:300])


def test_every_fit_is_counted_and_inferred_classes_warn(digits):
    clf = made(PrivateKNN, classes=None)
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        clf.fit(*digits[:2], X_public=digits[2])
    assert any("classes" in text for text in clf.statement_.not_covered)
    with pytest.warns(RepeatedFitWarning):
        clone(clf).set_params(classes=range(10)).fit(*digits[:2], X_public=digits[2])


def test_rules_look_at_public_facts_and_stay_in_range():
    for epsilon in (0.01, 1.0, 100.0):
        for n in (50, 1_000, 10**6):
            budget = Budget(epsilon, 1e-5)
            share, n_queries = neighbour_settings(budget, n_units=n, n_classes=10, n_public=400)
            assert 0.01 <= share <= 0.1
            assert 10 <= n_queries <= 400
            allowed, asked = stability_settings(budget, n_units=n, n_classes=10, n_public=400, n_teachers=50)
            assert allowed >= 1
            assert 50 <= asked <= 400


@pytest.mark.parametrize(
    ("cls", "mechanism"), [(PrivateKNN, SampledNeighbours), (SparseVectorPATE, StabilityTest)], ids=["knn", "vector"]
)
def test_invalid_stated_is_refused_before_anything_is_drawn(cls, mechanism, digits, monkeypatch):
    def drawn(*_):
        raise AssertionError("drawn")

    monkeypatch.setattr(mechanism, "draw", drawn)
    with pytest.raises(InvalidInputError, match="nonsense"):
        made(cls, stated={"nonsense": "x"}).fit(*digits[:2], X_public=digits[2])
    with pytest.raises(AssertionError, match="drawn"):
        made(cls, stated={"purpose": "triage"}).fit(*digits[:2], X_public=digits[2])


@pytest.mark.parametrize("n", [0, -3])
def test_a_test_of_no_queries_is_refused(n):
    test = StabilityTest.for_budget(BUDGET, n_queries=20, max_unstable=1)
    with pytest.raises(InvalidInputError, match="n_queries"):
        test.guarantee(n, 1e-5)
