"""Public maps of rows, in blocks of one fixed shape, so that a row's image depends on that row alone.

Floating-point products of matrices may round differently in matrices of another shape. Rows are therefore mapped in
blocks of :data:`BLOCK_ROWS`, the last one filled up with its first row: shapes are constant, and neither the number of
records nor the other rows change a row's image. Its place in the block may change the last bit with some BLAS, except
for maps that are ``exact_`` (all spaces, and heads of linear logits). It matters where neighbouring tables have their
rows in other places: under add-or-remove adjacency, and where a replaced person may have more records or fewer.
"""

from __future__ import annotations

import copy
import hashlib
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import quietly
from pate._core.files import mapped
from pate._core.types import FloatArray, IntArray, Mask
from pate.data import by_name, is_frame, is_sparse, numbers_of, read_records
from pate.exceptions import InvalidInputError
from pate.records.ballot_sum import (
    GRID,
    UnitOwners,
    class_sums,
    exact_product,
    quantised,
    quantised_residuals,
    residual_norm,
    weighed,
)
from pate.representations import TextCells, ask_block, n_rows

BLOCK_ROWS = 1024


def rows_of(X: Any, *, width: int | None, name: str = "X") -> tuple[Any, Mask]:
    """Return rows that can be indexed, and a mask of those that could be read; each row is read by itself.

    ``width`` is the public number of a row's cells (:attr:`PublicMap.width`), None where rows are texts. Arrays of
    numbers, DataFrames and sparse matrices stay what they are.
    """
    return quietly(name, read_records, X, width, name)


def take(X: Any, index: IntArray) -> Any:
    """Return the rows with these indices; types and columns stay as they are."""
    return X.iloc[index] if is_frame(X) else X[index]


def fingerprint_of(thing: Any) -> str:
    """Return the fingerprint of a public map or model, or a digest of its whole state where it has none."""
    if thing is None:
        return "none"
    own = getattr(thing, "fingerprint", None)
    if callable(own):
        return str(own())
    import joblib

    # Settings alone (a repr) would not distinguish two fits of one class.
    made = None
    with suppress(Exception):
        made = joblib.hash(thing, hash_name="sha1")
    if made is None:
        raise InvalidInputError(
            f"a {type(thing).__name__} must have a method fingerprint(), a text that identifies what was fitted, or be "
            "picklable. Add the method: a release is recognised by it."
        )
    return str(made)


def is_own(thing: Any, package: str = "") -> bool:
    """Whether the object's class is defined in pate (in that package of it), and not a subclass from elsewhere."""
    module = type(thing).__module__
    return thing is None or module == f"pate{package}" or module.startswith(f"pate{package}.")


