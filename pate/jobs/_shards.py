"""A job whose teachers vote: planned by public shapes, trained on disjoint shards, asked about some public rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import make_pipeline

from pate.core.checks import check_int
from pate.core.secret import training_seed
from pate.data import TableEncoder, make_shard_encoder
from pate.exceptions import InvalidInputError
from pate.jobs._asked import LabelSettings
from pate.jobs._choice import QueryChoice, Uncertain, take
from pate.jobs._plan import LabelPlan
from pate.jobs._reading import Sources, kept_in, name_of
from pate.jobs._records import in_planes, public_representation
from pate.ledger import Registration
from pate.release import (
    Asking,
    BatchPlan,
    Evidence,
    LabelSession,
    Outcome,
    Priced,
    Quote,
    ReleaseTerms,
    affordable_answers,
    cast_votes,
    default_heads,
    expected_of_votes,
    opened,
    price_of,
    session_left,
    warn_if_weak,
)
from pate.release._pipeline import with_affordable_counts
from pate.representations import Representation
from pate.teachers import HeadTeacherEnsemble, ShardEnsemble, make_ensemble
from pate.votes import ABSTAIN, Voter, Votes, hash_queries

# Public rows that are asked about in rounds, each chosen by the labels of those before; all are paid for first.


@dataclass(frozen=True, eq=False)
class Chooser:
    """Whoever chooses rows, by public rows and released labels alone, and a look at what comes of it."""

    choice: QueryChoice
    rows: Any
    random_state: int | None

    def rounds(self, n_queries: int) -> tuple[int, ...]:
        """Return how many rows each round asks about."""
        found = tuple(self.choice.rounds(n_queries))
        if not found or any(check_int("a round of select", n, low=1) < 1 for n in found) or sum(found) != n_queries:
            raise InvalidInputError(f"select must ask {n_queries} rows in its rounds, got rounds of {found}.")
        return found

    def choose(
        self, n: int, labels: npt.NDArray[np.int64], open_rows: npt.NDArray[np.int64], number: int
    ) -> npt.NDArray[np.int64]:
        """Return a round's rows, ascending, and see that a plug-in gave what it may."""
        seed = self.random_state
        if seed is not None and number:
            seed = training_seed(seed, 0xADA, number)
        found = self.choice.choose(self.rows, n, labels=labels.copy(), open_rows=open_rows, random_state=seed)
        rows = np.unique(np.asarray(found))
        if rows.dtype.kind not in "iu" or not 1 <= len(rows) <= n or not np.isin(rows, open_rows).all():
            raise InvalidInputError(
                f"select chose {len(rows)} rows that are not 1 to {n} positions of open rows. Return some of open_rows."
            )
        return rows.astype(np.int64)


@dataclass(frozen=True, eq=False)
class RoundsPlan:
    """What :class:`pate.release.BatchPlan` is, for a session: ``run`` takes all public rows, and chooses among them.

    ``n_fresh`` queries will be paid for now: none, where an earlier session is taken up again.
    """

    terms: ReleaseTerms
    asking: Asking
    chooser: Chooser
    hashes: npt.NDArray[np.object_]
    n_teachers: int
    rounds: tuple[int, ...]
    n_fresh: int
    quote: Quote

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        asking: Asking,
        chooser: Chooser,
        hashes: npt.NDArray[np.object_],
        *,
        n_teachers: int,
    ) -> RoundsPlan:
        """Return the plan, or raise :class:`BudgetExceededError`; nothing is spent."""
        n = min(asking.n_queries, len(set(hashes)))
        rounds = chooser.rounds(n)

        def priced(terms: ReleaseTerms) -> Priced:
            left = None
            if terms.ledger is not None:
                name = _session_name(chooser, rounds, hashes)
                left = session_left(asking.mechanism, terms, n_queries=n, n_teachers=n_teachers, name=name)
            due, n_fresh = (terms, n) if left is None else (replace(terms, counts=()), 0)
            return terms, n_fresh, price_of(n_fresh, asking.mechanism, due)

        terms, n_fresh, price = with_affordable_counts(priced, terms, asking)
        return cls(terms, asking, chooser, hashes, n_teachers, rounds, n_fresh, price)

    @property
    def n_free(self) -> int:
        """How many queries are paid for already."""
        return sum(self.rounds) - self.n_fresh

    def run(self, voter: Voter, rows: Any, evidence: Evidence) -> Outcome:
        """Ask round by round; labels released so far are all that decides the next round's rows."""
        labels = np.full(len(self.hashes), ABSTAIN, dtype=np.int64)
        _, first = np.unique(self.hashes, return_index=True)
        open_rows = np.sort(first).astype(np.int64)
        asked: list[Votes] = []
        chosen: list[npt.NDArray[np.int64]] = []
        session: LabelSession | None = None
        try:
            for number, n in enumerate(self.rounds):
                now = self.chooser.choose(n, labels, open_rows, number)
                votes = cast_votes(voter, take(rows, now), tuple(self.hashes[now]), evidence, n_queries=len(now))
                if session is None:
                    session = self._open(votes)
                    # Otherwise some labels are of teachers that an earlier process trained: nobody here saw those.
                    whole = session.n_left == session.quote.n_queries
                    evidence = replace(evidence, trained=evidence.trained and whole)
                labels[now] = self.asking.decided(session.ask(votes, on_exhausted="abstain")).labels
                open_rows = np.setdiff1d(open_rows, now, assume_unique=True)
                asked.append(votes)
                chosen.append(now)
            # All once more, free: one release, whose statement covers every round.
            assert session is not None
            order = np.argsort(np.concatenate(chosen))
            queries = np.concatenate(chosen)[order]
            counts = np.concatenate([votes.counts for votes in asked])[order]
            every = replace(asked[0], counts=counts, query_hashes=tuple(self.hashes[queries]))
            release = session.ask(every, on_exhausted="abstain")
        finally:
            if session is not None:
                session.close()
        return Outcome(self.asking.decided(evidence.told_in(release, voter)), queries, every, session.counts())

    def _open(self, votes: Votes) -> LabelSession:
        return opened(
            self.asking.mechanism,
            self.terms,
            Registration.of_votes(votes),
            votes.classes,
            n_queries=sum(self.rounds),
            classes_inferred=votes.classes_inferred,
            name=None if self.terms.ledger is None else _session_name(self.chooser, self.rounds, self.hashes),
            planned=(self.n_fresh, self.quote),
        )


