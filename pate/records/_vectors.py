"""Exact sums of bounded vectors, one per private record: for numeric targets, and for tables without public rows.

Every unit (a record, or a person) contributes a matrix W of whole numbers, and the exact sum over units is released
with Gaussian noise. ``bound_squared`` is a whole number b with |W|^2 <= b (Frobenius norm), certified in whole
numbers. There are three kinds:

- ``"signed"``: W = u v', with any u and v. Two units differ by |W - W'| <= |W| + |W'|, so Delta^2 = 4 b.
- ``"counts"``: W >= 0 in every entry. Then <W, W'> >= 0, so |W - W'|^2 <= |W|^2 + |W'|^2, and Delta^2 = 2 b.
- ``"squares"``: W is a sum of u u'. For positive semidefinite matrices <W, W'> >= 0 too (the trace of the product of
  two such is not negative), so Delta^2 = 2 b.

All three are reached: by v and -v, by two records in different cells, and by two orthogonal u. Neighbours replace one
unit here (no add-or-remove).

**Persons.** A person with k usable records contributes, for counts, floor(2^16/k) for each record's cells; for
squares, u cut to whole numbers after division by sqrt(k), so that tr W <= the square of the bound of one record, and
|W| <= tr W; for signed vectors, the sum over the person's records scaled down to the bound
(:func:`person_residual_sums`).

**Two parts.** A rule that looks at no value may split the units into those that train and those that are held out.
Neighbouring data sets then differ in one part only, so that rounds asked of different parts do not add up (parallel
composition, McSherry, SIGMOD 2009): see :func:`held_out_units`, also for persons, whose part may change with them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pate._core.checks import check_choice, check_int, check_real
from pate._core.recorder import note, playing
from pate._core.secret import check_secret, derive, fresh_secret
from pate._core.types import FloatArray, IntArray, Mask
from pate.exceptions import InvalidInputError
from pate.records._histograms import cells_of
from pate.records._maps import BLOCK_ROWS, HeldRecords, person_residual_sums, slabs
from pate.records.ballot_sum import (
    GRID,
    MOST_RECORDS,
    UnitFacts,
    UnitOwners,
    UnitSums,
    _certified,
    exact_product,
)

if TYPE_CHECKING:
    from pate.records._voters import RecordVoters

KINDS = ("signed", "counts", "squares")
#: Which units contribute: all, those that train, or those that are held out.
PARTS = ("all", "training", "held out")
#: The classes of a data set whose target is a number, as a ledger registers it.
NUMBER = ("a number",)


@dataclass(frozen=True, kw_only=True)
class VectorFacts(UnitFacts):
    """The public facts of a sum of vectors: everything but the sum.

    Attributes
    ----------
    kind : {"signed", "counts", "squares"}
    what : str
        What is summed, in words, for the statement.
    query : str
        A digest of all public settings of the sum: edges of bins, the model that residuals are taken from, ...
    shape : (int, int)
        Of the sum.
    scale : int
        Whole numbers per unit of what is summed.
    bound_squared : int
        No unit's contribution is longer, squared, in whole numbers.
    part : {"all", "training", "held out"}
        Which units contribute.
    cut : str
        Identifies which units are held out; empty where none are.
    classes, unit, adjacency, n
        As of :class:`BallotFacts`; ``n`` counts the units of all parts. ``classes`` are ``("a number",)`` where the
        target is one.
    own_maps, own_model, provenance
        As of :class:`BallotFacts`; not own where pate did not compute the vectors.

    Examples
    --------
    >>> facts = VectorFacts(
    ...     kind="counts",
    ...     what="a histogram",
    ...     query="",
    ...     shape=(1, 4),
    ...     scale=1,
    ...     bound_squared=1,
    ...     classes=NUMBER,
    ...     unit="record",
    ...     adjacency="replace-one",
    ...     n=9,
    ... )
    >>> facts.delta_squared
    2
    """

    kind: str
    what: str
    query: str
    shape: tuple[int, int]
    scale: int
    bound_squared: int
    classes: tuple[Any, ...]
    unit: str
    adjacency: str
    n: int
    part: str = "all"
    cut: str = ""
    own_maps: bool = False
    provenance: str = ""
    own_model: bool = False
    classes_inferred: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("part", self.part, PARTS)
        check_choice("adjacency", self.adjacency, ("replace-one",))
        super().__post_init__()
        for name in ("scale", "bound_squared"):
            check_int(name, getattr(self, name), low=1)
        object.__setattr__(self, "shape", tuple(check_int("shape", side, low=1) for side in self.shape))

    @property
    def delta_squared(self) -> int:
        """The square of how far one unit moves the sum (L2), an exact whole number: the module's list."""
        return (4 if self.kind == "signed" else 2) * self.bound_squared

    @property
    def is_residual(self) -> bool:
        """Whether records were asked about a model of earlier rounds."""
        return bool(self.kind == "signed")

    @property
    def in_words(self) -> str:
        """What was summed, for a statement."""
        return self.what if self.part == "all" else f"{self.what} ({self.part} units)"


