"""Exact samplers: the integer path agrees with the fast one, and the laws are right."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from pate.exceptions import InvalidInputError
from pate.privacy.noise import integers, reals
from pate.privacy.noise._endless import LazyUniform, RealNoise, below_exp, exp_interval, tail_interval
from pate.privacy.noise.source import NoiseSource


class Script:
    """Gives the words that it was given, then seeded ones."""

    def __init__(self, *words):
        self.left = list(words)
        self.rest = NoiseSource(11)

    def words(self, size):
        head = np.array([self.left.pop(0) for _ in range(min(size, len(self.left)))], dtype=np.uint64)
        return np.concatenate([head, self.rest.words(size - len(head))])


def test_exp_interval_against_mpmath():
    rng = np.random.default_rng(0)
    mpmath.mp.prec = 600
    try:
        for gamma in [
            Fraction(1),
            Fraction(1, 10**9),
            Fraction(40),
            *(Fraction(float(g)) for g in rng.exponential(3, 60)),
        ]:
            for bits in (20, 64, 200):
                low, high = exp_interval(gamma, bits)
                exact = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * mpmath.mpf(2) ** bits
                assert low <= exact <= high
                assert high - low <= 3
    finally:
        mpmath.mp.prec = 53


def test_tail_interval_against_mpmath():
    rng = np.random.default_rng(1)
    mpmath.mp.prec = 600
    try:
        for z in [Fraction(0), Fraction(9), Fraction(1, 2**60), *(Fraction(float(v)) for v in rng.uniform(0, 8, 30))]:
            for bits in (64, 71, 200):
                low, high = tail_interval(z, bits)
                exact = mpmath.ncdf(-mpmath.mpf(z.numerator) / z.denominator) * mpmath.mpf(2) ** bits
                assert low <= exact <= high
                assert high - low <= 3
    finally:
        mpmath.mp.prec = 53


def test_undecided_bernoulli_asks_for_more_bits():
    """A uniform that starts like exp(-1) is decided by the next bits, one way and the other."""
    mpmath.mp.prec = 300
    start = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(2) ** 64))
    following = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(2) ** 128)) - (start << 64)
    mpmath.mp.prec = 53
    for shift, answer in [(-1000, True), (1000, False)]:
        uniform = LazyUniform(start, 64, Script(following + shift))
        assert below_exp(uniform, Fraction(1)) is answer
        assert uniform.n_bits == 128


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_real_noise_is_the_quantile(kind):
    for word in (2**40 + 1, 2**63 + 2**20, 2**62 + 12345, 2**64 - 3):
        low, high = RealNoise(word, NoiseSource(0), kind).interval(50)
        p = ((word >> 1) + 0.5) / 2**63
        size = mpmath.sqrt(2) * mpmath.erfinv(1 - mpmath.mpf(p)) if kind == "gaussian" else -mpmath.log(p)
        value = size if word & 1 else -size
        assert abs(float(low) - float(value)) < 2e-7  # the word leaves room below p = 2^-23
        assert high - low == Fraction(1, 2**50)


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_argmax_decides_like_the_integer_path(monkeypatch, noise):
    counts = np.random.default_rng(0).multinomial(50, [0.4, 0.3, 0.2, 0.1], 60)
    fast = reals.real_argmax(counts, scale=7.3, source=NoiseSource(4), noise=noise)
    monkeypatch.setattr(reals, "_CLEAR", 100.0)  # nothing is clear: every row takes the exact path
    np.testing.assert_array_equal(reals.real_argmax(counts, scale=7.3, source=NoiseSource(4), noise=noise), fast)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_thresholds_and_rounding_decide_like_the_integer_path(monkeypatch, noise):
    def both():
        values = np.arange(100, 200)
        passed = reals.real_at_least(values, threshold=150.25, scale=12.7, source=NoiseSource(4), noise=noise)
        counts = np.arange(50).reshape(25, 2)
        rounded = [
            reals.rounded_counts(counts, scale=12.7, grid=grid, source=NoiseSource(5), noise=noise)
            for grid in (2.0**-10, 1.0, 32.0)
        ]
        return passed, np.array(rounded)

    fast = both()
    monkeypatch.setattr(reals, "_CLEAR", 100.0)
    for a, b in zip(fast, both(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_integer_noise_decides_like_the_integer_path(monkeypatch):
    def draws():
        return integers.discrete_gaussian(3.7, 300, NoiseSource(8)), integers.discrete_laplace(2.9, 300, NoiseSource(9))

    fast = draws()
    monkeypatch.setattr(integers, "_TRUST", 0.4)
    for a, b in zip(fast, draws(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_tail_words_take_the_exact_path(monkeypatch):
    """A word below 2^30 stands for a normal beyond 6 sigma: its size is found in integers, not from its float."""
    seen = []
    original = RealNoise.interval
    monkeypatch.setattr(RealNoise, "interval", lambda self, bits: seen.append(bits) or original(self, bits))
    source = Script(1, 2**63 + 1)  # first class: a huge positive draw
    assert reals.real_argmax([[0, 40]], scale=10.0, source=source)[0] == 0
    assert seen
    assert reals.rounded_counts([[0, 3]], scale=10.0, grid=0.5, source=Script(1))[0, 0] > 85
    assert integers.discrete_laplace(5.0, 1, Script(1, 0))[0] > 200


def test_uniform_integers_refuse_the_incomplete_block():
    # 2^64 = 1 mod 3: the word 2^64 - 1 would make 0 likelier.
    assert integers.uniform_below([3], Script(2**64 - 1, 5))[0] == 2
    assert integers.uniform_below([3], Script(2**64 - 2))[0] == 2
    draws = integers.uniform_below(np.full(60_000, 6), NoiseSource(1))
    assert np.abs(np.bincount(draws) - 10_000).max() < 500
    assert (integers.uniform_below(np.ones(5, dtype=int), Script()) == 0).all()


@pytest.mark.parametrize(
    ("draw", "scale"), [("gaussian", 0.7), ("gaussian", 4.0), ("gaussian", 40.0), ("laplace", 0.4), ("laplace", 20.0)]
)
def test_mass_functions(draw, scale):
    n = 400_000
    x = getattr(integers, f"discrete_{draw}")(scale, n, NoiseSource(2))
    k = np.arange(-1200, 1201)
    mass = np.exp(-0.5 * (k / scale) ** 2) if draw == "gaussian" else np.exp(-np.abs(k) / scale)
    expected = n * mass / mass.sum()
    seen = np.bincount(x + 1200, minlength=len(k))
    common = expected > 30
    z = (seen - expected)[common] / np.sqrt(expected[common])
    assert np.abs(z).max() < 5
    assert (z**2).mean() == pytest.approx(1, abs=8 / np.sqrt(common.sum()))
    assert abs(seen[~common].sum() - expected[~common].sum()) < 6 * np.sqrt(expected[~common].sum() + 1)


def test_ties_are_broken_uniformly():
    labels = integers.noisy_argmax(np.zeros((60_000, 5), dtype=int), scale=0.3, source=NoiseSource(3))
    assert np.abs(np.bincount(labels) - 12_000).max() < 600
    labels = integers.noisy_argmax(
        np.zeros((60_000, 3), dtype=int), scale=0.5, source=NoiseSource(3), noise="discrete_laplace"
    )
    assert np.abs(np.bincount(labels) - 20_000).max() < 700


def test_operating_system_source_and_shapes():
    assert integers.discrete_gaussian(5.0, (3, 4), NoiseSource()).shape == (3, 4)
    assert integers.discrete_laplace(5.0, (0,), NoiseSource()).shape == (0,)
    assert integers.noisy_argmax(np.zeros((0, 3), dtype=int), scale=1.0, source=NoiseSource()).shape == (0,)
    assert reals.real_argmax(np.zeros((0, 3), dtype=int), scale=1.0, source=NoiseSource()).shape == (0,)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, 2.0**46, 1e-4])
def test_bad_scale(scale):
    for function in (integers.discrete_gaussian, integers.discrete_laplace):
        with pytest.raises(ValueError, match="must be a finite number"):
            function(scale, 3, NoiseSource(0))
    with pytest.raises(ValueError, match="must be a finite number"):
        integers.discrete_laplace(2.0**21, 3, NoiseSource(0))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_bad_real_scale(scale):
    with pytest.raises(ValueError, match="must be a finite number"):
        reals.real_argmax([[1, 2]], scale=scale, source=NoiseSource(0))
    with pytest.raises(ValueError, match="must be a finite number"):
        reals.real_at_least([1], threshold=0.0, scale=scale, source=NoiseSource(0))
    with pytest.raises(ValueError, match="must be a finite number"):
        reals.rounded_counts([[1, 2]], scale=scale, grid=1.0, source=NoiseSource(0))


@pytest.mark.parametrize("grid", [0.3, 3.0, 0.0, -1.0])
def test_bad_grid(grid):
    with pytest.raises(ValueError, match="grid must be"):
        reals.rounded_counts([[1, 2]], scale=1.0, grid=grid, source=NoiseSource(0))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_a_far_cut_costs_no_more_bits(kind):
    """A rare word against a threshold a million deviations away: decided without a million million bits."""
    noise = RealNoise(1, NoiseSource(3), kind)  # an unusually large positive draw
    assert noise.below(Fraction(10**6))
    assert not noise.below(Fraction(-(10**6)))
    assert not RealNoise(1, Script(0, 0), kind).below(Fraction(8))  # so rare that the cut is passed


@pytest.mark.long
def test_rounding_is_that_of_the_real_sum():
    """Coarse and fine grids from the same words: the coarse value is the fine one rounded."""
    counts = np.random.default_rng(0).integers(0, 300, (400, 10))
    fine, coarse = (
        reals.rounded_counts(counts, scale=40.0, grid=grid, source=NoiseSource(6)) for grid in (2.0**-20, 2.0)
    )
    assert np.abs(coarse - fine).max() <= 1.0 + 2.0**-21
    assert (coarse % 2.0 == 0).all()
    assert fine.std() > 0
    assert kstest((fine - counts).ravel() / 40.0, "norm").pvalue > 1e-3


@pytest.mark.parametrize("scale", [1e-3, 40.0, 1e6, 1e12])
def test_any_scale_can_be_sampled(scale):
    counts = np.array([[90, 10], [0, 1000]] * 50)
    labels = reals.real_argmax(counts, scale=scale, source=NoiseSource(1))
    passed = reals.real_at_least(counts[:, 0], threshold=45.0, scale=scale, source=NoiseSource(1))
    if scale == 1e-3:
        np.testing.assert_array_equal(labels, [0, 1] * 50)
        np.testing.assert_array_equal(passed, [True, False] * 50)
    else:
        assert 0 < passed.sum() < 100


@pytest.mark.parametrize("scale", [2.0**-18, 0.3, 9.0])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("clear", [None, 1e9])
def test_fractional_counts_are_whole_ones_in_smaller_units(monkeypatch, scale, noise, clear):
    if clear is not None:  # all by integers
        monkeypatch.setattr(reals, "_CLEAR", clear)
    whole = np.random.default_rng(0).integers(-(2**18), 2**18, size=(24, 3))
    whole[::3] = whole[::3, :1]  # ties
    more = {"scale": scale * 2**16, "noise": noise}
    labels = reals.real_argmax(whole, source=NoiseSource(5), **more)
    assert reals.real_argmax(whole / 2**16, scale=scale, source=NoiseSource(5), noise=noise).tolist() == labels.tolist()
    rounded = reals.rounded_counts(whole, grid=2.0**6, source=NoiseSource(5), **more)
    found = reals.rounded_counts(whole / 2**16, scale=scale, grid=2.0**-10, source=NoiseSource(5), noise=noise)
    assert np.array_equal(found * 2**16, rounded)


@pytest.mark.parametrize("counts", [[[0.1, 1.0]], [[np.nan, 1.0]], [[2.0**36, 1.0]], [[0.5]], [0.5, 1.0]])
def test_fractional_counts_that_floats_do_not_hold_are_refused(counts):
    for draw in (reals.real_argmax, lambda c, **more: reals.rounded_counts(c, grid=0.5, **more)):
        with pytest.raises(InvalidInputError, match="multiples of 2"):
            draw(np.array(counts), scale=4.0, source=NoiseSource(0))


def test_bad_counts():
    for counts in ([1, 2], [[0.1, 1.0]], [[1]], [[2**41, 0]]):
        with pytest.raises(ValueError, match="counts must"):
            reals.real_argmax(counts, scale=1.0, source=NoiseSource(0))
    with pytest.raises(ValueError, match="limits"):
        integers.uniform_below([0], NoiseSource(0))
    with pytest.raises(ValueError, match="gamma"):
        exp_interval(Fraction(-1), 10)


def test_floating_point_is_as_good_as_the_samplers_assume():
    rng = np.random.default_rng(0)
    from scipy.special import ndtri

    mpmath.mp.prec = 120
    try:
        words = [2**30, 2**31 + 1, 2**40, 2**62, 2**63 - 1, *(int(2**e) for e in rng.uniform(30, 63, 200))]
        p = (np.array(words, dtype=np.uint64).astype(np.float64) + 0.5) * 2.0**-64
        logs = np.log(p)
        for value, log, normal in zip(p, logs, ndtri(p), strict=True):
            exact = mpmath.mpf(float(value))
            assert abs(mpmath.log(exact) / float(log) - 1) < 1e-14
            assert abs(mpmath.ncdf(float(normal)) / exact - 1) < 1e-12  # |z| error below 1e-12 / |z|
        gammas = rng.uniform(0, 600, 300)
        for gamma, value in zip(gammas, np.exp(-gammas), strict=True):
            assert abs(float(value) / mpmath.exp(-mpmath.mpf(float(gamma))) - 1) < 1e-14
    finally:
        mpmath.mp.prec = 53
