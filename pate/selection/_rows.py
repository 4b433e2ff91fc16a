"""Private records as a selection holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.types import IntArray


@dataclass(frozen=True, eq=False, repr=False)
class PrivateRows:
    """Private records, read and checked: **sensitive**.

    Attributes
    ----------
    X : array, DataFrame, sparse matrix or texts, shape (n, ...)
    y : array of shape (n,)
        Class values; None for a record that has none of the classes.
    groups : array of shape (n,) or None
    unit_of : int array of shape (n,)
        The unit of every record, 0 to n_units - 1.
    """

    X: Any
    y: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None
    unit_of: IntArray

    def of_units(self, units: IntArray) -> PrivateRows:
        """Return the records of these units, in the file's order."""
        places = np.flatnonzero(np.isin(self.unit_of, units))
        X = self.X.iloc[places] if hasattr(self.X, "iloc") else self.X[places]
        owners = None if self.groups is None else self.groups[places]
        return PrivateRows(X, self.y[places], owners, self.unit_of[places])

    def copied(self) -> PrivateRows:
        """Return the same records in arrays of their own, for whoever may write into them."""
        return self.of_units(self.unit_of)
