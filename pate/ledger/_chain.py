"""The hash chain: what is hashed, byte for byte, so that any other program can check it too.

An entry's digest is SHA-256 over the canonical JSON (sorted keys, no spaces, ASCII) of its columns, among them the
digest of the entry before and the digest of its answers. That one is SHA-256 over one line of JSON per answer,
``["query","family",label,noisy]`` and a line feed, in order; ``noisy`` is null or the hexadecimal digits of the noisy
counts as little-endian IEEE doubles.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate._core.files import write_text
from pate._core.secret import unreplayed_bytes
from pate.exceptions import InvalidInputError, LedgerError

# The secret key of a ledger's fingerprints: beside the ledger, never in it.


def key_path(ledger: Path) -> Path:
    """Return where the key of a ledger lies: beside the file itself, by whatever link that is named."""
    return Path(f"{os.path.realpath(ledger)}.key")


def read_key(ledger: Path, *, make: bool) -> bytes | None:
    """Return the key; where there is none, None or a new one, made at random and readable by its owner only.

    Make it while holding the ledger's write lock, after the ledger's first entry was committed: then a key without a
    ledger shows that a ledger was lost.
    """
    path = key_path(ledger)
    try:
        if not path.exists():
            if not make:
                return None
            write_text(path, unreplayed_bytes(32).hex() + "\n", mode=0o600)
            _sync_folder(path.parent)
        if path.stat().st_size > 1024:
            raise ValueError("it is too long")
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
        if len(key) != 32:
            raise ValueError("it does not hold 64 hexadecimal digits")
    except OSError as error:
        raise LedgerError(
            f"the key file {str(path)!r} of the ledger cannot be read or written: {error.strerror or error}. "
            "Nothing was charged; check its permissions and the disk."
        ) from error
    except ValueError as error:
        raise LedgerError(
            f"the key file {str(path)!r} of the ledger is damaged. Nothing was charged. Restore it from a backup, or "
            "delete it and call Ledger.revise: then a new key is made and the data set is registered again."
        ) from error
    return key


def mac(key: bytes, purpose: str, text: str) -> str:
    """Return HMAC-SHA256 of a text for one purpose, 64 hexadecimal digits."""
    return hmac.new(key, f"pate ledger {purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


#: What stands before the first entry.
START = "0" * 64

_HEX = re.compile(r"[0-9a-f]{64}")

#: (query, family, label, noisy counts or None)
NewAnswer = tuple[str, str, int, Sequence[float] | None]


def canonical(value: Any) -> str:
    r"""Return the one JSON text of a value; NaN and infinity are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


@dataclass(frozen=True)
class Entry:
    """One entry of the chain, as the file holds it."""

    seq: int
    kind: str
    release: int | None
    created: str
    request: str | None
    price: float | None
    failure: float | None
    n_answers: int
    answers: str
    body: str
    previous: str

    @property
    def digest(self) -> str:
        """SHA-256 of the entry and, through ``previous`` and ``answers``, of all before it and of its answers."""
        return hashlib.sha256(canonical(self.__dict__).encode("ascii")).hexdigest()


#: The columns of the table, in the order of :class:`Entry`, then the digest.
COLUMNS = "seq, kind, release, created, request, price, failure, n_answers, answers, body, previous, digest"


class AnswerHasher:
    r"""Hashes answers as they pass, so that a million of them need no memory."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self._families: dict[str, str] = {}
        self.n = 0

    def add(self, query: str, family: str, label: int, noisy: bytes | None) -> None:
        """Take one more answer."""
        quoted = self._families.get(family)
        if quoted is None:
            quoted = self._families[family] = canonical(family)
        # Digests and the like need no escaping.
        name = f'"{query}"' if query.isascii() and query.isalnum() else canonical(query)
        counts = "null" if noisy is None else f'"{noisy.hex()}"'
        self._sha.update(f"[{name},{quoted},{label},{counts}]\n".encode("ascii"))
        self.n += 1

    @property
    def digest(self) -> str:
        """The digest of the answers so far."""
        return self._sha.hexdigest()


def pack_query(query: str) -> str | bytes:
    """Return a query's key as it is stored: the 32 bytes of a SHA-256 digest, or the text itself."""
    return bytes.fromhex(query) if _HEX.fullmatch(query) else query


def unpack_query(stored: str | bytes) -> str:
    """Undo :func:`pack_query`."""
    return stored.hex() if isinstance(stored, bytes) else stored


def pack_counts(noisy: Sequence[float] | None) -> bytes | None:
    """Return noisy counts as little-endian doubles."""
    return None if noisy is None else np.asarray(noisy, dtype="<f8").tobytes()


def unpack_counts(stored: bytes | None) -> tuple[float, ...] | None:
    """Undo :func:`pack_counts`."""
    return None if stored is None else tuple(np.frombuffer(stored, dtype="<f8").tolist())


def rows_to_store(answers: Iterable[NewAnswer], entry: int, hasher: AnswerHasher) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the answers' table, hashing each on its way."""
    for position, (query, family, label, noisy) in enumerate(answers):
        if not isinstance(query, str) or not isinstance(family, str):
            raise InvalidInputError(
                f"answers must be (query, family, label, noisy counts or None), got {type(query).__name__} and "
                f"{type(family).__name__} where text is expected."
            )
        label, counts = int(label), pack_counts(noisy)
        hasher.add(query, family, label, counts)
        yield entry, position, pack_query(query), family, label, counts
