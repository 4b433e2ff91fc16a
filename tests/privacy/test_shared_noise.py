"""Noise in shares: the sampler's law at large scales, what a coalition is left with, and the price by viewer."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from pate import Budget, Charge, InvalidInputError
from pate.mechanisms import SharedGaussian, SharedGNMax, rounds_charge
from pate.mechanisms._shares import DELTA_OF_CELL, LEAST_STEPS, MOST_STEPS, VIEWERS, _failing, _tau
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.noise import integers
from pate.privacy.noise.source import NoiseSource

# The sampler -----------------------------------------------------------------------------------------------------


def p_value(found, expected):
    """Of Pearson's chi-square test, cells with few expected taken together."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    small = expected < 8
    if small.any():
        found = np.append(found[~small], found[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    keep = expected > 0
    return chi2.sf((((found - expected) ** 2)[keep] / expected[keep]).sum(), keep.sum() - 1)


def quantile_bins(x, scale, n=40):
    inner = np.floor(scale * ndtri(np.arange(1, n) / n))
    return np.bincount(np.searchsorted(inner, x, side="left"), minlength=n)


@pytest.mark.parametrize("bits", [20.01, 27, 40, 45])
def test_a_large_discrete_gaussian_has_its_law(bits):
    scale, n = 2.0**bits, 40_000
    x = integers.discrete_gaussian(scale, n, NoiseSource(5))
    even = np.full(40, n / 40)
    assert p_value(quantile_bins(x, scale), even) > 1e-6
    for wrong in (0.95, 1.05):
        assert p_value(quantile_bins(x, wrong * scale), even) < 1e-12
    z = x / scale
    for power, mean, spread in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert abs((z**power).mean() - mean) < 5 * spread / n**0.5
    # A sampler that went through floats would leave the last bits empty.
    assert p_value(np.bincount(x & 255, minlength=256), np.full(256, n / 256)) > 1e-6


@pytest.mark.parametrize("sigma", [3.0, 11.7])
def test_the_part_for_large_scales_has_the_exact_masses_where_they_can_be_counted(sigma):
    n, reach = 60_000, math.ceil(9 * sigma)
    with patch.object(integers, "_LARGEST_SCALE", 1.0):
        x = integers.discrete_gaussian(sigma, n, NoiseSource(8))
    k = np.arange(-reach, reach + 1)

    def expected(s):
        mass = np.exp(-(k**2) / (2 * s * s))
        return n * mass / mass.sum()

    found = np.bincount(x + reach, minlength=2 * reach + 1)
    assert p_value(found, expected(sigma)) > 1e-6
    for wrong in (0.95, 1.05):
        assert p_value(found, expected(wrong * sigma)) < 1e-12


def test_the_geometric_part_is_exact_where_floats_are_in_doubt():
    class Words:
        """Uniform, then words at the very border of acceptance: exp(-1/2) 2^64, from both sides."""

        def __init__(self, last):
            self.asked, self.last = [], last

        def words(self, size):
            self.asked.append(size)
            border = int(Fraction("0.60653065971263342360379953499118045344191813548718695568289") * 2**64)
            if len(self.asked) == 1:
                return np.full(size, 2**39, dtype=np.uint64)  # U = half of the scale
            return np.full(size, border + self.last, dtype=np.uint64)

    for step, kept in ((-1, True), (1, False)):
        source = Words(step)
        with (
            patch.object(integers, "_filled", lambda size, asked, keep: keep(size)),
            patch.object(integers, "_geometric", lambda scale, size, source: 0),
        ):
            found = integers._large_geometric(2**40, 2, source)
        assert len(found) == 2 * kept


#: Of 2,000 values by NoiseSource(3), as they were before there were larger scales.
BEFORE = {0.7: "b8cd27bfc8d01825", 40.0: "60ffc92192cbd1f2", 1000.5: "4f834186597f77a1", 2.0**20: "b0c2e44ae723ad4c"}


@pytest.mark.parametrize("sigma", BEFORE)
def test_what_was_drawn_before_is_drawn_still(sigma):
    drawn = integers.discrete_gaussian(sigma, 2000, NoiseSource(3))
    assert hashlib.sha256(drawn.tobytes()).hexdigest()[:16] == BEFORE[sigma]


# What a coalition is left with: theorems 1 and 2 by brute force, on lattices so coarse that the kinks are seen ------


def masses(share, n, reach):
    """The law of a sum of n discrete Gaussians, on -reach .. reach."""
    k = np.arange(-reach, reach + 1)
    one = np.exp(-(k**2) / (2 * share * share))
    one /= one.sum()
    law = one
    for _ in range(n - 1):
        law = np.convolve(law, one)
        cut = (len(law) - len(one)) // 2
        law = law[cut : len(law) - cut]
    return law


def delta_of(law, shift, epsilon):
    """The hockey-stick divergence of a law on the whole numbers and itself moved."""
    p, q = np.append(law, np.zeros(shift)), np.append(np.zeros(shift), law)
    return np.maximum(p - np.exp(epsilon) * q, 0).sum()


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def paid(total):
    """The scale that is paid for where noise has this one: theorem 2's c of S."""
    more = total**2 - 1 / 12
    return ((more + (more**2 - 1 / 25) ** 0.5) / 2) ** 0.5


def cell_delta(total):
    """With which probability a number with noise of this scale is no rounded Gaussian."""
    return _failing(paid(total))


CASES = [(1.6, 1), (3.0, 1), (8.0, 1), (1.2, 3), (2.0, 4), (5.0, 2), (1.5, 12)]


@pytest.mark.parametrize(("share", "n"), CASES)
def test_a_sum_of_shares_is_a_rounded_gaussian_but_for_a_small_probability(share, n):
    """Theorem 2 itself: P >= (1 - delta) P' everywhere, P' a rounded Gaussian of variance less 1/12 and a little."""
    total = share * n**0.5
    reach = math.ceil(30 * total)
    law = masses(share, n, reach)
    k = np.arange(-reach, reach + 1)
    scale = paid(total)
    # Of differences of small tails, not of numbers near 1.
    rounded = np.abs(ndtr(-(np.abs(k) - 0.5) / scale) - ndtr(-(np.abs(k) + 0.5) / scale))
    seen = rounded > 1e-250
    delta = cell_delta(total) + (math.expm1(_tau(share, n)) if share < 2 else 0)
    inside = seen & (law > 1e-14)  # convolution by floats has no smaller ones
    assert (law[inside] >= (1 - delta) * rounded[inside] * (1 - 1e-9)).all()
    if n == 1:  # to the last mass that floats know
        assert (law[seen] >= (1 - delta) * rounded[seen] * (1 - 1e-9)).all()
    # With the whole variance it would not hold in the tails: what 1/12 is for.
    whole = np.abs(ndtr(-(np.abs(k) - 0.5) / total) - ndtr(-(np.abs(k) + 0.5) / total))
    if n == 1:
        assert (law[seen] < (1 - delta) * whole[seen]).any()


@pytest.mark.parametrize(("share", "n"), CASES)
@pytest.mark.parametrize("shift", [1, 3])
def test_the_hockey_stick_on_a_coarse_lattice_is_within_what_is_paid(share, n, shift):
    total = share * n**0.5
    law = masses(share, n, math.ceil(30 * total))
    mu = shift / paid(total)
    delta0 = cell_delta(total) + (math.expm1(_tau(share, n)) if share < 2 else 0)
    epsilons = np.linspace(0, 6 * mu, 400)
    excess = [delta_of(law, shift, e) - gaussian_delta(mu, e) for e in epsilons]
    assert max(excess) <= delta0


def test_more_variance_than_is_paid_for_is_needed():
    """Of the very variance that is paid for discrete noise is worse than Gaussian: the test above can fail."""
    law = masses(8.0, 1, 240)
    excess = [delta_of(law, 1, e) - gaussian_delta(1 / 8, e) for e in np.linspace(0, 0.75, 400)]
    assert max(excess) > 10 * cell_delta(8.0)


@settings(max_examples=60)
@given(
    noise=st.floats(1e-3, 1e4),
    n=st.integers(1, 40),
    t=st.integers(0, 39),
    delta_squared=st.integers(1, 10**13),
)
def test_the_honest_shares_have_the_variance_that_is_paid_for(noise, n, t, delta_squared):
    mechanism = SharedGaussian(noise, n_sites=n, tolerate=min(t, n - 1))
    lattice = mechanism.lattice(delta_squared)
    steps = Fraction(mechanism.share_scale(delta_squared)) * lattice
    paid = Fraction(noise) ** 2 * delta_squared * lattice**2
    assert lattice & (lattice - 1) == 0
    wanted = paid + Fraction(1, 12) + 1 / (100 * paid)
    assert mechanism.n_honest * steps**2 >= wanted > paid >= LEAST_STEPS**2
    assert mechanism.n_honest * steps**2 <= wanted * (1 + Fraction(1, 2**48))
    if lattice > 1:  # no finer than it must be
        assert paid < 4 * LEAST_STEPS**2
    # Theorem 2 at this variance: its bracket is not negative, and a cell costs no more than is charged.
    assert 1 / paid - 1 / wanted - 1 / (12 * paid**2) >= 0
    assert _failing(float(paid) ** 0.5) <= DELTA_OF_CELL / 2
    assert _tau(float(steps), mechanism.n_honest) == 0


def test_fields_stay_narrow():
    """Votes of 10 to 200 votes' noise among 20 sites: 28 bits a number."""
    for sigma in (10.0, 40.0, 200.0):
        mechanism = SharedGaussian(sigma / 2**0.5, n_sites=20, tolerate=6)
        assert 2 * mechanism.bound(2, 20 * 500) < 2**28
    assert mechanism.charge(5000).delta0 < 1e-13


def test_the_bound_holds_all_that_is_opened():
    mechanism = SharedGaussian(3.0, n_sites=6, tolerate=2)
    bound = mechanism.bound(7, 100)
    lattice = mechanism.lattice(7)
    assert bound >= lattice * 100 + 40 * math.sqrt(6) * mechanism.share_scale(7) * lattice


@pytest.mark.parametrize("sites", [2, 5])
def test_all_shares_together_have_the_total_scale(sites):
    mechanism = SharedGaussian(5.0, n_sites=sites, tolerate=1)
    sums = np.arange(20_000).reshape(-1, 2)
    parts = [mechanism.sample(sums if i == 0 else 0 * sums, 9, NoiseSource(100 + i)) for i in range(sites)]
    total = [sum(one) for one in zip(*parts, strict=True)]
    opened = mechanism.opened(total, sums.shape, 9)
    noise, even = (opened - sums).ravel(), np.full(40, 500)
    scale = mechanism.total_scale(9)
    assert 0 <= scale / (15 * (sites / (sites - 1)) ** 0.5) - 1 <= 1 / (12 * LEAST_STEPS**2)
    # Real numbers, nearly: bins by quantiles of the normal law.
    for factor, fits in ((1.0, True), (0.95, False), (1.05, False)):
        bins = np.bincount(np.searchsorted(factor * scale * ndtri(np.arange(1, 40) / 40), noise), minlength=40)
        assert (p_value(bins, even) > 1e-6) == fits
    # And the same law as a sample of that scale, drawn at once: two samples.
    other = integers.discrete_gaussian(scale * mechanism.lattice(9), 20_000, NoiseSource(9)) / mechanism.lattice(9)
    edges = np.quantile(np.concatenate([noise, other]), np.arange(1, 20) / 20)
    a, b = (np.bincount(np.searchsorted(edges, x), minlength=20) for x in (noise, other))
    assert chi2.sf(((a - b) ** 2 / (a + b)).sum(), 19) > 1e-6


# Whole votes: Kairouz, Liu and Steinke's sum ---------------------------------------------------------------------


def renyi(law, shift, order):
    keep = (law[:-shift] > 0) & (law[shift:] > 0)
    p, q = np.log(law[:-shift][keep]), np.log(law[shift:][keep])
    return math.log(math.fsum(np.exp(order * p + (1 - order) * q))) / (order - 1)


def worst_excess(share, counts=(2, 3, 5, 10, 20, 50)):
    """How much larger than a Gaussian's the divergence of a sum of shares is, over orders 2 and 8, relatively."""
    found = []
    for n in counts:
        law = masses(share, n, math.ceil(14 * share * n**0.5) + 12)
        found += [renyi(law, 1, a) / (a / (2 * n * share * share)) - 1 for a in (2, 8)]
    return max(found)


@pytest.mark.parametrize(
    ("share", "excess", "within"), [(0.5, 0.16, 0.005), (0.6, 0.024, 0.001), (0.8, 1.6e-4, 1e-5), (1.0, 2.1e-7, 2e-8)]
)
def test_small_shares_cost_more_than_their_gaussian(share, excess, within):
    assert worst_excess(share) == pytest.approx(excess, abs=within)


def test_shares_of_two_votes_do_not():
    assert worst_excess(1.5) < 1e-12
    assert worst_excess(2.0) < 1e-12


@pytest.mark.parametrize("share", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("n", [2, 5, 20])
def test_tau_bounds_the_exact_convolution(share, n):
    """Theorem 3, where it can be seen: pointwise, and as what is added to the Renyi divergence of a moved count."""
    reach = math.ceil(12 * share * n**0.5)
    law, k = masses(share, n, reach), np.arange(-reach, reach + 1)
    one = np.exp(-(k**2) / (2 * n * share * share))
    one /= one.sum()
    inside = one > 1e-12
    tau = _tau(share, n)
    assert np.abs(np.log(law[inside] / one[inside])).max() <= tau + 1e-12
    for a in (1.25, 2, 8):
        assert renyi(law, 1, a) <= a / (2 * n * share * share) + tau * (2 * a - 1) / (a - 1)


def test_labels_are_priced_by_the_sum_of_two_moved_counts():
    mechanism = SharedGNMax(40.0, n_sites=10, tolerate=3, n_classes=10)
    curve = np.array(mechanism.charge(3000).rdp)
    assert np.allclose(curve, 300 * np.array(DEFAULT_ORDERS) / 1600, rtol=1e-12)
    assert (curve >= 300 * np.array(DEFAULT_ORDERS) / 1600).all()
    assert math.isinf(mechanism.charge(3000).mu_squared)
    assert mechanism.charge(3001).rdp[3] > mechanism.charge(3000).rdp[3]  # one more query begun
    assert mechanism.charge(0).rdp == (0.0,) * len(DEFAULT_ORDERS)


def test_dp_accounting_agrees_on_whole_noise():
    """The exact loss of a count with whole-number noise of the sum: their PLD, below what is charged here."""
    mechanism = SharedGNMax(12.0, n_sites=10, tolerate=1, n_classes=2)
    law = masses(4.0, 9, 400)
    theirs = DiscreteGaussianPrivacyLoss(12.0)
    for epsilon in (0.0, 0.05, 0.3):
        assert delta_of(law, 1, epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-8)
    # Two counts moved, each way: what is charged for one query covers the pair exactly composed.
    pair = np.convolve(law, law)
    epsilon = mechanism.charge(2).guarantee(1e-3).epsilon
    losses = (2 * np.arange(-400, 401) + 1) / (2 * 144)
    joint = np.exp(epsilon - (losses[:, None] + losses[None, :]))
    exact = (law[:, None] * law[None, :] * np.maximum(1 - joint, 0)).sum()
    assert exact <= 1e-3
    assert pair.sum() == pytest.approx(1)


# The price by viewer ---------------------------------------------------------------------------------------------


def epsilon_of(mechanism, rounds, cells, viewer="coalition", delta=1e-5):
    return rounds_charge([mechanism] * rounds, cells, viewer).guarantee(delta).epsilon


def test_golden_figures():
    """Of the design: votes with noise sigma of honest sites, 10 classes."""
    for sigma, queries, epsilon in ((40, 100, 1.36), (40, 300, 2.50), (40, 1000, 4.98), (200, 300, 0.43)):
        mechanism = SharedGaussian(sigma / 2**0.5, n_sites=20, tolerate=9)
        assert epsilon_of(mechanism, queries, 10 * queries) == pytest.approx(epsilon, abs=0.006)
        continuous = Charge.gaussian(sensitivity=(2 * queries) ** 0.5, sigma=sigma)
        assert rounds_charge([mechanism] * queries, 10 * queries).mu_squared >= continuous.mu_squared
    one_vote_each = SharedGaussian(3 / 2**0.5, n_sites=10, tolerate=0)
    whole = one_vote_each.charge_of_institution(1, 10) * 50
    assert whole.guarantee(1e-5).epsilon == pytest.approx(19, abs=0.5)


@pytest.mark.parametrize(("k", "t", "factor"), [(10, 1, 1.05), (10, 2, 1.12), (10, 4, 1.29), (20, 6, 1.195)])
def test_the_price_of_trust(k, t, factor):
    """What all add together over what is counted."""
    mechanism = SharedGaussian(10.0, n_sites=k, tolerate=t)
    assert mechanism.total_scale(4) / 20 == pytest.approx(factor, abs=0.005)


@pytest.mark.parametrize(
    "make", [lambda **k: SharedGaussian(20.0, **k), lambda **k: SharedGNMax(30.0, n_classes=10, **k)]
)
def test_who_knows_less_noise_learns_more(make):
    mechanism = make(n_sites=10, tolerate=4)
    coalition, coordinator, outsider = (np.array(mechanism.charge_of(v, 100).rdp) for v in VIEWERS)
    assert np.allclose(coordinator / coalition, 6 / 9)
    assert np.allclose(outsider / coalition, 6 / 10)
    assert (coalition == np.array(mechanism.charge(100).rdp)).all()
    alone = make(n_sites=10, tolerate=1)
    assert alone.charge_of("coordinator", 100).rdp == pytest.approx(alone.charge(100).rdp)
    nobody = make(n_sites=10, tolerate=0)
    assert len({nobody.charge_of(v, 100).rdp for v in VIEWERS}) == 1
    with pytest.raises(InvalidInputError, match="viewer must be one of"):
        mechanism.charge_of("neighbour", 10)


@pytest.mark.parametrize("c", [2, 3])
def test_a_person_at_several_sites_pays_mu_times_as_many(c):
    one = SharedGaussian(20.0, n_sites=10, tolerate=4)
    several = replace(one, max_sites_per_person=c)
    assert several.charge(50).mu_squared == pytest.approx(c**2 * one.charge(50).mu_squared)
    assert several.charge(50).delta0 == one.charge(50).delta0
    assert several.share_scale(2) == one.share_scale(2)
    labels = SharedGNMax(40.0, n_sites=10, tolerate=4, n_classes=10)
    more = np.array(replace(labels, max_sites_per_person=c).charge(50).rdp) / np.array(labels.charge(50).rdp)
    assert np.allclose(more, c**2)
    assert replace(one, max_sites_per_person=1).charge_of_institution(c, 50).mu_squared == several.charge(50).mu_squared


def argmax_law(counts, sigma):
    """The exact law of the first maximum of two counts with whole noise."""
    reach = math.ceil(12 * sigma)
    law = masses(sigma, 1, 2 * reach)
    beats = np.convolve(law, law)  # noise of the first less that of the second, symmetric
    d = np.arange(len(beats)) - len(beats) // 2
    first = beats[d >= counts[1] - counts[0]].sum()
    return np.array([first, 1 - first])


def test_labels_only_a_coalition_learns_more_than_an_outsider_may():
    """At a tie the exact loss of a coalition is beyond the outsider's curve, and within its own."""
    mechanism = SharedGNMax(12.0, n_sites=9, tolerate=4, n_classes=2)
    tie, moved = argmax_law((10, 10), 12.0), argmax_law((9, 11), 12.0)
    for a in (2.0, 8.0):
        exact = max(math.log((p**a * q ** (1 - a)).sum()) / (a - 1) for p, q in ((tie, moved), (moved, tie)))
        at = DEFAULT_ORDERS.index(a)
        assert mechanism.charge_of("outsider", 2).rdp[at] < exact <= mechanism.charge(2).rdp[at]


def test_a_coalitions_shares_move_the_histogram_that_it_faces():
    """A data-dependent cost of the true histogram is no bound for who knows some of the noise: a tie is more telling.

    The votes stand 120 to 40; a coalition whose own noise is 80 against the first class faces a tie.
    """
    sigma, order = 12.0, 2.0

    def loss(counts):
        p, q = argmax_law(counts, sigma), argmax_law((counts[0] - 1, counts[1] + 1), sigma)
        return math.log((p**order * q ** (1 - order)).sum()) / (order - 1)

    assert loss((80, 80)) > 1000 * loss((120, 40))
    assert loss((80, 80)) <= SharedGNMax(sigma, 3, 1, 2).charge(2).rdp[DEFAULT_ORDERS.index(order)]


def test_comparisons_go_into_delta0():
    mechanism = SharedGNMax(40.0, n_sites=10, tolerate=3, n_classes=10, comparison_bits=60)
    assert mechanism.charge(5000).delta0 == 5000 * 2.0**-60
    assert mechanism.charge_of("coordinator", 5000).delta0 == 5000 * 2.0**-60
    assert mechanism.charge_of("outsider", 5000).delta0 == 0
    with pytest.raises(InvalidInputError, match="delta must be above"):
        replace(mechanism, comparison_bits=10).charge(5000).guarantee(1e-5)


def test_finer_votes_cost_what_a_gaussian_does():
    """Of 32 steps a vote: GDP, and delta0 of the counts that move alone."""
    whole = SharedGNMax(40.0, n_sites=10, tolerate=3, n_classes=10)
    fine = replace(whole, steps_per_vote=32)
    assert fine.lattice(2) == 32
    assert fine.charge(3000).mu_squared == pytest.approx(300 * 2 / 1600)
    assert fine.charge(3000).guarantee(1e-5).epsilon < 0.93 * whole.charge(3000).guarantee(1e-5).epsilon
    assert (
        fine.charge(3000).guarantee(1e-5).epsilon
        >= Charge.gaussian(sensitivity=600**0.5, sigma=40.0).guarantee(1e-5).epsilon
    )
    failing = 600 / (128 * 1280.0**4)
    assert fine.charge(3000).delta0 == pytest.approx(failing + 3000 * 2.0**-60, rel=1e-12)
    assert fine.charge_of("outsider", 3000).delta0 == pytest.approx(failing, rel=1e-12)
    three = replace(fine, max_sites_per_person=3)
    assert three.charge(3000).mu_squared == pytest.approx(9 * fine.charge(3000).mu_squared)
    assert three.charge_of("outsider", 3000).delta0 == pytest.approx(3 * failing, rel=1e-12)
    with pytest.raises(InvalidInputError, match="power of two"):
        replace(whole, steps_per_vote=3)


@pytest.mark.parametrize("steps", [1, 64])
def test_shares_of_labels_have_the_variance_that_is_paid_for(steps):
    mechanism = SharedGNMax(21.3, n_sites=10, tolerate=3, n_classes=4, steps_per_vote=steps)
    variance, paid = 7 * (steps * Fraction(mechanism.share_scale(2))) ** 2, (steps * Fraction(21.3)) ** 2
    wanted = paid + Fraction(1, 12) + 1 / (100 * paid)
    assert wanted <= variance <= wanted * (1 + Fraction(1, 2**48))


def test_opened_numbers_go_into_delta0():
    mechanism = SharedGaussian(40.0, n_sites=10, tolerate=3)
    assert mechanism.charge(5000).delta0 == 5000 * 2.0**-70
    assert rounds_charge([mechanism, replace(mechanism, noise_multiplier=9.0)], 64).delta0 == 2.0**-64


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tolerate": 5}, "tolerate must be below the number of sites"),
        ({"tolerate": -1}, "tolerate must be a whole number >= 0"),
        ({"n_sites": 0}, "n_sites must be"),
        ({"max_sites_per_person": 6}, "max_sites_per_person"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be"),
        ({"noise_multiplier": math.nan}, "noise_multiplier must be"),
        ({"noise_multiplier": 1e7}, "noise_multiplier must be"),
    ],
)
def test_bad_sums(wrong, said):
    with pytest.raises(InvalidInputError, match=said):
        SharedGaussian(**{"noise_multiplier": 4.0, "n_sites": 5, "tolerate": 2, **wrong})


def test_bad_labels():
    with pytest.raises(InvalidInputError, match="share must have a standard deviation of 2 votes"):
        SharedGNMax(5.2, n_sites=10, tolerate=3, n_classes=10)
    assert SharedGNMax(2 * 7**0.5, n_sites=10, tolerate=3, n_classes=10).share_scale(2) >= 2
    with pytest.raises(InvalidInputError, match="n_classes"):
        SharedGNMax(40.0, n_sites=10, tolerate=3, n_classes=1)
    finest = SharedGNMax(1e9, n_sites=2, tolerate=1, n_classes=2, steps_per_vote=MOST_STEPS)
    assert len(finest.sample(np.zeros((1, 2), np.int64), 2, NoiseSource(1))) == 2
    with pytest.raises(InvalidInputError, match="steps_per_vote"):
        replace(finest, steps_per_vote=2 * MOST_STEPS)
    with pytest.raises(InvalidInputError, match="delta_squared must be 2"):
        SharedGNMax(40.0, n_sites=10, tolerate=3, n_classes=2).sample(np.zeros((1, 2), np.int64), 4, NoiseSource(1))


def test_sums_are_whole_and_opened_whole():
    mechanism = SharedGaussian(4.0, n_sites=5, tolerate=2)
    with pytest.raises(InvalidInputError, match="int64"):
        mechanism.sample(np.zeros((1, 2)), 2, NoiseSource(1))
    with pytest.raises(InvalidInputError, match="must have 4 numbers, got 3"):
        mechanism.opened([1, 2, 3], (2, 2), 2)
    # Exact far beyond 64 bits.
    lattice = mechanism.lattice(2)
    assert mechanism.opened([lattice * 2**80], (1,), 2)[0] == 2.0**80


def test_a_budget_fits_with_delta0():
    mechanism = SharedGaussian(1 / Budget(1.0, 1e-5).mu_squared ** 0.5, n_sites=5, tolerate=2)
    assert not Budget(1.0, 1e-5).allows(mechanism.charge(10**9))
    assert Budget(1.0001, 1e-5).allows(mechanism.charge(10**9))
