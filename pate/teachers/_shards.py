"""Train and query teachers in parallel; a failed teacher casts a fixed, data-independent vote.

The functions live in a module, not in closures, so that every joblib backend can send them by name. Nothing that a
teacher's estimator says (warnings, the text of an exception) leaves a task: it may quote private values.
"""

from __future__ import annotations

import gc
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import sklearn
from joblib import delayed, parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.metaestimators import available_if
from threadpoolctl import ThreadpoolController

from pate._core.cluster import HERE, UnansweredCalls, all_answers, answer, answers, on_cluster, quiet_callbacks, workers
from pate._core.curator import tell_curator, warn
from pate._core.secret import global_generators, seed_generators, training_seed
from pate.exceptions import InvalidInputError, PerformanceWarning
from pate.teachers._usable import slices
from pate.teachers.checkpoints import pack

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


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> ThreadpoolController:
    """Return this process's pools of threads; to look for them takes longer than a small teacher's training."""
    return ThreadpoolController()


@contextmanager
def contained() -> Iterator[None]:
    """Hold inner threads to one and silence warnings; both are as before afterwards.

    Hundreds of small problems side by side lose tenfold to threads that fight over each of them.
    """
    with _thread_pools(len(sys.modules)).limit(limits=1), warnings.catch_warnings():
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
    tell = _callers_warnings()

    def job(number: int, args: tuple[Any, ...]) -> Any:
        return delayed(answer)(HERE, number, function, *args, **options)

    def suspect(index: int, args: tuple[Any, ...]) -> None:
        kept = [item for item in args[0] if index_of(item) == index] if alone is None else None
        suspects.append((index, (kept, *args[1:])))

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
                tell(_WORKER_LOST)
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
                fresh = alone.pool is None
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
        self.pool: Any = None
        self._cluster = on_cluster()

    def run(self, function: Callable[..., list[Any]], args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        if self._cluster:
            jobs = iter([delayed(answer)(HERE, 0, function, *args, **options)])
            with closing(answers(jobs, None)) as found:
                ((_, items),) = found
            return items
        if self.pool is None:
            self._start()
        _, items = self.pool.submit(answer, HERE, 0, function, *args, **options).result()
        return list(items)

    def _start(self) -> None:
        """Start the process, patiently: what a moment ago took all memory may still be on its way out."""
        from joblib.externals.loky import ProcessPoolExecutor

        for pause in _PAUSES:
            time.sleep(pause)
            gc.collect()
            try:
                self.pool = ProcessPoolExecutor(max_workers=1)
                self.pool.submit(int).result()  # a task that needs nothing
                return
            except (OSError, RuntimeError, MemoryError):  # no thread, no process, or one that did not live
                self.close()
        raise MemoryError("no process could be started")

    def close(self) -> None:
        """End the process; the next task gets another one."""
        if self.pool is not None:
            with suppress(OSError, RuntimeError):  # of threads that could not even be started
                self.pool.shutdown(wait=True, kill_workers=True)
            self.pool = None


def index_of(item: Any) -> int:
    """Return the teacher that a thing to be worked on belongs to: its ``index``, or the first of a tuple."""
    return int(item[0] if isinstance(item, tuple) else item.index)


#: loky passes on a traceback of another thread or process as text, as the cause of an error of its own.
_QUOTED = re.compile(r"^[\w.]*MemoryError\b", flags=re.MULTILINE)


def out_of_memory(error: BaseException) -> bool:
    """Whether something failed for lack of memory on any device: every library words this differently."""
    words = ("allocate memory", "out of memory", "bad_alloc", "alloc_failed", "cannot allocate", "unable to allocate")
    chain: BaseException | None = error
    while chain is not None:
        said = str(chain).lower()
        if isinstance(chain, MemoryError) or type(chain).__name__ == "OutOfMemoryError":
            return True
        if any(word in said for word in words) or _QUOTED.search(str(chain)):
            return True
        chain = chain.__cause__
    return False


def _is_killed(error: BaseException) -> bool:
    """Whether a task took its worker along, or could not even be sent for want of memory."""
    if "un-serialize" in str(error) and not out_of_memory(error):
        return False  # a class that the workers cannot import: that is not a fault of a shard
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker" or out_of_memory(error)


def _callers_warnings() -> Callable[[str], None]:
    """Return how to warn as the caller would: inside, warnings are silenced, for the whole process."""
    filters = list(warnings.filters)

    def tell(text: str) -> None:
        with warnings.catch_warnings():
            warnings.filters[:] = filters  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]
            warn(text, PerformanceWarning)

    return tell


