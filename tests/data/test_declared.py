"""Ranges that a person declared, and what a map within them makes of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pate import Budget, DPSGDClassifier, InvalidInputError
from pate.data import Schema
from pate.dpsgd.recipes import RecipePlan

RANGES = {"age": (0, 120), "town": ["Oslo", "Rome"]}


def test_made_up_rows_fill_the_ranges_and_are_the_same_again():
    rows = Schema.declared(RANGES).stand_ins()
    assert rows["age"].min() == 0
    assert rows["age"].max() == 120
    assert set(rows["town"]) == {"Oslo", "Rome"}
    pd.testing.assert_frame_equal(rows, Schema.declared(dict(RANGES)).stand_ins())
    pairs = [(0, 1), (2, 3)]
    assert np.array_equal(Schema.declared(pairs).stand_ins(), Schema.declared(pairs, n_columns=2).stand_ins())
    assert Schema.declared(RANGES).kinds == {"age": "numeric", "town": "text"}


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ({}, "must name at least one column"),
        ({3: (0, 1)}, "by texts"),
        (7, "must be a mapping"),
        ("age", "must be a mapping"),
        ({"age": 3}, "a range or categories"),
        ({"age": (1, 1)}, "the lower first"),
        ({"age": (0, float("inf"))}, "two finite numbers"),
        ({"age": (0, 1, 2)}, "two numbers, or texts"),
        ({"age": (False, True)}, "two numbers, or texts"),
        ({"town": ["Oslo"]}, "2 to 256 categories"),
        ({"town": list(map(str, range(300)))}, "2 to 256 categories"),
        ([(0, 1)], "each of the 2 columns"),
        ([["a", "b"], (0, 1)], "must be numbers"),
    ],
)
def test_what_is_no_range_is_refused(ranges, text):
    with pytest.raises(InvalidInputError, match=text):
        Schema.declared(ranges, n_columns=2).stand_ins()


@pytest.fixture(scope="module")
def plan():
    return RecipePlan.of((2,), n_units=500, n_classes=2, budget=Budget(1.0, 1e-5), ranges=RANGES)


def test_numbers_outside_are_clipped_and_unknown_categories_are_missing_ones(plan):
    inside = plan.transform(pd.DataFrame({"age": [0.0, 120.0, 60.0], "town": ["Oslo", "Rome", None]}))
    outside = plan.transform(pd.DataFrame({"age": [-7.0, 1e9, None], "town": ["Oslo", "Rome", "Kyiv"]}))
    assert np.allclose(inside, outside, atol=1e-2)
    assert np.allclose(np.linalg.norm(inside, axis=1), 1, atol=1e-3)
    assert plan.recipe.name == "declared"
    assert plan.facts.n_public == 0


def test_ranges_go_with_tables_and_planned_recipes_alone():
    rows, labels = np.eye(8), np.arange(8) % 2
    for options, public, text in (
        ({"module": "linear"}, None, "schema must be None where module"),
        ({}, rows, "X_public must be None where schema= is given"),
        ({"recipe": "unit-rows"}, None, "has no use for schema="),
        ({"image_shape": (16, 16)}, None, "schema is for tables"),
    ):
        wide = np.zeros((8, 256)) if "image_shape" in options else rows
        clf = DPSGDClassifier(budget=Budget(1.0, 1e-3), classes=(0, 1), **options)
        with pytest.raises(InvalidInputError, match=text):
            clf.fit(wide, labels, X_public=public, schema=(0, 1))
    with pytest.raises(InvalidInputError, match="needs schema="):
        DPSGDClassifier(budget=Budget(1.0, 1e-3), classes=(0, 1), recipe="declared").fit(rows, labels)


def test_the_statement_says_that_ranges_were_declared():
    X = pd.DataFrame({"town": ["Oslo", "Rome"] * 20, "age": np.linspace(0, 99, 40)})
    clf = DPSGDClassifier(budget=Budget(1.0, 1e-3), classes=(0, 1)).fit(X, np.arange(40) % 2, schema=RANGES)
    assert [(a.name, a.by) for a in clf.statement_.assumptions][:2] == [
        ("preprocessing", "pate"),
        ("ranges", "curator"),
    ]
    assert clf.predict(X[["age", "town"]]).shape == (40,)
