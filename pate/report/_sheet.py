"""A table as plain text, shown as HTML by a template and as Markdown here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table: its first column names the rows.

    Attributes
    ----------
    heads : sequence of str
    rows : sequence of sequences of str
    numbers : collection of int
        Places of columns of numbers.
    kind : {"", "stack", "heat"}
        ``stack``: a row becomes a paragraph on a phone; ``heat``: cells are coloured by ``shares``.
    caption : str
    shares : sequence of sequences of (float or None)
        As the rows; 0 to 1.

    Examples
    --------
    >>> print(Sheet(heads=["a", "b"], rows=[["x", "1|2"]], numbers=[1]).markdown())
    | a | b |
    | --- | ---: |
    | x | 1\\|2 |
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Iterable[int] = ()
    kind: str = ""
    caption: str = ""
    shares: Sequence[Sequence[float | None]] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.rows)

    def markdown(self) -> str:
        """Return the table in Markdown, the caption above it."""
        under = ["---:" if place in set(self.numbers) else "---" for place in range(len(self.heads))]
        lines = [f"| {' | '.join(map(_cell, row))} |" for row in (self.heads, under, *self.rows)]
        return "\n".join([*([self.caption, ""] if self.caption else []), *lines])


def _cell(text: str) -> str:
    return plain(text).replace("|", "\\|")


def plain(text: str) -> str:
    """Return text that Markdown shows as it is: one line, nothing that starts markup or HTML.

    Examples
    --------
    >>> plain("<b>*x*")
    '&lt;b>\\\\*x\\\\*'
    """
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace("<", "&lt;")
    for mark in "*`[]":
        text = text.replace(mark, "\\" + mark)
    return text
