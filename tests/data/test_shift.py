"""The curator is warned of private columns in other units than the public ones, not of honest and biased choices."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import datasets

from pate._core.curator import warn_curator
from pate.data._shift import about_shift
from pate.exceptions import CovariateShiftWarning, CuratorWarning

UNITS = {
    "x10": lambda X: X * 10,
    "/16": lambda X: X / 16,
    "scaler": lambda X: (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9),
    "logarithm": lambda X: np.log1p(X - X.min(axis=0)),
}


@pytest.fixture(scope="module")
def known():
    loaders = ("load_digits", "load_wine", "load_breast_cancer")
    return {name: getattr(datasets, name)().data for name in loaders}


@pytest.mark.long
def test_honest_splits_and_biased_thirds_give_no_warning(known):
    for name, X in known.items():
        n_public = max(25, len(X) // 8)
        for seed in range(8):
            rng = np.random.default_rng(seed)
            order = rng.permutation(len(X))
            assert not about_shift(X[order[n_public:]], X[order[:n_public]]), name
            ranks = X[:, rng.integers(X.shape[1])].argsort(kind="stable").argsort() / len(X)
            weight = 1 / (1 + np.exp(-6 * (ranks - 0.5)))
            biased = rng.choice(len(X), n_public, replace=False, p=weight / weight.sum())
            assert not about_shift(np.delete(X, biased, axis=0), X[biased]), name


def test_other_units_give_a_message_whichever_side_has_them(known):
    for name, X in known.items():
        order = np.random.default_rng(0).permutation(len(X))
        n_public = max(25, len(X) // 8)
        private, public = X[order[n_public:]], X[order[:n_public]]
        for units, turn in UNITS.items():
            assert about_shift(turn(private), public), (name, units)
            assert about_shift(private, turn(public)), (name, units)


def lowest_third(X, rng, n_public):
    """Public rows of the lowest third along the first principal component, and all others."""
    along = np.linalg.svd((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9), full_matrices=False)[0][:, 0]
    public = rng.permutation(np.argsort(along)[: len(X) // 3])[:n_public]
    return np.delete(X, public, axis=0), X[public]


def test_thirds_along_a_direction_are_drawn_otherwise(known):
    for seed in range(3):
        (message,) = about_shift(*lowest_third(known["load_digits"], np.random.default_rng(seed), 100))
        assert message.text.startswith("the public rows are drawn otherwise than the private ones")
        assert message.category is CovariateShiftWarning


def test_categories_and_missing_cells_count_among_all_columns():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1_200, 6)) + 0.8 * rng.normal(size=(1_200, 1))
    frame = pd.DataFrame(rows, columns=list("abcdef")).assign(kind=np.where(rows[:, 0] > 0, "one", "two"))
    frame.loc[::7, "b"] = np.nan
    low = frame.index[rows.sum(axis=1) < np.quantile(rows.sum(axis=1), 1 / 3)][:150]
    assert about_shift(frame.drop(low), frame.loc[low])
    assert not about_shift(frame[200:], frame[:200])


def test_one_column_is_named_with_its_factor():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"height": rng.normal(170, 10, 500), "town": rng.choice(["Oslo", "Rome"], 500)})
    public = frame[:100].assign(height=lambda f: f["height"] / 2.54)
    (message,) = about_shift(frame[100:], public)
    assert message.text.startswith("1 of 2 columns of the private rows has other values than")
    assert "'height' (private values are about 2.5 times the public ones)" in message.text
    with pytest.warns(CovariateShiftWarning, match="for the curator alone"):
        warn_curator([message])


def test_what_one_side_was_kept_in_is_no_other_unit():
    X = np.round(np.random.default_rng(0).normal(size=(400, 3)), 1)
    assert not about_shift(X[:300], X[300:].astype(np.float32))
    assert not about_shift(pd.DataFrame(X[:300]).astype(object), pd.DataFrame(X[300:]))


def test_categories_spelt_otherwise_or_never_seen():
    rng = np.random.default_rng(0)
    column = pd.DataFrame({"sex": rng.choice(["F", "M"], 400)})
    assert not about_shift(column[:300], column[300:])
    assert about_shift(column[:300].replace({"F": "female", "M": "male"}), column[300:])
    ids = pd.DataFrame({"id": [f"p{i}" for i in range(400)]})
    assert not about_shift(ids[:300], ids[300:])  # each stands once on either side
    towns = pd.DataFrame({"town": ["Oslo", "Rome", "Bonn", "Kyiv"] * 100})
    assert about_shift(towns[:300], towns[towns["town"] == "Oslo"])


def test_images_and_sparse_rows():
    images = datasets.load_digits().images
    assert not about_shift(images[:1500], images[1500:])
    assert about_shift(images[:1500] / 16, images[1500:])
    assert about_shift(16 - images[:1500], images[1500:])  # dark on light
    flat = images.reshape(len(images), -1)
    assert about_shift(flat[:1500] / 16, flat[1500:], image_shape=(8, 8))
    counts = sparse.random(500, 300, 0.05, format="csr", random_state=0)
    assert not about_shift(counts[:400], counts[400:])
    assert about_shift(counts[:400] * 100, counts[400:])


def test_no_cell_stops_it_and_nothing_is_touched():
    odd = np.array([[[], 1j], [None, "x"]] * 20, dtype=object)
    X = np.random.default_rng(0).normal(size=(60, 2))
    for private, public in ((odd, X), (X, odd), (X[:, :1], X), (np.array(["a text"] * 40), np.array(["one"] * 40))):
        about_shift(private, public)
    state, kept = random.getstate(), X.copy()
    assert about_shift(X * 100, X)
    assert random.getstate() == state
    assert (kept == X).all()


def test_it_can_be_silenced_by_itself():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CovariateShiftWarning)
        assert warn_curator(about_shift(X * 100, X))
    assert issubclass(CovariateShiftWarning, CuratorWarning)
