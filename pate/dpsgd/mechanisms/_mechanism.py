"""What a training mechanism is: which units a step takes, which noise goes in, and what that costs, in one object.

Sampling, noise and account stand together so that they cannot part: a change of what is drawn changes, in the same
class, what is paid for it. The loop (:mod:`pate.dpsgd._run`) knows neither; it takes a batch, asks an engine for
the sum of the clipped gradients, adds ``noise_multiplier * C`` times a draw, and divides by the expected batch size.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import dp_accounting
import numpy as np
import torch

from pate._core.checks import check_int, least_of
from pate._core.types import IntArray
from pate.dpsgd._calibration import (
    SMALLEST_NOISE_MULTIPLIER,
    dpsgd_epsilon,
    poisson_event,
    recomputed,
    recomputed_mu,
    recomputed_poisson,
    unsampled_mu,
)
from pate.exceptions import InvalidInputError
from pate.privacy.compose.dpsgd_accountants import from_dp_event, pair_rdp
from pate.privacy.convert import DEFAULT_ORDERS, gdp_to_epsilon, rdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.losses import Losses, SampledGaussianPair, needs_tilt
from pate.privacy.noise.source import NoiseSource
from pate.privacy.words import Guarantee

# Gaussian noise for sums of gradients: many numbers, in floating point.

#: Pairs that are made at once: what fits in a processor's cache.
_PAIRS = 32_768
#: The bits of 1.0.
_ONE = np.uint64(0x3FF << 52)


def gaussian(source: NoiseSource, size: int) -> torch.Tensor:
    """Return independent standard normals, float64 of shape (size,): Box and Muller 1958.

    A radius comes from (k + 1) 2^-64 for a 64-bit word k, hence normals reach 9.4 standard deviations, and its total
    variation distance from the exact law is about 2^-63; an angle is one of 2^52 on the circle, all equally likely, as
    fine as float64 tells angles apart.
    """
    n_pairs = (size + 1) // 2
    out = torch.empty(2 * n_pairs, dtype=torch.float64)
    for start in range(0, n_pairs, _PAIRS):
        n = min(_PAIRS, n_pairs - start)
        words = source.words(2 * n)
        radius = torch.from_numpy(words[:n].astype(np.float64)).add_(1.0).mul_(2.0**-64).log_().mul_(-2.0).sqrt_()
        # 52 bits behind the one of a float64 in [1, 2): faster than to convert them.
        turn = ((words[n:] >> np.uint64(12)) | _ONE).view(np.float64)
        angle = torch.from_numpy(turn).sub_(1.0).mul_(2 * math.pi)
        torch.mul(angle.cos(), radius, out=out[2 * start : 2 * start + n])
        torch.mul(angle.sin(), radius, out=out[2 * start + n : 2 * (start + n)])
    return out[:size]


@dataclass(frozen=True)
class Shape:
    """The public numbers of one training run: units, steps, batch size.

    Attributes
    ----------
    n_units : int
        Records or persons: the true number where that is public, a nominal one under add-or-remove.
    sample_rate : float
        Expected batch size over ``n_units``, in (0, 1].
    n_steps : int
    expected_batch_size : int
        What every noisy sum is divided by.

    Examples
    --------
    >>> Shape(1000, 0.25, 80, 250).epochs
    20.0
    """

    n_units: int
    sample_rate: float
    n_steps: int
    expected_batch_size: int

    @property
    def epochs(self) -> float:
        """How often each unit is expected to take part."""
        return self.n_steps * self.sample_rate


class TrainingMechanism(Hashable, Protocol):
    """Base class of training mechanisms: how units are sampled, which noise is added, and what a run costs.

    Examples
    --------
    >>> from pate.dpsgd.mechanisms import PoissonSGD
    >>> mechanism: TrainingMechanism = PoissonSGD()
    >>> [len(batch) for batch in mechanism.batches(Shape(5, 1.0, 2, 5), 5, NoiseSource())]
    [5, 5]
    """

    @property
    def name(self) -> str:
        """What it is called, in one or two words."""

    @property
    def prefixes(self) -> bool:
        """Whether the first k steps of a run cost what a run of k steps costs, at most."""

    def check(self, shape: Shape, adjacency: str) -> None:
        """Refuse a run for which no theorem is known."""

    def epsilon(self, noise_multiplier: float, shape: Shape, *, delta: float, adjacency: str, interval: float) -> float:
        """Return an upper bound on the epsilon of the run, never below the truth; falls as the noise grows.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise that an independent draw would add, in units of the clipping norm.
        shape : Shape
        delta : float
        adjacency : {"replace-one", "add-or-remove", "zero-out"}
        interval : float
            Grid of the privacy loss, in nats, where there is one.
        """

    def charge(self, noise_multiplier: float, shape: Shape) -> Charge:
        """Return the cost under replace-one, as a ledger or an accountant takes it."""

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[IntArray]:
        """Yield the units of each step, ``shape.n_steps`` arrays of indices below ``n_units``, the true number."""

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield each step's noise, ``shape.n_steps`` float64 tensors of shape (size,), for a multiplier of one."""

    def words(self, shape: Shape) -> str:
        """Return how steps are drawn and noised, alike in a statement and in a ledger."""

    def theorem(self, shape: Shape, adjacency: str) -> str:
        """Return what the accounting rests on."""

    def sampling(self) -> str:
        """Return the statement's assumption about how the units of a step are drawn."""

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how to compute the epsilon again."""

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return the mu for which the run is exactly mu-Gaussian differentially private, None where it is not."""


