"""The whole river as one scikit-learn classifier: scikit-learn's own checks, and what the curator is promised."""

from __future__ import annotations

import io
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import pate.estimators._classifier
from pate import (
    ABSTAIN,
    Budget,
    BudgetExceededError,
    Charge,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyHistogram,
    PATEClassifier,
    PrivacyLeakWarning,
    TorchTeacherEnsemble,
    Votes,
)
from pate.exceptions import CuratorWarning, PrivacyParameterWarning, ResultWarning, StudentWarning
from pate.models.students import VoteSpreading
from pate.networks import MLP
from pate.release import plan_release
from pate.teachers import TeacherEnsemble

DIGITS, TRUTH = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
X, Y, PUBLIC, TEST, TEST_Y = DIGITS[:1000], TRUTH[:1000], DIGITS[1000:1200], DIGITS[1200:], TRUTH[1200:]
RICH = Budget(1e4, 1e-5)
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def classifier(estimator=None, **options):
    defaults = {
        "n_teachers": 10,
        "budget": RICH,
        "classes": range(10),
        "n_queries": 80,
        "random_state": 0,
        "partition_seed": 0,
        "noise_seed": 0,
        "force": True,  # ten teachers are quick
    }
    if isinstance(estimator, MustNotTrain):  # its student is tried before any training
        defaults["student"] = GaussianNB(var_smoothing=0.1)
    return pate_of(GaussianNB(var_smoothing=0.1) if estimator is None else estimator, **(defaults | options))


def blobs(n, seed, centres=((-3.0, 0.0), (3.0, 0.0), (0.0, 5.0))):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(centres), n)
    return np.asarray(centres)[y] + 0.7 * rng.normal(size=(n, 2)), y


class MustNotTrain(ClassifierMixin, BaseEstimator):
    """A teacher that must never be reached."""

    def fit(self, X, y):
        raise AssertionError("a teacher was trained")

    def predict(self, X):
        raise AssertionError("a teacher was asked")


# scikit-learn's contract ---------------------------------------------------------------------------------------


class PublicIsPrivate(PATEClassifier):
    """For scikit-learn's checks, which know no public rows: the private ones stand in."""

    def fit(self, X, y=None):
        return super().fit(X, y, X_public=X)


#: Checks that may end otherwise than passed, and why.
EXPECTED = {
    "check_array_api_input": "skipped by scikit-learn itself unless SCIPY_ARRAY_API is set",
}


@pytest.mark.long
def test_scikit_learn_checks():
    estimator = PublicIsPrivate(
        TeacherEnsemble(LogisticRegression(), 2, partition_seed=0),
        stated={"overlap is public": "yes"},
        budget=RICH,
        noise_seed=0,
        random_state=0,
    )
    with warnings.catch_warnings():
        # The checks name no classes, repeat rows and have a handful of records; each of these warns, rightly.
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) >= 50
    names = [result["check_name"] for result in results]
    for important in (
        "check_estimators_pickle",
        "check_classifiers_train",
        "check_classifiers_classes",
        "check_dict_unchanged",
        "check_classifiers_one_label",
        "check_estimators_nan_inf",
        "check_n_features_in",
        "check_fit_idempotent",
    ):
        assert important in names
    odd = {r["check_name"]: (r["status"], str(r["exception"])) for r in results if r["status"] != "passed"}
    assert set(odd) <= set(EXPECTED), odd
    assert sum(r["status"] == "passed" for r in results) >= len(results) - len(EXPECTED)


def test_parameters_go_round():
    budget = Budget(1.0, 1e-5)
    clf = classifier(select="spread", gap=3.0, mechanism=NoisyHistogram(40.0), tuning="none")
    again = PATEClassifier(**clf.get_params(deep=False))
    assert again.get_params(deep=False) == clf.get_params(deep=False)
    assert clone(clf).get_params(deep=False).keys() == clf.get_params(deep=False).keys()
    assert clone(clf).mechanism == NoisyHistogram(40.0)
    changed = clf.set_params(budget=budget, estimator__estimator__var_smoothing=0.5)
    assert changed is clf
    assert (clf.budget, clf.estimator.estimator.var_smoothing) == (budget, 0.5)


def test_a_clone_of_a_fitted_one_is_unfitted_and_fits_alike():
    clf = classifier().fit(X, Y, X_public=PUBLIC)
    other = clone(clf)
    assert not any(name.endswith("_") for name in vars(other))
    other.fit(X, Y, X_public=PUBLIC)
    assert np.array_equal(other.predict(TEST), clf.predict(TEST))


