"""The certified public constants: recomputed, attacked by an optimiser, compared with exact divergences."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from noise_laws import argmax_law, renyi
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_ndtr, ndtr

from pate import ConfidentGNMax, GNMax
from pate.privacy import DEFAULT_ORDERS
from pate.privacy.public_curve import certify, rho_star, threshold_rho_star, vote_cap_rho_star

ORDERS = np.array([1.5, 2.0, 3.3, 8.0, 17.0, 32.0, 64.0])


@pytest.fixture(scope="module")
def plane():
    return certify.Plane()


def three_outcomes(x, y):
    """P(first), P(second), P(neither) by adaptive quadrature: another route than certify's lattice."""

    def win(p, q):
        peak = max(0.0, p, (p + q) / 2)
        f = lambda v: np.exp(-0.5 * (v - p) ** 2) * ndtr(v - q) / np.sqrt(2 * np.pi)  # noqa: E731
        return sum(
            quad(f, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in [(0, peak + 1), (peak + 1, peak + 12)]
        )

    return np.array([win(x, y), win(y, x), ndtr(-x) * ndtr(-y)])


def supremum(order, h):
    """The largest divergence an optimiser finds over x, y (a lower bound on the supremum)."""
    best = 0.0
    for start in [(0.0, 0.0), (1.5, 1.5), (4.0, 4.0), (-0.5 * order * h, 1.0), (2.0 - order * h, 2.0)]:
        f = lambda v: -renyi(three_outcomes(*v), three_outcomes(v[0] - h, v[1] + h), [order])[0]  # noqa: E731
        found = minimize(f, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-13, "maxfev": 150})
        best = max(best, -found.fun)
    return best


def test_measured_constants():
    c = rho_star([2, 4, 8, 16, 32, 64], 40.0) * 40**2 / [2, 4, 8, 16, 32, 64]
    np.testing.assert_allclose(c, [0.640, 0.640, 0.6407, 0.6433, 0.654, 0.704], rtol=2e-3)
    c = rho_star([4, 8, 16, 32], 10.0) * 10**2 / [4, 8, 16, 32]
    np.testing.assert_allclose(c, [0.643, 0.653, 0.701, 0.853], rtol=2e-3)
    c = threshold_rho_star(ORDERS[:-1], 150.0) * 2 * 150**2 / ORDERS[:-1]
    np.testing.assert_allclose(c, 2 / np.pi, rtol=3e-3)


def test_public_epsilons_at_sigma_40():
    orders = 1 + np.logspace(-2, 3.5, 3000)
    convert = np.log1p(-1 / orders) - (np.log(1e-5) + np.log(orders)) / (orders - 1)
    for n, epsilon in [(300, 2.120), (1000, 4.163), (3000, 7.889)]:
        assert np.min(n * rho_star(orders, 40.0) + convert) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.long
def test_table_can_be_recomputed(plane):
    with np.load(certify.TABLE, allow_pickle=False) as stored:
        orders, hs, table = stored["orders"], stored["inverse_sigmas"], stored["table"]
    # The last digit of numpy's powers differs between its versions; what is certified is the stored grid.
    np.testing.assert_allclose(orders, certify.grid_orders(), rtol=1e-14)
    np.testing.assert_allclose(hs, certify.grid_inverse_sigmas(), rtol=1e-14)
    assert (table <= certify.UNIT).all()
    assert (table >= 0.63 * certify.UNIT).all()
    for n in np.searchsorted(hs, [1 / 40, 0.31]):
        some = [0, 60, 110, 140]
        again = certify.constants(hs[n], orders[some], plane)
        np.testing.assert_allclose(table[:, n, some], np.ceil(again * certify.UNIT), atol=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_table_is_what_the_script_makes():
    orders, hs, table = certify.build(jobs=2)
    with np.load(certify.TABLE, allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["orders"], orders)
        np.testing.assert_array_equal(stored["inverse_sigmas"], hs)
        np.testing.assert_allclose(stored["table"].astype(int), table.astype(int), atol=1)


def test_the_table_grows_along_1_over_sigma():
    """Bisection for a noise rests on it."""
    with np.load(certify.TABLE, allow_pickle=False) as stored:
        moments = stored["inverse_sigmas"][None, :, None] ** 2 * stored["table"]
    assert (np.diff(moments, axis=1) > 0).all()


@pytest.mark.long
def test_one_cell_too_many_would_be_noticed(plane):
    """The bound reacts to the surface: it is within 0.3% of a value that is attained."""
    plane.shift(0.1)
    for order in (1.5, 8.0, 32.0):
        attained = (order - 1) * supremum(order, 0.1)
        assert attained <= certify.certify_plane(order, plane) <= 1.003 * attained


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("order", "sigma"), [(1.07, 3.0), (2.2, 40.0), (5.1, 11.3), (21.0, 13.7), (45.0, 40.0), (3.0, 1.1)]
)
def test_no_optimiser_exceeds_the_certificate(order, sigma):
    found, bound = supremum(order, 1 / sigma), rho_star([order], sigma)[0]
    assert found <= bound <= 1.008 * found  # 1.008: both chords, off the grid
    assert bound <= order / sigma**2


