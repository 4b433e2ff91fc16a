"""DP-SGD, killed before and after everything that it writes: it is charged once and ends with the very model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: Forks once everything is imported; each child dies before or after another step. All runs have one key, so that the
#: model of one that was killed can be compared with that of one that was not.
_SCRIPT = """
import json, os, signal, sqlite3, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
import torch
from pate import Budget, DPSGDClassifier, DPSGDRegressor, Ledger, PATEClassifier
from pate.dpsgd import _run
from pate.ledger import Ledger as Book

torch.set_num_threads(1)
folder, kind = Path(sys.argv[1]), sys.argv[2]
_run.fresh_secret = lambda: b"k" * 32
rng, budget = np.random.default_rng(0), Budget(3.0, 1e-3)
X = rng.uniform(-1, 1, size=(600, 3))
y = (X[:, 0] > 0).astype(int)

def fit(ledger, run):
    more = {"budget": budget, "ledger": ledger, "checkpoint_dir": run, "random_state": 0}
    sizes = {"epochs": 1, "expected_batch_size": 200}
    if kind == "classifier":
        return DPSGDClassifier("linear", classes=(0, 1), **sizes, **more).fit(X, y).module_
    if kind == "regressor":
        found = DPSGDRegressor(target_range=(-50, 50), measure=True, **sizes, **more)
        return found.fit(X, 3 * X[:, 0], schema=(-1, 1)).module_
    clf = PATEClassifier(voters="dpsgd", classes=(0, 1), **more).fit(X, y, schema=(-1, 1))
    return {"model": torch.from_numpy(clf.predict_proba(X))}

def die():
    os.kill(os.getpid(), signal.SIGKILL)

OWNERS = {"fsync": os, "replace": os, "record": Book, "open_total": Book}

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

def bits(module):
    state = module if isinstance(module, dict) else module.state_dict()
    return {k: v.numpy().tobytes() for k, v in state.items()}

whole = bits(fit(Ledger(folder / "whole.sqlite", total=budget), folder / "whole"))
tally = {"paid": 0, "unpaid": 0}
for name in OWNERS if kind == "classifier" else ("replace", "record"):
    for number in range(30):
        for when in ("before", "after"):
            path, run = folder / f"{name}-{number}-{when}.sqlite", folder / f"{name}-{number}-{when}"
            pid = os.fork()
            if pid == 0:
                at(name, number, when)
                fit(Ledger(path, total=budget), run)
                os._exit(0)
            _, status = os.waitpid(pid, 0)
            if not os.WIFSIGNALED(status):
                break  # so often it is not called
            ledger = Ledger(path, total=budget)  # a second charge does not fit
            paid = len(ledger.releases())
            tally["paid" if paid else "unpaid"] += 1
            assert bits(fit(ledger, run)) == whole, (name, number, when)
            assert len(ledger.releases()) == 1 and ledger.verify().ok, (name, number, when)
            assert not list(run.iterdir()), (name, number, when)
        else:
            continue
        break
print(json.dumps(tally))
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["classifier", "regressor", "voters"])
def test_killed_at_every_write_a_run_is_charged_once_and_ends_with_its_model(tmp_path, kind):
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path), kind], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout)
    assert tally["paid"] >= 3
    assert tally["unpaid"] >= 3
