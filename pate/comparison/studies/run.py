"""Run PATE, and DP-SGD beside it, on a named data set, and collect the results for a report."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import parallel_config
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from pate._core.curator import need
from pate._core.files import atomic_path, write_json, write_text
from pate._core.frames import guarded
from pate._core.provenance import provenance
from pate.comparison._fit import Task, fit_tasks, made, settings_of
from pate.comparison.contract import Contestant
from pate.comparison.studies._folders import RunFolder
from pate.comparison.studies.config import RunConfig, make_dpsgd
from pate.data import Dataset, encode_dataset, load_dataset
from pate.estimators import PATEClassifier, Queries
from pate.exceptions import InvalidInputError, PateWarning
from pate.ledger import Ledger
from pate.mechanisms import NOT_ASKED, LNMax, Mechanism
from pate.models.recipes import Recipe, RecordsPlan
from pate.models.students import fit_student, make_student
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_to_epsilon, rdp_to_epsilon
from pate.privacy.cost import Charge
from pate.release import LabelRelease, ModelLabels, RecordLabels, ReleasedLabels, ReleaseTerms
from pate.release.account import account
from pate.report.result import (
    CostCurve,
    CostLine,
    EnsembleCurve,
    Example,
    LabelAccuracy,
    PrivatePrice,
    Reference,
    Result,
    Row,
    Seconds,
    SensitiveResult,
    Spent,
)
from pate.teachers import (
    HeadTeacherEnsemble,
    ShardEnsemble,
    TeacherEnsemble,
    ensemble_curve,
    make_ensemble,
    make_teacher,
)
from pate.votes import Votes

# Numbers without privacy, for the curator's report only.

# A good ordinary model by kind of data, without any privacy.

#: A kernel machine on more rows takes longer than everything else together.
LARGE = 20_000


def ordinary_model(kind: str, n_records: int, *, seed: int) -> Any:
    """Return an unfitted model of a kind that is usual for such data: boosted trees on tables, else a kernel machine.

    Of more than 20,000 images, a network of one layer.
    """
    if kind == "table":
        return HistGradientBoostingClassifier(random_state=seed)
    return SVC() if n_records <= LARGE else MLPClassifier((128,), max_iter=15, random_state=seed)


#: How the name begins of a model that saw all private rows.
_NON_PRIVATE = "non-private"
#: Teachers are scored on so many test rows at most: every one of them votes on each.
_REFERENCE_ROWS = 2000
#: Epsilon of "without noise": its standard deviation is then below a hundredth of a ballot.
_NEXT_TO_NO_NOISE = 1e4


def references_of_records(data: Dataset, coded: Dataset, plan: RecordsPlan, clf: Any) -> SensitiveResult:
    """Return the numbers without privacy of one repeat in which records voted; for the sensitive report only.

    There are no teachers, no margins, and no data-dependent cost: a Gaussian sum has none that is lower. ``data`` is as
    the records' representation reads it, ``coded`` the same as numbers, ``plan`` from ``clf.fit_keeping``.
    """
    private = data.private
    # The same maps, rounds and head; at this epsilon the noise is far below one ballot.
    voters = copy(plan.voters)
    voters.verbose = False
    terms = ReleaseTerms(budget=Budget(_NEXT_TO_NO_NOISE, plan.terms.budget.delta))
    quiet = replace(plan, voters=voters, terms=terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PateWarning)
        _, model = quiet.run(private.X, private.y, groups=private.groups)
    test, truth = data.test.X[:_REFERENCE_ROWS], data.test.y[:_REFERENCE_ROWS]
    name, accuracy = _ordinary_model(coded, clf.random_state)
    quiet_right = (model.predict(test) == truth).mean()
    found = {f"{_NON_PRIVATE} {name}, all private data": accuracy, "the same ballots without noise": quiet_right}
    note = (
        "Records voted, so there are no teachers' margins, and no cost that depends on the data: a Gaussian sum has no "
        "lower one."
    )
    return replace(_without_privacy(found, data, clf), notes=(note,))


def _without_privacy(found: dict[str, Any], data: Dataset, clf: Any) -> SensitiveResult:
    """Return these accuracies, and how many of the released labels are right."""
    release, seed = clf.release_, clf.random_state
    right = (release.labels == data.public.y_for_evaluation[clf.queries_])[release.answered]
    return SensitiveResult(
        references=tuple(Reference(name=n, accuracy=float(a), seed=seed) for n, a in found.items()),
        label_accuracy=(LabelAccuracy(accuracy=float(right.mean()), seed=seed),) if len(right) else (),
    )


def references_of_shards(
    data: Dataset, coded: Dataset, teachers: ShardEnsemble, votes: Votes, clf: Any, *, first: bool
) -> SensitiveResult:
    """Return the numbers without privacy of one repeat; they go to the sensitive report only.

    ``teachers`` and ``votes`` are from ``clf.fit_keeping``, **sensitive**. Details are given for the ``first`` repeat
    alone.
    """
    test, truth = data.test.X[:_REFERENCE_ROWS], data.test.y[:_REFERENCE_ROWS]
    on_test = teachers.vote(test)
    assert on_test.labels is not None
    alone = (on_test.labels == truth).mean(axis=1)
    plurality = votes.counts.argmax(axis=1)
    labels = np.full(len(data.public.X), -1, dtype=np.int64)
    labels[clf.queries_] = plurality
    student = clone(clf.student_) if clf.student is None else clf.student
    noiseless = fit_student(student, data.public.X, labels, random_state=clf.random_state)
    name, accuracy = _open_model(teachers, data, coded, clf.random_state)
    found = {
        f"{_NON_PRIVATE} {name}, all private data": accuracy,
        "noiseless ensemble": (on_test.counts.argmax(axis=1) == truth).mean(),
        "student from noiseless votes": noiseless.score(test, truth),
        "single teacher (mean)": alone.mean(),
    }
    release = clf.release_
    assert isinstance(release, LabelRelease)
    inside = _without_privacy(found, data, clf)
    if not first:
        return inside
    report = account(votes, release.mechanism, delta=clf.budget.delta, max_answers=release.quote.max_answers)
    curve = ensemble_curve(
        on_test.labels, truth, n_classes=len(data.classes), margin_noise=margin_noise(release.mechanism)
    )
    return replace(
        inside,
        margins=tuple(margins(votes.counts).tolist()),
        n_teachers=votes.n_teachers,
        teacher_accuracy=tuple(alone.tolist()),
        ensemble_curve=EnsembleCurve.from_dict(curve),
        data_dependent=tuple(
            PrivatePrice(label=label, epsilon=g.epsilon, delta=g.delta, method=f"{g.method}, {g.directions}", use=use)
            for label, wrapped, use in (
                ("best data-dependent bound", report.data_dependent, "internal study; never publish"),
                ("2018 paper's analysis", report.papernot2018, "comparison with papers; never publish"),
                ("2017 paper's analysis", report.papernot2017, "comparison with papers; never publish"),
            )
            if wrapped is not None
            for g in (wrapped.reveal(),)
        ),
    )


def margin_noise(mechanism: Mechanism) -> float:
    """Return the standard deviation, in votes, of the noise on the difference of two counts."""
    if isinstance(mechanism, LNMax):
        return 2.0 * mechanism.scale  # the variance of each of the two is 2 scale^2
    return math.sqrt(2.0) * float(mechanism.sigma)  # type: ignore[attr-defined]  # every other one is Gaussian


def _open_model(teachers: ShardEnsemble, data: Dataset, coded: Dataset, seed: int) -> tuple[str, float]:
    """Return the name and accuracy of a good model that saw all private rows: of torch teachers one of their kind."""
    X, y = data.private.X, data.private.y
    test, truth = data.test.X[:_REFERENCE_ROWS], data.test.y[:_REFERENCE_ROWS]
    if isinstance(teachers, TeacherEnsemble | HeadTeacherEnsemble):
        return _ordinary_model(coded, seed)
    # One torch teacher of everything; on many rows in fewer passes, as each has many steps.
    from pate.teachers.torch import default_steps

    ensemble: Any = clone(teachers)
    n = min(LARGE, len(y))
    if ensemble.epochs is None:
        ensemble.set_params(n_steps=max(ensemble.n_steps or 0, default_steps(n, ensemble.batch_size)))
    else:
        ensemble.set_params(epochs=max(1, ensemble.epochs * n // len(y)))
    ensemble.set_params(n_teachers=1, random_state=seed, checkpoint_dir=None, verbose=False)
    counts = ensemble.fit(X, y).vote(test, keep_labels=False).counts
    return ensemble.module.__name__, (counts.argmax(axis=1) == truth).mean()


def _ordinary_model(coded: Dataset, seed: int) -> tuple[str, float]:
    """Return the name and accuracy of a good model of all private rows, of a kind that is usual for such data."""
    model = ordinary_model(coded.kind, len(coded.private.y), seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(coded.private.X, coded.private.y)
    return type(model).__name__, model.score(coded.test.X[:_REFERENCE_ROWS], coded.test.y[:_REFERENCE_ROWS])


# Some public images of a run with their released labels: chosen by the release alone.

#: The first images, and then those that the release is least sure of; where it says nothing of that, more first ones.
FIRST, UNSURE = 8, 4
_LARGEST = 64  # pixels a side


def examples_of(release: ReleasedLabels, data: Dataset, queries: npt.NDArray[np.int64]) -> tuple[Example, ...]:
    """Return some of the public images asked about; none where rows are no images.

    Everything here is computed from public rows and the release.
    """
    if data.image_shape is None or max(data.image_shape[-2:]) > _LARGEST:
        return ()
    confidence = release.probability.max(axis=1) if isinstance(release, ModelLabels) else None
    margin = margins(counts) if (counts := getattr(release, "noisy_counts", None)) is not None else None
    sure = confidence if confidence is not None else margin
    order = list(range(min(FIRST + UNSURE * (sure is None), release.n_queries)))
    if sure is not None:
        left = [i for i in np.argsort(sure, kind="stable").tolist() if i not in order and np.isfinite(sure[i])]
        order += left[:UNSURE]
    images = np.asarray(data.public.X, dtype=np.float64)[queries[order]].reshape(-1, *data.image_shape)
    if images.ndim == 4:  # colours are shown as their mean
        images = images.mean(axis=1)
    highest = images.max(initial=0.0) or 1.0
    shades = np.clip(np.rint(9 * images / highest), 0, 9).astype(int)
    values = release.values()
    return tuple(
        Example(
            image=tuple("".join(map(str, line)) for line in shade.tolist()),
            label=None if values[i] is None else data.classes[values[i]],
            confidence=None if confidence is None else float(confidence[i]),
            lead=None if margin is None or not np.isfinite(margin[i]) else float(margin[i]),
        )
        for i, shade in zip(order, shades, strict=True)
    )


def margins(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return by how many votes the first class of each row leads the second."""
    top = np.sort(counts, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """The result of a run: ``result`` is public, ``sensitive`` for the curator alone (None unless asked for)."""

    result: Result
    sensitive: SensitiveResult | None
    release: LabelRelease | ModelLabels

    def __repr__(self) -> str:
        return f"RunResult({self.result.title!r})"


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
        be absent or empty. A killed run is resumed by calling again: releases and teachers are stored in
        ``OUT.private``. None writes nothing.
    data_home : path or None
        See :func:`pate.load_dataset`.
    sensitive_report : bool
        Also compute what must not be published (references without privacy, training times; of teachers also vote
        margins, accuracy by their number and data-dependent costs) and write it to ``sensitive.html``. Where the
        private rows are published themselves, the result also has the accuracy of a model without privacy.
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
    MissingExtraError
        ``out`` is given, and matplotlib is not installed.

    Notes
    -----
    Repeats measure the spread: each is a release of its own. The statement and ``labels.csv`` are the first one's.

    Examples
    --------
    >>> from pate import Budget
    >>> config = RunConfig(dataset="digits", budget=Budget(8.0, 1e-5), dpsgd="none")
    >>> done = run_experiment(config)
    >>> done.result.rows[0].contestant, done.sensitive is None
    ('PATE', True)
    """
    if out is not None:
        need("matplotlib", extra="plots", why="A run's report")
    folder = None if out is None else RunFolder.new(out, config=json.dumps(config.identity(), sort_keys=True))
    rows: list[Row] = []
    inside: list[SensitiveResult] = []
    seconds: list[Seconds] = []
    first: _First | None = None
    for repeat in range(config.n_repeats):
        seed = config.random_state + repeat
        cut = {name: getattr(config, name) for name in ("protocol", "n_public", "n_private")}
        data = load_dataset(config.dataset, data_home=data_home, random_state=seed, **cut)
        coded = encode_dataset(data)
        # Representations and contestants read tables cell by cell; teachers need numbers, learnt from public rows.
        rows_of = coded if config.who_votes() == "shards" and not config.contestants else data
        tasks = [_task(config, contestant, repeat) for contestant in config.contestants]
        clf = _classifier(config, data, seed, folder, repeat, verbose, own=tasks[0] if tasks else None)
        name = config.contestants[0].name if tasks else "PATE"
        started = perf_counter()
        with nullcontext() if config.n_jobs is None else parallel_config(n_jobs=config.n_jobs):
            teachers, votes = clf.fit_keeping(
                rows_of.private.X, data.private.y, X_public=rows_of.public.X, groups=data.private.groups
            )
        seconds.append(Seconds(name=name, seconds=perf_counter() - started, seed=seed))
        release = clf.release_
        rows.append(_row(name, config, clf, rows_of, release))
        _tell(rows[-1], config, repeat, show=verbose)
        if not tasks and config.dpsgd != "none":
            started = perf_counter()
            rows.append(_dpsgd_row(config, data if config.dpsgd == "auto" else coded, seed, verbose))
            seconds.append(Seconds(name="DP-SGD", seconds=perf_counter() - started, seed=seed))
            _tell(rows[-1], config, repeat, show=verbose)
        for task in tasks[1:]:
            ((cell, cost),) = fit_tasks([task], data)
            if cell.refused:
                raise InvalidInputError(f"budget must buy something of {cell.contestant}: {cell.refused}")
            rows.append(cell.row())
            seconds.append(Seconds(name=cell.contestant, seconds=cost.seconds, seed=seed))
            _tell(rows[-1], config, repeat, show=verbose)
        if sensitive_report:
            if votes is None:
                inside.append(references_of_records(rows_of, coded, teachers, clf))
            else:
                inside.append(references_of_shards(rows_of, coded, teachers, votes, clf, first=first is None))
        if first is None:
            first = _First(release, data, clf.queries_, teachers.recipe if votes is None else None)
    assert first is not None
    sensitive = _gathered(inside, seconds) if sensitive_report else None
    # What the world can compute from published rows is no secret; nothing else without privacy gets into the result.
    open_ = sensitive.references if sensitive is not None and first.data.published else ()
    result = _result(config, first, [*rows, *_ceilings(open_)], command)
    if folder is not None:
        _write(folder, result, sensitive, first)
    return RunResult(result, sensitive, first.release)


def _task(config: RunConfig, contestant: Contestant, repeat: int) -> Task:
    """Return one contestant's fit in one repeat; a named data set is public, so its shards may be cut by the seed."""
    seed = config.random_state + repeat
    how: dict[str, Any] = {"seed": seed, "cut_seed": seed, "noise_seed": None, "created": ""}
    return Task(contestant, config.budget, repeat, config.n_repeats, n_jobs=config.n_jobs, **how)


def _tell(row: Row, config: RunConfig, repeat: int, *, show: bool) -> None:
    if show and row.accuracy is not None:
        text = f"repeat {repeat + 1} of {config.n_repeats}: {row.contestant} {100 * row.accuracy:.1f}%"
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class _First:
    """What the first repeat returned."""

    release: LabelRelease | ModelLabels
    data: Dataset
    queries: npt.NDArray[np.int64]
    recipe: Recipe | None


#: Parameters that a run and its classifier share.
_ALIKE = ("n_teachers", "budget", "mechanism")


def _classifier(
    config: RunConfig,
    data: Dataset,
    seed: int,
    folder: RunFolder | None,
    repeat: int,
    verbose: bool,
    *,
    own: Task | None,
) -> PATEClassifier:
    private = None if folder is None else folder.private / f"repeat-{repeat}"
    ledger = None if private is None else Ledger(private / "ledger.sqlite")
    if own is not None:
        clf: PATEClassifier = made(own, data)
        return clf.set_params(ledger=ledger)  # a line for each fit is enough
    who = config.who_votes()
    by_teachers: dict[str, Any] = {}
    if who != "records":
        teacher = None if config.teacher is None else make_teacher(config.teacher)
        by_teachers = {
            "estimator": make_ensemble(
                PATEClassifier(teacher, voters=who)._template(),
                n_jobs=config.n_jobs,
                partition_seed=seed if config.partition_seed is None else config.partition_seed + repeat,
            ),
            "checkpoint_dir": None if private is None else private / "teachers",
            "measure": False,  # accuracy is measured on test rows, and votes cost is computed for labels alone
        }
    alike: dict[str, Any] = {name: getattr(config, name) for name in _ALIKE}
    how = {name: getattr(config, name) for name in ("select", "gap", "max_answers", "on_exhausted")}
    return PATEClassifier(
        voters=who,
        classes=range(len(data.classes)),
        student=None if config.student is None else make_student(config.student),
        random_state=seed,
        image_shape=data.image_shape,
        ledger=ledger,
        queries=Queries(config.n_queries, force=True, **how),  # a study shows the result of any setting
        stated={"tuning": config.tuning} if config.tuning.strip() else None,
        verbose=verbose,
        **alike,
        **by_teachers,
    )


def _gathered(repeats: list[SensitiveResult], seconds: list[Seconds]) -> SensitiveResult:
    """Return the first repeat's details with the references of all of them.

    Training times are private: a teacher that stops early does so by its private rows.
    """
    return replace(
        repeats[0],
        references=tuple(row for inside in repeats for row in inside.references),
        label_accuracy=tuple(row for inside in repeats for row in inside.label_accuracy),
        seconds=tuple(seconds),
    )


def _row(contestant: str, config: RunConfig, clf: Any, data: Dataset, release: ReleasedLabels | None = None) -> Row:
    return Row(
        contestant=contestant,
        epsilon=config.budget.epsilon,
        delta=config.budget.delta,
        accuracy=float(clf.score(data.test.X, data.test.y)),
        seed=clf.random_state,
        settings=settings_of(clf),
        queries=None if release is None else int((release.status != NOT_ASKED).sum()),
        answers=None if release is None else release.n_answered,
    )


def _ceilings(references: Iterable[Reference]) -> list[Row]:
    """Return the models of all private rows, as rows of a public result: of published rows only."""
    return [
        Row(contestant=r.name, role="ceiling", epsilon=None, delta=None, accuracy=r.accuracy, seed=r.seed)
        for r in references
        if r.name.startswith(_NON_PRIVATE)
    ]


def _dpsgd_row(config: RunConfig, data: Dataset, seed: int, verbose: bool) -> Row:
    clf = make_dpsgd(config.dpsgd, data, config.budget, random_state=seed, verbose=verbose)
    clf.fit(data.private.X, data.private.y, groups=data.private.groups, X_public=data.public.X)
    return _row("DP-SGD", config, clf, data)


def _result(config: RunConfig, first: _First, rows: list[Row], command: str | None) -> Result:
    release, data, recipe = first.release, first.data, first.recipe
    open_ = any(row.role == "ceiling" for row in rows)
    answered = release.labels[release.answered]
    # The release's own time: two times would reveal how long training took, which depends on private rows.
    stamp = {**provenance(), "created": release.statement.created}
    return Result(
        kind="run",
        title=f"PATE on {data.name}",
        dataset=data.name,
        protocol=data.protocol,
        description=data.description,
        command=command,
        **stamp,
        classes=tuple(data.classes),
        settings=config.settings()
        | ({} if recipe is None else {"recipe": "; ".join(what for what, _ in recipe.reasons)}),
        budget=config.budget,
        published=open_,
        rows=tuple(rows),
        answers_per_class=tuple(np.bincount(answered, minlength=len(data.classes)).tolist()),
        cost_curve=cost_curve(release, config.budget.delta) if isinstance(release, LabelRelease) else None,
        examples=examples_of(release, data, first.queries),
        statement=release.statement,
        notes=(*_notes(release), _OPEN) if open_ else _notes(release),
    )


_OPEN = (
    f"The model without privacy saw all private rows, and was measured on {_REFERENCE_ROWS:,} test rows at most. It is "
    "shown because these private rows are published; of others its accuracy is private."
)


def _notes(release: ReleasedLabels) -> tuple[str, ...]:
    labels = (
        "The labels and the statement are those of the first repeat. Every repeat is an experiment of its own: on "
        "data that need protection, one makes a single release."
    )
    if isinstance(release, RecordLabels):
        n, unit = len(release.rounds), "record" if release.statement.unit == "record" else "person"
        return (
            f"Every private {unit} was a voter, and cast one ballot in each of {n} round{'s' * (n > 1)}. The noisy "
            "sums spend the budget; labels of the public rows, and of any other row, follow from them at no further "
            "cost. A Gaussian sum has no lower data-dependent cost.",
            "Accuracy is the public model's, on test rows that no release touched. Accuracies measure an experiment; "
            "the guarantee covers the released statistics and everything computed from them.",
            labels,
        )
    return (
        "Accuracy is the student's, on test rows that no release touched. Accuracies measure an experiment; the "
        "guarantee covers the released labels.",
        labels,
    )


def cost_curve(release: LabelRelease, delta: float) -> CostCurve:
    """Return the public epsilon against the number of queries, by each way of accounting."""
    price, mechanism = release.quote, release.mechanism
    # Answers read back from a ledger were charged when they were first given.
    n_asked = price.n_queries or int((release.status != NOT_ASKED).sum())
    cap = price.max_answers or release.n_answered
    asked = tuple(np.unique(np.linspace(1, max(2.0, 1.5 * n_asked), 60).round().astype(int)).tolist())
    charges = (
        [mechanism.charge(n, min(n, cap)) for n in asked]
        if mechanism.may_refuse
        else [mechanism.charge(n) for n in asked]
    )
    charges = [Charge.total([(charge, 1), *((count.charge(1), 1) for count in release.counts)]) for charge in charges]
    curves = [
        ("Gaussian (GDP), exact", [gdp_to_epsilon(c.mu_squared**0.5, delta) for c in charges]),
        ("Renyi, Canonne-Kamath-Steinke conversion", [rdp_to_epsilon(c.rdp, delta)[0] for c in charges]),
        ("Renyi, Mironov conversion", [rdp_to_epsilon(c.rdp, delta, conversion="mironov")[0] for c in charges]),
    ]
    return CostCurve(
        curves=tuple(CostLine(label=label, queries=asked, epsilon=tuple(epsilons)) for label, epsilons in curves),
        spent=Spent(queries=n_asked, epsilon=release.guarantee.epsilon),
    )


def _write(folder: RunFolder, result: Result, sensitive: SensitiveResult | None, first: _First) -> None:
    from pate.report import write_report, write_sensitive_report

    release, data = first.release, first.data
    frame = release.to_frame(rows=first.queries)
    values = [None if v is None else data.classes[v] for v in release.values()]
    frame["label"] = np.array(values, dtype=object)
    with folder.results() as place:
        with atomic_path(place / "labels.csv") as path:
            guarded(frame).to_csv(path, index=False)
        write_json(place / "statement.json", release.statement.to_dict())
        write_text(place / "statement.txt", release.statement.text())
        if sensitive is not None:
            write_sensitive_report(place / "sensitive.html", result, sensitive)
        write_report(place / "report.html", result)
        write_json(place / "results.json", result.to_dict())
