"""Whose records are protected: rows by row, or all rows of a person, drawn as one and clipped as one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from pate.core.types import Mask
from pate.dpsgd._augmentation import ImageAugmentation
from pate.noise.source import NoiseSource


class Units:
    """Private rows on a device, by the unit that is sampled.

    A person's gradient is that of the mean loss over at most ``rows_per_unit`` of their records, drawn anew in every
    step, so a person with a thousand records weighs as much as one with one.

    Parameters
    ----------
    X : array of shape (n, ...)
    y : int64 array of shape (n,)
    owners : int64 array of shape (n,) or None
        The index of each row's unit, 0 to n_units - 1, and -1 for a row of nobody's. None makes every row one.
    rows_per_unit : int
        Of a unit's rows, at most so many in a step; without ``owners`` there is one.
    device : torch.device
    augmentation : ImageAugmentation or None
        Each row is cast as so many changed copies.
    usable : bool array of shape (n,) or None
        Which rows count. One that does not keeps its place, is drawn as the others are, and has no gradient. None: all.

    Attributes
    ----------
    n_units : int
    rows_per_unit : int
        Rows that stand for a unit in a step, copies included.
    """

    def __init__(
        self,
        X: npt.NDArray[np.generic],
        y: npt.NDArray[np.int64],
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

    def take(
        self, units: npt.NDArray[np.int64], source: NoiseSource
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the rows of some units, ``rows_per_unit`` for each, one after the other.

        Which of a person's records are taken is drawn from the source of the samples, as secret as they are: so that it
        is the person's own matter under add-or-remove too, where a person more gives the others other places.

        Parameters
        ----------
        units : int64 array of shape (m,)
        source : NoiseSource

        Returns
        -------
        X : tensor of shape (m * rows_per_unit, ...)
        y : tensor of shape (m * rows_per_unit,)
        weights : tensor of shape (m * rows_per_unit,)
            Of each row in its unit's loss; 0 where a unit has fewer rows, or one that does not count.
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
