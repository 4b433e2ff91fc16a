"""Matrices of correlated noise: published figures, identities, and sensitivities by trying everything out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate.dpsgd.mechanisms._ftrl import (
    Forest,
    Toeplitz,
    cyclic_sensitivity,
    inverse_coefficients,
    optimised_coefficients,
    root_coefficients,
    tree_step,
)


def square_root(n_bands, n, *, equal_columns=False, momentum=0.0):
    return Toeplitz.of(root_coefficients(n_bands, momentum=momentum), n_steps=n, equal_columns=equal_columns)


def inverse_root(n_bands, n):
    column = inverse_coefficients(root_coefficients(n_bands, inverse=True), n)
    return Toeplitz.of(column, n_steps=n, equal_columns=False)


def spaced(n, separation, most):
    """Yield every set of steps that lie at least ``separation`` apart, at most so many."""

    def after(first, left):
        yield ()
        if left:
            for t in range(first, n):
                for rest in after(t + separation, left - 1):
                    yield (t, *rest)

    return after(0, most)


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize(("n_bands", "rounded"), [(64, 9.64), (32, 11.65), (8, 19.26), (1, 45.30)])
def test_the_error_of_the_banded_square_root_at_512_steps_and_8_turns(n_bands, rounded):
    """Independent noise: sqrt(8 * 513 / 2)."""
    plain = square_root(n_bands, 512)
    assert round(plain.rmse() * plain.sensitivity(64), 2) == rounded
    equal = square_root(n_bands, 512, equal_columns=True)
    assert equal.sensitivity(64) ** 2 == pytest.approx(8)
    assert equal.rmse() * equal.sensitivity(64) <= plain.rmse() * plain.sensitivity(64) * (1 + 1e-12)


@pytest.mark.parametrize(("n_bands", "published"), [(64, 9.64), (32, 11.65), (8, 19.26), (2, 33.83)])
def test_optimised_bands_leave_less(n_bands, published):
    best = Toeplitz.of(optimised_coefficients(n_bands, 512), n_steps=512, equal_columns=True)
    assert best.sensitivity(64) ** 2 == pytest.approx(8)
    assert best.rmse() * best.sensitivity(64) < 0.97 * published


@pytest.mark.few(2)
@pytest.mark.parametrize(("n_bands", "n"), [(2, 2), (2, 30), (3, 30)])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_optimised_bands_are_the_best_of_a_grid(n_bands, n, momentum):
    """Error times sensitivity of the Toeplitz matrix itself, whose columns are all cut by the end of the run alone."""

    def product(column):
        return Toeplitz.of(column, n_steps=n, equal_columns=False).rmse(momentum)

    best = product(optimised_coefficients(n_bands, n, momentum=momentum))
    grid = np.linspace(0, 1.5, 31)
    others = [product([1.0, *tail]) for tail in itertools.product(grid, repeat=n_bands - 1)]
    assert best <= min(others) * (1 + 1e-9)
    assert min(others) < best * 1.01


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_square_root_is_one(momentum):
    n = 40
    C = square_root(n, n, momentum=momentum)
    T = C.dense() * C.lengths
    sums = np.cumsum(momentum ** np.arange(n))
    np.testing.assert_allclose(T @ T, [[sums[i - j] if i >= j else 0 for j in range(n)] for i in range(n)], atol=1e-12)
    np.testing.assert_allclose(
        inverse_coefficients(T[:, 0], n), root_coefficients(n, momentum=momentum, inverse=True), atol=1e-12
    )


@pytest.mark.parametrize("n", [1, 2, 10, 1000, 10_000])
def test_the_largest_error_for_one_turn_and_all_bands_is_landaus_constant(n):
    """The sum of squared coefficients (Fichtenberger, Henzinger, Upadhyay 2023); its bounds: Brutman 1982."""
    found = float((root_coefficients(n) ** 2).sum())
    assert 1 + math.log(n) / math.pi <= found < 1.0663 + math.log(n) / math.pi


@pytest.mark.parametrize(
    "C", [square_root(5, 12, equal_columns=True), square_root(5, 12), inverse_root(3, 12), Forest(12, 12)]
)
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_the_error_is_that_of_the_dense_matrices(C, momentum):
    dense = C.dense()
    norms = np.linalg.norm(dense, axis=0)
    assert norms.max() == pytest.approx(1)
    sums = np.cumsum(momentum ** np.arange(12))
    A = np.array([[sums[i - j] if i >= j else 0 for j in range(12)] for i in range(12)])
    assert C.rmse(momentum) == pytest.approx(np.linalg.norm(A @ np.linalg.pinv(dense)) / math.sqrt(12))


# ---------------------------------------------------------------- sensitivity


@settings(max_examples=60)
@given(
    steps=st.lists(st.floats(0, 1), min_size=1, max_size=10),
    n=st.integers(1, 10),
    separation=st.integers(1, 10),
)
def test_of_all_turns_that_far_apart_none_move_a_falling_toeplitz_more(steps, n, separation):
    """Kalinin and Lampert 2024: the first step, and every ``separation``-th from there."""
    falling = np.sort(np.concatenate([[1.0], steps]))[::-1]
    C = Toeplitz.of(falling, n_steps=n, equal_columns=False)
    dense = C.dense()
    worst = max(float(np.linalg.norm(dense[:, list(turns)].sum(1))) for turns in spaced(n, separation, n))
    found = C.sensitivity(separation)
    assert found == pytest.approx(worst, rel=1e-12)
    assert found == pytest.approx(float(np.linalg.norm(dense[:, ::separation].sum(1))), rel=1e-12)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), separation=st.integers(1, 9), signed=st.booleans())
def test_no_gradients_at_any_turns_of_a_unit_move_more(seed, n, separation, signed):
    """Any lower triangular matrix, turns left out too, gradients of several dimensions."""
    random = np.random.default_rng(seed)
    C = np.tril(random.normal(size=(n, n)))
    if not signed:
        C = abs(C)
    found = cyclic_sensitivity(lambda t: C[t:, t], n, separation)
    moved = []
    for first in range(min(separation, n)):
        turns = np.arange(first, n, separation)
        moved.append(np.linalg.norm(C[:, turns].sum(1)))
        for kept in itertools.product([0, 1], repeat=len(turns)):
            gradients = random.normal(size=(len(turns), 3))
            gradients *= np.array(kept)[:, None] / np.linalg.norm(gradients, axis=1, keepdims=True)
            moved.append(np.linalg.norm(C[:, turns] @ gradients))
    assert max(moved) <= found * (1 + 1e-12)
    if not signed:
        assert max(moved) == pytest.approx(found, rel=1e-12)


def test_adding_columns_up_loses_less_than_the_margin():
    """300 steps, 60 turns, all bands, in fractions."""
    n, separation = 300, 5
    column = [Fraction(1)]
    for k in range(1, n):
        column.append(column[-1] * Fraction(2 * k - 1, 2 * k))
    first = [sum(column[t - s] for s in range(0, t + 1, separation)) for t in range(n)]
    exact = math.sqrt(sum(v * v for v in first) / sum(v * v for v in column))
    assert square_root(n, n).sensitivity(separation) == pytest.approx(exact, rel=1e-12)


# ---------------------------------------------------------------- trees


@pytest.mark.parametrize(
    ("most", "separation", "n_steps", "published"), [(1, 8, 8, 4), (3, 4, 9, 11), (3, 3, 7, 9), (8, 3, 24, 88)]
)
def test_squared_sensitivities_of_trees_that_others_publish(most, separation, n_steps, published):
    """TensorFlow Privacy's tree_aggregation_accountant_test, whose gaps are counted one shorter; our turns are some."""
    forest = Forest(n_steps, n_steps)
    H = forest.dense() * forest.scale
    worst = max(float((H[:, list(turns)].sum(1) ** 2).sum()) for turns in spaced(n_steps, separation, most))
    assert worst == pytest.approx(published)
    cyclic = [float((H[:, first::separation].sum(1) ** 2).sum()) for first in range(separation)]
    found = (forest.sensitivity(separation) * forest.scale) ** 2
    assert found == pytest.approx(max(cyclic))
    if -(-n_steps // separation) <= most:
        assert found <= published + 1e-9


@pytest.mark.parametrize("n_steps", [1, 3, 8, 11, 19, 200])
def test_a_unit_in_every_step(n_steps):
    heights = [h for h in range(10) if n_steps >> h & 1]
    forest = Forest(n_steps, n_steps)
    found = (forest.sensitivity(1) * forest.scale) ** 2
    assert found == pytest.approx(sum(2**h * (2 ** (h + 1) - 1) for h in heights))


@settings(max_examples=40)
@given(n_steps=st.integers(1, 40), restart=st.integers(1, 40), separation=st.integers(1, 45))
def test_the_trees_sensitivity_is_that_of_their_matrix(n_steps, restart, separation):
    forest = Forest(n_steps, restart)
    H = forest.dense()
    assert np.linalg.norm(H, axis=0).max() == pytest.approx(1)
    assert sum(1 << height for _, height in forest.trees) == n_steps
    found = cyclic_sensitivity_of(H, separation)
    assert forest.sensitivity(separation) == pytest.approx(found)


def cyclic_sensitivity_of(H, separation):
    return max(float(np.linalg.norm(H[:, first::separation].sum(1))) for first in range(min(separation, H.shape[1])))


@pytest.mark.parametrize(("n_steps", "restart"), [(1, 1), (8, 8), (13, 13), (20, 6), (64, 64)])
def test_steps_of_a_tree_are_the_lower_triangular_root_of_its_precision(n_steps, restart):
    """L^T L = H^T H, which is all that the law of the noise depends on."""
    forest = Forest(n_steps, restart)
    L = np.zeros((n_steps, n_steps))
    for start, height in forest.trees:
        for step in range(1 << height):
            weights, std = tree_step(step, height)
            t = start + step
            L[t, t] = 1 / std
            for h, weight in weights:
                # the finished block of height h left of the path
                stop = start + (step >> h << h)
                L[t, stop - (1 << h) : stop] = -weight / std
            assert len(weights) == step.bit_count()
    H = forest.dense() * forest.scale
    np.testing.assert_allclose(L.T @ L, H.T @ H, atol=1e-12)


def test_all_nodes_used_at_best_beat_the_finished_ones_alone():
    """From below (Kairouz et al. 2021): a block of height h, from its own node and its halves, has variance 1/a_h."""
    n = 64
    below = math.sqrt(sum(1 / (2 - 2.0**-h) for t in range(1, n + 1) for h in range(7) if t >> h & 1) / n)
    forest = Forest(n, n)
    assert forest.rmse() < below * forest.scale * 0.99
    assert forest.rmse() > 0.6 * below * forest.scale
