"""Queries paid for whole and asked in rounds: never more than was paid, never an answer lost."""

from __future__ import annotations

import copy
import fcntl
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from pate import (
    Budget,
    BudgetExceededError,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    NoisyHistogram,
    Votes,
    open_session,
    release_labels,
)
from pate.exceptions import LedgerError
from pate.release import ReleaseTerms, quote, session_left
from pate.votes import ABSTAIN, hash_queries

BUDGET = Budget(4.0, 1e-5)
MECHANISMS = [GNMax(20.0), NoisyHistogram(20.0), ConfidentGNMax(40.0, 30.0, 20.0)]


def votes_of(rows, *, n_teachers=100, n_units=1000, **more):
    """Votes on rows that differ by their number: the class is the number's last bit, nearly unanimous."""
    rows = np.asarray(rows)
    counts = np.where(rows[:, None] % 2 == np.arange(2), n_teachers - 2, 2)
    return Votes.from_counts(
        counts, n_teachers=n_teachers, n_units=n_units, query_hashes=hash_queries(rows.reshape(-1, 1)), **more
    )


def session(mechanism=MECHANISMS[0], n_queries=20, **options):
    defaults = {"n_teachers": 100, "classes": 2, "budget": BUDGET, "n_units": 1000}
    return open_session(mechanism, n_queries=n_queries, **(defaults | options))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


# The price ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize("with_ledger", [False, True])
def test_the_whole_is_charged_when_it_opens(ledger, mechanism, with_ledger):
    held = ledger if with_ledger else None
    expected = quote(20, mechanism, budget=BUDGET, ledger=held)
    opened = session(mechanism, ledger=held)
    assert opened.quote == expected
    assert opened.quote.charge == mechanism.charge(20, expected.max_answers)
    if with_ledger:
        (row,) = ledger.releases()
        assert row.charge == opened.quote.charge
        assert (row.n_queries, row.facts["adaptive"]) == (20, True)
    for start in range(0, 20, 5):
        opened.ask(votes_of(range(start, start + 5)), on_exhausted="abstain")
    if with_ledger:
        price = ledger.remaining().terms.currency.price
        assert ledger.spent == pytest.approx(price(expected.charge), rel=1e-12)
        assert len(ledger.releases()) == 1


def test_rounds_cost_what_one_release_of_all_would():
    """n charges are one charge of n queries: asking in rounds is neither dearer nor cheaper."""
    opened = session(GNMax(20.0))
    releases = [opened.ask(votes_of(range(i, i + 4))) for i in range(0, 20, 4)]
    at_once = release_labels(votes_of(range(20)), GNMax(20.0), budget=BUDGET)
    for release in releases:
        assert release.guarantee == at_once.guarantee
        assert release.guarantee.adaptivity == "adaptive"
        assert "adaptive" in release.statement.accounting
        assert "adaptive" in release.statement.released


def test_more_than_was_paid_is_refused_and_nothing_asked():
    opened = session(n_queries=3)
    opened.ask(votes_of([0, 1]))
    with pytest.raises(BudgetExceededError, match="1 of its 3 queries left, and 2 new ones"):
        opened.ask(votes_of([2, 3]))
    assert opened.n_left == 1
    release = opened.ask(votes_of([2, 3, 4]), on_exhausted="abstain")
    assert release.status.tolist() == ["answered", "not asked", "not asked"]
    assert opened.n_left == 0
    assert opened.ask(votes_of([5]), on_exhausted="abstain").status.tolist() == ["not asked"]


@pytest.mark.parametrize("with_ledger", [False, True])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_a_row_asked_before_is_free_and_the_same(ledger, with_ledger, mechanism):
    opened = session(mechanism, 4, ledger=ledger if with_ledger else None)
    first = opened.ask(votes_of([7, 8, 7]))
    assert opened.n_left == 2
    again = opened.ask(votes_of([8, 7]))
    assert opened.n_left == 2
    assert again.labels.tolist() == first.labels[[1, 0]].tolist()
    assert again.status.tolist() == first.status[[1, 0]].tolist()
    if first.noisy_counts is not None:
        assert np.array_equal(again.noisy_counts, first.noisy_counts[[1, 0]])


def test_the_cap_on_answers_holds_over_all_rounds():
    mechanism = ConfidentGNMax(0.0, 40.0, 20.0)  # a count of 98 fails the test once in 140
    opened = session(mechanism, 30, max_answers=5)
    answered = sum(opened.ask(votes_of(range(i, i + 3)), on_exhausted="abstain").n_answered for i in range(0, 30, 3))
    assert answered == 5
    assert opened.n_left == 0
    assert opened.quote.charge == mechanism.charge(30, 5)


