"""Smooth-sensitivity releases: on the Lipschitz statistic, and as the 2018 paper made them."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, norm

from pate._random import NoiseSource
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.privacy.conversion import rdp_to_epsilon
from pate.privacy.noisy_max import GaussianNoise, exact_divergences
from pate.privacy.papernot_smooth import (
    gnmax_local_sensitivity,
    gnss_rdp_papernot2018,
    papernot2018_smooth,
    release_papernot2018,
    threshold_local_sensitivity,
)
from pate.privacy.ptr import query_scores
from pate.privacy.smooth_sensitivity import consensus_cost, gnss_rdp, release_smooth

RELEASE = {"order": 8.0, "beta": 0.02, "noise_scale": 5.0, "delta": 1e-5}


def random_counts(rng, n, m, k):
    weights = rng.dirichlet(np.full(m, rng.choice([0.05, 0.3, 1.0, 10.0])), size=n)
    return np.stack([rng.multinomial(k, w) for w in weights])


def changed(rng, counts):
    out = counts.copy()
    for row in out:
        row[rng.choice(np.flatnonzero(row))] -= 1
        row[rng.integers(len(row))] += 1
    return out


def renyi(order, centre, s, t):
    """D_order(N(centre, s^2) || N(0, t^2)) by quadrature."""

    def integrand(x):
        return math.exp(order * norm.logpdf(x, centre, s) + (1 - order) * norm.logpdf(x, 0, t))

    return math.log(quad(integrand, -60 * s, 60 * s, limit=400, points=[0, centre])[0]) / (order - 1)


@pytest.mark.parametrize(("beta", "scale", "order"), [(0.05, 3.0, 4.0), (0.02, 6.0, 8.0), (0.1, 2.0, 1.5)])
def test_the_price_of_a_release_is_the_largest_divergence_of_two_normals(beta, scale, order):
    price = gnss_rdp(beta, scale, order)
    grid = [
        renyi(order, min(ratio, 1.0), scale * ratio, scale) for ratio in np.exp(np.linspace(-beta, beta, 9))
    ]  # S' = 1, S = ratio, centres min(S, S') apart
    assert price == pytest.approx(max(grid), rel=1e-6)
    assert grid[-1] == max(grid)


def test_the_price_covers_an_added_deviation():
    beta, scale, order, c = 0.03, 4.0, 5.0, 2.0
    price = gnss_rdp(beta, scale, order, deviations=c)
    for ratio in np.exp(np.linspace(-beta, beta, 9)):
        for sign in (-1, 1):
            centre = sign * min(ratio, 1.0) + c * scale * (ratio - 1)
            assert renyi(order, centre, scale * ratio, scale) <= price * (1 + 1e-7)


def test_the_price_published_in_2018_is_below_a_divergence_that_meets_its_conditions():
    """S = e^beta, S' = 1, centres 1 apart: local sensitivities within S and S', S beta-smooth."""
    beta, scale, order = 0.46 / 14, 6.2328, 14.0
    attained = renyi(order, 1.0, scale * math.exp(beta), scale)
    assert gnss_rdp_papernot2018(beta, scale, order) == pytest.approx(0.517, abs=1e-3)
    assert attained == pytest.approx(1.589, abs=2e-3)
    assert gnss_rdp(beta, scale, order) == pytest.approx(attained, rel=1e-6)


def test_beta_has_a_limit():
    with pytest.raises(InvalidInputError, match="beta"):
        gnss_rdp(0.1, 5.0, 8.0)
    with pytest.raises(InvalidInputError, match="beta"):
        gnss_rdp_papernot2018(0.1, 5.0, 8.0)


@pytest.mark.parametrize(("sigma", "m"), [(3.0, 2), (10.0, 3), (10.0, 10), (40.0, 10)])
def test_the_statistic_bounds_the_cost_in_both_directions(sigma, m):
    rng = np.random.default_rng(m)
    counts = np.concatenate([random_counts(rng, 30, m, 120) for _ in range(4)])
    for order in (2.0, 10.0):
        exact = exact_divergences(counts, [order], noise=GaussianNoise(sigma)).per_query()[:, 0]
        cost = consensus_cost(sigma, order, m).cost(query_scores(counts, sigma).rest)
        assert (exact <= cost * (1 + 1e-9) + 1e-150).all()
        assert np.median(cost / np.maximum(exact, 1e-150)) < 4


@pytest.mark.parametrize(("sigma", "m"), [(4.0, 2), (10.0, 4)])
def test_the_sensitivity_is_smooth_and_covers_every_neighbour(sigma, m):
    rng = np.random.default_rng(7)
    beta, order = 0.04, 6.0
    table = consensus_cost(sigma, order, m)
    covered = 0.0
    for _ in range(40):
        counts = random_counts(rng, rng.integers(1, 6), m, 60)
        near = changed(rng, counts)
        a, b = (query_scores(c, sigma).rest for c in (counts, near))
        s, t = (table.local_sensitivity(u, beta)[0] for u in (a, b))
        step = abs(table.cost(a).sum() - table.cost(b).sum())
        assert step <= min(s, t) * (1 + 1e-9)
        assert math.exp(-beta) <= s / t * (1 + 1e-9)
        assert s / t <= math.exp(beta) * (1 + 1e-9)
        covered = max(covered, step / s)
    assert covered > 0.1, "sound but useless"


def test_local_sensitivity_against_a_plain_search():
    table = consensus_cost(5.0, 4.0, 3)
    mu, u, beta = math.sqrt(2) / 5, np.array([-4.0, -1.3]), 0.05
    best = 0.0
    for d in range(80):
        e = np.linspace(-d - 1, d, 200 * (2 * d + 1) + 1)[:, None]
        change = table.cost(u + (e + 1) * mu) - table.cost(u + e * mu)
        best = max(best, math.exp(-beta * d) * change.max(axis=0).sum())
    found, _ = table.local_sensitivity(u, beta)
    assert best <= found * (1 + 1e-12) <= best * 1.01


def test_the_noise_of_the_release_has_the_scale_that_is_charged():
    counts = np.array([[100, 60, 40]] * 20)
    table = consensus_cost(40.0, 8.0, 3)
    u = query_scores(counts, 40.0).rest
    centre = float(table.cost(u).sum())
    deviation = 5.0 * table.local_sensitivity(u, 0.02)[0]
    noise = NoiseSource(3)
    drawn = np.array([release_smooth(counts, 40.0, noise=noise, deviations=1.0, **RELEASE).epsilon for _ in range(400)])
    offset = rdp_to_epsilon([gnss_rdp(0.02, 5.0, 8.0, deviations=1.0)], 1e-5, orders=[8.0])[0]
    values = drawn - offset
    cap = 20 * 8 / 40**2
    inner = values[(values > 1e-9) & (values < cap - 1e-9)]
    assert len(inner) > 20
    low, high = norm.cdf([0.0, cap], centre + deviation, deviation)

    def law(factor):
        def cdf(x):
            return (norm.cdf(x, centre + deviation, deviation * factor) - low) / (high - low)

        return cdf

    assert kstest(inner, law(1.0)).pvalue > 1e-4
    assert values.min() >= -1e-9
    assert values.max() <= cap + 1e-9
    mean_sign = np.mean(values > centre + deviation)
    assert abs(mean_sign - 0.5) < 0.12


def test_a_release_is_sanitised_and_shows_no_private_number():
    done = release_smooth([[240, 10]] * 100, 40.0, noise=NoiseSource(), **RELEASE)
    assert (done.kind, done.directions, done.adaptivity) == ("sanitised", "both", "fixed queries")
    assert done.to_dict()["epsilon"] == done.epsilon
    drawn = {release_smooth([[240, 10]] * 100, 40.0, noise=NoiseSource(k), **RELEASE).epsilon for k in range(6)}
    assert len(drawn) > 2, "some are clipped at 0, the others are noisy"
    assert release_smooth([[240, 10]], 40.0, noise=NoiseSource(1), **RELEASE).kind == "seeded"
    old = release_papernot2018([[240, 10]] * 10, 40.0, noise=NoiseSource(), **RELEASE)
    assert (old.kind, old.directions) == ("sanitised", "forward")
    assert "counts" not in repr(consensus_cost(40.0, 8.0, 2))


def test_the_2018_analysis_is_wrapped():
    hidden = papernot2018_smooth([[240, 10]] * 10, 40.0, order=14.0, beta=0.03, delta=1e-5)
    assert repr(hidden) == "Sensitive(2018 smooth sensitivity: hidden; .reveal() shows it)"
    with pytest.raises(SensitiveValueError):
        float(hidden)
    assert "epsilon" not in repr(hidden.reveal())


def test_local_sensitivity_of_2018_to_the_right_and_to_the_left():
    """Golden: tensorflow/privacy research/pate_2018/smooth_sensitivity_test.py."""
    found = gnmax_local_sensitivity([[10, 0, 0]], 0.5, 1.5)[0]
    assert found == pytest.approx([3.13503646e-17, 1.60178280e-8, 5.90681786e-3] + [5.99981308] * 7, rel=1e-7)
    counts = np.array([[1000, 500, 300, 200, 0]])
    left = gnmax_local_sensitivity(counts, 250.0, 10.0)[0]
    expected = [0.0] * 298 + [2.77693450548e-7, 2.10853979548e-6] + [2.73113623988e-6] * 1700
    assert left == pytest.approx(expected, rel=1e-7)


def test_threshold_local_sensitivity_of_2018():
    """Golden: the same file, thresholds 16 and 2 over 30 teachers."""
    high = threshold_local_sensitivity([[20, 10, 0]], 30, 16, 2.0, 10.0)[0]
    expected = [1.48454129e-4, 1.47826870e-2, 3.94153241e-2, 6.45775697e-2, 9.01543247e-2, 1.16054002e-1, 1.42180452e-1]
    assert high[:3].tolist() == pytest.approx([0.0] * 3, abs=1e-12)
    assert high[3:10].tolist() == pytest.approx(expected, rel=1e-7)
    low = threshold_local_sensitivity([[20, 10, 0]], 30, 2, 2.0, 10.0)[0]
    expected = [1.60212079e-1, 2.07021132e-1, 2.07021132e-1, 1.93127860e-1, 1.68302106e-1, 1.42180452e-1, 1.16054002e-1]
    far = np.flatnonzero(low > 0.1)
    assert low[far[0] : far[0] + 7].tolist() == pytest.approx(expected, rel=1e-7)


def published_votes():
    home = os.environ.get("PATE_DATA_HOME")
    path = Path(home or "") / "pate2018_mnist_votes.npz"
    if not home or not path.is_file():
        pytest.skip("needs pate2018_mnist_votes.npz under PATE_DATA_HOME")
    with np.load(path, allow_pickle=False) as data:
        return data["counts"].astype(np.int64)


def test_the_published_number_of_2018():
    """2.516 +- .385 at beta .0329: Confident-GNMax(200, 150, 40), 640 queries, order 14, delta 1e-5."""
    votes = published_votes()[:640]
    best = min(
        (
            papernot2018_smooth(
                votes, 40.0, order=14.0, beta=beta, delta=1e-5, threshold=200.0, sigma_threshold=150.0
            ).reveal()
            for beta in (0.45 / 14, 0.46 / 14, 0.47 / 14)
        ),
        key=lambda r: r.epsilon + 2 * r.deviation,
    )
    assert round(best.epsilon, 3) == 2.516
    assert round(best.deviation, 3) == 0.385
    assert round(0.46 / 14, 4) == 0.0329
    assert best.epsilon_before == pytest.approx(1.9988, abs=1e-4)
    assert best.expected_answers == pytest.approx(282.7, abs=0.1)
    # The same release at the exact price of its noise.
    exact = best.epsilon_before + gnss_rdp(0.46 / 14, best.noise_scale, 14.0)
    assert exact == pytest.approx(3.588, abs=2e-3)


@pytest.mark.parametrize(
    ("n", "order", "fraction", "scale", "epsilon"), [(300, 10.0, 0.25, 8.0, 1.776), (1000, 6.0, 0.2, 5.0, 3.137)]
)
def test_on_the_votes_of_2018_the_lipschitz_release(n, order, fraction, scale, epsilon):
    """Centre plus two deviations of the noise, parameters fitted to these votes: the best case."""
    votes = published_votes()[:n]
    table = consensus_cost(40.0, order, 10)
    u = query_scores(votes, 40.0).rest
    noisy = table.cost(u).sum() + 2 * scale * table.local_sensitivity(u, fraction / order)[0]
    total, _ = rdp_to_epsilon([noisy + gnss_rdp(fraction / order, scale, order)], 1e-5, orders=[order])
    assert total == pytest.approx(epsilon, abs=0.01)
