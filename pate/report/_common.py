"""What both reports are made of."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pate.core.html import definitions, escape, figure, percent, preformatted, short
from pate.privacy.convert import format_up
from pate.report import plots


def heading(result: Mapping[str, Any], *, badge: str = "") -> str:
    facts = [
        f"data: {result['dataset']}" if result.get("dataset") else "",
        f"protocol: {result['protocol']}" if result.get("protocol") else "",
        f"made {result['created'].replace('T', ' ')}" if result.get("created") else "",
    ]
    mark = f"<span class='badge'>{badge}</span>" if badge else ""
    text = f"<h1>{escape(result['title'])}{mark}</h1><p class='meta'>{escape('; '.join(filter(None, facts)))}</p>"
    return text + (f"<p>{escape(result['description'])}</p>" if result.get("description") else "")


def provenance(result: Mapping[str, Any]) -> str:
    text = ""
    if result.get("command"):
        text += "<p>To run it again:</p>" + preformatted(result["command"], css_class="command")
    settings = dict(result.get("settings") or {})
    if result.get("budget"):
        budget = {name: promised(value) for name, value in result["budget"].items()}
        settings = {"budget": "ε = {epsilon}, δ = {delta}".format(**budget), **settings}
    rows = [(str(name), escape(_setting(value))) for name, value in settings.items()]
    if result.get("versions"):
        rows.append(("versions", escape(", ".join(f"{name} {value}" for name, value in result["versions"].items()))))
    if result.get("commit"):
        rows.append(("commit", escape(result["commit"])))
    return text + (definitions(rows) if rows else "")


def picture_of(ax: Any, caption: str, name: str) -> str:
    return figure(plots.figure_to_svg(ax), caption, name=name, colours=plots.COLOURS)


def promised(value: float, digits: int = 4) -> str:
    """Return an epsilon or delta rounded up: what the reader takes for the guarantee must not be below it."""
    return short(format_up(value, digits))


def largest_epsilon(members: Sequence[Mapping[str, Any]]) -> float:
    return max(float(row["epsilon"]) for row in members)


def accuracy_text(members: Sequence[Mapping[str, Any]]) -> str:
    values = [float(row["accuracy"]) for row in members]
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return percent(statistics.fmean(values)) + spread


def _setting(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
