"""Offsets in sessions, and Interactive-GNMax: rounds that a public student of earlier answers directs, at one price."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from pate import (
    Budget,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    PATEClassifier,
    TeacherEnsemble,
    Votes,
    open_session,
    quote,
    release_labels,
)
from pate.audit import audit_statement, replay
from pate.release import label_interactively
from pate.votes import ABSTAIN, hash_queries

BUDGET = Budget(4.0, 1e-5)
MECHANISM = ConfidentGNMax(60.0, 20.0, 15.0)
K = 100


def votes_of(n, *, n_classes=3, hashed=True, start=0):
    """Nearly unanimous votes: row i is of class i mod n_classes."""
    rows = np.arange(start, start + n)
    counts = np.where(rows[:, None] % n_classes == np.arange(n_classes), K - 2 * (n_classes - 1), 2)
    keys = hash_queries(rows.reshape(-1, 1)) if hashed else None
    return Votes.from_counts(counts, n_units=1000, query_hashes=keys)


def session(mechanism=MECHANISM, n_queries=20, **options):
    defaults = {"n_teachers": K, "classes": 3, "budget": BUDGET, "n_units": 1000, "noise_seed": 1}
    return open_session(mechanism, n_queries=n_queries, **(defaults | options))


def knows_class_0(labels):
    """A student that is sure of class 0 everywhere."""
    return np.tile([0.98, 0.01, 0.01], (len(labels), 1))


# Offsets of a round.


def test_offsets_cost_nothing_and_are_stated(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    opened = session(ledger=ledger, noise_seed=None)
    votes = votes_of(12)
    offsets = np.tile([30.0, 0.0, -30.0], (12, 1))
    first, second = votes.take(range(6)), votes.take(range(6, 12))
    one, two = opened.ask(first, offsets=offsets[:6]), opened.ask(second)
    assert one.quote.charge == two.quote.charge == quote(20, MECHANISM, budget=BUDGET).charge
    assert "offsets off the counts" in one.statement.mechanism
    assert "SHA-256" in one.statement.mechanism
    assert "offsets" not in two.statement.mechanism
    assert "adaptive" in one.statement.released
    (row,) = ledger.releases()
    assert len(row.facts["offsets"]) == 64
    assert row.facts["offsets"] in one.statement.mechanism
    # Asked again, by other offsets: a refusal is an answer, and nothing is drawn twice.
    again = opened.ask(first, offsets=-offsets[:6])
    assert again.labels.tolist() == one.labels.tolist()
    assert opened.n_left == 8


def test_a_round_passes_by_its_offsets():
    votes = Votes.from_counts(np.tile([60, 30, 10], (2000, 1)), n_units=1000)
    loud = ConfidentGNMax(60.0, 20.0, 15.0)
    rates = []
    for c in ([20.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-20.0, 0.0, 0.0]):
        opened = session(loud, n_queries=2000, budget=Budget(1000.0, 1e-5))
        rates.append(opened.ask(votes, offsets=c).n_answered / 2000)
    # Phi(-1), Phi(0), Phi(1).
    assert np.abs(np.array(rates) - [0.1587, 0.5, 0.8413]).max() < 0.04


@pytest.mark.parametrize(
    ("mechanism", "offsets", "said"),
    [
        (GNMax(20.0), np.zeros((3, 3)), "offsets must be None"),
        (ConfidentGNMax(60.0, 20.0, 15.0, offsets=(1, 2, 3)), np.zeros((3, 3)), "offsets must be None"),
        (MECHANISM, np.zeros((2, 3)), "shape"),
        (MECHANISM, np.zeros((3, 2)), "shape"),
        (MECHANISM, np.full((3, 3), np.nan), "finite"),
    ],
)
def test_bad_offsets_are_refused_and_nothing_is_used(mechanism, offsets, said):
    opened = session(mechanism)
    with pytest.raises(InvalidInputError, match=said):
        opened.ask(votes_of(3), offsets=offsets)
    assert opened.n_left == 20


# Offsets by class.


def test_offsets_of_other_classes_are_refused_before_anything_is_charged(tmp_path):
    ledger, wrong = Ledger(tmp_path / "ledger.sqlite"), ConfidentGNMax(60.0, 20.0, 15.0, offsets=(1.0, 2.0))
    with pytest.raises(InvalidInputError, match="each of the 3 classes"):
        release_labels(votes_of(4), wrong, budget=BUDGET, ledger=ledger)
    with pytest.raises(InvalidInputError, match="each of the 3 classes"):
        session(wrong, ledger=ledger)
    clf = PATEClassifier(n_teachers=5, mechanism=wrong, budget=BUDGET, classes=range(3), ledger=ledger)
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    with pytest.raises(InvalidInputError, match="each of the 3 classes"):
        clf.fit(X, y, X_public=X[:20] + 1)
    assert not ledger.releases()


def test_other_offsets_are_another_request_of_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(20.0, 1e-5))
    fair, other = (ConfidentGNMax(60.0, 20.0, 15.0, offsets=c) for c in ((9.0, 0.0, -9.0), (9.5, 0.0, -9.0)))
    some = {"budget": Budget(2.0, 1e-5), "ledger": ledger, "max_answers": 4}
    first = release_labels(votes_of(6), fair, **some)
    assert str(fair) in first.statement.mechanism
    assert release_labels(votes_of(6), fair, **some).labels.tolist() == first.labels.tolist()
    assert len(ledger.releases()) == 1
    release_labels(votes_of(6, start=6), other, **some)
    assert [str(m) in row.mechanism for row, m in zip(ledger.releases(), (fair, other), strict=True)] == [True, True]
    named = {"ledger": ledger, "name": "May", "budget": Budget(2.0, 1e-5), "noise_seed": None}
    session(fair, 5, **named).close()
    session(fair, 5, **named).close()
    assert len(ledger.releases()) == 3  # taken up again
    session(other, 5, **named).close()
    assert len(ledger.releases()) == 4  # another one


def test_a_statement_with_offsets_can_be_audited():
    fair = ConfidentGNMax(60.0, 20.0, 15.0, offsets=(9.0, 0.0, -9.0))
    statement = release_labels(votes_of(6), fair, budget=BUDGET).statement
    scope: dict = {}
    exec(statement.verify.partition(";")[0], scope)
    assert eval(statement.verify.partition(";")[2], scope).epsilon == statement.guarantee.epsilon
    found = audit_statement(statement, max_releases=500, n_runs=40)
    assert [r.layer for r in found.results] == ["law", "law", "pair", "game"]
    assert not any(r.refuted for r in found.results)


# Interactive-GNMax.


def test_rounds_answer_where_teachers_contradict_the_student():
    opened = session(n_queries=60, budget=Budget(30.0, 1e-5))
    found = label_interactively(opened, votes_of(60), knows_class_0, n_rounds=3, later_threshold=50.0)
    truth = np.arange(60) % 3
    first, later = np.arange(60) < 20, np.arange(60) >= 20
    assert (found.status[first] == "answered").mean() > 0.8
    assert set(found.status[later & (truth == 0)]) <= {"reinforced", "answered"}
    assert (found.status[later & (truth == 0)] == "reinforced").mean() > 0.7
    assert (found.status[later & (truth != 0)] == "answered").mean() > 0.8
    assert found.n_answered == (found.status == "answered").sum()
    assert (found.labels[found.reinforced] == 0).all()
    assert (found.labels[found.status == "refused"] == ABSTAIN).all()
    assert f"{found.reinforced.sum()} refused rows carry a public student's own label" in found.statement.released


def test_reinforced_labels_are_neither_charged_nor_stored(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    budget = Budget(30.0, 1e-5)
    opened = session(n_queries=60, budget=budget, ledger=ledger, noise_seed=None, max_answers=25)
    votes = votes_of(60)
    found = label_interactively(opened, votes, knows_class_0, n_rounds=3, later_threshold=50.0)
    (row,) = ledger.releases()
    assert row.charge == MECHANISM.charge(60, 25)
    assert found.n_answered <= 25
    stored = ledger.stored(list(votes.query_hashes), MECHANISM.family)
    kept = [stored[key].label if key in stored else None for key in votes.query_hashes]
    for label, status, stored_label in zip(found.labels, found.status, kept, strict=True):
        assert stored_label == {"answered": label, "not asked": None}.get(status, ABSTAIN)
    assert found.reinforced.any()


def test_a_student_sees_labels_alone_and_rounds_end_with_the_money():
    seen = []

    def learn(labels):
        seen.append(labels.copy())
        labels[:] = 99  # its own copy
        return np.full((len(labels), 3), 1 / 3)

    opened = session(n_queries=40, budget=Budget(30.0, 1e-5), max_answers=12)
    found = label_interactively(opened, votes_of(40), learn, n_rounds=8, later_threshold=20.0)
    assert found.n_answered == 12
    assert opened.n_left == 0
    assert (found.status[30:] == "not asked").all()
    assert not found.reinforced.any()  # it is never sure
    for n, labels in enumerate(seen, start=1):
        assert np.array_equal(labels[: 5 * n], found.labels[: 5 * n])
        assert (labels[5 * n :] == ABSTAIN).all()


def test_stored_answers_of_another_release_are_in_the_statement(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(60.0, 1e-5))
    votes = votes_of(40)
    dear = session(ConfidentGNMax(60.0, 5.0, 2.0), 20, budget=Budget(50.0, 1e-5), ledger=ledger, noise_seed=None)
    before = dear.ask(votes.take(range(20)))
    opened = session(n_queries=20, budget=Budget(9.0, 1e-5), ledger=ledger, noise_seed=None)
    found = label_interactively(opened, votes, knows_class_0, n_rounds=2, later_threshold=50.0)
    assert found.labels[:20].tolist() == before.labels.tolist()
    assert found.statement.ledger_releases == (before.statement.ledger_releases[0], opened.release)
    assert found.guarantee == found.statement.guarantee == opened.ask(votes).guarantee
    assert found.guarantee.epsilon == 60.0 > opened.quote.guarantee.epsilon
    # Where no other release gave an answer, it is the session's own.
    fresh = session(n_queries=20, budget=Budget(9.0, 1e-5), ledger=ledger, noise_seed=None)
    alone = label_interactively(fresh, votes_of(20, start=40), knows_class_0, n_rounds=2, later_threshold=50.0)
    assert alone.guarantee == fresh.quote.guarantee


def test_a_used_up_session_taken_up_again_answers_all_rounds(tmp_path):
    named = {"ledger": Ledger(tmp_path / "ledger.sqlite"), "name": "May", "noise_seed": None}
    named["budget"] = Budget(30.0, 1e-5)
    votes, found = votes_of(30), []
    for _ in range(2):
        opened = session(n_queries=30, **named)
        found.append(label_interactively(opened, votes, knows_class_0, n_rounds=3, later_threshold=50.0))
        assert opened.n_left == 0
        opened.close()
    first, again = found
    assert again.labels.tolist() == first.labels.tolist()
    assert again.status.tolist() == first.status.tolist()
    assert len(named["ledger"].releases()) == 1


def test_one_round_is_confident_gnmax():
    votes = votes_of(20)
    plain = session().ask(votes)
    found = label_interactively(session(), votes, knows_class_0, n_rounds=1)
    assert np.array_equal(found.labels, plain.labels)
    assert np.array_equal(found.status, plain.status)
    assert found.statement.mechanism == plain.statement.mechanism


@pytest.mark.parametrize(
    "wrong",
    [lambda n: np.zeros((n, 3)), lambda n: np.full((n, 2), 0.5), lambda n: np.full((n, 3), np.nan), lambda n: "no"],
)
def test_what_is_no_probability_is_refused(wrong):
    opened = session()
    with pytest.raises(InvalidInputError, match="learn must return probabilities"):
        label_interactively(opened, votes_of(20), lambda labels: wrong(len(labels)), n_rounds=2)
    assert opened.n_left == 10  # the first round was asked


def test_sessions_of_other_mechanisms_are_refused():
    for mechanism in (GNMax(20.0), ConfidentGNMax(60.0, 20.0, 15.0, offsets=(1, 2, 3))):
        with pytest.raises(InvalidInputError, match="session must be"):
            label_interactively(session(mechanism), votes_of(4), knows_class_0)
    with pytest.raises(InvalidInputError, match="n_rounds"):
        label_interactively(session(), votes_of(4), knows_class_0, n_rounds=0)


@pytest.mark.parametrize("later", [1e300, -(2.0**30), np.nan])
def test_a_later_threshold_that_no_offset_reaches_is_refused_before_the_first_round(later):
    opened = session()
    with pytest.raises(InvalidInputError, match="later_threshold"):
        label_interactively(opened, votes_of(20), knows_class_0, later_threshold=later)
    assert opened.n_left == 20


def test_a_replay_finds_offsets_of_a_round_that_follow_from_votes():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = np.eye(3)[y] + 0.3 * rng.normal(size=(120, 3))
    other = y.copy()
    other[0] = (y[0] + 1) % 3
    rows = np.concatenate([X[:1], rng.normal(size=(9, 3))])  # of which a teacher's nearest record is the changed one

    def pipeline(X, y, *, private):
        teachers = TeacherEnsemble(KNeighborsClassifier(1), 6, classes=range(3), partition_seed=0, random_state=0)
        asked = teachers.fit(X, y).vote(rows)
        facts = {name: getattr(asked, name) for name in ("n_teachers", "classes", "unit", "n_units")}
        opened = open_session(ConfidentGNMax(4.0, 2.0, 2.0), n_queries=10, budget=Budget(500.0, 1e-5), **facts)
        return opened.ask(asked, offsets=asked.counts / 2 if private else np.ones(asked.counts.shape))

    for private in (False, True):
        found = replay(partial(pipeline, private=private), (X, y), (X, other), published=True)
        assert found.refuted == private, found.finding
