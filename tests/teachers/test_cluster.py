"""A real cluster of worker processes gives what one process gives, teachers or records, and stands a sudden death.

dask's workers import this module for the classifiers below: they are started by this process and have its path.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from concurrent.futures import CancelledError, Future
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from pate import Budget, InvalidInputError, PATEClassifier, RecordVoters, TeacherEnsemble
from pate._core import cluster as core
from pate.exceptions import CuratorWarning
from pate.networks import MLP
from pate.records import SignedSpace
from pate.representations import FromTransformer
from pate.teachers._shards import side_by_side
from pate.teachers.torch._ensemble import TorchTeacherEnsemble

distributed = pytest.importorskip("distributed", reason="pip install pate-privacy[dask]")
psutil = pytest.importorskip("psutil")  # comes with distributed

COMMON = {"classes": range(10), "random_state": 0, "partition_seed": 0}
SECRET = "4711"


def die_once(flag):
    """Kill this worker process, unless one has died already."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(GaussianNB):
    """Its worker dies of it, once: while training, with some teachers finished, or while voting."""

    def __init__(self, folder="", when="fit"):
        super().__init__()
        self.folder, self.when = folder, when

    def fit(self, X, y):
        super().fit(X, y)
        finished = Path(self.folder, "finished")
        if self.when == "fit":
            if finished.exists() and finished.stat().st_size >= 4:
                die_once(self.folder + "/died")
            with finished.open("a") as file:
                file.write(".")
        return self

    def predict(self, X):
        if self.when == "predict":
            die_once(self.folder + "/died")
        return super().predict(X)


class Talkative(ClassifierMixin, BaseEstimator):
    """Fails where it would quote the data."""

    def fit(self, X, y):
        warnings.warn(SECRET, stacklevel=1)
        raise ValueError(SECRET)

    def predict(self, X):
        raise ValueError(SECRET)


class Picky(GaussianNB):
    """Fails for one shard."""

    def fit(self, X, y):
        if (X > 1e5).any():
            raise ValueError(SECRET)
        return super().fit(X, y)


class Drawing(ClassifierMixin, BaseEstimator):
    """Votes as the global generator has it: tasks that overlap in one process would spoil it for each other."""

    def fit(self, X, y):
        time.sleep(0.02)
        self.draws_ = np.random.randint(10, size=1000)  # noqa: NPY002
        return self

    def predict(self, X):
        time.sleep(0.005)
        return (self.draws_[: len(X)] + np.random.randint(10, size=len(X))) % 10  # noqa: NPY002


def always_dies(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return [number]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600], X[600:900] / 16


def start(**layout):
    return distributed.LocalCluster(
        processes=True, dashboard_address=None, silence_logs=50, memory_limit=None, host="127.0.0.1", **layout
    )


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes; none of them is left when the module is done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dask's own, of ports and of processes that take their time
        before = set(psutil.Process().children(recursive=True))
        with start(n_workers=2, threads_per_worker=1) as workers, distributed.Client(workers) as client:
            yield client
    left = [p for p in psutil.Process().children(recursive=True) if p not in before and "spawn_main" in _line(p)]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []


