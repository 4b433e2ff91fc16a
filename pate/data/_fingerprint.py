"""By what a ledger recognises private records, or the votes of teachers that were trained on them."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import quietly
from pate.core.frames import plain_column
from pate.data._overlap import row_digests
from pate.exceptions import InvalidInputError

#: So many equal records are digested at once.
_ALIKE = 1 << 16


def records_fingerprint(labels: npt.NDArray[np.int64], groups: Any = None) -> str:
    """Return two digests of the private records, ``A:B``: of their labels and owners: **sensitive**.

    A is of the records in the file's order, B of the same in no order: sorted otherwise they are still the same.
    Features do not enter: scaled, encoded or dropped otherwise they are the same people's, and one ledger's.

    Parameters
    ----------
    labels : int64 array of shape (n_records,)
        Class indices.
    groups : array-like of shape (n_records,) or None

    Raises
    ------
    InvalidInputError
        There are not as many owners as labels.

    Examples
    --------
    >>> a, b = records_fingerprint(np.array([0, 1])), records_fingerprint(np.array([0, 1]), ["x", "y"])
    >>> a == records_fingerprint(np.array([0, 1])), a == b
    (True, False)
    >>> c = records_fingerprint(np.array([1, 0]), ["y", "x"])
    >>> [p == q for p, q in zip(b.split(":"), c.split(":"))]
    [False, True]
    """
    digest = hashlib.sha256(f"pate records 1 {len(labels)} {groups is not None}\n".encode())
    digest.update(np.ascontiguousarray(labels, dtype="<i8").tobytes())
    groups = plain_column(groups, name="groups")
    owners = [] if groups is None else quietly("groups", lambda: [str(owner) for owner in groups])
    if groups is not None and len(owners) != len(labels):
        raise InvalidInputError(f"groups must have shape ({len(labels)},): one owner for each record.")
    names = [owner.encode("utf-8", "surrogatepass") for owner in owners]
    for name in names:
        digest.update(f"{len(name)}:".encode() + name)
    unordered = hashlib.sha256(f"pate records 1 unordered {len(labels)} {groups is not None}\n".encode())
    if groups is None:
        for label, times in zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True):
            for start in range(0, times, _ALIKE):
                unordered.update(f"{label}:0:".encode() * min(_ALIKE, times - start))
    else:
        for label, name in sorted(zip(labels.tolist(), names, strict=True)):
            unordered.update(f"{label}:{len(name)}:".encode() + name)
    return f"{digest.hexdigest()}:{unordered.hexdigest()}"


def votes_fingerprint(counts: npt.NDArray[np.int64], n_teachers: int) -> str:
    """Return a digest of votes without their teachers' records, whatever the order of the rows: **sensitive**.

    Parameters
    ----------
    counts : int64 array of shape (n_queries, n_classes)
    n_teachers : int
    """
    rows = np.ascontiguousarray(counts, dtype="<i8")
    digest = hashlib.sha256(f"pate votes 1 {rows.shape} {n_teachers}\n".encode())
    digest.update(np.ascontiguousarray(rows[np.lexsort(rows.T)]).tobytes())
    return digest.hexdigest()


#: So many rows, and owners, stand for a data set when it is compared with another one.
SKETCH_SIZE = 256
_NUMBER = re.compile(r"([0-9]{1,18})")
#: Ids that fill this much of their range only count: other tables have the same ones.
_COUNTING = 0.25


def recognised_by(rows: Any, labels: npt.NDArray[np.int64], groups: Any = None) -> dict[str, Any]:
    """Return all by which a ledger recognises private records, as fields of its registration: **sensitive**.

    Parameters
    ----------
    rows : table, array, sparse matrix or texts of n_records rows
        As they were read: encoded otherwise they are others.
    labels : int64 array of shape (n_records,)
        Class indices.
    groups : array-like of shape (n_records,) or None

    Returns
    -------
    dict
        ``fingerprint``, see :func:`records_fingerprint`; ``contents``, a digest of all rows in their order; and
        ``sketch``: digests of 256 of the rows that stand once, and of 256 owners, those whose digests are the smallest.
        Owners whose ids only count (whole numbers that fill a quarter of their range) are none: unrelated tables have
        the same ones. Rows that cannot be read so are none either.

    Notes
    -----
    Of two independent samples of one population, a row expected l times stands once with probability l exp(-l), so at
    most 1/e (37%) of the rows that stand once in the one also stand once in the other, however coarse the table.

    Examples
    --------
    >>> X, y = np.arange(60.0).reshape(30, 2), np.zeros(30, dtype=np.int64)
    >>> whole, less = recognised_by(X, y), recognised_by(X[1:], y[1:])
    >>> whole["contents"] == less["contents"], len(set(whole["sketch"][0]) & set(less["sketch"][0]))
    (False, 29)
    """
    try:
        digests = row_digests(rows)
    except Exception:  # an odd cell is its record's own matter: the fingerprint recognises these alone
        digests = []
    names = _owner_names(groups)
    owners = [] if _only_count(names) else [_digest(b"owner " + n.encode("utf-8", "surrogatepass")) for n in names]
    once = [digest for digest, times in Counter(digests).items() if times == 1]
    return {
        "fingerprint": records_fingerprint(labels, groups),
        # Also where the rows cannot be read so: whether there is one is seen in a ledger without its key.
        "contents": hashlib.sha256(b"".join(digests)).hexdigest(),
        "sketch": tuple(tuple(d.hex() for d in sorted(some)[:SKETCH_SIZE]) for some in (once, owners)),
    }


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _owner_names(groups: Any) -> set[str]:
    """Return every known owner's id as a text, 7 and 7.0 as one; whoever's is not known is nobody's."""
    found = set()
    for owner in () if groups is None else plain_column(groups, name="groups"):
        try:
            found.add(str(int(owner)) if isinstance(owner, float | np.floating) and owner == int(owner) else str(owner))
        except Exception:
            continue
    return found


def _only_count(names: set[str]) -> bool:
    """Return whether ids are whole numbers, between few texts such as P, that fill a quarter of their ranges."""
    numbers: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
    for name in names:
        parts = _NUMBER.split(name)
        if len(parts) == 1:
            return False
        numbers.setdefault(tuple(parts[::2]), []).append(tuple(map(int, parts[1::2])))
    span = sum(math.prod(max(place) - min(place) + 1 for place in zip(*held, strict=True)) for held in numbers.values())
    return len(numbers) * 2 <= len(names) and len(names) >= _COUNTING * span
