"""Commands over the public names; no logic of its own.

Heavy modules are imported inside the commands: ``pate --help`` answers at once.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from pate.exceptions import PateError, PateWarning

#: What typer makes of Ctrl-C.
_INTERRUPTED = 130

app = typer.Typer(
    name="pate",
    help="Learn from private data by asking an ensemble of teachers, and know exactly what it cost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Epsilon = Annotated[float, typer.Option(help="The most that may be spent, above 0; at most 1 is strong.")]
Delta = Annotated[float, typer.Option(help="Well below one over the number of people.")]
Teachers = Annotated[int, typer.Option(help="Number of teachers: disjoint shards of the private data.")]
MechanismName = Annotated[
    str | None,
    typer.Option("--mechanism", help="histogram, gnmax, lnmax or confident; calibrated to the budget when left out."),
]
Sigma = Annotated[float | None, typer.Option(help="Gaussian noise on every count, in votes.")]
Scale = Annotated[float | None, typer.Option(help="Laplace noise on every count (lnmax), in votes.")]
Threshold = Annotated[float | None, typer.Option(help="Votes the largest count must reach (confident).")]
SigmaThreshold = Annotated[float | None, typer.Option(help="Noise of that test, in votes (confident).")]
Queries = Annotated[int | None, typer.Option(help="How many public rows to ask about.")]
Select = Annotated[str, typer.Option(help="How they are chosen, from public data alone: random, first or spread.")]
Gap = Annotated[float | None, typer.Option(help="Abstain below so many votes of noisy lead (histogram).")]
MaxAnswers = Annotated[int | None, typer.Option(help="Cap on answers (confident); the whole cap is charged.")]
OnExhausted = Annotated[str, typer.Option(help="When the budget does not buy all queries: raise or abstain.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Teachers side by side; -1 takes every core.")]
Seed = Annotated[int, typer.Option(help="Seed of splits and training; never of the privacy noise.")]
Tuning = Annotated[str, typer.Option(help="For the statement: what was tuned on private data, and if it is charged.")]
SensitiveReport = Annotated[
    bool, typer.Option("--sensitive-report", help="Also write sensitive.html, which must stay inside.")
]


def _mechanism(
    name: str | None, sigma: float | None, scale: float | None, threshold: float | None, sigma_threshold: float | None
) -> Any:
    from pate.exceptions import InvalidInputError
    from pate.mechanisms import make_mechanism

    parameters = {"sigma": sigma, "scale": scale, "threshold": threshold, "sigma_threshold": sigma_threshold}
    if name is not None:
        return make_mechanism(name, **parameters)
    if any(value is not None for value in parameters.values()):
        raise InvalidInputError("noise is given without a mechanism. Say --mechanism gnmax, for example.")
    return None


def _say(text: str) -> None:
    typer.echo(text)


def _command() -> str:
    return shlex.join(["pate", *sys.argv[1:]])


def _summary(result: dict[str, Any], sensitive: dict[str, Any] | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 110)
    table = Table(title=f"{result['title']}: accuracy on test rows", title_justify="left")
    for name in ("contestant", "epsilon", "accuracy", "spread", "seeds", "seconds", "answers"):
        table.add_column(name, justify="left" if name == "contestant" else "right")
    for name, epsilon, rows in _groups(result["rows"], "epsilon"):
        answers = [r["answers"] for r in rows if r["answers"] is not None]
        table.add_row(
            name,
            f"{epsilon:g}",
            *_spread([r["accuracy"] for r in rows]),
            f"{_mean([r['seconds'] for r in rows]):.1f}",
            f"{_mean(answers):.0f}" if answers else "",
        )
    console.print(table)
    if sensitive is None:
        return
    table = Table(title="SENSITIVE, not for publication: without privacy", title_justify="left", style="red")
    for name in ("reference", "accuracy", "spread", "seeds"):
        table.add_column(name, justify="left" if name == "reference" else "right")
    for name, _, rows in _groups([{**r, "contestant": r["name"]} for r in sensitive["references"]], "none"):
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
    while candidate.exists() and any(candidate.iterdir()):
        number += 1
        candidate = out.with_name(f"{out.name}-{number}")
    return candidate


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Run folder; a number is appended when it is taken.")] = Path("runs/demo"),
    epsilon: Epsilon = 3.0,
    repeats: Annotated[int, typer.Option(help="Seeds to average over.")] = 5,
    jobs: Jobs = -1,
) -> None:
    """Run the main job on scikit-learn's digits and write a report to open."""
    from pate.privacy.budget import Budget
    from pate.runs import demo_config, run_experiment

    folder = _fresh(out)
    config = demo_config(Budget(epsilon, 1e-5), n_repeats=repeats, n_jobs=jobs)
    _say(
        f"PATE on scikit-learn's digits at epsilon = {epsilon:g}, delta = 1e-5: {config.n_teachers} teachers, "
        f"{config.n_queries} questions about public rows, {repeats} seeds.\n"
        "This demo also writes sensitive.html: digits are nobody's secret, and seeing the votes' margins is the best "
        "way to understand PATE. With real private data that file must stay inside."
    )
    done = run_experiment(config, out=folder, sensitive_report=True, command=_command(), verbose=True)
    _summary(done.result, done.sensitive)
    _say(str(done.result["statement"]["headline"]))
    _say(f"Open {folder / 'report.html'} (and {folder / 'sensitive.html'}).")


