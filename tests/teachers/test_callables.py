"""Functions as teachers: asked in batches, once per row, tried again, never quoted."""

from __future__ import annotations

import os
import random
import re
import signal
import stat
import threading
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pate.exceptions import CheckpointWarning, CuratorWarning, InvalidInputError
from pate.teachers._callables import AnswerCache, CallableTeachers
from pate.votes import Voter, hash_queries

_SAME = [1, 2]

ROWS = np.arange(20.0).reshape(10, 2)
SECRET = "Mrs Private of ward 7"


class Teacher:
    """Says a class by the first number of a row; remembers what it was asked; fails when asked to."""

    def __init__(self, shift=0, *, failures=(), error=None):
        self.shift, self.failures = shift, list(failures)
        self.error = ConnectionError(SECRET) if error is None else error
        self.calls = []
        self.busy = threading.Lock()

    def __call__(self, rows):
        assert self.busy.acquire(blocking=False), "one function, two threads"
        try:
            self.calls.append(len(rows))
            if self.failures and len(self.calls) in self.failures:
                raise self.error
            return [int(row[0] / 2 + self.shift) % 3 for row in rows]
        finally:
            self.busy.release()


def teachers_of(functions, **options):
    return CallableTeachers(functions, **({"classes": (0, 1, 2), "batch_size": 4, "retry_wait": 0.0} | options))


def expected(k):
    return np.array([[(j + i) % 3 for j in range(10)] for i in range(k)])


@pytest.mark.parametrize("n_jobs", [None, 1, 3, 50])
def test_votes_are_the_answers_whatever_the_threads(n_jobs):
    functions = [Teacher(i) for i in range(5)]
    teachers = teachers_of(functions, n_jobs=n_jobs, n_units=70, unit="group")
    assert isinstance(teachers, Voter)
    votes = teachers.vote(ROWS)
    np.testing.assert_array_equal(votes.labels, expected(5))
    assert (votes.n_teachers, votes.classes, votes.unit, votes.n_units) == (5, (0, 1, 2), "group", 70)
    assert votes.query_hashes == hash_queries(ROWS)
    assert all(f.calls == [4, 4, 2] for f in functions)
    few = teachers.vote(ROWS, keep_labels=False)
    assert few.labels is None
    np.testing.assert_array_equal(few.counts, votes.counts)
    assert all(f.calls == [4, 4, 2] for f in functions), "asked again"


def test_a_row_is_asked_once_and_keeps_its_answer():
    def moody(rows):
        return [random.randrange(1000) for _ in rows]

    teachers = CallableTeachers([moody], classes=range(1000), batch_size=3)
    first = teachers.vote(np.vstack([ROWS, ROWS[:4]])).labels[0]
    np.testing.assert_array_equal(first[:4], first[10:])
    np.testing.assert_array_equal(teachers.vote(ROWS[::-1]).labels[0], first[:10][::-1])


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (["short", "a longer text", ""], list),
        (pd.Series(["short", "a longer text", ""], index=[7, 8, 9]), list),
        (np.array(["short", "a longer text", ""]), list),
        (pd.DataFrame({"a": [1, 2, 3], "b": list("xyz")}), pd.DataFrame),
        (np.zeros((3, 4, 4, 1)) + np.arange(3).reshape(3, 1, 1, 1), np.ndarray),
        (sparse.csr_array(np.eye(3)), sparse.sparray),
        ([[1, 2], [3, 4], [5, 6]], np.ndarray),
    ],
)
def test_functions_get_rows_as_they_were_given(rows, kind):
    seen = []

    def say(part):
        seen.append(part)
        return ["yes"] * (part.shape[0] if hasattr(part, "shape") else len(part))

    votes = CallableTeachers([say], classes=("no", "yes"), batch_size=2).vote(rows)
    assert votes.counts.tolist() == [[0, 1]] * 3
    assert [p.shape[0] if hasattr(p, "shape") else len(p) for p in seen] == [2, 1]
    assert all(isinstance(p, kind) for p in seen)
    if kind is list:
        assert [t for p in seen for t in p] == ["short", "a longer text", ""]
        assert all(type(t) is str for p in seen for t in p)
    if isinstance(rows, pd.DataFrame):
        pd.testing.assert_frame_equal(pd.concat(seen), rows)


