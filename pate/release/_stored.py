"""What a ledger is to hold of a draw, and of the votes it was drawn for: public things alone."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger import Ledger, LedgerRow, NewAnswer, Registration
from pate.mechanisms import GaussianSum, Mechanism
from pate.privacy.budget import Budget
from pate.release._quote import Quote, ReleaseTerms
from pate.votes import ABSTAIN, BallotVotes, Votes

Paid = TypeVar("Paid")


def statistics_to_store(request: str, drawn: FloatArray) -> NewAnswer:
    """Return a released sum as one answer of the ledger: its numbers row by row."""
    return request, GaussianSum.family, ABSTAIN, drawn.ravel().tolist()


def counts_to_store(counts: Sequence[GaussianSum]) -> dict[str, Any]:
    """Return what a release's facts say of counts of right answers that were charged with its labels."""
    return {"right_counts": [mechanism.noise_multiplier for mechanism in counts]} if counts else {}


def with_counts(mechanism: Mechanism, counts: Sequence[GaussianSum]) -> str:
    """Return a mechanism in words, and what is counted after it."""
    if not counts:
        return str(mechanism)
    return f"{mechanism}, then {', '.join(map(str, counts))} on counts of right answers"


def round_key(index: int) -> str:
    """Return under which name a ledger keeps the facts of round ``index``."""
    return f"round {index + 1}"


def rounds_in(facts: Mapping[str, Any]) -> list[int]:
    """Return which rounds a ledger holds, in order: not always the first ones, as one that failed is used up."""
    return sorted(int(key[6:]) - 1 for key in facts if key.startswith("round ") and key[6:].isdigit())


def weaknesses(votes: Votes | BallotVotes) -> dict[str, Any]:
    """Return the public facts of votes that a statement must give wherever their answers are given again."""
    said = [name for name in ("classes_inferred", "partition_seeded") if getattr(votes, name)]
    return dict.fromkeys([*said, *(f"{_RACE}{seed}" for seed in votes.races)], True)


#: The name, with a seed, under which a ledger notes that votes were drawn with shared public random numbers.
_RACE = "public race "


def races_in(facts: Mapping[str, Any]) -> list[int]:
    """Return the seeds of the races by which a release's votes were drawn."""
    seeds = (key.removeprefix(_RACE) for key in facts if key.startswith(_RACE))
    return [int(seed) for seed in seeds if seed.isdigit()]


# Going on with a named session: how it is recognised, what it has left, and who may hold it.

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None  # type: ignore[assignment]


def session_left(
    mechanism: Mechanism, terms: ReleaseTerms, *, n_queries: int, n_teachers: int, name: str
) -> int | None:
    """Return how many queries a named session has left, or None when there is none: what opening it would not charge.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pate import Budget, GNMax, Ledger, open_session
    >>> given = {
    ...     "budget": Budget(10.0, 1e-5),
    ...     "ledger": Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.sqlite"),
    ... }
    >>> asked = {"n_queries": 3, "n_teachers": 9, "name": "May"}
    >>> session_left(GNMax(2.0), ReleaseTerms(**given), **asked)
    >>> open_session(GNMax(2.0), classes=2, **asked, **given).close()
    >>> session_left(GNMax(2.0), ReleaseTerms(**given), **asked)
    3
    """
    mark = mark_of(name, mechanism, terms, n_queries, n_teachers)
    left = None if mark is None or terms.ledger is None else left_over(terms.ledger, mark, terms.budget)
    return None if left is None else max(0, left.price.n_queries - left.n_used)


def mark_of(name: str | None, mechanism: Mechanism, terms: ReleaseTerms, n_queries: int, n_teachers: int) -> str | None:
    """Return what a named session is recognised by: its name and everything that its price depends on."""
    if name is None or fcntl is None:
        return None
    budget, caps = terms.budget, sorted(terms.caps.items())
    parts = (name, str(mechanism), n_queries, n_teachers, budget.epsilon, budget.delta, caps, terms.seeded)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class Left(NamedTuple):
    """What a session has used: queries, and of its counts of right answers which, and how many are stored."""

    release: int | None
    price: Quote
    n_used: int = 0
    counts_used: int = 0
    n_counts: int = 0


def left_over(ledger: Ledger, mark: str, budget: Budget) -> Left | None:
    """Return what an earlier session has used, or None."""
    row = ledger.find(mark)
    if row is None:
        return None
    row, counts_used, n_stored = stored_rounds_of(ledger, row.id)
    guarantee, n_counts = row.charge.guarantee(budget.delta), len(rounds_in(row.facts))
    counts = tuple(GaussianSum(value) for value in row.facts.get("right_counts", ()))
    price = Quote(row.n_queries, int(row.facts["max_answers"]), row.charge, guarantee, counts)
    return Left(row.id, price, n_stored - n_counts, counts_used, n_counts)


def stored_rounds_of(ledger: Ledger, release: int) -> tuple[LedgerRow, int, int]:
    """Return a release's row, how many of its rounds are used up, and how many answers it holds.

    Answers are counted before rounds are read: what another process stores between is noticed (:class:`StoredSoFar`).
    A round before the last stored one that failed to be stored was used up all the same.
    """
    n_stored = ledger.n_answers(release)
    row = ledger.releases([release])[0]
    return row, max(rounds_in(row.facts), default=-1) + 1, n_stored


