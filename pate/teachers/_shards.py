"""What runs beside others: training a few teachers, and asking a few teachers.

The functions live in a module, not in closures, so that every joblib backend can send them by name. Nothing that a
teacher's estimator says (warnings, the text of an exception) leaves a task: it may quote private values.
"""

from __future__ import annotations

import random
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from threadpoolctl import threadpool_limits

from pate._random import training_seed
from pate.exceptions import InvalidInputError
from pate.teachers._classes import OwnClasses, has_gaps
from pate.teachers._clusters import HERE, UnansweredCalls, answer, raise_given_up
from pate.teachers._rows import slices
from pate.teachers.checkpoints import pack

#: The place of the teachers in the tree of training seeds.
_SEED_PATH = 0x7EAC
#: The global generators' place beside a teacher's parameters, of which there are fewer.
_GLOBAL = 0x610BA1
#: How often what a cluster lost is tried again, the first time included.
_ATTEMPTS = 4


@dataclass(frozen=True, repr=False)
class ShardTask:
    """One teacher to train: its own rows and nobody else's."""

    index: int
    estimator: Any
    X: Any
    y: npt.NDArray[np.int64]
    key: bytes | None
    seed: int


@dataclass(frozen=True, repr=False)
class Trained:
    """One trained teacher, or in ``failure`` why there is none (never the data's own words)."""

    index: int
    model: Any = None
    packed: bytes | None = None
    failure: str | None = None


@dataclass(frozen=True, repr=False)
class Asked:
    """One teacher's votes, shape (n_queries,), or in ``failure`` why there are none."""

    index: int
    labels: npt.NDArray[np.integer[Any]] | None = None
    failure: str | None = None


def seeded_clone(estimator: Any, seed: int, index: int) -> Any:
    """Return an unfitted copy with every ``random_state``, nested ones too, set from the shard's index.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> a, b = (seeded_clone(DecisionTreeClassifier(), 0, 5) for _ in range(2))
    >>> a.random_state == b.random_state
    True
    """
    copy = clone(estimator)
    names = sorted(n for n in copy.get_params(deep=True) if n == "random_state" or n.endswith("__random_state"))
    return copy.set_params(**{name: training_seed(seed, _SEED_PATH, index, j) for j, name in enumerate(names)})


def global_seed(seed: int, index: int) -> int:
    """Return what NumPy's and Python's global generators are seeded with while teacher ``index`` is at work.

    Examples
    --------
    >>> global_seed(0, 5) == global_seed(0, 5), global_seed(0, 5) == global_seed(0, 6)
    (True, False)
    """
    return training_seed(seed, _SEED_PATH, index, _GLOBAL)


@contextmanager
def global_generators(seed: int | None = None) -> Iterator[None]:
    """Seed ``np.random`` and ``random``, and give both back as they were.

    Whatever draws from them (``StratifiedKFold(shuffle=True)`` in a search, say) would make each teacher depend on how
    much the teachers before it drew, and so on their shards.
    """
    state, plain = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(plain)


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


def train_batch(tasks: list[ShardTask], config: dict[str, Any]) -> list[Trained]:
    """Train a few teachers, one after the other."""
    # "sequential": an estimator's own n_jobs would multiply with ours.
    with contained(), parallel_config("sequential"), sklearn.config_context(**config):
        trained = []
        for task in tasks:
            with global_generators(task.seed):
                trained.append(_train(task))
        return trained


def _train(task: ShardTask) -> Trained:
    classes = np.unique(task.y)
    try:
        if len(classes) == 1:
            # Many estimators refuse a single class; this looks at the shard alone, as it must.
            model: Any = DummyClassifier(strategy="constant", constant=classes[0]).fit(task.X, task.y)
        else:
            # Some refuse classes with a gap. Looked at in this shard alone; without gaps nothing is around the model.
            model = OwnClasses(task.estimator) if has_gaps(classes) else task.estimator
            with interruptible():
                model = model.fit(_writeable(task.X), task.y)
    except Exception as error:
        return Trained(task.index, failure=_reason(error))
    if task.key is None:
        return Trained(task.index, model)
    try:
        return Trained(task.index, model, pack(model, task.key))
    except InvalidInputError as error:
        return Trained(task.index, failure=str(error))


def _writeable(X: Any) -> Any:
    """Return rows that an estimator with ``copy=False`` can write to, in any process.

    joblib hands large arrays to other processes read-only.
    """
    if isinstance(X, np.ndarray):
        return X if X.flags.writeable else np.array(X)
    return X.copy()


