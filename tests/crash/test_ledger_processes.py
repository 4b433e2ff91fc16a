"""The ledger under many processes and under kills: nothing is spent twice, no label that was seen is lost.

The processes are forks of one that has imported the library: starting an interpreter each time would take longer than
what is tested. ``pytest -m slow -s`` runs the full sizes and prints the table of faults.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from pate import Budget, GNMax, Ledger
from pate.exceptions import LedgerError
from pate.privacy.compose.accounting_unit import choose_terms

TOTAL = Budget(2.0, 1e-5)
ONE = GNMax(40.0).charge(10)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def run(code, *arguments, timeout=250, env=None):
    done = subprocess.run(
        [sys.executable, "-c", _COMMON + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


_COMMON = """
import ctypes, json, math, os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np
from pate import Budget, BudgetExceededError, GNMax, Ledger, NoisyHistogram, Votes, release_labels
from pate.votes import hash_queries

def votes(n, start=0, fingerprint="ab" * 32):
    rows = np.arange(start, start + n, dtype=float).reshape(-1, 1)
    made = Votes.from_counts(np.tile([70, 30], (n, 1)), query_hashes=hash_queries(rows), n_units=1000)
    object.__setattr__(made, "fingerprint", fingerprint)
    return made

def tell(file, release, asked):
    # One write, as anyone who gets it: what stands in this file was seen outside.
    lines = "".join(f"{h} {l}\\n" for h, l in zip(asked.query_hashes, release.labels.tolist()))
    handle = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.write(handle, lines.encode())
    os.close(handle)

def seen_outside(file):
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    return [(key, int(label)) for key, label in (line.split() for line in lines)]
"""

# Many processes ------------------------------------------------------------------------------------------------------

_CROWD = """
path, seen, workers, turns = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])
budget = Budget(float(sys.argv[5]), 1e-5)
gate_r, gate_w = os.pipe()
done_r, done_w = os.pipe()
children = []
for worker in range(workers):
    child = os.fork()
    if child == 0:
        os.close(gate_w)
        os.read(gate_r, 1)  # all start at once: the writer's end is closed by the parent
        spent = refused = 0
        try:
            ledger = Ledger(path, timeout=200.0)
            for turn in range(turns):
                asked = votes(1, start=worker * turns + turn)
                try:
                    release = release_labels(asked, GNMax(40.0), budget=budget, ledger=ledger)
                except BudgetExceededError:
                    refused += 1
                    continue
                tell(f"{seen}.{worker}", release, asked)
                spent += 1
            os.write(done_w, f"{spent} {refused}\\n".encode())
        except BaseException as error:
            os.write(done_w, f"failed {type(error).__name__}: {str(error)[:200]}\\n".encode())
        os._exit(0)
    children.append(child)
os.close(gate_r), os.close(gate_w), os.close(done_w)
for child in children:
    os.waitpid(child, 0)
with os.fdopen(done_r) as file:
    lines = file.read().splitlines()