def test_pickle_of_a_fitted_one(tmp_path):
    clf = classifier(ledger=Ledger(tmp_path / "l.sqlite")).fit(X, Y, X_public=PUBLIC)
    again = pickle.loads(pickle.dumps(clf))
    assert np.array_equal(again.predict_proba(TEST), clf.predict_proba(TEST))
    assert again.statement_ == clf.statement_
    assert np.array_equal(again.release_.labels, clf.release_.labels)


@pytest.mark.filterwarnings("ignore::pate.exceptions.CovariateShiftWarning")  # two scalers give a warning
def test_in_a_pipeline_with_public_rows():
    """The step's public rows go in as they are, so they must be prepared as the pipeline prepares the private ones."""
    scale = StandardScaler().fit(PUBLIC)  # learnt from public rows
    pipe = Pipeline([("scale", StandardScaler()), ("pate", classifier())])
    pipe.fit(X, Y, pate__X_public=scale.transform(PUBLIC))
    assert pipe.score(TEST, TEST_Y) > 0.6
    with pytest.raises(InvalidInputError, match="X_public must be"):
        clone(pipe).fit(X, Y)


def test_preprocessing_belongs_inside_the_teacher():
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    clf = classifier(model, n_teachers=5, student=model)
    clf.fit(X, Y, X_public=PUBLIC)
    assert clf.score(TEST, TEST_Y) > 0.7
    assert isinstance(clf.student_[0], StandardScaler)


def test_score_and_learning():
    clf = classifier(n_queries=200).fit(X, Y, X_public=PUBLIC)
    assert clf.score(TEST, TEST_Y) > 0.7
    assert clf.predict(TEST).shape == (len(TEST),)
    assert clf.n_features_in_ == 64


# Classes -------------------------------------------------------------------------------------------------------


def test_classes_left_out_are_a_leak():
    with pytest.warns(PrivacyLeakWarning, match="read off the private labels and becomes public"):
        clf = classifier(classes=None).fit(X, Y, X_public=PUBLIC)
    assert clf.classes_.tolist() == list(range(10))
    with pytest.warns(PrivacyLeakWarning), pytest.raises(InvalidInputError, match="only one class"):
        classifier(MustNotTrain(), classes=None).fit(X, np.zeros(1000), X_public=PUBLIC)


def test_named_classes_do_not_warn():
    classifier().fit(X, Y, X_public=PUBLIC)  # warnings are errors


@pytest.mark.parametrize("dtype", [str, object])
def test_string_classes(dtype):
    y = NAMES[Y].astype(dtype)
    clf = classifier(classes=NAMES.tolist()).fit(X, y, X_public=PUBLIC)
    assert clf.classes_.tolist() == NAMES.tolist()
    assert set(clf.predict(TEST)) <= set(NAMES)
    assert clf.score(TEST, NAMES[TEST_Y]) > 0.6
    assert set(clf.release_.values()) <= {*NAMES, None}


def test_classes_in_another_order_are_the_same_answers():
    plain = classifier().fit(X, Y, X_public=PUBLIC)
    order = [7, 3, 9, 0, 1, 8, 2, 6, 5, 4]
    other = classifier(classes=order, noise_seed=5).fit(X, Y, X_public=PUBLIC)
    assert other.classes_.tolist() == order
    # the budget is huge, so the noise hardly matters
    assert np.mean(other.predict(TEST) == plain.predict(TEST)) > 0.95
    assert np.mean(np.array(order)[other.predict_proba(TEST).argmax(axis=1)] == other.predict(TEST)) == 1
    rows = np.flatnonzero(other.release_.answered)
    assert (
        np.mean(np.array(other.release_.values(), dtype=object)[rows] == TRUTH[1000:1200][other.queries_[rows]]) > 0.6
    )


@pytest.mark.filterwarnings("ignore:No record is of the class 77")
def test_a_class_that_never_occurs_has_a_column_of_zeros():
    clf = classifier(classes=[*range(10), 77]).fit(X, Y, X_public=PUBLIC)
    p = clf.predict_proba(TEST)
    assert p.shape == (len(TEST), 11)
    assert np.allclose(p.sum(axis=1), 1)
    assert (p[:, 10] == 0).all()
    assert 77 not in clf.predict(TEST)
    assert np.array_equal(clf.predict(TEST), clf.classes_[p.argmax(axis=1)])


