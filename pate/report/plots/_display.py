"""A drawn picture as scikit-learn's displays hold one: axes, figure, and itself in a notebook."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pate.report.plots._style import figure_of, figure_to_png


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
