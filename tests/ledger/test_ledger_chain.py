"""The ledger's chain, registration and looks: what was changed is found, what is private is not in it."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from pate import (
    Budget,
    BudgetExceededError,
    Charge,
    GNMax,
    InvalidInputError,
    Ledger,
    Votes,
    release_labels,
)
from pate.exceptions import LedgerError
from pate.ledger import Registration
from pate.ledger._entries import append, opening
from pate.ledger._store import SCHEMA, create
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.teachers import TeacherEnsemble

TOTAL = Budget(2.0, 1e-5)
ONE = GNMax(40.0).charge(10)
DATA = Registration("record", ("no", "yes"), n_units=1000, n_shards=10, fingerprint="ab" * 32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def filled(path):
    """Entries 0 opened, 1 registered, 2 to 4 releases, 5 answers of release 3, 6 release."""
    ledger = Ledger(path, total=TOTAL, currency="gdp", failure_delta=0.0)
    ledger.register(DATA)
    hashes = [hashlib.sha256(bytes([i])).hexdigest() for i in range(6)]
    ledger.record(ONE, mechanism="GNMax(sigma=40.0)", n_queries=3, answers=[(h, "gnmax", 1, None) for h in hashes[:3]])
    counts = [(h, "histogram", 0, [60.5, -1.25]) for h in hashes[3:]]
    ledger.record(ONE, mechanism="NoisyHistogram(sigma=40.0)", n_queries=3, answers=counts, request="r" * 64)
    run = ledger.record(ONE, mechanism="VoteCap(max_votes=10, sigma=40.0)", n_queries=10, open_ended=True)
    ledger.add_answers(run, [("#0", "vote-cap", 0, None), ("#1", "vote-cap", 1, None)])
    ledger.record(ONE, mechanism="m", n_queries=1, answers=[('line\nbreak "é"', "gnmax", -1, None)])
    return ledger


def tamper(path, *statements):
    """Change the file as a person with an SQLite tool does: triggers away, change, triggers back."""
    triggers = [name for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for name in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for name in triggers:
            connection.execute(SCHEMA[name])
        connection.execute("COMMIT")


# The chain -----------------------------------------------------------------------------------------------------------


def test_a_whole_ledger_verifies(path):
    ledger = filled(path)
    found = ledger.verify()
    assert found.ok, str(found)
    assert (found.n_entries, found.n_releases, found.n_answers) == (7, 4, 9)
    assert found.head == ledger.head == ledger.releases()[-1].digest
    assert str(found).startswith("verified: 7 entries")


def test_the_chain_can_be_checked_by_another_program(path):
    """Written from the description in pate/ledger/_chain.py, not with its code."""
    filled(path)
    before = "0" * 64
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT * FROM entries ORDER BY seq").fetchall()
        for row in rows:
            lines = hashlib.sha256()
            for query, family, label, noisy in connection.execute(
                "SELECT query, family, label, noisy FROM answers WHERE entry = ? ORDER BY position", (row["seq"],)
            ):
                name = query.hex() if isinstance(query, bytes) else query
                counts = None if noisy is None else noisy.hex()
                lines.update((json.dumps([name, family, label, counts], separators=(",", ":")) + "\n").encode())
            assert lines.hexdigest() == row["answers"]
            assert row["previous"] == before
            values = {k: row[k] for k in row.keys() if k != "digest"}  # noqa: SIM118
            text = json.dumps(values, sort_keys=True, separators=(",", ":"))
            before = hashlib.sha256(text.encode()).hexdigest()
            assert before == row["digest"]
        assert len(rows) == 7


CHANGES = {
    "a smaller charge": "UPDATE entries SET price = price / 2 WHERE seq = 3",
    "another mechanism": "UPDATE entries SET body = replace(body, 'sigma=40.0', 'sigma=80.0') WHERE seq = 2",
    "another time": "UPDATE entries SET created = '1999-01-01T00:00:00+00:00' WHERE seq = 4",
    "another request": "UPDATE entries SET request = 'x' WHERE seq = 3",
    "another label": "UPDATE answers SET label = 0 WHERE entry = 2 AND position = 1",
    "other counts": "UPDATE answers SET noisy = zeroblob(16) WHERE entry = 3 AND position = 0",
    "no counts": "UPDATE answers SET noisy = NULL WHERE entry = 3 AND position = 0",
    "another query": "UPDATE answers SET query = 'q' WHERE entry = 2 AND position = 0",
    "another family": "UPDATE answers SET family = 'lnmax' WHERE entry = 2 AND position = 0",
    "a missing answer": "DELETE FROM answers WHERE entry = 5 AND position = 1",
    "one more answer": "INSERT INTO answers VALUES (5, 2, '#2', 'vote-cap', 1, NULL)",
    "answers without an entry": "INSERT INTO answers VALUES (99, 0, '#2', 'vote-cap', 1, NULL)",
    "another total": "UPDATE entries SET body = replace(body, '\"epsilon\":2.0', '\"epsilon\":9.0') WHERE seq = 0",
    "another unit": "UPDATE entries SET body = replace(body, 'record', 'group') WHERE seq = 1",
    "another fingerprint": "UPDATE entries SET body = replace(body, 'print\":\"', 'print\":\"0') WHERE seq = 1",
    "a digest": "UPDATE entries SET digest = previous WHERE seq = 4",
    "another seal": "UPDATE meta SET value = '[5,\"00\"]' WHERE key = 'seal'",
    "no seal": "DELETE FROM meta WHERE key = 'seal'",
    "the last entry is missing": "DELETE FROM entries WHERE seq = 6; DELETE FROM answers WHERE entry = 6",
    "all releases are missing": "DELETE FROM entries WHERE seq > 1; DELETE FROM answers",
    "a middle entry is missing": "DELETE FROM entries WHERE seq = 3; DELETE FROM answers WHERE entry = 3",
    "a gap closed": (
        "DELETE FROM entries WHERE seq = 3; DELETE FROM answers WHERE entry = 3; "
        "UPDATE entries SET seq = seq - 1 WHERE seq > 3; UPDATE answers SET entry = entry - 1 WHERE entry > 3"
    ),
    "entries in another order": (
        "UPDATE entries SET seq = 99 WHERE seq = 2; UPDATE entries SET seq = 2 WHERE seq = 3; "
        "UPDATE entries SET seq = 3 WHERE seq = 99; UPDATE answers SET entry = 99 WHERE entry = 2; "
        "UPDATE answers SET entry = 2 WHERE entry = 3; UPDATE answers SET entry = 3 WHERE entry = 99"
    ),
    "answers in another order": (
        "UPDATE answers SET position = 9 WHERE entry = 2 AND position = 0; "
        "UPDATE answers SET position = 0 WHERE entry = 2 AND position = 1; "
        "UPDATE answers SET position = 1 WHERE entry = 2 AND position = 9"
    ),
    "an entry put in": (
        "INSERT INTO entries SELECT 7, kind, 5, created, NULL, 0.0, 0.0, 0, answers, body, digest, digest "
        "FROM entries WHERE seq = 6"
    ),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_is_found(path, name):
    ledger = filled(path)
    tamper(path, *CHANGES[name].split("; "))
    found = ledger.verify()
    assert not found.ok, name
    assert found.problems
    assert "NOT VERIFIED" in str(found)


def test_a_change_with_its_own_digest_made_to_fit_is_found_by_the_next_entry(path):
    ledger = filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM entries WHERE seq = 3").fetchone())
    del row["digest"]
    row["price"] /= 2
    digest = hashlib.sha256(json.dumps(row, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    tamper(path, f"UPDATE entries SET price = price / 2, digest = '{digest}' WHERE seq = 3")
    problems = ledger.verify().problems
    assert "entry 3 (release 2) has another price than its cost" in problems
    assert any("entry 4 does not follow" in problem for problem in problems)


def test_only_a_head_noted_elsewhere_shows_that_the_end_was_taken_back(path):
    """The honest limit: anyone who rewrites the file and its seal leaves a chain that fits."""
    ledger = filled(path)
    noted = ledger.head
    earlier = ledger.releases()[2].digest
    spent = 3 * ONE.mu_squared
    seal = json.dumps([4, earlier, 3, spent, 0.0], separators=(",", ":"))
    tamper(
        path,
        "DELETE FROM entries WHERE seq > 4",
        "DELETE FROM answers WHERE entry > 4",
        f"UPDATE meta SET value = '{seal}' WHERE key = 'seal'",
    )
    assert ledger.verify().ok
    assert ledger.verify(head=earlier).ok
    assert "noted head" in ledger.verify(head=noted).problems[0]


def test_a_head_stays_in_the_chain_as_it_grows(path):
    ledger = Ledger(path, total=TOTAL)
    heads = [ledger.head]
    for _ in range(3):
        ledger.record(ONE, mechanism="m", n_queries=10)
        heads.append(ledger.head)
    assert len(set(heads)) == 4
    assert all(ledger.verify(head=head).ok for head in heads)
    assert Ledger(path.with_name("none.sqlite")).head == ""


@pytest.mark.parametrize(
    "name", ["the last entry is missing", "all releases are missing", "an entry put in", "no seal", "a smaller charge"]
)
def test_nothing_is_charged_after_an_end_that_is_not_the_sealed_one(path, name):
    ledger = filled(path)
    tamper(path, *CHANGES[name].split("; "))
    with pytest.raises(LedgerError, match=r"does not end as it was sealed.*Nothing was charged"):
        ledger.record(ONE, mechanism="m", n_queries=10)


def test_a_raised_total_is_not_believed(path):
    ledger = filled(path)
    tamper(path, CHANGES["another total"])
    for look in (lambda: ledger.total, ledger.remaining, lambda: ledger.record(ONE, mechanism="m", n_queries=10)):
        with pytest.raises(LedgerError, match="did not write"):
            look()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET price = 0 WHERE seq = 2",
        "DELETE FROM entries WHERE seq = 6",
        "DELETE FROM answers",
        "UPDATE answers SET label = 0",
        "INSERT INTO answers VALUES (2, 3, 'q', 'gnmax', 1, NULL)",
        "INSERT OR REPLACE INTO entries SELECT seq, kind, release, created, request, 0.0, 0.0, n_answers, answers, "
        "body, previous, digest FROM entries WHERE seq = 2",
        "INSERT OR REPLACE INTO answers VALUES (2, 0, 'q', 'gnmax', 0, NULL)",
    ],
)
def test_the_tables_take_no_change(path, statement):
    filled(path)
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    assert path.read_bytes() == before


@pytest.mark.long
@settings(max_examples=25)
@given(data=st.data())
def test_any_changed_cell_is_found(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("l") / "ledger.sqlite"
    ledger = filled(path)
    table = data.draw(st.sampled_from(["entries", "answers"]))
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        keys = connection.execute(f"SELECT {columns[0]}, {columns[1]} FROM {table}").fetchall()
    key, column = data.draw(st.sampled_from(keys)), data.draw(st.sampled_from(columns))
    value = data.draw(st.one_of(st.integers(0, 2**40), st.text(max_size=9), st.binary(max_size=9), st.none()))
    where = f"WHERE {columns[0]} = ? AND {columns[1]} = ?"
    triggers = [name for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        for name in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        before = connection.execute(f"SELECT {column} FROM {table} {where}", key).fetchone()[0]
        try:
            connection.execute(f"UPDATE {table} SET {column} = ? {where}", (value, *key))
        except sqlite3.Error:  # the table itself refuses it
            return
        new = None if column in columns[:2] else connection.execute(f"SELECT {column} FROM {table} {where}", key)
        changed = value != before if new is None else new.fetchone()[0] != before
        for name in triggers:
            connection.execute(SCHEMA[name])
        connection.execute("COMMIT")
    assert ledger.verify().ok is not changed


@pytest.mark.long
@settings(max_examples=20)
@given(sizes=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=8))
def test_whatever_is_recorded_verifies_and_adds_up(tmp_path_factory, sizes):
    path = tmp_path_factory.mktemp("l") / "ledger.sqlite"
    ledger = Ledger(path, total=TOTAL)
    for turn, (n, counts) in enumerate(sizes):
        answers = [(f"q{turn}-{i}", "f", i - 1, [0.1 * i] if counts else None) for i in range(n)]
        ledger.record(GNMax(40.0).charge(n), mechanism="m", n_queries=n, answers=iter(answers))
    found = ledger.verify()
    assert found.ok
    assert (found.n_releases, found.n_answers) == (len(sizes), sum(n for n, _ in sizes))


def test_a_clock_that_goes_back_changes_nothing(path, monkeypatch):
    times = iter([f"20{year}-01-01T00:00:00+00:00" for year in (26, 25, 30, 24)])
    monkeypatch.setattr("pate.ledger._ledger._now", lambda: next(times))
    ledger = Ledger(path, total=TOTAL, currency="gdp", failure_delta=0.0)
    for turn in range(3):
        ledger.record(ONE, mechanism=f"m{turn}", n_queries=10, answers=[("q", "gnmax", turn, None)])
    assert [(r.id, r.mechanism, r.created[:4]) for r in ledger.releases()] == [
        (1, "m0", "2025"),
        (2, "m1", "2030"),
        (3, "m2", "2024"),
    ]
    assert ledger.stored(["q"], "gnmax")["q"].release == 1
    found = ledger.verify()
    assert found.ok
    assert sum("clock went back" in note for note in found.notes) == 2


# Files of others -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER payload AFTER INSERT ON entries BEGIN DELETE FROM meta; END",
        "CREATE VIEW extra AS SELECT * FROM answers",
        "CREATE TABLE extra (x)",
        "DROP TRIGGER no_update_of_entries",
        "DROP INDEX charges",
    ],
)
def test_a_crafted_schema_is_refused(path, statement):
    ledger = filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    before = path.read_bytes()
    for use in (lambda: Ledger(path), ledger.releases, lambda: ledger.record(ONE, mechanism="m", n_queries=1)):
        with pytest.raises(LedgerError, match="not as pate made it"):
            use()
    assert not ledger.verify().ok
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "{",
        '{"total":{}}',
        '{"total":{"epsilon":"2","delta":1}}',
        '{"total":NaN}',
        "[" * 100_000,
        "{}",
    ],
)
def test_a_crafted_body_is_a_clear_error(path, body):
    ledger = filled(path)
    for entry in (0, 1, 4):
        tamper(path, f"UPDATE entries SET body = '{body}' WHERE seq = {entry}")
    uses = (lambda: ledger.total, lambda: ledger.registration, ledger.releases, ledger.show, lambda: ledger.check(DATA))
    for use in uses:
        with pytest.raises(LedgerError, match="did not write"):
            use()
    assert not ledger.verify().ok


_ODD = [None, True, -1, 1e300, "x" * 50, "\x1b[2J", [], [[]], {}, {"a": 1}]


@pytest.mark.long
@settings(max_examples=40)
@given(seq=st.sampled_from([0, 1, 3]), key=st.integers(0, 20), odd=st.sampled_from(_ODD), keep=st.booleans())
def test_a_crafted_value_anywhere_in_a_body_is_no_crash(tmp_path_factory, seq, key, odd, keep):
    """With a digest made to fit: the body is what its writer wants it to be."""
    path = tmp_path_factory.mktemp("l") / "ledger.sqlite"
    ledger = filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM entries WHERE seq = ?", (seq,)).fetchone())
    body = json.loads(row["body"])
    name = sorted(body)[key % len(body)]
    if keep:
        assume(json.dumps(body[name]) != json.dumps(odd))
        body[name] = odd
    else:
        del body[name]
    row["body"] = json.dumps(body, sort_keys=True, separators=(",", ":"))
    del row["digest"]
    digest = hashlib.sha256(json.dumps(row, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    text = row["body"].replace("'", "''")
    tamper(path, f"UPDATE entries SET body = '{text}', digest = '{digest}' WHERE seq = {seq}")
    uses = (
        ledger.releases,
        ledger.show,
        ledger.remaining,
        lambda: ledger.registration,
        lambda: ledger.check(DATA),
        lambda: ledger.export(path.with_name("labels.csv")),
        lambda: ledger.record(ONE, mechanism="m", n_queries=1, registration=DATA),
        lambda: ledger.add_answers(2, [("q", "f", 1, None)]),
    )
    for use in uses:
        with suppress(LedgerError):
            use()
    assert not ledger.verify(head=None).ok


@pytest.mark.long
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_bytes_are_clear_errors_or_found(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("l") / "ledger.sqlite"
    ledger = filled(path)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(1, len(raw) - 1)) :]
    path.write_bytes(raw)
    for use in (ledger.verify, ledger.releases, ledger.show, lambda: ledger.stored(["#0"], "vote-cap")):
        with suppress(LedgerError):
            use()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_found(path, share):
    ledger = filled(path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(LedgerError):
        ledger.record(ONE, mechanism="m", n_queries=10)
    if share:
        assert not ledger.verify().ok
    else:
        with pytest.raises(LedgerError, match="gone or empty"):
            ledger.verify()


def test_a_change_of_folder_does_not_begin_again(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.sqlite", total=TOTAL, currency="gdp")
    ledger.record(ONE, mechanism="m", n_queries=10)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert ledger.spent == ONE.mu_squared
    assert Ledger(":memory:", total=TOTAL).path.is_file()


def test_a_ledger_that_vanished_is_not_begun_again(path):
    """Spending would start from nothing."""
    filled(path)
    path.unlink()
    with pytest.raises(LedgerError, match=r"gone or empty.*Restore"):
        Ledger(path, total=TOTAL)
    assert not path.exists()


# The private data set ------------------------------------------------------------------------------------------------


def test_other_records_are_refused_and_the_same_ones_are_not(path):
    ledger = filled(path)
    ledger.check(DATA)
    other = Registration("record", ("no", "yes"), n_units=1000, fingerprint="cd" * 32)
    for use in (
        ledger.check,
        ledger.register,
        lambda r: ledger.record(ONE, mechanism="m", n_queries=1, registration=r),
    ):
        with pytest.raises(LedgerError, match="other private records") as caught:
            use(other)
        assert "cdcd" not in str(caught.value)
        assert "abab" not in str(caught.value)
    assert len(ledger.releases()) == 4
    ledger.revise("three records corrected")
    ledger.register(other)
    with pytest.raises(LedgerError, match="other private records"):
        ledger.check(DATA)
    assert ledger.verify().ok


def test_nothing_in_the_ledger_tells_the_fingerprint(path):
    filled(path)
    raw, key = path.read_bytes(), path.with_name("ledger.sqlite.key").read_text().strip()
    plain = "ab" * 32
    for secret in (
        plain,
        hashlib.sha256(plain.encode()).hexdigest(),
        hashlib.sha256(bytes.fromhex(plain)).hexdigest(),
        key,
    ):
        assert secret.encode() not in raw
        assert bytes.fromhex(secret) not in raw
    assert path.with_name("ledger.sqlite.key").stat().st_mode & 0o777 == 0o600
    held = Ledger(path).registration
    assert held["fingerprinted"] is True
    assert not any(isinstance(v, str) and len(v) >= 16 for v in held.values())
    assert "ab" * 8 not in repr(DATA)


def test_two_ledgers_of_the_same_records_hold_unrelated_fingerprints(tmp_path):
    found = []
    for name in "ab":
        filled(tmp_path / f"{name}.sqlite")
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as connection:
            found.append(json.loads(connection.execute("SELECT body FROM entries WHERE seq = 1").fetchone()[0]))
    assert re.fullmatch("[0-9a-f]{64}", found[0]["fingerprint"])
    assert found[0]["fingerprint"] != found[1]["fingerprint"]
    assert found[0]["classes"] == found[1]["classes"] == ["no", "yes"]


def test_a_lost_or_foreign_key_is_said(path):
    ledger = filled(path)
    key = path.with_name("ledger.sqlite.key")
    kept = key.read_text()
    key.unlink()
    with pytest.raises(LedgerError, match=r"key file .* missing"):
        ledger.check(DATA)
    assert not key.exists()
    key.write_text("0" * 64)
    with pytest.raises(LedgerError, match="key file"):
        ledger.register(DATA)
    for damaged in ("", "zz" * 32, "0" * 4096):
        key.write_text(damaged)
        with pytest.raises(LedgerError, match=r"key file .* damaged"):
            ledger.register(DATA)
    # without a fingerprint at hand there is nothing to compare
    key.unlink()
    ledger.record(ONE, mechanism="m", n_queries=1, registration=Registration("record", ("no", "yes")))
    key.write_text(kept)
    ledger.check(DATA)
    # and the way out
    key.unlink()
    ledger.revise("the key was lost")
    ledger.register(DATA)
    ledger.check(DATA)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Registration("group", ("no", "yes")), "the unit 'record', not 'group'"),
        (Registration("record", ("yes", "no")), "the classes"),
        (Registration("record", ("no", "yes", "maybe")), "the classes"),
        (Registration("record", ("no", "yes"), n_units=999), r"for 1000 records \(or persons\), not 999.*revise"),
    ],
)
def test_another_unit_or_other_classes_are_refused(path, other, text):
    ledger = filled(path)
    with pytest.raises(LedgerError, match=text):
        ledger.check(other)
    with pytest.raises(LedgerError, match=text):
        ledger.record(ONE, mechanism="m", n_queries=1, registration=other)
    assert len(ledger.releases()) == 4


@pytest.mark.parametrize(("a", "b"), [((0, 1), (0.0, 1.0)), ((0, 1), (False, True)), ((0, 1), ("0", "1"))])
def test_classes_of_another_type_are_other_classes(path, a, b):
    ledger = Ledger(path, total=TOTAL)
    ledger.register(Registration("record", a))
    ledger.check(Registration("record", tuple(np.array(a)) if a == (0, 1) else a))
    with pytest.raises(LedgerError, match="the classes"):
        ledger.check(Registration("record", b))


def test_what_was_unknown_is_added_and_stays(path):
    ledger = Ledger(path, total=TOTAL)
    ledger.register(Registration("record", (0, 1)))
    n = ledger.verify().n_entries
    ledger.register(Registration("record", (0, 1)))
    assert ledger.verify().n_entries == n
    ledger.register(Registration("record", (0, 1), n_units=50, fingerprint="ab" * 32))
    ledger.register(Registration("record", (0, 1)))
    assert ledger.registration["n_units"] == 50
    with pytest.raises(LedgerError, match="other private records"):
        ledger.register(Registration("record", (0, 1), fingerprint="cd" * 32))
    with pytest.raises(InvalidInputError, match="reason"):
        ledger.revise(" ")
    with pytest.raises(LedgerError, match="no total"):
        Ledger(path.with_name("other.sqlite")).register(DATA)


@pytest.mark.long
def test_teachers_tell_whose_records_they_saw(path):
    """Through the lock: the same records encoded otherwise are the same, other records or owners are not."""
    rng = np.random.default_rng(0)
    X, y, X_public = rng.normal(size=(300, 3)), rng.integers(0, 2, 300), rng.normal(size=(8, 3))
    ledger = Ledger(path)

    def ask(X, y, groups=None, rows=slice(0, 4)):
        teachers = TeacherEnsemble(GaussianNB(), 20, classes=(0, 1), random_state=0).fit(X, y, groups=groups)
        return release_labels(teachers.vote(X_public[rows]), GNMax(40.0), budget=TOTAL, ledger=ledger)

    first = ask(X, y)
    assert ask(X * 2 + 1, y).labels.tolist() == first.labels.tolist()  # stored answers of the same people
    ask(X, y, rows=slice(4, 8))
    changed = y.copy()
    changed[17] ^= 1
    with pytest.raises(LedgerError, match="other private records"):
        ask(X, changed)
    assert len(ledger.releases()) == 2
    assert ledger.registration["n_shards"] == 20
    owners = np.repeat(np.arange(100), 3)
    by_group = Ledger(path.with_name("groups.sqlite"))
    votes = [
        TeacherEnsemble(GaussianNB(), 20, classes=(0, 1), random_state=0).fit(X, y, groups=g).vote(X_public)
        for g in (owners, np.roll(owners, 1))
    ]
    release_labels(votes[0], GNMax(40.0), budget=TOTAL, ledger=by_group)
    with pytest.raises(LedgerError, match="other private records"):
        release_labels(votes[1], GNMax(40.0), budget=TOTAL, ledger=by_group)


def test_votes_carry_the_fingerprint_and_do_not_show_it():
    votes = Votes(np.ones((2, 2), dtype=int), None, 2, (0, 1), fingerprint="ab" * 32)
    assert votes.take([0]).fingerprint == "ab" * 32
    assert "abab" not in repr(votes)


# Looks ---------------------------------------------------------------------------------------------------------------


def test_what_remains(path):
    ledger = Ledger(path, currency="gdp")
    assert ledger.remaining().to_dict() == {"total": None, "n_releases": 0}
    ledger.open_total(TOTAL)
    assert ledger.remaining().fraction_left == 1.0
    assert ledger.remaining().epsilon_left == pytest.approx(2.0)
    ledger.record(ONE, mechanism="m", n_queries=10)
    left = ledger.remaining()
    assert left.fraction_left == pytest.approx(1 - ledger.used_fraction)
    # a Gaussian release of the mu^2 that is left fits, and its epsilon is the stated one; a larger one does not
    sigma = (2 / left.left) ** 0.5
    fits = Charge.gaussian(sensitivity=2**0.5, sigma=sigma * (1 + 1e-9))
    assert ledger.allows(fits)
    assert not ledger.allows(Charge.gaussian(sensitivity=2**0.5, sigma=sigma * (1 - 1e-9)))
    assert left.epsilon_left == pytest.approx(fits.guarantee(1e-5).epsilon)
    assert left.epsilon_left == gdp_to_epsilon(left.left**0.5, 1e-5)
    # epsilons do not add up: mu^2 does
    assert left.epsilon_left + ONE.guarantee(1e-5).epsilon > 2.0
    json.dumps(left.to_dict(), allow_nan=False)


@pytest.mark.parametrize("currency", ["renyi", "renyi:13", "renyi:60"])
def test_what_remains_at_a_renyi_order_is_said_of_gaussian_noise_not_of_the_conversions_overhead(path, currency):
    """Also between the orders at which a charge is known, where it is priced by a chord, a little above itself."""
    ledger = Ledger(path, total=TOTAL, currency=currency)
    while ledger.allows(ONE):
        ledger.record(ONE, mechanism="m", n_queries=10)
    left = ledger.remaining()
    mu = gdp_from_budget(left.epsilon_left, TOTAL.delta)
    assert mu == pytest.approx(math.sqrt(2 * left.left / float(left.currency.partition(":")[2])), rel=0.01)
    assert left.epsilon_left < ONE.guarantee(TOTAL.delta).epsilon
    assert ledger.allows(Charge.gaussian(sensitivity=1.0, sigma=(1 + 1e-6) / mu))


def test_rows_to_show_are_public_and_tidy(path):
    rows = filled(path).show()
    assert [row["release"] for row in rows] == [1, 2, 3, 4]
    assert [row["n_answers"] for row in rows] == [3, 3, 2, 1]
    assert sum(row["share"] for row in rows) == pytest.approx(Ledger(path).used_fraction)
    assert rows[0]["epsilon"] == ONE.guarantee(1e-5).epsilon
    json.dumps(rows, allow_nan=False)
    assert Ledger(path.with_name("none.sqlite")).show() == []


def test_every_paid_label_is_exported(path, tmp_path):
    ledger = filled(path)
    assert ledger.export(tmp_path / "labels.jsonl") == 9
    rows = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["answered"] * 8 + ["refused"]
    assert [row["class"] for row in rows] == ["yes"] * 3 + ["no"] * 3 + ["no", "yes", None]
    assert [row["release"] for row in rows] == [1] * 3 + [2] * 3 + [3] * 2 + [4]
    assert rows[3]["noisy_counts"] == [60.5, -1.25]
    assert rows[0]["query"] == hashlib.sha256(bytes([0])).hexdigest()
    assert ledger.export(tmp_path / "labels.csv") == 9
    with open(tmp_path / "labels.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["query"] for row in table] == [row["query"] for row in rows]
    assert [row["label"] for row in table] == ["1"] * 3 + ["0"] * 4 + ["1", ""]
    for name in ("labels.csv", "labels.txt"):
        with pytest.raises(InvalidInputError):
            ledger.export(tmp_path / name)
    assert Ledger(tmp_path / "none.sqlite").export(tmp_path / "nothing.csv") == 0


def test_an_export_that_fails_leaves_no_file(path, tmp_path, monkeypatch):
    ledger = filled(path)
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(LedgerError, match=r"No space left.*paid for is in the ledger"):
        ledger.export(tmp_path / "labels.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.sqlite", "ledger.sqlite.key"]


def test_formulas_are_made_harmless_unless_asked_otherwise(path, tmp_path):
    ledger = Ledger(path, total=TOTAL)
    ledger.register(Registration("record", ("=1+1", "@x", "-5", "plain")))
    answers = [(f"q{i}", "gnmax", i, None) for i in range(4)]
    ledger.record(ONE, mechanism="m", n_queries=4, answers=answers)
    ledger.export(tmp_path / "raw.csv", raw_csv=True)
    ledger.export(tmp_path / "safe.csv")
    read = {}
    for name in ("raw", "safe"):
        with open(tmp_path / f"{name}.csv", newline="", encoding="utf-8") as file:
            read[name] = [row["class"] for row in csv.DictReader(file)]
    assert read["raw"] == ["=1+1", "@x", "-5", "plain"]
    assert read["safe"] == ["'=1+1", "'@x", "-5", "plain"]


def test_answers_are_added_to_open_runs_only(path):
    ledger = filled(path)
    for release in (1, 4, 99, None):
        with pytest.raises(LedgerError, match="no open-ended release"):
            ledger.add_answers(release, [("q", "vote-cap", 0, None)])
    assert ledger.verify().n_entries == 7


def test_only_plain_charges_and_facts(path):
    ledger = Ledger(path, total=TOTAL)
    for bad in (0.5, None):
        with pytest.raises(InvalidInputError, match="a cost must be"):
            ledger.record(bad, mechanism="m", n_queries=1)
    for facts in ({"x": float("nan")}, {"x": {1, 2}}):
        with pytest.raises(InvalidInputError, match="facts"):
            ledger.record(ONE, mechanism="m", n_queries=1, facts=facts)
    with pytest.raises(InvalidInputError, match="answers"):
        ledger.record(ONE, mechanism="m", n_queries=1, answers=[(5, "gnmax", 1, None)])
    assert ledger.releases() == []


# Other formats --------------------------------------------------------------------------------------------------------


def test_a_chain_of_another_format_is_refused_and_left_alone(path):
    filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
        connection.commit()
    before = path.read_bytes()
    for total in (TOTAL, None):
        with pytest.raises(LedgerError, match=r"another format than 3.*Nothing was charged"):
            Ledger(path, total=total)
    assert path.read_bytes() == before


# What a review found -------------------------------------------------------------------------------------------------


def adaptive(ledger, n_queries=5):
    return ledger.record(ONE, mechanism="m", n_queries=n_queries, facts={"adaptive": True}, open_ended=True)


def answers_from(start, n):
    return [(f"q{i}", "gnmax", 1, None) for i in range(start, start + n)]


def test_the_ledger_takes_the_next_answers_from_one_holder_only(path):
    ledger = Ledger(path, total=TOTAL)
    run = adaptive(ledger)
    assert ledger.add_answers(run, answers_from(0, 2), 0) == ledger.head
    before = path.read_bytes()
    for wrong in (0, 1, 3):
        with pytest.raises(LedgerError, match="another process goes on"):
            ledger.add_answers(run, answers_from(2, 1), wrong)
    assert path.read_bytes() == before
    head = ledger.add_answers(run, answers_from(2, 1), expect_before=2)
    assert ledger.n_answers(run) == 3
    assert head == ledger.head_of([run]) == ledger.head != ledger.releases()[0].digest
    assert ledger.verify(head=head).ok


def test_no_more_answers_than_a_session_paid_for(path):
    ledger = Ledger(path, total=TOTAL)
    run, votes = adaptive(ledger), ledger.record(ONE, mechanism="VoteCap(...)", n_queries=5, open_ended=True)
    ledger.add_answers(run, answers_from(0, 3))
    with pytest.raises(LedgerError, match=r"charged for 5 answers and holds 3: 3 more"):
        ledger.add_answers(run, iter(answers_from(3, 3)))
    assert ledger.n_answers(run) == 3
    ledger.add_answers(run, answers_from(3, 2))
    with pytest.raises(LedgerError, match="not paid for"):
        ledger.add_answers(run, answers_from(5, 1))
    # a run of capped votes is charged for its votes, in as many answers as one likes
    ledger.add_answers(votes, answers_from(0, 20))
    assert ledger.verify().ok


def test_answers_of_many_releases_are_all_found(path):
    """More of them than one look takes: the rest of a long list was looked for in one release only, and paid again."""
    ledger, queries = Ledger(path, total=TOTAL), [f"q{i}" for i in range(1100)]
    for start in range(0, 1100, 275):
        answers = [(q, "gnmax", start // 275, None) for q in queries[start : start + 275]]
        ledger.record(ONE, mechanism="m", n_queries=275, answers=answers)
    found = ledger.stored(queries, "gnmax")
    assert {q: (a.label, a.release) for q, a in found.items()} == {
        q: (i // 275, i // 275 + 1) for i, q in enumerate(queries)
    }
    assert set(ledger.stored(queries, "gnmax", release=3)) == set(queries[550:825])


def test_answers_beyond_what_was_paid_are_found(path):
    """Written by something that did not ask: the chain itself fits."""
    ledger = Ledger(path, total=TOTAL)
    run = adaptive(ledger)
    ledger.add_answers(run, answers_from(0, 5))
    assert ledger.verify().ok
    with ledger._write() as connection:
        append(connection, path, "answers", "2026-01-01", body={}, release=run, answers=answers_from(5, 1))
    assert any("more answers than it was charged for" in problem for problem in ledger.verify().problems)


_DROP = "CREATE TRIGGER {} BEFORE INSERT ON {} BEGIN SELECT RAISE(IGNORE); END"


@pytest.mark.parametrize(
    ("kind", "name", "table", "sql"),
    [
        ("trigger", "sqlite_x", "entries", _DROP.format("sqlite_x", "entries")),
        ("trigger", "sqlite_autoindex_x_1", "answers", _DROP.format("sqlite_autoindex_x_1", "answers")),
        ("trigger", "sqlite_stat1", "entries", _DROP.format("sqlite_stat1", "entries")),
        ("view", "sqlite_y", "sqlite_y", "CREATE VIEW sqlite_y AS SELECT * FROM answers"),
    ],
)
def test_a_planted_trigger_or_view_by_sqlites_own_name_is_refused(path, kind, name, table, sql):
    ledger = filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        row = (kind, name, table, sql)
        connection.execute("INSERT INTO sqlite_master(type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, 0, ?)", row)
        connection.commit()
    assert not ledger.verify().ok
    with pytest.raises(LedgerError, match="not as pate made it"):
        ledger.record(ONE, mechanism="m", n_queries=1)


def test_statistics_of_sqlite_are_no_reason_to_refuse(path):
    ledger = filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ANALYZE")
    assert ledger.verify().ok


@pytest.mark.parametrize("table", ["entries", "answers"])
def test_a_row_that_was_dropped_without_a_word_is_noticed_before_the_commit(table):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create(connection)
        connection.execute(_DROP.format("payload", table))
        with pytest.raises(LedgerError, match="did not keep what was written"):
            append(connection, Path("l"), "opened", "2026-01-01", body=opening(TOTAL), answers=answers_from(0, 2))


def test_an_emptied_ledger_is_not_begun_again(path):
    ledger = filled(path)
    tamper(path, "DELETE FROM answers", "DELETE FROM entries", "DELETE FROM meta WHERE key = 'seal'")
    assert "was emptied" in ledger.verify().problems[0]
    with pytest.raises(LedgerError, match="was emptied"):
        Ledger(path, total=Budget(9.0, 1e-5))


def test_another_key_is_found(path):
    ledger = filled(path)
    key = path.with_name("ledger.sqlite.key")
    kept = key.read_text()
    for other in ("00" * 32, "no key"):
        key.write_text(other)
        assert any("key file" in problem for problem in ledger.verify().problems)
    key.unlink()
    found = ledger.verify()  # as a copy sent to an auditor, without its key
    assert found.ok
    assert any("key file is not beside" in note for note in found.notes)
    # a release without a fingerprint makes no second key in the lost one's place
    ledger.record(ONE, mechanism="m", n_queries=1, registration=Registration("record", ("no", "yes")))
    assert not key.exists()
    key.write_text(kept)
    assert ledger.verify().notes == ()
    ledger.check(DATA)


def test_no_fingerprint_is_made_under_another_key(path):
    ledger = Ledger(path, total=TOTAL)
    ledger.register(Registration("record", ("no", "yes")))
    path.with_name("ledger.sqlite.key").write_text("00" * 32)
    with pytest.raises(LedgerError, match="key file"):
        ledger.register(DATA)
    path.with_name("ledger.sqlite.key").unlink()
    with pytest.raises(LedgerError, match="key file"):
        ledger.register(DATA)


def test_a_query_kept_as_another_type_is_found(path):
    """Its digest is the same text; but the answer would not be found, and paid for again."""
    ledger = filled(path)
    tamper(path, "UPDATE answers SET query = lower(hex(query)) WHERE entry = 2 AND position = 0")
    assert any("not stored as pate stores them" in problem for problem in ledger.verify().problems)


def test_more_rows_beside_the_seal_are_found(path):
    ledger = filled(path)
    tamper(path, "INSERT INTO meta VALUES ('x', 'y')")
    assert any("meta has 1 rows" in problem for problem in ledger.verify().problems)


def fill_by_roundings(limit):
    """Yield lists of costs for which adding the last to the rounded sum of the others misses what fsum finds."""
    rng = np.random.default_rng(1)
    while True:
        costs = (rng.random(5) * limit / 6).tolist()
        total, last = math.fsum(costs), limit - math.fsum(costs)
        for _ in range(3):
            if total + last <= limit < math.fsum([*costs, last]):
                yield [*costs, last]
                break
            last = math.nextafter(last, 9)


def test_what_is_charged_always_verifies(path, tmp_path):
    """One way of adding up everywhere: else a filled ledger of honest charges would not verify."""
    costs = next(fill_by_roundings(TOTAL.mu_squared))
    ledger = Ledger(path, total=TOTAL, currency="gdp")
    for cost in costs[:-1]:
        ledger.record(Charge(cost, (1.0,) * len(ONE.rdp)), mechanism="m", n_queries=1)
    beyond = Charge(costs[-1], (1.0,) * len(ONE.rdp))
    assert not ledger.allows(beyond)
    with pytest.raises(BudgetExceededError):
        ledger.record(beyond, mechanism="m", n_queries=1)
    fits = Charge(costs[-1] - 4 * math.ulp(TOTAL.mu_squared), (1.0,) * len(ONE.rdp))
    assert ledger.allows(fits)
    ledger.record(fits, mechanism="m", n_queries=1)
    assert ledger.verify().ok
