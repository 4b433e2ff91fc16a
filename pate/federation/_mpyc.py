"""Secure sums and labels by MPyC: Shamir sharing among institutions, each party in a child process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from math import comb
from operator import index
from typing import Any

import numpy as np

from pate._core.checks import check_int, check_real
from pate._core.types import IntArray
from pate.exceptions import InvalidInputError

from . import _party
from ._config import names_in
from ._contract import Heard, Party, Trust, check_tolerate

#: Above so many parties each draws its randomness anew and sends it: shared keys are too many.
_PRSS_PARTIES = 8
_TEXTS = {
    "ended": "the engine of {me.name}, this party, ended by itself or did not answer within {deadline:g} s, {doing}",
    "silent": "{who} did not answer within {deadline:g} s, {doing}",
    "lost": "the connection with {who} was lost, {doing}",
    "refused": "{who} sent what the protocol does not have, {doing}; it was not read",
    "stranger": "whoever answers or calls for {who} has no certificate of that name from this federation's authority",
    "listen": "this party, {me.name}, cannot listen on {me.host}:{me.port}, or its certificate and key differ",
    "differs": "{who} was asked something else than this party was, or says so",
    "broken": "a step of the computation failed at {who}, {doing}",
}


def comparisons(n_queries: int, n_classes: int) -> int:
    """Return how many secure comparisons the labels of so many queries take: each has a small risk, see ``Trust``.

    Examples
    --------
    >>> comparisons(500, 10)
    4500
    """
    return n_queries * (n_classes - 1)


def _mask_bits(n_parties: int, tolerate: int, comparison_bits: int) -> int:
    """Return MPyC's ``-K``: a comparison then reveals more than its result with at most 2^-comparison_bits.

    MPyC opens a difference of l bits plus 2^l times a mask. The mask is a sum of parts, each from its range of 2^K
    divided by their number and rounded down to a power of two, of which a coalition may miss a single one: the
    statistical distance is at most 1 over that range. One bit more is for a comparison that comes out wrong, as what is
    tested for 0 is multiplied by a random field element that may be 0.
    """
    parts = comb(n_parties, tolerate) if n_parties <= _PRSS_PARTIES else tolerate + 1
    return comparison_bits + (parts - 1).bit_length() + 1


class MPyCAggregator:
    """One party's engine for secure sums and argmaxes by MPyC, in a child process: a ``SecureAggregator``.

    Up to ``tolerate`` parties (fewer than half) that pool all they know learn nothing but the revealed result and their
    own inputs, as long as they follow the protocol. All parties must take part until the end.

    Parameters
    ----------
    parties : sequence of Party
        All of them, in the order that all agreed to: at least three. Each listens for those before it.
    me : int
        Which of them this is.
    tolerate : int
        Size of the coalition that is withstood.
    receivers : sequence of int
        Whom results are opened to.
    folder : path
        Folder in which the child process gets its own folder, which is removed when it ends.
    certificate, key, authority : path
        PEM files, see :func:`pate.federation.issue`. The certificate must name this party.
    comparison_bits : int
        See :class:`Trust`; at least 60.
    start_deadline : float
        Seconds within which all parties must be there.
    compares : bool
        Whether there will be argmaxes.
    record : path, optional
        For tests: a folder for all that this party sends and receives.
    started : callable, optional
        Told of this very object before the parties connect: whoever has it may close it meanwhile.

    Attributes
    ----------
    trust : Trust
    n_bytes_sent : int
        To the other parties, by the end of the last call.

    Examples
    --------
    All parties make theirs at the same time. Terms that cannot hold are refused before.

    >>> parties = [Party(name, "127.0.0.1", 7201) for name in ("hospital-a", "hospital-b")]
    >>> files = {
    ...     "certificate": "party.crt",
    ...     "key": "party.key",
    ...     "authority": "authority.crt",
    ... }
    >>> MPyCAggregator(parties, 0, tolerate=1, receivers=[0], folder=".", **files)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: tolerate must be below half of the 2 parties, got 1. Ask 1 ...
    """

    _program = _party.__file__

    def __init__(
        self,
        parties: Sequence[Party],
        me: int,
        *,
        tolerate: int,
        receivers: Sequence[int],
        folder: str | os.PathLike[str],
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        authority: str | os.PathLike[str],
        comparison_bits: int = 60,
        start_deadline: float = 60.0,
        compares: bool = False,
        record: str | os.PathLike[str] | None = None,
        started: Callable[[MPyCAggregator], None] | None = None,
    ) -> None:
        n = len(parties)
        check_tolerate(tolerate, n)
        check_int("me", me, low=0, high=n - 1)
        check_int("comparison_bits", comparison_bits, low=60)
        check_real("start_deadline", start_deadline, low=0.0)
        if len({party.name for party in parties}) < n:
            raise InvalidInputError("every party must have a name of its own.")
        if not receivers or not all(0 <= r < n for r in receivers):
            raise InvalidInputError(f"receivers must be indices of the {n} parties, at least one, got {receivers!r}.")
        if parties[me].name not in names_in(certificate):
            raise InvalidInputError(
                f"the certificate in {os.fspath(certificate)} does not name {parties[me].name}: it is another party's."
            )
        engine = f"MPyC {metadata.version('mpyc')}, Shamir sharing over a prime field, mutual TLS"
        self.trust = Trust(engine=engine, tolerate=tolerate, comparison_bits=comparison_bits)
        self.n_bytes_sent, self._asking = 0, True
        self._parties, self._me, self._compares = tuple(parties), me, compares
        options = ["--no-log", "--no-uvloop", "-I", str(me), "-T", str(tolerate)]
        options += ["-K", str(_mask_bits(n, tolerate, comparison_bits)), *(["--no-prss"] if n > _PRSS_PARTIES else [])]
        options += [text for p in parties for text in ("-P", f"{p.host}:{p.port}")]
        files = {"certificate": certificate, "key": key, "authority": authority, "record": record}
        files = {name: file and os.path.abspath(file) for name, file in files.items()}
        settings = {"me": me, "receivers": sorted(set(receivers)), "parties": [vars(party) for party in parties]}
        own = tempfile.mkdtemp(prefix="engine-", dir=folder)  # 0700
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MPYC_", "PYTHONWARNINGS"))}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        # In a session of its own: Ctrl-C is for the parent, which then ends the child.
        how: dict[str, Any] = {"cwd": own, "env": environment, "start_new_session": True}
        how |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._child: Any = subprocess.Popen([sys.executable, "-P", self._program], **how)
        self._end = weakref.finalize(self, _end, self._child, own)
        if started is not None:
            started(self)
        self._ask({"options": options, **settings, **files}, start_deadline, "while the parties connected")

    def sum(
        self, values: Sequence[int] | None, *, length: int, bound: int, deadline: float, about: bytes = b""
    ) -> list[int] | None:
        """Return the exact sum over all parties of ``length`` whole numbers each; None where others get it."""
        return self._compute(values, length, bound, deadline, "while summing", about=about.hex())

    def argmax(
        self, counts: Sequence[int] | None, *, n_classes: int, length: int, bound: int, deadline: float,
        about: bytes = b"",
    ) -> IntArray | None:  # fmt: skip
        """Return, for each query, the class with the largest sum; None where others get it. Ties: the lowest index."""
        if not self._compares:
            raise InvalidInputError("labels need an engine that was made with compares=True.")
        if n_classes < 2 or length % n_classes:
            raise InvalidInputError(f"length must be a multiple of n_classes, 2 or more, got {length} and {n_classes}.")
        more = {"n_classes": n_classes, "about": about.hex()}
        opened = self._compute(counts, length, bound, deadline, "while comparing", **more)
        return None if opened is None else np.array(opened, dtype=np.int64)

    def close(self) -> None:
        """End the engine's process and remove its files; what another thread waits for breaks off."""
        try:
            if self._end.alive and not self._asking:  # if another thread asks, it finds the engine gone
                with suppress(OSError, subprocess.TimeoutExpired):
                    _party.send(self._child.stdin, {"do": "close", "until": time.monotonic() + 8.0})
                    self._child.wait(10.0)  # what others still need of this party goes out
        finally:
            self._end()

    def _compute(
        self, values: Sequence[int] | None, length: int, bound: int, deadline: float, doing: str, **more: Any
    ) -> list[int] | None:
        check_int("length", length, low=1)
        check_int("bound", bound, low=1)
        check_real("deadline", deadline, low=0.0)
        try:
            own = [0] * length if values is None else [index(value) for value in values]
        except TypeError:
            own = []
        if len(own) != length or max(map(abs, own)) > bound:
            raise InvalidInputError(f"values must be {length} whole numbers of at most {bound} in absolute value.")
        answer = self._ask({"do": "compute", "values": own, "bound": bound, **more}, deadline, doing)
        self.n_bytes_sent, opened = answer["sent"], answer["opened"]
        return None if opened is None else list(opened)

    def _ask(self, request: dict[str, Any], deadline: float, doing: str) -> dict[str, Any]:
        """Return the child's answer; whatever else happens, the child is gone afterwards."""
        if not self._end.alive:
            raise Heard("this engine has ended: make another one for another run.")
        # The child gives up a little earlier, to say because of whom; a child that is stuck is ended.
        earlier = min(deadline / 2, max(1.0, min(5.0, deadline / 4)))
        request = request | {"until": time.monotonic() + deadline - earlier}
        timer = threading.Timer(deadline, self._child.kill)
        timer.daemon = True
        timer.start()
        self._asking = True
        try:
            _party.send(self._child.stdin, request)
            answer = _party.receive(self._child.stdout)
        except BrokenPipeError:
            answer = None
        except BaseException:
            self._end()
            raise
        finally:
            timer.cancel()
            self._asking = False
        answer = answer or {"failed": "ended", "parties": []}
        if "failed" not in answer:
            return answer
        self._end()
        who = " and ".join(self._parties[p].name for p in answer["parties"])
        text = _TEXTS[answer["failed"]].format(who=who, deadline=deadline, doing=doing, me=self._parties[self._me])
        if self._me in answer["parties"] and answer["failed"] == "silent":
            text += "; the others say so of this party"
        raise Heard(
            f"{text}. Nothing was opened to this party; what was charged stays charged, a new run needs fresh noise."
        )


def _end(child: Any, folder: str) -> None:
    """End the child, at once, and remove its folder."""
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        with suppress(BrokenPipeError):
            stream.close()
    shutil.rmtree(folder, ignore_errors=True)
