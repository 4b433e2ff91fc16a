"""Small heads on a public representation, many at a time: one stack of arrays, each place of it a teacher's own.

Nothing is ever summed over places, and every place has its fixed shape, so a teacher's numbers are those that it would
have with anybody beside it. What may fail on a shard's numbers (a factorisation) is called place by place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from pate.core.secret import global_generators
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.teachers._isolated import contained
from pate.teachers._rows import slices
from pate.teachers._shards import Asked, Failure, Trained
from pate.teachers.checkpoints import pack_weights

Weights = dict[str, FloatArray]

HEADS = ("ridge", "logistic", "mlp")
#: The logit of a class that a shard does not hold: below all others, and a number that a file can keep.
_NEVER = -1e30
#: Adam, as everybody has it.
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
    drawn = [
        (d.normal(size=(n_axes, recipe.n_hidden)), d.normal(size=(recipe.n_hidden, recipe.n_classes))) for d in draws
    ]
    moved = [
        np.sqrt(2.0) * np.stack([first for first, _ in drawn]),
        np.zeros((n_places, 1, recipe.n_hidden)),
        np.stack([second for _, second in drawn]) / np.sqrt(recipe.n_hidden),
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
    if not np.isfinite(matrix).all():  # what LAPACK does with others hangs on who built it
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
            if task.failure is not None:
                done.append(Trained(task.index, failure=task.failure))
            elif task.y is not None:
                shown = _shown(task, representation, n_outputs)
                if isinstance(shown, Failure):
                    done.append(Trained(task.index, failure=shown))
                else:
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
    return [_finished(t, weights) for t, weights in zip(tasks, results, strict=True) if t.index in ready]


def _finished(task: HeadTask, weights: Weights | None) -> Trained:
    if weights is None:
        return Trained(task.index, failure=Failure("its weights are not finite: its rows hold numbers too large"))
    return Trained(task.index, weights, None if task.key is None else pack_weights(weights, task.key))


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
