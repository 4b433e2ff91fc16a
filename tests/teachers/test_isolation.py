"""One shard reaches one teacher: whatever it holds, others come out bit for bit, and there is a release either way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from pickle import PicklingError

import numpy as np
import pandas as pd
import pytest
import torch
from hungry_teacher import MARK, Hungry
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import nn

from pate import Budget, GNMax, PATEClassifier, TeacherEnsemble, TorchTeacherEnsemble, release_labels
from pate.exceptions import CuratorWarning, PateWarning, PerformanceWarning
from pate.networks import MLP
from pate.teachers import CallableTeachers
from pate.teachers._shards import Failure, Trained, out_of_memory, side_by_side
from pate.teachers.torch import _grouped, _tasks

K, N, D = 5, 60, 8
RNG = np.random.default_rng(0)
X, Y, PUBLIC = RNG.random((N, D)), RNG.integers(0, 3, N), RNG.random((40, D))
CPU = torch.device("cpu")


def sklearn_teachers(model=None, **options):
    model = GaussianNB(var_smoothing=0.1) if model is None else model
    return TeacherEnsemble(model, K, **{"classes": (0, 1, 2), "random_state": 0, "partition_seed": 0, **options})


def torch_teachers(group_size=1, **options):
    given = {
        "classes": (0, 1, 2),
        "random_state": 0,
        "partition_seed": 0,
        "epochs": 2,
        "batch_size": 4,
        "device": "cpu",
        **options,
    }
    return TorchTeacherEnsemble(MLP, K, group_size=group_size, **given)


MAKERS = {
    "sklearn": sklearn_teachers,
    "logistic": lambda: sklearn_teachers(LogisticRegression(max_iter=20)),
    "torch": torch_teachers,
    "torch groups": lambda: torch_teachers(K),
    "torch two groups": lambda: torch_teachers(3, precision="bf16"),
}


def quietly(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PateWarning)
        return work()


def votes_of(make, rows, y, groups=None):
    teachers = make().fit(rows, y, groups=groups)
    return teachers, teachers.vote(PUBLIC)


def assert_others_same(before, after, owner):
    others = [i for i in range(K) if i != owner]
    assert (before.labels[others] == after.labels[others]).all()
    assert after.counts.sum(axis=1).tolist() == [K] * len(PUBLIC)


# --- one giant person, and little memory -----------------------------------------------------------------------------

_GIANT = """
import resource, sys, warnings
import numpy as np
from pate import TorchTeacherEnsemble
from pate.networks import MLP
warnings.simplefilter("ignore")
PEOPLE, D, GIANT, ROOM = 21, 200, 5, int(sys.argv[1])

def data(n):
    size = [n if p == GIANT else 30 for p in range(PEOPLE)]
    rows = [np.random.default_rng(p).random((size[p], D), dtype=np.float32) for p in range(PEOPLE)]
    y = [np.random.default_rng(100 + p).integers(0, 10, size[p]) for p in range(PEOPLE)]
    return np.concatenate(rows), np.concatenate(y), np.repeat(np.arange(PEOPLE), size)

def fit(n):
    teachers = TorchTeacherEnsemble(
        MLP, 7, classes=range(10), epochs=2, batch_size=256, device="cpu", group_size=7, random_state=0,
        partition_seed=0,
    )
    rows, y, people = data(n)
    return teachers.fit(rows, y, groups=people)

