"""The moment logistic: label moments are private, the log-partition is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse.linalg import LinearOperator, cg

from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.heads._linear import LinearHead
from pate.heads._moments import Moments, ReleasedBallots, eigen, fold_rows, folds, log_sum_exp, read_moments, softmax
from pate.heads.least_squares import least_lambda

#: Random directions for the divergence in Stein's risk, the same at every penalty.
_PROBES = 3
#: How far around the least-squares head's penalty another is looked for.
_LOG_AROUND = 4.0
_ITERATIONS = 300


@dataclass(frozen=True)
class _Problem:
    """The moment logistic in whitened public directions: parameters A (rank, m), rows ``seen`` (n, rank).

    ``target`` is what noise and the draw of the records were added to, and ``spread`` (rank,) their standard deviation.
    """

    values: FloatArray
    vectors: FloatArray
    seen: FloatArray
    target: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, moments: Moments, rows: FloatArray) -> _Problem:
        values, vectors = eigen(rows)
        whiten = vectors / np.sqrt(values)
        m = moments.n_classes
        # In whitened directions phi has variance 1: a cell varies by about (1 - 1/m)/n over draws of the records.
        spread = np.sqrt(moments.noise**2 / values + 1 / (m * moments.n_units))
        return cls(values, vectors, rows @ whiten, whiten.T @ moments.mean, spread)

    def penalty(self, lam: float, power: float) -> FloatArray:
        """Return the penalty of every direction; at W = 0 a Newton step is then the least-squares head's."""
        return np.asarray((lam / self.values) ** power / self.target.shape[1])

    def solve(self, penalty: FloatArray, start: FloatArray | None = None) -> FloatArray:
        """Return the minimiser of E log sum exp(A^T z) - <A, target> + penalty |A|^2 / 2."""
        shape, n, m = self.target.shape, len(self.seen), self.target.shape[1]
        # Scaled so that the curvature is about 1 in every direction.
        scale = 1 / np.sqrt(1 / m + penalty)[:, None]

        def loss(flat: Any) -> tuple[float, Any]:
            a = flat.reshape(shape) * scale
            logits = self.seen @ a
            value = log_sum_exp(logits).mean() - (a * self.target).sum() + (penalty[:, None] * a**2).sum() / 2
            slope = self.seen.T @ softmax(logits) / n - self.target + penalty[:, None] * a
            slope = slope - slope.mean(axis=1, keepdims=True)
            return float(value), (slope * scale).ravel()

        first = np.zeros(shape) if start is None else start / scale
        options: Any = {"maxiter": _ITERATIONS, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-6}
        found: Any = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x.reshape(shape) * scale)

    def divergence(self, a: FloatArray, penalty: FloatArray) -> float:
        """Return E <A, noise>: the trace of noise covariance times dA/dtarget, the inverse curvature, by probes.

        Infinite where the curvature is too flat to be inverted: there the optimum hangs on noise alone.
        """
        n, shape = len(self.seen), self.target.shape
        p = softmax(self.seen @ a)
        curvature = float((p * (1 - p)).mean())

        def product(flat: FloatArray) -> FloatArray:
            v = flat.reshape(shape)
            along = p * (self.seen @ v)
            along -= p * along.sum(axis=1, keepdims=True)
            return np.asarray((self.seen.T @ along / n + penalty[:, None] * v).ravel())

        size = a.size
        hessian = LinearOperator((size, size), matvec=product, dtype=np.float64)
        inverse = np.broadcast_to(1 / (curvature + penalty)[:, None], shape).ravel()
        rough = LinearOperator((size, size), matvec=lambda v: inverse * v.ravel(), dtype=np.float64)
        rng, total = np.random.default_rng(0), 0.0
        for _ in range(_PROBES):
            probe = rng.choice([-1.0, 1.0], size=shape)
            noise = self.spread[:, None] * (probe - probe.mean(axis=1, keepdims=True))
            answer, failed = cg(hessian, noise.ravel(), rtol=1e-3, maxiter=_ITERATIONS, M=rough)
            if failed:
                return float("inf")
            total += float(answer @ noise.ravel()) / _PROBES
        return total


