"""Units that take turns: who is in which step when noise is correlated, and what that costs.

**What is drawn.** Each unit draws, once and by itself, one of ``separation`` groups (b below). Groups take turns, one
a step, in a circle; at its group's turn a unit is in with probability ``rate`` = b times the sample rate, mostly 1. So
it is in steps r, r + b, r + 2 b, ... at most, ``rounds`` of them, and the expected batch is what was asked for.

**Adjacency.** Groups and coins are drawn for each unit alone, whatever the others are, so neighbours (one unit
replaced, nullified, added or removed) can be given the same draws for everybody else, and for the one unit too where
it is replaced. They then differ in the gradients of one unit at the steps r, r + b, ...: by at most 2 clipping norms
if it is replaced, by 1 if it is nullified, added or removed. Whoever is in which group may be told to the attacker:
the law of the draws is the same in both worlds, and a mixture over them does not hurt (joint convexity). Groups of
equal size would be shuffled among the units and so hang on their number; they are not used.

**Without amplification.** The release is C X + sigma Z, C lower triangular (:mod:`pate.dpsgd.mechanisms._matrices`).
Given all earlier rows, row t is a Gaussian around a mean that the unit moves by (C G)_t, where G holds what it moves.
How G goes on may hang on the earlier rows, but sum over t of |(C G)_t|^2 stays at most (a sens(C))^2, a = 2 or 1, on
any path. So the run is mu-GDP with mu = a sens(C) / sigma (Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1:
adaptive choices do not hurt; a filter of Gaussian differential privacy says the same, Smith and Thakurta 2022).
Gradients that are all the same attain it: where the rate is 1, mu is exact against an attacker who knows the groups.

**Amplification by the coins** (Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta, Xu 2023, "(Amplified) banded
matrix factorization": cyclic Poisson sampling). Where C has at most b bands, columns r, r + b, ... share no row: the
release falls into blocks of rows [r + j b, r + (j + 1) b), and a block hangs on one turn of the unit alone. Given what
came before the block and the rest of the sample, its rows, each less what its past says of it, are (1 - rate) N(0,
sigma^2) + rate N(c (x) g, sigma^2), c the column of C and g the gradient, which is fixed by what came before the step:
the Poisson-subsampled Gaussian with shifts of norm at most |c| |g|, |c| <= 1. Its dominating pairs are those of
DP-SGD, in any dimension (:mod:`pate.dpsgd._calibration`), and compose adaptively over ``rounds`` blocks. The run costs
what DP-SGD costs with ``rounds`` steps at ``rate``. Nothing is claimed for other C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import dp_accounting
import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int, least_of
from pate.dpsgd._calibration import ADJACENCIES, dpsgd_epsilon, recomputed
from pate.dpsgd.mechanisms._mechanism import Shape
from pate.exceptions import InvalidInputError
from pate.noise.source import NoiseSource
from pate.privacy.compose.dp_events import from_dp_event
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.cost import Charge

#: Covers what floats lose when columns are added up (below 1e-12 for 10,000 steps, tested in exact fractions).
_MARGIN = 1 + 1e-10


@dataclass(frozen=True)
class Cycle:
    """Who may be in which step: the public numbers.

    Attributes
    ----------
    separation : int
        Number of groups, and of steps from one turn of a group to its next.
    rate : float
        Probability with which a unit is in at its group's turn.
    rounds : int
        How many turns a group has, at most.
    n_steps : int
    """

    separation: int
    rate: float
    rounds: int
    n_steps: int

    @classmethod
    def of(cls, shape: Shape, separation: int | None = None) -> Cycle:
        """Return the cycle of a run; ``separation=None`` is the longest that gives the expected batch size.

        Raises
        ------
        InvalidInputError
            With so many groups not even all units of one make the batch that is expected.
        """
        longest = max(1, math.floor((1 + 1e-12) / shape.sample_rate))
        if separation is not None and separation > longest:
            raise InvalidInputError(
                f"separation must be <= {longest} at sample rate {shape.sample_rate:.6g}, got {separation}: a group "
                "would be smaller than the batch. Pass separation=None, or a smaller batch."
            )
        b = longest if separation is None else separation
        rate = b * shape.sample_rate
        # 49 times 1/49 is less than 1 in floats.
        return cls(b, 1.0 if rate > 1 - 1e-9 else rate, -(-shape.n_steps // b), shape.n_steps)

    def batches(self, n_units: int, source: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the units of each step, sorted; ``n_units`` is the true number. Steps may be empty."""
        group = source.words(n_units) % np.uint64(self.separation)
        members = [np.flatnonzero(group == r) for r in range(min(self.separation, self.n_steps))]
        below = int(self.rate * 2.0**64)
        for step in range(self.n_steps):
            there = members[step % self.separation]
            yield there if below >= 2**64 else there[source.words(len(there)) < np.uint64(below)]

    def words(self) -> str:
        """Return the schedule in words."""
        taken = "" if self.rate == 1 else f" taken with probability {self.rate:.6g},"
        return f"groups drawn at random, one turn every {self.separation} steps,{taken} at most {self.rounds} turns"


