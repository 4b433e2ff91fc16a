"""An ensemble of teachers: one classifier per disjoint shard of private data, voting on public rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, is_classifier, is_outlier_detector, is_regressor
from sklearn.utils import get_tags

from pate._core.secret import global_generators
from pate._core.types import Mask
from pate.data import check_same_shape, has_texts, image_shape, private_cells, read_rows
from pate.exceptions import InvalidInputError
from pate.teachers._base import Shard, ShardEnsemble, rehearse
from pate.teachers._shards import (
    Asked,
    Failure,
    ShardTask,
    Trained,
    batches,
    contained,
    current_config,
    global_seed,
    is_plain,
    seed_names,
    seeded_clone,
    side_by_side,
    train_batch,
    vote_batch,
)
from pate.teachers._usable import (
    as_floats,
    check_rows,
    column_kinds,
    complete_rows,
    copy_input_tags,
    is_texts,
    match_columns,
    take_rows,
    takes,
    takes_missing,
    takes_texts_alone,
)
from pate.teachers.checkpoints import CheckpointStore, pack, recipe_key

# Ensembles whose teachers take rows as a scikit-learn estimator does: tables, sparse rows, texts.


class TableTeachers(ShardEnsemble):
    """The rows of an ensemble that are those of some estimator; abstract."""

    feature_names_in_: npt.NDArray[np.object_]

    @property
    @abstractmethod
    def _reader(self) -> Any:
        """The estimator (a classifier, a transformer) whose rows these are."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        copy_input_tags(self._reader, tags)
        return tags

    def _private_rows(self, X: Any, like: Any) -> tuple[Any, Mask]:
        texts = takes("string", self._reader)
        if like is None and isinstance(X, list | tuple) and takes_texts_alone(self._reader):
            X = np.fromiter(X, dtype=object, count=len(X))  # the estimator says what a row is
        X, readable = private_cells(X, texts=texts, like=like)
        rows = check_rows(X, estimator=self._reader, whole=False, objects=texts and has_texts(like))
        if takes_missing(self._reader) or is_texts(rows):
            return as_floats(rows), readable
        return as_floats(rows), readable & complete_rows(rows)

    def _cut(self, X: Any, shard: Shard) -> Any:
        """Return the rows of a shard: whether objects are all numbers is said of its own, not of all shards' rows."""
        rows = take_rows(X, shard)
        tells = isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 2 and len(rows)
        return read_rows(rows) if tells and not self._objects else rows

    def _public_rows(self, X: Any) -> tuple[Any, Any]:
        X, n_features = read_rows(X), getattr(self, "n_features_in_", None)
        check_same_shape(image_shape(X), self._row_shape)
        if is_texts(X):  # texts for teachers of tables: that is what is wrong with them
            X = match_columns(X, self._columns, n_features)
        X = check_rows(X, estimator=self._reader)
        matched = match_columns(X, self._columns, n_features)
        return matched, X

    def _set_columns(self, X: Any, given: Any) -> None:
        self.__dict__.pop("n_features_in_", None)
        self._row_shape = image_shape(given)
        if not is_texts(X):
            self.n_features_in_ = int(X.shape[1])
        self._columns = column_kinds(X)
        self.__dict__.pop("feature_names_in_", None)
        if self._columns is not None and all(isinstance(c, str) for c in self._columns):
            self.feature_names_in_ = np.asarray(list(self._columns), dtype=object)


#: Rows that a teacher looks at together where nothing else is said; rows of all shards of one task.
_CHUNK_ROWS = _TASK_ROWS = 4096