def test_too_small_a_budget_opens_nothing(ledger):
    with pytest.raises(BudgetExceededError, match="buys 0 of these 20"):
        session(GNMax(1.0), ledger=ledger)
    assert ledger.releases() == []


def test_sessions_share_the_ledgers_total(ledger):
    session(GNMax(20.0), 60, ledger=ledger)
    with pytest.raises(BudgetExceededError, match="what is left in the ledger"):
        session(GNMax(20.0), 4000, budget=Budget(50.0, 1e-5), ledger=ledger)


# The statement --------------------------------------------------------------------------------------------------


def test_labels_of_several_releases_are_stated_by_the_ledgers_total(ledger):
    """The session's own epsilon would be a lie about a label that another, dearer release paid for."""
    dear = release_labels(votes_of([1, 2]), NoisyHistogram(3.0), budget=Budget(3.9, 1e-5), ledger=ledger)
    opened = session(NoisyHistogram(1000.0), 2, ledger=ledger)
    assert opened.quote.guarantee.epsilon < dear.guarantee.epsilon / 10
    mixed = opened.ask(votes_of([1, 5]))
    assert mixed.guarantee.method == "gdp-filter"
    assert mixed.guarantee.epsilon == 3.9
    stored = opened.ask(votes_of([2]))  # nothing new at all: the session's own price is not its price
    assert stored.guarantee.epsilon == 3.9
    own = opened.ask(votes_of([5]))
    assert own.guarantee.epsilon == opened.quote.guarantee.epsilon


def test_seeded_sessions_say_that_nothing_is_private(ledger):
    release = session(noise_seed=1, ledger=ledger).ask(votes_of([1]))
    assert release.statement.headline.startswith("not private")


def test_nothing_private_shows(ledger):
    opened = session(ledger=ledger, fingerprint="ab" * 32, n_teachers=100_007, n_units=None)
    release = opened.ask(votes_of([1, 2], n_teachers=100_007, n_units=None))
    for text in (repr(opened), repr(release), release.statement.text()):
        assert "ab" * 32 not in text
        assert "100005" not in text.replace(",", "")  # the count behind both answers


# Who may ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("votes", "text"),
    [
        (votes_of([1], n_teachers=99), "n_teachers=100 like the session, got 99"),
        (votes_of([1], classes=["a", "b"]), "classes"),
        (votes_of([1], unit="group"), "unit='record'"),
        (votes_of([1], n_units=7), "n_units=1000"),
        ([[98, 2]], "must be pate.Votes"),
    ],
)
def test_votes_of_others_are_refused(votes, text):
    with pytest.raises(InvalidInputError, match=text):
        session().ask(votes)


def test_a_ledger_needs_hashes(ledger):
    with pytest.raises(InvalidInputError, match="query_hashes"):
        session(ledger=ledger, n_units=None).ask(Votes.from_counts([[98, 2]]))
    assert session(n_units=None).ask(Votes.from_counts([[98, 2]])).n_answered == 1


def test_a_session_cannot_be_copied():
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidInputError, match="cannot be copied"):
            way(session())


def _ask_in_a_child(opened, queue):
    try:
        opened.ask(votes_of([3]))
        queue.put("asked")
    except InvalidInputError as error:
        queue.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_copy_may_not_ask():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_ask_in_a_child, args=(session(), queue))
    child.start()
    said = queue.get(timeout=60)
    child.join()
    assert "another process" in said


