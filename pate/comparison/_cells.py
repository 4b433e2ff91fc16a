"""One fit of a comparison, as it is kept."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pate.data import Dataset
from pate.exceptions import InvalidInputError
from pate.release._statement import KNOWN_SHARDS
from pate.release.statement.model import PrivacyStatement
from pate.report.result import Row, gathered
from pate.teachers._usable import units_of

#: Which fit: contestant, epsilon (None of a floor or a ceiling), repeat.
Key = tuple[str, float | None, int]


def packed(right: npt.NDArray[np.bool_]) -> str:
    """Return truth values as text, eight to a byte."""
    return base64.b64encode(np.packbits(right).tobytes()).decode()


@dataclass(frozen=True, kw_only=True)
class Cell(Row):
    """One fit of one contestant at one budget, and what came of it: a row, and what a reader does not need."""

    _name = "cell"
    #: Whether the noise could be repeated (then nothing is private); None where the contestant does not say.
    seeded: bool | None = None
    statement: PrivacyStatement | None = None  # the contestant's privacy statement (public)
    right: str | None = None  # which of the test rows were classified right, packed (:meth:`rights`)
    #: Where test rows are persons', who then stand one after the other: which rows begin another person, packed
    #: (:meth:`owners`).
    persons: str | None = None
    #: Whether the fit was told whose each private row is; None where the data do not say, and of floors.
    took_groups: bool | None = None

    def _check(self) -> None:
        super()._check()
        for name in ("right", "persons"):
            if (text := getattr(self, name)) is None:
                continue
            try:
                held = len(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                held = -1
            if self.n_test is None or held != (self.n_test + 7) // 8:
                raise InvalidInputError(f"cell[{name!r}] must be the packed truth values of its test rows.")

    @property
    def key(self) -> Key:
        """Which fit of the comparison this is."""
        return self.contestant, self.epsilon, self.repeat

    def rights(self) -> npt.NDArray[np.bool_] | None:
        """Return which of the test rows were classified right, shape (n_test,); None where that was not kept."""
        return self._unpacked(self.right)

    def owners(self) -> npt.NDArray[np.int64] | None:
        """Return whose each test row is, as numbers from 0 on, shape (n_test,); None where each is its own."""
        begins = self._unpacked(self.persons)
        return None if begins is None else np.cumsum(begins) - 1

    def _unpacked(self, text: str | None) -> npt.NDArray[np.bool_] | None:
        if text is None:
            return None
        bits = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
        return np.unpackbits(bits, count=self.n_test).astype(np.bool_)

    def row(self) -> Row:
        """Return what a result says of the fit."""
        return Row(**{name: getattr(self, name) for name in COLUMNS})


COLUMNS = tuple(f.name for f in fields(Row))


# What the page may say of sizes, and must say of promises: whom they protect, and what they sum up to.

_ANEW = {
    "all rows": "a private row of one repeat is a public or a test row of another",
    "training rows": "a private row of one repeat is a public row of another",
}


def sizes(data: Dataset, cells: Iterable[Cell]) -> dict[str, int | str]:
    """Return how much there is of everything, as far as it is public.

    Of private rows that are not published: how many units there are, and only where every contestant protects by
    replace-one adjacency and says so. Between neighbours of other kinds that number differs; where one person has
    several records, so does the number of records, always.
    """
    n_records = len(data.private.y)
    n_units, unit = units_of(data.private.groups, n_records)
    told: dict[str, int | str] = {"unit": unit}
    promises = [c.statement for c in cells if c.role == "private" and c.refused is None]
    if data.published:
        told["n_private"] = n_records
    elif promises and all(s and s.n_units is not None and s.guarantee.adjacency == "replace-one" for s in promises):
        told["n_private" if unit == "record" else "n_units"] = n_units
    return {**told, "n_public": len(data.public.y_for_evaluation), "n_test": len(data.test.y)}


def spent(cells: Sequence[Cell], redraws: str) -> str:
    """Return how many fits there were, and what they cost together, as far as one number says that.

    Plain composition (Dwork and Roth 2014, Theorem 3.16) adds up promises about the same neighbours. A row that one
    repeat protects and another one shows has no promise over both.
    """
    many = f"{len(cells)} fits on the private data were made, each a spend of its own"
    end = "These numbers evaluate methods; they are not one release, and choosing a method by them on data that matters"
    repeats = gathered(cells, lambda cell: cell.repeat)
    anew = redraws != "nothing" and len(repeats) > 1
    if anew:
        many += (
            f". Every repeat draws its rows anew: {_ANEW[redraws]}, where nothing protects it. No epsilon covers all "
            "repeats together"
        )
    if any(c.statement is None for c in cells):
        return f"{many}. Not all state a guarantee, so there is no sum. {end} costs more than any one of them."
    if len({(s.unit, s.guarantee.adjacency, knows_shards(s)) for c in cells if (s := c.statement)}) > 1:
        return f"{many}. They do not promise the same, so there is no sum. {end} costs more than any one of them."
    parts = list(repeats.values()) if anew else [list(cells)]
    most = max(parts, key=lambda part: sum(c.epsilon or 0.0 for c in part), default=[])
    total, delta = sum(c.epsilon or 0.0 for c in most), sum(c.delta or 0.0 for c in most)
    which = "those of one repeat" if anew else "all of them"
    return f"{many}: by plain composition {which} cost epsilon = {total:g} at delta = {delta:g}. {end} costs that sum."


def warnings_of(cells: Sequence[Cell], unit: str | None) -> list[str]:
    """Return what differs between the promises, and from what a reader takes for granted."""
    stated = [(c.contestant, s) for c in cells if (s := c.statement) is not None]
    notes = []
    promises = {(s.unit, s.guarantee.adjacency) for _, s in stated}
    if len(promises) > 1:
        told = "; ".join(f"{kind}, {adjacency}" for kind, adjacency in sorted(promises))
        notes.append(f"The contestants do not promise the same ({told}): equal epsilons do not mean equal privacy.")
    if unit == "group":
        deaf = [c.contestant for c in cells if c.took_groups is False]
        if deaf:
            notes.append(
                f"{_names(deaf)}: not told whose each private row is, though people may have several. No person is "
                "protected with all their rows at the epsilon shown."
            )
        lesser = _names(name for name, s in stated if s.unit == "record" and name not in deaf)
        if lesser:
            notes.append(
                f"{lesser}: the promise is for one record, though the data say whose each record is. A person with "
                "several records is protected less than the epsilon shown says."
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
