"""Work side by side in which no task's failure reaches another one's result.

Tasks share a machine: one shard that takes all memory can have its neighbours fail, or the worker that holds them
killed. So whatever fails for want of memory, or with its worker, is run once more, alone and in a fresh process: what
comes of it there is a function of its own shard and of the machine.
"""

from __future__ import annotations

import gc
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

from joblib import delayed
from threadpoolctl import threadpool_limits

from pate.core.cluster import HERE, UnansweredCalls, all_answers, answer, answers, on_cluster, quiet_callbacks, workers
from pate.core.secret import global_generators
from pate.exceptions import PerformanceWarning

# What a process has once, and every task must give back as it was: threads, warnings, Ctrl-C.


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if Ctrl-C came meanwhile and was swallowed.

    scikit-learn's MLPClassifier stops early then and says nothing: a half-trained teacher would be kept.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed = False

    def note(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def contained() -> Iterator[None]:
    """Hold inner threads to one and silence warnings; both are as before afterwards.

    Hundreds of small problems side by side lose tenfold to threads that fight over each of them.
    """
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_KILLED = "its worker process was killed twice, the second time alone in it: most likely its shard needs more memory"
#: Seconds to wait before each attempt to start a process.
_PAUSES = (0.0, 0.2, 1.0, 3.0)
#: What is said of a teacher that had not enough memory, alone in its process.
NO_MEMORY = "its shard needs more memory than there is"
_WORKER_LOST = (
    "a worker process was killed, most likely for want of memory: the teachers that it held are run again, one at a "
    "time. Fewer workers (n_jobs), more teachers (smaller shards) or more memory help."
)


def side_by_side(
    function: Callable[..., list[Any]],
    calls: Iterable[tuple[Any, ...]],
    *,
    n_jobs: int | None,
    failed: Callable[[int, str], Any] | None = None,
    alone: Callable[[int], list[Any]] | None = None,
    **options: Any,
) -> Generator[Any, None, None]:
    """Yield the items that ``function(*args, **options)`` returns for each of ``calls``, as they are finished.

    The backend and its options are joblib's business (``joblib.parallel_config``). Training and voting ask for it
    alike: with other options joblib would stop its worker processes and start new ones.

    The first argument of a call is a list of things that belong to teachers (:func:`index_of`), as is the result, with
    a ``failure`` or none each. ``failed(index, why)`` stands for what failed alone as well (None: it is raised), and
    ``alone(index)`` is the list for one teacher (None takes it from the call that failed).
    """
    waiting = UnansweredCalls(calls)
    suspects: list[tuple[int, tuple[Any, ...]]] = []
    warn = _callers_warnings()

    def job(number: int, args: tuple[Any, ...]) -> Any:
        return delayed(answer)(HERE, number, function, *args, **options)

    def suspect(index: int, args: tuple[Any, ...]) -> None:
        suspects.append((index, only(args, index) if alone is None else (None, *args[1:])))

    # Held here as well: with threads, tasks overlap, and the last one to leave would restore another one's state.
    with contained(), global_generators(), quiet_callbacks():
        while True:
            try:
                with closing(all_answers(waiting, job, n_jobs)) as found:
                    for number, items in found:
                        args = waiting.answered(number)
                        for item in items:
                            if failed is not None and item.failure is not None and item.failure.again:
                                suspect(item.index, args)
                            else:
                                yield item
                break
            except Exception as error:
                lost = waiting.lost() if failed is not None and _is_killed(error) else []
                if not lost:
                    raise
                warn(_WORKER_LOST)
                for args in lost:
                    for item in args[0]:
                        if not getattr(item, "blank", False):
                            suspect(index_of(item), args)
        if suspects and failed is not None:
            ready = ((index, args if alone is None else (alone(index), *args[1:])) for index, args in suspects)
            yield from _one_by_one(function, ready, options, failed)


def _one_by_one(
    function: Callable[..., list[Any]],
    calls: Iterable[tuple[int, tuple[Any, ...]]],
    options: dict[str, Any],
    failed: Callable[[int, str], Any],
) -> Generator[Any, None, None]:
    """Yield the items of calls that are run with nothing beside them; only a fresh process's failure counts."""
    with closing(_Alone()) as alone:
        for index, args in calls:
            while True:
                fresh = alone.is_fresh()
                try:
                    items = alone.run(function, args, options)
                except Exception as error:
                    alone.close()
                    if not _is_killed(error):
                        raise
                    if fresh:
                        yield failed(index, NO_MEMORY if out_of_memory(error) else _KILLED)
                        break
                    continue
                (item,) = (item for item in items if item.index == index)
                if item.failure is None or not item.failure.again:
                    yield item
                    break
                alone.close()
                if fresh:
                    yield failed(index, item.failure.why)
                    break


class _Alone:
    """One worker process that has one task at a time; on a cluster, the cluster with one task at a time."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._cluster = on_cluster()

    def is_fresh(self) -> bool:
        return self._pool is None

    def run(self, function: Callable[..., list[Any]], args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        if self._cluster:
            jobs = iter([delayed(answer)(HERE, 0, function, *args, **options)])
            with closing(answers(jobs, None)) as found:
                ((_, items),) = found
            return items
        if self._pool is None:
            self._start()
        _, items = self._pool.submit(answer, HERE, 0, function, *args, **options).result()
        return list(items)

    def _start(self) -> None:
        """Start the process, patiently: what a moment ago took all memory may still be on its way out."""
        from joblib.externals.loky import ProcessPoolExecutor

        for pause in _PAUSES:
            time.sleep(pause)
            gc.collect()
            try:
                self._pool = ProcessPoolExecutor(max_workers=1)
                self._pool.submit(int).result()  # a task that needs nothing
                return
            except (OSError, RuntimeError, MemoryError):  # no thread, no process, or one that did not live
                self.close()
        raise MemoryError("no process could be started")

    def close(self) -> None:
        """End the process; the next task gets another one."""
        if self._pool is not None:
            with suppress(OSError, RuntimeError):  # of threads that could not even be started
                self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None


def only(args: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    """Return a call's arguments with one thing in its list."""
    return [item for item in args[0] if index_of(item) == index], *args[1:]


def index_of(item: Any) -> int:
    """Return the teacher that a thing to be worked on belongs to: its ``index``, or the first of a tuple."""
    return int(item[0] if isinstance(item, tuple) else item.index)


#: loky passes on a traceback of another thread or process as text, as the cause of an error of its own.
_TOLD = re.compile(r"^[\w.]*MemoryError\b", flags=re.MULTILINE)


def out_of_memory(error: BaseException) -> bool:
    """Whether something failed for want of memory, of whatever device: all libraries say so in words of their own."""
    words = ("allocate memory", "out of memory", "bad_alloc", "alloc_failed", "cannot allocate", "unable to allocate")
    chain: BaseException | None = error
    while chain is not None:
        said = str(chain).lower()
        if isinstance(chain, MemoryError) or type(chain).__name__ == "OutOfMemoryError":
            return True
        if any(word in said for word in words) or _TOLD.search(str(chain)):
            return True
        chain = chain.__cause__
    return False


def _is_killed(error: BaseException) -> bool:
    """Whether a task took its worker along, or could not even be sent for want of memory."""
    if "un-serialize" in str(error) and not out_of_memory(error):
        return False  # a class that the workers cannot import: that is nobody's shard
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker" or out_of_memory(error)


def _callers_warnings() -> Callable[[str], None]:
    """Return how to warn as the caller would: inside, warnings are silenced, for the whole process."""
    filters = list(warnings.filters)

    def warn(text: str) -> None:
        with warnings.catch_warnings():
            warnings.filters[:] = filters  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]
            warnings.warn(text, PerformanceWarning, stacklevel=4)

    return warn


def batches(items: list[Any], *, n_jobs: int | None, largest: int) -> Iterator[list[Any]]:
    """Yield groups of items: large enough to make a task's overhead small, small enough to keep all workers busy."""
    size = max(1, min(largest, len(items) // (4 * workers(n_jobs))))
    for start in range(0, len(items), size):
        yield items[start : start + size]
