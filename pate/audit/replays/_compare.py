"""Compare two replayed runs: which inner states moved, and whether one unit may move them so far."""

from __future__ import annotations

import math
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from inspect import getargvalues
from itertools import groupby, zip_longest
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from pate._core.checks import largest_of
from pate._core.types import IntArray
from pate.audit.replays._neighbours import row_hashes
from pate.audit.replays._trace import Event, Run, summary
from pate.privacy.tiers import WHOLE

# Find the call that read all private rows at once, in a pipeline that is known to leak, by profiling.

#: Modules whose calls are never the cause.
_IGNORED_MODULES = {"pate", "joblib", "threadpoolctl", *sys.stdlib_module_names} - {"__main__"}
_AUDIT = "pate.audit.replays"
_PACKAGE = Path(__file__).parents[2]
#: Folders that installers put packages into.
_LIBRARIES = {"site-packages", "dist-packages"}
#: Names of wrapper functions.
_AROUND = re.compile(r"wrapp|inner")
_DISPATCHER = re.compile(r"^_(\w+)_dispatcher$")


@dataclass(frozen=True, repr=False)
class Call:
    """A call that took as many rows as there are private records, with its result."""

    who: str  # the estimator's class, or the function
    args: str  # digest of those rows
    result: str  # digest of what it returned, and of the object that it belongs to
    rows: tuple[str, ...] | None  # digests of the rows that it returned, where they are as many


class StopRun(BaseException):
    """Raised to end a watched run once the cause is found."""


class CallWatcher:
    """Records the calls of one run that get all rows; slow, so it is used only after something leaked."""

    def __init__(self, n_records: int, before: str, other: CallWatcher | None = None, n_changed: int = 1) -> None:
        self.calls: list[Call] = []
        self.found = ""
        self.before, self._other, self._changed = before, other, n_changed
        self._n = n_records
        self._open: dict[int, tuple[str, str]] = {}
        self._busy = False
        self._passing: FrameType | None = None

    @contextmanager
    def watching(self, silent: Callable[[], bool]) -> Iterator[None]:
        """Record calls inside the context, except while ``silent()``."""

        def profile(frame: FrameType, event: str, result: Any) -> None:
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
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            self._passing = None

    def _returned(self, frame: FrameType, result: Any) -> None:
        held = self._open.pop(id(frame), None)
        if held is None:
            return
        given = {id(value) for value in _arguments(frame).values()}
        if isinstance(result, tuple) and result and given.issuperset(map(id, result)):
            return  # numpy's dispatch: reads no values
        owner = _owner(frame)
        state = summary(owner) if hasattr(owner, "get_params") else ""
        rows = row_hashes(np.asarray(result)) if self._is_rows(result) else None
        self.calls.append(Call(*held, summary(result) + state, rows))
        self._compare()

    def _compare(self) -> None:
        """End the run if the last call spread one record's change to all rows, or differs from the other run's."""
        if self._other is None:
            return
        place, mine = len(self.calls) - 1, self.calls[-1]
        if place >= len(self._other.calls) or self._other.calls[place].who != mine.who:
            raise StopRun
        other = self._other.calls[place]
        if other.args == mine.args or other.result == mine.result:
            return
        before, after = other.rows or (), mine.rows or ()
        alike = len(before) == len(after)
        changed = sum(map(operator.ne, before, after)) if alike else _n_differ(before, after)
        if not before or not after or changed > self._changed:  # else rows pass through
            self.found = mine.who
            raise StopRun

    def _called(self, frame: FrameType) -> None:
        module = frame.f_globals.get("__name__", "")
        code, caller = frame.f_code, frame.f_back
        if code.co_name == "_train_all" and module.startswith("pate.teachers") and self.before == "teachers":
            raise StopRun
        if module.partition(".")[0] in _IGNORED_MODULES or code.co_name.startswith("<") or caller is None:
            return
        if caller.f_globals.get("__name__", "").startswith(_AUDIT):
            return  # the pipeline itself
        in_library = _is_library(code)
        if in_library:  # calls inside a library are not followed
            self._passing = frame
            if caller.f_globals.get("__name__", "").partition(".")[0] == "pate":
                return  # calls by pate itself are not the cause
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


def _n_differ(mine: Iterable[Any], other: Iterable[Any]) -> int:
    """Return how many have no equal on the other side, on the side that has more of them."""
    ours, theirs = Counter(mine), Counter(other)
    return max((ours - theirs).total(), (theirs - ours).total())


def _is_library(code: CodeType) -> bool:
    return _is_library_file(code.co_filename)


@cache  # asked at every call of a watched run
def _is_library_file(name: str) -> bool:
    """Tell an installed library's files from the user's and from this package's, wherever each of them lies."""
    file = Path(name)
    return not _LIBRARIES.isdisjoint(file.parts) and not file.is_relative_to(_PACKAGE)


