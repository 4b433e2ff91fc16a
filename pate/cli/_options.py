"""Options that several commands share, each declared once: type, help, group of ``--help``, allowed values.

Defaults that mean the same everywhere stand here too.
"""

from __future__ import annotations

import difflib
import itertools
import math
import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from inspect import Parameter, Signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from pate.exceptions import InvalidInputError

# Commands made from a declaration: a dataclass whose fields are options, each written once.

#: What every misuse of a command line is to the library that reads it (typer brings one of its own, or takes click's).
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
#: Where :func:`takes_options` leaves what the options are called in Python.
OPTIONS_OF = "__pate_options__"
#: What Python calls it, where that is neither the option's name nor ``n_`` and the name.
_CALLED = {"random_state": "seed", "currency": "accounting_unit", "y": "target", "max_releases": "releases",
           "target_range": "range", "epsilon": "epsilons"}  # fmt: skip


@dataclass(frozen=True)
class Use:
    """What becomes of an option besides its place on the command line.

    Who is asked calls it ``argument`` (several options may make one): empty: as the option, None: it is not handed on.
    ``way`` is the only way in that uses it; empty: every one whose job has that argument. ``not_in_file``: why no job
    file must hold it. ``now`` is the present name of an option whose name is a former one: it still works, and says
    so. ``kind`` is its type, without None, read off the declaration.
    """

    argument: str | None = ""
    way: str = ""
    not_in_file: str = ""
    kind: Any = None
    now: str = ""


def annotated(declaration: type) -> dict[str, Any]:
    """Return the annotation of each option, as typer reads it."""
    said = typing.get_type_hints(declaration, include_extras=True)
    return {f.name: Annotated[said[f.name], f.metadata["option"]] if f.metadata else said[f.name]
            for f in fields(declaration)}  # fmt: skip


def uses_of(declaration: type) -> dict[str, Use]:
    """Return what becomes of each option."""
    found = {}
    for name, annotation in annotated(declaration).items():
        base, info = typing.get_args(annotation)
        kind = typing.get_args(base)[0] if NoneType in typing.get_args(base) else base
        found[name] = replace(info.use, kind=kind, argument=name if info.use.argument == "" else info.use.argument)
    return found


def options_of(parameters: Iterable[Parameter]) -> dict[str, str]:
    """Return a command's options, such as ``--teachers``, by what errors call them: ``teachers``, ``n_teachers``."""
    found: dict[str, str] = {}
    for name, hint in ((parameter.name, parameter.annotation) for parameter in parameters):
        (info,) = [x for x in typing.get_args(hint)[1:] if type(x).__name__ == "OptionInfo"] or [None]
        if info is not None:
            flag = next(iter(info.param_decls or ()), "--" + name.replace("_", "-")).split("/")[0]
            found |= {name: flag, f"n_{name}": flag}
    return found | {python: found[name] for python, name in _CALLED.items() if name in found}


def takes_options(declaration: type) -> Callable[[Callable[[typer.Context, Any], None]], Callable[..., None]]:
    """Give a command the options that a dataclass declares: its fields, by their names, types and defaults."""
    said = annotated(declaration)
    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for one in fields(declaration):
        default = Parameter.empty if one.default is MISSING else one.default
        parameters.append(Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=said[one.name]))

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
        called |= {name: "--" + name.replace("_", "-") for name in called if name in uses_of(declaration)}
        setattr(command, OPTIONS_OF, called)
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return wrap


class _InOneLine:
    """What says, as every other refusal is said, what is wrong with a command line, and what would be right."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, of a group up to the command's name."""
        with _refused_in_one_line(ctx.command_path, args):
            return super().parse_args(ctx, args)  # type: ignore[misc]


@contextmanager
def _refused_in_one_line(where: str, args: list[str]) -> Iterator[None]:
    given = list(args)
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise InvalidInputError(_misuse(error, given, where)) from None


