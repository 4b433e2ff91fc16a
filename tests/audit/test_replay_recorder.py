"""A replay recorder makes a run repeatable, marks what it makes, and stays in its thread and process."""

import asyncio
import contextvars
import copy
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from pate import (
    Budget,
    Charge,
    GaussianSum,
    GNMax,
    Ledger,
    PATEClassifier,
    RecordVoters,
    TeacherEnsemble,
    Votes,
    open_session,
    partition,
    release_labels,
)
from pate._core import secret
from pate._core.recorder import Outcome, ReplayRecorder, note, play, playing, resolve
from pate._core.secret import fresh_secret, stored_secret, system_bytes, unreplayed_bytes
from pate.audit import replay
from pate.exceptions import InvalidInputError, ReplayError
from pate.privacy.noise import real_argmax
from pate.privacy.noise.source import NoiseSource
from pate.records import SignedSpace
from pate.release import ReleaseTerms, release_ballots
from pate.release._transaction import Transaction

KEY = b"k" * 32
BUDGET = Budget(1e4, 1e-5)
VOTES = Votes.from_counts([[60, 40], [55, 45], [90, 10]] * 4)


def in_replay(work, **options):
    with play(ReplayRecorder(KEY, **options)):
        return work()


def labels(votes=VOTES, **options):
    return release_labels(votes, GNMax(20.0), budget=BUDGET, **options)


# Bits


def test_bits_are_the_same_on_the_same_recorder_and_others_on_another():
    draws = [in_replay(lambda: (system_bytes(32), fresh_secret(), NoiseSource().words(5).tolist())) for _ in range(2)]
    assert draws[0] == draws[1]
    with play(ReplayRecorder(b"other" * 8)):
        assert (system_bytes(32), fresh_secret(), NoiseSource().words(5).tolist()) != draws[0]
    assert system_bytes(32) != draws[0][0]


def test_two_sources_of_one_run_are_independent():
    a, b = in_replay(lambda: (NoiseSource().words(4).tolist(), NoiseSource().words(4).tolist()))
    assert set(a).isdisjoint(b)


def test_releases_repeat_on_a_recorder_and_not_without():
    a, b = (in_replay(lambda: labels(Votes.from_counts([[50, 50]] * 200)).labels) for _ in range(2))
    assert a.tolist() == b.tolist()
    assert labels(Votes.from_counts([[50, 50]] * 200)).labels.tolist() != a.tolist()


def test_the_second_run_lets_out_what_the_first_did():
    first = ReplayRecorder(KEY)
    with play(first):
        a = labels(Votes.from_counts([[100, 0]] * 5)).labels
    second = ReplayRecorder(KEY, follows=tuple(first.outcomes))
    with play(second):
        b = labels(Votes.from_counts([[0, 100]] * 5)).labels
    assert a.tolist() == b.tolist() == [0] * 5


def test_what_is_followed_ends_where_something_else_is_asked():
    with play(ReplayRecorder(KEY, follows=(Outcome("mean", 1.0), Outcome("mean", 2.0)))):
        assert resolve("mean", 5.0) == 1.0
        assert resolve("median", 5.0) == 5.0
        assert resolve("mean", 6.0) == 6.0  # another course


# What is said


def test_a_release_made_on_a_recorder_is_not_private_and_says_so():
    release = in_replay(labels)
    assert release.guarantee.kind == "seeded"
    assert release.statement.seeded
    assert "not private" in release.statement.headline
    honest = labels()
    assert honest.guarantee.kind == "public"
    assert not honest.statement.seeded


@pytest.mark.parametrize("when", ["source", "child", "keyed", "copied"])
def test_a_source_made_on_a_recorder_stays_known(when):
    made = {
        "source": NoiseSource,
        "child": lambda: NoiseSource().child(3),
        "keyed": lambda: NoiseSource(key=fresh_secret()),
        "copied": lambda: copy.deepcopy(NoiseSource()),
    }[when]
    source = in_replay(made)
    assert source.seeded
    assert source.child(1).seeded
    assert source.words(2).tolist() == in_replay(made).words(2).tolist()


def test_a_source_made_before_a_recorder_stays_secret():
    source = NoiseSource()
    a, b = (in_replay(lambda: source.words(4).tolist()) for _ in range(2))
    assert not source.seeded
    assert set(a).isdisjoint(b)


def test_terms_from_before_a_recorder_do_not_hide_it():
    from pate.ledger import Registration

    terms = ReleaseTerms(budget=BUDGET)
    transaction = in_replay(lambda: Transaction(terms, Registration("record", (0, 1))))
    assert transaction.terms.seeded
    assert not terms.seeded
    assert in_replay(lambda: terms.seeded)
    assert in_replay(lambda: ReleaseTerms(budget=BUDGET)).seeded


def test_a_session_opened_on_a_recorder_is_known_when_it_is_asked_later():
    session = in_replay(lambda: open_session(GNMax(20.0), n_queries=3, budget=BUDGET, n_teachers=100, classes=(0, 1)))
    release = session.ask(Votes.from_counts([[60, 40]]))
    assert release.statement.seeded


