"""The optimisers of torch (adam, adamw, sgd) for one flat vector, and for a stack of teachers that may end apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from pate.teachers.torch._recipe import Optimizer


def make_optimizer(settings: Optimizer, module: nn.Module) -> torch.optim.Optimizer:
    """Return torch's own optimiser over a module's parameters."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    common: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    if settings.name == "sgd":
        return torch.optim.SGD(parameters, momentum=settings.momentum, fused=fused, **common)
    kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return kind(parameters, betas=settings.betas, eps=settings.eps, fused=fused, **common)


class FlatOptimizer:
    """One optimiser call for a whole teacher on the CPU, through torch's functional forms."""

    def __init__(self, settings: Optimizer, vector: torch.Tensor) -> None:
        self._settings = settings
        self._vector = [vector]
        self._first = [torch.zeros_like(vector)]
        self._second = [torch.zeros_like(vector)]
        self._count = [torch.zeros(())]
        self._momentum: list[torch.Tensor | None] = [None]

    def step(self, gradient: torch.Tensor) -> None:
        """Move the vector, in place."""
        s = self._settings
        if s.name == "sgd":
            sgd(
                self._vector,
                [gradient],
                self._momentum,
                fused=True,
                weight_decay=s.weight_decay,
                momentum=s.momentum,
                lr=s.learning_rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
            return
        (adam if s.name == "adam" else adamw)(
            self._vector,
            [gradient],
            self._first,
            self._second,
            [],
            self._count,
            fused=True,
            amsgrad=False,
            beta1=s.betas[0],
            beta2=s.betas[1],
            lr=s.learning_rate,
            weight_decay=s.weight_decay,
            eps=s.eps,
            maximize=False,
        )


class StackedOptimizer:
    """The same steps for teachers side by side, shape (n_teachers, n_parameters), each with its own step count.

    A teacher that has no batch left is not moved at all: with a shared state its momentum would go on moving it.

    Parameters
    ----------
    settings : Optimizer
    stack : tensor of shape (n_teachers, n_parameters)
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
