"""Train many teachers together on a GPU, where the step of one small teacher is mostly the overhead of launches.

Every array of a group has one constant shape, (teachers of the group, batch size, ...) or (teachers, rows kept on the
device, ...), decided by public numbers before any shard is looked at, and a teacher's place in it comes from its index:
neither other shards' records nor how many they are decides how a teacher's arithmetic is done. Longer shards pass
through their place window by window.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, vmap
from torch.nn import functional as F

from pate.teachers.torch._chain import Step
from pate.teachers.torch._recipe import Recipe, Weights
from pate.teachers.torch._single import StackedOptimizer

# One forward pass for many teachers: whether a module allows it, and how.

#: (parameters by name, rows of shape (n_teachers, batch, ...)) -> logits of shape (n_teachers, batch, n_classes)
StackedForward = Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]


def stacked_forward(recipe: Recipe, *, training: bool = True) -> StackedForward | None:
    """Return how to run many copies of the module side by side, or None when they must be run one by one.

    One by one are modules with buffers (batch normalisation), with frozen parameters, that draw random numbers
    (dropout), whose output for a row depends on the other rows of its batch, or that keep a tensor which is no
    parameter.
    """
    modules = [recipe.fresh(index).train(training) for index in (0, 1)]
    named = dict(modules[0].named_parameters())
    if set(named) != set(modules[0].state_dict()) or any(True for _ in modules[0].buffers()):
        return None
    if not all(p.requires_grad for p in named.values()):
        return None
    chain = recipe.chain
    if chain is not None:
        return lambda values, rows: stacked_chain(chain, values, rows)
    template = recipe.fresh(0).train(training).to("meta")

    def forward(values: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        return vmap(lambda own, x: functional_call(template, own, (x,)), randomness="error")(values, rows)

    values = {n: torch.stack([m.get_parameter(n).detach() for m in modules]) for n in named}
    rows = torch.rand((2, 3, *recipe.sample_shape), generator=torch.Generator().manual_seed(0), dtype=recipe.dtype)
    before = _global_state()
    try:
        with torch.no_grad():
            logits = forward(values, rows)
            alone = torch.stack([m(x) for m, x in zip(modules, rows, strict=True)])
            single = torch.stack([m(x[:1]) for m, x in zip(modules, rows, strict=True)])
    except Exception:  # random numbers, control flow on values, operations without a batching rule
        return None
    if _global_state() != before:
        return None  # randomness that vmap does not see
    same = torch.allclose(logits, alone, rtol=1e-3, atol=1e-4)
    if not (same and torch.allclose(single, alone[:, :1], rtol=1e-3, atol=1e-4)):
        return None
    return forward if _takes_anything(forward, values, rows) else None


def _takes_anything(forward: StackedForward, values: dict[str, torch.Tensor], rows: torch.Tensor) -> bool:
    """Whether no number raises: one shard's would stop a whole group (an index out of range, a singular matrix)."""
    for odd in (torch.nan, torch.inf, 1e30, -1e30):
        filled = {name: torch.full_like(value, odd) for name, value in values.items()}
        for given, taken in ((values, torch.full_like(rows, odd)), (filled, rows)):
            try:
                with torch.no_grad():
                    forward(given, taken)
            except Exception:
                return False
    return True


def alike(recipe: Recipe, indices: Iterable[int]) -> bool:
    """Whether teachers differ in their parameters only: else all would compute with what one module drew when made."""
    first: list[str] | None = None
    for index in indices:
        facts = [
            f"{name} {kept}={value!r}"
            for name, part in recipe.fresh(index).named_modules()
            for kept, value in sorted(vars(part).items())
            if value is None or isinstance(value, bool | int | float | str | tuple | list)
        ]
        first = facts if first is None else first
        if facts != first:
            return False
    return True


def _global_state() -> tuple[Any, ...]:
    name, key, *rest = np.random.get_state()  # noqa: NPY002
    return name, np.asarray(key).tobytes(), *rest, random.getstate()