def _arguments(frame: FrameType) -> dict[str, Any]:
    names, rest, keywords, held = getargvalues(frame)
    return {name: held.get(name) for name in (*names, rest, keywords) if name}


def _owner(frame: FrameType) -> Any:
    """Return the object whose method a frame runs; sklearn's wrapper of ``fit`` calls it the estimator."""
    return frame.f_locals.get("self", frame.f_locals.get("estimator"))


def _who(frame: FrameType) -> str:
    """Return the name of the estimator that this call is for, or of the outermost library function around it."""
    wrapped = frame.f_locals.get("func")
    name, found, now = getattr(wrapped, "__name__", frame.f_code.co_name), "", frame
    while True:
        owner = _owner(now)
        if hasattr(owner, "get_params"):
            found = type(owner).__name__
        called = _DISPATCHER.sub(r"\1", now.f_code.co_name)
        if not _AROUND.match(called):
            name = called if owner is None else f"{type(owner).__name__}.{called}"
        # The caller of a library's outermost call is user code.
        if now.f_back is None or not _is_library(now.f_code) or not _is_library(now.f_back.f_code):
            break
        now = now.f_back
    caller = now.f_back
    if found or not called.startswith("_") or caller is None or caller.f_back is None:
        return found or name
    # A method of an array, say: named by its caller, unless that is the pipeline itself.
    is_root = caller.f_back.f_globals.get("__name__", "").startswith(_AUDIT)
    return called.lstrip("_") if is_root else caller.f_code.co_name


#: As many shards as there are.
ANY = sys.maxsize
#: Sums of clipped gradients are rounded: by so much of the clipping norm at most.
_ROUNDING = 1e-5
#: Relative rounding of a charge.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Allowed:
    """How far inner states may move between two data sets."""

    units: int  # neighbouring steps between them; 1 but for another order of the same records
    shards: int  # shards that may move where the cut is fixed, or ANY
    places: IntArray | None  # which records differ, where both have equally many
    adjacency: str
    sizes: tuple[int, int] = (0, 0)  # number of records of both
    unit: str = "record"  # {"record", "group"}: the unit of protection
    order: bool = False  # the same records in another order


@dataclass(frozen=True)
class Difference:
    """A state that moved though it may not, or too far: **sensitive**."""

    stage: str
    what: str  # in words


@dataclass
class Moved:
    """How much moved, allowed or not: the most over all steps."""

    teachers: int = 0  # of one ensemble
    votes: int = 0  # on one query
    rows: int = 0  # rows given to teachers that differ
    n_rows: int = 0
    most: float = 0.0  # of sums, the distance over the allowed one
    mu_squared: float = 0.0  # of all noisy sums together, of these two data sets
    weight: float | None = None  # the largest of the units that differ; None: no tiers were seen
    differences: list[Difference] = field(default_factory=list)


def ranges(numbers: Iterable[int], most: int = 4) -> str:
    """Return whole numbers as text such as "0 to 4, 7"."""
    # Along a run a number less its place stays the same.
    alike = groupby(enumerate(sorted(numbers)), key=lambda at: at[1] - at[0])
    runs = [[number for _, number in run] for _, run in alike]
    said = [str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs[:most]]
    left = sum(len(r) for r in runs[most:])
    return ", ".join(said) + (f" and {left} more" if left else "")


def compare(ours: Run, theirs: Run, allowed: Allowed) -> Moved:
    """Return what moved between two runs, in the order of the first one."""
    moved, on_entry = Moved(), list[Difference]()
    if ours.error is not None and theirs.error is None:
        return Moved(differences=[_failed(ours.error)])
    reported: set[str] = set()
    for place, (a, b) in enumerate(zip_longest(ours.events, theirs.events)):
        if a is None or b is None or (a.stage, a.who) != (b.stage, b.who):
            moved.differences.append(_another_course(place, a, b, theirs))
            break
        for name in dict.fromkeys([*a.public, *b.public]):
            mine, other = a.public.get(name), b.public.get(name)
            # Smooth sensitivity scales its noise by a private number, as designed.
            is_scale = name == "noise scale" and place > 0 and ours.events[place - 1].stage == "smooth sensitivity"
            if not is_scale and not _equal(mine, other):
                moved.differences.append(Difference(a.stage, _public(a, name, mine, other)))
                break
        if allowed.unit == "group" and a.public.get("unit") == "record" and "unit" not in reported:
            reported.add("unit")
            moved.differences.append(Difference("unit", _other_unit(a)))
        if a.stage == "rows":
            # Teachers that moved are clearer evidence: with teachers, rows are reported last.
            later = on_entry if any(event.stage == "teachers" for event in ours.events) else moved.differences
            later += [Difference("rows", said) for said in _given(a, b, allowed)]
            _weigh(a, b, moved)
        check = _PRIVATE.get(a.stage)
        # Shards and samples depend on places: where any may move, sums of all alone are compared.
        if check is not None and (allowed.shards != ANY or check is _sums):
            moved.differences += [Difference(a.stage, said) for said in check(a, b, allowed, moved)]
    paid = sum(event.public["cost"]["mu_squared"] for event in ours.events if event.stage == "charge")
    paid *= 1.0 if moved.weight is None else moved.weight**2
    if 0 < paid * (1 + _MARGIN) < moved.mu_squared:  # a unit in rounds that were charged beside each other, say
        said = f"all sums together moved by mu^2 = {moved.mu_squared:.3g}, where {paid:.3g} was charged"
        moved.differences.append(Difference("charge", said))
    if theirs.error is not None and not any(d.stage == "course" for d in moved.differences):
        moved.differences.append(_failed(theirs.error))
    moved.differences += on_entry
    return moved


