"""What a comparison says of itself as text: on a terminal, and in a notebook's cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pate.report._answer import listed, looks
from pate.report._numbers import promised
from pate.report.comparison_result import ComparisonResult


def titled(names: Sequence[str], dataset: str) -> str:
    """Return who is compared on what, in a few words."""
    names = list(dict.fromkeys(names))
    told = [*names[:2], f"{len(names) - 2} others"] if len(names) > 4 else names
    return f"{listed(told)} on {dataset}" if told else f"on {dataset}"


def accuracy_table(summary: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return a table of text: contestant, epsilon, accuracy with its standard deviation, fits."""
    table: list[tuple[str, ...]] = [("contestant", "epsilon", "accuracy", "fits")]
    for s in summary:
        spread = "" if math.isnan(s["std"]) else f" ± {s['std']:.3f}"
        epsilon = "" if s["epsilon"] is None else f"{s['epsilon']:g}"
        table.append((s["contestant"], epsilon, f"{s['mean']:.3f}{spread}" if s["n"] else "refused", str(s["n"])))
    return table


def verdict_table(result: ComparisonResult) -> list[tuple[str, ...]]:
    """Return a row an epsilon: who is ahead, by how much, and every contestant's accuracy."""
    said = {card["epsilon"]: (card["word"], card["by"].replace("\n", " ")) for card in looks(result)}
    means = {(band.contestant, band.epsilon): f"{100 * band.mean:.1f}%" for band in result.bands}
    names = list(dict.fromkeys(band.contestant for band in result.bands if band.epsilon is not None))
    table: list[tuple[str, ...]] = [("epsilon", "verdict", "difference", *names)]
    for epsilon in result.epsilons:
        word, by = said.get(promised(epsilon), ("", ""))
        table.append((promised(epsilon), word, by, *(means.get((name, epsilon), "–") for name in names)))
    return table
