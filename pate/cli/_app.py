"""The parts that all commands share: the app, errors in one line, output and where it goes.

The result goes to standard output, everything else to standard error. Every command takes ``--quiet``, ``--verbose``
and ``--json`` (:func:`as_command` adds them) and speaks by the functions here, so that all of them mean the same
everywhere.
"""

from __future__ import annotations

import ast
import dataclasses
import errno
import functools
import inspect
import json
import logging
import math
import os
import re
import select
import shlex
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from pate._core.pages import visible
from pate.cli._options import OPTIONS_OF, SCREEN, CommandGroup, GroupedCommand, option, options_of
from pate.exceptions import InvalidInputError, PateError, PateWarning

# Examples for ``-h``, to copy and adapt: every one is read by its own command in the tests.

_EXAMPLES = r"""
pate demo
pate demo --epsilon 1 --out runs/tight
pate run --dataset digits --epsilon 3 --out runs/digits
pate run --dataset mnist --epsilon 2.6 --teachers 250 --mechanism confident-gnmax --sigma 40 \
    --threshold 200 --sigma-threshold 150 --queries 640 --out runs/mnist
pate label --private patients.csv --target ill --public cohort.csv --classes no,yes \
    --epsilon 1 --delta 1e-6 --out labels.csv
pate label --private patients.csv --target ill --group patient_id --public cohort.csv \
    --classes no,yes --epsilon 1 --out labels.csv --plan
pate label --votes votes.npy --classes no,yes --public cohort.csv --epsilon 1 --out labels.csv
pate label --private homes.csv --target price --numeric --range 0,5000000 --public cohort.csv \
    --epsilon 1 --out prices.csv
pate predict new.csv --model labels.pate --id patient_id --out predictions.csv
pate predict new.csv --model labels.pate --out predictions.csv --proba
pate show labels.pate
pate show labels.pate --out model.html
pate schema patients.csv --out schema.toml --target ill --drop patient_id
pate schema patients.csv --out schema.toml --no-input
pate train --private patients.csv --schema schema.toml --target ill --classes no,yes \
    --epsilon 1 --model ill.pate
pate account votes.npy --mechanism gnmax --sigma 40 --delta 1e-5
pate account votes.npy --mechanism gnmax --sigma 40 --delta 1e-5 --reveal --plot epsilon.png
pate plan --epsilon 1 --classes 2 --records 5000 --public 800
pate plan --epsilon 1 --classes no,yes --records 5000 --public cohort.csv --best 0.9
pate plan --epsilon 1 --classes 10 --records 60000 --queries 300
pate compare --dataset digits --epsilons 0.5,1,3 --out runs/compare
pate audit runs/digits
pate audit labels.statement.json --cite labels.audited.json
pate audit votes.npy --mechanism gnmax --sigma 40 --delta 1e-5
pate audit votes.npy --mechanism gnmax --sigma 40 --canary votes-without-me.npy --out inside/audit
pate audit job.toml --pairs 20
pate federation init --out cohort --coordinator registry@10.0.0.1:7100 \
    --site north@10.0.0.2:7200 --site south@10.0.0.3:7200 --site west@10.0.0.4:7200
pate federation init --out cohort --sites 5
pate federation site --bundle cohort/north --private patients.csv --target ill --classes no,yes \
    --total-epsilon 3
pate federation site --bundle cohort/north --private patients.csv --target ill --classes no,yes \
    --total-epsilon 3 --max-epsilon 1 --min-tolerate 2 --once
pate federation ask --public cohort.csv --sites sites.toml --bundle cohort/registry \
    --tolerate 1 --classes no,yes --epsilon 1 --delta 1e-6 --out labels.csv
pate federation demo --sites 10
pate statement labels.statement.json
pate statement labels.statement.json --ledger patients.csv.ledger.sqlite --out page.html
pate statement --new-catalogue de.toml
pate statement labels.statement.json --catalogue de.toml --out seite.html
pate verify labels.csv labels.statement.json
pate verify labels.csv labels.pate labels.statement.* --ledger patients.csv.ledger.sqlite
pate verify labels.statement.json --ledger copy.sqlite --head 3f6c...
pate ledger begin patients.csv.ledger.sqlite --epsilon 3 --delta 1e-6
pate ledger show patients.csv.ledger.sqlite
pate ledger verify patients.csv.ledger.sqlite
pate ledger verify patients.csv.ledger.sqlite --head 3f6c...
pate ledger bind patients.csv.ledger.sqlite labels.audited.json
pate ledger export patients.csv.ledger.sqlite labels.csv
pate ledger remaining patients.csv.ledger.sqlite --json
pate ledger revise patients.csv.ledger.sqlite --reason 'two wrong diagnoses corrected'
"""


#: Commands that are groups of commands.
_GROUPS = ("federation", "ledger")


