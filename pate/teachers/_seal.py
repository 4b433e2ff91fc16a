"""The seal that every stored teacher carries, and the error of a file that cannot be trusted."""

from __future__ import annotations

import hashlib
import hmac

from pate.exceptions import PateError

#: Length of a seal in bytes.
SEAL_BYTES = 32


class DamagedCheckpointError(PateError, ValueError):
    """A stored teacher is truncated, altered, or of types that are not trusted.

    Examples
    --------
    >>> issubclass(DamagedCheckpointError, ValueError)
    True
    """


#: Under the name by which it is caught.
DamagedCheckpointError.__module__ = "pate.teachers.checkpoints"


def new_seal(key: bytes) -> hmac.HMAC:
    """Return an HMAC-SHA256, still to be fed, whose secret is derived from a teacher's private recipe.

    Examples
    --------
    >>> len(new_seal(b"key").digest()) == SEAL_BYTES
    True
    """
    secret = hashlib.sha256(b"pate checkpoint seal\0" + key).digest()
    return hmac.new(secret, digestmod=hashlib.sha256)
