"""``pate train``: a model of private records alone, of classes or of a number, and what the curator is told before."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import PATERegressor
from pate.models.file import read_model

SCHEMA = """\
rows = "table"
[[column]]
name = "age"
kind = "numeric"
range = [0, 120]
integer = true
[[column]]
name = "town"
kind = "category"
categories = ["Oslo", "Rome"]
[[column]]
name = "seen"
kind = "date:day-first"
range = ["2020-01-01", 2024-12-31]
"""


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """A private table with ids, a town that the schema lacks and days, and a schema of it."""
    folder, rng, n = tmp_path_factory.mktemp("visits"), np.random.default_rng(0), 3000
    table = pd.DataFrame({"patient_id": rng.integers(0, 700, n), "age": rng.integers(18, 90, n)})
    table["town"] = rng.choice(["Oslo", "Rome", "Bonn"], n, p=[0.5, 0.48, 0.02])
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), unit="D")
    table["seen"] = pd.Series(days).dt.strftime("%d/%m/%Y")
    table["ill"] = np.where(table["age"] > 50, "yes", "no")
    table["cost"] = 10 * table["age"] + rng.normal(0, 20, n)
    table.to_csv(folder / "p.csv", index=False)
    (folder / "s.toml").write_text(SCHEMA)
    return folder


@pytest.fixture
def there(visits, tmp_path):
    for name in ("p.csv", "s.toml"):
        (tmp_path / name).write_bytes((visits / name).read_bytes())
    return tmp_path


def train(there, *more, target="ill", expected=0):
    done = pate(
        "train", "--private", "p.csv", "--schema", "s.toml", "--target", target, "--epsilon", "3", "--model", "m.pate",
        "--new-ledger", "--yes", *more, cwd=there,
    )  # fmt: skip
    assert done.returncode == expected, done.stderr
    return done


def test_classes_are_learnt_on_synthetic_rows_which_predict_reads_again(there):
    done = train(there, "--classes", "no,yes", "--keep-rows", "rows.csv")
    before, _, _ = done.stderr.partition("Plan")
    assert "--group patient_id" in before
    assert "'town' has" in before
    assert "Bonn" not in done.stdout
    rows = pd.read_csv(there / "rows.csv")
    assert rows["seen"].str.fullmatch(r"\d\d/\d\d/20\d\d").all()
    pate("predict", "rows.csv", "--model", "m.pate", "--out", "again.csv", cwd=there)
    again = pd.read_csv(there / "again.csv")
    assert (again["label"] == rows["ill"]).all()
    page = read_model(there / "m.pate").text()
    assert "synthetic rows" in page
    assert "public rows taught" not in page
    assert "2,000 public rows" not in " ".join(page.split())
    assert not [path.name for path in there.iterdir() if path.name.endswith(".lock")]


def test_a_number_is_learnt_with_errors_and_intervals(there):
    done = train(there, "--numeric", "--range", "0,100000", target="cost")
    assert "--group patient_id" in done.stderr
    assert "The model is off by" in done.stdout
    assert not (there / "m.private").exists()
    pate("predict", "p.csv", "--model", "m.pate", "--out", "out.csv", cwd=there)
    found, table = pd.read_csv(there / "out.csv"), pd.read_csv(there / "p.csv")
    assert np.corrcoef(found["value"], table["cost"])[0, 1] > 0.9
    assert ((found["low"] <= table["cost"]) & (table["cost"] <= found["high"])).mean() > 0.8
    model = PATERegressor.load(there / "m.pate")
    assert model.measured_.n == 3000
    assert json.loads((there / "m.statement.json").read_text())["errors"]["held_out"] is False
    twice = pate(
        "train", "--private", "p.csv", "--schema", "s.toml", "--target", "cost", "--epsilon", "3", "--model", "n.pate",
        "--numeric", "--range", "0,100000", "--yes", cwd=there,
    )  # fmt: skip
    assert twice.returncode != 0  # the ledger's total is this epsilon, and is used up
    assert "stays free" in twice.stderr


def test_what_nobody_votes_with_is_said_first_and_plainly(there):
    done = train(there, "--numeric", "--range", "0,1", "--plan")
    assert "0 of 3,000 records (0.0%) vote: 3,000 without a number. Nothing would be learnt" in done.stderr
    assert "release from p.csv: it sets their total to epsilon 3 for good, and spends all" in " ".join(
        done.stdout.split()
    )
    done = train(there, "--classes", "Yes,No", "--plan")
    assert "Nothing would be learnt, and the budget would be spent" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--classes is missing"),
        (("--numeric",), "--range is missing"),
        (("--numeric", "--range", "0,1", "--classes", "a,b"), "--classes must be left out with --numeric"),
        (("--classes", "a,b", "--range", "0,1"), "--range is of a numeric target"),
        (("--numeric", "--range", "0,1", "--range", "0,2"), "--range must be given once with --numeric"),
        (("--numeric", "--range", "0,1", "--keep-rows", "r.csv"), "--keep-rows must be left out"),
    ],
)
def test_misuse_is_refused_in_one_line(there, words, message):
    done = train(there, *words, expected=2)
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert not (there / "p.csv.ledger.sqlite").exists()


def test_dates_in_a_schema_say_their_remedy(there):
    (there / "s.toml").write_text(SCHEMA.replace("date:day-first", "numeric"))
    assert 'kind = "date:year-first"' in train(there, "--classes", "no,yes", expected=2).stderr
    (there / "s.toml").write_text(SCHEMA.replace("2020-01-01", "soon"))
    assert 'Write them as "2020-01-31"' in train(there, "--classes", "no,yes", expected=2).stderr


@pytest.mark.parametrize("target", ["ill", "cost"])
def test_how_the_private_file_is_written_may_be_said(there, target):
    table = pd.read_csv(there / "p.csv")
    table["age"] += 0.5
    table.to_csv(there / "p.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    (there / "s.toml").write_text(SCHEMA.replace("integer = true\n", ""))
    said = ["--classes", "no,yes"] if target == "ill" else ["--numeric", "--range", "0,2000"]
    done = train(there, *said, "--sep", ";", "--decimal", ",", "--encoding", "utf-16", target=target)
    assert "'age'" not in done.stderr
    assert "without a number" not in done.stderr