@dataclass(repr=False, eq=False)
class TeacherEnsemble(TableTeachers):
    """Train one copy of a classifier on each of ``n_teachers`` disjoint shards; the copies vote on public rows.

    It has no ``predict``: the teachers' votes are private until :func:`pate.release_labels` adds noise.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier or pipeline; every teacher is a clone, so whatever it fits (scalers, vocabularies)
        is fitted inside one shard.
    n_teachers : int
    classes : iterable or None
        Every class that could occur: **public** knowledge. None takes them from the private ``y`` and warns.
    n_jobs : int or None
        How many teachers are trained in parallel, as in joblib; None leaves it to ``joblib.parallel_config`` (1
        otherwise). Results do not depend on it. Each worker uses one thread.
    random_state : int or None
        Seed of the teachers' training; None draws one from the operating system. It does not decide the shards.
    partition_seed : int or None
        None cuts the shards by a secret from the operating system, because nobody may know which records share a shard.
        A number makes the cut repeatable, for experiments on public data; statements then say what that assumes. See
        :func:`pate.partition`.
    checkpoint_dir : path or None
        Keep every finished teacher here, so that a killed run goes on with the remaining ones. The folder is as
        sensitive as the data: it keeps the secret of the shards too, and the seed where ``random_state`` is None.
    verbose : bool
        Show progress bars.

    Attributes
    ----------
    partition_ : Partition
        Which record is in which shard.
    teachers_ : list of fitted classifiers
        **Sensitive.** They predict class indices. A teacher whose shard holds a single class always predicts it; one
        whose shard lacks some classes was fitted on the ranks 0 .. k-1 of those it holds (as XGBoost needs them); one
        that failed is None.
    failed_, failed_in_vote_ : dict of int -> str
        **Sensitive.** Which teachers failed in ``fit``, and in the last ``vote``, and why. They vote for class
        ``index % n_classes``.
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
    configuration, and teachers share no state: so one replacement changes at most one teacher, which moves at most one
    vote per query. No record decides whether there are votes: a teacher that fails votes for a fixed class, records
    that cannot be used are left out of their own shard, and what fails for want of memory, or with its worker process,
    is run once more in a process of its own, so that one shard's need for memory does not make another one fail.

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
    >>> teachers = TeacherEnsemble(
    ...     LogisticRegression(), n_teachers=5, classes=range(10), random_state=0
    ... )
    >>> teachers.fit(X[:500] / 16, y[:500]).vote(X[500:520] / 16)
    Votes(n_queries=20, n_classes=10, n_teachers=5, counts=<sensitive>)
    """

    estimator: Any
    n_teachers: int

    @property
    def _reader(self) -> Any:
        return self.estimator

    def _check_model(self) -> None:
        model = self.estimator
        can = all(hasattr(model, m) for m in ("fit", "get_params"))  # a stack predicts once it is fitted
        if isinstance(model, type) or not (can and (hasattr(model, "predict") or isinstance(model, ClassifierMixin))):
            raise InvalidInputError(
                f"estimator must be a scikit-learn classifier, got {model!r}. "
                "Pass an instance such as LogisticRegression()."
            )
        if not is_classifier(model) and (is_regressor(model) or is_outlier_detector(model)):
            raise InvalidInputError(f"estimator must be a classifier, got {model!r}. Teachers vote for classes.")
        pairwise = False
        with suppress(Exception):  # an estimator without tags
            pairwise = bool(get_tags(model).input_tags.pairwise)
        if pairwise:
            raise InvalidInputError(
                "estimator must take rows of features, got one for precomputed kernels or distances. "
                "Such columns compare a record with every other one, so no shard would be separate."
            )

    def _open_store(self) -> CheckpointStore:
        store = CheckpointStore(self.checkpoint_dir)
        pack(self.estimator, b"")  # an estimator that cannot be kept is refused before any training
        return store

    def _key(self, X: Any, labels: npt.NDArray[np.int64], index: int, shard: Shard) -> bytes:
        model = seeded_clone(self.estimator, self._seed, index)
        # The global generators' seed too: an estimator without a random_state may draw from them.
        fingerprint = f"{self.partition_.fingerprint()} {global_seed(self._seed, index)}"
        return recipe_key(model, self._cut(X, shard), labels[shard], partition=fingerprint, index=index)

    def _rehearse(self, X: Any, n_rows: int, *, public: bool) -> None:
        def work(rows: Any, labels: npt.NDArray[np.int64]) -> None:
            with contained(), global_generators(0):
                model = seeded_clone(self.estimator, 0, 0).fit(rows, labels)
                if public:
                    model.predict(take_rows(X, np.arange(min(n_rows, X.shape[0]), dtype=np.int64)))
                if self.checkpoint_dir is not None:
                    pack(model, b"")

        quoted = is_plain(self.estimator)
        rehearse(work, X, n_rows=n_rows, n_classes=len(self.classes_), quoted=quoted, public=public)

    def _train(
        self, waiting: list[int], keys: list[bytes | None], X: Any, labels: npt.NDArray[np.int64], shards: list[Shard]
    ) -> Generator[Trained, None, None]:
        names = seed_names(self.estimator)

        def task(i: int) -> ShardTask:
            try:
                rows, y = self._cut(X, shards[i]), labels[shards[i]]
            except Exception as error:
                return ShardTask(i, failure=Failure.of(error, "cutting its rows"))
            return ShardTask(
                i, seeded_clone(self.estimator, self._seed, i, names), rows, y, keys[i], global_seed(self._seed, i)
            )

        # Small shards travel many at a time, by public numbers; a teacher that is kept travels alone.
        most = _TASK_ROWS * self.partition_.n_shards // self.partition_.n_units
        largest = max(8, min(most, 64)) if self.checkpoint_dir is None else 1
        # Rows are cut when joblib asks for the next task: never a second copy of all the data.
        calls = (([task(i) for i in group],) for group in batches(waiting, n_jobs=self.n_jobs, largest=largest))
        return side_by_side(
            train_batch,
            calls,
            n_jobs=self.n_jobs,
            failed=lambda i, why: Trained(i, failure=Failure(why)),
            alone=lambda i: [task(i)],
            config=current_config(),
        )

    def _ask(self, X: Any, chunk_size: int | None) -> Generator[Asked, None, None]:
        teachers = [
            (i, model, global_seed(self._seed, i)) for i, model in enumerate(self.teachers_) if model is not None
        ]
        return side_by_side(
            vote_batch,
            ((group, X) for group in batches(teachers, n_jobs=self.n_jobs, largest=32)),
            n_jobs=self.n_jobs,
            failed=lambda i, why: Asked(i, failure=Failure(why)),
            n_classes=len(self.classes_),
            chunk_size=chunk_size or _CHUNK_ROWS,
            config=current_config(),
            trusted=is_plain(self.estimator),
        )
