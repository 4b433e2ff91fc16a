"""Who looked at all private rows at once: found by watching calls, in a pipeline that is known to leak."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FrameType
from typing import Any

import numpy as np

from pate.audit.replays._records import row_hashes
from pate.audit.replays._trace import digest

#: Modules whose calls are nobody's idea.
_NOBODY = {"pate", "joblib", "threadpoolctl", *sys.stdlib_module_names} - {"__main__"}
_AUDIT = "pate.audit.replays"
_PATE = f"{os.sep}pate{os.sep}"
#: Functions around functions.
_AROUND = re.compile(r"wrapp|inner|_?\w*dispatcher$")


@dataclass(frozen=True, repr=False)
class Call:
    """A call that was given as many rows as there are private records, and returned.

    Attributes
    ----------
    who : str
        The estimator's class, or the function.
    args : str
        Digest of those rows.
    result : str
        Digest of what it returned, and of the object that it belongs to.
    rows : tuple of str or None
        Digests of the rows that it returned, where they are as many.
    """

    who: str
    args: str
    result: str
    rows: tuple[str, ...] | None


class Witness:
    """Watches one run's calls; slow, so it is asked once something leaks.

    Parameters
    ----------
    n_records : int
    """

    def __init__(self, n_records: int) -> None:
        self.calls: list[Call] = []
        self._n = n_records
        self._open: dict[int, tuple[str, str]] = {}
        self._busy = False
        self._passing: FrameType | None = None

    @contextmanager
    def watching(self, silent: Callable[[], bool]) -> Iterator[None]:
        """Watch what is called inside, but for what happens while ``silent()``."""

        def look(frame: FrameType, event: str, result: Any) -> None:
            if self._passing is not None:
                if event == "return" and frame is self._passing:
                    self._passing = None
                return
            if self._busy or event not in ("call", "return") or silent():
                return
            self._busy = True
            try:
                self._returned(frame, result) if event == "return" else self._called(frame)
            finally:
                self._busy = False

        before = sys.getprofile()
        sys.setprofile(look)
        try:
            yield
        finally:
            sys.setprofile(before)
            self._passing = None

    def _returned(self, frame: FrameType, result: Any) -> None:
        held = self._open.pop(id(frame), None)
        if held is not None:
            owner = frame.f_locals.get("self")
            state = digest(vars(owner)) if hasattr(owner, "get_params") else ""
            rows = row_hashes(np.asarray(result)) if self._is_rows(result) else None
            self.calls.append(Call(*held, digest(result) + state, rows))

    def _called(self, frame: FrameType) -> None:
        module = frame.f_globals.get("__name__", "")
        code, caller = frame.f_code, frame.f_back
        if module.partition(".")[0] in _NOBODY or code.co_name.startswith("<") or caller is None:
            return
        if caller.f_globals.get("__name__", "").startswith(_AUDIT):
            return  # the pipeline itself
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + _stars(code)]
        given = [frame.f_locals.get(name) for name in names if name != "self"]
        given += [part for value in given if isinstance(value, tuple) for part in value]
        given += [part for value in given if isinstance(value, dict) for part in value.values()]
        shown = [value for value in given if self._is_rows(value)]
        if shown:
            self._open[id(frame)] = (_who(frame), digest([digest(value) for value in shown]))
        elif _is_library(code) and not _is_library(caller.f_code):
            self._passing = frame  # what it calls sees no more than it does

    def _is_rows(self, value: Any) -> bool:
        if isinstance(value, np.ndarray):
            return value.ndim > 0 and len(value) == self._n and value.dtype.kind != "O"
        return hasattr(value, "iloc") and len(value) == self._n


def _is_library(code: CodeType) -> bool:
    return "site-packages" in code.co_filename and _PATE not in code.co_filename


def _stars(code: CodeType) -> int:
    return bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)


def _who(frame: FrameType) -> str:
    """Return the estimator that this call is for, or the outermost function of the libraries that it stands in."""
    name, found, now = frame.f_code.co_name, "", frame
    while True:
        owner = now.f_locals.get("self")
        if hasattr(owner, "get_params"):
            found = type(owner).__name__
        if not _AROUND.match(now.f_code.co_name):
            name = now.f_code.co_name if owner is None else f"{type(owner).__name__}.{now.f_code.co_name}"
        # Beyond a library's outermost call stands whoever asked for it.
        if now.f_back is None or not _is_library(now.f_code) or not _is_library(now.f_back.f_code):
            break
        now = now.f_back
    return found or name


def blamed(ours: Witness, theirs: Witness, n_changed: int) -> str:
    """Return who first made one record's change everybody's; empty where nobody is found."""
    for a, b in zip(ours.calls, theirs.calls, strict=False):
        if a.who != b.who:
            return ""
        if a.args == b.args or a.result == b.result:
            continue
        if a.rows is not None and b.rows is not None and len(a.rows) == len(b.rows):
            changed = sum(p != q for p, q in zip(a.rows, b.rows, strict=True))
            if changed <= n_changed:
                continue  # rows pass through
        return a.who
    return ""
