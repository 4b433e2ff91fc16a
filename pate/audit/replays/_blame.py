"""Who looked at all private rows at once: found by watching calls, in a pipeline that is known to leak."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FrameType
from typing import Any

import numpy as np

from pate.audit.replays._records import row_hashes
from pate.audit.replays._trace import summary

#: Modules whose calls are nobody's idea.
_NOBODY = {"pate", "joblib", "threadpoolctl", *sys.stdlib_module_names} - {"__main__"}
_AUDIT = "pate.audit.replays"
_PATE = f"{os.sep}pate{os.sep}"
#: Functions around functions.
_AROUND = re.compile(r"wrapp|inner")
_DISPATCHER = re.compile(r"^_(\w+)_dispatcher$")


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


class Seen(BaseException):
    """Ends a run that has shown what it was watched for."""


class Witness:
    """Watches one run's calls; slow, so it is asked once something leaks.

    Parameters
    ----------
    n_records : int
    before : str
        Ends the run where this stage is about to begin, if it is "teachers" and they are trained by pate.
    other : Witness or None
        Of the run to compare with: this one ends when somebody is found.
    n_changed : int
        Rows in which the data sets differ.
    """

    def __init__(self, n_records: int, before: str, other: Witness | None = None, n_changed: int = 1) -> None:
        self.calls: list[Call] = []
        self.found = ""
        self.before, self._other, self._changed = before, other, n_changed
        self._n = n_records
        self._open: dict[int, tuple[str, str]] = {}
        self._busy = False
        self._passing: FrameType | None = None

    @contextmanager
    def watching(self, silent: Callable[[], bool]) -> Iterator[None]:
        """Watch what is called inside, but for what happens while ``silent()``."""

        def look(frame: FrameType, event: str, result: Any) -> None:
            if self._passing is not None:
                if event != "return" or frame is not self._passing:
                    return
                self._passing = None
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
        if held is None:
            return
        if isinstance(result, tuple) and result and _are_arguments(result, frame):
            return  # numpy asking whose function it is: it looks at nothing
        owner = _owner(frame)
        state = summary(owner) if hasattr(owner, "get_params") else ""
        rows = row_hashes(np.asarray(result)) if self._is_rows(result) else None
        self.calls.append(Call(*held, summary(result) + state, rows))
        self._compare()

    def _compare(self) -> None:
        """End the run if the last call made one record's change everybody's, or is not the other run's."""
        if self._other is None:
            return
        place, mine = len(self.calls) - 1, self.calls[-1]
        if place >= len(self._other.calls) or self._other.calls[place].who != mine.who:
            raise Seen
        other = self._other.calls[place]
        if other.args == mine.args or other.result == mine.result:
            return
        before, after = other.rows or (), mine.rows or ()
        if len(before) == len(after):
            changed = sum(p != q for p, q in zip(before, after, strict=True))
        else:
            lost, gained = Counter(before) - Counter(after), Counter(after) - Counter(before)
            changed = max(lost.total(), gained.total())
        if not before or not after or changed > self._changed:  # else rows pass through
            self.found = mine.who
            raise Seen

    def _called(self, frame: FrameType) -> None:
        module = frame.f_globals.get("__name__", "")
        code, caller = frame.f_code, frame.f_back
        if code.co_name == "_train_all" and module.startswith("pate.teachers") and self.before == "teachers":
            raise Seen
        if module.partition(".")[0] in _NOBODY or code.co_name.startswith("<") or caller is None:
            return
        if caller.f_globals.get("__name__", "").startswith(_AUDIT):
            return  # the pipeline itself
        in_library = _is_library(code)
        if in_library:  # what it calls sees no more than it does
            self._passing = frame
            if caller.f_globals.get("__name__", "").partition(".")[0] == "pate":
                return  # pate's own way with rows is nobody's idea
        given = [value for name, value in _arguments(frame).items() if name != "self"]
        given += [part for value in given if isinstance(value, tuple) for part in value]
        given += [part for value in given if isinstance(value, dict) for part in value.values()]
        shown = [value for value in given if self._is_rows(value)]
        if shown:
            self._open[id(frame)] = (_who(frame), summary(shown))

    def _is_rows(self, value: Any) -> bool:
        if isinstance(value, np.ndarray):
            return value.ndim > 0 and len(value) == self._n and value.dtype.kind != "O"
        return hasattr(value, "iloc") and len(value) == self._n


def _is_library(code: CodeType) -> bool:
    return "site-packages" in code.co_filename and _PATE not in code.co_filename


def _arguments(frame: FrameType) -> dict[str, Any]:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + _stars(code)]
    return {name: frame.f_locals.get(name) for name in names}


def _are_arguments(result: tuple[Any, ...], frame: FrameType) -> bool:
    held = [id(value) for value in _arguments(frame).values()]
    return all(id(value) in held for value in result)


def _owner(frame: FrameType) -> Any:
    """Return whose method a frame runs; sklearn's wrapper of ``fit`` calls it the estimator."""
    return frame.f_locals.get("self", frame.f_locals.get("estimator"))


def _stars(code: CodeType) -> int:
    return bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)


def _who(frame: FrameType) -> str:
    """Return the estimator that this call is for, or the outermost function of the libraries that it stands in."""
    wrapped = frame.f_locals.get("func")
    name, found, now = getattr(wrapped, "__name__", frame.f_code.co_name), "", frame
    while True:
        owner = _owner(now)
        if hasattr(owner, "get_params"):
            found = type(owner).__name__
        called = _DISPATCHER.sub(r"\1", now.f_code.co_name)
        if not _AROUND.match(called):
            name = called if owner is None else f"{type(owner).__name__}.{called}"
        # Beyond a library's outermost call stands whoever asked for it.
        if now.f_back is None or not _is_library(now.f_code) or not _is_library(now.f_back.f_code):
            break
        now = now.f_back
    caller = now.f_back
    if found or not called.startswith("_") or caller is None or caller.f_back is None:
        return found or name
    # A method of an array, say: told of by who called it, unless that is the pipeline itself.
    is_root = caller.f_back.f_globals.get("__name__", "").startswith(_AUDIT)
    return called.lstrip("_") if is_root else caller.f_code.co_name
