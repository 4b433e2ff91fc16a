"""Commands made from a declaration: a dataclass whose fields are options, each written once.

A field's ``Annotated`` holds its type, ``typer.Option`` (help, group) and, where there is more to say, a :class:`Use`.
From these come the command's parameters, the keys of its job file and the arguments that are handed on.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from inspect import Parameter, Signature
from types import NoneType
from typing import Any

import typer
from typer.core import TyperCommand


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

    Examples
    --------
    >>> Use(argument="n_teachers").way
    ''
    """

    argument: str | None = ""
    way: str = ""
    not_in_file: str = ""
    kind: Any = None


def uses_of(declaration: type) -> dict[str, Use]:
    """Return what becomes of each option.

    Examples
    --------
    >>> from typing import Annotated
    >>> Teachers = dataclass(type("Teachers", (), {"__annotations__": {"n": Annotated[int | None, Use(way="here")]}}))
    >>> uses_of(Teachers)
    {'n': Use(argument='n', way='here', not_in_file='', kind=<class 'int'>)}
    """
    found = {}
    for name, annotation in typing.get_type_hints(declaration, include_extras=True).items():
        base, *extras = typing.get_args(annotation)
        kinds = [kind for kind in typing.get_args(base) if kind is not NoneType]
        use = next((extra for extra in extras if isinstance(extra, Use)), Use())
        kind = kinds[0] if NoneType in typing.get_args(base) else base
        found[name] = replace(use, kind=kind, argument=name if use.argument == "" else use.argument)
    return found


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
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return wrap


class GroupedCommand(TyperCommand):
    """A command whose help has its options in groups, as plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = parameter.param_type_name == "argument"
                group = getattr(parameter, "rich_help_panel", None) or ("Arguments" if argument else "Run")
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; some versions of typer put their own machinery's words before an error's."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise
