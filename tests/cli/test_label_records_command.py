"""``pate label`` where nothing is said of teachers: records vote, every public row is answered, the plan says why."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from test_cli import pate

from pate import Budget, Ledger

N, N_PUBLIC = 700, 50


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.normal(50, 10, N + N_PUBLIC).round(3), "town": rng.choice(["Oslo", "Rome"], N + N_PUBLIC)}
    )
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame["who"] = [f"p{i // 2}" for i in range(len(frame))]
    frame[:N].to_csv(tmp_path / "private.csv", index=False)
    frame[N:].drop(columns=["ill", "who"]).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


BASE = {"private": "private.csv", "public": "public.csv", "target": "ill", "classes": "no,yes", "drop": "who",
        "epsilon": 2, "delta": "1e-4", "out": "labels.csv", "jobs": 1}  # fmt: skip


def run(folder, *flags, **options):
    merged = {k: v for k, v in (BASE | options).items() if v is not None}
    arguments = [part for k, v in merged.items() for part in (f"--{k.replace('_', '-')}", v)]
    return pate("label", *arguments, *flags, cwd=folder)


def refused(done, text):
    assert done.returncode == 2, done.stdout
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_files_in_labels_of_every_row_out(tables):
    done = run(tables)
    assert done.returncode == 0, done.stderr
    assert f"{N_PUBLIC} of {N_PUBLIC} questions answered" in done.stdout
    frame = pd.read_csv(tables / "labels.csv")
    assert frame.columns.tolist() == ["row", "label", "status", "confidence"]
    truth = np.where(pd.read_csv(tables / "public.csv")["age"] > 50, "yes", "no")
    assert (frame["label"] == truth).mean() > 0.8
    statement = json.loads((tables / "labels.statement.json").read_text())
    assert (statement["unit"], statement["n_units"], statement["label_file"]) == ("record", N, "labels.csv")
    assert 1.99 < statement["guarantee"]["epsilon"] <= 2
    (doubt,) = (one for one in statement["doubts"] if one["kind"] == "few public rows")
    assert f"warning: {doubt['sentence']}" in done.stderr
    assert (done.stdout + done.stderr).count(doubt["sentence"]) == 1
    assert [r.kind for r in Ledger(tables / "private.csv.ledger.sqlite").releases()] == ["ballot session"]


@pytest.mark.long
def test_the_same_command_again_is_free_and_another_is_not(tables):
    assert run(tables).returncode == 0
    again = run(tables, out="again.csv")
    assert again.returncode == 0, again.stderr
    assert "will spend nothing more: an earlier run paid for (2, 0.0001)-DP" in again.stdout
    assert (tables / "again.csv").read_bytes() == (tables / "labels.csv").read_bytes()
    refused(run(tables, seed=7, out="other.csv", max_categories=3, drop="who,town"), "the ledger has less left than 1%")
    assert len(Ledger(tables / "private.csv.ledger.sqlite").releases()) == 1


def test_the_plan_says_who_votes_and_why_and_leaves_nothing(tables):
    done = run(tables, "--plan", "--verbose")
    assert done.returncode == 0, done.stderr
    for start in (f"voters     {N} records", "rows       2 columns become ", "chosen     representation ",
                  "rounds     ", "noise      Gaussian, ", f"labels     all {N_PUBLIC} public rows",
                  "expects    not known: 50 public rows are fewer than were measured (100)",
                  "instead    always answering the commonest class would reach its share",
                  "will spend (2, 0.0001)-DP"):  # fmt: skip
        assert any(line.startswith(start) for line in done.stdout.splitlines()), start
    brief = run(tables, "--plan").stdout.splitlines()
    hidden = [line for line in done.stdout.splitlines() if line not in brief]
    assert hidden[0].startswith("columns    ")
    assert any(line.startswith("chosen     ") for line in hidden)
    assert [line for line in brief if line in done.stdout.splitlines()] == brief[:-1]
    assert brief[-1] == "(--verbose also says what becomes of every column, and why)"
    assert len(brief) < 20
    assert "chosen" in json.loads(run(tables, "--plan", "--json").stdout)["plan"]
    assert sorted(p.name for p in tables.iterdir()) == ["private.csv", "public.csv"]


@pytest.mark.long
def test_a_budget_planned_by_an_attacker_is_what_the_page_then_says(tables):
    """plan --attacker 60; its command, pasted; the statement's page: at most 60 of 100, by the noise that was drawn."""
    asked = ("plan", "--attacker", 60, "--classes", "no,yes", "--records", N, "--public", "public.csv", "--json")
    found = json.loads(pate(*asked, cwd=tables).stdout)
    recommended = found["recommendation"]
    assert recommended["attacker"] == 60
    words = shlex.split(recommended["command"])
    epsilon = words[words.index("--epsilon") + 1]
    assert float(epsilon) == found["epsilon"] == Budget.for_attacker(60, 1e-5).epsilon
    words = ["private.csv" if w == "PRIVATE.csv" else "ill" if w == "COLUMN" else w for w in words[1:]]
    done = pate(*words, "--drop", "who", "--jobs", 1, cwd=tables)
    assert done.returncode == 0, done.stderr
    statement = json.loads((tables / "labels.statement.json").read_text())
    assert 0.599 < statement["meaning"]["bounds"]["largest_success"] <= 0.6
    assert norm.cdf(statement["mu"] / 2) <= 0.6
    page = (tables / "labels.statement.html").read_text()
    assert "60 of 100" in page
    assert "right at most 60 times in 100" in page


