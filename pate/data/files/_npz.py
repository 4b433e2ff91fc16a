"""Arrays from npy and npz files: read whole, once, never unpickled, and never larger than the file can hold.

numpy makes room for whatever shape a header names, so that a file of a hundred bytes can ask for all memory there is.
Here a header is believed only where the bytes are there, and an archive only as far as :mod:`._limits` goes.
Names inside an archive are names of arrays, never paths.
"""

from __future__ import annotations

import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from pate.data.files._formats import TooLargeError, check_unpacked
from pate.exceptions import InvalidInputError

#: Whatever numpy, zipfile and zlib raise on broken bytes. RuntimeError: encrypted; RecursionError is one too.
_BROKEN = (
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


def read_npz(path: str | os.PathLike[str], *, what: str, remedy: str) -> dict[str, npt.NDArray[Any]]:
    """Return every array of an archive, each decompressed once; ``what`` and ``remedy`` are the words of the error."""
    try:
        packed = os.path.getsize(path)
        arrays: dict[str, npt.NDArray[Any]] = {}
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_unpacked(sum(member.file_size for member in members), packed)
            for member in members:
                if member.compress_type not in _METHODS:
                    raise ValueError("packed by another method than numpy's")
                with archive.open(member) as stream:
                    name = member.filename.removesuffix(".npy")
                    if name in arrays:
                        raise ValueError("a name stands twice")
                    arrays[name] = _read_array(stream, member.file_size)
        return arrays
    except _BROKEN as error:
        raise InvalidInputError(f"{path} is not a readable {what} ({reason(error)}). {remedy}".rstrip()) from None


def read_npy(path: str | os.PathLike[str], *, what: str, remedy: str) -> npt.NDArray[Any]:
    """Return the array of an npy file; ``what`` and ``remedy`` are the words of the error."""
    try:
        with open(path, "rb") as stream:
            return _read_array(stream, os.fstat(stream.fileno()).st_size)
    except _BROKEN as error:
        raise InvalidInputError(f"{path} is not a readable {what} ({reason(error)}). {remedy}".rstrip()) from None


def reason(error: BaseException) -> str:
    """Return what may be said of an error about somebody's file: its kind; a library's text may quote the contents."""
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
    # Counted with its empty axes as well: an array of shape (0, 10**12) fills no byte, and whoever names its columns
    # would never end.
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
