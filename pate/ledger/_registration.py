"""Whether the private data set of a release is the one the ledger is for."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pate.core.secret import unreplayed_bytes
from pate.exceptions import LedgerError
from pate.ledger._chain import canonical, mac, read_key
from pate.ledger._entries import read_registration
from pate.ledger._rows import Registration

#: The keys of a registration that are made with the secret key.
SENSITIVE_KEYS = ("fingerprint", "unordered", "key_check", "sketch")
#: So many digests of rows, and of people, a ledger holds, whatever their number.
_SKETCH = 256
#: Fewer in common are coincidence.
_FEWEST = 10
#: What to do when the records did change.
_REVISE = (
    " If these are the same people's records, corrected or added to, say so first: Ledger.revise(reason) (pate ledger "
    "revise). Folds of a cross-validation are other data sets: pate.private_select chooses settings on all records."
)


def macs(key: bytes, fingerprint: str) -> dict[str, Any]:
    """Return what a ledger keeps of a fingerprint: of the records in their order and, where it is known, in none."""
    ordered, _, unordered = fingerprint.partition(":")
    return {
        "fingerprint": mac(key, "fingerprint", ordered),
        "unordered": mac(key, "unordered", unordered) if unordered else None,
    }


def sealed(key: bytes, purpose: str, digests: Sequence[str], salt: str = "") -> dict[str, Any]:
    """Return private digests as a ledger may hold them: under its key and a salt, so that equal ones look different.

    Without the key two of these do not even tell whether the data changed between them.
    """
    salt = salt or unreplayed_bytes(16).hex()
    return {"salt": salt, "macs": [mac(key, f"{purpose} {salt}", digest)[:16] for digest in digests]}


def sealed_sketch(key: bytes, sketch: Sequence[Sequence[str]], salt: str = "") -> dict[str, Any]:
    """Return a sketch likewise, filled up: how many rows or people it has is not seen."""
    parts = ([*part, *(f"none {name} {i}" for i in range(len(part), _SKETCH))] for name, part in enumerate(sketch))
    return sealed(key, "sketch", [digest for part in parts for digest in part], salt)


def overlap(key: bytes, held: dict[str, Any], sketch: Sequence[Sequence[str]]) -> float:
    """Return the share of one data set's members that are the other's too, of that one of which it is larger.

    The digests of a sketch are its data set's smallest. Of a set within another one all that are smaller than the
    largest common one are common, in general the share that is (Broder 1997): so their number is compared with the
    place of the last of them, on each side. 0 where fewer than ten are common. Rows and people are compared apart; the
    larger share counts.
    """
    mine, theirs = sealed_sketch(key, sketch, held["salt"])["macs"], held["macs"]
    shares = [0.0]
    for start, part in zip((0, _SKETCH), sketch, strict=True):
        one, other = mine[start : start + len(part)], theirs[start : start + _SKETCH]
        for some, others in ((one, set(other)), (other, set(one))):
            places = [place for place, member in enumerate(some, 1) if member in others]
            shares += [len(places) / places[-1]] if len(places) >= _FEWEST else []
    return max(shares)


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
    new |= dict.fromkeys(SENSITIVE_KEYS[:3])
    key = None
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
            if known.get("unordered") is not None and known["unordered"] == new["unordered"]:
                raise LedgerError(
                    f"the ledger {str(path)!r} knows "
                    + ("these labels and owners" if new["unit"] == "group" else "as many records of every class")
                    + " in another order. Nothing was charged. If these are its records, sort them as they were, or, "
                    "where they must be in the new order, say so first: Ledger.revise(reason) (pate ledger revise). If "
                    "they are other ones, name another file."
                )
            raise LedgerError(
                f"the ledger {str(path)!r} is for other private records than these. Nothing was charged. One "
                f"ledger belongs to one private data set: name another file for another one.{_REVISE}"
            )
    # What is known stays; in particular no fingerprint means "not at hand", never "none any more".
    merged = {name: known[name] if known.get(name) is not None else value for name, value in new.items()}
    held_sketch, revised = known.get("sketch"), known.get("fingerprint") is None
    # By what was looked at, not by what was found: whether any row stands once is private.
    if make_key and key is not None and registration.sketch is not None and (held_sketch is None or revised):
        merged["sketch"] = sealed_sketch(key, registration.sketch)
    elif held_sketch is not None:
        merged["sketch"] = held_sketch
    return None if canonical(merged) == canonical(known) else merged
