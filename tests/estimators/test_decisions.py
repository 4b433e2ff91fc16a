"""What a fitted classifier says of classes: calibrated, balanced where that is asked for, and by thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from pate_of import pate_of

from pate import Budget, InvalidInputError, PATEClassifier
from pate.estimators._public_model import threshold_for

BUDGET = Budget(3.0, 1e-5)


def people(n, seed, share=0.12):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 4)) + 1.1 * y[:, None], np.where(y, "ill", "well")


X, Y = people(1_500, 0)
PUBLIC, _ = people(300, 1)
TEST, TRUTH = people(4_000, 2)


def of(**more):
    given = {"voters": "records", "budget": BUDGET, "classes": ["well", "ill"], "random_state": 0}
    return pate_of(**(given | more))


@pytest.fixture(scope="module")
def fitted():
    return of(noise_seed=1).fit(X, Y, X_public=PUBLIC)


def recall(said, value):
    return (said[value == TRUTH] == value).mean()


@pytest.mark.long
def test_sureness_over_the_public_rows_is_what_was_measured(fitted, tmp_path):
    model = fitted.student_
    assert model.temperature != 1
    sure = fitted.predict_proba(PUBLIC).max(axis=1).mean()
    assert sure == pytest.approx(min(fitted.measured_.estimate, 0.99), abs=1e-4)
    assert (fitted.release_.probability == fitted.predict_proba(PUBLIC)).all()
    assert (fitted.predict(TEST) == fitted.classes_[model.untempered(TEST).argmax(axis=1)]).all()
    fitted.save(tmp_path / "model.pate")
    again = PATEClassifier.load(tmp_path / "model.pate")
    assert again.student_.temperature == model.temperature
    assert (again.predict_proba(TEST) == fitted.predict_proba(TEST)).all()


@pytest.mark.long
def test_where_nothing_was_measured_known_noise_makes_it_less_sure():
    clf = of(measure=False).fit(X, Y, X_public=PUBLIC)
    assert clf.measured_ is None
    assert clf.student_.temperature > 1
    assert clf.predict_proba(TEST).max() < clf.student_.untempered(TEST).max()


@pytest.mark.long
@pytest.mark.parametrize("voters", ["records", "dpsgd"])
def test_balanced_decisions_find_more_of_a_rare_class_and_go_with_the_model(voters, tmp_path):
    clf, plain = (
        of(voters=voters, decide=d, noise_seed=1).fit(X, Y, X_public=PUBLIC) for d in ("balanced", "likeliest")
    )
    said, before = clf.predict(TEST), plain.predict(TEST)
    assert recall(said, "ill") > recall(before, "ill") + 0.05
    both = [np.mean([recall(s, value) for value in ("ill", "well")]) for s in (before, said)]
    assert both[1] > both[0]
    assert clf.release_.values() == clf.predict(PUBLIC).tolist()
    assert clf.measured_.low - 0.02 <= (said == TRUTH).mean() <= clf.measured_.high + 0.02
    clf.save(tmp_path / "model.pate")
    assert (PATEClassifier.load(tmp_path / "model.pate").predict(TEST) == said).all()


@pytest.mark.parametrize(
    ("options", "public", "text"),
    [
        ({"decide": "fair"}, PUBLIC, "decide must be one of 'likeliest', 'balanced'"),
        ({"decide": "fair", "voters": "dpsgd"}, PUBLIC, "decide must be one of"),
        ({"decide": "balanced", "voters": "shards"}, PUBLIC, "where teachers on shards vote"),
        ({"decide": "balanced", "voters": "dpsgd"}, None, "where there are no public rows"),
    ],
)
def test_what_cannot_be_decided_is_refused(options, public, text):
    with pytest.raises(InvalidInputError, match=text):
        of(**options).fit(X, Y, X_public=public)


@pytest.mark.long
def test_thresholds_are_near_what_was_wanted(fitted, tmp_path):
    p, ill = fitted.predict_proba(TEST)[:, 1], TRUTH == "ill"
    reached = p >= fitted.threshold("ill", recall=0.8)
    assert reached[ill].mean() == pytest.approx(0.8, abs=0.12)
    reached = p >= fitted.threshold("ill", precision=0.6)
    assert ill[reached].mean() == pytest.approx(0.6, abs=0.2)
    with pytest.raises(InvalidInputError, match="label must be one of"):
        fitted.threshold("dead", recall=0.5)
    fitted.save(tmp_path / "model.pate")
    with pytest.raises(InvalidInputError, match="not read from a file"):
        PATEClassifier.load(tmp_path / "model.pate").threshold("ill", recall=0.5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "exactly one"),
        ({"precision": 0.5, "recall": 0.5}, "exactly one"),
        ({"precision": 0.95}, r"at most 0\.9 for this class, got 0\.95"),
        ({"precision": 1.0}, "precision must be"),
        ({"recall": 0.0}, "recall must be"),
    ],
)
def test_thresholds_that_there_are_not_are_refused(given, text):
    with pytest.raises(InvalidInputError, match=text):
        threshold_for(np.array([0.9, 0.4]), **({"precision": None, "recall": None} | given))


def test_rows_that_are_as_probable_reach_a_threshold_together():
    p = np.array([0.9, 0.6, 0.6, 0.6, 0.1])
    assert threshold_for(p, precision=0.7, recall=None) == 0.9
    assert threshold_for(p, precision=0.67, recall=None) == 0.6
    assert threshold_for(p, precision=None, recall=0.5) == 0.6
