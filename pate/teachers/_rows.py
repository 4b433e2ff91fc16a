"""Rows as teachers take them (array, DataFrame, sparse matrix or texts): checked at the door, cut by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags

from pate.data._columns import holds_numbers, order_key
from pate.data._door import by_name, flat_rows, frame_as_floats, is_frame, is_sparse, is_texts, read_rows, text_columns
from pate.exceptions import InvalidInputError
from pate.votes import hash_queries

if TYPE_CHECKING:
    import pandas as pd


def check_rows(X: Any, *, estimator: Any, name: str = "X", whole: bool = True) -> Any:
    """Return ``X`` as a 2-d array, a DataFrame, a CSR matrix or a 1-d array of texts that ``estimator`` may be given.

    Images are laid out flat. Missing values are refused unless the estimator declares that it takes them, or holds
    steps that may fill them; not ``whole`` leaves them in: of private rows, none may decide whether there is an error.
    """
    rows = flat_rows(read_rows(X, name=name))
    who = type(estimator).__name__
    odd = "" if takes("string", estimator) else text_columns(rows)
    if odd:
        raise InvalidInputError(
            f"{name} must hold numbers for {who}, got {odd}. Make numbers of them inside each shard (a pipeline with "
            "an encoder or a vectoriser as its first step), or by what public rows teach (pate.TableEncoder)."
        )
    if whole and not is_texts(rows) and not takes_missing(estimator) and not _finite(rows):
        raise InvalidInputError(
            f"{name} holds NaN or infinity. Fill them (a SimpleImputer as the first step of a pipeline is fitted "
            "inside each shard), drop those rows, or use an estimator that takes missing values."
        )
    if is_sparse(rows) and not takes("sparse", estimator):
        raise InvalidInputError(f"{name} must be dense for {who}, got a sparse matrix. Pass X.toarray().")
    return rows


def as_floats(X: Any) -> Any:
    """Return a DataFrame with its numbers and truth values as float64 (missing is NaN); other rows as they are."""
    return frame_as_floats(X) if is_frame(X) else X


def take_rows(X: Any, index: npt.NDArray[np.int64]) -> Any:
    """Return a copy of the rows ``index``: what one teacher does to them no other teacher sees.

    Categories and row names of a DataFrame are those of these rows alone.
    """
    if not is_frame(X):
        return X[index]
    import pandas as pd

    rows = X.iloc[index].copy().reset_index(drop=True)
    rows.attrs = {}
    for j, dtype in enumerate(X.dtypes):
        if isinstance(dtype, pd.CategoricalDtype):
            rows.isetitem(j, _own_categories(rows.iloc[:, j]))
    return rows


def _own_categories(column: pd.Series) -> pd.Series:
    """Return a categorical column whose categories are those in it: sorted, or in the order that was declared.

    The list that all shards share would show them another shard's categories, and shift their codes.
    """
    import pandas as pd

    codes = column.cat.codes.to_numpy()
    held = np.unique(codes[codes >= 0])
    names = column.cat.categories[held].tolist()
    order = list(range(len(names)))
    if not column.cat.ordered:
        order.sort(key=lambda i: order_key(names[i]))
    names = [names[i] for i in order]
    if all(isinstance(name, int | float) and not isinstance(name, bool) for name in names):
        names = [float(name) for name in names]  # whole numbers are ints only as long as all shards have whole ones
    place = np.full(len(column.cat.categories) + 1, -1)  # the last one is for missing cells
    place[held[order]] = np.arange(len(names))
    values = pd.Categorical.from_codes(place[codes], categories=pd.Index(names), ordered=column.cat.ordered)
    return pd.Series(values, index=column.index, name=column.name)


def column_kinds(X: Any) -> dict[Any, str] | None:
    """Return each column's kind of a DataFrame ("number", "text", "category", or its dtype); None for other rows."""
    if not is_frame(X):
        return None
    return {name: _kind(t) for name, t in zip(X.columns, X.dtypes, strict=True)}


def _kind(dtype: Any) -> str:
    import pandas as pd

    text = isinstance(dtype, pd.StringDtype) or dtype == np.dtype(object)  # texts, as one pandas or another holds them
    return "number" if holds_numbers(dtype) else "text" if text else str(dtype.name)


