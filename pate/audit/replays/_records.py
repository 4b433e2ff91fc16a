"""Private data sets as an audit holds them, and in which units two of them differ."""

from __future__ import annotations

import copy
import inspect
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from pate.core.checks import shown
from pate.core.types import IntArray
from pate.data.partition import id_bytes
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.release import release_ballots, release_labels
from pate.votes import hash_queries

#: The relations between data sets that guarantees are about.
ADJACENCIES = ("replace-one", "add-or-remove")


@dataclass(frozen=True, repr=False)
class Records:
    """Rows, labels and owners; **sensitive**."""

    X: Any
    y: Any
    groups: Any = None

    @classmethod
    def of(cls, data: Any, name: str = "D") -> Records:
        """Return records behind ``(X, y)``, ``(X, y, groups)`` or records.

        Raises
        ------
        InvalidInputError
            It is something else, or lengths differ.
        """
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
        """What is protected whole."""
        return "record" if self.groups is None else "group"

    def __iter__(self) -> Any:
        return iter((self.X, self.y, self.groups))

    def take(self, index: Any) -> Records:
        """Return the records of these places, copied."""
        at = np.asarray(index, dtype=np.int64)
        X = self.X.iloc[at].reset_index(drop=True) if hasattr(self.X, "iloc") else self.X[at]
        return Records(X, self.y[at], None if self.groups is None else self.groups[at])

    def labelled(self, at: Any, label: Any) -> Records:
        """Return the same records, one of them (or those of some places, with one label each) with another label."""
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
    """How two data sets differ.

    Attributes
    ----------
    units : int
        Neighbouring steps from the one to the other, under the adjacency.
    touched : int
        Ids or places whose records differ: so many shards may move where the cut is fixed.
    places : int array or None
        Which records differ, where both have equally many.
    order : bool
        The same records in another order.
    sizes : (int, int)
        Number of units of both.
    records : int
        Records that differ: of equally many by place, else by what is there.
    """

    units: int
    touched: int
    places: IntArray | None
    order: bool
    sizes: tuple[int, int]
    records: int = 0

    def are_neighbours(self, adjacency: str) -> bool:
        """Whether they are one step apart; under replace-one adjacency both have equally many units."""
        return self.units == 1 and (adjacency == "add-or-remove" or self.sizes[0] == self.sizes[1])


def distance(a: Records, b: Records, adjacency: str) -> Distance:
    """Return how two data sets differ."""
    if (a.groups is None) != (b.groups is None):
        raise InvalidInputError("D and D_prime must both have groups, or neither: the unit is the same for neighbours.")
    ours, theirs = a.digests(), b.digests()
    same_size = len(ours) == len(theirs)
    places = np.flatnonzero([p != q for p, q in zip(ours, theirs, strict=True)]) if same_size else None
    mine, other = Counter(ours), Counter(theirs)
    sizes = (a.n_units, b.n_units)
    lost, gained = sum((mine - other).values()), sum((other - mine).values())
    n_changed = max(lost, gained) if places is None else len(places)
    if mine == other:
        return Distance(0, 0, places, places is not None and len(places) > 0, sizes)
    if a.groups is None:
        if adjacency == "add-or-remove":
            return Distance(lost + gained, lost + gained, places, False, sizes, n_changed)
        assert places is None or len(places)
        touched = lost + gained if places is None else len(places)
        return Distance(touched, touched, places, False, sizes, n_changed)
    per_unit: list[dict[bytes, Counter[bytes]]] = []
    for records, digests in ((a, ours), (b, theirs)):
        found: dict[bytes, Counter[bytes]] = {}
        for owner, digest in zip(records.groups.tolist(), digests, strict=True):
            found.setdefault(id_bytes(owner), Counter())[digest] += 1
        per_unit.append(found)
    names = per_unit[0].keys() | per_unit[1].keys()
    differ = [name for name in names if per_unit[0].get(name) != per_unit[1].get(name)]
    lost = sum(name in per_unit[0] for name in differ)
    gained = sum(name in per_unit[1] for name in differ)
    units = lost + gained if adjacency == "add-or-remove" else max(lost, gained)
    return Distance(units, len(differ), places, False, sizes, n_changed)


