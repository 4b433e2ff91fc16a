"""Counts of the records for which a public model is right, in whole numbers, and how far one unit can move them.

Of every private record one thing is counted: whether a **public** model (made from what was released so far and public
rows) gives its class. G = 2^16 whole numbers stand for one unit. With k >= 1 usable records of a unit (k = 1 where the
unit is the record), r of which the model is right about, r_c of them of class c, and w_c wrong ones of class c, the
unit contributes, each entry cut to a whole number by itself,

- the **count**, replace-one:      floor(G r / k)
- the **count**, add-or-remove:    (floor(G r / k), floor(G (k - r) / k)), as the number of units is private there
- the **cells**:                   (floor(G r_c / k) for every c, then floor(G w_c / k) for every c)

and zero everywhere where it has no usable record: one with an unknown class, or no owner, or a row that could not be
read or that the model cannot predict. Under replace-one such units still count in n, so that they count as
not right. What is estimated for persons is the mean over persons of the share of their usable records that the model is
right about: each person weighs one, however many records they have.

**How far one unit moves the counts (L2).** All entries of a unit are >= 0, and their sum is at most G, since the shares
in it add up to at most 1 and cutting only lowers them.

- *Count, replace-one*: one entry in [0, G], so two units differ by at most G. Reached by right against wrong.
- *Count or cells, add-or-remove*: |u|_2 <= |u|_1 <= G.
- *Cells, replace-one*: for u, v >= 0, |u - v|^2 = |u|^2 + |v|^2 - 2 <u, v> <= |u|^2 + |v|^2 <= 2 G^2. Reached by two
  records in different cells.

So Delta^2 is G^2, or 2 G^2, an exact whole number, whatever k is. Of a unit of a tier of weight w (units of several
tiers, replace-one) G w, a whole number too, stands in place of G throughout, and Delta is w times as large.

**Each record by itself.** The table holds where a unit's contribution depends only on its own records and on public
facts. A model is therefore asked in blocks of one fixed shape
(:data:`pate.records._maps.BLOCK_ROWS`), the last filled up with its first row: under replace-one of records all other
rows keep place and shape, and a model that takes each row by itself gives them the same answers to the last bit. Where
rows change places (add-or-remove; a person replaced by one with more records) a BLAS might round a row's last bits by
its place, and a tie between two classes could flip for a record of another unit: there only models that are
``exact_`` throughout are vouched for, as for residual ballots (:mod:`pate.records._voters`). :attr:`RightFacts.own`
says whether that is so; the statement repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pate._core.checks import check_int
from pate._core.types import IntArray
from pate.exceptions import InvalidInputError
from pate.records.ballot_sum import GRID, TierFacts, UnitFacts, UnitOwners, UnitSums

if TYPE_CHECKING:
    from pate.records._tiers import Tiers


@dataclass(frozen=True, kw_only=True)
class RightFacts(UnitFacts):
    """The public facts about counts of right answers: all but the counts.

    Attributes
    ----------
    by_class : bool
        Cells by class; False: the count alone.
    classes, unit, adjacency, n
        As of :class:`BallotFacts`.
    model : str
        Identifies the model.
    own : bool
        The model is pate's own code, and gives a row the same answer to the last bit wherever it may stand in a
        neighbouring table.
    tiers : tuple of (name, weight, n_units), or None
        As of :class:`BallotFacts`.

    Examples
    --------
    >>> facts = RightFacts(
    ...     by_class=True, classes=(0, 1), unit="record", adjacency="replace-one", n=9
    ... )
    >>> facts.n_cells, facts.delta_squared == 2 * GRID**2
    (4, True)
    """

    by_class: bool
    classes: tuple[Any, ...]
    unit: str
    adjacency: str
    n: int
    model: str = ""
    own: bool = False
    tiers: TierFacts | None = None

    @property
    def counted(self) -> bool:
        """Whether wrong answers are counted too, as the number of units is not public."""
        return self.adjacency == "add-or-remove"

    @property
    def n_cells(self) -> int:
        """How many numbers are released."""
        return 2 * len(self.classes) if self.by_class else 1 + self.counted

    @property
    def delta_squared(self) -> int:
        """The square of how far one unit moves the counts (L2), an exact whole number: the module's table."""
        return (2 if self.by_class and not self.counted else 1) * GRID**2


@dataclass(frozen=True, eq=False, repr=False)
class RightCounts(UnitSums):
    """The number of units for which a public model is right: **sensitive**; :func:`count_right` makes it.

    Attributes
    ----------
    sums : int64 array of shape (n_cells, 1)
    facts : RightFacts
        What is public of it.
    unit_owners : UnitOwners
        A ledger recognises the records by them. **Sensitive.**

    Examples
    --------
    >>> count_right(np.array([0, 1]), np.array([0, 0]), classes=(0, 1))
    RightCounts(n_cells=1, unit='record', adjacency='replace-one', sums=<sensitive>)
    """

    sums: IntArray
    facts: RightFacts
    unit_owners: UnitOwners = field(repr=False)

    def __post_init__(self) -> None:
        self._check((self.facts.n_cells, 1), "count_right makes them.")

    def __repr__(self) -> str:
        f = self.facts
        return f"RightCounts(n_cells={f.n_cells}, unit={f.unit!r}, adjacency={f.adjacency!r}, sums=<sensitive>)"


