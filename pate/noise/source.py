"""Where noise for privacy comes from: the operating system, or a seed for tests."""

from __future__ import annotations

import numpy as np

from pate.core.seeds import system_bytes
from pate.core.types import WordArray
from pate.exceptions import InvalidInputError


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
    of the one that protects people. What is done to votes and ballots is decided exactly from :meth:`words` by
    :mod:`pate.noise`; DP-SGD makes floating-point normals of them.

    Examples
    --------
    >>> NoiseSource().seeded, NoiseSource(7).seeded
    (False, True)
    >>> bool((NoiseSource(7).words(3) == NoiseSource(7).words(3)).all())
    True
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