def test_bad_parameters():
    for options, text in (
        ({"n_queries": 0}, "n_queries must be"),
        ({"n_teachers": 0}, "n_teachers must be"),
        ({"classes": 1}, "at least two"),
        ({"name": "May"}, "needs a ledger"),
        ({"budget": 3.0}, "budget must be"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            session(**options)
    with pytest.raises(InvalidInputError, match="mechanism must be"):
        session("gnmax")
    closed = session()
    closed.close()
    with pytest.raises(InvalidInputError, match="is closed"):
        closed.ask(votes_of([1]))


# Streams --------------------------------------------------------------------------------------------------------


class Teachers:
    """Votes on numbers, and a record of how many rows were ever voted on at a time."""

    classes_ = (0, 1)
    n_teachers = 100

    def __init__(self):
        self.sizes = []

    def vote(self, X, *, keep_labels=True):
        assert not keep_labels
        self.sizes.append(len(X))
        return votes_of(X)


def test_a_stream_stops_when_what_was_paid_is_asked():
    teachers, opened = Teachers(), session(n_queries=25)
    endless = (np.arange(start, start + 10) for start in range(0, 10**9, 10))
    releases = list(opened.stream(teachers, endless))
    assert [r.n_answered for r in releases] == [10, 10, 5]
    assert teachers.sizes == [10, 10, 10]


def test_the_source_of_a_stream_may_look_at_the_answers():
    """Adaptive: the next rows depend on the labels so far; the price does not."""
    opened, seen = session(NoisyHistogram(0.5), 9, budget=Budget(1e4, 1e-5)), []

    def batches():
        row = 10
        while True:
            yield np.array([row])
            row = row * 2 + seen[-1]

    for release in opened.stream(Teachers(), batches()):
        seen.append(int(release.labels[0]))
    assert len(seen) == 9


# Going on after a crash -----------------------------------------------------------------------------------------


def test_a_named_session_goes_on_with_what_is_left(ledger):
    first = session(ledger=ledger, name="May")
    with pytest.raises(LedgerError, match="held by another process"):
        session(ledger=ledger, name="May")
    labels = first.ask(votes_of(range(8))).labels
    first.close()
    terms = ReleaseTerms(budget=BUDGET, ledger=ledger)
    assert session_left(GNMax(20.0), terms, name="May", n_queries=20, n_teachers=100) == 12
    assert session_left(GNMax(20.0), terms, name="June", n_queries=20, n_teachers=100) is None
    with session(ledger=ledger, name="May") as again:
        assert len(ledger.releases()) == 1
        assert again.n_left == 12
        assert np.array_equal(again.ask(votes_of(range(8))).labels, labels)
        assert again.n_left == 12
        with pytest.raises(BudgetExceededError):
            again.ask(votes_of(range(8, 21)))
        again.ask(votes_of(range(8, 20)))
        assert again.n_left == 0
        assert list(ledger.path.parent.glob("*.lock"))
    assert not list(ledger.path.parent.glob("*.lock"))  # nothing left to hold
    with session(ledger=ledger, name="May") as over:
        assert over.n_left == 0
        assert np.array_equal(over.ask(votes_of(range(8))).labels, labels)
    # other terms are another session, which is charged
    session(ledger=ledger, name="May", n_queries=21).close()
    assert len(ledger.releases()) == 2


def test_after_a_crash_refusals_count_as_answers(ledger):
    """How many were refused is in the answers; counting all as answered is the careful side."""
    mechanism = ConfidentGNMax(60.0, 30.0, 20.0)
    first = session(mechanism, 10, max_answers=6, ledger=ledger, name="x")
    first.ask(votes_of(range(4)))
    first.close()
    again = session(mechanism, 10, max_answers=6, ledger=ledger, name="x")
    release = again.ask(votes_of(range(4, 10)), on_exhausted="abstain")
    assert release.n_answered <= 2


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from test_session import BUDGET, GNMax, Ledger, session, votes_of
opened = session(ledger=Ledger({path!r}), name="May")
print("open", flush=True)
for i in range(20):
    release = opened.ask(votes_of([i]))
    print(i, release.labels[0], flush=True)
    if i == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
@pytest.mark.parametrize("last", [0, 7])
def test_a_killed_process_leaves_labels_and_the_rest(tmp_path, last):
    path = tmp_path / "ledger.sqlite"
    code = KILLED.format(tests=os.path.dirname(__file__), path=str(path), last=last)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    seen = [tuple(map(int, line.split())) for line in done.stdout.splitlines()[1:]]
    assert len(seen) == last + 1
    ledger = Ledger(path)
    with session(ledger=ledger, name="May") as again:
        assert again.n_left == 20 - len(seen)
        stored = again.ask(votes_of([i for i, _ in seen]))
        assert stored.labels.tolist() == [label for _, label in seen]
        assert ABSTAIN not in stored.labels
    assert ledger.verify().ok
    assert len(ledger.releases()) == 1


def test_a_failed_write_returns_nothing_and_uses_up_the_queries(ledger, monkeypatch):
    opened = session(ledger=ledger, name="May")

    def fail(*_args, **_more):
        raise LedgerError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "add_answers", fail)
        with pytest.raises(LedgerError, match="disk is full"):
            opened.ask(votes_of([1, 2, 3]))
    assert opened.n_left == 17
    opened.close()
    assert session(ledger=ledger, name="May").n_left == 20  # those labels were not shown: in the file nothing was asked


# One name, one holder ------------------------------------------------------------------------------------------------


def test_a_link_to_the_ledger_is_the_same_ledger(ledger, tmp_path):
    first = session(ledger=ledger, name="May")
    (tmp_path / "link.sqlite").symlink_to(ledger.path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "other.sqlite").symlink_to(tmp_path / "link.sqlite")
    for link in ("link.sqlite", "folder/other.sqlite"):
        with pytest.raises(LedgerError, match="held by another process"):
            session(ledger=Ledger(tmp_path / link), name="May")
    first.close()


def test_without_the_lock_the_ledger_decides(ledger):
    """A deleted lock file lets a second holder in; one of them gets answers, and no more than were paid for."""
    first = session(ledger=ledger, name="May")
    for lock in ledger.path.parent.glob("*.lock"):
        lock.unlink()
    second = session(ledger=ledger, name="May")
    assert (first.n_left, second.n_left) == (20, 20)
    first.ask(votes_of(range(12)))
    with pytest.raises(LedgerError, match="another process goes on"):
        second.ask(votes_of(range(100, 105)))
    with pytest.raises(LedgerError, match="another process goes on"):
        second.ask(votes_of(range(105, 106)))
    first.ask(votes_of(range(12, 20)))
    assert ledger.show()[0]["n_answers"] == 20
    assert ledger.verify().ok


def test_a_session_goes_on_after_a_write_that_was_stored_all_the_same(ledger, monkeypatch):
    """An error after the commit: the answers are stored, were not shown, and do not count as another's."""
    opened, real = session(ledger=ledger, name="May"), Ledger.add_answers

    def late(*args):
        real(*args)
        raise LedgerError("broken off")

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "add_answers", late)
        with pytest.raises(LedgerError, match="broken off"):
            opened.ask(votes_of([1, 2, 3]))
    assert opened.ask(votes_of([1, 4])).n_answered == 2
    assert opened.n_left == 16
    assert ledger.show()[0]["n_answers"] == 4


