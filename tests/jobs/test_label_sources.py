"""What a plan tells of the files that it read."""

from __future__ import annotations

import pytest

from pate import Budget
from pate.jobs._reading import read_sources
from pate.jobs._request import LabelSettings


@pytest.mark.parametrize("group", [None, "who"])
def test_how_many_records_persons_have_together_is_not_released(tmp_path, group):
    (tmp_path / "p.csv").write_text("who,age,ill\nann,1,no\nann,2,yes\nbob,3,no\n")
    (tmp_path / "u.csv").write_text("age\n1.5\n2.5\n")
    drop = [] if group else ["who"]
    reported = {"target": "ill", "group": group, "drop": drop, "budget": Budget(1.0, 1e-5)}
    source = read_sources(LabelSettings(tmp_path / "p.csv", tmp_path / "u.csv", **reported))
    reported = dict(source.files)
    assert ("rows" in reported["private"]) == (group is None)
    assert reported["public"].endswith("2 rows")
