"""Many teachers in one set of kernels: on a GPU a step of one small teacher is nothing but launches.

Every kernel of a group has one constant shape, (teachers of the group, batch size, ...), and a teacher's place in it
comes from its index: neither other shards' records nor their numbers decide how a teacher's arithmetic is done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, vmap
from torch.nn import functional as F

from pate.teachers.torch._chain import Step
from pate.teachers.torch._graphs import make_stepper
from pate.teachers.torch._optimizers import StackedOptimizer
from pate.teachers.torch._recipe import Recipe, Weights, batch_bounds


@dataclass(frozen=True, eq=False, repr=False)
class Member:
    """One teacher of a group: its index and its shard, on the CPU."""

    index: int
    X: torch.Tensor
    y: torch.Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each parameter of a teacher stands in its row of the stack."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    def views(self, stack: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return parameters by name, each of shape (n_teachers, *shape)."""
        parts = stack.split([shape.numel() for shape in self.shapes], dim=1)
        return {n: p.unflatten(1, s) for n, p, s in zip(self.names, parts, self.shapes, strict=True)}

    def weights(self, row: torch.Tensor) -> Weights:
        """Return one teacher's parameters as arrays."""
        return {name: view[0].cpu().numpy().copy() for name, view in self.views(row[None]).items()}


#: (parameters by name, rows of shape (n_teachers, batch, ...)) -> logits of shape (n_teachers, batch, n_classes)
StackedForward = Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]


def stacked_forward(recipe: Recipe, *, training: bool = True) -> StackedForward | None:
    """Return how to run many copies of the module side by side, or None when they must be run one by one.

    One by one are modules with buffers (batch normalisation), with frozen parameters, that draw random numbers
    (dropout), whose output for a row hangs on the other rows of its batch, or that keep a tensor which is no parameter.

    Examples
    --------
    >>> from pate.teachers.torch._recipe import Optimizer
    >>> from torch import nn
    >>> recipe = Recipe(lambda: nn.Sequential(nn.Dropout(), nn.Linear(4, 2)), {}, 2, (4,), 1, 2, Optimizer(), None,
    ...     "float32", 0)
    >>> stacked_forward(recipe) is None
    True
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
    return forward if same and torch.allclose(single, alone[:, :1], rtol=1e-3, atol=1e-4) else None


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

    Parameters
    ----------
    chain : tuple of Step
    values : dict of tensors of shape (n_teachers, ...)
    rows : tensor of shape (n_teachers, batch, ...)

    Returns
    -------
    tensor of shape (n_teachers, batch, n_classes)
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


def train_group(
    recipe: Recipe, members: Sequence[Member], forward: StackedForward, device: torch.device
) -> list[Weights]:
    """Train some teachers at once, each exactly as alone (up to rounding).

    Shards may be of unequal size: short batches are filled up with rows of weight 0, and a teacher whose epoch is over
    waits, unmoved, for the others.
    """
    modules = [recipe.fresh(member.index) for member in members]
    named = list(modules[0].named_parameters())
    layout = Layout(tuple(n for n, _ in named), tuple(p.shape for _, p in named))
    stack = torch.stack([torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in modules]).to(device)
    del modules
    tables = _Tables(recipe, members, device)
    optimizer = StackedOptimizer(recipe.optimizer, stack)

    def step(rows: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor, active: torch.Tensor) -> None:
        leaf = stack.detach().requires_grad_()
        with torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16"):
            logits = forward(layout.views(leaf), rows)
        losses = F.cross_entropy(logits.flatten(0, 1).to(recipe.dtype), labels.flatten(), reduction="none")
        (gradient,) = torch.autograd.grad((losses * weight.flatten()).sum(), leaf)
        optimizer.step(gradient, active)

    stepper = make_stepper(step, optimizer.state(), device)
    for epoch in range(recipe.epochs):
        for batch in tables.epoch(epoch):
            stepper(*batch)
    return [layout.weights(row) for row in stack.detach().cpu()]


class _Tables:
    """The batches of a group, of constant shape: rows, labels, weights and who still has a batch."""

    def __init__(self, recipe: Recipe, members: Sequence[Member], device: torch.device) -> None:
        self._recipe, self._members, self._device = recipe, members, device
        size, n = recipe.batch_size, len(members)
        self._n_steps = max(len(batch_bounds(len(m.X), size)) for m in members)
        weight = torch.zeros((n, self._n_steps * size), dtype=recipe.dtype)
        active = torch.zeros((n, self._n_steps), dtype=torch.bool)
        for i, member in enumerate(members):
            for j, (start, stop) in enumerate(batch_bounds(len(member.X), size)):
                weight[i, start:stop] = 1.0 / (stop - start)
                active[i, j] = True
        self._weight = weight.to(device).unflatten(1, (self._n_steps, size))
        self._active = active.to(device)
        self._rows: torch.Tensor | None = None
        if recipe.augment is None:  # one copy on the device, gathered anew in every epoch
            longest = max(len(m.X) for m in members)
            rows = torch.zeros((n, longest, *recipe.sample_shape), dtype=recipe.dtype)
            for i, member in enumerate(members):
                rows[i, : len(member.X)] = member.X
            self._rows = rows.to(device)

    def epoch(self, epoch: int) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Return the group's batches of one epoch, in order."""
        recipe, size, n = self._recipe, self._recipe.batch_size, len(self._members)
        order = torch.zeros((n, self._n_steps * size), dtype=torch.int64)
        labels = torch.zeros_like(order)
        augmented = torch.zeros((n, self._n_steps * size, *recipe.sample_shape), dtype=recipe.dtype)
        for i, member in enumerate(self._members):
            length = len(member.X)
            if self._rows is None:
                order[i, :length], augmented[i, :length] = recipe.epoch_rows(member.index, epoch, member.X)
                augmented[i, length:] = augmented[i, 0]  # a row like any other: zeros might not be one
            else:
                order[i, :length] = recipe.order(member.index, epoch, length)
            labels[i, :length] = member.y[order[i, :length]]
        if self._rows is None:
            rows = augmented.to(self._device)
        else:
            rows = self._rows[torch.arange(n, device=self._device)[:, None], order.to(self._device)]
        steps = [t.unflatten(1, (self._n_steps, size)) for t in (rows, labels.to(self._device))]
        return [(steps[0][:, j], steps[1][:, j], self._weight[:, j], self._active[:, j]) for j in range(self._n_steps)]


def vote_group(
    weights: Sequence[Weights], rows: torch.Tensor, forward: StackedForward, *, chunk_size: int, device: torch.device
) -> torch.Tensor:
    """Return the classes that some teachers choose, int64 of shape (n_teachers, n_rows), on the CPU."""
    stacked = {n: torch.stack([torch.from_numpy(w[n]) for w in weights]).to(device) for n in weights[0]}
    labels = torch.empty((len(weights), len(rows)), dtype=torch.int64)
    with torch.inference_mode():
        for start in range(0, len(rows), chunk_size):
            part = rows[start : start + chunk_size].to(device)
            logits = forward(stacked, part.expand(len(weights), *part.shape))
            labels[:, start : start + chunk_size] = logits.argmax(2).cpu()
    return labels
