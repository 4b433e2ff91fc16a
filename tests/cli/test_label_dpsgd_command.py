"""``pate label --voters dpsgd``, with public rows and with ranges declared in their place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate.cli._label import _ranges
from pate.exceptions import InvalidInputError

N = 500


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(10, 90, N + 40).round(3), "town": rng.choice(["Oslo", "Rome"], N + 40)})
    rows[N:].to_csv(tmp_path / "public.csv", index=False)
    rows[:N].assign(ill=np.where(rows["age"][:N] > 50, "yes", "no")).to_csv(tmp_path / "private.csv", index=False)
    (tmp_path / "ranges.toml").write_text("age = [0, 120]\ntown = ['Oslo', 'Rome']\n")
    return tmp_path


BASE = ("--private", "private.csv", "--target", "ill", "--classes", "no,yes", "--epsilon", "2", "--delta", "1e-4")


def run(folder, *arguments):
    return pate("label", *BASE, *arguments, cwd=folder)


@pytest.mark.long
def test_labels_and_a_model_that_is_verified_and_predicts(tables):
    done = run(tables, "--public", "public.csv", "--voters", "dpsgd", "--out", "labels.csv")
    assert done.returncode == 0, done.stderr
    assert "learns     DP-SGD, from 500 records" in done.stdout
    assert "40 of 40 questions answered" in done.stdout
    checked = pate("verify", "labels.csv", "labels.pate", "labels.statement.json",
                   "--ledger", "private.csv.ledger.sqlite", cwd=tables)  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    done = pate("predict", "public.csv", "--model", "labels.pate", "--out", "predicted.csv", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert (pd.read_csv(tables / "predicted.csv")["label"] == pd.read_csv(tables / "labels.csv")["label"]).all()
    again = run(tables, "--public", "public.csv", "--voters", "dpsgd", "--out", "again.csv")
    assert again.returncode == 2
    assert "the ledger does not pay for this run of DP-SGD" in again.stderr


@pytest.mark.long
def test_without_public_rows_the_command_says_that_there_are_no_labels(tables):
    done = run(tables, "--ranges", "ranges.toml", "--voters", "dpsgd", "--out", "out.csv")
    assert done.returncode == 0, done.stderr
    assert "learns     DP-SGD, from 500 records" in done.stdout
    assert "There are no public rows to label: the model is what was learnt." in done.stdout
    assert not (tables / "out.csv").exists()
    checked = pate("verify", "out.pate", "out.statement.json", "--ledger", "private.csv.ledger.sqlite", cwd=tables)
    assert checked.returncode == 0, checked.stdout
    done = pate("predict", "public.csv", "--model", "out.pate", "--out", "predicted.csv", cwd=tables)
    truth = np.where(pd.read_csv(tables / "public.csv")["age"] > 50, "yes", "no")
    assert (pd.read_csv(tables / "predicted.csv")["label"] == truth).mean() > 0.8


def test_ranges_are_read_as_they_are_written(tmp_path):
    assert _ranges(["age=0:120", "t=-1.5:2e3", "sex=male, female"], None) == {
        "age": [0.0, 120.0], "t": [-1.5, 2000.0], "sex": ["male", "female"]}  # fmt: skip
    (tmp_path / "r.json").write_text('{"age": [0, 120]}')
    assert _ranges(["sex=m,f"], tmp_path / "r.json") == {"age": [0, 120], "sex": ["m", "f"]}
    assert _ranges(None, None) is None


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (["age"], "has no = in it"),
        (["=1:2"], "has no column"),
        (["a=1:2", "a=3:4"], "is declared twice"),
        (["age=120:0"], "lower number first, got 'age=120:0'"),
    ],
)
def test_what_is_no_range_is_refused_in_words(pairs, text):
    with pytest.raises(InvalidInputError, match=text):
        _ranges(pairs, None)


def test_a_file_that_cannot_be_read_is_refused_in_words(tmp_path):
    for name, content, text in (("r.yaml", "", "must end in .toml or .json"), ("r.toml", "age = [", "cannot be read"),
                                ("d.toml", f"{'a.' * 300}a = 1", "200 dots"), ("n.json", '{"a": [0, NaN]}', "NaN"),
                                ("r.json", "[1]", "must map columns")):  # fmt: skip
        (tmp_path / name).write_text(content)
        with pytest.raises(InvalidInputError, match=text):
            _ranges(None, tmp_path / name)
