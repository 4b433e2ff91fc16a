"""Mistakes that can be found beforehand are refused before any teacher is trained: in one line, with the remedy."""

import errno
import os
import shutil
import subprocess
import tempfile

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from test_cli import label, pate, tables  # noqa: F401  a fixture

from pate import Budget, GNMax, Ledger, NoisyHistogram, PATEClassifier, Queries, compare, load_dataset
from pate._core.files import check_can_write
from pate.comparison.studies._folders import RunFolder
from pate.exceptions import InvalidInputError, LedgerError
from pate.jobs import LabelJob, check_new_files
from pate.privacy.budget import MOST_EPSILON
from pate.privacy.compose.calibrate import calibrate

X = np.arange(40.0).reshape(-1, 1)
Y = (X[:, 0] > 20).astype(int)


@pytest.fixture
def blocked(tmp_path):
    """A folder that not even an administrator can make: a regular file is in its way."""
    (tmp_path / "plain file").write_text("in the way")
    return tmp_path / "plain file" / "folder"


@pytest.fixture
def untrained(monkeypatch):
    """Fail when a teacher is trained."""
    from pate.teachers import _shards

    def train(task):
        raise AssertionError("a teacher was trained")

    monkeypatch.setattr(_shards, "_train", train)


@pytest.fixture
def read_only(monkeypatch):
    """Every folder is on a read-only disk."""

    def mkstemp(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)


def one_line(done, *words):
    assert done.returncode == 2, (done.stdout, done.stderr)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "teachers: " not in done.stderr
    for word in words:
        assert word in errors[0]
    return errors[0]


# Places ---------------------------------------------------------------------------------------------------------


def test_a_place_is_tried_and_left_as_it_was(tmp_path):
    goal = tmp_path / "new" / "newer" / "labels.csv"
    check_can_write("out", goal)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.csv").write_text("old")
    check_can_write("out", tmp_path / "old.csv")
    assert (tmp_path / "old.csv").read_text() == "old"


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EDQUOT])
def test_what_the_system_refuses_is_one_sentence(tmp_path, monkeypatch, number):
    def fsync(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(InvalidInputError, match=rf"^out=.* cannot be written: {os.strerror(number)}\. Name a file"):
        check_can_write("out", tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_no_file(tmp_path):
    for out in ("", "."):
        with pytest.raises(InvalidInputError, match="out must name a CSV file"):
            check_new_files(out)
    with pytest.raises(InvalidInputError, match="File name too long"):
        check_new_files(tmp_path / ("long" * 100 + ".csv"))
    with pytest.raises(InvalidInputError, match="it is not a file"):
        check_can_write("ledger", "/dev/null")


@pytest.mark.long
def test_pate_label_names_the_place_before_it_trains(tables, blocked, untrained):  # noqa: F811
    one_line(label(tables, out=blocked / "labels.csv"), "--out ", "Not a directory", "Name a file in a folder")
    one_line(label(tables, "--ledger", blocked / "ledger.sqlite"), "ledger", "Not a directory", "Nothing was trained")
    one_line(label(tables, "--ledger", "/dev/null"), "ledger")
    assert not (tables / "labels.csv").exists()
    assert not list(tables.glob("*.sqlite*"))


def test_pate_label_on_a_read_only_disk(tables, untrained, read_only):  # noqa: F811
    one_line(label(tables), "Read-only file system")


@pytest.mark.long
def test_missing_folders_are_made(tables):  # noqa: F811
    assert label(tables, out="new/newer/labels.csv").returncode == 0
    assert (tables / "new" / "newer" / "labels.statement.json").is_file()


def test_run_and_compare_name_the_place_before_they_train(blocked, untrained):
    options = ("--dataset", "digits", "--out", blocked)
    one_line(pate("run", "--epsilon", 1, *options), "out must be a folder", "Not a directory", "Name another")
    one_line(pate("compare", "--epsilons", 1, *options), "out must be a folder", "Not a directory")


def test_run_folders_on_a_read_only_disk(tmp_path, read_only):
    with pytest.raises(InvalidInputError, match="Read-only file system"):
        RunFolder.new(tmp_path / "run")
    data = load_dataset("digits", n_private=200)
    contestant = PATEClassifier(classes=range(10), n_teachers=5)
    with pytest.raises(InvalidInputError, match="Read-only file system"):
        compare({"A": contestant}, data, budgets=[Budget(1.0, 1e-5)], out=tmp_path / "compare")


def test_a_picture_of_costs_is_placed_before_it_is_computed(tmp_path, blocked, monkeypatch):
    np.save(tmp_path / "votes.npy", [[98, 2], [5, 95]])
    monkeypatch.setattr("pate.jobs.vote_files.read_votes", lambda *a, **k: pytest.fail("the votes were read"))
    command = ("account", tmp_path / "votes.npy", "--delta", 1e-5, "--mechanism", "gnmax", "--sigma", 40, "--reveal")
    one_line(pate(*command, "--plot", blocked / "a.png"), "--plot=", "Not a directory")


def test_a_classifier_asks_its_ledger_before_it_trains(tmp_path, blocked, untrained):
    clf = PATEClassifier(GaussianNB(), n_teachers=4, classes=[0, 1], budget=Budget(100.0, 1e-5), mechanism=GNMax(1.0))
    clf.set_params(queries=Queries(1, force=True), ledger=Ledger(blocked / "ledger.sqlite"))
    with pytest.raises(LedgerError, match=r"Not a directory.*Nothing was trained or charged"):
        clf.fit(X, Y, X_public=X + 0.5)


def test_what_is_stored_needs_no_disk_to_write_to(tmp_path, read_only, monkeypatch):
    monkeypatch.undo()
    options = {"n_teachers": 4, "classes": [0, 1], "budget": Budget(100.0, 1e-5), "mechanism": GNMax(1.0)}
    path = tmp_path / "ledger.sqlite"
    first = PATEClassifier(GaussianNB(), queries=9, random_state=0, ledger=Ledger(path), **options)
    first.fit(X, Y, X_public=X + 0.5)
    monkeypatch.setattr(Ledger, "check_writable", lambda self: pytest.fail("there is nothing to charge"))
    again = PATEClassifier(GaussianNB(), queries=9, random_state=0, ledger=Ledger(path), **options)
    assert again.fit(X, Y, X_public=X + 0.5).release_.labels.tolist() == first.release_.labels.tolist()


@pytest.mark.long
def test_a_disk_that_fills_up_while_labels_are_written(tables, monkeypatch):  # noqa: F811
    replace = os.replace

    def full(source, goal):
        if str(goal).endswith("labels.csv"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, goal)

    monkeypatch.setattr(os, "replace", full)
    done = label(tables)
    assert done.returncode == 2
    (reported,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (
        "--out labels.csv could not be written: No space left on device. No file was left. The ledger holds" in reported
    )
    assert not list(tables.glob("labels.*[!e]"))[1:]  # but labels.private
    monkeypatch.setattr(os, "replace", replace)
    spent = Ledger(tables / "private.csv.ledger.sqlite").used_fraction
    assert label(tables).returncode == 0
    assert Ledger(tables / "private.csv.ledger.sqlite").used_fraction == spent


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (errno.ENOSPC, "No space left on device. Fix that and run the same command again"),
        (errno.EMFILE, "Too many open files. Allow more (ulimit -n 256) and run the same command again"),
    ],
)
def test_any_other_refusal_of_the_system_is_one_line(tables, monkeypatch, code, told):  # noqa: F811
    def full(*args, **kwargs):
        raise OSError(code, os.strerror(code), "some file")

    monkeypatch.setattr(LabelJob, "run", full)
    one_line(label(tables), f"the system refused 'some file': {told}", "paid labels are stored")


@pytest.mark.skipif(not shutil.which("mount") or os.geteuid() != 0, reason="needs the right to mount")
def test_a_real_disk_that_is_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("may not mount")
    try:
        check_can_write("out", disk / "a.csv")
        with pytest.raises(OSError, match="No space"), open(disk / "filler", "wb") as file:
            file.write(b"x" * 65536)
        with pytest.raises(InvalidInputError, match="No space left on device"):
            check_can_write("out", disk / "a.csv")
        with pytest.raises(LedgerError, match="No space left on device"):
            Ledger(disk / "ledger.sqlite").check_writable()
        assert [path.name for path in disk.iterdir()] == ["filler"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e9, 1e7, np.nextafter(MOST_EPSILON, np.inf), float("inf"), float("nan"), 0, -1])