def test_closing_waits_for_the_answers_on_their_way(ledger, monkeypatch):
    opened, real = session(ledger=ledger, name="May"), Ledger.add_answers
    drawn, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def slow(*args):
        drawn.set()
        assert go_on.wait(30)
        return real(*args)

    monkeypatch.setattr(Ledger, "add_answers", slow)
    asking = threading.Thread(target=lambda: opened.ask(votes_of(range(20))))
    asking.start()
    assert drawn.wait(30)
    closing = threading.Thread(target=lambda: (opened.close(), closed.set()))
    closing.start()
    assert not closed.wait(0.3)
    with pytest.raises(LedgerError, match="held by another process"):
        session(ledger=ledger, name="May")
    go_on.set()
    asking.join(30)
    closing.join(30)
    with session(ledger=ledger, name="May") as again:
        assert again.n_left == 0
    assert ledger.show()[0]["n_answers"] == 20


def test_a_caller_who_waited_while_it_was_closed_asks_nothing(ledger):
    opened = session(ledger=ledger, name="May")
    caught = []

    def ask():
        with pytest.raises(InvalidInputError, match="is closed") as error:
            opened.ask(votes_of([1]))
        caught.append(error)

    with opened._turn:
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.3)
        opened._closed = True
    asking.join(30)
    assert len(caught) == 1
    assert ledger.show()[0]["n_answers"] == 0


def test_a_lock_file_that_was_removed_before_it_was_locked_is_not_held(ledger, monkeypatch):
    """Opened, then unlinked by its last holder, then locked: a third one would lock another file of that name."""
    real, n = fcntl.flock, []

    def flock(file, how):
        if not n:
            next(ledger.path.parent.glob("*.lock")).unlink()
        n.append(file)
        return real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with session(ledger=ledger, name="May"):
        assert len(n) == 2
        (lock,) = ledger.path.parent.glob("*.lock")
        with pytest.raises(LedgerError, match="held by another process"):
            session(ledger=ledger, name="May")
        assert lock.exists()


# What a statement is about -------------------------------------------------------------------------------------------


def test_a_ledger_without_the_answers_does_not_fit_their_statement(ledger, tmp_path):
    opened = session(ledger=ledger, name="May")
    old = (tmp_path / "old").write_bytes(ledger.path.read_bytes()) and tmp_path / "old"
    release = opened.ask(votes_of(range(5)))
    head = release.statement.ledger_head
    assert head == ledger.head_of([opened.release])
    opened.ask(votes_of(range(5, 9)))
    again = opened.ask(votes_of(range(9)))  # nothing new: the last entry of the release
    assert again.statement.ledger_head == ledger.head_of([opened.release]) != head
    from_store = release_labels(votes_of([2]), GNMax(20.0), budget=BUDGET, ledger=ledger)
    assert from_store.statement.ledger_head == ledger.head_of([opened.release])
    assert ledger.verify(head=head).ok
    opened.close()
    ledger.path.write_bytes(old.read_bytes())
    assert ledger.verify().ok
    assert not ledger.verify(head=head).ok


def test_going_on_registers_the_records(ledger):
    """After a revision the first records are the ledger's; others cannot go on with the session as well."""
    session(ledger=ledger, name="May", fingerprint="aa").close()
    ledger.revise("records of March added")
    session(ledger=ledger, name="May", fingerprint="bb").close()
    assert ledger.registration["fingerprinted"] is True
    with pytest.raises(LedgerError, match="other private records"):
        session(ledger=ledger, name="May", fingerprint="cc")
    session(ledger=ledger, name="May", fingerprint="bb").close()
    assert len(ledger.releases()) == 1
