"""The exact reference laws of noisy maxima."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from noise_laws import NOISES, argmax_law, pass_probability, renyi
from scipy.special import ndtr


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
