"""A table as plain text, shown as HTML by a template and as Markdown here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Sheet:
    r"""A table: its first column names the rows.

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
    strong : collection of (row, place)
        Cells that stand out.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    kind: str = ""
    caption: str = ""
    shares: Sequence[Sequence[float | None]] = field(default=())
    strong: Collection[tuple[int, int]] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def spans(self) -> list[int]:
        """How many rows the first cell of each row stands for: 0 where the row above has the same one."""
        found: list[int] = []
        for place, row in enumerate(self.rows):
            same = place > 0 and self.rows[place - 1][0] == row[0] and self.kind != "stack"
            found.append(0 if same else 1)
            if same:
                first = max(i for i, n in enumerate(found) if n)
                found[first] += 1
        return found

    def markdown(self) -> str:
        """Return the table in Markdown, the caption above it."""
        under = ["---:" if place in self.numbers else "---" for place in range(len(self.heads))]
        rows = [[_cell(text, (r, c) in self.strong) for c, text in enumerate(row)] for r, row in enumerate(self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in ([*map(_cell, self.heads)], under, *rows)]
        return "\n".join([*([self.caption, ""] if self.caption else []), *lines])


def _cell(text: str, strong: bool = False) -> str:
    told = plain(text).replace("|", "\\|")
    return f"**{told}**" if strong and told else told


def plain(text: str) -> str:
    r"""Return text that Markdown shows as it is: one line, nothing that starts markup or HTML."""
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace("<", "&lt;")
    for mark in "*`[]":
        text = text.replace(mark, "\\" + mark)
    return text
