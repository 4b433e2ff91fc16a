"""What `pate label` measures of its model, and who says it afterwards."""

import json

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

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
    told = json.loads((tmp_path / "labels.statement.json").read_text())["measured"]
    assert 0.85 < told["low"] < told["estimate"] <= told["high"] <= 1
    assert [one["name"] for one in told["by_class"]] == ["no", "yes"]
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
    shards = label("--measure", "yes", "--teachers", "20", "--out", str(tmp_path / "other.csv"))
    assert "where teachers on shards vote" in shards.stderr


@pytest.mark.long
def test_the_model_of_dp_sgd_is_measured_too(label, tmp_path):
    done = label("--voters", "dpsgd", "--measure", "yes")
    assert done.returncode == 0, done.stderr
    assert "measures" in done.stderr + done.stdout
    assert "The model is right on 9" in done.stdout
    assert json.loads((tmp_path / "labels.statement.json").read_text())["measured"]["share"] > 0
