"""Students: they see what was released and public rows, and nothing else."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from pate import ABSTAIN, InvalidInputError
from pate.exceptions import StudentWarning
from pate.models.students import VoteSpreading, fit_student, make_student, named_students, uses_unlabelled
from pate.teachers import named_teachers

DIGITS, TRUTH = load_digits(return_X_y=True)
DIGITS = (DIGITS / 16).astype(np.float32)
PUBLIC, TEST = slice(0, 400), slice(1000, 1400)


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted on."""

    def fit(self, X, y):
        self.seen_ = (X, np.asarray(y))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def released(n_answers, *, wrong=0.0, seed=0):
    """True labels of some public rows, some of them wrong, the others without an answer."""
    rng = np.random.default_rng(seed)
    labels = np.full(400, ABSTAIN)
    asked = rng.choice(400, n_answers, replace=False)
    labels[asked] = np.where(rng.random(n_answers) < wrong, rng.integers(0, 10, n_answers), TRUTH[asked])
    return labels


def noisy_histogram(asked, *, n_teachers=100, sigma=25.0, share=0.6, seed=0):
    """What a NoisyHistogram releases when the teachers agree by ``share``; NaN where not asked."""
    rng = np.random.default_rng(seed)
    counts = np.full((400, 10), (1 - share) / 9 * n_teachers)
    counts[np.arange(400), TRUTH[PUBLIC]] = share * n_teachers
    noisy = counts + sigma * rng.normal(size=counts.shape)
    hidden = np.ones(400, dtype=bool)
    hidden[asked] = False
    noisy[hidden] = np.nan
    return noisy


# fit_student ---------------------------------------------------------------------------------------------------


def test_plain_students_see_the_answered_rows_only():
    labels = np.array([2, ABSTAIN, 0, ABSTAIN, 2])
    X = np.arange(10.0).reshape(5, 2)
    rows, y = fit_student(Recorder(), X, labels).seen_
    assert rows.tolist() == X[[0, 2, 4]].tolist()
    assert y.tolist() == [2, 0, 2]
    frame = pd.DataFrame(X, columns=["a", "b"], index=[9, 9, 9, 9, 9])
    rows, y = fit_student(Recorder(), frame, labels).seen_
    assert rows["a"].tolist() == [0.0, 4.0, 8.0]


def test_semi_supervised_students_see_all_rows():
    labels = released(60)
    for student in (
        LabelSpreading(kernel="knn"),
        LabelPropagation(kernel="knn", n_neighbors=9, max_iter=2000),
        make_pipeline(StandardScaler(with_std=False), LabelSpreading(kernel="knn")),
    ):
        assert uses_unlabelled(student)
        fitted = fit_student(student, DIGITS[PUBLIC], labels)
        last = fitted[-1] if hasattr(fitted, "steps") else fitted
        assert last.transduction_.shape == (400,)
        assert ABSTAIN not in last.classes_
        assert np.mean(fitted.predict(DIGITS[TEST]) == TRUTH[TEST]) > 0.7
    selftrained = fit_student(SelfTrainingClassifier(LogisticRegression()), DIGITS[PUBLIC], labels)
    assert selftrained.labeled_iter_.shape == (400,)