def _session_name(chooser: Chooser, rounds: tuple[int, ...], hashes: npt.NDArray[np.object_]) -> str:
    """Return a session's name: everything that decides which rows are asked, but for the labels."""
    what = f"{type(chooser.choice).__name__} {rounds} {chooser.random_state}\n" + "\n".join(hashes)
    return f"pate label {hashlib.sha256(what.encode()).hexdigest()}"


#: Public rows on which it is seen that a teacher can be trained at all.
_REHEARSED = 100
#: Where nothing is said.
_N_TEACHERS = 100


@dataclass(frozen=True, eq=False, repr=False)
class ShardRoad:
    """From private records to labels of some public rows, by teachers on disjoint shards.

    ``teachers`` are untrained; ``encoder`` was fitted on public rows, and is None where a representation, the shards or
    nobody encodes; ``rows`` are public ones as the teachers take them, ``commonest`` is as a person stated it.
    """

    source: Sources
    teachers: ShardEnsemble
    encoder: TableEncoder | Representation | None
    rows: Any
    road: BatchPlan | RoundsPlan
    evidence: Evidence
    plan: LabelPlan
    commonest: float | None = None

    @classmethod
    def of(
        cls,
        job: LabelSettings,
        source: Sources,
        terms: ReleaseTerms,
        *,
        classes: tuple[Any, ...] | None,
        estimator: Any,
        measure: bool | str | None,
    ) -> Self:
        """Fit public encodings, choose what is asked and price it; of private records only their number is used."""
        heads, teacher = job.voters == "heads", job.teacher
        unit, n_units, n_public = source.unit, source.n_units, len(source.public)
        n_records = None if unit == "group" else n_units
        n_teachers = job.n_teachers
        if n_teachers is None:
            n_teachers = default_heads(n_records) if heads else _N_TEACHERS
        if n_units < n_teachers:
            raise InvalidInputError(
                f"n_teachers must be at most the number of {unit}s ({n_units}), got {n_teachers}. Use fewer teachers."
            )
        warn_if_weak(terms.budget.delta, n_units, epsilon=terms.budget.epsilon)
        n_classes = 2 if classes is None else len(classes)
        asking = job.asking(
            n_public, n_teachers=n_teachers, n_classes=n_classes, n_records=n_records, measure=measure, n_units=n_units
        )
        table = source.kind == "table"
        encoder: TableEncoder | Representation | None = None
        if heads:
            teacher, estimator = "head", HeadTeacherEnsemble(public_representation(job, source))
        elif source.kind == "texts":
            if job.preprocess != "public":
                raise InvalidInputError(f"preprocess must be 'public' for texts, got {job.preprocess!r}. Leave it out.")
            encoder = public_representation(job, source)
        elif table and job.preprocess == "public":
            encoder = TableEncoder(max_categories=job.max_categories).fit(source.public)
        elif table and job.preprocess == "shard":
            if isinstance(estimator, ShardEnsemble):
                raise InvalidInputError(
                    f"preprocess must be 'public' or 'none' for teacher {teacher!r}: torch teachers take numbers, and "
                    "no pipeline makes them inside their shards."
                )
            estimator = make_pipeline(make_shard_encoder(source.public, max_categories=job.max_categories), estimator)
        rows = numbers = _encoded(source.public, source, encoder, heads=heads)
        if table and encoder is None and job.select not in ("random", "first"):
            # For choosing among them; by what the public rows teach in any case.
            numbers = TableEncoder(max_categories=job.max_categories).fit_transform(source.public)
        chooser = Chooser(job.choice, numbers, job.random_state)
        road = plan_questions(terms, asking, chooser, source.hashed, n_teachers=n_teachers)
        batch = road if isinstance(road, BatchPlan) else None
        plan = LabelPlan(
            n_records=len(source.y),
            n_units=n_units,
            n_public=n_public,
            unit=unit,
            n_teachers=n_teachers,
            mechanism=asking.mechanism,
            queries=None if batch is None else batch.queries,
            gap=asking.gap,
            n_free=road.n_free,
            quote=road.quote,
            teacher=name_of(teacher, estimator),
            select=job.select if isinstance(job.select, str) else type(job.select).__name__,
            rounds=road.rounds if isinstance(road, RoundsPlan) else (len(road.queries),),
            encoding=encoding_of(
                source.kind, _width(source.public), _width(rows), "heads" if heads else job.preprocess
            ),
            affordable=affordable_answers(asking.mechanism, road.terms),
            counts=road.terms.counts,
            files=source.files,
            expectation=expected_of_votes(asking.mechanism, n_teachers, n_classes),
        )
        job.check_enough(plan, n_classes)
        if isinstance(job.choice, Uncertain) and len(plan.rounds) > 1:
            job.choice.try_out(numbers, sum(plan.rounds), n_classes)
        teachers: ShardEnsemble = make_ensemble(
            estimator,
            n_teachers,
            classes=classes,
            n_jobs=job.n_jobs,
            random_state=job.random_state,
            partition_seed=job.partition_seed,
            checkpoint_dir=kept_in(job.checkpoint_dir, estimator, teacher),
            verbose=job.verbose,
        )
        evidence = Evidence(
            classes_inferred=classes is None,
            trained=True,
            preprocessing="none" if source.kind == "images" else job.preprocess,
            public_rows=job.public_rows,
        )
        return cls(source, teachers, encoder, rows, road, evidence, plan, job.commonest)

    def run(self, y: npt.NDArray[Any]) -> Outcome:
        """Train, ask and release; ``y`` holds the classes' own values."""
        source, road = self.source, self.road
        X = _encoded(source.X, source, self.encoder, heads=isinstance(self.teachers, HeadTeacherEnsemble))
        shown = take(self.rows, np.arange(min(_REHEARSED, len(self.rows))))
        self.teachers.fit(X, y, groups=source.groups, X_public=shown)
        del X
        rows = take(self.rows, road.queries) if isinstance(road, BatchPlan) else self.rows
        return road.run(self.teachers, rows, self.evidence)


