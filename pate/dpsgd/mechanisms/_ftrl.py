"""DP-FTRL: training with correlated noise, by banded matrices in closed form and by trees.

Sources: Kairouz, McMahan, Song, Thakkar, Thakurta, Xu 2021 (trees); Denisov, McMahan, Rush, Smith, Thakurta 2022
(matrices); Choquette-Choo, McMahan, Rush, Thakurta 2023 (several epochs); Choquette-Choo, Ganesh, McKenna, McMahan,
Rush, Thakurta, Xu 2023 (bands); McKenna 2025 (bands optimised); Kalinin and Lampert 2024 (banded square root);
Kalinin, McKenna, Upadhyay, Lampert 2025 (banded inverse). Who is in which step, and why the cost is what it is:
:mod:`pate.dpsgd.mechanisms._ftrl`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq

from pate.core.checks import check_choice, check_int, check_real, largest_of, least_of
from pate.dpsgd._calibration import (
    SMALLEST_NOISE_MULTIPLIER,
    central_limit_guess,
    dpsgd_epsilon,
    poisson_event,
    recomputed_poisson,
)
from pate.dpsgd.mechanisms._matrices import (
    Forest,
    Toeplitz,
    inverse_coefficients,
    optimised_coefficients,
    root_coefficients,
    tree_step,
)
from pate.dpsgd.mechanisms._mechanism import Shape, gaussian
from pate.exceptions import InvalidInputError
from pate.noise.source import NoiseSource
from pate.privacy.budget import Budget
from pate.privacy.compose.dpsgd_accountants import from_dp_event
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.losses import discretization_interval
from pate.privacy.words import Guarantee

# Units that take turns: who is in which step when noise is correlated, and what that costs.

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
        found = from_dp_event(poisson_event(noise_multiplier, self.cycle.rate, self.cycle.rounds))
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
        by_coins = recomputed_poisson(noise_multiplier, self.cycle.rate, self.cycle.rounds, adjacency, delta, interval)
        return f"{by_coins}. Or {gauss}, where that says less"


def check_separation(separation: int | None) -> None:
    """Refuse a separation that is no whole number of steps."""
    if separation is not None:
        check_int("separation", separation, low=1, remedy="Pass None for one turn an epoch.")


class _CyclicFTRL:
    """What both kinds of correlated noise share: turns, and the cost of a sensitivity."""

    name = "DP-FTRL"
    #: Whether the first k steps of a run never cost more than a run of k steps.
    prefixes = True
    separation: int | None

    def cost(self, shape: Shape) -> CyclicCost:
        raise NotImplementedError

    def _matrix(self, shape: Shape) -> str:
        raise NotImplementedError

    def check(self, shape: Shape, adjacency: str) -> None:
        """Refuse a run for which the turns do not work out; every adjacency has a theorem."""
        self.cost(shape)

    def epsilon(self, noise_multiplier: float, shape: Shape, *, delta: float, adjacency: str, interval: float) -> float:
        """Return an upper bound on epsilon: exact, where every turn is taken, to an attacker who knows the groups."""
        return self.cost(shape).epsilon(noise_multiplier, delta=delta, adjacency=adjacency, interval=interval)

    def charge(self, noise_multiplier: float, shape: Shape) -> Charge:
        """Return the cost under replace-one."""
        return self.cost(shape).charge(noise_multiplier)

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the units of each step, sorted; steps may be empty."""
        yield from Cycle.of(shape, self.separation).batches(n_units, source)

    def words(self, shape: Shape) -> str:
        """Return how steps are drawn and noised."""
        return f"{Cycle.of(shape, self.separation).words()}, noise correlated by {self._matrix(shape)}"

    def theorem(self, shape: Shape, adjacency: str) -> str:
        """Return what the accounting rests on."""
        return self.cost(shape).theorem(adjacency)

    def sampling(self) -> str:
        """Return the statement's assumption about sampling."""
        return "each {unit} drew its group by itself, and groups took turns, as the accounting says"

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how anybody can compute the epsilon again."""
        return self.cost(shape).verify(
            noise_multiplier, guarantee.adjacency, guarantee.delta, interval, self._matrix(shape)
        )

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return the mu that epsilon is computed from, None where coins say less than it does."""
        cost = self.cost(shape)
        return None if cost.amplified else cost.mu(noise_multiplier, adjacency)


