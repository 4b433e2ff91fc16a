"""How long the parts of a fit take: whoever fits says what it is at, and whoever measures listens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
    """Say that what is done inside is ``part`` of a fit; without a listener nothing is measured.

    Parameters
    ----------
    part : {"startup", "training", "labelling", "predicting"}

    Examples
    --------
    >>> with timed("training"):
    ...     print("nobody listens")
    nobody listens
    """
    watch = _LISTENING.get()
    if watch is None:
        yield
        return
    watch.begin(part)
    try:
        yield
    finally:
        watch.end()
