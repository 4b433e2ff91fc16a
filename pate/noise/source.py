"""Where noise for privacy comes from: the operating system, or a seed for tests."""

from __future__ import annotations

import numpy as np

from pate.core.seeds import system_bytes
from pate.core.types import FloatArray, WordArray
from pate.exceptions import InvalidInputError

_TWO_POW_MINUS_64 = 2.0**-64


class NoiseSource:
    """Random numbers for privacy noise.

    Parameters
    ----------
    seed : int or None
        None (the default) takes every bit from the operating system's cryptographic generator. A number makes the
        noise repeatable for tests and experiments: whoever knows it can subtract the noise, so nothing is private.

    Notes
    -----
    Both kinds pass the same 64-bit words through the same transformations, so a test of the seeded law is a test
    of the one that protects people. What is done to votes is decided exactly from :meth:`words` by
    :mod:`pate.noise`. :meth:`normal` is floating point, for DP-SGD: uniforms are (k + 1) 2^-64, hence normals
    reach 9.4 standard deviations, and the total variation distance from the exact law is about 2^-63 per draw.

    Examples
    --------
    >>> NoiseSource().seeded, NoiseSource(7).seeded
    (False, True)
    >>> NoiseSource(7).normal((2, 3)).shape
    (2, 3)
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (isinstance(seed, bool) or int(seed) != seed or seed < 0):
            raise InvalidInputError(f"noise_seed must be None or a whole number >= 0, got {seed!r}.")
        # Its own spawn key: the same number used as random_state and noise_seed gives unrelated streams.
        self._bits = (
            None if seed is None else np.random.Philox(np.random.SeedSequence(int(seed), spawn_key=(0x9E3779B9,)))
        )

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated by whoever knows the seed (then nothing is private)."""
        return self._bits is not None

    def __repr__(self) -> str:
        return f"NoiseSource({'seeded' if self.seeded else 'operating system'})"

    def words(self, size: int) -> WordArray:
        """Return ``size`` uniform 64-bit words.

        Examples
        --------
        >>> NoiseSource().words(4).dtype
        dtype('uint64')
        """
        if self._bits is None:
            return np.frombuffer(system_bytes(8 * size), dtype=np.uint64)
        return self._bits.random_raw(size)

    def _uniform(self, size: int) -> FloatArray:
        return (self.words(size).astype(np.float64) + 1.0) * _TWO_POW_MINUS_64

    def normal(self, shape: int | tuple[int, ...]) -> FloatArray:
        """Return standard normals (Box and Muller 1958).

        Examples
        --------
        >>> bool(abs(NoiseSource(0).normal(10_000).std() - 1) < 0.05)
        True
        """
        size = int(np.prod(shape))
        half = (size + 1) // 2
        radius = np.sqrt(-2.0 * np.log(self._uniform(half)))
        angle = 2.0 * np.pi * self._uniform(half)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].reshape(shape)
