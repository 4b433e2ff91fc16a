"""A small network that turns an image into a vector."""

from __future__ import annotations

from torch import Tensor, nn

from pate.exceptions import InvalidInputError

#: Length of the vectors that are compared in training; they are not what is used afterwards.
_COMPARED = 256
#: ... by VICReg, after a layer as wide: it asks for numbers that do not vary together, and for many.
_EXPANDED = 512
_LARGEST = 4


def _block(before: int, after: int, kernel: int, step: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class Encoder(nn.Module):
    """Four convolutions, more for images of over 48 pixels a side, and a linear layer or two that only training needs.

    Images of 28 x 28 pixels are halved at once: of the networks tried, that learnt most in a second of a processor.

    Parameters
    ----------
    image_shape : (channels, height, width)
        At least 4 pixels each way.
    width : int
        Channels of the first convolution; 2, 4 and 4 times as many follow.
    expanded : bool
        Whether vectors are compared after a hidden layer, which VICReg needs.

    Attributes
    ----------
    n_body : int
        Length of what :meth:`describe` gives.
    """

    def __init__(self, image_shape: tuple[int, int, int], width: int, *, expanded: bool = False) -> None:
        super().__init__()
        channels, height, across = image_shape
        side = min(height, across)
        if side < 4:
            raise InvalidInputError(f"images must have at least 4 pixels each way, got {height} x {across}.")
        plan = [(width, 5, 2 if side >= 16 else 1), (2 * width, 3, 2)]
        while side > 48:
            plan.append((2 * width, 3, 2))
            side //= 2
        plan += [(4 * width, 3, 1), (4 * width, 3, 2)]
        blocks, before, sides = [], channels, (height, across)
        for after, kernel, step in plan:
            blocks.append(_block(before, after, kernel, step))
            before, sides = after, (-(-sides[0] // step), -(-sides[1] // step))
        pooled = (min(sides[0], _LARGEST), min(sides[1], _LARGEST))
        self.n_body = before * pooled[0] * pooled[1]
        pool = [] if pooled == sides else [nn.AdaptiveAvgPool2d(pooled)]
        self.body = nn.Sequential(*blocks, *pool, nn.Flatten())
        hidden = [nn.Linear(self.n_body, _EXPANDED), nn.BatchNorm1d(_EXPANDED), nn.ReLU(inplace=True)]
        self.compared = (
            nn.Sequential(*hidden, nn.Linear(_EXPANDED, _EXPANDED)) if expanded else nn.Linear(self.n_body, _COMPARED)
        )

    def describe(self, images: Tensor) -> Tensor:
        """Return what the convolutions see, float tensor of shape (n, n_body), not negative."""
        return self.body(images)

    def forward(self, images: Tensor) -> Tensor:
        """Return what training compares, float tensor of shape (n, 256), or (n, 512) if ``expanded``."""
        return self.compared(self.body(images))
