"""Budgets per tier of units: some people allow more than others, and each is held to their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pate._core.checks import check_spellings, shown
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget, check_budget
from pate.privacy.convert import format_up
from pate.privacy.cost import Charge

__all__ = ["WHOLE", "TierBudgets", "as_budget"]

#: Whole numbers that stand for the weight 1.
WHOLE = 1 << 16
#: A statement is a page.
_MOST = 40


@dataclass(frozen=True)
class TierBudgets:
    """A budget for every tier, and the weight that keeps it: what a unit of that tier contributes is scaled by it.

    Attributes
    ----------
    names : tuple of str
    budgets : tuple of Budget
    weights : tuple of int
        Of each tier, in whole 65,536ths; that of the tier with the largest budget is 65,536.

    Guarantees
    ----------
    Noise is made for a unit of weight 1, which gets mu-GDP. One of weight w moves every sum w times as far at most, in
    every round, and so gets (w mu)-GDP (Dong, Roth, Su 2022, Theorem 2.7); mu^2 adds up over rounds (Corollary 3.3), so
    that the factor w is the same for all of them together. Weights are mu(epsilon_g, delta_g)/mu_max, rounded down
    until the tier's own budget allows what its units are charged. Who is in which tier is public and fixed: neighbours
    differ in what one unit's records hold, never in its tier.

    Raises
    ------
    InvalidInputError
        No tiers, one without a name or a budget, or with a budget too small beside the largest.

    Examples
    --------
    >>> tiers = TierBudgets.of({"gold": Budget(3.0, 1e-5), "basic": Budget(1.0, 1e-5)})
    >>> tiers.top, [round(w / WHOLE, 4) for w in tiers.weights]
    (Budget(epsilon=3.0, delta=1e-05), [0.3727, 1.0])
    >>> whole = Charge.gaussian(sensitivity=tiers.top.mu_squared**0.5, sigma=1.0)
    >>> [
    ...     round(tiers.charge(name, whole).guarantee(1e-5).epsilon, 3)
    ...     for name in tiers.names
    ... ]
    [1.0, 3.0]
    """

    names: tuple[str, ...]
    budgets: tuple[Budget, ...]
    weights: tuple[int, ...]

    @classmethod
    def of(cls, budgets: Mapping[str, Budget]) -> Self:
        """Return the weights of these budgets, in the order of the tiers' names."""
        odd = [n for n in budgets if not isinstance(n, str) or not n.strip() or not n.isprintable() or len(n) > _MOST]
        if not budgets or odd or len(budgets) > _MOST:
            wrong = f"one called {shown(odd[0])}" if odd else f"{len(budgets)}"
            raise InvalidInputError(
                f"budget must name 1 to {_MOST} tiers, each by a text of at most {_MOST} characters, got {wrong}. Say "
                "{'gold': Budget(3.0, 1e-5), 'basic': Budget(1.0, 1e-5)}."
            )
        check_spellings("the names of tiers", list(budgets))
        budgets = {name: check_budget(budgets[name]) for name in sorted(budgets)}
        own = tuple(budgets.values())
        most = max(own, key=lambda budget: budget.mu_squared)
        # A calibrated mu may be above the budget's own by less than this.
        whole = Charge.gaussian(sensitivity=math.sqrt(most.mu_squared) * (1 + 1e-9), sigma=1.0)
        weights = []
        for name, budget in budgets.items():
            weight = math.floor(WHOLE * math.sqrt(min(1.0, budget.mu_squared / most.mu_squared)))
            while weight and budget != most and not budget.allows(scaled(whole, weight)):
                weight -= 1
            if not weight:
                raise InvalidInputError(
                    f"budget of tier {name!r} must be more than next to nothing beside {most}, got {budget}. Leave "
                    "those records out."
                )
            weights.append(weight)
        return cls(tuple(budgets), own, tuple(weights))

    @property
    def top(self) -> Budget:
        """The largest budget: noise is made for it, and it is the headline."""
        return self.budgets[self.weights.index(max(self.weights))]

    @property
    def mapping(self) -> dict[str, Budget]:
        """The budgets by name."""
        return dict(zip(self.names, self.budgets, strict=True))

    @property
    def pairs(self) -> tuple[tuple[str, int], ...]:
        """Name and weight of every tier."""
        return tuple(zip(self.names, self.weights, strict=True))

    def charge(self, name: str, whole: Charge) -> Charge:
        """Return what a unit of this tier is charged where one of weight 1 is charged ``whole``."""
        return scaled(whole, self.weights[self.names.index(name)])

    def weigh(self, counts: IntArray) -> FloatArray:
        """Return the votes of all tiers' teachers by the tiers' weights, in votes of weight 1: exact in float64.

        A unit is in one teacher's shard, of its own tier: replaced within it, two of the sums move by the weight of its
        tier at most, an L2 sensitivity of weight sqrt(2).

        Parameters
        ----------
        counts : int array of shape (n_tiers, n_queries, n_classes)
            Of each tier's teachers, in the order of ``names``. **Sensitive**, and so is what is returned.

        Returns
        -------
        float64 array of shape (n_queries, n_classes)
            Multiples of 2^-16.

        Raises
        ------
        InvalidInputError
            Counts of another number of tiers.

        Examples
        --------
        >>> tiers = TierBudgets.of({"gold": Budget(3.0, 1e-5), "basic": Budget(1.0, 1e-5)})
        >>> tiers.weigh(np.array([[[10, 0]], [[2, 3]]])) * WHOLE == [
        ...     [10 * 24428 + 2 * WHOLE, 3 * WHOLE]
        ... ]
        array([[ True,  True]])
        """
        if counts.ndim != 3 or len(counts) != len(self.names):
            raise InvalidInputError(
                f"votes must be given for each of the tiers {', '.join(map(repr, self.names))}. Say "
                "release_labels({'gold': votes, ...}, ...)."
            )
        return np.asarray(np.tensordot(np.asarray(self.weights, dtype=np.int64), counts, axes=1) / WHOLE)

    def held_to(self, known: Sequence[Sequence[Any]] | None) -> TierBudgets:
        """Return these tiers with the weights (name, weight) that a ledger began with: it has one for every tier.

        Raises
        ------
        InvalidInputError
            Other tiers, or a tier whose budget here does not allow its weight there.
        """
        if known is None:
            return self
        held = {str(name): int(weight) for name, weight in known}
        if sorted(held) != sorted(self.names):
            raise InvalidInputError(
                f"budget must name the tiers of the ledger, {', '.join(map(repr, held))}, got "
                f"{', '.join(map(repr, self.names))}. One ledger has one set of tiers, for good."
            )
        whole = Charge.gaussian(sensitivity=math.sqrt(self.top.mu_squared), sigma=1.0)
        for name, weight, budget in zip(self.names, self.weights, self.budgets, strict=True):
            if held[name] > weight:
                least = scaled(whole, held[name]).guarantee(budget.delta).epsilon
                raise InvalidInputError(
                    f"budget of tier {name!r} must be epsilon {format_up(least)} at least, got {budget}: so much it "
                    f"is charged, by the ledger's weights, where the largest budget is {self.top}."
                )
        return replace(self, weights=tuple(held[name] for name in self.names))


def scaled(whole: Charge, weight: int) -> Charge:
    """Return what a unit of this weight (of :data:`WHOLE`) is charged where one of weight 1 is charged ``whole``.

    Examples
    --------
    >>> scaled(Charge.gaussian(sensitivity=1.0, sigma=2.0), WHOLE // 2).mu_squared
    0.06250000000000011
    """
    if weight == WHOLE:
        return whole
    # Rounded up by more than the errors of root and product.
    return Charge.gaussian(sensitivity=math.sqrt(whole.mu_squared) * (weight / WHOLE) * (1 + 2.0**-50), sigma=1.0)


def as_budget(budget: Any) -> tuple[Budget, TierBudgets | None]:
    """Return the budget that noise is made for, and the tiers' where there is one for each.

    Examples
    --------
    >>> as_budget(Budget(1.0, 1e-5))
    (Budget(epsilon=1.0, delta=1e-05), None)
    """
    if not isinstance(budget, Mapping):
        return check_budget(budget), None
    tiers = TierBudgets.of(budget)
    return tiers.top, tiers
