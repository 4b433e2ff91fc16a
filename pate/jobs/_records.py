"""The methods of a job: private records vote, DP-SGD learns from them, or teachers on disjoint shards vote."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import make_pipeline

from pate._core.secret import beside_ledger
from pate.data import TableEncoder, make_shard_encoder
from pate.data.schema import declared_by_name
from pate.estimators import (
    Ask,
    TrainingPlan,
    check_likeliest,
    measured_with,
    plan_records,
    plan_training,
    stand_ins,
)
from pate.exceptions import InvalidInputError, StudentError
from pate.jobs._choice import Chooser, RoundsPlan, Uncertain, plan_questions, take
from pate.jobs._plan import BallotPlan, GradientPlan, LabelPlan, SyntheticRowsPlan, about_total
from pate.jobs._reading import Sources, in_planes, kept_in, name_of
from pate.jobs._request import LabelSettings
from pate.jobs._student import Learnt, Pupil, Rehearsal, input_spec_of
from pate.ledger import Ledger
from pate.mechanisms import NoisyHistogram
from pate.models import SyntheticPlan
from pate.models.recipes import (
    FEWEST_PUBLIC,
    RecordsPlan,
    caution,
    check_expected,
    expected,
    fitted_representation,
    kind_of,
    share_in_words,
    some_rows,
    without_privacy,
)
from pate.models.students import measured_labels
from pate.release import (
    BatchPlan,
    Evidence,
    affordable_answers,
    check_ballots_stated,
    check_measure,
    check_release_stated,
    default_heads,
    doubted,
    expected_of_votes,
    tier_guarantees,
    warn_if_weak,
)
from pate.representations import Representation
from pate.teachers import HeadTeacherEnsemble, Owners, ShardEnsemble, class_indices, make_ensemble, units_of
from pate.votes import hash_queries

#: Up to so many records, casting ballots here is faster than starting other processes.
_FEWEST_SHARED = 50_000


@dataclass(frozen=True, eq=False, repr=False)
class ModelMethod:
    """A way from private records to a model that answers for all public rows, planned by public facts."""

    job: LabelSettings
    source: Sources
    evidence: Evidence
    representation: Representation | None

    def pupil(self, n_classes: int) -> Pupil:
        """Return the student of the labels: none unless one is named, as there is a model already."""
        job, source = self.job, self.source
        if job.student is None:
            return Pupil(None, None, None, input_spec_of(source), str(job.voters), job.random_state)
        n_public = len(source.public)
        asked = Rehearsal(np.arange(n_public), n_public, n_classes, noisy_counts=False)
        return Pupil.of(job, source, asked, representation=self.representation)


@dataclass(frozen=True, eq=False, repr=False)
class BallotMethod(ModelMethod):
    """From private records to labels of all public rows, by ballots."""

    ballots: RecordsPlan
    plan: BallotPlan

    @classmethod
    def of(
        cls, job: LabelSettings, source: Sources, ledger: Ledger | None, *, classes: tuple[Any, ...], why: str
    ) -> Self:
        """Fit public maps and price all rounds; of private records only their number is used."""
        terms = job.terms(ledger, check_ballots_stated(job.stated, residual=True, tiers=job.tier_budgets))
        ask, n_public = _ask(job, source, classes), len(source.public)
        if n_public < FEWEST_PUBLIC:
            raise InvalidInputError(
                f"public must have at least {FEWEST_PUBLIC} rows for records to vote, got {n_public}: public rows make "
                "the map that private records vote on. Add public rows, or say voters='dpsgd' (--voters dpsgd)."
            )
        warn_if_weak(job.budget.delta, source.n_units, epsilon=job.budget.epsilon)
        ask = replace(ask, representation=public_representation(job, source))
        ballots = plan_records(in_planes(source.public, source.image_shape), terms, ask)
        facts, recipe = replace(ballots.facts, mu=ballots.mu), ballots.recipe
        if job.force or ballots.stored:
            expectation = expected(facts, recipe)
        else:
            about: dict[str, Any] = {"unit": ballots.unit, "delta": job.budget.delta, "commonest": job.commonest}
            expectation = check_expected(facts, recipe, **about)
        plan = BallotPlan(
            n_units=ballots.n_units,
            n_public=n_public,
            unit=ballots.unit,
            encoding=f"{_before(source)} become {ballots.z.shape[1]} numbers, by what the public rows teach",
            recipe=recipe,
            mechanisms=ballots.mechanisms,
            measured_shares=ballots.measured_shares,
            guarantee=ballots.guarantee,
            is_paid=ballots.stored,
            total="" if ballots.stored else about_total(ledger, ballots.charge, job.private, terms.budget),
            expectation=share_in_words(expectation, job.commonest),
            caution="" if ballots.stored else caution(facts, expectation, job.commonest),
            total_if_short=ballots.total_if_short,
            instead=without_privacy(ballots.facts, job.commonest),
            tiers=tier_guarantees(terms.tiers, ballots.charge, ask.of_tiers),
            weight=ask.weight,
            files=source.files,
            odd=source.odd,
        )
        maps = "public" if ballots.voters.own_maps else "none"
        evidence = Evidence(preprocessing=maps, public_rows=job.public_rows, method=why)
        return cls(job, source, evidence, ballots.voters.representation, ballots, plan)

    def run(self, y: npt.NDArray[Any], pupil: Pupil | None) -> Learnt:
        """Charge, cast every round, and return all labels and the model; ``y`` holds the classes' own values."""
        source = self.source
        X = in_planes(source.X, source.image_shape)
        about: dict[str, Any] = {"groups": source.groups, "evidence": self.evidence, "commonest": self.job.commonest}
        release, model = self.ballots.run(X, y, **about)
        return Learnt(release, np.arange(len(source.public)), model)


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


