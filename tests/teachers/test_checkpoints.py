"""Teachers on disk: a killed run goes on, nothing stale or foreign is picked up."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.teachers import TeacherEnsemble, _shards, make_teacher, named_teachers
from pate.teachers.checkpoints import (
    TRUSTED_TYPES,
    CheckpointStore,
    DamagedCheckpointError,
    describe,
    pack,
    recipe_key,
    seal,
    unpack,
)

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
X, Y, PUBLIC = DIGITS[:300], LABELS[:300], DIGITS[1000:1050]
K = 6


def ensemble(folder, estimator=None, **options):
    options = {"classes": range(10), "random_state": 0, "partition_seed": 0, "checkpoint_dir": folder} | options
    return TeacherEnsemble(GaussianNB(var_smoothing=0.1) if estimator is None else estimator, K, **options)


def kept(folder):
    return sorted(folder.glob("teacher-*.skops"))


@pytest.fixture
def trained(monkeypatch):
    """Indices of the teachers that are really trained in this process."""
    indices = []

    def train(task, inner=_shards._train):
        indices.append(task.index)
        return inner(task)

    monkeypatch.setattr(_shards, "_train", train)
    return indices


class Own(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise AssertionError("trained although it could not be kept")

    def predict(self, X):
        return np.zeros(len(X))


# --- going on ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_teachers_are_kept_and_found_again(tmp_path, trained, n_jobs):
    folder = tmp_path / "a" / "b"
    first = ensemble(folder, n_jobs=n_jobs).fit(X, Y)
    assert first.n_resumed_ == 0
    assert len(kept(folder)) == K
    trained.clear()
    second = ensemble(folder).fit(X, Y)
    assert trained == []
    assert second.n_resumed_ == K
    assert second.vote(PUBLIC).labels.tolist() == ensemble(None).fit(X, Y).vote(PUBLIC).labels.tolist()


def test_only_missing_teachers_are_trained(tmp_path, trained):
    ensemble(tmp_path).fit(X, Y)
    files = kept(tmp_path)
    for i in (1, 5):
        files[i].unlink()
    trained.clear()
    again = ensemble(tmp_path).fit(X, Y)
    assert sorted(trained) == [1, 5]
    assert again.n_resumed_ == K - 2


SCRIPT = """
import sys, warnings
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from pate.teachers import TeacherEnsemble

if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    seed = None if sys.argv[3] == "None" else int(sys.argv[3])
    model = MLPClassifier((50,), max_iter=int(sys.argv[4]), tol=0, n_iter_no_change=10**6, batch_size=8)
    TeacherEnsemble(model, 12, classes=range(10), n_jobs=int(sys.argv[2]), random_state=seed,
                    checkpoint_dir=sys.argv[1]).fit(X[:600] / 16, y[:600])
    print("finished")
