"""Whether the private data set of a release is the one the ledger is for."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pate._core.curator import tell_curator
from pate._core.secret import unreplayed_bytes
from pate.exceptions import LedgerError
from pate.ledger._chain import canonical, key_path, mac, read_key
from pate.ledger._entries import check_tiers, read_registration
from pate.ledger._files import statement_in
from pate.ledger._rows import Registration

#: The keys of a registration that are made with the secret key.
SENSITIVE_KEYS = ("fingerprint", "unordered", "key_check", "sketch", "members")
#: So many digests of rows, and of people, a ledger holds, whatever their number.
_SKETCH = 256
#: Fewer in common are coincidence.
_FEWEST = 10
#: What to do when the records did change.
_REVISE = (
    " If these are the same people's records, corrected or added to, say so first: Ledger.revise(reason) (pate ledger "
    "revise). In a cross-validation the first fold was charged and registered, and every other fold, and the whole "
    "table, are other data: cross-validate without a ledger, on data that are not private alone. Of private data fit "
    "all records once (after a fold was charged, revise first: it stays spent), or choose settings by "
    "pate.private_select."
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

    Without the key two of these do not even show whether the data changed between them.
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


def _in_words(name: str, value: Any) -> str:
    """Return a public fact of a ledger in words that are alike in Python and on the command line."""
    if name == "n_units":
        return f"{value} records (or persons)"
    return f"the {name} {value!r}" if name in ("unit", "classes") else f"{name}={value!r}"


def merge(
    connection: sqlite3.Connection, path: Path, registration: Registration, *, make_key: bool
) -> dict[str, Any] | None:
    """Return what to register, or None when that is known already; refuse another data set."""
    held = read_registration(connection, path)
    known = {} if held is None else held
    new: dict[str, Any] = registration.to_dict()
    for name, value in new.items():
        # A later release may cut the data again: the shards are a description, not a condition.
        if known.get(name) is None or name == "n_shards":
            continue
        if value is not None and canonical(known[name]) != canonical(value):
            raise LedgerError(
                f"the ledger {str(path)!r} is for {_in_words(name, known[name])}, not {value!r}. One ledger belongs "
                "to one private data set, one unit and one list of classes in one order."
                + (_REVISE if name == "n_units" else "")
            )
    check_tiers(path, held, registration)
    new |= dict.fromkeys(SENSITIVE_KEYS[:3])
    key = None
    if make_key or (registration.fingerprint is not None and known.get("fingerprint") is not None):
        # Never a second key: the first one may be lost, and what was made with it could no longer be distinguished.
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
    if key is not None and registration.members is not None:
        new["members"] = mac(key, "members", registration.members)
        if known.get("members") not in (None, new["members"]):
            raise LedgerError(
                f"the ledger {str(path)!r} knows some of these units in another tier. Nothing was charged: a unit that "
                "changes its tier would be charged by two weights. Leave all where they were; where units were added, "
                "say so first: Ledger.revise(reason) (pate ledger revise)."
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


# Whether a new ledger would grant people a budget that another one granted them before; for the curator's eyes.

#: Of the rows that stand once in a table at most 1/e (37%) stand once in an independent sample of the same population,
#: of ids that do not merely count at most a quarter (:func:`pate.data.recognised_by`); in a table with some rows more
#: or less nearly all of them do.
LARGELY = 0.5
#: Seconds to wait for a ledger that another process is writing to.
_PATIENCE = 5.0
#: So many rows that stand once distinguish tables with as many records of every class.
_FEWEST_APART = 20
_MOST_BYTES = 10_000_000


#: How a person says that a second ledger is meant.
MEANT = "say new_ledger=True (--new-ledger)"


def check_beside(
    what: str,
    data: Registration,
    ledgers: Iterable[Any],
    folders: Iterable[Path] = (),
    *,
    meant: str = MEANT,
) -> str:
    """Return a warning if there already are ledgers for these private records; "" if there are none."""
    ledgers = list(ledgers)
    members = "people" if data.unit == "group" else "records"
    for book in ledgers:
        if _knows(book, data):
            return (
                f"{what} holds the private data set of the ledger {str(book.path)!r}. Another ledger would grant its "
                f"whole budget once more. Pass ledger={str(book.path)!r} (--ledger {shlex.quote(str(book.path))}), or "
                f"{meant} if that is meant."
            )
    share, path = max(((book.overlap(data), str(book.path)) for book in ledgers), default=(0.0, ""))
    if share >= LARGELY:
        return (
            f"{what} and the private data set of the ledger {path!r} are largely of the same {members}: of one of them "
            f"about {share:.0%} stand in the other too. (That is private: do not publish it.) Another ledger would "
            "grant them a whole budget once more. If it is that data set, corrected or added to, say so there (pate "
            f"ledger revise) and pass ledger={path!r} (--ledger {shlex.quote(path)}). If these are others, or "
            f"that is meant, {meant}."
        )
    blind = next((book for book in ledgers if _is_blind(book, data)), None)
    if blind is not None:
        return (
            f"the ledger {str(blind.path)!r} has no key file beside it, so that whether {what} is its private data set "
            "cannot be seen. Another ledger would then grant its whole budget once more. Restore the key file; if "
            f"these are other data, {meant}."
        )
    lost = _forgotten(data, ledgers, folders)
    if lost:
        return (
            f"{lost}, and the ledger that it was charged to is not there. If that was from {what}, a new ledger would "
            "forget what was spent: restore the old one with its key, or name it, ledger= (--ledger). If it was from "
            f"other data, {meant}."
        )
    return ""


def check_newest(ledger: Any, data: Registration, others: Iterable[Any]) -> str:
    """Return a warning if a release beside a ledger of these records is in no ledger there; "" if there is none."""
    lost, folders = "", [ledger.path.parent]
    if _forgotten(data, [ledger], folders):  # mostly not: then no other ledger is opened
        lost = _forgotten(data, [ledger, *others], folders)
    if not lost:
        return ""
    return (
        f"{lost}, and no ledger beside it holds that release. If it was charged to {str(ledger.path)!r}, an old copy "
        "of that ledger was put back, and would grant again what was spent since: restore the newest copy. If it was "
        "from other data, ignore this warning."
    )


def _forgotten(data: Registration, ledgers: Iterable[Any], folders: Iterable[Path]) -> str:
    """Return the beginning of a warning of a release that none of the ledgers holds."""
    members, ledgers = "people" if data.unit == "group" else "records", list(ledgers)
    for path, head in _releases_like(data, folders):
        if not any(ledger.holds(head) for ledger in ledgers):
            return f"{str(path)!r} tells of a release from about as many private {members}"
    return ""


def _knows(book: Any, data: Registration) -> bool:
    """Return whether these are the ledger's records. Without owners, as many of every class alone do not say so."""
    if data.fingerprint is None or not book.recognises(data.fingerprint):
        return False
    in_order = book.recognises(data.fingerprint.partition(":")[0])
    n_once = 0 if data.sketch is None else len(data.sketch[0])
    distinct = data.unit == "record" and n_once >= _FEWEST_APART and book.has_sketch
    return in_order or not distinct or book.overlap(data) >= LARGELY