def _ask(job: LabelSettings, source: Sources, classes: tuple[Any, ...]) -> Ask:
    (n_units, unit), tiers = units_of(source.groups, len(source.y)), job.record_tiers
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
        force=job.force,
        measure=measured_with(job.measure, job.student),
        decide=job.decide,
        tiers=tiers,
        of_tiers=None if tiers is None else tiers.of_units(Owners.of(source.groups, len(source.y))),
    )


def _before(source: Sources) -> str:
    """Return in words what rows are before they become numbers."""
    return f"{source.X.shape[1]} columns" if source.kind == "table" else source.kind


@dataclass(frozen=True, eq=False, repr=False)
class GradientMethod(ModelMethod):
    """From private records to a model by DP-SGD, and to its labels of all public rows, if there are any."""

    training: TrainingPlan
    plan: GradientPlan

    @classmethod
    def of(
        cls, job: LabelSettings, source: Sources, ledger: Ledger | None, *, classes: tuple[Any, ...], why: str
    ) -> Self:
        """Choose recipe, public map and noise, and price the run; of private records only their number is used."""
        rows = None if source.public is None else in_planes(source.public, source.image_shape)
        shape, schema = tuple(np.shape(source.X)[1:]), job.schema
        training = plan_training(
            rows,
            job.terms(ledger, dict(job.stated or {})),  # the plan knows what may be stated
            _ask(job, source, classes),
            row_shape=shape,
            like=stand_ins(source.X, schema) if rows is None else rows,
            schema=schema,
        )
        method, planned = training.recipe_plan, training.plan
        said = "what the public rows teach" if method.facts.n_public else "public constants"
        said = said if schema is None else "declared ranges"
        after = method.maps[-1].n_features_out_ if method.maps else int(np.prod(shape))
        plan = GradientPlan(
            n_units=training.ask.n_units,
            n_public=0 if rows is None else len(source.public),
            unit=training.ask.unit,
            encoding=f"{_before(source)} become {after} numbers, by {said}",
            chosen=why,
            reasons=method.recipe.reasons,
            n_steps=planned.shape.n_steps,
            sampling=planned.mechanism.words(planned.shape),
            noise_multiplier=planned.noise_multiplier,
            guarantee=training.guarantee,
            is_paid=training.resumed,
            total="" if training.resumed else about_total(ledger, training.charge, job.private, job.budget),
            before=training.before,
            counts=getattr(planned.mechanism, "counts", ()),
            total_if_short=planned.total_if_short,
            files=source.files,
            odd=source.odd,
        )
        evidence = Evidence(public_rows=None if rows is None else job.public_rows, method=why)
        return cls(job, source, evidence, None, training, plan)

    def run(self, y: npt.NDArray[Any], pupil: Pupil | None) -> Learnt:
        """Charge, train, and return all labels, the model and the checkpoint to resume from."""
        source = self.source
        X = in_planes(source.X, source.image_shape)
        release, model, checkpoint = self.training.run(X, y, groups=source.groups, evidence=self.evidence)
        return Learnt(release, np.arange(self.plan.n_public), model, checkpoint=checkpoint)


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticMethod(ModelMethod):
    """From private records to a model by ballots on synthetic rows of a schema; ``drawn`` holds those after the run."""

    synthetic: SyntheticPlan
    plan: SyntheticRowsPlan
    drawn: list[Any]

    @classmethod
    def of(
        cls, job: LabelSettings, source: Sources, ledger: Ledger | None, *, classes: tuple[Any, ...], why: str
    ) -> Self:
        """Cut the schema's columns into cells and price all rounds; of private records only their number is used."""
        terms = job.terms(ledger, check_ballots_stated(job.stated, residual=True))
        warn_if_weak(job.budget.delta, source.n_units, epsilon=job.budget.epsilon)
        schema = declared_by_name(job.schema)
        assert schema is not None  # of a table, as was seen when it was read
        synthetic = SyntheticPlan.of(terms, schema, **vars(_ask(job, source, classes)))
        plan = SyntheticRowsPlan(
            n_units=synthetic.n_units,
            n_public=0,
            unit=synthetic.unit,
            encoding=f"{_before(source)} become numbers by what synthetic rows teach",
            n_cells=sum(cells.n_cells for cells in synthetic.cells),
            mechanisms=synthetic.mechanisms,
            guarantee=synthetic.guarantee,
            is_paid=synthetic.stored,
            total="" if synthetic.stored else about_total(ledger, synthetic.charge, job.private, terms.budget),
            total_if_short=synthetic.total_if_short,
            chosen=why,
            files=source.files,
            odd=source.odd,
        )
        return cls(job, source, Evidence(preprocessing="public", method=why), None, synthetic, plan, [])

    def run(self, y: npt.NDArray[Any], pupil: Pupil | None) -> Learnt:
        """Charge, draw synthetic rows, cast every round, and return the model and its labels of those rows."""
        source = self.source
        release, model, rows = self.synthetic.run(source.X, y, groups=source.groups, evidence=self.evidence)
        self.drawn[:] = [rows]
        return Learnt(release, np.arange(len(rows)), model)


