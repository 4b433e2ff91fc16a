"""What `pate label` measures of its model, and who says it afterwards."""

import json

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import Ledger

RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=2_000)
TABLE = pd.DataFrame(RNG.normal(size=(2_000, 3)) + 2 * Y[:, None], columns=list("abc")).assign(
    ill=np.where(Y, "yes", "no")
)


@pytest.fixture
def label(tmp_path):
    TABLE[:1_800].to_csv(tmp_path / "private.csv", index=False)
    TABLE[1_800:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)

    def run(*more):
        given = ["--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv", "--target", "ill",
                 "--classes", "no,yes", "--epsilon", "1", "--out", tmp_path / "labels.csv", "--yes", *more]  # fmt: skip
        return pate("label", *map(str, given))

    return run


@pytest.mark.long
def test_it_is_said_on_the_last_screen_in_the_json_and_by_the_model(label, tmp_path):
    done = label("--measure", "by-class")
    assert done.returncode == 0, done.stderr
    assert "measures" in done.stderr + done.stdout
    assert "The model is right on 9" in done.stdout
    assert "Of class no" in done.stdout
    reported = json.loads((tmp_path / "labels.statement.json").read_text())["measured"]
    assert 0.85 < reported["low"] < reported["estimate"] <= reported["high"] <= 1
    assert [one["name"] for one in reported["by_class"]] == ["no", "yes"]
    assert "Measured accuracy" in (tmp_path / "labels.statement.txt").read_text()
    shown = pate("show", str(tmp_path / "labels.pate"))
    assert "Measured accuracy" in shown.stdout
    asked = pate("predict", str(tmp_path / "public.csv"), "--model", str(tmp_path / "labels.pate"), "--out",
                 str(tmp_path / "predictions.csv"))  # fmt: skip
    assert "The model was measured: right on 9" in asked.stdout


@pytest.mark.long
def test_no_means_no_and_a_named_student_is_not_measured(label, tmp_path):
    done = label("--measure", "no")
    assert done.returncode == 0, done.stderr
    assert "The model is right" not in done.stdout
    assert "measured" not in json.loads((tmp_path / "labels.statement.json").read_text())
    refused = label("--measure", "yes", "--student", "knn", "--out", str(tmp_path / "other.csv"))
    assert refused.returncode != 0
    assert "--measure must be" in refused.stderr
    alone = label("--measure", "yes", "--teachers", "20", "--no-model", "--out", str(tmp_path / "other.csv"))
    assert alone.returncode != 0
    assert "--measure must be" in alone.stderr
    assert "--no-model" in alone.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "who", [("--teachers", "40"), ("--voters", "heads"), ("--teachers", "40", "--select", "uncertain")]
)
def test_the_student_of_teachers_labels_is_measured_too(label, tmp_path, who):
    """A CLI round trip, twice: the count is drawn once, and the ledger knows all files."""
    done = label(*who, "--measure", "by-class")
    assert done.returncode == 0, done.stderr
    assert "measures   how often the model is right and recall by class" in done.stderr + done.stdout
    assert "The model is right on" in done.stdout
    assert "Of class yes" in done.stdout
    statement = json.loads((tmp_path / "labels.statement.json").read_text())
    reported = statement["measured"]
    assert 0.6 < reported["low"] < reported["estimate"] <= reported["high"] <= 1
    assert reported["share"] == pytest.approx(0.08, rel=1e-4)
    assert statement["guarantee"]["epsilon"] <= 1
    assert "Measured accuracy" in pate("show", str(tmp_path / "labels.pate")).stdout
    ledger = tmp_path / "private.csv.ledger.sqlite"
    again = label(*who, "--measure", "by-class", "--out", tmp_path / "again.csv")
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "again.statement.json").read_text())["measured"] == reported
    assert len(Ledger(ledger).releases()) == 1
    for name in ("labels.statement.json", "again.statement.json", "labels.pate", "again.pate"):
        found = pate("verify", str(tmp_path / name), "--ledger", str(ledger))
        assert found.returncode == 0, found.stdout + found.stderr
        assert "as released" in found.stdout


@pytest.mark.long
def test_an_own_student_is_measured_and_one_that_was_not_counted_is_not(label, tmp_path):
    first = label("--teachers", "40", "--student", "knn", "--measure", "yes")
    assert "The model is right on" in first.stdout
    other = label("--teachers", "40", "--student", "decision-tree", "--measure", "yes", "--out", tmp_path / "b.csv")
    assert other.returncode == 0, other.stderr
    assert "The model is right on" not in other.stdout
    assert "of another student" in other.stderr
    assert "measured" not in json.loads((tmp_path / "b.statement.json").read_text())


@pytest.mark.long
def test_the_model_of_dp_sgd_is_measured_too(label, tmp_path):
    done = label("--voters", "dpsgd", "--measure", "yes")
    assert done.returncode == 0, done.stderr
    assert "measures" in done.stderr + done.stdout
    assert "The model is right on 9" in done.stdout
    assert json.loads((tmp_path / "labels.statement.json").read_text())["measured"]["share"] > 0
