"""Find misplaced rows: public rows among the private ones, one row in two shards; only the curator is warned."""

from __future__ import annotations

import filecmp
import hashlib
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, pairwise
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate._core.checks import canonical, quietly
from pate._core.curator import warn
from pate._core.files import let_go
from pate._core.frames import plain_column, plain_rows
from pate._core.secret import system_bytes
from pate.data._columns import as_float, holds_numbers
from pate.data._files._arrow import Database
from pate.data.partition import Partition, has_id, id_bytes
from pate.exceptions import InvalidInputError, PublicOverlapWarning

_REMEDY = (
    "Name other public rows; or, if these are public all the same, say so: overlap_is_public=True "
    "(--overlap-is-public). Nothing was trained or spent."
)
#: A mistake must stand out from coincidence by so many standard deviations, and be that of at least the square of it
#: units (people, or records): five deviations of a Poisson number cannot be seen below 25.
_SIGMAS = 5.0
_WARN_SIGMAS = 3.0
_CHUNK_BYTES = 32_000_000


def check_other_file(private: str | os.PathLike[str], public: str | os.PathLike[str]) -> None:
    r"""Refuse one file, or two with the same bytes, as both sides of a job.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_text("age\n1\n")
    >>> check_other_file(file, file)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: private and public are one file ('a.csv'): ...
    """
    bases = Database.of(private), Database.of(public)
    if bases[0] is None and bases[1] is None and not (os.path.exists(private) and os.path.exists(public)):
        return  # the readers say so better
    same = _same_table(*bases) if any(bases) else os.path.samefile(private, public)
    both = os.path.isfile(private) and os.path.isfile(public)
    if not same and not (both and filecmp.cmp(private, public, shallow=False)):
        return
    what = f"one file ({os.path.basename(public)!r})" if same else "copies of one file"
    raise InvalidInputError(
        f"private and public are {what}: what is released would be labels of private rows. {_REMEDY}"
    )


def _same_table(one: Database | None, two: Database | None) -> bool:
    """Whether two names are of one table, or of one query, in one file, however its folder is written."""
    if one is None or two is None or (one.kind, one.table, one.query) != (two.kind, two.table, two.query):
        return False
    return one.path == two.path or (one.path.exists() and two.path.exists() and one.path.samefile(two.path))


def check_public_rows(private: Any, public: Any, groups: Any = None) -> None:
    """Check whether private records are among the public rows; warn of a few, refuse if most public rows are private.

    Parameters
    ----------
    private, public : array, DataFrame, sparse matrix or texts, with the same columns
        Equal are rows whose cells are equal: 1 and 1.0, 0.0 and -0.0, and two missing cells are; texts in NFC, without
        outer blanks.
    groups : array-like of shape (n_records,) or None
        The owner of each record.

    Raises
    ------
    InvalidInputError
        The public rows are the private object itself, or mostly private rows.

    Warns
    -----
    PublicOverlapWarning
        More public rows are among the private ones than coincidence explains. The release goes on.

    Notes
    -----
    **What counts as coincidence.** In a coarse table unrelated people have equal rows. Of rows drawn like private ones,
    the share that equals none of them is about the share p of private rows that stand there once (Good 1953; taken unit
    by unit, so that no unit weighs more than one). With m distinct public rows one expects E = m p new ones. It is a
    mix-up where fewer than half of E are new and by more than five standard deviations, those that one unit alone
    accounts for not counted, and the rows found are those of 25 units or more.

    **What one unit can do.** A warning changes nothing that is released. A refusal depends on the private records, so
    some record is decisive at the margin, as with any threshold; but what one unit holds cannot cause it unless 24
    *others* have rows in the public file, and nearly as many public rows are theirs as would do. One unit can prevent
    it (by copies of everyone's rows), which is as if nothing had been checked. The refusal comes before any training
    or charge, nothing is released with it, and it is shown only to the holder of the private data, who knows them.
    **Assumed:** the curator does not publish that a job was refused. Who declares the rows public
    (``overlap_is_public``) gets the same release whatever the records are.

    **Guarantees.** Rows are compared by 64-bit BLAKE2b digests under a key drawn for this call and kept in memory
    alone; two of n and m different rows are taken for equal with probability at most n m / 2^64.

    Examples
    --------
    >>> private = np.arange(200.0).reshape(100, 2)
    >>> check_public_rows(private, private + 0.5)
    >>> check_public_rows(private, private[::2].copy())
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: most of the public rows stand among the private records. ...
    """
    if private is public:
        raise InvalidInputError(f"the public rows are the private records themselves. {_REMEDY}")
    held, shown = _digests(plain_rows(private), plain_rows(public, name="X_public"))
    rows = np.unique(shown)
    found = np.isin(rows, held)
    n_rows, n_found = len(rows), int(found.sum())
    if not n_found:
        return
    units = np.arange(len(held)) if groups is None else _numbered(groups)
    share_new = _share_once(held, units)
    expected_new, chance = n_rows * share_new, n_rows * (1 - share_new)
    n_units, n_by_one = _who(held, units, rows[found])
    n_new = n_rows - n_found + n_by_one  # as if the unit that accounts for most had not been there
    mix_up = n_new < min(expected_new / 2, expected_new - _SIGMAS * math.sqrt(expected_new))
    if mix_up and n_units >= _SIGMAS**2:
        raise InvalidInputError(
            "most of the public rows stand among the private records. What is released would be labels of private "
            f"rows. {_REMEDY} Do not publish that this was refused: it depends on the private records."
        )
    if n_found > chance + _WARN_SIGMAS * math.sqrt(chance * share_new):
        warn(
            f"{n_found} of {n_rows} distinct public rows stand among the private records, where coincidence explains "
            f"about {chance:.0f}. Are they private? Then leave them out. This is for the curator alone: it depends on "
            "the private records, and changes nothing that is released.",
            PublicOverlapWarning,
        )


