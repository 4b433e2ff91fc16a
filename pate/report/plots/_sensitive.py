"""Pictures made from private votes, without noise: SENSITIVE, for the curator's report alone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from pate.report.plots._style import COLOURS, axes, finish, legend, some


def margin_histogram(
    margins: Sequence[int], n_teachers: int, marks: Mapping[str, float] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the distribution of vote margins. SENSITIVE: it is made from private votes.

    Parameters
    ----------
    margins : sequence of int
        For each query, the votes of the first class minus those of the second.
    n_teachers : int
        The largest margin there could be.
    marks : mapping of str to float, optional
        Named positions, such as the noise's standard deviation, drawn as vertical lines.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = margin_histogram([10, 9, 2], 10, {"noise": 3.0})
    >>> int(sum(bar.get_height() for bar in ax.patches))
    3
    """
    ax = axes(ax, height=3.0)
    width = max(1, -(-(n_teachers + 1) // 40))  # whole votes a bin, at most 40 bins
    edges = [start - 0.5 for start in range(0, n_teachers + width + 1, width)]
    ax.hist(list(some("margins", margins)), bins=edges, color=COLOURS["series-3"], rwidth=0.92, zorder=2)
    for i, (label, position) in enumerate((marks or {}).items()):
        line = ("--", ":", "-.")[i % 3]
        ax.axvline(position, color=COLOURS["ink"], linestyle=line, linewidth=1.3, label=f"{label}: {position:.4g}")
    ax.set_xlim(-0.5 - 0.01 * n_teachers, n_teachers + 0.5 + 0.01 * n_teachers)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    finish(ax, x=f"margin: votes of the first class minus the second, of {n_teachers} teachers", y="queries", grid="y")
    legend(ax)
    return ax


def teacher_accuracies(values: Sequence[float], *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the teachers' own accuracies. SENSITIVE: no noise was added to them.

    Parameters
    ----------
    values : sequence of float
        One accuracy (0 to 1) for each teacher.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = teacher_accuracies([0.6, 0.7, 0.8])
    >>> int(sum(bar.get_height() for bar in ax.patches))
    3
    """
    ax = axes(ax, height=2.6)
    numbers = [float(value) for value in some("values", values)]
    ax.hist(
        numbers, bins=min(30, max(5, round(2 * len(numbers) ** 0.5))), color=COLOURS["series-2"], rwidth=0.92, zorder=2
    )
    mean = statistics.fmean(numbers)
    ax.axvline(mean, color=COLOURS["ink"], linestyle="--", linewidth=1.3, label=f"mean: {100 * mean:.1f}%")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    finish(ax, x="accuracy of one teacher on the test rows", y="teachers", grid="y")
    legend(ax)
    return ax


def ensemble_curve(curve: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw how right the vote is when only some of the teachers are asked. SENSITIVE: it is made from private votes.

    Parameters
    ----------
    curve : mapping
        ``n_teachers``, ``accuracy``, ``low``, ``high`` and ``clear``, as :func:`pate.teachers.ensemble_curve` says.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Accuracies with a band from the worst to the best subset; shares of clear margins where there are any.

    Examples
    --------
    >>> from pate.teachers import ensemble_curve as subsets
    >>> ax = ensemble_curve(subsets([[0, 1], [0, 1], [1, 1]], [0, 1], n_classes=2))
    >>> [float(x) for x in ax.lines[0].get_xdata()]
    [1.0, 2.0, 3.0]
    """
    ax = axes(ax, height=3.4)
    sizes = list(some("curve['n_teachers']", curve["n_teachers"]))
    first, second = COLOURS["series-2"], COLOURS["series-3"]
    ax.fill_between(sizes, curve["low"], curve["high"], color=first, alpha=0.16, linewidth=0, zorder=2)
    style: dict[str, Any] = {"markersize": 5.0, "linewidth": 1.8, "zorder": 3}
    ax.plot(sizes, curve["accuracy"], color=first, marker="o", label="accuracy of the vote, no noise", **style)
    if curve.get("clear") is not None:
        label = "share of rows with a margin beyond two deviations of the noise"
        ax.plot(sizes, curve["clear"], color=second, marker="s", linestyle="--", label=label, **style)
    if sizes[-1] > 5 * sizes[0]:
        ax.set_xscale("log")
    # Neighbouring numbers of a logarithmic axis would run into one another.
    shown = sizes if len(sizes) <= 8 else [*sizes[:-1:2], sizes[-1]]
    ax.set_xticks(shown)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_ylim(0, 1.02)
    finish(ax, x="teachers asked", y="share of the test rows", grid="y")
    legend(ax)
    return ax
