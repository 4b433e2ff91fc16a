"""The data-dependent bounds of the PATE papers, kept for comparison.

Papernot et al. 2018, "Scalable private learning with PATE": Propositions 7 and 10, Theorem 6. They bound *one*
direction, D(M(D) || M(D')), and the result is itself private: it is a function of the votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp

from pate._core.checks import check_real
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_orders

#: Orders fine enough to reproduce published figures (as in the published analysis scripts).
PAPER_ORDERS: tuple[float, ...] = (
    *np.arange(1.5, 100, 0.5).tolist(),
    *np.logspace(math.log10(100), math.log10(1000), num=200).tolist(),
)


def check_votes(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return vote counts as a float array of shape (n_queries, n_classes >= 2), all finite and >= 0."""
    try:
        n = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        n = np.empty(0)
    # Votes are private: no value of theirs is quoted, nor what numpy said of them.
    if n.ndim != 2 or n.shape[1] < 2 or not (np.isfinite(n) & (n >= 0)).all():
        raise InvalidInputError("counts must be finite numbers >= 0 of shape (n_queries, n_classes >= 2).")
    return n


def log_q_gaussian(counts: npt.ArrayLike, sigma: float) -> npt.NDArray[np.float64]:
    """Return log of the union bound on Pr[noisy argmax is not the plurality] (Proposition 7).

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
    sigma : float
        Standard deviation of the Gaussian noise on each count, in votes.

    Returns
    -------
    array of shape (n_queries,)
        At most log(1 - 1/n_classes).
    """
    sigma = check_real("sigma", sigma, low=0, low_open=True)
    return _log_union(counts, math.sqrt(2) * sigma, lambda gaps: log_ndtr(-gaps))


