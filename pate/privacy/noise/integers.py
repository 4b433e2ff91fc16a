"""Integer noise, exactly: the discrete Gaussian and Laplace (Canonne, Kamath and Steinke 2020), ties at random.

Not what the mechanisms of one curator use (real noise is cheaper to account for): for sites that each add a share of
the noise (:mod:`pate.mechanisms._shares`), and for users who want integers. What they cost is not ``rho_star``: see
docs/public-curve.md, theorem 3 and section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice
from pate._core.recorder import resolved
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.noise._endless import CHUNK, TAIL, LazyUniform, WordSource, below_exp, check_counts, check_scale

_SMALLEST_SCALE, _LARGEST_SCALE = 2.0**-6, 2.0**20
#: Of the discrete Gaussian, which is drawn in parts above the other limit: its values stay far within 64 bits.
_LARGEST_SIGMA = 2.0**45
_TRUST = 2.0**-36  # relative error granted to float64 exp, log; they are 2^-50


def _scale(name: str, value: float) -> float:
    return check_scale(name, value, low=_SMALLEST_SCALE, high=_LARGEST_SCALE)


def uniform_below(limits: npt.ArrayLike, source: WordSource) -> IntArray:
    """Return independent uniform integers in [0, limit), without bias.

    Parameters
    ----------
    limits : array-like of ints, shape (n,)
        Each >= 1.
    source : WordSource

    Returns
    -------
    numpy.ndarray of int64, shape (n,)

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> bool(uniform_below([1, 1, 2], NoiseSource(0)).max() < 2)
    True
    """
    limit = np.asarray(limits, dtype=np.int64)
    if limit.ndim != 1 or (limit < 1).any():
        raise InvalidInputError(f"limits must be whole numbers >= 1 of shape (n,), got shape {limit.shape}.")
    out = np.zeros(len(limit), dtype=np.int64)
    todo = np.flatnonzero(limit > 1)
    while len(todo):
        word = source.words(len(todo))
        size = limit[todo].astype(np.uint64)
        # 2^64 mod size words would make the low residues likelier: refuse the last, incomplete block.
        spare = (np.uint64(0) - size) % size
        good = word <= np.uint64(2**64 - 1) - spare
        out[todo[good]] = (word % size)[good].astype(np.int64)
        todo = todo[~good]
    return out


def _geometric(scale: float, size: int, source: WordSource) -> IntArray:
    """P(Y >= y) = exp(-y/scale): Y counts the y >= 1 for which an endless uniform is below exp(-y/scale)."""
    word = source.words(size)
    middle = word.astype(np.float64) + 0.5
    value = -scale * (np.log(middle) - 64.0 * np.log(2.0))
    y = np.floor(value)
    unsure = (scale + value) * _TRUST + scale * 2.0 / middle
    rest = value - y
    doubt = (rest < unsure) | (rest > 1.0 - unsure) | (word < TAIL)
    out = y.astype(np.int64)
    exact = Fraction(scale)
    for n in np.flatnonzero(doubt):
        uniform = LazyUniform(int(word[n]), 64, source)
        candidate = max(0, int(out[n]) - 2) if word[n] >= TAIL else 0
        step = 1 << 40 if word[n] < TAIL else 1
        while step:  # gallop, then halve: the largest y with uniform < exp(-y/scale)
            while below_exp(uniform, (candidate + step) / exact):
                candidate += step
            step >>= 1
        out[n] = candidate
    return out


def _large_geometric(scale: int, size: int, source: WordSource) -> IntArray:
    """Return the same law for a whole scale of any size: U + scale V, as a float's logarithm would be too coarse.

    Canonne et al. 2020, algorithm 2: U is uniform below the scale, kept with probability exp(-U/scale); V is geometric
    of scale 1.
    """

    def kept(ask: int) -> IntArray:
        low = uniform_below(np.full(ask, scale), source)
        word = source.words(ask)
        chance = np.exp(-low.astype(np.float64) / scale)  # between 1/e and 1
        share = word.astype(np.float64) * 2.0**-64
        keep = share < chance * (1.0 - _TRUST)
        for n in np.flatnonzero(~keep & (share < chance * (1.0 + _TRUST))):
            keep[n] = below_exp(LazyUniform(int(word[n]), 64, source), Fraction(int(low[n]), scale))
        return np.asarray(low[keep])

    return _filled(size, 1.6, kept) + scale * _geometric(1.0, size, source)


def _signed(size: int, magnitudes: Callable[[int], IntArray], source: WordSource) -> IntArray:
    """Attach a fair sign, refusing minus zero, until ``size`` values stand."""

    def kept(ask: int) -> IntArray:
        y = magnitudes(ask)
        negative = (source.words((ask + 63) // 64)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        minus = negative.ravel()[:ask].astype(bool)
        return np.where(minus, -y, y)[~(minus & (y == 0))]

    return _filled(size, 17 / 16, kept)


def _filled(size: int, asked: float, kept: Callable[[int], IntArray]) -> IntArray:
    """Return ``size`` values of those that ``kept(n)`` keeps of n, asked for so many times what is missing."""
    parts, left = [np.zeros(0, dtype=np.int64)], size
    while left > 0:
        parts.append(kept(min(CHUNK, int(asked * left) + 16))[:left])
        left -= len(parts[-1])
    return np.concatenate(parts)


def discrete_laplace(scale: float, shape: int | tuple[int, ...], source: WordSource) -> IntArray:
    """Return integers with P(x) proportional to exp(-|x|/scale), exactly.

    Parameters
    ----------
    scale : float
        In votes; taken as the exact rational that the float is.
    shape : int or tuple of ints
    source : WordSource

    Notes
    -----
    Guarantee: added to counts, one changed count costs 1/scale, a replaced vote 2/scale of pure epsilon
    (Ghosh, Roughgarden and Sundararajan 2012).

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> x = discrete_laplace(20.0, 10_000, NoiseSource(1))
    >>> bool(abs(abs(x).mean() - 20) < 1)
    True
    """
    scale = _scale("scale", scale)
    size = int(np.prod(shape))
    return _signed(size, lambda n: _geometric(scale, n, source), source).reshape(shape)


def laplace_law(scale: float) -> tuple[int, FloatArray, FloatArray]:
    """Return r, the discrete Laplace's masses at -r .. r, and P(X <= x) there; beyond 100 scales it is left out."""
    r = int(np.ceil(100.0 * scale)) + 2
    mass = np.exp(-np.abs(np.arange(-r, r + 1.0)) / scale)
    mass = mass / mass.sum()
    return r, mass, np.cumsum(mass)


