"""The roads of a job: private records vote, DP-SGD learns from them, or teachers on disjoint shards vote."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import make_pipeline

from pate.core.checks import check_int
from pate.core.secret import training_seed
from pate.data import TableEncoder, make_shard_encoder
from pate.estimator._by_dpsgd import Ask, TrainingPlan, measured_with, plan_records, plan_training, stand_ins
from pate.exceptions import InvalidInputError
from pate.jobs._asked import LabelSettings
from pate.jobs._choice import QueryChoice, Uncertain, take
from pate.jobs._plan import BallotPlan, GradientPlan, LabelPlan
from pate.jobs._reading import Sources, in_planes, kept_in, name_of
from pate.ledger import Registration
from pate.recipes import (
    FEWEST_PUBLIC,
    Expectation,
    MappedLinear,
    RecordModel,
    RecordsPlan,
    check_expected,
    expected,
    fitted_representation,
    kind_of,
    some_rows,
    without_privacy,
)
from pate.release import (
    Asking,
    BatchPlan,
    Evidence,
    LabelSession,
    ModelLabels,
    Outcome,
    Priced,
    Quote,
    RecordLabels,
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
from pate.teachers._usable import units_of
from pate.votes import ABSTAIN, Voter, Votes, hash_queries

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint


def _ask(job: LabelSettings, source: Sources, classes: tuple[Any, ...]) -> Ask:
    n_units, unit = units_of(source.groups, len(source.y))
    return Ask(
        classes=classes,
        n_units=n_units,
        unit=unit,
        classes_inferred=job.classes is None,
        image_shape=source.image_shape,
        random_state=job.random_state,
        n_jobs=job.n_jobs if len(source.y) > _FEWEST_SHARED else None,
        checkpoint_dir=job.checkpoint_dir,
        verbose=job.verbose,
        anyway=job.anyway,
        measure=measured_with(job.measure, job.student),
        decide=job.decide,
    )


# A job whose private records vote themselves: planned by public facts, and every public row is labelled.


@dataclass(frozen=True, eq=False, repr=False)
class BallotRoad:
    """From private records to labels of all public rows, by ballots; ``commonest`` is as a person stated it."""

    source: Sources
    ballots: RecordsPlan
    evidence: Evidence
    plan: BallotPlan
    commonest: float | None = None

    @classmethod
    def of(
        cls, job: LabelSettings, source: Sources, terms: ReleaseTerms, *, classes: tuple[Any, ...], why: str = ""
    ) -> Self:
        """Fit public maps and price all rounds; of private records only their number is used."""
        ask, n_public = _ask(job, source, classes), len(source.public)
        if n_public < FEWEST_PUBLIC:
            raise InvalidInputError(
                f"public must have at least {FEWEST_PUBLIC} rows for records to vote, got {n_public}: public rows make "
                "the map that private records vote on. Add public rows, or say voters='dpsgd' (--voters dpsgd)."
            )
        warn_if_weak(terms.budget.delta, source.n_units, epsilon=terms.budget.epsilon)
        ask = replace(ask, representation=public_representation(job, source))
        ballots = plan_records(in_planes(source.public, source.image_shape), terms, ask)
        hope = _hope_of(ballots, anyway=job.anyway, commonest=job.commonest)
        evidence = Evidence(
            preprocessing="public" if ballots.voters.own_maps else "none", public_rows=job.public_rows, road=why
        )
        before = f"{source.public.shape[1]} columns" if source.kind == "table" else source.kind
        encoding = f"{before} become {ballots.z.shape[1]} numbers, by what the public rows teach"
        plan = BallotPlan(
            n_units=ballots.n_units,
            n_public=n_public,
            unit=ballots.unit,
            encoding=encoding,
            recipe=ballots.recipe,
            mechanisms=ballots.mechanisms,
            measured_shares=ballots.measured_shares,
            guarantee=ballots.guarantee,
            is_paid=ballots.stored,
            expectation=str(hope),
            instead=without_privacy(ballots.facts, job.commonest),
            files=source.files,
        )
        return cls(source, ballots, evidence, plan, job.commonest)

    def run(self, y: npt.NDArray[Any]) -> tuple[RecordLabels, RecordModel]:
        """Charge, cast every round, and return all labels and the model; ``y`` holds the classes' own values."""
        source = self.source
        X = in_planes(source.X, source.image_shape)
        return self.ballots.run(X, y, groups=source.groups, evidence=self.evidence, commonest=self.commonest)


