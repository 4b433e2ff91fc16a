"""The table of docs/language-models.md is that of the stored numbers, which say what the page says."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import coordinated_votes

    yield coordinated_votes
    sys.modules.pop("coordinated_votes", None)


@pytest.fixture
def stored(script):
    return json.loads(script.RESULT.read_text(encoding="utf-8"))


def test_the_published_table_is_that_of_the_stored_result(script, stored, tmp_path):
    published, made = script.PAGE.read_text(encoding="utf-8"), tmp_path / "page.md"
    made.write_text(published.replace(script.word_table(stored), "old"), encoding="utf-8")
    assert made.read_text(encoding="utf-8") != published
    script.publish(stored, made)
    assert made.read_text(encoding="utf-8") == published


def test_the_stored_result_is_whole(script, stored):
    config = script.Config()
    assert len(stored["gaps"]) == len(config.concentrations)
    assert len(stored["words"]) == len(config.worlds) * len(config.epsilons) * len(script.MECHANISMS) * len(script.HOW)
    assert stored["config"] == json.loads(json.dumps(asdict(config)))


def test_one_race_agrees_and_keeps_the_variety(stored):
    def mean(how, name):
        return np.mean([row[name] for row in stored["words"] if row["how"] == how and row["epsilon"] == 3.0])

    assert mean("one race", "possible") > mean("apart", "possible") + 0.1
    assert mean("one race", "distance") < min(mean("apart", "distance"), mean("most probable", "distance")) - 0.1
    assert mean("most probable", "different") < 3 < 6 < mean("one race", "different")
    alike, near, far = (row["race"] for row in stored["gaps"])
    assert alike == 250 > near > 100 > far > 5 * stored["gaps"][2]["apart"]


def test_votes_apart_are_drawn_from_the_same_distributions(script):
    odds = np.tile([0.5, 0.3, 0.2, 0.0], (4000, 1, 1))
    (counts,) = script._each_for_itself(odds, np.random.default_rng(0))
    assert counts.sum() == 4000
    np.testing.assert_allclose(counts / 4000, odds[0, 0], atol=0.04)


@pytest.mark.long
def test_a_small_one_runs(script):
    made = script.filled(script.SMOKE, script.TABLES, script.cells(script.SMOKE), None)
    assert len(script.word_table(made).splitlines()) == 3 + len(script.HOW)
    assert all(0 <= row["possible"] <= 1 for row in made["words"])
