"""Comparisons: same split, same delta, re-drawn seeds, nothing lost at a kill and nothing private in the files."""

import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pate.comparison.named import compare_on
from pate.comparison.report import Cell, ComparisonReport
from pate.comparison.run import compare
from pate.core import provenance as _provenance
from pate.core.seeds import training_seed
from pate.data import Dataset, load_dataset
from pate.data.named.dataset import HeldOutRows, PrivateRows, PublicRows
from pate.dpsgd import DPSGDClassifier
from pate.estimator import PATEClassifier
from pate.exceptions import BudgetExceededError, InvalidInputError, PateError, RunFolderError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.privacy.words import Guarantee
from pate.report.result import Result
from pate.statement.model import PrivacyStatement

ROOT = Path(__file__).parents[2]
DELTA = 1e-5
BUDGETS = [Budget(1.0, DELTA), Budget(4.0, DELTA)]

#: What every fake contestant was asked to do, in order.
CALLS: list[dict] = []


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


class Fake(ClassifierMixin, BaseEstimator):
    """Learns the class means from features blurred by 1 / epsilon."""

    def __init__(self, blur=1.0, budget=None, random_state=None, noise_seed=None, classes=None, n_jobs=None):
        self.blur = blur
        self.budget = budget
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.classes = classes
        self.n_jobs = n_jobs

    def fit(self, X, y):
        return self._fit(X, y)

    def _fit(self, X, y, **extra):
        CALLS.append({"budget": self.budget, "seed": self.random_state, "noise_seed": self.noise_seed,
                      "X": X, "y": y, **extra})  # fmt: skip
        rng = np.random.default_rng([self.random_state, self.noise_seed or 0])
        self.model_ = GaussianNB().fit(X + self.blur / self.budget.epsilon * rng.normal(size=X.shape), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


class WithPublic(Fake):
    def fit(self, X, y, X_public=None, groups=None):
        return self._fit(X, y, X_public=X_public, groups=groups)


class NoSeeds(ClassifierMixin, BaseEstimator):
    def __init__(self, budget=None):
        self.budget = budget

    def fit(self, X, y):
        self.model_ = GaussianNB().fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


class FailsLate(Fake):
    """Breaks at the last fit but one."""

    error: BaseException = BudgetExceededError("the queries cost too much.")

    def fit(self, X, y):
        if len(CALLS) == 3:
            raise self.error
        return self._fit(X, y)


class Stating(Fake):
    """States a guarantee, ``factor`` times the budget."""

    def __init__(self, factor=1.0, unit="record", seeded=False, budget=None, random_state=None):
        super().__init__(budget=budget, random_state=random_state)
        self.factor = factor
        self.unit = unit
        self.seeded = seeded

    def fit(self, X, y):
        self._fit(X, y)
        promise = Guarantee(epsilon=self.factor * self.budget.epsilon, delta=DELTA, kind="public", method="gdp")
        self.statement_ = PrivacyStatement(
            released="labels", unit=self.unit, n_units=None, guarantee=promise, mechanism="m", accounting="a",
            seeded=self.seeded,
        )  # fmt: skip
        return self


def small_data(classes=(0, 1, 2), groups=False, seed=0) -> Dataset:
    rng = np.random.default_rng(seed)

    def part(n):
        y = np.arange(n) % 3
        return (4 * np.eye(3)[y] + rng.normal(size=(n, 3))).astype(np.float32), y.astype(np.int64)

    (X, y), (X_public, y_public), (X_test, y_test) = part(60), part(30), part(90)
    return Dataset(
        name="three",
        protocol="standard",
        kind="table",
        classes=classes,
        image_shape=None,
        description="Three blobs.",
        private=PrivateRows(X, y, np.arange(60) // 2 if groups else None),
        public=PublicRows(X_public, y_public),
        test=HeldOutRows(X_test, y_test),
    )


# --- what is run -------------------------------------------------------------------------------------------------


def test_rows_are_tidy_and_in_order():
    report = compare({"B": Fake(), "A": NoSeeds()}, small_data(), budgets=BUDGETS[::-1], n_repeats=2)
    rows = report.rows()
    columns = ["contestant", "epsilon", "delta", "accuracy", "seed", "queries", "answers"]
    assert all(list(row) == columns for row in rows)
    assert [(r["contestant"], r["epsilon"]) for r in rows] == [
        ("B", 4.0), ("B", 4.0), ("B", 1.0), ("B", 1.0), ("A", 4.0), ("A", 4.0), ("A", 1.0), ("A", 1.0),
    ]  # fmt: skip
    assert all(r["delta"] == DELTA and 0 <= r["accuracy"] <= 1 for r in rows)
    assert all(r["queries"] is None and r["answers"] is None for r in rows)
    assert list(report.to_frame().columns) == columns
    assert len(report.to_frame()) == 8


def test_same_split_same_seed_for_everybody_and_another_each_repeat():
    data = small_data()
    report = compare({"A": Fake(), "B": Fake(blur=2.0)}, data, budgets=BUDGETS, n_repeats=3, random_state=5)
    assert len(CALLS) == 12
    assert all(c["X"] is data.private.X and c["y"] is data.private.y for c in CALLS)
    by_repeat = [{c["seed"] for c in CALLS[4 * r : 4 * r + 4]} for r in range(3)]
    assert by_repeat == [{training_seed(5, r)} for r in range(3)]
    assert [row["seed"] for row in report.rows()] == 4 * [training_seed(5, r) for r in range(3)]


def test_accuracy_is_the_share_of_right_test_rows():
    data = small_data()
    row = compare({"A": NoSeeds()}, data, budgets=BUDGETS[:1], n_repeats=1).rows()[0]
    right = GaussianNB().fit(data.private.X, data.private.y).predict(data.test.X) == data.test.y
    assert row["accuracy"] == right.mean() < 1


def test_contestants_are_cloned():
    mine = Fake(noise_seed=3, random_state=4)
    compare({"A": mine}, small_data(), budgets=BUDGETS, n_repeats=1)
    assert mine.budget is None
    assert (mine.random_state, mine.noise_seed) == (4, 3)
    assert not hasattr(mine, "model_")


def test_fit_gets_what_it_takes():
    data = small_data(groups=True)
    compare({"A": WithPublic(), "B": Fake()}, data, budgets=BUDGETS[:1], n_repeats=1)
    assert CALLS[0]["X_public"] is data.public.X
    assert CALLS[0]["groups"] is data.private.groups
    assert "X_public" not in CALLS[1]


def test_public_labels_never_reach_a_contestant():
    data = small_data()
    compare({"A": WithPublic()}, data, budgets=BUDGETS[:1], n_repeats=1)
    assert not any(value is data.public.y_for_evaluation for value in CALLS[0].values())


@pytest.mark.parametrize(("asked", "seen"), [(None, 0), (range(3), 0), (("a", "b", "c"), "a")])
def test_labels_are_indices_unless_the_contestant_names_the_values(asked, seen):
    report = compare({"A": Fake(classes=asked)}, small_data(("a", "b", "c")), budgets=BUDGETS[1:], n_repeats=1)
    assert CALLS[0]["y"][0] == seen
    assert report.rows()[0]["accuracy"] > 0.8


def test_noise_comes_from_the_operating_system_unless_seeded():
    compare({"A": Fake(noise_seed=9)}, small_data(), budgets=BUDGETS, n_repeats=2)
    assert [c["noise_seed"] for c in CALLS] == [None] * 4


def test_noise_seed_gives_every_fit_its_own_noise_whatever_the_order():
    data = small_data()
    first = compare({"A": Fake(), "B": Fake()}, data, budgets=BUDGETS, n_repeats=2, noise_seed=1)
    assert len({c["noise_seed"] for c in CALLS}) == 8
    again = compare({"B": Fake(), "A": Fake()}, data, budgets=BUDGETS[::-1], n_repeats=2, noise_seed=1)
    order = {json.dumps(row, sort_keys=True) for row in first.rows()}
    assert order == {json.dumps(row, sort_keys=True) for row in again.rows()}
    CALLS.clear()
    compare({"A": Fake()}, data, budgets=BUDGETS, n_repeats=1, noise_seed=2)
    other = {c["noise_seed"] for c in CALLS}
    CALLS.clear()
    compare({"A": Fake()}, data, budgets=BUDGETS, n_repeats=1, noise_seed=1)
    assert not other & {c["noise_seed"] for c in CALLS}


def test_random_state_none_draws_anew():
    seeds = {
        compare({"A": Fake()}, small_data(), budgets=BUDGETS[:1], n_repeats=1, random_state=None).rows()[0]["seed"]
        for _ in range(3)
    }
    assert len(seeds) == 3


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"contestants": {}}, "contestants must be a mapping"),
        ({"contestants": [Fake()]}, "contestants must be a mapping"),
        ({"contestants": {" ": Fake()}}, "must have text as names"),
        ({"contestants": {1: Fake()}}, "must have text as names"),
        ({"contestants": {"A": Fake}}, "must be a scikit-learn classifier"),
        ({"contestants": {"A": 3}}, "must be a scikit-learn classifier"),
        ({"contestants": {"A": LogisticRegression()}}, "must have a parameter named budget"),
        ({"contestants": {"A": make_pipeline(StandardScaler(), Fake())}}, "outside any budget"),
        ({"data": ([[1]], [0])}, "data must be a pate.Dataset"),
        ({"budgets": []}, "budgets must be a list"),
        ({"budgets": Budget(1.0, DELTA)}, "budgets must be a list"),
        ({"budgets": [1.0]}, "budgets must hold pate.Budget"),
        ({"budgets": [Budget(1.0, 1e-5), Budget(2.0, 1e-6)]}, "the same delta, got 1e-06, 1e-05"),
        ({"budgets": [Budget(1.0, 1e-5), Budget(1.0, 1e-5)]}, "each epsilon once"),
        ({"n_repeats": 0}, "n_repeats must be a whole number >= 1"),
        ({"random_state": -1}, "random_state must be a whole number >= 0"),
        ({"noise_seed": 0.5}, "noise_seed must be a whole number >= 0"),
    ],
)
def test_bad_input_is_refused_before_anything_is_fitted(change, text):
    call = {"contestants": {"A": Fake()}, "data": small_data(), "budgets": BUDGETS, **change}
    with pytest.raises(InvalidInputError, match=text):
        compare(call.pop("contestants"), call.pop("data"), **call)
    assert not CALLS