#: So many records are cast before other processes would have begun.
_FEWEST_SHARED = 50_000


def _hope_of(ballots: RecordsPlan, *, anyway: bool, commonest: float | None) -> Expectation:
    """Return what to expect of what will be (or was) paid for, and refuse to pay for next to nothing."""
    facts = replace(ballots.facts, mu=ballots.mu)
    if anyway or ballots.stored:
        return expected(facts, ballots.recipe)
    delta = ballots.terms.budget.delta
    return check_expected(facts, ballots.recipe, unit=ballots.unit, delta=delta, commonest=commonest)


def public_representation(job: LabelSettings, source: Sources) -> Representation:
    """Return the default representation of such data, fitted on public rows or found in ``checkpoint_dir``."""
    rows = in_planes(source.public, source.image_shape)
    seed = 0 if job.random_state is None else job.random_state % 2**32
    return fitted_representation(
        kind_of(rows, source.image_shape),
        some_rows(rows, seed),
        image_shape=source.image_shape,
        random_state=seed,
        max_categories=job.max_categories,
        checkpoint_dir=job.checkpoint_dir,
        verbose=job.verbose,
    )


# A job whose model DP-SGD learns from the private records: planned by public facts, with or without public rows.


@dataclass(frozen=True, eq=False, repr=False)
class GradientRoad:
    """From private records to a model by DP-SGD, and to its labels of all public rows."""

    source: Sources
    training: TrainingPlan
    evidence: Evidence
    plan: GradientPlan

    @classmethod
    def of(
        cls, job: LabelSettings, source: Sources, terms: ReleaseTerms, *, classes: tuple[Any, ...], why: str = ""
    ) -> Self:
        """Choose recipe, public map and noise, and price the run; of private records only their number is used."""
        rows = None if source.public is None else in_planes(source.public, source.image_shape)
        shape, ranges = tuple(np.shape(source.X)[1:]), job.ranges
        training = plan_training(
            rows,
            terms,
            _ask(job, source, classes),
            row_shape=shape,
            like=stand_ins(source.X, ranges) if rows is None else rows,
            ranges=ranges,
        )
        before = f"{shape[0]} columns" if source.kind == "table" else source.kind
        said = "what the public rows teach" if training.road.facts.n_public else "public constants"
        after = training.road.maps[-1].n_features_out_ if training.road.maps else int(np.prod(shape))
        plan = GradientPlan(
            n_units=training.ask.n_units,
            n_public=0 if rows is None else len(source.public),
            unit=training.ask.unit,
            encoding=f"{before} become {after} numbers, by {'declared ranges' if ranges is not None else said}",
            chosen=why,
            reasons=training.road.recipe.reasons,
            n_steps=training.plan.shape.n_steps,
            sampling=training.plan.mechanism.words(training.plan.shape),
            noise_multiplier=training.plan.noise_multiplier,
            guarantee=training.guarantee,
            is_paid=training.resumed,
            before=training.before,
            counts=getattr(training.plan.mechanism, "counts", ()),
            files=source.files,
        )
        evidence = Evidence(public_rows=None if rows is None else job.public_rows, road=why)
        return cls(source, training, evidence, plan)

    def run(self, y: npt.NDArray[Any]) -> tuple[ModelLabels, MappedLinear, Checkpoint | None]:
        """Charge, train, and return all labels, the model and what was kept to go on with."""
        source = self.source
        X = in_planes(source.X, source.image_shape)
        return self.training.run(X, y, groups=source.groups, evidence=self.evidence)


# A job whose teachers vote: planned by public shapes, trained on disjoint shards, asked about some public rows.
#
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
