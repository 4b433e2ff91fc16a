"""The page's wall of bugs is what was measured, and every fault was found by every layer that must find it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "mutants"))
    import wall_of_bugs

    yield wall_of_bugs
    sys.modules.pop("wall_of_bugs", None)


@pytest.fixture
def result(script):
    return json.loads(script.RESULT.read_text(encoding="utf-8"))


def test_the_published_table_is_that_of_the_stored_result(script, result, tmp_path):
    published = script.PAGE.read_text(encoding="utf-8")
    assert script.table(result) in published
    made = tmp_path / "page.md"
    made.write_text(published.replace(script.table(result), "an old table"), encoding="utf-8")
    script.write_page(script.RESULT, made)
    assert made.read_text(encoding="utf-8") == published


def test_the_stored_wall_is_the_planted_one(script, result):
    planted = [(m.name, group, set(m.finds), set(m.tried), m.blind) for group, ms in script.GROUPS.items() for m in ms]
    stored = [
        (r["name"], r["group"], set(r["must_find"]), set(r["layers"]) - set(r["must_find"]), r["blind"])
        for r in result["rows"]
    ]
    assert stored == planted, "run python experiments/wall_of_bugs.py"


def test_every_fault_was_found_and_no_honest_code_was_refuted(result):
    for row in result["rows"]:
        for layer, got in row["layers"].items():
            assert got["honest_refuted"] == 0, (row["name"], layer)
            assert layer not in row["must_find"] or got["found"] == got["of"], (row["name"], layer)


def test_blanks_misses_and_blindness_are_counted_apart(script):
    def cell(**changes):
        return {"found": 5, "of": 5, "releases": 1200, "seconds": 0.25, "said": "", "honest_refuted": 0, **changes}

    row = {
        "layers": {"law": cell(), "game": cell(found=0), "pair": cell(releases=0, found=3)},
        "blind": {"replay": "x"},
    }
    assert script._cells(row) == {
        "law": "1,200 releases, 0.25 s",
        "game": "missed (1,200 runs, 0.25 s)",
        "pair": "3 of 5 times (no release, 0.25 s)",
        "replay": "blind",
    }
