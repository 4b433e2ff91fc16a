"""What a fitted contestant is worth: scores by class and group, calibration, answers, and what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.comparison.cells import packed
from pate.core.clock import timed
from pate.core.types import FloatArray
from pate.data import Dataset
from pate.exceptions import InvalidInputError, PateError
from pate.mechanisms import NOT_ASKED
from pate.report.rows import GroupScore

#: Of equal width, as in Guo et al. 2017, "On Calibration of Modern Neural Networks".
_BINS = 15
#: A column of more values than this names no groups.
MOST_GROUPS = 20
_MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Asked:
    """Public rows that were asked about (positions) and the labels that came back, as class indices; -1: none."""

    queries: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    @property
    def n_answers(self) -> int:
        """How many were answered."""
        return int((self.labels >= 0).sum())


def calibration_error(confidence: FloatArray, right: npt.NDArray[np.bool_]) -> float:
    """Return the expected calibration error: how far confidence is from accuracy, in 15 bins of equal width.

    Parameters
    ----------
    confidence : array of shape (n,)
        Probability that the model gives to the class it predicts.
    right : bool array of shape (n,)

    References
    ----------
    Guo, Pleiss, Sun, Weinberger 2017, "On Calibration of Modern Neural Networks", equation 5.
    """
    place = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gap = np.bincount(place, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gap).sum() / len(right))


def scores(model: Any, data: Dataset, values: Sequence[Any], by: str | None, asked: Asked | None) -> dict[str, Any]:
    """Return the fields of a cell that are measured on the test rows and on what was asked.

    Parameters
    ----------
    model : fitted classifier
    data : Dataset
    values : sequence
        What the model calls the classes, in the order of their indices.
    by : str or None
        Public column that names groups.
    asked : Asked or None
    """
    n_classes, truth = len(data.classes), np.asarray(data.test.y)
    with timed("predicting"):
        said = indices_of(model.predict(data.test.X), values)
    right = said == truth
    of_class = tuple(_share(right[truth == k]) for k in range(n_classes))
    known = [share for share in of_class if share is not None]
    found: dict[str, Any] = {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean(known)),
        "worst_class_accuracy": min(known),
        "class_accuracy": of_class,
        "calibration_error": _calibration(model, data.test.X, said, right, values),
        "n_test": len(truth),
        **_bits(right, data.test.groups),
    }
    if asked is not None:
        answered = asked.labels >= 0
        true = np.asarray(data.public.y_for_evaluation)[asked.queries]
        counts = np.bincount(asked.labels[answered], minlength=n_classes)
        found["queries"], found["answers"] = len(asked.queries), asked.n_answers
        found["class_answers"] = tuple(counts.tolist())
        found["class_queries"] = tuple(np.bincount(true, minlength=n_classes).tolist())
        found["class_answer_rate"] = tuple(_share(answered[true == k]) for k in range(n_classes))
    if by is not None:
        found["groups"] = _groups(data, by, right, asked)
    return found


def _bits(right: npt.NDArray[np.bool_], groups: Any) -> dict[str, str]:
    """Return which rows were right; of persons with several rows one person's rows stand together."""
    if groups is None:
        return {"right": packed(right)}
    owners = np.unique(np.asarray(groups), return_inverse=True)[1]
    order = np.argsort(owners, kind="stable")
    return {"right": packed(right[order]), "persons": packed(np.diff(owners[order], prepend=-1) > 0)}