@app.command()
def run(
    dataset: Annotated[str, typer.Option(help="digits, mnist, fashion_mnist, adult, diabetes130, ...")],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="Run folder; absent or empty.")],
    delta: Delta = 1e-5,
    protocol: Annotated[str, typer.Option(help="standard, or paper (public rows from the test set).")] = "standard",
    teachers: Teachers = 250,
    teacher: Annotated[str, typer.Option(help="logistic-regression, svm, random-forest, knn, mlp, ...")] = "svm",
    student: Annotated[str, typer.Option(help="Also label-spreading and vote-spreading.")] = "svm",
    mechanism: MechanismName = None,
    sigma: Sigma = None,
    scale: Scale = None,
    threshold: Threshold = None,
    sigma_threshold: SigmaThreshold = None,
    queries: Queries = None,
    select: Select = "random",
    gap: Gap = None,
    max_answers: MaxAnswers = None,
    on_exhausted: OnExhausted = "raise",
    dpsgd: Annotated[str, typer.Option(help="Module of the DP-SGD baseline: auto, linear, mlp, cnn or none.")] = "auto",
    repeats: Annotated[int, typer.Option(help="Seeds to average over; each is a release of its own.")] = 1,
    public: Annotated[int | None, typer.Option(help="Number of public rows.")] = None,
    private: Annotated[int | None, typer.Option(help="Number of private rows.")] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    tuning: Tuning = "not declared by the curator",
    sensitive_report: SensitiveReport = False,
) -> None:
    """Run PATE, and DP-SGD beside it, on a named data set."""
    from pate.privacy.budget import Budget
    from pate.runs import RunConfig, run_experiment

    config = RunConfig(
        dataset=dataset,
        budget=Budget(epsilon, delta),
        protocol=protocol,
        teacher=teacher,
        student=student,
        n_teachers=teachers,
        mechanism=_mechanism(mechanism, sigma, scale, threshold, sigma_threshold),
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
        n_jobs=jobs,
        tuning=tuning,
    )
    done = run_experiment(config, out=out, sensitive_report=sensitive_report, command=_command(), verbose=True)
    _summary(done.result, done.sensitive)
    _say(str(done.result["statement"]["headline"]))
    _say(f"Open {out / 'report.html'}.")


@app.command()
def label(
    private: Annotated[Path, typer.Option(help="Private table with the target: CSV, Parquet or npz.")],
    public: Annotated[Path, typer.Option(help="Public table with the same features.")],
    target: Annotated[str, typer.Option(help="Column of the classes.")],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="CSV file to write; must not exist.")],
    classes: Annotated[
        str | None,
        typer.Option(
            help="Every class that could occur, by commas. Public knowledge: left out, it is read off and leaks."
        ),
    ] = None,
    delta: Delta = 1e-5,
    teachers: Teachers = 100,
    group: Annotated[
        str | None, typer.Option(help="Column that says whose row it is: protects people, not rows.")
    ] = None,
    drop: Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")] = "",
    teacher: Annotated[str, typer.Option(help="logistic-regression, random-forest, ...")] = "logistic-regression",
    mechanism: MechanismName = None,
    sigma: Sigma = None,
    scale: Scale = None,
    threshold: Threshold = None,
    sigma_threshold: SigmaThreshold = None,
    queries: Queries = None,
    select: Select = "random",
    gap: Gap = None,
    max_answers: MaxAnswers = None,
    on_exhausted: OnExhausted = "raise",
    preprocess: Annotated[
        str, typer.Option(help="Scaling and encoding learnt from: public rows, shard, or none.")
    ] = "public",
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger of the private data; default: PRIVATE.ledger.sqlite, beside it.")
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    tuning: Tuning = "not declared by the curator",
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be spent.")] = False,
) -> None:
    """Label a public table with what teachers learn from a private one, within a budget."""
    from pate.label_job import LabelJob, check_new_files
    from pate.privacy.budget import Budget

    check_new_files(out)
    job = LabelJob(
        private,
        public,
        target=target,
        classes=None if classes is None else [c.strip() for c in classes.split(",")],
        budget=Budget(epsilon, delta),
        group=group,
        drop=[c.strip() for c in drop.split(",") if c.strip()],
        teacher=teacher,
        n_teachers=teachers,
        mechanism=_mechanism(mechanism, sigma, scale, threshold, sigma_threshold),
        n_queries=queries,
        select=select,
        gap=gap,
        max_answers=max_answers,
        on_exhausted=on_exhausted,
        preprocess=preprocess,
        ledger=ledger or private.with_name(private.name + ".ledger.sqlite"),
        checkpoint_dir=None if plan else out.with_name(out.stem + ".private") / "teachers",
        n_jobs=jobs,
        random_state=seed,
        tuning=tuning,
        verbose=True,
    )
    _say(f"Plan: {job.plan}")
    if plan:
        return
    release = job.run()
    paths = job.write(release, out)
    _say(f"{release.n_answered} of {release.n_queries} questions answered. {release.statement.headline}")
    _say("Wrote " + ", ".join(str(p) for p in paths))


