"""Thousands of small teachers: heads on one representation of the rows that public data alone have shaped."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from pate.core.checks import check_choice, check_int, check_real
from pate.core.secret import global_generators, training_seed
from pate.exceptions import InvalidInputError
from pate.teachers._around import TableTeachers
from pate.teachers._heads import HEADS, HeadRecipe, HeadTask, ask_heads, fit_heads, train_heads, transformed
from pate.teachers._isolated import batches, contained, side_by_side
from pate.teachers._rows import slices, take_rows
from pate.teachers._shards import Asked, Failure, Trained, current_config, global_seed
from pate.teachers._training import Shard, rehearse
from pate.teachers.checkpoints import WEIGHTS, CheckpointStore, describe, recipe_key

#: Numbers in the largest array of a stack, and places in it at most.
_STACK_CELLS, _STACK_PLACES = 1 << 22, 256
#: Public rows that are transformed together, and rows that a stack of teachers looks at together.
_ROWS, _CHUNK_ROWS = 4096, 512
_SEED_PATH = 0x4EAD
#: Steps, penalty and learning rate of each kind of head, where nothing is said.
_STEPS = {"ridge": 0, "logistic": 50, "mlp": 60}
_PENALTY = {"ridge": 0.3, "logistic": 0.03, "mlp": 0.1}
_LEARNING_RATE = 0.02


class HeadTeacherEnsemble(TableTeachers):
    """Train a small head on each of ``n_teachers`` disjoint shards, all on one public representation.

    Shards of a dozen records teach a head what they never would teach a network, if the representation was learnt from
    public rows. The contract is that of :class:`pate.TeacherEnsemble`: ``fit``, ``vote``, no ``predict``.

    Parameters
    ----------
    representation : fitted transformer
        Anything with scikit-learn's ``transform``, **fitted on public rows** before it comes here; it is never fitted
        or copied by this class, not by ``clone`` either. Each shard is transformed by itself.
    n_teachers : int
    head : {"ridge", "logistic", "mlp"}
        Least squares on one-hot targets, multinomial logistic regression, or one hidden layer of ReLUs. All have a
        free intercept; none says a class that its shard does not hold.
    penalty : float or None
        Of squared weights, in units of the mean squared length of the shard's centred rows: the scale of the
        representation does not matter. None takes 0.3 (ridge), 0.03 (logistic) or 0.1 (mlp).
    n_hidden : int
        Hidden units of an mlp.
    n_steps : int or None
        Steps of the iterative heads, the same for every shard; None takes 50 (logistic) or 60 (mlp).
    classes : iterable or None
        Every class that could occur: **public** knowledge. None takes them from the private ``y`` and warns.
    n_jobs : int or None
        Stacks of teachers side by side, as in joblib. Results do not depend on it.
    random_state : int or None
        Seed of an mlp's first weights; None draws one from the operating system. It does not decide the shards.
    partition_seed : int or None
        None cuts the shards by a secret from the operating system. A number makes the cut repeatable, for experiments
        on data that are nobody's secret. See :func:`pate.partition`.
    checkpoint_dir : path or None
        Keep every finished teacher here (safetensors, sealed), so that a killed run goes on with the remaining ones.
        The folder is as sensitive as the data.
    verbose : bool
        Show progress bars.

    Attributes
    ----------
    partition_ : Partition
    teachers_ : list of dict of arrays
        **Sensitive.** ``coef`` and ``intercept`` of the logits, and ``hidden`` and ``hidden_bias`` of an mlp. None for
        one that failed.
    failed_, failed_in_vote_ : dict of int -> str
        **Sensitive.** As for :class:`pate.TeacherEnsemble`.
    classes_ : tuple
        The class values, in the order of the votes' columns.
    n_features_in_ : int
    n_resumed_ : int
        How many teachers came from ``checkpoint_dir``.

    Notes
    -----
    **Guarantees.** As for :class:`pate.TeacherEnsemble`: a teacher is a function of its shard, its seed and what is
    public. Teachers are trained in stacks whose places and shapes are fixed by the number of records and of teachers;
    shorter shards are filled up with rows of weight 0, no number is summed over places, and a shard whose numbers no
    float holds fails by itself. Where shards are cut by groups their lengths are private, and teachers are trained one
    by one. A record whose representation is not finite is left out of its shard; a shard that cannot be transformed is
    a failed teacher. A transformer that keeps what it has seen in ``transform`` would carry it from one shard to the
    next: that is for you to avoid, as is one that was fitted on private rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import PCA
    >>> X, y = load_digits(return_X_y=True)
    >>> representation = PCA(32, random_state=0).fit(X[1200:])
    >>> teachers = HeadTeacherEnsemble(representation, n_teachers=100, classes=range(10), random_state=0)
    >>> votes = teachers.fit(X[:1200], y[:1200]).vote(X[1200:])
    >>> bool((votes.counts.argmax(axis=1) == y[1200:]).mean() > 0.8)
    True
    """

    def __init__(
        self,
        representation: Any,
        n_teachers: int = 1000,
        *,
        head: str = "ridge",
        penalty: float | None = None,
        n_hidden: int = 32,
        n_steps: int | None = None,
        classes: Any = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        partition_seed: int | None = None,
        checkpoint_dir: Any = None,
        verbose: bool = False,
    ) -> None:
        self.representation = representation
        self.n_teachers = n_teachers
        self.head = head
        self.penalty = penalty
        self.n_hidden = n_hidden
        self.n_steps = n_steps
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.partition_seed = partition_seed
        self.checkpoint_dir = checkpoint_dir
        self.verbose = verbose

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy around the same representation, which must stay fitted."""
        params = self.get_params(deep=False)
        shared = params.pop("representation")
        return type(self)(shared, **{name: clone(value, safe=False) for name, value in params.items()})

    @property
    def _reader(self) -> Any:
        return self.representation

    def _check_model(self) -> None:
        check_choice("head", self.head, HEADS)
        if self.penalty is not None:
            check_real("penalty", self.penalty, low=0, low_open=True)
        if self.n_steps is not None:
            check_int("n_steps", self.n_steps, low=1)
        check_int("n_hidden", self.n_hidden, low=1)
        remedy = "Fit it on PUBLIC rows first, as in HeadTeacherEnsemble(PCA(64).fit(X_public), ...)."
        if isinstance(self.representation, type) or not hasattr(self.representation, "transform"):
            raise InvalidInputError(
                f"representation must be a fitted transformer, got {type(self.representation).__name__}. {remedy}"
            )
        try:
            check_is_fitted(self.representation)
        except NotFittedError:
            raise InvalidInputError(
                f"representation must be fitted, got an unfitted {type(self.representation).__name__}. {remedy}"
            ) from None
        except TypeError:  # a transformer of its own making, without scikit-learn's fit
            return

    def _recipe(self) -> HeadRecipe:
        head = str(self.head)
        return HeadRecipe(
            head,
            len(self.classes_),
            float(_PENALTY[head] if self.penalty is None else self.penalty),
            int(_STEPS[head] if self.n_steps is None or head == "ridge" else self.n_steps),
            int(self.n_hidden) if head == "mlp" else 0,
            _LEARNING_RATE if head == "mlp" else 0.0,
        )

    def _set_columns(self, X: Any, given: Any) -> None:
        super()._set_columns(X, given)
        if self.checkpoint_dir is not None:  # once, not for each of thousands of teachers
            fingerprint = getattr(self.representation, "fingerprint", None)
            shape = fingerprint() if callable(fingerprint) else self.representation
            self._described = describe([type(self.representation), shape, vars(self._recipe()), self._seed])

    def _open_store(self) -> CheckpointStore:
        return CheckpointStore(self.checkpoint_dir, codec=WEIGHTS)

    def _key(self, X: Any, labels: npt.NDArray[np.int64], index: int, shard: Shard) -> bytes:
        return recipe_key(
            self._described,
            take_rows(X, shard),
            labels[shard],
            partition=f"{self.partition_.fingerprint()} {self._n_places(labels)}",
            index=index,
            versions=f"sklearn={sklearn.__version__} numpy={np.__version__}",
        )

    def _rehearse(self, X: Any, n_rows: int, *, public: bool) -> None:
        recipe = self._recipe()
        self._n_outputs = 0

        def work(rows: Any, labels: npt.NDArray[np.int64]) -> None:
            with contained(), global_generators(0):
                shown = transformed(self.representation, rows)
            fit_heads(shown[None], labels[None], recipe, [0])
            self._n_outputs = shown.shape[1]

        rehearse(work, X, n_rows=max(2, min(n_rows, _ROWS)), n_classes=recipe.n_classes, public=public)
        if not self._n_outputs:  # columns of text, of which nobody can guess what they must hold
            raise InvalidInputError(
                "X_public must be given to fit: the representation takes columns of text, and no private row may tell "
                "what they hold. Pass fit(X, y, X_public=...)."
            )

    def _n_places(self, labels: npt.NDArray[np.int64]) -> int:
        """Return how many teachers stand in one stack, by public numbers: 1 where a shard's length is private."""
        if self.partition_.unit != "record":
            return 1
        n_teachers = self.partition_.n_shards
        n_rows = -(-len(labels) // n_teachers)
        smaller = min(n_rows, 1024)  # of rows and axes, roughly: there the square matrices are
        cells = n_rows * 1024 + smaller * smaller
        return int(min(_STACK_PLACES, n_teachers, max(1, _STACK_CELLS // cells)))

    def _train(
        self, waiting: list[int], keys: list[bytes | None], X: Any, labels: npt.NDArray[np.int64], shards: list[Shard]
    ) -> Generator[Trained, None, None]:
        size, unfinished, n_teachers = self._n_places(labels), set(waiting), len(shards)
        by_record = self.partition_.unit == "record"

        def cut(i: int) -> HeadTask:
            if i not in unfinished:
                return HeadTask(i)
            try:
                rows, y = take_rows(X, shards[i]), labels[shards[i]]
            except Exception as error:
                return HeadTask(i, failure=Failure.of(error, "cutting its rows"))
            seeds = training_seed(self._seed, _SEED_PATH, i), global_seed(self._seed, i)
            return HeadTask(i, rows, y, keys[i], *seeds)

        def places(i: int) -> range:
            first = i - i % size
            return range(first, min(first + size, n_teachers))

        groups: Iterable[Iterable[int]]
        if by_record:
            groups = [places(first) for first in range(0, n_teachers, size) if unfinished & set(places(first))]
        else:
            groups = batches(waiting, n_jobs=self.n_jobs, largest=64)
        return side_by_side(
            train_heads,
            (([cut(i) for i in group],) for group in groups),
            n_jobs=self.n_jobs,
            failed=lambda i, why: Trained(i, failure=Failure(why)),
            alone=lambda i: [cut(j) if j == i else HeadTask(j) for j in (places(i) if by_record else [i])],
            representation=self.representation,
            recipe=self._recipe(),
            n_rows=-(-len(labels) // n_teachers) if by_record else None,
            n_outputs=getattr(self, "_n_outputs", 0),
            config=current_config(),
        )

    def _ask(self, X: Any, chunk_size: int | None) -> Generator[Asked, None, None]:
        with contained(), global_generators(0):
            shown = np.concatenate(
                [
                    transformed(self.representation, take_rows(X, np.arange(part.start, part.stop)))
                    for part in slices(X.shape[0], _ROWS)
                ]
            )
        if not np.isfinite(shown).all():
            raise InvalidInputError("the representation of some public rows is not finite. Drop those rows.")
        n_teachers = len(self.teachers_)
        like = next((w for w in self.teachers_ if w is not None), None)
        width = 1 if like is None else max(1, max(a.size for a in like.values()))
        size = int(min(_STACK_PLACES, max(1, _STACK_CELLS // width)))
        groups = [range(first, min(first + size, n_teachers)) for first in range(0, n_teachers, size)]
        return side_by_side(
            ask_heads,
            (([(i, self.teachers_[i]) for i in group], shown) for group in groups),
            n_jobs=self.n_jobs,
            failed=lambda i, why: Asked(i, failure=Failure(why)),
            alone=lambda i: [(j, self.teachers_[j] if j == i else None) for j in groups[i // size]],
            n_classes=len(self.classes_),
            chunk_size=chunk_size or _CHUNK_ROWS,
        )
