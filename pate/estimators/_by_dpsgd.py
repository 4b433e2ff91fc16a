"""Which method is used by default, and the two methods without shards: records vote, or DP-SGD trains one model.

Labels of all public rows follow for free.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pate._core.curator import CuratorMessage, tell_curator, warn, warn_curator
from pate._core.frames import plain_rows
from pate._core.progress import timed
from pate._core.types import FloatArray
from pate.data import (
    about_records,
    about_shift,
    check_public_rows,
    holds_numbers,
    is_frame,
    row_shape,
)
from pate.data.schema import declared_by_name, declared_widths
from pate.estimators._public_model import PublicModel, digest_of
from pate.estimators._public_rows import any_rows, check_has_target
from pate.estimators._queries import Queries
from pate.exceptions import InvalidInputError, PateError, PrivacyParameterWarning, RepeatedFitWarning
from pate.models.recipes import (
    MappedLinear,
    PublicFacts,
    Recipe,
    RecordsPlan,
    balancing,
    check_decide,
    check_worth,
    choose,
    decided,
    temperature_as_measured,
    tempered,
    to_equal,
)
from pate.models.students import try_student
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.records import Tiers
from pate.release import (
    Evidence,
    ModelLabels,
    ReleaseTerms,
    check_ballots_stated,
    doubt_named,
    doubted,
    warn_of_doubts,
    warn_of_student,
)
from pate.release.statement.fields import NAMED, MeasuredAccuracy, check_stated
from pate.release.statement.model import PrivacyStatement
from pate.release.statement.plain import as_plain_text
from pate.teachers import Owners, about_labels, hash_rows, units_of

if TYPE_CHECKING:
    from pate.dpsgd import Checkpoint, DPSGDClassifier, Plan
    from pate.dpsgd.recipes import RecipePlan
from collections.abc import Callable, Sequence

from pate._core.checks import check_choice, shown
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.models.recipes import (
    FEWEST_PUBLIC,
    Ask,
    chosen_method,
    fitted_representation,
    kind_of,
    some_rows,
)
from pate.privacy.budget import Budget
from pate.release import check_measure

#: Of more columns no synthetic rows are drawn: measured were up to 64.
MOST_DRAWN = 100
VOTERS = ("auto", "records", "heads", "shards", "dpsgd")


def chosen_voters(voters: str | None, said: Mapping[str, Any], *, not_of_heads: Sequence[str] = ("estimator",)) -> str:
    """Return the method: the one that was named, shard teachers where a parameter of theirs was given, else ``"auto"``.

    ``said`` are parameters that speak of shard teachers where they are not None; heads have no use for
    ``not_of_heads``.
    """
    of_shards = [name for name, value in said.items() if value is not None]
    if voters is None:
        return "shards" if of_shards else "auto"
    check_choice("voters", voters, VOTERS)
    if voters == "dpsgd":  # a run of its own is kept in such a folder
        of_shards = [name for name in of_shards if name != "checkpoint_dir"]
    if voters not in ("heads", "shards") and of_shards:
        raise InvalidInputError(
            f"voters={voters!r} cannot go with {', '.join(of_shards)}: only teachers on shards use that. Leave it out, "
            "or say voters='shards'."
        )
    spoilt = [name for name in of_shards if name in not_of_heads]
    if voters == "heads" and spoilt:
        raise InvalidInputError(
            f"voters='heads' cannot go with {', '.join(spoilt)}: heads are linear models of numbers that public "
            "rows define. Leave it out, or say voters='shards'."
        )
    return voters


def len_of(rows: Any) -> int:
    """Return how many rows these are, before anybody has looked at them; 0 where they are none."""
    shape = rows.shape if hasattr(rows, "shape") else (len(rows),) if hasattr(rows, "__len__") else ()
    return int(shape[0]) if shape else 0


def method_of(
    X_public: Any,
    budget: Budget,
    *,
    n_units: int,
    n_classes: int,
    image_shape: tuple[int, ...] | None = None,
    schema: Any = None,
    n_columns: int = 0,
) -> tuple[str, str]:
    """Return ``"records"`` or ``"dpsgd"``, and why, by :func:`~pate.models.recipes.chosen_method`."""
    facts = PublicFacts(
        n_units=max(1, n_units),
        n_classes=max(2, n_classes),
        mu=1 / GaussianSum.for_budget(budget).noise_multiplier,
        n_public=0 if X_public is None else len_of(X_public),
        kind="table" if X_public is None else kind_of(X_public, image_shape),
    )
    drawn = schema is not None and image_shape is None and n_columns <= MOST_DRAWN
    method, why = chosen_method(facts, declared=drawn)
    check_schema(schema, method, X_public)
    return method, why


def check_schema(schema: Any, voters: str, X_public: Any) -> None:
    """Refuse a declared schema where it would not be used."""
    if schema is not None and voters != "dpsgd" and not (voters == "records" and X_public is None):
        raise InvalidInputError(
            f"schema must be left out with voters={voters!r}: the public rows tell what the columns hold. Leave it "
            "out, or say voters='dpsgd'."
        )


def plan_records(
    X_public: Any,
    terms: ReleaseTerms,
    ask: Ask,
    *,
    rule: Callable[[PublicFacts], Recipe] = choose,
    recipe: Recipe | None = None,
    noise_ratio: float = 1.0,
) -> RecordsPlan:
    """Fit the public maps and choose the recipe by public facts; nothing is spent.

    ``recipe`` and ``noise_ratio`` are those of :meth:`pate.models.recipes.RecordsPlan.of`.

    Raises
    ------
    InvalidInputError
        Too few public rows, a bad parameter; or noise that is more than all ballots together, unless ``force``.
    BudgetExceededError
        Nothing is left in the ledger, or next to nothing.
    """
    n_public = int(np.shape(X_public)[0])
    if n_public < FEWEST_PUBLIC:
        raise InvalidInputError(
            f"X_public must have at least {FEWEST_PUBLIC} rows for records to vote, got {n_public}: public rows make "
            "the map that private records vote on. Pass more, or say voters='dpsgd', which needs none."
        )
    kind = kind_of(X_public, ask.image_shape)
    fitted = fitted_representation(
        kind,
        some_rows(X_public, ask.seed),
        representation=ask.representation,
        image_shape=ask.image_shape,
        random_state=ask.seed,
        verbose=ask.verbose,
    )
    plan = RecordsPlan.of(
        terms, X_public, kind=kind, rule=rule, recipe=recipe, noise_ratio=noise_ratio,
        **vars(replace(ask, representation=fitted)),
    )  # fmt: skip
    _ = plan.mechanisms  # refused before anything is cast
    if plan.session is None:
        plan.warn_if_short()
    return plan


def measured_with(measure: bool | str | None, student: Any) -> bool | str | None:
    """Return whether the model of ballots or of DP-SGD is measured: not where somebody named another student."""
    measure = check_measure(measure)
    if student is None:
        return measure
    if measure:
        raise InvalidInputError(
            f"measure must be None or False with student={shown(student)}, got {measure!r}: what is "
            "measured is the model of the ballots, or of DP-SGD, and no student of it. Leave the student out."
        )
    return False


def check_likeliest(decide: str) -> None:
    """Refuse balanced decisions where teachers on shards vote: what they release are labels."""
    if check_decide(decide) != "likeliest":
        raise InvalidInputError(
            f"decide must be 'likeliest' where teachers on shards vote, got {decide!r}. Leave it out. To decide their "
            "noisy counts otherwise, call decide(offsets=...) of the release."
        )


# A model that DP-SGD trains.

#: What a ledger calls a run.
KIND = "DP-SGD"


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """What DP-SGD will train, on which public map, and at what price: nothing private was looked at.

    ``clf`` is set to it and not fitted; ``rows`` are public ones, to be labelled; ``like``, public or made up, what
    private columns should hold; ``resumed``: an earlier run, which was cut off, paid for it; ``made_up`` rows within a
    schema show which classes the model names where no row is public.
    """

    clf: DPSGDClassifier
    recipe_plan: RecipePlan
    plan: Plan
    terms: ReleaseTerms
    rows: Any
    like: Any
    ask: Ask
    resumed: bool = False
    made_up: Any = None

    @property
    def guarantee(self) -> Guarantee:
        """Of the whole run, at the budget's delta."""
        return self.plan.guarantee

    @property
    def charge(self) -> Charge:
        """What the run costs, as charges add up."""
        from pate.dpsgd import priced

        found = priced(self.plan)
        assert found is not None  # replace-one
        return found

    @property
    def before(self) -> int:
        """How many runs the ledger has paid for: none of them is given again, and this one is a fresh spend."""
        ledger = self.terms.ledger
        if ledger is None or self.resumed:
            return 0
        return sum(row.kind == KIND for row in ledger.releases())

    def run(
        self, X: Any, y: Any, *, groups: Any = None, evidence: Evidence | None = None
    ) -> tuple[ModelLabels, MappedLinear, Checkpoint | None]:
        """Charge, train, and return the labels of all public rows, the model, and what was kept to go on with.

        Raises
        ------
        BudgetExceededError, LedgerError, InvalidInputError
            See :meth:`pate.DPSGDClassifier.fit`.
        """
        from pate.dpsgd import fit_privately

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyParameterWarning)  # as the plan said
            done = fit_privately(
                self.clf,
                X,
                y,
                X_public=self.like,
                groups=groups,
                recipe_plan=self.recipe_plan,
                measuring=True,
                classes_inferred=self.ask.classes_inferred,
                offsets=lambda module: np.log(self._model(module)[0].weights or (1.0,)),
            )
        model, found = self._model(done.module)
        labels = decided(found, model.weights)
        if done.statement.measured is not None:
            model.temperature = temperature_as_measured(found, labels, done.statement.measured.estimate)
        statement = (evidence or Evidence()).message_of_model(done.statement)
        known = {*NAMED, *(a.name for a in statement.assumptions)}  # paid for by now: no text of the caller's stops it
        stated = {name: text for name, text in (self.terms.stated or {}).items() if name in known}
        statement = replace(statement, tuning=as_plain_text(self.terms.tuning)).with_stated(stated)
        found = tempered(found, model.temperature)
        release = ModelLabels.by_model(found, done.classes, self.charge, statement, labels=labels)
        if self.made_up is not None:
            tried = decided(model.untempered(self.made_up), model.weights)
            rows = f"{len(tried):,} made-up rows within the schema"
            named = doubt_named(done.classes, tried, rows)
            release = replace(release, statement=replace(release.statement, doubts=named))
        by_rows = self.rows is not None and self.recipe_plan.recipe.name != "declared"
        n_map, balanced = len(found) if by_rows else None, self.ask.decide == "balanced"
        return doubted(release, n_map=n_map, balanced=balanced), model, done.kept

    def _model(self, module: Any) -> tuple[MappedLinear, FloatArray]:
        """Return the model of a trained module, and what it says of all public rows by itself."""
        from pate.dpsgd import linear_weights

        model = MappedLinear(self.recipe_plan.maps, linear_weights(module))
        found = np.zeros((0, len(self.clf.classes))) if self.rows is None else model.untempered(self.rows)
        if self.ask.decide == "balanced":
            model.weights = balancing(found)
        return model, found


