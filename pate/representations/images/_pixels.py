"""The pixels themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation
from pate.representations.images._cells import ImageCells, check_image_shape, image_shape_of


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

    def __init__(self, *, image_shape: Any = None, shrink: int = 1) -> None:
        self.image_shape = image_shape
        self.shrink = shrink

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

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {}, {"image_shape": list(self.image_shape_)}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.image_shape_ = tuple(words["image_shape"])
