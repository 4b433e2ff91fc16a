"""An ensemble of teachers: one classifier per disjoint shard of private data, voting on public rows."""

from __future__ import annotations

import hashlib
import secrets
import warnings
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from pate._progress import track
from pate._validation import check_classes, check_int, encode_labels
from pate.data.partition import Partition, count_cross_shard_duplicates, partition
from pate.exceptions import CheckpointWarning, DuplicateRecordsWarning, InvalidInputError, PrivacyLeakWarning
from pate.teachers._rows import (
    as_floats,
    check_rows,
    column_kinds,
    hash_rows,
    is_sparse,
    match_columns,
    take_rows,
)
from pate.teachers._shards import (
    ShardTask,
    batches,
    current_config,
    global_seed,
    seeded_clone,
    side_by_side,
    train_batch,
    vote_batch,
)
from pate.teachers.checkpoints import CheckpointStore, DamagedCheckpointError, pack, recipe_key
from pate.votes import Votes


class TeacherEnsemble(BaseEstimator):
    """Train one copy of a classifier on each of ``n_teachers`` disjoint shards, and let them vote.

    It has no ``predict``: what teachers say is private until :func:`pate.release_labels` adds noise.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier or pipeline; every teacher is a clone, so whatever it fits (scalers, vocabularies)
        is fitted inside one shard.
    n_teachers : int
    classes : iterable or None
        Every class that could occur: **public** knowledge. None takes them from the private ``y`` and warns.
    n_jobs : int or None
        Teachers side by side, as in joblib; None leaves it to ``joblib.parallel_config`` (1 otherwise). Results do
        not depend on it. Inner threads are held to one per worker.
    random_state : int or None
        Seed of the partition and of the teachers' training; None draws one from the operating system.
    checkpoint_dir : path or None
        Keep every finished teacher here, so that a killed run goes on with the remaining ones. The folder is as
        sensitive as the data. Without ``random_state`` it also keeps the seed that was drawn.
    verbose : bool
        Show progress bars.

    Attributes
    ----------
    partition_ : Partition
        Who went to which shard.
    teachers_ : list of fitted classifiers
        **Sensitive.** They predict class indices. A teacher whose shard holds a single class says it always.
    classes_ : tuple
        The class values, in the order of the votes' columns.
    n_features_in_ : int
    feature_names_in_ : object array of shape (n_features,)
        Only after a fit on a DataFrame whose columns are all strings.
    n_resumed_ : int
        How many teachers came from ``checkpoint_dir``.

    Notes
    -----
    **Guarantees.** Neighbours differ in one unit (a record, or all records of one group), replaced by another. The
    unit's shard depends on no record's values, teacher ``i`` is a function of shard ``i``, its seed and public
    configuration, and teachers share no state: so one replacement changes at most one teacher, which moves at most
    one vote per query. Exceptions are the curator's to see: a fit that fails releases nothing.

    What a type would carry from one shard to another is taken away: number and true/false columns of a DataFrame reach
    the estimator as float64, categorical ones with the categories of the shard alone. The kinds of columns are public;
    public rows of other kinds are refused. NumPy's and Python's global generators are seeded for each teacher and given
    back as they were. With a threading backend the teachers share them: there (and for any other generator, such as
    torch's) an estimator must have a ``random_state`` of its own, and steps that have none must not draw.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> teachers = TeacherEnsemble(LogisticRegression(), n_teachers=5, classes=range(10), random_state=0)
    >>> teachers.fit(X[:500] / 16, y[:500]).vote(X[500:520] / 16)
    Votes(n_queries=20, n_classes=10, n_teachers=5, counts=<sensitive>)
    """

    partition_: Partition
    teachers_: list[Any]
    classes_: tuple[Any, ...]
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
    n_resumed_: int

    def __init__(
        self,
        estimator: Any,
        n_teachers: int,
        *,
        classes: Any = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        checkpoint_dir: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.n_teachers = n_teachers
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.checkpoint_dir = checkpoint_dir
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> TeacherEnsemble:
        """Cut the private records into shards and train a teacher on each.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_records, n_features)
        y : array-like of shape (n_records,)
            Class values.
        groups : array-like of shape (n_records,) or None
            Who each record belongs to; all records of a group go to one shard (``votes.unit`` is then ``"group"``).

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            Fewer records (or groups) than teachers, a single class, classes outside ``classes``, missing values that
            the estimator does not take, or a teacher that cannot be trained (named by its shard only).

        Examples
        --------
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y, patients = np.arange(6.0).reshape(6, 1), [0, 1, 0, 1, 0, 1], list("aabbcc")
        >>> teachers = TeacherEnsemble(GaussianNB(), 3, classes=(0, 1), random_state=0).fit(X, y, patients)
        >>> teachers.partition_
        Partition(n_records=6, n_shards=3, unit='group', n_units=3)
        """
        n_teachers, seed = self._check_parameters()
        X = as_floats(check_rows(X, estimator=self.estimator))
        classes, labels = self._check_labels(y, X.shape[0])
        if X.shape[0] < n_teachers:
            raise InvalidInputError(
                f"n_teachers must be at most the number of records ({X.shape[0]}), got {n_teachers}. "
                "Each teacher needs records of its own: ask for fewer teachers."
            )
        store = None if self.checkpoint_dir is None else CheckpointStore(self.checkpoint_dir)
        if store is not None:
            pack(self.estimator, b"")  # an estimator that cannot be kept is refused before any training
            if self.random_state is None:
                seed = _kept_seed(store, seed)
        cut = partition(X.shape[0], n_teachers, groups=groups, random_state=seed)
        _warn_of_duplicates(X, cut)

        self.__dict__.pop("teachers_", None)  # if this fit fails, no teachers of an earlier one stay behind
        self.partition_, self.classes_ = cut, classes
        self._seed, self._classes_inferred = seed, self.classes is None
        self._fingerprint = _fingerprint(labels, groups)
        self._set_columns(X)
        self.teachers_ = self._train(X, labels, seed, store)
        return self

    def vote(self, X: Any, *, keep_labels: bool = True, chunk_size: int = 4096) -> Votes:
        """Ask every teacher about public rows.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_queries, n_features)
            Public rows, with the columns of the private ones.
        keep_labels : bool
            Whether ``votes.labels`` (n_teachers x n_queries) is kept beside the counts.
        chunk_size : int
            A teacher looks at so many rows at a time; memory grows with it, results do not depend on it.

        Returns
        -------
        Votes
            **Sensitive.**

        Raises
        ------
        InvalidInputError
            ``X`` has other columns than the private data, or a teacher cannot vote on it.

        Examples
        --------
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = np.arange(8.0).reshape(8, 1), [0, 0, 0, 0, 1, 1, 1, 1]
        >>> teachers = TeacherEnsemble(GaussianNB(), 2, classes=(0, 1), random_state=0).fit(X, y)
        >>> teachers.vote([[0.0], [7.0]]).counts.sum(axis=1)
        array([2, 2])
        """
        check_is_fitted(self, "teachers_")
        chunk_size = check_int("chunk_size", chunk_size, low=1)
        X = check_rows(X, estimator=self.estimator)
        rows = match_columns(X, self._columns, self.n_features_in_)
        n_teachers, n_queries, n_classes = len(self.teachers_), X.shape[0], len(self.classes_)

        teachers = [(i, model, global_seed(self._seed, i)) for i, model in enumerate(self.teachers_)]
        calls = ((group, rows) for group in batches(teachers, n_jobs=self.n_jobs, largest=32))
        results = side_by_side(
            vote_batch,
            calls,
            n_jobs=self.n_jobs,
            n_classes=n_classes,
            chunk_size=chunk_size,
            config=current_config(),
        )
        kept: npt.NDArray[Any] | None = None
        counts = np.zeros((n_queries, n_classes), dtype=np.int32)
        with closing(_watched(results, n_teachers, "teachers voting", self.verbose)) as answers:
            for asked in answers:
                if asked.failure is not None:
                    raise InvalidInputError(
                        f"teacher {asked.index} could not vote: {asked.failure}. Its own words are withheld, as they "
                        "may quote private values. Check that the public columns have the kinds of values that the "
                        "private ones have, and that the estimator takes values it has not seen."
                    )
                if not keep_labels:
                    counts[np.arange(n_queries), asked.labels] += 1
                    continue
                if kept is None:
                    kept = np.empty((n_teachers, n_queries), dtype=asked.labels.dtype)
                kept[asked.index] = asked.labels

        unit, n_units = self.partition_.unit, self.partition_.n_units
        hashes = hash_rows(X, chunk_size=chunk_size)
        if kept is not None:
            votes = Votes.from_labels(kept, classes=self.classes_, unit=unit, n_units=n_units, query_hashes=hashes)
        else:
            votes = Votes.from_counts(
                counts,
                n_teachers=n_teachers,
                classes=self.classes_,
                unit=unit,
                n_units=n_units,
                query_hashes=hashes,
            )
        return replace(votes, classes_inferred=self._classes_inferred, fingerprint=self._fingerprint)

    def _get_fitted_attr_html(self, doc_link: str = "") -> tuple[Any, ...]:
        # scikit-learn's notebook display would print the teachers and the partition.
        return ()

    def _check_parameters(self) -> tuple[int, int]:
        """Return the number of teachers and the seed of this fit."""
        model = self.estimator
        if isinstance(model, type) or not all(hasattr(model, m) for m in ("fit", "predict", "get_params")):
            raise InvalidInputError(
                f"estimator must be a scikit-learn classifier, got {model!r}. "
                "Pass an instance such as LogisticRegression()."
            )
        if not is_classifier(model) and (is_regressor(model) or is_outlier_detector(model)):
            raise InvalidInputError(f"estimator must be a classifier, got {model!r}. Teachers vote for classes.")
        if _pairwise(model):
            raise InvalidInputError(
                "estimator must take rows of features, got one for precomputed kernels or distances. "
                "Such columns compare a record with every other one, so no shard would be separate."
            )
        if self.n_jobs is not None and check_int("n_jobs", self.n_jobs) == 0:
            raise InvalidInputError("n_jobs must be None or a whole number other than 0, got 0. -1 takes all cores.")
        if self.random_state is None:
            seed = secrets.randbits(63)
        else:
            seed = check_int("random_state", self.random_state, low=0, remedy="None draws a seed.")
        return check_int("n_teachers", self.n_teachers, low=1), seed

    def _check_labels(self, y: Any, n_records: int) -> tuple[tuple[Any, ...], npt.NDArray[np.int64]]:
        """Return the classes and y as class indices."""
        values = np.asarray(y)
        if values.shape != (n_records,):
            raise InvalidInputError(f"y must have shape ({n_records},), one class per row of X, got {values.shape}.")
        if self.classes is None:
            try:
                found = np.unique(values)
                missing = bool((found != found).any())
            except TypeError:
                missing = True
            if missing:
                raise InvalidInputError(
                    "y holds missing values or mixed types. Give every record a class, and name them in classes=."
                )
            if len(found) < 2:
                raise InvalidInputError("y holds a single class. Teachers need at least two to choose from.")
            classes = check_classes(found)
            warnings.warn(
                "classes=None: the set of classes is read from the private labels, and votes and releases will show "
                "it. Name every class that could occur: classes=[...].",
                PrivacyLeakWarning,
                stacklevel=3,
            )
        else:
            classes = check_classes(self.classes)
        labels = encode_labels("y", y, classes)
        if (labels == labels[0]).all():
            raise InvalidInputError("y holds a single class. Teachers need at least two to choose from.")
        return classes, labels

    def _set_columns(self, X: Any) -> None:
        self.n_features_in_ = int(X.shape[1])
        self._columns = column_kinds(X)
        self.__dict__.pop("feature_names_in_", None)
        if self._columns is not None and all(isinstance(c, str) for c in self._columns):
            self.feature_names_in_ = np.asarray(list(self._columns), dtype=object)

    def _train(self, X: Any, labels: npt.NDArray[np.int64], seed: int, store: CheckpointStore | None) -> list[Any]:
        """Train whoever is not in ``store`` and return all teachers in order."""
        shards = list(self.partition_.shards())
        teachers: list[Any] = [None] * len(shards)
        keys: list[bytes | None] = [None] * len(shards)
        if store is not None:
            fingerprint = self.partition_.fingerprint()
            for i in track(range(len(shards)), total=len(shards), label="checkpoints", show=self.verbose):
                model = seeded_clone(self.estimator, seed, i)
                rows = take_rows(X, shards[i])
                keys[i] = key = recipe_key(model, rows, labels[shards[i]], partition=fingerprint, index=i)
                try:
                    teachers[i] = store.load(i, key)
                except DamagedCheckpointError as error:
                    warnings.warn(
                        f"teacher {i}'s checkpoint could not be read ({error}); it is trained again.",
                        CheckpointWarning,
                        stacklevel=3,
                    )
        waiting = [i for i, teacher in enumerate(teachers) if teacher is None]
        self.n_resumed_ = len(shards) - len(waiting)

        # Rows are cut when joblib asks for the next task: never a second copy of all the data.
        calls = (
            (
                [
                    ShardTask(
                        i,
                        seeded_clone(self.estimator, seed, i),
                        take_rows(X, shards[i]),
                        labels[shards[i]],
                        keys[i],
                        global_seed(seed, i),
                    )
                    for i in group
                ],
            )
            for group in batches(waiting, n_jobs=self.n_jobs, largest=8 if store is None else 1)
        )
        results = side_by_side(train_batch, calls, n_jobs=self.n_jobs, config=current_config())
        with closing(_watched(results, len(waiting), "teachers", self.verbose)) as finished:
            for trained in finished:
                if trained.failure is not None:
                    raise InvalidInputError(
                        f"teacher {trained.index} could not be trained: {trained.failure}. Its own words are withheld, "
                        "as they may quote private values; to see them, fit the estimator on the records "
                        f"partition_.shard({trained.index}) yourself. No teacher is used."
                    )
                if store is not None:
                    store.save(trained.index, keys[trained.index], trained.packed)
                teachers[trained.index] = trained.model
        return teachers


def _fingerprint(labels: npt.NDArray[np.int64], groups: Any) -> str:
    """Return a digest by which a ledger recognises the private records: of labels and owners, in the file's order.

    Features do not enter: scaled, encoded or dropped otherwise they are the same people's, and one ledger's.
    """
    digest = hashlib.sha256(f"pate records 1 {len(labels)} {groups is not None}\n".encode())
    digest.update(np.ascontiguousarray(labels, dtype="<i8").tobytes())
    for owner in () if groups is None else groups:
        digest.update(f"{len(str(owner))}:{owner}".encode())
    return digest.hexdigest()


def _watched(results: Generator[Any, None, None], total: int, label: str, show: bool) -> Generator[Any, None, None]:
    """Yield results behind a progress bar; closing this ends the workers and the bar (Ctrl-C, a failed teacher)."""
    with closing(results):
        yield from track(results, total=total, label=label, show=show)


def _kept_seed(store: CheckpointStore, fresh: int) -> int:
    try:
        return store.seed(fresh)
    except DamagedCheckpointError:
        warnings.warn(
            "the seed kept in checkpoint_dir could not be read; new shards are cut and all teachers trained again.",
            CheckpointWarning,
            stacklevel=3,
        )
        return fresh


def _warn_of_duplicates(X: Any, cut: Partition) -> None:
    """Tell the curator, and nobody else: the number depends on every record."""
    if is_sparse(X):
        X = np.asarray(hash_rows(X, chunk_size=4096), dtype=object).reshape(-1, 1)
    n_duplicates = count_cross_shard_duplicates(X, cut)
    if n_duplicates:
        warnings.warn(
            f"{n_duplicates} distinct rows stand in more than one shard. If two of them are the same person, the "
            "guarantee is weaker for that person: remove repeats, or pass groups= so that a person's records stay "
            "together. (This number is private: do not publish it.)",
            DuplicateRecordsWarning,
            stacklevel=3,
        )


def _pairwise(model: Any) -> bool:
    try:
        return bool(get_tags(model).input_tags.pairwise)
    except Exception:  # an estimator without tags
        return False
