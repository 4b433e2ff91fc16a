"""Files of the same people get no fresh budget by oversight; several releases under one total; what is exported."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pate import Budget, BudgetExceededError, GaussianSum, Ledger, RecordVoters, release_ballots
from pate.cli import app
from pate.exceptions import CuratorWarning, InvalidInputError, LedgerError, PrivacyParameterWarning, ResultWarning
from pate.jobs import LabelJob
from pate.records import SignedSpace

N = 300


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)).round(3), columns=["a", "b", "c"])
    frame["ill"] = np.where(frame["a"] > 0, "yes", "no")
    frame["who"] = [f"patient {n}" for n in rng.choice(10**6, N, replace=False)]
    write(frame, tmp_path / "private.csv")
    write(frame[1:], tmp_path / "less.csv")
    write(frame.sample(frac=0.9, random_state=0), tmp_path / "sampled.csv")
    write(
        frame.assign(who=rng.choice(10**6, N), a=rng.normal(size=N), ill=rng.permutation(frame["ill"])),
        tmp_path / "others.csv",
    )
    pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"]).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def write(frame, path):
    frame.to_csv(path, index=False)


def job(folder, name, **options):
    rule = {"group": "who"} if options.pop("grouped", True) else {"drop": ["who"]}
    given = {
        "target": "ill",
        "classes": ["no", "yes"],
        "budget": Budget(1.0, 1e-5),
        "keep_model": False,
        "force": True,
    }
    given |= {"ledger": folder / f"{name}.ledger.sqlite"} | rule | options
    return LabelJob(folder / name, folder / "public.csv", **given)


def refused(work, words):
    """Before anything is spent, and before a ledger is made."""
    with pytest.raises(InvalidInputError, match=words):
        work.check_records()
    assert not work._ledger.path.exists()


@pytest.mark.long
def test_a_table_with_a_row_less_asks_which_ledger_is_meant(tables):
    job(tables, "private.csv").run()
    words = r"{} and the private data set of the ledger .*private\.csv\.ledger\.sqlite' are largely of the same people"
    for name in ("less.csv", "sampled.csv"):
        refused(job(tables, name), words.format(name))
    # Teachers vote otherwise; these are the same people.
    shards = {"n_teachers": 20, "teacher": "naive-bayes", "n_queries": 5}
    refused(job(tables, "less.csv", **shards), "largely of the same people")
    other = job(tables, "less.csv", new_ledger=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResultWarning)
        other.check_records()
        other.run()  # it was said, and nothing warns of it again
    with pytest.raises(
        InvalidInputError,
        match=r"sampled.csv and .*about \d+% stand in the other too.*say new_ledger=True \(--new-ledger\)",
    ):
        job(tables, "sampled.csv").run()


@pytest.mark.long
def test_without_owners_it_is_found_by_rows_and_other_people_are_not_asked(tables):
    job(
        tables,
        "private.csv",
        grouped=False,
    ).run()
    for name in ("less.csv", "sampled.csv"):
        refused(job(tables, name, grouped=False), "largely of the same records")
    job(tables, "others.csv", grouped=False).run()  # as many of every class
    with pytest.raises(LedgerError, match="knows as many records of every class in another order"):
        job(tables, "others.csv", grouped=False, ledger=tables / "private.csv.ledger.sqlite").check_records()


@pytest.mark.long
def test_a_ledger_deleted_with_its_key_beside_what_was_released(tables):
    work = job(tables, "private.csv", keep_model=True)
    release = work.run()
    work.write(release, tables / "labels.csv")
    work.model(release).save(tables / "labels.pate")
    held = {path: path.read_bytes() for path in tables.glob("private.csv.ledger.sqlite*")}
    for path in held:
        path.unlink()
    for name in ("private.csv", "less.csv"):
        refused(job(tables, name), r"labels\.pate' tells of a release .*ledger that it was charged to is not there")
    (tables / "labels.pate").unlink()
    refused(job(tables, "private.csv"), r"labels\.statement\.json' tells of a release")
    job(tables, "others.csv", new_ledger=True).check_records()
    for path, content in held.items():
        path.write_bytes(content)
    job(tables, "others.csv", group=None, grouped=False).check_records()  # its ledger is there: nothing is lost
    assert job(tables, "private.csv").plan.is_paid


def test_statements_of_other_sizes_units_or_without_a_ledger_say_nothing(tables):
    reported, work = {"unit": "group", "n_units": N, "ledger_head": "ab" * 32}, job(tables, "private.csv")
    for change in ({"unit": "record"}, {"n_units": 3 * N}, {"n_units": N // 3}, {"ledger_head": ""}):
        (tables / "old.statement.json").write_text(json.dumps(reported | change))
        work.check_records()
    for content in ("{", "[1]", '{"ledger_head": 7}', ""):
        (tables / "old.statement.json").write_text(content)
        (tables / "old.pate").write_text(content)
        work.check_records()
    (tables / "old.statement.json").write_text(json.dumps(reported))
    refused(work, r"old\.statement\.json' tells of a release from about as many private people")


@pytest.mark.long
def test_a_changed_cell_is_said_not_to_have_been_used_and_another_order_is_called_that(tables):
    first = job(tables, "private.csv").run()
    frame = pd.read_csv(tables / "private.csv")
    frame.loc[7, "a"] += 0.001
    write(frame, tables / "private.csv")
    with pytest.warns(CuratorWarning, match="private features are not those that release 1 .*were not used"):
        again = job(tables, "private.csv").run()
    assert np.array_equal(again.probability, first.probability)
    write(frame[::-1], tables / "private.csv")
    with pytest.raises(LedgerError, match="knows these labels and owners in another order"):
        job(tables, "private.csv").run()


# Several releases ----------------------------------------------------------------------------------------------


def pate(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.long
def test_two_releases_under_one_total(tables):
    """`pate ledger begin` says the total; a third release finds little left, and the message says what to do."""
    ledger = tables / "private.csv.ledger.sqlite"
    done = pate("ledger", "begin", ledger, "--epsilon", 1.5, "--delta", 1e-5)
    assert (done.exit_code, Ledger(ledger).total) == (0, Budget(1.5, 1e-5))
    again = pate("ledger", "begin", ledger, "--epsilon", 9, "--delta", 1e-5)
    assert isinstance(again.exception, LedgerError)
    assert "a total is never raised" in str(again.exception)
    releases = [job(tables, "private.csv", budget=Budget(epsilon, 1e-5)).run() for epsilon in (1.0, 0.8)]
    assert [round(r.guarantee.epsilon, 2) for r in releases] == [1.0, 0.8]
    with pytest.warns(PrivacyParameterWarning, match=r"epsilon = 1\.5 was asked for, and what the ledger has left"):
        job(tables, "private.csv", budget=Budget(1.5, 1e-5)).run()
    held = Ledger(ledger)
    assert held.spent <= held.remaining().terms.limit
    with pytest.raises(BudgetExceededError, match=r"before the first of several releases .*pate ledger begin"):
        job(tables, "private.csv", budget=Budget(1.4, 1e-5))


@pytest.mark.long
def test_a_begun_ledger_is_new_until_something_is_charged(tables):
    job(tables, "private.csv").run()
    ledger = tables / "second.sqlite"
    assert (
        pate("ledger", "begin", ledger, "--epsilon", 3, "--delta", 1e-5, "--accounting-unit", "gdp", "-q").exit_code
        == 0
    )
    with pytest.raises(InvalidInputError, match="largely of the same people"):
        job(tables, "less.csv", ledger=ledger).check_records()
    job(tables, "less.csv", ledger=ledger, new_ledger=True).run()
    assert (Ledger(ledger).total, Ledger(ledger).currency) == (Budget(3.0, 1e-5), "gdp")
    np.save(tables / "votes.npy", np.tile(np.arange(2).repeat(10), (60, 1)))
    common = ["label", "--votes", tables / "votes.npy", "--classes", "no,yes", "--delta", 1e-5, "--epsilon", 1, "-q"]
    common += ["--mechanism", "gnmax", "--sigma", 20, "--queries", 3, "--force", "--ledger", tables / "votes.sqlite"]
    pate("ledger", "begin", tables / "votes.sqlite", "--epsilon", 3, "--delta", 1e-5)
    for n, more in enumerate((("--new-ledger",), ())):
        done = pate(*common, "--out", tables / f"votes{n}.csv", *more)
        assert done.exit_code == 0, done.exception
    assert len(Ledger(tables / "votes.sqlite").releases()) == 2


def test_a_ledger_may_be_given_itself(tables):
    book = Ledger(tables / "own.sqlite", total=Budget(3.0, 1e-5))
    job(tables, "private.csv", ledger=book).run()
    assert book.total == Budget(3.0, 1e-5)
    assert len(book.releases()) == 1
    with pytest.raises(InvalidInputError, match=r"accounting_unit must be None where ledger is a Ledger, got 'gdp'"):
        job(tables, "private.csv", ledger=book, accounting_unit="gdp")
    for odd in (5, Budget(1.0, 1e-5)):
        with pytest.raises(InvalidInputError, match=r"a ledger must be named by the path of its file, got"):
            job(tables, "private.csv", ledger=odd)


# What comes out ------------------------------------------------------------------------------------------------


def test_ballots_are_exported_as_what_was_released_and_shown_as_rounds(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=("no", "yes"))
    ballots = voters.cast(X, np.where(X[:, 0] > 0, "yes", "no"))
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(3.0, 1e-5))
    ledger.record(GaussianSum(30.0).charge(1), mechanism="GNMax(...)", n_queries=1, answers=[("q", "gnmax", 1, None)])
    release = release_ballots(ballots, GaussianSum(9.0), budget=Budget(1.0, 1e-5), ledger=ledger)
    done = pate("ledger", "export", ledger.path, tmp_path / "all.jsonl")
    assert "Wrote 1 answers and 1 noisy sums of ballots" in done.output
    assert "Labels follow from these and the public rows" in done.output
    label, noisy = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    assert (label["status"], label["label"], label["class"]) == ("answered", 1, "yes")
    assert (noisy["status"], noisy["label"], noisy["class"], noisy["family"]) == ("ballots", None, None, "gaussian-sum")
    found = np.reshape(noisy["noisy_counts"], release.statistics.shape) / release.facts.scale
    assert np.allclose(found - found.mean(axis=1, keepdims=True), release.statistics)
    said = pate("ledger", "show", ledger.path).output
    assert re.search(r"labels +1 +1 ", said)
    assert re.search(r"ballots +1 round +1 sum ", said)
    data = json.loads(pate("ledger", "export", ledger.path, tmp_path / "all.csv", "--json").stdout)
    assert (data["answers"], data["labels"], data["ballot_sums"]) == (2, 1, 1)
