"""Thousands of small teachers: heads on one representation of the rows that public data alone have shaped."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_choice, check_int, check_real
from pate._core.secret import global_generators, training_seed
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.teachers._base import Shard, rehearse
from pate.teachers._ensemble import TableTeachers
from pate.teachers._shards import Asked, Failure, Trained, batches, contained, current_config, global_seed, side_by_side
from pate.teachers._usable import slices, take_rows
from pate.teachers.checkpoints import WEIGHTS, CheckpointStore, describe, pack_weights, recipe_key

# Small heads on a public representation, many at a time: one stack of arrays, each place of it a teacher's own.
#
# Nothing is ever summed over places, and every place has its fixed shape, so a teacher's numbers are those that it has
# with anything beside it. What may fail on a shard's numbers (a factorisation) is called place by place.

Weights = dict[str, FloatArray]

HEADS = ("ridge", "logistic", "mlp")
#: The logit of a class that a shard does not hold: below all others, and a number that a file can keep.
_NEVER = -1e30
#: Adam, with the usual constants.
_BETA_1, _BETA_2, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class HeadRecipe:
    """What makes a teacher of a shard, public.

    ``penalty`` is of squared weights, in units of the mean squared length of a shard's centred rows.
    """

    head: str
    n_classes: int
    penalty: float
    n_steps: int = 0
    n_hidden: int = 0
    learning_rate: float = 0.0


@dataclass(frozen=True, repr=False)
class Stack:
    """Shards side by side, shorter ones filled up with rows of weight 0: **sensitive**.

    Rows (n_places, n_rows, n_features) are centred by each shard's own mean, ``weight`` is 1 for a record and 0 for
    filling, ``target`` one-hot. Per place: count, mean row, shares of the classes, and mean squared length, which is 1
    where there is none.
    """

    rows: FloatArray
    weight: FloatArray
    target: FloatArray
    count: FloatArray
    mean: FloatArray
    prior: FloatArray
    scale: FloatArray


def stack(rows: FloatArray, labels: npt.NDArray[np.int64], n_classes: int) -> Stack:
    """Return shards side by side.

    Labels (n_places, n_rows) are -1 where there is no record.
    """
    weight = (labels >= 0).astype(np.float64)[:, :, None]
    target = (labels[:, :, None] == np.arange(n_classes)).astype(np.float64)
    count = np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
    mean = (rows * weight).sum(axis=1, keepdims=True) / count
    centred = (rows - mean) * weight
    scale = (centred * centred).sum(axis=(1, 2), keepdims=True) / count
    scale[~(scale > 0)] = 1.0
    return Stack(centred, weight, target, count, mean, target.sum(axis=1, keepdims=True) / count, scale)


def fit_heads(
    rows: FloatArray, labels: npt.NDArray[np.int64], recipe: HeadRecipe, seeds: list[int]
) -> list[Weights | None]:
    """Train a head on each of some shards of a common (padded) length.

    ``rows`` has shape (n_places, n_rows, n_features); a label is -1 where there is no record. None for a shard whose
    numbers no float holds. ``coef`` and ``intercept`` give the logits, of the rows or (mlp) of what ``hidden`` and
    ``hidden_bias`` make of them.
    """
    with np.errstate(all="ignore"):  # numbers too large show in the weights of their own place
        arrays = _FITS[recipe.head](stack(rows, labels, recipe.n_classes), recipe, seeds)
    held = [all(bool(np.isfinite(a[g]).all()) for a in arrays.values()) for g in range(len(rows))]
    return [{name: a[g].copy() for name, a in arrays.items()} if held[g] else None for g in range(len(rows))]


def predict_heads(weights: list[Weights | None], rows: FloatArray) -> npt.NDArray[np.int64]:
    """Return every head's class indices on every row, shape (n_places, n_rows); a place without weights says 0."""
    like = next(w for w in weights if w is not None)
    blank = {name: np.zeros_like(array) for name, array in like.items()}
    stacked = {name: np.stack([(w or blank)[name] for w in weights]) for name in like}
    with np.errstate(all="ignore"):
        if "hidden" in stacked:
            shown = np.maximum(_side_by_side(rows, stacked["hidden"]) + stacked["hidden_bias"][:, None, :], 0.0)
            logits = shown @ stacked["coef"] + stacked["intercept"][:, None, :]
        else:
            logits = _side_by_side(rows, stacked["coef"]) + stacked["intercept"][:, None, :]
    return logits.argmax(axis=2)


def _side_by_side(rows: FloatArray, coef: FloatArray) -> FloatArray:
    """Return ``rows @ coef[g]`` for every place, in one product: (n_places, n_rows, n_outputs)."""
    n_places, n_features, n_outputs = coef.shape
    flat = rows @ coef.transpose(1, 0, 2).reshape(n_features, n_places * n_outputs)
    return flat.reshape(len(rows), n_places, n_outputs).transpose(1, 0, 2)


