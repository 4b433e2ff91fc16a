"""What slow maps made of rows, remembered for a while: in this process alone, bounded, and to the very bits."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int

#: Rows that are remembered together: a multiple of every map's block, so that no row's place in its block changes.
_TOGETHER = 1024
_ACTIVE: ContextVar[RowMemory | None] = ContextVar("pate_row_memory", default=None)


class RowMemory:
    """Vectors that slow maps (scattering, networks) made, for whoever maps the same rows again.

    Fits at several budgets, or of several methods, map the same private rows by the same public maps; scattering of
    60,000 images takes minutes. Within :meth:`on`, maps look here first. What they give is the same to the last bit.

    Parameters
    ----------
    max_bytes : int
        What was used longest ago is forgotten beyond that.

    Notes
    -----
    **Sensitive**: vectors of private rows stay in this process until :meth:`forget`, or until they are crowded out;
    they are never written. Which rows were seen before shows in how long a map takes, and in nothing else.

    Examples
    --------
    >>> from pate.representations.images import Scattering
    >>> images = np.random.default_rng(0).uniform(size=(5, 28, 28))
    >>> scattering, memory = Scattering(device="cpu").fit(images), RowMemory()
    >>> with memory.on():
    ...     first, again = scattering.transform(images), scattering.transform(images)
    >>> bool((first == again).all()), memory.hits, memory
    (True, 1, RowMemory(<sensitive>))
    """

    def __init__(self, max_bytes: int = 2 << 30) -> None:
        self.max_bytes = check_int("max_bytes", max_bytes, low=1)
        self.hits = 0
        self._kept: OrderedDict[tuple[str, bytes], npt.NDArray[Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "RowMemory(<sensitive>)"

    def __reduce__(self) -> Any:
        return RowMemory, (self.max_bytes,)  # what is remembered leaves no process

    @contextmanager
    def on(self) -> Iterator[None]:
        """Let slow maps of this thread look here first."""
        token = _ACTIVE.set(self)
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def vectors(self, rep: Any, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what ``rep`` makes of rows, piece by piece from here where it is known."""
        known, made = rep.fingerprint(), []
        for start in range(0, len(X), _TOGETHER):
            rows = np.ascontiguousarray(X[start : start + _TOGETHER])
            digest = hashlib.sha256(f"{rows.dtype.str} {rows.shape}\n".encode())
            digest.update(rows.data)
            made.append(self._piece((known, digest.digest()), rep._vectors, rows))
        return np.concatenate(made)

    def _piece(
        self, key: tuple[str, bytes], compute: Callable[[Any], npt.NDArray[Any]], rows: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                self.hits += 1
                return self._kept[key]
        piece = compute(rows)
        with self._lock:
            if key not in self._kept and piece.nbytes <= self.max_bytes:
                self._kept[key] = piece
                self._bytes += piece.nbytes
                while self._bytes > self.max_bytes:
                    self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return piece


def memory_for(rep: Any, X: Any) -> RowMemory | None:
    """Return the memory that is on, where this map is slow and these are rows that are cheaply told apart."""
    memory = _ACTIVE.get()
    if memory is None or not rep.slow_ or type(X) is not np.ndarray or X.dtype.kind not in "biuf" or not len(X):
        return None
    return memory