def _misuse(error: Any, args: list[str], where: str) -> str:
    # Some versions of typer put their own machinery's words before an error's.
    text = str(error.format_message()).replace("Value error, ", "").strip()
    see = f"See {where} -h."
    if (possible := getattr(error, "possibilities", None)) is not None and getattr(error, "option_name", None):
        near = f" Did you mean {' or '.join(list(possible)[:2])}?" if possible else ""
        return f"there is no option {error.option_name}.{near} {see}"
    if (missing := re.match(r"Missing (?:option|argument|parameter):? '?([^'.]+?)'?\.", text)) is not None:
        return f"{missing[1]} is missing. {see}"
    if (invalid := re.match(r"Invalid value for '?([^':]+?)'?(?: / [^:]*)?: (.*)", text, re.DOTALL)) is not None:
        option, why = invalid[1].split(" ")[0], " ".join(invalid[2].split())
        if (kind := re.search(r"valid (number|float|integer)", why)) is not None:
            whole = "a whole number" if kind[1] == "integer" else "a number"
            return f"{option} must be {whole}{_value_of(option, args)}. {see}"
        why = why.removeprefix(option.lstrip("-"))
        if why.startswith(" must"):
            return f"{option}{why} {see}"
        return f"{why} {see}" if why.startswith(option) else f"{option}: {why.rstrip('.')}. {see}"
    return f"{text[:1].lower()}{text[1:].rstrip('.?')}{'?' if text.endswith('?') else '.'} {see}"


def _value_of(option: str, args: list[str]) -> str:
    said = ""  # the last one counts
    for word, after in itertools.pairwise([*args, ""]):
        if word == option or word.startswith(option + "="):
            said = f", got {after if word == option else word[len(option) + 1 :]!r}"
    return said


class GroupedCommand(_InOneLine, TyperCommand):
    """A command whose help has its options in groups, as plain text, and examples to copy below them."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        parameters = self.get_params(ctx)
        in_short = any(p.name == "help_all" for p in parameters) and "help_all" not in ctx.meta
        for parameter in parameters:
            record = parameter.get_help_record(ctx)
            argument = parameter.param_type_name == "argument"
            group = getattr(parameter, "rich_help_panel", None) or ("Arguments" if argument else "On the screen")
            if record is not None and not (in_short and isinstance(group, Rare)):
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they stand: a line that is wrapped again cannot be copied."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"  {line}\n")


class CommandGroup(_InOneLine, TyperGroup):
    """Commands under one name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of that name."""
        with _refused_in_one_line(ctx.command_path, args):
            return super().resolve_command(ctx, args)


# Groups of ``--help``, in no order: a command's help has them in the order of its options.
PRIVATE = "Private data"
PUBLIC = "Public rows"
TABLES = "Tables"
IMAGES = "Folders of images"
VOTES = "Votes cast elsewhere"
TEACHERS = "Teachers"
PRIVACY = "Privacy"
NOISE = "Noise and queries"
STATEMENT = "Statement"
MODEL = "Model"
OUTPUT = "Output"
RUN = "Run"
SCREEN = "On the screen"

DELTA = 1e-5
JOBS = -1


class Names(tuple[str, ...]):
    """Names as a command line gives them, ``--classes a,b`` or, commas and all, ``--classes a --classes b,c``."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Sequence[str], *, listed: bool = False) -> Names:
        """Return the names in texts: one holds several by commas, unless it is from a list; of several each is one."""
        if listed or len(values) != 1:
            return cls(value.strip() for value in values)
        return cls(part.strip() for part in values[0].split(",") if part.strip())


def whole_or_names(text: str) -> int | Names:
    """Return how many there are, or their names where these were given."""
    return int(text) if text.strip().isdecimal() else Names.of([text])