@pytest.mark.long
def test_curvature_lemmas(plane):
    """Second differences of G and F never fall below the proved bounds (Lemmas 3 and 4)."""
    rng = np.random.default_rng(0)
    for order, h in [(2.0, 0.025), (8.0, 0.1), (20.0, 0.2), (3.0, 1.0)]:
        plane.shift(h)
        third = min(1.0, np.sqrt(2) * certify.THIRD_ABSOLUTE_MOMENT * h)
        k_g, k_f = certify.curvatures(order, 2 * h * h, np.sqrt(2) * h, third)
        i, k = rng.integers(700, 1900, (2, 4000))
        step = 8
        for di, dk in [(1, 0), (0, 1), (1, 1), (1, -1)]:
            g = [certify.excess(order, *plane.laws(i + s * step * di, k + s * step * dk)) for s in (-1, 0, 1)]
            length = (step * plane.step) ** 2 * (di**2 + dk**2)
            assert ((g[0] + g[2] - 2 * g[1]) / length >= -k_g * (1 + 1e-6)).all()
            f = [np.log1p(v) for v in g]
            assert ((f[0] + f[2] - 2 * f[1]) / length >= -k_f - 1e-6).all()


@pytest.mark.long
def test_probabilities_against_mpmath(plane):
    plane.shift(0.1)
    for i, k in [(900, 1000), (1400, 500), (300, 1700), (0, 1200), (1300, 1300)]:
        x, y = (mpmath.mpf(float(plane.axis[n])) for n in (i, k))
        pdf = lambda v: mpmath.npdf(v - x) * mpmath.ncdf(v - y)  # noqa: E731, B023
        exact = mpmath.quad(pdf, [0, 2, 4, 8, 12, 16, 24, 36])
        assert plane.win[i, k] == pytest.approx(float(exact), rel=1e-12)
        x, y = x - mpmath.mpf(0.1), y + mpmath.mpf(0.1)
        assert plane.first[i, k] == pytest.approx(float(mpmath.quad(pdf, [0, 2, 4, 8, 12, 16, 24, 36])), rel=1e-12)


def neighbours(counts):
    """Every histogram with one vote replaced."""
    for u in np.flatnonzero(counts > 0):
        for b in range(len(counts)):
            if b != u:
                other = counts.copy()
                other[u] -= 1
                other[b] += 1
                yield other


@pytest.mark.few(1)
@pytest.mark.parametrize("sigma", [1.5, 5.0, 20.0])
def test_exact_divergences_stay_below(sigma):
    rng = np.random.default_rng(int(sigma))
    bound, single = rho_star(ORDERS, sigma), threshold_rho_star(ORDERS, sigma)
    largest = np.zeros(len(ORDERS))
    for m in (2, 3, 4, 10):
        rows = [rng.multinomial(round(12 * sigma), rng.dirichlet(np.full(m, 0.4))) for _ in range(4)]
        rows += [np.repeat([round(3 * sigma), 0], [2, m - 2]), np.repeat([1, 0], [1, m - 1]), np.full(m, 6)]
        for counts in rows:
            others = np.array([counts, *neighbours(counts)])
            laws = argmax_law(others, scale=sigma)
            for other in laws[1:]:
                for p, q in ((laws[0], other), (other, laws[0])):
                    d = renyi(p, q, ORDERS)
                    assert (d <= bound).all()
                    largest = np.maximum(largest, d)
            # VoteCap: the changed teacher abstains in the other world, one count moves.
            more = argmax_law(np.array([counts + np.eye(m, dtype=int)[j] for j in range(m)]), scale=sigma)
            for other in more:
                assert (renyi(laws[0], other, ORDERS) <= single).all()
                assert (renyi(other, laws[0], ORDERS) <= single).all()
    assert largest[0] > 0.9 * bound[0]  # and the bound is nearly reached, so the test can fail


