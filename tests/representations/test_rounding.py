"""What public rows hold but for rounding counts for nothing: scaling would make it as loud as all the rest."""

from __future__ import annotations

import numpy as np
import pytest

from pate.data import of_one_unit
from pate.representations import TableMap, TextMap

WORDS = ["ship", "sail", "crew", "tax", "loan", "bank", "rain", "wind", "snow"]


def texts(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 4)) for _ in range(n)]


@pytest.mark.parametrize("n_components", [256, 60, 5])
def test_no_component_beyond_the_public_texts_rank(n_components):
    public = texts(40) * 3  # a rank of 40 at most, by more texts and more terms
    made = TextMap(n_components).fit(public)
    found = made.transform(public)
    assert found.shape[1] == min(n_components, np.linalg.matrix_rank(made._weighted(public).toarray()))
    assert np.linalg.matrix_rank(found) == found.shape[1] == made.n_features_out_
    assert np.linalg.norm(found, axis=0).min() > 1e-6


def test_texts_that_are_all_one_have_one_component():
    assert TextMap().fit(["a ship"] * 5).transform(["a ship", "no"]).shape == (2, 1)


@pytest.mark.parametrize("numeric", ["standard", "quantile", "common"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_column_of_one_number_but_for_rounding_is_left_out(numeric, dtype):
    rng = np.random.default_rng(0)
    step = np.finfo(dtype).eps
    X = np.column_stack([rng.normal(size=90), 0.577 * (1 + step * rng.integers(-2, 3, 90)), rng.normal(size=90)])
    assert TableMap(numeric=[numeric]).fit(X.astype(dtype)).n_features_out_ == 2


@pytest.mark.parametrize(
    "column",
    [
        np.arange(90) * 1e-19,  # an honest unit, many orders from the others'
        np.where(np.arange(90) % 2, 1.6e-19, -1.6e-19),
        1.7e18 + np.arange(90) * 1e5,  # nanoseconds since 1970, within ten milliseconds
        np.where(np.arange(90) == 7, 1e9 + 1, 1e9),
    ],
)
def test_honest_units_stay_however_far_apart(column):
    X = np.column_stack([np.random.default_rng(0).normal(size=90), column])
    assert TableMap(numeric=["standard"]).fit(X).n_features_out_ == 2


def test_rounding_does_not_decide_whether_columns_are_of_one_unit():
    rng = np.random.default_rng(0)
    pixels = rng.random((90, 4))
    assert of_one_unit(np.hstack([pixels, 1 + 2e-16 * rng.integers(-2, 3, (90, 9))]))
    assert not of_one_unit(np.hstack([pixels, 1e-9 * rng.random((90, 9))]))
