"""Settings of a run on a named data set, all of them public."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pate._core.checks import check_choice, check_int
from pate._core.provenance import package_versions
from pate.comparison.contract import Contestant
from pate.comparison.studies._folders import plain_repr
from pate.data import Dataset
from pate.estimators import chosen_voters
from pate.exceptions import InvalidInputError
from pate.mechanisms import Mechanism
from pate.privacy.budget import Budget

# DP-SGD set up for a named data set, and how many public rows one is cut with.

MODULES = ("auto", "linear", "tanh-mlp", "tanh-cnn", "none")

#: Steps of the baseline by module: the linear and mlp ones by its defaults, the cnn in fewer, larger batches.
_DPSGD: dict[str, dict[str, Any]] = {"tanh-cnn": {"epochs": 5, "expected_batch_size": 1024, "learning_rate": 0.5}}


#: Settings of teachers on shards: one of them means that those are wanted.
OF_SHARDS = ("n_teachers", "mechanism", "n_queries", "gap", "max_answers", "partition_seed")

#: Public rows of data sets that are too small for the usual share.
_PUBLIC_ROWS = {"digits": 400}


def public_rows(dataset: str) -> int | None:
    """Return the default number of public rows of a data set; None: :func:`pate.load_dataset`'s share."""
    return _PUBLIC_ROWS.get(dataset.replace("-", "_").lower())


def make_dpsgd(
    module: str, data: Dataset, budget: Budget, *, random_state: int | None = None, verbose: bool = False
) -> Any:
    """Return an unfitted DP-SGD classifier for class indices of a data set.

    ``"auto"`` leaves everything to DP-SGD's own planner (:mod:`pate.dpsgd.recipes`), which wants the rows as they are
    and ``X_public``; the other modules take encoded rows, and defaults by module.
    """
    check_choice("dpsgd", module, MODULES[:-1])
    # Imported here: a run without the baseline does not need torch.
    from pate.dpsgd import DPSGDClassifier

    options: dict[str, Any] = {"image_shape": data.image_shape}
    if module != "auto":
        options = {"module": module, "expected_batch_size": 256, **_DPSGD.get(module, {})}
        groups = data.private.groups
        n_units = len(data.private.y) if groups is None else len(set(groups))
        options["expected_batch_size"] = min(options["expected_batch_size"], n_units)
    return DPSGDClassifier(
        budget=budget,
        classes=range(len(data.classes)),
        device="auto",
        random_state=random_state,
        verbose=verbose,
        **options,
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All settings of a run on a named data set; public.

    Attributes
    ----------
    dataset, protocol : str
        See :func:`pate.load_dataset`.
    voters : {"records", "heads", "shards"} or None
        Who votes. None lets records vote, unless a setting below is for teachers on shards; see
        :class:`pate.PATEClassifier`.
    teacher, student : str, classifier or None
        Names of :func:`pate.teachers.make_teacher` and :func:`pate.models.students.make_student`, or any classifier;
        for the teacher also an ensemble such as :class:`pate.TorchTeacherEnsemble`.
    n_teachers : int or None
        Overrides an ensemble's own.
    budget : Budget
    mechanism, n_queries, select, gap, max_answers, on_exhausted
        See :class:`pate.PATEClassifier`.
    dpsgd : {"auto", "linear", "tanh-mlp", "tanh-cnn", "none"}
        The module of the DP-SGD baseline. ``"auto"``: what its own planner makes of the data. Where
        rows are grouped by person, persons are what it protects, as PATE does.
    n_repeats : int
        Every repeat draws its own split (``standard`` protocol), public maps or teachers, and noise.
    n_public, n_private : int or None
    random_state : int
    partition_seed : int or None
        Of shards. None takes ``random_state``: a named data set is public, and its runs are to be repeatable. The
        statement says what a known cut assumes (see :func:`pate.partition`).
    n_jobs : int or None
    tuning : str
        What was tuned on private data and whether that is charged, for the statement.
    contestants : tuple of Contestant
        In place of all that is set above for teachers, voters and DP-SGD: the first one's release is the run's (a
        :class:`pate.PATEClassifier` whose teachers vote), the others are measured beside it.
    """

    dataset: str
    budget: Budget
    protocol: str = "standard"
    voters: str | None = None
    teacher: Any = None
    student: Any = None
    n_teachers: int | None = None
    mechanism: Mechanism | None = None
    n_queries: int | None = None
    select: str = "auto"
    gap: float | None = None
    max_answers: int | None = None
    on_exhausted: str = "raise"
    dpsgd: str = "auto"
    n_repeats: int = 1
    n_public: int | None = None
    n_private: int | None = None
    random_state: int = 0
    partition_seed: int | None = None
    n_jobs: int | None = None
    tuning: str = ""
    contestants: tuple[Contestant, ...] = ()

    def __post_init__(self) -> None:
        check_choice("dpsgd", self.dpsgd, MODULES)
        check_int("n_repeats", self.n_repeats, low=1)
        check_int("random_state", self.random_state, low=0)
        if self.partition_seed is not None:
            check_int("partition_seed", self.partition_seed, low=0)
        self.who_votes()

    def who_votes(self) -> str:
        """Return who votes: "records", "heads" or "shards"."""
        if self.contestants:
            return "shards"
        said = {name: getattr(self, name) for name in OF_SHARDS}
        who = chosen_voters(self.voters, {**said, "estimator": self.teacher})
        if who == "dpsgd":
            raise InvalidInputError(
                "voters must be 'records', 'heads' or 'shards' here, got 'dpsgd': a run shows DP-SGD beside the "
                "voters. Leave voters out, and see dpsgd=."
            )
        return "records" if who == "auto" else who  # named data sets have public rows enough

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the run, as plain values."""
        own = {"dataset": self.dataset, "protocol": self.protocol, "version": package_versions().get("pate")}
        return {**self.settings(), **own, "epsilon": self.budget.epsilon, "delta": self.budget.delta}

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values, for a report: those that were given, or have a default."""
        hidden = ("budget", "dataset", "protocol", "mechanism", "voters", "contestants")
        who = self.who_votes()
        said = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
        if self.contestants:  # which set the rest themselves
            said = {name: said[name] for name in ("n_repeats", "n_public", "n_private", "random_state")}
        elif who == "records":
            del said["select"], said["on_exhausted"]
        plain = {k: v if isinstance(v, str | int | float) else plain_repr(v) for k, v in said.items() if v is not None}
        if self.contestants:
            return {"contestants": ", ".join(c.name for c in self.contestants), **plain}
        mechanism = "calibrated to the budget" if self.mechanism is None else str(self.mechanism)
        return {"voters": who, **plain, "mechanism": mechanism}
