"""Public maps of rows, block by block: every block has the same shape, so that a row's image is its own.

Floating-point products of matrices may round differently in matrices of another shape. Rows are therefore mapped in
blocks of :data:`BLOCK_ROWS`, the last one filled up with its first row again: shapes are constants, and neither the
number of records nor a row's neighbours change what becomes of it. Its place in the block may, in the last bit, by
some BLAS; maps that say ``exact_`` (all spaces do, and heads of linear logits) are free of that too. It matters where
neighbouring tables have their rows in other places: under add-or-remove adjacency, and where a person replaced may
have more records or fewer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from pate.core.checks import quietly
from pate.core.types import FloatArray, IntArray, Mask
from pate.data._cells import read_records
from pate.data._columns import numbers_of
from pate.data._door import by_name, is_frame, is_sparse
from pate.exceptions import InvalidInputError
from pate.representations._cells import TextCells

BLOCK_ROWS = 1024


def rows_of(X: Any, *, width: int | None, name: str = "X") -> tuple[Any, Mask]:
    """Return rows that can be taken by number, and which of them could be read: each by itself.

    ``width`` is the public number of a row's cells (:attr:`PublicMap.width`), None where rows are texts. Arrays of
    numbers, DataFrames and sparse matrices stay what they are.
    """
    return quietly(name, read_records, X, width, name)


def take(X: Any, index: IntArray) -> Any:
    """Return the rows of these numbers; types and columns stay as they are."""
    return X.iloc[index] if is_frame(X) else X[index]


def fingerprint_of(thing: Any) -> str:
    """Return a public map's or model's own fingerprint, or a digest of all it holds where it has none."""
    if thing is None:
        return "none"
    own = getattr(thing, "fingerprint", None)
    if callable(own):
        return str(own())
    import joblib

    # Settings alone (a repr) would take two fits of one class for the same.
    made = None
    with suppress(Exception):
        made = joblib.hash(thing, hash_name="sha1")
    if made is None:
        raise InvalidInputError(
            f"a {type(thing).__name__} must have fingerprint(), a text that tells what was fitted, or be a class that "
            "can be pickled. Give it one: a release is recognised by it."
        )
    return str(made)


def is_own(thing: Any, room: str = "") -> bool:
    """Whether it is of a class of pate's (of that room), not of a subclass that somebody made."""
    home = type(thing).__module__
    return thing is None or home == f"pate{room}" or home.startswith(f"pate{room}.")


class PublicMap:
    """A representation and a space, one after the other, in blocks."""

    def __init__(self, representation: Any, space: Any) -> None:
        self.representation, self.space = representation, space
        self.d = int(space.n_components_)

    @property
    def width(self) -> int | None:
        """How many cells a row has, by what the map was fitted on; None where it does not say: rows are texts."""
        return _width(self.space if self.representation is None else self.representation)

    def phi(self, X: Any, index: IntArray) -> FloatArray:
        """Return directions of the rows of these numbers, float64 of shape (len(index), d)."""
        return self.both(X, index)[1]

    def both(self, X: Any, index: IntArray, *, keep: bool = False) -> tuple[FloatArray | None, FloatArray]:
        """Return the representation of those rows (if it is to be kept), and their directions."""
        found, vectors = np.empty((len(index), self.d)), []
        for start in range(0, len(index), BLOCK_ROWS):
            part = index[start : start + BLOCK_ROWS]
            whole = np.concatenate([part, np.full(BLOCK_ROWS - len(part), part[0], dtype=part.dtype)])
            z, phi = quietly("X", self._block, take(X, whole))
            found[start : start + len(part)] = phi[: len(part)]
            if keep:
                vectors.append(z[: len(part)])
        if not keep:
            return None, found
        width = 0 if self.representation is None else getattr(self.representation, "n_features_out_", 0)
        return np.concatenate(vectors) if vectors else np.zeros((0, width)), found

    def _block(self, rows: Any) -> tuple[FloatArray, FloatArray]:
        z = (
            _numbers(rows, getattr(self.space, "feature_names_in_", None))
            if self.representation is None
            else self.representation.transform(rows)
        )
        z = np.asarray(z.toarray() if is_sparse(z) else z, dtype=np.float64)
        phi = np.asarray(self.space.transform(z), dtype=np.float64)
        if phi.shape != (BLOCK_ROWS, self.d):
            raise InvalidInputError(
                f"representation and space must map {BLOCK_ROWS} rows to shape {(BLOCK_ROWS, self.d)}, got {phi.shape}."
            )
        return z, phi

    def fingerprint(self) -> str:
        """Return a digest of both; what a release's space is recognised by."""
        parts = f"pate map 1\n{fingerprint_of(self.representation)}\n{fingerprint_of(self.space)}"
        return hashlib.sha256(parts.encode()).hexdigest()

    @property
    def provenance(self) -> str:
        """What they were fitted on, in words."""
        given = "rows taken as they were given"
        told = given if self.representation is None else str(getattr(self.representation, "provenance_", "not told"))
        return f"{told}; {getattr(self.space, 'provenance_', 'a space of unknown origin')}"

    @property
    def own(self) -> bool:
        """Whether both are pate's own code throughout."""
        return own_throughout(self.representation) and is_own(self.space, ".records")

    @property
    def exact(self) -> bool:
        """Whether a row's phi is the same to the last bit wherever the row stands, as both say."""
        return all(bool(getattr(m, "exact_", False)) for m in (self.representation, self.space) if m is not None)


def _numbers(rows: Any, names: Any = None) -> Any:
    """Return rows without a representation as numbers cell by cell, NaN where one is none: no cell stops the others."""
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
    """Whether no part of it is a module or transformer of somebody's, nor holds one, as ``own_`` then says."""
    foreign = any(hasattr(representation, name) for name in ("module_", "transformer_"))
    foreign |= not getattr(representation, "own_", True)
    parts = getattr(representation, "parts_", ())
    return is_own(representation) and not foreign and all(map(own_throughout, parts))


def slabs(n: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most ``rows`` row numbers."""
    for start in range(0, n, rows):
        yield start, min(start + rows, n)


def in_blocks(ask: Callable[[Any], tuple[IntArray, Mask]], rows: Any, n: int, *, size: int = BLOCK_ROWS) -> IntArray:
    """Return class indices of rows, asked in blocks of one fixed shape; -1 where a row cannot be asked with.

    ``ask`` takes ``size`` rows to their class indices and which could be asked, each by itself; a ``size`` of 1 asks
    each alone, so that no place shows in it.
    """
    found = np.full(n, -1, dtype=np.int64)
    for start, end in slabs(n, size):
        part = np.arange(start, end)
        whole = np.concatenate([part, np.full(size - len(part), start)])
        said, fine = ask(take(rows, whole))
        found[start:end] = np.where(np.asarray(fine)[: end - start], np.asarray(said)[: end - start], -1)
    return found