"""


def interrupted(folder, tmp_path, *, n_jobs, seed, ending, epochs=40):
    """Start a fit in a process of its own, end it when three teachers are on disk, and return (rc, stderr)."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    arguments = [str(a) for a in (script, folder, n_jobs, seed, epochs)]
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while len(kept(folder)) < 3:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if ending == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, ending)  # what a terminal does on Ctrl-C
        process.wait(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # orphaned workers, of this test only
        out, err = process.communicate(timeout=60)
    assert "finished" not in out
    return process.returncode, err


def digits_mlp(folder, seed, epochs=40):
    model = MLPClassifier((50,), max_iter=epochs, tol=0, n_iter_no_change=10**6, batch_size=8)
    return TeacherEnsemble(model, 12, classes=range(10), random_state=seed, checkpoint_dir=folder)


@pytest.mark.long
@pytest.mark.parametrize(("n_jobs", "seed"), [(2, 0), (1, None)])
def test_a_run_killed_by_force_goes_on(tmp_path, trained, n_jobs, seed):
    folder = tmp_path / "teachers"
    code, _ = interrupted(folder, tmp_path, n_jobs=n_jobs, seed=seed, ending=signal.SIGKILL)
    assert code == -signal.SIGKILL
    done = len(kept(folder))
    assert 3 <= done < 12
    resumed = digits_mlp(folder, seed).fit(DIGITS[:600], LABELS[:600])
    assert resumed.n_resumed_ == done
    assert len(trained) == 12 - done
    drawn = json.loads((folder / "manifest.json").read_text())["seed"] if seed is None else seed
    whole = digits_mlp(None, drawn).keep_secret_in(folder / "shards.key").fit(DIGITS[:600], LABELS[:600])
    assert resumed.partition_.fingerprint() == whole.partition_.fingerprint()
    assert resumed.vote(PUBLIC).labels.tolist() == whole.vote(PUBLIC).labels.tolist()


@pytest.mark.long
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_cleanly_and_keeps_what_is_finished(tmp_path, n_jobs):
    folder = tmp_path / "teachers"
    code, err = interrupted(folder, tmp_path, n_jobs=n_jobs, seed=0, ending=signal.SIGINT)
    assert code == -signal.SIGINT  # MLPClassifier swallows Ctrl-C: the fit must end all the same
    last = err.rstrip().splitlines()[-1]
    assert "of 12 teachers are finished, and kept in" in last
    assert last.endswith("teachers': the same fit goes on with the others.")
    if n_jobs == 1:  # an idle worker may tell of its own end, which is loky's business
        assert err.count("Traceback") == 1
    done = len(kept(folder))
    assert 3 <= done < 12
    assert not list(folder.glob(".*"))
    resumed = digits_mlp(folder, 0).fit(DIGITS[:600], LABELS[:600])
    assert resumed.n_resumed_ == done
    # No teacher that was stopped half-way was kept.
    assert [getattr(t, "estimator", t).n_iter_ for t in resumed.teachers_] == [40] * 12


@pytest.mark.parametrize("kept_there", [True, False])
def test_ctrl_c_says_how_many_teachers_are_kept(tmp_path, monkeypatch, kept_there):
    train = _shards._train

    def interrupted(task):
        if task.index == 2:
            raise KeyboardInterrupt
        return train(task)

    monkeypatch.setattr(_shards, "_train", interrupted)
    said = f"and kept in '{tmp_path}': the same fit" if kept_there else "and none is kept. With checkpoint_dir="
    with pytest.raises(KeyboardInterrupt, match=re.escape(f" of {K} teachers are finished, {said}")):
        ensemble(tmp_path if kept_there else None).fit(X, Y)


def test_a_drawn_seed_is_kept_with_the_teachers(tmp_path):
    first = ensemble(tmp_path, random_state=None, partition_seed=None).fit(X, Y)
    second = ensemble(tmp_path, random_state=None, partition_seed=None).fit(X, Y)
    assert second.n_resumed_ == K
    assert second.partition_.fingerprint() == first.partition_.fingerprint()
    (tmp_path / "manifest.json").write_text("{")
    with pytest.warns(CheckpointWarning, match="the seed"):
        third = ensemble(tmp_path, random_state=None, partition_seed=None).fit(X, Y)
    assert third.n_resumed_ == 0
    assert third.partition_.fingerprint() == first.partition_.fingerprint()
    assert ensemble(tmp_path, random_state=None, partition_seed=None).fit(X, Y).n_resumed_ == K


@pytest.mark.few(2)
@pytest.mark.parametrize("damage", ["", "7", "not hexadecimal", "ab" * 3])
def test_the_secret_of_the_shards_is_kept_with_the_teachers(tmp_path, damage):
    first = ensemble(tmp_path, partition_seed=None).fit(X, Y)
    key = tmp_path / "shards.key"
    assert len(bytes.fromhex(key.read_text())) >= 16
    assert ensemble(tmp_path, partition_seed=None).fit(X, Y).n_resumed_ == K
    key.write_text(damage)
    with pytest.warns(CheckpointWarning, match="new shards"):
        other = ensemble(tmp_path, partition_seed=None).fit(X, Y)
    assert other.n_resumed_ == 0
    assert other.partition_.fingerprint() != first.partition_.fingerprint()
    assert ensemble(tmp_path, partition_seed=None).fit(X, Y).n_resumed_ == K


def test_a_known_cut_writes_no_secret(tmp_path):
    ensemble(tmp_path, partition_seed=4).fit(X, Y)
    assert not (tmp_path / "shards.key").exists()


def test_a_given_seed_is_not_written_down(tmp_path):
    ensemble(tmp_path, random_state=123454321).fit(X, Y)
    assert not (tmp_path / "manifest.json").exists()


# --- nothing stale -------------------------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "change",
    [
        {"estimator": GaussianNB(var_smoothing=0.2)},
        {"estimator": make_pipeline(GaussianNB(var_smoothing=0.1))},
        {"random_state": 1},
        {"partition_seed": 1},
        {"partition_seed": None},
        {"classes": [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]},
    ],
)
def test_a_changed_configuration_finds_nothing(tmp_path, change):
    ensemble(tmp_path).fit(X, Y)
    assert ensemble(tmp_path, **change).fit(X, Y).n_resumed_ == 0
    assert ensemble(tmp_path).fit(X, Y).n_resumed_ == K


