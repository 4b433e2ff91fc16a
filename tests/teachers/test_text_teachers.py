"""Texts as rows, and gradient boosting beside torch: kinds of teachers that need care."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from pate.data._validation import as_texts
from pate.exceptions import CuratorWarning, DuplicateRecordsWarning, InvalidInputError
from pate.teachers import TeacherEnsemble
from pate.teachers._usable import check_rows, hash_rows, match_columns, take_rows
from pate.votes import hash_queries

COMPLAINTS = ["broken", "refund", "late", "missing", "angry"]
PRAISE = ["great", "thanks", "lovely", "quick", "happy"]
K = 4


def texts_of(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    words = [rng.choice(PRAISE if label else COMPLAINTS, 3) for label in y]
    return [f"case {seed} {i}: it is {' '.join(w)}" for i, w in enumerate(words)], y


X, Y = texts_of(160)
PUBLIC, TRUTH = texts_of(40, seed=1)


def ensemble(vectoriser=None, **options):
    model = make_pipeline(TfidfVectorizer() if vectoriser is None else vectoriser, LogisticRegression())
    return TeacherEnsemble(model, K, **({"classes": (0, 1), "random_state": 0, "partition_seed": 0} | options))


KINDS = [list, tuple, np.array, lambda t: np.array(t, dtype=object), pd.Series, lambda t: pd.Series(t, dtype=object)]


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_learnt_whatever_holds_them(kind):
    votes = ensemble().fit(kind(X), Y).vote(kind(PUBLIC))
    assert (votes.labels == TRUTH).mean() > 0.9
    np.testing.assert_array_equal(votes.labels, ensemble().fit(X, Y).vote(PUBLIC).labels)
    assert votes.query_hashes == hash_queries(np.array(PUBLIC, dtype=object).reshape(-1, 1))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_hashed_texts_in_worker_processes(n_jobs):
    teachers = ensemble(HashingVectorizer(n_features=256), n_jobs=n_jobs).fit(X, Y)
    assert (teachers.vote(PUBLIC).labels == TRUTH).mean() > 0.9
    assert not hasattr(teachers, "n_features_in_")


def test_a_vocabulary_is_that_of_one_shard():
    secrets = [f"word{i:03d}" for i in range(len(X))]
    teachers = ensemble().fit([f"{t} {s}" for t, s in zip(X, secrets, strict=True)], Y)
    for i, teacher in enumerate(teachers.teachers_):
        known = set(teacher[0].vocabulary_)
        assert {s for s in secrets if s in known} == {secrets[j] for j in teachers.partition_.shard(i)}


@pytest.mark.parametrize("vectoriser", [TfidfVectorizer(), HashingVectorizer(n_features=256)])
def test_one_record_moves_one_teacher(vectoriser):
    before = ensemble(vectoriser).fit(X, Y)
    other = [*X]
    other[17] = "great great great 'broken' " * 500  # longer than any other: no type may carry its length
    y = Y.copy()
    y[17] = 1 - y[17]
    after = ensemble(vectoriser).fit(np.array(other), y)
    mine = int(before.partition_.assignment[17])
    same = [i for i in range(K) if i != mine]
    a, b = before.vote(PUBLIC).labels, after.vote(PUBLIC).labels
    np.testing.assert_array_equal(a[same], b[same])
    for i in same:
        np.testing.assert_array_equal(before.teachers_[i][-1].coef_, after.teachers_[i][-1].coef_)
    assert (before.teachers_[mine][-1].coef_.shape != after.teachers_[mine][-1].coef_.shape) or not np.array_equal(
        before.teachers_[mine][-1].coef_, after.teachers_[mine][-1].coef_
    )


def test_texts_are_kept_and_found_again(tmp_path):
    first = ensemble(checkpoint_dir=tmp_path).fit(X, Y)
    again = ensemble(checkpoint_dir=tmp_path).fit(pd.Series(X), Y)
    assert (first.n_resumed_, again.n_resumed_) == (0, K)
    np.testing.assert_array_equal(first.vote(PUBLIC).labels, again.vote(PUBLIC).labels)
    other = [*X]
    other[3] += "!"
    assert ensemble(checkpoint_dir=tmp_path).fit(other, Y).n_resumed_ == K - 1


def test_a_shard_of_one_class_votes_for_it():
    groups = Y * 2 + np.arange(len(Y)) % 2
    teachers = ensemble(partition_seed=17).fit(X, Y, groups=groups)  # every group has a shard to itself
    labels = teachers.vote(PUBLIC).labels
    assert all(len(set(row)) == 1 for row in labels.tolist())


def test_repeated_texts_are_counted():
    twice = [*X, X[0], X[1]]
    y = np.append(Y, Y[:2])
    cut = ensemble().fit(X, Y).partition_
    assert cut.n_records == len(X)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        teachers = ensemble().fit(twice, y)
    apart = sum(teachers.partition_.assignment[i] != teachers.partition_.assignment[len(X) + i] for i in range(2))
    warned = [str(w.message) for w in seen if issubclass(w.category, DuplicateRecordsWarning)]
    assert [t.split(" distinct")[0] for t in warned] == ([str(apart)] if apart else [])
    assert apart, "a seed for which the repeats are in one shard shows nothing: change it"


@pytest.mark.few(2)
@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, 3, b"bytes", ["a", "list"]])
@pytest.mark.parametrize("kind", [list, pd.Series])
def test_rows_without_text_are_left_out_if_private_refused_if_public_and_not_quoted(kind, missing):
    rows = [*X]
    rows[5] = missing
    with pytest.warns(CuratorWarning, match=f"1 of {len(X)} records cannot be used") as said:
        teachers = ensemble().fit(kind(rows), Y)
    assert "case" not in str(said[0].message)
    usual = ensemble().fit(kind(X), Y)
    moved = (teachers.vote(PUBLIC).labels != usual.vote(PUBLIC).labels).any(axis=1)
    assert set(np.flatnonzero(moved)) <= {int(usual.partition_.assignment[5])}
    with pytest.raises(InvalidInputError, match="X must be a text in every row"):
        ensemble().fit(X, Y).vote(kind(rows))


def test_tables_and_texts_are_not_mixed_up():
    with pytest.raises(InvalidInputError, match="X holds a table, but the teachers were fitted on texts"):
        ensemble().fit(X, Y).vote([[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="X holds a table, but the teachers were fitted on texts"):
        ensemble().fit(X, Y).vote(pd.DataFrame({"text": PUBLIC}))
    numbers = TeacherEnsemble(GaussianNB(), 2, classes=(0, 1), random_state=0, partition_seed=0).fit(
        np.arange(8.0).reshape(8, 1), [0, 1] * 4
    )
    with pytest.raises(InvalidInputError, match="X holds texts, but the teachers were fitted on a table"):
        numbers.vote(PUBLIC)
    named = TeacherEnsemble(GaussianNB(), 2, classes=(0, 1), random_state=0, partition_seed=0)
    named.fit(pd.DataFrame({"a": np.arange(8.0)}), [0, 1] * 4)
    with pytest.raises(InvalidInputError, match="X holds texts, but the teachers were fitted on a table"):
        named.vote(PUBLIC)
    # and a refit on the other kind forgets the first
    assert named.set_params(estimator=ensemble().estimator).fit(X, Y).vote(PUBLIC).n_queries == len(PUBLIC)


@pytest.mark.parametrize(
    "rows",
    [[1.0, 2.0], np.arange(3), pd.Series([1.0]), [b"a"], [None], [], "text", np.array(["a"] * 4).reshape(2, 2, 1)],
)
def test_other_rows_of_one_dimension_are_still_refused(rows):
    with pytest.raises(InvalidInputError, match=r"X must (be a table|hold numbers)"):
        check_rows(rows, estimator=GaussianNB())


def test_texts_are_plain_copies():
    array = np.array(["a", "bb"])
    texts = as_texts(array)
    assert texts.dtype == object
    assert [type(t) for t in texts] == [str, str]
    part = take_rows(texts, np.array([1]))
    part[0] = "changed"
    assert texts.tolist() == ["a", "bb"]
    odd = as_texts(["\ud800", "a\0b", "", "a\0"])
    assert len(set(hash_rows(odd))) == 4
    assert match_columns(odd, None, None) is odd


def test_surrogates_and_nulls_are_trained_on(tmp_path):
    odd = [*X]
    odd[0], odd[1] = X[0] + " \ud800", X[1] + " a\0b"
    assert ensemble(checkpoint_dir=tmp_path).fit(odd, Y).vote(PUBLIC).n_teachers == K


#: torch before scikit-learn: scikit-learn's OpenMP calls end in torch's libgomp, and torch.set_num_threads is theirs.
_TRAP = """
import json, os, time
import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin

def effective():
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
    from threadpoolctl import threadpool_info
    pools = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "openmp"]
    return [os.getpid(), _openmp_effective_n_threads(), max(pools)]

def trap():
    torch.set_num_threads(2)
    import sklearn.ensemble
    time.sleep(0.2)
    return effective()

class Probe(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.fitting_ = effective()
        return self
    def predict(self, X):
        if effective()[1:] != [1, 1]:
            raise RuntimeError
        return np.full(len(X), self.classes_[0])

if __name__ == "__main__":
    trapped = Parallel(n_jobs=2, batch_size=1)(delayed(trap)() for _ in range(8))
    from pate import TeacherEnsemble
    teachers = TeacherEnsemble(Probe(), 8, classes=(0, 1), n_jobs=2, random_state=0, partition_seed=0)
    teachers.fit(np.arange(40.0).reshape(40, 1), [0, 1] * 20).vote([[1.0]])
    print(json.dumps([trapped, [t.fitting_ for t in teachers.teachers_]]))
"""


@pytest.mark.long
def test_openmp_is_held_to_one_thread_in_workers_that_torch_gave_two(tmp_path):
    """Why HistGradientBoosting was slow in two workers when its function lived in ``__main__``: four threads spun."""
    pytest.importorskip("torch")
    script = tmp_path / "trap.py"
    script.write_text(_TRAP, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    trapped, ours = json.loads(done.stdout.splitlines()[-1])
    assert {threads for _, *threads in map(tuple, trapped) for threads in threads[1:]} == {2}, "the trap was not set"
    workers = {pid for pid, *_ in trapped}
    assert {pid for pid, *_ in ours} <= workers, "other workers than those that torch was in"
    assert {(threads, pools) for _, threads, pools in ours} == {(1, 1)}