def test_a_private_class_outside_classes_decides_nothing_and_is_not_named():
    y = NAMES[Y].astype(object)
    y[17] = "secret-diagnosis"
    with pytest.warns(CuratorWarning, match="1 of 1000 records cannot be used") as said:
        clf = classifier(classes=NAMES.tolist()).fit(X, y, X_public=PUBLIC)
    assert "secret-diagnosis" not in str(said[0].message)
    assert "secret-diagnosis" not in str(clf.statement_)
    y[:] = "secret-diagnosis"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        classifier(classes=NAMES.tolist()).fit(X, y, X_public=PUBLIC)
    for part in ("No record is of the classes 'zero'", "1000 of 1000 records cannot be used"):
        assert any(part in str(one.message) for one in said)
    assert not any("secret" in str(one.message) for one in said)


@pytest.mark.parametrize("classes", ["abc", [1], [1, 1], 3])
def test_bad_classes(classes):
    with pytest.raises(InvalidInputError, match="classes must list at least two distinct class values"):
        classifier(MustNotTrain(), classes=classes).fit(X, Y, X_public=PUBLIC)


def test_probabilities_exist_only_where_the_student_has_them():
    assert hasattr(classifier(), "predict_proba")
    clf = classifier(student=LinearSVC())
    assert not hasattr(clf, "predict_proba")
    clf.fit(X, Y, X_public=PUBLIC)
    assert not hasattr(clf, "predict_proba")
    assert clf.score(TEST, TEST_Y) > 0.5
    # a teacher without probabilities may have a student with them
    other = classifier(LinearSVC(), student=GaussianNB(var_smoothing=0.1)).fit(X, Y, X_public=PUBLIC)
    assert other.predict_proba(TEST).shape == (len(TEST), 10)


