"""What both reports are made of: pictures as markup, accuracies, where a result comes from."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pate.report import plots
from pate.report._numbers import percent, promised
from pate.report.result import Result


def largest_epsilon(members: Sequence[Mapping[str, Any]]) -> float:
    return max(float(row["epsilon"]) for row in members)


def accuracy_text(members: Sequence[Mapping[str, Any]]) -> str:
    values = [float(row["accuracy"]) for row in members]
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return percent(statistics.fmean(values)) + spread


def facts(result: Result) -> list[tuple[str, str]]:
    """Return names and texts of how a result was made."""
    shown: dict[str, Any] = dict(result.settings)
    if result.budget is not None:
        budget = f"ε = {promised(result.budget.epsilon)}, δ = {promised(result.budget.delta)}"
        shown = {"budget": budget, **shown}
    rows = [(name, ", ".join(map(str, v)) if isinstance(v, tuple) else str(v)) for name, v in shown.items()]
    if result.versions:
        rows.append(("versions", ", ".join(f"{name} {value}" for name, value in result.versions.items())))
    if result.commit:
        rows.append(("commit", result.commit))
    return rows


def picture(draw: Callable[[Any], Any], caption: str, name: str) -> Markup:
    """Return a picture drawn twice, wide and for a phone; ``draw`` takes axes or None, and returns the axes."""
    wide = draw(None)
    thin = draw(plots.narrow_axes(wide))
    svgs = {"wide": plots.figure_to_svg(wide), "narrow": plots.figure_to_svg(thin)}
    return figure(svgs, caption, name=name, colours=plots.COLOURS)


def figure(svgs: Mapping[str, str], caption: str, *, name: str, colours: Mapping[str, str]) -> Markup:
    """Return SVG documents as one inline figure: ids of its own, colours by CSS variable, nothing around it.

    Parameters
    ----------
    svgs : mapping of str to str
        For what width of the window (a class of the style sheet), and the document as
        :func:`pate.report.plots.figure_to_svg` writes it.
    caption, name : str
        Text below, and the text read aloud in its place.
    colours : mapping of str to str
        CSS variable to the ``#rrggbb`` that it replaces.
    """
    drawn = Markup("").join(_inline(svg, width, name, colours) for width, svg in svgs.items())
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(drawn, caption)


def _inline(svg: str, width: str, name: str, colours: Mapping[str, str]) -> Markup:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    box = re.search(r"viewBox=['\"]([\d. -]+)['\"]", svg)
    prefix = re.sub(r"\W+", "-", f"{name}-{width}").lower()
    # Only markup is rewritten, never the text between the tags: a class may well be called id="x".
    svg = re.sub(r"<[^>]+>", lambda tag: _adopt(tag.group(0), prefix, colours), svg[svg.index(">") + 1 :].strip())
    head = Markup("<svg class='{}' viewBox='{}' role='img' aria-label='{}'>")
    # matplotlib has escaped what is text in its picture.
    return head.format(width, box[1] if box else "0 0 1 1", name) + Markup(svg)


def _adopt(tag: str, prefix: str, colours: Mapping[str, str]) -> str:
    tag = re.sub(r"(\sid=['\"])", rf"\g<1>{prefix}-", tag)
    tag = re.sub(r"xlink:href=(['\"])#", rf"href=\g<1>#{prefix}-", tag).replace("url(#", f"url(#{prefix}-")
    for variable, colour in colours.items():
        tag = tag.replace(f": {colour}", f": var(--{variable})")
    return tag
