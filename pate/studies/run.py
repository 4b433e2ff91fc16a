"""A whole run on a named data set: teachers, release, student, DP-SGD beside it, and what a report needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_choice, check_int
from pate.core.files import atomic_path, write_json, write_text
from pate.core.provenance import package_versions, provenance
from pate.data import Dataset, encode_dataset, load_dataset
from pate.estimator import PATEClassifier
from pate.ledger import Ledger
from pate.mechanisms import NOT_ASKED, Mechanism
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_to_epsilon, rdp_to_epsilon
from pate.release import LabelRelease
from pate.report.result import CostCurve, CostLine, Result, Row, Seconds, SensitiveResult, Spent
from pate.students import make_student
from pate.studies._references import look_inside
from pate.studies.contestants import MODULES, dpsgd_module, make_dpsgd, setting
from pate.studies.folders import RunFolder, plain_repr
from pate.teachers import make_teacher


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run; all of it public.

    Attributes
    ----------
    dataset, protocol : str
        See :func:`pate.load_dataset`.
    teacher, student : str or classifier
        Names of :func:`pate.teachers.make_teacher` and :func:`pate.students.make_student`, or any classifier; for the
        teacher also an ensemble such as :class:`pate.TorchTeacherEnsemble`.
    n_teachers : int
        Wins over an ensemble's own.
    budget : Budget
    mechanism, n_queries, select, gap, max_answers, on_exhausted
        See :class:`pate.PATEClassifier`.
    dpsgd : {"auto", "linear", "tanh-mlp", "tanh-cnn", "none"}
        The module of the DP-SGD baseline. ``"auto"``: cnn for images of 28 x 28 or more, linear otherwise, none where
        rows are grouped by person (DP-SGD here protects one row, which would be another promise).
    n_repeats : int
        Every repeat draws its own split (``standard`` protocol), teachers and noise.
    n_public, n_private : int or None
    random_state : int
    partition_seed : int or None
        None takes ``random_state``: a named data set is public, and its runs are to be repeatable. The statement says
        what a known cut assumes (see :func:`pate.partition`).
    n_jobs : int or None
    tuning : str
        What was tuned on private data and whether that is charged, for the statement.

    Examples
    --------
    >>> RunConfig(dataset="digits", budget=Budget(1.0, 1e-5)).n_teachers
    100
    """

    dataset: str
    budget: Budget
    protocol: str = "standard"
    teacher: Any = "logistic-regression"
    student: Any = "logistic-regression"
    n_teachers: int = 100
    mechanism: Mechanism | None = None
    n_queries: int | None = None
    select: str = "random"
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

    def __post_init__(self) -> None:
        check_choice("dpsgd", self.dpsgd, MODULES)
        check_int("n_repeats", self.n_repeats, low=1)
        check_int("random_state", self.random_state, low=0)
        if self.partition_seed is not None:
            check_int("partition_seed", self.partition_seed, low=0)

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the run, as plain values.

        Examples
        --------
        >>> RunConfig(dataset="digits", budget=Budget(1.0, 1e-5)).identity()["epsilon"]
        1.0
        """
        own = {"dataset": self.dataset, "protocol": self.protocol, "version": package_versions().get("pate")}
        return {**self.settings(), **own, "epsilon": self.budget.epsilon, "delta": self.budget.delta}

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values, for a report.

        Examples
        --------
        >>> RunConfig(dataset="digits", budget=Budget(1.0, 1e-5)).settings()["teacher"]
        'logistic-regression'
        """
        hidden = ("budget", "dataset", "protocol", "mechanism")
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
        plain = {k: v if v is None or isinstance(v, str | int | float) else plain_repr(v) for k, v in shown.items()}
        return {**plain, "mechanism": "calibrated to the budget" if self.mechanism is None else str(self.mechanism)}


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """What a run gave: ``result`` for everybody, ``sensitive`` for the curator alone (None unless asked for).

    Examples
    --------
    >>> RunResult(Result(kind="run", title="digits", rows=()), None, None)
    RunResult('digits')
    """

    result: Result
    sensitive: SensitiveResult | None
    release: LabelRelease

    def __repr__(self) -> str:
        return f"RunResult({self.result.title!r})"


def demo_config(budget: Budget, *, n_repeats: int = 5, n_jobs: int | None = None) -> RunConfig:
    """Return the run that ``pate demo`` makes: scikit-learn's digits.

    Examples
    --------
    >>> demo_config(Budget(3.0, 1e-5)).dataset
    'digits'
    """
    chosen = setting("digits")
    return RunConfig(
        dataset="digits",
        budget=budget,
        teacher=chosen.teacher,
        student=chosen.student,
        n_teachers=chosen.n_teachers,
        n_queries=chosen.n_queries,
        select=chosen.select,
        n_public=chosen.n_public,
        n_repeats=n_repeats,
        n_jobs=n_jobs,
        tuning="teachers, queries and student were chosen on this very data set, which is public; nothing is charged",
    )


