"""Samples, nearest neighbours and noise: the law that is accounted, exact distances, one vote moved by one record."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest, chisquare, norm

from pate import Budget
from pate.comparison.baselines import SampledNeighbours
from pate.comparison.baselines._private_knn import Grid, in_sample, neighbour_votes
from pate.exceptions import InvalidInputError
from pate.privacy.noise.source import NoiseSource
from pate.representations import TableMap


def test_coins_fall_as_they_should_and_apart_from_each_other():
    source, n = NoiseSource(5), 200_001
    for rate in (0.15, 0.5, 1e-3):
        inside = in_sample(n, SampledNeighbours(1, rate, 1.0).sample_rate, source)
        assert binomtest(int(inside.sum()), n, rate).pvalue > 1e-6
        pairs = int((inside[1:] & inside[:-1]).sum())
        assert abs(pairs - n * rate**2) < 6 * math.sqrt(3 * n * rate**2) + 6
    assert (in_sample(1000, 0.5, source) != in_sample(1000, 0.5, source)).any()


def test_a_rate_is_what_coins_of_32_bits_can_do():
    for rate in (0.15, 1 / 3, 1e-12, 1.0):
        held = SampledNeighbours(1, rate, 1.0).sample_rate
        assert (held * 2**32).is_integer()
        assert 0 < held <= max(rate, 2**-32)


def exact_law(distances, labels, mechanism, m):
    """P(label) and P(refused), over all samples and by quadrature over the noise."""
    q, total = mechanism.sample_rate, np.zeros(m + 1)
    x = np.arange(-9, 9, 0.02)
    for coins in itertools.product((0, 1), repeat=len(distances)):
        inside = [i for i, c in enumerate(coins) if c and np.isfinite(distances[i])]
        near = sorted(inside, key=lambda i: (distances[i], i))[: mechanism.n_neighbors]
        counts = np.bincount([labels[i] for i in near], minlength=m)
        passed = 1.0
        if mechanism.screening_sigma is not None:
            passed = ndtr((counts.max() - mechanism.threshold) / mechanism.screening_sigma)
        ahead = (counts[:, None] - counts) / mechanism.sigma
        law = [np.sum(norm.pdf(x) * np.prod(ndtr(x + np.delete(a, j)[:, None]), axis=0)) for j, a in enumerate(ahead)]
        weight = q ** sum(coins) * (1 - q) ** (len(coins) - sum(coins))
        total += weight * np.append(passed * np.array(law) * 0.02, 1 - passed)
    return total


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "mechanism",
    [
        SampledNeighbours(2, 0.4, 0.8),
        SampledNeighbours(1, 0.7, 0.5),
        SampledNeighbours(9, 0.5, 1.0),
        SampledNeighbours(3, 1.0, 1.2),
        SampledNeighbours(2, 0.6, 0.8, 1.2, 0.6),
    ],
    ids=str,
)
def test_what_is_drawn_has_the_law_that_is_accounted(mechanism):
    """Ties in distance, a record that has no vote, samples of fewer than k: all are in the law."""
    distances, labels = np.array([1.0, 2.0, 2.0, np.inf, 4.0]), np.array([0, 1, 2, 0, 1])
    n = 20_000
    drawn = mechanism.draw(
        np.broadcast_to(distances, (n, 5)), np.broadcast_to(labels, (n, 5)), 3, NoiseSource(11)
    ).labels
    expected = exact_law(distances, labels, mechanism, 3)
    seen = np.bincount(np.where(drawn < 0, 3, drawn), minlength=4)
    assert expected.sum() == pytest.approx(1, abs=1e-9)
    some = expected > 0
    assert not seen[~some].any()
    assert chisquare(seen[some], n * expected[some] / expected[some].sum()).pvalue > 1e-6


@pytest.mark.parametrize("rate", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_a_replaced_record_is_in_place_of_one_and_the_same_other(rate, k):
    """Given the sample, records in one place push out the same other record, or none at all, or do not vote."""
    rng = np.random.default_rng(0)
    mechanism = SampledNeighbours(k, rate, 1.0)
    for trial in range(60):
        distances = rng.integers(0, 8, size=12).astype(float)  # many ties
        place = int(rng.integers(12))
        voters = []
        for own in (*rng.integers(0, 9, size=4), np.inf):
            changed = distances.copy()
            changed[place] = own
            voters.append(set(mechanism._nearest(changed, NoiseSource(trial)).tolist()))  # the same coins
        without = voters.pop()
        pushed = [without - near for near in voters if place in near]
        assert all(near - {place} <= without for near in voters)
        assert all(out == pushed[0] and len(out) <= 1 for out in pushed)
        assert all(near == without for near in voters if place not in near)
        assert all(len(near) <= k for near in voters)


def test_noise_is_the_least_that_the_budget_allows():
    budget = Budget(1.0, 1e-5)
    for rate in (0.15, 1.0):
        mechanism = SampledNeighbours(20, rate, 1.0, 5.0, 2.0).for_budget(budget, 25)
        assert mechanism.screening_sigma == pytest.approx(2 * mechanism.sigma)
        assert mechanism.guarantee(25, 1e-5).epsilon <= 1.0
        assert mechanism.scaled(0.99).guarantee(25, 1e-5).epsilon > 1.0
        assert mechanism.guarantee(25, 1e-5).adjacency == "replace-one"


def test_distances_are_the_same_bits_wherever_a_record_stands():
    rng = np.random.default_rng(1)
    X, public = rng.normal(size=(300, 40)), rng.normal(size=(30, 40))
    table = TableMap().fit(public)
    y, z = rng.integers(3, size=300), table.transform(public)
    distances, _ = neighbour_votes(table, X, y, None, z)
    order = rng.permutation(300)
    assert (neighbour_votes(table, X[order], y[order], None, z)[0] == distances[:, order]).all()
    assert (neighbour_votes(table, X[:7], y[:7], None, z)[0] == distances[:, :7]).all()
    grid = Grid(z)
    whole = [[int(v) for v in row] for row in grid.transform(table.transform(X[:3]))]
    there = [[int(v) for v in row] for row in grid.transform(z)]
    exact = [[sum((a - b) ** 2 for a, b in zip(x, p, strict=True)) for x in whole] for p in there]
    assert distances[:, :3].tolist() == exact


def test_an_unusable_record_affects_no_other_record():
    X = np.array([[0.0], [np.inf], [np.nan], [2.0], [1.0]])
    public = np.array([[0.0], [1.0], [2.0]])
    table = TableMap().fit(public)
    y = np.array([0, 1, 1, -1, 1])
    distances, votes = neighbour_votes(table, X, y, None, table.transform(public))
    plain, _ = neighbour_votes(table, np.array([[0.0], [1.0]]), np.array([0, 1]), None, table.transform(public))
    assert (distances[:, [0, 4]] == plain).all()
    assert np.isinf(distances[:, 3]).all()
    assert votes.shape == distances.shape


def test_a_person_votes_once_by_the_nearest_record():
    X = np.array([[0.0], [1.0], [0.2], [5.0]])
    public = np.array([[0.0], [1.0], [5.0]])
    table = TableMap().fit(public)
    y, owners = np.array([0, 1, 2, 1]), ["a", "a", "b", "b"]
    distances, votes = neighbour_votes(table, X, y, owners, table.transform(public))
    assert distances.shape == (3, 2)
    assert votes.tolist() == [[0, 2], [1, 2], [1, 1]]
    alone, _ = neighbour_votes(table, X, y, None, table.transform(public))
    assert (distances == np.stack([alone[:, :2].min(axis=1), alone[:, 2:].min(axis=1)], axis=1)).all()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ((0, 0.5, 1.0), "n_neighbors"),
        ((3, 0.0, 1.0), "sample_rate"),
        ((3, 1.5, 1.0), "sample_rate"),
        ((3, 0.5, 0.0), "sigma"),
        ((3, 0.5, 1.0, 2.0), "screening_sigma"),
        ((3, 0.5, 1.0, None, 2.0), "threshold"),
    ],
)
def test_settings_that_are_none_are_refused(settings, name):
    with pytest.raises(InvalidInputError, match=name):
        SampledNeighbours(*settings)
