"""Accounting of the noisy votes of a sample's nearest neighbours: closed forms, dp_accounting, whole worlds."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from scipy.special import ndtr
from scipy.stats import norm

from pate.exceptions import InvalidInputError
from pate.privacy.convert import gdp_to_delta, gdp_to_epsilon
from pate.privacy.sampled_votes import sampled_votes_divergence, sampled_votes_epsilon

EPSILONS = np.array([-2.0, -0.5, 0.0, 0.1, 0.5, 1.0, 2.0])


def argmax_law(counts, sigma):
    """P(class j has the largest noisy count), by the trapezoid rule."""
    x = np.arange(-9, 9, 0.02)
    n = np.asarray(counts, dtype=float)
    return np.array([
        np.sum(norm.pdf(x) * np.prod([ndtr(x + (n[j] - m) / sigma) for i, m in enumerate(n) if i != j], axis=0)) * 0.02
        for j in range(len(n))
    ])  # fmt: skip


def query_law(records, k, q, sigma, m, screening=None):
    """The law of one answer (and of none) over all samples of records (distance, class), in their order."""
    total = np.zeros(m + 1)
    for coins in itertools.product((0, 1), repeat=len(records)):
        inside = [i for i, c in enumerate(coins) if c and records[i] is not None]
        near = sorted(inside, key=lambda i: (records[i][0], i))[:k]
        counts = np.bincount([records[i][1] for i in near], minlength=m)
        passed = 1.0 if screening is None else ndtr((counts.max() - screening[0]) / screening[1])
        law = np.append(passed * argmax_law(counts, sigma), 1 - passed)
        total += q ** sum(coins) * (1 - q) ** (len(coins) - sum(coins)) * law
    return total


def divergence(P, Q, epsilons):
    return np.array([np.maximum(P - math.exp(e) * Q, 0).sum() for e in epsilons])


@pytest.mark.few(2)
@pytest.mark.parametrize("screening", [None, (1.6, 0.7)])
@pytest.mark.parametrize(("k", "q", "sigma"), [(1, 0.5, 0.6), (2, 0.3, 0.5), (2, 0.8, 1.5), (5, 0.6, 0.8)])
def test_every_replaced_record_of_a_small_world_is_within_the_bound(k, q, sigma, screening):
    others = [(1.0, 0), (2.0, 1), (3.0, 0), (4.0, 2)]
    replaced = [*itertools.product((0.5, 2.5, 5.0), range(3)), None]
    laws = [query_law([*others[:2], r, *others[2:]], k, q, sigma, 3, screening) for r in replaced]
    bound = sampled_votes_divergence(
        EPSILONS, sample_rate=q, sigma=sigma, screening_sigma=None if screening is None else screening[1]
    )
    found = np.max([divergence(P, Q, EPSILONS) for P, Q in itertools.permutations(laws, 2)], axis=0)
    assert (found <= bound + 1e-9).all()
    assert found[2] > 0.1 * bound[2]  # the world is not an empty one


def test_it_is_the_worse_of_add_and_remove_at_every_epsilon():
    q, sigma = 0.5, 1.0
    x = np.arange(-12, 14, 1e-3)
    P, Q = norm.pdf(x), (1 - q) * norm.pdf(x) + q * norm.pdf(x, math.sqrt(2) / sigma)
    epsilons = np.array([-1.0, -0.2, 0.0, 0.3, 1.0, 1.3])
    alone = [np.maximum(A - math.exp(e) * B, 0).sum() * 1e-3 for A, B in ((P, Q), (Q, P)) for e in epsilons]
    found = sampled_votes_divergence(epsilons, sample_rate=q, sigma=sigma)
    assert found == pytest.approx(np.max(np.reshape(alone, (2, -1)), axis=0), abs=1e-8)


@pytest.mark.parametrize("gram", [(2.0, 2.0, 1.0), (1.0, 1.0, 0.0), (2.0, 1.0, 0.5), (2.0, 2.0, 1.9)])
@pytest.mark.parametrize(("q", "sigma", "epsilon"), [(0.2, 1.0, 0.3), (0.7, 0.6, 0.0), (0.7, 0.8, -0.4)])
def test_any_two_moves_in_the_plane_are_within_it(gram, q, sigma, epsilon):
    gg, hh, gh = np.array(gram) / sigma**2
    g = np.array([math.sqrt(gg), 0.0])
    h = np.array([gh / g[0], math.sqrt(hh - (gh / g[0]) ** 2)])
    bound = float(sampled_votes_divergence([epsilon], sample_rate=q, sigma=sigma)[0])
    assert plane_divergence(q, g, h, epsilon) <= bound + 1e-6
    if epsilon >= 0:  # moves that are opposite, as those of DP-SGD may be, would not be
        longest = np.array([math.sqrt(2) / sigma, 0.0])
        assert plane_divergence(q, longest, -longest, epsilon) > bound


def plane_divergence(q, g, h, epsilon):
    step = 0.02
    x = np.arange(-11, 11, step)
    still = norm.pdf(x)[:, None] * norm.pdf(x)
    P, Q = ((1 - q) * still + q * norm.pdf(x - v[0])[:, None] * norm.pdf(x - v[1]) for v in (g, h))
    return np.maximum(P - math.exp(epsilon) * Q, 0).sum() * step**2


def test_without_sampling_it_is_a_gaussian_one_replaced_vote_apart():
    for sigma, epsilon in ((0.7, 0.3), (4.0, 0.1), (40.0, 0.01)):
        exact = gdp_to_delta(math.sqrt(2) / sigma, epsilon)
        assert sampled_votes_divergence([epsilon], sample_rate=1.0, sigma=sigma)[0] == pytest.approx(exact, abs=1e-15)
    found = sampled_votes_epsilon(sample_rate=1.0, sigma=20.0, n_queries=50, delta=1e-5)
    assert found == pytest.approx(gdp_to_epsilon(math.sqrt(100) / 20.0, 1e-5), rel=5e-3)
    assert found >= gdp_to_epsilon(math.sqrt(100) / 20.0, 1e-5) - 1e-9


@pytest.mark.parametrize(("q", "sigma", "n"), [(0.1, 4.0, 100), (0.02, 1.0, 20), (0.5, 12.0, 200)])
def test_it_lies_between_one_alone_and_opposite_moves(q, sigma, n):
    def composed(relation):
        accountant = pld.PLDAccountant(relation, value_discretization_interval=1e-3)
        step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma / math.sqrt(2)))
        return accountant.compose(dp_accounting.SelfComposedDpEvent(step, n)).get_epsilon(1e-5)

    found = sampled_votes_epsilon(sample_rate=q, sigma=sigma, n_queries=n, delta=1e-5, interval=1e-3)
    relations = dp_accounting.NeighboringRelation
    assert composed(relations.ADD_OR_REMOVE_ONE) - 1e-6 <= found < 0.99 * composed(relations.REPLACE_ONE)


def test_one_query_composed_is_its_own_divergence():
    q, sigma, epsilon = 0.3, 1.5, 0.8
    delta = float(sampled_votes_divergence([epsilon], sample_rate=q, sigma=sigma)[0])
    found = sampled_votes_epsilon(sample_rate=q, sigma=sigma, n_queries=1, delta=delta, interval=1e-3)
    assert epsilon - 1e-9 <= found <= epsilon + 2e-3


def test_the_curve_is_a_hockey_stick():
    a = np.linspace(0.05, 12, 400)
    for screening in (None, 2.0):
        found = sampled_votes_divergence(np.log(a), sample_rate=0.4, sigma=1.0, screening_sigma=screening)
        assert (np.diff(found) <= 1e-12).all()
        assert (np.diff(found, 2) >= -1e-12).all()
        assert (found >= np.maximum(1 - a, 0) - 1e-12).all()


def test_more_of_anything_costs_more():
    base = {"sample_rate": 0.1, "sigma": 3.0, "n_queries": 40, "delta": 1e-5}
    least = sampled_votes_epsilon(**base)
    for change in ({"sample_rate": 0.2}, {"sigma": 2.0}, {"n_queries": 80}, {"screening_sigma": 4.0}, {"delta": 1e-7}):
        assert sampled_votes_epsilon(**{**base, **change}) > least


@pytest.mark.parametrize(
    "bad", [{"sample_rate": 0.0}, {"sample_rate": 1.1}, {"sigma": 0.01}, {"n_queries": 0}, {"delta": 1e-12}]
)
def test_bad_numbers_are_refused(bad):
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        sampled_votes_epsilon(**{"sample_rate": 0.1, "sigma": 3.0, "n_queries": 4, "delta": 1e-5, **bad})