def vote_batch(
    teachers: list[tuple[int, Any, int]],
    X: Any,
    *,
    n_classes: int,
    chunk_size: int,
    config: dict[str, Any],
) -> list[Asked]:
    """Ask a few teachers (index, model, seed) about all rows, ``chunk_size`` at a time."""
    with contained(), parallel_config("sequential"), sklearn.config_context(**config):
        asked = []
        for index, model, seed in teachers:
            with global_generators(seed):
                asked.append(_vote(index, model, X, n_classes, chunk_size))
        return asked


def _vote(index: int, model: Any, X: Any, n_classes: int, chunk_size: int) -> Asked:
    labels = np.empty(X.shape[0], dtype=np.int16 if n_classes <= np.iinfo(np.int16).max else np.int32)
    trusted = is_plain(model)
    for part in slices(X.shape[0], chunk_size):
        try:
            said = np.asarray(_predict(model, X, part, trusted=trusted))
        except Exception as error:
            return Asked(index, failure=_reason(error))
        n_rows = part.stop - part.start
        if said.shape == (n_rows, 1):
            said = said[:, 0]
        if said.shape != (n_rows,) or said.dtype.kind not in "biuf":
            return Asked(index, failure="predict did not return one of the classes it was trained on per row")
        if (said != np.floor(said)).any() or said.min() < 0 or said.max() >= n_classes:
            return Asked(index, failure="predict returned a class it was not trained on")
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
    """Whether an estimator is made of scikit-learn's own parts and plain parameters only.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer, StandardScaler
    >>> is_plain(make_pipeline(StandardScaler(), DummyClassifier()))
    True
    >>> is_plain(make_pipeline(FunctionTransformer(abs), DummyClassifier()))
    False
    """
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


def _reason(error: Exception) -> str:
    name = type(error).__name__
    if name == "InvalidParameterError":  # quotes the estimator's parameters, which are public
        return f"its estimator raised {name}: {error}"
    return f"its estimator raised {name}"


def side_by_side(
    function: Callable[..., list[Any]], calls: Iterable[tuple[Any, ...]], *, n_jobs: int | None, **options: Any
) -> Generator[Any, None, None]:
    """Yield the items that ``function(*args, **options)`` returns for each of ``calls``, as they are finished.

    The backend and its options are joblib's business (``joblib.parallel_config``). Training and voting ask for it
    alike: with other options joblib would stop its worker processes and start new ones.
    """
    waiting = UnansweredCalls(calls)
    # Held here as well: with threads, tasks overlap, and the last one to leave would restore another one's state.
    with contained(), global_generators():
        raise_given_up(get_active_backend()[0])
        for attempts_left in reversed(range(_ATTEMPTS)):
            jobs = (delayed(answer)(HERE, number, function, *args, **options) for number, args in waiting)
            try:
                with closing(_answers(jobs, n_jobs)) as answers:
                    for number, items in answers:
                        waiting.answered(number)
                        yield from items
                return
            except CancelledError:  # a cluster lost the only copy of something with one of its workers
                if not attempts_left:
                    raise
                waiting.again()


def _answers(jobs: Iterator[Any], n_jobs: int | None) -> Generator[tuple[int, list[Any]], None, None]:
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    except ValueError:  # a backend that only returns everything at the end: wave by wave then
        parallel = Parallel(n_jobs=n_jobs, batch_size=1)
        while wave := list(islice(jobs, 2 * workers(n_jobs))):
            yield from parallel(wave)
        return
    with closing(parallel(jobs)) as results:
        yield from results


def current_config() -> dict[str, Any]:
    """Return scikit-learn's settings, which other processes would not know of."""
    return dict(sklearn.get_config())


def on_cluster() -> bool:
    """Whether ``joblib.parallel_config`` names a backend whose workers may be on other machines.

    Examples
    --------
    >>> on_cluster()
    False
    """
    return not type(get_active_backend()[0]).__module__.startswith("joblib._parallel_backends")


def workers(n_jobs: int | None) -> int:
    """Return how many tasks joblib will run side by side, ``joblib.parallel_config`` included."""
    return int(effective_n_jobs(n_jobs))


def batches(items: list[Any], *, n_jobs: int | None, largest: int) -> Iterator[list[Any]]:
    """Yield groups of items: large enough to make a task's overhead small, small enough to keep all workers busy.

    Examples
    --------
    >>> [len(b) for b in batches(list(range(40)), n_jobs=1, largest=16)]
    [10, 10, 10, 10]
    """
    size = max(1, min(largest, len(items) // (4 * workers(n_jobs))))
    for start in range(0, len(items), size):
        yield items[start : start + size]
