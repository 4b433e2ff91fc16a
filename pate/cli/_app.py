"""What every command shares: the app, and errors in one clear line."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pate.cli._declared import CommandGroup, GroupedCommand
from pate.cli._examples import EXAMPLES
from pate.cli._output import answer as answer
from pate.cli._output import as_command, begin, complain, manner
from pate.cli._output import say as say
from pate.cli._output import say_json as say_json
from pate.cli._words import in_own_words
from pate.exceptions import PateError, PateWarning

#: What typer makes of Ctrl-C.
_INTERRUPTED = 130

app = typer.Typer(
    name="pate",
    cls=CommandGroup,
    help="Learn from private data by letting it vote, and know exactly what it cost.",
    epilog="Exit codes: 0 done; 1 a check found something, or you said no; 2 refused, and why; 3 a file is unknown; "
    "130 interrupted.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(value: bool) -> None:
    if value:
        from pate import __version__

        typer.echo(f"pate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Learn from private data by letting it vote, and know exactly what it cost."""


def add_commands(group: typer.Typer, *commands: Callable[..., None], under: str = "") -> None:
    """Add commands to a group, each with its examples and with how it speaks.

    Parameters
    ----------
    group : typer.Typer
    commands : callable
    under : str
        The group's own name, with a space after it; empty: the app itself.
    """
    for command in commands:
        examples = "\n".join(EXAMPLES[under + command.__name__])
        group.command(cls=GroupedCommand, epilog=examples)(as_command(command))


def command_line() -> str:
    """Return the command as it was typed, for the stamp of a result."""
    return shlex.join(["pate", *sys.argv[1:]])


#: Warnings of this command: a job and the release that it makes may both have a word on the same thing.
_told: set[str] = set()


def _show_warning(message: Any, category: type[Warning], *_: Any) -> None:
    if issubclass(category, PateWarning) and str(message) not in _told:
        _told.add(str(message))
        complain(f"warning: {in_own_words(str(message), manner.options)}", "yellow")


def main() -> None:
    """Run the command line: errors in one clear line, 130 on Ctrl-C.

    Examples
    --------
    >>> main.__name__
    'main'
    """
    _told.clear()
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    begin()
    try:
        app(prog_name="pate")
    except PateError as error:
        complain(f"error: {in_own_words(str(error), manner.options)}", "red")
        for note in getattr(error, "__notes__", ()):
            complain(f"  {in_own_words(note, manner.options)}", "red")
        sys.exit(2)
    except OSError as error:  # a disk that filled up, a folder that went away: no fault of the program
        where = "" if error.filename is None else f" {error.filename!r}"
        told = (
            f"error: the system refused{where}: {error.strerror or error}. Mend that and give the same command again:"
        )
        complain(f"{told} finished teachers and paid labels are kept.", "red")
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            complain(
                "interrupted: nothing was lost. Finished teachers and paid labels are kept; the same command goes on.",
                "yellow",
            )
        raise
