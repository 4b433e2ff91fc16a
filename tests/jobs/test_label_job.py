"""Files in, labels out: what is planned is what is charged, rows stay where they are, and nothing private is said."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

from pate import (
    Budget,
    BudgetExceededError,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    NoisyHistogram,
    PrivacyLeakWarning,
    read_table,
)
from pate.exceptions import CuratorWarning, DuplicateRecordsWarning, PrivacyParameterWarning, RunFolderError
from pate.jobs import (
    PREPROCESSING,
    LabelJob,
    NumberJob,
    NumberTrainingJob,
    SeveralLabelsJob,
    VoteJob,
    check_new_files,
    predict_file,
)
from pate.jobs._reading import as_classes, read_classes
from pate.release.statement.files import read_statement

BUDGET = Budget(6.0, 1e-4)
TOWNS = ["Oslo", "Rome", "Kyiv"]


class MustNotTrain(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise AssertionError("a teacher was trained")

    def predict(self, X):
        raise AssertionError("a teacher was asked")


def people(n, seed):
    """A mixed table with holes; the class is plain from the age."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).round(3),
            "town": rng.choice(TOWNS, n),
            "bmi": rng.normal(25, 3, n).round(3),
            "smokes": rng.random(n) < 0.3,
        }
    )
    ill = np.where(frame["age"] > 50, "yes", "no")
    frame.loc[rng.random(n) < 0.1, "bmi"] = np.nan
    frame.loc[rng.random(n) < 0.1, "town"] = None
    return frame, ill


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    elif path.suffix == ".npz":
        np.savez(path, **{c: frame[c].to_numpy() for c in frame.columns})
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture
def files(tmp_path):
    private, ill = people(300, 0)
    public, _ = people(60, 1)
    private = write(private.assign(ill=ill), tmp_path / "private.csv")
    return private, write(public, tmp_path / "public.csv")


def job(private, public, **options):
    defaults = {
        "target": "ill",
        "classes": ["no", "yes"],
        "budget": BUDGET,
        "teacher": "decision-tree",
        "n_teachers": 12,
        "n_queries": 15,
        "random_state": 0,
        "partition_seed": 3,
        "force": True,  # a dozen teachers are quick
    }
    return LabelJob(private, public, **(defaults | options))


RICH = {"mechanism": NoisyHistogram(0.01), "budget": Budget(1e6, 1e-4)}  # next to no noise: labels can be compared


def truth(public, rows):
    return np.where(pd.read_csv(public)["age"].to_numpy()[rows] > 50, "yes", "no")


# Kinds of files ------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("private_kind", [".csv", ".parquet"])
@pytest.mark.parametrize("public_kind", [".csv", ".parquet"])
@pytest.mark.parametrize("preprocess", ["public", "shard"])
def test_mixed_tables_with_missing_values(tmp_path, private_kind, public_kind, preprocess):
    frame, ill = people(300, 0)
    rows, _ = people(60, 1)
    private = write(frame.assign(ill=ill), tmp_path / f"private{private_kind}")
    public = write(rows[["town", "smokes", "bmi", "age"]], tmp_path / f"public{public_kind}")  # another order
    work = job(private, public, preprocess=preprocess, **RICH)
    release = work.run()
    expected = np.where(rows["age"].to_numpy()[work.plan.queries] > 50, "yes", "no")
    assert np.mean(np.array(release.values(), dtype=object) == expected) > 0.8


@pytest.mark.long
@pytest.mark.parametrize("layout", ["columns", "matrix"])
def test_npz(tmp_path, layout):
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(size=(300, 3)), rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    if layout == "matrix":
        np.savez(tmp_path / "private.npz", X=X, y=y)
        np.savez(tmp_path / "public.npz", X=X_public)
    else:
        np.savez(tmp_path / "private.npz", a=X[:, 0], b=X[:, 1], c=X[:, 2], y=y)
        np.savez(tmp_path / "public.npz", a=X_public[:, 0], b=X_public[:, 1], c=X_public[:, 2])
    for preprocess in PREPROCESSING:
        work = job(
            tmp_path / "private.npz",
            tmp_path / "public.npz",
            target="y",
            classes=[0, 1],
            preprocess=preprocess,
            **RICH,
        )
        release = work.run()
        assert np.mean(np.array(release.values()) == (X_public[work.plan.queries, 0] > 0)) > 0.8


