"""Disjoint partitions: every record, or every group of records, belongs to exactly one shard."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import numbers
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import canonical, check_choice, check_int, quietly
from pate._core.files import atomic_path
from pate._core.frames import plain_column
from pate._core.recorder import note, refuse_in_replay
from pate._core.secret import check_secret, derive, fresh_secret, from_seed
from pate.data._files._npz import read_npz, reason
from pate.exceptions import InvalidInputError

# Ids of people as bytes: equal ids give equal bytes, different ids different ones, independent of the other ids.


def id_bytes(value: Any) -> bytes:
    """Return an id in one form: 1, 1.0 and ``np.int64(1)`` are one id, and ``"1"`` is another.

    Equal is what Python calls equal (as dictionaries and :func:`pandas.factorize` do). Every part stands with its kind
    and length before it, so that no two ids read the same. Texts are compared in NFC, without outer blanks.

    A missing id, and a kind that has no such form, is refused, and not quoted.
    """
    if type(value) is str and value.isascii():  # canonical, without two calls for each of a million ids
        text = value.strip()
        return f"text{len(text)}:{text}".encode()
    kind, body = _parts(value)
    return f"{kind}{len(body)}:".encode() + body


def has_id(value: Any) -> bool:
    """Whether this is a usable id: neither missing, nor blank, nor without a form; decided by it alone."""
    if isinstance(value, str):
        return bool(value.strip())
    try:
        id_bytes(value)
    except Exception:  # an id that raises anything is no usable id
        return False
    return True


def _parts(value: Any) -> tuple[str, bytes]:
    if type(value) is int:  # with texts, by far the most ids
        return "number", str(value).encode()
    if isinstance(value, np.generic) and not isinstance(value, np.longdouble):
        # A datetime64 in nanoseconds would turn into a plain whole number.
        value = _time(value) if value.dtype.kind in "mM" else value.item()
    if isinstance(value, str):
        return "text", canonical(value).encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return "bytes", value
    if isinstance(value, numbers.Real | Decimal):
        return "number", _number(value)
    if isinstance(value, uuid.UUID):
        return "uuid", value.bytes
    if isinstance(value, tuple):
        return "tuple", b"".join(id_bytes(part) for part in value)
    if isinstance(value, dt.datetime | dt.timedelta):
        return _time_parts(_time(value))
    if isinstance(value, dt.date):
        return "date", value.isoformat().encode()
    raise InvalidInputError(
        f"groups has ids of type {type(value).__name__}, which may be written otherwise in the next run. Use texts or "
        "whole numbers."
    )


def _number(value: Any) -> bytes:
    if isinstance(value, numbers.Integral):
        return str(int(value)).encode()
    if not math.isfinite(value):
        if value != value:
            raise InvalidInputError("groups has missing ids (NaN). Give every record an owner or drop it.")
        return str(float(value)).encode()
    top, bottom = value.as_integer_ratio()
    return (f"{top}" if bottom == 1 else f"{top}/{bottom}").encode()


def _time(value: Any) -> Any:
    import pandas as pd

    try:
        made = (pd.Timestamp if isinstance(value, np.datetime64 | dt.datetime) else pd.Timedelta)(value)
        return made.as_unit("ns")
    except (ValueError, OverflowError):
        raise InvalidInputError(
            "groups has dates that are out of range. Use texts such as 2020-01-31, or whole numbers."
        ) from None


def _time_parts(value: Any) -> tuple[str, bytes]:
    if value != value:  # NaT
        raise InvalidInputError("groups has missing ids (NaT). Give every record an owner or drop it.")
    if not hasattr(value, "tz"):
        return "duration", str(value.value).encode()
    # Times with a zone are equal when they are the same moment; never to one without.
    zone = "" if value.tz is None else " UTC"
    return "time", f"{value.value}{zone}".encode()


def distinct_ids(groups: Any, n_records: int) -> tuple[npt.NDArray[np.intp], list[bytes]]:
    """Return each record's group as a number, shape (n_records,), and every group's id as bytes.

    Refuses another length, a missing id, and ids that cannot be distinguished in every run.
    """
    import pandas as pd

    values = groups = plain_column(groups, name="groups")
    if not hasattr(groups, "dtype"):  # one by one: numpy would make a table of ids that are tuples
        given = list(groups)
        values = np.fromiter(given, dtype=object, count=len(given))
    if getattr(values, "ndim", 1) != 1 or len(values) != n_records:
        raise InvalidInputError(
            f"groups must have shape ({n_records},), one id per record, got {np.shape(values)}. "
            "Pass the column that names each record's owner."
        )
    try:
        # Objects as they are: pandas' own type of text takes time, and refuses some (lone surrogates).
        plain = isinstance(values, pd.Series | pd.Index) or values.dtype == np.dtype(object)
        codes, unique = pd.factorize(values if plain else pd.Series(values))
    except TypeError:
        raise InvalidInputError("groups has ids that cannot be compared. Use texts or whole numbers.") from None
    if (codes < 0).any() or any(isinstance(u, str) and not u.strip() for u in unique):
        raise InvalidInputError(
            "groups has missing ids (None, NaN or empty). Give every record an owner or drop it: "
            "a record of unknown owner could put one person into two shards."
        )
    ids = [id_bytes(value) for value in unique.tolist()]
    places: dict[bytes, int] = {}
    merged = np.array([places.setdefault(one, len(places)) for one in ids], dtype=np.intp)
    return merged[codes], list(places)  # one moment or text written in two ways is one id


# The cut.

_FORMAT = 1


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Which shard each record belongs to; build it with :func:`partition`.

    The assignment is one number per record, so that no record can be in two shards.

    Attributes
    ----------
    assignment : int32 array of shape (n_records,)
        The shard of each record, read-only.
    n_shards : int
    unit : str
        What one shard holds whole: ``"record"`` or ``"group"``.
    n_units : int
        Number of records, or of groups.

    Examples
    --------
    >>> p = Partition([0, 1, 0, 1], n_shards=2)
    >>> p, p.shard(1)
    (Partition(n_records=4, n_shards=2, unit='record', n_units=4), array([1, 3]))
    """

    assignment: npt.NDArray[np.int32]
    n_shards: int
    unit: str = "record"
    n_units: int = -1  # replaced by the number of records

    def __post_init__(self) -> None:
        given = np.asarray(self.assignment)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise InvalidInputError(
                f"assignment must be whole numbers of shape (n_records,), got {given.dtype} of shape {given.shape}. "
                "Build a Partition with partition(...)."
            )
        n_shards = check_int("n_shards", self.n_shards, low=1)
        check_choice("unit", self.unit, ["record", "group"])
        n_units = len(given) if self.n_units == -1 and self.unit == "record" else self.n_units
        n_units = check_int("n_units", n_units, low=n_shards, high=max(len(given), n_shards))
        if self.unit == "record" and n_units != len(given):
            raise InvalidInputError(
                f"n_units must be the number of records ({len(given)}) when unit is 'record', got {n_units}. "
                "Leave n_units out."
            )
        if given.size and (given.min() < 0 or given.max() >= n_shards):
            raise InvalidInputError(
                f"assignment must hold shards 0 to {n_shards - 1}; it does not. Build a Partition with partition(...)."
            )
        # Groups are dealt by their ids alone, and may leave a shard empty. Places are dealt evenly.
        if self.unit == "record" and (np.bincount(given, minlength=n_shards) == 0).any():
            raise InvalidInputError(
                f"assignment leaves some of the {n_shards} shards empty. Every shard needs a record: ask for fewer."
            )
        own = np.array(given, dtype=np.int32)
        own.setflags(write=False)
        object.__setattr__(self, "assignment", own)
        object.__setattr__(self, "n_shards", n_shards)
        object.__setattr__(self, "n_units", n_units)

    def __repr__(self) -> str:
        return (
            f"Partition(n_records={self.n_records}, n_shards={self.n_shards}, unit={self.unit!r}, "
            f"n_units={self.n_units})"
        )

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.assignment)

    @property
    def adjacency(self) -> str:
        """Which data sets count as neighbours: ``"replace-one"``, one unit's data swapped for another's."""
        return "replace-one"

    def shard(self, i: int) -> npt.NDArray[np.int64]:
        """Return the indices of shard ``i``'s records, ascending: int64 of shape (n_records_of_shard,).

        Examples
        --------
        >>> partition(5, 2).shard(0).dtype
        dtype('int64')
        """
        i = check_int("shard", i, low=0, high=self.n_shards - 1)
        return np.flatnonzero(self.assignment == i).astype(np.int64, copy=False)

    def shards(self) -> Iterator[npt.NDArray[np.int64]]:
        """Iterate over the shards in order, in one pass of sorting instead of ``n_shards`` scans.

        Examples
        --------
        >>> [len(s) for s in partition(7, 3).shards()]
        [3, 2, 2]
        """
        order = np.argsort(self.assignment, kind="stable").astype(np.int64, copy=False)
        ends = np.cumsum(np.bincount(self.assignment, minlength=self.n_shards))
        for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
            yield order[start:end]

    def fingerprint(self) -> str:
        """Return a SHA-256 hex digest of this partition, by which a checkpoint recognises it.

        It is taken over who shares a shard with whom, never over values of the records.

        Examples
        --------
        >>> a, b = partition(9, 3, partition_seed=0), partition(9, 3, partition_seed=1)
        >>> (
        ...     a.fingerprint() == partition(9, 3, partition_seed=0).fingerprint(),
        ...     a.fingerprint() == b.fingerprint(),
        ... )
        (True, False)
        """
        head = f"pate.Partition {_FORMAT} {self.n_records} {self.n_shards} {self.unit} {self.n_units}\n"
        digest = hashlib.sha256(head.encode())
        digest.update(self.assignment.astype("<i4", copy=False).tobytes())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the partition to an npz file, readable by its owner only (it shows who shares a shard).

        Examples
        --------
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "shards.npz"
        >>> p = partition(9, 3)
        >>> p.save(file)
        >>> Partition.load(file).fingerprint() == p.fingerprint()
        True
        """
        refuse_in_replay("partition that is kept")
        with atomic_path(path, mode=0o600) as part, open(part, "wb") as file:
            np.savez_compressed(
                file,
                format=np.int64(_FORMAT),
                assignment=self.assignment,
                n_shards=np.int64(self.n_shards),
                n_units=np.int64(self.n_units),
                unit=np.array(self.unit),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Partition:
        """Read a partition written by :meth:`save`; nothing is unpickled.

        Raises
        ------
        InvalidInputError
            The file is missing, truncated, or holds something else.

        Examples
        --------
        >>> Partition.load("no-such-file.npz")
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: no partition at no-such-file.npz. Give the file that Partition.save wrote.
        """
        if not Path(path).is_file():
            raise InvalidInputError(f"no partition at {path}. Give the file that Partition.save wrote.")
        stored = read_npz(path, what="partition", remedy="It may be truncated: cut the partition again.")
        try:
            if set(stored) != {"format", "assignment", "n_shards", "n_units", "unit"}:
                raise ValueError("other arrays than a partition's")
            numbers = {name: stored[name] for name in ("format", "n_shards", "n_units")}
            if any(a.shape != () or a.dtype.kind not in "iu" for a in numbers.values()) or stored["unit"].ndim:
                raise ValueError("numbers of another kind")
            if int(numbers["format"]) != _FORMAT:
                raise ValueError("another format")
            # More shards than records is refused before anything of that length is made.
            if int(numbers["n_shards"]) > len(np.atleast_1d(stored["assignment"])):
                raise ValueError("more shards than records")
            unit = str(stored["unit"])
            return cls(stored["assignment"], int(numbers["n_shards"]), unit, int(numbers["n_units"]))
        except ValueError as error:
            # Not quoted: what is in the file may be private.
            raise InvalidInputError(
                f"{path} is not a readable partition ({reason(error)}). Give the file that Partition.save wrote."
            ) from None


def partition(
    n_records: int,
    n_shards: int,
    *,
    groups: Any = None,
    secret: bytes | None = None,
    partition_seed: int | None = None,
) -> Partition:
    """Split records into disjoint shards by a secret key, by record or by group.

    Parameters
    ----------
    n_records : int
    n_shards : int
        At most ``n_records``, or at most the number of groups.
    groups : array-like of shape (n_records,) or None
        Who each record belongs to (a patient, a user): texts, numbers, dates, UUIDs or tuples of such. All records of a
        group go to one shard: user-level privacy.
    secret : bytes or None
        At least 16 from the operating system (``secrets.token_bytes(32)``): the same secret cuts the same data alike.
        **Sensitive**, and good for one data set. None draws one, used once and forgotten.
    partition_seed : int or None
        Instead of a secret: a seed that may be known, for experiments and tests that are to be repeated. The guarantee
        is then narrower; see Notes.

    Returns
    -------
    Partition
        By record, shard sizes differ by at most 1. By group, each group is assigned independently: shards hold about
        ``n_groups / n_shards`` groups, more or fewer by its square root, and some may be **empty**.

    Raises
    ------
    InvalidInputError
        Fewer records or groups than shards, ``groups`` of another length, a missing group id, or a secret that is none.

    Notes
    -----
    **The rule.** A group's shard is a keyed hash of its id (BLAKE2b), so no group's shard depends on any other group.
    Records without ids are dealt out in the order of keyed pseudo-random numbers (SHAKE-256), one per place in the
    file. Labels and values are never looked at.

    **Guarantees.** Neighbouring data sets have equally many units, and differ in one unit.

    - *The unit keeps its id (its place), and its records are replaced by any others*: everyone's shard is the same for
      both neighbours, so one shard differs, whatever the key is.
    - *The person a is replaced by a person b of another id.* For a given key that is two shards: a's loses one person,
      b's gains one. But the key is secret. Let h be the function from ids to shards. Under the key it is a random one
      (as far as a keyed hash is indistinguishable from one): its values are independent and of one law, so h and
      h' = h o (a b), which exchanges the values of a and b, are equally likely. The data with a under h, and the data
      with b instead under h', put everyone else into the same shards (neither data set has both a and b), and a and b
      into the same one: *one* shard differs. So for every h the two mechanisms are within the (epsilon, delta), Renyi
      divergence or trade-off curve of a single changed shard, and the mixtures over h, which has the same law in both,
      are within it too, by joint convexity (for Renyi divergences, quasi-convexity). The bijection is the same for all
      that is ever released under one secret, so that holds for the whole transcript, however adaptive.
    - *A record is removed, and another put in anywhere in the file* (a sorted file, say). Others move up or down one
      place, in the order they had. A uniform order of the places is as likely as the one composed with that move, and
      under it one shard differs: the same argument. It asks one order of the file per secret, in both data sets, or
      secrets drawn independently of them. :class:`pate.TeacherEnsemble` derives a secret of its own for each list of
      labels; a :class:`pate.Ledger` takes one list alone, until :meth:`pate.Ledger.revise` has a new secret drawn.

    An adversary who knows the key can distinguish the two shards in the second case, or follow every move in the third.
    So with ``partition_seed`` the guarantee is for neighbours of the first kind alone, and statements say so.

    The number of groups is fixed between neighbours (it may be published); the number of records is not.

    Examples
    --------
    >>> p = partition(10, 3)
    >>> p, [len(p.shard(i)) for i in range(3)]
    (Partition(n_records=10, n_shards=3, unit='record', n_units=10), [4, 3, 3])
    >>> patients = ["a", "b", "a", "c", "b", "a"]
    >>> p = partition(6, 2, groups=patients, partition_seed=1)
    >>> sorted(p.shard(i).tolist() for i in range(2))
    [[0, 2, 5], [1, 3, 4]]
    >>> partition(3, 5)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_shards must be at most the number of records (3), got 5. ...
    """
    n_records = check_int("n_records", n_records, low=1)
    n_shards = check_int("n_shards", n_shards, low=1)
    key = _key(secret, partition_seed)
    codes, ids = (None, None) if groups is None else quietly("groups", distinct_ids, groups, n_records)
    n_units = n_records if ids is None else len(ids)
    unit = "record" if ids is None else "group"
    if n_shards > n_units:
        raise InvalidInputError(
            f"n_shards must be at most the number of {unit}s ({n_units}), got {n_shards}. "
            "Ask for fewer shards (teachers): each needs at least one."
        )
    if codes is None or ids is None:
        made = Partition(_dealt_places(key, n_records, n_shards), n_shards)
    else:
        made = Partition(_hashed_ids(key, ids, n_shards)[codes], n_shards, unit, n_units)
    note("partition", partition=made)
    return made


def _key(secret: bytes | None, partition_seed: int | None) -> bytes:
    if partition_seed is None:
        return fresh_secret() if secret is None else check_secret(secret)
    if secret is not None:
        raise InvalidInputError(
            "secret and partition_seed must not both be given: each decides which shard a record is in. Leave one out."
        )
    return from_seed(check_int("partition_seed", partition_seed, low=0, remedy="None takes a secret."))


def _hashed_ids(key: bytes, ids: list[bytes], n_shards: int) -> npt.NDArray[np.int32]:
    """Return the shard of each id, a function of the key and the id alone."""
    keyed = hashlib.blake2b(key=derive(key, "ids"), digest_size=16)

    def shard_of(one: bytes) -> int:
        digest = keyed.copy()
        digest.update(one)
        return int.from_bytes(digest.digest(), "big") % n_shards

    return np.fromiter(map(shard_of, ids), dtype=np.int32, count=len(ids))


def _dealt_places(key: bytes, n_records: int, n_shards: int) -> npt.NDArray[np.int32]:
    """Return the shard of each place in the file, all shards equally large."""
    stream = hashlib.shake_256(derive(key, f"places {n_records} {n_shards}")).digest(16 * n_records)
    high, low = np.frombuffer(stream, dtype="<u8").reshape(n_records, 2).T
    shards = np.empty(n_records, dtype=np.int32)
    shards[np.lexsort((low, high))] = np.arange(n_records) % n_shards
    return shards
