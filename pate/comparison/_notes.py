"""What the page may say of sizes, and must say of promises: whom they protect, and what they sum up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pate.comparison.cells import Cell
from pate.data import Dataset
from pate.release._assumptions import KNOWN_SHARDS
from pate.statement.model import PrivacyStatement
from pate.teachers._usable import units_of

_ANEW = {
    "all rows": "a private row of one repeat is a public or a test row of another",
    "training rows": "a private row of one repeat is a public row of another",
}


def sizes(data: Dataset, cells: Iterable[Cell]) -> dict[str, int | str]:
    """Return how much there is of everything, as far as it is public.

    Of private rows that are not published: how many units there are, and only where every contestant protects by
    replace-one adjacency and says so. Between neighbours of other kinds that number differs; where one person has
    several records, so does the number of records, always.

    Parameters
    ----------
    data : Dataset
    cells : iterable of Cell
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

    Parameters
    ----------
    cells : sequence of Cell
        Fits on the private data.
    redraws : {"all rows", "training rows", "nothing"}
    """
    many = f"{len(cells)} fits on the private data were made, each a spend of its own"
    end = "These numbers evaluate methods; they are not one release, and choosing a method by them on data that matters"
    repeats: dict[int, list[Cell]] = {}
    for cell in cells:
        repeats.setdefault(cell.repeat, []).append(cell)
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
    """Return what differs between the promises, and from what a reader takes for granted.

    Parameters
    ----------
    cells : sequence of Cell
        Fits on the private data.
    unit : {"record", "group"} or None
        Whose the private rows are; None where that is not known.
    """
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
