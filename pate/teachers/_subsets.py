"""How much the vote gains from more teachers: made from private votes, for the curator's eyes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int, check_real
from pate.exceptions import InvalidInputError

#: Sizes of the subsets, and how many random ones of each.
_N_SIZES, _N_DRAWS = 12, 20
#: Margins beyond so many standard deviations of the noise on them count as clear.
_CLEAR = 2.0


def ensemble_curve(
    labels: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    n_classes: int,
    margin_noise: float | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    """Return how right the vote is when only some of the teachers are asked. **Sensitive**, and without noise.

    Parameters
    ----------
    labels : int array of shape (n_teachers, n_rows)
        Each teacher's class indices.
    truth : int array of shape (n_rows,)
        The right ones.
    n_classes : int
    margin_noise : float or None
        Standard deviation, in votes, of the noise on the difference of two counts; None leaves ``clear`` out.
    random_state : int
        Decides which teachers are in the subsets, and nothing else.

    Returns
    -------
    dict of plain values
        ``n_teachers``: the sizes k of the subsets, about a dozen from 1 to all. For each: ``accuracy``, the mean over
        random subsets of the share of rows on which their plurality is right (the first class wins a tie); ``low``
        and ``high``, the worst and the best of those subsets; ``clear``, the mean share of rows whose margin (votes of
        the first class minus the second) is wider than two ``margin_noise``, or None. Also ``margin_noise``,
        ``n_rows`` and ``n_draws``, the number of subsets per size.

    Notes
    -----
    Teachers keep the shards they were trained on. A run with fewer teachers would have given each more records, and
    better votes than a subset's.

    Examples
    --------
    >>> curve = ensemble_curve([[0, 1], [0, 1], [1, 1]], [0, 1], n_classes=2)
    >>> curve["n_teachers"], curve["accuracy"][-1]
    ([1, 2, 3], 1.0)
    """
    votes, right = np.asarray(labels), np.asarray(truth)
    if votes.ndim != 2 or not votes.size or right.shape != votes.shape[1:]:
        raise InvalidInputError(
            f"labels must have shape (n_teachers, n_rows) and truth (n_rows,), with something in both, got "
            f"{votes.shape} and {right.shape}. Take labels from teachers.vote(rows).labels."
        )
    n_classes = check_int("n_classes", n_classes, low=2)
    if margin_noise is not None:
        margin_noise = check_real("margin_noise", margin_noise, low=0, low_open=True)
    n_teachers, n_rows = votes.shape
    sizes = np.unique(np.geomspace(1, n_teachers, _N_SIZES).round().astype(int)).tolist()
    if n_teachers <= _N_SIZES:
        sizes = list(range(1, n_teachers + 1))
    rng = np.random.default_rng(check_int("random_state", random_state, low=0))
    n_right, n_clear = np.empty((2, _N_DRAWS, len(sizes)), dtype=np.int64)
    rows = np.arange(n_rows)
    for draw in range(_N_DRAWS):
        # One order of the teachers gives a subset of every size: its beginnings.
        order = rng.permutation(n_teachers)
        counts = np.zeros((n_rows, n_classes), dtype=np.int32)
        asked = 0
        for column, size in enumerate(sizes):
            for teacher in order[asked:size]:
                counts[rows, votes[teacher]] += 1
            asked = size
            n_right[draw, column] = (counts.argmax(axis=1) == right).sum()
            top = np.partition(counts, n_classes - 2, axis=1)
            n_clear[draw, column] = (top[:, -1] - top[:, -2] > _CLEAR * (margin_noise or 0.0)).sum()
    return {
        "n_teachers": sizes,
        "accuracy": (n_right.sum(axis=0) / (_N_DRAWS * n_rows)).tolist(),
        "low": (n_right.min(axis=0) / n_rows).tolist(),
        "high": (n_right.max(axis=0) / n_rows).tolist(),
        "clear": None if margin_noise is None else (n_clear.sum(axis=0) / (_N_DRAWS * n_rows)).tolist(),
        "margin_noise": margin_noise,
        "n_rows": n_rows,
        "n_draws": _N_DRAWS,
    }
