"""Random changes of images that should not change what they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from torch.nn import functional as F

from pate._core.checks import check_choice, check_real
from pate.exceptions import InvalidInputError
from pate.representations._cells import slice_rows
from pate.representations.images._pixels import Pixels


@dataclass(frozen=True)
class Augmentation:
    """The largest random changes of an image (shift, scale, ...); each is drawn uniformly, for each image by itself.

    Attributes
    ----------
    rotate : float
        Degrees either way.
    scale, stretch : float
        Shares: larger or smaller in all, and in width against height.
    shift : float
        Share of the side, each way.
    shear : float
    elastic : float
        Standard deviation of a smooth random displacement, as a share of half the side.
    thicken : float
        Share of the way to the brightest or the darkest of the 3 x 3 pixels around: strokes grow thicker or thinner.
    bright : float
        Share by which pixels are brighter or darker.
    erase : float
        Largest side of a blank rectangle, as a share of the image's.
    flip : bool
        Left and right may change places: not for glyphs.

    Examples
    --------
    >>> Augmentation.of("mild").flip, Augmentation.of({"rotate": 5}).rotate
    (False, 5)
    >>> images = torch.rand(4, 1, 28, 28)
    >>> Augmentation.of("glyphs").apply(images, torch.Generator().manual_seed(0)).shape
    torch.Size([4, 1, 28, 28])
    """

    rotate: float = 0.0
    scale: float = 0.0
    stretch: float = 0.0
    shift: float = 0.0
    shear: float = 0.0
    elastic: float = 0.0
    thicken: float = 0.0
    bright: float = 0.0
    erase: float = 0.0
    flip: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "flip":
                if not isinstance(value, bool):
                    raise InvalidInputError(f"flip must be True or False, got {value!r}.")
            else:
                high = {"rotate": 180.0, "thicken": 1.0, "erase": 1.0}.get(field.name, 0.9)
                check_real(f"augmentation[{field.name!r}]", value, low=0, high=high)

    @classmethod
    def of(cls, value: Any) -> Augmentation:
        """Return the augmentation of a name, or of bounds by name; those that are not named are nought."""
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            known = [field.name for field in fields(cls)]
            odd = sorted(set(map(str, value)) - set(known))
            if odd:
                raise InvalidInputError(f"augmentation has {odd}; it may have {known}.")
            return cls(**value)
        return _NAMED[check_choice("augmentation", value, _NAMED, remedy="Or a dict of bounds: {'rotate': 5}.")]

    def scaled(self, strength: float) -> Augmentation:
        """Return the same changes so many times as far; a mirror image stays as likely, a blank rectangle as large."""
        further = {f.name: getattr(self, f.name) * strength for f in fields(self) if f.name not in ("erase", "flip")}
        return replace(self, **further | {"thicken": min(1.0, further["thicken"])})

    def as_dict(self) -> dict[str, Any]:
        """Return the bounds by name."""
        return asdict(self)

    def apply(self, images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return each image changed at random; ``generator`` is on the images' device."""
        n, _, height, width = images.shape

        def even(*shape: int) -> torch.Tensor:
            return torch.rand(*shape, generator=generator, device=images.device) * 2 - 1

        if any((self.rotate, self.scale, self.stretch, self.shift, self.shear, self.elastic, self.flip)):
            images = self._moved(images, even, generator)
        changed = images
        if self.thicken:
            more = even(n, 1, 1, 1) * self.thicken
            brightest, darkest = F.max_pool2d(changed, 3, 1, 1), -F.max_pool2d(-changed, 3, 1, 1)
            changed = changed + more.clamp(min=0) * (brightest - changed) + more.clamp(max=0) * (changed - darkest)
        if self.bright:
            changed = changed * (1 + even(n, 1, 1, 1) * self.bright)
        if self.erase:
            half, centre = (even(n, 2) + 1) * self.erase / 4, (even(n, 2) + 1) / 2
            rows = ((torch.arange(height, device=images.device) + 0.5) / height - centre[:, :1]).abs() < half[:, :1]
            columns = ((torch.arange(width, device=images.device) + 0.5) / width - centre[:, 1:]).abs() < half[:, 1:]
            changed = changed.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)
        return changed

    def _moved(
        self, images: torch.Tensor, even: Callable[..., torch.Tensor], generator: torch.Generator
    ) -> torch.Tensor:
        """Return images turned, scaled, sheared, mirrored, shifted and bent."""
        n, channels, height, width = images.shape
        turn, size = even(n) * self.rotate * math.pi / 180, 1 + even(n) * self.scale
        stretch, slant, zero = 1 + even(n) * self.stretch, even(n) * self.shear, torch.zeros(n, device=images.device)
        turned = _matrices(turn.cos(), -turn.sin(), turn.sin(), turn.cos())
        moved = torch.bmm(turned, _matrices(size * stretch, slant, zero, size / stretch))
        if self.flip:
            moved[:, :, 0] *= torch.where(even(n) < 0, -1.0, 1.0)[:, None]
        moved = torch.cat([moved, even(n, 2, 1) * 2 * self.shift], dim=2)
        grid = F.affine_grid(moved, [n, channels, height, width], align_corners=False)
        if self.elastic:
            knots = torch.randn(n, 2, 5, 5, generator=generator, device=images.device) * self.elastic
            smooth = F.interpolate(knots, size=(height, width), mode="bicubic", align_corners=True)
            grid = grid + smooth.permute(0, 2, 3, 1)
        # What lies beyond the border is as the border is: a photograph has no black frame.
        return F.grid_sample(images, grid, align_corners=False, padding_mode="border")


