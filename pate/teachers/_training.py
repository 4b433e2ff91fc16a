"""Training of those teachers that are not kept already: what is found in a store, what fails, what is told of both."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate.core.progress import track
from pate.core.secret import training_seed
from pate.core.types import IntArray
from pate.data.partition import Partition
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.teachers._shards import Trained, tell_of_failures
from pate.teachers._usable import is_frame, is_sparse, is_texts, take_rows
from pate.teachers.checkpoints import CheckpointStore, DamagedCheckpointError

# A teacher trained on rows that are nobody's: what cannot work for anybody is refused before private data is
# touched.

_SEED_PATH = 0x7E57
#: Rows that are tried first: quick, and enough for most.
_FEW = 100
_WORDS = ("day", "night", "well", "ill", "rest", "more", "less", "none")


def rehearse(
    work: Callable[[Any, npt.NDArray[np.int64]], Any],
    like: Any,
    *,
    n_rows: int,
    n_classes: int,
    quoted: bool = False,
    public: bool = False,
) -> None:
    """Run ``work(rows, labels)`` on made-up records until it goes through once; refuse what never does.

    They are like ``like`` in their number and kinds of columns; no value of theirs is looked at unless ``public``: then
    its own rows are tried first. ``quoted``: the words of an exception may be shown, as the code holds no data.
    """
    if n_rows < 2:
        return  # every shard holds a single class: such a teacher says it always
    reason = ""
    for n in sorted({min(_FEW, n_rows), n_rows}):
        for rows in _made_up(like, n, public=public):
            for k in dict.fromkeys([min(n_classes, n), 2]):
                try:
                    work(rows, np.arange(n, dtype=np.int64) % k)
                    return
                except Exception as error:
                    name = type(error).__name__
                    wrong_setting = name == "InvalidParameterError"  # whose words are about public parameters
                    said = quoted or wrong_setting or isinstance(error, InvalidInputError)
                    reason = f"{name}: {error}" if said else f"{name} (in words that are withheld)"
                    if wrong_setting:
                        raise InvalidInputError(f"the estimator cannot be trained: {reason}") from None
    if is_frame(like) and not public and any(kind != np.float64 for kind in like.dtypes):
        return  # what its columns of text must look like, nobody can guess
    rows = "public rows with made-up classes" if public else "made-up rows of the shape that a shard has"
    raise InvalidInputError(
        f"the estimator cannot be trained on {n_rows} {rows}: {reason}. No private record was looked at: it would fail "
        "for every shard. Mend its settings, or take fewer teachers (larger shards)."
    )


def _made_up(like: Any, n: int, *, public: bool) -> Iterator[Any]:
    """Yield tables of ``n`` rows: public ones, then numbers between 0 and 1, then small whole numbers."""
    if public:
        yield take_rows(like, np.arange(n, dtype=np.int64) % like.shape[0])
    rng = np.random.default_rng(training_seed(0, _SEED_PATH))
    if is_texts(like):
        texts = np.empty(n, dtype=object)
        texts[:] = [" ".join(rng.choice(_WORDS, 6)) for _ in range(n)]
        yield texts
        return
    shape = (n, *like.shape[1:])
    for numbers in (rng.random(shape), rng.integers(0, 10, shape).astype(np.float64)):
        if is_frame(like):
            yield _frame(like, numbers)
        elif is_sparse(like):
            yield sparse.csr_array(numbers.astype(like.dtype))
        else:
            yield numbers.astype(like.dtype if like.dtype.kind in "fO" else np.float64)


def _frame(like: Any, numbers: npt.NDArray[np.float64]) -> Any:
    import pandas as pd

    columns: dict[int, Any] = {}
    for j, kind in enumerate(like.dtypes):
        words = np.array(_WORDS, dtype=object)[(numbers[:, j] * len(_WORDS)).astype(int) % len(_WORDS)]
        if isinstance(kind, pd.CategoricalDtype):
            columns[j] = pd.Categorical(words)
        else:
            values = numbers[:, j] if kind == np.float64 else words
            columns[j] = pd.Series(values, dtype=kind if kind != object else None)  # noqa: E721
    frame = pd.DataFrame(columns)
    frame.columns = like.columns
    return frame


#: Rows of one shard, ascending.
Shard = IntArray
#: Why a teacher of an empty shard failed.
NO_RECORD = "its shard holds no record that can be used"


class Trains(ABC):
    """The part of an ensemble that trains whoever is not in the store."""

    verbose: bool
    partition_: Partition
    failed_: dict[int, str]
    failed_in_vote_: dict[int, str]

    @abstractmethod
    def _key(self, X: Any, labels: npt.NDArray[np.int64], index: int, shard: Shard) -> bytes:
        """Return the digest of everything that decides how teacher ``index`` comes out."""

    @abstractmethod
    def _rehearse(self, X: Any, n_rows: int, *, public: bool) -> None:
        """Refuse what could not be trained on anybody's rows, on made-up ones like ``X`` (or on ``X``, if public)."""

    @abstractmethod
    def _train(
        self, waiting: list[int], keys: list[bytes | None], X: Any, labels: npt.NDArray[np.int64], shards: list[Shard]
    ) -> Generator[Trained, None, None]:
        """Yield the teachers ``waiting`` as they are finished; ``shards`` are their rows in ``X``."""

    def _work(self, n_records: int) -> tuple[float, str] | None:
        """Return how much one teacher has to do and in what unit, for the progress bar."""
        return None

    def _train_all(
        self, X: Any, labels: npt.NDArray[np.int64], shards: list[Shard], store: CheckpointStore | None, shown: Any
    ) -> list[Any]:
        """Train whoever is not in ``store`` and return all teachers in order, None for those that failed."""
        n_shards = len(shards)
        teachers: list[Any] = [None] * n_shards
        keys: list[bytes | None] = [None] * n_shards
        failed = {i: NO_RECORD for i, shard in enumerate(shards) if not len(shard)}
        if store is not None:
            for i in track(range(n_shards), total=n_shards, label="checkpoints", show=self.verbose):
                if i in failed:
                    continue
                try:
                    keys[i] = key = self._key(X, labels, i, shards[i])
                except InvalidInputError as error:  # values of a kind that could not be recognised again
                    failed[i] = str(error)
                    continue
                if (why := store.failure(i, key)) is not None:
                    failed[i] = why
                    continue
                try:
                    teachers[i] = store.load(i, key)
                except DamagedCheckpointError as error:
                    warnings.warn(
                        f"teacher {i}'s checkpoint could not be read ({error}); it is trained again.",
                        CheckpointWarning,
                        stacklevel=3,
                    )
        waiting = [i for i, teacher in enumerate(teachers) if teacher is None and i not in failed]
        self.n_resumed_ = n_shards - len(waiting)
        if waiting:
            n_rows = -(-self.partition_.n_units // n_shards)
            self._rehearse(X if shown is None else shown, n_rows, public=shown is not None)
        results = self._train(waiting, keys, X, labels, shards)
        work = self._work(X.shape[0])
        with closing(watched(results, len(waiting), "teachers", self.verbose, work)) as finished:
            for trained in finished:
                if trained.failure is not None:
                    failed[trained.index] = trained.failure.why
                    if store is not None:
                        store.save_failure(trained.index, keys[trained.index], trained.failure.why)
                    continue
                if store is not None:
                    store.save(trained.index, keys[trained.index], trained.packed)
                teachers[trained.index] = trained.model
        self.failed_, self.failed_in_vote_ = dict(sorted(failed.items())), {}
        tell_of_failures(
            self.failed_,
            n_shards,
            what="be trained",
            remedy="Their own words are withheld, as they may quote private values: fit the estimator on the records "
            "partition_.shard(number) yourself to see them. ",
        )
        return teachers


def watched(
    results: Generator[Any, None, None], total: int, label: str, show: bool, work: tuple[float, str] | None = None
) -> Generator[Any, None, None]:
    """Yield results behind a progress bar; closing this ends the workers and the bar (Ctrl-C, a failed teacher)."""
    with closing(results):
        yield from track(results, total=total, label=label, show=show, work=work)


def kept_seed(store: CheckpointStore, fresh: int) -> int:
    try:
        return store.seed(fresh)
    except DamagedCheckpointError:
        warnings.warn(
            "the seed kept in checkpoint_dir could not be read; all teachers are trained again.",
            CheckpointWarning,
            stacklevel=3,
        )
        return fresh


def secret_of_store(store: CheckpointStore) -> bytes:
    try:
        return store.secret()
    except DamagedCheckpointError:
        warnings.warn(
            "the secret of the shards kept in checkpoint_dir could not be read; new shards are cut and all teachers "
            "trained again.",
            CheckpointWarning,
            stacklevel=4,
        )
        return store.secret()
