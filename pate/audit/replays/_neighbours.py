"""Make pairs of neighbouring data sets from one, by changes such as an attacker, a mistake or a broken file makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pate._core.checks import check_choice, check_int
from pate._core.types import IntArray
from pate.data.partition import id_bytes
from pate.exceptions import InvalidInputError
from pate.votes import hash_queries

#: The adjacency relations of data sets.
ADJACENCIES = ("replace-one", "add-or-remove")


@dataclass(frozen=True, repr=False)
class Records:
    """Rows, labels and owners; **sensitive**."""

    X: Any
    y: Any
    groups: Any = None

    @classmethod
    def of(cls, data: Any, name: str = "D") -> Records:
        """Return Records from ``(X, y)``, ``(X, y, groups)`` or Records."""
        if not isinstance(data, Records):
            if not isinstance(data, tuple | list) or len(data) not in (2, 3):
                raise InvalidInputError(
                    f"{name} must be (X, y) or (X, y, groups), got {type(data).__name__}. neighbours(X, y) makes pairs."
                )
            data = cls(*data)
        X = data.X if hasattr(data.X, "shape") else np.asarray(data.X)
        y = np.asarray(data.y)
        groups = None if data.groups is None else np.asarray(data.groups)
        if y.shape != (X.shape[0],) or (groups is not None and groups.shape != y.shape):
            raise InvalidInputError(f"{name} must have one label (and one owner, with groups) for each row of X.")
        return cls(X, y, groups)

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.X.shape[0])

    @property
    def n_units(self) -> int:
        """Number of records, or of persons."""
        return self.n if self.groups is None else len({id_bytes(g) for g in self.groups.tolist()})

    @property
    def unit(self) -> str:
        """The unit of protection."""
        return "record" if self.groups is None else "group"

    def __iter__(self) -> Any:
        return iter((self.X, self.y, self.groups))

    def take(self, index: Any) -> Records:
        """Return the records of these places, copied."""
        at = np.asarray(index, dtype=np.int64)
        X = self.X.iloc[at].reset_index(drop=True) if hasattr(self.X, "iloc") else self.X[at]
        return Records(X, self.y[at], None if self.groups is None else self.groups[at])

    def labelled(self, at: Any, label: Any) -> Records:
        """Return the records with another label at one place (or with one label each at several)."""
        y = self.y.copy() if self.y.dtype.kind in "OUSbiuf" else self.y.astype(object)
        if y.dtype.kind in "US":
            y = y.astype(object)
        y[at] = label
        return replace(self, y=y)

    def digests(self) -> list[bytes]:
        """Return one digest per record: of its row, its label and its owner."""
        if isinstance(self.X, np.ndarray) and self.X.dtype.kind in "biuf":
            rows: Sequence[bytes] = [row.tobytes() for row in np.ascontiguousarray(self.X)]
        else:
            rows = [h.encode() for h in row_hashes(self.X)]
        owners = [b""] * self.n if self.groups is None else [id_bytes(g) for g in self.groups.tolist()]
        labels = [repr(label).encode() for label in self.y.tolist()]
        return [b"\0".join(parts) for parts in zip(rows, labels, owners, strict=True)]


def row_hashes(X: Any) -> tuple[str, ...]:
    """Return one digest per row of any table."""
    if hasattr(X, "tocsr"):
        X = X.toarray()
    if getattr(X, "ndim", 2) == 1:
        return tuple(repr(cell) for cell in X.tolist())
    return hash_queries(X)


@dataclass(frozen=True)
class Distance:
    """How two data sets differ."""

    units: int  # neighbouring steps from the one to the other, under the adjacency
    touched: int  # ids or places whose records differ: so many shards may move where the cut is fixed
    places: IntArray | None  # which records differ, where both have equally many
    order: bool  # the same records in another order
    sizes: tuple[int, int]  # number of units of both
    records: int = 0  # records that differ: of equally many by place, else by content

    def are_neighbours(self, adjacency: str) -> bool:
        """Whether they are one step apart; under replace-one adjacency both have equally many units."""
        return self.units == 1 and (adjacency == "add-or-remove" or self.sizes[0] == self.sizes[1])


def _by_owner(records: Records, digests: list[bytes]) -> dict[bytes, Counter[bytes]]:
    found: dict[bytes, Counter[bytes]] = {}
    for owner, digest in zip(records.groups.tolist(), digests, strict=True):
        found.setdefault(id_bytes(owner), Counter())[digest] += 1
    return found


def distance(a: Records, b: Records, adjacency: str) -> Distance:
    """Return how two data sets differ."""
    if (a.groups is None) != (b.groups is None):
        raise InvalidInputError("D and D_prime must both have groups, or neither: the unit is the same for neighbours.")
    ours, theirs = a.digests(), b.digests()
    same_size = len(ours) == len(theirs)
    places = np.flatnonzero([p != q for p, q in zip(ours, theirs, strict=True)]) if same_size else None
    mine, other = Counter(ours), Counter(theirs)
    sizes = (a.n_units, b.n_units)
    lost, gained = (mine - other).total(), (other - mine).total()
    n_changed = max(lost, gained) if places is None else len(places)
    if mine == other:
        return Distance(0, 0, places, places is not None and len(places) > 0, sizes)
    if a.groups is None:
        touched = len(places) if places is not None and adjacency != "add-or-remove" else lost + gained
        return Distance(touched, touched, places, False, sizes, n_changed)
    before, after = (_by_owner(records, digests) for records, digests in ((a, ours), (b, theirs)))
    differ = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    lost, gained = (sum(name in held for name in differ) for held in (before, after))
    units = lost + gained if adjacency == "add-or-remove" else max(lost, gained)
    return Distance(units, len(differ), places, False, sizes, n_changed)


@dataclass(frozen=True, repr=False)
class Neighbour:
    """Two neighbouring data sets, and how the second came from the first; **sensitive**.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`.
    D, D_prime : Records
    adjacency : {"replace-one", "add-or-remove"}
    what : str
        In words, without a value of any record: public.

    Examples
    --------
    >>> pair = neighbours([[0.0], [1.0], [2.0]], [0, 1, 1], kinds=["flip"])[0]
    >>> pair, pair.what
    (Neighbour('flip', replace-one), 'one record has another label')
    """

    kind: str
    D: Records
    D_prime: Records
    adjacency: str
    what: str

    def __repr__(self) -> str:
        return f"Neighbour({self.kind!r}, {self.adjacency})"


@dataclass(frozen=True)
class Choice:
    """Which record is changed, and how: chosen at random or by a search."""

    at: int = 0  # taken modulo what there is
    other: int = 0
    label: int = 0  # so many classes further, modulo the number of the others
    factor: float = 30.0


class _No(Exception):
    """Raised with the reason why a change is impossible for these records."""


def _owner_of(records: Records, one: str, person: str) -> str:
    return one if records.groups is None else person


def _other_label(records: Records, at: int, choice: Choice, classes: Any) -> Any:
    known = list(dict.fromkeys(records.y.tolist())) if classes is None else list(classes)
    if len(known) < 2:
        raise _No("there is one class alone")
    others = [label for label in known if label != records.y.tolist()[at]]
    return others[choice.label % len(others)]


def _set_rows(records: Records, places: Any, rows: Any) -> Records:
    X = records.X.copy()
    if hasattr(X, "iloc"):
        for at, row in zip(places, rows, strict=True):
            for j in range(X.shape[1]):
                X.isetitem(j, X.iloc[:, j].where(np.arange(len(X)) != at, row[j]))
    else:
        X[places] = rows
    return replace(records, X=X)


def _numeric(records: Records) -> bool:
    if hasattr(records.X, "dtypes"):
        return bool(all(getattr(t, "kind", "O") == "f" for t in records.X.dtypes))
    return isinstance(records.X, np.ndarray) and records.X.dtype.kind == "f"


def _floats(records: Records, places: Any) -> Any:
    rows = records.X.iloc[places].to_numpy() if hasattr(records.X, "iloc") else records.X[places]
    return np.array(rows, dtype=np.float64)


def _swapped_in(records: Records, at: Any, source: Any) -> Records:
    """Return the records with the rows and labels of ``source`` in the places of ``at``; owners stay."""
    index = np.arange(records.n)
    index[at] = source
    return replace(records.take(index), groups=records.groups)


def _of_owner(records: Records, at: int) -> Any:
    if records.groups is None:
        return np.array([at])
    owners = [id_bytes(g) for g in records.groups.tolist()]
    return np.flatnonzero([owner == owners[at] for owner in owners])


def _new_owner(records: Records, choice: Choice) -> Any:
    assert records.groups is not None
    taken = {id_bytes(g) for g in records.groups.tolist()}
    whole = records.groups.dtype.kind in "iu"
    tries = (choice.other + k for k in range(len(taken) + 1))
    candidates = (10**6 + k if whole else f"newcomer {k}" for k in tries)
    return next(c for c in candidates if id_bytes(c) not in taken)


def _newcomer(records: Records, made: Records, choice: Choice) -> Records:
    """Return ``made`` with a new person as the owner of its last record, where records have owners."""
    return made if records.groups is None else _regrouped(made, [records.n], _new_owner(records, choice))


def _regrouped(records: Records, places: Any, owner: Any) -> Records:
    groups = records.groups.copy() if records.groups.dtype.kind in "iu" else records.groups.astype(object)
    groups[places] = owner
    return replace(records, groups=groups)


Pair = tuple[Records, Records, str]


def _otherwise(records: Records, own: Any, c: Choice, classes: Any) -> list[Any]:
    return [_other_label(records, int(at), c, classes) for at in own]


def _replace(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    own = _of_owner(records, c.at % records.n)
    rest = np.setdiff1d(np.arange(records.n), own)
    if not len(rest):
        rest = own
    others = rest[(c.at + c.other + np.arange(len(own))) % len(rest)]
    made = _swapped_in(records, own, others)
    if _numeric(records):
        one, two = _floats(records, own), _floats(records, others)
        made = _set_rows(made, own, two - 0.25 * (one - two))
    what = _owner_of(records, "one record is replaced by another", "one person's records are replaced by others")
    return records, made.labelled(own, _otherwise(records, own, c, classes)), what


def _flip(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    own = _of_owner(records, c.at % records.n)
    what = _owner_of(records, "one record has another label", "one person's records have other labels")
    return records, records.labelled(own, _otherwise(records, own, c, classes)), what


def _scale(records: Records, c: Choice, classes: Any, adjacency: str, factor: float | None = None) -> Pair:
    factor = c.factor if factor is None else factor
    what = "missing" if np.isnan(factor) else f"{factor:g} times as large"
    if not _numeric(records):
        raise _No(f"only rows of floats can be {'missing here' if np.isnan(factor) else 'scaled'}")
    own = _of_owner(records, c.at % records.n)
    made = _set_rows(records, own, _floats(records, own) * factor)
    return records, made, f"{_owner_of(records, 'one record', 'one person')}'s numbers are {what}"


def _duplicate(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    at = c.at % records.n
    index = np.append(np.arange(records.n), at)
    if adjacency == "add-or-remove":
        return records, _newcomer(records, records.take(index), c), "one record is there twice"
    if records.groups is not None:
        return records, records.take(index), "one of a person's records is there twice"
    if records.n < 2:
        raise _No("there is one record alone")
    other = (at + 1 + c.other % (records.n - 1)) % records.n
    return records, _swapped_in(records, other, at), "one record is there twice, in another one's place"


def _remove(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    at = c.at % records.n
    own = _of_owner(records, at)
    if adjacency == "add-or-remove":
        what = "one record is gone" if records.groups is None else "one person is gone"
        rest = np.setdiff1d(np.arange(records.n), own)
        # Last in the file: random numbers drawn by place are then equal for all other records.
        return records.take(np.concatenate([rest, own])), records.take(rest), what
    if records.groups is None:
        raise _No("under replace-one adjacency the number of records is public, and neighbours have equally many")
    for place in (at, *range(records.n)):  # a person who is left with none would be gone
        if len(_of_owner(records, place)) > 1:
            return records, records.take(np.delete(np.arange(records.n), place)), "one of a person's records is gone"
    raise _No("no person has two records, and neighbours have equally many persons")


def _add(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    if adjacency == "replace-one" and records.groups is None:
        raise _No("under replace-one adjacency the number of records is public, and neighbours have equally many")
    at = c.at % records.n
    made = records.take(np.append(np.arange(records.n), at))
    made = made.labelled(records.n, _other_label(records, at, c, classes))
    if adjacency == "replace-one":
        return records, made, "a person has one record more"
    what = _owner_of(records, "there is one record more", "there is one person more")
    return records, _newcomer(records, made, c), what


def _regroup(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    if records.groups is None:
        raise _No("there are no groups")
    if adjacency == "add-or-remove":
        raise _No("a person who goes by another id is one person less and one more: two steps of add-or-remove")
    own = _of_owner(records, c.at % records.n)
    made = _regrouped(records, own, _new_owner(records, c))
    return records, made, "one person goes by another id"


def _only(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    at = c.at % records.n
    own, label = records.y.tolist()[at], _other_label(records, at, c, classes)
    alike = np.flatnonzero([value == own for value in records.y.tolist()])
    others = alike[alike != at]
    if adjacency == "add-or-remove":
        if records.groups is not None:
            raise _No("a person's records go together under add-or-remove adjacency")
        D = records.take(np.concatenate([np.setdiff1d(np.arange(records.n), alike), [at]]))
        return D, D.take(range(D.n - 1)), "the only record of its class is gone"
    D = records.labelled(others, label) if len(others) else records
    return D, D.labelled(at, label), "the only record of its class has another label"


def _front(records: Records, c: Choice, classes: Any, adjacency: str) -> Pair:
    if records.n < 2:
        raise _No("there is one record alone")
    at = 1 + c.at % (records.n - 1)
    index = np.concatenate([[at], np.delete(np.arange(records.n), at)])
    return records, records.take(index), "one record stands at the front: the same data in another order"


_MAKERS: dict[str, Callable[[Records, Choice, Any, str], Pair]] = {
    "replace": _replace, "flip": _flip, "scale": _scale, "duplicate": _duplicate, "remove": _remove, "add": _add,
    "regroup": _regroup, "only of its class": _only, "front": _front, "missing": partial(_scale, factor=np.nan),
}  # fmt: skip

#: The changes of one unit; "front" is the same data set in another order.
KINDS = tuple(_MAKERS)

_TWO_STEPS = ("replace", "flip", "scale", "missing")


def make_neighbour(kind: str, records: Records, choice: Choice, *, adjacency: str, classes: Any = None) -> Neighbour:
    """Return one pair of neighbours."""
    try:
        if adjacency == "add-or-remove" and kind in _TWO_STEPS:
            raise _No("a record that changes is one gone and one new: two steps of add-or-remove")
        D, D_prime, what = _MAKERS[kind](records, choice, classes, adjacency)
        apart = distance(D, D_prime, adjacency)
        if not apart.are_neighbours(adjacency) and not apart.order:
            raise _No("it changes nothing in these records")
    except _No as why:
        raise InvalidInputError(f"kind {kind!r} makes no neighbour here: {why}.") from None
    return Neighbour(kind, D, D_prime, adjacency, what)


def neighbours(
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    adjacency: str = "replace-one",
    kinds: Iterable[str] | None = None,
    classes: Any = None,
    random_state: int = 0,
) -> list[Neighbour]:
    """Return pairs of neighbouring data sets made from these records, one pair for each kind of change that fits them.

    Parameters
    ----------
    X : array, DataFrame, sparse matrix or texts of n records
    y : array-like of shape (n,)
    groups : array-like of shape (n,) or None
        The owner of each record; the unit is then the person.
    adjacency : {"replace-one", "add-or-remove"}
        Which data sets are neighbours; see Notes.
    kinds : iterable of str or None
        Of :data:`KINDS`; None takes all that give neighbours here.
    classes : iterable or None
        The public classes, for labels that change; None takes those that occur.
    random_state : int
        Which records are changed.

    Returns
    -------
    list of Neighbour
        **Sensitive.**

    Raises
    ------
    InvalidInputError
        A kind that was asked for gives no neighbour here; the error says why.

    Notes
    -----
    Replace-one: both data sets have equally many units, and one unit's data are others. Without groups ``replace``,
    ``flip``, ``scale`` (30 times as large), ``missing``, ``only of its class`` (all others of that class got another
    label in both data sets) and ``duplicate`` (in another record's place); ``add`` and ``remove`` are not neighbours.
    With groups these change all records of one person (``duplicate`` and ``only of its class`` one), who may have more
    or fewer, and ``regroup`` gives a person another id. One record that moves from one person to another changes two
    persons, and is no neighbour.

    Add-or-remove: ``add``, ``remove``, ``duplicate`` and ``only of its class``; a record that changes is two steps.

    ``front`` is the same data set in another order. Teachers may all change, as shards are dealt by places (with groups
    by ids: then they may not); what is public may not.

    Examples
    --------
    >>> X, y = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1]
    >>> [pair.kind for pair in neighbours(X, y)]
    ['replace', 'flip', 'scale', 'duplicate', 'only of its class', 'front', 'missing']
    >>> [pair.kind for pair in neighbours(X, y, adjacency="add-or-remove")]
    ['duplicate', 'remove', 'add', 'only of its class', 'front']
    >>> [pair.kind for pair in neighbours(X, y, groups=list("aabbcc"))][-5:]
    ['add', 'regroup', 'only of its class', 'front', 'missing']
    """
    check_choice("adjacency", adjacency, ADJACENCIES)
    records = Records.of((X, y, groups), "(X, y, groups)")
    asked = None if kinds is None else [check_choice("kinds", kind, KINDS) for kind in kinds]
    rng = np.random.default_rng(check_int("random_state", random_state, low=0))
    found = []
    for kind in KINDS:
        at, other, label = rng.integers(0, records.n, 3).tolist()  # whether a kind is asked for or not
        if asked is not None and kind not in asked:
            continue
        try:
            choice = Choice(at=at, other=other, label=label)
            found.append(make_neighbour(kind, records, choice, adjacency=adjacency, classes=classes))
        except InvalidInputError:
            if asked is not None:
                raise
    return found
