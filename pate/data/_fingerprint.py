"""By what a ledger recognises private records, or the votes of teachers that were trained on them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import quietly
from pate.core.frames import plain_column
from pate.exceptions import InvalidInputError


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
    pairs = sorted(zip(labels.tolist(), names or [b""] * len(labels), strict=True))
    unordered = hashlib.sha256(f"pate records 1 unordered {len(labels)} {groups is not None}\n".encode())
    for label, name in pairs:
        unordered.update(f"{label}:{len(name)}:".encode() + name)
    return f"{digest.hexdigest()}:{unordered.hexdigest()}"


def votes_fingerprint(counts: npt.NDArray[np.int64], n_teachers: int) -> str:
    """Return a digest of votes without their teachers' records, whatever the order of the rows: **sensitive**.

    Parameters
    ----------
    counts : int64 array of shape (n_queries, n_classes)
    n_teachers : int

    Examples
    --------
    >>> a, b = np.array([[8, 2], [5, 5]]), np.array([[5, 5], [8, 2]])
    >>> votes_fingerprint(a, 10) == votes_fingerprint(b, 10), votes_fingerprint(a, 10) == votes_fingerprint(a[:1], 10)
    (True, False)
    """
    rows = np.ascontiguousarray(counts, dtype="<i8")
    digest = hashlib.sha256(f"pate votes 1 {rows.shape} {n_teachers}\n".encode())
    digest.update(np.ascontiguousarray(rows[np.lexsort(rows.T)]).tobytes())
    return digest.hexdigest()