@pytest.mark.parametrize("sigma", [4.0, 15.0, 40.0])
def test_the_fast_kernel_never_exceeds_the_public_curve(sigma):
    """Every neighbour of hundreds of histograms, both directions; Confident's joint law below the sum of its parts."""
    rng = np.random.default_rng(round(sigma))
    counts = np.array([rng.multinomial(round(9 * sigma), rng.dirichlet(np.full(10, a))) for a in (0.2, 0.5, 5) * 80])
    contested = np.zeros((40, 10), dtype=int)
    contested[:, :2] = round(4 * sigma) + np.arange(-20, 20)[:, None] * [[0, 1]]
    counts = np.maximum(0, np.concatenate([counts, contested]))
    for mechanism in (GNMax(sigma), ConfidentGNMax(3 * sigma, 2 * sigma, sigma)):
        ratio = mechanism.exact_rdp(counts) / mechanism.public_rdp(DEFAULT_ORDERS)
        assert ratio.max() <= 1
        assert ratio[:, :8].max() > (0.95 if mechanism.family == "gnmax" else 0.5)


def test_threshold_supremum():
    for order, sigma1 in [(1.5, 3.0), (8.0, 10.0), (33.0, 20.0), (30.0, 150.0)]:
        h = 1 / sigma1

        def loss(u, order=order, h=h):
            law = np.array([u, -u]), np.array([u - h, h - u])
            return -np.log1p(certify.excess(order, log_ndtr(law[0]), log_ndtr(law[1]))) / (order - 1)

        grid = np.linspace(-8, 8, 4001)
        start = grid[np.argmin([loss(u) for u in grid])]
        found = -minimize_scalar(loss, bounds=(start - 0.1, start + 0.1), method="bounded").fun
        bound = threshold_rho_star([order], sigma1)[0]
        assert found <= bound <= 1.006 * found
        assert bound <= order / (2 * sigma1**2)


def test_vote_cap_is_the_dearer_of_the_two_kinds_of_step():
    single, pair = threshold_rho_star(ORDERS, 20.0), rho_star(ORDERS, 20.0)
    total = vote_cap_rho_star(ORDERS, 20.0, 5)
    for doubles in range(6):
        assert (doubles * pair + (10 - 2 * doubles) * single <= total * (1 + 1e-12)).all()
    assert (total <= 5 * ORDERS / 20.0**2 * (1 + 1e-12)).all()


def test_shape_of_the_curve():
    orders = np.linspace(1.001, 200, 2000)
    for sigma in (0.3, 0.7, 4.0, 33.0, 40.0, 9e3, 2e4, 1e6):
        curve = rho_star(orders, sigma)
        assert (np.diff(curve) >= -1e-15).all()
        assert (curve <= orders / sigma**2 * (1 + 1e-12)).all()
        assert (rho_star(orders, sigma * 1.01) <= curve).all()
    np.testing.assert_allclose(rho_star([2.0, 9e4], 0.3), [2 / 0.3**2, 9e4 / 0.3**2], rtol=1e-14)
    assert rho_star([1.0], 40.0)[0] <= rho_star([1.01], 40.0)[0]
    assert rho_star([0.5], 40.0)[0] == pytest.approx(0.5 / 1600)


@pytest.mark.parametrize("bad", [[], [[2.0]], [0.0], [np.inf], [np.nan]])
def test_bad_orders(bad):
    if bad == []:
        assert rho_star(bad, 1.0).shape == (0,)
    else:
        with pytest.raises(ValueError, match="orders must be"):
            rho_star(bad, 1.0)


@pytest.mark.parametrize("sigma", [0, -1, np.nan, np.inf, True])
def test_bad_sigma(sigma):
    with pytest.raises(ValueError, match="sigma"):
        rho_star([2.0], sigma)
    with pytest.raises(ValueError, match="sigma1"):
        threshold_rho_star([2.0], sigma)
