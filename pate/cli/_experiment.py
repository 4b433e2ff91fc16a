"""``pate demo``, ``pate run`` and ``pate compare``: experiments on named data sets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pate.cli import _options as o
from pate.cli._app import (
    answer,
    command_line,
    free_folder,
    manner,
    say,
    say_json,
    show_progress,
    show_table,
)

if TYPE_CHECKING:
    from pate.report.result import Result, SensitiveResult


# ``pate compare``: contestants side by side, PATE's and DP-SGD's above all.


def compare(
    dataset: o.DatasetOrTable,
    out: Path = o.setting(
        "Folder for rows and report; the same command continues after a kill.", o.OUTPUT, default=o.MISSING
    ),
    contestants: list[str] = o.setting(
        "pate, gnmax, dpsgd, ...; default: the quick ones.", o.RUN, default=(), **o.AS_NAMES
    ),
    epsilons: str = o.setting("Budgets, separated by commas.", o.PRIVACY, default="0.5,1,3,8"),
    delta: o.Delta = o.DELTA,
    repeats: int = o.setting("Random splits; all contestants run on each.", o.RUN, default=5),
    protocol: o.Protocol = "standard",
    public: o.PublicRows = None,
    private: o.PrivateRows = None,
    by: str | None = o.setting("Also report accuracy and answers for each value of this column.", o.RUN),
    target: str | None = o.setting("A column of numbers, to be predicted in place of the classes.", o.RUN),
    range: str | None = o.setting(
        "What --target lies between, from public knowledge: 0,5000.", o.RUN, metavar="LOW,HIGH"
    ),
    sensitive_report: bool = o.setting("Also write sensitive.html, which must stay inside.", o.OUTPUT, default=False),
    analysis: Literal["public", "data-dependent"] = o.setting(
        "data-dependent: sensitive.html with the curves by the votes' own epsilon, private to you.",
        o.OUTPUT,
        default="public",
    ),
    seed: o.Seed = 0,
    jobs: int = o.setting("Fits in parallel; -1 takes every core.", o.RUN, default=o.JOBS),
) -> None:
    """Compare PATE with DP-SGD and others, over budgets and repeats."""
    from pate._core.curator import need
    from pate.comparison.run import compare_on
    from pate.exceptions import InvalidInputError

    try:
        levels = [float(e) for e in epsilons.split(",")]
    except ValueError:
        raise InvalidInputError(f"--epsilons must be numbers separated by commas, got {epsilons!r}.") from None
    need("matplotlib", extra="plots", why="The comparison's report")
    report = compare_on(
        dataset,
        contestants=contestants,
        epsilons=levels,
        delta=delta,
        n_repeats=repeats,
        protocol=protocol,
        n_public=public,
        n_private=private,
        by=by,
        random_state=seed,
        n_jobs=jobs,
        out=out,
        sensitive_report=sensitive_report,
        analysis=analysis,
        verbose=show_progress(),
        target=target,
        target_range=None if range is None else o.low_high(range, "--target"),
    )
    report.save(out, command=command_line())
    say_json({**report.to_dict(command=command_line()), "file": out / "report.html"})
    answer(str(report))
    answer(f"Open {out / 'report.html'}.")
    if analysis == "data-dependent":
        answer(f"By the votes' own epsilon, PRIVATE to you and not for publication: {out / 'sensitive.html'}.")


def demo(
    out: Path = o.setting("Run folder; a number is appended when it is taken.", o.OUTPUT, default=Path("runs/demo")),
    epsilon: o.Epsilon = 3.0,
    repeats: int = o.setting("Seeds to average over.", o.RUN, default=5),
    jobs: o.Jobs = 1,  # to start workers takes longer than these teachers do
) -> None:
    """Run PATE with teachers on shards, PATE with records, and DP-SGD on scikit-learn's digits; write a report."""
    from pate.comparison.contestants import demo_config
    from pate.comparison.studies.run import run_experiment
    from pate.privacy.budget import Budget
    from pate.report import NEXT

    folder = free_folder(out)
    config = demo_config(Budget(epsilon, o.DELTA), n_repeats=repeats, n_jobs=jobs)
    say(
        f"PATE on scikit-learn's digits at epsilon = {epsilon:g}, delta = {o.DELTA:g}: teachers on disjoint shards "
        "vote, noise hides each of them, and a student learns from the noisy labels (Papernot et al. 2018). Beside it: "
        f"every record votes, and DP-SGD. {repeats} seeds, each with its rows shuffled anew.\n"
        "This demo also writes sensitive.html: digits are public, and it shows what the noise costs. "
        "With real private data that file must stay inside."
    )
    done = run_experiment(config, out=folder, sensitive_report=True, command=command_line(), verbose=show_progress())
    _print_run(done, folder)
    say(f"Next, your own table: {NEXT}")


