"""What a process has once, and every task must give back as it was: threads, warnings, Ctrl-C."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if Ctrl-C came meanwhile and was swallowed.

    scikit-learn's MLPClassifier stops early then and says nothing: a half-trained teacher would be kept.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed = False

    def note(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def contained() -> Iterator[None]:
    """Hold inner threads to one and silence warnings; both are as before afterwards.

    Hundreds of small problems side by side lose tenfold to threads that fight over each of them.
    """
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
