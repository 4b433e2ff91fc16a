"""Progress where there is no terminal: lines now and then, and one in the end."""

from __future__ import annotations

import itertools

from pate._core import progress


def test_a_log_has_a_line_every_ten_seconds_with_the_seconds_left(capsys, monkeypatch):
    clock = itertools.count(0.0, 4.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert list(progress.track(range(7), total=7, label="rounds", show=True)) == list(range(7))
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["rounds: 3 of 7, 16 s left", "rounds: 6 of 7, 4 s left", "rounds: 7 done"]


def test_what_was_done_before_is_counted_and_does_not_count_for_the_speed(capsys, monkeypatch):
    clock = itertools.count(0.0, 6.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    note = "epsilon {}".format
    list(progress.track(range(3), total=10, begun=7, label="steps", show=True, note=note))
    assert capsys.readouterr().err.splitlines() == ["steps: 9 of 10, 6 s left, epsilon 9", "steps: 10 done, epsilon 10"]


def test_there_is_no_estimate_before_enough_items_are_done_to_make_one(capsys, monkeypatch):
    """The first of many items also waits for workers to start: 40 times that says nothing of the rest."""
    clock = itertools.count(0.0, 12.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    list(progress.track(range(40), total=40, label="teachers", show=True))
    shown = capsys.readouterr().err.splitlines()
    assert shown[:4] == ["teachers: 1 of 40", "teachers: 2 of 40", "teachers: 3 of 40", "teachers: 4 of 40, 432 s left"]
