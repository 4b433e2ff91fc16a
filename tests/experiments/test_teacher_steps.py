"""The table of docs/defaults.md is that of the stored numbers, and the rule is the one that was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pate.teachers.torch._recipe import default_steps

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import teacher_steps

    yield teacher_steps
    sys.modules.pop("teacher_steps", None)


def test_the_published_table_is_that_of_the_published_numbers(script, tmp_path):
    published, made = script.PAGE.read_text(encoding="utf-8"), tmp_path / "page.md"
    before, mark, after = published.partition(script.BEGIN)
    made.write_text(f"{before}{mark}\n\n| old |\n\n{script.END}{after.partition(script.END)[2]}", encoding="utf-8")
    script.write_page(script.RESULT, made)
    assert made.read_text(encoding="utf-8") == published


def test_the_rule_is_as_good_as_twice_its_steps_where_twenty_passes_were_not(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    found = {(c["data"], c["module"], c["records"], c["passes"], c["n_steps"]): c for c in stored["cells"]}
    behind, ahead = [], []
    for name, module, records, _ in stored["config"]["questions"]:
        rule = found[name, module, records, None, None]
        behind.append(found[name, module, records, None, 1000]["vote"] - rule["vote"])
        ahead.append(rule["vote"] - found[name, module, records, stored["config"]["passes"], None]["vote"])
        if default_steps(records, 32) == 500:  # the same teachers: the cell of 500 steps
            assert rule["teacher"] == found[name, module, records, None, 500]["teacher"]
    assert sum(behind) / len(behind) < 0.01
    assert sum(ahead) / len(ahead) > 0.1
