"""One teacher at a time: fastest on a CPU, and the way for modules that cannot be stacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from pate.networks import own_generator
from pate.teachers.torch._chain import FlatParameters, Step, chain_backward, chain_forward, logits_gradient
from pate.teachers.torch._recipe import FORWARD, PRECISIONS, Optimizer, Recipe, Weights, needs_pairs, weights_of

# The optimisers of torch (adam, adamw, sgd) for one flat vector, and for a stack of teachers that may end apart.


def make_optimizer(settings: Optimizer, module: nn.Module) -> torch.optim.Optimizer:
    """Return torch's own optimiser over a module's parameters."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    common: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    if settings.name == "sgd":
        return torch.optim.SGD(parameters, momentum=settings.momentum, fused=fused, **common)
    kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return kind(parameters, betas=settings.betas, eps=settings.eps, fused=fused, **common)


def flat_step(settings: Optimizer, vector: torch.Tensor) -> Callable[[torch.Tensor], None]:
    """Return what moves one teacher's vector by a gradient, in place, on the CPU: one call of torch's functional forms.

    An optimiser object of torch's does the same, and makes the step of a small teacher a quarter longer.
    """
    s, moved = settings, [vector]
    common: dict[str, Any] = {"fused": True, "maximize": False, "lr": s.learning_rate, "weight_decay": s.weight_decay}
    if s.name == "sgd":
        momentum: list[torch.Tensor | None] = [None]
        common |= {"momentum": s.momentum, "dampening": 0.0, "nesterov": False}
        return lambda gradient: sgd(moved, [gradient], momentum, **common)
    first, second, count = [torch.zeros_like(vector)], [torch.zeros_like(vector)], [torch.zeros(())]
    common |= {"amsgrad": False, "beta1": s.betas[0], "beta2": s.betas[1], "eps": s.eps}
    kind = adam if s.name == "adam" else adamw
    return lambda gradient: kind(moved, [gradient], first, second, [], count, **common)


class StackedOptimizer:
    """The same steps for teachers side by side, shape (n_teachers, n_parameters), each with its own step count.

    A teacher that has no batch left is not moved at all: with a shared state its momentum would go on moving it.
    """

    def __init__(self, settings: Optimizer, stack: torch.Tensor) -> None:
        self._settings = settings
        self.stack = stack
        self._first = torch.zeros_like(stack)
        self._second = torch.zeros_like(stack) if settings.name != "sgd" else None
        self._count = torch.zeros((len(stack), 1), dtype=stack.dtype, device=stack.device)

    def state(self) -> list[torch.Tensor]:
        """Return every tensor that a step changes."""
        return [self.stack, self._first, self._count, *([] if self._second is None else [self._second])]

    def step(self, gradient: torch.Tensor, active: torch.Tensor) -> None:
        """Move the rows of ``stack`` that are ``active``, in place; every operation can be recorded in a CUDA graph."""
        s, on = self._settings, active[:, None]
        if s.weight_decay and s.name != "adamw":
            gradient = gradient + s.weight_decay * self.stack
        if self._second is None:
            moving = self._first * s.momentum + gradient
            self._first.copy_(torch.where(on, moving, self._first))
            self.stack.sub_(torch.where(on, moving, 0.0), alpha=s.learning_rate)
            return
        beta1, beta2 = s.betas
        self._count.add_(on)
        self._first.copy_(torch.where(on, torch.lerp(self._first, gradient, 1 - beta1), self._first))
        second = self._second * beta2 + gradient * gradient * (1 - beta2)
        self._second.copy_(torch.where(on, second, self._second))
        # A teacher that has not begun would divide by zero; its step is masked below.
        count = self._count.clamp(min=1)
        scale = s.learning_rate / (1 - beta1**count)
        size = self._second.sqrt() / (1 - beta2**count).sqrt() + s.eps
        if s.name == "adamw":
            self.stack.copy_(torch.where(on, self.stack * (1 - s.learning_rate * s.weight_decay), self.stack))
        self.stack.sub_(torch.where(on, scale * self._first / size, 0.0))


#: Batches that are on the device at a time: what a long shard takes there, a GPU's other teachers do not notice.
_WINDOW = 256


def train_single(recipe: Recipe, index: int, X: torch.Tensor, y: torch.Tensor, device: torch.device) -> Weights:
    """Train one teacher on its shard.

    Shapes: ``X`` (n_shard, ...), ``y`` (n_shard,).
    """
    module = recipe.fresh(index)
    if recipe.chain is not None and device.type == "cpu":
        return _train_chain(recipe, index, module, recipe.chain, X, y)
    return _train_autograd(recipe, index, module, X, y, device)


def _train_chain(
    recipe: Recipe, index: int, module: nn.Module, chain: tuple[Step, ...], X: torch.Tensor, y: torch.Tensor
) -> Weights:
    low = PRECISIONS[recipe.precision]
    with torch.inference_mode():
        flat = FlatParameters(module, chain, low)
        step = flat_step(recipe.optimizer, flat.vector)
        # Rounding first and shuffling then is shuffling half the bytes; an augmentation must see the rows as given.
        rows_of = X.to(low) if recipe.augment is None else X
        targets_of = nn.functional.one_hot(y, recipe.n_classes).to(recipe.dtype)
        for epoch, bounds in recipe.epochs_of(len(X)):
            order, rows = recipe.epoch_rows(index, epoch, rows_of)
            rows, targets = rows.to(low), targets_of[order]
            for start, stop in bounds:
                flat.refresh()
                saved: list[object] = []
                logits = chain_forward(chain, flat.values, rows[start:stop], saved)
                chain_backward(chain, flat, saved, logits_gradient(logits, targets[start:stop]))
                step(flat.gradient)
        # Parameters in the module's own order, as its state_dict has them.
        return {name: flat.weights[name].numpy().copy() for name in module.state_dict()}


def _train_autograd(
    recipe: Recipe, index: int, module: nn.Module, X: torch.Tensor, y: torch.Tensor, device: torch.device
) -> Weights:
    module = module.to(device)
    if len(recipe.sample_shape) == 3 and device.type == "cpu":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = make_optimizer(recipe.optimizer, module)
    loss_of = nn.CrossEntropyLoss()
    for epoch, bounds in recipe.epochs_of(len(X), joined=needs_pairs(module)):
        with own_generator(recipe.seed_of(index, FORWARD, epoch), device):
            order, own = recipe.epoch_rows(index, epoch, X)
            for first in range(0, len(bounds), _WINDOW):
                window = bounds[first : first + _WINDOW]
                begin, end = window[0][0], window[-1][1]
                rows, labels = own[begin:end].to(device, recipe.dtype), y[order[begin:end]].to(device)
                for start, stop in window:
                    part = slice(start - begin, stop - begin)
                    with torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16"):
                        logits = module(rows[part])
                    loss = loss_of(logits.to(recipe.dtype), labels[part])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    return weights_of(module)


def single_forward(recipe: Recipe, module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the fastest way to get a trained module's logits on the CPU."""
    steps = recipe.chain
    if steps is None:
        return module
    values = {name: p.detach() for name, p in module.named_parameters()}
    return lambda rows: chain_forward(steps, values, rows)
