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


def test_the_guide_quotes_what_was_measured(script):
    rows = {row["what"]: row for row in json.loads(script.RESULT.read_text(encoding="utf-8"))["rows"]}
    chapter = (script.PAGE.parent / "public-rows.md").read_text(encoding="utf-8")
    honest = [row for what, row in rows.items() if what.startswith("honest split")]
    assert sum(row["told"] for row in honest) == 0
    assert f"no false warning in {sum(row['of'] for row in honest)} tries" in chapter

    def share(what, digits=0):
        return f"{rows[what]['told'] / rows[what]['of']:.{digits}%}"

    for what in ("whole table: times 10", "whole table: a scaler on one side"):
        assert (rows[what]["told"], rows[what]["of"]) == (176, 176)
    assert "always (176 of 176)" in chapter
    assert (
        f"| one column times 10 | {share('one column: times 10')} of {rows['one column: times 10']['of']:,} |"
        in chapter
    )
    assert f"inches, not centimetres | {share('one column: inches for centimetres')}: " in chapter
    assert f"{share('public rows of one third of a column', 1)} of 792 by that column alone" in chapter
    assert rows["public rows of one third of a column"]["of"] == 792
    rare = rows["public rows 20 times as often of one class"]
    assert f"**no** ({rare['told']} of {rare['of']})" in chapter


def test_what_was_measured_bears_out_the_threshold(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    share = {row["what"]: row["told"] / row["of"] for row in stored["rows"]}
    honest = [value for what, value in share.items() if what.startswith("honest")]
    assert len(honest) == 4
    assert max(honest) <= 0.01
    assert all(value <= 0.05 for what, value in share.items() if what.startswith("public rows"))
    assert all(value >= 0.9 for what, value in share.items() if what.startswith("whole table"))