def _ridge(s: Stack, recipe: HeadRecipe, seeds: list[int]) -> Weights:
    """Least squares on one-hot targets with a free intercept, in whichever of its two forms is smaller."""
    across = s.rows.transpose(0, 2, 1)
    target = (s.target - s.prior) * s.weight
    by_records = s.rows.shape[1] <= s.rows.shape[2]
    gram, right = (s.rows @ across, target) if by_records else (across @ s.rows, across @ target)
    gram += recipe.penalty * s.scale * np.eye(gram.shape[1])
    found = _place_by_place(lambda g: np.linalg.solve(_finite(gram[g]), right[g]), right)
    coef = across @ found if by_records else found
    return {"coef": coef, "intercept": (s.prior - s.mean @ coef)[:, 0]}


def _logistic(s: Stack, recipe: HeadRecipe, seeds: list[int]) -> Weights:
    """Multinomial logistic regression: accelerated steps against a bound of the curvature.

    The Hessian of the log-partition is at most 1/2 (Boehning 1992, "Multinomial logistic regression algorithm"), so in
    the shard's own principal axes the bound is diagonal, and a step needs no line search that could end early.
    """
    rows, axes, spread = _principal(s)
    across = rows.transpose(0, 2, 1)
    penalty = recipe.penalty * s.scale
    absent = np.where(s.prior > 0, 0.0, _NEVER)
    coef = np.zeros((len(rows), rows.shape[2], recipe.n_classes))
    free = np.zeros_like(s.prior)
    ahead, ahead_free, pace = coef, free, 1.0
    step, step_free = 1.0 / (spread[:, :, None] / 2 + penalty), 2.0 / s.count
    for _ in range(recipe.n_steps):
        wrong = (_softmax(rows @ ahead + ahead_free + absent) - s.target) * s.weight
        new = ahead - step * (across @ wrong + penalty * ahead)
        new_free = ahead_free - step_free * wrong.sum(axis=1, keepdims=True)
        faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2  # Nesterov's sequence: the same for everybody
        ahead = new + (pace - 1) / faster * (new - coef)
        ahead_free = new_free + (pace - 1) / faster * (new_free - free)
        coef, free, pace = new, new_free, faster
    coef = axes @ coef
    return {"coef": coef, "intercept": (free + absent - s.mean @ coef)[:, 0]}


def _mlp(s: Stack, recipe: HeadRecipe, seeds: list[int]) -> Weights:
    """One hidden layer of ReLUs, trained by Adam on all of the shard's rows, in the axes that the shard spans.

    Weights across those axes would stay as they were drawn: noise to every other row, so there are none.
    """
    rows, axes, _ = _principal(s)
    length = np.sqrt(s.scale)
    rows = rows / length
    n_places, _, n_axes = rows.shape
    draws = [np.random.default_rng(seed) for seed in seeds]
    moved = [
        np.sqrt(2.0) * np.stack([d.normal(size=(n_axes, recipe.n_hidden)) for d in draws]),
        np.zeros((n_places, 1, recipe.n_hidden)),
        np.stack([d.normal(size=(recipe.n_hidden, recipe.n_classes)) for d in draws]) / np.sqrt(recipe.n_hidden),
        np.zeros((n_places, 1, recipe.n_classes)),
    ]
    absent = np.where(s.prior > 0, 0.0, _NEVER)
    means, squares = ([np.zeros_like(w) for w in moved] for _ in range(2))
    across = rows.transpose(0, 2, 1)
    for t in range(1, recipe.n_steps + 1):
        first, bias, second, free = moved
        shown = np.maximum(rows @ first + bias, 0.0)
        wrong = (_softmax(shown @ second + free + absent) - s.target) * s.weight / s.count
        back = (wrong @ second.transpose(0, 2, 1)) * (shown > 0)
        gradients = [
            across @ back + recipe.penalty / s.count * first,
            back.sum(axis=1, keepdims=True),
            shown.transpose(0, 2, 1) @ wrong + recipe.penalty / s.count * second,
            wrong.sum(axis=1, keepdims=True),
        ]
        for i, gradient in enumerate(gradients):
            means[i] = _BETA_1 * means[i] + (1 - _BETA_1) * gradient
            squares[i] = _BETA_2 * squares[i] + (1 - _BETA_2) * gradient * gradient
            size = np.sqrt(squares[i] / (1 - _BETA_2**t)) + _TINY
            moved[i] = moved[i] - recipe.learning_rate / (1 - _BETA_1**t) * means[i] / size
    first, bias, second, free = moved
    hidden = axes @ first / length
    return {
        "hidden": hidden,
        "hidden_bias": (bias - s.mean @ hidden)[:, 0],
        "coef": second,
        "intercept": (free + absent)[:, 0],
    }