def _matrices(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.stack([a, b], 1), torch.stack([c, d], 1)], 1)


_NAMED = {
    "glyphs": Augmentation(
        rotate=20, scale=0.2, stretch=0.1, shift=0.1, shear=0.2, elastic=0.1, thicken=0.5, bright=0.2
    ),
    "mild": Augmentation(
        rotate=5, scale=0.08, stretch=0.03, shift=0.1, shear=0.03, elastic=0.02, bright=0.3, erase=0.5
    ),
}

#: Images judged, and the share of the ink from which on they are strokes.
_JUDGED, _STROKES = 2000, 2 / 3


def fitting(images: torch.Tensor) -> str:
    """Return ``"glyphs"`` for public images made of strokes, ``"mild"`` for all others.

    Grey images are made of strokes if more than two thirds of their ink, in the median image, lies within a pixel of
    the ground: nearly all of it in handwritten digits, less than half in clothing, little in photographs. Ink is what
    is brighter than the ground, or darker where most pixels are bright.

    Shapes: ``images`` (n, channels, height, width).
    """
    if images.shape[1] != 1:
        return "mild"
    judged = images[:_JUDGED]
    ink = 1 - judged if float(judged.median()) > 0.5 else judged
    inner = -F.max_pool2d(-ink, 3, 1, 1)
    whole = ink.sum(dim=(1, 2, 3))
    drawn = whole > 0
    if not bool(drawn.any()):
        return "mild"
    outer = 1 - inner.sum(dim=(1, 2, 3))[drawn] / whole[drawn]
    return "glyphs" if float(outer.median()) > _STROKES else "mild"


# What public images look like: made of strokes, or not.


def views_of(X_public: Any, image_shape: Any = None) -> str:
    """Return ``"glyphs"`` for public images made of strokes, ``"mild"`` for all others.

    Parameters
    ----------
    X_public : array of shape (n, ...)
        Public images; the first 2,000 are judged.
    image_shape : (height, width), (channels, height, width) or None

    Examples
    --------
    >>> import numpy as np
    >>> views_of(np.ones((2, 9, 9)))
    'mild'
    """
    some = slice_rows(X_public, 0, _JUDGED)
    pixels = Pixels(image_shape=image_shape).fit(some)
    shaped = pixels.vectors(some).reshape(-1, *pixels.image_shape_)
    return fitting(torch.from_numpy(shaped).float())
