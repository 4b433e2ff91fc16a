"""``pate show``: what a model file is, and its statement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pate.cli import _options as o
from pate.cli._app import answer, say_json


def show(
    model: Annotated[Path, typer.Argument(help="Model file, such as labels.pate.")],
    out: Annotated[
        Path | None, o.option("Write the page to this .html or .txt file; must not exist.", o.OUTPUT)
    ] = None,
) -> None:
    """Check a model file, and show what it is and what its release cost; nothing in it is run."""
    from pate.model import read_model, write_page

    file = read_model(model)
    if out is not None:
        write_page(file, out)
    say_json({**file.to_dict(), "page": out})
    answer(file.text().rstrip() if out is None else f"Wrote {out}")
