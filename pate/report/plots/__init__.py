"""The pictures: a function takes plain numbers, draws on the axes given (or on a new figure) and returns them.

The only package that imports matplotlib, and never pyplot: a figure belongs to whoever asked for it, and nothing
global is changed. Colours are those of Okabe and Ito, told apart by colour-blind readers; series differ in marker too.
"""

from __future__ import annotations

from pate.core.curator import need

need("matplotlib", extra="plots", why="A picture")

# ruff: noqa: E402  (what follows imports matplotlib)
from pate.report.plots._accuracy import (
    accuracy_against_epsilon,
    accuracy_bars,
    answers_per_class,
    cost_curves,
    ensemble_curve,
    group_rows,
    margin_histogram,
    teacher_accuracies,
)
from pate.report.plots._comparison import audit_picture, bounds_picture, comparison_curves, stretched, styles
from pate.report.plots._style import COLOURS, Display, figure_to_png, figure_to_svg, narrow_axes

__all__ = [
    "COLOURS",
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
    "group_rows",
    "margin_histogram",
    "narrow_axes",
    "stretched",
    "styles",
    "teacher_accuracies",
]
