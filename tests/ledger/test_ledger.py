"""The ledger under faults (many processes, kills, full disks, locks, broken files): never overspent, never lost.

What a release does with it is in test_labeling.py.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import (
    ABSTAIN,
    Budget,
    BudgetExceededError,
    Charge,
    ConfidentGNMax,
    GNMax,
    Ledger,
    LNMax,
    NoisyHistogram,
    Votes,
    calibrate,
    quote,
    release_labels,
)
from pate.exceptions import LedgerError
from pate.ledger import Registration
from pate.privacy.compose.accounting_unit import AccountingUnit
from pate.votes import hash_queries

TOTAL = Budget(2.0, 1e-5)
ONE = GNMax(40.0).charge(10)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def script(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def replayed(ledger):
    """What is spent, recomputed from the stored charges themselves."""
    return math.fsum(row.charge.mu_squared for row in ledger.releases())


def votes(n, start=0):
    rows = np.arange(start, start + n, dtype=float).reshape(-1, 1)
    return Votes.from_counts(np.tile([70, 30], (n, 1)), query_hashes=hash_queries(rows))


# Many processes ------------------------------------------------------------------------------------------------

_SPENDER = """
import sys, time
from pate import BudgetExceededError, GNMax, Ledger
path, worker, gate = sys.argv[1:]
ledger = Ledger(path)
charge = GNMax(40.0).charge(10)
print("ready", flush=True)
sys.stdin.readline()
done = 0
for turn in range(10):
    try:
        ledger.record(charge, mechanism="m", n_queries=10, answers=[(f"{worker}-{turn}", "gnmax", 1, None)])
        done += 1
    except BudgetExceededError:
        pass
print(done, flush=True)
"""


@pytest.mark.long
def test_four_processes_never_spend_more_than_there_is(path):
    """Forty releases are tried at once, the total buys seventeen and a half."""
    total = Budget(TOTAL.epsilon, TOTAL.delta)
    affordable = int(total.mu_squared / ONE.mu_squared)
    assert 8 <= affordable <= 32
    Ledger(path, total=total, currency="gdp")
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _SPENDER, str(path), str(i), "go"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(4)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n", worker.stderr.read()
    for worker in workers:  # all of them stand at the gate before the first one starts
        worker.stdin.write("go\n")
        worker.stdin.flush()
    done = []
    for worker in workers:
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
        done.append(int(out))
    ledger = Ledger(path)
    assert sum(done) == len(ledger.releases()) == affordable
    assert replayed(ledger) == ledger.spent <= total.mu_squared
    assert ledger.spent == pytest.approx(affordable * ONE.mu_squared)
    # every success is there with its answer, and nothing of the refused ones
    keys = [f"{w}-{t}" for w in range(4) for t in range(10)]
    assert len(ledger.stored(keys, "gnmax")) == affordable
    assert [row.id for row in ledger.releases()] == list(range(1, affordable + 1))


# Killed processes ----------------------------------------------------------------------------------------------

_KILLED = """
import os, signal, sys
from pate import GNMax, Ledger
ledger = Ledger(sys.argv[1])
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)

def answers(n):
    for i in range(n):
        if sys.argv[2] == "between" and i == 3:
            kill()
        yield (f"q{i}", "gnmax", i % 2, None)

ledger.record(GNMax(40.0).charge(5), mechanism="GNMax(sigma=40.0)", n_queries=5, answers=answers(5))
kill()
"""


def test_a_kill_right_after_the_record_loses_nothing(path):
    Ledger(path, total=TOTAL, currency="gdp")
    process = script(_KILLED, path, "after")
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, err
    ledger = Ledger(path)
    assert ledger.spent == GNMax(40.0).charge(5).mu_squared
    stored = ledger.stored([f"q{i}" for i in range(5)], "gnmax")
    assert [stored[f"q{i}"].label for i in range(5)] == [0, 1, 0, 1, 0]


def test_a_kill_inside_the_transaction_leaves_nothing_behind(path):
    Ledger(path, total=TOTAL)
    process = script(_KILLED, path, "between")
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, err
    ledger = Ledger(path)
    assert (ledger.releases(), ledger.spent) == ([], 0.0)
    assert ledger.stored([f"q{i}" for i in range(5)], "gnmax") == {}
    # and it goes on from there
    assert ledger.record(ONE, mechanism="m", n_queries=10) == 1


_KILLED_RELEASE = """
import os, signal, sys
import numpy as np
import pate.release._release_labels
from pate import Budget, Ledger, NoisyHistogram, Votes
from pate.votes import hash_queries

