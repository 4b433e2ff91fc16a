"""Votes cast elsewhere become labels at the price that was planned, and row by row where they belong."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pate import (
    Budget,
    BudgetExceededError,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    NoisyHistogram,
    Votes,
    account,
)
from pate.cli import app
from pate.exceptions import LedgerError, PrivacyParameterWarning, RunFolderError
from pate.jobs import LabelJob, VoteJob
from pate.privacy.convert import format_up

BUDGET = Budget(3.0, 1e-5)
CLASSES = ["no", "yes"]
RICH = {"mechanism": NoisyHistogram(0.1), "budget": Budget(1e6, 1e-5)}  # next to no noise


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
    """A job on the ledger that is there, or on a new one where there is none."""
    ledger = options.get("ledger") or votes.with_name(votes.name + ".ledger.sqlite")
    return VoteJob(votes, **({"classes": CLASSES, "budget": BUDGET, "new_ledger": not ledger.exists()} | options))


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
    spend = [job(votes, mechanism=GNMax(60.0), n_queries=5, ledger=tmp_path / "book.sqlite") for _ in range(2)]
    for work in spend:
        work.run()
    with closing(sqlite3.connect(tmp_path / "book.sqlite")) as book, book:
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
    assert "counts=<sensitive>" in repr(work._voter)
    assert "Votes" not in str(work.plan)


@pytest.mark.long
def test_the_command_labels_from_a_vote_file(tmp_path, votes):
    out = tmp_path / "labels.csv"
    base = ["label", "--votes", str(votes), "--classes", "no,yes", "--epsilon", "5", "--kind", "labels"]
    base += ["--sigma", "20", "--mechanism", "gnmax", "--queries", "10", "--out", str(out), "--new-ledger"]
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
    assert "--private and --votes must not both be given" in str(both.exception)
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
    assert "has no effect on" in str(done.exception)


def test_teachers_of_an_earlier_release_are_not_vouched_for(tmp_path):
    """Labels stored by a release of other votes are not of the teachers that were trained here."""
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
    VoteJob(tmp_path / "votes.npy", public=tmp_path / "public.csv", kind="counts", new_ledger=True, **common).run()
    Ledger(tmp_path / "ledger.sqlite").revise("the records themselves instead of votes made elsewhere")
    files = (tmp_path / "private.csv", tmp_path / "public.csv")
    common["force"] = True  # six teachers are quick
    work = LabelJob(*files, target="ill", teacher="naive-bayes", n_teachers=6, **common)
    statement = work.run().statement
    vouched = {a.name for a in statement.assumptions if a.by == "pate"}
    assert vouched == {"noise"}
    assert "90 teachers" in statement.mechanism
    own = LabelJob(*files, target="ill", teacher="naive-bayes", n_teachers=6, **{**common, "ledger": None})
    assert "own shard only" in {a.name for a in own.run().statement.assumptions if a.by == "pate"}


# One private data set, one ledger ------------------------------------------------------------------------------


def granted(make, names):
    """How often epsilon was granted: jobs that ran, out of one for each name."""
    n = 0
    for name in names:
        try:
            make(name).run()
        except (InvalidInputError, LedgerError, BudgetExceededError):
            continue
        n += 1
    return n


def test_votes_need_a_ledger_or_a_word(votes):
    with pytest.raises(InvalidInputError, match=r"there is no ledger .*new_ledger=True \(--new-ledger\)"):
        job(votes, new_ledger=False)
    with pytest.raises(InvalidInputError, match="there is no ledger"):
        job(votes, new_ledger=False, ledger=votes.with_name("other.sqlite"))
    assert sorted(p.name for p in votes.parent.iterdir()) == ["votes.npy"]
    job(votes, n_queries=5, new_ledger=True).run()
    with pytest.raises(InvalidInputError, match="already"):
        job(votes, n_queries=5, new_ledger=True)


@pytest.mark.long
def test_five_names_are_not_five_budgets(tmp_path, votes):
    """The same votes as copies, as counts, as csv, in another order: one ledger knows them all."""
    labels = np.load(votes)
    counts = np.stack([100 - labels.sum(0), labels.sum(0)], axis=1)
    np.save(tmp_path / "a.npy", labels)
    np.save(tmp_path / "b.npy", counts)
    np.savetxt(tmp_path / "c.csv", counts, fmt="%d", delimiter=",")
    np.savez(tmp_path / "d.npz", unrelated=np.zeros(2), votes=labels[::-1])
    np.save(tmp_path / "e.npy", counts[::-1])
    kinds = {"a.npy": "labels", "b.npy": "counts", "c.csv": "counts", "d.npz": "labels", "e.npy": "counts"}
    terms = {"mechanism": GNMax(60.0), "n_queries": 20, "budget": Budget(3.5, 1e-5)}

    def make(name, **options):
        key = "votes" if name.endswith("npz") else None
        return VoteJob(tmp_path / name, classes=CLASSES, kind=kinds[name], key=key, **terms, **options)

    assert granted(make, kinds) == 0
    book = tmp_path / "book.sqlite"
    make("a.npy", ledger=book, new_ledger=True).run()
    for name in kinds:
        with pytest.raises(InvalidInputError, match=r"holds the private data set of the ledger .*book\.sqlite"):
            make(name)
        with pytest.raises(InvalidInputError, match=r"holds the private data set of the ledger .*book\.sqlite"):
            make(name, ledger=tmp_path / "fresh.sqlite")
    granted(lambda name: make(name, ledger=book), [*kinds] * 5)
    left = Ledger(book).remaining()
    assert left.spent <= left.terms.limit
    assert granted(lambda name: make(name, new_ledger=True), kinds) == 5  # five times said


def test_a_ledger_of_one_file_of_votes_refuses_another(tmp_path, votes, truth):
    job(votes, n_queries=5, mechanism=GNMax(60.0)).run()
    np.save(votes, np.tile(1 - truth, (100, 1)))
    with pytest.raises(LedgerError, match="other private records"):
        job(votes, n_queries=5, mechanism=GNMax(60.0))
    Ledger(votes.with_name("votes.npy.ledger.sqlite")).revise("teachers trained again")
    job(votes, n_queries=5, mechanism=GNMax(60.0)).run()


@pytest.mark.long
def test_a_renamed_private_file_is_known(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(size=90), "w": rng.normal(size=90), "ill": rng.choice(CLASSES, 90)})
    rows[["age", "w"]].iloc[::6].add(0.5).to_csv(tmp_path / "public.csv", index=False)
    names = [f"p{i}.csv" for i in range(5)]
    for name in names:
        rows.assign(age=rows["age"] + 1).to_csv(tmp_path / name, index=False)
    rows.assign(age=rows["age"] + 1).sort_values("age").to_csv(tmp_path / "sorted.csv", index=False)

    def make(name, **options):
        return LabelJob(
            tmp_path / name, tmp_path / "public.csv", target="ill", classes=CLASSES, budget=Budget(1.0, 1e-3),
            teacher="naive-bayes", n_teachers=6, force=True,
            **({"ledger": tmp_path / f"{name}.ledger.sqlite"} | options),
        )  # fmt: skip

    assert granted(make, names) == 1
    with pytest.raises(InvalidInputError, match=r"p1\.csv holds the private data set of the ledger .*p0\.csv\.ledger"):
        make("p1.csv").run()
    with pytest.raises(InvalidInputError, match=r"sorted\.csv holds the private data set of the ledger .*p0\.csv"):
        make("sorted.csv").run()
    (tmp_path / "p0.csv.ledger.sqlite").rename(tmp_path / "kept.sqlite")
    (tmp_path / "p0.csv.ledger.sqlite.key").rename(tmp_path / "kept.sqlite.key")
    (tmp_path / "noise.sqlite").write_bytes(b"not a ledger")
    assert granted(make, names) == 0
    assert granted(lambda name: make(name, new_ledger=True), names) == 5
    with pytest.raises(InvalidInputError, match="already"):
        make("p1.csv", new_ledger=True)
    with pytest.raises(InvalidInputError, match="Name a file"):
        make("p1.csv", new_ledger=True, ledger=None)
    # Other people's records in the same folder are theirs.
    rows.iloc[1:].to_csv(tmp_path / "others.csv", index=False)
    assert granted(make, ["others.csv"]) == 1


@pytest.mark.long
def test_the_command_takes_an_array_by_its_key(tmp_path, votes):
    np.savez(tmp_path / "two.npz", unrelated=np.zeros((3, 2)), votes=np.load(votes))
    base = ["label", "--votes", str(tmp_path / "two.npz"), "--classes", "no,yes", "--epsilon", "5", "--kind", "labels"]
    base += ["--queries", "5", "--out", str(tmp_path / "labels.csv"), "--new-ledger"]
    advised = CliRunner().invoke(app, base)
    assert isinstance(advised.exception, InvalidInputError)
    assert "--key" in str(advised.exception)
    done = CliRunner().invoke(app, [*base, "--key", "votes"])
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv(tmp_path / "labels.csv")) == 40


def test_former_names_of_parameters_are_read_with_a_warning(tmp_path):
    np.save(tmp_path / "votes.npy", np.array([[98, 2], [5, 95], [60, 40]]))
    given = {"classes": CLASSES, "budget": Budget(5.0, 1e-5), "n_teachers": 100, "new_ledger": True}
    with (
        pytest.warns(DeprecationWarning, match="anyway is now called force") as caught,
        pytest.warns(DeprecationWarning, match="ledger_currency is now called accounting_unit"),
    ):
        job = VoteJob(tmp_path / "votes.npy", **given, anyway=True, ledger_currency="gdp")
    assert (job.force, job.accounting_unit) == (True, "gdp")
    assert {one.filename for one in caught} == {__file__}
    with pytest.raises(InvalidInputError, match="ledger_currency is the former name of accounting_unit"):
        VoteJob(tmp_path / "votes.npy", **given, ledger_currency="gdp", accounting_unit="renyi")


def test_the_account_is_of_the_votes_and_of_no_stored_answers(tmp_path, votes, public, truth):
    given = {"public": public, "mechanism": GNMax(20.0), "keep_model": False}
    work = job(votes, **given)
    assert work.write_account(tmp_path / "early.csv") is None, "nothing was released yet"
    work.run()
    told = work.write_account(tmp_path / "labels.csv")
    found = json.loads((tmp_path / "labels.private" / "account.json").read_text())
    chosen = np.sort(work.queries_)
    by_hand = account(Votes.from_counts(100 * np.eye(2, dtype=int)[truth[chosen]]), GNMax(20.0), delta=1e-5)
    epsilon = by_hand.data_dependent.reveal().epsilon
    assert found["private"]["data_dependent"]["epsilon"] == pytest.approx(epsilon, rel=1e-9)
    assert found["public"] == by_hand.public.to_dict()
    assert format_up(epsilon) in told.quoting
    assert format_up(epsilon) not in told.text
    again = job(votes, **given)
    again.run()
    assert again.plan.n_free == len(chosen)
    assert again.write_account(tmp_path / "again.csv") is None
    assert not (tmp_path / "again.private").exists()
