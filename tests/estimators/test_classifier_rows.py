"""PATEClassifier takes whatever rows its teachers take: texts, sparse rows, tables of texts and numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from pate import Budget, GNMax, InvalidInputError, Ledger, PATEClassifier, TeacherEnsemble
from pate.data import hardly_varies, is_text_column
from pate.estimators._public_model import digest_of
from pate.exceptions import CuratorWarning, StudentWarning
from pate.models.students import fit_student, make_student

RICH = Budget(1e4, 1e-5)
DIGITS, TRUTH = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
PRIVATE, PUBLIC, TEST = slice(0, 800), slice(1000, 1150), slice(1200, None)

COMPLAINTS = ["broken", "refund", "late", "missing"]
PRAISE = ["great", "thanks", "perfect", "quick"]


def notes(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    texts = [" ".join(rng.choice(COMPLAINTS if label else PRAISE, 3)) + f" {i}" for i, label in enumerate(y)]
    return texts, y


def reader():
    return make_pipeline(HashingVectorizer(n_features=64), LogisticRegression())


def classifier(estimator, **options):
    defaults = {"n_teachers": 8, "budget": RICH, "n_queries": 60, "random_state": 0, "noise_seed": 0}
    return pate_of(estimator, **(defaults | options))


@pytest.mark.few(1)
@pytest.mark.parametrize("form", [list, tuple, np.array, pd.Series, lambda t: np.array(t, dtype=object)])
def test_texts(form, tmp_path):
    (private, y), (public, _), (test, truth) = notes(200, 0), notes(80, 1), notes(90, 2)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    clf = classifier(reader(), classes=[0, 1], ledger=ledger).fit(
        form(private), form(y.tolist()), X_public=form(public)
    )
    assert clf.score(form(test), truth) > 0.9
    assert clf.predict_proba(test).shape == (90, 2)
    assert not hasattr(clf, "n_features_in_")
    # the same rows, and the same digests, in whatever form they come
    again = classifier(reader(), classes=[0, 1], ledger=ledger).fit(private, y, X_public=public)
    assert len(ledger.releases()) == 1
    assert np.array_equal(again.release_.labels, clf.release_.labels)
    teachers = TeacherEnsemble(reader(), 8, classes=[0, 1], random_state=0).fit(private, y)
    asked = [public[i] for i in clf.queries_]
    assert digest_of(teachers.vote(asked).query_hashes) == clf._asked
    assert clf.refit_student(form(public)).score(test, truth) > 0.9


def test_texts_and_tables_are_not_mixed_up():
    (private, y), (public, _) = notes(60, 0), notes(30, 1)
    with pytest.raises(InvalidInputError, match="private and public rows must be of one kind"):
        classifier(reader(), classes=[0, 1], n_queries=5).fit(np.zeros((60, 2)), y, X_public=public)
    with pytest.raises(InvalidInputError, match="must be of one kind"):
        classifier(reader(), classes=[0, 1], n_queries=5).fit(np.array(private, object), y, X_public=np.zeros((30, 2)))
    with pytest.raises(InvalidInputError, match="X must hold numbers for LogisticRegression, got texts"):
        classifier(LogisticRegression(), classes=[0, 1]).fit(private, y, X_public=public)
    with pytest.warns(CuratorWarning, match="1 of 60 records cannot be used"):
        classifier(reader(), classes=[0, 1], n_queries=20).fit([*private[:-1], None], y, X_public=public)
    clf = classifier(reader(), classes=[0, 1], n_queries=20).fit(private, y, X_public=public)
    with pytest.raises(InvalidInputError, match="must be of one kind"):
        clf.predict(np.zeros((3, 2)))
    # a fit on tables forgets the texts
    rows = np.random.default_rng(0).normal(size=(60, 2)) + 5 * np.asarray(y)[:, None]
    assert clf.set_params(estimator=GaussianNB()).fit(rows, y, X_public=rows[:30] + 0.5).n_features_in_ == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("voters", ["records", "heads", pytest.param("dpsgd", marks=pytest.mark.long)])
def test_a_frame_of_one_column_of_texts_counts_as_texts_as_on_the_command_line(voters):
    (private, y), (public, _), (test, truth) = notes(900, 0), notes(150, 1), notes(90, 2)
    clf = PATEClassifier(voters=voters, budget=Budget(8.0, 1e-5), classes=[0, 1], random_state=0)
    shown = [f"{one} p" for one in public]
    shown[3] = None  # a public cell that is missing is an empty text, as on the command line
    clf.fit(pd.DataFrame({"note": private}), y, X_public=pd.DataFrame({"note": shown}))
    assert clf.score(pd.DataFrame({"note": test}), truth) > 0.9


@pytest.mark.parametrize("columns", [["note"], ["note", "day"]])
def test_private_texts_beside_a_public_frame_are_refused(columns):
    (private, y), (public, _) = notes(60, 0), notes(30, 1)
    shown = pd.DataFrame({"note": public, "day": range(30)})[columns]
    for form in (list, tuple, np.array, pd.Series):
        with pytest.raises(InvalidInputError, match="X must not be a list or one-dimensional where the public rows"):
            PATEClassifier(voters="records", budget=RICH, classes=[0, 1]).fit(form(private), y, X_public=shown)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["a cold day", "a warm day", None, "rain"], True),
        (["a cold day", "a cold day", "a cold day", "a warm day"], False),
        (["cold", "warm", "rain"], False),
        ([1.0, 2.0], False),
        ([None, None], False),
        (["a cold day", 3, "a warm day"], True),
        (pd.Series(["a cold day", "a warm day"], dtype="string"), True),
        (pd.Categorical(["a cold day", "a warm day"]), False),
    ],
)
def test_public_cells_say_whether_a_column_holds_texts(cells, expected):
    assert is_text_column(pd.DataFrame({"note": cells})) is expected
    assert not is_text_column(pd.DataFrame({"note": cells, "day": 1}))
    assert not is_text_column(cells)


@pytest.mark.few(1)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_array, sparse.csc_matrix, sparse.csr_matrix])
def test_sparse_rows_are_the_same_as_dense_ones(form, tmp_path):
    X, y = DIGITS[PRIVATE], TRUTH[PRIVATE]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    model = BernoulliNB(binarize=0.5)
    alike = {"classes": range(10), "ledger": ledger, "select": "random", "student": model}
    dense = classifier(model, **alike).fit(X, y, X_public=DIGITS[PUBLIC])
    thin = classifier(model, **alike)
    with pytest.warns(CuratorWarning, match="private features are not those that release 1"):  # written otherwise
        thin.fit(form(X), y, X_public=form(DIGITS[PUBLIC]))
    assert len(ledger.releases()) == 1  # recognised by their digests
    assert thin._asked == dense._asked
    assert np.array_equal(thin.release_.labels, dense.release_.labels)
    assert np.array_equal(thin.predict(form(DIGITS[TEST])), dense.predict(DIGITS[TEST]))
    assert thin.score(form(DIGITS[TEST]), TRUTH[TEST]) > 0.4
    assert thin.n_features_in_ == 64
    with pytest.raises(InvalidInputError, match=r"63 features.*expecting 64"):
        thin.predict(form(DIGITS[TEST][:, 1:]))
    plain = fit_student(make_student("decision-tree"), form(DIGITS[PUBLIC]), TRUTH[PUBLIC])
    assert plain.predict(form(DIGITS[TEST])).shape == TRUTH[TEST].shape


def test_sparse_rows_for_teachers_that_need_dense_ones():
    X = sparse.csr_array(DIGITS[PRIVATE])
    with pytest.raises(InvalidInputError, match=r"X must be dense for GaussianNB, got a sparse matrix.*toarray"):
        classifier(GaussianNB(), classes=range(10)).fit(X, TRUTH[PRIVATE], X_public=X[:100])


def test_an_array_of_texts_and_numbers():
    rng = np.random.default_rng(0)
    towns = rng.choice(["Oslo", "Rome"], 300)
    X = np.empty((300, 2), dtype=object)
    X[:, 0], X[:, 1] = towns, rng.normal(size=300)
    y = ((X[:, 1].astype(float) > 0) ^ (towns == "Rome")).astype(int)
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0]), remainder="passthrough")
    clf = classifier(make_pipeline(encode, DecisionTreeClassifier(max_depth=5)), classes=[0, 1], n_queries=80)
    clf.fit(X[:200], y[:200], X_public=X[200:].tolist())
    assert clf.score(X[200:], y[200:]) > 0.7
    with pytest.raises(InvalidInputError, match="got texts in column 0"):
        classifier(LogisticRegression(), classes=[0, 1]).fit(X[:200], y[:200], X_public=X[200:])


@pytest.mark.filterwarnings("ignore::pate.exceptions.CovariateShiftWarning")  # whole numbers moved by a half
def test_missing_cells_go_to_teachers_that_take_them():
    X = DIGITS[PRIVATE].copy()
    X[::7, 3] = np.nan
    public = X[:100] + 0.5
    clf = classifier(HistGradientBoostingClassifier(max_iter=5), classes=range(10), mechanism=GNMax(1.0), n_teachers=3)
    clf.fit(X, TRUTH[PRIVATE], X_public=public)
    assert clf.predict(X[:5]).shape == (5,)
    with pytest.raises(InvalidInputError, match="NaN"):
        classifier(GaussianNB(), classes=range(10)).fit(X, TRUTH[PRIVATE], X_public=public)


def test_columns_of_exact_numbers_stay_whatever_their_precision():
    for dtype, start in (("float16", 1000), ("float32", 1_000_000), ("float64", 10**9)):
        low, high = np.array([start], dtype), np.array([start + 9], dtype)
        assert not hardly_varies(low, high, dtype)
    assert hardly_varies(np.float64(0.1) * 3, np.float64(0.3))


def test_a_student_that_cannot_be_asked_afterwards_costs_a_warning_alone():
    class Forgetful(GaussianNB):
        asked = 0

        def predict(self, X):
            type(self).asked += len(X) == 40
            if len(X) == 40 and type(self).asked > 1:
                raise MemoryError
            return super().predict(X)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    clf = PATEClassifier(GaussianNB(), n_teachers=20, budget=Budget(8.0, 1e-4), classes=[0, 1], student=Forgetful())
    clf.set_params(measure=False).fit(X, y, X_public=rng.normal(size=(40, 3)))
    assert clf.release_.n_answered > 0


def encoded(columns):
    return make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), columns), remainder=SimpleImputer()),
        LogisticRegression(),
    )


@pytest.mark.parametrize(
    ("estimator", "form"),
    [
        (encoded(["town"]), lambda t: t),
        (encoded(["town"]), lambda t: t.astype({"town": "category"})),
        (encoded([0]), lambda t: t.to_numpy(dtype=object)),
        (make_pipeline(SimpleImputer(), LogisticRegression()), lambda t: t[["age", "tax"]].to_numpy()),
        (HistGradientBoostingClassifier(max_iter=2), lambda t: t[["age", "tax"]]),
        (reader(), lambda t: t["town"].to_numpy()),
        (LogisticRegression(), lambda t: sparse.csr_array(t[["age", "tax"]].fillna(0).to_numpy())),
    ],
    ids=["table", "categories", "objects", "gaps", "gaps in a table", "texts", "sparse"],
)
def test_a_constant_student_predicts_any_row_that_the_teachers_take(estimator, form):
    age = np.random.default_rng(0).normal(40, 9, 90)
    age[:80:7] = np.nan
    towns = [f"town {i}" for i in range(90)]
    rows = form(pd.DataFrame({"town": towns, "age": age, "tax": age[::-1]}))
    y = np.arange(60) % 2
    with pytest.warns(StudentWarning, match="the student is a constant"):  # nobody wins by so much: no label
        clf = classifier(estimator, n_teachers=4, classes=[0, 1], n_queries=20, gap=1e9, overlap_is_public=True).fit(
            rows[:60], y, X_public=rows[60:]
        )
    assert clf.predict(rows[60:]).tolist() == [0] * 30
    assert clf.predict_proba(rows[60:])[:, 0].tolist() == [1.0] * 30
