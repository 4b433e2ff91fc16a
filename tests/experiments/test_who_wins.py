"""What the reports say of PATE and DP-SGD is what was measured."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def who_wins(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import who_wins as script

    yield script
    sys.modules.pop("who_wins", None)


def test_the_stored_table_is_that_of_the_stored_results(who_wins):
    stored = json.loads(who_wins.Config().out.read_text(encoding="utf-8"))
    assert stored == who_wins.measured(who_wins.Config()), "run python experiments/who_wins.py"


def test_dpsgd_is_taken_at_its_best_and_one_seed_decides_nothing(who_wins, tmp_path):
    def cell(method, mean, n, epsilon=1.0):
        accuracy = {"mean": mean, "sd": 0.01 if n > 1 else None, "n": n}
        return {"data": "d", "protocol": "standard", "method": method, "epsilon": epsilon, "accuracy": accuracy}

    summary = [
        cell("records", 0.9, 3),
        cell("dp-sgd", 0.7, 3),
        cell("dp-sgd-best", 0.8, 2),
        cell("dp-sgd", 0.99, 1, 3.0),
    ]
    summary += [cell("records", 0.95, 3, 3.0), cell("shards", 0.99, 3)]
    problems = [{"data": "d", "protocol": "standard", "n_public": 40}]
    first = {"delta": 1e-5, "problems": problems, "summary": summary}
    run = {"data": "d", "epsilon": 1.0, "public": True, "adjacency": "replace-one", "n_public": 40}
    other = [
        {**run, "n_public": 41},
        {**run, "adjacency": "add-or-remove"},
        {**run, "public": False},
        {**run, "contestant": "records"},
    ]
    cells = [{**run, "accuracy": a} for a in (0.84, 0.86)] + [{**odd, "accuracy": 0.97} for odd in other * 2]
    (tmp_path / "a.json").write_text(json.dumps(first))
    (tmp_path / "r.json").write_text(json.dumps({"cells": cells}))
    config = replace(who_wins.Config(), accuracies=tmp_path / "a.json", recipes=tmp_path / "r.json")
    (row,) = who_wins.measured(config)["rows"]
    assert (row["epsilon"], row["pate"]["mean"], row["dpsgd"]["mean"], row["dpsgd"]["n"]) == (1.0, 0.9, 0.85, 2)
