"""Noise in shares: each of several sites adds its part, and only the parts of honest sites are counted.

Proofs are in docs/federation-noise.md, by the numbers that are named here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pate._core.checks import check_choice, check_int
from pate._core.recorder import note, resolve
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms._base import Noisy
from pate.privacy.cost import Charge
from pate.privacy.noise.integers import discrete_gaussian
from pate.privacy.noise.source import NoiseSource

#: Who looks: t parties that put together all they have, the coordinator alone, and whoever sees only what is published.
VIEWERS = ("coalition", "coordinator", "outsider")
#: Standard deviation of the honest shares together, in steps of their lattice, at least.
LEAST_STEPS = 1 << 16
#: With at most this probability a number on that lattice is no rounded Gaussian one: theorem 2.
DELTA_OF_CELL = 2.0**-70
#: Of a share of integer noise, in votes: below it the sum of shares is no discrete Gaussian any more (theorem 3).
LEAST_SHARE = 2.0
#: Steps a vote, of labels.
MOST_STEPS = 1 << 14
#: A sum is beyond so many standard deviations of all shares with probability below 1e-340.
_TAIL = 40
_MOST_SITES, _MOST_CELLS = 1000, 1 << 40


class _Shared(Noisy):
    """What all noise in shares has: so many sites, of which all but ``tolerate`` are honest."""

    n_sites: int
    tolerate: int
    max_sites_per_person: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("n_sites", self.n_sites, low=1, high=_MOST_SITES)
        check_int("tolerate", self.tolerate, low=0)
        if self.tolerate >= self.n_sites:
            raise InvalidInputError(
                f"tolerate must be below the number of sites ({self.n_sites}), got {self.tolerate}: somebody's noise "
                "must be unknown. Tolerate fewer, or ask more sites."
            )
        check_int("max_sites_per_person", self.max_sites_per_person, low=1, high=self.n_sites)

    @property
    def n_honest(self) -> int:
        """Sites whose noise counts: all but ``tolerate``."""
        return self.n_sites - self.tolerate

    def unknown_to(self, viewer: str) -> int:
        """Return of how many sites the noise is unknown to this viewer.

        A coordinator may be a site itself, and then knows its own share.
        """
        known = {"coalition": self.tolerate, "coordinator": min(1, self.tolerate), "outsider": 0}
        return self.n_sites - known[check_choice("viewer", viewer, VIEWERS)]

    def charge(self, n_cells: int) -> Charge:
        """Return what it costs where ``tolerate`` parties put together all they have: the price, and the headline.

        Parameters
        ----------
        n_cells : int
            So many numbers are opened, or compared.
        """
        return self.charge_of("coalition", n_cells)

    def charge_of(self, viewer: str, n_cells: int) -> Charge:
        """Return what this viewer learns at most: "coalition", "coordinator" or "outsider"."""
        raise NotImplementedError

    def lattice(self, delta_squared: int) -> int:
        """Return L: sums and noise are whole multiples of 1/L."""
        raise NotImplementedError

    def _variance(self, delta_squared: int) -> Fraction:
        """Return what the honest shares together have in variance, exactly, in square whole numbers."""
        raise NotImplementedError

    def share_scale(self, delta_squared: int) -> float:
        """Return the standard deviation of one site's noise, in whole numbers.

        The least float for which the honest shares have the variance that is paid for, and what theorem 2 adds to it
        in square steps: 1/12, and 1/100 of its inverse.
        """
        lattice = self.lattice(delta_squared)
        paid = self._variance(delta_squared) * lattice**2
        wanted = (paid + Fraction(1, 12) + 1 / (100 * paid)) / self.n_honest
        steps = math.sqrt(wanted) * (1 - 2.0**-50)
        while Fraction(steps) ** 2 < wanted:
            steps = math.nextafter(steps, math.inf)
        return steps / lattice

    def total_scale(self, delta_squared: int) -> float:
        """Return the standard deviation of all sites' noise together: what a reader of the opened sum has to expect."""
        return self.share_scale(delta_squared) * math.sqrt(self.n_sites)

    def bound(self, delta_squared: int, largest_sum: int) -> int:
        """Return what the opened sum, in steps of the lattice, is never beyond: the field must hold it.

        Parameters
        ----------
        delta_squared : int
        largest_sum : int
            Of all sites, without noise, in absolute value.
        """
        lattice = self.lattice(delta_squared)
        noise = Fraction(self.total_scale(delta_squared)) * lattice * _TAIL
        return lattice * check_int("largest_sum", largest_sum, low=0) + math.ceil(noise) + 1

    def sample(self, sums: IntArray, delta_squared: int, noise: NoiseSource) -> list[int]:
        """Return this site's sums plus its share of the noise, in steps of the lattice, row by row.

        What is returned may go into a secure sum over the sites, and nowhere else: one share alone is little noise.

        Parameters
        ----------
        sums : int64 array
            Exact.
        delta_squared : int
            One unit moves them by no more than its square root (L2).
        noise : NoiseSource
        """
        if not isinstance(sums, np.ndarray) or sums.dtype != np.int64:
            raise InvalidInputError("sums must be an int64 array.")
        note("sum", mechanism=self, values=sums, delta_squared=delta_squared)
        lattice = self.lattice(delta_squared)
        drawn = discrete_gaussian(self.share_scale(delta_squared) * lattice, sums.size, noise)
        masked = [lattice * one + more for one, more in zip(sums.ravel().tolist(), drawn.tolist(), strict=True)]
        return list(resolve(type(self).__name__, masked))


