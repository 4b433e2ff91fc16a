"""Which queries are asked: given ones, the most contested, or one that an adversary crafted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from pate.audit.canaries._replaced import number_rows
from pate.core.types import FloatArray, IntArray
from pate.exceptions import CuratorWarning, DuplicateRecordsWarning, InvalidInputError
from pate.mechanisms import ExactLaw
from pate.privacy.exact.given_pair import given_pair
from pate.teachers import ShardEnsemble
from pate.votes import Votes

#: Kinds of queries.
QUERIES = ("given", "most contested", "crafted")
#: How often a crafted query is asked where nothing else is said.
REPEATS = 300
#: Renyi order by which queries are ranked: of many queries asked together, the small orders decide.
_ORDER = 2.0
#: Lines between public rows of two classes, points on each, and how often the interval is narrowed.
_LINES, _STEPS, _ROUNDS = 48, 7, 5
#: Rows that the exact law is asked of at the end.
_TORN = 32
#: Public rows are also taken so many times as far from their mean: teachers may agree on them the more.
_STRETCHED = (3.0,)
#: Public rows that the ends of lines are looked for among.
_ENDS = 1000


def contested(counts: IntArray, mechanism: Any) -> FloatArray:
    """Return how much one vote can move the answer of each query: its exact Renyi divergence, else minus the gap."""
    if isinstance(mechanism, ExactLaw):
        return mechanism.exact_rdp(counts, [_ORDER])[:, 0]
    top = np.sort(counts, axis=1)
    return (top[:, -2] - top[:, -1]).astype(np.float64)


def contested_move(counts: IntArray, of: int, to: int, mechanism: Any) -> float:
    """Return how much one vote moved between two classes moves the answer of one query."""
    if of == to:
        return 0.0
    other = np.array(counts)
    other[of] -= 1
    other[to] += 1
    if isinstance(mechanism, ExactLaw):
        return float(given_pair([counts], [other], **mechanism.exact_parameters()).rdp([_ORDER]).max())
    return float(((other - counts) ** 2).sum())


def turned(counts: IntArray, mechanism: Any) -> FloatArray:
    """Return how much one vote moved between the two leading classes moves the answer of each query, at best."""
    if not isinstance(mechanism, ExactLaw):
        return contested(counts, mechanism)
    leaders = np.argsort(-counts, axis=1, kind="stable")[:, :2]
    rows, worth = np.arange(len(counts)), np.zeros(len(counts))
    for of, to in (leaders.T, leaders.T[::-1]):
        moved = np.array(counts)
        able = moved[rows, of] > 0
        moved[rows[able], of[able]] -= 1
        moved[rows[able], to[able]] += 1
        pair = given_pair(counts, moved, **mechanism.exact_parameters())
        worth[pair.places] = np.maximum(worth[pair.places], pair.rdp_by_query(_ORDER).max(axis=0))
    return worth


def own_teachers(teachers: ShardEnsemble, rows: Any, labels: Any, n_records: int, seed: int) -> ShardEnsemble:
    """Return an adversary's ensemble of the same kind, on their own rows, redrawn to as many as the private ones."""
    rng = np.random.default_rng(seed)
    X, y = number_rows("adversary[0]", rows, "an adversary's teachers"), np.asarray(labels)
    if len(X) != len(y):
        raise InvalidInputError(f"adversary must be (rows, labels) of one length, got {len(X)} and {len(y)}.")
    drawn = rng.permutation(len(X)) if len(X) >= n_records else rng.integers(len(X), size=n_records)
    drawn = drawn[:n_records]
    theirs = clone(teachers)
    theirs.set_params(random_state=seed, partition_seed=seed, checkpoint_dir=None, classes=teachers.classes_)
    with warnings.catch_warnings():
        # Nobody's privacy hangs on these teachers.
        warnings.simplefilter("ignore", DuplicateRecordsWarning)
        warnings.simplefilter("ignore", CuratorWarning)
        return theirs.fit(X[drawn], y[drawn])


def crafted_query(voter: ShardEnsemble, X_public: Any, mechanism: Any, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return one row on which the teachers of ``voter`` are torn between two classes, shape (1, ...).

    On lines between public rows (or further out) that almost all agree on, towards where the vote is most contested.
    """
    rows = number_rows("X_public", X_public, "a crafted query")
    if len(rows) > _ENDS:
        rows = rows[rng.permutation(len(rows))[:_ENDS]]
    rows = rows.astype(np.result_type(rows.dtype, np.float32))
    centre = rows.mean(axis=0, dtype=rows.dtype)
    rows = np.concatenate([rows, *(centre + by * (rows - centre) for by in _STRETCHED)])
    counts = voter.vote(rows, keep_labels=False).counts
    starts, ends = _ends(counts, rng)
    tried, told = [rows], [counts]
    low, high = np.zeros(len(starts)), np.ones(len(starts))
    lines = np.arange(len(starts))
    for _ in range(_ROUNDS):
        t = low + (high - low) * np.linspace(0.0, 1.0, _STEPS)[:, None]  # (steps, lines)
        mix = t.reshape(-1, *[1] * (rows.ndim - 1))
        first, last = (np.tile(rows[side], (_STEPS, *[1] * (rows.ndim - 1))) for side in (starts, ends))
        tried.append((first + mix * (last - first)).astype(rows.dtype))
        told.append(voter.vote(tried[-1], keep_labels=False).counts)
        at = _second(told[-1]).reshape(_STEPS, -1).argmax(axis=0)
        low, high = t[np.maximum(at - 1, 0), lines], t[np.minimum(at + 1, _STEPS - 1), lines]
    every, counts = np.concatenate(tried), np.concatenate(told)
    # The exact law decides among those that have most votes for the second class: half of all at a pure tie.
    torn = np.argsort(-_second(counts), kind="stable")[:_TORN]
    return np.asarray(every[torn[[int(turned(counts[torn], mechanism).argmax())]]])


def _second(counts: IntArray) -> IntArray:
    return np.asarray(np.sort(counts, axis=1)[:, -2])


def _ends(counts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the ends of lines: clear rows of two classes each."""
    winner, margin = counts.argmax(axis=1), np.sort(counts, axis=1)
    clear = margin[:, -1] - margin[:, -2]
    of_class = [rows[np.argsort(-clear[rows], kind="stable")[:20]] for rows in _by_class(winner)]
    if len(of_class) < 2:
        raise InvalidInputError("the teachers vote for one class on all of X_public: there is no line between classes.")
    starts, ends = [], []
    for _ in range(_LINES):
        a, b = rng.choice(len(of_class), size=2, replace=False)
        starts.append(int(rng.choice(of_class[a])))
        ends.append(int(rng.choice(of_class[b])))
    return np.array(starts), np.array(ends)


def _by_class(winner: IntArray) -> list[IntArray]:
    return [np.flatnonzero(winner == c) for c in np.unique(winner)]


def most_contested(votes: Votes, n_queries: int | None, mechanism: Any) -> IntArray:
    """Return the places of the queries whose answer one vote can move most."""
    return np.argsort(-contested(votes.counts, mechanism), kind="stable")[: n_queries or REPEATS]
