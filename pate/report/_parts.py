"""Parts that both reports share: pictures as markup, accuracies, where a result comes from."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from markupsafe import Markup

from pate.privacy.convert import format_up
from pate.report.result import Result

#: What to type for one's own data; a test reads it by the command line's own parser.
NEXT = (
    "pate label --private patients.csv --target ill --public cohort.csv --classes no,yes "
    "--epsilon 1 --delta 1e-6 --out labels.csv --plan"
)

# Numbers as they are printed: an epsilon is never rounded down.


def number(value: float) -> str:
    """Return four digits of a number, short."""
    return _short(f"{value:.4g}")


def promised(value: float, digits: int = 4) -> str:
    """Return an epsilon or delta rounded up: what the reader takes for the guarantee must not be below it."""
    return _short(format_up(value, digits))


def percent(share: float) -> str:
    """Return a share of 1 in percent."""
    return f"{100 * share:.1f}%"


def _short(text: str) -> str:
    """Return a printed number without the zeros and the plus of its exponent."""
    return re.sub(r"e([+-])0*", lambda m: "e" + m.group(1).replace("+", ""), text)


# A table as plain text, shown as HTML by a template and as Markdown here.


@dataclass(frozen=True, kw_only=True)
class Sheet:
    r"""A table: its first column names the rows."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()  # places of columns of numbers
    #: {"", "stack", "heat"}: ``stack``: a row becomes a paragraph on a phone; ``heat``: cells are coloured by
    #: ``shares``.
    kind: str = ""
    caption: str = ""
    shares: Sequence[Sequence[float | None]] = field(default=())  # as the rows; 0 to 1
    strong: Collection[tuple[int, int]] = ()  # cells that stand out

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def spans(self) -> list[int]:
        """How many rows the first cell of each row stands for: 0 where the row above has the same one."""
        if self.kind == "stack":
            return [1] * len(self.rows)
        sizes = (len(list(rows)) for _, rows in groupby(self.rows, key=lambda row: row[0]))
        return [span for n in sizes for span in (n, *[0] * (n - 1))]

    def markdown(self) -> str:
        """Return the table in Markdown, the caption above it."""
        under = ["---:" if place in self.numbers else "---" for place in range(len(self.heads))]
        rows = [[_cell(text, (r, c) in self.strong) for c, text in enumerate(row)] for r, row in enumerate(self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in ([*map(_cell, self.heads)], under, *rows)]
        return "\n".join([*([self.caption, ""] if self.caption else []), *lines])


def _cell(text: str, strong: bool = False) -> str:
    shown = plain(text).replace("|", "\\|")
    return f"**{shown}**" if strong and shown else shown


def plain(text: str) -> str:
    r"""Return text that Markdown shows as it is: one line, nothing that starts markup or HTML."""
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace("<", "&lt;")
    for mark in "*`[]":
        text = text.replace(mark, "\\" + mark)
    return text


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


def picture(caption: str, name: str, draw: Callable[..., Any], *args: Any, **more: Any) -> Markup:
    """Return a picture drawn twice, wide and for a phone: what ``draw(*args, ax=...)`` returns, axes or a display."""
    from pate.report import plots  # it needs matplotlib, and words do not

    def drawn(ax: Any) -> Any:
        found = draw(*args, ax=ax, **more)
        return getattr(found, "ax_", found)

    wide = drawn(None)
    svgs = {"wide": plots.figure_to_svg(wide), "narrow": plots.figure_to_svg(drawn(plots.narrow_axes(wide)))}
    return figure(svgs, caption, name=name, colours=plots.COLOURS)


def figure(svgs: Mapping[str, str], caption: str, *, name: str, colours: Mapping[str, str]) -> Markup:
    """Return SVG documents as one inline figure: ids of its own, colours by CSS variable, nothing around it."""
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
