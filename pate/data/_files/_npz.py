"""Arrays from npy and npz files, and tables of them: read whole, once, never unpickled, and never larger than the file.

numpy allocates memory for any shape that a header names, so a file of a hundred bytes can ask for all memory there is.
Here a header is believed only where the bytes are there, and an archive only as far as :func:`check_unpacked` goes.
Names inside an archive are names of arrays, never paths.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from pate.exceptions import InvalidInputError, PateError

if TYPE_CHECKING:
    import pandas as pd

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


#: Whatever numpy, zipfile and zlib raise on broken bytes. RuntimeError: encrypted; RecursionError is one too.
BROKEN = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    MemoryError,
    RuntimeError,  # NotImplementedError among them
    SyntaxError,
    Warning,  # raised below: numpy reads odd headers all the same
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
#: Bytes that an array without elements may pretend to.
_SMALL = 1 << 20
#: Numbers, true/false, texts and times.
_KINDS = "biufcSUMm"
_CHUNK = 1 << 24
#: numpy.savez writes these two alone.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextmanager
def readable(path: object, what: str, remedy: str, errors: Any = BROKEN) -> Iterator[None]:
    """Refuse an unreadable file with an error text of this package: a library's may quote the file's contents."""
    try:
        yield
    except PateError:
        raise
    except errors as error:
        raise InvalidInputError(f"{path} is not a readable {what} ({reason(error)}). {remedy}".rstrip()) from None


def read_npz(path: str | os.PathLike[str], *, what: str, remedy: str) -> dict[str, npt.NDArray[Any]]:
    """Return every array of an archive, each decompressed once; ``what`` and ``remedy`` are the words of the error."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    with readable(path, what, remedy), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        check_unpacked(sum(member.file_size for member in members), os.path.getsize(path))
        for member in members:
            if member.compress_type not in _METHODS:
                raise ValueError("packed by another method than numpy's")
            with archive.open(member) as stream:
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise ValueError("a name stands twice")
                arrays[name] = _read_array(stream, member.file_size)
    return arrays


def read_npy(path: str | os.PathLike[str], *, what: str, remedy: str) -> npt.NDArray[Any]:
    """Return the array of an npy file; ``what`` and ``remedy`` are the words of the error."""
    with readable(path, what, remedy), open(path, "rb") as stream:
        return _read_array(stream, os.fstat(stream.fileno()).st_size)


def reason(error: BaseException) -> str:
    """Return what may be said of an error about a user's file: its kind; a library's text may quote the contents."""
    return str(error) if isinstance(error, TooLargeError) else type(error).__name__


def _read_array(stream: IO[bytes], size: int) -> npt.NDArray[Any]:
    """Read one array from ``stream``, which has ``size`` bytes; its header is checked against them first."""
    with warnings.catch_warnings():
        # A header of Python 2 would be evaluated a second time, and one of an old numpy's names be taken for another.
        warnings.simplefilter("error")
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise ValueError("a header of another version")
    parts = [dtype[name] for name in dtype.names] if dtype.names else [dtype]
    if any(part.kind not in _KINDS or part.itemsize < 1 for part in parts):
        raise ValueError("Python objects, or records in records")
    if any(n < 0 for n in shape):
        raise ValueError("a shape that no file holds")
    # Counted with its empty axes as well: an array of shape (0, 10**12) fills no byte, and naming its
    # columns would never end.
    if math.prod(n or 1 for n in shape) * dtype.itemsize > max(size, _SMALL):
        raise ValueError("fewer bytes than the shape says")
    count = math.prod(shape)
    if count * dtype.itemsize > size:
        raise ValueError("fewer bytes than the shape says")
    raw = np.empty(count * dtype.itemsize, dtype=np.uint8)
    for start in range(0, len(raw), _CHUNK):
        part = stream.read(min(_CHUNK, len(raw) - start))
        if len(part) != min(_CHUNK, len(raw) - start):
            raise EOFError("fewer bytes than the shape says")
        raw[start : start + len(part)] = np.frombuffer(part, dtype=np.uint8)
    # To the end, so that the archive's checksum is checked as well.
    if stream.read(1):
        raise ValueError("more bytes than the shape says")
    array = raw != 0 if dtype.kind == "b" else raw.view(dtype)
    for texts in [array[name] for name in dtype.names] if dtype.names else [array]:
        if texts.dtype.kind == "U":
            _check_characters(texts)
    return array.reshape(shape[::-1]).transpose() if fortran else array.reshape(shape)


