"""Runs a pipeline again with the same random bits, for audits: what such a run releases is not private.

:func:`pate.audit.replay` runs a pipeline on two neighbouring data sets and compares what happened inside. For that, the
bits of the operating system come from the recorder's key, the second run is given what the first one released, and the
code that is at work notes what it received and made. Nothing here is reached but by :func:`play`: no parameter, no
environment variable, no file turns it on.

A recorder belongs to the thread and the process that play it. Others see none: they draw from the operating system.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from pate._core.types import IntArray
from pate.exceptions import ReplayError

Sampler = TypeVar("Sampler", bound=Callable[..., Any])
Result = TypeVar("Result")
Watcher = Callable[[str, dict[str, Any]], None]

_PLAYING: ContextVar[ReplayRecorder | None] = ContextVar("pate_recorder", default=None)


@dataclass(frozen=True)
class Outcome:
    """A value released at one place of a run: who drew it, and what."""

    sampler: str
    value: Any


class ReplayRecorder:
    """The random bits of one run, and what it released; for one :func:`play`.

    Parameters
    ----------
    key : bytes
        All bits follow from it.
    watch : callable or None
        Receives what every stage was given and made, ``watch(stage, facts)``; it must keep no reference to what may
        change.
    follows : sequence of Outcome or None
        What an earlier run released: this run releases the same, place by place, as long as the same is asked.
    places : int array or None
        Where each record stood in that run, where this one has the same records in another order: shards dealt by
        places then hold the same records. A cut and the one composed with a move are equally likely.
    """

    def __init__(
        self,
        key: bytes,
        watch: Watcher | None = None,
        follows: tuple[Outcome, ...] | None = None,
        places: IntArray | None = None,
    ) -> None:
        self.places = places
        self._key, self._drawn = key, dict[str, int]()
        self._watch, self._follows = watch, follows
        self._ledgers: set[Path] = set()
        self.outcomes: list[Outcome] = []
        self.owner: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return "ReplayRecorder(not private)"

    def __reduce__(self) -> Any:
        raise ReplayError("a recorder stays in the process that plays it: it cannot be copied or pickled.")

    def draw(self, purpose: str, size: int) -> bytes:
        """Return the next bytes for a purpose."""
        self._drawn[purpose] = n = self._drawn.get(purpose, 0) + 1
        return self.fixed(f"{purpose} {n}", size)

    def fixed(self, purpose: str, size: int = 32) -> bytes:
        """Return bytes for a purpose, the same each time."""
        return hashlib.shake_256(self._key + f"pate tape {purpose}".encode()).digest(size)

    def note(self, stage: str, facts: dict[str, Any]) -> None:
        """Pass a note to the watcher, if there is one."""
        if self._watch is not None:
            self._watch(stage, facts)

    def resolve(self, sampler: str, value: Any) -> Any:
        """Return the released value: ``value``, or what the run that is followed released here."""
        place = len(self.outcomes)
        if self._follows is not None:
            there = self._follows[place] if place < len(self._follows) else None
            if there is None or there.sampler != sampler or _form(there.value) != _form(value):
                self._follows = None  # another course: what comes is not comparable
            else:
                value = copy.deepcopy(there.value)
        self.outcomes.append(Outcome(sampler, copy.deepcopy(value)))
        return value

    def claim(self, ledger: Path) -> None:
        """Take a ledger that this run may write to: one that it makes itself, and no other."""
        ledger = ledger.absolute()
        if ledger in self._ledgers:
            return
        if ledger.exists():
            raise ReplayError(
                f"a replay writes to no ledger that was there before ({ledger.name!r}): it would spend a real budget, "
                "and its answers are not private. Let the pipeline make a ledger of its own in a new temporary folder."
            )
        self._ledgers.add(ledger)


def _form(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_form(v) for v in value]
    return type(value), np.shape(value)


def playing() -> ReplayRecorder | None:
    """Return the recorder that this thread of this process plays, or None."""
    recorder = _PLAYING.get()
    if recorder is None or recorder.owner != (os.getpid(), threading.get_ident()):
        return None
    return recorder


@contextmanager
def play(recorder: ReplayRecorder) -> Iterator[ReplayRecorder]:
    """Run what is inside as a replay; for :mod:`pate.audit` alone."""
    token = _begin(recorder)
    try:
        yield recorder
    finally:
        recorder.owner = (0, 0)  # copies of this context (a task, a generator) may live on: for them, too, it is over
        _PLAYING.reset(token)


def _begin(recorder: ReplayRecorder) -> Token[ReplayRecorder | None]:
    if playing() is not None:
        raise ReplayError("a replay cannot run inside another one.")
    if recorder.owner is not None:
        raise ReplayError("this recorder was played already. Make a new one of the same key.")
    recorder.owner = (os.getpid(), threading.get_ident())
    return _PLAYING.set(recorder)


def run_recorded(recorder: ReplayRecorder, run: Callable[[], Result]) -> Result:
    """Return what ``run()`` returns on a recorder that the caller's own context never holds.

    Ctrl-C may come before a ``with`` block has begun, or after it began to end: then nothing ends it. A context of its
    own is left by the interpreter, whatever happens inside.
    """

    def inside() -> Result:
        _begin(recorder)
        try:
            return run()
        finally:
            recorder.owner = (0, 0)

    return copy_context().run(inside)


def note(stage: str, **facts: Any) -> None:
    """Give a replay what a stage received and made; nothing otherwise."""
    recorder = playing()
    if recorder is not None:
        recorder.note(stage, facts)


def resolve(sampler: str, value: Any) -> Any:
    """Return the released value: ``value``, but in a replay's second run what the first one released at this place."""
    recorder = playing()
    return value if recorder is None else recorder.resolve(sampler, value)


def resolved(sampler: Sampler) -> Sampler:
    """Make a sampler's outcomes known to a replay: ``sampler(values, *, scale, source, ...)``."""
    signature = inspect.signature(sampler)

    @functools.wraps(sampler)
    def drawn(*args: Any, **options: Any) -> Any:
        value = sampler(*args, **options)
        recorder = playing()
        if recorder is None:
            return value
        (_, values), *rest = signature.bind(*args, **options).arguments.items()
        public = {name: option for name, option in rest if name != "source"}
        recorder.note("noise", {"sampler": sampler.__name__, "shape": np.shape(values), **public})
        return recorder.resolve(sampler.__name__, value)

    return cast(Sampler, drawn)


def refuse_in_replay(what: str) -> None:
    """Refuse what may not outlive a replay."""
    if playing() is not None:
        raise ReplayError(
            f"a replay makes no {what}: its bits are known. Make it beforehand, or leave it out of the pipeline."
        )