def claimed(ledger: Ledger | None, mark: str | None, take: Callable[[], Paid]) -> tuple[Paid, Claim | None]:
    """Return what ``take`` returns, taken under the claim of a named session, and the claim; None without a name."""
    claim = None if mark is None or ledger is None or fcntl is None else Claim(ledger.path, mark)
    try:
        return take(), claim
    except BaseException:
        if claim is not None:
            claim.let_go()
        raise


class OneHolder:
    """What was paid for whole, and is used up by one object in one process, one turn at a time: it has no copies."""

    _uncopied = "a session cannot be copied or stored: each copy would ask all that was paid for once."
    _elsewhere = ""

    def __init__(self, claim: Claim | None = None) -> None:
        self._claim, self._closed = claim, False
        self._turn, self._process = threading.Lock(), os.getpid()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidInputError(self._uncopied)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ask nothing more; what is left can be taken up again by name, if the session has a ledger and a name."""
        if os.getpid() != self._process:
            # A forked copy: the lock's file, and a turn that was taken when it was made, belong to the other process.
            self._closed = True
            if self._claim is not None:
                self._claim.let_go()
            return
        with self._turn:  # an answer on its way is stored before another may go on
            self._closed = True
            if self._claim is not None:
                self._claim.let_go(remove=self._used_up())

    def _used_up(self) -> bool:
        """Whether nothing is left, and the file agrees: the process that resumes it has nothing to ask either."""
        return False

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise InvalidInputError(self._elsewhere)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError("this session is closed. Open it again, by its name if it has one.")


def check_alike(what: str, *facts: tuple[str, object, object]) -> None:
    """Refuse what is of others than the session's; ``facts`` are names, what was found and what the session has."""
    for name, found, wanted in facts:
        if found != wanted:
            raise InvalidInputError(
                f"{what} must have {name}={wanted!r} like the session, got {found!r}. Open another for these."
            )


def check_same_records(what: str, wanted: Registration, found: Registration, who: str) -> None:
    """Refuse ``what`` of other records than those ``who`` says; nothing is compared that ``wanted`` leaves open."""
    for name in ("unit", "classes", "adjacency", "n_units", "fingerprint"):
        ours, theirs = getattr(wanted, name), getattr(found, name)
        if theirs != ours and not (ours is None and name in ("n_units", "fingerprint")):
            said = "" if name == "fingerprint" else f" ({ours!r}, got {theirs!r})"
            raise InvalidInputError(f"{what} must be of the records that {who}: another {name}{said}.")


def check_name(name: object, ledger: Ledger | None, found: str) -> None:
    """Refuse a session's name that is none, or one without a ledger to find it in."""
    if name is not None and (not isinstance(name, str) or not name or ledger is None):
        raise InvalidInputError(f"name must be some text, and needs a ledger, got {found}.")


class StoredSoFar:
    """How many answers of a release its holder has stored: the ledger refuses more once another process added any."""

    def __init__(self, ledger: Ledger | None, release: int | None, n: int) -> None:
        self._ledger, self._release, self._n = ledger, release, n
        self._in_doubt = 0
        #: Whether any write failed: what was drawn then may not have been stored.
        self.failed = False

    def add(self, answers: Iterable[NewAnswer], n: int, facts: dict[str, Any] | None = None) -> str | None:
        """Store ``n`` answers, if there is a ledger, and return their entry's digest; only then may they be shown."""
        if self._ledger is None or self._release is None:
            return None
        # The last write failed, or was broken off, perhaps just after it was committed.
        if self._in_doubt and self._ledger.n_answers(self._release) == self._n + self._in_doubt:
            self._n += self._in_doubt
        self._in_doubt, failed, self.failed = n, self.failed, True
        digest = self._ledger.add_answers(self._release, answers, self._n, facts)
        self._n, self._in_doubt, self.failed = self._n + n, 0, failed
        return digest


class Claim:
    """The right to go on with a named session: a lock that ends with its process, however that ends.

    It spares its holder surprises; what makes double use impossible is the ledger (:class:`StoredSoFar`), which no
    deleted lock file or second name of a folder can mislead.
    """

    def __init__(self, ledger: Path, mark: str) -> None:
        # Resolved: a link to the ledger is the same ledger.
        real = ledger.resolve()
        self._path = path = real.with_name(f"{real.name}.session-{mark[:12]}.lock")
        self._file: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while not self._hold():
                self.let_go()
        except OSError as error:
            self.let_go()
            raise LedgerError(
                f"the session is held by another process, or its lock {str(path)!r} cannot be used "
                f"({error.strerror}). Wait until that process has ended; nothing was charged."
            ) from error

    def _hold(self) -> bool:
        """Lock the file; False when it was taken away between opening and locking, so that it locks nothing."""
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        assert fcntl is not None
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.fstat(self._file)
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)

    def let_go(self, *, remove: bool = False) -> None:
        """End the claim; ``remove`` takes the lock's file away, for a session that has nothing left."""
        if self._file is not None:
            if remove:
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)
            with suppress(OSError):
                os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        with suppress(Exception):
            self.let_go()
