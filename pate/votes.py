"""Teachers' votes, sensitive and checked once, and the interface of everything that votes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pate._core.checks import cell_kind, check_classes, check_int, quietly, unmasked
from pate._core.pages import cell as as_cell
from pate._core.recorder import note
from pate.exceptions import InvalidInputError

#: The label of a query that was not answered.
ABSTAIN = -1
_COUNTED_ROWS = 65_536


def hash_queries(X: Any) -> tuple[str, ...]:
    """Return a SHA-256 digest for every public row, so that the same query is recognised later.

    Parameters
    ----------
    X : array or DataFrame of shape (n_queries, n_features)
    """
    if hasattr(X, "columns"):
        header = repr([str(c) for c in X.columns]).encode()
        rows = (_plain_repr(row) for row in X.itertuples(index=False, name=None))
    else:
        array = np.ascontiguousarray(X)
        header = f"{array.dtype.str}{array.shape[1:]}".encode()
        if array.dtype.kind == "O":
            rows = (_plain_repr(row.tolist()) for row in array)
        else:
            rows = (row.tobytes() for row in array)
    return tuple(hashlib.sha256(header + b"\0" + row).hexdigest() for row in rows)


def _plain_repr(row: Any) -> bytes:
    for cell in row:
        if hasattr(cell, "__len__") and not isinstance(cell, str | bytes):
            # numpy shortens the repr of long arrays: different rows would look the same.
            raise InvalidInputError(
                f"public rows must hold plain cells, got a {type(cell).__name__} in one. Flatten it."
            )
    return repr(tuple(row)).encode()


@dataclass(frozen=True, eq=False, repr=False)
class Votes:
    """The teachers' votes on a batch of rows: **sensitive** until :func:`pate.release_labels` adds noise.

    Build it with :meth:`from_counts` or :meth:`from_labels`. Every row of ``counts`` is checked to hold at most one
    vote of each teacher: all costs assume that one teacher moves two counts by at most one.

    Attributes
    ----------
    counts : int array of shape (n_queries, n_classes)
        Votes per class; every row sums to ``n_teachers``.
    labels : int array of shape (n_teachers, n_queries) or None
        Each teacher's vote as a class index, when kept.
    n_teachers : int
    classes : tuple
        The public class values, in the order of the columns.
    unit : str
        What one shard protects whole: ``"record"``, or ``"group"`` when shards were cut by groups.
    n_units : int or None
        Number of protected units in the private data (public under replace-one adjacency).
    query_hashes : tuple of str or None
        One digest per query (public), by which a ledger recognises a query answered before.
    classes_inferred : bool
        True when the set of classes was read off the private labels, which the statement then says.
    fingerprint : str or None
        A digest by which a ledger recognises the private records: **sensitive**, and stored under a secret key only.
    partition_seeded : bool
        True when the shards were cut by a seed that may be known, not by a secret: the statement then says so.
    races : tuple of int
        The public seeds of the races by which votes were drawn (:class:`pate.CoordinatedVoter`); empty where none were.

    Examples
    --------
    >>> Votes.from_counts([[8, 2], [5, 5]])
    Votes(n_queries=2, n_classes=2, n_teachers=10, counts=<sensitive>)
    """

    counts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.signedinteger[Any]] | None
    n_teachers: int
    classes: tuple[Any, ...]
    unit: str = "record"
    n_units: int | None = None
    query_hashes: tuple[str, ...] | None = None
    classes_inferred: bool = False
    fingerprint: str | None = None
    partition_seeded: bool = False
    races: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        counts = self.counts
        if (
            not isinstance(counts, np.ndarray)
            or counts.dtype.kind not in "iu"
            or counts.shape != (len(counts), len(self.classes))
        ):
            raise InvalidInputError(
                f"counts must be whole numbers of shape (n_queries, {len(self.classes)}), one column per class. "
                "Use Votes.from_counts."
            )
        if counts.size and counts.min() < 0:
            raise InvalidInputError("counts must be >= 0. A count is the number of teachers voting for a class.")
        # No count above them first: sums of 64 bits can wrap around.
        if counts.size and (counts.max() > self.n_teachers or (counts.sum(axis=1) > self.n_teachers).any()):
            raise InvalidInputError(
                f"counts must have rows of at most one vote of each of the {self.n_teachers} teachers; they have more. "
                "Use Votes.from_counts."
            )
        if self.labels is not None and self.labels.shape != (self.n_teachers, len(counts)):
            raise InvalidInputError(
                f"labels must have shape (n_teachers, n_queries) = {(self.n_teachers, len(counts))}, got "
                f"{self.labels.shape}."
            )
        _check_described(self.unit, self.query_hashes, len(counts))
        if counts.flags.writeable:  # what was checked is what is released
            object.__setattr__(self, "counts", _frozen(counts.copy()))
        note("votes", votes=self)

    @classmethod
    def from_counts(
        cls,
        counts: npt.ArrayLike,
        *,
        n_teachers: int | None = None,
        classes: Any = None,
        unit: str = "record",
        n_units: int | None = None,
        query_hashes: tuple[str, ...] | None = None,
    ) -> Votes:
        """Check a matrix of vote counts.

        Parameters
        ----------
        counts : array-like of shape (n_queries, n_classes)
            Whole numbers >= 0. Rows must all sum to ``n_teachers``; None takes the common sum.
        n_teachers : int or None
        classes : iterable or None
            Class values by column; None means 0, 1, ...
        unit, n_units, query_hashes
            See the attributes.

        Raises
        ------
        InvalidInputError
            Wrong shape, negative or fractional counts, or rows of different sums.
        """
        array = _whole_numbers("counts", counts)
        if array.ndim != 2 or array.shape[1] < 2:
            raise InvalidInputError(
                f"counts must have shape (n_queries, n_classes) with at least 2 classes, got {array.shape}. "
                "A vector of class ids is not a matrix of counts: use Votes.from_labels for teachers' labels."
            )
        if array.size and array.min() < 0:
            raise InvalidInputError("counts must be >= 0. A count is the number of teachers voting for a class.")
        sums = array.sum(axis=1)
        if n_teachers is None:
            if not len(sums):
                raise InvalidInputError("counts has no rows. Pass at least one query, or state n_teachers.")
            n_teachers = int(sums[0])
        n_teachers = check_int("n_teachers", n_teachers, low=1)
        if (sums != n_teachers).any():
            raise InvalidInputError(
                "counts must have rows that all sum to the number of teachers; they do not. "
                "If this file holds class ids (teachers x queries), use Votes.from_labels; otherwise state "
                "n_teachers and check for dropped votes."
            )
        values = _class_values(classes, array.shape[1])
        return cls(_frozen(array), None, n_teachers, values, unit, n_units, query_hashes)

    @classmethod
    def from_labels(
        cls,
        labels: npt.ArrayLike,
        *,
        classes: Any,
        unit: str = "record",
        n_units: int | None = None,
        query_hashes: tuple[str, ...] | None = None,
    ) -> Votes:
        """Check a matrix of teachers' labels and count them.

        Parameters
        ----------
        labels : array-like of shape (n_teachers, n_queries)
            Class indices 0 .. n_classes - 1.
        classes : iterable or int
            Class values, or their number.
        unit, n_units, query_hashes
            See the attributes.

        Raises
        ------
        InvalidInputError
            Wrong shape, fractional labels, or labels outside the classes.
        """
        array = _whole_numbers("labels", labels, narrow=True)
        if array.ndim != 2 or not array.shape[0]:
            raise InvalidInputError(
                f"labels must have shape (n_teachers, n_queries), got {array.shape}. Each row is one teacher."
            )
        values = check_classes(range(classes) if isinstance(classes, int | np.integer) else classes)
        n_classes = len(values)
        if array.size and (array.min() < 0 or array.max() >= n_classes):
            raise InvalidInputError(
                f"labels must be class indices 0 .. {n_classes - 1}; some are outside. "
                "Map class values to their position in classes first."
            )
        n_teachers, n_queries = array.shape
        counts = np.empty((n_queries, n_classes), dtype=np.int64)
        for start in range(0, n_queries, _COUNTED_ROWS):  # never teachers x queries in 64 bits
            part = array[:, start : start + _COUNTED_ROWS]
            flat = part + n_classes * np.arange(part.shape[1], dtype=np.int64)
            size = part.shape[1] * n_classes
            counts[start : start + _COUNTED_ROWS] = np.bincount(flat.ravel(), minlength=size).reshape(-1, n_classes)
        return cls(_frozen(counts), _frozen(array), n_teachers, values, unit, n_units, query_hashes)

    @property
    def n_queries(self) -> int:
        """Number of queries (rows)."""
        return self.counts.shape[0]

    @property
    def n_classes(self) -> int:
        """Number of classes (columns)."""
        return self.counts.shape[1]

    def take(self, rows: npt.ArrayLike) -> Votes:
        """Return the votes on some of the queries, chosen by public information.

        Parameters
        ----------
        rows : int or bool array
            Positions, or a mask of shape (n_queries,).
        """
        index = np.arange(self.n_queries)[np.asarray(rows)]
        return replace(
            self,
            counts=_frozen(self.counts[index]),
            labels=None if self.labels is None else _frozen(self.labels[:, index]),
            query_hashes=None if self.query_hashes is None else tuple(self.query_hashes[i] for i in index),
        )

    def __repr__(self) -> str:
        sizes = f"n_queries={self.n_queries}, n_classes={self.n_classes}, n_teachers={self.n_teachers}"
        return f"Votes({sizes}, counts=<sensitive>)"

    def _repr_html_(self) -> str:
        sizes = (("queries", self.n_queries), ("classes", self.n_classes), ("teachers", self.n_teachers))
        return as_cell("Votes", "sensitive: sizes alone are shown, no counts", rows=sizes)


@dataclass(frozen=True, eq=False, repr=False)
class BallotVotes:
    """Teachers' ballots of several labels at once: **sensitive**; :class:`pate.NoisyBallots` alone knows their price.

    :func:`pate.release.clipped_votes` makes them. However they are made, every ballot is checked to have at most
    ``most_labels`` ones, on which the charge rests. They are no :class:`Votes`: what is priced for one vote of each
    teacher refuses them.

    Attributes
    ----------
    ballots : bool array of shape (n_teachers, n_queries, n_labels)
        True where a teacher says that a row has a label.
    classes : tuple
        The labels' names.
    most_labels : int
        The most ones of one teacher in one row.
    unit, n_units, query_hashes, classes_inferred, fingerprint, partition_seeded, races
        As of :class:`Votes`.
    counts : int64 array of shape (n_queries, n_labels)
        How many teachers say that a row has a label; made of the ballots.

    Raises
    ------
    InvalidInputError
        Other shapes, or a ballot of more ones.

    Examples
    --------
    >>> BallotVotes(np.eye(3, dtype=bool)[None], ("ill", "old", "rich"), 1)
    BallotVotes(n_queries=3, n_classes=3, n_teachers=1, most_labels=1, counts=<sensitive>)
    """

    ballots: npt.NDArray[np.bool_]
    classes: tuple[Any, ...]
    most_labels: int
    unit: str = "record"
    n_units: int | None = None
    query_hashes: tuple[str, ...] | None = None
    classes_inferred: bool = False
    fingerprint: str | None = None
    partition_seeded: bool = False
    races: tuple[int, ...] = ()
    counts: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        held = self.ballots
        check_int("most_labels", self.most_labels, low=1)
        if not isinstance(held, np.ndarray) or held.dtype != bool or held.shape[2:] != (len(self.classes),):
            raise InvalidInputError(
                f"ballots must be true and false, of shape (n_teachers, n_queries, {len(self.classes)}). Use "
                "pate.release.clipped_votes."
            )
        if (held.sum(axis=2) > self.most_labels).any():
            raise InvalidInputError(
                f"ballots must have at most most_labels={self.most_labels} labels of one teacher in one row; some have "
                "more. Use pate.release.clipped_votes, which cuts them."
            )
        _check_described(self.unit, self.query_hashes, self.n_queries)
        if held.flags.writeable:  # what was checked is what is released
            object.__setattr__(self, "ballots", _frozen(held.copy()))
        object.__setattr__(self, "counts", _frozen(self.ballots.sum(axis=0, dtype=np.int64)))
        note("votes", votes=self)

    @property
    def labels(self) -> npt.NDArray[np.bool_]:
        """Each teacher's votes, shape (n_teachers, n_queries n_labels)."""
        return self.ballots.reshape(self.n_teachers, -1)

    @property
    def n_teachers(self) -> int:
        """Number of teachers."""
        return self.ballots.shape[0]

    @property
    def n_queries(self) -> int:
        """Number of queries (rows)."""
        return self.ballots.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return self.ballots.shape[2]

    def __repr__(self) -> str:
        sizes = f"n_queries={self.n_queries}, n_classes={self.n_classes}, n_teachers={self.n_teachers}"
        return f"BallotVotes({sizes}, most_labels={self.most_labels}, counts=<sensitive>)"