def plan_training(
    X_public: Any, terms: ReleaseTerms, ask: Ask, *, row_shape: tuple[int, ...], like: Any = None, schema: Any = None
) -> TrainingPlan:
    """Choose recipe, public map, steps and noise by public facts; nothing is spent.

    ``row_shape`` is that of one private row; ``like`` as in :class:`TrainingPlan`.

    Raises
    ------
    InvalidInputError
        There is no recipe for such rows, or ``stated`` names what has no place in the statement.
    NotWorthwhileError
        Public numbers say that noise alone would decide, and ``ask.force`` is False.
    BudgetExceededError
        The ledger does not pay for the run.
    """
    from pate.dpsgd import (
        DPSGDClassifier,
        along,
        facts_of,
        flat,
        made_up,
        make_plan,
        read_mechanism,
        shape_of,
        with_counts,
    )
    from pate.dpsgd.recipes import RecipePlan

    if check_decide(ask.decide) == "balanced" and X_public is None:
        raise InvalidInputError(
            "decide must be 'likeliest' where there are no public rows, got 'balanced': public rows show how likely "
            "each class usually is. Leave it out, or pass X_public."
        )
    clf = DPSGDClassifier(
        budget=terms.budget,
        classes=ask.classes,
        image_shape=ask.image_shape,
        ledger=terms.ledger,
        random_state=ask.random_state,
        noise_seed=terms.noise_seed,
        checkpoint_dir=ask.checkpoint_dir,
        measure=ask.measure,
        force=True,  # it was judged when it was planned
        verbose=ask.verbose,
    )
    recipe_plan = RecipePlan.of(
        row_shape,
        X_public,
        n_units=ask.n_units,
        n_classes=len(ask.classes),
        budget=terms.budget,
        representation=ask.representation,
        image_shape=ask.image_shape,
        random_state=ask.seed,
        ranges=schema,
    )
    run = along(flat(clf), recipe_plan)
    shape = shape_of(run, ask.n_units, ask.unit)
    begun = begun_run(ask.checkpoint_dir, terms.ledger)
    resumed = bool(begun.get("releases"))
    plan = make_plan(
        terms.budget,
        shape,
        mechanism=with_counts(run, read_mechanism(run, shape), shape),
        noise_multiplier=begun.get("noise_multiplier"),
        ledger=None if resumed else terms.ledger,
    )
    plan.warn_if_short(terms.budget)
    if not resumed:
        check_worth(facts_of(terms.budget, shape.n_units, len(ask.classes)), unit=ask.unit, force=ask.force)
    tried = made_up(schema, row_shape) if X_public is None else None
    made = TrainingPlan(clf, recipe_plan, plan, terms, X_public, like, ask, resumed, tried)
    check_stated(terms.stated, _may_be_stated(made))
    return made