def test_no_preprocessing_refuses_what_the_teacher_does_not_take(files):
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        job(*files, preprocess="none", teacher="logistic-regression", drop=["town"]).run()
    plain = job(*files, preprocess="none", drop=["town", "bmi"], **RICH)
    assert np.mean(np.array(plain.run().values()) == truth(files[1], plain.plan.queries)) > 0.8


def test_what_is_learnt_for_preprocessing_comes_from_public_rows(files):
    """A private row alone in its town, or far out in a column, changes no other row's encoding."""
    a = job(*files)
    frame = pd.read_csv(files[0])
    frame.loc[0, ["age", "town"]] = [9e6, "Secretville"]
    frame.to_csv(files[0], index=False)
    b = job(*files)
    encoded = [work._method.encoder.transform(work._source.X) for work in (a, b)]
    same = np.isclose(*encoded).all(axis=1)
    assert same.tolist() == [False] + [True] * 299


@pytest.mark.parametrize("as_text", [True, False])
def test_classes_may_be_numbers_or_their_text(tmp_path, as_text):
    """A command line gives ``0,1`` as text, and the file holds numbers."""
    frame, ill = people(300, 0)
    private = write(frame.assign(ill=(ill == "yes").astype(int)), tmp_path / "private.csv")
    public = write(people(60, 1)[0], tmp_path / "public.csv")
    classes = ["0", "1"] if as_text else [0, 1]
    work = job(private, public, classes=classes, **RICH)
    release = work.run()
    assert set(release.values()) == set(classes)
    expected = np.array(classes, dtype=object)[(truth(public, work.plan.queries) == "yes").astype(int)]
    assert np.mean(np.array(release.values(), dtype=object) == expected) > 0.8


@pytest.mark.parametrize("values", [("False", "True"), ("0", "1")])
def test_a_target_of_truth_values_or_of_decimals(tmp_path, values):
    frame, ill = people(300, 0)
    target = ill == "yes" if values[1] == "True" else (ill == "yes").astype(float)
    private = write(frame.assign(ill=target), tmp_path / "private.csv")
    public = write(people(60, 1)[0], tmp_path / "public.csv")
    assert set(job(private, public, classes=values, **RICH).run().values()) == set(values)


def test_a_public_file_with_target_and_group_columns_is_stripped_of_them(tmp_path):
    """They would be features that tell the answer."""
    frame, ill = people(300, 0)
    rows, answers = people(60, 1)
    groups = np.arange(300) // 3
    private = write(frame.assign(ill=ill, person=groups), tmp_path / "private.csv")
    public = write(rows.assign(ill=answers, person=0, note="x"), tmp_path / "public.csv")
    with pytest.raises(InvalidInputError, match="it also has 'note'"):
        job(private, public, group="person")
    write(rows.assign(ill=answers, person=0), tmp_path / "public.csv")
    work = job(private, public, group="person")
    assert work._method.rows.shape[1] == work._method.encoder.transform(work._source.X).shape[1]
    assert list(work._source.public.columns) == list(work._source.X.columns) == list(frame.columns)
    assert (work.plan.unit, work.plan.n_units, work.plan.n_records) == ("group", 100, 300)


def test_a_dropped_column_is_dropped_from_both(tmp_path, files):
    frame = pd.read_csv(files[0]).assign(row_number=range(300))
    frame.to_csv(files[0], index=False)
    assert job(*files, drop=["row_number"]).plan.n_public == 60
    assert job(*files, drop="row_number").plan.n_public == 60
    with pytest.raises(InvalidInputError, match="it lacks 'row_number'"):
        job(*files)


