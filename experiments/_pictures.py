"""Pictures for pages: SVG in the colours of pate's reports, light or dark as the reader's screen is."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pate.report.plots import COLOURS, figure_to_svg

#: Size of letters and width of a figure in inches: readable where a phone shows it at half its size.
SIZE, WIDTH = 12, 7.2


def plain(ax: Axes) -> None:
    """Leave of the axes what is needed to read them."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=COLOURS["grid"], lw=0.8)
    ax.set_axisbelow(True)
    ax.minorticks_off()


def write_svg(figure: Figure, path: Path) -> None:
    """Write a transparent SVG whose colours follow the light or dark theme of the reader."""
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", figure_to_svg(figure), flags=re.DOTALL)
    for name, colour in COLOURS.items():
        svg = svg.replace(f": {colour}", f": var(--{name})")
    svg = re.sub(r": #000000|: #262626", ": var(--soft)", svg)
    css = (files("pate") / "_templates" / "report.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)[:2]
    colours = f"svg {{{light}}} @media (prefers-color-scheme: dark) {{ svg {{{dark}}} }} text {{ fill: var(--ink) }}"
    path.write_text(svg.replace("</style>", f" {' '.join(colours.split())}</style>", 1), encoding="utf-8")