# DP-SGD as Abadi et al. (2016) defined it: Poisson samples, independent noise.

_THEOREMS = {
    "replace-one": (
        "the replaced {unit} is in or out of a step with its replacement, and their clipped gradients may be "
        "opposite; dominating pairs compose adaptively (Zhu, Dong, Wang 2022)"
    ),
    "add-or-remove": "dominating pairs of the Poisson-subsampled Gaussian (Zhu, Dong, Wang 2022)",
    "zero-out": (
        "a {unit} counts for nothing in one of two neighbours and keeps its place: the pairs of add-or-remove "
        "(Kairouz et al. 2021; Zhu, Dong, Wang 2022)"
    ),
}
_UNSAMPLED = (
    "every {unit} is in every step: exact Gaussian composition (Dong, Roth, Su 2022), converted exactly (Balle, Wang "
    "2018)"
)


class _Independent:
    """Steps whose noise is each one's own."""

    name = "DP-SGD"
    prefixes = True

    def check(self, shape: Shape, adjacency: str) -> None:
        """Every shape has a theorem, under any adjacency."""

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield ``shape.n_steps`` independent standard normal draws, float64 of shape (size,)."""
        for _ in range(shape.n_steps):
            yield gaussian(source, size)


@dataclass(frozen=True)
class PoissonSGD(_Independent):
    """DP-SGD with Poisson sampling: each unit enters each step independently, with independent noise per step.

    Examples
    --------
    >>> mechanism = PoissonSGD()
    >>> mechanism.words(Shape(100, 0.1, 10, 10))
    'Poisson sampling at rate 0.1'
    >>> mechanism.mu(10.0, Shape(100, 1.0, 25, 100), "replace-one") - 1.0 < 1e-9
    True
    """

    def epsilon(self, noise_multiplier: float, shape: Shape, *, delta: float, adjacency: str, interval: float) -> float:
        """Return an upper bound on epsilon by privacy loss distributions, exact without sampling."""
        return dpsgd_epsilon(
            noise_multiplier,
            delta=delta,
            sample_rate=shape.sample_rate,
            n_steps=shape.n_steps,
            adjacency=adjacency,
            interval=interval,
        )

    def charge(self, noise_multiplier: float, shape: Shape) -> Charge:
        """Return the cost under replace-one.

        The Renyi curve is that of the dominating pair (:func:`pate.privacy.from_dp_event`). In Gaussian differential
        privacy sampling buys nothing: whether a unit is in a step is independent of the unit, so it may be known to the
        attacker; a step is then a mixture of nothing and of a (2/sigma)-GDP release, whose trade-off function is at
        least that of (2/sigma)-GDP by convexity, and mu^2 = n_steps 4/sigma^2 adds up (Dong, Roth, Su 2022).

        Examples
        --------
        >>> cost = PoissonSGD().charge(2.0, Shape(1000, 0.01, 100, 10))
        >>> round(cost.mu_squared, 6), float(cost.rdp_at([8.0])[0]) < 0.1
        (100.0, True)
        """
        found = from_dp_event(poisson_event(noise_multiplier, shape.sample_rate, shape.n_steps))
        return replace(found, mu_squared=unsampled_mu(noise_multiplier, shape.n_steps, "replace-one") ** 2)

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[IntArray]:
        """Yield the units of each step, sorted; empty samples too. Rates are rounded down to a multiple of 2^-64."""
        below = int(shape.sample_rate * 2.0**64)
        for _ in range(shape.n_steps):
            if below >= 2**64:
                yield np.arange(n_units)
            else:
                yield np.flatnonzero(source.words(n_units) < np.uint64(below))

    def words(self, shape: Shape) -> str:
        """Return how steps are drawn."""
        return f"Poisson sampling at rate {shape.sample_rate:.6g}"

    def theorem(self, shape: Shape, adjacency: str) -> str:
        """Return what the accounting rests on."""
        if shape.sample_rate == 1:
            return f"{adjacency}: {_UNSAMPLED}"
        return f"privacy loss distributions rounded towards a larger epsilon, {adjacency}: {_THEOREMS[adjacency]}"

    def sampling(self) -> str:
        """Return the statement's assumption about sampling."""
        return "every step drew its {unit}s by Poisson sampling, as the accounting says"

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how to compute the epsilon again."""
        if shape.sample_rate == 1:
            return recomputed_mu(noise_multiplier, shape.n_steps, guarantee.adjacency, guarantee.delta)
        return recomputed_poisson(
            noise_multiplier, shape.sample_rate, shape.n_steps, guarantee.adjacency, guarantee.delta, interval
        )

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return mu where every unit is in every step."""
        return unsampled_mu(noise_multiplier, shape.n_steps, adjacency) if shape.sample_rate == 1 else None


