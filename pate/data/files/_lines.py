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


class Odd(str):
    """A line that is no text of its file's encoding: its quotes still say where its record ends, and nothing else."""


_CELLS, _LETTERS = "another number of cells than the header, or quotes that do not close", "letters of another encoding"


def lines_of(data: bytes, encoding: str) -> tuple[str, list[str]]:
    r"""Return how lines end, by the first one, and the lines, :class:`Odd` where one is not of this encoding."""
    if encoding in _WIDE:
        text = data.decode(encoding, errors="replace")
        end = _end(text, "\n", "\r")
        wide = text.split(end)
        return end, [Odd(line) if _NO_LETTER in line else line for line in (wide[:-1] if not wide[-1] else wide)]
    end = _end(data, "\n".encode(encoding), "\r".encode(encoding)).decode(encoding)
    pieces = data.split(end.encode(encoding))
    return end, [_letters(piece, encoding) for piece in (pieces[:-1] if not pieces[-1] else pieces)]


def _end(data: AnyStr, new_line: AnyStr, carriage: AnyStr) -> AnyStr:
    line, back = data.find(new_line), data.find(carriage)
    return carriage if back >= 0 and (line < 0 or back + len(carriage) < line) else new_line


def _letters(piece: bytes, encoding: str) -> str:
    try:
        text = piece.decode(encoding)
        text.encode()  # some encodings give halves of letters
    except UnicodeError:
        try:
            return Odd(piece.decode(encoding, errors="replace").encode(errors="replace").decode())
        except (UnicodeError, LookupError, NotImplementedError):  # an encoding that cannot pass over anything
            return Odd(piece.decode("latin-1"))
    return text


def records_text(path: Path, lines: Sequence[str], sep: str, n_cells: int, *, end: str = "\n") -> str:
    r"""Return the records as text that every reader of CSV files parts alike, one row each; tell the curator of others.

    Parameters
    ----------
    path : Path
    lines : sequence of str
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
    """
    made, letters, cells = io.StringIO(newline=""), [], []
    quoted = csv.writer(made, delimiter=sep, quoting=csv.QUOTE_ALL, lineterminator="\n")
    odd = [i for i, line in enumerate(lines) if line.count('"') % 2]
    row, cell = _row_of(sep, end)
    i = 0
    while i < len(lines):
        line, last = lines[i], i
        text = line.strip("\r") if end == "\n" else line
        found, known = None, not isinstance(line, Odd)
        if known and not any(sign in text for sign in '"\r\n\0'):
            if text.count(sep) == n_cells - 1:
                found = text.split(sep)
                made.write(text + "\n")
        else:
            found = _cells(text, sep) if known and "\0" not in text else None
            at = bisect.bisect_right(odd, i)
            if found is None and 0 < at < len(odd) and odd[at - 1] == i:
                # Where a record ends is said by quotes alone: what else its cells hold decides whether it is of use.
                some = lines[i : odd[at] + 1]
                text = _text(some, end)
                if _n_cells(text, row, cell) == n_cells:
                    last, known = odd[at], not any(isinstance(one, Odd) for one in some)
                    found = _cells(text, sep) if known and "\0" not in text else None
            if found is not None and len(found) != n_cells:
                found = None
            if found is not None:
                quoted.writerow(found)
        if found is None:
            quoted.writerow([""] * n_cells)
        letters.append(known)
        cells.append(not known or found is not None)
        i = last + 1
    checks: dict[str, Mask] = {_LETTERS: np.array(letters, dtype=bool), _CELLS: np.array(cells, dtype=bool)}
    if len(lines):
        usable_records(checks, before=f"{path.name}: ")
    return made.getvalue()


def header_of(lines: Sequence[str], sep: str, end: str) -> tuple[list[str], int]:
    r"""Return the cells of the header, and how many lines it takes."""
    text = lines[0].removesuffix("\r") if end == "\n" else lines[0]
    found = _cells(text, sep)
    if found is None and text.count('"') % 2:
        last = next((i for i, line in enumerate(lines[1:], 1) if line.count('"') % 2), 0)
        text = _text(lines[: last + 1], end)
        whole = last and not any(isinstance(line, Odd) for line in lines[: last + 1]) and "\0" not in text
        joined = _cells(text, sep) if whole and _n_cells(text, *_row_of(sep, end)) else None
        if joined is not None:
            return [cell.strip() for cell in joined], last + 1
    return [cell.strip() for cell in found or []], 1


def _row_of(sep: str, end: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what a row looks like, and a cell, as writers of CSV files write them.

    Some leave a carriage return without quotes where lines end otherwise.
    """
    mark = re.escape(sep)
    cell = rf'(?: *+"(?:[^"]++|"")*+"|[^"{mark}{re.escape(end)}]*+)'
    return re.compile(rf"{cell}(?:{mark}{cell})*+"), re.compile(cell)


def _text(lines: Sequence[str], end: str) -> str:
    text = end.join(lines)
    return text.removesuffix("\r") if end == "\n" else text


def _n_cells(text: str, row: re.Pattern[str], cell: re.Pattern[str]) -> int:
    """Return how many cells a row has; 0 for what is none."""
    if not row.fullmatch(text):
        return 0
    at, n = 0, 0
    while at <= len(text):
        found = cell.match(text, at)
        assert found is not None  # a cell may be empty
        at, n = found.end() + 1, n + 1
    return n


def _cells(text: str, sep: str) -> list[str] | None:
    """Return the cells of one row, None where it is none."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
