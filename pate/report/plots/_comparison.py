"""The picture of a comparison: curves with paired bands, lines of reference, published figures, the crossing."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from pate.report.plots._style import COLOURS, SERIES, SIZE, Display, axes, finish, is_narrow, legend, some

if TYPE_CHECKING:
    from pate.report.audit_result import Picture


# Pictures of an audit: what was measured against what the claim allows.

#: Letters of a name in a picture, a line.
_LONG = 72
#: Larger by so much, the largest epsilon leaves no room for the least on a plain axis.
_WIDE = 30.0
#: Of the layers of an audit, and of what is no layer's own: what the price says.
_COLOURS = {"price": "ink", "replay": "series-3", "law": "series-2", "pair": "series-0", "game": "series-1",
            "attack": "series-4"}  # fmt: skip


def audit_picture(picture: Picture, *, ax: Axes | None = None) -> Display:
    """Draw an audit's lines: what is measured in colour with its band, the claim black and dashed.

    Parameters
    ----------
    picture : Picture
        On log axes points at zero or below have no place, and are left out.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from pate.report.audit_result import Curve, Picture
    >>> claim = Curve(label="the claim", x=[0.0, 0.001, 1.0], y=[0.0, 0.003, 1.0], role="claim")
    >>> drawn = audit_picture(Picture(x_label="false positives", y_label="found", scale="log", curves=[claim]))
    >>> drawn.ax_.get_xscale(), len(drawn.ax_.get_lines()[0].get_xdata())
    ('log', 2)
    """
    ax = axes(ax, height=3.8)
    ax.set_xscale(picture.scale)
    ax.set_yscale(picture.scale)
    number = count()
    for curve in picture.curves:
        if curve.role == "measured":
            colour, line, marker = SERIES[next(number) % len(SERIES)], "-", "o" if len(curve.x) <= 12 else ""
        else:
            colour, marker = COLOURS["ink" if curve.role == "claim" else "soft"], ""
            line = "--" if curve.role == "claim" else ":"
        shown = [i for i, at in enumerate(zip(curve.x, curve.y, strict=True)) if picture.scale != "log" or min(at) > 0]
        x, y = [curve.x[i] for i in shown], [curve.y[i] for i in shown]
        ax.plot(x, y, line, marker=marker, color=colour, linewidth=1.8, label=_short(curve.label, _LONG), zorder=3)
        if curve.low and curve.high:
            floor = min(y, default=0.0) if picture.scale == "log" else -float("inf")
            low, high = [max(curve.low[i], floor) for i in shown], [max(curve.high[i], floor) for i in shown]
            ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
    finish(ax, x=_short(picture.x_label, _LONG), y=_short(picture.y_label, 40), grid="y")
    legend(ax)
    return Display(ax)


def bounds_picture(bounds: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Display:
    """Draw epsilons side by side, one line each: what is promised, what the votes say, what an attacker reached.

    Parameters
    ----------
    bounds : sequence of mappings
        ``label``, ``value`` and ``kind`` (``"price"`` or a layer of the audit); ``low`` and ``high`` (or None) of its
        interval, ``estimate`` (hollow). The dashed line stands at the largest of kind ``"price"``.
    ax : matplotlib Axes, optional

    Raises
    ------
    InvalidInputError
        There is nothing to draw.

    Examples
    --------
    >>> drawn = bounds_picture([{"label": "public", "value": 1.9, "kind": "price"},
    ...                         {"label": "one crafted record", "value": 1.8, "kind": "pair"}])
    >>> [text.get_text() for text in drawn.ax_.get_yticklabels()]
    ['public', 'one crafted record']
    """
    some("bounds", bounds)
    ax = axes(ax, height=0.9 + 0.34 * len(bounds))
    values = [float(b["value"]) for b in bounds]
    if min(values) > 0 and max(values) > _WIDE * min(values):
        ax.set_xscale("log")
    for place, bound in enumerate(bounds):
        colour = COLOURS[_COLOURS[bound["kind"]]]
        low, high = bound.get("low"), bound.get("high")
        if low is not None and high is not None:
            ax.plot([low, high], [place, place], color=colour, linewidth=2.2, zorder=2)
        marker = "D" if bound["kind"] == "price" else "o"
        face = COLOURS["paper"] if bound.get("estimate") else colour
        ax.plot([bound["value"]], [place], marker, color=colour, markerfacecolor=face, markersize=7, zorder=3)
    if prices := [v for v, b in zip(values, bounds, strict=True) if b["kind"] == "price"]:
        ax.axvline(max(prices), color=COLOURS["ink"], linestyle="--", linewidth=1.2, zorder=1)
    if ax.get_xscale() == "linear":
        ax.set_xlim(left=0)
    width = 22 if is_narrow(ax) else 44
    ax.set_yticks(range(len(bounds)), [_short(b["label"], width) for b in bounds], fontsize=SIZE - 0.5)
    ax.set_ylim(len(bounds) - 0.5, -0.5)
    finish(ax, x="epsilon", grid="x")
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    return Display(ax)


def _short(text: object, width: int) -> str:
    """Return a name in two lines at most: the tables have it whole."""
    return textwrap.fill(textwrap.shorten(str(text), 2 * width - 4, placeholder=" ..."), width)


#: By side: cool for PATE, warm for DP-SGD, so that the sides are told apart before the contestants.
_HUES = {
    "PATE": ("series-0", "series-2", "series-5"),
    "DP-SGD": ("series-1", "series-4", "series-3"),
    "other": ("ink", "soft", "reference"),
}
#: No diamonds: these are published figures.
_MARKERS = "os^vPX*<"
#: Where accuracies are named on an axis that is stretched towards 1.
_TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 1.5)))


def styles(sides: Mapping[str, str]) -> dict[str, tuple[str, str, Any]]:
    """Return colour role, marker and dashes of each contestant, from the side it is on.

    Examples
    --------
    >>> styles({"records": "PATE", "linear": "DP-SGD", "gnmax": "PATE"})["gnmax"][0]
    'series-2'
    """
    found, seen = {}, dict.fromkeys(_HUES, 0)
    for place, (name, side) in enumerate(sides.items()):
        hues, nth = _HUES[side], seen[side]
        found[name] = (hues[nth % len(hues)], _MARKERS[place % len(_MARKERS)], _DASHES[nth // len(hues) % len(_DASHES)])
        seen[side] += 1
    return found


def comparison_curves(
    bands: Sequence[Mapping[str, Any]],
    *,
    sides: Mapping[str, str],
    lines: Mapping[str, float] | None = None,
    anchors: Sequence[Mapping[str, Any]] = (),
    stretches: Sequence[Mapping[str, Any]] = (),
    floor: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw accuracy against epsilon on a logarithmic axis: a curve and a band for each contestant.

    Parameters
    ----------
    bands : sequence of mappings
        ``contestant``, ``epsilon``, ``mean`` (0 to 1), ``paired_low``, ``paired_high`` (None where nothing is known);
        ``whole`` (not of some repeats alone: those marks are hollow).
    sides : mapping of str to str
        Contestant to ``"PATE"``, ``"DP-SGD"`` or ``"other"``: the colours.
    lines : mapping of str to float, optional
        Floors, and ceilings where they may be shown.
    anchors : sequence of mappings
        ``mark`` (a letter), ``epsilon`` and ``accuracy`` as published. Those far from the curves are left out.
    stretches : sequence of mappings
        ``low``, ``high`` and ``at``: where two curves may cross.
    floor : float, optional
        For one repeat, whose differences may be chance: a straight axis from here to 100%, which does not make
        them look large, and words that say so.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> points = [{"contestant": "PATE", "epsilon": e, "mean": a, "paired_low": a - 0.01, "paired_high": a + 0.01}
    ...           for e, a in ((0.1, 0.8), (1.0, 0.9))]
    >>> ax = comparison_curves(points, sides={"PATE": "PATE"}, lines={"majority": 0.1})
    >>> ax.get_xscale(), [text.get_text() for text in ax.texts]
    ('log', ['majority 10.0% ↓'])
    """
    some("bands", bands)
    ax = axes(ax, height=4.0 + 0.1 * len(sides))
    for name, (role, marker, dashes) in styles(sides).items():
        points = sorted((p for p in bands if p["contestant"] == name), key=lambda p: p["epsilon"])
        if not points:
            continue
        x, colour = [p["epsilon"] for p in points], COLOURS[role]
        ax.plot(x, [p["mean"] for p in points], linestyle=dashes, color=colour, marker=marker, markersize=5.5,
                linewidth=1.9, label=name, zorder=4)  # fmt: skip
        part = [p for p in points if not p.get("whole", True)]
        if part:
            ax.plot([p["epsilon"] for p in part], [p["mean"] for p in part], linestyle="none", color=colour,
                    marker=marker, markersize=5.5, markerfacecolor=COLOURS["paper"], zorder=4.5)  # fmt: skip
        known = [p for p in points if p["paired_low"] is not None]
        if known:
            low, high = ([p[end] for p in known] for end in ("paired_low", "paired_high"))
            ax.fill_between([p["epsilon"] for p in known], low, high, color=colour, alpha=0.13, linewidth=0, zorder=2)
            ax.vlines([p["epsilon"] for p in known], low, high, color=colour, alpha=0.75, linewidth=1.3, zorder=3)
    epsilons = sorted({float(p["epsilon"]) for p in bands})
    shown = [a for a in anchors if epsilons[0] / 3 <= a["epsilon"] <= 3 * epsilons[-1]]
    _log_axis(ax, epsilons, [float(a["epsilon"]) for a in shown])
    if floor is None:
        _limits(ax, bands, shown, lines or {})
    else:
        means = [float(p["mean"]) for p in bands] + [float(a["accuracy"]) for a in shown]
        ax.set_ylim(max(min([floor, *means, *(lines or {}).values()]) - 0.02, 0.0), 1.005)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        _name_lines(ax, bands, lines or {}, lines or {})
    for anchor in shown:
        ax.plot(anchor["epsilon"], anchor["accuracy"], "D", markersize=5, markerfacecolor=COLOURS["paper"],
                markeredgecolor=COLOURS["soft"], markeredgewidth=1.2, zorder=5)  # fmt: skip
        ax.annotate(str(anchor["mark"]), (anchor["epsilon"], anchor["accuracy"]), xytext=(5, 3),
                    textcoords="offset points", fontsize=SIZE - 1, color=COLOURS["soft"], zorder=6)  # fmt: skip
    for stretch in stretches:
        low, high = stretch["low"], stretch["high"]
        if low is not None or high is not None:
            ax.axvspan(low or epsilons[0], high or epsilons[-1], color=COLOURS["reference"], alpha=0.16, linewidth=0,
                       zorder=1)  # fmt: skip
        for epsilon in stretch["at"]:
            ax.axvline(epsilon, color=COLOURS["soft"], linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    y = "accuracy on the test rows" + ("" if floor is None else ", one repeat")
    finish(ax, x="ε, logarithmic (smaller is more private)", y=y, grid="y")
    legend(ax)
    return ax


def _log_axis(ax: Axes, epsilons: Sequence[float], more: Sequence[float]) -> None:
    ax.set_xscale("log")
    ends = sorted([*epsilons, *more])
    ax.set_xlim(ends[0] / 1.25, ends[-1] * 1.25)
    ticks: list[float] = []
    least = 1.5 if is_narrow(ax) else 1.25
    # One epsilon alone would be the only number on the axis.
    for epsilon in epsilons if len(epsilons) > 1 else ends:  # neighbours would run into one another
        if not ticks or epsilon >= least * ticks[-1]:
            ticks.append(epsilon)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _limits(
    ax: Axes, bands: Sequence[Mapping[str, Any]], anchors: Sequence[Mapping[str, Any]], lines: Mapping[str, float]
) -> None:
    """Show all curves and marks; a line that is far below is told at the edge instead of flattening them."""
    means = [float(p["mean"]) for p in bands] + [float(a["accuracy"]) for a in anchors]
    low, high = min(means), max(means)
    # Bands may be cut where they are wide: they must not press the curves together.
    ends = [float(p[end]) for p in bands for end in ("paired_low", "paired_high") if p[end] is not None]
    low = max(min([low, *ends]), low - max(high - low, 0.02), low / 2)
    high = min(max([high, *ends]), 1 - (1 - high) / 3)
    room = max(high - low, 0.02)
    near = {name: level for name, level in lines.items() if low - 0.5 * room <= level <= high + 0.5 * room}
    low, high = min([low, *near.values()]), max([high, *near.values()])
    if stretched(min(means), max(means)):
        ax.set_yscale("logit", nonpositive="clip")
        low, high = max(low, 0.004), min(high, 0.9995)  # ends of bands: 0 and 1 are infinitely far
        _ends(ax, low, high, [1 - (1 - high) / 1.6, low / (low + 1.3 * (1 - low))])
        ax.yaxis.set_major_locator(FixedLocator([t for t in _TICKS if ax.get_ylim()[0] <= t <= ax.get_ylim()[1]]))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    else:
        room = max(high - low, 0.02)
        _ends(ax, low, high, [min(high + 0.08 * room, 1.005), max(low - 0.1 * room, -0.02)])
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0 if room > 0.1 else 1))
    _name_lines(ax, bands, lines, near)


