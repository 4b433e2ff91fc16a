"""Who was ahead in this project's own measurements, PATE or DP-SGD, at the same epsilon, delta and split."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

from pate.report._numbers import promised

#: A verdict, and the heading of its column.
VERDICTS = {"pate": "PATE ahead", "close": "too close to call", "dpsgd": "DP-SGD ahead"}


@lru_cache(maxsize=1)
def measurements() -> dict[str, Any]:
    """Return ``rows`` (data, epsilon, and mean, sd and n of ``pate`` and ``dpsgd``), ``delta`` and ``sources``.

    They are written by ``experiments/who_wins.py`` from stored results.

    Examples
    --------
    >>> sorted(measurements())
    ['delta', 'rows', 'sources']
    """
    file = resources.files("pate") / "_templates" / "measured.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def verdict(row: dict[str, Any]) -> str:
    """Return who is ahead by more than both spreads together.

    Examples
    --------
    >>> verdict({"pate": {"mean": 0.9, "sd": 0.01}, "dpsgd": {"mean": 0.8, "sd": 0.01}})
    'pate'
    >>> verdict({"pate": {"mean": 0.9, "sd": 0.06}, "dpsgd": {"mean": 0.8, "sd": 0.05}})
    'close'
    """
    lead = row["pate"]["mean"] - row["dpsgd"]["mean"]
    if abs(lead) <= row["pate"]["sd"] + row["dpsgd"]["sd"]:
        return "close"
    return "pate" if lead > 0 else "dpsgd"


def who_wins() -> dict[str, Any]:
    """Return a sentence, a table by epsilon, and where the figures are.

    Examples
    --------
    >>> who_wins()["heads"]
    ['ε', 'PATE ahead', 'too close to call', 'DP-SGD ahead']
    """
    told = measurements()
    rows = [{**row, "verdict": verdict(row)} for row in told["rows"]]
    counts = {name: sum(row["verdict"] == name for row in rows) for name in VERDICTS}
    lines = []
    for epsilon in sorted({row["epsilon"] for row in rows}):
        here = [row for row in rows if row["epsilon"] == epsilon]
        cells = (", ".join(row["data"] for row in here if row["verdict"] == name) or "–" for name in VERDICTS)
        lines.append((f"{epsilon:g}", *cells))
    n_data, delta = len({row["data"] for row in rows}), promised(told["delta"])
    sentence = (
        f"In {len(rows)} comparisons on {n_data} data sets at δ = {delta}, records that vote against the best DP-SGD "
        f"of this project, PATE was ahead by more than the spread in {counts['pate']}, DP-SGD in {counts['dpsgd']}, "
        f"and {counts['close']} were too close to call."
    )
    return {"sentence": sentence, "heads": ["ε", *VERDICTS.values()], "lines": lines, "sources": told["sources"]}
