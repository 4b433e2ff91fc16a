"""The ensemble: what it accepts, and that one record reaches one teacher's vote however the work is spread."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import sys
import traceback
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from pate.data.partition import partition
from pate.exceptions import CuratorWarning, DuplicateRecordsWarning, InvalidInputError, PrivacyLeakWarning
from pate.teachers import TeacherEnsemble, _shards, make_ensemble, make_teacher, named_teachers
from pate.votes import Voter, hash_queries

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = (DIGITS / 16).astype(np.float32)
X, Y, PUBLIC = DIGITS[:400], LABELS[:400], DIGITS[1000:1100]
K = 10


def ensemble(estimator=None, n_teachers=K, **options):
    options = {"classes": range(10), "random_state": 0, "partition_seed": 0} | options
    return TeacherEnsemble(LogisticRegression() if estimator is None else estimator, n_teachers, **options)


class Probe(ClassifierMixin, BaseEstimator):
    """Remembers how many threads it was given, and says aloud what it should not."""

    def __init__(self, inner_jobs=None):
        self.inner_jobs = inner_jobs

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.threads_ = _threads()
        self.jobs_ = joblib.effective_n_jobs(self.inner_jobs)
        self.pid_ = os.getpid()
        warnings.warn(f"the first private label is {y[0]}", UserWarning, stacklevel=1)
        return self

    def predict(self, X):
        assert _threads() <= 1
        warnings.warn("private", UserWarning, stacklevel=1)
        return np.full(len(X), self.classes_[0])


class Fails(ClassifierMixin, BaseEstimator):
    def __init__(self, when="fit"):
        self.when = when

    def fit(self, X, y):
        if self.when == "fit":
            raise ValueError(f"could not convert {X[0]!r}: patient Smith")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        if self.when == "predict":
            raise RuntimeError("patient Smith")
        return {
            "class": np.full(len(X), 10),
            "text": np.full(len(X), "Smith"),
            "shape": np.zeros(len(X) + 1, dtype=int),
            "half": np.full(len(X), 0.5),
        }[self.when]


def _threads():
    return max((pool["num_threads"] for pool in threadpool_info()), default=1)


# --- votes ---------------------------------------------------------------------------------------------------------


def test_votes_are_those_of_a_plain_loop():
    teachers = ensemble().fit(X, Y)
    cut = partition(len(X), K, partition_seed=teachers.partition_seed)
    plain = [LogisticRegression().fit(X[cut.shard(i)], Y[cut.shard(i)]).predict(PUBLIC) for i in range(K)]
    votes = teachers.vote(PUBLIC)
    assert votes.labels.tolist() == np.array(plain).tolist()
    assert votes.counts.sum(axis=1).tolist() == [K] * len(PUBLIC)
    assert (votes.counts.argmax(axis=1) == LABELS[1000:1100]).mean() > 0.7
    assert votes.query_hashes == hash_queries(PUBLIC)
    assert (votes.unit, votes.n_units, votes.classes) == ("record", 400, tuple(range(10)))
    assert isinstance(teachers, Voter)


#: Half a minute or more each on a busy core.
SLOW = ("torch-papernot-cnn", "torch-papernot-deep-cnn", "torch-small-resnet")


#: Cheap ones, one of them a network; the others take a second or more.
SHORT = ("decision-tree", "knn", "logistic-regression", "mlp", "naive-bayes", "svm", "torch-tanh-mlp")


def marks(name):
    return [pytest.mark.slow] if name in SLOW else [] if name in SHORT else [pytest.mark.long]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in named_teachers()])
def test_named_teachers_learn_from_small_shards(name):
    teachers = make_ensemble(make_teacher(name), 4, classes=range(10), random_state=0)
    votes = teachers.fit(DIGITS[:600], LABELS[:600]).vote(PUBLIC)
    assert votes.n_teachers == 4
    assert (votes.counts.argmax(axis=1) == LABELS[1000:1100]).mean() > 0.6


def test_chunks_and_dropped_labels_change_nothing():
    teachers = ensemble().fit(X, Y)
    whole = teachers.vote(PUBLIC)
    for size in (1, 7, 100):
        part = teachers.vote(PUBLIC, keep_labels=False, chunk_size=size)
        assert part.labels is None
        assert part.counts.tolist() == whole.counts.tolist()
        assert part.query_hashes == whole.query_hashes


@pytest.mark.long
@pytest.mark.parametrize(
    "estimator",
    [
        SGDClassifier(max_iter=20),
        make_pipeline(
            SelectFromModel(RandomForestClassifier(5)), RandomForestClassifier(5, max_features=0.3, n_jobs=2)
        ),
    ],
    ids=["sgd", "pipeline of forests"],
)
def test_workers_do_not_change_votes(estimator):
    alone = ensemble(estimator, n_jobs=1).fit(X, Y).vote(PUBLIC).labels.tolist()
    assert ensemble(estimator, n_jobs=2).fit(X, Y).vote(PUBLIC).labels.tolist() == alone
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert ensemble(estimator).fit(X, Y).vote(PUBLIC).labels.tolist() == alone
    assert ensemble(estimator, random_state=1).fit(X, Y).vote(PUBLIC).labels.tolist() != alone


def test_teachers_have_seeds_of_their_own_at_every_depth():
    model = make_pipeline(SelectFromModel(RandomForestClassifier(2)), DecisionTreeClassifier())
    seeds = [(t[0].estimator.random_state, t[1].random_state) for t in ensemble(model).fit(X, Y).teachers_]
    flat = [seed for pair in seeds for seed in pair]
    assert len(set(flat)) == 2 * K
    assert model[1].random_state is None


@pytest.mark.long
def test_a_backend_without_generators_works():
    expected = ensemble(GaussianNB()).fit(X, Y).vote(PUBLIC).labels.tolist()
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
        assert ensemble(GaussianNB()).fit(X, Y).vote(PUBLIC).labels.tolist() == expected


def test_settings_of_scikit_learn_reach_the_workers():
    frame = pd.DataFrame(X[:, 20:30], columns=[f"c{i}" for i in range(10)])
    model = make_pipeline(StandardScaler(), FunctionTransformer(_needs_names), GaussianNB())
    from sklearn import config_context

    with config_context(transform_output="pandas"):
        ensemble(model, 4, n_jobs=2).fit(frame, Y).vote(frame[:5])


def _needs_names(frame):
    assert "c0" in frame.columns
    return frame


# --- one record, one teacher ---------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(copy=False), LogisticRegression()),
        RandomForestClassifier(5),
        KNeighborsClassifier(1),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_a_record_moves_only_its_own_teacher(estimator, kind):
    if kind is sparse.csr_array and hasattr(estimator, "steps"):
        estimator = make_pipeline(StandardScaler(copy=False, with_mean=False), LogisticRegression())
    record = 17
    X_other, y_other = X.copy(), Y.copy()
    X_other[record] = 50.0 - 100 * X_other[record]
    y_other[record] = (Y[record] + 1) % 10
    before = ensemble(estimator).fit(kind(X), Y)
    after = ensemble(estimator).fit(kind(X_other), y_other)
    owner = int(before.partition_.assignment[record])
    assert after.partition_.fingerprint() == before.partition_.fingerprint()
    # Near the changed record too, so that the owner has something to change its mind about.
    queries = np.concatenate([PUBLIC, X_other[record][None]])
    old, new = before.vote(kind(queries)).labels, after.vote(kind(queries)).labels
    moved = np.flatnonzero((old != new).any(axis=1))
    assert moved.tolist() == [owner]


def test_a_person_reaches_one_teacher():
    people = np.repeat(np.arange(40), 10)
    teachers = ensemble(n_teachers=8).fit(X, Y, groups=people)
    votes = teachers.vote(PUBLIC)
    assert (votes.unit, votes.n_units) == ("group", 40)
    X_other = np.where((people == 3)[:, None], 1 - X, X)
    y_other = np.where(people == 3, (Y + 1) % 10, Y)
    changed = (ensemble(n_teachers=8).fit(X_other, y_other, groups=people).vote(PUBLIC).labels != votes.labels).any(1)
    assert np.flatnonzero(changed).tolist() == [int(teachers.partition_.assignment[30])]


def owners(model, frames, queries, *, seed=0, n_teachers=20):
    """Which teachers voted otherwise on the second table than on the first, and who owns record 0."""
    y = np.random.default_rng(9).integers(0, 2, len(frames[0]))
    fitted = [ensemble(model, n_teachers, classes=(0, 1), partition_seed=seed).fit(f, y) for f in frames]
    votes = [t.vote(queries).labels for t in fitted]
    return np.flatnonzero((votes[0] != votes[1]).any(1)).tolist(), int(fitted[0].partition_.assignment[0]), fitted


class TypesOf(ClassifierMixin, BaseEstimator):
    """Votes for what it saw of its table besides the values: types, categories, codes, row names."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.codes_ = {
            value: code for c in X.select_dtypes("category") for value, code in zip(X[c], X[c].cat.codes, strict=True)
        }
        self.seen_ = repr([X.dtypes.map(repr).tolist(), X.index, X.attrs, sorted(map(repr, self.codes_.items()))])
        return self

    def predict(self, X):
        self.asked_ = X.dtypes.map(str).tolist()
        return np.full(len(X), int(hashlib.sha256(self.seen_.encode()).hexdigest(), 16) % 2)


