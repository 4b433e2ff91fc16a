"""Predict private records with a student, each row by itself, so that counts of right answers have their sensitivity.

:mod:`pate.records._right` says what that needs. Where rows keep their places they are predicted in blocks of one fixed
shape; where another person's records might move them, each row is predicted alone. A row that the student cannot
predict has no answer, and changes no other's: its block is predicted again with other rows of the block in its place.
Code that may read all rows of a block, or is random in ``predict``, predicts row by row, a fresh copy each time.
"""

from __future__ import annotations

import copy
import hashlib
import re
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from pate._core.curator import CuratorMessage, warn, warn_curator
from pate._core.secret import global_generators
from pate._core.types import IntArray, Mask
from pate.data import is_frame
from pate.exceptions import CuratorWarning, StudentWarning
from pate.records import BLOCK_ROWS, count_right, own_throughout, slabs, take
from pate.release import LabelRelease, PaidCounts, ReleasedCounts, message_of_counts
from pate.representations import Representation, ask_block, is_known_throughout

#: The curator is told where asking record by record would take so many seconds, by the first ones of it.
_LONG, _FIRST = 60.0, 2.0


def answers_alone(student: Any, rows: Any, usable: Mask, *, n_classes: int, keep_places: bool) -> IntArray:
    """Return a student's class index for each private row, from that row alone; -1 where it gives none.

    ``rows`` (n, ...), ``usable`` (n,) and what is returned (n,) are **private**, the student is public. With
    ``keep_places`` all other rows of a neighbouring table have the same places. A student that is not
    :func:`is_known_throughout` predicts each row alone, by a fresh copy with the same state of numpy's generator: slow,
    and correct for any that can be copied.
    """
    found = np.full(len(usable), -1, dtype=np.int64)
    known = is_known_throughout(student)
    size = BLOCK_ROWS if keep_places and known else 1
    fresh = copies(student, same=known)
    todo = slabs(len(usable), size)

    def predict(numbers: IntArray) -> IntArray:
        return _predicted(fresh(), take(rows, numbers), n_classes)

    def ask(until: float) -> int:
        with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"), global_generators():
            warnings.simplefilter("ignore")  # they may quote private values
            for start, end in todo:
                ask_block(predict, start, np.flatnonzero(usable[start:end]), size, found)
                if time.process_time() > until:
                    return end
        return len(usable)

    if size == 1:
        begun = time.process_time()
        end = ask(begun + _FIRST)
        wanted = (time.process_time() - begun) * len(usable) / max(end, 1)
        if end < len(usable) and wanted > _LONG:
            with suppress(CuratorWarning):  # raised by python -W error: what is paid for goes on
                warn_curator([_slow(student, wanted, len(usable), known)])
    ask(np.inf)
    return found


def _slow(student: Any, seconds: float, n: int, known: bool) -> CuratorMessage:
    why = "the student has code that is not scikit-learn's or pate's, which might look at other rows"
    if known:
        why = "a person's records may move the places of all others"
    return CuratorMessage(
        f"to measure accuracy the student ({type(student).__name__}) is asked about each of {n:,} records by itself, "
        f"which takes about {max(1, round(seconds / 60))} min: {why}. measure=False (--measure no) leaves it out."
    )


def copies(student: Any, *, same: bool = False) -> Callable[[], Any]:
    """Return a function that copies the student as it is now, and resets numpy's generator; or that returns it."""
    original = student if same else copy.deepcopy(student)

    def fresh() -> Any:
        if same:
            return original
        np.random.seed(0)  # noqa: NPY002 - the caller's state is put back
        return copy.deepcopy(original)

    return fresh


def as_public(rows: Any, public: Any) -> Any:
    """Return private rows with the public rows' categories in columns of that type; other rows as they are.

    Categories found in all private rows would let one record shift the codes of the others. A value that is not among
    the public categories is missing, in that record alone.
    """
    if not (is_frame(rows) and is_frame(public)):
        return rows
    import pandas as pd

    made = {}
    for name in rows.columns[[isinstance(kind, pd.CategoricalDtype) for kind in rows.dtypes]]:
        there = public[name].dtype
        values = rows[name].astype(object)
        if isinstance(there, pd.CategoricalDtype):
            values = pd.Categorical(values.where(values.isin(there.categories)), dtype=there)
        made[name] = values
    return rows.assign(**made) if made else rows


def _predicted(student: Any, rows: Any, n_classes: int) -> IntArray:
    predicted = np.asarray(student.predict(rows)).reshape(rows.shape[0])
    whole = predicted.astype(np.int64)
    return np.where((whole == predicted) & (whole >= 0) & (whole < n_classes), whole, -1)


def has_frozen(student: Any) -> bool:
    """Whether cloning leaves a part of it fitted, to data that is unknown here."""
    if isinstance(student, list | tuple):
        return any(map(has_frozen, student))
    if isinstance(student, Representation):
        return not own_throughout(student)
    if not hasattr(student, "get_params"):
        return False
    frozen = getattr(type(student), "__sklearn_clone__", None) is not BaseEstimator.__sklearn_clone__
    return frozen or any(map(has_frozen, student.get_params(deep=False).values()))


def measured_labels(
    release: LabelRelease,
    paid: PaidCounts,
    student: Any,
    rows: Any,
    labels: IntArray,
    *,
    usable: Mask,
    groups: Any = None,
    identity: Any = None,
    made_here: bool = True,
    read_here: bool = True,
    asked_for: bool = True,
) -> tuple[LabelRelease, ReleasedCounts | None]:
    """Measure a student's accuracy, add it to the labels' statement, and return the labels and the cells by class.

    ``rows`` (n, ...) are the records that voted, ``labels`` (n,) their class indices (-1: none), ``usable`` (n,) and
    ``groups`` (n,) their owners: all **private**. ``identity`` are the public values that, with these labels, determine
    the student; the same student gets its stored count. ``made_here``: the maps before it were fitted by pate on public
    rows; ``read_here``: pate read each row by itself. If the paid count was drawn for another student, this one is not
    measured, and nothing is charged; if ``asked_for``, the user is warned (StudentWarning).
    """
    given = [release.labels.tobytes(), b"" if release.noisy_counts is None else release.noisy_counts.tobytes()]
    settings = None
    with suppress(Exception):  # a repr leaves out long values, and the state of a frozen part
        settings = joblib.hash(identity)
    settings = settings or re.sub(r" at 0x[0-9a-f]+", "", repr(identity))
    parts = [settings, *(hashlib.sha256(one).hexdigest() for one in given)]
    model = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    n_classes, own = len(release.classes), read_here and is_known_throughout(student)
    answers = answers_alone(student, rows, usable & (labels >= 0), n_classes=n_classes, keep_places=groups is None)
    found: list[ReleasedCounts] = []
    for by_class in (False, True)[: len(paid.mechanisms)]:
        right = count_right(
            answers, labels, classes=release.classes, groups=groups, by_class=by_class, model=model, own=own
        )
        drawn = paid.release(right)
        if drawn is None:
            break
        found.append(drawn)
    if not found and asked_for:
        warn(
            "the count of right answers that was paid for with these labels is of another student: this one is not "
            "measured, and nothing was charged.",
            StudentWarning,
        )
    if not found:
        return release, None
    statement = message_of_counts(release.statement, found, paid, made_here=made_here and not has_frozen(student))
    return replace(release, statement=statement), found[1] if len(found) > 1 else None
