"""Who is in which shadow model's half: pairs of halves that share no unit.

Each pair cuts the units at random into two halves of one size. A target is attacked with the models of the *other*
pairs, in which every unit is in as often as it is out: its membership in the target is as likely as not, whatever
these models say of it. (Where each unit is in exactly half of *all* models, the others give it away.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.core.types import FloatArray, IndexArray, Mask
from pate.data._ids import distinct_ids
from pate.exceptions import InvalidInputError

#: Below it a half is too small for a model, and a rate of one in a hundred has no meaning.
LEAST_UNITS = 20
_HALVES = 0x4A1F


@dataclass(frozen=True, repr=False)
class Units:
    """Whose record each is: its own, or a person's.

    Attributes
    ----------
    of : int array of shape (n_records,)
        The unit of each record.
    n : int
    name : {"record", "group"}
    first : int array of shape (n,)
        A record of each.
    """

    of: IndexArray
    n: int
    name: str
    first: IndexArray

    @classmethod
    def made(cls, n_records: int, groups: Any) -> Units:
        """Return the units of ``groups``, or one for each record."""
        of = np.arange(n_records) if groups is None else distinct_ids(groups, n_records)[0]
        _, first = np.unique(of, return_index=True)
        if len(first) < LEAST_UNITS:
            held = "records" if groups is None else "groups"
            raise InvalidInputError(
                f"X must hold at least {LEAST_UNITS} {held}, got {len(first)}. Shadow models are fitted on halves of "
                "them, and rates are shares of the other half: bring more."
            )
        return cls(of, len(first), "record" if groups is None else "group", first)

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the mean over each unit's records, of values of shape (..., n_records)."""
        if self.name == "record":
            return values
        size = np.bincount(self.of, minlength=self.n)
        rows = values.reshape(-1, values.shape[-1])
        sums = np.stack([np.bincount(self.of, weights=row, minlength=self.n) for row in rows])
        return np.asarray((sums / size).reshape(*values.shape[:-1], self.n))


def draw_halves(n_units: int, n_shadows: int, seed: int) -> Mask:
    """Return who is in which shadow model's half.

    A half hangs on the seed and the number of its pair alone, so that more shadow models join those there are. Of an
    odd number of units one is in neither half of a pair.

    Returns
    -------
    bool array of shape (n_shadows, n_units)
    """
    halves = np.zeros((n_shadows, n_units), dtype=bool)
    size = n_units // 2
    for pair in range(n_shadows // 2):
        order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_HALVES, pair))).permutation(n_units)
        halves[2 * pair, order[:size]] = True
        halves[2 * pair + 1, order[size : 2 * size]] = True
    return halves
