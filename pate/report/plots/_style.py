"""What all pictures share: colours, sizes, axes, legends, and how they are written."""

from __future__ import annotations

import io
import textwrap
import warnings
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pate.exceptions import InvalidInputError

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
    """Return a figure as SVG; the same figure gives the same text, byte for byte.

    Letters stay letters, so that they can be searched, read aloud and take the reader's font.

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
    r"""Return a figure as PNG on white, for places that take no SVG.

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


def finish(ax: Axes, *, x: str, y: str = "", grid: str) -> None:
    """Name and style the axes; ``grid`` is the direction along which values are read."""
    ax.set_xlabel(textwrap.fill(x, 40) if is_narrow(ax) else x, fontsize=SIZE, color=COLOURS["soft"])
    ax.set_ylabel(y, fontsize=SIZE, color=COLOURS["soft"])
    ax.tick_params(labelsize=SIZE - 0.5, color=COLOURS["grid"], labelcolor=COLOURS["ink"])
    ax.grid(axis="x" if grid == "x" else "y", color=COLOURS["grid"], linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("bottom", "left") and side != {"x": "bottom", "y": "left"}[grid])
        spine.set_color(COLOURS["reference"])


def legend(ax: Axes) -> None:
    """Name the lines above the axes, where nothing is drawn over."""
    names = ax.get_legend_handles_labels()[1]
    if names:
        place: dict[str, Any] = {
            "loc": "lower left",
            "bbox_to_anchor": (0.0, 1.0),
            "borderaxespad": 0.2,
            "handlelength": 2.2,
        }
        columns = 1 if is_narrow(ax) else next(n for n in (3, 2, 1) if n == 1 or _across(names, n) <= _WIDTH - 0.9)
        legend = ax.legend(frameon=False, fontsize=SIZE, labelcolor=COLOURS["ink"], ncols=columns, **place)
        for text in legend.get_texts():
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
    r"""A picture: the last line of a notebook's cell shows it, whatever backend matplotlib has.

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