def right_sums(
    answers: IntArray,
    labels: IntArray,
    owners: IntArray | None,
    *,
    n_classes: int,
    counted: bool,
    by_class: bool,
    scales: IntArray | None = None,
) -> IntArray:
    """Return the exact counts over these units, in units of 2^-16: see the table of this module.

    Answers and labels are class indices, -1 where the model cannot be asked or a record is not usable; all records of a
    person carry one number in ``owners``, and stand here, and one number in ``scales``, the weight that stands for G.
    ``counted``: wrong answers too (add-or-remove). Returns int64 of shape (n_cells, 1).
    """
    usable = np.flatnonzero((labels >= 0) & (answers >= 0))
    y, right = labels[usable], answers[usable] == labels[usable]
    cell = np.where(right, y, n_classes + y) if by_class else np.where(right, 0, 1)
    n_cells = 2 * n_classes if by_class else 2
    whole = np.full(len(labels), GRID, dtype=np.int64) if scales is None else scales
    if owners is None:
        sums = np.zeros(n_cells, dtype=np.int64)
        np.add.at(sums, cell, whole[usable])
    else:
        _, who = np.unique(owners[usable], return_inverse=True)
        pairs, times = np.unique(who.reshape(-1) * n_cells + cell, return_counts=True)
        k = np.bincount(who.reshape(-1))[pairs // n_cells] if len(pairs) else np.ones(0, dtype=np.int64)
        _, first = np.unique(who.reshape(-1), return_index=True)
        weights = whole[usable][first][pairs // n_cells] if len(pairs) else np.ones(0, dtype=np.int64)
        sums = np.zeros(n_cells, dtype=np.int64)
        np.add.at(sums, pairs % n_cells, (times.astype(np.int64) * weights) // k)
    released = sums if by_class or counted else sums[:1]
    return np.asarray(released[:, None])


def count_right(
    answers: IntArray,
    labels: IntArray,
    *,
    classes: Any,
    groups: Any = None,
    tiers: Tiers | None = None,
    adjacency: str = "replace-one",
    nominal_n: int | None = None,
    by_class: bool = False,
    model: str = "",
    own: bool = False,
) -> RightCounts:
    """Count the private records (or persons) for which a public model's answers are right: **sensitive**.

    Parameters
    ----------
    answers, labels : int64 arrays of shape (n,)
        Class indices that the model gives, each from its own record alone, and those of the records; -1 where it cannot
        be asked, or a record is not usable.
    classes : sequence
        Every class value that could occur, in order: public.
    groups : array-like of shape (n,) or None
        The owner of each record; then the unit is the person. A record without an owner is not usable.
    tiers : Tiers or None
        The tier of each record: what a unit counts is scaled by the tier's weight.
    adjacency, nominal_n
        As of :class:`pate.RecordVoters`.
    by_class : bool
        Right and wrong by class, instead of the count.
    model, own
        See :class:`RightFacts`; public.

    Returns
    -------
    RightCounts
        **Sensitive.**

    Raises
    ------
    InvalidInputError
        Arrays of other shapes, or no nominal number under add-or-remove.

    Examples
    --------
    >>> counts = count_right(
    ...     np.array([0, 1, 1]), np.array([0, 1, -1]), classes=("no", "yes")
    ... )
    >>> counts.delta_squared == GRID**2
    True
    """
    answers, labels = np.asarray(answers), np.asarray(labels)
    if answers.dtype != np.int64 or answers.shape != labels.shape or labels.dtype != np.int64 or labels.ndim != 1:
        raise InvalidInputError("answers and labels must be int64 class indices of equal shape (n,), -1 for none.")
    if (nominal_n is None) != (adjacency == "replace-one"):
        raise InvalidInputError("nominal_n must be given under adjacency='add-or-remove', and there alone.")
    from pate.teachers import Owners  # scikit-learn, whose import takes a second

    by_row = Owners.of(groups, len(labels))
    of_units = None if tiers is None else tiers.of_units(by_row)
    owners = UnitOwners.of(labels, by_row.groups, by_row.ids, of_units)
    facts = RightFacts(
        by_class=by_class,
        classes=tuple(classes),
        unit="group" if owners.grouped else "record",
        adjacency=adjacency,
        n=owners.n_units if nominal_n is None else check_int("nominal_n", nominal_n, low=1),
        model=model,
        own=own,
        tiers=None if of_units is None else of_units.facts,
    )
    usable = np.where(by_row.known, labels, -1)
    sums = right_sums(
        answers,
        usable,
        by_row.codes,
        n_classes=len(facts.classes),
        counted=facts.counted,
        by_class=by_class,
        scales=None if of_units is None else of_units.scales,
    )
    return RightCounts(sums, facts, owners)