FACTORISATIONS = ("optimised", "square-root", "inverse-square-root")


@dataclass(frozen=True)
class BandedFTRL(_CyclicFTRL):
    """Noise correlated by a banded Toeplitz matrix, in steps that a unit is in by turns.

    Parameters
    ----------
    n_bands : int
        Steps that a step's noise hangs on, itself included; 1 is independent noise. Memory: ``n_bands - 1`` float64
        for each parameter.
    separation : int or None
        Steps from one turn of a unit to its next; None for one turn an epoch. With fewer, units toss coins at their
        turns, which amplifies privacy where ``n_bands <= separation`` (``BandedFTRL(1, separation=1)`` is DP-SGD).
        :func:`choose_bands` finds the best.
    factorisation : {"optimised", "square-root", "inverse-square-root"}
        The bands: optimised in milliseconds (``n_bands <= separation`` only); the square root of prefix sums, cut off;
        or such that the *inverse* has bands, cut off its square root, which is better than the former with fewer bands
        than half the separation, and never amplified. At 512 steps and 8 turns, 64, 32 and 8 bands leave errors of
        9.30, 10.86, 17.39; 9.62, 11.64, 19.26; 10.33, 9.98, 13.77; independent noise 45.3.
    momentum : float
        The optimiser's, which the bands then suit; privacy does not hang on it.

    Examples
    --------
    >>> shape = Shape(6400, 1 / 64, 512, 100)
    >>> mechanism = BandedFTRL(64)
    >>> mechanism.words(shape).split(", noise ")
    ['groups drawn at random, one turn every 64 steps, at most 8 turns',
     'correlated by 64 optimised bands, columns of norm 1']
    >>> round(mechanism.mu(8**0.5, shape, "replace-one"), 6)
    2.0
    >>> mechanism.check(Shape(4, 1 / 2, 2, 2), "replace-one")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_bands must be <= 2, the steps from one turn ... to the next, ...
    """

    n_bands: int
    separation: int | None = None
    factorisation: str = "optimised"
    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_int("n_bands", self.n_bands, low=1)
        check_separation(self.separation)
        check_choice("factorisation", self.factorisation, FACTORISATIONS)
        check_real("momentum", self.momentum, low=0, high=1, high_open=True)

    def strategy(self, shape: Shape) -> Toeplitz:
        """Return the matrix C: columns of norm 1 if a unit's turns share no row, otherwise the longest has norm 1.

        Examples
        --------
        >>> C = BandedFTRL(32, factorisation="inverse-square-root").strategy(Shape(6400, 1 / 64, 512, 100))
        >>> round(C.rmse() * C.sensitivity(64), 2)
        9.98
        """
        return _banded(self, shape.n_steps, Cycle.of(shape, self.separation).separation)[0]

    def cost(self, shape: Shape) -> CyclicCost:
        """Return what one unit moves, and whether coins amplify."""
        cycle = Cycle.of(shape, self.separation)
        return CyclicCost(cycle, _banded(self, shape.n_steps, cycle.separation)[1], apart=self._apart(cycle.separation))

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield the rows of C^-1 Z for normals Z, float64 of shape (size,), of the multiplier 1.

        C = T D^-1, so C^-1 = D T^-1: rows y_t of T^-1 Z solve z_t = sum over j < n_bands of c_j y_{t-j}; with a banded
        inverse y_t = sum over j < n_bands of f_j z_{t-j}.
        """
        strategy = self.strategy(shape)
        n_bands = min(self.n_bands, shape.n_steps)
        if self._inverse:
            weights = root_coefficients(n_bands, momentum=self.momentum, inverse=True)
        else:
            weights = -strategy.column  # its first is 1
        past = torch.zeros(n_bands - 1, size, dtype=torch.float64)
        age = np.arange(1, n_bands)
        for step, length in enumerate(strategy.lengths.tolist()):
            draw = gaussian(source, size)
            found = draw
            if n_bands > 1:
                turned = np.zeros(n_bands - 1)
                turned[(step - age) % (n_bands - 1)] = weights[1:]
                found = torch.from_numpy(turned) @ past + draw
                past[step % (n_bands - 1)] = draw if self._inverse else found
            yield found * length

    def _apart(self, separation: int) -> bool:
        return self.n_bands <= separation and not self._inverse

    @property
    def _inverse(self) -> bool:
        return self.factorisation == "inverse-square-root" and self.n_bands > 1

    def _matrix(self, shape: Shape) -> str:
        cycle = Cycle.of(shape, self.separation)
        kind = "optimised bands" if self.factorisation == "optimised" else f"bands of the {self.factorisation}"
        momentum = f" for momentum {self.momentum:g}" if self.momentum else ""
        columns = "columns of norm 1" if self._apart(cycle.separation) else "the longest column of norm 1"
        return f"{min(self.n_bands, shape.n_steps)} {kind}{momentum}, {columns}"


@dataclass(frozen=True)
class TreeFTRL(_CyclicFTRL):
    """Noise correlated by binary trees whose nodes are all used at best (Honaker 2015, full); no amplification.

    Memory: log2 of the steps, for each parameter. :class:`BandedFTRL` is ahead of it wherever its memory is there.

    Parameters
    ----------
    restart : int or None
        Steps after which new trees begin; None never. ``"epoch"`` of the papers is the separation.
    separation : int or None
        Steps from one turn of a unit to its next; None for one turn an epoch.

    Examples
    --------
    >>> shape = Shape(6400, 1 / 64, 512, 100)
    >>> forest = TreeFTRL(restart=64).strategy(shape)
    >>> round(forest.rmse() * forest.sensitivity(64), 2)
    12.23
    >>> [draw.shape for draw in TreeFTRL().noise(Shape(4, 1.0, 2, 4), 3, NoiseSource())]
    [torch.Size([3]), torch.Size([3])]
    """

    #: A tree's later nodes say something of the steps before, so k steps of many may cost more than k steps planned.
    prefixes = False
    restart: int | None = None
    separation: int | None = None

    def __post_init__(self) -> None:
        if self.restart is not None:
            check_int("restart", self.restart, low=1, remedy="Pass None for trees that go on.")
        check_separation(self.separation)

    def strategy(self, shape: Shape) -> Forest:
        """Return the trees."""
        return Forest(shape.n_steps, shape.n_steps if self.restart is None else min(self.restart, shape.n_steps))

    def cost(self, shape: Shape) -> CyclicCost:
        """Return what one unit moves."""
        cycle = Cycle.of(shape, self.separation)
        return CyclicCost(cycle, _tree_sensitivity(self.strategy(shape), cycle.separation), apart=False)

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield the noise of each step, float64 of shape (size,), of the multiplier 1: rows of L^-1 Z."""
        forest = self.strategy(shape)
        for _, height in forest.trees:
            blocks: dict[int, torch.Tensor] = {}
            for step in range(1 << height):
                weights, std = tree_step(step, height)
                found = gaussian(source, size).mul_(std)
                for h, weight in weights:
                    found.add_(blocks[h], alpha=weight)
                yield found * forest.scale
                # The block of height h that ends here: the step and the finished blocks it closes.
                total, h = found, 0
                while step >> h & 1:
                    total = total + blocks.pop(h)
                    h += 1
                blocks[h] = total

    def _matrix(self, shape: Shape) -> str:
        forest = self.strategy(shape)
        again = f", begun again after every {forest.restart} steps" if forest.restart < shape.n_steps else ""
        return f"binary trees over {shape.n_steps} steps{again}, over {forest.scale!r}"


