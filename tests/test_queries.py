"""Which public rows are asked about: decided by public things alone."""

from __future__ import annotations

import inspect
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pate import InvalidInputError
from pate.data.queries import STRATEGIES, least_sure, select_queries

X = np.random.default_rng(0).normal(size=(60, 4))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("n_queries", [1, 7, 60])
def test_positions_are_distinct_ascending_and_in_range(strategy, n_queries):
    rows = select_queries(X, n_queries, strategy=strategy, random_state=0)
    assert rows.dtype == np.int64
    assert 1 <= len(rows) <= n_queries
    assert (np.diff(rows) > 0).all()
    assert rows.min() >= 0
    assert rows.max() < 60
    if strategy != "spread":
        assert len(rows) == n_queries


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_rows_are_all_rows(strategy):
    assert select_queries(X, 60, strategy=strategy).tolist() == list(range(60))


def test_first_takes_the_first():
    assert select_queries(X, 5, strategy="first").tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("strategy", ["random", "spread", "cluster"])
def test_the_same_seed_selects_the_same_rows(strategy):
    first = select_queries(X, 9, strategy=strategy, random_state=3)
    assert np.array_equal(first, select_queries(X, 9, strategy=strategy, random_state=3))
    others = [select_queries(X, 9, strategy=strategy, random_state=s) for s in range(4, 9)]
    assert any(not np.array_equal(first, other) for other in others)


def test_without_a_seed_the_rows_change():
    assert len({tuple(select_queries(X, 9)) for _ in range(5)}) > 1


def test_random_rows_are_uniform():
    """Every row is taken about as often: 400 draws of 15 of 60 rows, mean 100, standard deviation 8.7."""
    hits = np.zeros(60)
    for seed in range(400):
        hits[select_queries(X, 15, strategy="random", random_state=seed)] += 1
    assert hits.min() > 100 - 6 * 8.7
    assert hits.max() < 100 + 6 * 8.7


def test_spread_takes_one_row_per_cluster():
    """Thirty rows at each of two corners and one between them: three queries see all three places."""
    rng = np.random.default_rng(1)
    places = [np.zeros((30, 2)), np.full((1, 2), 5.0), np.full((30, 2), 10.0)]
    crowd = np.concatenate([p + 0.01 * rng.normal(size=p.shape) for p in places])
    for seed in range(5):
        rows = select_queries(crowd, 3, strategy="spread", random_state=seed)
        assert sorted(crowd[rows, 0].round() // 5) == [0, 1, 2]


def test_spread_covers_better_than_chance():
    """The mean distance from a row to the nearest asked one is smaller than for random rows."""

    def far(rows):
        return np.linalg.norm(X[:, None] - X[rows][None], axis=2).min(axis=1).mean()

    spread = np.mean([far(select_queries(X, 10, strategy="spread", random_state=s)) for s in range(5)])
    chance = np.mean([far(select_queries(X, 10, strategy="random", random_state=s)) for s in range(5)])
    assert spread < chance


def test_spread_over_repeated_rows_returns_fewer_and_is_silent():
    repeated = np.repeat(X[:3], 10, axis=0)
    rows = select_queries(repeated, 6, strategy="spread", random_state=0)
    assert rows.tolist() == [0, 10, 20]
    # As many times as it stands there, so much a row weighs.
    crowd = np.concatenate([np.zeros((90, 1)), [[1.0], [2.0], [10.0]]])
    for seed in range(5):
        assert select_queries(crowd, 2, strategy="spread", random_state=seed).tolist() == [0, 92]
    nearly = np.concatenate([np.full((5, 2), 1e9) + 1e-7 * np.arange(10).reshape(5, 2), np.zeros((5, 2))])
    assert len(select_queries(nearly, 4, strategy="spread", random_state=0)) <= 4


def test_frames_and_what_spread_cannot_take():
    frame = pd.DataFrame(X)
    assert np.array_equal(
        select_queries(frame, 6, strategy="spread", random_state=0),
        select_queries(X, 6, strategy="spread", random_state=0),
    )
    mixed = frame.assign(town="Oslo")
    assert len(select_queries(mixed, 6, random_state=0)) == 6
    with pytest.raises(InvalidInputError, match="needs numeric public rows"):
        select_queries(mixed, 6, strategy="spread")
    with pytest.raises(InvalidInputError, match="without NaN"):
        select_queries(frame.mask(frame > 1), 6, strategy="spread")


@pytest.mark.parametrize("n_queries", [0, -1, 61, 2.5, True, None])
def test_bad_numbers_of_queries(n_queries):
    with pytest.raises(
        InvalidInputError, match=r"n_queries must be a whole number >= 1 and <= 60.*There are 60 public"
    ):
        select_queries(X, n_queries)


def test_unknown_strategy():
    with pytest.raises(
        InvalidInputError, match="strategy must be one of 'auto', 'first', 'random', 'spread', 'cluster', got 'best'"
    ):
        select_queries(X, 3, strategy="best")


def test_cluster_finds_the_clusters_among_many_rows():
    """Of 300,000 rows at 8 far corners 8 questions see nearly all corners, in seconds."""
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 8, 300_000)
    places = 100.0 * np.array([[(c >> k) & 1 for k in range(3)] for c in range(8)])
    crowd = (places[corner] + rng.normal(size=(300_000, 3))).astype(np.float32)
    start = time.perf_counter()
    rows = select_queries(crowd, 8, strategy="cluster", random_state=0)
    assert time.perf_counter() - start < 20
    assert len(rows) == 8
    assert rows.max() > 20_000
    assert len(set(corner[rows])) >= 6


