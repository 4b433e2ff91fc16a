"""Who was ahead in this project's own measurements, PATE or DP-SGD, at the same epsilon, delta and split."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

from pate.report._numbers import promised

#: A verdict of PATE's side, and the heading of its column.
VERDICTS = {"ahead": "PATE ahead", "undecided": "undecided", "behind": "DP-SGD ahead"}


@lru_cache(maxsize=1)
def measurements() -> dict[str, Any]:
    """Return ``rows`` (data, epsilon, and the verdict of a comparison of ours), ``delta`` and ``sources``.

    They are written by ``experiments/who_wins.py`` from stored comparisons.
    """
    file = resources.files("pate") / "_templates" / "measured.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def who_wins() -> dict[str, Any]:
    """Return a sentence, a table by epsilon, and where the figures are."""
    told = measurements()
    rows = told["rows"]
    counts = {name: sum(row["verdict"] == name for row in rows) for name in VERDICTS}
    lines = []
    for epsilon in sorted({row["epsilon"] for row in rows}):
        here = [row for row in rows if row["epsilon"] == epsilon]
        cells = ("; ".join(row["data"] for row in here if row["verdict"] == name) or "–" for name in VERDICTS)
        lines.append((f"ε = {epsilon:g}", *cells))
    n_data, delta = len({row["data"] for row in rows}), promised(told["delta"])
    sentence = (
        f"In {len(rows)} comparisons on {n_data} tasks at δ = {delta}, our defaults on both sides, by paired "
        f"intervals: PATE ahead in {counts['ahead']}, DP-SGD in {counts['behind']}, undecided in {counts['undecided']}."
    )
    return {"sentence": sentence, "heads": ["", *VERDICTS.values()], "lines": lines, "sources": told["sources"]}
