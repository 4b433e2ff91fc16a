"""A whole run on a named data set: files, sensitive values, and that a resumed run is charged once."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import pate.comparison.studies.run
from pate import Budget, BudgetExceededError, ConfidentGNMax, GNMax, InvalidInputError, Ledger, load_dataset
from pate.comparison.studies.config import RunConfig, make_dpsgd
from pate.comparison.studies.run import cost_curve, run_experiment
from pate.exceptions import DatasetNotFoundError, RunFolderError
from pate.release import RecordLabels, release_labels
from pate.votes import Votes

PUBLIC_FILES = ["labels.csv", "report.html", "results.json", "statement.json", "statement.txt"]


def config(**options):
    defaults = {
        "dataset": "digits",
        "budget": Budget(8.0, 1e-5),
        "teacher": "naive-bayes",
        "student": "naive-bayes",
        "n_teachers": 10,
        "n_queries": 40,
        "dpsgd": "none",
    }
    return RunConfig(**(defaults | options))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run with everything asked for, two repeats."""
    out = tmp_path_factory.mktemp("runs") / "full"
    done = run_experiment(config(n_repeats=2), out=out, sensitive_report=True, command="pate run --dataset digits")
    return out, done


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, path)
    else:
        yield path, value


def read(path):
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def by_records(tmp_path_factory):
    """One run with nothing said of PATE, DP-SGD beside it, and the curator's report."""
    out = tmp_path_factory.mktemp("runs") / "records"
    asked = RunConfig(dataset="digits", budget=Budget(3.0, 1e-5), n_private=500, n_public=200)
    return out, run_experiment(asked, out=out, sensitive_report=True)


# What is written -----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.sample
def test_the_files_of_a_run(finished):
    out, done = finished
    assert sorted(p.name for p in out.iterdir()) == sorted([*PUBLIC_FILES, "sensitive.html"])
    assert read(out / "results.json") == json.loads(json.dumps(done.result.to_dict()))
    assert read(out / "statement.json") == done.release.statement.to_dict()
    assert (out / "statement.txt").read_text() == done.release.statement.text()
    assert repr(done) == "RunResult('PATE on digits')"


@pytest.mark.long
def test_rows_are_tidy(finished):
    rows = [row for row in finished[1].result.to_dict()["rows"] if row["role"] == "private"]
    assert [row["seed"] for row in rows] == [0, 1]
    for row in rows:
        assert row["contestant"] == "PATE"
        assert (row["epsilon"], row["delta"], row["queries"]) == (8.0, 1e-5, 40)
        assert 0 <= row["accuracy"] <= 1
        assert 0 < row["answers"] <= 40


def times_in(value):
    """Every text anywhere in ``value`` that is a time of day, and every name that speaks of one."""
    if isinstance(value, dict):
        named = {name for name in value if re.search("second|duration|elapsed|took|started|finished", str(name))}
        return set.union(named, *map(times_in, value.values())) if value else named
    if isinstance(value, list | tuple):
        return set().union(*map(times_in, value))
    return set(re.findall(r"\d{4}-\d\d-\d\dT[\d:.+]+", value)) if isinstance(value, str) else set()


@pytest.mark.long
def test_public_files_have_one_time_and_no_duration(finished):
    """How long training takes depends on the private rows: two times, or a duration, would tell."""
    out, done = finished
    release = read(out / "statement.json")["created"]
    assert times_in(read(out / "results.json")) == {release}
    assert times_in(done.result.to_dict()) == {release}
    for name in ("report.html", "statement.txt", "labels.csv"):
        text = (out / name).read_text()
        assert times_in(text) <= {release}, name
        assert "econds" not in text, name


@pytest.mark.long
def test_durations_are_the_curators(finished):
    out, done = finished
    rows = done.sensitive.to_dict()["seconds"]
    assert [(row["name"], row["seed"]) for row in rows] == [("PATE", 0), ("PATE", 1)]
    page = (out / "sensitive.html").read_text()
    assert "How long a fit took" in page
    for row in rows:
        assert row["seconds"] > 0
        assert f"{row['seconds']:.1f}</td>" in page


@pytest.mark.long
def test_results_say_what_decided_them(finished):
    result = finished[1].result.to_dict()
    assert result["command"] == "pate run --dataset digits"
    assert result["settings"]["n_teachers"] == 10
    assert result["settings"]["mechanism"] == "calibrated to the budget"
    assert result["budget"] == {"epsilon": 8.0, "delta": 1e-5}
    assert result["classes"] == list(range(10))
    assert sum(result["answers_per_class"]) == result["rows"][0]["answers"]
    assert result["statement"]["guarantee"]["epsilon"] <= 8.0


