"""A whole run on a named data set: votes, release, public model, DP-SGD beside it, and what a report needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.curator import need
from pate.core.files import atomic_path, write_json, write_text
from pate.core.provenance import provenance
from pate.data import Dataset, encode_dataset, load_dataset
from pate.estimator import PATEClassifier
from pate.ledger import Ledger
from pate.mechanisms import NOT_ASKED
from pate.privacy.convert import gdp_to_epsilon, rdp_to_epsilon
from pate.privacy.cost import Charge
from pate.recipes import Recipe
from pate.release import LabelRelease, ModelLabels, RecordLabels, ReleasedLabels
from pate.report.result import CostCurve, CostLine, Example, Result, Row, Seconds, SensitiveResult, Spent
from pate.students import make_student
from pate.studies._references import look_behind, look_inside
from pate.studies.config import RunConfig, make_dpsgd
from pate.studies.folders import RunFolder
from pate.teachers import make_teacher

# A few public images of a run, with what was released of them: chosen by the release alone.

#: So many as they come, and then so many that the release is least sure of.
FIRST, UNSURE = 8, 4
_LARGEST = 64  # points a side


def examples_of(release: ReleasedLabels, data: Dataset, queries: npt.NDArray[np.int64]) -> tuple[Example, ...]:
    """Return some of the public images asked about; none where rows are no images.

    Parameters
    ----------
    release : ReleasedLabels
    data : Dataset
    queries : int64 array of shape (n_queries,)
        Which public rows were asked about.

    Notes
    -----
    **Guarantees.** Everything here is computed from public rows and the release.
    """
    if data.image_shape is None or max(data.image_shape[-2:]) > _LARGEST:
        return ()
    confidence, lead = _confidence(release), _lead(release)
    order = list(range(min(FIRST, release.n_queries)))
    sure = confidence if confidence is not None else lead
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
            lead=None if lead is None or not np.isfinite(lead[i]) else float(lead[i]),
        )
        for i, shade in zip(order, shades, strict=True)
    )


def _confidence(release: ReleasedLabels) -> npt.NDArray[np.float64] | None:
    return release.probability.max(axis=1) if isinstance(release, ModelLabels) else None


def _lead(release: ReleasedLabels) -> npt.NDArray[np.float64] | None:
    counts = getattr(release, "noisy_counts", None)
    if counts is None:
        return None
    top = np.sort(counts, axis=1)
    return np.asarray(top[:, -1] - top[:, -2], dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """What a run gave: ``result`` for everybody, ``sensitive`` for the curator alone (None unless asked for)."""

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
        be absent or empty. A killed run is continued by calling again: what was released, and teachers, are kept in
        ``OUT.private``. None writes nothing.
    data_home : path or None
        See :func:`pate.load_dataset`.
    sensitive_report : bool
        Also compute what must stay inside (references without privacy, how long training took; of teachers also vote
        margins, what more of them gave and data-dependent costs) and write it to ``sensitive.html``.
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
        data = load_dataset(
            config.dataset,
            protocol=config.protocol,
            data_home=data_home,
            random_state=seed,
            n_public=config.n_public,
            n_private=config.n_private,
        )
        coded = encode_dataset(data)
        # Representations read tables cell by cell; teachers and DP-SGD need numbers, learnt from public rows.
        rows_of = coded if config.who_votes() == "shards" else data
        clf = _classifier(config, data, seed, folder, repeat, verbose)
        started = perf_counter()
        teachers, votes = clf.fit_keeping(
            rows_of.private.X, data.private.y, X_public=rows_of.public.X, groups=data.private.groups
        )
        seconds.append(Seconds(name="PATE", seconds=perf_counter() - started, seed=seed))
        release = clf.release_
        rows.append(_row("PATE", config, clf.score(rows_of.test.X, data.test.y), seed, release))
        if config.dpsgd != "none":
            started = perf_counter()
            rows.append(_dpsgd_row(config, data if config.dpsgd == "auto" else coded, seed, verbose))
            seconds.append(Seconds(name="DP-SGD", seconds=perf_counter() - started, seed=seed))
        if sensitive_report:
            if votes is None:
                inside.append(look_behind(rows_of, coded, teachers, clf, seed))
            else:
                delta, whole = config.budget.delta, first is None
                inside.append(look_inside(rows_of, coded, teachers, votes, clf, seed, delta=delta, first=whole))
        if first is None:
            first = _First(release, data, clf.queries_, teachers.recipe if votes is None else None)
    assert first is not None
    result = _result(config, first, rows, command)
    sensitive = _gathered(inside, seconds) if sensitive_report else None
    if folder is not None:
        _write(folder, result, sensitive, first)
    return RunResult(result, sensitive, first.release)


@dataclass(frozen=True)
class _First:
    """What the first repeat gave."""

    release: LabelRelease | ModelLabels
    data: Dataset
    queries: npt.NDArray[np.int64]
    recipe: Recipe | None


def _classifier(
    config: RunConfig, data: Dataset, seed: int, folder: RunFolder | None, repeat: int, verbose: bool
) -> PATEClassifier:
    kept = None if folder is None else folder.private / f"repeat-{repeat}"
    who = config.who_votes()
    by_teachers: dict[str, Any] = {}
    if who != "records":
        by_teachers = {
            "partition_seed": seed if config.partition_seed is None else config.partition_seed + repeat,
            "checkpoint_dir": None if kept is None else kept / "teachers",
            "measure": False,  # test rows tell, and what votes cost is worked out for labels alone
        }
    return PATEClassifier(
        None if config.teacher is None else make_teacher(config.teacher),
        voters=who,
        n_teachers=config.n_teachers,
        budget=config.budget,
        classes=range(len(data.classes)),
        mechanism=config.mechanism,
        student=None if config.student is None else make_student(config.student),
        n_queries=config.n_queries,
        select=config.select,
        gap=config.gap,
        max_answers=config.max_answers,
        on_exhausted=config.on_exhausted,
        n_jobs=config.n_jobs,
        random_state=seed,
        image_shape=data.image_shape,
        ledger=None if kept is None else Ledger(kept / "ledger.sqlite"),
        tuning=config.tuning,
        anyway=True,  # a study shows what comes of any setting
        verbose=verbose,
        **by_teachers,
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


def _row(contestant: str, config: RunConfig, accuracy: float, seed: int, release: ReleasedLabels | None) -> Row:
    return Row(
        contestant=contestant,
        epsilon=config.budget.epsilon,
        delta=config.budget.delta,
        accuracy=float(accuracy),
        seed=seed,
        queries=None if release is None else int((release.status != NOT_ASKED).sum()),
        answers=None if release is None else release.n_answered,
    )


def _dpsgd_row(config: RunConfig, data: Dataset, seed: int, verbose: bool) -> Row:
    clf = make_dpsgd(config.dpsgd, data, config.budget, random_state=seed, verbose=verbose)
    clf.fit(data.private.X, data.private.y, groups=data.private.groups, X_public=data.public.X)
    return _row("DP-SGD", config, clf.score(data.test.X, data.test.y), seed, None)


def _result(config: RunConfig, first: _First, rows: list[Row], command: str | None) -> Result:
    release, data, recipe = first.release, first.data, first.recipe
    answered = release.labels[release.answered]
    # The release's own time: two times would tell how long training took, which private rows decide.
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
        settings={
            **config.settings(),
            **({} if recipe is None else {"recipe": "; ".join(what for what, _ in recipe.reasons)}),
        },
        budget=config.budget,
        rows=tuple(rows),
        answers_per_class=tuple(np.bincount(answered, minlength=len(data.classes)).tolist()),
        cost_curve=cost_curve(release, config.budget.delta) if isinstance(release, LabelRelease) else None,
        examples=examples_of(release, data, first.queries),
        statement=release.statement,
        notes=_notes(release),
    )


def _notes(release: ReleasedLabels) -> tuple[str, ...]:
    labels = (
        "The labels and the statement are those of the first repeat. Every repeat is an experiment of its own: on "
        "data that need protection, one makes a single release."
    )
    if isinstance(release, RecordLabels):
        n, unit = len(release.rounds), "record" if release.statement.unit == "record" else "person"
        return (
            f"Every private {unit} was a voter, and cast one ballot in each of {n} round{'s' * (n > 1)}; nobody "
            "else did. The noisy sums are what was paid for; labels of the public rows, and of any other row, follow "
            "for nothing more. A Gaussian sum has no lower data-dependent cost.",
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
    # Answers read back from a ledger were priced when they were given.
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
            frame.to_csv(path, index=False)
        write_json(place / "statement.json", release.statement.to_dict())
        write_text(place / "statement.txt", release.statement.text())
        if sensitive is not None:
            write_sensitive_report(place / "sensitive.html", result, sensitive)
        write_report(place / "report.html", result)
        write_json(place / "results.json", result.to_dict())