def stacked_chain(chain: tuple[Step, ...], values: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
    """Run a chain for many teachers: convolutions by groups of channels, linear layers by batched products.

    Shapes: ``values`` (n_teachers, ...), ``rows`` (n_teachers, batch, ...), returned (n_teachers, batch, n_classes).
    """
    n_teachers, batch = rows.shape[:2]
    x, image = rows, rows.dim() == 5
    if image:
        x = _side_by_side(x)
    for step in chain:
        if step.kind == "linear":
            weight = values[step.weight].transpose(1, 2)
            x = torch.baddbmm(values[step.bias][:, None], x, weight) if step.bias else torch.bmm(x, weight)
        elif step.kind == "conv":
            stride, padding, dilation = step.options
            weight = values[step.weight].flatten(0, 1)
            bias = values[step.bias].flatten() if step.bias else None
            x = F.conv2d(x, weight, bias, stride, padding, dilation, n_teachers)
        elif step.kind == "pool":
            x = F.max_pool2d(x, *step.options)
        elif step.kind == "relu":
            x = x.relu()
        elif step.kind == "tanh":
            x = x.tanh()
        elif step.kind == "flatten":
            if image:
                x = x.unflatten(1, (n_teachers, -1)).transpose(0, 1)
                image = False
            x = x.flatten(2)
        else:  # unflatten
            x = _side_by_side(x.reshape(n_teachers, batch, *step.options))
            image = True
    return x


def _side_by_side(x: torch.Tensor) -> torch.Tensor:
    """Return (n_teachers, batch, channels, ...) as (batch, n_teachers * channels, ...)."""
    x = x.transpose(0, 1).flatten(1, 2)
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x.contiguous()


# A training step recorded once as a CUDA graph and replayed, where that is possible, exact and faster.

#: One step of a group: (rows, labels, weight, active) -> nothing; changes the optimiser's state in place.
GroupStep = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]

_WARM_UP, _TIMED = 3, 5


def faster_step(
    step: GroupStep, state: Sequence[torch.Tensor], batch: tuple[torch.Tensor, ...], device: torch.device
) -> GroupStep:
    """Return the step to take, decided once, on a batch like those to come; the state is put back after every trial."""
    before = [t.clone() for t in state]

    def restore() -> None:
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)

    try:
        recorded = _recorded(step, batch, device)
        restore()
        step(*batch)
        expected = [t.clone() for t in state]
        restore()
        recorded(*batch)
        same = all(
            torch.allclose(found, value, rtol=1e-4, atol=1e-6, equal_nan=True)
            for found, value in zip(state, expected, strict=True)
        )
        faster = same and _seconds(recorded, batch, device) < _seconds(step, batch, device)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # an operation that cannot be recorded
        faster = False
    restore()
    return recorded if faster else step


@dataclass(frozen=True, eq=False, repr=False)
class _Replay:
    """A recorded step: its graph knows tensors by their addresses alone, so the step that holds them is kept."""

    graph: torch.cuda.CUDAGraph
    fixed: tuple[torch.Tensor, ...]
    step: GroupStep

    def __call__(self, *given: torch.Tensor) -> None:
        for place, tensor in zip(self.fixed, given, strict=True):
            place.copy_(tensor)
        self.graph.replay()


def _recorded(step: GroupStep, batch: tuple[torch.Tensor, ...], device: torch.device) -> GroupStep:
    fixed = tuple(t.contiguous().clone() for t in batch)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            step(*fixed)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(*fixed)

    return _Replay(graph, fixed, step)


def _seconds(step: GroupStep, batch: tuple[torch.Tensor, ...], device: torch.device) -> float:
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(_TIMED):
        step(*batch)
    torch.cuda.synchronize(device)
    return time.perf_counter() - start


#: Rows of a teacher on the device where their number is not public, and the most bytes of a group's rows there.
_WINDOW_ROWS, _WINDOW_BYTES = 4096, 1 << 30


@dataclass(frozen=True, eq=False, repr=False)
class Member:
    """One teacher of a group: its index and its shard, on the CPU."""

    index: int
    X: torch.Tensor
    y: torch.Tensor


