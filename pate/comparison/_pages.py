"""The files of a comparison: JSON, page, Markdown and pictures, and how they are read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pate.comparison.cells import Cell
from pate.core.files import atomic_path, write_json, write_text
from pate.exceptions import InvalidInputError, RunFolderError
from pate.report.comparison_result import ComparisonResult
from pate.studies.folders import read_json

_CELLS = "cells.jsonl"


def write(folder: Path, result: ComparisonResult) -> None:
    """Write all that may be published into a folder that is known to be this comparison's."""
    from pate.report import render_markdown, write_report
    from pate.report.plots import figure_to_png, figure_to_svg

    write_json(folder / "results.json", result.to_dict())
    write_report(folder / "report.html", result)
    picture = drawn(result)
    if picture is not None:
        write_text(folder / "accuracy.svg", figure_to_svg(picture))
        with atomic_path(folder / "accuracy.png") as goal:
            goal.write_bytes(figure_to_png(picture))
    write_text(folder / "report.md", render_markdown(result))


def drawn(result: ComparisonResult, ax: Any = None) -> Any:
    """Return the axes of a comparison's picture; None where no fit has an epsilon."""
    from pate.report import comparison_picture

    return comparison_picture(result, ax) if result.epsilons else None


def write_cells(folder: Path, cells: Sequence[Cell]) -> None:
    r"""Write the fits, unless a run has left them there."""
    if not (folder / _CELLS).exists():
        write_text(folder / _CELLS, "".join(json.dumps(cell.to_dict(), allow_nan=False) + "\n" for cell in cells))


def read(folder: Path) -> tuple[ComparisonResult, tuple[Cell, ...]]:
    """Return what a finished comparison left in its folder: the result, and the fits in its order.

    Raises
    ------
    RunFolderError
        There is none, or it is damaged.
    """
    try:
        lines = (folder / _CELLS).read_text(encoding="utf-8").splitlines()
        told = read_json(folder / "results.json")
    except OSError:
        raise RunFolderError(
            f"{folder} holds no finished comparison (results.json and {_CELLS}). Name the folder of one."
        ) from None
    try:
        result = ComparisonResult.from_dict(told)
        cells = {cell.key: cell for cell in (Cell.from_dict(json.loads(line)) for line in lines)}
        kept = tuple(cells[row.contestant, row.epsilon, row.repeat] for row in result.rows)
        same = all(cell.row() == row for cell, row in zip(kept, result.rows, strict=True))
    except (InvalidInputError, KeyError, ValueError):
        same, kept = False, ()
    if not same:
        raise RunFolderError(
            f"{folder / _CELLS} does not have the fits of {folder / 'results.json'}. Make the comparison again."
        )
    return result, kept
