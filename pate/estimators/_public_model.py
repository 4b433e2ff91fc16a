"""The public half of the classifiers: train a student on released labels and predict; it never spends."""

from __future__ import annotations

import copy
import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_classes, check_labels, check_real, quietly, shown
from pate._core.frames import plain_column, plain_rows
from pate._core.secret import training_seed
from pate.data import check_same_shape, flat_rows, image_shape, quoted, recognised_by
from pate.estimators._public_rows import (
    PublicRows,
    any_rows,
    check_has_target,
    check_several,
    tags_of_maps,
    teachers_rows,
)
from pate.exceptions import InvalidInputError, PateError, StudentError
from pate.ledger import Registration
from pate.models.recipes import MappedLinear, RecordModel
from pate.models.students import (
    check_is_student,
    default_student,
    fit_student,
    make_student,
    mapped_student,
)
from pate.privacy.tiers import TierBudgets
from pate.release import LabelRelease, ModelLabels, warn_of_student
from pate.representations import is_known_throughout
from pate.teachers import (
    ClassScores,
    HeadTeacherEnsemble,
    ReadRows,
    ShardEnsemble,
    TeacherEnsemble,
    class_indices,
    classes_in,
    copy_input_tags,
    flat_labels,
    hash_rows,
    is_frame,
    label_column,
    owned,
    units_of,
)
from pate.votes import ABSTAIN

# Thresholds on one class's probability, for a wanted precision or recall: from public rows and calibrated odds.


def threshold_for(p: npt.NDArray[np.float64], *, precision: float | None, recall: float | None) -> float:
    """Return the threshold at which rows of these probabilities are expected to have that precision or recall.

    ``precision`` is the mean of p over the rows that reach the threshold, the least with so much; ``recall`` the part
    of all p that those rows have, the largest threshold with so much. Exactly one of both.
    """
    if (precision is None) == (recall is None):
        raise InvalidInputError("threshold needs exactly one of precision and recall. Say precision=0.9, for one.")
    at, counts = np.unique(p, return_counts=True)
    at, counts = at[::-1], counts[::-1]  # the rows that reach at[i] are those of at[: i + 1]
    reached = np.cumsum(at * counts)
    if precision is not None:
        wanted = _share("precision", precision)
        fine = np.flatnonzero(reached / np.cumsum(counts) >= wanted)
        if not len(fine):
            raise InvalidInputError(
                f"precision must be at most {np.floor(at[0] * 1e4) / 1e4:.4g} for this class, got {precision:g}: no "
                "public row is surer of it. Ask for less, or say recall=..."
            )
        return float(at[fine[-1]])
    wanted = _share("recall", recall)
    return float(at[np.flatnonzero(reached >= wanted * reached[-1])[0]])


def _share(name: str, value: float | None) -> float:
    return check_real(name, value, low=0, high=1, low_open=True, high_open=True)


#: Who leaves a model with the labels, so that no student need learn from them.
OWN_MODEL = ("auto", "records", "dpsgd")


def digest_of(hashes: tuple[str, ...]) -> str:
    """Return one digest of many rows."""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _student_can(name: str) -> Any:
    def check(self: PublicModel) -> bool:
        try:
            student = getattr(self, "student_", None)
            if student is None and self.student is None and self.who_votes() in OWN_MODEL:
                return hasattr(RecordModel, name)
            student = _student_of(self.estimator, self.student) if student is None else student
            student = None if isinstance(student, HeadTeacherEnsemble) else student
        except InvalidInputError:  # no such name: fit will say so
            return False
        return student is None or hasattr(student, name)

    return check


def _student_of(teacher: Any, student: Any) -> Any:
    """Return the student that was named, or the teachers' own kind."""
    if student is None:
        return teacher.estimator if isinstance(teacher, TeacherEnsemble) else teacher
    return make_student(student) if isinstance(student, str) else student


