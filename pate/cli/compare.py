"""``pate compare``: PATE and DP-SGD side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pate.cli import _options as o
from pate.cli._app import answer, command_line, say_json
from pate.cli._output import show_progress


def compare(
    dataset: Annotated[str, o.option("digits, mnist, fashion_mnist, adult, ...", o.RUN)],
    out: Annotated[Path, o.option("Folder for rows and report; the same call goes on after a kill.", o.OUTPUT)],
    epsilons: Annotated[str, o.option("Budgets, separated by commas.", o.PRIVACY)] = "0.5,1,3,8",
    delta: o.Delta = o.DELTA,
    repeats: Annotated[int, o.option("Seeds per contestant and budget.", o.RUN)] = 3,
    protocol: o.Protocol = "standard",
    teachers: Annotated[
        int | None, o.option("So many teachers on shards; records vote when left out.", o.TEACHERS)
    ] = None,
    public: o.PublicRows = None,
    private: o.PrivateRows = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = o.JOBS,
) -> None:
    """Compare PATE with DP-SGD over budgets and seeds."""
    from pate.comparison.named import compare_on
    from pate.core.extras import need
    from pate.exceptions import InvalidInputError

    try:
        levels = [float(e) for e in epsilons.split(",")]
    except ValueError:
        raise InvalidInputError(f"--epsilons must be numbers separated by commas, got {epsilons!r}.") from None
    need("matplotlib", extra="plots", why="The comparison's report")
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
        verbose=show_progress(),
    )
    report.save(out, command=command_line())
    say_json({**report.to_dict(command=command_line()), "file": out / "report.html"})
    answer(str(report))
    answer(f"Open {out / 'report.html'}.")
