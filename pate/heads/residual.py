"""Residual rounds: records vote with their disagreement, and public rows say how far to step."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from pate.core.checks import check_int
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.heads._linear import Head, LinearHead
from pate.heads._moments import ReleasedBallots, eigen, folds, log_sum_exp, read_moments
from pate.heads.least_squares import least_lambda, shapes, shrunk

#: A step is at most so many times the Newton step.
_LONGEST = 1.5


def residual_step(
    head: Head, release: ReleasedBallots, phi_public: Any, *, power: float | str | None = None, n_folds: int = 5
) -> LinearHead:
    """Return a better head: one Newton step on released residuals, with the curvature of public rows.

    Every record voted with its disagreement with ``head``: phi(x) (x) clip_C(e_y - p(x)), a vector of norm <= C, so
    that replacing a record moves the sum by at most Delta = 2C (adding one by C), and noise of sigma costs mu =
    Delta/sigma. Rounds may be chosen by what earlier ones gave: Gaussian differential privacy composes adaptively, and
    mu^2 adds up (Dong, Roth & Su, "Gaussian Differential Privacy", JRSS B 84, 2022, Theorem 4 and Corollary 2). The
    step itself is post-processing, and free: Dwork & Roth (2014), Proposition 2.1.

    With G the mean of the released residuals the step is W + t D, D = U f(L) U^T G, with U L U^T the curvature of the
    logistic deviance over public rows: phi phi^T weighted by (1 - |p|^2)/(m - 1), the mean curvature of log sum exp.
    f shrinks as the least-squares head's does, by Stein's risk of the quadratic model; t in [0, 1.5] minimises the
    deviance along D, its log-partition over public rows, its label part by G less Stein's correction. No step explains
    more than the mean entropy of ``head``, so that a round of nothing but noise does bounded harm. Residuals small
    beside C lose nothing by clipping, others are heard less.

    Parameters
    ----------
    head : Head
        The one whose disagreements were released; linear.
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
        The head is not linear, or does not belong to the release.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> head = LinearHead.of([[0.0, 0.0]], (0, 1))
    >>> release = SimpleNamespace(statistics=[[2500.0, -2500.0]], sigma=1.0, n_units=10000, classes=(0, 1))
    >>> residual_step(head, release, [[1.0], [1.0]], n_folds=1).predict_proba([[1.0]]).round(2)
    array([[0.75, 0.25]])
    """
    if not isinstance(head, LinearHead):
        raise InvalidInputError(
            f"head must be linear, got a {type(head).__name__}. Start from a LeastSquaresHead or MomentLogisticHead."
        )
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
    # Nobody agrees more than with the best class of every row.
    slope = gain + float((p * along).sum(axis=1).mean())
    slope = min(slope, float(along.max(axis=1).mean()))
    length, change = _length(phi @ head.coef_, along, slope)
    values, vectors = eigen(phi, weights)
    factors = shrunk(values, lam, q)
    step = vectors @ (factors[:, None] * (vectors.T @ moments.mean))
    stepped = LinearHead.of(head.coef_ + length * step, moments.classes)
    stepped.risk_, stepped.lambda_, stepped.n_effective_ = change, lam, float(factors @ values)
    return stepped


def _length(base: FloatArray, along: FloatArray, slope: float) -> tuple[float, float]:
    """Return t and the change of the deviance E log sum exp(base + t along) - t slope, least over [0, 1.5]."""

    def deviance(t: float) -> float:
        return float(log_sum_exp(base + t * along).mean()) - t * slope

    found = minimize_scalar(deviance, bounds=(0, _LONGEST), method="bounded", options={"xatol": 1e-3})
    return float(found.x), min(float(found.fun) - deviance(0.0), 0.0)
