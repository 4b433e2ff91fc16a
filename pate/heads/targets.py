"""Soft targets for any scikit-learn classifier: what a head says of public rows, and how surely."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from pate.core.checks import check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.heads._linear import Head


def noise_aware_targets(head: Head, phi_public: Any) -> tuple[FloatArray, FloatArray]:
    """Return what a student is to learn: probabilities of the public rows, and what each row weighs.

    The probabilities are calibrated under the noise (a head that knows little is little sure), so they carry it: a row
    of which nothing is known has 1/m for every class. Its weight is 1 - entropy / log m, scaled to a mean of 1: a
    student learns first from rows that are known.

    Parameters
    ----------
    head : Head
        Fitted.
    phi_public : array of shape (n_public, n_components)

    Returns
    -------
    targets : float64 array of shape (n_public, n_classes)
    weights : float64 array of shape (n_public,)

    Examples
    --------
    >>> from pate.heads import LinearHead
    >>> targets, weights = noise_aware_targets(LinearHead.of([[0.0, 3.0]], (0, 1)), [[0.0], [1.0]])
    >>> targets.round(2).tolist(), weights.round(2).tolist()
    ([[0.5, 0.5], [0.05, 0.95]], [0.0, 2.0])
    """
    p = head.predict_proba(phi_public)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
    weights = np.maximum(1 - entropy / np.log(p.shape[1]), 0)
    mean = weights.mean() if len(weights) else 0.0
    return p, weights / mean if mean > 0 else np.ones(len(p))


class TargetsStudent(ClassifierMixin, BaseEstimator):
    """Any scikit-learn classifier that takes ``sample_weight``, trained on soft targets.

    Every row stands there once for every class, weighed by that class's probability: the classifier's loss is then the
    cross-entropy to the soft targets. Classes under ``least`` are left out of a row.

    Parameters
    ----------
    estimator : scikit-learn classifier
    least : float
        In [0, 1): 0 keeps all that is not exactly 0.

    Attributes
    ----------
    estimator_ : the fitted clone
    classes_ : int64 array of shape (n_classes,)
        All class indices, also those that no row was given.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> student = TargetsStudent(DecisionTreeClassifier()).fit([[0], [1]], [[0.7, 0.3], [0.2, 0.8]])
    >>> student.predict_proba([[0], [1]]).round(1).tolist(), student.predict([[1]]).tolist()
    ([[0.7, 0.3], [0.2, 0.8]], [1])
    """

    def __init__(self, estimator: Any, *, least: float = 0.001) -> None:
        self.estimator = estimator
        self.least = least

    def fit(self, X: Any, targets: Any, weights: Any = None) -> Self:
        """Fit a clone of the estimator.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Public rows, in any form that the estimator takes.
        targets : float array of shape (n_rows, n_classes)
        weights : float array of shape (n_rows,) or None

        Raises
        ------
        InvalidInputError
            Shapes that do not belong together, targets that are no probabilities, or an estimator without weights.
        """
        least = check_real("least", self.least, low=0, high=1, high_open=True)
        rows = X if hasattr(X, "iloc") else np.asarray(X)
        soft = np.asarray(targets, dtype=np.float64)
        if soft.ndim != 2 or len(soft) != len(rows) or soft.shape[1] < 2 or not len(rows):
            raise InvalidInputError(f"targets must have shape ({len(rows)}, n_classes), got {soft.shape}.")
        if not (np.isfinite(soft).all() and (soft >= 0).all() and np.allclose(soft.sum(axis=1), 1, atol=1e-6)):
            raise InvalidInputError("targets must be probabilities: every row >= 0 and of sum 1.")
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise InvalidInputError(
                f"estimator must take sample_weight, got {self.estimator!r}. Use boosted trees or a forest."
            )
        weight = np.ones(len(soft)) if weights is None else np.asarray(weights, dtype=np.float64)
        if weight.shape != (len(soft),) or not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
            raise InvalidInputError(f"weights must be {len(soft)} finite numbers >= 0, not all of them 0.")
        share = soft * weight[:, None]
        row, label = np.nonzero((soft > least) & (share > 0))
        taken = rows.iloc[row] if hasattr(rows, "iloc") else rows[row]
        self.estimator_ = clone(self.estimator).fit(taken, label, sample_weight=share[row, label])
        self.classes_: npt.NDArray[np.int64] = np.arange(soft.shape[1])
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        check_is_fitted(self, "estimator_")
        found = self.estimator_.predict_proba(X)
        p = np.zeros((len(found), len(self.classes_)))
        p[:, self.estimator_.classes_] = found
        return p

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return class indices of shape (n_rows,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)
