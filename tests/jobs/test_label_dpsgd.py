"""Files in, a model out that DP-SGD learnt, and labels where there are public rows."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from pate import Budget, GaussianSum, InvalidInputError, Ledger, PATEClassifier
from pate.data import Column, Schema
from pate.exceptions import CuratorWarning, PrivacyParameterWarning
from pate.jobs import GradientPlan, LabelJob, predict_file
from pate.models.file import read_model

pytestmark = pytest.mark.filterwarnings("ignore:the column 'who' has")
BUDGET = Budget(2.0, 1e-4)
RANGES = {"age": (0, 100), "town": ["Oslo", "Rome"]}
N, N_PUBLIC = 600, 50


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"age": rng.uniform(10, 90, N + N_PUBLIC).round(3), "town": rng.choice(["Oslo", "Rome"], N + N_PUBLIC)}
    )
    rows[N:].to_csv(tmp_path / "public.csv", index=False)
    rows = rows[:N].assign(ill=np.where(rows["age"][:N] > 50, "yes", "no"), who=[f"p{i // 2}" for i in range(N)])
    rows.to_csv(tmp_path / "private.csv", index=False)
    return tmp_path


def job(folder, public="public.csv", **more):
    given = {"target": "ill", "classes": ["no", "yes"], "budget": BUDGET, "voters": "dpsgd"}
    given |= {} if public is None or "group" in more else {"drop": ["who"]}
    return LabelJob(folder / "private.csv", None if public is None else folder / public, **(given | more))


@pytest.mark.long
def test_labels_model_and_statement_are_of_one_run(files):
    made = job(files, ledger=files / "ledger.sqlite")
    assert isinstance(made.plan, GradientPlan)
    assert made.plan.text().splitlines()[0] == f"learns     DP-SGD, from {N} records"
    release = made.run()
    assert release.statement.guarantee == made.plan.guarantee
    paths = made.write(release, files / "labels.csv", proba=True)
    made.model(release).save(files / "labels.pate")
    made.finish()
    frame = pd.read_csv(files / "labels.csv")
    assert frame.columns.tolist() == ["row", "label", "status", "confidence", "p_no", "p_yes"]
    assert (frame["label"] == np.where(pd.read_csv(files / "public.csv")["age"] > 50, "yes", "no")).mean() > 0.8
    found = Ledger(files / "ledger.sqlite").verify(files=[paths[0], paths[1], files / "labels.pate"])
    assert [one.status for one in found.files] == ["as released"] * 3
    (row,) = Ledger(files / "ledger.sqlite").releases()
    assert row.facts["epsilon"] == release.guarantee.epsilon
    predict_file(files / "labels.pate", files / "public.csv", files / "again.csv")
    assert pd.read_csv(files / "again.csv")["label"].tolist() == frame["label"].tolist()


@pytest.mark.long
def test_without_public_rows_there_is_a_model_within_declared_ranges(files):
    made = job(files, None, schema=RANGES, group="who")
    reported = dict(made.plan.lines())
    assert reported["columns"].splitlines() == ["age: number from 0 to 100", "town: 2 categories"]
    assert reported["labels"].startswith("none, as there are no public rows")
    release = made.run()
    assert (release.n_queries, release.statement.unit, release.statement.n_units) == (0, "group", N // 2)
    assert [path.name for path in made.write(release, files / "out.csv")] == [
        "out.statement.json", "out.statement.txt", "out.statement.html"]  # fmt: skip
    made.model(release).save(files / "out.pate")
    assert read_model(files / "out.pate").manifest.kind == "dpsgd"
    done = predict_file(files / "out.pate", files / "public.csv", files / "predicted.csv")
    truth = np.where(pd.read_csv(files / "public.csv")["age"] > 50, "yes", "no")
    assert done.n_rows == N_PUBLIC
    assert (pd.read_csv(files / "predicted.csv")["label"] == truth).mean() > 0.8
    assert PATEClassifier.load(files / "out.pate").voters_ == "dpsgd"


def test_columns_without_a_range_are_left_out_and_said(files):
    made = job(files, None, schema={"age": (0, 100)})
    assert "town: left out, as no range of it was declared" in made.plan.text()


def test_a_schema_declares_columns_too_and_dates_among_them(files):
    assert job(files, None, schema=Schema.declared(RANGES)).plan.text() == job(files, None, schema=RANGES).plan.text()
    dated = Schema((Column("age", "date:year-first", range=(0, 20_000)), Column("town", "category", ("Oslo", "Rome"))))
    with pytest.warns(CuratorWarning, match="'age' has 600 that are not what the public rows have"):
        assert "age: day from 0 to 20000" in job(files, None, schema=dated).plan.text()
    with pytest.raises(InvalidInputError, match="schema of a table must be by the names of its columns"):
        job(files, None, schema=(0, 1)).plan  # noqa: B018


@pytest.mark.long
def test_auto_says_why(files):
    pd.read_csv(files / "public.csv")[:9].to_csv(files / "few.csv", index=False)
    made = job(files, "few.csv", voters=None)
    assert made.voters == "dpsgd"
    assert "9 public rows make no map" in made.plan.text()
    assert "9 public rows make no map" in made.run().statement.mechanism
    assert job(files, voters="auto", force=True).voters == "records"


def test_neighbouring_files_have_one_plan(files):
    before = job(files, None, schema=RANGES).plan.text()
    lines = (files / "private.csv").read_text().splitlines()
    lines[5] = "1e99,?,,"
    (files / "private.csv").write_text("\n".join(lines) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert job(files, None, schema=RANGES).plan.text() == before


@pytest.mark.long
def test_a_job_that_died_after_its_run_gives_the_same_model_for_nothing(files):
    kept = {"ledger": files / "ledger.sqlite", "checkpoint_dir": files / "out.private"}
    first = job(files, **kept)
    one = first.run()
    again = job(files, **kept)
    assert again.plan.is_paid
    assert "nothing more: a run that was cut off paid" in again.plan.text()
    two = again.run()
    assert np.array_equal(one.probability, two.probability)
    assert len(Ledger(files / "ledger.sqlite").releases()) == 1
    again.finish()
    assert not (files / "out.private").exists()


@pytest.mark.parametrize(
    ("public", "options", "text"),
    [
        (
            "public.csv",
            {"max_categories": 9},
            r"max_categories \(--max-categories\) must be left out with voters='dpsgd'",
        ),
        ("public.csv", {"commonest": 0.6}, "commonest"),
        ("public.csv", {"n_teachers": 9}, "voters='dpsgd' cannot go with n_teachers"),
        ("public.csv", {"voters": "records", "schema": RANGES}, "schema must be left out with voters='records'"),
        ("public.csv", {"stated": {"disjoint shards": "mine"}}, "stated has the unknown entry"),
        (None, {}, "schema must be declared"),
        (None, {"schema": RANGES, "student": "svm"}, "student .* where there are no public rows"),
        (None, {"schema": RANGES, "keep_model": False}, "keep_model=False .--no-model. must be left out"),
        (None, {"schema": RANGES, "voters": "heads"}, "public must be given where voters='heads'"),
        (None, {"schema": {"weight": (0, 9)}}, "schema names columns that private.csv lacks: 'weight'"),
        (None, {"schema": {"ill": ["no", "yes"]}}, "must not name 'ill'"),
    ],
)
def test_what_makes_no_sense_is_refused(files, public, options, text):
    with pytest.raises(InvalidInputError, match=text):
        job(files, public, **options)


def test_the_statement_file_is_whole(files):
    made = job(files, None, schema=RANGES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyParameterWarning)
        paths = made.write(made.run(), files / "out.csv")
    assert json.loads(paths[0].read_text())["released"].startswith("the parameters of a classifier trained by DP-SGD")


def test_the_plan_says_that_the_ledger_has_less_left_than_was_asked_for_and_takes_all_of_it(files):
    book = Ledger(files / "ledger.sqlite", total=Budget(2.5, 1e-4), currency="gdp")
    book.record(GaussianSum.for_budget(Budget(1.5, 1e-4)).charge(1), mechanism="m", n_queries=1)
    with pytest.warns(PrivacyParameterWarning, match="epsilon = 2 was asked for, and the ledger has less left"):
        made = job(files, ledger=book.path)
    assert made.plan.guarantee.epsilon < 1.99
    assert "this is all that the ledger has left of its total, epsilon = 2.5" in made.plan.text()
