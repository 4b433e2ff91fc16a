"""The stored record of one fit of a comparison, and the notes on privacy that follow from all of them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.data import Dataset
from pate.exceptions import InvalidInputError
from pate.release import KNOWN_SHARDS
from pate.release.statement.model import PrivacyStatement
from pate.report import rare
from pate.report.result import Row, gathered
from pate.teachers import units_of

#: Which fit: contestant, epsilon (None of a floor or a ceiling), repeat.
Key = tuple[str, float | None, int]


def packed(values: npt.NDArray[Any]) -> str:
    """Return values as text: truth values eight to a byte, numbers of four bytes each."""
    held = np.packbits(values) if values.dtype == bool else values.astype("<f4")
    return base64.b64encode(held.tobytes()).decode()


@dataclass(frozen=True, kw_only=True)
class Cell(Row):
    """One fit of one contestant at one budget, with its results: a row of the report and further details."""

    _name = "cell"
    #: Whether the noise could be repeated (then nothing is private); None where the contestant does not say.
    seeded: bool | None = None
    statement: PrivacyStatement | None = None  # the contestant's privacy statement (public)
    right: str | None = None  # which of the test rows were classified right, packed (:meth:`rights`)
    #: Where test rows belong to persons, sorted by person: which rows begin another person, packed (:meth:`owners`).
    persons: str | None = None
    #: Whether the fit was given the owners of the private rows; None without owners, and for floors.
    took_groups: bool | None = None
    #: Of a numeric target: what each test row adds to R2, packed (:func:`pate.comparison.statistics.r2_by_row`).
    row_scores: str | None = rare()

    def _check(self) -> None:
        super()._check()
        for name in ("right", "persons", "row_scores"):
            if (text := getattr(self, name)) is None:
                continue
            try:
                held = len(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                held = -1
            n = self.n_test or 0
            if self.n_test is None or held != (4 * n if name == "row_scores" else (n + 7) // 8):
                raise InvalidInputError(f"cell[{name!r}] must be the packed values of its test rows.")

    @property
    def key(self) -> Key:
        """Which fit of the comparison this is."""
        return self.contestant, self.epsilon, self.repeat

    @property
    def by_row(self) -> str | None:
        """What is stored of each test row, packed; None where nothing is."""
        return self.right or self.row_scores

    def rights(self) -> npt.NDArray[np.bool_] | npt.NDArray[np.float64] | None:
        """Return which of the test rows were classified right, shape (n_test,); None where that was not stored.

        Of a numeric target it is what each of them adds to R2.
        """
        if self.row_scores is not None:
            return np.frombuffer(base64.b64decode(self.row_scores), dtype="<f4").astype(np.float64)
        return self._unpacked(self.right)

    def owners(self) -> npt.NDArray[np.int64] | None:
        """Return the owner of each test row, numbered from 0, shape (n_test,); None where every row is its own unit."""
        begins = self._unpacked(self.persons)
        return None if begins is None else np.cumsum(begins) - 1

    def _unpacked(self, text: str | None) -> npt.NDArray[np.bool_] | None:
        if text is None:
            return None
        bits = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
        return np.unpackbits(bits, count=self.n_test).astype(np.bool_)

    def row(self) -> Row:
        """Return the fit's row of the report."""
        return Row(**{name: getattr(self, name) for name in COLUMNS})


COLUMNS = tuple(f.name for f in fields(Row))


# What the report may say of sizes, and must say of guarantees: whom they protect, and their total.

_REDRAWN = {
    "all rows": "a private row of one repeat is a public or a test row of another",
    "training rows": "a private row of one repeat is a public row of another",
}


