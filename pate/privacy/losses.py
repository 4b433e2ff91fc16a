"""Dominating pairs of subsampled Gaussians under replace-one, and their composition by privacy loss distributions.

Below, N(m) is N(m, s^2) in units of the clipping norm, s the noise multiplier.

**Poisson sampling** at rate q: (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1) dominates every step of DP-SGD
(proof in :mod:`pate.dpsgd._calibration`; Zhu, Dong, Wang 2022). The same proof gives it for two contributions of norm
at most c: put N(c) and N(-c), that is, noise s/c.

**Truncated Poisson sampling**: a Poisson sample of n records at rate q, and where more than B are in, B of them, all
subsets equally likely (Chua et al. 2024; Ganesh et al. 2025, whose pair this is). Let E be the event that at least B
of the *other* n - 1 records are in the Poisson sample: it depends neither on the replaced record nor on whether that
is in. The attacker may know whether E holds, by joint quasi-convexity.

* Not E: nothing is cut, and the record is in independently of the others: the pair of Poisson sampling at rate q.
* E: the batch has B records. Given the set U of others that are in, the record is in the batch with probability
  q B / (|U| + 1), and then stands in the place of a uniformly drawn member of a uniformly drawn subset A of U with B
  records. Given E, A and that member do not depend on |U|, as all records are alike: knowing both, the attacker faces
  (1-p) N(s_A) + p N(s_A - g + x) against the same with x', p = E[q B / (|U| + 1) | E]. Both moves have norm at most 2:
  the pair of Poisson sampling at rate p with noise s/2 (a little larger than need be: x and x' are 2 apart, not 4).

So one step is a public coin of probability P(E) = P(Binomial(n - 1, q) >= B) between two such pairs, and
p = P(Binomial(n, q) > B) B / (n P(E)). Dominating pairs compose adaptively (Zhu, Dong, Wang 2022, Theorem 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pate._core.checks import check_int, check_real, largest_of, least_of
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_delta, gdp_to_epsilon

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

#: Less noise over the clipping norm than this is not accounted for: its grids would not fit, and nothing is private.
LEAST_NOISE = 0.05
#: Kinds of pairs beyond which a sum no longer keeps them (it falls back to its other accounts).
_MOST_KINDS = 32
#: Beyond it no grid is worth its memory.
_MOST_EPSILON = 500.0
#: Relative error of a binomial tail (tested against 50 digits).
_TAIL_ERROR = 1e-11
#: A branch rarer than this is paid for out of delta; its grid would hold numbers near the smallest float.
_RARE = 1e-30
#: What a binomial tail that underflows is taken for.
_RAREST = 1e-300


def discretization_interval(epsilon: float, n_steps: int) -> float:
    """Return the grid of the privacy loss: fine enough that epsilon is at most half a percent too large.

    Connect-the-dots errs towards a larger epsilon only (Doroshenko et al. 2022). Rounding a loss to one of its two
    neighbours on a grid h moves its mean and its variance by about h^2 / 8 and h^2 / 6: over all steps, the mean by a
    share of epsilon that the second term bounds, and the variance by one of epsilon^2 that the third does. Measured
    over rates .001 to .8, noise .7 to 5, 1 to 10,000 steps, delta 1e-9 to 1e-5: at most 0.31 % too large.
    """
    steps = math.sqrt(n_steps)
    fine = least_of(largest_of(1e-3, epsilon / 3000), 0.11 * math.sqrt(epsilon) / steps, epsilon / (40 * steps))
    return largest_of(fine, 2e-6)


def rounding_slack(n_steps: int) -> float:
    """Return the part of delta that pays for the rounding of a composition by Fourier transform, without a tilt."""
    return 64 * n_steps * 2.0**-53


def needs_tilt(n_steps: int, delta: float) -> bool:
    """Return whether that is more than 1e-4 of delta (some 1e-5 of epsilon): then losses are composed with a tilt."""
    return rounding_slack(n_steps) > 1e-4 * delta


@dataclass(frozen=True)
class SampledGaussianPair:
    """A public coin between pairs (1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2); symmetric.

    Attributes
    ----------
    branches : tuple of (probability, sampling rate q, noise s), each a float
        Probabilities add up to 1; noise in units of the largest norm of one contribution.
    error : float
        By how much any delta of one step may be too small for the rounding of the numbers above.
    relative : float
        By what part of themselves these numbers may be off, where that alone is what ``error`` comes from; else 0.
    """

    branches: tuple[tuple[float, float, float], ...]
    error: float = 0.0
    relative: float = field(default=0.0, repr=False)

    @classmethod
    def poisson(cls, sample_rate: float, noise_multiplier: float) -> SampledGaussianPair:
        """Return the pair of Poisson sampling.

        Parameters
        ----------
        sample_rate : float
            In (0, 1].
        noise_multiplier : float
            Noise over the clipping norm, at least 0.05.
        """
        q = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
        return cls(((1.0, q, check_real("noise_multiplier", noise_multiplier, low=LEAST_NOISE)),))

    @classmethod
    def truncated(
        cls, sample_rate: float, noise_multiplier: float, *, n_units: int, max_batch_size: int
    ) -> SampledGaussianPair:
        """Return the pair of a Poisson sample of ``n_units`` that is cut at ``max_batch_size`` at random.

        Parameters
        ----------
        sample_rate : float
            In (0, 1].
        noise_multiplier : float
            Noise over the clipping norm, at least 0.1 (half of it must be within reach).
        n_units, max_batch_size : int
            At least 1.
        """
        from scipy.stats import binom

        q = check_real("sample_rate", sample_rate, low=0, high=1, low_open=True)
        s = check_real("noise_multiplier", noise_multiplier, low=2 * LEAST_NOISE)
        n = check_int("n_units", n_units, low=1)
        most = check_int("max_batch_size", max_batch_size, low=1)
        if most >= n:  # no cut is possible: n - 1 others are too few
            return cls.poisson(q, s)
        cut = float(binom.sf(most - 1, n - 1, q))
        if cut < _RAREST:
            cut, within = _RAREST, q  # both from above
        else:
            within = least_of(q, float(binom.sf(most, n, q)) * most / n / cut)
        kept = float(binom.cdf(most - 1, n - 1, q))
        branches = ((kept, q, s), (1.0 - kept if cut > 0.5 else cut, within, s / 2))
        if kept == 0.0:
            return cls(((1.0, within, s / 2),), _TAIL_ERROR, 2 * _TAIL_ERROR)
        if cut < _RARE:
            return cls(branches, cut)
        return cls(branches, 2 * _TAIL_ERROR * cut, 2 * _TAIL_ERROR)

    def loss_distribution(self, interval: float) -> PrivacyLossDistribution:
        """Return its privacy loss distribution on a grid, rounded towards more loss (connect-the-dots).

        Branches rarer than 1e-30 are left out: they have the same probability in both worlds, which is added to delta
        (it is in ``error``).

        Parameters
        ----------
        interval : float
            In nats.
        """
        import dp_accounting
        from dp_accounting.pld import privacy_loss_distribution as pld

        found, seen = None, 0.0
        for weight, q, s in self.branches:
            if weight < _RARE:
                continue
            one = pld.from_gaussian_mechanism(
                s,
                value_discretization_interval=interval,
                sampling_prob=q,
                neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE,
            )
            seen += weight
            found = one if found is None else one.compute_mixture(found, weight / seen)
        if found is None:
            raise InvalidInputError("a SampledGaussianPair needs one branch at least.")
        return found


@dataclass(frozen=True)
class Losses:
    """What a composition is made of, as dominating pairs: Gaussians by their mu^2, subsampled ones by their number.

    Attributes
    ----------
    mu_squared : float
        Of all Gaussian parts together; finite.
    steps : tuple of (SampledGaussianPair, int)
        Each kind once, with how often it occurs: equal pairs are counted, never merged into one payment.
    """

    mu_squared: float
    steps: tuple[tuple[SampledGaussianPair, int], ...] = ()

    @property
    def n_steps(self) -> int:
        """How many subsampled steps there are."""
        return sum(n for _, n in self.steps)

    @property
    def slack(self) -> float:
        """The part of delta that pays for rounding: of every step, and of putting the kinds together."""
        together = len(self.steps) - 1 + bool(self.mu_squared)
        return rounding_slack(self.n_steps + 2 * together) + sum(n * pair.error for pair, n in self.steps)

    @classmethod
    def total(cls, parts: Iterable[tuple[Losses, int]]) -> Losses | None:
        """Return what several compositions, each so many times, are made of; None where they are of too many kinds."""
        counts: dict[SampledGaussianPair, int] = {}
        mu_squared = []
        for losses, n in parts:
            mu_squared.append(losses.mu_squared * n)
            for pair, times in losses.steps:
                counts[pair] = counts.get(pair, 0) + n * times
        if len(counts) > _MOST_KINDS:
            return None
        # One last digit up for each rounding of a product, and one for the sum.
        return cls(math.fsum(mu_squared) * (1 + 2.0**-50), tuple(item for item in counts.items() if item[1]))

    def epsilon(self, delta: float, *, about: float = math.inf, interval: float | None = None) -> float:
        """Return an upper bound on epsilon at ``delta`` under replace-one, by privacy loss distributions.

        Parameters
        ----------
        delta : float
        about : float
            An epsilon known to be near, such as the one by Renyi divergence: it sets the grid.
        interval : float or None
            The grid itself, in nats; ``about`` is then not needed.
        """
        delta = check_delta(delta)
        if not self.steps:
            return gdp_to_epsilon(math.sqrt(self.mu_squared), delta)
        if not math.isfinite(self.mu_squared):
            return math.inf
        if interval is None:
            if not about <= _MOST_EPSILON:
                return math.inf
            interval = discretization_interval(about, self.n_steps)
        if needs_tilt(self.n_steps, delta):
            return self._tilted(delta, interval)
        if self.slack >= delta:
            return math.inf
        with np.errstate(over="ignore"):  # where epsilon is beyond 700 a ratio overflows, and it comes out as infinite
            return float(self.distribution(interval).get_epsilon_for_delta(delta - self.slack))

    def _tilted(self, delta: float, interval: float) -> float:
        from pate.privacy.exact.sampled_gaussian import tilted_epsilon

        # Branches too rare for a grid are paid for out of delta. Probabilities that are off by a part of themselves
        # move every mass of a step, and so delta, by no more; a larger rate dominates (a smaller one is that one or
        # nothing, at a public coin).
        delta -= sum(n * pair.error for pair, n in self.steps if not pair.relative)
        if delta <= 0:
            return math.inf
        delta *= math.exp(-sum(n * pair.relative for pair, n in self.steps))
        kinds = [
            (tuple((w, least_of(1.0, q * (1 + pair.relative)), s) for w, q, s in pair.branches if w >= _RARE), n)
            for pair, n in self.steps
        ]
        if self.mu_squared:  # N(1, s^2) against N(-1, s^2), at rate 1
            kinds.append((((1.0, 1.0, 2 / math.sqrt(self.mu_squared) * (1 - 1e-12)),), 1))
        if least_of(*(s for branches, _ in kinds for *_, s in branches)) < LEAST_NOISE:
            return math.inf
        return tilted_epsilon(kinds, delta, interval)

    def distribution(self, interval: float) -> Any:
        """Return the privacy loss distribution on a grid, rounded towards more loss; ``slack`` is not in it."""
        return _distribution(self, interval)


@lru_cache(maxsize=2)  # for one run at several deltas
def _distribution(losses: Losses, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    found = None
    for pair, n in losses.steps:
        part = pair.loss_distribution(interval).self_compose(n)
        found = part if found is None else found.compose(part)
    if losses.mu_squared:
        gaussian = pld.from_gaussian_mechanism(
            1 / math.sqrt(losses.mu_squared) * (1 - 1e-12), value_discretization_interval=interval
        )
        found = gaussian if found is None else found.compose(gaussian)
    return found
