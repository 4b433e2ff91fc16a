"""What a cluster does that processes of one machine do not: lose a worker, or overlap tasks in one process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

#: Which process this is, on whatever machine (a child that was forked off counts as its parent).
HERE = uuid4().hex

_ONE_AT_A_TIME = threading.Lock()


class UnansweredCalls:
    """Calls by number, each kept until its answer is there, so that lost ones can be made again.

    A worker that dies takes along the rows that only it had been sent. May be read by another thread than the one that
    notes the answers.

    Examples
    --------
    >>> calls = UnansweredCalls([("a",), ("b",)])
    >>> list(calls)
    [(0, ('a',)), (1, ('b',))]
    >>> calls.answered(0)
    ('a',)
    >>> calls.again()
    >>> list(calls)
    [(1, ('b',))]
    """

    def __init__(self, calls: Iterable[tuple[Any, ...]]) -> None:
        self._fresh = enumerate(calls)
        self._under_way: dict[int, tuple[Any, ...]] = {}
        self._lost: list[tuple[int, tuple[Any, ...]]] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        return self

    def __next__(self) -> tuple[int, tuple[Any, ...]]:
        with self._lock:
            number, args = self._lost.pop() if self._lost else next(self._fresh)
            self._under_way[number] = args
            return number, args

    def answered(self, number: int) -> tuple[Any, ...]:
        """Forget a call that needs no repetition, and return it."""
        with self._lock:
            return self._under_way.pop(number)

    def lost(self) -> list[tuple[Any, ...]]:
        """Return what has no answer, and forget it."""
        with self._lock:
            lost = [args for _, args in sorted(self._under_way.items()) + sorted(self._lost)]
            self._under_way, self._lost = {}, []
            return lost

    def again(self) -> None:
        """Give out once more, first of all, what has no answer."""
        with self._lock:
            self._lost += self._under_way.items()
            self._under_way = {}


def answer(
    home: str, number: int, function: Callable[..., list[Any]], *args: Any, **options: Any
) -> tuple[int, list[Any]]:
    """Return ``function(*args, **options)`` with the call's number; in a worker process one at a time.

    Tasks set the number of threads, silence warnings and seed the global generators, all of which a process has once.
    A worker with several threads (dask's ``--nthreads``) would let its teachers share them.

    Examples
    --------
    >>> answer("another process", 3, sorted, "ba", reverse=True)
    (3, ['b', 'a'])
    """
    if home == HERE:  # threads of joblib's own: the caller holds everything for them
        return number, function(*args, **options)
    with _ONE_AT_A_TIME:
        return number, function(*args, **options)


def raise_given_up(backend: Any) -> None:
    """Let joblib hear of a task that dask has given up on, after several workers died of it.

    joblib's backend for dask (1.6) calls nobody back then, and ``Parallel`` would wait for ever.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> class DaskDistributedBackend:
    ...     def submit(self, task, callback):
    ...         job = SimpleNamespace(exception=lambda: RuntimeError(f"{task} was given up"))
    ...         job.add_done_callback = lambda tell: tell(job)
    ...         return job
    >>> backend = DaskDistributedBackend()
    >>> raise_given_up(backend)
    >>> job = backend.submit("shard 3", callback=print)
    shard 3 was given up
    """
    if type(backend).__name__ != "DaskDistributedBackend" or "submit" in vars(backend):
        return
    submit = backend.submit

    def watched(task: Any, callback: Callable[[Any], None]) -> Any:
        job = submit(task, callback=callback)

        def tell(done: Any) -> None:
            if (error := done.exception()) is not None:
                callback(error)

        job.add_done_callback(tell)
        return job

    backend.submit = watched


@contextmanager
def quiet_callbacks() -> Iterator[None]:
    """Keep joblib from printing its own traceback when it hands a task to workers that have just died.

    Examples
    --------
    >>> logger = logging.getLogger("concurrent.futures")
    >>> record = logger.makeRecord("", 40, "", 0, "exception calling callback for <Future>", (), None)
    >>> with quiet_callbacks():
    ...     print(bool(logger.filter(record)))
    False
    >>> bool(logger.filter(record))
    True
    """
    # loky logs there, in a thread of its own, what is raised to the caller as well.
    logger = logging.getLogger("concurrent.futures")

    def is_news(record: logging.LogRecord) -> bool:
        return "exception calling callback" not in record.getMessage()

    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)
