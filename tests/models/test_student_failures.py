"""A student that cannot learn is found out before anything is spent; if it fails all the same, nothing is lost."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
import pytest
from pate_of import pate_of
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import pate.teachers._ensemble
from pate import Budget, ConfidentGNMax, GNMax, InvalidInputError, Ledger, PateError, release_labels
from pate.exceptions import CuratorWarning, StudentError, StudentWarning
from pate.jobs._choice import Uncertain
from pate.models.students import VoteSpreading, fit_student, try_student

DIGITS, TRUTH = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
X, Y, PUBLIC, TEST, TEST_Y = DIGITS[:600], TRUTH[:600], DIGITS[1000:1200], DIGITS[1200:], TRUTH[1200:]
NB = GaussianNB(var_smoothing=0.1)


class Duck:
    """fit and predict, and nothing that scikit-learn could clone."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


class Needs(ClassifierMixin, BaseEstimator):
    """A student with demands that only the labels can meet, or not."""

    def __init__(self, n_of_first=0):
        self.n_of_first = n_of_first

    def fit(self, X, y):
        y = np.asarray(y)
        if (y == 0).sum() < self.n_of_first:
            raise ValueError("too few zeros")
        self.classes_ = np.unique(y)
        self.model_ = GaussianNB(var_smoothing=0.1).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


class OnlyRanks(Needs):
    """As XGBoost: classes are 0 .. k-1, or nothing."""

    def fit(self, X, y):
        if not np.array_equal(np.unique(y), np.arange(len(np.unique(y)))):
            raise ValueError(f"Invalid classes, got {np.unique(y)}")
        return super().fit(X, y)


def classifier(ledger, **options):
    defaults = {
        "n_teachers": 10,
        "budget": Budget(8.0, 1e-5),
        "classes": range(10),
        "n_queries": 80,
        "select": "random",
        "force": True,
    }
    return pate_of(NB, ledger=ledger, **(defaults | options))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize(
    ("student", "options", "text"),
    [
        (Duck(), {}, "student must be a scikit-learn classifier.*lacks fit, predict or get_params"),
        (LogisticRegression, {}, "student must be a scikit-learn classifier"),
        (object(), {}, "student must be a scikit-learn classifier"),
        ("oracle", {}, "student must be one of"),
        (KNeighborsClassifier(5), {"n_queries": 4}, "learn from 4 labels.*n_neighbors"),
        (make_pipeline(StandardScaler(), KNeighborsClassifier(9)), {"n_queries": 8}, "learn from 8 labels"),
        (
            GridSearchCV(NB, {"var_smoothing": [0.1, 1.0]}, cv=5),
            {"n_queries": 4},
            "learn from 4 labels",
        ),
        (CalibratedClassifierCV(NB, cv=5), {"n_queries": 20}, "learn from 20 labels"),
        (LogisticRegression(C=-1.0), {}, "learn from 80 labels.*InvalidParameterError"),
        (VoteSpreading(alpha=2.0), {}, "alpha"),
        (Needs(n_of_first=81), {}, "too few zeros"),
        (KNeighborsClassifier(9), {"mechanism": ConfidentGNMax(9.0, 60.0, 40.0), "max_answers": 8}, "from 8 labels"),
    ],
    ids=lambda value: None if isinstance(value, dict | str) else type(value).__name__,
)
def test_a_student_that_cannot_learn_is_refused_before_training_and_spending(
    student, options, text, ledger, monkeypatch
):
    monkeypatch.setattr(pate.teachers._ensemble.TeacherEnsemble, "fit", lambda *a, **k: pytest.fail("trained"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidInputError, match=text):
            classifier(ledger, student=student, random_state=0, **options).fit(X, Y, X_public=PUBLIC)
    assert ledger.releases() == []


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["vote-spreading", "label-spreading", "decision-tree", "logistic-regression"])
def test_students_have_the_names_that_the_command_line_knows(name, ledger):
    clf = classifier(ledger, student=name, random_state=0)
    assert hasattr(clf, "predict_proba")
    clf.fit(X, Y, X_public=PUBLIC)
    assert clf.predict(TEST).shape == TEST_Y.shape
    assert clf.get_params()["student"] == name


