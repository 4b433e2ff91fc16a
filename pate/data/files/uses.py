"""What becomes of every column of two tables, in words: by names, public rows and what was said."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pate.data._dates import DATE
from pate.data.files._opened import Opened
from pate.data.files.tables import Table

_COUNT = re.compile(r"^[\d,]+ ")
#: What becomes of the target.
TARGET = "the classes"


@dataclass(frozen=True)
class ColumnUse:
    """What becomes of a column; by the public rows, names and what was said, never by private cells.

    Attributes
    ----------
    name : str
    becomes : str
        In words.
    remark : str
        What is odd about that; empty where nothing is.

    Examples
    --------
    >>> print(ColumnUse("town", "2 categories"))
    town: 2 categories
    """

    name: str
    becomes: str
    remark: str = ""

    @property
    def kind(self) -> str:
        """What becomes of it, without numbers."""
        return _COUNT.sub("", self.becomes)

    def __str__(self) -> str:
        return f"{self.name}: {self.becomes}" + (f" ({self.remark})" if self.remark else "")


@dataclass(frozen=True)
class Sides:
    """Names of features: those of both files, and those of one only."""

    common: frozenset[str]
    private_only: tuple[str, ...]
    public_only: tuple[str, ...]


def uses_of(
    held: Opened,
    shown: Opened,
    roles: dict[str, str | None],
    drop: list[str],
    text: list[str],
    sides: Sides,
    public: Table,
) -> tuple[ColumnUse, ...]:
    """Return what becomes of every column, those of the private file first."""
    found = []
    for name in dict.fromkeys([*held.names, *shown.names]):
        if name == roles["target"]:
            use = ColumnUse(name, TARGET)
        elif name == roles["group"]:
            also = ", and the id" if name == roles["id"] else ""
            use = ColumnUse(name, f"says whose row it is{also}")
        elif name == roles["id"]:
            kept = "kept beside the labels" if name in shown.names else "left out: the public file has none"
            use = ColumnUse(name, f"id, {kept}", _of_ids(public))
        elif name in drop:
            use = ColumnUse(name, "dropped")
        elif name not in sides.common:
            side = "private" if name in sides.private_only else "public"
            use = ColumnUse(name, f"left out, as it stands in the {side} file only")
        else:
            use = ColumnUse(name, _becomes(name, public, said=name in text), public.remarks.get(name, ""))
        found.append(use)
    return tuple(found)


def _becomes(name: str, public: Table, *, said: bool) -> str:
    kind = public.kinds.get(name, "text")
    if kind == "numeric":
        return "number"
    if kind.startswith(DATE):
        form = kind.removeprefix(DATE)
        return "date, in days since 1970-01-01" + (f" ({form})" if form.endswith("first") else "")
    n = int(public.X[name].nunique())
    return f"{n:,} {'category' if n == 1 else 'categories'}" + (", as you say" if said else "")


def _of_ids(public: Table) -> str:
    if public.ids is None:
        return ""
    there = [one for one in public.ids.tolist() if one is not None]
    empty, twice = len(public.ids) - len(there), len(there) - len(set(there))
    parts = [f"{empty} are empty"] if empty else []
    parts += [f"{twice} stand there before"] if twice else []
    return " and ".join(parts) and f"{' and '.join(parts)}: kept as they are"