def _other_unit(event: Event) -> str:
    who = {"partition": "the cut of shards", "votes": "what voted"}.get(event.stage, event.who)
    return f"the data have groups, and {who} was given none: it protects single records, not all that a person has"


def _given(a: Event, b: Event, allowed: Allowed) -> list[str]:
    mine, other = a.private["records"], b.private["records"]
    owners = a.private["owners"], b.private["owners"]
    if allowed.order:
        return []
    if a.who == "RecordVoters" and (len(mine), len(other)) != allowed.sizes:
        return []  # a chunk: its bounds are not private, as sums of chunks are one sum
    what = "records"
    if owners[0] is not None and owners[1] is not None:
        held = [Counter(zip(owner, found, strict=True)) for owner, found in zip(owners, (mine, other), strict=True)]
        differ, may = len({owner for owner, _ in (held[0] - held[1]) + (held[1] - held[0])}), allowed.shards
        what = "persons" if allowed.unit == "group" else "groups"
    else:
        differ = _n_differ(mine, other)
        may = allowed.shards if allowed.places is None else len(allowed.places)
        if allowed.unit == "group" and allowed.places is None:
            return []  # a person may have any number of records
    if differ <= may:
        return []
    return [f"{a.who} was given other rows of {differ:,} {what}, where the data sets differ in {may}"]


def _weigh(a: Event, b: Event, moved: Moved) -> None:
    """Note what those records weigh that differ: a unit of a small tier may move every sum by its weight alone."""
    mine, other = a.private["scales"], b.private["scales"]
    if mine is None or other is None or len(mine) != len(other):
        moved.weight = None if mine is None or other is None else 1.0
        return
    differ = [p != q for p, q in zip(a.private["records"], b.private["records"], strict=True)]
    found = float(np.maximum(mine, other)[differ].max(initial=0)) / WHOLE
    moved.weight = found if moved.weight is None else largest_of(moved.weight, found)


def _another_course(place: int, a: Event | None, b: Event | None, theirs: Run) -> Difference:
    if b is None and theirs.error is not None:
        return _failed(theirs.error)
    one, other = (f"{e.stage} ({e.who})" if e is not None else "nothing more" for e in (a, b))
    return Difference("course", f"after {place} equal steps the one run does {one}, the other {other}")


def _failed(error: Exception) -> Difference:
    return Difference("course", f"one data set makes the pipeline fail ({type(error).__name__}), the other does not")


def _equal(a: Any, b: Any) -> bool:
    return np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else bool(a == b)


def _public(event: Event, name: str, mine: Any, other: Any) -> str:
    short = all(isinstance(v, int | float | str) and len(str(v)) < 60 for v in (mine, other))
    values = f": {mine} against {other}" if short and name not in ("rows", "labels", "value") else ""
    who = {
        "student": f"what the student ({event.who}) received",
        "queries": "what the choice of queries received",
        "representation": f"what the representation ({event.who}) was fitted on",
        "returned": event.who,
        "noise": f"a draw of noise ({event.who})",
        "draw": f"what {event.who} was asked",
        "charge": "a charge",
        "ledger": "a row of the ledger",
    }.get(event.stage, event.who)
    thing = "" if name == "value" else f": its {name}" if event.stage != "votes" else f": the {name}"
    return f"{who} differs{thing}{values}"


def _states(a: Event, b: Event, moved: Moved) -> list[int]:
    """Return which states moved; another number of states is public and was reported already."""
    mine, other = a.private["states"], b.private["states"]
    if len(mine) != len(other):
        return []
    found = [i for i, (p, q) in enumerate(zip(mine, other, strict=True)) if p != q]
    moved.teachers = max(moved.teachers, len(found))
    return found


