"""The secret key of a ledger's fingerprints: beside the ledger, never in it."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from pate.core.files import write_text
from pate.core.seeds import unreplayed_bytes
from pate.exceptions import LedgerError


def key_path(ledger: Path) -> Path:
    """Return where the key of a ledger lies."""
    return ledger.with_name(ledger.name + ".key")


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
            "delete it and call Ledger.revise: then a new key is made and the data set is registered anew."
        ) from error
    return key


def mac(key: bytes, purpose: str, text: str) -> str:
    """Return HMAC-SHA256 of a text for one purpose, 64 hexadecimal digits."""
    return hmac.new(key, f"pate ledger {purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where folders can be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
