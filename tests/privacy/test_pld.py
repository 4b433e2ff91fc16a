from __future__ import annotations

import itertools

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf, privacy_loss_distribution

from pate.privacy.convert import DEFAULT_ORDERS, rdp_to_epsilon
from pate.privacy.exact._composition import LossTable, compose_epsilons
from pate.privacy.exact._histograms import distinct_histograms, group_counts
from pate.privacy.exact._laws import exact_divergences, log_probs, upper_bound
from pate.privacy.exact._per_teacher import per_teacher_rdp, vote_groups
from pate.privacy.exact._pld import composed_pld, dominating_masses, per_teacher_pld_epsilon, pld_epsilon
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise, ThresholdTest

NOISE = GaussianNoise(8.0)


def outcome_laws(counts, noise, test=None):
    """Return the law of a histogram and of each neighbour, as plain probabilities."""
    pairs = []
    p = np.exp(log_probs(counts, noise=noise, threshold=test)[0])
    for u, b in itertools.permutations(range(len(counts)), 2):
        if counts[u] >= 1:
            moved = list(counts)
            moved[u] -= 1
            moved[b] += 1
            pairs.append((u, p, np.exp(log_probs(moved, noise=noise, threshold=test)[0])))
    return pairs


def delta_of(pairs, epsilon):
    """Exact delta of a product of finite laws, by enumeration."""
    p, q = np.ones(1), np.ones(1)
    for first, second in pairs:
        p, q = np.outer(p, first).reshape(-1), np.outer(q, second).reshape(-1)
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


@pytest.mark.few(3)
@pytest.mark.parametrize("test", [None, ThresholdTest(20.0, 9.0)])
@pytest.mark.parametrize("noise", [NOISE, LaplaceNoise(6.0), GaussianNoise(1.0)])
def test_one_query_is_the_hockey_stick(noise, test):
    counts = [20, 9, 3]
    pairs = outcome_laws(counts, noise, test)
    for delta in (1e-2, 1e-4):
        found = pld_epsilon([counts], delta, noise=noise, threshold=test, discretization=1e-3)
        for p_first, value in ((True, found.forward), (False, found.reverse)):
            ordered = [(p, q) if p_first else (q, p) for _, p, q in pairs]
            worst = max(delta_of([pair], value) for pair in ordered)
            assert worst <= delta
            below = max(value - 2.5e-3, 0.0)
            assert value == 0 or max(delta_of([pair], below) for pair in ordered) > delta


def test_short_lists_by_enumeration():
    lists = [[20, 9, 3], [16, 16, 0], [12, 11, 9]]
    laws = [outcome_laws(c, NOISE) for c in lists]
    delta = 1e-3
    found = pld_epsilon(lists, delta, noise=NOISE, discretization=2e-4)
    for p_first, value in ((True, found.forward), (False, found.reverse)):
        choices = [[(p, q) if p_first else (q, p) for _, p, q in law] for law in laws]
        worst = max(delta_of(c, value) for c in itertools.product(*choices))
        assert worst <= delta
        # 7% less would be false, for some fixed choice of neighbours.
        assert max(delta_of(c, 0.93 * value) for c in itertools.product(*choices)) > delta


def test_per_teacher_by_enumeration():
    # Three teachers, two queries, three classes: every replacement of one teacher's two votes.
    labels = np.array([[0, 1], [0, 2], [1, 1]])
    noise, delta = GaussianNoise(1.5), 1e-3
    counts = np.stack([(labels == j).sum(axis=0) for j in range(3)], axis=1)
    found = per_teacher_pld_epsilon(labels, delta, noise=noise, n_classes=3, discretization=1e-3)
    worst = [0.0, 0.0]
    for row in labels:
        choices = [[(p, q) for u, p, q in outcome_laws(list(counts[i]), noise) if u == row[i]] for i in (0, 1)]
        for pairs in itertools.product(*choices):
            worst[0] = max(worst[0], delta_of(pairs, found.forward))
            worst[1] = max(worst[1], delta_of([(q, p) for p, q in pairs], found.reverse))
    assert max(worst) <= delta
    assert max(worst) > 0.8 * delta


def test_composition_against_dp_accounting():
    counts = [[20, 9, 3]]
    ours = dominating_masses(group_counts(np.array(counts)), NOISE, 1e-3)
    times = 50
    for side in (0, 1):
        deltas = [1e-3, 1e-6, 1e-9]
        table = LossTable(1e-3, ours.masses[side])
        mine = [compose_epsilons(table, [[times]], d, 6.0)[0] for d in deltas]
        pmf = pld_pmf.DensePLDPmf(1e-3, -ours.reach, ours.masses[side, 0], 0.0, True)
        theirs = pmf.self_compose(times, tail_mass_truncation=1e-16)
        np.testing.assert_allclose(mine, [theirs.get_epsilon_for_delta(d) for d in deltas], rtol=2e-6)


def test_above_a_single_neighbour_in_dp_accounting():
    counts, times, delta = [20, 9, 3], 40, 1e-5
    mine = pld_epsilon([counts] * times, delta, noise=NOISE)
    for _, p, q in outcome_laws(counts, NOISE):
        pair = privacy_loss_distribution.from_two_probability_mass_functions(
            dict(enumerate(np.log(q))),
            dict(enumerate(np.log(p))),
            value_discretization_interval=1e-3,
            symmetric=False,
            pessimistic_estimate=False,
        )
        assert pair.self_compose(times).get_epsilon_for_delta(delta) <= mine.epsilon + 1e-4