@dataclass(frozen=True, eq=False, repr=False)
class VectorSum(UnitSums):
    """The exact sum of all units' vectors, in whole numbers: **sensitive**.

    Attributes
    ----------
    sums : int64 array of shape ``facts.shape``
    facts : VectorFacts
        What is public of it.
    unit_owners : UnitOwners
        A ledger recognises the records by them. **Sensitive.**

    Examples
    --------
    >>> numbers = Units.of([0.5, 2.5, 3.0])
    >>> count_cells(
    ...     numbers, numbers.cells([0.0, 1.0, 4.0]), [2], what="a histogram", query=""
    ... )
    VectorSum(kind='counts', shape=(1, 2), unit='record', adjacency='replace-one', sums=<sensitive>)
    """

    sums: IntArray
    facts: VectorFacts
    unit_owners: UnitOwners = field(repr=False)

    def __post_init__(self) -> None:
        self._check(self.facts.shape, "pate.records makes them.")
        if self.unit_owners.n_units > MOST_RECORDS:  # not quoted: it may be private
            raise InvalidInputError(f"a sum must be of at most {MOST_RECORDS:,} units. Release it in parts.")
        note("ballots", ballots=self)

    def __repr__(self) -> str:
        f = self.facts
        return (
            f"VectorSum(kind={f.kind!r}, shape={f.shape}, unit={f.unit!r}, adjacency={f.adjacency!r}, sums=<sensitive>)"
        )