def sizes(data: Dataset, cells: Iterable[Cell]) -> dict[str, int | str]:
    """Return the numbers of public, test and private rows, as far as they are public.

    Of private rows that are not published: the number of units alone, and only where every contestant states
    replace-one adjacency. Neighbours under other adjacencies have different numbers of units, and where one person has
    several records neighbours have different numbers of records.
    """
    n_records = len(data.private.y)
    n_units, unit = units_of(data.private.groups, n_records)
    public: dict[str, int | str] = {"unit": unit}
    promises = [c.statement for c in cells if c.role == "private" and c.refused is None]
    if data.published:
        public["n_private"] = n_records
    elif promises and all(s and s.n_units is not None and s.guarantee.adjacency == "replace-one" for s in promises):
        public["n_private" if unit == "record" else "n_units"] = n_units
    return {**public, "n_public": len(data.public.y_for_evaluation), "n_test": len(data.test.y)}


def spent(cells: Sequence[Cell], redraws: str) -> str:
    """Return a note on how many fits there were and their total privacy cost, where a total is defined.

    Plain composition (Dwork and Roth 2014, Theorem 3.16) adds up guarantees about the same neighbours. A row that
    is private in one repeat and public in another has no guarantee over both.
    """
    many = f"{len(cells)} fits on the private data were made, each a spend of its own"
    end = "These numbers evaluate methods; they are not one release, and choosing a method by them on data that matters"
    repeats = gathered(cells, lambda cell: cell.repeat)
    redrawn = redraws != "nothing" and len(repeats) > 1
    if redrawn:
        many += (
            f". Every repeat draws its rows again: {_REDRAWN[redraws]}, where nothing protects it. No epsilon covers "
            "all repeats together"
        )
    if any(c.statement is None for c in cells):
        return f"{many}. Not all state a guarantee, so there is no sum. {end} costs more than any one of them."
    if len({(s.unit, s.guarantee.adjacency, knows_shards(s)) for c in cells if (s := c.statement)}) > 1:
        return f"{many}. They do not promise the same, so there is no sum. {end} costs more than any one of them."
    parts = list(repeats.values()) if redrawn else [list(cells)]
    most = max(parts, key=lambda part: sum(c.epsilon or 0.0 for c in part), default=[])
    total, delta = sum(c.epsilon or 0.0 for c in most), sum(c.delta or 0.0 for c in most)
    which = "those of one repeat" if redrawn else "all of them"
    return f"{many}: by plain composition {which} cost epsilon = {total:g} at delta = {delta:g}. {end} costs that sum."


def warnings_of(cells: Sequence[Cell], unit: str | None) -> list[str]:
    """Return notes on guarantees that differ from each other, or protect less than a reader would expect."""
    stated = [(c.contestant, s) for c in cells if (s := c.statement) is not None]
    notes = []
    promises = {(s.unit, s.guarantee.adjacency) for _, s in stated}
    if len(promises) > 1:
        kinds = "; ".join(f"{kind}, {adjacency}" for kind, adjacency in sorted(promises))
        notes.append(f"The contestants do not promise the same ({kinds}): equal epsilons do not mean equal privacy.")
    if unit == "group":
        without_owners = [c.contestant for c in cells if c.took_groups is False]
        if without_owners:
            notes.append(
                f"{_names(without_owners)}: was not given the owners of the private rows, though a person may have "
                "several. No person is protected with all their rows at the epsilon shown."
            )
        lesser = _names(name for name, s in stated if s.unit == "record" and name not in without_owners)
        if lesser:
            notes.append(
                f"{lesser}: the promise is for one record, though the data name the owner of each record. A person "
                "with several records is protected less than the epsilon shown says."
            )
    known = _names(name for name, s in stated if knows_shards(s))
    if known:
        notes.append(
            f"{known}: shards were cut by a seed that may be known. Only replacements are protected against that keep "
            "the place in the file (of a person: the id); shards that are cut by a secret promise more."
        )
    return notes


def knows_shards(statement: PrivacyStatement) -> bool:
    """Whether shards were cut by a seed that may be known, which narrows the promise."""
    return any(a.name == KNOWN_SHARDS for a in statement.assumptions)


def _names(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