@lru_cache(maxsize=64)  # a calibration asks for one many times
def _banded(mechanism: BandedFTRL, n_steps: int, separation: int) -> tuple[Toeplitz, float]:
    n_bands, momentum = min(mechanism.n_bands, n_steps), mechanism.momentum
    if mechanism.factorisation == "optimised":
        if mechanism.n_bands > separation:
            raise InvalidInputError(
                f"n_bands must be <= {separation}, the steps from one turn of a unit to the next, for optimised bands, "
                f"got {mechanism.n_bands}. Take fewer bands, or pass factorisation='square-root'."
            )
        column = optimised_coefficients(n_bands, n_steps, momentum=momentum)
    else:
        column = root_coefficients(n_bands, momentum=momentum, inverse=mechanism._inverse)
    if mechanism._inverse:
        column = inverse_coefficients(column, n_steps)
    strategy = Toeplitz.of(column, n_steps=n_steps, equal_columns=mechanism._apart(separation))
    return strategy, strategy.sensitivity(separation)


@lru_cache(maxsize=64)
def _tree_sensitivity(forest: Forest, separation: int) -> float:
    return forest.sensitivity(separation)


# How many bands and turns correlated noise should have: the least error that a budget allows.


@lru_cache(maxsize=64)
def choose_bands(
    budget: Budget,
    shape: Shape,
    *,
    adjacency: str = "replace-one",
    momentum: float = 0.0,
    most_bands: int = 64,
) -> BandedFTRL:
    """Return the banded mechanism with the least root mean squared error of the iterates at a budget.

    Separations of 1, 2, 4, ... and the longest are tried, each with as many optimised bands: from independent noise,
    whose coins amplify most (DP-SGD, but for groups of one), to noise that cancels best (Choquette-Choo, Ganesh et al.
    2023). A function of public numbers alone, so it costs nothing. Little privacy to lose (small epsilon, large
    batches, many epochs) leaves it at DP-SGD, few epochs at a large epsilon lead away from it.

    Parameters
    ----------
    budget : Budget
    shape : Shape
    adjacency : {"replace-one", "add-or-remove", "zero-out"}
    momentum : float
        The optimiser's.
    most_bands : int
        Memory is one number less for each parameter.

    Examples
    --------
    >>> shape = Shape(400, 0.25, 8, 100)
    >>> [choose_bands(Budget(epsilon, 1e-5), shape, adjacency="zero-out").n_bands for epsilon in (1.0, 10.0)]
    [1, 4]
    """
    check_int("most_bands", most_bands, low=1)
    longest = Cycle.of(shape).separation
    separations = sorted({min(2**i, longest) for i in range(longest.bit_length() + 1)})
    found = [BandedFTRL(min(n_steps, most_bands), separation=n_steps, momentum=momentum) for n_steps in separations]
    errors = [banded_error(mechanism, budget, shape, adjacency) for mechanism in found]
    return found[errors.index(least_of(*errors))]


