"""``pate demo`` and ``pate run``: the main job on a named data set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pate.cli import _options as o
from pate.cli._app import command_line, say

if TYPE_CHECKING:
    from pate.report.result import Result, SensitiveResult


def demo(
    out: Annotated[Path, o.option("Run folder; a number is appended when it is taken.", o.OUTPUT)] = Path("runs/demo"),
    epsilon: o.Epsilon = 3.0,
    repeats: Annotated[int, o.option("Seeds to average over.", o.RUN)] = 5,
    jobs: o.Jobs = o.JOBS,
) -> None:
    """Run the main job on scikit-learn's digits and write a report to open."""
    from pate.privacy.budget import Budget
    from pate.studies.config import demo_config
    from pate.studies.run import run_experiment

    folder = _fresh(out)
    config = demo_config(Budget(epsilon, o.DELTA), n_repeats=repeats, n_jobs=jobs)
    say(
        f"PATE on scikit-learn's digits at epsilon = {epsilon:g}, delta = {o.DELTA:g}, with nothing else said: every "
        f"private record votes. {repeats} seeds, and DP-SGD beside it.\n"
        "This demo also writes sensitive.html: digits are nobody's secret, and seeing what the noise costs is the best "
        "way to understand it. With real private data that file must stay inside."
    )
    done = run_experiment(config, out=folder, sensitive_report=True, command=command_line(), verbose=True)
    _summary(done.result, done.sensitive)
    say(done.release.statement.headline)
    say(f"Open {folder / 'report.html'} (and {folder / 'sensitive.html'}).")


def run(
    dataset: Annotated[str, o.option("digits, mnist, fashion_mnist, adult, diabetes130, ...", o.RUN)],
    epsilon: o.Epsilon,
    out: Annotated[Path, o.option("Run folder; absent or empty.", o.OUTPUT)],
    delta: o.Delta = o.DELTA,
    protocol: o.Protocol = "standard",
    voters: Annotated[
        Literal["records", "heads", "shards"] | None,
        o.option("Who votes: every record, unless something is said of teachers.", o.RUN),
    ] = None,
    teachers: Annotated[int | None, o.option("Number of teachers, each on a shard of its own.", o.TEACHERS)] = None,
    teacher: Annotated[
        str | None, o.option("logistic-regression, svm, random-forest, knn, mlp, ...", o.TEACHERS)
    ] = None,
    student: Annotated[
        str | None, o.option("Any of those, label-spreading or vote-spreading; by who votes when left out.", o.RUN)
    ] = None,
    mechanism: o.MechanismName = None,
    sigma: o.Sigma = None,
    scale: o.Scale = None,
    threshold: o.Threshold = None,
    sigma_threshold: o.SigmaThreshold = None,
    queries: o.Queries = None,
    select: Annotated[
        Literal["auto", "random", "first", "spread", "cluster"],
        o.option("How they are chosen, from public data alone.", o.NOISE),
    ] = "auto",
    gap: o.Gap = None,
    max_answers: o.MaxAnswers = None,
    on_exhausted: o.OnExhausted = "raise",
    dpsgd: Annotated[
        Literal["auto", "linear", "tanh-mlp", "tanh-cnn", "none"], o.option("Module of the DP-SGD baseline.", o.RUN)
    ] = "auto",
    repeats: Annotated[int, o.option("Seeds to average over; each is a release of its own.", o.RUN)] = 1,
    public: o.PublicRows = None,
    private: o.PrivateRows = None,
    seed: o.Seed = 0,
    partition_seed: o.PartitionSeed = None,
    jobs: o.Jobs = o.JOBS,
    tuning: o.Tuning = "",
    sensitive_report: Annotated[
        bool, o.option("Also write sensitive.html, which must stay inside.", o.OUTPUT, "--sensitive-report")
    ] = False,
) -> None:
    """Run PATE, and DP-SGD beside it, on a named data set."""
    from pate.privacy.budget import Budget
    from pate.studies.config import RunConfig
    from pate.studies.run import run_experiment

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
    done = run_experiment(config, out=out, sensitive_report=sensitive_report, command=command_line(), verbose=True)
    _summary(done.result, done.sensitive)
    say(done.release.statement.headline)
    say(f"Open {out / 'report.html'}.")


def _summary(result: Result, sensitive: SensitiveResult | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 110)
    table = Table(title=f"{result.title}: accuracy on test rows", title_justify="left")
    for name in ("contestant", "epsilon", "accuracy", "spread", "seeds", "answers"):
        table.add_column(name, justify="left" if name == "contestant" else "right")
    for name, epsilon, rows in _groups([row.to_dict() for row in result.rows], "epsilon"):
        answers = [r["answers"] for r in rows if r["answers"] is not None]
        table.add_row(
            name,
            f"{epsilon:g}",
            *_spread([r["accuracy"] for r in rows]),
            f"{_mean(answers):.0f}" if answers else "",
        )
    console.print(table)
    if sensitive is None:
        return
    table = Table(title="SENSITIVE, not for publication: without privacy", title_justify="left", style="red")
    for name in ("reference", "accuracy", "spread", "seeds"):
        table.add_column(name, justify="left" if name == "reference" else "right")
    for name, _, rows in _groups(
        [{"contestant": r.name, "accuracy": r.accuracy} for r in sensitive.references], "epsilon"
    ):
        table.add_row(name, *_spread([r["accuracy"] for r in rows]))
    console.print(table)


def _groups(rows: list[dict[str, Any]], key: str) -> list[tuple[str, Any, list[dict[str, Any]]]]:
    found: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["contestant"], row.get(key)), []).append(row)
    return [(name, value, members) for (name, value), members in found.items()]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _spread(values: list[float]) -> tuple[str, str, str]:
    from statistics import stdev

    return f"{_mean(values):.3f}", f"{stdev(values):.3f}" if len(values) > 1 else "", str(len(values))


def _fresh(out: Path) -> Path:
    """Return ``out``, or the first of out-2, out-3, ... that is free."""
    number, candidate = 1, out
    while candidate.is_file() or (candidate.is_dir() and any(candidate.iterdir())):
        number += 1
        candidate = out.with_name(f"{out.name}-{number}")
    return candidate
