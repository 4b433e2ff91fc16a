"""One fit of a comparison, wherever it runs: made, fitted, held against its budget, measured."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from joblib import parallel_config

from pate.comparison._measure import asked_of, scores, told
from pate.comparison._memory import forget_peak, peak_mib
from pate.comparison.cells import Cell, Key
from pate.comparison.contract import Contestant, Setting
from pate.core.clock import Stopwatch, listening, timed
from pate.data import Dataset
from pate.estimator import PATEClassifier
from pate.exceptions import BudgetExceededError, InvalidInputError, NotWorthwhileError, PateError
from pate.mechanisms import ExactLaw, Mechanism
from pate.privacy.budget import Budget
from pate.report.rows import FitCost
from pate.representations import RowMemory
from pate.statement._fits import counted_elsewhere
from pate.statement.model import PrivacyStatement
from pate.studies.account import account

#: What slow public maps made of this process's rows, for the other budgets and contestants of a repeat (**sensitive**).
_ROWS = RowMemory()


@dataclass(frozen=True, repr=False)
class Task:
    """One fit to be made: who, at which budget, in which repeat.

    Attributes
    ----------
    contestant : Contestant
    budget : Budget
    repeat, n_repeats : int
    seed : int
        Of training.
    cut_seed : int or None
        Of shards; None cuts them by a secret, whatever the contestant was built with.
    noise_seed : int or None
    created : str
        When the comparison began: a fit's own time would tell how long it took.
    by : str or None
    cache : Path or None
    n_jobs : int or None
        Workers that the fit itself may have.
    """

    contestant: Contestant
    budget: Budget
    repeat: int
    n_repeats: int
    seed: int
    cut_seed: int | None
    noise_seed: int | None
    created: str
    by: str | None = None
    cache: Path | None = None
    n_jobs: int | None = None

    @property
    def key(self) -> Key:
        """Which fit this is."""
        return self.contestant.name, self._epsilon, self.repeat

    @property
    def _epsilon(self) -> float | None:
        return self.budget.epsilon if self.contestant.role == "private" else None

    @property
    def where(self) -> str:
        """Which fit this is, in words."""
        at = "" if self._epsilon is None else f"epsilon={self._epsilon:g}, "
        return f"contestant {self.contestant.name!r} failed at {at}repeat {self.repeat + 1} of {self.n_repeats}"


@dataclass(frozen=True, repr=False)
class Done:
    """What came of a fit: a cell, and what it cost (**sensitive**)."""

    cell: Cell
    cost: FitCost


class _Refused(Exception):
    """The budget buys nothing here; the reason follows from public facts."""


def fit_tasks(tasks: list[Task], data: Dataset, *, in_worker: bool = False) -> list[Done]:
    """Fit some, one after the other.

    Raises
    ------
    Exception
        What the fit raised, which then says which fit it was.
    """
    made = []
    for task in tasks:
        try:
            if in_worker:  # a fit's own workers would multiply with those beside it
                with parallel_config(backend="sequential"):
                    made.append(_done(task, data))
            else:
                made.append(_done(task, data))
        except Exception as error:
            tell(error, f"{task.where}: ", f"{task.where}.")
    return made


def forget_rows() -> None:
    """Drop what this process remembers of rows."""
    _ROWS.forget()


def tell(error: Exception, before: str, note: str, *, after: str = "") -> NoReturn:
    """Raise ``error`` again, which says more: a message of our own grows, anybody else's gets a note."""
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
    return Done(cell, _cost(task, watch, epsilon, known))


def _identity(task: Task) -> dict[str, Any]:
    private = task.contestant.role == "private"
    return {
        "contestant": task.contestant.name,
        "role": task.contestant.role,
        "epsilon": task.budget.epsilon if private else None,
        "delta": task.budget.delta if private else None,
        "repeat": task.repeat,
        "seed": task.seed,
    }


def _cost(task: Task, watch: Stopwatch, data_dependent: float | None, known: bool) -> FitCost:
    peak, gpu = peak_mib(known)
    return FitCost(
        contestant=task.contestant.name,
        epsilon=task.key[1],
        repeat=task.repeat,
        data_dependent_epsilon=data_dependent,
        **{f"{part}_seconds": seconds for part, seconds in watch.seconds.items()},
        peak_mib=peak,
        gpu_peak_mib=gpu,
    )


def _measured(task: Task, data: Dataset) -> tuple[Cell, float | None]:
    with timed("startup"):
        model = _made(task, data)
        takes = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    values: tuple[Any, ...] = tuple(range(len(data.classes)))
    X, y, groups = data.private.X, data.private.y, data.private.groups
    if wants_values(takes.get("classes"), data.classes):
        values = data.classes
        y = np.array(values, dtype=None if len({type(c) for c in values}) == 1 else object)[y]
    if task.contestant.role == "floor":  # is not given what it may not see
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
    else:  # what a ceiling states is no promise
        statement = None
    asked = asked_of(model, values)
    cell = Cell(
        **_identity(task),
        seeded=seeded,
        statement=statement,
        settings=told(model),
        took_groups=took_groups,
        **scores(model, data, values, task.by, asked),
    )
    return cell, None if votes is None else _data_dependent(model.release_, votes, task.budget.delta)


def _made(task: Task, data: Dataset) -> Any:
    """Return the unfitted classifier: its noise from where the comparison says, its shards as the comparison says."""
    setting = Setting.of(
        data,
        task.contestant,
        budget=task.budget,
        seed=task.seed,
        noise_seed=task.noise_seed,
        n_jobs=task.n_jobs,
        cache=task.cache,
    )
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
    chosen: dict[str, Any] = {}
    if "noise_seed" in takes:
        chosen["noise_seed"] = task.noise_seed
    no_shards = isinstance(model, PATEClassifier) and model.who_votes() in ("auto", "records", "dpsgd")
    if "partition_seed" in takes and not no_shards:
        chosen["partition_seed"] = task.cut_seed
    return model.set_params(**chosen) if chosen else model


def wants_values(classes: Any, values: tuple[Any, ...]) -> bool:
    """Whether a classifier was told class values, not indices."""
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
            "whose each private row is. Let fit take groups=, or promise one record."
        )
    if promised.epsilon > task.budget.epsilon or promised.delta > task.budget.delta:
        raise BudgetExceededError(
            f"its statement promises epsilon={promised.epsilon:g} at delta={promised.delta:g}, beyond {task.budget}. "
            "Curves would not be comparable: mend the contestant, or raise the budget."
        )


def _data_dependent(release: Any, votes: Any, delta: float) -> float | None:
    """Return what the labels cost by the votes themselves (**sensitive**); None where the mechanism has no such law."""
    mechanism = release.mechanism
    if not isinstance(mechanism, ExactLaw) or release.counts:
        return None  # nor has a count of right answers beside them
    report = account(votes, cast(Mechanism, mechanism), delta=delta, max_answers=release.quote.max_answers)
    return float(report.data_dependent.reveal().epsilon)