def _line(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.fixture
def spread(cluster):
    """Everything in the test goes to the cluster, whose two workers are up."""
    cluster.wait_for_workers(2, timeout=60)
    with joblib.parallel_config(backend="dask"):
        yield cluster


def local():
    return joblib.parallel_config("sequential")


def sklearn_teachers(**options):
    return TeacherEnsemble(LogisticRegression(max_iter=30), 10, **COMMON, **options)


def torch_teachers(**options):
    return TorchTeacherEnsemble(MLP, 6, epochs=2, device="cpu", **COMMON, **options)


def weights(teacher):
    values = teacher if isinstance(teacher, dict) else {"coef": teacher.coef_, "intercept": teacher.intercept_}
    return {name: np.asarray(value) for name, value in values.items()}


def same_teachers(a, b):
    pairs = [(weights(s), weights(t)) for s, t in zip(a.teachers_, b.teachers_, strict=True)]
    return all(s.keys() == t.keys() and all(np.array_equal(s[k], t[k]) for k in s) for s, t in pairs)


@pytest.mark.long
@pytest.mark.parametrize("make", [sklearn_teachers, torch_teachers])
def test_a_cluster_gives_the_same_teachers_and_votes(spread, digits, make):
    X, y, X_public = digits
    far = make().fit(X, y)
    votes = far.vote(X_public)
    with local():
        near = make().fit(X, y)
        assert same_teachers(far, near)
        assert np.array_equal(votes.labels, near.vote(X_public).labels)


@pytest.mark.long
def test_the_work_is_done_by_the_workers(spread):
    pids = set(side_by_side(worker_pid, ((i,) for i in range(8)), n_jobs=None))
    assert os.getpid() not in pids
    assert pids == set(spread.run(os.getpid).values())


def worker_pid(number):
    time.sleep(0.05)
    return [os.getpid()]


@pytest.mark.long
@pytest.mark.parametrize("make", [sklearn_teachers, torch_teachers])
def test_a_cluster_goes_on_where_one_process_stopped_and_back(spread, digits, make, tmp_path):
    X, y, _ = digits
    with local():
        whole = make(checkpoint_dir=tmp_path / "a").fit(X, y)
    assert make(checkpoint_dir=tmp_path / "a").fit(X, y).n_resumed_ == len(whole.teachers_)

    far = make(checkpoint_dir=tmp_path / "b").fit(X, y)
    for i, path in enumerate(sorted(p for p in (tmp_path / "b").rglob("*") if p.is_file() and "teacher" in p.name)):
        if i % 2:
            path.unlink()
    with local():
        near = make(checkpoint_dir=tmp_path / "b").fit(X, y)
        assert 0 < near.n_resumed_ < len(whole.teachers_)
        assert same_teachers(near, whole)
        assert same_teachers(near, far)


@pytest.mark.long
def test_a_teacher_that_fails_says_the_same_without_data(spread, digits, capfd):
    X, y, _ = digits
    said = []
    for where in (joblib.parallel_config("dask"), local()):
        with where, pytest.raises(InvalidInputError, match=r"cannot be trained on .* made-up rows") as error:
            TeacherEnsemble(Talkative(), 1, **COMMON).fit(X, y)
        said.append(str(error.value))
        assert SECRET not in repr(error.value)
    assert said[0] == said[1]
    marked = X.copy()
    marked[3, 3] = 1e6
    with pytest.warns(CuratorWarning, match=r"1 of 8 teachers could not be trained .*raised ValueError") as warned:
        teachers = TeacherEnsemble(Picky(), 8, **COMMON).fit(marked, y)
    assert SECRET not in str(warned[0].message)
    assert list(teachers.failed_) == [int(teachers.partition_.assignment[3])]
    streams = capfd.readouterr()
    assert SECRET not in streams.out + streams.err


@pytest.mark.long
def test_every_shard_and_the_public_rows_travel_once(spread, digits, monkeypatch):
    """The public rows reach dask as one object for all tasks (dask then scatters it once), shards in one task each."""
    X, y, X_public = digits
    sent = []
    scatter = spread.scatter

    def counting(data, *args, **kwargs):
        if isinstance(data, np.ndarray):
            sent.append(data.shape)
        return scatter(data, *args, **kwargs)

    monkeypatch.setattr(spread, "scatter", counting)
    teachers = sklearn_teachers().fit(X, y)
    assert sent == []
    teachers.vote(X_public)
    assert sent == [X_public.shape]


@pytest.mark.long
@pytest.mark.parametrize("when", ["fit", pytest.param("predict", marks=pytest.mark.slow)])
def test_a_worker_killed_in_the_middle_changes_nothing(spread, digits, tmp_path, when):
    X, y, X_public = digits
    before = set(spread.run(os.getpid).values())
    votes = TeacherEnsemble(Mortal(str(tmp_path), when), 16, **COMMON).fit(X, y).vote(X_public)
    assert (tmp_path / "died").exists()
    spread.wait_for_workers(2, timeout=60)
    assert len(before - set(spread.run(os.getpid).values())) == 1  # the nanny has started another one
    with local():
        near = TeacherEnsemble(GaussianNB(), 16, **COMMON).fit(X, y).vote(X_public)
    assert np.array_equal(votes.labels, near.labels)


@pytest.mark.slow
def test_what_kills_its_workers_is_said_and_not_waited_for(spread, monkeypatch):
    """Joblib's own backend would wait for ever."""
    monkeypatch.setattr(spread.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(distributed.KilledWorker):
        list(side_by_side(always_dies, ((i,) for i in range(4)), n_jobs=None))


@pytest.mark.slow
def test_workers_with_several_threads_do_not_mix_teachers_up(digits, tmp_path):
    """And losing the only worker, with all that was sent to it, is made good."""
    X, y, X_public = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        several = start(n_workers=1, threads_per_worker=3)
        with several as workers, distributed.Client(workers), joblib.parallel_config(backend="dask"):
            drawn = TeacherEnsemble(Drawing(), 12, **COMMON).fit(X, y).vote(X_public)
            survived = TeacherEnsemble(Mortal(str(tmp_path), "predict"), 8, **COMMON).fit(X, y).vote(X_public)
    assert (tmp_path / "died").exists()
    assert np.array_equal(drawn.labels, TeacherEnsemble(Drawing(), 12, **COMMON).fit(X, y).vote(X_public).labels)
    assert np.array_equal(survived.labels, TeacherEnsemble(GaussianNB(), 8, **COMMON).fit(X, y).vote(X_public).labels)


def test_a_call_lost_with_its_worker_is_made_again(monkeypatch):
    """Without dask: the first attempt loses everything after its second answer."""
    attempts = []

    def lossy(jobs, n_jobs):
        attempts.append([])
        for function, args, options in jobs:
            if len(attempts) == 1 and len(attempts[0]) == 2:
                raise CancelledError
            attempts[-1].append(args[1])
            yield function(*args, **options)

    monkeypatch.setattr("pate._core.cluster.answers", lossy)
    assert sorted(side_by_side(repeat, ((i,) for i in range(6)), n_jobs=None)) == [0, 1, 2, 3, 4, 5]
    assert attempts[0] == [0, 1]
    assert sorted(attempts[1]) == [2, 3, 4, 5]

    def hopeless(jobs, n_jobs):
        attempts.append(next(jobs))
        raise CancelledError
        yield

    monkeypatch.setattr("pate._core.cluster.answers", hopeless)
    attempts.clear()
    with pytest.raises(CancelledError):
        list(side_by_side(repeat, ((i,) for i in range(3)), n_jobs=None))
    assert len(attempts) == core.ATTEMPTS


def repeat(number):
    return [number]


@pytest.mark.long
def test_joblib_hears_of_a_task_that_dask_gave_up_on():
    """As joblib's backend behaves: it calls back for results only."""

    class DaskDistributedBackend:
        def submit(self, task, callback=None):
            job = Future()
            if isinstance(task, Exception):
                job.set_exception(task)
            else:
                job.set_result(task)
                callback(task)
            return job

    backend, heard = DaskDistributedBackend(), []
    core.raise_given_up(backend)
    core.raise_given_up(backend)  # training, then voting: still one call back each
    error = RuntimeError("four workers died of it")
    backend.submit(error, callback=heard.append)
    backend.submit("result", callback=heard.append)
    assert heard == [error, "result"]


@pytest.mark.long
def test_tasks_in_a_foreign_process_wait_for_each_other(monkeypatch):
    assert core.answer(core.HERE, 1, repeat, 5) == (1, [5])
    with core._ONE_AT_A_TIME:
        assert core.answer(core.HERE, 1, repeat, 5) == (1, [5])  # our own threads never wait
        held = []
        monkeypatch.setattr(core, "_ONE_AT_A_TIME", Noting(held))
        assert core.answer("elsewhere", 2, repeat, 6) == (2, [6])
    assert held == ["in", "out"]


class Noting:
    def __init__(self, notes):
        self.notes = notes

    def __enter__(self):
        self.notes.append("in")

    def __exit__(self, *_):
        self.notes.append("out")


@pytest.mark.slow
def test_ray_gives_the_same_votes(digits, tmp_path):
    ray = pytest.importorskip("ray", reason="pip install pate-privacy[ray]")
    from ray.util.joblib import register_ray

    X, y, X_public = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            register_ray()
            for make in (sklearn_teachers, torch_teachers):
                with joblib.parallel_config(backend="ray", n_jobs=-1):
                    far = make(checkpoint_dir=tmp_path / make.__name__).fit(X, y)
                    votes = far.vote(X_public)
                near = make().fit(X, y)
                assert same_teachers(far, near)
                assert np.array_equal(votes.labels, near.vote(X_public).labels)
        finally:
            ray.shutdown()


class MortalMap(TransformerMixin, BaseEstimator):
    """Its worker dies of it, once."""

    def __init__(self, folder=""):
        self.folder = folder

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        self.home_ = os.getpid()
        return self

    def transform(self, X):
        if os.getpid() != self.home_:
            die_once(self.folder + "/died")
        return np.asarray(X, dtype=np.float64)


class TalkativeMap(MortalMap):
    """Quotes the data, away from home."""

    def transform(self, X):
        if os.getpid() != self.home_:
            raise ValueError(SECRET)
        return np.asarray(X, dtype=np.float64)


@pytest.mark.long
def test_records_are_mapped_by_the_workers_to_the_same_bits_though_one_is_killed(spread, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70_000, 3))  # several pieces
    y, public = (X[:, 0] > 0).astype(int), rng.normal(size=(100, 3))
    rep = FromTransformer(MortalMap(str(tmp_path))).fit(public)
    voters = RecordVoters(rep, SignedSpace().fit(public), classes=2)
    with local():
        wanted = voters.cast(X, y).sums
    held = voters.hold(X, y)
    assert (tmp_path / "died").exists()
    np.testing.assert_array_equal(voters.cast(held).sums, wanted)
    np.testing.assert_array_equal(voters.cast(X, y).sums, wanted)


@pytest.mark.long
def test_what_a_worker_raises_over_records_is_not_quoted(spread, capfd, caplog):
    X = np.random.default_rng(0).normal(size=(300, 3))
    rep = FromTransformer(TalkativeMap()).fit(X)
    voters = RecordVoters(rep, SignedSpace().fit(X), classes=2)
    voters.hold(X, np.arange(300) % 2)  # rows on which it raises are the zero vector
    assert SECRET not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.long
def test_the_default_method_gives_the_same_labels_on_a_cluster(spread):
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(3_000, 4)), rng.normal(size=(300, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)

    def fitted():
        clf = PATEClassifier(budget=Budget(1.0, 1e-5), classes=[0, 1], random_state=0, noise_seed=0)
        return clf.fit(X, y, X_public=public)

    far = fitted()
    with local():
        near = fitted()
    np.testing.assert_array_equal(far.release_.probability, near.release_.probability)
    assert far.measured_ == near.measured_