@pytest.mark.long
def test_a_missing_cell_changes_the_columns_of_no_other_teacher():
    """The reviewer's demonstration: int64 became float64 for all, and a selector of integers then chose no column."""
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({"a": rng.integers(0, 50, 400), "flag": rng.random(400) < 0.5, "b": rng.normal(size=400)})
    whole["n"] = pd.array(rng.integers(0, 9, 400), dtype="Int64")
    holed = whole.assign(a=whole["a"].astype(float), flag=whole["flag"].astype("boolean"))
    holed.loc[0, ["a", "flag", "n"]] = [np.nan, pd.NA, pd.NA]
    for kind in ("int", "bool", "Int64", "number", "float"):
        chosen = make_column_transformer(
            ("passthrough", ["constant"]), (SimpleImputer(), make_column_selector(dtype_include=kind))
        )
        model = make_pipeline(FunctionTransformer(_with_constant), chosen, DecisionTreeClassifier(max_depth=3))
        moved, owner, _ = owners(model, (whole, holed), whole.iloc[:100])
        assert set(moved) <= {owner}
    _, owner, (before, after) = owners(TypesOf(), (whole, holed), whole.iloc[:1])
    assert [t.seen_ for t in before.teachers_] == [t.seen_ for t in after.teachers_]
    assert before.teachers_[0].asked_ == ["float64"] * 4


