"""The networks of an image student: its own small one, a ready one by name, or a pre-trained one with a fresh end."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from pate.core.checks import shown
from pate.exceptions import InvalidInputError
from pate.networks import make_module
from pate.networks._contract import logits_of, make, module_arguments

#: Where a fitted representation keeps the torch module that it trained.
_HELD_AS = ("module_", "encoder_", "_encoder")


class StudentCNN(nn.Module):
    """Five 3 x 3 convolutions with batch norm: 41,000 parameters, 5.5 million products for an image of 28 x 28.

    Batch norm mixes the rows of a batch; all of them are public here.

    Parameters
    ----------
    image_shape : (channels, height, width)
        At least 4 pixels each way.
    n_classes : int
    widths : (int, int, int)
        Channels at full, half and quarter size.
    """

    def __init__(
        self, *, image_shape: tuple[int, int, int], n_classes: int, widths: tuple[int, int, int] = (16, 32, 64)
    ) -> None:
        super().__init__()
        channels, height, width = image_shape
        a, b, c = widths
        layers = [*_block(channels, a, 1), *_block(a, a, 2), *_block(a, b, 1), *_block(b, b, 2), *_block(b, c, 1)]
        side = max(height, width)
        while side > 48:  # large images are halved until they are about as small as those this was measured on
            layers += _block(c, c, 2)
            side //= 2
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.last = nn.Linear(9 * c, n_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, height, width) to logits of shape (batch, n_classes)."""
        return self.last(self.body(images))


class Ended(nn.Module):
    """A pre-trained module and a fresh linear end."""

    def __init__(self, body: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.body = body
        self.last = nn.Linear(n_features, n_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images to logits."""
        return self.last(torch.relu(self.body(images).flatten(1)))


def make_network(network: Any, init: Any, image_shape: tuple[int, int, int], n_classes: int) -> nn.Module:
    """Return a network that starts anew, or from ``init``, whose weights are copied.

    Parameters
    ----------
    network : "student-cnn", a name of :func:`pate.networks.named_modules`, nn.Module class or function
    init : nn.Module, fitted representation that holds one, or None
        Takes (batch, channels, height, width); ``network`` is not used then.
    image_shape : (channels, height, width)
    n_classes : int

    Raises
    ------
    InvalidInputError
    """
    if init is not None:
        module = (
            init
            if isinstance(init, nn.Module)
            else next((getattr(init, n, None) for n in _HELD_AS if hasattr(init, n)), None)
        )
        if not isinstance(module, nn.Module):
            raise InvalidInputError(
                f"init must be a torch.nn.Module or a fitted representation that holds one, got {shown(init)}. Leave "
                "it out to start anew."
            )
        body = copy.deepcopy(module).cpu().float().requires_grad_(True)
        return Ended(body, _probed("init", body, image_shape).flatten(1).shape[1], n_classes)
    if network == "student-cnn":
        return StudentCNN(image_shape=image_shape, n_classes=n_classes)
    factory = make_module(network)
    n_features = int(image_shape[0] * image_shape[1] * image_shape[2])
    made = make(factory, module_arguments(factory, None, n_features=n_features, n_classes=n_classes))
    out = logits_of(_probed("network", made, image_shape))
    if out.shape[1:] != (n_classes,):
        raise InvalidInputError(
            f"network must return logits of shape (batch, {n_classes}), it returned {tuple(out.shape)} for two images."
        )
    return made


def _probed(name: str, module: nn.Module, image_shape: tuple[int, int, int]) -> torch.Tensor:
    """Return what a module makes of two blank images."""
    module.eval()
    try:
        with torch.no_grad():
            out = logits_of(module(torch.zeros(2, *image_shape)))
    except Exception as error:
        raise InvalidInputError(
            f"{name} must take images of shape (batch, {', '.join(map(str, image_shape))}): {type(error).__name__}: "
            f"{error}."
        ) from error
    if out.ndim < 2 or len(out) != 2:
        raise InvalidInputError(f"{name} must return one row per image, it returned {tuple(out.shape)} for two images.")
    return out


def _block(before: int, after: int, step: int) -> list[nn.Module]:
    # Pooling before the norm and the relu: a quarter of their work.
    pool: list[nn.Module] = [nn.MaxPool2d(2)] if step == 2 else []
    return [nn.Conv2d(before, after, 3, padding=1, bias=False), *pool, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