def run_experiment(
    config: RunConfig,
    *,
    out: Any = None,
    data_home: Any = None,
    sensitive_report: bool = False,
    command: str | None = None,
    verbose: bool = False,
) -> RunResult:
    """Run PATE (and DP-SGD beside it) on a named data set and write the run folder.

    Parameters
    ----------
    config : RunConfig
    out : path or None
        Folder for ``report.html``, ``results.json``, ``statement.json``, ``statement.txt`` and ``labels.csv``; it must
        be absent or empty. A killed run is continued by calling again: teachers and released labels are kept in
        ``OUT.private``. None writes nothing.
    data_home : path or None
        See :func:`pate.load_dataset`.
    sensitive_report : bool
        Also compute what must stay inside (references without privacy, vote margins, what more teachers gave,
        data-dependent costs, how long training took) and write it to ``sensitive.html``.
    command : str or None
        What the user typed, for the report.
    verbose : bool

    Returns
    -------
    RunResult

    Raises
    ------
    RunFolderError
        ``out`` holds something.
    BudgetExceededError, InvalidInputError
        See :class:`pate.PATEClassifier`.

    Notes
    -----
    Repeats measure the spread: each is a release of its own. The statement and ``labels.csv`` are the first one's.

    Examples
    --------
    >>> config = RunConfig(dataset="digits", budget=Budget(8.0, 1e-5), n_teachers=20, dpsgd="none")
    >>> done = run_experiment(config)
    >>> done.result.rows[0].contestant, done.sensitive is None
    ('PATE', True)
    """
    folder = None if out is None else RunFolder.new(out, config=json.dumps(config.identity(), sort_keys=True))
    rows: list[Row] = []
    inside: list[SensitiveResult] = []
    seconds: list[Seconds] = []
    first: tuple[LabelRelease, Dataset, npt.NDArray[np.int64]] | None = None
    for repeat in range(config.n_repeats):
        seed = config.random_state + repeat
        data = load_dataset(
            config.dataset,
            protocol=config.protocol,
            data_home=data_home,
            random_state=seed,
            n_public=config.n_public,
            n_private=config.n_private,
        )
        module = dpsgd_module(config.dpsgd, data)
        data = encode_dataset(data)
        clf = _classifier(config, data, seed, folder, repeat, verbose)
        started = perf_counter()
        teachers, votes = clf.fit_keeping(
            data.private.X, data.private.y, X_public=data.public.X, groups=data.private.groups
        )
        seconds.append(Seconds(name="PATE", seconds=perf_counter() - started, seed=seed))
        release = clf.release_
        rows.append(_row("PATE", config, clf.score(data.test.X, data.test.y), seed, release))
        if module != "none":
            started = perf_counter()
            rows.append(_dpsgd_row(config, module, data, seed, verbose))
            seconds.append(Seconds(name="DP-SGD", seconds=perf_counter() - started, seed=seed))
        if sensitive_report:
            inside.append(look_inside(data, teachers, votes, clf, seed, delta=config.budget.delta, first=first is None))
        first = first or (release, data, clf.queries_)
    assert first is not None
    release, data, queries = first
    result = _result(config, data, rows, release, command)
    sensitive = _gathered(inside, seconds) if sensitive_report else None
    if folder is not None:
        _write(folder, result, sensitive, release, data, queries)
    return RunResult(result, sensitive, release)


def _classifier(
    config: RunConfig, data: Dataset, seed: int, folder: RunFolder | None, repeat: int, verbose: bool
) -> PATEClassifier:
    kept = None if folder is None else folder.private / f"repeat-{repeat}"
    return PATEClassifier(
        make_teacher(config.teacher),
        n_teachers=config.n_teachers,
        budget=config.budget,
        classes=range(len(data.classes)),
        mechanism=config.mechanism,
        student=make_student(config.student),
        n_queries=config.n_queries,
        select=config.select,
        gap=config.gap,
        max_answers=config.max_answers,
        on_exhausted=config.on_exhausted,
        n_jobs=config.n_jobs,
        random_state=seed,
        partition_seed=seed if config.partition_seed is None else config.partition_seed + repeat,
        checkpoint_dir=None if kept is None else kept / "teachers",
        ledger=None if kept is None else Ledger(kept / "ledger.sqlite"),
        tuning=config.tuning,
        anyway=True,  # a study shows what comes of any setting
        verbose=verbose,
    )


