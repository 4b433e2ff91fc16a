"""Votes cast elsewhere become labels at the price that was planned, and row by row where they belong."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pate import Budget, BudgetExceededError, ConfidentGNMax, GNMax, InvalidInputError, NoisyHistogram
from pate.cli import app
from pate.exceptions import PrivacyParameterWarning, RunFolderError
from pate.label_job import LabelJob, VoteJob

BUDGET = Budget(3.0, 1e-5)
CLASSES = ["no", "yes"]
RICH = {"mechanism": NoisyHistogram(0.01), "budget": Budget(1e7, 1e-5)}  # next to no noise


@pytest.fixture
def truth():
    return np.random.default_rng(0).integers(0, 2, 40)


@pytest.fixture
def votes(tmp_path, truth):
    """Teachers' own labels, all of them right."""
    np.save(tmp_path / "votes.npy", np.tile(truth, (100, 1)))
    return tmp_path / "votes.npy"


@pytest.fixture
def public(tmp_path):
    pd.DataFrame({"age": np.arange(40), "town": ["Oslo", "Rome"] * 20}).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path / "public.csv"


def job(votes, **options):
    return VoteJob(votes, **({"classes": CLASSES, "budget": BUDGET} | options))


def test_labels_stand_at_their_rows(tmp_path, votes, truth):
    work = job(votes, n_queries=15, **RICH)
    release = work.run()
    paths = work.write(release, tmp_path / "labels.csv")
    frame = pd.read_csv(paths[0])
    assert frame["row"].tolist() == list(range(40))
    asked = work.plan.queries
    assert len(asked) == 15
    assert asked.tolist() != list(range(15))
    assert frame["label"][asked].tolist() == [CLASSES[i] for i in truth[asked]]
    others = frame.drop(index=asked)
    assert others["label"].isna().all()
    assert (others["status"] == "not asked").all()
    statement = release.statement.of_file("labels.csv", paths[0].read_bytes())
    assert json.loads(paths[1].read_text()) == json.loads(json.dumps(statement.to_dict()))
    assert paths[2].read_text() == statement.text()


@pytest.mark.parametrize("layout", ["labels", "counts", "csv"])
def test_counts_and_labels_say_the_same(tmp_path, votes, truth, layout):
    counts = np.zeros((40, 2), dtype=int)
    counts[np.arange(40), truth] = 100
    if layout == "counts":
        np.savez(tmp_path / "other.npz", unrelated=np.zeros(3), counts=counts)
        file, options = tmp_path / "other.npz", {"key": "counts"}
    elif layout == "csv":
        np.savetxt(tmp_path / "other.csv", counts, fmt="%d", delimiter=",")
        file, options = tmp_path / "other.csv", {"kind": "counts", "n_teachers": 100}
    else:
        file, options = votes, {}
    release = job(file, **options, **RICH, select="first").run()
    assert release.labels.tolist() == truth.tolist()


@pytest.mark.parametrize("mechanism", [None, GNMax(60.0), ConfidentGNMax(60.0, sigma_threshold=80.0, sigma=40.0)])
def test_the_plan_is_what_is_charged(votes, mechanism):
    work = job(votes, mechanism=mechanism, n_queries=10, max_answers=5 if mechanism and mechanism.may_refuse else None)
    release = work.run()
    assert release.guarantee.epsilon == work.plan.quote.guarantee.epsilon <= BUDGET.epsilon
    assert str(work.plan.quote.guarantee) in str(work.plan)


def test_the_plan_does_not_depend_on_the_votes(tmp_path, votes, truth):
    """Neither what is asked nor what it costs is a function of what the teachers said."""
    np.save(tmp_path / "others.npy", np.tile(1 - truth, (100, 1)))
    a, b = (job(file, n_queries=7).plan for file in (votes, tmp_path / "others.npy"))
    assert str(a) == str(b)
    assert a.queries.tolist() == b.queries.tolist()


def test_the_ledger_lies_beside_the_votes_and_holds_the_total(votes):
    work = job(votes, n_queries=20)
    work.run()
    assert votes.with_name("votes.npy.ledger.sqlite").exists()
    with pytest.raises(BudgetExceededError, match="ledger"):  # the first release took all of it
        job(votes, n_queries=20)


def test_without_the_public_rows_every_run_spends(tmp_path, votes):
    spend = [job(votes, mechanism=GNMax(60.0), n_queries=3, ledger=tmp_path / "book.sqlite") for _ in range(2)]
    for work in spend:
        work.run()
    with sqlite3.connect(tmp_path / "book.sqlite") as book:
        tables = [name for (name,) in book.execute("select name from sqlite_master where type = 'table'")]
        assert any(book.execute(f'select count(*) from "{name}"').fetchone()[0] == 2 for name in tables)


def test_with_the_public_rows_a_second_run_is_free_and_the_same(votes, public):
    first = job(votes, public=public, n_queries=12)
    labels = first.run().labels
    again = job(votes, public=public, n_queries=12)
    assert again.plan.quote.n_queries == 0
    assert again.plan.n_free == 12
    assert "free" in str(again.plan)
    assert again.run().labels.tolist() == labels.tolist()


def test_unit_and_number_reach_the_statement(votes):
    text = job(votes, unit="group", n_units=5000, n_queries=5).run().statement.text()
    assert "group" in text
    assert "5000" in text or "5,000" in text
    with pytest.warns(PrivacyParameterWarning):
        job(votes, n_units=150, budget=Budget(3.0, 0.01), ledger=votes.with_name("other.sqlite"))


