"""GaussianSum: one exact Gaussian on a whole sum of ballots."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from pate._core.checks import check_int
from pate._core.recorder import note, resolve
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms._base import Noisy
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.calibrate import Allowance, calibrate
from pate.privacy.cost import Charge
from pate.privacy.noise.reals import rounded_counts
from pate.privacy.noise.source import NoiseSource

#: Powers of two between the noise and the grid on which it is shown.
_GRID_BITS = 20
#: Far beyond any use (epsilon below 1e-7); scales and grids then fit the sampler's whole numbers.
_MOST = 1e6


@dataclass(frozen=True)
class GaussianSum(Noisy):
    """Release a sum of ballots (:class:`pate.records.BallotSum`) with independent Gaussian noise on every cell.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation over Delta, the most that one unit can move the sum (L2).

    Guarantees
    ----------
    The sum is exact, in whole numbers, and Delta^2 is a whole number that bounds what one unit moves
    (:mod:`pate.records.ballot_sum`). What is released is (sum + N(0, s^2)) rounded to a public grid, s >=
    noise_multiplier Delta: post-processing of the real-valued Gaussian mechanism
    (:func:`pate.privacy.noise.reals.rounded_counts` decides every rounding exactly), hence 1/noise_multiplier-GDP
    (Dong, Roth, Su 2022, Theorem 2.7), and mu^2 adds up over rounds, adaptively chosen ones too (Corollary 3.3). No
    cost that looks at the data is lower: the privacy loss of a pair of data sets at distance Delta is the same whatever
    they hold.

    Raises
    ------
    InvalidInputError
        The multiplier is no number from 0.001 to 1e6.

    Examples
    --------
    >>> GaussianSum(noise_multiplier=4.0).charge().mu_squared
    0.0625
    >>> round(1 / GaussianSum.for_budget(Budget(1.0, 1e-5)).noise_multiplier, 5)
    0.26805
    """

    noise_multiplier: float
    family: ClassVar[str] = "gaussian-sum"

    noise_fields: ClassVar[tuple[str, ...]] = ("noise_multiplier",)
    _most: ClassVar[float] = _MOST
    _unit: ClassVar[str] = "It is the noise's standard deviation over the most that one unit can move the sum."

    @classmethod
    def for_budget(cls, budget: Budget, ledger_left: Allowance | None = None) -> GaussianSum:
        """Return the least noise that the whole budget buys for one sum (and what is left in a ledger).

        Parameters
        ----------
        budget : Budget
        ledger_left : Remaining or None
            ``ledger.remaining(default_total=budget)``.

        Raises
        ------
        BudgetExceededError
            Nothing is left.
        """
        return calibrate(cls(1.0), check_budget(budget), n_queries=1, left=ledger_left)

    def charge(self, n_rounds: int = 1, max_answers: int | None = None) -> Charge:
        """Return the cost of so many sums: mu^2 = n_rounds / noise_multiplier^2."""
        return Charge.gaussian(sensitivity=1.0, sigma=self.noise_multiplier) * check_int("n_rounds", n_rounds, low=0)

    def scale(self, delta_squared: int) -> float:
        """Return the noise's standard deviation in whole numbers: the least float s with s >= multiplier Delta.

        Parameters
        ----------
        delta_squared : int
            Delta^2, exact.
        """
        most = Fraction(self.noise_multiplier) ** 2 * check_int("delta_squared", delta_squared, low=1)
        value = self.noise_multiplier * math.sqrt(delta_squared) * (1 - 2.0**-50)
        while Fraction(value) ** 2 < most:
            value = math.nextafter(value, math.inf)
        return value

    def sample(self, sums: IntArray, delta_squared: int, noise: NoiseSource) -> FloatArray:
        """Return the sums with noise, multiples of a public grid, float64 of the same shape.

        Parameters
        ----------
        sums : int64 array of shape (d, m)
            Exact.
        delta_squared : int
            One unit moves them by no more than its square root.
        noise : NoiseSource
        """
        if not isinstance(sums, np.ndarray) or sums.dtype != np.int64 or sums.ndim != 2:
            raise InvalidInputError("sums must be an int64 array of shape (d, m).")
        note("sum", mechanism=self, values=sums, delta_squared=delta_squared)
        scale = self.scale(delta_squared)
        grid = 1 << max(0, math.frexp(scale)[1] - 1 - _GRID_BITS)
        # Whole multiples of the grid pass through a rounding to it: only what is left over meets the noise, so that the
        # sampler sees small numbers, however many records there are.
        whole, left = np.divmod(sums, grid)
        # The sampler takes two columns at least: beside a single one stands one of zeros, whose noise is thrown away.
        beside = left if left.shape[1] > 1 else np.hstack([left, np.zeros_like(left)])
        drawn = rounded_counts(beside, scale=scale, grid=float(grid), source=noise)[:, : left.shape[1]]
        noisy = np.asarray((whole + (drawn / grid).astype(np.int64)).astype(np.float64) * grid)
        return np.asarray(resolve("GaussianSum", noisy))
