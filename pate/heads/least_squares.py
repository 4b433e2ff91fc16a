"""Least squares with a public covariance: only the cross moment is private."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar

from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.heads._linear import LinearHead
from pate.heads._moments import Moments, ReleasedBallots, log_sum_exp, read_moments, softmax
from pate.heads._spectrum import Fold, eigen, folds

#: Shapes of shrinkage that Stein's risk may choose among: 1 is ridge regression, and the higher the sharper the cut.
_POWERS = {"stein": (1.0, 1.5, 2.0, 3.0, 5.0), "sharp": (3.0,), "sharper": (5.0,), "smooth": (2.0,), "ridge": (1.0,)}
#: lambda over the largest eigenvalue.
_LOG_LAMBDA = np.linspace(np.log(1e-7), np.log(1e3), 70)
#: Probabilities are not sharpened past this mean of the largest one.
_SUREST = 0.9995


def shrunk(values: FloatArray, lam: float, power: float) -> FloatArray:
    """Return f = L^(power - 1) / (L^power + lambda^power), which for lambda = 0 is 1/L.

    Examples
    --------
    >>> shrunk(np.array([4.0, 1.0]), 1.0, 2.0).round(3)
    array([0.235, 0.5  ])
    """
    return np.asarray(1 / (values * (1 + (lam / values) ** power)))


def least_lambda(parts: list[Fold], power: float) -> tuple[float, float]:
    """Return (risk, lambda) where Stein's risk, the mean of the folds, is least."""
    top = max(part.values[0] for part in parts)

    def risk(log_lambda: float) -> float:
        lam = top * float(np.exp(log_lambda))
        return float(np.mean([part.risk(shrunk(part.values, lam, power)) for part in parts]))

    grid = [risk(x) for x in _LOG_LAMBDA]
    at = int(np.argmin(grid))
    low, high = _LOG_LAMBDA[max(at - 1, 0)], _LOG_LAMBDA[min(at + 1, len(grid) - 1)]
    fine = minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    best = min((grid[at], _LOG_LAMBDA[at]), (float(fine.fun), float(fine.x)))
    return best[0], top * float(np.exp(best[1]))


def temperature(scores: FloatArray, agreement: float) -> float:
    """Return t that makes softmax(t scores) agree with the records as often as its own probabilities say.

    The moment logistic in one parameter: minimise E_pub log sum exp(t s) - t <W, M>, whose optimum has
    E_pub <p, s> = <W, M> + (mean of s over classes): the model's expected score is the records'.

    Parameters
    ----------
    scores : float64 array of shape (n_rows, n_classes)
        Scores of public rows, as far as possible by a head that has not seen them.
    agreement : float
        An estimate of <W, M>, the records' mean of <s, e_y - 1/m>; better too low than too high, as who is too sure
        pays more.

    Examples
    --------
    >>> temperature(np.array([[1.0, 0.0], [0.0, 1.0]]), 0.25).__round__(3)
    1.099
    """
    centred = scores - scores.mean(axis=1, keepdims=True)
    size = float(np.sqrt((centred**2).mean()))
    if size == 0:
        return 1.0

    def loss(log_t: float) -> float:
        t = float(np.exp(log_t)) / size
        return float(log_sum_exp(t * centred).mean() - t * agreement)

    def too_sure(log_t: float) -> bool:
        return softmax(float(np.exp(log_t)) / size * centred).max(axis=1).mean() > _SUREST

    low, high = np.log(1e-4), np.log(1e4)
    while too_sure(high) and high > low:
        high -= 0.5
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x)) / size


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
    shrinkage : {"stein", "smooth", "ridge"} or float
        f = L^(q-1) / (L^q + lambda^q). ``"smooth"`` is q = 2 and ``"ridge"`` q = 1, with lambda by Stein's risk;
        ``"stein"`` chooses both. A number is lambda with q = 2; 0 is least squares as it is.
    n_folds : int
        Parts that public rows are cut into for the risk; 1: none, which is too hopeful where they are few.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)
        Of the logits: temperature times W.
    scale_ : float
        The temperature.
    lambda_, power_ : float
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

    def __init__(self, *, shrinkage: str | float = "stein", n_folds: int = 5) -> None:
        self.shrinkage = shrinkage
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
        if isinstance(self.shrinkage, str):
            tried = [(*least_lambda(parts, power), power) for power in _POWERS[self.shrinkage]]
            self.risk_, self.lambda_, self.power_ = min(tried)
        else:
            self.lambda_, self.power_ = check_real("shrinkage", self.shrinkage, low=0), 2.0
            self.risk_ = float(np.mean([p.risk(shrunk(p.values, self.lambda_, 2.0)) for p in parts]))
        values, vectors = eigen(moments.phi)
        factors = shrunk(values, self.lambda_, self.power_)
        scores = vectors @ (factors[:, None] * (vectors.T @ moments.mean))
        self.scale_ = self._temperature(moments, parts)
        self.coef_, self.classes_ = self.scale_ * scores, moments.classes
        self.n_effective_ = float(factors @ values)
        return self

    def _folds(self, moments: Moments) -> list[Fold]:
        if isinstance(self.shrinkage, str) and self.shrinkage not in _POWERS:
            raise InvalidInputError(
                f"shrinkage must be one of {', '.join(map(repr, _POWERS))} or a number >= 0, got {self.shrinkage!r}."
            )
        n_folds = check_int("n_folds", self.n_folds, low=1)
        return folds(moments, min(n_folds, len(moments.phi)))

    def _temperature(self, moments: Moments, parts: list[Fold]) -> float:
        scores, agreement, doubt = np.empty((len(moments.phi), moments.n_classes)), 0.0, 0.0
        for part in parts:
            factors = shrunk(part.values, self.lambda_ or 0.0, self.power_)
            weights = part.vectors @ (factors[:, None] * part.projected)
            scores[part.held] = moments.phi[part.held] @ weights
            agreement += float(factors @ part.gain) / len(parts)
            # The estimate misses <W, M> by sum f (<b, noise> - v), of which this is the variance.
            doubt += float(factors**2 @ (part.noise * (part.projected**2).sum(axis=1)))
        doubt = np.sqrt(doubt / len(parts) / (moments.n_classes - 1))
        return temperature(scores, agreement - doubt)