def test_what_one_function_does_to_its_rows_no_other_sees():
    seen = []

    def vandal(rows):
        rows[:] = -1
        return [0] * len(rows)

    def witness(rows):
        seen.append(np.array(rows))
        return [0] * len(rows)

    rows = ROWS.copy()
    teachers_of([vandal, witness]).vote(rows)
    np.testing.assert_array_equal(np.vstack(seen), ROWS)
    np.testing.assert_array_equal(rows, ROWS)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_failures_are_tried_again_with_growing_waits(n_jobs, monkeypatch):
    waits = []
    monkeypatch.setattr(threading.Event, "wait", _recording(threading.Event.wait, waits))
    functions = [Teacher(0), Teacher(1, failures=[2, 3, 4])]
    votes = teachers_of(functions, n_jobs=n_jobs, n_retries=3, retry_wait=0.001).vote(ROWS)
    np.testing.assert_array_equal(votes.labels, expected(2))
    assert functions[1].calls == [4, 4, 4, 4, 4, 2]
    assert [w for w in waits if w is not None and w < 1] == [0.001, 0.002, 0.004]


def _recording(real, waits):
    def wait(self, timeout=None):
        waits.append(timeout)
        return real(self, timeout)

    return wait


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_function_that_keeps_failing_votes_for_a_fixed_class_and_is_not_quoted(n_jobs):
    functions = [Teacher(0), Teacher(1, failures=[2, 3])]
    teachers = teachers_of(functions, n_jobs=n_jobs, n_retries=1)
    with pytest.warns(CuratorWarning, match=r"teacher 1: .*ConnectionError \(tried 2 times\)") as said:
        votes = teachers.vote(ROWS)
    assert SECRET not in str(said[0].message)
    assert votes.labels[0].tolist() == expected(2)[0].tolist()
    assert votes.labels[1].tolist() == [*expected(2)[1][:4].tolist(), *[1] * 6]  # class 1 is that of teacher 1
    assert votes.counts.sum(axis=1).tolist() == [2] * 10
    assert list(teachers.failed_in_vote_) == [1]
    assert functions[1].calls == [4, 4, 4]
    # What was answered is kept.
    np.testing.assert_array_equal(teachers.vote(ROWS).labels, expected(2))
    assert teachers.failed_in_vote_ == {}
    assert functions[1].calls == [4, 4, 4, 4, 2]
    assert functions[0].calls == [4, 4, 2]


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (["Private"] * 3, "something else than classes"),
        ([["Private"]] * 3, "something else than classes"),
        ([None, "no", "no"], "something else than classes"),
        (["no"] * 2, "one class value per row"),
        (["no"] * 4, "one class value per row"),
        ("yes", "sequence of class values"),
        (b"yes", "sequence of class values"),
        ({"no": 1, "yes": 2, "Private": 3}, "sequence of class values"),
        ({"no", "yes"}, "sequence of class values"),
        (np.array([["no", "no", "no"]]), "sequence of class values"),
        (None, "raised TypeError"),
    ],
)
def test_odd_answers_are_no_votes_and_are_not_shown(answers, says):
    calls = []

    def odd(rows):
        calls.append(len(rows))
        return answers

    teachers = CallableTeachers([odd], classes=("no", "yes"), n_retries=1, retry_wait=0)
    with pytest.warns(CuratorWarning, match=f"teacher 0: .*{says}") as said:
        votes = teachers.vote(["a", "b", "c"], keep_labels=False)
    assert votes.counts.tolist() == [[1, 0]] * 3
    assert "Private" not in str(said[0].message)
    assert calls == [3, 3], "an endpoint that answers nonsense may do better the second time"


def test_answers_of_any_sequence_type_are_taken():
    kinds = [
        lambda rows: np.array(["yes"] * len(rows)),
        lambda rows: pd.Series(["yes"] * len(rows), index=range(5, 5 + len(rows))),
        lambda rows: ("yes",) * len(rows),
        lambda rows: (word for word in ["yes"] * len(rows)),
    ]
    assert CallableTeachers(kinds, classes=("no", "yes")).vote(["a", "b"]).counts.tolist() == [[0, 4], [0, 4]]


