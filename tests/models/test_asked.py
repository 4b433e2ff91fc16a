"""Students that are asked about private records: each by itself, whatever the others hold."""

import warnings
from collections import UserDict

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import NMF, MiniBatchNMF
from sklearn.dummy import DummyClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - what makes the next one known
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import DistanceMetric
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from pate import TeacherEnsemble
from pate.exceptions import CuratorWarning
from pate.models.students import VoteSpreading
from pate.models.students._row_by_row import answers_alone, as_public, has_frozen
from pate.representations import is_known_throughout

RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=1_500)
X = RNG.normal(size=(1_500, 4)) + 2 * np.eye(4)[Y]
ALL = np.ones(1_500, dtype=bool)
STUDENTS = [
    LogisticRegression(max_iter=500),
    VoteSpreading(scale=True),
    make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
]


def asked(student, rows, usable=ALL, *, keep_places=True):
    return answers_alone(student, rows, usable, n_classes=3, keep_places=keep_places)


@pytest.mark.parametrize("student", STUDENTS, ids=lambda s: type(s).__name__)
def test_no_record_moves_the_answer_about_another(student):
    """Identity: another row at one place, whatever it is, changes that place's answer alone, to the last bit."""
    student = student.fit(X[:300], Y[:300])
    whole = asked(student, X)
    assert (whole == student.predict(X)).mean() > 0.999
    for i, row in ((0, [1e9, -5, 0, 1]), (7, [np.nan] * 4), (1_023, [np.inf, 0, 0, 0]), (1_499, [0.0] * 4)):
        other = X.copy()
        other[i] = row
        changed = asked(student, other)
        assert (np.delete(changed, i) == np.delete(whole, i)).all()
        assert changed[i] in ((-1,) if not np.isfinite(other[i]).all() else (0, 1, 2))
    usable = ALL.copy()
    usable[[3, 1_024]] = False
    assert (np.delete(asked(student, X, usable), [3, 1_024]) == np.delete(whole, [3, 1_024])).all()
    assert (asked(student, X, usable)[[3, 1_024]] == -1).all()


@pytest.mark.parametrize("keep_places", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: make_pipeline(
            IterativeImputer(sample_posterior=True, max_iter=2, random_state=0), LogisticRegression(max_iter=200)
        ),
        lambda: make_pipeline(StandardScaler(), DummyClassifier(strategy="uniform", random_state=RandomState(0))),
        lambda: DummyClassifier(strategy="stratified"),
        lambda: make_pipeline(
            MinMaxScaler(clip=True), NMF(2, solver="mu", init="random", random_state=0, tol=0.1),
            LogisticRegression(max_iter=200),
        ),
    ],
    ids=["imputer that draws", "a stream of its own", "the global stream", "stops by the block"],
)  # fmt: skip
def test_nor_of_a_student_that_draws_or_looks_at_the_block(make, keep_places):
    """Such code is not vouched for, and is asked row by row, a fresh copy each time."""
    holes = X[:400].copy()
    if "Imputer" in repr(make()):
        holes[RNG.random(holes.shape) < 0.2] = np.nan
    student = make().fit(holes[:300], Y[:300])
    assert not is_known_throughout(student)
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    some, few = holes[300:340], ALL[:40]
    whole = asked(student, some, few, keep_places=keep_places)
    for row in ([1e9, -5, 0, 1], [np.inf, 0, 0, 0], [0.0] * 4):
        other = some.copy()
        other[3] = row
        assert (np.delete(asked(student, other, few, keep_places=keep_places), 3) == np.delete(whole, 3)).all()
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.long
def test_where_rows_change_places_each_is_asked_alone():
    student, some, order = VoteSpreading(scale=True).fit(X[:300], Y[:300]), X[:200], RNG.permutation(200)
    whole = asked(student, some, ALL[:200], keep_places=False)
    assert (asked(student, some[order], ALL[:200], keep_places=False) == whole[order]).all()
    assert (asked(student, some[1:], ALL[:199], keep_places=False) == whole[1:]).all()