# The budget ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"budget": None}, r"budget must be pate.Budget\(epsilon, delta\), got None"),
        ({"budget": 1.0}, "budget must be"),
        ({"n_queries": 201}, "queries must be a whole number >= 1 and <= 200.*There are 200 public rows"),
        ({"n_queries": 0}, "queries.n must be"),
        ({"select": "best"}, "select must be one of"),
        ({"gap": -1.0}, "gap"),
        ({"mechanism": GNMax(40.0), "gap": 3.0}, "only NoisyHistogram releases the counts"),
        ({"mechanism": ConfidentGNMax(9, 9, 9), "gap": 0.0}, "gap must be None"),
        ({"mechanism": LNMax(40.0), "gap": 1}, "gap must be None"),
        ({"n_teachers": 0}, "n_teachers"),
        ({"n_teachers": 2.5}, "n_teachers"),
        ({"n_teachers": 1001}, "n_teachers must be at most the number of records"),
        ({"on_exhausted": "stop"}, "on_exhausted"),
        ({"max_answers": 0}, "max_answers"),
        ({"random_state": -1}, "random_state"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_refused_before_training(options, text):
    with pytest.raises(InvalidInputError, match=text):
        classifier(MustNotTrain(), **options).fit(X, Y, X_public=PUBLIC)


def test_what_the_budget_does_not_buy_is_refused_before_training(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    clf = classifier(MustNotTrain(), budget=Budget(0.5, 1e-5), mechanism=GNMax(5.0), ledger=ledger)
    with pytest.raises(BudgetExceededError, match=r"buys 0 of these 80 queries.*Nothing was spent"):
        clf.fit(X, Y, X_public=PUBLIC)
    assert ledger.releases() == []
    assert not hasattr(clf, "student_")


def test_what_the_ledger_has_not_left_is_refused_before_training(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(1.0, 1e-5))
    ledger.record(Charge.gaussian(sensitivity=2**0.5, sigma=40.0) * 57, mechanism="m", n_queries=57)
    clf = classifier(MustNotTrain(), budget=Budget(1.0, 1e-5), mechanism=GNMax(60.0), ledger=ledger)
    with pytest.raises(BudgetExceededError):
        clf.fit(X, Y, X_public=PUBLIC)


def test_exhausted_budget_may_abstain():
    clf = classifier(budget=Budget(2.0, 1e-5), mechanism=GNMax(10.0), on_exhausted="abstain", noise_seed=None)
    with pytest.warns(ResultWarning) as warned:
        clf.fit(X, Y, X_public=PUBLIC)
    n = clf.release_.n_answered
    assert f"at most {n} of the 80 public rows" in str(warned[0].message)
    assert f"only {n} of the 80 public rows" in str(clf.statement_.doubts[0])
    assert str(clf.statement_.doubts[0]) in map(str, (one.message for one in warned))
    assert 0 < clf.release_.n_answered < 80
    assert (clf.release_.status == "not asked").sum() == 80 - clf.release_.n_answered
    assert clf.release_.guarantee.epsilon <= 2.0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "mechanism", [None, NoisyHistogram(40.0), GNMax(40.0), LNMax(60.0), ConfidentGNMax(6.0, 60.0, 40.0)]
)
@pytest.mark.parametrize("epsilon", [0.7, 3.0])
def test_the_price_stays_within_the_budget_and_is_in_the_ledger(tmp_path, mechanism, epsilon):
    ledger = Ledger(tmp_path / "l.sqlite")
    budget = Budget(epsilon, 1e-5)
    clf = classifier(
        mechanism=mechanism,
        budget=budget,
        ledger=ledger,
        on_exhausted="abstain",
        noise_seed=None,
        n_queries=None if mechanism is None else 80,
        student=VoteSpreading() if mechanism is None else None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudentWarning)  # ten teachers under so much noise may agree on nothing
        clf.fit(X, Y, X_public=PUBLIC)
    assert clf.statement_.guarantee == clf.release_.guarantee
    assert clf.statement_.guarantee.epsilon <= epsilon
    assert [row.charge for row in ledger.releases()] == [clf.release_.quote.charge]
    assert ledger.total == budget
    assert not clf.statement_.seeded
    before = ledger.spent
    clf.predict(TEST)
    clf.score(TEST, TEST_Y)
    assert ledger.spent == before


def test_the_same_fit_again_is_free_with_a_ledger(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    first = classifier(ledger=ledger, budget=Budget(3.0, 1e-5), noise_seed=None).fit(X, Y, X_public=PUBLIC)
    again = classifier(ledger=ledger, budget=Budget(3.0, 1e-5), noise_seed=None).fit(X, Y, X_public=PUBLIC)
    assert len(ledger.releases()) == 1
    assert np.array_equal(again.release_.noisy_counts, first.release_.noisy_counts)
    assert np.array_equal(again.predict(TEST), first.predict(TEST))
    assert again.statement_.guarantee.epsilon == pytest.approx(first.statement_.guarantee.epsilon)


def test_plan_release_is_made_of_public_numbers_alone():
    mechanism, n, gap, *_ = plan_release(Budget(1.0, 1e-5), 1000, n_teachers=250)
    assert mechanism.sigma <= 75  # the noise that was wished for: 0.3 votes for each teacher
    assert Budget(1.0, 1e-5).allows(mechanism.charge(n))
    assert not Budget(1.0, 1e-5).allows(mechanism.charge(n + 1))
    assert gap == 0.0
    assert plan_release(Budget(1.0, 1e-5), 10, n_teachers=250)[1] == 10
    assert plan_release(Budget(0.01, 1e-9), 1000, n_teachers=2, n_classes=17, force=True)[1] == 17
    assert plan_release(Budget(1.0, 1e-5), 1000, n_teachers=250, gap=3)[2] == 3.0
    given = GNMax(40.0)
    assert plan_release(Budget(1.0, 1e-5), 1000, n_teachers=250, mechanism=given)[:3] == (given, 1000, 0.0)
    asked = plan_release(Budget(1.0, 1e-5), 1000, n_teachers=250, n_queries=300)
    assert asked[1] == 300
    assert asked[0].sigma > mechanism.sigma


def test_gap_decides_who_abstains():
    every = classifier(gap=0.0).fit(X, Y, X_public=PUBLIC)
    assert every.release_.n_answered == 80
    strict = classifier(gap=9.5).fit(X, Y, X_public=PUBLIC)
    assert 0 < strict.release_.n_answered < 80
    lead = np.sort(every.release_.noisy_counts, axis=1)
    assert np.array_equal(strict.release_.answered, lead[:, -1] - lead[:, -2] >= 9.5)
    assert strict.release_.guarantee == every.release_.guarantee


# What is kept --------------------------------------------------------------------------------------------------


class Census(pickle._Pickler):
    """Sees every object that can be reached from one."""

    def __init__(self):
        super().__init__(io.BytesIO())
        self.seen = []

    def persistent_id(self, obj):
        self.seen.append(obj)
        return None


def reachable(obj):
    census = Census()
    census.dump(obj)
    return census.seen


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", [None, GNMax(40.0), ConfidentGNMax(6.0, 20.0, 10.0)])
def test_the_fitted_object_holds_no_teachers_and_no_votes(mechanism):
    clf = classifier(DecisionTreeClassifier(), mechanism=mechanism, noise_seed=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudentWarning)
        teachers, votes = clf.fit_keeping(X, Y, X_public=PUBLIC)
    assert isinstance(teachers, TeacherEnsemble)
    assert isinstance(votes, Votes)
    found = reachable(clf)
    assert any(o is clf.student_ for o in found)  # the census does see what is there
    others = [o for o in found if o is not clf.estimator]  # that is unfitted
    assert not [o for o in others if isinstance(o, (TeacherEnsemble, Votes))]
    private = [*teachers.teachers_, *(t.tree_ for t in teachers.teachers_ if hasattr(t, "tree_"))]
    assert not [o for o in found if any(o is p for p in private)]
    for array in (o for o in found if isinstance(o, np.ndarray)):
        for secret in (votes.counts, X, Y):
            assert not (array.shape == secret.shape and np.array_equal(array, secret))
            assert not np.shares_memory(array, secret)
    if clf.release_.noisy_counts is not None:
        assert not np.array_equal(clf.release_.noisy_counts, votes.counts)


def test_reprs_show_nothing_private():
    clf = classifier(partition_seed=None).fit(X, Y, X_public=PUBLIC)
    text = repr(clf) + clf._repr_html_() + repr(clf.release_) + str(clf.statement_)
    assert "TeacherEnsemble" not in text
    assert "shards" not in repr(clf)


def test_seeded_noise_says_so():
    assert classifier().fit(X, Y, X_public=PUBLIC).statement_.headline.startswith("not private: seeded")
    open_fit = classifier(noise_seed=None).fit(X, Y, X_public=PUBLIC)
    assert open_fit.statement_.headline.startswith("epsilon = ")


def test_the_statement_says_what_was_tuned_and_what_is_protected():
    clf = classifier(noise_seed=None, tuning="gap, on public digits").fit(X, Y, X_public=PUBLIC)
    assert clf.statement_.tuning == "gap, on public digits"
    assert (clf.statement_.unit, clf.statement_.n_units) == ("record", 1000)


def test_groups_are_protected_whole():
    groups = np.arange(1000) // 8
    clf = classifier().fit(X, Y, X_public=PUBLIC, groups=groups)
    assert (clf.statement_.unit, clf.statement_.n_units) == ("group", 125)
    with pytest.raises(InvalidInputError):
        classifier(MustNotTrain(), n_teachers=126).fit(X, Y, X_public=PUBLIC, groups=groups)


def test_a_weak_delta_warns():
    with pytest.warns(PrivacyParameterWarning, match="not below 1/n"):
        classifier(budget=Budget(5.0, 1e-3)).fit(X, Y, X_public=PUBLIC)


# Reproducibility -----------------------------------------------------------------------------------------------


def same(a, b):
    return (
        np.array_equal(a.release_.noisy_counts, b.release_.noisy_counts)
        and np.array_equal(a.queries_, b.queries_)
        and np.array_equal(a.predict_proba(TEST), b.predict_proba(TEST))
    )


@pytest.mark.long
def test_both_seeds_make_it_repeatable_and_each_matters():
    a = classifier(DecisionTreeClassifier()).fit(X, Y, X_public=PUBLIC)
    assert same(a, classifier(DecisionTreeClassifier()).fit(X, Y, X_public=PUBLIC))
    other_noise = classifier(DecisionTreeClassifier(), noise_seed=1).fit(X, Y, X_public=PUBLIC)
    assert not same(a, other_noise)
    assert np.array_equal(a.queries_, other_noise.queries_)
    other_training = classifier(DecisionTreeClassifier(), random_state=1).fit(X, Y, X_public=PUBLIC)
    assert not np.array_equal(a.queries_, other_training.queries_)


def test_privacy_noise_does_not_come_from_random_state():
    a = classifier(noise_seed=None, budget=Budget(2.0, 1e-5)).fit(X, Y, X_public=PUBLIC)
    b = classifier(noise_seed=None, budget=Budget(2.0, 1e-5)).fit(X, Y, X_public=PUBLIC)
    assert np.array_equal(a.queries_, b.queries_)
    assert not np.isclose(a.release_.noisy_counts, b.release_.noisy_counts).any()


def test_n_jobs_does_not_matter():
    one = classifier(DecisionTreeClassifier(), n_jobs=1).fit(X[:400], Y[:400], X_public=PUBLIC)
    two = classifier(DecisionTreeClassifier(), n_jobs=2).fit(X[:400], Y[:400], X_public=PUBLIC)
    assert same(one, two)


# Public rows ---------------------------------------------------------------------------------------------------


def test_no_public_rows():
    with pytest.raises(InvalidInputError, match=r"X_public must be the public rows to label, got None"):
        classifier(MustNotTrain()).fit(X, Y)
    with pytest.raises(ValueError, match="0 sample"):
        classifier(MustNotTrain()).fit(X, Y, X_public=PUBLIC[:0])
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    with pytest.raises(InvalidInputError, match="X_public has no rows"):
        classifier(MustNotTrain()).fit(frame, Y, X_public=frame.iloc[:0])


def test_public_rows_of_other_columns():
    with pytest.raises(ValueError, match=r"63 features.*expecting 64"):
        classifier(MustNotTrain()).fit(X, Y, X_public=PUBLIC[:, 1:])
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    with pytest.raises(ValueError, match=r"other columns than the private rows: it lacks 'p3'; it also has 'other'"):
        classifier(MustNotTrain()).fit(frame, Y, X_public=frame.iloc[:9].rename(columns={"p3": "other"}))


def test_nan_in_private_and_public_rows():
    holed = PUBLIC.copy()
    holed[3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        classifier(MustNotTrain()).fit(X, Y, X_public=holed)
    holed = X.copy()
    holed[3, 3] = np.nan
    with pytest.warns(CuratorWarning, match="1 of 1000 records cannot be used"):
        classifier().fit(holed, Y, X_public=PUBLIC)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        clf = classifier().fit(np.full_like(X, np.nan), Y, X_public=PUBLIC)
    assert any("NO RECORD IS LEFT" in str(one.message) for one in said)
    assert clf.release_.n_queries == 80


def test_y_of_another_length_or_one_class():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier(MustNotTrain()).fit(X, Y[:-1], X_public=PUBLIC)
    with pytest.raises(InvalidInputError, match="requires y to be passed"):
        classifier(MustNotTrain()).fit(X, None, X_public=PUBLIC)


@pytest.mark.few(1)
@pytest.mark.parametrize("select", ["first", "random", "spread"])
def test_selected_rows_are_the_ones_asked(select):
    clf = classifier(select=select, n_queries=30, gap=0.0).fit(X, Y, X_public=PUBLIC)
    assert len(clf.queries_) <= 30
    assert len(clf.release_.labels) == len(clf.queries_)
    if select == "first":
        assert clf.queries_.tolist() == list(range(30))
    # the answers belong to those rows: with next to no noise they are mostly the truth there
    right = clf.release_.labels == TRUTH[1000:1200][clf.queries_]
    assert right.mean() > 0.6
    assert np.mean(clf.release_.labels == np.roll(TRUTH[1000:1200], 7)[clf.queries_]) < 0.4


def test_repeated_public_rows_are_asked_once():
    repeated = np.concatenate([PUBLIC[:20], PUBLIC[:20], PUBLIC[:20]])
    clf = classifier(n_queries=None, mechanism=NoisyHistogram(2.0)).fit(X, Y, X_public=repeated)
    assert clf.release_.quote.n_queries == 20
    assert np.array_equal(clf.release_.labels[:20], clf.release_.labels[40:])


# Students ------------------------------------------------------------------------------------------------------


def test_semi_supervised_students_learn_from_every_public_row():
    clf = classifier(n_queries=40, student=LabelSpreading(kernel="knn", alpha=0.2)).fit(X, Y, X_public=PUBLIC)
    assert clf.student_.transduction_.shape == (200,)
    spread = classifier(n_queries=40, student=VoteSpreading()).fit(X, Y, X_public=PUBLIC)
    assert spread.student_.transduction_.shape == (200,)
    plain = classifier(n_queries=40, student=NB).fit(X, Y, X_public=PUBLIC)
    assert plain.student_.class_count_.sum() == plain.release_.n_answered <= 40
    assert clf.score(TEST, TEST_Y) > 0.5
    assert spread.score(TEST, TEST_Y) > 0.5


def test_vote_spreading_is_given_the_noisy_counts(monkeypatch):
    given = {}
    fit_student = pate.estimators._public_model.fit_student

    def spy(student, rows, labels, **options):
        given.update(labels=labels, **options)
        return fit_student(student, rows, labels, **options)

    monkeypatch.setattr(pate.estimators._public_model, "fit_student", spy)
    clf = classifier(student=VoteSpreading()).fit(X, Y, X_public=PUBLIC)
    assert np.array_equal(given["noisy_counts"][clf.queries_], clf.release_.noisy_counts)
    rest = np.setdiff1d(np.arange(200), clf.queries_)
    assert np.isnan(given["noisy_counts"][rest]).all()
    assert (given["labels"][rest] == ABSTAIN).all()
    assert np.array_equal(given["labels"][clf.queries_], clf.release_.labels)


def test_nothing_answered_leaves_a_constant_student_and_a_warning():
    with pytest.warns(StudentWarning, match="no label was released"):
        clf = classifier(gap=1e9).fit(X, Y, X_public=PUBLIC)
    assert set(clf.predict(TEST)) == {0}
    assert clf.predict_proba(TEST)[:, 0].tolist() == [1.0] * len(TEST)


def test_the_students_named_classes_are_the_private_ones():
    """Another student than the teacher, string classes in another order: indices never show."""
    order = list(reversed(NAMES.tolist()))
    clf = classifier(classes=order, student=DecisionTreeClassifier(), n_queries=200)
    clf.fit(X, NAMES[Y], X_public=PUBLIC)
    assert clf.score(TEST, NAMES[TEST_Y]) > 0.4
    assert set(clf.student_.classes_) <= set(range(10))


# Tables --------------------------------------------------------------------------------------------------------


def table(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.normal(50, 10, n), "town": rng.choice(["Oslo", "Rome", "Kyiv"], n), "income": rng.normal(size=n)}
    )
    return frame, np.where((frame["age"] > 50) ^ (frame["town"] == "Rome"), "yes", "no")


def mixed():
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]), (StandardScaler(), ["age", "income"])
    )
    return make_pipeline(encode, DecisionTreeClassifier(max_depth=5))


