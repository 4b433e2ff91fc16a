"""The table of few labels in docs/defaults.md is that of the stored result, and the default student is no worse."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    yield importlib.import_module("few_labels")
    for name in ("few_labels", "_tables"):
        sys.modules.pop(name, None)


def test_the_published_table_is_that_of_the_stored_result(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    assert stored["config"] == json.loads(json.dumps(asdict(script.Config())))
    assert script.table(stored) in script.PAGE.read_text(encoding="utf-8")


def test_the_default_student_is_ahead_wherever_it_spread_answers(script):
    rows = json.loads(script.RESULT.read_text(encoding="utf-8"))["rows"]
    accuracy = {(r["data"], r["labels"], r["seed"], r["method"]): r["accuracy"] for r in rows}
    spread = [(r["data"], r["labels"], r["seed"]) for r in rows if r["spread_right"] is not None]
    assert spread
    for key in spread:
        others = [accuracy[(*key, m)] for m in script.METHODS[:2] if (*key, m) in accuracy]
        assert accuracy[(*key, "default")] > max(others)
