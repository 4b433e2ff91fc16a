"""One forward pass for many teachers: whether a module allows it, and how."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, vmap
from torch.nn import functional as F

from pate.teachers.torch._chain import Step
from pate.teachers.torch._recipe import Recipe

#: (parameters by name, rows of shape (n_teachers, batch, ...)) -> logits of shape (n_teachers, batch, n_classes)
StackedForward = Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]


def stacked_forward(recipe: Recipe, *, training: bool = True) -> StackedForward | None:
    """Return how to run many copies of the module side by side, or None when they must be run one by one.

    One by one are modules with buffers (batch normalisation), with frozen parameters, that draw random numbers
    (dropout), whose output for a row hangs on the other rows of its batch, or that keep a tensor which is no parameter.
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
        for given, taken in ((values, torch.full_like(rows, odd)), (_filled(values, odd), rows)):
            try:
                with torch.no_grad():
                    forward(given, taken)
            except Exception:
                return False
    return True


def _filled(values: dict[str, torch.Tensor], odd: float) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(value, odd) for name, value in values.items()}


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
