"""``pate predict``: what a model says of any rows; free, however often it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pate.cli import _options as o
from pate.cli._app import say


def predict(
    rows: Annotated[Path, typer.Argument(help="Table with the model's columns, or flat folder of images.")],
    model: Annotated[Path, o.option("Model file that pate label wrote, such as labels.pate.", o.MODEL)],
    out: Annotated[Path, o.option("CSV file to write; must not exist.", o.OUTPUT)],
    id: Annotated[str | None, o.option("Column that is carried over as it is, such as a number.", o.OUTPUT)] = None,
    proba: Annotated[bool, o.option("Also write one column of probabilities per class.", o.OUTPUT, "--proba")] = False,
    safe_csv: Annotated[
        bool, o.option("An apostrophe before cells that a spreadsheet would run as a formula.", o.OUTPUT, "--safe-csv")
    ] = False,
    resize: Annotated[bool, o.option("Bring images to the model's size and colour.", o.IMAGES, "--resize")] = False,
) -> None:
    """Predict the classes of further rows by a model; this spends nothing."""
    from pate.jobs import predict_file

    done = predict_file(model, rows, out, id=id, proba=proba, resize=resize, safe_csv=safe_csv)
    if done.left_out:
        say(f"Left out, as the model does not ask for them: {', '.join(done.left_out)}")
    say(f"{done.n_rows} rows predicted; nothing was spent. The model's own guarantee: {done.headline}")
    say(f"Wrote {done.path}")
