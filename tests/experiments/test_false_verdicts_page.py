"""The page of comparisons says what was measured of its rule, and the worlds are what they are said to be."""

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
    import false_verdicts

    yield false_verdicts
    for name in ("false_verdicts", "_worlds"):
        sys.modules.pop(name, None)


def test_the_published_tables_are_those_of_the_stored_result(script, tmp_path):
    published = script.PAGE.read_text(encoding="utf-8")
    result = json.loads(script.RESULT.read_text(encoding="utf-8"))
    tables = script.tables(result)
    assert all(script.BEGIN.format(name) in published for name in tables)
    made = tmp_path / "page.md"
    made.write_text(published.replace(tables["gaps found"], "| an old table |"), encoding="utf-8")
    script.write_page(script.RESULT, made)
    assert made.read_text(encoding="utf-8") == published


def test_the_stored_result_is_whole_and_keeps_the_level(script):
    result = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert result["config"] == json.loads(json.dumps(asdict(script.Config()))), (
        "run python experiments/false_verdicts.py"
    )
    keys = [(table, key) for table, key, _ in script.cells(script.Config())]
    assert len(keys) == sum(len(result[table]) for table in ("rates", "power", "crossings"))
    assert all(any(key.items() <= row.items() for row in result[table]) for table, key in keys)
    for row in result["rates"]:
        assert row["world"] in script.LOPSIDED or row["rule"] <= 0.05 * row["studies"], row


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "name",
    ["published", "few rows", "wrong fits", "persons", "training part", "pool", "tiny pool", "nearest", "stumps"],
)
def test_contestants_of_a_world_are_equal_on_average(script, name):
    rng = np.random.default_rng(1)
    world = script.WORLDS[name][0]
    accuracy = np.array([world.draw(rng, 2, 1, 2).mean(axis=(1, 2, 3)) for _ in range(150)])
    gap = accuracy[:, 0] - accuracy[:, 1]
    assert abs(gap.mean()) < 4 * gap.std(ddof=1) / np.sqrt(len(gap))
    assert 0.3 < accuracy.mean() < 0.95
    assert gap.std() > 0


def test_lopsided_contestants_are_equal_on_average_too(script):
    rng = np.random.default_rng(2)
    world = script.LOPSIDED["lopsided"][0]
    gaps = [np.subtract(*world.draw(rng, 2, 1, 10).mean(axis=(1, 2, 3))) for _ in range(300)]
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(len(gaps))


def test_gaps_are_as_large_as_they_are_said_to_be(script):
    rng = np.random.default_rng(3)
    right = np.broadcast_to(rng.random((2, 5, 1, 100_000)) < 0.8, (2, 5, 3, 100_000))
    ahead = script.ahead_by(right, 0.02, 3, rng).mean(axis=(2, 3)) - right.mean(axis=(2, 3))
    assert ahead[0, 3] == pytest.approx(0.02, abs=0.003)
    assert np.count_nonzero(ahead) == 1
    tilted = script.tilted(right, 0.03, rng).mean(axis=(2, 3)) - right.mean(axis=(2, 3))
    assert tilted[0] - tilted[1] == pytest.approx(0.03 * np.arange(-2.5, 2), abs=0.003)
    with pytest.raises(ValueError, match="more than what it misses"):
        script.ahead_by(right, 0.3, 0, rng)


def test_a_killed_run_goes_on_where_it_was(script, tmp_path, monkeypatch):
    config = script.Config(
        repeats=(3,), contestants=(2,), epsilons=(1,), gaps=(0.02,), slopes=(0.02,), studies=4, studies_of_many=2
    )
    monkeypatch.setattr(script, "WORLDS", {"few rows": script.WORLDS["few rows"]})
    monkeypatch.setattr(script, "POWER", {})
    path = tmp_path / "result.json"
    whole = script.run(config, path)
    assert [row["world"] for row in whole["rates"]] == ["few rows", "lopsided"]
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["rates"] = stored["rates"][:1]
    path.write_text(json.dumps(stored), encoding="utf-8")
    counted = []
    monkeypatch.setattr(script, "count", lambda *args: counted.append(args) or {"rule": 0})
    script.run(config, path)
    assert len(counted) == 1
