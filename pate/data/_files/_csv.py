"""Read text tables (CSV): the format is recognised from public facts, and every private cell is read by itself.

Of a private file every line after the header is a record, an empty one too; one with another number of cells, a NUL
byte or letters of another encoding cannot be used. A cell may span lines as writers of CSV files write it: in quotes,
every quote in it twice. In a file without such cells (nor quotes inside unquoted ones) *any* bytes may stand in the
place of a line, and all other records are the same. Where cells do span lines, a line that is broken in its quotes may
take others with it. The last line needs its end.
"""

from __future__ import annotations

import bisect
import codecs
import csv
import io
import os
import re
import warnings
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, AnyStr

import numpy as np
import numpy.typing as npt

from pate._core.checks import canonical, check_choice, shown
from pate._core.curator import tell_curator
from pate._core.frames import unguarded_cell
from pate._core.types import Mask
from pate.data._cells import usable_records
from pate.data._files._npz import gunzip, readable
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


# The format of a table: kind of file, separator, encoding, decimal mark.

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
#: In the order of preference where a public file's rows fit several.
_SAID_AS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
#: What a person may call them where they cannot be typed.
SEPARATOR_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}


@dataclass(frozen=True)
class TableFormat:
    r"""How a table was read; what :attr:`pate.data.Table.format` is.

    Attributes
    ----------
    kind : str
        CSV, Parquet, npz, npy, Excel, sqlite or duckdb.
    sep : str
        The separator of a CSV file.
    encoding : str
        The encoding of a CSV file.
    decimal : str
        ``"."`` or ``","``; of a CSV file.
    thousands : str
        What stands between thousands in a CSV file, of :data:`THOUSANDS`; empty where nothing does.
    part : str
        The sheet, the table, or how many files.
    """

    kind: str
    sep: str = ""
    encoding: str = ""
    decimal: str = ""
    thousands: str = ""
    part: str = ""

    def __str__(self) -> str:
        words = [
            self.kind,
            _SAID_AS.get(self.sep, f"{self.sep!r} between cells" if self.sep else ""),
            self.encoding,
            "decimal commas" if self.decimal == "," else "",
            f"{MARKS[self.thousands][0]} between thousands" if self.thousands else "",
            self.part,
        ]
        return ", ".join(word for word in words if word)

    def spelt(self, cell: str) -> str:
        """Return a cell's number as Python reads it, by this cell alone; in quotes where its marks leave it open.

        Where commas are decimal marks, a cell with a point is no number, unless points stand between thousands: whether
        ``1.500`` is a thousand and a half or one and a half, nothing says.
        """
        if self.thousands and _grouped(self.thousands, self.decimal).fullmatch(cell.strip()):
            cell = re.sub(MARKS[self.thousands][1], "", cell.strip())
        if self.decimal == ",":
            return repr(cell) if "." in cell else cell.replace(",", ".")
        return cell


#: What may stand between thousands: what it is called, and its characters.
MARKS = {",": ("commas", ","), ".": ("points", r"\."), "apostrophe": ("apostrophes", "['\u2019]"),
          "space": ("spaces", "[ \u00a0\u202f]")}  # fmt: skip
THOUSANDS = tuple(MARKS)


@cache
def _grouped(thousands: str, decimal: str) -> re.Pattern[str]:
    """Return the pattern of numbers with a mark between thousands."""
    point = re.escape(_point_beside(thousands, decimal))
    return re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:{MARKS[thousands][1]}[0-9]{{3}})+(?:{point}[0-9]*)?")


def _point_beside(thousands: str, decimal: str) -> str:
    """Return the decimal mark where a point or a comma stands between thousands, as it must be the other one."""
    return {",": ".", ".": ","}.get(thousands) or decimal or "."


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user said about a table's format; None: it is recognised.

    ``recognise``: of a public file beside a private one, of which these were said, only what cannot be recognised is
    taken from here.
    """

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    sheet: str | None = None
    recognise: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no text, before any file is opened."""
        for name in self.said():
            if not isinstance(getattr(self, name), str):
                raise InvalidInputError(f"{name} must be a text or None, got {shown(getattr(self, name))}.")

    def said(self) -> list[str]:
        """Return the names of what was said."""
        return [
            name for name in ("sep", "encoding", "decimal", "thousands", "sheet") if getattr(self, name) is not None
        ]