def test_an_epsilon_that_promises_nothing_is_refused_as_such(epsilon):
    with pytest.raises(InvalidInputError, match=r"^epsilon must be a finite number > 0 and <= 1e\+06, got"):
        Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0.9, 0.11, 0.0, 1.0, -1.0])
def test_a_delta_that_promises_nothing_is_refused_as_such(delta):
    with pytest.raises(InvalidInputError, match=r"^delta must be a finite number"):
        Budget(1.0, delta)


def test_every_budget_that_is_taken_can_be_calibrated_to():
    for epsilon in (1e-6, 1.0, MOST_EPSILON):
        for delta in (1e-300, 1e-5, 0.1):
            found = calibrate(NoisyHistogram(1.0), Budget(epsilon, delta), n_queries=1)
            assert 0.9 * epsilon < found.charge(1).guarantee(delta).epsilon <= epsilon


def test_each_command_speaks_of_epsilon_and_not_of_sigma(tables, tmp_path):  # noqa: F811
    np.save(tmp_path / "votes.npy", [[98, 2], [5, 95]])
    for done in (
        label(tables, epsilon=1e9),
        pate("plan", "--epsilon", 1e9, "--queries", 10, "--classes", 2),
        pate("run", "--dataset", "digits", "--epsilon", 1e9, "--out", tmp_path / "r"),
        pate("compare", "--dataset", "digits", "--epsilons", "1,1e9", "--out", tmp_path / "c"),
        pate("label", "--votes", tmp_path / "votes.npy", "--classes", "a,b", "--epsilon", 1e9, "--out", tmp_path / "l"),
    ):
        one_line(
            done,
            " must be a finite number > 0 and <= 1e+06, got 1000000000.0",
            "up to 1 strong, up to 10 reasonable",
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private.csv", "public.csv", "votes.npy"]


def test_what_is_no_input_is_said_before_anything_else_is_asked(tables):  # noqa: F811
    """A name that is none, a table that is no votes, no public rows: what is wanted, and where else to go."""
    table = tables / "private.csv"
    for command in ("run", "compare"):
        one_line(pate(command, "--dataset", "iris"), "--dataset must be one of 'digits', 'mnist'", "pate label")
    wanted = (
        "no file of votes: its first line holds texts",
        "counts (one line per public row",
        "pate label",
        "pate plan",
    )
    one_line(pate("account", table), *wanted)
    alone = pate("label", "--private", table, "--target", "ill", "--epsilon", 1, "--out", tables / "new.csv")
    one_line(alone, "--public is missing: a table with the same features", "rows are public", "--ranges FILE", "DP-SGD")
    assert not (tables / "new.csv").exists()
