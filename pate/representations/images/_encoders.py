"""Small networks that turn an image into a vector."""

from __future__ import annotations

from torch import Tensor, nn

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError


def _block(before: int, after: int, kernel: int, step: int = 1) -> nn.Sequential:
    layers = [
        nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    ]
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    """Convolutions, a pool and one linear layer.

    Parameters
    ----------
    body : list of modules
    width : int
        Channels at the end of the body.
    n_features : int
    """

    def __init__(self, body: list[nn.Module], width: int, n_features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*body, nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.last = nn.Linear(9 * width, n_features)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(self.body(images))


def _small(channels: int, side: int) -> list[nn.Module]:
    early = 2 if side >= 16 else 1
    body: list[nn.Module] = [_block(channels, 32, 5, early), _block(32, 64, 3, 2 if side >= 8 else 1)]
    while side > 48:  # large images are halved until they are about as small as those this was measured on
        body.append(_block(64, 64, 3, 2))
        side //= 2
    return [*body, _block(64, 128, 3), _block(128, 128, 3)]


def _wide(channels: int, side: int) -> list[nn.Module]:
    early = 2 if side >= 16 else 1
    body: list[nn.Module] = [_block(channels, 32, 5, early), _block(32, 64, 3)]
    while side > 48:
        body.append(_block(64, 64, 3, 2))
        side //= 2
    return [*body, _block(64, 128, 3, 2 if side >= 8 else 1), _block(128, 128, 3)]


_BODIES = {"small": _small, "wide": _wide}


def make_encoder(name: str, image_shape: tuple[int, int, int], n_features: int) -> Encoder:
    """Return a fresh network for images of (channels, height, width).

    Examples
    --------
    >>> import torch
    >>> make_encoder("small", (1, 28, 28), 16)(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 16])
    """
    check_choice("network", name, _BODIES)
    channels, height, width = image_shape
    if min(height, width) < 4:
        raise InvalidInputError(f"network={name!r} needs images of at least 4 pixels each way, got {height} x {width}.")
    return Encoder(_BODIES[name](channels, min(height, width)), 128, n_features)