# Private text tables line by line: what a line holds affects its own record only.

#: Encodings whose letters are whole numbers of so many bytes, and what decodes a piece of them.
_WIDE = {"utf-16": 2, "utf-16-le": 2, "utf-16-be": 2, "utf-32": 4, "utf-32-le": 4, "utf-32-be": 4}
_NO_LETTER = "\ufffd"


class Odd(str):
    """A line that cannot be decoded; only its quotes are used, to find where its record ends."""


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


def records_of(path: Path, lines: Sequence[str], sep: str, n_cells: int, *, end: str = "\n") -> list[str | list[str]]:
    """Return each record: the text of a plain line (see :func:`_split`), else its cells; warn the curator of bad lines.

    ``lines`` are those of :func:`lines_of` without the header; a line that is no row becomes a row of empty cells.
    """
    records: list[str | list[str]] = []
    letters, cells = [], []
    odd = [i for i, line in enumerate(lines) if line.count('"') % 2]
    row, cell = _row_of(sep, end)
    i = 0
    while i < len(lines):
        line, last = lines[i], i
        text = line.strip("\r") if end == "\n" else line
        found, known = None, not isinstance(line, Odd)
        plain = known and not ('"' in text or "\r" in text or "\n" in text or "\0" in text)
        if not plain:
            found = _line_cells(text, sep) if known and "\0" not in text else None
            at = bisect.bisect_right(odd, i)
            if found is None and 0 < at < len(odd) and odd[at - 1] == i:
                # Where a record ends is said by quotes alone: what else its cells hold decides whether it is of use.
                some = lines[i : odd[at] + 1]
                text = _text(some, end)
                if _n_cells(text, row, cell) == n_cells:
                    last, known = odd[at], not any(isinstance(one, Odd) for one in some)
                    found = _line_cells(text, sep) if known and "\0" not in text else None
        fits = text.count(sep) + 1 == n_cells if plain else found is not None and len(found) == n_cells
        records.append(text if fits and plain else found if fits and found is not None else [""] * n_cells)
        letters.append(known)
        cells.append(not known or fits)
        i = last + 1
    checks: dict[str, Mask] = {_LETTERS: np.array(letters, dtype=bool), _CELLS: np.array(cells, dtype=bool)}
    if len(lines):
        usable_records(checks, before=f"{path.name}: ")
    return records


def _split(record: str | list[str], sep: str) -> list[str]:
    """Return the cells of a record of :func:`records_of`; blanks before a cell are no part of it."""
    if not isinstance(record, str):
        return record
    return [cell.lstrip(" ") for cell in record.split(sep)] if " " in record else record.split(sep)


def header_of(lines: Sequence[str], sep: str, end: str) -> tuple[list[str], int]:
    r"""Return the cells of the header, and how many lines it takes."""
    text = lines[0].removesuffix("\r") if end == "\n" else lines[0]
    found = _line_cells(text, sep)
    if found is None and text.count('"') % 2:
        last = next((i for i, line in enumerate(lines[1:], 1) if line.count('"') % 2), 0)
        text = _text(lines[: last + 1], end)
        whole = last and not any(isinstance(line, Odd) for line in lines[: last + 1]) and "\0" not in text
        joined = _line_cells(text, sep) if whole and _n_cells(text, *_row_of(sep, end)) else None
        if joined is not None:
            return joined, last + 1
    return found or [], 1


