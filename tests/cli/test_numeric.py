"""``pate label --numeric`` and ``pate compare --target``; what is wrong is one line, and nothing is spent."""

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.normal(size=(900, 2)).round(4), columns=["a", "b"])
PRICE = (10 * ROWS["a"] + 50).round(3)


@pytest.fixture
def label(tmp_path):
    ROWS[:800].assign(price=PRICE[:800]).to_csv(tmp_path / "private.csv", index=False)
    ROWS[800:].to_csv(tmp_path / "public.csv", index=False)

    def run(*more, numeric=("--numeric", "--range", "0,100")):
        given = ["--private", "private.csv", "--public", "public.csv", "--target", "price", "--epsilon", "4",
                 "--delta", "1e-4", "--out", "out.csv", "--yes", *numeric, *more]  # fmt: skip
        return pate("label", *given, cwd=tmp_path)

    return run


@pytest.mark.long
def test_label_predict_show(label, tmp_path):
    done = label()
    assert done.returncode == 0, done.stderr
    assert "Values of 100 public rows." in done.stdout
    assert "The model is off by" in done.stdout
    predicted = pate("predict", "public.csv", "--model", "out.pate", "--out", "again.csv", cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr
    first, again = (pd.read_csv(tmp_path / name) for name in ("out.csv", "again.csv"))
    assert np.allclose(first["value"], again["value"], rtol=1e-4)
    shown = pate("show", "out.pate", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "4" in shown.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("numeric", "text"),
    [
        (("--numeric",), "--range"),
        (("--numeric", "--range", "9,0"), "lower number first"),
        (("--numeric", "--range", "price=0:9"), "--range must be LOW,HIGH"),
        (("--numeric", "--range", "0,100", "--proba"), "--proba"),
    ],
)
def test_what_is_wrong_is_said_and_costs_nothing(label, tmp_path, numeric, text):
    done = label(numeric=numeric)
    assert done.returncode == 2, done.stdout
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.sqlite*"))


# ``pate compare`` of a number ------------------------------------------------------------------------------------


@pytest.fixture
def compare(tmp_path):
    ROWS.assign(price=PRICE, town="Oslo").to_csv(tmp_path / "homes.csv", index=False)

    def run(*more, given=("--target", "price", "--range", "0,100")):
        command = ["compare", "--dataset", "homes.csv", *given, "--epsilons", "4", "--delta", "1e-3", "--repeats", 1,
                   "--jobs", 1, "--out", "out", *more]  # fmt: skip
        return pate(*command, cwd=tmp_path)

    return run


@pytest.mark.long
def test_compare_a_table_of_ones_own_and_go_on(compare, tmp_path):
    done = compare("--contestants", "pate,mean", "--sensitive-report")
    assert done.returncode == 0, done.stderr
    assert "R2 on the test rows of homes.csv (price)" in done.stdout
    cells = (tmp_path / "out" / "cells.jsonl").read_text()
    assert compare("--contestants", "pate,mean", "--sensitive-report").returncode == 0
    assert (tmp_path / "out" / "cells.jsonl").read_text() == cells
    other = compare("--contestants", "pate,mean", given=("--target", "price", "--range", "0,200"))
    assert other.returncode == 2
    assert "other data set" in other.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("--target", "price"), "--range must be said beside --target price"),
        (("--target", "price", "--range", "100,0"), "--range must have the lower number first"),
        (("--target", "price", "--range", "price=0:9"), "--range must be LOW,HIGH with --target"),
        (("--range", "0,100"), "--target must name the column of numbers that --range is of"),
        (("--target", "town", "--range", "0,100"), "--target must be a column of numbers"),
        (("--target", "price", "--range", "0,100", "--contestants", "pate,gnmax"), "'gnmax' does not"),
        ((), "--dataset must be a named one"),
    ],
)
def test_a_comparison_that_cannot_be_is_one_line(compare, tmp_path, given, text):
    done = compare(given=given)
    assert done.returncode == 2, done.stdout
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