def _with_constant(frame):
    return frame.assign(constant=0).astype({"constant": "float64"})


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "change",
    [lambda f: "Aachen", lambda f: "Zagreb", lambda f: None, lambda f: "Oslo"],
    ids=["first", "last", "none", "known"],
)
def test_a_category_is_seen_by_its_own_teacher_only(change):
    """The reviewer's demonstration: one new category shifted the codes in all shards, and 20 of 20 votes with them."""
    rng = np.random.default_rng(0)
    towns = rng.choice(["Bonn", "Oslo", "Rome"], 400).astype(object)
    other = towns.copy()
    other[0] = change(towns)
    frames = []
    for values in (towns, other):
        frame = pd.DataFrame(
            {"town": pd.Categorical(values), "first": pd.Categorical(values, categories=_seen(values))}
        )
        levels = [*_seen(sorted(_seen(values))), "spare"]
        frame["level"] = pd.Categorical(values, categories=levels, ordered=True)
        frame["code"] = pd.Categorical(np.where(np.arange(400) == 0, 0.5 if values is other else 1, np.arange(400) % 3))
        frame["number"] = np.arange(400.0)
        frame.attrs["private"] = str(values[0])
        frames.append(frame)
    moved, owner, (before, after) = owners(TypesOf(), frames, frames[0].iloc[1:3])
    assert set(moved) <= {owner}
    for i, (a, b) in enumerate(zip(before.teachers_, after.teachers_, strict=True)):
        assert (a.seen_ == b.seen_) or i == owner


def _seen(values):
    return list(dict.fromkeys(v for v in values if v is not None))


def test_columns_of_other_kinds_in_public_are_refused():
    frame = pd.DataFrame({"a": np.arange(40.0), "b": ["x", "y"] * 20})
    odd = frame.assign(a=np.array([*map(str, range(39)), "?"], dtype=object))
    model, y = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()), [0, 1] * 20
    teachers = ensemble(model, 2, classes=(0, 1)).fit(odd, y)
    with pytest.raises(
        InvalidInputError, match=r"other kinds than the teachers were fitted on: .a. \(text, here number\)"
    ):
        teachers.vote(frame[:5])
    ensemble(model, 2, classes=(0, 1)).fit(frame, y).vote(frame[:5].assign(a=[1, 2, 3, 4, 5]))


def test_lists_have_no_type_that_a_cell_could_change():
    rows = [[i, i % 3] for i in range(40)]
    half = [[0.5, 0], *rows[1:]]
    types = [
        ensemble(TypesOfArray(), 4, classes=(0, 1)).fit(r, [0, 1] * 20, X_public=rows).teachers_[0].dtype_
        for r in (rows, half)
    ]
    assert types == [np.dtype(float)] * 2


@pytest.mark.parametrize("form", [list, lambda rows: np.array(rows, dtype=object)], ids=["list", "objects"])
def test_one_text_makes_no_other_cells_objects(form):
    """Where public rows have texts, private ones are objects even if none, or one alone, has a text."""
    public, rows = [[1.0, "a"], [2, 3]] * 5, [[i, i % 3] for i in range(40)]
    rows[7] = [7, None]
    with_text = [[i, "a"] if i == 5 else row for i, row in enumerate(rows)]
    plain, other = (ensemble(SeesTexts(), 4).read_private(form(r), public).rows for r in (rows, with_text))
    assert plain.dtype == other.dtype == object
    assert list(map(repr, np.delete(plain, 5, axis=0).ravel())) == list(map(repr, np.delete(other, 5, axis=0).ravel()))
    numbers = ensemble(SeesTexts(), 4).read_private(form(with_text), [[1.0, 2.0], [3, 4]]).rows
    assert numbers.dtype == float
    assert np.isnan(numbers[5, 1])


