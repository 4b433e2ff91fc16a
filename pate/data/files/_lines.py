r"""Private text tables line by line: what a line holds decides what its own record is, and nothing else.

**The rule.** Every line after the header is one record. A cell may span lines only as writers of CSV files write it:
in quotes, every quote in it twice. So a line with an odd number of quotes begins a record that ends with the next such
line, if both and what is between them are together one row as such writers write it (RFC 4180), with as many cells as
the header. Any other line is a record by itself; one that is no row of the table, or no text of the file's encoding,
is a record that cannot be used.

**What follows.** A file that was written properly is read as it was written, whatever stands in its cells: nobody can
write a cell that makes two records. And in a file without cells that span lines, and without quotes inside unquoted
cells, every line has an even number of quotes: put any bytes without a line's end in the place of any line, and there
are as many records as before, all others the same. (That one line may have an odd number, but no other has, so it
reaches nowhere.) Where some cells do span lines, a line that is broken in its quotes may take others with it, up to the
next odd one: whoever writes the file sees to its quotes.

The header line says how lines end; an empty line is a record that cannot be used.
"""

from __future__ import annotations

import bisect
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import AnyStr

import numpy as np

from pate.core.types import Mask
from pate.data._unusable import usable_records

#: Encodings whose letters are whole numbers of so many bytes, and what decodes a piece of them.
_WIDE = {"utf-16": 2, "utf-16-le": 2, "utf-16-be": 2, "utf-32": 4, "utf-32-le": 4, "utf-32-be": 4}
_NO_LETTER = "\ufffd"
_CELLS, _LETTERS = "another number of cells than the header, or quotes that do not close", "letters of another encoding"


def lines_of(data: bytes, encoding: str) -> tuple[str, list[str | None]]:
    r"""Return how lines end, by the first one, and the lines, None for one that is not of this encoding.

    Examples
    --------
    >>> lines_of(b"a,b\r\n1,\xff\n2,3\n", "utf-8")
    ('\n', ['a,b\r', None, '2,3'])
    >>> lines_of(b"a\r1\n2\r", "utf-8")
    ('\r', ['a', '1\n2'])
    """
    if encoding in _WIDE:
        text = data.decode(encoding, errors="replace")
        end = _end(text, "\n", "\r")
        wide = text.split(end)
        return end, [None if _NO_LETTER in line else line for line in (wide[:-1] if not wide[-1] else wide)]
    end = _end(data, "\n".encode(encoding), "\r".encode(encoding)).decode(encoding)
    pieces = data.split(end.encode(encoding))
    return end, [_letters(piece, encoding) for piece in (pieces[:-1] if not pieces[-1] else pieces)]


def _end(data: AnyStr, new_line: AnyStr, carriage: AnyStr) -> AnyStr:
    line, back = data.find(new_line), data.find(carriage)
    return carriage if back >= 0 and (line < 0 or back + len(carriage) < line) else new_line


def _letters(piece: bytes, encoding: str) -> str | None:
    try:
        text = piece.decode(encoding)
        text.encode()  # some encodings give halves of letters
    except UnicodeError:
        return None
    return text


def records_text(path: Path, lines: Sequence[str | None], sep: str, n_cells: int, *, end: str = "\n") -> str:
    r"""Return the records as text that every reader of CSV files parts alike, one row each; tell the curator of others.

    Parameters
    ----------
    path : Path
    lines : sequence of str or None
        From :func:`lines_of`, without the header.
    sep : str
    n_cells : int
        Of the header.
    end : str
        How lines end.

    Warns
    -----
    CuratorWarning
        Some lines are no rows; each is a row of empty cells.

    Examples
    --------
    >>> print(records_text(Path("a.csv"), ['1,"x', 'y"', '"2", "3"'], ",", 2))
    "1","x
    y"
    "2","3"
    <BLANKLINE>
    """
    made, letters, cells = io.StringIO(newline=""), [], []
    quoted = csv.writer(made, delimiter=sep, quoting=csv.QUOTE_ALL, lineterminator="\n")
    odd = [i for i, line in enumerate(lines) if line is not None and line.count('"') % 2]
    row = _row_of(sep)
    i = 0
    while i < len(lines):
        line, last = lines[i], i
        text = line.strip("\r") if line is not None and end == "\n" else line
        found = None
        if text is not None and not any(sign in text for sign in '"\r\n\0'):
            if text.count(sep) == n_cells - 1:
                found = text.split(sep)
                made.write(text + "\n")
        elif text is not None and "\0" not in text:
            found = _cells(text, sep)
            at = bisect.bisect_right(odd, i)
            if found is None and 0 < at < len(odd) and odd[at - 1] == i:
                found, last = _joined(lines[i : odd[at] + 1], end, row, sep), odd[at]
            if found is None or len(found) != n_cells:
                found, last = None, i
            else:
                quoted.writerow(found)
        if found is None:
            quoted.writerow([""] * n_cells)
        letters.append(line is not None)
        cells.append(line is None or found is not None)
        i = last + 1
    checks: dict[str, Mask] = {_LETTERS: np.array(letters, dtype=bool), _CELLS: np.array(cells, dtype=bool)}
    if len(lines):
        usable_records(checks, before=f"{path.name}: ")
    return made.getvalue()


def header_of(lines: Sequence[str | None], sep: str, end: str) -> tuple[list[str], int]:
    r"""Return the cells of the header, and how many lines it takes.

    Examples
    --------
    >>> header_of(['a,"b', 'c"', "1,2"], ",", "\n")
    (['a', 'b\nc'], 2)
    """
    first = lines[0] or ""
    text = first.removesuffix("\r") if end == "\n" else first
    found = _cells(text, sep)
    if found is None and text.count('"') % 2:
        last = next((i for i, line in enumerate(lines[1:], 1) if line is not None and line.count('"') % 2), 0)
        joined = _joined(lines[: last + 1], end, _row_of(sep), sep) if last else None
        if joined is not None:
            return [cell.strip() for cell in joined], last + 1
    return [cell.strip() for cell in found or []], 1


def _row_of(sep: str) -> re.Pattern[str]:
    """Return what a row looks like, as writers of CSV files write it."""
    mark = re.escape(sep)
    cell = rf'(?: *+"(?:[^"]++|"")*+"|[^"{mark}\r\n]*+)'
    return re.compile(rf"{cell}(?:{mark}{cell})*+")


def _joined(lines: Sequence[str | None], end: str, row: re.Pattern[str], sep: str) -> list[str] | None:
    """Return the cells of lines that are one row together, None where they are not."""
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return None
    text = end.join(known)
    text = text.removesuffix("\r") if end == "\n" else text
    return _cells(text, sep) if "\0" not in text and row.fullmatch(text) else None


def _cells(text: str, sep: str) -> list[str] | None:
    """Return the cells of one row, None where it is none."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
