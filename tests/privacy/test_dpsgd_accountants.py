"""Accountants of DP-SGD side by side: the 2016 paper's figure, who is above whom, and what is no bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from pate import InvalidInputError
from pate.privacy import dpsgd_epsilons, gdp_to_epsilon
from pate.privacy.compose.dpsgd_accountants import _log_moment

#: Abadi et al. 2016, section 5.1 and figure 2: q .01, sigma 4, delta 1e-5.
PUBLISHED = {
    100: {"moments": 1.26, "strong composition, 2016": 9.34},
    400: {"moments": 2.55, "strong composition, 2016": 24.22},
}


def of(noise_multiplier, **kwargs):
    return {row.accountant: row for row in dpsgd_epsilons(noise_multiplier, **kwargs)}


@pytest.mark.parametrize("epochs", PUBLISHED)
def test_the_2016_papers_figure(epochs):
    found = of(4.0, sample_rate=0.01, n_steps=100 * epochs, delta=1e-5)
    for name, epsilon in PUBLISHED[epochs].items():
        assert found[name].epsilon == pytest.approx(epsilon, rel=0.011 if (name, epochs) == ("moments", 400) else 2e-3)
    bounds = [row.epsilon for row in found.values() if row.is_bound]
    assert list(found)[:4] == ["pld", "rdp", "moments", "strong composition"]
    assert bounds == sorted(bounds)
    # The paper's constants flatter strong composition: proved ones give half as much again.
    assert found["strong composition"].epsilon > 1.5 * found["strong composition, 2016"].epsilon


@pytest.mark.long
@settings(max_examples=20)
@given(
    q=st.floats(0.002, 0.4),
    sigma=st.floats(0.9, 6),
    n_steps=st.integers(1, 2000),
    log_delta=st.floats(-8, -3),
    adjacency=st.sampled_from(["add-or-remove", "replace-one"]),
)
def test_every_bound_is_above_the_tightest_and_estimates_are_marked(q, sigma, n_steps, log_delta, adjacency):
    found = of(sigma, sample_rate=q, n_steps=n_steps, delta=10**log_delta, adjacency=adjacency)
    tightest = found["pld"].epsilon
    for row in found.values():
        assert row.is_bound is (row.accountant not in ("gdp limit", "strong composition, 2016"))
        if row.is_bound:
            assert row.epsilon >= tightest * (1 - 1e-4)  # of one step others are exact, losses on a grid are not
    assert ("strong composition" in found) is (adjacency == "add-or-remove")


def test_the_central_limit_is_below_the_truth_where_it_is_used_most():
    """Few steps, little noise, a small rate: a curve drawn with it would promise what does not hold."""
    found = of(0.7, sample_rate=0.002, n_steps=500, delta=1e-5)
    assert found["gdp limit"].epsilon < 0.5 * found["pld"].epsilon
    assert not found["gdp limit"].is_bound


@pytest.mark.parametrize(("adjacency", "apart"), [("add-or-remove", 1), ("replace-one", 2)])
def test_without_sampling_all_bound_the_exact_gaussian(adjacency, apart):
    sigma, n_steps = 20.0, 30
    found = of(sigma, sample_rate=1.0, n_steps=n_steps, delta=1e-5, adjacency=adjacency)
    exact = gdp_to_epsilon(apart * math.sqrt(n_steps) / sigma, 1e-5)
    assert exact <= found["pld"].epsilon * (1 + 1e-9) <= 1.005 * exact
    for name in found.keys() & {"rdp", "moments", "strong composition"}:
        assert found[name].epsilon >= exact


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 4.0), (0.2, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize("moment", [1, 5, 32])
def test_a_log_moment_is_the_integral_and_the_larger_of_both_directions(q, sigma, moment):
    x = np.linspace(-30 * sigma, 30 * sigma + 40, 400_001)
    null = norm.logpdf(x, 0, sigma)
    stay = null + math.log1p(-q) if q < 1 else np.full_like(x, -np.inf)
    mixed = np.logaddexp(stay, math.log(q) + norm.logpdf(x, 1, sigma))

    def moment_of(p, other):
        return math.log(np.exp((moment + 1) * p - moment * other).sum() * (x[1] - x[0]))

    found = _log_moment(sigma, q, moment)
    assert found == pytest.approx(moment_of(mixed, null), rel=1e-6, abs=1e-10)
    assert moment_of(null, mixed) <= found * (1 + 1e-9) + 1e-10


def test_more_noise_or_fewer_steps_never_cost_more():
    def row(sigma, n_steps):
        return np.array([r.epsilon for r in dpsgd_epsilons(sigma, sample_rate=0.02, n_steps=n_steps, delta=1e-5)])

    assert (row(2.0, 400) <= row(1.5, 400)).all()
    assert (row(1.5, 200) <= row(1.5, 400)).all()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"sample_rate": 1.5}, "sample_rate"),
        ({"n_steps": 0}, "n_steps"),
        ({"delta": 1.0}, "delta"),
        ({"adjacency": "swap"}, "adjacency"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(wrong, named):
    right = {"noise_multiplier": 1.0, "sample_rate": 0.1, "n_steps": 10, "delta": 1e-5}
    with pytest.raises(InvalidInputError, match=named):
        dpsgd_epsilons(**(right | wrong))


@pytest.mark.long
@pytest.mark.timeout(60)  # it would take two minutes at each delta
@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one"])
def test_extreme_settings_take_no_time_and_are_bounds_or_refused(adjacency, caplog):
    run = {"sample_rate": 0.01, "n_steps": 1000, "adjacency": adjacency}
    for delta in (0.05, 0.3, 0.9):
        rows = {row.accountant: row.epsilon for row in dpsgd_epsilons(1.0, delta=delta, **run)}
        assert 0 <= rows["pld"] <= rows["rdp"] < 2
    tiny = {"sample_rate": 1e-6, "n_steps": 10, "delta": 1e-15, "adjacency": adjacency}
    rows = {row.accountant: row.epsilon for row in dpsgd_epsilons(1e4, **tiny)}
    assert rows["rdp"] >= rows["pld"] > rows["gdp limit"] > 0  # dp_accounting alone says 0: its sum is below rounding
    with pytest.raises(InvalidInputError, match="noise_multiplier"):
        dpsgd_epsilons(1e155, delta=1e-5, **run)
    assert not caplog.records  # the dependency's own lines stay off the screen
