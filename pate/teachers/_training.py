"""Training of those teachers that are not kept already: what is found in a store, what fails, what is told of both."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.progress import track
from pate.core.types import IntArray
from pate.data.partition import Partition
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.teachers._failed import tell_of_failures
from pate.teachers._shards import Trained
from pate.teachers.checkpoints import CheckpointStore, DamagedCheckpointError

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
                if i not in failed:
                    self._look_up(store, i, X, labels, shards[i], teachers, keys, failed)
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

    def _look_up(
        self,
        store: CheckpointStore,
        i: int,
        X: Any,
        labels: npt.NDArray[np.int64],
        shard: Shard,
        teachers: list[Any],
        keys: list[bytes | None],
        failed: dict[int, str],
    ) -> None:
        """Fill in what is kept of teacher ``i``, finished or failed."""
        try:
            keys[i] = key = self._key(X, labels, i, shard)
        except InvalidInputError as error:  # values of a kind that could not be recognised again
            failed[i] = str(error)
            return
        why = store.failure(i, key)
        if why is not None:
            failed[i] = why
            return
        try:
            teachers[i] = store.load(i, key)
        except DamagedCheckpointError as error:
            warnings.warn(
                f"teacher {i}'s checkpoint could not be read ({error}); it is trained again.",
                CheckpointWarning,
                stacklevel=4,
            )


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
