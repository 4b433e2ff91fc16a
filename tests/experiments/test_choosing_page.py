"""When PATE wins and when DP-SGD does: the page is that of the stored comparisons, and the data are what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
_MODULES = ("choosing", "_choosing_data", "_choosing_page", "_page")


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import _choosing_data
    import _choosing_page

    yield _choosing_data, _choosing_page
    for name in _MODULES:
        sys.modules.pop(name, None)


def test_the_page_is_that_of_the_stored_comparisons(scripts):
    stored = json.loads((ROOT / "experiments" / "results" / "choosing.json").read_text(encoding="utf-8"))
    written = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    assert written == scripts[1].page(stored), "run python experiments/choosing.py --page"


def test_the_chapter_has_the_tables_of_the_stored_comparisons(scripts, tmp_path):
    stored = json.loads((ROOT / "experiments" / "results" / "choosing.json").read_text(encoding="utf-8"))
    written = (ROOT / "docs" / "pate-or-dpsgd.md").read_text(encoding="utf-8")
    short = scripts[1].short(stored)
    assert short in written, "run python experiments/choosing.py --page"
    made = tmp_path / "chapter.md"
    made.write_text(written.replace(short, "| an old table |"), encoding="utf-8")
    scripts[1].write_chapter(stored, made)
    assert made.read_text(encoding="utf-8") == written
    made.write_text("no lines", encoding="utf-8")
    with pytest.raises(ValueError, match="has no lines"):
        scripts[1].write_chapter(stored, made)


def test_verdicts_are_counted_apart(scripts):
    def found(epsilon, verdict, difference):
        low, high = difference - 0.01, difference + 0.01
        who = {"side": "PATE", "other": "DP-SGD", "epsilon": epsilon}
        return {**who, "verdict": verdict, "difference": difference, "low": low, "high": high}

    def question(name, *verdicts):
        facts = {"n_private": 9, "n_units": 9, "n_public": 3, "n_classes": 2, "repeats": 3, "rule": None}
        empty = {"bands": [], "crossings": [], "balanced": []}
        return {"name": name, "about": "rows", **facts, **empty, "side_verdicts": list(verdicts)}

    one = question("one", found(0.5, "ahead", 0.02), found(3.0, "behind", -0.02))
    two = question("two", found(0.5, "undecided", -0.002))
    assert scripts[1].counted([one, two], 0.5) == {"ahead": 1, "behind": 0, "undecided": 1}
    page = scripts[1].page({"questions": [one, two]})
    assert "| 0.5 | 1 | 1 | 0 | 1 of 2 |" in page
    assert "**PATE** +2.0 (+1.0 to +3.0)" in page
    short = scripts[1].short({"questions": [one, two]})
    assert "| 0.5 | 1 | 1 | 0 | -0.2 | +0.9 | +2.0 |" in short
    assert "| one | 9 | **PATE** +2.0 | **DP-SGD** -2.0 |" in short
    assert "| two | 9 | -0.2 | · |" in short
    assert "Nobody is shown to be ahead at any: two (rows)." in page


def test_data_are_changed_alike_in_every_repeat_and_test_rows_stay_where_they_are_published(scripts):
    for change in ("two", "clusters", "rare"):
        question = scripts[0].Question("q", "a", "pendigits", change=change)
        try:
            data = question.load()
        except Exception as error:
            pytest.skip(f"pendigits is not here: {type(error).__name__}")
        again = data.redrawn(5)
        assert data.redraws == "training rows"
        np.testing.assert_array_equal(again.test.y, data.test.y)
        np.testing.assert_array_equal(again.test.X, data.test.X)
        assert again.private.y.max() == len(data.classes) - 1
        assert not np.array_equal(again.private.y[:100], data.private.y[:100])
        if change == "rare":
            counts = np.bincount(data.private.y)
            assert counts[1::2].max() < 0.3 * counts[::2].min()
