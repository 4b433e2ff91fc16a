"""Two sources of randomness that never meet: training seeds, and noise for privacy.

The third one, the secret of the shards, is in :mod:`pate._secret`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError

_TWO_POW_MINUS_64 = 2.0**-64

_operating_system: Callable[[int], bytes] = os.urandom


def system_bytes(size: int) -> bytes:
    """Return bytes from the operating system's cryptographic generator: the one place that asks it.

    Examples
    --------
    >>> len(system_bytes(32)), system_bytes(32) == system_bytes(32)
    (32, False)
    """
    return _operating_system(size)


def training_seed(seed: int | None, *path: int) -> int:
    """Return a 32-bit seed for one piece of training, fixed by ``seed`` and the piece's place.

    The result does not depend on the order in which pieces are trained, nor on the number of workers. It is no secret:
    32 bits are guessed, and reports print them. Nothing that privacy rests on may hang on it.

    Parameters
    ----------
    seed : int or None
        The user's ``random_state``; None draws from the operating system.
    *path : int
        Where the piece stands, such as (teacher, epoch).

    Examples
    --------
    >>> training_seed(0, 3) == training_seed(0, 3), training_seed(0, 3) == training_seed(0, 4)
    (True, False)
    """
    entropy = int.from_bytes(system_bytes(16), "little") if seed is None else int(seed)
    if entropy < 0:
        raise InvalidInputError(f"random_state must be None or a whole number >= 0, got {seed!r}.")
    return int(np.random.SeedSequence(entropy, spawn_key=path).generate_state(1)[0])


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
    :mod:`pate.sampling`. :meth:`normal` is floating point, for DP-SGD: uniforms are (k + 1) 2^-64, hence normals
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

    def words(self, size: int) -> npt.NDArray[np.uint64]:
        """Return ``size`` uniform 64-bit words.

        Examples
        --------
        >>> NoiseSource().words(4).dtype
        dtype('uint64')
        """
        if self._bits is None:
            return np.frombuffer(system_bytes(8 * size), dtype=np.uint64)
        return self._bits.random_raw(size)

    def _uniform(self, size: int) -> npt.NDArray[np.float64]:
        return (self.words(size).astype(np.float64) + 1.0) * _TWO_POW_MINUS_64

    def normal(self, shape: int | tuple[int, ...]) -> npt.NDArray[np.float64]:
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
