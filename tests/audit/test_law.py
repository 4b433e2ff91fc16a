"""The law test: planted faults are found, correct samplers are not refuted, and the evidence is an e-process."""

from __future__ import annotations

import numpy as np
import pytest
from noise_laws import argmax_law, confident_law
from scipy.stats import multinomial

from pate import ConfidentGNMax, GNMax, InvalidInputError, LNMax, NoisyHistogram
from pate.audit import law
from pate.audit.laws import Numbers, law_bank
from pate.audit.laws._law import analysis_sizes
from pate.audit.laws._registry import about, telling_height, winner_law
from pate.audit.laws._subject import Cells, subject_of
from pate.dpsgd.mechanisms._mechanism import gaussian
from pate.mechanisms import Draw
from pate.mechanisms._base import capped
from pate.privacy.noise import discrete_gaussian, noisy_argmax, real_argmax, real_at_least
from pate.privacy.noise.source import NoiseSource
from pate.votes import ABSTAIN

SIGMA, M = 40.0, 10
CONFIDENT = ConfidentGNMax(200, 150, SIGMA)
RNG = np.random.default_rng(1)


def releases(result):
    return result["releases of each histogram"].value


def pick(scores):
    """Argmax of integer scores, ties at random."""
    top = scores == scores.max(axis=1, keepdims=True)
    return (top * (1 + RNG.random(scores.shape))).argmax(axis=1)


def discrete(scale, noise="discrete_gaussian"):
    return lambda counts: argmax_law(counts, scale=scale, noise=noise)


# ---- right samplers ----


@pytest.mark.few(3)
@pytest.mark.parametrize("noise", ["gaussian", "laplace", "discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize(("scale", "m"), [(40.0, 10), (2.0, 3)])
def test_right_samplers_are_not_refuted(noise, scale, m):
    source = NoiseSource(21)
    draw = noisy_argmax if noise.startswith("discrete") else real_argmax
    claim, bank = lambda c: argmax_law(c, scale=scale, noise=noise), law_bank(m, scale)
    found = law(claim, sampler=lambda c: draw(c, scale=scale, source=source, noise=noise), bank=bank, max_releases=9000)
    assert not found.refuted
    assert found["log e-value"].value < 5


def test_the_noise_of_the_operating_system_has_the_law():
    """A right sampler fails once in a million runs."""
    assert not law(CONFIDENT, n_classes=M, max_releases=5_000).refuted


# ---- planted faults ----


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
        "one noise for all classes": lambda c: pick(c + draw((len(c), 1))),
    }


@pytest.mark.parametrize("name", list(faults(NoiseSource(0))))
def test_planted_faults_are_found(name):
    # GNMax is real noise: the discrete one of this size differs from it by less than any of these shows.
    found = law(GNMax(SIGMA), sampler=faults(NoiseSource(31))[name], n_classes=M)
    assert found.refuted
    assert releases(found) <= 2_000


def test_ties_to_the_lowest_index():
    source = NoiseSource(6)
    lowest = lambda c: (c + discrete_gaussian(4.0, c.shape, source)).argmax(axis=1)  # noqa: E731
    assert law(discrete(4.0), sampler=lowest, bank=law_bank(5, 4.0)).refuted
    assert law(GNMax(4.0), sampler=lowest, n_classes=5).refuted


def confident(source, *, sigma=SIGMA, sigma1=150.0, every_count=False, argmax_sigma1=False, same=False):
    def sample(c):
        if every_count:
            passed = (c + np.rint(sigma1 * gaussian(source, c.size).numpy().reshape(c.shape))).max(axis=1) >= 200
        else:
            passed = real_at_least(c.max(axis=1), threshold=200.0, scale=sigma1, source=source)
        if same:  # one noise for both
            noisy = c + sigma * gaussian(source, c.size).numpy().reshape(c.shape)
            return np.where(noisy.max(axis=1) >= 200, noisy.argmax(axis=1), ABSTAIN)
        label = real_argmax(c, scale=sigma1 if argmax_sigma1 else sigma, source=source)
        return np.where(passed, label, ABSTAIN)

    return sample


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, None),
        ({"sigma1": 135.0}, 4_000),
        ({"sigma1": 165.0}, 4_000),
        ({"sigma": 36.0}, 2_000),
        ({"sigma": 44.0}, 2_000),
        ({"every_count": True}, 100),
        ({"argmax_sigma1": True}, 200),
        ({"same": True}, 100),
    ],
)
def test_confident(changes, most):
    found = law(CONFIDENT, sampler=confident(NoiseSource(41), **changes), n_classes=M, max_releases=most or 8_000)
    assert found.refuted is (most is not None)