def begun_run(checkpoint_dir: Any, ledger: Ledger | None) -> Mapping[str, Any]:
    """Return what a run that was paid for and cut off left of its facts; when it goes on it is seen whether it is this.

    Nothing where the ledger has no charge of it.
    """
    from pate._core.tensors import load_tensors
    from pate.dpsgd import FILE, FORM, paid_facts

    path = None if checkpoint_dir is None else Path(checkpoint_dir) / FILE
    if path is None or not path.exists():
        return {}
    with suppress(PateError):  # the code that continues reports what is wrong
        return paid_facts(load_tensors(path, form=FORM)[1], ledger)
    return {}


def _may_be_stated(plan: TrainingPlan) -> list[str]:
    from pate.dpsgd import dpsgd_statement, read_clipping

    clipping = read_clipping("flat", plan.recipe_plan.recipe.max_grad_norm)
    said = dpsgd_statement(
        plan.plan,
        clipping=clipping,
        classes_given=True,
        noise="seeded",
        apart="",
        unit=plan.ask.unit,
        recipe_plan=plan.recipe_plan,
    )
    return [a.name for a in said.assumptions if a.name != "noise"]


def stand_ins(X: Any, schema: Any) -> Any:
    """Return rows that say what private columns are like where none is public: made up, of declared ranges or zeros.

    Only the shape, or the names, of the private ones are looked at.
    """
    import pandas as pd

    X, named = plain_rows(X), declared_by_name(schema)
    if named is not None and is_frame(X):
        return named.stand_ins()
    shape = row_shape(X, declared_widths(schema))
    if not shape:
        raise InvalidInputError(
            "X_public must be given where the rows are texts: public texts decide how texts become numbers. Pass "
            "fit(X, y, X_public=...), or rows of numbers."
        )
    zeros = np.zeros((2, *shape))
    if named is not None:
        return np.asarray(named.stand_ins(), dtype=object)
    return pd.DataFrame(zeros, columns=X.columns) if is_frame(X) else zeros


