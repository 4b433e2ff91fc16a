"""Ready torch modules for DP-SGD: small, tanh, nothing that mixes the records of a batch; and how any is made.

Every module here is made as ``module(n_features=..., n_classes=..., **module_kwargs)`` and maps a float tensor of
shape (batch, n_features), or (batch, channels, side, side), to logits of shape (batch, n_classes). A custom one is what
torch teachers take: see :class:`pate.teachers.torch.TorchTeacherEnsemble`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from pate.core.checks import check_choice, check_int
from pate.dpsgd._checks import check_on_made_up_rows, check_trainable
from pate.dpsgd._gradients import RecordGradients
from pate.exceptions import InvalidInputError
from pate.teachers.torch._contract import check_apart, make, module_arguments
from pate.teachers.torch.modules import make_module, named_modules


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
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.linear(x.flatten(1))


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
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.layers(x.flatten(1))


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
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.head(self.convolutions(x.reshape(-1, *self.shape)))


#: The names that only :class:`pate.dpsgd.DPSGDClassifier` knows; "mlp" is not that of teachers.
READY_MODULES: dict[str, type[nn.Module]] = {"linear": Linear, "mlp": MLP, "cnn": TanhCNN}


def build_module(
    module: str | Callable[..., nn.Module],
    row_shape: int | tuple[int, ...],
    n_classes: int,
    kwargs: Mapping[str, Any] | None = None,
) -> RecordGradients:
    """Make a module as torch teachers are made, and check that DP-SGD may train it.

    Parameters
    ----------
    module : name of a ready module, class, or function that makes one
    row_shape : int or tuple of int
        Shape of one row.
    n_classes : int
    kwargs : mapping or None
        More arguments.

    Returns
    -------
    RecordGradients
        Its ``module`` has never been run.

    Raises
    ------
    InvalidInputError
        It cannot be made this way, has another output shape, or a record's output depends on its batch.

    Examples
    --------
    >>> build_module("linear", 4, 3).module
    Linear(
      (linear): Linear(in_features=4, out_features=3, bias=True)
    )
    """
    shape = (row_shape,) if isinstance(row_shape, int) else tuple(row_shape)
    factory = _factory(module)
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidInputError(f"module_kwargs must be a mapping or None, got {kwargs!r}.")
    arguments = module_arguments(factory, kwargs, n_features=math.prod(shape), n_classes=n_classes)
    try:
        made, other = make(factory, arguments), make(factory, arguments)
    except InvalidInputError:
        raise
    except Exception as error:  # the module's own code; nothing private has been near it
        raise InvalidInputError(
            f"module could not be made with {arguments!r}: {type(error).__name__}: {error}. It gets n_features, "
            "n_classes where it takes them, and module_kwargs: pass what it needs there."
        ) from error
    check_apart(made, other)
    check_trainable(made.train())
    return check_on_made_up_rows(made, shape, n_classes)


def _factory(module: Any) -> Callable[..., nn.Module]:
    if isinstance(module, str):
        names = (*READY_MODULES, *(name for name in named_modules() if name not in READY_MODULES))
        check_choice("module", module, names, remedy="For anything else pass an nn.Module class, or a function.")
        return READY_MODULES.get(module) or make_module(module)
    if isinstance(module, nn.Module) or not callable(module):
        raise InvalidInputError(
            f"module must be one of {', '.join(map(repr, READY_MODULES))}, a torch.nn.Module class or a function "
            f"that makes a module, got an object of type {type(module).__name__}. Each fit starts from a new module: "
            "pass the class, not an instance."
        )
    return module