class LastFaulty(GNMax):
    """A subclass is audited by the entry of its base: its own ``sample`` against the law it inherits."""

    def sample(self, counts, noise, *, max_answers=None):
        labels = GNMax(self.sigma).sample(counts, noise).labels
        return capped(np.ones(len(counts), dtype=bool), np.where(labels == 0, 1, labels), max_answers)


def test_a_subclass_is_held_to_the_law_it_inherits():
    assert law(LastFaulty(SIGMA), n_classes=M, noise_seed=0).refuted


class Truncated(NoisyHistogram):
    def sample(self, counts, noise, *, max_answers=None):
        draw = NoisyHistogram(self.sigma).sample(counts, noise)
        noisy = counts + np.clip(draw.noisy_counts - counts, -2.5 * self.sigma, 2.5 * self.sigma)
        return Draw(draw.labels, draw.status, noisy)


@pytest.mark.parametrize(
    ("sampler", "most"),
    [
        (NoisyHistogram(36.0), 200),
        (Truncated(40.0), 400),
        (lambda c: c + RNG.laplace(0, 40 / np.sqrt(2), c.shape), 200),
        (lambda c: c + np.where(c > 0, RNG.normal(0, 40, c.shape), 0), 50),
        (lambda c: c + np.where(RNG.random((len(c), 1)) < 1e-3, 0, RNG.normal(0, 40, c.shape)), 1_000),
    ],
    ids=["sigma * 0.9", "truncated", "Laplace", "none on empty classes", "left out once in 1,000"],
)
def test_noise_of_released_counts(sampler, most):
    found = law(NoisyHistogram(40.0), sampler=sampler, noise_seed=5)
    assert found.refuted
    assert releases(found) <= most


def test_any_noise_against_its_scale():
    claim = lambda counts: Numbers(counts.astype(float), 2.0, noise="laplace")  # noqa: E731
    right = lambda c: c + RNG.laplace(0, 2.0, c.shape)  # noqa: E731
    wrong = lambda c: c + RNG.laplace(0, 1.8, c.shape)  # noqa: E731
    assert not law(claim, sampler=right, bank=[[0, 7]], max_releases=10_000).refuted
    assert law(claim, sampler=wrong, bank=[[0, 7]]).refuted


# ---- the test of fixed size ----


def test_the_test_of_fixed_size_has_power():
    found = law(CONFIDENT, sampler=ConfidentGNMax(200, 150, 36), n_classes=M, test="fixed", noise_seed=3)
    assert found.refuted
    assert found["p-value"].value == pytest.approx(2 / 10_000)


@pytest.mark.long
def test_the_test_of_fixed_size_keeps_its_level():
    p = [
        law(GNMax(4.0), n_classes=3, test="fixed", max_releases=200, noise_seed=seed)["p-value"].value
        for seed in range(100, 120)
    ]
    assert min(p) > 2e-3
    assert np.median(p) > 0.2


def test_fewer_false_alarms_than_simulations_can_show_are_refused():
    with pytest.raises(InvalidInputError, match="simulations show no smaller one"):
        law(GNMax(40.0), test="fixed", false_alarms=1e-6)


# ---- the evidence ----


def small_cells():
    null = np.array([[0.3, 0.7, 0.0], [0.2, 0.5, 0.3]])
    alternatives = {
        "bent": np.array([[0.4, 0.6, 0.0], [0.3, 0.4, 0.3]]),
        "far": np.array([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]),
    }
    return Cells(("a", "b"), null, alternatives)


def test_the_e_process_has_expectation_one():
    """Under the null the mean of the e-value is at most 1, and all but 1: by enumeration of all tallies."""
    cells, n, total = small_cells(), 6, 0.0
    for i in range(n + 1):
        for j in range(n + 1):
            for k in range(n + 1 - j):
                tallies = np.array([[i, n - i, 0], [j, k, n - j - k]])
                chance = np.prod([multinomial.pmf(t, n, p) for t, p in zip(tallies, cells.law, strict=True)])
                total += chance * np.exp(cells.log_e(tallies)[0])
    assert total == pytest.approx(1, abs=2e-3)
    assert total <= 1 + 1e-7


