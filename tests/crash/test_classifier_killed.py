"""PATEClassifier by records, killed at every step of a fit: the next one goes on, and nothing is paid twice."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_SCRIPT = """
import json, os, signal, sys
from pathlib import Path

import numpy as np
from pate import Budget, Ledger, PATEClassifier
from pate.ledger import Ledger as _Ledger
from pate.records import RecordVoters
from pate.release import BallotSession

folder, every, budget = Path(sys.argv[1]), int(sys.argv[2]), Budget(8.0, 1e-5)
rng = np.random.default_rng(0)
def blobs(n):
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 2)) + 3 * y[:, None], y
(X, y), (X_public, _), (X_test, truth) = blobs(300), blobs(60), blobs(100)

def fit(ledger):
    return PATEClassifier(budget=budget, classes=range(2), ledger=ledger).fit(X, y, X_public=X_public)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def at(owner, name, number, when):
    # Die at the number-th call: before it or after it.
    real, calls = getattr(owner, name), iter(range(10_000))
    def patched(*given, **options):
        if next(calls) != number:
            return real(*given, **options)
        if when == "after":
            real(*given, **options)
        die()
    setattr(owner, name, patched)

n_rounds = len(fit(None).release_.rounds)
assert n_rounds > 1
# After a round is before the next one, nearly.
before = sorted({0, 1, n_rounds - 1, *range(0, n_rounds, every)})
moments = [(BallotSession, "ask", k, "before") for k in before]
moments += [(BallotSession, "ask", k, "after") for k in (0, n_rounds - 1)]
moments += [(RecordVoters, "cast", 0, when) for when in ("before", "after")]
moments += [(RecordVoters, "cast_residuals", 0, "before")]
moments += [(os, "fsync", k, when) for k in range(2) for when in ("before", "after")]
tally = {"moments": 0, "paid before": 0, "rounds": len(before)}
for i, moment in enumerate(moments):
    path = folder / f"ledger-{i}.sqlite"
    pid = os.fork()
    if pid == 0:
        at(*moment)
        fit(Ledger(path, total=budget))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        continue  # that many calls were not made
    tally["moments"] += 1
    ledger = Ledger(path, total=budget)
    tally["paid before"] += len(ledger.releases())
    clf = fit(ledger)
    assert len(ledger.releases()) == 1, moment
    assert clf.release_.guarantee.epsilon <= 8.0, moment
    assert len(clf.release_.rounds) == n_rounds, moment
    assert clf.score(X_test, truth) > 0.8, moment
    again = fit(ledger)
    assert all(np.array_equal(a.statistics, b.statistics)
               for a, b in zip(clf.release_.rounds, again.release_.rounds, strict=True)), moment
    assert len(ledger.releases()) == 1 and ledger.verify().ok, moment
print(json.dumps(tally))
"""


@pytest.mark.long
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_every_step_a_fit_goes_on_and_pays_once(tmp_path, every):
    """Before every eighth of its rounds, and before every one in ``make slow``."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path), str(every)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout)
    assert tally["moments"] >= tally["rounds"] + 2 + 3
    assert 0 < tally["paid before"] < tally["moments"]  # some died before they paid, some after