def holds_objects(X: Any) -> bool | None:
    """Whether some cells of a checked array are texts; None where it is none."""
    return X.dtype.kind == "O" if isinstance(X, np.ndarray) and X.ndim > 1 else None


def check_same_kind(X: Any, *, objects: bool | None) -> None:
    """Refuse rows of numbers where the public ones of a fit held texts (``objects``), or the reverse."""
    here = holds_objects(X)
    if here is not None and objects is not None and here != objects:
        raise InvalidInputError(
            f"rows are {'texts and numbers' if here else 'numbers alone'}, and the public rows of fit were not. Bring "
            "both to the same kind of cells."
        )


def copy_input_tags(estimator: Any, tags: Any) -> None:
    """Say of an ensemble which rows it takes: those that its estimator does."""
    try:
        said = get_tags(estimator).input_tags
    except Exception:  # an estimator without tags
        return
    for name in ("allow_nan", "categorical", "one_d_array", "sparse", "string"):
        setattr(tags.input_tags, name, getattr(said, name))


def match_columns(X: Any, columns: dict[Any, str] | None, n_features: int | None) -> Any:
    """Return public ``X`` with the columns the teachers were fitted on, by name where they have names.

    ``n_features`` is None for teachers that were fitted on texts.

    The public rows have the last word on what kind a column is: a private record that turned a column of numbers into
    one of objects ends here.
    """
    if is_texts(X) or (n_features is None and columns is None):
        if not (is_texts(X) and n_features is None):
            here, there = ("texts", "a table") if is_texts(X) else ("a table", "texts")
            raise InvalidInputError(
                f"X holds {here}, but the teachers were fitted on {there}. Public and private rows must be of one kind."
            )
        return X
    if columns is not None:
        if not is_frame(X):
            raise InvalidInputError(
                "X must be a DataFrame, because the teachers were fitted on one. Name its columns as in fit."
            )
        X = by_name(X, columns, other="the teachers were fitted on")
        odd = [
            f"{c!r} ({columns[c]}, here {kind})" for c, kind in (column_kinds(X) or {}).items() if kind != columns[c]
        ]
        if odd:
            raise InvalidInputError(
                f"X has columns of other kinds than the teachers were fitted on: {', '.join(odd)}. Bring both tables "
                "to the same types, as read_table does: .astype(float) for numbers, .astype(object) for text."
            )
        return as_floats(X)
    if X.shape[1] != n_features:
        raise InvalidInputError(
            f"X has {X.shape[1]} columns, but the teachers were fitted on {n_features}. "
            "Public and private rows need the same features in the same order."
        )
    return as_floats(X).to_numpy() if is_frame(X) else X


def hash_rows(X: Any, *, chunk_size: int) -> tuple[str, ...]:
    """Return the digests of :func:`pate.votes.hash_queries`, a sparse row hashing like the same row when dense."""
    if is_texts(X):
        return hash_queries(X.reshape(-1, 1))
    if not is_sparse(X):
        return hash_queries(X)
    return tuple(digest for part in slices(X.shape[0], chunk_size) for digest in hash_queries(X[part].toarray()))


def slices(n_rows: int, chunk_size: int) -> Iterator[slice]:
    """Yield consecutive slices of at most ``chunk_size`` rows."""
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


def takes_missing(estimator: Any) -> bool:
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
            return takes_missing(step)
        if not _declares_missing(step):
            return False
    return True


def _declares_missing(estimator: Any) -> bool:
    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except Exception:  # an estimator without tags: it decides
        return True


def takes(what: str, estimator: Any) -> bool:
    """Whether rows of a kind ("sparse", "string") may be given to the estimator: no only where that is certain.

    Pipelines, searches and other people's estimators decide for themselves: their tags do not tell.
    """
    if not type(estimator).__module__.startswith("sklearn.") or hasattr(estimator, "steps"):
        return True
    if any(hasattr(value, "fit") or isinstance(value, list) for value in estimator.get_params(deep=False).values()):
        return True
    try:
        tags = get_tags(estimator).input_tags
    except Exception:  # an estimator without tags
        return True
    return bool(getattr(tags, what) or (what == "string" and tags.categorical))
