"""Run one fit of a comparison: build the classifier, fit it, check its guarantee against the budget, measure it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from joblib import parallel_config

from pate._core.progress import listening, timed
from pate._core.types import FloatArray
from pate.comparison._cells import Cell, Key, packed
from pate.comparison.contract import Contestant, Setting
from pate.comparison.statistics import r2_by_row
from pate.data import Dataset
from pate.estimators import PATEClassifier
from pate.exceptions import BudgetExceededError, InvalidInputError, NotWorthwhileError, PateError
from pate.mechanisms import NOT_ASKED, ExactLaw
from pate.privacy.budget import Budget
from pate.release.account import account
from pate.release.statement import counted_elsewhere
from pate.release.statement.model import PrivacyStatement
from pate.report.result import FitCost, GroupScore
from pate.representations import RowMemory

# Peak memory of this process since the last reset: from Linux, and of a CUDA device.

_SELF = Path("/proc/self")
_MIB = 2**20


def forget_peak() -> bool:
    """Reset the peak of memory, and return whether the process's own peak will be known."""
    torch = _torch_on_cuda()
    if torch is not None:
        torch.cuda.reset_peak_memory_stats()
    try:
        (_SELF / "clear_refs").write_text("5")  # man 5 proc: resets the peak resident set size ("high water mark")
    except OSError:
        return False
    return True


def peak_mib(known: bool) -> tuple[float | None, float | None]:
    """Return the most MiB held since :func:`forget_peak`, by the process and on its CUDA device; None where unknown."""
    here = None
    if known:
        with suppress(OSError, ValueError, StopIteration):
            line = next(line for line in (_SELF / "status").read_text().splitlines() if line.startswith("VmHWM:"))
            here = int(line.split()[1]) / 1024
    torch = _torch_on_cuda()
    return here, None if torch is None else torch.cuda.max_memory_allocated() / _MIB


def _torch_on_cuda() -> Any:
    """Return torch if it is already imported and uses a CUDA device, else None; torch is never imported here."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


# Measurements of a fitted contestant: scores by class and group, calibration, answers, its own settings.

#: Of equal width, as in Guo et al. 2017, "On Calibration of Modern Neural Networks".
_BINS = 15
#: A column with more values than this is not used as groups.
MOST_GROUPS = 20
_MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Asked:
    """The public rows (positions) that were asked about, and their labels as class indices; -1: no answer."""

    queries: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    @property
    def n_answers(self) -> int:
        """How many were answered."""
        return int((self.labels >= 0).sum())


def calibration_error(confidence: FloatArray, right: npt.NDArray[np.bool_]) -> float:
    """Return the expected calibration error: how far confidence is from accuracy, in 15 bins of equal width.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger 2017, "On Calibration of Modern Neural Networks", equation 5.
    """
    place = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gap = np.bincount(place, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gap).sum() / len(right))


def scores(model: Any, data: Dataset, values: Sequence[Any], by: str | None, asked: Asked | None) -> dict[str, Any]:
    """Return the fields of a cell that are measured on the test rows and on what was asked."""
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


def number_scores(model: Any, data: Dataset) -> dict[str, Any]:
    """Return the fields of a cell that are measured on the test rows of a numeric target."""
    truth = np.asarray(data.test.y, dtype=np.float64)
    with timed("predicting"):
        said = np.asarray(model.predict(data.test.X), dtype=np.float64)
    if said.shape != truth.shape or not np.isfinite(said).all():
        raise InvalidInputError(
            f"predict must return one finite number for each of the {len(truth):,} test rows, which that of "
            f"{type(model).__name__} does not."
        )
    by_row = r2_by_row(truth, said)
    return {
        "accuracy": None,
        "r2": float(by_row.mean()),
        "mean_absolute_error": float(np.abs(truth - said).mean()),
        "n_test": len(truth),
        **_bits(by_row, data.test.groups, name="row_scores"),
    }


def _bits(values: npt.NDArray[Any], groups: Any, *, name: str = "right") -> dict[str, str]:
    """Return what each row says, packed; of persons with several rows one person's rows stand together."""
    if groups is None:
        return {name: packed(values)}
    owners = np.unique(np.asarray(groups), return_inverse=True)[1]
    order = np.argsort(owners, kind="stable")
    return {name: packed(values[order]), "persons": packed(np.diff(owners[order], prepend=-1) > 0)}


