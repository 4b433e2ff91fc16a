"""The exact sum of all records' ballots: sensitive; only :func:`pate.release_ballots` releases it, with noise."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int, check_real, quietly
from pate._core.recorder import note
from pate._core.types import FloatArray, IntArray, WordArray
from pate.data import records_fingerprint
from pate.exceptions import InvalidInputError
from pate.ledger import Registration

#: Name, weight (in whole 65,536ths) and number of units of every tier: public.
TierFacts = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, eq=False, repr=False)
class UnitTiers:
    """The tiers of units: their public facts, a digest of who is in which, and the weight of each record."""

    facts: TierFacts
    members: str
    scales: IntArray

    @property
    def registered(self) -> dict[str, Any]:
        """What a ledger registers of them."""
        return {"tiers": tuple((name, weight) for name, weight, _ in self.facts), "members": self.members}


# The owners of the records that were cast: a ledger recognises the data set by them, and no person's records may be in
# two parts. **Sensitive**.


@dataclass(frozen=True, eq=False, repr=False)
class UnitOwners:
    """Owners and labels of the records in a sum, in order, part by part: **sensitive**."""

    labels: tuple[npt.NDArray[np.int32], ...]
    owners: tuple[str, ...] | None
    #: 64 bits of each person's id, sorted.
    persons: WordArray | None
    n_units: int
    tiers: UnitTiers | None = None

    @classmethod
    def of(cls, labels: IntArray, groups: Any, ids: list[bytes] | None, tiers: UnitTiers | None = None) -> UnitOwners:
        """Return the owners of one part; ``ids`` are the distinct ones (:func:`pate.data.partition.distinct_ids`)."""
        stored = (labels.astype(np.int32),)
        if ids is None:
            return cls(stored, None, None, len(labels), tiers)
        hashed = (int.from_bytes(hashlib.sha256(i).digest()[:8], "little") for i in ids)
        persons = np.sort(np.fromiter(hashed, dtype=np.uint64, count=len(ids)))
        return cls(stored, quietly("groups", lambda: tuple(str(owner) for owner in groups)), persons, len(ids), tiers)

    def __add__(self, other: UnitOwners) -> UnitOwners:
        if {id(part) for part in self.labels} & {id(part) for part in other.labels}:
            raise InvalidInputError(
                "a ballot sum was added twice: its records would count double, which the noise is not made for. Add "
                "sums of different records."
            )
        if self.persons is None or other.persons is None or self.owners is None or other.owners is None:
            return UnitOwners((*self.labels, *other.labels), None, None, self.n_units + other.n_units)
        if np.isin(other.persons, self.persons, assume_unique=True).any():
            raise InvalidInputError(
                "a person has records in two parts (chunks, or ballot sums that were added): their ballots could not "
                "be clipped together. Sort the records by person, and cut them between persons."
            )
        persons = np.sort(np.concatenate([self.persons, other.persons]))
        owners = (*self.owners, *other.owners)
        return UnitOwners((*self.labels, *other.labels), owners, persons, self.n_units + other.n_units)

    @property
    def grouped(self) -> bool:
        """Whether the unit is the person."""
        return self.persons is not None

    def fingerprint(self) -> str:
        """Return the digest of the data set; teachers and DP-SGD on the same records give the same one."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        labels = np.concatenate([np.zeros(0, dtype=np.int32), *self.labels]).astype(np.int64)
        return records_fingerprint(labels, None if self.owners is None else list(self.owners))


# One record's ballot in whole numbers, and how far a replaced unit can move their sum.

#: Whole numbers per unit of phi, and of a residual.
GRID = 1 << 16
KINDS = ("soft", "hard", "signed")
ADJACENCIES = ("replace-one", "add-or-remove")
#: Largest useful clip of a residual: no e_y - q is longer.
MOST_CLIP = math.sqrt(2.0)
#: Norms above it are scaled in floating point; what rounding makes of those below is left to whole numbers.
_LONG = 1.0 + 2.0**-30
#: Rows of one exact product, which stay in the processor's cache. Up to 2^18 entries below 2^16 times entries below
#: 2^17 stay below 2^53 in every partial sum.
_CACHED_ROWS = 256
_SHRINK = 1.0 - 2.0**-12


def quantised(phi: FloatArray, kind: str) -> IntArray:
    """Return rows in whole numbers: |p|^2 <= G^2 exactly, and p >= 0 unless ``kind`` is signed.

    Each row depends on its own numbers alone: one that is not finite becomes zero, one that is too long is scaled.
    """
    check_choice("kind", kind, KINDS)
    rows = np.array(phi, dtype=np.float64, order="C")
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InvalidInputError(f"phi must have shape (n, d), got {rows.shape}.")
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    if kind != "signed":
        np.maximum(rows, 0.0, out=rows)
    return _certified(rows, GRID, 1.0)