def test_changed_data_find_nothing_of_theirs(tmp_path, trained):
    first = ensemble(tmp_path).fit(X, Y)
    other, y = X.copy(), Y.copy()
    other[17, 3] += 1e-9
    y[20] = (y[20] + 1) % 10
    trained.clear()
    ensemble(tmp_path).fit(other, Y)
    assert trained == [first.partition_.assignment[17]]
    trained.clear()
    ensemble(tmp_path).fit(X, y)
    assert trained == [first.partition_.assignment[20]]
    assert ensemble(tmp_path).fit(X.astype(np.float32), Y).n_resumed_ == 0
    assert ensemble(tmp_path).fit(pd.DataFrame(X), Y).n_resumed_ == 0
    assert ensemble(tmp_path).fit(X[:299], Y[:299]).n_resumed_ == 0


def test_other_versions_find_nothing(monkeypatch):
    keys = [recipe_key(GaussianNB(), X, Y, partition="p", index=0)]
    keys.append(recipe_key(GaussianNB(), X, Y, partition="q", index=0))
    keys.append(recipe_key(GaussianNB(), X, Y, partition="p", index=1))
    monkeypatch.setattr("sklearn.__version__", "0.0")
    keys.append(recipe_key(GaussianNB(), X, Y, partition="p", index=0))
    assert len(set(keys)) == 4


def test_tables_differ_by_every_cell_and_name():
    frame = pd.DataFrame(
        {"a": [1.0, np.nan], "b": pd.Categorical(["x", "y"]), "c": ["u", None], "d": pd.array([1, None], "Int64")}
    )
    others = [
        frame,
        frame.rename(columns={"a": "e"}),
        frame.assign(a=[1.0, 2.0]),
        frame.assign(b=pd.Categorical(["x", "y"], categories=["y", "x"])),
        frame.assign(c=["u", "None"]),
        frame.assign(d=pd.array([1, 0], "Int64")),
        frame[["b", "a", "c", "d"]],
    ]
    y = np.array([0, 1])
    keys = {recipe_key(GaussianNB(), f, y, partition="p", index=0) for f in others}
    assert len(keys) == len(others)
    assert recipe_key(GaussianNB(), frame.copy(), y, partition="p", index=0) in keys


def key_of(rows, y=LABELS[:2], **options):
    return recipe_key({"lr": 0.1}, rows, y, partition="p", index=0, **options)


