"""Noisy votes of the nearest neighbours in a Poisson sample (Zhu, Yu, Chandraker, Wang 2020): law and price in one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pate.core.checks import check_int, check_real, largest_of, least_of
from pate.core.types import FloatArray, IntArray, Mask
from pate.exceptions import BudgetExceededError
from pate.mechanisms import ANSWERED, REFUSED, Draw
from pate.noise import real_argmax, real_at_least
from pate.noise.source import NoiseSource
from pate.privacy.budget import Budget
from pate.privacy.cost import Charge
from pate.privacy.sampled_votes import LEAST_SIGMA, sampled_votes_epsilon
from pate.privacy.words import Guarantee
from pate.votes import ABSTAIN

#: Coins are 32 random bits: a rate is a multiple of 2^-32.
_COIN = 2**32


@dataclass(frozen=True)
class SampledNeighbours:
    """For each query: a Poisson sample of the units, one vote of each of its k nearest, Gaussian noise, the largest.

    Attributes
    ----------
    n_neighbors : int
        k. Where fewer are in the sample, all of them vote.
    sample_rate : float
        Probability with which each unit is in a query's sample, by itself, in (0, 1]; rounded down to a multiple of
        2^-32 (one of them at least).
    sigma : float
        Noise on every count, in votes.
    threshold, screening_sigma : float or None
        Noisy screening: a query is answered only where its largest count plus N(0, screening_sigma^2) is at least
        ``threshold``. Both or neither.

    Notes
    -----
    Guarantee: replace-one, fixed or adaptive queries; the price is that of all queries answered, whatever the samples.
    With sampling, :mod:`pate.privacy.sampled_votes`; without (a rate of 1), a replaced unit replaces one vote, at the
    certified price of :class:`pate.GNMax`.

    Examples
    --------
    >>> m = SampledNeighbours(30, 0.25, 8.0)
    >>> print(m.guarantee(20, 1e-5))
    (0.773433, 1e-05)-DP, public, by pld, adjacency replace-one, both directions, adaptive
    """

    n_neighbors: int
    sample_rate: float
    sigma: float
    threshold: float | None = None
    screening_sigma: float | None = None

    def __post_init__(self) -> None:
        check_int("n_neighbors", self.n_neighbors, low=1)
        rate = check_real("sample_rate", self.sample_rate, low=0, high=1, low_open=True)
        object.__setattr__(self, "sample_rate", max(1, math.floor(rate * _COIN)) / _COIN)
        object.__setattr__(self, "sigma", check_real("sigma", self.sigma, low=LEAST_SIGMA))
        if (self.threshold is None) != (self.screening_sigma is None):
            check_real("threshold" if self.threshold is None else "screening_sigma", None, remedy="Say both.")
        if self.screening_sigma is not None:
            check_real("threshold", self.threshold)
            check_real("screening_sigma", self.screening_sigma, low=LEAST_SIGMA)

    def guarantee(self, n_queries: int, delta: float) -> Guarantee:
        """Return what so many queries promise: a constant, known before any record is looked at."""
        charge = self.charge(n_queries)
        if charge is not None:
            return charge.guarantee(delta)
        epsilon = sampled_votes_epsilon(
            sample_rate=self.sample_rate,
            sigma=self.sigma,
            screening_sigma=self.screening_sigma,
            n_queries=n_queries,
            delta=delta,
        )
        return Guarantee(epsilon=epsilon, delta=delta, kind="public", method="pld")

    def charge(self, n_queries: int) -> Charge | None:
        """Return the price where nothing is sampled; None with sampling, whose pairs no charge holds."""
        if self.sample_rate < 1:
            return None
        charge = Charge.gaussian_argmax(self.sigma) * n_queries
        if self.screening_sigma is not None:
            charge += Charge.threshold_test(self.screening_sigma) * n_queries
        return charge

    def scaled(self, factor: float) -> SampledNeighbours:
        """Return the same votes with all noise so many times as large."""
        screening = None if self.screening_sigma is None else self.screening_sigma * factor
        return replace(self, sigma=self.sigma * factor, screening_sigma=screening)

    def for_budget(self, budget: Budget, n_queries: int) -> SampledNeighbours:
        """Return the same votes with the least noise, in these proportions, that the budget allows (within 0.1 %).

        Raises
        ------
        BudgetExceededError
            No noise below a billion votes is enough.

        Examples
        --------
        >>> m = SampledNeighbours(30, 0.25, 1.0).for_budget(Budget(1.0, 1e-5), 20)
        >>> 0.99 < m.guarantee(20, 1e-5).epsilon <= 1.0
        True
        """

        def fits(factor: float) -> bool:
            return self.scaled(factor).guarantee(n_queries, budget.delta).epsilon <= budget.epsilon

        noises = [noise for noise in (self.sigma, self.screening_sigma) if noise is not None]
        least = LEAST_SIGMA / least_of(*noises) * (1 + 1e-12)
        # The central limit of the subsampled Gaussian: mu^2 = q^2 n |g|^2 (Dong, Roth, Su 2022).
        moved = 2 / self.sigma**2 + sum(1 / noise**2 for noise in noises[1:])
        low = high = largest_of(least, self.sample_rate * math.sqrt(n_queries * moved / budget.mu_squared))
        while not fits(high):
            low, high = high, 1.1 * high
            if high * self.sigma > 1e9:
                raise BudgetExceededError(
                    f"no amount of noise brings {n_queries} queries within {budget}. Ask fewer queries, or allow a "
                    "larger delta."
                )
        while low == high and low > least:
            low = largest_of(least, high / 1.1)
            low, high = (low, low) if fits(low) else (low, high)
        while high > 1.001 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if fits(middle) else (middle, high)
        return self.scaled(high)

    def draw(self, distances: FloatArray, labels: IntArray, n_classes: int, noise: NoiseSource) -> Draw:
        """Draw samples and noise, and return the labels.

        Parameters
        ----------
        distances : float array of shape (n_queries, n_units)
            Exact numbers, each of one query and one unit's own records; infinite where a unit has no vote.
        labels : int array of shape (n_queries, n_units)
            Class index of each unit's vote.
        n_classes : int
        noise : NoiseSource
            Gives the samples too: who is in one is as secret as the noise.
        """
        counts = np.array([
            np.bincount(labels[j][self._nearest(row, noise)], minlength=n_classes) for j, row in enumerate(distances)
        ]).reshape(-1, n_classes)  # fmt: skip
        answered: Mask = np.ones(len(counts), dtype=bool)
        if self.screening_sigma is not None and self.threshold is not None:
            top, scale = counts.max(axis=1), self.screening_sigma
            answered = real_at_least(top, threshold=self.threshold, scale=scale, source=noise)
        chosen = real_argmax(counts, scale=self.sigma, source=noise)
        return Draw(np.where(answered, chosen, ABSTAIN), np.where(answered, ANSWERED, REFUSED), None)

    def _nearest(self, distances: FloatArray, noise: NoiseSource) -> IntArray:
        """Return the k nearest of a fresh sample; of equally near ones the first."""
        inside = np.flatnonzero(in_sample(len(distances), self.sample_rate, noise) & np.isfinite(distances))
        if len(inside) <= self.n_neighbors:
            return inside
        near = distances[inside]
        kth = np.partition(near, self.n_neighbors - 1)[self.n_neighbors - 1]
        nearer, equal = inside[near < kth], inside[near == kth]
        return np.concatenate([nearer, equal[: self.n_neighbors - len(nearer)]])


def in_sample(n_units: int, sample_rate: float, noise: NoiseSource) -> Mask:
    """Return who is in a Poisson sample: one coin of 32 random bits for each unit, exact for multiples of 2^-32."""
    heads = round(sample_rate * _COIN)
    if heads == _COIN:
        return np.ones(n_units, dtype=bool)
    coins = noise.words((n_units + 1) // 2).view(np.uint32)[:n_units]
    return np.asarray(coins < np.uint32(heads))
