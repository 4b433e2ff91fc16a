"""The exact sum of all records' ballots: sensitive, and carried outside by :func:`pate.release_ballots` alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from pate.core.checks import check_choice, check_int
from pate.core.tape import note
from pate.core.types import IntArray
from pate.exceptions import InvalidInputError
from pate.ledger import Registration
from pate.records._whose import Whose
from pate.records.ballots import ADJACENCIES, KINDS, ballot_scale, check_clip, delta_squared

#: A sum of so many ballots, of norm below 2^33 each, stays within 64 bits.
MOST_RECORDS = 1 << 29


@dataclass(frozen=True, kw_only=True)
class BallotFacts:
    """What is public of a sum of ballots: everything but the sum, and the number of records under add-or-remove.

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

    Examples
    --------
    >>> facts = BallotFacts(kind="soft", clip=None, classes=(0, 1), n_components=3, unit="record",
    ...     adjacency="replace-one", n=9, space="ab", provenance="", own_maps=True)
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

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("unit", self.unit, ("record", "group"))
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        if self.clip is not None:
            object.__setattr__(self, "clip", check_clip(self.clip))
        object.__setattr__(self, "classes", tuple(self.classes))
        check_int("n", self.n, low=0)

    @property
    def n_classes(self) -> int:
        """M."""
        return len(self.classes)

    @property
    def scale(self) -> int:
        """Whole numbers per unit: |phi| = 1 with the centred one-hot (or a residual)."""
        return ballot_scale(self.n_classes, self.clip)

    @property
    def delta_squared(self) -> int:
        """The square of how far one unit moves the sum, see :mod:`pate.records.ballots`."""
        return delta_squared(self.kind, self.n_classes, self.adjacency, self.clip)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; classes that are no plain values are their repr."""
        return {**asdict(self), "classes": [_plain(c) for c in self.classes]}


def _plain(value: Any) -> Any:
    return (
        value
        if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
        else (repr(value))
    )


@dataclass(frozen=True, eq=False, repr=False)
class BallotSum:
    """The sum of all units' ballots in whole numbers: **sensitive**; :class:`pate.RecordVoters` makes it.

    Attributes
    ----------
    sums : int64 array of shape (d, m)
        Exact; :attr:`scale` whole numbers are one ballot with |phi| = 1.
    facts : BallotFacts
        What is public of it.
    whose : Whose
        By what a ledger recognises the records. **Sensitive.**

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
    whose: Whose = field(repr=False)

    def __post_init__(self) -> None:
        wanted = (self.facts.n_components, self.facts.n_classes)
        if not isinstance(self.sums, np.ndarray) or self.sums.dtype != np.int64 or self.sums.shape != wanted:
            raise InvalidInputError(f"sums must be int64 of shape {wanted}. RecordVoters.cast makes them.")
        if self.whose.n_units > MOST_RECORDS:  # not quoted: it may be private
            raise InvalidInputError(f"a sum of ballots must be of at most {MOST_RECORDS:,} units. Release it in parts.")
        note("ballots", ballots=self)

    def registration(self) -> Registration:
        """Return whose records these are, as a ledger registers them; under add-or-remove without their number.

        The fingerprint in it is **sensitive**.
        """
        f = self.facts
        counted = f.adjacency == "replace-one"
        return Registration(
            f.unit,
            f.classes,
            n_units=self.whose.n_units if counted else None,
            fingerprint=self.whose.fingerprint(),
            adjacency=f.adjacency,
        )

    @property
    def kind(self) -> str:
        """Of the space, see :class:`BallotFacts`."""
        return self.facts.kind

    @property
    def scale(self) -> int:
        """Whole numbers per unit of a ballot."""
        return self.facts.scale

    @property
    def delta_squared(self) -> int:
        """The square of how far one unit moves :attr:`sums` (L2), an exact whole number. Public."""
        return self.facts.delta_squared

    @property
    def delta(self) -> float:
        """How far one unit moves :attr:`sums` (L2), rounded up."""
        return math.nextafter(math.sqrt(self.delta_squared), math.inf)

    def __add__(self, other: BallotSum) -> BallotSum:
        if not isinstance(other, BallotSum):
            return NotImplemented
        counted = self.facts.adjacency == "replace-one"
        if (replace(self.facts, n=0) if counted else self.facts) != (
            replace(other.facts, n=0) if counted else other.facts
        ):
            raise InvalidInputError(
                "ballot sums must be of the same kind, clip, classes, unit, adjacency and space to be added. Cast both "
                "parts by the same voters."
            )
        whose = self.whose + other.whose
        facts = replace(self.facts, n=whose.n_units) if counted else self.facts
        return BallotSum(self.sums + other.sums, facts, whose)

    def __repr__(self) -> str:
        f = self.facts
        clip = "" if f.clip is None else f", clip={f.clip:g}"
        return (
            f"BallotSum(kind={f.kind!r}{clip}, shape={self.sums.shape}, unit={f.unit!r}, adjacency={f.adjacency!r}, "
            "sums=<sensitive>)"
        )
