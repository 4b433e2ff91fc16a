"""What every ensemble of teachers does alike: cut shards, keep finished teachers, count votes block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_int, quietly
from pate._core.curator import warn
from pate._core.frames import plain_column, plain_rows
from pate._core.progress import track
from pate._core.recorder import note, playing
from pate._core.secret import derive, fresh_secret, stored_secret, system_bytes, training_seed
from pate._core.types import IntArray, Mask
from pate.data import has_texts, records_fingerprint
from pate.data.partition import Partition, partition
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.teachers._shards import Asked, Failure, Trained, fixed_vote, tell_of_failures
from pate.teachers._usable import (
    hash_rows,
    is_frame,
    is_sparse,
    is_texts,
    owned,
    read_labels,
    slices,
    take_rows,
    usable,
    warn_of_duplicates,
)
from pate.teachers.checkpoints import CheckpointStore, DamagedCheckpointError
from pate.votes import Votes

#: Rows that all teachers look at before the next ones are taken up: bounds memory, whatever the number of rows.
_BLOCK_ROWS = 65_536


#: Rows of one shard, ascending.
Shard = IntArray
#: Why a teacher of an empty shard failed.
NO_RECORD = "its shard holds no record that can be used"


@dataclass(frozen=True, repr=False)
class ReadRows:
    """Private rows that were read by :meth:`ShardEnsemble.read_private`: its ``fit`` takes them as they are."""

    rows: Any
    usable: Mask
    given: Any
    #: Whether public rows have texts among numbers: arrays of objects then stay so in every shard.
    objects: bool = False


@dataclass(repr=False, eq=False, kw_only=True)
class _Said:
    """What is said to every ensemble; each tells what its own are."""

    classes: Any = None
    n_jobs: int | None = None
    random_state: int | None = None
    partition_seed: int | None = None
    checkpoint_dir: Any = None
    verbose: bool = False


class ShardEnsemble(_Said, BaseEstimator, ABC):
    """Abstract base of ensembles of teachers on disjoint shards.

    A subclass defines how rows are checked, how a stored teacher is recognised, and how teachers are trained and asked.

    Examples
    --------
    >>> ShardEnsemble()
    Traceback (most recent call last):
    TypeError: Can't instantiate abstract class ShardEnsemble ...
    """

    n_teachers: int
    partition_: Partition
    teachers_: list[Any]
    failed_: dict[int, str]
    failed_in_vote_: dict[int, str]
    classes_: tuple[Any, ...]
    n_features_in_: int
    n_resumed_: int

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> Self:
        """Cut the private records into shards and train a teacher on each.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n_records, n_features), images (n, ...), or texts (n_records,)
            Private rows, of a kind that these teachers take (docs/data.md).
        y : array-like of shape (n_records,)
            Class values.
        groups : array-like of shape (n_records,) or None
            Who each record belongs to; all records of a group go to one shard (``votes.unit`` is then ``"group"``).
        X_public : as X, or None
            Public rows, where some are there already. That a teacher can be trained and can vote is then tried on them,
            with made-up classes, before private rows are used; without them on made-up rows. And what their columns
            hold is what private columns should: a private cell that is no number, in a column of numbers, is missing.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            What public facts decide: fewer records (or groups) than teachers, shapes and kinds of columns that do not
            fit, an estimator that cannot be trained on made-up rows of that shape.

        Notes
        -----
        No record decides whether there are votes. One that cannot be used (a class outside ``classes``, a missing
        value where the estimator takes none, no owner in ``groups``) is left out of its own shard. A teacher that
        fails on its shard, or has none left, is None in ``teachers_``, and votes for class ``index % n_classes`` on
        every row. A :class:`~pate.exceptions.CuratorWarning` tells of both: its numbers are private.

        Examples
        --------
        >>> from pate import TeacherEnsemble
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y, patients = np.arange(6.0).reshape(6, 1), [0, 1, 0, 1, 0, 1], list("aabbcc")
        >>> teachers = TeacherEnsemble(GaussianNB(), 3, classes=(0, 1), partition_seed=1).fit(
        ...     X, y, groups=patients
        ... )
        >>> teachers.partition_
        Partition(n_records=6, n_shards=3, unit='group', n_units=3)
        """
        n_teachers, seed = self._check_parameters()
        y, groups = plain_column(y), plain_column(groups, name="groups")
        read = X if isinstance(X, ReadRows) else quietly("X", self.read_private, X, X_public)
        rows, complete = read.rows, read.usable
        n_records = rows.shape[0]
        classes, labels = read_labels(y, self.classes, n_records)
        groups, has_owner = quietly("groups", owned, groups, n_records)
        if n_records < n_teachers:
            raise InvalidInputError(
                f"n_teachers must be at most the number of records ({n_records}), got {n_teachers}. "
                "Each teacher needs records of its own: ask for fewer teachers."
            )
        store = None
        if self.checkpoint_dir is not None and playing() is None:  # a replay keeps no teachers
            store = self._open_store()
            if self.random_state is None:
                message = "the seed kept in checkpoint_dir could not be read; all teachers are trained again."
                seed = _read_or_new(partial(store.seed, seed), message)
        fingerprint = records_fingerprint(labels, groups)
        note("rows", who=type(self).__name__, rows=rows, labels=labels, groups=groups)
        keyed = self._key_of_cut(store, groups, fingerprint)
        cut = _coupled(partition(n_records, n_teachers, groups=groups, **keyed), keyed)
        self.__dict__.pop("teachers_", None)  # if this fit fails, no teachers of an earlier one stay behind
        self.partition_, self.classes_ = cut, classes
        self._seed, self._classes_inferred = seed, self.classes is None
        self._fingerprint, self._objects = fingerprint, read.objects
        self._partition_seeded = self.partition_seed is not None or playing() is not None
        self._set_columns(rows, read.given)
        shown = None if X_public is None else quietly("X_public", self._public_rows, X_public)[0]
        fine = usable(classes, labels, complete, has_owner)
        warn_of_duplicates(rows, cut)
        # What cannot be used stands for nothing: those records are in no shard.
        shards = [shard[fine[shard]] for shard in cut.shards()]
        self.teachers_ = self._train_all(rows, labels, shards, store, shown)
        note("teachers", ensemble=self, rows=rows, labels=labels, usable=fine)
        return self

    def vote(self, X: Any, *, keep_labels: bool = True, chunk_size: int | None = None) -> Votes:
        """Ask every teacher about public rows.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_queries, n_features), or texts of shape (n_queries,)
            Public rows, with the columns of the private ones.
        keep_labels : bool
            Whether ``votes.labels`` (n_teachers x n_queries) is kept beside the counts.
        chunk_size : int or None
            A teacher looks at so many rows at a time; memory grows with it, results do not depend on it. None takes
            what suits these teachers.

        Returns
        -------
        Votes
            **Sensitive.**

        Raises
        ------
        InvalidInputError
            ``X`` has other columns than the private data.

        Notes
        -----
        A teacher that fails on a block of 65,536 rows votes for its fixed class there, as one that could not be
        trained does everywhere; ``failed_in_vote_`` says why, and a warning tells the curator.

        Examples
        --------
        >>> from pate import TeacherEnsemble
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = np.arange(8.0).reshape(8, 1), [0, 0, 0, 0, 1, 1, 1, 1]
        >>> teachers = TeacherEnsemble(GaussianNB(), 2, classes=(0, 1), random_state=0).fit(
        ...     X, y
        ... )
        >>> teachers.vote([[0.0], [7.0]]).counts.sum(axis=1)
        array([2, 2])
        """
        check_is_fitted(self, "teachers_")
        if chunk_size is not None:
            chunk_size = check_int("chunk_size", chunk_size, low=1)
        rows, named = self._public_rows(X)
        n_teachers, n_queries, n_classes = len(self.teachers_), rows.shape[0], len(self.classes_)
        kept: npt.NDArray[Any] | None = None
        if keep_labels:
            kept = np.empty((n_teachers, n_queries), dtype=np.int16 if n_classes <= 2**15 else np.int32)
        counts = np.zeros((n_queries, n_classes), dtype=np.int32)
        parts = list(slices(n_queries, max(chunk_size or 1, _BLOCK_ROWS)))
        failures: dict[int, str] = {}
        everywhere = (Asked(i, failure=Failure(why)) for i, why in self.failed_.items())
        answers = self._ask_blocks(rows, parts, chunk_size)
        n_answers = (n_teachers - len(self.failed_)) * len(parts)
        with closing(watched(answers, n_answers, "teachers voting", self.verbose)) as seen:
            for part, asked in chain(((slice(n_queries), a) for a in everywhere), seen):
                said: Any = asked.labels
                if asked.failure is not None:
                    said = fixed_vote(asked.index, n_classes)
                    if asked.index not in self.failed_:
                        failures[asked.index] = asked.failure.why
                if kept is not None:
                    kept[asked.index, part] = said
                else:
                    counts[np.arange(n_queries)[part], said] += 1
        self.failed_in_vote_ = failures
        tell_of_failures(
            failures,
            n_teachers,
            what="vote",
            remedy="Their own words are withheld, as they may quote private values. Public columns need the kinds of "
            "values that the private ones have, and the estimator must take values it has not seen. ",
        )

        facts: dict[str, Any] = {
            "classes": self.classes_,
            "unit": self.partition_.unit,
            "n_units": self.partition_.n_units,
            "query_hashes": hash_rows(named),
        }
        if kept is not None:
            votes = Votes.from_labels(kept, **facts)
        else:
            votes = Votes.from_counts(counts, n_teachers=n_teachers, **facts)
        return replace(
            votes,
            classes_inferred=self._classes_inferred,
            fingerprint=self._fingerprint,
            partition_seeded=self._partition_seeded,
        )

    def keep_secret_in(self, path: Any) -> Self:
        """Take the secret by which shards are cut from this file, made at the first ``fit``; not kept by a clone.

        With ``checkpoint_dir`` one is kept there anyway; a job with a ledger keeps it beside the ledger.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from pate import TeacherEnsemble
        >>> from sklearn.naive_bayes import GaussianNB
        >>> key = pathlib.Path(tempfile.mkdtemp()) / "shards.key"
        >>> X, y = np.arange(8.0).reshape(8, 1), [0, 0, 0, 0, 1, 1, 1, 1]
        >>> a, b = (
        ...     TeacherEnsemble(GaussianNB(), 2, classes=(0, 1)).keep_secret_in(key).fit(X, y)
        ...     for _ in range(2)
        ... )
        >>> a.partition_.fingerprint() == b.partition_.fingerprint()
        True
        """
        self._secret_file = Path(path)
        return self

    def with_shard(self, X: Any, y: Any, *, groups: Any = None, shard: int) -> Self:
        """Return a copy in which the teacher of one shard is trained again, on a neighbouring data set in the same cut.

        What a ``fit`` on that data set would give under this partition and this seed, for the cost of one teacher: for
        audits of what one unit's records can move. All other teachers are these very ones.

        Parameters
        ----------
        X, y, groups : as in :meth:`fit`
            As many records, in the same places. Records of other shards are read, and not looked at.
        shard : int

        Raises
        ------
        InvalidInputError
            Another number of records, or no such shard.

        Examples
        --------
        >>> from pate import TeacherEnsemble
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = np.arange(8.0).reshape(8, 1), np.array([0, 0, 0, 0, 1, 1, 1, 1])
        >>> teachers = TeacherEnsemble(GaussianNB(), 2, classes=(0, 1), random_state=0).fit(
        ...     X, y
        ... )
        >>> moved = teachers.with_shard(
        ...     X, np.where(teachers.partition_.assignment == 1, 0, y), shard=1
        ... )
        >>> moved.vote([[7.0]]).counts.tolist(), moved.teachers_[0] is teachers.teachers_[0]
        ([[1, 1]], True)
        """
        check_is_fitted(self, "teachers_")
        shard = check_int("shard", shard, low=0, high=len(self.teachers_) - 1)
        y, groups = plain_column(y), plain_column(groups, name="groups")
        read = X if isinstance(X, ReadRows) else quietly("X", self.read_private, X)
        n_records = read.rows.shape[0]
        check_int("the number of records", n_records, low=self.partition_.n_records, high=self.partition_.n_records)
        _, labels = read_labels(y, self.classes_, n_records)
        _, has_owner = quietly("groups", owned, groups, n_records)
        fine = read.usable & (labels >= 0) & has_owner
        shards = [rows[fine[rows]] for rows in self.partition_.shards()]
        moved = copy(self)
        moved.teachers_, moved.failed_ = list(self.teachers_), {i: w for i, w in self.failed_.items() if i != shard}
        moved.teachers_[shard] = None
        if not len(shards[shard]):
            moved.failed_[shard] = NO_RECORD
            return moved
        keys: list[bytes | None] = [None] * len(shards)
        with closing(moved._train([shard], keys, read.rows, labels, shards)) as finished:
            for trained in finished:
                moved.teachers_[trained.index] = trained.model
                if trained.failure is not None:
                    moved.failed_[trained.index] = trained.failure.why
        return moved

    def _work(self, n_records: int) -> tuple[float, str] | None:
        """Return how much one teacher has to do and in what unit, for the progress bar."""
        return None

    def _train_all(
        self, X: Any, labels: npt.NDArray[np.int64], shards: list[Shard], store: CheckpointStore | None, shown: Any
    ) -> list[Any]:
        """Train the teachers that are not in ``store`` and return all teachers in order, None for those that failed."""
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
                    warn(
                        f"teacher {i}'s checkpoint could not be read ({error}); it is trained again.",
                        CheckpointWarning,
                    )
        waiting = [i for i, teacher in enumerate(teachers) if teacher is None and i not in failed]
        self.n_resumed_ = n_shards - len(waiting)
        if waiting:
            n_rows = -(-self.partition_.n_units // n_shards)
            self._rehearse(X if shown is None else shown, n_rows, public=shown is not None)
        results = self._train(waiting, keys, X, labels, shards)
        work = self._work(X.shape[0])
        with (
            closing(watched(results, len(waiting), "teachers", self.verbose, work)) as finished,
            self._interrupted(teachers),
        ):
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

    @contextmanager
    def _interrupted(self, teachers: list[Any]) -> Iterator[None]:
        """Have Ctrl-C say what is kept: it is the last line of what Python prints then."""
        try:
            yield
        except KeyboardInterrupt as stop:
            done = f"{sum(one is not None for one in teachers)} of {len(teachers)} teachers are finished"
            kept = f"kept in {str(self.checkpoint_dir)!r}: the same fit goes on with the others"
            lost = "none is kept. With checkpoint_dir= each is kept once it is finished, and the same fit goes on"
            stop.args = (f"{done}, and {lost if self.checkpoint_dir is None else kept}.",)
            raise

    def _key_of_cut(self, store: CheckpointStore | None, groups: Any, fingerprint: str) -> dict[str, Any]:
        """Return by what :func:`pate.partition` cuts this fit's data."""
        if self.partition_seed is not None:
            return {"partition_seed": self.partition_seed}
        recorder = playing()
        if recorder is not None:
            # Each list of labels has a cut of its own, all of one law. A replay couples them: one cut for neighbours.
            return {"secret": recorder.fixed("cut")}
        file = getattr(self, "_secret_file", None)
        kept = None if file is None else stored_secret(file)
        if kept is None and store is not None:
            message = "the secret of the shards kept in checkpoint_dir could not be read; new shards are cut and all "
            message += "teachers trained again."
            kept = _read_or_new(store.secret, message)
        secret = kept or fresh_secret()
        # Places mean something in one order of the file only. Ids mean the same person in every one.
        return {"secret": derive(secret, f"records {fingerprint}") if groups is None else secret}

    def read_private(self, X: Any, like: Any = None) -> ReadRows:
        """Read private rows, checked by what is public, odd cells missing: once, for :meth:`fit` too.

        Examples
        --------
        >>> from pate import TeacherEnsemble
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X = np.array([[1, "John Doe"], [2, 3.5]], dtype=object)
        >>> read = TeacherEnsemble(GaussianNB(), 2).read_private(X)
        >>> read.rows
        array([[1. , nan],
               [2. , 3.5]])
        >>> read.usable
        array([False,  True])
        """
        X, like = plain_rows(X), plain_rows(like, name="X_public")
        rows, usable = self._private_rows(X, like)
        # What a row is like a list does not say: the public rows do.
        return ReadRows(rows, usable, X if hasattr(X, "shape") else like, has_texts(like))

    def _ask_blocks(
        self, rows: Any, parts: list[slice], chunk_size: int | None
    ) -> Generator[tuple[slice, Asked], None, None]:
        for part in parts:
            block = rows if len(parts) == 1 else rows.iloc[part] if hasattr(rows, "iloc") else rows[part]
            with closing(self._ask(block, chunk_size)) as answers:
                for asked in answers:
                    yield part, asked

    def _get_fitted_attr_html(self, doc_link: str = "") -> tuple[Any, ...]:
        # scikit-learn's notebook display would print the teachers and the partition.
        return ()

    @abstractmethod
    def _check_model(self) -> None:
        """Refuse what cannot be a teacher."""

    @abstractmethod
    def _private_rows(self, X: Any, like: Any) -> tuple[Any, Mask]:
        """Return checked rows of shape (n_records, ...), to be cut by :meth:`_train`, and which can be used.

        ``like`` is None or public rows: what their columns hold is what the private ones should.
        """

    @abstractmethod
    def _set_columns(self, X: Any, given: Any) -> None:
        """Remember what public rows must look like, from the checked rows and what was given."""

    @abstractmethod
    def _public_rows(self, X: Any) -> tuple[Any, Any]:
        """Return rows as the teachers take them, and as they are recognised by their hash."""

    @abstractmethod
    def _open_store(self) -> CheckpointStore:
        """Return the folder of finished teachers, refusing teachers that it could not keep."""

    @abstractmethod
    def _key(self, X: Any, labels: npt.NDArray[np.int64], index: int, shard: Shard) -> bytes:
        """Return the digest of everything that decides how teacher ``index`` comes out."""

    @abstractmethod
    def _rehearse(self, X: Any, n_rows: int, *, public: bool) -> None:
        """Refuse what could not be trained on any rows, on made-up ones like ``X`` (or on ``X``, if public)."""

    @abstractmethod
    def _train(
        self, waiting: list[int], keys: list[bytes | None], X: Any, labels: npt.NDArray[np.int64], shards: list[Shard]
    ) -> Generator[Trained, None, None]:
        """Yield the teachers ``waiting`` as they are finished; ``shards`` are their rows in ``X``."""

    @abstractmethod
    def _ask(self, X: Any, chunk_size: int | None) -> Generator[Asked, None, None]:
        """Yield every teacher's votes on a block of rows, but for those that are None."""

    def _check_parameters(self) -> tuple[int, int]:
        """Return the number of teachers and the seed of this fit."""
        self._check_model()
        if self.n_jobs is not None and check_int("n_jobs", self.n_jobs) == 0:
            raise InvalidInputError("n_jobs must be None or a whole number other than 0, got 0. -1 takes all cores.")
        if self.random_state is None:
            seed = int.from_bytes(system_bytes(16), "little")
        else:
            seed = check_int("random_state", self.random_state, low=0, remedy="None draws a seed.")
        return check_int("n_teachers", self.n_teachers, low=1), seed


def watched(
    results: Generator[Any, None, None], total: int, label: str, show: bool, work: tuple[float, str] | None = None
) -> Generator[Any, None, None]:
    """Yield results behind a progress bar; closing this ends the workers and the bar (Ctrl-C, a failed teacher)."""
    with closing(results):
        yield from track(results, total=total, label=label, show=show, work=work)


def _read_or_new(read: Callable[[], Any], message: str) -> Any:
    """Return what a store keeps; where that is damaged, what it keeps from now on, and the data curator is warned."""
    try:
        return read()
    except DamagedCheckpointError:
        warn(message, CheckpointWarning)
        return read()


def _coupled(cut: Partition, keyed: dict[str, Any]) -> Partition:
    """Return the cut: in a replay of the same records in another order, every record in the shard that it was in."""
    recorder = playing()
    if recorder is None or recorder.places is None or cut.unit == "group" or "secret" not in keyed:
        return cut
    return Partition(cut.assignment[recorder.places], cut.n_shards)


# A teacher trained on made-up rows: what cannot work at all is refused before private data is touched.

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
        return  # what its columns of text must look like is not known
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