# DP-SGD on Poisson samples that are cut at a largest size, so that memory and time of a step are bounded.


@dataclass(frozen=True)
class TruncatedPoissonSGD(_Independent):
    """DP-SGD with Poisson sampling, cut to ``max_batch_size`` units by a uniform draw if there are more. Replace-one.

    Parameters
    ----------
    max_batch_size : int
        The most units in a step. Some deviations above the expected number (a deviation is about its square root) it
        costs next to nothing; below it most steps are cut, and a cut costs up to twice the sensitivity.

    Notes
    -----
    **Guarantees.** The dominating pair is proved in :mod:`pate.privacy.losses` (Chua et al. 2024; Ganesh et al. 2025):
    a public coin says whether as many as ``max_batch_size`` others are in; if not, the step is one of Poisson
    sampling; if so, a unit that is in has taken another's place. Under add-or-remove the size of the rest of the sample
    is no longer alike for neighbours, and the number of units, which the pair takes, is not public: refused. The rate
    is accounted as it is sampled, rounded down to a multiple of 2^-64.

    The noisy sum is divided by the expected number before cutting: a constant.

    Examples
    --------
    >>> from pate.dpsgd.mechanisms import Shape
    >>> mechanism, shape = (
    ...     TruncatedPoissonSGD(max_batch_size=40),
    ...     Shape(1000, 0.032, 10, 32),
    ... )
    >>> [len(batch) <= 40 for batch in mechanism.batches(shape, 1000, NoiseSource())] == [
    ...     True
    ... ] * 10
    True
    >>> print(mechanism.words(shape))
    Poisson sampling at rate 0.032, at most 40 a step, cut at random
    """

    max_batch_size: int

    def __post_init__(self) -> None:
        check_int("max_batch_size", self.max_batch_size, low=1, remedy="Some more than the expected batch is usual.")

    def check(self, shape: Shape, adjacency: str) -> None:
        """Refuse what no theorem covers.

        Raises
        ------
        InvalidInputError
            Another adjacency than replace-one.
        """
        if adjacency != "replace-one":
            raise InvalidInputError(
                f"adjacency must be 'replace-one' with TruncatedPoissonSGD, got {adjacency!r}: its theorem takes the "
                "number of units as public. Use replace-one, or Poisson sampling without a largest batch."
            )

    def epsilon(self, noise_multiplier: float, shape: Shape, *, delta: float, adjacency: str, interval: float) -> float:
        """Return an upper bound on epsilon: the least of three counts, each of them sound.

        Dominating pairs composed by privacy loss distributions; the same pairs by Renyi divergence, where delta is
        tiny or no grid fits; and Gaussian differential privacy with all batches known to the attacker.

        Examples
        --------
        >>> shape = Shape(1000, 0.256, 80, 256)
        >>> loose, tight = TruncatedPoissonSGD(400), TruncatedPoissonSGD(260)
        >>> options = {"delta": 1e-5, "adjacency": "replace-one", "interval": 1e-3}
        >>> (
        ...     round(loose.epsilon(2.5, shape, **options), 2),
        ...     tight.epsilon(2.5, shape, **options) > 9,
        ... )
        (8.85, True)
        """
        self.check(shape, adjacency)
        by_batches = gdp_to_epsilon(unsampled_mu(noise_multiplier, shape.n_steps, adjacency), delta)
        if noise_multiplier < SMALLEST_NOISE_MULTIPLIER:
            return by_batches
        losses = self._losses(noise_multiplier, shape)
        found = losses.epsilon(delta, interval=interval)
        if needs_tilt(shape.n_steps, delta) or found == np.inf:
            curve = shape.n_steps * np.array(pair_rdp(losses.steps[0][0]))
            found = least_of(found, rdp_to_epsilon(curve, delta)[0])
        return least_of(found, by_batches)

    def charge(self, noise_multiplier: float, shape: Shape) -> Charge:
        """Return the cost under replace-one, as a ledger or an accountant takes it.

        Examples
        --------
        >>> TruncatedPoissonSGD(40).charge(2.0, Shape(1000, 0.032, 10, 32)).mu_squared
        10.0
        """
        step = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(
            shape.n_units, sampled_rate(shape.sample_rate), self.max_batch_size, noise_multiplier
        )
        return from_dp_event(dp_accounting.SelfComposedDpEvent(step, shape.n_steps))

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[IntArray]:
        """Yield ``shape.n_steps`` arrays of the units in a step, increasing, at most ``max_batch_size`` of them.

        Raises
        ------
        InvalidInputError
            The number of units is not the one that is accounted.
        """
        check_held(shape, n_units)
        for sample in PoissonSGD().batches(shape, n_units, source):
            yield uniform_subset(sample, self.max_batch_size, source)

    def words(self, shape: Shape) -> str:
        """Return how units are drawn, for a statement and a ledger."""
        return (
            f"Poisson sampling at rate {shape.sample_rate:.6g}, at most {self.max_batch_size:,} a step, cut at random"
        )

    def theorem(self, shape: Shape, adjacency: str) -> str:
        """Return what the accounting rests on."""
        return (
            f"privacy loss distributions rounded towards a larger epsilon, {adjacency}: "
            "whether a sample is cut does not depend on the replaced {unit}, which then is in or out with its "
            "replacement, in another one's place where the sample is cut (Ganesh et al. 2025); dominating pairs "
            "compose adaptively (Zhu, Dong, Wang 2022)"
        )

    def sampling(self) -> str:
        """Return the statement's assumption about sampling."""
        return (
            "every step drew its {unit}s by Poisson sampling, and where they were too many a subset of them, all "
            "equally likely, as the accounting says"
        )

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return None: what is known is an upper bound, not the exact trade-off."""
        return None

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how to compute the guarantee again."""
        read = recomputed(shape.n_steps, guarantee.delta, interval)
        if not needs_tilt(shape.n_steps, guarantee.delta):  # of the coin's own numbers too
            slack = self._losses(noise_multiplier, shape).slack
            read = f"then get_epsilon({guarantee.delta!r} - {slack:.3g}): the rest of delta pays for rounding"
        return (
            f"dp_accounting: PLDAccountant(REPLACE_ONE, {interval:g}) composing {shape.n_steps} times "
            f"TruncatedSubsampledGaussianDpEvent({shape.n_units}, {sampled_rate(shape.sample_rate)!r}, "
            f"{self.max_batch_size}, {noise_multiplier!r}), {read}. Or by Renyi divergence, or by mu = 2 "
            f"sqrt({shape.n_steps}) / {noise_multiplier!r}, where these say less"
        )

    def _losses(self, noise_multiplier: float, shape: Shape) -> Losses:
        return _losses(sampled_rate(shape.sample_rate), float(noise_multiplier), shape, self.max_batch_size)


