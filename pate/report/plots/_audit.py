"""Pictures of an audit: what was measured against what the claim allows."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from pate.report.plots._display import Display
from pate.report.plots._style import COLOURS, SERIES, axes, finish, legend

if TYPE_CHECKING:
    from pate.report.audit_result import Picture


def audit_picture(picture: Picture, *, ax: Axes | None = None) -> Display:
    """Draw an audit's lines: what is measured in colour with its band, the claim black and dashed.

    Parameters
    ----------
    picture : Picture
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from pate.report.audit_result import Curve, Picture
    >>> claim = Curve(label="the claim", x=[0.001, 1.0], y=[0.003, 1.0], role="claim")
    >>> drawn = audit_picture(Picture(x_label="false positives", y_label="found", scale="log", curves=[claim]))
    >>> drawn.ax_.get_xscale()
    'log'
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
        ax.plot(curve.x, curve.y, line, marker=marker, color=colour, linewidth=1.8, label=curve.label, zorder=3)
        if curve.low and curve.high:
            ax.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0, zorder=2)
    finish(ax, x=picture.x_label, y=picture.y_label, grid="y")
    legend(ax)
    return Display(ax)
