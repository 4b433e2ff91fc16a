"""DP-SGD's epsilon on a grid of (rate, noise, steps): never below a grid six times finer, at most half a percent above.

Connect-the-dots overestimates whatever the grid (Doroshenko et al. 2022), so a finer one is nearer to the truth and
still above it; dp_accounting composes it, at delta itself, without this package's allowance for rounding.
"""

from __future__ import annotations

import itertools

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld

from pate.dpsgd._calibration import ADJACENCIES, dpsgd_epsilon
from pate.privacy.losses import discretization_interval

RATES, NOISES, STEPS = (0.001, 0.01, 0.05, 0.256, 0.8), (0.7, 1.0, 2.0, 5.0), (1, 10, 100, 1000, 10_000)
CELLS = list(itertools.product(RATES, NOISES, STEPS))
#: Corners, the worst that were found, and what people run.
QUICK = [
    (0.001, 1.0, 10_000),
    (0.001, 2.0, 1000),
    (0.01, 4.0, 10_000),
    (0.01, 0.7, 1000),
    (0.05, 2.0, 10_000),
    (0.256, 2.5, 80),
    (0.256, 5.0, 1000),
    (0.8, 5.0, 1),
]


def converged(sigma, delta, **kwargs):
    """Epsilon on the grid that belongs to it, as a plan finds it from its budget."""
    found = dpsgd_epsilon(sigma, delta=delta, interval=2e-2, **kwargs)
    for _ in range(3):
        interval = discretization_interval(max(found, 1e-2), kwargs["n_steps"])
        found = dpsgd_epsilon(sigma, delta=delta, interval=interval, **kwargs)
    return found, interval


def excess(q, sigma, n_steps, delta, adjacency):
    """How far epsilon is above that of the finer grid, relative; None where no one would train."""
    found, interval = converged(sigma, delta, sample_rate=q, n_steps=n_steps, adjacency=adjacency)
    if not 0.02 <= found <= 60:
        return None
    accountant = pld.PLDAccountant(ADJACENCIES[adjacency], interval / 6)
    step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    return found / accountant.compose(step, n_steps).get_epsilon(delta) - 1


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("cell", [pytest.param(QUICK[0], marks=pytest.mark.long), *QUICK[1:]])
def test_epsilon_is_never_below_a_finer_grid_and_close_to_it(cell, adjacency):
    over = excess(*cell, 1e-5, adjacency)
    assert over is not None
    assert -1e-8 <= over <= 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_whole_grid(adjacency, delta):
    found = {cell: excess(*cell, delta, adjacency) for cell in CELLS}
    over = {cell: value for cell, value in found.items() if value is not None}
    assert len(over) > 55
    assert min(over.values()) >= -1e-8
    assert max(over.values()) <= 5e-3, max(over, key=over.__getitem__)


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_epsilon_is_above_what_privacy_buckets_prove_from_below(adjacency):
    """Rounding losses down instead of up bounds epsilon from below: the truth lies between both."""
    q, sigma, n_steps, interval = 0.05, 1.5, 50, 1e-3
    lower = pld.privacy_loss_distribution.from_gaussian_mechanism(
        sigma,
        sampling_prob=q,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=1e-4,
        neighboring_relation=ADJACENCIES[adjacency],
    ).self_compose(n_steps)
    for delta in (1e-7, 1e-5, 1e-3):
        found = dpsgd_epsilon(
            sigma, delta=delta, sample_rate=q, n_steps=n_steps, adjacency=adjacency, interval=interval
        )
        below = lower.get_epsilon_for_delta(delta)
        assert below <= found <= below + 2 * n_steps * 1e-4 + 0.01 * below


@pytest.mark.parametrize("n_steps", [1, 100, 10_000])
def test_grids_get_finer_with_steps_and_with_smaller_budgets(n_steps):
    grids = [discretization_interval(e, n_steps) for e in np.logspace(-2, 2, 30)]
    assert grids == sorted(grids)
    assert all(2e-6 <= h <= 0.04 for h in grids)
    assert discretization_interval(1.0, 4 * n_steps) <= discretization_interval(1.0, n_steps)
