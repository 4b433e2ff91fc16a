"""Heads on a public representation: each the fit that it would be by itself, anyone who stands beside it."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from pate.data.partition import partition
from pate.exceptions import CheckpointWarning, CuratorWarning, InvalidInputError
from pate.teachers import HeadTeacherEnsemble, make_ensemble
from pate.teachers import _heads as heads
from pate.teachers._heads import HEADS, HeadRecipe, fit_heads, predict_heads
from pate.votes import Voter, hash_queries

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
X, Y, PUBLIC, TRUTH = DIGITS[:600], LABELS[:600], DIGITS[1000:1100], LABELS[1000:1100]
SHOWN = PCA(20, random_state=0).fit(DIGITS[1100:])
K = 30
#: A plain transformer, so that a test can say what the heads see.
AS_IT_IS = FunctionTransformer()


def ensemble(representation=SHOWN, n_teachers=K, **options):
    options = {"classes": range(10), "random_state": 0, "partition_seed": 0} | options
    return HeadTeacherEnsemble(representation, n_teachers, **options)


def weights_of(teachers):
    return [None if t is None else {name: array.tobytes() for name, array in t.items()} for t in teachers.teachers_]


def moved(before, after):
    return [i for i, (a, b) in enumerate(zip(weights_of(before), weights_of(after), strict=True)) if a != b]


# --- the fit that it would be alone --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_teachers", [5, 30], ids=["more rows than columns", "fewer"])
def test_ridge_is_scikit_learns(n_teachers):
    teachers = ensemble(n_teachers=n_teachers, penalty=0.5).fit(X, Y)
    cut = partition(len(X), n_teachers, partition_seed=0)
    votes = teachers.vote(PUBLIC)
    for i in range(n_teachers):
        rows, y = SHOWN.transform(X[cut.shard(i)]), Y[cut.shard(i)]
        scale = (rows - rows.mean(0)).var(axis=0).sum()
        plain = RidgeClassifier(alpha=0.5 * scale).fit(rows, y)
        assert (plain.predict(SHOWN.transform(PUBLIC)) == votes.labels[i]).all()
        held = {c: j for j, c in enumerate(plain.classes_)}
        logits = SHOWN.transform(PUBLIC) @ teachers.teachers_[i]["coef"] + teachers.teachers_[i]["intercept"]
        theirs = plain.decision_function(SHOWN.transform(PUBLIC))
        for c, j in held.items():  # their targets are -1 and 1
            np.testing.assert_allclose(2 * logits[:, c] - 1, theirs[:, j], atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("n_teachers", [5, 30])
def test_logistic_is_scikit_learns(n_teachers):
    teachers = ensemble(n_teachers=n_teachers, head="logistic", penalty=0.05, n_steps=4000).fit(X, Y)
    cut = partition(len(X), n_teachers, partition_seed=0)
    for i in range(0, n_teachers, 4):
        rows, y = SHOWN.transform(X[cut.shard(i)]), Y[cut.shard(i)]
        plain = LogisticRegression(C=1 / (0.05 * rows.var(axis=0).sum()), tol=1e-10, max_iter=5000).fit(rows, y)
        mine = SHOWN.transform(PUBLIC) @ teachers.teachers_[i]["coef"] + teachers.teachers_[i]["intercept"]
        shares = np.exp(mine - mine.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        np.testing.assert_allclose(shares[:, plain.classes_], plain.predict_proba(SHOWN.transform(PUBLIC)), atol=1e-3)
        assert shares.sum(0)[np.setdiff1d(np.arange(10), plain.classes_)].max(initial=0) < 1e-9


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("n_teachers", [6, 60])
def test_a_teacher_is_the_fit_that_it_would_be_by_itself(head, n_teachers):
    teachers = ensemble(n_teachers=n_teachers, head=head).fit(X, Y)
    recipe, cut = teachers._recipe(), teachers.partition_
    for i in range(0, n_teachers, 5):
        seed = heads.training_seed(0, heads._SEED_PATH, i)
        shard = cut.shard(i)
        (alone,) = fit_heads(SHOWN.transform(X[shard])[None], Y[shard][None], recipe, [seed])
        for name, array in teachers.teachers_[i].items():
            np.testing.assert_allclose(array, alone[name], atol=1e-9)


def test_an_mlp_has_the_gradient_of_its_loss():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(1, 8, 3)), rng.integers(0, 3, (1, 8))
    few, many = (HeadRecipe("mlp", 3, 0.0, steps, 16, 0.02) for steps in (1, 400))
    errors = []
    for recipe in (few, many):
        (weights,) = fit_heads(rows, y, recipe, [0])
        errors.append(float((predict_heads([weights], rows[0])[0] != y[0]).mean()))
    assert errors[1] == 0 < errors[0]


@pytest.mark.parametrize("head", HEADS)
def test_votes(head):
    votes = (teachers := ensemble(head=head).fit(X, Y)).vote(PUBLIC)
    assert votes.counts.sum(axis=1).tolist() == [K] * len(PUBLIC)
    assert (votes.counts.argmax(axis=1) == TRUTH).mean() > 0.8
    assert votes.query_hashes == hash_queries(PUBLIC)
    assert (votes.unit, votes.n_units, votes.classes) == ("record", 600, tuple(range(10)))
    assert isinstance(teachers, Voter)
    for size in (1, 7, 100):
        part = teachers.vote(PUBLIC, keep_labels=False, chunk_size=size)
        assert part.counts.tolist() == votes.counts.tolist()


@pytest.mark.few(2)
@pytest.mark.parametrize("head", HEADS)
def test_workers_change_nothing(head):
    alone = ensemble(head=head, n_jobs=1).fit(X, Y)
    beside = ensemble(head=head, n_jobs=2).fit(X, Y)
    assert moved(alone, beside) == []
    assert beside.vote(PUBLIC).labels.tolist() == alone.vote(PUBLIC).labels.tolist()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert moved(alone, ensemble(head=head).fit(X, Y)) == []
    assert bool(moved(alone, ensemble(head=head, random_state=1).fit(X, Y))) == (head == "mlp")


# --- one record, one teacher ---------------------------------------------------------------------------------------

RECORD = 17
#: What a record may be replaced by, and whether its teacher is then a failed one.
REPLACED = {
    "another row": (1 - X[RECORD], False),
    "missing": (np.full(64, np.nan), False),
    "infinite": (np.full(64, np.inf), False),
    "beyond floats when squared": (np.full(64, 1e300), True),
    "enormous": (np.r_[1e120, X[RECORD, 1:]], False),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("n_teachers", [6, 60])
@pytest.mark.parametrize("how", REPLACED)
@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_a_record_moves_only_its_own_teacher(head, n_teachers, how):
    """Replay of neighbours: all other teachers keep every bit, whatever the record is replaced by."""
    row, fails = REPLACED[how]
    X_other, y_other = X.copy(), Y.copy()
    X_other[RECORD], y_other[RECORD] = row, (Y[RECORD] + 1) % 10
    before = ensemble(head=head, n_teachers=n_teachers).fit(X, Y)
    after = ensemble(head=head, n_teachers=n_teachers).fit(X_other, y_other)
    owner = int(before.partition_.assignment[RECORD])
    assert moved(before, after) == [owner]
    assert list(after.failed_) == [owner] * fails
    old, new = before.vote(PUBLIC).labels, after.vote(PUBLIC).labels
    others = np.arange(n_teachers) != owner
    assert (old[others] == new[others]).all()
    assert not fails or (new[owner] == owner % 10).all()


class Refuses(TransformerMixin, BaseEstimator):
    """Raises for some rows, as an encoder does that has not seen a value; or gives what is not finite."""

    def __init__(self, how="raise"):
        self.how = how

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        bad = X[:, 0] == 99
        if bad.any() and self.how == "raise":
            raise ValueError(f"found {X[0]}: patient Smith")
        shown = X[:, 1:].copy()
        shown[bad] = np.nan
        return shown[:, : 60 if bad.any() and self.how == "columns" else 63]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("how", ["raise", "nan", "columns"])
def test_a_row_that_cannot_be_transformed_concerns_its_own_teacher(how, n_jobs, capfd):
    X_other = X.copy()
    X_other[RECORD, 0] = 99
    shape = Refuses(how).fit(X)
    before = ensemble(shape, n_jobs=n_jobs).fit(X, Y)
    owner = int(before.partition_.assignment[RECORD])
    after = ensemble(shape, n_jobs=n_jobs)
    if how == "nan":
        after.fit(X_other, Y)  # the record alone is left out
        assert after.failed_ == {}
    else:
        with pytest.warns(CuratorWarning, match=rf"1 of {K} teachers could not be trained") as caught:
            after.fit(X_other, Y)
        assert "Smith" not in str(caught[0].message)
        assert after.teachers_[owner] is None
    assert moved(before, after) == [owner]
    assert capfd.readouterr() == ("", "")


def test_a_failed_teacher_votes_for_its_fixed_class_and_keeps_its_place():
    X_other = X.copy()
    X_other[RECORD] = 1e300
    teachers = ensemble()
    with pytest.warns(CuratorWarning, match="numbers too large"):
        teachers.fit(X_other, Y)
    owner = int(teachers.partition_.assignment[RECORD])
    votes = teachers.vote(PUBLIC)
    assert (votes.labels[owner] == owner % 10).all()
    assert votes.counts.sum(axis=1).tolist() == [K] * len(PUBLIC)
    assert teachers.vote(PUBLIC, keep_labels=False).counts.tolist() == votes.counts.tolist()


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_all_may_fail():
    teachers = ensemble().fit(1e300 * (1 + X), Y)
    assert len(teachers.failed_) == K
    assert teachers.vote(PUBLIC).counts.tolist() == [[3] * 10] * len(PUBLIC)


@pytest.mark.parametrize("head", HEADS)
def test_a_shard_of_one_class_says_it_always_and_absent_classes_are_never_said(head):
    cut = partition(len(X), K, partition_seed=0)
    labels = np.where(np.isin(np.arange(len(X)), cut.shard(4)), 7, Y % 5)
    votes = ensemble(head=head).fit(X, labels).vote(PUBLIC)
    assert (votes.labels[4] == 7).all()
    for i in range(K):
        assert set(votes.labels[i]) <= set(labels[cut.shard(i)])


@pytest.mark.parametrize("head", HEADS)
def test_a_person_reaches_one_teacher_however_many_records(head):
    people = np.repeat(np.arange(60), 10)
    before = ensemble(head=head, n_teachers=8).fit(X, Y, groups=people)
    votes = before.vote(PUBLIC)
    assert (votes.unit, votes.n_units) == ("group", 60)
    keep = (people != 3) | (np.arange(len(X)) % 3 == 0)  # the neighbour of person 3 has fewer records, and others
    X_other, y_other = X[keep].copy(), Y[keep].copy()
    X_other[people[keep] == 3] = 1 - X_other[people[keep] == 3]
    after = ensemble(head=head, n_teachers=8).fit(X_other, y_other, groups=people[keep])
    assert moved(before, after) == [int(before.partition_.assignment[30])]


# --- rows ----------------------------------------------------------------------------------------------------------


def test_mixed_tables_and_texts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["Oslo", "Bonn", "Rome"], 300), "age": rng.normal(40, 10, 300)})
    y = ((frame["town"] == "Oslo") ^ (frame["age"] > 40)).to_numpy().astype(int)
    shape = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(), ["town"]),
            (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        ),
    ).fit(frame[200:])
    teachers = ensemble(shape, 5, classes=(0, 1), head="mlp")
    with pytest.raises(InvalidInputError, match="X_public must be given to fit"):
        teachers.fit(frame[:200], y[:200])
    votes = teachers.fit(frame[:200], y[:200], X_public=frame[200:]).vote(frame[200:])
    assert (votes.counts.argmax(axis=1) == y[200:]).mean() > 0.8
    assert teachers.feature_names_in_.tolist() == ["town", "age"]

    notes = [f"{text}, day {day}" for day in range(5) for text in ("no fever", "high fever", "all well", "fever")]
    words = HashingVectorizer(n_features=64)
    texts = ensemble(words, 4, classes=(0, 1)).fit(notes, [0, 1, 0, 1] * 5)
    assert texts.vote(["fever again"]).n_teachers == 4


def test_what_the_representation_sees_is_a_shard_and_a_copy():
    seen = []
    before = X.copy()

    class Looks(Refuses):
        def transform(self, X):
            seen.append(len(X))
            X[:] = X + 1  # a copy, or the next fit would see it
            return X

    teachers = ensemble(Looks().fit(X)).fit(X, Y)
    assert (before == X).all()
    assert seen[1:] == [len(teachers.partition_.shard(i)) for i in range(K)]  # the first was a rehearsal
    shown = PUBLIC.copy()
    teachers.vote(shown)
    assert (shown == PUBLIC).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"representation": PCA(3)}, "representation must be fitted, got an unfitted PCA"),
        ({"representation": make_pipeline(StandardScaler(), PCA(3))}, "an unfitted Pipeline"),
        ({"representation": PCA}, "must be a fitted transformer"),
        ({"representation": LogisticRegression()}, "must be a fitted transformer"),
        ({"head": "forest"}, "head must be one of"),
        ({"penalty": 0}, "penalty"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_hidden": 0}, "n_hidden"),
        ({"n_teachers": 601}, "at most the number of records"),
        ({"representation": PCA(3).fit(DIGITS[:, :30])}, "cannot be trained on"),
    ],
)
def test_bad_input_is_refused(change, text):
    with pytest.raises(InvalidInputError, match=text):
        ensemble(**change).fit(X, Y)


def test_public_rows_are_checked():
    teachers = ensemble().fit(X, Y)
    with pytest.raises(InvalidInputError, match="X has 63 columns"):
        teachers.vote(PUBLIC[:, 1:])
    with pytest.raises(InvalidInputError, match="NaN"):
        teachers.vote(np.full((3, 64), np.nan))
    with pytest.raises(InvalidInputError, match="not finite"), np.errstate(all="ignore"):
        ensemble(FunctionTransformer(np.exp)).fit(X, Y).vote(1000 * PUBLIC)


# --- a scikit-learn object, and one of the family ------------------------------------------------------------------


def test_clones_share_the_fitted_representation():
    teachers = ensemble(head="logistic", penalty=0.2).fit(X, Y)
    copy = clone(teachers)
    assert copy.representation is SHOWN
    assert not hasattr(copy, "teachers_")
    assert (copy.head, copy.penalty, copy.n_teachers) == ("logistic", 0.2, K)
    made = make_ensemble(copy, 20, n_jobs=1)
    assert (made.n_teachers, made.representation) == (20, SHOWN)
    before = repr(copy)
    copy.fit(X, Y)
    assert repr(copy) == before


@pytest.mark.long
def test_a_killed_run_goes_on(tmp_path):
    plain = ensemble(head="mlp").fit(X, Y)
    first = ensemble(head="mlp", checkpoint_dir=tmp_path).fit(X, Y)
    assert (first.n_resumed_, moved(plain, first)) == (0, [])
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == K
    assert all(f.stat().st_mode & 0o777 == 0o600 for f in files)
    for f in files[::3]:
        f.unlink()
    again = ensemble(head="mlp", checkpoint_dir=tmp_path).fit(X, Y)
    assert (again.n_resumed_, moved(plain, again)) == (20, [])
    files[1].write_bytes(files[1].read_bytes()[:-1])
    with pytest.warns(CheckpointWarning, match="trained again"):
        assert moved(plain, ensemble(head="mlp", checkpoint_dir=tmp_path).fit(X, Y)) == []
    for change in (
        {"penalty": 0.3},
        {"random_state": 1},
        {"n_hidden": 8},
        {"representation": PCA(20, random_state=0).fit(DIGITS[1000:])},
    ):
        assert ensemble(**{"head": "mlp", "checkpoint_dir": tmp_path} | change).fit(X, Y).n_resumed_ == 0


def test_a_failure_is_kept_too(tmp_path):
    X_other = X.copy()
    X_other[RECORD] = 1e300
    for _ in range(2):
        with pytest.warns(CuratorWarning, match="numbers too large"):
            teachers = ensemble(checkpoint_dir=tmp_path).fit(X_other, Y)
    assert teachers.n_resumed_ == K  # none was tried again
    assert len(teachers.failed_) == 1


def test_a_stack_that_does_not_fit_is_tried_place_by_place(monkeypatch):
    """Want of memory is no teacher's failure: each teacher is tried once more, alone in the same stack."""
    plain = ensemble().fit(X, Y)
    calls = []

    def hungry(rows, labels, recipe, seeds):
        calls.append(int((labels >= 0).any(axis=1).sum()))
        if calls[-1] > 1 and len(rows) > 1:
            raise MemoryError
        return fit_heads(rows, labels, recipe, seeds)

    monkeypatch.setattr(heads, "fit_heads", hungry)
    tasks = [heads.HeadTask(i, X[s], Y[s], None, 0, 0) for i, s in enumerate(plain.partition_.shards())]
    options = {
        "representation": SHOWN,
        "recipe": plain._recipe(),
        "n_rows": 20,
        "n_outputs": 20,
        "config": heads.current_config(),
    }
    assert all(t.failure is not None and t.failure.again for t in heads.train_heads(tasks, **options))
    alone = [task if task.index == 3 else heads.HeadTask(task.index) for task in tasks]
    (trained,) = heads.train_heads(alone, **options)
    assert {name: a.tobytes() for name, a in trained.model.items()} == weights_of(plain)[3]


@pytest.mark.slow
def test_thousands_of_heads_in_seconds():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 60_000)
    rows = rng.normal(size=(10, 256))[y] + 3 * rng.normal(size=(60_000, 256))
    teachers = ensemble(AS_IT_IS, 5000, n_jobs=2).fit(rows, y)
    assert len(teachers.teachers_) == 5000
    assert (teachers.vote(rows[:1000], keep_labels=False).counts.argmax(axis=1) == y[:1000]).mean() > 0.9
