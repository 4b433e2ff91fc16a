"""DP-FTRL: training with correlated noise, by banded matrices in closed form and by trees.

Sources: Kairouz, McMahan, Song, Thakkar, Thakurta, Xu 2021 (trees); Denisov, McMahan, Rush, Smith, Thakurta 2022
(matrices); Choquette-Choo, McMahan, Rush, Thakurta 2023 (several epochs); Choquette-Choo, Ganesh, McKenna, McMahan,
Rush, Thakurta, Xu 2023 (bands); McKenna 2025 (bands optimised); Kalinin and Lampert 2024 (banded square root);
Kalinin, McKenna, Upadhyay, Lampert 2025 (banded inverse).

A run of n steps releases ``C X + sigma Z`` for a lower triangular C (n, n), the sums of clipped gradients X (n, d) and
independent normals Z (n, d), which is the same as ``X + sigma C^-1 Z``: every step's sum gets noise that takes back
some of what earlier steps got. Optimisers add gradients up, and in sums over many steps the noise then cancels.

**Sensitivity.** A unit takes part in steps r, r + b, r + 2 b, ... (or in some of them), each time with a gradient of
norm at most 1. With all rows g_t of what it moves, |C G|^2 = sum over s, t of (C^T C)_st <g_s, g_t>, which is at most
the sum of |C^T C|_st over its steps, and equal to it where C^T C >= 0 (all g_t the same): |sum of the columns of C at
r, r + b, ...| (Choquette-Choo, McMahan, Rush, Thakurta 2023, "Multi-epoch matrix factorization mechanisms", section 2;
absolute values: "(Amplified) banded matrix factorization", 2023, equation 5). :func:`cyclic_sensitivity` is the largest
of these over r, computed by adding up columns; absolute values are taken first, so that it stays an upper bound
whatever the signs. For Toeplitz C with falling coefficients the first offset is the worst, even of all patterns with
gaps of b and more (Kalinin and Lampert 2024, "Banded square root matrix factorization"): a test finds the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import toeplitz
from scipy.optimize import brentq, minimize
from scipy.signal import lfilter

from pate._core.checks import check_choice, check_int, check_real, largest_of, least_of
from pate._core.types import FloatArray
from pate.dpsgd._calibration import (
    SMALLEST_NOISE_MULTIPLIER,
    central_limit_guess,
    dpsgd_epsilon,
    poisson_event,
    recomputed_poisson,
)
from pate.dpsgd.mechanisms._mechanism import Shape, gaussian
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.compose.dpsgd_accountants import from_dp_event
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.losses import discretization_interval
from pate.privacy.noise.source import NoiseSource
from pate.privacy.words import Guarantee

# Correlated noise by binary trees: a node is the noisy sum of a block of steps, and all nodes are used at best.


@dataclass(frozen=True)
class Forest:
    """Complete binary trees, one after the other, scaled so that no step is in nodes of more than 1 in squares.

    Attributes
    ----------
    restart : int
        Number of steps after which new trees begin.
    """

    n_steps: int
    restart: int

    @property
    def trees(self) -> tuple[tuple[int, int], ...]:
        """First step and height of each: a tree of height h has 2^h steps."""
        found, start = [], 0
        while start < self.n_steps:
            stop = min(start + self.restart, self.n_steps)
            while start < stop:
                height = (stop - start).bit_length() - 1
                found.append((start, height))
                start += 1 << height
        return tuple(found)

    @property
    def scale(self) -> float:
        """Norm of the longest column of H: in how many nodes a step is, at most, under the square root."""
        return math.sqrt(1 + largest_of(*(height for _, height in self.trees)))

    def nodes(self) -> npt.NDArray[np.int64]:
        """Return the nodes' blocks, first step and the step behind the last: shape (n_nodes, 2)."""
        levels = [
            start + (np.arange(1 << (height - h))[:, None] + [0, 1]) * (1 << h)
            for start, height in self.trees
            for h in range(height + 1)
        ]
        return np.concatenate(levels)

    def sensitivity(self, separation: int) -> float:
        """Return what one unit moves that takes part in every ``separation``-th step: exact, as H >= 0.

        A node is moved by as many gradients as the unit has steps in its block, and all may point the same way
        (see the top of the module); the first step is tried out.
        """
        low, high = self.nodes().T
        worst = 0
        for first in range(min(separation, self.n_steps)):
            # How many of first, first + separation, ... lie in the block: those below its end less those below it.
            below_high, below_low = (np.maximum(0, -((first - x) // separation)) for x in (high, low))
            counts = below_high - below_low
            worst = max(worst, int(counts @ counts))
        return math.sqrt(worst) / self.scale

    def dense(self) -> FloatArray:
        """Return H over its scale, shape (n_nodes, n_steps)."""
        steps = np.arange(self.n_steps)
        low, high = self.nodes().T[:, :, None]
        return np.asarray(((low <= steps) & (steps < high)) / self.scale)

    def rmse(self, momentum: float = 0.0) -> float:
        """Return the root mean squared error of the iterates for a noise multiplier of one; takes n_steps^3 time.

        As :meth:`Toeplitz.rmse`.
        """
        H = self.dense()
        covariance = np.linalg.inv(H.T @ H)
        recursion = [1.0, -(1 + momentum), momentum]
        summed = lfilter([1.0], recursion, lfilter([1.0], recursion, covariance, axis=0), axis=1)
        return math.sqrt(float(summed.trace()) / self.n_steps)


def tree_step(step: int, height: int) -> tuple[tuple[tuple[int, float], ...], float]:
    """Return how the noise of one step of a tree depends on the noise before it, for nodes with unit noise.

    Parameters
    ----------
    step : int
        In the tree: 0, ..., 2^height - 1.

    Returns
    -------
    weights : tuple of (int, float)
        Of the summed noise of the finished block of height h left of the path to the step, one pair for each.
    std : float
        Of what is newly drawn.
    """
    p = 0.0
    inner: dict[int, float] = {}
    for h in range(height - 1, -1, -1):
        q = 1 + p
        inner = {left: w * p / q for left, w in inner.items()}
        if step >> h & 1:
            inner[h] = 1.0
            p = q
        else:
            a = 2 - 2.0**-h
            p = q * a / (q + a)
    return tuple((h, -w * p / (1 + p)) for h, w in inner.items()), 1 / math.sqrt(1 + p)


def root_coefficients(n: int, *, momentum: float = 0.0, inverse: bool = False) -> FloatArray:
    """Return the first column of the square root of the optimiser's matrix A, or of the root's inverse.

    A holds what each gradient adds to each iterate of SGD with ``momentum``: the series 1/((1 - x)(1 - momentum x)),
    which is 1/(1 - x), prefix sums, without. Its square root is the product of (1 - x)^(-1/2) and
    (1 - momentum x)^(-1/2) (Fichtenberger, Henzinger, Upadhyay 2023; with momentum, Kalinin and Lampert 2024).

    Shapes: returned (n,).
    """
    k = np.arange(1, n)
    binomial = np.cumprod(np.r_[1.0, (k - 1.5) / k if inverse else (k - 0.5) / k])
    if momentum == 0:
        return np.asarray(binomial)
    return np.asarray(np.convolve(binomial, binomial * momentum ** np.arange(n))[:n])


def inverse_coefficients(coefficients: npt.ArrayLike, n: int) -> FloatArray:
    """Return the first column of the inverse of the Toeplitz matrix with this first column (the rest of it zero)."""
    impulse = np.zeros(n)
    impulse[0] = 1.0
    return np.asarray(lfilter([1.0], np.asarray(coefficients, dtype=np.float64)[:n], impulse))


def optimised_coefficients(n_bands: int, n_steps: int, *, momentum: float = 0.0) -> FloatArray:
    """Return the first column of the banded Toeplitz C that leaves the least error for turns that share no row.

    The error of the iterates is sum over j of (n - j) b_j^2 with the series b of 1/((1 - x)(1 - momentum x) c(x)), the
    sensitivity that of the turns, |c| each: their product is minimised over c >= 0, from the square root on, by L-BFGS
    with the gradient written out (McKenna 2025, "Scaling up the banded matrix factorization mechanism"). Takes
    milliseconds. Privacy depends on the columns' norms alone, which are computed of what is returned: multiples of
    2^-20, the same on any machine but for chance.
    """
    n_bands = min(n_bands, n_steps)
    if n_bands == 1:
        return np.ones(1)
    left = np.arange(n_steps, 0, -1) / n_steps
    impulse = np.zeros(n_steps)
    impulse[0] = 1.0
    optimiser = [1.0, -(1 + momentum), momentum]

    def log_product(tail: FloatArray) -> tuple[float, FloatArray]:
        c = np.r_[1.0, tail]
        b = lfilter([1.0], np.convolve(c, optimiser), impulse)
        slope = lfilter([1.0], c, b)  # d b / d c_k = -x^k b / c
        error, square = float(left @ b**2), float(c @ c)
        moved = np.array([(left * b)[k:] @ slope[: n_steps - k] for k in range(1, n_bands)])
        return math.log(error * square), 2 * tail / square - 2 * moved / error

    start = root_coefficients(n_bands, momentum=momentum)[1:]
    tail = minimize(log_product, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (n_bands - 1)).x
    return np.round(np.r_[1.0, tail] * 2**20) / 2**20


def cyclic_sensitivity(column: Callable[[int], FloatArray], n_steps: int, separation: int) -> float:
    """Return by how much C X moves (Frobenius norm) when one unit's gradients of norm 1 come or go.

    The unit takes part in every ``separation``-th step at most, from any first step on; see the top of the module.
    """
    worst = 0.0
    for first in range(min(separation, n_steps)):
        total = np.zeros(n_steps)
        for t in range(first, n_steps, separation):
            entries = np.abs(column(t))
            total[t : t + len(entries)] += entries
        worst = largest_of(worst, float(total @ total))
    return math.sqrt(worst)


@dataclass(frozen=True, eq=False)
class Toeplitz:
    """C = T D^-1: T lower triangular Toeplitz, D diagonal and such that no column of C is longer than 1.

    A single participation then moves C X by at most 1, as in DP-SGD, and noise multipliers of the two mean the same.

    Attributes
    ----------
    column : float64 array of shape (n_bands,)
        T's first column, as far as it is not zero. Where the inverse is banded, all ``n_steps``.
    lengths : float64 array of shape (n_steps,)
        D's diagonal.
    """

    column: FloatArray
    lengths: FloatArray

    @classmethod
    def of(cls, column: npt.ArrayLike, *, n_steps: int, equal_columns: bool) -> Toeplitz:
        """Return C from T's first column.

        Shapes: ``column`` (n_bands,).
        """
        entries = np.array(column, dtype=np.float64)[:n_steps]
        squares = np.cumsum(entries**2)
        rows_left = np.minimum(np.arange(n_steps, 0, -1), len(entries))
        lengths = np.sqrt(squares[rows_left - 1] if equal_columns else np.full(n_steps, squares[-1]))
        for array in (entries, lengths):
            array.setflags(write=False)
        return cls(entries, lengths)

    @property
    def n_steps(self) -> int:
        """Rows and columns."""
        return len(self.lengths)

    def sensitivity(self, separation: int) -> float:
        """Return what one unit moves that takes part in every ``separation``-th step (:func:`cyclic_sensitivity`)."""

        def column(t: int) -> FloatArray:
            return np.asarray(self.column[: self.n_steps - t] / self.lengths[t])

        return cyclic_sensitivity(column, self.n_steps, separation)

    def dense(self) -> FloatArray:
        """Return C itself, shape (n_steps, n_steps)."""
        spare = np.zeros(self.n_steps)
        whole = np.r_[self.column, spare[len(self.column) :]]
        return np.asarray(toeplitz(whole, spare) / self.lengths)

    def rmse(self, momentum: float = 0.0) -> float:
        """Return sqrt(|A C^-1|^2 / n_steps): the error of a coordinate of an iterate, for a noise multiplier of one.

        A adds up the gradients (:func:`root_coefficients`). Times the sensitivity and over the mu of the budget this
        is the error that has to be lived with.
        """
        inverse, recursion = inverse_coefficients(self.column, self.n_steps), [1.0, -(1 + momentum), momentum]
        # The columns of A C^-1 = A D T^-1, from the diagonal on.
        starts = (self.lengths[t:] * inverse[: self.n_steps - t] for t in range(self.n_steps))
        columns = (lfilter([1.0], recursion, start) for start in starts)
        return math.sqrt(sum(float(e @ e) for e in columns) / self.n_steps)


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
        """Return the cycle of a run; ``separation=None`` is the longest that gives the expected batch size."""
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
        cost = self.cost(shape)
        found = gdp_to_epsilon(cost.mu(noise_multiplier, adjacency), delta)
        if not cost.amplified:
            return found
        by_coins = dpsgd_epsilon(
            noise_multiplier / _MARGIN,
            delta=delta,
            sample_rate=cost.cycle.rate,
            n_steps=cost.cycle.rounds,
            adjacency=adjacency,
            interval=interval,
        )
        return least_of(found, by_coins)

    def charge(self, noise_multiplier: float, shape: Shape) -> Charge:
        """Return the cost under replace-one."""
        cost = self.cost(shape)
        gauss = Charge.gaussian(sensitivity=2.0 * cost.sensitivity * _MARGIN, sigma=noise_multiplier)
        if not cost.amplified:
            return gauss
        found = from_dp_event(poisson_event(noise_multiplier, cost.cycle.rate, cost.cycle.rounds))
        return Charge(
            gauss.mu_squared, tuple(map(least_of, found.rdp, gauss.rdp_at(found.orders))), orders=found.orders
        )

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the units of each step, sorted; steps may be empty."""
        yield from Cycle.of(shape, self.separation).batches(n_units, source)

    def words(self, shape: Shape) -> str:
        """Return how steps are drawn and noised."""
        return f"{Cycle.of(shape, self.separation).words()}, noise correlated by {self._matrix(shape)}"

    def theorem(self, shape: Shape, adjacency: str) -> str:
        """Return what the accounting rests on."""
        if self.cost(shape).amplified:
            return (
                f"{adjacency}: turns of a {{unit}} share no row of the banded matrix, and cost a step of DP-SGD each "
                "(Choquette-Choo et al. 2023); dominating pairs compose adaptively (Zhu, Dong, Wang 2022), rounded "
                "towards a larger epsilon"
            )
        return (
            f"{adjacency}: one Gaussian of the sensitivity of all turns of a {{unit}}, however gradients depend on "
            "earlier steps (Denisov et al. 2022, Theorem 2.1), converted exactly (Balle, Wang 2018); no amplification"
        )

    def sampling(self) -> str:
        """Return the statement's assumption about sampling."""
        return "each {unit} drew its group by itself, and groups took turns, as the accounting says"

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how to compute the epsilon again."""
        cost, adjacency, delta = self.cost(shape), guarantee.adjacency, guarantee.delta
        away, cycle = "2" if adjacency == "replace-one" else "1", cost.cycle
        gauss = (
            f"mu = {away} {cost.sensitivity!r} / {noise_multiplier!r}, the largest norm of a sum of columns r, "
            f"r + {cycle.separation}, ... of {self._matrix(shape)}, then epsilon at delta {delta!r} (Balle, Wang 2018)"
        )
        if not cost.amplified:
            return gauss
        by_coins = recomputed_poisson(noise_multiplier, cycle.rate, cycle.rounds, adjacency, delta, interval)
        return f"{by_coins}. Or {gauss}, where that says less"

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return the mu that epsilon is computed from, None where coins say less than it does."""
        cost = self.cost(shape)
        return None if cost.amplified else cost.mu(noise_multiplier, adjacency)


FACTORISATIONS = ("optimised", "square-root", "inverse-square-root")


@dataclass(frozen=True)
class BandedFTRL(_CyclicFTRL):
    """DP-FTRL: each step's noise partly cancels that of the steps before; units take part at most every few steps.

    Parameters
    ----------
    n_bands : int
        Over how many steps noise is correlated (by a banded Toeplitz matrix); 1 is independent noise. Memory: ``n_bands
        - 1`` float64 for each parameter.
    separation : int or None
        A unit may take part in one step of every ``separation`` steps (its turns); None: one turn per epoch. With
        fewer, units toss coins at their turns, which amplifies privacy where ``n_bands <= separation`` (``BandedFTRL(1,
        separation=1)`` is DP-SGD). :func:`choose_bands` finds the best.
    factorisation : {"optimised", "square-root", "inverse-square-root"}
        The bands: optimised in milliseconds (``n_bands <= separation`` only); the square root of prefix sums, cut off;
        or such that the *inverse* has bands, cut off its square root, which is better than the former with fewer bands
        than half the separation, and never amplified. At 512 steps and 8 turns, 64, 32 and 8 bands leave errors of
        9.30, 10.86, 17.39; 9.62, 11.64, 19.26; 10.33, 9.98, 13.77; independent noise 45.3.
    momentum : float
        The optimiser's momentum, for which the bands are optimised; privacy does not depend on it.

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
        >>> C = BandedFTRL(32, factorisation="inverse-square-root").strategy(
        ...     Shape(6400, 1 / 64, 512, 100)
        ... )
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
    """DP-FTRL with tree noise: noise correlated by binary trees (Honaker 2015, full); no amplification by sampling.

    It keeps log2 of the steps numbers for each parameter. :class:`BandedFTRL` is better wherever its memory can be
    afforded. New trees begin after ``restart`` steps (None: never; ``"epoch"`` of the papers is the separation);
    ``separation`` as there.

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
    """Return the :class:`BandedFTRL` mechanism whose noise disturbs training least at a budget.

    Separations of 1, 2, 4, ... and the longest are tried, each with as many optimised bands: from independent noise,
    whose coins amplify most (DP-SGD, but for groups of one), to noise that cancels best (Choquette-Choo, Ganesh et al.
    2023). A function of public numbers alone, so it costs nothing. Little privacy to lose (small epsilon, large
    batches, many epochs) leaves it at DP-SGD, few epochs at a large epsilon lead away from it. ``momentum`` is the
    optimiser's; memory is one number less than ``most_bands`` for each parameter.

    Examples
    --------
    >>> shape = Shape(400, 0.25, 8, 100)
    >>> [
    ...     choose_bands(Budget(epsilon, 1e-5), shape, adjacency="zero-out").n_bands
    ...     for epsilon in (1.0, 10.0)
    ... ]
    [1, 4]
    """
    check_int("most_bands", most_bands, low=1)
    longest = Cycle.of(shape).separation
    separations = sorted({min(2**i, longest) for i in range(longest.bit_length() + 1)})
    found = [BandedFTRL(min(n_steps, most_bands), separation=n_steps, momentum=momentum) for n_steps in separations]
    errors = [banded_error(mechanism, budget, shape, adjacency) for mechanism in found]
    return found[errors.index(least_of(*errors))]


def banded_error(mechanism: BandedFTRL, budget: Budget, shape: Shape, adjacency: str = "replace-one") -> float:
    """Return the root mean squared error that noise leaves in the iterates at a budget, in units of the clipping norm.

    Per coordinate, exact to about 0.1 %, and for sums of clipped gradients, before they are divided by the expected
    batch size and multiplied by the learning rate.

    Examples
    --------
    Eight turns, 512 steps: mu from the budget, 2 sqrt(8) / mu the noise, and 3.29 of it is left.

    >>> from pate.privacy.convert import gdp_from_budget
    >>> error = banded_error(
    ...     BandedFTRL(64), Budget(1.0, 1e-5), Shape(6400, 1 / 64, 512, 100)
    ... )
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