def _ends(ax: Axes, low: float, high: float, room: Sequence[float]) -> None:
    ax.set_ylim(min(low, room[1]), max(high, room[0]))


def _name_lines(
    ax: Axes, bands: Sequence[Mapping[str, Any]], lines: Mapping[str, float], near: Mapping[str, float]
) -> None:
    ends = {end: [float(p["mean"]) for p in bands if p["epsilon"] == pick(q["epsilon"] for q in bands)]
            for end, pick in (("left", min), ("right", max))}  # fmt: skip
    below, above = 0, 0
    for name, level in lines.items():
        told = f"{name} {100 * level:.1f}%"
        if name in near:
            shown = min(max(level, ax.get_ylim()[0]), ax.get_ylim()[1])  # 1 is infinitely far on a stretched axis
            ax.axhline(shown, color=COLOURS["reference"], linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
            # Where no curve runs through the words.
            side = max(ends, key=lambda end: min(abs(_up(ax, value) - _up(ax, level)) for value in ends[end]))
            y, base, transform = shown, "bottom", ax.get_yaxis_transform()
        elif level < min(ends["left"] + ends["right"]):
            side, y, base, transform, told = "right", 0.015 + 0.065 * below, "bottom", ax.transAxes, f"{told} ↓"
            below += 1
        else:
            side, y, base, transform, told = "left", 0.985 - 0.065 * above, "top", ax.transAxes, f"{told} ↑"
            above += 1
        text = ax.text(0.008 if side == "left" else 0.992, y, textwrap.shorten(told, 40), transform=transform, ha=side,
                       va=base, fontsize=SIZE - 1.5, color=COLOURS["soft"], zorder=6)  # fmt: skip
        text.set_parse_math(False)


def _up(ax: Axes, value: float) -> float:
    """Return how far up the axes an accuracy stands."""
    return float(ax.transData.transform((1.0, min(max(value, 0.001), 0.9995)))[1])


def stretched(low: float, high: float) -> bool:
    """Whether accuracies lie so near to 1 that a straight axis would press the best ones together.

    Examples
    --------
    >>> stretched(0.5, 0.99), stretched(0.9, 0.99), stretched(0.5, 1.0)
    (True, False, False)
    """
    return 0.95 < high < 0.9995 and 0.004 < low < 0.8