def _about_texts(records: Any) -> None:
    """Tell the curator of columns that no number stands in: without declared ranges they count for nothing."""
    if not is_frame(records):
        return
    texts = [str(name) for name, kind in records.dtypes.items() if not holds_numbers(kind)]
    if texts:
        tell_curator(
            f"the columns {', '.join(map(repr, texts[:5]))}{' and more' * (len(texts) > 5)} hold no numbers and are "
            "not used: neither public rows nor a schema say which categories they have. Declare them, "
            "schema={'sex': ['male', 'female'], ...}. (This is for the curator alone.)",
        )


class ByRecords(PublicModel):
    """What :class:`pate.PATEClassifier` does where every private record votes; a mixin."""

    statement_: PrivacyStatement

    # What is said when a classifier is made.
    queries: Queries | int | None
    measure: bool | str | None
    decide: str

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        """Return the recipe for public facts; comparisons have other rules."""
        return choose(facts)

    def _about_labels(self, y: Any, groups: Any, terms: ReleaseTerms, *, counted: bool = True) -> list[CuratorMessage]:
        return about_labels(
            y, groups, self.classes_.tolist(), counted=counted, budget=terms.budget, to_equal=to_equal(self.decide)
        )

    def _fit_by_records(
        self, X: Any, y: Any, X_public: Any, groups: Any, tiers: Any, terms: ReleaseTerms, *, same: bool, why: str
    ) -> RecordsPlan:
        check_ballots_stated(terms.stated, residual=True, tiers=terms.tiers)
        rows, records, y = self._read(X, y, X_public)
        if not self._overlap_is_public():
            check_public_rows(records, records if same else rows, groups)
        messages = self._about_labels(y, groups, terms)
        messages = [*messages, *about_records(records, groups)]
        warn_curator([*messages, *about_shift(records, rows, image_shape=self._image_shape())])
        with timed("startup"):
            plan = plan_records(rows, terms, self._ask(records, groups, tiers=tiers), rule=self._rule)
        student = self._tried_student(rows)
        self._check_ledger(records, y, groups, paid=plan.stored, tiers=terms.tiers)
        evidence = self._evidence(method=why)
        if not plan.stored:
            self._count(plan.guarantee, plan.charge, groups)
        with timed("labelling"):
            release, self._model = plan.run(records, y, groups=groups, evidence=evidence)
        said = self._take_in(release, student, rows)
        warn_of_doubts(self.statement_)
        warn_of_student(self.release_, said)
        return plan

    def _ask(self, records: Any, groups: Any, checkpoint_dir: Any = None, tiers: Tiers | None = None) -> Ask:
        n_units, unit = units_of(groups, records.shape[0])
        return Ask(
            classes=tuple(self.classes_.tolist()),
            n_units=n_units,
            unit=unit,
            classes_inferred=self.classes is None,
            representation=self.representation,
            image_shape=self._image_shape(),
            random_state=self.random_state,
            n_jobs=self._formerly("n_jobs"),
            checkpoint_dir=checkpoint_dir,
            verbose=self.verbose,
            force=Queries.of(self.queries).force,
            measure=measured_with(self.measure, self.student),
            decide=self.decide,
            tiers=tiers,
            of_tiers=None if tiers is None else tiers.of_units(Owners.of(groups, records.shape[0])),
        )

    def _tried_student(self, rows: Any) -> Any:
        """Return the student that was named, which can learn from labels of all these rows; None where none was."""
        student = self._named_student()
        if student is not None:
            n = rows.shape[0]
            try_student(student, rows, n_classes=len(self.classes_), queries=np.arange(n), n_answers=n)
        return student

    def _take_in(self, release: Any, student: Any, rows: Any) -> Any:
        """Keep what was released of these public rows, if there are any, and let the student learn from it.

        Return what the student says of them, as :meth:`_learn` does.
        """
        self.release_ = self._message_in(release)
        self.statement_, self.queries_ = self.release_.statement, np.arange(release.n_queries)
        self._asked = digest_of(() if rows is None else hash_rows(rows))
        self.__dict__.pop("student_", None)
        said = self._learn(student, rows)
        self._measured_of = self.student_
        return said

    @property
    def measured_(self) -> MeasuredAccuracy | None:
        """How often ``student_`` is right; None where that was not measured, or another student was."""
        check_is_fitted(self, "student_")
        return self.statement_.measured if self.__dict__.get("_measured_of") is self.student_ else None

    def _read(self, X: Any, y: Any, X_public: Any) -> tuple[Any, Any, Any]:
        """Return public rows, private records for public maps, each read by itself, and labels; set ``classes_``."""
        check_has_target(y)
        reader = any_rows(self.classes)
        public, rows = self._read_rows(X, X_public, reader)
        return public, rows, self._check_target(y, rows.shape[0], reader)