def _is_blind(book: Any, data: Registration) -> bool:
    """Return whether a ledger of such units once could recognise its records, and cannot: its key is gone."""
    held = book.registration
    return bool(held and held["fingerprinted"] and held["unit"] == data.unit) and not key_path(book.path).exists()


def ledgers_in(kind: Callable[..., Any], folders: Iterable[Path]) -> Iterator[Any]:
    """Yield the ledgers in these folders, as far as they can be read."""
    for folder in dict.fromkeys(folder.absolute() for folder in folders):
        # Whatever a ledger is called, its key lies beside it.
        keyed = (key.with_name(key.name.removesuffix(".key")) for key in folder.glob("*.key"))
        for path in sorted({*folder.glob("*.sqlite"), *(path for path in keyed if path.is_file())}):
            try:
                book = kind(path, timeout=_PATIENCE)
                if book.registration is not None:
                    yield book
            except LedgerError as error:
                if not key_path(path).exists():  # no ledger
                    continue
                tell_curator(
                    f"whether {str(path)!r} knows these records cannot be seen, as it cannot be read now: {error} If "
                    "it may be theirs, stop here: another ledger would grant its whole budget once more.",
                )


def _releases_like(data: Registration, folders: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield statements and models of releases from half to twice as many units, and the heads of their ledgers."""
    for folder in dict.fromkeys(folder.absolute() for folder in folders):
        for path in sorted([*folder.glob("*.statement.json"), *folder.glob("*.pate")]):
            noted = _statement(path)
            n = noted.get("n_units")
            near = not isinstance(n, int) or data.n_units is None or n <= 2 * data.n_units <= 4 * n
            if noted.get("ledger_head") and noted.get("unit") == data.unit and near:
                yield path, str(noted["ledger_head"])


def _statement(path: Path) -> Mapping[str, Any]:
    """Return the statement in a file, not checked: here it only shows that there was a release."""
    try:
        return statement_in(path.read_bytes()) if path.is_file() and path.stat().st_size <= _MOST_BYTES else {}
    except OSError:
        return {}
