"""Bounds on scores: right at the exact worst case of a claim, sharp, and honest about what was chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from pate.audit import Claim
from pate.audit import _bounds as bounds
from pate.audit._bounds import bayesian_interval, curve_test, epsilon_bound, mu_bound, rates_bound
from pate.exceptions import InvalidInputError

GAUSSIAN = Claim.gaussian(1.0)
RESPONSE = Claim.of((1.0, 0.01))


def gaussians(rng, n, mu):
    return rng.normal(size=n), rng.normal(mu, 1, n)


def rounded(rng, n, mu):
    """Few distinct scores: ties must not help a false alarm."""
    return tuple(np.round(scores) for scores in gaussians(rng, n, mu))


def responses(rng, n, epsilon, delta):
    """Randomised response that tells all with probability delta: (epsilon, delta)-DP with nothing to spare."""

    def world(bit):
        revealed, kept = rng.random(n) < delta, rng.random(n) < 1 / (1 + math.exp(-epsilon))
        return np.where(revealed, 3.0 * bit - 1, np.where(kept, bit, 1 - bit))

    return world(0), world(1)


#: Scores at a claim's exact worst case.
HONEST = {
    "gaussian": (lambda rng, n: gaussians(rng, n, 1.0), GAUSSIAN),
    "ties": (lambda rng, n: rounded(rng, n, 1.0), GAUSSIAN),
    "response": (lambda rng, n: responses(rng, n, 1.0, 0.01), RESPONSE),
    "unlike": (lambda rng, n: (rng.normal(size=n), rng.normal(1, 1, 3 * n)), GAUSSIAN),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("n", [20, 300])
def test_a_true_claim_is_refuted_no_more_often_than_promised(name, n):
    draw, claim = HONEST[name]
    rng = np.random.default_rng(1000 + n)
    p = np.array([curve_test(*draw(rng, n), claim).p_value for _ in range(100)])
    for level in (0.5, 0.1):
        # One failure in a million by chance: binomial, at the rate that is allowed.
        assert (p <= level).sum() <= binom.isf(1e-6, len(p), level)
    assert (p < 1e-3).sum() <= 3


@pytest.mark.long
def test_one_rank_alone_is_an_exact_test():
    """Before the ranks are paid for, the p-value of one rank of continuous scores at the worst case is uniform."""
    rng = np.random.default_rng(3)
    p = []
    for _ in range(800):
        out, in_ = gaussians(rng, 200, 1.0)
        ranked = bounds._Ranked.of(out, in_)
        only = bounds._Ranked(ranked.k[12:13], ranked.n[12:13], ranked.beyond[12:13], ranked.n_other[12:13])
        p.append(bounds._ranked(only, GAUSSIAN).p_value)
    for level in (0.05, 0.2, 0.5):
        # Its upper sum and whole numbers make it a little too large, never too small.
        share = np.mean(np.array(p) <= level)
        assert 0.6 * level < share < level + 4 * math.sqrt(level * (1 - level) / len(p))


def test_choosing_the_threshold_on_the_same_runs_is_the_false_audit():
    """What the halves are there for: the best threshold's bound, on the runs that it was chosen on, is too high."""
    rng = np.random.default_rng(0)
    naive = honest = 0
    for seed in range(120):
        out, in_ = rng.normal(size=400), rng.normal(size=400)  # epsilon is 0
        chosen = bounds.best_threshold(out, in_, delta=0.0, level=0.8)
        a, b = int((out >= chosen).sum()), int((in_ < chosen).sum())
        naive += rates_bound(a, 400, b, 400, delta=0.0, level=0.8) > 0
        honest += epsilon_bound(out, in_, delta=0.0, level=0.8, method="clopper-pearson", seed=seed) > 0
    assert naive > 1.5 * 0.2 * 120
    assert honest <= binom.isf(1e-5, 120, 0.2)


