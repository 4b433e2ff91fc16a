"""One private data set, one ledger: a file of another name is not a fresh budget."""

from __future__ import annotations

from pathlib import Path

from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger import Ledger

#: Seconds to wait for a ledger that somebody else is writing to.
_PATIENCE = 5.0


def find_ledger(records: str, *folders: Path) -> Path | None:
    """Return the ledger in these folders that knows these private records, or None.

    Parameters
    ----------
    records : str
        Their fingerprint. **Sensitive.** Ledgers hold it under their own keys only.
    folders : path

    Examples
    --------
    >>> import tempfile
    >>> find_ledger("0123abcd", Path(tempfile.mkdtemp())) is None
    True
    """
    for folder in dict.fromkeys(folder.absolute() for folder in folders):
        for path in sorted(folder.glob("*.sqlite")):
            try:
                if Ledger(path, timeout=_PATIENCE).recognises(records):
                    return path
            except LedgerError:  # no ledger, or one that cannot be read
                continue
    return None


def check_only_ledger(book: Ledger, records: str, private: Path, *, new_ledger: bool) -> None:
    """Refuse to begin a ledger for records that have one already, beside them or beside the new one.

    Raises
    ------
    InvalidInputError
        Nobody said that a second one is meant. That depends on the records: it is for the curator's eyes, like every
        message of a run that was refused, and comes before anything is trained or released.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> from pate.ledger import Registration
    >>> from pate.privacy import Budget
    >>> book = Ledger(folder / "a.sqlite", total=Budget(1.0, 1e-5))
    >>> book.register(Registration("record", ("no", "yes"), fingerprint="0123abcd"))
    >>> check_only_ledger(Ledger(folder / "b.sqlite"), "0123abcd", folder / "votes.npy", new_ledger=False)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: ... holds the private data set of the ledger ...a.sqlite'. ...
    """
    if new_ledger or book.registration is not None:
        return
    found = find_ledger(records, private.parent, book.path.parent)
    if found is not None:
        raise InvalidInputError(
            f"{private} holds the private data set of the ledger {str(found)!r}. Another ledger would grant its whole "
            f"budget once more. Pass ledger={str(found)!r} (--ledger), or new_ledger=True (--new-ledger) if that is "
            "meant."
        )


def check_absent(book: Ledger | None) -> None:
    """Refuse to begin a new ledger where there is one, or where none is named.

    Examples
    --------
    >>> check_absent(None)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: new_ledger starts the one that ledger= names, and ledger is None. Name a file.
    """
    if book is None:
        raise InvalidInputError("new_ledger starts the one that ledger= names, and ledger is None. Name a file.")
    if book.total is not None:
        raise InvalidInputError(
            f"new_ledger (--new-ledger) starts one, but there is a ledger {str(book.path)!r} already. Leave it out to "
            "go on with that one, or name another file (ledger=, --ledger)."
        )


def check_votes_ledger(book: Ledger, records: str, votes: Path, *, new_ledger: bool) -> None:
    """Refuse votes without a ledger: how often they were asked before, nobody could know.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> check_votes_ledger(Ledger(folder / "a.sqlite"), "0123abcd", folder / "votes.npy", new_ledger=False)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: there is no ledger ...a.sqlite' for the votes ... new_ledger=True ...
    """
    if new_ledger:
        check_absent(book)
        return
    check_only_ledger(book, records, votes, new_ledger=False)
    if book.total is None:
        raise InvalidInputError(
            f"there is no ledger {str(book.path)!r} for the votes {str(votes)!r}. Name the one that all releases from "
            "these teachers' private data are charged to: ledger= (--ledger). If this is the first release from them, "
            "say new_ledger=True (--new-ledger)."
        )