class PublicMap:
    """A representation, then a ballot space, applied to rows in blocks."""

    def __init__(self, representation: Any, space: Any) -> None:
        self.representation, self.space = representation, space
        self.d = int(space.n_components_)
        #: Whether a row at which a map fails is one that cannot be used, and nothing is raised: for maps of strangers.
        self.forgives = False

    @property
    def width(self) -> int | None:
        """The number of cells per row that the map was fitted on; None where it has none, as rows are texts."""
        return _width(self.space if self.representation is None else self.representation)

    def phi(self, X: Any, index: IntArray) -> FloatArray:
        """Return the directions of the rows with these indices, float64 of shape (len(index), d)."""
        return self.both(X, index)[1]

    def both(self, X: Any, index: IntArray, *, keep: bool = False) -> tuple[FloatArray | None, FloatArray]:
        """Return the representation of those rows (None unless ``keep``), and their directions."""
        found, vectors = np.empty((len(index), self.d)), []
        for start in range(0, len(index), BLOCK_ROWS):
            part = index[start : start + BLOCK_ROWS]
            whole = np.concatenate([part, np.full(BLOCK_ROWS - len(part), part[0], dtype=part.dtype)])
            z, phi = self._mapped(X, whole)
            found[start : start + len(part)] = phi[: len(part)]
            if keep:
                vectors.append(z[: len(part)])
        if not keep:
            return None, found
        width = 0 if self.representation is None else getattr(self.representation, "n_features_out_", 0)
        return np.concatenate(vectors) if vectors else np.zeros((0, width)), found

    def _mapped(self, X: Any, whole: IntArray) -> tuple[FloatArray, FloatArray]:
        try:
            return quietly("X", self._block, take(X, whole))
        except InvalidInputError:
            if not self.forgives:
                raise
        # Halves, each row in its own place: what a row becomes, or that it fails, follows from that row alone.
        rows = np.unique(whole)
        if len(rows) == 1:
            z = np.zeros((len(whole), getattr(self.representation, "n_features_out_", self.width or 0)))
            return z, np.full((len(whole), self.d), np.nan)
        parts = [np.isin(whole, half) for half in np.array_split(rows, 2)]
        (z, phi), (other_z, other) = (self._mapped(X, np.where(part, whole, whole[part][0])) for part in parts)
        return np.where(parts[0][:, None], z, other_z), np.where(parts[0][:, None], phi, other)

    def _block(self, rows: Any) -> tuple[FloatArray, FloatArray]:
        z = (
            _numbers(rows, getattr(self.space, "feature_names_in_", None))
            if self.representation is None
            else (self.representation if is_own(self.representation) else copy.deepcopy(self.representation)).transform(
                rows
            )
        )
        z = np.asarray(z.toarray() if is_sparse(z) else z, dtype=np.float64)
        phi = np.asarray(self.space.transform(z), dtype=np.float64)
        if phi.shape != (BLOCK_ROWS, self.d):
            raise InvalidInputError(
                f"representation and space must map {BLOCK_ROWS} rows to shape {(BLOCK_ROWS, self.d)}, got {phi.shape}."
            )
        return z, phi

    def fingerprint(self) -> str:
        """Return a digest of both, which identifies the space of a release."""
        parts = f"pate map 1\n{fingerprint_of(self.representation)}\n{fingerprint_of(self.space)}"
        return hashlib.sha256(parts.encode()).hexdigest()

    @property
    def provenance(self) -> str:
        """What both were fitted on, as text."""
        given = "rows taken as they were given"
        unknown = "a representation of unknown origin"
        first = given if self.representation is None else str(getattr(self.representation, "provenance_", unknown))
        return f"{first}; {getattr(self.space, 'provenance_', 'a space of unknown origin')}"

    @property
    def own(self) -> bool:
        """Whether both are pate's own code throughout."""
        return own_throughout(self.representation) and is_own(self.space, ".records")

    @property
    def exact(self) -> bool:
        """Whether a row's phi is the same to the last bit wherever the row stands, by both maps' ``exact_``."""
        return all(bool(getattr(m, "exact_", False)) for m in (self.representation, self.space) if m is not None)


