"""The same images seen slightly otherwise, always alike: what holds of all of them is surer than of one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch.nn import functional as F

from pate.representations.images._augment import Augmentation

#: Shares of what a training changes at most: turned either way, then larger and smaller.
_TURN, _SIZE = 0.6, 0.6


def views(images: torch.Tensor, changes: Augmentation, n: int) -> Iterator[torch.Tensor]:
    """Yield the images, and then turned, larger and smaller, ``n`` in all: half as far as a training changes them.

    Nothing is drawn: a row's views are its own, wherever it stands.

    Parameters
    ----------
    images : float tensor of shape (batch, channels, height, width)
    changes : Augmentation
        Of the training. Where images may be mirrored, every second view is.
    n : int
        From 1 to 5.
    """
    turn, size = math.radians(changes.rotate) * _TURN, changes.scale * _SIZE
    ways = [(0.0, 1.0), (turn, 1.0), (-turn, 1.0), (0.0, 1 - size), (0.0, 1 + size)]
    for i, (angle, scale) in enumerate(ways[:n]):
        mirror = -1.0 if changes.flip and i % 2 else 1.0
        if (angle, scale, mirror) == (0.0, 1.0, 1.0):
            yield images
            continue
        cos, sin = math.cos(angle) * scale, math.sin(angle) * scale
        matrix = images.new_tensor([[mirror * cos, -sin, 0.0], [mirror * sin, cos, 0.0]])
        grid = F.affine_grid(matrix.expand(len(images), 2, 3), list(images.shape), align_corners=False)
        yield F.grid_sample(images, grid, padding_mode="border", align_corners=False)