def sampled_rate(sample_rate: float) -> float:
    """Return the rate at which units are sampled: rounded down to a multiple of 2^-64, hence a float."""
    return min(int(sample_rate * 2.0**64), 2**64) * 2.0**-64


def uniform_subset(members: IntArray, size: int, source: NoiseSource) -> IntArray:
    """Return ``size`` of the members, in their order, every subset equally likely: those of the smallest words.

    Where two words at the border are equal all are drawn again, which is as likely for every subset.

    Shapes: ``members`` (n,).
    """
    if size >= len(members):
        return members
    while True:
        words = source.words(len(members))
        chosen = words <= np.partition(words, size - 1)[size - 1]
        if int(chosen.sum()) == size:
            return members[chosen]


def check_held(shape: Shape, n_units: int) -> None:
    """Refuse to sample from another number of units than the one that is accounted (public under replace-one)."""
    if n_units != shape.n_units:
        raise InvalidInputError(
            f"n_units must be the {shape.n_units} that are accounted for, got {n_units}. Make the Shape of the units "
            "that are held."
        )


@lru_cache(maxsize=64)
def _losses(q: float, noise_multiplier: float, shape: Shape, max_batch_size: int) -> Losses:
    pair = SampledGaussianPair.truncated(q, noise_multiplier, n_units=shape.n_units, max_batch_size=max_batch_size)
    return Losses(0.0, ((pair, shape.n_steps),))


