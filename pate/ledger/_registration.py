"""Whether the private data set of a release is the one the ledger is for."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from pate.exceptions import LedgerError
from pate.ledger._chain import canonical
from pate.ledger._entries import read_registration
from pate.ledger._key import mac, read_key
from pate.ledger._rows import Registration

#: The keys of a registration that are made with the secret key.
SENSITIVE_KEYS = ("fingerprint", "unordered", "key_check")
#: What to do when the records did change.
_REVISE = (
    " If these are the same people's records, corrected or added to, say so first: Ledger.revise(reason). Folds of a "
    "cross-validation are other data sets: pate.private_select chooses settings on all records."
)


def macs(key: bytes, fingerprint: str) -> dict[str, Any]:
    """Return what a ledger keeps of a fingerprint: of the records in their order and, where it is known, in none.

    Examples
    --------
    >>> a, b = macs(b"key", "01:ab"), macs(b"key", "23:ab")
    >>> a["fingerprint"] == b["fingerprint"], a["unordered"] == b["unordered"], macs(b"key", "01")["unordered"]
    (False, True, None)
    """
    ordered, _, unordered = fingerprint.partition(":")
    return {
        "fingerprint": mac(key, "fingerprint", ordered),
        "unordered": mac(key, "unordered", unordered) if unordered else None,
    }


def merge(
    connection: sqlite3.Connection, path: Path, registration: Registration, *, make_key: bool
) -> dict[str, Any] | None:
    """Return what to register, or None when that is known already; refuse another data set.

    Raises
    ------
    LedgerError
        The ledger is for another data set, unit or list of classes.
    """
    held = read_registration(connection, path)
    known = {} if held is None else held
    new: dict[str, Any] = registration.to_dict()
    for name, value in new.items():
        # A later release may cut the data anew: the shards are a description, not a condition.
        if known.get(name) is None or name == "n_shards":
            continue
        if value is not None and canonical(known[name]) != canonical(value):
            raise LedgerError(
                f"the ledger {str(path)!r} is for {name}={known[name]!r}, not {value!r}. One ledger belongs "
                "to one private data set, one unit and one list of classes in one order."
                + (_REVISE if name == "n_units" else "")
            )
    new |= dict.fromkeys(SENSITIVE_KEYS)
    if make_key or (registration.fingerprint is not None and known.get("fingerprint") is not None):
        # Never a second key: the first one may be lost, and what was made with it would be told apart no more.
        key = read_key(path, make=make_key and known.get("key_check") is None)
        new["key_check"] = "" if key is None else mac(key, "key", "")[:16]
        if registration.fingerprint is not None:
            new |= dict.fromkeys(SENSITIVE_KEYS[:2], "") if key is None else macs(key, registration.fingerprint)
    if known.get("key_check") is not None and new["fingerprint"] is not None:
        if known["key_check"] != new["key_check"]:
            raise LedgerError(
                f"the key file beside the ledger {str(path)!r} is missing, or not the one of its "
                "registration: the private records cannot be recognised. Nothing was charged. Restore the key file."
                + _REVISE
            )
        if known.get("fingerprint") not in (None, new["fingerprint"]):
            raise LedgerError(
                f"the ledger {str(path)!r} is for other private records than these. Nothing was charged. One "
                f"ledger belongs to one private data set: name another file for another one.{_REVISE}"
            )
    # What is known stays; in particular no fingerprint means "not at hand", never "none any more".
    merged = {name: known[name] if known.get(name) is not None else value for name, value in new.items()}
    return None if canonical(merged) == canonical(known) else merged
