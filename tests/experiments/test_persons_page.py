"""The page's table of what persons cost is that of the stored result, which holds what the page says of it."""

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
    import persons

    yield persons
    sys.modules.pop("persons", None)


def test_the_published_table_is_that_of_the_stored_result(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert script.table(stored) in script.PAGE.read_text(encoding="utf-8")


def test_the_page_says_what_persons_cost_and_that_one_record_of_each_is_no_better(script):
    rows = json.loads(script.RESULT.read_text(encoding="utf-8"))["rows"]

    def mean(k, how, method, epsilon):
        key = {"k": k, "how": how, "method": method, "epsilon": epsilon}
        found = [row["accuracy"] for row in rows if key.items() <= row.items()]
        assert len(found) == 3
        return 100 * np.mean(found)

    for k, epsilon, low, high in ((3, 1.0, 3.5, 5), (10, 1.0, 8.5, 10), (3, 3.0, -0.5, 0.5), (10, 3.0, 4, 6.5)):
        kept = [mean(k, how, "all", epsilon) for how in ("mixed", "alike")]
        assert all(low <= mean(1, "mixed", "all", epsilon) - one <= high for one in kept)
        assert mean(k, "mixed", "one", epsilon) < max(kept)
    persons = script.persons_of(np.arange(20) % 2, 3, "alike", 0)
    assert np.bincount(persons).tolist() == [3] * 6 + [2]
