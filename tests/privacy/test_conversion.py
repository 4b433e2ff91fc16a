"""Conversions: golden figures, identities, cross-checks with dp_accounting, properties."""

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.stats import norm

from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.privacy import (
    DEFAULT_ORDERS,
    Budget,
    Charge,
    calibrate,
    gdp_from_budget,
    gdp_to_delta,
    gdp_to_epsilon,
    pure_to_gdp,
    rdp_to_epsilon,
)
from pate.privacy.cost import laplace_rdp

EPSILONS = st.floats(0.01, 20)
DELTAS = st.sampled_from([1e-9, 1e-6, 1e-5, 1e-3, 0.1])


@pytest.mark.parametrize(("queries", "sigma", "epsilon"), [(147, 64, 0.99943), (300, 40, 2.50174), (1000, 40, 4.98331)])
def test_gdp_golden(queries, sigma, epsilon):
    # design notes, section J
    assert gdp_to_epsilon(math.sqrt(2 * queries) / sigma, 1e-5) == pytest.approx(epsilon, abs=6e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("queries", [1, 30, 300, 3000])
def test_gdp_agrees_with_the_gaussian_pld_of_dp_accounting(queries):
    mu = math.sqrt(2 * queries) / 40
    theirs = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4).get_epsilon_for_delta(1e-5)
    assert gdp_to_epsilon(mu, 1e-5) == pytest.approx(theirs, rel=2e-3)
    # theirs is pessimistic by its discretisation only
    assert gdp_to_epsilon(mu, 1e-5) <= theirs + 1e-9


def test_gdp_against_multiprecision_from_tiny_mu_to_huge():
    """Epsilon is never below the exact one and at most 1e-9 above it, relative; delta is right to 1e-10."""
    with mp.workdps(60):

        def exact_delta(mu, epsilon):
            def cdf(x):
                return mp.erfc(-x / mp.sqrt(2)) / 2

            mu, epsilon = mp.mpf(float(mu)), mp.mpf(epsilon)
            return cdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)

        for mu in np.logspace(-8, 2, 21):
            for scaled in (0.0, 0.3, 2.0, 6.0, 20.0):
                epsilon = float(mu * (scaled + mu / 2 * (scaled > 1)))
                want = exact_delta(mu, epsilon)
                assert abs(float(gdp_to_delta(float(mu), epsilon) / want - 1)) < 1e-10
            for delta in (1e-2, 1e-5, 1e-9, 1e-12):
                epsilon = gdp_to_epsilon(float(mu), delta)
                if epsilon == 0:
                    assert exact_delta(mu, 0) <= delta
                    continue
                # A larger delta at epsilon less a billionth: epsilon is not too high; and not too low.
                assert exact_delta(mu, mp.mpf(epsilon)) <= delta
                assert exact_delta(mu, mp.mpf(epsilon) * (1 - mp.mpf("1e-9"))) > delta
                back = gdp_from_budget(epsilon, delta)
                assert abs(back / mu - 1) < 1e-9
                assert gdp_to_epsilon(back, delta) <= epsilon


@pytest.mark.parametrize("mu", [9.9e4, 1.1e5, 1e8, 1e10, 1e12, 1e150])
def test_no_epsilon_of_an_enormous_mu_is_below_the_truth(mu):
    """At mu = 1e10 rounding made it smaller by 2e9, and at 1e150 the search for it found no sign."""
    found = gdp_to_epsilon(mu, 1e-5)
    with mp.workdps(400):
        m, e = mp.mpf(mu), mp.mpf(found)
        assert mp.ncdf(m / 2 - e / m) - mp.exp(e + mp.log(mp.ncdf(-m / 2 - e / m))) <= mp.mpf("1e-5")
    assert found <= (mu / 2 + 5) * mu * (1 + 1e-14)


@given(EPSILONS, DELTAS)
def test_gdp_round_trip_is_on_the_safe_side(epsilon, delta):
    mu = gdp_from_budget(epsilon, delta)
    assert gdp_to_epsilon(mu, delta) <= epsilon
    assert gdp_to_delta(mu, gdp_to_epsilon(mu, delta)) <= delta
    assert gdp_to_epsilon(mu * (1 + 1e-6), delta) > epsilon


@given(EPSILONS, DELTAS)
def test_gdp_delta_matches_the_defining_formula(epsilon, delta):
    mu = gdp_from_budget(epsilon, delta)
    direct = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    assert gdp_to_delta(mu, epsilon) == pytest.approx(direct, rel=1e-6, abs=1e-14)


