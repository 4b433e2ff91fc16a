"""Image features without training: the pixels themselves, and wavelet scattering."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from pate._core.checks import check_int
from pate.data import check_image_shape, check_n_pixels
from pate.exceptions import InvalidInputError
from pate.networks import one_device
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


def image_shape_of(cells: ImageCells, wanted: tuple[int, int, int] | None) -> tuple[int, int, int]:
    """Return (channels, height, width) of the rows: as wanted, as they were handed over, or square ones."""
    n_pixels = cells.n_features
    if wanted is None and len(cells.seen) > 1:
        wanted = check_image_shape(cells.seen)
    if wanted is not None:
        check_n_pixels(wanted, n_pixels)
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
    """Use an image's pixels, scaled to [0, 1] by the public range; averaged to a smaller image if wanted.

    Parameters
    ----------
    image_shape : (height, width), (channels, height, width) or None
        None takes it from the images; flattened ones are taken for square ones of 1 or 3 channels, channels first.
    shrink : int
        Means of so many by so many pixels; edges that do not fill a square are left out.

    Examples
    --------
    >>> import numpy as np
    >>> Pixels(shrink=2).fit_transform(np.arange(16.0).reshape(1, 4, 4)).astype(
    ...     float
    ... ).round(2).tolist()
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


# Morlet wavelets and the Gaussian of a scattering transform, on the torus of the padded image.

#: How much narrower than long a wavelet is, as a share of 8 angles; Bruna and Mallat's choice for images.
_SLANT = 4.0