def test_rows_with_which_a_student_cannot_be_asked_have_no_answer():
    towns = pd.DataFrame({"town": np.array(["Oslo", "Rome"], dtype=object)[Y % 2]})
    student = make_pipeline(OneHotEncoder(handle_unknown="error"), LogisticRegression()).fit(towns, Y % 2)
    held = towns.copy()
    held.loc[[4, 700, 1_499], "town"] = ["Kyiv", "Bonn", "?"]
    found = asked(student, held)
    assert (np.flatnonzero(found == -1) == [4, 700, 1_499]).all()
    assert (np.delete(found, [4, 700, 1_499]) == np.delete(Y % 2, [4, 700, 1_499])).all()
    held["town"] = "nowhere"
    assert (asked(student, held[:60], ALL[:60]) == -1).all()


def test_one_records_category_shifts_no_other_records_code():
    """Identity: a student that reads pandas' codes is asked with the public list of categories."""

    class ByCode(LogisticRegression):
        def predict(self, X):
            return X["town"].cat.codes.to_numpy() % 3

    public = pd.DataFrame({"town": pd.Categorical(["Oslo", "Rome", "Turin"])})
    student = ByCode().fit(X[:300], Y[:300])
    towns = np.array(["Oslo", "Rome", "Turin"], dtype=object)[Y]
    plain = asked(student, as_public(pd.DataFrame({"town": pd.Categorical(towns)}), public))
    towns[5] = "Bonn"  # sorts before all others
    other = asked(student, as_public(pd.DataFrame({"town": pd.Categorical(towns)}), public))
    assert (np.delete(other, 5) == np.delete(plain, 5)).all()
    assert (np.delete(plain, 5) == np.delete(Y, 5)).all()


def test_other_kinds_of_rows_and_answers():
    student = LogisticRegression().fit(X[:300], Y[:300])
    assert (asked(student, sparse.csr_matrix(X)) == asked(student, X)).all()
    assert len(asked(student, X[:0], ALL[:0])) == 0
    assert (asked(student, X, ~ALL) == -1).all()

    class Odd(LogisticRegression):
        def predict(self, X):
            return np.full((len(X), 1), 7)

    assert (asked(Odd().fit(X[:300], Y[:300]), X) == -1).all()


def test_for_whose_code_pate_vouches():
    class Own(LogisticRegression):
        pass

    known = [*STUDENTS, GridSearchCV(LogisticRegression(), {"C": [1.0]})]
    known += [DummyClassifier(strategy="prior"), KNeighborsClassifier(metric_params={"p": 3})]
    known += [make_pipeline(OneHotEncoder(), SVC()), make_pipeline(TfidfVectorizer(), SVC())]  # dtype is a type
    known += [make_pipeline(SelectKBest(k=2), SVC()), make_pipeline(FunctionTransformer(np.log1p), SVC())]
    known += [make_pipeline(ColumnTransformer([("c", OneHotEncoder(), make_column_selector("t"))]), SVC())]
    foreign = [KNeighborsClassifier(metric="pyfunc", metric_params={"func": np.dot}), MiniBatchNMF()]
    foreign += [LogisticRegression(random_state=RandomState(0)), IterativeImputer()]
    foreign += [TfidfVectorizer(tokenizer=str.split), SelectKBest(lambda X, y: X[0])]
    foreign += [FunctionTransformer(np.frompyfunc(abs, 1, 1)), FunctionTransformer(np.exp, kw_args={"out": X})]
    foreign += [FunctionTransformer(lambda X: X - X.mean(axis=0)), FunctionTransformer(np.add)]
    foreign += [FunctionTransformer(np.linalg._umath_linalg.inv)]  # takes whole tables: (m,m)->(m,m)
    foreign += [Own(), make_pipeline(Own()), make_pipeline(FunctionTransformer(np.sort), SVC()), SVC(kernel=np.dot)]
    assert all(map(is_known_throughout, known))
    assert not any(map(is_known_throughout, foreign))


