"""Other libraries' classifiers as teachers and students; what XGBoost needs, every classifier gets."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pate_of import pate_of
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pate import Budget, GNMax, InvalidInputError, TeacherEnsemble
from pate.models.students import fit_student
from pate.teachers._shards import OwnClasses, is_plain

DIGITS, TRUTH = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
X, Y, PUBLIC = DIGITS[:300], TRUTH[:300], DIGITS[1000:1060]


class OnlyRanks(ClassifierMixin, BaseEstimator):
    """As XGBoost: classes are 0 .. k-1, or nothing."""

    def fit(self, X, y):
        if not np.array_equal(np.unique(y), np.arange(len(np.unique(y)))):
            raise ValueError(f"Invalid classes inferred from unique values of `y`, got {np.unique(y)}")
        self.model_ = GaussianNB(var_smoothing=0.1).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


def xgboost():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, max_depth=2)


def lightgbm():
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, min_child_samples=1, verbose=-1)


def catboost():
    module = pytest.importorskip("catboost")
    return module.CatBoostClassifier(iterations=5, depth=2, verbose=False, allow_writing_files=False)


MAKERS = [OnlyRanks, xgboost, lightgbm, catboost]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a pipeline"])
def test_teachers_whose_shards_lack_classes(make, inside):
    """Thirty shards of ten records: hardly one holds all ten digits."""
    model = make()
    teachers = TeacherEnsemble(make_pipeline(StandardScaler(), model) if inside else model, 30, classes=range(10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        votes = teachers.set_params(random_state=0).fit(X, Y).vote(PUBLIC)
    lacking = [set(Y[shard]) for shard in teachers.partition_.shards()]
    assert sum(len(held) < 10 for held in lacking) > 20
    for held, said in zip(lacking, votes.labels, strict=True):
        assert set(said.tolist()) <= held  # classes of the shard, not ranks
    assert np.mean(votes.counts.argmax(axis=1) == TRUTH[1000:1060]) > 0.4


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_whole_river(make):
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    clf = pate_of(
        make(), n_teachers=15, budget=Budget(1e4, 1e-5), mechanism=GNMax(0.5), classes=[*names, "none"], random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, names[Y], X_public=PUBLIC)
        assert set(clf.predict(DIGITS[1200:])) <= set(names)
        assert clf.score(DIGITS[1200:], names[TRUTH[1200:]]) > 0.2


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_students_whose_labels_lack_classes(make):
    labels = np.where(TRUTH[:200] % 3 == 1, TRUTH[:200], -1)  # 1, 4 and 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        student = fit_student(make(), DIGITS[:200], labels)
        said = np.asarray(student.predict(DIGITS[:200])).ravel()
    assert set(said) == {1, 4, 7}
    assert np.mean(said[labels != -1] == labels[labels != -1]) > 0.8


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_checkpoints_of_what_is_not_scikit_learns_are_refused_before_training(make, tmp_path):
    teachers = TeacherEnsemble(make(), 3, classes=range(10), checkpoint_dir=tmp_path / "teachers")
    with pytest.raises(InvalidInputError, match=r"checkpoint_dir cannot keep \w+.*Use checkpoint_dir=None"):
        teachers.fit(X, Y)


@pytest.mark.long
def test_checkpoints_of_teachers_that_lack_classes(tmp_path):
    """What stands around the model is kept and found again, and says the same."""
    options = {"n_teachers": 30, "classes": range(10), "random_state": 0, "checkpoint_dir": tmp_path / "teachers"}
    first = TeacherEnsemble(DecisionTreeClassifier(), **options).fit(X, Y)
    assert sum(isinstance(teacher, OwnClasses) for teacher in first.teachers_) > 20
    again = TeacherEnsemble(DecisionTreeClassifier(), **options).fit(X, Y)
    assert again.n_resumed_ == 30
    assert np.array_equal(again.vote(PUBLIC).labels, first.vote(PUBLIC).labels)


@pytest.mark.long
def test_scikit_learns_classifiers_lose_nothing():
    """Votes of teachers that were fitted on ranks are those of the same classifiers fitted on the classes."""
    weights = {i: 1.0 + i for i in range(10)}
    for model in (
        GaussianNB(var_smoothing=0.1),
        LogisticRegression(class_weight=weights),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(class_weight=weights, max_depth=3, random_state=5)),
    ):
        teachers = TeacherEnsemble(model, 30, classes=range(10), random_state=0).fit(X, Y)
        votes = teachers.vote(PUBLIC)
        for i, shard in enumerate(teachers.partition_.shards()):
            from pate.teachers._shards import seeded_clone

            plain = seeded_clone(model, teachers._seed, i).fit(X[shard], Y[shard])
            assert np.array_equal(plain.predict(PUBLIC), votes.labels[i])


def test_shards_with_all_first_classes_have_nothing_around_their_model():
    teachers = TeacherEnsemble(GaussianNB(), 2, classes=range(3), random_state=0).fit(X[Y < 2], Y[Y < 2])
    assert [type(teacher) for teacher in teachers.teachers_] == [GaussianNB, GaussianNB]


def test_own_classes():
    tree = OwnClasses(DecisionTreeClassifier()).fit([[0.0], [1.0], [2.0]], np.array([4, 4, 9]))
    assert tree.predict([[0.0], [2.0]]).tolist() == [4, 9]
    assert tree.predict_proba([[2.0]]).tolist() == [[0.0, 1.0]]
    assert is_plain(tree)
    assert not is_plain(OwnClasses(OnlyRanks()))
    assert not hasattr(OwnClasses(OnlyRanks()), "predict_proba")

    class Beyond(OnlyRanks):
        def predict(self, X):
            return np.full(len(X), 2)

    with pytest.raises(ValueError, match="not trained on"):
        OwnClasses(Beyond()).fit([[0.0], [1.0]], np.array([4, 9])).predict([[0.0]])
