"""Select the public rows to query, from public information alone, so the selection costs no privacy."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int, quietly
from pate._core.frames import plain_rows
from pate._core.recorder import note
from pate._core.scale import column_scales
from pate._core.secret import training_seed
from pate.exceptions import InvalidInputError

__all__ = ["STRATEGIES", "least_sure", "select_queries"]

#: How rows can be chosen, by name.
STRATEGIES = ("auto", "first", "random", "spread", "cluster")

#: Rows that ``"cluster"`` reads, at least, and per query: beyond that more rows hardly move the centres.
_CLUSTER_ROWS, _CLUSTER_ROWS_PER_QUERY = 20_000, 20


def select_queries(
    X_public: Any, n_queries: int, *, strategy: str = "auto", random_state: int | None = None, one_scale: bool = False
) -> npt.NDArray[np.int64]:
    """Select the public rows that teachers will be asked about; return their positions, ascending.

    Parameters
    ----------
    X_public : array or DataFrame of shape (n_public, n_features)
    n_queries : int
        At most n_public; all rows are returned in order when equal.
    strategy : {"auto", "first", "random", "spread", "cluster"}
        ``"auto"`` is ``"spread"`` on columns of one scale (``"cluster"`` beyond 20,000 rows) where the rows are tables
        of finite numbers, and ``"random"`` for texts, sparse rows and the like; see ``docs/defaults.md``.
        ``"spread"`` clusters the public rows (k-means on the numbers as they are: standardise them first if their units
        differ) and takes the row nearest to each centre, so that few answers say much about all rows. ``"cluster"``
        does so by mini-batches on a random part of the rows, for a million of them. Both never return the same row
        twice, and so fewer rows than asked where too few are distinct; ``"spread"`` may always return slightly fewer.
    random_state : int or None
    one_scale : bool
        The columns are of one scale already, so that ``"auto"`` takes them as they are: the output of a public map.

    Returns
    -------
    int64 array of shape (at most n_queries,)

    Raises
    ------
    InvalidInputError
        More queries than rows, an unknown strategy, or rows that are not numbers for ``"spread"`` and ``"cluster"``.

    Examples
    --------
    >>> select_queries(np.arange(10.0).reshape(5, 2), 2, strategy="first")
    array([0, 1])
    """
    X_public = plain_rows(X_public, name="X_public")
    n_public = quietly("X_public", lambda: X_public.shape[0] if hasattr(X_public, "shape") else len(X_public))
    n_queries = check_int("n_queries", n_queries, low=1, high=n_public, remedy=f"There are {n_public} public rows.")
    check_choice("strategy", strategy, STRATEGIES)
    note("queries", rows=X_public, n_queries=n_queries, strategy=strategy)
    if strategy == "auto":
        X_public, strategy = _on_one_scale(X_public, n_public, one_scale)
    if strategy == "first" or n_queries == n_public:
        return np.arange(n_queries)
    seed = training_seed(random_state, 0x5E1EC7)
    if strategy == "random":
        return np.sort(np.random.default_rng(seed).choice(n_public, n_queries, replace=False))

    n_rows = max(_CLUSTER_ROWS, _CLUSTER_ROWS_PER_QUERY * n_queries)
    if strategy == "spread" or n_rows >= n_public:
        return _central(X_public, n_queries, strategy, seed)
    some = np.sort(np.random.default_rng(seed).choice(n_public, n_rows, replace=False))
    part = X_public.iloc[some] if hasattr(X_public, "iloc") else np.asarray(X_public)[some]
    return some[_central(part, n_queries, strategy, seed)]


def _on_one_scale(X_public: Any, n_public: int, one_scale: bool) -> tuple[Any, str]:
    """Return the rows to choose among by ``"auto"``, and how: facts of the public rows decide."""
    if hasattr(X_public, "toarray"):
        return X_public, "random"
    try:
        rows: npt.NDArray[np.floating[Any]] = np.asarray(X_public, dtype=np.float64)
    except (TypeError, ValueError):
        return X_public, "random"
    if rows.ndim != 2 or not np.isfinite(rows).all():
        return X_public, "random"
    return rows if one_scale else rows / column_scales(rows), "spread" if n_public <= _CLUSTER_ROWS else "cluster"


def least_sure(probabilities: npt.ArrayLike, n_rows: int) -> npt.NDArray[np.int64]:
    """Return the positions, ascending, of the rows where a model is least sure: its two likeliest classes are closest.

    Parameters
    ----------
    probabilities : array of shape (n_public, n_classes)
        Probabilities of a student that learnt from released labels and public rows alone; never votes, nor anything
        made from them.
    n_rows : int
        How many rows; ties go to the first ones.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or not p.shape[1] or not np.isfinite(p).all():
        raise InvalidInputError(
            f"probabilities must be finite numbers of shape (n_public, n_classes), got shape {p.shape}. Pass "
            "student.predict_proba(X_public)."
        )
    n_rows = check_int("n_rows", n_rows, low=0, high=len(p), remedy=f"There are {len(p)} public rows.")
    if p.shape[1] == 1:  # a student that knows one class is equally unsure of all rows
        return np.arange(n_rows)
    top = np.partition(p, -2, axis=1)
    return np.sort(np.argsort(top[:, -1] - top[:, -2], kind="stable")[:n_rows])


def _numbers(X_public: Any, strategy: str) -> npt.NDArray[np.floating[Any]]:
    try:
        X: npt.NDArray[np.floating[Any]] = np.asarray(X_public, dtype="f8" if strategy == "spread" else "f4")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"strategy={strategy!r} needs numeric public rows. Encode them first (pate.TableEncoder) or use 'random'."
        ) from error
    if not np.isfinite(X).all():
        raise InvalidInputError(
            f"strategy={strategy!r} needs public rows without NaN. Impute them first or use 'random'."
        )
    return X


def _distinct(X: npt.NDArray[np.floating[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first position of each distinct row, ascending, and how often it occurs."""
    # + 0.0: -0.0 is the same number as 0.0.
    digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in X + 0.0]
    _, first, n_times = np.unique(digests, return_index=True, return_counts=True)
    order = np.argsort(first)
    return first[order].astype(np.int64), n_times[order]


def _central(X_public: Any, n_queries: int, strategy: str, seed: int) -> npt.NDArray[np.int64]:
    """Return the rows nearest to the centres of at most ``n_queries`` clusters.

    By mini-batches (``"cluster"``) a random other row makes up for it where two centres have one nearest row.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import pairwise_distances_argmin
    from threadpoolctl import threadpool_limits

    X = _numbers(X_public, strategy)
    # A row that repeats is one place of a larger weight.
    first, n_times = _distinct(X)
    if n_queries >= len(first):
        return first
    model = KMeans(n_queries, n_init=1, random_state=seed)
    if strategy == "cluster":
        model = MiniBatchKMeans(
            n_queries, batch_size=max(1024, 2 * n_queries), n_init=1, max_iter=20, random_state=seed,
            init_size=min(len(first), 3 * n_queries), compute_labels=False,
        )  # fmt: skip
    # One thread: k-means on a few thousand rows is slower with more, and its sums then do not depend on their number.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that differ in their last digits are one to k-means
        model.fit(X[first], sample_weight=n_times)
        found = np.unique(pairwise_distances_argmin(model.cluster_centers_, X[first]))
    if strategy == "cluster":
        rest = np.setdiff1d(np.arange(len(first)), found)
        more = np.random.default_rng(seed).choice(rest, n_queries - len(found), replace=False)
        found = np.sort(np.concatenate([found, more]))
    return first[found]
