"""What a plan tells of the files that it read."""

from __future__ import annotations

import pytest

from pate import Budget
from pate.jobs._reading import read_sources
from pate.jobs._request import LabelSettings
from pate.models.recipes import kind_of


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


@pytest.mark.parametrize("codes", [(), ("note",)])
def test_texts_of_one_column_are_categories_where_somebody_said_that_they_are_codes(tmp_path, codes):
    rows = [f"a cold day {i}" for i in range(30)]
    (tmp_path / "p.csv").write_text("note,ill\n" + "".join(f"{row},no\n" for row in rows))
    (tmp_path / "u.csv").write_text("note\n" + "".join(f"{row} again\n" for row in rows))
    said = {"target": "ill", "text": codes, "budget": Budget(1.0, 1e-5)}
    source = read_sources(LabelSettings(tmp_path / "p.csv", tmp_path / "u.csv", **said))
    assert (source.kind, kind_of(source.public)) == (("table", "mixed") if codes else ("texts", "text"))
