"""DP-SGD on Poisson samples that are cut at a largest size, so that memory and time of a step are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import dp_accounting
import numpy as np
import torch

from pate.core.checks import check_int, least_of
from pate.core.types import IntArray
from pate.dpsgd._calibration import SMALLEST_NOISE_MULTIPLIER, recomputed, recomputed_mu, unsampled_mu
from pate.dpsgd.mechanisms._mechanism import PoissonSGD, Shape
from pate.exceptions import InvalidInputError
from pate.noise.source import NoiseSource
from pate.privacy.compose.dpsgd_accountants import from_dp_event, pair_rdp
from pate.privacy.convert import DEFAULT_ORDERS, gdp_to_epsilon, rdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.losses import Losses, SampledGaussianPair, needs_tilt
from pate.privacy.words import Guarantee


@dataclass(frozen=True)
class TruncatedPoissonSGD:
    """Poisson samples; where more than ``max_batch_size`` are in, so many of them, drawn uniformly. Replace-one only.

    Parameters
    ----------
    max_batch_size : int
        The most units in a step. Some deviations above the expected number (a deviation is about its square root) it
        costs nothing worth mentioning; below it most steps are cut, and a cut costs up to twice the sensitivity.

    Notes
    -----
    **Guarantees.** The dominating pair is proved in :mod:`pate.privacy.losses` (Chua et al. 2024; Ganesh et al. 2025):
    a public coin says whether as many as ``max_batch_size`` others are in; if not, the step is one of Poisson
    sampling; if so, whoever is in has taken somebody's place. Under add-or-remove the size of the rest of the sample
    is no longer alike for neighbours, and the number of units, which the pair takes, is not public: refused. The rate
    is accounted as it is sampled, rounded down to a multiple of 2^-64.

    The noisy sum is divided by the expected number before cutting: a constant.

    Examples
    --------
    >>> from pate.dpsgd.mechanisms import Shape
    >>> mechanism, shape = TruncatedPoissonSGD(max_batch_size=40), Shape(1000, 0.032, 10, 32)
    >>> [len(batch) <= 40 for batch in mechanism.batches(shape, 1000, NoiseSource())] == [True] * 10
    True
    >>> print(mechanism.words(shape))
    Poisson sampling at rate 0.032, at most 40 a step, cut at random
    """

    max_batch_size: int

    name = "DP-SGD"
    prefixes = True

    def __post_init__(self) -> None:
        check_int("max_batch_size", self.max_batch_size, low=1, remedy="Some more than the expected batch is usual.")

    def check(self, shape: Shape, adjacency: str) -> None:
        """Refuse what no theorem covers.

        Raises
        ------
        InvalidInputError
            Another adjacency than replace-one.

        Examples
        --------
        >>> TruncatedPoissonSGD(8).check(Shape(100, 0.05, 10, 5), "add-or-remove")
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: adjacency must be 'replace-one' with TruncatedPoissonSGD, got ...
        """
        if adjacency != "replace-one":
            raise InvalidInputError(
                f"adjacency must be 'replace-one' with TruncatedPoissonSGD, got {adjacency!r}: its theorem takes the "
                "number of units as public. Use replace-one, or Poisson sampling without a largest batch."
            )

    def epsilon(self, noise_multiplier: float, shape: Shape, *, delta: float, adjacency: str, interval: float) -> float:
        """Return an upper bound on epsilon: the least of three counts, each of them sound.

        Dominating pairs composed by privacy loss distributions; the same pairs by Renyi divergence, where delta is
        tiny or no grid fits; and Gaussian differential privacy with all batches told to the attacker.

        Examples
        --------
        >>> shape = Shape(1000, 0.256, 80, 256)
        >>> loose, tight = TruncatedPoissonSGD(400), TruncatedPoissonSGD(260)
        >>> options = {"delta": 1e-5, "adjacency": "replace-one", "interval": 1e-3}
        >>> round(loose.epsilon(2.5, shape, **options), 2), tight.epsilon(2.5, shape, **options) > 9
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
        return from_dp_event(self._event(noise_multiplier, shape))

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

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield ``shape.n_steps`` independent standard normal draws, float64 of shape (size,)."""
        return PoissonSGD().noise(shape, size, source)

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
        """Return how anybody can compute the guarantee again."""
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

    def _event(self, noise_multiplier: float, shape: Shape) -> dp_accounting.DpEvent:
        step = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(
            shape.n_units, sampled_rate(shape.sample_rate), self.max_batch_size, noise_multiplier
        )
        return dp_accounting.SelfComposedDpEvent(step, shape.n_steps)


def sampled_rate(sample_rate: float) -> float:
    """Return the rate at which units are sampled: rounded down to a multiple of 2^-64, hence a float."""
    return min(int(sample_rate * 2.0**64), 2**64) * 2.0**-64


def uniform_subset(members: IntArray, size: int, source: NoiseSource) -> IntArray:
    """Return ``size`` of the members, in their order, every subset equally likely: those of the smallest words.

    Where two words at the border are equal all are drawn anew, which is as likely for every subset.

    Parameters
    ----------
    members : int64 array of shape (n,)
    size : int
        At least 1; all are returned where there are no more.
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
class ShuffledSGD:
    """Every epoch a new secret permutation, cut into batches of one size. Replace-one or zero-out, and dear.

    Most code that calls itself DP-SGD shuffles and quotes the epsilon of Poisson sampling, which can be several times
    too small (Chua et al. 2024; Annamalai et al. 2024). Here the epsilon is the one that is proved.

    Notes
    -----
    **Guarantees.** Permutations do not depend on the records, so the attacker may be told all of them. A record is then
    in exactly one step of every whole epoch, and in at most one of the last epoch if that is cut short: releases of
    Gaussian sums that one replaced record moves by at most 2 clipping norms, ceil(n_steps / steps an epoch) of them:
    mu = 2 sqrt(epochs) / noise multiplier (Dong, Roth, Su 2022, Corollary 3.3), and half of that where a record counts
    for nothing in one of two neighbours and keeps its place (zero-out). Amplification by shuffling is
    not claimed. Under add-or-remove one record more moves all those behind it into other places: refused.

    The last batch of an epoch holds what is left, and its sum is divided by the full size like any other: a constant.

    Examples
    --------
    >>> from pate.dpsgd.mechanisms import Shape
    >>> shape = Shape(10, 0.4, 6, 4)   # two epochs of 4 + 4 + 2
    >>> batches = list(ShuffledSGD().batches(shape, 10, NoiseSource()))
    >>> [len(batch) for batch in batches], sorted(np.concatenate(batches[:3]).tolist()) == list(range(10))
    ([4, 4, 2, 4, 4, 2], True)
    >>> print(ShuffledSGD().words(shape))
    batches of 4 from a new secret permutation every epoch (2 epochs; amplification by shuffling is not claimed)
    """

    name = "shuffled DP-SGD"
    prefixes = True

    def check(self, shape: Shape, adjacency: str) -> None:
        """Refuse what no theorem covers.

        Raises
        ------
        InvalidInputError
            Add-or-remove.

        Examples
        --------
        >>> ShuffledSGD().check(Shape(100, 0.05, 10, 5), "add-or-remove")
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: adjacency must be 'replace-one' or 'zero-out' with ShuffledSGD, got ...
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
        >>> shape = Shape(1000, 0.25, 40, 250)   # 10 epochs
        >>> round(ShuffledSGD().epsilon(10.0, shape, delta=1e-5, adjacency="replace-one", interval=1e-3), 3)
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

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield ``shape.n_steps`` independent standard normal draws, float64 of shape (size,)."""
        return PoissonSGD().noise(shape, size, source)

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
        """Return the mu of the run, its permutations told to the attacker."""
        return unsampled_mu(noise_multiplier, _epochs(shape), adjacency)

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how anybody can compute the guarantee again."""
        return recomputed_mu(noise_multiplier, _epochs(shape), guarantee.adjacency, guarantee.delta)


def _steps_per_epoch(shape: Shape) -> int:
    return -(-shape.n_units // shape.expected_batch_size)


def _epochs(shape: Shape) -> int:
    """Return how many epochs are begun: the most steps that one record can be in."""
    return -(-shape.n_steps // _steps_per_epoch(shape))