def test_an_estimator_and_ballots_say_so_too():
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = (X[:, 0] > 0).astype(int)
    clf = PATEClassifier(
        GaussianNB(), n_teachers=5, budget=Budget(8.0, 1e-3), classes=(0, 1), mechanism=GNMax(3.0), queries=5
    )
    fitted = in_replay(lambda: clf.fit(X[:60], y[:60], X_public=X[60:]))
    assert fitted.statement_.seeded
    assert fitted.statement_.guarantee.kind == "seeded"
    voters = RecordVoters(None, SignedSpace().fit(X), classes=(0, 1))
    ballots = voters.cast(X, y)
    release = in_replay(lambda: release_ballots(ballots, GaussianSum(3.0), budget=BUDGET))
    assert release.statement.seeded
    assert not release_ballots(ballots, GaussianSum(3.0), budget=BUDGET).statement.seeded


def test_known_shards_are_noted():
    X = np.random.default_rng(0).normal(size=(40, 2))
    teachers = TeacherEnsemble(GaussianNB(), 4, classes=(0, 1), random_state=0)
    votes = in_replay(lambda: teachers.fit(X, np.arange(40) % 2).vote(X[:3]))
    assert votes.partition_seeded


# Ledgers, secrets, checkpoints


def test_a_ledger_that_was_there_before_is_not_written_to(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=BUDGET)
    labels(ledger=ledger)
    before = (tmp_path / "ledger.sqlite").read_bytes()
    other = Votes.from_counts([[60, 40]])
    for work in (
        lambda: release_labels(other, GNMax(30.0), budget=BUDGET, ledger=ledger),
        lambda: ledger.record(Charge.gaussian(sensitivity=1.0, sigma=99.0), mechanism="m", n_queries=1),
        lambda: ledger.add_answers(1, []),
        lambda: ledger.revise("more records"),
    ):
        with pytest.raises(ReplayError, match="no ledger that was there before"):
            in_replay(work)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def test_a_ledger_made_on_a_recorder_marks_every_row_for_good(tmp_path):
    def work():
        ledger = Ledger(tmp_path / "own.sqlite", total=BUDGET)
        votes = Votes.from_counts([[60, 40]] * 3)
        release = release_labels(votes, GNMax(20.0), budget=BUDGET, ledger=ledger)
        ledger.record(Charge.gaussian(sensitivity=1.0, sigma=99.0), mechanism="m", n_queries=0, seeded=False)
        return release

    in_replay(work)
    later = Ledger(tmp_path / "own.sqlite")
    assert [row.seeded for row in later.releases()] == [True, True]
    assert later.verify().ok
    with pytest.raises(ReplayError, match="no ledger that was there before"):
        in_replay(lambda: labels(ledger=later))


def test_answers_stored_on_a_recorder_are_never_handed_out_as_private(tmp_path):
    hashes = tuple(f"{i:064x}" for i in range(3))
    votes = Votes.from_counts([[60, 40]] * 3, query_hashes=hashes)
    in_replay(
        lambda: release_labels(votes, GNMax(20.0), budget=BUDGET, ledger=Ledger(tmp_path / "own.sqlite", total=BUDGET))
    )
    again = release_labels(votes, GNMax(20.0), budget=BUDGET, ledger=Ledger(tmp_path / "own.sqlite"))
    assert again.statement.seeded
    assert again.guarantee.kind == "seeded"


def test_the_key_of_a_ledger_is_never_of_the_recorder(tmp_path):
    for name in "ab":
        in_replay(
            lambda: labels(ledger=Ledger(tmp_path / name / "l.sqlite", total=BUDGET))  # noqa: B023
        )
    keys = [(tmp_path / name / "l.sqlite.key").read_text() for name in "ab"]
    assert keys[0] != keys[1]


def test_no_secret_is_made_to_be_kept(tmp_path):
    with pytest.raises(ReplayError, match="makes no secret"):
        in_replay(lambda: stored_secret(tmp_path / "shards.key"))
    assert list(tmp_path.iterdir()) == []
    kept = stored_secret(tmp_path / "shards.key")
    assert in_replay(lambda: stored_secret(tmp_path / "shards.key")) == kept


def test_no_partition_is_kept(tmp_path):
    made = in_replay(lambda: partition(20, 3))
    with pytest.raises(ReplayError, match="makes no partition"):
        in_replay(lambda: made.save(tmp_path / "shards.npz"))
    assert list(tmp_path.iterdir()) == []


def test_bits_of_a_replay_are_unknown_unless_a_seed_is_given():
    def cut(seed):
        found = []

        def pipeline(X, y):
            found.append(partition(len(X), 5).assignment.tolist())
            return labels()

        X, y = np.zeros((40, 1)), np.arange(40) % 2
        replay(pipeline, (X, y), (X, np.where(np.arange(40) == 3, 1 - y, y)), random_state=seed)
        assert found[0] == found[1] == found[2]
        return found[0]

    assert cut(None) != cut(None)
    assert cut(3) == cut(3)