def test_an_interrupted_vote_goes_on_in_another_process(tmp_path):
    folder = tmp_path / "answers"
    options = {"checkpoint_dir": folder, "checkpoint_key": "v1", "n_retries": 0}
    functions = [Teacher(0), Teacher(1, failures=[2], error=KeyboardInterrupt()), Teacher(2)]
    with pytest.raises(KeyboardInterrupt):
        teachers_of(functions, **options).vote(ROWS)
    again = [Teacher(0), Teacher(1), Teacher(2)]
    votes = teachers_of(again, **options).vote(ROWS)
    np.testing.assert_array_equal(votes.labels, expected(3))
    assert [f.calls for f in again] == [[], [4, 2], [4, 4, 2]]
    third = [Teacher(9) for _ in range(3)]
    np.testing.assert_array_equal(teachers_of(third, **options).vote(ROWS).labels, expected(3))
    assert [f.calls for f in third] == [[], [], []]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in folder.iterdir()} == {0o600}
    assert sorted(f.name.split("-")[0] for f in folder.iterdir()) == ["README.txt", *["answers"] * 3]


@pytest.mark.parametrize(
    ("changed", "classes", "k"),
    [("v2", (0, 1, 2), 2), ("v1", (0, 2, 1), 2), ("v1", (0, 1, 2), 3), ("v1", (0, 1, 2, 3), 2)],
)
def test_answers_of_other_functions_classes_or_shards_are_not_used(tmp_path, changed, classes, k):
    teachers_of([Teacher(0), Teacher(1)], checkpoint_dir=tmp_path, checkpoint_key="v1").vote(ROWS)
    other = [Teacher(1) for _ in range(k)]
    votes = teachers_of(other, checkpoint_dir=tmp_path, checkpoint_key=changed, classes=classes).vote(ROWS)
    assert all(f.calls == [4, 4, 2] for f in other)
    np.testing.assert_array_equal(np.asarray(classes)[votes.labels], [expected(2)[1]] * k)


@pytest.mark.long
def test_a_file_cut_at_any_byte_costs_no_more_than_its_last_lines(tmp_path):
    hashes = hash_queries(ROWS)
    cache = AnswerCache(1, tuple(range(30)), folder=tmp_path, version="v1")
    cache.add(0, hashes, [i + 15 for i in range(10)])
    whole = cache.path(0).read_bytes()
    for size in range(len(whole) + 1):
        cache.path(0).write_bytes(whole[:size])
        fresh = AnswerCache(1, tuple(range(30)), folder=tmp_path, version="v1")
        known = fresh.of(0)
        assert known == {h: i + 15 for i, h in enumerate(hashes[: whole[:size].count(b"\n")])}
        fresh.add(0, ["f" * 64], [29])
        assert AnswerCache(1, tuple(range(30)), folder=tmp_path, version="v1").of(0) == known | {"f" * 64: 29}


def test_damaged_lines_are_asked_again_and_the_curator_is_warned(tmp_path):
    options = {"checkpoint_dir": tmp_path, "checkpoint_key": "v1"}
    teachers_of([Teacher(0)], **options).vote(ROWS)
    file = next(tmp_path.glob("answers-*"))
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3] = b"\xff" + lines[3]
    lines[4] = lines[4].replace(b" 1\n", b" 7\n")  # no such class
    file.write_bytes(b"".join(lines))
    again = Teacher(0)
    with pytest.warns(CheckpointWarning, match="teacher 0's answers"):
        votes = teachers_of([again], **options).vote(ROWS)
    np.testing.assert_array_equal(votes.labels, expected(1))
    assert again.calls == [2]


def test_the_folder_says_nothing_in_plain_and_is_not_pickle(tmp_path):
    CallableTeachers(
        [lambda rows: [SECRET] * len(rows)], classes=("no", SECRET), checkpoint_dir=tmp_path, checkpoint_key="k"
    ).vote(["a public text"])
    held = b"".join(f.read_bytes() for f in tmp_path.glob("answers-*"))
    assert re.fullmatch(rb"[0-9a-f]{64} 1\n", held)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("n_jobs", [1, 4])
def test_ctrl_c_ends_the_vote_and_its_threads(n_jobs, tmp_path):
    calls = []
    wait = 0.02

    def press(rows):
        calls.append(len(rows))
        if len(calls) == 3:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(wait)
        return [0] * len(rows)

    functions = [lambda rows: press(rows) for _ in range(200)]
    options = {"checkpoint_dir": tmp_path, "checkpoint_key": "v1", "n_jobs": n_jobs}
    with pytest.raises(KeyboardInterrupt):
        teachers_of(functions, **options).vote(ROWS)
    assert len(calls) < 200, "the others were not called any more"
    # Ctrl-C in the very moment in which a thread starts: it is not joined, but it ends as well.
    for thread in [t for t in threading.enumerate() if t.name.startswith("pate-teacher")]:
        thread.join(10)
        assert not thread.is_alive()
    held = len(list(tmp_path.glob("answers-*")))
    assert held >= 1
    n_calls, wait = len(calls), 0
    teachers_of(functions, **options).vote(ROWS)
    assert len(calls) - n_calls < 600, "what was answered before Ctrl-C was not asked again"


