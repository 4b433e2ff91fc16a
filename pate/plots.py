"""The pictures: a function takes plain numbers, draws on the axes given (or on a new figure) and returns them.

The only module that imports matplotlib, and never pyplot: a figure belongs to whoever asked for it, and nothing
global is changed. Colours are those of Okabe and Ito, told apart by colour-blind readers; series differ in marker too.
"""

from __future__ import annotations

import io
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from pate.exceptions import InvalidInputError

__all__ = [
    "COLOURS",
    "accuracy_against_epsilon",
    "accuracy_bars",
    "answers_per_class",
    "cost_curves",
    "figure_to_png",
    "figure_to_svg",
    "group_rows",
    "margin_histogram",
    "teacher_accuracies",
]

#: Every colour used, by role; the HTML report turns them into CSS variables for its dark theme.
COLOURS = {
    "ink": "#1b2733",
    "soft": "#5b6874",
    "grid": "#d9dfe5",
    "paper": "#ffffff",
    "reference": "#9aa5b1",
    "series-0": "#0072b2",
    "series-1": "#d55e00",
    "series-2": "#009e73",
    "series-3": "#cc79a7",
    "series-4": "#e69f00",
    "series-5": "#56b4e9",
}
_SERIES = [colour for name, colour in COLOURS.items() if name.startswith("series")]
_MARKERS = "osD^vP"
_WIDTH = 6.8  # inches; the text column of the report on A4
_SIZE = 10.0  # points


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
    groups = group_rows(_some("rows", rows))
    ax = _axes(ax, height=0.75 + 0.42 * len(groups))
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
        ax.text(1.03, position, text, transform=beside, va="center", fontsize=_SIZE, color=COLOURS["ink"])
        names.append(contestant if epsilon is None else f"{contestant}, ε = {epsilon:g}")
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.tick_params(axis="y", length=0, labelsize=_SIZE, labelcolor=COLOURS["ink"])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.01)  # a bar starts at zero
    ax.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _finish(ax, x="accuracy on the test rows", grid="x")
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
    groups = group_rows(_some("rows", rows))
    ax = _axes(ax, height=3.6)
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
    _finish(ax, x="ε (smaller is more private)", y="accuracy on the test rows", grid="y")
    _legend(ax)
    return ax


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
    ax = _axes(ax, height=3.4)
    for i, curve in enumerate(_some("curves", curves)):
        colour = _SERIES[i % len(_SERIES)]
        style = "-" if i < len(_SERIES) else "--"
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
            fontsize=_SIZE,
            color=COLOURS["ink"],
        )
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(ax, x="queries", y=ylabel, grid="y")
    _legend(ax)
    if title is not None:
        _figure(ax).suptitle(title, fontsize=_SIZE, color=COLOURS["ink"])
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
    names = [str(name) for name in _some("classes", classes)]
    if len(counts) != len(names):
        raise InvalidInputError(
            f"counts must have one number a class, got {len(counts)} for {len(names)} classes. "
            "Count every class, 0 too."
        )
    short = max(map(len, names)) <= 60 // len(names)
    ax = _axes(ax, height=2.6 if short else 0.8 + 0.28 * min(len(names), 60))
    places = range(len(names))
    bars = (ax.bar if short else ax.barh)(places, list(counts), 0.7, color=COLOURS["series-0"], zorder=2)
    if len(names) <= 60:
        ax.bar_label(bars, fontsize=_SIZE - 1, padding=2, color=COLOURS["ink"])
        shown = [name if len(name) <= 40 else name[:39] + "…" for name in names]
        (ax.set_xticks if short else ax.set_yticks)(places, shown, parse_math=False)
    ax.margins(*((None, 0.14) if short else (0.14, None)))
    ax.tick_params(axis="x" if short else "y", length=0)
    if short:
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        _finish(ax, x="class", y="released labels", grid="y")
    else:
        ax.invert_yaxis()
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        _finish(ax, x="released labels", grid="x")
    return ax


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
    ax = _axes(ax, height=3.0)
    width = max(1, -(-(n_teachers + 1) // 40))  # whole votes a bin, at most 40 bins
    edges = [start - 0.5 for start in range(0, n_teachers + width + 1, width)]
    ax.hist(list(_some("margins", margins)), bins=edges, color=COLOURS["series-3"], rwidth=0.92, zorder=2)
    for i, (label, position) in enumerate((marks or {}).items()):
        line = ("--", ":", "-.")[i % 3]
        ax.axvline(position, color=COLOURS["ink"], linestyle=line, linewidth=1.3, label=f"{label}: {position:.4g}")
    ax.set_xlim(-0.5 - 0.01 * n_teachers, n_teachers + 0.5 + 0.01 * n_teachers)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    _finish(ax, x=f"margin: votes of the first class minus the second, of {n_teachers} teachers", y="queries", grid="y")
    _legend(ax)
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
    ax = _axes(ax, height=2.6)
    numbers = [float(value) for value in _some("values", values)]
    ax.hist(
        numbers, bins=min(30, max(5, round(2 * len(numbers) ** 0.5))), color=COLOURS["series-2"], rwidth=0.92, zorder=2
    )
    mean = statistics.fmean(numbers)
    ax.axvline(mean, color=COLOURS["ink"], linestyle="--", linewidth=1.3, label=f"mean: {100 * mean:.1f}%")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    _finish(ax, x="accuracy of one teacher on the test rows", y="teachers", grid="y")
    _legend(ax)
    return ax


def figure_to_svg(figure: Figure | Axes) -> str:
    """Return a figure as SVG; the same figure gives the same text, byte for byte.

    Letters stay letters, so that they can be searched, read aloud and take the reader's font.

    Examples
    --------
    >>> figure_to_svg(teacher_accuracies([0.6, 0.7])).count("<svg ")
    1
    """
    target = io.StringIO()
    # Both are undone at once: settings that are read only while writing, and a warning that is about this machine's
    # font, where the reader's will be used.
    with matplotlib.rc_context({"svg.hashsalt": "pate", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        _figure(figure).savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return target.getvalue()


def figure_to_png(figure: Figure | Axes, *, dpi: float = 150) -> bytes:
    r"""Return a figure as PNG on white, for places that take no SVG.

    Examples
    --------
    >>> figure_to_png(teacher_accuracies([0.6, 0.7]))[:4]
    b'\x89PNG'
    """
    target = io.BytesIO()
    _figure(figure).savefig(target, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    return target.getvalue()


def _figure(figure: Figure | Axes) -> Figure:
    found = figure.figure if isinstance(figure, Axes) else figure
    while not isinstance(found, Figure):  # axes of a subfigure
        found = found.figure
    return found


def _axes(ax: Axes | None, *, height: float) -> Axes:
    return Figure(figsize=(_WIDTH, height), layout="constrained").add_subplot() if ax is None else ax


def _some(name: str, values: Any) -> Any:
    if len(values) == 0:
        raise InvalidInputError(f"{name} must not be empty: there is nothing to draw. Leave the picture out.")
    return values


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; None for a single seed, which has no spread to show."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _by_contestant(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys(str(row["contestant"]) for row in rows)
    return {name: (_SERIES[i % len(_SERIES)], _MARKERS[i % len(_MARKERS)]) for i, name in enumerate(names)}


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


def _finish(ax: Axes, *, x: str, y: str = "", grid: str) -> None:
    ax.set_xlabel(x, fontsize=_SIZE, color=COLOURS["soft"])
    ax.set_ylabel(y, fontsize=_SIZE, color=COLOURS["soft"])
    ax.tick_params(labelsize=_SIZE - 0.5, color=COLOURS["grid"], labelcolor=COLOURS["ink"])
    ax.grid(axis="x" if grid == "x" else "y", color=COLOURS["grid"], linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("bottom", "left") and side != {"x": "bottom", "y": "left"}[grid])
        spine.set_color(COLOURS["reference"])


def _legend(ax: Axes) -> None:
    """Name the lines above the axes, where nothing is drawn over."""
    names = ax.get_legend_handles_labels()[1]
    if names:
        place: dict[str, Any] = {
            "loc": "lower left",
            "bbox_to_anchor": (0.0, 1.0),
            "borderaxespad": 0.2,
            "handlelength": 2.2,
        }
        columns = 3 if max(map(len, names)) <= 24 else 1
        legend = ax.legend(frameon=False, fontsize=_SIZE, labelcolor=COLOURS["ink"], ncols=columns, **place)
        for text in legend.get_texts():
            text.set_parse_math(False)  # a dollar sign in a name is a dollar sign
