"""A student for noisy vote counts, which averages the noise over similar public rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix, diags, identity
from scipy.sparse.linalg import splu
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils.validation import check_is_fitted, validate_data

from pate._core.checks import check_int, check_labels, check_real
from pate._core.scale import column_scales
from pate.data import is_frame, read_numbers
from pate.exceptions import InvalidInputError
from pate.votes import ABSTAIN


@dataclass(repr=False, eq=False)
class VoteSpreading(ClassifierMixin, BaseEstimator):
    """A student that averages noisy vote counts over similar public rows, then classifies by the nearest of them.

    The local and global consistency method of Zhou et al. 2004, with released noisy counts in place of one-hot labels:
    F = (I - alpha S)^-1 Y on the symmetric k-nearest-neighbour graph. A close vote has little weight, and the noise of
    neighbouring answers averages out, so that no answer has to be dropped for a small gap. All of this is
    post-processing of released counts.

    Parameters
    ----------
    n_neighbors : int
        Neighbours of each public row in the graph.
    alpha : float
        In (0, 1): how far answers spread.
    n_votes : int
        New rows get the majority class of so many nearest public rows.
    scale : bool
        Divide columns by their standard deviation among the public rows, where they are of different units (0/1
        columns stay).

    Attributes
    ----------
    classes_ : int64 array
        The class indices given to public rows.
    transduction_ : int64 array of shape (n_rows,)
        The class given to every public row.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> student = VoteSpreading(n_neighbors=2, n_votes=1).fit(
    ...     X, np.array([0, -1, -1, -1, -1, 1])
    ... )
    >>> student.transduction_
    array([0, 0, 0, 1, 1, 1])
    """

    _: KW_ONLY
    n_neighbors: int = 7
    alpha: float = 0.8
    n_votes: int = 5
    scale: bool = False

    def fit(self, X: Any, y: Any, noisy_counts: npt.NDArray[np.float64] | None = None) -> Self:
        """Spread the answers.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Public rows.
        y : int array of shape (n_rows,)
            Released class indices, ``ABSTAIN`` (-1) where there is none; used where ``noisy_counts`` is not given.
        noisy_counts : float array of shape (n_rows, n_classes) or None
            Released noisy counts, NaN rows where not asked.

        Raises
        ------
        InvalidInputError
            Rows that are no numbers, labels or counts of wrong lengths or types, or no label at all.
        """
        rows = self._rows(X, reset=True)
        k = check_int("n_neighbors", self.n_neighbors, low=1)
        check_int("n_votes", self.n_votes, low=1)
        alpha = check_real("alpha", self.alpha, low=0, high=1, low_open=True, high_open=True)
        n_rows = len(rows)
        self._scales = column_scales(rows) if self.scale else np.ones(rows.shape[1])
        rows = rows / self._scales
        evidence = _evidence(y, noisy_counts, n_rows)
        if not evidence.any():
            raise InvalidInputError("y must hold at least one released label, got none. Ask about more public rows.")
        self.transduction_ = spread(rows, evidence, k, alpha).argmax(axis=1)
        self.classes_ = np.unique(self.transduction_)
        self._nearest = KNeighborsClassifier(min(self.n_votes, n_rows)).fit(rows, self.transduction_)
        return self

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the class indices of rows, shape (n_rows,)."""
        check_is_fitted(self, "transduction_")
        return np.asarray(self._nearest.predict(self._rows(X, reset=False) / self._scales))

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the share of the nearest public rows by class, shape (n_rows, len(classes_))."""
        check_is_fitted(self, "transduction_")
        return np.asarray(self._nearest.predict_proba(self._rows(X, reset=False) / self._scales))

    def _rows(self, X: Any, *, reset: bool) -> npt.NDArray[np.float64]:
        rows = read_numbers(X, user="VoteSpreading").astype(np.float64, copy=False)
        if rows.ndim != 2:
            raise InvalidInputError(
                f"X must have shape (n_rows, n_features), got {rows.shape}. X.reshape(len(X), -1) flattens images."
            )
        if reset and len(rows) < 2:
            raise InvalidInputError("X must have at least two rows, got n_samples=1: one has no neighbours.")
        validate_data(self, X if is_frame(X) else rows, reset=reset, skip_check_array=True)
        return rows


def spread(rows: npt.NDArray[Any], evidence: npt.NDArray[Any], n_neighbors: int, alpha: float) -> npt.NDArray[Any]:
    """Return what reaches each row of its neighbours' evidence, shape (n_rows, n_classes) (Zhou et al. 2004).

    Shapes: ``rows`` (n_rows, n_features), ``evidence`` (n_rows, n_classes), zeros where there is none.
    """
    graph = kneighbors_graph(rows, min(n_neighbors, len(rows) - 1), mode="connectivity")
    graph = graph.maximum(graph.T)
    degree = np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()
    scale = diags(1 / np.sqrt(np.maximum(degree, 1.0)))
    system = csc_matrix(identity(len(rows)) - alpha * (scale @ graph @ scale))
    return np.asarray(splu(system).solve(evidence))


def released_labels(y: Any, n_rows: int) -> npt.NDArray[Any]:
    """Check released class indices, -1 where there is no answer, and return them, shape (n_rows,)."""
    labels = check_labels("y", y, n_rows)
    if labels.dtype.kind not in "iu" or (labels < ABSTAIN).any():
        raise InvalidInputError(
            "y must hold released class indices 0, 1, ..., and -1 where there is no answer, as whole numbers. "
            "release.labels has them; release.values() has the class values."
        )
    return labels


def _evidence(y: Any, noisy_counts: Any, n_rows: int) -> npt.NDArray[np.float64]:
    labels = released_labels(y, n_rows)
    if noisy_counts is None:
        table = np.zeros((n_rows, max(2, int(labels.max(initial=0)) + 1)))
        answered = np.flatnonzero(labels != ABSTAIN)
        table[answered, labels[answered]] = 1.0
        return table
    counts = read_numbers(noisy_counts, name="noisy_counts", user="VoteSpreading", missing=True)
    if counts.ndim != 2 or len(counts) != n_rows or counts.shape[1] < 2:
        raise InvalidInputError(
            f"noisy_counts must have shape ({n_rows}, n_classes), NaN where not asked, got {counts.shape}. They are "
            "release.noisy_counts, at the rows that were asked about."
        )
    # Centred: rows then do not depend on the number of teachers.
    centred = counts - counts.mean(axis=1, keepdims=True)
    return np.where(np.isnan(centred), 0.0, centred)


class LabelSpreads(LabelSpreading):
    """Label spreading with uniform probabilities for rows that no label reaches, where scikit-learn gives NaN."""

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of shape (n, n_classes)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            p = super().predict_proba(X)
        return np.where(np.isfinite(p), p, 1 / p.shape[1])
