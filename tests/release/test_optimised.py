"""Python without asserts (``-O``) releases the same, at the same charge."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
import numpy as np
import pate
from pate.records import RecordVoters, SignedSpace

ledger, budget, made = pate.Ledger(sys.argv[1]), pate.Budget(20.0, 1e-5), []
voted = np.random.default_rng(0).integers(0, 3, (60, 20))
votes = pate.Votes.from_labels(voted, classes=("a", "b", "c"), n_units=600)
release = pate.release_labels(votes, pate.ConfidentGNMax(20.0, 30.0, 20.0), budget=budget, ledger=ledger, noise_seed=1)
made.append(release.labels.tolist())
X = np.random.default_rng(1).normal(size=(300, 4))
ballots = RecordVoters(None, SignedSpace().fit(X[:50]), classes=(0, 1)).cast(X, (X[:, 0] > 0).astype(int))
for most in (budget, pate.Budget(1e6, 1e-5)):  # the latter: the least noise there is
    with pate.open_ballot_session(most, shares=[1, 3], classes=(0, 1), n_units=300, noise_seed=1) as session:
        made.append([one.noise_multiplier for one in session.mechanisms])
        made.append(session.ask(ballots).statistics.tolist())
made.append([[row.charge.mu_squared, row.price] for row in ledger.releases()] + [ledger.spent])
print(json.dumps(made), __debug__)
"""


@pytest.mark.long
def test_what_is_released_and_charged_does_not_rest_on_assert(tmp_path):
    found = []
    for flags in ([], ["-O"]):
        command = [sys.executable, "-W", "ignore", *flags, "-c", SCRIPT, str(tmp_path / f"ledger{len(found)}")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert (found[0].pop(), found[1].pop()) == ("True", "False")
    assert found[0] == found[1]