@dataclass(frozen=True)
class SharedGaussian(_Shared):
    """Gaussian noise on a sum over institutions (sites): each site adds its own share before the sum is revealed.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of what the *honest* sites add together, over Delta, the most that one unit at one site can
        move the sum (L2).
    n_sites : int
    tolerate : int
        t: so many parties may put together all that they have, the coordinator and an asking site among them. Their
        shares do not count. 0 is for experiments: nobody is then protected from the coordinator.
    max_sites_per_person : int
        A person may have records at so many sites: one unit then moves the sum so many times as far.

    Guarantees
    ----------
    A share is discrete Gaussian (:func:`pate.privacy.noise.integers.discrete_gaussian`, exact) on a lattice so fine
    that the honest ones together have a standard deviation of 2^16 steps at least. Whoever has the opened sums and all
    of t parties' inputs and shares has the sums plus k - t shares. With probability 1 - 2^-70 a number, whatever the
    data, these are post-processed Gaussian noise of noise_multiplier Delta (docs/federation-noise.md, theorems 1 and
    2): 1/noise_multiplier-GDP (Dong, Roth, Su 2022, Theorem 2.7) but for ``delta0`` = n_cells 2^-70. mu^2 and delta0
    add up over rounds, adaptively chosen ones too. Nothing that looks at the data costs less, and whatever is computed
    from opened sums is free.

    Raises
    ------
    InvalidInputError
        A parameter out of its range.

    Examples
    --------
    >>> shared = SharedGaussian(noise_multiplier=4.0, n_sites=10, tolerate=3)
    >>> shared.charge(100).mu_squared, shared.charge_of("outsider", 100).mu_squared < 0.05
    (0.0625, True)
    >>> round(shared.total_scale(100) / 40, 3)  # the price of trust: sqrt(10/7)
    1.195
    """

    noise_multiplier: float
    n_sites: int
    tolerate: int
    max_sites_per_person: int = 1
    family: ClassVar[str] = "shared-gaussian-sum"

    noise_fields: ClassVar[tuple[str, ...]] = ("noise_multiplier",)
    _most: ClassVar[float] = 1e6
    _unit: ClassVar[str] = "It is the honest sites' noise over the most that one unit can move the sum."

    def charge_of(self, viewer: str, n_cells: int) -> Charge:
        """Return what this viewer learns at most from one round: "coalition", "coordinator" or "outsider".

        Parameters
        ----------
        viewer : str
        n_cells : int
            So many numbers are opened; of several rounds each may be given its own, or one of them all.
        """
        more = self.unknown_to(viewer) / self.n_honest
        # Rounded down by more than the root and the product err; the coalition's is as it is.
        sigma = self.noise_multiplier * (1.0 if more == 1 else math.sqrt(more) * (1 - 2.0**-50))
        cells = check_int("n_cells", n_cells, low=0, high=_MOST_CELLS)
        charge = Charge.gaussian(sensitivity=float(self.max_sites_per_person), sigma=sigma)
        return replace(charge, delta0=cells * DELTA_OF_CELL)

    def charge_of_institution(self, n_units: int, n_cells: int) -> Charge:
        """Return what one round would cost if all ``n_units`` of one site were replaced: for the statement."""
        whole = replace(self, max_sites_per_person=1).charge(n_cells)
        far = Charge.gaussian(sensitivity=float(check_int("n_units", n_units, low=1)), sigma=self.noise_multiplier)
        return replace(far, delta0=whole.delta0)

    def lattice(self, delta_squared: int) -> int:
        """Return L, the least power of two at which the honest shares together have 2^16 steps."""
        variance, lattice = self._variance(delta_squared), 1
        while variance * lattice**2 < LEAST_STEPS**2:
            lattice *= 2
        return lattice

    def _variance(self, delta_squared: int) -> Fraction:
        return Fraction(self.noise_multiplier) ** 2 * check_int("delta_squared", delta_squared, low=1)

    def opened(self, total: Sequence[int], shape: tuple[int, ...], delta_squared: int) -> FloatArray:
        """Return an opened sum in whole numbers, float64 of this shape.

        Parameters
        ----------
        total : sequence of int
            In steps of the lattice, row by row.
        shape : tuple of int
        delta_squared : int
            As the shares were made for.
        """
        lattice = self.lattice(delta_squared)
        if len(total) != math.prod(shape):
            raise InvalidInputError(f"the opened sum must have {math.prod(shape)} numbers, got {len(total)}.")
        return np.array([int(one) / lattice for one in total], dtype=np.float64).reshape(shape)


