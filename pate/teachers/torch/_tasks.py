"""What runs beside others for torch teachers: training some, and asking some, on whatever device is there.

The functions live in a module so that every joblib backend can send them by name. Nothing that a module says leaves a
task: it may quote private values.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from pate.teachers._shards import Asked, Trained, interruptible
from pate.teachers._weights import pack_weights
from pate.teachers.torch._devices import visible_devices
from pate.teachers.torch._grouped import Member, alike, stacked_forward, train_group, vote_group
from pate.teachers.torch._recipe import Recipe, Weights, finite, load_weights, own_generator
from pate.teachers.torch._single import single_forward, train_single

T = TypeVar("T")

#: Rows that one teacher looks at together: enough for full kernels, few enough for the cache (or the GPU's memory).
_VOTE_ROWS = {"cpu": 128, "cuda": 512, "mps": 512}


@dataclass(frozen=True, repr=False)
class Shard:
    """One teacher to train: its own rows and nobody else's."""

    index: int
    X: npt.NDArray[Any]
    y: npt.NDArray[np.int64]
    key: bytes | None


@contextmanager
def contained_torch() -> Iterator[None]:
    """Hold torch to one thread and silence warnings; both are as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(before)


@cache
def keep_freed_memory() -> None:
    """In a worker process on glibc: keep what is freed for the next step.

    A step of a small network frees and takes a few MiB; given back to the system each time, they come back as page
    faults, a tenth of the time of a convolution.
    """
    if multiprocessing.parent_process() is None or not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    trim_threshold, mmap_threshold = -1, -3
    mallopt(mmap_threshold, 1 << 28)
    mallopt(trim_threshold, 1 << 29)


def train_shards(shards: list[Shard], recipe: Recipe, slot: int, *, device: str, group_size: int) -> list[Trained]:
    """Train some teachers on the device of this worker."""
    keep_freed_memory()
    devices = visible_devices(device)
    place = devices[slot % len(devices)]
    with contained_torch(), interruptible():
        if group_size > 1 and len(shards) > 1:
            forward = stacked_forward(recipe)
            if forward is not None and alike(recipe, (s.index for s in shards)):
                members = [Member(s.index, _rows(s.X, recipe), torch.from_numpy(s.y)) for s in shards]
                try:
                    groups = halving(lambda part: train_group(recipe, part, forward, place), members, group_size)
                except Exception:  # found out below whose it is
                    groups = None
                if groups is not None:
                    return [_finished(s, w) for s, w in zip(shards, groups, strict=True)]
        return [_train(shard, recipe, place) for shard in shards]


def _train(shard: Shard, recipe: Recipe, device: torch.device) -> Trained:
    try:
        weights = train_single(recipe, shard.index, _rows(shard.X, recipe), torch.from_numpy(shard.y), device)
    except Exception as error:
        return Trained(shard.index, failure=f"its module raised {type(error).__name__}")
    return _finished(shard, weights)


def _finished(shard: Shard, weights: Weights) -> Trained:
    if not finite(weights):
        return Trained(
            shard.index,
            failure="its weights are not finite: a smaller learning_rate, or features of a smaller scale, may help",
        )
    packed = None if shard.key is None else pack_weights(weights, shard.key)
    return Trained(shard.index, weights, packed)


def _rows(X: npt.NDArray[Any], recipe: Recipe) -> torch.Tensor:
    # A copy: joblib hands large arrays to other processes read-only.
    return torch.from_numpy(np.array(X)).to(recipe.dtype)


def halving(work: Callable[[Sequence[Any]], Sequence[T]], items: Sequence[Any], size: int) -> list[T]:
    """Do ``work`` on groups of ``size`` items, halving the group whenever the device's memory does not hold it.

    Examples
    --------
    >>> def work(group):
    ...     if len(group) > 2:
    ...         raise torch.OutOfMemoryError
    ...     return [len(group)] * len(group)
    >>> halving(work, list(range(7)), 8)
    [1, 1, 1, 1, 1, 1, 1]
    """
    done: list[T] = []
    while len(done) < len(items):
        group = items[len(done) : len(done) + size]
        try:
            done.extend(work(group))
        except torch.OutOfMemoryError:
            if len(group) == 1:
                raise
            size = len(group) // 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    return done


def ask_teachers(
    teachers: list[tuple[int, Weights]],
    X: npt.NDArray[Any],
    recipe: Recipe,
    slot: int,
    *,
    device: str,
    group_size: int,
    chunk_size: int | None,
) -> list[Asked]:
    """Ask some teachers about all rows, in blocks; votes are computed in the weights' own type, never in bf16."""
    keep_freed_memory()
    devices = visible_devices(device)
    place = devices[slot % len(devices)]
    size = _VOTE_ROWS[place.type] if chunk_size is None else chunk_size
    dtype = np.int16 if recipe.n_classes <= np.iinfo(np.int16).max else np.int32
    with contained_torch():
        if group_size > 1 and len(teachers) > 1:
            forward = stacked_forward(recipe, training=False)
            if forward is not None and alike(recipe, (i for i, _ in teachers)):
                rows = _rows(X, recipe)

                def ask(group: Sequence[tuple[int, Weights]]) -> list[Asked]:
                    labels = vote_group([w for _, w in group], rows, forward, chunk_size=size, device=place)
                    return [Asked(i, said.numpy().astype(dtype)) for (i, _), said in zip(group, labels, strict=True)]

                try:
                    return halving(ask, teachers, group_size)
                except Exception:  # found out below whose it is
                    pass
        return [_ask(index, weights, X, recipe, place, size, dtype) for index, weights in teachers]


def _ask(
    index: int,
    weights: Weights,
    X: npt.NDArray[Any],
    recipe: Recipe,
    device: torch.device,
    size: int,
    dtype: type[np.integer[Any]],
) -> Asked:
    labels = np.empty(len(X), dtype=dtype)
    try:
        module = load_weights(recipe, index, weights)
        forward = single_forward(recipe, module) if device.type == "cpu" else module.to(device)
        with torch.inference_mode(), own_generator(recipe.vote_seed(index), device):
            for start in range(0, len(X), size):
                part = X[start : start + size]
                # A chain never writes to its rows, so it may look at the very ones that all teachers see.
                rows = _rows(part, recipe) if recipe.chain is None else torch.from_numpy(part).to(recipe.dtype)
                rows = rows.to(device)
                labels[start : start + size] = forward(rows).argmax(1).cpu().numpy()
    except Exception as error:
        return Asked(index, failure=f"its module raised {type(error).__name__}")
    return Asked(index, labels)