@pytest.mark.long
def test_nothing_sensitive_is_in_the_public_files(finished):
    out, done = finished
    parts = {"references", "label_accuracy", "margins", "teacher_accuracy", "ensemble_curve", "data_dependent"}
    assert parts <= {name for name, value in done.sensitive.to_dict().items() if value}
    # An assumption of the statement has a name of its own, which says nothing about any model.
    keys = {
        key for path, _ in leaves(done.result.to_dict()) if path[:2] != ("statement", "assumptions") for key in path
    }
    assert not keys & {*done.sensitive.to_dict(), "name", "margins", "clear", "margin_noise"} - {"n_teachers", "notes"}
    assert "n_teachers" not in {
        key for path, _ in leaves(done.result.to_dict()) if path[:1] != ("settings",) for key in path
    }

    # Numbers fine enough that meeting one by chance is out of the question.
    secrets = [price.epsilon for price in done.sensitive.data_dependent]
    secrets += [np.mean(done.sensitive.teacher_accuracy)]
    secrets += [a for a in done.sensitive.ensemble_curve.accuracy if a != round(a, 3)]
    secrets += [r.accuracy for r in done.sensitive.references if r.name.startswith("single teacher")]
    assert len(secrets) >= 3
    public_numbers = [v for _, v in leaves(done.result.to_dict()) if isinstance(v, float)]
    public_text = "".join((out / name).read_text() for name in PUBLIC_FILES)
    # Of published rows the accuracy without privacy is public; on 359 test rows another model may be right as often.
    open_ = {row.accuracy for row in done.result.rows if row.role == "ceiling"}
    assert len(set(secrets) - open_) >= 3
    for secret in secrets:
        if secret == done.release.guarantee.epsilon or secret in open_:
            continue  # the noisy histogram's data-dependent cost is its public one
        assert not np.isclose(public_numbers, secret, rtol=1e-9, atol=0).any()
        assert f"{secret:.5f}" not in public_text
    assert str(list(done.sensitive.margins[:8]))[1:-1] not in public_text
    assert "How many teachers?" not in public_text
    assert "How many teachers?" in (out / "sensitive.html").read_text()
    assert "SENSITIVE" not in public_text
    assert "SENSITIVE" in (out / "sensitive.html").read_text().upper()


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [GNMax(1.0), ConfidentGNMax(4.0, 3.0, 1.0)])
def test_data_dependent_costs_stay_inside(tmp_path, mechanism):
    """So little noise that the votes lower the bound; where they don't, it is the public one and no secret."""
    out = tmp_path / "run"
    done = run_experiment(config(mechanism=mechanism, budget=Budget(1e3, 1e-5)), out=out, sensitive_report=True)
    costs = [price.epsilon for price in done.sensitive.data_dependent]
    assert len(costs) == 2
    assert max(costs) < 0.9 * done.release.guarantee.epsilon
    text = "".join((out / name).read_text() for name in PUBLIC_FILES)
    for cost in costs:
        assert f"{cost:.4f}" not in text
        assert f"{cost:.5g}" not in text
    assert "data-dependent" not in (out / "results.json").read_text()
    assert "2018 paper's analysis" not in text


@pytest.mark.long
def test_more_teachers_are_shown_as_the_votes_of_fewer(finished):
    inside = finished[1].sensitive.to_dict()
    curve, references = inside["ensemble_curve"], {r["name"]: r["accuracy"] for r in inside["references"][:4]}
    assert curve["n_teachers"] == list(range(1, 11))
    assert curve["accuracy"][-1] == references["noiseless ensemble"]
    assert min(inside["teacher_accuracy"]) <= curve["low"][0] <= curve["high"][0] <= max(inside["teacher_accuracy"])
    assert curve["accuracy"][0] < curve["accuracy"][-1]  # ten of them know more than one
    sigma = finished[1].release.mechanism.sigma
    assert curve["margin_noise"] == pytest.approx(2**0.5 * sigma)
    page = (finished[0] / "sensitive.html").read_text()
    wider = np.mean(np.array(inside["margins"]) > curve["margin_noise"])
    assert f"{100 * wider:.1f}% of the margins are wider than one standard deviation" in page


