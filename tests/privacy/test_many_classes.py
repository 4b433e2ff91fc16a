"""The exact law of 2 to 10,000 classes against an independent integration, and the proof of its step."""

from __future__ import annotations

import exact_reference as reference
import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr

from pate.exceptions import PateError
from pate.privacy.exact import GaussianNoise, LaplaceNoise, ThresholdTest, per_teacher_rdp
from pate.privacy.exact import _log_space as log_space
from pate.privacy.exact._histograms import distinct_histograms, group_counts
from pate.privacy.exact._laws import exact_divergences, log_probs
from pate.privacy.exact._pld import dominating_masses
from pate.privacy.exact._quadrature import ALIASING, allowance, strip_log
from pate.privacy.publish.gate import query_scores

ENGINES = ["auto", "numpy", "log"]
ORDERS = (1.25, 2.0, 8.0, 32.0, 256.0)


def ties(m):
    return [30] * m


def near_ties(m):
    return [31] * (m // 2) + [30] * (m - m // 2)


def lone_leader(m):
    return [31] + [30] * (m - 1)


def far_leader(m):
    return [250] + [0] * (m - 1)


def staircase(m):
    return [90 - 12 * (i % 4) for i in range(m)]


def scattered(m):
    rng = np.random.default_rng(m)
    return sorted(rng.multinomial(4 * m, rng.dirichlet(np.full(m, 20.0))).tolist())


def largest_error(found, wanted):
    """Relative; below the smallest double, absolute."""
    pairs = zip(found, wanted, strict=True)
    return max(abs(float(mp.mpf(float(f)) / w - 1)) if w > 1e-290 else abs(float(f)) for f, w in pairs)


def check(counts, noise):
    with mp.workdps(40):
        law, forward, reverse = reference.GroupedLaw(
            counts, noise.scale, laplace=isinstance(noise, LaplaceNoise)
        ).worst(ORDERS)
        logs = log_probs(counts, noise=noise)[0]
        error = max(abs(float(mp.exp(mp.mpf(float(logs[counts.index(c)]))) / p - 1)) for c, p in law.items())
        assert error < 1e-12
        for engine in ENGINES:
            found = exact_divergences(counts, ORDERS, noise=noise, engine=engine)
            assert largest_error(found.forward[0], forward) < 1e-11, engine
            assert largest_error(found.reverse[0], reverse) < 1e-11, engine


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "m", "noise"),
    [
        (ties, 50, GaussianNoise(40.0)),
        (lone_leader, 300, GaussianNoise(40.0)),
        (far_leader, 1000, GaussianNoise(40.0)),
        (near_ties, 10_000, GaussianNoise(40.0)),
        (lone_leader, 1000, LaplaceNoise(40.0)),
    ],
)
def test_many_classes_against_an_independent_integration(shape, m, noise):
    check(shape(m), noise)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [ties, near_ties, lone_leader, far_leader, staircase, scattered])
@pytest.mark.parametrize(
    ("m", "sigma"),
    [(2, 40.0), (10, 40.0), (12, 40.0), (12, 3.0), (30, 40.0), (100, 3.0), (300, 40.0), (3000, 40.0), (10_000, 40.0)],
)
def test_all_numbers_of_classes_against_an_independent_integration(shape, m, sigma):
    counts = shape(m)
    if len(set(counts)) > 8:
        # The reference integrates every neighbour on its own: a few distinct counts do.
        counts = [8 * (c // 8) for c in counts]
    check(counts, GaussianNoise(sigma))


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 30, 300, 10_000])
@pytest.mark.parametrize("shape", [ties, near_ties, lone_leader, staircase])
def test_laplace_noise_against_an_independent_integration(shape, m):
    check(shape(m), LaplaceNoise(5.0))