@runtime_checkable
class Voter(Protocol):
    """The interface of whatever votes on public rows: an ensemble of teachers, of this package or your own.

    Examples
    --------
    >>> class Always:
    ...     classes_ = (0, 1)
    ...     n_teachers = 3
    ...
    ...     def vote(self, X):
    ...         return Votes.from_counts([[3, 0]] * len(X))
    >>> isinstance(Always(), Voter)
    True
    """

    classes_: Any
    n_teachers: int

    def vote(self, X: Any) -> Votes:
        """Return the votes on the rows of ``X``."""
        ...


def as_votes(votes: Any) -> Votes:
    """Return votes from anywhere: :class:`Votes` as they are, and counts of which it is certain that they are counts.

    Parameters
    ----------
    votes : Votes, or array, DataFrame or list of shape (n_queries, n_classes)
        Counts per class. Rows must have one sum, and some count must be at least the number of columns: teachers'
        labels (n_teachers, n_queries) would then need more classes than there are queries. The columns of a DataFrame
        name the classes, unless they are numbered.
    """
    if isinstance(votes, Votes):
        return votes
    if votes is None or isinstance(votes, str | bytes | dict | BallotVotes):
        raise InvalidInputError(
            f"votes must be pate.Votes, or counts of shape (n_queries, n_classes), got {type(votes).__name__}. Use "
            "Votes.from_counts or Votes.from_labels; pate.jobs.vote_files.read_votes reads a file."
        )
    counts = _whole_numbers("votes", votes)
    if counts.ndim != 2 or not counts.size:
        raise InvalidInputError(
            f"votes must be pate.Votes, or counts of shape (n_queries, n_classes), got shape {counts.shape}. Use "
            "Votes.from_counts or Votes.from_labels."
        )
    sums = counts.sum(axis=1)
    if (sums != sums[0]).any() or counts.max() < counts.shape[1]:
        raise InvalidInputError(
            f"votes of shape {counts.shape} may be counts or teachers' labels. Say which: Votes.from_counts(votes) for "
            "(n_queries, n_classes), Votes.from_labels(votes, classes=...) for (n_teachers, n_queries)."
        )
    named = list(getattr(votes, "columns", range(counts.shape[1])))
    return Votes.from_counts(counts, classes=None if named == list(range(counts.shape[1])) else named)


