"""HTML pages from the templates in ``_templates``: whatever is put into one is text, unless it is markup already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


# Plain text.

#: Control characters, marks that turn the reading direction around (a page could say another number than its file)
#: and halves of surrogate pairs, which cannot be written as UTF-8. Tab and line feed are allowed.
ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return a text, of JSON too, for a terminal: what stood in a file must not clear it or hide a line.

    Examples
    --------
    >>> print(visible("\x1b[2J" + "epsilon"))
    \u001b[2Jepsilon
    """
    return ODD.sub(lambda odd: f"\\u{ord(odd[0]):04x}", text)


def lined_up(table: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Return the lines of a table whose columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [c.rjust(w) if right and i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # Here, because only who makes a page needs it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("pate", "_templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **values: Any) -> str:
    """Return a page made from a template, with every value escaped; a name that is not given is an error."""
    return _environment().get_template(template).render(values)


def cell(
    kind: str,
    line: str,
    *,
    heads: Sequence[str] = (),
    rows: Iterable[Sequence[object]] = (),
    more: Iterable[str] = (),
) -> str:
    """Return what an object looks like in a notebook's cell, with every value escaped."""
    return render("cell_rows.html", kind=kind, line=line, heads=heads, rows=list(rows), more=list(more))