def test_data_frames_through_a_column_transformer():
    private, y = table(600, 0)
    public, _ = table(150, 1)
    test, truth = table(300, 2)
    clf = classifier(mixed(), classes=["no", "yes"], n_queries=100).fit(private, y, X_public=public)
    assert clf.score(test, truth) > 0.75
    assert clf.feature_names_in_.tolist() == ["age", "town", "income"]
    assert clf.predict_proba(test).shape == (300, 2)
    with pytest.raises(ValueError, match="other columns than the rows of fit"):
        clf.predict(test.rename(columns={"age": "years"}))


@pytest.mark.long
def test_a_data_frames_index_does_not_matter():
    private, y = table(600, 0)
    public, _ = table(150, 1)
    plain = classifier(mixed(), classes=["no", "yes"], n_queries=60).fit(private, y, X_public=public)
    private.index, public.index = range(5000, 5600), [7] * 150
    other = classifier(mixed(), classes=["no", "yes"], n_queries=60).fit(private, pd.Series(y), X_public=public)
    assert np.array_equal(plain.release_.noisy_counts, other.release_.noisy_counts)


# Going on ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_killed_fit_goes_on_with_its_teachers(tmp_path, monkeypatch):
    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    options = {"checkpoint_dir": tmp_path / "teachers", "n_queries": 30}
    monkeypatch.setattr("pate.release._pipeline.released", killed)
    first = classifier(**options)
    with pytest.raises(KeyboardInterrupt):
        first.fit(X, Y, X_public=PUBLIC)
    assert not hasattr(first, "student_")
    monkeypatch.undo()
    second = classifier(**options)
    teachers, _ = second.fit_keeping(X, Y, X_public=PUBLIC)
    assert teachers.n_resumed_ == 10
    assert same(second, classifier(n_queries=30).fit(X, Y, X_public=PUBLIC))


