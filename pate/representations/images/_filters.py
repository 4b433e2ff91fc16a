"""Morlet wavelets and the Gaussian of a scattering transform, on the torus of the padded image."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

#: How much narrower than long a wavelet is, as a share of 8 angles; Bruna and Mallat's choice for images.
_SLANT = 4.0


def morlet(height: int, width: int, scale: int, angle: float, n_angles: int) -> npt.NDArray[np.complex128]:
    """Return a Morlet wavelet of mean zero, its centre at pixel (0, 0), wrapped around the torus.

    Parameters
    ----------
    height, width : int
    scale : int
        j: the wavelet is 2^j times as large as the finest one (standard deviation .8 * 2^j pixels, centre frequency
        3 pi / 4 * 2^-j).
    angle : float
        Direction of its oscillation, in radians.
    n_angles : int
        More angles make it narrower in angle.

    References
    ----------
    Bruna and Mallat, *Invariant Scattering Convolution Networks*, TPAMI 2013, section 2.1.
    """
    sigma, frequency = 0.8 * 2**scale, 3 * math.pi / 4 / 2**scale
    along, across = _turned(height, width, angle)
    slant = _SLANT / n_angles
    envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
    wave = _wrapped(envelope * np.exp(1j * frequency * along), height, width)
    plain = _wrapped(envelope, height, width)
    return (wave - wave.sum() / plain.sum() * plain) * slant / (2 * math.pi * sigma**2)


def gaussian_rows(
    points: npt.NDArray[np.float64], centres: npt.NDArray[np.float64], around: int, n_scales: int
) -> npt.NDArray[np.float64]:
    """Return the matrix (centres, points) of local averages along one axis of the torus.

    The Gaussian of a scattering transform is a product over the axes: the average of a map U is A U B^T.

    Parameters
    ----------
    points, centres : float64 arrays
        Where the axis is known and where averages are wanted, in pixels.
    around : int
        Length of the torus in pixels.
    n_scales : int
        J: the standard deviation is .8 * 2^(J-1) pixels.
    """
    apart = points[None, :, None] - centres[:, None, None] + around * np.arange(-2, 3)
    weights = np.exp(-(apart**2) / (2 * (0.8 * 2 ** (n_scales - 1)) ** 2)).sum(axis=2)
    return weights / weights.sum(axis=1, keepdims=True)


def _turned(height: int, width: int, angle: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Coordinates along and across the direction, over nine tori each way: what lies further is nothing."""
    rows = np.arange(-4 * height, 5 * height, dtype=float)[:, None]
    columns = np.arange(-4 * width, 5 * width, dtype=float)[None, :]
    return (
        columns * math.cos(angle) + rows * math.sin(angle),
        rows * math.cos(angle) - columns * math.sin(angle),
    )


def _wrapped(values: npt.NDArray, height: int, width: int) -> npt.NDArray:
    return values.reshape(9, height, 9, width).sum(axis=(0, 2))
