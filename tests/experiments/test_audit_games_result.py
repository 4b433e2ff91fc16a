"""The stored result of the games is whole, and says what it is cited for."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import audit_games

    yield audit_games
    sys.modules.pop("audit_games", None)


def rows(stored, table, **key):
    return [row for row in stored[table] if key.items() <= row.items()]


def test_what_is_found_and_what_is_not(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert stored["config"] == json.loads(json.dumps(asdict(script.Config()))), "run python experiments/audit_games.py"
    (found,) = rows(stored, "histogram", runs=4000, **{"sigma x": 0.9})
    assert found["power"] >= 0.9
    assert found["power of Clopper-Pearson at delta 1e-5"] == 0
    (tie,) = rows(stored, "GNMax at the tie", sigma=1.0, queries=1, runs=20_000, **{"sigma x": 0.9})
    assert tie["power"] >= 0.9
    assert all(row["power"] == 1 for row in rows(stored, "E1", runs=50))
    honest = rows(stored, "histogram", **{"sigma x": 1.0}) + rows(stored, "GNMax at the tie", **{"sigma x": 1.0})
    assert {row["power"] for row in honest} == {0}
    for row in stored["false alarms"]:
        for rate in stored["config"]["honest_rates"]:
            assert row[f"refuted at {rate:g}"] <= rate + 4 * np.sqrt(rate / row["games"])
    assert all(row["refuted"] == (row.get("sigma x", 0.9) < 1) for row in stored["whole games"])


def test_e1_is_what_the_notes_say(script):
    """One vote decides whether 124 teachers are dropped, and with them what is answered later."""
    tied, apart = script.filter_worlds()
    assert script.cost((126, 124), 1) > script.BUDGET > script.cost((126, 124), 0)
    assert script.cost((125, 125), 0) < script.BUDGET
    assert script.cost((126, 124), 1) == pytest.approx(3.1752e-3, rel=1e-4)
    assert (tied != apart).sum() == 1
    shares = [(script.filtered(world, 1, 400) == 0).mean() for world in (tied, apart)]
    assert shares == pytest.approx([0.507, 0.922], abs=0.03)


@pytest.mark.long
def test_a_small_one_runs(script):
    config = replace(script.SMOKE, games=1, honest_games=2, factors=(0.9,))
    stored = script.run(config, None)
    assert set(stored) >= {"whole games", "false alarms", "histogram", "GNMax at the tie", "E1", "commit"}