class NumbersAlone(BaseEstimator, TransformerMixin):
    """All rows are one where they are objects."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.zeros(X.shape) if X.dtype == object else X


@pytest.mark.parametrize("form", [lambda rows: np.array(rows, dtype=object)], ids=["objects"])
def test_without_public_rows_one_text_changes_the_type_of_its_own_shard_alone(form):
    rows, y = [[float(i), i % 3] for i in range(60)], np.arange(60) // 30
    public = [[float(i), 1.0] for i in range(0, 60, 5)]
    teachers = [
        ensemble(make_pipeline(NumbersAlone(), GaussianNB()), 4, classes=(0, 1)).fit(form(r), y)
        for r in (rows, [[5.0, "a"] if i == 5 else row for i, row in enumerate(rows)])
    ]
    (own,) = [i for i, shard in enumerate(teachers[0].partition_.shards()) if 5 in shard]
    plain, other = (
        [one.predict(np.array(public)) for i, one in enumerate(made.teachers_) if i != own] for made in teachers
    )
    assert (np.array(plain) == np.array(other)).all()
    assert len(np.unique(other)) == 2


class SeesTexts(GaussianNB):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags


class TypesOfArray(GaussianNB):
    def fit(self, X, y):
        self.dtype_ = X.dtype
        return super().fit(X, y)


# --- generators that everybody shares --------------------------------------------------------------------------------


class Draws(ClassifierMixin, BaseEstimator):
    """Draws from the global generators as often as its rows tell it to, in fit and in predict."""

    def fit(self, X, y):
        self.classes_, self.drawn_ = np.unique(y), (np.random.random(1 + int(X[:, 0].sum()) % 50)[0], random.random())  # noqa: NPY002
        self.again_ = 1 + int(X[:, 0].sum()) % 50
        return self

    def predict(self, X):
        np.random.random(self.again_)  # noqa: NPY002
        return np.random.randint(0, 2, len(X)) if random.random() < 0.5 else np.full(len(X), self.classes_[0])  # noqa: NPY002


def test_the_global_generator_carries_nothing_from_one_teacher_to_the_next():
    """The reviewer's demonstration: a search that shuffles its folds, and one flipped label in the first shard."""
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 3]}, cv=StratifiedKFold(2, shuffle=True))
    private, y = DIGITS[:160, 20:40], (LABELS[:160] % 2).copy()
    cut = partition(160, 4, partition_seed=0)
    flipped = y.copy()
    flipped[cut.shard(0)[:3]] ^= 1
    results = []
    for labels in (y, flipped):
        np.random.seed(0)  # noqa: NPY002
        fitted = ensemble(search, 4, classes=(0, 1)).fit(private, labels)
        results.append([t.cv_results_["split0_test_score"].tolist() for t in fitted.teachers_])
    assert results[0][1:] == results[1][1:]
    assert results[0][0] != results[1][0]
    np.random.seed(123)  # neither does the caller's state come in  # noqa: NPY002
    again = ensemble(search, 4, classes=(0, 1)).fit(private, y)
    assert [t.cv_results_["split0_test_score"].tolist() for t in again.teachers_] == results[0]


def test_a_stack_that_predicts_only_once_it_is_fitted_is_a_teacher():
    stack = StackingClassifier([("tree", DecisionTreeClassifier())], cv=2)
    assert not hasattr(stack, "predict")
    fitted = ensemble(stack, 4, classes=(0, 1)).fit(DIGITS[:160], LABELS[:160] % 2)
    assert fitted.failed_ == {}
    assert fitted.vote(DIGITS[160:170]).n_queries == 10


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_global_generators_are_seeded_by_teacher_and_given_back(n_jobs):
    y = LABELS[:160] % 2
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = repr(np.random.get_state()), random.getstate()  # noqa: NPY002
    fitted = ensemble(Draws(), 8, classes=(0, 1), n_jobs=n_jobs).fit(16 * DIGITS[:160], y)
    votes = fitted.vote(PUBLIC).labels
    assert (repr(np.random.get_state()), random.getstate()) == before  # noqa: NPY002
    drawn = [t.drawn_ for t in fitted.teachers_]
    assert len({a for a, _ in drawn}) == len({b for _, b in drawn}) == 8
    expected = ensemble(Draws(), 8, classes=(0, 1)).fit(16 * DIGITS[:160], y)
    assert [t.drawn_ for t in expected.teachers_] == drawn
    assert expected.vote(PUBLIC).labels.tolist() == votes.tolist()
    # One record of teacher 0's: it draws another number of times, in fit and in predict.
    other = 16 * DIGITS[:160]
    other[fitted.partition_.shard(0)[0], 0] += 7
    changed = ensemble(Draws(), 8, classes=(0, 1)).fit(other, y)
    assert changed.teachers_[0].again_ != expected.teachers_[0].again_
    assert [t.drawn_ for t in changed.teachers_[1:]] == drawn[1:]
    assert changed.vote(PUBLIC).labels[1:].tolist() == votes[1:].tolist()