@pytest.mark.parametrize("student", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_ordinary_classifiers_do_not_use_unlabelled_rows(student):
    assert not uses_unlabelled(student)


def test_rows_without_an_answer_help_the_semi_supervised_student():
    """Forty answers: spreading over 400 public rows beats learning from the forty alone (mean of five draws)."""

    def score(student):
        fitted = [fit_student(student, DIGITS[PUBLIC], released(40, seed=s)) for s in range(5)]
        return np.mean([np.mean(f.predict(DIGITS[TEST]) == TRUTH[TEST]) for f in fitted])

    assert score(make_student("label-spreading")) > score(LogisticRegression(max_iter=200)) + 0.02


def test_the_student_handed_in_stays_unfitted():
    student = LogisticRegression()
    fitted = fit_student(student, DIGITS[PUBLIC], released(60))
    assert fitted is not student
    assert not hasattr(student, "coef_")


def test_no_label_at_all_gives_a_constant_and_a_warning():
    with pytest.warns(StudentWarning, match="no label was released: the student is a constant"):
        student = fit_student(LogisticRegression(), DIGITS[PUBLIC], np.full(400, ABSTAIN))
    assert student.predict(DIGITS[TEST]).tolist() == [0] * 400
    assert student.predict_proba(DIGITS[TEST]).shape == (400, 1)


@pytest.mark.parametrize(
    "student",
    [LogisticRegression(), LabelSpreading(), VoteSpreading(), make_pipeline(StandardScaler(), VoteSpreading())],
)
def test_labels_of_one_class_give_that_class_and_a_warning(student):
    labels = np.full(400, ABSTAIN)
    labels[:7] = 4
    with pytest.warns(StudentWarning, match="all released labels are of one class"):
        fitted = fit_student(student, DIGITS[PUBLIC], labels, noisy_counts=noisy_histogram(np.arange(7)))
    assert set(fitted.predict(DIGITS[TEST])) == {4}


def test_random_state_reaches_every_part():
    labels = released(80)
    deep = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    a = fit_student(deep, DIGITS[PUBLIC], labels, random_state=5)
    b = fit_student(deep, DIGITS[PUBLIC], labels, random_state=5)
    assert a[-1].random_state == 5
    assert np.array_equal(a.predict_proba(DIGITS[TEST]), b.predict_proba(DIGITS[TEST]))
    nested = fit_student(SelfTrainingClassifier(DecisionTreeClassifier()), DIGITS[PUBLIC], labels, random_state=6)
    assert nested.estimator_.random_state == 6
    assert fit_student(RandomForestClassifier(5), DIGITS[PUBLIC], labels).random_state is None


@pytest.mark.parametrize("labels", [[0, 1], [[0], [1], [1]], 0])
def test_labels_that_do_not_fit_the_rows(labels):
    with pytest.raises(InvalidInputError, match=r"labels must have one entry per public row.* for 3 rows"):
        fit_student(LogisticRegression(), [[0.0], [1.0], [2.0]], labels)


@pytest.mark.parametrize("random_state", [-1, 1.5, "seed"])
def test_bad_random_state(random_state):
    with pytest.raises(InvalidInputError, match="random_state"):
        fit_student(LogisticRegression(), [[0.0], [1.0]], [0, 1], random_state=random_state)


def test_a_mixed_table_through_a_pipeline():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=80), "town": rng.choice(["Oslo", "Rome"], 80)})
    y = ((X["age"] > 0) ^ (X["town"] == "Rome")).to_numpy().astype(int)
    labels = np.where(np.arange(80) % 3 == 0, ABSTAIN, y)
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    student = fit_student(make_pipeline(encode, RandomForestClassifier(30)), X, labels, random_state=0)
    assert (student.predict(X) == y).mean() > 0.8


def test_only_public_things_can_be_passed():
    assert list(inspect.signature(fit_student).parameters) == [
        "student",
        "X_public",
        "labels",
        "noisy_counts",
        "random_state",
    ]


# Names ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the mlp says so, and learns anyway
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "image" else name for name in named_students()]
)
def test_every_named_student_learns(name):
    student = make_student(name)
    clone(student)
    with threadpool_limits(1):  # twice as many threads as cores make boosting ten times slower
        fitted = fit_student(student, DIGITS[PUBLIC], released(200), random_state=0)
    # knn and trees on 200 rows are the weakest; chance is 0.1
    assert np.mean(fitted.predict(DIGITS[TEST]) == TRUTH[TEST]) > 0.5


def test_names():
    assert set(named_teachers(torch=False)) < set(named_students())
    assert make_student("label-spreading") is not make_student("label-spreading")
    with pytest.raises(InvalidInputError, match=r"student must be one of 'vote-spreading', .*got 'oracle'"):
        make_student("oracle")
    with pytest.raises(InvalidInputError, match="student must be one of"):
        make_student("torch-mlp")  # an ensemble is no student


# VoteSpreading -------------------------------------------------------------------------------------------------


def by_definition(X, evidence, k, alpha):
    """Zhou et al. 2004, written down with dense matrices."""
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    graph = np.zeros((len(X), len(X)))
    graph[np.arange(len(X))[:, None], np.argsort(distances, axis=1)[:, :k]] = 1
    graph = np.maximum(graph, graph.T)
    root = np.diag(graph.sum(axis=1) ** -0.5)
    return np.linalg.solve(np.eye(len(X)) - alpha * root @ graph @ root, evidence)


@pytest.mark.parametrize(("k", "alpha"), [(3, 0.2), (7, 0.8), (5, 0.99)])
def test_spreading_is_the_published_formula(k, alpha):
    X = DIGITS[:150].astype(np.float64) + 1e-3 * np.random.default_rng(0).normal(size=(150, 64))  # no ties
    noisy = noisy_histogram(np.arange(0, 150, 4))[:150]
    centred = np.nan_to_num(noisy - noisy.mean(axis=1, keepdims=True))
    student = VoteSpreading(n_neighbors=k, alpha=alpha).fit(X, np.zeros(150, dtype=int), noisy_counts=noisy)
    assert np.array_equal(student.transduction_, by_definition(X, centred, k, alpha).argmax(axis=1))


