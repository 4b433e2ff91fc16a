"""``pate statement``: a release's privacy statement, read again from its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pate.cli import _options as o
from pate.cli._app import answer, say_json


def statement(
    file: Annotated[Path, typer.Argument(help="The statement's JSON, such as labels.statement.json.")],
    out: Annotated[
        Path | None, o.option("Write the page to this .html or .txt file; must not exist.", o.OUTPUT)
    ] = None,
    ledger: Annotated[
        Path | None, o.option("Also compare epsilon, releases, mechanism and head with this ledger.", o.PRIVACY)
    ] = None,
) -> None:
    """Check a privacy statement's JSON and show it as one page for people."""
    from pate.statement.files import check_against_ledger, read_statement, render_statement

    held = read_statement(file)
    if ledger is not None:
        check_against_ledger(held, ledger)
    made = render_statement(file, out)
    say_json({"statement": held.to_dict(), "compared_with": ledger, "file": out})
    answer(made.rstrip() if out is None else f"Wrote {out}")
