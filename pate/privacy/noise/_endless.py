"""Endless uniforms, normals and Laplace variables: as many bits as a comparison needs, in integer arithmetic only.

Slow, and hardly ever reached: the samplers come here when 64 bits and floating point leave a comparison open.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_real
from pate._core.types import IntArray, WordArray
from pate.exceptions import InvalidInputError

__all__ = ["LazyUniform", "RealNoise", "below_exp", "exp_interval", "tail_interval"]


# What the samplers share: where bits come from, and what they accept.

#: Draws made at once.
CHUNK = 1 << 18
#: Words below it (one in 2^33) always take the exact path.
TAIL = np.uint64(1 << 30)


class WordSource(Protocol):
    """The interface of a source of uniform 64-bit words, such as ``pate.privacy.noise.source.NoiseSource``.

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> isinstance(NoiseSource().words(1)[0], np.uint64)
    True
    """

    def words(self, size: int) -> WordArray:
        """Return ``size`` uniform 64-bit words."""
        ...


def check_scale(name: str, value: float, *, low: float, high: float) -> float:
    """Return a noise scale, in votes, as a float within the sampler's limits."""
    return check_real(name, value, low=low, high=high, remedy="It is in votes; typical values are 5 to 200.")


def check_counts(counts: npt.ArrayLike) -> IntArray:
    """Return whole vote counts of shape (n_queries, n_classes) as int64.

    Examples
    --------
    >>> check_counts([[3, 4]]).dtype
    dtype('int64')
    """
    array = np.asarray(counts)
    if array.ndim != 2 or array.dtype.kind not in "iu" or array.shape[1] < 2:
        raise InvalidInputError(
            f"counts must be whole numbers of shape (n_queries, n_classes >= 2), got shape {array.shape}, "
            f"dtype {array.dtype}."
        )
    if array.size and (int(array.max()) >= 2**40 or int(array.min()) <= -(2**40)):
        raise InvalidInputError("counts must lie within +-2^40.")
    return array.astype(np.int64)


class LazyUniform:
    """A uniform on [0, 1) of which ``n_bits`` bits are known: it lies in [value, value + 1) 2^-n_bits.

    Examples
    --------
    >>> u = LazyUniform(1, 1, None)
    >>> u.value, u.n_bits
    (1, 1)
    """

    def __init__(self, value: int, n_bits: int, source: Any) -> None:
        self.value = value
        self.n_bits = n_bits
        self._source = source

    def extend(self, n_bits: int) -> None:
        """Draw until at least ``n_bits`` bits are known."""
        while self.n_bits < n_bits:
            self.value = (self.value << 64) | int(self._source.words(1)[0])
            self.n_bits += 64


def exp_interval(gamma: Fraction, precision: int) -> tuple[int, int]:
    """Return integers low <= 2^precision exp(-gamma) <= high, with high - low small, for gamma >= 0.

    Examples
    --------
    >>> low, high = exp_interval(Fraction(1), 40)
    >>> low / 2**40 <= math.exp(-1) <= high / 2**40, high - low < 4
    (True, True)
    """
    if gamma < 0:
        raise InvalidInputError(f"gamma must be >= 0, got {gamma}.")
    halvings = max(0, math.ceil(gamma).bit_length() + 1)
    bits = precision + halvings + 16
    one = 1 << bits
    # gamma 2^-halvings lies in [x, x + 1] 2^-bits and is at most 1/2: an alternating series.
    x = (gamma.numerator << bits) // (gamma.denominator << halvings)
    low, high = _exp_series(x + 1, bits)[0], _exp_series(x, bits)[1]
    for _ in range(halvings):
        low, high = low * low >> bits, -(-high * high >> bits)
    shift = bits - precision
    return max(0, low >> shift), min(1 << precision, -(-min(high, one) >> shift))


def _exp_series(x: int, bits: int) -> tuple[int, int]:
    """Bounds on 2^bits exp(-x 2^-bits), 0 <= x 2^-bits <= 0.6."""
    total, term, n = 1 << bits, 1 << bits, 0
    while term:
        n += 1
        term = (term * x >> bits) // n
        total += term if n % 2 == 0 else -term
    # Each term is short by less than 2 units (one here, one passed on), and the tail is below one.
    return total - 2 * n - 2, total + 2 * n + 2


def below_exp(uniform: LazyUniform, gamma: Fraction) -> bool:
    """Return whether the uniform is below exp(-gamma): an exact Bernoulli(exp(-gamma)).

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> (
    ...     below_exp(LazyUniform(0, 64, NoiseSource(0)), Fraction(1)),
    ...     below_exp(LazyUniform(2**63, 64, NoiseSource(0)), Fraction(1)),
    ... )
    (True, False)
    """
    if gamma == 0:
        return True
    while True:
        low, high = exp_interval(gamma, uniform.n_bits)
        if uniform.value + 1 <= low:
            return True
        if uniform.value >= high:
            return False
        uniform.extend(uniform.n_bits + 64)


