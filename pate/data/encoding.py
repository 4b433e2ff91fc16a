"""Encode mixed tables as numbers: fitted on public rows only, or inside each shard."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from pate._core.checks import check_int
from pate._core.frames import plain_rows
from pate.data._columns import as_float, as_text, column_kind, numbers_in, odd_cells, warn_curator
from pate.data._named.dataset import Dataset, Draw
from pate.data._validation import by_name, is_frame, is_sparse, is_texts, read_rows
from pate.exceptions import InvalidInputError


@dataclass(repr=False, eq=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table of numbers and text into a float32 matrix; the encoding is learnt from **public** rows alone.

    Numeric columns: missing cells become the public median, with an indicator column where public cells were missing;
    then mean 0 and standard deviation 1 over the public rows. Text columns: one column per category seen in public
    rows, at most ``max_categories`` of them, the rare ones together; a category never seen is counted with the rare
    ones, or as none.

    Parameters
    ----------
    max_categories : int
        At least 2.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When fitted on a table with names.
    encoder_ : ColumnTransformer
        The fitted scikit-learn transformer that does the work.

    Notes
    -----
    **Guarantees.** ``fit`` must see public rows only; then the encoding does not depend on any private record, and
    encoding a private row reads that row alone. Use :func:`make_shard_encoder` to learn inside each shard instead.

    Examples
    --------
    >>> import pandas as pd
    >>> public = pd.DataFrame({"age": [20.0, 40.0, None], "town": ["Oslo", "Rome", "Oslo"]})
    >>> encoder = TableEncoder().fit(public)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'missingindicator_age', 'town_Oslo', 'town_Rome']
    >>> encoder.transform(pd.DataFrame({"age": [30.0], "town": ["Kyiv"]})).tolist()[0][2:]
    [0.0, 0.0]
    """

    _: KW_ONLY
    max_categories: int = 50

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn medians, scales and categories.

        Parameters
        ----------
        X : DataFrame or array of shape (n_public, n_features)
            Public rows. An array of objects may mix numbers and text by column.
        y : ignored
        """
        check_int("max_categories", self.max_categories, low=2)
        X = self._checked(X, reset=True)
        frame, self._kinds = _as_frame(X)
        self.encoder_ = _column_transformer(self._kinds, self.max_categories).fit(frame)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Encode rows.

        Parameters
        ----------
        X : DataFrame or array of shape (n, n_features)
            Columns of the same names, in any order. A cell that is no number counts as missing in a column of numbers
            where some are; a :class:`~pate.exceptions.CuratorWarning` says so.

        Returns
        -------
        float32 array of shape (n, n_features_out)
        """
        check_is_fitted(self)
        X = plain_rows(X)
        X = by_name(X, getattr(self, "feature_names_in_", None), other="the table the encoder was fitted on")
        X = self._checked(X, reset=False)
        frame, kinds = _as_frame(X, self._kinds)
        odd = [n for n, kind in kinds.items() if kind != self._kinds[n]]
        if odd:
            raise InvalidInputError(
                f"columns {odd} are {[self._kinds[n] for n in odd]} in the table the encoder was fitted on, and "
                f"{[kinds[n] for n in odd]} here. Clean the cells that are not numbers, or drop the columns."
            )
        return np.asarray(self.encoder_.transform(frame), dtype=np.float32)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the encoded columns, array of shape (n_features_out,)."""
        check_is_fitted(self)
        return np.asarray(self.encoder_.get_feature_names_out(), dtype=object)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return a two-dimensional array, or the table itself, with scikit-learn's bookkeeping done."""
        rows = read_rows(X)
        if is_sparse(rows) or is_texts(rows) or rows.ndim > 2:
            raise InvalidInputError(
                "X must be a table, got a sparse matrix, texts or rows of more than one axis. Pass a DataFrame, or a "
                "dense array of shape (n, n_features)."
            )
        validate_data(self, rows, reset=reset, skip_check_array=True)
        if not is_frame(rows) and rows.dtype.kind == "f" and np.isinf(rows).any():
            raise InvalidInputError(
                "X holds infinity (inf). Leave such cells empty (NaN), or put the largest sensible number there."
            )
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def make_shard_encoder(X_public: Any, *, max_categories: int = 50) -> ColumnTransformer:
    """Return an unfitted scikit-learn transformer like :class:`TableEncoder`, for fitting inside each shard.

    Parameters
    ----------
    X_public : DataFrame of shape (n, n_features)
        Only its schema is used, which columns are numeric and which text, so that no shard decides it by its own rows.
    max_categories : int

    Returns
    -------
    ColumnTransformer
        Put it before a classifier: ``make_pipeline(make_shard_encoder(X_public), LogisticRegression())``. It is made of
        scikit-learn parts alone, so checkpoints need no trust in other code.

    Examples
    --------
    >>> import pandas as pd
    >>> encoder = make_shard_encoder(pd.DataFrame({"age": [1.0], "town": ["Oslo"]}))
    >>> encoder.fit_transform(
    ...     pd.DataFrame({"age": [20.0, None], "town": ["Rome", "Kyiv"]})
    ... ).shape
    (2, 4)
    """
    X_public = plain_rows(X_public, name="X_public")
    if not hasattr(X_public, "columns"):
        raise InvalidInputError(
            f"X_public must be a DataFrame, got {type(X_public).__name__}. Arrays of numbers need no column kinds: use "
            "make_pipeline(SimpleImputer(), StandardScaler(), classifier)."
        )
    check_int("max_categories", max_categories, low=2)
    read_rows(X_public, name="X_public")  # refuses what is no column, or there twice
    return _column_transformer({c: column_kind(c, X_public[c]) for c in X_public.columns}, max_categories)


