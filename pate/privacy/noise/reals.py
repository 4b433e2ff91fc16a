"""Decisions on real Gaussian or Laplace noise (argmax, threshold, rounding) that are exactly those of the reals.

A noise is held as its quantile, an endless string of random bits of which 64 are drawn at first. Floating point
decides comparisons that are clear by a wide margin; one that is not (about one in 10^9) is decided in integer
arithmetic with as many further bits as it takes. So there is no total variation term, no low bit of a float is ever
released, and what is proved for the continuous mechanism holds for the program, as long as float64 ``log`` and
``ndtri`` are right to an absolute 1e-10 (a test checks that they are right to 1e-12).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pate._core.checks import check_choice, check_real
from pate._core.recorder import resolved
from pate._core.types import FloatArray, IntArray, Mask, WordArray
from pate.exceptions import InvalidInputError
from pate.privacy.noise._endless import CHUNK, TAIL, RealNoise, WordSource, check_counts, check_scale

_CLEAR = 1e-9  # distance, in standard deviations, beyond which floats decide; ndtri is good to 1e-12


def _scale(name: str, value: float) -> float:
    return check_scale(name, value, low=2.0**-20, high=2.0**200)


def _exact(counts: npt.ArrayLike) -> IntArray | FloatArray:
    """Return counts that float64 holds exactly, sums with each other's too: whole ones, or multiples of 2^-16."""
    array = np.asarray(counts)
    if array.dtype.kind != "f":
        return check_counts(array)
    fine = array.astype(np.float64) * 2.0**16
    if array.ndim != 2 or array.shape[1] < 2 or not ((np.abs(fine) < 2.0**52) & (fine == np.rint(fine))).all():
        raise InvalidInputError(
            f"counts must be whole numbers, or multiples of 2^-16 within +-2^36, of shape (n_queries, n_classes >= 2), "
            f"got others, or shape {array.shape}."
        )
    return array.astype(np.float64)


def _reals(size: int, noise: str, source: WordSource) -> tuple[WordArray, FloatArray, Mask]:
    """Return the words, the real numbers they begin (within _CLEAR / 4), and which of them floats cannot place."""
    check_choice("noise", noise, ["gaussian", "laplace"])
    word = source.words(size)
    half = word >> np.uint64(1)
    middle = half.astype(np.float64) + 0.5
    # The last bit is the sign: it is independent of the other 63, which are P(|noise| > its size).
    value = -ndtri(middle * 2.0**-64) if noise == "gaussian" else 63.0 * np.log(2.0) - np.log(middle)
    np.negative(value, where=(word & np.uint64(1)) == 0, out=value)
    return word, value, half < TAIL


