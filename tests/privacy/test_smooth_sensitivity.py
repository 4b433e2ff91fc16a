"""Smooth-sensitivity releases: on the Lipschitz statistic, and as the 2018 paper made them."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from papernot_smooth import (
    gnmax_local_sensitivity,
    gnss_rdp_papernot2018,
    papernot2018_conditions,
    papernot2018_smooth,
    release_papernot2018,
    threshold_local_sensitivity,
)
from scipy.integrate import quad
from scipy.stats import kstest, norm

from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.privacy.convert import DEFAULT_ORDERS, rdp_overhead, rdp_to_epsilon
from pate.privacy.exact import GaussianNoise, ThresholdTest, exact_divergences
from pate.privacy.noise.source import NoiseSource
from pate.privacy.papernot import rdp_bound
from pate.privacy.publish.gate import query_scores
from pate.privacy.publish.smooth_sensitivity import (
    GRID,
    SmoothSensitivity,
    _draw,
    consensus_cost,
    discounted_maximum,
    gnss_rdp,
    query_cap,
    release_smooth,
    smooth_bound,
    threshold_cost,
)

RELEASE = {"order": 8.0, "beta": 0.0125, "noise_scale": 4.0, "delta": 1e-5}
CONFIDENT = {"threshold": 200.0, "sigma_threshold": 150.0}


def sensitivity(table, u, beta):
    return discounted_maximum((c for c, _ in table.windows(u)), beta, table.values[-1], table.n_windows)


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


@pytest.mark.few(1)
@pytest.mark.parametrize(("beta", "scale", "order"), [(0.05, 3.0, 4.0), (0.02, 6.0, 8.0), (0.1, 2.0, 1.5)])
def test_the_price_of_a_release_is_the_largest_divergence_of_two_normals(beta, scale, order):
    price = gnss_rdp(beta, scale, order)
    grid = [
        renyi(order, min(ratio, 1.0), scale * ratio, scale) for ratio in np.exp(np.linspace(-beta, beta, 9))
    ]  # S' = 1, S = ratio, centres min(S, S') apart
    assert price == pytest.approx(max(grid), rel=1e-6)
    assert grid[-1] == max(grid)


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(("sigma", "m"), [(3.0, 2), (10.0, 3), (10.0, 10), (40.0, 10)])
def test_the_statistic_bounds_the_cost_in_both_directions(sigma, m):
    rng = np.random.default_rng(m)
    counts = np.concatenate([random_counts(rng, 30, m, 120) for _ in range(4)])
    for order in (2.0, 10.0):
        exact = exact_divergences(counts, [order], noise=GaussianNoise(sigma)).per_query()[:, 0]
        cost = consensus_cost(sigma, order, m).cost(query_scores(counts, sigma).rest)
        assert (exact <= cost * (1 + 1e-9) + 1e-150).all()
        assert np.median(cost / np.maximum(exact, 1e-150)) < 4


@pytest.mark.long
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
        s, t = (sensitivity(table, u, beta) for u in (a, b))
        step = abs(table.cost(a).sum() - table.cost(b).sum())
        assert step <= min(s, t) * (1 + 1e-9)
        assert math.exp(-beta) <= s / t * (1 + 1e-9)
        assert s / t <= math.exp(beta) * (1 + 1e-9)
        covered = max(covered, step / s)
    assert covered > 0.1, "sound but useless"


@pytest.mark.long
@pytest.mark.parametrize(("sigma", "n_teachers", "order"), [(1.0, 250, 8.0), (10.0, 1000, 8.0)])
def test_the_sensitivity_is_smooth_where_scores_lie_far_below_the_table(sigma, n_teachers, order):
    # Unanimous votes at little noise: Phi^-1(Pr[not the leader]) is -177 and -71, the table begins at -38.
    beta = 0.0125
    logs = np.array(
        [
            math.log(smooth_bound([[n_teachers - k, k]], sigma, order=order, beta=beta)[1])
            for k in range(n_teachers // 2 + 1)
        ]
    )
    assert np.abs(np.diff(logs)).max() <= beta + 8e-9


@pytest.mark.long
def test_local_sensitivity_against_a_plain_search():
    table = consensus_cost(5.0, 4.0, 3)
    mu, u, beta = math.sqrt(2) / 5, np.array([-4.0, -1.3]), 0.05
    best = 0.0
    for d in range(80):
        e = np.linspace(-d - 1, d, 200 * (2 * d + 1) + 1)[:, None]
        change = table.cost(u + (e + 1) * mu) - table.cost(u + e * mu)
        best = max(best, math.exp(-beta * d) * change.max(axis=0).sum())
    found = sensitivity(table, u, beta)
    assert best <= found * (1 + 1e-12) <= best * 1.01


@pytest.mark.long
@pytest.mark.parametrize(
    ("sigma", "m", "test"), [(10.0, 3, (50.0, 12.0)), (40.0, 10, (80.0, 150.0)), (6.0, 2, (70.0, 4.0))]
)
def test_the_statistic_of_confident_bounds_the_joint_cost_in_both_directions(sigma, m, test):
    rng = np.random.default_rng(m)
    counts = np.concatenate([random_counts(rng, 8, m, 120) for _ in range(4)])
    kwargs = {"threshold": test[0], "sigma_threshold": test[1]}
    for order in (2.0, 8.0):
        exact = exact_divergences(counts, [order], noise=GaussianNoise(sigma), threshold=ThresholdTest(*test))
        costs = np.array([smooth_bound(row[None], sigma, order=order, beta=0.01, **kwargs)[0] for row in counts])
        assert (exact.per_query()[:, 0] <= costs).all()
        assert costs.max() <= query_cap(order, sigma, test[1]) * (1 + 1e-8)
        assert costs.sum() < 4 * exact.per_query().sum()


@pytest.mark.few(1)
@pytest.mark.parametrize("confident", [False, True])
def test_value_and_sensitivity_of_neighbours(confident):
    """What the price assumes: values within either sensitivity, sensitivities within exp(beta), also far from here."""
    rng = np.random.default_rng(11)
    beta, order, sigma, covered = 0.04, 6.0, 10.0, 0.0
    kwargs = {"threshold": 40.0, "sigma_threshold": 8.0} if confident else {}
    for _ in range(40):
        counts = random_counts(rng, rng.integers(1, 6), 4, 60)
        near = changed(rng, counts)
        (r, s), (q, t) = (smooth_bound(c, sigma, order=order, beta=beta, **kwargs) for c in (counts, near))
        assert abs(r - q) <= min(s, t)
        assert abs(math.log(s / t)) <= beta + 8e-9
        covered = max(covered, abs(r - q) / s)
    assert covered > 0.1, "sound but useless"


@pytest.mark.long
def test_sensitivity_of_confident_against_a_plain_search():
    """Every statistic of a histogram within d and its neighbours, at every pair (u, top) in reach."""
    sigma, order, beta, n = 5.0, 4.0, 0.05, 30
    labels, tests = consensus_cost(sigma, order, 3), threshold_cost(sigma, 18.0, 4.0, order, n)
    counts = np.array([[19, 8, 3]])
    u, top = query_scores(counts, sigma).rest[0], 19
    mu, best = math.sqrt(2) / sigma, 0.0

    def cost(score, count):
        return tests.weight[count] * labels.cost(score) + tests.test[count]

    for d in range(60):
        tops = np.arange(max(0, top - d - 1), min(n, top + d + 1) + 1)
        scores = u + np.linspace(-d - 1, d + 1, 60 * (d + 1) + 1) * mu
        values = np.array([cost(scores, c) for c in tops])
        k = 30  # scores 30 apart are one teacher apart
        for i in range(len(tops) - 1):
            for a, b in ((i, i + 1), (i + 1, i), (i, i)):
                best = max(best, math.exp(-beta * d) * np.abs(values[a][k:] - values[b][:-k]).max())
                best = max(best, math.exp(-beta * d) * np.abs(values[a] - values[b]).max())
    found = smooth_bound(counts, sigma, order=order, beta=beta, threshold=18.0, sigma_threshold=4.0)[1]
    assert best <= found <= 1.6 * best


@pytest.mark.long
def test_the_noise_of_the_release_has_the_scale_that_is_charged():
    counts = np.array([[100, 60, 40]] * 20)
    how = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0, delta0=0.01)
    # So many that the grid is fine against the noise.
    value, spread = smooth_bound(np.tile(counts, (50, 1)), 40.0, order=8.0, beta=0.0125)
    noise = NoiseSource(3)
    drawn = np.array([_draw(value, spread, how, 1.2, 1e6, noise) for _ in range(2000)]) * float(GRID)
    centre, deviation = value + how.deviations * 4 * spread + how.price + 1.2, 4 * spread
    # Rounding up moves every number by at most one step of the grid.
    step = float(GRID)
    for x in np.arange(centre - 3 * deviation, centre + 3 * deviation, deviation / 4):
        k = round(x / step) * step
        share = (drawn <= k + 1e-9).mean()
        assert abs(share - norm.cdf(k, centre, deviation)) < 4.5 * math.sqrt(0.25 / 2000)
    assert kstest(drawn - np.random.default_rng(0).uniform(0, step, 2000), norm(centre, deviation).cdf).pvalue > 1e-3
    assert np.allclose(drawn / step, np.rint(drawn / step), atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("delta0", [0.3, 0.02])
def test_the_bound_is_too_low_as_often_as_it_says(delta0):
    """The number without its price and conversion, against the statistic: below it with probability delta0."""
    how = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0, delta0=delta0)
    value, spread = smooth_bound(np.array([[100, 60, 40]] * 1000), 40.0, order=8.0, beta=0.0125)
    noise, n = NoiseSource(5), 2000
    low = np.mean([_draw(value, spread, how, 1.2, 1e6, noise) * GRID < value + how.price + 1.2 for _ in range(n)])
    allowed = norm.cdf((0.01 / (4 * spread)) - norm.isf(delta0)), delta0
    assert low <= delta0 + 4 * math.sqrt(delta0 / n)
    assert low >= 2 * allowed[1] - allowed[0] - 4 * math.sqrt(delta0 / n), "as tight as the grid lets it be"


def test_a_release_is_sanitised_and_shows_no_private_number():
    done = release_smooth([[240, 10]] * 100, 40.0, noise=NoiseSource(), **RELEASE)
    assert (done.kind, done.directions, done.adaptivity) == ("sanitised", "both", "fixed queries")
    assert "too low with probability at most 1e-06 (within delta)" in done.method
    assert done.to_dict()["epsilon"] == done.epsilon == round(done.epsilon, 2)
    drawn = {release_smooth([[240, 10]] * 100, 40.0, noise=NoiseSource(k), **RELEASE).epsilon for k in range(6)}
    assert len(drawn) > 2
    assert release_smooth([[240, 10]], 40.0, noise=NoiseSource(1), **RELEASE).kind == "seeded"
    assert "counts" not in repr(consensus_cost(40.0, 8.0, 2))


def test_the_failure_is_taken_out_of_delta():
    how = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0, delta0=4e-6)
    assert how.delta_left(1e-5) == pytest.approx(6e-6, rel=1e-8)
    assert how.deviations == pytest.approx(norm.isf(4e-6), rel=1e-10)
    with pytest.raises(InvalidInputError, match="delta0 must be below delta"):
        release_smooth([[240, 10]], 40.0, noise=NoiseSource(), **RELEASE, delta0=1e-5)
    with pytest.raises(InvalidInputError, match="sum to the number of teachers"):
        release_smooth([[240, 10], [240, 9]], 40.0, noise=NoiseSource(), **RELEASE)
    with pytest.raises(InvalidInputError, match="belong together"):
        release_smooth([[240, 10]], 40.0, noise=NoiseSource(), **RELEASE, threshold=200.0)


def test_what_the_number_costs_other_releases():
    """A Renyi curve for every pair of neighbours; the failure concerns its truth and is in no delta."""
    how = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0)
    cost = how.cost
    assert (cost.delta0, cost.mu_squared) == (0.0, math.inf)
    assert cost.rdp_at([8.0])[0] == how.price
    assert max(cost.orders) < 1 / (1 - math.exp(-0.025))
    at_two = max(
        renyi(2.0, sign * min(ratio, 1.0) + how.deviations * 4 * (ratio - 1), 4 * ratio, 4.0)
        for ratio in np.exp(np.linspace(-0.0125, 0.0125, 5))
        for sign in (-1, 1)
    )
    assert at_two <= cost.rdp_at([2.0])[0] <= at_two * 1.001


@pytest.mark.long
@pytest.mark.parametrize("confident", [False, True])
def test_published_bounds_on_the_votes_of_2018_are_not_below_the_exact_epsilon(confident):
    """640 MNIST queries, GNMax(40) and Confident(200, 150, 40)."""
    votes = published_votes()[:640]
    test = ThresholdTest(200.0, 150.0) if confident else None
    exact = exact_divergences(votes, DEFAULT_ORDERS, noise=GaussianNoise(40.0), threshold=test)
    truth = rdp_to_epsilon(exact.total() * (1 + 1e-8), 1e-5)[0]
    assert truth == pytest.approx(0.929 if confident else 1.350, abs=1e-3)
    how = SmoothSensitivity(order=8.0 if confident else 7.0, beta=0.0125, noise_scale=5.0 if confident else 4.0)
    value, spread = smooth_bound(votes, 40.0, order=how.order, beta=how.beta, **(CONFIDENT if confident else {}))
    overhead = rdp_overhead(how.order, how.delta_left(1e-5))
    most = 640 * query_cap(how.order, 40.0, 150.0 if confident else None)
    noise = NoiseSource(1)
    drawn = np.array([_draw(value, spread, how, overhead, most, noise) for _ in range(400)]) * float(GRID)
    assert (drawn >= truth).all()
    assert np.median(drawn) == pytest.approx(2.47 if confident else 3.06, abs=0.04)


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


def test_conditions_of_2018_are_checked_before_a_number_is_called_sanitised():
    assert papernot2018_conditions(40.0, 14.0, 10) == (True, True)
    parameters = {"beta": 0.01, "noise_scale": 6.0, "delta": 1e-5, "noise": NoiseSource()}
    old = release_papernot2018([[240, 10]] * 10, 40.0, order=14.0, **parameters)
    assert (old.kind, old.directions, old.epsilon) == ("sanitised", "forward", round(old.epsilon, 2))
    # Order 25 at sigma 10: the step B(q one vote worse) - B(q) falls somewhere below q1.
    assert papernot2018_conditions(10.0, 25.0, 10) == (True, False)
    with pytest.raises(InvalidInputError, match="condition C6 of the 2018 paper"):
        release_papernot2018([[240, 10] + [0] * 8] * 10, 10.0, order=25.0, **parameters)


def test_where_c6_fails_a_clearer_query_is_the_more_sensitive_one():
    """What the check finds at sigma 10, order 25, in the 2018 bound itself: steps by one vote, both ends below q0."""
    log_q = np.linspace(-40.0, -9.0, 3000)
    worse = np.log(9 * norm.sf(norm.isf(np.exp(log_q) / 9) - math.sqrt(2) / 10))
    cost, moved = (rdp_bound(v, 10.0, [25.0])[:, 0] for v in (log_q, worse))
    steps = (moved - cost)[moved < 0.25 * (1 - 1e-12)]
    assert (np.diff(steps) < -1e-6).any()


def test_the_2018_sensitivity_of_confident_is_not_smooth_so_no_release_takes_a_threshold():
    beta, test = 0.01, {"threshold": 125.0, "sigma_threshold": 20.0}
    near = [
        papernot2018_smooth([[250 - k, k]], 40.0, order=14.0, beta=beta, delta=1e-5, **test).reveal().smooth_sensitivity
        for k in (81, 82)
    ]
    assert abs(math.log(near[0] / near[1])) > 0.3, "a sensitivity that can be published after all?"
    parameters = {"order": 14.0, "beta": beta, "noise_scale": 6.0, "delta": 1e-5, "noise": NoiseSource()}
    with pytest.raises(TypeError, match="threshold"):
        release_papernot2018([[240, 10]] * 10, 40.0, **parameters, **test)


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


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("n", "order", "fraction", "scale", "epsilon"), [(300, 10.0, 0.25, 8.0, 1.692), (1000, 6.0, 0.2, 5.0, 2.955)]
)
def test_on_the_votes_of_2018_the_lipschitz_release(n, order, fraction, scale, epsilon):
    """Centre plus two deviations of the noise, parameters fitted to these votes: the best case."""
    votes = published_votes()[:n]
    value, spread = smooth_bound(votes, 40.0, order=order, beta=fraction / order)
    price = gnss_rdp(fraction / order, scale, order)
    total, _ = rdp_to_epsilon([value + 2 * scale * spread + price], 1e-5, orders=[order])
    assert total == pytest.approx(epsilon, abs=0.01)
