"""Scale the columns of public rows, so that distances between rows are meaningful."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: The largest deviation, in lower quartiles of all, up to which columns are of one scale already: pixels reach 6.
_ONE_SCALE = 8.0


def column_scales(rows: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Return what each column is divided by: its standard deviation where columns are of different units, else 1.

    They are where the largest deviation is above eight times the lower quartile (of columns that move at all). Columns
    of 0 and 1 alone stay as they are: divided by its deviation, the rarest category would decide every distance.

    Parameters
    ----------
    rows : float array of shape (n_rows, n_features)
        Public, and finite.
    """
    deviation = rows.std(axis=0, dtype=np.float64)
    moves = np.sort(deviation[deviation > 0])
    if not len(moves) or moves[-1] <= _ONE_SCALE * moves[(len(moves) - 1) // 4]:
        return np.ones(rows.shape[1])
    says_yes_or_no = ((rows == 0) | (rows == 1)).all(axis=0)
    return np.where(says_yes_or_no | ~(deviation > 0), 1.0, deviation)