def _numbers(rows: Any, names: Any = None) -> Any:
    """Return rows without a representation as numbers, read cell by cell; a cell that is no number becomes NaN."""
    if is_sparse(rows) or (isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf"):
        return rows
    rows = by_name(rows, names, other="the space was fitted on")
    cells = rows.to_numpy(dtype=object) if is_frame(rows) else np.asarray(rows, dtype=object)
    return numbers_of(cells.ravel().tolist()).reshape(cells.shape)


def _width(first: Any) -> int | None:
    parts = getattr(first, "parts_", ())
    if parts:
        return _width(parts[0])
    n = getattr(first, "n_features_in_", None)
    return None if n is None or isinstance(getattr(first, "cells_", None), TextCells) else int(n)


def own_throughout(representation: Any) -> bool:
    """Whether every part of a representation is pate's own code, without a module or transformer of the user's."""
    foreign = any(hasattr(representation, name) for name in ("module_", "transformer_"))
    foreign |= not getattr(representation, "own_", True)
    parts = getattr(representation, "parts_", ())
    return is_own(representation) and not foreign and all(map(own_throughout, parts))


def slabs(n: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most ``rows`` row numbers."""
    for start in range(0, n, rows):
        yield start, min(start + rows, n)


def in_blocks(ask: Callable[[Any], tuple[IntArray, Mask]], rows: Any, n: int, *, size: int = BLOCK_ROWS) -> IntArray:
    """Return class indices of rows, predicted in blocks of one fixed shape; -1 where a row cannot be predicted.

    ``ask`` maps ``size`` rows to their class indices and a mask of those that could be predicted; with a ``size`` of 1
    the answer does not depend on the row's place.
    """
    found = np.full(n, -1, dtype=np.int64)
    for start, end in slabs(n, size):
        part = np.arange(start, end)
        whole = np.concatenate([part, np.full(size - len(part), start)])
        predicted, fine = ask(take(rows, whole))
        found[start:end] = np.where(np.asarray(fine)[: end - start], np.asarray(predicted)[: end - start], -1)
    return found


def ask_alone(ask: Callable[[IntArray], Any], usable: Mask, found: Any, *, size: int = BLOCK_ROWS) -> None:
    """Write into ``found`` what ``ask`` says of each usable row, in blocks of one shape; others stay as they are.

    ``ask`` maps the numbers of ``size`` rows to as many answers, and acts on each row alone.
    """
    for start, end in slabs(len(usable), size):
        ask_block(ask, start, np.flatnonzero(usable[start:end]), size, found)


# One person's records clipped together, in whole numbers; every step depends on that person's records alone.

_SHRINK = 1.0 - 2.0**-10
_TURNS = 64


def most_records(n_classes: int) -> int:
    """Return K: the sum of a person with k > K records is scaled by K/k first, so that squares fit 64 bits. Public.

    m |u|^2 <= m (K 2^16)^2 <= 2^62.
    """
    return math.isqrt((1 << 30) // n_classes)


def person_sums(
    p: IntArray, labels: IntArray, owners: IntArray, *, n_classes: int, kind: str, scales: IntArray | None = None
) -> IntArray:
    """Return the sum over persons of their clipped u, shape (d, m), not yet centred.

    ``p`` (n, d) is of :func:`quantised`, and weighed where there are ``scales``: a person is then clipped to theirs,
    and to G where there are none; labels are class indices, -1 where a record casts none; all rows of a
    person are adjacent.
    """
    used = labels >= 0
    norms = np.full(len(p), GRID, dtype=np.int64) if scales is None else scales
    p, labels, owners, norms = p[used], labels[used], owners[used], norms[used]
    if not len(p):
        return np.zeros((p.shape[1], n_classes), dtype=np.int64)
    who = np.cumsum(np.r_[0, owners[1:] != owners[:-1]])
    order = np.lexsort((labels, who))
    who, labels, norms = who[order], labels[order], norms[order]
    starts = np.flatnonzero(np.r_[True, (who[1:] != who[:-1]) | (labels[1:] != labels[:-1])])
    sums = np.add.reduceat(p[order], starts, axis=0)
    who, labels, norms = who[starts], labels[starts], norms[starts]
    n_records = np.bincount(who, weights=np.diff(np.r_[starts, len(order)])).astype(np.int64)
    most = most_records(n_classes)
    many = n_records > most
    sums = np.where(many[who, None], np.trunc(sums * (most * 0.999 / np.maximum(n_records, 1))[who, None]), sums)
    return class_sums(_within(sums.astype(np.int64), who, norms, n_classes, kind), labels, n_classes)


def _within(sums: IntArray, who: IntArray, longest: IntArray, n_classes: int, kind: str) -> IntArray:
    """Scale each person's sums, together, to the certified norm: at most their ``longest``, which is G or less."""
    first = np.flatnonzero(np.r_[True, who[1:] != who[:-1]])
    most = np.square(longest[first]) * (n_classes - 1 if kind == "signed" else 1)

    def squared(of: IntArray) -> IntArray:
        whole = np.add.reduceat(np.square(of).sum(axis=1), first)
        if kind != "signed":
            return np.asarray(whole)
        # |m u - (u 1) 1'|^2 / m = m |u|^2 - |u 1|^2, to stay within (m - 1) G^2 (of a tier, (m - 1) (G w)^2)
        return np.asarray(n_classes * whole - np.square(np.add.reduceat(of, first, axis=0)).sum(axis=1))

    norms = squared(sums)
    over = norms > most
    scale = np.where(over, np.sqrt(most / np.maximum(norms, 1)), 1.0)
    made = sums
    for _ in range(_TURNS):
        if not over.any():
            return made
        made = np.where(over[who, None], np.trunc(sums * scale[who, None]), made).astype(np.int64)
        over = squared(made) > most
        scale = np.where(over, scale * _SHRINK, scale)
    return np.where(over[who, None], 0, made)


def person_residual_sums(
    p: IntArray, r: IntArray, owners: IntArray, *, clip: float, scales: IntArray | None = None
) -> IntArray:
    """Return the sum over persons of their clipped sums of p (x) r, shape (d, m).

    ``p`` and ``scales`` are as in :func:`person_sums`; of a person of weight w the norm is G R w. A person's sum is
    brought to whole multiples of 2^16 (a 65,536th of a ballot), scaled down to norm G R, certified in whole numbers.
    """
    total = np.zeros((p.shape[1], r.shape[1]), dtype=np.int64)
    if not len(p):
        return total
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    sizes = np.diff(np.r_[starts, len(p)])
    most = np.full(len(starts), residual_norm(clip))  # G R in units of 2^16
    if scales is not None:
        most = most * scales[starts] // GRID
    for size in np.unique(sizes):  # persons of as many records each at once
        of_size = np.flatnonzero(sizes == size)
        for a, b in slabs(len(of_size), max(1, _MOST_AT_ONCE // total.size)):
            some = of_size[a:b]
            rows = starts[some, None] + np.arange(size)
            total += _shortened(_products(p[rows], r[rows]).reshape(len(some), -1) / GRID, most[some]).reshape(
                total.shape
            )
    return total * GRID


#: Numbers in the sums that are clipped at once: they stay in the cache.
_MOST_AT_ONCE = 1 << 16


def _products(p: IntArray, r: IntArray) -> IntArray:
    """Return :func:`exact_product` of each person's records, shape (n, d, m), from (n, k, d) and (n, k, m)."""
    if len(p) == 1 or p.shape[1] > _MOST_EXACT:
        return np.stack([exact_product(*one) for one in zip(p, r, strict=True)])
    # Whole numbers below 2^53 in every partial sum, in whatever order.
    return np.asarray((p.transpose(0, 2, 1).astype(np.float64) @ r.astype(np.float64)).astype(np.int64))


#: Records of one product in floating point that is exact (:func:`exact_product`).
_MOST_EXACT = 256


def _shortened(u: FloatArray, most: IntArray) -> IntArray:
    """Return the sum of trunc(f u) over rows, each of norm at most its ``most`` in whole numbers.

    f is the largest in (0, 1] but for rounding; it depends on the row alone.
    """
    peak = np.abs(u).max(axis=1, initial=0.0)
    left = np.flatnonzero(peak)
    u, peak, most = u[left], peak[left], most[left]
    total = np.zeros(u.shape[1], dtype=np.int64)
    scale = np.minimum(1.0, most / (peak * np.sqrt(np.square(u / peak[:, None]).sum(axis=1))))
    for _ in range(_TURNS):
        made = np.trunc(u * scale[:, None])
        made = np.clip(made, -most[:, None], most[:, None], out=made).astype(np.int64)
        over = np.square(made).sum(axis=1) > most * most
        total += made[~over].sum(axis=0)
        if not over.any():
            break
        u, most, scale = u[over], most[over], scale[over] * _SHRINK
    return total


#: Directions are stored for later rounds up to so many bytes, four per component; beyond, each round recomputes them,
#: or they are on disk, where the table is.
MOST_HELD_BYTES = 1 << 30


@dataclass(frozen=True, eq=False, repr=False)
class Piece:
    """Directions of some records, zero where a record cannot be used: **sensitive**.

    ``p`` (n, d) are :func:`pate.records.ballot_sum.quantised`; a label is -1 where the record casts nothing; all
    records of an owner are adjacent; ``z`` is the representation, for a model that predicts from it; ``scales`` are the
    weights of their tiers, which ``p`` is not yet multiplied by: models predict from it.

    Examples
    --------
    >>> Piece(np.zeros((2, 3), dtype=np.int32), np.array([0, -1]), None)
    Piece(<sensitive>)
    """

    p: npt.NDArray[np.int32]
    labels: IntArray
    owners: IntArray | None
    z: FloatArray | None = None
    scales: IntArray | None = None

    def __repr__(self) -> str:
        return "Piece(<sensitive>)"

    @property
    def casts(self) -> Mask:
        """Which records cast a ballot that is not zero."""
        return np.asarray((self.labels >= 0) & self.p.any(axis=1))

    def sealed(self) -> Piece:
        """Make the arrays read-only, so that certified norms stay certified, and return the piece."""
        for array in (self.p, self.labels, self.owners, self.z, self.scales):
            if array is not None:
                array.setflags(write=False)
        return self


@dataclass(frozen=True, eq=False, repr=False)
class HeldRecords:
    """Records with their stored directions, so that several rounds map the rows only once. **Sensitive**.

    :meth:`pate.RecordVoters.hold` makes it, and only voters of the same public facts cast it.

    Examples
    --------
    >>> HeldRecords((), UnitOwners.of(np.array([0]), None, None), ("ab",))
    HeldRecords(<sensitive>)
    """

    pieces: Sequence[Piece] = field(repr=False)
    unit_owners: UnitOwners = field(repr=False)
    of: tuple[Any, ...]
    """Public facts of the voters that directions and labels depend on: maps, kind of ballot, classes and adjacency."""
    maps: PublicMap | None = field(default=None, repr=False)
    """The map that made the directions; voters with the same object skip the comparison at every round."""
    order: IntArray | None = field(default=None, repr=False)
    """The place of each held record among the records as they were given, piece by piece."""

    def __repr__(self) -> str:
        return "HeldRecords(<sensitive>)"


def on_disk_pieces(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces with their directions moved to an unnamed temporary file, removed with the process.

    Used only where the table itself is in such a file (:mod:`pate.data._files._blocks`); arrays stay in memory.
    """
    known: list[Piece] = []
    with tempfile.TemporaryFile() as file:
        for piece in pieces:
            file.write(piece.p.tobytes())
            known.append(replace(piece, p=np.empty((0, piece.p.shape[1]), dtype=np.int32)))
        cells = np.frombuffer(mapped(file), dtype=np.int32) if file.tell() else np.zeros(0, dtype=np.int32)
    start = 0
    for piece in known:
        n, d = len(piece.labels), piece.p.shape[1]
        yield replace(piece, p=cells[start : start + n * d].reshape(n, d))
        start += n * d


@dataclass(frozen=True, repr=False, eq=False)
class Directions:
    """Maps rows to their quantised directions, each row by itself."""

    maps: PublicMap
    _: KW_ONLY
    keep: bool = False

    def __call__(self, rows: Any, labels: IntArray, owners: IntArray | None, scales: IntArray | None = None) -> Piece:
        """Return the directions of these records."""
        index = np.arange(n_rows(rows))
        p, fine = np.empty((len(index), self.maps.d), dtype=np.int32), np.empty(len(index), dtype=bool)
        vectors: list[Any] = []
        for a, b in slabs(len(index), BLOCK_ROWS):
            z, phi = self.maps.both(rows, index[a:b], keep=self.keep)
            fine[a:b] = np.isfinite(phi).all(axis=1)
            p[a:b] = quantised(phi, self.maps.space.kind)  # |p| <= 2^16
            if z is not None:
                odd = np.asarray(~np.isfinite(z).all(axis=1))
                fine[a:b] &= ~odd
                vectors.append(np.where(odd[:, None], 0.0, z))
        labels = np.where(fine, labels, -1)
        p[labels < 0] = 0
        return Piece(p, labels, owners, np.concatenate(vectors) if self.keep else None, scales)


class Sums:
    """Maps directions to the exact sum of their ballots; class ballots are not yet centred.

    ``model`` is public, and predicts from p / 2^16, the direction that is cast, or from the representation.
    """

    def __init__(self, kind: str, n_classes: int, model: Any = None, clip: float | None = None) -> None:
        self.kind, self.n_classes, self.model, self.clip = kind, n_classes, model, clip
        # pate's own heads predict from whole numbers, with weights prepared once.
        ready = is_own(model, ".models.heads") and hasattr(model, "prepared")
        self._ask = model.prepared(1 / GRID) if ready else None

    def __call__(self, piece: Piece) -> IntArray:
        """Return the sum, int64 of shape (d, n_classes); all records of a person are in the piece."""
        p, labels, owners, scales = piece.p, piece.labels, piece.owners, piece.scales
        if self.clip is None:
            if owners is None:
                return class_sums(weighed(p, scales), labels, self.n_classes)
            whole, about = weighed(p.astype(np.int64), scales), {"n_classes": self.n_classes, "kind": self.kind}
            return person_sums(whole, labels, owners, scales=scales, **about)  # type: ignore[arg-type]
        if owners is None:
            total = np.zeros((p.shape[1], self.n_classes), dtype=np.int64)
            for a, b in slabs(len(p), BLOCK_ROWS):  # each block is predicted and added while it is in the cache
                predicted, part = self._predicted(piece, a, b)
                part = weighed(part, None if scales is None else scales[a:b])
                total += exact_product(part, quantised_residuals(predicted, labels[a:b], self.clip))
            return total
        asked = [self._predicted(piece, a, b)[0] for a, b in slabs(len(p), BLOCK_ROWS)]
        r = quantised_residuals(np.concatenate([np.zeros((0, self.n_classes)), *asked]), labels, self.clip)
        return person_residual_sums(weighed(p.astype(np.int64), scales), r, owners, clip=self.clip, scales=scales)

    def _predicted(self, piece: Piece, start: int, end: int) -> tuple[FloatArray, FloatArray]:
        """Return the public model's probabilities of these rows, in blocks of one shape, and p in whole numbers."""
        p = _block(piece.p, start, end)
        if piece.z is not None:
            predicted = quietly("model", self.model.predict_proba, _block(piece.z, start, end))
        elif self._ask is not None:
            predicted = quietly("model", self._ask, p)
        else:
            predicted = quietly("model", self.model.predict_proba, p / GRID)
        predicted = np.asarray(predicted, dtype=np.float64)
        if predicted.shape != (BLOCK_ROWS, self.n_classes):
            raise InvalidInputError(
                f"model must give probabilities of {self.n_classes} classes per row, got shape {predicted.shape}."
            )
        return predicted[: end - start], p[: end - start]


def _block(rows: npt.NDArray[Any], start: int, end: int) -> FloatArray:
    """Return rows as float64, filled up with the first of them to BLOCK_ROWS."""
    block = np.empty((BLOCK_ROWS, rows.shape[1]))
    block[: end - start], block[end - start :] = rows[start:end], rows[start]
    return block


@dataclass(frozen=True, repr=False, eq=False)
class Work:
    """The task of a worker on one piece: it gets public maps and constants, and returns directions or their sum."""

    directions: Directions
    sums: Sums | None = None

    def __call__(
        self, rows: Any, labels: IntArray, owners: IntArray | None, scales: IntArray | None = None
    ) -> tuple[Piece | IntArray, Mask]:
        """Return these records' directions, or the sum of their ballots, and which of them cast one."""
        piece = self.directions(rows, labels, owners, scales)
        return (piece if self.sums is None else self.sums(piece)), piece.casts
