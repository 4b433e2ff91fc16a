"""How often an attacker's best guess is right at most: golden, cross-checked, simulated; the budget planned by it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, norm

from pate import Budget, Charge, InvalidInputError, NoisyHistogram, Votes, release_labels
from pate.dpsgd._statement import make_plan
from pate.dpsgd.mechanisms import BandedFTRL, Shape, TruncatedPoissonSGD
from pate.privacy import gdp_from_budget, select_best
from pate.privacy.attacker import attack_bounds, detection_bound, largest_success, replaced_success
from pate.privacy.compose.calibrate import calibrate
from pate.privacy.noise.source import NoiseSource
from pate.release.statement.plain import promises

DELTA = 1e-5


def released(epsilon):
    """A statement of noisy counts of three questions that spend all of epsilon."""
    budget = Budget(epsilon, DELTA)
    mechanism = calibrate(NoisyHistogram(sigma=1.0), budget, n_queries=3)
    return release_labels(Votes.from_counts([[9, 1]] * 3), mechanism, budget=budget).statement


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("epsilon", "pair", "exact"),
    [(0.1, 0.525, 0.5065), (1.0, 0.7311, 0.5534), (3.0, 0.9526, 0.6405), (8.0, 0.9997, 0.7977)]
)  # fmt: skip
def test_the_statement_says_what_the_noise_allows(epsilon, pair, exact):
    """Beside it two computations that share no line with ours: the overlap of two bell curves, and dp_accounting."""
    made = released(epsilon)
    said = made.to_dict()["meaning"]["bounds"]["largest_success"]
    assert attack_bounds(epsilon, DELTA)["largest_success"] == pair  # what it said before
    assert said == pytest.approx(exact, abs=2e-4)
    apart = quad(lambda x: abs(norm.pdf(x) - norm.pdf(x - made.mu)), -12, 12 + made.mu, points=[made.mu / 2])[0] / 2
    by_pld = pld.from_gaussian_mechanism(1 / made.mu, value_discretization_interval=1e-4).get_delta_for_epsilon(0)
    for other in (apart, by_pld):
        assert (1 + other) / 2 - 1e-6 <= said <= (1 + other) / 2 + 2e-4
    # mu itself: the delta of the curves at this epsilon, integrated.
    at = quad(lambda x: max(norm.pdf(x - made.mu) - math.exp(epsilon) * norm.pdf(x), 0), -2, 40, limit=400)[0]
    assert at == pytest.approx(DELTA, rel=1e-3)


def test_an_attacker_of_the_drawn_noise_is_as_good_as_said_and_no_better():
    mechanism, n = NoisyHistogram(sigma=2.0), 40_000
    worlds = [mechanism.sample(np.tile(counts, (n, 1)), NoiseSource()).noisy_counts for counts in ([5, 5], [4, 6])]
    right = sum(int(np.sum((x[:, 1] > x[:, 0] + 1) == world)) for world, x in enumerate(worlds))
    said = largest_success(9.0, DELTA, mu=math.sqrt(mechanism.charge(1).mu_squared))
    assert binom.sf(right - 1, 2 * n, said) > 1e-9
    assert binom.cdf(right, 2 * n, said - 1e-4) > 1e-9


SHAPE = Shape(1000, 0.1, 30, 100)


@pytest.mark.parametrize(
    ("mechanism", "shape"),
    [(None, SHAPE), (TruncatedPoissonSGD(140), SHAPE), (BandedFTRL(8, separation=8), Shape(6400, 1 / 64, 512, 100))],
)
def test_training_that_samples_is_bounded_by_its_privacy_loss(mechanism, shape):
    plan = make_plan(Budget(9.0, DELTA), shape, mechanism=mechanism, noise_multiplier=1.6)
    found = plan.total_variation()
    assert plan.epsilon_at(found) == 0
    assert plan.epsilon_at(found * 0.99) > 0  # and not much larger than need be
    # The Gaussian at the same epsilon is near: many steps are nearly one.
    gauss = 2 * norm.cdf(gdp_from_budget(plan.guarantee.epsilon, DELTA) / 2) - 1
    assert 0.9 * gauss < found < 1.1 * gauss < attack_bounds(plan.guarantee.epsilon, DELTA)["largest_advantage"]


def test_an_attacker_of_poisson_samples_is_as_good_as_said_and_no_better():
    """Opposite gradients of norm 1, in or out of each step: the pair that dominates."""
    plan, n = make_plan(Budget(9.0, DELTA), SHAPE, noise_multiplier=1.6), 10_000
    rng, (q, sigma) = np.random.default_rng(0), (SHAPE.sample_rate, plan.noise_multiplier)
    right = 0
    for world in (1.0, -1.0):
        x = world * (rng.random((n, SHAPE.n_steps)) < q) + rng.normal(0, sigma, (n, SHAPE.n_steps))
        one, other = ((1 - q) * norm.pdf(x / sigma) + q * norm.pdf((x - m) / sigma) for m in (1.0, -1.0))
        right += int(np.sum((np.log(one / other).sum(axis=1) * world) > 0))
    said = (1 + plan.total_variation()) / 2
    assert binom.sf(right - 1, 2 * n, said) > 1e-9
    assert binom.cdf(right, 2 * n, said - 2e-3) > 1e-9


@settings(max_examples=60)
@given(
    st.floats(0, 60), st.floats(0, 0.5), st.floats(0, 12), st.floats(0, 1),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 60)), max_size=3),
)  # fmt: skip
def test_more_promises_never_allow_more(epsilon, delta, mu, alarms, curve):
    law = {"mu": mu, "curve": curve}
    assert 0.5 <= largest_success(epsilon, delta, **law) <= largest_success(epsilon, delta)
    assert largest_success(epsilon, delta, mu=mu) <= largest_success(epsilon + 0.1, delta, mu=mu + 0.1)
    assert detection_bound(epsilon, delta, alarms, **law) <= detection_bound(epsilon, delta, alarms)
    assert largest_success(epsilon, delta, **law) <= replaced_success(epsilon, delta, **law)
    # At even odds: (found + not accused) / 2 at any share of false alarms.
    assert (detection_bound(0.0, 1.0, alarms, mu=mu) + 1 - alarms) / 2 <= largest_success(60.0, 0.5, mu=mu) + 2e-4


def test_a_replaced_value_lies_two_steps_off():
    """Whose presence is hidden by mu: values x and -x of a sum are 2 mu apart, one of them and nothing mu."""
    for mu in (0.1, 0.7, 3.0):
        exact = norm.cdf(mu)
        assert exact <= replaced_success(50.0, DELTA, mu=mu) <= exact + 1e-4
        assert largest_success(50.0, DELTA, mu=mu) < exact


@settings(max_examples=40)
@given(st.floats(0.01, 6), st.floats(0, 1e-3))
def test_a_total_variation_is_never_below_what_is_known(mu, delta0):
    whole = Charge.gaussian(sensitivity=mu, sigma=1.0)
    exact = 2 * norm.cdf(mu / 2) - 1
    blind = Charge(math.inf, whole.rdp, delta0=delta0)  # a Renyi curve, and a chance of failing
    assert whole.total_variation() == pytest.approx(exact, rel=1e-9)
    assert min(1.0, exact + delta0) <= blind.total_variation() + 1e-12
    assert Charge.laplace(shifts=(1,), scale=1 / mu).total_variation() <= math.tanh(mu / 2) * (1 + 1e-9)


def test_where_there_is_no_mu_the_curve_ends_at_epsilon_0():
    chosen = select_best(Charge.gaussian(sensitivity=1.0, sigma=8.0), mean_runs=5)
    found = promises(chosen)
    assert found["mu"] is None
    delta, epsilon = found["curve"][-1]
    assert epsilon == 0.0
    assert chosen.total_variation() <= delta <= chosen.total_variation() + 1e-5
    g = chosen.guarantee(DELTA)
    said = largest_success(g.epsilon, DELTA, curve=found["curve"])
    assert said == pytest.approx((1 + delta) / 2, abs=1e-4)
    assert said < largest_success(g.epsilon, DELTA) - 0.03
    assert all(epsilon > 0 for _, epsilon in promises(Charge.gaussian(sensitivity=1.0, sigma=2.0))["curve"])


# The budget by it ----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.floats(50.5, 99.999), st.sampled_from([1e-3, 1e-5, 1e-9]))
def test_a_budget_for_an_attacker_is_the_largest_that_keeps_to_it(attacker, delta):
    budget = Budget.for_attacker(attacker, delta)
    assert 100 * norm.cdf(math.sqrt(budget.mu_squared) / 2) <= attacker
    assert 100 * norm.cdf(gdp_from_budget(budget.epsilon * 1.002, delta) / 2) > attacker
    assert float(f"{budget.epsilon:g}") == budget.epsilon  # what a command prints is what was meant


@pytest.mark.parametrize(
    ("attacker", "delta", "said"),
    [
        *(
            (bad, DELTA, "attacker must be a finite number > 50 and < 100")
            for bad in (50, 100, 49.0, math.nan, math.inf)
        ),
        (50.4, 1e-2, "attacker must be above 50.5 of 100 at delta=0.01"),
        ("60", DELTA, "attacker must be"),
        (60, 0.0, "delta must be"),
    ],
)
def test_a_bad_attacker_is_refused(attacker, delta, said):
    with pytest.raises(InvalidInputError, match=said):
        Budget.for_attacker(attacker, delta)
