"""Ready torch modules for DP-SGD: small, tanh, nothing that mixes the records of a batch.

Every module here is made as ``module(n_features=..., n_classes=..., **module_kwargs)`` and maps a float tensor of
shape (batch, n_features) to logits of shape (batch, n_classes); that is the whole protocol of a custom one.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from opacus.grad_sample import GradSampleModule
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from pate._validation import check_int
from pate.exceptions import InvalidInputError


class Linear(nn.Module):
    """Multinomial logistic regression, started at zero.

    Parameters
    ----------
    n_features, n_classes : int

    Examples
    --------
    >>> Linear(n_features=4, n_classes=3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, *, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) to logits of shape (batch, n_classes)."""
        return self.linear(x)


class MLP(nn.Module):
    """One or more tanh layers; tanh keeps per-record gradients small (Papernot et al. 2021).

    Parameters
    ----------
    n_features, n_classes : int
    hidden : tuple of int
        Widths of the hidden layers.

    Examples
    --------
    >>> MLP(n_features=4, n_classes=3, hidden=(8,))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, *, n_features: int, n_classes: int, hidden: tuple[int, ...] = (64,)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_features
        for size in hidden:
            layers += [nn.Linear(width, check_int("hidden", size, low=1)), nn.Tanh()]
            width = size
        self.layers = nn.Sequential(*layers, nn.Linear(width, n_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) to logits of shape (batch, n_classes)."""
        return self.layers(x)


class TanhCNN(nn.Module):
    """The small tanh network of Papernot et al. 2021 (tempered sigmoids) for square images.

    At 28 x 28 these are its layers exactly (26,010 parameters). Images below 16 x 16 get 3 x 3 kernels without
    strides.

    Parameters
    ----------
    n_features : int
        channels * side * side: images flattened, channels first.
    n_classes : int
    channels : int
    n_groups : int
        Groups of a group normalisation after each convolution, a divisor of 16; 0 leaves it out.

    Examples
    --------
    >>> network = TanhCNN(n_features=784, n_classes=10)
    >>> sum(p.numel() for p in network.parameters()), network(torch.zeros(2, 784)).shape
    (26010, torch.Size([2, 10]))
    """

    def __init__(self, *, n_features: int, n_classes: int, channels: int = 1, n_groups: int = 0) -> None:
        super().__init__()
        channels = check_int("channels", channels, low=1)
        side = math.isqrt(n_features // channels)
        if side < 4 or channels * side * side != n_features:
            raise InvalidInputError(
                f"n_features must be channels * side * side with side >= 4 for the cnn, got {n_features} features "
                f"and channels={channels}. Use module='mlp' for data that are not square images."
            )
        n_groups = check_int("n_groups", n_groups, low=0, high=16)
        if n_groups and 16 % n_groups:
            raise InvalidInputError(f"n_groups must be 0 or divide 16, got {n_groups}.")
        self.shape = (channels, side, side)
        if side >= 16:
            first: nn.Module = nn.Conv2d(channels, 16, 8, stride=2, padding=3)
            second: nn.Module = nn.Conv2d(16, 32, 4, stride=2)
            pool: nn.Module = nn.MaxPool2d(2, stride=1)
        else:
            first, second = nn.Conv2d(channels, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            pool = nn.MaxPool2d(2)
        norms = [nn.GroupNorm(n_groups, size) if n_groups else nn.Identity() for size in (16, 32)]
        self.convolutions = nn.Sequential(
            *(first, norms[0], nn.Tanh(), pool),
            *(second, norms[1], nn.Tanh(), pool, nn.Flatten()),
        )
        with torch.no_grad():
            width = self.convolutions(torch.zeros(1, *self.shape)).shape[1]
        self.head = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, n_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) to logits of shape (batch, n_classes)."""
        return self.head(self.convolutions(x.reshape(-1, *self.shape)))


#: The names :class:`pate.baselines.DPSGDClassifier` knows.
READY_MODULES: dict[str, type[nn.Module]] = {"linear": Linear, "mlp": MLP, "cnn": TanhCNN}


def build_module(
    module: str | Callable[..., nn.Module], n_features: int, n_classes: int, kwargs: Mapping[str, Any] | None
) -> nn.Module:
    """Make a module and check that DP-SGD may train it.

    Parameters
    ----------
    module : name of a ready module, class, or function that makes one
    n_features, n_classes : int
    kwargs : mapping or None
        More arguments.

    Raises
    ------
    InvalidInputError
        It cannot be made this way, has another output shape, or a record's output depends on its batch.

    Examples
    --------
    >>> build_module("linear", 4, 3, None)
    Linear(
      (linear): Linear(in_features=4, out_features=3, bias=True)
    )
    """
    if isinstance(module, str) and module in READY_MODULES:
        module = READY_MODULES[module]
    if isinstance(module, str | nn.Module) or not callable(module):
        got = repr(module) if isinstance(module, str) else f"an object of type {type(module).__name__}"
        raise InvalidInputError(
            f"module must be one of {', '.join(map(repr, READY_MODULES))}, a torch.nn.Module class or a function "
            f"that makes a module, got {got}. Each fit starts from a new module: pass the class, not an instance."
        )
    arguments = {"n_features": n_features, "n_classes": n_classes, **(kwargs or {})}
    try:
        inspect.signature(module).bind(**arguments)
    except TypeError as error:
        raise InvalidInputError(
            f"module must take n_features, n_classes and module_kwargs as keywords, but {error} "
            f"(got {', '.join(arguments)}). Wrap it in a function that does."
        ) from error
    made = module(**arguments)
    if not isinstance(made, nn.Module):
        raise InvalidInputError(f"module must make a torch.nn.Module, it made a {type(made).__name__}.")
    _check_trainable(made.train())
    _check_rows_apart(made, n_features, n_classes)
    return made


def _check_trainable(module: nn.Module) -> None:
    if not any(p.requires_grad for p in module.parameters()):
        raise InvalidInputError("module has no parameters to train. Give it at least one layer with weights.")
    problems = [str(error).split(".")[0] for error in ModuleValidator.validate(module, strict=False)]
    # Opacus looks at trainable layers only; a frozen batch norm mixes records just the same.
    if any(isinstance(part, _BatchNorm) for part in module.modules()):
        problems = ["BatchNorm makes each record's output depend on its batch"]
    problems = problems or [str(e) for e in GradSampleModule.validate(module, strict=False)]
    if problems:
        raise InvalidInputError(
            f"module cannot be trained with differential privacy: {'; '.join(problems)}. "
            "Use torch.nn.GroupNorm or LayerNorm instead of batch norm, and no buffers in trained layers."
        )


def _check_rows_apart(module: nn.Module, n_features: int, n_classes: int) -> None:
    """Try the module on random numbers: its shape, no row that sees another, a gradient for all parameters."""
    trial = copy.deepcopy(module)
    first = torch.randn(3, n_features)
    second = torch.cat([first[:1], torch.randn(2, n_features)])
    outputs = []
    for batch in (first, second):
        with torch.random.fork_rng(devices=[]):  # the same dropout for both
            outputs.append(trial(batch))
    if tuple(outputs[0].shape) != (3, n_classes):
        raise InvalidInputError(
            f"module must map (batch, {n_features}) to logits of shape (batch, {n_classes}), "
            f"a batch of 3 gave {tuple(outputs[0].shape)}."
        )
    if not torch.allclose(outputs[0][0], outputs[1][0], rtol=1e-4, atol=1e-5):
        raise InvalidInputError(
            "module mixes the records of a batch (one row's output changed with the other rows), so clipping "
            "cannot bound one record's influence. Remove whatever normalises or attends across the batch."
        )
    outputs[0].sum().backward()
    idle = [name for name, p in trial.named_parameters() if p.requires_grad and p.grad is None]
    if idle:
        raise InvalidInputError(
            f"module has parameters that do not reach its output: {', '.join(idle)}. Remove or freeze them."
        )
