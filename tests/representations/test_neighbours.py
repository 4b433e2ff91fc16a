"""Rows drawn to the public rows near them: each by itself, kept to the bit, and nearer to their own kind."""

from __future__ import annotations

import numpy as np
import pytest

from pate import InvalidInputError
from pate.exceptions import SensitiveValueError
from pate.privacy.words import Sensitive
from pate.representations import PublicNeighbours, load


def clusters(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    return np.eye(4)[y] + rng.normal(size=(n, 4)) * 0.35, y


PUBLIC, KIND = clusters(400, 0)


def test_by_hand():
    """Of one round: unit rows, the mean of the two nearest with itself, then of a row's nearest among those."""
    X = np.array([[1.0, 0.0], [2.0, 0.2], [0.0, 1.0], [0.1, 3.0]])
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    drawn = np.stack([unit[[0, 1]].mean(0)] * 2 + [unit[[2, 3]].mean(0)] * 2)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    rep = PublicNeighbours(1, rounds=1).fit(X)
    np.testing.assert_allclose(rep.transform([[5.0, 0.1], [0.0, 0.3]]), drawn[[0, 2]], atol=1e-6)


def test_rows_come_nearer_to_their_own_kind():
    """The share of all variance that is within classes shrinks."""
    X, y = clusters(1000, 1)

    def within(z):
        means = np.stack([z[y == c].mean(axis=0) for c in range(4)])
        return ((z - means[y]) ** 2).sum() / ((z - z.mean(axis=0)) ** 2).sum()

    assert within(PublicNeighbours().fit(PUBLIC).transform(X)) < 0.7 * within(X)


def test_a_row_moves_no_other_and_is_finite_whatever_it_holds():
    rep, X = PublicNeighbours().fit(PUBLIC), clusters(1500, 2)[0]
    other = X.copy()
    other[7], other[8], other[9] = np.nan, 1e300, 0.0
    one, two = rep.transform(X), rep.transform(other)
    rest = np.delete(np.arange(1500), [7, 8, 9])
    np.testing.assert_array_equal(one[rest], two[rest])
    assert np.isfinite(two).all()
    assert not rep.exact_


def test_it_is_kept_to_the_bit(tmp_path):
    rep, X = PublicNeighbours(5, rounds=3).fit(PUBLIC), clusters(50, 3)[0]
    rep.save(tmp_path / "rep.safetensors")
    again = load(tmp_path / "rep.safetensors")
    np.testing.assert_array_equal(again.transform(X), rep.transform(X))
    assert again.fingerprint() == rep.fingerprint()
    assert PublicNeighbours(5, rounds=2).fit(PUBLIC).fingerprint() != rep.fingerprint()


def test_what_cannot_be_is_refused():
    with pytest.raises(InvalidInputError, match="got 400 for 400 rows"):
        PublicNeighbours(400).fit(PUBLIC)
    with pytest.raises(SensitiveValueError):
        PublicNeighbours().fit(Sensitive(PUBLIC))
