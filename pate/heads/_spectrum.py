"""The public covariance, cut into folds, and Stein's risk of a shrunk least-squares head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pate.core.types import FloatArray, IndexArray
from pate.heads._moments import Moments

#: Eigenvalues under this share of the largest are directions that public rows do not have.
_RELATIVE_ZERO = 1e-10


def eigen(phi: FloatArray, weights: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues (largest first, positive ones only) and eigenvectors of the rows' second moment.

    Parameters
    ----------
    phi : array of shape (n_rows, n_components)
    weights : array of shape (n_rows,) or None

    Returns
    -------
    values : float64 array of shape (rank,)
    vectors : float64 array of shape (n_components, rank)
    """
    weighted = phi if weights is None else phi * weights[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ phi / len(phi))
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > max(_RELATIVE_ZERO * values[0], np.finfo(np.float64).tiny)
    return values[kept], vectors[:, kept]


def fold_rows(n_rows: int, n_folds: int) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Yield (rows to learn from, rows held out), the same at every call."""
    order = np.random.default_rng(0).permutation(n_rows)  # public rows may come sorted
    parts = np.array_split(order, n_folds)
    for i, held in enumerate(parts):
        yield np.concatenate([p for j, p in enumerate(parts) if j != i]), held


@dataclass(frozen=True)
class Fold:
    """One fold: directions from some public rows, the risk's quadratic part from the others.

    Attributes
    ----------
    values, vectors : the spectrum of the rows to learn from
    projected : array of shape (rank, n_classes)
        The released moments in those directions.
    noise : array of shape (rank,)
        What noise, and the draw of the records, add to the expected square of a row of ``projected``.
    quadratic : array of shape (rank, rank)
        E |W^T phi|^2 over the rows held out is f^T quadratic f.
    held : array of row positions
    """

    values: FloatArray
    vectors: FloatArray
    projected: FloatArray
    noise: FloatArray
    quadratic: FloatArray
    held: IndexArray

    @property
    def gain(self) -> FloatArray:
        """An unbiased estimate of |u^T M|^2 for every direction u."""
        return np.asarray((self.projected**2).sum(axis=1) - self.noise)

    def risk(self, factors: FloatArray) -> float:
        """Stein's estimate of E |W^T phi - c_y|^2 - E |c_y|^2 for W = U factors U^T mean."""
        return float(factors @ self.quadratic @ factors - 2 * factors @ self.gain)

    def doubt(self, factors: FloatArray) -> float:
        """Return the variance, by noise, of the estimate f^T gain of <W, M>: it misses by sum f (<b, noise> - v)."""
        m = self.projected.shape[1]
        return float(factors**2 @ (self.noise * (self.projected**2).sum(axis=1))) / (m - 1)


def folds(
    moments: Moments, n_folds: int, *, spread: FloatArray | None = None, weights: FloatArray | None = None
) -> list[Fold]:
    """Cut the public rows and prepare Stein's risk on each part.

    Parameters
    ----------
    moments : Moments
    n_folds : int
        1: the same rows serve for both.
    spread : float64 array of shape (n_public,) or None
        E |r|^2 of what stands beside phi in a ballot, for every public row; 1 - 1/m where None.
    weights : float64 array of shape (n_public,) or None
        Curvature of the loss at every public row; 1 where None.
    """
    phi, m = moments.phi, moments.n_classes
    spread = np.full(len(phi), 1 - 1 / m) if spread is None else spread
    weights = np.ones(len(phi)) if weights is None else weights
    everyone: IndexArray = np.arange(len(phi))
    cut = fold_rows(len(phi), n_folds) if n_folds > 1 else iter([(everyone, everyone)])
    found = []
    for kept, held in cut:
        values, vectors = eigen(phi[kept], weights[kept])
        projected = vectors.T @ moments.mean
        seen = phi[held] @ vectors
        # The records are a sample: a row of the mean varies by E[(u^T phi)^2 |r|^2] / n about that of everybody.
        draw = (spread[held, None] * seen**2).mean(axis=0) / moments.n_units
        quadratic = (projected @ projected.T) * ((weights[held, None] * seen).T @ seen / len(held))
        found.append(Fold(values, vectors, projected, moments.row_noise + draw, quadratic, held))
    return found