def quantised_residuals(probabilities: FloatArray, labels: IntArray, clip: float) -> IntArray:
    """Return trunc(2^16 clip_C(e_y - q)) in whole numbers, |r| <= floor(2^16 C) exactly; zero where there is no label.

    ``probabilities`` (n, m): a row that is not finite gives the zero residual, as the label -1 does; C is ``clip``, in
    (0, sqrt 2].
    """
    clip = check_clip(clip)
    r = -np.array(probabilities, dtype=np.float64, order="C")
    known = (labels >= 0) & np.isfinite(r).all(axis=1)
    r[known, labels[known]] += 1.0
    r[~known] = 0.0
    return _certified(r, residual_norm(clip), clip)


def check_clip(clip: float) -> float:
    """Return a residual's clip, if it is in (0, sqrt 2]."""
    remedy = "It is the norm to which e_y - p is clipped; none is longer than sqrt 2."
    return check_real("clip", clip, low=2.0**-10, high=MOST_CLIP, remedy=remedy)


def residual_norm(clip: float) -> int:
    """Return R = floor(2^16 C), exactly (a power of two times a float rounds nothing)."""
    return math.floor(clip * GRID)


def _certified(rows: FloatArray, most: int, unit: float) -> IntArray:
    """Return trunc(G rows) with every row's norm at most ``most``, and rows longer than ``unit`` scaled to it."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    # By its largest entry first, so that no square overflows or vanishes.
    safe = np.where(peak > 0, peak, 1.0)
    with np.errstate(over="ignore"):  # a row as long as that becomes zero
        long = peak * np.sqrt(np.square(rows / safe[:, None]).sum(axis=1)) / unit
    scale = np.where(long > _LONG, 1.0 / np.maximum(long, 1.0), 1.0)
    made = np.trunc(rows * scale[:, None] * GRID)
    np.clip(made, -most, most, out=made)
    for _ in range(8):
        # Squares of whole numbers up to 2^34: exact while the sum is below 2^53, and far above most^2 where it is not.
        over = np.square(made).sum(axis=1) > most * most
        if not over.any():
            return made.astype(np.int64)
        made[over] = np.trunc(made[over] * _SHRINK)
    made[np.square(made).sum(axis=1) > most * most] = 0.0
    return made.astype(np.int64)


def class_sums(p: npt.NDArray[np.signedinteger[Any]], labels: IntArray, n_classes: int) -> IntArray:
    """Return the exact sum over rows of p (x) e_y, shape (d, m); rows with label -1 count for nothing.

    Exact: float64 products of whole numbers in blocks of rows in which every partial sum, in whatever order a BLAS
    takes it, stays below 2^53; the blocks are added as int64.
    """
    hot = np.zeros((len(p), n_classes))
    known = np.flatnonzero(labels >= 0)
    hot[known, labels[known]] = 1.0
    return exact_product(p, hot)


def exact_product(p: npt.NDArray[np.signedinteger[Any]] | FloatArray, r: IntArray | FloatArray) -> IntArray:
    """Return p' r exactly, for whole numbers |p| <= 2^31 and |r| <= 1, or |p| <= 2^16 and |r| <= 2^17."""
    total = np.zeros((p.shape[1], r.shape[1]), dtype=np.int64)
    r = r.astype(np.float64, copy=False)
    for start in range(0, len(p), _CACHED_ROWS):
        part = p[start : start + _CACHED_ROWS].astype(np.float64, copy=False)
        total += (part.T @ r[start : start + _CACHED_ROWS]).astype(np.int64)
    return total


def weighed(p: npt.NDArray[Any], scales: IntArray | None) -> npt.NDArray[Any]:
    """Return trunc(w p) of every row, w its scale in 65,536ths, exactly; rows as they are where there are none.

    No entry grows, so that |p| <= G becomes |p| <= G w, a whole number.

    Examples
    --------
    >>> weighed(np.array([[40_000, -3]]), np.array([32_768]))
    array([[20000,    -1]])
    """
    if scales is None:
        return p
    # |p| <= 2^31 and w <= 2^16: the product is exact in floating point, and so is its division by a power of two.
    return np.trunc(p * (scales / GRID)[:, None]).astype(p.dtype)


def centred(sums: IntArray) -> IntArray:
    """Return m S - (S 1) 1': the sum of class ballots from the sum of p (x) e_y, exactly.

    Examples
    --------
    >>> centred(np.array([[3, 1]]))
    array([[ 2, -2]])
    """
    return np.asarray(sums * sums.shape[1] - sums.sum(axis=1, keepdims=True))


