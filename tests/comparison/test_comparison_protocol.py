"""The protocol: a split for every repeat, floors and ceilings, persons, workers, and private results."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
from contestants_at_play import BUDGETS, CALLS, DELTA, FailsLate, Fake, WithPublic, small_data
from pate_of import pate_of
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pate import (
    Budget,
    ConfidentGNMax,
    DPSGDClassifier,
    GNMax,
    HeadTeacherEnsemble,
    PATEClassifier,
    Queries,
    TeacherEnsemble,
    Votes,
    account,
    load_dataset,
    open_session,
    release_labels,
)
from pate._core.secret import training_seed
from pate.comparison._fit import _data_dependent
from pate.comparison.contract import Contestant, Tuning
from pate.comparison.run import compare
from pate.data import Dataset, HeldOutRows, PrivateRows, PublicRows, partition
from pate.exceptions import InvalidInputError, StudentError
from pate.release import label_interactively
from pate.report.result import SensitiveResult

ROOT = Path(__file__).parents[2]


class Guess(ClassifierMixin, BaseEstimator):
    """Guesses; fails where it is given a private row."""

    def __init__(self, classes):
        self.classes = classes

    def fit(self, X, y, X_public=None, groups=None):
        assert X is None
        assert y is None
        assert groups is None
        assert X_public is not None
        return self

    def predict(self, X):
        return np.resize(self.classes, len(X))


def uniform_guess(setting):
    return Guess(setting.classes)


def open_model(setting):
    return DecisionTreeClassifier(max_depth=1, random_state=setting.seed)


FLOOR = Contestant("a guess", uniform_guess, role="floor", sees="nothing")
CEILING = Contestant("no privacy", open_model, role="ceiling")


def fake(setting):
    return Fake(budget=setting.budget, random_state=setting.seed)


MINE = Contestant("mine", fake, tuning=Tuning("a rule", 12, "other rows"), side="PATE")


# --- splits ------------------------------------------------------------------------------------------------------


def test_every_repeat_is_a_split_of_its_own_and_all_contestants_meet_on_it():
    data = small_data().pooled()
    report = compare({"A": WithPublic(), "B": Fake()}, data, budgets=BUDGETS, n_repeats=3, random_state=5)
    assert len(CALLS) == 12
    for r in range(3):
        drawn = data.redrawn(training_seed(5, r))
        for call in CALLS[4 * r : 4 * r + 4]:
            np.testing.assert_array_equal(call["X"], drawn.private.X)
            np.testing.assert_array_equal(call["y"], drawn.private.y)
        np.testing.assert_array_equal(CALLS[4 * r]["X_public"], drawn.public.X)
    assert (CALLS[0]["X"] != CALLS[4]["X"]).any()
    assert report.redraws == "all rows"
    assert report.n_pool == 180


def test_accuracy_is_measured_on_the_test_rows_of_the_repeat():
    data = small_data().pooled()
    (cell,) = compare({"A": Fake(blur=0.0)}, data, budgets=BUDGETS[:1], n_repeats=1, random_state=5).cells
    drawn = data.redrawn(training_seed(5, 0))
    right = GaussianNB().fit(drawn.private.X, drawn.private.y).predict(drawn.test.X) == drawn.test.y
    assert (cell.rights() == right).all()
    assert cell.n_test == 90


def test_rows_that_stay_are_said_to_stay():
    report = compare({"A": Fake()}, small_data(), budgets=BUDGETS[:1], n_repeats=2)
    assert report.redraws == "nothing"
    assert report.result().settings["redrawn in each repeat"] == "nothing"
    assert CALLS[0]["X"] is CALLS[1]["X"]


# --- contestants by the contract ---------------------------------------------------------------------------------


def test_contestants_know_public_facts_alone():
    seen = []

    def make(setting):
        seen.append(setting)
        return fake(setting)

    compare([replace(MINE, make=make)], small_data(groups=True), budgets=BUDGETS, n_repeats=1, noise_seed=3)
    assert [s.budget.epsilon for s in seen] == [1.0, 4.0]
    first = seen[0]
    assert (first.n_records, first.n_units, first.unit, first.classes, first.kind) == (
        30,
        30,
        "group",
        (0, 1, 2),
        "table",
    )
    assert first.seed == CALLS[0]["seed"] == training_seed(0, 0)
    assert CALLS[0]["noise_seed"] == first.noise_seed is not None
    assert seen[0].noise_seed != seen[1].noise_seed


def test_floors_and_ceilings_are_fitted_once_a_repeat_and_have_no_epsilon():
    report = compare([MINE, FLOOR, CEILING], small_data().pooled(), budgets=BUDGETS, n_repeats=2)
    assert [(c.contestant, c.epsilon, c.delta, c.repeat) for c in report.cells] == [
        ("mine", 1.0, DELTA, 0), ("mine", 1.0, DELTA, 1), ("mine", 4.0, DELTA, 0), ("mine", 4.0, DELTA, 1),
        ("a guess", None, None, 0), ("a guess", None, None, 1),
    ]  # fmt: skip
    assert [(c.contestant, c.repeat) for c in report.ceilings] == [("no privacy", 0), ("no privacy", 1)]
    entrant = report.entrants[0]
    assert (entrant.rule, entrant.n_tried, entrant.tried_on, entrant.side) == ("a rule", 12, "other rows", "PATE")
    assert [e.n_tried for e in compare({"A": Fake()}, small_data(), budgets=BUDGETS, n_repeats=1).entrants] == [None]


def test_a_mapping_may_name_contestants_and_plain_classifiers():
    report = compare({"A": MINE, "B": Fake()}, small_data(), budgets=BUDGETS[:1], n_repeats=1)
    assert [c.contestant for c in report.cells] == ["A", "B"]


@pytest.mark.parametrize(
    ("contestants", "text"),
    [
        ([], "must be a mapping"),
        ([MINE, MINE], "names of their own, got 'mine' twice"),
        ([FLOOR, CEILING], "at least one of role 'private'"),
        ([MINE, 3], "must be a mapping"),
    ],
)
def test_bad_contestants_are_refused(contestants, text):
    with pytest.raises(InvalidInputError, match=text):
        compare(contestants, small_data(), budgets=BUDGETS)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"by": "sex"}, "by must be None"),
        ({"sensitive": True}, "sensitive=True writes sensitive.html into out, got out=None"),
        ({"analysis": "data-dependent"}, "analysis='data-dependent' writes sensitive.html into out, got out=None"),
        ({"analysis": "dependent"}, "analysis must be one of 'public', 'data-dependent', got 'dependent'"),
        ({"n_repeats": 0}, "n_repeats must be"),
    ],
)
def test_bad_options_are_refused(call, text):
    with pytest.raises(InvalidInputError, match=text):
        compare([MINE], small_data(), budgets=BUDGETS, **call)
    assert not CALLS


def test_what_is_made_is_looked_at():
    with pytest.raises(
        InvalidInputError, match=r"contestant 'mine' failed at epsilon=1, .* make must return a classifier"
    ):
        compare([replace(MINE, make=lambda setting: 3)], small_data(), budgets=BUDGETS)

    def promising(setting):
        return PATEClassifier(
            GaussianNB(), n_teachers=5, budget=setting.budget, classes=range(3), queries=Queries(9, force=True)
        )

    with pytest.raises(InvalidInputError, match="contestant 'a guess' failed"):
        compare([MINE, replace(FLOOR, make=promising)], small_data(), budgets=BUDGETS)


# --- what is the curator's ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_ceilings_and_costs_of_unpublished_data_are_kept_apart(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path, "sensitive": True}
    report = compare([MINE, FLOOR, CEILING], small_data(), **call)
    public = ["results.json", "cells.jsonl", "config.json", "report.html"]
    for name in public:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "_seconds" not in text, name
        assert str(report.ceilings[0].accuracy) not in text, name
    apart = [json.loads(line) for line in (tmp_path / "resume.private" / "costs.jsonl").read_text().splitlines()]
    assert [line["cost"]["contestant"] for line in apart] == ["mine", "mine", "a guess", "no privacy"]
    assert ["cell" in line for line in apart] == [False, False, False, True]
    assert (tmp_path / "sensitive.html").exists()
    assert "Seconds" not in repr(report)
    assert repr(report.costs[0]) == "FitCost(<sensitive>)"
    inside = report.sensitive()
    assert [row.contestant for row in inside.ceilings] == ["no privacy"]
    assert SensitiveResult.from_dict(json.loads(json.dumps(inside.to_dict()))) == inside
    CALLS.clear()
    again = compare([MINE, FLOOR, CEILING], small_data(), **call)
    assert not CALLS
    assert (again.cells, again.ceilings, again.costs) == (report.cells, report.ceilings, report.costs)


def test_of_published_data_a_ceiling_is_a_row_like_others(tmp_path):
    data = small_data()
    data = data.drawn_by(lambda seed: data, published=True, redraws="nothing")
    report = compare([MINE, CEILING], data, budgets=BUDGETS[:1], n_repeats=1, out=tmp_path)
    assert [c.contestant for c in report.cells] == ["mine", "no privacy"]
    assert not report.ceilings
    assert "no privacy" in (tmp_path / "results.json").read_text()
    with pytest.raises(InvalidInputError, match="must have no ceiling and no cost unless"):
        replace(report.result(), published=False)


@pytest.mark.long
def test_the_data_dependent_epsilon_is_that_of_the_votes():
    """Beside the public one, of the votes of this very fit; only where a mechanism has an exact law."""
    data = load_dataset("digits", n_private=900, n_public=120)
    set_to = {"n_teachers": 60, "classes": range(10), "mechanism": GNMax(10.0), "n_queries": 30, "force": True}
    pate = pate_of(KNeighborsClassifier(1), **set_to)
    budget = Budget(8.0, DELTA)
    report = compare({"PATE": pate}, data, budgets=[budget], n_repeats=1, noise_seed=1)
    (cost,) = report.costs
    drawn, seed = data.redrawn(training_seed(0, 0)), training_seed(0, 0)
    again = pate_of(
        TeacherEnsemble(KNeighborsClassifier(1), 100, partition_seed=seed), **set_to, budget=budget, random_state=seed
    )
    _, votes = again.fit_keeping(drawn.private.X, drawn.private.y, X_public=drawn.public.X)
    inside = account(votes, GNMax(10.0), delta=DELTA, max_answers=30).data_dependent.reveal()
    assert cost.data_dependent_epsilon == pytest.approx(inside.epsilon)
    assert cost.data_dependent_epsilon < report.statements["PATE", 8.0].guarantee.epsilon
    assert "data_dependent" not in json.dumps(report.to_dict()["rows"])
    records = compare({"A": PATEClassifier(classes=range(10))}, data, budgets=[budget], n_repeats=1)
    assert records.costs[0].data_dependent_epsilon is None
    assert records.costs[0].labelling_seconds > 0


def test_answers_by_offsets_of_earlier_answers_have_no_data_dependent_epsilon():
    votes = Votes.from_counts(np.random.default_rng(0).multinomial(30, [0.75, 0.15, 0.1], size=40))
    mechanism = ConfidentGNMax(threshold=24, sigma_threshold=6.0, sigma=4.0)
    at_once = release_labels(votes, mechanism, budget=Budget(1e3, 1e-5))
    assert _data_dependent(at_once, votes, 1e-5) > 0
    with open_session(mechanism, n_queries=40, n_teachers=30, classes=3, budget=Budget(1e3, 1e-5)) as session:
        in_rounds = label_interactively(session, votes, lambda labels: np.full((40, 3), 1 / 3), n_rounds=2)
    assert _data_dependent(in_rounds, votes, 1e-5) is None


# --- side by side ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_two_workers_find_what_one_finds(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "noise_seed": 1}
    alone = compare({"A": Fake(), "B": Fake(blur=2.0), "C": FLOOR}, small_data().pooled(), **call)
    both = compare(
        {"A": Fake(), "B": Fake(blur=2.0), "C": FLOOR}, small_data().pooled(), n_jobs=2, out=tmp_path, **call
    )
    assert both.rows() == alone.rows()
    lines = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    # In the order of the plan: that in which workers end tells how long fits took.
    plan = [(name, e, r) for r in range(2) for name, e in [("A", 1.0), ("A", 4.0), ("B", 1.0), ("B", 4.0), ("C", None)]]
    assert [(line["contestant"], line["epsilon"], line["repeat"]) for line in lines] == plan
    assert len(both.costs) == 10


@pytest.mark.long
def test_fits_that_end_out_of_order_are_put_in_order(tmp_path):
    costs = tmp_path / "resume.private" / "costs.jsonl"
    waits = Waits(until=str(costs))
    compare({"A": waits, "B": Fake()}, small_data(), budgets=BUDGETS[:1], n_repeats=1, n_jobs=2, out=tmp_path)
    apart = costs.read_text().splitlines()
    assert [json.loads(line)["cost"]["contestant"] for line in apart] == ["B", "A"]
    lines = (tmp_path / "cells.jsonl").read_text().splitlines()
    assert [json.loads(line)["contestant"] for line in lines] == ["A", "B"]


class Waits(Fake):
    """Is not done before another fit is."""

    def __init__(self, until="", budget=None, random_state=None):
        super().__init__(budget=budget, random_state=random_state)
        self.until = until

    def fit(self, X, y):
        deadline = time.monotonic() + 120
        while not Path(self.until).stat().st_size and time.monotonic() < deadline:
            time.sleep(0.05)
        return super().fit(X, y)


@pytest.mark.long
def test_a_failure_in_a_worker_is_reported_as_one_in_the_main_process(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path, "n_jobs": 2}
    with pytest.raises(StudentError, match=r"contestant 'B' failed at epsilon=\d, repeat 1 of 1: no\. The \d finished"):
        compare({"A": Fake(), "B": Refuses()}, small_data(), **call)
    lines = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert all(line["contestant"] == "A" for line in lines)


class Refuses(FailsLate):
    def fit(self, X, y):
        time.sleep(0.5)
        raise StudentError("no.")


PRESSED = """
import sys, time
sys.path.insert(0, {tests!r})
import contestants_at_play as t
from pate.comparison.run import compare

