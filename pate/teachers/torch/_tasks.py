"""Train and query torch teachers in parallel, on whatever device there is.

The functions live in a module so that every joblib backend can send them by name. Nothing that a module says leaves a
task: it may quote private values.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pate._core.checks import check_int
from pate.exceptions import InvalidInputError
from pate.networks import held_threads, own_generator, steady_kernels, visible_devices
from pate.teachers._shards import Asked, Failure, Trained, interruptible, out_of_memory
from pate.teachers._usable import slices
from pate.teachers.checkpoints import pack_weights
from pate.teachers.torch._grouped import (
    Group,
    Member,
    NotApartError,
    StackedForward,
    alike,
    stacked_forward,
    vote_group,
    window_rows,
)
from pate.teachers.torch._recipe import VOTE, Recipe, Weights, finite, load_weights
from pate.teachers.torch._single import single_forward, train_single

# Which teachers are trained as one group, and on how many GPUs: public, and decided before any shard is read.

#: Most teachers in one group where nothing else is said; beyond some hundreds a step is all arithmetic.
_LARGEST_GROUP = 256


@dataclass(frozen=True)
class Places:
    """The places of teachers.

    Attributes
    ----------
    n_gpus : int
        0 on the CPU.
    """

    n_teachers: int
    group_size: int
    n_gpus: int

    def groups(self, waiting: Collection[int]) -> Iterator[list[int]]:
        """Yield the groups that a waiting teacher is in; a group is the same teachers whichever of them is waiting."""
        groups = (list(range(part.start, part.stop)) for part in slices(self.n_teachers, self.group_size))
        return (group for group in groups if not set(group).isdisjoint(waiting))

    def group_of(self, index: int) -> list[int]:
        """Return the teachers of the group that ``index`` has its place in."""
        return next(self.groups((index,)))


def group_size_on(device: torch.device, group_size: Any, n_teachers: int, n_devices: int) -> int:
    """Return how many teachers are trained as one group.

    On a CPU one after the other is as fast, and lean; on a GPU as many as there are, up to some hundreds.
    """
    if group_size != "auto":
        return check_int("group_size", group_size, low=1, remedy="'auto' chooses by the device.")
    if device.type == "cpu":
        return 1
    return max(1, min(_LARGEST_GROUP, -(-n_teachers // n_devices)))


#: Rows that one teacher looks at together: enough for full kernels, few enough for the cache (or the GPU's memory).
_VOTE_ROWS = {"cpu": 128, "cuda": 512, "mps": 512}


@dataclass(frozen=True, repr=False)
class Shard:
    """One teacher to train: its own rows and no others.

    Without rows it keeps a place in a group, for a teacher that is finished, that failed (in ``failure``), or that is
    not to be trained here.
    """

    index: int
    X: npt.NDArray[Any] | None = None
    y: npt.NDArray[np.int64] | None = None
    key: bytes | None = None
    failure: Failure | None = None

    @property
    def blank(self) -> bool:
        """Whether there is nothing to say of this teacher."""
        return self.X is None and self.failure is None


@contextmanager
def contained_torch() -> Iterator[None]:
    """Hold torch to one thread and silence warnings; both are as before afterwards."""
    with held_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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


def train_shards(
    shards: list[Shard],
    recipe: Recipe,
    slot: int,
    *,
    device: str,
    group_size: int,
    public_rows: int | None = None,
) -> list[Trained]:
    """Train some teachers on the device of this worker."""
    keep_freed_memory()
    devices = visible_devices(device)
    place = devices[slot % len(devices)]
    with contained_torch(), interruptible(), steady_kernels(place):
        done: list[Trained] = [Trained(s.index, failure=s.failure) for s in shards if s.failure is not None]
        forward = _together(recipe, [s.index for s in shards], group_size)
        if forward is not None:
            shards = _train_groups(shards, recipe, forward, place, group_size, public_rows, done)
        return done + [_train(shard, recipe, place) for shard in shards if shard.X is not None]


def _together(recipe: Recipe, indices: Sequence[int], size: int, *, training: bool = True) -> StackedForward | None:
    """Return how teachers are run side by side, or None when they are run one by one: public facts decide."""
    if size == 1 or len(indices) == 1 or not alike(recipe, indices):
        return None
    return stacked_forward(recipe, training=training)


def _train_groups(
    shards: list[Shard],
    recipe: Recipe,
    forward: StackedForward,
    device: torch.device,
    size: int,
    public_rows: int | None,
    done: list[Trained],
) -> list[Shard]:
    """Train shards in groups of ``size`` places, adding to ``done``; return those that must be trained one by one.

    How large a group is, and whether there is one, is decided before any shard is read (a GPU that does not hold a
    group gets half of it). After that no failure changes how others are trained: who fails is left where it is, and
    when a whole step fails, its teachers are tried alone, each in the very place that it has here.
    """
    start = 0
    while start < len(shards):
        part = shards[start : start + size]
        window = window_rows(recipe, len(part), public_rows)
        try:
            group = Group(recipe, [s.index for s in part], forward, device, window)
        except NotApartError:
            return shards[start:]
        except Exception as error:
            if not out_of_memory(error):
                return shards[start:]  # something that this device cannot do for several at once
            if device.type == "cpu":  # whose memory other tasks, and the shards themselves, may have taken
                done += [
                    Trained(s.index, failure=_failed(error, again=True)) for s in shards[start:] if s.X is not None
                ]
                return []
            if len(part) == 1:
                raise InvalidInputError(
                    f"{device} does not hold one teacher and a batch of {recipe.batch_size} rows. Take a smaller "
                    "batch_size or module, or device='cpu'."
                ) from None
            size = len(part) // 2
            _free(device)
            continue
        done += _train_group(group, part, recipe)
        start += len(part)
        del group
        _free(device)
    return []


def _train_group(group: Group, shards: Sequence[Shard], recipe: Recipe) -> list[Trained]:
    members: list[Member | None] = []
    failed: dict[int, Exception] = {}
    for shard in shards:
        member = None
        if shard.X is not None and shard.y is not None:
            try:
                member = Member(shard.index, _rows(shard.X, recipe), torch.from_numpy(shard.y))
            except Exception as error:
                failed[shard.index] = error
        members.append(member)
    try:
        results = group.train(members)
    except Exception as error:
        return [Trained(s.index, failure=_failed(error, again=True)) for s in shards if s.X is not None]
    return [
        _finished(shard, failed.get(shard.index, result))
        for shard, result in zip(shards, results, strict=True)
        if shard.X is not None
    ]


def _failed(error: BaseException, *, again: bool = False) -> Failure:
    """Return why a module failed; after a CUDA error the next task in this process would fail as well."""
    found = Failure.of(error, "its module")
    return Failure(found.why, again=again or found.again or "CUDA error" in str(error))


def _free(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _train(shard: Shard, recipe: Recipe, device: torch.device) -> Trained:
    assert shard.X is not None
    assert shard.y is not None
    result: Weights | BaseException
    try:
        result = train_single(recipe, shard.index, _rows(shard.X, recipe), torch.from_numpy(shard.y), device)
    except BaseException as error:
        result = error
    return _finished(shard, result)


def _finished(shard: Shard, result: Weights | BaseException | None) -> Trained:
    if isinstance(result, BaseException):
        return Trained(shard.index, failure=_failed(result))
    assert result is not None
    if not finite(result):
        why = "its weights are not finite: a smaller learning_rate, or features of a smaller scale, may help"
        return Trained(shard.index, failure=Failure(why))
    packed = None if shard.key is None else pack_weights(result, shard.key)
    return Trained(shard.index, result, packed)


def _rows(X: npt.NDArray[Any], recipe: Recipe) -> torch.Tensor:
    # A copy: joblib hands large arrays to other processes read-only.
    return torch.from_numpy(np.array(X)).to(recipe.dtype)


def ask_teachers(
    teachers: list[tuple[int, Weights | None]],
    X: npt.NDArray[Any],
    recipe: Recipe,
    slot: int,
    *,
    device: str,
    group_size: int,
    chunk_size: int | None,
) -> list[Asked]:
    """Ask some teachers about all rows, in blocks; votes are computed in the weights' own type, never in bf16.

    A teacher without weights keeps a place in its group, and is not asked.
    """
    keep_freed_memory()
    devices = visible_devices(device)
    place = devices[slot % len(devices)]
    size = _VOTE_ROWS[place.type] if chunk_size is None else chunk_size
    dtype = np.int16 if recipe.n_classes <= np.iinfo(np.int16).max else np.int32
    with contained_torch(), steady_kernels(place):
        forward = _together(recipe, [i for i, _ in teachers], group_size, training=False)
        if forward is None:
            return [_ask(i, weights, X, recipe, place, size, dtype) for i, weights in teachers if weights is not None]

        def ask(group: Sequence[tuple[int, Weights | None]]) -> list[Asked]:
            if all(w is None for _, w in group):
                return [Asked(i) for i, _ in group]
            labels = vote_group([w for _, w in group], rows, forward, chunk_size=size, device=place)
            return [Asked(i, said.numpy().astype(dtype)) for (i, _), said in zip(group, labels, strict=True)]

        present = {i for i, weights in teachers if weights is not None}
        try:
            rows = _rows(X, recipe)
            done: list[Asked] = []
            while len(done) < len(teachers):  # in groups that are halved whenever a GPU's memory does not hold one
                group = teachers[len(done) : len(done) + group_size]
                try:
                    done += ask(group)
                except Exception as error:  # shapes alone decide, which are public
                    if len(group) == 1 or place.type == "cpu" or not out_of_memory(error):
                        raise
                    group_size = len(group) // 2
                    _free(place)
            return [asked for asked in done if asked.index in present]
        except Exception as error:
            return [Asked(i, failure=_failed(error, again=True)) for i in sorted(present)]


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
        with torch.inference_mode(), own_generator(recipe.seed_of(index, VOTE), device):
            for start in range(0, len(X), size):
                part = X[start : start + size]
                # A chain never writes to its rows, so it may look at the very ones that all teachers see.
                rows = _rows(part, recipe) if recipe.chain is None else torch.from_numpy(part).to(recipe.dtype)
                rows = rows.to(device)
                labels[start : start + size] = forward(rows).argmax(1).cpu().numpy()
    except BaseException as error:
        return Asked(index, failure=_failed(error))
    return Asked(index, labels)