def test_threads_give_the_callers_generators_back():
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = repr(np.random.get_state()), random.getstate()  # noqa: NPY002
    with joblib.parallel_config(backend="threading", n_jobs=2):
        ensemble(Draws(), 8, classes=(0, 1)).fit(DIGITS[:160], LABELS[:160] % 2).vote(PUBLIC)
    assert (repr(np.random.get_state()), random.getstate()) == before  # noqa: NPY002


def test_inputs_are_left_as_they_were():
    private, public = X.copy(), PUBLIC.copy()
    model = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    ensemble(model).fit(private, Y).vote(public)
    assert (private == X).all()
    assert (public == PUBLIC).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_large_shards_may_be_written_to_in_any_process(kind):
    # joblib maps arrays above 1 MB into its workers read-only.
    wide = np.tile(X, (1, 120)).astype(np.float64)
    model = make_pipeline(StandardScaler(copy=False), GaussianNB(var_smoothing=0.1))
    votes = [
        ensemble(model, 2, n_jobs=n_jobs).fit(kind(wide), Y).vote(kind(wide[:60])).labels.tolist() for n_jobs in (1, 2)
    ]
    assert votes[0] == votes[1]


# --- shards with few classes ---------------------------------------------------------------------------------------


def test_shards_that_miss_classes_or_hold_one_still_vote():
    y = np.where(np.arange(400) < 3, 7, 2)
    votes = ensemble().fit(X, y).vote(PUBLIC)
    assert set(np.unique(votes.labels)) <= {2, 7}
    assert votes.n_teachers == K
    assert (votes.labels == 2).all(axis=1).sum() >= K - 3
    assert votes.counts[:, [0, 1, 3, 4, 5, 6, 8, 9]].sum() == 0


def test_labels_of_any_kind_become_indices():
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    by_name = ensemble(classes=names.tolist()).fit(X, names[Y]).vote(PUBLIC)
    assert by_name.labels.tolist() == ensemble().fit(X, Y).vote(PUBLIC).labels.tolist()
    assert by_name.classes == tuple(names.tolist())


# --- threads and silence -------------------------------------------------------------------------------------------


def test_pools_of_threads_are_looked_for_again_after_an_import_alone(monkeypatch):
    looked = []
    monkeypatch.setattr(_shards, "ThreadpoolController", lambda: looked.append(1) or ThreadpoolController())
    monkeypatch.delitem(sys.modules, "pate_nothing", raising=False)
    _shards._thread_pools.cache_clear()
    ensemble().fit(X, Y).vote(PUBLIC)
    before = len(looked)  # the first fit may import something
    ensemble().fit(X, Y).vote(PUBLIC)
    assert len(looked) == before
    monkeypatch.setitem(sys.modules, "pate_nothing", sys)  # a library may have come with it
    ensemble().fit(X, Y)
    assert len(looked) == before + 1


@pytest.mark.parametrize(("backend", "n_jobs"), [("loky", 1), ("threading", 2), ("loky", 2)])
def test_one_thread_per_worker_and_the_callers_limit_comes_back(backend, n_jobs, capfd):
    with threadpool_limits(2):
        before = threadpool_info()
        filters = list(warnings.filters)
        with joblib.parallel_config(backend=backend, n_jobs=n_jobs):
            teachers = ensemble(Probe(inner_jobs=4)).fit(X, Y)
            teachers.vote(PUBLIC)
        assert [p["num_threads"] for p in threadpool_info()] == [p["num_threads"] for p in before]
        assert list(warnings.filters) == filters
    assert {t.threads_ for t in teachers.teachers_} == {1}
    assert {t.jobs_ for t in teachers.teachers_} == {1}
    assert ({t.pid_ for t in teachers.teachers_} == {os.getpid()}) == (backend == "threading" or n_jobs == 1)
    assert capfd.readouterr() == ("", "")


def test_progress_is_shown_when_asked_for(capfd):
    ensemble(GaussianNB(), 4, verbose=True).fit(X, Y).vote(PUBLIC)
    shown = capfd.readouterr()
    assert "teachers voting: 4 done" in shown.err
    assert shown.out == ""


