from __future__ import annotations

import exact_reference as reference
import mpmath as mp
import numpy as np
import pytest

from pate.exceptions import InvalidInputError
from pate.privacy.exact._laws import exact_divergences
from pate.privacy.exact._per_teacher import per_teacher_rdp, vote_groups
from pate.privacy.exact.noise import GaussianNoise, ThresholdTest

ORDERS = [1.5, 4.0, 9.0]


def random_labels(seed, n_teachers=7, n_queries=5, n_classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, (n_teachers, n_queries))
    labels[:, ::2] = np.where(rng.random(labels[:, ::2].shape) < 0.8, 1, labels[:, ::2])
    return labels


def to_counts(labels, n_classes):
    return np.stack([(labels == j).sum(axis=0) for j in range(n_classes)], axis=1)


@pytest.mark.long
@pytest.mark.parametrize("test", [None, ThresholdTest(4.0, 2.0)])
def test_against_brute_force(test):
    labels = random_labels(0)
    counts = to_counts(labels, 4)
    cache = {}

    def law(n):
        key = tuple(map(int, n))
        if key not in cache:
            p = reference.gaussian_probs(key, 3.0, step=0.2, reach=10)
            cache[key] = reference.with_threshold(p, key, test.threshold, test.scale) if test else p
        return cache[key]

    want = np.zeros((len(labels), len(ORDERS), 2))
    with mp.workdps(30):
        for t, row in enumerate(labels):
            for i, u in enumerate(row):
                best = np.zeros((len(ORDERS), 2))
                for b in range(4):
                    if b == u:
                        continue
                    moved = counts[i].copy()
                    moved[u] -= 1
                    moved[b] += 1
                    p, q = law(counts[i]), law(moved)
                    pair = [
                        [float(reference.divergence(p, q, a)), float(reference.divergence(q, p, a))] for a in ORDERS
                    ]
                    best = np.maximum(best, pair)
                want[t] += best
    found = per_teacher_rdp(labels, ORDERS, noise=GaussianNoise(3.0), threshold=test, n_classes=4)
    np.testing.assert_allclose(found, want, rtol=1e-11)


def test_between_one_vote_and_the_per_query_maximum():
    labels = random_labels(1, n_teachers=30, n_queries=200)
    counts = to_counts(labels, 4)
    noise = GaussianNoise(6.0)
    found = per_teacher_rdp(labels, ORDERS, noise=noise, counts=counts)
    totals = exact_divergences(counts, ORDERS, noise=noise).totals()
    assert (found.max(axis=0) <= totals.T * (1 + 1e-12)).all()
    # Someone stands behind the worst vote of a single query.
    one = per_teacher_rdp(labels[:, :1], ORDERS, noise=noise, n_classes=4)
    np.testing.assert_allclose(
        one.max(axis=0), exact_divergences(counts[:1], ORDERS, noise=noise).totals().T, rtol=1e-12
    )


def test_sums_over_parts_and_chunks(monkeypatch):
    labels = random_labels(2, n_teachers=12, n_queries=90)
    noise = GaussianNoise(5.0)
    whole = per_teacher_rdp(labels, ORDERS, noise=noise, n_classes=4)
    parts = sum(
        per_teacher_rdp(labels[:, s], ORDERS, noise=noise, n_classes=4) for s in (slice(0, 40), slice(40, None))
    )
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    monkeypatch.setattr("pate.privacy.exact._laws.CHUNK", 7)
    np.testing.assert_allclose(per_teacher_rdp(labels, ORDERS, noise=noise, n_classes=4), whole, rtol=1e-12)


def test_vote_groups_rank_the_counts():
    labels = random_labels(3, n_teachers=15, n_queries=40)
    counts = to_counts(labels, 4)
    found = vote_groups(labels, counts=counts)
    start = found.groups.offsets[found.histograms.inverse]
    np.testing.assert_array_equal(found.groups.values[start + found.votes], counts[np.arange(40), labels])
    assert found.matrix().sum() == labels.size


def test_refusals():
    with pytest.raises(InvalidInputError, match="labels"):
        vote_groups([0, 1])
    with pytest.raises(InvalidInputError, match="every teacher votes"):
        vote_groups([[0, -1]])
    with pytest.raises(InvalidInputError, match="counts"):
        vote_groups([[0, 1], [0, 0]], counts=[[1, 1], [2, 0]])
    with pytest.raises(InvalidInputError, match="number of classes"):
        vote_groups([[0, 5]], n_classes=3)
