"""What every command shares: the app, and errors in one clear line."""

from __future__ import annotations

import shlex
import sys
import warnings
from typing import Any

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
