"""Gaussian noise for sums of gradients: many numbers, in floating point."""

from __future__ import annotations

import math

import numpy as np
import torch

from pate.noise.source import NoiseSource

#: Pairs that are made at once: what fits in a processor's cache.
_PAIRS = 16_384


def gaussian(source: NoiseSource, size: int) -> torch.Tensor:
    """Return independent standard normals, float64 of shape (size,): Box and Muller 1958.

    Uniforms are (k + 1) 2^-64 for a 64-bit word k, hence normals reach 9.4 standard deviations, and the total variation
    distance from the exact law is about 2^-63 per draw, before float64 rounds them.

    Parameters
    ----------
    source : NoiseSource
    size : int

    Examples
    --------
    >>> draws = gaussian(NoiseSource(0), 10_001)
    >>> draws.shape, bool(abs(draws.std() - 1) < 0.05)
    (torch.Size([10001]), True)
    """
    half = (size + 1) // 2
    out = torch.empty(2 * half, dtype=torch.float64)
    for start in range(0, half, _PAIRS):
        n = min(_PAIRS, half - start)
        uniform = torch.from_numpy(source.words(2 * n).astype(np.float64)).add_(1.0).mul_(2.0**-64)
        radius, angle = uniform[:n].log_().mul_(-2.0).sqrt_(), uniform[n:].mul_(2 * math.pi)
        torch.mul(angle.cos(), radius, out=out[2 * start : 2 * start + n])
        torch.mul(angle.sin(), radius, out=out[2 * start + n : 2 * (start + n)])
    return out[:size]
