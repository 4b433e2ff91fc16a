"""The page's table of clipped votes is that of the stored result, which holds what the page says of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import clipped_votes

    yield clipped_votes
    for name in ("clipped_votes", "several_labels"):
        sys.modules.pop(name, None)


def test_the_published_table_of_clipped_votes_is_that_of_the_stored_result(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert script.table(stored) in script.PAGE.read_text(encoding="utf-8")


def test_clipping_gains_in_average_precision_on_both_splits(script):
    rows = json.loads(script.RESULT.read_text(encoding="utf-8"))["runs"]
    found = {tuple(row[k] for k in ("ballots", "epsilon", "most_labels", "seed")): row["precision"] for row in rows}
    for epsilon in (1.0, 3.0):
        for seed in (0, 1):
            by_label = max(found[kind, epsilon, 0, seed] for kind in ("dense", "sparse"))
            assert min(found["dense", epsilon, most, seed] for most in (1, 2, 3)) > by_label
