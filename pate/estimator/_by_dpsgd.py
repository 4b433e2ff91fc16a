"""The road of DP-SGD: one model trained on the private rows with noise, whose labels of public rows are free."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pate.core.checks import check_int
from pate.core.curator import tell
from pate.core.frames import plain_rows
from pate.core.progress import timed
from pate.core.types import FloatArray
from pate.data import check_public_rows
from pate.data._columns import declared_rows, holds_numbers
from pate.data._door import is_frame
from pate.data._shift import about_shift
from pate.estimator._by_records import ByRecords
from pate.estimator._public_model import digest_of, hashes_of
from pate.estimator._roads import any_rows, measured_with
from pate.exceptions import CuratorWarning, InvalidInputError, PateError, PrivacyParameterWarning, RepeatedFitWarning
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.recipes import MappedLinear
from pate.recipes._answers import balancing, check_decide, decided, temperature_as_measured, tempered
from pate.release import Evidence, ModelLabels, ReleaseTerms, doubted, tell_doubts
from pate.representations import Representation
from pate.statement.fields import NAMED, check_stated
from pate.statement.plain import as_plain_text
from pate.students import try_student
from pate.teachers._usable import about_labels, units_of

if TYPE_CHECKING:
    from pate.dpsgd import DPSGDClassifier
    from pate.dpsgd._checkpoint import Checkpoint
    from pate.dpsgd._statement import Plan
    from pate.dpsgd.recipes import RecipePlan

#: What a ledger calls a run.
KIND = "DP-SGD"


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """What DP-SGD will train, on which public map, and at what price: nothing private was looked at.

    Attributes
    ----------
    clf : DPSGDClassifier
        Set to it, not fitted.
    road : RecipePlan
    plan : Plan
        Steps, noise and guarantee.
    terms : ReleaseTerms
    rows : array, DataFrame, texts or None
        Public rows, to be labelled.
    like : array, DataFrame, texts or None
        Public or made-up rows: what private columns should hold.
    n_units : int
    unit : {"record", "group"}
    classes_inferred : bool
    resumed : bool
        An earlier run, which was cut off, paid for it.
    decide : {"likeliest", "balanced"}
    """

    clf: DPSGDClassifier
    road: RecipePlan
    plan: Plan
    terms: ReleaseTerms
    rows: Any
    like: Any
    n_units: int
    unit: str
    classes_inferred: bool = False
    resumed: bool = False
    decide: str = "likeliest"

    @property
    def guarantee(self) -> Guarantee:
        """Of the whole run, at the budget's delta."""
        return self.plan.guarantee

    @property
    def charge(self) -> Charge:
        """What the run costs, as charges add up."""
        from pate.dpsgd._statement import priced

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
        from pate.dpsgd._fit import fit_privately

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyParameterWarning)  # as the plan told
            done = fit_privately(
                self.clf,
                X,
                y,
                X_public=self.like,
                groups=groups,
                road=self.road,
                measuring=True,
                classes_inferred=self.classes_inferred,
                offsets=lambda module: np.log(self._model(module)[0].weights or (1.0,)),
            )
        model, found = self._model(done.module)
        labels = decided(found, model.weights)
        if done.statement.measured is not None:
            model.temperature = temperature_as_measured(found, labels, done.statement.measured.estimate)
        statement = (evidence or Evidence()).told_of_training(done.statement)
        known = {*NAMED, *(a.name for a in statement.assumptions)}  # paid for by now: no text of the caller's stops it
        stated = {name: text for name, text in (self.terms.stated or {}).items() if name in known}
        statement = replace(statement, tuning=as_plain_text(self.terms.tuning)).with_stated(stated)
        found = tempered(found, model.temperature)
        release = ModelLabels.by_model(found, done.classes, self.charge, statement, labels=labels)
        by_rows = self.rows is not None and self.road.recipe.name != "declared"
        return doubted(release, n_map=len(found) if by_rows else None), model, done.kept

    def _model(self, module: Any) -> tuple[MappedLinear, FloatArray]:
        """Return the model of a trained module, and what it says of all public rows by itself."""
        from pate.dpsgd._fit import linear_weights

        model = MappedLinear(self.road.maps, linear_weights(module))
        found = np.zeros((0, len(self.clf.classes))) if self.rows is None else model.untempered(self.rows)
        if self.decide == "balanced":
            model.weights = balancing(found)
        return model, found