# The plan ------------------------------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "mechanism", [None, NoisyHistogram(8.0), GNMax(8.0), ConfidentGNMax(8.0, 20.0, 8.0)], ids=lambda m: str(m)
)
def test_the_plan_is_what_is_charged(tmp_path, files, mechanism):
    work = job(*files, mechanism=mechanism, ledger=tmp_path / "l.sqlite")
    planned = str(work.plan)
    assert f"{work.plan.quote.guarantee.epsilon:.6g}" in planned
    assert "15 of 60 public rows asked" in planned
    assert Ledger(tmp_path / "l.sqlite").releases() == []  # planning spends nothing
    release = work.run()
    row = Ledger(tmp_path / "l.sqlite").releases()[0]
    assert release.quote == work.plan.quote
    assert row.charge == work.plan.quote.charge
    assert row.mechanism.startswith(str(work.plan.mechanism))
    assert row.facts.get("right_counts", []) == [m.noise_multiplier for m in work.plan.counts]
    assert release.guarantee.epsilon <= BUDGET.epsilon
    assert len(release.labels) == len(work.plan.queries) == 15


def test_the_plan_is_printed_before_anything_is_trained(files):
    work = job(*files, teacher=MustNotTrain())
    assert "300 records over 12 teachers" in str(work.plan)
    assert "will spend (" in str(work.plan)
    with pytest.raises(InvalidInputError, match=r"cannot be trained on .* public rows"):
        work.run()


def test_the_cap_on_answers_is_in_the_plan_and_kept(files):
    work = job(*files, mechanism=ConfidentGNMax(1.0, 20.0, 8.0), max_answers=4)
    assert "at most 4 answered" in str(work.plan)
    assert work.run().n_answered <= 4


def test_a_plan_says_how_many_rows_are_free(tmp_path, files):
    public = pd.read_csv(files[1])
    pd.concat([public[:10]] * 3).to_csv(files[1], index=False)
    work = job(*files, n_queries=None, mechanism=NoisyHistogram(8.0))
    assert "10 of 30 public rows asked (20 more are repeats or were answered before: free)" in str(work.plan)


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": GNMax(2.0), "on_exhausted": "abstain", "budget": Budget(3.0, 1e-4)},
        {"mechanism": GNMax(30.0), "max_answers": 5},
    ],
)
def test_rows_left_out_are_not_called_free(files, options):
    work = job(*files, **options)
    assert work.plan.quote.n_queries < 15
    assert "free" not in str(work.plan)


def test_too_small_a_budget_is_refused_in_the_plan(tmp_path, files):
    with pytest.raises(BudgetExceededError, match="buys 0 of these 15 queries"):
        job(*files, mechanism=GNMax(0.5), budget=Budget(0.5, 1e-4), ledger=tmp_path / "l.sqlite")
    assert not (tmp_path / "l.sqlite").exists()


def test_a_weak_delta_warns_in_the_plan(files):
    with pytest.warns(PrivacyParameterWarning, match="not below 1/n"):
        job(*files, budget=Budget(6.0, 0.01))


# The ledger ----------------------------------------------------------------------------------------------------


def test_a_second_run_is_free_and_the_same(tmp_path, files):
    ledger = tmp_path / "l.sqlite"
    first = job(*files, ledger=ledger).run()
    spent = Ledger(ledger).spent
    again = job(*files, ledger=ledger)
    assert "0 of 60 public rows asked (15 more are repeats or were answered before: free); will spend (0," in str(
        again.plan
    )
    release = again.run()
    assert np.array_equal(release.labels, first.labels)
    assert np.array_equal(release.noisy_counts, first.noisy_counts)
    assert Ledger(ledger).spent == spent
    assert release.guarantee.epsilon == pytest.approx(first.guarantee.epsilon)


