"""That features are what their papers say, and that their sums are exact."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import rbf_kernel

from pate.representations import PublicPCA, RandomFourier, TableMap, TextMap, combine
from pate.representations._exact import ExactMap


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(1, 8), st.integers(-40, 40), st.integers(0, 2**32 - 1))
def test_sums_are_exact_in_any_order_and_never_pass_2_to_53(n_in, n_out, magnitude, seed):
    rng = np.random.default_rng(seed)
    weights = rng.standard_cauchy((n_in, n_out)) * 2.0**magnitude
    low = -rng.exponential(size=n_in) * 2.0 ** rng.integers(-20, 20, n_in)
    high = rng.exponential(size=n_in)
    product = ExactMap.of(weights, low=low, high=high)
    corners = np.where(product.weights[:, 0] > 0, high, low)  # where the first sum is as large as it can be
    rows = np.vstack([corners, low + rng.random((5, n_in)) * (high - low)])
    steps = np.rint(np.clip((rows - product.centre) / product.half, -1, 1) * 2**22)
    by_hand = [
        [sum(int(s) * int(w) for s, w in zip(row, column, strict=True)) for column in product.weights.T]
        for row in steps
    ]
    assert max(abs(total) for row in by_hand for total in row) <= 2**53
    assert np.array_equal(product(rows), np.array(by_hand, dtype=np.float64) * product.unit)
    wanted = (rows - product.centre) @ weights
    assert np.allclose(product(rows), wanted, rtol=0, atol=4e-6 * np.abs(weights * product.half[:, None]).sum(axis=0))


def test_the_product_of_a_plain_blas_is_not_exact_which_is_why_this_one_is():
    """The planted fault: without whole numbers the last bits depend on a row's place, on some machine or other."""
    X, W = normal(1024, 300), normal(300, 40, 1)
    order = np.random.default_rng(0).permutation(1024)
    product = ExactMap.of(W, low=X.min(axis=0), high=X.max(axis=0))
    assert np.array_equal(product(X)[order], product(X[order]))
    assert np.array_equal(product(X[:, ::-1]), product(X[:, ::-1].copy()))
    plain = [X @ W, np.vstack([row @ W for row in X]), np.einsum("ij,jk->ik", X, W)]
    assert any(not np.array_equal(plain[0], other) for other in plain[1:])


@pytest.mark.parametrize(("bandwidth", "times"), [("median", 1.0), (0.5, 0.5)])
def test_scalar_products_come_near_the_gaussian_kernel(bandwidth, times):
    X = normal(400, 6)
    rep = RandomFourier(8192, bandwidth=bandwidth).fit(X)
    z = rep.transform(X[:60])
    median = np.median(np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(400, 1)])
    assert rep.bandwidth_ == pytest.approx(times * median)
    assert np.abs(z @ z.T - rbf_kernel(X[:60], gamma=0.5 / rep.bandwidth_**2)).max() < 0.05
    assert np.abs(np.linalg.norm(z, axis=1) - 1).max() < 1e-3


def test_principal_components_are_scikit_learns():
    X = normal(500, 6) @ normal(6, 6, 1)
    ours, theirs = PublicPCA(4, alpha=0.0).fit(X), PCA(4).fit(X)
    assert np.allclose(ours.spectrum_, theirs.explained_variance_)
    assert np.allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=1e-4)
    assert ours.total_variance_ == pytest.approx(X.var(axis=0, ddof=1).sum())


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.8, 1.0])
def test_whitening_is_partial(alpha):
    X = normal(2000, 5) * [30.0, 10.0, 3.0, 1.0, 1e-3]
    rep = PublicPCA(alpha=alpha).fit(X)
    assert np.allclose(rep.transform(X).var(axis=0, ddof=1), rep.spectrum_ ** (1 - alpha), rtol=1e-3)


def test_a_direction_without_variance_counts_nothing():
    X = np.hstack([normal(50, 2), np.ones((50, 1))])
    assert np.array_equal(PublicPCA(alpha=1.0).fit(X).transform(X)[:, 2], np.zeros(50))
    few = normal(4, 9)
    assert PublicPCA().fit(few).n_components_ == 3


def test_table_columns_by_hand():
    X = pd.DataFrame({"n": [0.0, 1.0, 2.0, 3.0, 4.0], "t": ["a", "a", "b", "b", "c"]})
    z = TableMap(numeric=["standard", "quantile", "thermometer"], n_bins=2).fit(X).transform(X)
    share = 3**-0.5
    assert np.allclose(z[:, 0], (X["n"] - 2) / (2 / 1.349) * share)
    assert np.allclose(z[:, 1], (np.array([0.1, 0.3, 0.5, 0.7, 0.9]) - 0.5) * 12**0.5 * share)
    assert np.allclose(z[:, 2], np.array([0, 0.5, 1, 1, 1]) * 3**0.5 * share)
    assert np.allclose(z[:, 3], np.array([0, 0, 0, 0.5, 1]) * 3**0.5 * share)
    assert z[:, 4:].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]  # "c" stands there once


def test_every_column_has_a_variance_of_about_one():
    z = TableMap().fit(normal(3000, 1)).transform(normal(3000, 1))
    assert 0.7 < z.var(axis=0).sum() < 1.5


def test_a_value_that_most_rows_hold_has_a_step_of_its_own():
    X = np.where(np.arange(1000) % 10 == 0, np.arange(1000.0), 0.0)[:, None]
    z = TableMap(numeric=["thermometer"]).fit(X).transform(X)
    assert len(np.unique(z[X[:, 0] > 0], axis=0)) > 90


def test_categories_beyond_the_most_frequent_are_one():
    X = pd.DataFrame({"t": list("aaaabbbccd")})
    rep = TableMap(max_categories=2).fit(X)
    z = rep.transform(pd.DataFrame({"t": ["a", "b", "c", "d", "never seen", None]}))
    assert z.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]


def test_missing_cells_are_marked_where_public_ones_were_missing():
    X = pd.DataFrame({"n": [1.0, 2.0, None, 4.0], "t": ["a", "a", None, "b"]})
    z = TableMap(numeric=["standard"]).fit(X).transform(X)
    assert z[:, 1].tolist() == [0, 0, 1, 0]
    assert z[:, -1].tolist() == [0, 0, 1, 0]


def test_weights_of_a_combination_are_mean_squares():
    X = normal(300, 4)
    z = combine(PublicPCA(), RandomFourier(64), weights=[2, 0.5]).fit(X).transform(X)
    assert (z[:, :4] ** 2).sum(axis=1).mean() == pytest.approx(2, rel=1e-9)
    assert (z[:, 4:] ** 2).sum(axis=1).mean() == pytest.approx(0.5, rel=1e-9)


def test_text_weights_are_scikit_learns():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["Ship", "sail", "north", "Süd", "rain"], 5)) for _ in range(40)]
    rep = TextMap(3, ngram_range=[1, 1]).fit(texts)
    theirs = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode").fit(texts)
    assert rep.vocabulary_ == theirs.get_feature_names_out().tolist()
    assert np.allclose(rep._weighted(texts).toarray(), theirs.transform(texts).toarray())
    whole = TextMap(99, ngram_range=[1, 1]).fit(texts)
    assert np.allclose(
        whole.transform(texts) @ whole.transform(texts).T,
        (theirs.transform(texts) @ theirs.transform(texts).T).toarray(),
    )