_FITS: dict[str, Callable[[Stack, HeadRecipe, list[int]], Weights]] = {
    "ridge": _ridge,
    "logistic": _logistic,
    "mlp": _mlp,
}


def _principal(s: Stack) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each shard's rows in its own principal axes, the axes (as columns), and the sums of squares along them.

    There are as many as a shard has rows or columns, whichever is less; those that hold nothing are 0.
    """
    across = s.rows.transpose(0, 2, 1)
    by_records = s.rows.shape[1] <= s.rows.shape[2]
    gram = s.rows @ across if by_records else across @ s.rows
    n = gram.shape[1]
    spread = np.zeros((len(gram), n))

    def factor(g: int) -> FloatArray:
        spread[g], axes = np.linalg.eigh(_finite(gram[g]))
        return axes

    turn = _place_by_place(factor, gram)
    largest = spread.max(axis=1, keepdims=True)
    there = (spread > n * np.finfo(np.float64).eps * largest) & np.isfinite(spread)
    spread = np.where(there, spread, 0.0)
    if not by_records:
        axes = turn * there[:, None, :]  # NaN stays NaN
        return s.rows @ axes, axes, spread
    length = np.sqrt(spread)[:, None, :]
    inverse = np.where(there, 1.0, 0.0)[:, None, :] / np.where(length > 0, length, 1.0)
    return turn * length, across @ (turn * inverse), spread


def _place_by_place(work: Callable[[int], FloatArray], like: FloatArray) -> FloatArray:
    """Return what ``work`` makes of every place, NaN where it fails: for a stack at once one failure would be all's."""
    results = np.full_like(like, np.nan)
    for g in range(len(like)):
        try:
            results[g] = work(g)
        except np.linalg.LinAlgError:
            continue
    return results


def _finite(matrix: FloatArray) -> FloatArray:
    if not np.isfinite(matrix).all():  # what LAPACK does with others depends on who built it
        raise np.linalg.LinAlgError
    return matrix


def _softmax(logits: FloatArray) -> FloatArray:
    shares: Any = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


# What runs beside others for heads: training a stack of them, and asking one.


@dataclass(frozen=True, repr=False)
class HeadTask:
    """One teacher's place in a stack: its own rows, or nothing where it is finished or not to be trained here."""

    index: int
    X: Any = None
    y: npt.NDArray[np.int64] | None = None
    key: bytes | None = None
    seed: int = 0
    global_seed: int = 0
    failure: Failure | None = None

    @property
    def blank(self) -> bool:
        """Whether there is nothing to say of this teacher."""
        return self.y is None and self.failure is None


def transformed(representation: Any, rows: Any) -> FloatArray:
    """Return what a transformer makes of a copy of some rows, float64 of shape (n, n_outputs)."""
    found = representation.transform(rows)
    shown = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
    if len(shown) != rows.shape[0]:
        raise InvalidInputError(f"representation must give one row for each, got {len(shown)} for {rows.shape[0]}.")
    return shown.reshape(len(shown), -1)


def train_heads(
    tasks: list[HeadTask],
    *,
    representation: Any,
    recipe: HeadRecipe,
    n_rows: int | None,
    n_outputs: int,
    config: dict[str, Any],
) -> list[Trained]:
    """Train the heads of one stack, ``n_rows`` records in each place; or one by one, where that is None."""
    done: list[Trained] = []
    ready: dict[int, tuple[FloatArray, npt.NDArray[np.int64]]] = {}
    with contained(), sklearn.config_context(**config):
        for task in tasks:
            shown = task.failure if task.y is None else _shown(task, representation, n_outputs)
            if isinstance(shown, Failure):
                done.append(Trained(task.index, failure=shown))
            elif shown is not None:
                ready[task.index] = shown
        if n_rows is not None:
            return done + _stacked(tasks, ready, recipe, n_rows, n_outputs)
        for task in tasks:
            if task.index in ready:
                done += _stacked([task], ready, recipe, len(ready[task.index][1]), n_outputs)
    return done


def _shown(task: HeadTask, representation: Any, n_outputs: int) -> tuple[FloatArray, npt.NDArray[np.int64]] | Failure:
    """Return one shard's rows in the representation, and their labels."""
    assert task.y is not None
    try:
        with global_generators(task.global_seed):
            rows = transformed(representation, task.X)
    except BaseException as error:
        return Failure.of(error, "the representation")
    if rows.shape[1] != n_outputs:
        return Failure("its rows have another number of columns in the representation")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.any():
        return Failure("none of its rows is finite in the representation")
    return rows[finite], task.y[finite]