@pytest.mark.long
def test_another_encoding_still_finds_its_answers(tmp_path, files):
    ledger = tmp_path / "l.sqlite"
    first = job(*files, ledger=ledger).run()
    other = job(*files, ledger=ledger, preprocess="shard")
    assert other.plan.quote.n_queries == 0
    assert np.array_equal(other.run().labels, first.labels)


@pytest.mark.long
def test_many_runs_never_exceed_the_first_ones_budget(tmp_path, files):
    """Each run asks other rows at the same noise until the ledger says no; then it never says yes again."""
    ledger, budget, runs = tmp_path / "l.sqlite", Budget(2.0, 1e-4), 0
    for seed in range(12):
        try:
            work = job(
                *files,
                ledger=ledger,
                budget=budget,
                mechanism=GNMax(12.0),
                n_queries=9,
                select="random",
                random_state=seed,
            )
            release = work.run()
        except BudgetExceededError:
            continue
        runs += 1
        assert release.guarantee.epsilon <= budget.epsilon
    held = Ledger(ledger)
    assert 1 < runs == len(held.releases()) < 12
    assert held.total == budget
    terms = held.remaining().terms
    assert held.spent <= terms.limit
    rest = job(*files, ledger=ledger, budget=budget, mechanism=GNMax(12.0), n_queries=60, on_exhausted="abstain")
    rest.run()
    assert Ledger(ledger).spent <= terms.limit
    assert terms.currency.price(GNMax(12.0).charge(1)) > terms.limit - Ledger(ledger).spent


@pytest.mark.long
def test_a_larger_budget_later_does_not_raise_the_total(tmp_path, files):
    ledger = tmp_path / "l.sqlite"
    job(*files, ledger=ledger, budget=Budget(1.0, 1e-4)).run()
    with pytest.raises(BudgetExceededError, match="what is left in the ledger"):
        job(*files, ledger=ledger, budget=Budget(50.0, 1e-4), n_queries=40, random_state=3)


# What is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("select", ["random", "spread"])
def test_labels_stand_at_their_rows_of_the_public_file(tmp_path, files, select):
    work = job(*files, select=select, **RICH)
    release = work.run()
    assert work.plan.queries.tolist() != list(range(len(work.plan.queries)))
    work.write(release, tmp_path / "labels.csv")
    frame = pd.read_csv(tmp_path / "labels.csv")
    asked = frame.index[frame["status"] != "not asked"].to_numpy()
    assert asked.tolist() == work.plan.queries.tolist()
    assert frame["label"].to_numpy()[asked].tolist() == release.values()
    assert np.mean(frame["label"].to_numpy()[asked] == truth(files[1], asked)) > 0.8


def test_every_public_row_has_a_line(tmp_path, files):
    work = job(*files)
    paths = work.write(work.run(), tmp_path / "labels.csv")
    endings = [".csv", ".statement.json", ".statement.txt", ".statement.html"]
    assert [p.name for p in paths] == [f"labels{ending}" for ending in endings]
    frame = pd.read_csv(paths[0])
    assert frame.columns.tolist() == ["row", "label", "status", "margin", "confidence"]
    assert frame["row"].tolist() == list(range(60))
    assert frame["status"].value_counts().to_dict() == {"not asked": 45, "answered": 15}
    assert frame.loc[frame["status"] == "not asked", "label"].isna().all()
    assert set(frame["label"].dropna()) <= {"no", "yes"}


def test_abstentions_are_marked(tmp_path, files):
    work = job(*files, select="first", gap=11.0, mechanism=NoisyHistogram(1.0), budget=Budget(1e4, 1e-4))
    release = work.run()
    assert 0 < release.n_answered < 15
    work.write(release, tmp_path / "labels.csv")
    frame = pd.read_csv(tmp_path / "labels.csv")
    assert (frame["status"] == "refused").sum() == 15 - release.n_answered
    assert frame.loc[frame["status"] == "refused", "label"].isna().all()
    assert frame.loc[frame["status"] == "answered", "label"].tolist() == [v for v in release.values() if v]