def _width(rows: Any) -> int:
    return int(np.shape(rows)[1]) if np.ndim(rows) > 1 else 1


def _encoded(rows: Any, source: Sources, encoder: TableEncoder | Representation | None, *, heads: bool) -> Any:
    """Return rows as voters take them."""
    if heads:
        return in_planes(rows, source.image_shape)
    return rows if encoder is None else encoder.transform(rows)


def plan_questions(
    terms: ReleaseTerms, asking: Asking, chooser: Chooser, hashed: Any, *, n_teachers: int
) -> BatchPlan | RoundsPlan:
    """Choose the rows, or how they will be chosen, and price them: a job's one quote.

    ``hashed`` are public rows as they stand in the file, so that another encoding still finds its stored answers.
    """
    if len(chooser.rounds(asking.n_queries)) > 1:
        hashes = np.array(hash_queries(hashed), dtype=object)
        return RoundsPlan.of(terms, asking, chooser, hashes, n_teachers=n_teachers)
    n_public = len(hashed)
    queries = chooser.choose(asking.n_queries, np.full(n_public, ABSTAIN), np.arange(n_public), 0)
    return BatchPlan.of(terms, asking, queries, hash_queries(take(hashed, queries)))


def encoding_of(kind: str, n_columns: int, n_numbers: int, how: str) -> str:
    """Return in words how so many columns become numbers; ``how``: as ``preprocess`` says, or ``"heads"``."""
    if kind == "texts":
        return "texts, by a representation that the public ones teach"
    if kind == "images":
        return f"images of {n_numbers} numbers, pixels divided by 255"
    ways = {
        "heads": f"{n_columns} columns, by a representation that the public rows teach",
        "public": f"{n_columns} columns become {n_numbers} numbers, by what the public rows teach",
        "shard": f"{n_columns} columns, encoded inside every shard",
        "none": f"{n_columns} columns, encoded nowhere: as they are",
    }
    return ways[how]
