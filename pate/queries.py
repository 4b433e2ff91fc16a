"""Which public rows to ask about: chosen from public information alone, so the choice costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pate._random import training_seed
from pate._validation import check_choice, check_int
from pate.exceptions import InvalidInputError

STRATEGIES = ("first", "random", "spread")


def select_queries(
    X_public: Any, n_queries: int, *, strategy: str = "random", random_state: int | None = None
) -> npt.NDArray[np.int64]:
    """Return the positions of the public rows to ask about, ascending.

    Parameters
    ----------
    X_public : array or DataFrame of shape (n_public, n_features)
    n_queries : int
        At most n_public; all rows are returned in order when equal.
    strategy : {"first", "random", "spread"}
        ``"spread"`` clusters the public rows (k-means on standardised numbers) and takes the row nearest to each
        centre, so that few answers say much about all rows. It may return slightly fewer rows than asked.
    random_state : int or None

    Returns
    -------
    int64 array of shape (at most n_queries,)

    Raises
    ------
    InvalidInputError
        More queries than rows, an unknown strategy, or rows that are not numbers for ``"spread"``.

    Examples
    --------
    >>> select_queries(np.arange(10.0).reshape(5, 2), 2, strategy="first")
    array([0, 1])
    """
    n_public = np.shape(X_public)[0]
    n_queries = check_int("n_queries", n_queries, low=1, high=n_public, remedy=f"There are {n_public} public rows.")
    check_choice("strategy", strategy, STRATEGIES)
    if strategy == "first" or n_queries == n_public:
        return np.arange(n_queries)
    seed = training_seed(random_state, 0x5E1EC7)
    if strategy == "random":
        return np.sort(np.random.default_rng(seed).choice(n_public, n_queries, replace=False))

    from sklearn.cluster import KMeans
    from sklearn.metrics import pairwise_distances_argmin
    from threadpoolctl import threadpool_limits

    try:
        X = np.asarray(X_public, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "strategy='spread' needs numeric public rows. Encode them first (pate.TableEncoder) or use 'random'."
        ) from error
    if not np.isfinite(X).all():
        raise InvalidInputError("strategy='spread' needs public rows without NaN. Impute them first or use 'random'.")
    # One thread: k-means on a few thousand rows is slower with more, and its sums then do not depend on their number.
    with threadpool_limits(1):
        centres = KMeans(n_queries, n_init=1, random_state=seed).fit(X).cluster_centers_
        return np.unique(pairwise_distances_argmin(centres, X)).astype(np.int64)
