"""Work on several machines by joblib's backends: a worker that is lost, and tasks that overlap in one process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any
from uuid import uuid4

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from pate.exceptions import InvalidInputError

#: Which process this is, on whatever machine (a child that was forked off counts as its parent).
HERE = uuid4().hex

#: How often what a cluster lost is tried again, the first time included.
ATTEMPTS = 4

_ONE_AT_A_TIME = threading.Lock()


class UnansweredCalls:
    """Calls by number, each kept until its answer is there, so that lost ones can be made again.

    A worker that dies takes along the rows that only it had been sent. May be read by another thread than the one that
    notes the answers.
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
    """
    if home == HERE:  # threads of joblib's own: the caller holds everything for them
        return number, function(*args, **options)
    with _ONE_AT_A_TIME:
        return number, function(*args, **options)


def raise_given_up(backend: Any) -> None:
    """Let joblib hear of a task that dask has given up on, after several workers died of it.

    joblib's backend for dask (1.6) calls nothing back then, and ``Parallel`` would wait for ever.
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
    """Keep joblib from printing its own traceback when it hands a task to workers that have just died."""
    # loky logs there, in a thread of its own, what is raised to the caller as well.
    logger = logging.getLogger("concurrent.futures")

    def is_news(record: logging.LogRecord) -> bool:
        return "exception calling callback" not in record.getMessage()

    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)


def answers(jobs: Iterator[Any], n_jobs: int | None) -> Generator[tuple[int, list[Any]], None, None]:
    """Yield what joblib's active backend makes of the jobs, as they are finished."""
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    except ValueError:  # a backend that only returns everything at the end: wave by wave then
        parallel = Parallel(n_jobs=n_jobs, batch_size=1)
        while wave := list(islice(jobs, 2 * workers(n_jobs))):
            yield from parallel(wave)
        return
    with closing(parallel(jobs)) as results:
        yield from results


def all_answers(
    waiting: UnansweredCalls, job: Callable[[int, tuple[Any, ...]], Any], n_jobs: int | None
) -> Generator[tuple[int, list[Any]], None, None]:
    """Yield the answers to all calls, each a ``job(number, args)``; what a cluster lost is asked again, a few times."""
    raise_given_up(get_active_backend()[0])
    left = ATTEMPTS
    while True:
        try:
            with closing(answers((job(number, args) for number, args in waiting), n_jobs)) as found:
                yield from found
            return
        except CancelledError:  # a cluster lost the only copy of something with one of its workers
            left -= 1
            if not left:
                raise
            waiting.again()


def on_cluster() -> bool:
    """Whether ``joblib.parallel_config`` names a backend whose workers may be on other machines."""
    return not type(get_active_backend()[0]).__module__.startswith("joblib._parallel_backends")


def workers(n_jobs: int | None) -> int:
    """Return how many tasks joblib will run side by side, ``joblib.parallel_config`` included."""
    return int(effective_n_jobs(n_jobs))


def in_order(
    work: Callable[..., Any], calls: Iterable[tuple[Any, ...]], *, n_jobs: int | None
) -> Generator[Any, None, None]:
    """Yield ``work(*args)`` of each of the calls, in their order, from a cluster's workers.

    What a worker that dies took along is worked out again by another one. A worker's log shows nothing of the
    arguments, and what is raised there is given by its kind alone, unless its words are of this package.
    """
    waiting = UnansweredCalls((_Mute(args),) for args in calls)
    early: dict[int, Any] = {}
    due = 0

    def job(number: int, args: tuple[Any, ...]) -> Any:
        return delayed(answer)(HERE, number, _worked, work, *args)

    with quiet_callbacks(), closing(all_answers(waiting, job, n_jobs)) as found:
        for number, (failure, made) in found:
            waiting.answered(number)
            if failure is not None:
                raise InvalidInputError(failure)
            early[number] = made
            while due in early:
                yield early.pop(due)
                due += 1


class _Mute:
    """Arguments that no log shows."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.args = args

    def __repr__(self) -> str:
        return "<sensitive>"


def _worked(work: Callable[..., Any], mute: _Mute) -> list[Any]:
    """Return what is wrong or None, and the result."""
    try:
        return [None, work(*mute.args)]
    except InvalidInputError as error:
        return [str(error), None]
    except Exception as error:
        return [
            f"a worker raised {type(error).__name__}; what it said is not shown: it may quote private values.",
            None,
        ]