def test_spreading_labels_without_counts():
    labels = released(60)
    X = DIGITS[PUBLIC].astype(np.float64)
    student = VoteSpreading(n_neighbors=7, alpha=0.2).fit(X, labels)
    onehot = (labels[:, None] == np.arange(10)).astype(float)
    agree = student.transduction_ == by_definition(X, onehot, 7, 0.2).argmax(axis=1)
    assert agree.mean() > 0.99  # equal distances may be ordered otherwise
    assert np.mean(student.predict(DIGITS[TEST]) == TRUTH[TEST]) > 0.7


def test_noise_averages_out_over_neighbours():
    """The answers of rows that resemble one another correct each other: fewer errors than each row's own argmax."""
    asked = np.arange(0, 400, 2)
    own, spread = [], []
    for seed in range(5):
        noisy = noisy_histogram(asked, sigma=45.0, seed=seed)
        own.append(np.mean(noisy[asked].argmax(axis=1) == TRUTH[PUBLIC][asked]))
        student = VoteSpreading().fit(DIGITS[PUBLIC], np.full(400, ABSTAIN), noisy_counts=noisy)
        spread.append(np.mean(student.transduction_[asked] == TRUTH[PUBLIC][asked]))
    assert np.mean(spread) > np.mean(own) + 0.1


def test_the_number_of_teachers_does_not_matter():
    """Counts are centred: the same lead among more teachers is the same evidence."""
    noisy = noisy_histogram(np.arange(100))
    a = VoteSpreading().fit(DIGITS[PUBLIC], np.full(400, ABSTAIN), noisy_counts=noisy)
    b = VoteSpreading().fit(DIGITS[PUBLIC], np.full(400, ABSTAIN), noisy_counts=noisy + 1000)
    assert np.array_equal(a.transduction_, b.transduction_)


def test_fit_student_hands_the_counts_on():
    """With counts the doubtful answers count too, whatever the gap made of them."""
    noisy = noisy_histogram(np.arange(200))
    few = np.full(400, ABSTAIN)
    few[:2] = [0, 1]
    with_counts = fit_student(VoteSpreading(), DIGITS[PUBLIC], few, noisy_counts=noisy)
    without = fit_student(VoteSpreading(), DIGITS[PUBLIC], few)
    assert len(with_counts.classes_) == 10
    assert set(without.classes_) <= {0, 1}


def test_probabilities():
    student = fit_student(VoteSpreading(n_votes=4), DIGITS[PUBLIC], released(100))
    p = student.predict_proba(DIGITS[TEST])
    assert p.shape == (400, len(student.classes_))
    assert np.allclose(p.sum(axis=1), 1)
    assert set(np.unique(p * 4).round(9)) <= {0, 1, 2, 3, 4}
    assert np.array_equal(student.predict(DIGITS[TEST]), student.classes_[p.argmax(axis=1)])


def test_few_rows():
    X = np.array([[0.0], [0.1], [5.0]])
    student = VoteSpreading(n_neighbors=50, n_votes=50).fit(X, np.array([0, 1, ABSTAIN]))
    assert student.predict(X).shape == (3,)
    assert set(student.classes_) <= {0, 1}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": 2.5}, "n_neighbors"),
        ({"alpha": 0.0}, "alpha must be a finite number > 0 and < 1"),
        ({"alpha": 1.0}, "alpha"),
        ({"n_votes": 0}, "n_votes"),
    ],
)
def test_bad_parameters(change, text):
    with pytest.raises(InvalidInputError, match=text):
        VoteSpreading(**change).fit(DIGITS[PUBLIC], released(20))


def test_nothing_to_spread():
    with pytest.raises(InvalidInputError, match="at least one released label"):
        VoteSpreading().fit(DIGITS[PUBLIC], np.full(400, ABSTAIN))
    with pytest.raises(InvalidInputError, match="at least one released label"):
        VoteSpreading().fit(DIGITS[PUBLIC], np.full(400, ABSTAIN), noisy_counts=np.full((400, 10), np.nan))


def test_clone_and_parameters():
    student = VoteSpreading(n_neighbors=3, alpha=0.5, n_votes=2)
    assert clone(student).get_params() == {"n_neighbors": 3, "alpha": 0.5, "n_votes": 2, "scale": False}
