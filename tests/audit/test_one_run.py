"""One run with many canaries."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from pate.audit import Claim, one_run
from pate.audit._one_run import _curve_p_values, _guesses, curve_p_value, pair_p_value
from pate.exceptions import InvalidInputError


def gaussian(rng, coins, mu):
    return mu * coins + rng.normal(size=len(coins))


def response(rng, coins, epsilon, delta):
    kept, revealed = rng.random(len(coins)) < 1 / (1 + math.exp(-epsilon)), rng.random(len(coins)) < delta
    return np.where(revealed, 3.0 * coins - 1, np.where(kept, coins, ~coins))


@pytest.mark.long
@pytest.mark.parametrize("m", [40, 200])
def test_a_true_claim_is_refuted_no_more_often_than_promised(m):
    """Canaries that are independent mechanisms at the claim's worst case: both bounds keep every level, at every r."""
    rng = np.random.default_rng(m)
    curves, pairs = [], []
    for _ in range(60):
        coins = rng.random(m) < 0.5
        r, v = _guesses(gaussian(rng, coins, 1.0), coins)
        curves.append(_curve_p_values(m, r, v, Claim.gaussian(1.0)))
        r, v = _guesses(response(rng, coins, 1.0, 0.0), coins)
        pairs.append([pair_p_value(m, a, b, epsilon=1.0, delta=0.0) for a, b in zip(r, v, strict=True)])
        curves.append(_curve_p_values(m, r, v, Claim.of((1.0, 0.0))))
    for p in (np.array(curves[::2]), np.array(curves[1::2]), np.array(pairs)):
        for level in (0.3, 0.1):
            assert ((p <= level).sum(axis=0) <= binom.isf(1e-6, len(p), level)).all()


def test_the_pair_bound_by_enumeration():
    """All coins of randomised response on four canaries: the chance of v right guesses is the bound without delta."""
    epsilon, right = 0.7, 1 / (1 + math.exp(-0.7))
    for v in range(5):
        exact = sum(right ** sum(g) * (1 - right) ** (4 - sum(g)) for g in product([0, 1], repeat=4) if sum(g) >= v)
        assert pair_p_value(4, 4, v, epsilon=epsilon, delta=0.0) == pytest.approx(exact)
    assert pair_p_value(4, 4, 4, epsilon=epsilon, delta=0.01) > pair_p_value(4, 4, 4, epsilon=epsilon, delta=0.0)
    assert pair_p_value(4, 4, 0, epsilon=epsilon, delta=0.01) == 1.0


def test_p_values_fall_with_right_guesses_and_rise_with_the_claim():
    p = [curve_p_value(500, 200, v, Claim.gaussian(0.5)) for v in (100, 130, 160, 190)]
    assert p == sorted(p, reverse=True)
    assert p[-1] < 1e-4
    assert p[0] > 0.5
    assert curve_p_value(500, 200, 160, Claim.gaussian(1.5)) > p[2]
    pairs = [pair_p_value(500, 200, 160, epsilon=e, delta=1e-5) for e in (0.1, 0.5, 1.0, 2.0)]
    assert pairs == sorted(pairs)
    assert pairs[0] < 1e-3


def test_a_leak_is_refuted_and_the_curve_is_the_sharper():
    rng = np.random.default_rng(0)
    coins = rng.random(4000) < 0.5
    found = one_run(gaussian(rng, coins, 3.0), coins, claim=Claim.gaussian(1.0), published=True, delta=1e-5)
    assert found.refuted
    assert found.layer == "game"
    assert not found.sensitive
    assert 1.0 < found["lower bound on mu"].value < 3.0
    assert (
        found["lower bound on epsilon"].value <= found["epsilon of that mu"].value < Claim.gaussian(3.0).epsilon(1e-5)
    )
    honest = one_run(gaussian(rng, coins, 3.0), coins, claim=Claim.gaussian(3.0))
    assert not honest.refuted
    assert honest.sensitive
    assert type(found).from_dict(found.to_dict()) == found


def test_estimates_are_called_so():
    coins = np.arange(50) % 2 == 0
    by_pair = one_run(coins * 1.0, coins, claim=(1.0, 1e-5))
    assert by_pair["epsilon of that mu"].estimate
    assert not by_pair["lower bound on mu"].estimate
    assert not one_run(coins * 1.0, coins, claim=Claim.gaussian(1.0))["epsilon of that mu"].estimate


@pytest.mark.slow
def test_canaries_of_dpsgd():
    """One run's gradient canaries refute a claim of far less than it cost, and not what it cost."""
    from pate import Budget, DPSGDClassifier
    from pate.dpsgd import Canaries, SampledGaussian

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 60)).astype(np.float32), rng.integers(0, 10, 300)
    model = DPSGDClassifier(
        "linear", budget=Budget(30.0, 1e-5), classes=range(10), mechanism=SampledGaussian(n_steps=20),
        expected_batch_size=800, noise_seed=1,
    ).fit(X, y, canaries=Canaries(gradients=500))  # fmt: skip
    honest = one_run(model.canaries_, claim=(30.0, 1e-5))
    assert not honest.refuted
    assert honest.settings["canaries"] == 500
    assert honest["lower bound on mu"].value > 0.5
    assert one_run(model.canaries_, claim=(0.1, 1e-9), delta=1e-9).refuted


@pytest.mark.parametrize(
    ("scores", "coins"),
    [([1.0], [True]), ([1.0, 2.0], [True]), ([1.0, math.nan], [True, False]), ([1.0, 2.0], [1, 0]), ([1.0, 2.0], None)],
)
def test_what_does_not_go_together_is_refused(scores, coins):
    with pytest.raises(InvalidInputError):
        one_run(scores, coins, claim=(1.0, 1e-5))
