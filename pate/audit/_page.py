"""An audit in words, tables and pictures: what its page, its cell in a notebook and a terminal show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pate.core.pages import render
from pate.report import plots
from pate.report._answer import listed
from pate.report._parts import Sheet, number, picture
from pate.report._public import BADGE
from pate.report.audit_result import AuditResult, Figure
from pate.statement.fields import LAYERS, CitedAudit

MARK = "SENSITIVE: made from private data; not for publication"
#: What every page says, whatever was found.
PROVES = (
    "An audit can show that a claim is false. It cannot show that one is true: that is a proof's work. A claim that "
    "stood withstood what was tried, and no more."
)
#: How the names of figures begin that the price says, and end that are of one direction.
_PRICES, _SIDES = ("public", "data-dependent", "claimed"), ("forward", "reverse")
_TONES = {"REFUTED": "refuted", "stood": "stood", "suggests only": "undecided"}


def outcome(result: AuditResult | CitedAudit) -> str:
    """Return what came of one audit, in a word or two."""
    if isinstance(result, CitedAudit):
        return "stood" if result.stood else "REFUTED"
    return "REFUTED" if result.refuted else "stood" if result.false_alarms is not None else "suggests only"


def answer(results: Sequence[AuditResult], citations: Sequence[CitedAudit]) -> list[str]:
    """Return what came of all of them, in sentences, the straight one first."""
    told = [f"Refuted: {r.target} does not keep {r.claim}. {_sentence(r.finding)}" for r in results if r.refuted]
    told += [f"Refuted: {c.claim} (layer {c.layer}; what was found is private)." for c in citations if not c.stood]
    took_part = {r.layer for r in results} | {c.layer for c in citations}
    layers = [layer for layer in LAYERS if layer in took_part]
    n = len(results) + len(citations)
    if not n:
        return ["Nothing was tried."]
    if not told:
        told = [f"No claim was refuted by {n} audit{'s' * (n > 1)} ({listed(layers)})."]
    return told


def _sentence(text: str) -> str:
    told = text[:1].upper() + text[1:]
    return told if told.endswith((".", "!", "?")) else f"{told}."


def bounds(results: Iterable[AuditResult]) -> list[dict[str, Any]]:
    """Return every epsilon among the figures, once each, the largest first, as a picture's lines.

    What the price says (public, data-dependent) is of kind ``"price"``; everything else of its layer.
    """
    seen: dict[Any, dict[str, Any]] = {}
    for result in results:
        for f in result.figures:
            if f.value is None or "epsilon" not in f.name or f.name.startswith("share") or f.name.endswith(_SIDES):
                continue
            price = f.name.startswith(_PRICES)
            # One price may stand in several audits, as what is claimed and as what is public.
            seen.setdefault(
                float(f"{f.value:.6g}") if price else (f.name, f.of, f.value),
                {
                    "label": f"{f.name}{f': {f.of}' if f.of else ''}",
                    "value": f.value,
                    "low": f.low,
                    "high": f.high,
                    "estimate": f.estimate,
                    "kind": "price" if price else result.layer,
                },
            )
    return sorted(seen.values(), key=lambda b: (b["kind"] != "price", -b["value"]))


def tried(results: Sequence[AuditResult], citations: Sequence[CitedAudit]) -> Sheet:
    """Return every audit as a line: what, against which claim, how, and what came of it."""
    rows = [
        (r.layer, outcome(r), r.target, r.claim, r.tried, _alarms(r), f"{r.n_releases:,}", f"{r.seconds:.1f}")
        for r in results
    ]
    rows += [(c.layer, outcome(c), "–", c.claim, c.tried, "–", "–", "–") for c in citations]
    order = list(LAYERS)
    rows.sort(key=lambda row: order.index(row[0]))
    heads = ["Layer", "Outcome", "Audited", "Claim", "Tried", "False alarms", "Releases", "Seconds"]
    strong = [(i, 1) for i, row in enumerate(rows) if row[1] == "REFUTED"]
    return Sheet(heads=heads, rows=rows, numbers=(5, 6, 7), kind="stack", strong=strong)


def _alarms(result: AuditResult) -> str:
    return "–" if result.false_alarms is None else number(result.false_alarms)


def figure_sheet(figures: Sequence[Figure]) -> Sheet:
    """Return figures as a table."""
    rows = []
    for f in figures:
        value = "nothing found" if f.value is None else number(f.value)
        span = "" if f.low is None or f.high is None else f"{number(f.low)} to {number(f.high)}"
        level = "" if f.level is None else f"{100 * f.level:.6g}%"
        rows.append((f.name, f.of, value + (" (estimate)" if f.estimate else ""), span, level))
    return Sheet(heads=["Figure", "Of", "Value", "Interval", "Level"], rows=rows, kind="stack")


def cards(results: Sequence[AuditResult], citations: Sequence[CitedAudit]) -> list[dict[str, str]]:
    """Return each layer that took part as words for a card."""
    found = []
    for layer, did in LAYERS.items():
        here = [outcome(r) for r in results if r.layer == layer]
        here += [outcome(c) for c in citations if c.layer == layer]
        if here:
            worst = next(w for w in _TONES if w in here)
            found.append({"layer": layer, "word": worst, "tone": _TONES[worst], "did": did, "n": str(len(here))})
    return found


def details(results: Sequence[AuditResult]) -> list[dict[str, Any]]:
    """Return what each audit found, at length."""
    return [
        {
            "title": f"{r.layer}: {r.target}",
            "word": outcome(r),
            "finding": _sentence(r.finding),
            "limits": r.limits,
            "figures": figure_sheet(r.figures),
            "settings": [(name, _told(value)) for name, value in r.settings.items()],
            "picture": _drawn(r, place),
        }
        for place, r in enumerate(results)
    ]


def _told(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _drawn(result: AuditResult, place: int) -> Markup | None:
    drawn = result.picture
    if drawn is None or not drawn.curves:
        return None
    caption = f"{drawn.y_label} by {drawn.x_label}."
    lines = [c.label for c in drawn.curves if c.role == "claim"]
    if lines:  # of an e-value the line says where the claim falls, not what it allows
        said = "refuted from there on" if "refuted" in lines[0] else "the most that the claim allows"
        caption += f" Dashed, black: {said}."
    if any(c.low for c in drawn.curves):
        caption += " Bands: intervals of what was measured."
    name = f"{result.layer} {place + 1}: {drawn.y_label} by {drawn.x_label}"
    return picture(lambda ax: plots.audit_picture(drawn, ax=ax).ax_, caption[:1].upper() + caption[1:], name)


def _side_by_side(results: Sequence[AuditResult]) -> dict[str, Any] | None:
    found = bounds(results)
    if not found:
        return None
    caption = (
        "Epsilons side by side. Diamonds: what the price says, the largest of them dashed. Dots: what was reached or "
        "shown, with its interval. Hollow: an estimate, which proves nothing."
    )
    heads = ["Epsilon", "Value", "From"]
    froms = {"price": "the price"}
    rows = [(b["label"], number(b["value"]), froms.get(b["kind"], b["kind"])) for b in found]
    return {
        "picture": picture(lambda ax: plots.bounds_picture(found, ax=ax).ax_, caption, "Epsilons side by side"),
        "sheet": Sheet(heads=heads, rows=rows, numbers=[1]),
    }


def page(shown: Mapping[str, Any], results: Sequence[AuditResult], citations: Sequence[CitedAudit], *, sensitive: bool
) -> str:  # fmt: skip
    """Return the page as HTML; ``shown`` has the audit's ``title``, ``description``, ``left_out``, ``created``, ..."""
    badge = BADGE if sensitive else ""
    return render(
        "audit.html",
        **{**shown, "title": f"SENSITIVE: {shown['title']}" if sensitive else shown["title"]},
        running=MARK if sensitive else f"{shown['title']}, an audit",
        styles=["report.css", "comparison.css", "audit.css", *(["sensitive.css"] if sensitive else [])],
        badge=badge,
        name=shown["title"],
        answer=answer(results, citations),
        refuted=any(r.refuted for r in results) or any(not c.stood for c in citations),
        cards=cards(results, citations),
        tried=tried(results, citations),
        side_by_side=_side_by_side(results),
        details=details(results),
        cited=len(citations),
        proves=PROVES,
    )