def _views(stack: torch.Tensor, shapes: dict[str, torch.Size]) -> dict[str, torch.Tensor]:
    """Return parameters by name, each of shape (n_teachers, *shape), of a stack of teachers' rows of numbers."""
    parts = stack.split([shape.numel() for shape in shapes.values()], dim=1)
    return {name: part.unflatten(1, shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def window_rows(recipe: Recipe, n_places: int, public_rows: int | None) -> int:
    """Return how many rows of each teacher are on the device at a time, a multiple of the batch size.

    Parameters
    ----------
    public_rows : int or None
        The most rows that a shard can have, where that is public (it is not where people have several records).
    """
    size = recipe.batch_size
    bytes_per_row = max(1, n_places * int(np.prod(recipe.sample_shape)) * recipe.dtype.itemsize)
    wanted = min(public_rows or _WINDOW_ROWS, max(size, _WINDOW_BYTES // bytes_per_row))
    return -(-wanted // size) * size


class Group:
    """Places for some teachers, ready to train: whatever could fail for public reasons has failed by now."""

    def __init__(
        self, recipe: Recipe, indices: Sequence[int], forward: StackedForward, device: torch.device, window: int
    ) -> None:
        modules = [recipe.fresh(index) for index in indices]
        self._shapes = shapes = {name: p.shape for name, p in modules[0].named_parameters()}
        stack = torch.stack([torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in modules]).to(device)
        del modules
        self._recipe, self._device, self._window, self._stack = recipe, device, window, stack
        self._slab = torch.zeros((len(indices), window, *recipe.sample_shape), dtype=recipe.dtype, device=device)
        optimizer = StackedOptimizer(recipe.optimizer, stack)

        def step(rows: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor, active: torch.Tensor) -> None:
            leaf = stack.detach().requires_grad_()
            with torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16"):
                logits = forward(_views(leaf, shapes), rows)
            losses = F.cross_entropy(logits.flatten(0, 1).to(recipe.dtype), labels.flatten(), reduction="none")
            (gradient,) = torch.autograd.grad((losses * weight.flatten()).sum(), leaf)
            optimizer.step(gradient, active)

        state = optimizer.state()
        trial = self._trial()
        # What is chosen depends on no shard: the trial's rows are made up.
        self._stepper = faster_step(step, state, trial, device) if device.type == "cuda" else step
        if not _apart(self._stepper, state, trial):
            raise NotApartError

    def _trial(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return a batch of made-up rows."""
        n, size, device = len(self._stack), self._recipe.batch_size, self._device
        draws = torch.Generator().manual_seed(0)
        rows = torch.rand((n, size, *self._recipe.sample_shape), generator=draws, dtype=self._recipe.dtype)
        labels = torch.randint(0, self._recipe.n_classes, (n, size), generator=draws)
        weight = torch.full((n, size), 1.0 / size, dtype=self._recipe.dtype)
        active = torch.ones(n, dtype=torch.bool)
        return rows.to(device), labels.to(device), weight.to(device), active.to(device)

    def train(self, members: Sequence[Member | None]) -> list[Weights | Exception | None]:
        """Train each place's member, each exactly as alone (up to rounding).

        Shards may be of unequal size: short batches are filled up with rows of weight 0, everybody goes through its
        own epochs, and a teacher that has made all its steps waits, unmoved, for the others.
        """
        feed = _Feed(self._recipe, members, self._slab, self._device)
        for batch in feed.batches():
            self._stepper(*batch)
        found = _views(self._stack.detach().cpu(), self._shapes).items()
        return [
            feed.failed.get(i) or (None if member is None else {name: v[i].numpy().copy() for name, v in found})
            for i, member in enumerate(members)
        ]


class NotApartError(RuntimeError):
    """A kernel mixes teachers: they are trained one by one instead."""


def _apart(step: Callable[..., None], state: Sequence[torch.Tensor], trial: tuple[torch.Tensor, ...]) -> bool:
    """Whether teachers whose numbers have become infinite leave the others' as they are; the state is put back.

    Kernels that put several groups of channels into one product, with zeros between, would not: 0 * inf is NaN.
    """
    before = [t.clone() for t in state]
    ends = []
    for poisoned in (False, True):
        rows = trial[0].clone()
        if poisoned:
            state[0][1::2] = torch.inf
            rows[1::2] = torch.inf
        step(rows, *trial[1:])
        ends.append(state[0][::2].clone())
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)
    return torch.allclose(ends[0], ends[1], rtol=1e-4, atol=1e-6, equal_nan=True)


@dataclass
class _Epoch:
    """What is left of one epoch of a place: the order of its records, filled up to whole batches with the first one."""

    order: torch.Tensor
    labels: torch.Tensor
    rows: torch.Tensor | None
    held: torch.Tensor  # records in each batch
    at: int = 0  # batches taken


class _Feed:
    """The batches of a group, of constant shape: rows, labels, weights and who still has a batch.

    A shard that fits into its window is on the device for good and gathered again in every epoch; of a longer one, or
    an augmented one, the window's rows are put there as they come.
    """

    def __init__(
        self, recipe: Recipe, members: Sequence[Member | None], slab: torch.Tensor, device: torch.device
    ) -> None:
        self._recipe, self._slab, self._device = recipe, slab, device
        self._members = {place: member for place, member in enumerate(members) if member is not None}
        self._places = torch.arange(len(members), device=device)[:, None]
        self._resident: set[int] = set()
        self._held = torch.zeros(0)
        #: Members that could not go on, by place: they stay where they are, and the others do not notice.
        self.failed: dict[int, Exception] = {}

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield the group's batches, in order."""
        n, size, window = len(self._slab), self._recipe.batch_size, self._slab.shape[1]
        epochs = {place: self._epochs(member) for place, member in self._members.items()}
        current: dict[int, _Epoch | None] = dict.fromkeys(epochs)
        while True:
            index = torch.zeros((n, window), dtype=torch.int64)
            labels = torch.zeros_like(index)
            held = torch.zeros((n, window // size), dtype=torch.int64)
            for place in epochs:
                if place in self.failed:
                    continue
                try:
                    current[place] = self._fill(place, epochs[place], current[place], index, labels, held)
                except Exception as error:
                    self.failed[place] = error
                    held[place] = 0
            n_steps = int((held > 0).any(0).sum())
            if not n_steps:
                return
            weight, active = self._weights(held)
            index, labels = index.to(self._device), labels.to(self._device)
            for j in range(n_steps):
                part = slice(j * size, (j + 1) * size)
                # A place without a row takes its first one, with weight 0: a row like any other (zeros might not be).
                yield self._slab[self._places, index[:, part]], labels[:, part], weight[:, j], active[:, j]

    def _epochs(self, member: Member) -> Iterator[_Epoch]:
        recipe, n = self._recipe, len(member.X)
        for epoch, bounds in recipe.epochs_of(n):
            rows = None
            if recipe.augment is None:
                order = recipe.order(member.index, epoch, n)
            else:
                order, rows = recipe.epoch_rows(member.index, epoch, member.X)
                if rows.shape != member.X.shape:
                    raise ValueError("augment must return rows of the shape it was given")
            held = torch.tensor([stop - start for start, stop in bounds])
            spare = (0, -len(order) % recipe.batch_size)
            yield _Epoch(F.pad(order, spare), F.pad(member.y[order], spare), rows, held)

    def _fill(
        self,
        place: int,
        epochs: Iterator[_Epoch],
        epoch: _Epoch | None,
        index: torch.Tensor,
        labels: torch.Tensor,
        held: torch.Tensor,
    ) -> _Epoch | None:
        """Fill one place's window with the batches that come next, across epochs; return the epoch that is not over."""
        size, filled = self._recipe.batch_size, 0
        while filled < held.shape[1]:
            epoch = epoch or next(epochs, None)
            if epoch is None:
                break
            taken = min(held.shape[1] - filled, len(epoch.held) - epoch.at)
            rows = slice(filled * size, (filled + taken) * size)
            part = slice(epoch.at * size, (epoch.at + taken) * size)
            index[place, rows] = self._put(place, epoch, part, rows)
            labels[place, rows] = epoch.labels[part]
            held[place, filled : filled + taken] = epoch.held[epoch.at : epoch.at + taken]
            filled, epoch.at = filled + taken, epoch.at + taken
            if epoch.at == len(epoch.held):
                epoch = None
        return epoch

    def _put(self, place: int, epoch: _Epoch, part: slice, rows: slice) -> torch.Tensor:
        """See that the rows of a part of an epoch are on the device, and return where."""
        member = self._members[place]
        if epoch.rows is None and len(member.X) <= self._slab.shape[1]:
            if place not in self._resident:
                self._slab[place, : len(member.X)] = member.X.to(self._device)
                self._resident.add(place)
            return epoch.order[part]
        found = member.X[epoch.order[part]] if epoch.rows is None else epoch.rows[part]
        stop = rows.start + len(found)  # an epoch's augmented rows are not filled up
        self._slab[place, rows.start : stop] = found.to(self._device, self._slab.dtype)
        return torch.arange(rows.start, rows.stop).clamp(max=stop - 1)

    def _weights(self, held: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows' weights (n, n_steps, batch_size), a mean over each batch, and who has a batch (n, n_steps)."""
        if not torch.equal(held, self._held):
            there = held.to(self._device)
            here = torch.arange(self._recipe.batch_size, device=self._device) < there[..., None]
            self._weight = here.to(self._slab.dtype) / there.clamp(min=1)[..., None]
            self._active = there > 0
            self._held = held
        return self._weight, self._active


def vote_group(
    weights: Sequence[Weights | None],
    rows: torch.Tensor,
    forward: StackedForward,
    *,
    chunk_size: int,
    device: torch.device,
) -> torch.Tensor:
    """Return the classes that some teachers choose, int64 of shape (n_teachers, n_rows), on the CPU.

    A place without a teacher (None) is held by zeros.
    """
    one = next(w for w in weights if w is not None)
    stacked = {
        n: torch.from_numpy(np.stack([np.zeros_like(v) if w is None else w[n] for w in weights])).to(device)
        for n, v in one.items()
    }
    labels = torch.empty((len(weights), len(rows)), dtype=torch.int64)
    with torch.inference_mode():
        for start in range(0, len(rows), chunk_size):
            part = rows[start : start + chunk_size].to(device)
            logits = forward(stacked, part.expand(len(weights), *part.shape))
            labels[:, start : start + chunk_size] = logits.argmax(2).cpu()
    return labels
