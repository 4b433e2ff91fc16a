"""What a reviewer's attacks on ledgers and bound files found, each mended."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from pate import Budget, Charge, Ledger
from pate.data import recognised_by
from pate.exceptions import LedgerError
from pate.ledger import Registration
from pate.ledger._files import FileCheck


def registration(rows, owners=None):
    labels = np.zeros(len(rows), dtype=np.int64)
    unit = "record" if owners is None else "group"
    return Registration(unit, (0, 1), n_units=len(rows), **recognised_by(rows, labels, owners))


def test_no_record_decides_which_fields_a_ledger_without_its_key_shows(tmp_path):
    coarse = np.repeat(np.eye(4), 10, axis=0)
    changed = coarse.copy()
    changed[0] = 5
    shown = []
    for name, rows in (("a", coarse), ("b", changed)):
        ledger = Ledger(tmp_path / name / "l.sqlite", total=Budget(1.0, 1e-5))
        ledger.register(registration(rows))
        with closing(sqlite3.connect(ledger.path)) as file:
            (body,) = file.execute("SELECT body FROM entries WHERE kind = 'registered'").fetchone()
        shown.append({key: len(str(value)) for key, value in json.loads(body).items()})
    assert shown[0] == shown[1]
    assert "sketch" in shown[0]


def test_a_lost_key_costs_what_it_had_signed_and_nothing_after(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(1.0, 1e-5))
    same = Registration("record", (0, 1), n_units=9, fingerprint="01:23")
    first, second = tmp_path / "f.csv", tmp_path / "g.csv"
    first.write_text("a")
    second.write_text("b")
    ledger.record(Charge.zero(), mechanism="m", n_queries=1, registration=same)
    head = ledger.bind(first)
    (tmp_path / "l.sqlite.key").unlink()
    ledger.revise("the key was lost")
    ledger.record(Charge.zero(), mechanism="m", n_queries=1, registration=same)
    ledger.bind(second)
    found = ledger.verify(files=[first, second])
    assert found.ok
    assert [file.status for file in found.files] == ["unknown", "as released"]
    assert ledger.verify(head=head, files=[first]).as_released
    assert any("several releases" in note for note in ledger.verify(head=ledger.head, files=[first, second]).notes)


def test_a_files_name_makes_no_line_of_its_own():
    assert len(str(FileCheck("x\nlabels.csv: as released", "unknown", "why")).splitlines()) == 1


def test_ledgers_of_other_names_or_without_their_key_are_not_passed_over(tmp_path):
    rows = np.random.default_rng(0).normal(size=(99, 3))
    less, table = registration(rows[1:]), tmp_path / "t.csv"
    Ledger(tmp_path / "b.db", total=Budget(1.0, 1e-5)).register(registration(rows))
    new = Ledger(tmp_path / "c.sqlite")
    assert "largely of the same" in new.check_beside(table, less)
    (tmp_path / "b.db").rename(tmp_path / "b.sqlite")
    (tmp_path / "b.db.key").unlink()
    assert "no key file" in new.check_beside(table, less)


def test_a_statement_of_another_ledger_is_not_bound(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(1.0, 1e-5))
    ledger.record(Charge.zero(), mechanism="m", n_queries=1)
    with pytest.raises(LedgerError):
        ledger.bind({"ledger_head": "ab" * 32, "ledger_releases": [1]})


def test_ids_of_site_and_number_only_count():
    ids = [f"S{site:02}-P{number:03}" for site in range(1, 9) for number in range(1, 51)]
    found = recognised_by(np.zeros((len(ids), 1)), np.zeros(len(ids), dtype=np.int64), ids)
    assert found["sketch"][1] == ()
