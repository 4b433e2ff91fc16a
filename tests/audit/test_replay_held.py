"""Regressions of faults that a review of the replay found."""

import fractions
import glob
import signal
import tempfile
import types
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from pate import Budget, GNMax, Ledger, PATEClassifier, TeacherEnsemble, Votes, open_session, open_vote_cap
from pate._core.recorder import Outcome, ReplayRecorder, play, playing, run_recorded
from pate.audit import neighbours, replay
from pate.exceptions import ReplayError
from pate.mechanisms import VoteCap
from pate.privacy.noise import real_argmax
from pate.privacy.noise.source import NoiseSource

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(60, 3)), np.arange(60) % 2
P = RNG.normal(size=(8, 3))
BUDGET = Budget(1e4, 1e-5)
VOTES = Votes.from_counts([[90, 10]] * 4, query_hashes=tuple("abcd"))
PAIR = neighbours(X, y, kinds=["scale"])[0]


def vote(X, y):
    return TeacherEnsemble(GaussianNB(), 6, classes=(0, 1), random_state=0).fit(X, y).vote(P)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_no_interrupt_leaves_a_recorder_on():
    """Ctrl-C may come between any two instructions; the exception, and so every frame, is held as a notebook does."""

    def stop(*_):
        raise KeyboardInterrupt

    def work():
        for _ in range(20):
            run_recorded(ReplayRecorder(bytes(32)), lambda: None)

    before, n = signal.signal(signal.SIGALRM, stop), 0
    rng = np.random.default_rng(0)
    held = None
    try:
        for after in rng.uniform(5e-6, 3e-4, 1500):
            try:
                signal.setitimer(signal.ITIMER_REAL, after)
                while True:
                    work()
            except KeyboardInterrupt as error:
                held = error
                n += 1
            assert playing() is None, held
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert n == 1500


def test_an_interrupted_replay_leaves_the_system_s_noise():
    def pipeline(X, y):
        assert playing() is not None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(pipeline, PAIR)
    assert playing() is None
    assert not NoiseSource().seeded


def test_samplers_take_their_values_by_name_on_a_recorder_or_not():
    def named():
        return real_argmax(counts=[[9, 1]], scale=0.001, source=NoiseSource(1)).tolist()

    seen = []
    assert named() == run_recorded(ReplayRecorder(bytes(32), watch=lambda *note: seen.append(note)), named) == [0]
    assert seen == [("noise", {"sampler": "real_argmax", "shape": (1, 2), "scale": 0.001})]


def own(kind):
    """A third party's mechanism whose sample has another signature."""
    if kind == "named":

        @dataclass(frozen=True)
        class Own(GNMax):
            def sample(self, votes, noise, max_answers=None):
                return votes

    elif kind == "by keyword alone":

        @dataclass(frozen=True)
        class Own(GNMax):
            def sample(self, *, votes, noise, **options):
                return votes

    elif kind == "static":

        @dataclass(frozen=True)
        class Own(GNMax):
            @staticmethod
            def sample(votes, noise, max_answers=None):
                return votes

    else:

        @dataclass(frozen=True)
        class Own(GNMax):
            @classmethod
            def sample(cls, votes, noise, max_answers=None):
                return votes

    return Own(2.0)


@pytest.mark.parametrize("kind", ["named", "by keyword alone", "static", "of the class"])
def test_mechanisms_of_others_sample_as_they_say(kind):
    seen = []

    def work():
        return own(kind).sample(votes=3, noise=None, max_answers=5)

    assert work() == 3
    assert run_recorded(ReplayRecorder(bytes(32), watch=lambda *note: seen.append(note)), work) == 3
    if kind in ("named", "by keyword alone"):
        [(stage, facts)] = seen
        assert (stage, facts["values"], facts["options"]["max_answers"]) == ("draw", 3, 5)


def test_a_session_from_before_is_not_asked_in_a_replay(tmp_path):
    """Else labels released in a replay would later be given out, by their hashes, as private."""
    options = {"n_queries": 9, "n_teachers": 100, "classes": (0, 1), "budget": BUDGET}
    for ledger in (None, Ledger(tmp_path / "ledger.sqlite", total=BUDGET)):
        session = open_session(GNMax(2.0), ledger=ledger, **options)
        forced = ReplayRecorder(bytes(32), follows=(Outcome("real_argmax", np.ones(4, dtype=np.int64)),))
        with pytest.raises(ReplayError, match="opened before"):
            run_recorded(forced, lambda session=session: session.ask(VOTES))
        assert session.n_left == 9
        assert session.ask(VOTES).labels.tolist() == [0] * 4
    run = open_vote_cap(VoteCap(max_votes=5, sigma=0.1), n_teachers=9, classes=2, budget=BUDGET)
    with pytest.raises(ReplayError, match="opened before"), play(ReplayRecorder(bytes(32))):
        run.ask([[0]] * 9)
    assert run.ask([[0]] * 9).labels.tolist() == [0]


RETURNED = {
    "Series": lambda m: pd.Series(m),
    "DataFrame": lambda m: pd.DataFrame([m]),
    "Index": lambda m: pd.Index(m),
    "sparse": lambda m: sparse.csr_matrix(m[None]),
    "bytes": lambda m: m.tobytes(),
    "set": lambda m: {float(m[0])},
    "Fraction": lambda m: fractions.Fraction(m[0]),
    "complex": lambda m: complex(m[0]),
    "scaler": lambda m: StandardScaler().fit([m, 2 * m]),
    "result": lambda m: types.SimpleNamespace(inside=types.SimpleNamespace(mean=m)),
    "nested": lambda m: {"a": [types.SimpleNamespace(mean=pd.Series(m))]},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", RETURNED)
def test_what_is_returned_is_looked_at_whatever_its_type(kind):
    def pipeline(X, y):
        votes = vote(X, y)
        return RETURNED[kind](X.mean(axis=0)), votes

    found = replay(pipeline, PAIR, published=True)
    assert found.refuted
    assert "what it returned" in found.finding


def test_results_that_hold_private_things_or_themselves_are_no_leak():
    def pipeline(X, y):
        votes = vote(X, y)
        made = types.SimpleNamespace(votes=votes, n=3, how=vote)
        made.me = [made]
        return made

    assert not replay(pipeline, PAIR, published=True).refuted


def test_a_third_parameter_keeps_its_default():
    def pipeline(X, y, n_teachers=6):
        return TeacherEnsemble(GaussianNB(), n_teachers, classes=(0, 1), random_state=0).fit(X, y).vote(P)

    assert not replay(pipeline, PAIR, published=True).refuted


@pytest.mark.long
def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ledger = Ledger(tmp_path / "real.sqlite", total=BUDGET)
    model = PATEClassifier(
        LogisticRegression(), n_teachers=6, budget=BUDGET, classes=(0, 1), queries=5, random_state=0, ledger=ledger
    )
    assert not replay(model, PAIR, X_public=P, published=True).refuted
    assert glob.glob(str(tmp_path / "pate-replay-*")) == []
    assert not ledger.releases()