@given(st.floats(0.001, 5), DELTAS)
def test_gaussian_never_costs_more_by_gdp_than_by_rdp(mu, delta):
    rdp = [a * mu * mu / 2 for a in DEFAULT_ORDERS]
    cks, _ = rdp_to_epsilon(rdp, delta)
    mironov, _ = rdp_to_epsilon(rdp, delta, conversion="mironov")
    assert gdp_to_epsilon(mu, delta) <= cks + 1e-12
    assert cks <= mironov + 1e-12


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_cks_conversion_agrees_with_dp_accounting(delta):
    rdp = np.array([a / 1600 * 300 for a in DEFAULT_ORDERS])
    theirs, _ = rdp_privacy_accountant.compute_epsilon(DEFAULT_ORDERS, rdp, delta)
    assert rdp_to_epsilon(rdp, delta)[0] == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("scale", [0.5, 5.0, 20.0])
def test_laplace_rdp_agrees_with_quadrature(scale):
    x = np.linspace(-60 * scale, 60 * scale + 1, 2_000_001)
    p = np.exp(-np.abs(x) / scale) / (2 * scale)
    q = np.exp(-np.abs(x - 1) / scale) / (2 * scale)
    for order in (1.5, 2.0, 8.0):
        direct = math.log(trapezoid(p**order * q ** (1 - order), x)) / (order - 1)
        assert laplace_rdp(1.0, scale, [order])[0] == pytest.approx(direct, rel=1e-6)


@given(st.floats(1e-3, 12))
def test_pure_is_dominated_by_its_gaussian(epsilon):
    """Trade-off functions: the Gaussian's lies below the pure one's everywhere, and touches it."""
    mu = pure_to_gdp(epsilon)
    x = np.linspace(1e-9, 1 - 1e-9, 4001)
    pure = np.maximum(0, np.maximum(1 - math.exp(epsilon) * x, math.exp(-epsilon) * (1 - x)))
    gaussian = norm.cdf(norm.ppf(1 - x) - mu)
    assert (gaussian <= pure + 1e-12).all()
    fixed = 1 / (1 + math.exp(epsilon))
    assert norm.cdf(norm.ppf(1 - fixed) - mu) == pytest.approx(fixed, rel=1e-6)


@pytest.mark.long
@given(st.integers(1, 500), st.floats(5, 100), DELTAS)
def test_n_charges_equal_one_charge_times_n(n, sigma, delta):
    one = Charge.gaussian(sensitivity=math.sqrt(2), sigma=sigma)
    added = sum([one] * n, Charge.zero())
    assert added.guarantee(delta).epsilon == pytest.approx((one * n).guarantee(delta).epsilon, rel=1e-9)
    assert (one * n).mu_squared == pytest.approx(2 * n / sigma**2)


def test_mixed_charges_are_sound_by_every_account():
    mixed = Charge.gaussian(sensitivity=1.0, sigma=5.0) * 3 + Charge.laplace(shifts=(1, 1), scale=10.0) * 4
    assert mixed.pure == math.inf
    assert mixed.mu_squared == pytest.approx(3 / 25 + 4 * 2 * pure_to_gdp(0.1) ** 2)
    guarantee = mixed.guarantee(1e-5)
    by_gdp = gdp_to_epsilon(math.sqrt(mixed.mu_squared), 1e-5)
    by_rdp, _ = rdp_to_epsilon(mixed.rdp, 1e-5)
    assert guarantee.epsilon == min(by_gdp, by_rdp)
    # cross-check: the PLD of the very mixture, four queries of two moved coordinates each
    exact = pld.from_gaussian_mechanism(5.0, value_discretization_interval=1e-4).self_compose(3)
    laplace = pld.from_laplace_mechanism(10.0, value_discretization_interval=1e-4).self_compose(8)
    assert guarantee.epsilon >= exact.compose(laplace).get_epsilon_for_delta(1e-5) - 2e-3


def test_laplace_pure_composition_wins_for_few_queries():
    charge = Charge.laplace(shifts=(1, 1), scale=20.0)
    assert (charge * 2).guarantee(1e-5).method == "pure"
    # two independent coordinates are tighter than the 2017 paper's 2 gamma^2 l (l + 1) (19.05 here) and still sound
    many = (charge * 1000).guarantee(1e-5).epsilon
    exact = pld.from_laplace_mechanism(20.0, value_discretization_interval=1e-4).self_compose(2000)
    assert exact.get_epsilon_for_delta(1e-5) - 0.1 <= many < 19.05