def test_a_failure_ends_the_waits_of_others():
    class Broken(RuntimeError):
        pass

    waiting = threading.Event()

    def patient(rows):  # fails once, and would wait a minute before its second try
        waiting.set()
        raise ConnectionError

    def hopeless(rows):
        waiting.wait(30)
        time.sleep(0.05)
        raise Broken

    teachers = teachers_of([patient, hopeless], n_jobs=2, n_retries=1, retry_wait=60.0)
    real = teachers._call

    def call(index, rows, places, hashes, stop):  # the second teacher has one try
        if index:
            raise InvalidInputError("teacher 1 could not vote") if hopeless_fails(rows) else AssertionError
        return real(index, rows, places, hashes, stop)

    def hopeless_fails(rows):
        with pytest.raises(Broken):
            hopeless(rows)
        return True

    teachers._call = call
    start = time.monotonic()
    with pytest.raises(InvalidInputError, match="teacher 1"):
        teachers.vote(ROWS)
    assert time.monotonic() - start < 30
    assert not [t for t in threading.enumerate() if t.name.startswith("pate-teacher")]


@pytest.mark.parametrize(
    ("functions", "options", "says"),
    [
        ([], {}, "functions must be a list of callables"),
        (len, {}, "functions must be a list of callables"),
        ([len, 3], {}, "functions must be a list of callables"),
        ([len, len], {}, "functions must hold every callable once"),
        ([_SAME.index, _SAME.index], {}, "functions must hold every callable once"),
        ([len, partial(len)], {}, "functions must hold every callable once"),
        ([len, len.__call__], {}, "functions must hold every callable once"),
        ([partial(len, _SAME), partial(len, _SAME)], {}, "functions must hold every callable once"),
        ([len], {"classes": ["a"]}, "classes must list"),
        ([len], {"batch_size": 0}, "batch_size"),
        ([len], {"n_retries": -1}, "n_retries"),
        ([len], {"retry_wait": -1}, "retry_wait"),
        ([len], {"n_jobs": 0}, "n_jobs"),
        ([len], {"unit": "person"}, "unit"),
        ([len, sum], {"n_units": 1}, "n_units"),
        ([len], {"checkpoint_dir": "folder"}, "checkpoint_key"),
        ([len], {"checkpoint_dir": "folder", "checkpoint_key": " "}, "checkpoint_key"),
        ([len], {"checkpoint_dir": os.devnull + "/x", "checkpoint_key": "v1"}, "checkpoint_dir must be a folder"),
    ],
)
def test_bad_parameters_are_refused(functions, options, says):
    with pytest.raises(InvalidInputError, match=says):
        CallableTeachers(functions, **({"classes": (0, 1)} | options))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "X must"),
        (np.empty((0, 3)), "at least one row"),
        ([1.0, 2.0], "X must be a table"),
        (["a", None], "X must be a text in every row"),
        ([[1.0], [2.0, 3.0]], "X must be a table"),
    ],
)
def test_bad_rows_are_refused(rows, says):
    with pytest.raises(InvalidInputError, match=says):
        CallableTeachers([lambda rows: [0] * len(rows)], classes=(0, 1)).vote(rows)


def test_nothing_private_is_shown(tmp_path):
    teachers = teachers_of([Teacher(0), Teacher(1)], checkpoint_dir=tmp_path, checkpoint_key="v1")
    before = repr(teachers)
    teachers.vote(ROWS)
    assert repr(teachers) == before == "CallableTeachers(n_teachers=2, classes=(0, 1, 2))"
    assert repr(teachers._cache) == "AnswerCache(n_teachers=2, answers=<sensitive>)"


def test_progress_is_one_per_teacher(capsys):
    teachers_of([Teacher(0), Teacher(1)], verbose=True).vote(ROWS)
    assert "teachers voting" in capsys.readouterr().err


def test_votes_go_through_the_lock_like_any_others():
    import pate

    texts = [f"text number {i}" for i in range(8)]
    teachers = CallableTeachers(
        [lambda rows, i=i: [len(t) % 2 for t in rows] for i in range(50)], classes=(0, 1), n_units=500
    )
    release = pate.release_labels(teachers.vote(texts), pate.GNMax(sigma=2.0), budget=pate.Budget(50.0, 1e-5))
    assert release.labels.shape == (8,)
