"""``pate predict``: what a model says of any rows; free, however often it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pate.cli import _options as o
from pate.cli._app import answer, say, say_json


def predict(
    rows: Annotated[Path, typer.Argument(help="Table with the model's columns, or flat folder of images.")],
    model: Annotated[Path, o.option("Model file that pate label wrote, such as labels.pate.", o.MODEL)],
    out: Annotated[Path, o.option("CSV file to write; must not exist.", o.OUTPUT)],
    id: Annotated[str | None, o.option("Column of ids, which stand beside the predictions.", o.TABLES)] = None,
    sep: Annotated[
        str | None, o.option("What parts the cells of a CSV file: one character, or tab; seen.", o.TABLES)
    ] = None,
    encoding: Annotated[str | None, o.option("How its letters are written; UTF-8.", o.TABLES)] = None,
    decimal: Annotated[
        Literal[".", ","] | None,
        o.option("What stands before its decimals; as in the model's own public table.", o.TABLES),
    ] = None,
    sheet: Annotated[str | None, o.option("Which sheet of an Excel workbook that has several.", o.TABLES)] = None,
    resize: Annotated[bool, o.option("Bring images to the model's size and colour.", o.IMAGES, "--resize")] = False,
    proba: Annotated[bool, o.option("Also write one column of probabilities per class.", o.OUTPUT, "--proba")] = False,
    safe_csv: Annotated[
        bool, o.option("An apostrophe before cells that a spreadsheet would run as a formula.", o.OUTPUT, "--safe-csv")
    ] = False,
) -> None:
    """Predict the classes of further rows by a model; this spends nothing."""
    from pate.jobs import predict_file

    done = predict_file(
        model, rows, out, id=id, proba=proba, sep=sep, encoding=encoding, decimal=decimal, sheet=sheet, resize=resize,
        safe_csv=safe_csv,
    )  # fmt: skip
    if done.left_out:
        say(f"Left out, as the model does not ask for them: {', '.join(done.left_out)}")
    say_json(
        {
            "rows": done.n_rows,
            "left_out": done.left_out,
            "guarantee": done.headline,
            "measured": done.measured or None,
            "file": done.path,
        }
    )
    answer(f"{done.n_rows} rows predicted; nothing was spent. The model's own guarantee: {done.headline}")
    if done.measured:
        answer(f"The model was measured: {done.measured}.")
    answer(f"Wrote {done.path}")
