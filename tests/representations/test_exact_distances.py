"""Distances by whole numbers: those of the definition, and no bit of one depends on the other rows or their order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from pate.representations import KernelPCA, TableMap, chain, load
from pate.representations import _kernel as kernel
from pate.representations._exact import ExactDistances, ExactMap

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("width", [1, 8, 50, 675])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_they_are_the_distances_of_the_definition(width, offset):
    landmarks, rows = (RNG.normal(size=(n, width)) + offset for n in (40, 30))
    scale = np.sqrt(2 * width)
    made = ExactDistances.of(landmarks, scale=scale, reach=22 * scale)
    assert made.step <= scale * 2**-14
    assert np.abs(made.in_steps(rows) * made.step - cdist(rows, landmarks)).max() <= made.step * np.sqrt(width)


def test_every_partial_sum_is_a_whole_number_below_2_to_the_53():
    """At the corners, where sums are largest; checked with fractions."""
    landmarks = np.stack([np.full(300, -5.0), np.full(300, 5.0)])
    made = ExactDistances.of(landmarks, scale=20.0, reach=440.0)
    corner = np.stack([made.low, made.high, np.where(np.arange(300) % 2, made.low, made.high)])
    whole = np.rint((corner - (made.low + made.high) / 2) / made.step)
    places = made.landmarks[:-2] / -2.0
    assert (np.abs(places) <= np.abs(whole).max()).all()
    assert 4 * 300 * int(np.abs(whole).max()) ** 2 < 2**53
    for row, found in zip(whole, made.in_steps(corner) * made.step, strict=True):
        for landmark, distance in zip(places.T, found, strict=True):
            square = sum((int(a) - int(b)) ** 2 for a, b in zip(row, landmark, strict=True))
            assert Fraction(float(distance)) == Fraction(np.sqrt(float(square))) * Fraction(made.step)


def test_a_far_row_is_still_out_of_reach():
    made = ExactDistances.of(RNG.normal(size=(20, 4)), scale=1.0, reach=22.0)
    far = made.in_steps(np.array([[1e9, 0, 0, 0], [0, -1e300, 0, 0]])) * made.step
    assert far.min() >= 22.0 - 2 * made.step


@pytest.mark.parametrize("landmarks", [[[0.0], [1e9]], [[-1e308], [1e308]], [[0.0], [1e-300]]])
def test_where_steps_would_be_too_coarse_there_are_none(landmarks):
    landmarks = np.array(landmarks)
    assert ExactDistances.of(landmarks, scale=min(1.0, landmarks.max()), reach=22.0) is None


@pytest.mark.parametrize("name", ["laplacian", "rbf"])
def test_both_ways_make_the_same_map(name, monkeypatch):
    """With pairs one by one instead, which stands in where steps would be too coarse."""
    X = RNG.normal(size=(200, 6))
    fast = KernelPCA(5, kernel=name).fit(X)
    assert fast._apart is not None
    monkeypatch.setattr(kernel.ExactDistances, "of", lambda *a, **k: None)
    slow = KernelPCA(5, kernel=name).fit(X)
    assert slow._apart is None
    assert np.abs(fast.transform(X) - slow.transform(X)).max() < 1e-5


@pytest.mark.parametrize("apart", [True, False])
def test_a_rows_bits_are_its_own(apart):
    X = RNG.normal(size=(300, 6))
    X[0, 0] = 0.0 if apart else 1e12  # one public row far off: whole steps would be too coarse
    made = KernelPCA(20, n_landmarks=1000).fit(X)
    assert (made._apart is not None) == apart
    rows = RNG.normal(size=(1500, 6))
    whole, order = made.transform(rows), RNG.permutation(1500)
    assert (made.transform(rows[order]) == whole[order]).all()
    assert all((made.transform(rows[i : i + 1]) == whole[i]).all() for i in (0, 63, 64, 1023, 1024, 1499))


def test_the_first_components_alone_are_the_same_bits_and_go_into_a_file(tmp_path):
    X, rows = RNG.normal(size=(300, 6)), RNG.normal(size=(1500, 6))
    whole = chain(TableMap(numeric=["standard"]), KernelPCA(40)).fit(X)
    less = whole.ending_in(whole.parts_[-1].first(7))
    assert (less.n_features_out_, whole.n_features_out_) == (7, 40)
    assert (less.transform(rows) == whole.transform(rows)[:, :7]).all()
    less.save(tmp_path / "less.safetensors")
    again = load(tmp_path / "less.safetensors")
    assert again.fingerprint() == less.fingerprint() != whole.fingerprint()
    assert (again.transform(rows) == less.transform(rows)).all()
    assert whole.parts_[-1].first(99).fingerprint() == whole.parts_[-1].fingerprint()


def test_whole_steps_are_what_rows_become():
    made = ExactMap.of(RNG.normal(size=(5, 3)), low=np.full(5, -2.0), high=np.full(5, 2.0))
    steps = RNG.integers(-(2**22), 2**22, size=(50, 5)).astype(float)
    assert (made.of_steps(steps) == made(steps * made.half / 2**22 + made.centre)).all()
