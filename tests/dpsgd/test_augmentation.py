"""Copies of images: each row's own, one unit, clipped once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pate import Budget, DPSGDClassifier
from pate.dpsgd import ImageAugmentation
from pate.dpsgd._run import build_engine
from pate.dpsgd._units import Units
from pate.exceptions import InvalidInputError
from pate.privacy.noise.source import NoiseSource

RNG = np.random.default_rng(0)
X = RNG.random((40, 64)).astype(np.float32)
Y = RNG.integers(0, 3, 40)


def test_copies_are_shifts_and_mirrors_of_their_own_row():
    image = torch.arange(1.0, 13.0).reshape(1, 3, 4)
    found = ImageAugmentation((3, 4), multiplicity=400, shift=1, flip=True).copies(image, NoiseSource(0))
    wanted = {}
    for mirror in (False, True):
        row = image.flip(2) if mirror else image
        padded = torch.nn.functional.pad(row, (1, 1, 1, 1))
        for down in range(3):
            for right in range(3):
                wanted[tuple(padded[0, down : down + 3, right : right + 4].flatten().tolist())] = 0
    for copy in found:
        wanted[tuple(copy.flatten().tolist())] += 1  # nothing else
    counts = np.array(list(wanted.values()))
    assert len(counts) == 18
    assert abs(counts - 400 / 18).max() < 5 * np.sqrt(400 / 18)


def test_how_a_row_is_changed_depends_on_no_row():
    augmentation = ImageAugmentation((8, 8), multiplicity=3)
    a = augmentation.copies(torch.as_tensor(X), NoiseSource(4))
    other = X.copy()
    other[7] = 50.0
    b = augmentation.copies(torch.as_tensor(other), NoiseSource(4))
    same = (a == b).reshape(40, 3, -1).all(dim=2).all(dim=1)
    assert same.tolist() == [i != 7 for i in range(40)]


@pytest.mark.few(1)
@pytest.mark.parametrize("owners", [None, np.repeat(np.arange(20), 2)])
def test_copies_are_one_unit_that_is_clipped_once(owners):
    augmentation = ImageAugmentation((8, 8), multiplicity=4)
    units = Units(X * 100, Y, owners, 3, augmentation=augmentation)
    assert units.rows_per_unit == 4 * (1 if owners is None else 3)
    engine = build_engine("linear", 64, 3)
    for i in range(5):
        rows, labels, weights = units.take(np.array([i]), NoiseSource(1))
        assert weights is None or float(weights.sum()) == pytest.approx(1.0)
        options = {"rows_per_unit": units.rows_per_unit, "weights": weights, "seed": 0}
        alone = engine.clipped_sum(rows, labels, 0.5, **options)
        assert 0.4 < float(torch.cat([part.flatten() for part in alone]).norm()) <= 0.5 * (1 + 1e-6)


@pytest.mark.long
def test_in_a_whole_fit():
    options = {"budget": Budget(8.0, 1e-3), "classes": range(3), "expected_batch_size": 10, "epochs": 2}
    augmentation = ImageAugmentation((8, 8), multiplicity=2, shift=1)
    clf = DPSGDClassifier("linear", augmentation=augmentation, **options).fit(X, Y)
    plain = DPSGDClassifier("linear", **options).fit(X, Y)
    assert clf.guarantee_ == plain.guarantee_
    assert clf.noise_multiplier_ == plain.noise_multiplier_
    with pytest.raises(InvalidInputError, match="images of"):
        DPSGDClassifier("linear", augmentation=ImageAugmentation((7, 7)), **options).fit(X, Y)
    with pytest.raises(InvalidInputError, match="augmentation must be"):
        DPSGDClassifier("linear", augmentation="shift", **options).fit(X, Y)
    for wrong in ((8,), [8, 8], (8, 0)):
        with pytest.raises(InvalidInputError, match="image_shape"):
            ImageAugmentation(wrong)