def test_who_plans_by_epsilon_or_by_an_attacker_says_one_of_them(tables):
    rest = ("--classes", "2", "--queries", 10)
    for given, said in (
        ((), "--epsilon is missing: give the budget, or --attacker N"),
        (("--epsilon", 1, "--attacker", 60), "--epsilon and --attacker must not both be given"),
        (("--attacker", 50), "--attacker must be a finite number > 50 and < 100, got 50"),
        (("--attacker", 100), "--attacker must be a finite number > 50 and < 100, got 100"),
        (("--attacker", "nan"), "--attacker must be a finite number > 50 and < 100, got nan"),
        (("--attacker", 50.4, "--delta", 0.01), "--attacker must be above 50.5 of 100 at --delta 0.01"),
    ):
        refused(pate("plan", *given, *rest, cwd=tables), said)
    # Labels alone are priced otherwise, and the plan says what that leaves.
    said = pate("plan", "--attacker", 60, *rest, cwd=tables).stdout
    assert "are right: histogram 60, " in " ".join(said.split())
    assert "is right at most 60 of 100 times" in " ".join(said.split())


@pytest.mark.long
def test_an_epsilon_of_a_million_is_not_silent(tables):
    done = run(tables, epsilon=1e6)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: --epsilon 1e+06 protects no one") == 1
    statement = json.loads((tables / "labels.statement.json").read_text())
    assert statement["tier"] == "weak"
    assert (
        "warning: --epsilon 1e+06 protects no one"
        in pate("plan", "--epsilon", 1e6, "--classes", 2, "--queries", 9).stderr
    )


@pytest.mark.long
def test_a_person_is_protected_where_a_group_is_named(tables):
    done = run(tables, group="who", drop=None)
    assert done.returncode == 0, done.stderr
    assert "voters     350 groups, all ballots of one clipped together\n" in done.stdout
    statement = json.loads((tables / "labels.statement.json").read_text())
    assert (statement["unit"], statement["n_units"]) == ("group", 350)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"voters": "records", "teachers": 100}, "--voters records cannot go with --teachers"),
        ({"voters": "records", "queries": 9, "gap": 2}, "--queries, --gap"),
        ({"voters": "records", "mechanism": "gnmax", "sigma": 9}, "--mechanism"),
        ({"voters": "heads", "teacher": "svm"}, "--teacher"),
        ({"classes": "yes"}, "classes must list at least two"),
        ({"epsilon": "0.001"}, "--force"),
    ],
)
def test_what_makes_no_sense_is_refused(tables, options, text):
    refused(run(tables, **options), text)
    assert sorted(p.name for p in tables.iterdir() if not p.name.endswith(".private")) == ["private.csv", "public.csv"]


@pytest.mark.long
def test_few_public_rows_are_refused_and_teachers_take_them(tables):
    pd.read_csv(tables / "public.csv")[:12].to_csv(tables / "public.csv", index=False)
    refused(run(tables, voters="records"), "at least 20 rows for records to vote, got 12")
    done = run(tables, voters="shards", teachers=40, epsilon=4)
    assert done.returncode == 0, done.stderr
    assert "40 x logistic-regression" in done.stdout


def test_voters_are_of_private_data_alone(tables):
    np.save(tables / "votes.npy", [[98, 2]] * 5)
    done = pate("label", "--votes", "votes.npy", "--classes", "no,yes", "--epsilon", 2, "--voters", "records", "--out",
                "labels.csv", cwd=tables)  # fmt: skip
    refused(done, "--voters has no effect on votes cast elsewhere")


@pytest.mark.long
def test_a_file_may_say_who_votes(tables):
    lines = [f"{k} = {json.dumps(v)}" for k, v in BASE.items() if k not in ("classes", "drop", "delta")]
    lines += ['classes = ["no", "yes"]', 'drop = ["who"]', "delta = 1e-4", 'voters = "heads"', "teachers = 40"]
    (tables / "job.toml").write_text("\n".join(lines))
    done = pate("label", "--config", "job.toml", "--plan", cwd=tables)
    assert "40 x head" in done.stdout, done.stderr
    done = pate("label", "--config", "job.toml", "--voters", "records", cwd=tables)
    refused(done, "--voters records cannot go with --teachers")


@pytest.mark.long
@pytest.mark.parametrize("start", ["=1+1", "-yes"])
def test_cells_that_a_spreadsheet_would_run(tables, start):
    frame = pd.read_csv(tables / "private.csv")
    frame["ill"] = frame["ill"].replace("yes", start)
    frame.to_csv(tables / "private.csv", index=False)
    done = run(tables, classes=f"no,{start}")
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(tables / "labels.csv")
    assert set(found["label"]) == {"no", f"'{start}"}
    assert found["confidence"].dtype == float


def test_a_plan_says_that_it_takes_all_that_the_ledger_has_left(tables):
    ledger = Ledger(tables / "private.csv.ledger.sqlite", total=Budget(1.0, 1e-4))
    assert pate("ledger", "show", ledger.path).returncode == 0
    done = run(tables, "--plan", new_ledger=None)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("will spend"))
    assert line.startswith("will spend (1, 0.0001)-DP")
    assert "all that the ledger has left of its total, epsilon = 1 at delta 0.0001: less than was asked for" in line
    assert "epsilon = 2 was asked for, and what the ledger has left buys this release only epsilon = 1 " in done.stderr
    enough = run(tables, "--plan", epsilon=0.9)
    assert "left" not in enough.stdout + enough.stderr


@pytest.mark.long
def test_a_quiet_run_whose_use_is_not_known_says_so_in_one_line(tables):
    done = run(tables, "--yes", "--quiet", epsilon=0.05)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "how good the labels will be is not known" in line)
    assert line.startswith("warning: ")
    assert "no better than always answering the commonest class" in line
