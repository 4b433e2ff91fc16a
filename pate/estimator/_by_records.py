"""The road of records: private rows, each by itself, to ballots and the model that follows from their noisy sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pate.core.curator import tell
from pate.core.progress import timed
from pate.data import check_public_rows
from pate.data._door import by_name, check_same_shape, flat_rows, image_shape, is_texts, read_rows
from pate.data._shift import about_shift
from pate.estimator._public_model import PublicModel, check_has_target, check_several, digest_of, hashes_of
from pate.estimator._roads import any_rows, measured_with, plan_records
from pate.recipes import PublicFacts, Recipe, RecordsPlan, choose
from pate.records._maps import rows_of
from pate.release import Evidence, ReleaseTerms, check_ballots_stated, tell_doubts
from pate.statement.fields import MeasuredAccuracy
from pate.statement.model import PrivacyStatement
from pate.students import try_student
from pate.teachers import ShardEnsemble
from pate.teachers._usable import about_labels


class ByRecords(PublicModel):
    """What :class:`pate.PATEClassifier` does where every private record votes; a mixin."""

    statement_: PrivacyStatement

    if TYPE_CHECKING:  # what is said when the classifier is made
        overlap_is_public: bool
        representation: Any
        n_jobs: int | None
        verbose: bool
        anyway: bool
        measure: bool | str | None
        decide: str

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        """Return the recipe for public facts; comparisons have other rules."""
        return choose(facts)

    def _fit_by_records(
        self, X: Any, y: Any, X_public: Any, groups: Any, terms: ReleaseTerms, *, same: bool, why: str = ""
    ) -> RecordsPlan:
        check_ballots_stated(terms.stated, residual=True)
        door = any_rows(self.classes)
        rows = self._check_public(X_public, door, reset=True)
        records, y = self._check_records(X, y, rows, door)
        if not self.overlap_is_public:
            check_public_rows(records, records if same else rows, groups)
        shape = self._image_shape()
        told = about_labels(y, groups, self.classes_.tolist())
        tell([*told, *about_shift(records, rows, image_shape=shape)], stacklevel=5)
        with timed("startup"):
            plan = plan_records(
                rows,
                terms,
                classes=tuple(self.classes_.tolist()),
                classes_inferred=self.classes is None,
                n_records=records.shape[0],
                groups=groups,
                representation=self.representation,
                image_shape=shape,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                verbose=self.verbose,
                anyway=self.anyway,
                rule=self._rule,
                measure=measured_with(self.measure, self.student),
                decide=self.decide,
            )
        student = self._named_student()
        n_public = rows.shape[0]
        queries = np.arange(n_public)
        if student is not None:
            try_student(student, rows, n_classes=len(self.classes_), queries=queries, n_answers=n_public)
        if self.ledger is not None and not plan.stored:
            self.ledger.check_writable()
        self._check_ledger(records, y, groups)
        evidence = Evidence(public_rows="declared" if self.overlap_is_public else "checked", road=why)
        if not plan.stored:
            self._count(plan.guarantee, plan.charge, groups)
        with timed("labelling"):
            release, self._model = plan.run(records, y, groups=groups, evidence=evidence)
        self.release_ = self._told_in(release)
        self.statement_, self.queries_ = self.release_.statement, queries
        self._asked = digest_of(hashes_of(rows))
        self.__dict__.pop("student_", None)
        self._learn(student, rows)
        self._measured_of = self.student_ if self.statement_.measured is not None else None
        tell_doubts(self.statement_, stacklevel=4)
        return plan

    @property
    def measured_(self) -> MeasuredAccuracy | None:
        """How often ``student_`` is right; None where that was not measured, or another student was."""
        check_is_fitted(self, "student_")
        return self.statement_.measured if self.__dict__.get("_measured_of") is self.student_ else None

    def _check_records(self, X: Any, y: Any, public: Any, teachers: ShardEnsemble) -> tuple[Any, Any]:
        """Return private records for public maps, each read by itself, and labels; set ``classes_``.

        ``public`` are the checked public rows. They alone say what a row is: of private ones, not even a column's kind
        hangs on another record.
        """
        check_has_target(y)
        width = None if is_texts(public) else int(np.prod(public.shape[1:]))
        whole = isinstance(X, np.ndarray) and X.dtype.kind not in "OSU"  # its type and shape say what it is
        check_same_shape(image_shape(X) if hasattr(X, "shape") else None, self._row_shape)
        X = by_name(X, self._names(), other="the public rows")
        rows = flat_rows(read_rows(X) if whole else rows_of(X, width=width)[0])
        check_several(rows)
        self._check_names(rows, reset=False, kinds=False)
        return rows, self._check_target(y, rows.shape[0], teachers)