def batches(items: list[Any], *, n_jobs: int | None, largest: int) -> Iterator[list[Any]]:
    """Yield groups of items: large enough to make a task's overhead small, small enough to keep all workers busy."""
    size = max(1, min(largest, len(items) // (4 * workers(n_jobs))))
    for start in range(0, len(items), size):
        yield items[start : start + size]


# Classifiers that want their classes numbered without gaps, where some class is missing.


class OwnClasses(ClassifierMixin, BaseEstimator):
    """Fit a classifier on the ranks 0 .. k-1 of the classes that are there, and answer with the classes.

    XGBoost, for one, refuses classes {0, 2}. A ``class_weight`` that names classes, nested ones too, is renumbered.

    Attributes
    ----------
    classes_ : array of shape (k,)
        The classes in ``y``, sorted.
    """

    classes_: npt.NDArray[Any]

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on ranks."""
        self.classes_, ranks = np.unique(y, return_inverse=True)
        weights = {
            name: {rank: value[c] for rank, c in enumerate(self.classes_.tolist()) if c in value}
            for name, value in self.estimator.get_params(deep=True).items()
            if (name == "class_weight" or name.endswith("__class_weight")) and isinstance(value, dict)
        }
        self.estimator.set_params(**weights).fit(X, ranks)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return classes, shape (n_rows,)."""
        ranks = np.asarray(self.estimator.predict(X)).reshape(-1)
        if (ranks != np.floor(ranks)).any() or ranks.min(initial=0) < 0 or ranks.max(initial=0) >= len(self.classes_):
            raise ValueError("predicted a class it was not trained on")
        return np.asarray(self.classes_[ranks.astype(np.int64)])

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return probabilities in the order of ``classes_``."""
        return np.asarray(self.estimator.predict_proba(X))


def has_gaps(classes: npt.NDArray[Any]) -> bool:
    """Whether sorted class indices are other than 0 .. k-1."""
    return bool((classes != np.arange(len(classes))).any())


# What becomes of a teacher that failed: it casts a fixed, data-independent vote; only the data curator is warned.

#: How many failures are reported one by one.
_NAMED = 5


def fixed_vote(index: int, n_classes: int) -> int:
    """Return the class (its index) that teacher ``index`` votes for, on every row, when it failed.

    A function of public facts, so a shard that has its teacher fail changes that teacher's vote as any other change of
    the shard would: one vote per query, and the accounting holds. Failed teachers are dealt out over the classes: many
    of them together favour none. The same on every row, so that a row keeps its votes whenever it is asked.
    """
    return index % n_classes


def tell_of_failures(failures: Mapping[int, str], n_teachers: int, *, what: str, remedy: str) -> None:
    """Warn the curator of failed teachers; nothing is said when there are none."""
    if not failures:
        return
    named = "; ".join(f"teacher {i}: {failures[i]}" for i in sorted(failures)[:_NAMED])
    more = f"; and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
    everybody = " NO TEACHER IS LEFT: labels would be noise." if len(failures) == n_teachers else ""
    tell_curator(
        f"{len(failures)} of {n_teachers} teachers could not {what} ({named}{more}). Each votes for a fixed class "
        f"instead, which depends on no record.{everybody} {remedy}"
        "(Which teachers failed is private: do not publish it.)",
    )


#: The place of the teachers in the tree of training seeds.
_SEED_PATH = 0x7EAC
#: The global generators' place beside a teacher's parameters, of which there are fewer.
_GLOBAL = 0x610BA1


@dataclass(frozen=True, repr=False)
class Failure:
    """Why there is no teacher, or no vote: never the data's own words.

    Attributes
    ----------
    why : str
    again : bool
        Whether other tasks may have had a part in it: then it is tried once more, alone, and only that counts.
    """

    why: str
    again: bool = False

    @classmethod
    def of(cls, error: BaseException, who: str = "its estimator") -> Failure:
        """Return what may be said of an exception; Ctrl-C and its like are none, and go on."""
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            raise error
        if out_of_memory(error):
            return cls(NO_MEMORY, again=True)
        name = type(error).__name__
        if name == "InvalidParameterError":  # quotes the estimator's parameters, which are public
            return cls(f"{who} raised {name}: {error}")
        return cls(f"{who} raised {name}")


@dataclass(frozen=True, repr=False)
class ShardTask:
    """One teacher to train: its own rows and no others, or in ``failure`` what is in their place."""

    index: int
    estimator: Any = None
    X: Any = None
    y: npt.NDArray[np.int64] | None = None
    key: bytes | None = None
    seed: int = 0
    failure: Failure | None = None


@dataclass(frozen=True, repr=False)
class Trained:
    """One trained teacher, or in ``failure`` why there is none."""

    index: int
    model: Any = None
    packed: bytes | None = None
    failure: Failure | None = None


@dataclass(frozen=True, repr=False)
class Asked:
    """One teacher's votes, shape (n_queries,), or in ``failure`` why there are none."""

    index: int
    labels: npt.NDArray[np.integer[Any]] | None = None
    failure: Failure | None = None


def seed_names(estimator: Any) -> list[str]:
    """Return the names of every ``random_state``, nested ones too."""
    return sorted(n for n in estimator.get_params(deep=True) if n == "random_state" or n.endswith("__random_state"))


def seeded_clone(estimator: Any, seed: int, index: int, names: list[str] | None = None) -> Any:
    """Return an unfitted copy with every ``random_state`` set from the shard's index; ``names`` if they are known."""
    copy, names = clone(estimator), seed_names(estimator) if names is None else names
    seeds = {name: training_seed(seed, _SEED_PATH, index, j) for j, name in enumerate(names)}
    if [*seeds] == ["random_state"] and type(copy).set_params is BaseEstimator.set_params:
        copy.random_state = seeds["random_state"]  # what set_params does, after a long look at all parameters
        return copy
    return copy.set_params(**seeds)


def global_seed(seed: int, index: int) -> int:
    """Return what NumPy's and Python's global generators are seeded with while teacher ``index`` is at work."""
    return training_seed(seed, _SEED_PATH, index, _GLOBAL)


def train_batch(tasks: list[ShardTask], config: dict[str, Any]) -> list[Trained]:
    """Train a few teachers, one after the other."""
    # "sequential": an estimator's own n_jobs would multiply with ours.
    with contained(), global_generators(), parallel_config("sequential"), sklearn.config_context(**config):
        trained = []
        for task in tasks:
            seed_generators(task.seed)
            trained.append(_train(task))
        return trained


def _train(task: ShardTask) -> Trained:
    if task.failure is not None or task.y is None:
        return Trained(task.index, failure=task.failure)
    try:
        classes = np.unique(task.y)
        if len(classes) == 1:
            # Many estimators refuse a single class; this looks at the shard alone, as it must.
            model: Any = DummyClassifier(strategy="constant", constant=classes[0]).fit(task.X, task.y)
        else:
            # Some refuse classes with a gap. Looked at in this shard alone; without gaps nothing is around the model.
            model = OwnClasses(task.estimator) if has_gaps(classes) else task.estimator
            with interruptible():
                rows = task.X
                if not isinstance(rows, np.ndarray):
                    rows = rows.copy()
                elif not rows.flags.writeable:  # joblib's large arrays: an estimator with ``copy=False`` may write
                    rows = np.array(rows)
                model = model.fit(rows, task.y)
    except BaseException as error:
        return Trained(task.index, failure=Failure.of(error))
    if task.key is None:
        return Trained(task.index, model)
    try:
        return Trained(task.index, model, pack(model, task.key))
    except InvalidInputError as error:
        return Trained(task.index, failure=Failure(str(error)))
    except MemoryError as error:
        return Trained(task.index, failure=Failure.of(error))


def vote_batch(
    teachers: list[tuple[int, Any, int]],
    X: Any,
    *,
    n_classes: int,
    chunk_size: int,
    config: dict[str, Any],
    trusted: bool,
) -> list[Asked]:
    """Ask a few teachers (index, model, seed) about all rows, ``chunk_size`` at a time.

    ``trusted``: whether they were made of a plain estimator (:func:`is_plain`).
    """
    with contained(), global_generators(), parallel_config("sequential"), sklearn.config_context(**config):
        asked = []
        for index, model, seed in teachers:
            seed_generators(seed)
            asked.append(_vote(index, model, X, n_classes, chunk_size, trusted))
        return asked


def _vote(index: int, model: Any, X: Any, n_classes: int, chunk_size: int, trusted: bool) -> Asked:
    labels = np.empty(X.shape[0], dtype=np.int16 if n_classes <= np.iinfo(np.int16).max else np.int32)
    for part in slices(X.shape[0], chunk_size):
        try:
            said = np.asarray(_predict(model, X, part, trusted=trusted))
        except BaseException as error:
            return Asked(index, failure=Failure.of(error))
        n_rows = part.stop - part.start
        if said.shape == (n_rows, 1):
            said = said[:, 0]
        if said.shape != (n_rows,) or said.dtype.kind not in "biuf":
            return Asked(index, failure=Failure("predict did not return one of the classes it was trained on per row"))
        if (said != np.floor(said)).any() or said.min() < 0 or said.max() >= n_classes:
            return Asked(index, failure=Failure("predict returned a class it was not trained on"))
        labels[part] = said
    return Asked(index, labels)


def _predict(model: Any, X: Any, part: slice, *, trusted: bool) -> Any:
    """Predict rows that the next teacher will see unchanged, whatever this one does to them.

    A transformer with ``copy=False`` writes into its input: then one shard's data would move other teachers' votes.
    """
    if not (trusted and isinstance(X, np.ndarray)):
        # A copy: code that is not scikit-learn's may write to a read-only view (torch.from_numpy ignores the flag).
        return model.predict(X.iloc[part].copy() if hasattr(X, "iloc") else X[part].copy())
    rows = np.asarray(X)[part].view()
    rows.flags.writeable = False
    try:
        return model.predict(rows)
    except ValueError:  # "output array is read-only", worded differently everywhere
        return model.predict(rows.copy())


def is_plain(value: Any) -> bool:
    """Whether an estimator is made of scikit-learn's own parts and plain parameters only."""
    if value is None or isinstance(value, bool | int | float | str | np.generic | np.ndarray):
        return not (isinstance(value, np.ndarray) and value.dtype.kind == "O")
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    if isinstance(value, OwnClasses):
        return is_plain(value.estimator)
    if isinstance(value, type) or not type(value).__module__.startswith("sklearn."):
        return False
    return hasattr(value, "get_params") and all(map(is_plain, value.get_params(deep=False).values()))


def current_config() -> dict[str, Any]:
    """Return scikit-learn's settings, which other processes would not know of."""
    return dict(sklearn.get_config())