usual = fit(30)
limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (ROOM << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
other = fit(60_000)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
X, _, people = data(30)
owner = int(usual.partition_.assignment[np.flatnonzero(people == GIANT)[0]])
queries = np.random.default_rng(7).random((200, D), dtype=np.float32)
votes = [t.vote(queries) for t in (usual, other)]
others = [i for i in range(7) if i != owner]
weights = sum(any((usual.teachers_[i][k] != other.teachers_[i][k]).any() for k in usual.teachers_[i]) for i in others)
moved = int((votes[0].labels[others] != votes[1].labels[others]).sum())
print(weights, moved, int((votes[1].counts.sum(1) != 7).sum()), sorted(set(other.failed_) - {owner}))
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_AS")
@pytest.mark.parametrize("room", [300, 150])
def test_a_giant_in_little_memory_moves_not_a_bit_of_the_others(room):
    """Once, the group was padded to the giant, failed, and all went down another arithmetic path (or none)."""
    done = subprocess.run(
        [sys.executable, "-c", _GIANT, str(room)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "0 0 0 []"


@pytest.mark.long
def test_arrays_of_a_group_do_not_grow_with_its_longest_shard(monkeypatch):
    seen = []
    real = torch.zeros

    def zeros(*shape, **options):
        seen.append(shape[0] if isinstance(shape[0], tuple) else shape)
        return real(*shape, **options)

    sizes = []
    for n_giant in (4, 5000):
        size = [n_giant if p == 3 else 4 for p in range(10)]
        people = np.repeat(np.arange(10), size)
        rows = np.random.default_rng(1).random((len(people), D))
        seen.clear()
        monkeypatch.setattr(_grouped.torch, "zeros", zeros)
        torch_teachers(K, epochs=1, partition_seed=1).fit(rows, np.arange(len(people)) % 3, groups=people)
        monkeypatch.undo()
        sizes.append(max(np.prod(s) for s in seen))
    assert sizes[0] == sizes[1] == K * _grouped._WINDOW_ROWS * D


def test_long_shards_pass_through_their_window_as_if_it_were_wide(monkeypatch):
    people = np.repeat(np.arange(10), [4, 90, 3, 17, 4, 4, 33, 4, 4, 4])
    rows, y = np.random.default_rng(1).random((len(people), D)), np.arange(len(people)) % 3
    wide = torch_teachers(K, partition_seed=1).fit(rows, y, groups=people)
    monkeypatch.setattr(_grouped, "_WINDOW_ROWS", 8)
    narrow = torch_teachers(K, partition_seed=1).fit(rows, y, groups=people)
    for a, b in zip(wide.teachers_, narrow.teachers_, strict=True):
        assert all((a[name] == b[name]).all() for name in a)


# --- anything at all in one shard ------------------------------------------------------------------------------------

GARBAGE = {
    "NaN": lambda x, y: (np.full_like(x, np.nan), y),
    "infinity": lambda x, y: (np.full_like(x, np.inf), y),
    "huge": lambda x, y: (np.full_like(x, 1e300), y),
    "very large": lambda x, y: (x * 1e30, y),
    "one class": lambda x, y: (x, np.zeros_like(y)),
    "rare class": lambda x, y: (x, np.where(np.arange(len(y)) == 0, 2, 0)),
    "no class": lambda x, y: (x, np.full_like(y, 77)),
    "constant": lambda x, y: (np.zeros_like(x), y),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_shard_of_garbage_moves_one_vote_per_row_and_stops_nothing(make, garbage):
    teachers, before = votes_of(MAKERS[make], X, Y)
    owner = 2
    shard = teachers.partition_.shard(owner)
    other_X, other_y = X.copy(), Y.copy()
    other_X[shard], other_y[shard] = GARBAGE[garbage](X[shard], Y[shard])
    changed, after = quietly(lambda: votes_of(MAKERS[make], other_X, other_y))
    assert set(changed.failed_) <= {owner}
    assert_others_same(before, after, owner)
    if garbage in ("NaN", "no class"):
        assert list(changed.failed_) == [owner]
        assert (after.labels[owner] == owner % 3).all()


CELLS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.none(), st.text(max_size=3), st.complex_numbers(), st.just([])
)


@pytest.mark.long
@settings(max_examples=40)
@given(record=st.integers(0, N - 1), cells=st.lists(CELLS, min_size=D, max_size=D), label=CELLS, owned=st.booleans())
def test_no_record_decides_whether_there_are_votes(record, cells, label, owned):
    """Whatever one record is, and in whatever kind of table: the same other votes, and no error."""
    rows, y = X.astype(object), Y.astype(object)
    for j, cell in enumerate(cells):
        rows[record, j] = cell
    y[record] = label
    people = None if owned else np.where(np.arange(N) == record, None, np.arange(N).astype(object))
    usual, before = votes_of(sklearn_teachers, X.astype(object), Y, None if people is None else np.arange(N))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PateWarning)
        changed = sklearn_teachers().fit(rows, y, groups=people)
        after = changed.vote(PUBLIC)
        if people is None:
            assert_others_same(before, after, int(usual.partition_.assignment[record]))
        assert after.counts.sum(axis=1).tolist() == [K] * len(PUBLIC)


def test_an_empty_shard_votes_for_a_fixed_class():
    people = np.repeat(np.arange(K), N // K)
    own = {"partition_seed": 22}  # one person each
    teachers = sklearn_teachers(**own).fit(X, Y, groups=people)
    gone = X.copy()
    gone[people == 0] = np.nan
    with pytest.warns(CuratorWarning) as said:
        changed = sklearn_teachers(**own).fit(gone, Y, groups=people)
    assert ["holds no record" in str(w.message) for w in said] == [False, True]
    owner = int(teachers.partition_.assignment[0])
    assert_others_same(teachers.vote(PUBLIC), changed.vote(PUBLIC), owner)


# --- groups keep their places ----------------------------------------------------------------------------------------


class Curved(nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.a, self.b = nn.Linear(n_features, 6), nn.Linear(6, n_classes)

    def forward(self, x):
        return self.b(torch.sin(self.a(x)))


class Looks(nn.Module):
    """A table of numbers looked up by a feature: rows out of range raise."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.table = nn.Embedding(4, n_classes)

    def forward(self, x):
        return self.table((4 * x[:, 0]).long())


@pytest.mark.few(1)
@pytest.mark.parametrize("module", [MLP, Curved])
def test_a_resumed_group_is_the_group_that_was_interrupted(tmp_path, module):
    """Its places are those of all its teachers, not of those that happened to be unfinished when it was killed."""
    options = {
        "checkpoint_dir": tmp_path / "t",
        "classes": (0, 1, 2),
        "random_state": 0,
        "partition_seed": 0,
        "epochs": 3,
        "device": "cpu",
    }
    first = TorchTeacherEnsemble(module, K, group_size=K, **options).fit(X, Y)
    for i in (3,):
        next((tmp_path / "t").glob(f"teacher-{i:05d}-*")).unlink()
    again = TorchTeacherEnsemble(module, K, group_size=K, **options).fit(X, Y)
    assert again.n_resumed_ == K - 1
    for a, b in zip(first.teachers_, again.teachers_, strict=True):
        assert all((a[name] == b[name]).all() for name in a)


@pytest.mark.long
def test_modules_that_raise_on_some_numbers_are_not_grouped():
    rows, options = X.copy(), {"classes": (0, 1, 2), "random_state": 0, "partition_seed": 0, "device": "cpu"}
    with pytest.warns(PerformanceWarning, match="one by one"):
        usual = TorchTeacherEnsemble(
            Looks, K, classes=(0, 1, 2), random_state=0, partition_seed=0, device="cpu", group_size=K
        ).fit(rows, Y)
    record = usual.partition_.shard(1)[0]
    rows[record, 0] = 9.0
    with pytest.warns(CuratorWarning, match=r"teacher 1: its module raised IndexError"):
        changed = TorchTeacherEnsemble(Looks, K, **options).fit(rows, Y)
    assert_others_same(usual.vote(PUBLIC), changed.vote(PUBLIC), 1)


def test_a_step_that_fails_has_its_teachers_tried_alone_in_their_places(monkeypatch):
    recipe = torch_teachers(K).fit(X, Y)._recipe
    shards = [_tasks.Shard(i, X[12 * i : 12 * i + 12], Y[12 * i : 12 * i + 12]) for i in range(K)]
    options = {"recipe": recipe, "slot": 0, "device": "cpu", "group_size": K}
    whole = _tasks.train_shards(shards, **options)
    alone = [
        _tasks.train_shards([s if s.index == i else _tasks.Shard(s.index) for s in shards], **options) for i in range(K)
    ]
    for i, (one,) in enumerate(alone):
        assert one.index == i
        assert all((one.model[k] == whole[i].model[k]).all() for k in one.model)

    def explode(self, members):
        raise RuntimeError("CUDA error: an illegal memory access")

    monkeypatch.setattr(_grouped.Group, "train", explode)
    found = _tasks.train_shards(shards, recipe, 0, device="cpu", group_size=K)
    assert [t.failure.again for t in found] == [True] * K


def test_kernels_that_mix_teachers_are_found_out_before_any_shard_is_looked_at(monkeypatch):
    recipe = torch_teachers(K).fit(X, Y)._recipe
    forward = _grouped.stacked_forward(recipe)

    def mixing(values, rows):
        logits = forward(values, rows)
        return logits + 0.0 * logits.sum(0, keepdim=True)

    _grouped.Group(recipe, range(K), forward, CPU, 4)
    with pytest.raises(_grouped.NotApartError):
        _grouped.Group(recipe, range(K), mixing, CPU, 4)


# --- memory and killed workers ---------------------------------------------------------------------------------------


def marked():
    rows = X.copy()
    rows[17, 3] = MARK
    return rows


@pytest.mark.long
@pytest.mark.parametrize(("how", "when", "n_jobs"), [("kill", "fit", 2), ("kill", "predict", 2), ("memory", "fit", 1)])
def test_a_shard_that_kills_its_workers_fails_alone(how, when, n_jobs, capfd):
    def make(**options):
        return sklearn_teachers(Hungry(how, when, os.getpid()), n_jobs=n_jobs, **options)

    usual, before = votes_of(make, X, Y)
    owner = int(usual.partition_.assignment[17])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        changed, after = votes_of(make, marked(), Y)
    categories = [w.category.__name__ for w in said]
    assert categories == (["PerformanceWarning"] if how == "kill" else []) + ["CuratorWarning"]
    if how == "kill":
        assert "a worker process was killed" in str(said[0].message)
        assert "\n" not in str(said[0].message)
    assert list(changed.failed_ or changed.failed_in_vote_) == [owner]
    assert_others_same(before, after, owner)
    assert (after.labels[owner] == owner % 3).all()
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
def test_after_a_killed_worker_nothing_is_left_behind(tmp_path):
    """Neither processes, nor the folders in which joblib hands over large arrays, nor a word of joblib's."""
    code = f"""
    import glob, os, sys, warnings
    sys.path.insert(0, {str(Path(__file__).parents[1])!r})
    import numpy as np
    from hungry_teacher import Hungry, MARK
    from pate import TeacherEnsemble
    from joblib.externals.loky import get_reusable_executor
    if __name__ == "__main__":
        warnings.simplefilter("ignore")
        rows = np.random.default_rng(0).random((2000, 300))
        rows[17, 3] = MARK
        model = Hungry("kill", "fit", os.getpid())
        teachers = TeacherEnsemble(model, 5, classes=(0, 1, 2), random_state=0, partition_seed=0, n_jobs=2)
        teachers.fit(rows, np.arange(2000) % 3)
        assert len(teachers.failed_) == 1, teachers.failed_
        get_reusable_executor().shutdown(wait=True)
        mine = lambda stat: open(stat).read().rsplit(")", 1)[1].split()[1] == str(os.getpid())
        children = [os.path.dirname(p) for p in glob.glob("/proc/[0-9]*/stat") if mine(p)]
        lines = [open(p + "/cmdline").read().replace(chr(0), " ") for p in children]
        print([line for line in lines if "tracker" not in line], os.getpid())
    """
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    left, pid = done.stdout.rsplit(" ", 1)
    assert left == "[]"
    assert not list(Path("/dev/shm").glob(f"joblib_memmapping_folder_{pid.strip()}_*"))


@pytest.mark.long
def test_what_fails_beside_others_is_tried_alone_and_only_that_counts(tmp_path):
    """A teacher that had no memory because of its neighbour is no failed teacher."""
    results = list(
        side_by_side(hungry_beside_others, (([(i, str(tmp_path))],) for i in range(4)), n_jobs=1, failed=as_failed)
    )
    assert {t.index: t.model for t in results} == dict.fromkeys(range(4), "alone") | {0: None}
    assert {t.index: t.failure.why for t in results if t.failure} == {0: "its shard needs more memory than there is"}


@pytest.mark.long
@pytest.mark.parametrize("refusals", [3, 99])
def test_a_process_that_cannot_be_started_stops_no_other(tmp_path, monkeypatch, refusals):
    """In 150 MiB of room no thread could be started beside a giant's rows, and the whole fit ended with that."""
    import joblib.externals.loky as loky

    real, asked = loky.ProcessPoolExecutor, []

    def pool(**options):
        asked.append(options)
        if len(asked) <= refusals:
            raise RuntimeError("can't start new thread")
        return real(**options)

    monkeypatch.setattr(loky, "ProcessPoolExecutor", pool)
    monkeypatch.setattr("pate.teachers._shards._PAUSES", (0.0,) * 4)
    calls = (([(i, str(tmp_path))],) for i in range(3))
    results = list(side_by_side(hungry_beside_others, calls, n_jobs=1, failed=as_failed))
    assert {t.index: t.model for t in results} == dict.fromkeys(range(3), "alone" if refusals == 3 else None) | {
        0: None
    }
    assert {t.failure.why for t in results if t.failure} == {"its shard needs more memory than there is"}


def hungry_beside_others(items):
    """Everybody's first try fails; teacher 0's second as well."""
    ((index, folder),) = items
    first = Path(folder, str(index))
    if index == 0 or not first.exists():
        first.touch()
        return [Trained(index, failure=Failure.of(MemoryError()))]
    return [Trained(index, "alone")]


def as_failed(index, why):
    return Trained(index, failure=Failure(why))


def test_all_libraries_words_for_too_little_memory_are_known():
    assert out_of_memory(np._core._exceptions._ArrayMemoryError((1,), np.dtype(float)))
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert out_of_memory(caught.value)
    assert not out_of_memory(ValueError("could not convert"))
    for categories, memory in (("MemoryError", True), ("  except MemoryError:\nKeyError: 'MemoryError'", False)):
        unsent = PicklingError("Could not pickle the task to send it to the workers.")
        unsent.__cause__ = RuntimeError(f'"""\nTraceback (most recent call last):\n{categories}\n"""')
        assert out_of_memory(unsent) is memory


# --- remembered, released --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sklearn_teachers, torch_teachers])
def test_failed_teachers_are_remembered_as_failed(tmp_path, make):
    rows = X.copy()
    rows[make().fit(X, Y).partition_.shard(2)] = np.nan if make is sklearn_teachers else 3e38
    options = {"checkpoint_dir": tmp_path / "t"} | ({"learning_rate": 1e30} if make is torch_teachers else {})
    with pytest.warns(CuratorWarning):
        first = make(**options).fit(rows, Y)
    assert 2 in first.failed_
    with pytest.warns(CuratorWarning):
        again = make(**options).fit(rows, Y)
    assert again.failed_ == first.failed_
    assert again.n_resumed_ == K
    for file in (tmp_path / "t").glob("*.failed"):
        assert file.stat().st_mode & 0o777 == 0o600
        file.write_text(file.read_text() + "?")  # another's word for it does not count
    if make is torch_teachers:
        with pytest.warns(CuratorWarning):
            assert make(**options).fit(rows, Y).n_resumed_ < K


def test_a_release_with_failed_teachers_costs_what_any_release_costs():
    rows = X.copy()
    rows[sklearn_teachers().fit(X, Y).partition_.shard(2)] = np.nan
    _, before = votes_of(sklearn_teachers, X, Y)
    _, after = quietly(lambda: votes_of(sklearn_teachers, rows, Y))
    assert np.abs(before.counts - after.counts).sum(axis=1).max() <= 2  # one vote from a class to another
    releases = [release_labels(v, GNMax(20.0), budget=Budget(9.0, 1e-5)) for v in (before, after)]
    assert releases[0].guarantee == releases[1].guarantee
    assert "fail" not in str(releases[1].statement).lower()


def test_callables_that_fail_move_one_vote_per_row():
    def says(i, fails=False):
        def function(rows):
            if fails:
                raise SystemExit("patient Smith")
            return [(int(10 * row[0]) + i) % 3 for row in rows]

        return function

    usual = CallableTeachers([says(i) for i in range(K)], classes=(0, 1, 2))
    odd = CallableTeachers([says(i, i == 3) for i in range(K)], classes=(0, 1, 2), n_retries=0)
    before = usual.vote(PUBLIC)
    with pytest.warns(CuratorWarning, match="1 of 5 teachers could not vote"):
        after = odd.vote(PUBLIC)
    assert_others_same(before, after, 3)


@pytest.mark.long
def test_the_command_line_releases_and_tells_the_curator_alone(tmp_path):
    """A rare class in one shard made a five-fold search fail there, and everything stopped: a visible bit."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 300).round(3), "dose": rng.normal(size=300).round(4)})
    frame["ill"] = np.where(frame["dose"] > 0, "yes", "no")
    frame.loc[7, "ill"] = "Rare Disease"
    frame.loc[9, "age"] = np.nan
    frame.to_csv(tmp_path / "private.csv", index=False)
    frame[["age", "dose"]].iloc[::10].assign(age=50.0).to_csv(tmp_path / "public.csv", index=False)
    words = "--private private.csv --public public.csv --target ill --classes no,yes --epsilon 5 --delta 1e-3"
    more = "--teachers 6 --teacher naive-bayes --preprocess none --out labels.csv --ledger l.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", "from pate.cli import main; main()", "label", *words.split(), *more.split()],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "warning: 2 of 300 records cannot be used" in done.stderr
    public = done.stdout + "".join(f.read_text(errors="replace") for f in tmp_path.glob("labels*") if f.is_file())
    for word in ("cannot be used", "Rare", "left out"):
        assert word not in public
    assert json.loads((tmp_path / "labels.statement.json").read_text())


ONE_ODD_CELL = [1j, 2 + 1j, 10**400, -(10**400), "9" * 400, "1_000", "true", {"a": 1}]


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["list", "array", "frame"])
@pytest.mark.parametrize("cell", ONE_ODD_CELL, ids=lambda cell: f"{type(cell).__name__} {str(cell)[:6]}")
def test_a_cell_that_no_float_holds_is_its_own_records_matter(cell, form):
    """It makes a list complex, or a column one of objects, and does not turn into a float."""
    cells = np.random.default_rng(0).normal(size=(60, 3)).tolist()
    y, public = np.arange(60) % 2, np.random.default_rng(1).normal(size=(50, 3))
    votes = []
    for odd in (False, True):
        if odd:
            cells[7][1] = cell
        X, like = cells, public
        if form == "array":
            X = np.array(cells, dtype=object)
        elif form == "frame":
            X, like = (pd.DataFrame({name: [row[j] for row in rows] for j, name in enumerate("abc")})
                       for rows in (cells, public.tolist()))  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = PATEClassifier(
                TeacherEnsemble(LogisticRegression(), 6, partition_seed=0),
                budget=Budget(1e3, 1e-5),
                classes=(0, 1),
                noise_seed=0,
                random_state=0,
            )
            teachers, said = clf.fit_keeping(X, y, X_public=like)
        votes.append(teachers.vote(like).labels)
    owner = int(teachers.partition_.assignment[7])
    others = [i for i in range(6) if i != owner]
    assert (votes[0][others] == votes[1][others]).all()
    assert said.counts.sum(axis=1).tolist() == [6] * said.n_queries


@pytest.mark.few(2)
@pytest.mark.parametrize("odd", [[1, 2], (1, 2), {}, None, 10**400, "9", 1j])
def test_a_label_of_another_shape_is_its_own_records_matter(odd):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), [0, 1] * 30
    y[7] = odd
    with pytest.warns(CuratorWarning, match="1 of 60 records cannot be used"):
        PATEClassifier(
            TeacherEnsemble(LogisticRegression(), 6, partition_seed=0),
            budget=Budget(1e3, 1e-5),
            classes=(0, 1),
            random_state=0,
        ).fit(X, y, X_public=X + 1)