def test_a_table_with_categories_is_asked_in_blocks_and_no_record_moves_another(monkeypatch):
    """The pipeline that most DataFrames need: a record by itself takes a hundred times as long."""
    towns = pd.DataFrame(X).add_prefix("x").assign(town=np.array(["Oslo", "Rome", "Turin"], dtype=object)[Y])
    columns = ColumnTransformer(
        [("town", OneHotEncoder(handle_unknown="ignore"), ["town"]), ("rest", StandardScaler(), ["x0", "x1"])]
    )
    student = make_pipeline(columns, LogisticRegression()).fit(towns[:300], Y[:300])
    sizes, predict = [], type(student).predict
    monkeypatch.setattr(type(student), "predict", lambda self, X: sizes.append(len(X)) or predict(self, X))
    whole = asked(student, towns)
    assert sizes == [1_024, 1_024]
    for i, town, number in ((3, "Kyiv", 1e9), (1_400, None, np.nan)):
        other = towns.copy()
        other.loc[i, ["town", "x0"]] = [town, number]
        assert (np.delete(asked(student, other), i) == np.delete(whole, i)).all()


def test_one_records_text_does_not_decide_whether_others_are_answered():
    """An encoder of texts raises where it is handed an array of numbers: one text must not make objects of all."""
    public = np.array([[float(i % 7), "ab"[i % 2]] for i in range(60)], dtype=object)
    columns = ColumnTransformer([("t", OneHotEncoder(handle_unknown="ignore"), [1]), ("n", StandardScaler(), [0])])
    student = make_pipeline(columns, LogisticRegression()).fit(public, Y[:60] % 2)
    numbers = np.array([[float(i % 5), i % 3] for i in range(40)], dtype=object)
    one = numbers.copy()
    one[4, 1] = "a"
    plain, other = (
        asked(student, read.rows, read.usable)
        for read in (TeacherEnsemble(student, 3).read_private(rows, public) for rows in (numbers, one))
    )
    assert (plain >= 0).all()
    assert (np.delete(plain, 4) == np.delete(other, 4)).all()


def test_the_curator_is_told_where_asking_record_by_record_takes_minutes(monkeypatch):
    monkeypatch.setattr("pate.models.students._row_by_row._FIRST", 0.0)
    monkeypatch.setattr("pate.models.students._row_by_row._LONG", 0.0)
    student = make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression()).fit(X[:300], Y[:300])
    with pytest.warns(CuratorWarning, match=r"about each of 20 records by itself.* 1 min: the student has code"):
        asked(student, X[:20], ALL[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is paid for goes on
        assert len(asked(student, X[:20], ALL[:20])) == 20
    with pytest.warns(CuratorWarning, match="a person's records may move"):
        asked(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y), X[:20], ALL[:20], keep_places=False)


def test_frozen_parts_are_found_wherever_they_stand():
    frozen = FrozenEstimator(StandardScaler().fit(X))
    assert has_frozen(make_pipeline(frozen, LogisticRegression()))
    assert has_frozen(GridSearchCV(make_pipeline(frozen, LogisticRegression()), {}))
    assert not any(map(has_frozen, STUDENTS))


def _distance(a, b):
    return 0.0


@pytest.mark.parametrize(
    "student",
    [
        KNeighborsClassifier(metric=DistanceMetric.get_metric("pyfunc", func=_distance)),
        TfidfVectorizer(vocabulary=UserDict(a=0)),
        make_pipeline(KNNImputer(), LogisticRegression()),
    ],
)
def test_objects_of_the_users_and_imputers_by_neighbours_are_not_known(student):
    assert not is_known_throughout(student)


def test_values_and_splits_of_scikit_learn_are_known():
    assert is_known_throughout(KNeighborsClassifier(metric="cosine"))
    assert is_known_throughout(GridSearchCV(LogisticRegression(), {"C": [1.0, np.float64(2)]}, cv=KFold(3)))