def test_results_are_never_overwritten(tmp_path, votes):
    work = job(votes, n_queries=5)
    release = work.run()
    work.write(release, tmp_path / "labels.csv")
    before = (tmp_path / "labels.csv").read_bytes()
    with pytest.raises(RunFolderError, match="never overwritten"):
        work.write(release, tmp_path / "labels.csv")
    assert (tmp_path / "labels.csv").read_bytes() == before


def test_a_gap_abstains(votes):
    release = job(votes, gap=1e9, n_queries=5).run()
    assert release.n_answered == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": None}, "classes must name every class"),
        ({"unit": "house"}, "unit"),
        ({"n_units": 99}, "n_units"),
        ({"select": "spread"}, "select"),
        ({"n_queries": 41}, "n_queries"),
        ({"n_teachers": 99}, "n_teachers=99"),
        ({"budget": 3.0}, "budget"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_spent(votes, options, message):
    with pytest.raises(InvalidInputError, match=message):
        job(votes, **options)
    assert not votes.with_name("votes.npy.ledger.sqlite").exists()


def test_a_public_table_of_other_length_is_refused(tmp_path, votes):
    pd.DataFrame({"age": range(39)}).to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(InvalidInputError, match=r"has 39, .* has votes on 40"):
        job(votes, public=tmp_path / "public.csv")


def test_nothing_of_the_votes_is_in_texts(votes):
    work = job(votes, n_queries=5)
    assert "counts=<sensitive>" in repr(work._votes)
    assert "Votes" not in str(work.plan)


def test_the_command_labels_from_a_vote_file(tmp_path, votes):
    out = tmp_path / "labels.csv"
    base = ["label", "--votes", str(votes), "--classes", "no,yes", "--epsilon", "5", "--kind", "labels"]
    base += ["--sigma", "20", "--mechanism", "gnmax", "--queries", "10", "--out", str(out)]
    planned = CliRunner().invoke(app, [*base, "--plan"])
    assert planned.exit_code == 0, planned.output
    assert "10 of 40 public rows" in planned.output
    assert not out.exists()
    done = CliRunner().invoke(app, base)
    assert done.exit_code == 0, done.output
    frame = pd.read_csv(out)
    assert len(frame) == 40
    assert (frame["status"] == "answered").sum() == 10
    assert (tmp_path / "labels.statement.html").is_file()
    assert votes.with_name("votes.npy.ledger.sqlite").is_file()


def test_the_command_needs_one_way_in(tmp_path, votes):
    base = ["label", "--classes", "no,yes", "--epsilon", "5", "--out", str(tmp_path / "labels.csv")]
    both = CliRunner().invoke(app, [*base, "--votes", str(votes), "--private", "private.csv"])
    none = CliRunner().invoke(app, [*base, "--private", "private.csv"])
    assert isinstance(both.exception, InvalidInputError)
    assert "two ways in" in str(both.exception)
    assert isinstance(none.exception, InvalidInputError)
    assert "--public is missing" in str(none.exception)


@pytest.mark.parametrize(
    "options",
    [["--votes", "votes.npy", "--group", "p"], ["--votes", "votes.npy", "--teachers", "7"],
     ["--private", "p.csv", "--public", "q.csv", "--unit", "group"], ["--private", "p.csv", "--units", "9"]],
)  # fmt: skip
def test_an_option_that_would_be_passed_over_is_refused(tmp_path, options):
    base = ["label", "--classes", "no,yes", "--epsilon", "5", "--out", str(tmp_path / "labels.csv")]
    done = CliRunner().invoke(app, [*base, *options])
    assert isinstance(done.exception, InvalidInputError)
    assert "says nothing about" in str(done.exception)


def test_nobody_vouches_for_teachers_of_an_earlier_release(tmp_path):
    """Labels stored by a release of somebody else's votes are not of the teachers that were trained here."""
    rows = pd.DataFrame({"age": range(60), "w": np.arange(60) % 7, "ill": ["no"] * 30 + ["yes"] * 30})
    rows.to_csv(tmp_path / "private.csv", index=False)
    (rows[["age", "w"]].iloc[::6] + 0.5).to_csv(tmp_path / "public.csv", index=False)
    np.save(tmp_path / "votes.npy", np.array([[60, 30]] * 10))
    common = {
        "classes": CLASSES,
        "budget": Budget(5.0, 1e-3),
        "mechanism": GNMax(20.0),
        "n_queries": 10,
        "ledger": tmp_path / "ledger.sqlite",
    }
    VoteJob(tmp_path / "votes.npy", public=tmp_path / "public.csv", kind="counts", **common).run()
    files = (tmp_path / "private.csv", tmp_path / "public.csv")
    work = LabelJob(*files, target="ill", teacher="naive-bayes", n_teachers=6, **common)
    statement = work.run().statement
    vouched = {a.name for a in statement.assumptions if a.by == "pate"}
    assert vouched == {"noise"}
    assert "90 teachers" in statement.mechanism
    own = LabelJob(*files, target="ill", teacher="naive-bayes", n_teachers=6, **{**common, "ledger": None})
    assert "own shard only" in {a.name for a in own.run().statement.assumptions if a.by == "pate"}
