"""What every command shares: the app, options of one meaning, and errors in one clear line."""

from __future__ import annotations

import shlex
import sys
import warnings
from typing import Annotated, Any

import typer

from pate.exceptions import InvalidInputError, PateError, PateWarning

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
Select = Annotated[
    str, typer.Option(help="How they are chosen, from public data alone: random, first, spread or cluster.")
]
Gap = Annotated[float | None, typer.Option(help="Abstain below so many votes of noisy lead (histogram).")]
MaxAnswers = Annotated[int | None, typer.Option(help="Cap on answers (confident); the whole cap is charged.")]
OnExhausted = Annotated[str, typer.Option(help="When the budget does not buy all queries: raise or abstain.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Teachers side by side; -1 takes every core.")]
Seed = Annotated[int, typer.Option(help="Seed of splits and training; never of the shards or the privacy noise.")]
PartitionSeed = Annotated[
    int | None,
    typer.Option(help="Cut the shards by this seed, not by a secret: for data that are nobody's secret only."),
]
Tuning = Annotated[str, typer.Option(help="For the statement: what was tuned on private data, and if it is charged.")]
SensitiveReport = Annotated[
    bool, typer.Option("--sensitive-report", help="Also write sensitive.html, which must stay inside.")
]


def chosen_mechanism(
    name: str | None, sigma: float | None, scale: float | None, threshold: float | None, sigma_threshold: float | None
) -> Any:
    """Return the mechanism that the options name; None: it will be calibrated to the budget."""
    from pate.mechanisms import make_mechanism

    parameters = {"sigma": sigma, "scale": scale, "threshold": threshold, "sigma_threshold": sigma_threshold}
    if name is not None:
        return make_mechanism(name, **parameters)
    if any(value is not None for value in parameters.values()):
        raise InvalidInputError("noise is given without a mechanism. Say --mechanism gnmax, for example.")
    return None


def say(text: str) -> None:
    """Print a line on standard output."""
    typer.echo(text)


def command_line() -> str:
    """Return the command as it was typed, for the stamp of a result."""
    return shlex.join(["pate", *sys.argv[1:]])


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
    except OSError as error:  # a disk that filled up, a folder that went away: no fault of the program
        where = "" if error.filename is None else f" {error.filename!r}"
        told = (
            f"error: the system refused{where}: {error.strerror or error}. Mend that and give the same command again:"
        )
        typer.secho(f"{told} finished teachers and paid labels are kept.", fg="red", err=True)
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            typer.secho(
                "interrupted: nothing was lost. Finished teachers and paid labels are kept; the same command goes on.",
                fg="yellow",
                err=True,
            )
        raise
