"""Least squares with a public covariance: only the cross moment is private."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar

from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.heads._linear import LinearHead
from pate.heads._moments import Fold, Moments, ReleasedBallots, eigen, folds, read_moments, softmax

#: Shapes of shrinkage that Stein's risk may choose among.
POWERS = (1.0, 1.5, 2.0, 3.0, 5.0)
#: lambda over the largest eigenvalue.
_LOG_LAMBDA = np.linspace(np.log(1e-7), np.log(1e6), 90)
#: What each unit of explaining too much costs while lambda is looked for.
_WALL = 1e3
#: Temperatures of least-squares scores lie about m + 4: between 4 and 5 for 2 classes and between 11 and 16 for 10.
_USUAL_EXCESS = 3.5
_USUAL_SPREAD = 0.35


def shapes(power: float | str | None, usual: float) -> tuple[float, ...]:
    """Return the powers to choose from.

    Examples
    --------
    >>> shapes(None, 3.0), shapes(2, 3.0)
    ((3.0,), (2.0,))
    """
    if power is None:
        return (usual,)
    if power == "stein":
        return POWERS
    return (check_real("power", power, low=1, remedy="Or None, or 'stein'."),)


def shrunk(values: FloatArray, lam: float, power: float) -> FloatArray:
    """Return f = L^(power - 1) / (L^power + lambda^power), which for lambda = 0 is 1/L.

    Examples
    --------
    >>> shrunk(np.array([4.0, 1.0]), 1.0, 2.0).round(3)
    array([0.235, 0.5  ])
    """
    return np.asarray(1 / (values * (1 + (lam / values) ** power)))


def least_lambda(parts: list[Fold], powers: Iterable[float], most: float) -> tuple[float, float, float]:
    """Return (risk, lambda, power) where Stein's risk, the mean of the folds, is least.

    Parameters
    ----------
    parts : list of Fold
    powers : iterable of float
        The shapes to choose from.
    most : float
        The quadratic part of the risk is at most this: nobody explains more than there is, and where noise is huge
        Stein's risk, unbiased as it is, may promise so by chance.
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
    for centred scores s. Shrunk scores are of the size of what they predict, so that t is known beforehand, roughly: m
    where little is known, as 1/m + s/m t are then the probabilities, and a few more where much is. What is taken is the
    most likely t for this belief and an agreement that is known up to ``doubt``.

    Parameters
    ----------
    scores : float64 array of shape (n_rows, n_classes)
        Scores of public rows, as far as possible by a head that has not seen them.
    agreement : float
        An estimate of <W, M>, the records' mean of <s, e_y - 1/m>.
    doubt : float
        Its standard error by noise; that of the draw of rows is added here.

    Examples
    --------
    >>> scores = np.array([[0.5, -0.5], [-0.5, 0.5]])
    >>> [round(temperature(scores, agreement=0.4, doubt=d), 2) for d in (0.001, 9.0)]
    [2.2, 5.5]
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
    """W = U f(L) U^T B/n with the covariance U L U^T of public rows, shrunk by Stein's risk, and calibrated.

    If private and public rows are drawn alike this is least squares of e_y - 1/m on phi in which only the cross moment
    is private. How much is shrunk is chosen by an unbiased estimate of the risk E |W^T phi - c_y|^2 that needs the
    noisy moments and public numbers only (Stein, "Estimation of the Mean of a Multivariate Normal Distribution",
    Annals of Statistics 9, 1981): with u_j a public direction, e_j = |u_j^T B/n|^2 and v_j what noise (and the draw
    of the records) adds to its expectation, the risk is sum_j f_j^2 L_j e_j - 2 f_j (e_j - v_j) and a constant; the
    quadratic part is taken over public rows that u and L were not computed from. Logits are t W^T phi; t makes the
    probabilities agree with the records (:func:`temperature`).

    Rows that are not drawn alike (covariate shift) bias it. All of it is post-processing, and free: Dwork & Roth
    (2014), Proposition 2.1.

    Parameters
    ----------
    shrinkage : "stein" or float
        A number is lambda; 0 is least squares as it is.
    power : float, "stein" or None
        q in f = L^(q-1) / (L^q + lambda^q), at least 1: 1 is ridge regression, 2 the posterior mean if all coefficients
        are alike beforehand, and what is higher cuts sharper, for coefficients that are larger the more public rows
        fill a direction. None is 2 for soft and hard ballots and 3 for others, which measured best; ``"stein"`` chooses
        by the risk too, which does better for little noise and worse for much.
    n_folds : int
        Parts that public rows are cut into for the risk; 1: none, which is too hopeful where they are few.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)
        Of the logits: temperature times W.
    scale_ : float
        The temperature.
    lambda_, power_ : float
        As used.
    risk_ : float
        E |W^T phi - c_y|^2 - E |c_y|^2, estimated: 0 is worth nothing, -(1 - 1/m) would be perfect.
    n_effective_ : float
        sum of f_j L_j: how many directions are used.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release = SimpleNamespace(statistics=[[30.0, -30.0], [-20.0, 20.0]], sigma=2.0, n_units=100, classes=(0, 1))
    >>> head = LeastSquaresHead(n_folds=1).fit(release, [[1.0, 0.0], [0.0, 1.0]])
    >>> head.predict([[1.0, 0.0], [0.0, 1.0]])
    array([0, 1])
    """

    _scalars: ClassVar[tuple[str, ...]] = ("risk_", "lambda_", "power_", "scale_", "n_effective_")

    power_: float
    scale_: float

    def __init__(self, *, shrinkage: str | float = "stein", power: float | str | None = None, n_folds: int = 5) -> None:
        self.shrinkage = shrinkage
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
        parts = self._folds(moments)
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

    def _folds(self, moments: Moments) -> list[Fold]:
        if isinstance(self.shrinkage, str) and self.shrinkage != "stein":
            raise InvalidInputError(f"shrinkage must be 'stein' or a number >= 0, got {self.shrinkage!r}.")
        n_folds = check_int("n_folds", self.n_folds, low=1)
        return folds(moments, min(n_folds, len(moments.phi)))

    def _temperature(self, moments: Moments, parts: list[Fold]) -> float:
        scores, agreement, doubt = np.empty((len(moments.phi), moments.n_classes)), 0.0, 0.0
        for part in parts:
            factors = shrunk(part.values, self.lambda_ or 0.0, self.power_)
            weights = part.vectors @ (factors[:, None] * part.projected)
            scores[part.held] = moments.phi[part.held] @ weights
            agreement += float(factors @ part.gain) / len(parts)
            doubt += part.doubt(factors) / len(parts)
        return temperature(scores, agreement, float(np.sqrt(doubt)))