def test_repeated_public_rows_get_the_same_label(tmp_path, files):
    public = pd.read_csv(files[1])
    pd.concat([public[:12]] * 3).to_csv(files[1], index=False)
    ledger = tmp_path / "l.sqlite"
    work = job(*files, n_queries=None, mechanism=NoisyHistogram(20.0), ledger=ledger)
    release = work.run()
    work.write(release, tmp_path / "labels.csv")
    label = pd.read_csv(tmp_path / "labels.csv")["label"]
    assert label[:12].tolist() == label[12:24].tolist() == label[24:].tolist()
    assert Ledger(ledger).releases()[0].n_queries == 12


def test_the_statement_files(tmp_path, files):
    work = job(*files, tuning="nothing was tuned")
    release = work.run()
    paths = work.write(release, tmp_path / "labels.csv")
    data = json.loads(paths[1].read_text())
    assert data["private"] is True
    assert data["guarantee"]["epsilon"] == release.guarantee.epsilon
    assert (data["unit"], data["n_units"], data["tuning"]) == ("record", 300, "nothing was tuned")
    held = read_statement(paths[1])
    assert paths[2].read_text() == held.text()
    assert (held.label_file, held.label_file_sha256) == ("labels.csv", sha256(paths[0].read_bytes()).hexdigest())
    assert replace(held, label_file="", label_file_sha256="") == release.statement
    assert paths[3].read_text(encoding="utf-8") == held.html()


def test_groups_reach_the_statement(tmp_path, files):
    frame = pd.read_csv(files[0]).assign(person=[f"p{i // 4}" for i in range(300)])
    frame.to_csv(files[0], index=False)
    work = job(*files, group="person")
    assert "75 groups over 12 teachers" in str(work.plan)
    statement = work.run().statement
    assert (statement.unit, statement.n_units) == ("group", 75)
    with pytest.raises(InvalidInputError, match=r"number of groups \(75\), got 76"):
        job(*files, group="person", n_teachers=76)


def test_results_are_never_overwritten(tmp_path, files):
    work = job(*files)
    release = work.run()
    work.write(release, tmp_path / "labels.csv")
    before = (tmp_path / "labels.csv").read_bytes()
    with pytest.raises(RunFolderError, match="Results are never overwritten"):
        work.write(release, tmp_path / "labels.csv")
    with pytest.raises(RunFolderError):
        check_new_files(tmp_path)
    assert (tmp_path / "labels.csv").read_bytes() == before


def test_statements_of_two_files_with_dots_are_two(tmp_path, files):
    work = job(*files)
    release = work.run()
    first = work.write(release, tmp_path / "labels.v1.csv")
    second = work.write(release, tmp_path / "labels.v2.csv")
    assert not set(first) & set(second)


def test_an_existing_statement_is_not_overwritten(tmp_path, files):
    (tmp_path / "labels.statement.json").write_text("another release's")
    work = job(*files)
    with pytest.raises(RunFolderError):
        work.write(work.run(), tmp_path / "labels.csv")
    assert (tmp_path / "labels.statement.json").read_text() == "another release's"


def test_nothing_private_is_written(tmp_path, files):
    frame = pd.read_csv(files[0])
    frame.loc[5, "town"] = "Secretville"
    frame.loc[6, "age"] = 98765.4321
    frame.to_csv(files[0], index=False)
    work = job(*files, ledger=tmp_path / "out" / "l.sqlite")
    release = work.run()
    work.write(release, tmp_path / "out" / "labels.csv")
    for path in (tmp_path / "out").iterdir():
        raw = path.read_bytes()
        assert b"Secretville" not in raw
        assert b"98765" not in raw
    for text in (str(work.plan), repr(work.plan), repr(work), repr(release)):
        assert "Secretville" not in text
        assert "98765" not in text