# DP-SGD on batches of a fixed size from shuffled records, charged for what is proved: no amplification.


@dataclass(frozen=True)
class ShuffledSGD(_Independent):
    """DP-SGD with shuffling: each epoch permutes the units and cuts them into batches. Its proved epsilon is large.

    For replace-one or zero-out adjacency. Much code that is called DP-SGD shuffles, but states the epsilon of Poisson
    sampling, which can be several times too small (Chua et al. 2024; Annamalai et al. 2024). Here the epsilon is the
    proved one, and more noise is needed for the same budget.

    Notes
    -----
    **Guarantees.** Permutations do not depend on the records, so the attacker may know all of them. A record is then
    in exactly one step of every whole epoch, and in at most one of the last epoch if that is cut short: releases of
    Gaussian sums that one replaced record moves by at most 2 clipping norms, ceil(n_steps / steps an epoch) of them:
    mu = 2 sqrt(epochs) / noise multiplier (Dong, Roth, Su 2022, Corollary 3.3), and half of that where a record counts
    for nothing in one of two neighbours and keeps its place (zero-out). Amplification by shuffling is
    not claimed. Under add-or-remove one record more moves all those behind it into other places: refused.

    The last batch of an epoch holds what is left, and its sum is divided by the full size like any other: a constant.

    Examples
    --------
    >>> from pate.dpsgd.mechanisms import Shape
    >>> shape = Shape(10, 0.4, 6, 4)  # two epochs of 4 + 4 + 2
    >>> batches = list(ShuffledSGD().batches(shape, 10, NoiseSource()))
    >>> (
    ...     [len(batch) for batch in batches],
    ...     sorted(np.concatenate(batches[:3]).tolist()) == list(range(10)),
    ... )
    ([4, 4, 2, 4, 4, 2], True)
    >>> print(ShuffledSGD().words(shape))
    batches of 4 from a new secret permutation every epoch (2 epochs; amplification by shuffling is not claimed)
    """

    name = "shuffled DP-SGD"

    def check(self, shape: Shape, adjacency: str) -> None:
        """Refuse what no theorem covers.

        Raises
        ------
        InvalidInputError
            Add-or-remove.
        """
        if adjacency not in ("replace-one", "zero-out"):
            raise InvalidInputError(
                f"adjacency must be 'replace-one' or 'zero-out' with ShuffledSGD, got {adjacency!r}: one record more "
                "would move others into other batches. Use one of these, or Poisson sampling."
            )

    def epsilon(self, noise_multiplier: float, shape: Shape, *, delta: float, adjacency: str, interval: float) -> float:
        """Return epsilon: exact for the composition above, rounded up; ``interval`` is not needed.

        Examples
        --------
        >>> shape = Shape(1000, 0.25, 40, 250)  # 10 epochs
        >>> round(
        ...     ShuffledSGD().epsilon(
        ...         10.0, shape, delta=1e-5, adjacency="replace-one", interval=1e-3
        ...     ),
        ...     3,
        ... )
        2.594
        """
        self.check(shape, adjacency)
        return gdp_to_epsilon(self.mu(noise_multiplier, shape, adjacency), delta)

    def charge(self, noise_multiplier: float, shape: Shape) -> Charge:
        """Return the cost under replace-one, as a ledger or an accountant takes it.

        Examples
        --------
        >>> round(ShuffledSGD().charge(10.0, Shape(1000, 0.25, 40, 250)).mu_squared, 9)
        0.4
        """
        mu_squared = unsampled_mu(noise_multiplier, _epochs(shape), "replace-one") ** 2
        return Charge(mu_squared, tuple(a * mu_squared / 2 for a in DEFAULT_ORDERS))

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[IntArray]:
        """Yield ``shape.n_steps`` arrays of the units in a step: a whole permutation before the next one begins.

        Raises
        ------
        InvalidInputError
            The number of units is not the one that is accounted.
        """
        check_held(shape, n_units)
        size, per_epoch = shape.expected_batch_size, _steps_per_epoch(shape)
        order = np.arange(n_units)
        for step in range(shape.n_steps):
            place = step % per_epoch
            if place == 0:
                order = np.argsort(source.words(n_units), kind="stable")
            yield np.sort(order[place * size : (place + 1) * size])

    def words(self, shape: Shape) -> str:
        """Return how units are drawn, for a statement and a ledger."""
        return (
            f"batches of {shape.expected_batch_size:,} from a new secret permutation every epoch "
            f"({_epochs(shape)} epochs; amplification by shuffling is not claimed)"
        )

    def theorem(self, shape: Shape, adjacency: str) -> str:
        """Return what the accounting rests on."""
        return (
            f"{adjacency}: "
            "every {unit} is in one step of an epoch, whatever the permutation: exact Gaussian composition over the "
            "epochs (Dong, Roth, Su 2022), converted exactly (Balle, Wang 2018); amplification by shuffling is not "
            "claimed"
        )

    def sampling(self) -> str:
        """Return the statement's assumption about sampling."""
        return "every step took the next {unit}s of a permutation drawn for the epoch, each {unit} once an epoch"

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float:
        """Return the mu of the run, its permutations known to the attacker."""
        return unsampled_mu(noise_multiplier, _epochs(shape), adjacency)

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how to compute the guarantee again."""
        return recomputed_mu(noise_multiplier, _epochs(shape), guarantee.adjacency, guarantee.delta)


def _steps_per_epoch(shape: Shape) -> int:
    return -(-shape.n_units // shape.expected_batch_size)


def _epochs(shape: Shape) -> int:
    """Return how many epochs are begun: the most steps that one record can be in."""
    return -(-shape.n_steps // _steps_per_epoch(shape))
