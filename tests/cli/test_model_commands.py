"""The path to a model on the command line: label, predict, show."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import PATEClassifier
from pate.exceptions import StudentError

N, N_PUBLIC = 600, 60


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    n = N + 2 * N_PUBLIC
    made = pd.DataFrame({"age": rng.normal(50, 10, n), "town": rng.choice(["Oslo", "Rome"], n)})
    made["ill"] = np.where(made["age"] > 50, "yes", "no")
    made[:N].to_csv(tmp_path / "private.csv", index=False)
    made[N : N + N_PUBLIC].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    made[N + N_PUBLIC :].assign(who=[f"{i:03d}" for i in range(N_PUBLIC)]).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


LABEL = ("label", "--private", "private.csv", "--public", "public.csv", "--target", "ill", "--classes", "no,yes",
         "--epsilon", 4, "--delta", "1e-4", "--jobs", 1)  # fmt: skip


@pytest.mark.long
def test_label_predict_show(tables):
    done = pate(*LABEL, "--out", "labels.csv", "--proba", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert "Wrote labels.pate, the model: pate predict ROWS.csv --model labels.pate" in done.stdout
    labels = pd.read_csv(tables / "labels.csv")
    assert labels.columns.tolist() == ["row", "label", "status", "confidence", "p_no", "p_yes"]
    ledger = (tables / "private.csv.ledger.sqlite").read_bytes()
    done = pate(
        "predict", "new.csv", "--model", "labels.pate", "--id", "who", "--out", "said.csv", "--proba", cwd=tables
    )
    assert done.returncode == 0, done.stderr
    assert "Columns left out, as the model does not use them: ill" in done.stdout
    assert "60 rows predicted; nothing was spent" in done.stdout
    said, truth = pd.read_csv(tables / "said.csv", dtype={"who": str}), pd.read_csv(tables / "new.csv")
    assert said.columns.tolist() == ["who", "row", "label", "confidence", "p_no", "p_yes"]
    assert said["who"][7] == "007"
    assert (said["label"] == truth["ill"]).mean() > 0.8
    assert (tables / "private.csv.ledger.sqlite").read_bytes() == ledger
    statement = json.loads((tables / "labels.statement.json").read_text())
    shown = pate("show", "labels.pate", cwd=tables)
    assert shown.returncode == 0
    for words in ("'age' (number), 'town' (text)", "no, yes (texts)", "PRIVACY STATEMENT"):
        assert words in " ".join(shown.stdout.split())
    reported = json.loads(pate("show", "labels.pate", "--json", cwd=tables).stdout)
    assert reported["statement"]["guarantee"] == statement["guarantee"]
    assert pate("show", "labels.pate", "--out", "page.html", cwd=tables).returncode == 0
    assert "<h1>Model labels.pate</h1>" in (tables / "page.html").read_text()
    loaded = PATEClassifier.load(tables / "labels.pate")
    assert loaded.predict(pd.read_csv(tables / "public.csv")).tolist() == labels["label"].tolist()


@pytest.mark.long
def test_a_model_can_be_left_out_and_none_is_overwritten(tables):
    (tables / "labels.pate").write_text("mine")
    done = pate(*LABEL, "--out", "labels.csv", cwd=tables)
    assert (done.returncode, "labels.pate' exists" in done.stderr) == (2, True)
    assert not list(tables.glob("*.sqlite"))
    done = pate(*LABEL, "--out", "labels.csv", "--no-model", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert (tables / "labels.pate").read_text() == "mine"


@pytest.mark.long
def test_a_student_that_fails_leaves_the_labels_and_the_next_one_is_free(tables, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("pate.jobs._student.fit_student", lambda *_, **__: (_ for _ in ()).throw(StudentError("no.")))
        done = pate(*LABEL, "--out", "labels.csv", "--student", "knn", cwd=tables)
    assert done.returncode == 2
    assert "The labels are written" in done.stderr
    assert (tables / "labels.csv").exists()
    assert not (tables / "labels.pate").exists()
    done = pate(*LABEL, "--out", "again.csv", "--student", "decision-tree", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert "will spend nothing more" in done.stdout
    assert (tables / "again.pate").exists()


def test_bad_models_and_probabilities_of_labels_alone_are_refused_in_one_line(tables):
    (tables / "bad.pate").write_bytes(b"PK\x03\x04 nothing")
    for command in (("show", "bad.pate"), ("predict", "new.csv", "--model", "bad.pate", "--out", "a.csv")):
        done = pate(*command, cwd=tables)
        assert done.returncode == 2
        assert done.stderr.startswith("error: 'bad.pate' is not an intact model file")
        assert len(done.stderr.splitlines()) == 1
    done = pate(*LABEL, "--out", "l.csv", "--teachers", 30, "--mechanism", "gnmax", "--sigma", 8, "--queries", 10,
                "--proba", cwd=tables)  # fmt: skip
    assert (done.returncode, "labels alone are released" in done.stderr) == (2, True)
    assert not list(tables.glob("l.*"))
