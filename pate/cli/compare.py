"""``pate compare``: PATE and DP-SGD side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pate.cli._app import command_line, say
from pate.cli._options import (
    DELTA,
    JOBS,
    OUTPUT,
    PRIVACY,
    RUN,
    TEACHERS,
    Delta,
    Jobs,
    PrivateRows,
    Protocol,
    PublicRows,
    Seed,
    option,
)


def compare(
    dataset: Annotated[str, option("digits, mnist, fashion_mnist, adult, ...", RUN)],
    out: Annotated[Path, option("Folder for rows and report; the same call goes on after a kill.", OUTPUT)],
    epsilons: Annotated[str, option("Budgets, separated by commas.", PRIVACY)] = "0.5,1,3,8",
    delta: Delta = DELTA,
    repeats: Annotated[int, option("Seeds per contestant and budget.", RUN)] = 3,
    protocol: Protocol = "standard",
    teachers: Annotated[int | None, option("Number of teachers; default by data set.", TEACHERS)] = None,
    public: PublicRows = None,
    private: PrivateRows = None,
    seed: Seed = 0,
    jobs: Jobs = JOBS,
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
