"""A command that is printed for people to paste is one that a shell takes, whatever files and columns are called."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import Budget, Ledger
from pate.cli._app import in_own_words
from pate.release.statement.files import read_statement

#: A space, an umlaut, quotes of both kinds, what a shell puts values in for, and a bracket.
ODD = "Größe $HOME 'x' \"y\") z"


def words(text, begins):
    """Return the command that begins so, read as a shell reads it; it ends where its line or the output does."""
    (line,) = [line[line.index(begins) :] for line in text.splitlines() if begins in line]
    return shlex.split(line)


def said_after(text, option):
    """Return what a shell takes for the value of an option in a sentence."""
    lexer = shlex.shlex(text[text.index(f"{option} ") + len(option) + 1 :], posix=True, punctuation_chars=").,;")
    lexer.whitespace_split = True
    return next(lexer)


@pytest.fixture
def odd(tmp_path):
    rng, n = np.random.default_rng(0), 400
    frame = pd.DataFrame({"age": rng.normal(50, 10, n), f"{ODD} patient_id": np.arange(n) // 4})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame.to_csv(tmp_path / f"{ODD}.csv", index=False)
    frame[["age"]][:40].add(0.5).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


@pytest.mark.long
def test_label_names_files_and_columns_as_a_shell_takes_them(odd):
    given = ("--private", f"{ODD}.csv", "--target", "ill", "--public", "public.csv", "--classes", "no,yes",
             "--epsilon", 1, "--delta", 1e-4, "--only-common", "--out", f"labels {ODD}.csv")  # fmt: skip
    done = pate("label", *given, cwd=odd)
    assert done.returncode == 0, done.stderr
    begin = words(done.stdout, "pate ledger begin")
    assert begin[3] == str((odd / f"{ODD}.csv.ledger.sqlite").resolve())
    predict = words(done.stdout, "pate predict")
    assert predict[4] == f"labels {ODD}.pate"
    pd.read_csv(odd / "public.csv").to_csv(odd / "ROWS.csv", index=False)
    assert pate(*predict[1:], cwd=odd).returncode == 0
    assert said_after(done.stderr, "--group") == f"{ODD} patient_id"
    page = read_statement(odd / f"labels {ODD}.statement.json").html()
    for begins, at in (("pate statement ", 2), ("pate verify ", 3)):
        command = re.search(rf"{begins}[^\n<]*", page)[0].replace("&#39;", "'").replace("&#34;", '"')
        assert shlex.split(command)[at] == f"labels {ODD}.statement.json"
    again = pate("label", *given[:-1], "again.csv", "--ledger", "other.sqlite", cwd=odd)
    assert again.returncode == 2
    assert said_after(again.stderr, "--ledger") == begin[3]


def test_a_ledger_that_was_begun_is_named_as_a_shell_takes_it(tmp_path):
    done = pate("ledger", "begin", f"{ODD}.sqlite", "--epsilon", 1, "--delta", 1e-5, cwd=tmp_path)
    assert said_after(done.stdout, "--ledger") == f"{ODD}.sqlite"
    assert Ledger(tmp_path / f"{ODD}.sqlite").total == Budget(1.0, 1e-5)


@pytest.mark.parametrize("name", [ODD, "a b", "$x", "it's", "plain"])
def test_an_argument_and_its_option_are_said_once_and_quoted(name):
    options = {"group": "--group", "ledger": "--ledger"}
    both = in_own_words(f"Protect people: group={name!r} (--group {shlex.quote(name)}).", options)
    assert both == f"Protect people: --group {shlex.quote(name)}."
    assert in_own_words(f"Say ledger={name!r}, please", options) == f"Say --ledger {shlex.quote(name)}, please"
