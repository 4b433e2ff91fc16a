"""Rows as teachers take them (array, DataFrame or sparse matrix): checked at the door, cut by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import get_tags

from pate.exceptions import InvalidInputError
from pate.votes import hash_queries


def is_sparse(X: Any) -> bool:
    """Whether ``X`` is a scipy sparse matrix or array."""
    return bool(sparse.issparse(X))


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas DataFrame, without importing pandas."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def check_rows(X: Any, *, estimator: Any, name: str = "X") -> Any:
    """Return ``X`` as a 2-d array, a DataFrame or a CSR matrix that ``estimator`` may be given.

    Parameters
    ----------
    X : array-like, DataFrame or sparse matrix of shape (n, n_features)
    estimator : classifier
        Missing values are refused unless it declares that it takes them, or holds steps that may fill them.
    name : str
        What to call ``X`` in an error.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> check_rows([[0.0, float("nan")]], estimator=LogisticRegression())
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: X holds NaN or infinity. ...
    """
    if is_sparse(X):
        rows: Any = X.tocsr()
    elif is_frame(X):
        rows = X
    else:
        try:
            rows = np.asarray(X)
        except ValueError:
            rows = np.empty(0)
    if rows.ndim != 2 or getattr(rows, "dtype", np.dtype(float)).kind == "c":
        raise InvalidInputError(
            f"{name} must be a table of shape (n, n_features) of real numbers or categories, got shape {rows.shape}. "
            "Pass one row per record; X.reshape(len(X), -1) flattens images."
        )
    if is_frame(rows) and not rows.columns.is_unique:
        raise InvalidInputError(f"{name} has columns of the same name. Rename them: columns are told apart by name.")
    if not rows.shape[0] or not rows.shape[1]:
        raise InvalidInputError(f"{name} must have at least one row and one column, got shape {rows.shape}.")
    if not _takes_missing(estimator) and not _finite(rows):
        raise InvalidInputError(
            f"{name} holds NaN or infinity. Fill them (a SimpleImputer as the first step of a pipeline is fitted "
            "inside each shard), drop those rows, or use an estimator that takes missing values."
        )
    return rows


def take_rows(X: Any, index: npt.NDArray[np.int64]) -> Any:
    """Return a copy of the rows ``index``: what one teacher does to them no other teacher sees."""
    return X.iloc[index].copy() if is_frame(X) else X[index]


def match_columns(X: Any, columns: list[Any] | None, n_features: int) -> Any:
    """Return public ``X`` with the columns the teachers were fitted on, by name where they have names.

    Examples
    --------
    >>> match_columns(np.zeros((1, 3)), None, 2)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: X has 3 columns, but the teachers were fitted on 2. ...
    """
    if columns is not None:
        if not is_frame(X):
            raise InvalidInputError(
                "X must be a DataFrame, because the teachers were fitted on one. Name its columns as in fit."
            )
        missing = [c for c in columns if c not in X.columns]
        extra = [c for c in X.columns if c not in columns]
        if missing or extra or len(X.columns) != len(columns):
            raise InvalidInputError(
                f"X has other columns than the teachers were fitted on: missing {missing!r}, extra {extra!r}. "
                "Public and private tables need the same columns, each once."
            )
        return X[columns]
    if X.shape[1] != n_features:
        raise InvalidInputError(
            f"X has {X.shape[1]} columns, but the teachers were fitted on {n_features}. "
            "Public and private rows need the same features in the same order."
        )
    return X.to_numpy() if is_frame(X) else X


def hash_rows(X: Any, *, chunk_size: int) -> tuple[str, ...]:
    """Return the digests of :func:`pate.votes.hash_queries`, a sparse row hashing like the same row when dense."""
    if not is_sparse(X):
        return hash_queries(X)
    return tuple(digest for part in slices(X.shape[0], chunk_size) for digest in hash_queries(X[part].toarray()))


def slices(n_rows: int, chunk_size: int) -> Iterator[slice]:
    """Yield consecutive slices of at most ``chunk_size`` rows.

    Examples
    --------
    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, n_rows, chunk_size):
        yield slice(start, min(start + chunk_size, n_rows))


def _finite(X: Any) -> bool:
    if is_sparse(X):
        X = X.data
    if is_frame(X):
        if X.isna().to_numpy().any():
            return False
        numeric = X.select_dtypes("number")
        return bool(np.isfinite(numeric.to_numpy(dtype=float)).all())
    if X.dtype.kind == "O":
        # NaN is the one value that differs from itself; None is missing too.
        return bool((X == X).all() and not (X == None).any())  # noqa: E711
    return X.dtype.kind != "f" or bool(np.isfinite(X).all())


def _takes_missing(estimator: Any) -> bool:
    """Whether to leave missing values to the estimator.

    scikit-learn's tags do not look through pipelines, so the steps are read here: scalers pass NaN on, imputers end
    it, and steps that choose columns or run the user's own code decide for themselves.
    """
    steps = getattr(estimator, "steps", None)
    if steps is None:
        return _declares_missing(estimator) or hasattr(estimator, "transformers")
    for _, step in steps:
        if step is None or step == "passthrough":
            continue
        module = type(step).__module__
        if "impute" in module or not module.startswith("sklearn."):
            return True
        if hasattr(step, "transformers") or hasattr(step, "transformer_list") or hasattr(step, "func"):
            return True
        if hasattr(step, "steps"):
            return _takes_missing(step)
        if not _declares_missing(step):
            return False
    return True


def _declares_missing(estimator: Any) -> bool:
    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except Exception:  # an estimator without tags: it decides
        return True
