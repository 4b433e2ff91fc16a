"""DP-SGD as Abadi et al. (2016) defined it: Poisson samples, independent noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import dp_accounting
import numpy as np
import numpy.typing as npt
import torch

from pate.dpsgd._calibration import ADJACENCIES, dpsgd_epsilon, recomputed, recomputed_mu, unsampled_mu
from pate.dpsgd.mechanisms._mechanism import Shape, gaussian
from pate.noise.source import NoiseSource
from pate.privacy.compose.dpsgd_accountants import from_dp_event
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee

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
        step = dp_accounting.PoissonSampledDpEvent(shape.sample_rate, dp_accounting.GaussianDpEvent(noise_multiplier))
        found = from_dp_event(dp_accounting.SelfComposedDpEvent(step, shape.n_steps))
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
        return (
            f"dp_accounting: PLDAccountant({ADJACENCIES[guarantee.adjacency].name}, {interval:g}) composing "
            f"{shape.n_steps} times PoissonSampledDpEvent({shape.sample_rate!r}, GaussianDpEvent("
            f"{noise_multiplier!r})), {recomputed(shape.n_steps, guarantee.delta, interval)}"
        )

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return mu where every unit is in every step."""
        return unsampled_mu(noise_multiplier, shape.n_steps, adjacency) if shape.sample_rate == 1 else None
