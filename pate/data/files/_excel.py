"""Tables from Excel workbooks: one sheet, its first line the header, every cell as it is."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pate.core.extras import need
from pate.data.files._csv import MISSING
from pate.data.files._limits import check_unpacked
from pate.data.files._npz import reason
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

#: What a formula that failed shows.
_FAILED = ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")
_KNOWN_MISSING = frozenset((*MISSING, *_FAILED))


def read_excel(path: Path, sheet: str | None) -> tuple[pd.DataFrame, str]:
    """Return a sheet's cells as objects, and the sheet's name.

    Parameters
    ----------
    path : Path
        ``.xlsx`` or ``.xlsm``.
    sheet : str or None
        Of several sheets this one. A workbook of one sheet needs no name.

    Raises
    ------
    InvalidInputError
        The workbook is damaged; there are several sheets, and none of that name.
    MissingExtraError
        openpyxl is not installed.
    """
    need("openpyxl", extra="excel", why="An Excel workbook")
    import openpyxl
    import pandas as pd

    try:
        with zipfile.ZipFile(path) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of drop-down lists and the like, which are no cells
            check_unpacked(sum(member.file_size for member in archive.infolist()), path.stat().st_size)
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        names = [page.title for page in book.worksheets]
    except Exception as error:  # whatever a damaged archive makes of any of its parts
        raise _unreadable(path, error) from None
    try:
        chosen = _chosen(path, names, sheet)
        page = book[chosen]
        page.reset_dimensions()  # some programs write them wrongly
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a date that is none openpyxl quotes the cell
                lines = [tuple(line) for line in page.iter_rows(values_only=True)]
        except Exception as error:
            raise _unreadable(path, error) from None
    finally:
        book.close()
    header = list(lines[0]) if lines else []
    while header and header[-1] is None:
        header.pop()
    width, body = len(header), lines[1:]
    while body and all(cell is None for cell in body[-1][:width]):  # formatted, and never filled
        body.pop()
    cells = [_width(line, width) for line in body]
    names = [f"Unnamed: {i}" if name is None else str(name).strip() for i, name in enumerate(header)]
    columns = [pd.Series([line[i] for line in cells], dtype=object) for i in range(width)]
    frame = pd.DataFrame(dict(enumerate(columns)), dtype=object)
    frame.columns = pd.Index(names)
    return frame, chosen


def _width(line: tuple[Any, ...], width: int) -> list[Any]:
    cells = [None if isinstance(c, str) and c.strip() in _KNOWN_MISSING else c for c in line[:width]]
    return [*cells, *[None] * (width - len(cells))]


def _chosen(path: Path, names: list[str], sheet: str | None) -> str:
    if not names:
        raise InvalidInputError(f"{path.name} has no sheet of cells. Save the table in one.")
    if len(names) == 1:
        return names[0]
    if sheet in names:
        return str(sheet)
    wrong = "" if sheet is None else f" none of them {sheet[:40]!r};"
    raise InvalidInputError(
        f"{path.name} has the sheets {', '.join(map(repr, names))};{wrong} say which one holds the table: sheet= "
        "(--sheet)."
    )


def _unreadable(path: Path, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"{path} is not a readable Excel workbook ({reason(error)}). It may be truncated or protected by a password: "
        "save it again as .xlsx."
    )