def indices_of(said: Any, values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return class indices of what a model says; -1 of a value that is no class."""
    place = {value: k for k, value in enumerate(values)}
    return np.array([place.get(value, -1) for value in np.asarray(said).tolist()], dtype=np.int64)


def asked_of(model: Any, values: Sequence[Any]) -> Asked | None:
    """Return what a fitted model asked of the public rows and was told; None where it asks nothing.

    ``release_`` has labels (class indices, negative: unanswered) of the rows ``queries_``; what was never asked for
    want of budget does not count.
    """
    release, queries = getattr(model, "release_", None), getattr(model, "queries_", None)
    if release is None or queries is None or len(queries) != len(release.labels):
        return None
    to_index = indices_of(release.classes, values)
    labels = np.asarray(release.labels)
    labels = np.where(labels >= 0, to_index[np.maximum(labels, 0)], -1)
    status = getattr(release, "status", None)
    meant = np.ones(len(labels), dtype=bool) if status is None else np.asarray(status) != NOT_ASKED
    return Asked(np.asarray(queries)[meant], labels[meant])


def told(model: Any) -> str | None:
    """Return in one line how a fitted model was set, from what it says in public; None of one that says nothing.

    ``settings_``, where there is one, is the contestant's own word.
    """
    own = getattr(model, "settings_", None)
    if isinstance(own, str):
        return own
    said: list[str] = []
    statement = getattr(model, "statement_", None)
    if statement is not None and hasattr(statement, "mechanism"):
        said.append(str(statement.mechanism))
    recipe = getattr(model, "recipe_", None)
    if recipe is not None:
        said.append(str(getattr(recipe, "name", type(recipe).__name__)))
    for name, unit in (("n_teachers", "teachers"), ("n_steps_", "steps")):
        value = getattr(model, name, None)
        if isinstance(value, int):
            said.append(f"{value:,} {unit}")
    student = getattr(model, "student_", None)
    if student is not None:
        said.append(f"student {type(student).__name__}")
    return "; ".join(said) or None


def check_column(data: Dataset, by: str | None) -> None:
    """Refuse a column that names no groups.

    Raises
    ------
    InvalidInputError
        There is no such column, or it has more than 20 values among public and test rows.
    """
    if by is None:
        return
    columns = [str(name) for name in getattr(data.test.X, "columns", ())]
    if by not in columns:
        has = f"one of {', '.join(columns)}" if columns else "None: these rows have no columns with names"
        raise InvalidInputError(f"by must be {has}, got {by!r}.")
    values = set(_values(data.public.X, by)) | set(_values(data.test.X, by))
    if len(values) > MOST_GROUPS:
        raise InvalidInputError(
            f"by must name a column of at most {MOST_GROUPS} values, and {by!r} has {len(values)}. Name one of few "
            "values, or cut this one into ranges beforehand."
        )


def _values(X: Any, by: str) -> list[str]:
    column = X[by]
    return [_MISSING if missing else str(v) for v, missing in zip(column, column.isna(), strict=True)]


def _groups(data: Dataset, by: str, right: npt.NDArray[np.bool_], asked: Asked | None) -> tuple[GroupScore, ...]:
    test, public = np.array(_values(data.test.X, by)), np.array(_values(data.public.X, by))
    found = []
    for value in sorted({*test.tolist(), *public.tolist()}):
        here = test == value
        more: dict[str, Any] = {}
        if asked is not None:
            of_it = public[asked.queries] == value
            more = {"n_queries": int(of_it.sum()), "answer_rate": _share(asked.labels[of_it] >= 0)}
        found.append(GroupScore(value=value, n_test=int(here.sum()), accuracy=_share(right[here]), **more))
    return tuple(found)


def _share(part: npt.NDArray[np.bool_]) -> float | None:
    return float(part.mean()) if len(part) else None


def _calibration(
    model: Any, X: Any, said: npt.NDArray[np.int64], right: npt.NDArray[np.bool_], values: Sequence[Any]
) -> float | None:
    if not hasattr(model, "predict_proba"):
        return None
    try:
        probability = np.asarray(model.predict_proba(X), dtype=np.float64)
    except (PateError, NotImplementedError, AttributeError):
        return None
    columns = indices_of(getattr(model, "classes_", values), values)
    if probability.shape != (len(said), len(columns)):
        return None
    whole = np.zeros((len(said), len(values)))
    whole[:, columns[columns >= 0]] = probability[:, columns >= 0]
    confidence = np.where(said >= 0, whole[np.arange(len(said)), np.maximum(said, 0)], 0.0)
    return calibration_error(confidence, right) if np.isfinite(confidence).all() else None