def _check_characters(texts: npt.NDArray[Any]) -> None:
    """Refuse code points that Python has no character for, or cannot write."""
    points = np.ascontiguousarray(texts).view(np.dtype(np.uint32).newbyteorder(texts.dtype.byteorder))
    if ((points > 0x10FFFF) | ((points >= 0xD800) & (points <= 0xDFFF))).any():
        raise ValueError("characters that do not exist")


# Tables from arrays: npz and npy files to columns.

_REMEDY = "It may be truncated, or hold Python objects: save plain arrays."
#: A few bytes of an archive can hold an array of a row and a billion columns, each of which would get a name.
_MOST_COLUMNS = 100_000
#: Between two dates there are no more.
_MOST_DAYS, _MOST_MONTHS = 3_652_059, 119_988


def is_matrix(frame: pd.DataFrame) -> bool:
    """Return whether the columns come from an array ``X`` with ``y`` and ``groups`` beside it."""
    return bool(frame.attrs.get("matrix"))


def read_npy_table(path: Path) -> pd.DataFrame:
    """Return the columns of an npy file: x0, x1, ..., or the fields of a structured array."""
    import pandas as pd

    array = read_npy(path, what="npy array", remedy=_REMEDY)
    names = array.dtype.names
    if names and array.ndim == 1 and all(array.dtype[name].shape == () for name in names):
        return pd.DataFrame({name: _in_time(array[name]) for name in names})
    if array.ndim < 2 or array.dtype.kind not in "biufUS":
        raise InvalidInputError(
            f"{path} must hold numbers or text of shape (n, ...), or a structured array of shape (n,), got shape "
            f"{array.shape}. Save one row per record."
        )
    X = _flat(array, path)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def _flat(X: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    """Return rows of shape (n, n_features), if there are any and not too many features to name."""
    n_features = int(np.prod(X.shape[1:]))
    if not X.size or n_features > _MOST_COLUMNS:
        raise InvalidInputError(
            f"{path} holds X of shape {X.shape}. It needs a row and a feature at least, and at most {_MOST_COLUMNS} "
            "features: is the first axis that of the rows?"
        )
    return X.reshape(len(X), n_features)


def read_npz_table(path: Path) -> pd.DataFrame:
    """Return the columns of an npz file: those of ``X`` with ``y`` and ``groups``, or one array per column."""
    import pandas as pd

    arrays = read_npz(path, what="npz table", remedy=_REMEDY)
    if "X" in arrays and arrays["X"].ndim >= 2:
        X = _flat(arrays.pop("X"), path)
        names = [str(n) for n in arrays.pop("columns", [f"x{j}" for j in range(X.shape[1])])]
        odd = sorted(set(arrays) - {"y", "groups"})
        if odd or len(names) != X.shape[1] or any(a.shape != (len(X),) for a in arrays.values()):
            raise InvalidInputError(
                f"{path} must hold X of shape (n, ...), and may hold y and groups of shape (n,) and columns (one name "
                f"per feature); it holds X of {len(X)} rows and {X.shape[1]} features, {len(names)} names, and "
                f"{', '.join(f'{k} {a.shape}' for k, a in arrays.items()) or 'nothing else'}. Save those arrays alone."
            )
        frame = pd.concat([pd.DataFrame(X, columns=names), pd.DataFrame(arrays)], axis=1)
        frame.attrs["matrix"] = True
        return frame
    shapes = {a.shape for a in arrays.values()}
    if len(shapes) != 1 or any(len(s) != 1 for s in shapes):
        raise InvalidInputError(
            f"{path} must hold X of shape (n, n_features), or one array of shape (n,) per column; it holds "
            f"{', '.join(f'{k} {a.shape}' for k, a in arrays.items()) or 'nothing'}. Save the arrays by those names."
        )
    return pd.DataFrame({name: _in_time(array) for name, array in arrays.items()})


def _in_time(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of dates without those that Python has no date for: pandas would refuse all, and quote one."""
    unit = np.datetime_data(array.dtype)[0] if array.dtype.kind in "mM" else ""
    if unit not in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us"):
        return array
    first: Any = np.datetime64("0001-01-02")
    last: Any = np.datetime64("9999-12-30")
    if array.dtype.kind == "m":
        last = np.timedelta64(_MOST_MONTHS, "M") if unit in "YM" else np.timedelta64(_MOST_DAYS, "D")
        first = -last
    # Bounds in the array's own unit: to bring it to a finer one may take more than 64 bits.
    fine = (array >= first.astype(array.dtype)) & (array <= last.astype(array.dtype))
    return np.where(fine, array, np.array("NaT", dtype=array.dtype))