# The units: whose records they are, what number each record has, and which part it is in.


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Units:
    """Private records with a number each, their owners and parts: **sensitive**.

    ``values`` (n,) are finite, or NaN where a record cannot be used; ``owners`` are whole numbers, or None where every
    record is a unit; ``held_out`` is a mask of the records whose units are held out, ``cut`` identifies it.

    Examples
    --------
    >>> Units.of([1.0, None, 2.0], share=0.5)
    Units(<sensitive>)
    """

    values: FloatArray
    owners: IntArray | None
    unit_owners: UnitOwners = field(repr=False)
    held_out: Mask
    cut: str
    classes: tuple[Any, ...]

    def __repr__(self) -> str:
        return "Units(<sensitive>)"

    @classmethod
    def of(cls, y: Any, groups: Any = None, *, share: float = 0.0, secret: bytes | None = None) -> Units:
        """Return the units of records whose target is a number.

        Parameters
        ----------
        y : array-like of shape (n,)
            Numbers; what is none, or not finite, is a record that contributes nothing.
        groups : array-like of shape (n,) or None
            The owner of each record; a record without one contributes nothing.
        share : float
            The part of the units that is held out, in [0, 1).
        secret : bytes or None
            By which records are held out (:func:`held_out_units`); None draws one, used once and forgotten.

        Raises
        ------
        InvalidInputError
            Another shape.
        """
        values = read_numbers(y)
        return cls.with_labels(number_codes(values), groups, values=values, classes=NUMBER, share=share, secret=secret)

    @classmethod
    def with_labels(
        cls,
        labels: IntArray,
        groups: Any = None,
        *,
        values: FloatArray | None = None,
        classes: tuple[Any, ...],
        share: float = 0.0,
        secret: bytes | None = None,
    ) -> Units:
        """Return the units of records that a ledger recognises by these labels, as whole numbers of 32 bits."""
        from pate.teachers import Owners  # scikit-learn, whose import takes a second

        check_real("share", share, low=0, high=1, high_open=True)
        secret = fresh_secret() if secret is None else check_secret(secret)
        by_row = Owners.of(groups, len(labels))
        unit_owners = UnitOwners.of(labels, by_row.groups, by_row.ids)
        held_values = np.zeros(len(labels)) if values is None else values
        return cls(
            values=np.where(by_row.known, held_values, np.nan),
            owners=None if by_row.codes is None else np.asarray(by_row.codes, dtype=np.int64),
            unit_owners=unit_owners,
            held_out=held_out_units(len(labels), share, by_row.codes, by_row.ids, secret=secret),
            cut=cut_of(share, secret, grouped=by_row.ids is not None),
            classes=classes,
        )

    @property
    def n(self) -> int:
        """The number of units, which is public."""
        return self.unit_owners.n_units

    @property
    def unit(self) -> str:
        """``"record"`` or ``"group"``."""
        return "group" if self.unit_owners.grouped else "record"

    def part(self, name: str) -> Mask:
        """Return a mask of the records in a part that can be used: **sensitive**."""
        check_choice("part", name, PARTS)
        usable = np.isfinite(self.values)
        return usable if name == "all" else usable & (self.held_out == (name == "held out"))

    def cells(self, edges: Any, values: FloatArray | None = None) -> IntArray:
        """Return each record's bin between public edges, shape (n, 1): beyond the ends the first or the last one.

        -1 where a record cannot be used. ``values`` (n,) take the place of the records' own numbers. **Sensitive.**
        """
        held = self.values if values is None else np.where(np.isfinite(self.values), values, np.nan)
        return np.where(np.isfinite(held), cells_of(held, np.asarray(edges, dtype=np.float64)), -1)[:, None]

    def facts(self, **said: Any) -> VectorFacts:
        """Return the facts of a sum over these units."""
        known: dict[str, Any] = {"classes": self.classes, "unit": self.unit, "n": self.n, "cut": self.cut}
        return VectorFacts(adjacency="replace-one", **known, **said)