class PublicModel(ClassScores, PublicRows):
    """The public half of :class:`pate.PATEClassifier`: nothing in here sees a private row or spends."""

    release_: LabelRelease | ModelLabels
    queries_: npt.NDArray[np.int64]
    student_: Any
    _asked: str
    _former: dict[str, Any]
    classes_: Any
    _model: RecordModel | MappedLinear

    # What is said when a classifier is made.
    estimator: Any = None
    budget: Any
    classes: Any
    student: Any
    random_state: int | None
    representation: Any
    verbose: bool

    if TYPE_CHECKING:

        def who_votes(self) -> str: ...
        def _ensemble(self, X_public: Any = None) -> ShardEnsemble: ...

    # What it checks of the rows and labels that it is given.

    def _check_private(self, X: Any, y: Any, teachers: ShardEnsemble, like: Any = None) -> tuple[ReadRows, Any]:
        """Return private rows, read once, and labels for the teachers, and set ``classes_``.

        With public classes no record decides whether there is an error: what cannot be used is left to the teachers'
        :meth:`~pate.teachers.ShardEnsemble.fit`. Without them all records decide anyway, and the curator was warned.
        """
        check_has_target(y)
        strict = teachers.classes is None
        X = plain_rows(X)
        check_same_shape(image_shape(X) if hasattr(X, "shape") else None, self._row_shape)
        read = quietly("X", teachers.read_private, teachers_rows(X, "X", teachers) if strict else X, like)
        rows = read.rows
        check_several(rows)
        self._check_names(rows, reset=True)
        return read, self._check_target(y, rows.shape[0], teachers)

    def _check_target(self, y: Any, n_records: int, teachers: ShardEnsemble) -> Any:
        """Return labels, and set ``classes_``."""
        strict, y = teachers.classes is None, plain_column(y)
        y, _ = flat_labels(y, strict=strict)
        if not strict:  # what is not one for each record is refused
            values = check_classes(teachers.classes)
            self.classes_ = np.array(values, dtype=None if len({type(v) for v in values}) == 1 else object)
            label_column(y, n_records)
            return y
        labels = check_labels("y", y, n_records)
        if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
            raise InvalidInputError(
                "Unknown label type: continuous. y must hold class values, and it holds fractions: that is regression. "
                "Predict it with pate.PATERegressor, or cut it into classes."
            )
        self.classes_ = classes_in(labels)
        return labels

    # What it does with what is released.

    def _query_seed(self, X_public: Any) -> int | None:
        """Return the seed of the choice of rows: with a ledger the same for the same public rows."""
        if self.random_state is not None or self.ledger is None:
            return self.random_state
        return int(digest_of(hash_rows(X_public))[:32], 16)

    def _check_ledger(self, X: Any, y: Any, groups: Any, *, paid: bool, tiers: TierBudgets | None = None) -> None:
        """Have the ledger compare these private records with its own, before anything is trained or charged.

        One that can be written to, unless this fit is paid for already.
        """
        if self.ledger is None:
            return
        if not paid:
            self.ledger.check_writable()
        classes, n_records = tuple(self.classes_.tolist()), int(X.shape[0])
        n_units, unit = units_of(groups, n_records)
        owners, _ = owned(groups, n_records)
        known = recognised_by(X, class_indices(y, classes), owners)
        weights = None if tiers is None else tiers.pairs
        self.ledger.check(Registration(unit, classes, n_units=n_units, tiers=weights, **known))

    def refit_student(self, X_public: Any) -> Self:
        """Train ``student`` again on the labels that are released already; costs nothing.

        After a :class:`~pate.exceptions.StudentError`, or to try another one: ``set_params(student=...)`` first.

        Parameters
        ----------
        X_public : array, DataFrame or sparse matrix of shape (n_public, n_features), or texts of shape (n_public,)
            The public rows that were given to :meth:`fit`.

        Raises
        ------
        InvalidInputError
            Other rows than those that were asked about; or this classifier was read from a file, which has no labels.
        StudentError
            This student cannot learn from them either.
        """
        if hasattr(self, "student_") and not hasattr(self, "release_"):
            raise InvalidInputError(
                "refit_student needs the released labels, and no model file keeps them. Call it on the classifier that "
                "was fitted, or fit again with the same ledger, which gives them again at no cost."
            )
        check_is_fitted(self, "release_")
        if not len(self.queries_):
            raise InvalidInputError(
                "refit_student needs labels of public rows, and fit was given none. Fit again with X_public."
            )
        if isinstance(self.release_, ModelLabels):
            rows, student = self._check_public(X_public, any_rows(self.classes)), self._named_student()
            lens = None
        else:
            teachers = self._ensemble(X_public)
            rows = self._check_public(X_public, teachers)
            student, lens = self._student(
                teachers, flat_rows(rows), getattr(self.release_, "noisy_counts", None) is not None
            )
        there = rows.shape[0] > self.queries_.max()
        asked = (rows.iloc[self.queries_] if is_frame(rows) else rows[self.queries_]) if there else rows
        if not there or self._asked != digest_of(hash_rows(asked)):
            raise InvalidInputError(
                "X_public must be the rows that fit was given, got others: the labels are of those rows."
            )
        seen = flat_rows(rows)
        said = self._learn(student, seen if lens is None else lens.transform(seen), lens)
        warn_of_student(self.release_, said)
        return self

    def _learn(self, student: Any, X_public: Any, lens: Any = None) -> Any:
        """Let the student learn from public rows, which ``lens`` has mapped; it maps what comes later, too.

        Return what it then says of those rows, as indices; None where there is no student.
        """
        if student is None:
            self.student_ = self._model
            return None
        release, n_public = self.release_, X_public.shape[0]
        labels = np.full(n_public, ABSTAIN, dtype=np.int64)
        labels[self.queries_] = release.labels
        noisy = None
        if isinstance(release, LabelRelease) and release.noisy_counts is not None:
            noisy = np.full((n_public, len(self.classes_)), np.nan)
            noisy[self.queries_] = release.noisy_counts
        try:
            fitted = fit_student(student, X_public, labels, noisy_counts=noisy, random_state=self._student_seed())
        except PateError as error:
            raise StudentError(
                f"{error} The {release.n_answered} released labels are paid for and kept in release_ and statement_"
                f"{'' if self.ledger is None else ' (and in the ledger)'}. To go on for free: "
                "clf.set_params(student=...).refit_student(X_public)."
            ) from error
        self.student_ = fitted if lens is None else Pipeline([("representation", lens), ("student", fitted)])
        with suppress(Exception):  # for a warning alone: what is paid for is there
            return fitted.predict(X_public)
        return None

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the student's classes for the rows of ``X``; costs nothing.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features), or texts of shape (n_rows,)

        Returns
        -------
        array of shape (n_rows,)
        """
        student = self._shown_student()
        X = self._check_rows(X, student)
        said = np.asarray(student.predict(X)).reshape(X.shape[0])  # CatBoost's is a column
        return np.asarray(self.classes_[said.astype(np.int64)])

    @available_if(_student_can("predict_proba"))
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the student's class probabilities, zero for classes that were never answered.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features), or texts of shape (n_rows,)

        Returns
        -------
        array of shape (n_rows, n_classes)
        """
        student = self._shown_student()
        X = self._check_rows(X, student)
        full = np.zeros((X.shape[0], len(self.classes_)))
        full[:, student.classes_] = student.predict_proba(X)
        return full

    def _shown_student(self) -> Any:
        """Return what is shown rows: a copy that is thrown away, where code of the user's may keep some of them."""
        check_is_fitted(self, "student_")
        return self.student_ if is_known_throughout(self.student_) else copy.deepcopy(self.student_)

    def threshold(self, label: Any, *, precision: float | None = None, recall: float | None = None) -> float:
        """Return what a class's probability must reach for a wanted precision, or recall, of that class. Free.

        Of the least threshold with at least so much precision, or of the largest with at least so much recall. It is an
        **estimate**: the mean of probabilities of the public rows. It holds as far as those rows are drawn as later
        ones will be, and as probabilities are right on average, which they are made to be where ``measured_`` is.

        Parameters
        ----------
        label : class value
            One class against the rest.
        precision : float or None
            Of the rows that reach the threshold, the wanted share that is of this class.
        recall : float or None
            Of the rows of this class, the wanted share that reaches the threshold. Exactly one of both.

        Returns
        -------
        float
            For ``clf.predict_proba(X)[:, i] >= threshold``, i the place of ``label`` in ``classes_``.

        Raises
        ------
        InvalidInputError
            Another class, not exactly one of both, or more precision than any threshold has; teachers on shards voted,
            a student was named, there were no public rows, or this classifier was read from a file.
        """
        check_is_fitted(self, "student_")
        release = self.__dict__.get("release_")
        if not isinstance(release, ModelLabels) or self.student_ is not self._model or not len(release.probability):
            raise InvalidInputError(
                "threshold needs the probabilities that the model gave to the public rows: those of records or DP-SGD "
                "(voters='records' or 'dpsgd') without a student, fitted with X_public and not read from a file."
            )
        values = self.classes_.tolist()
        if label not in values:
            raise InvalidInputError(f"label must be one of {quoted(values)}, got {shown(label)}. Name one class.")
        return threshold_for(release.probability[:, values.index(label)], precision=precision, recall=recall)

    def _named_student(self) -> Any:
        """Return the student that is to learn from records' labels; None where their own model is."""
        student = make_student(self.student) if isinstance(self.student, str) else self.student
        if student is not None:
            check_is_student(student)
        return student

    def _student(self, teachers: ShardEnsemble, X_public: Any, noisy_counts: bool) -> tuple[Any, Any]:
        """Return the student, and the public map through which it sees rows: heads' own, where it needs one."""
        student = default_student(X_public, noisy_counts=noisy_counts) if self.student is None else None
        if student is None and self.student is None and isinstance(teachers, HeadTeacherEnsemble):
            return mapped_student(X_public.shape[0], noisy_counts=noisy_counts), teachers.representation
        student = _student_of(teachers, self.student) if student is None else student
        if isinstance(student, ShardEnsemble):
            given = "an ensemble" if self.student is not None else f"None with a {type(teachers).__name__}"
            raise InvalidInputError(
                f"student must be a scikit-learn classifier, got {given}: a student is one model. Name one, such as "
                "student=LogisticRegression()."
            )
        check_is_student(student)
        return student, None

    def _student_seed(self) -> int | None:
        """Return the student's seed: with a ledger the same for the same public rows, as what is stored is of it."""
        if self.random_state is None and self.ledger is not None:
            return int(self._asked[:8], 16)
        return None if self.random_state is None else training_seed(self.random_state, 0x57D, 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        copy_input_tags(LogisticRegression() if self.estimator is None else self.estimator, tags)
        with suppress(InvalidInputError):  # no such voters: fit will say so
            if self.who_votes() in (*OWN_MODEL, "heads") and self.estimator is None:
                tags = tags_of_maps(tags, self.representation)
        return tags