def _column_transformer(kinds: dict[Any, str], max_categories: int) -> ColumnTransformer:
    numeric = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler()
    )
    # An unseen category joins the rare ones when there are any, else it is all zeros: no error, no warning.
    text = OneHotEncoder(
        max_categories=max_categories,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        dtype=np.float32,
    )
    return ColumnTransformer(
        [
            ("numeric", numeric, [c for c, kind in kinds.items() if kind == "numeric"]),
            ("text", text, [c for c, kind in kinds.items() if kind == "text"]),
        ],
        sparse_threshold=0,
        verbose_feature_names_out=False,
    )


def _as_frame(X: Any, expected: dict[Any, str] | None = None) -> tuple[Any, dict[Any, str]]:
    """Return a DataFrame of float and text columns, and the kind of each; all-missing columns are of any kind."""
    import pandas as pd

    frame = X if hasattr(X, "columns") else pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    if not hasattr(X, "columns") and X.dtype == object:
        frame = frame.infer_objects()
    frame = frame.set_axis([str(c) for c in frame.columns], axis=1)
    all_numeric = expected is None or "text" not in expected.values()
    if all_numeric and all(isinstance(t, np.dtype) and t.kind in "iuf" for t in frame.dtypes):
        # Always float64: else one private cell could change the precision of everyone's encoding.
        return frame.astype(np.float64), dict.fromkeys(
            frame.columns, "numeric"
        )  # hundreds of pixels: nothing to do column by column
    kinds: dict[Any, str] = {}
    columns: dict[Any, Any] = {}
    odd: list[str] = []
    for name in frame.columns:
        column, kind = frame[name], column_kind(name, frame[name])
        if expected is not None and kind != expected[name] and column.isna().all():
            kind = expected[name]
            column = pd.Series(np.full(len(column), np.nan), index=frame.index)
        if expected is not None and (kind, expected[name]) == ("text", "numeric"):
            numbers, n_odd = numbers_in(column)
            if numbers.notna().any():  # odd cells are missing; a column without any number is another column
                kind, column = "numeric", numbers
                odd += [odd_cells(name, numbers, n_odd)] if n_odd else []
        columns[name] = as_float(column) if kind == "numeric" else as_text(column)
        kinds[name] = kind
    if odd:
        warn_curator("X", odd)
    return pd.DataFrame(columns, index=frame.index), kinds


def encode_dataset(data: Dataset) -> Dataset:
    """Return the data set with its tables as numbers, by what its public rows teach; images stay as they are.

    Examples
    --------
    >>> from pate import load_dataset
    >>> encode_dataset(load_dataset("digits")).private.X.dtype
    dtype('float32')
    """
    if data.kind != "table":
        return data
    encoder = TableEncoder().fit(data.public.X)
    encoded = replace(
        data,
        private=replace(data.private, X=encoder.transform(data.private.X)),
        public=replace(data.public, X=encoder.transform(data.public.X)),
        test=replace(data.test, X=encoder.transform(data.test.X)),
    )
    return encoded.with_draw(Draw(_Encoded(data), data.redraws, data.published, data.n_pool, recoded=True))


@dataclass(frozen=True)
class _Encoded:
    """Another draw of a data set, encoded by its own public rows."""

    data: Dataset

    def __call__(self, random_state: int) -> Dataset:
        return encode_dataset(self.data.redrawn(random_state))