def morlet(height: int, width: int, scale: int, angle: float, n_angles: int) -> npt.NDArray[np.complex128]:
    """Return a Morlet wavelet of mean zero, its centre at pixel (0, 0), wrapped around the torus.

    Parameters
    ----------
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
    # Over nine tori each way: what lies further is nothing.
    rows, columns = (np.arange(-4 * side, 5 * side, dtype=float) for side in (height, width))
    along = columns * math.cos(angle) + rows[:, None] * math.sin(angle)
    across = rows[:, None] * math.cos(angle) - columns * math.sin(angle)
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


def _wrapped(values: npt.NDArray, height: int, width: int) -> npt.NDArray:
    return values.reshape(9, height, 9, width).sum(axis=(0, 2))


@dataclass(repr=False, eq=False)
class Scattering(ImageMap):
    """The wavelet scattering transform: image features that need no training.

    Its features are local averages of the image, of its wavelet moduli, and of the wavelet moduli of those. They are
    stable to small shifts and deformations without having seen an image, so that it is useful where public images are
    few. For images of 28 x 28 pixels, two scales and eight angles: 81 maps of 7 x 7.

    Parameters
    ----------
    n_scales : int
        J: averages are over about 2^J pixels; the image has at least 2^J each way.
    n_angles : int
        Directions over half a turn.
    order : int
        2, or 1 for the image and its first moduli only.
    image_shape : (height, width), (channels, height, width) or None
        None takes it from the images; flattened ones are taken for square ones of 1 or 3 channels, channels first.
    device : str
        ``"auto"`` takes a GPU where there is one.

    Attributes
    ----------
    image_shape_ : (channels, height, width)
    map_shape_ : (maps, height, width)
        How a row of features is to be read: channels of the image one after the other.

    Notes
    -----
    All that public images decide is the range of pixels, which becomes [0, 1]. The wavelets are Morlet's, the border is
    mirrored. A map of order 2 takes the modulus of order 1 at scale j through the coarser scales alone.

    References
    ----------
    Bruna and Mallat, *Invariant Scattering Convolution Networks*, TPAMI 2013. Tramer and Boneh, *Differentially
    Private Learning Needs Better Features (or Much More Data)*, ICLR 2021, for its use under differential privacy.

    Examples
    --------
    >>> public = np.random.default_rng(0).uniform(size=(3, 28, 28))
    >>> scattering = Scattering(device="cpu").fit(public)
    >>> scattering.map_shape_, scattering.transform(public).shape
    ((81, 7, 7), (3, 3969))
    """

    _: KW_ONLY
    n_scales: int = 2
    n_angles: int = 8
    order: int = 2
    image_shape: Any = None
    device: str = "auto"

    _passing = ("device",)
    _block_rows = 32
    slow_ = True

    def _check(self) -> None:
        check_int("n_scales", self.n_scales, low=1, high=8)
        check_int("n_angles", self.n_angles, low=1, high=64)
        check_int("order", self.order, low=1, high=2)
        check_image_shape(self.image_shape)
        one_device(self.device)

    def _learn(self, rows: npt.NDArray[Any]) -> None:
        _, height, width = self._shape()
        if min(height, width) < 2**self.n_scales or min(height, width) < 3:
            raise InvalidInputError(
                f"n_scales={self.n_scales} needs images of at least {max(3, 2**self.n_scales)} pixels each way, got "
                f"{height} x {width}. Take fewer scales."
            )
        self._place()

    def _place(self) -> None:
        channels, height, width = self.image_shape_
        step = 2**self.n_scales
        maps = 1 + self.n_scales * self.n_angles
        if self.order == 2:
            maps += self.n_angles**2 * self.n_scales * (self.n_scales - 1) // 2
        self.map_shape_ = (channels * maps, -(-height // step), -(-width // step))
        self.n_features_out_ = math.prod(self.map_shape_)

    def _map(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        images = torch.from_numpy(self._images(block)).to(one_device(self.device))
        n, channels, height, width = images.shape
        bank = _bank(height, width, self.n_scales, self.n_angles, str(images.device))
        with torch.inference_mode():
            maps = _scattered(images.reshape(n * channels, height, width), bank, self.order)
        return maps.reshape(n, -1).cpu().numpy()

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        super()._restore(arrays, words)
        self._place()


class _Bank(NamedTuple):
    pads: tuple[int, int, int, int]
    waves: dict[tuple[int, int], torch.Tensor]  # (scale, halvings before) -> angles, rows, columns: transforms, real
    smooth: dict[int, tuple[torch.Tensor, torch.Tensor]]  # halvings before -> over rows, over columns


@cache
def _bank(height: int, width: int, n_scales: int, n_angles: int, device: str) -> _Bank:
    """Return all filters for images of one size; the transform of a Morlet wavelet about (0, 0) is real."""
    step = 2**n_scales
    tall, wide = (-(-(side + step) // step) * step for side in (height, width))
    top, left = (tall - height) // 2, (wide - width) // 2
    angles = [math.pi * i / n_angles for i in range(n_angles)]
    waves, smooth = {}, {}
    for scale in range(n_scales):
        fine = np.stack([np.fft.fft2(morlet(tall, wide, scale, angle, n_angles)).real for angle in angles])
        for halved in range(scale + 1):
            # The filter for a map that keeps every 2^halved-th pixel: its response folds up.
            by = 2**halved
            folded = fine.reshape(n_angles, by, tall // by, by, wide // by).sum(axis=(1, 3))
            waves[scale, halved] = torch.tensor(folded, dtype=torch.float32, device=device)
    for halved in range(n_scales):
        rows = _averages(height, top, tall, n_scales, 2**halved)
        columns = _averages(width, left, wide, n_scales, 2**halved)
        smooth[halved] = (rows.to(device), columns.to(device))
    return _Bank((left, wide - width - left, top, tall - height - top), waves, smooth)


def _averages(side: int, before: int, padded: int, n_scales: int, by: int) -> torch.Tensor:
    step = 2**n_scales
    centres = before + step * (np.arange(-(-side // step)) + 0.5) - 0.5
    return torch.tensor(gaussian_rows(np.arange(0.0, padded, by), centres, padded, n_scales), dtype=torch.float32)


def _scattered(images: torch.Tensor, bank: _Bank, order: int) -> torch.Tensor:
    """Return the maps (n, maps, rows, columns) of images (n, height, width): order 0, then 1, then 2."""
    padded = torch.nn.functional.pad(images[:, None], bank.pads, mode="reflect")[:, 0]
    maps = [_averaged(padded[:, None], bank.smooth[0])]
    seen = torch.fft.fft2(padded)[:, None]
    n_scales = len(bank.smooth)
    second = []
    for scale in range(n_scales):
        first = _modulus(seen * bank.waves[scale, 0], scale)
        maps.append(_averaged(first, bank.smooth[scale]))
        if order == 1 or scale == n_scales - 1:
            continue
        again = torch.fft.fft2(first)
        for coarser in range(scale + 1, n_scales):
            # One angle at a time: what is worked on stays in the processor's cache.
            angles = bank.waves[coarser, scale]
            deep = [_averaged(_modulus(again * wave, coarser - scale), bank.smooth[coarser]) for wave in angles]
            second.append(torch.stack(deep, dim=2).flatten(1, 2))
    return torch.cat(maps + second, dim=1)


def _modulus(transform: torch.Tensor, halvings: int) -> torch.Tensor:
    """Return the modulus of what a transform belongs to, at every 2^halvings-th pixel: the transform folds up."""
    by = 2**halvings
    if by > 1:
        *front, tall, wide = transform.shape
        transform = transform.reshape(*front, by, tall // by, by, wide // by).mean(dim=(-4, -2))
    return torch.fft.ifft2(transform).abs()


def _averaged(maps: torch.Tensor, smooth: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return smooth[0] @ maps @ smooth[1].T
