"""What a reviewer's attacks on ledgers and bound files found, each mended."""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from pate import Budget, Charge, GNMax, Ledger, Votes, release_labels
from pate.data import recognised_by
from pate.exceptions import CuratorWarning, InvalidInputError, LedgerError
from pate.jobs._request import check_ledger
from pate.ledger import Registration, verify_ledger
from pate.ledger._files import FileCheck
from pate.release._quote import price_as_planned


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


def test_a_ledger_has_one_key_by_whatever_link_it_is_named(tmp_path):
    """A key beside the link would make the ledger unusable by its own name, or a second key for the same people."""
    same = Registration("record", (0, 1), n_units=9, fingerprint="01:23")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    link, real = tmp_path / "b" / "link.sqlite", tmp_path / "a" / "l.sqlite"
    link.symlink_to(real)
    Ledger(link, total=Budget(1.0, 1e-5)).record(Charge.zero(), mechanism="m", n_queries=1, registration=same)
    assert Ledger(real).record(Charge.zero(), mechanism="m", n_queries=1, registration=same) == 2
    assert Ledger(link).recognises("01:23")
    assert verify_ledger(link).ok
    assert [path.name for path in tmp_path.glob("b/*")] == ["link.sqlite"]
    assert sorted(path.name for path in tmp_path.glob("a/*")) == ["l.sqlite", "l.sqlite.key"]


def test_a_ledger_with_two_names_is_refused(tmp_path):
    """SQLite looks for a killed process's journal under the name that it is given, and would not find it."""
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(1.0, 1e-5))
    (tmp_path / "m.sqlite").hardlink_to(ledger.path)
    for name in ("l.sqlite", "m.sqlite"):
        with pytest.raises(LedgerError, match="second name"):
            Ledger(tmp_path / name)
    (tmp_path / "m.sqlite").unlink()
    assert ledger.record(Charge.zero(), mechanism="m", n_queries=1) == 1


def test_a_ledger_that_is_just_being_made_is_not_taken_for_a_lost_one(tmp_path, monkeypatch):
    """Between two looks of one process another one made ledger and key: nobody may be told to delete the key."""
    made = Ledger(tmp_path / "other" / "l.sqlite", total=Budget(1.0, 1e-5))
    made.register(Registration("record", (0, 1), n_units=9, fingerprint="01:23"))
    stat, ledger = Path.stat, Ledger(tmp_path / "l.sqlite")

    def absent_then_made(path, **options):
        monkeypatch.setattr(Path, "stat", stat)
        for file in made.path.parent.iterdir():
            shutil.copy(file, tmp_path)
        raise FileNotFoundError(errno.ENOENT, "absent", str(path))

    monkeypatch.setattr(Path, "stat", absent_then_made)
    assert ledger.total == Budget(1.0, 1e-5)


def test_a_link_to_private_records_finds_their_ledger(tmp_path):
    private, link = tmp_path / "a" / "t.csv", tmp_path / "b" / "t.csv"
    data = Registration("record", (0, 1), n_units=9, fingerprint="01:23")
    for path in (private, link):
        path.parent.mkdir()
    private.write_text("x")
    link.symlink_to(private)
    first = Ledger(tmp_path / "a" / "t.csv.ledger.sqlite", total=Budget(1.0, 1e-5))
    first.record(Charge.zero(), mechanism="m", n_queries=1, registration=data)
    second = Ledger(tmp_path / "b" / "t.csv.ledger.sqlite")
    with pytest.raises(InvalidInputError, match="holds the private data set of the ledger"):
        check_ledger(second, data, link, new_ledger=False)


def test_two_processes_that_ask_the_same_at_once_pay_once(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(9.0, 1e-5))
    votes = Votes.from_counts([[70, 30]], query_hashes=["ab" * 32], n_units=1000)

    def ask():
        return release_labels(votes, GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)

    def meanwhile(*arguments, **options):  # it has looked, and not paid yet
        monkeypatch.undo()
        others.append(ask())
        return price_as_planned(*arguments, **options)

    others = []
    monkeypatch.setattr("pate.release._release_labels.price_as_planned", meanwhile)
    with pytest.raises(LedgerError, match="this very request"):
        ask()
    assert len(ledger.releases()) == 1
    assert ask().labels.tolist() == others[0].labels.tolist()
    assert ledger.verify().ok


def test_an_old_copy_that_is_put_back_is_noticed_by_a_statement_beside_it(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(9.0, 1e-5))

    def released(place):
        votes = Votes.from_counts([[70, 30]], query_hashes=[f"{place:064x}"], n_units=1000)
        object.__setattr__(votes, "fingerprint", "ab" * 32)
        return release_labels(votes, GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=Ledger(ledger.path))

    released(0)
    backup = ledger.path.read_bytes()
    statement = released(1).statement
    released(2)  # as long as the ledger holds what was released nothing is said
    (tmp_path / "labels.statement.json").write_text(json.dumps(statement.to_dict()))
    released(3)
    ledger.path.write_bytes(backup)
    with pytest.warns(CuratorWarning, match=r"labels.statement.json.*an old copy of that ledger was put back"):
        released(4)
    other = Ledger(tmp_path / "other.sqlite", total=Budget(9.0, 1e-5))
    other.record(Charge.zero(), mechanism="m", n_queries=1, registration=Registration("record", (0, 1), n_units=9))
    (tmp_path / "labels.statement.json").write_text(json.dumps({**statement.to_dict(), "ledger_head": other.head}))
    released(5)  # another ledger's
