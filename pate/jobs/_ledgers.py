"""One private data set, one ledger: a file of another name is not a fresh budget."""

from __future__ import annotations

from pathlib import Path

from pate.exceptions import InvalidInputError
from pate.ledger import Ledger, Registration
from pate.ledger._registration import ledgers_in


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
    known = (book.path for book in ledgers_in(Ledger, folders) if book.recognises(records))
    return next(known, None)


def check_only_ledger(book: Ledger, data: Registration, private: Path, *, new_ledger: bool) -> None:
    """Refuse to begin a ledger for records, or largely the same people's, that have one already.

    It is looked for beside them and beside the new one; so are releases whose ledger is gone.

    Raises
    ------
    InvalidInputError
        Nobody said that a second one is meant. That depends on the records: it is for the curator's eyes, like every
        message of a run that was refused, and comes before anything is trained or released.
    """
    if book.registration is not None:
        return
    said = book.look_beside(str(private), data, private.parent)
    if said and not new_ledger:
        raise InvalidInputError(said)


def check_absent(book: Ledger | None) -> None:
    """Refuse to begin a new ledger where there is one, or where none is named."""
    if book is None:
        raise InvalidInputError("new_ledger starts the one that ledger= names, and ledger is None. Name a file.")
    if book.registration is not None:  # one that was opened with a total, and charged nothing yet, is new
        raise InvalidInputError(
            f"new_ledger (--new-ledger) starts one, but there is a ledger {str(book.path)!r} already. Leave it out to "
            "go on with that one, or name another file: ledger= (--ledger)."
        )


def check_votes_ledger(book: Ledger, data: Registration, votes: Path, *, new_ledger: bool) -> None:
    """Refuse votes without a ledger: how often they were asked before, nobody could know."""
    if new_ledger:
        check_absent(book)
    check_only_ledger(book, data, votes, new_ledger=new_ledger)
    if new_ledger:
        return
    if book.total is None:
        raise InvalidInputError(
            f"there is no ledger {str(book.path)!r} for the votes {str(votes)!r}. Name the one that all releases from "
            "these teachers' private data are charged to: ledger= (--ledger). If this is the first release from them, "
            "say new_ledger=True (--new-ledger)."
        )
