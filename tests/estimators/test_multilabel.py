"""PATEMultilabelClassifier: what it predicts, what it costs, what it says, and what it refuses before it spends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.utils import get_tags

from pate import (
    Budget,
    GaussianSum,
    InvalidInputError,
    Ledger,
    PATEClassifier,
    PATEMultilabelClassifier,
    PATERegressor,
    PrivacyStatement,
)
from pate.exceptions import CuratorWarning, LedgerError, NotWorthwhileError, ResultWarning
from pate.release import BallotSession

pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

RNG = np.random.default_rng(0)
N = 600
X = RNG.normal(size=(1000, 3))
Y = (X + 0.3 * RNG.normal(size=X.shape) > [0, 0.5, 1]).astype(int)
NAMES = ["low", "middle", "high"]
PUBLIC, TEST, TEST_Y = X[N : N + 100], X[N + 100 :], Y[N + 100 :]
X, Y = X[:N], Y[:N]
BUDGET = Budget(8.0, 1e-5)
WHOLE = GaussianSum.for_budget(BUDGET).noise_multiplier ** -2


def classifier(**options):
    return PATEMultilabelClassifier(**({"budget": BUDGET, "labels": NAMES} | options))


def fitted(**options):
    return classifier(**options).fit(X, Y, X_public=PUBLIC)


@pytest.fixture(scope="module")
def plain():
    return fitted()


def test_it_learns_by_scikit_learns_conventions(plain):
    said, probability = plain.predict(TEST), plain.predict_proba(TEST)
    assert (said.shape, said.dtype.kind, set(np.unique(said))) == (TEST_Y.shape, "i", {0, 1})
    assert ((probability > 0) & (probability < 1)).all()
    assert f1_score(TEST_Y, said, average="macro") > 0.75
    assert roc_auc_score(TEST_Y, plain.decision_function(TEST), average="macro") > 0.9
    assert plain.score(TEST, TEST_Y) == (said == TEST_Y).all(axis=1).mean()
    assert plain.classes_.tolist() == NAMES
    assert np.array_equal(said, plain.decision_function(TEST) > plain.thresholds_)
    assert plain.prevalences_ == pytest.approx(Y.mean(axis=0), abs=0.1)
    assert get_tags(plain).classifier_tags.multi_label
    other = clone(classifier(noise_seed=3))
    assert not any(name.endswith("_") for name in vars(other))


def test_it_says_how_good_it_is_and_what_it_cost(plain):
    quality = plain.measured_quality_
    assert [one.name for one in quality.labels] == NAMES
    for j, one in enumerate(quality.labels):
        truth = (plain.predict(TEST)[:, j] == TEST_Y[:, j]).mean()
        assert abs(one.accuracy - truth) < 5 * one.accuracy_error
    statement = plain.statement_
    assert (statement.unit, statement.n_units, statement.seeded) == ("record", N, False)
    assert 7.99 < statement.guarantee.epsilon <= 8
    by = {a.name: a.by for a in statement.assumptions}
    assert (by["own row only"], by["classes"]) == ("pate", "curator")
    assert "how many have each label" in statement.released
    assert "McSherry 2009" in statement.accounting
    assert PrivacyStatement.from_dict(statement.to_dict()) == statement
    assert "Measured quality" in statement.text()
    assert "high" in statement.html()


def test_a_saved_one_predicts_the_very_same(plain, tmp_path):
    path = tmp_path / "labels.pate"
    plain.save(path)
    again = PATEMultilabelClassifier.load(path)
    for name in ("predict", "predict_proba", "decision_function"):
        assert np.array_equal(getattr(again, name)(TEST), getattr(plain, name)(TEST))
    assert (again.measured_quality_, again.classes_.tolist()) == (plain.measured_quality_, NAMES)
    for other in (PATEClassifier, PATERegressor):
        with pytest.raises(InvalidInputError, match="Read it by"):
            other.load(path)


@pytest.mark.long
def test_persons_are_protected_whole():
    groups = np.arange(N) // 2
    clf = classifier(budget=Budget(20.0, 1e-5)).fit(X, Y, X_public=PUBLIC, groups=groups)
    assert (clf.statement_.unit, clf.statement_.n_units, clf.measured_quality_.unit) == ("group", N // 2, "group")
    assert f1_score(TEST_Y, clf.predict(TEST), average="macro") > 0.6


@pytest.mark.long
def test_a_frame_names_the_labels():
    frame = pd.DataFrame(Y, columns=NAMES).replace({0: "no", 1: "yes"})
    clf = classifier(labels=None).fit(X, frame, X_public=PUBLIC)
    assert clf.classes_.tolist() == NAMES
    assert clf.release_.to_frame().columns.tolist() == [*NAMES, *(f"p_{name}" for name in NAMES)]


def test_the_same_fit_again_is_free_and_equal_and_other_labels_are_refused(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(19.0, 1e-5))
    first, again = (fitted(ledger=ledger) for _ in range(2))
    assert [row.charge.mu_squared for row in ledger.releases()] == [pytest.approx(WHOLE)]
    assert np.array_equal(first.predict_proba(TEST), again.predict_proba(TEST))
    assert first.measured_quality_ == again.measured_quality_
    monkeypatch.setattr(BallotSession, "ask_vectors", lambda *_: pytest.fail("a round was asked"))
    with pytest.raises(LedgerError):
        classifier(ledger=ledger).fit(X, np.where(np.arange(N)[:, None] == 0, 1 - Y, Y), X_public=PUBLIC)
    assert len(ledger.releases()) == 1


def test_labels_that_are_noise_are_doubted():
    with pytest.warns(ResultWarning, match="no better than by how common they are"):
        clf = classifier(budget=Budget(1.0, 1e-5), force=True).fit(X[:200], Y[:200][::-1], X_public=PUBLIC)
    assert [one.kind for one in clf.statement_.doubts] == ["no better than the mean"]


@pytest.mark.parametrize(
    ("options", "y", "text"),
    [
        ({"budget": None}, Y, "budget must be"),
        ({}, Y[:, 0], "For one label take PATEClassifier"),
        ({"labels": ["a", "b"]}, Y, "name each label once, got 2 for 3 columns"),
        ({}, Y[:50], "as many rows"),
        ({"random_state": -1}, Y, "random_state"),
        ({"stated": {"x": "y"}}, Y, "unknown entry"),
    ],
)
def test_bad_input_costs_nothing(options, y, text, tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    with pytest.raises(InvalidInputError, match=text):
        classifier(ledger=ledger, **options).fit(X, y, X_public=PUBLIC)
    assert not ledger.releases()


@pytest.mark.filterwarnings("ignore::pate.exceptions.ResultWarning")
def test_labels_that_say_neither_are_told_to_the_curator_alone():
    """A refusal would tell of one record, where no other can be read."""
    with pytest.warns(CuratorWarning, match=r"Nothing would be learnt.* of label 1, 2, 3\."):
        clf = classifier(force=True).fit(X, Y * 7.5 + 2, X_public=PUBLIC)
    assert clf.statement_.n_units == N


def test_too_few_records_and_no_public_rows_are_refused():
    with pytest.raises(NotWorthwhileError, match="too few to predict labels"):
        classifier(budget=Budget(0.1, 1e-5)).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(InvalidInputError, match="X_public must be public rows"):
        classifier().fit(X, Y)


def test_one_class_at_a_time_says_where_several_labels_go():
    with pytest.raises(InvalidInputError, match=r"fit pate\.PATEMultilabelClassifier"):
        PATEClassifier(budget=BUDGET, classes=[0, 1], n_teachers=5).fit(X, Y, X_public=PUBLIC)