class MomentLogisticHead(LinearHead):
    """Logistic regression from released moments: minimise E_pub[log sum exp(W^T phi)] - <W, B/n> + penalty.

    The likelihood of a logistic model hangs on the labels through their moments alone, and on the rows through the
    log-partition, which public rows give. The penalty falls on public directions as the least-squares head's does,
    (lambda/L_j)^q, and lambda minimises Stein's unbiased estimate of the deviance E[log sum exp] - <W, M>, in which
    <W, M> is <W, B/n> less the trace of (noise covariance times dW/dB), with dW/dB the inverse of the penalised
    curvature; the log-partition is taken over public rows that W was not fitted on.

    Post-processing, and free: Dwork & Roth (2014), Proposition 2.1.

    Parameters
    ----------
    penalty : "stein" or float
        A number is lambda; 0 is none, and then there may be no optimum: noisy moments need be those of no labels.
    power : float
        q: 1 penalises all of phi alike, as ridge does; 2 spares the directions that public rows fill.
    n_folds : int
        Parts that public rows are cut into where lambda is chosen; 1: none.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)
    lambda_ : float
    risk_ : float or None
        The deviance less that of guessing (log m), estimated: 0 is worth nothing. None where lambda was given.
    n_effective_ : float
        How many directions are used, in the least-squares head's sense.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release = SimpleNamespace(statistics=[[30.0, -30.0], [-20.0, 20.0]], sigma=2.0, n_units=100, classes=(0, 1))
    >>> head = MomentLogisticHead(n_folds=1).fit(release, [[1.0, 0.0], [0.0, 1.0]])
    >>> head.predict([[1.0, 0.0], [0.0, 1.0]])
    array([0, 1])
    """

    def __init__(self, *, penalty: str | float = "stein", power: float = 2.0, n_folds: int = 3) -> None:
        self.penalty = penalty
        self.power = power
        self.n_folds = n_folds

    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Fit on released ballots and public rows.

        Parameters
        ----------
        release : BallotRelease
        phi_public : array of shape (n_public, n_components)

        Raises
        ------
        InvalidInputError
            They do not belong together, or a setting is out of range.
        """
        moments = read_moments(release, phi_public)
        power = check_real("power", self.power, low=0)
        n_folds = min(check_int("n_folds", self.n_folds, low=1), len(moments.phi))
        self.risk_ = None
        if self.penalty == "stein":
            self.lambda_, self.risk_ = _chosen(moments, power, n_folds)
        elif isinstance(self.penalty, str):
            raise InvalidInputError(f"penalty must be 'stein' or a number >= 0, got {self.penalty!r}.")
        else:
            self.lambda_ = check_real("penalty", self.penalty, low=0)
        problem = _Problem.of(moments, moments.phi)
        penalty = problem.penalty(self.lambda_, power)
        a = problem.solve(penalty)
        self.coef_ = (problem.vectors / np.sqrt(problem.values)) @ a
        self.classes_ = moments.classes
        self.n_effective_ = float((1 / (1 + moments.n_classes * penalty)).sum())
        return self


def _chosen(moments: Moments, power: float, n_folds: int) -> tuple[float, float]:
    """Return (lambda, risk) by Stein's risk, looked for around what the least-squares head would take."""
    everyone = np.arange(len(moments.phi))
    cut = list(fold_rows(len(everyone), n_folds)) if n_folds > 1 else [(everyone, everyone)]
    problems = [(_Problem.of(moments, moments.phi[kept]), held) for kept, held in cut]
    last: list[FloatArray | None] = [None] * len(problems)

    def risk(log_lambda: float) -> float:
        total = 0.0
        for i, (problem, held) in enumerate(problems):
            penalty = problem.penalty(float(np.exp(log_lambda)), power)
            a = last[i] = problem.solve(penalty, last[i])
            logits = moments.phi[held] @ ((problem.vectors / np.sqrt(problem.values)) @ a)
            gain = float((a * problem.target).sum()) - problem.divergence(a, penalty)
            total += float(log_sum_exp(logits).mean()) - np.log(moments.n_classes) - gain
        return total / len(problems)

    most = 1 - 1 / moments.n_classes
    middle = float(np.log(least_lambda(folds(moments, n_folds), [max(power, 1.0)], most)[1]))
    bounds = (middle - _LOG_AROUND, middle + _LOG_AROUND)
    found = minimize_scalar(risk, bounds=bounds, method="bounded", options={"xatol": 0.15})
    return float(np.exp(found.x)), float(found.fun)
