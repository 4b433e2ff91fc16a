"""``pate label`` by records, killed at every step of its session: it goes on, pays once, and ends as a whole."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: Forks once everything is imported; each child dies before or after another step, on a ledger of its own.
_SCRIPT = """
import json, os, signal, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
from pate import Budget, Ledger
from pate.jobs import LabelJob
from pate.ledger import Ledger as Book
from pate.records import RecordVoters
from pate.release import BallotSession

folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
rows = pd.DataFrame({"a": rng.normal(size=700), "b": rng.normal(size=700)})
rows.assign(ill=np.where(rows.a > 0, "yes", "no"), who=np.arange(700) // 2).to_csv(folder / "private.csv", index=False)
(rows[:40] + 0.5).to_csv(folder / "public.csv", index=False)

def job(ledger, **options):
    return LabelJob(folder / "private.csv", folder / "public.csv", target="ill", classes=["no", "yes"],
                    budget=Budget(4.0, 1e-4), ledger=ledger,
                    new_ledger=not (ledger.exists() and Ledger(ledger).releases()),
                    checkpoint_dir=folder / "maps", **options)

def run(ledger, out, **options):
    work = job(ledger, **options)
    work.write(work.run(), out)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

OWNERS = {"ask": BallotSession, "cast": RecordVoters, "cast_residuals": RecordVoters, "add_answers": Book,
          "record": Book, "write_bytes": Path}

def at(name, number, when):
    owner = OWNERS[name]
    real, calls = getattr(owner, name), iter(range(10_000))
    def patched(*given, **options):
        now = next(calls)
        if now == number and when == "before":
            die()
        found = real(*given, **options)
        if now == number:
            die()
        return found
    setattr(owner, name, patched)

n_rounds = len(job(folder / "none.sqlite", drop=["who"]).plan.mechanisms)
some = (0, 1, n_rounds - 2)  # the last round measures
moments = [("record", 0), ("write_bytes", 0)] + [("ask", k) for k in some]
moments += [("add_answers", k) for k in some] + [("cast_residuals", k) for k in some]
tally = {"rounds": n_rounds, "moments": 0, "paid before": 0, "kept": 0}
for i, (name, number) in enumerate(moments):
    for when in ("before", "after"):
        ledger, out = folder / f"{i}-{when}.sqlite", folder / f"out-{i}-{when}.csv"
        options = {"group": "who"} if i % 2 else {"drop": ["who"]}
        pid = os.fork()
        if pid == 0:
            at(name, number, when)
            run(ledger, out, **options)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), (name, number, when)
        tally["moments"] += 1
        book = Ledger(ledger)
        releases = book.releases()
        stored = [row.n_answers for row in releases], [key for row in releases for key in row.facts if "round " in key]
        spent = book.spent if releases else None
        tally["paid before"] += bool(releases)
        again = folder / f"again-{i}-{when}.csv"
        work = job(ledger, **options)
        assert work.plan.is_paid == bool(releases), (name, number, when)
        work.write(work.run(), again)
        assert spent in (None, book.spent), (name, number, when)
        (row,) = book.releases()
        assert set(stored[1]) <= set(row.facts)
        tally["kept"] += len(stored[1])
        if out.exists():
            assert out.read_bytes() == again.read_bytes(), (name, number, when)
        if number == 0:
            third = folder / f"third-{i}-{when}.csv"
            run(ledger, third, **options)
            assert third.read_bytes() == again.read_bytes(), (name, number, when)
        assert len(book.releases()) == 1 and book.verify().ok
print(json.dumps(tally))
"""


@pytest.mark.long
def test_a_killed_run_goes_on_and_pays_once(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout)
    assert tally["rounds"] > 1
    assert tally["moments"] == 2 * (2 + 3 * 3)
    assert tally["kept"] > tally["rounds"]
    assert 0 < tally["paid before"] < tally["moments"]