def test_cluster_returns_as_many_as_are_distinct():
    repeated = np.repeat(X[:5], 10, axis=0)
    assert select_queries(repeated, 7, strategy="cluster", random_state=0).tolist() == [0, 10, 20, 30, 40]
    assert len(select_queries(repeated, 4, strategy="cluster", random_state=0)) == 4


def test_cluster_takes_numbers_only():
    frame = pd.DataFrame(X)
    assert len(select_queries(frame, 6, strategy="cluster", random_state=0)) == 6
    with pytest.raises(InvalidInputError, match="strategy='cluster' needs numeric public rows"):
        select_queries(frame.assign(town="Oslo"), 6, strategy="cluster")
    with pytest.raises(InvalidInputError, match="without NaN"):
        select_queries(frame.mask(frame > 1), 6, strategy="cluster")


def test_least_sure():
    p = [[0.2, 0.5, 0.3], [0.9, 0.05, 0.05], [0.34, 0.33, 0.33], [0.5, 0.5, 0.0]]
    assert least_sure(p, 2).tolist() == [2, 3]
    assert least_sure(p, 4).tolist() == [0, 1, 2, 3]
    assert least_sure(p, 0).tolist() == []
    assert least_sure([[1.0], [1.0]], 1).tolist() == [0]
    for bad, n in (([0.5, 0.5], 1), ([[np.nan, 1.0]], 1), (p, 5)):
        with pytest.raises(InvalidInputError):
            least_sure(bad, n)


def test_nothing_private_can_be_passed():
    assert set(inspect.signature(select_queries).parameters) == {
        "X_public",
        "n_queries",
        "strategy",
        "random_state",
        "one_scale",
    }


def test_auto_spreads_numbers_whatever_their_units_and_draws_from_the_rest():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(c, 0.1, (40, 2)) for c in (0.0, 1.0, 2.0)])
    units = rows * [1.0, 1e6]
    alike = select_queries(rows / rows.std(axis=0), 9, strategy="spread", random_state=0)
    assert select_queries(units, 9, random_state=0).tolist() == alike.tolist()
    assert select_queries(units, 9, strategy="spread", random_state=0).tolist() != alike.tolist()
    drawn = select_queries(rows, 9, strategy="random", random_state=0).tolist()
    texts = np.array([f"note {i}" for i in range(120)], dtype=object)
    gaps = np.where(rng.random(rows.shape) < 0.1, np.nan, rows)
    for other in (texts, gaps, sparse.csr_array(rows)):
        assert select_queries(other, 9, random_state=0).tolist() == drawn
