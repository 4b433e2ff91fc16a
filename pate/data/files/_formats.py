"""How a table is written: what its file is, and what parts its cells; said once, recognised once."""

from __future__ import annotations

import gzip
import io
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Self

# How much a file may unpack to: a few kilobytes can be made that fill any memory.

#: Bytes a file may unpack to, however small it is.
FREE_BYTES = 512 * 2**20
#: Times its own size that a larger one may unpack to.
MOST_TIMES = 200


class TooLargeError(ValueError):
    """A file unpacks, or says that it unpacks, to more than it may."""


def check_unpacked(n_bytes: int, packed: int) -> None:
    """Refuse ``n_bytes`` that a file of ``packed`` bytes unpacks to, if they are too many."""
    if n_bytes > max(FREE_BYTES, MOST_TIMES * packed):
        raise TooLargeError(f"{packed} bytes that unpack to {n_bytes} or more")


def gunzip(data: bytes) -> bytes:
    """Return the unpacked bytes of a gzip file, never more than it may have."""
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        while part := stream.read(1 << 20):
            size += len(part)
            check_unpacked(size, len(data))
            parts.append(part)
    return b"".join(parts)


_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
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
        What stands between the cells of a CSV file.
    encoding : str
        How its letters are written; of a CSV file.
    decimal : str
        ``"."`` or ``","``; of a CSV file.
    part : str
        The sheet, the table, or how many files.
    """

    kind: str
    sep: str = ""
    encoding: str = ""
    decimal: str = ""
    part: str = ""

    def __str__(self) -> str:
        words = [
            self.kind,
            _SEPARATORS.get(self.sep, f"{self.sep!r} between cells" if self.sep else ""),
            self.encoding,
            "decimal commas" if self.decimal == "," else "",
            self.part,
        ]
        return ", ".join(word for word in words if word)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person said of how a table is written; None: it is recognised.

    ``recognise``: of a public file beside a private one, of which these were said, only what cannot be recognised is
    taken from here.
    """

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    recognise: bool = False

    def said(self) -> list[str]:
        """Return the names of what was said."""
        return [name for name in ("sep", "encoding", "decimal", "sheet") if getattr(self, name) is not None]

    def without(self, names: Collection[str]) -> Self:
        """Return the same with these left open."""
        left: dict[str, Any] = dict.fromkeys(names)
        return replace(self, **left)