@pytest.mark.few(1)
def test_a_stack_that_predicts_only_once_it_is_fitted_is_a_student(ledger):
    stack = StackingClassifier([("bayes", NB)], cv=2)
    assert not hasattr(stack, "predict")
    clf = classifier(ledger, student=stack, random_state=0, measure=False).fit(X, Y, X_public=PUBLIC)
    assert clf.predict(TEST).shape == TEST_Y.shape


def test_a_name_that_is_none_is_no_attribute_error():
    assert not hasattr(classifier(None, student="oracle"), "predict_proba")


@pytest.mark.few(1)
@pytest.mark.parametrize("random_state", [None, 3])
def test_what_was_released_is_kept_when_the_student_fails(ledger, random_state):
    """Made-up labels have eight zeros; the released ones have fewer than that student wants, whatever they are."""
    clf = classifier(ledger, student=GaussianNB(), random_state=random_state).fit(X, Y, X_public=PUBLIC)
    picky = Needs(n_of_first=int((clf.release_.labels == 0).sum()) + 1)
    fails = classifier(ledger, student=Uncooperative(), random_state=random_state)
    with pytest.raises(StudentError, match=r"80 released labels are paid for.*in the ledger.*refit_student") as caught:
        fails.fit(X, Y, X_public=PUBLIC)
    assert isinstance(caught.value, PateError)
    assert "Uncooperative" in str(caught.value)
    assert not hasattr(fails, "student_")
    # on the object
    assert np.array_equal(fails.release_.labels, clf.release_.labels)  # the ledger's stored answers: nothing spent
    assert fails.statement_.guarantee.epsilon == pytest.approx(clf.statement_.guarantee.epsilon)
    assert len(ledger.releases()) == 1
    # by hand
    hand = fit_student(NB, PUBLIC[fails.queries_], fails.release_.labels)
    assert np.mean(hand.predict(TEST) == TEST_Y) > 0.3
    # by the method that the error names
    with pytest.raises(StudentError, match="too few zeros"):
        fails.set_params(student=picky).refit_student(PUBLIC)
    fails.set_params(student=NB).refit_student(PUBLIC)
    assert fails.score(TEST, TEST_Y) > 0.3
    # by fitting again: free, with or without a random_state
    before = ledger.spent
    again = classifier(ledger, student=NB, random_state=random_state).fit(X, Y, X_public=PUBLIC)
    assert ledger.spent == before
    assert len(ledger.releases()) == 1
    assert np.array_equal(again.queries_, fails.queries_)
    assert np.array_equal(again.release_.noisy_counts, fails.release_.noisy_counts)


class Uncooperative(Needs):
    """Learns from made-up labels (which go round the classes), never from others."""

    def fit(self, X, y):
        if not np.array_equal(y, np.arange(len(y)) % 10):
            raise MemoryError("no room")
        return super().fit(X, y)


class MoodyButSure(Uncooperative):
    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def test_an_earlier_student_does_not_pass_for_that_of_the_new_labels(ledger):
    clf = classifier(ledger, student=NB, random_state=0).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(StudentError):
        clf.set_params(student=Uncooperative()).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(ValueError, match="not fitted"):
        clf.predict(TEST)


def test_without_a_ledger_each_fit_chooses_its_own_rows():
    first, second = (classifier(None).fit(X, Y, X_public=PUBLIC).queries_ for _ in range(2))
    assert not np.array_equal(first, second)


def test_other_rows_are_not_taken_for_those_that_were_asked(ledger):
    clf = classifier(ledger, random_state=0).fit(X, Y, X_public=PUBLIC)
    for rows in (PUBLIC[::-1], PUBLIC[:10], DIGITS[:200]):
        with pytest.raises(InvalidInputError, match="X_public must be the rows that fit was given"):
            clf.refit_student(rows)
    with pytest.raises(ValueError, match="not fitted"):
        classifier(ledger).refit_student(PUBLIC)