print(json.dumps({"lines": lines, "seen": [t for w in range(workers) for t in seen_outside(f"{seen}.{w}")]}))
"""


def crowd(path, tmp_path, workers, turns, epsilon):
    started = time.perf_counter()
    found = run(_CROWD, path, tmp_path / "seen", workers, turns, epsilon, timeout=280)
    seconds = time.perf_counter() - started
    # Twenty of them decide what it counts in, by the first release that gets in: once, and alike for all.
    ledger = Ledger(path)
    terms = choose_terms(Budget(float(epsilon), 1e-5), GNMax(40.0).charge(1))
    assert terms == ledger.remaining().terms
    one = terms.currency.price(GNMax(40.0).charge(1))
    affordable = max(n for n in range(workers * turns + 1) if math.fsum([one] * n) <= terms.limit)
    assert 0 < affordable < workers * turns, "the test must run into the budget"
    spent, refused = (sum(int(line.split()[i]) for line in found["lines"]) for i in (0, 1))
    rows = ledger.releases()
    assert spent == len(rows) == len(found["seen"]) == affordable
    assert spent + refused == workers * turns
    assert math.fsum(terms.currency.price(row.charge) for row in rows) == ledger.spent <= terms.limit
    stored = ledger.stored([key for key, _ in found["seen"]], "gnmax")
    assert {key: a.label for key, a in stored.items()} == dict(found["seen"])
    assert [row.id for row in rows] == list(range(1, affordable + 1))
    check = ledger.verify()
    assert check.ok, str(check)
    print(
        f"\n{workers} processes x {turns} releases: {spent} paid, {refused} refused, sum {ledger.spent:.6f} "
        f"of {terms.limit:.6f} ({terms.currency.name}), {seconds:.1f} s"
    )


@pytest.mark.long
def test_four_processes_share_one_budget(path, tmp_path):
    crowd(path, tmp_path, 4, 10, 0.5)


@pytest.mark.slow
def test_twenty_processes_share_one_budget(path, tmp_path):
    crowd(path, tmp_path, 20, 50, 4)


def test_a_ledger_may_be_used_on_both_sides_of_a_fork(path):
    ledger = Ledger(path, total=TOTAL)
    ledger.record(ONE, mechanism="before", n_queries=10)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ledger.record(ONE, mechanism="child", n_queries=10)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ledger.record(ONE, mechanism="parent", n_queries=10)
    assert status == 0
    assert [row.mechanism for row in ledger.releases()] == ["before", "child", "parent"]
    assert ledger.verify().ok


def test_threads_share_one_ledger(path):
    ledger = Ledger(path, total=TOTAL)
    done = []

    def spend():
        for _ in range(5):
            done.append(ledger.record(GNMax(40.0).charge(1), mechanism="m", n_queries=1))

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(1, 21))
    assert ledger.verify().ok


# Locks, permissions, space -------------------------------------------------------------------------------------------


def test_a_held_file_is_waited_for(path):
    ledger = Ledger(path, total=TOTAL)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, lambda: holder.execute("ROLLBACK"))
    timer.start()
    started = time.perf_counter()
    assert ledger.record(ONE, mechanism="m", n_queries=10) == 1
    assert time.perf_counter() - started >= 0.25
    timer.join()
    holder.close()


def test_a_reader_that_never_ends_is_said(path):
    """In the rollback journal a commit waits for readers: then nothing is charged."""
    ledger = Ledger(path, total=TOTAL)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        with pytest.raises(LedgerError, match=r"is locked.*Nothing was charged"):
            Ledger(path, timeout=0.2).record(ONE, mechanism="m", n_queries=10)
    assert ledger.releases() == []
    assert ledger.verify().ok
    assert ledger.record(ONE, mechanism="m", n_queries=10) == 1


def test_the_journal_is_the_owners_alone_too(path):
    before = os.umask(0)
    seen = []
    try:
        ledger = Ledger(path, total=TOTAL)

        def answers():
            for i in range(40_000):  # more than the cache holds is not needed: the journal is there from the start
                if i == 39_999:
                    seen.extend((p.name, stat.S_IMODE(p.stat().st_mode)) for p in path.parent.iterdir())
                yield f"q{i}", "gnmax", 1, None

        ledger.record(ONE, mechanism="m", n_queries=10, answers=answers())
        ledger.register(_data())
    finally:
        os.umask(before)
    assert ("ledger.sqlite-journal", 0o600) in seen
    assert {stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()} == {0o600}
    assert sorted(p.name for p in path.parent.iterdir()) == ["ledger.sqlite", "ledger.sqlite.key"]


def _data():
    from pate.ledger import Registration

    return Registration("record", (0, 1), fingerprint="ab" * 32)


def test_the_file_is_in_rollback_mode_even_if_that_was_changed(path):
    ledger = Ledger(path, total=TOTAL)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal"
    ledger.record(ONE, mechanism="m", n_queries=10)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert [p.name for p in path.parent.iterdir()] == ["ledger.sqlite"]


@pytest.mark.parametrize("spare", [0, 1, 5, 50])
def test_a_full_database_charges_nothing(path, monkeypatch, spare):
    """SQLite's own "database or disk is full", from the first page too many on."""
    ledger = Ledger(path, total=TOTAL)
    ledger.record(ONE, mechanism="m", n_queries=10)
    with closing(sqlite3.connect(path)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connect = sqlite3.connect

    def full(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.execute(f"PRAGMA max_page_count={pages + spare}")
        return connection

    monkeypatch.setattr("sqlite3.connect", full)
    answers = [(f"q{i:064d}", "histogram", 1, [1.0] * 10) for i in range(3000)]
    with pytest.raises(LedgerError, match=r"full.*Nothing was.*charged"):
        ledger.record(ONE, mechanism="m", n_queries=3000, answers=answers)
    monkeypatch.setattr("sqlite3.connect", connect)
    assert len(ledger.releases()) == 1
    assert ledger.stored(["q" + "0" * 64], "histogram") == {}
    assert ledger.verify().ok
    assert ledger.record(ONE, mechanism="m", n_queries=10) == 2


_SMALL_DISK = """
folder, keep = Path(sys.argv[1]), sys.argv[2]
from pate.exceptions import LedgerError
from pate.privacy.compose.accounting_unit import choose_terms
ledger = Ledger(folder / "ledger.sqlite", total=Budget(50.0, 1e-5))
found = []
for turn in range(200):
    try:
        release_labels(votes(40, start=40 * turn), NoisyHistogram(40.0), budget=Budget(50.0, 1e-5), ledger=ledger)
        found.append("ok")
    except LedgerError as error:
        found.append(str(error))
        break
check = ledger.verify()
print(json.dumps({"found": found, "ok": check.ok, "n": len(ledger.releases()), "answers": check.n_answers}))
"""


@pytest.mark.long
def test_a_small_disk_that_fills_up(tmp_path):
    """A real file system of 300 kB: the releases that fitted are whole, the next one is refused."""
    command = f'mount -t tmpfs -o size=300k none {tmp_path} && exec {sys.executable} -c "$CODE" {tmp_path} x'
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", command] if shutil.which("unshare") else ["false"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "CODE": _COMMON + _SMALL_DISK},
    )
    if "{" not in done.stdout:
        if "Traceback" in done.stderr:
            raise AssertionError(done.stderr)
        pytest.skip("no small file system can be mounted here")
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["found"][:-1] == ["ok"] * found["n"]
    assert found["n"] > 3
    assert "Nothing was" in found["found"][-1]
    assert found["ok"]
    assert found["answers"] == 40 * found["n"]


# Kills ---------------------------------------------------------------------------------------------------------------

#: Counts the system calls that change a file, and kills the process before the k-th, or in the middle of its write.
_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>
static long left = -1; static int torn = 0; static long passed = 0;
void pate_arm(long k, int t) { left = k; torn = t; passed = 0; }
long pate_passed(void) { return passed; }
static int now(void) { if (left < 0) return 0; passed++; return left-- == 0; }
static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)
ssize_t pwrite64(int f, const void *b, size_t n, off64_t o)
{ REAL(pwrite64); if (now()) { if (torn) real(f, b, n / 2, o); die(); } return real(f, b, n, o); }
ssize_t pwrite(int f, const void *b, size_t n, off_t o)
{ REAL(pwrite); if (now()) { if (torn) real(f, b, n / 2, o); die(); } return real(f, b, n, o); }
ssize_t write(int f, const void *b, size_t n)
{ REAL(write); if (now()) { if (torn) real(f, b, n / 2); die(); } return real(f, b, n); }
int fsync(int f) { REAL(fsync); if (now()) die(); return real(f); }
int fdatasync(int f) { REAL(fdatasync); if (now()) die(); return real(f); }
int ftruncate(int f, off_t n) { REAL(ftruncate); if (now()) die(); return real(f, n); }
int ftruncate64(int f, off64_t n) { REAL(ftruncate64); if (now()) die(); return real(f, n); }
int unlink(const char *p) { REAL(unlink); if (now()) die(); return real(p); }
int rename(const char *a, const char *b) { REAL(rename); if (now()) die(); return real(a, b); }
"""

_EVERY_CALL = """
base, work, fresh, torn, stride = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6])
shim = ctypes.CDLL(None)
shim.pate_arm.argtypes, shim.pate_passed.restype = [ctypes.c_long, ctypes.c_int], ctypes.c_long
mechanism, budget = NoisyHistogram(40.0), Budget(2.0, 1e-5)
asked = votes(8, start=100)
cost = mechanism.charge(8).mu_squared