def test_bounds_lie_below_the_truth():
    """By halves; by ranks it follows from the p-values above, whose inverse the bound is."""
    truth = Claim.gaussian(1.0).epsilon(1e-2)
    rng = np.random.default_rng(5)
    how = {"delta": 1e-2, "level": 0.8, "method": "clopper-pearson"}
    found = np.array([epsilon_bound(*gaussians(rng, 300, 1.0), **how) for _ in range(60)])
    assert (found > truth).sum() <= binom.isf(1e-5, 60, 0.2)
    assert np.median(found) > 0.25 * truth


def test_bounds_by_ranks_are_where_claims_begin_to_stand():
    rng = np.random.default_rng(7)
    out, in_ = gaussians(rng, 2000, 2.0)
    mu, epsilon = mu_bound(out, in_, level=0.9), epsilon_bound(out, in_, delta=1e-3, level=0.9)
    assert 1.8 < mu < 2.0
    assert 0.5 * Claim.gaussian(2.0).epsilon(1e-3) < epsilon < Claim.gaussian(2.0).epsilon(1e-3)
    for bound, claim in ((mu, Claim.gaussian), (epsilon, lambda e: Claim.of((e, 1e-3)))):
        assert (
            curve_test(out, in_, claim(bound * 0.999)).p_value
            <= 0.1
            < curve_test(out, in_, claim(bound * 1.001)).p_value
        )
    assert mu_bound([0.0] * 10, [0.0] * 10) == 0.0


def test_noise_at_nine_tenths_is_found_where_the_textbook_bound_finds_nothing():
    """mu = 3, sigma x 0.9, 4,000 runs in each world, false alarms 1e-6."""
    rng = np.random.default_rng(11)
    claim = Claim.gaussian(3.0)
    found = [curve_test(*gaussians(rng, 4000, 3 / 0.9), claim).p_value <= 1e-6 for _ in range(12)]
    assert sum(found) >= 10
    usual = epsilon_bound(*gaussians(rng, 4000, 3 / 0.9), delta=1e-5, method="clopper-pearson")
    assert usual < 0.5 * claim.epsilon(1e-5)


def test_both_directions_are_bounded():
    """A leak that shows in true negatives alone."""
    rng = np.random.default_rng(2)
    out, in_ = (rng.random(500) < 0.5).astype(float), np.ones(500)
    for method in ("ranks", "clopper-pearson"):
        assert epsilon_bound(out, in_, delta=1e-5, method=method) > 2
        assert epsilon_bound(-in_, -out, delta=1e-5, method=method) > 2
        assert epsilon_bound(in_, out, delta=1e-5, method=method) < 0.5


def test_the_bayesian_interval_is_that_of_samples():
    rng = np.random.default_rng(0)
    a, b = rng.beta(5.5, 995.5, 200_000), rng.beta(400.5, 600.5, 200_000)
    epsilon = np.maximum(np.log((1 - 1e-5 - b) / a), np.log((1 - 1e-5 - a) / b))
    low, high = bayesian_interval(5, 1000, 400, 1000, delta=1e-5, level=0.9)
    assert [low, high] == pytest.approx(np.quantile(epsilon, [0.05, 0.95]), abs=0.01)


def test_counts_at_their_ends():
    assert rates_bound(0, 10, 0, 10, delta=0.0) == pytest.approx(math.log((1 - 0.30850) / 0.30850), abs=1e-4)
    assert rates_bound(10, 10, 10, 10, delta=0.0) == 0.0
    assert curve_test([0.0], [1.0], GAUSSIAN).p_value == 1.0
    infinite = curve_test([-np.inf] * 50, [np.inf] * 50, GAUSSIAN)
    assert infinite.p_value < 1e-6
    assert infinite.true_positives == 1.0


@pytest.mark.parametrize("bad", [[], [[1.0]], ["a"], [math.nan], 3.0, [1j]])
def test_what_is_no_score_is_refused(bad):
    with pytest.raises(InvalidInputError, match="one score per run"):
        curve_test(bad, [1.0], GAUSSIAN)
    with pytest.raises(InvalidInputError, match="in_ must hold"):
        curve_test([1.0], bad, GAUSSIAN)
    with pytest.raises(InvalidInputError, match="Did you mean 'ranks'"):
        epsilon_bound([1.0], [1.0], delta=0.1, method="rank")