def test_a_contestant_with_a_ledger_is_refused(tmp_path):
    pate = PATEClassifier(GaussianNB(), ledger=Ledger(tmp_path / "ledger.sqlite"))
    with pytest.raises(InvalidInputError, match="must not have a ledger"):
        compare({"PATE": pate}, small_data(), budgets=BUDGETS)


def test_a_statement_beyond_the_budget_is_refused():
    fine = compare({"A": Stating()}, small_data(), budgets=BUDGETS, n_repeats=1)
    assert fine.statements["A", 4.0].guarantee.epsilon == 4.0
    with pytest.raises(BudgetExceededError, match=r"'A' failed at epsilon=1, repeat 1 of 1.*beyond"):
        compare({"A": Stating(factor=1.01)}, small_data(), budgets=BUDGETS, n_repeats=1)


# --- what happens when a fit fails -------------------------------------------------------------------------------


def test_a_failure_names_the_fit_and_keeps_the_finished_ones(tmp_path):
    with pytest.raises(BudgetExceededError, match="contestant 'A' failed at epsilon=4, repeat 2 of 2: the queries"):
        compare({"A": FailsLate()}, small_data(), budgets=BUDGETS, n_repeats=2, out=tmp_path / "run")
    assert len((tmp_path / "run" / "cells.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("error", [ValueError("singular matrix"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
def test_other_errors_come_as_they_are_and_the_run_goes_on_later(tmp_path, monkeypatch, error):
    monkeypatch.setattr(FailsLate, "error", error)
    call = {"budgets": BUDGETS, "n_repeats": 2, "out": tmp_path, "verbose": True}
    before = set(threading.enumerate())
    with pytest.raises(type(error)) as caught:
        compare({"A": FailsLate()}, small_data(), **call)
    assert caught.value is error
    assert not [t for t in set(threading.enumerate()) - before if "Refresh" in type(t).__name__], (
        "the progress bar still runs"
    )
    if isinstance(error, ValueError):
        note = f"contestant 'A' failed at epsilon=4, repeat 2 of 2. The 3 finished fits are kept in {str(tmp_path)!r}."
        assert error.__notes__ == [note]
    CALLS.clear()
    report = compare({"A": FailsLate()}, small_data(), **call)
    assert len(CALLS) == 1
    assert len(report.rows()) == 4


# --- resuming ----------------------------------------------------------------------------------------------------


def test_a_finished_comparison_is_read_back_and_not_run_again(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "out": tmp_path / "run"}
    first = compare({"A": Stating(), "B": Fake()}, small_data(), **call)
    CALLS.clear()
    again = compare({"A": Stating(), "B": Fake(n_jobs=2)}, small_data(), **call)
    assert not CALLS
    assert again.cells == first.cells
    assert again.statements == first.statements


class Hasty(Stating):
    """Ends early or late by its private rows, as training does."""

    def fit(self, X, y):
        time.sleep(1.1)  # times are told to the second
        return super().fit(X, y)


def test_no_public_file_tells_how_long_a_fit_took(tmp_path):
    folder = tmp_path / "run"
    report = compare({"A": Hasty()}, small_data(), budgets=BUDGETS, n_repeats=1, out=folder)
    report.save(folder)
    for name in ("results.json", "cells.jsonl", "config.json", "report.html"):
        text = (folder / name).read_text()
        assert "econds" not in text, name
        assert set(re.findall(r"\d{4}-\d\d-\d\dT[\d:.+]+", text)) <= {report.created}, name
    assert {s.created for s in report.statements.values()} == {report.created}


def test_the_same_rows_with_and_without_a_folder(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "noise_seed": 0}
    with_folder = compare({"A": Fake()}, small_data(), out=tmp_path, **call)
    assert with_folder.rows() == compare({"A": Fake()}, small_data(), **call).rows()


def test_seeds_drawn_from_the_system_survive_a_resume(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "out": tmp_path, "random_state": None}
    with pytest.raises(BudgetExceededError):
        compare({"A": FailsLate()}, small_data(), **call)
    CALLS.clear()
    rows = compare({"A": FailsLate()}, small_data(), **call).rows()
    assert len(CALLS) == 1
    assert rows[0]["seed"] == rows[2]["seed"] != rows[1]["seed"] == rows[3]["seed"]


def relabelled(data):
    y = data.private.y.copy()
    y[0] = (y[0] + 1) % 3
    return replace(data, private=PrivateRows(data.private.X, y))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"contestants": {"A": Fake(blur=3.0)}}, "other contestants"),
        ({"contestants": {"A": WithPublic()}}, "other contestants"),
        ({"contestants": {"A": Fake(), "B": Fake()}}, "other contestants"),
        ({"budgets": BUDGETS[:1]}, "other epsilons"),
        ({"budgets": [Budget(1.0, 1e-6), Budget(4.0, 1e-6)]}, "other delta"),
        ({"n_repeats": 2}, "other n_repeats"),
        ({"random_state": 1}, "other random_state"),
        ({"noise_seed": 1}, "other noise"),
        ({"data": small_data(seed=1)}, "other public rows, test rows, private rows"),
        ({"data": small_data(classes=("a", "b", "c"))}, "other data set"),
        ({"data": relabelled(small_data())}, "other private rows"),
        ({"data": small_data(groups=True)}, "other private rows"),
    ],
)
def test_another_comparison_in_the_same_folder_is_refused(tmp_path, change, text):
    call = {"contestants": {"A": Fake()}, "data": small_data(), "budgets": BUDGETS, "n_repeats": 1}

    def run(contestants, data, **rest):
        return compare(contestants, data, out=tmp_path / "run", **rest)

    run(**call)
    before = (tmp_path / "run" / "cells.jsonl").read_bytes()
    CALLS.clear()
    with pytest.raises(RunFolderError, match=rf"run holds another comparison \({text}\). Choose another folder"):
        run(**{**call, **change})
    assert not CALLS
    assert (tmp_path / "run" / "cells.jsonl").read_bytes() == before


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFolderError, match=rf"{tmp_path.name} is not empty and holds no comparison. Choose another"):
        compare({"A": Fake()}, small_data(), budgets=BUDGETS, out=tmp_path)
    with pytest.raises(RunFolderError, match="is a file"):
        compare({"A": Fake()}, small_data(), budgets=BUDGETS, out=tmp_path / "thesis.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    assert not CALLS


@pytest.mark.parametrize("cut", [1, 2, 40, 0.5])
def test_a_torn_last_line_is_dropped_and_run_again(tmp_path, cut):
    call = {"budgets": BUDGETS, "n_repeats": 2, "noise_seed": 0, "out": tmp_path}
    whole = compare({"A": Fake()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    content = file.read_bytes()
    last = len(content.splitlines(keepends=True)[-1])
    lost = cut if isinstance(cut, int) else int(cut * last)
    file.write_bytes(content[:-lost])
    CALLS.clear()
    again = compare({"A": Fake()}, small_data(), **call)
    assert again.rows() == whole.rows()
    # Without its line end alone a fit is still whole.
    assert len(CALLS) == (0 if lost == 1 else 1)
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 4


def test_a_folder_that_is_damaged_is_told(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "out": tmp_path}
    compare({"A": Fake()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "{", *lines[2:], ""]))
    with pytest.raises(RunFolderError, match="damaged in line 2"):
        compare({"A": Fake()}, small_data(), **call)
    file.write_text(lines[0].replace('"epsilon": 1.0', '"epsilon": 1.5') + "\n")
    with pytest.raises(RunFolderError, match="a fit that is not of this comparison"):
        compare({"A": Fake()}, small_data(), **call)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunFolderError, match="cannot be read"):
        compare({"A": Fake()}, small_data(), **call)


@pytest.mark.parametrize(
    "edit",
    [
        {"accuracy": "high"},
        {"accuracy": None},
        {"seed": [1]},
        {"seeded": 0},
        {"votes": [3]},
        {"statement": {}},
        {"accuracy": 10**400},
    ],
)
def test_a_stored_fit_is_read_as_strictly_as_a_result(tmp_path, edit):
    """What stands in ``cells.jsonl`` goes into results.json: an edited line is refused, and its value not shown."""
    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path}
    compare({"A": Stating()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    first, second = map(json.loads, file.read_text().splitlines())
    file.write_text(json.dumps({**first, **edit}) + "\n" + json.dumps(second) + "\n")
    with pytest.raises(RunFolderError, match="a fit that is not of this comparison"):
        compare({"A": Stating()}, small_data(), **call)


def test_an_edited_statement_of_a_stored_fit_is_refused(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path}
    compare({"A": Stating()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    file.write_text(file.read_text().replace('"tuning": "open', '"tuning": "none, and open', 1))
    with pytest.raises(RunFolderError, match="a fit that is not of this comparison"):
        compare({"A": Stating()}, small_data(), **call)


def test_a_start_that_was_killed_counts_as_empty(tmp_path):
    (tmp_path / ".config.abc.json").write_text("{")
    (tmp_path / "resume.private").mkdir()
    (tmp_path / "cells.jsonl").touch()
    assert len(compare({"A": Fake()}, small_data(), budgets=BUDGETS, n_repeats=1, out=tmp_path).rows()) == 2


class Nested(Fake):
    def fit(self, X, y):
        compare({"A": Nested()}, small_data(), budgets=BUDGETS, out=os.environ["PATE_TEST_FOLDER"])


@pytest.mark.skipif(sys.platform == "win32", reason="no flock on Windows")
def test_two_runs_never_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PATE_TEST_FOLDER", str(tmp_path))
    with pytest.raises(RunFolderError, match="is in use by another process"):
        compare({"A": Nested()}, small_data(), budgets=BUDGETS, out=tmp_path)


def test_tables_are_recognised_again(tmp_path):
    data = small_data()

    def table(X):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        return frame.assign(a=np.where(frame["a"] > 1, "high", "low"))

    def as_tables(data):
        return replace(
            data,
            private=PrivateRows(table(data.private.X), data.private.y),
            public=PublicRows(table(data.public.X), data.public.y_for_evaluation),
            test=HeldOutRows(table(data.test.X), data.test.y),
        )

    class OnTables(Fake):
        def fit(self, X, y):
            return self._fit(X[["b", "c"]].to_numpy(), y)

        def predict(self, X):
            return self.model_.predict(X[["b", "c"]].to_numpy())

    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path}
    compare({"A": OnTables()}, as_tables(data), **call)
    CALLS.clear()
    compare({"A": OnTables()}, as_tables(data), **call)
    assert not CALLS
    other = as_tables(data)
    other.private.X.loc[0, "a"] = "unknown"
    with pytest.raises(RunFolderError, match="other private rows"):
        compare({"A": OnTables()}, other, **call)


KILLED = """
import sys, time
import numpy as np
sys.path.insert(0, {tests!r})
import test_comparison as t
from pate.comparison.run import compare
from pate.privacy.budget import Budget

class Slow(t.Fake):
    def fit(self, X, y):
        with open({log!r}, "a") as log:
            log.write(f"{{self.budget.epsilon}} {{self.random_state}} {{self.blur}}\\n")
        time.sleep({pause})
        return self._fit(X, y)

budgets = [Budget(e, t.DELTA) for e in (1.0, 2.0, 4.0)]
report = compare({{"A": Slow(), "B": Slow(blur=2.0)}}, t.small_data(), budgets=budgets, n_repeats=3, noise_seed=0,
                 out={out!r})
print(len(report.rows()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL on Windows")
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    log, out = tmp_path / "log", tmp_path / "run"

    def start(pause):
        script = KILLED.format(tests=str(Path(__file__).parent), log=str(log), out=str(out), pause=pause)
        return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def finished():
        file = out / "cells.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    process = start(pause=0.2)
    try:
        deadline = time.monotonic() + 120
        while finished() < 4 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert finished() >= 4, "the run did not get going"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    kept = finished()
    assert 4 <= kept < 18
    started = log.read_text().splitlines()
    assert len(started) in (kept, kept + 1)

    process = start(pause=0)
    assert process.communicate(timeout=120)[0].strip() == "18"
    starts = log.read_text().splitlines()
    # Only the fit that was under way when the kill came was started twice.
    assert len(set(starts)) == 18
    assert len(starts) == 18 + (len(started) - kept)
    cells = [json.loads(line) for line in (out / "cells.jsonl").read_text().splitlines()]
    keys = [(c["contestant"], c["epsilon"], c["repeat"]) for c in cells]
    names = [(c, e, r) for r in range(3) for c in "AB" for e in (1.0, 2.0, 4.0)]
    assert keys == names

    budgets = [Budget(e, DELTA) for e in (1.0, 2.0, 4.0)]
    unbroken = compare({"A": Fake(), "B": Fake(blur=2.0)}, small_data(), budgets=budgets, noise_seed=0)
    assert dict(zip(keys, [c["accuracy"] for c in cells], strict=True)) == {
        cell.key: cell.accuracy for cell in unbroken.cells
    }


# --- the report --------------------------------------------------------------------------------------------------


def made(**more) -> ComparisonReport:
    cells = [
        Cell(contestant=n, epsilon=e, delta=DELTA, repeat=r, accuracy=a, seed=r, **more)
        for n, e, accuracies in [("A", 1.0, (0.5, 0.7)), ("A", 2.0, (0.8, 0.8)), ("B", 1.0, (0.25, 0.75))]
        for r, a in enumerate(accuracies)
    ]
    return ComparisonReport(cells=tuple(cells), dataset="digits", settings={"n_repeats": 2})


def test_summary():
    summary = made().summary()
    assert [(s["contestant"], s["epsilon"], s["n"]) for s in summary] == [("A", 1.0, 2), ("A", 2.0, 2), ("B", 1.0, 2)]
    assert [s["mean"] for s in summary] == pytest.approx([0.6, 0.8, 0.5])
    assert [s["std"] for s in summary] == pytest.approx([0.1 * math.sqrt(2), 0, 0.25 * math.sqrt(2)])
    assert math.isnan(ComparisonReport(cells=made().cells[:1], dataset="d").summary()[0]["std"])


def test_it_prints_as_a_table():
    assert repr(made()).splitlines() == [
        "Accuracy on the test rows of digits at delta = 1e-05 (mean ± standard deviation over seeds):",
        "contestant  epsilon  accuracy       fits",
        "A           1        0.600 ± 0.141  2",
        "A           2        0.800 ± 0.000  2",
        "B           1        0.500 ± 0.354  2",
    ]
    assert str(made()) == repr(made())


def test_a_report_of_nothing_is_refused():
    with pytest.raises(InvalidInputError, match="at least one fit"):
        ComparisonReport(cells=(), dataset="digits")


def test_notes_say_what_it_cost_and_what_is_not_comparable():
    notes = " ".join(made().notes)
    assert "6 fits on the private data were made" in notes
    assert "epsilon = 8 at delta = 6e-05" in notes
    assert "not one release" in notes
    assert "A, B: no privacy statement" in notes
    assert "seeded" not in notes
    assert "The noise was seeded: nothing here is private." in made(seeded=True).notes

    mixed = compare({"A": Stating(), "B": Stating(unit="group")}, small_data(), budgets=BUDGETS, n_repeats=1)
    assert any("do not promise the same (group, replace-one; record, replace-one)" in n for n in mixed.notes)
    same = compare({"A": Stating(), "B": Stating()}, small_data(), budgets=BUDGETS, n_repeats=1)
    assert not any("promise" in n or "no privacy statement" in n for n in same.notes)


def test_a_seeded_statement_is_believed_without_a_noise_seed():
    report = compare({"A": Stating(seeded=True)}, small_data(), budgets=BUDGETS, n_repeats=1)
    assert all(cell.seeded for cell in report.cells)
    assert report.to_dict()["settings"]["noise_seed"] == "given"
    assert compare({"A": Stating()}, small_data(), budgets=BUDGETS).to_dict()["settings"]["noise_seed"] is None


def test_the_dictionary_is_plain_json_with_its_origin():
    report = compare({"A": Stating(), "B": Fake()}, small_data((np.int64(0), 1, 2)), budgets=BUDGETS, n_repeats=2)
    result = json.loads(json.dumps(report.to_dict(command="pate compare"), allow_nan=False))
    assert result["kind"] == "comparison"
    assert result["title"] == "A and B on three"
    assert result["command"] == "pate compare"
    assert result["classes"] == [0, 1, 2]
    assert result["rows"] == report.rows()
    assert [(s["contestant"], s["epsilon"]) for s in result["statements"]] == [("A", 1.0), ("A", 4.0)]
    assert result["settings"]["n_private"] == 60
    assert result["versions"]["pate"]
    assert result["created"].endswith("+00:00")
    for name in ("budget", "answers_per_class", "cost_curve", "statement"):
        assert result[name] is None
    assert Result.from_dict(result) == report.result(command="pate compare")


def test_save_and_plot(tmp_path):
    report = compare({"A": Stating(), "B": Fake()}, small_data(), budgets=BUDGETS, n_repeats=2, out=tmp_path)
    assert report.save(tmp_path, command="pate compare") == tmp_path
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == report.rows()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A and B on three" in page
    assert "4 fits" not in page
    assert "8 fits on the private data were made" in page
    report.save(tmp_path)
    other = compare({"A": Fake()}, small_data(), budgets=BUDGETS, n_repeats=1)
    with pytest.raises(RunFolderError, match="results of something else"):
        other.save(tmp_path)
    shown = report.plot()
    assert [line.get_label() for line in shown.ax_.get_lines()][:2] == ["A", "B"]
    assert report.plot(ax=shown.ax_).ax_ is shown.ax_


def test_nothing_made_from_private_rows_is_beside_the_results(tmp_path):
    data = small_data(groups=True)
    compare({"A": Stating(), "B": Fake()}, data, budgets=BUDGETS, n_repeats=1, out=tmp_path).save(tmp_path)
    fingerprint = json.loads((tmp_path / "resume.private" / "fingerprint.json").read_text())["sha256"]
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {"cells.jsonl", "config.json", "report.html", "resume.private/fingerprint.json", "results.json"}
    private = [data.private.X, data.private.y, data.private.groups]
    digests = {fingerprint} | {hashlib.sha256(a.tobytes()).hexdigest() for a in private}
    for name in files - {"resume.private/fingerprint.json"}:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not any(digest in text for digest in digests)
    if sys.platform != "win32":
        assert (tmp_path / "resume.private").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "resume.private" / "fingerprint.json").stat().st_mode & 0o777 == 0o600


# --- where results come from -------------------------------------------------------------------------------------


def test_the_commit_is_this_checkouts_and_nobody_elses(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        done = subprocess.run(
            ["git", *identity, "-C", str(tmp_path), *arguments], check=True, capture_output=True, text=True, env=env
        )
        return done.stdout.strip()

    assert _provenance.git_commit(tmp_path) is None
    git("init")
    assert _provenance.git_commit(tmp_path) is None
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "a.txt").write_text("one")
    git("add", "a.txt")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert _provenance.git_commit(tmp_path) == commit
    assert _provenance.git_commit(tmp_path / "site-packages") is None
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert _provenance.git_commit(tmp_path) == commit
    (tmp_path / "a.txt").write_text("two")
    assert _provenance.git_commit(tmp_path) == f"{commit}-dirty"
    monkeypatch.setenv("PATH", "")
    assert _provenance.git_commit(tmp_path) is None


def test_a_package_that_is_not_there_has_no_version(monkeypatch):
    monkeypatch.setattr(_provenance, "PACKAGES", ("numpy", "no-such-package-here"))
    assert set(_provenance.package_versions()) == {"python", "numpy"}


# --- the real ones -----------------------------------------------------------------------------------------------


def test_pate_beside_dpsgd_on_digits(tmp_path):
    data = load_dataset("digits")
    pate = PATEClassifier(
        KNeighborsClassifier(1), n_teachers=100, classes=range(10), n_queries=40, gap=0.0, select="spread", anyway=True
    )
    dpsgd = DPSGDClassifier("linear", budget=Budget(1.0, DELTA), classes=range(10), epochs=5)
    call = {"budgets": [Budget(0.05, DELTA), Budget(8.0, DELTA)], "n_repeats": 1, "noise_seed": 0, "out": tmp_path}
    report = compare({"PATE": pate, "DP-SGD": dpsgd}, data, **call)
    rows = report.rows()
    assert [(r["queries"], r["answers"]) for r in rows] == [(40, 40), (40, 40), (None, None), (None, None)]
    # More budget is worth more; at epsilon 8 both beat guessing (0.1) by far.
    assert rows[1]["accuracy"] > 0.6
    assert rows[1]["accuracy"] > rows[0]["accuracy"] + 0.2
    assert rows[3]["accuracy"] > 0.6
    assert rows[3]["accuracy"] > rows[2]["accuracy"] + 0.2
    assert all(cell.seeded for cell in report.cells)
    assert {s.unit for s in report.statements.values()} == {"record"}
    assert {s.guarantee.adjacency for s in report.statements.values()} == {"replace-one"}
    assert not any("promise" in note or "statement" in note for note in report.notes)
    report.save(tmp_path)
    assert "Not private: seeded noise" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert compare({"PATE": clone(pate), "DP-SGD": clone(dpsgd)}, data, **call).cells == report.cells


def test_records_vote_where_a_comparison_says_nothing():
    """The seed of shards is theirs alone: it does not make shard teachers of record voters."""
    data = load_dataset("digits", n_private=500, n_public=200)
    pate = PATEClassifier(classes=range(10), image_shape=data.image_shape)
    report = compare({"PATE": pate}, data, budgets=[Budget(0.1, DELTA), Budget(3.0, DELTA)], n_repeats=1)
    assert [(r["queries"], r["answers"]) for r in report.rows()] == [(200, 200)] * 2
    assert report.rows()[1]["accuracy"] > max(0.8, report.rows()[0]["accuracy"])
    assert all("GaussianSum" in s.mechanism for s in report.statements.values())
    heads = PATEClassifier(voters="heads", n_teachers=20, classes=range(10), anyway=True)
    (row,) = compare({"A": heads}, data, budgets=[Budget(8.0, DELTA)], n_repeats=1).rows()
    assert row["accuracy"] > 0.3


def mixed_data() -> Dataset:
    rng = np.random.default_rng(0)

    def part(n):
        frame = pd.DataFrame({"a": rng.normal(size=n), "town": rng.choice(["Oslo", "Rome"], n)})
        y = (frame["a"] + 2 * (frame["town"] == "Rome") > 1).to_numpy().astype(np.int64)
        frame.loc[::9, "a"] = np.nan
        return frame, y

    (X, y), (X_public, y_public), (X_test, y_test) = part(900), part(150), part(200)
    return Dataset(
        name="mixed", protocol="standard", kind="table", classes=("no", "yes"), image_shape=None, description="",
        private=PrivateRows(X, y, None), public=PublicRows(X_public, y_public), test=HeldOutRows(X_test, y_test),
    )  # fmt: skip


def test_contestants_read_mixed_tables_themselves():
    """A mixed table as it is: record voters and DP-SGD's planner learn from its public rows how to read it."""
    dpsgd, pate = DPSGDClassifier(budget=Budget(8.0, DELTA), classes=range(2)), PATEClassifier(classes=range(2))
    report = compare({"PATE": pate, "DP-SGD": dpsgd}, mixed_data(), budgets=[Budget(3.0, DELTA)], n_repeats=1)
    assert [row["contestant"] for row in report.rows()] == ["PATE", "DP-SGD"]
    assert set(report.statements) == {("PATE", 3.0), ("DP-SGD", 3.0)}
    assert all(s.guarantee.epsilon <= 3.0 for s in report.statements.values())
    assert not hasattr(dpsgd, "n_features_in_")
    assert all(row["accuracy"] > 0.7 for row in report.rows())


def test_compare_on_a_table_and_with_teachers(data_home, tmp_path):
    report = compare_on("digits", epsilons=[8.0], n_repeats=1, n_teachers=20, n_private=400, n_public=100)
    assert report.rows()[0]["queries"] <= 100
    assert "GaussianSum" not in report.statements["PATE", 8.0].mechanism
    if not (data_home / "adult.data.gz").exists():
        pytest.skip("Adult is not in PATE_DATA_HOME")
    report = compare_on("adult", epsilons=[1.0], n_repeats=1, n_private=2000, n_public=300, data_home=data_home)
    assert [row["contestant"] for row in report.rows()] == ["PATE", "DP-SGD"]
    assert report.rows()[0]["queries"] == 300
    assert report.rows()[0]["accuracy"] > 0.76


def test_a_budget_that_buys_too_little_is_told_by_name(tmp_path):
    from pate.mechanisms import GNMax

    pate = PATEClassifier(KNeighborsClassifier(1), n_teachers=20, classes=range(10), mechanism=GNMax(2.0))
    with pytest.raises(BudgetExceededError, match="contestant 'PATE' failed at epsilon=1, repeat 1 of 3") as caught:
        compare({"PATE": pate}, load_dataset("digits"), budgets=[Budget(1.0, DELTA)], out=tmp_path)
    assert isinstance(caught.value.__cause__, PateError)
    assert (tmp_path / "cells.jsonl").read_bytes() == b""


def test_the_experiment_runs(tmp_path):
    script = ROOT / "experiments" / "pate_vs_dpsgd.py"
    done = subprocess.run(
        [sys.executable, str(script), "--smoke", "--out", str(tmp_path)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "DP-SGD      8" in done.stdout
    folder = tmp_path / "pate_vs_dpsgd_digits_smoke"
    result = json.loads((folder / "results.json").read_text())
    assert len(result["rows"]) == 4
    assert result["settings"]["random_state"] == 0
    assert {"pate", "torch", "dp-accounting"} <= set(result["versions"])
    assert "commit" in result
    assert (folder / "report.html").exists()