@pytest.mark.few(8)
@pytest.mark.parametrize("m", [2, 8, 9, 12, 13, 30, 60, 101, 250, 1000, 3001, 10_000])
@pytest.mark.parametrize("shape", [ties, near_ties, lone_leader, far_leader, staircase, scattered])
def test_engines_agree_and_the_law_sums_to_one(m, shape):
    counts = shape(m)
    if len(set(counts)) > 12:
        counts = [5 * (c // 5) for c in counts]
    noise = GaussianNoise(40.0)
    test = ThresholdTest(60.0, 30.0)
    found = {e: exact_divergences(counts, ORDERS, noise=noise, threshold=test, engine=e) for e in ENGINES}
    for engine in ENGINES[:2]:
        np.testing.assert_allclose(found[engine].forward, found["log"].forward, rtol=2e-11)
        np.testing.assert_allclose(found[engine].reverse, found["log"].reverse, rtol=2e-11)
    logs = log_probs(counts, noise=noise, threshold=test)[0]
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("y", [0.1, 0.5, 1.05, 2.1, 2.8])
def test_the_strip_bounds_the_distribution_function_off_the_axis(y):
    t = np.concatenate([[-3000.0, -200.0, -39.0], np.linspace(-30, 12, 400)])
    found = strip_log(t, y)
    assert (np.diff(found) <= 0).all()
    assert (found <= y * y / 2).all()
    with mp.workdps(60):
        for a, b in zip(t, found, strict=True):
            z = mp.mpc(float(a), y)
            if a < -40:  # the continued fraction of erfc does not converge off the axis: Mills' ratio does
                exact = mp.log(abs(mp.exp(-z * z / 2) / -z * (1 - z**-2 + 3 * z**-4 - 15 * z**-6)))
                exact -= mp.log(
                    mp.exp(-(z.real**2) / 2) / -z.real * (1 - z.real**-2 + 3 * z.real**-4 - 15 * z.real**-6)
                )
            else:
                exact = mp.log(abs(mp.erfc(-z / mp.sqrt(2)))) - mp.log(mp.erfc(-z.real / mp.sqrt(2)))
            assert float(exact) <= b + 1e-7


@pytest.mark.few(12)
@pytest.mark.parametrize("seed", range(20))
def test_the_error_of_the_trapezoid_is_within_the_proved_bound(seed):
    """At steps so coarse that the error can be seen; a finer lattice tells it. The bound holds for every y."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 60))
    c = -np.sort(rng.exponential(rng.choice([1e-3, 1.0, 4.0]), m))
    step, offset = float(rng.uniform(0.3, 0.8)), float(rng.uniform())
    coarse, fine = (np.arange(-60, 60) + offset) * step, np.arange(-45, 45, 0.01)

    def log_integrand(x, j):
        t = x[:, None] - c
        return log_ndtr(t).sum(axis=1) - log_ndtr(t[:, j]) - t[:, j] ** 2 / 2

    bounds = []
    last, t = log_integrand(coarse, m - 1), coarse[:, None] - c
    for y in (0.4, 0.7, 1.0, 1.5, 2.0, 2.5):
        raised = 2 * strip_log(t - step, y)[:, :-1].sum(axis=1) + step * np.maximum(t[:, -1], 0)
        mean = np.logaddexp.reduce(last + raised) - np.logaddexp.reduce(last)
        rate = np.exp(-2 * np.pi * y / step)
        bounds.append(np.exp(min(np.log(2 * rate / (1 - rate)) + y * y / 2 + mean / 2, 100.0)))
    for j in {0, m // 2, m - 1}:
        exact = np.exp(log_integrand(fine, j)).sum() * 0.01
        wrong = abs(np.exp(log_integrand(coarse, j)).sum() * step / exact - 1)
        assert wrong <= min(bounds) + 1e-13


def test_the_allowance_is_the_bound_solved_for_the_mean():
    y, largest = allowance(0.2)
    rate = np.exp(-2 * np.pi * y / 0.2)
    assert 2 * rate / (1 - rate) * np.exp(y * y / 2 + largest / 2) == pytest.approx(ALIASING, rel=1e-9)


@pytest.mark.long
def test_what_stands_on_the_law_of_many_classes():
    """Scores of gates, sums by teacher, and the dominating pair's hockey-stick, each against the reference."""
    counts, sigma, order = lone_leader(1000), 40.0, 8.0
    noise = GaussianNoise(sigma)
    with mp.workdps(40):
        law = reference.GroupedLaw(list(counts), sigma)
        p = law.law(law.sizes)
        by_loser = {c: [mp.mpf(0), mp.mpf(0)] for c in p}
        curve = {side: dict.fromkeys((-0.002, 0.0, 0.001, 0.003), mp.mpf(0)) for side in (0, 1)}
        for u, _, outcomes in law.pairs():
            turned = [(n, y, x) for n, x, y in outcomes]
            for side, pairs in enumerate((outcomes, turned)):
                by_loser[u][side] = max(by_loser[u][side], reference.grouped_divergence(pairs, order))
                for e in curve[side]:
                    stick = sum(n * max(x - mp.exp(e) * y, 0) for n, x, y in pairs)
                    curve[side][e] = max(curve[side][e], stick)
        scores = query_scores([counts], sigma)
        for found, wanted in (
            (scores.answers[0, 0], p[31]),
            (scores.answers[0, -1], p[30]),
            (scores.rest[0], 1 - p[31]),
        ):
            assert abs(float(mp.erfc(-mp.mpf(float(found)) / mp.sqrt(2)) / 2 / wanted - 1)) < 1e-11
        n_teachers = sum(counts)
        labels = np.repeat(np.arange(1000), counts)[:, None]
        found = per_teacher_rdp(labels, [order], noise=noise)
        assert found.shape == (n_teachers, 1, 2)
        for teacher, count in ((0, 31), (n_teachers - 1, 30)):
            for side in (0, 1):
                # What the sum of all teachers adds for its own rounding is 1e-14.
                assert abs(float(found[teacher, 0, side] / by_loser[count][side] - 1)) < 1e-10
    masses = dominating_masses(group_counts(distinct_histograms(np.array([counts])).rows), noise, 1e-3)
    for side in (0, 1):
        for e, wanted in curve[side].items():
            inside = masses.losses > e + 1e-9
            stick = (masses.masses[side, 0] * -np.expm1(e - masses.losses))[inside].sum()
            # On the lattice the chords meet the curve.
            assert stick == pytest.approx(float(wanted), rel=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_law_that_does_not_sum_to_one_is_integrated_again(monkeypatch, engine):
    """With the proof switched off, the independent sum is what catches a coarse step."""
    from pate.privacy.exact import _quadrature as quadrature

    monkeypatch.setattr(quadrature, "allowance", lambda step: (7 * step, np.inf))
    monkeypatch.setattr(log_space, "allowance", lambda step: (7 * step, np.inf))
    counts, noise = [30] * 1000, GaussianNoise(40.0)
    if engine == "log":
        with pytest.raises(PateError, match="1000 classes"):
            exact_divergences(counts, ORDERS, noise=noise, engine=engine)
        return
    found = exact_divergences(counts, ORDERS, noise=noise, engine=engine)
    monkeypatch.undo()
    wanted = exact_divergences(counts, ORDERS, noise=noise, engine="log")
    np.testing.assert_allclose(found.forward, wanted.forward, rtol=1e-8)


def test_a_leader_who_seldom_wins_keeps_its_digits():
    """1 - sum of the others has few digits where the others win: it is used only where they seldom do."""
    counts, noise = lone_leader(10_000), GaussianNoise(40.0)
    lead = log_probs(counts, noise=noise)[0][0]
    with mp.workdps(30):
        law = reference.GroupedLaw(counts, 40.0).law({31: 1, 30: 9999})
        assert abs(float(mp.exp(mp.mpf(float(lead))) / law[31] - 1)) < 1e-13