@resolved
def real_argmax(counts: npt.ArrayLike, *, scale: float, source: WordSource, noise: str = "gaussian") -> IntArray:
    """Return the argmax of counts + real noise, exactly as for real numbers (no rounding, no ties).

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
        Whole numbers, or floats that are multiples of 2^-16 (votes by weight): taken as the exact numbers they are.
    scale : float
        The Gaussian's standard deviation or the Laplace scale, in votes.
    source : WordSource
    noise : {"gaussian", "laplace"}

    Returns
    -------
    numpy.ndarray of int64, shape (n_queries,)

    Notes
    -----
    Guarantee: the law is that of the continuous mechanism, so ``rho_star`` and the Gaussian (GDP) bounds hold.

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> real_argmax([[500, 0], [0, 500]], scale=5.0, source=NoiseSource(0))
    array([0, 1])
    """
    array = _exact(counts)
    scale = _scale("scale", scale)
    labels = np.empty(len(array), dtype=np.int64)
    rows = max(1, CHUNK // array.shape[1])
    for start in range(0, len(array), rows):
        block = array[start : start + rows]
        word, value, tail = (part.reshape(block.shape) for part in _reals(block.size, noise, source))
        scores = block + scale * value
        best = scores.max(axis=1, keepdims=True)
        clear = _CLEAR * scale + 2.0**-50 * (np.abs(block).max(axis=1, keepdims=True) + 50.0 * scale)
        rivals = scores >= best - clear
        rivals[tail.any(axis=1)] = True
        chosen = scores.argmax(axis=1)
        for row in np.flatnonzero(rivals.sum(axis=1) > 1):
            classes = np.flatnonzero(rivals[row])
            reals = [(Fraction(block[row, j].item()), RealNoise(int(word[row, j]), source, noise)) for j in classes]
            chosen[row] = classes[_largest(reals, Fraction(scale))]
        labels[start : start + rows] = chosen
    return labels


def _largest(reals: list[tuple[Fraction, RealNoise]], scale: Fraction) -> int:
    """Return which count + scale * noise is the largest, refining until one stands clear."""
    precision = 64
    while True:
        ends = [(count, *noise.interval(precision)) for count, noise in reals]
        ranges = [(count + scale * low, count + scale * high) for count, low, high in ends]
        best = max(range(len(ranges)), key=lambda n: ranges[n][0])
        if all(n == best or ranges[n][1] < ranges[best][0] for n in range(len(ranges))):
            return best
        precision *= 2


@resolved
def real_at_least(
    values: npt.ArrayLike, *, threshold: float, scale: float, source: WordSource, noise: str = "gaussian"
) -> Mask:
    """Return whether value + real noise >= threshold, exactly as for real numbers.

    Parameters
    ----------
    values : array-like of ints, or of floats that are taken as the exact numbers they are, shape (n,)
    threshold, scale : float
        In votes; taken as the exact rationals that the floats are.
    source : WordSource
    noise : {"gaussian", "laplace"}

    Returns
    -------
    numpy.ndarray of bool, shape (n,)

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> real_at_least([0, 1000], threshold=500.0, scale=10.0, source=NoiseSource(0))
    array([False,  True])
    """
    value = np.asarray(values)
    if value.dtype.kind != "f":
        value = check_counts(np.stack([value] * 2, axis=1))[:, 0]
    elif not (np.abs(value) < 2.0**40).all():
        raise InvalidInputError("values must be finite and lie within +-2^40 votes.")
    scale, threshold = _scale("scale", scale), check_real("threshold", threshold)
    word, normal, tail = _reals(len(value), noise, source)
    gap = value + scale * normal - threshold
    out = np.asarray(gap >= 0.0)
    clear = _CLEAR * scale + 2.0**-50 * (np.abs(value) + abs(threshold) + 50.0 * scale)
    for n in np.flatnonzero((np.abs(gap) <= clear) | tail):
        cut = (Fraction(threshold) - Fraction(value[n].item())) / Fraction(scale)
        out[n] = not RealNoise(int(word[n]), source, noise).below(cut)
    return out


@resolved
def rounded_counts(
    counts: npt.ArrayLike, *, scale: float, grid: float, source: WordSource, noise: str = "gaussian"
) -> FloatArray:
    """Return counts + real noise rounded to the nearest multiple of ``grid``, exactly: safe to publish.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
        Whole numbers, or floats that are multiples of 2^-16 (votes by weight): taken as the exact numbers they are.
    scale : float
        The Gaussian's standard deviation or the Laplace scale, in votes.
    grid : float
        In votes, a power of two. Slow below 2^-30 scale, where floats decide few roundings.
    source : WordSource
    noise : {"gaussian", "laplace"}

    Returns
    -------
    numpy.ndarray of float64, shape (n_queries, n_classes)
        Multiples of ``grid``.

    Notes
    -----
    Guarantee: post-processing of the continuous mechanism, so the Gaussian's mu = d/sigma holds without a remainder
    (for the discrete Gaussian it does not).

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers, or a scale or grid that cannot be used.

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> x = rounded_counts([[90, 10]], scale=4.0, grid=0.25, source=NoiseSource(0))
    >>> bool((x % 0.25 == 0).all())
    True
    """
    array = _exact(counts)
    scale, grid = _scale("scale", scale), check_real("grid", grid, low=0, low_open=True)
    if np.frexp(grid)[0] != 0.5:
        raise InvalidInputError(f"grid must be a power of two, got {grid!r}. Use 2.0**-10, say.")
    flat = array.ravel()
    word, real, tail = _reals(flat.size, noise, source)
    value = (flat + scale * real) / grid
    out = np.rint(value)
    clear = _CLEAR * scale / grid + 2.0**-49 * (1.0 + np.abs(value) + np.abs(flat) / grid)
    for n in np.flatnonzero((np.abs(value - np.floor(value) - 0.5) <= clear) | tail):
        lazy = RealNoise(int(word[n]), source, noise)
        low, high = lazy.interval(64)
        count = Fraction(flat[n].item())
        guess = round((count + Fraction(scale) * (low + high) / 2) / Fraction(grid))
        while not lazy.below(((guess + Fraction(1, 2)) * Fraction(grid) - count) / Fraction(scale)):
            guess += 1
        while lazy.below(((guess - Fraction(1, 2)) * Fraction(grid) - count) / Fraction(scale)):
            guess -= 1
        out[n] = guess
    return np.asarray((out * grid).reshape(array.shape) + 0.0)


@resolved
def rounded_up(value: Fraction, *, scale: Fraction, grid: Fraction, source: WordSource, noise: str = "gaussian") -> int:
    """Return the least k with k grid >= value + scale (real noise), exactly: one number, safe to publish.

    Parameters
    ----------
    value, scale, grid : Fraction
        Exact, whatever floats they came from; scale and grid above 0.
    source : WordSource
    noise : {"gaussian", "laplace"}

    Notes
    -----
    Guarantee: post-processing of the real number value + scale (noise), of which only the multiple of the public
    ``grid`` above it gets out: no low bit of a float does.

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> rounded_up(
    ...     Fraction(5),
    ...     scale=Fraction(1, 10**9),
    ...     grid=Fraction(1, 100),
    ...     source=NoiseSource(0),
    ... ) in (500, 501)
    True
    """
    check_choice("noise", noise, ["gaussian", "laplace"])
    if scale <= 0 or grid <= 0:
        raise InvalidInputError("scale and grid must be above 0.")
    lazy = RealNoise(int(source.words(1)[0]), source, noise)
    low, high = lazy.interval(max(4, math.ceil(scale / grid).bit_length() + 4))
    guess = math.ceil((value + scale * (low + high) / 2) / grid)
    while not lazy.below((guess * grid - value) / scale):
        guess += 1
    while lazy.below(((guess - 1) * grid - value) / scale):
        guess -= 1
    return guess