def test_a_failed_fit_again_leaves_no_mixture():
    """A second fit that is refused does not pass the first one's statement off as its own."""
    clf = classifier().fit(X, Y, X_public=PUBLIC)
    statement = clf.statement_
    clf.set_params(budget=Budget(0.5, 1e-5), mechanism=GNMax(5.0))
    with pytest.raises(BudgetExceededError):
        clf.fit(X, Y, X_public=PUBLIC)
    assert clf.statement_ is statement
    assert clf.release_.statement is statement


# Ensembles of teachers -----------------------------------------------------------------------------------------


def torch_teachers(n_teachers=10, **options):
    kwargs = {"module_kwargs": {"hidden": (32,)}, "epochs": 10, "learning_rate": 1e-2, "device": "cpu"}
    return TorchTeacherEnsemble(MLP, n_teachers, **(kwargs | options))


NB = GaussianNB(var_smoothing=0.1)


def test_an_ensemble_of_classifiers_is_the_same_as_its_classifier():
    plain = classifier(NB).fit(X, Y, X_public=PUBLIC)
    through = classifier(TeacherEnsemble(NB, 3), n_teachers=10).fit(X, Y, X_public=PUBLIC)
    assert np.array_equal(through.release_.labels, plain.release_.labels)
    assert np.array_equal(through.predict_proba(TEST), plain.predict_proba(TEST))
    assert isinstance(through.student_, VoteSpreading)
    part = {"mechanism": GNMax(1.0), "n_teachers": 10}  # no counts to spread: the teachers' own kind
    assert isinstance(classifier(TeacherEnsemble(NB, 3), **part).fit(X, Y, X_public=PUBLIC).student_, GaussianNB)


