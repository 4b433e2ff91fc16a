"""What public images look like: made of strokes, or not."""

from __future__ import annotations

from typing import Any

import torch

from pate.representations._cells import slice_rows
from pate.representations.images._augment import fitting
from pate.representations.images._pixels import Pixels

_JUDGED = 2000


def looks_of(X_public: Any, image_shape: Any = None) -> str:
    """Return ``"glyphs"`` for public images made of strokes, ``"mild"`` for all others.

    Parameters
    ----------
    X_public : array of shape (n, ...)
        Public images; the first 2,000 are judged.
    image_shape : (height, width), (channels, height, width) or None

    Examples
    --------
    >>> import numpy as np
    >>> looks_of(np.ones((2, 9, 9)))
    'mild'
    """
    some = slice_rows(X_public, 0, _JUDGED)
    pixels = Pixels(image_shape=image_shape).fit(some)
    shaped = pixels.vectors(some).reshape(-1, *pixels.image_shape_)
    return fitting(torch.from_numpy(shaped).float())