@pytest.mark.long
def test_the_sensitive_report_comes_only_when_asked_for(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("something sensitive was computed")

    monkeypatch.setattr(pate.comparison.studies.run, "references_of_shards", refuse)
    monkeypatch.setattr(pate.comparison.studies.run, "account", refuse)
    monkeypatch.setattr(pate.comparison.studies.run, "ensemble_curve", refuse)
    done = run_experiment(config(), out=tmp_path / "run")
    assert done.sensitive is None
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == PUBLIC_FILES


@pytest.mark.long
def test_the_same_public_result_with_and_without_the_sensitive_report(finished):
    plain = run_experiment(config(n_repeats=2))
    # A run with a folder has a ledger, and the statement names its release.
    ledger = {("statement", "ledger_releases")}
    assert {path for path, _ in leaves(plain.result.to_dict())} == {
        path for path, _ in leaves(finished[1].result.to_dict())
    } - ledger


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_experiment(config())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_labels_stand_at_the_first_repeats_rows(tmp_path):
    """The rows of labels.csv are those of the first repeat's public part, by their position there."""
    done = run_experiment(
        config(budget=Budget(1e6, 1e-5), n_repeats=2, teacher="logistic-regression"), out=tmp_path / "run"
    )
    frame = pd.read_csv(tmp_path / "run" / "labels.csv")
    public = load_dataset("digits", random_state=0).public
    assert frame["row"].is_monotonic_increasing
    assert frame["row"].tolist() != list(range(40))
    assert frame["row"].max() < len(public.X)
    answered = frame[frame["status"] == "answered"]
    assert np.mean(answered["label"].astype(int) == public.y_for_evaluation[answered["row"]]) > 0.6
    assert frame["label"].isna().sum() == 40 - done.release.n_answered


@pytest.mark.long
def test_labels_csv_has_one_line_per_query(finished):
    out, done = finished
    frame = pd.read_csv(out / "labels.csv")
    assert frame.columns.tolist() == ["row", "label", "status"]
    assert len(frame) == 40
    assert frame["status"].tolist() == done.release.status.tolist()
    assert frame["label"].dropna().astype(int).tolist() == [v for v in done.release.values() if v is not None]


@pytest.mark.long
def test_the_private_folder_is_beside_and_closed(finished):
    out, _ = finished
    private = out.with_name("full.private")
    assert private.stat().st_mode & 0o077 == 0
    for repeat in range(2):
        ledger = Ledger(private / f"repeat-{repeat}" / "ledger.sqlite")
        assert len(ledger.releases()) == 1
        assert ledger.total == Budget(8.0, 1e-5)
    assert "full.private" not in (out / "report.html").read_text()


# Records vote where nothing is said ----------------------------------------------------------------------------


@pytest.mark.long
def test_nothing_said_lets_records_vote(by_records):
    out, done = by_records
    assert isinstance(done.release, RecordLabels)
    pate_row, dpsgd = (row for row in done.result.rows if row.role == "private")
    assert (pate_row.contestant, pate_row.queries, pate_row.answers) == ("PATE", 200, 200)
    assert (dpsgd.contestant, dpsgd.queries, dpsgd.answers) == ("DP-SGD", None, None)
    assert pate_row.accuracy > 0.8
    settings = done.result.settings
    assert settings["voters"] == "records"
    assert "ballots" in settings["recipe"]
    assert not {"teacher", "n_teachers", "n_queries", "student", "select"} & set(settings)
    assert sum(done.result.answers_per_class) == 200
    assert done.release.guarantee.epsilon <= 3.0
    private = out.with_name("records.private") / "repeat-0"
    assert len(Ledger(private / "ledger.sqlite").releases()) == 1
    assert not (private / "teachers").exists()


@pytest.mark.long
def test_what_is_said_of_records_is_true(by_records):
    out, done = by_records
    rounds = len(done.release.rounds)
    assert any(f"one ballot in each of {rounds} round" in note for note in done.result.notes)
    assert any("no lower data-dependent cost" in note for note in done.result.notes)
    assert done.result.cost_curve is None  # more labelled rows cost nothing more
    page = (out / "report.html").read_text()
    assert "What more queries would cost" not in page
    assert "epsilon = 3" in (out / "statement.txt").read_text()
    for name in PUBLIC_FILES:
        text = (out / name).read_text()
        assert "teacher" not in text, name
        assert "shard" not in text, name
    frame = pd.read_csv(out / "labels.csv")
    assert frame["row"].tolist() == list(range(200))
    assert frame["label"].tolist() == done.release.labels.tolist()


@pytest.mark.long
def test_no_privacy_stands_beside_where_the_rows_are_published(by_records, monkeypatch):
    """Digits are published, so that their report may say what a model of all private rows reaches; others' may not."""
    out, done = by_records
    (ceiling,) = (row for row in done.result.rows if row.role != "private")
    assert (ceiling.contestant, ceiling.role) == ("non-private SVC, all private data", "ceiling")
    assert "the same ballots without noise" not in (out / "results.json").read_text()
    assert (
        f"{100 * ceiling.accuracy:.1f}%<span class='fine'>without privacy; 1 seed" in (out / "report.html").read_text()
    )
    monkeypatch.setattr(pate.data.Dataset, "published", False)
    asked = RunConfig(dataset="digits", budget=Budget(3.0, 1e-5), n_private=300, n_public=100, dpsgd="none")
    closed = run_experiment(asked, sensitive_report=True)
    assert [row.role for row in closed.result.rows] == ["private"]
    assert not closed.result.published
    assert closed.sensitive.references


@pytest.mark.long
def test_the_curators_page_of_records(by_records):
    """References, and nothing that only teachers have."""
    out, done = by_records
    inside = done.sensitive.to_dict()
    found = {r["name"]: r["accuracy"] for r in inside["references"]}
    assert set(found) == {"non-private SVC, all private data", "the same ballots without noise"}
    assert found["the same ballots without noise"] > done.result.rows[0].accuracy - 0.05
    assert not any(inside.get(name) for name in ("margins", "teacher_accuracy", "ensemble_curve", "data_dependent"))
    assert len(inside["label_accuracy"]) == 1
    page = (out / "sensitive.html").read_text()
    assert "the same ballots without noise" in page
    assert "no cost that depends on the data" in page
    for heading in ("Vote margins", "How many teachers?", "Data-dependent prices"):
        assert heading not in page
    public = "".join((out / name).read_text() for name in PUBLIC_FILES)
    assert "without noise" not in public


@pytest.mark.long
def test_a_run_by_records_goes_on_without_paying_again(tmp_path, monkeypatch):
    asked = RunConfig(dataset="digits", budget=Budget(3.0, 1e-5), n_private=500, n_public=200, dpsgd="none")

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pate.comparison.studies.run, "write_text", stop)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(asked, out=tmp_path / "run")
    (paid,) = ledger_of(tmp_path / "run").releases()
    done = run_experiment(asked, out=tmp_path / "run")
    assert [r.id for r in ledger_of(tmp_path / "run").releases()] == [paid.id]
    assert done.release.charge == paid.charge