def release(ledger):
    return release_labels(asked, mechanism, budget=budget, ledger=ledger)

before = 0
if not fresh:
    release_labels(votes(3), mechanism, budget=budget, ledger=Ledger(base / "l.sqlite"))
    before = 1
counts = {"moments": 0, "killed": 0, "charged": 0}
counts |= {"over_budget": 0, "lost": 0, "unpaid": 0, "not_verified": 0, "twice": 0}
for moment in range(0, 100_000, stride):
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(base, work)
    file, seen = work / "l.sqlite", work / "seen"
    child = os.fork()
    if child == 0:
        shim.pate_arm(moment, torn)
        tell(seen, release(Ledger(file)), asked)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    counts["moments"] += 1
    killed = os.WIFSIGNALED(status)
    counts["killed"] += killed
    if not killed and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"the child failed at moment {moment}")
    ledger = Ledger(file)
    rows = ledger.releases()
    stored = ledger.stored(asked.query_hashes, mechanism.family)
    charged = len(rows) > before
    counts["charged"] += charged
    counts["over_budget"] += ledger.spent > (budget.mu_squared if charged or before else 0.0)
    counts["unpaid"] += bool(stored) and not charged
    counts["lost"] += charged and len(stored) != 8
    whole = [key for key in seen_outside(seen)] if not (killed and torn) else []
    counts["lost"] += any(key not in stored or stored[key].label != label for key, label in whole)
    if file.exists() and ledger.total is not None:
        counts["not_verified"] += not ledger.verify().ok
    # the same request once more: free if it was paid for, paid for once if it was not
    again = release(ledger)
    counts["lost"] += charged and again.labels.tolist() != [stored[h].label for h in asked.query_hashes]
    counts["twice"] += len(ledger.releases()) != before + 1
    counts["not_verified"] += not ledger.verify(files=[again.statement.to_dict()]).as_released
    if not killed:
        break
