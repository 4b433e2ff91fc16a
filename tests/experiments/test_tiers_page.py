"""The page's table of budgets per tier is that of the stored result, which holds what the page says of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import tiers

    yield tiers
    sys.modules.pop("tiers", None)


def test_the_published_table_is_that_of_the_stored_result(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert script.table(stored) in script.PAGE.read_text(encoding="utf-8")


def test_tiers_are_ahead_of_the_lowest_and_of_the_largest_alone(script):
    rows = json.loads(script.RESULT.read_text(encoding="utf-8"))["rows"]
    for n in (1_000, 3_000, 30_000):
        by = {m: [row["accuracy"] for row in rows if (row["n"], row["method"]) == (n, m)] for m in script.METHODS}
        assert {len(found) for found in by.values()} == {10}
        assert np.mean(by["tiers"]) > max(np.mean(by["lowest"]), np.mean(by["top"]))