@dataclass(frozen=True)
class CyclicCost:
    """What a run costs: a Gaussian of one sensitivity, or a composition of subsampled ones where that holds.

    Attributes
    ----------
    cycle : Cycle
    sensitivity : float
        By how much one unit's gradients of norm 1 move the release, in units of the noise on it.
    apart : bool
        Whether the columns of one unit's turns share no row and none is longer than 1: then coins amplify.
    """

    cycle: Cycle
    sensitivity: float
    apart: bool

    @property
    def amplified(self) -> bool:
        """Whether the coins count."""
        return self.apart and self.cycle.rate < 1

    def mu(self, noise_multiplier: float, adjacency: str) -> float:
        """Return the mu of the run without amplification, rounded up."""
        return (2.0 if adjacency == "replace-one" else 1.0) * self.sensitivity / noise_multiplier * _MARGIN

    def epsilon(self, noise_multiplier: float, *, delta: float, adjacency: str, interval: float) -> float:
        """Return an upper bound on epsilon, the least that is proved."""
        found = gdp_to_epsilon(self.mu(noise_multiplier, adjacency), delta)
        if self.amplified:
            by_coins = dpsgd_epsilon(
                noise_multiplier / _MARGIN,
                delta=delta,
                sample_rate=self.cycle.rate,
                n_steps=self.cycle.rounds,
                adjacency=adjacency,
                interval=interval,
            )
            found = least_of(found, by_coins)
        return found

    def charge(self, noise_multiplier: float) -> Charge:
        """Return the cost under replace-one."""
        gauss = Charge.gaussian(sensitivity=2.0 * self.sensitivity * _MARGIN, sigma=noise_multiplier)
        if not self.amplified:
            return gauss
        found = from_dp_event(self._event(noise_multiplier))
        return Charge(
            gauss.mu_squared, tuple(map(least_of, found.rdp, gauss.rdp_at(found.orders))), orders=found.orders
        )

    def theorem(self, adjacency: str) -> str:
        """Return what the accounting rests on."""
        if self.amplified:
            return (
                f"{adjacency}: turns of a {{unit}} share no row of the banded matrix, and cost a step of DP-SGD each "
                "(Choquette-Choo et al. 2023); dominating pairs compose adaptively (Zhu, Dong, Wang 2022), rounded "
                "towards a larger epsilon"
            )
        return (
            f"{adjacency}: one Gaussian of the sensitivity of all turns of a {{unit}}, however gradients hang on "
            "earlier steps (Denisov et al. 2022, Theorem 2.1), converted exactly (Balle, Wang 2018); no amplification"
        )

    def verify(self, noise_multiplier: float, adjacency: str, delta: float, interval: float, matrix: str) -> str:
        """Return how anybody can compute epsilon again; ``matrix`` says what C is."""
        away = "2" if adjacency == "replace-one" else "1"
        gauss = (
            f"mu = {away} {self.sensitivity!r} / {noise_multiplier!r}, the largest norm of a sum of columns r, "
            f"r + {self.cycle.separation}, ... of {matrix}, then epsilon at delta {delta!r} (Balle, Wang 2018)"
        )
        if not self.amplified:
            return gauss
        return (
            f"dp_accounting: PLDAccountant({ADJACENCIES[adjacency].name}, {interval:g}) composing {self.cycle.rounds} "
            f"times PoissonSampledDpEvent({self.cycle.rate!r}, GaussianDpEvent({noise_multiplier!r})), "
            f"{recomputed(self.cycle.rounds, delta, interval)}. Or {gauss}, where that says less"
        )

    def _event(self, noise_multiplier: float) -> dp_accounting.DpEvent:
        turn = dp_accounting.PoissonSampledDpEvent(self.cycle.rate, dp_accounting.GaussianDpEvent(noise_multiplier))
        return dp_accounting.SelfComposedDpEvent(turn, self.cycle.rounds)


def check_separation(separation: int | None) -> None:
    """Refuse a separation that is no whole number of steps."""
    if separation is not None:
        check_int("separation", separation, low=1, remedy="Pass None for one turn an epoch.")