print(json.dumps(counts))
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and a C compiler to stop at every system call")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(_SHIM)
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", folder / "shim.so", folder / "shim.c", "-ldl"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip("the C compiler does not make the shim here")
    return folder / "shim.so"


def kill_at_calls(tmp_path, shim, *, fresh, torn, stride=1):
    base = tmp_path / "base"
    base.mkdir()
    arguments = (base, tmp_path / "work", int(fresh), int(torn), stride)
    found = run(_EVERY_CALL, *arguments, env={"LD_PRELOAD": str(shim)})
    print(f"\nkill {'in' if torn else 'before'} a system call, {'new' if fresh else 'old'} ledger: {found}")
    assert found["killed"] >= found["moments"] - 1 >= 20 // stride
    assert {k: found[k] for k in ("over_budget", "lost", "unpaid", "not_verified", "twice")} == dict.fromkeys(
        ("over_budget", "lost", "unpaid", "not_verified", "twice"), 0
    )
    return found


@pytest.mark.long
@pytest.mark.parametrize("fresh", [True, False], ids=["new", "old"])
def test_a_kill_at_any_system_call_of_a_release(tmp_path, shim, fresh):
    found = kill_at_calls(tmp_path, shim, fresh=fresh, torn=False, stride=3)
    assert 0 < found["charged"] < found["moments"]


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@pytest.mark.parametrize("fresh", [True, False], ids=["new", "old"])
def test_a_kill_at_every_system_call_of_a_release(tmp_path, shim, fresh, torn):
    kill_at_calls(tmp_path, shim, fresh=fresh, torn=torn)


_EVERY_CALL_OF_BALLOTS = """
base, work, stride, rounds = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5])
from pate import GaussianSum, RecordVoters, open_ballot_session, release_ballots
from pate.records import SignedSpace
shim = ctypes.CDLL(None)
shim.pate_arm.argtypes = [ctypes.c_long, ctypes.c_int]
budget = Budget(2.0, 1e-5)
X = np.random.default_rng(0).normal(size=(40, 3))
ballots = RecordVoters(None, SignedSpace().fit(X), classes=2).cast(X, [0, 1] * 20)

def release(file):
    ledger = Ledger(file)
    if not rounds:
        return release_ballots(ballots, GaussianSum(3.0), budget=budget, ledger=ledger)
    with open_ballot_session(budget, shares=[1, 1], classes=2, ledger=ledger, name="May") as session:
        return session.ask(ballots)

counts = {"moments": 0, "killed": 0, "charged": 0, "stored": 0}
counts |= {"over_budget": 0, "lost": 0, "unpaid": 0, "not_verified": 0, "twice": 0}
for moment in range(0, 100_000, stride):
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(base, work)
    file, seen = work / "l.sqlite", work / "seen.npy"
    child = os.fork()
    if child == 0:
        shim.pate_arm(moment, 0)
        np.save(seen, release(file).statistics)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    counts["moments"] += 1
    counts["killed"] += killed
    if not killed and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"the child failed at moment {moment}")
    ledger = Ledger(file)
    rows = ledger.releases()
    stored = ledger.n_answers(1) if rows else 0
    counts["charged"] += len(rows)
    counts["stored"] += stored
    counts["unpaid"] += stored > len(rows)
    counts["lost"] += not rounds and stored != len(rows)
    if file.exists() and ledger.total is not None:
        counts["not_verified"] += not ledger.verify().ok
    # the same request once more: what was stored, or what was not shown to anybody
    again = release(file).statistics
    whole = False
    try:
        whole = np.load(seen)
    except (OSError, ValueError, EOFError):
        whole = None
    counts["lost"] += whole is not None and not (again == whole).all()
    counts["twice"] += len(ledger.releases()) != 1 or ledger.n_answers(1) != 1
    counts["over_budget"] += ledger.spent > ledger.remaining().terms.limit
    counts["not_verified"] += not ledger.verify().ok
    if not killed:
        break
print(json.dumps(counts))
"""