def _teachers(a: Event, b: Event, allowed: Allowed, moved: Moved) -> list[str]:
    rows = [p != q for p, q in zip(a.private["rows"], b.private["rows"], strict=False)]
    if sum(rows) > moved.rows:
        moved.rows, moved.n_rows = sum(rows), len(rows)
    found = _states(a, b, moved)
    if len(found) > allowed.shards:
        return [f"teachers {ranges(found)} moved"]
    cuts = a.private["shards"], b.private["shards"]
    if allowed.places is not None and len(cuts[0]) == len(cuts[1]) == len(rows):
        # Places here: a pipeline may have dropped records, or shuffled them.
        places = np.flatnonzero(np.array(rows) | (a.private["labels"] != b.private["labels"]) | (cuts[0] != cuts[1]))
        own = {int(i) for cut in cuts for i in cut[places]}
        unexpected = [i for i in found if i not in own]
        if unexpected:
            return [f"teacher {ranges(unexpected)} moved, which has none of the records that differ"]
    return []


def _functions(a: Event, b: Event, allowed: Allowed, moved: Moved) -> list[str]:
    found = _states(a, b, moved)
    return [f"the estimators of functions {ranges(found)} moved"] if len(found) > allowed.shards else []


def _votes(a: Event, b: Event, allowed: Allowed, moved: Moved) -> list[str]:
    mine, other = a.private, b.private
    said = _counts(a, b, allowed, moved)
    mine_labels, other_labels = mine["labels"], other["labels"]
    if mine_labels is not None and other_labels is not None and mine_labels.shape == other_labels.shape:
        found = np.flatnonzero((mine_labels != other_labels).any(axis=1))
        moved.teachers = max(moved.teachers, len(found))
        if len(found) > allowed.shards:
            said = [f"teachers {ranges(found.tolist())} vote otherwise"]
    return said


def _counts(a: Event, b: Event, allowed: Allowed, moved: Moved) -> list[str]:
    mine, other, each = a.private["counts"], b.private["counts"], a.private["each"]
    if np.shape(mine) != np.shape(other) or np.ndim(mine) != 2:
        return []  # public, and reported already
    change = np.asarray(other, dtype=np.float64) - np.asarray(mine, dtype=np.float64)  # votes by weight are fractions
    # One vote that moves takes one from a class and gives one to another; one that is dropped takes or gives alone.
    votes = np.maximum(np.maximum(change, 0).sum(axis=1), np.maximum(-change, 0).sum(axis=1))
    # A ballot of several labels moves several counts, each by one.
    votes = np.maximum(np.ceil(votes / each), np.abs(change).max(axis=1, initial=0))
    most = math.ceil(votes.max(initial=0))
    moved.votes = max(moved.votes, most)
    if most > allowed.shards:
        query = int(votes.argmax())
        return [f"{most} votes moved on query {query}, where one unit may move {allowed.shards}"]
    return []


def _sums(a: Event, b: Event, allowed: Allowed, moved: Moved) -> list[str]:
    mine, other, squared = a.private["sums"], b.private["sums"], a.public["squared sensitivity"]
    if mine.shape != other.shape:
        return [f"{a.who}: the sum has another shape"]
    change = sum(int(x) * int(x) for x in (mine - other).ravel().tolist())
    units = max(1, allowed.units) * (1 if moved.weight is None else Fraction(moved.weight))
    moved.most = largest_of(moved.most, (change / squared) ** 0.5)
    if a.stage == "sum":
        moved.mu_squared += change / squared / (a.private["noise"] * max(1, allowed.units)) ** 2
    if change > squared * units**2:
        return [f"{a.who}: the sum moved {(change / squared) ** 0.5:.3g} times as far as one unit may move it"]
    return []


def _steps(a: Event, b: Event, allowed: Allowed, moved: Moved) -> list[str]:
    mine, other, norm = a.private["sums"], b.private["sums"], a.public["clipping norm"]
    if mine.shape != other.shape:
        return ["DP-SGD: the sum of gradients has another shape"]
    # A sum that is no number has moved further than anything allows.
    far = float(np.linalg.norm(np.where(np.isnan(mine - other), np.inf, mine - other))) / norm
    may = (2.0 if allowed.adjacency == "replace-one" else 1.0) * max(1, allowed.units)
    moved.most = largest_of(moved.most, far / may)
    if far > may * (1 + _ROUNDING):
        return [f"DP-SGD, step {a.public['step']}: the sum of gradients moved by {far:.4g} clipping norms"]
    return []


_PRIVATE: dict[str, Callable[[Event, Event, Allowed, Moved], list[str]]] = {
    "teachers": _teachers,
    "functions": _functions,
    "votes": _votes,
    "draw": _counts,
    "sum": _sums,
    "ballots": _sums,
    "dpsgd": _steps,
}