def _gathered(repeats: list[SensitiveResult], seconds: list[Seconds]) -> SensitiveResult:
    """Return the first repeat's details with the references of all of them.

    How long a fit took is the curator's: a teacher that stops early does so by its private rows.
    """
    return replace(
        repeats[0],
        references=tuple(row for inside in repeats for row in inside.references),
        label_accuracy=tuple(row for inside in repeats for row in inside.label_accuracy),
        seconds=tuple(seconds),
    )


def _row(contestant: str, config: RunConfig, accuracy: float, seed: int, release: LabelRelease | None) -> Row:
    return Row(
        contestant=contestant,
        epsilon=config.budget.epsilon,
        delta=config.budget.delta,
        accuracy=float(accuracy),
        seed=seed,
        queries=None if release is None else int((release.status != NOT_ASKED).sum()),
        answers=None if release is None else release.n_answered,
    )


def _dpsgd_row(config: RunConfig, module: str, data: Dataset, seed: int, verbose: bool) -> Row:
    clf = make_dpsgd(module, data, config.budget, random_state=seed, verbose=verbose)
    clf.fit(data.private.X, data.private.y)
    return _row("DP-SGD", config, clf.score(data.test.X, data.test.y), seed, None)


def _result(config: RunConfig, data: Dataset, rows: list[Row], first: LabelRelease, command: str | None) -> Result:
    answered = first.labels[first.answered]
    # The release's own time: two times would tell how long training took, which private rows decide.
    stamp = {**provenance(), "created": first.statement.created}
    return Result(
        kind="run",
        title=f"PATE on {data.name}",
        dataset=data.name,
        protocol=data.protocol,
        description=data.description,
        command=command,
        **stamp,
        classes=tuple(data.classes),
        settings=config.settings(),
        budget=config.budget,
        rows=tuple(rows),
        answers_per_class=tuple(np.bincount(answered, minlength=len(data.classes)).tolist()),
        cost_curve=cost_curve(first, config.budget.delta),
        statement=first.statement,
        notes=(
            "Accuracy is the student's, on test rows that no release touched. Accuracies measure an experiment; the "
            "guarantee covers the released labels.",
            "The labels and the statement are those of the first repeat. Every repeat is an experiment of its own: on "
            "data that need protection, one makes a single release.",
        ),
    )


def cost_curve(release: LabelRelease, delta: float) -> CostCurve:
    """Return the public epsilon against the number of queries, by each way of accounting.

    Examples
    --------
    >>> from pate import GNMax, Votes, release_labels
    >>> release = release_labels(Votes.from_counts([[9, 1]] * 5), GNMax(sigma=9.0), budget=Budget(9.0, 1e-5))
    >>> cost_curve(release, 1e-5).spent.queries
    5
    """
    price, mechanism = release.quote, release.mechanism
    # Answers read back from a ledger were priced when they were given.
    n_asked = price.n_queries or int((release.status != NOT_ASKED).sum())
    cap = price.max_answers or release.n_answered
    asked = tuple(np.unique(np.linspace(1, max(2.0, 1.5 * n_asked), 60).round().astype(int)).tolist())
    charges = (
        [mechanism.charge(n, min(n, cap)) for n in asked]
        if mechanism.may_refuse
        else [mechanism.charge(n) for n in asked]
    )
    curves = [
        ("Gaussian (GDP), exact", [gdp_to_epsilon(c.mu_squared**0.5, delta) for c in charges]),
        ("Renyi, Canonne-Kamath-Steinke conversion", [rdp_to_epsilon(c.rdp, delta)[0] for c in charges]),
        ("Renyi, Mironov conversion", [rdp_to_epsilon(c.rdp, delta, conversion="mironov")[0] for c in charges]),
    ]
    return CostCurve(
        curves=tuple(CostLine(label=label, queries=asked, epsilon=tuple(epsilons)) for label, epsilons in curves),
        spent=Spent(queries=n_asked, epsilon=release.guarantee.epsilon),
    )


def _write(
    folder: RunFolder,
    result: Result,
    sensitive: SensitiveResult | None,
    release: LabelRelease,
    data: Dataset,
    queries: npt.NDArray[np.int64],
) -> None:
    from pate.report import write_report, write_sensitive_report

    frame = release.to_frame(rows=queries)
    values = [None if v is None else data.classes[v] for v in release.values()]
    frame["label"] = np.array(values, dtype=object)
    with folder.results() as place:
        with atomic_path(place / "labels.csv") as path:
            frame.to_csv(path, index=False)
        write_json(place / "statement.json", release.statement.to_dict())
        write_text(place / "statement.txt", release.statement.text())
        if sensitive is not None:
            write_sensitive_report(place / "sensitive.html", result, sensitive)
        write_report(place / "report.html", result)
        write_json(place / "results.json", result.to_dict())
