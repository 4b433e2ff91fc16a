"""What attacks found, as figures and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pate.audit.attacks._halves import Units
from pate.audit.attacks._roc import Roc
from pate.audit.claims import Claim
from pate.core.frames import plain_column
from pate.core.types import FloatArray, Mask
from pate.report.audit_result import Curve, Figure, Picture

#: False positive rates that are told, and how they are called.
RATES = {0.01: "1%", 0.001: "0.1%"}
_N_EXPOSED = 10
_N_POINTS = 40


def figures_of(
    rocs: Mapping[str, Roc], claim: Claim | None, level: float, log_e: float | None, accuracies: tuple[float, float]
) -> list[Figure]:
    """Return what all targets gave together."""
    figures = []
    for kind, roc in rocs.items():
        area = roc.auc(level)
        figures.append(Figure(name="AUC", value=area.value, low=area.low, high=area.high, level=level, of=kind))
        for rate, words in RATES.items():
            found, name = roc.at(rate, level), f"true positives at {words} false positives"
            figures.append(
                Figure(name=name, of=kind)
                if found is None
                else Figure(name=name, value=found.value, low=found.low, high=found.high, level=level, of=kind)
            )
    if claim is not None:
        for rate, words in RATES.items():
            most = float(claim.true_positives([rate])[0])
            figures.append(Figure(name=f"most the claim allows at {words} false positives", value=most, of="the claim"))
    if log_e is not None:
        figures.append(Figure(name="log e-value", value=log_e, of=", ".join(rocs)))
    for words, value in zip(("its half", "the other records"), accuracies, strict=True):
        figures.append(Figure(name=f"accuracy on {words}", value=value, of="shadow models"))
    return figures


def exposed(
    found: Mapping[str, FloatArray], rocs: Mapping[str, Roc], member: Mask, units: Units, groups: Any
) -> list[Figure]:
    """Return the units that the attack with the largest AUC tells best, at one threshold for all."""
    kind = max(rocs, key=lambda name: rocs[name].auc(0.95).value)
    above = found[kind] >= rocs[kind].threshold(0.01)
    n_in = member.sum(axis=0)
    hits = (above & member).sum(axis=0) / np.maximum(n_in, 1)
    alarms = (above & ~member).sum(axis=0) / np.maximum(len(member) - n_in, 1)
    gap = np.where((n_in > 0) & (n_in < len(member)), hits - alarms, 0.0)
    names = None if groups is None else plain_column(groups, name="groups")
    figures = []
    for unit in np.argsort(-gap, kind="stable")[:_N_EXPOSED]:
        if gap[unit] > 0:
            row = int(units.first[unit])
            who = f"record {row}" if names is None else f"group {list(names)[row]}"
            name = "found at 1% false positives"
            figures.append(Figure(name=name, value=float(hits[unit]), of=who, estimate=True))
    return figures


def picture_of(rocs: Mapping[str, Roc], claim: Claim | None, level: float) -> Picture:
    """Return the ROC on log axes, under the ceiling."""
    n_out = min(roc.n_out for roc in rocs.values())
    rates = np.geomspace(min(10 / n_out, 0.1), 1.0, _N_POINTS)
    curves = []
    for kind, roc in rocs.items():
        points = [p for p in ((r, roc.at(float(r), level)) for r in rates) if p[1] is not None]
        x, y, low, high = np.array([(r, p.value, p.low, p.high) for r, p in points if p is not None]).T
        curves.append(Curve(label=kind, x=x.tolist(), y=y.tolist(), low=low.tolist(), high=high.tolist()))
    if claim is not None:
        most = claim.true_positives(rates)
        curves.append(Curve(label="most the claim allows", x=rates.tolist(), y=most.tolist(), role="claim"))
    curves.append(Curve(label="guessing", x=rates.tolist(), y=rates.tolist(), role="reference"))
    return Picture(x_label="false positive rate", y_label="true positive rate", scale="log", curves=tuple(curves))


def in_words(figures: list[Figure], kinds: tuple[str, ...], *, refuted: bool) -> str:
    """Return the first thing found, in a sentence."""
    told = "the claim is refuted: " if refuted else ""
    name = f"true positives at {RATES[0.01]} false positives"
    rates = [f for f in figures if f.name == name and f.value is not None and f.of in kinds]
    if rates:
        best = max(rates, key=lambda f: f.value or 0.0)
        return (
            f"{told}{best.of} finds {_percent(best.value)} of the members ({_percent(best.low)} to "
            f"{_percent(best.high)}) at {RATES[0.01]} false positives"
        )
    best = max((f for f in figures if f.name == "AUC"), key=lambda f: f.value or 0.0)
    return f"{told}{best.of} has an AUC of {best.value:.3f} ({best.low:.3f} to {best.high:.3f})"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.1f}%"