# A job whose teachers vote: planned by public shapes, trained on disjoint shards, asked about some public rows.

#: Public rows on which it is seen that a teacher can be trained at all.
_REHEARSED = 100
#: The default.
_N_TEACHERS = 100


@dataclass(frozen=True, eq=False, repr=False)
class ShardMethod:
    """From private records to labels of some public rows, by teachers on disjoint shards.

    ``teachers`` are untrained, as ``estimator`` is, one of them; ``encoder`` was fitted on public rows, and is None
    where a representation, the shards encode, or nothing does; ``rows`` are public ones as the teachers take them.
    """

    job: LabelSettings
    source: Sources
    evidence: Evidence
    estimator: Any
    teachers: ShardEnsemble
    encoder: TableEncoder | Representation | None
    rows: Any
    questions: BatchPlan | RoundsPlan
    plan: LabelPlan

    @classmethod
    def of(
        cls,
        job: LabelSettings,
        source: Sources,
        ledger: Ledger | None,
        *,
        classes: tuple[Any, ...] | None,
        estimator: Any,
    ) -> Self:
        """Fit public encodings, choose what is asked and price it; of private records only their number is used."""
        check_likeliest(job.decide)
        measure = check_measure(job.measure)
        if measure and not job.keep_model:
            raise InvalidInputError(
                f"measure must be None or False with keep_model=False (--no-model), got {measure!r}: where teachers on "
                "shards vote, what is measured is the student that is saved as the model. Leave either out."
            )
        said = check_release_stated(job.stated, unit=source.unit, classes_inferred=classes is None)
        terms = job.terms(ledger, said)
        heads, teacher, named = job.voters == "heads", job.teacher, estimator
        unit, n_units, n_public = source.unit, source.n_units, len(source.public)
        n_records = None if unit == "group" else n_units
        n_teachers = job.n_teachers
        if n_teachers is None:
            n_teachers = default_heads(n_records) if heads else _N_TEACHERS
        if n_units < n_teachers:
            raise InvalidInputError(
                f"n_teachers must be at most the number of {unit}s ({n_units}), got {n_teachers}. Use fewer teachers."
            )
        warn_if_weak(job.budget.delta, n_units, epsilon=job.budget.epsilon)
        n_classes = 2 if classes is None else len(classes)
        asking = job.asking(
            n_public,
            n_teachers=n_teachers,
            n_classes=n_classes,
            n_records=n_records,
            measure=measure if job.keep_model else False,
            n_units=n_units,
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
        questions = plan_questions(terms, asking, chooser, source.hashed, n_teachers=n_teachers)
        batch = questions if isinstance(questions, BatchPlan) else None
        plan = LabelPlan(
            n_records=len(source.y),
            n_units=n_units,
            n_public=n_public,
            unit=unit,
            n_teachers=n_teachers,
            mechanism=asking.mechanism,
            queries=None if batch is None else batch.queries,
            gap=asking.gap,
            n_free=questions.n_free,
            quote=questions.quote,
            total=about_total(ledger, questions.quote.charge, job.private, terms.budget),
            teacher=name_of(teacher, estimator),
            select=job.select if isinstance(job.select, str) else type(job.select).__name__,
            rounds=questions.rounds if isinstance(questions, RoundsPlan) else (len(questions.queries),),
            encoding=encoding_of(source, _width(rows), "heads" if heads else job.preprocess),
            affordable=affordable_answers(asking.mechanism, questions.terms),
            counts=questions.terms.counts,
            files=source.files,
            odd=source.odd,
            expectation=expected_of_votes(asking.mechanism, n_teachers, n_classes),
        )
        job.check_enough(plan, sum(plan.rounds), n_classes)
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
        if ledger is not None:
            teachers.keep_secret_in(beside_ledger(ledger.path))
        evidence = Evidence(
            classes_inferred=classes is None,
            trained=True,
            preprocessing="none" if source.kind == "images" else job.preprocess,
            public_rows=job.public_rows,
        )
        return cls(job, source, evidence, named, teachers, encoder, rows, questions, plan)

    def pupil(self, n_classes: int) -> Pupil:
        """Return who learns from the labels, of the teachers' kind where nothing is better."""
        plan, heads = self.plan, isinstance(self.teachers, HeadTeacherEnsemble)
        asked = Rehearsal(
            np.arange(sum(plan.rounds)) if plan.queries is None else plan.queries,
            plan.n_free + plan.quote.max_answers,
            n_classes,
            noisy_counts=isinstance(plan.mechanism, NoisyHistogram),
        )
        maps: Any = self.teachers.representation if heads else self.encoder if self.source.kind == "texts" else None
        teacher = None if heads else self.estimator
        return Pupil.of(self.job, self.source, asked, teacher=teacher, representation=maps)

    def run(self, y: npt.NDArray[Any], pupil: Pupil | None) -> Learnt:
        """Train, ask and release; and count about how many records the labels' student is right, where that is paid.

        ``y`` holds the classes' own values.
        """
        source, asked = self.source, self.questions
        X = _encoded(source.X, source, self.encoder, heads=isinstance(self.teachers, HeadTeacherEnsemble))
        shown = take(self.rows, np.arange(min(_REHEARSED, len(self.rows))))
        self.teachers.fit(X, y, groups=source.groups, X_public=shown)
        del X
        rows = take(self.rows, asked.queries) if isinstance(asked, BatchPlan) else self.rows
        outcome = asked.run(self.teachers, rows, self.evidence)
        release, taught, cells = outcome.release, None, None
        if outcome.counts is not None and pupil is not None:
            with suppress(StudentError):  # model() says so, once the labels are written
                student = pupil.fitted(release, outcome.queries)
                release, cells = measured_labels(
                    release,
                    outcome.counts,
                    student,
                    in_planes(source.X, source.image_shape),
                    class_indices(y, release.classes),
                    usable=np.ones(len(y), dtype=bool),
                    groups=source.groups,
                    identity=(pupil.student, pupil.lens, pupil.seed, hash_queries(source.hashed)),
                    asked_for=bool(self.job.measure),
                )
                taught = student
        release = doubted(release, commonest=self.job.commonest, cells=cells)
        return Learnt(release, outcome.queries, taught=taught, votes=outcome.votes)


def _width(rows: Any) -> int:
    return int(np.shape(rows)[1]) if np.ndim(rows) > 1 else 1


def _encoded(rows: Any, source: Sources, encoder: TableEncoder | Representation | None, *, heads: bool) -> Any:
    """Return rows as voters take them."""
    if heads:
        return in_planes(rows, source.image_shape)
    return rows if encoder is None else encoder.transform(rows)


def encoding_of(source: Sources, n_numbers: int, how: str) -> str:
    """Return in words how rows become so many numbers; ``how``: as ``preprocess`` says, or ``"heads"``."""
    if source.kind == "texts":
        return "texts, by a representation that the public ones teach"
    if source.kind == "images":
        return f"images of {n_numbers} numbers, pixels divided by 255"
    ways = {
        "heads": ", by a representation that the public rows teach",
        "public": f" become {n_numbers} numbers, by what the public rows teach",
        "shard": ", encoded inside every shard",
        "none": ", encoded nowhere: as they are",
    }
    return f"{_width(source.public)} columns{ways[how]}"