def _smooth(text: str) -> Any:
    from pate.exceptions import InvalidInputError
    from pate.privacy.smooth_sensitivity import SmoothSensitivity

    try:
        order, beta, noise_scale = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"sanitise must be ORDER,BETA,NOISE such as 8,0.02,5, got {text!r}.") from None
    return SmoothSensitivity(order=order, beta=beta, noise_scale=noise_scale)


@app.command()
def account(
    votes: Annotated[Path, typer.Argument(help="Votes: .npy, .npz or .csv.")],
    delta: Delta,
    mechanism: Annotated[str, typer.Option(help="histogram, gnmax, lnmax or confident.")],
    sigma: Sigma = None,
    scale: Scale = None,
    threshold: Threshold = None,
    sigma_threshold: SigmaThreshold = None,
    kind: Annotated[str | None, typer.Option(help="counts (queries x classes) or labels (teachers x queries).")] = None,
    key: Annotated[str | None, typer.Option(help="Which array of an .npz.")] = None,
    teachers: Annotated[int | None, typer.Option(help="What every row of counts must sum to.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes; needed for labels.")] = None,
    rows: Annotated[int | None, typer.Option(help="Use the first queries only.")] = None,
    max_answers: MaxAnswers = None,
    sanitise: Annotated[
        str | None,
        typer.Option(help="ORDER,BETA,NOISE of a smooth-sensitivity release (gnmax), chosen without the votes."),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Also print data-dependent costs, which are private.")
    ] = False,
    pld: Annotated[
        bool | None,
        typer.Option("--pld/--no-pld", help="Compose privacy loss distributions too; default: where it takes seconds."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw epsilon against the number of queries into this .png or .svg; needs --reveal."),
    ] = None,
) -> None:
    """Say what a vote matrix that somebody else made costs under a mechanism."""
    from pate.accounting import USES
    from pate.accounting import account as account_votes
    from pate.exceptions import InvalidInputError
    from pate.privacy.conversion import format_up
    from pate.vote_files import read_votes

    if plot is not None and not reveal:
        raise InvalidInputError("--plot draws numbers that are functions of the votes. Say --reveal if that is meant.")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InvalidInputError(f"--plot must end in .png or .svg, got {plot.name!r}.")

    ask = (lambda q: str(typer.prompt(f"{q} [counts/labels]"))) if sys.stdin.isatty() else None
    matrix = read_votes(votes, kind=kind, key=key, n_teachers=teachers, classes=classes, rows=rows, ask=ask)
    chosen = _mechanism(mechanism, sigma, scale, threshold, sigma_threshold)
    how: bool | str = "auto" if pld is None else pld
    smooth = None if sanitise is None else _smooth(sanitise)
    report = account_votes(matrix, chosen, delta=delta, max_answers=max_answers, pld=how, sanitise=smooth)
    _say(f"{matrix.n_queries} queries, {matrix.n_classes} classes, {matrix.n_teachers} teachers, {chosen}")
    _say(f"public            {report.public}")
    _say(f"                  {USES['public']}")
    if report.sanitised is not None:
        _say(f"sanitised         {report.sanitised}")
        _say(f"                  {USES['sanitised']}")
    for name in ("data_dependent", "papernot2018", "papernot2017"):
        wrapped = getattr(report, name)
        if wrapped is None:
            continue
        title = f"{name.replace('_', '-'):<17} "
        if not reveal:
            _say(f"{title}hidden: it is a function of the votes; --reveal prints it")
            continue
        _say(f"{title}{wrapped.reveal()}")
        if name == "data_dependent":
            for guarantee in report.exact.reveal().values():
                _say(f"                  by {guarantee.method}: {format_up(guarantee.epsilon, 6)}")
        _say(f"                  {USES[name]}")
    if reveal:
        _say(f"expected answers  {report.expected_answers.reveal():.1f} (private)")
    if plot is not None:
        from pate._files import atomic_path
        from pate.accounting import cost_by_queries
        from pate.plots import cost_curves, figure_to_png, figure_to_svg

        curves = cost_by_queries(matrix, chosen, delta=delta, max_answers=max_answers, pld=how)
        warning = "SENSITIVE: all curves but the public one are functions of the votes; do not publish them"
        axes = cost_curves(curves.reveal(), ylabel=f"ε at δ = {delta:g}", title=warning)
        with atomic_path(plot, mode=0o600) as path:
            path.write_bytes(figure_to_png(axes) if plot.suffix == ".png" else figure_to_svg(axes).encode())
        _say(f"{plot} is sensitive: only its public curve may be published.")


@app.command()
def plan(
    epsilon: Epsilon,
    queries: Annotated[int, typer.Option(help="How many public rows to ask about.")],
    classes: Annotated[int, typer.Option(help="Number of classes.")],
    delta: Delta = 1e-5,
    records: Annotated[int | None, typer.Option(help="Number of private records.")] = None,
    teachers: Annotated[
        str | None, typer.Option(help="Numbers of teachers, separated by commas; default: as many as it takes.")
    ] = None,
    max_answers: Annotated[int | None, typer.Option(help="Cap on answers of confident; default: half.")] = None,
    right: Annotated[float, typer.Option(help="Probability of a right answer behind the gap.")] = 0.99,
) -> None:
    """Show what a budget buys: teachers, noise and the vote gap needed, before private data is touched."""
    from rich.console import Console
    from rich.table import Table

    from pate.exceptions import InvalidInputError
    from pate.planning import plan as make_plan
    from pate.privacy.budget import Budget

    try:
        numbers = None if teachers is None else [int(k) for k in teachers.split(",")]
    except ValueError:
        raise InvalidInputError(f"teachers must be whole numbers separated by commas, got {teachers!r}.") from None
    done = make_plan(
        Budget(epsilon, delta),
        n_queries=queries,
        n_classes=classes,
        n_records=records,
        n_teachers=numbers,
        max_answers=max_answers,
        right=right,
    )
    heading, body = done.columns()
    table = Table(title=done.title, title_justify="left")
    for i, name in enumerate(heading):
        table.add_column(name, justify="right" if i else "left")
    for row in body:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 110).print(table)
    for line in done.advice():
        _say(f"- {line}")


