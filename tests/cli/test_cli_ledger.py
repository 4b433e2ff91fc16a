"""``pate ledger`` as a person uses it."""

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from pate import Budget, Charge, GNMax, Ledger
from pate.cli import app
from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger import KINDS, Registration

ONE = GNMax(40.0).charge(10)


def pate(*arguments):
    return CliRunner().invoke(app, ["ledger", *map(str, arguments)])


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.sqlite", total=Budget(2.0, 1e-5))
    made.register(Registration("record", ("no", "=yes"), n_units=500, fingerprint="ab" * 32))
    made.record(
        ONE, mechanism="GNMax(sigma=40.0)", n_queries=10, answers=[(f"q{i}", "gnmax", 1, None) for i in range(9)]
    )
    made.record(ONE, mechanism="evil\x1b[2J", n_queries=10, seeded=True)
    return made


def test_show(ledger):
    done = pate("show", ledger.path)
    assert done.exit_code == 0, done.output
    for text in (
        "GNMax(sigma=40.0)",
        "500 units",
        ledger.head,
        "SEEDED",
        "left:",
        "recognised",
        "paid for",
        "labels",
        "renyi:",
    ):
        assert text in done.output
    assert "\x1b" not in done.output
    assert "abab" not in done.output
    data = json.loads(pate("show", ledger.path, "--json").output)
    assert data["head"] == ledger.head
    assert [row["n_answers"] for row in data["releases"]] == [9, 0]
    assert data["data_set"]["n_units"] == 500


def test_verify_ends_with_one_when_something_is_wrong(ledger):
    done = pate("verify", ledger.path)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("verified: 5 entries, 2 releases, 9 answers")
    assert pate("verify", ledger.path, "--head", ledger.head).exit_code == 0
    assert pate("verify", ledger.path, "--head", "ab" * 32).exit_code == 1
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.executescript("DROP TRIGGER no_delete_of_answers; DELETE FROM answers WHERE position = 3;")
    done = pate("verify", ledger.path)
    assert done.exit_code == 1
    assert "NOT VERIFIED" in done.output


def test_a_damaged_file_is_not_verified(ledger):
    ledger.path.write_bytes(ledger.path.read_bytes()[:5000])
    done = pate("verify", ledger.path)
    assert done.exit_code == 1
    assert "NOT VERIFIED" in done.output


def test_remaining_and_export(ledger, tmp_path):
    assert "2 releases" in pate("remaining", ledger.path).output
    left = json.loads(pate("remaining", ledger.path, "--json").output)
    assert left["fraction_left"] == ledger.remaining().fraction_left
    assert "Wrote 9 answers" in pate("export", ledger.path, tmp_path / "labels.csv").output
    assert "'=yes" in (tmp_path / "labels.csv").read_text()
    assert "Wrote 9 answers" in pate("export", ledger.path, tmp_path / "raw.csv", "--raw-csv").output
    assert "'=yes" not in (tmp_path / "raw.csv").read_text()
    again = pate("export", ledger.path, tmp_path / "labels.csv")
    assert isinstance(again.exception, InvalidInputError)


def test_revise(ledger):
    assert pate("revise", ledger.path, "--reason", "two records corrected").exit_code == 0
    ledger.check(Registration("record", ("no", "=yes"), n_units=502, fingerprint="cd" * 32))


@pytest.mark.parametrize("command", ["show", "verify", "remaining"])
def test_no_ledger_is_a_clear_error_and_makes_no_file(tmp_path, command):
    done = pate(command, tmp_path / "none.sqlite")
    assert isinstance(done.exception, LedgerError)
    assert "no ledger at" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_show_says_what_each_release_paid_for_and_in_what(tmp_path):
    made = Ledger(tmp_path / "l.sqlite", total=Budget(6.0, 1e-5), currency="renyi:8", failure_delta=1e-6)
    cost = Charge.at_order(0.25, order=8.0, delta0=1e-6)
    for kind in KINDS:
        made.record(cost if kind == "gate" else ONE, mechanism=f"a {kind}", n_queries=3, kind=kind)
    said = pate("show", made.path).output
    assert "accounting unit: renyi:8, fixed before the first charge: the sum of Renyi divergence at order 8" in said
    lines = said.splitlines()
    rows = lines[2 : next(i for i, line in enumerate(lines) if line.startswith("left:"))]
    assert [row[28:44].strip() for row in rows] == list(KINDS)
    terms = made.remaining().terms
    for row, shown in zip(rows, made.show(), strict=True):
        assert f"{shown['share']:.1%}" in row
        assert shown["share"] == terms.currency.price(cost if shown["kind"] == "gate" else ONE) / terms.limit
    assert "counted in renyi:8" in pate("remaining", made.path).output
    left = json.loads(pate("remaining", made.path, "--json").output)
    assert (left["currency"], left["limit"], left["failure_left"]) == ("renyi:8", terms.limit, 0.0)
    assert left["spent"] == made.spent


def test_begin_takes_the_accounting_unit_by_its_former_name_too(tmp_path):
    begin = ["begin", tmp_path / "l.sqlite", "--epsilon", 3, "--delta", 1e-5, "--currency", "gdp"]
    both = pate(*begin, "--accounting-unit", "renyi")
    assert isinstance(both.exception, InvalidInputError)
    assert "--currency is the former name of --accounting-unit" in str(both.exception)
    done = pate(*begin)
    assert done.exit_code == 0
    assert "--currency is deprecated: it is now called --accounting-unit" in done.stderr
    assert Ledger(tmp_path / "l.sqlite").currency == "gdp"


def test_a_ledger_that_is_not_charged_yet_says_that_its_accounting_unit_is_open(tmp_path):
    Ledger(tmp_path / "l.sqlite", total=Budget(6.0, 1e-5))
    assert "accounting unit open until the first charge" in pate("show", tmp_path / "l.sqlite").output


def test_a_plan_for_a_ledger_fits_what_is_left_there(tmp_path):
    made = Ledger(tmp_path / "l.sqlite", total=Budget(2.0, 1e-5), currency="renyi:8")
    made.record(ONE, mechanism="m", n_queries=10)
    asked = ["plan", "--epsilon", "2", "--queries", "100", "--classes", "3", "--teachers", "250"]
    alone = CliRunner().invoke(app, asked)
    fitted = CliRunner().invoke(app, [*asked, "--ledger", str(made.path)])
    assert alone.exit_code == fitted.exit_code == 0
    sigmas = [float(line.split("│")[3]) for line in (alone.output + fitted.output).splitlines() if "│ gnmax" in line]
    assert len(sigmas) == 2
    assert sigmas[0] < sigmas[1]
    assert made.allows(GNMax(sigmas[1]).charge(100))