def run(
    dataset: o.DatasetName,
    epsilon: o.Epsilon,
    out: Path = o.setting("Run folder; absent or empty.", o.OUTPUT, default=o.MISSING),
    delta: o.Delta = o.DELTA,
    protocol: o.Protocol = "standard",
    voters: Literal["records", "heads", "shards"] | None = o.setting(
        "Who votes; default: every record, or shards if an option about teachers, queries or noise is given.", o.RUN
    ),
    teachers: int | None = o.setting("Number of teachers, each on a shard of its own.", o.TEACHERS),
    teacher: str | None = o.setting("logistic-regression, svm, random-forest, knn, mlp, ...", o.TEACHERS),
    student: str | None = o.setting(
        "Classifier that learns from the labels: any of --teacher, label-spreading or vote-spreading; default: by who "
        "votes.",
        o.RUN,
    ),
    mechanism: o.MechanismName = None,
    sigma: o.Sigma = None,
    scale: o.Scale = None,
    threshold: o.Threshold = None,
    sigma_threshold: o.SigmaThreshold = None,
    queries: o.Queries = None,
    select: Literal["auto", "random", "first", "spread", "cluster"] = o.setting(
        "How these rows are chosen, from public data alone.", o.NOISE, default="auto"
    ),
    gap: o.Gap = None,
    max_answers: o.MaxAnswers = None,
    on_exhausted: o.OnExhausted = "raise",
    dpsgd: Literal["auto", "linear", "tanh-mlp", "tanh-cnn", "none"] = o.setting(
        "Module of the DP-SGD baseline.", o.RUN, default="auto"
    ),
    repeats: int = o.setting("Seeds to average over; each is a release of its own.", o.RUN, default=1),
    public: o.PublicRows = None,
    private: o.PrivateRows = None,
    seed: o.Seed = 0,
    partition_seed: o.PartitionSeed = None,
    jobs: o.Jobs = o.JOBS,
    tuning: o.Tuning = "",
    sensitive_report: bool = o.setting("Also write sensitive.html, which must stay inside.", o.OUTPUT, default=False),
) -> None:
    """Run PATE and DP-SGD on a named data set and write a report."""
    from pate.comparison.studies.config import RunConfig
    from pate.comparison.studies.run import run_experiment
    from pate.privacy.budget import Budget

    config = RunConfig(
        dataset=dataset,
        budget=Budget(epsilon, delta),
        protocol=protocol,
        voters=voters,
        teacher=teacher,
        student=student,
        n_teachers=teachers,
        mechanism=o.chosen_mechanism(mechanism, sigma, scale, threshold, sigma_threshold),
        n_queries=queries,
        select=select,
        gap=gap,
        max_answers=max_answers,
        on_exhausted=on_exhausted,
        dpsgd=dpsgd,
        n_repeats=repeats,
        n_public=public,
        n_private=private,
        random_state=seed,
        partition_seed=partition_seed,
        n_jobs=jobs,
        tuning=tuning,
    )
    done = run_experiment(
        config, out=out, sensitive_report=sensitive_report, command=command_line(), verbose=show_progress()
    )
    _print_run(done, out)


def _print_run(done: Any, folder: Path) -> None:
    """Print the results of a run, and the files to open."""
    pages = [folder / name for name in ("report.html", "sensitive.html") if (folder / name).exists()]
    say_json({**done.result.to_dict(), "files": pages})  # what is sensitive goes to its own page alone
    if not manner.json:
        _summary(done.result, done.sensitive)
    answer(done.release.statement.headline)
    answer(f"Open {' and '.join(map(str, pages))}.")


def _summary(result: Result, sensitive: SensitiveResult | None) -> None:
    from statistics import fmean

    rows = []
    for name, epsilon, of_it in _groups([row.to_dict() for row in result.rows], "epsilon"):
        answers = [r["answers"] for r in of_it if r["answers"] is not None]
        n_answers = f"{fmean(answers):.0f}" if answers else ""
        at = ("none", "no privacy") if epsilon is None else (f"{epsilon:g}", _mechanism(of_it[0]["settings"]))
        rows.append((name, *at, *_spread([r["accuracy"] for r in of_it]), n_answers))
    heading = ("contestant", "epsilon", "released by", "accuracy", "spread", "seeds", "answers")
    show_table(f"{result.title}: accuracy on test rows", heading, rows)
    if sensitive is None:
        return
    shown = {row.contestant for row in result.rows}  # of published rows
    references = [{"contestant": r.name, "accuracy": r.accuracy} for r in sensitive.references if r.name not in shown]
    sorted_out = [(name, *_spread([r["accuracy"] for r in of_it])) for name, _, of_it in _groups(references, "epsilon")]
    columns = ("reference", "accuracy", "spread", "seeds")
    show_table("SENSITIVE, not for publication: without privacy", columns, sorted_out, style="red")


def _mechanism(settings: str | None) -> str:
    """Return the mechanism that settings begin with: GNMax of "GNMax(sigma=8.0), 51 teachers"."""
    return re.split(r"[(,:;]", settings or "")[0]


def _groups(rows: list[dict[str, Any]], key: str) -> list[tuple[str, Any, list[dict[str, Any]]]]:
    found: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["contestant"], row.get(key)), []).append(row)
    return [(name, value, members) for (name, value), members in found.items()]


def _spread(values: list[float]) -> tuple[str, str, str]:
    from statistics import fmean, stdev

    return f"{fmean(values):.3f}", f"{stdev(values):.3f}" if len(values) > 1 else "", str(len(values))
