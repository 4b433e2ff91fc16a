"""Heads by least squares with a public covariance, a Newton step on residuals, and label propagation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import cg
from sklearn.neighbors import NearestNeighbors

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray, IndexArray
from pate.exceptions import InvalidInputError
from pate.models.heads._linear import (
    Head,
    LinearHead,
    Moments,
    ReleasedBallots,
    public_rows,
    read_moments,
    softmax,
)

# The public covariance by folds, and Stein's risk of a shrunk least-squares head.

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
    positive = values > max(_RELATIVE_ZERO * values[0], np.finfo(np.float64).tiny)
    return values[positive], vectors[:, positive]


@dataclass(frozen=True)
class Fold:
    """One fold: directions from some public rows, the risk's quadratic part from the others.

    ``projected`` (rank, n_classes) are the released moments in those directions, ``noise`` (rank,) the contribution of
    noise and sampling to the expected square of its rows; E |W^T phi|^2 over the rows held out is f^T quadratic f.
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
        """Return the variance by noise of the estimate f^T gain of <W, M>; its error is sum f (<b, noise> - v)."""
        m = self.projected.shape[1]
        return float(factors**2 @ (self.noise * (self.projected**2).sum(axis=1))) / (m - 1)


def folds(
    moments: Moments, n_folds: int, *, spread: FloatArray | None = None, weights: FloatArray | None = None
) -> list[Fold]:
    """Split the public rows into folds, and prepare Stein's risk on each.

    Shapes: ``spread`` (n_public,), ``weights`` (n_public,).
    """
    phi, m = moments.phi, moments.n_classes
    spread = np.full(len(phi), 1 - 1 / m) if spread is None else spread
    weights = np.ones(len(phi)) if weights is None else weights
    every: IndexArray = np.arange(len(phi))
    cut = [(every, every)]
    if n_folds > 1:
        pieces = np.array_split(np.random.default_rng(0).permutation(len(phi)), n_folds)  # they may come sorted
        cut = [(np.concatenate([p for j, p in enumerate(pieces) if j != i]), held) for i, held in enumerate(pieces)]
    found = []
    for used, held in cut:
        values, vectors = eigen(phi[used], weights[used])
        projected = vectors.T @ moments.mean
        seen = phi[held] @ vectors
        # The records are a sample: a row of their mean has variance E[(u^T phi)^2 |r|^2] / n about the population's.
        draw = (spread[held, None] * seen**2).mean(axis=0) / moments.n_units
        quadratic = (projected @ projected.T) * ((weights[held, None] * seen).T @ seen / len(held))
        # Noise leaves m - 1 of the m dimensions of a row of the mean.
        noise = (m - 1) * moments.noise**2 + draw
        found.append(Fold(values, vectors, projected, noise, quadratic, held))
    return found


#: Shapes of shrinkage that Stein's risk may choose among.
POWERS = (1.0, 1.5, 2.0, 3.0, 5.0)
#: lambda over the largest eigenvalue.
_LOG_LAMBDA = np.linspace(np.log(1e-7), np.log(1e6), 90)
#: Penalty per unit of explaining too much in the search for lambda.
_WALL = 1e3
#: Temperatures of least-squares scores lie about m + 4: between 4 and 5 for 2 classes and between 11 and 16 for 10.
_USUAL_EXCESS = 3.5
_USUAL_SPREAD = 0.35


def shapes(power: float | str | None, usual: float) -> tuple[float, ...]:
    """Return the powers to choose from."""
    if power is None:
        return (usual,)
    if power == "stein":
        return POWERS
    return (check_real("power", power, low=1, remedy="Or None, or 'stein'."),)


def shrunk(values: FloatArray, lam: float, power: float) -> FloatArray:
    """Return f = L^(power - 1) / (L^power + lambda^power), which for lambda = 0 is 1/L."""
    return np.asarray(1 / (values * (1 + (lam / values) ** power)))


def least_lambda(parts: list[Fold], powers: Iterable[float], most: float) -> tuple[float, float, float]:
    """Return (risk, lambda, power) where Stein's risk, the mean of the folds, is least.

    The quadratic part of the risk is at most ``most``, all that can be explained; with much noise Stein's risk,
    unbiased as it is, may exceed it by chance.
    """
    return min((*_least_lambda(parts, power, most), power) for power in powers)


