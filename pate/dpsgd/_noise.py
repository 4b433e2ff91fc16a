"""Gaussian noise for sums of gradients: many numbers, in floating point."""

from __future__ import annotations

import math

import numpy as np
import torch

from pate.noise.source import NoiseSource

#: Pairs that are made at once: what fits in a processor's cache.
_PAIRS = 32_768
#: The bits of 1.0.
_ONE = np.uint64(0x3FF << 52)


def gaussian(source: NoiseSource, size: int) -> torch.Tensor:
    """Return independent standard normals, float64 of shape (size,): Box and Muller 1958.

    A radius comes from (k + 1) 2^-64 for a 64-bit word k, hence normals reach 9.4 standard deviations, and its total
    variation distance from the exact law is about 2^-63; an angle is one of 2^52 on the circle, all equally likely, as
    fine as float64 tells angles apart.

    Parameters
    ----------
    source : NoiseSource
    size : int
    """
    half = (size + 1) // 2
    out = torch.empty(2 * half, dtype=torch.float64)
    for start in range(0, half, _PAIRS):
        n = min(_PAIRS, half - start)
        words = source.words(2 * n)
        radius = torch.from_numpy(words[:n].astype(np.float64)).add_(1.0).mul_(2.0**-64).log_().mul_(-2.0).sqrt_()
        # 52 bits behind the one of a float64 in [1, 2): faster than to convert them.
        turn = ((words[n:] >> np.uint64(12)) | _ONE).view(np.float64)
        angle = torch.from_numpy(turn).sub_(1.0).mul_(2 * math.pi)
        torch.mul(angle.cos(), radius, out=out[2 * start : 2 * start + n])
        torch.mul(angle.sin(), radius, out=out[2 * start + n : 2 * (start + n)])
    return out[:size]
