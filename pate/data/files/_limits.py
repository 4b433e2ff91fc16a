"""How much a file may unpack to: a few kilobytes can be made that fill any memory.

A file may always unpack to ``FREE_BYTES``, and beyond that to ``MOST_TIMES`` its own size. Tables of numbers and text
shrink to a tenth or a hundredth; only a file made to do harm, or one that says nothing, shrinks to a thousandth.
"""

from __future__ import annotations

import gzip
import io

#: Bytes a file may unpack to, however small it is.
FREE_BYTES = 512 * 2**20
#: Times its own size that a larger one may unpack to.
MOST_TIMES = 200


class TooLargeError(ValueError):
    """A file unpacks, or says that it unpacks, to more than it may."""


def check_unpacked(n_bytes: int, packed: int) -> None:
    """Refuse ``n_bytes`` that a file of ``packed`` bytes unpacks to, if they are too many.

    Raises
    ------
    TooLargeError
    """
    if n_bytes > max(FREE_BYTES, MOST_TIMES * packed):
        raise TooLargeError(f"{packed} bytes that unpack to {n_bytes} or more")


def gunzip(data: bytes) -> bytes:
    """Return the unpacked bytes of a gzip file, never more than it may have.

    Raises
    ------
    TooLargeError
    OSError, EOFError, zlib.error
        It is no gzip file, or is damaged.
    """
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        while part := stream.read(1 << 20):
            size += len(part)
            check_unpacked(size, len(data))
            parts.append(part)
    return b"".join(parts)