def test_tilt_and_lattice_change_little():
    table = dominating_masses(group_counts(np.array([[20, 9, 3]])), NOISE, 1e-3)
    values = [compose_epsilons(LossTable(1e-3, table.masses[1]), [[60]], 1e-6, t)[0] for t in (2.0, 3.5, 5.0)]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)
    fine = pld_epsilon([[20, 9, 3]] * 30, 1e-5, noise=NOISE, discretization=5e-4).epsilon
    coarse = pld_epsilon([[20, 9, 3]] * 30, 1e-5, noise=NOISE, discretization=4e-3).epsilon
    assert fine < coarse < fine * 1.01


def test_masses_are_distributions():
    rng = np.random.default_rng(0)
    rows = distinct_histograms(rng.multinomial(60, rng.dirichlet(np.full(5, 0.3), 40))).rows
    found = dominating_masses(group_counts(rows), NOISE, 1e-3, per_group=True)
    np.testing.assert_allclose(found.masses.sum(axis=2), 1, atol=1e-10)
    # Under the other distribution of the pair, too.
    np.testing.assert_allclose((found.masses * np.exp(-found.losses)).sum(axis=2), 1, atol=1e-10)


@pytest.mark.few(1)
@pytest.mark.parametrize("test", [None, ThresholdTest(30.0, 20.0)])
def test_below_renyi_above_the_worst_fixed_sequence(test):
    rng = np.random.default_rng(1)
    counts = rng.multinomial(50, rng.dirichlet(np.full(4, 0.4), 80))
    delta = 1e-5
    found = pld_epsilon(counts, delta, noise=NOISE, threshold=test)
    totals = upper_bound(exact_divergences(counts, DEFAULT_ORDERS, noise=NOISE, threshold=test).totals())
    assert found.forward < rdp_to_epsilon(totals[0], delta)[0]
    assert found.reverse < rdp_to_epsilon(totals[1], delta)[0]
    # A teacher who happens to vote anything is covered.
    labels = np.stack([rng.permutation(np.repeat(np.arange(4), row)) for row in counts], axis=1)
    teacher = per_teacher_pld_epsilon(labels, delta, noise=NOISE, threshold=test, n_classes=4)
    assert teacher.epsilon <= found.epsilon * (1 + 1e-6)
    renyi = upper_bound(per_teacher_rdp(labels, DEFAULT_ORDERS, noise=NOISE, threshold=test, n_classes=4))
    assert teacher.epsilon <= max(rdp_to_epsilon(c, delta)[0] for c in np.moveaxis(renyi, 2, 1).reshape(-1, 32))


def test_all_teachers_not_only_the_worst_by_renyi():
    rng = np.random.default_rng(2)
    labels = np.where(rng.random((20, 60)) < 0.7, 0, rng.integers(0, 3, (20, 60)))
    delta = 1e-5
    found = per_teacher_pld_epsilon(labels, delta, noise=NOISE, n_classes=3)
    votes = vote_groups(labels, n_classes=3)
    table = dominating_masses(votes.groups, NOISE, 1 / 320, per_group=True)
    times = votes.matrix().toarray()
    for side, name in ((0, "forward"), (1, "reverse")):
        each = compose_epsilons(LossTable(1 / 320, table.masses[side]), times, delta, 6.0)
        assert each.max() <= found.epsilon * (1 + 1e-7)
        assert getattr(found, name) <= found.epsilon


def test_many_queries_fall_back_to_joined_pairs(monkeypatch):
    counts = [[20, 9, 3]] * 30
    swept = pld_epsilon(counts, 1e-5, noise=NOISE).epsilon
    monkeypatch.setattr("pate.privacy.exact._pld.SWEEP_LIMIT", 10)
    joined = pld_epsilon(counts, 1e-5, noise=NOISE).epsilon
    assert swept <= joined


@pytest.mark.long
def test_figures_on_the_2018_votes(mnist2018_counts):
    noise = GaussianNoise(40.0)
    plain = pld_epsilon(mnist2018_counts[:100], 1e-5, noise=noise)
    assert plain.epsilon < 0.4710 < 0.5222  # 0.5222 is the exact Renyi bound
    joint = pld_epsilon(mnist2018_counts[:200], 1e-5, noise=noise, threshold=ThresholdTest(200.0, 150.0))
    renyi = upper_bound(
        exact_divergences(
            mnist2018_counts[:200], DEFAULT_ORDERS, noise=noise, threshold=ThresholdTest(200.0, 150.0)
        ).total()
    )
    assert joint.epsilon < 0.95 * rdp_to_epsilon(renyi, 1e-5)[0]


def test_empty_and_repr():
    assert pld_epsilon(np.zeros((0, 3), int), 1e-5, noise=NOISE).epsilon == 0
    assert "epsilon" not in repr(pld_epsilon([[3, 1]], 1e-5, noise=NOISE)).lower().replace("pldepsilon", "")


def test_composed_pld_interoperates():
    counts = [[20, 9, 3]] * 20
    pld = composed_pld(counts, noise=NOISE)
    alone = pld.get_epsilon_for_delta(1e-5)
    assert pld_epsilon(counts, 1e-5, noise=NOISE).epsilon <= alone * (1 + 1e-6)
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(10.0, value_discretization_interval=1e-3)
    assert pld.compose(gaussian).get_epsilon_for_delta(1e-5) > alone
