"""Mechanisms: sensitivities, costs, and that what is sampled is what is accounted."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import laplace, norm

from pate import ABSTAIN, ConfidentGNMax, GNMax, InvalidInputError, LNMax, NoisyHistogram
from pate._core.secret import training_seed
from pate.audit import law
from pate.dpsgd.mechanisms._mechanism import gaussian
from pate.mechanisms import NOT_ASKED, Draw, Mechanism
from pate.mechanisms._base import MAX_COUNT_SENSITIVITY, VOTE_L2_SENSITIVITY, capped
from pate.privacy import DEFAULT_ORDERS
from pate.privacy.noise.source import NoiseSource
from pate.privacy.public_curve import rho_star, threshold_rho_star

ALL = [GNMax(sigma=4.0), LNMax(scale=4.0), NoisyHistogram(sigma=4.0), ConfidentGNMax(12.0, 6.0, 4.0)]
DRAWS = 200_000


def winner_law(counts, pdf, cdf):
    """Exact probability of each class under independent noise, by quadrature."""
    probabilities = []
    for j, c in enumerate(counts):
        others = [n for i, n in enumerate(counts) if i != j]
        points = sorted({float(n) for n in counts})
        value, _ = quad(
            lambda x, c=c, others=others: pdf(x - c) * np.prod([cdf(x - n) for n in others]),
            min(counts) - 100,
            max(counts) + 100,
            points=points,
            limit=400,
        )
        probabilities.append(value)
    return np.array(probabilities)


def exact_law(mechanism, counts):
    """(m + 1) outcome law: refusal first."""
    if isinstance(mechanism, LNMax):
        law = winner_law(counts, laplace(scale=mechanism.scale).pdf, laplace(scale=mechanism.scale).cdf)
    else:
        law = winner_law(counts, norm(scale=mechanism.sigma).pdf, norm(scale=mechanism.sigma).cdf)
    passes = 1.0
    if isinstance(mechanism, ConfidentGNMax):
        passes = norm.cdf((max(counts) - mechanism.threshold) / mechanism.sigma_threshold)
    return np.concatenate([[1 - passes], passes * law])


def z_scores(mechanism, counts, law, seed):
    draw = mechanism.sample(np.tile(counts, (DRAWS, 1)), NoiseSource(seed))
    seen = np.bincount(draw.labels + 1, minlength=len(law))
    spread = np.sqrt(DRAWS * law * (1 - law))
    return np.abs(seen - DRAWS * law) / np.maximum(spread, 1e-9), seen


@pytest.mark.few(2)
@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.family)
@pytest.mark.parametrize("counts", [[10, 10, 0], [14, 4, 2], [7, 7, 6], [20, 0, 0]], ids=str)
def test_sampled_law_is_the_exact_law(mechanism, counts):
    law = exact_law(mechanism, counts)
    assert law.sum() == pytest.approx(1, abs=1e-7)
    z, seen = z_scores(mechanism, counts, law, seed=3)
    assert (z[law > 0] < 5).all()
    assert not seen[law == 0].any()


@pytest.mark.few(2)
@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.family)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_wrong_scale_is_seen(mechanism, factor):
    law = exact_law(mechanism, [14, 4, 2])
    z, _ = z_scores(mechanism.scaled(factor), [14, 4, 2], law, seed=3)
    assert z.max() > 8


def standard(noise, like):
    return gaussian(noise, like.size).numpy().reshape(like.shape)


class NoNoiseOnEmptyClasses(GNMax):
    def sample(self, counts, noise, *, max_answers=None):
        scores = counts + np.where(counts > 0, self.sigma * standard(noise, counts), 0)
        return capped(np.ones(len(counts), dtype=bool), scores.argmax(axis=1), max_answers)


class TrueArgmax(GNMax):
    def sample(self, counts, noise, *, max_answers=None):
        return capped(np.ones(len(counts), dtype=bool), counts.argmax(axis=1), max_answers)


class ThresholdNoiseOnEveryCount(ConfidentGNMax):
    def sample(self, counts, noise, *, max_answers=None):
        passed = (counts + self.sigma_threshold * standard(noise, counts)).max(axis=1) >= self.threshold
        return capped(passed, GNMax(self.sigma).sample(counts, noise).labels, max_answers)


class NeverRefuses(ConfidentGNMax):
    def sample(self, counts, noise, *, max_answers=None):
        return GNMax(self.sigma).sample(counts, noise, max_answers=max_answers)


@pytest.mark.parametrize(
    ("faulty", "accounted_as"),
    [
        (GNMax(36.0), GNMax(40.0)),
        (GNMax(44.0), GNMax(40.0)),
        (LNMax(40.0 / math.sqrt(2)), GNMax(40.0)),
        (LNMax(18.0), LNMax(20.0)),
        (NoNoiseOnEmptyClasses(40.0), GNMax(40.0)),
        (TrueArgmax(40.0), GNMax(40.0)),
        (ConfidentGNMax(200, 135, 40), ConfidentGNMax(200, 150, 40)),
        (ConfidentGNMax(200, 165, 40), ConfidentGNMax(200, 150, 40)),
        (ConfidentGNMax(200, 150, 36), ConfidentGNMax(200, 150, 40)),
        (ThresholdNoiseOnEveryCount(200, 150, 40), ConfidentGNMax(200, 150, 40)),
        (NeverRefuses(200, 150, 40), ConfidentGNMax(200, 150, 40)),
        (ConfidentGNMax(0, 150, 40), GNMax(40.0)),
    ],
    ids=lambda m: f"{type(m).__name__}{tuple(vars(m).values())}",
)
def test_planted_faults_are_found(faulty, accounted_as):
    assert law(accounted_as, sampler=faulty, n_classes=10, noise_seed=1).refuted


class UnequalNoise(NoisyHistogram):
    def sample(self, counts, noise, *, max_answers=None):
        draw = NoisyHistogram(self.sigma).sample(counts, noise)
        factor = np.linspace(0.8, 1.2, counts.shape[1])
        return Draw(draw.labels, draw.status, counts + (draw.noisy_counts - counts) * factor)


@pytest.mark.parametrize(
    ("mechanism", "right"),
    [
        (NoisyHistogram(40.0), True),
        (NoisyHistogram(36.0), False),
        (NoisyHistogram(44.0), False),
        (UnequalNoise(40.0), False),
    ],
    ids=repr,
)
def test_released_counts_carry_the_stated_noise(mechanism, right):
    assert law(NoisyHistogram(40.0), sampler=mechanism, noise_seed=3).refuted is not right


def test_noise_seed_and_training_seed_give_unrelated_streams():
    assert np.array_equal(NoiseSource(5).words(3), NoiseSource(5).words(3))
    assert training_seed(5) not in NoiseSource(5).words(8).tolist()
    with pytest.raises(InvalidInputError, match="noise_seed"):
        NoiseSource(-1)


def test_replacing_one_vote_has_the_stated_sensitivities():
    rng = np.random.default_rng(0)
    worst_l2, worst_max = 0.0, 0.0
    for _ in range(300):
        labels = rng.integers(0, 4, size=12)
        counts = np.bincount(labels, minlength=4)
        labels[rng.integers(12)] = rng.integers(4)
        other = np.bincount(labels, minlength=4)
        worst_l2 = max(worst_l2, float(np.linalg.norm(counts - other)))
        worst_max = max(worst_max, abs(counts.max() - other.max()))
    assert worst_l2 == pytest.approx(VOTE_L2_SENSITIVITY)
    assert worst_max == MAX_COUNT_SENSITIVITY


def test_costs_against_the_formulas():
    assert GNMax(40.0).charge(300).mu_squared == pytest.approx(600 / 1600)
    assert np.allclose(NoisyHistogram(40.0).public_rdp([2.0, 8.0]), [2 / 1600, 8 / 1600])
    # Only the winner is released: two thirds of the Gaussian's cost by RDP, the Gaussian's own by GDP.
    orders = [1.5, 2.0, 8.0, 32.0]
    assert np.array_equal(GNMax(40.0).public_rdp(orders), rho_star(orders, 40.0))
    assert (GNMax(40.0).public_rdp(orders) * 1600 / orders < 0.66).all()
    confident = ConfidentGNMax(200, 150, 40)
    assert confident.charge(640, 300).mu_squared == pytest.approx(640 / 150**2 + 600 / 1600)
    assert confident.charge(640).mu_squared == confident.charge(640, 640).mu_squared
    assert confident.charge(10, 99).mu_squared == confident.charge(10, 10).mu_squared
    assert LNMax(20.0).charge(3).pure == pytest.approx(0.3)
    assert confident.charge(640, 300).rdp == pytest.approx(
        640 * threshold_rho_star(DEFAULT_ORDERS, 150.0) + 300 * rho_star(DEFAULT_ORDERS, 40.0)
    )
    assert NoisyHistogram(40.0).charge(300).mu_squared == pytest.approx(GNMax(40.0).charge(300).mu_squared)
    assert NoisyHistogram(40.0).charge(300).guarantee(1e-5).epsilon == pytest.approx(2.50174, abs=1e-5)
    assert GNMax(40.0).charge(300).guarantee(1e-5).epsilon == pytest.approx(2.1211, abs=1e-4)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.family)
def test_public_rdp_is_an_upper_bound_between_orders(mechanism):
    fine = np.linspace(1.05, 255, 500)
    curve = mechanism.public_rdp(fine)
    assert (np.diff(curve) >= -1e-12).all()
    at_known = mechanism.public_rdp(DEFAULT_ORDERS)
    assert np.allclose(at_known, mechanism.charge(1).rdp)
    gaussian = fine * mechanism.charge(1).mu_squared / 2
    if isinstance(mechanism, NoisyHistogram):
        assert np.allclose(curve, gaussian, rtol=1e-12)
    elif not isinstance(mechanism, LNMax):
        # An attained divergence from below, the Gaussian from above.
        assert (curve >= 0.63 * gaussian).all()
        assert (curve <= gaussian * (1 + 1e-12)).all()
    assert math.isinf(mechanism.public_rdp([1000.0])[0]) is isinstance(mechanism, LNMax)


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 10))
def test_a_cap_on_answers_stops_the_run(passed, cap):
    passed = np.array(passed, dtype=bool)
    draw = capped(passed, np.arange(len(passed)), cap)
    answered = np.flatnonzero(draw.labels != ABSTAIN)
    assert answered.tolist() == np.flatnonzero(passed)[:cap].tolist()
    # nothing is said about any query after the last allowed answer
    if cap == 0:
        assert (draw.status == NOT_ASKED).all()
    elif len(answered) == cap:
        assert (draw.status[answered[-1] + 1 :] == NOT_ASKED).all()


def test_histogram_releases_on_a_grid_and_hides_what_was_not_asked():
    draw = NoisyHistogram(4.0).sample(np.full((5, 3), 4), NoiseSource(), max_answers=3)
    assert np.isnan(draw.noisy_counts[3:]).all()
    grid = draw.noisy_counts[:3] / NoisyHistogram.GRID
    assert np.array_equal(grid, np.round(grid))


@pytest.mark.parametrize("make", [GNMax, LNMax, NoisyHistogram])
@pytest.mark.parametrize("bad", [0, -3, math.nan, "4", None])
def test_bad_noise_is_refused(make, bad):
    with pytest.raises(InvalidInputError, match=r"(sigma|scale) must be a finite number >= 0.001"):
        make(bad)


def test_mechanisms_are_values():
    assert GNMax(4) == GNMax(sigma=4.0)
    assert hash(GNMax(4)) == hash(GNMax(4.0))
    assert all(isinstance(m, Mechanism) for m in ALL)
    with pytest.raises(AttributeError):
        GNMax(4).sigma = 5
