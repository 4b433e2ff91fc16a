"""Columns of one unit: one scale for all of them, and the default where public rows look like that."""

from __future__ import annotations

import numpy as np
import pytest

from pate.exceptions import InvalidInputError
from pate.models.recipes import fitted_representation
from pate.representations import TableMap, load


def pixels():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 17, size=(200, 6)).astype(float)
    rows[:, 0] = np.where(rng.random(200) < 0.03, 16.0, 0.0)  # a border: hardly ever anything but 0
    rows[:, 5] = 3.0
    return rows


def test_one_scale_for_all_columns_and_none_for_those_that_do_not_vary(tmp_path):
    rows = pixels()
    table = TableMap(numeric=["common"]).fit(rows)
    z = table.transform(rows)
    assert z.shape == (200, 5)
    scale = np.sqrt(rows[:, :5].var(axis=0).mean())
    np.testing.assert_allclose(z, np.clip((rows[:, :5] - np.median(rows[:, :5], axis=0)) / scale, -4, 4))
    assert z[:, 0].std() < 0.75 * z[:, 1].std()
    odd = rows[:1].copy()
    odd[0, 1] = np.nan
    assert table.transform(odd)[0, 1] == 0.0  # the public median
    table.save(tmp_path / "map.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "map.safetensors").transform(rows), z)


def test_it_stands_alone():
    with pytest.raises(InvalidInputError, match=r"numeric must be \['common'\] alone"):
        TableMap(numeric=["common", "quantile"]).fit(pixels())


def test_the_default_looks_at_public_ranges():
    def way(rows):
        return fitted_representation("table", rows).parts[0].numeric

    rng = np.random.default_rng(1)
    assert way(pixels()) == ["common"]
    assert way(rng.normal(size=(100, 3)) * [1.0, 10.0, 1000.0]) == ["standard"]
    assert way(np.exp(3 * rng.normal(size=(400, 3)))) == ["quantile"]