# What can be replayed: a function of private records, or an object that is fitted on them.

#: Buys whatever is asked: what is replayed is not private, and what it costs is compared, not limited.
_AMPLE = Budget(1e6, 0.1)
Pipeline = Callable[[Records], Any]


def as_pipeline(target: Any, *, X_public: Any = None, mechanism: Any = None) -> tuple[Pipeline, str]:
    """Return a function of records, and what it is called.

    Raises
    ------
    InvalidInputError
        There is no way to run it on private records.
    """
    name = type(target).__name__
    if not isinstance(target, type):
        if hasattr(target, "cast") and hasattr(target, "space"):
            return _of_record_voters(target, mechanism), name
        if hasattr(target, "fit") and hasattr(target, "vote"):
            return _of_voter(target, X_public, mechanism), name
        if hasattr(target, "vote"):
            raise InvalidInputError(
                f"pipeline must say how its teachers come from private records; {name} has no fit. Pass a function of "
                "(X, y, groups) that makes them and calls vote."
            )
        if hasattr(target, "fit") and hasattr(target, "get_params"):
            return _of_estimator(target, X_public), name
    if not callable(target) or isinstance(target, type):
        raise InvalidInputError(
            f"pipeline must be a function of (X, y) or (X, y, groups), or have fit (and vote), got {shown(target)}."
        )
    return _of_function(target), f"the function {getattr(target, '__name__', name)}"


def _of_function(target: Callable[..., Any]) -> Pipeline:
    def takes(n: int) -> bool:
        try:
            inspect.signature(target).bind(*range(n))
        except TypeError:
            return False
        return True

    takes_groups, takes_two = takes(3), takes(2)

    def run(records: Records) -> Any:
        # Without groups a third parameter keeps its default, which may be anything.
        if takes_groups and not (records.groups is None and takes_two):
            return target(records.X, records.y, records.groups)
        if records.groups is not None:
            raise InvalidInputError("D has groups, and pipeline takes (X, y) alone. Let it take (X, y, groups).")
        return target(records.X, records.y)

    return run


def _need_public(X_public: Any, name: str) -> Any:
    if X_public is None:
        raise InvalidInputError(f"X_public must be the public rows that {name} is asked about. Pass X_public=.")
    return X_public


@contextmanager
def _fresh(target: Any) -> Iterator[Any]:
    """Yield an unfitted copy that writes nowhere, but to a ledger that is gone afterwards with its key."""
    with ExitStack() as stack:
        try:
            made = clone(target)
        except TypeError:
            made, known = copy.deepcopy(target), dict[str, Any]()
        else:
            known = made.get_params(deep=False)
        if known.get("checkpoint_dir") is not None:
            made.set_params(checkpoint_dir=None)
        ledger = known.get("ledger")
        if ledger is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pate-replay-")))
            made.set_params(ledger=Ledger(folder / "ledger.sqlite", total=ledger.total))
        yield made


def _groups(records: Records) -> dict[str, Any]:
    return {} if records.groups is None else {"groups": records.groups}


def _of_voter(target: Any, X_public: Any, mechanism: Any) -> Pipeline:
    _need_public(X_public, type(target).__name__)

    def run(records: Records) -> Any:
        with _fresh(target) as made:
            votes = made.fit(records.X, records.y, **_groups(records)).vote(X_public)
        return None if mechanism is None else release_labels(votes, mechanism, budget=_AMPLE)

    return run


def _of_record_voters(target: Any, mechanism: Any) -> Pipeline:
    def run(records: Records) -> Any:
        ballots = target.cast(records.X, records.y, groups=records.groups)
        return None if mechanism is None else release_ballots(ballots, mechanism, budget=_AMPLE)

    return run


def _of_estimator(target: Any, X_public: Any) -> Pipeline:
    takes = inspect.signature(target.fit).parameters
    options = {"X_public": _need_public(X_public, type(target).__name__)} if "X_public" in takes else {}

    def run(records: Records) -> Any:
        with _fresh(target) as made:
            return made.fit(records.X, records.y, **options, **_groups(records))

    return run
