"""The public numbers of one private selection: what every price and every check follows from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pate.privacy.budget import Budget
from pate.privacy.compose.repetitions import Repetitions


@dataclass(frozen=True)
class Facts:
    """What is public before anything is trained; under replace-one adjacency neighbours agree on all of it.

    Attributes
    ----------
    classes : tuple
    unit : {"record", "group"}
    n_units : int
        Records, or persons where groups are given.
    n_held : int
        Of these, how many are held out to score.
    budget : Budget
        Of the whole selection.
    X_public : rows or None
    row_shape : tuple of int
        Shape of one private row.
    law : Repetitions
        Of the number of runs.
    """

    classes: tuple[Any, ...]
    unit: str
    n_units: int
    n_held: int
    budget: Budget
    X_public: Any = None
    row_shape: tuple[int, ...] = ()
    law: Repetitions = field(default_factory=partial(Repetitions, "poisson", 10.0))

    @property
    def n_trained(self) -> int:
        """Units that every run trains on."""
        return self.n_units - self.n_held

    @property
    def grouped(self) -> bool:
        """Whether a unit is a person with all records."""
        return self.unit == "group"
