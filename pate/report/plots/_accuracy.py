"""Pictures of accuracies that may be published."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from pate.report.plots._style import COLOURS, SERIES, SIZE, axes, finish, is_narrow, legend, some

_MARKERS = "osD^vP"


def group_rows(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, float | None], list[Mapping[str, Any]]]:
    """Gather tidy rows by contestant and epsilon, in order of appearance.

    Epsilons that agree to four digits are one epsilon: what the reader sees as one number is one group.

    Parameters
    ----------
    rows : sequence of mappings
        With ``contestant``, ``accuracy`` and, unless nothing is promised, ``epsilon``.

    Examples
    --------
    >>> list(group_rows([{"contestant": "PATE", "epsilon": 1.00001, "accuracy": 0.9},
    ...                  {"contestant": "PATE", "epsilon": 1.0, "accuracy": 0.8}]))
    [('PATE', 1.0)]
    """
    groups: dict[tuple[str, float | None], list[Mapping[str, Any]]] = {}
    for row in rows:
        epsilon = row.get("epsilon")
        key = (str(row["contestant"]), None if epsilon is None else float(f"{epsilon:.4g}"))
        groups.setdefault(key, []).append(row)
    return groups


def accuracy_bars(rows: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Axes:
    """Draw one bar a contestant: mean accuracy, one standard deviation as whisker, a dot for each seed.

    Parameters
    ----------
    rows : sequence of mappings
        With ``contestant``, ``accuracy`` (0 to 1) and ``epsilon``; a row without epsilon promises nothing and is grey.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Its figure is ``.figure``.

    Examples
    --------
    >>> ax = accuracy_bars([{"contestant": "PATE", "epsilon": 2.0, "accuracy": a} for a in (0.93, 0.95)])
    >>> [label.get_text() for label in ax.get_yticklabels()], float(ax.patches[0].get_width())
    (['PATE, ε = 2'], 0.94)
    """
    groups = group_rows(some("rows", rows))
    ax = axes(ax, height=0.75 + 0.42 * len(groups))
    colours = _by_contestant([row for row in rows if row.get("epsilon") is not None])
    names = []
    for position, ((contestant, epsilon), members) in enumerate(groups.items()):
        values = [float(row["accuracy"]) for row in members]
        mean, spread = _mean_and_spread(values)
        colour = COLOURS["reference"] if epsilon is None else colours[contestant][0]
        ax.barh(position, mean, height=0.62, color=colour, alpha=0.85 if epsilon is None else 1.0, zorder=2)
        text = f"{100 * mean:.1f}%"
        if spread is not None:
            ax.errorbar(mean, position, xerr=spread, color=COLOURS["ink"], capsize=3, linewidth=1.2, zorder=4)
            ax.plot(values, [position] * len(values), **_dots())
            text += f" ± {100 * spread:.1f}"
        # Beside the axes, one below the other: easy to compare, and never over a bar or a dot.
        beside = ax.get_yaxis_transform()
        ax.text(1.03, position, text, transform=beside, va="center", fontsize=SIZE, color=COLOURS["ink"])
        name = contestant if epsilon is None else f"{contestant}, ε = {epsilon:g}"
        names.append(textwrap.fill(name, 13) if is_narrow(ax) else name)
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.tick_params(axis="y", length=0, labelsize=SIZE, labelcolor=COLOURS["ink"])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.01)  # a bar starts at zero
    ax.set_xticks([0, 0.5, 1.0] if is_narrow(ax) else [0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    finish(ax, x="accuracy on the test rows", grid="x")
    ax.spines["left"].set_visible(False)
    return ax


def accuracy_against_epsilon(rows: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Axes:
    """Draw one line a contestant: mean accuracy over epsilon, with a band of one standard deviation.

    Parameters
    ----------
    rows : sequence of mappings
        With ``contestant``, ``epsilon`` and ``accuracy``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        The epsilon axis is logarithmic when the largest is more than five times the smallest.

    Examples
    --------
    >>> ax = accuracy_against_epsilon([{"contestant": "PATE", "epsilon": e, "accuracy": 0.9} for e in (0.5, 8.0)])
    >>> ax.get_xscale()
    'log'
    """
    groups = group_rows(some("rows", rows))
    ax = axes(ax, height=3.6)
    epsilons = sorted({epsilon for _, epsilon in groups if epsilon is not None})
    for contestant, (colour, marker) in _by_contestant(rows).items():
        points = []
        for (name, epsilon), members in groups.items():
            if name == contestant and epsilon is not None:
                points.append((epsilon, *_mean_and_spread([float(row["accuracy"]) for row in members])))
        points.sort()
        x, means = [p[0] for p in points], [p[1] for p in points]
        spreads = [p[2] or 0.0 for p in points]
        ax.plot(x, means, color=colour, marker=marker, markersize=5.5, linewidth=1.8, label=contestant, zorder=3)
        if any(spreads):
            low = [m - s for m, s in zip(means, spreads, strict=True)]
            high = [m + s for m, s in zip(means, spreads, strict=True)]
            ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    if epsilons and epsilons[0] > 0 and epsilons[-1] > 5 * epsilons[0]:
        ax.set_xscale("log")
    if 0 < len(epsilons) <= 8:
        ax.set_xticks(epsilons)
        ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.margins(x=0.06, y=0.12)
    finish(ax, x="ε (smaller is more private)", y="accuracy on the test rows", grid="y")
    legend(ax)
    return ax


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; None for a single seed, which has no spread to show."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _by_contestant(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys(str(row["contestant"]) for row in rows)
    return {name: (SERIES[i % len(SERIES)], _MARKERS[i % len(_MARKERS)]) for i, name in enumerate(names)}


def _dots() -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": "o",
        "markersize": 4,
        "markerfacecolor": COLOURS["paper"],
        "markeredgecolor": COLOURS["ink"],
        "markeredgewidth": 0.8,
        "alpha": 0.9,
        "zorder": 5,
    }
