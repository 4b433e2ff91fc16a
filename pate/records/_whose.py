"""Whose records were cast: what a ledger recognises them by, and that nobody comes in two parts: **sensitive**."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import quietly
from pate.core.types import IntArray, WordArray
from pate.data import records_fingerprint
from pate.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Whose:
    """Labels and owners of the records of a sum, in their order, part by part."""

    labels: tuple[npt.NDArray[np.int32], ...]
    owners: tuple[str, ...] | None
    #: 64 bits of each person's id, sorted.
    persons: WordArray | None
    n_units: int

    @classmethod
    def of(cls, labels: IntArray, groups: Any, ids: list[bytes] | None) -> Whose:
        """Return those of one part; ``ids`` are the distinct owners' (:func:`pate.data._ids.distinct_ids`)."""
        kept = (labels.astype(np.int32),)
        if ids is None:
            return cls(kept, None, None, len(labels))
        hashed = (int.from_bytes(hashlib.sha256(i).digest()[:8], "little") for i in ids)
        persons = np.sort(np.fromiter(hashed, dtype=np.uint64, count=len(ids)))
        return cls(kept, quietly("groups", lambda: tuple(str(owner) for owner in groups)), persons, len(ids))

    def __add__(self, other: Whose) -> Whose:
        if {id(part) for part in self.labels} & {id(part) for part in other.labels}:
            raise InvalidInputError(
                "a ballot sum was added twice: its records would count double, which the noise is not made for. Add "
                "sums of different records."
            )
        if self.persons is None or other.persons is None or self.owners is None or other.owners is None:
            return Whose((*self.labels, *other.labels), None, None, self.n_units + other.n_units)
        if np.isin(other.persons, self.persons, assume_unique=True).any():
            raise InvalidInputError(
                "a person has records in two parts (chunks, or ballot sums that were added): their ballots could not "
                "be clipped together. Sort the records by person, and cut them between persons."
            )
        persons = np.sort(np.concatenate([self.persons, other.persons]))
        owners = (*self.owners, *other.owners)
        return Whose((*self.labels, *other.labels), owners, persons, self.n_units + other.n_units)

    @property
    def grouped(self) -> bool:
        """Whether the unit is the person."""
        return self.persons is not None

    def fingerprint(self) -> str:
        """Return the digest that teachers and DP-SGD on the same records give: one ledger, one data set."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        labels = np.concatenate([np.zeros(0, dtype=np.int32), *self.labels]).astype(np.int64)
        return records_fingerprint(labels, None if self.owners is None else list(self.owners))
