"""Teachers by name, for the command line: sensible on shards of a few hundred rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pate._validation import check_choice


def _hist_gradient_boosting() -> HistGradientBoostingClassifier:
    # Small leaves and no early stopping: a shard is too small to hold out part of it.
    return HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, min_samples_leaf=5, early_stopping=False)


_TEACHERS: dict[str, Callable[[], Any]] = {
    "decision-tree": DecisionTreeClassifier,
    "hist-gradient-boosting": _hist_gradient_boosting,
    "knn": lambda: KNeighborsClassifier(n_neighbors=3, weights="distance"),
    "logistic-regression": lambda: LogisticRegression(max_iter=200),
    "mlp": lambda: MLPClassifier((64,), alpha=1e-2, batch_size=32, max_iter=60),
    # Pixels that never change have variance 0: without smoothing they decide every vote.
    "naive-bayes": lambda: GaussianNB(var_smoothing=1e-1),
    "random-forest": lambda: RandomForestClassifier(n_estimators=100),
    "svm": lambda: SVC(C=10.0),
}


def named_teachers() -> tuple[str, ...]:
    """Return the names that :func:`make_teacher` knows.

    Examples
    --------
    >>> "random-forest" in named_teachers()
    True
    """
    return tuple(_TEACHERS)


def make_teacher(name: Any) -> BaseEstimator:
    """Return an unfitted classifier by name (change it further with ``set_params``); a classifier is returned as it is.

    The columns are expected to be numbers of similar scale (pixels in [0, 1], or standardised with public numbers).

    Parameters
    ----------
    name : str or classifier
        One of :func:`named_teachers`. Never an import path: a name from a command line must not run code.

    Raises
    ------
    InvalidInputError
        The name is not known.

    Examples
    --------
    >>> make_teacher("svm")
    SVC(C=10.0)
    >>> make_teacher("oracle")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: teacher must be one of 'decision-tree', ..., 'svm', got 'oracle'. ...
    """
    if not isinstance(name, str) and hasattr(name, "fit"):
        return name
    known = check_choice("teacher", name, _TEACHERS, remedy="For anything else use TeacherEnsemble(estimator, ...).")
    return _TEACHERS[known]()
