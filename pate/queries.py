"""Which public rows to ask about: chosen from public information alone, so the choice costs nothing."""

from __future__ import annotations

import hashlib
import warnings
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
        ``"spread"`` clusters the public rows (k-means on the numbers as they are: standardise them first if their units
        differ) and takes the row nearest to each centre, so that few answers say much about all rows. It may return
        slightly fewer rows than asked, and never the same row twice.
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

    try:
        X = np.asarray(X_public, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "strategy='spread' needs numeric public rows. Encode them first (pate.TableEncoder) or use 'random'."
        ) from error
    if not np.isfinite(X).all():
        raise InvalidInputError("strategy='spread' needs public rows without NaN. Impute them first or use 'random'.")
    return _spread(X, n_queries, seed)


def _spread(X: npt.NDArray[np.float64], n_queries: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the rows nearest to the centres of at most ``n_queries`` clusters."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import pairwise_distances_argmin
    from threadpoolctl import threadpool_limits

    # A row that repeats is one place of a larger weight. (+ 0.0: -0.0 is the same number as 0.0.)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in X + 0.0]
    _, first, n_times = np.unique(digests, return_index=True, return_counts=True)
    order = np.argsort(first)
    first, n_times = first[order], n_times[order]
    if n_queries >= len(first):
        return first.astype(np.int64)
    # One thread: k-means on a few thousand rows is slower with more, and its sums then do not depend on their number.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that differ in their last digits are one to k-means
        model = KMeans(n_queries, n_init=1, random_state=seed).fit(X[first], sample_weight=n_times)
        nearest = pairwise_distances_argmin(model.cluster_centers_, X[first])
    return first[np.unique(nearest)].astype(np.int64)
