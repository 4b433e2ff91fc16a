"""Records as DP-SGD takes them: float32 rows of any shape and class indices, refused in words that quote no cell."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from pate._validation import check_classes, encode_labels
from pate.exceptions import InvalidInputError, PrivacyLeakWarning

#: What scikit-learn says without quoting a cell: shapes, kinds and names of columns.
_SAFE = re.compile(
    r"(Input [Xy] contains (NaN|infinity or a value too large for dtype\('float32'\))"
    r"|Found array with [^.]*"
    r"|Complex data not supported"
    r"|Sparse data was passed[^.]*"
    r"|X has \d+ features?, but \w+ is expecting \d+ features as input"
    r"|The feature names should match those that were passed during fit"
    r"|y should be a 1d array, got an array of shape \([\d, ]*\) instead"
    r"|Unknown label type: (continuous|continuous-multioutput|multiclass-multioutput|multilabel-indicator|unknown)\b"
    r"|X and y must have as many rows[^.]*\. Pass one class per row)"
)


def read_records(
    estimator: Any, X: Any, y: Any, classes: Any
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], tuple[Any, ...]]:
    """Return private rows of shape (n, ...), class indices and the classes; sets ``n_features_in_``.

    Raises
    ------
    InvalidInputError
        They cannot be used. No text quotes a value, and the exception keeps none behind it.
    """
    if y is None:
        raise InvalidInputError(
            "DPSGDClassifier requires y to be passed, but the target y is None. Pass one class per row."
        )
    features = read_rows(estimator, X, reset=True)
    problem: InvalidInputError | None = None
    found: Any = None
    try:
        target = column_or_1d(y, warn=True)
        check_classification_targets(target)
        if len(target) != len(features):
            raise ValueError(
                f"X and y must have as many rows, got {len(features)} and {len(target)}. Pass one class per row."
            )
        found = np.unique(target) if classes is None else None
    except (ValueError, TypeError) as error:
        problem = _refusal("y", error)
    if problem is not None:
        raise problem
    if classes is None:
        warnings.warn(
            "classes=None: the set of classes is read off the private labels and becomes public with the "
            "model. Pass classes=, the list of every class that could occur.",
            PrivacyLeakWarning,
            stacklevel=4,
        )
        classes = found
        if len(classes) < 2:
            raise InvalidInputError("y holds 1 class: there is nothing to tell apart. Pass classes=.")
    values = check_classes(classes)
    return features, encode_labels("y", target, values), values


def read_rows(estimator: Any, X: Any, *, reset: bool) -> npt.NDArray[np.float32]:
    """Return rows of shape (n, ...): of the shape of the first when not ``reset``.

    Raises
    ------
    InvalidInputError
    """
    array = X if isinstance(X, np.ndarray) else None
    shape = () if array is None or array.ndim < 3 else tuple(array.shape[1:])
    if not reset and array is not None and array.ndim >= 3 and shape != estimator._row_shape:
        raise InvalidInputError(
            f"X must have rows of shape {estimator._row_shape}, as in fit, got {shape}. Public and private rows need "
            "the same features in the same order."
        )
    if shape and array is not None and math.prod(array.shape):
        X = array.reshape(len(array), -1)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
            rows = validate_data(estimator, X, dtype=np.float32, reset=reset)
    except (ValueError, TypeError) as error:
        problem = _refusal("X", error)
    else:
        if reset:
            estimator._row_shape = shape or tuple(rows.shape[1:])
        return rows.reshape(len(rows), *estimator._row_shape)
    raise problem


def _refusal(name: str, error: Exception) -> InvalidInputError:
    """Return the error to raise outside the handler: an exception that hangs on it would be printed with its values."""
    said = str(error)
    if "Reshape your data" in said:
        return InvalidInputError(
            f"{name} must be a table of shape (n, n_features). Reshape your data: X.reshape(-1, 1) makes a row of each "
            "number, X.reshape(1, -1) one row of all."
        )
    found = _SAFE.match(said)
    if found:
        return InvalidInputError(f"{found.group(0)}.")
    return InvalidInputError(
        f"{name} could not be read ({type(error).__name__}): it must hold finite real numbers or, for y, one class per "
        "row. Texts and categories become numbers by pate.TableEncoder, which learns from public rows alone. What was "
        "said is not shown: it may quote private values."
    )
