"""Whoever votes, under D and under D': shard teachers on queries, or records in one sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import clone

from pate.audit.canaries._asked import REPEATS, contested, crafted_query, most_contested, own_teachers
from pate.audit.canaries._crafted import craft_ballot, craft_record
from pate.audit.canaries._replaced import another, far_row, other_class, with_copy, with_labels, with_row
from pate.core.checks import shown
from pate.core.frames import plain_column
from pate.data._fingerprint import records_fingerprint
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError
from pate.records import BallotSum, RecordVoters
from pate.release import default_heads
from pate.teachers import ShardEnsemble, class_indices
from pate.teachers._rows import take_rows
from pate.teachers._usable import owned
from pate.votes import Votes


class Asked(ABC):
    """Private records and whoever votes with them."""

    n_queries: int
    classes: tuple[Any, ...]

    def __init__(self, X: Any, y: Any, groups: Any, X_public: Any) -> None:
        self.X, self.y, self.groups, self.X_public = X, np.asarray(plain_column(y)), groups, X_public

    @property
    def n_records(self) -> int:
        """Number of private records."""
        return len(self.y)

    @abstractmethod
    def prepare(self, queries: str, n_queries: int | None, mechanism: Any, adversary: Any, seed: int) -> None:
        """Settle what is asked, and vote under D."""

    @abstractmethod
    def neighbours(self, kind: str, record: int, rng: np.random.Generator, *, free: bool) -> tuple[Any, Any, int]:
        """Return the votes under D and D', and which record was replaced; ``free``: a crafted one may be another."""

    def replaced(self, kind: str, record: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return X' and y' of a canary that is not crafted."""
        unit = np.array([record])
        if kind == "person":
            unit = np.flatnonzero(
                np.asarray(plain_column(self.groups)) == np.asarray(plain_column(self.groups))[record]
            )
        if kind == "natural":
            at = another(self.n_records, unit, rng)
            return with_copy(self.X, unit, at), with_labels(self.y, unit, [self.y[at]])
        X = self.X if kind != "out of distribution" else with_row(self.X, unit, far_row(self.X_public, self.X, rng))
        labels = other_class(class_indices(self.y[unit], self.classes), len(self.classes), rng)
        return X, with_labels(self.y, unit, [self.classes[i] for i in labels])


class OfShards(Asked):
    """Teachers on shards, asked about public rows."""

    def __init__(self, voters: Any, X: Any, y: Any, groups: Any, X_public: Any) -> None:
        super().__init__(X, y, groups, X_public)
        if isinstance(voters, PATEClassifier):
            voters = _ensemble_of(voters, self.n_records, X_public)
        if not isinstance(voters, ShardEnsemble):
            raise InvalidInputError(
                "voters must be a TeacherEnsemble, TorchTeacherEnsemble, HeadTeacherEnsemble, PATEClassifier or "
                f"RecordVoters, got {shown(voters)}. Of anybody else's votes under D and D', take pate.audit.pair."
            )
        if not hasattr(voters, "teachers_"):
            voters = clone(voters).fit(X, y, groups=groups)
        elif voters._fingerprint != records_fingerprint(
            class_indices(self.y, voters.classes_), owned(groups, self.n_records)[0]
        ):
            raise InvalidInputError("voters were fitted on other records than X, y, groups. Pass those, or a clone.")
        self.teachers, self.classes = voters, voters.classes_

    def prepare(self, queries: str, n_queries: int | None, mechanism: Any, adversary: Any, seed: int) -> None:
        """Settle the queries, each distinct one asked of the teachers once."""
        if queries == "crafted":
            rng = np.random.default_rng([seed, 1])
            asked = self.teachers
            if adversary is not None:
                asked = own_teachers(asked, *_two(adversary), n_records=self.n_records, seed=seed)
            self.rows = crafted_query(asked, self.X_public, mechanism, rng)
            self.places = np.zeros(n_queries or REPEATS, dtype=np.int64)
        else:
            n_public = self.X_public.shape[0] if hasattr(self.X_public, "shape") else len(self.X_public)
            places = np.arange(n_public)[:n_queries]
            if queries == "most contested":
                places = most_contested(self.teachers.vote(self.X_public, keep_labels=False), n_queries, mechanism)
            self.rows, self.places = take_rows(self.X_public, places), np.arange(len(places))
        self.mechanism, self.n_queries = mechanism, len(self.places)
        self.votes = self.teachers.vote(self.rows)

    def neighbours(self, kind: str, record: int, rng: np.random.Generator, *, free: bool) -> tuple[Votes, Votes, int]:
        """Train the one teacher anew and ask again."""
        if kind == "crafted":
            at = np.array([int(contested(self.votes.counts, self.mechanism).argmax())])
            crafted = craft_record(
                self.teachers,
                self.X,
                self.y,
                self.groups,
                self.X_public,
                take_rows(self.rows, at),
                self.votes.take(at),
                self.mechanism,
                None if free else record,
                rng,
            )
            moved, record = crafted.moved, crafted.record
        else:
            X, y = self.replaced(kind, record, rng)
            shard = int(self.teachers.partition_.assignment[record])
            moved = self.teachers.with_shard(X, y, groups=self.groups, shard=shard)
        after = moved.vote(self.rows)
        return self.votes.take(self.places), after.take(self.places), record


class OfRecords(Asked):
    """Record voters: one exact sum of all ballots, and nothing is asked."""

    n_queries = 1

    def __init__(self, voters: RecordVoters, X: Any, y: Any, groups: Any, X_public: Any) -> None:
        super().__init__(X, y, groups, X_public)
        self.voters, self.classes = voters, voters.classes

    def prepare(self, queries: str, n_queries: int | None, mechanism: Any, adversary: Any, seed: int) -> None:
        """Cast all ballots."""
        if queries != "given" or n_queries is not None or adversary is not None:
            raise InvalidInputError(
                "queries, n_queries and adversary are for teachers: record voters release one sum, and are asked "
                "nothing. Leave them out."
            )
        self.votes = self.voters.cast(self.X, self.y, groups=self.groups)

    def neighbours(
        self, kind: str, record: int, rng: np.random.Generator, *, free: bool
    ) -> tuple[BallotSum, BallotSum, int]:
        """Cast all ballots again."""
        if kind == "crafted":
            row, value = craft_ballot(self.voters, self.X, self.y, record, self.X_public, rng)
            unit = np.array([record])
            X, y = with_row(self.X, unit, row), with_labels(self.y, unit, [value])
        else:
            X, y = self.replaced(kind, record, rng)
        return self.votes, self.voters.cast(X, y, groups=self.groups), record


def _ensemble_of(model: PATEClassifier, n_records: int, X_public: Any) -> ShardEnsemble:
    """Return the unfitted teachers of a classifier whose voters are teachers."""
    who = model.who_votes()
    if who not in ("heads", "shards"):
        raise InvalidInputError(
            "this PATEClassifier lets records vote, in a space that its plan chooses, or takes DP-SGD. Pass the "
            "RecordVoters themselves, a PATEClassifier with an estimator, or DPSGDClassifier(canaries=...)."
        )
    teachers = clone(model).set_params(ledger=None)._ensemble(X_public)
    if who == "heads" and model.n_teachers is None:
        teachers.set_params(n_teachers=default_heads(n_records))
    return teachers


def _two(adversary: Any) -> tuple[Any, Any]:
    if not isinstance(adversary, list | tuple) or len(adversary) != 2:
        raise InvalidInputError(f"adversary must be (rows, labels), got {shown(adversary)}.")
    return adversary[0], adversary[1]
