"""``pate account``: what a vote matrix that somebody else made costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pate.cli._app import Delta, MaxAnswers, Scale, Sigma, SigmaThreshold, Threshold, chosen_mechanism, say


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
    from pate._files import atomic_path, check_can_write
    from pate.accounting import USES
    from pate.accounting import account as account_votes
    from pate.exceptions import InvalidInputError
    from pate.privacy.conversion import format_up
    from pate.vote_files import read_votes

    if plot is not None and not reveal:
        raise InvalidInputError("--plot draws numbers that are functions of the votes. Say --reveal if that is meant.")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InvalidInputError(f"--plot must end in .png or .svg, got {plot.name!r}.")
    if plot is not None:
        check_can_write("--plot", plot)

    ask = (lambda q: str(typer.prompt(f"{q} [counts/labels]"))) if sys.stdin.isatty() else None
    matrix = read_votes(votes, kind=kind, key=key, n_teachers=teachers, classes=classes, rows=rows, ask=ask)
    chosen = chosen_mechanism(mechanism, sigma, scale, threshold, sigma_threshold)
    how: bool | str = "auto" if pld is None else pld
    smooth = None if sanitise is None else _smooth(sanitise)
    report = account_votes(matrix, chosen, delta=delta, max_answers=max_answers, pld=how, sanitise=smooth)
    say(f"{matrix.n_queries} queries, {matrix.n_classes} classes, {matrix.n_teachers} teachers, {chosen}")
    say(f"public            {report.public}")
    say(f"                  {USES['public']}")
    if report.sanitised is not None:
        say(f"sanitised         {report.sanitised}")
        say(f"                  {USES['sanitised']}")
    for name in ("data_dependent", "papernot2018", "papernot2017"):
        wrapped = getattr(report, name)
        if wrapped is None:
            continue
        title = f"{name.replace('_', '-'):<17} "
        if not reveal:
            say(f"{title}hidden: it is a function of the votes; --reveal prints it")
            continue
        say(f"{title}{wrapped.reveal()}")
        if name == "data_dependent":
            for guarantee in report.exact.reveal().values():
                say(f"                  by {guarantee.method}: {format_up(guarantee.epsilon, 6)}")
        say(f"                  {USES[name]}")
    if reveal:
        say(f"expected answers  {report.expected_answers.reveal():.1f} (private)")
    if plot is not None:
        from pate.accounting import cost_by_queries
        from pate.plots import cost_curves, figure_to_png, figure_to_svg

        curves = cost_by_queries(matrix, chosen, delta=delta, max_answers=max_answers, pld=how)
        warning = "SENSITIVE: all curves but the public one are functions of the votes; do not publish them"
        axes = cost_curves(curves.reveal(), ylabel=f"ε at δ = {delta:g}", title=warning)
        with atomic_path(plot, mode=0o600) as path:
            path.write_bytes(figure_to_png(axes) if plot.suffix == ".png" else figure_to_svg(axes).encode())
        say(f"{plot} is sensitive: only its public curve may be published.")


def _smooth(text: str) -> Any:
    from pate.exceptions import InvalidInputError
    from pate.privacy.smooth_sensitivity import SmoothSensitivity

    try:
        order, beta, noise_scale = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"sanitise must be ORDER,BETA,NOISE such as 8,0.02,5, got {text!r}.") from None
    return SmoothSensitivity(order=order, beta=beta, noise_scale=noise_scale)