def row_digests(rows: Any) -> list[bytes]:
    """Return 16 bytes for every row, in every process the same where the cells are: **sensitive**.

    Equal are cells as for :func:`check_public_rows`; pixels, numbers of one byte, are equal to pixels alone.
    """
    given: Any = plain_rows(rows)
    if sparse.issparse(given):
        matrix: Any = given
        found = _sparse_rows(sparse.csr_array(matrix, dtype=np.float64, copy=True))
    else:
        table = given if hasattr(given, "iloc") else np.asarray(given)
        if hasattr(given, "iloc") or table.dtype.kind not in "biuf":
            table = table if hasattr(given, "iloc") else np.asarray(given, dtype=object)
            columns = [(c, _bits) if c.dtype.kind in "biuf" else (_cell_words(c), _as_is) for c in _coded(table)]
            found = _column_rows(columns)
        elif table.dtype.itemsize == 1:
            found = (row.tobytes() for row in table)
        else:
            found = _dense_rows(table, np.dtype(np.float64))
    return [hashlib.blake2b(row, digest_size=16).digest() for row in found]


def count_cross_shard_duplicates(X: Any, p: Partition) -> int:
    """Count the distinct rows that occur in more than one shard: **sensitive**.

    One person entered twice, in two shards, reaches two teachers and breaks the guarantee. The number is
    **private** (it depends on every record): show it to the curator on the terminal, write it nowhere.

    Notes
    -----
    Rows are compared by 128-bit BLAKE2b digests; equal are cells as for :func:`check_public_rows`.

    Examples
    --------
    >>> from pate.data import Partition
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]])
    >>> count_cross_shard_duplicates(X, Partition([0, 0, 1, 0], n_shards=2))
    1
    """
    if getattr(X, "shape", (0,))[0] == p.n_records and quietly("X", _all_differ, X):
        return 0
    digests = quietly("X", row_digests, X)
    if len(digests) != p.n_records:
        raise InvalidInputError(f"X must have {p.n_records} rows, one per record of the partition, got {len(digests)}.")
    n_shards = Counter(digest for digest, _ in set(zip(digests, p.assignment.tolist(), strict=True)))
    return sum(n > 1 for n in n_shards.values())


