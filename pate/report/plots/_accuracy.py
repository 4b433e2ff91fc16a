"""Pictures of accuracies that may be published."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from pate.exceptions import InvalidInputError
from pate.report.plots._style import COLOURS, SERIES, SIZE, axes, figure_of, finish, is_narrow, legend, some

# Pictures of what a release costs and what it holds; public.


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


# Pictures made from private votes, without noise: SENSITIVE, for the curator's report alone.


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
