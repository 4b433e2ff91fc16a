"""Seeds for training, and the one door to the bits of the operating system.

Noise for privacy is made of the latter in :mod:`pate.noise.source`, and the secret of the shards in
:mod:`pate.core.secret`: the three never meet.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from pate.core.checks import check_int
from pate.core.tape import playing

_operating_system: Callable[[int], bytes] = os.urandom


def system_bytes(size: int) -> bytes:
    """Return bytes from the operating system's cryptographic generator: the one place that asks it.

    In a replay (:mod:`pate.core.tape`) they follow from the tape's key, and what is made of them is not private.
    """
    tape = playing()
    return _operating_system(size) if tape is None else tape.draw("system", size)


def unreplayed_bytes(size: int) -> bytes:
    """Return such bytes for what is kept in a file: they come from the operating system in a replay, too."""
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
    """
    entropy = int.from_bytes(system_bytes(16), "little") if seed is None else check_int("random_state", seed, low=0)
    return int(np.random.SeedSequence(entropy, spawn_key=path).generate_state(1)[0])


@contextmanager
def global_generators(seed: int | None = None) -> Iterator[None]:
    """Seed ``np.random`` and ``random``, and give both back as they were.

    Whatever draws from them (``StratifiedKFold(shuffle=True)`` in a search, say) would make each teacher depend on how
    much the teachers before it drew, and so on their shards.
    """
    state, plain = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(plain)
