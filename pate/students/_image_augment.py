"""Random changes of images that should leave their class as it is, on tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import functional as F

#: How far each change goes at strength 1: degrees, shares of the image, or shares of the way.
_ROTATE, _SCALE, _STRETCH, _SHEAR, _SHIFT, _ELASTIC, _THICKEN, _BRIGHT = 12.0, 0.12, 0.08, 0.15, 0.07, 0.05, 0.3, 0.2


@dataclass(frozen=True)
class Augment:
    """Turn, scale, shear, shift and bend images, thicken or thin what they show, light it, and blank a rectangle.

    Attributes
    ----------
    strength : float
        0 changes nothing but ``flip`` and ``erase``; 1 suits glyphs of 28 x 28, 0.5 clothes.
    flip : bool
        Left and right may change places: not for glyphs.
    erase : float
        Largest side of a blank rectangle, as a share of the image's.

    Examples
    --------
    >>> images = torch.rand(4, 1, 12, 12)
    >>> changed = Augment(1.0, flip=False, erase=0.3)(images, torch.Generator().manual_seed(0))
    >>> changed.shape, bool((changed != images).any())
    (torch.Size([4, 1, 12, 12]), True)
    >>> torch.equal(Augment(0.0, flip=False, erase=0.0)(images, torch.Generator()), images)
    True
    """

    strength: float
    flip: bool
    erase: float

    def __call__(self, images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return each image changed by draws of its own; ``generator`` is on the images' device."""
        n, _, height, width = images.shape
        place, s = images.device, self.strength

        def even(*shape: int) -> torch.Tensor:
            return torch.rand(n, *shape, generator=generator, device=place) * 2 - 1

        if s or self.flip:
            turn, size, stretch = even() * math.radians(_ROTATE) * s, 1 + even() * _SCALE * s, 1 + even() * _STRETCH * s
            cos, sin, slant, shift = turn.cos(), turn.sin(), even() * _SHEAR * s, even(2, 1) * 2 * _SHIFT * s
            top = torch.stack([cos * size * stretch, slant - sin], dim=1)
            bottom = torch.stack([sin, cos * size / stretch], dim=1)
            matrix = torch.stack([top, bottom], dim=1)
            if self.flip:
                matrix[:, :, 0] *= torch.where(even() < 0, -1.0, 1.0)[:, None]
            grid = F.affine_grid(torch.cat([matrix, shift], dim=2), list(images.shape), align_corners=False)
            knots = torch.randn(n, 2, 5, 5, generator=generator, device=place) * (_ELASTIC * s)
            bent = F.interpolate(knots, size=(height, width), mode="bicubic", align_corners=False)
            # What lies beyond the border is as the border is: a photograph has no black frame.
            images = F.grid_sample(images, grid + bent.permute(0, 2, 3, 1), padding_mode="border", align_corners=False)
        if s:
            more = even(1, 1, 1) * min(1.0, _THICKEN * s)
            most, least = F.max_pool2d(images, 3, 1, 1), -F.max_pool2d(-images, 3, 1, 1)
            images = images + more.clamp(min=0) * (most - images) + more.clamp(max=0) * (images - least)
            images = images * (1 + even(1, 1, 1) * _BRIGHT * s)
        if self.erase:
            half, centre = (even(2) + 1) * self.erase / 4, (even(2) + 1) / 2
            rows = ((torch.arange(height, device=place) + 0.5) / height - centre[:, :1]).abs() < half[:, :1]
            columns = ((torch.arange(width, device=place) + 0.5) / width - centre[:, 1:]).abs() < half[:, 1:]
            images = images.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)
        return images