@pytest.mark.long
@pytest.mark.parametrize("rounds", [False, True], ids=["release", "session"])
def test_a_kill_at_any_system_call_of_a_release_of_ballots(tmp_path, shim, rounds):
    (tmp_path / "base").mkdir()
    stride = 5 if rounds else 3
    found = run(_EVERY_CALL_OF_BALLOTS, tmp_path / "base", tmp_path / "work", stride, int(rounds),
                env={"LD_PRELOAD": str(shim)})  # fmt: skip
    assert found["killed"] >= found["moments"] - 1 >= 20 // stride
    assert 0 < found["stored"] < found["moments"]
    faults = ("over_budget", "lost", "unpaid", "not_verified", "twice")
    assert {k: found[k] for k in faults} == dict.fromkeys(faults, 0)


_RANDOM = """
path, seen, moments, seed = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])
rng = random.Random(seed)
mechanism, budget = GNMax(40.0), Budget(8.0, 1e-5)
counts = {"moments": 0, "killed": 0, "over_budget": 0, "lost": 0, "not_verified": 0, "seen": 0}
ledger = Ledger(path, total=budget)
release_labels(votes(2, start=10**6), mechanism, budget=budget, ledger=ledger)  # whatever is lazy is loaded now
for moment in range(moments):
    child = os.fork()
    if child == 0:
        for turn in range(1000):
            asked = votes(2, start=moment * 2000 + 2 * turn)
            try:
                release = release_labels(asked, mechanism, budget=budget, ledger=ledger)
            except BudgetExceededError:
                time.sleep(10)
            tell(seen, release, asked)
        os._exit(0)
    time.sleep(rng.uniform(0.0, 0.15))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    counts["moments"] += 1
    counts["killed"] += os.WIFSIGNALED(status)
    counts["over_budget"] += ledger.spent > ledger.remaining().terms.limit
    counts["not_verified"] += not ledger.verify().ok
answers = seen_outside(seen)
counts["seen"] = len(answers)
stored = ledger.stored([key for key, _ in answers], mechanism.family)
counts["lost"] = sum(key not in stored or stored[key].label != label for key, label in answers)
rows = ledger.releases()
price = ledger.remaining().terms.currency.price
assert math.fsum(price(r.charge) for r in rows) == math.fsum(r.price for r in rows) == ledger.spent
assert all(r.charge == mechanism.charge(2) and r.n_answers == 2 for r in rows)
counts["releases"] = len(rows)
print(json.dumps(counts))
"""


def kill_at_random(tmp_path, moments, seed):
    found = run(_RANDOM, tmp_path / "l.sqlite", tmp_path / "seen", moments, seed)
    print(f"\nkill at a random moment: {found}")
    assert found["killed"] == found["moments"] == moments
    assert (found["over_budget"], found["lost"], found["not_verified"]) == (0, 0, 0)
    # a kill between the commit and the message leaves a paid label that was not seen; never the other way round
    assert 2 * found["releases"] >= found["seen"] > 0


@pytest.mark.long
def test_kills_at_random_moments(tmp_path):
    kill_at_random(tmp_path, 30, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_hundreds_of_kills_at_random_moments(tmp_path, seed):
    kill_at_random(tmp_path, 250, seed)


# Settings ------------------------------------------------------------------------------------------------------------


def test_a_connection_is_as_durable_as_it_should_be(path):
    from pate.ledger._store import transaction

    Ledger(path, total=TOTAL)
    with transaction(path, write=True, timeout=1.0) as connection:
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "foreign_keys", "trusted_schema", "busy_timeout")
        }
    assert found == {
        "synchronous": 3,  # EXTRA
        "journal_mode": "delete",
        "foreign_keys": 1,
        "trusted_schema": 0,
        "busy_timeout": 1000,
    }
    with (
        pytest.raises(LedgerError, match="readonly"),
        transaction(path, write=False, timeout=1.0) as connection,
    ):
        connection.execute("DELETE FROM meta")
