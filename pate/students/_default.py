"""The student where nobody names one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from pate.students._spreading import VoteSpreading

#: Public rows beyond which a neighbour graph of them takes too long.
_MOST_ROWS = 20_000


def mapped_student(n_public: int, *, noisy_counts: bool) -> VoteSpreading | LogisticRegression:
    """Return the student of public rows that a public map made vectors of, whose scale is the map's own affair.

    Parameters
    ----------
    n_public : int
    noisy_counts : bool
        Whether noisy counts will be released, or labels alone.

    Examples
    --------
    >>> mapped_student(500, noisy_counts=True), mapped_student(500, noisy_counts=False)
    (VoteSpreading(), LogisticRegression(max_iter=500))
    """
    return VoteSpreading() if noisy_counts and 2 <= n_public <= _MOST_ROWS else LogisticRegression(max_iter=500)


def default_student(X_public: Any, *, noisy_counts: bool) -> VoteSpreading | None:
    """Return the student that measurement says is best for these public rows; None where teachers' own kind is.

    :class:`VoteSpreading` on columns of one scale, where noisy counts are released and the public rows are 2 to 20,000
    rows of finite numbers: the figures stand in ``docs/defaults.md``. Public facts alone decide.

    Parameters
    ----------
    X_public : array, DataFrame or sparse matrix of shape (n_public, n_features), or texts of shape (n_public,)
    noisy_counts : bool
        Whether noisy counts will be released, or labels alone.

    Examples
    --------
    >>> default_student(np.eye(3), noisy_counts=True)
    VoteSpreading(scale=True)
    >>> default_student(np.array(["a note", "another"]), noisy_counts=True) is None
    True
    """
    if not noisy_counts or hasattr(X_public, "toarray") or not 2 <= np.shape(X_public)[0] <= _MOST_ROWS:
        return None
    try:
        rows = np.asarray(X_public, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return VoteSpreading(scale=True) if rows.ndim == 2 and np.isfinite(rows).all() else None