class Size(tuple[int, int]):
    """Width and height, such as ``28x28``."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Size:
        """Return the two numbers in a text."""
        if not isinstance(value, str):
            return cls(value)
        width, _, height = value.lower().partition("x")
        if not (width.strip().isdecimal() and height.strip().isdecimal()):
            raise InvalidInputError(f"size must be WIDTHxHEIGHT such as 28x28, got {value!r}.")
        return cls((int(width), int(height)))


class Rare(str):
    """A group of ``--help``, of an option that few need: where a command has many, only ``--help-all`` shows it."""

    __slots__ = ()


def option(
    text: str,
    group: str,
    *names: str,
    argument: str | None = "",
    way: str = "",
    not_in_file: str = "",
    rare: bool = False,
    **more: Any,
) -> Any:
    """Return what ``Annotated`` says of an option: ``names`` where ``--name`` would not do, and its :class:`Use`."""
    info = typer.Option(*names, help=text, rich_help_panel=Rare(group) if rare else group, **more)
    info.use = Use(argument, way, not_in_file)
    return info


def former(now: str, *, default: Any = None) -> Any:
    """Return a field that is the former name of the option ``now``: hidden, and still read."""
    made = setting(f"Now --{now.replace('_', '-')}.", RUN, default=default, argument=None, hidden=True)
    made.metadata["option"].use = Use(None, now=now)
    return made


def help_all(context: typer.Context, value: bool) -> bool:
    """Show the help with every option; what a command that has such an option calls ``help_all``."""
    if value:
        context.meta["help_all"] = True
        typer.echo(context.get_help())
        raise typer.Exit
    return value


def setting(text: str, group: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Return a field of a declaration, which is an option of one command alone; see :func:`option`."""
    return field(default=default, metadata={"option": option(text, group, *names, **more)})


