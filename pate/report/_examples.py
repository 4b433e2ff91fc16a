"""Public images and what was released of them, drawn small."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from pate.report._numbers import percent
from pate.report.result import Example


def thumbnails(examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Return each image as markup, with its label and how sure the release is of it."""
    return [
        {"image": _drawn(e), "label": "none" if e.label is None else str(e.label), "sure": _sure(e)} for e in examples
    ]


def _sure(example: Example) -> str:
    if example.confidence is not None:
        return f"{percent(example.confidence)} sure"
    return "" if example.lead is None else f"lead of {example.lead:.0f} votes"


def _drawn(example: Example) -> Markup:
    """Return one path for each shade: runs of equal points, line by line."""
    runs: dict[str, list[str]] = {}
    for y, line in enumerate(example.image):
        x = 0
        for shade, points in groupby(line):
            n = len(list(points))
            if shade != "0":
                runs.setdefault(shade, []).append(f"M{x} {y}h{n}v1h-{n}z")
            x += n
    paths = Markup("").join(
        Markup("<path d='{}' fill-opacity='{}'/>").format("".join(places), f"{int(shade) / 9:.2g}")
        for shade, places in sorted(runs.items())
    )
    box = f"0 0 {len(example.image[0])} {len(example.image)}"
    told = "no label" if example.label is None else f"an image labelled {example.label}"
    return Markup("<svg class='thumb' viewBox='{}' role='img' aria-label='{}'>{}</svg>").format(box, told, paths)
