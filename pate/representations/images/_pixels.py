"""The pixels themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int, shown
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation
from pate.representations._cells import NumberCells

# Images as rows of pixels: their shape, and what a pixel becomes that is none.


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
    """Return (channels, height, width) of the rows: as wanted, as they were handed over, or square ones."""
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


class ImageMap(Representation):
    """What maps of images share; abstract.

    Attributes
    ----------
    image_shape_ : (channels, height, width)
    """

    _reader = ImageCells

    def _shape(self) -> tuple[int, int, int]:
        """Set and return the shape of the public images."""
        self.image_shape_ = image_shape_of(self.cells_, check_image_shape(self.image_shape))
        return self.image_shape_

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {}, {"image_shape": list(self.image_shape_)}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.image_shape_ = tuple(words["image_shape"])

    def _all_images(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return all public rows as images."""
        size = self._block_rows
        blocks = [self._images(self.cells_.block(rows, start, size)) for start in range(0, len(rows), size)]
        return np.concatenate(blocks)[: len(rows)]

    def _images(self, block: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return clean rows as images (n, channels, height, width), the public range being [0, 1]."""
        low, high = float(self.cells_.low[0]), float(self.cells_.high[0])
        scaled = (block - low) / (high - low) if high > low else block - low
        return scaled.astype(np.float32).reshape(len(block), *self.image_shape_)


@dataclass(repr=False, eq=False)
class Pixels(ImageMap):
    """Pixels, scaled to [0, 1] by the public range, smaller by whole factors if wanted.

    Parameters
    ----------
    image_shape : (height, width), (channels, height, width) or None
        None takes it from the images; flattened ones are taken for square ones of 1 or 3 channels, channels first.
    shrink : int
        Means of so many by so many pixels; edges that do not fill a square are left out.

    Examples
    --------
    >>> import numpy as np
    >>> Pixels(shrink=2).fit_transform(np.arange(16.0).reshape(1, 4, 4)).astype(float).round(2).tolist()
    [[0.17, 0.3, 0.7, 0.83]]
    """

    _: KW_ONLY
    image_shape: Any = None
    shrink: int = 1

    def _check(self) -> None:
        check_image_shape(self.image_shape)
        check_int("shrink", self.shrink, low=1)

    def _learn(self, rows: npt.NDArray[Any]) -> None:
        channels, height, width = self._shape()
        if self.shrink > min(height, width):
            raise InvalidInputError(f"shrink={self.shrink} leaves nothing of images of {height} x {width} pixels.")
        self.n_features_out_ = channels * (height // self.shrink) * (width // self.shrink)

    def _map(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        images, by = self._images(block), self.shrink
        n, channels, height, width = images.shape
        if by > 1:
            images = images[:, :, : height // by * by, : width // by * by]
            images = images.reshape(n, channels, height // by, by, width // by, by).mean(axis=(3, 5))
        return images.reshape(n, -1)