def plan_training(
    X_public: Any,
    terms: ReleaseTerms,
    *,
    classes: tuple[Any, ...],
    n_records: int,
    row_shape: tuple[int, ...],
    groups: Any = None,
    like: Any = None,
    representation: Representation | None = None,
    image_shape: tuple[int, ...] | None = None,
    ranges: Any = None,
    classes_inferred: bool = False,
    random_state: int | None = None,
    checkpoint_dir: Any = None,
    verbose: bool = False,
    measure: bool | str | None = None,
    decide: str = "likeliest",
) -> TrainingPlan:
    """Choose recipe, public map, steps and noise by public facts; nothing is spent.

    Parameters
    ----------
    X_public : rows or None
    terms : ReleaseTerms
    classes : tuple
    n_records : int
        Public under replace-one adjacency, as is the number of persons.
    row_shape : tuple of int
        Of one private row.
    groups : array-like or None
        Whose record it is: only how many persons there are is used.
    like, representation, image_shape, ranges, classes_inferred, random_state, verbose
        See :class:`TrainingPlan` and :class:`pate.PATEClassifier`.
    checkpoint_dir : path or None
        Where the run is kept while it goes on.
    measure : bool, "by class" or None
        See :class:`pate.DPSGDClassifier`; of the same budget.
    decide : {"likeliest", "balanced"}
        See :class:`pate.PATEClassifier`.

    Raises
    ------
    InvalidInputError
        There is no recipe for such rows, or ``stated`` names what has no place in the statement.
    BudgetExceededError
        The ledger does not pay for the run.
    """
    from pate.dpsgd import DPSGDClassifier
    from pate.dpsgd._measured import with_counts
    from pate.dpsgd._settings import along, read_mechanism, shape_of
    from pate.dpsgd._statement import make_plan
    from pate.dpsgd.recipes import RecipePlan

    if check_decide(decide) == "balanced" and X_public is None:
        raise InvalidInputError(
            "decide must be 'likeliest' where there are no public rows: how likely each class usually is, they tell. "
            "Leave it out, or pass X_public."
        )
    n_units, unit = units_of(groups, n_records)
    seed = 0 if random_state is None else check_int("random_state", random_state, low=0) % 2**32
    clf = DPSGDClassifier(
        budget=terms.budget,
        classes=classes,
        image_shape=image_shape,
        ledger=terms.ledger,
        random_state=random_state,
        noise_seed=terms.noise_seed,
        checkpoint_dir=checkpoint_dir,
        measure=measure,
        verbose=verbose,
    )
    road = RecipePlan.of(
        row_shape,
        X_public,
        n_units=n_units,
        n_classes=len(classes),
        budget=terms.budget,
        representation=representation,
        image_shape=image_shape,
        random_state=seed,
        ranges=ranges,
    )
    run = along(clf, road)
    shape = shape_of(run, n_units, unit)
    begun = _begun(checkpoint_dir)
    resumed = bool(begun.get("releases"))
    plan = make_plan(
        terms.budget,
        shape,
        mechanism=with_counts(clf, read_mechanism(run, shape), shape),
        noise_multiplier=begun.get("noise_multiplier"),
        ledger=None if resumed else terms.ledger,
    )
    made = TrainingPlan(clf, road, plan, terms, X_public, like, n_units, unit, classes_inferred, resumed, decide)
    check_stated(terms.stated, _may_be_stated(made))
    return made


def _begun(checkpoint_dir: Any) -> Mapping[str, Any]:
    """Return what a run that was cut off left of its facts; whether it is this very one is seen when it goes on."""
    from pate.core.tensors import load_tensors
    from pate.dpsgd._checkpoint import FILE, FORM

    path = None if checkpoint_dir is None else Path(checkpoint_dir) / FILE
    if path is None or not path.exists():
        return {}
    with suppress(PateError):  # whoever goes on with it says what is wrong
        return load_tensors(path, form=FORM)[1]
    return {}


def _may_be_stated(plan: TrainingPlan) -> list[str]:
    from pate.dpsgd._settings import read_clipping
    from pate.dpsgd._statement import dpsgd_statement

    clipping = read_clipping("flat", plan.road.recipe.max_grad_norm)
    said = dpsgd_statement(
        plan.plan, clipping=clipping, classes_given=True, noise="seeded", apart="", unit=plan.unit, road=plan.road
    )
    return [a.name for a in said.assumptions if a.name != "noise"]


def stand_ins(X: Any, ranges: Any) -> Any:
    """Return rows that say what private columns are like where none is public: made up, of declared ranges or zeros.

    Only the shape, or the names, of the private ones are looked at.
    """
    import pandas as pd

    X = plain_rows(X)
    if isinstance(ranges, Mapping) and is_frame(X):
        return declared_rows(ranges)
    shape = tuple(np.shape(X))
    if len(shape) < 2:
        raise InvalidInputError(
            "X_public must be given, as the rows are texts: public rows tell how numbers are made of them. Pass "
            "fit(X, y, X_public=...), or rows of numbers."
        )
    zeros = np.zeros((2, *shape[1:]))
    if isinstance(ranges, Mapping):
        return np.asarray(declared_rows(ranges), dtype=object)
    return pd.DataFrame(zeros, columns=X.columns) if is_frame(X) else zeros


