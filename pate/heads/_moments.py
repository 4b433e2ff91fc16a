"""What a head is fitted on: the released moments of the records, and the public rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import brentq

from pate.core.checks import check_classes, check_int, check_real, shown
from pate.core.types import FloatArray, IndexArray, IntArray
from pate.exceptions import InvalidInputError


class ReleasedBallots(Protocol):
    """The public numbers of a ballot release that a head reads, and nothing else of it.

    Attributes
    ----------
    statistics : float64 array of shape (n_components, n_classes)
        The noisy sum of the ballots phi (x) (e_y - 1/m), its mean over the classes projected off.
    sigma : float
        Standard deviation of the noise in every cell, before that projection.
    n_units : int
        How many records or persons cast a ballot, a public number.
    classes : sequence
        Class values, in the order of the columns.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release: ReleasedBallots = SimpleNamespace(statistics=[[1.0, -1.0]], sigma=1.0, n_units=2, classes=(0, 1))
    >>> read_moments(release, [[1.0]]).n_classes
    2
    """

    @property
    def statistics(self) -> FloatArray: ...
    @property
    def sigma(self) -> float: ...
    @property
    def n_units(self) -> int: ...
    @property
    def classes(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Moments:
    """Checked numbers of a release, per ballot: ``mean`` is M + noise of ``noise`` a cell, with M = E[phi (e_y - 1/m)].

    ``mean`` (n_components, n_classes) has rows that sum to 0, ``noise`` is before that projection; ``phi`` (n_public,
    n_components); ``kind`` is "soft", "hard", "signed" or "residual", "" where it is not told.
    """

    mean: FloatArray
    noise: float
    n_units: int
    classes: tuple[Any, ...]
    phi: FloatArray
    kind: str

    @property
    def n_classes(self) -> int:
        """Columns of ``mean``."""
        return len(self.classes)


def public_rows(phi: Any, n_components: int, *, name: str = "phi_public", least: int = 1) -> FloatArray:
    """Return public rows as a float64 array of shape (n_rows, n_components)."""
    rows = np.asarray(phi)
    if rows.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must hold numbers, got {shown(phi)} of {rows.dtype}. Transform the rows first."
        )
    if rows.ndim != 2 or rows.shape[1] != n_components or rows.shape[0] < least:
        raise InvalidInputError(
            f"{name} must have shape (n_rows, {n_components}), as the ballots have, got {rows.shape}. "
            "Transform the public rows by the space that the ballots were cast in."
        )
    rows = rows.astype(np.float64, copy=False)
    if not np.isfinite(rows).all():
        raise InvalidInputError(f"{name} holds NaN or infinity. A ballot space gives finite rows: transform by it.")
    return rows


def read_moments(release: ReleasedBallots, phi_public: Any) -> Moments:
    """Check what was released against the public rows.

    Shapes: ``phi_public`` (n_public, n_components).
    """
    missing = [name for name in ("statistics", "sigma", "n_units", "classes") if not hasattr(release, name)]
    if missing:
        raise InvalidInputError(
            f"release must be a BallotRelease, got {shown(release)} without {', '.join(missing)}. "
            "Pass what release_ballots returned: a head is fitted on public numbers only."
        )
    classes = check_classes(release.classes)
    sums = np.asarray(release.statistics, dtype=np.float64)
    if sums.ndim != 2 or sums.shape[1] != len(classes) or not len(sums) or not np.isfinite(sums).all():
        raise InvalidInputError(
            f"release.statistics must be finite, of shape (n_components, {len(classes)}), got {sums.shape}."
        )
    n_units = check_int("release.n_units", release.n_units, low=1)
    sigma = check_real("release.sigma", release.sigma, low=0)
    phi = public_rows(phi_public, len(sums))
    mean = (sums - sums.mean(axis=1, keepdims=True)) / n_units
    return Moments(mean, sigma / n_units, n_units, classes, phi, str(getattr(release, "kind", "")))


def log_sum_exp(logits: FloatArray) -> FloatArray:
    """Return log sum exp of every row."""
    top = logits.max(axis=1)
    return np.asarray(top + np.log(np.exp(logits - top[:, None]).sum(axis=1)))


def clip_of(release: ReleasedBallots) -> float:
    """Return to which norm the residual ballots of a release were clipped; refuse class ballots."""
    clip = getattr(release, "clip", None)
    if clip is None:
        raise InvalidInputError("release must be of residual ballots (voters.cast_residuals), got class ballots.")
    return float(clip)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the probabilities of every row."""
    # Row after row in memory: then a row's sum is added in one order, whatever layout it came in.
    odds = np.exp(np.ascontiguousarray(logits - logits.max(axis=1, keepdims=True)))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def as_sure(scores: FloatArray, wanted: float, said: IntArray | None = None) -> float:
    """Return t such that softmax(t scores) has its largest entry at ``wanted`` on average, as near as can be.

    Shapes: ``scores`` (n_rows, n_classes), ``said`` (n_rows,).
    """
    at = scores.argmax(axis=1) if said is None else said
    rows = np.arange(len(scores))

    def gap(log_t: float) -> float:
        return float(softmax(float(np.exp(log_t)) * scores)[rows, at].mean()) - wanted

    low, high = -7.0, 7.0
    if gap(low) >= 0:
        return float(np.exp(low))
    if gap(high) <= 0:
        return float(np.exp(high))
    return float(np.exp(brentq(gap, low, high, xtol=1e-6)))


