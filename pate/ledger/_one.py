"""Whose a ledger is: it is registered to one private data set, and refuses every other."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pate.core.files import check_can_write
from pate.core.secret import beside_ledger, forget_secret
from pate.core.tape import playing
from pate.exceptions import CuratorWarning, InvalidInputError, LedgerError
from pate.ledger import _entries
from pate.ledger._beside import MEANT, ledgers_in, look_beside
from pate.ledger._chain import mac, read_key
from pate.ledger._files import Thing, described, head_named, read_thing, releases_named, signature
from pate.ledger._looks import LedgerLooks
from pate.ledger._registration import SENSITIVE_KEYS, merge, sealed
from pate.ledger._rows import Registration
from pate.ledger._store import transaction
from pate.privacy.compose.currency import Opening


class LedgerOfOne(LedgerLooks):
    """The part of :class:`pate.Ledger` that knows whose records its charges are about."""

    #: Whether it was looked for other ledgers of the same records, or somebody said that this one is to be new.
    _looked_beside = False

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        tape = playing()
        if tape is not None:
            tape.claim(self.path)
        with transaction(self.path, write=True, timeout=self.timeout) as connection:
            assert connection is not None
            _entries.check_seal(connection, self.path)
            yield connection

    def check(self, registration: Registration) -> None:
        """Refuse when the ledger is for another private data set, unit or list of classes; nothing is written.

        What is known of the records besides (``contents``, ``sketch``) is kept with their next charge by this object.

        Warns
        -----
        CuratorWarning
            This ledger would be new for the records, and another one in its folder is for them, or for largely the same
            people; or a release lies there whose ledger is gone. Two ledgers' totals add up.

        Raises
        ------
        LedgerError
            They differ: answers of the one may not be given for the other.
        """
        with self._read() as connection:
            known = False
            if connection is not None:
                merge(connection, self.path, registration, make_key=False)
                known = _entries.read_registration(connection, self.path) is not None
        if registration.contents is not None or registration.sketch is not None:
            self._checked = registration
        if not known and not self._looked_beside and registration.fingerprint is not None:
            said = self.look_beside("what was given", self._full(registration), meant="ignore this warning")
            if said:
                warnings.warn(said, CuratorWarning, stacklevel=3)

    def look_beside(self, what: str, data: Registration, *folders: Path, meant: str = MEANT) -> str:
        """Return what other ledgers in this one's folder, and others, say of these records; "": nothing. **Sensitive**.

        Asked before a ledger is begun, so that the same people do not get a fresh budget by oversight.

        Parameters
        ----------
        what : str
            What the private records are called.
        data : Registration
        folders : path
            Where to look besides.
        meant : str
            How to say that another ledger is meant.
        """
        self._looked_beside = True
        places = (self.path.parent, *folders)
        return look_beside(what, data, ledgers_in(type(self), places), places, meant=meant)

    def check_writable(self) -> None:
        """Refuse when nothing could be charged, to be asked before teachers are trained; nothing is left behind.

        Raises
        ------
        LedgerError
            File or folder cannot be written to, or the disk is full.
        """
        try:
            # Beside it go its journal and its key.
            check_can_write("ledger", self.path)
        except InvalidInputError as error:
            raise LedgerError(f"{error} Nothing was trained or charged.") from None

    def register(self, registration: Registration) -> None:
        """Say what the private data set is; what was registered before must agree, what was unknown is added.

        Raises
        ------
        LedgerError
            The ledger is for something else, or has no total yet.
        """
        with self._write() as connection:
            self._register(connection, registration)

    def bind(self, *things: Thing, contents: Mapping[str, bytes] | None = None) -> str:
        """Note digests of released files under the ledger's key: :meth:`verify` then tells them from edited ones.

        Costs nothing, and says nothing of private records: what is released is public. Releases bind their own
        statements, and jobs and ``save`` what they write; a file that was made later is bound by whoever answers for
        it.

        Parameters
        ----------
        *things : paths, or statements' JSON objects (``statement.to_dict()``)
            They are bound to the last release that a statement among them names; without one, to the ledger's last.
        contents : mapping of str to bytes, or None
            Files that are about to be written, by their names.

        Returns
        -------
        str
            The digest of the new entry.

        Raises
        ------
        LedgerError
            Nothing was released yet, a statement names a release that is not there, the key file is missing or another
            one's, or the file could not be written; nothing is bound.
        InvalidInputError
            A file cannot be read, or none was named.
        """
        read = [*((Path(name).name, content) for name, content in map(read_thing, things)), *(contents or {}).items()]
        if not read:
            raise InvalidInputError("bind must be given a file at least, got none.")
        told = [described(name, content) for name, content in read]
        named = [n for _, content in read for n in releases_named(content)]
        with self._write() as connection:
            n_releases = len(_entries.read_costs(connection, self.path)[0])
            release = max(named, default=n_releases)
            if not 1 <= release <= n_releases:
                raise LedgerError(
                    f"the ledger {str(self.path)!r} has {n_releases} releases: nothing of release {release} can be "
                    "bound. Name the ledger that the files were released from."
                )
            for head in filter(None, (head_named(content) for _, content in read)):
                if not connection.execute("SELECT 1 FROM entries WHERE digest = ?", (head,)).fetchone():
                    raise LedgerError(
                        f"a statement names the head {head[:16]}..., which is not in the ledger {str(self.path)!r}: it "
                        "is another ledger's, or was changed. Nothing was bound. Name the ledger that it was released "
                        "from."
                    )
            key, created = self._signing_key(connection), _now()
            end = _entries.last(connection)
            assert end is not None  # there is a release
            body = {"bound": told, "mac": signature(key, told, release, created, end[1])}
            return _entries.append(connection, self.path, "answers", created, body=body, release=release).digest

    def _signing_key(self, connection: sqlite3.Connection) -> bytes:
        """Return the key beside the ledger, made where there never was one."""
        held = _entries.read_registration(connection, self.path)
        known = None if held is None else held["key_check"]
        key = read_key(self.path, make=known is None)
        if key is None or (known is not None and mac(key, "key", "")[:16] != known):
            raise LedgerError(
                f"the key file beside the ledger {str(self.path)!r} is missing, or not the one of its registration: "
                "nothing was bound. Restore the key file."
            )
        return key

    def _opening(self, connection: sqlite3.Connection) -> Opening:
        opening = _entries.read_opening(connection, self.path)
        if opening is None:
            raise LedgerError(f"the ledger {str(self.path)!r} has no total budget yet. Call open_total first.")
        return opening

    def _register(self, connection: sqlite3.Connection, registration: Registration) -> None:
        self._opening(connection)
        merged = merge(connection, self.path, self._full(registration), make_key=True)
        if merged is not None:
            _entries.append(connection, self.path, "registered", _now(), body=merged)

    def _full(self, registration: Registration) -> Registration:
        """Return a registration with what was known of these very records when they were last checked."""
        known = self._checked
        if known is None or known.fingerprint is None or known.fingerprint != registration.fingerprint:
            return registration
        return replace(registration, contents=known.contents, sketch=known.sketch)

    def _features(self, registration: Registration) -> dict[str, Any]:
        """Return what an entry says of the features that its release is made from."""
        contents = self._full(registration).contents
        key = None if contents is None else read_key(self.path, make=False)
        return {} if contents is None or key is None else {"contents": sealed(key, "contents", [contents])}

    def revise(self, reason: str) -> None:
        """Declare that the private records were corrected or added to: the next release's records are taken as theirs.

        Everything stays charged to one total, so all versions together satisfy it: neighbours then differ in one unit
        throughout the versions. Stored answers stay as they were released.

        The secret of the shards beside the ledger is deleted, so that every version is cut by one of its own: two
        versions' labels may be equal for some people's records and not for their neighbours', and with them a cut that
        hangs on labels (see Notes of :func:`pate.partition`). A folder of checkpoints keeps a secret as well: take
        another one for another version.

        Parameters
        ----------
        reason : str
            Public: it is kept in the ledger.

        Raises
        ------
        InvalidInputError
            ``reason`` says nothing, or the secret cannot be deleted: then nothing was revised.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInputError(f"reason must say in words why the records changed, got {reason!r}.")
        with self._write() as connection:
            held = _entries.read_registration(connection, self.path)
            if held is None:
                raise LedgerError(f"the ledger {str(self.path)!r} has no data set registered yet: nothing to revise.")
            # The sketch stays until the next one: they are the same people.
            unknown = dict.fromkeys({"n_units", "n_shards", *SENSITIVE_KEYS} - {"sketch"})
            # First: if this is cut off here, the same version is cut anew, which costs nothing.
            forget_secret(beside_ledger(self.path))
            _entries.append(
                connection, self.path, "registered", _now(), body={**held, **unknown, "revised": reason.strip()}
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