def _by_command(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in text.strip().splitlines():
        if line.startswith("pate "):  # else the line before goes on
            words = line.split()[1:3]
            name = " ".join(words) if words[0] in _GROUPS else words[0]
        found[name] = (*found.get(name, ()), line)
    return found


#: By the command's name; a line for each, as it would be typed.
EXAMPLES = _by_command(_EXAMPLES)


# Errors in the words of the command line: what Python calls an argument is called by its option.

#: What follows an argument's name where it begins a sentence; elsewhere the word may be plain English.
_VERBS = "must|needs|is|are|has|have|holds|says|chose|cannot|and|or|asks|of|names"
#: What was left out is None in Python alone.
_NOTHING = {
    "must be None, ": "must be left out, or ",
    "must be None ": "must be left out ",
    ", got None": ", and was left out",
}
#: A sentence that says what to write in Python instead.
_PYTHON_CALL = r" [A-Z][^.:;?()]*\b[A-Za-z]+\([^()]*\)(?:[^.()]|\([^()]*\))*\.$"
_QUOTED = r"'[^']*'"
_VALUE = r"\[[^\]]*\]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s,;:()]*[^\s,;:().]"


def in_own_words(text: str, options: Mapping[str, str]) -> str:
    """Return an error or a warning with the names of options instead of Python arguments.

    ``options`` are those of the command by their arguments' names: of ``n_teachers must be at most 5``.
    """
    for left_out, instead in _NOTHING.items():
        text = text.replace(left_out, instead)
    text = re.sub(_PYTHON_CALL, "", text)
    # A mechanism is written as Python writes it: GNMax(sigma=40.0).
    parts = re.split(r"([A-Z]\w*\([^()]*\))", text)
    return "".join(part if i % 2 else _translated(part, options) for i, part in enumerate(parts))


def _translated(text: str, options: Mapping[str, str]) -> str:
    for name in sorted(options, key=len, reverse=True):
        option = options[name]
        word, flag = re.escape(name), re.escape(option)
        # What is given both for Python and as an option is said once: force=True (--force), groups (--group).
        text = re.sub(rf"(?<![\w-]){word}(=({_VALUE})?)? \(({flag}( ({_QUOTED}|[^)])*)?)\)", r"\3", text)
        text = re.sub(rf"(?<![\w-]){word}=True\b", option, text)
        text = re.sub(rf"(?<![\w-]){word}=(?=[\s,;]|\.?$|\.\s)", option, text)
        text = re.sub(rf"(?<![\w-]){word}=({_VALUE})", lambda m, o=option: f"{o} {_bare(m[1])}", text)  # type: ignore[misc]
        text = re.sub(rf"(^|(?<=[.:;] )){word}(?= ({_VERBS})\b)", option, text)
        if "_" in name:  # no English word
            text = re.sub(rf"(?<![\w.'\"/-]){word}(?![\w'\"/(])", option, text)
    second = re.match(rf"--[a-z-]+ (?:and|or) (\w+)(?= ({_VERBS})\b)", text)
    if second is not None and second[1] in options:
        text = text[: second.start(1)] + options[second[1]] + text[second.end(1) :]
    return text


def _bare(value: str) -> str:
    """Return a value as it would be typed."""
    try:
        text = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        text = None
    return shlex.quote(text) if isinstance(text, str) else value


# What a command says.

#: What every command takes besides its own options.
_SPEAKS = {
    "quiet": option("Only the result and warnings: no plan, no progress.", SCREEN, "--quiet", "-q"),
    "verbose": option(
        "Also the reasons behind every choice; on standard error, what is charged, trained and written as it happens.",
        SCREEN,
        "--verbose",
        "-v",
    ),
    "as_json": option(
        "One JSON document on standard output, and nothing else there; the rest goes to standard error.",
        SCREEN,
        "--json",
    ),
}


@dataclass
class Manner:
    """How the command that runs speaks; ``options``, by what Python calls them, are for errors."""

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
        typer.echo(visible(text), err=manner.json)


def answer(text: str) -> None:
    """Print what the command was asked for: also with ``--quiet``; with ``--json`` the document has it instead."""
    if not manner.json:
        typer.echo(visible(text))


def say_json(document: Any) -> bool:
    """Print the one JSON document, if ``--json`` was said, and return whether it was.

    Paths become texts, NumPy's values Python's, and what JSON cannot hold (NaN, infinity) null.
    """
    if manner.json:
        typer.echo(visible(json.dumps(_as_json(document), indent=2, allow_nan=False, ensure_ascii=False)))
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
    typer.secho(visible(text), fg=None if plain else colour, err=True)


def now_called(old: str, given: Any, new: str, value: Any) -> Any:
    """Return the value of the option ``new``, also if it was ``given`` by its former name; both are refused."""
    if not given:
        return value
    old, new = (f"--{name.replace('_', '-')}" for name in (old, new))
    if value not in (None, False, given):
        raise InvalidInputError(f"{old} is the former name of {new}, and both are given. Keep {new}.")
    complain(f"warning: {old} is deprecated: it is now called {new}.", "yellow")
    return given


@contextmanager
def logged(on: bool) -> Iterator[None]:
    """Show the public events of the log on standard error meanwhile, for ``--verbose``; see docs/production.md."""
    if not on:
        yield
        return
    logger, handler = logging.getLogger("pate"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s", "%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def to_predict(model: Path) -> str:
    """Return the command that asks a model, as a shell takes it."""
    return f"pate predict ROWS.csv --model {shlex.quote(str(model))} --out predictions.csv"


def confirmed(question: str, *, patiently: bool = False) -> bool:
    """Ask a person; Ctrl-C goes through, and the end of the input is a no.

    ``patiently``: in a thread, with which the process may end while it waits. What was typed before the question stood
    there answers nothing.
    """
    if patiently and sys.stdin.isatty():
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    typer.echo(visible(f"{question} [y/N] "), err=True, nl=False)
    if patiently:
        select.select([sys.stdin], [], [])  # a reader at work would hold the lock of the input
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
    from rich.text import Text

    table = Table(title=title, title_justify="left", **style)  # type: ignore[arg-type]
    for i, name in enumerate(heading):
        table.add_column(name, justify="right" if i and not texts else "left")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else 110).print(table)


def as_command(run: Callable[..., None]) -> Callable[..., None]:
    """Return a command that also takes ``--quiet``, ``--verbose`` and ``--json``, and names options in errors."""
    hints = typing.get_type_hints(run, include_extras=True)
    parameters = []
    for parameter in inspect.signature(run).parameters.values():
        hint, default = hints[parameter.name], parameter.default
        if isinstance(default, dataclasses.Field):
            hint, default = Annotated[hint, default.metadata["option"]], default.default
        if default is False and not typing.get_args(hint)[1].param_decls:  # a --no-name would do nothing then
            typing.get_args(hint)[1].param_decls = (f"--{parameter.name.replace('_', '-')}",)
        default = inspect.Parameter.empty if default is dataclasses.MISSING else default
        parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hint, default=default))
    names = {**options_of(parameters), **getattr(run, OPTIONS_OF, {})}

    @functools.wraps(run)
    def command(**given: Any) -> None:
        begin(**{name: given.pop(name) for name in ("quiet", "verbose")}, json=given.pop("as_json"), options=names)
        with logged(manner.verbose):
            run(**given)

    for name, info in _SPEAKS.items():
        said = Annotated[bool, info]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=said))
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