def test_every_bet_has_a_name():
    cells = small_cells()
    _, values = cells.log_e(np.array([[30, 70, 0], [20, 50, 30]]))
    assert len(values) == len(cells.bets) == len(set(cells.bets))


def test_what_the_law_never_gives_refutes_it_surely():
    assert small_cells().impossible(np.array([[1, 2, 1], [0, 0, 1]])) == ("a", 2)
    never = lambda c: np.tile([0.5, 0.5, 0.0], (len(c), 1))  # noqa: E731
    found = law(never, sampler=lambda c: np.full(len(c), 2), bank=[[0, 0, 0]])
    assert found.refuted
    assert "never gives" in found.finding


@pytest.mark.parametrize("mechanism", [GNMax(40.0), LNMax(20.0), CONFIDENT], ids=lambda m: m.family)
def test_the_accounted_law_is_the_reference_law_on_the_whole_bank(mechanism):
    """Two implementations: that of the accounting, and finite sums and quadrature in probability space."""
    for part in subject_of(mechanism, None, None, None).parts:
        if isinstance(mechanism, ConfidentGNMax):
            reference = confident_law(part.counts, threshold=200.0, scale1=150.0, scale2=40.0)
        else:
            noise = "laplace" if isinstance(mechanism, LNMax) else "gaussian"
            scale = mechanism.scale if isinstance(mechanism, LNMax) else mechanism.sigma
            reference = argmax_law(part.counts, scale=scale, noise=noise)
        np.testing.assert_allclose(part.law, reference, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("mechanism", [GNMax(40.0), LNMax(20.0), CONFIDENT], ids=lambda m: m.family)
def test_quick_laws_to_bet_on_are_near_the_exact_ones(mechanism):
    counts = np.stack(list(law_bank(M, 40.0, threshold=200.0, scale1=150.0).values()))
    np.testing.assert_allclose(
        about(mechanism.exact_parameters(), counts), np.exp(mechanism.log_probs(counts)), atol=0.01
    )


def test_laws_of_a_thousand_classes_to_bet_on():
    counts = np.r_[132, np.zeros(999, dtype=np.int64)][None]
    for mechanism in (GNMax(40.0), GNMax(36.0), LNMax(20.0)):
        exact = np.exp(mechanism.log_probs(counts))
        np.testing.assert_allclose(about(mechanism.exact_parameters(), counts)[0, :2], exact[0, :2], rtol=0.02)


def test_unlike_scales_to_bet_on():
    """Alike ones on one grid, others by the quantiles of each: the same where both can be had."""
    rng = np.random.default_rng(2)
    for low in (0.5, 0.2, 0.01):
        centres, scales = np.array([0.0, 0.5, 0.2]), np.array([1.0, 0.8, low])
        seen = (centres + scales * rng.standard_normal((200_000, 3))).argmax(axis=1)
        np.testing.assert_allclose(winner_law(centres, scales), np.bincount(seen) / len(seen), atol=0.006)


# ---- the bank ----


def test_the_bank_takes_every_branch():
    bank = law_bank(M, 40.0, threshold=200.0, scale1=150.0)
    assert 8 <= len(bank) <= 10
    rows = np.stack(list(bank.values()))
    tops = rows.max(axis=1)
    assert {0, 1, 50, 200, 350, 500} <= set(tops.tolist())
    assert {0, M // 2, M - 1} <= set(rows.argmax(axis=1).tolist())
    assert ((rows == 0).sum(axis=1) == M - 2).any()  # two classes over empty ones
    assert (rows >= 0).all()
    for m in (2, 3, 1_000):
        assert np.stack(list(law_bank(m, 40.0).values())).shape[1] == m


def test_leaders_stand_where_they_tell_most():
    """Found again on a grid: the divergence of 0.9 from 1 scale over the leader's height."""
    for m in (2, 10, 100):
        heights = np.arange(1.0, 5.0, 0.1)
        divergences = []
        for height in heights:
            row = np.r_[height, np.zeros(m - 1)]
            p, q = (winner_law(row, np.full(m, s)) for s in (1.0, 0.9))
            divergences.append((q * np.log(q / p)).sum())
        assert abs(heights[int(np.argmax(divergences))] - telling_height(m)) <= 0.31


def test_looks_are_few_and_end_at_the_last():
    assert analysis_sizes(20_000)[-1] == 20_000
    assert len(analysis_sizes(20_000)) < 60
    assert analysis_sizes(1) == [1]
