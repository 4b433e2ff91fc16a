"""Ctrl-C in tests."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C be heard in here and in processes started here, also under ``nohup`` or in the background.

    A shell has such a job ignore SIGINT, and every child inherits that: a test that presses Ctrl-C would wait for
    nothing. Only around such tests: a run in the background must not end at the Ctrl-C that its terminal gets.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
