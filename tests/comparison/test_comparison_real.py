"""Comparisons of real contestants: record voters, teachers and DP-SGD on digits and tables."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from contestants_at_play import DELTA
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from pate import Queries
from pate.comparison.run import compare, compare_on
from pate.data import Dataset, load_dataset
from pate.data._named.dataset import HeldOutRows, PrivateRows, PublicRows
from pate.dpsgd import DPSGDClassifier
from pate.estimators import PATEClassifier
from pate.exceptions import InvalidInputError
from pate.mechanisms import GNMax
from pate.privacy.budget import Budget

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_pate_beside_dpsgd_on_digits(tmp_path):
    data = load_dataset("digits")
    pate = PATEClassifier(
        KNeighborsClassifier(1),
        n_teachers=100,
        classes=range(10),
        queries=Queries(40, gap=0.0, select="spread", force=True),
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
    assert not any("no privacy statement" in note for note in report.notes)
    assert any(
        "PATE: shards were cut by a seed" in note for note in report.notes
    )  # the noise is seeded, shards are too
    report.save(tmp_path)
    assert "Not private: seeded noise" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert compare({"PATE": clone(pate), "DP-SGD": clone(dpsgd)}, data, **call).cells == report.cells


@pytest.mark.long
def test_records_vote_where_a_comparison_says_nothing():
    """The seed of shards is theirs alone: it does not make shard teachers of record voters."""
    data = load_dataset("digits", n_private=500, n_public=200)
    pate = PATEClassifier(classes=range(10), image_shape=data.image_shape)
    report = compare({"PATE": pate}, data, budgets=[Budget(0.1, DELTA), Budget(3.0, DELTA)], n_repeats=1)
    assert [(r["queries"], r["answers"]) for r in report.rows()] == [(200, 200)] * 2
    assert report.rows()[1]["accuracy"] > max(0.8, report.rows()[0]["accuracy"])
    assert all("GaussianSum" in s.mechanism for s in report.statements.values())
    heads = PATEClassifier(voters="heads", n_teachers=20, classes=range(10), queries=Queries(force=True))
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


@pytest.mark.long
def test_contestants_read_mixed_tables_themselves():
    """A mixed table as it is: record voters and DP-SGD's planner learn from its public rows how to read it."""
    dpsgd, pate = DPSGDClassifier(budget=Budget(8.0, DELTA), classes=range(2)), PATEClassifier(classes=range(2))
    report = compare({"PATE": pate, "DP-SGD": dpsgd}, mixed_data(), budgets=[Budget(3.0, DELTA)], n_repeats=1)
    assert [row["contestant"] for row in report.rows()] == ["PATE", "DP-SGD"]
    assert set(report.statements) == {("PATE", 3.0), ("DP-SGD", 3.0)}
    assert all(s.guarantee.epsilon <= 3.0 for s in report.statements.values())
    assert not hasattr(dpsgd, "n_features_in_")
    assert all(row["accuracy"] > 0.7 for row in report.rows())


@pytest.mark.long
def test_named_contestants_on_named_data(data_home, tmp_path):
    call = {"epsilons": [8.0], "n_repeats": 1, "n_private": 400, "n_public": 100}
    report = compare_on("digits", **call)
    assert [(c.contestant, c.role) for c in report.cells] == [
        ("pate", "private"), ("gnmax", "private"), ("dpsgd", "private"), ("majority", "private"),
        ("public-labels-100", "floor"), ("no-privacy", "ceiling"),
    ]  # fmt: skip
    by_name = {c.contestant: c for c in report.cells}
    assert by_name["majority"].accuracy < by_name["pate"].accuracy < by_name["no-privacy"].accuracy
    assert all(c.settings for c in report.cells if c.role == "private")
    assert all(e.rule and e.sees for e in report.entrants if e.role == "private" and e.name != "majority")
    with pytest.raises(InvalidInputError, match=r"contestants must be one of .*Did you mean 'dpsgd'"):
        compare_on("digits", contestants=["pate", "dpsdg"], **call)
    with pytest.raises(InvalidInputError, match="at least one budget"):
        compare_on("digits", epsilons=[])
    if not (data_home / "adult.data.gz").exists():
        pytest.skip("Adult is not in PATE_DATA_HOME")
    call = {"epsilons": [1.0], "n_repeats": 1, "n_private": 2000, "n_public": 300, "data_home": data_home}
    report = compare_on("adult", contestants=["pate", "dpsgd"], by="sex", **call)
    assert report.rows()[0]["queries"] == 300
    assert report.rows()[0]["accuracy"] > 0.76
    assert [g.value for g in report.cells[0].groups] == ["Female", "Male"]


@pytest.mark.long
def test_a_budget_that_buys_nothing_is_a_cell_that_says_so(tmp_path):
    """What a fixed noise costs above the budget is refused by public facts: no end of the comparison, no accuracy."""
    pate = PATEClassifier(
        KNeighborsClassifier(1), n_teachers=20, classes=range(10), mechanism=GNMax(2.0), queries=Queries(5, force=True)
    )
    budgets = [Budget(1.0, DELTA), Budget(80.0, DELTA)]
    call = {"budgets": budgets, "n_repeats": 1, "out": tmp_path}
    report = compare({"PATE": pate}, load_dataset("digits"), **call)
    refused, measured = report.cells
    assert refused.accuracy is None
    assert "costs more" in refused.refused or "epsilon" in refused.refused
    assert measured.refused is None
    assert 0 < measured.accuracy < 1
    assert "refused" in repr(report)
    assert report.plot().ax_.get_xlim()
    assert "80" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 fits on the private data" in " ".join(report.notes)
    assert compare({"PATE": pate}, load_dataset("digits"), **call).cells == report.cells


def test_a_setting_from_which_nothing_is_to_be_expected_is_refused_in_words():
    pate = PATEClassifier(KNeighborsClassifier(1), n_teachers=100, classes=range(10), queries=200)
    report = compare({"PATE": pate}, load_dataset("digits"), budgets=[Budget(0.1, DELTA)], n_repeats=1)
    assert "nearly nothing is to be expected" in report.cells[0].refused


@pytest.mark.long
def test_the_experiment_runs(tmp_path):
    script = ROOT / "experiments" / "pate_vs_dpsgd.py"
    done = subprocess.run(
        [sys.executable, str(script), "--smoke", "--out", str(tmp_path)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "dpsgd       8" in done.stdout
    folder = tmp_path / "pate_vs_dpsgd_digits_smoke"
    result = json.loads((folder / "results.json").read_text())
    assert len(result["rows"]) == 4
    assert result["settings"]["random_state"] == 0
    assert {"pate", "torch", "dp-accounting"} <= set(result["versions"])
    assert "commit" in result
    assert (folder / "report.html").exists()
