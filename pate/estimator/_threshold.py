"""Thresholds on one class's probability, for a wanted precision or recall: from public rows and calibrated odds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_real
from pate.exceptions import InvalidInputError


def threshold_for(p: npt.NDArray[np.float64], *, precision: float | None, recall: float | None) -> float:
    """Return the threshold at which rows of these probabilities are expected to have that precision or recall.

    Parameters
    ----------
    p : float64 array of shape (n_rows,)
        Probability of the class, of each row.
    precision : float or None
        Wanted: the mean of p over the rows that reach the threshold; the least threshold with so much is returned.
    recall : float or None
        Wanted: the part of all p that those rows have; the largest threshold with so much is returned.

    Raises
    ------
    InvalidInputError
        Not exactly one of both is given, it is not between 0 and 1, or no threshold has that precision.
    """
    if (precision is None) == (recall is None):
        raise InvalidInputError("threshold needs exactly one of precision and recall. Say precision=0.9, for one.")
    at, counts = np.unique(p, return_counts=True)
    at, counts = at[::-1], counts[::-1]  # the rows that reach at[i] are those of at[: i + 1]
    reached = np.cumsum(at * counts)
    if precision is not None:
        wanted = _share("precision", precision)
        fine = np.flatnonzero(reached / np.cumsum(counts) >= wanted)
        if not len(fine):
            raise InvalidInputError(
                f"precision must be at most {np.floor(at[0] * 1e4) / 1e4:.4g} for this class, got {precision:g}: no "
                "public row is surer of it. Ask for less, or say recall=..."
            )
        return float(at[fine[-1]])
    wanted = _share("recall", recall)
    return float(at[np.flatnonzero(reached >= wanted * reached[-1])[0]])


def _share(name: str, value: float | None) -> float:
    return check_real(name, value, low=0, high=1, low_open=True, high_open=True)