def test_students_that_want_ranks_get_ranks():
    labels = np.array([3, 7, 3, 9, 7, 9, -1, 3])
    rows = np.eye(8) + labels[:, None]
    student = fit_student(OnlyRanks(), rows, labels)
    assert student.classes_.tolist() == [3, 7, 9]
    assert set(student.predict(rows)) == {3, 7, 9}
    names = [9, 77, *range(9)]  # no label is 77: a gap
    options = {"mechanism": GNMax(0.5), "budget": Budget(1e4, 1e-5), "student": OnlyRanks()}
    with pytest.warns(CuratorWarning, match="No record is of the class 77"):
        clf = pate_of(NB, n_teachers=10, classes=names, **options).fit(X, Y, X_public=PUBLIC)
    assert 1 not in clf.release_.labels
    assert set(clf.student_.classes_) == set(clf.release_.labels)
    assert clf.score(TEST, TEST_Y) > 0.5


def test_a_student_that_fails_says_with_what():
    with pytest.raises(StudentError, match=r"Needs\(n_of_first=9\) cannot learn from 3 released labels of 2 classes"):
        fit_student(Needs(9), np.eye(3), np.array([0, 1, 0]))


def test_trying_needs_few_rows_unless_the_student_needs_more():
    class Counts(Needs):
        sizes: ClassVar[list] = []

        def fit(self, X, y):
            self.sizes.append(len(y))
            return super().fit(X, y)

    rows = np.random.default_rng(0).normal(size=(2000, 2))
    options = {"n_classes": 2, "queries": np.arange(1000), "n_answers": 1000}
    try_student(Counts(), rows, **options)
    assert Counts.sizes == [200]
    try_student(Counts(n_of_first=300), rows, **options)
    assert Counts.sizes == [200, 200, 1000]


@pytest.mark.long
def test_asking_in_rounds_tries_its_student_too(tmp_path):
    import pandas as pd

    from pate.jobs import LabelJob

    frame = pd.DataFrame(X[:300], columns=[f"p{i}" for i in range(64)]).assign(digit=Y[:300])
    frame.to_csv(tmp_path / "private.csv", index=False)
    pd.DataFrame(X[300:400], columns=frame.columns[:64]).to_csv(tmp_path / "public.csv", index=False)
    options = {"target": "digit", "classes": range(10), "budget": Budget(8.0, 1e-5), "n_teachers": 5, "n_queries": 20}
    ledger = tmp_path / "ledger.sqlite"
    with pytest.raises(InvalidInputError, match="student must be able to learn from 10 labels"):
        LabelJob(
            tmp_path / "private.csv", tmp_path / "public.csv", select=Uncertain(KNeighborsClassifier(15)),
            ledger=ledger, **options,
        )  # fmt: skip
    assert not ledger.exists() or Ledger(ledger).releases() == []
    with pytest.raises(InvalidInputError, match="student must be a scikit-learn classifier"):
        Uncertain(Duck())
    # one that fails at the real labels costs its advice, not the rounds that are paid for
    picky = Uncertain(MoodyButSure(), n_rounds=3)
    job = LabelJob(tmp_path / "private.csv", tmp_path / "public.csv", select=picky, ledger=ledger, **options)
    with pytest.warns(StudentWarning, match="no room.*This round's rows are spread over all open ones"):
        release = job.run()
    assert release.n_queries == 20
    assert len(Ledger(ledger).releases()) == 1


def test_a_release_is_a_release_without_a_student(ledger):
    """What refit_student does is post-processing: the same labels, however often."""
    clf = classifier(ledger, mechanism=GNMax(4.0), budget=Budget(1e4, 1e-5), random_state=0)
    _, votes = clf.fit_keeping(X, Y, X_public=PUBLIC)
    stored = release_labels(votes, GNMax(4.0), budget=Budget(1e4, 1e-5), ledger=ledger)
    for student in (NB, DecisionTreeClassifier(random_state=0), "naive-bayes"):
        clf.set_params(student=student).refit_student(PUBLIC)
        assert np.array_equal(clf.release_.labels, stored.labels)
    assert len(ledger.releases()) == 1
