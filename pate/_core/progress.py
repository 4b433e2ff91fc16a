"""Progress of long work: a bar on a terminal, one line of a notebook, and lines now and then elsewhere."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from pate._core.events import PRIVATE, event

# How long the parts of a fit take: the code that fits says what it is doing, and the code that measures listens.

#: What a fit may be at: what public rows teach (and imports), private models, votes and their release, test rows.
PARTS = ("startup", "training", "labelling", "predicting")


class Stopwatch:
    """Seconds by part; time inside a part that is inside another one counts for the inner one alone."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._at: list[str] = []
        self._since = time.perf_counter()

    def _lap(self) -> None:
        now = time.perf_counter()
        if self._at:
            self.seconds[self._at[-1]] += now - self._since
        self._since = now

    def begin(self, part: str) -> None:
        """Count for ``part`` from now on."""
        if part not in self.seconds:
            raise KeyError(part)
        self._lap()
        self._at.append(part)

    def end(self) -> None:
        """Count again for the part before this one."""
        self._lap()
        self._at.pop()


_LISTENING: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


@contextmanager
def listening() -> Iterator[Stopwatch]:
    """Measure what is done inside, by what :func:`timed` says of it; nothing is kept beyond."""
    watch = Stopwatch()
    before = _LISTENING.set(watch)
    try:
        yield watch
    finally:
        _LISTENING.reset(before)


@contextmanager
def timed(part: str) -> Iterator[None]:
    """Say that what is done inside is ``part`` of a fit: to a listener, and to the log, where how long is private."""
    watch, since = _LISTENING.get(), time.perf_counter()
    event("fit", "begun", level=logging.DEBUG, part=part)
    if watch is not None:
        watch.begin(part)
    try:
        yield
    finally:
        if watch is not None:
            watch.end()
    event("fit", "done", part=part)
    # How many records there are shows in it, and how soon a solver came to its end.
    PRIVATE.debug("%s took %.3f s", part, time.perf_counter() - since)


T = TypeVar("T")


def track(
    items: Iterable[T],
    *,
    total: int,
    label: str,
    show: bool = False,
    work: tuple[float, str] | None = None,
    begun: int = 0,
    note: Callable[[int], str] | None = None,
) -> Iterator[T]:
    """Iterate over ``items`` behind a progress bar, which shows ``label`` and what ``note`` says of the items done.

    Both are public text. In a notebook one line of the cell's output is the bar; where standard error is neither that
    nor a terminal (a job's log) there is a line every ten seconds. One item alone has no bar. ``work`` is how much an
    item is and of what, ``(4800.0, "images")``: shown per second; ``begun`` of the ``total`` were done before.
    """
    if not show or total <= 1:
        yield from items
        return
    if in_notebook():
        yield from _in_cell(items, _Bar(total, label, work, begun, note))
        return
    if not sys.stderr.isatty():
        yield from _in_lines(items, _Bar(total, label, work, begun, note))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:
            if work is None or not task.speed:
                return Text("")
            return Text(f"{task.speed * work[0]:,.0f} {work[1]}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task(label, total=total, completed=begun)
        for done, item in enumerate(items, begun + 1):
            yield item
            bar.advance(task)
            if note:
                bar.update(task, description=f"{label}, {note(done)}")


class _Bar(NamedTuple):
    """The arguments of :func:`track`, but for the items."""

    total: int
    label: str
    work: tuple[float, str] | None
    begun: int
    note: Callable[[int], str] | None


def in_notebook() -> bool:
    """Return whether a notebook's kernel runs this, which can show more than text."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


#: Lines are written at most so often, in seconds.
_EVERY_LINE = 10.0


def _can_estimate(done: int, bar: _Bar) -> bool:
    """Return whether so many items say how long the rest takes: the first one also waits for workers to start."""
    return done - bar.begun >= max(2, math.ceil((bar.total - bar.begun) / 10))


def _in_lines(items: Iterable[T], bar: _Bar) -> Iterator[T]:
    total, label, work, begun, note = bar
    start = written = time.monotonic()
    done = begun
    for item in items:
        yield item
        done += 1
        now = time.monotonic()
        if now - written >= _EVERY_LINE and done < total:
            written = now
            left = (total - done) * (now - start) / (done - begun)
            rest = f", {left:.0f} s left" if _can_estimate(done, bar) else ""
            said = f", {note(done)}" if note else ""
            print(f"{label}: {done} of {total}{rest}{said}", file=sys.stderr, flush=True)
    seconds = max(time.monotonic() - start, 1e-9)
    rate = "" if work is None else f", {total * work[0] / seconds:,.0f} {work[1]}/s"
    said = note(total) if note else ""
    print(f"{label}: {total} done{rate}{f', {said}' if said else ''}", file=sys.stderr)


#: A cell's line is drawn again at most so often, in seconds: a notebook keeps up with no more.
_EVERY = 0.2


def _in_cell(items: Iterable[T], bar: _Bar) -> Iterator[T]:
    total, label, work, begun, note = bar
    from html import escape
    from importlib import import_module

    show: Any = import_module("IPython.display")  # there is one where there is a notebook
    start = drawn = time.monotonic()

    def line(done: int) -> Any:
        seconds = max(time.monotonic() - start, 1e-9)
        speed = (done - begun) / seconds
        parts = [f"{done}/{total}", f"{seconds:.0f} s"]
        if speed and done < total and _can_estimate(done, bar):
            parts.append(f"{(total - done) / speed:.0f} s left")
        if work is not None and speed:
            parts.append(f"{speed * work[0]:,.0f} {work[1]}/s")
        if note and done:
            parts.append(note(done))
        text = escape(", ".join(parts))
        return show.HTML(f"{escape(label)} <progress value='{done}' max='{total}'></progress> {text}")

    handle = show.display(line(begun), display_id=True)
    done = begun
    try:
        for item in items:
            yield item
            done += 1
            if time.monotonic() - drawn >= _EVERY:
                drawn = time.monotonic()
                handle.update(line(done))
    finally:
        handle.update(line(done))
