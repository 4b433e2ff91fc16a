"""The tier of every record: public, and what each unit's contribution to every sum is scaled by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pate._core.checks import canonical, did_you_mean, shown
from pate._core.frames import plain_column
from pate._core.types import IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.tiers import TierBudgets
from pate.records.ballot_sum import UnitTiers
from pate.teachers import Owners


@dataclass(frozen=True, eq=False, repr=False)
class Tiers:
    """Which tier every record is of: public, whatever else a record holds is private.

    Attributes
    ----------
    budgets : TierBudgets
    codes : int64 array of shape (n_records,)
        Places in ``budgets.names``.

    Examples
    --------
    >>> tiers = Tiers.of(
    ...     {"gold": Budget(3.0, 1e-5), "basic": Budget(1.0, 1e-5)},
    ...     ["gold", "basic", "basic"],
    ... )
    >>> tiers.codes.tolist(), tiers.of_units(Owners.of(None, 3)).facts
    ([1, 0, 0], (('basic', 24428, 2), ('gold', 65536, 1)))
    """

    budgets: TierBudgets
    codes: IntArray

    @classmethod
    def of(cls, budgets: TierBudgets | Mapping[str, Budget], tiers: Any) -> Self:
        """Return the tiers of records, by name, one for each."""
        known = budgets if isinstance(budgets, TierBudgets) else TierBudgets.of(budgets)
        place = {canonical(name): code for code, name in enumerate(known.names)}
        if tiers is None or isinstance(tiers, str):
            raise InvalidInputError(
                f"tiers must name the tier of every record, one of {', '.join(map(repr, place))}, got {shown(tiers)}. "
                "Pass fit(X, y, tiers=...)."
            )
        values = np.asarray(plain_column(tiers, name="tiers"), dtype=object)
        forms = list(map(canonical, values.ravel().tolist()))
        odd = next((one for one in forms if not isinstance(one, str) or one not in place), None)
        if values.ndim != 1 or odd is not None or any(one is None for one in values.tolist()):
            empty = odd is None or odd != odd  # NaN is what pandas has in an empty cell
            found = values.shape if values.ndim != 1 else "an empty cell" if empty else shown(odd)
            raise InvalidInputError(
                f"tiers must name the tier of every record, one of {', '.join(map(repr, place))}, got {found}."
                f"{did_you_mean(odd, place)} Correct the name, or leave out records without one beforehand: it is "
                "public who is in which tier."
            )
        return cls(known, np.fromiter((place[one] for one in forms), dtype=np.int64, count=len(forms)))

    def of_units(self, owners: Owners) -> UnitTiers:
        """Return the tiers of units, and the weight of every record; refuse a person of two."""
        n = len(self.codes)
        if len(owners.known) != n:
            raise InvalidInputError(f"tiers must name one tier for each of the {len(owners.known)} records, got {n}.")
        weights = np.asarray(self.budgets.weights, dtype=np.int64)
        digest, by_unit, by_record = hashlib.sha256(b"pate tiers 1"), self.codes, self.codes
        if owners.ids is None or owners.codes is None:
            digest.update(self.codes.astype("<i4").tobytes())
        else:
            by_unit = np.full(len(owners.ids), -1, dtype=np.int64)
            by_unit[owners.codes[owners.known]] = self.codes[owners.known]
            by_record = by_unit[owners.codes]  # one without an owner casts nothing
            if (by_record != self.codes)[owners.known].any():
                raise InvalidInputError(
                    "tiers must be the same for all records of one person: a tier is a person's. Name one for each."
                )
            pairs = (hashlib.sha256(i).digest() + bytes([code]) for i, code in zip(owners.ids, by_unit, strict=True))
            digest.update(b"".join(sorted(pairs)))
        counts = np.bincount(by_unit, minlength=len(weights)).tolist()
        facts = tuple(zip(self.budgets.names, self.budgets.weights, counts, strict=True))
        return UnitTiers(facts, digest.hexdigest(), weights[by_record])
