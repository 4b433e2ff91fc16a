"""The seal before every stored teacher, checked before anything is parsed; the error of a file that fails it."""

from __future__ import annotations

import hashlib
import hmac

from pate.exceptions import PateError

_SEAL_BYTES = 32


class DamagedCheckpointError(PateError, ValueError):
    """A stored teacher is truncated, altered, or of types that are not trusted."""


#: Under the name by which it is caught.
DamagedCheckpointError.__module__ = "pate.teachers.checkpoints"


def seal(data: bytes, key: bytes) -> bytes:
    """Return the HMAC-SHA256 of ``data``, 32 bytes; its secret is derived from a teacher's private recipe."""
    secret = hashlib.sha256(b"pate checkpoint seal\0" + key).digest()
    return hmac.digest(secret, data, hashlib.sha256)


def sealed(data: bytes, key: bytes) -> bytes:
    """Return ``data`` behind its seal."""
    return seal(data, key) + data


def opened(packed: bytes, key: bytes) -> bytes:
    """Return the bytes behind a seal that fits.

    Raises
    ------
    DamagedCheckpointError
    """
    found, data = packed[:_SEAL_BYTES], packed[_SEAL_BYTES:]
    if not hmac.compare_digest(found, seal(data, key)):
        raise DamagedCheckpointError("the seal does not fit")
    return data
