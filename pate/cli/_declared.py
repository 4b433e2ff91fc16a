"""Commands made from a declaration: a dataclass whose fields are options, each written once.

A field's ``Annotated`` holds its type, ``typer.Option`` (help, group) and, where there is more to say, a :class:`Use`.
From these come the command's parameters, the keys of its job file and the arguments that are handed on.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from inspect import Parameter, Signature
from types import NoneType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pate.exceptions import InvalidInputError

#: What every misuse of a command line is to the library that reads it (typer brings one of its own, or takes click's).
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
#: Where :func:`takes_options` leaves what the options are called in Python.
OPTIONS_OF = "__pate_options__"
#: What Python calls it, where that is neither the option's name nor ``n_`` and the name.
_CALLED = {"random_state": "seed", "currency": "ledger_currency", "y": "target", "max_releases": "releases"}


@dataclass(frozen=True, kw_only=True)
class Use:
    """What becomes of an option besides its place on the command line.

    Attributes
    ----------
    argument : str or None
        Who is asked calls it that (several options may make one argument); empty: as the option; None: not handed on.
    way : str
        The only way in that heeds it; empty: all do.
    not_in_file : str
        Why no job file must hold it; empty: it may.
    kind : type
        The option's type, without None; read off the declaration.
    """

    argument: str | None = ""
    way: str = ""
    not_in_file: str = ""
    kind: Any = None


def uses_of(declaration: type) -> dict[str, Use]:
    """Return what becomes of each option."""
    found = {}
    for name, annotation in typing.get_type_hints(declaration, include_extras=True).items():
        base, *extras = typing.get_args(annotation)
        kinds = [kind for kind in typing.get_args(base) if kind is not NoneType]
        use = next((extra for extra in extras if isinstance(extra, Use)), Use())
        kind = kinds[0] if NoneType in typing.get_args(base) else base
        found[name] = replace(use, kind=kind, argument=name if use.argument == "" else use.argument)
    return found


def options_of(signature: Signature, hints: Mapping[str, Any]) -> dict[str, str]:
    """Return a command's options, such as ``--teachers``, by what errors may call them: ``teachers``, ``n_teachers``.

    Parameters
    ----------
    signature : inspect.Signature
    hints : mapping of str to type
        The parameters' annotations, resolved.
    """
    found: dict[str, str] = {}
    for name in signature.parameters:
        (info,) = [x for x in typing.get_args(hints.get(name))[1:] if type(x).__name__ == "OptionInfo"] or [None]
        if info is not None:
            flag = next(iter(info.param_decls or ()), "--" + name.replace("_", "-")).split("/")[0]
            found |= {name: flag, f"n_{name}": flag}
    return found | {python: found[name] for python, name in _CALLED.items() if name in found}


def takes_options(declaration: type) -> Callable[[Callable[[typer.Context, Any], None]], Callable[..., None]]:
    """Give a command the options that a dataclass declares: its fields, by their names, types and defaults."""
    said = typing.get_type_hints(declaration, include_extras=True)
    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for field in fields(declaration):
        default = Parameter.empty if field.default is MISSING else field.default
        parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=said[field.name]))

    def wrap(run: Callable[[typer.Context, Any], None]) -> Callable[..., None]:
        def command(*, context: typer.Context, **given: Any) -> None:
            run(context, declaration(**given))

        command.__name__, command.__doc__, command.__module__ = run.__name__, run.__doc__, run.__module__
        # typer reads both.
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        called: dict[str, str] = {
            use.argument: "--" + name.replace("_", "-") for name, use in reversed(uses_of(declaration).items())
            if use.argument is not None
        }  # fmt: skip
        setattr(command, OPTIONS_OF, called)
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return wrap


@contextmanager
def _refused_in_one_line(where: str, args: list[str]) -> Iterator[None]:
    """Say what is wrong with a command line as every other refusal is said: one line, and what would be right."""
    given = list(args)
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise InvalidInputError(_misuse(error, given, where)) from None


def _misuse(error: Any, args: list[str], where: str) -> str:
    # Some versions of typer put their own machinery's words before an error's.
    told = str(error.format_message()).replace("Value error, ", "").strip()
    see = f"See {where} -h."
    if (possible := getattr(error, "possibilities", None)) is not None and getattr(error, "option_name", None):
        near = f" Did you mean {' or '.join(list(possible)[:2])}?" if possible else ""
        return f"there is no option {error.option_name}.{near} {see}"
    if (missing := re.match(r"Missing (?:option|argument|parameter):? '?([^'.]+?)'?\.", told)) is not None:
        return f"{missing[1]} is missing. {see}"
    if (invalid := re.match(r"Invalid value for '?([^':]+?)'?(?: / [^:]*)?: (.*)", told, re.DOTALL)) is not None:
        option, why = invalid[1].split(" ")[0], " ".join(invalid[2].split())
        if (kind := re.search(r"valid (number|float|integer)", why)) is not None:
            whole = "a whole number" if kind[1] == "integer" else "a number"
            return f"{option} must be {whole}{_value_of(option, args)}. {see}"
        why = why.removeprefix(option.lstrip("-"))
        if why.startswith(" must"):
            return f"{option}{why} {see}"
        return f"{why} {see}" if why.startswith(option) else f"{option}: {why.rstrip('.')}. {see}"
    return f"{told[:1].lower()}{told[1:].rstrip('.?')}{'?' if told.endswith('?') else '.'} {see}"


def _value_of(option: str, args: list[str]) -> str:
    for i, word in enumerate(args):
        if word.startswith(option + "="):
            return f", got {word[len(option) + 1 :]!r}"
        if word == option and i + 1 < len(args):
            return f", got {args[i + 1]!r}"
    return ""


class GroupedCommand(TyperCommand):
    """A command whose help has its options in groups, as plain text, and examples to copy below them."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = parameter.param_type_name == "argument"
                group = getattr(parameter, "rich_help_panel", None) or ("Arguments" if argument else "On the screen")
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they stand: a line that is broken anew cannot be copied."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"  {line}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        with _refused_in_one_line(ctx.command_path, args):
            return super().parse_args(ctx, args)


class CommandGroup(TyperGroup):
    """Commands under one name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line up to the command's name."""
        with _refused_in_one_line(ctx.command_path, args):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of that name."""
        with _refused_in_one_line(ctx.command_path, args):
            return super().resolve_command(ctx, args)
