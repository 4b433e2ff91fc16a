"""Images as rows of pixels: their shape, and what a pixel becomes that is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import shown
from pate.exceptions import InvalidInputError
from pate.representations._cells import NumberCells


@dataclass(frozen=True)
class ImageCells(NumberCells):
    """How images are read: a missing pixel is the public median at its place, none lies outside the public range.

    Attributes
    ----------
    fill, low, high : float64 arrays of shape (n_pixels,)
        ``low`` and ``high`` are those of all public pixels, at every place.
    seen : tuple of int
        Shape of one public image as it was handed over: (n_pixels,) where they were flattened.
    """

    seen: tuple[int, ...] = ()

    @classmethod
    def learn(cls, X: Any) -> ImageCells:
        """Learn from public images, which are refused where they hold anything but numbers and missing pixels."""
        plain = NumberCells.learn(X)
        seen = tuple(int(n) for n in np.shape(X)[1:])
        values = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        everywhere = np.ones(plain.n_features)
        return cls(plain.fill, low * everywhere, high * everywhere, plain.names, seen)

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what :meth:`restore` takes: arrays, and what goes into JSON."""
        arrays, words = super().state()
        return arrays, words | {"seen": list(self.seen)}

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> ImageCells:
        """Return the reader that :meth:`state` described."""
        plain = NumberCells.restore(arrays, words)
        return cls(plain.fill, plain.low, plain.high, plain.names, tuple(int(n) for n in words["seen"]))


def check_image_shape(value: Any) -> tuple[int, int, int] | None:
    """Return (channels, height, width), or None where it is left to the rows."""
    if value is None:
        return None
    whole = isinstance(value, tuple | list) and all(isinstance(n, int | np.integer) and n >= 1 for n in value)
    if not whole or len(value) not in (2, 3):
        raise InvalidInputError(
            "image_shape must be (height, width), (channels, height, width) or None, got "
            f"{tuple(value) if whole else shown(value)}. None takes it from the images, or square ones."
        )
    channels, height, width = value if len(value) == 3 else (1, *value)
    return int(channels), int(height), int(width)


def image_shape_of(cells: ImageCells, wanted: tuple[int, int, int] | None) -> tuple[int, int, int]:
    """Return (channels, height, width) of the rows: as wanted, as they were handed over, or square ones.

    Raises
    ------
    InvalidInputError
        The rows have another number of pixels, or flattened ones are not square.
    """
    n_pixels = cells.n_features
    if wanted is None and len(cells.seen) > 1:
        wanted = check_image_shape(cells.seen)
    if wanted is not None:
        if math.prod(wanted) != n_pixels:
            raise InvalidInputError(
                f"image_shape={wanted} has {math.prod(wanted)} pixels, the public rows have {n_pixels}. Flattened "
                "images are channels first."
            )
        return wanted
    for channels in (1, 3):
        side = math.isqrt(n_pixels // channels)
        if channels * side * side == n_pixels:
            return channels, side, side
    raise InvalidInputError(
        f"rows of {n_pixels} pixels are no square images of 1 or 3 channels. Pass image_shape=(channels, height, "
        "width)."
    )