def test_checkpoints_are_kept_and_found_again(tmp_path, files):
    options = {"checkpoint_dir": tmp_path / "teachers", "ledger": tmp_path / "l.sqlite"}
    first = job(*files, **options).run()
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "teachers").rglob("*") if p.is_file()}
    assert len(times) >= 12
    assert np.array_equal(job(*files, **options).run().labels, first.labels)
    assert {p: p.stat().st_mtime_ns for p in times} == times


# Refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target": "sick"}, "target column 'sick' is not in private.csv, which has: 'age'"),
        ({"group": "person"}, "group column 'person' is not in private.csv"),
        ({"group": "ill"}, "two roles"),
        ({"preprocess": "all"}, "preprocess must be one of 'public', 'shard', 'none', got 'all'"),
        ({"n_teachers": 301}, r"number of records \(300\), got 301"),
        ({"n_teachers": 0}, "n_teachers must be a whole number >= 1"),
        ({"teacher": "oracle"}, "teacher must be one of"),
        ({"n_queries": 61}, "n_queries must be a whole number >= 1 and <= 60"),
        ({"select": "best"}, "select must be one of"),
        ({"classes": ["yes"]}, "classes must list at least two"),
        ({"classes": "yes"}, "classes must list at least two"),
        ({"mechanism": GNMax(8.0), "gap": 2.0}, "gap must be None"),
    ],
)
def test_bad_parameters_are_refused_in_the_plan(tmp_path, files, options, text):
    with pytest.raises(InvalidInputError, match=text):
        job(*files, ledger=tmp_path / "l.sqlite", **options)
    assert not (tmp_path / "l.sqlite").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"drop": 5}, "drop must be the name of a column or a list of names, got 5"),
        ({"text": 5}, "text must be the name of a column or a list of names, got 5"),
        ({"sep": 5}, "sep must be a text or None, got 5"),
        ({"encoding": 8}, "encoding must be a text or None, got 8"),
        ({"mechanism": "gnmax"}, r"mechanism must be a mechanism such as GNMax\(sigma=40\), got 'gnmax'"),
        ({"checkpoint_dir": 5}, "checkpoint_dir must be a path, a str or a pathlib.Path, got 5"),
        ({"random_state": "x"}, "random_state must be a whole number >= 0, got 'x'"),
        ({"n_jobs": "x"}, "n_jobs must be a whole number, got 'x'"),
        ({"partition_seed": "x"}, "partition_seed must be a whole number >= 0, got 'x'"),
        ({"select": "uncertain", "rounds": 1}, "^rounds must be a whole number >= 2, got 1"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_its_name(files, options, text):
    with pytest.raises(InvalidInputError, match=text):
        job(*files, **options)


def test_tables_in_memory_are_for_the_classifier(files):
    private, public = map(pd.read_csv, files)
    for pair, name in (((private, files[1]), "private"), ((files[0], public), "public")):
        with pytest.raises(InvalidInputError, match=rf"^{name} must be a path.*got a DataFrame.*PATEClassifier"):
            job(*pair)
    with pytest.raises(InvalidInputError, match=r"path must be a path.*got a DataFrame"):
        read_table(private)
    given = {"target": "age", "target_range": (0, 120), "budget": BUDGET}
    for call in (
        lambda: NumberJob(private, files[1], **given),
        lambda: NumberTrainingJob(private, schema={"bmi": (0, 50)}, **given),
        lambda: SeveralLabelsJob(private, files[1], target=["smokes", "ill"], budget=BUDGET),
        lambda: VoteJob(private, classes=["no", "yes"], budget=BUDGET),
        lambda: predict_file(files[0], private, files[0].with_name("out.csv")),
    ):
        with pytest.raises(InvalidInputError, match=r"^(private|votes|rows) must be a path.*got a DataFrame.*memory"):
            call()


def test_a_number_is_no_budget(files):
    with pytest.raises(InvalidInputError, match="budget must be"):
        job(*files, budget=3.0)


def test_files_that_do_not_fit(tmp_path, files):
    private, public = files
    rows = pd.read_csv(public)
    for change, text in (
        (rows.drop(columns="bmi"), "it lacks 'bmi'"),
        (rows.rename(columns={"bmi": "weight"}), "it lacks 'bmi'; it also has 'weight'"),
        (rows.assign(**dict.fromkeys(rows.columns)), "its rows say nothing"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            job(private, write(change, tmp_path / "other.csv"))
    with pytest.raises(InvalidInputError, match="there is no file"):
        job(private, tmp_path / "none.csv")
    with pytest.raises(InvalidInputError, match="has 0 rows"):
        job(private, write(rows[:0], tmp_path / "other.csv"))


def test_of_a_wrong_column_only_the_curator_is_warned(tmp_path, files):
    """Refused when no cell fits, one record with a cell that does would decide whether there is a release."""
    private, public = files
    rows = pd.read_csv(public)
    with pytest.warns(CuratorWarning, match="'age' holds numbers alone, where the public rows have text"):
        job(private, write(rows.assign(age="old"), tmp_path / "other.csv"))
    frame = pd.read_csv(private).assign(bmi=np.arange(300) / 7)
    plans = []
    for n_fitting in (0, 1):
        frame["age"] = ["12"] * n_fitting + ["John Doe"] * (300 - n_fitting)
        frame.to_csv(private, index=False)
        with pytest.warns(CuratorWarning) as said:
            work = job(private, public)
        plans.append(str(work.plan))
        (message,) = [str(w.message) for w in said]
        assert ("it is empty: is it another column?" in message, "Doe" in message) == (not n_fitting, False)
        assert work.run().n_queries == 15
    assert plans[0] == plans[1]


@pytest.mark.few(2)
@pytest.mark.parametrize("target", [["0", "1"], ["00", "01"], ["False", "True"], ["1.50", "2.50"], ["true", "false"]])
@pytest.mark.parametrize("odd", ["?", "2.5", "x", ""])
def test_one_label_changes_no_other_class(files, target, odd):
    """pandas makes 1 of 01 where all cells are numbers, so that one odd cell made everybody's class another."""
    frame = pd.read_csv(files[0], dtype={"ill": str})
    frame["ill"] = np.where(frame["ill"] == "yes", *target)
    seen = []
    for cell in (target[0], odd):
        frame.loc[7, "ill"] = cell
        frame.to_csv(files[0], index=False)
        work = job(*files, classes=target)
        seen.append(as_classes(work._source.y, work._classes))
    assert [set(seen[0]), seen[0][7]] == [set(target), target[0]]
    assert np.delete(seen[0], 7).tolist() == np.delete(seen[1], 7).tolist()


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("cells", "classes"),
    [("01", (0, 1)), (["False", "True"], (False, True)), (["1.5", "2"], (1.5, 2.0)), (["01", "x"], ("01", "x"))],
)
@pytest.mark.parametrize("hole", [False, True])
def test_classes_read_off_the_target_are_what_the_file_holds(files, cells, classes, hole):
    frame = pd.read_csv(files[0])
    frame["ill"] = np.where(frame["ill"] == "yes", *cells)
    frame.loc[7, "ill"] = None if hole else cells[0]
    frame.to_csv(files[0], index=False)
    with pytest.warns(PrivacyLeakWarning):
        found = read_classes(job(*files, classes=None)._source.y)
    assert found == classes
    assert [type(value) for value in found] == [type(value) for value in classes]


@pytest.mark.few(1)
@pytest.mark.parametrize("missing", ["ill", "person", "both"])
def test_a_missing_label_or_owner_refuses_nothing(tmp_path, files, missing):
    """By one ledger: the records are recognised as the same when the job begins and when its teachers are trained."""
    frame = pd.read_csv(files[0]).assign(person=[f"p{i // 2}" for i in range(300)])
    for column in ("ill", "person") if missing == "both" else (missing,):
        frame.loc[7, column] = None
    frame.to_csv(files[0], index=False)
    ledger = tmp_path / "l.sqlite"
    for n_releases in (1, 1):
        work = job(*files, group="person", ledger=ledger, n_teachers=6)
        assert (work.plan.n_units, work.plan.n_records) == (150, 300)
        with pytest.warns(CuratorWarning, match="1 of 300 records cannot be used"):
            release = work.run()
        assert release.statement.n_units == 150
        assert len(Ledger(ledger).releases()) == n_releases


@pytest.mark.few(1)
@pytest.mark.parametrize("value", ["Rare-Secret-Disease", "12345678"])
def test_a_class_outside_classes_decides_nothing_and_is_not_echoed(tmp_path, files, value):
    """Refused, one record would decide whether there is a release."""
    usual = job(*files, ledger=tmp_path / "usual.sqlite", partition_seed=3)
    usual.run()
    frame = pd.read_csv(files[0])
    frame.loc[7, "ill"] = value
    frame.to_csv(files[0], index=False)
    other = job(*files, ledger=tmp_path / "l.sqlite", new_ledger=True, partition_seed=3)
    with pytest.warns(CuratorWarning, match="1 of 300 records cannot be used") as said:
        release = other.run()
    assert value not in str(said[0].message)
    assert value not in json.dumps(release.statement.to_dict())
    assert len(Ledger(tmp_path / "l.sqlite").releases()) == 1
    votes = [j._method.teachers.vote(j._method.rows).labels for j in (usual, other)]
    owner = int(other._method.teachers.partition_.assignment[7])
    assert set(np.flatnonzero((votes[0] != votes[1]).any(axis=1))) <= {owner}


def test_records_of_one_class_make_teachers_that_say_it(tmp_path, files):
    frame = pd.read_csv(files[0]).assign(ill="no")
    frame.to_csv(files[0], index=False)
    work = job(*files, ledger=tmp_path / "l.sqlite")
    with pytest.warns(CuratorWarning, match="No record is of the class 'yes'"):
        work.run()
    assert (work._method.teachers.vote(work._method.rows).labels == 0).all()


def test_a_private_number_that_is_text_is_not_echoed(files):
    frame = pd.read_csv(files[0]).astype({"age": object})
    frame.loc[9, "age"] = "Jane Doe"
    frame.to_csv(files[0], index=False)
    with pytest.warns(CuratorWarning, match="'age' has 1 that are not what the public rows have") as caught:
        work = job(*files)
    assert "Jane" not in str(caught[0].message)
    assert np.flatnonzero(work._source.X["age"].isna()).tolist() == [9]
    assert work.run().n_queries == 15


def test_the_same_person_twice_warns_the_curator_only(tmp_path, files):
    frame = pd.read_csv(files[0])
    pd.concat([frame, frame[:40]]).to_csv(files[0], index=False)
    work = job(*files)
    with pytest.warns(DuplicateRecordsWarning) as caught:
        release = work.run()
    assert issubclass(caught[0].category, PrivacyLeakWarning)
    work.write(release, tmp_path / "labels.csv")
    told = (tmp_path / "labels.statement.txt").read_text().lower().replace("- duplicates: nobody's record", "")
    assert "what was done about it, is not told here" in told  # the assumption, which stands there in any case
    assert "duplicate" not in told


def test_any_classifier_may_teach(files):
    work = job(*files, teacher=DecisionTreeClassifier(max_depth=1), **RICH)
    assert np.mean(np.array(work.run().values()) == truth(files[1], work.plan.queries)) > 0.8


@pytest.mark.long
def test_repeatable_by_seed_and_not_private_then(files):
    a = job(*files, noise_seed=1).run()
    assert np.array_equal(a.labels, job(*files, noise_seed=1).run().labels)
    assert a.statement.headline.startswith("not private: seeded")
    b, c = job(*files).run(), job(*files).run()
    assert not np.isclose(b.noisy_counts, c.noisy_counts).any()
