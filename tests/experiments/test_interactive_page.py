"""The page's figures of offsets are what was measured, and reach what was asked for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import interactive

    yield interactive
    sys.modules.pop("interactive", None)


def test_the_published_tables_are_those_of_the_stored_result(script):
    result = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert script.page(result) in script.PAGE.read_text(encoding="utf-8")


def test_offsets_even_out_the_classes_at_the_same_rate_and_accuracy(script):
    none, fair, _ = json.loads(script.RESULT.read_text(encoding="utf-8"))["classes"]
    assert none["least"] / none["most"] == pytest.approx(0.59, abs=0.005)
    assert fair["least"] / fair["most"] >= 0.97
    assert fair["answered"] == pytest.approx(none["answered"], abs=0.001)
    assert fair["plurality right"] == pytest.approx(none["plurality right"], abs=0.002)


@pytest.mark.skipif("PATE_DATA_HOME" not in os.environ, reason="needs the published votes")
@pytest.mark.long
def test_the_stored_rates_are_those_of_the_votes(script):
    counts = script.load_votes("papernot_mnist").counts
    y = script.rows_voted_on(len(counts))[1]
    none, fair, _ = json.loads(script.RESULT.read_text(encoding="utf-8"))["classes"]
    for row in (none, fair):
        each, overall = script.rates(counts, y, row["values"], script.Config())
        assert [each.min(), each.max(), overall] == pytest.approx([row["least"], row["most"], row["answered"]])
    assert np.array_equal(script.equalised(counts, y, script.Config()), fair["values"])