def _check_described(unit: str, query_hashes: tuple[str, ...] | None, n_queries: int) -> None:
    if unit not in ("record", "group"):
        raise InvalidInputError(f"unit must be 'record' or 'group', got {unit!r}.")
    if query_hashes is not None and len(query_hashes) != n_queries:
        raise InvalidInputError(f"query_hashes has {len(query_hashes)} entries for {n_queries} queries.")


def _whole_numbers(name: str, values: npt.ArrayLike, *, narrow: bool = False) -> npt.NDArray[Any]:
    """Return a copy as int64, or with ``narrow`` as the signed integers that it is."""
    return quietly(name, _read_whole_numbers, name, values, narrow)


def _read_whole_numbers(name: str, values: npt.ArrayLike, narrow: bool) -> npt.NDArray[Any]:
    array = np.asarray(unmasked(name, values))
    if array.dtype.kind == "O" and {cell_kind(cell) for cell in array.reshape(-1).tolist()} == {"number"}:
        array = array.astype(np.float64)  # the nullable numbers of pandas
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and not (array == np.floor(array)).all()):
        held = {"f": "other numbers", "b": "true and false", "c": "complex numbers", "m": "times", "M": "dates"}
        raise InvalidInputError(f"{name} must be whole numbers, got {held.get(array.dtype.kind, 'other values')}.")
    return array.copy() if narrow and array.dtype.kind == "i" else array.astype(np.int64)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _class_values(classes: Any, n_classes: int) -> tuple[Any, ...]:
    values = check_classes(range(n_classes) if classes is None else classes)
    if len(values) != n_classes:
        raise InvalidInputError(f"classes names {len(values)} values, but counts has {n_classes} columns.")
    return values
