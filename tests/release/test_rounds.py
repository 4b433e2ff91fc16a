"""Rounds of one budget are calibrated once per question; what a ledger has left is part of the question."""

import numpy as np
import pytest

from pate import Budget, Ledger, RecordVoters, open_ballot_session
from pate.mechanisms import GaussianSum
from pate.privacy.compose.calibrate import calibrate
from pate.records import SignedSpace
from pate.release import share_rounds
from pate.release._quote import _calibrated, _Rounds, sum_of_rounds

BUDGET = Budget(1.0, 1e-5)


@pytest.mark.parametrize("total", [None, 1.0, 4.0])
def test_what_is_kept_is_what_would_be_found_again(tmp_path, total):
    left = None
    if total is not None:
        left = Ledger(tmp_path / "ledger.sqlite", total=Budget(total, 1e-5)).remaining(default_total=BUDGET)
    found = share_rounds(BUDGET, [3.0, 1.0, 1.0], left)
    assert share_rounds(BUDGET, [3, 1, 1], left) is found
    assert calibrate(_Rounds((0.6, 0.2, 0.2)), BUDGET, n_queries=1, left=left).mechanisms == found
    assert BUDGET.allows(sum_of_rounds(found))


def test_what_was_spent_meanwhile_makes_it_another_question(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(1.2, 1e-5))

    def rounds() -> tuple[GaussianSum, ...]:
        return share_rounds(BUDGET, [1, 1], ledger.remaining(default_total=BUDGET))

    before = rounds()
    open_ballot_session(BUDGET, shares=[1, 1], classes=2, n_units=1000, ledger=ledger)
    after = rounds()
    assert after[0].noise_multiplier > before[0].noise_multiplier
    assert ledger.remaining().allows(sum_of_rounds(after))
    assert not ledger.remaining().allows(sum_of_rounds(before))


def test_another_delta_or_share_is_another_question():
    digests = {
        share_rounds(Budget(1.0, delta), shares) for delta in (1e-5, 1e-6) for shares in ([1, 1], [1, 2], [1, 1, 1])
    }
    assert len(digests) == 6
    assert _calibrated.cache_info().currsize <= 64


def test_a_session_that_is_used_up_takes_its_lock_away_and_one_with_rounds_left_does_not(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=BUDGET)
    voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=2)
    rows, labels = np.repeat(np.eye(3), 10, axis=0), [0, 1, 1] * 10
    asked = {"shares": [1, 1], "classes": 2, "n_units": 30, "ledger": ledger, "name": "mine"}
    with open_ballot_session(BUDGET, **asked) as session:
        session.ask(voters.cast(rows, labels))
    assert list(tmp_path.glob("*.lock"))
    with open_ballot_session(BUDGET, **asked) as session:
        session.ask(voters.cast(rows, labels))
        assert session.n_left == 1  # the same ballots: given again
    assert list(tmp_path.glob("*.lock"))
    other = RecordVoters(None, SignedSpace().fit(np.eye(3)[:, ::-1]), classes=2)
    with open_ballot_session(BUDGET, **asked) as session:
        session.ask(other.cast(rows, labels))
    assert not list(tmp_path.glob("*.lock"))