def discrete_gaussian(sigma: float, shape: int | tuple[int, ...], source: WordSource) -> IntArray:
    """Return integers with P(x) proportional to exp(-x^2/(2 sigma^2)), exactly (Canonne et al. 2020, algorithm 3).

    Parameters
    ----------
    sigma : float
        In votes, from 2^-6 to 2^45; taken as the exact rational that the float is.
    shape : int or tuple of ints
    source : WordSource

    Notes
    -----
    Guarantee: a count moved by d costs D_a <= a d^2/(2 sigma^2) for every order (their proposition 5); independent
    counts add.

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> x = discrete_gaussian(40.0, 10_000, NoiseSource(1))
    >>> bool(abs(x.std() - 40) < 2)
    True
    """
    sigma = check_scale("sigma", sigma, low=_SMALLEST_SCALE, high=_LARGEST_SIGMA)
    size = int(np.prod(shape))
    t = int(np.floor(sigma)) + 1
    variance = Fraction(sigma) ** 2
    centre = float(variance / t)

    def magnitudes(ask: int) -> IntArray:
        return _geometric(float(t), ask, source) if sigma <= _LARGEST_SCALE else _large_geometric(t, ask, source)

    def kept(ask: int) -> IntArray:
        y = _signed(ask, magnitudes, source)
        word = source.words(ask)
        gap = np.abs(y).astype(np.float64) - centre
        chance = np.exp(-0.5 * (gap / sigma) ** 2)
        # U in [word, word + 1) 2^-64 against exp(-gamma), known to a relative _TRUST.
        keep = (word.astype(np.float64) + 1.0) * 2.0**-64 < chance * (1.0 - _TRUST)
        drop = word.astype(np.float64) * 2.0**-64 > chance * (1.0 + _TRUST) + 2.0**-900
        for i in np.flatnonzero(~(keep | drop)):
            gamma = (abs(int(y[i])) - variance / t) ** 2 / (2 * variance)
            keep[i] = below_exp(LazyUniform(int(word[i]), 64, source), gamma)
        return np.asarray(y[keep])

    return _filled(size, 1.6, kept).reshape(shape)


@resolved
def noisy_argmax(
    counts: npt.ArrayLike, *, scale: float, source: WordSource, noise: str = "discrete_gaussian"
) -> IntArray:
    """Return the argmax of counts + integer noise; ties are broken uniformly at random.

    Parameters
    ----------
    counts : array-like of ints, shape (n_queries, n_classes)
    scale : float
        sigma of the discrete Gaussian, or the scale of the discrete Laplace; 0 never: noise is the privacy.
    source : WordSource
    noise : {"discrete_gaussian", "discrete_laplace"}

    Returns
    -------
    numpy.ndarray of int64, shape (n_queries,)

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> noisy_argmax([[500, 0], [0, 500]], scale=5.0, source=NoiseSource(0))
    array([0, 1])
    """
    array = check_counts(counts)
    check_choice("noise", noise, ["discrete_gaussian", "discrete_laplace"])
    draw = discrete_gaussian if noise == "discrete_gaussian" else discrete_laplace
    scores = array + draw(scale, array.shape, source)
    top = scores == scores.max(axis=1, keepdims=True)
    number = top.sum(axis=1)
    labels: IntArray = top.argmax(axis=1)
    tied = np.flatnonzero(number > 1)
    # The r-th of the tied classes, r uniform.
    rank = uniform_below(number[tied], source)
    labels[tied] = (np.cumsum(top[tied], axis=1) == (rank + 1)[:, None]).argmax(axis=1)
    return labels
