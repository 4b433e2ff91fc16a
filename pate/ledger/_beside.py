"""Whether a new ledger would grant people a budget that another one granted them before; for the curator's eyes."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pate.exceptions import CuratorWarning, LedgerError
from pate.ledger._chain import key_path
from pate.ledger._looks import LedgerLooks
from pate.ledger._rows import Registration

#: Of the rows that stand once in a table at most 1/e (37%) stand once in an independent sample of the same population,
#: of ids that do not merely count at most a quarter (:func:`pate.data.recognised_by`); in a table with some rows more
#: or less nearly all of them do.
LARGELY = 0.5
#: Seconds to wait for a ledger that somebody else is writing to.
_PATIENCE = 5.0
#: So many rows that stand once tell tables with as many records of every class apart.
_FEWEST = 20
_MOST_BYTES = 10_000_000


#: How a person says that a second ledger is meant.
MEANT = "say new_ledger=True (--new-ledger)"


def look_beside(
    what: str,
    data: Registration,
    ledgers: Iterable[LedgerLooks],
    folders: Iterable[Path] = (),
    *,
    meant: str = MEANT,
) -> str:
    """Return what there is to say before another ledger is begun for these private records; "" where nothing is.

    Parameters
    ----------
    what : str
        What the private records are called.
    data : Registration
        Of them. **Sensitive**, and so is what is returned.
    ledgers : iterable of Ledger
        Those that might know them, see :func:`ledgers_in`.
    folders : iterable of path
        Where statements and models might lie of a release whose ledger is gone.
    meant : str
        How to say that another ledger is meant.
    """
    ledgers = list(ledgers)
    members = "people" if data.unit == "group" else "records"
    for book in ledgers:
        if _knows(book, data):
            return (
                f"{what} holds the private data set of the ledger {str(book.path)!r}. Another ledger would grant its "
                f"whole budget once more. Pass ledger={str(book.path)!r} (--ledger {str(book.path)!r}), or {meant} if "
                "that is meant."
            )
    share, path = max(((book.overlap(data), str(book.path)) for book in ledgers), default=(0.0, ""))
    if share >= LARGELY:
        return (
            f"{what} and the private data set of the ledger {path!r} are largely of the same {members}: of one of them "
            f"about {share:.0%} stand in the other too. (That is private: do not publish it.) Another ledger would "
            "grant them a whole budget once more. If it is that data set, corrected or added to, say so there (pate "
            f"ledger revise) and pass ledger={path!r} (--ledger {path!r}). If these are others, or that is meant, "
            f"{meant}."
        )
    blind = next((book for book in ledgers if _is_blind(book, data)), None)
    if blind is not None:
        return (
            f"the ledger {str(blind.path)!r} has no key file beside it, so that whether {what} is its private data set "
            "cannot be seen. Another ledger would then grant its whole budget once more. Restore the key file; if "
            f"these are other data, {meant}."
        )
    lost = next((path for path in _releases_like(data, folders) if not _is_held(path, ledgers)), None)
    if lost is not None:
        return (
            f"{str(lost)!r} tells of a release from about as many private {members}, and the ledger that it was "
            f"charged to is not there. If that was from {what}, a new ledger would forget what was spent: restore the "
            f"old one with its key, or name it, ledger= (--ledger). If it was from other data, {meant}."
        )
    return ""


def _knows(book: LedgerLooks, data: Registration) -> bool:
    """Return whether these are the ledger's records. Without owners, as many of every class alone do not say so."""
    if data.fingerprint is None or not book.recognises(data.fingerprint):
        return False
    in_order = book.recognises(data.fingerprint.partition(":")[0])
    n_once = 0 if data.sketch is None else len(data.sketch[0])
    told_apart = data.unit == "record" and n_once >= _FEWEST and book.has_sketch
    return in_order or not told_apart or book.overlap(data) >= LARGELY


def _is_blind(book: LedgerLooks, data: Registration) -> bool:
    """Return whether a ledger of such units once could recognise its records, and cannot: its key is gone."""
    held = book.registration
    return bool(held and held["fingerprinted"] and held["unit"] == data.unit) and not key_path(book.path).exists()


def ledgers_in(kind: Callable[..., LedgerLooks], folders: Iterable[Path]) -> Iterator[LedgerLooks]:
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
                warnings.warn(
                    f"whether {str(path)!r} knows these records cannot be seen, as it cannot be read now: {error} If "
                    "it may be theirs, stop here: another ledger would grant its whole budget once more.",
                    CuratorWarning,
                    stacklevel=3,
                )


def _releases_like(data: Registration, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the statements and models of releases from half to twice as many units that a ledger was charged for."""
    for folder in dict.fromkeys(folder.absolute() for folder in folders):
        for path in sorted([*folder.glob("*.statement.json"), *folder.glob("*.pate")]):
            told = _statement(path)
            n = told.get("n_units")
            near = not isinstance(n, int) or data.n_units is None or n <= 2 * data.n_units <= 4 * n
            if told.get("ledger_head") and told.get("unit") == data.unit and near:
                yield path


def _is_held(path: Path, ledgers: Iterable[LedgerLooks]) -> bool:
    head = str(_statement(path).get("ledger_head"))
    return any(book.holds(head) for book in ledgers)


def _statement(path: Path) -> dict[str, Any]:
    """Return the statement in a file, not checked: here it only shows that there was a release."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return {}
        if path.suffix == ".json":
            found = json.loads(path.read_bytes())
        else:
            with zipfile.ZipFile(path) as archive:
                found = json.loads(archive.read("statement.json"))
    except (OSError, ValueError, KeyError, RecursionError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return {}
    return found if isinstance(found, dict) else {}