def _log_union(
    counts: npt.ArrayLike, scale: float, beaten: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Return log of the sum, over all others, of exp(``beaten``) of how far they are behind, in units of ``scale``."""
    n = check_votes(counts)
    winner = n.argmax(axis=1)
    terms = beaten((n[np.arange(len(n)), winner][:, None] - n) / scale)
    terms[np.arange(len(n)), winner] = -np.inf
    return np.minimum(logsumexp(terms, axis=1), math.log1p(-1 / n.shape[1]))


def _log1mexp(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # log(1 - e^x) for x < 0: each form loses its digits where the other keeps them.
    return np.where(x > -math.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


def rdp_bound(log_q: npt.ArrayLike, sigma: float, orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the Renyi bound of GNMax given q (Theorem 6 with the parameters of Proposition 10).

    Parameters
    ----------
    log_q : array-like of shape (n_queries,)
        log of a bound on Pr[outcome is not the most likely one].
    sigma : float
        Noise on each count; sensitivity sqrt(2), so that the data-independent value is alpha / sigma^2.
    orders : array-like of shape (n_orders,)

    Returns
    -------
    array of shape (n_queries, n_orders)
    """
    alphas = check_orders(orders)
    sigma = check_real("sigma", sigma, low=0, low_open=True)
    lq = np.atleast_1d(np.asarray(log_q, dtype=np.float64))
    if lq.ndim != 1 or not (lq <= 0).all():
        raise InvalidInputError("log_q must be logs of probabilities, at most 0, of shape (n_queries,).")
    variance = sigma**2
    public = np.broadcast_to(alphas / variance, (len(lq), len(alphas)))
    with np.errstate(all="ignore"):
        mu2 = np.where(lq < 0, sigma * np.sqrt(-lq), 0.0)
        mu1 = mu2 + 1
        eps1, eps2 = mu1 / variance, mu2 / variance
        # Conditions of Theorem 6: 1 < alpha <= mu1, mu2 > 1 and q small enough for the bound to be monotone in q.
        limit = (mu2 - 1) * eps2 - mu2 * (np.log(mu1 / (mu1 - 1)) + np.log(mu2 / (mu2 - 1)))
        applies = (mu2 > 1) & (lq <= limit) & (-lq > eps2) & np.isfinite(lq)
        log1q = _log1mexp(lq)
        log_a = log1q - _log1mexp((lq + eps2) * (1 - 1 / mu2))
        log_b = eps1 - lq / (mu1 - 1)
        steps = alphas[None, :] - 1
        log_sum = np.logaddexp(
            log1q[:, None] + steps * log_a[:, None],
            lq[:, None] + steps * log_b[:, None],
        )
        bound = np.where(applies[:, None] & (alphas[None, :] <= mu1[:, None]), log_sum / steps, np.inf)
    bound = np.where(np.isnan(bound), np.inf, np.maximum(bound, 0.0))
    certain = np.isneginf(lq)
    return np.where(certain[:, None], 0.0, np.minimum(bound, public))


def log_answer_probability(
    counts: npt.ArrayLike, threshold: float, sigma_threshold: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return log Pr[answered] and log Pr[refused] of the threshold test on the largest count.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
    threshold, sigma_threshold : float
        In votes.

    Returns
    -------
    two arrays of shape (n_queries,)
    """
    threshold = check_real("threshold", threshold)
    sigma_threshold = check_real("sigma_threshold", sigma_threshold, low=0, low_open=True)
    score = (check_votes(counts).max(axis=1) - threshold) / sigma_threshold
    return log_ndtr(score), log_ndtr(-score)


def expected_confident_rdp(
    counts: npt.ArrayLike,
    threshold: float,
    sigma_threshold: float,
    sigma: float,
    orders: npt.ArrayLike = PAPER_ORDERS,
) -> npt.NDArray[np.float64]:
    """Return the *expected* RDP cost per query of Confident-GNMax as the 2018 paper computed it.

    Pr[answered] times the cost of GNMax, plus the data-dependent cost of the threshold test (sensitivity 1, hence
    Theorem 6 at sigma_threshold sqrt(2)). An expectation over the run is a comparison figure, not a guarantee.

    Returns
    -------
    array of shape (n_queries, n_orders)
    """
    yes, no = log_answer_probability(counts, threshold, sigma_threshold)
    answer = rdp_bound(log_q_gaussian(counts, sigma), sigma, orders)
    test = rdp_bound(np.minimum(yes, no), math.sqrt(2) * sigma_threshold, orders)
    return np.exp(yes)[:, None] * answer + test


def log_q_laplace(counts: npt.ArrayLike, scale: float) -> npt.NDArray[np.float64]:
    """Return log of the union bound on Pr[noisy argmax is not the plurality] for Laplace noise.

    Papernot et al. 2017, Lemma 4: q <= sum over i of (2 + gap_i / b) / (4 exp(gap_i / b)).
    """
    scale = check_real("scale", scale, low=0, low_open=True)
    return _log_union(counts, scale, lambda gaps: np.log(2 + gaps) - math.log(4) - gaps)


def laplace_moments(counts: npt.ArrayLike, scale: float, orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the data-dependent Renyi bound of LNMax of the 2017 paper (Theorems 2 and 3).

    With g = 1/scale a query is (2g, 0)-DP. The moment at l = alpha - 1 is at most 2 g^2 l (l + 1), at most
    2 g l, and, while q < (e^{2g} - 1)/(e^{4g} - 1), at most
    log((1-q) ((1-q)/(1 - e^{2g} q))^l + q e^{2 g l}). The RDP is the moment over l.

    Returns
    -------
    array of shape (n_queries, n_orders)

    Examples
    --------
    >>> laplace_moments([[240, 10], [125, 125]], 20.0, [2.0, 8.0]).round(6)
    array([[7.e-06, 9.e-06], [1.e-02, 4.e-02]])
    """
    scale = check_real("scale", scale, low=0, low_open=True)
    alphas = check_orders(orders)
    g, lam = 1 / scale, alphas - 1
    lq = log_q_laplace(counts, scale)[:, None]
    q = np.exp(lq)
    public = np.minimum(2 * g * g * lam * (lam + 1), 2 * g * lam)
    with np.errstate(all="ignore"):
        first = np.log1p(-q) + lam * (np.log1p(-q) - np.log1p(-np.exp(2 * g) * q))
        bound = np.logaddexp(first, lq + 2 * g * lam)
        applies = q < np.expm1(2 * g) / np.expm1(4 * g)
        bound = np.where(applies & ~np.isnan(bound), np.maximum(bound, 0.0), np.inf)
    return np.minimum(bound, public) / lam