def delta_squared(kind: str, n_classes: int, adjacency: str, clip: float | None = None) -> int:
    """Return the square of how far one unit can move a sum of ballots, an exact whole number: the module's table.

    ``clip`` is that of residual ballots, None for class ballots.
    """
    check_choice("kind", kind, KINDS)
    check_choice("adjacency", adjacency, ADJACENCIES)
    m, replace = n_classes, adjacency == "replace-one"
    if clip is not None:
        return (4 if replace else 1) * (GRID * residual_norm(clip)) ** 2
    if not replace:
        return m * (m - 1) * GRID**2
    return 2 * (m * GRID) ** 2 if kind != "signed" else 4 * m * (m - 1) * GRID**2


#: A sum of so many ballots, of norm below 2^33 each, stays within 64 bits.
MOST_RECORDS = 1 << 29


class UnitFacts:
    """The public facts of a sum over units; a mixin of frozen dataclasses."""

    classes: tuple[Any, ...]
    unit: str
    adjacency: str
    n: int
    tiers: TierFacts | None = None

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, ("record", "group"))
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        object.__setattr__(self, "classes", tuple(self.classes))
        check_int("n", self.n, low=0)
        if self.tiers is not None:
            object.__setattr__(self, "tiers", tuple((str(name), int(w), int(n)) for name, w, n in self.tiers))
            if self.adjacency != "replace-one" or sum(n for *_, n in self.tiers) != self.n:
                raise InvalidInputError("tiers must be of all units, whose number is public (adjacency='replace-one').")

    @property
    def weight(self) -> float:
        """How much all units weigh together: their number, where there are no tiers."""
        return self.n if self.tiers is None else sum(w * n for _, w, n in self.tiers) / GRID

    @property
    def n_is_public(self) -> bool:
        """Whether the number of units is public."""
        return self.adjacency == "replace-one"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; classes that are no plain values are their repr."""
        found = {**asdict(self), "classes": [_plain(c) for c in self.classes]}  # type: ignore[call-overload]
        if self.tiers is None:  # requests without tiers are recognised as they were
            found.pop("tiers", None)
        return found


class UnitSums:
    """Exact sums over units in whole numbers: **sensitive**; a mixin of frozen dataclasses."""

    sums: IntArray
    facts: Any
    unit_owners: UnitOwners

    def _check(self, wanted: tuple[int, int], maker: str) -> None:
        if not isinstance(self.sums, np.ndarray) or self.sums.dtype != np.int64 or self.sums.shape != wanted:
            raise InvalidInputError(f"sums must be int64 of shape {wanted}. {maker}")

    @property
    def delta_squared(self) -> int:
        """The square of how far one unit moves :attr:`sums` (L2), an exact whole number. Public."""
        return int(self.facts.delta_squared)

    def delta_squared_of(self, weight: int) -> int:
        """Return the same of a unit of a tier of this weight: w^2 times as much, exactly.

        Every bound here is G^2 times a whole number, and a weighed unit's is (G w)^2 times it, by the same table.
        """
        return self.delta_squared // GRID**2 * weight**2

    def registration(self) -> Registration:
        """Return the data set as a ledger registers it; under add-or-remove without the number of records.

        The fingerprint in it is **sensitive**.
        """
        f = self.facts
        owners, tiers = self.unit_owners, self.unit_owners.tiers
        return Registration(
            f.unit,
            f.classes,
            n_units=owners.n_units if f.n_is_public else None,
            fingerprint=owners.fingerprint(),
            adjacency=f.adjacency,
            **({} if tiers is None else tiers.registered),
        )


@dataclass(frozen=True, kw_only=True)
class BallotFacts(UnitFacts):
    """The public facts about a sum of ballots: all but the sum and, under add-or-remove, the number of records.

    Attributes
    ----------
    kind : {"soft", "hard", "signed"}
        Of the space.
    clip : float or None
        Of residual ballots; None for class ballots.
    classes : tuple
    n_components : int
        d, of the space.
    unit : {"record", "group"}
    adjacency : {"replace-one", "add-or-remove"}
    n : int
        Number of units under replace-one adjacency (public there), else the nominal one.
    space : str
        Fingerprint of representation and space.
    provenance : str
        What they were fitted on, in words.
    own_maps : bool
        Both, and the model that residuals are taken from, are pate's own code, and give a row the same direction and
        probabilities to the last bit wherever it may stand in a neighbouring table.
    model : str
        Fingerprint of the model that residuals are taken from; empty for class ballots.
    own_model : bool
        That model is a head of pate's.
    classes_inferred : bool
        The classes were read off the private labels, which the statement then says.
    tiers : tuple of (name, weight, n_units), or None
        Where units are of several tiers: what a unit casts is scaled by its tier's weight, in whole 65,536ths.

    Examples
    --------
    >>> facts = BallotFacts(
    ...     kind="soft",
    ...     clip=None,
    ...     classes=(0, 1),
    ...     n_components=3,
    ...     unit="record",
    ...     adjacency="replace-one",
    ...     n=9,
    ...     space="ab",
    ...     provenance="",
    ...     own_maps=True,
    ... )
    >>> facts.scale, facts.delta_squared == 2 * facts.scale**2
    (131072, True)
    """

    kind: str
    clip: float | None
    classes: tuple[Any, ...]
    n_components: int
    unit: str
    adjacency: str
    n: int
    space: str
    provenance: str
    own_maps: bool
    model: str = ""
    own_model: bool = False
    classes_inferred: bool = False
    tiers: TierFacts | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        super().__post_init__()
        if self.clip is not None:
            object.__setattr__(self, "clip", check_clip(self.clip))

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def scale(self) -> int:
        """Whole numbers per unit: |phi| = 1 with the centred one-hot (or a residual)."""
        return self.n_classes * GRID if self.clip is None else GRID * GRID

    @property
    def delta_squared(self) -> int:
        """The square of how far one unit moves the sum, see :mod:`pate.records.ballot_sum`."""
        return delta_squared(self.kind, self.n_classes, self.adjacency, self.clip)


def _plain(value: Any) -> Any:
    plain = isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else repr(value)


@dataclass(frozen=True, eq=False, repr=False)
class BallotSum(UnitSums):
    """The exact sum of all units' ballots, in whole numbers: **sensitive**; :class:`pate.RecordVoters` makes it.

    Attributes
    ----------
    sums : int64 array of shape (d, m)
        Exact; :attr:`scale` whole numbers are one ballot with |phi| = 1.
    facts : BallotFacts
        What is public of it.
    unit_owners : UnitOwners
        A ledger recognises the records by them. **Sensitive.**

    Examples
    --------
    >>> import numpy as np
    >>> from pate.records import RecordVoters, SignedSpace
    >>> public = np.random.default_rng(0).normal(size=(50, 3))
    >>> voters = RecordVoters(None, SignedSpace().fit(public), classes=("no", "yes"))
    >>> a, b = voters.cast(public[:20], ["no"] * 20), voters.cast(public[20:], ["yes"] * 30)
    >>> a + b
    BallotSum(kind='signed', shape=(3, 2), unit='record', adjacency='replace-one', sums=<sensitive>)
    """

    sums: IntArray
    facts: BallotFacts
    unit_owners: UnitOwners = field(repr=False)

    def __post_init__(self) -> None:
        self._check((self.facts.n_components, self.facts.n_classes), "RecordVoters.cast makes them.")
        if self.unit_owners.n_units > MOST_RECORDS:  # not quoted: it may be private
            raise InvalidInputError(f"a sum of ballots must be of at most {MOST_RECORDS:,} units. Release it in parts.")
        note("ballots", ballots=self)

    @property
    def kind(self) -> str:
        """The kind of space, see :class:`BallotFacts`."""
        return self.facts.kind

    @property
    def scale(self) -> int:
        """Whole numbers per unit of a ballot."""
        return self.facts.scale

    @property
    def delta(self) -> float:
        """How far one unit moves :attr:`sums` (L2), rounded up."""
        return math.nextafter(math.sqrt(self.delta_squared), math.inf)

    def __add__(self, other: BallotSum) -> BallotSum:
        if not isinstance(other, BallotSum):
            return NotImplemented
        if self.facts.tiers is not None or other.facts.tiers is not None:
            raise InvalidInputError("ballot sums with tiers cannot be added. Cast all records at once.")
        counted = self.facts.n_is_public
        mine, theirs = (replace(f, n=0) if counted else f for f in (self.facts, other.facts))
        if mine != theirs:
            raise InvalidInputError(
                "ballot sums must be of the same kind, clip, classes, unit, adjacency and space to be added. Cast both "
                "parts by the same voters."
            )
        owners = self.unit_owners + other.unit_owners
        facts = replace(self.facts, n=owners.n_units) if counted else self.facts
        return BallotSum(self.sums + other.sums, facts, owners)

    def __repr__(self) -> str:
        f = self.facts
        clip = "" if f.clip is None else f", clip={f.clip:g}"
        return (
            f"BallotSum(kind={f.kind!r}{clip}, shape={self.sums.shape}, unit={f.unit!r}, adjacency={f.adjacency!r}, "
            "sums=<sensitive>)"
        )