def _stacked(
    tasks: list[HeadTask],
    ready: dict[int, tuple[FloatArray, npt.NDArray[np.int64]]],
    recipe: HeadRecipe,
    n_rows: int,
    n_outputs: int,
) -> list[Trained]:
    """Train all of ``ready`` in the places of ``tasks``."""
    try:
        rows, labels = np.zeros((len(tasks), n_rows, n_outputs)), np.full((len(tasks), n_rows), -1, dtype=np.int64)
        for place, task in enumerate(tasks):
            if task.index in ready:
                own, y = ready[task.index]
                rows[place, : len(y)], labels[place, : len(y)] = own, y
        results = fit_heads(rows, labels, recipe, [task.seed for task in tasks])
    except Exception as error:  # of memory: every place is tried alone, in the same stack
        why = Failure.of(error, "its head").why
        return [Trained(t.index, failure=Failure(why, again=True)) for t in tasks if t.index in ready]
    lost = Failure("its weights are not finite: its rows hold numbers too large")
    found = []
    for task, weights in zip(tasks, results, strict=True):
        if task.index in ready:
            packed = None if weights is None or task.key is None else pack_weights(weights, task.key)
            found.append(Trained(task.index, weights, packed, lost if weights is None else None))
    return found


def ask_heads(
    teachers: list[tuple[int, Weights | None]], rows: FloatArray, *, n_classes: int, chunk_size: int
) -> list[Asked]:
    """Ask a stack of heads about all rows; a place without weights is not asked."""
    present = [i for i, weights in teachers if weights is not None]
    if not present:
        return []
    try:
        labels = np.empty((len(teachers), len(rows)), dtype=np.int16 if n_classes <= 2**15 else np.int32)
        with contained():
            for part in slices(len(rows), chunk_size):
                labels[:, part] = predict_heads([weights for _, weights in teachers], rows[part])
    except Exception as error:
        why = Failure.of(error, "its head").why
        return [Asked(i, failure=Failure(why, again=True)) for i in present]
    return [Asked(i, labels[place]) for place, (i, weights) in enumerate(teachers) if weights is not None]


#: Numbers in the largest array of a stack, and places in it at most.
_STACK_CELLS, _STACK_PLACES = 1 << 22, 256
#: Public rows that are transformed together, and rows that a stack of teachers looks at together.
_ROWS, _CHUNK_ROWS = 4096, 512
_SEED_PATH = 0x4EAD
#: Steps, penalty and learning rate of each kind of head, where nothing is said.
_STEPS = {"ridge": 0, "logistic": 50, "mlp": 60}
_PENALTY = {"ridge": 0.3, "logistic": 0.03, "mlp": 0.1}
_LEARNING_RATE = 0.02


@dataclass(repr=False, eq=False)
class HeadTeacherEnsemble(TableTeachers):
    """Train a small model (a head) on each of ``n_teachers`` disjoint shards, all on one public representation.

    A shard of a dozen records is too small to train a network, but enough for a head on vectors whose map was fitted on
    public rows. It has the methods of :class:`pate.TeacherEnsemble`: ``fit``, ``vote``, no ``predict``.

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
        Penalty on squared weights, in units of the mean squared length of the shard's centred rows: the scale of the
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
        on public data. See :func:`pate.partition`.
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
    >>> teachers = HeadTeacherEnsemble(
    ...     representation, n_teachers=100, classes=range(10), random_state=0
    ... )
    >>> votes = teachers.fit(X[:1200], y[:1200]).vote(X[1200:])
    >>> bool((votes.counts.argmax(axis=1) == y[1200:]).mean() > 0.8)
    True
    """

    representation: Any
    n_teachers: int = 1000
    _: KW_ONLY
    head: str = "ridge"
    penalty: float | None = None
    n_hidden: int = 32
    n_steps: int | None = None

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
        head, layers = str(self.head), (int(self.n_hidden), _LEARNING_RATE) if self.head == "mlp" else (0, 0.0)
        penalty = float(_PENALTY[head] if self.penalty is None else self.penalty)
        n_steps = int(_STEPS[head] if self.n_steps is None or head == "ridge" else self.n_steps)
        return HeadRecipe(head, len(self.classes_), penalty, n_steps, *layers)

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
            self._cut(X, shard),
            labels[shard],
            partition=f"{self.partition_.fingerprint()} {self._n_places(labels)}",
            index=index,
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
        if not self._n_outputs:  # columns of text, whose required contents are not known
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
                rows, y = self._cut(X, shards[i]), labels[shards[i]]
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