def _row_of(sep: str, end: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a row and of a cell, as writers of CSV files write them.

    Some leave a carriage return without quotes where lines end otherwise.
    """
    mark = re.escape(sep)
    cell = rf'(?: *+"(?:[^"]++|"")*+"|[^"{mark}{re.escape(end)}]*+)'
    return re.compile(rf"{cell}(?:{mark}{cell})*+"), re.compile(cell)


def _text(lines: Sequence[str], end: str) -> str:
    text = end.join(lines)
    return text.removesuffix("\r") if end == "\n" else text


def _n_cells(text: str, row: re.Pattern[str], cell: re.Pattern[str]) -> int:
    """Return how many cells a row has; 0 for a text that is no row."""
    if not row.fullmatch(text):
        return 0
    at, n = 0, 0
    while at <= len(text):
        found = cell.match(text, at)
        assert found is not None  # a cell may be empty
        at, n = found.end() + 1, n + 1
    return n


def _line_cells(text: str, sep: str) -> list[str] | None:
    """Return the cells of one row, None where it is none."""
    try:
        rows = list(_reader(text, sep))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


#: Cells of a CSV file that mean "not known". The text None is a value (a measurement that was not ordered, say).
MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>", "#N/A")
_MISSING = frozenset(MISSING)

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
         (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a]")
_CODE = re.compile(r"\s*0[0-9]+\s*")
_LONGEST = 2**31 - 1
#: Rows of a private table that are split into cells at a time, and texts of which one copy is held.
_BLOCK, _MOST_SEEN = 4096, 65_536
_RETURN = re.compile(r"\r(?!\n)")
_SAID_SEP = re.compile(r"sep=(.)\r?\n")


@dataclass(frozen=True, eq=False, repr=False)
class CsvTable:
    """A text table of known encoding, separator and header: ``text`` of a public file, ``records`` of a private one.

    ``zeros``: public columns with cells such as 007. ``groups``: those that hold numbers with a mark between thousands,
    and the mark.
    """

    path: Path
    names: tuple[str, ...]
    format: TableFormat
    text: str = ""
    zeros: frozenset[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    records: list[str | list[str]] = field(default_factory=list)

    def frame(self, text: Collection[str], kinds: Mapping[str, str] | None) -> pd.DataFrame:
        """Return the cells as a DataFrame: public columns are typed as a whole, private cells are read one by one.

        ``kinds``: of a private file, the kinds of the public columns.
        """
        import pandas as pd

        if kinds is not None:
            made = self._private([kinds.get(name) == "numeric" for name in self.names])
            frame = pd.DataFrame({i: pd.Series(cells, dtype=cells.dtype) for i, cells in enumerate(made)})
            frame.columns = pd.Index(self.names)
            return frame
        groups = self.groups if self.format.thousands else {}
        with _readable(self.path, pd.errors.ParserWarning), warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(self.text, newline=""),
                sep=self.format.sep,
                **_exact(pd.__version__),
                header=0,
                names=list(range(len(self.names))),  # pandas would rename a name that stands twice
                dtype={i: "object" for i, name in enumerate(self.names) if name in text or name in groups},
                index_col=False,
                keep_default_na=False,
                na_values=list(MISSING),
                skipinitialspace=True,
                low_memory=False,
            )
        for j in range(len(self.names)) if "'" in self.text else ():
            if not pd.api.types.is_numeric_dtype(frame[j].dtype):
                frame[j] = [unguarded_cell(cell) if isinstance(cell, str) else cell for cell in frame[j].tolist()]
        frame.columns = pd.Index(self.names)
        for name in dict.fromkeys(self.names) if groups or self.format.decimal == "," else ():
            column = frame[name]
            if name in text or self.names.count(name) > 1 or pd.api.types.is_numeric_dtype(column.dtype):
                continue
            if name in groups or (self.format.decimal == "," and comma_numbers(column)):
                spelt = column.map(lambda cell: float(self.format.spelt(cell)), na_action="ignore")
                frame[name] = spelt.astype("float64")
        return frame

    def _private(self, numeric: Sequence[bool]) -> list[npt.NDArray[Any]]:
        """Return the columns of a private table, some rows at a time; ``numeric``: which columns hold numbers."""
        made: list[list[npt.NDArray[Any]]] = [[] for _ in numeric]
        seen = _Seen.fromkeys(MISSING)
        for start in range(0, len(self.records), _BLOCK):
            rows = [_split(record, self.format.sep) for record in self.records[start : start + _BLOCK]]
            seen = _Seen.fromkeys(MISSING) if len(seen) > _MOST_SEEN else seen
            for blocks, numbers, cells in zip(made, numeric, zip(*rows, strict=True), strict=True):
                blocks.append(self._numbers(cells) if numbers else _objects(map(seen.__getitem__, cells), cells))
        return [np.concatenate(blocks or [np.zeros(0, dtype=object)]) for blocks in made]

    def _numbers(self, cells: Sequence[str]) -> npt.NDArray[Any]:
        """Return private cells of numbers: float64 where all are finite; else as they are written, None where missing.

        A cell whose marks leave open what number it is comes in quotes, so that it is not taken for one.
        """
        if self.format.decimal == "," or self.format.thousands:
            cells = list(map(self.format.spelt, cells))
        with suppress(ValueError):
            values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
            if np.isfinite(values).all() and "_" not in "".join(cells):
                return values  # what as_number gives for each of them
        return _objects((None if cell.strip() in _MISSING else cell for cell in cells), cells)


class _Seen(dict[str, str | None]):
    """One copy of each text."""

    def __missing__(self, cell: str) -> str:
        found = self[cell] = unguarded_cell(cell)
        return found


def _objects(made: Iterable[str | None], cells: Sequence[str]) -> npt.NDArray[np.object_]:
    return np.fromiter(made, dtype=object, count=len(cells))


def open_csv(
    path: Path, wanted: Wanted, *, like: TableFormat | None = None, names: Sequence[str] | None = None
) -> CsvTable:
    """Decode a table, and find its separator and the names of its columns.

    ``like`` is how the public table beside a private one was read; ``names`` are public names of columns, by which a
    header with several separators is read; None: the file is public, and its rows say.

    **Guarantees.** Of a private file only the first bytes (a byte order mark) and the header line, both public, say how
    it is written; else it is as the public one. Which its records are says :mod:`pate.data._files._csv`.
    """
    with _readable(path):
        data = gunzip(path.read_bytes()) if path.name.lower().endswith(".gz") else path.read_bytes()
    decimal = wanted.decimal or (like.decimal if like is not None else "")
    if decimal not in ("", ".", ","):
        raise InvalidInputError(f"decimal (--decimal) must be '.' or ',', got {decimal!r}.")
    thousands = wanted.thousands or (like.thousands if like is not None else "")
    if thousands:
        check_choice("thousands (--thousands)", thousands, THOUSANDS)
        decimal = decimal or ("," if thousands == "." else "." if thousands == "," else "")
        if thousands == decimal:
            raise InvalidInputError(
                f"thousands (--thousands) must be another mark than decimal (--decimal), got {thousands!r} for both."
            )
    with _cells_of_any_length():
        if names is not None:
            return _open_private(path, data, wanted, like, names, decimal=decimal or ".", thousands=thousands)
        text, encoding = _decoded(data, path, wanted)
        _check_text(text, path)
        said = _SAID_SEP.match(text)  # Excel's own first line
        text = text[said.end() :] if said else text
        _check_header(text, path)
        sep = said[1] if said and wanted.sep is None else _separator(text, path, wanted, like, names)
        header, zeros = _check_cells(path, text, sep)
        text = _rewritten(text, sep) if _RETURN.search(text) else text
        decimal = decimal or ("," if sep != "," and _has_commas(text, sep) else ".")
        found = _groups_in(text, sep, decimal, (thousands,) if thousands else THOUSANDS)
    named = _named(header)
    known = TableFormat("CSV", sep=sep, encoding=encoding, decimal=decimal, thousands=thousands)
    groups = {named[i]: mark for i, mark in found.items()}
    return CsvTable(path, named, known, text, frozenset(named[i] for i in zeros), groups)


def _open_private(
    path: Path,
    data: bytes,
    wanted: Wanted,
    like: TableFormat | None,
    names: Sequence[str],
    *,
    decimal: str,
    thousands: str,
) -> CsvTable:
    """Return a private table: its header says how it is written, every line is a record of its own."""
    data, encoding = _private_encoding(data, path, wanted, like)
    end, lines = lines_of(data, encoding)
    if not lines:
        lines = [""]
    if isinstance(lines[0], Odd):
        raise _not_of(encoding, path)
    said = _SAID_SEP.fullmatch(f"{lines[0].strip()}\n")
    if said and len(lines) > 1:
        lines = lines[1:]
    head = lines[0]
    _check_text(head, path)
    _check_header(head, path)
    sep = said[1] if said and wanted.sep is None else _separator(head, path, wanted, like, names)
    header, n_lines = header_of(lines, sep, end)
    records = records_of(path, lines[n_lines:], sep, len(header), end=end)
    known = TableFormat(
        "CSV", sep=sep, encoding=encoding.removesuffix("-le").removesuffix("-be"), decimal=decimal, thousands=thousands
    )
    return CsvTable(path, _named(header), known, records=records)


# The header of a private text table, and not one byte more.

#: No header line is longer, in bytes.
_LONGEST_HEADER = 2**20


def read_header(
    path: str | os.PathLike[str], *, sep: str | None = None, encoding: str | None = None
) -> tuple[str, ...]:
    """Return the names of a private text table's columns from its header line; no record is read.

    Raises
    ------
    InvalidInputError
        No such file, or none of text; a header of several lines; a column that is named twice.
    """
    path, wanted = Path(path), Wanted(sep=sep, encoding=encoding)
    if not path.name.lower().endswith(TEXT_SUFFIXES):
        raise InvalidInputError(
            f"private must end in {', '.join(TEXT_SUFFIXES)}, got {path.name!r}: of other files no header is read "
            "without the records. Save the names of the columns, by commas, as a .csv file, and name that."
        )
    if not path.exists() or path.is_dir():
        raise InvalidInputError(f"there is no file {path}. Check the name and the folder.")
    with _readable(path), path.open("rb", buffering=0) as stream, _cells_of_any_length():
        letters = _one_by_one(stream, packed=path.name.lower().endswith(".gz"))
        start = next(letters, b"")
        while any(mark != start and mark.startswith(start) for mark, _ in _BOMS) and (more := next(letters, b"")):
            start += more
        start, name = _private_encoding(start, path, wanted, None)
        name = f"{name}-le" if name in ("utf-16", "utf-32") else name
        head = _line(start, letters, name, path)
        said = _SAID_SEP.fullmatch(f"{head.strip()}\n")
        if said:  # Excel's own first line; a \r may have ended it, and a \n be left
            head = _line(b"", letters, name, path) or _line(b"", letters, name, path)
        _check_text(head, path)
        _check_header(head, path)
        mark = said[1] if said and sep is None else _separator(head, path, wanted, None, None)
        found, _ = header_of([head], mark, "\n")
    if not found:
        raise InvalidInputError(
            f"{path}: its header is not one line of names, or has a quote too many. Write the names of its columns "
            "into its first line: nothing else is read."
        )
    names = _named(found)
    if any(_POINT_NUMBER.fullmatch(one) and one not in (str(j), str(j + 1)) for j, one in enumerate(names)):
        raise InvalidInputError(
            f"{path}: its first line has numbers among its cells, as a record has. Write the names of the columns "
            "above it: the first line is taken for public."
        )
    twice = [one for one in dict.fromkeys(names) if names.count(one) > 1]
    if twice:
        raise InvalidInputError(f"{path}: its header has the column {twice[0]!r} twice. Rename one.")
    return names


def _line(start: bytes, letters: Iterator[bytes], encoding: str, path: Path) -> str:
    r"""Return the text up to the end of a line, which a \r or \n is."""
    width = _WIDE.get(encoding, 1)
    ends = ("\n".encode(encoding), "\r".encode(encoding))
    data = bytearray(start)
    while len(data) % width or bytes(data[-width:]) not in ends:
        byte = next(letters, None)
        if byte is None:
            break
        data += byte
        if len(data) > _LONGEST_HEADER:
            raise InvalidInputError(
                f"{path}: its first megabyte has no end of a line. Name a table with a header line."
            )
    try:
        return data.decode(encoding).rstrip("\r\n")
    except UnicodeError:
        raise _not_of(encoding, path) from None


def _one_by_one(stream: IO[bytes], *, packed: bool) -> Iterator[bytes]:
    """Yield a file's bytes, unpacked one at a time where it is a gzip file."""
    unpack = zlib.decompressobj(wbits=31) if packed else None
    while byte := stream.read(1):
        if unpack is None:
            yield byte
            continue
        part = unpack.decompress(byte, 1)
        while part:
            yield part
            part = unpack.decompress(unpack.unconsumed_tail, 1)


def _named(header: list[str]) -> tuple[str, ...]:
    """Return the columns' names; a missing one is what pandas would call it, so that drop= can take it out."""
    return tuple(canonical(unguarded_cell(canonical(name))) or f"Unnamed: {i}" for i, name in enumerate(header))


def _check_text(text: str, path: Path) -> None:
    if _BINARY.search(text):
        raise InvalidInputError(
            f"{path} is not text: it has control characters in it, as binary files have. Name a table, or name its "
            "encoding: encoding= (--encoding), such as utf-16."
        )


def _check_header(text: str, path: Path) -> None:
    if not text.strip():
        raise InvalidInputError(f"{path} is empty: there is no header line. Write the table again.")


def _rewritten(text: str, sep: str) -> str:
    r"""Return the same cells, all quoted: pandas and csv split some lines with \r differently."""
    made = io.StringIO(newline="")
    writer = csv.writer(made, delimiter=sep, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(row for row in _reader(text, sep) if row)
    return made.getvalue()


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Let no long text in one cell refuse a file: csv has one global limit."""
    limit = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _reader(text: str, sep: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True, strict=True)


def _readable(path: Path, *more: type[Exception]) -> AbstractContextManager[None]:
    remedy = (
        "It may be truncated, not text with a header line and commas (or semicolons, tabs, pipes), or have a quote too "
        "many."
    )
    return readable(path, "CSV table", remedy, (OSError, EOFError, ValueError, zlib.error, csv.Error, *more))


def _decoded(data: bytes, path: Path, wanted: Wanted) -> tuple[str, str]:
    """Return the text of a public file, and the name of its encoding."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            return _strictly(data[len(mark) :] if name == "utf-8" else data, name, path), name
    said = None if wanted.encoding is None else _known(wanted.encoding)
    if said is not None and not wanted.recognise:
        return _strictly(data, said, path), said
    plain = "utf-8" if b"\0" not in data and _is(data, "utf-8") else None
    name = plain or said or ("utf-8" if b"\0" in data else "cp1252")
    return _strictly(data, name, path), name


def own_encoding(path: str | os.PathLike[str], known: str | None) -> str | None:
    """Return the encoding of a text table that protects nobody, by all of its bytes; None of other files.

    UTF-8, unless most of its letters beyond ASCII are none there: then ``known``, else cp1252.
    """
    place = Path(path)
    if not place.name.lower().endswith(TEXT_SUFFIXES) or not place.is_file():
        return None
    with _readable(place):
        data = gunzip(place.read_bytes()) if place.name.lower().endswith(".gz") else place.read_bytes()
    if any(data.startswith(mark) for mark, _ in _BOMS):
        return None
    text = data.decode("utf-8", errors="replace")
    lost = text.count(_NO_LETTER)
    beyond = len(text) - len(text.encode("ascii", errors="ignore"))
    if b"\0" not in data and 2 * lost <= beyond:
        return "utf-8"
    return known or ("utf-8" if b"\0" in data else "cp1252")


def _private_encoding(data: bytes, path: Path, wanted: Wanted, like: TableFormat | None) -> tuple[bytes, str]:
    """Return a private file without its byte order mark, and its encoding: by that mark, the user, the public file."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            order = "" if name == "utf-8" else "-le" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF32_LE) else "-be"
            return data[len(mark) :], name + order
    said = None if wanted.encoding is None else _known(wanted.encoding)
    if said is not None and not wanted.recognise:
        return data, "utf-8" if said == "utf-8-sig" else said
    name = like.encoding if like is not None and like.encoding else "utf-8"
    # With a mark of its own, what the public file starts with says nothing about this one.
    name = "utf-8" if name in ("utf-16", "utf-32") else name
    if name != "utf-8" and not data.isascii() and _is(data, "utf-8"):
        tell_curator(
            f"{path.name} is read as {name}, as the public file is, and looks like UTF-8: if it is, say "
            "encoding='utf-8' (--encoding utf-8). (This is private: do not publish it.)",
        )
    return data, name


def _known(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        " ".encode(name)  # it knows some that are no letters, too
    except (LookupError, ValueError, TypeError):
        raise InvalidInputError(
            "encoding (--encoding) must be one that Python knows, such as utf-8, cp1252, latin-1 or utf-16, got "
            f"{encoding[:40]!a}."
        ) from None
    return name


def _is(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _strictly(data: bytes, encoding: str, path: Path) -> str:
    try:
        return data.decode(encoding)
    except UnicodeError:
        raise _not_of(encoding, path) from None


def _not_of(encoding: str, path: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{path} is not {encoding} text. Name its encoding: encoding= (--encoding), such as cp1252 "
        "(Windows, western Europe), latin-1 or utf-16; or save it as UTF-8."
    )


def _separator(text: str, path: Path, wanted: Wanted, like: TableFormat | None, names: Sequence[str] | None) -> str:
    said = None
    if wanted.sep is not None:
        said = SEPARATOR_NAMES.get(wanted.sep.strip().lower() or wanted.sep, wanted.sep)
        if len(said) != 1 or said in '"\r\n ':
            raise InvalidInputError(
                f"sep (--sep) must be one character, or comma, semicolon, tab or pipe, got {wanted.sep[:20]!a}."
            )
        if not wanted.recognise:
            return said
    head = re.split(r"[\r\n]", text, maxsplit=1)[0]
    found = {sep: cells for sep in _SAID_AS if len(cells := _cells(head, sep)) > 1}
    if len(found) < 2:
        return next(iter(found), said or ",")
    if names is not None:  # private: its header is public, its rows are not
        fit = [sep for sep, cells in found.items() if set(names) <= set(cells)]
        if len(fit) > 1 and like is not None and like.sep in fit:
            fit = [like.sep]
    else:
        fit = [sep for sep, cells in found.items() if _all_have(text, sep, len(cells))]
        most = max((len(found[sep]) for sep in fit), default=0)
        fit = [sep for sep in fit if len(found[sep]) == most]
    if said in found:
        return str(said)
    if len(fit) == 1:
        return fit[0]
    raise InvalidInputError(
        f"{path}: its header line has {' and '.join(map(repr, found))} in it, and each may separate its cells. Say "
        "which: sep= (--sep)."
    )


def _cells(line: str, sep: str) -> list[str]:
    try:
        cells = next(csv.reader([line], delimiter=sep, skipinitialspace=True), [])
        return [canonical(unguarded_cell(canonical(cell))) for cell in cells]
    except csv.Error:
        return []


def _all_have(text: str, sep: str, n: int) -> bool:
    try:
        return all(len(row) == n for row in _reader(text, sep) if row)
    except csv.Error:
        return False


def _exact(pandas: str) -> dict[str, Any]:
    """Return what makes a version of pandas read numbers to the last bit, as Python does: from 3.1 on, nothing."""
    return {} if tuple(map(int, pandas.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


def _check_cells(path: Path, text: str, sep: str) -> tuple[list[str], set[int]]:
    """Return a public file's header, and columns with leading zeros; refuse rows of another length."""
    zeros: set[int] = set()
    mark = re.escape(sep)
    coded = re.search(rf'(?:^|[\n"]|{mark}) *0[0-9]+ *(?:$|[\r\n"]|{mark})', text)
    with _readable(path):
        reader = _reader(text, sep)
        header: list[str] = next(reader, [])
        for row in reader:
            if row and len(row) != len(header):
                raise InvalidInputError(
                    f"{path}, line {reader.line_num}: {len(row)} cells where the header has {len(header)}. The file "
                    f"may be truncated, or a cell with {sep!r} in it lacks its quotes; if another character "
                    "separates its cells, say sep= (--sep)."
                )
            if coded:
                zeros.update(i for i, cell in enumerate(row) if cell[:1] in ("0", " ") and _CODE.fullmatch(cell))
    return header, zeros


_COMMA_NUMBER = re.compile(r"\s*[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?\s*")
_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*")
_POINT_NUMBER = re.compile(r"[+-]?[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?", re.IGNORECASE)


def comma_numbers(column: pd.Series) -> bool:
    """Whether a public column of texts holds numbers with decimal commas, and whole ones, alone."""
    cells = [cell for cell in column.tolist() if isinstance(cell, str)]
    if not any(_COMMA_NUMBER.fullmatch(cell) for cell in cells):
        return False
    return all(_COMMA_NUMBER.fullmatch(cell) or _WHOLE_NUMBER.fullmatch(cell) for cell in cells)


def _columns_of(text: str, sep: str) -> Iterator[list[str]]:
    """Yield the cells of each column of a public file that are not missing."""
    for column in zip_longest(*islice(filter(None, _reader(text, sep)), 1, None), fillvalue=""):
        yield [cell.strip() for cell in column if cell.strip() not in MISSING]


def _groups_in(text: str, sep: str, decimal: str, marks: Iterable[str]) -> dict[int, str]:
    """Return the columns of a public file that hold numbers alone, some with a mark between thousands, and the marks.

    One that would else be the decimal mark stands twice in some number, or beside the other one.
    """
    able: list[str] = []
    for mark in marks:
        group, more = (
            rf"{MARKS[mark][1]}[0-9]{{3}}",
            r"(?:[.,'\u2019 \u00a0\u202f][0-9])" if mark == decimal else "(?![0-9])",
        )
        some = rf"(?<![0-9])[1-9][0-9]{{0,2}}{group}{more}"
        if re.search(rf'"[^"\n]*?{some}' if mark == sep else some, text):
            able.append(mark)
    found: dict[int, str] = {}
    for i, cells in enumerate(_columns_of(text, sep)) if able else ():
        for mark in able:
            grouped, point = _grouped(mark, decimal), _point_beside(mark, decimal)
            plain = re.compile(rf"[+-]?[0-9]*{re.escape(point)}?[0-9]+")
            with_mark = [cell for cell in cells if grouped.fullmatch(cell)]
            clear = mark != decimal or any(cell.count(mark) > 1 or point in cell for cell in with_mark)
            if with_mark and clear and all(map(plain.fullmatch, set(cells).difference(with_mark))):
                found[i] = mark
    return found


def _has_commas(text: str, sep: str) -> bool:
    r"""Whether some column of a public file holds decimal commas alone, not thousands' ones, and none points."""
    commas, points = False, _grouped(".", ",")
    for cells in _columns_of(text, sep):
        decimals = [cell for cell in cells if "." in cell]
        if (
            decimals
            and all(_POINT_NUMBER.fullmatch(cell) for cell in cells)
            and not all(map(points.fullmatch, decimals))
        ):
            return False
        if any("," in cell and ("." in cell or len(cell.rpartition(",")[2]) != 3) for cell in cells):
            kinds = (_COMMA_NUMBER, _WHOLE_NUMBER, points)
            commas |= all(any(kind.fullmatch(cell) for kind in kinds) for cell in cells)
    return commas
