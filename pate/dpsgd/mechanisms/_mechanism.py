"""What a training mechanism is: which units a step takes, which noise goes in, and what that costs, in one object.

Sampling, noise and account stand together so that they cannot part: whoever changes what is drawn changes, in the same
class, what is paid for it. The loop (:mod:`pate.dpsgd._run`) knows neither; it takes a batch, asks an engine for
the sum of the clipped gradients, adds ``noise_multiplier * C`` times a draw, and divides by the expected batch size.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from pate.dpsgd._calibration import dpsgd_epsilon, poisson_event, recomputed_mu, recomputed_poisson, unsampled_mu
from pate.noise.source import NoiseSource
from pate.privacy.compose.dpsgd_accountants import from_dp_event
from pate.privacy.cost import Charge
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
    """The public numbers of one run, whatever its mechanism.

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
    """Settings alone, frozen: what comes out of them follows from these, a :class:`Shape` and a source of noise.

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
        """Refuse a run for which no theorem is known.

        Raises
        ------
        InvalidInputError
        """

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

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
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
        """Return how anybody can compute the epsilon again."""

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


@dataclass(frozen=True)
class PoissonSGD:
    """Each unit enters each step independently with the same probability; every step has noise of its own.

    Examples
    --------
    >>> mechanism = PoissonSGD()
    >>> mechanism.words(Shape(100, 0.1, 10, 10))
    'Poisson sampling at rate 0.1'
    >>> mechanism.mu(10.0, Shape(100, 1.0, 25, 100), "replace-one") - 1.0 < 1e-9
    True
    """

    name = "DP-SGD"
    prefixes = True

    def check(self, shape: Shape, adjacency: str) -> None:
        """Every shape has a theorem, under any adjacency."""

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
        privacy sampling buys nothing: whether a unit is in a step is independent of the unit, so it may be told to the
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

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the units of each step, sorted; empty samples too. Rates are rounded down to a multiple of 2^-64."""
        below = int(shape.sample_rate * 2.0**64)
        for _ in range(shape.n_steps):
            if below >= 2**64:
                yield np.arange(n_units)
            else:
                yield np.flatnonzero(source.words(n_units) < np.uint64(below))

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield independent standard normals, one tensor for each step."""
        for _ in range(shape.n_steps):
            yield gaussian(source, size)

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
        """Return how anybody can compute the epsilon again."""
        if shape.sample_rate == 1:
            return recomputed_mu(noise_multiplier, shape.n_steps, guarantee.adjacency, guarantee.delta)
        return recomputed_poisson(
            noise_multiplier, shape.sample_rate, shape.n_steps, guarantee.adjacency, guarantee.delta, interval
        )

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return mu where every unit is in every step."""
        return unsampled_mu(noise_multiplier, shape.n_steps, adjacency) if shape.sample_rate == 1 else None