@pytest.mark.parametrize("said", [None, 4])
def test_torch_teachers_are_one_changed_line(said):
    template = torch_teachers(8, random_state=5)
    clf = classifier(template, n_teachers=said, student=NB)
    teachers, votes = clf.fit_keeping(X, Y, X_public=PUBLIC)
    assert isinstance(teachers, TorchTeacherEnsemble)
    assert votes.n_teachers == (said or 8)
    assert teachers.random_state == 0  # what the classifier says wins
    assert clf.score(TEST, TEST_Y) > 0.6
    assert not hasattr(template, "teachers_")  # cloned, never fitted
    found = reachable(clf)
    for weights in teachers.teachers_:
        assert not [o for o in found if any(o is w for w in weights.values())]
    assert not [o for o in found if hasattr(o, "teachers_") or isinstance(o, Votes)]


def test_parameters_of_a_nested_ensemble_go_round():
    clf = classifier(torch_teachers(), student=NB)
    assert clf.get_params()["estimator__epochs"] == 10
    other = clone(clf).set_params(estimator__epochs=3, n_teachers=4)
    assert (other.estimator.epochs, clf.estimator.epochs) == (3, 10)
    assert other.estimator.module is MLP
    assert not hasattr(classifier(torch_teachers()), "predict_proba")
    assert hasattr(classifier(TeacherEnsemble(NB, 3)), "predict_proba")
    assert hasattr(clf, "predict_proba")
    repr(other)


