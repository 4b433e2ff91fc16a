"""Crafted canaries: one record that turns its teacher on a contested query, or moves a sum of ballots far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.audit.canaries._asked import contested_move
from pate.audit.canaries._replaced import leverage, number_rows, with_labels, with_row
from pate.core.types import FloatArray, IntArray
from pate.records import RecordVoters
from pate.teachers import ShardEnsemble
from pate.votes import Votes

#: Teachers that are tried, and public rows that a ballot is made of.
_TEACHERS, _BALLOTS = 8, 64


@dataclass(frozen=True)
class Crafted:
    """The record that was replaced, and the ensemble that came of it."""

    record: int
    moved: ShardEnsemble


def craft_record(
    teachers: ShardEnsemble,
    X: Any,
    y: Any,
    groups: Any,
    X_public: Any,
    query: Any,
    votes: Votes,
    mechanism: Any,
    record: int | None,
    rng: np.random.Generator,
) -> Crafted:
    """Return the first record found that turns its teacher's vote on ``query`` between the two leading classes.

    Parameters
    ----------
    query : array of shape (1, ...)
    votes : Votes
        On that query, with labels.
    record : int or None
        Which one to replace; None tries some teachers, and the record of each that is nearest to the query.
    """
    assert votes.labels is not None
    rows, public = number_rows("X", X, "a crafted record"), number_rows("X_public", X_public, "a crafted record")
    counts, said = votes.counts[0], votes.labels[:, 0]
    first, second = np.argsort(-counts, kind="stable")[:2].tolist()
    if record is None:
        turns = sorted([(first, second), (second, first)], key=lambda t: -contested_move(counts, t[0], t[1], mechanism))
        places = [(int(s), to) for of, to in turns for s in rng.permutation(np.flatnonzero(said == of))[:_TEACHERS]]
    else:
        shard = int(teachers.partition_.assignment[record])
        places = [(shard, second if said[shard] == first else first)]
    centre = public.astype(np.float64).mean(axis=0)
    best: tuple[float, Crafted] | None = None
    for shard, to in places:
        own = teachers.partition_.shard(shard)
        at = record if record is not None else _nearest(rows, np.asarray(y), own, query, teachers.classes_[said[shard]])
        for _, row in leverage(np.asarray(query[0], dtype=np.float64), centre):
            unit = np.array([at])
            changed = with_row(X, unit, row.astype(np.result_type(rows.dtype, np.float32)))
            labels = with_labels(y, unit, [teachers.classes_[to]])
            moved = teachers.with_shard(changed, labels, groups=groups, shard=shard)
            after = moved.vote(query)
            assert after.labels is not None
            now = int(after.labels[shard, 0])
            worth = contested_move(counts, int(said[shard]), now, mechanism)
            if best is None or worth > best[0]:
                best = worth, Crafted(int(at), moved)
            if now == to:
                return best[1]
    assert best is not None
    return best[1]


def _nearest(rows: Any, y: Any, shard: IntArray, query: Any, value: Any) -> int:
    """Return the shard's record nearest to the query, of the class its teacher votes for where there is one."""
    own = shard[y[shard] == value]
    own = own if len(own) else shard
    away = (rows[own].astype(np.float64) - np.asarray(query, dtype=np.float64)).reshape(len(own), -1)
    return int(own[int((away**2).sum(axis=1).argmin())])


def craft_ballot(voters: RecordVoters, X: Any, y: Any, record: int, X_public: Any, rng: np.random.Generator) -> Any:
    """Return (row, class) whose ballot is as far from the record's as any tried: its own row, or public ones."""
    rows, public = number_rows("X", X, "a crafted ballot"), number_rows("X_public", X_public, "a crafted ballot")
    tried = np.concatenate([rows[[record]], -rows[[record]], public[rng.permutation(len(public))[:_BALLOTS]]])
    own = _ballot(voters, rows[record], y[record])
    best, found = -1.0, (rows[record], y[record])
    for row in tried:
        for value in voters.classes:
            away = float(((_ballot(voters, row, value) - own) ** 2).sum())
            if away > best:
                best, found = away, (row, value)
    return found


def _ballot(voters: RecordVoters, row: Any, value: Any) -> FloatArray:
    return voters.cast(np.asarray(row)[None], np.array([value])).sums.astype(np.float64)