@pytest.mark.parametrize("said", [{"n_teachers": 10}, {"mechanism": GNMax(40.0)}, {"teacher": "knn"}, {"gap": 1.0}])
def test_what_speaks_of_teachers_means_teachers(said):
    assert RunConfig(dataset="digits", budget=Budget(3.0, 1e-5), **said).who_votes() == "shards"
    with pytest.raises(InvalidInputError, match="voters='records' cannot go with"):
        RunConfig(dataset="digits", budget=Budget(3.0, 1e-5), voters="records", **said)


@pytest.mark.long
@pytest.mark.parametrize("module", ["auto", "linear"])
def test_tables_go_to_representations_as_they_are_and_to_named_modules_encoded(data_home, monkeypatch, module):
    """Categories stay categories for a representation; a module that a person names gets numbers."""
    given = {}
    real = pate.comparison.studies.run.PATEClassifier.fit_keeping

    def spy(self, X, y, **options):
        given["PATE"] = X
        return real(self, X, y, **options)

    monkeypatch.setattr(pate.comparison.studies.run.PATEClassifier, "fit_keeping", spy)
    monkeypatch.setattr(
        pate.comparison.studies.run, "_dpsgd_row", lambda c, data, s, v: given.update(dpsgd=data.private.X)
    )
    monkeypatch.setattr(pate.comparison.studies.run, "_result", lambda *_: None)
    if not (data_home / "adult.data.gz").exists():
        pytest.skip("Adult is not in PATE_DATA_HOME")
    asked = RunConfig(dataset="adult", budget=Budget(1.0, 1e-5), n_private=2000, n_public=300, dpsgd=module)
    run_experiment(asked, data_home=data_home)
    assert isinstance(given["PATE"], pd.DataFrame)
    assert "object" in {str(dtype) for dtype in given["PATE"].dtypes} or given["PATE"].select_dtypes("number").shape[1]
    if module == "auto":
        assert given["dpsgd"] is given["PATE"]
        return
    assert given["dpsgd"].dtype == np.float32
    assert given["dpsgd"].shape[1] > given["PATE"].shape[1]


