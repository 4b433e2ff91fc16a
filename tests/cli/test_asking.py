"""Before it spends ``pate label`` says the price and asks; what is refused, declined or interrupted spends nothing."""

import io
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import Budget, Ledger
from pate.cli import _label as label_command
from pate.jobs import LabelJob

N = 600
FIRST = "This is the first release from {}: it sets their total to epsilon 2 for good, and spends all of it."


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 10, N).round(), "weight": rng.normal(70, 9, N).round(2)})
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 3, N) > 50, "yes", "no")
    frame[:500].to_csv(tmp_path / "private.csv", index=False)
    frame[500:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


BASE = ("--private", "private.csv", "--target", "ill", "--public", "public.csv", "--classes", "no,yes", "--delta", 1e-4,
        "--out", "labels.csv", "--jobs", 1)  # fmt: skip


def label(folder, *more):
    given = {word for word in more if isinstance(word, str)}
    epsilon = () if "--epsilon" in given else ("--epsilon", 2)
    return pate("label", *BASE, *epsilon, *more, cwd=folder)


def untouched(folder):
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".private")) == ["private.csv", "public.csv"]


@pytest.fixture
def person(monkeypatch):
    """A person at a terminal, who types what is put in."""

    def types(text):
        monkeypatch.setattr(label_command, "is_interactive", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return types


@pytest.mark.few(1)
@pytest.mark.parametrize("said", ["n\n", "\n", "", "what?\n"])
def test_who_does_not_say_yes_spends_nothing(tables, person, said):
    person(said)
    done = label(tables)
    assert done.returncode == 1
    assert f"This spends epsilon 2, which cannot be undone. {FIRST.format('private.csv')} For a larger " in done.stderr
    assert "Nothing was spent" in done.stderr
    assert "expects" in done.stdout
    assert "will spend (2, 0.0001)-DP" in done.stdout
    assert untouched(tables)


OF_KIND = {
    "records": ("--private", "p.csv", "--target", "ill", "--classes", "no,yes", "--public", "public.csv"),
    "shards": ("--private", "p.csv", "--target", "ill", "--classes", "no,yes", "--public", "public.csv",
               "--teachers", 20, "--teacher", "naive-bayes"),
    "dpsgd": ("--private", "p.csv", "--target", "ill", "--classes", "no,yes", "--range", "age=0:120",
              "--voters", "dpsgd"),
    "synthetic": ("--private", "p.csv", "--target", "ill", "--classes", "no,yes", "--range", "age=0:120",
                  "--voters", "records"),
    "numbers": ("--private", "p.csv", "--target", "age", "--numeric", "--range", "0,120", "--public", "public.csv"),
    "several": ("--private", "p.csv", "--target", "ill,old", "--public", "public.csv"),
    "votes": ("--votes", "p.npy", "--classes", "no,yes", "--new-ledger"),
}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", OF_KIND)
def test_every_plan_says_what_it_does_to_the_total(tables, kind):
    frame = pd.read_csv(tables / "private.csv")
    pd.concat([frame.assign(old=frame["age"].gt(50).astype(int))] * 4).to_csv(tables / "p.csv", index=False)
    np.save(tables / "p.npy", np.tile([[90, 10], [20, 80]], (30, 1)))
    common = ("--epsilon", 2, "--delta", 1e-4, "--out", "labels.csv", "--force", "--only-common", "--plan")
    given = [word for word in common if word != "--only-common" or kind in ("records", "shards", "numbers", "several")]
    name = "p.npy" if kind == "votes" else "p.csv"
    done = pate("label", *OF_KIND[kind], *given, cwd=tables)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    begin = f"For a larger total: pate ledger begin {tables / name}.ledger.sqlite --epsilon TOTAL --delta 0.0001"
    assert f"{FIRST.format(name)} {begin}" in text
    Ledger(tables / "other.sqlite", total=Budget(4.0, 1e-4), currency="gdp")
    begun = [word for word in OF_KIND[kind] if word != "--new-ledger"]
    done = pate("label", *begun, *given, "--ledger", "other.sqlite", cwd=tables)
    assert done.returncode == 0, done.stderr
    (line,) = re.findall(r"Of the total of .* epsilon 3\.[0-9]+\.", " ".join(done.stdout.split()))
    share = r"0% is spent; this takes (3\d\.?\d*)% and leaves (6\d\.?\d*)%, one more release of up to epsilon 3\.\d+\."
    found = re.fullmatch(rf"Of the total of {name}, epsilon 4, {share}", line)
    assert found is not None, line
    assert float(found[1]) + float(found[2]) == pytest.approx(100, abs=0.11)


@pytest.mark.long
def test_a_later_release_is_told_what_is_spent_and_what_is_left(tables, person):
    Ledger(tables / "private.csv.ledger.sqlite", total=Budget(3.0, 1e-4), currency="gdp")
    assert label(tables).returncode == 0
    left = Ledger(tables / "private.csv.ledger.sqlite").remaining().fraction_left
    person("n\n")
    asked = " ".join(label(tables, "--epsilon", 1, "--out", "again.csv").stderr.split())
    assert f"Of the total of private.csv, epsilon 3, {100 - 100 * left:.3g}% is spent; this takes " in asked
    person("n\n")
    short = " ".join(label(tables, "--epsilon", 2.9, "--out", "again.csv").stderr.split())
    assert f"this takes {100 * left:.3g}% and leaves nothing of use. Go on?" in short


@pytest.mark.long
def test_yes_goes_on_and_what_is_paid_is_not_asked_again(tables, person):
    person("y\n")
    assert label(tables).returncode == 0
    person("n\n")
    again = label(tables, "--out", "again.csv")
    assert again.returncode == 0, again.stderr
    assert "Go on?" not in again.stderr
    assert len(Ledger(tables / "private.csv.ledger.sqlite").releases()) == 1
    assert (tables / "labels.csv").read_bytes() == (tables / "again.csv").read_bytes()


@pytest.mark.long
def test_a_script_is_not_asked_and_yes_says_so_beforehand(tables, person):
    assert label(tables).returncode == 0  # no terminal
    person("n\n")
    other = ("--ledger", "other.sqlite", "--new-ledger", "--out", "other.csv", "--yes")
    assert label(tables, *other).returncode == 0


@pytest.mark.long
def test_ctrl_c_at_the_question(tables, person, monkeypatch):
    person("")
    monkeypatch.setattr(sys.stdin, "readline", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    done = label(tables)
    assert done.returncode == 130
    assert "interrupted" in done.stderr
    assert untouched(tables)


@pytest.mark.long
@pytest.mark.parametrize("moment", ["_checked", "run", "write"])
def test_an_interrupted_command_goes_on_and_pays_once(tables, monkeypatch, moment):
    def press(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LabelJob, moment, press)
        done = label(tables)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert not (tables / "labels.csv").exists()
    assert label(tables).returncode == 0
    assert len(Ledger(tables / "private.csv.ledger.sqlite").releases()) == 1


@pytest.mark.long
def test_quiet_and_json(tables):
    done = label(tables, "--json", "--quiet")
    assert done.stderr == ""
    read = json.loads(done.stdout)
    assert read["queries"] == 100
    assert read["files"][0] == "labels.csv"
    assert read["statement"]["guarantee"]["epsilon"] <= 2
    done = label(tables, "--quiet", "--out", "again.csv")
    assert "voters" not in done.stdout
    assert "again.csv" in done.stdout


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--epsilon", 0], "--epsilon must be a finite number > 0"),
        (["--epsilon", -1], "--epsilon must be a finite number > 0"),
        (["--epsilon", "nan"], "--epsilon must be a finite number > 0"),
        (["--epsilon", 1e9], "--epsilon must be a finite number > 0 and <= 1e+06"),
        (["--epsilon", "much"], "--epsilon must be a number, got 'much'"),
        (["--delta", 0], "--delta must be"),
        (["--delta", 1], "--delta must be"),
        (["--teachers", 501], "--teachers must be at most the number of records (500)"),
        (["--teachers", 300], "--teachers must be at most half the number of records"),
        (["--teachers", 40, "--queries", 3], "3 of 100 public rows would get a label"),
        (["--teachers", 40, "--queries", 100, "--epsilon", 0.2], "Take at least "),
        (["--teachers", 100, "--queries", 90, "--epsilon", 0.5, "--commonest", 0.97], "--force"),
        (["--epsilon", 0.001], "a larger epsilon"),
        (["--epsilon", 0.1, "--commonest", 0.99], "always naming the commonest class"),
        (["--commonest", 0.3], "--commonest must be"),
        (["--epsilom", 1], "Did you mean --epsilon"),
        (["--target", "il"], "Did you mean 'ill'?"),
        (["--group", "agee"], "Did you mean 'age'?"),
        (["--teachers", 20, "--teacher", "randm-forest"], "Did you mean 'random-forest'?"),
        (["--teacher", "os:system"], "say so: --allow-import."),
        (["--mechanism", "gnmax"], "needs --sigma; missing: --sigma."),
        (["--accounting-unit", "euro"], "--accounting-unit must be left out, or 'gdp'"),
        (["--size", "3"], "--size must be WIDTHxHEIGHT"),
        (["--out", "private.csv"], "never overwritten"),
        (["--public", "private.csv"], "--private and --public are one file"),
    ],
    ids=lambda v: " ".join(map(str, v)) if isinstance(v, list) else "",
)
def test_bad_input_is_refused_in_one_line_and_nothing_is_spent(tables, options, text):
    done = label(tables, "--quiet", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    for python in ("n_teachers", "n_queries", "force=", "=True", "None", "Ensemble("):
        assert python not in done.stderr
    assert untouched(tables)


@pytest.mark.long
def test_two_commands_at_once_pay_once(tables):
    call = [sys.executable, "-m", "pate", "label", *map(str, BASE), "--epsilon", "2"]
    both = [
        subprocess.Popen(
            [*call, "--out", f"{name}.csv"], cwd=tables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    reported = [process.communicate(timeout=120) for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) in ([0, 0], [0, 2]), reported
    if 2 in codes:  # the other one held the session
        late = codes.index(2)
        (line,) = [line for line in reported[late][1].splitlines() if line.startswith("error: ")]
        assert "another process" in line
        assert "nothing was charged" in line
        assert label(tables, "--out", f"{('one', 'two')[late]}.csv").returncode == 0
    assert (tables / "one.csv").read_bytes() == (tables / "two.csv").read_bytes()
    assert len(Ledger(tables / "private.csv.ledger.sqlite").releases()) == 1


@pytest.mark.long
def test_a_locked_ledger_is_reported_in_one_line(tables, monkeypatch):
    assert label(tables).returncode == 0
    from pate.ledger import Ledger as Book

    real = Book.__init__
    monkeypatch.setattr(Book, "__init__", lambda self, *a, **k: real(self, *a, **{**k, "timeout": 0.05}))
    with closing(sqlite3.connect(tables / "private.csv.ledger.sqlite")) as held:
        held.execute("BEGIN EXCLUSIVE")
        done = label(tables, "--quiet", "--out", "again.csv")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert not (tables / "again.csv").exists()
