"""What holds for every test and doctest, wherever it stands."""

import os
import random
from collections.abc import Iterator

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores: threads of theirs would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from pate.core import seeds as _random


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Draw in every test the same "bits of the operating system": what passed once passes again.

    The path of the code is the real one (nothing is seeded, statements say so), only the bits come from a stream named
    by the test. Processes started in a test draw real ones.
    """
    stream, here = random.Random(item.nodeid), os.getpid()
    real = _random._operating_system
    _random._operating_system = lambda size: stream.randbytes(size) if os.getpid() == here else real(size)
    try:
        return (yield)
    finally:
        _random._operating_system = real


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name contents of files by their length: written out they are unreadable, and may hold the time or a nonce.

    Processes that share the tests among them have to agree on every test's name.
    """
    return f"{argname}{len(val)}" if isinstance(val, bytes | bytearray) else None
