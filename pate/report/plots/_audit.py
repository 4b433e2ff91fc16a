"""Pictures of an audit: what was measured against what the claim allows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes

from pate.report.plots._display import Display
from pate.report.plots._style import COLOURS, SERIES, SIZE, axes, finish, is_narrow, legend, some

if TYPE_CHECKING:
    from pate.report.audit_result import Picture

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
