"""Classifiers that want their classes numbered without gaps, where some class is missing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if


def _estimator_can(name: str) -> Any:
    return available_if(lambda self: hasattr(self.estimator, name))


class OwnClasses(ClassifierMixin, BaseEstimator):
    """Fit a classifier on the ranks 0 .. k-1 of the classes that are there, and answer with the classes.

    XGBoost, for one, refuses classes {0, 2}. A ``class_weight`` that names classes, nested ones too, is renumbered.

    Parameters
    ----------
    estimator : classifier
        Fitted in place.

    Attributes
    ----------
    classes_ : array of shape (k,)
        The classes in ``y``, sorted.
    """

    classes_: npt.NDArray[Any]

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on ranks."""
        self.classes_, ranks = np.unique(y, return_inverse=True)
        weights = {
            name: {rank: value[c] for rank, c in enumerate(self.classes_.tolist()) if c in value}
            for name, value in self.estimator.get_params(deep=True).items()
            if (name == "class_weight" or name.endswith("__class_weight")) and isinstance(value, dict)
        }
        self.estimator.set_params(**weights).fit(X, ranks)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return classes, shape (n_rows,)."""
        ranks = np.asarray(self.estimator.predict(X)).reshape(-1)
        if (ranks != np.floor(ranks)).any() or ranks.min(initial=0) < 0 or ranks.max(initial=0) >= len(self.classes_):
            raise ValueError("predicted a class it was not trained on")
        return np.asarray(self.classes_[ranks.astype(np.int64)])

    @_estimator_can("predict_proba")
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return probabilities in the order of ``classes_``."""
        return np.asarray(self.estimator.predict_proba(X))


def has_gaps(classes: npt.NDArray[Any]) -> bool:
    """Whether sorted class indices are other than 0 .. k-1."""
    return bool((classes != np.arange(len(classes))).any())