class ByDPSGD(ByRecords):
    """What :class:`pate.PATEClassifier` does where DP-SGD learns from the private rows; a mixin."""

    checkpoint_dir: Any

    def _fit_by_dpsgd(
        self, X: Any, y: Any, X_public: Any, groups: Any, schema: Any, terms: ReleaseTerms, *, same: bool, why: str
    ) -> TrainingPlan:
        like, records, y = self._read(X, y, stand_ins(X, schema) if X_public is None else X_public)
        rows = None if X_public is None else like
        # Of records that count for nothing fit itself warns.
        messages = self._about_labels(y, groups, terms, counted=False)
        messages = [*messages, *about_records(records, groups)]
        if rows is None:
            student = self._named_student()
            if student is not None:
                raise InvalidInputError(
                    "student must be None where there are no public rows: a student learns from labels of public rows. "
                    "Leave it out, or pass X_public."
                )
        else:
            if not self._overlap_is_public():
                check_public_rows(records, records if same else rows, groups)
            messages = [*messages, *about_shift(records, rows, image_shape=self._image_shape())]
            student = self._tried_student(rows)
        warn_curator(messages)
        if rows is None and schema is None:
            _about_texts(records)
        with timed("startup"):
            plan = plan_training(
                rows,
                terms,
                self._ask(records, groups, self._run_folder(records.shape, schema, terms)),
                row_shape=tuple(np.shape(records)[1:]),
                like=None if rows is None and schema is None else like,  # then any cell may be what it is
                schema=schema,
            )
        if plan.before:
            warn(
                f"the ledger has paid for {plan.before} run{'s' * (plan.before > 1)} of DP-SGD already. The model of a "
                "finished run is not in the ledger: this fit trains again, with new noise, and is charged again. Keep "
                "a model with save().",
                RepeatedFitWarning,
            )
        self._check_ledger(records, y, groups, paid=plan.resumed)
        evidence = Evidence(method=why) if rows is None else self._evidence(method=why)
        self._is_kin(plan.clf)  # their fits are counted together
        release, self._model, kept = plan.run(records, y, groups=groups, evidence=evidence)
        said = self._take_in(release, student, rows)
        if kept is not None:
            if self.checkpoint_dir is not None:
                kept.remove()
            else:
                kept.finish()
                with suppress(OSError):  # a folder of another run's
                    kept.path.parent.parent.rmdir()
        warn_of_doubts(self.statement_)
        warn_of_student(self.release_, said)
        return plan

    def _run_folder(self, shape: Any, schema: Any, terms: ReleaseTerms) -> Any:
        """Return where the run is kept: as it was said, else beside the ledger, so that no dead one is paid twice."""
        if self.checkpoint_dir is not None or terms.ledger is None:
            return self.checkpoint_dir
        ranges = getattr(schema, "columns", schema)
        identity = f"{terms.budget!r} {self.classes_.tolist()!r} {tuple(shape)!r} {ranges!r} {self.random_state!r}"
        path = Path(terms.ledger.path)
        return path.with_name(path.name + ".dpsgd") / hashlib.sha256(identity.encode()).hexdigest()[:16]