def _cell_words(cells: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return 64 bits for every cell: of a number its own, so that no other cell of its column changes them."""
    known: dict[bytes, int] = {}
    numbers = np.full(len(cells), np.nan)
    words = np.zeros(len(cells), dtype=np.uint64)
    for i, cell in enumerate(cells):
        if cell is None or isinstance(cell, Real):
            with suppress(Exception):  # a whole number that is too long for a float is a text
                numbers[i] = np.nan if cell is None else float(cell)
                continue
        name = id_bytes(cell) if has_id(cell) else _written(cell).encode("utf-8", "surrogatepass")
        if name not in known:
            known[name] = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        words[i] = known[name]
    return np.where(words > 0, words, _canonical(numbers).view(np.uint64))


def _share_once(held: npt.NDArray[np.uint64], units: npt.NDArray[np.int64]) -> float:
    """Return the share of a unit's rows that stand once, the mean over units: no unit counts for more than one."""
    _, inverse, counts = np.unique(held, return_inverse=True, return_counts=True)
    once = np.bincount(units, weights=counts[inverse] == 1) / np.bincount(units)
    return float(once.mean())


def _who(held: npt.NDArray[np.uint64], units: npt.NDArray[np.int64], rows: npt.NDArray[np.uint64]) -> tuple[int, int]:
    """Return how many units hold any of ``rows``, and the most of them that one unit alone accounts for."""
    mine = np.isin(held, rows)
    pairs = np.unique(np.stack([np.searchsorted(rows, held[mine]), units[mine]]), axis=1)
    alone = np.bincount(pairs[0], minlength=len(rows))[pairs[0]] == 1
    n_by_one = int(np.bincount(pairs[1][alone]).max()) if alone.any() else 0
    return len(np.unique(pairs[1])), n_by_one


def _numbered(groups: Any) -> npt.NDArray[np.int64]:
    """Return each record's unit as a number; one of unknown owner is a unit of its own."""
    number: dict[Any, int] = {}
    groups = plain_column(groups, name="groups")
    given = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    names = (id_bytes(group) if has_id(group) else (i,) for i, group in enumerate(given))
    return np.array([number.setdefault(name, len(number)) for name in names], dtype=np.int64)


def _digests(private: Any, public: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return a keyed digest of every row of both sides."""
    key = system_bytes(32)
    if sparse.issparse(private) or sparse.issparse(public):
        sides = [sparse.csr_array(side, dtype=np.float64, copy=True) for side in (private, public)]
        return _hashed(_sparse_rows(sides[0]), key), _hashed(_sparse_rows(sides[1]), key)
    one, two = (side if hasattr(side, "iloc") else np.asarray(side) for side in (private, public))
    if all(not hasattr(side, "iloc") and side.dtype.kind in "biuf" for side in (one, two)):
        low = _coarser(one.dtype, two.dtype)
        return _hashed(_dense_rows(one, low), key), _hashed(_dense_rows(two, low), key)
    columns = [_paired(a, b) for a, b in zip(_coded(one), _coded(two), strict=True)]
    return _hashed(_column_rows([c[0] for c in columns]), key), _hashed(_column_rows([c[1] for c in columns]), key)


def _coded(side: Any) -> list[npt.NDArray[Any]]:
    """Return the columns of a table as arrays: of numbers, or of whatever cells there are."""
    if not hasattr(side, "iloc"):
        table = np.asarray(side)
        table = table.reshape((-1, 1) if table.ndim == 1 else (len(table), -1))
        return [table[:, j] for j in range(table.shape[1])]
    columns = [side.iloc[:, j] for j in range(side.shape[1])] if side.ndim == 2 else [side]
    return [_plain_cells(column) for column in columns]


def _plain_cells(column: Any) -> npt.NDArray[Any]:
    if not holds_numbers(column.dtype):
        return np.asarray(column.to_numpy(dtype=object))
    return np.asarray((column if isinstance(column.dtype, np.dtype) else as_float(column)).to_numpy())


#: Cells of a column, and what makes of some of them what is compared: a whole table of that is never there at once.
_Column = tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], npt.NDArray[Any]]]


def _paired(one: npt.NDArray[Any], two: npt.NDArray[Any]) -> tuple[_Column, _Column]:
    """Return a column of both sides as comparable numbers: their own, or the number of a cell among all cells."""
    if one.dtype.kind in "biuf" and two.dtype.kind in "biuf":
        rounded = partial(_rounded, low=_coarser(one.dtype, two.dtype))
        return (one, rounded), (two, rounded)
    import pandas as pd

    n_cells = len(one) + len(two)
    cells = np.fromiter(map(canonical, chain(one.tolist(), two.tolist())), dtype=object, count=n_cells)
    try:
        codes, _ = pd.factorize(cells)
    except Exception:  # cells that cannot be compared as they are, such as lists
        codes, _ = pd.factorize(np.array([_written(cell) for cell in cells], dtype=object))
    numbers = codes.astype(np.float64)
    return (numbers[: len(one)], _as_is), (numbers[len(one) :], _as_is)


def _as_is(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return cells


def _bits(cells: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    return _canonical(cells).view(np.uint64)


def _written(cell: Any) -> str:
    try:
        return repr(cell)
    except Exception:  # a whole number that is too long
        return f"a {type(cell).__name__}"


def _coarser(one: np.dtype[Any], two: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type both sides are rounded to: 0.1 read as float32 is a row's 0.1 all the same."""
    floats = [d for d in (one, two) if d.kind == "f" and d.itemsize < 8]
    return min(floats, key=lambda d: d.itemsize) if floats else np.dtype(np.float64)


def _rounded(numbers: npt.NDArray[Any], low: np.dtype[Any]) -> npt.NDArray[np.float64]:
    with np.errstate(all="ignore"):  # what overflows the coarser type is as equal as it gets
        return numbers.astype(low).astype(np.float64)


def _dense_rows(rows: npt.NDArray[Any], low: np.dtype[Any]) -> Iterator[bytes]:
    for block in _blocks(rows, low):
        yield from _row_bytes(block)


def _blocks(rows: npt.NDArray[Any], low: np.dtype[Any]) -> Iterator[npt.NDArray[np.float64]]:
    flat = rows.reshape(len(rows), -1)
    step = max(1, _CHUNK_BYTES // (8 * max(1, flat.shape[1])))
    for start in range(0, len(flat), step):
        yield _rounded(flat[start : start + step], low)


def _all_differ(X: Any) -> bool:
    """Whether a quick look at an array of numbers shows that no two rows are equal: equal rows have equal keys."""
    rows = plain_rows(X)
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf" or rows.ndim < 2:
        return False
    odd = np.cumprod(np.full(rows[0].size, 0x9E3779B97F4A7C15, dtype=np.uint64))  # powers of an odd number
    words = map(_bits, _blocks(rows, np.dtype(np.float64)))
    keys = np.concatenate([((w ^ (w >> np.uint64(32))) * odd).sum(axis=1, dtype=np.uint64) for w in words])
    return len(np.unique(keys)) == len(keys)


def _column_rows(columns: Sequence[_Column]) -> Iterator[bytes]:
    n, step = len(columns[0][0]), max(1, _CHUNK_BYTES // (8 * len(columns)))
    for start in range(0, n, step):
        yield from _row_bytes(np.column_stack([turn(cells[start : start + step]) for cells, turn in columns]))
        let_go()


def _sparse_rows(matrix: Any) -> Iterator[bytes]:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    places, cells, ends = matrix.indices.astype(np.int64), _canonical(matrix.data), matrix.indptr
    for start, stop in pairwise(ends):
        yield places[start:stop].tobytes() + cells[start:stop].tobytes()


def _row_bytes(block: npt.NDArray[Any]) -> Iterator[bytes]:
    data = (_canonical(block) if block.dtype.kind == "f" else block).tobytes()
    width = 8 * block.shape[1]
    return (data[i : i + width] for i in range(0, len(data), width))


def _canonical(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return equal numbers as equal bits: -0.0 becomes 0.0, and every NaN the same one."""
    made = np.ascontiguousarray(numbers, dtype=np.float64) + 0.0
    made[np.isnan(made)] = np.nan
    return made


def _hashed(rows: Iterator[bytes], key: bytes) -> npt.NDArray[np.uint64]:
    found = b"".join(hashlib.blake2b(row, digest_size=8, key=key).digest() for row in rows)
    return np.frombuffer(found, dtype=np.uint64)


# By what a ledger recognises private records, or the votes of teachers that were trained on them.

#: So many equal records are digested at once.
_ALIKE = 1 << 16


def records_fingerprint(labels: npt.NDArray[np.int64], groups: Any = None) -> str:
    """Return two digests ``A:B`` of the private records' labels and owners, to recognise the data: **sensitive**.

    A depends on the order of the records, B does not: sorted differently they are still the same. Features do not
    enter: if they are scaled, encoded or dropped differently, the records are still the same people's, and belong to
    the same ledger.

    Labels are class indices, int64 of shape (n_records,); as many owners as labels, or None.

    Examples
    --------
    >>> a, b = (
    ...     records_fingerprint(np.array([0, 1])),
    ...     records_fingerprint(np.array([0, 1]), ["x", "y"]),
    ... )
    >>> a == records_fingerprint(np.array([0, 1])), a == b
    (True, False)
    >>> c = records_fingerprint(np.array([1, 0]), ["y", "x"])
    >>> [p == q for p, q in zip(b.split(":"), c.split(":"))]
    [False, True]
    """
    digest = hashlib.sha256(f"pate records 1 {len(labels)} {groups is not None}\n".encode())
    digest.update(np.ascontiguousarray(labels, dtype="<i8").tobytes())
    groups = plain_column(groups, name="groups")
    owners = [] if groups is None else quietly("groups", lambda: [str(canonical(owner)) for owner in groups])
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

    Examples
    --------
    >>> votes_fingerprint(np.array([[3, 0], [1, 2]]), 3) == votes_fingerprint(
    ...     np.array([[1, 2], [3, 0]]), 3
    ... )
    True
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
    """Return the fields by which a ledger recognises private records: **sensitive**.

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
    >>> (
    ...     whole["contents"] == less["contents"],
    ...     len(set(whole["sketch"][0]) & set(less["sketch"][0])),
    ... )
    (False, 29)
    """
    try:
        digests = row_digests(rows)
    except Exception:  # rows with odd cells are recognised by the fingerprint alone
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
    """Return every known owner's id as a text, 7 and 7.0 as one; unknown owners are left out."""
    found = set()
    for owner in () if groups is None else plain_column(groups, name="groups"):
        try:
            found.add(
                str(int(owner))
                if isinstance(owner, float | np.floating) and owner == int(owner)
                else str(canonical(owner))
            )
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
