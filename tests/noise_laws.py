"""The exact law of a noisy argmax, for real and for discrete noise: a reference, apart from the accounting.

Finite sums and quadrature in probability space, one histogram at a time: the null hypothesis of the law tests and a
check on fast kernels. Probabilities below 1e-290 come out as 0.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, ndtr

from pate._core.checks import check_choice, check_real
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError

__all__ = [
    "NOISES",
    "argmax_law",
    "confident_law",
    "pass_probability",
    "renyi",
]

NOISES = ("gaussian", "laplace", "discrete_gaussian", "discrete_laplace")

_GAUSS_REACH = 38.0  # standard deviations: exp(-38^2/2) is 1e-314
_LAPLACE_REACH = 100.0  # scales


def lattice_law(scale: float, noise: str) -> tuple[int, FloatArray, FloatArray]:
    """Return r, the masses at -r .. r and P(X <= x) there (by sums of positive terms from the left)."""
    if noise == "discrete_gaussian":
        r = int(np.ceil(_GAUSS_REACH * scale)) + 2
        x = np.arange(-r, r + 1.0)
        mass = np.exp(-0.5 * (x / scale) ** 2)
    else:
        r = int(np.ceil(_LAPLACE_REACH * scale)) + 2
        mass = np.exp(-np.abs(np.arange(-r, r + 1.0)) / scale)
    mass = mass / mass.sum()
    return r, mass, np.cumsum(mass)


def _product_law(density: FloatArray, below: FloatArray, repeats: IntArray, weight: FloatArray) -> FloatArray:
    """Integrate density_j below_j^(repeats_j - 1) prod_{i != j} below_i^repeats_i over the nodes, per group j."""
    n_groups = len(density)
    power = below ** repeats[:, None]
    before, after = np.ones_like(power), np.ones_like(power)
    for j in range(1, n_groups):
        before[j] = before[j - 1] * power[j - 1]
        after[-1 - j] = after[-j] * power[-j]
    return np.asarray((weight * density * below ** (repeats - 1)[:, None] * before * after).sum(axis=1))


def _discrete(values: IntArray, repeats: IntArray, scale: float, noise: str) -> FloatArray:
    r, mass, cdf = lattice_law(scale, noise)
    top = int(values.max())
    # The winner's score x: not below top - r (the top class stands there at least), not above top + r.
    x = np.arange(top - r, top + r + 1)
    index = x[None, :] - values[:, None] + r
    inside = (index >= 0) & (index < len(mass))
    density = np.where(inside, mass[np.clip(index, 0, len(mass) - 1)], 0.0)
    shifted = index - 1
    below = np.where(shifted < 0, 0.0, cdf[np.clip(shifted, 0, len(cdf) - 1)])
    # Uniform ties: every class adds an independent uniform v to its integer; the integrand has degree m - 1 in v.
    node, weight = np.polynomial.legendre.leggauss(int(repeats.sum() + 1) // 2)
    total = np.zeros(len(values))
    for v, w in zip(0.5 * (node + 1.0), 0.5 * weight, strict=True):
        total += _product_law(density, below + v * density, repeats, np.full(x.shape, w))
    return total


def _continuous(values: IntArray, repeats: IntArray, scale: float, noise: str) -> FloatArray:
    if noise == "gaussian":
        step = 0.1  # the trapezoid rule converges like exp(-2 pi^2 w^2 / step^2)
        centred = values / scale
        x = np.arange(centred.max() - _GAUSS_REACH, centred.max() + _GAUSS_REACH, step)
        z = x[None, :] - centred[:, None]
        return _product_law(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi), ndtr(z), repeats, np.full(x.shape, step))
    knots = np.unique(np.concatenate([values / scale, [values.min() / scale - 80.0, values.max() / scale + 80.0]]))
    node, weight = np.polynomial.legendre.leggauss(24)
    parts = [np.linspace(a, b, int(np.ceil(b - a)) + 1) for a, b in pairwise(knots)]
    edges = np.unique(np.concatenate(parts))
    half = 0.5 * np.diff(edges)
    x = (edges[:-1, None] + half[:, None] * (node[None, :] + 1.0)).ravel()
    w = (half[:, None] * weight[None, :]).ravel()
    z = x[None, :] - (values / scale)[:, None]
    tail = 0.5 * np.exp(-np.abs(z))
    return _product_law(tail, np.where(z < 0, tail, 1.0 - tail), repeats, w)


def argmax_law(counts: npt.ArrayLike, *, scale: float, noise: str = "gaussian") -> FloatArray:
    """Return the exact probability of every class to win counts + noise.

    Parameters
    ----------
    counts : array-like of ints, shape (n_queries, n_classes)
    scale : float
        Standard deviation (Gaussian, discrete Gaussian's sigma) or scale (Laplace), in votes.
    noise : {"gaussian", "laplace", "discrete_gaussian", "discrete_laplace"}
        Ties of discrete noise are broken uniformly.

    Returns
    -------
    numpy.ndarray of shape (n_queries, n_classes)

    Examples
    --------
    >>> law = argmax_law([[60, 40]], scale=20.0)
    >>> bool(abs(law[0, 1] - ndtr(-20 / (20 * 2**0.5))) < 1e-14)
    True
    >>> argmax_law([[3, 3, 3, 3]], scale=2.0, noise="discrete_gaussian").round(12)
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    array = np.asarray(counts)
    if array.ndim != 2 or array.dtype.kind not in "iu" or array.shape[1] < 2:
        raise InvalidInputError(f"counts must be whole numbers (n_queries, n_classes >= 2), got shape {array.shape}.")
    scale = check_real("scale", scale, low=0, low_open=True)
    check_choice("noise", noise, NOISES)
    solve = _discrete if noise.startswith("discrete") else _continuous
    out = np.empty(array.shape)
    for n, row in enumerate(array.astype(np.int64)):
        values, where, repeats = np.unique(row, return_inverse=True, return_counts=True)
        out[n] = solve(values, repeats, scale, noise)[where]
    return out


def pass_probability(values: npt.ArrayLike, *, threshold: float, scale: float, noise: str = "gaussian") -> FloatArray:
    """Return P(value + noise >= threshold).

    Examples
    --------
    >>> pass_probability([200, 210], threshold=200, scale=10.0).round(4)
    array([0.5   , 0.8413])
    """
    value = np.asarray(values, dtype=np.float64)
    check_choice("noise", noise, NOISES)
    if noise == "gaussian":
        return np.asarray(ndtr((value - threshold) / scale))
    if noise == "laplace":
        z = (value - threshold) / scale
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(z, 0.0)))
    r, _, cdf = lattice_law(scale, noise)
    # P(X >= ceil(threshold - value)) = P(X <= value - threshold) by symmetry.
    k = np.floor(value - threshold).astype(np.int64) + r
    return np.where(k < 0, 0.0, cdf[np.clip(k, 0, len(cdf) - 1)])


