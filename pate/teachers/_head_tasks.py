"""What runs beside others for heads: training a stack of them, and asking one.

The functions live in a module so that every joblib backend can send them by name. Nothing that a representation says
of private rows leaves a task: it may quote private values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from pate.core.seeds import global_generators
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.teachers._heads import HeadRecipe, Weights, fit_heads, predict_heads
from pate.teachers._process import contained
from pate.teachers._rows import slices
from pate.teachers._shards import Asked, Failure, Trained
from pate.teachers._weights import pack_weights


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
