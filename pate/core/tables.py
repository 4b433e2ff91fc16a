"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def lined_up(table: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Return the lines of a table whose columns are as wide as their widest cell.

    Parameters
    ----------
    table : sequence of rows of str
        The heading is the first.
    right : bool
        Whether all columns but the first go to the right, as numbers do.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [c.rjust(w) if right and i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines
