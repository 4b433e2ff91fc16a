"""Learn from released labels and public rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

from pate._validation import check_int
from pate.exceptions import InvalidInputError, StudentWarning
from pate.students._spreading import VoteSpreading
from pate.votes import ABSTAIN

_SEMI_SUPERVISED = (LabelPropagation, LabelSpreading, SelfTrainingClassifier, VoteSpreading)


def uses_unlabelled(student: Any) -> bool:
    """Return whether the student learns from rows labelled ``ABSTAIN`` (-1) too.

    Examples
    --------
    >>> uses_unlabelled(LabelSpreading())
    True
    """
    last = student.steps[-1][1] if isinstance(student, Pipeline) else student
    return isinstance(last, _SEMI_SUPERVISED)


def fit_student(
    student: Any,
    X_public: Any,
    labels: Any,
    *,
    noisy_counts: Any = None,
    random_state: int | None = None,
) -> Any:
    """Return a clone of ``student`` trained on the released labels.

    Only public things go in, so the student, its predictions and its scores on public data are public too
    (post-processing).

    Parameters
    ----------
    student : scikit-learn classifier
        scikit-learn's semi-supervised estimators also get the rows without an answer, labelled -1.
    X_public : array or DataFrame of shape (n_rows, n_features)
    labels : int array of shape (n_rows,)
        Released class indices, ``ABSTAIN`` where there is none.
    noisy_counts : float array of shape (n_rows, n_classes) or None
        Released noisy counts, NaN rows where not asked; used by :class:`VoteSpreading`.
    random_state : int or None
        Given to every ``random_state`` parameter of the student.

    Returns
    -------
    fitted classifier
        A constant one, with a :class:`~pate.exceptions.StudentWarning`, when fewer than two classes were answered.

    Raises
    ------
    InvalidInputError
        Lengths differ.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> fit_student(LogisticRegression(), [[0.0], [1.0], [2.0]], [0, 1, -1]).predict([[3.0]])
    array([1])
    """
    labels = np.asarray(labels)
    n_rows = np.shape(X_public)[0]
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            f"labels must have one entry per public row, got shape {labels.shape} for {n_rows} rows. "
            "Select the same rows of X_public that were asked about."
        )
    answered = np.flatnonzero(labels != ABSTAIN)
    seen = np.unique(labels[answered])
    model = clone(student)
    if random_state is not None:
        random_state = check_int("random_state", random_state, low=0)
        names = [n for n in model.get_params(deep=True) if n == "random_state" or n.endswith("__random_state")]
        model.set_params(**dict.fromkeys(names, random_state))
    if len(seen) < 2:
        what = "no label was released" if not len(seen) else "all released labels are of one class"
        warnings.warn(
            f"{what}: the student is a constant. Ask more queries, use more teachers or a larger budget.",
            StudentWarning,
            stacklevel=3,
        )
        constant = int(seen[0]) if len(seen) else 0
        return DummyClassifier(strategy="constant", constant=constant).fit(np.zeros((1, 1)), [constant])
    with warnings.catch_warnings():
        # A few noisy labels rarely bring a network to rest; nobody can act on being told.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if isinstance(model, VoteSpreading):
            return model.fit(X_public, labels, noisy_counts=noisy_counts)
        if uses_unlabelled(model):
            return model.fit(X_public, labels)
        rows = X_public.iloc[answered] if hasattr(X_public, "iloc") else np.asarray(X_public)[answered]
        return model.fit(rows, labels[answered])
