"""The job of a numeric target: files in, values out, one charge; what is bad costs nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pate import Budget, InvalidInputError, Ledger
from pate.jobs._numbers import NumberJob
from pate.release.statement.files import read_statement

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.normal(size=(900, 2)).round(4), columns=["a", "b"])
PRICE = (10 * ROWS["a"] + 50).round(3)


@pytest.fixture
def files(tmp_path):
    private = ROWS[:800].assign(price=PRICE[:800].astype(object), who=[f"p{i // 2}" for i in range(800)])
    private.loc[3, "price"] = "unknown"
    private.to_csv(tmp_path / "private.csv", index=False)
    ROWS[800:].to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def job(files, **options):
    said = {"target": "price", "target_range": (0, 100), "budget": Budget(4.0, 1e-4), "drop": ["who"]}
    if "group" in options:
        del said["drop"]
    return NumberJob(files / "private.csv", files / "public.csv", **(said | options))


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_values_of_every_public_row_once_paid(files):
    ledger = files / "l.sqlite"
    first = job(files, ledger=ledger)
    assert not first.plan.is_paid
    release = first.run()
    first.write(release, files / "out.csv")
    frame = pd.read_csv(files / "out.csv")
    assert frame.columns.tolist() == ["row", "value", "low", "high"]
    assert np.abs(frame["value"] - PRICE[800:].to_numpy()).mean() < 5
    statement = read_statement(files / "out.statement.json")
    assert (statement.n_units, statement.errors.unit) == (800, "record")
    assert "unknown" not in statement.text()
    again = job(files, ledger=ledger)
    assert again.plan.is_paid
    assert np.array_equal(again.run().values, release.values)
    assert len(Ledger(ledger).releases()) == 1


def test_decimal_commas_in_the_target_are_read_as_those_of_the_columns_beside_it(files):
    for name in ("private", "public"):
        table = pd.read_csv(files / f"{name}.csv", dtype=str)
        table.map(lambda cell: cell.replace(".", ",")).to_csv(files / f"{name}.csv", index=False, sep=";")
    values = job(files)._values
    assert np.array_equal(values, np.where(np.arange(800) == 3, np.nan, PRICE[:800]), equal_nan=True)
    # By what was said too, where the public file has no decimals; a point is then no decimal sign.
    table.assign(a=np.arange(len(table)) % 5, b=np.arange(len(table)) % 3).to_csv(
        files / "public.csv", index=False, sep=";"
    )
    mixed = pd.read_csv(files / "private.csv", sep=";", dtype=str)
    mixed.loc[0, "price"] = "1.500"
    mixed.to_csv(files / "private.csv", index=False, sep=";")
    values = job(files, decimal=",", force=True)._values
    assert np.isnan(values[[0, 3]]).all()
    assert np.array_equal(values[4:], PRICE[4:800])


def test_persons(files):
    assert (job(files, group="who").plan.unit, job(files, group="who").plan.n_units) == ("group", 400)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target_range": None}, "target_range"),
        ({"target_range": (100, 0)}, "lower number first"),
        ({"target": "prize"}, "prize"),
        ({"id": "value"}, "id must not be called 'value'"),
    ],
)
def test_bad_input_costs_nothing(files, options, text):
    with pytest.raises(InvalidInputError, match=text):
        job(files, ledger=files / "l.sqlite", **options)
    assert not (files / "l.sqlite").exists()
    assert not (files / "l.sqlite.shards.key").exists()