def test_rows_of_every_kind_differ():
    images = np.arange(48.0).reshape(2, 1, 4, 6)
    dot = images.copy()
    dot[1, 0, 3, 5] += 1e-12
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros(5000), np.zeros(5000)]
    speck = ragged.copy()
    speck[1] = np.zeros(5000)
    speck[1][2500] = 1  # in the middle, which repr leaves out
    many = [f"c{i}" for i in range(300)]
    swapped = [*many[:150], many[151], many[150], *many[152:]]
    frames = [
        pd.DataFrame({"a": pd.Categorical(["c0", "c1"], categories=names, ordered=True)}) for names in (many, swapped)
    ]
    rows = [
        images,
        dot,
        images.astype(np.float32),
        images.reshape(2, 24),
        images.reshape(2, 4, 6),
        sparse.csr_array(images.reshape(2, 24)),
        sparse.csr_array(dot.reshape(2, 24)),
        ragged,
        speck,
        ["ab", "c"],
        ["a", "bc"],
        ["a", None],
        ["a", "None"],
        ["a', 'b", "c"],
        np.array(["ab", "c"]),
        np.array([["ab", "c"]]),
        np.array([b"ab", b"c"]),
        pd.Series(["ab", "c"]),
        pd.Series(["ab", "d"]),
        np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
        [np.float32(1), 2],
        [1.0, 2],
        [1, 2],
        [True, 2],
        *frames,
    ]
    assert len({key_of(r) for r in rows}) == len(rows)
    assert len({key_of(images, y) for y in ([0, 1], [1, 0], np.array([0, 1]), ["0", "1"])}) == 4


def test_a_record_elsewhere_does_not_change_how_texts_are_kept():
    short, long = np.array(["ab", "c", "d"]), np.array(["ab", "c", "a long text"])
    assert key_of(short[:2]) == key_of(long[:2])


def test_layout_in_memory_does_not_matter():
    rows = np.arange(12.0).reshape(3, 4)
    assert key_of(rows) == key_of(np.asfortranarray(rows)) == key_of(rows.repeat(2, axis=0)[::2])
    dense = np.eye(3)
    assert key_of(sparse.coo_array(dense)) == key_of(sparse.csc_array(dense)) == key_of(sparse.csr_array(dense))


def test_the_trainers_versions_are_part_of_the_key(monkeypatch):
    keys = [key_of(X, versions=v) for v in (None, "torch=2.6", "torch=2.7")]
    assert len(set(keys)) == 3
    monkeypatch.setattr("sklearn.__version__", "0.0")
    assert key_of(X, versions="torch=2.6") == keys[1]
    assert key_of(X) != keys[0]


@pytest.mark.parametrize("rows", [None, 3, "text", {"a": 1}, object()])
def test_rows_that_cannot_be_recognised_are_refused(rows):
    with pytest.raises(InvalidInputError, match=r"rows of type .*checkpoint_dir=None"):
        key_of(rows)


def test_functions_are_known_by_what_they_do():
    def scaled(by):
        return lambda rows: rows * by

    def noisy(rows, width=1):
        return rows + width

    first = noisy
    plain = describe(noisy)

    def noisy(rows, width=2):
        return rows + width

    assert describe(noisy) != plain == describe(first)
    assert describe(scaled(2)) != describe(scaled(3))
    assert describe(scaled(2)) == describe(scaled(2))
    assert describe(lambda rows: rows + 1) != describe(lambda rows: rows - 1)
    assert describe(lambda rows: [r + 1 for r in rows]) != describe(lambda rows: [r + 2 for r in rows])
    assert describe(GaussianNB().fit) != describe(GaussianNB().predict) != describe(GaussianNB(var_smoothing=1).predict)


def test_values_that_are_no_attributes_count():
    class Tensor:
        def __init__(self, values):
            type(self).values = {**getattr(type(self), "values", {}), id(self): values}

        def __array__(self, dtype=None, copy=None):
            return np.array(type(self).values[id(self)], dtype=dtype)

    a, b, c = Tensor([1.0, 2.0]), Tensor([1.0, 3.0]), Tensor([1.0, 2.0])
    assert describe({"weight": a}) == describe({"weight": c}) != describe({"weight": b})
    assert describe(pd.Series([1, 2])) != describe(pd.Series([1, 3]))
    assert describe(sparse.csr_array(np.eye(2))) != describe(sparse.csr_array(np.eye(3)))


def test_what_cannot_be_recognised_again_is_refused():
    circle = []
    circle.append(circle)
    for odd in (circle, (i for i in range(3)), {"lock": threading.Lock()}):
        with pytest.raises(InvalidInputError, match="cannot recognise a parameter of type"):
            describe(odd)