class Slow(t.Fake):
    def fit(self, X, y):
        time.sleep(0.3)
        return self._fit(X, y)

if __name__ == "__main__":
    compare({{"A": Slow(), "B": Slow(blur=2.0)}}, t.small_data(), budgets=t.BUDGETS, n_repeats=20, noise_seed=0,
            out={out!r}, n_jobs=2)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process on Windows")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_all_workers_and_keeps_what_is_finished(tmp_path):
    out = tmp_path / "run"
    script = PRESSED.format(tests=str(Path(__file__).parent), out=str(out))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    file = out / "cells.jsonl"
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (file.exists() and file.read_bytes().count(b"\n") >= 3):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the parent and its workers
        said = process.communicate(timeout=60)[1]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode in (-signal.SIGINT, 130), said
    assert "KeyboardInterrupt" in said
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert 3 <= len(kept) < 80
    deadline = time.monotonic() + 20
    while _is_there(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _is_there(process.pid), "a worker is left"


def _is_there(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
def test_fits_run_on_a_dask_cluster(tmp_path):
    distributed = pytest.importorskip("distributed", reason="pip install pate-privacy[dask]")
    call = {"budgets": BUDGETS, "n_repeats": 2, "noise_seed": 1}
    contestants = {"A": Fake(), "B": Fake(blur=2.0)}
    alone = compare(contestants, small_data().pooled(), **call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dask's own, of ports and of processes that take their time
        layout = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
        with (
            distributed.LocalCluster(processes=True, silence_logs=50, memory_limit=None, **layout) as workers,
            distributed.Client(workers),
            joblib.parallel_config(backend="dask"),
        ):
            CALLS.clear()
            spread = compare(contestants, small_data().pooled(), out=tmp_path, **call)
    assert not CALLS, "the fits ran here"
    assert spread.rows() == alone.rows()


# --- persons -----------------------------------------------------------------------------------------------------


def owned_data() -> Dataset:
    rng = np.random.default_rng(0)

    def part(n):
        y = np.arange(n) % 3
        return (4 * np.eye(3)[y] + rng.normal(size=(n, 3))).astype(np.float32), y.astype(np.int64)

    (X, y), (X_public, y_public), (X_test, y_test) = part(600), part(60), part(150)
    owners = rng.integers(0, 200, len(y))
    return Dataset("owned", "own", "table", (0, 1, 2), None, "", PrivateRows(X, y, owners),
                   PublicRows(X_public, y_public), HeldOutRows(X_test, y_test))  # fmt: skip


@pytest.mark.long
def test_a_person_is_the_unit_on_both_sides():
    data = owned_data()
    contestants = {
        "teachers": PATEClassifier(
            DecisionTreeClassifier(), n_teachers=30, classes=range(3), queries=Queries(30, force=True)
        ),
        "records": PATEClassifier(classes=range(3)),
        "DP-SGD": DPSGDClassifier(budget=BUDGETS[0], classes=range(3)),
        "DP-SGD linear": DPSGDClassifier(
            "linear", budget=BUDGETS[0], classes=range(3), expected_batch_size=64, epochs=3
        ),
    }
    n_units = len(np.unique(data.private.groups))
    # Seeded, so that shards are: cut by a secret, one in thirty cuts leaves a shard without anybody.
    report = compare(contestants, data, budgets=[Budget(8.0, DELTA)], n_repeats=1, noise_seed=1)
    for (name, _), statement in report.statements.items():
        assert (statement.unit, statement.n_units) == ("group", n_units), name
        assert statement.guarantee.adjacency == "replace-one"
    assert set(report.statements) == {(name, 8.0) for name in contestants}
    assert not any("contestants do not promise the same" in note for note in report.notes)
    assert all(cell.accuracy > 0.6 for cell in report.cells)
    assert partition(600, 30, groups=data.private.groups, partition_seed=0).unit == "group"


@pytest.mark.long
def test_patients_with_several_stays(data_home):
    if not (data_home / "diabetes130.npz").exists():
        pytest.skip("diabetes130 is not in PATE_DATA_HOME")
    data = load_dataset("diabetes130", n_private=3000, n_public=300, data_home=data_home)
    contestants = {
        "PATE": PATEClassifier(classes=range(3)),
        "DP-SGD": DPSGDClassifier(budget=BUDGETS[0], classes=range(3)),
    }
    report = compare(contestants, data, budgets=[Budget(3.0, DELTA)], n_repeats=1, by="gender")
    assert {s.unit for s in report.statements.values()} == {"group"}
    for cell in report.cells:
        groups = {g.value: g for g in cell.groups}
        assert {"Female", "Male"} <= set(groups)
        assert sum(g.n_test for g in groups.values()) == cell.n_test
        weighted = sum(g.n_test * (g.accuracy or 0.0) for g in groups.values()) / cell.n_test
        assert weighted == pytest.approx(cell.accuracy)
    assert report.cells[0].groups[0].answer_rate == 1.0
    assert report.cells[1].groups[0].answer_rate is None


def test_shards_are_cut_as_the_comparison_says_whatever_a_contestant_was_built_with():
    seeded = TeacherEnsemble(GaussianNB(), 5, partition_seed=7)
    with pytest.warns(DeprecationWarning, match="partition_seed"):
        former = PATEClassifier(GaussianNB(), n_teachers=5, partition_seed=7)
    for clf in (PATEClassifier(seeded), former, PATEClassifier(HeadTeacherEnsemble(None, None), voters="heads")):
        for seed in (None, 3):
            clf._cut_by(seed)
            assert clf.estimator.partition_seed == seed
            assert clf._ensemble(np.arange(60.0).reshape(30, 2)).partition_seed == seed
    assert seeded.partition_seed == 7