# DP-SGD beside it ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_dpsgd_at_the_same_budget(tmp_path):
    done = run_experiment(config(dpsgd="linear", n_private=300, n_public=60, n_queries=20), out=tmp_path / "run")
    names = {row["contestant"]: row for row in done.result.to_dict()["rows"]}
    assert set(names) == {"PATE", "DP-SGD"}
    for row in names.values():
        assert (row["epsilon"], row["delta"], row["seed"]) == (8.0, 1e-5, 0)
        assert 0 <= row["accuracy"] <= 1
    assert names["DP-SGD"]["accuracy"] > 0.2
    assert (names["DP-SGD"]["queries"], names["DP-SGD"]["answers"]) == (None, None)
    assert "DP-SGD" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize("who", [{}, {"n_queries": 10}], ids=["records", "shards"])
def test_people_with_several_rows_are_the_unit_on_both_sides(data_home, tmp_path, who, monkeypatch):
    if not (data_home / "diabetes130.npz").exists():
        pytest.skip("diabetes130.npz is not in PATE_DATA_HOME")
    options = {"dataset": "diabetes130", "n_private": 2000, "n_public": 100} | who
    asked = config if who else partial(RunConfig, budget=Budget(8.0, 1e-5))
    fitted = []
    monkeypatch.setattr(
        pate.comparison.studies.run, "make_dpsgd", lambda *a, **k: (fitted.append(make_dpsgd(*a, **k)), fitted[-1])[1]
    )
    done = run_experiment(asked(dpsgd="auto", **options), out=tmp_path / "run", data_home=data_home)
    assert [row.contestant for row in done.result.rows] == ["PATE", "DP-SGD"]
    for statement in (done.result.statement, fitted[0].statement_):
        assert statement.unit == "group"
        assert statement.n_units == done.result.statement.n_units < 2000


# Refused -------------------------------------------------------------------------------------------------------