def die(*a, **k):
    os.kill(os.getpid(), signal.SIGKILL)

pate.release._release_labels.make_statement = die  # the first thing after the charge is stored
rows = np.arange(8.0).reshape(-1, 1)
votes = Votes.from_counts(np.tile([70, 30], (8, 1)), query_hashes=hash_queries(rows))
pate.release.release_labels(votes, NoisyHistogram(40.0), budget=Budget(2.0, 1e-5), ledger=Ledger(sys.argv[1]))
"""


@pytest.mark.long
def test_a_release_killed_after_its_charge_is_handed_out_later_for_free(path):
    process = script(_KILLED_RELEASE, path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, err
    ledger = Ledger(path)
    assert ledger.spent == NoisyHistogram(40.0).charge(8).mu_squared
    again = release_labels(votes(8), NoisyHistogram(40.0), budget=TOTAL, ledger=ledger)
    assert len(ledger.releases()) == 1
    assert again.quote.charge == Charge.zero()
    assert again.guarantee == NoisyHistogram(40.0).charge(8).guarantee(1e-5)
    stored = ledger.stored(votes(8).query_hashes, NoisyHistogram.family)
    assert again.noisy_counts.tolist() == [list(stored[h].noisy_counts) for h in votes(8).query_hashes]


# Files that fail -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to read-only files")
def test_a_read_only_file_can_be_read_but_not_charged(path):
    Ledger(path, total=TOTAL).record(ONE, mechanism="m", n_queries=10)
    path.chmod(0o400)
    ledger = Ledger(path)
    assert len(ledger.releases()) == 1
    with pytest.raises(LedgerError, match="Nothing was charged"):
        ledger.record(ONE, mechanism="m", n_queries=10)


def test_a_file_that_may_only_be_read_is_a_clear_error(path, monkeypatch):
    """As the test above, for whom permissions do not bind: SQLite itself opens it read-only."""
    ledger = Ledger(path, total=TOTAL, currency="gdp")
    ledger.record(ONE, mechanism="m", n_queries=10)
    connect = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", lambda p, **k: connect(f"file:{p}?mode=ro", uri=True, **k))
    assert ledger.spent == ONE.mu_squared
    with pytest.raises(LedgerError, match=r"readonly database.*Nothing was charged"):
        ledger.record(ONE, mechanism="m", n_queries=10)
    with pytest.raises(LedgerError, match="readonly"):
        release_labels(votes(3), GNMax(40.0), budget=TOTAL, ledger=ledger)


_FULL_DISK = """
import resource, signal, sys
from pate import GNMax, Ledger
from pate.exceptions import LedgerError
from pate.ledger import Registration
from pate.privacy.compose.accounting_unit import AccountingUnit
ledger = Ledger(sys.argv[1])
size = resource.getrlimit(resource.RLIMIT_FSIZE)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, size[1]))  # no file may grow beyond two pages
answers = [(f"q{i:064d}", "histogram", 1, [1.0] * 10) for i in range(2000)]
try:
    ledger.record(GNMax(40.0).charge(2000), mechanism="m", n_queries=2000, answers=answers)
except LedgerError as error:
    print("refused:", error)
