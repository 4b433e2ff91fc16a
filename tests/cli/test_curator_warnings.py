"""The curator is warned, and asked, before anything is spent; what is released never depends on it."""

from __future__ import annotations

import io
import sys

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import Budget
from pate.cli import _label as label_command
from pate.jobs import LabelJob, _tables

N, N_PUBLIC = 400, 60


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    n = N + N_PUBLIC
    frame = pd.DataFrame({"age": rng.normal(50, 10, n).round(1), "dose": rng.normal(3, 0.5, n).round(2)})
    frame["tumour"] = np.where(frame["age"] > 53, "malignant", "benign")
    frame["patient_id"] = [f"p{i // 2}" for i in range(n)]
    frame[:N].to_csv(tmp_path / "private.csv", index=False)
    frame[N:].drop(columns=["tumour", "patient_id"]).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def label(folder, *more, classes="benign,malignant", only=("--drop", "patient_id")):
    named = () if classes is None else ("--classes", classes)
    return pate("label", "--private", "private.csv", "--target", "tumour", "--public", "public.csv", *named, *only,
                "--epsilon", 2, "--delta", "1e-4", "--out", "labels.csv", "--jobs", 1, *more, cwd=folder)  # fmt: skip


@pytest.fixture
def person(monkeypatch):
    def types(text):
        monkeypatch.setattr(label_command, "is_interactive", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return types


@pytest.mark.long
def test_a_typo_in_a_class_is_seen_before_it_costs(tables, person):
    n_out = int((pd.read_csv(tables / "private.csv")["tumour"] == "malignant").sum())
    person("n\n")
    done = label(tables, classes="benign,malignat")
    assert done.returncode == 1
    assert f"{N - n_out} of {N} records ({(N - n_out) / N:.1%}) vote: {n_out} of a class outside classes" in done.stderr
    assert "No record is of the class 'malignat'" in done.stderr
    assert f"'malignat' was named, and {n_out} records have 'malignant': is that meant?" in done.stderr
    assert "See the warnings above. Go on?" in done.stderr
    assert sorted(p.name for p in tables.iterdir()) == ["private.csv", "public.csv"]  # no labels.private either


@pytest.mark.long
def test_a_script_gets_warnings_that_quote_no_value_of_a_record(tables):
    done = label(tables, classes="benign,malignat")
    assert done.returncode == 0, done.stderr
    assert "No record is of the class 'malignat'" in done.stderr
    files = [
        p for p in tables.rglob("*") if p.name.startswith("labels") and p.suffix in (".csv", ".json", ".txt", ".html")
    ]
    assert len(files) == 4
    everything = done.stdout + done.stderr + "".join(p.read_text() for p in files)
    assert "malignant" not in everything


@pytest.mark.long
def test_yes_answers_beforehand(tables, person):
    person("n\n")
    done = label(tables, "--yes", classes="benign,malignat")
    assert done.returncode == 0, done.stderr
    assert "Go on?" not in done.stderr
    assert "No record is of the class" in done.stderr


@pytest.mark.long
def test_several_classes_in_a_cell(tables):
    frame = pd.read_csv(tables / "private.csv")
    frame.loc[:99, "tumour"] = "benign; malignant"
    frame.to_csv(tables / "private.csv", index=False)
    assert "100 hold several classes in one cell" in label(tables, "--plan").stderr


@pytest.mark.long
def test_columns_in_other_units(tables, person):
    frame = pd.read_csv(tables / "public.csv")
    frame.assign(dose=frame["dose"] * 1000).to_csv(tables / "public.csv", index=False)
    person("n\n")
    done = label(tables)
    assert done.returncode == 1
    assert "1 of 2 columns of the private rows has other values than" in done.stderr
    assert "'dose' (private values are about 0.001 times the public ones)" in done.stderr
    assert "See the warnings above. Go on?" in done.stderr


def test_honest_tables_give_no_warning(tables, person):
    person("n\n")
    done = label(tables, only=("--group", "patient_id"))
    assert "warning" not in done.stderr
    assert "--delta 0.0001\nGo on? [y/N]" in done.stderr


@pytest.mark.long
def test_ids_of_people_without_a_group(tables):
    for only in (("--drop", "patient_id"), ("--id", "patient_id"), ("--only-common",)):
        done = label(tables, "--plan", only=only)
        assert "the column 'patient_id' has 200 values in 400 records, as ids of people do" in done.stderr, only
        assert "--group patient_id" in done.stderr
    frame = pd.read_csv(tables / "private.csv")
    frame.assign(patient_id=[f"p{i}" for i in range(N)]).to_csv(tables / "private.csv", index=False)
    assert "ids of people" not in label(tables, "--plan").stderr  # each has one record


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
def test_warnings_change_nothing_that_is_released(tables, monkeypatch):
    """The same bits whether the curator was warned often or never."""
    public = pd.read_csv(tables / "public.csv")
    public.assign(dose=public["dose"] * 1000).to_csv(tables / "public.csv", index=False)

    def released(**options):
        job = LabelJob(
            tables / "private.csv", tables / "public.csv", target="tumour", classes=["benign", "malignat"],
            budget=Budget(2.0, 1e-4), drop=["patient_id"], noise_seed=3, **options,
        )  # fmt: skip
        release = job.run()
        said = {k: v for k, v in release.statement.to_dict().items() if k not in ("created", "digest")}
        return release.labels.tolist(), said

    heard = []
    for options in ({}, {"n_teachers": 20, "partition_seed": 0}):
        with monkeypatch.context() as patch:
            patch.setattr(_tables, "warn_curator", lambda found, **_: heard.extend(one.text for one in found))
            reported = released(**options)
        for words in ("has other values than", "No record is of", "ids of people"):
            assert any(words in text for text in heard), words
        with monkeypatch.context() as patch:
            patch.setattr(_tables, "about_labels", lambda *_, **__: [])
            patch.setattr(_tables, "about_shift", lambda *_, **__: [])
            assert released(**options) == reported


def test_an_amount_is_no_class(tables):
    frame = pd.read_csv(tables / "private.csv")
    frame.assign(tumour=np.round(1000 + np.arange(N) * 1.37, 2)).to_csv(tables / "private.csv", index=False)
    done = label(tables, "--classes-from-private", classes=None)
    assert done.returncode == 2
    assert "the target holds many different numbers, as an amount does: that is regression" in done.stderr
    assert "1001.37" not in done.stderr
    assert not (tables / "labels.csv").exists()
    done = label(tables, "--classes-from-private")
    assert "--classes-from-private is for who names no classes" in done.stderr


@pytest.mark.long
def test_predict_reads_numbers_as_label_did(tables):
    for name in ("private", "public"):
        pd.read_csv(tables / f"{name}.csv").to_csv(tables / f"{name}.csv", sep=";", decimal=",", index=False)
    assert label(tables).returncode == 0
    new = pd.read_csv(tables / "private.csv", sep=";", decimal=",").drop(columns=["tumour", "patient_id"])
    new.to_csv(tables / "commas.csv", sep=";", decimal=",", index=False)
    new.to_csv(tables / "points.csv", index=False)
    for name, said in (("commas", ()), ("points", ("--decimal", "."))):
        done = pate("predict", f"{name}.csv", "--model", "labels.pate", "--out", f"{name}.said.csv", *said, cwd=tables)
        assert done.returncode == 0
        assert all(line.startswith("Of the model: ") for line in done.stderr.splitlines())
    assert (tables / "commas.said.csv").read_bytes() == (tables / "points.said.csv").read_bytes()


def test_a_few_odd_cells_that_make_a_column_categories_are_pointed_out(tables):
    public = pd.read_csv(tables / "public.csv").astype({"dose": object})
    public.loc[:2, "dose"] = "<0,6"
    public.to_csv(tables / "public.csv", index=False)
    done = label(tables, "--plan")
    assert "57 cells are numbers and 3 are not, such as '<0,6'" in done.stdout


@pytest.mark.long
def test_texts_alone_are_labelled_and_predicted(tables):
    rng = np.random.default_rng(0)
    sides = {"benign": ["calm", "well", "slow"], "malignant": ["fast", "sore", "pale"]}
    kinds = rng.choice(list(sides), N + N_PUBLIC)
    notes = [" ".join([*rng.choice(sides[kind], 4), f"day {i}"]) for i, kind in enumerate(kinds)]
    frame = pd.DataFrame({"note": notes, "tumour": kinds})
    frame[:N].to_csv(tables / "private.csv", index=False)
    frame[["note"]][N:].to_csv(tables / "public.csv", index=False)
    done = label(tables, "--verbose", only=())
    assert done.returncode == 0, done.stderr
    assert "note: texts\n" in done.stdout
    assert (pd.read_csv(tables / "labels.csv")["label"] == kinds[N:]).mean() > 0.9
    frame.to_csv(tables / "new.csv", index=False)
    done = pate("predict", "new.csv", "--model", "labels.pate", "--out", "said.csv", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert (pd.read_csv(tables / "said.csv")["label"] == kinds).mean() > 0.9
    other = ("--ledger", "other.sqlite", "--new-ledger", "--out", "other.csv")
    for voters in (("--teachers", 20), ("--voters", "heads", "--student", "logistic-regression")):
        done = label(tables, "--plan", *voters, *other, only=())
        assert done.returncode == 0, done.stderr
    done = label(tables, "--plan", "--teachers", 20, "--preprocess", "shard", *other, only=())
    assert "--preprocess must be 'public' for texts" in done.stderr


def test_hundreds_of_columns_are_not_all_named(tables):
    wide = pd.DataFrame(np.zeros((30, 600)), columns=[f"column number {i}" for i in range(600)])
    wide.to_csv(tables / "public.csv", index=False)
    done = label(tables)
    assert done.returncode == 2
    assert "and 590 more" in done.stderr
    assert len(done.stderr) < 2_000