@cache
def _root_two_pi(bits: int) -> tuple[int, int]:
    """Bounds on 2^bits / sqrt(2 pi)."""
    work = bits + 32

    def arctan_inverse(n: int) -> int:  # 2^work arctan(1/n), within 2 units a term
        total = term = (1 << work) // n
        k = 1
        while term:
            term //= n * n
            k += 2
            total += -(term // k) if k % 4 == 3 else term // k
        return total

    two_pi = 8 * (4 * arctan_inverse(5) - arctan_inverse(239))
    slack = 1 << 16  # many times the number of terms
    low = math.isqrt((1 << (2 * bits + work)) // (two_pi + slack))
    return low, math.isqrt((1 << (2 * bits + work)) // (two_pi - slack)) + 1


def tail_interval(z: Fraction, precision: int) -> tuple[int, int]:
    """Return integers low <= 2^precision P(N(0,1) > z) <= high, for z >= 0.

    Examples
    --------
    >>> low, high = tail_interval(Fraction(1), 60)
    >>> abs(low / 2**60 - 0.15865525393145707) < 1e-15, high - low < 2**20
    (True, True)
    """
    # P(0 < N < z) = phi(z) (z + z^3/3 + z^5/(3 5) + ...), every term positive.
    square = z * z
    bits = precision + 32 + int(square)
    x = (square.numerator << bits) // square.denominator  # short by less than 1
    term_low = (z.numerator << bits) // z.denominator
    term_high = term_low + 1
    low, high, k = term_low, term_high, 1
    # The tail after a term with ratio below 1/2 is at most that term.
    while term_high > 1 or 2 * (x + 1) > (k << bits):
        k += 2
        term_low = (term_low * x >> bits) // k
        term_high = (term_high * (x + 1) >> bits) // k + 1
        low += term_low
        high += term_high
        if k > 1 << 22:
            raise InvalidInputError(f"z must be moderate, got {float(z):g}.")
    high += 2 * term_high + 2
    e_low, e_high = exp_interval(square / 2, bits)
    r_low, r_high = _root_two_pi(bits)
    half = 1 << (bits - 1)
    p_low = (low * e_low >> bits) * r_low >> bits
    p_high = ((high * e_high >> bits) + 1) * r_high // (1 << bits) + 1
    shift = bits - precision
    return max(0, half - p_high) >> shift, -(-(half - p_low) >> shift)


class RealNoise:
    """A standard normal or Laplace variable as an endless number.

    P(|noise| > its size) is an endless uniform, its sign is one bit.

    Parameters
    ----------
    word : int
        The first 64 bits: 63 of the uniform, then the sign (1 is positive).
    source : object with ``words``
        Gives further bits.
    kind : {"gaussian", "laplace"}
        Standard deviation 1, or scale 1.

    Examples
    --------
    >>> from pate.privacy.noise.source import NoiseSource
    >>> z = RealNoise(2**63, NoiseSource(0))
    >>> low, high = z.interval(40)
    >>> round(float(low), 6), float(high - low) < 1e-11
    (-0.67449, True)
    """

    def __init__(self, word: int, source: Any, kind: str = "gaussian") -> None:
        self._negative = not word & 1
        self._tail = LazyUniform(word >> 1, 63, source)
        self._gaussian = kind == "gaussian"

    def _exceeds(self, z: Fraction) -> bool:
        """Whether |noise| > z, z >= 0: the uniform is below P(|noise| > z)."""
        if not self._gaussian:
            return below_exp(self._tail, z)
        while True:
            n = self._tail.n_bits
            if z * z > 2 * n:
                # P(|N| > z) <= exp(-z^2/2) < 2^-n: no need for z^2 bits unless the uniform starts with n zeros.
                if self._tail.value:
                    return False
                self._tail.extend(n + 64)
                continue
            low, high = tail_interval(z, n + 8)  # of one side, in units of 2^-(n + 8): the uniform's half is 2^7 value
            if (self._tail.value + 1) << 7 <= low:
                return True
            if self._tail.value << 7 >= high:
                return False
            self._tail.extend(n + 64)

    def below(self, cut: Fraction) -> bool:
        """Return whether the noise is < cut (they differ almost surely)."""
        if self._negative:
            return cut >= 0 or self._exceeds(-cut)
        return cut > 0 and not self._exceeds(cut)

    def interval(self, precision: int) -> tuple[Fraction, Fraction]:
        """Return rationals low <= noise <= high, 2^-precision apart."""
        low, high = 0, 1 << precision
        while self._exceeds(Fraction(high, 1 << precision)):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self._exceeds(Fraction(middle, 1 << precision)):
                low = middle
            else:
                high = middle
        ends = Fraction(low, 1 << precision), Fraction(high, 1 << precision)
        return (-ends[1], -ends[0]) if self._negative else ends