def indices_of(said: Any, values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return the class indices of predicted values; -1 for a value that is not a class."""
    place = {value: k for k, value in enumerate(values)}
    return np.array([place.get(value, -1) for value in np.asarray(said).tolist()], dtype=np.int64)


def asked_of(model: Any, values: Sequence[Any]) -> Asked | None:
    """Return the public rows a fitted model asked about and its answers; None for a model that asks nothing.

    ``release_`` has labels (class indices, negative: unanswered) of the rows ``queries_``; rows that
    were not asked for lack of budget do not count.
    """
    release, queries = getattr(model, "release_", None), getattr(model, "queries_", None)
    if release is None or queries is None or len(queries) != len(release.labels):
        return None
    to_index = indices_of(release.classes, values)
    labels = np.asarray(release.labels)
    labels = np.where(labels >= 0, to_index[np.maximum(labels, 0)], -1)
    status = getattr(release, "status", None)
    asked_for = np.ones(len(labels), dtype=bool) if status is None else np.asarray(status) != NOT_ASKED
    return Asked(np.asarray(queries)[asked_for], labels[asked_for])


def settings_of(model: Any) -> str | None:
    """Return a fitted model's settings in one line, from its public attributes; None where it has none.

    ``settings_``, where there is one, is taken as it is.
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
    """Raise unless ``by`` is a column of the rows with few enough values."""
    if by is None:
        return
    if data.target_range is not None:
        raise InvalidInputError(f"by must be None of a numeric target: groups are told apart by accuracy. Got {by!r}.")
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


#: What slow public maps made of this process's rows, for the other budgets and contestants of a repeat (**sensitive**).
_ROWS = RowMemory()


@dataclass(frozen=True, repr=False)
class Task:
    """One fit to be made: which contestant, at which budget, in which repeat."""

    contestant: Contestant
    budget: Budget
    repeat: int
    n_repeats: int
    seed: int  # of training
    cut_seed: int | None  # of shards; None cuts them by a secret, whatever the contestant was built with
    noise_seed: int | None
    created: str  # when the comparison began: a fit's own time would reveal how long it took
    by: str | None = None
    cache: Path | None = None
    n_jobs: int | None = None  # workers that the fit itself may have

    @property
    def key(self) -> Key:
        """Which fit this is."""
        epsilon = self.budget.epsilon if self.contestant.role == "private" else None
        return self.contestant.name, epsilon, self.repeat

    @property
    def where(self) -> str:
        """Which fit this is, in words."""
        name, epsilon, repeat = self.key
        at = "" if epsilon is None else f"epsilon={epsilon:g}, "
        return f"contestant {name!r} failed at {at}repeat {repeat + 1} of {self.n_repeats}"


#: The result of a fit: its cell, and what it cost (**sensitive**).
Done = tuple[Cell, FitCost]


class _Refused(PateError):
    """The budget buys nothing here; the reason follows from public facts."""


def fit_tasks(tasks: list[Task], data: Dataset, *, in_worker: bool = False) -> list[Done]:
    """Run some fits, one after the other."""
    made = []
    for task in tasks:
        try:
            # A fit's own workers would multiply with those beside it.
            with parallel_config(backend="sequential") if in_worker else nullcontext():
                made.append(_done(task, data))
        except Exception as error:
            raise_with_note(error, f"{task.where}: ", f"{task.where}.")
    return made


def forget_rows() -> None:
    """Clear this process's cache of mapped rows."""
    _ROWS.forget()


def raise_with_note(error: Exception, before: str, note: str, *, after: str = "") -> NoReturn:
    """Raise ``error`` again with more context: in the message of a PateError, as a note on any other."""
    if isinstance(error, PateError):
        raise type(error)(f"{before}{error}{after}") from error
    error.add_note(note)
    raise error


def _done(task: Task, data: Dataset) -> Done:
    known = forget_peak()
    with listening() as watch, _ROWS.on():
        try:
            cell, epsilon = _measured(task, data)
        except _Refused as why:
            cell, epsilon = Cell(**_identity(task), accuracy=None, refused=str(why)), None
    peak, gpu = peak_mib(known)
    name, at, repeat = task.key
    seconds = {f"{part}_seconds": seconds for part, seconds in watch.seconds.items()}
    held: dict[str, Any] = {"data_dependent_epsilon": epsilon, "peak_mib": peak, "gpu_peak_mib": gpu}
    return cell, FitCost(contestant=name, epsilon=at, repeat=repeat, **held, **seconds)


def _identity(task: Task) -> dict[str, Any]:
    name, epsilon, repeat = task.key
    promise = {"epsilon": epsilon, "delta": None if epsilon is None else task.budget.delta}
    return {"contestant": name, "role": task.contestant.role, "repeat": repeat, "seed": task.seed, **promise}


def _measured(task: Task, data: Dataset) -> tuple[Cell, float | None]:
    with timed("startup"):
        model = made(task, data)
        takes = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    values: tuple[Any, ...] = tuple(range(len(data.classes)))
    X, y, groups = data.private.X, data.private.y, data.private.groups
    if wants_values(takes.get("classes"), data.classes):
        values = data.classes
        y = np.array(values, dtype=None if len({type(c) for c in values}) == 1 else object)[y]
    if task.contestant.role == "floor":  # a floor gets no private rows
        X = y = groups = None  # type: ignore[assignment]
    offered = {"X_public": data.public.X, "groups": groups}
    accepted = inspect.signature(model.fit).parameters
    took_groups = None if groups is None else "groups" in accepted or isinstance(model, PATEClassifier)
    votes = None
    with timed("training"), counted_elsewhere():  # a comparison's fits are its rows
        try:
            if isinstance(model, PATEClassifier):
                _, votes = model.fit_keeping(X, y, **offered)
            else:
                model.fit(X, y, **{k: v for k, v in offered.items() if k in accepted})
        except (BudgetExceededError, NotWorthwhileError) as error:
            raise _Refused(str(error)) from error
    statement = getattr(model, "statement_", None)
    seeded = task.noise_seed is not None if "noise_seed" in takes else None
    if isinstance(statement, PrivacyStatement) and task.contestant.role != "ceiling":
        seeded = statement.seeded
        _check_promise(task, statement, took_groups)
        statement = replace(statement, created=task.created)
    else:  # a ceiling's statement is no guarantee
        statement = None
    if data.target_range is None:
        found = scores(model, data, values, task.by, asked_of(model, values))
    else:
        found = number_scores(model, data)
    cell = Cell(
        **_identity(task),
        seeded=seeded,
        statement=statement,
        settings=settings_of(model),
        took_groups=took_groups,
        **found,
    )
    return cell, None if votes is None else _data_dependent(model.release_, votes, task.budget.delta)


def made(task: Task, data: Dataset) -> Any:
    """Return the unfitted classifier, with the comparison's noise seed and shard seed."""
    said: dict[str, Any] = {name: getattr(task, name) for name in ("budget", "seed", "noise_seed", "n_jobs", "cache")}
    setting = Setting.of(data, task.contestant, **said)
    try:
        model = task.contestant.make(setting)
    except (BudgetExceededError, NotWorthwhileError) as error:
        raise _Refused(str(error)) from error
    if not all(hasattr(model, name) for name in ("fit", "predict")):
        raise InvalidInputError(f"make must return a classifier with fit and predict, got {model!r}.")
    takes = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    if takes.get("ledger") is not None:
        raise InvalidInputError(
            "it has a ledger, which would give the answers of one fit to the next, and charge them all to one budget. "
            "Leave ledger=None."
        )
    chosen = {"noise_seed": task.noise_seed, "partition_seed": task.cut_seed}
    if isinstance(model, PATEClassifier) and model.who_votes() in ("heads", "shards"):
        model._cut_by(task.cut_seed)
    chosen = {name: seed for name, seed in chosen.items() if name in takes}
    return model.set_params(**chosen) if chosen else model


def wants_values(classes: Any, values: tuple[Any, ...]) -> bool:
    """Whether a classifier was given class values, not indices."""
    return isinstance(classes, Iterable) and tuple(classes) == values and values != tuple(range(len(values)))


def _check_promise(task: Task, statement: PrivacyStatement, took_groups: bool | None) -> None:
    promised = statement.guarantee
    if task.contestant.role == "floor":
        raise InvalidInputError(
            f"it states epsilon={promised.epsilon:g}, so it saw private rows, which a floor never does. Let it take "
            "part as role='private'."
        )
    if took_groups is False and statement.unit != "record":
        raise InvalidInputError(
            f"its statement promises to protect one {statement.unit}, but its fit takes no groups, so it cannot know "
            "the owners of the private rows. Let fit take groups=, or promise one record."
        )
    if promised.epsilon > task.budget.epsilon or promised.delta > task.budget.delta:
        raise BudgetExceededError(
            f"its statement promises epsilon={promised.epsilon:g} at delta={promised.delta:g}, beyond {task.budget}. "
            "Curves would not be comparable: fix the contestant, or raise the budget."
        )


def _data_dependent(release: Any, votes: Any, delta: float) -> float | None:
    """Return the data-dependent epsilon of the labels (**sensitive**); None where the votes alone do not decide it."""
    if getattr(release, "asked", None) is None or not isinstance(release.mechanism, ExactLaw):
        return None
    return float(account(votes, release, delta=delta).data_dependent.reveal().epsilon)