@dataclass(frozen=True)
class SharedGNMax(_Shared):
    """Whole-number noise on vote counts over institutions (sites), of which only the winning class is revealed.

    Parameters
    ----------
    sigma : float
        Standard deviation, in votes, of what the *honest* sites add to every count together.
    n_sites, tolerate, max_sites_per_person : int
        See :class:`SharedGaussian`; a person at several sites moves a vote at each.
    n_classes : int
    comparison_bits : int
        A secure comparison reveals more than its result with probability at most 2^-comparison_bits, whatever the votes
        (:class:`pate.federation.Trust`).
    steps_per_vote : int
        Noise is a whole multiple of one over this power of two. 1: whole votes, whose comparison has the fewest bits.

    Guarantees
    ----------
    A share is discrete Gaussian, of a standard deviation of 2 votes at least. What is opened is computed from the votes
    plus the shares that a viewer does not know. Of whole votes their Renyi divergence is that of a Gaussian but for
    tau (2a - 1)/(a - 1) a count that moved, tau below 1e-16 (Canonne, Kamath, Steinke 2020, Proposition 5; Kairouz,
    Liu, Steinke 2021; docs/federation-noise.md, theorem 3); mu is not known then: pay from a ledger that counts Renyi
    divergence. Of finer steps it is sqrt(2)/sigma-GDP a query but for a probability of 1/(128 sigma^4), sigma in steps,
    a count that moved (theorem 2). Two counts a query move. These are public curves: neither ``rho_star`` nor anything
    that depends on the votes holds for a coalition, whose own shares move the histogram that it faces.

    Raises
    ------
    InvalidInputError
        A parameter out of its range, or a share below 2 votes.

    Examples
    --------
    >>> labels = SharedGNMax(sigma=40.0, n_sites=10, tolerate=3, n_classes=10)
    >>> print(labels.charge(3000).guarantee(1e-5))
    (2.71411, 1e-05)-DP, public, by rdp (order 8), adjacency replace-one, both directions, adaptive
    >>> finer = replace(labels, steps_per_vote=32)
    >>> print(finer.charge(3000).guarantee(1e-5))
    (2.50175, 1e-05)-DP, public, by gdp, adjacency replace-one, both directions, adaptive
    """

    sigma: float
    n_sites: int
    tolerate: int
    n_classes: int
    max_sites_per_person: int = 1
    comparison_bits: int = 60
    steps_per_vote: int = 1
    family: ClassVar[str] = "shared-gnmax"

    _most: ClassVar[float] = 1e9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("n_classes", self.n_classes, low=2)
        check_int("comparison_bits", self.comparison_bits, low=1, high=1000)
        # So that a share of the most noise that is allowed is no larger than the sampler draws.
        steps = check_int("steps_per_vote", self.steps_per_vote, low=1, high=MOST_STEPS)
        if steps & (steps - 1):
            raise InvalidInputError(f"steps_per_vote must be a power of two, got {steps}. Use 1 for whole votes.")
        if self.sigma < LEAST_SHARE * math.sqrt(self.n_honest):
            raise InvalidInputError(
                f"sigma must be >= {LEAST_SHARE * math.sqrt(self.n_honest):.4g} votes for {self.n_honest} honest "
                f"sites, got {self.sigma:g}: a site's share must have a standard deviation of {LEAST_SHARE:g} votes. "
                "Use more noise, or open noisy counts."
            )

    @property
    def noise_multiplier(self) -> float:
        """The honest sites' noise over how far one vote moves the counts of a query."""
        return self.sigma / math.sqrt(2)

    def charge_of(self, viewer: str, n_cells: int) -> Charge:
        """Return what this viewer learns at most: "coalition", "coordinator" or "outsider".

        Parameters
        ----------
        viewer : str
        n_cells : int
            Counts that are compared: n_classes for every query.
        """
        unknown = self.unknown_to(viewer)
        return self._charge(unknown, self.max_sites_per_person, n_cells, compared=viewer != "outsider")

    def charge_of_institution(self, n_units: int, n_cells: int) -> Charge:
        """Return what it would cost if all ``n_units`` teachers of one site voted otherwise: for the statement."""
        return self._charge(self.n_honest, check_int("n_units", n_units, low=1), n_cells)

    def _charge(self, unknown: int, n_votes: int, n_cells: int, *, compared: bool = True) -> Charge:
        cells = check_int("n_cells", n_cells, low=0, high=_MOST_CELLS)
        n_queries, moved = -(-cells // self.n_classes), min(2 * n_votes, self.n_classes)
        let_out = math.ldexp(cells, -self.comparison_bits) if compared else 0.0
        # n_votes votes move two counts by n_votes each in L2, or up to 2 n_votes counts by one.
        far, sigma = math.sqrt(2) * n_votes, self.sigma * math.sqrt(unknown / self.n_honest) * (1 - 2.0**-50)
        one = Charge.gaussian(sensitivity=far * (1 + 2.0**-50), sigma=sigma)
        if self.steps_per_vote > 1:
            failing = moved * _failing(self.sigma * self.steps_per_vote)
            return replace(one * n_queries, delta0=(n_queries * failing + let_out) * (1 + 2.0**-50))
        off = moved * _tau(self.share_scale(2), unknown)
        curve = (n_queries * (d + off * (2 * a - 1) / (a - 1)) for a, d in zip(one.orders, one.rdp, strict=True))
        return Charge(math.inf, tuple(curve), delta0=let_out)

    def lattice(self, delta_squared: int) -> int:
        """Return ``steps_per_vote``: the cost of comparing grows with its bits."""
        if delta_squared != 2:
            raise InvalidInputError(
                "delta_squared must be 2: labels are of one vote a teacher, which moves two counts."
            )
        return self.steps_per_vote

    def _variance(self, delta_squared: int) -> Fraction:
        return Fraction(self.sigma) ** 2


def _failing(steps: float) -> float:
    """Return with which probability noise of so many steps (standard deviation) is no rounded Gaussian: theorem 2."""
    return 1 / (128 * steps**4)


def _tau(share: float, n: int) -> float:
    """Return by how much log P of a sum of n discrete Gaussians is off one of their variance: Kairouz et al. 2021."""
    return 10 * math.fsum(math.exp(-2 * (math.pi * share) ** 2 * j / (j + 1)) for j in range(1, n))


def rounds_charge(mechanisms: Sequence[Any], n_cells: int, viewer: str = "coalition") -> Charge:
    """Return what all rounds cost a viewer, in which ``n_cells`` numbers are opened (or compared) together.

    Examples
    --------
    >>> rounds = [SharedGaussian(4.0, n_sites=5, tolerate=2)] * 2
    >>> cost = rounds_charge(rounds, 64)
    >>> cost.mu_squared, cost.delta0 == 2.0**-64
    (0.125, True)
    """
    return _total(mechanisms, n_cells, lambda one, cells: one.charge_of(viewer, cells))


def institution_charge(mechanisms: Sequence[Any], n_cells: int, most_units: int) -> Charge:
    """Return what it would cost if all units of one whole site were replaced.

    Examples
    --------
    >>> one_vote_each = [SharedGaussian(3.0 / 2**0.5, n_sites=10, tolerate=0)] * 50
    >>> round(institution_charge(one_vote_each, 500, 1).guarantee(1e-5).epsilon)
    19
    """
    return _total(mechanisms, n_cells, lambda one, cells: one.charge_of_institution(most_units, cells))


def _total(mechanisms: Sequence[Any], n_cells: int, price: Callable[[Any, int], Charge]) -> Charge:
    """Return what all rounds cost: all numbers count in the first one; equal rounds are priced once."""
    first, *others = mechanisms
    return Charge.total([(price(first, n_cells), 1), *((price(one, 0), n) for one, n in Counter(others).items())])