def banded_error(mechanism: BandedFTRL, budget: Budget, shape: Shape, adjacency: str = "replace-one") -> float:
    """Return the root mean squared error that is left at a budget, of a coordinate of the iterates, in clipping norms.

    To about 0.1 %. That of sums of clipped gradients, before they are divided by the expected batch size and
    multiplied by the learning rate.

    Examples
    --------
    Eight turns, 512 steps: mu from the budget, 2 sqrt(8) / mu the noise, and 3.29 of it is left.

    >>> from pate.privacy.convert import gdp_from_budget
    >>> error = banded_error(BandedFTRL(64), Budget(1.0, 1e-5), Shape(6400, 1 / 64, 512, 100))
    >>> round(error * gdp_from_budget(1.0, 1e-5) / 2, 2)
    9.3
    """
    cost = mechanism.cost(shape)
    if not cost.amplified:
        sigma = cost.mu(1.0, adjacency) / gdp_from_budget(budget.epsilon, budget.delta)
        return sigma * mechanism.strategy(shape).rmse(mechanism.momentum)
    interval = discretization_interval(budget.epsilon, shape.n_steps)

    @cache
    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        spent = mechanism.epsilon(sigma, shape, delta=budget.delta, adjacency=adjacency, interval=interval)
        return spent - budget.epsilon

    start = central_limit_guess(budget.epsilon, budget.delta, cost.cycle.rate, cost.cycle.rounds, adjacency)
    low = high = math.log(largest_of(start, SMALLEST_NOISE_MULTIPLIER))
    while excess(low) < 0:
        low -= 0.2
    while excess(high) > 0:
        high += 0.2
    found = low if low == high else brentq(excess, low, high, xtol=1e-3)
    return math.exp(found) * mechanism.strategy(shape).rmse(mechanism.momentum)
