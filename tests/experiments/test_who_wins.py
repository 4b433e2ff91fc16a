"""What the reports say of PATE and DP-SGD is what was measured."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def who_wins(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import who_wins as script

    yield script
    sys.modules.pop("who_wins", None)


def test_the_stored_table_is_that_of_the_stored_results(who_wins):
    stored = json.loads(who_wins.Config().out.read_text(encoding="utf-8"))
    assert stored == who_wins.measured(who_wins.Config()), "run python experiments/who_wins.py"


def test_verdicts_are_those_of_the_comparisons(who_wins, tmp_path):
    def found(side, verdict, epsilon=1.0):
        return {"side": side, "other": "DP-SGD", "epsilon": epsilon, "verdict": verdict}

    questions = [
        {
            "name": "d",
            "side_verdicts": [found("PATE", "ahead"), found("other", "behind"), found("PATE", "undecided", 3.0)],
        }
    ]
    (tmp_path / "c.json").write_text(json.dumps({"delta": 1e-5, "questions": questions}))
    rows = who_wins.measured(replace(who_wins.Config(), comparisons=tmp_path / "c.json"))["rows"]
    assert [(row["data"], row["epsilon"], row["verdict"]) for row in rows] == [
        ("d", 1.0, "ahead"),
        ("d", 3.0, "undecided"),
    ]