def read_numbers(y: Any, *, name: str = "y") -> FloatArray:
    """Return a private target as float64 of shape (n,): NaN where a cell is no finite number; each cell by itself."""
    from pate.data import numbers_of
    from pate.teachers import as_column, label_column

    held = label_column(y, len(as_column(y)))
    if held.dtype.kind in "biuf":
        values = held.astype(np.float64)
    else:
        values = np.asarray(numbers_of(held.tolist()), dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def number_codes(values: FloatArray) -> IntArray:
    """Return 31 bits of each number, by which a ledger recognises the records; -1 for NaN: **sensitive**."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64).copy()
    bits ^= bits >> np.uint64(33)
    bits *= np.uint64(0xFF51AFD7ED558CCD)
    bits ^= bits >> np.uint64(33)
    return np.where(np.isfinite(values), (bits >> np.uint64(33)).astype(np.int64), -1)


def held_out_units(n: int, share: float, codes: Any, ids: list[bytes] | None, *, secret: bytes) -> Mask:
    """Return which records are held out: round(share n) secret places, or persons by a public hash of their id.

    Places come first by keyed pseudo-random numbers (SHAKE-256), of the number of records alone: a replaced record
    keeps its place, and so its part. Where another record comes in elsewhere and moves those between (a sorted file),
    the order of places composed with that move is as likely, and under it no part changes but for that record: the
    argument of :func:`pate.data.partition`, by which the guarantee holds for the mixture, as long as the key is secret.

    A replaced *person* may come to another part: then either part changes by one person added or removed, by which no
    sum moves more than sqrt(Delta^2/2), since Delta^2 is 4 b or 2 b and such a person moves it by at most sqrt b. Both
    parts together then cost at most half of the one and half of the other, which is no more than the larger of them.
    """
    if not share:
        return np.zeros(n, dtype=bool)
    if ids is None:
        stream = hashlib.shake_256(derive(secret, f"held out of {n}")).digest(8 * n)
        found = np.zeros(n, dtype=bool)
        found[np.frombuffer(stream, dtype="<u8").argsort(kind="stable")[: round(share * n)]] = True
        recorder = playing()  # a replay of the same records in another order holds the same ones out
        return found if recorder is None or recorder.places is None else found[recorder.places]
    most = int(share * 2**64)
    drawn = [int.from_bytes(hashlib.sha256(b"held out" + one).digest()[:8], "little") < most for one in ids]
    return np.where(np.asarray(codes) >= 0, np.asarray([*drawn, False])[codes], False)


def cut_of(share: float, secret: bytes, *, grouped: bool) -> str:
    """Return what identifies the held-out units, and does not tell the secret; empty where none are held out."""
    if not share:
        return ""
    return f"{share!r} by " + ("ids" if grouped else derive(secret, "held out, by name").hex()[:32])


# The sums.


def count_cells(
    units: Units,
    codes: IntArray,
    sizes: list[int],
    *,
    what: str,
    query: str,
    part: str = "all",
    own: bool = False,
) -> VectorSum:
    """Return how many units are in each cell of every column.

    Parameters
    ----------
    units : Units
    codes : int array of shape (n, p)
        Each record's cell of every column, from that record alone; -1 for none.
    sizes : list of int
        The number of cells of each of the p columns.
    what, query, part
        See :class:`VectorFacts`.
    own : bool
        Whether codes were computed by pate's own code, each record's to the last bit by itself.

    Returns
    -------
    VectorSum
        Of kind "counts" and shape (1, sum(sizes)): a record is in one cell of each column at most, so that its counts
        have norm sqrt p at most. **Sensitive.**
    """
    codes, starts = np.asarray(codes, dtype=np.int64), np.concatenate([[0], np.cumsum(sizes)])
    if codes.ndim != 2 or codes.shape != (len(units.values), len(sizes)):
        raise InvalidInputError(f"codes must have shape (n, {len(sizes)}), got {codes.shape}.")
    inside = units.part(part)[:, None] & (codes >= 0) & (codes < np.asarray(sizes))
    cells = codes + starts[:-1]
    if units.owners is None:
        sums, scale = np.bincount(cells[inside], minlength=starts[-1]).astype(np.int64), 1
    else:
        rows = np.flatnonzero(inside.any(axis=1))
        _, who = np.unique(units.owners[rows], return_inverse=True)
        many = np.bincount(who.reshape(-1))[who.reshape(-1)] if len(rows) else np.ones(0, dtype=np.int64)
        sums, scale = np.zeros(starts[-1], dtype=np.int64), GRID
        weights = np.broadcast_to((GRID // many)[:, None], (len(rows), len(sizes)))
        np.add.at(sums, cells[rows][inside[rows]], weights[inside[rows]])
    bound = len(sizes) * scale * scale
    facts = units.facts(
        kind="counts", what=what, query=query, shape=(1, int(starts[-1])), scale=scale, bound_squared=bound, part=part,
        own_maps=own, own_model=own,
    )  # fmt: skip
    return VectorSum(sums[None, :], facts, units.unit_owners)


def sum_squares(
    units: Units, vectors: FloatArray, *, bound: float, what: str, query: str, own: bool = False
) -> VectorSum:
    """Return the exact sum of u u' over units, for vectors u of shape (n, p) cut to norm ``bound``.

    Parameters
    ----------
    units : Units
    vectors : float array of shape (n, p)
        Each from its own record alone; a row that is not finite counts as zero.
    bound : float
        The norm to which vectors are cut; 2^32 whole numbers stand for its square.
    what, query
        See :class:`VectorFacts`.
    own : bool
        As of :func:`count_cells`, of the vectors.

    Returns
    -------
    VectorSum
        Of kind "squares" and shape (p, p). **Sensitive.**
    """
    check_real("bound", bound, low=0, low_open=True)
    rows = np.array(vectors, dtype=np.float64) / bound
    rows[~(np.isfinite(rows).all(axis=1) & units.part("all"))] = 0.0
    if units.owners is not None:
        _, who = np.unique(units.owners, return_inverse=True)
        who = who.reshape(-1)
        usable = rows.any(axis=1)
        many = np.maximum(np.bincount(who, weights=usable), 1.0)[who]
        divisor = np.ceil(np.sqrt(many) * 2**20).astype(np.int64)[:, None] + 1  # above 2^20 sqrt(k)
        whole = _certified(rows, GRID, 1.0)
        whole = np.sign(whole) * ((np.abs(whole) << 20) // divisor)
    else:
        whole = _certified(rows, GRID, 1.0)
    p = whole.shape[1]
    facts = units.facts(
        kind="squares", what=what, query=query, shape=(p, p), scale=GRID * GRID, bound_squared=GRID**4,
        own_maps=own, own_model=own,
    )  # fmt: skip
    return VectorSum(exact_product(whole, whole), facts, units.unit_owners)


def _clipped(units: Units, vectors: FloatArray, clip: float, part: str) -> tuple[IntArray, Mask]:
    """Return clip_C(r) in whole 2^-16 of C, zero where a record is of another part or unusable, and which are not."""
    check_real("clip", clip, low=0, low_open=True)
    r = np.array(vectors, dtype=np.float64) / clip
    if r.ndim != 2 or len(r) != len(units.values):
        raise InvalidInputError(f"vectors must have shape (n, m), got {r.shape}.")
    used = units.part(part) & np.isfinite(r).all(axis=1)
    r[~used] = 0.0
    return _certified(r, GRID, 1.0), used


def sum_vectors(
    units: Units,
    held: HeldRecords,
    vectors: FloatArray,
    *,
    clip: float,
    what: str,
    query: str,
    part: str = "all",
    own: bool = False,
) -> VectorSum:
    """Return the exact sum of phi (x) clip_C(r) over units.

    Parameters
    ----------
    units : Units
    held : HeldRecords
        The same records with their directions phi, |phi| <= 1 (:meth:`pate.RecordVoters.hold`).
    vectors : float array of shape (n, m)
        r of each record, from that record and public models alone; a row that is not finite counts as zero.
    clip : float
        C, the norm to which r is clipped.
    what, query, part
        See :class:`VectorFacts`.
    own : bool
        As of :func:`count_cells`, of r.

    Returns
    -------
    VectorSum
        Of kind "signed" and shape (d, m), in units of C. **Sensitive.**
    """
    whole, _ = _clipped(units, vectors, clip, part)
    maps, order = held.maps, held.order
    assert maps is not None
    assert order is not None
    d, m = maps.d, whole.shape[1]
    exact = units.unit == "record" or maps.exact
    total = np.zeros((d, m), dtype=np.int64)
    start = 0
    for piece in held.pieces:
        index = order[start : start + len(piece.labels)]
        start += len(index)
        mine = np.where((piece.labels >= 0)[:, None], whole[index], 0)
        if piece.owners is None:
            for a, b in slabs(len(index), BLOCK_ROWS):
                total += exact_product(piece.p[a:b], mine[a:b])
        else:
            total += person_residual_sums(piece.p.astype(np.int64), mine, piece.owners, clip=1.0)
    facts = units.facts(
        kind="signed", what=what, query=query, shape=(d, m), scale=GRID * GRID, bound_squared=GRID**4, part=part,
        own_maps=own and maps.own and exact, provenance=maps.provenance, own_model=own,
    )  # fmt: skip
    return VectorSum(total, facts, units.unit_owners)


def sum_alone(
    units: Units,
    vectors: FloatArray,
    *,
    clip: float,
    what: str,
    query: str,
    kind: str = "signed",
    part: str = "all",
    own: bool = False,
) -> VectorSum:
    """Return the exact sum of clip_C(r) over units: the mean over a person's records, as one.

    Parameters
    ----------
    units : Units
    vectors : float array of shape (n, m)
        r of each record, from that record and public models alone; a row that is not finite counts as zero.
    clip : float
        C, the norm to which r is clipped.
    what, query, part
        See :class:`VectorFacts`.
    kind : {"signed", "counts"}
        "counts": negative entries count as zero.
    own : bool
        As of :func:`count_cells`, of the vectors.

    Returns
    -------
    VectorSum
        Of that kind and shape (1, m), in units of C. **Sensitive.**
    """
    check_choice("kind", kind, ("signed", "counts"))
    whole, mask = _clipped(units, vectors, clip, part)
    if kind == "counts":
        whole = np.maximum(whole, 0)
    if units.owners is not None:  # each entry cut towards zero, so that a person's is no longer than one record's
        _, who = np.unique(units.owners, return_inverse=True)
        many = np.maximum(np.bincount(who.reshape(-1), weights=mask), 1.0)[who.reshape(-1)].astype(np.int64)
        whole = np.sign(whole) * (np.abs(whole) // many[:, None])
    facts = units.facts(
        kind=kind, what=what, query=query, shape=(1, whole.shape[1]), scale=GRID, bound_squared=GRID**2, part=part,
        own_maps=own, own_model=own,
    )  # fmt: skip
    return VectorSum(whole.sum(axis=0, keepdims=True), facts, units.unit_owners)


def sum_residuals(
    units: Units, voters: RecordVoters, held: HeldRecords, model: Any, *, clip: float, what: str, part: str = "all"
) -> VectorSum:
    """Return the exact sum of phi (x) clip_C(e_y - p(x)), for classes that stand for ranges of a number.

    The ballots are those of :meth:`pate.RecordVoters.cast_residuals`, which says what ``model`` and ``clip`` are; a
    quarter of their squared sensitivity bounds one. **Sensitive.**

    Parameters
    ----------
    units : Units
    voters : RecordVoters
        Under replace-one adjacency.
    held : HeldRecords
        The same records, held by these voters with the classes.
    """
    ballots = voters.cast_residuals(only(held, units.part(part)), model=model, clip=clip)
    f = ballots.facts
    if (f.unit, f.adjacency, f.n) != (units.unit, "replace-one", units.n):
        raise InvalidInputError("voters must hold the same units as are counted, under replace-one adjacency.")
    facts = units.facts(
        kind="signed", what=what, query=f"{f.space} {f.model} {f.clip!r} {f.kind}", shape=ballots.sums.shape,
        scale=f.scale, bound_squared=f.delta_squared // 4, part=part,
        own_maps=f.own_maps, provenance=f.provenance, own_model=f.own_model,
    )  # fmt: skip
    return VectorSum(ballots.sums, facts, units.unit_owners)


def only(held: HeldRecords, mask: Mask) -> HeldRecords:
    """Return held records of which those outside the mask (in the records' order) cast nothing: **sensitive**."""
    assert held.order is not None
    pieces, start = [], 0
    for piece in held.pieces:
        index = held.order[start : start + len(piece.labels)]
        start += len(index)
        pieces.append(replace(piece, labels=np.where(mask[index], piece.labels, -1)).sealed())
    return replace(held, pieces=tuple(pieces))
