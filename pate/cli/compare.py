"""``pate compare``: PATE and DP-SGD side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pate.cli._app import Delta, Jobs, Seed, command_line, say


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
    from pate.exceptions import InvalidInputError
    from pate.studies.contestants import compare_on

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
    report.save(out, command=command_line())
    say(str(report))
    say(f"Open {out / 'report.html'}.")