def test_a_folder_that_holds_something_is_refused_before_work(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text("{}")
    monkeypatch.setattr(pate.comparison.studies.run, "load_dataset", lambda *a, **k: pytest.fail("work was begun"))
    with pytest.raises(RunFolderError, match="is not empty"):
        run_experiment(config(), out=tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.long
def test_a_finished_run_is_not_overwritten(finished):
    out, _ = finished
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    with pytest.raises(RunFolderError):
        run_experiment(config(n_repeats=2), out=out)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


@pytest.mark.long
def test_too_small_a_budget_leaves_nothing_behind(tmp_path):
    with pytest.raises(BudgetExceededError):
        run_experiment(config(mechanism=GNMax(0.5), budget=Budget(0.5, 1e-5)), out=tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []
    assert not list((tmp_path / "run.private").rglob("*.sqlite"))
    assert run_experiment(config(), out=tmp_path / "run").release.n_queries == 40  # the folder can still be used


def test_unknown_names(tmp_path):
    with pytest.raises(InvalidInputError, match="digits"):
        run_experiment(config(dataset="none"))
    with pytest.raises(InvalidInputError, match="teacher must be one of"):
        run_experiment(config(teacher="oracle"))
    with pytest.raises(InvalidInputError, match="student must be one of"):
        run_experiment(config(student="oracle"))
    with pytest.raises(InvalidInputError, match="dpsgd must be one of"):
        config(dpsgd="large")
    with pytest.raises(InvalidInputError, match="n_repeats"):
        config(n_repeats=0)
    with pytest.raises(InvalidInputError, match="random_state"):
        config(random_state=-1)


def test_an_absent_data_set_is_a_clear_error(tmp_path, monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("pooch.retrieve", offline)
    monkeypatch.setattr("socket.socket.connect", offline)
    with pytest.raises(DatasetNotFoundError, match="PATE_DATA_HOME"):
        run_experiment(config(dataset="spambase"), data_home=tmp_path / "none")


# Killed runs ---------------------------------------------------------------------------------------------------

_RUN = """
import os, signal, sys
import pate.estimators._public_model
from pate import Budget
from pate.comparison.studies.config import RunConfig
from pate.comparison.studies.run import run_experiment

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

where, out, teacher, n_teachers = sys.argv[1:]
if where == "student":
    pate.estimators._public_model.fit_student = die  # the first thing after the release is charged
run_experiment(
    RunConfig(dataset="digits", budget=Budget(8.0, 1e-5), teacher=teacher, student="naive-bayes",
              n_teachers=int(n_teachers), n_queries=40, dpsgd="none"),
    out=out,
)
"""


def start(where, out, teacher="naive-bayes", n_teachers=10):
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, where, str(out), teacher, str(n_teachers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(process):
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err


def ledger_of(out):
    return Ledger(out.with_name(out.name + ".private") / "repeat-0" / "ledger.sqlite")


@pytest.mark.long
def test_a_run_killed_among_its_teachers_goes_on_with_the_rest(tmp_path):
    out = tmp_path / "run"
    folder = tmp_path / "run.private" / "repeat-0" / "teachers"
    process = start("teachers", out, "random-forest", 12)

    def finished_teachers():
        return {p: p.stat().st_mtime_ns for p in folder.glob("teacher*") if p.is_file()}

    deadline = time.monotonic() + 60
    while len(finished_teachers()) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    killed(process)
    kept = finished_teachers()
    assert 2 <= len(kept) < 12
    assert list(out.iterdir()) == []
    assert ledger_of(out).releases() == []

    done = run_experiment(config(teacher="random-forest", n_teachers=12), out=out)
    after = finished_teachers()
    assert len(after) == 12
    assert {p: after[p] for p in kept} == kept  # none of them was trained again
    assert len(ledger_of(out).releases()) == 1
    assert done.result.statement.seeded is False
    assert sorted(p.name for p in out.iterdir()) == PUBLIC_FILES


@pytest.fixture(scope="module")
def killed_after_the_release(tmp_path_factory):
    """A run killed once its labels were paid, and the run that went on."""
    out = tmp_path_factory.mktemp("killed") / "run"
    killed(start("student", out))
    assert list(out.iterdir()) == []
    (row,) = ledger_of(out).releases()
    return out, row, run_experiment(config(), out=out)


@pytest.mark.long
def test_labels_that_were_paid_are_not_paid_again(killed_after_the_release):
    out, row, done = killed_after_the_release
    assert [r.charge for r in ledger_of(out).releases()] == [row.charge]
    assert done.result.rows[0].queries == 40
    assert done.release.guarantee == row.charge.guarantee(1e-5)
    assert done.result.statement.guarantee.epsilon == pytest.approx(8.0, rel=1e-3)
    frame = pd.read_csv(out / "labels.csv")
    assert frame["label"].dropna().astype(int).tolist() == done.release.labels[done.release.answered].tolist()


@pytest.mark.long
def test_a_resumed_report_says_what_was_spent(killed_after_the_release):
    """Not what the last attempt spent, which is nothing."""
    _, row, done = killed_after_the_release
    spent = done.result.cost_curve.spent
    assert (spent.queries, spent.epsilon) == (40, pytest.approx(row.charge.guarantee(1e-5).epsilon))
    assert done.result.cost_curve.curves[0].queries[-1] >= 40


@pytest.mark.long
def test_a_run_stopped_while_writing_can_be_continued(tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(
            pate.comparison.studies.run, "write_text", stop
        )  # labels.csv and statement.json stand, the report does not
        with pytest.raises(KeyboardInterrupt):
            run_experiment(config(), out=out)
    run_experiment(config(), out=out)
    assert sorted(p.name for p in out.iterdir()) == PUBLIC_FILES
    assert len(ledger_of(out).releases()) == 1


@pytest.mark.long
def test_another_run_in_the_place_of_a_removed_one_does_not_take_its_answers(tmp_path):
    out = tmp_path / "run"
    run_experiment(config(budget=Budget(8.0, 1e-5)), out=out)
    shutil.rmtree(out)
    try:
        done = run_experiment(config(budget=Budget(1.0, 1e-5)), out=out)
    except (RunFolderError, BudgetExceededError):
        return  # a refusal that says what lies there is as good
    assert done.release.guarantee.epsilon <= done.result.rows[0].epsilon == 1.0


# Pieces --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_repeats_differ_and_the_same_seed_repeats_the_split(finished):
    _, done = finished
    again = run_experiment(config(random_state=1))
    assert again.result.rows[0].seed == 1
    a = load_dataset("digits", random_state=0).private.X
    b = load_dataset("digits", random_state=1).private.X
    assert not np.array_equal(a, b)
    assert done.result.rows[0].seed == 0


@pytest.mark.parametrize("mechanism", [GNMax(30.0), ConfidentGNMax(60.0, 60.0, 30.0)])
def test_cost_curve_meets_the_price(mechanism):
    votes = Votes.from_counts(np.tile([80, 20], (60, 1)))
    release = release_labels(votes, mechanism, budget=Budget(9.0, 1e-5), max_answers=20)
    curve = cost_curve(release, 1e-5).to_dict()
    assert curve["spent"]["queries"] == release.quote.n_queries
    assert curve["spent"]["epsilon"] == release.guarantee.epsilon
    for line in curve["curves"]:
        assert line["queries"][0] == 1
        assert line["queries"][-1] >= release.quote.n_queries
        assert (np.diff(line["epsilon"]) > 0).all()
        # no account is below the least of them at what was asked
        at = np.interp(release.quote.n_queries, line["queries"], line["epsilon"])
        assert at >= release.guarantee.epsilon * (1 - 1e-3)
    least = min(np.interp(release.quote.n_queries, c["queries"], c["epsilon"]) for c in curve["curves"])
    assert least == pytest.approx(release.guarantee.epsilon, rel=1e-2)


@pytest.mark.long
def test_settings_are_plain(finished):
    settings = config(mechanism=GNMax(40.0)).settings()
    json.dumps(settings)
    assert settings["mechanism"] == "GNMax(sigma=40.0)"
    assert not set(settings) & {"budget", "dataset", "protocol"}


def test_a_classifier_instead_of_a_name():
    done = run_experiment(config(teacher=GaussianNB(var_smoothing=0.1), student=GaussianNB(var_smoothing=0.1)))
    assert done.result.settings["teacher"].startswith("GaussianNB(")
    json.dumps(done.result.to_dict())


# Torch teachers ------------------------------------------------------------------------------------------------


def torch_teachers(**options):
    from pate import TorchTeacherEnsemble
    from pate.networks import MLP

    kwargs = {"module_kwargs": {"hidden": (32,)}, "epochs": 8, "learning_rate": 1e-2, "device": "cpu"}
    return TorchTeacherEnsemble(MLP, 3, **(kwargs | options))


@pytest.mark.long
def test_a_run_with_torch_teachers_and_everything_asked_for(tmp_path):
    out = tmp_path / "run"
    asked = config(teacher=torch_teachers(), n_private=500, budget=Budget(1e3, 1e-5))
    done = run_experiment(asked, out=out, sensitive_report=True)
    assert sorted(p.name for p in out.iterdir()) == sorted([*PUBLIC_FILES, "sensitive.html"])
    assert len(list((tmp_path / "run.private" / "repeat-0" / "teachers").glob("teacher*"))) == 10  # the run's number
    assert done.result.settings["teacher"].startswith("TorchTeacherEnsemble(")
    found = {row.name: row.accuracy for row in done.sensitive.references}
    # One of the same kind that saw every row is ahead of what saw a tenth of them.
    assert found["non-private MLP, all private data"] > max(done.sensitive.teacher_accuracy)
    assert found["noiseless ensemble"] > found["single teacher (mean)"]
    assert done.sensitive.ensemble_curve.n_teachers[-1] == 10
    public_text = "".join((out / name).read_text() for name in PUBLIC_FILES)
    assert "How many teachers?" not in public_text


def test_the_open_model_of_many_rows_has_fewer_epochs(monkeypatch):
    """As many steps as a teacher of 20,000 rows would have."""
    from pate import TorchTeacherEnsemble

    fits = []

    def watch(self, X, y):
        fits.append((self.n_teachers, self.epochs, self.checkpoint_dir, len(X)))
        raise InterruptedError

    monkeypatch.setattr(TorchTeacherEnsemble, "fit", watch)
    data = load_dataset("digits")
    for limit, epochs in ((10**6, 8), (len(data.private.y) // 2, 4), (1, 1)):
        monkeypatch.setattr(pate.comparison.studies.run, "LARGE", limit)
        with pytest.raises(InterruptedError):
            pate.comparison.studies.run._open_model(torch_teachers(checkpoint_dir="x"), data, data, 0)
        assert fits[-1] == (1, epochs, None, len(data.private.y))