def confident_law(
    counts: npt.ArrayLike, *, threshold: float, scale1: float, scale2: float, noise: str = "gaussian"
) -> FloatArray:
    """Return the m + 1 probabilities of Confident: every class, then the refusal.

    Parameters
    ----------
    counts : array-like of ints, shape (n_queries, n_classes)
    threshold, scale1 : float
        The query is answered when the top count + noise(scale1) >= threshold.
    scale2 : float
        Noise of the argmax, drawn apart.
    noise : one of NOISES

    Returns
    -------
    numpy.ndarray of shape (n_queries, n_classes + 1)

    Examples
    --------
    >>> confident_law([[200, 50]], threshold=200, scale1=150.0, scale2=40.0).round(4)
    array([[0.498, 0.002, 0.5  ]])
    """
    array = np.asarray(counts)
    answered = pass_probability(array.max(axis=1), threshold=threshold, scale=scale1, noise=noise)[:, None]
    law = argmax_law(array, scale=scale2, noise=noise)
    return np.concatenate([answered * law, 1.0 - answered], axis=1)


def renyi(p: FloatArray, q: FloatArray, orders: npt.ArrayLike) -> FloatArray:
    """Return D_a(p||q) of two laws on the same outcomes, without cancellation; orders > 1.

    Examples
    --------
    >>> renyi(np.array([0.5, 0.5]), np.array([0.25, 0.75]), [2.0]).round(6)
    array([0.287682])
    """
    a = np.asarray(orders, dtype=np.float64)
    keep = (p > 0) | (q > 0)
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p[keep]), np.log(q[keep])
    ratio = log_p - log_q
    out = np.empty(len(a))
    for n, order in enumerate(a):
        if np.abs(order * ratio).max() < 30.0:
            terms = q[keep] * (np.expm1(order * ratio) - order * np.expm1(ratio))
            whole = np.log1p(terms.sum())
        else:  # far apart there is nothing to cancel, but much to overflow
            whole = logsumexp(order * log_p - (order - 1.0) * log_q)
        out[n] = whole / (order - 1.0)
    return out
