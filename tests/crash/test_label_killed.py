"""``pate label`` killed while it writes: the file asked for is whole or absent, and the labels are paid for once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: Forks once everything is imported; each child dies at another moment of writing its four files.
_SCRIPT = """
import json, os, signal, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
from pate import Budget, GNMax, Ledger
from pate.jobs import LabelJob

folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
rows = pd.DataFrame({"age": rng.normal(50, 10, 300), "bmi": rng.normal(25, 3, 300)})
rows.assign(ill=np.where(rows.age > 50, "yes", "no")).to_csv(folder / "private.csv", index=False)
(rows[:40] + 0.5).to_csv(folder / "public.csv", index=False)

def run(out):
    job = LabelJob(folder / "private.csv", folder / "public.csv", target="ill", classes=["no", "yes"], n_teachers=30,
                   budget=Budget(5.0, 1e-4), teacher="naive-bayes", mechanism=GNMax(20.0), n_queries=10,
                   ledger=folder / "ledger.sqlite", random_state=0)
    job.write(job.run(), out)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def at(name, number, when):
    # Die at the number-th call of an operation: before it, after it, or when half of its bytes are written.
    owner = {"replace": os, "fsync": os, "write_bytes": Path}[name]
    real, calls = getattr(owner, name), iter(range(10_000))
    def patched(*given, **options):
        if next(calls) != number:
            return real(*given, **options)
        if when == "before":
            die()
        if when == "half":
            real(given[0], given[1][: len(given[1]) // 2], **options)
        else:
            real(*given, **options)
        die()
    setattr(owner, name, patched)

moments = [(name, k, when) for name in ("replace", "fsync") for k in range(4) for when in ("before", "after")]
moments += [("write_bytes", k, when) for k in range(4) for when in ("before", "half", "after")]
run(folder / "first.csv")
ledger = Ledger(folder / "ledger.sqlite")
first, spent = (folder / "first.csv").read_bytes(), ledger.spent
tally = {"moments": 0, "whole": 0, "absent": 0, "broken": 0, "without statement": 0}
for i, moment in enumerate(moments):
    out = folder / f"out-{i}.csv"
    pid = os.fork()
    if pid == 0:
        at(*moment)
        run(out)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), moment
    tally["moments"] += 1
    tally["absent" if not out.exists() else "whole" if out.read_bytes() == first else "broken"] += 1
    for ending, read in ((".csv", len), (".statement.json", json.loads), (".statement.html", len)):
        path = out.with_name(f"out-{i}{ending}")
        if path.exists():
            assert read(path.read_text())
    left = [path for path in folder.glob(f"out-{i}.*") if path.is_file()]
    found = ledger.verify(files=left)
    assert found.as_released, (moment, str(found))  # whatever lies there is what was released
    if out.exists() and not out.with_name(f"out-{i}.statement.json").exists():
        tally["without statement"] += 1
    again = folder / f"again-{i}.csv"
    run(again)
    assert again.read_bytes() == first, moment
assert ledger.spent == spent and len(ledger.releases()) == 1 and ledger.verify().ok
print(json.dumps(tally))
"""


@pytest.mark.long
def test_killed_while_writing_nothing_is_half_there_and_nothing_is_paid_twice(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout)
    assert tally["moments"] == 28
    assert tally["whole"] > 0
    assert tally["absent"] > 0
    assert tally["broken"] == tally["without statement"] == 0