@pytest.mark.long
def test_an_ensemble_keeps_neither_teachers_nor_secret(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.arange(40) % 2
    teachers = TeacherEnsemble(GaussianNB(), 4, classes=(0, 1), checkpoint_dir=tmp_path / "kept")
    teachers.keep_secret_in(tmp_path / "shards.key")
    in_replay(lambda: teachers.fit(X, y))
    assert list(tmp_path.iterdir()) == []


def test_one_cut_for_neighbours_whatever_their_labels():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    teachers = TeacherEnsemble(GaussianNB(), 4, classes=(0, 1), random_state=0)
    a = in_replay(lambda: teachers.fit(X, y).partition_.assignment)
    b = in_replay(lambda: teachers.fit(X, 1 - y).partition_.assignment)
    assert a.tolist() == b.tolist()
    assert teachers.fit(X, y).partition_.assignment.tolist() != a.tolist()


# Where it is played


def test_nothing_turns_it_on_but_play(monkeypatch):
    for name in ("PATE_TAPE", "PATE_REPLAY", "PATE_NOISE_SEED"):
        monkeypatch.setenv(name, "1")
    assert playing() is None
    ReplayRecorder(KEY)
    assert playing() is None
    assert not labels().statement.seeded


def test_it_ends_with_its_block_also_by_an_error():
    with pytest.raises(KeyError), play(ReplayRecorder(KEY)):
        raise KeyError
    assert playing() is None
    assert unreplayed_bytes(8) != unreplayed_bytes(8)


def test_a_recorder_is_played_once_and_not_inside_another():
    recorder = ReplayRecorder(KEY)
    with play(recorder):
        with pytest.raises(ReplayError, match="inside another"), play(ReplayRecorder(KEY)):
            pass
        assert playing() is recorder
    with pytest.raises(ReplayError, match="played already"), play(recorder):
        pass


def test_a_replay_is_not_started_inside_a_replay():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(ReplayError, match="inside another"):
        in_replay(lambda: replay(lambda X, y: labels(), (X, y), (X, np.where(np.arange(20) == 3, 1 - y, y))))


def test_other_threads_see_no_recorder_even_with_a_copied_context():
    seen = []
    with play(ReplayRecorder(KEY)):
        context = contextvars.copy_context()
        for work in (lambda: seen.append(playing()), lambda: context.run(lambda: seen.append(playing()))):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        asyncio.run(asyncio.to_thread(lambda: seen.append((playing(), NoiseSource().seeded))))
    assert seen == [None, None, (None, False)]


def test_a_copied_context_does_not_outlive_it():
    with play(ReplayRecorder(KEY)):
        context = contextvars.copy_context()
        assert context.run(playing) is not None
    assert context.run(playing) is None
    assert not context.run(NoiseSource).seeded


def _in_child(queue):
    queue.put((playing() is None, NoiseSource().seeded, system_bytes(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_sees_no_recorder():
    context = multiprocessing.get_context("fork")
    found = []
    for _ in range(2):
        queue = context.Queue()
        with play(ReplayRecorder(KEY)):
            process = context.Process(target=_in_child, args=(queue,))
            process.start()
            found.append(queue.get(timeout=60))
            process.join()
    assert [f[:2] for f in found] == [(True, False)] * 2
    assert found[0][2] != found[1][2]


def test_a_recorder_is_not_pickled():
    with pytest.raises(ReplayError, match="stays in the process"):
        pickle.dumps(ReplayRecorder(KEY))


def test_a_replay_gives_the_global_generators_back():
    np.random.seed(3)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    teachers = TeacherEnsemble(GaussianNB(), 2, classes=(0, 1))
    replay(teachers, (X, y), (X * np.where(np.arange(20) == 3, 30, 1)[:, None], y), X_public=X[:2])
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


# Samplers


def test_samplers_are_as_they_were_without_a_recorder():
    counts = np.array([[50, 50]] * 50)
    a = real_argmax(counts, scale=5.0, source=NoiseSource(3))
    assert a.tolist() == real_argmax(counts, scale=5.0, source=NoiseSource(3)).tolist()
    assert a.tolist() == in_replay(lambda: real_argmax(counts, scale=5.0, source=NoiseSource(3))).tolist()


def test_notes_reach_the_watcher_of_this_recorder_alone():
    seen = []
    note("votes", n=1)
    with play(ReplayRecorder(KEY, watch=lambda stage, facts: seen.append((stage, facts)))):
        note("votes", n=2)
        real_argmax(np.array([[5, 5]]), scale=2.0, source=NoiseSource())
    assert seen == [
        ("votes", {"n": 2}),
        ("noise", {"sampler": "real_argmax", "shape": (1, 2), "scale": 2.0}),
    ]


def test_random_bits_come_from_the_operating_system_in_one_place(monkeypatch):
    asked = []

    def counted(size):
        asked.append(size)
        return os.urandom(size)

    monkeypatch.setattr(secret, "_operating_system", counted)
    NoiseSource().words(2)
    system_bytes(3)
    assert asked == [16, 3]
    in_replay(lambda: (NoiseSource().words(2), system_bytes(3)))
    assert asked == [16, 3]


def test_bad_data_is_refused_in_words():
    with pytest.raises(InvalidInputError, match="D must be"):
        replay(lambda X, y: None, 3, 4)