# The public covariance, cut into folds, and Stein's risk of a shrunk least-squares head.

#: Eigenvalues under this share of the largest are directions that public rows do not have.
_RELATIVE_ZERO = 1e-10


def eigen(phi: FloatArray, weights: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues (largest first, positive ones only) and eigenvectors of the rows' second moment.

    Shapes: ``phi`` (n_rows, n_components), ``weights`` (n_rows,), ``values`` (rank,), ``vectors`` (n_components,
    rank).
    """
    weighted = phi if weights is None else phi * weights[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ phi / len(phi))
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > max(_RELATIVE_ZERO * values[0], np.finfo(np.float64).tiny)
    return values[kept], vectors[:, kept]


@dataclass(frozen=True)
class Fold:
    """One fold: directions from some public rows, the risk's quadratic part from the others.

    ``projected`` (rank, n_classes) are the released moments in those directions, ``noise`` (rank,) what noise and the
    draw of the records add to the expected square of its rows; E |W^T phi|^2 over the rows held out is f^T quadratic f.
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

    Shapes: ``spread`` (n_public,), ``weights`` (n_public,).
    """
    phi, m = moments.phi, moments.n_classes
    spread = np.full(len(phi), 1 - 1 / m) if spread is None else spread
    weights = np.ones(len(phi)) if weights is None else weights
    everyone: IndexArray = np.arange(len(phi))
    cut = [(everyone, everyone)]
    if n_folds > 1:
        pieces = np.array_split(np.random.default_rng(0).permutation(len(phi)), n_folds)  # they may come sorted
        cut = [(np.concatenate([p for j, p in enumerate(pieces) if j != i]), held) for i, held in enumerate(pieces)]
    found = []
    for kept, held in cut:
        values, vectors = eigen(phi[kept], weights[kept])
        projected = vectors.T @ moments.mean
        seen = phi[held] @ vectors
        # The records are a sample: a row of the mean varies by E[(u^T phi)^2 |r|^2] / n about that of everybody.
        draw = (spread[held, None] * seen**2).mean(axis=0) / moments.n_units
        quadratic = (projected @ projected.T) * ((weights[held, None] * seen).T @ seen / len(held))
        # Noise leaves m - 1 of the m dimensions of a row of the mean.
        noise = (m - 1) * moments.noise**2 + draw
        found.append(Fold(values, vectors, projected, noise, quadratic, held))
    return found
