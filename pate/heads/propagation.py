"""Label propagation: public rows that resemble one another are of one class, more likely than not."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import cg
from sklearn.neighbors import NearestNeighbors

from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray
from pate.heads._linear import Head
from pate.heads._moments import ReleasedBallots, public_rows, softmax
from pate.heads.least_squares import LeastSquaresHead

_FLOOR = 1e-6


class LabelPropagationHead(Head):
    """Probabilities of a least-squares head, smoothed over the nearest-neighbour graph of the public rows.

    Minimises sum_i |F_i - p_i|^2 + strength sum_ij w_ij |F_i - F_j|^2 / 2 over the public rows (the Gaussian fields of
    Zhu, Ghahramani & Lafferty, "Semi-Supervised Learning Using Gaussian Fields and Harmonic Functions", 2003, with a
    prior in place of labels); w is the graph of nearest neighbours by angle, made symmetric, of which a row's edges
    weigh about 1. A row that comes later joins its nearest public rows and takes the minimiser with those held fixed:
    its answer hangs on no other row.

    Post-processing, and free: Dwork & Roth (2014), Proposition 2.1.

    Parameters
    ----------
    n_neighbors : int
    strength : float
        How much the neighbours' answer counts beside a row's own.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)
        Of the least-squares head.
    rows_ : float32 array of shape (n_public, n_components)
        Public rows, scaled to norm 1.
    smoothed_ : float64 array of shape (n_public, n_classes)
        F: the public rows' probabilities.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release = SimpleNamespace(statistics=[[30.0, -30.0], [-20.0, 20.0]], sigma=2.0, n_units=100, classes=(0, 1))
    >>> rows = np.repeat([[1.0, 0.1], [0.1, 1.0]], 4, axis=0)
    >>> LabelPropagationHead(n_neighbors=2).fit(release, rows).predict(rows)
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """

    _arrays: ClassVar[tuple[str, ...]] = ("coef_", "rows_", "smoothed_")
    _scalars: ClassVar[tuple[str, ...]] = ("risk_", "lambda_")

    coef_: FloatArray
    smoothed_: FloatArray
    risk_: float | None
    lambda_: float | None

    def __init__(self, *, n_neighbors: int = 10, strength: float = 2.0) -> None:
        self.n_neighbors = n_neighbors
        self.strength = strength

    @property
    def n_components_(self) -> int:  # type: ignore[override]
        """Columns of the ballot space."""
        return len(self.coef_)

    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Fit the least-squares head, and smooth its probabilities over the public rows.

        Parameters
        ----------
        release : BallotRelease
        phi_public : array of shape (n_public, n_components)

        Raises
        ------
        InvalidInputError
            They do not belong together, or a setting is out of range.
        """
        k = check_int("n_neighbors", self.n_neighbors, low=1)
        strength = check_real("strength", self.strength, low=0)
        head = LeastSquaresHead().fit(release, phi_public)
        self.coef_, self.classes_, self.risk_, self.lambda_ = head.coef_, head.classes_, head.risk_, head.lambda_
        phi = public_rows(phi_public, len(head.coef_))
        prior, n = head.predict_proba(phi), len(phi)
        self.rows_ = _unit(phi)
        k = min(k, n - 1)
        if k == 0:
            self.smoothed_ = prior
            return self
        found = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(self.rows_).kneighbors(return_distance=False)
        ones = np.full(n * k, 0.5 / k)
        graph = csr_matrix((ones, (np.repeat(np.arange(n), k), found.ravel())), shape=(n, n))
        graph = graph + graph.T
        system = diags(1 + strength * np.asarray(graph.sum(axis=1)).ravel()) - strength * graph
        smoothed = [cg(system, prior[:, j], x0=prior[:, j], rtol=1e-6)[0] for j in range(prior.shape[1])]
        self.smoothed_ = np.stack(smoothed, axis=1)
        return self

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of shape (n_rows, n_classes).

        A row that is a public one is its own neighbour here, so its answer is near but not equal to ``smoothed_``.
        """
        rows = self._rows(phi)
        own = softmax(rows @ self.coef_)
        if not len(rows):
            return own
        k = min(self.n_neighbors, len(self.rows_))
        near = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(self.rows_)
        around = self.smoothed_[near.kneighbors(_unit(rows), return_distance=False)].mean(axis=1)
        joined = (own + self.strength * around) / (1 + self.strength)
        return np.asarray(np.log(np.maximum(joined, _FLOOR)))


def _unit(rows: FloatArray) -> Any:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
