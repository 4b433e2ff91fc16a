"""``pate show``: what a model file is, and its statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pate.cli import _options as o
from pate.cli._app import say


def show(
    model: Annotated[Path, typer.Argument(help="Model file, such as labels.pate.")],
    as_json: Annotated[bool, o.option("Print it as JSON.", o.OUTPUT, "--json")] = False,
    out: Annotated[
        Path | None, o.option("Write the page to this .html or .txt file; must not exist.", o.OUTPUT)
    ] = None,
) -> None:
    """Check a model file, and show what it is and what its release cost; nothing in it is run."""
    from pate.model import read_model, write_page

    file = read_model(model)
    if out is not None:
        write_page(file, out)
        say(f"Wrote {out}")
    elif as_json:
        say(json.dumps(file.to_dict(), indent=2))
    else:
        say(file.text().rstrip())