@pytest.mark.long
def test_configurations_are_described_alike_in_every_process():
    code = """
import numpy as np
from functools import partial
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from pate.teachers.checkpoints import describe
clip = FunctionTransformer(partial(np.clip, a_min=0))
def shift(rows, by={"x", "y", "z"}):
    return [row + 1 for row in rows if row in {"a", "b", "c"}]
search = GridSearchCV(LogisticRegression(), {"C": [1, 2]}, scoring={"b", "a", "c"})
text = describe(make_pipeline(FrozenEstimator(StandardScaler().fit(np.eye(3))), clip, search)) + describe(shift)
"""
    here: dict[str, str] = {"__name__": "__main__"}
    exec(code, here)
    out = subprocess.run(
        [sys.executable, "-c", code + "print(text)"],
        env={**os.environ, "PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == here["text"]
    assert "0x" not in here["text"]


def test_unlike_configurations_are_described_unlike():
    scaled, shifted = (FrozenEstimator(StandardScaler().fit(X + shift)) for shift in (0, 1))
    assert describe(scaled) != describe(shifted)
    assert describe({"a": 1, "b": {2, 1}}) == describe({"b": {1, 2}, "a": 1})
    assert describe(True) != describe(1)
    assert describe(np.random.RandomState(0)) != describe(np.random.RandomState(1))


# --- damage and forgery --------------------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "foreign", "another teacher's", "unreadable"])
def test_a_damaged_checkpoint_is_trained_again(tmp_path, trained, monkeypatch, damage):
    expected = ensemble(tmp_path).fit(X, Y).vote(PUBLIC).labels.tolist()
    victim = kept(tmp_path)[3]
    content = victim.read_bytes()
    if damage == "truncated":
        victim.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        victim.write_bytes(b"")
    elif damage == "flipped":
        victim.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    elif damage == "foreign":
        victim.write_bytes(skops.io.dumps(GaussianNB().fit(X, Y)))
    elif damage == "another teacher's":
        victim.write_bytes(kept(tmp_path)[2].read_bytes())
    else:
        read = pathlib.Path.read_bytes

        def refuse(path):
            if path == victim:
                raise PermissionError(13, "Permission denied")
            return read(path)

        monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
    trained.clear()
    with pytest.warns(CheckpointWarning, match="teacher 3's checkpoint could not be read"):
        again = ensemble(tmp_path).fit(X, Y)
    monkeypatch.undo()
    assert trained == [3]
    assert again.vote(PUBLIC).labels.tolist() == expected
    assert ensemble(tmp_path).fit(X, Y).n_resumed_ == K


def test_even_a_sealed_file_builds_trusted_types_only(tmp_path):
    # Anyone who knows the private data could make the seal; the types are the second wall.
    harm = FunctionTransformer(os.system)
    data = skops.io.dumps(harm)
    with pytest.raises(DamagedCheckpointError, match="UntrustedTypes"):
        unpack(seal(data, b"key") + data, b"key")
    assert not any(name.startswith(("numpy.testing", "numpy.f2py")) for name in TRUSTED_TYPES)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('the file was run')",)


def test_a_pickle_under_the_right_name_is_refused(tmp_path):
    store, key = CheckpointStore(tmp_path), b"key"
    data = pickle.dumps(Bomb())
    with pytest.raises(SystemExit, match="was run"):
        pickle.loads(data)
    for content in (data, seal(data, key) + data):  # the second one by a person who knows the key
        store.save(0, key, content)
        with pytest.raises(DamagedCheckpointError):
            store.load(0, key)


SMALL = pack(GaussianNB().fit(X[:20, :2], Y[:20]), b"key")


def test_every_truncation_of_a_skops_file_is_refused():
    for length in range(len(SMALL)):
        with pytest.raises(DamagedCheckpointError):
            unpack(SMALL[:length], b"key")


@settings(max_examples=150)
@given(st.data())
def test_a_mutated_skops_file_is_refused(data):
    content = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    if content != SMALL:
        with pytest.raises(DamagedCheckpointError):
            unpack(bytes(content), b"key")
        sealed = bytes(content[32:])
        # With the seal renewed, skops must cope on its own: a model or the one error.
        with suppress(DamagedCheckpointError):
            unpack(seal(sealed, b"key") + sealed, b"key")


def test_no_pickle_is_read(tmp_path, monkeypatch):
    ensemble(tmp_path, RandomForestClassifier(3)).fit(X, Y)

    def forbidden(*_args, **_kwargs):
        raise AssertionError("a pickle was read")

    monkeypatch.setattr("pickle.load", forbidden)
    monkeypatch.setattr("pickle.loads", forbidden)
    assert ensemble(tmp_path, RandomForestClassifier(3)).fit(X, Y).n_resumed_ == K
    with zipfile.ZipFile(kept(tmp_path)[0]) as archive:
        assert not [n for n in archive.namelist() if not n.endswith((".json", ".npy"))]


def test_the_folder_is_private_and_says_so(tmp_path):
    folder = tmp_path / "teachers"
    umask = os.umask(0)
    try:
        ensemble(folder, random_state=None, partition_seed=None).fit(X, Y)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in folder.iterdir()} == {0o600}
    assert {f.suffix for f in folder.iterdir()} == {".skops", ".txt", ".json", ".key"}
    assert "sensitive" in (folder / "README.txt").read_text()


def test_file_names_do_not_give_the_key_away(tmp_path):
    key = recipe_key(GaussianNB(), X, Y, partition="p", index=0)
    name = CheckpointStore(tmp_path).path(0, key).name
    assert not any(key.hex()[i : i + 8] in name for i in range(0, 56))


# --- what can be kept ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "estimator",
    [make_teacher(name) for name in named_teachers(torch=False)]
    + [
        make_pipeline(StandardScaler(), SelectKBest(k=20), LinearSVC()),
        make_pipeline(
            make_column_transformer((StandardScaler(), make_column_selector()), remainder="drop"), GaussianNB()
        ),
        AdaBoostClassifier(n_estimators=2),
        GradientBoostingClassifier(n_estimators=2),
        GaussianProcessClassifier(),
        VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())]),
        KNeighborsClassifier(algorithm="kd_tree"),
        MLPClassifier(max_iter=5, solver="sgd"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_scikit_learns_own_parts_can_be_kept(tmp_path, estimator):
    rows = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    public = pd.DataFrame(PUBLIC, columns=rows.columns)
    if hasattr(estimator, "max_iter"):
        estimator.set_params(max_iter=5)
    first = ensemble(tmp_path, estimator).fit(rows[:120], Y[:120])
    second = ensemble(tmp_path, estimator).fit(rows[:120], Y[:120])
    assert second.n_resumed_ == K
    assert second.vote(public).labels.tolist() == first.vote(public).labels.tolist()


@pytest.mark.long
def test_search_and_calibration_can_be_kept(tmp_path):
    y = np.arange(300) % 2  # every fold needs every class
    for model in (
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2, scoring="accuracy"),
        CalibratedClassifierCV(LinearSVC(), cv=2),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()),
    ):
        options = {"classes": range(2)}
        ensemble(tmp_path, model, **options).fit(X, y)
        assert ensemble(tmp_path, model, **options).fit(X, y).n_resumed_ == K


@pytest.mark.parametrize(
    "estimator", [Own(), make_pipeline(FunctionTransformer(lambda rows: rows), GaussianNB())], ids=["class", "lambda"]
)
def test_what_cannot_be_kept_is_refused_before_training(tmp_path, estimator, trained):
    with pytest.raises(InvalidInputError, match=r"checkpoint_dir cannot keep .*Use checkpoint_dir=None"):
        ensemble(tmp_path, estimator).fit(X, Y)
    assert trained == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_fit_makes_must_be_safe_too(monkeypatch):
    monkeypatch.setattr("pate.teachers.checkpoints.TRUSTED_TYPES", ())
    with pytest.raises(InvalidInputError, match="AdamOptimizer is not among the types"):
        pack(MLPClassifier((2,), max_iter=1).fit(X, Y), b"key")


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="checkpoint_dir must be a folder"):
        ensemble(tmp_path / "file").fit(X, Y)
