"""One teacher at a time: fastest on a CPU, and the way for modules that cannot be stacked."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from pate.networks._generators import own_generator
from pate.teachers.torch._chain import (
    FlatParameters,
    Step,
    chain_backward,
    chain_forward,
    logits_gradient,
)
from pate.teachers.torch._optimizers import FlatOptimizer, make_optimizer
from pate.teachers.torch._recipe import (
    PRECISIONS,
    Recipe,
    Weights,
    needs_pairs,
    weights_of,
)

#: Batches that are on the device at a time: what a long shard takes there, a GPU's other teachers do not notice.
_WINDOW = 256


def train_single(recipe: Recipe, index: int, X: torch.Tensor, y: torch.Tensor, device: torch.device) -> Weights:
    """Train one teacher on its shard.

    Parameters
    ----------
    recipe : Recipe
    index : int
    X : tensor of shape (n_shard, ...), on the CPU
    y : int64 tensor of shape (n_shard,), on the CPU
    device : torch.device

    Returns
    -------
    dict of arrays
        The weights.
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
        optimizer = FlatOptimizer(recipe.optimizer, flat.vector)
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
                optimizer.step(flat.gradient)
        # Parameters in the module's own order, as its state_dict has them.
        found = flat.weights()
        return {name: found[name].numpy().copy() for name in module.state_dict()}


def _train_autograd(
    recipe: Recipe, index: int, module: nn.Module, X: torch.Tensor, y: torch.Tensor, device: torch.device
) -> Weights:
    module = module.to(device)
    if len(recipe.sample_shape) == 3 and device.type == "cpu":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = make_optimizer(recipe.optimizer, module)
    loss_of = nn.CrossEntropyLoss()
    for epoch, bounds in recipe.epochs_of(len(X), joined=needs_pairs(module)):
        with own_generator(recipe.forward_seed(index, epoch), device):
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
