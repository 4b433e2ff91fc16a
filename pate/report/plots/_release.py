"""Pictures of what a release costs and what it holds; public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pate.exceptions import InvalidInputError
from pate.report.plots._style import COLOURS, SERIES, SIZE, axes, figure_of, finish, is_narrow, legend, some


def cost_curves(
    curves: Sequence[Mapping[str, Any]],
    spent: Mapping[str, float] | None = None,
    *,
    budget: float | None = None,
    ylabel: str = "ε, worst case",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the price against the number of queries, and where this run stopped.

    Parameters
    ----------
    curves : sequence of mappings
        Each with ``label``, ``queries`` (ints) and ``epsilon`` (floats).
    spent : mapping, optional
        ``queries`` and ``epsilon`` of this run.
    budget : float, optional
        The epsilon allowed, as a dashed line.
    ylabel : str
        What the epsilons are: public ones by default.
    title : str, optional
        What the reader must know first.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = cost_curves([{"label": "GNMax", "queries": [1, 100], "epsilon": [0.1, 1.4]}],
    ...                  {"queries": 100, "epsilon": 1.4}, budget=2.0)
    >>> ax.get_xlabel()
    'queries'
    """
    ax = axes(ax, height=3.4)
    for i, curve in enumerate(some("curves", curves)):
        colour = SERIES[i % len(SERIES)]
        style = "-" if i < len(SERIES) else "--"
        ax.plot(curve["queries"], curve["epsilon"], style, color=colour, linewidth=1.8, label=curve["label"], zorder=3)
    if budget is not None:
        ax.axhline(budget, color=COLOURS["soft"], linestyle=(0, (5, 3)), linewidth=1.1, label=f"budget, ε = {budget:g}")
    if spent is not None:
        point = (spent["queries"], spent["epsilon"])
        ax.plot(*point, "o", color=COLOURS["ink"], markersize=7, zorder=4)
        # Below and to the right of a rising curve there is nothing else; only near the edge the text has to turn.
        left = point[0] > 0.75 * ax.get_xlim()[1]
        ax.annotate(
            f"this run: {spent['queries']:g} queries, ε = {spent['epsilon']:.4g}",
            point,
            xytext=(-10 if left else 6, -16),
            textcoords="offset points",
            ha="right" if left else "left",
            va="top",
            fontsize=SIZE,
            color=COLOURS["ink"],
        )
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(ax, x="queries", y=ylabel, grid="y")
    legend(ax)
    if title is not None:
        figure_of(ax).suptitle(title, fontsize=SIZE, color=COLOURS["ink"])
    return ax


def answers_per_class(counts: Sequence[int], classes: Sequence[Any], *, ax: Axes | None = None) -> Axes:
    """Draw how many released labels name each class.

    Parameters
    ----------
    counts : sequence of int
        Released labels of each class: public, because the labels are.
    classes : sequence
        Class values, in the same order.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = answers_per_class([12, 3], ["no", "yes"])
    >>> [int(bar.get_height()) for bar in ax.patches]
    [12, 3]
    """
    names = [str(name) for name in some("classes", classes)]
    if len(counts) != len(names):
        raise InvalidInputError(
            f"counts must have one number a class, got {len(counts)} for {len(names)} classes. "
            "Count every class, 0 too."
        )
    across = 30 if ax is not None and is_narrow(ax) else 60
    short = max(map(len, names)) <= across // len(names)
    ax = axes(ax, height=2.6 if short else 0.8 + 0.28 * min(len(names), 60))
    places = range(len(names))
    bars = (ax.bar if short else ax.barh)(places, list(counts), 0.7, color=COLOURS["series-0"], zorder=2)
    if len(names) <= 60:
        ax.bar_label(bars, fontsize=SIZE - 1, padding=2, color=COLOURS["ink"])
        most = 2 * across // 3
        shown = [name if len(name) <= most else name[: most - 1] + "…" for name in names]
        (ax.set_xticks if short else ax.set_yticks)(places, shown, parse_math=False)
    ax.margins(*((None, 0.14) if short else (0.14, None)))
    ax.tick_params(axis="x" if short else "y", length=0)
    if short:
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        finish(ax, x="class", y="released labels", grid="y")
    else:
        ax.invert_yaxis()
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        finish(ax, x="released labels", grid="x")
    return ax
