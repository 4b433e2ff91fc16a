"""Exact laws, and the sequential law test with planted faults."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from pate.audit.law_test import _dirichlet, law_bank, law_test
from pate.dpsgd._noise import gaussian
from pate.noise import discrete_gaussian, noisy_argmax, real_argmax, real_at_least
from pate.noise.laws import NOISES, argmax_law, confident_law, pass_probability, renyi
from pate.noise.source import NoiseSource


def test_golden_log_probabilities():
    # shared/golden_dev.json: log-space brute force.
    law = argmax_law([[250] + [0] * 9, [200, 30, 10, 5, 5, 0, 0, 0, 0, 0]], scale=40.0)
    assert np.log(law[0, 1]) == pytest.approx(-12.244783936634992, rel=1e-12)
    law = argmax_law([[250] + [0] * 9, [200, 30, 10, 5, 5, 0, 0, 0, 0, 0]], scale=10.0)
    np.testing.assert_allclose(
        np.log(law[1, [1, 2, 3, 5]]), [-75.66238687, -93.77226937, -98.61047168, -103.57303621], atol=1e-8
    )


@pytest.mark.parametrize("noise", NOISES)
def test_laws_sum_to_one_and_follow_the_classes(noise):
    counts = np.array([[30, 20, 20, 0], [0, 0, 0, 0], [50, 0, 0, 0]])
    law = argmax_law(counts, scale=9.0, noise=noise)
    np.testing.assert_allclose(law.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(law[1], 0.25, atol=1e-13)
    order = [2, 0, 3, 1]
    np.testing.assert_allclose(argmax_law(counts[:, order], scale=9.0, noise=noise), law[:, order], rtol=1e-12)


def test_discrete_law_by_enumeration():
    sigma, counts = 0.8, np.array([2, 1, 1])
    x = np.arange(-7, 8)
    mass = np.exp(-0.5 * (x / sigma) ** 2)
    mass /= mass.sum()
    expected = np.zeros(3)
    for i, j, k in itertools.product(range(len(x)), repeat=3):
        scores = counts + x[[i, j, k]]
        top = scores == scores.max()
        expected[top] += mass[i] * mass[j] * mass[k] / top.sum()
    np.testing.assert_allclose(argmax_law([counts], scale=sigma, noise="discrete_gaussian")[0], expected, atol=1e-13)


def test_two_classes_closed_forms():
    gap = np.array([0, 3, 10, 40, 90])
    counts = np.stack([gap, 0 * gap], 1)
    np.testing.assert_allclose(argmax_law(counts, scale=7.0)[:, 1], ndtr(-gap / 7 / np.sqrt(2)), rtol=1e-12)
    tail = np.exp(-gap / 7.0) * (0.5 + gap / 28.0)
    np.testing.assert_allclose(argmax_law(counts, scale=7.0, noise="laplace")[:, 1], tail, rtol=1e-12)


def test_many_classes():
    law = argmax_law([[5] + [0] * 999], scale=4.0, noise="discrete_gaussian")
    assert law.sum() == pytest.approx(1, abs=1e-11)
    assert law[0, 0] > law[0, 1]


def test_threshold_probabilities():
    values = np.array([10, 20, 30])
    for noise in NOISES:
        p = pass_probability(values, threshold=20.0, scale=6.0, noise=noise)
        assert p[0] + p[2] == pytest.approx(
            1
            + (noise.startswith("discrete"))
            * (p[2] - pass_probability([29], threshold=20.0, scale=6.0, noise=noise)[0]),
            abs=1e-12,
        )
        assert (np.diff(p) > 0).all()
    half = pass_probability([10], threshold=9.5, scale=2.0, noise="discrete_gaussian")
    assert half == pass_probability([10], threshold=10.0, scale=2.0, noise="discrete_gaussian")


def test_discrete_rdp_is_the_gaussian_one():
    rng = np.random.default_rng(0)
    orders = [1.5, 2, 8, 20]
    for sigma in (1.0, 4.0):
        for _ in range(20):
            counts = rng.multinomial(12, rng.dirichlet(np.ones(4)))
            other = counts.copy()
            other[counts.argmax()] -= 1
            other[rng.integers(4)] += 1
            p, q = argmax_law([counts, other], scale=sigma, noise="discrete_gaussian")
            assert (renyi(p, q, orders) <= np.array(orders) / sigma**2 * (1 + 1e-12)).all()


# ---- the law test ----

SIGMA, SIGMA1, THRESHOLD, M = 40.0, 150.0, 200.0, 10


RNG = np.random.default_rng(1)


def pick(scores):
    """Argmax of integer scores, ties at random."""
    top = scores == scores.max(axis=1, keepdims=True)
    return (top * (1 + RNG.random(scores.shape))).argmax(axis=1)


def sampler(noise, source, sigma=SIGMA):
    if noise == "discrete_gaussian":
        return lambda c: noisy_argmax(c, scale=sigma, source=source)
    if noise == "discrete_laplace":
        return lambda c: noisy_argmax(c, scale=sigma, source=source, noise=noise)
    return lambda c: real_argmax(c, scale=sigma, source=source, noise=noise)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("scale", "m"), [(40.0, 10), (2.0, 3)])
def test_right_samplers_are_not_rejected(noise, scale, m):
    source = NoiseSource(21)
    result = law_test(
        sampler(noise, source, scale),
        lambda c: argmax_law(c, scale=scale, noise=noise),
        law_bank(m, scale),
        max_draws=200_000,
    )
    assert not result.rejected
    assert result.log_e < 5


def faults(source):
    def draw(shape, sigma=SIGMA):
        return discrete_gaussian(sigma, shape, source)

    return {
        "sigma * 0.9": lambda c: noisy_argmax(c, scale=0.9 * SIGMA, source=source),
        "sigma * 1.1": lambda c: noisy_argmax(c, scale=1.1 * SIGMA, source=source),
        "no noise on empty classes": lambda c: pick(c + np.where(c > 0, draw(c.shape), 0)),
        "unequal noise": lambda c: pick(c + np.rint(draw(c.shape) * np.linspace(0.9, 1.1, M)).astype(int)),
        "Laplace of the same variance": lambda c: noisy_argmax(
            c, scale=SIGMA / np.sqrt(2), source=source, noise="discrete_laplace"
        ),
        "the true argmax": lambda c: c.argmax(axis=1),
        "lowest-index ties": lambda c: (c + draw(c.shape)).argmax(axis=1),
        "one noise for all classes": lambda c: pick(c + draw((len(c), 1))),
    }


@pytest.mark.parametrize("name", list(faults(NoiseSource(0))))
def test_planted_faults_are_found(name):
    result = law_test(
        faults(NoiseSource(31))[name],
        lambda c: argmax_law(c, scale=SIGMA, noise="discrete_gaussian"),
        law_bank(M, SIGMA),
        batch=20_000 if "ties" in name else 2_000,
        max_draws=4_000_000 if "ties" in name else 400_000,
    )
    assert result.rejected


def test_lowest_index_ties_at_small_sigma():
    source = NoiseSource(6)
    result = law_test(
        lambda c: (c + discrete_gaussian(4.0, c.shape, source)).argmax(axis=1),
        lambda c: argmax_law(c, scale=4.0, noise="discrete_gaussian"),
        law_bank(5, 4.0),
        max_draws=200_000,
    )
    assert result.rejected


def confident(source, *, sigma=SIGMA, sigma1=SIGMA1, every_count=False, argmax_sigma1=False, same=False):
    def sample(c):
        if every_count:
            passed = (c + np.rint(sigma1 * gaussian(source, c.size).numpy().reshape(c.shape))).max(axis=1) >= THRESHOLD
        else:
            passed = real_at_least(c.max(axis=1), threshold=THRESHOLD, scale=sigma1, source=source)
        if same:  # one noise for both
            noisy = c + sigma * gaussian(source, c.size).numpy().reshape(c.shape)
            return np.where(noisy.max(axis=1) >= THRESHOLD, noisy.argmax(axis=1), M)
        label = real_argmax(c, scale=sigma1 if argmax_sigma1 else sigma, source=source)
        return np.where(passed, label, M)

    return sample


@pytest.mark.parametrize(
    ("changes", "rejected"),
    [
        ({}, False),
        ({"sigma1": 0.9 * SIGMA1}, True),
        ({"sigma1": 1.1 * SIGMA1}, True),
        ({"sigma": 0.9 * SIGMA}, True),
        ({"sigma": 1.1 * SIGMA}, True),
        ({"every_count": True}, True),
        ({"argmax_sigma1": True}, True),
        ({"same": True}, True),
    ],
)
def test_confident(changes, rejected):
    result = law_test(
        confident(NoiseSource(41), **changes),
        lambda c: confident_law(c, threshold=THRESHOLD, scale1=SIGMA1, scale2=SIGMA),
        law_bank(M, SIGMA, threshold=THRESHOLD, scale1=SIGMA1),
        max_draws=600_000,
    )
    assert result.rejected is rejected


def test_alternatives_speed_up_and_keep_the_level():
    source = NoiseSource(51)
    law = lambda f: lambda c: argmax_law(c, scale=f * SIGMA, noise="discrete_gaussian")  # noqa: E731
    rivals = {f"sigma * {f}": law(f) for f in (0.9, 1.1)}
    bank = law_bank(M, SIGMA)
    wrong = law_test(sampler("discrete_gaussian", source, 1.04 * SIGMA), law(1), bank, alternatives=rivals, batch=500)
    assert wrong.rejected
    right = law_test(sampler("discrete_gaussian", source), law(1), bank, alternatives=rivals, max_draws=100_000)
    assert not right.rejected


def test_the_e_process_has_expectation_one():
    """Under the null the mean of the stopped e-value is 1 (checked on a two-outcome law by exact enumeration)."""
    null = np.array([[0.3, 0.7]])
    n = 12
    total = sum(
        binom.pmf(k, n, 0.3) * np.exp(_dirichlet(np.array([[k, n - k]], dtype=float), null)[0]) for k in range(n + 1)
    )
    assert total == pytest.approx(1, rel=1e-9)


def test_law_test_errors():
    fair = lambda c: np.full((len(c), 2), 0.5)  # noqa: E731
    assert law_test(lambda c: np.full(len(c), 7), fair, [[0, 0]]).rejected
    with pytest.raises(ValueError, match="whole numbers"):
        law_test(lambda c: np.zeros(len(c)), fair, [[0, 0]])
    with pytest.raises(ValueError, match="bank"):
        law_test(lambda c: np.zeros(len(c), dtype=int), fair, [])
