"""Arbitrary functions as teachers: models behind endpoints, programs in other languages, anything that votes."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import canonical, check_choice, check_classes, check_int, check_real
from pate._core.curator import warn
from pate._core.files import own_folder
from pate._core.progress import track
from pate._core.recorder import note
from pate.data import read_rows
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.teachers._shards import fixed_vote, tell_of_failures
from pate.teachers._usable import hash_rows, is_frame, is_texts
from pate.teachers.checkpoints import describe
from pate.votes import Votes

# What callable teachers have answered: in memory, and on disk so that an interrupted vote goes on.

_FORMAT = 1
_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,9})")

_README = """\
Votes of the teachers of a PATE ensemble, each a function of one shard of PRIVATE data.

Everything in this folder is sensitive: no noise was added to these votes, and no privacy guarantee covers them. Keep
the folder to yourself, and delete it when the run is over.
"""


class AnswerCache:
    """Answers by teacher and row, in memory or in a folder; a row that was answered once keeps its answer.

    Files of another version of the functions, of other classes or another number of teachers are not read.
    """

    def __init__(
        self,
        n_teachers: int,
        classes: tuple[Any, ...],
        *,
        folder: str | os.PathLike[str] | None = None,
        version: str | None = None,
    ) -> None:
        self._n_classes = len(classes)
        self._known: list[dict[str, int] | None] = [None] * n_teachers
        self._recipe = describe(["pate answers", _FORMAT, version, n_teachers, list(classes)])
        memory = ", or None to keep answers in memory only"
        self._folder = None if folder is None else own_folder("checkpoint_dir", folder, _README, otherwise=memory)

    def __repr__(self) -> str:
        return f"AnswerCache(n_teachers={len(self._known)}, answers=<sensitive>)"

    def path(self, index: int) -> Path | None:
        """Return where teacher ``index``'s answers are kept; None in memory."""
        if self._folder is None:
            return None
        name = hashlib.sha256(f"{index} {self._recipe}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"answers-{index:05d}-{name}.txt"

    def of(self, index: int) -> dict[str, int]:
        """Return teacher ``index``'s answers: digest of a row -> index of a class."""
        known = self._known[index]
        if known is None:
            known = self._known[index] = self._read(index)
        return known

    def add(self, index: int, hashes: Sequence[str], labels: Sequence[int]) -> None:
        """Keep the answers of one batch, on disk first."""
        known = self.of(index)  # reads, and mends, the file before anything is added to it
        path = self.path(index)
        if path is not None:
            lines = "".join(f"{h} {label}\n" for h, label in zip(hashes, labels, strict=True)).encode()
            # Never replaced or truncated by a writer: O_APPEND leaves every earlier line as it is.
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        known.update(zip(hashes, labels, strict=True))

    def _read(self, index: int) -> dict[str, int]:
        path = self.path(index)
        if path is None or not path.exists():
            return {}
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # a write that was cut off: its line is asked again
            os.truncate(path, whole)
        known: dict[str, int] = {}
        damaged = 0
        for line in data[:whole].splitlines():
            match = _LINE.fullmatch(line)
            label = int(match[2]) if match else -1
            if match is None or label >= self._n_classes:
                damaged += 1
                continue
            # Interned: all teachers answer the same rows. The first answer stays.
            known.setdefault(sys.intern(match[1].decode()), label)
        if damaged:
            warn(
                f"some of teacher {index}'s answers in checkpoint_dir could not be read; those rows are asked again.",
                CheckpointWarning,
            )
        return known


class CallableTeachers:
    """Use functions as teachers, one per shard of private data: fine-tuned language models, endpoints, other programs.

    Parameters
    ----------
    functions : sequence of callables
        ``functions[i](rows)`` returns one class value per row, for teacher ``i``. ``rows`` is a list of texts, or a
        part of the array, DataFrame or sparse matrix that is voted on; at most ``batch_size`` rows.
    classes : iterable
        Every class that could occur: **public** knowledge.
    unit : str
        What one shard holds whole: ``"record"``, or ``"group"`` when shards were cut by groups.
    n_units : int or None
        Number of records, or of groups, in the private data.
    batch_size : int
        Rows per call.
    n_retries : int
        How often a call that failed (or that answered something else than classes) is tried again.
    retry_wait : float
        Seconds before the first further try, doubled before each next one. A function must end by itself: give
        requests a time-out.
    n_jobs : int or None
        Functions called side by side, in threads, each function by one thread at a time; None is 1. Endpoints keep
        one waiting, so more than the number of cores pays for them.
    checkpoint_dir : path or None
        Keep answers here as well, so that an interrupted vote goes on, and no row is paid for twice. The folder is as
        sensitive as the data. One process at a time may use it.
    checkpoint_key : str or None
        What the functions are, such as ``"shards of 2026-03, adapter v2"``: with ``checkpoint_dir`` it must be given,
        as a function cannot be recognised by itself. Change it whenever a function, a shard or a prompt changes.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    classes_ : tuple
        The class values, in the order of the votes' columns.
    n_teachers : int
    failed_in_vote_ : dict of int -> str
        **Sensitive.** Which functions failed in the last ``vote``, and why.

    Raises
    ------
    InvalidInputError
        ``functions`` is not a sequence of callables, or holds one callable twice (two teachers that share a shard);
        ``checkpoint_dir`` without ``checkpoint_key``.

    Notes
    -----
    **Guarantees.** Neighbours differ in one unit (a record, or all records of one group), replaced by another. *If*
    the shards are disjoint, the shard of every other unit is the same for both neighbours (:func:`pate.partition`),
    and function ``i`` depends on shard ``i``, public things and randomness of its own alone, then one replacement
    changes one function, which moves at most one vote per query. Whether a function answers the same each time does
    not matter for that; a row that was answered keeps its answer, here and in ``checkpoint_dir``.

    This class calls function ``i`` with public rows only and passes nothing from one function to another, but it
    cannot see what a function does. The curator must make sure that teachers share

    - no examples in a prompt, no retrieval index and no fine-tuned weights beyond those of their own shard: a model
      trained on all of the data is not a teacher, and neither is a prompt that was chosen on all of it;
    - no cache, conversation or memory at the endpoint, and no generator of random numbers;
    - no batch: the answer to a row must not depend on the other rows of the call;
    - no quota that one shard's long records can use up, so that other teachers' calls fail: wait longer, and vote again
      before anything is released.

    A base model that was itself trained on the private data is outside the guarantee. Rows, and whatever the prompt
    holds, go to the endpoint: who runs it sees them.

    Examples
    --------
    >>> shards = [["refund", "broken"], ["late", "refund"], ["broken"]]
    >>> def teacher_of(shard):
    ...     def say(texts):
    ...         return [
    ...             "complaint" if any(word in text for word in shard) else "other"
    ...             for text in texts
    ...         ]
    ...
    ...     return say
    >>> teachers = CallableTeachers(
    ...     [teacher_of(s) for s in shards], classes=["other", "complaint"], n_units=5
    ... )
    >>> teachers
    CallableTeachers(n_teachers=3, classes=('other', 'complaint'))
    >>> teachers.vote(["I want a refund", "thank you"])
    Votes(n_queries=2, n_classes=2, n_teachers=3, counts=<sensitive>)
    """

    def __init__(
        self,
        functions: Sequence[Callable[[Any], Any]],
        *,
        classes: Any,
        unit: str = "record",
        n_units: int | None = None,
        batch_size: int = 32,
        n_retries: int = 3,
        retry_wait: float = 1.0,
        n_jobs: int | None = None,
        checkpoint_dir: Any = None,
        checkpoint_key: str | None = None,
        verbose: bool = False,
    ) -> None:
        self._functions = _checked(functions)
        self.n_teachers = len(self._functions)
        self.classes_ = check_classes(classes)
        self.unit = check_choice("unit", unit, ["record", "group"])
        self.n_units = None if n_units is None else check_int("n_units", n_units, low=self.n_teachers)
        self.batch_size = check_int("batch_size", batch_size, low=1)
        self.n_retries = check_int("n_retries", n_retries, low=0)
        self.retry_wait = check_real("retry_wait", retry_wait, low=0)
        self.n_jobs = 1 if n_jobs is None else check_int("n_jobs", n_jobs, low=1, remedy="These are threads.")
        self.verbose = verbose
        if checkpoint_dir is not None and not (isinstance(checkpoint_key, str) and checkpoint_key.strip()):
            raise InvalidInputError(
                f"checkpoint_key must be a text that says what the functions are, as checkpoint_dir is given, "
                f"got {checkpoint_key!r}. Write what would change the answers: the shards, the model and "
                "the prompt, with their versions."
            )
        self._place = {form: i for i, value in enumerate(self.classes_) for form in (value, canonical(value))}
        self._cache = AnswerCache(self.n_teachers, self.classes_, folder=checkpoint_dir, version=checkpoint_key)
        self._voting = threading.Lock()
        self.failed_in_vote_: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"CallableTeachers(n_teachers={self.n_teachers}, classes={self.classes_!r})"

    def vote(self, X: Any, *, keep_labels: bool = True) -> Votes:
        """Ask every function about public rows that it has not answered yet.

        Parameters
        ----------
        X : list of texts, array of shape (n_queries, ...), DataFrame or sparse matrix
            Public rows; none at all is an InvalidInputError.
        keep_labels : bool
            Whether ``votes.labels`` (n_teachers x n_queries), as **sensitive** as the counts, is kept beside them.

        Notes
        -----
        A function that failed at every try votes for class ``index % n_classes`` on the rows that it has not answered,
        for its shard may have made it fail, and no shard decides whether there are votes. ``failed_in_vote_`` says why,
        and a :class:`~pate.exceptions.CuratorWarning` tells the curator, both by the type of the failure only. Answers
        are kept: after mending, say, an endpoint that was down, voting again asks for the missing ones only.

        After Ctrl-C this returns when the calls under way have ended, and no thread stays behind.

        Examples
        --------
        >>> teachers = CallableTeachers(
        ...     [lambda x: [0] * len(x), lambda x: [1] * len(x)], classes=(0, 1)
        ... )
        >>> teachers.vote([[1.0], [2.0]]).counts
        array([[1, 1],
               [1, 1]])
        """
        rows = read_rows(X)
        hashes = hash_rows(rows)
        n_classes = len(self.classes_)
        note("functions", functions=self._functions)
        facts: dict[str, Any] = {
            "classes": self.classes_,
            "unit": self.unit,
            "n_units": self.n_units,
            "query_hashes": hashes,
        }
        kind = np.int16 if n_classes <= np.iinfo(np.int16).max else np.int32
        kept = np.empty((self.n_teachers, len(hashes)), dtype=kind) if keep_labels else None
        counts = np.zeros((len(hashes), n_classes), dtype=np.int32)
        failures: dict[int, str] = {}
        with self._voting, closing(self._ask_all(rows, hashes, failures)) as finished:
            for i in track(finished, total=self.n_teachers, label="teachers voting", show=self.verbose):
                known, fixed = self._cache.of(i), fixed_vote(i, n_classes)
                labels = np.fromiter((known.get(h, fixed) for h in hashes), dtype=np.int64, count=len(hashes))
                if kept is not None:
                    kept[i] = labels
                else:
                    counts[np.arange(len(hashes)), labels] += 1
        self.failed_in_vote_ = dict(sorted(failures.items()))
        tell_of_failures(
            failures,
            self.n_teachers,
            what="vote",
            remedy="Their own words are withheld, as they may quote private values: call the function yourself to see "
            "them. What was answered is kept: vote again to ask for the rest. ",
        )
        if kept is not None:
            return Votes.from_labels(kept, **facts)
        return Votes.from_counts(counts, n_teachers=self.n_teachers, **facts)

    def _ask_all(self, rows: Any, hashes: tuple[str, ...], failures: dict[int, str]) -> Generator[int, None, None]:
        """Yield the teachers as they have answered every row, or failed (then ``failures`` says why)."""
        stop = threading.Event()
        first = dict(zip(reversed(hashes), range(len(hashes) - 1, -1, -1), strict=True))  # one place per distinct row
        if self.n_jobs == 1:  # no thread: Ctrl-C ends the call itself
            for i in range(self.n_teachers):
                if (why := self._ask(i, rows, first, stop)) is not None:
                    failures[i] = why
                yield i
            return
        pool = ThreadPoolExecutor(min(self.n_jobs, self.n_teachers), thread_name_prefix="pate-teacher")
        try:
            futures = {pool.submit(self._ask, i, rows, first, stop): i for i in range(self.n_teachers)}
            for done in as_completed(futures):
                if (why := done.result()) is not None:
                    failures[futures[done]] = why
                yield futures[done]
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, index: int, rows: Any, first: dict[str, int], stop: threading.Event) -> str | None:
        """Have teacher ``index`` answer what it has not answered yet, batch by batch; return why it could not."""
        known = self._cache.of(index)
        # In the order of the rows: what is asked together does not depend on hashes.
        open_rows = sorted((place, digest) for digest, place in first.items() if digest not in known)
        for start in range(0, len(open_rows), self.batch_size):
            if stop.is_set():
                return None
            batch = open_rows[start : start + self.batch_size]
            places, digests = [place for place, _ in batch], [digest for _, digest in batch]
            labels, why = self._call(index, rows, places, digests, stop)
            if labels is None:
                return why
            self._cache.add(index, digests, labels)
        return None

    def _call(
        self, index: int, rows: Any, places: list[int], hashes: Sequence[str], stop: threading.Event
    ) -> tuple[list[int] | None, str | None]:
        """Return the class indices of a batch, or why there are none (nothing, when the vote was ended meanwhile)."""
        why = ""
        for attempt in range(self.n_retries + 1):
            if attempt and stop.wait(self.retry_wait * 2.0 ** (attempt - 1)):
                return None, None
            try:
                labels, why = self._labels(self._functions[index](_take(rows, places)), hashes)
            except (Exception, SystemExit) as error:
                labels, why = None, f"its function raised {type(error).__name__}"
            if labels is not None:
                return labels, None
        return None, f"{why} (tried {self.n_retries + 1} times)"

    def _labels(self, answers: Any, hashes: Sequence[str]) -> tuple[list[int] | None, str]:
        """Return the class indices that were answered to the rows of these digests, or why there are none."""
        if isinstance(answers, str | bytes | Mapping | Set) or getattr(answers, "ndim", 1) != 1:
            return None, "its function did not return a sequence of class values"
        values = [v.item() if isinstance(v, np.generic) else v for v in answers]
        if len(values) != len(hashes):
            return None, "its function did not return one class value per row"
        try:
            return [self._place[v if v in self._place else canonical(v)] for v in values], ""
        except (KeyError, TypeError):
            return None, f"its function answered something else than classes={self.classes_!r}"