@pytest.mark.long
@given(EPSILONS, DELTAS, st.integers(1, 3000))
def test_calibrate_lands_just_inside_the_budget(epsilon, delta, n_queries):
    from pate import GNMax, NoisyHistogram

    budget = Budget(epsilon, delta)
    mechanism = calibrate(GNMax(sigma=40.0), budget, n_queries=n_queries)
    assert budget.allows(mechanism.charge(n_queries))
    assert not budget.allows(mechanism.scaled(1 - 1e-6).charge(n_queries))
    # Never worse than exact Gaussian composition, and that is what a released histogram needs.
    exact = math.sqrt(2 * n_queries / budget.mu_squared)
    assert mechanism.sigma <= exact * (1 + 1e-8)
    assert calibrate(NoisyHistogram(40.0), budget, n_queries=n_queries).sigma == pytest.approx(exact, rel=1e-6)


def test_calibrating_for_a_ledger_fits_what_is_left_of_it(tmp_path):
    from pate import GNMax, Ledger

    budget = Budget(1.0, 1e-5)
    ledger = Ledger(tmp_path / "l.sqlite", total=budget, currency="gdp")
    alone = calibrate(GNMax(1.0), budget, n_queries=50)
    first = calibrate(GNMax(1.0), budget, n_queries=50, left=ledger.remaining(default_total=budget))
    assert budget.allows(alone.charge(50))
    assert not ledger.allows(alone.charge(50))
    assert first.sigma == pytest.approx(math.sqrt(100 / budget.mu_squared), rel=1e-8)
    ledger.record(first.scaled(2).charge(50), mechanism="m", n_queries=50)
    second = calibrate(GNMax(1.0), budget, n_queries=50, left=ledger.remaining(default_total=budget))
    assert second.sigma == pytest.approx(first.sigma / math.sqrt(0.75), rel=1e-8)
    full = Ledger(tmp_path / "full.sqlite", total=budget, currency="gdp")
    full.record(dataclasses.replace(Charge.zero(), mu_squared=budget.mu_squared), mechanism="m", n_queries=50)
    with pytest.raises(BudgetExceededError, match="left in the ledger"):
        calibrate(GNMax(1.0), budget, n_queries=50, left=full.remaining(default_total=budget))


@pytest.mark.parametrize(("queries", "epsilon"), [(300, 2.1211), (1000, 4.165), (3000, 7.892)])
def test_public_epsilon_of_a_gaussian_argmax(queries, epsilon):
    charge = Charge.gaussian_argmax(40.0) * queries
    assert charge.guarantee(1e-5).epsilon == pytest.approx(epsilon, abs=1e-4)
    assert charge.guarantee(1e-5).method == "rdp"
    assert charge.mu_squared == pytest.approx((Charge.gaussian(sensitivity=2**0.5, sigma=40.0) * queries).mu_squared)


@given(st.floats(0.01, 1e5), st.floats(1.0, 1.2), st.integers(1, 3000), DELTAS)
def test_argmax_and_test_cost_less_than_the_gaussian_and_less_with_more_noise(sigma, factor, n, delta):
    for make, sensitivity in ((Charge.gaussian_argmax, 2**0.5), (Charge.threshold_test, 1.0)):
        charge, noisier = make(sigma) * n, make(sigma * factor) * n
        gaussian = Charge.gaussian(sensitivity=sensitivity, sigma=sigma) * n
        assert (np.array(charge.rdp) <= np.array(gaussian.rdp) * (1 + 1e-12)).all()
        assert (np.array(charge.rdp) >= 0.63 * np.array(gaussian.rdp)).all()
        assert (np.array(noisier.rdp) <= np.array(charge.rdp) * (1 + 1e-12)).all()
        assert charge.guarantee(delta).epsilon <= gaussian.guarantee(delta).epsilon * (1 + 1e-9) + 1e-10
        assert noisier.guarantee(delta).epsilon <= charge.guarantee(delta).epsilon * (1 + 1e-9) + 1e-10


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True])
def test_budget_refuses(bad):
    with pytest.raises(InvalidInputError, match="epsilon must be"):
        Budget(bad, 1e-5)


@pytest.mark.parametrize("bad", [0, 1, -1e-5, 1.5, math.nan])
def test_budget_refuses_delta(bad):
    with pytest.raises(InvalidInputError, match="delta must be"):
        Budget(1.0, bad)


def test_budgets_are_partially_ordered():
    assert Budget(1, 1e-6) <= Budget(2, 1e-5)
    assert not Budget(1, 1e-5) <= Budget(2, 1e-6)
    assert not Budget(2, 1e-6) <= Budget(1, 1e-5)
