"""What a command says, and where: the result on standard output, everything else on standard error.

Every command takes ``--quiet``, ``--verbose`` and ``--json`` (:func:`as_command` adds them) and speaks by the functions
here, so that all of them mean the same everywhere.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from pate.cli._options import OPTIONS_OF, SCREEN, options_of

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Only the result and warnings: no plan, no progress.", rich_help_panel=SCREEN),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also the reasons behind every choice.", rich_help_panel=SCREEN)
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="One JSON document on standard output, and nothing else there; the rest goes to standard error.",
        rich_help_panel=SCREEN,
    ),
]


@dataclass
class Manner:
    """How the command that runs speaks.

    Attributes
    ----------
    quiet, verbose, json : bool
    options : mapping of str to str
        The command's options, ``--teachers``, by what Python calls them, ``n_teachers``: for errors.
    """

    quiet: bool = False
    verbose: bool = False
    json: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


#: One command runs in a process at a time; ``main`` begins with a new one.
manner = Manner()


def begin(**given: Any) -> None:
    """Forget how an earlier command of this process spoke."""
    vars(manner).update(vars(Manner(**given)))


def say(text: str) -> None:
    """Print what happens on the way: left out with ``--quiet``, on standard error with ``--json``."""
    if not manner.quiet:
        typer.echo(text, err=manner.json)


def answer(text: str) -> None:
    """Print what the command was asked for: also with ``--quiet``; with ``--json`` the document has it instead."""
    if not manner.json:
        typer.echo(text)


def say_json(document: Any) -> bool:
    """Print the one JSON document, if ``--json`` was said, and return whether it was.

    Paths become texts, NumPy's values Python's, and what JSON cannot hold (NaN, infinity) null.
    """
    if manner.json:
        typer.echo(json.dumps(_as_json(document), indent=2, allow_nan=False, ensure_ascii=False))
    return manner.json


def show_progress() -> bool:
    """Return whether bars of long work are shown, on standard error."""
    return not manner.quiet


def is_interactive() -> bool:
    """Return whether a person sits there who can be asked: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def complain(text: str, colour: str) -> None:
    """Print on standard error; in colour on a terminal only, unless NO_COLOR is set."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    typer.secho(text, fg=None if plain else colour, err=True)


def confirmed(question: str) -> bool:
    """Ask a person; Ctrl-C goes through, and the end of the input is a no."""
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    said = sys.stdin.readline()
    return said.strip().lower() in ("y", "yes")


def show_table(
    title: str, heading: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, texts: bool = False, **style: str
) -> None:
    """Print a table on standard output, its first column to the left, and all of them where they are ``texts``."""
    if manner.json:
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", **style)  # type: ignore[arg-type]
    for i, name in enumerate(heading):
        table.add_column(name, justify="right" if i and not texts else "left")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 110).print(table)


def as_command(run: Callable[..., None]) -> Callable[..., None]:
    """Return a command that also takes ``--quiet``, ``--verbose`` and ``--json``, and tells how errors name options."""
    kept = inspect.signature(run)
    hints = typing.get_type_hints(run, include_extras=True)
    names = {**options_of(kept, hints), **getattr(run, OPTIONS_OF, {})}

    @functools.wraps(run)
    def command(**given: Any) -> None:
        begin(**{name: given.pop(name) for name in ("quiet", "verbose")}, json=given.pop("as_json"), options=names)
        run(**given)

    added = {"quiet": Quiet, "verbose": Verbose, "as_json": Json}
    parameters = [
        *(p.replace(annotation=hints.get(name, p.annotation)) for name, p in kept.parameters.items()),
        *(inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=a) for n, a in added.items()),
    ]
    # typer reads both.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _as_json(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(held) for held in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # of NumPy, which need not be here
        return _as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
