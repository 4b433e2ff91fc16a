"""What the discrete Gaussian costs in (epsilon, delta): nearly what the Gaussian costs, and not less.

RDP is a d^2/(2 sigma^2), as for the Gaussian (Canonne, Kamath and Steinke 2020, proposition 5), but mu = 1/sigma is
*not* a bound in Gaussian differential privacy: at sigma 3 and delta 1e-5 one query costs 1.8675 instead of 1.8664.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri_exp

from pate.core.checks import check_int, check_real
from pate.noise.laws import lattice_law

__all__ = ["discrete_gaussian_delta", "discrete_gaussian_epsilon", "discrete_gaussian_mu"]


def discrete_gaussian_mu(sigma: float) -> float:
    """Return mu with: adding N_Z(0, sigma^2) to one integer count that moves by 1 is mu-GDP (remainder below 1e-190).

    The trade-off curve of N_Z(0, sigma^2) and its shift is a polygon with corners at thresholds k; it lies above the
    Gaussian curve of mu iff Phi^-1(F(k)) - Phi^-1(F(k-1)) <= mu for every k. All |k| <= 30 sigma are checked here, so
    the statement is mu-GDP but for an event of probability below 2 exp(-450) per draw. The largest step is at k = 0:
    mu = (1/sigma) (1 + 1/(24 sigma^2) + ...), which is more than the continuous 1/sigma.

    Examples
    --------
    >>> round((discrete_gaussian_mu(40.0) * 40 - 1) * 24 * 40**2, 3)
    1.0
    """
    sigma = check_real("sigma", sigma, low=0.25, high=1e4)
    x = np.arange(int(39 * sigma) + 80.0)
    tail = np.logaddexp.accumulate((-0.5 * (x / sigma) ** 2)[::-1])[::-1]
    log_all = tail[0] + np.log(2.0 - np.exp(-tail[0]))  # x = 0 counts once
    k = np.arange(int(30 * sigma) + 1)
    z = -np.asarray(ndtri_exp(tail[k + 1] - log_all))
    steps = np.diff(z, prepend=-z[0])
    return float(steps.max() * (1.0 + 1e-9 + 1e-13 * sigma))  # rounding of ndtri_exp


def discrete_gaussian_delta(epsilon: float, *, sigma: float, n_queries: int) -> float:
    """Return the exact delta of ``n_queries`` fully adaptive histograms + N_Z(0, sigma^2), one vote replaced in each.

    The privacy loss of n releases is (W + n)/sigma^2, W a sum of 2n independent N_Z(0, sigma^2): its law is found by
    one FFT. Its rounding is below 2e-14 n in total variation, which is added.

    Examples
    --------
    >>> round(discrete_gaussian_delta(2.50174, sigma=40.0, n_queries=300) * 1e5, 3)
    1.0
    """
    n_queries = check_int("n_queries", n_queries, low=1)
    reach = int(13.0 * sigma * np.sqrt(2.0 * n_queries)) + 60
    size = 1 << int(np.ceil(np.log2(2 * reach)))
    r, mass, _ = lattice_law(sigma, "discrete_gaussian")
    ring = np.zeros(size)
    np.add.at(ring, np.arange(-r, r + 1) % size, mass)
    whole = np.fft.irfft(np.fft.rfft(ring) ** (2 * n_queries), size)
    w = np.arange(-reach, reach + 1)
    loss = (w + n_queries) / sigma**2
    above = loss > epsilon
    return float(np.sum(np.maximum(whole[w[above] % size], 0.0) * -np.expm1(epsilon - loss[above])) + 2e-14 * n_queries)


def discrete_gaussian_epsilon(delta: float, *, sigma: float, n_queries: int) -> float:
    """Return the least epsilon of ``discrete_gaussian_delta``, by bisection from above.

    Examples
    --------
    >>> round(discrete_gaussian_epsilon(1e-5, sigma=40.0, n_queries=300), 4)
    2.5017
    """
    delta = check_real("delta", delta, low=1e-9, high=1.0, high_open=True)
    low, high = 0.0, 1.0
    while discrete_gaussian_delta(high, sigma=sigma, n_queries=n_queries) > delta:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        if discrete_gaussian_delta(middle, sigma=sigma, n_queries=n_queries) > delta:
            low = middle
        else:
            high = middle
    return high
