"""What several networks begin and end with."""

from __future__ import annotations

import math

from torch import nn

from pate.core.checks import check_int
from pate.exceptions import InvalidInputError


def square_image_shape(n_features: int, channels: int | None = None, *, smallest: int = 4) -> tuple[int, int, int]:
    """Return (channels, side, side) of square images that have so many features.

    Parameters
    ----------
    n_features : int
        channels * side * side.
    channels : int or None
        None takes 1 or 3, whichever makes the images square (never both do).
    smallest : int
        The least side, in pixels.

    Raises
    ------
    InvalidInputError
        The images are not square, or too small.

    Examples
    --------
    >>> square_image_shape(784), square_image_shape(3072), square_image_shape(128, channels=2)
    ((1, 28, 28), (3, 32, 32), (2, 8, 8))
    >>> square_image_shape(30)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_features must be channels * side * side with side >= 4, got 30 ...
    """
    n_features = check_int("n_features", n_features, low=1)
    tried = (1, 3) if channels is None else (check_int("channels", channels, low=1),)
    for count in tried:
        side = math.isqrt(n_features // count)
        if side >= smallest and count * side * side == n_features:
            return count, side, side
    raise InvalidInputError(
        f"n_features must be channels * side * side with side >= {smallest}, got {n_features} features and "
        f"channels={channels}{' (1 and 3 were tried)' if channels is None else ''}. Pass channels=..., pad the images "
        "to squares, or use the MLP for data that are not square images."
    )


def as_images(shape: tuple[int, int, int]) -> list[nn.Module]:
    """Rows or images in, images out."""
    return [nn.Flatten(), nn.Unflatten(1, shape)]


def head(width: int, n_classes: int) -> nn.Linear:
    return nn.Linear(width, check_int("n_classes", n_classes, low=2))
