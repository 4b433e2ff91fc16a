"""``pate schema``: draft what the columns of a private table hold, from its header line and a person's answers."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from pate.cli import _options as o
from pate.cli._app import answer, complain, confirmed, is_interactive, say, say_json
from pate.exceptions import InvalidInputError

_KINDS = {"n": "numeric", "c": "category", "d": "date", "s": "skip"}
_ORDERS = {"y": "date:year-first", "d": "date:day-first", "m": "date:month-first"}


def schema(
    private: Annotated[Path, typer.Argument(help="Private text table (.csv, .csv.gz, ...) with a header line.")],
    out: Path = o.setting("Schema to write, a .toml file; must not exist.", o.OUTPUT, default=o.MISSING),
    target: str | None = o.setting("Column of the classes: no column of the schema.", o.PRIVATE),
    drop: list[str] | None = o.setting("Columns to leave out: owners, ids, free text.", o.PRIVATE, **o.AS_NAMES),
    no_input: bool = o.setting("Ask nothing: write a draft to be filled in.", o.RUN, default=False),
    sep: str | None = o.setting("What stands between cells, where the header leaves it open.", o.TABLES),
    encoding: str | None = o.setting("Encoding of the header line, where it is not UTF-8.", o.TABLES),
) -> None:
    """Draft a schema from the names in a private table's header line; no record is read.

    At a terminal it asks for each column's kind, and for its range, categories and special values; else it writes a
    draft to be filled in. Answer from a codebook or common knowledge, never by looking at the private records.
    """
    from pate._core.checks import did_you_mean
    from pate._core.files import check_can_write, write_text
    from pate.data import Schema, draft_schema, read_header

    if out.suffix.lower() != ".toml":
        raise InvalidInputError(f"--out must end in .toml, got {out.name!r}.")
    if out.exists():
        raise InvalidInputError(f"--out {str(out)!r} exists already. Name another file, or take that one away.")
    check_can_write("--out", out)
    names = read_header(private, sep=sep, encoding=encoding)
    for option, name in [("--target", target)] * (target is not None) + [("--drop", one) for one in drop or ()]:
        if name not in names:
            raise InvalidInputError(
                f"{option} must be in the header of {private.name}, and {name!r} is not.{did_you_mean(name, names)}"
            )
    left = [name for name in names if name != target and name not in (drop or ())]
    if not left:
        raise InvalidInputError(f"--drop leaves no column of {private.name}. Keep one at least.")
    asked = is_interactive() and not no_input
    if asked:
        say("All of a schema is public. Answer from a codebook or common knowledge, never by looking at the records.")
        made = [column for column in map(_column, left) if column is not None]
        Schema(tuple(made)).write(out)
    else:
        write_text(out, draft_schema(left, private.name))
    if not say_json({"columns": left, "filled_in": asked, "file": out}):
        todo = "" if asked else ": a draft. Fill in every column, or take it out"
        answer(f"Wrote {out}{todo}. `pate train --schema` takes it. Of {private.name} the header line alone was read.")


def _column(name: str) -> Any:
    """Ask a person what a column holds until the answers make one; None where it is left out."""
    from pate.data import Column, as_days

    while True:
        kind = _KINDS.get(_ask(name, "number, category, date, or skip it? [n/c/d/s]").lower()[:1])
        try:
            if kind == "skip":
                return None
            if kind == "category":
                return Column(name, kind, _texts(_ask(name, "all its values as they are written, by commas")))
            if kind == "date":
                order = _ORDERS.get(_ask(name, "written with year, day or month first? [y/d/m]").lower()[:1], "")
                ends = _ask(name, "earliest and latest possible day, such as 1920-01-01, 2030-12-31").split(",")
                return Column(name, order, range=tuple(as_days(end.strip(), "year-first") for end in ends))  # type: ignore[arg-type]
            if kind == "numeric":
                low_high = _numbers(_ask(name, "lowest and highest possible value, such as 0, 120"))
                codes = _numbers(_ask(name, "numbers that are codes or stand out, such as -9 or 0, by commas [none]"))
                whole = confirmed(f"{name!r}: whole numbers only?")
                return Column(name, kind, range=low_high, integer=whole, special=codes)  # type: ignore[arg-type]
            complain("Answer n, c, d or s.", "yellow")
        except InvalidInputError as error:
            complain(f"{error} Once more:", "yellow")


def _ask(name: str, question: str) -> str:
    typer.echo(f"{name!r}: {question} ", err=True, nl=False)
    said = sys.stdin.readline()
    if not said:
        raise InvalidInputError(
            f"the answers ended at the column {name!r}, and nothing was written. Answer all, or say --no-input."
        )
    return said.strip()


def _texts(said: str) -> tuple[str, ...]:
    """Return texts by commas, or a list as TOML has it, for values with commas in them."""
    if said.startswith("["):
        try:
            return tuple(tomllib.loads(f"x = {said}")["x"])
        except tomllib.TOMLDecodeError:
            raise InvalidInputError('a list must be written as ["a, b", "c"].') from None
    return tuple(part.strip() for part in said.split(",") if part.strip())


def _numbers(said: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in re.split(r"[,;\s]+", said) if part)
    except ValueError:
        raise InvalidInputError(f"numbers must be written as 0, 1.5, got {said[:40]!r}.") from None