@app.command()
def compare(
    dataset: Annotated[str, typer.Option(help="digits, mnist, fashion_mnist, adult, ...")],
    out: Annotated[Path, typer.Option(help="Folder for rows and report; the same call goes on after a kill.")],
    epsilons: Annotated[str, typer.Option(help="Budgets, separated by commas.")] = "0.5,1,3,8",
    delta: Delta = 1e-5,
    repeats: Annotated[int, typer.Option(help="Seeds per contestant and budget.")] = 3,
    protocol: Annotated[str, typer.Option(help="standard or paper.")] = "standard",
    teachers: Annotated[int | None, typer.Option(help="Number of teachers; default by data set.")] = None,
    public: Annotated[int | None, typer.Option(help="Number of public rows.")] = None,
    private: Annotated[int | None, typer.Option(help="Number of private rows.")] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
) -> None:
    """Compare PATE with DP-SGD over budgets and seeds."""
    from pate.contestants import compare_on
    from pate.exceptions import InvalidInputError

    try:
        levels = [float(e) for e in epsilons.split(",")]
    except ValueError:
        raise InvalidInputError(f"epsilons must be numbers separated by commas, got {epsilons!r}.") from None
    report = compare_on(
        dataset,
        epsilons=levels,
        delta=delta,
        n_repeats=repeats,
        protocol=protocol,
        n_teachers=teachers,
        n_public=public,
        n_private=private,
        random_state=seed,
        n_jobs=jobs,
        out=out,
        verbose=True,
    )
    report.save(out, command=_command())
    _say(str(report))
    _say(f"Open {out / 'report.html'}.")


def _show_warning(message: Any, category: type[Warning], *_: Any) -> None:
    if issubclass(category, PateWarning):
        typer.secho(f"warning: {message}", fg="yellow", err=True)


def main() -> None:
    """Run the command line: errors in one clear line, 130 on Ctrl-C.

    Examples
    --------
    >>> main.__name__
    'main'
    """
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        app()
    except PateError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        for note in getattr(error, "__notes__", ()):
            typer.secho(f"  {note}", fg="red", err=True)
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            typer.secho(
                "interrupted: nothing was lost. Finished teachers and paid labels are kept; the same command goes on.",
                fg="yellow",
                err=True,
            )
        raise