def chain_of(error):
    """All that a traceback of an exception would show."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_estimator_that_fails_on_any_rows_is_refused_before_training(n_jobs, capfd):
    teachers = ensemble(Fails(), n_jobs=n_jobs)
    with pytest.raises(InvalidInputError, match=r"cannot be trained on .* made-up rows") as caught:
        teachers.fit(X, Y)
    assert repr(X[0]) not in chain_of(caught.value)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(NotFittedError):
        teachers.vote(PUBLIC)


class Picky(GaussianNB):
    """Fails on a shard that holds the marked record, quoting it, in one of many ways."""

    def __init__(self, how=ValueError):
        super().__init__()
        self.how = how

    def fit(self, X, y):
        if (X > MARK / 2).any():
            raise self.how(f"could not convert {X[X > MARK / 2][0]}: patient Smith")
        return super().fit(X, y)


MARK = 1e6


def marked(record=17, value=MARK):
    rows = X.astype(np.float64)
    rows[record, 3] = value
    return rows


@pytest.mark.long
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("how", [ValueError, MemoryError, SystemExit, RecursionError])
def test_a_failed_teacher_votes_for_a_fixed_class_and_the_curator_is_warned(n_jobs, how, capfd):
    if how is MemoryError and n_jobs == 2:
        n_jobs = 1  # it is tried once more in a process of its own: that is two already
    good = ensemble(Picky(how), n_jobs=n_jobs).fit(X.astype(np.float64), Y)
    teachers = ensemble(Picky(how), n_jobs=n_jobs)
    with pytest.warns(CuratorWarning, match=r"1 of 10 teachers could not be trained \(teacher \d: .*\)") as caught:
        teachers.fit(marked(), Y)
    assert "Smith" not in str(caught[0].message)
    owner = int(teachers.partition_.assignment[17])
    assert list(teachers.failed_) == [owner]
    assert teachers.teachers_[owner] is None
    assert capfd.readouterr() == ("", "")
    before, votes = good.vote(PUBLIC), teachers.vote(PUBLIC)
    assert (votes.labels[owner] == owner % 10).all()
    others = [i for i in range(K) if i != owner]
    assert (votes.labels[others] == before.labels[others]).all()
    assert votes.counts.sum(axis=1).tolist() == [K] * len(PUBLIC)
    assert teachers.vote(PUBLIC, keep_labels=False).counts.tolist() == votes.counts.tolist()


@pytest.mark.few(4)
@pytest.mark.parametrize("when", ["predict", "class", "text", "shape", "half"])
@pytest.mark.parametrize("keep_labels", [True, False])
def test_a_teacher_that_cannot_vote_votes_for_a_fixed_class(when, keep_labels):
    teachers = ensemble(Fails(when)).fit(X, Y)
    with pytest.warns(CuratorWarning, match="10 of 10 teachers could not vote") as caught:
        votes = teachers.vote(PUBLIC, keep_labels=keep_labels)
    assert "Smith" not in str(caught[0].message)
    assert votes.counts.tolist() == [[1] * 10] * len(PUBLIC)
    assert sorted(teachers.failed_in_vote_) == list(range(10))
    assert teachers.failed_ == {}


def test_wrong_parameters_of_the_estimator_are_quoted():
    with pytest.raises(InvalidInputError, match=r"The 'C' parameter.*-1"):
        ensemble(LogisticRegression(C=-1)).fit(X, Y)


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(300) < 0.1, np.nan, 40 + 20 * y + rng.normal(0, 5, 300)),
            "town": pd.Series(rng.choice(["A", "B", "C"], 300)),
            "dose": rng.normal(0, 2, 300) + y,
        }
    ), np.where(y, "ill", "well")


def tabular():
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "dose"]),
        (OneHotEncoder(handle_unknown="ignore"), ["town"]),
    )
    return make_pipeline(columns, LogisticRegression())


def test_mixed_tables(table):
    frame, y = table
    frame.loc[0, "town"] = "rare"
    teachers = ensemble(tabular(), 6, classes=["well", "ill"]).fit(frame[:200], y[:200])
    assert teachers.feature_names_in_.tolist() == ["age", "town", "dose"]
    votes = teachers.vote(frame[200:])
    assert ((votes.counts.argmax(axis=1) == 1) == (y[200:] == "ill")).mean() > 0.85
    assert votes.query_hashes == hash_queries(frame[200:])
    turned = teachers.vote(frame.loc[200:, ["dose", "age", "town"]])
    assert turned.labels.tolist() == votes.labels.tolist()
    spread = ensemble(tabular(), 6, classes=["well", "ill"], n_jobs=2).fit(frame[:200], y[:200])
    assert spread.vote(frame[200:], chunk_size=9).labels.tolist() == votes.labels.tolist()


def test_tables_with_other_columns_are_refused(table):
    frame, y = table
    teachers = ensemble(tabular(), 6, classes=["well", "ill"]).fit(frame, y)
    with pytest.raises(InvalidInputError, match=r"lacks 'dose'; it also has 'dosis'"):
        teachers.vote(frame.rename(columns={"dose": "dosis"}))
    with pytest.raises(InvalidInputError, match="must be a DataFrame"):
        teachers.vote(frame.to_numpy())
    with pytest.raises(InvalidInputError, match="same name"):
        teachers.vote(pd.concat([frame, frame["dose"]], axis=1))


def test_sparse_rows_vote_like_dense_ones():
    dense = ensemble().fit(X, Y).vote(PUBLIC)
    thin = ensemble().fit(sparse.csr_array(X), Y).vote(sparse.coo_array(PUBLIC), chunk_size=33)
    assert (thin.labels == dense.labels).mean() > 0.99
    assert thin.query_hashes == dense.query_hashes


# --- refusals ------------------------------------------------------------------------------------------------------


def with_nan(value=np.nan):
    rows = X.copy()
    rows[3, 4] = value
    return rows


@pytest.mark.filterwarnings("ignore::pate.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"n_teachers": 401}, "at most the number of records"),
        ({"n_teachers": 0}, "n_teachers must be"),
        ({"n_teachers": 2.5}, "n_teachers must be"),
        ({"groups": np.arange(400) % 9}, "number of groups"),
        ({"groups": [1, 2]}, "groups must have shape"),
        ({"y": np.ones(400, dtype=int), "classes": None}, "only one class"),
        ({"y": np.array([None, 1] * 200, dtype=object), "classes": None}, "missing values"),
        ({"y": Y[:399]}, "one class per row"),
        ({"y": Y[:, None]}, "one class per row"),
        ({"classes": [1]}, "at least two"),
        ({"groups": [None] * 400}, "missing ids"),
        ({"X": X[0]}, r"shape \(n, n_features\)"),
        ({"X": X.reshape(400, 4, 2, 4, 2)}, "reshape"),
        ({"X": X[:, :0]}, "at least one row and one column"),
        ({"X": X + 1j}, "real numbers"),
        ({"X": [[1], [1, 2], [1]]}, "declared width"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": "many"}, "n_jobs"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": np.random.RandomState(0)}, "random_state"),
        ({"estimator": LogisticRegression}, "instance"),
        ({"estimator": "svm"}, "scikit-learn classifier"),
        ({"estimator": LinearRegression()}, "must be a classifier"),
        ({"estimator": SVC(kernel="precomputed")}, "precomputed"),
    ],
)
def test_bad_input_is_refused(change, text):
    options = {"estimator": GaussianNB(), "X": X, "y": Y, "groups": None} | change
    rows, y, groups = (options.pop(name) for name in ("X", "y", "groups"))
    with pytest.raises(InvalidInputError, match=text):
        ensemble(**options).fit(rows, y, groups=groups)


def with_odd_cell(cell):
    rows = X.astype(object)
    rows[3, 4] = cell
    return rows


def as_frame(rows):
    return pd.DataFrame(rows).astype(float)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "change",
    [
        {"X": with_nan()},
        {"X": with_nan(np.inf)},
        {"X": as_frame(with_nan())},
        {"X": sparse.csr_array(with_nan())},
        {"X": with_odd_cell(None)},
        {"X": with_odd_cell("John Doe")},
        {"X": with_odd_cell(2j)},
        {"X": [row if i != 3 else row[:5] for i, row in enumerate(X.tolist())]},
        {"X": pd.DataFrame(with_odd_cell("John Doe"))},
        {"y": np.where(np.arange(400) == 3, np.nan, Y)},
        {"y": np.where(np.arange(400) == 3, 12, Y)},
        {"y": [*Y[:3].tolist(), "?", *Y[4:].tolist()]},
        {"y": [*Y[:3].tolist(), [], *Y[4:].tolist()]},
        {"groups": [*range(3), None, *range(4, 400)]},
    ],
)
def test_a_record_that_cannot_be_used_is_left_out_of_its_shard(change):
    """Not refused: one record would decide whether there is a release."""
    rows, y, groups = ({"X": X, "y": Y, "groups": None} | change).values()
    usual = X.astype(rows.dtype) if isinstance(rows, np.ndarray) else X
    kind = sparse.csr_array if sparse.issparse(rows) else type(rows) if hasattr(rows, "iloc") else np.asarray
    before = ensemble(MultinomialNB()).fit(kind(usual), Y, groups=None if groups is None else np.arange(400))
    teachers = ensemble(MultinomialNB())
    like = PUBLIC if isinstance(rows, list) else None  # a list has no width of its own
    with pytest.warns(CuratorWarning, match="1 of 400 records cannot be used"):
        teachers.fit(rows, y, X_public=like, groups=groups)
    if groups is None:
        owner = int(teachers.partition_.assignment[3])
        others = [i for i in range(K) if i != owner]
        assert (teachers.vote(kind(PUBLIC)).labels[others] == before.vote(kind(PUBLIC)).labels[others]).all()
        assert teachers.teachers_[owner].class_count_.sum() == len(teachers.partition_.shard(owner)) - 1
    assert teachers.failed_ == {}


def test_private_labels_of_one_class_make_teachers_that_say_it():
    votes = ensemble().fit(X, np.full(400, 7)).vote(PUBLIC)
    assert (votes.labels == 7).all()


def test_missing_values_go_to_estimators_that_take_them():
    for model in (
        HistGradientBoostingClassifier(max_iter=2),
        make_pipeline(StandardScaler(), SimpleImputer(), GaussianNB()),
    ):
        votes = ensemble(model, 2).fit(with_nan(), Y).vote(with_nan()[:10])
        assert votes.n_queries == 10


def test_public_rows_are_checked():
    teachers = ensemble().fit(X, Y)
    with pytest.raises(InvalidInputError, match="X has 63 columns"):
        teachers.vote(PUBLIC[:, 1:])
    with pytest.raises(InvalidInputError, match="NaN"):
        teachers.vote(with_nan())
    with pytest.raises(InvalidInputError, match="chunk_size"):
        teachers.vote(PUBLIC, chunk_size=0)
    with pytest.raises(InvalidInputError, match="at least one row"):
        teachers.vote(PUBLIC[:0])
    with pytest.raises(NotFittedError):
        ensemble().vote(PUBLIC)


def test_reading_the_classes_from_private_labels_warns():
    with pytest.warns(PrivacyLeakWarning, match="classes=None"):
        teachers = ensemble(classes=None).fit(X, Y)
    assert teachers.classes_ == tuple(range(10))
    assert teachers.vote(PUBLIC).classes_inferred
    assert not ensemble().fit(X, Y).vote(PUBLIC).classes_inferred


def test_repeated_rows_warn_the_curator():
    twice = np.concatenate([X, X[:50]])
    with pytest.warns(DuplicateRecordsWarning, match=r"^\d+ distinct rows"):
        ensemble().fit(twice, np.concatenate([Y, Y[:50]]))
    with pytest.warns(DuplicateRecordsWarning):
        ensemble().fit(sparse.csr_array(twice), np.concatenate([Y, Y[:50]]))
    people = np.concatenate([np.arange(400), np.arange(50)])
    ensemble().fit(twice, np.concatenate([Y, Y[:50]]), groups=people)  # the same person: no warning
    with pytest.warns(DuplicateRecordsWarning) as caught:
        ensemble().fit(twice, np.concatenate([Y, Y[:50]]), groups=np.arange(450))
    assert "give all records of a person the same id" in str(caught[0].message)
    assert "groups=" not in str(caught[0].message)  # they were given


# --- a scikit-learn object -----------------------------------------------------------------------------------------


def test_clone_params_and_pickle():
    teachers = ensemble(SVC(C=3.0), n_jobs=1)
    assert clone(teachers).get_params()["estimator__C"] == 3.0
    assert teachers.set_params(estimator__C=4.0).estimator.C == 4.0
    fitted = teachers.fit(X, Y)
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.vote(PUBLIC).labels.tolist() == fitted.vote(PUBLIC).labels.tolist()
    assert not hasattr(clone(fitted), "teachers_")


def test_repr_shows_parameters_only():
    teachers = ensemble(GaussianNB(), random_state=None)
    before = repr(teachers), teachers._repr_html_().count("\n")
    teachers.fit(X, Y)
    assert (repr(teachers), teachers._repr_html_().count("\n")) == before
    assert "teachers_" not in teachers._repr_html_()
    assert "partition_" not in teachers._repr_html_().replace("partition_seed", "")


def test_without_a_seed_every_fit_cuts_other_shards():
    first, second = (ensemble(GaussianNB(), partition_seed=None).fit(X, Y).partition_ for _ in range(2))
    assert first.fingerprint() != second.fingerprint()


class Scribbler(ClassifierMixin, BaseEstimator):
    """Writes to the rows it predicts, past the read-only flag, as a wrapper around torch may."""

    def fit(self, X, y):
        self.classes_, self.mean_ = np.unique(y), X.mean(0)
        return self

    def predict(self, X):
        import torch

        rows = torch.from_numpy(X).sub_(torch.from_numpy(self.mean_))
        return (rows[:, 0].numpy() > 0).astype(int)


@pytest.mark.parametrize("make", [Scribbler, lambda: make_pipeline(StandardScaler(copy=False), Scribbler())])
def test_a_teacher_that_writes_to_public_rows_moves_no_other_teacher(make):
    rng = np.random.default_rng(0)
    rows, public = rng.normal(size=(40, 3)), rng.normal(size=(200, 3))
    labels = (rows[:, 0] > 0).astype(int)
    before = public.copy()
    first = TeacherEnsemble(make(), 4, classes=(0, 1), random_state=0, partition_seed=0).fit(rows, labels)
    votes = first.vote(public)
    assert (public == before).all()
    rows[first.partition_.shard(0)[0]] += 30
    other = TeacherEnsemble(make(), 4, classes=(0, 1), random_state=0, partition_seed=0).fit(rows, labels).vote(public)
    assert [i for i in range(4) if (votes.labels[i] != other.labels[i]).any()] in ([], [0])
