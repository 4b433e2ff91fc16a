"""Random changes to a teacher's training images: small frozen values that travel to workers and into hashes.

An augmentation is any callable ``augment(x, generator) -> x'``: a float tensor of shape (batch, ...) in, one of the
same shape and dtype out, every random choice drawn from the CPU generator it is given, so that a teacher's training
depends on its seed alone. It acts on a shard's own rows, one by one, so it ties no records together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import torch
from torch.nn import functional

from pate._core.checks import check_int, check_real
from pate.exceptions import InvalidInputError


class _OfImages:
    """An augmentation of images of one shape."""

    image_shape: tuple[int, int, int]

    def _check_shape(self) -> None:
        value: object = self.image_shape
        if not isinstance(value, tuple | list) or len(value) != 3:
            raise InvalidInputError(f"image_shape must be (channels, height, width), got {value!r}.")
        sides = tuple(check_int("image_shape", size, low=1) for size in value)
        object.__setattr__(self, "image_shape", sides)

    def _images(self, x: torch.Tensor) -> torch.Tensor:
        shape, rows = self.image_shape, tuple(x.shape[1:])
        if not x.is_floating_point() or rows not in (shape, (shape[0] * shape[1] * shape[2],)):
            raise InvalidInputError(
                f"x must be a float tensor of images of image_shape={shape}, flattened or not, got {x.dtype} rows of "
                f"shape {rows}. Pass the image_shape of your data."
            )
        return x.reshape(-1, *shape)


@dataclass(frozen=True)
class RandomShift(_OfImages):
    """Move each image by whole pixels, the same chance for every offset; what comes in from outside is 0.

    Parameters
    ----------
    pixels : int
        The largest move up, down, left or right.
    image_shape : tuple of 3 ints
        (channels, height, width) of images, flattened (channels first) or not.
    """

    pixels: int = 2
    _: KW_ONLY
    image_shape: tuple[int, int, int] = (1, 28, 28)

    def __post_init__(self) -> None:
        self._check_shape()
        smallest = min(self.image_shape[1:])
        object.__setattr__(self, "pixels", check_int("pixels", self.pixels, low=0, high=smallest - 1))

    def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return moved copies, shape and dtype of ``x``."""
        images = self._images(x)
        _, height, width = self.image_shape
        offsets = torch.randint(0, 2 * self.pixels + 1, (2, len(x)), generator=generator).to(x.device)
        padded = functional.pad(images, (self.pixels,) * 4)
        # Views of every offset's window: only the chosen ones are copied.
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        return windows[torch.arange(len(x), device=x.device), :, offsets[0], offsets[1]].reshape(x.shape)


@dataclass(frozen=True)
class RandomFlip(_OfImages):
    """Mirror each image left to right with probability ``p``. Not for digits or letters.

    Parameters
    ----------
    image_shape : tuple of 3 ints
        (channels, height, width) of images, flattened (channels first) or not.
    p : float
        In [0, 1].
    """

    image_shape: tuple[int, int, int]
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        self._check_shape()
        object.__setattr__(self, "p", check_real("p", self.p, low=0.0, high=1.0))

    def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return copies, some of them mirrored, shape and dtype of ``x``."""
        images = self._images(x)
        chosen = (torch.rand(len(x), generator=generator) < self.p).to(x.device)
        return torch.where(chosen[:, None, None, None], images.flip(3), images).reshape(x.shape)


@dataclass(frozen=True)
class Compose:
    """One augmentation after another.

    Parameters
    ----------
    augmentations : tuple of callables
    """

    augmentations: tuple[Callable[[torch.Tensor, torch.Generator], torch.Tensor], ...]

    def __post_init__(self) -> None:
        parts = self.augmentations
        if not isinstance(parts, tuple | list) or not all(callable(part) for part in parts):
            raise InvalidInputError(f"augmentations must be a tuple of callables augment(x, generator), got {parts!r}.")
        object.__setattr__(self, "augmentations", tuple(parts))

    def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return changed copies, shape and dtype of ``x``."""
        for augment in self.augmentations:
            x = augment(x, generator)
        return x