def _checked(functions: Any) -> tuple[Callable[[Any], Any], ...]:
    given = tuple(functions) if isinstance(functions, list | tuple) else ()
    if not given or not all(callable(f) for f in given):
        raise InvalidInputError(
            f"functions must be a list of callables, one per shard, got a {type(functions).__name__} that is not. "
            "Bind a function to its shard's model with functools.partial."
        )
    if len({_identity(f) for f in given}) < len(given):
        raise InvalidInputError(
            "functions must hold every callable once: it is the teacher of one shard, and a second seat would let one "
            "record move two votes. Give each shard a teacher of its own."
        )
    return given


def _identity(function: Any) -> tuple[Any, ...]:
    """Return what is equal for one teacher given twice: ``model.predict`` is a new object each time it is named."""
    if isinstance(function, partial) and not (function.args or function.keywords):
        return _identity(function.func)
    if isinstance(function, partial):
        named = sorted((name, id(value)) for name, value in function.keywords.items())
        return "partial", _identity(function.func), tuple(map(id, function.args)), tuple(named)
    if getattr(function, "__name__", "") == "__call__" and hasattr(function, "__self__"):
        return _identity(function.__self__)
    if hasattr(function, "__self__"):
        return "method", getattr(function, "__name__", ""), id(function.__self__)
    return "function", id(function)


def _take(rows: Any, places: list[int]) -> Any:
    """Return a copy: what one function does to its rows no other function sees."""
    if is_texts(rows):
        return [rows[i] for i in places]
    if is_frame(rows):
        part = rows.iloc[places].copy()
        part.attrs = {}
        return part
    index: npt.NDArray[np.int64] = np.asarray(places, dtype=np.int64)
    return rows[index]