def _names(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    if not value:
        return value if value is None else Names()
    source = context.get_parameter_source(str(parameter.name))
    names = Names.of(value, listed=source is not None and source.name == "DEFAULT_MAP")
    if not names:
        raise typer.BadParameter(f"got no name in {', '.join(map(repr, value))}. Name one, or leave the option out.")
    return names


def _size(value: Any) -> Size:
    try:
        return Size.parse(value)
    except InvalidInputError as error:  # some versions of click reword any ValueError
        raise typer.BadParameter(str(error)) from None


#: What an option that takes :class:`Names` says besides, whose type is ``list[str]``; and one that takes a size.
AS_NAMES: Any = {"callback": _names, "metavar": "A,B,...", "show_default": False}
AS_SIZE: Any = {"parser": _size, "metavar": "WxH"}

EPSILON_TEXT = "Privacy budget: the most that may be spent, above 0; 1 or less is strong."
Epsilon = Annotated[float, option(EPSILON_TEXT, PRIVACY, argument="budget")]
Delta = Annotated[
    float, option("Probability of exceeding it; well below 1 / number of people.", PRIVACY, argument="budget")
]
Commonest = Annotated[
    float | None,
    option(
        "Share of the commonest class, if publicly known: labels expected to be right less often are refused.", PRIVATE
    ),
]
Tuning = Annotated[
    str,
    option(
        "For the statement: what was tuned on the private data, and whether its cost is counted.", STATEMENT, rare=True
    ),
]

PartitionSeed = Annotated[
    int | None,
    option("Cut the shards by this seed instead of a secret: for public data only.", TEACHERS, rare=True),
]

#: A mechanism's name where one must be named (``pate account``), and where it may be left out.
NamedMechanism = Annotated[Literal["histogram", "gnmax", "lnmax", "confident-gnmax"], option("Kind of noise.", NOISE)]
MechanismName = Annotated[
    Literal["histogram", "gnmax", "lnmax", "confident-gnmax"] | None,
    option("Kind of noise; default: histogram, calibrated to the budget.", NOISE),
]
Sigma = Annotated[float | None, option("Gaussian noise on every count, in votes.", NOISE, argument="mechanism")]
Scale = Annotated[
    float | None, option("Laplace noise on every count (lnmax), in votes.", NOISE, argument="mechanism", rare=True)
]
Threshold = Annotated[
    float | None,
    option(
        "Votes that the largest count must reach, else there is no label (confident-gnmax).",
        NOISE,
        argument="mechanism",
        rare=True,
    ),
]
SigmaThreshold = Annotated[
    float | None,
    option("Noise of the test by --threshold, in votes (confident-gnmax).", NOISE, argument="mechanism", rare=True),
]
Queries = Annotated[int | None, option("How many public rows to ask about.", NOISE, argument="n_queries")]
Gap = Annotated[
    float | None,
    option(
        "No label where the two largest noisy counts differ by fewer votes than this (histogram).", NOISE, rare=True
    ),
]
MaxAnswers = Annotated[
    int | None,
    option(
        "Give at most so many labels (confident-gnmax); all of them are charged, even if fewer are given.",
        NOISE,
        rare=True,
    ),
]
OnExhausted = Annotated[
    Literal["raise", "abstain"],
    option(
        "When the budget does not buy all queries: refuse (raise), or ask about fewer rows (abstain).", NOISE, rare=True
    ),
]

Jobs = Annotated[int, option("Teachers trained in parallel; -1 takes every core.", RUN, argument="n_jobs")]
Seed = Annotated[
    int, option("Seed of splits and training; never of the shards or the privacy noise.", RUN, argument="random_state")
]

# Of files of votes.
VoteKind = Annotated[
    Literal["counts", "labels"] | None,
    option("What the file holds, where its shape leaves it open: counts (rows x classes) or labels (teachers x rows).",
           VOTES, rare=True),
]  # fmt: skip
VoteKey = Annotated[str | None, option("Which array of an .npz, where it has several.", VOTES, rare=True)]

Thousands = Annotated[
    Literal[",", ".", "apostrophe", "space"] | None,
    option(
        "What stands between thousands in CSV files, as in 5,993; default: as in the public one, or nothing.",
        TABLES,
        rare=True,
    ),
]

# Of named data sets.


def _known(value: str) -> str:
    """Refuse an unknown name before anything else that is missing is asked for."""
    from pate.data import check_dataset

    return check_dataset("--dataset", value, remedy="For a table of your own: pate label.")


def _known_or_own(value: str) -> str:
    """Let a path of a table pass; what is done with it depends on --target."""
    from pate.data import own_table

    return value if own_table(value) else _known(value)


DatasetOrTable = Annotated[
    str,
    option(
        "digits, mnist, fashion_mnist, adult, diabetes130, ...; with --target also a table of your own that needs no "
        "protection: it is cut at random.",
        RUN,
        callback=_known_or_own,
    ),
]
DatasetName = Annotated[str, option("digits, mnist, fashion_mnist, adult, diabetes130, ...", RUN, callback=_known)]
Protocol = Annotated[Literal["standard", "paper"], option("paper takes public rows from the test set.", PUBLIC)]
PublicRows = Annotated[int | None, option("Number of public rows.", PUBLIC, argument="n_public")]
PrivateRows = Annotated[int | None, option("Number of private rows.", PRIVATE, argument="n_private")]


def low_high(given: str, beside: str) -> tuple[float, float]:
    """Return the two numbers of --range, which a numeric target lies between."""
    if not given:
        raise InvalidInputError(
            f"--range is missing: with {beside} say what the target lies between, --range 0,5000, rather too wide."
        )
    try:
        low, high = map(float, given.replace(":", ",").split(","))
    except ValueError:
        raise InvalidInputError(
            f"--range must be LOW,HIGH with {beside}, two numbers that the target lies between, got {given[:60]!r}. "
            "Say them from public knowledge, rather too wide: --range 0,5000."
        ) from None
    return low, high


def chosen_mechanism(
    name: str | None, sigma: float | None, scale: float | None, threshold: float | None, sigma_threshold: float | None
) -> Any:
    """Return the mechanism that the options name; None: it will be calibrated to the budget."""
    from pate.mechanisms import make_mechanism

    parameters = {"sigma": sigma, "scale": scale, "threshold": threshold, "sigma_threshold": sigma_threshold}
    if name is not None:
        try:
            return make_mechanism(name, **parameters)
        except InvalidInputError as error:
            text = str(error)
            for option_name in parameters:  # as a person types them: these are plain words too
                text = re.sub(rf"(?<![\w-]){option_name}\b", "--" + option_name.replace("_", "-"), text)
            raise InvalidInputError(text) from None
    if any(value is not None for value in parameters.values()):
        raise InvalidInputError("noise is given without a mechanism. Say --mechanism gnmax, for example.")
    return None


# Options of a command in a TOML file: plain values only, so that reading one runs nothing.


#: What a file must hold for an option of each type: in words, and TOML's own types for it.
_KINDS: dict[Any, tuple[str, tuple[type, ...]]] = {
    Path: ("a text (a path)", (str,)),
    str: ("a text", (str,)),
    Size: ("a text", (str,)),
    float: ("a number", (int, float)),
    int: ("a whole number", (int,)),
    list[str]: ("a list of texts", (list,)),
    bool: ("true or false", (bool,)),
}
_MOST_BYTES = 1_000_000


def read_job_file(path: str | os.PathLike[str], uses: Mapping[str, Use]) -> dict[str, Any]:
    """Return the options in a TOML file, by the names of the command's options with ``_`` for ``-``: those there alone.

    One option a line, spelled as on the command line: ``max-answers = 100``. Paths start at the file's folder. An
    unknown option is refused (the nearest known one is named), and so is a value of another kind.
    """
    from pate._core.files import read_toml_file

    path = Path(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        raise InvalidInputError(
            f"--config must be a TOML file, got {path.name!r}: YAML reads no and 1e-5 as something else than is "
            "written. Write NAME = VALUE lines into a .toml file: texts in quotes, lists in [brackets]."
        )
    if path.suffix.lower() != ".toml":
        raise InvalidInputError(f"--config must end in .toml, got {path.name!r}. Write the options as a TOML file.")
    held = read_toml_file(path, what="job file", most_bytes=_MOST_BYTES, remedy="Write NAME = VALUE lines.")
    found: dict[str, Any] = {}
    for key, value in held.items():
        name = key.replace("-", "_")
        if name not in uses:
            allowed = [option for option, known in uses.items() if not (known.not_in_file or known.now)]
            near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0].replace('_', '-')!r}?" if near else ""
            listed = ", ".join(option.replace("_", "-") for option in allowed)
            raise InvalidInputError(f"{path} has the unknown option {key[:60]!r}.{hint} Known are: {listed}.")
        if uses[name].not_in_file:
            raise InvalidInputError(f"{path} must not hold {key!r}: {uses[name].not_in_file}.")
        if name in found:
            raise InvalidInputError(f"{path} has {key!r} twice, with - and with _. Keep one.")
        found[name] = _checked(path, key, value, uses[name].kind)
    return found


def _checked(path: Path, key: str, value: Any, kind: Any) -> Any:
    allowed = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    words, types = _KINDS[str if allowed else kind]
    fits = type(value) in types
    if fits and kind is Path:
        fits = value != "" and "\0" not in value
    elif fits and isinstance(value, list):
        fits = all(isinstance(one, str) for one in value)
    elif fits and isinstance(value, float):
        fits = math.isfinite(value)
    if not fits:
        hint = f" Put each in quotes: {key} = ['0', '1']." if types == (list,) else ""
        raise InvalidInputError(f"{path}: {key} must be {words}, got {str(value)[:60]!r}.{hint}")
    if allowed:
        from pate._core.checks import check_choice  # --help needs no numpy

        check_choice(f"{path}: {key}", value, allowed)
    return _placed(path.parent, value) if kind is Path else value


def _placed(folder: Path, value: str) -> str:
    """Return a path that starts at the file's folder; of a database (``duckdb:FILE?table=NAME``) its file's."""
    kind, sign, place = value.partition(":")
    return f"{kind}:{folder / place}" if sign and kind in ("duckdb", "sqlite") else str(folder / value)