"""


@pytest.mark.long
def test_a_full_disk_charges_nothing(path):
    Ledger(path, total=Budget(50.0, 1e-5))
    process = script(_FULL_DISK, path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith("refused:")
    assert "Nothing was" in out
    ledger = Ledger(path)
    assert (ledger.releases(), ledger.spent) == ([], 0.0)
    assert ledger.record(ONE, mechanism="m", n_queries=10) == 1


def test_a_locked_file_waits_and_then_is_a_clear_error(path):
    Ledger(path, total=TOTAL)
    ledger = Ledger(path, timeout=0.2)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    started = time.perf_counter()
    with pytest.raises(LedgerError, match=r"locked.*0\.2 s.*another pate process.*Nothing was charged"):
        ledger.record(ONE, mechanism="m", n_queries=10)
    assert time.perf_counter() - started >= 0.15
    with pytest.raises(LedgerError, match="locked"):
        release_labels(votes(3), GNMax(40.0), budget=TOTAL, ledger=ledger)
    assert ledger.spent == 0.0  # reading is not kept waiting
    holder.execute("ROLLBACK")
    holder.close()
    assert ledger.record(ONE, mechanism="m", n_queries=10) == 1


def test_a_folder_is_no_ledger(tmp_path):
    with pytest.raises(LedgerError):
        Ledger(tmp_path, total=TOTAL)
    (tmp_path / "file").write_text("x")
    with pytest.raises(LedgerError):
        Ledger(tmp_path / "file" / "ledger.sqlite", total=TOTAL)


def test_a_truncated_ledger_is_refused(path):
    ledger = Ledger(path, total=TOTAL)
    for turn in range(5):
        ledger.record(ONE, mechanism="m", n_queries=10, answers=[(f"q{turn}-{i}", "gnmax", 1, None) for i in range(99)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LedgerError):
        ledger.record(ONE, mechanism="m", n_queries=10)


def test_another_programs_database_is_refused_and_left_alone(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE patients (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError):
        Ledger(path, total=TOTAL)
    assert path.read_bytes() == before


def test_only_the_owner_can_read_it(path):
    before = os.umask(0)
    try:
        Ledger(path, total=TOTAL)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# Sums ----------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    epsilon=st.floats(0.7, 4.0),
    name=st.sampled_from(["gdp", "renyi:28", "renyi:33.5"]),
)
def test_the_sum_of_any_sequence_stays_within_the_total(tmp_path_factory, sizes, epsilon, name):
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "l.sqlite", total=Budget(epsilon, 1e-5), currency=name)
    currency = AccountingUnit.named(name)
    limit, expected = currency.limit(ledger.total), 0.0
    for n in sizes:
        charge = GNMax(40.0).charge(n)
        fits = expected + currency.price(charge) <= limit
        assert ledger.allows(charge) is fits
        if fits:
            ledger.record(charge, mechanism="m", n_queries=n)
            expected += currency.price(charge)
        else:
            with pytest.raises(BudgetExceededError):
                ledger.record(charge, mechanism="m", n_queries=n)
    assert math.fsum(currency.price(row.charge) for row in ledger.releases()) == ledger.spent == pytest.approx(expected)
    assert ledger.used_fraction == ledger.spent / limit <= 1
    assert ledger.verify().ok
    # all of it together is within the budget by the exact conversion as well
    assert sum((row.charge for row in ledger.releases()), Charge.zero()).guarantee(1e-5).epsilon <= epsilon


@pytest.mark.long
@settings(max_examples=60)
@given(
    epsilon=st.floats(0.05, 15.0),
    delta=st.sampled_from([1e-9, 1e-6, 1e-3]),
    n=st.integers(1, 3000),
    mechanism=st.sampled_from([NoisyHistogram(1.0), GNMax(1.0), ConfidentGNMax(10.0, 3.0, 1.0), LNMax(1.0)]),
)
def test_what_is_calibrated_to_a_budget_fits_a_fresh_ledger_of_it(tmp_path_factory, epsilon, delta, n, mechanism):
    """The release's own check and the ledger's are two computations: no gap may open between them."""
    budget = Budget(epsilon, delta)
    fresh = Ledger(tmp_path_factory.getbasetemp() / "never written.sqlite")
    alone = calibrate(mechanism, budget, n_queries=n)
    assert calibrate(mechanism, budget, n_queries=n, left=fresh.remaining(default_total=budget)) == alone
    assert quote(n, alone, budget=budget, ledger=fresh) == quote(n, alone, budget=budget)
    # Counted in mu^2 alone, it takes more noise: never less, and none more for released counts.
    by_gdp = Ledger(fresh.path, currency="gdp")
    fitted = calibrate(mechanism, budget, n_queries=n, left=by_gdp.remaining(default_total=budget))
    assert budget.mu_squared * (1 - 1e-8) <= fitted.charge(n).mu_squared <= budget.mu_squared
    factor = fitted.charge(n).mu_squared / alone.charge(n).mu_squared
    assert factor <= 1 + 1e-8
    if isinstance(mechanism, NoisyHistogram):
        assert factor == pytest.approx(1, abs=1e-8)


def test_laplace_noise_buys_as_much_with_a_fresh_ledger_unless_that_counts_in_mu_squared(path):
    mechanism = calibrate(LNMax(1.0), TOTAL, n_queries=200)
    assert quote(200, mechanism, budget=TOTAL, ledger=Ledger(path)) == quote(200, mechanism, budget=TOTAL)
    with pytest.raises(BudgetExceededError, match="left in the ledger"):
        quote(200, mechanism, budget=TOTAL, ledger=Ledger(path, currency="gdp"))
    release_labels(votes(200), mechanism, budget=TOTAL, ledger=(ledger := Ledger(path)))
    assert ledger.currency.startswith("renyi:")


def test_laplace_noise_counts_as_its_dominating_gaussian(path):
    ledger = Ledger(path, currency="gdp")
    release = release_labels(votes(50), LNMax(60.0), budget=TOTAL, ledger=ledger, on_exhausted="abstain")
    assert ledger.spent == LNMax(60.0).charge(release.quote.n_queries).mu_squared <= TOTAL.mu_squared


# What is kept --------------------------------------------------------------------------------------------------


def test_what_is_left_at_an_order_is_said_of_gaussian_noise_and_can_be_had(path):
    ledger = Ledger(path, total=Budget(3.0, 1e-5), currency="renyi:8")
    ledger.record(Charge.gaussian(sensitivity=1.0, sigma=2.0), mechanism="m", n_queries=1)
    left = ledger.remaining()
    said = str(left)
    assert "counted in renyi:8" in said
    (told,) = map(float, re.findall(r"one more release of Gaussian noise of up to epsilon ([\d.]+) fits", said))
    sigma = math.sqrt(4 / left.left)  # of sensitivity 1: costs 8 / (2 sigma^2)
    rest = Charge.gaussian(sensitivity=1.0, sigma=sigma * (1 + 1e-9))
    assert told == pytest.approx(left.epsilon_left, abs=5e-4) == pytest.approx(rest.guarantee(1e-5).epsilon, abs=5e-4)
    with pytest.raises(BudgetExceededError, match=r"takes 44\.9% .* order 8 counts it: more than the 44\.0%"):
        ledger.record(Charge.gaussian(sensitivity=1.0, sigma=sigma * 0.99), mechanism="m", n_queries=1)
    ledger.record(rest, mechanism="m", n_queries=1)
    assert "nothing more of use can be released" in str(ledger.remaining())  # the conversion alone is above 0
    assert ledger.remaining().epsilon_left < 1e-3


def test_no_total_no_charge(path):
    ledger = Ledger(path)
    assert ledger.total is None
    assert ledger.used_fraction == 0.0
    with pytest.raises(LedgerError, match="no total budget yet"):
        ledger.record(ONE, mechanism="m", n_queries=10)
    assert ledger.releases() == []


def test_looking_makes_no_promise(path):
    """A price with a ledger that has no total yet assumes this release's budget, and does not fix it."""
    ledger = Ledger(path)
    quote(10, GNMax(40.0), budget=TOTAL, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        quote(10_000, GNMax(40.0), budget=TOTAL, ledger=ledger)
    assert ledger.total is None
    assert ledger.stored(["q"], "gnmax") == {}
    assert list(path.parent.iterdir()) == []
    assert ledger.allows(ONE * 1000)
    assert not ledger.allows(ONE * 1000, default_total=TOTAL)


def test_the_first_answer_stays_the_answer(path):
    ledger = Ledger(path, total=TOTAL)
    ledger.record(ONE, mechanism="m", n_queries=10, answers=[("q", "gnmax", 3, None)])
    ledger.record(ONE, mechanism="m", n_queries=10, answers=[("q", "gnmax", 7, None)])
    answer = ledger.stored(["q"], "gnmax")["q"]
    assert (answer.label, answer.release) == (3, 1)


def test_families_differ(path):
    ledger = Ledger(path, total=TOTAL)
    ledger.record(
        ONE, mechanism="m", n_queries=10, answers=[("q", "gnmax", 3, None), ("q", "histogram", 4, [0.5, 9.25])]
    )
    assert ledger.stored(["q"], "gnmax")["q"].label == 3
    assert ledger.stored(["q"], "histogram")["q"].noisy_counts == (0.5, 9.25)
    assert ledger.stored(["q"], "lnmax") == {}


def test_many_queries_are_found(path):
    """More than fit in one SQL statement."""
    ledger = Ledger(path, total=TOTAL)
    ledger.record(ONE, mechanism="m", n_queries=10, answers=[(f"q{i}", "gnmax", i, None) for i in range(1700)])
    found = ledger.stored([f"q{i}" for i in range(0, 3400, 2)], "gnmax")
    assert {k: a.label for k, a in found.items()} == {f"q{i}": i for i in range(0, 1700, 2)}


def test_refused_queries_are_answers_too(path):
    """Asking again what was refused would give a second chance for free."""
    ledger = Ledger(path)
    never = ConfidentGNMax(1e6, 60.0, 30.0)
    first = release_labels(votes(6), never, budget=TOTAL, ledger=ledger)
    again = release_labels(votes(6), never, budget=TOTAL, ledger=ledger)
    assert first.labels.tolist() == again.labels.tolist() == [ABSTAIN] * 6
    assert again.status.tolist() == ["refused"] * 6
    assert len(ledger.releases()) == 1


def test_a_stored_answer_keeps_its_meaning_when_the_classes_are_ordered_otherwise(path):
    ledger = Ledger(path)
    hashes = votes(4).query_hashes
    no = Votes.from_counts([[1000, 0]] * 4, classes=["no", "yes"], query_hashes=hashes)
    first = release_labels(no, GNMax(10.0), budget=TOTAL, ledger=ledger)
    assert first.values() == ["no"] * 4
    same = Votes.from_counts([[0, 1000]] * 4, classes=["yes", "no"], query_hashes=hashes)
    try:
        again = release_labels(same, GNMax(10.0), budget=TOTAL, ledger=ledger)
    except LedgerError:
        return  # a refusal that names the two sets of classes would be as good
    assert again.values() == ["no"] * 4


def test_stored_counts_of_fewer_classes_are_a_clear_error(path):
    ledger = Ledger(path)
    hashes = votes(4).query_hashes
    two = Votes.from_counts([[100, 0]] * 4, query_hashes=hashes)
    release_labels(two, NoisyHistogram(40.0), budget=TOTAL, ledger=ledger)
    three = Votes.from_counts([[100, 0, 0]] * 4, query_hashes=hashes)
    with pytest.raises(LedgerError):
        release_labels(three, NoisyHistogram(40.0), budget=TOTAL, ledger=ledger)


def test_rows_come_back_as_they_were_charged(path):
    ledger = Ledger(path, total=TOTAL)
    charges = [GNMax(40.0).charge(3), LNMax(60.0).charge(2), ConfidentGNMax(60.0, 60.0, 40.0).charge(20, 5)]
    for n, charge in enumerate(charges):
        ledger.record(charge, mechanism=f"m{n}", n_queries=n, facts={"unit": "group", "n": n})
    rows = Ledger(path).releases()
    assert [row.charge for row in rows] == charges
    assert [(row.id, row.mechanism, row.n_queries, row.facts["n"]) for row in rows] == [
        (1, "m0", 0, 0),
        (2, "m1", 1, 1),
        (3, "m2", 2, 2),
    ]
    assert rows[0].facts == {"unit": "group", "n": 0}
    assert repr(ledger) == f"Ledger({str(path)!r})"


def test_a_session_cannot_begin_with_more_answers_than_it_pays_for(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(1.0, 1e-5))
    answers = [(f"a{i}", "gnmax", 0, None) for i in range(3)]
    facts = {"adaptive": True}
    with pytest.raises(LedgerError, match="not paid for"):
        ledger.record(Charge.zero(), mechanism="m", n_queries=1, answers=answers, facts=facts, open_ended=True)
    assert ledger.releases() == []
    assert ledger.verify().ok


def test_facts_that_are_drawn_come_after_the_charge_fits(tmp_path):
    """A callable is asked in the transaction: not where the charge is refused, and nothing is charged if it fails."""
    ledger, asked = Ledger(tmp_path / "ledger.sqlite", total=Budget(1.0, 1e-5)), []
    cost = Charge.gaussian(sensitivity=1.0, sigma=5.0)

    def record(cost, facts):
        return ledger.record(cost, mechanism="m", n_queries=1, facts=facts, answers=iter([("q", "f", 0, None)]))

    def broken():
        raise RuntimeError("no noise")

    with pytest.raises(BudgetExceededError):
        record(cost * 1000, lambda: asked.append(1) or {})
    with pytest.raises(RuntimeError, match="no noise"):
        record(cost, broken)
    with pytest.raises(TypeError):
        record(cost, lambda: {"drawn": object()})
    assert (ledger.releases(), ledger.spent, asked) == ([], 0.0, [])
    record(cost, lambda: {"drawn": 7})
    [row] = ledger.releases()
    assert (row.facts, row.n_answers, row.charge) == ({"drawn": 7}, 1, cost)
    assert ledger.verify().ok


def test_a_ledger_that_is_not_there_says_nothing(tmp_path):
    """A reader of a ledger without a file, or of a database without tables, sees one without entries."""
    with closing(sqlite3.connect(tmp_path / "bare.sqlite")) as bare, bare:
        bare.execute("PRAGMA user_version = 7")
        bare.execute("VACUUM")
    for name in ("none.sqlite", "bare.sqlite"):
        book = Ledger(tmp_path / name)
        assert (book.total, book.registration, book.head, book.has_sketch) == (None, None, "", False)
        assert not book.holds("ab" * 32)
        assert (book.releases(), book.show(), book.stored(["q"], "gnmax"), book.find("q")) == ([], [], {}, None)
        assert (book.n_answers(1), book.head_of([1]), book.remaining().failure_left) == (0, "", None)
        assert book.export(tmp_path / f"{name}.jsonl") == 0
        with pytest.raises(LedgerError, match="there is no ledger"):
            book.verify()
        with pytest.raises(LedgerError, match="has no key yet"):
            book.keyed_digest("votes")


def test_a_ledger_tells_of_its_sketch_its_heads_and_what_is_set_aside(tmp_path):
    book = Ledger(tmp_path / "ledger.sqlite", total=Budget(1.0, 1e-5), failure_delta=1e-6)
    assert book.remaining().failure_left == 1e-6
    data = Registration("record", ("no", "yes"), fingerprint="0123abcd", sketch=(("a" * 32,), ()))
    assert not book.has_sketch
    book.register(data)
    assert book.has_sketch
    assert book.holds(book.head)