def _least_lambda(parts: list[Fold], power: float, most: float) -> tuple[float, float]:
    top = max(part.values[0] for part in parts)

    def risk(log_lambda: float) -> float:
        factors = [shrunk(part.values, top * float(np.exp(log_lambda)), power) for part in parts]
        explained = np.mean([f @ part.quadratic @ f for part, f in zip(parts, factors, strict=True)])
        mean = float(np.mean([part.risk(f) for part, f in zip(parts, factors, strict=True)]))
        return mean + _WALL * max(float(explained) - most, 0.0)

    grid = [risk(x) for x in _LOG_LAMBDA]
    at = len(grid) - 1 - int(np.argmin(grid[::-1]))
    low, high = _LOG_LAMBDA[max(at - 1, 0)], _LOG_LAMBDA[min(at + 1, len(grid) - 1)]
    fine = minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    best = min((grid[at], _LOG_LAMBDA[at]), (float(fine.fun), float(fine.x)))
    return best[0], top * float(np.exp(best[1]))


def temperature(scores: FloatArray, agreement: float, doubt: float) -> float:
    """Return t that makes softmax(t scores) agree with the records as often as its own probabilities say.

    The moment logistic in one parameter: the optimum of E_pub log sum exp(t s) - t <W, M> has E_pub <p_t, s> = <W, M>,
    for centred scores s. Shrunk scores are of the size of what they predict, so that t has a prior: about m where
    noise is large, as probabilities are then 1/m + s/m t, and a few more where it is small. The result is the most
    likely t for this prior and an agreement with standard error ``doubt``.

    Shapes: ``scores`` (n_rows, n_classes).
    """
    centred = scores - scores.mean(axis=1, keepdims=True)
    best = centred.max(axis=1)
    doubt = float(np.sqrt(doubt**2 + best.var() / len(best)))
    usual = np.log(scores.shape[1] + _USUAL_EXCESS)

    def unlikely(log_t: float) -> float:
        p = softmax(np.exp(log_t) * centred)
        gap = float((p * centred).sum(axis=1).mean()) - agreement
        return (gap / doubt) ** 2 + ((log_t - usual) / _USUAL_SPREAD) ** 2

    if doubt == 0 and not best.any():
        return float(np.exp(usual))
    doubt = max(doubt, 1e-6 * float(best.max()))
    found = minimize_scalar(unlikely, bounds=(usual - 3, usual + 3), method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x))