def _about_texts(records: Any) -> None:
    """Tell the curator of columns that no number stands in: without declared ranges they count for nothing."""
    if not is_frame(records):
        return
    texts = [str(name) for name, kind in records.dtypes.items() if not holds_numbers(kind)]
    if texts:
        warnings.warn(
            f"the columns {', '.join(map(repr, texts[:5]))}{' and more' * (len(texts) > 5)} are none of numbers, and "
            "nothing public says which categories they have: they count for nothing. Declare them, "
            "ranges={'sex': ['male', 'female'], ...}. (This is for the curator alone.)",
            CuratorWarning,
            stacklevel=5,
        )


class ByDPSGD(ByRecords):
    """What :class:`pate.PATEClassifier` does where DP-SGD learns from the private rows; a mixin."""

    if TYPE_CHECKING:  # what is said when the classifier is made
        ranges: Any
        checkpoint_dir: Any

    def _fit_by_dpsgd(
        self, X: Any, y: Any, X_public: Any, groups: Any, terms: ReleaseTerms, *, same: bool, why: str
    ) -> TrainingPlan:
        door = any_rows(self.classes)
        like = self._check_public(stand_ins(X, self.ranges) if X_public is None else X_public, door, reset=True)
        rows = None if X_public is None else like
        records, y = self._check_records(X, y, like, door)
        shape = self._image_shape()
        student = self._named_student()
        told = about_labels(y, groups, self.classes_.tolist(), counted=False)  # those that count for nothing: fit says
        if rows is None:
            if student is not None:
                raise InvalidInputError(
                    "student must be None where there are no public rows: a student learns from labels of theirs. "
                    "Leave it out, or pass X_public."
                )
        else:
            if not self.overlap_is_public:
                check_public_rows(records, records if same else rows, groups)
            told = [*told, *about_shift(records, rows, image_shape=shape)]
            if student is not None:
                n = rows.shape[0]
                try_student(student, rows, n_classes=len(self.classes_), queries=np.arange(n), n_answers=n)
        tell(told, stacklevel=5)
        if rows is None and self.ranges is None:
            _about_texts(records)
        with timed("startup"):
            plan = plan_training(
                rows,
                terms,
                classes=tuple(self.classes_.tolist()),
                classes_inferred=self.classes is None,
                n_records=records.shape[0],
                row_shape=tuple(np.shape(records)[1:]),
                groups=groups,
                like=None if rows is None and self.ranges is None else like,  # then any cell may be what it is
                representation=self.representation,
                image_shape=shape,
                ranges=self.ranges,
                random_state=self.random_state,
                checkpoint_dir=self._run_folder(records.shape, terms),
                verbose=self.verbose,
                measure=measured_with(self.measure, self.student),
                decide=self.decide,
            )
        if plan.before:
            warnings.warn(
                f"the ledger has paid for {plan.before} run{'s' * (plan.before > 1)} of DP-SGD already. A run that is "
                "done is not given again: this fit draws new noise, and is charged anew. Keep a model with save().",
                RepeatedFitWarning,
                stacklevel=4,
            )
        if self.ledger is not None and not plan.resumed:
            self.ledger.check_writable()
        self._check_ledger(records, y, groups)
        evidence = Evidence(
            public_rows=None if rows is None else "declared" if self.overlap_is_public else "checked", road=why
        )
        self._is_kin(plan.clf)  # their fits are counted together
        release, self._model, kept = plan.run(records, y, groups=groups, evidence=evidence)
        self.release_ = self._told_in(release)
        self.statement_, self.queries_ = self.release_.statement, np.arange(release.n_queries)
        self._asked = digest_of(() if rows is None else hashes_of(rows))
        self.__dict__.pop("student_", None)
        self._learn(student, rows)
        self._measured_of = self.student_ if self.statement_.measured is not None else None
        if kept is not None:
            kept.remove()
            if self.checkpoint_dir is None:
                with suppress(OSError):  # a folder of another run's
                    kept.path.parent.rmdir()
                    kept.path.parent.parent.rmdir()
        tell_doubts(self.statement_, stacklevel=4)
        return plan

    def _run_folder(self, shape: Any, terms: ReleaseTerms) -> Any:
        """Return where the run is kept: as it was said, else beside the ledger, so that no dead one is paid twice."""
        if self.checkpoint_dir is not None or terms.ledger is None:
            return self.checkpoint_dir
        told = f"{terms.budget!r} {self.classes_.tolist()!r} {tuple(shape)!r} {self.ranges!r} {self.random_state!r}"
        path = Path(terms.ledger.path)
        return path.with_name(path.name + ".dpsgd") / hashlib.sha256(told.encode()).hexdigest()[:16]