@pytest.mark.few(1)
@pytest.mark.parametrize("teachers", [torch_teachers(), TeacherEnsemble(MustNotTrain(), 3)])
def test_classes_named_in_the_ensemble_are_named(teachers):
    """No leak to warn of: warnings are errors here."""
    named = clone(teachers).set_params(classes=tuple(range(10)))
    clf = classifier(named, classes=None, student=NB)
    if isinstance(teachers, TeacherEnsemble):
        with pytest.raises(InvalidInputError, match="cannot be trained"):
            clf.fit(X, Y, X_public=PUBLIC)
        return
    clf.fit(X, Y, X_public=PUBLIC)
    assert clf.classes_.tolist() == list(range(10))
    with pytest.warns(PrivacyLeakWarning, match="classes=None: the set of classes"):
        clf.set_params(estimator__classes=None).fit(X, Y, X_public=PUBLIC)


@pytest.mark.parametrize(
    ("estimator", "student", "text"),
    [
        (torch_teachers(), None, r"got None with a TorchTeacherEnsemble.*student=LogisticRegression\(\)"),
        (NB, torch_teachers(), "student must be a scikit-learn classifier, got an ensemble"),
        (torch_teachers(), TeacherEnsemble(NB, 2), "got an ensemble"),
    ],
)
def test_a_student_is_one_model(estimator, student, text, monkeypatch):
    for kind in (TeacherEnsemble, TorchTeacherEnsemble):
        monkeypatch.setattr(kind, "fit", lambda *a, **k: pytest.fail("teachers were trained"))
    with pytest.raises(InvalidInputError, match=text):
        classifier(estimator, student=student, mechanism=GNMax(1.0)).fit(X, Y, X_public=PUBLIC)


def test_a_fitted_ensemble_is_refused():
    fitted = TeacherEnsemble(NB, 4, classes=range(10), random_state=0).fit(X, Y)
    with pytest.raises(InvalidInputError, match="must be unfitted"):
        classifier(fitted).fit(X, Y, X_public=PUBLIC)


def test_the_default_number_of_teachers_is_100():
    _, votes = classifier(NB, n_teachers=None).fit_keeping(X, Y, X_public=PUBLIC)
    assert votes.n_teachers == 100
