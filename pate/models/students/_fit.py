"""Train students on released labels and public rows, and choose them by name or by default."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

from pate._core.checks import check_choice, check_int
from pate._core.curator import warn
from pate._core.recorder import note
from pate.data import read_rows
from pate.exceptions import InvalidInputError, PateError, StudentError, StudentWarning
from pate.models.students._image import ImageStudent
from pate.models.students._spreading import LabelSpreads, VoteSpreading
from pate.records import take
from pate.teachers import OwnClasses, has_gaps, make_teacher, named_teachers
from pate.votes import ABSTAIN

# The default student.

#: Public rows beyond which a neighbour graph of them takes too long.
_MOST_ROWS = 20_000


def mapped_student(n_public: int, *, noisy_counts: bool) -> VoteSpreading | LogisticRegression:
    """Return the default student for vectors of a public map, which needs no scaling.

    It depends on public facts: the number of rows, and whether noisy counts will be released, or labels alone.

    Examples
    --------
    >>> mapped_student(500, noisy_counts=True), mapped_student(500, noisy_counts=False)
    (VoteSpreading(), LogisticRegression(max_iter=500))
    """
    return VoteSpreading() if noisy_counts and 2 <= n_public <= _MOST_ROWS else LogisticRegression(max_iter=500)


def default_student(X_public: Any, *, noisy_counts: bool) -> VoteSpreading | None:
    """Return the student that was most accurate in tests on such public rows; None if a copy of the teachers was.

    :class:`VoteSpreading` on columns of one scale, where noisy counts are released (not labels alone) and the public
    rows are 2 to 20,000 rows of finite numbers: figures are in ``docs/defaults.md``. It depends on public facts alone.

    Examples
    --------
    >>> default_student(np.eye(3), noisy_counts=True)
    VoteSpreading(scale=True)
    >>> default_student(np.array(["a note", "another"]), noisy_counts=True) is None
    True
    """
    if not noisy_counts or hasattr(X_public, "toarray") or not 2 <= np.shape(X_public)[0] <= _MOST_ROWS:
        return None
    try:
        rows = np.asarray(X_public, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return VoteSpreading(scale=True) if rows.ndim == 2 and np.isfinite(rows).all() else None


# Students by name, for the command line.

_SEMI_SUPERVISED_NAMES: dict[str, Callable[[], Any]] = {
    "vote-spreading": VoteSpreading,
    "label-spreading": lambda: LabelSpreads(kernel="knn", n_neighbors=7, alpha=0.2, max_iter=200),
    "image": ImageStudent,
}


def named_students() -> tuple[str, ...]:
    """Return the names that :func:`make_student` knows: those of classifiers, and of semi-supervised students.

    Examples
    --------
    >>> "label-spreading" in named_students()
    True
    """
    return (*_SEMI_SUPERVISED_NAMES, *named_teachers(torch=False))


def make_student(name: Any) -> Any:
    """Return an unfitted student by name; a classifier is returned as it is.

    ``label-spreading`` (Zhou et al. 2004) spreads the released labels to similar public rows, so it also learns from
    rows without an answer; ``vote-spreading`` does so with the noisy counts; ``image`` (for square images) is a
    convolutional network that also learns from all rows.

    Examples
    --------
    >>> make_student("label-spreading").kernel
    'knn'
    """
    if not isinstance(name, str) and hasattr(name, "fit"):
        return name
    known = check_choice("student", name, named_students())
    return _SEMI_SUPERVISED_NAMES[known]() if known in _SEMI_SUPERVISED_NAMES else make_teacher(known)


_SEMI_SUPERVISED = (LabelPropagation, LabelSpreading, SelfTrainingClassifier, VoteSpreading, ImageStudent)
#: A student is tried on so many rows first.
_TRIED_ROWS = 200


def uses_unlabelled(student: Any) -> bool:
    """Return whether the student learns from rows labelled ``ABSTAIN`` (-1) too.

    Examples
    --------
    >>> uses_unlabelled(LabelSpreading())
    True
    """
    last = student.steps[-1][1] if isinstance(student, Pipeline) else student
    return isinstance(last, _SEMI_SUPERVISED)


def check_is_student(student: Any) -> None:
    """Refuse a student that cannot be cloned or fitted, or has no ``predict``.

    Examples
    --------
    >>> check_is_student(object())
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: student must be a scikit-learn classifier, or a name ..., got <object ...
    """
    can = not isinstance(student, type) and all(hasattr(student, m) for m in ("fit", "get_params"))
    can = can and (hasattr(student, "predict") or isinstance(student, ClassifierMixin))  # a stack, once it is fitted
    problem = "" if can else "it lacks fit, predict or get_params"
    if can:
        try:
            clone(student)
        except Exception as error:
            problem = f"it cannot be cloned ({type(error).__name__}: {error})"
    if problem:
        raise InvalidInputError(
            f"student must be a scikit-learn classifier, or a name such as 'logistic-regression', got {student!r}: "
            f"{problem}. Derive it from sklearn.base.BaseEstimator and pass an instance."
        )


def fit_student(
    student: Any,
    X_public: Any,
    labels: Any,
    *,
    noisy_counts: Any = None,
    random_state: int | None = None,
) -> Any:
    """Return a clone of ``student`` trained on the released labels.

    All inputs are public, so the student, its predictions and its scores on public data are public too
    (post-processing).

    Parameters
    ----------
    student : scikit-learn classifier
        scikit-learn's semi-supervised estimators also get the rows without an answer, labelled -1.
    X_public : array, DataFrame or sparse matrix of shape (n_rows, n_features), or texts of shape (n_rows,)
    labels : int array of shape (n_rows,)
        Released class indices, ``ABSTAIN`` where there is none.
    noisy_counts : float array of shape (n_rows, n_classes) or None
        Released noisy counts, NaN rows where not asked; used by :class:`VoteSpreading`.
    random_state : int or None
        Given to every ``random_state`` parameter of the student.

    Returns
    -------
    fitted classifier
        A constant one, with a :class:`~pate.exceptions.StudentWarning`, when fewer than two classes were answered. One
        that needs classes without gaps (XGBoost) is fitted on their ranks, and predicts the classes.

    Raises
    ------
    InvalidInputError
        Lengths differ, or the student is no classifier.
    StudentError
        The student cannot learn from these labels.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> fit_student(LogisticRegression(), [[0.0], [1.0], [2.0]], [0, 1, -1]).predict(
    ...     [[3.0]]
    ... )
    array([1])
    """
    check_is_student(student)
    rows = X_public if hasattr(X_public, "iloc") else read_rows(X_public, name="X_public")
    labels = np.asarray(labels)
    n_rows = rows.shape[0]
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels must have one entry per public row, class indices or -1, got {labels.dtype} of shape "
            f"{labels.shape} for {n_rows} rows. Select the same rows of X_public that were asked about."
        )
    note("student", student=student, rows=rows, labels=labels, noisy_counts=noisy_counts)
    answered = np.flatnonzero(labels != ABSTAIN)
    seen = np.unique(labels[answered])
    model = clone(student)
    if random_state is not None:
        random_state = check_int("random_state", random_state, low=0)
        names = [n for n in model.get_params(deep=True) if n == "random_state" or n.endswith("__random_state")]
        model.set_params(**dict.fromkeys(names, random_state))
    if len(seen) < 2:
        what = "no label was released" if not len(seen) else "all released labels are of one class"
        warn(
            f"{what}: the student is a constant. Ask more queries, use more teachers or a larger budget.",
            StudentWarning,
        )
        constant = int(seen[0]) if len(seen) else 0
        return DummyClassifier(strategy="constant", constant=constant).fit(np.zeros((1, 1)), [constant])
    if not uses_unlabelled(model):
        rows, labels = take(rows, answered), labels[answered]
    options = {"noisy_counts": noisy_counts} if isinstance(model, VoteSpreading) else {}
    with warnings.catch_warnings():
        # Networks rarely converge on a few noisy labels, and the user can do nothing about it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return model.fit(rows, labels, **options)
        except PateError:
            raise
        except Exception as error:
            # All of this is public, so that a second try reveals nothing.
            if has_gaps(seen) and not options and not uses_unlabelled(model):
                with suppress(Exception):  # the first failure is more informative
                    return OwnClasses(clone(model)).fit(rows, labels)
            raise StudentError(
                f"student {model!r} cannot learn from {int((labels != ABSTAIN).sum())} released labels of {len(seen)} "
                f"classes ({type(error).__name__}: {error}). Another student may: fit_student(student, X_public, "
                "labels)."
            ) from error


def try_student(
    student: Any,
    X_public: Any,
    *,
    n_classes: int,
    queries: npt.NDArray[np.int64],
    n_answers: int,
    noisy_counts: bool = False,
) -> None:
    """Try a student on made-up labels of the rows that will be queried, before anything is spent.

    ``queries`` are their positions in ``X_public`` (n_public, ...), of which ``n_answers`` will be answered at most;
    the made-up labels are of all classes in turn, with noisy counts where those will be released. A student that
    passes may still fail on the real labels.

    Raises
    ------
    InvalidInputError
        It is no classifier, or cannot learn from so many labels.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> try_student(
    ...     KNeighborsClassifier(5),
    ...     np.eye(9),
    ...     n_classes=2,
    ...     queries=np.arange(9),
    ...     n_answers=4,
    ... )
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: student must be able to learn from 4 labels: KNeighborsClassifier() cannot ...
    """
    check_is_student(student)
    labelled = queries[:n_answers]
    if len(labelled) < 2:
        return  # a constant
    sizes = [min(_TRIED_ROWS, len(labelled))]
    if sizes[0] < len(labelled):
        sizes.append(len(labelled))  # it may need more labels
    for size in sizes:
        problem = _problem(student, X_public, labelled[:size], n_classes, noisy_counts)
        if problem is None:
            return
    raise InvalidInputError(
        f"student must be able to learn from {len(labelled)} labels: {student!r} cannot from made-up ones on these "
        f"public rows ({type(problem).__name__}: {problem}). Name another student, or ask more queries; nothing was "
        "spent."
    ) from problem


def _problem(
    student: Any, X_public: Any, labelled: npt.NDArray[np.int64], n_classes: int, noisy_counts: bool
) -> Exception | None:
    n_public = X_public.shape[0]
    others = np.setdiff1d(np.arange(n_public), labelled)[:_TRIED_ROWS]
    rows = take(X_public, np.concatenate([labelled, others]))
    made_up = np.full(len(labelled) + len(others), ABSTAIN, dtype=np.int64)
    made_up[: len(labelled)] = np.arange(len(labelled)) % n_classes
    counts = None
    if noisy_counts:
        counts = np.full((len(made_up), n_classes), np.nan)
        counts[: len(labelled)] = np.eye(n_classes)[made_up[: len(labelled)]]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = fit_student(_quick(student), rows, made_up, noisy_counts=counts, random_state=0)
            n_rows = min(20, rows.shape[0])
            predicted = np.asarray(fitted.predict(take(rows, np.arange(n_rows))))
        if predicted.shape not in ((n_rows,), (n_rows, 1)) or not np.isin(predicted, np.arange(n_classes)).all():
            raise ValueError("predict did not return one of the classes it was trained on per row")
    except StudentError as error:
        return error.__cause__ if isinstance(error.__cause__, Exception) else error
    except Exception as error:
        return error
    return None


def _quick(student: Any) -> Any:
    """Return the student for a trial; an image student gets one epoch, and stores nothing."""
    if not isinstance(student, ImageStudent):
        return student
    return clone(student).set_params(epochs=1, seconds=None, spread_over=None, checkpoint_dir=None, verbose=False)
