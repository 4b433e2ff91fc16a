"""The job of several labels: files in, labels out, one charge; what is bad costs nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pate import Budget, InvalidInputError, Ledger
from pate.exceptions import CuratorWarning
from pate.jobs._several import SeveralLabelsJob
from pate.release.statement.files import read_statement

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.normal(size=(900, 2)).round(4), columns=["a", "b"])
LABELS = pd.DataFrame({"ill": np.where(ROWS["a"] > 0, "yes", "no"), "old": (ROWS["b"] > 0).astype(int)}).astype(object)


@pytest.fixture
def files(tmp_path):
    private = ROWS[:800].join(LABELS[:800]).assign(who=[f"p{i // 2}" for i in range(800)])
    private.loc[3, "old"] = "unheard of"
    private.to_csv(tmp_path / "private.csv", index=False)
    ROWS[800:].assign(ill="").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def job(files, **options):
    said = {"target": ["ill", "old"], "budget": Budget(4.0, 1e-4), "drop": ["who"]}
    if "group" in options:
        del said["drop"]
    return SeveralLabelsJob(files / "private.csv", files / "public.csv", **(said | options))


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_labels_of_every_public_row_once_paid(files):
    ledger = files / "l.sqlite"
    first = job(files, ledger=ledger)
    assert not first.plan.is_paid
    columns = dict(first.plan.lines())["columns"].splitlines()
    assert {"ill: a label", "old: a label"} <= set(columns)
    release = first.run()
    first.write(release, files / "out.csv")
    frame = pd.read_csv(files / "out.csv")
    assert frame.columns.tolist() == ["row", "ill", "old", "p_ill", "p_old"]
    truth = LABELS[800:].replace({"yes": 1, "no": 0}).to_numpy(dtype=int)
    assert (frame[["ill", "old"]].to_numpy() == truth).mean() > 0.8
    statement = read_statement(files / "out.statement.json")
    assert (statement.n_units, statement.quality.unit) == (800, "record")
    assert "unheard of" not in statement.text()
    again = job(files, ledger=ledger)
    assert again.plan.is_paid
    assert np.array_equal(again.run().probability, release.probability)
    assert len(Ledger(ledger).releases()) == 1


def test_persons(files):
    assert (job(files, group="who").plan.unit, job(files, group="who").plan.n_units) == ("group", 400)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target": ["ill"]}, "two or more"),
        ({"target": ["ill", "ill"]}, "each once, got 'ill,ill'"),
        ({"target": ["ill", "young"]}, "young"),
        ({"target": ["ill", "p_ill"]}, "p_LABEL"),
        ({"id": "old"}, "id must not be called 'old'"),
    ],
)
def test_bad_input_costs_nothing(files, options, text):
    with pytest.raises(InvalidInputError, match=text):
        job(files, ledger=files / "l.sqlite", **options)
    assert not (files / "l.sqlite").exists()
    assert not (files / "l.sqlite.shards.key").exists()


def test_a_column_that_says_neither_yes_nor_no_is_told_to_the_curator_alone(files):
    with pytest.warns(CuratorWarning):
        (message, *_) = job(files, target=["ill", "a"], drop=["who", "old"]).check_records()
    assert "Nothing would be learnt" in message.text
    assert "of label 2." in message.text
