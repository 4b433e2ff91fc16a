"""Small pieces of an HTML page, as strings. Whatever goes through :func:`escape` cannot become markup."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any


def escape(value: Any) -> str:
    """Return ``value`` as text that HTML shows as it is, in content and in attributes.

    Examples
    --------
    >>> escape('<b>&"')
    '&lt;b&gt;&amp;&quot;'
    """
    return html.escape(str(value), quote=True)


def number(value: float) -> str:
    """Return four digits of a number, short.

    Examples
    --------
    >>> number(2.52714), number(1e-5), number(3.0)
    ('2.527', '1e-5', '3')
    """
    return short(f"{value:.4g}")


def short(text: str) -> str:
    """Return a printed number without the zeros and the plus of its exponent.

    Examples
    --------
    >>> short("1.5e-05"), short("2e+10")
    ('1.5e-5', '2e10')
    """
    return re.sub(r"e([+-])0*", lambda m: "e" + m.group(1).replace("+", ""), text)


def percent(share: float, *, up: bool = False) -> str:
    """Return a share of 1 in percent; ``up`` rounds upwards, for bounds.

    Examples
    --------
    >>> percent(0.9412), percent(0.9412, up=True)
    ('94.1%', '94.2%')
    """
    return f"{math.ceil(1000 * share) / 10 if up else 100 * share:.1f}%"


def page(title: str, parts: Iterable[str], *, running: str, styles: Sequence[str]) -> str:
    """Return the whole document: title and running header are text, parts are HTML, styles are template files.

    Examples
    --------
    >>> page("A & B", ["<p>x</p>"], running="A & B", styles=["report.css"]).splitlines()[0]
    '<!doctype html>'
    """
    folder = resources.files("pate") / "_templates"
    return Template((folder / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        css="\n".join((folder / style).read_text(encoding="utf-8") for style in styles),
        running=escape(running),
        body="\n".join(parts),
    )


def section(title: str, body: str, *, badge: str = "", new_page: bool = False) -> str:
    """Return a section: its title and badge are text, its body is HTML; ``new_page`` is about paper.

    Examples
    --------
    >>> section("Notes", "<p>x</p>")
    '<section><h2>Notes</h2><p>x</p></section>'
    """
    mark = f"<span class='badge'>{escape(badge)}</span>" if badge else ""
    css_class = " class='new-page'" if new_page else ""
    return f"<section{css_class}><h2>{escape(title)}{mark}</h2>{body}</section>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: set[int]) -> str:
    """Return a table: heads are text, cells are HTML, the first of each row is its heading.

    Examples
    --------
    >>> "<td class='number'>3</td>" in table(["Who", "How many"], [("me", "3")], numbers={1})
    True
    """

    def cells(row: Sequence[str], tags: Sequence[str]) -> str:
        return "".join(f"<{tag}{marked[i]}>{cell}</{tag}>" for i, (tag, cell) in enumerate(zip(tags, row, strict=True)))

    marked = [" class='number'" if i in numbers else "" for i in range(len(heads))]
    head = cells([escape(name) for name in heads], ["th"] * len(heads))
    body = "".join(f"<tr>{cells(row, ['th'] + ['td'] * (len(heads) - 1))}</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names (text) and what they mean (HTML).

    Examples
    --------
    >>> "<th scope='row'>Unit</th><td>record</td>" in definitions([("Unit", "record")])
    True
    """
    body = "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{value}</td></tr>" for name, value in rows)
    return f"<table class='definitions'><tbody>{body}</tbody></table>"


def bullets(items: Sequence[str]) -> str:
    """Return a list of texts; nothing for none.

    Examples
    --------
    >>> bullets(["a", "<b>"]), bullets([])
    ('<ul><li>a</li><li>&lt;b&gt;</li></ul>', '')
    """
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>" if items else ""


def preformatted(text: str, *, css_class: str) -> str:
    """Return text in a fixed-width block: a ``"page"`` keeps its lines, a ``"command"`` wraps.

    Examples
    --------
    >>> preformatted("a < b", css_class="command")
    "<pre class='command'>a &lt; b</pre>"
    """
    return f"<pre class='{css_class}'>{escape(text)}</pre>"


def figure(svg: str, caption: str, *, name: str, colours: Mapping[str, str]) -> str:
    """Return an SVG document as an inline figure: ids of its own, colours by CSS variable, nothing around it.

    Parameters
    ----------
    svg : str
        As :func:`pate.report.plots.figure_to_svg` writes it.
    caption, name : str
        Text below, and the text read aloud in its place.
    colours : mapping of str to str
        CSS variable to the ``#rrggbb`` that it replaces.

    Examples
    --------
    >>> figure("<svg viewBox='0 0 1 1'><g id='a'/></svg>", "A dot.", name="Dot", colours={})
    "<figure><svg viewBox='0 0 1 1' role='img' aria-label='Dot'><g id='dot-a'/></svg><figcaption>A dot.</figcaption>..."
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    box = re.search(r"viewBox=['\"]([\d. -]+)['\"]", svg)
    head = f"<svg viewBox='{box.group(1) if box else '0 0 1 1'}' role='img' aria-label='{escape(name)}'>"
    prefix = re.sub(r"\W+", "-", name).lower()
    # Only markup is rewritten, never the text between the tags: a class may well be called id="x".
    svg = re.sub(r"<[^>]+>", lambda tag: _adopt(tag.group(0), prefix, colours), svg[svg.index(">") + 1 :].strip())
    return f"<figure>{head}{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _adopt(tag: str, prefix: str, colours: Mapping[str, str]) -> str:
    tag = re.sub(r"(\sid=['\"])", rf"\g<1>{prefix}-", tag)
    tag = re.sub(r"xlink:href=(['\"])#", rf"href=\g<1>#{prefix}-", tag).replace("url(#", f"url(#{prefix}-")
    for variable, colour in colours.items():
        tag = tag.replace(f": {colour}", f": var(--{variable})")
    return tag