def free_folder(folder: Path) -> Path:
    """Return the folder, or the first of its numbered names that is free."""
    number, candidate = 1, folder
    while candidate.is_file() or (candidate.is_dir() and any(candidate.iterdir())):
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether an option stood on the command line, or in a configuration file."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


# The app.

#: What typer makes of Ctrl-C.
_INTERRUPTED = 130

app = typer.Typer(
    name="pate",
    cls=CommandGroup,
    help="Release labels and models learnt from private data with differential privacy (PATE and DP-SGD).",
    epilog="Exit codes: 0 done; 1 a check failed, or you answered no; 2 refused (the error says why); 3 a file is "
    "unknown to the ledger, or an audit could try nothing; 130 interrupted.",
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
    """Release labels and models learnt from private data with differential privacy (PATE and DP-SGD)."""


def add_commands(group: typer.Typer, *commands: Callable[..., None], under: str = "") -> None:
    """Add commands to a group, each with its examples and with how it speaks; ``under``: its own name, and a space."""
    for command in commands:
        examples = "\n".join(EXAMPLES[under + command.__name__])
        group.command(cls=GroupedCommand, epilog=examples)(as_command(command))


def command_line() -> str:
    """Return the command as it was typed, for the stamp of a result."""
    return shlex.join(["pate", *sys.argv[1:]])


#: Warnings of this command: a job and the release that it makes may both have a word on the same thing.
_shown: set[str] = set()


def _show_warning(message: Any, category: type[Warning], *_: Any) -> None:
    if issubclass(category, PateWarning) and str(message) not in _shown:
        _shown.add(str(message))
        complain(f"warning: {in_own_words(str(message), manner.options)}", "yellow")


def main() -> None:
    """Run the command line: errors in one clear line, 130 on Ctrl-C.

    Examples
    --------
    >>> main.__name__
    'main'
    """
    _shown.clear()
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
        remedy = "Allow more (ulimit -n 256)" if error.errno == errno.EMFILE else "Fix that"
        refusal = (
            f"error: the system refused{where}: {error.strerror or error}. {remedy} and run the same command again:"
        )
        complain(f"{refusal} finished teachers and paid labels are stored.", "red")
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            complain(
                "interrupted: nothing was lost. Finished teachers and paid labels are stored; run the same command "
                "to continue.",
                "yellow",
            )
        raise
