"""``pate compare``: contestants side by side, PATE's and DP-SGD's above all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pate.cli import _options as o
from pate.cli._app import answer, command_line, say_json
from pate.cli._output import show_progress


def compare(
    dataset: o.DatasetName,
    out: Annotated[Path, o.option("Folder for rows and report; the same call goes on after a kill.", o.OUTPUT)],
    contestants: Annotated[
        list[str], o.names_option("pate, dpsgd, confident-gnmax, ...; the quick ones when left out.", o.RUN)
    ] = (),  # type: ignore[assignment]
    epsilons: Annotated[str, o.option("Budgets, separated by commas.", o.PRIVACY)] = "0.5,1,3,8",
    delta: o.Delta = o.DELTA,
    repeats: Annotated[int, o.option("Splits drawn anew, on each of which all contestants meet.", o.RUN)] = 5,
    protocol: o.Protocol = "standard",
    public: o.PublicRows = None,
    private: o.PrivateRows = None,
    by: Annotated[str | None, o.option("A column: accuracy and answers by its values, too.", o.RUN)] = None,
    sensitive_report: Annotated[
        bool, o.option("Also write sensitive.html, which must stay inside.", o.OUTPUT, "--sensitive-report")
    ] = False,
    seed: o.Seed = 0,
    jobs: Annotated[int, o.option("Fits side by side; -1 takes every core.", o.RUN)] = o.JOBS,
) -> None:
    """Compare PATE with DP-SGD and others, over budgets and repeats."""
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
        verbose=show_progress(),
    )
    report.save(out, command=command_line())
    say_json({**report.to_dict(command=command_line()), "file": out / "report.html"})
    answer(str(report))
    answer(f"Open {out / 'report.html'}.")
