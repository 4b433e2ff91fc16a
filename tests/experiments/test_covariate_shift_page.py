"""The page's table of curators' warnings is what was measured, by the threshold that the code has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import covariate_shift

    yield covariate_shift
    sys.modules.pop("covariate_shift", None)


def test_the_published_table_is_that_of_the_stored_result(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert script.table(stored) in script.PAGE.read_text(encoding="utf-8")


def test_what_was_measured_bears_out_the_threshold(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    share = {row["what"]: row["told"] / row["of"] for row in stored["rows"]}
    honest = [value for what, value in share.items() if what.startswith("honest")]
    assert len(honest) == 4
    assert max(honest) <= 0.01
    assert all(value <= 0.05 for what, value in share.items() if what.startswith("public rows"))
    assert all(value >= 0.9 for what, value in share.items() if what.startswith("whole table"))
