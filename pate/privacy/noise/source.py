"""Where noise for privacy comes from: the operating system, or a seed for tests."""

from __future__ import annotations

import hashlib

import numpy as np

from pate._core.recorder import playing
from pate._core.secret import check_secret, derive, unreplayed_bytes
from pate._core.types import WordArray
from pate.exceptions import InvalidInputError


class NoiseSource:
    """The source of random bits for privacy noise: the operating system, or a seed for tests.

    Parameters
    ----------
    seed : int or None
        None (the default) takes every bit from the operating system's cryptographic generator. A number makes the
        noise repeatable for tests and experiments: anyone who knows it can subtract the noise, so nothing is private.
    key : bytes or None
        A secret of 32 bytes from the operating system, for work that may have to be taken up again after a kill and
        must then draw what it drew before: SHAKE-256 of the key and a counter. The noise is as private as the key is.

    Notes
    -----
    Both kinds pass the same 64-bit words through the same transformations, so a test of the seeded law is a test
    of the one that protects people. What is done to votes and ballots is decided exactly from :meth:`words` by
    :mod:`pate.privacy.noise`; DP-SGD makes floating-point normals of them.

    Examples
    --------
    >>> NoiseSource().seeded, NoiseSource(7).seeded
    (False, True)
    >>> bool((NoiseSource(7).words(3) == NoiseSource(7).words(3)).all())
    True
    """

    def __init__(self, seed: int | None = None, *, key: bytes | None = None) -> None:
        self._key = None if key is None else check_secret(key)
        self._drawn = 0
        self._seed = seed
        if seed is not None and (isinstance(seed, bool) or int(seed) != seed or seed < 0):
            raise InvalidInputError(f"noise_seed must be None or a whole number >= 0, got {seed!r}.")
        #: Whether it was made in a replay (:mod:`pate._core.recorder`): its words then follow from the recorder's key,
        #: for
        #: good.
        self.in_replay = False
        recorder = playing()
        if recorder is not None:
            self.in_replay = True
            if seed is None and key is None:
                self._key = recorder.draw("noise", 32)
        self._path: tuple[int, ...] = ()
        self._bits = None if seed is None else _philox(int(seed), ())

    def child(self, *path: int) -> NoiseSource:
        """Return an independent source: of the same seed or key always the same one, at the system's always a new one.

        Parameters
        ----------
        path : int
            Whole numbers >= 0.

        Examples
        --------
        >>> a, b = NoiseSource(7).child(1), NoiseSource(7).child(2)
        >>> (
        ...     bool((a.words(2) == b.words(2)).any()),
        ...     bool((a.words(1) == NoiseSource(7).words(1)).any()),
        ... )
        (False, False)
        """
        if self._key is not None:
            made = NoiseSource(key=derive(self._key, f"noise {path}"))
            made.in_replay = made.in_replay or self.in_replay
            return made
        found = NoiseSource(self._seed)
        if self._seed is not None:
            found._path = (*self._path, *path)
            found._bits = _philox(int(self._seed), found._path)
        return found

    @property
    def seeded(self) -> bool:
        """Whether who knows the seed, or the replay's recorder, can repeat the noise: then nothing is private."""
        return self._bits is not None or self.in_replay

    def __repr__(self) -> str:
        kind = "seeded" if self.seeded else "operating system" if self._key is None else "keyed"
        return f"NoiseSource({kind})"

    def words(self, size: int) -> WordArray:
        """Return ``size`` uniform 64-bit words."""
        if self._key is not None:
            # A sponge takes its key as a prefix (Bertoni et al. 2011); no two calls share a counter.
            self._drawn += 1
            block = hashlib.shake_256(self._key + self._drawn.to_bytes(16, "big")).digest(8 * size)
            return np.frombuffer(block, dtype=np.uint64)
        if self._bits is None:
            return np.frombuffer(unreplayed_bytes(8 * size), dtype=np.uint64)
        return self._bits.random_raw(size)


def _philox(seed: int, path: tuple[int, ...]) -> np.random.Philox:
    # Its own spawn key: the same number used as random_state and noise_seed gives unrelated streams.
    return np.random.Philox(np.random.SeedSequence(seed, spawn_key=(0x9E3779B9, *path)))
