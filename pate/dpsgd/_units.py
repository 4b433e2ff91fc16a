"""Whose records are protected: rows by row, or all rows of a person, drawn as one and clipped as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pate._core.checks import check_int
from pate._core.types import Mask
from pate.exceptions import InvalidInputError
from pate.privacy.noise.source import NoiseSource

# Augmentation multiplicity (De et al. 2022): a unit's gradient is the mean over changed copies, and is clipped
# once.


@dataclass(frozen=True)
class ImageAugmentation:
    """Data augmentation for DP-SGD: several copies of an image, shifted by whole pixels and mirrored at random.

    The changes are drawn for every row by itself, from the source of the samples: they depend on no row's content, and
    on no other row.

    Parameters
    ----------
    image_shape : tuple of int
        (height, width) or (channels, height, width); rows may be flat.
    multiplicity : int
        Copies of each row in a step; De et al. take 16.
    shift : int
        At most so many pixels in either direction; what comes in is zero.
    flip : bool
        Mirror every other copy, left to right.

    Raises
    ------
    InvalidInputError

    Examples
    --------
    >>> copies = ImageAugmentation((2, 2), multiplicity=3, shift=1).copies(
    ...     torch.ones(5, 4), NoiseSource()
    ... )
    >>> copies.shape
    torch.Size([15, 4])
    """

    image_shape: tuple[int, ...]
    multiplicity: int = 8
    shift: int = 2
    flip: bool = False

    def __post_init__(self) -> None:
        shape = self.image_shape
        if not isinstance(shape, tuple) or len(shape) not in (2, 3):
            raise InvalidInputError(
                f"image_shape must be (height, width) or (channels, height, width), got {shape!r}. Pass (28, 28), say."
            )
        for side in shape:
            check_int("image_shape", side, low=1)
        check_int("multiplicity", self.multiplicity, low=1)
        check_int("shift", self.shift, low=0, high=min(shape[-2:]) - 1)

    def check_rows(self, row_shape: tuple[int, ...]) -> None:
        """Refuse rows that are no such images.

        Raises
        ------
        InvalidInputError
        """
        if int(np.prod(row_shape)) != int(np.prod(self.image_shape)):
            raise InvalidInputError(
                f"augmentation is for images of {self.image_shape}, X has rows of {row_shape}. Pass their image_shape."
            )

    def copies(self, X: torch.Tensor, source: NoiseSource) -> torch.Tensor:
        """Return ``multiplicity`` changed copies of each row, one row's after the other's.

        Parameters
        ----------
        X : tensor of shape (n, ...)
        source : NoiseSource

        Returns
        -------
        tensor of shape (n * multiplicity, ...)
        """
        k = self.multiplicity
        height, width = self.image_shape[-2:]
        images = X.repeat_interleave(k, dim=0).reshape(len(X) * k, -1, height, width)
        words = source.words(len(images))
        side = np.uint64(2 * self.shift + 1)
        # A word has 64 bits: the remainder of 31 of them is uneven by less than side / 2^31.
        down = (words & np.uint64(0x7FFFFFFF)) % side
        right = ((words >> np.uint64(31)) & np.uint64(0x7FFFFFFF)) % side
        mirrored = (words >> np.uint64(63)).astype(bool) & self.flip
        padded = torch.nn.functional.pad(images, (self.shift,) * 4)
        rows = torch.as_tensor(down.astype(np.int64), device=X.device)[:, None] + torch.arange(height, device=X.device)
        columns = np.arange(width)
        columns = np.where(mirrored[:, None], columns[::-1], columns) + right.astype(np.int64)[:, None]
        at = torch.as_tensor(columns, device=X.device)
        taken = padded.gather(2, rows[:, None, :, None].expand(-1, images.shape[1], -1, padded.shape[3]))
        taken = taken.gather(3, at[:, None, None, :].expand(-1, images.shape[1], height, -1))
        return taken.reshape(len(images), *X.shape[1:])


class Units:
    """Private rows on a device, by the unit that is sampled.

    A person's gradient is that of the mean loss over at most ``rows_per_unit`` of their records, drawn again in every
    step, so a person with a thousand records weighs as much as one with one.

    Parameters
    ----------
    X : array of shape (n, ...)
    y : int64 or float32 array of shape (n,)
    owners : int64 array of shape (n,) or None
        The index of each row's unit, 0 to n_units - 1, and -1 for a row without an owner. None makes every row one.
    rows_per_unit : int
        Of a unit's rows, at most so many in a step; without ``owners`` there is one.
    augmentation : ImageAugmentation or None
        Each row is cast as so many changed copies.
    usable : bool array of shape (n,) or None
        Which rows count. One that does not keeps its place, is drawn as the others are, and has no gradient. None: all.

    Attributes
    ----------
    rows_per_unit : int
        Rows that stand for a unit in a step, copies included.
    """

    def __init__(
        self,
        X: npt.NDArray[np.generic],
        y: npt.NDArray[np.int64] | npt.NDArray[np.float32],
        owners: npt.NDArray[np.int64] | None = None,
        rows_per_unit: int = 1,
        device: torch.device | None = None,
        *,
        augmentation: ImageAugmentation | None = None,
        usable: Mask | None = None,
    ) -> None:
        where = device or torch.device("cpu")
        counts = np.ones(len(y), np.float32) if usable is None else usable.astype(np.float32)
        self.X, self.y = torch.from_numpy(X).to(where), torch.from_numpy(np.where(counts > 0, y, 0)).to(where)
        #: What each row counts, 1 or 0: said of all rows, so that none decides how another is computed.
        self._weights = torch.from_numpy(counts).to(where)
        self._cast = 1 if owners is None else rows_per_unit
        self.augmentation = augmentation
        self.rows_per_unit = self._cast * (1 if augmentation is None else augmentation.multiplicity)
        self.n_units = len(y) if owners is None else int(owners.max(initial=-1)) + 1
        self._order: npt.NDArray[np.int64] | None = None
        if owners is not None:
            held = np.flatnonzero(owners >= 0)
            self._order = held[np.argsort(owners[held], kind="stable")]
            self._counts = np.bincount(owners[held], minlength=self.n_units)
            self._starts = np.cumsum(self._counts) - self._counts

    def relabel(self, y: npt.NDArray[np.float32]) -> None:
        """Take other targets of the same rows, zero of those that are not usable."""
        self.y = torch.from_numpy(np.where(self._weights.cpu().numpy() > 0, y, 0)).to(self.X.device)

    def take(
        self, units: npt.NDArray[np.int64], source: NoiseSource
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the rows of some units, ``rows_per_unit`` for each, one after the other.

        Which of a person's records are taken is drawn from the source of the samples, as secret as they are: so that it
        is the person's own matter under add-or-remove too, where a person more gives the others other places.
        """
        X, y, weights = self._rows(units, source)
        if self.augmentation is None or not len(X):
            return X, y, weights
        k = self.augmentation.multiplicity
        return self.augmentation.copies(X, source), y.repeat_interleave(k), weights.repeat_interleave(k) / k

    def _rows(
        self, units: npt.NDArray[np.int64], source: NoiseSource
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if self._order is None:
            index = torch.as_tensor(units, device=self.X.device)
            return self.X.index_select(0, index), self.y[index], self._weights[index]
        k, counts = self._cast, self._counts[units]
        chosen = np.minimum(counts, k)
        picked = np.zeros((len(units), k), np.int64)
        uniform = (source.words(len(units) * k) >> np.uint64(11)).reshape(-1, k) * 2.0**-53
        for j in range(k):  # Floyd's sample without replacement, for all units at once
            last = np.maximum(counts - chosen + j, 0)
            place = np.minimum((uniform[:, j] * (last + 1)).astype(np.int64), last)
            taken = (picked[:, :j] == place[:, None]).any(axis=1)
            picked[:, j] = np.where(j < chosen, np.where(taken, last, place), 0)
        held = np.arange(k) < chosen[:, None]
        rows = self._order[self._starts[units][:, None] + picked]
        index = torch.as_tensor(rows.ravel(), device=self.X.device)
        weights = torch.as_tensor((held / chosen[:, None]).ravel(), device=self.X.device)
        return self.X.index_select(0, index), self.y[index], weights * self._weights[index]
