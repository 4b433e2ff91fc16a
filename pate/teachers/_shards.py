"""What runs beside others: training a few teachers, and asking a few teachers.

The functions live in a module, not in closures, so that every joblib backend can send them by name. Nothing that a
teacher's estimator says (warnings, the text of an exception) leaves a task: it may quote private values.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import sklearn
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.metaestimators import available_if

from pate.core.secret import global_generators, training_seed
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.teachers._isolated import NO_MEMORY, contained, interruptible, out_of_memory
from pate.teachers._usable import slices
from pate.teachers.checkpoints import pack

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


# What becomes of a teacher that failed: it votes as nobody's data say, and the curator alone is told.

#: How many failures are told one by one.
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
    warnings.warn(
        f"{len(failures)} of {n_teachers} teachers could not {what} ({named}{more}). Each votes for a fixed class "
        f"instead, which hangs on no record.{everybody} {remedy}(Which teachers failed is private: do not publish it.)",
        CuratorWarning,
        stacklevel=4,
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
    """One teacher to train: its own rows and nobody else's, or in ``failure`` what is in their place."""

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


def seeded_clone(estimator: Any, seed: int, index: int) -> Any:
    """Return an unfitted copy with every ``random_state``, nested ones too, set from the shard's index."""
    copy = clone(estimator)
    names = sorted(n for n in copy.get_params(deep=True) if n == "random_state" or n.endswith("__random_state"))
    return copy.set_params(**{name: training_seed(seed, _SEED_PATH, index, j) for j, name in enumerate(names)})


def global_seed(seed: int, index: int) -> int:
    """Return what NumPy's and Python's global generators are seeded with while teacher ``index`` is at work."""
    return training_seed(seed, _SEED_PATH, index, _GLOBAL)


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