class LeastSquaresHead(LinearHead):
    """Least squares with the covariance of public rows, shrunk by Stein's unbiased risk estimate, and calibrated.

    The weights are W = U f(L) U^T B/n, with the covariance U L U^T of public rows and the released sum B. If private
    and public rows are drawn alike, this is least squares of e_y - 1/m on phi in which only the cross moment is
    private. The shrinkage is chosen by an unbiased estimate of the risk E |W^T phi - c_y|^2 that needs the noisy
    moments and public numbers only (Stein, "Estimation of the Mean of a Multivariate Normal Distribution", Annals of
    Statistics 9, 1981): with u_j a public direction, e_j = |u_j^T B/n|^2 and v_j what noise (and the draw of the
    records) adds to its expectation, the risk is sum_j f_j^2 L_j e_j - 2 f_j (e_j - v_j) and a constant; the quadratic
    part is taken over public rows that u and L were not computed from. Logits are t W^T phi; t makes the probabilities
    agree with the records (:func:`temperature`).

    Rows that are not drawn alike (covariate shift) bias it. All of it is post-processing, and free: Dwork & Roth
    (2014), Proposition 2.1.

    Parameters
    ----------
    shrinkage : "stein" or float
        A number is lambda; 0 is least squares as it is.
    power : float, "stein" or None
        q in f = L^(q-1) / (L^q + lambda^q), at least 1: 1 is ridge regression, 2 the posterior mean under one prior for
        all coefficients, and higher powers cut off more sharply, for coefficients that are larger in directions of
        larger public variance. None is 2 for soft and hard ballots and 3 for others, which measured best; ``"stein"``
        chooses by the risk too, which does better for little noise and worse for much.
    n_folds : int
        Folds of public rows for the risk; with 1, none, the risk is underestimated where they are few.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)
        Weights of the logits: temperature times W.
    scale_ : float
        The temperature.
    lambda_, power_ : float
        As used.
    risk_ : float
        E |W^T phi - c_y|^2 - E |c_y|^2, estimated: 0 is no better than guessing, -(1 - 1/m) is perfect.
    n_effective_ : float
        sum of f_j L_j: the effective number of directions.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release = SimpleNamespace(
    ...     statistics=[[30.0, -30.0], [-20.0, 20.0]],
    ...     sigma=2.0,
    ...     n_units=100,
    ...     classes=(0, 1),
    ... )
    >>> head = LeastSquaresHead(n_folds=1).fit(release, [[1.0, 0.0], [0.0, 1.0]])
    >>> head.predict([[1.0, 0.0], [0.0, 1.0]])
    array([0, 1])
    """

    fitted_scalars: ClassVar[tuple[str, ...]] = ("risk_", "lambda_", "power_", "scale_", "n_effective_")

    power_: float
    scale_: float

    def __init__(self, *, shrinkage: str | float = "stein", power: float | str | None = None, n_folds: int = 5) -> None:
        self.shrinkage = shrinkage
        self.power = power
        self.n_folds = n_folds

    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Fit on a release and public rows ``phi_public`` of shape (n_public, n_components) in the ballots' space.

        Inputs that do not match, or a setting out of range, are an InvalidInputError.
        """
        moments = read_moments(release, phi_public)
        if isinstance(self.shrinkage, str) and self.shrinkage != "stein":
            raise InvalidInputError(f"shrinkage must be 'stein' or a number >= 0, got {self.shrinkage!r}.")
        parts = folds(moments, min(check_int("n_folds", self.n_folds, low=1), len(moments.phi)))
        powers = shapes(self.power, 2.0 if moments.kind in ("soft", "hard") else 3.0)
        if isinstance(self.shrinkage, str):
            most = 1 - 1 / moments.n_classes
            self.risk_, self.lambda_, self.power_ = least_lambda(parts, powers, most)
        else:
            lam = self.lambda_ = check_real("shrinkage", self.shrinkage, low=0)
            means = [float(np.mean([p.risk(shrunk(p.values, lam, q)) for p in parts])) for q in powers]
            self.risk_, self.power_ = min(zip(means, powers, strict=True))
        values, vectors = eigen(moments.phi)
        factors = shrunk(values, self.lambda_, self.power_)
        scores = vectors @ (factors[:, None] * (vectors.T @ moments.mean))
        self.scale_ = self._temperature(moments, parts)
        self.coef_, self.classes_ = self.scale_ * scores, moments.classes
        self.n_effective_ = float(factors @ values)
        return self

    def _temperature(self, moments: Moments, parts: list[Fold]) -> float:
        scores, agreement, doubt = np.empty((len(moments.phi), moments.n_classes)), 0.0, 0.0
        for part in parts:
            factors = shrunk(part.values, self.lambda_ or 0.0, self.power_)
            weights = part.vectors @ (factors[:, None] * part.projected)
            scores[part.held] = moments.phi[part.held] @ weights
            agreement += float(factors @ part.gain) / len(parts)
            doubt += part.doubt(factors) / len(parts)
        return temperature(scores, agreement, float(np.sqrt(doubt)))


# Residual rounds: records vote with their residuals, and public rows give the curvature of the step.

#: A step is at most so many times the Newton step.
_LONGEST = 1.5


def log_sum_exp(logits: FloatArray) -> FloatArray:
    """Return log sum exp of every row."""
    top = logits.max(axis=1)
    return np.asarray(top + np.log(np.exp(logits - top[:, None]).sum(axis=1)))


def residual_step(
    head: Head, release: ReleasedBallots, phi_public: Any, *, power: float | str | None = None, n_folds: int = 5
) -> LinearHead:
    """Return a better head by one Newton step on released sums of residuals, with the curvature of public rows.

    Every record voted with its residual under ``head``: phi(x) (x) clip_C(e_y - p(x)), a vector of norm <= C, so
    that replacing a record moves the sum by at most Delta = 2C (adding one by C), and noise of sigma costs mu =
    Delta/sigma. Rounds may be chosen by what earlier ones gave: Gaussian differential privacy composes adaptively, and
    mu^2 adds up (Dong, Roth & Su, "Gaussian Differential Privacy", JRSS B 84, 2022, Theorem 4 and Corollary 2). The
    step itself is post-processing, and free: Dwork & Roth (2014), Proposition 2.1.

    With G the mean of the released residuals the step is W + t D, D = U f(L) U^T G, with U L U^T the curvature of the
    logistic deviance over public rows: phi phi^T weighted by (1 - |p|^2)/(m - 1), the mean curvature of log sum exp.
    f shrinks as the least-squares head's does, by Stein's risk of the quadratic model; t in [0, 1.5] minimises the
    deviance along D, its log-partition over public rows, its label part by G less Stein's correction. No step explains
    more than the mean entropy of ``head``, so that a round of nothing but noise does bounded harm. Clipping leaves
    residuals below C as they are, and shortens the others.

    Parameters
    ----------
    head : Head
        The linear head under which the residuals were cast.
    release : BallotRelease
        Of residual ballots.
    phi_public : array of shape (n_public, n_components)
    power, n_folds
        As in :class:`LeastSquaresHead`.

    Returns
    -------
    LinearHead
        ``risk_`` is the estimated change of the deviance, at most 0.

    Raises
    ------
    InvalidInputError
        The head is not linear, or not of the release's space and classes.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> head = LinearHead.of([[0.0, 0.0]], (0, 1))
    >>> release = SimpleNamespace(
    ...     statistics=[[2500.0, -2500.0]], sigma=1.0, n_units=10000, classes=(0, 1)
    ... )
    >>> residual_step(head, release, [[1.0], [1.0]], n_folds=1).predict_proba(
    ...     [[1.0]]
    ... ).round(2)
    array([[0.75, 0.25]])
    """
    if not isinstance(head, LinearHead):
        raise InvalidInputError(f"head must be linear, got a {type(head).__name__}. Start from a LeastSquaresHead.")
    moments = read_moments(release, phi_public)
    if head.classes_ != moments.classes or head.coef_.shape != moments.mean.shape:
        raise InvalidInputError("head and release must have one space and the same classes in the same order.")
    phi, m = moments.phi, moments.n_classes
    p = head.predict_proba(phi)
    spread = 1 - (p**2).sum(axis=1)
    # The mean curvature of log sum exp over the m - 1 directions that it has; a floor, as sure rows have none.
    weights = np.maximum(spread, 1e-3) / (m - 1)
    parts = folds(moments, min(check_int("n_folds", n_folds, low=1), len(phi)), spread=spread, weights=weights)
    # A step cannot gain more than the deviance that there is: the mean entropy, as far as head is calibrated.
    most = 2 * float(-(p * np.log(np.maximum(p, 1e-300))).sum(axis=1).mean())
    _, lam, q = least_lambda(parts, shapes(power, 3.0), most)
    along, gain = np.empty((len(phi), m)), 0.0
    for part in parts:
        factors = shrunk(part.values, lam, q)
        along[part.held] = phi[part.held] @ (part.vectors @ (factors[:, None] * part.projected))
        gain += float(factors @ part.gain) / len(parts)
    # Agreement is at most that with the best class of every row.
    slope = gain + float((p * along).sum(axis=1).mean())
    slope = min(slope, float(along.max(axis=1).mean()))
    base = phi @ head.coef_

    def deviance(t: float) -> float:
        return float(log_sum_exp(base + t * along).mean()) - t * slope

    best: Any = minimize_scalar(deviance, bounds=(0, _LONGEST), method="bounded", options={"xatol": 1e-3})
    length, change = float(best.x), min(float(best.fun) - deviance(0.0), 0.0)
    values, vectors = eigen(phi, weights)
    factors = shrunk(values, lam, q)
    step = vectors @ (factors[:, None] * (vectors.T @ moments.mean))
    stepped = LinearHead.of(head.coef_ + length * step, moments.classes)
    stepped.risk_, stepped.lambda_, stepped.n_effective_ = change, lam, float(factors @ values)
    return stepped


# Label propagation: similar public rows are probably of one class.

_FLOOR = 1e-6


class LabelPropagationHead(Head):
    """A least-squares head whose probabilities are smoothed over the nearest-neighbour graph of the public rows.

    Minimises sum_i |F_i - p_i|^2 + strength sum_ij w_ij |F_i - F_j|^2 / 2 over the public rows (the Gaussian fields of
    Zhu, Ghahramani & Lafferty, "Semi-Supervised Learning Using Gaussian Fields and Harmonic Functions", 2003, with a
    prior in place of labels); w is the graph of nearest neighbours by angle, made symmetric, of which a row's edges
    weigh about 1. For a new row the minimiser is taken with its nearest public rows held fixed: its answer depends on
    no other row.

    Post-processing, and free: Dwork & Roth (2014), Proposition 2.1.

    Parameters
    ----------
    n_neighbors : int
    strength : float
        Weight of the neighbours' answer relative to a row's own.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)
        Of the least-squares head.
    rows_ : float32 array of shape (n_public, n_components)
        Public rows, scaled to norm 1.
    smoothed_ : float64 array of shape (n_public, n_classes)
        F: the public rows' smoothed probabilities.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release = SimpleNamespace(
    ...     statistics=[[30.0, -30.0], [-20.0, 20.0]],
    ...     sigma=2.0,
    ...     n_units=100,
    ...     classes=(0, 1),
    ... )
    >>> rows = np.repeat([[1.0, 0.1], [0.1, 1.0]], 4, axis=0)
    >>> LabelPropagationHead(n_neighbors=2).fit(release, rows).predict(rows)
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """

    fitted_arrays: ClassVar[tuple[str, ...]] = ("coef_", "rows_", "smoothed_")
    fitted_scalars: ClassVar[tuple[str, ...]] = ("risk_", "lambda_")

    coef_: FloatArray
    smoothed_: FloatArray
    risk_: float | None
    lambda_: float | None

    def __init__(self, *, n_neighbors: int = 10, strength: float = 2.0) -> None:
        self.n_neighbors = n_neighbors
        self.strength = strength

    @property
    def n_components_(self) -> int:  # type: ignore[override]
        """The number of components of the ballot space."""
        return len(self.coef_)

    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Fit a least-squares head on a release and public rows (n_public, n_components), and smooth its answers.

        Inputs that do not match, or a setting out of range, are an InvalidInputError.
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
