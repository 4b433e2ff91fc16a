"""Comparisons: what is fitted, what is refused, and what happens when a fit fails."""

import json
import threading
from dataclasses import fields
from pathlib import Path

import pytest
from contestants_at_play import BUDGETS, CALLS, DELTA, FailsLate, Fake, NoSeeds, Stating, WithPublic, small_data
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pate._core.secret import training_seed
from pate.comparison.run import compare
from pate.estimators import PATEClassifier
from pate.exceptions import BudgetExceededError, InvalidInputError, StudentError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.report.result import Row

ROOT = Path(__file__).parents[2]


def test_rows_are_tidy_and_in_order():
    report = compare({"B": Fake(), "A": NoSeeds()}, small_data(), budgets=BUDGETS[::-1], n_repeats=2)
    rows = report.rows()
    columns = [f.name for f in fields(Row) if not f.metadata.get("rare")]  # those are of numbers
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


def test_random_state_none_draws_a_new_seed():
    seeds = {
        compare({"A": Fake()}, small_data(), budgets=BUDGETS[:1], n_repeats=1, random_state=None).rows()[0]["seed"]
        for _ in range(3)
    }
    assert len(seeds) == 3


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"contestants": {}}, "contestants must be a mapping"),
        ({"contestants": [Fake()]}, "contestants must be a mapping"),
        ({"contestants": ["pate", "dpsgd"]}, r"Ready ones by name: .*named\(\['pate', 'dpsgd'\]\)"),
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


def test_a_failure_names_the_fit_and_keeps_the_finished_ones(tmp_path):
    message = (
        r"contestant 'A' failed at epsilon=4, repeat 2 of 2: the student saw one class. "
        r"The 3 finished fits are saved"
    )
    with pytest.raises(StudentError, match=message):
        compare({"A": FailsLate()}, small_data(), budgets=BUDGETS, n_repeats=2, out=tmp_path / "run")
    assert len((tmp_path / "run" / "cells.jsonl").read_text().splitlines()) == 3


@pytest.mark.few(1)
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
        assert error.__notes__ == [
            "contestant 'A' failed at epsilon=4, repeat 2 of 2.",
            f"The 3 finished fits are saved in {str(tmp_path)!r}.",
        ]
    CALLS.clear()
    report = compare({"A": FailsLate()}, small_data(), **call)
    assert len(CALLS) == 1
    assert len(report.rows()) == 4
