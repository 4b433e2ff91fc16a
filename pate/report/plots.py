"""The pictures: a function takes plain numbers, draws on the axes given (or on a new figure) and returns them.

The only module that imports matplotlib, and never pyplot: a figure belongs to the caller, and nothing
global is changed. Colours are those of Okabe and Ito, distinct to colour-blind readers; series differ in marker too.
"""

from __future__ import annotations

import io
import statistics
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from pate._core.curator import need

need("matplotlib", extra="plots", why="A picture")

# ruff: noqa: E402  (what follows imports matplotlib)
import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from pate.exceptions import InvalidInputError
from pate.report.result import gathered
from pate.report.scores import ACCURACY, Score

if TYPE_CHECKING:
    from pate.report.audit_result import Picture

__all__ = [
    "Display",
    "accuracy_against_epsilon",
    "accuracy_bars",
    "answers_per_class",
    "audit_picture",
    "bounds_picture",
    "comparison_curves",
    "cost_curves",
    "ensemble_curve",
    "figure_to_png",
    "figure_to_svg",
    "margin_histogram",
    "teacher_accuracies",
    "viewer_panels",
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
SERIES = [colour for name, colour in COLOURS.items() if name.startswith("series")]
_WIDTH = 6.8  # inches; the text column of the report on A4
_NARROW = 3.5  # inches; a phone held upright, letters as large as on paper
SIZE = 10.0  # points


def figure_to_svg(figure: Figure | Axes) -> str:
    """Return a figure as SVG; the same figure always gives the same bytes.

    Text stays text, so that it can be searched and read aloud, and takes the reader's font.

    Examples
    --------
    >>> from pate.report.plots import teacher_accuracies
    >>> figure_to_svg(teacher_accuracies([0.6, 0.7])).count("<svg ")
    1
    """
    target = io.StringIO()
    # Both are undone at once: settings that are read only while writing, and a warning that is about this machine's
    # font, where the reader's will be used.
    with matplotlib.rc_context({"svg.hashsalt": "pate", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure_of(figure).savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return target.getvalue()


def figure_to_png(figure: Figure | Axes, *, dpi: float = 150) -> bytes:
    r"""Return a figure as PNG with a white background, for programs that cannot show SVG.

    Examples
    --------
    >>> from pate.report.plots import teacher_accuracies
    >>> figure_to_png(teacher_accuracies([0.6, 0.7]))[:4]
    b'\x89PNG'
    """
    target = io.BytesIO()
    figure_of(figure).savefig(target, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    return target.getvalue()


def figure_of(figure: Figure | Axes) -> Figure:
    """Return the figure that axes, or axes of a subfigure, belong to."""
    found = figure.figure if isinstance(figure, Axes) else figure
    while not isinstance(found, Figure):  # axes of a subfigure
        found = found.figure
    return found


def axes(ax: Axes | None, *, height: float) -> Axes:
    """Return the axes given, or those of a new figure so many inches high."""
    return Figure(figsize=(_WIDTH, height), layout="constrained").add_subplot() if ax is None else ax


def narrow_axes(like: Axes) -> Axes:
    """Return the axes of a new figure for a phone, to draw the same picture on once more.

    Examples
    --------
    >>> from pate.report.plots import teacher_accuracies
    >>> ax = narrow_axes(teacher_accuracies([0.6, 0.7]))
    >>> is_narrow(teacher_accuracies([0.6, 0.7], ax=ax))
    True
    """
    height = 1.15 * figure_of(like).get_figheight()
    return Figure(figsize=(_NARROW, height), layout="constrained").add_subplot()


def is_narrow(ax: Axes) -> bool:
    """Whether words have to be broken and ticks to be few."""
    return bool(figure_of(ax).get_figwidth() < 0.7 * _WIDTH)


def some(name: str, values: Any) -> Any:
    """Return ``values`` if there are any."""
    if len(values) == 0:
        raise InvalidInputError(f"{name} must not be empty: there is nothing to draw. Leave the picture out.")
    return values


def finish(ax: Axes, *, x: str, y: str = "", grid: str, whole: str = "", shares: str = "", ticks: int = 5) -> Axes:
    """Name and style the axes, with a legend of what has a name; ``grid`` is the direction along which values are read.

    ``whole``, ``shares``: the axis ("x", "y") of whole numbers (about so many ticks), and that of shares, in percent.
    """
    if whole:
        getattr(ax, f"{whole}axis").set_major_locator(MaxNLocator(ticks, integer=True))
    if shares:
        getattr(ax, f"{shares}axis").set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel(textwrap.fill(x, 40) if is_narrow(ax) else x, fontsize=SIZE, color=COLOURS["soft"])
    ax.set_ylabel(y, fontsize=SIZE, color=COLOURS["soft"])
    ax.tick_params(labelsize=SIZE - 0.5, color=COLOURS["grid"], labelcolor=COLOURS["ink"])
    ax.grid(axis="x" if grid == "x" else "y", color=COLOURS["grid"], linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("bottom", "left") and side != {"x": "bottom", "y": "left"}[grid])
        spine.set_color(COLOURS["reference"])
    _legend(ax)
    return ax


def _numbered(ax: Axes, places: Sequence[float]) -> None:
    """Have ticks at these places of the x axis alone, each with its plain number."""
    ax.set_xticks(places)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")


def _legend(ax: Axes) -> None:
    """Name the lines above the axes, where nothing is drawn over."""
    names = ax.get_legend_handles_labels()[1]
    if names:
        columns = 1 if is_narrow(ax) else next(n for n in (3, 2, 1) if n == 1 or _across(names, n) <= _WIDTH - 0.9)
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
        style: dict[str, Any] = {"fontsize": SIZE, "labelcolor": COLOURS["ink"], "handlelength": 2.2}
        for text in ax.legend(frameon=False, ncols=columns, **place, **style).get_texts():
            text.set_parse_math(False)  # a dollar sign in a name is a dollar sign
            if is_narrow(ax):
                text.set_text(textwrap.fill(text.get_text(), 36))


def _across(names: list[str], columns: int) -> float:
    """About how many inches a legend is wide; matplotlib fills it column by column."""
    rows = -(-len(names) // columns)
    return sum(0.75 + 0.078 * max(map(len, names[i : i + rows])) for i in range(0, len(names), rows))


# A drawn picture as scikit-learn's displays hold one: axes, figure, and itself in a notebook.


@dataclass(frozen=True, eq=False)
class Display:
    r"""A figure that a notebook shows as a cell's last line, with any matplotlib backend.

    Attributes
    ----------
    ax_ : matplotlib Axes

    Examples
    --------
    >>> from pate.report.plots import teacher_accuracies
    >>> shown = Display(teacher_accuracies([0.6, 0.7]))
    >>> shown, shown._repr_png_()[:4]
    (Display('teachers against accuracy of one teacher on the test rows'), b'\x89PNG')
    """

    ax_: Axes

    @property
    def figure_(self) -> Figure:
        """The figure that the axes belong to."""
        return figure_of(self.ax_)

    def __repr__(self) -> str:
        names = [self.ax_.get_ylabel(), self.ax_.get_xlabel()]
        return f"Display({' against '.join(name for name in names if name)!r})"

    def _repr_png_(self) -> bytes:
        return figure_to_png(self.figure_, dpi=110)


# Pictures of accuracies that may be published.

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
    """Draw the privacy cost against the number of queries, and where this run stopped.

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

    Examples
    --------
    >>> ax = cost_curves(
    ...     [{"label": "GNMax", "queries": [1, 100], "epsilon": [0.1, 1.4]}],
    ...     {"queries": 100, "epsilon": 1.4},
    ...     budget=2.0,
    ... )
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
        place: dict[str, Any] = {"xytext": (-10 if left else 6, -16), "textcoords": "offset points", "va": "top"}
        label = f"this run: {spent['queries']:g} queries, ε = {spent['epsilon']:.4g}"
        ax.annotate(label, point, ha="right" if left else "left", fontsize=SIZE, color=COLOURS["ink"], **place)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if title is not None:
        figure_of(ax).suptitle(title, fontsize=SIZE, color=COLOURS["ink"])
    return finish(ax, x="queries", y=ylabel, grid="y")


def answers_per_class(counts: Sequence[int], classes: Sequence[Any], *, ax: Axes | None = None) -> Axes:
    """Draw how many released labels each class has.

    Parameters
    ----------
    counts : sequence of int
        Released labels of each class: public, because the labels are.
    classes : sequence
        Class values, in the same order.

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
        return finish(ax, x="class", y="released labels", grid="y", whole="y", ticks=4)
    ax.invert_yaxis()
    return finish(ax, x="released labels", grid="x", whole="x")


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
    x = f"margin: votes of the first class minus the second, of {n_teachers} teachers"
    return finish(ax, x=x, y="queries", grid="y", whole="y")


def teacher_accuracies(values: Sequence[float], *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the teachers' own accuracies. SENSITIVE: no noise was added to them.

    Parameters
    ----------
    values : sequence of float
        One accuracy (0 to 1) for each teacher.

    Examples
    --------
    >>> ax = teacher_accuracies([0.6, 0.7, 0.8])
    >>> int(sum(bar.get_height() for bar in ax.patches))
    3
    """
    ax = axes(ax, height=2.6)
    numbers = [float(value) for value in some("values", values)]
    n_bins = min(30, max(5, round(2 * len(numbers) ** 0.5)))
    ax.hist(numbers, bins=n_bins, color=COLOURS["series-2"], rwidth=0.92, zorder=2)
    mean = statistics.fmean(numbers)
    ax.axvline(mean, color=COLOURS["ink"], linestyle="--", linewidth=1.3, label=f"mean: {100 * mean:.1f}%")
    return finish(ax, x="accuracy of one teacher on the test rows", y="teachers", grid="y", whole="y", shares="x")


def ensemble_curve(curve: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw the vote's accuracy against the number of teachers asked. SENSITIVE: it is made from private votes.

    Parameters
    ----------
    curve : mapping
        ``n_teachers``, ``accuracy``, ``low``, ``high`` and ``clear``, as :func:`pate.teachers.ensemble_curve` says.

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
    _numbered(ax, sizes if len(sizes) <= 8 else [*sizes[:-1:2], sizes[-1]])
    ax.set_ylim(0, 1.02)
    return finish(ax, x="teachers asked", y="share of the test rows", grid="y", shares="y")


_MARKERS = "osD^vP"
#: Single seeds.
_DOTS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4, "alpha": 0.9, "zorder": 5}
_DOTS |= {"markerfacecolor": COLOURS["paper"], "markeredgecolor": COLOURS["ink"], "markeredgewidth": 0.8}


def group_rows(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, float | None], list[Mapping[str, Any]]]:
    """Gather tidy rows by contestant and epsilon, in order of appearance.

    Epsilons that agree to four digits are one epsilon: what the reader sees as one number is one group.

    Parameters
    ----------
    rows : sequence of mappings
        With ``contestant``, ``accuracy`` and, unless nothing is promised, ``epsilon``.

    Examples
    --------
    >>> list(
    ...     group_rows(
    ...         [
    ...             {"contestant": "PATE", "epsilon": 1.00001, "accuracy": 0.9},
    ...             {"contestant": "PATE", "epsilon": 1.0, "accuracy": 0.8},
    ...         ]
    ...     )
    ... )
    [('PATE', 1.0)]
    """

    def key(row: Mapping[str, Any]) -> tuple[str, float | None]:
        epsilon = row.get("epsilon")
        return str(row["contestant"]), None if epsilon is None else float(f"{epsilon:.4g}")

    return gathered(rows, key)


def accuracy_bars(rows: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Axes:
    """Draw mean accuracies: a bar for each method, one standard deviation as a whisker, a dot for each seed.

    Parameters
    ----------
    rows : sequence of mappings
        With ``contestant``, ``accuracy`` (0 to 1) and ``epsilon``; a row without epsilon promises nothing and is grey.

    Examples
    --------
    >>> ax = accuracy_bars(
    ...     [{"contestant": "PATE", "epsilon": 2.0, "accuracy": a} for a in (0.93, 0.95)]
    ... )
    >>> (
    ...     [label.get_text() for label in ax.get_yticklabels()],
    ...     float(ax.patches[0].get_width()),
    ... )
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
            ax.plot(values, [position] * len(values), **_DOTS)
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
    finish(ax, x="accuracy on the test rows", grid="x").spines["left"].set_visible(False)
    return ax


def accuracy_against_epsilon(rows: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Axes:
    """Draw mean accuracy against epsilon: a line for each method, with a band of one standard deviation.

    Parameters
    ----------
    rows : sequence of mappings
        With ``contestant``, ``epsilon`` and ``accuracy``.

    Returns
    -------
    matplotlib Axes
        The epsilon axis is logarithmic when the largest is more than five times the smallest.

    Examples
    --------
    >>> ax = accuracy_against_epsilon(
    ...     [{"contestant": "PATE", "epsilon": e, "accuracy": 0.9} for e in (0.5, 8.0)]
    ... )
    >>> ax.get_xscale()
    'log'
    """
    groups = group_rows(some("rows", rows))
    ax = axes(ax, height=3.6)
    epsilons = sorted({epsilon for _, epsilon in groups if epsilon is not None})
    for contestant, (colour, marker) in _by_contestant(rows).items():
        own = {e: found for (name, e), found in groups.items() if name == contestant and e is not None}
        x = sorted(own)
        found = [_mean_and_spread([float(row["accuracy"]) for row in own[epsilon]]) for epsilon in x]
        means, spreads = [mean for mean, _ in found], [spread or 0.0 for _, spread in found]
        ax.plot(x, means, color=colour, marker=marker, markersize=5.5, linewidth=1.8, label=contestant, zorder=3)
        if any(spreads):
            low, high = ([m + side * s for m, s in zip(means, spreads, strict=True)] for side in (-1, 1))
            ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    if epsilons and epsilons[0] > 0 and epsilons[-1] > 5 * epsilons[0]:
        ax.set_xscale("log")
    if 0 < len(epsilons) <= 8:
        _numbered(ax, epsilons)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.margins(x=0.06, y=0.12)
    return finish(ax, x="ε (smaller is more private)", y="accuracy on the test rows", grid="y", shares="y")


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; None for a single seed, which has no spread to show."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _by_contestant(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys(str(row["contestant"]) for row in rows)
    return {name: (SERIES[i % len(SERIES)], _MARKERS[i % len(_MARKERS)]) for i, name in enumerate(names)}


# Pictures of an audit: what was measured against what the claim allows.

#: Of what was not measured.
_LINES = {"claim": (COLOURS["ink"], "--"), "reference": (COLOURS["soft"], ":")}
#: Letters of a name in a picture, a line.
_LONG = 72
#: Larger by so much, the largest epsilon leaves no space for the least on a plain axis.
_WIDE = 30.0
#: Of the layers of an audit, and of what is no layer's own: what the price says.
_COLOURS = {"price": "ink", "replay": "series-3", "law": "series-2", "pair": "series-0", "game": "series-1",
            "attack": "series-4"}  # fmt: skip


def audit_picture(picture: Picture, *, ax: Axes | None = None) -> Display:
    """Draw the figure of an audit: the measurement in colour with its band, the claim as a dashed black line.

    Parameters
    ----------
    picture : Picture
        On log axes points at zero or below have no place, and are left out.

    Examples
    --------
    >>> from pate.report.audit_result import Curve, Picture
    >>> claim = Curve(
    ...     label="the claim", x=[0.0, 0.001, 1.0], y=[0.0, 0.003, 1.0], role="claim"
    ... )
    >>> drawn = audit_picture(
    ...     Picture(x_label="false positives", y_label="found", scale="log", curves=[claim])
    ... )
    >>> drawn.ax_.get_xscale(), len(drawn.ax_.get_lines()[0].get_xdata())
    ('log', 2)
    """
    ax = axes(ax, height=3.8)
    ax.set_xscale(picture.scale)
    ax.set_yscale(picture.scale)
    number = count()
    for curve in picture.curves:
        colour, line, marker = *_LINES.get(curve.role, ("", "-")), ""
        if curve.role == "measured":
            colour, marker = SERIES[next(number) % len(SERIES)], "o" if len(curve.x) <= 12 else ""
        shown = [i for i, at in enumerate(zip(curve.x, curve.y, strict=True)) if picture.scale != "log" or min(at) > 0]
        x, y = [curve.x[i] for i in shown], [curve.y[i] for i in shown]
        ax.plot(x, y, line, marker=marker, color=colour, linewidth=1.8, label=_short(curve.label, _LONG), zorder=3)
        if curve.low and curve.high:
            floor = min(y, default=0.0) if picture.scale == "log" else -float("inf")
            low, high = [max(curve.low[i], floor) for i in shown], [max(curve.high[i], floor) for i in shown]
            ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
    return Display(finish(ax, x=_short(picture.x_label, _LONG), y=_short(picture.y_label, 40), grid="y"))


def bounds_picture(bounds: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Display:
    """Draw epsilons side by side: the promised one, the data-dependent one, and the one an attack reached.

    Parameters
    ----------
    bounds : sequence of mappings
        ``label``, ``value`` and ``kind`` (``"price"`` or a layer of the audit); ``low`` and ``high`` (or None) of its
        interval, ``estimate`` (hollow). The dashed line stands at the largest of kind ``"price"``.

    Raises
    ------
    InvalidInputError
        There is nothing to draw.

    Examples
    --------
    >>> drawn = bounds_picture(
    ...     [
    ...         {"label": "public", "value": 1.9, "kind": "price"},
    ...         {"label": "one crafted record", "value": 1.8, "kind": "pair"},
    ...     ]
    ... )
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


#: Cells between two panels, and above and below one, for its words.
_BESIDE, _ABOVE, _BELOW = 2.5, 3.4, 3.0


def viewer_panels(panels: Sequence[Mapping[str, Any]], columns: Sequence[Any], *, ax: Axes | None = None) -> Axes:
    """Draw tables of numbers side by side: a square for each number, larger for larger ones, orange below zero.

    Parameters
    ----------
    panels : sequence of mappings
        ``title``, ``note`` (what the numbers are) and ``values``: rows of as many numbers as there are columns. Squares
        are relative to the largest of their own panel, which is written under it.
    columns : sequence
        What the columns are called.

    Raises
    ------
    InvalidInputError
        There is nothing to draw, or a row is of another length.

    Examples
    --------
    >>> ax = viewer_panels(
    ...     [{"title": "a site", "note": "its votes", "values": [[3, -1], [0, 2]]}],
    ...     ["no", "yes"],
    ... )
    >>> len(ax.collections[0].get_paths()), [text.get_text() for text in ax.texts][:2]
    (2, ['a site', 'its votes'])
    """
    n, n_columns = len(some("panels", panels)), len(some("columns", columns))
    n_rows = max(len(some("values", panel["values"])) for panel in panels)
    if any(len(row) != n_columns for panel in panels for row in panel["values"]):
        raise InvalidInputError(f"values must have a number for each of the {n_columns} columns in every row.")
    across = n if ax is None or not is_narrow(ax) else 2
    size = (n_columns + _BESIDE, n_rows + _ABOVE + _BELOW)
    down = -(-n // across)
    per_width = down * size[1] / (across * size[0])
    ax = axes(ax, height=_WIDTH * per_width)
    if is_narrow(ax):  # two beside each other
        figure_of(ax).set_figheight(_NARROW * per_width)
    for place, panel in enumerate(panels):
        left, top = (place % across) * size[0], (place // across) * size[1] + _ABOVE
        most = max(abs(float(value)) for row in panel["values"] for value in row)
        corners: dict[str, list[Any]] = {"series-0": [], "series-1": []}
        for y, row in enumerate(panel["values"]):
            for x, value in enumerate(row):
                if half := 0.48 * (abs(float(value)) / most) ** 0.5 if most else 0.0:
                    a, b = left + x + 0.5, top + y + 0.5
                    square = [(a - half, b - half), (a + half, b - half), (a + half, b + half), (a - half, b + half)]
                    corners["series-0" if value > 0 else "series-1"].append(square)
        for role, squares in corners.items():
            ax.add_collection(PolyCollection(squares, facecolors=COLOURS[role], linewidths=0, zorder=3))
        frame = [(left, top), (left + n_columns, top), (left + n_columns, top + n_rows), (left, top + n_rows)]
        ax.add_collection(PolyCollection([frame], facecolors="none", edgecolors=COLOURS["grid"], linewidths=0.8))
        _words(ax, panel, columns, (left, top), (top + n_rows, most))
    ax.set_xlim(-0.3, across * size[0] - _BESIDE + 0.3)
    ax.set_ylim(down * size[1], 0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _words(
    ax: Axes, panel: Mapping[str, Any], columns: Sequence[Any], at: tuple[float, float], end: tuple[float, float]
) -> None:
    (left, top), (bottom, most) = at, end
    lines = ((panel["title"], -1.9, SIZE, "ink"), (panel["note"], -0.6, SIZE - 2.5, "soft"),
             (f"largest: {most:.4g}", bottom - top + 2.0, SIZE - 2.5, "soft"))  # fmt: skip
    words = [(left, top + below, str(text), size, role, "left") for text, below, size, role in lines]
    words += [(left + x + 0.5, bottom + 0.9, str(name), SIZE - 3, "soft", "center") for x, name in enumerate(columns)]
    for x, y, text, size, role, side in words:
        made = ax.text(x, y, text, fontsize=size, color=COLOURS[role], ha=side, va="baseline")
        made.set_parse_math(False)


def _short(text: object, width: int) -> str:
    """Return a name in two lines at most: the tables have it whole."""
    return textwrap.fill(textwrap.shorten(str(text), 2 * width - 4, placeholder=" ..."), width)


#: By side: cool for PATE, warm for DP-SGD, so that the sides are distinguished before the contestants.
_HUES = {
    "PATE": ("series-0", "series-2", "series-5"),
    "DP-SGD": ("series-1", "series-4", "series-3"),
    "other": ("ink", "soft", "reference"),
}
#: No diamonds: these are published figures.
_SHAPES = "os^vPX*<"
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
        found[name] = (hues[nth % len(hues)], _SHAPES[place % len(_SHAPES)], _DASHES[nth // len(hues) % len(_DASHES)])
        seen[side] += 1
    return found


#: Over every picture with a data-dependent epsilon.
PRIVATE_CURVES = "PRIVATE to the curator, not for publication: dotted curves depend on the votes"


def comparison_curves(
    bands: Sequence[Mapping[str, Any]],
    *,
    sides: Mapping[str, str],
    lines: Mapping[str, float] | None = None,
    anchors: Sequence[Mapping[str, Any]] = (),
    stretches: Sequence[Mapping[str, Any]] = (),
    private: Sequence[Mapping[str, Any]] = (),
    floor: float | None = None,
    score: Score = ACCURACY,
    ax: Axes | None = None,
) -> Axes:
    """Draw accuracy (or R2) against epsilon on a logarithmic axis: a curve and a band for each method compared.

    Parameters
    ----------
    bands : sequence of mappings
        ``contestant``, ``epsilon``, ``mean`` (at most 1), ``paired_low``, ``paired_high`` (None where nothing is
        known); ``whole`` (not of some repeats alone: those marks are hollow).
    sides : mapping of str to str
        Contestant to ``"PATE"``, ``"DP-SGD"`` or ``"other"``: the colours.
    lines : mapping of str to float, optional
        Floors, and ceilings where they may be shown.
    anchors : sequence of mappings
        ``mark`` (a letter), ``epsilon`` and ``accuracy`` as published. Those far from the curves are left out.
    stretches : sequence of mappings
        ``low``, ``high`` and ``at``: where two curves may cross.
    private : sequence of mappings
        ``contestant``, ``epsilon`` (by its votes) and ``mean``: SENSITIVE curves, dotted, and a title that says so.
    floor : float, optional
        For one repeat, whose differences may be chance: a straight axis from here to 100%, which does not make
        them look large, and words that say so.
    score : Score
        What is drawn.

    Examples
    --------
    >>> points = [
    ...     {
    ...         "contestant": "PATE",
    ...         "epsilon": e,
    ...         "mean": a,
    ...         "paired_low": a - 0.01,
    ...         "paired_high": a + 0.01,
    ...     }
    ...     for e, a in ((0.1, 0.8), (1.0, 0.9))
    ... ]
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
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5.5}
        ax.plot(x, [p["mean"] for p in points], linestyle=dashes, linewidth=1.9, label=name, zorder=4, **style)
        part = [p for p in points if not p.get("whole", True)]
        if part:
            style |= {"linestyle": "none", "markerfacecolor": COLOURS["paper"], "zorder": 4.5}
            ax.plot([p["epsilon"] for p in part], [p["mean"] for p in part], **style)
        known = [p for p in points if p["paired_low"] is not None]
        if known:
            low, high = ([p[end] for p in known] for end in ("paired_low", "paired_high"))
            ax.fill_between([p["epsilon"] for p in known], low, high, color=colour, alpha=0.13, linewidth=0, zorder=2)
            ax.vlines([p["epsilon"] for p in known], low, high, color=colour, alpha=0.75, linewidth=1.3, zorder=3)
    for name, points in gathered(private, lambda point: point["contestant"]).items():
        role, marker, _ = styles(sides)[name]
        style = {"color": COLOURS[role], "marker": marker, "markersize": 5.5, "markerfacecolor": COLOURS["paper"]}
        at = [[point[key] for point in points] for key in ("epsilon", "mean")]
        ax.plot(*at, linestyle=":", linewidth=1.9, label=f"{name}, by its votes: PRIVATE", zorder=4, **style)
    if private:
        figure_of(ax).suptitle(PRIVATE_CURVES, fontsize=SIZE, color=COLOURS["ink"])
    epsilons = sorted({float(p["epsilon"]) for p in bands})
    shown = [a for a in anchors if epsilons[0] / 3 <= a["epsilon"] <= 3 * epsilons[-1]]
    _log_axis(ax, epsilons, [float(point["epsilon"]) for point in (*shown, *private)])
    near = _limits(ax, bands, shown, lines or {}, floor, score)
    _name_lines(ax, bands, lines or {}, near, score)
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
    y = f"{score.name} on the test rows" + ("" if floor is None else ", one repeat")
    return finish(ax, x="ε, logarithmic (smaller is more private)", y=y, grid="y")


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
    _numbered(ax, ticks)


def _limits(
    ax: Axes,
    bands: Sequence[Mapping[str, Any]],
    anchors: Sequence[Mapping[str, Any]],
    lines: Mapping[str, float],
    floor: float | None,
    score: Score,
) -> Mapping[str, float]:
    """Show all curves and marks, and return the lines on the axes: one far below would flatten them."""
    means = [float(p["mean"]) for p in bands] + [float(a["accuracy"]) for a in anchors]
    if floor is not None:
        ax.set_ylim(max(min([floor, *means, *lines.values()]) - 0.02, score.least), 1.005)
        if score.percent:
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        return lines
    low, high = min(means), max(means)
    # Bands may be cut where they are wide: they must not press the curves together.
    ends = [float(p[end]) for p in bands for end in ("paired_low", "paired_high") if p[end] is not None]
    low = max(min([low, *ends]), low - max(high - low, 0.02), low / 2 if score.percent else score.least)
    high = min(max([high, *ends]), 1 - (1 - high) / 3)
    room = max(high - low, 0.02)
    near = {name: level for name, level in lines.items() if low - 0.5 * room <= level <= high + 0.5 * room}
    low, high = min([low, *near.values()]), max([high, *near.values()])
    if stretched(min(means), max(means), score):
        ax.set_yscale("logit", nonpositive="clip")
        low, high = max(low, 0.004), min(high, 0.9995)  # ends of bands: 0 and 1 are infinitely far
        low, high = min(low, low / (low + 1.3 * (1 - low))), max(high, 1 - (1 - high) / 1.6)
        ax.yaxis.set_major_locator(FixedLocator([t for t in _TICKS if low <= t <= high]))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    else:
        room = max(high - low, 0.02)
        low, high = min(low, max(low - 0.1 * room, score.least - 0.02)), max(high, min(high + 0.08 * room, 1.005))
        if score.percent:
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0 if room > 0.1 else 1))
    ax.set_ylim(low, high)
    return near


def _name_lines(
    ax: Axes,
    bands: Sequence[Mapping[str, Any]],
    lines: Mapping[str, float],
    near: Mapping[str, float],
    score: Score,
) -> None:
    ends = {end: [float(p["mean"]) for p in bands if p["epsilon"] == pick(q["epsilon"] for q in bands)]
            for end, pick in (("left", min), ("right", max))}  # fmt: skip
    below, above = 0, 0
    named: list[tuple[str, float]] = []
    for name, level in lines.items():
        label = f"{name} {score.text(level)}"
        if name in near:
            shown = min(max(level, ax.get_ylim()[0]), ax.get_ylim()[1])  # 1 is infinitely far on a stretched axis
            ax.axhline(shown, color=COLOURS["reference"], linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
            # Where no curve runs through the words, nor the words of another line.
            up = _up(ax, level)
            better = sorted(ends, key=lambda end: -min(abs(_up(ax, value) - up) for value in ends[end]))
            free = [end for end in better if all(end != other or abs(up - at) > 1.6 * SIZE for other, at in named)]
            side = (free or better)[0]
            named.append((side, up))
            y, base, transform = shown, "bottom", ax.get_yaxis_transform()
        elif level < min(ends["left"] + ends["right"]):
            side, y, base, transform, label = "right", 0.015 + 0.065 * below, "bottom", ax.transAxes, f"{label} ↓"
            below += 1
        else:
            side, y, base, transform, label = "left", 0.985 - 0.065 * above, "top", ax.transAxes, f"{label} ↑"
            above += 1
        text = ax.text(0.008 if side == "left" else 0.992, y, textwrap.shorten(label, 40), transform=transform, ha=side,
                       va=base, fontsize=SIZE - 1.5, color=COLOURS["soft"], zorder=6)  # fmt: skip
        text.set_parse_math(False)


def _up(ax: Axes, value: float) -> float:
    """Return how far up the axes a score stands."""
    shown = min(max(value, 0.001), 0.9995) if ax.get_yscale() == "logit" else value
    return float(ax.transData.transform((1.0, shown))[1])


def stretched(low: float, high: float, score: Score = ACCURACY) -> bool:
    """Whether accuracies lie so near to 1 that a straight axis would press the best ones together."""
    return score.percent and 0.95 < high < 0.9995 and 0.004 < low < 0.8
